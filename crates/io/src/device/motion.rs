//! Motion of channels as fields of a line, by names with their units.

use serde::Deserialize;
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
#[derive(Clone, Debug, PartialEq, Deserialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
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
    pub angular_velocity_radps: Option<[f32; 3]>,
    /// About x, y, z in N·m.
    pub torque_nm: Option<[f32; 3]>,
    /// The enabling input is held.
    #[serde(default)]
    pub enabling: bool,
    /// The device may move, and the robot does not.
    #[serde(default)]
    pub locked: bool,
}

/// See [`MotionLine`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JointsLine {
    /// rad (m).
    pub position_rad: Vec<f32>,
    /// rad/s (m/s); as many, or none.
    #[serde(default)]
    pub velocity_radps: Vec<f32>,
    /// N·m (N); as many, or none.
    #[serde(default)]
    pub effort_nm: Vec<f32>,
    /// The enabling input is held.
    #[serde(default)]
    pub enabling: bool,
    /// The device may move, and the robot does not.
    #[serde(default)]
    pub locked: bool,
}

/// See [`MotionLine`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TwistLine {
    /// m/s.
    #[serde(default)]
    pub linear_mps: [f32; 3],
    /// rad/s.
    #[serde(default)]
    pub angular_radps: [f32; 3],
    /// The enabling input is held.
    #[serde(default)]
    pub enabling: bool,
    /// The device may move, and the robot does not.
    #[serde(default)]
    pub locked: bool,
}

/// See [`MotionLine`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GripperLine {
    /// 0 open … 1 closed.
    pub position: f32,
    /// N.
    #[serde(default)]
    pub effort_n: f32,
    /// The enabling input is held.
    #[serde(default)]
    pub enabling: bool,
    /// The device may move, and the robot does not.
    #[serde(default)]
    pub locked: bool,
}

const fn upright() -> [f32; 4] {
    [1.0, 0.0, 0.0, 0.0]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn motion_of_each_schema_is_read_by_names_with_units() {
        let joints = Joints::new(&[0.5, -0.25]).unwrap().with_velocity(&[0.0, 1.0]).unwrap();
        let twist = Twist { linear: [0.5, 0.0, 0.0], angular: [0.0, 0.0, 1.0], ..Twist::default() };
        let gripper = Gripper { position: 0.5, max_effort: 10.0, enabling: true, ..Gripper::default() };
        let turning = Turning { velocity: [0.0, 0.0, 1.0], torque: [0.0; 3] };
        let state = motion::State {
            position: [0.5, 0.0, 0.0],
            gripper: 7,
            turning: Some(turning),
            ..motion::State::default()
        };
        for (text, motion) in [
            (r#"{"joints":{"position_rad":[0.5,-0.25],"velocity_radps":[0.0,1.0]}}"#, Motion::Joints(joints)),
            (r#"{"twist":{"linear_mps":[0.5,0.0,0.0],"angular_radps":[0.0,0.0,1.0]}}"#, Motion::Twist(twist)),
            (r#"{"gripper":{"position":0.5,"effort_n":10.0,"enabling":true}}"#, Motion::Gripper(gripper)),
            (
                r#"{"state":{"position_m":[0.5,0,0],"gripper":7,"angular_velocity_radps":[0,0,1]}}"#,
                Motion::State(state),
            ),
        ] {
            let line: MotionLine = serde_json::from_str(text).unwrap();
            assert_eq!(line.schema(), motion.schema());
            assert_eq!(line.motion(), Ok(motion));
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
