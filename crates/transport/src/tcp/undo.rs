//! A recovery that was needless is taken back: all that it sent again turned out to have been on its way (Linux's
//! `tcp_may_undo`; the response of RFC 4015 section 3.2 and RFC 9438 section 4.9.2). A timeout is not.

use taut_core::{Duration, Time};

use super::congestion::Congestion;
use super::echoes_before;
use super::sack::Run;
use super::sender::{Recovery, Sender};

/// The last recovery, until it is taken back, another begins or the timer expires.
#[derive(Clone, Debug)]
pub(super) struct Undo {
    before: Congestion,
    /// SND.UNA when it began.
    from: u64,
    /// Retransmissions: those under way then, and all since; and when the first of them went.
    sent: u64,
    first: Option<Time>,
    /// Reports since of what the peer had twice (RFC 2883).
    duplicates: u64,
}

impl Sender {
    /// The window is about to fall.
    pub(super) fn remember(&mut self) {
        let before = self.congestion.clone();
        let sent = self.flight.repeats().count() as u64;
        let first = self.flight.repeats().min();
        self.undo = Some(Undo { before, from: self.una, sent, first, duplicates: 0 });
    }

    /// A segment went again.
    pub(super) fn remember_retransmission(&mut self, now: Time) {
        if let Some(undo) = &mut self.undo {
            undo.sent += 1;
            undo.first.get_or_insert(now);
        }
    }

    /// The first block of an acknowledgement of all below `number`: it reports a duplicate when it lies there or within the
    /// second (RFC 2883 section 4). A network that duplicates reports more of them than went again; these tell nothing.
    pub(super) fn take_duplicate(&mut self, first: Option<Run>, second: Option<Run>, number: u64) {
        let Some(first) = first.filter(|first| first.start < first.end) else { return };
        let within = second.is_some_and(|second| second.start <= first.start && first.end <= second.end);
        if !self.policy.rack || (first.end > number && !within) {
            return;
        }
        self.duplicates_reported += 1;
        if self.duplicates_reported > self.stats.retransmitted {
            return;
        }
        self.flight.widen(self.una, self.max);
        if let Some(undo) = self.undo.as_mut().filter(|undo| first.end > undo.from) {
            undo.duplicates += 1;
            if undo.sent > 0 && undo.sent <= undo.duplicates {
                self.take_back();
            }
        }
    }

    /// The acknowledgement that moved SND.UNA echoes a time before that of the first retransmission: it answers the original, which
    /// was late and not lost (RFC 3522 section 3.2, Linux's `tcp_packet_delayed`). `rtt`: the time since, in whole ticks.
    pub(super) fn was_late(&self, now: Time, rtt: Option<Duration>) -> bool {
        let first = self.undo.as_ref().and_then(|undo| undo.first);
        first.zip(rtt).is_some_and(|(first, rtt)| echoes_before(now, rtt, first))
    }

    /// Nothing of the recovery was needed: the window is what it was.
    pub(super) fn take_back(&mut self) {
        let Some(undo) = self.undo.take() else { return };
        self.congestion.undo(undo.before);
        if self.recovery == Recovery::Sack {
            self.recovery = Recovery::Open;
            self.end_of_duplicates();
            self.flight.lose_none();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::TcpConfig;

    #[test]
    fn duplicates_are_those_that_lie_below_the_acknowledgement_or_within_the_second_block() {
        // RFC 2883 section 4; no more of them than went again.
        let run = |start, end| Some(Run { start, end });
        let reported = |first, second| {
            let mut sender = Sender::new(&TcpConfig::default(), 0);
            (sender.policy.rack, sender.stats.retransmitted) = (true, 1);
            sender.remember();
            sender.remember_retransmission(Time::ZERO);
            sender.take_duplicate(first, second, 500);
            sender.undo.is_none()
        };
        assert!(reported(run(300, 400), None));
        assert!(reported(run(700, 800), run(600, 900)));
        assert!(!reported(run(700, 800), run(900, 1000)));
        assert!(!reported(run(600, 700), None));
        assert!(!reported(None, None));
        let mut sender = Sender::new(&TcpConfig::default(), 0);
        sender.policy.rack = true;
        sender.remember();
        sender.remember_retransmission(Time::ZERO);
        sender.take_duplicate(run(300, 400), None, 500);
        assert!(sender.undo.is_some());
    }
}
