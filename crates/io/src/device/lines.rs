//! What a device in a process of its own reads and writes: JSON Lines.
//!
//! To it, on its standard input:
//!
//! ```text
//! {"limits":{"position":[[-0.2,-0.2,0],[0.2,0.2,0.3]],"velocity":0.5,"force":20}}
//! {"enable":{}}
//! {"apply":{"position":[0,0,0],"orientation_wxyz":[1,0,0,0],"velocity":[0,0,0],"force":[0,0,0],"gripper":0,"lease_ms":100}}
//! {"drive":{"channel":"arm/servo_jp","joints":{"position_rad":[0,0]},"lease_ms":100}}
//! {"message":{"channel":"lights","age_ms":3.1,"payload":{"on":true}}}
//! {"stop":"watchdog"}
//! ```
//!
//! From it, on its standard output, `hello` first:
//!
//! ```text
//! {"hello":{"name":"arm","stiffness":3000,"lease":true,"limits_force":true,"real":true}}
//! {"position":[0,0,0],"orientation_wxyz":[1,0,0,0],"velocity":[0,0,0],"force":[0,0,0],"gripper":0,"controller_force":[0,0,0]}
//! {"measured":{"channel":"arm/servo_jp","joints":{"position_rad":[0,0]}}}
//! {"message":{"channel":"battery","payload":{"percent":87}}}
//! {"stopped":"lease"}
//! ```
//!
//! Positions are in m, velocities in m/s, forces in N, stiffness in N/m; a gripper is open at 0 and closed at 65535.
//! Motion of channels has [names with units](MotionLine). [`LONGEST`] bytes are the longest line, but of a message from it.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use taut_agent::{Measured, SetPoint};
use taut_core::{Duration, Time};
use taut_session::State;

use super::base64;
pub use super::motion::{GripperLine, JointsLine, MotionLine, StateLine, TwistLine};
pub use super::splitter::Splitter;

/// Bytes of a line, without what ends it: it fits into one page of a pipe. A longer one is junk.
pub const LONGEST: usize = 4_000;
/// Bytes of a part of a message that goes to a device: as text they fit into a line.
const PART: usize = 2_400;

/// A line to a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// At start: what it must not exceed.
    Limits(DeviceLimits),
    /// Set points follow.
    Enable {},
    /// Go there.
    Apply(Apply),
    /// Move so, as a channel of motion says.
    Drive(Drive),
    /// A message of a channel, or a part of it.
    Message(MessageLine),
    /// Stop, and stay until `enable`; why, by the name of a [`StopCause`](taut_session::StopCause). A device stops
    /// whatever is said here.
    Stop(String),
}

/// What a device must not exceed, whatever it is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceLimits {
    /// The box that positions stay in, m: its least and its largest corner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<[[f32; 3]; 2]>,
    /// The largest speed, m/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub velocity: Option<f32>,
    /// The largest magnitude of the force that its controller makes, N.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force: Option<f32>,
}

/// A set point.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Apply {
    /// m.
    pub position: [f32; 3],
    /// A unit quaternion: w, x, y, z.
    pub orientation_wxyz: [f32; 4],
    /// m/s.
    pub velocity: [f32; 3],
    /// N.
    pub force: [f32; 3],
    /// 0 open … 65535 closed.
    pub gripper: u16,
    /// So long from now the device may go on by itself.
    pub lease_ms: f64,
}

/// Motion of a channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Drive {
    /// Its name.
    pub channel: String,
    /// What to do.
    #[serde(flatten)]
    pub motion: MotionLine,
    /// So long from now the device may go on by itself.
    pub lease_ms: f64,
}

/// Where the device is, as a channel of motion says it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MotionOf {
    /// Its name.
    pub channel: String,
    /// Where it is, or what to do.
    #[serde(flatten)]
    pub motion: MotionLine,
}

/// A message of a channel, or a part of it: its payload as it is where that is JSON, or else by `base64`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MessageLine {
    /// Its name.
    pub channel: String,
    /// How old it is, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_ms: Option<f64>,
    /// JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Json>,
    /// Any bytes: RFC 4648, section 4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    /// The next message line of this channel goes on with it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
}

/// JSON, as it was written.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Json(Box<RawValue>);

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.0.get() == other.0.get()
    }
}

impl Json {
    /// `None` where the bytes are none.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        // The ends of lines in it are white space: in strings there are none (RFC 8259, section 7).
        let text = text.replace(['\n', '\r'], " ");
        RawValue::from_string(text.trim().to_owned()).ok().map(Self)
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        self.0.get()
    }
}

impl MessageLine {
    /// All of a message, in one line of whatever length.
    pub fn whole(channel: &str, is_json: bool, age: Option<Duration>, payload: &[u8]) -> Self {
        let json = if is_json { Json::new(payload) } else { None };
        Self {
            channel: channel.to_owned(),
            age_ms: age.map(Duration::as_millis_f64),
            base64: json.is_none().then(|| base64::encode(payload)),
            payload: json,
            more: false,
        }
    }

    /// The first line of a message whose `payload` may be too long for one, and how many bytes of it that has.
    pub fn first(channel: &str, is_json: bool, age: Option<Duration>, payload: &[u8]) -> (Self, usize) {
        let part = &payload[..payload.len().min(PART)];
        let is_whole = part.len() == payload.len();
        (Self { more: !is_whole, ..Self::whole(channel, is_json && is_whole, age, part) }, part.len())
    }

    /// The payload.
    ///
    /// # Errors
    /// Where there is none.
    pub fn bytes(self) -> Result<Vec<u8>, String> {
        match (self.payload, self.base64) {
            (Some(json), None) => Ok(json.text().as_bytes().to_vec()),
            (None, Some(text)) => {
                base64::decode(&text).ok_or_else(|| "`base64` is not what RFC 4648 says".to_owned())
            }
            _ => Err("a message has `payload` (JSON) or `base64`".to_owned()),
        }
    }
}

/// A line from a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Report {
    /// The first line: what it is.
    Hello {
        /// That.
        hello: Hello,
    },
    /// It stopped by itself, and why, in a word.
    Stopped {
        /// That word.
        stopped: String,
    },
    /// Where it is, by a channel of motion.
    Measured {
        /// That.
        measured: MotionOf,
    },
    /// What it measured.
    Measurement(Measurement),
}

/// What a device is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// For people.
    pub name: String,
    /// Of its position controller, N/m.
    #[serde(default)]
    pub stiffness: Option<f32>,
    /// Does it keep the lease by its own clock?
    pub lease: bool,
    /// Does its controller keep a limit of force?
    pub limits_force: bool,
    /// Can it hurt somebody?
    pub real: bool,
}

/// What a device measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// m.
    pub position: [f32; 3],
    /// A unit quaternion: w, x, y, z.
    #[serde(default = "upright")]
    pub orientation_wxyz: [f32; 4],
    /// m/s.
    #[serde(default)]
    pub velocity: [f32; 3],
    /// Of the environment on it, N.
    #[serde(default)]
    pub force: [f32; 3],
    /// 0 open … 65535 closed.
    #[serde(default)]
    pub gripper: u16,
    /// Of its controller, N.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller_force: Option<[f32; 3]>,
}

const fn upright() -> [f32; 4] {
    [1.0, 0.0, 0.0, 0.0]
}

impl Apply {
    /// With the lease that is left.
    pub fn new(state: &State, lease: Duration) -> Self {
        Self {
            position: state.position,
            orientation_wxyz: state.orientation_wxyz,
            velocity: state.velocity,
            force: state.force,
            gripper: state.gripper,
            lease_ms: lease.as_millis_f64(),
        }
    }

    /// As a set point; `None` where a number is not finite or the lease none.
    pub fn point(&self) -> Option<SetPoint> {
        let state = State {
            position: self.position,
            orientation_wxyz: self.orientation_wxyz,
            velocity: self.velocity,
            force: self.force,
            gripper: self.gripper,
            ..State::at(Time::ZERO)
        };
        // A lease longer than a minute is none that a watchdog has.
        let valid = state.is_finite() && (0.0..=60_000.0).contains(&self.lease_ms);
        let lease = Duration::from_nanos((self.lease_ms * 1e6) as u64);
        valid.then_some(SetPoint { state, lease })
    }
}

impl Measurement {
    /// As it is written.
    pub fn new(Measured { state, controller_force }: Measured) -> Self {
        Self {
            position: state.position,
            orientation_wxyz: state.orientation_wxyz,
            velocity: state.velocity,
            force: state.force,
            gripper: state.gripper,
            controller_force,
        }
    }

    fn measured(&self) -> Option<Measured> {
        let state = State {
            position: self.position,
            orientation_wxyz: self.orientation_wxyz,
            velocity: self.velocity,
            force: self.force,
            gripper: self.gripper,
            ..State::at(Time::ZERO)
        };
        let finite = state.is_finite() && self.controller_force.iter().flatten().all(|part| part.is_finite());
        finite.then_some(Measured { state, controller_force: self.controller_force })
    }
}

/// One line of JSON, with its end.
pub fn line(value: &impl Serialize) -> Vec<u8> {
    let mut bytes =
        serde_json::to_vec(value).expect("names are strings, and nothing here fails to be written");
    bytes.push(b'\n');
    bytes
}

/// A line to a device; `None` when it is none.
pub fn order(line: &[u8]) -> Option<Order> {
    serde_json::from_slice(line).ok()
}

/// What a device says, understood.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Said {
    Hello(Hello),
    Stopped(String),
    Measured(Measured),
    Motion(MotionOf),
    Message(MessageLine),
}

/// A message from a device. It stands alone: JSON as it is cannot be one of several kinds of lines.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MessageReport {
    message: MessageLine,
}

/// A line of a device.
///
/// # Errors
/// What is wrong with it.
pub(super) fn said(line: &[u8]) -> Result<Said, String> {
    if line.starts_with(b"{\"message\"") {
        let told = serde_json::from_slice(line).map(|MessageReport { message }| Said::Message(message));
        return told.map_err(|error| error.to_string());
    }
    let report = serde_json::from_slice(line).map_err(|_| "it is none of the lines that a device writes")?;
    Ok(match report {
        Report::Hello { hello } => Said::Hello(hello),
        Report::Stopped { stopped } => Said::Stopped(stopped),
        Report::Measured { measured } => Said::Motion(measured),
        Report::Measurement(measurement) => {
            Said::Measured(measurement.measured().ok_or("a number in it is not finite")?)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_written_as_the_page_says_and_read_the_same() {
        let state = State { position: [0.5, 0.0, -1.0], gripper: 7, ..State::at(Time::ZERO) };
        let apply = Apply::new(&state, Duration::from_micros(99_500));
        let limits = DeviceLimits { force: Some(20.0), ..DeviceLimits::default() };
        for (order, written) in [
            (Order::Limits(limits), r#"{"limits":{"force":20.0}}"#),
            (Order::Enable {}, r#"{"enable":{}}"#),
            (
                Order::Apply(apply),
                r#"{"apply":{"position":[0.5,0.0,-1.0],"orientation_wxyz":[1.0,0.0,0.0,0.0],"velocity":[0.0,0.0,0.0],"force":[0.0,0.0,0.0],"gripper":7,"lease_ms":99.5}}"#,
            ),
            (Order::Stop("watchdog".to_owned()), r#"{"stop":"watchdog"}"#),
        ] {
            let bytes = line(&order);
            assert_eq!(String::from_utf8(bytes.clone()).unwrap(), format!("{written}\n"));
            assert_eq!(super::order(&bytes), Some(order));
        }
        let point = apply.point().unwrap();
        assert_eq!((point.state.position, point.lease), (state.position, Duration::from_micros(99_500)));
    }

    #[test]
    fn what_is_not_finite_is_junk() {
        assert!(said(br#"{"position":[1e39,0,0]}"#).is_err());
        assert!(said(br#"{"position":[0,0,0],"controller_force":[0,0,-1e99]}"#).is_err());
        let order = order(br#"{"apply":{"position":[1e39,0,0],"orientation_wxyz":[1,0,0,0],"velocity":[0,0,0],"force":[0,0,0],"gripper":0,"lease_ms":1}}"#);
        assert!(!matches!(order, Some(Order::Apply(apply)) if apply.point().is_some()));
    }

    #[test]
    fn a_device_says_what_it_is_then_what_it_measures_and_that_it_stopped() {
        let hello = said(
            br#"{"hello":{"name":"arm","stiffness":3000,"lease":true,"limits_force":true,"real":false}}"#,
        );
        assert!(matches!(hello, Ok(Said::Hello(Hello { lease: true, real: false, .. }))), "{hello:?}");
        let least = said(br#"{"position":[0.1,0,0]}"#);
        assert!(matches!(least, Ok(Said::Measured(Measured { controller_force: None, .. }))), "{least:?}");
        assert_eq!(said(br#"{"stopped":"lease"}"#), Ok(Said::Stopped("lease".to_owned())));
        for junk in ["", "hello", "{}", r#"{"position":[0,0]}"#, "[]", "\u{1b}[2J"] {
            assert!(said(junk.as_bytes()).is_err(), "{junk}");
        }
    }

    #[test]
    fn messages_are_json_as_it_is_or_bytes_as_text_and_long_ones_come_in_parts() {
        let written = |line: &MessageLine| serde_json::to_string(&Order::Message(line.clone())).unwrap();
        let pretty = b"{\n \"b\": 1.50,\r\n \"a\": 9007199254740993}\n";
        let (line, bytes) = MessageLine::first("lights", true, None, pretty);
        assert_eq!(
            (written(&line).as_str(), bytes),
            (
                r#"{"message":{"channel":"lights","payload":{  "b": 1.50,   "a": 9007199254740993}}}"#,
                pretty.len()
            )
        );
        assert_eq!(super::order(written(&line).as_bytes()), Some(Order::Message(line.clone())));
        let (line, _) = MessageLine::first("lights", true, Some(Duration::from_micros(1_500)), b"\xffno");
        assert_eq!(written(&line), r#"{"message":{"channel":"lights","age_ms":1.5,"base64":"/25v"}}"#);

        let long = format!("[{}1]", "10,".repeat(2_000)).into_bytes();
        let (mut joined, mut lines) = (Vec::new(), 0);
        loop {
            let (line, bytes) = MessageLine::first(&"\u{1}".repeat(64), true, None, &long[joined.len()..]);
            assert!(super::line(&Order::Message(line.clone())).len() <= LONGEST);
            (lines, joined) = (lines + 1, [joined, line.clone().bytes().unwrap()].concat());
            assert!(bytes > 0);
            if !line.more {
                break;
            }
        }
        assert_eq!((lines, joined), (3, long));
    }

    #[test]
    fn a_device_gives_messages_and_says_where_its_joints_are() {
        let told = said(br#"{"message":{"channel":"battery","payload":{"percent":87.0}}}"#).unwrap();
        let Said::Message(message) = told else { panic!("{told:?}") };
        assert_eq!(message.bytes().unwrap(), br#"{"percent":87.0}"#);
        let told = said(br#"{"measured":{"channel":"arm","joints":{"position_rad":[1]}}}"#);
        assert!(matches!(told, Ok(Said::Motion(MotionOf { motion: MotionLine::Joints(_), .. }))), "{told:?}");
        let error = said(br#"{"message":{"channel":"battery","payloud":1}}"#).unwrap_err();
        assert!(error.contains("payloud") && error.contains("base64"), "{error}");
        assert!(said(br#"{"message":{"channel":"battery"}}"#).is_ok_and(|told| {
            matches!(told, Said::Message(message) if message.clone().bytes().is_err())
        }));
    }
}
