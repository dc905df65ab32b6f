//! A robot of one's own over channels: the example of the documentation, word for word, and what is refused.

use std::io::Write;
use std::process::ChildStdin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::devices::{PYTHONPATH, has_python};
use crate::sessions::{Running, beside_others, for_a_while};
use crate::world::World;

const PAGE: &str = include_str!("../../../../docs/devices.md");

/// The block of the page that says this.
fn example(language: &str, says: &str) -> &'static str {
    let blocks = PAGE.split("```").skip(1).step_by(2).filter_map(|block| block.strip_prefix(language));
    blocks.map(str::trim_start).find(|block| block.contains(says)).expect("the page has it")
}

/// The robot of the page, and where it listens.
struct Site {
    world: World,
    robot: Running,
    connect: String,
}

impl Site {
    fn new(name: &str) -> Self {
        let world = World::new(&format!("channels-{name}"));
        world.write("channels.toml", example("toml", "[[channel]]"));
        world.write("robot.py", example("python", "two joints"));
        world.write("hand.py", example("python", "goal"));
        let identity = |who: &str| world.taut(&format!("identity --path {who}")).out.trim().to_owned();
        let (robot_id, one) = (identity("robot"), identity("one"));
        let mut robot = world.command(&format!(
            "robot --listen 127.0.0.1:0 --transport udp --identity robot --trust {one} --watchdog 5s --channels channels.toml \
             --json"
        ));
        robot.args(["--robot", "python:robot:Robot"]).env("PYTHONPATH", PYTHONPATH);
        let mut robot = Running::start(robot);
        let listening = robot.wait_for("listening");
        let connect = format!(
            "operator --connect {} --robot-id {robot_id} --transport udp --identity one --channels channels.toml --resume start \
             --json",
            listening["address"].as_str().unwrap()
        );
        Self { world, robot, connect }
    }
}

/// Writes motion of the joints again and again until it is dropped, and what else there is to say.
struct Hand {
    stdin: Arc<Mutex<ChildStdin>>,
    ends: Arc<AtomicBool>,
}

impl Hand {
    fn new(operator: &mut Running) -> Self {
        let stdin = Arc::new(Mutex::new(operator.child.stdin.take().unwrap()));
        Self { stdin, ends: Arc::default() }
    }

    fn say(&self, line: &str) {
        writeln!(self.stdin.lock().unwrap(), "{line}").unwrap();
    }

    fn goes_to(&self, position: [f64; 2]) {
        let (stdin, ends) = (self.stdin.clone(), self.ends.clone());
        let [a, b] = position;
        let line =
            format!(r#"{{"move":{{"channel":"arm/servo_jp","joints":{{"position_rad":[{a},{b}]}}}}}}"#);
        std::thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) && writeln!(stdin.lock().unwrap(), "{line}").is_ok() {
                for_a_while(10);
            }
        });
    }
}

impl Drop for Hand {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
    }
}

/// The first joint, of a message of the robot's.
fn joint(line: &Value) -> Option<f64> {
    let of = line["event"] == "message" && line["channel"] == "arm/measured_js";
    line["payload"]["position_rad"][0].as_f64().filter(|_| of)
}

#[test]
fn the_robot_of_the_documentation_is_moved_and_spoken_to_by_lines_of_standard_input() {
    let _beside = beside_others();
    if !has_python() {
        return;
    }
    let Site { world, mut robot, connect } = Site::new("lines");
    let mut operator = Running::start(world.command(&format!("{connect} --input lines")));
    let hand = Hand::new(&mut operator);
    for _ in 0..3 {
        let channel = operator.wait_for("channel");
        assert_eq!(channel["open"], true, "{channel}");
    }
    robot.wait_for("enabled");
    assert!(operator.find(|line| line["payload"]["lamp"] == false && line["age_ms"].is_number()).is_some());
    hand.say(r#"{"message":{"channel":"lamp","payload":{"on":true}}}"#);
    hand.goes_to([0.5, -0.25]);
    assert!(operator.find(|line| line["payload"]["lamp"] == true).is_some(), "the lamp is on");
    let there = operator.find(|line| joint(line).is_some_and(|joint| (joint - 0.5).abs() < 1e-3));
    assert_eq!(there.map(|line| line["payload"]["position_rad"][1].as_f64()), Some(Some(-0.25)));
    // What a device's line lets through is the guard's: no further than the file's limits.
    hand.say("e");
    let stopped = robot.wait_for("stopped");
    assert_eq!(stopped["why"], "emergency", "{stopped}");
    // A line that is none is said, and does no harm; a word that is none would be a stop.
    hand.say(r#"{"move":{"channel":"leg","joints":{"position_rad":[0]}}}"#);
    hand.say("q");
    let ended = operator.find(|line| line["event"] == "summary").unwrap();
    let of = |name: &str| {
        let channels = ended["status"]["channels"].as_array().unwrap().iter();
        channels.clone().find(|channel| channel["name"] == name).unwrap().clone()
    };
    assert_eq!((&of("lamp")["made"], &of("lamp")["delivered"]), (&Value::from(1), &Value::from(1)));
    assert!(of("arm/measured_js")["delivered"].as_u64() > Some(0), "{ended}");
}

#[test]
fn a_class_as_the_operators_device_moves_the_robot_and_ends_the_session_with_itself() {
    let _beside = beside_others();
    if !has_python() {
        return;
    }
    let Site { world, mut robot, connect } = Site::new("exec");
    let mut operator = world.command(&connect);
    operator.args(["--input", "python:hand:Hand"]).env("PYTHONPATH", PYTHONPATH);
    let mut operator = Running::start(operator);
    robot.wait_for("enabled");
    // It ends when it has felt that the robot is where it was to go.
    assert!(operator.find(|line| line["event"] == "done").is_some());
    assert!(operator.find(|line| line["event"] == "summary").is_some());
    assert!(operator.child.wait().unwrap().success());
    robot.wait_for("closed");
}

#[test]
fn limits_of_states_are_refused_for_a_robot_that_channels_alone_move() {
    if !has_python() {
        return;
    }
    let world = World::new("channels-limits");
    world.write("channels.toml", example("toml", "[[channel]]"));
    world.write("robot.py", example("python", "two joints"));
    for limit in ["--force-limit 20", "--velocity-limit 1", "--position-limit=-1,-1,-1,1,1,1", "--refuse"] {
        let robot = "robot --listen 127.0.0.1:0 --transport udp --plaintext --channels channels.toml";
        let mut robot = world.command(&format!("{robot} --robot python:robot:Robot {limit}"));
        let refused = crate::world::ended(robot.env("PYTHONPATH", PYTHONPATH).output().unwrap());
        let option = limit.split(['=', ' ']).next().unwrap();
        let says = format!("{option} limits states, and `two joints` is moved by channels alone");
        assert!(refused.status == 2 && refused.err.contains(&says), "{limit}: {refused:?}");
    }
}

#[test]
fn a_robot_does_not_start_without_limits_for_what_moves_it_and_errors_name_file_and_line() {
    let world = World::new("channels-errors");
    let good = example("toml", "[[channel]]");
    world.write("good.toml", good);
    world.write("unlimited.toml", &good[..good.find("[limits").unwrap()]);
    world.write("typo.toml", good.replace("kind = \"feedback\"", "kind = \"feed\""));
    let limit = "<limit lower=\"-1\" upper=\"1\" velocity=\"1\" effort=\"10\"/>";
    let urdf = |limit| {
        format!("<robot name=\"arm\">\n<joint name=\"elbow\" type=\"revolute\">{limit}</joint></robot>")
    };
    world.write("arm.urdf", urdf(""));
    world.write("good.urdf", urdf(limit));
    let robot = "robot --listen 127.0.0.1:0 --transport udp --plaintext";
    for (arguments, told) in [
        (
            format!("{robot} --channels unlimited.toml"),
            "[limits.\"arm/servo_jp\"] with joints, position, velocity and effort",
        ),
        (format!("{robot} --channels typo.toml"), "unknown variant `feed`, expected one of `motion`"),
        (format!("{robot} --channels good.toml"), "the simulated robot is moved by states alone"),
        (
            format!("{robot} --channels unlimited.toml --limits arm.urdf"),
            "arm.urdf: line 2: joint \"elbow\": it has no limits, and is not moved without: add <limit lower=",
        ),
        (
            format!("{robot} --channels unlimited.toml --limits good.urdf"),
            "the simulated robot is moved by states alone",
        ),
        (format!("{robot} --channels good.toml --limits good.urdf"), "no joints without limits of their own"),
        (format!("{robot} --limits good.urdf"), "--channels"),
        (format!("{robot} --channels nowhere.toml"), "nowhere.toml: No such file"),
        (format!("{robot} --channels good.toml --codec omni71"), "omni71 has none"),
        (
            "operator --connect 127.0.0.1:1 --transport udp --plaintext --input lines --tui".to_owned(),
            "both need standard input",
        ),
    ] {
        let ended = world.taut(&arguments);
        assert_eq!(ended.status, 2, "{arguments}: {ended:?}");
        assert!(ended.err.contains(told), "{arguments}: {ended:?}");
    }
    let help = world.good("operator --help");
    assert!(help.contains("[[channel]]") && help.contains("[limits."), "{help}");
}

#[test]
fn a_console_is_given_a_model_of_primitives_and_a_channel_of_joints_or_does_not_start() {
    let world = World::new("channels-model");
    world.write("channels.toml", "[[channel]]\nname = \"arm/measured_js\"\nkind = \"telemetry\"\n");
    world.write("none.toml", "[[channel]]\nname = \"battery\"\nkind = \"telemetry\"\n");
    let arm = |link: &str| {
        format!("<robot>\n<link name=\"a\">{link}</link><joint name=\"j\" type=\"continuous\"/></robot>")
    };
    world.write("arm.urdf", arm(""));
    world.write(
        "mesh.urdf",
        arm("<visual><geometry><mesh filename=\"http://elsewhere/a.stl\"/></geometry></visual>"),
    );
    world.write("long.urdf", arm(&" ".repeat(1 << 20)));
    for (model, channels, why) in [
        (
            "mesh.urdf",
            "channels.toml",
            "--model mesh.urdf: line 2: a mesh is not shown; box, cylinder and sphere are",
        ),
        ("long.urdf", "channels.toml", "--model long.urdf is longer than 1 MiB"),
        ("no.urdf", "channels.toml", "--model no.urdf: No such file"),
        ("channels.toml", "channels.toml", "--model channels.toml: "),
        ("arm.urdf", "none.toml", "whose name ends with measured_js"),
    ] {
        let session = "--connect 127.0.0.1:9 --transport udp --plaintext --state kept --port 0";
        let ended = world.taut(&format!("console {session} --channels {channels} --model {model}"));
        assert_eq!(ended.status, 2, "{model}: {ended:?}");
        assert!(ended.err.contains(why), "{model}: {ended:?}");
    }
}
