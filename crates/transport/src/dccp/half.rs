//! The two half-connections: what this end sends, and what it receives.

use taut_core::{Duration, Time};
use taut_wire::dccp::{DccpOption, Seq};

use super::ccid2::{Acked, Ccid2};
use super::ccid3::{Ccid3, Ccid3Receiver, Feedback};
use super::sent::SentLog;

/// Congestion control of what this end sends.
#[derive(Clone, Debug)]
pub(super) enum Sender {
    TcpLike(Box<Ccid2>),
    Tfrc {
        ccid: Box<Ccid3>,
        /// Where the last loss event began that was reported.
        loss: Option<Seq>,
    },
}

/// When this end acknowledges what it receives.
#[derive(Clone, Debug)]
pub(super) enum Receiver {
    TcpLike(DelayedAck),
    Tfrc(Box<Ccid3Receiver>),
}

/// An acknowledgement for every so many packets, and not too late (RFC 4341 section 6, RFC 4340 section 11.3).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DelayedAck {
    /// Data packets since the last one.
    pending: u64,
    timer: Option<Time>,
}

impl Sender {
    pub(super) fn may_send(&self, now: Time) -> bool {
        match self {
            Self::TcpLike(ccid) => ccid.may_send(),
            Self::Tfrc { ccid, .. } => ccid.may_send(now),
        }
    }

    /// Before a message goes: the value for the header.
    pub(super) fn before_sending(&mut self, now: Time) -> u8 {
        match self {
            Self::TcpLike(ccid) => {
                ccid.before_sending(now);
                0
            }
            Self::Tfrc { ccid, .. } => ccid.window_counter(now),
        }
    }

    pub(super) fn on_sent(&mut self, now: Time, bytes: usize) {
        match self {
            Self::TcpLike(ccid) => ccid.on_sent(now),
            Self::Tfrc { ccid, .. } => ccid.on_sent(now, bytes),
        }
    }

    pub(super) fn on_ack(&mut self, now: Time, ack: Acked<'_>, sent: &mut SentLog, gss: Seq) {
        match self {
            Self::TcpLike(ccid) => ccid.on_ack(now, ack, sent, gss),
            Self::Tfrc { ccid, loss } => {
                if let Some(feedback) = feedback(ack, sent, loss) {
                    ccid.on_feedback(now, feedback);
                }
                sent.forget(|seq, _| !seq.is_after(ack.number));
            }
        }
    }

    pub(super) fn on_slow_receiver(&mut self, now: Time) {
        match self {
            Self::TcpLike(ccid) => ccid.on_slow_receiver(now),
            Self::Tfrc { ccid, .. } => ccid.on_slow_receiver(now),
        }
    }

    pub(super) fn handle_timeout(&mut self, now: Time, sent: &mut SentLog, gss: Seq) {
        match self {
            Self::TcpLike(ccid) => ccid.handle_timeout(now, sent, gss),
            Self::Tfrc { ccid, .. } => ccid.handle_timeout(now),
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        match self {
            Self::TcpLike(ccid) => ccid.poll_timeout(),
            Self::Tfrc { ccid, .. } => ccid.poll_timeout(),
        }
    }

    /// When a message that waits may go, if that is a matter of time.
    pub(super) fn next_send(&self) -> Option<Time> {
        match self {
            Self::TcpLike(_) => None,
            Self::Tfrc { ccid, .. } => Some(ccid.next_send()),
        }
    }

    pub(super) fn rtt(&self) -> Option<Duration> {
        match self {
            Self::TcpLike(ccid) => ccid.rtt(),
            Self::Tfrc { ccid, .. } => ccid.rtt(),
        }
    }
}

/// What an acknowledgement tells TFRC; `None` unless it has all three options that make it feedback (RFC 4342 section 6).
fn feedback(ack: Acked<'_>, sent: &mut SentLog, last_loss: &mut Option<Seq>) -> Option<Feedback> {
    let packet = *sent.get(ack.number)?;
    let (mut rate, mut elapsed, mut intervals) = (None, false, None);
    for option in ack.options {
        match option {
            DccpOption::ReceiveRate(bytes) => rate = Some(f64::from(bytes)),
            DccpOption::ElapsedTime(_) | DccpOption::TimestampEcho { .. } => elapsed = true,
            DccpOption::LossIntervals(option) => {
                intervals.get_or_insert(option);
            }
            _ => {}
        }
    }
    let (rate, intervals) = (rate?, intervals.filter(|_| elapsed)?);
    let newest = intervals.iter().next()?;
    let back = u64::from(intervals.skip()) + u64::from(newest.lossless) + u64::from(newest.lossy);
    let begin = (newest.lossy > 0).then(|| ack.number.next().minus(back));
    let new_loss = begin.is_some_and(|begin| last_loss.is_none_or(|last| begin.is_after(last)));
    if new_loss {
        *last_loss = begin;
    }
    Some(Feedback {
        sent: packet.at,
        counter: packet.data.then_some(packet.counter),
        elapsed: ack.elapsed,
        x_recv: rate,
        p: Ccid3::loss_event_rate(intervals),
        new_loss,
    })
}

impl DelayedAck {
    /// A data packet arrived.
    pub(super) fn on_data(&mut self, now: Time, delay: Duration) {
        self.pending += 1;
        self.timer.get_or_insert(now + delay);
    }

    pub(super) fn is_pending(&self) -> bool {
        self.pending > 0
    }

    /// `ratio`: for so many packets; 0 leaves it to time (RFC 4340 section 11.3).
    pub(super) fn is_due(&self, now: Time, ratio: u64) -> bool {
        (ratio > 0 && self.pending >= ratio) || self.timer.is_some_and(|timer| timer <= now)
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.timer
    }

    /// It went.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}
