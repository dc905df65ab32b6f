//! What a device that is a program reads and writes: frames of fixed layout, each a message of a `SOCK_SEQPACKET` socket. All numbers
//! are little-endian. The page docs/devices.md has the table of them.
//!
//! Each begins with 8 bytes: its kind, what of that kind, the channel, flags, and a number of 32 bits. What a kind does not use is zero,
//! so that every frame has exactly one form. Motion is the payload of its schema ([`taut_session::motion`]) with its numbers little-endian.
//!
//! ```
//! use taut_io::device::frame::{Frame, FrameError};
//! let stop = Frame::Stop { number: 7, cause: "watchdog".to_owned() };
//! assert_eq!(stop.to_bytes(), *b"\x07\0\0\0\x07\0\0\0watchdog");
//! assert_eq!(Frame::parse(b"\x07\0\0\0\x07\0\0\0watchdog"), Ok(stop));
//! assert_eq!(Frame::parse(b"stop"), Err(FrameError::Length { needed: 8, found: 4 }));
//! ```

use taut_core::{Duration, Time};
use taut_session::ChannelId;
use taut_session::motion::{self, Motion, Schema};

mod codec;

/// Of what is described here.
pub const VERSION: u32 = 1;
/// Bytes of a frame to a device at most.
pub const LONGEST_TO_DEVICE: usize = 1_536;
/// Bytes of a frame from a device at most.
pub const LONGEST_FROM_DEVICE: usize = 65_536;
/// Bytes of a message in a frame to a device at most; longer ones come in parts.
pub const PART: usize = 1_400;

/// A frame, either way.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame {
    /// To it, first: what it is to be, and how many [`Channel`](Frame::Channel) frames follow.
    Hello {
        /// Robot or input.
        role: Role,
        /// How many channels there are.
        channels: u8,
    },
    /// To it: a channel of the session.
    Channel(ChannelInfo),
    /// To a robot: what it must not exceed. From one, before [`Device`](Frame::Device): its own.
    Limits(DeviceLimits),
    /// To a robot: set points follow.
    Enable,
    /// To a robot: go there.
    Apply {
        /// When the lease ends, by `CLOCK_BOOTTIME`.
        until: Time,
        /// There.
        state: motion::State,
    },
    /// To a robot: move so, as a channel of motion says.
    Drive {
        /// Which.
        channel: ChannelId,
        /// When the lease ends, by `CLOCK_BOOTTIME`.
        until: Time,
        /// So.
        motion: Motion,
    },
    /// To a robot: stop, and stay until [`Enable`](Frame::Enable). It is answered by [`Stopped`](Frame::Stopped) with its number.
    Stop {
        /// From 1.
        number: u32,
        /// Why, in a word.
        cause: String,
    },
    /// Either way: a message of a channel, or a part of it.
    Message {
        /// Which.
        channel: ChannelId,
        /// How old it is, where that is known.
        age: Option<Duration>,
        /// The next message frame of this channel goes on with it.
        more: bool,
        /// Its bytes.
        payload: Vec<u8>,
    },
    /// To an input: it is asked for a sample now.
    Tick {
        /// `CLOCK_BOOTTIME`.
        now: Time,
    },
    /// To an input: where the robot is and what it feels.
    Feel(motion::State),
    /// To an input: nothing fresh is known of the robot.
    Lost,
    /// To an input: the robot is resumed, and what moves it relative to where it is begins anew.
    Resumed,
    /// From it, at the beginning: what it is.
    Device(DeviceInfo),
    /// From a robot: where it is and what it feels.
    Measured {
        /// That.
        state: motion::State,
        /// The force that its controller makes, N.
        controller_force: Option<[f32; 3]>,
    },
    /// From a robot: where it is, by a channel of motion. From an input: what to do.
    Motion {
        /// Which.
        channel: ChannelId,
        /// That.
        motion: Motion,
    },
    /// From a robot: it stopped.
    Stopped {
        /// Of the stop that it answers; 0: it stopped by itself.
        number: u32,
        /// Why, in a word.
        why: String,
    },
    /// From an input: where the hand is.
    Sample(motion::State),
    /// From an input: a button was pressed.
    Button(Button),
}

/// What a program is started as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It moves.
    Robot,
    /// It is in the operator's hand.
    Input,
}

/// Buttons of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Button {
    /// The emergency stop.
    Stop,
    /// Let go of the emergency stop; nothing moves by it.
    Reset,
    /// Let the robot move.
    Resume,
}

/// What a device must not exceed, whatever it is told.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DeviceLimits {
    /// The box that positions stay in, m: its least and its largest corner.
    pub position: Option<[[f32; 3]; 2]>,
    /// The largest speed, m/s.
    pub velocity: Option<f32>,
    /// The largest magnitude of the force that its controller makes, N.
    pub force: Option<f32>,
}

impl DeviceLimits {
    /// What keeps to these and to `others`. `None`: no position is in both boxes.
    pub fn and(self, others: Self) -> Option<Self> {
        let least = |one: Option<f32>, other: Option<f32>| one.into_iter().chain(other).reduce(f32::min);
        let position = match (self.position, others.position) {
            (Some([low, high]), Some([other_low, other_high])) => Some([
                std::array::from_fn(|axis| f32::max(low[axis], other_low[axis])),
                std::array::from_fn(|axis| f32::min(high[axis], other_high[axis])),
            ]),
            (one, other) => one.or(other),
        };
        let is_empty = position.is_some_and(|corners| !is_box(&corners));
        let velocity = least(self.velocity, others.velocity);
        (!is_empty).then_some(Self { position, velocity, force: least(self.force, others.force) })
    }

    /// # Errors
    /// They are no limits.
    pub(super) fn check(&self) -> Result<(), String> {
        let is_amount = |limit: &f32| limit.is_finite() && *limit >= 0.0;
        if !self.position.iter().all(is_box) {
            return Err("of its own limits the box has no least and largest corner".to_owned());
        }
        if !self.velocity.iter().chain(&self.force).all(is_amount) {
            return Err("its own limits of velocity and force are not numbers from 0 on".to_owned());
        }
        Ok(())
    }
}

/// Two corners, the least first.
fn is_box([least, largest]: &[[f32; 3]; 2]) -> bool {
    let are = |(least, largest): (&f32, &f32)| least.is_finite() && largest.is_finite() && least <= largest;
    least.iter().zip(largest).all(are)
}

/// A channel, as a device knows it.
#[derive(Clone, Debug, PartialEq)]
pub struct ChannelInfo {
    /// The byte that stands for it in frames.
    pub channel: ChannelId,
    /// What its motion is, if it moves something.
    pub motion: Option<Schema>,
    /// Its messages go to the operator.
    pub to_operator: bool,
    /// Its payloads are JSON.
    pub is_json: bool,
    /// Bytes of its longest message.
    pub largest: u32,
    /// Of each joint, at the robot: the least and the largest position, speed and effort; a limit that is not set is infinite.
    pub joints: Vec<[f32; 4]>,
    /// Its name.
    pub name: String,
}

/// What a device is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceInfo {
    /// It keeps the lease by its own clock.
    pub lease: bool,
    /// Its controller keeps the limit of force.
    pub limits_force: bool,
    /// It can hurt somebody.
    pub real: bool,
    /// Channels of motion alone move it, and states do not.
    pub by_channels: bool,
    /// Of its position controller, N/m.
    pub stiffness: Option<f32>,
    /// For people.
    pub name: String,
}

/// Why bytes are no frame.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Too short, or not the length that its kind has.
    #[error("a frame of {found} bytes where {needed} are needed")]
    Length {
        /// What it needs at least.
        needed: usize,
        /// What there is.
        found: usize,
    },
    /// No kind, or none of this kind.
    #[error("{value} at byte {at} of a frame has no meaning")]
    Value {
        /// Which byte.
        at: usize,
        /// What it holds.
        value: u8,
    },
    /// Another version.
    #[error("it speaks version {0} of the frames; this is version {VERSION}")]
    Version(u32),
    /// No UTF-8.
    #[error("its text is not UTF-8")]
    Text,
    /// A number that is not finite.
    #[error("a number in it is not finite")]
    NotFinite,
    /// No payload of its schema.
    #[error("its motion: {0}")]
    Motion(#[from] motion::Error),
    /// What is not used is not zero, or bytes follow.
    #[error("what a frame of kind {0} does not use is not zero")]
    Unused(u8),
}

#[cfg(test)]
mod tests;
