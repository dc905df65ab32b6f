//! The receiving half: puts the stream together and decides when to acknowledge (RFC 5681 section 4.2).

use std::collections::VecDeque;

use taut_core::{Duration, Event, Time};
use taut_wire::tcp::{SackBlock, SackBlocks};

use super::Counting;
use super::TcpConfig;
use super::framing::{Deframer, TooLong};
use super::sack::Run;

/// More separate runs than this are not kept out of order: the peer sends again what was not acknowledged.
const MAX_RUNS: usize = 1024;

/// What becomes of the stream.
#[derive(Debug)]
pub(super) enum Inbox {
    /// It is cut into messages.
    Messages(Deframer),
    /// Its bytes are counted.
    Sink,
}

/// The receiving half of a connection.
#[derive(Debug)]
pub(super) struct Receiver {
    /// RCV.NXT.
    next: u64,
    /// RCV.WND: what is in order is consumed at once, so it is always the whole buffer.
    window: u64,
    inbox: Inbox,
    delivered: u64,
    /// Runs beyond `next`, the one that changed last first (RFC 2018 section 4), and their bytes from `next` on.
    beyond: Vec<Run>,
    store: VecDeque<u8>,
    /// Where the peer's FIN is, once it was seen.
    fin: Option<u64>,
    pub(super) ack: Ack,
    /// Is the peer told what it sent twice (RFC 2883)? And what that was, until it is told.
    reports_duplicates: bool,
    duplicate: Option<Run>,
    /// The acknowledgement that is held back goes at this time.
    pub(super) timer: Option<Time>,
    every: u64,
    delay: Duration,
    /// Bytes that the last acknowledgement did not cover, and segments.
    unacknowledged: u64,
    segments: u64,
    counted: Counting,
    /// The longest data of a segment so far: what "full-sized" means.
    full_size: u64,
}

/// Is there an acknowledgement to send?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ack {
    /// No, or not yet.
    NotNow,
    /// Now; data may carry it.
    Now,
    /// Now and without data, so that it counts as a duplicate (RFC 5681 section 2) and has room for SACK blocks.
    Alone,
}

/// The data of a segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece<'a> {
    pub(super) start: u64,
    pub(super) data: &'a [u8],
    /// Zeros that follow `data`.
    pub(super) padding: u64,
    pub(super) fin: bool,
}

/// What a segment was worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It brought something, or nothing was in it.
    Useful,
    /// All of it had arrived before.
    Duplicate,
    /// It lies outside of the window.
    OutOfWindow,
}

impl Receiver {
    pub(super) fn new(config: &TcpConfig) -> Self {
        Self {
            next: 0,
            window: config.receive_window.get(),
            inbox: Inbox::Messages(Deframer::new(config.max_message)),
            delivered: 0,
            beyond: Vec::new(),
            store: VecDeque::new(),
            fin: None,
            ack: Ack::NotNow,
            reports_duplicates: config.rack,
            duplicate: None,
            timer: None,
            every: u64::from(config.ack_every),
            delay: config.ack_delay,
            unacknowledged: 0,
            segments: 0,
            counted: config.counted,
            full_size: 0,
        }
    }

    /// Bytes are counted from here on, not kept.
    pub(super) fn sink(&mut self) {
        self.inbox = Inbox::Sink;
    }

    pub(super) fn counts_only(&self) -> bool {
        matches!(self.inbox, Inbox::Sink)
    }

    /// The peer's SYN was at `initial`.
    pub(super) fn begin(&mut self, initial: u64) {
        self.next = initial + 1;
    }

    /// The next sequence number expected.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// The peer has said its last and all of it is here.
    pub(super) fn is_finished(&self) -> bool {
        self.fin.is_some_and(|fin| self.next > fin)
    }

    /// The whole window (RFC 9293 section 3.8.6.2.2).
    pub(super) fn window(&self) -> u64 {
        self.window
    }

    /// Takes the data of a segment in.
    pub(super) fn take(
        &mut self,
        now: Time,
        piece: Piece<'_>,
        events: &mut VecDeque<Event>,
    ) -> Result<Verdict, TooLong> {
        let len = piece.data.len() as u64 + piece.padding;
        let end = piece.start + len;
        if len == 0 && !piece.fin {
            // A bare acknowledgement; one outside of the window is a keep-alive or a stray, and wants an answer.
            if piece.start < self.next || piece.start > self.next + self.window {
                self.ack = Ack::Now;
            }
            return Ok(Verdict::Useful);
        }
        if end + u64::from(piece.fin) <= self.next {
            self.ack = Ack::Now;
            self.note_duplicate(Run { start: piece.start, end });
            return Ok(Verdict::Duplicate);
        }
        if piece.start >= self.next + self.window {
            self.ack = Ack::Now;
            return Ok(Verdict::OutOfWindow);
        }
        if piece.fin && self.fin.is_none() {
            self.fin = Some(end);
        }
        self.full_size = self.full_size.max(len);
        // What had arrived already (RFC 2883 section 4.3).
        self.note_duplicate(Run { start: piece.start, end: self.next });
        if piece.start <= self.next && self.beyond.is_empty() {
            self.take_in_order(now, piece, events)?;
            return Ok(Verdict::Useful);
        }
        self.take_out_of_order(piece, end, events)
    }

    fn take_in_order(
        &mut self,
        now: Time,
        piece: Piece<'_>,
        events: &mut VecDeque<Event>,
    ) -> Result<(), TooLong> {
        let skip = self.next - piece.start;
        let new = (piece.data.len() as u64 + piece.padding - skip).min(self.window);
        let from = (skip as usize).min(piece.data.len());
        let to = piece.data.len().min((skip + new) as usize);
        if let Inbox::Messages(deframer) = &mut self.inbox {
            deframer.push(&piece.data[from..to], events)?;
        }
        self.advance(new);
        self.unacknowledged += new;
        self.segments += 1;
        let enough = match self.counted {
            Counting::Bytes => self.unacknowledged >= self.every * self.full_size,
            Counting::Segments => self.segments >= self.every,
        };
        if self.fin == Some(self.next) {
            self.next += 1;
            self.ack = Ack::Now;
        } else if enough || self.delay.is_zero() {
            self.ack = Ack::Now;
        } else if self.timer.is_none() && self.ack == Ack::NotNow {
            self.timer = Some(now + self.delay);
        }
        Ok(())
    }

    /// Something is missing before, or was until now: acknowledge at once (RFC 5681 section 4.2).
    fn take_out_of_order(
        &mut self,
        piece: Piece<'_>,
        end: u64,
        events: &mut VecDeque<Event>,
    ) -> Result<Verdict, TooLong> {
        let run = Run { start: piece.start.max(self.next), end: end.min(self.next + self.window) };
        let known = self.beyond.iter().any(|have| have.start <= run.start && have.end >= run.end);
        self.ack = Ack::Alone;
        if run.start < run.end {
            // The one that all wait for always has room.
            if !known && run.start > self.next && self.beyond.len() >= MAX_RUNS {
                return Ok(Verdict::OutOfWindow);
            }
            let overlap = |have: &Run| Run { start: have.start.max(run.start), end: have.end.min(run.end) };
            if let Some(twice) = self.beyond.iter().map(overlap).find(|both| both.start < both.end) {
                self.note_duplicate(twice);
            }
            if !known {
                self.keep(piece, run);
            }
            self.merge(run);
        }
        self.deliver_what_is_in_order(events)?;
        if self.beyond.is_empty() && self.fin.is_none_or(|fin| fin <= self.next) {
            self.ack = Ack::Now;
        }
        if self.fin == Some(self.next) {
            self.next += 1;
        }
        Ok(if known && !piece.fin { Verdict::Duplicate } else { Verdict::Useful })
    }

    /// It arrived a second time, in a segment that may have brought more. It is told at once: no data goes before.
    fn note_duplicate(&mut self, run: Run) {
        if self.reports_duplicates && run.start < run.end {
            self.duplicate = Some(run);
            if self.ack == Ack::NotNow {
                self.ack = Ack::Now;
            }
        }
    }

    fn keep(&mut self, piece: Piece<'_>, run: Run) {
        if self.counts_only() {
            return;
        }
        let (from, to) = ((run.start - self.next) as usize, (run.end - self.next) as usize);
        if self.store.len() < to {
            self.store.resize(to, 0);
        }
        let skip = (run.start - piece.start) as usize;
        self.store.range_mut(from..to).zip(&piece.data[skip..]).for_each(|(kept, byte)| *kept = *byte);
    }

    /// The run joins those that it touches and goes to the front.
    fn merge(&mut self, mut run: Run) {
        self.beyond.retain(|have| {
            let apart = have.end < run.start || have.start > run.end;
            if !apart {
                run = Run { start: have.start.min(run.start), end: have.end.max(run.end) };
            }
            apart
        });
        self.beyond.insert(0, run);
    }

    fn deliver_what_is_in_order(&mut self, events: &mut VecDeque<Event>) -> Result<(), TooLong> {
        let Some(at) = self.beyond.iter().position(|run| run.start <= self.next) else { return Ok(()) };
        let new = self.beyond.remove(at).end - self.next;
        self.advance(new);
        self.unacknowledged += new;
        if let Inbox::Messages(deframer) = &mut self.inbox {
            let (front, back) = self.store.as_slices();
            let middle = front.len().min(new as usize);
            deframer.push(&front[..middle], events)?;
            deframer.push(&back[..new as usize - middle], events)?;
            self.store.drain(..new as usize);
        }
        Ok(())
    }

    fn advance(&mut self, bytes: u64) {
        self.next += bytes;
        self.delivered += bytes;
    }

    /// The timer expired.
    pub(super) fn handle_timeout(&mut self, now: Time) {
        if self.timer.is_some_and(|at| at <= now) {
            self.timer = None;
            self.ack = Ack::Now;
        }
    }

    /// Does the acknowledgement go without data?
    pub(super) fn acknowledges_alone(&self) -> bool {
        self.ack == Ack::Alone || self.duplicate.is_some()
    }

    /// An acknowledgement went out.
    pub(super) fn acknowledged(&mut self) {
        self.ack = Ack::NotNow;
        self.duplicate = None;
        self.timer = None;
        self.unacknowledged = 0;
        self.segments = 0;
    }

    /// What to report beyond the acknowledgement; before it, once, a duplicate (RFC 2883 section 4).
    pub(super) fn sack_blocks(&self) -> SackBlocks {
        self.duplicate
            .iter()
            .chain(&self.beyond)
            .map(|run| SackBlock { left: run.start as u32, right: run.end as u32 })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duplicate_is_reported_once_before_all_else() {
        // RFC 2883 sections 4.1 and 4.2.
        let mut receiver = Receiver::new(&TcpConfig { rack: true, ..TcpConfig::default() });
        receiver.sink();
        receiver.begin(0);
        let mut blocks_after = |start, padding| {
            let piece = Piece { start, data: &[], padding, fin: false };
            receiver.take(Time::ZERO, piece, &mut VecDeque::new()).unwrap();
            let blocks = receiver.sack_blocks();
            receiver.acknowledged();
            blocks.as_slice().iter().map(|block| (block.left, block.right)).collect::<Vec<_>>()
        };
        assert_eq!(blocks_after(1, 100), []);
        assert_eq!(blocks_after(1, 50), [(1, 51)]);
        assert_eq!(blocks_after(201, 100), [(201, 301)]);
        assert_eq!(blocks_after(401, 100), [(401, 501), (201, 301)]);
        assert_eq!(blocks_after(221, 30), [(221, 251), (201, 301), (401, 501)]);
        // Section 4.3: of what brings more, the part that does not.
        assert_eq!(blocks_after(51, 100), [(51, 101), (201, 301), (401, 501)]);
        assert_eq!(blocks_after(281, 50), [(281, 301), (201, 331), (401, 501)]);
    }

    #[test]
    fn a_part_that_arrived_twice_is_told_at_once_and_holds_no_data_up() {
        for (rack, ack) in [(false, Ack::NotNow), (true, Ack::Now)] {
            let mut receiver = Receiver::new(&TcpConfig { rack, ..TcpConfig::default() });
            receiver.sink();
            receiver.begin(0);
            for (start, padding) in [(1, 1_000), (1_001, 10)] {
                let piece = Piece { start, data: &[], padding, fin: false };
                receiver.take(Time::ZERO, piece, &mut VecDeque::new()).unwrap();
                receiver.acknowledged();
            }
            let piece = Piece { start: 1_001, data: &[], padding: 20, fin: false };
            receiver.take(Time::ZERO, piece, &mut VecDeque::new()).unwrap();
            assert_eq!((receiver.next(), receiver.ack), (1_021, ack), "RACK {rack}");
        }
    }

    #[test]
    fn what_all_wait_for_is_taken_however_many_runs_lie_beyond() {
        let mut receiver = Receiver::new(&TcpConfig::default());
        receiver.sink();
        receiver.begin(0);
        let mut take = |start| {
            let piece = Piece { start, data: &[], padding: 1, fin: false };
            receiver.take(Time::ZERO, piece, &mut VecDeque::new())
        };
        let beyond = MAX_RUNS as u64;
        assert!((1..=beyond).all(|run| take(1 + 2 * run) == Ok(Verdict::Useful)));
        assert_eq!(take(3 + 2 * beyond), Ok(Verdict::OutOfWindow));
        assert_eq!(take(1), Ok(Verdict::Useful));
        assert_eq!(take(2), Ok(Verdict::Useful));
        assert_eq!(receiver.next(), 4);
    }
}
