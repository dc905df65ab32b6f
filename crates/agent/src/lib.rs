//! What stands around a session: devices, reconnecting, resuming, recording. Sans-IO, so that a simulated session and one on
//! sockets are the same but for what carries their datagrams and which device is at their ends.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`Operator`] | asks the device in a hand, lets it feel, resumes by its [`ResumePolicy`], connects again, reports |
//! | [`Robot`] | gives a device its set points with the time that is left, feeds back, stops it, waits for the next operator |
//! | [`OperatorDevice`], [`RobotDevice`] | the contracts of devices, simulated or real |
//! | [`Control`], [`Coupling`] | by which control law hand and arm are coupled; it puts devices under their ends of it |
//! | [`Clutch`], [`Relative`] | inputs that say how fast to move: motion begins where the robot is |
//! | [`Lease`] | for how long a device may go on by itself: its own watchdog |
//! | [`Conversation`] | what is asked of a transport beyond the contract of all: why there is no session, who else asked |
//! | [`SessionObserver`] | looks on, for measurements |
//!
//! A host drives both with the five verbs of [`taut_core`], hands in new transports when it is asked to, and writes down what a
//! next life has to know ([`OperatorNote::Keep`], [`RobotNote::Keep`]). It adds sockets or links, threads and files, and no rule.
//!
//! Both ends over a network without delay, for two seconds:
//!
//! ```
//! use taut_agent::{Operator, OperatorSettings, Playback, ResumePolicy, Robot};
//! use taut_core::{Datagram, Duration, Ecn, PathId, Seed, Time};
//! use taut_session::{OperatorConfig, RobotConfig, State};
//! # use taut_agent::*;
//! # use taut_core::{Deadline, Event, Message, Origin, SendError, Transmit, Transport};
//! # use taut_session::motion::Motion;
//! # use taut_session::{ChannelId, StopCause};
//! # use taut_transport::udp::{Udp, UdpConfig};
//! # struct Plain(Udp);
//! # impl Transport for Plain {
//! #     fn send(&mut self, now: Time, message: Message) -> Result<(), SendError> { self.0.send(now, message) }
//! #     fn handle_input(&mut self, now: Time, input: Datagram<'_>) { self.0.handle_input(now, input) }
//! #     fn handle_timeout(&mut self, now: Time) { self.0.handle_timeout(now) }
//! #     fn poll_transmit(&mut self, now: Time, data: &mut Vec<u8>) -> Option<Transmit> { self.0.poll_transmit(now, data) }
//! #     fn poll_event(&mut self) -> Option<Event> { self.0.poll_event() }
//! #     fn poll_timeout(&self) -> Option<Deadline> { self.0.poll_timeout() }
//! #     fn close(&mut self, now: Time) { self.0.close(now); }
//! #     fn add_path(&mut self, now: Time, path: PathId) -> bool { self.0.add_path(now, path) }
//! #     fn remove_path(&mut self, now: Time, path: PathId) { self.0.remove_path(now, path); }
//! #     fn set_origin(&mut self, path: PathId, origin: Origin) { self.0.set_origin(path, origin); }
//! #     fn uses_path(&self, path: PathId) -> bool { self.0.uses_path(path) }
//! #     fn round_trip(&self) -> Option<Duration> { self.0.round_trip() }
//! #     fn send_rate(&self) -> Option<taut_core::Bitrate> { self.0.send_rate() }
//! #     fn delivered(&self) -> Option<u64> { self.0.delivered() }
//! #     fn waiting(&self) -> taut_core::Waiting { self.0.waiting() }
//! # }
//! # impl Conversation for Plain {
//! #     fn trouble(&self) -> Trouble { Trouble::NoAnswer }
//! #     fn wakes_early(&self) -> bool { false }
//! #     fn lingers(&self) -> bool { false }
//! #     fn busy(&self) -> u64 { 0 }
//! #     fn take_stranger(&mut self) -> Option<Refused> { None }
//! #     fn choices(&self) -> Option<taut_transport::mtip::ChoiceReport> { None }
//! #     fn copies(&self) -> Option<(u64, u64)> { None }
//! #     fn stream_bytes(&self) -> Option<(u64, u64)> { None }
//! # }
//! # struct Rock;
//! # impl RobotDevice for Rock {
//! #     fn period(&self) -> Duration { Duration::from_millis(1) }
//! #     fn enable(&mut self) -> Result<(), DeviceFailure> { Ok(()) }
//! #     fn apply(&mut self, _: &SetPoint) -> bool { true }
//! #     fn drive(&mut self, _: ChannelId, _: &Motion, _: Duration) -> bool { false }
//! #     fn stop(&mut self, _: StopCause) {}
//! #     fn measure(&mut self) -> Option<Measured> { Some(Measured { state: State::at(Time::ZERO), controller_force: None, feedback: None }) }
//! #     fn receive(&mut self, _: ChannelId, _: Option<Duration>, _: &[u8]) {}
//! #     fn limit_bitrate(&mut self, _: taut_core::Bitrate) {}
//! #     fn poll_message(&mut self) -> Option<DeviceMessage> { None }
//! #     fn feeds_back(&mut self) -> bool { true }
//! #     fn failure(&mut self) -> Option<DeviceFailure> { None }
//! #     fn lease(&self) -> bool { true }
//! #     fn stiffness(&self) -> Option<f32> { None }
//! #     fn limit_force(&mut self, _: f32) -> bool { true }
//! #     fn is_real(&self) -> bool { false }
//! # }
//! # let transport = || Plain(Udp::new(UdpConfig::new()));
//! let (mut now, millisecond) = (Time::ZERO, Duration::from_millis(1));
//! let settings = OperatorSettings::new(millisecond).resumes(ResumePolicy::Start).limit(1_000);
//! let hand = Playback::new(std::iter::repeat(State::at(now)));
//! let rng = |name| Seed::new(1).stream(name);
//! let mut operator = Operator::new(now, transport(), rng("operator"), OperatorConfig::new(), hand, settings);
//! let mut robot = Robot::new(now, transport(), rng("robot"), RobotConfig::new(), Rock);
//! let mut data = Vec::new();
//! for _ in 0..2_000 {
//!     operator.handle_timeout(now);
//!     robot.handle_timeout(now);
//!     loop {
//!         data.clear();
//!         let (path, ecn) = (PathId(0), Ecn::NotCapable);
//!         if operator.poll_transmit(now, &mut data).is_some() {
//!             robot.handle_input(now, Datagram { path, ecn, data: &data, padding: 0 });
//!         } else if robot.poll_transmit(now, &mut data).is_some() {
//!             operator.handle_input(now, Datagram { path, ecn, data: &data, padding: 0 });
//!         } else if operator.poll_event(now).is_none() && robot.poll_event(now).is_none() {
//!             break;
//!         }
//!     }
//!     now += millisecond;
//! }
//! assert_eq!(operator.progress(now).made, 1_000);
//! ```

mod clutch;
mod conversation;
mod coupled;
mod coupling;
mod device;
mod diagnostics;
mod lease;
mod observer;
mod operator;
mod robot;

use taut_core::Duration;

/// What [`forward_operator_device`] and [`forward_robot_device`] name, wherever they are used.
#[doc(hidden)]
pub mod device_types {
    pub use taut_core::{Bitrate, Duration, Time};
    pub use taut_session::{ChannelId, State};
}

pub use clutch::{Clutch, Grip, LEASH, Rate, RateInput, Relative};
pub use conversation::{Conversation, Refused, Trouble};
pub use coupled::{CoupledArm, CoupledHand};
pub use coupling::{Control, ControlError, Coupling};
pub use device::{
    DeviceFailure, DeviceMessage, LawFeedback, Measured, OperatorDevice, Playback, Resume, RobotDevice,
    Sample, SetPoint,
};
pub use lease::Lease;
pub use observer::{Observed, SessionObserver, Watched};
pub use operator::{
    EndedBy, Ending, Operator, OperatorCommand, OperatorNote, OperatorSettings, PATIENCE, Progress, RETRY,
    ResumePolicy, RoundTrips, SampleFrom, Standing,
};
pub use robot::{DeviceReport, Robot, RobotCommand, RobotNote};
pub use taut_control as control;

/// A device is asked for so many messages at once; the others wait for the next period.
const MOST_MESSAGES: usize = 256;

/// A goodbye that takes longer does not arrive any more.
pub const GOODBYE: Duration = Duration::from_millis(1_500);

/// Why an end is to stop at once: the emergency button, ahead of every command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alarm {
    /// Somebody pressed the emergency button.
    Pressed,
    /// The line of the button was lost, or says what no button says.
    Lost,
}

impl OperatorCommand {
    /// Would it let go of an alarm that was rung after it was sent? Then it is not to be taken.
    pub const fn is_voided_by_alarm(&self) -> bool {
        matches!(self, Self::Reset | Self::Resume)
    }
}

impl RobotCommand {
    /// Would it let go of an alarm that was rung after it was sent? Then it is not to be taken.
    pub const fn is_voided_by_alarm(&self) -> bool {
        matches!(self, Self::Release)
    }
}
