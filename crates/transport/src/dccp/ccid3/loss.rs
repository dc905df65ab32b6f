//! From arrivals to loss intervals (RFC 4342 sections 6.1 and 10.2, RFC 5348 section 5).

use std::collections::VecDeque;

use taut_core::{Duration, Time};
use taut_wire::dccp::{LossInterval, Seq};

use super::super::reordering::Reordering;
use super::equation::{INTERVALS, loss_event_rate, mean_interval};

/// Packets that must arrive after a hole before it is a loss.
const NDUPACK: usize = 3;
/// Packets that may be undecided at a time: the widest Sequence Window that an end may be configured to. A peer may announce one of 2⁴⁶, and a
/// Sync after a silence is held to none.
const MAX_UNDECIDED: usize = 65_536;

/// A packet that arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrived {
    pub(super) at: Time,
    /// It carried data.
    pub(super) data: bool,
    /// It was marked.
    pub(super) marked: bool,
    /// Its window counter; means something with data only.
    pub(super) counter: u8,
    /// So many without data went directly before it.
    pub(super) ndp: u64,
}

/// The loss intervals that a receiver saw.
#[derive(Clone, Debug)]
pub(super) struct LossHistory {
    /// Closed intervals, the newest first; of the connection's first one only the synthetic length counts.
    closed: VecDeque<LossInterval>,
    open: Open,
    /// Packets after the last one that belongs to an interval.
    undecided: VecDeque<Option<Arrived>>,
    /// The last packet that belongs to an interval.
    last: Seq,
    /// Window counter of the last data packet that arrived, in an interval.
    counter: Option<u8>,
    reordering: Reordering,
}

/// The interval that is not over yet.
#[derive(Clone, Copy, Debug)]
struct Open {
    /// Its first packet.
    start: Seq,
    /// The last one that was lost or marked; `None` in the connection's first interval.
    loss: Option<Seq>,
    /// Data packets in it.
    data: u32,
    /// The window counter of the last data packet before it.
    before: Option<u8>,
    /// A data packet arrived more than a round trip after that one: the next loss is another event.
    passed: bool,
}

impl LossHistory {
    /// The packet `first` is the first that is to come.
    pub(super) fn new(first: Seq) -> Self {
        Self {
            closed: VecDeque::new(),
            open: Open { start: first, loss: None, data: 0, before: None, passed: false },
            undecided: VecDeque::new(),
            last: first.minus(1),
            counter: None,
            reordering: Reordering::default(),
        }
    }

    /// A measured round trip.
    pub(super) fn round_trip(&mut self, rtt: Duration) {
        self.reordering.round_trip(rtt);
    }

    /// A packet arrived for the first time. `rate`: data packets that arrive in a round trip, for the length of the first
    /// interval. True when a new loss event was found.
    pub(super) fn record(&mut self, seq: Seq, packet: Arrived, rate: f64) -> bool {
        let Some(index) = seq.since(self.last).checked_sub(1).and_then(|ahead| usize::try_from(ahead).ok())
        else {
            // Its hole was already taken for a loss.
            self.reordering.mistaken();
            return false;
        };
        let (index, mut found) =
            if index < MAX_UNDECIDED { (index, false) } else { (0, self.jump(seq, rate)) };
        if self.undecided.len() <= index {
            self.undecided.resize(index + 1, None);
        } else {
            self.reordering.overtaken();
        }
        self.undecided[index] = Some(packet);
        found |= self.decide(packet.at, rate);
        if found {
            self.reordering.reduced();
        }
        found
    }

    /// Goes on right before `seq`, too far away for everything between to be looked at: one loss. True when that is a new event.
    fn jump(&mut self, seq: Seq, rate: f64) -> bool {
        self.undecided.clear();
        self.last = seq.minus(1);
        self.open.data += 1;
        self.lose(self.last, rate)
    }

    /// Moves everything into intervals that has three arrivals after it, the first of them as long ago as [`Reordering`]
    /// says, and everything before the first hole.
    fn decide(&mut self, now: Time, rate: f64) -> bool {
        let window = self.reordering.window();
        let mut found = false;
        loop {
            let hole = self.undecided.iter().take_while(|slot| slot.is_none()).count();
            let Some(Some(next)) = self.undecided.get(hole).copied() else { return found };
            let enough = || self.undecided.iter().skip(hole).flatten().take(NDUPACK).count() == NDUPACK;
            if hole > 0 && (!enough() || now < next.at + window) {
                return found;
            }
            for lost in 0..hole as u64 {
                self.last = self.last.next();
                // The packets directly before the next arrival were without data, if it says so (RFC 4340 section 7.7).
                if lost + next.ndp < hole as u64 {
                    self.open.data += 1;
                    found |= self.lose(self.last, rate);
                }
            }
            self.undecided.drain(..=hole);
            self.arrive(next);
            if next.data && next.marked {
                found |= self.lose(self.last, rate);
            }
            if next.data {
                self.counter = Some(next.counter);
            }
        }
    }

    fn arrive(&mut self, packet: Arrived) {
        self.last = self.last.next();
        if !packet.data {
            return;
        }
        self.open.data += 1;
        if self.open.loss.is_some() && !packet.marked {
            // Where nothing came before the loss, the circle of counters begins with what came after it.
            self.open.before.get_or_insert(packet.counter);
            self.open.passed |= self.is_far(packet.counter);
        }
    }

    /// More than four quarters of a round trip after the packet before the loss (RFC 4342 section 10.2)?
    fn is_far(&self, counter: u8) -> bool {
        self.open.before.is_some_and(|before| counter.wrapping_sub(before) & 0x0f > 4)
    }

    /// The packet `seq`, counted in the open interval already, was lost or marked. True when that is a new event.
    fn lose(&mut self, seq: Seq, rate: f64) -> bool {
        let first = self.open.loss.is_none();
        if !first && !self.open.passed {
            self.open.loss = Some(seq);
            return false;
        }
        let mut over = self.interval(seq.minus(1));
        over.data = if first {
            // RFC 5348 section 6.3.1: as long as would allow the rate at which data arrived, half a packet at least.
            (1.0 / loss_event_rate(rate.max(0.5))).clamp(1.0, f64::from(0xff_ffff)) as u32
        } else {
            (self.open.data - 1).max(1)
        };
        self.closed.push_front(over);
        self.closed.truncate(INTERVALS - 1);
        self.open = Open { start: seq, loss: Some(seq), data: 1, before: self.counter, passed: false };
        true
    }

    /// The open interval, as if it ended with `end`.
    fn interval(&self, end: Seq) -> LossInterval {
        let (start, loss) = (self.open.start, self.open.loss);
        let length = |from: Seq, to: Seq| u32::try_from(to.since(from).max(0)).unwrap_or(u32::MAX);
        LossInterval {
            lossless: length(loss.unwrap_or(start.minus(1)), end),
            nonce: false,
            lossy: loss.map_or(0, |loss| length(start.minus(1), loss)),
            data: if loss.is_some() { self.open.data.max(1) } else { 0 },
        }
    }

    /// How many packets belong to no interval yet, and the intervals, the newest first (RFC 4342 section 8.6.1).
    pub(super) fn report(&self) -> (u8, impl Iterator<Item = LossInterval> + '_) {
        let mut open = self.interval(self.last);
        // Three at most may be skipped; what else is undecided is taken for arrived as yet.
        let skip = self.undecided.len().min(NDUPACK);
        open.lossless = open.lossless.saturating_add((self.undecided.len() - skip) as u32);
        (skip as u8, std::iter::once(open).chain(self.closed.iter().copied()))
    }

    /// The loss event rate p; 0 before the first loss.
    pub(super) fn rate(&self) -> f64 {
        let mut lengths = [0; INTERVALS];
        let mut count = 0;
        for (length, interval) in lengths.iter_mut().zip(self.report().1) {
            *length = interval.data;
            count += 1;
        }
        mean_interval(&lengths[..count]).map_or(0.0, |mean| 1.0 / mean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(counter: u8) -> Arrived {
        Arrived { at: Time::ZERO, data: true, marked: false, counter, ndp: 0 }
    }

    fn history() -> LossHistory {
        LossHistory::new(Seq::new(0))
    }

    /// Lets the packets arrive that are not lost; a counter step for every five packets.
    fn run(history: &mut LossHistory, packets: std::ops::Range<u64>, lost: &[u64]) -> Vec<u64> {
        let arrived = packets.filter(|seq| !lost.contains(seq));
        arrived.filter(|seq| history.record(Seq::new(*seq), data((seq / 5 % 16) as u8), 10.0)).collect()
    }

    fn reported(history: &LossHistory) -> (u8, Vec<(u32, u32, u32)>) {
        let (skip, intervals) = history.report();
        (skip, intervals.map(|i| (i.lossless, i.lossy, i.data)).collect())
    }

    #[test]
    fn without_loss_there_is_one_interval_and_no_rate() {
        let mut history = history();
        assert_eq!(run(&mut history, 0..50, &[]), Vec::<u64>::new());
        assert_eq!(reported(&history), (0, vec![(50, 0, 0)]));
        assert!(history.rate() <= 0.0);
    }

    #[test]
    fn a_hole_is_a_loss_when_three_arrived_after_it() {
        let mut history = history();
        assert_eq!(run(&mut history, 0..13, &[10]), Vec::<u64>::new(), "two arrived");
        assert_eq!(reported(&history), (3, vec![(10, 0, 0)]));
        assert_eq!(run(&mut history, 13..14, &[]), [13]);
        let first = (1.0 / loss_event_rate(10.0)) as u32;
        assert_eq!(reported(&history), (0, vec![(3, 1, 4), (10, 0, first)]));
    }

    #[test]
    fn a_late_packet_fills_its_hole() {
        let mut history = history();
        run(&mut history, 0..12, &[10]);
        assert!(!history.record(Seq::new(10), data(2), 10.0));
        assert_eq!(run(&mut history, 12..40, &[]), Vec::<u64>::new());
        assert_eq!(reported(&history), (0, vec![(40, 0, 0)]));
    }

    /// RFC 4342 section 10.2: counters up to four after the one before the first loss are the same round trip.
    #[test]
    fn losses_within_a_round_trip_are_one_event() {
        let mut history = history();
        assert_eq!(run(&mut history, 0..40, &[10, 12, 29]), [14], "counters 1 to 5");
        let (_, intervals) = reported(&history);
        assert_eq!(intervals[0], (10, 20, 30));
        // Counter 7 (packet 35 on) is more than four after counter 1: the next loss is another event.
        assert_eq!(run(&mut history, 40..60, &[41]), [44]);
        let (_, intervals) = reported(&history);
        assert_eq!(intervals[..2], [(18, 1, 19), (11, 20, 31)]);
    }

    #[test]
    fn a_flow_that_begins_with_a_loss_has_more_events_after_it() {
        let mut history = history();
        assert_eq!(run(&mut history, 0..100, &[0, 50]), [3, 53]);
    }

    #[test]
    fn marks_are_losses_and_what_carried_no_data_is_not() {
        let mut history = history();
        run(&mut history, 0..20, &[]);
        let marked = Arrived { marked: true, ..data(4) };
        assert!(history.record(Seq::new(20), marked, 10.0));
        run(&mut history, 21..60, &[]);
        // 60 and 61 are missing; the next packet says that the one before it was without data.
        let after = Arrived { ndp: 1, ..data(12) };
        assert!(!history.record(Seq::new(62), after, 10.0));
        history.record(Seq::new(63), data(12), 10.0);
        assert!(history.record(Seq::new(64), data(12), 10.0), "60 was lost");
        assert_eq!(reported(&history).1[..2], [(4, 1, 4), (39, 1, 40)]);
        // Marked packets without data are no losses.
        let ack = Arrived { data: false, ..marked };
        (65..100).for_each(|seq| assert!(!history.record(Seq::new(seq), ack, 10.0)));
    }

    #[test]
    fn a_jump_beyond_every_window_is_one_loss_and_takes_no_memory() {
        for far in [65_536, 1 << 40, 1 << 46] {
            let mut history = history();
            run(&mut history, 0..30, &[28]);
            assert!(history.record(Seq::new(far + 30), data(12), 10.0));
            assert!(history.undecided.capacity() < 1_000);
            assert_eq!(run(&mut history, far + 31..far + 60, &[]), Vec::<u64>::new());
            let (skip, intervals) = reported(&history);
            assert_eq!((skip, intervals[0], intervals.len()), (0, (30, 1, 31), 2));
        }
    }

    #[test]
    fn many_undecided_packets_are_not_all_skipped() {
        let mut history = history();
        run(&mut history, 0..30, &(10..29).collect::<Vec<_>>());
        assert_eq!(reported(&history), (3, vec![(27, 0, 0)]));
    }
}
