//! What the operator's device measures: a simulated hand, or a recording.

use std::str::FromStr;

use taut_agent::{OperatorDevice, Playback, Relative};
use taut_core::{Duration, Seed, Time};
use taut_io::device::Buttons;
use taut_lab::hand::SimulatedHand;
use taut_session::{Priority, State};
use taut_trace::{Data, Signals};

use crate::device::{FORMS, Group, Program};
use crate::gamepad::{Gamepad, Mapping, Model, mapping};
use crate::keyboard::{self, Keyboard};

/// `demo`, `demo:SEED`, `trace:FILE`, `keyboard`, `gamepad`, `spacemouse`, `so101:PORT`, `exec:PROGRAM`, `python:MODULE:CLASS` or `lines`.
#[derive(Clone, Debug)]
pub(crate) enum Input {
    Demo(Seed),
    Trace(String),
    /// Keys of the terminal, and how fast they move, m/s.
    Keyboard(f32),
    /// A gamepad or a SpaceMouse, by what its axes and buttons do.
    Gamepad(Model, Mapping),
    /// A program.
    Process(Program),
    /// Lines on standard input.
    Lines,
}

impl FromStr for Input {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(program) = Program::parse(text, Group::Inputs) {
            return program.map(Self::Process);
        }
        let held = |model, file| mapping(model, file).map(|mapping| Self::Gamepad(model, mapping));
        match text.split_once(':') {
            None if text == "demo" => Ok(Self::Demo(Seed::new(1))),
            Some(("demo", seed)) => {
                let seed = seed.parse().map_err(|_| format!("`{seed}` is not a seed; write demo:7"))?;
                Ok(Self::Demo(Seed::new(seed)))
            }
            None if text == "gamepad" => held(Model::Gamepad, None),
            Some(("gamepad", file)) if !file.is_empty() => held(Model::Gamepad, Some(file)),
            None if text == "spacemouse" => held(Model::SpaceMouse, None),
            Some(("spacemouse", file)) if !file.is_empty() => held(Model::SpaceMouse, Some(file)),
            None if text == "keyboard" => Ok(Self::Keyboard(keyboard::SPEED)),
            Some(("keyboard", speed)) => match speed.parse() {
                Ok(speed) if (0.001..=10.0).contains(&speed) => Ok(Self::Keyboard(speed)),
                _ => Err(format!("`{speed}` is no speed from 0.001 to 10 m/s; write keyboard:0.05")),
            },
            Some(("trace", file)) if !file.is_empty() => Ok(Self::Trace(file.to_owned())),
            None if text == "lines" => Ok(Self::Lines),
            _ => Err(format!(
                "`{text}` is no input; write demo, demo:SEED, trace:FILE, keyboard, gamepad, spacemouse, lines, {FORMS}"
            )),
        }
    }
}

/// The device's samples, one a period.
pub(crate) type Device = Box<dyn OperatorDevice + Send>;

impl Input {
    /// Are there lines on standard input?
    pub(crate) const fn reads_stdin(&self) -> bool {
        matches!(self, Self::Lines)
    }

    /// Does it take standard input for itself?
    pub(crate) const fn is_keyboard(&self) -> bool {
        matches!(self, Self::Keyboard(_))
    }

    /// The device, if it is not lines; what is pressed on it goes to `buttons`; its recording is over after one lap unless it `repeats`. `columns` names those of x, y, z, and
    /// of the velocity along them, where the recording's own names do not tell. The simulated hand `turns` what it moves along x otherwise.
    pub(crate) fn open(
        &self,
        period: Duration,
        columns: &[String],
        repeats: bool,
        priority: Priority,
        buttons: &Buttons,
        turns: bool,
    ) -> Result<Option<Device>, String> {
        let file = match self {
            Self::Demo(seed) => {
                let hand = SimulatedHand::new(*seed, period).priority(priority);
                return Ok(Some(Box::new(if turns { hand.turning() } else { hand })));
            }
            Self::Keyboard(speed) => {
                let keyboard = Keyboard::start(*speed, buttons.clone())?;
                return Ok(Some(Box::new(Relative::new(keyboard, priority))));
            }
            Self::Gamepad(model, mapping) => {
                let gamepad = Gamepad::start(*model, mapping, buttons.clone())?;
                return Ok(Some(Box::new(Relative::new(gamepad, priority))));
            }
            Self::Trace(file) => file,
            Self::Process(_) | Self::Lines => return Ok(None),
        };
        let states = recorded(file, period, columns)?.into_iter();
        let urgent = move |state| State { priority, ..state };
        Ok(Some(if repeats {
            Box::new(Playback::new(states.cycle().map(urgent)))
        } else {
            Box::new(Playback::new(states.map(urgent)))
        }))
    }
}

/// Columns of a recording: along x, y and z, each of which may be missing.
#[derive(Clone, Copy, Debug, Default)]
struct Columns<'a> {
    position: [Option<&'a [f64]>; 3],
    velocity: [Option<&'a [f64]>; 3],
    orientation_wxyz: Option<[&'a [f64]; 4]>,
}

const AXES: [&str; 3] = ["x", "y", "z"];

fn recorded(file: &str, period: Duration, channels: &[String]) -> Result<Vec<State>, String> {
    let recording = taut_trace::read(file.as_ref()).map_err(|e| e.to_string())?;
    let kind = recording.data().kind();
    let Data::Signals(signals) = recording.into_data() else {
        return Err(format!("{file}: holds {kind}; a CSV or MCAP recording of signals is needed"));
    };
    let signals = signals.resample(period).map_err(|e| format!("{file}: {e}"))?;
    let columns = if channels.is_empty() {
        guessed(&signals).ok_or_else(|| {
            format!(
                "{file}: which columns are x, y and z? Name them by --columns; there are {}",
                known(&signals)
            )
        })?
    } else {
        named(&signals, channels).map_err(|e| format!("{file}: {e}"))?
    };
    let at = |column: Option<&[f64]>, row: usize| column.map_or(0.0, |values| values[row] as f32);
    let state = |row: usize| State {
        position: columns.position.map(|column| at(column, row)),
        velocity: columns.velocity.map(|column| at(column, row)),
        orientation_wxyz: match columns.orientation_wxyz {
            Some(columns) => columns.map(|values| values[row] as f32),
            None => [1.0, 0.0, 0.0, 0.0],
        },
        ..State::at(Time::ZERO)
    };
    Ok((0..signals.len()).map(state).collect())
}

fn known(signals: &Signals) -> String {
    let names: Vec<_> = signals.channels().iter().map(taut_trace::Channel::column).collect();
    names.join(", ")
}

/// One to three positions, or three positions and three velocities.
fn named<'a>(signals: &'a Signals, channels: &[String]) -> Result<Columns<'a>, String> {
    if channels.len() > 3 && channels.len() != 6 {
        return Err("--columns takes one to three positions, or three positions and three velocities".into());
    }
    let find = |name: &String| {
        let channel = signals.channel(name);
        let channel =
            channel.ok_or_else(|| format!("has no channel `{name}`; there are {}", known(signals)))?;
        Ok(channel.values())
    };
    let found: Vec<&[f64]> = channels.iter().map(find).collect::<Result<_, String>>()?;
    let column = |index: usize| found.get(index).copied();
    Ok(Columns {
        position: std::array::from_fn(column),
        velocity: std::array::from_fn(|axis| column(3 + axis)),
        orientation_wxyz: None,
    })
}

/// By the names that recordings of ROS and of devices have: `pose.position.x`, `leader_position_x_m`, `position_x`.
fn guessed(signals: &Signals) -> Option<Columns<'_>> {
    let of = |quantity: &str, part: &str| {
        // A session's recording has the robot's beside the operator's.
        let mut found = ["operator_state_", ""].iter().filter_map(|begin| {
            let ending = format!("{begin}{quantity}_{part}");
            let fits = |channel: &&taut_trace::Channel| plain(channel.name()).ends_with(&ending);
            signals.channels().iter().find(fits).map(taut_trace::Channel::values)
        });
        found.next()
    };
    let along = |quantity: &str| AXES.map(|axis| of(quantity, axis));
    let position = along("position");
    if position.iter().all(Option::is_none) {
        return None;
    }
    let orientation = ["w", "x", "y", "z"].map(|part| of("orientation", part));
    let orientation_wxyz = match orientation {
        [Some(w), Some(x), Some(y), Some(z)] => Some([w, x, y, z]),
        _ => None,
    };
    Some(Columns { position, velocity: along("velocity"), orientation_wxyz })
}

/// Small letters, and an underscore for whatever separates.
fn plain(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    name.chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signals(text: &str) -> Signals {
        match taut_trace::read_bytes("t.csv", text.as_bytes()).unwrap().into_data() {
            Data::Signals(signals) => signals,
            other => panic!("{}", other.kind()),
        }
    }

    #[test]
    fn channels_are_found_by_the_names_that_recordings_have() {
        let ros = signals("time_s,pose.position.x,pose.position.y,pose.position.z\n0,1,2,3\n");
        let columns = guessed(&ros).unwrap();
        assert_eq!(
            columns.position.map(|column| column.unwrap()[0].to_bits()),
            [1.0f64, 2.0, 3.0].map(f64::to_bits)
        );
        let own = signals("time_s,robot_state_position_x_m,operator_state_position_x_m\n0,1,2\n");
        assert_eq!(guessed(&own).unwrap().position[0].unwrap(), [2.0]);
        let csv = signals("time_s,leader_position_x_m,leader_velocity_x_m_s\n0,1,2\n");
        let columns = guessed(&csv).unwrap();
        assert_eq!(columns.position[0].unwrap(), [1.0]);
        assert!(columns.position[1].is_none());
        assert!(guessed(&signals("time_s,torque_nm\n0,1\n")).is_none());
    }

    #[test]
    fn inputs_are_written_in_one_of_three_ways() {
        assert!(matches!("demo:7".parse(), Ok(Input::Demo(seed)) if seed == Seed::new(7)));
        assert!(matches!("trace:a:b.mcap".parse(), Ok(Input::Trace(file)) if file == "a:b.mcap"));
        assert!(matches!("keyboard:0.2".parse(), Ok(Input::Keyboard(speed)) if (speed - 0.2).abs() < 1e-6));
        assert!("keyboard:fast".parse::<Input>().unwrap_err().contains("keyboard:0.05"));
        assert!("trace:".parse::<Input>().unwrap_err().contains("trace:FILE"));
    }
}
