//! Recovery as Linux does it: losses by time (RACK, RFC 8985), the window let down in proportion (PRR, RFC 6937), and a
//! probe for a tail that nothing follows (TLP, RFC 8985 section 7).

use std::collections::VecDeque;

use taut_core::{Deadline, Duration, Event, Time, earliest};

use super::flight::Flight;
use super::recovery::Advance;
use super::sack::Run;
use super::sender::{Recovery, Segment, Sender};

/// How long a probe waits beyond two round trips when one segment is under way, whose acknowledgement may be delayed: as
/// Linux has it (`tcp_schedule_loss_probe`); WCDelAckT of RFC 8985 section 7.2.
const DELAYED_ACK: Duration = Duration::from_millis(200);

/// What Linux adds to the timers of RACK and of a probe (`TCP_TIMEOUT_MIN_US`): an acknowledgement may come first.
const MIN_TIMEOUT: Duration = Duration::from_millis(2);

/// Proportional rate reduction (RFC 6937 section 3) as Linux has it (`tcp_cwnd_reduction`), in what the window counts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Prr {
    /// The window before, where the RFC has RecoverFS: what was under way.
    window: u64,
    delivered: u64,
    out: u64,
}

impl Prr {
    pub(super) fn begin(window: u64) -> Self {
        Self { window: window.max(1), ..Self::default() }
    }

    pub(super) fn sent(&mut self, weight: u64) {
        self.out += weight;
    }

    /// `sndcnt`: what may be sent on an acknowledgement that tells of `delivered` more; `growth`: a segment where it is safe, with slow start as
    /// the bound that reduces (PRR-SSRB).
    fn allowance(&mut self, delivered: u64, growth: u64, pipe: u64, ssthresh: u64, smss: u64) -> u64 {
        self.delivered += delivered;
        let allowed = if pipe > ssthresh {
            // Rounded up to a segment, as the CEIL of the RFC's code, which counts segments.
            let share = (u128::from(self.delivered) * u128::from(ssthresh)).div_ceil(u128::from(self.window));
            (share as u64).next_multiple_of(smss).saturating_sub(self.out)
        } else {
            let limit = self.delivered.saturating_sub(self.out).max(delivered) + growth;
            limit.min(ssthresh - pipe)
        };
        // The fast retransmission goes in any case.
        if self.out == 0 { allowed.max(smss) } else { allowed }
    }
}

impl Sender {
    /// What an acknowledgement told is in the scoreboard: looks for losses, and lets the window down while they are repaired.
    /// `before`: what was not acknowledged in sequence and not reported until now. What filled the first gap may only have been late: while
    /// that is in doubt of the rest, nothing more is taken for lost or goes again (Linux's `tcp_try_undo_partial`).
    pub(super) fn after_ack(&mut self, now: Time, before: u64, advance: Advance) {
        let Some(board) = self.board.as_ref().filter(|_| self.policy.rack) else { return };
        self.flight.report(now, board);
        let under_way = self.flight.pipe();
        self.in_doubt = advance == Advance::Late && self.recovery == Recovery::Sack;
        let began = !self.in_doubt && self.look_for_losses(now);
        if self.in_doubt {
            self.reordering = None;
        }
        let pipe = self.flight.pipe();
        // A recovery that RACK's timer begins sends as if a segment had arrived (`tcp_rack_reo_timeout`).
        let delivered = before.saturating_sub(self.missing()).max(if began { self.smss } else { 0 });
        if self.recovery == Recovery::Sack && delivered > 0 {
            let growth = if advance != Advance::No && pipe >= under_way { self.smss } else { 0 };
            let ssthresh = self.congestion.ssthresh;
            self.congestion.cwnd = pipe + self.prr.allowance(delivered, growth, pipe, ssthresh, self.smss);
        }
        self.schedule_probe(now);
    }

    /// What was sent and is neither acknowledged nor reported, lost or not.
    pub(super) fn missing(&self) -> u64 {
        let reported = self.board.as_ref().map_or(0, |board| board.sacked_below(self.max, &self.flight));
        self.flight.weigh(self.una, self.max).saturating_sub(reported)
    }

    /// Does a recovery begin?
    fn look_for_losses(&mut self, now: Time) -> bool {
        let srtt = self.rto.smoothed();
        let due = self.flight.detect(now, self.recovery != Recovery::Open, srtt);
        self.reordering = due.map(|due| due + MIN_TIMEOUT);
        let begins = self.recovery == Recovery::Open && self.flight.lost().is_some();
        if begins {
            self.stats.recoveries += 1;
            let window = self.before_loss();
            self.remember();
            self.congestion.on_loss(window);
            self.prr = Prr::begin(window);
            self.recover = self.max;
            self.recovery = Recovery::Sack;
        }
        begins
    }

    /// What a loss leaves a part of: what is under way (RFC 5681 equation 4), in Linux the window (`tcp_reno_ssthresh`).
    pub(super) fn before_loss(&self) -> u64 {
        match self.policy.rack {
            true => self.congestion.cwnd,
            // What an earlier timeout found lost is not under way, the window is.
            false => self.flight.weigh(self.una, self.max).min(self.congestion.cwnd),
        }
    }

    /// What was lost, then what is new, as far as the window has room.
    pub(super) fn next_by_rack(&mut self, now: Time, events: &mut VecDeque<Event>) -> Option<Segment> {
        let room = self.congestion.cwnd.saturating_sub(self.flight.pipe());
        match self.flight.lost().filter(|_| !self.in_doubt) {
            Some(Run { start, end }) => {
                let segment = self.again(start.max(self.una), end);
                (room >= self.flight.segment(segment.len)).then_some(segment)
            }
            None => self.next_new(now, room, events),
        }
    }

    /// The retransmission timer expired: slow start with what is lost, as far as nobody reported it; a segment more than what is under way.
    pub(super) fn lose_all(&mut self, now: Time, forget: bool) {
        self.flight.lose_all(now, forget);
        self.congestion.cwnd = self.flight.pipe() + self.smss;
        self.undo = None;
        self.in_doubt = false;
        self.recovery = Recovery::Loss;
        self.recover = self.max;
        self.reordering = None;
        self.probe_at = None;
    }

    /// RFC 8985 section 7.2. One probe, until something is acknowledged.
    pub(super) fn schedule_probe(&mut self, now: Time) {
        let quiet =
            self.recovery == Recovery::Open && self.board.as_ref().is_some_and(|board| board.is_empty());
        self.probe_at = match self.rto.smoothed() {
            Some(srtt) if self.policy.rack && quiet && self.una < self.max && !self.probed => {
                let alone = self.max - self.una <= self.smss && self.flight.is_one(self.una);
                let wait = srtt * 2 + if alone { DELAYED_ACK } else { MIN_TIMEOUT };
                let at = now + wait;
                Some(self.timer.map_or(at, |timer| at.min(timer)))
            }
            _ => None,
        };
    }

    /// While something is outstanding.
    pub(super) fn rack_timer(&self) -> Option<Deadline> {
        self.timer?;
        let reordering = self.reordering.map(|at| Deadline::new(at, "rack"));
        earliest(reordering, self.probe_at.map(|at| Deadline::new(at, "tail probe")))
    }

    /// The probe's timer, or that of RACK's patience, expired.
    pub(super) fn handle_rack_timers(&mut self, now: Time) {
        if self.reordering.is_some_and(|at| now >= at) {
            let before = self.missing();
            self.after_ack(now, before, Advance::No);
        }
        if self.probe_at.is_some_and(|at| now >= at) {
            self.probe_at = None;
            self.probed = true;
            self.tail_probe = true;
            self.timer = Some(now + self.rto.get());
        }
    }

    /// RFC 8985 section 7.3: something new, or else the last segment again.
    pub(super) fn next_probe(&mut self, now: Time, events: &mut VecDeque<Event>) -> Option<Segment> {
        if !std::mem::take(&mut self.tail_probe) || self.una == self.max {
            return None;
        }
        let new = self.next_new(now, self.smss, events);
        new.or_else(|| {
            let last: Run = self.flight.last()?;
            Some(self.again(last.start.max(self.una), last.end))
        })
    }
}

impl Flight {
    /// Is all that is under way one segment?
    fn is_one(&self, una: u64) -> bool {
        self.last().is_some_and(|last| last.start <= una)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_falls_in_proportion_to_what_arrives() {
        // RFC 6937 section 3: 20 under way, one lost, half of them to remain: one goes for every two that arrive.
        let mut prr = Prr::begin(20);
        let mut sent = Vec::new();
        for arrived in 1..=8 {
            let allowed = prr.allowance(1, 1, 20 - arrived - 1, 10, 1);
            prr.sent(allowed);
            sent.push(allowed);
        }
        assert_eq!(sent, [1, 0, 1, 0, 1, 0, 1, 0]);
    }

    #[test]
    fn below_the_threshold_it_grows_as_in_slow_start() {
        // RFC 6937 section 3, SSRB: one more than what arrived, up to ssthresh.
        let mut prr = Prr::begin(20);
        prr.sent(1);
        assert_eq!(prr.allowance(1, 1, 4, 10, 1), 2);
        prr.sent(2);
        assert_eq!(prr.allowance(1, 1, 9, 10, 1), 1);
        // Not where more was lost.
        assert_eq!(prr.allowance(1, 0, 4, 10, 1), 1);
    }
}
