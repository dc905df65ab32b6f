//! A channel as its two ends declare it.

use std::time::Duration;

use taut_core::Bytes;
use taut_session::{ChannelKind, DeadbandConfig, Direction, Sampling};

use crate::message::Schema;
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
    deadline: Option<Duration>,
    rate: Option<f64>,
    pub(crate) largest: usize,
    sampling: Sampling,
}

/// One constructor for each kind.
macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident, $kind:ident, $largest:literal;)*) => {$(
        $(#[$doc])*
        pub fn $name(name: impl Into<String>) -> Self {
            let (kind, sampling) = (ChannelKind::$kind, Sampling::every());
            Self { name: name.into(), kind, deadline: None, rate: None, largest: $largest, sampling }
        }
    )*};
}

impl Channel {
    kinds! {
        /// Motion beside that of the operator's device, to a [device of the robot's](crate::RobotBuilder::motion) of this name. Its messages
        /// are [`Joints`](crate::Joints), [`Twist`](crate::Twist), [`Gripper`](crate::Gripper) or [`State`](crate::State), and nothing else moves a
        /// robot.
        motion, Motion, 4_000;
        /// What a hand feels or sees at once, and of which only the newest counts.
        feedback, Feedback, 4_000;
        /// What has to be done, once and in order.
        command, Command, 64_000;
        /// Sound.
        audio, Audio, 64_000;
        /// Pictures.
        video, Video, 1_000_000;
        /// How something is: the newest counts.
        telemetry, Telemetry, 64_000;
        /// Files, maps, records.
        bulk, Bulk, 1_000_000;
    }

    /// The age at which a message is worthless, wherever it is. Of what is repeated until it arrives nothing ages.
    pub fn deadline(mut self, age: Duration) -> Self {
        self.deadline = Some(age);
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

    /// Only messages that say something new are sent: whose numbers differ from those sent last by this `fraction` of them and by `floor`, at
    /// least (of positions by `floor` alone), or in which anything else changes, or before which nothing was sent for so long. Of messages
    /// of other types than [`Joints`](crate::Joints), [`Twist`](crate::Twist), [`Gripper`](crate::Gripper) and [`State`](crate::State) those
    /// are numbers whose encoding is `Raw` and whose bytes are `f32`, big-endian; all others are sent. Where a channel moves a robot, the
    /// silence has to be shorter than its watchdog. Default: every message is sent.
    pub fn deadband(mut self, fraction: f64, floor: f64, silence: Duration) -> Self {
        let deadband =
            DeadbandConfig::new().k(fraction.max(0.0)).floor(floor.max(0.0)).keep_alive(ours(silence));
        self.sampling = Sampling::deadband(deadband);
        self
    }

    pub(crate) fn declared(&self, schema: &Schema, direction: Direction) -> taut_session::Channel {
        let channel = taut_session::Channel::new(&*self.name, direction, self.kind, schema.declared());
        let channel = channel.largest(Bytes::new(self.largest as u64)).sampler(self.sampling);
        let channel = match self.deadline {
            Some(age) => channel.deadline(ours(age)),
            None => channel,
        };
        match self.rate {
            Some(hz) => channel.rate(hz),
            None => channel,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Message;

    #[test]
    fn a_deadband_is_declared_as_the_sessions_sampler() {
        let schema = <Vec<u8> as Message>::SCHEMA;
        let plain = Channel::telemetry("heat").declared(&schema, Direction::ToOperator);
        let channel = Channel::telemetry("heat").deadband(0.05, 0.5, Duration::from_secs(1));
        let deadband =
            DeadbandConfig::new().k(0.05).floor(0.5).keep_alive(taut_core::Duration::from_millis(1_000));
        let declared = channel.declared(&schema, Direction::ToOperator);
        assert_eq!(declared, plain.sampler(Sampling::deadband(deadband)));
    }
}
