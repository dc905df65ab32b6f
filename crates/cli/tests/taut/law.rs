//! Control laws of `taut robot` and `taut operator`, as two processes.

use std::cell::Cell;

use serde_json::Value;

use crate::devices::{PYTHONPATH, has_python};
use crate::sessions::{Running, beside_one, signal};
use crate::world::{World, ended};

/// A session of six seconds with a wall: the operator's summary, the most that it was told of what the robot feels along or about x, N or N·m, and all that the robot said.
fn felt(world: &World, robot: &str, operator: &str, what: &str) -> (Value, f64, String) {
    let _beside = beside_one();
    let mut robot = Running::start(world.command(&format!(
        "robot --listen 127.0.0.1:0 --plaintext --transport udp --state kept --watchdog 1s --robot sim:wall {robot} --json"
    )));
    let address = robot.wait_for("listening")["address"].as_str().unwrap().to_owned();
    let mut operator = Running::start(world.command(&format!(
        "operator --connect {address} --plaintext --transport udp --state asked --messages 6000 --every 100ms {operator} --json"
    )));
    let most = Cell::new(0.0_f64);
    let summary = operator
        .find(|line| {
            let force = &line[what][0];
            most.set(most.get().max(force.as_f64().unwrap_or_default().abs()));
            line["event"] == "summary"
        })
        .expect("it ends with a summary");
    signal(robot.pid(), "-TERM");
    let said = Cell::new(String::new());
    robot.find(|line| {
        said.set(said.take() + &line.to_string());
        line["event"] == "summary"
    });
    println!("{} at most; {summary}", most.get());
    (summary, most.get(), said.take())
}

#[test]
fn hand_and_arm_meet_a_wall_by_either_passive_law() {
    for law in ["wave", "tdpa"] {
        let law = format!("--law {law}");
        let operator = format!("{law} --resume start");
        let (operator, most, said) = felt(&World::new(&law[6..]), &law, &operator, "robot_force_n");
        assert!(most > 0.2, "{law}: nothing is touched");
        assert!(operator["status"]["delivered"].as_u64() > Some(1_000), "{law}: {operator}");
        assert!(!said.contains("both ends need"), "{law}: {said}");
    }
}

#[test]
fn a_hand_turns_an_arm_against_a_stop_by_every_law_and_feels_its_torque() {
    for law in ["position_force", "position_position", "wave", "tdpa"] {
        let world = World::new(&format!("turns-{law}"));
        let law = format!("--law {law} --turns");
        // On a busy machine the watchdog's second is over now and then.
        let records = format!("{law} --resume always --record turns.mcap");
        let (operator, most, said) = felt(&world, &law, &records, "robot_torque_nm");
        assert!(most > 0.02, "{law}: nothing is touched");
        assert!(operator["status"]["delivered"].as_u64() > Some(1_000), "{law}: {operator}");
        assert!(!said.contains("both ends need") && !said.contains("turned_apart"), "{law}: {said}");
        let recorded = world.good("trace info turns.mcap");
        for column in
            ["robot_state_torque_x", "operator_state_angular_velocity_x", "robot_state_orientation_w"]
        {
            assert!(recorded.contains(column), "{law}: {recorded}");
        }
    }
}

/// It goes where it is led, and writes down once how it was turned.
const ARM: &str = r#"
from taut.device import Limits, State

class Arm:
    limits = Limits(position=((-5, -5, -5), (5, 5, 5)), velocity=5, force=20)
    limits_force = True

    def __init__(self):
        self.here = State(angular_velocity=(0, 0, 0), torque=(0, 0, 0))
        self.told = False

    def measure(self):
        return self.here

    def apply(self, state, lease):
        self.here = State(state.position, state.orientation_wxyz, angular_velocity=state.angular_velocity, torque=(0, 0, 0))
        if abs(state.orientation_wxyz[0]) < 0.9999 and not self.told:
            self.told = True
            open("turned", "w").close()

    def stop(self, cause):
        pass
"#;

/// It writes down the most that it was pushed with, and goes to and fro.
const HAND: &str = r#"
from math import cos, pi, sin, sqrt
from time import monotonic
from taut.device import State

class Hand:
    def __init__(self):
        self.most = 0.0

    def sample(self):
        turn = 2 * pi * monotonic()
        return State((0.05 * sin(turn), 0, 0), velocity=(0.1 * pi * cos(turn), 0, 0))

    def feel(self, state):
        force = sqrt(sum(part * part for part in state.force))
        if force > self.most:
            self.most = force
            with open("most", "w") as file:
                file.write(str(force))
"#;

#[test]
fn the_largest_force_at_the_hand_holds_by_every_law() {
    let _beside = beside_one();
    if !has_python() {
        return;
    }
    for law in ["position_force", "position_position", "wave", "tdpa"] {
        let world = World::new(&format!("force-limit-{law}"));
        world.write("hand.py", HAND);
        let mut robot = Running::start(world.command(&format!(
            "robot --listen 127.0.0.1:0 --plaintext --transport udp --state kept --watchdog 1s --robot sim:wall --law {law} --json"
        )));
        let address = robot.wait_for("listening")["address"].as_str().unwrap().to_owned();
        let mut operator = world.command(&format!(
            "operator --connect {address} --plaintext --transport udp --state asked --messages 4000 --law {law} \
             --force-limit 0.5 --resume start --input python:hand:Hand"
        ));
        operator.env("PYTHONPATH", PYTHONPATH);
        let told = ended(operator.output().unwrap());
        signal(robot.pid(), "-TERM");
        robot.wait_for("summary");
        assert_eq!(told.status, 0, "{law}: {told:?}");
        let most: f64 = std::fs::read_to_string(world.path("most")).unwrap().parse().unwrap();
        assert!((0.1..0.501).contains(&most), "{law}: {most} N");
    }
}

#[test]
fn an_arm_that_is_a_class_of_python_is_turned_by_a_law() {
    let _beside = beside_one();
    if !has_python() {
        return;
    }
    for law in ["position_position", "wave"] {
        let world = World::new(&format!("turns-python-{law}"));
        world.write("turning_arm.py", ARM);
        let mut robot = world.command(&format!(
            "robot --listen 127.0.0.1:0 --plaintext --transport udp --state kept --watchdog 1s --robot python:turning_arm:Arm \
             --law {law} --turns --servo 3000,45 --turning-servo 30,0.45 --angular-velocity-limit 3 --torque-limit 1 --json"
        ));
        robot.env("PYTHONPATH", PYTHONPATH);
        let mut robot = Running::start(robot);
        let address = robot.wait_for("listening")["address"].as_str().unwrap().to_owned();
        let told = world.taut(&format!(
            "operator --connect {address} --plaintext --transport udp --state asked --messages 5000 --law {law} --turns \
             --resume always --json"
        ));
        signal(robot.pid(), "-TERM");
        robot.wait_for("summary");
        assert!(told.status == 0 && world.path("turned").exists(), "{law}: {told:?}");
    }
}

#[test]
fn ends_of_which_one_turns_say_what_to_do_at_once() {
    let _beside = beside_one();
    let world = World::new("turns-apart");
    for (robot, operator) in [("--turns", ""), ("", "--turns")] {
        let mut robot = Running::start(world.command(&format!(
            "robot --listen 127.0.0.1:0 --plaintext --transport udp --state kept --robot sim:wall {robot} --json"
        )));
        let address = robot.wait_for("listening")["address"].as_str().unwrap().to_owned();
        let ended = world.taut(&format!(
            "operator --connect {address} --plaintext --transport udp --state asked --messages 10 {operator}"
        ));
        let says = "have both ends do so (`turns`), or neither";
        assert!(ended.status != 0 && ended.err.contains(says), "{ended:?}");
        assert!(robot.wait_for("incompatible")["error"].as_str().unwrap().contains(says));
        signal(robot.pid(), "-TERM");
        robot.wait_for("summary");
    }
}

#[test]
fn ends_of_different_laws_or_servos_have_no_session_and_both_say_so() {
    let _beside = beside_one();
    let world = World::new("laws-apart");
    let pairs = [
        ("--law wave", "--law tdpa", "`wave` with a servo of 3000 N/m"),
        ("--law tdpa", "", "none that it has to say"),
        ("", "--law position_position", "`position_position`"),
        ("--law tdpa --servo 2000,45", "--law tdpa", "2000 N/m"),
    ];
    for (robot, operator, says) in pairs {
        let mut robot = Running::start(world.command(&format!(
            "robot --listen 127.0.0.1:0 --plaintext --transport udp --state kept --robot sim:wall {robot} --json"
        )));
        let address = robot.wait_for("listening")["address"].as_str().unwrap().to_owned();
        let ended = world.taut(&format!(
            "operator --connect {address} --plaintext --transport udp --state asked --resume start --messages 10 {operator}"
        ));
        let what = "give both the same control law";
        assert!(ended.status != 0 && ended.err.contains(what) && ended.err.contains(says), "{ended:?}");
        let told = robot.wait_for("incompatible")["error"].as_str().unwrap().to_owned();
        assert!(told.contains(what) && told.contains(says), "{told}");
        signal(robot.pid(), "-TERM");
        assert_eq!(robot.wait_for("summary")["status"]["delivered"], 0);
    }
}

#[test]
fn what_does_not_go_with_a_law_is_refused_with_what_to_do() {
    let world = World::new("law-refused");
    let refused = |argument: &str| {
        let ended = world
            .taut(&format!("robot --listen 127.0.0.1:0 --plaintext --transport udp --state none {argument}"));
        assert_ne!(ended.status, 0, "{argument}");
        ended.err
    };
    assert!(refused("--law waves").contains("position_force, position_position, wave, tdpa"));
    assert!(refused("--law wave --codec omni71").contains("leave out --codec"));
    assert!(refused("--law wave --servo 3000").contains("write 3000,45"));
    for (servo, why) in [
        ("--servo 0.001,0.001", "0.001 is not 10 to 100000 N/m: what is softer gives way by 10 cm to 1 N"),
        ("--servo 1000000,45", "1000000 is not 10 to 100000 N/m"),
        ("--servo 3000,0.001", "0.001 is not 3 to 3000 N·s/m: with this stiffness"),
        ("--servo 3000,inf", "inf is not 3 to 3000 N·s/m"),
        ("--servo nan,45", "NaN is not 10 to 100000 N/m"),
        (
            "--turns --turning-servo 0.001,0.001",
            "0.001 is not 0.1 to 1000 N·m/rad: what is softer gives way by 10 rad",
        ),
        ("--turns --turning-servo 30", "write 30,0.45"),
    ] {
        assert!(refused(servo).contains(why), "{servo}: {}", refused(servo));
    }
    assert!(refused("--law oracle").contains("known in simulation alone"));
    assert!(refused("--servo 3000,45").contains("--servo does nothing here"));
    let hand = "operator --connect x:1 --plaintext --transport udp --state none --turns --hand-torque 0";
    assert!(world.taut(hand).err.contains("0.0001 to 100 N·m"));
    let hand = "operator --connect x:1 --plaintext --transport udp --input demo --law tdpa --force-limit 0";
    assert!(world.taut(hand).err.contains("0.001 N or more"));
    assert!(refused("--turns --codec omni71").contains("leave out --codec"));
}
