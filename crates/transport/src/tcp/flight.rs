//! What is under way: how much of the congestion window it takes and, for round trips and RACK (RFC 8985), when each segment was sent.

use std::collections::VecDeque;

use taut_core::{Duration, Time};

use super::sack::{DUP_THRESH, Run, Scoreboard};
use super::{Counting, echoes_before};

/// Segments that are not acknowledged, and the measure of ranges of sequence numbers in what the window counts. The window
/// is in bytes either way: where it counts segments, each takes a whole SMSS, however short it is.
#[derive(Clone, Debug)]
pub(super) struct Flight {
    unit: Counting,
    smss: u64,
    /// Ascending, without gaps.
    segments: VecDeque<Sent>,
    rack: Rack,
    delivered: u64,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    start: u64,
    end: u64,
    /// The last time.
    at: Time,
    again: bool,
    /// By SACK.
    reported: bool,
    /// Taken for lost, and not sent since.
    lost: bool,
}

/// RFC 8985 section 5.3.
#[derive(Clone, Copy, Debug, Default)]
struct Rack {
    /// RACK.xmit_ts and RACK.end_seq: of what has arrived, the one that was sent last.
    newest: (Time, u64),
    rtt: Duration,
    min_rtt: Option<Duration>,
    /// Of what an acknowledgement covers, the round trip: it counts behind what the same one reports, as in Linux.
    covered: Option<Duration>,
    /// RACK.fack: the end of the highest that has arrived.
    highest: u64,
    reordered: bool,
    /// RACK.reo_wnd_mult without the first, RACK.reo_wnd_persist and RACK.dsack_round (section 6.2 step 4).
    steps: u32,
    persist: u32,
    round: u64,
}

/// Recoveries for which the patience stays grown.
const PERSIST: u32 = 16;
/// It grows no further, as in Linux.
const MAX_STEPS: u32 = 254;

impl Flight {
    pub(super) fn new(unit: Counting, smss: u64) -> Self {
        Self { unit, smss, segments: VecDeque::new(), rack: Rack::default(), delivered: 0 }
    }

    /// What the last of all segments that have arrived took to be acknowledged, by whatever means.
    pub(super) fn round_trip(&self) -> Option<Duration> {
        self.rack.min_rtt.is_some().then_some(self.rack.rtt)
    }

    /// Segments that were acknowledged, in order or by SACK.
    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// What the bytes from `from` up to `to` take. A segment of which a part lies there is there.
    pub(super) fn weigh(&self, from: u64, to: u64) -> u64 {
        if from >= to {
            return 0;
        }
        match self.unit {
            Counting::Bytes => to - from,
            Counting::Segments => {
                let first = self.segments.partition_point(|sent| sent.end <= from);
                let last = self.segments.partition_point(|sent| sent.start < to);
                last.saturating_sub(first) as u64 * self.smss
            }
        }
    }

    /// What one segment of `len` bytes takes.
    pub(super) fn segment(&self, len: u64) -> u64 {
        match self.unit {
            Counting::Bytes => len,
            Counting::Segments => self.smss,
        }
    }

    /// The bytes that one segment may have where so much of the window is free.
    pub(super) fn fits(&self, room: u64) -> u64 {
        match self.unit {
            Counting::Segments if room < self.smss => 0,
            _ => room,
        }
    }

    /// A segment goes, for the first time or again. What goes again in one piece is one segment from now on.
    pub(super) fn sent(&mut self, now: Time, seq: u64, end: u64) {
        let sent = Sent { start: seq, end, at: now, again: false, reported: false, lost: false };
        if self.segments.back().is_none_or(|last| last.end < end) {
            self.segments.push_back(sent);
            return;
        }
        let first = self.segments.partition_point(|known| known.end <= seq);
        let last = self.segments.partition_point(|known| known.end <= end);
        // It may cut one in two at its end, and, when it is a probe or a rescue, at its beginning.
        if let Some(rest) = self.segments.get_mut(last).filter(|rest| rest.start < end) {
            rest.start = end;
        }
        if let Some(before) = self.segments.get_mut(first).filter(|before| before.start < seq) {
            let whole = *before;
            before.start = seq;
            self.segments.insert(first, Sent { end: seq, ..whole });
            return self.sent(now, seq, end);
        }
        self.segments.drain(first..last);
        self.segments.insert(first, Sent { again: true, ..sent });
    }

    /// Everything below `una` is acknowledged. The round trip of the first of it that nobody reported, unless something of it
    /// went again (Karn's algorithm), as in Linux (`tcp_clean_rtx_queue`). `echo`: the round trip by timestamps; what went again after the time that
    /// is echoed was not what arrived, and tells RACK nothing (RFC 8985 section 6.2 step 2).
    pub(super) fn acknowledge(&mut self, now: Time, una: u64, echo: Option<Duration>) -> Option<Duration> {
        let (mut sent, mut again) = (None, false);
        self.rack.covered = None;
        while let Some(first) = self.segments.front().copied().filter(|first| first.end <= una) {
            self.segments.pop_front();
            again |= first.again;
            if !first.reported {
                sent = sent.or(Some(first.at));
                let is_other = first.again && echo.is_some_and(|rtt| echoes_before(now, rtt, first.at));
                if !is_other && self.rack.arrived(now, &first) {
                    self.rack.covered = Some(self.rack.rtt);
                }
                self.delivered += 1;
            }
        }
        if let Some(first) = self.segments.front_mut() {
            first.start = first.start.max(una);
        }
        sent.filter(|_| !again).map(|at| now.saturating_since(at))
    }

    /// What the peer reports beyond its acknowledgement has arrived.
    pub(super) fn report(&mut self, now: Time, board: &Scoreboard) {
        for run in board.runs() {
            let from = self.segments.partition_point(|sent| sent.start < run.start);
            let within = self.segments.range_mut(from..).take_while(|sent| sent.end <= run.end);
            for sent in within.filter(|sent| !sent.reported) {
                (sent.reported, sent.lost) = (true, false);
                self.rack.arrived(now, sent);
                self.delivered += 1;
            }
        }
        if let Some(covered) = self.rack.covered.take() {
            self.rack.rtt = covered;
        }
    }

    /// Marks what was sent so long before something that has arrived that it is lost (RFC 8985 section 6.2 step 5); the
    /// time at which all that is late will be. `recovering`: a loss is being repaired.
    pub(super) fn detect(&mut self, now: Time, recovering: bool, srtt: Option<Duration>) -> Option<Time> {
        let Rack { newest, rtt, .. } = self.rack;
        let reported = self.segments.iter().filter(|sent| sent.reported).count();
        // Step 4: patience with what is late is needed where order was seen to change, or before three have overtaken it.
        let patience = match self.rack.reordered || (!recovering && reported < DUP_THRESH as usize) {
            true => self.rack.window(srtt),
            false => Duration::ZERO,
        };
        let mut next = None;
        for sent in self.segments.iter_mut().filter(|sent| !sent.reported && !sent.lost) {
            if (sent.at, sent.end) >= newest {
                continue;
            }
            let due = sent.at + rtt + patience;
            if due <= now {
                sent.lost = true;
            } else {
                next = next.max(Some(due));
            }
        }
        next
    }

    /// The peer had something twice (RFC 8985 section 6.2 step 4): the patience grows, once in a round trip. Only where
    /// order was seen to change, as Linux has it: what a tail's probe repeats says nothing of that.
    pub(super) fn widen(&mut self, una: u64, max: u64) {
        if self.rack.reordered && una >= self.rack.round {
            self.rack.round = max;
            self.rack.steps = (self.rack.steps + 1).min(MAX_STEPS);
            self.rack.persist = PERSIST;
        }
    }

    /// What was taken for lost had only been overtaken.
    pub(super) fn overtaken(&mut self) {
        self.rack.reordered = true;
    }

    /// A loss was repaired.
    pub(super) fn recovered(&mut self) {
        self.rack.persist = self.rack.persist.saturating_sub(1);
        if self.rack.persist == 0 {
            self.rack.steps = 0;
        }
    }

    /// Nothing was lost after all.
    pub(super) fn lose_none(&mut self) {
        self.segments.iter_mut().for_each(|sent| sent.lost = false);
    }

    /// The retransmission timer expired: nothing that was not reported will arrive, but behind the first what went less than a round trip ago
    /// (RFC 8985 section 6.3); `forget`: nor what was reported.
    pub(super) fn lose_all(&mut self, now: Time, forget: bool) {
        let rtt = self.rack.rtt;
        for (place, sent) in self.segments.iter_mut().enumerate() {
            sent.reported &= !forget;
            sent.lost |= place == 0 || forget || sent.at + rtt <= now;
            sent.lost &= !sent.reported;
        }
    }

    /// The last segment.
    pub(super) fn last(&self) -> Option<Run> {
        self.segments.back().map(|sent| Run { start: sent.start, end: sent.end })
    }

    /// The first run of bytes that were lost and not sent since.
    pub(super) fn lost(&self) -> Option<Run> {
        let from = self.segments.iter().position(|sent| sent.lost)?;
        let lost = self.segments.range(from..).take_while(|sent| sent.lost);
        lost.map(|sent| Run { start: sent.start, end: sent.end })
            .reduce(|all, next| Run { start: all.start, end: next.end })
    }

    /// When each segment went again that is neither acknowledged nor lost again.
    pub(super) fn repeats(&self) -> impl Iterator<Item = Time> {
        self.segments.iter().filter(|sent| sent.again && !sent.reported && !sent.lost).map(|sent| sent.at)
    }

    /// What is neither reported nor lost.
    pub(super) fn pipe(&self) -> u64 {
        let under_way = self.segments.iter().filter(|sent| !sent.reported && !sent.lost);
        under_way.map(|sent| self.segment(sent.end - sent.start)).sum()
    }
}

impl Rack {
    /// RACK.reo_wnd: a quarter of the smallest round trip for each step, up to the smoothed one.
    fn window(&self, srtt: Option<Duration>) -> Duration {
        let window = self.min_rtt.unwrap_or_default() / 4 * u64::from(1 + self.steps);
        srtt.map_or(window, |srtt| window.min(srtt))
    }

    /// RFC 8985 section 6.2 steps 1 to 3. Does it tell a round trip?
    fn arrived(&mut self, now: Time, sent: &Sent) -> bool {
        let rtt = now.saturating_since(sent.at);
        // The acknowledgement may be of the first copy.
        if sent.again && self.min_rtt.is_some_and(|min| rtt < min) {
            return false;
        }
        self.min_rtt = Some(self.min_rtt.map_or(rtt, |min| min.min(rtt)));
        self.rtt = rtt;
        self.newest = self.newest.max((sent.at, sent.end));
        if sent.end > self.highest {
            self.highest = sent.end;
        } else if !sent.again {
            self.reordered = true;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    /// Five segments of 100 bytes, a millisecond apart.
    fn five(unit: Counting) -> Flight {
        let mut flight = Flight::new(unit, 1000);
        (0..5).for_each(|n| flight.sent(at(n), 100 * n, 100 * (n + 1)));
        flight
    }

    fn report(flight: &mut Flight, now: Time, start: u64, end: u64) {
        let mut board = Scoreboard::default();
        board.insert(Run { start, end }, 0, 500);
        flight.report(now, &board);
    }

    #[test]
    fn a_short_segment_takes_as_much_as_a_long_one_where_segments_count() {
        let (bytes, mut segments) = (five(Counting::Bytes), five(Counting::Segments));
        assert_eq!((bytes.weigh(0, 500), segments.weigh(0, 500)), (500, 5000));
        assert_eq!((bytes.weigh(100, 300), segments.weigh(100, 300)), (200, 2000));
        assert_eq!((bytes.weigh(150, 250), segments.weigh(150, 250)), (100, 2000));
        assert_eq!((bytes.weigh(300, 300), segments.weigh(300, 300)), (0, 0));
        assert_eq!((bytes.fits(999), segments.fits(999), segments.fits(1000)), (999, 0, 1000));
        segments.acknowledge(at(10), 250, None);
        assert_eq!(segments.weigh(250, 500), 3000);
    }

    #[test]
    fn what_goes_again_in_one_piece_is_one_segment() {
        let mut flight = five(Counting::Segments);
        flight.sent(at(9), 0, 300);
        assert_eq!((flight.weigh(0, 300), flight.weigh(0, 500)), (1000, 3000));
        flight.sent(at(9), 350, 450);
        assert_eq!(
            (flight.weigh(300, 350), flight.weigh(350, 450), flight.weigh(450, 500)),
            (1000, 1000, 1000)
        );
        assert_eq!(flight.weigh(0, 500), 4000);
    }

    #[test]
    fn what_was_sent_before_three_that_arrived_is_lost() {
        // RFC 8985 section 6.2: without reordering and with DupThresh segments reported, the window is zero.
        let mut flight = five(Counting::Segments);
        report(&mut flight, at(21), 100, 200);
        assert_eq!(
            flight.detect(at(21), false, None),
            Some(at(25)),
            "a quarter of the round trip of 20 ms longer"
        );
        assert_eq!((flight.lost(), flight.pipe()), (None, 4000));
        report(&mut flight, at(23), 100, 400);
        assert_eq!(flight.detect(at(23), false, None), None);
        assert_eq!((flight.lost(), flight.pipe()), (Some(Run { start: 0, end: 100 }), 1000));
    }

    #[test]
    fn what_arrives_late_teaches_patience_with_the_rest() {
        // RFC 8985 section 6.2 step 2: RACK.rtt is of the last that arrived, whenever it was sent; step 5: the longest wait.
        let mut flight = five(Counting::Segments);
        report(&mut flight, at(24), 400, 500);
        assert_eq!(flight.detect(at(24), false, None), Some(at(3 + 20 + 5)));
        report(&mut flight, at(25), 0, 100); // It took 25 ms, where the newest took 20.
        assert_eq!(flight.detect(at(25), false, None), Some(at(3 + 25 + 5)));
        assert_eq!(flight.lost(), None);
    }

    #[test]
    fn what_one_acknowledgement_covers_counts_behind_what_it_reports() {
        let mut flight = five(Counting::Segments);
        flight.acknowledge(at(30), 100, None);
        report(&mut flight, at(30), 400, 500); // Sent at 4 ms; the first at 0.
        assert_eq!(flight.round_trip(), Some(Duration::from_millis(30)));
        report(&mut flight, at(31), 300, 400);
        assert_eq!(flight.round_trip(), Some(Duration::from_millis(28)));
    }

    #[test]
    fn a_repetition_whose_original_arrived_tells_nothing() {
        // RFC 8985 section 6.2 step 2: the echo is of a time before it went.
        for (echo, tells) in [(20, false), (2, true)] {
            let mut flight = five(Counting::Segments);
            report(&mut flight, at(5), 100, 200); // The shortest round trip: 4 ms.
            flight.sent(at(15), 0, 100);
            flight.acknowledge(at(20), 100, Some(Duration::from_millis(echo)));
            assert_eq!(flight.rack.newest.0 == at(15), tells, "{echo} ms");
        }
    }

    #[test]
    fn a_timeout_spares_what_went_less_than_a_round_trip_ago_but_the_first() {
        // RFC 8985 section 6.3.
        let mut flight = five(Counting::Segments);
        report(&mut flight, at(22), 200, 300); // It took 20 ms.
        flight.lose_all(at(23), false);
        assert_eq!(flight.lost(), Some(Run { start: 0, end: 200 }));
        assert_eq!(flight.pipe(), 1000, "the last one; the fourth went 20 ms ago");
        flight.lose_all(at(23), true);
        assert_eq!((flight.lost(), flight.pipe()), (Some(Run { start: 0, end: 500 }), 0));
    }

    #[test]
    fn a_repetition_is_lost_when_something_sent_after_it_arrives() {
        let mut flight = five(Counting::Segments);
        report(&mut flight, at(23), 100, 400);
        flight.detect(at(23), false, None);
        flight.sent(at(23), 0, 100);
        assert_eq!(flight.detect(at(24), true, None), None);
        assert_eq!(flight.lost(), None);
        flight.sent(at(25), 500, 600);
        let mut board = Scoreboard::default();
        board.insert(Run { start: 500, end: 600 }, 0, 600);
        flight.report(at(45), &board);
        flight.detect(at(45), true, None);
        assert_eq!(flight.lost(), Some(Run { start: 0, end: 100 }));
    }

    #[test]
    fn patience_grows_with_duplicates_once_in_a_round_trip_for_sixteen_recoveries() {
        // RFC 8985 section 6.2 step 4. The smallest round trip is 20 ms.
        let mut flight = five(Counting::Segments);
        report(&mut flight, at(21), 100, 200);
        flight.widen(0, 500); // Nothing was seen to change its order: a tail's probe.
        flight.acknowledge(at(22), 200, None);
        let patience = |flight: &Flight, srtt| flight.rack.window(Some(Duration::from_millis(srtt)));
        let ms = Duration::from_millis;
        assert_eq!(patience(&flight, 100), ms(5));
        flight.widen(200, 500);
        flight.widen(200, 500);
        assert_eq!(patience(&flight, 100), ms(10));
        flight.widen(500, 900);
        assert_eq!((patience(&flight, 100), patience(&flight, 12)), (ms(15), ms(12)));
        (0..15).for_each(|_| flight.recovered());
        assert_eq!(patience(&flight, 100), ms(15));
        flight.recovered();
        assert_eq!(patience(&flight, 100), ms(5));
    }

    #[test]
    fn where_order_changed_before_the_late_are_waited_for() {
        let mut flight = five(Counting::Segments);
        report(&mut flight, at(21), 100, 200);
        flight.acknowledge(at(22), 200, None); // The first arrived after the second.
        flight.report(at(22), &Scoreboard::default());
        report(&mut flight, at(24), 300, 500);
        assert_eq!(flight.detect(at(24), true, None), Some(at(2 + 20 + 5)));
        assert_eq!(flight.lost(), None);
    }
}
