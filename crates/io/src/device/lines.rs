//! What a device in a process of its own reads and writes: JSON Lines.
//!
//! To it, on its standard input:
//!
//! ```text
//! {"limits":{"position":[[-0.2,-0.2,0],[0.2,0.2,0.3]],"velocity":0.5,"force":20}}
//! {"enable":{}}
//! {"apply":{"position":[0,0,0],"orientation_wxyz":[1,0,0,0],"velocity":[0,0,0],"force":[0,0,0],"gripper":0,"lease_ms":100}}
//! {"stop":"watchdog"}
//! ```
//!
//! From it, on its standard output, `hello` first:
//!
//! ```text
//! {"hello":{"name":"arm","stiffness":3000,"lease":true,"limits_force":true,"real":true}}
//! {"position":[0,0,0],"orientation_wxyz":[1,0,0,0],"velocity":[0,0,0],"force":[0,0,0],"gripper":0,"controller_force":[0,0,0]}
//! {"stopped":"lease"}
//! ```
//!
//! Positions are in m, velocities in m/s, forces in N, stiffness in N/m; a gripper is open at 0 and closed at 65535.
//! [`LONGEST`] bytes are the longest line.

use serde::{Deserialize, Serialize};
use taut_agent::{Measured, SetPoint};
use taut_core::{Duration, Time};
use taut_session::State;

/// Bytes of a line, without what ends it. A longer one is junk.
pub const LONGEST: usize = 2_048;

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
}

/// A line of a device; `None` when it is none.
pub(super) fn said(line: &[u8]) -> Option<Said> {
    Some(match serde_json::from_slice(line).ok()? {
        Report::Hello { hello } => Said::Hello(hello),
        Report::Stopped { stopped } => Said::Stopped(stopped),
        Report::Measurement(measurement) => Said::Measured(measurement.measured()?),
    })
}

/// Cuts bytes into lines of bounded length. Sans-IO.
#[derive(Debug, Default)]
pub struct Splitter {
    line: Vec<u8>,
    /// The present one is too long: its rest is left out.
    overlong: bool,
}

impl Splitter {
    /// Takes bytes, and gives every line that they complete: `None` for one that is longer than [`LONGEST`].
    pub fn take(&mut self, mut bytes: &[u8], mut each: impl FnMut(Option<&[u8]>)) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.keep(&bytes[..end]);
            let line = (!std::mem::take(&mut self.overlong)).then_some(&self.line[..]);
            each(line);
            self.line.clear();
            bytes = &bytes[end + 1..];
        }
        self.keep(bytes);
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.line.len() + bytes.len() > LONGEST {
            self.overlong = true;
        }
        if self.overlong {
            self.line.clear();
        } else {
            self.line.extend_from_slice(bytes);
        }
    }
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
        assert!(said(br#"{"position":[1e39,0,0]}"#).is_none());
        assert!(said(br#"{"position":[0,0,0],"controller_force":[0,0,-1e99]}"#).is_none());
        let order = order(br#"{"apply":{"position":[1e39,0,0],"orientation_wxyz":[1,0,0,0],"velocity":[0,0,0],"force":[0,0,0],"gripper":0,"lease_ms":1}}"#);
        assert!(!matches!(order, Some(Order::Apply(apply)) if apply.point().is_some()));
    }

    #[test]
    fn a_device_says_what_it_is_then_what_it_measures_and_that_it_stopped() {
        let hello = said(
            br#"{"hello":{"name":"arm","stiffness":3000,"lease":true,"limits_force":true,"real":false}}"#,
        );
        assert!(matches!(hello, Some(Said::Hello(Hello { lease: true, real: false, .. }))), "{hello:?}");
        let least = said(br#"{"position":[0.1,0,0]}"#);
        assert!(matches!(least, Some(Said::Measured(Measured { controller_force: None, .. }))), "{least:?}");
        assert_eq!(said(br#"{"stopped":"lease"}"#), Some(Said::Stopped("lease".to_owned())));
        for junk in ["", "hello", "{}", r#"{"position":[0,0]}"#, "[]", "\u{1b}[2J"] {
            assert!(said(junk.as_bytes()).is_none(), "{junk}");
        }
    }

    #[test]
    fn lines_come_whole_however_the_bytes_come_and_a_long_one_is_left_out() {
        let text = format!("one\n{}\n\ntwo\nrest", "x".repeat(LONGEST + 1));
        for piece in [1, 7, 4_096] {
            let (mut splitter, mut lines) = (Splitter::default(), Vec::new());
            for bytes in text.as_bytes().chunks(piece) {
                splitter.take(bytes, |line| lines.push(line.map(<[u8]>::to_vec)));
            }
            let expected = [Some(b"one".to_vec()), None, Some(Vec::new()), Some(b"two".to_vec())];
            assert_eq!(lines, expected, "pieces of {piece}");
        }
    }
}
