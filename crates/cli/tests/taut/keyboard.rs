//! `--input keyboard` on a terminal: what its keys do, and that the terminal is as it was afterwards.

use std::process::Command;

use crate::devices::has_python;
use crate::sessions::{Running, beside_others};
use crate::world::{World, ended};

/// A person at a terminal of their own: presses r until the robot may have moved, holds w, then ends by q or a signal. Prints what is left of
/// the terminal's modes.
pub(crate) const PERSON: &str = r#"
import os, pty, signal, subprocess, sys, termios, time
how, *command = sys.argv[1:]
ours, theirs = pty.openpty()
before = termios.tcgetattr(theirs)
operator = subprocess.Popen(command, stdin=theirs, stdout=open("operator", "w"), stderr=open("said", "w"))
end = time.monotonic() + 30
while termios.tcgetattr(theirs) == before:
    assert time.monotonic() < end and operator.poll() is None, "its keys are not taken"
    time.sleep(0.01)
keys = termios.tcgetattr(theirs)[3]
assert not keys & (termios.ICANON | termios.ECHO) and keys & termios.ISIG
for _ in range(100):
    os.write(ours, b"r")
    time.sleep(0.01)
for _ in range(30):
    os.write(ours, b"w")
    time.sleep(0.05)
if how == "q":
    os.write(ours, b"q")
elif how == "ctrl-c":
    os.write(ours, b"\x03")
    os.kill(operator.pid, signal.SIGINT)
elif how == "kill twice":
    operator.send_signal(signal.SIGTERM)
    operator.send_signal(signal.SIGTERM)
operator.wait(30)
assert termios.tcgetattr(theirs) == before, "the terminal is not as it was"
print("as it was")
"#;

#[test]
fn keys_move_the_robot_from_where_it_is_and_the_terminal_is_as_it_was_whatever_ends_it() {
    let _beside = beside_others();
    if !has_python() {
        return;
    }
    let world = World::new("keyboard");
    world.write("person.py", PERSON);
    let identity = |who: &str| world.taut(&format!("identity --path {who}")).out.trim().to_owned();
    let (robot_id, one) = (identity("robot"), identity("one"));
    let mut robot = Running::start(world.command(&format!(
        "robot --listen 127.0.0.1:0 --transport udp --identity robot --trust {one} --watchdog 2s --robot sim:free --every 50ms --json"
    )));
    let listening = robot.wait_for("listening");
    let operator = format!(
        "operator --connect {} --robot-id {robot_id} --transport udp --identity one --input keyboard:0.2 --json",
        listening["address"].as_str().unwrap()
    );
    for how in ["q", "ctrl-c", "kill twice"] {
        let mut person = Command::new("python3");
        let taut = env!("CARGO_BIN_EXE_taut");
        person.current_dir(world.path("")).args(["person.py", how, taut]).args(operator.split(' '));
        person.env("XDG_STATE_HOME", world.path("state"));
        let person = ended(person.output().unwrap());
        assert_eq!((person.status, person.out.trim()), (0, "as it was"), "{how}: {person:?}");
        robot.wait_for("enabled");
        let moved =
            robot.find(|line| line["event"] == "device" && line["speed_max_mps"].as_f64() > Some(0.05));
        let speed = moved.unwrap_or_else(|| panic!("{how}: it did not move"))["speed_max_mps"].clone();
        println!("{how}: moved with {speed} m/s at most");
        // A jump would be faster than the keys.
        assert!(speed.as_f64() < Some(0.5), "{how}: {speed}");
    }
    let refused = world.taut(&format!("{operator} --commands"));
    assert!(refused.status == 2 && refused.err.contains("needs standard input for itself"), "{refused:?}");
    let refused = world.taut(&operator);
    assert!(refused.status == 2 && refused.err.contains("is no terminal"), "{refused:?}");
}
