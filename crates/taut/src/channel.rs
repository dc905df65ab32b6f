//! A channel as its two ends declare it.

use std::time::Duration;

use taut_core::Bytes;
pub use taut_session::Delivery;
use taut_session::{ChannelDefaults, ChannelKind, Direction};

use crate::message::Schema;
use crate::sampling::Sampling;
use crate::time::ours;

/// A channel: messages of one type, one way. Both ends declare it by the same name and kind, one to send and one to receive; it is open
/// while there is a session. Who sends says how its messages travel; of deadlines, rates and sizes the stricter of both ends counts.
///
/// | kind | what is lost | worthless after | goes | at most |
/// | --- | --- | --- | --- | --- |
/// | [`motion`](Self::motion) | makes way for newer | 200 ms | first | 4 kB |
/// | [`feedback`](Self::feedback) | makes way for newer | 200 ms | second | 4 kB |
/// | [`command`](Self::command) | is repeated, in order | never | third | 64 kB |
/// | [`audio`](Self::audio) | is repeated while there is time | 200 ms | fourth | 64 kB |
/// | [`video`](Self::video) | is repeated while there is time | 300 ms | fifth | 1 MB |
/// | [`telemetry`](Self::telemetry) | makes way for newer | never | sixth | 64 kB |
/// | [`bulk`](Self::bulk) | is repeated, in order | never | last | 1 MB |
///
/// A stop goes ahead of all of them, and so does what the [operator's device](crate::OperatorDevice) makes.
///
/// ```
/// use std::time::Duration;
/// use taut::Channel;
/// let battery = Channel::telemetry("battery").rate(2.0).largest(200);
/// let camera = Channel::video("camera").deadline(Duration::from_millis(150));
/// ```
#[derive(Clone, Debug)]
pub struct Channel {
    pub(crate) name: String,
    pub(crate) kind: ChannelKind,
    /// Where it is said: from when on a message is worthless, if ever.
    deadline: Option<Option<Duration>>,
    delivery: Option<Delivery>,
    priority: Option<u8>,
    rate: Option<f64>,
    pub(crate) largest: usize,
    sampling: Sampling,
    repair: Repair,
    playout: Playout,
}

/// One constructor for each kind.
macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident, $kind:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name(name: impl Into<String>) -> Self {
            Self {
                name: name.into(),
                kind: ChannelKind::$kind,
                deadline: None,
                delivery: None,
                priority: None,
                rate: None,
                largest: ChannelDefaults::of(ChannelKind::$kind).largest.get() as usize,
                sampling: Sampling::every(),
                repair: Repair::Auto,
                playout: Playout::AtOnce,
            }
        }
    )*};
}

impl Channel {
    kinds! {
        /// Motion beside that of the operator's device, to a [device of the robot's](crate::RobotBuilder::motion) of this name. Its messages
        /// are [`Joints`](crate::Joints), [`Twist`](crate::Twist), [`Gripper`](crate::Gripper) or [`State`](crate::State), and nothing else moves a
        /// robot.
        motion, Motion;
        /// What a hand feels or sees at once, and of which only the newest counts.
        feedback, Feedback;
        /// What has to be done, once and in order.
        command, Command;
        /// Sound.
        audio, Audio;
        /// Pictures.
        video, Video;
        /// How something is: the newest counts.
        telemetry, Telemetry;
        /// Files, maps, records.
        bulk, Bulk;
    }

    /// The age at which a message is worthless, wherever it is. Of what is repeated until it arrives nothing ages.
    pub fn deadline(mut self, age: Duration) -> Self {
        self.deadline = Some(Some(age));
        self
    }

    /// Messages do not age. Motion always does.
    pub fn no_deadline(mut self) -> Self {
        self.deadline = Some(None);
        self
    }

    /// What becomes of messages that are lost or overtaken; the end that sends says it. Default: the kind's. Motion is always the newest.
    pub fn delivery(mut self, delivery: Delivery) -> Self {
        self.delivery = Some(delivery);
        self
    }

    /// Which channel goes first: 0, ahead of all others, to 7; the end that sends says it. Default: the kind's.
    pub fn priority(mut self, priority: u8) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Messages per second at most; those beyond are dropped and counted. Default: no limit.
    pub fn rate(mut self, hz: f64) -> Self {
        self.rate = Some(hz);
        self
    }

    /// The longest message, bytes, up to 16 MB.
    pub fn largest(mut self, bytes: usize) -> Self {
        self.largest = bytes.clamp(1, 16_000_000);
        self
    }

    /// Which messages are worth sending; the end that sends says it. Default: every one. Of what is repeated in order all are sent.
    pub fn sampling(mut self, sampling: Sampling) -> Self {
        self.sampling = sampling;
        self
    }

    /// How losses are mended; the end that sends says it. Default [`Repair::Auto`].
    pub fn repair(mut self, repair: Repair) -> Self {
        self.repair = repair;
        self
    }

    /// When messages are given on where they arrive; that end says it. Default [`Playout::AtOnce`]. Motion is never held.
    pub fn playout(mut self, playout: Playout) -> Self {
        self.playout = playout;
        self
    }

    /// As far as this end says: what is lost is repeated, and holds up what comes behind it.
    pub(crate) fn is_in_order(&self) -> bool {
        self.delivery.unwrap_or(ChannelDefaults::of(self.kind).delivery) == Delivery::Reliable
    }

    pub(crate) fn declared(&self, schema: &Schema, direction: Direction) -> taut_session::Channel {
        self.of(schema.declared(), direction)
    }

    pub(crate) fn of(&self, schema: taut_session::Schema, direction: Direction) -> taut_session::Channel {
        let channel = taut_session::Channel::new(&*self.name, direction, self.kind, schema);
        let channel = channel.largest(Bytes::new(self.largest as u64)).sampler(self.sampling.ours());
        let channel = channel.repair(self.repair.ours()).playout(self.playout.ours());
        let channel = match self.delivery {
            Some(delivery) => channel.delivery(delivery),
            None => channel,
        };
        let channel = match self.deadline {
            Some(Some(age)) => channel.deadline(ours(age)),
            Some(None) => channel.no_deadline(),
            None => channel,
        };
        let channel = match self.priority {
            Some(priority) => channel.priority(priority),
            None => channel,
        };
        match self.rate {
            Some(hz) => channel.rate(hz),
            None => channel,
        }
    }
}

/// How losses of a channel's messages are mended. Of kinds whose lost messages are repeated this says whether more is done ahead; of those that make
/// way for newer ones, [`Copy`](Self::Copy) and [`Parity`](Self::Parity) alone do anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Repair {
    /// By whatever there is time for: repeated, where that comes before the deadline. Where not, and losses are seen, a message of several packets
    /// goes with parity, one of a single packet twice.
    #[default]
    Auto,
    /// Not at all.
    None,
    /// Every message goes twice.
    Copy,
    /// Every message of several packets goes with parity, half as much again at most; one of a single packet goes twice.
    Parity,
    /// By repetition alone.
    Repeat,
}

impl Repair {
    const fn ours(self) -> taut_session::Repair {
        match self {
            Self::Auto => taut_session::Repair::Auto,
            Self::None => taut_session::Repair::None,
            Self::Copy => taut_session::Repair::Copy,
            Self::Parity => taut_session::Repair::Parity,
            Self::Repeat => taut_session::Repair::Repeat,
        }
    }
}

/// When messages of a channel are given on where they arrive. Held ones keep their order and the spacing with which they were made; what comes too
/// late for that, or is past its deadline by then, is dropped and counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Playout {
    /// As they come.
    #[default]
    AtOnce,
    /// So long after the shortest way lately.
    Fixed(Duration),
    /// Four times the jitter (RFC 3550 section 6.4.1) after the shortest way, within these bounds.
    Adaptive {
        /// At least.
        min: Duration,
        /// At most.
        max: Duration,
    },
}

impl Playout {
    fn ours(self) -> taut_session::Playout {
        match self {
            Self::AtOnce => taut_session::Playout::AtOnce,
            Self::Fixed(delay) => taut_session::Playout::Fixed(ours(delay)),
            Self::Adaptive { min, max } => {
                taut_session::Playout::Adaptive { min: ours(min), max: ours(max.max(min)) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use taut_session::DeadbandConfig;

    use super::*;
    use crate::{Deadband, Message, Quantity};

    const SCHEMA: Schema = <Vec<u8> as Message>::SCHEMA;

    fn declared(channel: Channel) -> taut_session::Channel {
        channel.declared(&SCHEMA, Direction::ToOperator)
    }

    #[test]
    fn deadbands_are_declared_as_the_sessions_sampler() {
        let force = Deadband::new().fraction(0.05).floor(0.5).silence(Duration::from_secs(1));
        let torque = Deadband::new().speed_gain(0.2, 0.4);
        let sampling = Sampling::deadband(force).of(Quantity::Torque, torque);
        let force =
            DeadbandConfig::new().k(0.05).floor(0.5).keep_alive(taut_core::Duration::from_millis(1_000));
        let torque = DeadbandConfig::new().speed_gain(0.2).k_max(0.4);
        let expected = taut_session::Sampling::deadband(force).of(taut_session::Quantity::Torque, torque);
        let plain = declared(Channel::telemetry("heat"));
        assert_eq!(declared(Channel::telemetry("heat").sampling(sampling)), plain.sampler(expected));
    }

    #[test]
    fn delivery_and_priority_are_those_of_the_kind_unless_they_are_said() {
        let plain = declared(Channel::feedback("wrench"));
        let channel = Channel::feedback("wrench").delivery(Delivery::Reliable).priority(5);
        assert_eq!(declared(channel), plain.clone().delivery(Delivery::Reliable).priority(5));
        assert_eq!(declared(Channel::feedback("wrench").no_deadline()), plain.clone().no_deadline());
        assert_ne!(plain, plain.clone().no_deadline());
        let as_the_kind = Channel::feedback("wrench").delivery(Delivery::Newest).priority(1);
        assert_eq!(declared(as_the_kind), plain);
    }

    #[test]
    fn repair_and_playout_are_declared_as_the_sessions() {
        let plain = declared(Channel::video("camera"));
        let channel = Channel::video("camera")
            .repair(Repair::Parity)
            .playout(Playout::Adaptive { min: Duration::from_millis(20), max: Duration::from_millis(10) });
        let bound = taut_core::Duration::from_millis(20);
        let playout = taut_session::Playout::Adaptive { min: bound, max: bound };
        assert_eq!(declared(channel), plain.clone().repair(taut_session::Repair::Parity).playout(playout));
        let unset = Channel::video("camera").repair(Repair::Auto).playout(Playout::AtOnce);
        assert_eq!(declared(unset), plain);
    }
}
