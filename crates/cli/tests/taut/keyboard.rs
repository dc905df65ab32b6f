//! `--input keyboard` on a terminal: what its keys do, what is shown meanwhile, and that the terminal is as it was afterwards.

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

/// A robot, and the command that drives it by keys.
fn robot_for(world: &World) -> (Running, String) {
    let identity = |who: &str| world.taut(&format!("identity --path {who}")).out.trim().to_owned();
    let (robot_id, one) = (identity("robot"), identity("one"));
    let mut robot = Running::start(world.command(&format!(
        "robot --listen 127.0.0.1:0 --transport udp --identity robot --trust {one} --watchdog 2s --robot sim:free --every 50ms --json"
    )));
    let listening = robot.wait_for("listening");
    let operator = format!(
        "operator --connect {} --robot-id {robot_id} --transport udp --identity one --input keyboard:0.2",
        listening["address"].as_str().unwrap()
    );
    (robot, operator)
}

#[test]
fn keys_move_the_robot_from_where_it_is_and_the_terminal_is_as_it_was_whatever_ends_it() {
    let _beside = beside_others();
    if !has_python() {
        return;
    }
    let world = World::new("keyboard");
    world.write("person.py", PERSON);
    let (mut robot, operator) = robot_for(&world);
    let operator = format!("{operator} --json");
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

/// A person at a terminal who presses Ctrl-C while a server of names that says nothing is asked for the robot's. In
/// namespaces of its own, as root.
const SEARCHER: &str = r#"
import os, pty, signal, socket, subprocess, sys, termios, time
silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
silent.bind(("127.0.0.1", 53))
ours, theirs = pty.openpty()
before = termios.tcgetattr(theirs)
operator = subprocess.Popen(sys.argv[1:], stdin=theirs, stdout=open("operator", "w"), stderr=open("said", "w"))
end = time.monotonic() + 30
while termios.tcgetattr(theirs) == before:
    assert time.monotonic() < end and operator.poll() is None, "its keys are not taken"
    time.sleep(0.01)
silent.settimeout(30)
silent.recv(512)
operator.send_signal(signal.SIGINT)
operator.wait(30)
assert termios.tcgetattr(theirs) == before, "the terminal is not as it was"
print("as it was")
"#;

#[test]
fn the_terminal_is_as_it_was_after_ctrl_c_while_the_robots_name_is_looked_up() {
    if !has_python() {
        return;
    }
    let world = World::new("keyboard_name");
    world.write("searcher.py", SEARCHER);
    world.write("resolv.conf", "nameserver 127.0.0.1\n");
    let ours = "ip link set lo up && mount --bind resolv.conf /etc/resolv.conf && exec \"$0\" \"$@\"";
    let searcher = |arguments: &str| {
        let mut searcher = Command::new("unshare");
        searcher.current_dir(world.path("")).args(["--net", "--mount", "sh", "-c", ours]);
        searcher.args(arguments.split(' ')).env("XDG_STATE_HOME", world.path("state"));
        searcher.output().map(ended)
    };
    match searcher("true") {
        Ok(ended) if ended.status == 0 => {}
        refused => return println!("skipped: needs root, for a server of names: {refused:?}"),
    }
    let operator =
        "operator --connect robot.example:4433 --transport udp --plaintext-anywhere --input keyboard";
    let searcher =
        searcher(&format!("python3 searcher.py {} {operator}", env!("CARGO_BIN_EXE_taut"))).unwrap();
    assert_eq!((searcher.status, searcher.out.trim()), (0, "as it was"), "{searcher:?}");
}

/// A person who sees what is drawn on a terminal of 80 columns and 24 lines: presses r until the robot moves, holds w, stops it by a key, lets
/// go of that and moves on, and ends. Prints the screens on the way.
const VIEWER: &str = r#"
import os, pty, re, select, subprocess, sys, termios, time
command = sys.argv[1:]
ours, theirs = pty.openpty()
termios.tcsetwinsize(theirs, (24, 80))
before = termios.tcgetattr(theirs)
it = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=open("said", "w"))
screen, at, text, is_over = [[" "] * 80 for _ in range(24)], [0, 0], "", False
def draw():
    global text, is_over
    parts = re.compile(r"\x1b\[(\d+);(\d+)H|\x1b\[\?1049([hl])|\x1b\[[0-9;?]*[A-Za-z]|([^\x1b])")
    while match := parts.match(text):
        text = text[match.end():]
        row, column, over, letter = match.groups()
        if row:
            at[:] = int(row) - 1, int(column) - 1
        elif over:
            is_over = over == "l"
        elif letter and at[0] < 24 and at[1] < 80 and letter >= " ":
            screen[at[0]][at[1]] = letter
            at[1] += 1
def wait(until, keys=b"", each=0.02):
    global text
    end = time.monotonic() + 30
    while not until():
        assert time.monotonic() < end and it.poll() is None, "\n".join(map("".join, screen))
        if keys:
            os.write(ours, keys)
        if select.select([ours], [], [], each)[0]:
            text += os.read(ours, 65536).decode(errors="replace")
            draw()
def shows(line):
    return lambda: "".join(screen[0]).startswith(line)
def show():
    print("\n".join("".join(row).rstrip() for row in screen), "\n" + "-" * 80)
wait(shows(" PAUSED"))
show()
for stop in (b"\x1b", b" ", b"e"):
    wait(shows(" MOVING"), b"r", 0.1)
    begin = time.monotonic()
    wait(lambda: time.monotonic() > begin + 1.5, b"w", 0.05)
    show()
    os.write(ours, stop)
    wait(shows(" STOPPED"))
    show()
    wait(shows(" PAUSED"), b"c", 0.1)
os.write(ours, b"q")
while not is_over:
    text += os.read(ours, 65536).decode(errors="replace")
    draw()
rest = text
while it.poll() is None:
    if select.select([ours], [], [], 0.1)[0]:
        rest += os.read(ours, 65536).decode(errors="replace")
assert it.returncode == 0, it.returncode
assert termios.tcgetattr(theirs) == before, "the terminal is not as it was"
print(rest)
print("as it was")
"#;

fn viewer(world: &World, command: &str) -> String {
    world.write("viewer.py", VIEWER);
    let mut person = Command::new("python3");
    person
        .current_dir(world.path(""))
        .args(["viewer.py", env!("CARGO_BIN_EXE_taut")])
        .args(command.split(' '));
    person.env("XDG_STATE_HOME", world.path("state")).env("TERM", "xterm");
    let person = ended(person.output().unwrap());
    assert!(person.status == 0 && person.out.trim().ends_with("as it was"), "{command}: {person:?}");
    person.out
}

#[test]
fn who_drives_by_keys_sees_the_whole_session_and_each_stop_key_stops_the_robot() {
    let _beside = beside_others();
    if !has_python() {
        return;
    }
    let world = World::new("keyboard_view");
    let (mut robot, operator) = robot_for(&world);
    let seen = viewer(&world, &operator);
    println!("{seen}");
    for text in [
        " time since the start ",
        "hold  w s: forth, back",
        "Esc: EMERGENCY STOP",
        "EMERGENCY STOP, acknowledged after",
    ] {
        assert!(seen.contains(text), "{text} is missing:\n{seen}");
    }
    let (mut stops, mut moved) = (0, false);
    while stops < 3 {
        let line =
            robot.find(|line| line["event"] == "stopped" || line["speed_max_mps"].as_f64() > Some(0.05));
        let line = line.unwrap_or_else(|| panic!("{stops} stops"));
        moved |= line["event"] == "device";
        stops += usize::from(line["why"] == "emergency");
    }
    assert!(moved, "it did not move");
}

#[test]
fn the_demonstration_is_driven_with_all_of_it_on_view() {
    let _beside = beside_others();
    if !has_python() {
        return;
    }
    let world = World::new("demo_view");
    let seen = viewer(&world, "demo --network wifi");
    println!("{seen}");
    for text in [" states since the start ", "hold  w s: forth, back", "packets to the robot"] {
        assert!(seen.contains(text), "{text} is missing:\n{seen}");
    }
}
