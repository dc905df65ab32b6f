//! What a robot's program is to be told next, and whether it keeps its part.

use std::collections::{BTreeMap, VecDeque};

use taut_agent::SetPoint;
use taut_core::{Duration, Time};
use taut_session::motion::{self, Motion};
use taut_session::{ChannelId, State, StopCause};

use super::frame::{DeviceLimits, Frame, Role};
use super::messages::{Content, LineChannels};
use super::parts::{Outgoing, PATIENCE, count, infos};

/// What waits to be written to a device: the newest of each kind of motion, a stop ahead of all; and messages of channels. Sans-IO;
/// its time is of one clock.
///
/// Nothing but a stop is written before the device has read what was written before, so that few frames are ahead of a stop, and
/// what waits makes way for what is newer.
#[derive(Debug)]
pub(super) struct Orders {
    /// What goes ahead of all but a stop: what it is told first.
    intro: VecDeque<Frame>,
    stop: Option<StopCause>,
    last_stop: StopCause,
    /// Of the last stop that was written.
    number: u32,
    /// When an answer to it is overdue.
    unanswered: Option<Time>,
    limits: Option<DeviceLimits>,
    enable: bool,
    /// And until when each is worth anything: one of each source, in turn.
    points: VecDeque<(Target, Time)>,
    /// Enabled, and not stopped since.
    moves: bool,
    /// That a set point had last, and the longest since it was enabled.
    lease: Duration,
    longest_lease: Duration,
    /// While it moves: when it said last where it is; `None` once its silence was told of.
    heard: Option<Time>,
    outgoing: Outgoing,
    /// Motion was written last: a message may be next.
    messages_turn: bool,
    /// When the device has to have read what was written.
    unread: Option<Time>,
    dropped: u64,
}

/// What moves.
#[derive(Clone, Debug)]
enum Target {
    State(State),
    Channel(ChannelId, Motion),
}

impl Target {
    fn source(&self) -> Option<ChannelId> {
        match self {
            Self::State(_) => None,
            Self::Channel(channel, _) => Some(*channel),
        }
    }
}

/// Whoever looks so much later than it wanted to was frozen, or suspended with the machine.
const LATE: Duration = Duration::from_millis(500);
/// No device that moves has to say where it is more often.
const LEAST_SILENCE: Duration = Duration::from_millis(100);

impl Orders {
    pub(super) fn new(channels: &LineChannels) -> Self {
        let hello = Frame::Hello { role: Role::Robot, channels: count(channels) };
        Self {
            intro: std::iter::once(hello).chain(infos(channels)).collect(),
            stop: None,
            last_stop: StopCause::Start,
            number: 0,
            unanswered: None,
            limits: None,
            enable: false,
            points: VecDeque::new(),
            moves: false,
            lease: PATIENCE,
            longest_lease: Duration::ZERO,
            heard: None,
            outgoing: Outgoing::new(channels.clone()),
            messages_turn: false,
            unread: None,
            dropped: 0,
        }
    }

    pub(super) fn limit(&mut self, limits: DeviceLimits) {
        self.limits = Some(limits);
    }

    pub(super) fn enable(&mut self, now: Time) {
        (self.moves, self.enable) = (true, true);
        (self.heard, self.longest_lease) = (Some(now), Duration::ZERO);
    }

    pub(super) fn apply(&mut self, now: Time, point: &SetPoint) {
        self.go(now, Target::State(point.state), point.lease);
    }

    pub(super) fn drive(&mut self, now: Time, channel: ChannelId, motion: &Motion, lease: Duration) {
        self.go(now, Target::Channel(channel, motion.clone()), lease);
    }

    fn go(&mut self, now: Time, target: Target, lease: Duration) {
        if !self.moves {
            self.dropped += 1;
            return;
        }
        (self.lease, self.longest_lease) = (lease, self.longest_lease.max(lease));
        let until = now + lease;
        match self.points.iter_mut().find(|point| point.0.source() == target.source()) {
            Some(point) => {
                *point = (target, until);
                self.dropped += 1;
            }
            None => self.points.push_back((target, until)),
        }
    }

    /// A message came that is so old.
    pub(super) fn message(&mut self, now: Time, channel: ChannelId, age: Option<Duration>, payload: &[u8]) {
        self.outgoing.messages.push(now, channel, age, Content::Payload(payload.to_vec()));
    }

    /// Stops ahead of everything. Messages that do not move anything go on.
    pub(super) fn stop(&mut self, cause: StopCause) {
        (self.moves, self.enable, self.stop) = (false, false, Some(cause));
        self.dropped += self.points.len() as u64;
        self.points.clear();
    }

    /// What is written now, if anything; `is_read`: the device has read what was written before, but for one frame.
    pub(super) fn next(&mut self, now: Time, is_read: bool) -> Option<Frame> {
        if is_read {
            self.unread = None;
        }
        if let Some(cause) = self.stop.take() {
            self.last_stop = cause;
            self.number = self.number.wrapping_add(1).max(1);
            self.unanswered.get_or_insert(now + PATIENCE);
            return Some(Frame::Stop { number: self.number, cause: cause.name().to_owned() });
        }
        if !is_read {
            return None;
        }
        // A set point that waits behind what is not read would be of no use.
        let patience = if self.moves { self.lease.min(PATIENCE) } else { PATIENCE };
        let (frame, until) = if let Some(first) = self.intro.pop_front() {
            (first, now + PATIENCE)
        } else if let Some(limits) = self.limits.take() {
            (Frame::Limits(limits), now + PATIENCE)
        } else if std::mem::take(&mut self.enable) {
            (Frame::Enable, now + PATIENCE)
        } else if let Some(message) = self.messages_turn.then(|| self.outgoing.next(now)).flatten() {
            self.messages_turn = false;
            (message, now + patience)
        } else if let Some(moved) = self.next_point(now) {
            self.messages_turn = true;
            moved
        } else {
            (self.outgoing.next(now)?, now + patience)
        };
        self.unread = Some(until);
        Some(frame)
    }

    fn next_point(&mut self, now: Time) -> Option<(Frame, Time)> {
        while let Some((target, until)) = self.points.pop_front() {
            if until <= now {
                self.dropped += 1;
                continue;
            }
            let frame = match target {
                Target::State(state) => Frame::Apply { until, state: motion::State::from(&state) },
                Target::Channel(channel, motion) => Frame::Drive { channel, until, motion },
            };
            return Some((frame, until));
        }
        None
    }

    /// What [`next`](Self::next) gave could not be written.
    pub(super) fn put_back(&mut self, frame: Frame) {
        match frame {
            Frame::Stop { .. } => {
                self.stop.get_or_insert(self.last_stop);
            }
            // Unless it was stopped since.
            Frame::Enable => self.enable = self.moves,
            // A newer one comes.
            Frame::Apply { .. } | Frame::Drive { .. } => self.dropped += 1,
            other => self.intro.push_front(other),
        }
    }

    /// Is there something to write once the device has read the rest?
    pub(super) fn is_empty(&self) -> bool {
        let moves_nothing =
            self.stop.is_none() && self.limits.is_none() && !self.enable && self.points.is_empty();
        moves_nothing && self.intro.is_empty() && self.outgoing.is_empty()
    }

    /// It said where it is.
    pub(super) fn measured(&mut self, now: Time) {
        if self.moves {
            self.heard = Some(now);
        }
    }

    /// It answered the stop of this number.
    pub(super) fn stopped(&mut self, number: u32) {
        if number == self.number {
            self.unanswered = None;
        }
    }

    /// When something may be [overdue](Self::overdue).
    pub(super) fn due(&self) -> Option<Time> {
        [self.unread, self.silence_due(), self.unanswered].into_iter().flatten().min()
    }

    fn silence_due(&self) -> Option<Time> {
        Some(self.heard.filter(|_| self.moves)? + self.patience_with_silence())
    }

    fn patience_with_silence(&self) -> Duration {
        self.longest_lease.max(LEAST_SILENCE)
    }

    /// What it did not do in time. Each is told once.
    pub(super) fn overdue(&mut self, now: Time) -> Option<Overdue> {
        if let Some(until) = self.unanswered.take_if(|until| *until <= now) {
            if now.saturating_since(until) < LATE {
                return Some(Overdue::Stop);
            }
            // This host slept; the device may have, too.
            self.unanswered = Some(now + PATIENCE);
        }
        if self.silence_due().is_some_and(|due| due <= now) {
            self.heard = None;
            return Some(Overdue::Measurement(self.patience_with_silence()));
        }
        self.unread.take_if(|until| *until <= now).map(|_| Overdue::Reading)
    }

    /// Set points that were never written: a newer one or a stop came first, or they were too old.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Messages that were never written, by channel and cause.
    pub(super) fn message_drops(&self) -> BTreeMap<String, BTreeMap<&'static str, u64>> {
        self.outgoing.messages.drops()
    }
}

/// What a device did not do in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overdue {
    /// Read what it was told.
    Reading,
    /// Say where it is, for so long.
    Measurement(Duration),
    /// Answer a stop.
    Stop,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use taut_session::Delivery;
    use taut_session::motion::Joints;

    use crate::device::messages::{LineChannel, tests::channel};

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    fn point(x: f32) -> SetPoint {
        let state = State { position: [x, 0.0, 0.0], ..State::at(Time::ZERO) };
        SetPoint { state, age: Duration::ZERO, lease: Duration::from_millis(100), fresh: Duration::MAX }
    }

    fn enabled() -> Orders {
        let mut orders = greeted(&Arc::from([]));
        orders.enable(at(0));
        assert_eq!(orders.next(at(0), true), Some(Frame::Enable));
        orders
    }

    /// It was told what there is.
    fn greeted(channels: &LineChannels) -> Orders {
        let mut orders = Orders::new(channels);
        let hello = Frame::Hello { role: Role::Robot, channels: channels.len() as u8 };
        assert_eq!(orders.next(at(0), true), Some(hello));
        for _ in 0..channels.len() {
            assert!(matches!(orders.next(at(0), true), Some(Frame::Channel(_))));
        }
        orders
    }

    fn x_and_end(frame: Option<Frame>) -> (f32, Time) {
        match frame {
            Some(Frame::Apply { until, state }) => (state.position[0], until),
            other => panic!("{other:?}"),
        }
    }

    fn stop(number: u32, cause: &str) -> Option<Frame> {
        Some(Frame::Stop { number, cause: cause.to_owned() })
    }

    #[test]
    fn the_newest_set_point_is_written_once_the_last_one_is_read_with_the_lease_that_is_left() {
        let mut orders = enabled();
        orders.apply(at(0), &point(1.0));
        assert_eq!(orders.next(at(0), false), None, "the device has not read that it is enabled");
        orders.apply(at(1), &point(2.0));
        assert_eq!(x_and_end(orders.next(at(11), true)), (2.0, at(101)));
        assert!(orders.is_empty() && orders.dropped() == 1);
    }

    #[test]
    fn a_stop_overtakes_what_waits_and_needs_no_reader() {
        let mut orders = enabled();
        orders.apply(at(0), &point(1.0));
        orders.stop(StopCause::Watchdog);
        assert_eq!(orders.next(at(0), false), stop(1, "watchdog"));
        assert_eq!(orders.next(at(1), true), None);
        orders.apply(at(2), &point(2.0));
        assert_eq!(orders.next(at(2), true), None, "what is applied after a stop waits for nobody");
        assert_eq!(orders.dropped(), 2);
    }

    #[test]
    fn a_resume_after_a_stop_follows_it() {
        let mut orders = enabled();
        orders.stop(StopCause::Emergency);
        orders.enable(at(0));
        orders.apply(at(0), &point(1.0));
        assert_eq!(orders.next(at(0), true), stop(1, "emergency"));
        assert_eq!(orders.next(at(0), true), Some(Frame::Enable));
        assert!(matches!(orders.next(at(0), true), Some(Frame::Apply { .. })));
    }

    #[test]
    fn a_stop_takes_back_a_resume_that_was_not_written() {
        let mut orders = greeted(&Arc::from([]));
        orders.enable(at(0));
        orders.stop(StopCause::Watchdog);
        assert!(matches!(orders.next(at(0), true), Some(Frame::Stop { .. })));
        assert!(orders.is_empty());
    }

    #[test]
    fn a_set_point_whose_lease_is_over_is_not_written() {
        let mut orders = enabled();
        orders.apply(at(0), &point(1.0));
        assert_eq!(orders.next(at(100), true), None);
        assert_eq!(orders.dropped(), 1);
    }

    #[test]
    fn a_device_that_does_not_read_within_the_lease_is_overdue_once() {
        let mut orders = enabled();
        orders.apply(at(0), &point(1.0));
        x_and_end(orders.next(at(1), true));
        assert_eq!(orders.due(), Some(at(100)));
        orders.measured(at(50));
        assert_eq!((orders.overdue(at(99)), orders.overdue(at(100))), (None, Some(Overdue::Reading)));
        assert_eq!(orders.overdue(at(101)), None);
        // One that read in time is not.
        orders.apply(at(101), &point(2.0));
        x_and_end(orders.next(at(101), true));
        assert_eq!(orders.next(at(140), true), None);
        assert_eq!(orders.overdue(at(149)), None);
    }

    #[test]
    fn a_device_that_moves_and_does_not_say_where_it_is_is_overdue_once() {
        let mut orders = enabled();
        orders.next(at(0), true);
        assert_eq!(orders.due(), Some(at(100)), "it was just enabled");
        let long = SetPoint { lease: Duration::from_millis(250), ..point(1.0) };
        orders.apply(at(10), &long);
        orders.apply(at(20), &point(1.0));
        orders.measured(at(30));
        assert_eq!(orders.due(), Some(at(280)), "the longest lease counts");
        let silence = Overdue::Measurement(Duration::from_millis(250));
        assert_eq!((orders.overdue(at(279)), orders.overdue(at(280))), (None, Some(silence)));
        assert_eq!((orders.overdue(at(281)), orders.due()), (None, None));
        orders.stop(StopCause::Device);
        orders.measured(at(300));
        orders.next(at(300), true);
        orders.stopped(1);
        assert_eq!(orders.due(), None, "one that stands may be silent");
        orders.enable(at(1_000));
        assert_eq!(orders.due(), Some(at(1_100)));
    }

    #[test]
    fn a_stop_that_is_not_answered_is_overdue_however_often_it_is_told_again() {
        let mut orders = enabled();
        let patience = PATIENCE.as_nanos() / 1_000_000;
        orders.stop(StopCause::Watchdog);
        assert_eq!(orders.next(at(0), false), stop(1, "watchdog"));
        orders.stop(StopCause::Emergency);
        assert_eq!(orders.next(at(500), false), stop(2, "emergency"));
        orders.stopped(1);
        assert_eq!(orders.overdue(at(patience - 1)), None);
        assert_eq!(orders.overdue(at(patience)), Some(Overdue::Stop));
        orders.stop(StopCause::Host);
        orders.next(at(patience), false);
        orders.stopped(3);
        orders.next(at(patience), true);
        assert_eq!(orders.overdue(at(3 * patience)), None);
    }

    #[test]
    fn a_host_that_slept_gives_the_device_its_time_to_answer_once_more() {
        let mut orders = greeted(&Arc::from([]));
        orders.stop(StopCause::Host);
        orders.next(at(0), true);
        orders.next(at(0), true);
        assert_eq!(orders.overdue(at(60_000)), None);
        assert_eq!(orders.overdue(at(62_000)), Some(Overdue::Stop));
    }

    const ARM: ChannelId = ChannelId(0);
    const MAP: ChannelId = ChannelId(1);

    fn with_channels() -> Orders {
        let arm = channel("arm", Delivery::Newest);
        let map = LineChannel { largest: 100_000, ..channel("map", Delivery::Reliable) };
        let mut orders = greeted(&Arc::from([arm, map]));
        orders.enable(at(0));
        orders.next(at(0), true);
        orders
    }

    fn drive(orders: &mut Orders, now: Time, to: f32) {
        let motion = Motion::Joints(Joints::new(&[to]).unwrap());
        orders.drive(now, ARM, &motion, Duration::from_millis(100));
    }

    #[test]
    fn the_newest_motion_of_each_source_is_written_in_turn_with_its_lease_and_messages_between() {
        let mut orders = with_channels();
        orders.message(at(0), MAP, None, &[7; 3]);
        for to in [1.0, 2.0] {
            drive(&mut orders, at(0), to);
            orders.apply(at(0), &point(to));
        }
        let motion = Motion::Joints(Joints::new(&[2.0]).unwrap());
        assert_eq!(orders.next(at(10), true), Some(Frame::Drive { channel: ARM, until: at(100), motion }));
        assert!(matches!(orders.next(at(10), true), Some(Frame::Message { channel: MAP, .. })));
        assert_eq!(x_and_end(orders.next(at(10), true)), (2.0, at(100)));
        assert!(orders.is_empty() && orders.dropped() == 2);
    }

    #[test]
    fn a_stop_goes_between_the_parts_of_a_message_which_goes_on_after_it() {
        let mut orders = with_channels();
        let map: Vec<u8> = (0..10_000u32).map(|at| at as u8).collect();
        orders.message(at(0), MAP, None, &map);
        drive(&mut orders, at(0), 1.0);
        assert!(matches!(orders.next(at(0), true), Some(Frame::Drive { .. })));
        let mut joined = Vec::new();
        for part in 0.. {
            if part == 2 {
                orders.stop(StopCause::Emergency);
                assert_eq!(orders.next(at(0), false), stop(1, "emergency"));
            }
            let Some(Frame::Message { more, payload, .. }) = orders.next(at(0), true) else {
                panic!("a part")
            };
            joined.extend(payload);
            if !more {
                break;
            }
        }
        assert_eq!(joined, map);
        assert!(orders.is_empty());
    }

    #[test]
    fn a_device_that_moves_reads_a_message_within_the_lease() {
        let mut orders = with_channels();
        drive(&mut orders, at(0), 1.0);
        orders.next(at(0), true);
        orders.message(at(0), MAP, None, &[7; 3]);
        orders.measured(at(1));
        orders.next(at(1), true);
        assert_eq!(orders.overdue(at(100)), None);
        assert_eq!(orders.overdue(at(101)), Some(Overdue::Measurement(Duration::from_millis(100))));
        assert_eq!(orders.overdue(at(101)), Some(Overdue::Reading));
    }
}
