//! What a receiver remembers: which packets came, and when it reports.

use taut_core::{DropCause, Duration, PathId, ReplayWindow, Sighting, Time, nearest};
use taut_wire::etp::{Data, Feedback};

/// Sees every data packet of one sender, and of the next one when its place is taken.
#[derive(Debug)]
pub(super) struct Receiver {
    interval: Duration,
    seen: Option<Seen>,
    /// The same of whoever sends from elsewhere while the peer is not silent: somebody else, or the peer at its new address.
    elsewhere: Option<(PathId, Seen)>,
    due: Option<Time>,
    last_report: Option<Time>,
}

/// Who sent a packet.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source {
    /// The peer, which is at that path from now on if it `moved`.
    Peer { moved: Option<PathId> },
    /// It came from an address that is not the peer's.
    Elsewhere(PathId),
}

/// Since the first packet.
#[derive(Debug)]
struct Seen {
    /// Sequence numbers are extended to 64 bits, beginning at 2³², so that a packet may be older than the first.
    window: ReplayWindow<17>,
    /// The `clock_us` of the highest, and when it came.
    echo_us: u32,
    arrived: Time,
}

impl Receiver {
    pub(super) fn new(interval: Duration) -> Self {
        Self { interval, seen: None, elsewhere: None, due: None, last_report: None }
    }

    /// Counts the packet, or says why it is of no use. A sender that moved to another address counts on; one there that does
    /// not is another sender, whose numbers begin anew. What comes from elsewhere changes nothing of what is known of the peer.
    pub(super) fn accept(&mut self, now: Time, from: Source, data: &Data<'_>) -> Result<(), DropCause> {
        let seen = match from {
            Source::Elsewhere(path) => {
                let of_path = self.elsewhere.take().filter(|(at, _)| *at == path);
                &mut self.elsewhere.insert(of_path.unwrap_or_else(|| (path, Seen::new(now)))).1
            }
            Source::Peer { moved } => {
                if let Some(path) = moved {
                    let of_path = self.elsewhere.take().filter(|(at, _)| *at == path);
                    let before = of_path.map(|(_, seen)| seen).or(self.seen.take());
                    self.seen = before.filter(|seen| seen.is_ahead(data));
                }
                self.seen.get_or_insert_with(|| Seen::new(now))
            }
        };
        seen.accept(now, data)?;
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
        self.due = None;
        let seen = self.seen.as_ref()?;
        self.last_report = Some(now);
        Some(Feedback {
            highest: seen.window.next().wrapping_sub(1) as u32,
            echo_us: seen.echo_us,
            hold_us: now.saturating_since(seen.arrived).as_micros_u32(),
            received: seen.window.count() as u32,
            lost: seen.window.missing() as u32,
        })
    }

    /// Packets received, each once, and packets missing.
    pub(super) fn counts(&self) -> (u64, u64) {
        self.seen.as_ref().map_or((0, 0), |seen| (seen.window.count(), seen.window.missing()))
    }
}

impl Seen {
    fn new(now: Time) -> Self {
        Self { window: ReplayWindow::new(), echo_us: 0, arrived: now }
    }

    /// Is its number higher than all before?
    fn is_ahead(&self, data: &Data<'_>) -> bool {
        let number = self.window.complete(data.sequence);
        number.is_some_and(|number| self.window.sighting(number) == Sighting::Newest)
    }

    fn accept(&mut self, now: Time, data: &Data<'_>) -> Result<(), DropCause> {
        let near = self.window.highest().unwrap_or(1 << 32 | u64::from(data.sequence));
        // As far behind as that is too late by any measure.
        let sequence = nearest(near, data.sequence, 32).ok_or(DropCause::TooLate)?;
        match self.window.record(sequence) {
            Sighting::Newest => (self.echo_us, self.arrived) = (data.clock_us, now),
            Sighting::Reordered => {}
            Sighting::Duplicate => return Err(DropCause::Duplicate),
            Sighting::TooOld => return Err(DropCause::TooLate),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const WINDOW: u64 = ReplayWindow::<17>::SPAN;
    const PEER: Source = Source::Peer { moved: None };
    const MS: Duration = Duration::from_millis(1);

    fn data(sequence: u32) -> Data<'static> {
        Data { sequence, clock_us: sequence.wrapping_mul(1_000), feedback_wanted: true, ..Data::default() }
    }

    fn receiver(sequences: &[u32]) -> Receiver {
        let mut receiver = Receiver::new(MS * 20);
        for sequence in sequences {
            receiver.accept(Time::ZERO, PEER, &data(*sequence)).unwrap();
        }
        receiver
    }

    #[test]
    fn missing_packets_are_counted_until_they_come() {
        let mut receiver = receiver(&[0, 1, 4]);
        assert_eq!(receiver.counts(), (3, 2));
        receiver.accept(Time::ZERO, PEER, &data(2)).unwrap();
        assert_eq!(receiver.counts(), (4, 1));
    }

    #[test]
    fn duplicates_and_the_very_late_are_refused() {
        let mut receiver = receiver(&[5, 6]);
        assert_eq!(receiver.accept(Time::ZERO, PEER, &data(5)), Err(DropCause::Duplicate));
        receiver.accept(Time::ZERO, PEER, &data(6 + WINDOW as u32)).unwrap();
        assert_eq!(receiver.accept(Time::ZERO, PEER, &data(6)), Err(DropCause::TooLate));
        assert_eq!(receiver.accept(Time::ZERO, PEER, &data(7)), Ok(()));
    }

    #[test]
    fn numbers_wrap_and_may_be_older_than_the_first() {
        let mut receiver = receiver(&[u32::MAX, 1, 0]);
        assert_eq!(receiver.counts(), (3, 0));
        receiver.accept(Time::ZERO, PEER, &data(u32::MAX - 2)).unwrap();
        assert_eq!(receiver.counts(), (4, 1));
    }

    #[test]
    fn a_report_echoes_the_highest_packet_and_how_long_it_was_held() {
        let mut receiver = receiver(&[0]);
        assert!(receiver.report(Time::ZERO).is_some(), "the first one goes at once");
        receiver.accept(Time::ZERO + MS * 5, PEER, &data(2)).unwrap();
        receiver.accept(Time::ZERO + MS * 6, PEER, &data(1)).unwrap();
        assert_eq!(receiver.poll_timeout(), Some(Time::ZERO + MS * 20));
        assert_eq!(receiver.report(Time::ZERO + MS * 19), None);
        let expected = Feedback { highest: 2, echo_us: 2_000, hold_us: 15_000, received: 3, lost: 0 };
        assert_eq!(receiver.report(Time::ZERO + MS * 20), Some(expected));
        assert_eq!((receiver.poll_timeout(), receiver.report(Time::MAX)), (None, None), "once for new data");
    }

    #[test]
    fn a_sender_that_moves_counts_on_and_another_sender_begins_anew() {
        let mut receiver = receiver(&[1, 5, 6]);
        let moved = Source::Peer { moved: Some(PathId(1)) };
        assert_eq!(receiver.accept(Time::ZERO, moved, &data(8)), Ok(()));
        assert_eq!(receiver.counts(), (4, 4));
        // Never seen, and of another sender all the same: what it sends next is new as well.
        for (sequence, from) in [(4, moved), (5, PEER), (6, PEER)] {
            assert_eq!(receiver.accept(Time::ZERO, from, &data(sequence)), Ok(()));
        }
        assert_eq!(receiver.counts(), (3, 0));
        assert_eq!(receiver.accept(Time::ZERO, PEER, &data(5)), Err(DropCause::Duplicate));
    }

    #[test]
    fn what_comes_from_elsewhere_counts_for_itself_until_the_peer_is_there() {
        let mut receiver = receiver(&[1, 2]);
        for sequence in [1 << 30, 1 << 30 | 2] {
            assert_eq!(receiver.accept(Time::ZERO, Source::Elsewhere(PathId(1)), &data(sequence)), Ok(()));
        }
        assert_eq!(receiver.accept(Time::ZERO, PEER, &data(3)), Ok(()));
        assert_eq!(receiver.counts(), (3, 0));
        let moved = Source::Peer { moved: Some(PathId(1)) };
        assert_eq!(receiver.accept(Time::ZERO, moved, &data(1 << 30 | 3)), Ok(()));
        assert_eq!(receiver.counts(), (3, 1));
    }

    #[test]
    fn nobody_who_did_not_ask_gets_a_report() {
        let mut receiver = Receiver::new(MS * 20);
        receiver.accept(Time::ZERO, PEER, &Data { sequence: 1, ..Data::default() }).unwrap();
        assert_eq!(receiver.poll_timeout(), None);
    }

    proptest! {
        #[test]
        fn counts_are_those_of_a_set(offsets in prop::collection::vec(0u32..200, 1..300), base in any::<u32>()) {
            let mut receiver = Receiver::new(MS);
            let mut set = BTreeSet::new();
            for offset in offsets {
                let accepted = receiver.accept(Time::ZERO, PEER, &data(base.wrapping_add(offset)));
                prop_assert_eq!(accepted, if set.insert(offset) { Ok(()) } else { Err(DropCause::Duplicate) });
            }
            let span = u64::from(set.last().unwrap() - set.first().unwrap()) + 1;
            prop_assert_eq!(receiver.counts(), (set.len() as u64, span - set.len() as u64));
        }
    }
}
