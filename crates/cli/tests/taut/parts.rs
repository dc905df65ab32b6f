//! Commands of several processes: each ends in order with its owner, whatever ends that.

use std::path::Path;
use std::process::Command;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::Value;

use crate::devices::has_python;
use crate::sessions::{Running, beside_one};
use crate::world::{World, ended};

/// Drives the demonstration by the keys of a terminal of its own, whose signals reach all of it, until the robot moves; then ends it from
/// there. Prints what was on the terminal.
const CONTROLS: &str = r#"
import os, pty, select, sys, time
key, *command = sys.argv[1:]
pid, ours = pty.fork()
if pid == 0:
    # Behind the & of a script it would ignore two of the keys.
    os.execvp("env", ["env", "--default-signal", *command])
seen, end = b"", time.monotonic() + 40
def read():
    global seen
    try:
        more = os.read(ours, 65536)
    except OSError:
        more = b""
    seen += more
    return more
while b"the robot moves" not in seen:
    assert time.monotonic() < end, seen
    if b"press r" in seen:
        os.write(ours, b"r")
    if select.select([ours], [], [], 0.1)[0]:
        assert read(), seen
os.write(ours, bytes([int(key)]))
while read():
    assert time.monotonic() < end, seen
print(seen.decode(errors="replace"))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"#;

#[test]
fn each_key_of_the_terminal_that_ends_a_demonstration_ends_all_of_it_in_order_and_its_summary_is_told() {
    let _beside = beside_one();
    if !has_python() {
        return;
    }
    // Ctrl-C, Ctrl-\ and Ctrl-Z.
    for key in [3, 28, 26] {
        let world = World::new(&format!("parts-key-{key}"));
        world.write("controls.py", CONTROLS);
        let mut person = Command::new("python3");
        person.current_dir(world.path("")).env("TMPDIR", world.path("")).args([
            "controls.py",
            &key.to_string(),
            env!("CARGO_BIN_EXE_taut"),
            "demo",
            "--network",
            "wifi",
        ]);
        let person = ended(person.output().unwrap());
        // Its status says so of the operator and of the robot.
        assert_eq!(person.status, 0, "{key}: {person:?}");
        assert!(person.out.contains("round trip"), "{key}: {person:?}");
        assert!(person.out.contains("the network carried"), "{key}: {person:?}");
        assert_eq!(folders(&world), Vec::<String>::new(), "{key}");
    }
}

#[test]
fn the_parts_of_a_demonstration_that_is_killed_stop_the_arm_and_end_by_themselves() {
    let _beside = beside_one();
    for looks_on in [true, false] {
        let world = World::new(&format!("parts-killed-{looks_on}"));
        let mut command = world.command("demo --network wifi --script --json");
        command.env("TMPDIR", world.path(""));
        let mut demo = Running::start(command);
        assert!(demo.find(|line| line["standing"] == "MOVING").is_some());
        let parts = children(demo.pid());
        assert_eq!(parts.len(), 2, "a robot and an operator");
        let [folder] = &folders(&world)[..] else { panic!("where does the robot keep its stops?") };
        // Whoever uses it keeps it.
        let used = looks_on.then(|| std::fs::File::open(world.path(folder)).unwrap());
        used.iter().for_each(|used| flock(used, FlockOperation::LockShared).unwrap());
        demo.kill();
        let ended: Vec<bool> = parts.into_iter().map(ends).collect();
        assert_eq!(ended, [true, true], "processes of it go on");
        if looks_on {
            let kept = String::from_utf8(world.read(&format!("{folder}/robot.state"))).unwrap();
            // What does not end in order leaves a latched stop.
            assert!(kept.contains("life ended\nlatch none"), "{kept}");
        } else {
            assert_eq!(folders(&world), Vec::<String>::new(), "the last part removes it");
        }
    }
}

#[test]
fn a_part_removes_no_folder_but_that_of_its_owners_demonstration() {
    let world = World::new("parts-folder");
    let pid = std::process::id();
    // Nor one that another's name leads to.
    let [own, meant, of_another] =
        [format!("taut-demo-{pid}"), "meant".into(), format!("taut-demo-{}", pid + 1)];
    for folder in [&meant, &of_another] {
        std::fs::create_dir(world.path(folder)).unwrap();
    }
    std::os::unix::fs::symlink(world.path(&meant), world.path(&own)).unwrap();
    for (named, why) in [(&meant, "not the folder"), (&of_another, "not the folder"), (&own, "taut-demo-")] {
        let folder = world.path(named);
        let part = format!("--part-of {pid} --part-folder {}", folder.display());
        let operator = "operator --connect 127.0.0.1:9 --transport udp --plaintext --state kept";
        let mut operator = world.command(&format!("{operator} {part}"));
        let refused = ended(operator.env("TMPDIR", world.path("")).output().unwrap());
        assert_eq!(refused.status, 2, "{refused:?}");
        assert!(refused.err.contains(why), "{refused:?}");
        assert!(folder.exists());
    }
}

#[test]
fn parts_go_over_the_transport_that_their_owner_names_and_know_no_other() {
    let _beside = beside_one();
    let world = World::new("parts-switched");
    let identity = |who: &str| world.taut(&format!("identity --path {who}")).out.trim().to_owned();
    let (robot_id, operator_id) = (identity("robot"), identity("operator"));
    let part = format!("--json --part-switches --part-of {}", std::process::id());
    let mut robot = Running::start(world.command(&format!(
        "robot --listen 127.0.0.1:0 --transport udp --identity robot --trust {operator_id} --watchdog 3s --state kept {part}"
    )));
    let address = robot.wait_for("listening")["address"].as_str().unwrap().to_owned();
    let mut operator = Running::start(world.command(&format!(
        "operator --connect {address} --transport udp --robot-id {robot_id} --identity operator --resume start {part}"
    )));
    let is = |line: &Value, event: &str| line["event"] == event;
    assert!(operator.find(|line| is(line, "resumed")).is_some());
    for transport in ["carrier pigeon", "sctp"] {
        robot.say(transport);
        operator.say(transport);
    }
    assert!(robot.find(|line| is(line, "stopped")).is_some());
    assert!(operator.find(|line| is(line, "connected")).is_some(), "over SCTP");
    // Nobody resumes it there.
    let stands = operator.find(|line| is(line, "status") && line["standing"] != "NO LINK").unwrap();
    assert_eq!(stands["standing"], "PAUSED", "{stands}");
    assert_eq!((operator.end("-TERM").0, robot.end("-TERM").0), (0, 0));
}

/// A process, by a handle that stays its own.
type Handle = rustix::fd::OwnedFd;

fn children(of: u32) -> Vec<Handle> {
    let processes = std::fs::read_dir("/proc").unwrap().map_while(Result::ok).map(|entry| entry.path());
    let is_child = |process: &Path| {
        let stat = std::fs::read_to_string(process.join("stat")).unwrap_or_default();
        // After the name, which may have spaces: the state, then the parent (proc_pid_stat(5)).
        let parent = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1));
        parent == Some(&of.to_string())
    };
    let pid = |process: &Path| Pid::from_raw(process.file_name()?.to_str()?.parse().ok()?);
    let children = processes.filter(|process| is_child(process)).filter_map(|process| pid(&process));
    children.map(|pid| pidfd_open(pid, PidfdFlags::empty()).unwrap()).collect()
}

/// It is readable when the process has ended (pidfd_open(2)). One that goes on does not outlive the test.
fn ends(process: Handle) -> bool {
    let patience = Timespec { tv_sec: 30, tv_nsec: 0 };
    let has_ended = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&patience)).unwrap() == 1;
    let _ = pidfd_send_signal(&process, Signal::KILL);
    has_ended
}

/// What demonstrations of this world have for themselves.
fn folders(world: &World) -> Vec<String> {
    let names = std::fs::read_dir(world.path("")).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter_map(|name| name.into_string().ok()).filter(|name| name.starts_with("taut-demo-")).collect()
}
