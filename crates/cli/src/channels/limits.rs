//! Limits of what moves a robot, as a file of channels says them.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use taut_session::motion::{
    GripperLimits, JointLimits, JointsLimits, LimitPolicy, Limits, MotionLimits, Schema, TwistLimits,
};
use toml::Value;

use super::{read, urdf};

/// What is needed of limits.
pub(super) const fn needed(schema: Schema) -> &'static str {
    match schema {
        Schema::State => "position, velocity and force",
        Schema::Joints => "joints, position, velocity and effort, or with urdf = \"arm.urdf\"",
        Schema::Twist => "linear_velocity and angular_velocity",
        Schema::Gripper => "speed and effort",
    }
}

/// A number for all joints, or one for each.
#[derive(Deserialize)]
#[serde(untagged)]
enum Each<T> {
    All(T),
    Each(Vec<T>),
}

impl<T: Copy> Each<T> {
    fn of(&self, joint: usize) -> Option<T> {
        match self {
            Self::All(all) => Some(*all),
            Self::Each(list) => list.get(joint).copied(),
        }
    }

    /// It is a list of another length.
    fn is_other(&self, joints: usize) -> bool {
        matches!(self, Self::Each(list) if list.len() != joints)
    }
}

/// Limits of joints that a URDF has.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UrdfTable {
    urdf: PathBuf,
    /// Those of these names, in this order.
    joints: Option<Vec<String>>,
    rate: Option<f32>,
    #[serde(default)]
    refuse: bool,
}

/// rad, rad/s, rad/s², N·m, N·m/rad; of a joint that slides m, m/s, m/s², N, N/m.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JointsTable {
    joints: usize,
    position: Each<[f32; 2]>,
    velocity: Each<f32>,
    effort: Each<f32>,
    acceleration: Option<Each<f32>>,
    step: Option<Each<f32>>,
    stiffness: Option<Each<f32>>,
    rate: Option<f32>,
    #[serde(default)]
    refuse: bool,
}

/// m, m/s, m/s², N, rad/s, N·m, N/m.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StateTable {
    position: [[f32; 3]; 2],
    velocity: f32,
    force: f32,
    acceleration: Option<f32>,
    angular_velocity: Option<f32>,
    torque: Option<f32>,
    step: Option<f32>,
    stiffness: Option<f32>,
    rate: Option<f32>,
    #[serde(default)]
    refuse: bool,
}

/// m/s, m/s², rad/s, rad/s².
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TwistTable {
    linear_velocity: f32,
    angular_velocity: f32,
    linear_acceleration: Option<f32>,
    angular_acceleration: Option<f32>,
    rate: Option<f32>,
    #[serde(default)]
    refuse: bool,
}

/// 0 open … 1 closed, 1/s, N.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GripperTable {
    speed: f32,
    effort: f32,
    range: Option<[f32; 2]>,
    rate: Option<f32>,
    #[serde(default)]
    refuse: bool,
}

/// Limits, and where a URDF has them the names of its joints, in their order.
#[derive(Clone, Debug)]
pub(super) struct Limited {
    pub(super) limits: Limits,
    pub(super) joints: Vec<String>,
}

/// Of this schema, as a table says them. Files that it names are `beside` that folder; a URDF's joints are those of the
/// device where the table does not name them.
pub(super) fn limits(
    schema: Schema,
    table: Value,
    beside: &Path,
    device: Option<&[String]>,
) -> Result<Limited, String> {
    finite(&table)?;
    let told = |error: toml::de::Error| format!("{}; needed are {}", error.message(), needed(schema));
    let limits = match schema {
        Schema::Joints if table.get("urdf").is_some() => {
            let table: UrdfTable = table.try_into().map_err(|error| error.message().to_owned())?;
            let (limits, joints) = urdf(&beside.join(&table.urdf), table.joints.as_deref().or(device))?;
            let limits = limits.policy(policy(table.refuse));
            let limits = table.rate.map_or(limits.clone(), |hz| limits.rate(hz));
            return Ok(Limited { limits: limits.into(), joints });
        }
        Schema::Joints => joints(&table.try_into().map_err(told)?)?.into(),
        Schema::State => state(&table.try_into().map_err(told)?).into(),
        Schema::Twist => twist(&table.try_into().map_err(told)?).into(),
        Schema::Gripper => gripper(&table.try_into().map_err(told)?).into(),
    };
    Ok(Limited { limits, joints: Vec::new() })
}

/// Those of a file, by the names of the device's joints where they are known.
pub(super) fn from_urdf(path: &Path, device: Option<&[String]>) -> Result<Limited, String> {
    let (limits, joints) = urdf(path, device)?;
    Ok(Limited { limits: limits.into(), joints })
}

fn urdf(path: &Path, joints: Option<&[String]>) -> Result<(JointsLimits, Vec<String>), String> {
    urdf::limits(&read(path)?, joints).map_err(|why| format!("{}: {why}", path.display()))
}

/// A limit that is no number, or without end, limits nothing.
fn finite(value: &Value) -> Result<(), String> {
    match value {
        Value::Float(number) if !(*number as f32).is_finite() => Err(format!("{number} is no limit")),
        Value::Array(list) => list.iter().try_for_each(finite),
        Value::Table(table) => table.values().try_for_each(finite),
        _ => Ok(()),
    }
}

const fn policy(refuse: bool) -> LimitPolicy {
    if refuse { LimitPolicy::Refuse } else { LimitPolicy::Clamp }
}

fn joints(table: &JointsTable) -> Result<JointsLimits, String> {
    let count = table.joints;
    let optional =
        [("acceleration", &table.acceleration), ("step", &table.step), ("stiffness", &table.stiffness)];
    let mut wrong = optional.iter().filter(|(_, of)| of.as_ref().is_some_and(|of| of.is_other(count)));
    let wrong = [("velocity", &table.velocity), ("effort", &table.effort)]
        .iter()
        .find(|(_, of)| of.is_other(count))
        .map(|(name, _)| *name)
        .or_else(|| table.position.is_other(count).then_some("position"))
        .or_else(|| wrong.next().map(|(name, _)| *name));
    if let Some(name) = wrong {
        return Err(format!("{name} is one value for all of the {count} joints, or a list of {count}"));
    }
    let limits = |joint: usize| {
        let mut limits = JointLimits::new();
        let or = |of: &Option<Each<f32>>| of.as_ref().and_then(|of| of.of(joint));
        if let Some([least, largest]) = table.position.of(joint) {
            limits = limits.position(least, largest);
        }
        limits = table.velocity.of(joint).map_or(limits, |limit| limits.velocity(limit));
        limits = table.effort.of(joint).map_or(limits, |limit| limits.effort(limit));
        limits = or(&table.acceleration).map_or(limits, |limit| limits.acceleration(limit));
        limits = or(&table.step).map_or(limits, |limit| limits.step(limit));
        or(&table.stiffness).map_or(limits, |limit| limits.stiffness(limit))
    };
    let limits = JointsLimits::each((0..count).map(limits)).map_err(|error| error.to_string())?;
    let limits = limits.policy(policy(table.refuse));
    Ok(match table.rate {
        Some(hz) => limits.rate(hz),
        None => limits,
    })
}

fn state(table: &StateTable) -> MotionLimits {
    let [least, largest] = table.position;
    let limits = MotionLimits::new().position(least, largest).velocity(table.velocity).force(table.force);
    let limits = table.acceleration.map_or(limits, |limit| limits.acceleration(limit));
    let limits = table.angular_velocity.map_or(limits, |limit| limits.angular_velocity(limit));
    let limits = table.torque.map_or(limits, |limit| limits.torque(limit));
    let limits = table.step.map_or(limits, |limit| limits.step(limit));
    let limits = table.stiffness.map_or(limits, |limit| limits.stiffness(limit));
    table.rate.map_or(limits, |hz| limits.rate(hz)).policy(policy(table.refuse))
}

fn twist(table: &TwistTable) -> TwistLimits {
    let any = f32::INFINITY;
    let limits = TwistLimits::new()
        .linear(table.linear_velocity, table.linear_acceleration.unwrap_or(any))
        .angular(table.angular_velocity, table.angular_acceleration.unwrap_or(any));
    table.rate.map_or(limits, |hz| limits.rate(hz)).policy(policy(table.refuse))
}

fn gripper(table: &GripperTable) -> GripperLimits {
    let [least, largest] = table.range.unwrap_or([0.0, 1.0]);
    let limits = GripperLimits::new().range(least, largest).speed(table.speed).effort(table.effort);
    table.rate.map_or(limits, |hz| limits.rate(hz)).policy(policy(table.refuse))
}
