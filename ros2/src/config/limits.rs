//! Limits of what moves a robot: the keys of the session's own limits, of joints by their names.

use std::collections::BTreeMap;

use serde::Deserialize;
use taut::{JointLimits, StateLimits, TwistLimits};
use toml::Value;

use crate::motion::Type;

/// What a route is held to.
#[derive(Clone, Debug)]
pub(crate) enum MotionLimits {
    Twist(TwistLimits),
    Pose(StateLimits),
    /// Of velocities, the ranges in which joints stay: where they measure themselves, not what they are told.
    Joints {
        limits: Vec<JointLimits>,
        ranges: Vec<JointRange>,
    },
}

/// Where a joint may be, rad or m.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct JointRange {
    pub(crate) least: f32,
    pub(crate) largest: f32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TwistSpec {
    linear_velocity: f32,
    angular_velocity: f32,
    linear_acceleration: f32,
    angular_acceleration: f32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PoseSpec {
    /// Two corners.
    position: [[f32; 3]; 2],
    velocity: f32,
    angular_velocity: f32,
    force: f32,
    stiffness: f32,
    acceleration: Option<f32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JointSpec {
    position: [f32; 2],
    velocity: f32,
    effort: Option<f32>,
    acceleration: Option<f32>,
    stiffness: Option<f32>,
}

impl JointSpec {
    /// Is it held to all that is said?
    fn is_held(&self, velocity: bool) -> Result<(), String> {
        let of_places = [
            ("acceleration", self.acceleration.is_some()),
            ("effort", self.effort.is_some()),
            ("stiffness", self.stiffness.is_some()),
        ];
        match of_places.iter().find(|(_, is_set)| velocity && *is_set) {
            Some((key, _)) => Err(format!(
                "`{key}` holds nothing where velocities move it: leave it out, its controller has to see to it"
            )),
            None if self.stiffness.is_some() && !self.effort.is_some_and(|effort| effort > 0.0) => {
                Err("`stiffness` needs an `effort` above 0: it goes no further than that pulls".into())
            }
            None => Ok(()),
        }
    }
}

impl MotionLimits {
    /// # Errors
    /// Which are missing, or belong to no joint of the route.
    pub(super) fn read(kind: Type, velocity: bool, joints: &[String], value: Value) -> Result<Self, String> {
        match kind {
            Type::Twist | Type::TwistStamped => {
                let spec: TwistSpec = read(value)?;
                let limits = TwistLimits::new().linear(spec.linear_velocity).angular(spec.angular_velocity);
                let limits = limits.linear_acceleration(spec.linear_acceleration);
                Ok(Self::Twist(limits.angular_acceleration(spec.angular_acceleration)))
            }
            Type::PoseStamped => {
                let spec: PoseSpec = read(value)?;
                let [least, largest] = spec.position;
                let limits = StateLimits::new().position(least, largest).velocity(spec.velocity);
                let limits = limits
                    .angular_velocity(spec.angular_velocity)
                    .force(spec.force)
                    .stiffness(spec.stiffness);
                Ok(Self::Pose(spec.acceleration.map_or(limits, |largest| limits.acceleration(largest))))
            }
            _ => Self::of_joints(velocity, joints, value),
        }
    }

    fn of_joints(velocity: bool, joints: &[String], value: Value) -> Result<Self, String> {
        let mut named: BTreeMap<String, Value> =
            value.try_into().map_err(|error: toml::de::Error| error.message().to_owned())?;
        let (mut limits, mut ranges) = (Vec::new(), Vec::new());
        for name in joints {
            let missing = || {
                format!(
                    "limits of joint {name:?} are missing: `{name} = {{ position = [-1.0, 1.0], velocity = 0.5 }}`"
                )
            };
            let spec: JointSpec = read(named.remove(name).ok_or_else(missing)?)
                .map_err(|why| format!("joint {name:?}: {why}"))?;
            let [least, largest] = spec.position;
            if !(least.is_finite() && largest.is_finite() && least <= largest) {
                return Err(format!("joint {name:?}: `position` is the least and the largest, both finite"));
            }
            spec.is_held(velocity).map_err(|why| format!("joint {name:?}: {why}"))?;
            // What is told of velocities alone has no place: see `Format::moving`.
            let joint = JointLimits::new().velocity(spec.velocity).effort(spec.effort.unwrap_or(0.0));
            let joint = if velocity { joint.position(-1.0, 1.0) } else { joint.position(least, largest) };
            let joint = spec.acceleration.map_or(joint, |largest| joint.acceleration(largest));
            limits.push(spec.stiffness.map_or(joint, |stiffness| joint.stiffness(stiffness)));
            ranges.push(JointRange { least, largest });
        }
        if let Some(name) = named.keys().next() {
            return Err(format!("unknown joint {name:?}: the route's `joints` are {}", joints.join(", ")));
        }
        Ok(Self::Joints { limits, ranges })
    }
}

fn read<T: for<'de> Deserialize<'de>>(value: Value) -> Result<T, String> {
    value.try_into().map_err(|error: toml::de::Error| error.message().to_owned())
}
