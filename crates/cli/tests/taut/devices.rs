//! Devices in processes of their own, and what stops them.

use serde_json::Value;

use crate::sessions::{ONE_AT_A_TIME, Running, for_a_while, signal};
use crate::world::World;

const LIMITS: &str = "--position-limit=-1,-1,-1,1,1,1 --velocity-limit 5 --force-limit 20";

/// A robot whose device is a command, and an operator that moves it. Its watchdog waits for longer than a busy machine does.
struct Site {
    world: World,
    robot: Running,
    operator: Running,
}

/// The simulated arm, with a log; its process's number is in the file `pid`.
fn arm(kind: &str) -> String {
    format!("echo $$ > pid; exec {} device {kind} --log log", env!("CARGO_BIN_EXE_taut"))
}

impl Site {
    /// Until the device was told something.
    fn new(name: &str, device: &str, limits: &str) -> Self {
        let world = World::new(&format!("device-{name}"));
        let identity = |who: &str| world.taut(&format!("identity --path {who}")).out.trim().to_owned();
        let (robot_id, one) = (identity("robot"), identity("one"));
        let mut robot = world.command(&format!(
            "robot --listen 127.0.0.1:0 --transport udp --identity robot --trust {one} --watchdog 1s --every 100ms --json {limits}"
        ));
        robot.arg("--robot").arg(format!("exec:{device}"));
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
        String::from_utf8(self.world.read("pid")).unwrap().trim().parse().unwrap()
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
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
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
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
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

#[test]
fn a_robot_that_is_told_to_end_stops_its_device_first() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let Site { world, robot, operator } = Site::new("ended", &arm("sim"), LIMITS);
    assert_eq!(robot.end("-TERM").0, 0);
    let log = String::from_utf8(world.read("log")).unwrap();
    let (told, ended) = (log.find(r#""told":{"stop":"host"}"#), log.find(r#""event":"ended""#));
    assert!(told.is_some() && told < ended, "{log}");
    drop(operator);
}

#[test]
fn a_device_that_dies_is_said_so_and_its_robot_stands_whoever_resumes() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let mut site = Site::new("dies", &arm("sim"), LIMITS);
    site.moves();
    signal(site.pid(), "-KILL");
    let failed = site.robot.wait_for("device_failed");
    assert!(failed["why"].as_str().is_some_and(|why| !why.is_empty()), "{failed}");
    assert_eq!(site.robot.wait_for("stopped")["why"], "device");
    for_a_while(200);
    site.operator.say("r");
    site.robot.wait_for("enabled");
    assert_eq!(site.robot.wait_for("stopped")["why"], "device");
}

#[test]
fn a_device_that_does_not_read_what_it_is_told_stops_its_robot_and_itself() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let mut site = Site::new("reads-not", &arm("sim"), LIMITS);
    site.moves();
    let before = site.log().len();
    signal(site.pid(), "-STOP");
    let failed = site.robot.wait_for("device_failed");
    assert!(failed["why"].as_str().unwrap().contains("did not read in time"), "{failed}");
    assert_eq!(site.robot.wait_for("stopped")["why"], "device");
    signal(site.pid(), "-CONT");
    let (at, line) = site.wait_for(before, stopped);
    assert!(line["why"] == "lease" || line["why"] == "told", "{line}");
    for_a_while(300);
    assert_eq!(site.applied_after(at), Vec::<Value>::new());
}

#[test]
fn a_device_that_writes_junk_stops_its_robot() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let hello = r#"{"hello":{"name":"arm","lease":true,"limits_force":true,"real":false}}"#;
    let script = format!(
        "echo '{hello}'; echo '{{\"position\":[0,0,0]}}'; read limits; read enable; read apply; printf '\\033[2J\\n'; cat > /dev/null"
    );
    let mut site = Site::new("junk", &script, LIMITS);
    let failed = site.robot.wait_for("device_failed");
    assert!(failed["why"].as_str().unwrap().contains("1 lines so far"), "{failed}");
    assert_eq!(site.robot.wait_for("stopped")["why"], "device");
}

#[test]
fn the_controllers_force_keeps_to_its_limit_and_the_arms_own_speed_is_told() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
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
    for (limits, told) in [
        (&["--force-limit", "20"][..], "--position-limit, --velocity-limit are missing"),
        (&["--force-limit", "20", "--velocity-limit", "1"], "--position-limit is missing"),
        (
            &["--force-limit", "inf", "--velocity-limit", "1", "--position-limit=0,0,0,1,1,1"],
            "--force-limit is missing",
        ),
    ] {
        let mut command = world.command("robot --listen 127.0.0.1:0 --transport udp --plaintext --robot");
        let ended = crate::world::ended(command.arg("exec:touch started").args(limits).output().unwrap());
        assert_eq!(ended.status, 2, "{ended:?}");
        assert!(ended.err.contains(told), "{ended:?}");
    }
    assert!(!world.path("started").exists(), "nothing was started");
    let mut robot =
        Running::start(world.command("robot --listen 127.0.0.1:0 --transport udp --plaintext --json"));
    let device = robot.wait_for("listening")["device"].clone();
    assert_eq!((&device["name"], &device["lease"]), (&Value::from("sim:spring"), &Value::from(true)));
    assert!(device["force_limit_n"].is_null(), "{device}");
}
