//! CCID 2, TCP-like congestion control (RFC 4341): the sender.

use taut_core::{Duration, RttEstimator, Time};
use taut_wire::dccp::{AckState, DccpOption, Options, Seq};

use super::config::DccpConfig;
use super::received::Received;
use super::reordering::Reordering;
use super::sent::{Fate, SentLog};
use crate::rto::Rto;

/// Packets that must have arrived after one that did not, before it counts as lost (RFC 4341 section 5).
const NUMDUPACK: u32 = 3;
/// The longest time between two attempts. RFC 6298 section 2.5 wants 60 s at least, for networks that collapse under repetitions; nothing is
/// repeated here, and one packet in 4 s is little. After a gap of the path the flow goes on within it, in place of as long again as the gap was.
const MAX_RTO: Duration = Duration::from_secs(4);
/// An Ack Ratio beyond which one lost acknowledgement would silence the sender for long.
const MAX_ACK_RATIO: u64 = 64;

/// Window, pipe and timer of a half-connection. Everything is counted in packets with data.
#[derive(Clone, Debug)]
pub(super) struct Ccid2 {
    cwnd: u64,
    ssthresh: u64,
    /// Packets thought to be in the network.
    pipe: u64,
    /// Acknowledged packets that did not yet make the window grow.
    credit: u64,
    /// Losses up to this number belong to the congestion event that was already answered.
    recovery: Option<Seq>,
    rto: Rto,
    timer: Option<Time>,
    last_sent: Option<Time>,
    /// One round trip is measured for each window: from an acknowledgement of this number on.
    sample_from: Seq,
    /// No growth until then: the receiver is slow (RFC 4340 section 11.6).
    hold_until: Time,
    initial_window: u64,
    /// The newest packet that arrived.
    newest: Option<Seq>,
    reordering: Reordering,
    acks: AckRatio,
    pub(super) counts: Counts,
}

/// What happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Data packets taken for lost.
    pub(super) lost: u64,
    /// Times that the window was halved.
    pub(super) halved: u64,
    /// Times that nothing was heard for a whole timeout.
    pub(super) timeouts: u64,
}

/// An acknowledgement as it was received.
#[derive(Clone, Copy, Debug)]
pub(super) struct Acked<'a> {
    /// The Acknowledgement Number.
    pub(super) number: Seq,
    pub(super) options: Options<'a>,
    /// How long the receiver held it.
    pub(super) elapsed: Duration,
}

impl Ccid2 {
    /// With the round trip of the handshake, if it was measured.
    pub(super) fn new(config: &DccpConfig, next: Seq, rtt: Option<Duration>) -> Self {
        // RFC 3390: 4380 bytes, but two to four packets.
        let initial_window = (4_380 / config.limit() as u64).clamp(2, 4);
        let mut rto = Rto::new(Duration::from_secs(1).max(config.min_rto), config.min_rto, MAX_RTO);
        rtt.into_iter().for_each(|rtt| rto.sample(rtt));
        Self {
            cwnd: initial_window,
            ssthresh: u64::MAX,
            pipe: 0,
            credit: 0,
            recovery: None,
            rto,
            timer: None,
            last_sent: None,
            sample_from: next,
            hold_until: Time::ZERO,
            initial_window,
            newest: None,
            reordering: Reordering::default(),
            acks: AckRatio::new(next),
            counts: Counts::default(),
        }
    }

    pub(super) fn cwnd(&self) -> u64 {
        self.cwnd
    }

    pub(super) fn rtt(&self) -> Option<Duration> {
        self.rto.smoothed()
    }

    /// The Ack Ratio that the receiver shall use.
    pub(super) fn ack_ratio(&self) -> u64 {
        self.acks.ratio
    }

    /// "MUST NOT send a data packet when pipe >= cwnd."
    pub(super) fn may_send(&self) -> bool {
        self.pipe < self.cwnd
    }

    /// After a timeout without anything to send the window says nothing about the path any more (RFC 4341 section 5.1,
    /// RFC 5681 section 4.1).
    pub(super) fn before_sending(&mut self, now: Time) {
        let idle = self.last_sent.is_some_and(|last| now.saturating_since(last) > self.rto.get());
        if idle && self.pipe == 0 {
            self.cwnd = self.cwnd.min(self.initial_window);
        }
    }

    pub(super) fn on_sent(&mut self, now: Time) {
        self.pipe += 1;
        self.last_sent = Some(now);
        self.timer.get_or_insert(now + self.rto.get());
    }

    /// A packet whose fate was open was forgotten.
    pub(super) fn on_forgotten(&mut self) {
        self.pipe = self.pipe.saturating_sub(1);
    }

    /// The receiver cannot keep up.
    pub(super) fn on_slow_receiver(&mut self, now: Time) {
        self.hold_until = now + self.rto.smoothed().unwrap_or(self.rto.get());
    }

    pub(super) fn on_ack(&mut self, now: Time, ack: Acked<'_>, sent: &mut SentLog, gss: Seq) {
        self.sample(now, ack, sent, gss);
        let full = self.pipe >= self.cwnd;
        let mut arrived = 0;
        let mut unmarked = 0;
        let mut event = None;
        let before = self.newest;
        for_each_arrival(ack, sent.first(), |seq, state| {
            let Some(packet) = sent.get(seq) else { return };
            let fate = std::mem::replace(&mut packet.fate, Fate::Arrived);
            match fate {
                Fate::Lost => self.reordering.mistaken(),
                Fate::Flying if before.is_some_and(|newest| seq.is_before(newest)) => {
                    self.reordering.overtaken()
                }
                _ => {}
            }
            self.newest = newer(self.newest, seq);
            if !packet.data || fate == Fate::Arrived {
                return;
            }
            if fate == Fate::Flying {
                arrived += 1;
            }
            if state == AckState::Marked {
                event = newer(event, seq);
            } else if fate == Fate::Flying {
                unmarked += 1;
            }
        });
        self.pipe = self.pipe.saturating_sub(arrived);
        event = self.find_losses(sent).map_or(event, |seq| newer(event, seq));
        self.acks.window += arrived;
        if let Some(seq) = event {
            self.congestion(seq, gss);
        } else if full && now >= self.hold_until {
            self.grow(unmarked);
        }
        if arrived > 0 {
            self.timer = (self.pipe > 0).then(|| now + self.rto.get());
        } else if self.pipe == 0 {
            self.timer = None;
        }
        let memory = self.rto.smoothed().unwrap_or(Duration::ZERO) * 2;
        sent.forget(|seq, packet| match packet.data {
            true => match packet.fate {
                Fate::Flying => false,
                Fate::Arrived => true,
                // It may still come, and show that it was only late.
                Fate::Lost => packet.at + memory < now,
            },
            false => !seq.is_after(ack.number),
        });
    }

    /// Infers losses; the newest of them. Of the packets that arrived, the newest was sent later than what is lost by the
    /// window of [`Reordering`].
    fn find_losses(&mut self, sent: &mut SentLog) -> Option<Seq> {
        let window = self.reordering.window();
        let mut arrived_after = 0;
        let mut newest = None;
        let mut latest = Time::ZERO;
        for (seq, packet) in sent.newest_first() {
            match packet.fate {
                Fate::Arrived => {
                    arrived_after += 1;
                    latest = latest.max(packet.at);
                }
                Fate::Flying if arrived_after >= NUMDUPACK && packet.at + window <= latest => {
                    packet.fate = Fate::Lost;
                    if packet.data {
                        self.pipe = self.pipe.saturating_sub(1);
                        self.counts.lost += 1;
                        newest = newer(newest, seq);
                    }
                }
                _ => {}
            }
        }
        newest
    }

    /// Halves the window, once for what was sent in one window. RFC 4341 section 5: never below one packet, the threshold
    /// never below two.
    fn congestion(&mut self, seq: Seq, gss: Seq) {
        if self.recovery.is_some_and(|recovery| !seq.is_after(recovery)) {
            return;
        }
        self.recovery = Some(gss);
        self.cwnd = (self.cwnd / 2).max(1);
        self.ssthresh = self.cwnd.max(2);
        self.credit = 0;
        self.counts.halved += 1;
        self.reordering.reduced();
        self.acks.fit(self.cwnd);
    }

    /// RFC 4341 section 5: in slow start one packet for two acknowledged, Ack Ratio/2 at most for one acknowledgement;
    /// then one for each window. Only while the window is what limits the sender (section 5.1).
    fn grow(&mut self, acked: u64) {
        if self.cwnd < self.ssthresh {
            self.credit += acked;
            let step = (self.credit / 2).min((self.acks.ratio / 2).max(1));
            self.cwnd = (self.cwnd + step).min(self.ssthresh);
            self.credit = (self.credit - 2 * step).min(1);
        } else {
            self.credit += acked;
            if self.credit >= self.cwnd {
                self.credit -= self.cwnd;
                self.cwnd += 1;
            }
        }
    }

    fn sample(&mut self, now: Time, ack: Acked<'_>, sent: &mut SentLog, gss: Seq) {
        let Some(packet) = sent.get(ack.number) else { return };
        if packet.fate == Fate::Flying && !ack.number.is_before(self.sample_from) {
            let rtt = RttEstimator::without_hold(now.saturating_since(packet.at), ack.elapsed);
            self.rto.sample(rtt);
            self.reordering.round_trip(rtt);
            self.sample_from = gss.next();
        }
    }

    /// Adapts the Ack Ratio once for each window, by what became of the peer's acknowledgements. `alone`: the peer sends
    /// acknowledgements only; whatever else is missing is the business of its own congestion control.
    pub(super) fn watch_acks(&mut self, received: &Received, alone: bool) {
        self.acks.watch(received, self.cwnd, alone);
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.timer
    }

    /// RFC 4341 section 5: the threshold to half the window, the window to one packet, the pipe to nothing.
    pub(super) fn handle_timeout(&mut self, now: Time, sent: &mut SentLog, gss: Seq) {
        if self.timer.is_none_or(|timer| timer > now) {
            return;
        }
        self.timer = None;
        for (_, packet) in sent.newest_first() {
            if packet.fate == Fate::Flying {
                packet.fate = Fate::Lost;
                self.counts.lost += u64::from(packet.data);
            }
        }
        self.ssthresh = (self.cwnd / 2).max(2);
        (self.cwnd, self.pipe, self.credit) = (1, 0, 0);
        self.recovery = Some(gss);
        self.rto.back_off();
        self.counts.timeouts += 1;
        self.acks.fit(self.cwnd);
    }
}

/// What the Ack Vectors say arrived, newest first; without one, the Acknowledgement Number alone. Nothing before `first`.
fn for_each_arrival(ack: Acked<'_>, first: Seq, mut arrived: impl FnMut(Seq, AckState)) {
    let mut next = ack.number;
    let mut told = false;
    for option in ack.options {
        let DccpOption::AckVector(vector) = option else { continue };
        told = true;
        let (begin, mut count) = (next, 0);
        for run in vector.runs(begin) {
            count += run.count;
            if run.newest.is_before(first) {
                return;
            }
            if let Some(state @ (AckState::Received | AckState::Marked)) = run.state {
                let back = run.count.min(run.newest.since(first) as u64 + 1);
                (0..back).for_each(|back| arrived(run.newest.minus(back), state));
            }
        }
        next = begin.minus(count);
    }
    if !told {
        arrived(ack.number, AckState::Received);
    }
}

fn newer(seq: Option<Seq>, other: Seq) -> Option<Seq> {
    Some(seq.map_or(other, |seq| seq.max(other)))
}

/// The Ack Ratio: congestion control for acknowledgements (RFC 4341 section 6.1).
#[derive(Clone, Debug)]
struct AckRatio {
    ratio: u64,
    /// Packets acknowledged in this window.
    window: u64,
    /// The first of the peer's numbers that was not looked at yet.
    from: Seq,
    /// Acknowledged packets since the last lost acknowledgement or change.
    clean: u64,
    begun: bool,
}

impl AckRatio {
    fn new(from: Seq) -> Self {
        Self { ratio: 2, window: 0, from, clean: 0, begun: false }
    }

    /// Section 6.1.1: doubled for a window in which acknowledgements were lost; section 6.1.2: one less after cwnd/(R² −
    /// R) windows without.
    fn watch(&mut self, received: &Received, cwnd: u64, alone: bool) {
        if self.window < cwnd {
            return;
        }
        self.clean += self.window;
        self.window = 0;
        let newest = received.newest().0;
        // The newest three may be late rather than lost.
        let last = newest.minus(u64::from(NUMDUPACK));
        let lost = self.begun && alone && received.troubled(self.from, last) > 0;
        (self.from, self.begun) = (last.next(), true);
        let ratio = self.ratio;
        if lost {
            (self.ratio, self.clean) = (ratio * 2, 0);
        } else if ratio > 2 && self.clean * (ratio * ratio - ratio) >= cwnd * cwnd {
            (self.ratio, self.clean) = (ratio - 1, 0);
        }
        self.fit(cwnd);
    }

    /// Section 6.1: never more than half a window, rounded up; two or more while the window is four or more.
    fn fit(&mut self, cwnd: u64) {
        let least = if cwnd >= 4 { 2 } else { 1 };
        self.ratio = self.ratio.min(MAX_ACK_RATIO).min(cwnd.div_ceil(2)).max(least);
    }
}

#[cfg(test)]
mod tests;
