//! What a device in another process is to be told next.

use std::collections::{BTreeMap, VecDeque};

use taut_agent::SetPoint;
use taut_core::{Duration, Time};
use taut_session::motion::Motion;
use taut_session::{ChannelId, State, StopCause};

use super::lines::{Apply, DeviceLimits, Drive, MessageLine, MotionLine, Order};
use super::messages::{Content, LineChannels, Messages};

/// What waits to be written to a device: the newest of each kind of motion, a stop ahead of all; and messages of channels. Sans-IO;
/// its time is of one clock.
///
/// Nothing but a stop is written before the device has read what was written before: so at most one line is ahead of a
/// stop, and what waits makes way for what is newer.
#[derive(Debug)]
pub(super) struct Orders {
    stop: Option<StopCause>,
    last_stop: StopCause,
    limits: Option<DeviceLimits>,
    enable: bool,
    /// And until when each is worth anything: one of each source, in turn.
    points: VecDeque<(Target, Time)>,
    /// Enabled, and not stopped since.
    moves: bool,
    /// That a set point had last.
    lease: Duration,
    messages: Messages,
    /// A message of which so many bytes were written.
    begun: Option<(ChannelId, Vec<u8>, usize)>,
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

/// What has no lease is read within this time.
const PATIENCE: Duration = Duration::from_secs(1);

impl Orders {
    pub(super) fn new(channels: LineChannels) -> Self {
        Self {
            stop: None,
            last_stop: StopCause::Start,
            limits: None,
            enable: false,
            points: VecDeque::new(),
            moves: false,
            lease: PATIENCE,
            messages: Messages::new(channels),
            begun: None,
            messages_turn: false,
            unread: None,
            dropped: 0,
        }
    }

    pub(super) fn limit(&mut self, limits: DeviceLimits) {
        self.limits = Some(limits);
    }

    pub(super) fn enable(&mut self) {
        (self.moves, self.enable) = (true, true);
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
        self.lease = lease;
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
        self.messages.push(now, channel, age, Content::Payload(payload.to_vec()));
    }

    /// Stops ahead of everything. Messages that do not move anything go on.
    pub(super) fn stop(&mut self, cause: StopCause) {
        (self.moves, self.enable, self.stop) = (false, false, Some(cause));
        self.dropped += self.points.len() as u64;
        self.points.clear();
    }

    /// What is written now, if anything; `is_read`: the device has read all that was written before.
    pub(super) fn next(&mut self, now: Time, is_read: bool) -> Option<Order> {
        if is_read {
            self.unread = None;
        }
        if let Some(cause) = self.stop.take() {
            self.last_stop = cause;
            self.unread.get_or_insert(now + PATIENCE);
            return Some(Order::Stop(cause.name().to_owned()));
        }
        if !is_read {
            return None;
        }
        // A set point that waits behind what is not read would be of no use.
        let patience = if self.moves { self.lease.min(PATIENCE) } else { PATIENCE };
        let (order, until) = if let Some(limits) = self.limits.take() {
            (Order::Limits(limits), now + PATIENCE)
        } else if std::mem::take(&mut self.enable) {
            (Order::Enable {}, now + PATIENCE)
        } else if let Some(line) = self.messages_turn.then(|| self.next_message(now)).flatten() {
            self.messages_turn = false;
            (Order::Message(line), now + patience)
        } else if let Some(moved) = self.next_point(now) {
            self.messages_turn = true;
            moved
        } else {
            (Order::Message(self.next_message(now)?), now + patience)
        };
        self.unread = Some(until);
        Some(order)
    }

    fn next_point(&mut self, now: Time) -> Option<(Order, Time)> {
        while let Some((target, until)) = self.points.pop_front() {
            if until <= now {
                self.dropped += 1;
                continue;
            }
            let order = match target {
                Target::State(state) => Order::Apply(Apply::new(&state, until - now)),
                Target::Channel(channel, motion) => Order::Drive(Drive {
                    channel: self.messages.channel(channel).name.clone(),
                    motion: MotionLine::from(&motion),
                    lease_ms: (until - now).as_millis_f64(),
                }),
            };
            return Some((order, until));
        }
        None
    }

    /// The next message, or the next part of one.
    fn next_message(&mut self, now: Time) -> Option<MessageLine> {
        let (channel, age, payload, from) = match self.begun.take() {
            Some((channel, payload, written)) => (channel, None, payload, written),
            None => {
                let next = self.messages.pop(now)?;
                // Nothing else waits to be written here.
                let Content::Payload(payload) = next.content else { return None };
                (next.channel, next.made.map(|made| now.saturating_since(made)), payload, 0)
            }
        };
        let known = self.messages.channel(channel);
        let (line, written) =
            MessageLine::first(&known.name, known.is_json && from == 0, age, &payload[from..]);
        if line.more {
            self.begun = Some((channel, payload, from + written));
        }
        Some(line)
    }

    /// The stop that [`next`](Self::next) gave could not be written.
    pub(super) fn put_back(&mut self) {
        self.stop.get_or_insert(self.last_stop);
    }

    /// Is there something to write once the device has read the rest?
    pub(super) fn is_empty(&self) -> bool {
        let moves_nothing =
            self.stop.is_none() && self.limits.is_none() && !self.enable && self.points.is_empty();
        moves_nothing && self.begun.is_none() && self.messages.is_empty()
    }

    /// Until when the device has to read.
    pub(super) fn due(&self) -> Option<Time> {
        self.unread
    }

    /// It has not. True once for what was written.
    pub(super) fn is_overdue(&mut self, now: Time) -> bool {
        self.unread.take_if(|until| *until <= now).is_some()
    }

    /// Set points that were never written: a newer one or a stop came first, or they were too old.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Messages that were never written, by channel and cause.
    pub(super) fn message_drops(&self) -> BTreeMap<String, BTreeMap<&'static str, u64>> {
        self.messages.drops()
    }
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
        SetPoint { state, lease: Duration::from_millis(100) }
    }

    fn enabled() -> Orders {
        let mut orders = Orders::new(Arc::from([]));
        orders.enable();
        assert_eq!(orders.next(at(0), true), Some(Order::Enable {}));
        orders
    }

    fn x_and_lease(order: Option<Order>) -> (f32, f64) {
        match order {
            Some(Order::Apply(apply)) => (apply.position[0], apply.lease_ms),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_newest_set_point_is_written_once_the_last_one_is_read_with_the_lease_that_is_left() {
        let mut orders = enabled();
        orders.apply(at(0), &point(1.0));
        assert_eq!(orders.next(at(0), false), None, "the device has not read that it is enabled");
        orders.apply(at(1), &point(2.0));
        assert_eq!(x_and_lease(orders.next(at(11), true)), (2.0, 90.0));
        assert!(orders.is_empty() && orders.dropped() == 1);
    }

    #[test]
    fn a_stop_overtakes_what_waits_and_needs_no_reader() {
        let mut orders = enabled();
        orders.apply(at(0), &point(1.0));
        orders.stop(StopCause::Watchdog);
        assert_eq!(orders.next(at(0), false), Some(Order::Stop("watchdog".to_owned())));
        assert_eq!(orders.next(at(1), true), None);
        orders.apply(at(2), &point(2.0));
        assert_eq!(orders.next(at(2), true), None, "what is applied after a stop waits for nobody");
        assert_eq!(orders.dropped(), 2);
    }

    #[test]
    fn a_resume_after_a_stop_follows_it() {
        let mut orders = enabled();
        orders.stop(StopCause::Emergency);
        orders.enable();
        orders.apply(at(0), &point(1.0));
        assert_eq!(orders.next(at(0), true), Some(Order::Stop("emergency".to_owned())));
        assert_eq!(orders.next(at(0), true), Some(Order::Enable {}));
        assert!(matches!(orders.next(at(0), true), Some(Order::Apply(_))));
    }

    #[test]
    fn a_stop_takes_back_a_resume_that_was_not_written() {
        let mut orders = Orders::new(Arc::from([]));
        orders.enable();
        orders.stop(StopCause::Watchdog);
        assert!(matches!(orders.next(at(0), true), Some(Order::Stop(_))));
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
        x_and_lease(orders.next(at(1), true));
        assert_eq!(orders.due(), Some(at(100)));
        assert!(!orders.is_overdue(at(99)) && orders.is_overdue(at(100)) && !orders.is_overdue(at(101)));
        // One that read in time is not.
        orders.apply(at(101), &point(2.0));
        x_and_lease(orders.next(at(101), true));
        assert_eq!(orders.next(at(150), true), None);
        assert!(!orders.is_overdue(at(300)));
    }

    const ARM: ChannelId = ChannelId(0);
    const MAP: ChannelId = ChannelId(1);

    fn with_channels() -> Orders {
        let arm = channel("arm", Delivery::Newest);
        let map = LineChannel { largest: 100_000, ..channel("map", Delivery::Reliable) };
        let mut orders = Orders::new(Arc::from([arm, map]));
        orders.enable();
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
        let Some(Order::Drive(Drive { channel, motion: MotionLine::Joints(joints), lease_ms })) =
            orders.next(at(10), true)
        else {
            panic!("joints")
        };
        assert_eq!((channel.as_str(), &joints.position_rad[..], lease_ms), ("arm", &[2.0][..], 90.0));
        assert!(matches!(orders.next(at(10), true), Some(Order::Message(line)) if line.channel == "map"));
        assert_eq!(x_and_lease(orders.next(at(10), true)), (2.0, 90.0));
        assert!(orders.is_empty() && orders.dropped() == 2);
    }

    #[test]
    fn a_stop_goes_between_the_parts_of_a_message_which_goes_on_after_it() {
        let mut orders = with_channels();
        let map: Vec<u8> = (0..10_000u32).map(|at| at as u8).collect();
        orders.message(at(0), MAP, None, &map);
        drive(&mut orders, at(0), 1.0);
        assert!(matches!(orders.next(at(0), true), Some(Order::Drive(_))));
        let mut joined = Vec::new();
        for part in 0.. {
            if part == 2 {
                orders.stop(StopCause::Emergency);
                assert_eq!(orders.next(at(0), false), Some(Order::Stop("emergency".to_owned())));
            }
            let Some(Order::Message(line)) = orders.next(at(0), true) else { panic!("a part") };
            let more = line.more;
            joined.extend(line.bytes().unwrap());
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
        orders.next(at(1), true);
        assert_eq!(orders.due(), Some(at(101)));
    }
}
