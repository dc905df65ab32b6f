//! Which states were sent, and what the acknowledgements say of them.

use std::collections::VecDeque;

use taut_core::{Duration, Time};

/// States that are remembered: four seconds and more at 1 kHz, with high ones among them.
const REMEMBERED: u64 = 8192;

/// Remembers what was sent until it is acknowledged or given up, in bounded memory.
///
/// An acknowledgement counts only for the very state that it names: number and time of creation, as they were sent.
/// What matches none is counted and never becomes a round trip.
#[derive(Debug)]
pub(crate) struct Tracker {
    /// By sequence, modulo its length.
    slots: Vec<Slot>,
    /// In the order of sending, and when: what may still be waiting for its acknowledgement.
    waiting: VecDeque<(u64, Time)>,
    unmatched: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    sequence: u64,
    created_ns: u64,
    sent: Time,
    /// All bytes sent with it, and its own.
    place: u64,
    bytes: u32,
    stream: u8,
    fate: Fate,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Fate {
    #[default]
    Unknown,
    Waiting,
    Acknowledged,
    GivenUp,
}

/// What is known of a state now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) stream: u8,
    pub(crate) sent: Time,
    /// All bytes sent with it, and its own.
    pub(crate) place: u64,
    pub(crate) bytes: u32,
    pub(crate) delivered: bool,
    /// It had been given up before.
    pub(crate) late: bool,
}

impl Tracker {
    pub(crate) fn new() -> Self {
        Self { slots: Vec::new(), waiting: VecDeque::new(), unmatched: 0 }
    }

    /// Acknowledgements that named no state that was sent.
    pub(crate) fn unmatched(&self) -> u64 {
        self.unmatched
    }

    /// A state goes. `created_ns` is what the acknowledgement will echo. One so old that its place is needed is given up.
    pub(crate) fn sent(
        &mut self,
        now: Time,
        sequence: u64,
        (place, bytes): (u64, u32),
        created_ns: u64,
        stream: u8,
    ) -> Option<Outcome> {
        if self.slots.is_empty() {
            self.make_slots();
        }
        let slot = &mut self.slots[(sequence % REMEMBERED) as usize];
        let pushed_out = (slot.fate == Fate::Waiting).then(|| slot.outcome(false));
        *slot = Slot { sequence, created_ns, sent: now, place, bytes, stream, fate: Fate::Waiting };
        if self.waiting.len() >= 2 * REMEMBERED as usize {
            self.waiting.pop_front();
        }
        self.waiting.push_back((sequence, now));
        pushed_out
    }

    /// Whoever sends nothing that is acknowledged has none.
    #[cold]
    fn make_slots(&mut self) {
        self.slots.resize(REMEMBERED as usize, Slot::default());
    }

    /// An acknowledgement names a state. Its first one tells what became of it; when that state was sent is told by
    /// every one that matches.
    pub(crate) fn acknowledged(&mut self, sequence: u64, created_ns: u64) -> Option<(Time, Option<Outcome>)> {
        let slot = self.slots.get_mut((sequence % REMEMBERED) as usize);
        // As far as the echo tells: µs modulo 2¹⁶.
        let echo = |nanos: u64| (nanos / 1_000) as u16;
        match slot.filter(|slot| slot.is(sequence) && echo(slot.created_ns) == echo(created_ns)) {
            Some(slot) => {
                let known = (slot.sent, slot.acknowledge());
                self.forget_known();
                Some(known)
            }
            None => {
                self.unmatched += 1;
                None
            }
        }
    }

    /// An acknowledgement says that this one arrived too, without a time.
    pub(crate) fn seen(&mut self, sequence: u64) -> Option<Outcome> {
        let slot = self.slots.get_mut((sequence % REMEMBERED) as usize);
        let outcome = slot.filter(|slot| slot.is(sequence)).and_then(Slot::acknowledge)?;
        self.forget_known();
        Some(outcome)
    }

    /// The oldest of which it is known what became of them wait for nothing any more.
    fn forget_known(&mut self) {
        while let Some((sequence, _)) = self.waiting.front()
            && !self.slots[(sequence % REMEMBERED) as usize].waits(*sequence)
        {
            self.waiting.pop_front();
        }
    }

    /// A state that never left: the transport dropped it.
    pub(crate) fn dropped(&mut self, sequence: u64) -> Option<u8> {
        let slot = self.slots.get_mut((sequence % REMEMBERED) as usize)?;
        let slot = slot.waits(sequence).then_some(slot)?;
        slot.fate = Fate::Unknown;
        Some(slot.stream)
    }

    /// The next state that was sent before `before` and not acknowledged, oldest first: given up.
    pub(crate) fn give_up(&mut self, now: Time, after: Duration) -> Option<Outcome> {
        while self.is_overdue(now, after) {
            let (sequence, _) = self.waiting.pop_front()?;
            let slot = &mut self.slots[(sequence % REMEMBERED) as usize];
            if slot.waits(sequence) {
                slot.fate = Fate::GivenUp;
                return Some(slot.outcome(false));
            }
        }
        None
    }

    /// May [`give_up`](Self::give_up) have something to do?
    pub(crate) fn is_overdue(&self, now: Time, after: Duration) -> bool {
        self.waiting.front().is_some_and(|(_, sent)| now.saturating_since(*sent) >= after)
    }
}

impl Slot {
    fn is(&self, sequence: u64) -> bool {
        self.fate != Fate::Unknown && self.sequence == sequence
    }

    /// Is it this one, and is not known what became of it?
    fn waits(&self, sequence: u64) -> bool {
        self.fate == Fate::Waiting && self.sequence == sequence
    }

    fn acknowledge(&mut self) -> Option<Outcome> {
        let before = std::mem::replace(&mut self.fate, Fate::Acknowledged);
        (before != Fate::Acknowledged)
            .then(|| Outcome { late: before == Fate::GivenUp, ..self.outcome(true) })
    }

    fn outcome(&self, delivered: bool) -> Outcome {
        let Self { stream, sent, place, bytes, .. } = *self;
        Outcome { stream, sent, place, bytes, delivered, late: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn an_echo_that_matches_nothing_is_counted_and_no_round_trip() {
        let mut tracker = Tracker::new();
        assert_eq!(tracker.acknowledged(5, 1), None, "nothing was sent yet");
        tracker.sent(at(1), 5, (1, 1), 777_000, 2);
        assert_eq!(tracker.acknowledged(5, 778_000), None, "another time of creation");
        assert_eq!(tracker.acknowledged(6, 777_000), None);
        assert_eq!(tracker.acknowledged(5 + REMEMBERED, 777_000), None);
        assert_eq!(tracker.unmatched(), 4);
        let outcome = Outcome { stream: 2, sent: at(1), place: 1, bytes: 1, delivered: true, late: false };
        assert_eq!(tracker.acknowledged(5, 777_000), Some((at(1), Some(outcome))));
        assert_eq!(tracker.acknowledged(5, 777_000), Some((at(1), None)), "once");
    }

    #[test]
    fn what_is_not_acknowledged_in_time_is_lost_and_later_late() {
        let mut tracker = Tracker::new();
        (1..=3).for_each(|n| assert_eq!(tracker.sent(at(n), n, (n, 1), n, 2), None));
        assert!(tracker.seen(2).is_some());
        let timeout = Duration::from_millis(10);
        assert_eq!(tracker.give_up(at(10), timeout), None);
        assert_eq!(tracker.give_up(at(12), timeout).map(|outcome| outcome.sent), Some(at(1)));
        assert_eq!(tracker.give_up(at(12), timeout), None, "2 arrived, 3 may yet");
        let (_, outcome) = tracker.acknowledged(1, 1).unwrap();
        assert!(outcome.is_some_and(|outcome| outcome.late && outcome.delivered));
    }

    #[test]
    fn nothing_is_overdue_that_was_acknowledged() {
        let mut tracker = Tracker::new();
        let timeout = Duration::from_millis(10);
        (1..=4).for_each(|n| assert_eq!(tracker.sent(at(n), n, (n, 1), n, 2), None));
        assert!(tracker.seen(2).is_some() && tracker.is_overdue(at(12), timeout), "1 was sent before");
        assert!(tracker.acknowledged(1, 1).is_some() && !tracker.is_overdue(at(12), timeout));
        assert!(tracker.is_overdue(at(13), timeout));
        assert_eq!(tracker.give_up(at(13), timeout).map(|outcome| outcome.sent), Some(at(3)));
    }

    #[test]
    fn memory_is_bounded_and_what_is_pushed_out_is_given_up() {
        let mut tracker = Tracker::new();
        let pushed = (1..=50_000).filter(|n| tracker.sent(at(*n), *n, (*n, 1), 0, 2).is_some()).count();
        assert_eq!(pushed as u64, 50_000 - REMEMBERED);
        assert!(tracker.waiting.len() as u64 <= 2 * REMEMBERED);
    }
}
