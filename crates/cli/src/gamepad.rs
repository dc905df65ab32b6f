//! `--input gamepad` and `--input spacemouse`: sticks, or a cap, that move the robot while a button, the clutch, is held. What they do is in a file.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde::Deserialize;
use taut_agent::{Alarm, Grip, Rate, RateInput};
use taut_core::{Duration, Time, printable};
use taut_io::device::evdev::{AxisInfo, InputDevice, InputEvent};
use taut_io::device::spacemouse::{self, SpaceMouse};
use taut_io::device::{Buttons, Pressed};
use taut_io::{Clock, spawn_unprivileged};

use crate::host::lock;

/// What is held in the hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Model {
    Gamepad,
    SpaceMouse,
}

impl Model {
    /// What it does unless a file says something else.
    const fn default_mapping(self) -> &'static str {
        match self {
            Self::Gamepad => include_str!("gamepad.toml"),
            Self::SpaceMouse => include_str!("spacemouse.toml"),
        }
    }

    /// So long it may say nothing while it moves the robot: one whose radio or battery is gone says no more that it was let go. A cap that is
    /// pushed reports some hundred times a second; a stick that is held reports when it moves, and no hand is still for long.
    const fn silence(self) -> Duration {
        match self {
            Self::Gamepad => Duration::from_secs(5),
            Self::SpaceMouse => Duration::from_millis(150),
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Gamepad => "gamepad",
            Self::SpaceMouse => "SpaceMouse",
        }
    }
}

/// What it does; from the file of this name, or as it is by default.
pub(crate) fn mapping(model: Model, file: Option<&str>) -> Result<Mapping, String> {
    let Some(file) = file else { return Mapping::parse(model.default_mapping()) };
    let text = fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
    Mapping::parse(&text).map_err(|why| format!("{file}: {why}"))
}

/// The file, as it is written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mapping {
    device: Option<PathBuf>,
    #[serde(default)]
    frame: Frame,
    clutch: Button,
    #[serde(default)]
    dead_zone: f32,
    axes: BTreeMap<Motion, Stick>,
    #[serde(default)]
    buttons: BTreeMap<Press, Button>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Frame {
    #[default]
    Base,
    Hand,
}

/// What moves.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "snake_case")]
enum Motion {
    X,
    Y,
    Z,
    Roll,
    Pitch,
    Yaw,
    Gripper,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stick {
    axis: Axis,
    speed: f32,
    /// Does it rest at its least value, and not in its middle? By default `GAS` and `BRAKE` do.
    trigger: Option<bool>,
}

impl Stick {
    fn is_trigger(&self) -> bool {
        self.trigger.unwrap_or(TRIGGERS.contains(&self.axis.0))
    }
}

/// What is pressed.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "snake_case")]
enum Press {
    Stop,
    Reset,
    Resume,
    Quit,
}

impl Press {
    const fn pressed(self) -> Pressed {
        match self {
            Self::Stop => Pressed::Alarm(Alarm::Pressed),
            Self::Reset => Pressed::Reset,
            Self::Resume => Pressed::Resume,
            Self::Quit => Pressed::Quit,
        }
    }
}

/// Names of axes and buttons, as of linux/input-event-codes.h without `ABS_` and `BTN_`
/// (<https://docs.kernel.org/input/gamepad.html>).
#[rustfmt::skip]
const AXES: [(&str, u16); 10] = [
    ("X", 0), ("Y", 1), ("Z", 2), ("RX", 3), ("RY", 4), ("RZ", 5), ("GAS", 9), ("BRAKE", 10), ("HAT0X", 16), ("HAT0Y", 17),
];
/// Those that are for a trigger alone; another one may be a trigger's on this pad and a stick's on the next.
const TRIGGERS: [u16; 2] = [9, 10];
#[rustfmt::skip]
const BUTTONS: [(&str, u16); 23] = [
    ("SOUTH", 0x130), ("EAST", 0x131), ("NORTH", 0x133), ("WEST", 0x134), ("TL", 0x136), ("TR", 0x137), ("TL2", 0x138),
    ("TR2", 0x139), ("SELECT", 0x13a), ("START", 0x13b), ("MODE", 0x13c), ("THUMBL", 0x13d), ("THUMBR", 0x13e),
    ("0", 0x100), ("1", 0x101), ("2", 0x102), ("3", 0x103), ("4", 0x104), ("5", 0x105), ("6", 0x106), ("7", 0x107), ("8", 0x108),
    ("9", 0x109),
];

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(try_from = "String")]
struct Axis(u16);

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(try_from = "String")]
struct Button(u16);

fn named(what: &str, names: &[(&str, u16)], text: &str) -> Result<u16, String> {
    let found = names.iter().find(|(name, _)| *name == text).map(|(_, code)| *code);
    found.ok_or_else(|| {
        let all: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
        format!("`{text}` is no {what}; there are {}", all.join(", "))
    })
}

impl TryFrom<String> for Axis {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        named("axis", &AXES, &text).map(Self)
    }
}

impl TryFrom<String> for Button {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        named("button", &BUTTONS, &text).map(Self)
    }
}

impl Mapping {
    fn parse(text: &str) -> Result<Self, String> {
        let mapping: Self = toml::from_str(text).map_err(|error| error.to_string().trim().to_owned())?;
        if !(0.0..=0.9).contains(&mapping.dead_zone) {
            return Err("dead_zone is 0 to 0.9 of a stick's way".to_owned());
        }
        if mapping.axes.values().any(|stick| !stick.speed.is_finite()) {
            return Err("a speed is a number".to_owned());
        }
        if mapping.buttons.values().any(|button| *button == mapping.clutch) {
            return Err("the clutch is a button of its own".to_owned());
        }
        Ok(mapping)
    }
}

const EV_SYN: u16 = 0;
const EV_KEY: u16 = 1;
const EV_ABS: u16 = 3;
const SYN_DROPPED: u16 = 3;
/// Where the system does not tell of an axis.
const AXIS: AxisInfo = AxisInfo { value: 0, minimum: -32_768, maximum: 32_767 };

/// An axis rests in its middle up to here of its way.
const MIDDLE: f32 = 0.2;
/// What is there for so long, while nobody holds the clutch, rests there. A trigger passes its middle.
const RESTS: Duration = Duration::from_millis(200);

/// An axis, and where it is.
#[derive(Clone, Copy, Debug)]
struct Way {
    least: i32,
    largest: i32,
    is_trigger: bool,
    /// It moves nothing before it is known where it rests: what is taken for a stick and is a trigger would drive the robot while nobody touches it.
    counts: bool,
    /// From -1 to 1, a trigger's from 0; `None` before it moved.
    place: Option<f32>,
    /// In its middle since then.
    since: Time,
}

impl Way {
    fn new(is_trigger: bool, info: AxisInfo) -> Self {
        let AxisInfo { value, minimum: least, maximum: largest } = info;
        let mut way = Self { least, largest, is_trigger, counts: true, place: None, since: Time::ZERO };
        way.counts = is_trigger || way.at(value).abs() <= MIDDLE;
        way
    }

    fn at(&self, value: i32) -> f32 {
        let (least, largest, value) = (f64::from(self.least), f64::from(self.largest), f64::from(value));
        let place = (value - least) / (largest - least);
        if self.is_trigger {
            place.clamp(0.0, 1.0) as f32
        } else {
            (2.0 * place - 1.0).clamp(-1.0, 1.0) as f32
        }
    }

    fn is_in_middle(&self) -> bool {
        self.place.is_some_and(|place| place.abs() <= MIDDLE)
    }

    /// Nobody held the clutch until now.
    fn settle(&mut self, now: Time) {
        self.counts |= self.is_in_middle() && now.saturating_since(self.since) >= RESTS;
    }

    fn moves_to(&mut self, now: Time, value: i32) {
        let was_in_middle = self.is_in_middle();
        self.place = Some(self.at(value));
        if !was_in_middle {
            self.since = now;
        }
    }

    /// What counts of where it is.
    fn place(&self) -> f32 {
        self.place.filter(|_| self.counts).unwrap_or(0.0)
    }
}

/// A gamepad, as its events say it is. Sans-IO.
#[derive(Debug)]
struct Pad {
    mapping: Mapping,
    ways: BTreeMap<Axis, Way>,
    /// So long it may say nothing while it moves the robot.
    silence: Duration,
    heard: Time,
    is_held: bool,
    is_lost: bool,
}

impl Pad {
    /// `info`: of an axis, what the system tells of it.
    fn new(mapping: Mapping, silence: Duration, info: impl Fn(u16) -> Option<AxisInfo>) -> Self {
        let way = |stick: &Stick| Way::new(stick.is_trigger(), info(stick.axis.0).unwrap_or(AXIS));
        let ways = mapping.axes.values().map(|stick| (stick.axis, way(stick))).collect();
        Self { mapping, ways, silence, heard: Time::ZERO, is_held: false, is_lost: false }
    }

    /// Those that move nothing yet.
    fn unsettled(&self) -> impl Iterator<Item = &'static str> {
        let unsettled = self.ways.iter().filter(|(_, way)| !way.counts);
        unsettled.filter_map(|(axis, _)| AXES.iter().find(|(_, code)| *code == axis.0).map(|(name, _)| *name))
    }

    /// Something happened on it; what was pressed.
    fn handle_event(&mut self, now: Time, event: InputEvent) -> Option<Pressed> {
        self.heard = now;
        match event.kind {
            // Events were lost, perhaps that the clutch was let go, or that the stop was pressed.
            EV_SYN if event.code == SYN_DROPPED => {
                self.let_go();
                return Some(Pressed::Alarm(Alarm::Lost));
            }
            EV_KEY if event.code == self.mapping.clutch.0 => {
                for way in self.ways.values_mut() {
                    if self.is_held {
                        way.since = now;
                    } else {
                        way.settle(now);
                    }
                }
                self.is_held = event.value != 0;
            }
            EV_KEY if event.value == 1 => {
                let mut buttons = self.mapping.buttons.iter();
                return buttons.find(|(_, button)| button.0 == event.code).map(|(press, _)| press.pressed());
            }
            EV_ABS => {
                if let Some(way) = self.ways.get_mut(&Axis(event.code)) {
                    if !self.is_held {
                        way.settle(now);
                    }
                    way.moves_to(now, event.value);
                }
            }
            _ => {}
        }
        None
    }

    /// The clutch has to be pressed again.
    fn let_go(&mut self) {
        self.is_held = false;
        self.ways.values_mut().for_each(|way| way.place = None);
    }

    /// It is gone.
    fn handle_end(&mut self) {
        (self.is_held, self.is_lost) = (false, true);
    }

    fn grip(&mut self, now: Time) -> Grip {
        let moves = self.is_held && self.ways.values().any(|way| way.place().abs() > self.mapping.dead_zone);
        if moves && now.saturating_since(self.heard) > self.silence {
            self.let_go();
        }
        match (self.is_lost, self.is_held) {
            (true, _) => Grip::Lost,
            (false, true) => Grip::Held(self.rate()),
            (false, false) => Grip::Released,
        }
    }

    fn rate(&self) -> Rate {
        let mut rate = Rate { in_hand: self.mapping.frame == Frame::Hand, ..Rate::default() };
        for (motion, stick) in &self.mapping.axes {
            let place = self.ways.get(&stick.axis).map_or(0.0, Way::place);
            let beyond = (place.abs() - self.mapping.dead_zone).max(0.0) / (1.0 - self.mapping.dead_zone);
            let speed = beyond * place.signum() * stick.speed;
            match motion {
                Motion::X => rate.linear[0] = speed,
                Motion::Y => rate.linear[1] = speed,
                Motion::Z => rate.linear[2] = speed,
                Motion::Roll => rate.angular[0] = speed,
                Motion::Pitch => rate.angular[1] = speed,
                Motion::Yaw => rate.angular[2] = speed,
                Motion::Gripper => rate.gripper = speed,
            }
        }
        rate
    }
}

/// Where its events come from.
enum Device {
    Evdev(InputDevice),
    Hid(SpaceMouse),
}

impl Device {
    fn open(model: Model, path: &Path) -> io::Result<Self> {
        match model {
            Model::Gamepad => InputDevice::open(path).map(Self::Evdev),
            Model::SpaceMouse => SpaceMouse::open(path).map(Self::Hid),
        }
    }

    fn axis(&self, axis: u16) -> Option<AxisInfo> {
        match self {
            Self::Evdev(device) => device.axis(axis),
            Self::Hid(_) => Some(spacemouse::AXIS),
        }
    }

    fn read(&mut self, each: impl FnMut(InputEvent)) -> io::Result<()> {
        match self {
            Self::Evdev(device) => device.read(each),
            Self::Hid(device) => device.read(each),
        }
    }
}

/// A gamepad or a SpaceMouse of this machine.
pub(crate) struct Gamepad {
    pad: Arc<Mutex<Pad>>,
    clock: Clock,
}

impl Gamepad {
    /// Reads it on a thread of its own.
    pub(crate) fn start(model: Model, mapping: &Mapping, buttons: Buttons) -> Result<Self, String> {
        let name = model.name();
        let path = match (&mapping.device, model) {
            (Some(path), _) => path.clone(),
            (None, Model::Gamepad) => first(Path::new("/sys/class/input"))?,
            (None, Model::SpaceMouse) => SpaceMouse::first(Path::new("/sys/class/hidraw"))
                .ok_or("there is no SpaceMouse; `device` in --input spacemouse:FILE names one")?,
        };
        let shown = printable(&path.display().to_string()).to_string();
        let mut device = Device::open(model, &path).map_err(|error| {
            let group = match model {
                Model::Gamepad => "who may read it is in the group `input`",
                Model::SpaceMouse => "a rule of udev says who may read it",
            };
            format!("the {name} {shown}: {error}; {group}")
        })?;
        let pad = Pad::new(mapping.clone(), model.silence(), |axis| device.axis(axis));
        for axis in pad.unsettled() {
            crate::say(&format!(
                "the axis {axis} of the {name} is not in its middle: it moves nothing before it was let go of there; of a trigger the file says `trigger = true`"
            ));
        }
        let pad = Arc::new(Mutex::new(pad));
        let clock = Clock::start();
        let gamepad = Self { pad: pad.clone(), clock };
        let work = move || {
            let why = loop {
                let mut pressed = Vec::new();
                let read = device.read(|event| pressed.extend(lock(&pad).handle_event(clock.now(), event)));
                pressed.into_iter().for_each(|press| buttons.press(press));
                if let Err(error) = read {
                    break error;
                }
            };
            lock(&pad).handle_end();
            buttons.press(Pressed::Alarm(Alarm::Lost));
            crate::say(&format!("STOP, the {name} is gone: {why}"));
        };
        let thread = spawn_unprivileged("taut gamepad", || (), work);
        thread.map_err(|error| format!("a thread: {error}"))?;
        Ok(gamepad)
    }
}

impl RateInput for Gamepad {
    fn grip(&mut self) -> Grip {
        lock(&self.pad).grip(self.clock.now())
    }
}

/// The first input device with the button that all gamepads have, `BTN_SOUTH`.
fn first(inputs: &Path) -> Result<PathBuf, String> {
    let entries =
        fs::read_dir(inputs).map(|entries| entries.flatten().collect()).unwrap_or_else(|_| Vec::new());
    let mut events: Vec<String> =
        entries.iter().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    events.retain(|name| {
        let keys = fs::read_to_string(inputs.join(name).join("device/capabilities/key")).unwrap_or_default();
        name.starts_with("event") && has_key(&keys, 0x130)
    });
    events.sort_by_key(|name| (name.len(), name.clone()));
    let first = events.first().ok_or("there is no gamepad; `device` in --input gamepad:FILE names one")?;
    Ok(Path::new("/dev/input").join(first))
}

/// Is the key among those that the system tells: words of hexadecimal digits, the highest first?
fn has_key(words: &str, key: usize) -> bool {
    let word = words.split_whitespace().rev().nth(key / usize::BITS as usize);
    let word = word.and_then(|word| usize::from_str_radix(word, 16).ok()).unwrap_or(0);
    word >> (key % usize::BITS as usize) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pad() -> Pad {
        // As that of an Xbox controller: Y has its least value in front.
        Pad::new(mapping(Model::Gamepad, None).unwrap(), Model::Gamepad.silence(), |axis| {
            Some(if axis == 17 { AxisInfo { value: 0, minimum: -1, maximum: 1 } } else { AXIS })
        })
    }

    fn event(pad: &mut Pad, kind: u16, code: u16, value: i32) -> Option<Pressed> {
        pad.handle_event(Time::ZERO, InputEvent { kind, code, value })
    }

    #[test]
    fn what_says_nothing_while_it_moves_the_robot_is_let_go() {
        for model in [Model::Gamepad, Model::SpaceMouse] {
            let mapping = mapping(model, None).unwrap();
            let clutch = mapping.clutch.0;
            let mut pad = Pad::new(mapping, model.silence(), |_| Some(spacemouse::AXIS));
            event(&mut pad, EV_KEY, clutch, 1);
            let after = |duration| Time::ZERO + duration;
            assert!(matches!(pad.grip(after(model.silence() * 9)), Grip::Held(_)), "it moves nothing");
            event(&mut pad, EV_ABS, 1, -300);
            assert!(matches!(pad.grip(after(model.silence())), Grip::Held(_)));
            assert_eq!(pad.grip(after(model.silence() + Duration::from_nanos(1))), Grip::Released);
            event(&mut pad, EV_ABS, 1, -300);
            assert_eq!(pad.grip(Time::ZERO), Grip::Released, "the clutch is to be pressed again");
        }
    }

    #[test]
    fn sticks_move_the_robot_while_the_clutch_is_held_and_not_within_the_dead_zone() {
        let mut pad = pad();
        event(&mut pad, EV_ABS, 1, -32_768);
        assert_eq!(pad.grip(Time::ZERO), Grip::Released, "nobody holds the clutch");
        event(&mut pad, EV_KEY, 0x136, 1);
        let Grip::Held(rate) = pad.grip(Time::ZERO) else { panic!("it is held") };
        assert!((rate.linear[0] - 0.1).abs() < 1e-4 && !rate.in_hand, "{rate:?}");
        event(&mut pad, EV_ABS, 1, 3_000);
        event(&mut pad, EV_ABS, 0, 18_350);
        event(&mut pad, EV_ABS, 17, 1);
        let Grip::Held(rate) = pad.grip(Time::ZERO) else { panic!("it is held") };
        assert!(rate.linear[0].abs() < 1e-6, "within the dead zone: {rate:?}");
        assert!((rate.linear[1] + 0.05).abs() < 1e-3 && (rate.gripper - 0.5).abs() < 1e-6, "{rate:?}");
        event(&mut pad, EV_KEY, 0x136, 0);
        assert_eq!(pad.grip(Time::ZERO), Grip::Released);
    }

    #[test]
    fn a_spacemouse_moves_forward_when_its_cap_is_pushed_and_turns_about_what_points_up() {
        let mut pad =
            Pad::new(mapping(Model::SpaceMouse, None).unwrap(), Model::SpaceMouse.silence(), |_| {
                Some(spacemouse::AXIS)
            });
        let mut reader = spacemouse::ReportReader::default();
        let mut pressed = Vec::new();
        // Pushed away from the user by all of its way, and turned to the left by half of it; the left button held, then the right one pressed too.
        for report in [&[3, 1, 0][..], &[1, 0, 0, 0xa2, 0xfe, 0, 0], &[2, 0, 0, 0, 0, 0x51, 0xff], &[3, 3, 0]]
        {
            reader.take(report, |event| pressed.extend(pad.handle_event(Time::ZERO, event)));
        }
        let Grip::Held(rate) = pad.grip(Time::ZERO) else { panic!("it is held") };
        assert!(
            (rate.linear[0] - 0.1).abs() < 1e-6 && rate.linear[1].abs() + rate.linear[2].abs() < 1e-6,
            "{rate:?}"
        );
        assert!(rate.angular[2] > 0.2 && rate.angular[2] < 0.25, "beyond the dead zone: {rate:?}");
        assert_eq!(pressed, [Pressed::Alarm(Alarm::Pressed)]);
    }

    /// The mapping that moves z by this axis, on a pad whose triggers have 0 to 1023 on it, at `value`.
    fn lift(axis: &str, value: i32) -> Pad {
        let mapping = Model::Gamepad.default_mapping();
        let mapping =
            mapping.replace(r#"{ axis = "RY", speed = -0.1 }"#, &format!("{{ axis = {axis}, speed = 0.1 }}"));
        let info = AxisInfo { value, minimum: 0, maximum: 1023 };
        Pad::new(Mapping::parse(&mapping).unwrap(), Model::Gamepad.silence(), move |axis| {
            Some(if [5, 9].contains(&axis) { info } else { AXIS })
        })
    }

    fn lifts(pad: &mut Pad, now: Time) -> f32 {
        let Grip::Held(rate) = pad.grip(now) else { panic!("it is held") };
        rate.linear[2]
    }

    #[test]
    fn a_trigger_that_nobody_touches_moves_nothing() {
        let at = |millis| Time::ZERO + Duration::from_millis(millis);
        let press = |pad: &mut Pad, now, kind, code, value| {
            pad.handle_event(now, InputEvent { kind, code, value });
        };
        // Taken for a stick it would be at an end.
        let mut pad = lift(r#""RZ""#, 0);
        assert_eq!(pad.unsettled().collect::<Vec<_>>(), ["RZ"]);
        press(&mut pad, at(0), EV_ABS, 5, 100);
        press(&mut pad, at(0), EV_KEY, 0x136, 1);
        // Passing its middle is no rest, nor is a rest there while the clutch is held.
        for (now, value) in [(100, 300), (200, 500), (900, 1023), (1_000, 0)] {
            press(&mut pad, at(now), EV_ABS, 5, value);
            assert!(lifts(&mut pad, at(now)).abs() < 1e-6, "{value}");
        }
        press(&mut pad, at(1_100), EV_ABS, 5, 512);
        press(&mut pad, at(2_000), EV_KEY, 0x136, 0);
        press(&mut pad, at(2_100), EV_KEY, 0x136, 1);
        press(&mut pad, at(2_200), EV_ABS, 5, 0);
        assert!(lifts(&mut pad, at(2_200)).abs() < 1e-6);

        // A stick of which the system knows nothing before it moves: it has rested.
        press(&mut pad, at(2_300), EV_KEY, 0x136, 0);
        press(&mut pad, at(2_400), EV_ABS, 5, 512);
        press(&mut pad, at(2_700), EV_KEY, 0x136, 1);
        press(&mut pad, at(2_800), EV_ABS, 5, 1023);
        assert!((lifts(&mut pad, at(2_800)) - 0.1).abs() < 1e-6);

        for axis in [r#""RZ", trigger = true"#, r#""GAS""#] {
            let mut pad = lift(axis, 0);
            let code = if axis.contains("GAS") { 9 } else { 5 };
            press(&mut pad, at(0), EV_KEY, 0x136, 1);
            press(&mut pad, at(0), EV_ABS, code, 1023);
            assert!((lifts(&mut pad, at(0)) - 0.1).abs() < 1e-6, "{axis}");
            press(&mut pad, at(0), EV_ABS, code, 0);
            assert!(lifts(&mut pad, at(0)).abs() < 1e-6, "{axis}");
        }
    }

    #[test]
    fn what_is_lost_is_let_go_and_buttons_are_pressed_once() {
        let mut pad = pad();
        assert_eq!(event(&mut pad, EV_KEY, 0x131, 1), Some(Pressed::Alarm(Alarm::Pressed)));
        assert_eq!(event(&mut pad, EV_KEY, 0x131, 0), None);
        assert_eq!(event(&mut pad, EV_KEY, 0x13b, 1), Some(Pressed::Resume));
        assert_eq!(event(&mut pad, EV_KEY, 0x130, 1), None, "nothing is said of it");
        event(&mut pad, EV_KEY, 0x136, 1);
        assert_eq!(
            event(&mut pad, EV_SYN, SYN_DROPPED, 0),
            Some(Pressed::Alarm(Alarm::Lost)),
            "perhaps it was pressed"
        );
        assert_eq!(pad.grip(Time::ZERO), Grip::Released, "perhaps it was let go");
        event(&mut pad, EV_KEY, 0x136, 1);
        pad.handle_end();
        assert_eq!(pad.grip(Time::ZERO), Grip::Lost);
    }

    #[test]
    fn a_mapping_that_is_wrong_is_said_and_the_one_of_the_documentation_is_the_default() {
        for (from, to, what) in [
            ("\"TL\"", "\"L1\"", "`L1` is no button; there are SOUTH"),
            ("\"RY\"", "\"LY\"", "`LY` is no axis; there are X, Y"),
            ("0.12", "1.0", "dead_zone is 0 to 0.9"),
            ("\"EAST\"", "\"TL\"", "a button of its own"),
            ("stop =", "halt =", "unknown variant `halt`"),
        ] {
            let error = Mapping::parse(&Model::Gamepad.default_mapping().replace(from, to)).unwrap_err();
            assert!(error.contains(what), "{error}");
        }
        for model in [Model::Gamepad, Model::SpaceMouse] {
            let page = include_str!("../../../docs/devices.md");
            assert!(page.contains(model.default_mapping()), "it is what the page shows");
        }
    }

    #[test]
    fn gamepads_are_told_by_their_button() {
        // Of an Xbox controller, and of a keyboard.
        assert!(has_key("7cdb000000000000 0 0 0 0", 0x130));
        assert!(
            !has_key("402000007 ff9f207ac14057ff febeffdfffefffff fffffffffffffffe", 0x130)
                && !has_key("", 0x130)
        );
    }
}
