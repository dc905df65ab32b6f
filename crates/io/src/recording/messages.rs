//! What is recorded, and how it is written: JSON of numbers side by side, which Foxglove plots by their names without a plug-in and
//! `taut trace` reads as columns. Foxglove's own schemas have no force.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};
use taut_core::Duration;
use taut_session::{Channel, ChannelId, Direction, Encoding, State, Turning, Verdict};

/// A message's content.
#[derive(Clone, Debug)]
pub(super) enum Content {
    OperatorState(State, Duration),
    RobotState(State, Duration),
    RoundTrip(Duration, Verdict),
    Channel(ChannelId, Vec<u8>),
    /// A line of JSON.
    Event(String),
}

/// Which topic of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Topic {
    OperatorState,
    RobotState,
    RoundTrip,
    Channel(ChannelId),
    Events,
}

/// What a file says of a topic.
#[derive(Debug)]
pub(super) struct Described {
    pub(super) topic: String,
    pub(super) schema: String,
    /// Of the schema; empty where there is none.
    pub(super) schema_encoding: &'static str,
    pub(super) definition: Vec<u8>,
    pub(super) encoding: &'static str,
    /// What the file says of the channel beside: a definition that is no schema of MCAP's, such as the names of joints.
    pub(super) metadata: BTreeMap<String, String>,
}

#[derive(Serialize)]
struct StateMessage {
    sequence: u64,
    age_ms: f64,
    priority: &'static str,
    position_x_m: f32,
    position_y_m: f32,
    position_z_m: f32,
    orientation_w: f32,
    orientation_x: f32,
    orientation_y: f32,
    orientation_z: f32,
    velocity_x_m_s: f32,
    velocity_y_m_s: f32,
    velocity_z_m_s: f32,
    force_x_n: f32,
    force_y_n: f32,
    force_z_n: f32,
    /// Where it is told.
    #[serde(flatten)]
    turning: Option<TurningMessage>,
    gripper: u16,
    enabling: bool,
    locked: bool,
}

#[derive(Serialize)]
struct TurningMessage {
    angular_velocity_x_rad_s: f32,
    angular_velocity_y_rad_s: f32,
    angular_velocity_z_rad_s: f32,
    torque_x_nm: f32,
    torque_y_nm: f32,
    torque_z_nm: f32,
}

impl TurningMessage {
    const fn new(turning: &Turning) -> Self {
        let [angular_velocity_x_rad_s, angular_velocity_y_rad_s, angular_velocity_z_rad_s] = turning.velocity;
        let [torque_x_nm, torque_y_nm, torque_z_nm] = turning.torque;
        Self {
            angular_velocity_x_rad_s,
            angular_velocity_y_rad_s,
            angular_velocity_z_rad_s,
            torque_x_nm,
            torque_y_nm,
            torque_z_nm,
        }
    }
}

#[derive(Serialize)]
struct RoundTripMessage {
    sequence: u64,
    round_trip_ms: f64,
    verdict: &'static str,
}

impl Content {
    /// What it takes while it waits, beside its place.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Channel(_, payload) => payload.len(),
            Self::Event(line) => line.len(),
            Self::OperatorState(..) | Self::RobotState(..) | Self::RoundTrip(..) => 0,
        }
    }

    pub(super) fn topic(&self) -> Topic {
        match self {
            Self::OperatorState(..) => Topic::OperatorState,
            Self::RobotState(..) => Topic::RobotState,
            Self::RoundTrip(..) => Topic::RoundTrip,
            Self::Channel(channel, _) => Topic::Channel(*channel),
            Self::Event(_) => Topic::Events,
        }
    }

    pub(super) fn into_bytes(self, sequence: u64) -> Vec<u8> {
        let json = match self {
            Self::Channel(_, payload) => return payload,
            Self::Event(line) => return line.into_bytes(),
            Self::OperatorState(state, age) | Self::RobotState(state, age) => {
                serde_json::to_vec(&state_message(&state, sequence, age))
            }
            Self::RoundTrip(round_trip, verdict) => serde_json::to_vec(&RoundTripMessage {
                sequence,
                round_trip_ms: round_trip.as_millis_f64(),
                verdict: verdict.name(),
            }),
        };
        json.expect("numbers and names are JSON")
    }
}

fn state_message(state: &State, sequence: u64, age: Duration) -> StateMessage {
    let [position_x_m, position_y_m, position_z_m] = state.position;
    let [orientation_w, orientation_x, orientation_y, orientation_z] = state.orientation_wxyz;
    let [velocity_x_m_s, velocity_y_m_s, velocity_z_m_s] = state.velocity;
    let [force_x_n, force_y_n, force_z_n] = state.force;
    StateMessage {
        sequence,
        age_ms: age.as_millis_f64(),
        priority: state.priority.name(),
        position_x_m,
        position_y_m,
        position_z_m,
        orientation_w,
        orientation_x,
        orientation_y,
        orientation_z,
        velocity_x_m_s,
        velocity_y_m_s,
        velocity_z_m_s,
        force_x_n,
        force_y_n,
        force_z_n,
        turning: state.turning.as_ref().map(TurningMessage::new),
        gripper: state.gripper,
        enabling: state.enabling,
        locked: state.locked,
    }
}

/// JSON Schema (draft 2020-12) of an object with these fields, in the words of an example of it that has all, and of one that has the least.
fn schema(example: &impl Serialize, least: &impl Serialize) -> Vec<u8> {
    let [example, least] =
        [serde_json::to_value(example), serde_json::to_value(least)].map(|it| it.expect("it is JSON"));
    let required: Vec<_> = least.as_object().into_iter().flatten().map(|(name, _)| name).collect();
    let kind = |value: &Value| match value {
        Value::Bool(_) => "boolean",
        Value::String(_) => "string",
        _ => "number",
    };
    let fields = example.as_object().into_iter().flatten();
    let properties: serde_json::Map<_, _> =
        fields.map(|(name, value)| (name.clone(), json!({ "type": kind(value) }))).collect();
    json!({ "type": "object", "properties": properties, "required": required }).to_string().into_bytes()
}

impl Topic {
    /// `channels` are those that the end declares; `None` when it is none of them.
    pub(super) fn described(self, channels: &[Channel]) -> Option<Described> {
        let own = |topic: &str, schema: &str, definition| Described {
            topic: topic.to_owned(),
            schema: schema.to_owned(),
            schema_encoding: "jsonschema",
            definition,
            encoding: "json",
            metadata: BTreeMap::new(),
        };
        let state = || {
            let least = State::at(taut_core::Time::ZERO);
            let all = State { turning: Some(Turning::default()), ..least };
            let [all, least] = [all, least].map(|state| state_message(&state, 0, Duration::ZERO));
            schema(&all, &least)
        };
        Some(match self {
            Self::OperatorState => own("operator/state", "taut.State", state()),
            Self::RobotState => own("robot/state", "taut.State", state()),
            Self::RoundTrip => {
                let example =
                    RoundTripMessage { sequence: 0, round_trip_ms: 0.0, verdict: Verdict::ALL[0].name() };
                own("operator/round_trip", "taut.RoundTrip", schema(&example, &example))
            }
            Self::Events => {
                let example = json!({ "event": "stopped", "t_s": 0.0 });
                own("taut/events", "taut.Event", schema(&example, &example))
            }
            Self::Channel(id) => of_channel(channels.get(usize::from(id.0))?),
        })
    }
}

/// As MCAP's registry of encodings names them. A definition is a text: of protobuf it is none that the registry knows.
fn of_channel(channel: &Channel) -> Described {
    let way = match channel.direction() {
        Direction::ToRobot => "to_robot",
        Direction::ToOperator => "to_operator",
    };
    let (schema, text) = (channel.schema(), channel.schema().text());
    let (encoding, schema_encoding) = match schema.encoding() {
        Encoding::Json => ("json", "jsonschema"),
        Encoding::Cdr => ("cdr", "ros2msg"),
        other => (other.name(), ""),
    };
    // Readers of JSON want to be told that it is an object.
    let definition = if text.is_empty() && encoding == "json" { r#"{"type":"object"}"# } else { text };
    let none = definition.is_empty() || schema_encoding.is_empty();
    let beside =
        (schema_encoding.is_empty() && !text.is_empty()).then(|| ("definition".to_owned(), text.to_owned()));
    Described {
        topic: format!("{way}/{}", channel.name()),
        schema: schema.name().to_owned(),
        schema_encoding: if none { "" } else { schema_encoding },
        definition: if none { Vec::new() } else { definition.as_bytes().to_vec() },
        encoding,
        metadata: beside.into_iter().collect(),
    }
}
