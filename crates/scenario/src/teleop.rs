//! `[teleop]`: a whole session of an operator and a robot, with hand, device, arm and environment.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taut_core::{Bitrate, Bytes, Duration, Probability};
use taut_qos::touch::{self, Lags, Mass, Touch};
use taut_session::{Codec, Congestion, Order};

use super::channel::{self, PlayoutSpec, TeleopChannel};
use super::law::{self, LawSpec};
use super::plant::{self, ArmSpec, DeviceSpec};
use super::schema::TransportSpec;
use super::schema::defaults::{bytes, is_default, ms, tenths, u8, u32, usize, yes};
use super::validate::{Checked, LONGEST, MOST_PATHS, check_transport, fault, vertex, within};
use super::wanted::{self, WantedSpec};

/// A teleoperation session between two vertices: the stack that is shipped, an operator's hand on a device at one end, an
/// arm that touches something at the other. A scenario has this or `session`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Teleop {
    /// The operator's vertex.
    pub operator: String,
    /// The robot's vertex.
    pub robot: String,
    /// What carries it, in both directions.
    #[serde(default)]
    pub transport: TransportSpec,
    /// Over how many paths: parallel links between the two vertices, in the order of their names. 1 to 8.
    #[serde(default = "u8::<1>", skip_serializing_if = "is_one")]
    pub paths: u8,
    /// Noise IK around every transport but QUIC and MPQUIC, which have TLS 1.3 themselves. Off: in plain text, for the lab only.
    #[serde(default = "yes")]
    pub secure: bool,
    /// The bytes of the session.
    #[serde(default)]
    pub codec: Codec,
    /// Of `omni71`, the length of a sample, padding included. 71B to 1kB.
    #[serde(default = "bytes::<71>")]
    pub sample_length: Bytes,
    /// The device makes a state every period. 10us to 1s.
    #[serde(default = "ms::<1>")]
    pub period: Duration,
    /// The device stops after so many states; without it, at the scenario's `duration`.
    pub messages: Option<u64>,
    /// The age at which a state is worthless. 1us to 1min. Without it, states do not age.
    pub deadline: Option<Duration>,
    /// The age at which the robot applies no state, whatever its deadline; how unsure the clocks are counts as age. 1ms to 1h.
    /// Without it, the watchdog's time.
    pub max_age: Option<Duration>,
    /// Are lost states sent again, where the transport can?
    #[serde(default)]
    pub reliable: bool,
    /// Are states and feedback held back while the session alone fills the path's queue? Off, to see what a transport does by itself.
    #[serde(default = "yes")]
    pub window: bool,
    /// By which law.
    #[serde(default, skip_serializing_if = "is_default")]
    pub congestion_control: Congestion,
    /// The run is judged by its emergency stops, and by nothing else: each is to be acknowledged so long after the round
    /// trip of the path at most. 0 to 1s. Without it, the run is judged by the limits of its media.
    pub stop_within: Option<Duration>,
    /// Share of the states that are of high priority.
    #[serde(default)]
    pub high: Probability,
    /// Normal states per second that the session lets through. 1 to 100000.
    #[serde(default = "u32::<1000>")]
    pub rate: u32,
    /// Does that rate step down below 85 % of delivery, and up again?
    #[serde(default = "yes")]
    pub adaptive: bool,
    /// States that wait for their turn at each end, at most. 1 to 100000.
    #[serde(default = "usize::<2000>")]
    pub queue: usize,
    /// Which of those that wait goes next.
    #[serde(default)]
    pub order: Order,
    /// Feedback per second from the robot; 0: none, and the hand feels nothing. To 100000.
    #[serde(default = "u32::<1000>")]
    pub feedback: u32,
    /// The most that the device in the hand can push, N. More than 0, to 1000.
    #[serde(default = "tenths::<50>")]
    pub device_force: f64,
    /// So much longer the hand holds still where it presses than the 0.2 to 0.8 s that it does by itself. 0 to 10min. Default: 0s.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rest: Duration,
    /// Does the hand tremble, by some 0.05 N near 9 Hz? Off, to see the loop by itself.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub tremor: bool,
    /// Is the hand led, 8 mm into the thing and there by ten sines from 0.5 to 10 Hz, whatever pushes it? Then what it feels is told, beside what it would feel
    /// without a network, at the same pace. The duration is 21s or more then; grip, rest and tremor are those of nobody, and the device is none of one's own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub led: bool,
    /// Does the hand turn about x what it moves along x otherwise, at a lever of 10 cm: hand, arm, its controller and what is touched, 10 N/m of which are 0.1 N m/rad? States say
    /// angular velocity and torque then, and the law couples both, with impedances and an energy of their own. Everything that is given and told is at the lever's end, in metres and
    /// newtons. What is touched has no friction.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub turns: bool,
    /// How the hand holds the device.
    #[serde(default, skip_serializing_if = "is_default")]
    pub grip: Mass,
    /// The device in the hand.
    #[serde(default, skip_serializing_if = "is_default")]
    pub device: DeviceSpec,
    /// What follows it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub arm: ArmSpec,
    /// By which rule force and motion of hand and arm follow from each other. `position_force`, when nothing is said.
    #[serde(default, skip_serializing_if = "is_default")]
    pub law: LawSpec,
    /// When a control law hears of the other end: in even time, at both ends, so long after the shortest way, or so long after it that hardly
    /// any message comes later (`adaptive`); `{ fixed = "0s" }`: as it comes. Never older than a state may be. Without it, `wave` by
    /// `{ adaptive = { min = "0s", max = "100ms" } }`, every other law as it comes.
    pub playout: Option<PlayoutSpec>,
    /// At which age states and feedback are to be there, as far as MTIP chooses paths and copies by that. Without it, at their deadlines.
    pub wanted: Option<WantedSpec>,
    /// When the operator presses the emergency stop.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stops: Vec<Duration>,
    /// When the operator presses resume; the first one, as soon as there is a session, goes without saying.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resumes: Vec<Duration>,
    /// The operator presses resume so long after learning that the watchdog stopped the robot. Without it: never.
    pub resume_after: Option<Duration>,
    /// So long after the last applied state was made the robot stops: what it takes on its way counts. Where that alone takes as
    /// long, the robot refuses to be resumed. 1ms to 1min.
    #[serde(default = "ms::<100>")]
    pub watchdog: Duration,
    /// How long the robot needs for each state.
    pub processing: Option<ProcessingSpec>,
    /// What the arm touches; foam, when nothing is said.
    #[serde(default)]
    pub environment: Environment,
    /// The operator's clock; without it, off by chance.
    pub operator_clock: Option<ClockSpec>,
    /// The robot's clock; without it, off by chance.
    pub robot_clock: Option<ClockSpec>,
    /// All messages of channels together go no faster than this, at each end, whatever the path carries. 10kbit to 100Gbit.
    pub channel_rate: Option<Bitrate>,
    /// Channels beside states and feedback, and what is sent over them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<TeleopChannel>,
}

fn is_yes(yes: &bool) -> bool {
    *yes
}

impl Teleop {
    /// The hand with the device in it.
    pub fn hand(&self) -> Mass {
        let Mass { mass, damping, stiffness } = self.grip;
        Mass { mass: mass + self.device.mass, damping: damping + self.device.damping, stiffness }
    }

    /// The [hand](Self::hand), the arm, and what it touches, as far as they are linear; `None` where that is nothing, or its hysteresis is in between:
    /// [`Environment::stiffening`].
    pub fn touch(&self) -> Option<Touch> {
        let [stiffness, damping, _] = self.environment.surface()?;
        let surface = touch::Surface { stiffness: self.environment.stiffening()? * stiffness, damping };
        Some(Touch { hand: self.hand(), lags: self.lags(), ..Touch::of(surface) })
    }

    /// Of device and arm.
    pub fn lags(&self) -> Lags {
        Lags {
            device: self.device.lag.as_secs_f64(),
            velocity: self.device.velocity_filter.as_secs_f64(),
            arm: self.arm.lag.as_secs_f64(),
        }
    }

    /// The age at which the robot applies no state.
    pub fn oldest(&self) -> Duration {
        self.max_age.unwrap_or(self.watchdog).min(self.watchdog)
    }
}

/// How long the robot needs for a state: uniform from `least` to `largest`, or always `least` when they are equal.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProcessingSpec {
    /// The least. 0 to 1s.
    pub least: Duration,
    /// The largest. From `least` to 1s.
    pub largest: Duration,
}

/// A clock against the simulation's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClockSpec {
    /// What it reads when the run begins. 0 to 1 day.
    #[serde(default)]
    pub offset: Duration,
    /// How much faster it runs, parts per million. -1000 to 1000.
    #[serde(default)]
    pub drift_ppm: f64,
}

/// What the arm touches: it fills x > 0, pushes and never pulls, and rubs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Environment {
    /// Nothing.
    Free,
    /// 150 N/m, 6 N s/m, friction 0.5.
    Foam(Surface),
    /// 400 N/m, undamped, without friction.
    Spring(Surface),
    /// 3000 N/m, 10 N s/m, friction 0.2.
    Wall(Surface),
}

/// What is different from the kind's own values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Surface {
    /// N/m. 0 to 20000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stiffness: Option<f64>,
    /// N s/m. 0 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damping: Option<f64>,
    /// Coulomb friction per normal force. 0 to 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub friction: Option<f64>,
    /// Of the spring's force, how much more it pushes on the way in than at rest, and less on the way out; whoever turns back first meets twice its stiffness. 0 to 0.9; from 0 to 0.1 without the margin of a linear loop, which knows no such thing. Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hysteresis: Option<f64>,
}

impl Surface {
    /// Nothing is different.
    pub const DEFAULT: Self = Self { stiffness: None, damping: None, friction: None, hysteresis: None };
}

impl Default for Environment {
    fn default() -> Self {
        Self::Foam(Surface::default())
    }
}

impl Environment {
    /// Its name in results.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Foam(_) => "foam",
            Self::Spring(_) => "spring",
            Self::Wall(_) => "wall",
        }
    }

    /// Of the spring's force; 0 where there is nothing.
    pub fn hysteresis(&self) -> f64 {
        match self {
            Self::Free => 0.0,
            Self::Foam(given) | Self::Spring(given) | Self::Wall(given) => {
                given.hysteresis.unwrap_or_default()
            }
        }
    }

    /// By how much stiffer than its spring a surface is to a ripple that is just not calm, 7 % of the depth: 1 without hysteresis, 2 from 0.1 of it on, since
    /// such a ripple stays within what it takes to turn back. `None` in between, where part of it does not, so that no linear model has it.
    pub fn stiffening(&self) -> Option<f64> {
        let hysteresis = self.hysteresis();
        if hysteresis <= 0.0 { Some(1.0) } else { (hysteresis >= STICKS).then_some(2.0) }
    }

    /// The same without friction.
    pub fn smooth(self) -> Self {
        let smooth = |surface| Surface { friction: Some(0.0), ..surface };
        match self {
            Self::Free => Self::Free,
            Self::Foam(surface) => Self::Foam(smooth(surface)),
            Self::Spring(surface) => Self::Spring(smooth(surface)),
            Self::Wall(surface) => Self::Wall(smooth(surface)),
        }
    }

    /// Stiffness N/m, damping N s/m, friction; `None` where there is nothing.
    pub fn surface(&self) -> Option<[f64; 3]> {
        let (given, kind, friction) = match self {
            Self::Free => return None,
            Self::Foam(given) => (*given, touch::Surface::FOAM, 0.5),
            Self::Spring(given) => (*given, touch::Surface::SPRING, 0.0),
            Self::Wall(given) => (*given, touch::Surface::WALL, 0.2),
        };
        Some([
            given.stiffness.unwrap_or(kind.stiffness),
            given.damping.unwrap_or(kind.damping),
            given.friction.unwrap_or(friction),
        ])
    }
}

/// From this share of hysteresis on a ripple of 7 % meets its stop alone.
const STICKS: f64 = 0.1;
/// A hand that is led says nothing before.
pub(super) const LED: Duration = Duration::from_secs(21);
pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const MINUTE: Duration = Duration::from_secs(60);
pub(super) const MS: Duration = Duration::from_millis(1);
/// More presses of a button than anybody wants to read about.
const MOST_PRESSES: usize = 1000;

pub(super) fn check(teleop: &Teleop, vertices: &BTreeSet<String>) -> Checked {
    vertex("teleop.operator", &teleop.operator, vertices)?;
    vertex("teleop.robot", &teleop.robot, vertices)?;
    within("teleop.paths".into(), teleop.paths, 1, MOST_PATHS)?;
    check_transport("teleop.transport", &teleop.transport, teleop.paths)?;
    let key = |name: &str| format!("teleop.{name}");
    within(key("period"), teleop.period, Duration::from_micros(10), SECOND)?;
    within(key("messages"), teleop.messages.unwrap_or(1), 1, 1_000_000_000)?;
    within(key("deadline"), teleop.deadline.unwrap_or(SECOND), Duration::from_micros(1), MINUTE)?;
    if let Some(max_age) = teleop.max_age {
        within(key("max_age"), max_age, MS, Duration::from_secs(3600))?;
    }
    within(key("rate"), teleop.rate, 1, 100_000)?;
    if let Congestion::Scream { target } = teleop.congestion_control {
        within(key("congestion_control.scream.target"), target, MS, SECOND)?;
    }
    within(key("queue"), teleop.queue, 1, 100_000)?;
    within(key("feedback"), teleop.feedback, 0, 100_000)?;
    within(key("device_force"), teleop.device_force, 0.001, 1000.0)?;
    within(key("rest"), teleop.rest, Duration::ZERO, MINUTE * 10)?;
    within(key("sample_length"), teleop.sample_length, Bytes::new(71), Bytes::new(1_000))?;
    let (slow, fast) = (Bitrate::from_bps(10_000), Bitrate::from_bps(100_000_000_000));
    within(key("channel_rate"), teleop.channel_rate.unwrap_or(slow), slow, fast)?;
    within(key("watchdog"), teleop.watchdog, MS, MINUTE)?;
    within(key("resume_after"), teleop.resume_after.unwrap_or_default(), Duration::ZERO, LONGEST)?;
    if let Some(stop_within) = teleop.stop_within {
        within(key("stop_within"), stop_within, Duration::ZERO, SECOND)?;
    }
    for (name, presses) in [("stops", &teleop.stops), ("resumes", &teleop.resumes)] {
        if presses.len() > MOST_PRESSES {
            return fault(key(name), format!("lists more than {MOST_PRESSES} times"));
        }
        if let Some(i) = (1..presses.len()).find(|&i| presses[i] <= presses[i - 1]) {
            let (now, before) = (presses[i], presses[i - 1]);
            return fault(format!("teleop.{name}.{i}"), format!("{now} is not after {before} before it"));
        }
        presses
            .iter()
            .enumerate()
            .try_for_each(|(i, at)| within(format!("teleop.{name}.{i}"), *at, Duration::ZERO, LONGEST))?;
    }
    if let Some(ProcessingSpec { least, largest }) = teleop.processing {
        within(key("processing.least"), least, Duration::ZERO, SECOND)?;
        within(key("processing.largest"), largest, least, SECOND)?;
    }
    for (name, clock) in [("operator_clock", teleop.operator_clock), ("robot_clock", teleop.robot_clock)] {
        let Some(clock) = clock else { continue };
        within(key(&format!("{name}.offset")), clock.offset, Duration::ZERO, LONGEST)?;
        within(key(&format!("{name}.drift_ppm")), clock.drift_ppm, -1000.0, 1000.0)?;
    }
    law::check(teleop)?;
    wanted::check(teleop)?;
    let Mass { mass, damping, stiffness } = teleop.grip;
    within(key("grip.mass"), mass, 0.01, 10.0)?;
    within(key("grip.damping"), damping, 0.1, 1000.0)?;
    within(key("grip.stiffness"), stiffness, 1.0, 10_000.0)?;
    plant::check(teleop)?;
    let kind = teleop.environment.name();
    if let Some([stiffness, damping, friction]) = teleop.environment.surface() {
        within(format!("teleop.environment.{kind}.stiffness"), stiffness, 0.0, 20_000.0)?;
        within(format!("teleop.environment.{kind}.damping"), damping, 0.0, 100.0)?;
        within(format!("teleop.environment.{kind}.friction"), friction, 0.0, 2.0)?;
        let hysteresis = teleop.environment.hysteresis();
        within(format!("teleop.environment.{kind}.hysteresis"), hysteresis, 0.0, 0.9)?;
    }
    channel::check(teleop)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
const fn is_one(paths: &u8) -> bool {
    *paths == 1
}
