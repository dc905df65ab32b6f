//! Devices in processes of their own, and what stops them.

use std::process::Command;

use serde_json::Value;
use taut_core::{Duration, Time};
use taut_io::Clock;

use crate::sessions::{Running, beside_others, for_a_while, signal};
use crate::world::World;

const LIMITS: &str = "--position-limit=-1,-1,-1,1,1,1 --velocity-limit 5 --force-limit 20";

/// A robot whose device is a command, and an operator that moves it. Its watchdog waits for longer than a busy machine does.
struct Site {
    world: World,
    robot: Running,
    operator: Running,
}

/// The simulated arm, with a log.
fn arm(kind: &str) -> String {
    format!("exec:{} device {kind} --log log", env!("CARGO_BIN_EXE_taut"))
}

/// Where Python finds the package, whether or not it is installed.
pub(crate) const PYTHONPATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../python/python");

pub(crate) fn has_python() -> bool {
    let script = "import sys; sys.exit(sys.version_info < (3, 10))";
    let has = Command::new("python3").args(["-c", script]).status().is_ok_and(|status| status.success());
    if !has {
        println!("skipped: there is no python3 from 3.10 on");
    }
    has
}

impl Site {
    /// Until the device was told something.
    fn new(name: &str, device: &str, limits: &str) -> Self {
        Self::of(World::new(&format!("device-{name}")), device, limits)
    }

    fn of(world: World, device: &str, limits: &str) -> Self {
        let identity = |who: &str| world.taut(&format!("identity --path {who}")).out.trim().to_owned();
        let (robot_id, one) = (identity("robot"), identity("one"));
        let mut robot = world.command(&format!(
            "robot --listen 127.0.0.1:0 --transport udp --identity robot --trust {one} --watchdog 1s --every 100ms --json {limits}"
        ));
        robot.arg("--robot").arg(device).env("PYTHONPATH", PYTHONPATH);
        let mut robot = Running::start(robot);
        let listening = robot.wait_for("listening");
        let at = listening["address"].as_str().unwrap();
        let operator = Running::start(world.command(&format!(
            "operator --connect {at} --robot-id {robot_id} --transport udp --identity one --resume start --commands --json"
        )));
        robot.wait_for("enabled");
        Self { world, robot, operator }
    }

    fn pid(&self) -> u32 {
        self.wait_for(0, |line| line["event"] == "started").1["pid"].as_u64().unwrap() as u32
    }

    /// What the device was told and did: its log's whole lines.
    fn log(&self) -> Vec<Value> {
        let text = String::from_utf8(self.world.read("log")).unwrap();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Until the log says so from line `from` on; gives the line.
    fn wait_for(&self, from: usize, what: impl Fn(&Value) -> bool) -> (usize, Value) {
        for _ in 0..3_000 {
            let found = self.log().into_iter().enumerate().skip(from).find(|(_, line)| what(line));
            if let Some(found) = found {
                return found;
            }
            for_a_while(10);
        }
        panic!("the device's log has no such line after {from}: {:?}", self.log().last());
    }

    /// The robot stops, and it is said how long after the fault began that was known here.
    fn stopped_by_device(&mut self, fault: &str) {
        let stopped = self.robot.wait_for("stopped");
        assert_eq!(stopped["why"], "device", "{stopped}");
        let began = String::from_utf8(self.world.read("fault")).unwrap().parse().unwrap();
        let after = Clock::since_boot().saturating_since(Time::from_nanos(began));
        println!("{fault}: stopped {:.1} ms after the fault", after.as_millis_f64());
        // A hanging device is noticed within the watchdog's second; what a busy machine adds is not the robot's.
        assert!(after < Duration::from_secs(10), "{after}");
    }

    /// Until the arm follows.
    fn moves(&self) {
        self.wait_for(20, is_applied);
    }

    fn applied_after(&self, line: usize) -> Vec<Value> {
        self.log().into_iter().skip(line).filter(is_applied).collect()
    }
}

fn is_applied(line: &Value) -> bool {
    line["applied"] == true
}

fn stopped(line: &Value) -> bool {
    line["event"] == "stopped"
}

#[test]
fn a_robot_that_is_frozen_is_stopped_by_its_devices_lease_and_nothing_is_applied_without_a_resume() {
    let _beside = beside_others();
    let mut site = Site::new("frozen", &arm("sim"), LIMITS);
    site.moves();
    let before = site.log().len();
    signal(site.robot.pid(), "-STOP");
    let (at, line) = site.wait_for(before, stopped);
    assert_eq!(line["why"], "lease", "{line}");
    let last = site.log()[..at].iter().rev().find(|line| is_applied(line)).unwrap().clone();
    let silence = line["t_s"].as_f64().unwrap() - last["t_s"].as_f64().unwrap();
    println!("the lease stopped the arm {:.1} ms after its last set point", silence * 1e3);
    assert!(silence > 0.5, "a lease is what is left of the watchdog's second: {last} {line}");
    for_a_while(300);
    signal(site.robot.pid(), "-CONT");
    site.robot.wait_for("stopped");
    for_a_while(500);
    assert_eq!(site.applied_after(at), Vec::<Value>::new());
    site.operator.say("r");
    site.wait_for(at, is_applied);
}

#[test]
fn a_robot_that_is_killed_leaves_a_device_that_stands() {
    let _beside = beside_others();
    let site = Site::new("killed", &arm("sim"), LIMITS);
    site.moves();
    let before = site.log().len();
    signal(site.robot.pid(), "-KILL");
    let (at, line) = site.wait_for(before, stopped);
    assert!(line["why"] == "lease" || line["why"] == "end_of_file", "{line}");
    let (_, ended) = site.wait_for(at, |line| line["event"] == "ended");
    assert!(ended["speed_mps"].as_f64().unwrap() < 1e-3, "{ended}");
    assert_eq!(site.applied_after(at), Vec::<Value>::new());
}

/// As nohup(1) starts it.
#[test]
fn a_robot_that_was_started_to_outlive_its_terminal_does() {
    let _beside = beside_others();
    let world = World::new("nohup");
    let robot = "robot --listen 127.0.0.1:0 --transport udp --plaintext --state none --robot sim --json";
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_taut")]);
    command.args(robot.split(' ')).current_dir(world.path(""));
    let mut robot = Running::start(command);
    robot.wait_for("listening");
    signal(robot.pid(), "-HUP");
    for_a_while(300);
    assert!(robot.child.try_wait().unwrap().is_none(), "it goes on");
    assert_eq!(robot.end("-TERM").0, 0);
}

#[test]
fn an_input_that_fails_ends_the_operator_with_a_failure_and_one_that_ends_well_does_not() {
    let _beside = beside_others();
    let world = World::new("input-status");
    let plain = "--transport udp --plaintext --state none";
    let mut robot = Running::start(
        world.command(&format!("robot --listen 127.0.0.1:0 {plain} --robot sim:free {LIMITS} --json")),
    );
    let at = robot.wait_for("listening")["address"].as_str().unwrap().to_owned();
    for (program, status, says) in [("exec:false", 1, "exit status: 1"), ("exec:true", 0, "exit status: 0")] {
        let operator = format!("operator --connect {at} {plain} --input {program}");
        let ended = crate::world::ended(world.command(&operator).output().unwrap());
        assert!(ended.status == status && ended.err.contains(says), "{program}: {ended:?}");
    }
    assert_eq!(robot.end("-TERM").0, 0);
}

#[test]
fn a_robot_that_is_told_to_end_stops_its_device_first() {
    let _beside = beside_others();
    let Site { world, robot, operator } = Site::new("ended", &arm("sim"), LIMITS);
    assert_eq!(robot.end("-TERM").0, 0);
    let log = String::from_utf8(world.read("log")).unwrap();
    let (told, ended) = (log.find(r#""told":{"stop":"host"}"#), log.find(r#""event":"ended""#));
    assert!(told.is_some() && told < ended, "{log}");
    drop(operator);
}

#[test]
fn a_device_that_dies_is_said_so_and_its_robot_stands_whoever_resumes() {
    let _beside = beside_others();
    let mut site = Site::new("dies", &arm("sim"), LIMITS);
    site.moves();
    signal(site.pid(), "-KILL");
    let failed = site.robot.wait_for("device_failed");
    assert!(failed["why"].as_str().is_some_and(|why| !why.is_empty()), "{failed}");
    assert_eq!(site.robot.wait_for("stopped")["why"], "device");
    for_a_while(200);
    site.operator.say("r");
    // It does not say for an instant that it moves.
    let told = site.robot.find(|line| line["event"] == "enabled" || line["event"] == "stopped").unwrap();
    assert_eq!((&told["event"], &told["why"]), (&"stopped".into(), &"device".into()), "{told}");
}

#[test]
fn a_device_that_does_not_read_what_it_is_told_stops_its_robot_and_itself() {
    let _beside = beside_others();
    let mut site = Site::new("reads-not", &arm("sim"), LIMITS);
    site.moves();
    let before = site.log().len();
    signal(site.pid(), "-STOP");
    let failed = site.robot.wait_for("device_failed");
    let why = failed["why"].as_str().unwrap();
    assert!(why.contains("did not read in time") || why.contains("where it is"), "{failed}");
    assert_eq!(site.robot.wait_for("stopped")["why"], "device");
    signal(site.pid(), "-CONT");
    let (at, line) = site.wait_for(before, stopped);
    assert!(line["why"] == "lease" || line["why"] == "told", "{line}");
    for_a_while(300);
    assert_eq!(site.applied_after(at), Vec::<Value>::new());
}

/// A robot of Python's, without the package: `does` is what it does once it was told to move.
fn python(does: &str) -> String {
    format!(
        r#"import os, signal, socket, struct, sys, time
link = socket.socket(fileno=int(os.environ["TAUT_DEVICE_FD"]))
open("pid", "w").write(str(os.getpid()))
def say(kind, flags=0, number=0, rest=b""):
    link.send(struct.pack("<BBBBI", kind, 0, 0, flags, number) + rest)
def measured():
    say(66, rest=bytes(12) + struct.pack("<BBH13f", 0, 0, 0, 0, 0, 0, 1, *[0] * 9))
say(65, 3, 1, bytes(4) + b"python")
link.settimeout(0.005)
moves = False
while True:
    try:
        told = link.recv(1536)
        if not told:
            break
        moves |= told[0] == 5
        if told[0] == 7:
            moves = False
            say(68, number=struct.unpack_from("<I", told, 4)[0], rest=b"told")
    except TimeoutError:
        pass
    if moves:
        if not os.path.exists("fault"):
            open("fault", "w").write(str(time.clock_gettime_ns(time.CLOCK_BOOTTIME)))
        {does}
    measured()
"#
    )
}

/// That robot, moving, and then its fault.
fn faulty(name: &str, does: &str) -> Option<Site> {
    if !has_python() {
        return None;
    }
    let world = World::new(&format!("device-{name}"));
    world.write("device.py", python(does));
    Some(Site::of(world, "exec:python3 device.py", LIMITS))
}

#[test]
fn a_device_that_writes_junk_stops_its_robot() {
    let _beside = beside_others();
    let Some(mut site) = faulty("junk", r#"link.send(b"\x1b[2J")"#) else { return };
    let failed = site.robot.wait_for("device_failed");
    assert!(failed["why"].as_str().unwrap().contains("what is no frame"), "{failed}");
    site.stopped_by_device("junk");
}

#[test]
fn a_device_that_reads_but_does_not_say_where_it_is_stops_its_robot() {
    let _beside = beside_others();
    let Some(mut site) = faulty("silent", "continue") else { return };
    let failed = site.robot.wait_for("device_failed");
    assert!(failed["why"].as_str().unwrap().contains("where it is"), "{failed}");
    site.stopped_by_device("silent");
}

#[test]
fn a_device_that_hangs_is_ended_with_its_robot_whose_session_went_on_meanwhile() {
    let _beside = beside_others();
    let ignores = "signal.signal(signal.SIGTERM, signal.SIG_IGN); os.kill(os.getpid(), signal.SIGSTOP)";
    let Some(mut site) = faulty("hangs", ignores) else { return };
    let pid = String::from_utf8(site.world.read("pid")).unwrap();
    site.stopped_by_device("hangs");
    // It does not answer the stop either, and is lost for good.
    let lost =
        site.robot.find(|line| line["why"].as_str().is_some_and(|why| why.contains("did not answer a stop")));
    assert!(lost.is_some());
    // Reports of the same session.
    site.operator.wait_for("status");
    assert_eq!(site.robot.end("-TERM").0, 0);
    let is_there =
        std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "));
    assert!(!is_there, "SIGKILL ends what is stopped");
}

#[test]
fn the_robot_in_c_of_the_documentation_is_moved_stops_when_it_is_killed_and_when_its_robot_is() {
    let _beside = beside_others();
    let world = World::new("device-c");
    world.write("device.c", include_str!("../../../../docs/examples/device.c"));
    let device = world.path("device");
    let mut compiler = Command::new("cc");
    compiler.args(["-Wall", "-Wextra", "-Werror", "-O2", "-o"]).arg(&device).arg(world.path("device.c"));
    match compiler.status() {
        Ok(status) => assert!(status.success()),
        Err(error) => return println!("skipped: cc: {error}"),
    }
    let mut site = Site::of(world, "exec:./device", ""); // It has limits of its own.
    let moves = |line: &Value| line["event"] == "device" && line["speed_max_mps"].as_f64() > Some(0.01);
    assert!(site.robot.find(moves).is_some(), "it moves, and says so");
    let pids = || {
        let is_it = |pid: &u32| std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == device);
        let all = std::fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
        all.filter(is_it).collect::<Vec<u32>>()
    };
    let [pid] = pids()[..] else { panic!("{:?}", pids()) };
    signal(site.robot.pid(), "-KILL");
    for _ in 0..3_000 {
        if pids().is_empty() {
            return;
        }
        for_a_while(10);
    }
    panic!("{pid} goes on although its socket has ended");
}

#[test]
fn a_class_of_python_is_a_robot_and_another_one_an_input_whose_buttons_resume_and_stop_it() {
    let _beside = beside_others();
    if !has_python() {
        return;
    }
    let world = World::new("device-class");
    let page = include_str!("../../../../docs/devices.md");
    let block = |says: &str| {
        let mut blocks =
            page.split("```").skip(1).step_by(2).filter_map(|block| block.strip_prefix("python"));
        blocks.find(|block| block.contains(says)).expect("the page has it")
    };
    world.write("my_robot.py", block("class Arm"));
    // A person presses until the robot moves: the clocks have to be compared first.
    let press = "\n    def buttons(self):\n        self.asked = getattr(self, 'asked', 0) + 1\n        if self.asked % 20 == 0:\n            \
                 yield 'resume' if self.asked < 400 else 'stop'\n";
    world.write("my_hand.py", format!("{}{press}", block("class Hand").trim_end()));
    let identity = |who: &str| world.taut(&format!("identity --path {who}")).out.trim().to_owned();
    let (robot_id, one) = (identity("robot"), identity("one"));
    let mut robot = world.command(&format!(
        "robot --listen 127.0.0.1:0 --transport udp --identity robot --trust {one} --watchdog 2s --hold-to-run --every 100ms --json \
         --robot python:my_robot:Arm --velocity-limit 5 --force-limit 10"
    ));
    robot.env("PYTHONPATH", PYTHONPATH);
    let mut robot = Running::start(robot);
    let listening = robot.wait_for("listening");
    assert_eq!(
        (&listening["device"]["name"], &listening["device"]["real"]),
        (&Value::from("Arm"), &Value::from(false))
    );
    // Its own, also where more is asked for.
    let [[x, ..], _] =
        serde_json::from_value::<[[f32; 3]; 2]>(listening["device"]["position_limit_m"].clone()).unwrap();
    assert!((x + 0.2).abs() < 1e-6, "{listening}");
    assert_eq!(
        (&listening["device"]["velocity_limit_mps"], &listening["device"]["force_limit_n"]),
        (&Value::from(0.5), &Value::from(10.0))
    );
    let mut operator = world.command(&format!(
        "operator --connect {} --robot-id {robot_id} --transport udp --identity one --input python:my_hand:Hand --json",
        listening["address"].as_str().unwrap()
    ));
    operator.env("PYTHONPATH", PYTHONPATH);
    let _operator = Running::start(operator);
    robot.wait_for("enabled");
    assert_eq!(robot.wait_for("stopped")["why"], "emergency");
}

#[test]
fn states_of_programs_and_of_lines_are_as_urgent_as_it_is_said() {
    let _beside = beside_others();
    if !has_python() {
        return;
    }
    for input in ["lines", "python:hand:Hand"] {
        let world = World::new(&format!("device-priority-{}", &input[..5]));
        world.write(
            "hand.py",
            "from taut.device import State\n\nclass Hand:\n    def sample(self):\n        return State()\n",
        );
        let mut robot = Running::start(world.command(
            "robot --listen 127.0.0.1:0 --plaintext --transport udp --state kept --watchdog 2s --json",
        ));
        let address = robot.wait_for("listening")["address"].as_str().unwrap().to_owned();
        let mut operator = world.command(&format!(
            "operator --connect {address} --plaintext --transport udp --state asked --priority high --every 100ms --resume start --commands --input {input} --json"
        ));
        operator.env("PYTHONPATH", PYTHONPATH);
        let mut operator = Running::start(operator);
        operator.wait_for("resumed");
        operator.say(if input == "lines" { r#"{"state":{"position_m":[0,0,0]}}"# } else { "h" });
        let sent = |line: &Value, name: &str| {
            let streams = line["status"]["streams"].as_array().into_iter().flatten();
            streams.filter(|it| it["name"] == name).filter_map(|it| it["sent"].as_u64()).sum::<u64>()
        };
        let status = operator.find(|line| sent(line, "high") + sent(line, "normal") > 0);
        let status = status.expect("states are sent");
        assert_eq!(sent(&status, "normal"), 0, "{input}: {status}");
    }
}

#[test]
fn the_controllers_force_keeps_to_its_limit_and_the_arms_own_speed_is_told() {
    let _beside = beside_others();
    let limits = "--position-limit=-1,-1,-1,1,1,1 --velocity-limit 5 --force-limit 3";
    let mut site = Site::new("force", &arm("sim:wall"), limits);
    // The hand presses on the wall, and its controller would push with more.
    let (_, line) = site.wait_for(0, |line| line["controller_force_max_n"].as_f64() > Some(2.9));
    assert!(line["speed_max_mps"].as_f64() > Some(0.01), "{line}");
    let report = loop {
        let report = site.robot.wait_for("device");
        if report["controller_force_max_n"].as_f64() > Some(2.9) {
            break report;
        }
    };
    assert!(report["controller_force_max_n"].as_f64() < Some(3.001), "{report}");
    assert!(report["speed_max_mps"].as_f64() > Some(0.01), "{report}");
    let most =
        site.log().iter().filter_map(|line| line["controller_force_max_n"].as_f64()).fold(0.0, f64::max);
    assert!(most < 3.001, "{most} N");
}

#[test]
fn a_command_is_not_moved_without_limits_and_the_simulated_robot_says_that_it_has_none() {
    let world = World::new("device-limits");
    let has_python = has_python();
    world.write("unlimited.py", python("pass"));
    for (limits, told) in [
        (&["--force-limit", "20"][..], "--position-limit, --velocity-limit are missing"),
        (&["--force-limit", "20", "--velocity-limit", "1"], "--position-limit is missing"),
        (&["--force-limit", "inf"], "is a finite number from 0 up"),
        (&["--acceleration-limit", "1e39"], "is a finite number from 0 up"),
        (&["--position-limit=0,0,0,1,1,inf"], "--position-limit: without end"),
    ]
    .into_iter()
    .filter(|_| has_python)
    {
        let mut command = world.command("robot --listen 127.0.0.1:0 --transport udp --plaintext --robot");
        let ended =
            crate::world::ended(command.arg("exec:python3 unlimited.py").args(limits).output().unwrap());
        assert_eq!((ended.status, ended.out.as_str()), (2, ""), "{ended:?}");
        assert!(ended.err.contains(told), "{ended:?}");
    }
    for (arguments, told) in [
        ("--turns", "without --angular-velocity-limit and --torque-limit"),
        ("--turns --angular-velocity-limit 1 --torque-limit 1", "say what that does, --servo"),
        ("--turns --angular-velocity-limit 1 --torque-limit 1 --servo 3000,45", "--turning-servo"),
        ("--law wave", "say what that does, --servo"),
        ("--state /dev/null/state", "--state: "),
        ("--record nowhere/session.mcap", "--record nowhere/session.mcap: "),
        ("--view 0.0.0.0:0", "add --view-anywhere"),
        ("--watchdog-device nowhere", "--watchdog-device nowhere: "),
    ] {
        let mut command = world.command(&format!(
            "robot --listen 127.0.0.1:0 --transport udp --plaintext {LIMITS} {arguments} --robot"
        ));
        let ended = crate::world::ended(command.arg("exec:touch started").output().unwrap());
        assert_eq!(ended.status, 2, "{arguments}: {ended:?}");
        assert!(ended.err.contains(told), "{arguments}: {ended:?}");
    }
    assert!(!world.path("started").exists(), "nothing was started");
    world.write("plain", "not a program");
    for (device, told) in [
        ("exec:./nowhere --fast", "`./nowhere` cannot be started: No such file"),
        ("exec:./plain", "`./plain` cannot be started: Permission denied"),
        ("exec:", "exec: is followed by a program"),
        ("python:arm", "python: is followed by a module and a class"),
    ] {
        let mut command = world
            .command(&format!("robot --listen 127.0.0.1:0 --transport udp --plaintext {LIMITS} --robot"));
        let ended = crate::world::ended(command.arg(device).output().unwrap());
        assert_eq!((ended.status, ended.out.as_str()), (2, ""), "{ended:?}");
        assert!(ended.err.contains(told), "{ended:?}");
    }
    let mut robot =
        Running::start(world.command("robot --listen 127.0.0.1:0 --transport udp --plaintext --json"));
    let device = robot.wait_for("listening")["device"].clone();
    assert_eq!((&device["name"], &device["lease"]), (&Value::from("sim:spring"), &Value::from(true)));
    assert!(device["force_limit_n"].is_null(), "{device}");
}
