//! How an operator and a robot behave.

use std::collections::BTreeMap;

use taut_core::{Bitrate, Bytes, Duration};
use taut_wire::omni71::STATE_LEN;
use taut_wire::session::ControlLaw;

use crate::channel::{Channel, ChannelError, Packing, declare};
use crate::codec::Codec;
use crate::congestion::Congestion;
use crate::motion::{Limits, MotionLimits};
use crate::safety::Latch;
use crate::sending::Order;

const MS: Duration = Duration::from_millis(1);
/// The age at which feedback is worthless, where nobody says otherwise.
pub const FEEDBACK_DEADLINE: Duration = Duration::from_millis(200);
/// IPv4 and UDP.
const HEADERS: Bytes = Bytes::new(28);
/// What every transport carries in one datagram, whatever seals it.
const LARGEST_SAMPLE: usize = 1_000;

/// Declares what both ends can be set to.
macro_rules! of_both_ends {
    () => {
        /// The defaults.
        pub fn new() -> Self {
            Self::default()
        }

        /// The bytes of the session. Default: native.
        pub fn codec(mut self, codec: Codec) -> Self {
            self.codec = codec;
            self
        }

        /// How things turn is told: states say [it](crate::State::turning), and the peer's have to. An end that does and one that does not have no session with each
        /// other, and either is told so ([`Incompatible`](crate::OperatorEvent::Incompatible)). Not in `omni71`. Default: no, and what states say of it is not sent.
        pub fn turns(mut self, yes: bool) -> Self {
            self.turns = yes;
            self
        }

        /// By which control law this end is coupled: the peer has to be by the same. Two that are not have no session with each other, and either is told so, as of
        /// [turns](Self::turns). Not in `omni71`. Default: `None`, none that the peer has to have.
        pub fn control_law(mut self, law: Option<ControlLaw>) -> Self {
            self.control_law = law;
            self
        }

        /// Bytes of a sample in `omni71`, padded with zeros: 71 to 1000. Those of a peer may have any length. Default 71.
        pub fn sample_length(mut self, bytes: usize) -> Self {
            self.sample_length = bytes.clamp(STATE_LEN, LARGEST_SAMPLE);
            self
        }

        /// States that wait, at most: at the operator for their turn, of each priority so many; at a slow robot for it. At least 1. A full
        /// queue drops the oldest. Default 2000.
        pub fn queue(mut self, states: usize) -> Self {
            self.queue = states.max(1);
            self
        }

        /// Hold states (at the robot feedback) back while the session alone fills the path's queue, so that an emergency stop does not wait
        /// behind them? Default: yes. Costs nothing where the path carries them. Without, nothing is held back: messages that can wait
        /// go as they are made, too, whatever the path carries. A stop then waits behind all that; the robot stands no later than its
        /// [largest age](crate::RobotConfig::max_age) after the press all the same, for what left before the stop is refused from then on.
        pub fn window(mut self, yes: bool) -> Self {
            self.window = yes;
            self
        }

        /// Which of the waiting states goes next; at the robot, which of them a slow one takes. Default: the newest.
        pub fn order(mut self, order: Order) -> Self {
            self.order = order;
            self
        }

        /// By which law it is found how much the path carries. Default: [`Congestion::OwnQueue`].
        pub fn congestion(mut self, law: Congestion) -> Self {
            self.congestion = law;
            self
        }

        /// How often the clocks are compared; 1 ms to 10 s. Default 100 ms, 40 B each. Less often while requests are not
        /// answered.
        pub fn clock_interval(mut self, interval: Duration) -> Self {
            self.clock_interval = interval.clamp(MS, MS * 10_000);
            self
        }

        /// Bytes of headers that the driver adds to each datagram, for the account of what is on the wire. Default 28, IPv4
        /// and UDP.
        pub fn headers(mut self, bytes: Bytes) -> Self {
            self.headers = bytes;
            self
        }

        /// Channels but those of motion and feedback send no faster than this, all together, whatever the path carries; at least 10 kbit/s.
        /// Default: as fast as the path carries beside states.
        pub fn channel_rate(mut self, rate: Bitrate) -> Self {
            self.channel_rate = Some(rate.max(Bitrate::from_bps(10_000)));
            self
        }

        /// Which messages of channels travel together, of those that this end sends. Default: each by itself.
        pub fn packing(mut self, packing: Packing) -> Self {
            self.packing = packing;
            self
        }
    };
}

/// Settings of an [`Operator`](crate::Operator).
///
/// ```
/// use taut_core::Duration;
/// use taut_session::{Codec, OperatorConfig};
/// let config = OperatorConfig::new().codec(Codec::Omni71).rate(500).deadline(Duration::from_millis(50));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct OperatorConfig {
    pub(crate) codec: Codec,
    pub(crate) turns: bool,
    pub(crate) control_law: Option<ControlLaw>,
    pub(crate) sample_length: usize,
    pub(crate) rate: u32,
    pub(crate) least_rate: u32,
    pub(crate) adaptive: bool,
    pub(crate) deadline: Option<Duration>,
    pub(crate) queue: usize,
    pub(crate) order: Order,
    pub(crate) reliable: bool,
    pub(crate) window: bool,
    pub(crate) congestion: Congestion,
    pub(crate) clock_interval: Duration,
    pub(crate) feedback_watchdog: Duration,
    pub(crate) feedback_force: f32,
    pub(crate) feedback_torque: f32,
    pub(crate) headers: Bytes,
    pub(crate) channels: Vec<Channel>,
    pub(crate) channel_rate: Option<Bitrate>,
    pub(crate) packing: Packing,
}

impl Default for OperatorConfig {
    fn default() -> Self {
        Self {
            codec: Codec::Native,
            turns: false,
            control_law: None,
            sample_length: STATE_LEN,
            rate: 1000,
            least_rate: 125,
            adaptive: true,
            deadline: Some(MS * 200),
            queue: 2000,
            order: Order::Newest,
            reliable: false,
            window: true,
            congestion: Congestion::default(),
            clock_interval: MS * 100,
            feedback_watchdog: MS * 100,
            feedback_force: 5.0,
            feedback_torque: 0.5,
            headers: HEADERS,
            channels: Vec::new(),
            channel_rate: None,
            packing: Packing::default(),
        }
    }
}

impl OperatorConfig {
    of_both_ends!();

    /// States of priority normal per second, at most; 1 to 100 000. Those of priority high go up to twice as often.
    /// Default 1000.
    pub fn rate(mut self, hz: u32) -> Self {
        self.rate = hz.clamp(1, 100_000);
        self
    }

    /// Below this the rate is never stepped down, states per second; up to the rate. Default 125.
    pub fn least_rate(mut self, hz: u32) -> Self {
        self.least_rate = hz.clamp(1, 100_000);
        self
    }

    /// Step the rate down when less than 85 % are delivered, and up again? Default: yes.
    pub fn adaptive(mut self, yes: bool) -> Self {
        self.adaptive = yes;
        self
    }

    /// The age at which a state is worthless, wherever it is; from 1 µs up. The robot may be stricter. Default 200 ms.
    pub fn deadline(mut self, age: Duration) -> Self {
        self.deadline = Some(age);
        self
    }

    /// States do not age here. The robot's own limit holds.
    pub fn no_deadline(mut self) -> Self {
        self.deadline = None;
        self
    }

    /// Ask the transport to repeat lost states until their deadline? Default: no; a newer one is there before.
    pub fn reliable(mut self, yes: bool) -> Self {
        self.reliable = yes;
        self
    }

    /// Without fresh feedback for so long, the hand is told to let go of the last force
    /// ([`FeedbackLost`](crate::OperatorEvent::FeedbackLost)); from 1 ms up. Default 100 ms.
    pub fn feedback_watchdog(mut self, silence: Duration) -> Self {
        self.feedback_watchdog = silence.max(MS);
        self
    }

    /// The largest force that the hand is given, N: what the device bears, and the hand. Default 5 N.
    pub fn feedback_force(mut self, largest: f32) -> Self {
        self.feedback_force = largest.max(0.0);
        self
    }

    /// The largest torque that the hand is given, N·m. Default 0.5: the force of 5 N at the end of 10 cm.
    pub fn feedback_torque(mut self, largest: f32) -> Self {
        self.feedback_torque = largest.max(0.0);
        self
    }

    /// Declares a channel, in either direction; it is open when the peer declares the same one. Not in `omni71`. Default: none but
    /// motion and feedback.
    ///
    /// # Errors
    /// When it cannot be declared beside the others: see [`ChannelError`].
    pub fn channel(mut self, channel: Channel) -> Result<Self, ChannelError> {
        declare(&mut self.channels, channel, true)?;
        Ok(self)
    }
}

/// How long the robot needs for each state: none, or a simulated slow one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Processing {
    /// A state is applied when it arrives.
    #[default]
    Immediate,
    /// Each takes so long, one after the other.
    Fixed(Duration),
    /// Each takes a random time, uniform in [least, largest).
    Uniform {
        /// The least.
        least: Duration,
        /// The largest.
        largest: Duration,
    },
}

/// Settings of a [`Robot`](crate::Robot).
///
/// ```
/// use taut_core::Duration;
/// use taut_session::{MotionLimits, RobotConfig};
/// let limits = MotionLimits::new().velocity(0.5).force(20.0);
/// let config = RobotConfig::new().watchdog(Duration::from_millis(50)).limits(limits);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RobotConfig {
    pub(crate) codec: Codec,
    pub(crate) turns: bool,
    pub(crate) control_law: Option<ControlLaw>,
    pub(crate) sample_length: usize,
    pub(crate) watchdog: Duration,
    pub(crate) max_age: Option<Duration>,
    pub(crate) hold_to_run: bool,
    pub(crate) latched: Option<Latch>,
    pub(crate) keeps_latch: bool,
    pub(crate) limits: MotionLimits,
    pub(crate) processing: Processing,
    pub(crate) queue: usize,
    pub(crate) order: Order,
    pub(crate) feedback_rate: u32,
    pub(crate) feedback_deadline: Duration,
    pub(crate) window: bool,
    pub(crate) congestion: Congestion,
    pub(crate) command_age: Duration,
    pub(crate) takeover: Duration,
    pub(crate) status_interval: Duration,
    pub(crate) clock_interval: Duration,
    pub(crate) headers: Bytes,
    pub(crate) channels: Vec<Channel>,
    pub(crate) guarded: BTreeMap<u8, Limits>,
    pub(crate) channel_rate: Option<Bitrate>,
    pub(crate) packing: Packing,
}

impl Default for RobotConfig {
    fn default() -> Self {
        Self {
            codec: Codec::Native,
            turns: false,
            control_law: None,
            sample_length: STATE_LEN,
            watchdog: MS * 100,
            max_age: None,
            hold_to_run: false,
            latched: None,
            keeps_latch: false,
            limits: MotionLimits::default(),
            processing: Processing::Immediate,
            queue: 2000,
            order: Order::Newest,
            feedback_rate: 1000,
            feedback_deadline: FEEDBACK_DEADLINE,
            window: true,
            congestion: Congestion::default(),
            command_age: MS * 1000,
            takeover: MS * 1000,
            status_interval: MS * 50,
            clock_interval: MS * 100,
            headers: HEADERS,
            channels: Vec::new(),
            guarded: BTreeMap::new(),
            channel_rate: None,
            packing: Packing::default(),
        }
    }
}

impl RobotConfig {
    of_both_ends!();

    /// So long after the last applied state was made the robot stops, until the operator resumes; from 1 ms up. The time that
    /// the state was on its way counts: on a longer way this is longer. Default 100 ms.
    pub fn watchdog(mut self, silence: Duration) -> Self {
        self.watchdog = silence.max(MS);
        self
    }

    /// No state is applied that may be of this age, whatever deadline the operator gave it; from 1 ms up. The uncertainty of the
    /// clocks counts as age. A robot to which motion takes longer refuses to be resumed
    /// ([`PathTooSlow`](crate::Answer::PathTooSlow)). Default, and at most: the watchdog's time.
    pub fn max_age(mut self, age: Duration) -> Self {
        self.max_age = Some(age.max(MS));
        self
    }

    /// The robot moves only while the states that come say that the operator's enabling input is held
    /// ([`State::enabling`](crate::State::enabling)); the first that comes and says that it is not stops it. An operator says so from
    /// when it was let go until its next resume, whatever is lost meanwhile. Not in `omni71`, which
    /// cannot say so: such a robot never moves. Default: no.
    pub fn hold_to_run(mut self, yes: bool) -> Self {
        self.hold_to_run = yes;
        self
    }

    /// A stop that was latched in an earlier life of this robot, and holds. Default: none.
    pub fn latched(mut self, latch: Option<Latch>) -> Self {
        self.latched = latch;
        self
    }

    /// Is what is latched kept beside the robot, so that it survives this process? Then each change comes as
    /// [`RobotEvent::Keep`](crate::RobotEvent::Keep), and a stop is acknowledged when [`Robot::kept`](crate::Robot::kept) says
    /// that it was written, or a second later as one that was not. Otherwise it is acknowledged at once, as one that is not kept.
    /// Default: no.
    pub fn keeps_latch(mut self, yes: bool) -> Self {
        self.keeps_latch = yes;
        self
    }

    /// The age at which no state is applied: then the watchdog stops the robot at the latest.
    pub(crate) fn oldest(&self) -> Duration {
        self.max_age.unwrap_or(self.watchdog).min(self.watchdog)
    }

    /// Limits on motion and force. Default: none.
    pub fn limits(mut self, limits: MotionLimits) -> Self {
        self.limits = limits;
        self
    }

    /// How long each state takes before it is applied. Default: no time.
    pub fn processing(mut self, processing: Processing) -> Self {
        self.processing = processing;
        self
    }

    /// Feedback per second, at most; 1 to 100 000. Default 1000.
    pub fn feedback_rate(mut self, hz: u32) -> Self {
        self.feedback_rate = hz.clamp(1, 100_000);
        self
    }

    /// The age at which feedback is worthless. Default 200 ms.
    pub fn feedback_deadline(mut self, age: Duration) -> Self {
        self.feedback_deadline = age;
        self
    }

    /// The age at which a resume is not obeyed any more: nobody expects it to move. Default 1 s.
    pub fn command_age(mut self, age: Duration) -> Self {
        self.command_age = age;
        self
    }

    /// After so long a silence of its operator the robot takes another. Default 1 s.
    pub fn takeover(mut self, silence: Duration) -> Self {
        self.takeover = silence;
        self
    }

    /// How often the robot reports its state, besides at once when it changes; 1 ms to 10 s. Default 50 ms, 96 B each.
    pub fn status_interval(mut self, interval: Duration) -> Self {
        self.status_interval = interval.clamp(MS, MS * 10_000);
        self
    }

    /// Declares a channel, in either direction; it is open when the peer declares the same one. Not in `omni71`. Default: none but
    /// motion and feedback.
    ///
    /// # Errors
    /// When it cannot be declared beside the others: see [`ChannelError`].
    pub fn channel(mut self, channel: Channel) -> Result<Self, ChannelError> {
        declare(&mut self.channels, channel, false)?;
        Ok(self)
    }

    /// Declares a channel of motion, and the limits by which its guard judges: without one nothing moves this robot. Default: states,
    /// by [`limits`](Self::limits).
    ///
    /// # Errors
    /// When it cannot be declared beside the others, or the limits are those of another schema: see [`ChannelError`].
    pub fn motion(mut self, channel: Channel, limits: impl Into<Limits>) -> Result<Self, ChannelError> {
        let limits = limits.into();
        let guarded = channel.motion() == Some(limits.schema());
        declare(&mut self.channels, channel, guarded)?;
        self.guarded.insert(self.channels.len() as u8 - 1, limits);
        Ok(self)
    }
}
