//! A recovery that was needless is taken back: all that it sent again turned out to have been on its way (Linux's
//! `tcp_may_undo`; the response of RFC 4015 section 3.2 and RFC 9438 section 4.9.2). A timeout is not.

use super::congestion::Congestion;
use super::sack::Run;
use super::sender::{Recovery, Sender};

/// The last recovery, until it is taken back, another begins or the timer expires.
#[derive(Clone, Debug)]
pub(super) struct Undo {
    before: Congestion,
    /// SND.UNA when it began.
    from: u64,
    /// Retransmissions since.
    sent: u64,
    /// [`Flight::early`](super::flight::Flight::early) when it began.
    early_before: u64,
    /// Reports since of what the peer had twice (RFC 2883).
    duplicates: u64,
}

impl Sender {
    /// The window is about to fall.
    pub(super) fn remember(&mut self) {
        let before = self.congestion.clone();
        let early_before = self.flight.early();
        self.undo = Some(Undo { before, from: self.una, sent: 0, early_before, duplicates: 0 });
    }

    /// A segment went again.
    pub(super) fn remember_retransmission(&mut self) {
        if let Some(undo) = &mut self.undo {
            undo.sent += 1;
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
            self.undo_if_needless();
        }
    }

    /// Takes the recovery back when nothing of it was needed: each retransmission was acknowledged sooner than any packet has been, so
    /// that it was an earlier copy that arrived, or each was reported as a duplicate. Linux asks the timestamps of
    /// acknowledgements for the first (RFC 3522), which the model's segments do not have in scenarios; RACK takes the time for a
    /// proof as well (RFC 8985 section 6.2 step 2).
    pub(super) fn undo_if_needless(&mut self) {
        let early = self.flight.early();
        let needless =
            |undo: &mut Undo| undo.sent > 0 && undo.sent <= undo.duplicates.max(early - undo.early_before);
        let Some(undo) = self.undo.take_if(needless) else { return };
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
            sender.remember_retransmission();
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
        sender.remember_retransmission();
        sender.take_duplicate(run(300, 400), None, 500);
        assert!(sender.undo.is_some());
    }
}
