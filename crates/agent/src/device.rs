//! What an agent asks of a device: the operator's, which a hand holds, and the robot's, which moves.

use std::fmt;

use taut_control::PlayerCounts;
use taut_core::{Bitrate, Duration, Time, printable};
use taut_session::motion::Motion;
use taut_session::{ChannelId, State, StopCause};

/// What an operator's device says when it is asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Where it is. Its time of creation is when it was asked.
    pub state: State,
    /// The device's own count, or time, of its readings. One that does not change says that the device read nothing new, whether or
    /// not its values change: such a sample is not sent, and the robot's watchdog stops the robot. 0: it has read nothing yet.
    pub reading: u64,
}

/// What a device has for the peer, over a channel.
#[derive(Clone, Debug, PartialEq)]
pub enum DeviceMessage {
    /// The bytes of a message.
    Payload {
        /// Over which of the channels that this end declared.
        channel: ChannelId,
        /// Them.
        payload: Vec<u8>,
    },
    /// Motion, of the channel's schema: from an operator's device what to do, from a robot's where it is.
    Motion {
        /// Over which of the channels that this end declared.
        channel: ChannelId,
        /// That.
        motion: Motion,
    },
}

/// How far a resume of the robot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    /// It was asked for, or the device is about to be asked for its first sample.
    Asked,
    /// The robot says that it moves, which it may say more than once.
    Done,
}

/// A device in the operator's hand: a haptic device, a simulated hand, a recording. It is asked, and tells nothing by itself. No
/// method has a default that a wrapper could forget to forward.
pub trait OperatorDevice {
    /// Where it is at `now`; asked once a period. `None`: there is nothing more, and it is not asked again.
    fn sample(&mut self, now: Time) -> Option<Sample>;
    /// So many periods went by in which it was not asked, because the host was late: what the hand did then is gone. How many samples
    /// that were: behind the end of a recording there are none.
    fn skip(&mut self, periods: u64) -> u64;
    /// A robot that stands is to move: what moves it relative to where it is begins anew when that is asked for, and not when it is done.
    fn resumed(&mut self, resume: Resume);
    /// What the robot felt and where it was, fresh: push the hand with that force.
    fn feel(&mut self, now: Time, state: &State);
    /// Nothing fresh is known of the robot: let go of the last force. It may be said again, also when nothing was felt.
    fn lost(&mut self);
    /// A message of a channel came. It does not wait for whoever reads that.
    fn receive(&mut self, channel: ChannelId, age: Option<Duration>, payload: &[u8]);
    /// What it sends over channels that can wait may take so much, together: an encoder's rate. Told once a period, once it is known.
    fn limit_bitrate(&mut self, rate: Bitrate);
    /// The next thing that it has for a channel; asked once a period from when channels are open for the first time, until there is no more.
    /// What it gives while there is no session is dropped, and counted: nobody wants it done once there is one.
    fn poll_message(&mut self, now: Time) -> Option<DeviceMessage>;
}

/// A device that plays states, one a period, and feels nothing.
#[derive(Clone, Debug)]
pub struct Playback<I> {
    states: I,
    readings: u64,
}

impl<I> Playback<I> {
    /// It ends with `states`.
    pub fn new(states: I) -> Self {
        Self { states, readings: 0 }
    }
}

impl<I: Iterator<Item = State>> OperatorDevice for Playback<I> {
    fn sample(&mut self, _: Time) -> Option<Sample> {
        self.readings += 1;
        self.states.next().map(|state| Sample { state, reading: self.readings })
    }
    fn skip(&mut self, periods: u64) -> u64 {
        self.states.by_ref().take(usize::try_from(periods).unwrap_or(usize::MAX)).count() as u64
    }
    fn resumed(&mut self, _: Resume) {}
    fn feel(&mut self, _: Time, _: &State) {}
    fn lost(&mut self) {}
    fn receive(&mut self, _: ChannelId, _: Option<Duration>, _: &[u8]) {}
    fn limit_bitrate(&mut self, _: Bitrate) {}
    fn poll_message(&mut self, _: Time) -> Option<DeviceMessage> {
        None
    }
}

/// Where to go, and for how long without hearing more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SetPoint {
    /// Fresh, finite, and within the limits.
    pub state: State,
    /// How old that is, as far as known.
    pub age: Duration,
    /// From now on: after that the device stops by itself. It is what is left of the session's watchdog.
    pub lease: Duration,
    /// From now on: a device that goes there later than at once does not after that. It is what is left until the operator's deadline and
    /// until the robot's largest age.
    pub fresh: Duration,
}

/// What a robot's device says of itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Where it is, how fast it moves, and what it feels. Its time of creation does not matter.
    pub state: State,
    /// The force that its controller makes, N; `None` where nobody measures it.
    pub controller_force: Option<[f32; 3]>,
    /// Where the device is under a [control law](crate::CoupledArm).
    pub feedback: Option<LawFeedback>,
}

/// What a control law says of a device that it leads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LawFeedback {
    /// What goes back to the operator in place of what was measured.
    pub state: State,
    /// Periods so far in which the limits held its reference back.
    pub limited: u64,
    /// Periods and set points so far that it refused, for a number was not finite.
    pub refused: u64,
    /// How long set points that took the shortest way are held now, to be played out in even time.
    pub held: Duration,
    /// What became of set points.
    pub played: PlayerCounts,
}

/// Why a device does not do what it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceFailure {
    /// Its process is gone. It does not come back.
    Ended(String),
    /// It closed its socket. It does not come back.
    Closed,
    /// It wrote what is no frame.
    Junk {
        /// So many times so far.
        frames: u64,
        /// What is wrong with this one.
        why: String,
    },
    /// It did not read what it was told before its lease was over.
    NotTaken,
    /// It was moving, and has not said for so long where it is.
    Silent(Duration),
    /// It did not answer a stop. It is ended, and does not come back.
    IgnoresStop,
    /// It stopped by itself, and says why.
    Stopped(String),
    /// What watches over the session stopped it, for the session let the watchdog's time pass. It counts as the watchdog.
    Overdue,
    /// Its law stopped it, for hand and arm are [too far apart](taut_core::FARTHEST_TURN). It counts as the session's own stop for that.
    TurnedApart,
}

impl DeviceFailure {
    /// As what it stops the session.
    pub const fn cause(&self) -> StopCause {
        match self {
            Self::Overdue => StopCause::Watchdog,
            Self::TurnedApart => StopCause::TurnedApart,
            _ => StopCause::Device,
        }
    }

    /// Does it never move again?
    pub const fn is_lasting(&self) -> bool {
        matches!(self, Self::Ended(_) | Self::Closed | Self::IgnoresStop)
    }
}

impl fmt::Display for DeviceFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended(how) => write!(f, "its process ended: {how}"),
            Self::Closed => f.write_str("it closed its socket"),
            Self::Junk { frames, why } => {
                write!(f, "it wrote what is no frame, {frames} so far: {}", printable(why).at_most(200))
            }
            Self::Silent(silence) => write!(f, "it has not said for {silence} where it is"),
            Self::IgnoresStop => f.write_str("it did not answer a stop, and is ended"),
            Self::NotTaken => f.write_str("it did not read in time what it was told"),
            // Whoever wrote this is not to write to a terminal.
            Self::Stopped(why) => write!(f, "it stopped by itself: {}", printable(why)),
            Self::Overdue => f.write_str("it was stopped, for the session said nothing in time"),
            Self::TurnedApart => f.write_str("hand and arm are more than a quarter turn apart"),
        }
    }
}

/// A device that moves: a simulation, or the way to a controller.
///
/// The session that calls it may be frozen or killed at any moment. A device that keeps its [`SetPoint::lease`] itself stops
/// all the same; one that cannot says so by [`lease`](Self::lease). No method has a default that a wrapper could forget to
/// forward.
pub trait RobotDevice {
    /// How often it is [asked](Self::measure), at least 1 µs.
    fn period(&self) -> Duration;
    /// The operator resumed: set points follow.
    ///
    /// # Errors
    /// When it cannot move, or is being stopped at this moment; then nothing moves.
    fn enable(&mut self) -> Result<(), DeviceFailure>;
    /// Go there. False when it does not: it was not [enabled](Self::enable), or stopped since; the session stops as well then. To a device that channels alone move
    /// states are nothing, and it says true.
    fn apply(&mut self, point: &SetPoint) -> bool;
    /// Move so, as a channel of motion says, for `lease` and no longer without hearing more. Fresh, finite, and within the limits of that
    /// channel's guard. False when it does not: it knows no such channel, was not [enabled](Self::enable), or stopped since. The session stops then, too.
    fn drive(&mut self, channel: ChannelId, motion: &Motion, lease: Duration) -> bool;
    /// Stop, and stay: nothing moves the device before it is enabled again. Whether it holds, brakes or cuts the power
    /// (categories 2, 1 and 0 of IEC 60204-1) is the device's choice. It does not wait for the device, and may be called again.
    fn stop(&mut self, cause: StopCause);
    /// One [period](Self::period) passes; what was measured since it was asked last.
    fn measure(&mut self) -> Option<Measured>;
    /// A message of a channel came, moving or not. It does not wait for whoever reads that.
    fn receive(&mut self, channel: ChannelId, age: Option<Duration>, payload: &[u8]);
    /// What it sends over channels that can wait may take so much, together: an encoder's rate. Told once a period, once it is known.
    fn limit_bitrate(&mut self, rate: Bitrate);
    /// The next thing that it has for a channel; asked once a period, until there is no more.
    fn poll_message(&mut self) -> Option<DeviceMessage>;
    /// Is what was measured last told to the operator?
    fn feeds_back(&mut self) -> bool;
    /// What went wrong since it was asked last. What cannot be mended is told every time.
    fn failure(&mut self) -> Option<DeviceFailure>;
    /// Does the device itself keep the lease?
    fn lease(&self) -> bool;
    /// Of its position controller, N/m; `None` where nobody knows.
    fn stiffness(&self) -> Option<f32>;
    /// Its controller makes no more force than this, in magnitude. False when the device cannot keep to that.
    fn limit_force(&mut self, newtons: f32) -> bool;
    /// Can it hurt somebody? Such a device is not moved without limits.
    fn is_real(&self) -> bool;
}

/// Methods of an [`OperatorDevice`] that a device around another one hands on as they are, by their names: none goes by itself.
///
/// `forward_operator_device!(self, self.device => receive limit_bitrate poll_message)` hands these on to `self.device`.
#[macro_export]
macro_rules! forward_operator_device {
    ($this:ident, $inner:expr => $($method:ident)+) => {
        $($crate::forward_operator_device!(@$method $this, $inner);)+
    };
    (@sample $this:ident, $inner:expr) => {
        fn sample(&mut $this, now: $crate::device_types::Time) -> Option<$crate::Sample> {
            $inner.sample(now)
        }
    };
    (@skip $this:ident, $inner:expr) => {
        fn skip(&mut $this, periods: u64) -> u64 {
            $inner.skip(periods)
        }
    };
    (@resumed $this:ident, $inner:expr) => {
        fn resumed(&mut $this, resume: $crate::Resume) {
            $inner.resumed(resume);
        }
    };
    (@feel $this:ident, $inner:expr) => {
        fn feel(&mut $this, now: $crate::device_types::Time, state: &$crate::device_types::State) {
            $inner.feel(now, state);
        }
    };
    (@lost $this:ident, $inner:expr) => {
        fn lost(&mut $this) {
            $inner.lost();
        }
    };
    (@receive $this:ident, $inner:expr) => {
        fn receive(
            &mut $this,
            channel: $crate::device_types::ChannelId,
            age: Option<$crate::device_types::Duration>,
            payload: &[u8],
        ) {
            $inner.receive(channel, age, payload);
        }
    };
    (@limit_bitrate $this:ident, $inner:expr) => {
        fn limit_bitrate(&mut $this, rate: $crate::device_types::Bitrate) {
            $inner.limit_bitrate(rate);
        }
    };
    (@poll_message $this:ident, $inner:expr) => {
        fn poll_message(&mut $this, now: $crate::device_types::Time) -> Option<$crate::DeviceMessage> {
            $inner.poll_message(now)
        }
    };
}

impl<D: OperatorDevice + ?Sized> OperatorDevice for Box<D> {
    forward_operator_device!(self, (**self) => sample skip resumed feel lost receive limit_bitrate poll_message);
}

/// What a device around another one hands on as it is, as methods of its [`RobotDevice`]: all that neither moves nor stops it, nor tells of
/// either. The others each such device writes itself, and the compiler says so when one is missing.
///
/// `forward_robot_device!(self => self.device)` hands on to `self.device`.
#[macro_export]
macro_rules! forward_robot_device {
    ($this:ident => $inner:expr) => {
        fn period(&$this) -> $crate::device_types::Duration {
            $inner.period()
        }
        // As of an operator's device.
        $crate::forward_operator_device!($this, $inner => receive limit_bitrate);
        fn poll_message(&mut $this) -> Option<$crate::DeviceMessage> {
            $inner.poll_message()
        }
        fn feeds_back(&mut $this) -> bool {
            $inner.feeds_back()
        }
        fn lease(&$this) -> bool {
            $inner.lease()
        }
        fn stiffness(&$this) -> Option<f32> {
            $inner.stiffness()
        }
        fn limit_force(&mut $this, newtons: f32) -> bool {
            $inner.limit_force(newtons)
        }
        fn is_real(&$this) -> bool {
            $inner.is_real()
        }
    };
}

impl<P: RobotDevice + ?Sized> RobotDevice for Box<P> {
    forward_robot_device!(self => (**self));
    fn enable(&mut self) -> Result<(), DeviceFailure> {
        (**self).enable()
    }
    fn apply(&mut self, point: &SetPoint) -> bool {
        (**self).apply(point)
    }
    fn drive(&mut self, channel: ChannelId, motion: &Motion, lease: Duration) -> bool {
        (**self).drive(channel, motion, lease)
    }
    fn stop(&mut self, cause: StopCause) {
        (**self).stop(cause);
    }
    fn measure(&mut self) -> Option<Measured> {
        (**self).measure()
    }
    fn failure(&mut self) -> Option<DeviceFailure> {
        (**self).failure()
    }
}

/// A device that is let go of when its agent is gone, however that ended: a panic unwinds through here as well.
#[derive(Debug)]
pub(crate) struct LostOnDrop<D: OperatorDevice>(pub(crate) D);

impl<D: OperatorDevice> Drop for LostOnDrop<D> {
    fn drop(&mut self) {
        self.0.lost();
    }
}

/// A device that is stopped when its agent is gone, in the same way.
#[derive(Debug)]
pub(crate) struct Kept<P: RobotDevice>(pub(crate) P);

impl<P: RobotDevice> Drop for Kept<P> {
    fn drop(&mut self) {
        self.0.stop(StopCause::Host);
    }
}
