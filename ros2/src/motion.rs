//! The messages of ROS 2 that move a robot, as motion of a session and back. What a session cannot hold to limits is refused.

use std::fmt;
use std::time::Duration;

use taut::{Failure, Joints, Message, Schema, State, Twist};

use crate::cdr::{self, Reader, Writer};

/// A type that moves a robot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Twist,
    TwistStamped,
    PoseStamped,
    JointState,
    JointJog,
    JointTrajectory,
    Float64MultiArray,
}

impl Type {
    const ALL: [(Self, &'static str); 7] = [
        (Self::Twist, "geometry_msgs/msg/Twist"),
        (Self::TwistStamped, "geometry_msgs/msg/TwistStamped"),
        (Self::PoseStamped, "geometry_msgs/msg/PoseStamped"),
        (Self::JointState, "sensor_msgs/msg/JointState"),
        (Self::JointJog, "control_msgs/msg/JointJog"),
        (Self::JointTrajectory, "trajectory_msgs/msg/JointTrajectory"),
        (Self::Float64MultiArray, "std_msgs/msg/Float64MultiArray"),
    ];

    pub(crate) fn of(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(kind, _)| *kind)
    }

    pub(crate) fn names() -> String {
        Self::ALL.map(|(_, name)| name).join(", ")
    }

    /// What the session holds to limits.
    pub(crate) const fn schema(self) -> Schema {
        match self {
            Self::Twist | Self::TwistStamped => Twist::SCHEMA,
            Self::PoseStamped => State::SCHEMA,
            _ => Joints::SCHEMA,
        }
    }

    pub(crate) const fn has_joints(self) -> bool {
        !matches!(self, Self::Twist | Self::TwistStamped | Self::PoseStamped)
    }

    /// The type in which the robot says where it is, where that has to be known.
    pub(crate) const fn measured_by(self) -> Option<&'static str> {
        match self {
            Self::Twist | Self::TwistStamped => None,
            Self::PoseStamped => Some("geometry_msgs/msg/PoseStamped"),
            _ => Some("sensor_msgs/msg/JointState"),
        }
    }

    /// Its messages begin with a header, and so with the frame in which they are.
    pub(crate) const fn has_frame(self) -> bool {
        !matches!(self, Self::Twist | Self::Float64MultiArray)
    }
}

/// What was read, or is to be written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Motion {
    Twist(Twist),
    Pose(State),
    Joints(Joints),
}

impl Motion {
    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) -> Result<(), Failure> {
        match self {
            Self::Twist(twist) => twist.encode(bytes),
            Self::Pose(state) => state.encode(bytes),
            Self::Joints(joints) => joints.encode(bytes),
        }
    }
}

/// Both directions between a type of the library and the enum.
macro_rules! motions {
    ($($variant:ident, $type:ty;)*) => {$(
        impl From<$type> for Motion {
            fn from(motion: $type) -> Self {
                Self::$variant(motion)
            }
        }
        impl TryFrom<Motion> for $type {
            type Error = ();
            fn try_from(motion: Motion) -> Result<Self, ()> {
                match motion {
                    Motion::$variant(motion) => Ok(motion),
                    _ => Err(()),
                }
            }
        }
    )*};
}
motions! {
    Twist, Twist;
    Pose, State;
    Joints, Joints;
}

/// Why a message does not move anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Malformed(cdr::Error),
    NotFinite,
    UnknownJoint { name: String, known: String },
    MissingJoint(String),
    RepeatedJoint(String),
    Frame { found: String, expected: String },
    Points(usize),
    Count { what: &'static str, found: usize, expected: usize },
    Unbounded(&'static str),
    Orientation,
}

impl Refusal {
    /// For counting.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "malformed",
            Self::NotFinite => "not_finite",
            Self::UnknownJoint { .. } => "unknown_joint",
            Self::MissingJoint(_) => "missing_joint",
            Self::RepeatedJoint(_) => "repeated_joint",
            Self::Frame { .. } => "wrong_frame",
            Self::Points(_) => "several_points",
            Self::Count { .. } => "wrong_count",
            Self::Unbounded(_) => "unbounded",
            Self::Orientation => "no_orientation",
        }
    }
}

impl From<cdr::Error> for Refusal {
    fn from(error: cdr::Error) -> Self {
        Self::Malformed(error)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(error) => write!(f, "it is no such message: {error}"),
            Self::NotFinite => write!(f, "a number in it is not finite"),
            Self::UnknownJoint { name, known } => {
                write!(
                    f,
                    "unknown joint {name:?}; this route has {known}: correct `joints`, or the publisher"
                )
            }
            Self::MissingJoint(name) => {
                write!(f, "joint {name:?} is missing: every message has all joints of the route")
            }
            Self::RepeatedJoint(name) => write!(f, "joint {name:?} is there twice"),
            Self::Frame { found, expected } => {
                write!(
                    f,
                    "its frame is {found:?}, and the route's {expected:?}: correct `frame`, or the publisher"
                )
            }
            Self::Points(count) => write!(f, "it has {count} points: one at a time can be held to limits"),
            Self::Count { what, found, expected } => {
                write!(f, "{found} {what} for {expected} joints")
            }
            Self::Unbounded(what) => write!(f, "it has {what}, which no limit holds: leave it empty"),
            Self::Orientation => write!(f, "its orientation is no unit quaternion"),
        }
    }
}

/// Where each of our joints stands among the names `of` a message.
struct Places {
    ours: Vec<usize>,
    of: usize,
}

/// How messages of a route are read and written.
#[derive(Clone, Debug)]
pub(crate) struct Format {
    pub(crate) kind: Type,
    /// In the order in which both ends have them.
    pub(crate) joints: Vec<String>,
    pub(crate) frame: String,
    /// Numbers are velocities; of joints, positions are zero then.
    pub(crate) velocity: bool,
    /// Of a trajectory's point.
    pub(crate) time_from_start: Duration,
    /// A header says when the message was made. That of a trajectory says when it begins, and nothing: now.
    pub(crate) stamps: bool,
}

fn finite(number: f64) -> Result<f32, Refusal> {
    let single = number as f32;
    if single.is_finite() { Ok(single) } else { Err(Refusal::NotFinite) }
}

fn finite_all<const N: usize>(numbers: [f64; N]) -> Result<[f32; N], Refusal> {
    let mut single = [0.0; N];
    for (to, from) in single.iter_mut().zip(numbers) {
        *to = finite(from)?;
    }
    Ok(single)
}

/// Skips `stamp`; gives `frame_id`.
fn header<'a>(reader: &mut Reader<'a>) -> Result<&'a str, cdr::Error> {
    reader.i32()?;
    reader.u32()?;
    reader.text()
}

impl Format {
    /// What both ends have to have alike: a channel opens only then.
    pub(crate) fn definition(&self) -> String {
        let kind = if self.velocity { "velocity" } else { "position" };
        format!("{kind}\n{}\n{}", self.frame, self.joints.join("\n"))
    }

    /// # Errors
    /// When a message moves nothing: see [`Refusal`].
    pub(crate) fn read(&self, message: &[u8]) -> Result<Motion, Refusal> {
        let mut reader = Reader::new(message)?;
        let motion = match self.kind {
            Type::Twist => Motion::Twist(twist(&mut reader)?),
            Type::TwistStamped => {
                self.is_framed(header(&mut reader)?)?;
                Motion::Twist(twist(&mut reader)?)
            }
            Type::PoseStamped => {
                self.is_framed(header(&mut reader)?)?;
                Motion::Pose(pose(&mut reader)?)
            }
            Type::JointState => Motion::Joints(self.joint_state(&mut reader, true)?),
            Type::JointJog => Motion::Joints(self.jog(&mut reader)?),
            Type::JointTrajectory => Motion::Joints(self.trajectory(&mut reader)?),
            Type::Float64MultiArray => Motion::Joints(self.array(&mut reader)?),
        };
        reader.end()?;
        Ok(motion)
    }

    /// Where the robot measures itself: `sensor_msgs/msg/JointState`, which may have other joints too, or `geometry_msgs/msg/PoseStamped`.
    ///
    /// # Errors
    /// When it does not say that.
    pub(crate) fn read_measured(&self, message: &[u8]) -> Result<Motion, Refusal> {
        let mut reader = Reader::new(message)?;
        if self.kind.has_joints() {
            return self.joint_state(&mut reader, false).map(Motion::Joints);
        }
        self.is_framed(header(&mut reader)?)?;
        pose(&mut reader).map(Motion::Pose)
    }

    fn is_framed(&self, found: &str) -> Result<(), Refusal> {
        if found == self.frame {
            return Ok(());
        }
        Err(Refusal::Frame { found: found.to_owned(), expected: self.frame.clone() })
    }

    /// Joints need no frame: it is compared where the route has one.
    fn has_our_frame(&self, found: &str) -> Result<(), Refusal> {
        if self.frame.is_empty() { Ok(()) } else { self.is_framed(found) }
    }

    /// Where each of our joints stands in a message.
    fn places(&self, names: &[&str], only_ours: bool) -> Result<Places, Refusal> {
        for (at, name) in names.iter().enumerate() {
            let is_ours = self.joints.iter().any(|known| known == name);
            if only_ours && !is_ours {
                return Err(Refusal::UnknownJoint {
                    name: (*name).to_owned(),
                    known: self.joints.join(", "),
                });
            }
            if is_ours && names[..at].contains(name) {
                return Err(Refusal::RepeatedJoint((*name).to_owned()));
            }
        }
        let place = |name: &String| {
            names.iter().position(|known| known == name).ok_or_else(|| Refusal::MissingJoint(name.clone()))
        };
        let ours = self.joints.iter().map(place).collect::<Result<_, _>>()?;
        Ok(Places { ours, of: names.len() })
    }

    /// Numbers of our joints, in our order; there is one for each name of the message.
    fn ordered(places: &Places, what: &'static str, numbers: &[f64]) -> Result<Vec<f32>, Refusal> {
        if numbers.len() != places.of {
            return Err(Refusal::Count { what, found: numbers.len(), expected: places.of });
        }
        places.ours.iter().map(|place| finite(numbers[*place])).collect()
    }

    fn joint_state(&self, reader: &mut Reader<'_>, only_ours: bool) -> Result<Joints, Refusal> {
        let frame = header(reader)?;
        if only_ours {
            self.has_our_frame(frame)?;
        }
        let names = reader.texts()?;
        let (position, velocity, effort) = (reader.f64s()?, reader.f64s()?, reader.f64s()?);
        let places = self.places(&names, only_ours)?;
        let mut joints = self.at(&Self::ordered(&places, "positions", &position)?)?;
        if only_ours {
            if !velocity.is_empty() {
                joints =
                    self.with(joints.with_velocity(&Self::ordered(&places, "velocities", &velocity)?))?;
            }
            if !effort.is_empty() {
                joints = self.with(joints.with_effort(&Self::ordered(&places, "efforts", &effort)?))?;
            }
        }
        Ok(joints)
    }

    fn jog(&self, reader: &mut Reader<'_>) -> Result<Joints, Refusal> {
        self.has_our_frame(header(reader)?)?;
        let names = reader.texts()?;
        let (displacements, velocities) = (reader.f64s()?, reader.f64s()?);
        finite(reader.f64()?)?;
        if !displacements.is_empty() {
            return Err(Refusal::Unbounded("displacements"));
        }
        let velocities = Self::ordered(&self.places(&names, true)?, "velocities", &velocities)?;
        self.moving(&velocities)
    }

    fn trajectory(&self, reader: &mut Reader<'_>) -> Result<Joints, Refusal> {
        self.has_our_frame(header(reader)?)?;
        let names = reader.texts()?;
        let places = self.places(&names, true)?;
        let points = reader.count()?;
        if points != 1 {
            return Err(Refusal::Points(points));
        }
        let (position, velocity) = (reader.f64s()?, reader.f64s()?);
        let (acceleration, effort) = (reader.f64s()?, reader.f64s()?);
        reader.i32()?;
        reader.u32()?;
        if !acceleration.is_empty() {
            return Err(Refusal::Unbounded("accelerations"));
        }
        if !effort.is_empty() {
            return Err(Refusal::Unbounded("efforts"));
        }
        let joints = self.at(&Self::ordered(&places, "positions", &position)?)?;
        if velocity.is_empty() {
            return Ok(joints);
        }
        self.with(joints.with_velocity(&Self::ordered(&places, "velocities", &velocity)?))
    }

    fn array(&self, reader: &mut Reader<'_>) -> Result<Joints, Refusal> {
        let dimensions = reader.each(|reader| {
            reader.text()?;
            Ok((reader.u32()?, reader.u32()?))
        })?;
        let offset = reader.u32()?;
        let numbers = reader.f64s()?;
        if dimensions.len() > 1 || offset != 0 {
            return Err(Refusal::Unbounded("a layout of more than one row"));
        }
        if numbers.len() != self.joints.len() {
            return Err(Refusal::Count {
                what: "numbers",
                found: numbers.len(),
                expected: self.joints.len(),
            });
        }
        let numbers = numbers.into_iter().map(finite).collect::<Result<Vec<_>, _>>()?;
        if self.velocity { self.moving(&numbers) } else { self.at(&numbers) }
    }

    fn at(&self, positions: &[f32]) -> Result<Joints, Refusal> {
        self.with(Joints::new(positions))
    }

    /// Velocities are told beside positions that are all zero: what is measured of them is as well.
    fn moving(&self, velocities: &[f32]) -> Result<Joints, Refusal> {
        self.with(self.at(&vec![0.0; self.joints.len()])?.with_velocity(velocities))
    }

    fn with<E>(&self, joints: Result<Joints, E>) -> Result<Joints, Refusal> {
        joints.map_err(|_| Refusal::Count { what: "numbers", found: 0, expected: self.joints.len() })
    }

    /// The motion that is rest; `None` where only a place is.
    pub(crate) fn rest(&self) -> Option<Motion> {
        match self.kind {
            Type::Twist | Type::TwistStamped => Some(Motion::Twist(Twist::default())),
            _ if self.velocity => self.moving(&vec![0.0; self.joints.len()]).ok().map(Motion::Joints),
            _ => None,
        }
    }

    /// A message that tells a robot this, made at `since_1970`.
    pub(crate) fn write(&self, motion: &Motion, since_1970: Duration) -> Vec<u8> {
        let mut writer = Writer::new();
        if self.kind.has_frame() {
            writer.i32(0);
            writer.u32(0);
            writer.text(&self.frame);
        }
        match motion {
            Motion::Twist(twist) => {
                writer.three(twist.linear);
                writer.three(twist.angular);
            }
            Motion::Pose(state) => {
                writer.three(state.position);
                let [w, x, y, z] = state.orientation_wxyz;
                writer.three([x, y, z]);
                writer.f64(w.into());
            }
            Motion::Joints(joints) => self.write_joints(&mut writer, joints),
        }
        let mut message = writer.message();
        if self.stamps && self.kind.has_frame() {
            cdr::stamp(&mut message, since_1970);
        }
        message
    }

    fn write_joints(&self, writer: &mut Writer, joints: &Joints) {
        match self.kind {
            Type::JointJog => {
                writer.texts(&self.joints);
                writer.f64s(&[]);
                writer.f64s(joints.velocity());
                writer.f64(0.0);
            }
            Type::JointTrajectory => {
                writer.texts(&self.joints);
                writer.u32(1);
                writer.f64s(joints.position());
                writer.f64s(joints.velocity());
                writer.f64s(&[]);
                writer.f64s(&[]);
                writer.i32(i32::try_from(self.time_from_start.as_secs()).unwrap_or(i32::MAX));
                writer.u32(self.time_from_start.subsec_nanos());
            }
            Type::Float64MultiArray => {
                writer.u32(0);
                writer.u32(0);
                writer.f64s(if self.velocity { joints.velocity() } else { joints.position() });
            }
            _ => {
                writer.texts(&self.joints);
                writer.f64s(joints.position());
                writer.f64s(joints.velocity());
                writer.f64s(joints.effort());
            }
        }
    }
}

fn twist(reader: &mut Reader<'_>) -> Result<Twist, Refusal> {
    let (linear, angular) = (finite_all(reader.three()?)?, finite_all(reader.three()?)?);
    Ok(Twist { linear, angular, ..Twist::default() })
}

fn pose(reader: &mut Reader<'_>) -> Result<State, Refusal> {
    let position = finite_all(reader.three()?)?;
    let [x, y, z] = finite_all(reader.three()?)?;
    let w = finite(reader.f64()?)?;
    let length = [w, x, y, z].iter().map(|part| part * part).sum::<f32>().sqrt();
    if (length - 1.0).abs() > 0.01 {
        return Err(Refusal::Orientation);
    }
    Ok(State::at(position).with_orientation_wxyz([w, x, y, z].map(|part| part / length)))
}

#[cfg(test)]
mod tests;
