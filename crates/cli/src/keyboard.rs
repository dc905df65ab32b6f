//! `--input keyboard`: keys of the terminal that move the robot while they are held.

use std::io::{self, Stdin};
use std::sync::{Arc, Mutex};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, read};
use rustix::termios::{InputModes, LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use taut_agent::{Alarm, Grip, Rate, RateInput};
use taut_core::{Duration, Time};
use taut_io::device::{Buttons, Pressed};
use taut_io::{Clock, spawn_unprivileged};

use crate::host::lock;

/// Unless another one is named, m/s.
pub(crate) const SPEED: f32 = 0.05;
/// A key that does not repeat for so long is let go: terminals do not say when.
const LAPSE: Duration = Duration::from_millis(150);
/// Of turns, rad/s, and of the gripper, 1/s.
const TURN: f32 = 0.5;
const GRIPPER: f32 = 0.5;

/// What a key does.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Key {
    /// Along x, y, z.
    Move(usize, f32),
    /// About z.
    Turn(f32),
    Gripper(f32),
    Press(Pressed),
}

const KEYS: [(u8, Key); 16] = [
    (b'w', Key::Move(0, 1.0)),
    (b's', Key::Move(0, -1.0)),
    (b'a', Key::Move(1, 1.0)),
    (b'd', Key::Move(1, -1.0)),
    (b'i', Key::Move(2, 1.0)),
    (b'k', Key::Move(2, -1.0)),
    (b'j', Key::Turn(1.0)),
    (b'l', Key::Turn(-1.0)),
    (b'o', Key::Gripper(-1.0)),
    (b'p', Key::Gripper(1.0)),
    (b'e', Key::Press(Pressed::Alarm(Alarm::Pressed))),
    (b' ', Key::Press(Pressed::Alarm(Alarm::Pressed))),
    (ESCAPE, Key::Press(Pressed::Alarm(Alarm::Pressed))),
    (b'c', Key::Press(Pressed::Reset)),
    (b'r', Key::Press(Pressed::Resume)),
    (b'q', Key::Press(Pressed::Quit)),
];

/// Which keys are held. Sans-IO.
#[derive(Debug)]
struct Held {
    speed: f32,
    /// Of each key that moves something: until when it counts as held.
    until: [Time; KEYS.len()],
    /// Until then only a stop counts, for what comes may be the rest of a key that an escape began.
    wary: Time,
    ended: bool,
}

/// The rest of a key comes within so long.
const WARY: Duration = Duration::from_millis(100);
/// Begins the bytes of a key that is no letter, and is the one byte of the key Escape.
const ESCAPE: u8 = 0x1b;

/// How many of these bytes, which follow an escape, are of a key that is no letter (ECMA-48, sections 5.4 and 8.3.143; F1 to F5 on Linux'
/// own terminal have one bracket more). Such letters are not pressed. What begins with an escape and an O, as F1 to F4 do, may be Escape and a letter.
fn rest_of_key(bytes: &[u8]) -> Option<usize> {
    match bytes {
        [b'[', b'[', b'A'..=b'E', ..] => Some(3),
        [b'[', rest @ ..] => {
            let end = rest.iter().position(|byte| !(0x20..=0x3f).contains(byte))?;
            (0x40..=0x7e).contains(&rest[end]).then_some(end + 2)
        }
        _ => None,
    }
}

impl Held {
    const fn new(speed: f32) -> Self {
        Self { speed, until: [Time::ZERO; KEYS.len()], wary: Time::ZERO, ended: false }
    }

    /// What was read at once came from the terminal; gives what is pressed. A key that means nothing lets go of all. An escape that does
    /// not begin the whole of another key is the key Escape, without waiting for what may follow: it is a stop, and what follows at once is not
    /// pressed, for a network may have cut an arrow in two.
    fn handle_input(&mut self, now: Time, bytes: &[u8], mut press: impl FnMut(Pressed)) {
        let mut rest = bytes;
        while let Some((byte, after)) = rest.split_first() {
            rest = after;
            if let Some(length) = rest_of_key(after).filter(|_| *byte == ESCAPE) {
                rest = &after[length..];
                self.release();
                continue;
            }
            if *byte == ESCAPE {
                self.wary = now + WARY;
            }
            match KEYS.iter().position(|(key, _)| *key == byte.to_ascii_lowercase()) {
                None => self.release(),
                Some(place) => match KEYS[place].1 {
                    Key::Press(Pressed::Alarm(alarm)) => {
                        self.release();
                        press(Pressed::Alarm(alarm));
                    }
                    _ if now < self.wary => self.release(),
                    Key::Press(pressed) => {
                        self.release();
                        press(pressed);
                    }
                    _ => self.until[place] = now + LAPSE,
                },
            }
        }
    }

    /// There is no keyboard any more.
    fn handle_end(&mut self) {
        self.release();
        self.ended = true;
    }

    const fn release(&mut self) {
        self.until = [Time::ZERO; KEYS.len()];
    }

    fn grip(&self, now: Time) -> Grip {
        if self.ended {
            return Grip::Ended;
        }
        let (mut rate, mut is_held) = (Rate::default(), false);
        for ((_, key), until) in KEYS.iter().zip(&self.until) {
            if *until <= now {
                continue;
            }
            is_held = true;
            match key {
                Key::Move(axis, sign) => rate.linear[*axis] += sign * self.speed,
                Key::Turn(sign) => rate.angular[2] += sign * TURN,
                Key::Gripper(sign) => rate.gripper += sign * GRIPPER,
                Key::Press(_) => {}
            }
        }
        if is_held { Grip::Held(rate) } else { Grip::Released }
    }
}

/// The terminal's keyboard. The terminal is as it was before when this is dropped.
pub(crate) struct Keyboard(Arc<Mutex<Held>>);

impl Keyboard {
    /// Reads keys on a thread of its own; they move that fast, m/s.
    pub(crate) fn start(speed: f32, buttons: Buttons) -> Result<Self, String> {
        take_keys()?;
        let held = Arc::new(Mutex::new(Held::new(speed)));
        let keyboard = Self(held.clone());
        let work = move || {
            let why = read_keys(&io::stdin(), &held, &buttons);
            lock(&held).handle_end();
            buttons.press(Pressed::Alarm(Alarm::Lost));
            crate::say(&format!("STOP, the keyboard is gone: {why}"));
        };
        let thread = spawn_unprivileged("taut keyboard", || (), work);
        thread.map_err(|error| format!("a thread: {error}"))?;
        Ok(keyboard)
    }
}

impl RateInput for Keyboard {
    fn grip(&mut self) -> Grip {
        lock(&self.0).grip(Clock::since_boot())
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        restore();
    }
}

/// As much as a terminal holds.
const READ: usize = 4_096;

/// Until there is nothing more to read; why.
fn read_keys(stdin: &Stdin, held: &Mutex<Held>, buttons: &Buttons) -> String {
    let mut bytes = [0; READ];
    loop {
        let mut ready = [PollFd::new(stdin, PollFlags::IN)];
        let count = match poll(&mut ready, None).and_then(|_| read(stdin, &mut bytes)) {
            Ok(0) => return "standard input has ended".to_owned(),
            Ok(count) => count,
            Err(Errno::INTR | Errno::AGAIN) => continue,
            Err(error) => return io::Error::from(error).to_string(),
        };
        let mut pressed = Vec::new();
        lock(held).handle_input(Clock::since_boot(), &bytes[..count], |press| pressed.push(press));
        pressed.into_iter().for_each(|press| buttons.press(press));
    }
}

/// How the terminal was before its keys were taken one by one.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// From now on each key comes at once and is not shown, and Ctrl-S holds no output up. Ctrl-C and Ctrl-Z go on being signals.
fn take_keys() -> Result<(), String> {
    let stdin = io::stdin();
    let before = tcgetattr(&stdin)
        .map_err(|_| "--input keyboard: standard input is no terminal, which has the keys; without one there is --input demo, and taut demo --script".to_owned())?;
    let mut keys = before.clone();
    keys.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
    keys.input_modes -= InputModes::IXON;
    *lock(&BEFORE) = Some(before);
    tcsetattr(&stdin, OptionalActions::Now, &keys).map_err(|error| format!("the terminal: {error}"))
}

/// The terminal as it was before, where keys were taken from it. It may be called again, by whoever ends this process.
pub(crate) fn restore() {
    // Who holds it is about to do the same.
    let Ok(mut before) = BEFORE.try_lock() else { return };
    if let Some(before) = before.take() {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &before); // A terminal that is gone needs no restoring.
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    fn press(held: &mut Held, ms: u64, keys: &str) -> Vec<Pressed> {
        let mut pressed = Vec::new();
        held.handle_input(at(ms), keys.as_bytes(), |press| pressed.push(press));
        pressed
    }

    #[test]
    fn a_key_moves_while_it_repeats_and_lapses_when_it_does_not() {
        let mut held = Held::new(0.1);
        assert_eq!(held.grip(at(0)), Grip::Released);
        press(&mut held, 1_000, "w");
        press(&mut held, 1_100, "W");
        press(&mut held, 1_100, "d");
        let rate = Rate { linear: [0.1, -0.1, 0.0], ..Rate::default() };
        assert_eq!((held.grip(at(1_249)), held.grip(at(1_250))), (Grip::Held(rate), Grip::Released));
    }

    #[test]
    fn a_button_or_a_key_that_means_nothing_lets_go_and_an_end_is_one() {
        let mut held = Held::new(0.1);
        press(&mut held, 1_000, "wj");
        assert_eq!(press(&mut held, 1_001, "ec"), [Pressed::Alarm(Alarm::Pressed), Pressed::Reset]);
        assert_eq!(held.grip(at(1_001)), Grip::Released);
        press(&mut held, 1_002, "w");
        assert_eq!(press(&mut held, 1_003, "\u{1b}[C\u{1b}[1;5A"), [], "arrows are no letters");
        assert_eq!(held.grip(at(1_003)), Grip::Released);
        assert_eq!(press(&mut held, 1_003, "\u{1b}[[A\u{1b}[15~"), [], "function keys neither");
        assert_eq!(held.grip(at(1_003)), Grip::Released);
        assert_eq!(press(&mut held, 1_004, "rq"), [Pressed::Resume, Pressed::Quit]);
        press(&mut held, 1_005, "p");
        held.handle_end();
        assert_eq!(held.grip(at(1_005)), Grip::Ended);
    }

    #[test]
    fn escape_stops_at_once_whatever_comes_with_it_or_after_it() {
        let stop = Pressed::Alarm(Alarm::Pressed);
        for (keys, pressed) in [
            ("\u{1b}", vec![stop]),
            ("w\u{1b}", vec![stop]),
            ("\u{1b}\u{1b}", vec![stop, stop]),
            ("\u{1b}r", vec![stop]),
            ("\u{1b}w", vec![stop]),
            ("\u{1b}OC", vec![stop]),
            ("\u{1b}OQ", vec![stop]),
            ("\u{1b}[1;", vec![stop]),
            ("\u{1b}\u{1b}[A", vec![stop]),
        ] {
            let mut held = Held::new(0.1);
            assert_eq!(press(&mut held, 1_000, keys), pressed, "{keys:?}");
            assert_eq!(held.grip(at(1_000)), Grip::Released, "{keys:?}");
        }
    }

    #[test]
    fn the_rest_of_a_key_that_a_network_cut_in_two_is_not_pressed() {
        let stop = Pressed::Alarm(Alarm::Pressed);
        for rest in ["[C", "[A", "OR", "OQ", "r", "q"] {
            let mut held = Held::new(0.1);
            assert_eq!(press(&mut held, 1_000, "\u{1b}"), [stop]);
            assert_eq!(press(&mut held, 1_030, rest), [], "{rest:?}");
            assert_eq!(held.grip(at(1_030)), Grip::Released, "{rest:?}");
            assert_eq!(press(&mut held, 1_031, "e"), [stop], "a stop is one at any time");
            assert_eq!(press(&mut held, 1_200, "c"), [Pressed::Reset]);
        }
    }
}
