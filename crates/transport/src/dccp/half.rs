//! The two half-connections: what this end sends, and what it receives.

use taut_core::{Duration, Time};
use taut_wire::dccp::{DccpOption, LossInterval, Seq};

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
    /// Until then a message of this end may take it along.
    rides: Option<Time>,
    /// When a mark was last answered at once.
    marked: Option<Time>,
}

/// Where this end has sent a message so lately, an acknowledgement waits as long for another one to take it along: by itself it is a packet of
/// 84 bytes, and every second packet of 1 kHz makes such ones a third of what goes.
///
/// RFC 4341 section 6 leaves the rate of acknowledgements to the Ack Ratio, which is a guideline (RFC 4340 section 11.3): they may be
/// piggybacked, and may wait for 0.2 s; what points to a loss does not wait, and of marks one in a round trip does not. The peer's window is
/// clocked by them, so this end keeps far below that: its window opens by 2 ms later at most, by no more than a quarter of a round trip, and by
/// no more than one more acknowledgement's packets.
const RIDES: Duration = Duration::from_millis(2);
/// The part of a round trip that an acknowledgement may wait for a message at most.
const PART: u64 = 4;

/// How a data packet came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Came {
    /// It follows the newest packet before it. What is missing before an acknowledgement waits for the next data: where packets overtake
    /// each other, answers to that fill the way back with acknowledgements that overtake each other, too.
    pub(super) follows: bool,
    /// The network marked it.
    pub(super) marked: bool,
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

    /// A message went that the profile did not let go: its window counts it, and its pace does not, which would make up for it.
    pub(super) fn on_probe(&mut self, now: Time) {
        if let Self::TcpLike(ccid) = self {
            ccid.on_sent(now);
        }
    }

    /// What a packet that goes now remembers of CCID 3's pace.
    pub(super) fn unlimited(&self) -> Option<Time> {
        match self {
            Self::TcpLike(_) => None,
            Self::Tfrc { ccid, .. } => ccid.unlimited(),
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

/// What an acknowledgement tells TFRC; `None` unless it has what makes it feedback (RFC 4342 section 6): the receive rate,
/// how long it was held, and losses. Linux, whose feedback is that of RFC 4342 before Loss Intervals, leaves out Elapsed Time
/// where it is zero and tells of losses by the Loss Event Rate alone (section 8.5).
fn feedback(ack: Acked<'_>, sent: &mut SentLog, last_loss: &mut Option<Seq>) -> Option<Feedback> {
    let packet = *sent.get(ack.number)?;
    let (mut rate, mut intervals, mut event_rate) = (None, None, None);
    for option in ack.options {
        match option {
            DccpOption::ReceiveRate(bytes) => rate = Some(f64::from(bytes)),
            DccpOption::LossIntervals(option) => {
                intervals.get_or_insert(option);
            }
            DccpOption::LossEventRate(inverse) => event_rate = Some(inverse),
            _ => {}
        }
    }
    let (p, new_loss) = match intervals.and_then(|intervals| Some((intervals, intervals.iter().next()?))) {
        Some((intervals, newest)) => {
            let back = u64::from(intervals.skip()) + u64::from(newest.lossless) + u64::from(newest.lossy);
            // Of one that was cut the beginning is not known: it was reported long ago.
            let known = newest.lossy > 0 && newest.lossless < LossInterval::LONGEST;
            let begin = known.then(|| ack.number.next().minus(back));
            let new_loss = begin.is_some_and(|begin| last_loss.is_none_or(|last| begin.is_after(last)));
            if new_loss {
                *last_loss = begin;
            }
            (Ccid3::loss_event_rate(intervals), new_loss)
        }
        None => (inverse(event_rate?), false),
    };
    Some(Feedback {
        sent: packet.at,
        counter: packet.data.then_some(packet.counter),
        unlimited: packet.unlimited,
        elapsed: ack.elapsed,
        x_recv: rate?,
        p,
        new_loss,
    })
}

/// A Loss Event Rate is told as its inverse, rounded up; the largest number stands for none (RFC 4342 section 8.5).
fn inverse(told: u32) -> f64 {
    if told == u32::MAX { 0.0 } else { 1.0 / f64::from(told.max(1)) }
}

impl DelayedAck {
    /// A data packet arrived; when this end sent one last. `rtt`: before one is known nothing waits for a message;
    /// and no acknowledgement does so for as many packets again as `ratio`.
    pub(super) fn on_data(
        &mut self,
        now: Time,
        delay: Duration,
        came: Came,
        sent: Option<Time>,
        rtt: Option<Duration>,
        ratio: u64,
    ) {
        self.pending += 1;
        let timer = self.timer.get_or_insert(now + delay);
        let rides = rtt.map_or(Duration::ZERO, |rtt| RIDES.min(rtt / PART));
        let sends = sent.is_some_and(|sent| now.saturating_since(sent) <= rides);
        let until = self.rides.get_or_insert(if sends { now + rides } else { now });
        if self.pending >= 2 * ratio {
            *until = now;
        }
        let answered = self.marked.zip(rtt).is_some_and(|(marked, rtt)| now.saturating_since(marked) < rtt);
        if came.marked && !answered {
            (*timer, self.marked) = (now, Some(now));
        } else if came.marked {
            // Where all are marked that would be all of them: they are told with the others, but wait for no message.
            *until = now;
        }
        if !came.follows {
            *timer = now;
        }
    }

    pub(super) fn is_pending(&self) -> bool {
        self.pending > 0
    }

    /// `ratio`: for so many packets; 0 leaves it to time (RFC 4340 section 11.3).
    pub(super) fn is_due(&self, now: Time, ratio: u64) -> bool {
        let waited = self.rides.is_none_or(|until| until <= now);
        (ratio > 0 && self.pending >= ratio && waited) || self.timer.is_some_and(|timer| timer <= now)
    }

    pub(super) fn poll_timeout(&self, ratio: u64) -> Option<Time> {
        let rides = self.rides.filter(|_| ratio > 0 && self.pending >= ratio);
        self.timer.into_iter().chain(rides).min()
    }

    /// It went.
    pub(super) fn clear(&mut self) {
        *self = Self { marked: self.marked, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dccp::sent::{Fate, Sent};
    use taut_wire::dccp::{LossIntervals, Options};

    const USUAL: Came = Came { follows: true, marked: false };

    #[test]
    fn an_acknowledgement_waits_two_milliseconds_or_a_quarter_of_a_round_trip_for_a_message_where_some_went_lately()
     {
        let at = |us: u64| Time::ZERO + Duration::from_micros(us);
        let (us, late) = (Duration::from_micros, Duration::from_millis(20));
        for (sent, rtt, due) in [
            (None, Some(us(20_000)), 10_000),
            (Some(at(5_000)), Some(us(20_000)), 10_000),
            (Some(at(9_000)), Some(us(20_000)), 12_000),
            (Some(at(9_000)), Some(us(6_000)), 11_500),
            (Some(at(9_900)), Some(us(800)), 10_200),
            (Some(at(9_000)), Some(us(800)), 10_000),
            (Some(at(9_000)), None, 10_000),
        ] {
            let mut ack = DelayedAck::default();
            ack.on_data(at(10_000), late, USUAL, sent, rtt, 2);
            assert!(!ack.is_due(at(10_000), 2) && ack.poll_timeout(2) == Some(at(30_000)));
            ack.on_data(at(10_000), late, USUAL, sent, rtt, 2);
            assert_eq!(ack.poll_timeout(2), Some(at(due)), "{sent:?} {rtt:?}");
            assert!(ack.is_due(at(due), 2) && (due == 10_000 || !ack.is_due(at(due - 1), 2)));
        }
    }

    /// RFC 4340 section 11.3.
    #[test]
    fn what_points_to_a_loss_or_is_the_first_mark_of_a_round_trip_is_acknowledged_at_once() {
        let at = |ms: u64| Time::ZERO + Duration::from_millis(ms);
        let (late, rtt) = (Duration::from_millis(20), Some(Duration::from_millis(40)));
        let mut ack = DelayedAck::default();
        ack.on_data(at(10), late, Came { follows: false, ..USUAL }, Some(at(9)), rtt, 2);
        assert!(ack.is_due(at(10), 2));
        let data = |ack: &mut DelayedAck, ms, marked| {
            ack.on_data(at(ms), late, Came { marked, ..USUAL }, Some(at(9)), rtt, 2);
        };
        ack.clear();
        data(&mut ack, 10, false);
        assert!(!ack.is_due(at(10), 2), "what was told is told");
        data(&mut ack, 10, true);
        assert!(ack.is_due(at(10), 3));
        ack.clear();
        data(&mut ack, 10, true);
        assert!(!ack.is_due(at(10), 2), "another one in the same round trip is told with its neighbours");
        data(&mut ack, 10, true);
        assert!(ack.is_due(at(10), 2) && !ack.is_due(at(10), 3), "and those wait for no message");
        ack.clear();
        data(&mut ack, 50, true);
        assert!(ack.is_due(at(50), 3), "a round trip later");
    }

    #[test]
    fn an_acknowledgement_waits_for_no_more_than_as_many_packets_again() {
        let at = |us: u64| Time::ZERO + Duration::from_micros(us);
        let (late, rtt) = (Duration::from_millis(20), Some(Duration::from_millis(40)));
        let mut ack = DelayedAck::default();
        for packet in 0..4 {
            assert!(!ack.is_due(at(10_000 + packet), 2));
            ack.on_data(at(10_000 + packet), late, USUAL, Some(at(9_900)), rtt, 2);
        }
        assert!(ack.is_due(at(10_003), 2));
    }

    /// What Linux 6.1 sends: neither Loss Intervals nor an Elapsed Time of zero.
    #[test]
    fn a_receive_rate_and_a_loss_event_rate_alone_are_feedback() {
        let (first, mut loss) = (Seq::new(7), None);
        let mut sent = SentLog::new(first);
        let packet =
            Sent { at: Time::ZERO, data: true, counter: 3, unlimited: None, fate: Fate::Flying, told: None };
        sent.push(packet);
        let mut of = |options: &[DccpOption<'_>]| {
            let mut bytes = Vec::new();
            options.iter().for_each(|option| option.emit(&mut bytes));
            let ack = Acked { number: first, options: Options::new(&bytes), elapsed: Duration::ZERO };
            feedback(ack, &mut sent, &mut loss).map(|feedback| (feedback.x_recv, feedback.p))
        };
        let rate = DccpOption::ReceiveRate(7_472);
        assert_eq!(of(&[rate, DccpOption::LossEventRate(u32::MAX)]), Some((7_472.0, 0.0)));
        assert_eq!(of(&[rate, DccpOption::LossEventRate(100)]), Some((7_472.0, 0.01)));
        assert_eq!(of(&[rate]), None, "nothing of losses");
        assert_eq!(of(&[DccpOption::LossEventRate(100)]), None, "no rate");
    }

    #[test]
    fn a_loss_so_long_ago_that_its_interval_is_cut_is_no_new_one() {
        let (mut next, mut loss) = (Seq::new(1 << 24), None);
        let mut sent = SentLog::new(next);
        let packet =
            Sent { at: Time::ZERO, data: true, counter: 0, unlimited: None, fate: Fate::Flying, told: None };
        let mut of = |lossless| {
            sent.push(packet);
            let mut data = vec![0];
            LossInterval { lossless, nonce: false, lossy: 1, data: lossless }.emit(&mut data);
            let intervals = LossIntervals::parse(&data).expect("it is one");
            let mut bytes = Vec::new();
            [DccpOption::ReceiveRate(1_000), DccpOption::LossIntervals(intervals)]
                .iter()
                .for_each(|option| option.emit(&mut bytes));
            let ack = Acked { number: next, options: Options::new(&bytes), elapsed: Duration::ZERO };
            next = next.next();
            feedback(ack, &mut sent, &mut loss).expect("it is feedback").new_loss
        };
        let longest = LossInterval::LONGEST;
        let told = [longest - 2, longest - 1, longest, longest + 1, longest + 2].map(&mut of);
        assert_eq!(told, [true, false, false, false, false]);
        assert!(of(7), "and a loss of lately is");
    }
}
