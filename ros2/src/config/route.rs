//! A route: one topic, one way, as one channel.

use std::time::Duration;

use serde::Deserialize;
use taut::{Channel, Delivery, Encoding, Schema};
use toml::Value;

use super::duration;
use super::limits::MotionLimits;
use crate::motion::{Format, Type};
use crate::type_hash;

/// As it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RouteSpec {
    topic: String,
    #[serde(rename = "type")]
    kind: String,
    name: Option<String>,
    direction: Direction,
    /// Of what mostly moves robots it has to be said.
    moves: Option<bool>,
    keep: Option<Keep>,
    priority: Option<u8>,
    #[serde(default, deserialize_with = "duration")]
    deadline: Option<Duration>,
    max_rate: Option<f64>,
    largest: Option<taut_core::Bytes>,
    #[serde(default)]
    stamp: Stamp,
    live: Option<bool>,
    #[serde(default)]
    alone: Option<bool>,
    #[serde(default)]
    qos: QosSpec,
    on_stop: Option<OnStop>,
    joints: Option<Vec<String>>,
    frame: Option<String>,
    measured: Option<String>,
    subscribers: Option<usize>,
    command: Option<Command>,
    #[serde(default, deserialize_with = "duration")]
    time_from_start: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Direction {
    ToRobot,
    ToOperator,
}

/// What becomes of messages that are lost or overtaken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Keep {
    /// A newer one supersedes.
    Newest,
    /// All, in order.
    Reliable,
    /// Repeated while there is time.
    Deadline,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Stamp {
    #[default]
    Keep,
    Rewrite,
}

/// What the robot is told when it stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OnStop {
    /// The place where it measures itself.
    Hold,
    /// Velocities of zero.
    Zero,
    /// Nothing any more.
    Silence,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Command {
    Position,
    Velocity,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct QosSpec {
    reliability: Option<Reliability>,
    #[serde(default)]
    durability: Durability,
    depth: Option<u16>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Reliability {
    BestEffort,
    Reliable,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Durability {
    #[default]
    Volatile,
    TransientLocal,
}

/// Quality of service on the side of ROS 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Qos {
    /// Where it is not said, a publisher is, and a subscriber takes what comes: either meets every peer.
    pub(crate) reliable: Option<bool>,
    pub(crate) transient_local: bool,
    pub(crate) depth: u16,
    /// The robot moves by it: a subscriber that is slow holds no stop up.
    pub(crate) moves: bool,
}

/// A topic that passes one way.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    /// Of the channel.
    pub(crate) name: String,
    pub(crate) topic: String,
    /// Its type, `PACKAGE/msg/NAME`.
    pub(crate) kind: String,
    pub(crate) direction: Direction,
    pub(crate) keep: Keep,
    priority: Option<u8>,
    deadline: Option<Duration>,
    max_rate: Option<f64>,
    largest: usize,
    /// Stamps become the local clock's.
    pub(crate) rewrites_stamp: bool,
    pub(crate) qos: Qos,
    /// With a participant and a thread of its own.
    pub(crate) alone: bool,
    /// Made at a rate, and waits for no pace that others are held to.
    is_live: bool,
    pub(crate) moving: Option<Moving>,
}

/// What moves the robot, and how it is held.
#[derive(Clone, Debug)]
pub(crate) struct Moving {
    pub(crate) format: Format,
    pub(crate) limits: MotionLimits,
    pub(crate) on_stop: OnStop,
    /// The topic on which the robot measures itself.
    pub(crate) measured: Option<String>,
    /// It is moved while so many at least subscribe to its topic.
    pub(crate) subscribers: usize,
}

/// What is wrong, and whether with its limits.
pub(super) struct Wrong {
    pub(super) why: String,
    pub(super) of_limits: bool,
}

impl From<String> for Wrong {
    fn from(why: String) -> Self {
        Self { why, of_limits: false }
    }
}

impl From<&str> for Wrong {
    fn from(why: &str) -> Self {
        why.to_owned().into()
    }
}

/// Longer messages than this have a participant of their own, unless said otherwise.
const LARGE: usize = 64_000;
/// What has a participant of its own goes behind the rest, unless said otherwise: one message of it is a thousand of theirs.
const BEHIND: u8 = 6;
/// What is made at a rate goes ahead of sound and pictures, behind what has to be done.
const LIVE_PRIORITY: u8 = 3;
/// How robots commonly say where they are and what they feel, at a steady rate.
const LIVE: [&str; 4] = [
    "geometry_msgs/msg/PoseStamped",
    "geometry_msgs/msg/TwistStamped",
    "geometry_msgs/msg/WrenchStamped",
    "sensor_msgs/msg/JointState",
];

/// Packages of what mostly moves robots.
const COMMANDS: [&str; 4] = ["ackermann_msgs", "control_msgs", "geometry_msgs", "trajectory_msgs"];
const JOY: &str = "sensor_msgs/msg/Joy";

impl RouteSpec {
    pub(super) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_else(|| self.topic.trim_start_matches('/'))
    }

    pub(super) fn check(self, limits: Option<Value>) -> Result<Route, Wrong> {
        let name = self.name().to_owned();
        if !(1..=64).contains(&name.len()) {
            return Err("its name is not of 1 to 64 bytes: give it a shorter `name`".into());
        }
        if self.priority.is_some_and(|priority| priority > 7) {
            return Err("`priority` is from 0, which goes first, to 7".into());
        }
        if self.max_rate.is_some_and(|rate| !(rate > 0.0 && rate.is_finite())) {
            return Err("`max_rate` is a number of messages per second, above 0".into());
        }
        self.is_named()?;
        let (topic, ros_type) = (self.topic.clone(), self.kind.clone());
        let kind = Type::of(&ros_type);
        let to_robot = self.direction == Direction::ToRobot;
        let moves = self.moves == Some(true);
        // What commonly moves robots is never opaque to one. A state of joints is more often a measurement.
        if to_robot && !moves && kind.is_some_and(|kind| kind != Type::JointState) {
            return Err(
                "this type moves robots: say `moves = true`, and give it limits by [limits.\"NAME\"]".into(),
            );
        }
        let package = ros_type.split('/').next().unwrap_or_default();
        if to_robot && self.moves.is_none() && (COMMANDS.contains(&package) || ros_type == JOY) {
            return Err("what is of this type mostly moves robots, and no limits of it are known: with `moves = false` it passes as it is, also while the robot is stopped".into());
        }
        let keep = self.keep.unwrap_or(Keep::Newest);
        let largest = self.largest.map_or(LARGE, |bytes| usize::try_from(bytes.get()).unwrap_or(usize::MAX));
        if largest > 16_000_000 {
            return Err("`largest` is 16 MB at most".into());
        }
        let said = self.qos.reliability.map(|said| said == Reliability::Reliable);
        let reliable = said.or((keep == Keep::Reliable || moves).then_some(true));
        let depth = self.qos.depth.unwrap_or(if keep == Keep::Newest { 1 } else { 1_000 });
        if depth == 0 {
            return Err("`qos.depth` is 1 at least".into());
        }
        let transient_local = self.qos.durability == Durability::TransientLocal;
        let qos = Qos { reliable, transient_local, depth, moves };
        let direction = self.direction;
        let alone = self.alone.unwrap_or(largest > LARGE);
        let is_live = self.live.unwrap_or(!alone && !moves && LIVE.contains(&&*ros_type));
        if is_live && (alone || moves) {
            return Err("`live` is for what is measured: what moves goes ahead by itself, and what is alone behind others".into());
        }
        let priority = self.priority.or(alone.then_some(BEHIND));
        let (deadline, max_rate) = (self.deadline, self.max_rate);
        let rewrites_stamp = self.stamp == Stamp::Rewrite;
        if rewrites_stamp && type_hash::has_header(&ros_type) == Some(false) {
            return Err("`stamp = \"rewrite\"` is for messages that begin with a std_msgs/msg/Header, and those of this type do not: leave it out".into());
        }
        let moving = self.moving(kind, limits)?;
        Ok(Route {
            name,
            topic,
            kind: ros_type,
            direction,
            keep,
            priority,
            deadline,
            max_rate,
            largest,
            rewrites_stamp,
            qos,
            alone,
            is_live,
            moving,
        })
    }

    fn is_named(&self) -> Result<(), String> {
        let is_name = |part: &str| {
            !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        };
        if !self.topic.strip_prefix('/').is_some_and(|rest| rest.split('/').all(is_name)) {
            let why = "is no topic: write its full name, such as /arm/joint_states";
            return Err(format!("{:?} {why}", self.topic));
        }
        match self.kind.split('/').collect::<Vec<_>>()[..] {
            [package, "msg", name] if is_name(package) && is_name(name) => Ok(()),
            _ => Err(format!(
                "{:?} is no type: write PACKAGE/msg/NAME, such as sensor_msgs/msg/JointState",
                self.kind
            )),
        }
    }

    fn moving(self, kind: Option<Type>, limits: Option<Value>) -> Result<Option<Moving>, Wrong> {
        if self.moves != Some(true) {
            let extra = [
                ("on_stop", self.on_stop.is_some()),
                ("joints", self.joints.is_some()),
                ("frame", self.frame.is_some()),
                ("measured", self.measured.is_some()),
                ("subscribers", self.subscribers.is_some()),
                ("command", self.command.is_some()),
                ("time_from_start", self.time_from_start.is_some()),
                ("limits", limits.is_some()),
            ];
            return match extra.iter().find(|(_, is_set)| *is_set) {
                Some((key, _)) => {
                    Err(format!("`{key}` is for what moves the robot: say `moves = true`").into())
                }
                None => Ok(None),
            };
        }
        if self.direction != Direction::ToRobot {
            return Err("what moves the robot goes to the robot: `direction = \"to_robot\"`".into());
        }
        if self.keep.is_some_and(|keep| keep != Keep::Newest) {
            return Err("of what moves the robot the newest counts: leave `keep` out".into());
        }
        let known = || {
            format!("no limits are known for this type; those that may move a robot are {}", Type::names())
        };
        let kind = kind.ok_or_else(known)?;
        let velocity = match (kind, self.command) {
            (Type::Twist | Type::TwistStamped | Type::JointJog, None | Some(Command::Velocity)) => true,
            (Type::Float64MultiArray, Some(command)) => command == Command::Velocity,
            (Type::Float64MultiArray, None) => {
                return Err("say what its numbers are: `command = \"position\"` or \"velocity\"".into());
            }
            (_, None | Some(Command::Position)) => false,
            (_, Some(_)) => return Err("this type's `command` is the other one: leave it out".into()),
        };
        let joints = match (kind.has_joints(), self.joints) {
            (true, Some(joints)) if (1..=64).contains(&joints.len()) => joints,
            (true, _) => return Err("`joints` is missing: the names of 1 to 64, in their order".into()),
            (false, None) => Vec::new(),
            (false, Some(_)) => return Err("`joints` is for types with joints".into()),
        };
        if let Some((at, name)) = joints.iter().enumerate().find(|(at, name)| joints[..*at].contains(name)) {
            return Err(format!("joint {name:?} is there twice, the second time as number {}", at + 1).into());
        }
        let needs_frame = matches!(kind, Type::TwistStamped | Type::PoseStamped);
        if needs_frame && self.frame.is_none() {
            return Err(
                "`frame` is missing: the `frame_id` in which messages are, such as \"base_link\"".into()
            );
        }
        if !kind.has_frame() && self.frame.is_some() {
            return Err("`frame` is for types with a header: leave it out".into());
        }
        match (kind.measured_by(), &self.measured) {
            (Some(what), None) => {
                return Err(format!(
                    "`measured` is missing: the robot's topic of {what}; motion begins where it is"
                )
                .into());
            }
            (None, Some(_)) => return Err("`measured` is for types with places: leave it out".into()),
            _ => {}
        }
        if kind != Type::JointTrajectory && self.time_from_start.is_some() {
            return Err("`time_from_start` is for a JointTrajectory: leave it out".into());
        }
        let subscribers = self.subscribers.unwrap_or(1);
        if subscribers == 0 {
            return Err("`subscribers` is 1 at least, the robot's controller".into());
        }
        let on_stop = self.on_stop.unwrap_or(if velocity { OnStop::Zero } else { OnStop::Hold });
        match (on_stop, velocity) {
            (OnStop::Zero, false) => {
                return Err("zero is a place for this type, no stop: `on_stop = \"hold\"`".into());
            }
            (OnStop::Hold, true) => return Err("velocities are stopped by `on_stop = \"zero\"`".into()),
            _ => {}
        }
        let of_limits = |why| Wrong { why, of_limits: true };
        let limits = limits.ok_or("it has no limits: give them by [limits.\"NAME\"]")?;
        let limits = MotionLimits::read(kind, velocity, &joints, limits).map_err(of_limits)?;
        let time_from_start = self.time_from_start.unwrap_or_default();
        let frame = self.frame.unwrap_or_default();
        let is_trajectory = kind == Type::JointTrajectory;
        let stamps = !is_trajectory || self.stamp == Stamp::Rewrite;
        if is_trajectory && stamps && time_from_start.is_zero() {
            return Err("with `stamp = \"rewrite\"` a trajectory that ends when it begins is over when it arrives: set `time_from_start`".into());
        }
        let format = Format { kind, joints, frame, velocity, time_from_start, stamps };
        Ok(Some(Moving { format, limits, on_stop, measured: self.measured, subscribers }))
    }
}

impl Route {
    /// The same topic the other way: what one publishes, the other one takes for a peer's message.
    pub(super) fn comes_back_by(&self, other: &Self) -> bool {
        self.topic == other.topic && self.direction != other.direction
    }

    /// Of two routes to the robot, one is the only one that moves it by its topic, and where it measures itself the robot alone says.
    pub(super) fn is_disturbed_by(&self, other: &Self) -> bool {
        other.direction == Direction::ToRobot && self.moves_by(&other.topic)
    }

    /// Whether the robot measures itself by the topic that moves it.
    pub(super) fn measures_itself(&self) -> bool {
        self.moving.as_ref().is_some_and(|moving| moving.measured.as_ref() == Some(&self.topic))
    }

    /// Whether the robot moves by this topic: what it is told, or where it measures itself.
    pub(crate) fn moves_by(&self, topic: &str) -> bool {
        let measures = |moving: &Moving| moving.measured.as_deref() == Some(topic);
        self.moving.as_ref().is_some_and(|moving| self.topic == topic || measures(moving))
    }

    /// Its channel, as both ends declare it.
    pub(crate) fn channel(&self) -> Channel {
        let channel = if self.moving.is_some() {
            Channel::motion(&*self.name)
        } else {
            // As states are in its pace, but behind commands, and as old as it may be unless the file says how old.
            let channel = if self.is_live {
                Channel::feedback(&self.name).no_deadline().priority(LIVE_PRIORITY)
            } else {
                Channel::telemetry(&self.name)
            };
            channel.delivery(match self.keep {
                Keep::Newest => Delivery::Newest,
                Keep::Reliable => Delivery::Reliable,
                Keep::Deadline => Delivery::Deadline,
            })
        };
        let channel = channel.largest(self.largest);
        let channel = self.priority.map_or(channel.clone(), |priority| channel.clone().priority(priority));
        let channel = self.deadline.map_or(channel.clone(), |age| channel.deadline(age));
        self.max_rate.map_or(channel.clone(), |rate| channel.rate(rate))
    }

    /// What its payloads are. It is asked once, and lives as long as the program.
    pub(crate) fn schema(&self) -> Schema {
        match &self.moving {
            Some(moving) => moving.format.kind.schema().definition(moving.format.definition().leak()),
            None => Schema::new(self.kind.clone().leak(), Encoding::Cdr),
        }
    }
}
