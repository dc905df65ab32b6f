//! What a receiver remembers: which packets came, and when it reports.

use taut_core::{DropCause, Duration, Time};
use taut_wire::etp::{Data, Feedback};

/// How far behind the highest sequence number a late packet is still told from a duplicate.
pub(super) const WINDOW: u64 = 1_024;
const WORD: u64 = u64::BITS as u64;

/// Sees every data packet of one sender.
#[derive(Debug)]
pub(super) struct Receiver {
    interval: Duration,
    seen: Option<Seen>,
    due: Option<Time>,
    last_report: Option<Time>,
}

/// Since the first packet. Sequence numbers are extended to 64 bits, beginning at 2³², so that a packet may be older
/// than the first.
#[derive(Debug)]
struct Seen {
    lowest: u64,
    highest: u64,
    received: u64,
    /// The `clock_us` of the highest, and when it came.
    echo_us: u32,
    arrived: Time,
    /// A bit for each of the last [`WINDOW`] numbers (RFC 4303 section 3.4.3).
    window: [u64; (WINDOW / WORD) as usize],
}

impl Receiver {
    pub(super) fn new(interval: Duration) -> Self {
        Self { interval, seen: None, due: None, last_report: None }
    }

    /// Counts the packet, or says why it is of no use.
    pub(super) fn accept(&mut self, now: Time, data: &Data<'_>) -> Result<(), DropCause> {
        match &mut self.seen {
            Some(seen) => seen.accept(now, data)?,
            None => self.seen = Some(Seen::new(now, data)),
        }
        if data.feedback_wanted && self.due.is_none() {
            self.due = Some(self.last_report.map_or(now, |last| now.max(last + self.interval)));
        }
        Ok(())
    }

    /// When the next report is due.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.due
    }

    /// The report, if it is due.
    pub(super) fn report(&mut self, now: Time) -> Option<Feedback> {
        self.due.filter(|due| now >= *due)?;
        let seen = self.seen.as_ref()?;
        self.due = None;
        self.last_report = Some(now);
        Some(Feedback {
            highest: seen.highest as u32,
            echo_us: seen.echo_us,
            hold_us: now.saturating_since(seen.arrived).as_micros_u32(),
            received: seen.received as u32,
            lost: seen.lost() as u32,
        })
    }

    /// Packets received, each once, and packets missing.
    pub(super) fn counts(&self) -> (u64, u64) {
        self.seen.as_ref().map_or((0, 0), |seen| (seen.received, seen.lost()))
    }
}

impl Seen {
    fn new(now: Time, data: &Data<'_>) -> Self {
        let first = (1 << 32) + u64::from(data.sequence);
        let mut this = Self {
            lowest: first,
            highest: first,
            received: 1,
            echo_us: data.clock_us,
            arrived: now,
            window: [0; (WINDOW / WORD) as usize],
        };
        this.mark(first);
        this
    }

    fn accept(&mut self, now: Time, data: &Data<'_>) -> Result<(), DropCause> {
        let ahead = data.sequence.wrapping_sub(self.highest as u32) as i32;
        let sequence = self.highest.wrapping_add_signed(i64::from(ahead));
        if ahead > 0 {
            for skipped in 1..=u64::from(ahead.unsigned_abs()).min(WINDOW) {
                self.clear(self.highest + skipped);
            }
            self.highest = sequence;
            self.echo_us = data.clock_us;
            self.arrived = now;
        } else if self.highest - sequence >= WINDOW {
            return Err(DropCause::TooLate);
        } else if self.is_marked(sequence) {
            return Err(DropCause::Duplicate);
        }
        self.mark(sequence);
        self.lowest = self.lowest.min(sequence);
        self.received += 1;
        Ok(())
    }

    fn lost(&self) -> u64 {
        self.highest - self.lowest + 1 - self.received
    }

    fn slot(sequence: u64) -> (usize, u64) {
        let bit = sequence % WINDOW;
        ((bit / WORD) as usize, 1 << (bit % WORD))
    }

    fn mark(&mut self, sequence: u64) {
        let (word, bit) = Self::slot(sequence);
        self.window[word] |= bit;
    }

    fn clear(&mut self, sequence: u64) {
        let (word, bit) = Self::slot(sequence);
        self.window[word] &= !bit;
    }

    fn is_marked(&self, sequence: u64) -> bool {
        let (word, bit) = Self::slot(sequence);
        self.window[word] & bit != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const MS: Duration = Duration::from_millis(1);

    fn data(sequence: u32) -> Data<'static> {
        Data { sequence, clock_us: sequence.wrapping_mul(1_000), feedback_wanted: true, ..Data::default() }
    }

    fn receiver(sequences: &[u32]) -> Receiver {
        let mut receiver = Receiver::new(MS * 20);
        for sequence in sequences {
            receiver.accept(Time::ZERO, &data(*sequence)).unwrap();
        }
        receiver
    }

    #[test]
    fn missing_packets_are_counted_until_they_come() {
        let mut receiver = receiver(&[0, 1, 4]);
        assert_eq!(receiver.counts(), (3, 2));
        receiver.accept(Time::ZERO, &data(2)).unwrap();
        assert_eq!(receiver.counts(), (4, 1));
    }

    #[test]
    fn duplicates_and_the_very_late_are_refused() {
        let mut receiver = receiver(&[5, 6]);
        assert_eq!(receiver.accept(Time::ZERO, &data(5)), Err(DropCause::Duplicate));
        receiver.accept(Time::ZERO, &data(6 + WINDOW as u32)).unwrap();
        assert_eq!(receiver.accept(Time::ZERO, &data(6)), Err(DropCause::TooLate));
        assert_eq!(receiver.accept(Time::ZERO, &data(7)), Ok(()));
    }

    #[test]
    fn numbers_wrap_and_may_be_older_than_the_first() {
        let mut receiver = receiver(&[u32::MAX, 1, 0]);
        assert_eq!(receiver.counts(), (3, 0));
        receiver.accept(Time::ZERO, &data(u32::MAX - 2)).unwrap();
        assert_eq!(receiver.counts(), (4, 1));
    }

    #[test]
    fn a_report_echoes_the_highest_packet_and_how_long_it_was_held() {
        let mut receiver = receiver(&[0]);
        assert!(receiver.report(Time::ZERO).is_some(), "the first one goes at once");
        receiver.accept(Time::ZERO + MS * 5, &data(2)).unwrap();
        receiver.accept(Time::ZERO + MS * 6, &data(1)).unwrap();
        assert_eq!(receiver.poll_timeout(), Some(Time::ZERO + MS * 20));
        assert_eq!(receiver.report(Time::ZERO + MS * 19), None);
        let expected = Feedback { highest: 2, echo_us: 2_000, hold_us: 15_000, received: 3, lost: 0 };
        assert_eq!(receiver.report(Time::ZERO + MS * 20), Some(expected));
        assert_eq!((receiver.poll_timeout(), receiver.report(Time::MAX)), (None, None), "once for new data");
    }

    #[test]
    fn nobody_who_did_not_ask_gets_a_report() {
        let mut receiver = Receiver::new(MS * 20);
        receiver.accept(Time::ZERO, &Data { sequence: 1, ..Data::default() }).unwrap();
        assert_eq!(receiver.poll_timeout(), None);
    }

    proptest! {
        #[test]
        fn counts_are_those_of_a_set(offsets in prop::collection::vec(0u32..200, 1..300), base in any::<u32>()) {
            let mut receiver = Receiver::new(MS);
            let mut set = BTreeSet::new();
            for offset in offsets {
                let accepted = receiver.accept(Time::ZERO, &data(base.wrapping_add(offset)));
                prop_assert_eq!(accepted, if set.insert(offset) { Ok(()) } else { Err(DropCause::Duplicate) });
            }
            let span = u64::from(set.last().unwrap() - set.first().unwrap()) + 1;
            prop_assert_eq!(receiver.counts(), (set.len() as u64, span - set.len() as u64));
        }
    }
}
