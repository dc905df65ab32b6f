//! Motion of channels as fields of a line, by names with their units.

use serde::{Deserialize, Serialize};
use taut_session::motion::{self, Gripper, Joints, Motion, Schema, Turning, Twist};

/// `"joints":{…}`: what to do, or where something is.
///
/// | schema | fields |
/// | --- | --- |
/// | `state` | `position_m`, `orientation_wxyz`, `velocity_mps`, `force_n`, `gripper` (0 open … 65535 closed), `angular_velocity_radps`, `torque_nm` |
/// | `joints` | `position_rad`, `velocity_radps`, `effort_nm` |
/// | `twist` | `linear_mps`, `angular_radps` |
/// | `gripper` | `position` (0 open … 1 closed), `effort_n` |
///
/// And in each `enabling` (the enabling input is held) and `locked`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MotionLine {
    /// A pose in space, and how it moves.
    State(StateLine),
    /// Joints in the order that both ends have agreed on; of one that slides it is m, m/s and N.
    Joints(JointsLine),
    /// A velocity in space.
    Twist(TwistLine),
    /// How far a gripper closes.
    Gripper(GripperLine),
}

/// See [`MotionLine`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateLine {
    /// m.
    pub position_m: [f32; 3],
    /// A unit quaternion: w, x, y, z.
    #[serde(default = "upright")]
    pub orientation_wxyz: [f32; 4],
    /// m/s.
    #[serde(default)]
    pub velocity_mps: [f32; 3],
    /// N.
    #[serde(default)]
    pub force_n: [f32; 3],
    /// 0 open … 65535 closed.
    #[serde(default)]
    pub gripper: u16,
    /// About x, y, z in rad/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub angular_velocity_radps: Option<[f32; 3]>,
    /// About x, y, z in N·m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub torque_nm: Option<[f32; 3]>,
    /// The enabling input is held.
    #[serde(default, skip_serializing_if = "is_false")]
    pub enabling: bool,
    /// The device may move, and the robot does not.
    #[serde(default, skip_serializing_if = "is_false")]
    pub locked: bool,
}

/// See [`MotionLine`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JointsLine {
    /// rad (m).
    pub position_rad: Vec<f32>,
    /// rad/s (m/s); as many, or none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub velocity_radps: Vec<f32>,
    /// N·m (N); as many, or none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub effort_nm: Vec<f32>,
    /// The enabling input is held.
    #[serde(default, skip_serializing_if = "is_false")]
    pub enabling: bool,
    /// The device may move, and the robot does not.
    #[serde(default, skip_serializing_if = "is_false")]
    pub locked: bool,
}

/// See [`MotionLine`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TwistLine {
    /// m/s.
    #[serde(default)]
    pub linear_mps: [f32; 3],
    /// rad/s.
    #[serde(default)]
    pub angular_radps: [f32; 3],
    /// The enabling input is held.
    #[serde(default, skip_serializing_if = "is_false")]
    pub enabling: bool,
    /// The device may move, and the robot does not.
    #[serde(default, skip_serializing_if = "is_false")]
    pub locked: bool,
}

/// See [`MotionLine`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GripperLine {
    /// 0 open … 1 closed.
    pub position: f32,
    /// N.
    #[serde(default)]
    pub effort_n: f32,
    /// The enabling input is held.
    #[serde(default, skip_serializing_if = "is_false")]
    pub enabling: bool,
    /// The device may move, and the robot does not.
    #[serde(default, skip_serializing_if = "is_false")]
    pub locked: bool,
}

const fn upright() -> [f32; 4] {
    [1.0, 0.0, 0.0, 0.0]
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
const fn is_false(flag: &bool) -> bool {
    !*flag
}

impl MotionLine {
    /// What it is of.
    pub const fn schema(&self) -> Schema {
        match self {
            Self::State(_) => Schema::State,
            Self::Joints(_) => Schema::Joints,
            Self::Twist(_) => Schema::Twist,
            Self::Gripper(_) => Schema::Gripper,
        }
    }

    /// As motion.
    ///
    /// # Errors
    /// Where a number is not finite, or there is another number of joints than may be.
    pub fn motion(self) -> Result<Motion, String> {
        let motion = match self {
            Self::State(line) => Motion::State(line.into()),
            Self::Joints(line) => Motion::Joints(line.joints().map_err(|error| error.to_string())?),
            Self::Twist(TwistLine { linear_mps: linear, angular_radps: angular, enabling, locked }) => {
                Motion::Twist(Twist { linear, angular, enabling, locked })
            }
            Self::Gripper(GripperLine { position, effort_n: max_effort, enabling, locked }) => {
                Motion::Gripper(Gripper { position, max_effort, enabling, locked })
            }
        };
        if motion.is_finite() { Ok(motion) } else { Err("a number in it is not finite".to_owned()) }
    }
}

impl JointsLine {
    fn joints(&self) -> Result<Joints, motion::Error> {
        let mut joints = Joints::new(&self.position_rad)?;
        if !self.velocity_radps.is_empty() {
            joints = joints.with_velocity(&self.velocity_radps)?;
        }
        if !self.effort_nm.is_empty() {
            joints = joints.with_effort(&self.effort_nm)?;
        }
        (joints.enabling, joints.locked) = (self.enabling, self.locked);
        Ok(joints)
    }
}

impl From<StateLine> for motion::State {
    fn from(line: StateLine) -> Self {
        let turns = line.angular_velocity_radps.is_some() || line.torque_nm.is_some();
        Self {
            locked: line.locked,
            enabling: line.enabling,
            gripper: line.gripper,
            position: line.position_m,
            orientation_wxyz: line.orientation_wxyz,
            velocity: line.velocity_mps,
            force: line.force_n,
            turning: turns.then(|| Turning {
                velocity: line.angular_velocity_radps.unwrap_or_default(),
                torque: line.torque_nm.unwrap_or_default(),
            }),
        }
    }
}

impl From<&motion::State> for StateLine {
    fn from(state: &motion::State) -> Self {
        Self {
            position_m: state.position,
            orientation_wxyz: state.orientation_wxyz,
            velocity_mps: state.velocity,
            force_n: state.force,
            gripper: state.gripper,
            angular_velocity_radps: state.turning.map(|turning| turning.velocity),
            torque_nm: state.turning.map(|turning| turning.torque),
            enabling: state.enabling,
            locked: state.locked,
        }
    }
}

impl From<&Motion> for MotionLine {
    fn from(motion: &Motion) -> Self {
        match motion {
            Motion::State(state) => Self::State(state.into()),
            Motion::Joints(joints) => Self::Joints(JointsLine {
                position_rad: joints.position().to_vec(),
                velocity_radps: joints.velocity().to_vec(),
                effort_nm: joints.effort().to_vec(),
                enabling: joints.enabling,
                locked: joints.locked,
            }),
            Motion::Twist(Twist { linear, angular, enabling, locked }) => Self::Twist(TwistLine {
                linear_mps: *linear,
                angular_radps: *angular,
                enabling: *enabling,
                locked: *locked,
            }),
            Motion::Gripper(Gripper { position, max_effort, enabling, locked }) => {
                Self::Gripper(GripperLine {
                    position: *position,
                    effort_n: *max_effort,
                    enabling: *enabling,
                    locked: *locked,
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn motion_of_each_schema_is_written_by_names_with_units_and_read_the_same() {
        for (text, schema) in [
            (r#"{"joints":{"position_rad":[0.5,-0.25],"velocity_radps":[0.0,1.0]}}"#, Schema::Joints),
            (r#"{"twist":{"linear_mps":[0.5,0.0,0.0],"angular_radps":[0.0,0.0,1.0]}}"#, Schema::Twist),
            (r#"{"gripper":{"position":0.5,"effort_n":10.0,"enabling":true}}"#, Schema::Gripper),
            (
                r#"{"state":{"position_m":[0.5,0.0,0.0],"orientation_wxyz":[1.0,0.0,0.0,0.0],"velocity_mps":[0.0,0.0,0.0],"force_n":[0.0,0.0,0.0],"gripper":7,"angular_velocity_radps":[0.0,0.0,1.0],"torque_nm":[0.0,0.0,0.0]}}"#,
                Schema::State,
            ),
        ] {
            let line: MotionLine = serde_json::from_str(text).unwrap();
            assert_eq!(line.schema(), schema);
            let motion = line.motion().unwrap();
            assert_eq!(serde_json::to_string(&MotionLine::from(&motion)).unwrap(), text);
        }
    }

    #[test]
    fn what_cannot_be_is_said() {
        let told = |text: &str| serde_json::from_str::<MotionLine>(text).unwrap().motion().unwrap_err();
        assert!(told(r#"{"joints":{"position_rad":[]}}"#).contains("0 joints"));
        assert!(told(r#"{"joints":{"position_rad":[1],"velocity_radps":[1,2]}}"#).contains("2 joints"));
        // More than 32 bits hold: where another crate has serde_json read exactly, it says so itself.
        let huge = serde_json::from_str::<MotionLine>(r#"{"gripper":{"position":1e39}}"#);
        let why = huge.map_or_else(|error| error.to_string(), |line| line.motion().unwrap_err());
        assert!(why.contains("not finite") || why.contains("out of range"), "{why}");
        let typo = serde_json::from_str::<MotionLine>(r#"{"twist":{"linear":[1,0,0]}}"#).unwrap_err();
        assert!(typo.to_string().contains("linear_mps"), "{typo}");
    }
}
