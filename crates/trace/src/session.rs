//! What a session's recording says of its operator, and of how it went.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;
use taut_core::Time;

use crate::error::{Fault, Problem, TraceError};
use crate::file::{Limits, Opened};
use crate::mcap;

/// What a recording without a session lacks.
pub(crate) const STATES: &str = "states of a session (topic operator/state)";

/// What was recorded of a session at one of its ends.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionRecording {
    /// What the operator's device made (operator), or the robot applied of it, in the order in which it was made.
    pub states: Vec<RecordedState>,
    /// What the robot's state became, how the session was run, the last `status` and `summary`: events as `--json` tells them.
    pub events: Vec<Value>,
    /// Of the other messages, by topic, their bytes.
    pub sizes: BTreeMap<String, Vec<u64>>,
    /// Where it is cut short.
    pub notes: Vec<String>,
}

/// A state of the operator's device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
pub struct RecordedState {
    /// When it was made, by the recorder's wall clock.
    #[serde(skip)]
    pub made: Time,
    /// m.
    #[serde(rename = "position_x_m")]
    pub x: f32,
    /// m.
    #[serde(rename = "position_y_m")]
    pub y: f32,
    /// m.
    #[serde(rename = "position_z_m")]
    pub z: f32,
    /// Of a unit quaternion.
    pub orientation_w: f32,
    /// Of a unit quaternion.
    pub orientation_x: f32,
    /// Of a unit quaternion.
    pub orientation_y: f32,
    /// Of a unit quaternion.
    pub orientation_z: f32,
    /// m/s.
    pub velocity_x_m_s: f32,
    /// m/s.
    pub velocity_y_m_s: f32,
    /// m/s.
    pub velocity_z_m_s: f32,
    /// 0 open … 65535 closed.
    pub gripper: u16,
    /// The enabling input is held.
    pub enabling: bool,
}

/// Reads what `taut robot` or `taut operator` recorded, an MCAP file. One that is cut short is read as far as it is whole.
///
/// # Errors
/// When it cannot be read, is no MCAP, or holds no session.
pub fn read_session(path: &Path) -> Result<SessionRecording, TraceError> {
    let limits = Limits::of_files();
    let (name, read) = match Opened::open(path)? {
        Opened::Mcap(name, mut file) => (name, mcap::read_session(&mut file, &limits)),
        Opened::Other(name, data) if data.starts_with(mcap::MAGIC) => {
            (name, mcap::read_session(&mut Cursor::new(data), &limits))
        }
        Opened::Other(name, _) => (name, Err(Fault::file(Problem::Nothing(STATES)))),
    };
    read.map_err(|fault| TraceError::new(&name, fault))
}
