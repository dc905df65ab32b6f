//! What the operator's device measures: a simulated hand, or a recording.

use std::collections::{BTreeMap, BTreeSet};
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

/// Of the simulated hand, where none is said.
const SEED: Seed = Seed::new(1);

impl FromStr for Input {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(program) = Program::parse(text, Group::Inputs) {
            return program.map(Self::Process);
        }
        let held = |model, file| mapping(model, file).map(|mapping| Self::Gamepad(model, mapping));
        match text.split_once(':') {
            None if text == "demo" => Ok(Self::Demo(SEED)),
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
    /// What it is where nothing else is said: the simulated hand.
    #[cfg(feature = "console")]
    pub(crate) fn is_default(&self) -> bool {
        matches!(self, Self::Demo(seed) if *seed == SEED)
    }

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
        let of_traces = [("--columns", !columns.is_empty()), ("--repeat", repeats)];
        let given = of_traces.into_iter().find(|(_, is_given)| *is_given);
        if let Some((option, _)) = given.filter(|_| !matches!(self, Self::Trace(_))) {
            return Err(format!("{option} is for --input trace:FILE"));
        }
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
        let recorded = Recorded::read(file, period, columns)?;
        let rows = 0..recorded.signals.len();
        let state = move |row| State { priority, ..recorded.state(row) };
        Ok(Some(if repeats {
            Box::new(Playback::new(rows.cycle().map(state)))
        } else {
            Box::new(Playback::new(rows.map(state)))
        }))
    }
}

/// A recording, one row a period, and what of it is a state.
struct Recorded {
    signals: Signals,
    columns: Columns,
}

/// Columns of a recording: along x, y and z, each of which may be missing.
#[derive(Clone, Copy, Debug, Default)]
struct Columns {
    position: [Option<Column>; 3],
    velocity: [Option<Column>; 3],
    orientation_wxyz: Option<[Column; 4]>,
}

impl Columns {
    /// In the order of the table.
    fn channels(&self) -> Vec<usize> {
        let along = self.position.into_iter().chain(self.velocity).flatten();
        let all = along.chain(self.orientation_wxyz.into_iter().flatten());
        let channels: BTreeSet<usize> = all.map(|column| column.channel).collect();
        channels.into_iter().collect()
    }
}

/// Which channel, and what a value of it is of the unit that states have.
#[derive(Clone, Copy, Debug)]
struct Column {
    channel: usize,
    scale: f64,
}

const AXES: [&str; 3] = ["x", "y", "z"];
/// What a quantity may be in, and what that is of the first; without a unit it is in the first.
type Units = &'static [(&'static str, f64)];
const POSITION: Units = &[("m", 1.0), ("mm", 1e-3)];
const VELOCITY: Units = &[("m/s", 1.0)];
/// Of a quaternion a part.
const PART: Units = &[("1", 1.0)];

impl Column {
    fn new(signals: &Signals, channel: usize, units: Units) -> Result<Self, String> {
        let told = &signals.channels()[channel];
        let unit = told.unit().unwrap_or(units[0].0);
        let scale = units.iter().find(|(known, _)| *known == unit).map(|(_, scale)| *scale);
        let scale = scale.ok_or_else(|| {
            let known: Vec<&str> = units.iter().map(|(known, _)| *known).collect();
            format!("{} is in {unit}: it has to be in {}", told.column(), known.join(" or "))
        })?;
        Ok(Self { channel, scale })
    }
}

impl Recorded {
    fn read(file: &str, period: Duration, channels: &[String]) -> Result<Self, String> {
        let of = |signals: &Signals| {
            if channels.is_empty() { guessed(signals) } else { named(signals, channels).map(Some) }
        };
        let wanted = |names: &[&str]| {
            let columns = of(&Signals::new(0, names.iter().copied())).ok().flatten();
            columns.map_or_else(Vec::new, |columns| columns.channels())
        };
        let recording = taut_trace::read_columns(file.as_ref(), &wanted).map_err(|e| e.to_string())?;
        let kind = recording.data().kind();
        let Data::Signals(signals) = recording.into_data() else {
            return Err(format!("{file}: holds {kind}; a CSV or MCAP recording of signals is needed"));
        };
        let signals = signals.resample(period).map_err(|e| format!("{file}: {e}"))?;
        let columns = of(&signals).map_err(|e| format!("{file}: {e}"))?.ok_or_else(|| {
            format!(
                "{file}: which columns are x, y and z? Name them by --columns; there are {}",
                known(&signals)
            )
        })?;
        Ok(Self { signals, columns })
    }

    fn state(&self, row: usize) -> State {
        let at = |Column { channel, scale }| (self.signals.channels()[channel].values()[row] * scale) as f32;
        let along = |columns: [Option<Column>; 3]| columns.map(|column| column.map_or(0.0, at));
        State {
            position: along(self.columns.position),
            velocity: along(self.columns.velocity),
            orientation_wxyz: self
                .columns
                .orientation_wxyz
                .map_or([1.0, 0.0, 0.0, 0.0], |parts| parts.map(at)),
            ..State::at(Time::ZERO)
        }
    }
}

fn known(signals: &Signals) -> String {
    let names: Vec<_> = signals.channels().iter().map(taut_trace::Channel::column).collect();
    names.join(", ")
}

/// One to three positions, or three positions and three velocities.
fn named(signals: &Signals, channels: &[String]) -> Result<Columns, String> {
    if channels.len() > 3 && channels.len() != 6 {
        return Err("--columns takes one to three positions, or three positions and three velocities".into());
    }
    let find = |index: usize, units| {
        let Some(name) = channels.get(index) else { return Ok(None) };
        let channel = signals.position(name);
        let channel =
            channel.ok_or_else(|| format!("has no channel `{name}`; there are {}", known(signals)))?;
        Column::new(signals, channel, units).map(Some)
    };
    let mut columns = Columns::default();
    for axis in 0..AXES.len() {
        columns.position[axis] = find(axis, POSITION)?;
        columns.velocity[axis] = find(3 + axis, VELOCITY)?;
    }
    Ok(columns)
}

/// By the names that recordings of ROS and of devices have: `pose.position.x`, `leader_position_x_m`, `position_x`.
/// All are of one device.
fn guessed(signals: &Signals) -> Result<Option<Columns>, String> {
    let Some(device) = device(signals)? else { return Ok(None) };
    let of = |quantity: &str, part: &str, units| {
        let name = format!("{device}{quantity}_{part}");
        let found = signals.channels().iter().position(|channel| plain(channel.name()) == name);
        found.map(|channel| Column::new(signals, channel, units)).transpose()
    };
    let mut columns = Columns::default();
    for (axis, part) in AXES.into_iter().enumerate() {
        columns.position[axis] = of("position", part, POSITION)?;
        columns.velocity[axis] = of("velocity", part, VELOCITY)?;
    }
    let part = |part| of("orientation", part, PART);
    if let (Some(w), Some(x), Some(y), Some(z)) = (part("w")?, part("x")?, part("y")?, part("z")?) {
        columns.orientation_wxyz = Some([w, x, y, z]);
    }
    Ok(Some(columns))
}

/// How the names of the one device begin that has a position; a session's recording has the robot's beside the
/// operator's.
fn device(signals: &Signals) -> Result<Option<String>, String> {
    let begin = |name: &str| {
        let name = plain(name);
        AXES.iter().find_map(|axis| name.strip_suffix(&format!("position_{axis}")).map(str::to_owned))
    };
    let all = signals.channels().iter().filter_map(|channel| Some((begin(channel.name())?, channel)));
    let all: BTreeMap<String, Vec<&str>> = all.fold(BTreeMap::new(), |mut all, (device, channel)| {
        all.entry(device).or_default().push(channel.column());
        all
    });
    let operators: Vec<&String> = all.keys().filter(|device| device.ends_with("operator_state_")).collect();
    match (&operators[..], all.len()) {
        ([operator], _) => Ok(Some((*operator).clone())),
        (_, 0 | 1) => Ok(all.into_keys().next()),
        _ => Err(format!(
            "has positions of more than one device: {}; name those to play by --columns",
            all.into_values().flatten().collect::<Vec<_>>().join(", ")
        )),
    }
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

    /// Position and velocity of the first row, as they are said to the robot, in whole mm and mm/s.
    fn first(text: &str) -> Option<[[i32; 3]; 2]> {
        let signals = signals(text);
        let columns = guessed(&signals).unwrap()?;
        let state = Recorded { signals, columns }.state(0);
        Some([state.position, state.velocity].map(|along| along.map(|value| (value * 1e3).round() as i32)))
    }

    #[test]
    fn channels_are_found_by_the_names_that_recordings_have() {
        let ros = first("time_s,pose.position.x,pose.position.y,pose.position.z\n0,1,2,3\n").unwrap();
        assert_eq!(ros[0], [1_000, 2_000, 3_000]);
        let own = first("time_s,robot_state_position_x_m,operator_state_position_x_m\n0,1,2\n").unwrap();
        assert_eq!(own[0], [2_000, 0, 0]);
        let csv = first("time_s,leader_position_x_m,leader_velocity_x_m_s\n0,1,2\n").unwrap();
        assert_eq!(csv, [[1_000, 0, 0], [2_000, 0, 0]]);
        assert!(first("time_s,torque_nm\n0,1\n").is_none());
    }

    #[test]
    fn columns_of_two_devices_are_refused_and_never_mixed() {
        for (names, listed) in [
            ("left_position_x,right_position_x", "left_position_x, right_position_x"),
            ("left_position_x_m,right_position_y_m", "left_position_x_m, right_position_y_m"),
        ] {
            let error = guessed(&signals(&format!("time_s,{names}\n0,1,2\n"))).unwrap_err();
            let expected =
                format!("has positions of more than one device: {listed}; name those to play by --columns");
            assert_eq!(error, expected);
        }
        let other = first("time_s,left_position_x,right_velocity_x\n0,1,2\n").unwrap();
        assert_eq!(other, [[1_000, 0, 0], [0, 0, 0]]);
    }

    #[test]
    fn millimetres_are_made_metres_and_what_is_no_length_is_refused() {
        let text = "time_s,leader_position_x_mm,leader_position_y_m\n0,300,0.2\n";
        assert_eq!(first(text).unwrap()[0], [300, 200, 0]);
        let angle = signals("time_s,joint_position_x_rad,joint_velocity_y_rad_s\n0,1,2\n");
        let refused = "joint_position_x_rad is in rad: it has to be in m or mm";
        assert_eq!(guessed(&angle).unwrap_err(), refused);
        let by_name =
            |names: &[&str]| named(&angle, &names.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(by_name(&["joint_position_x"]).unwrap_err(), refused);
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
