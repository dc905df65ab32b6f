//! One robot with a device in a process of its own, one fault after the other. The device's log is what happened: it is enabled as
//! often as a person resumed, and never once more.

use std::fs;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::sessions::{Running, alone, for_a_while, signal};
use crate::world::World;

/// Longer than a busy machine leaves a process without its turn.
const WATCHDOG_MS: f64 = 500.0;
const LIMITS: &str = "--position-limit=-1,-1,-1,1,1,1 --velocity-limit 5 --force-limit 20";

struct Scene {
    world: World,
    address: String,
    robot_id: String,
    operators: [String; 2],
    robot: Running,
    /// How often a person resumed.
    resumed: usize,
    /// Lives of the robot, each with a device and its log.
    lives: usize,
}

impl Scene {
    fn new() -> Self {
        let world = World::new("fault-script");
        let identity = |who: &str| world.taut(&format!("identity --path {who}")).out.trim().to_owned();
        let (robot_id, operators) = (identity("robot"), [identity("one"), identity("two")]);
        let free = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap().to_string();
        drop(free);
        let robot = start_robot(&world, &address, &operators, 0);
        Self { world, address, robot_id, operators, robot, resumed: 0, lives: 1 }
    }

    /// Somebody starts it again, beside the same file.
    fn start_again(&mut self) {
        self.robot = start_robot(&self.world, &self.address, &self.operators, self.lives);
        self.lives += 1;
    }

    fn operator(&self, who: &str, more: &str) -> Running {
        Running::start(self.world.command(&format!(
            "operator --connect {} --robot-id {} --transport udp --identity {who} --state state-{who} --every 50ms --commands --json \
             {more}",
            self.address, self.robot_id
        )))
    }

    fn connected(&self, who: &str, more: &str) -> Running {
        let mut operator = self.operator(who, more);
        operator.wait_for("connected");
        operator
    }

    /// What all devices were told and did.
    fn log(&self) -> Vec<Value> {
        let mut lines = Vec::new();
        for life in 0..self.lives {
            let text = fs::read_to_string(self.world.path(&format!("log{life}"))).unwrap_or_default();
            let whole = text.rfind('\n').map_or("", |end| &text[..end]);
            lines.extend(whole.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()));
        }
        lines
    }

    fn count(&self, what: impl Fn(&Value) -> bool) -> usize {
        self.log().iter().filter(|line| what(line)).count()
    }

    fn wait_until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        for _ in 0..3_000 {
            if is_so(self) {
                return;
            }
            for_a_while(10);
        }
        panic!("{what}: never; the device did last {:?}", self.log().last());
    }

    /// A person resumes, and the arm moves.
    fn resume(&mut self, operator: &mut Running) {
        let before = self.count(applied);
        self.resumed += 1;
        operator.say("r");
        self.wait_until("it moves", |scene| scene.count(applied) > before + 20);
    }

    /// A person lets go of the stop.
    fn reset(&self, operator: &mut Running) {
        operator.say("c");
        operator.wait_for("reset");
    }

    /// The arm stands, and goes on standing, although states may come; nobody has resumed.
    fn stands(&self, after: &str) {
        self.wait_until("it stops", |scene| {
            let log = scene.log();
            let last = |what: fn(&Value) -> bool| log.iter().rposition(what);
            last(stopped) > last(enabled)
        });
        let before = self.count(applied);
        for_a_while(400);
        assert_eq!(self.count(applied), before, "after {after} it moved");
        assert_eq!(self.count(enabled), self.resumed, "after {after} it was enabled without a person");
    }

    /// How long after the last state was made the robot says that it stopped.
    fn stopped_within(&mut self, fault: &str, why: &str) {
        let line = self.robot.find(|line| line["event"] == "stopped" && line["why"] == why);
        let silence = line.unwrap_or_else(|| panic!("{fault}: not stopped by {why}"))["silence_ms"].as_f64();
        println!("{fault}: stopped {silence:?} ms after the last state was applied");
        // What a busy machine adds is not the robot's.
        assert!(silence.is_none_or(|ms| ms <= 2.0 * WATCHDOG_MS), "{fault}: {silence:?} ms");
    }
}

fn start_robot(world: &World, address: &str, operators: &[String; 2], life: usize) -> Running {
    let [one, two] = operators;
    let mut robot = world.command(&format!(
        "robot --listen {address} --transport udp --identity robot --trust {one} --trust {two} --watchdog {WATCHDOG_MS}ms \
         --state kept/robot --every 100ms --commands --json {LIMITS}"
    ));
    let taut = env!("CARGO_BIN_EXE_taut");
    robot.arg("--robot").arg(format!("exec:{taut} device sim --log log{life}"));
    let mut robot = Running::start(robot);
    robot.wait_for("listening");
    robot
}

fn applied(line: &Value) -> bool {
    line["applied"] == true
}

fn enabled(line: &Value) -> bool {
    line["told"].get("enable").is_some()
}

fn stopped(line: &Value) -> bool {
    line["event"] == "stopped" || line["event"] == "ended"
}

/// Bytes that look like the beginning of a handshake and are none, 400 times a second, until it is dropped.
struct Flood(Arc<AtomicBool>, Option<std::thread::JoinHandle<u64>>);

impl Flood {
    fn against(address: &str) -> Self {
        let (ends, address) = (Arc::new(AtomicBool::new(false)), address.to_owned());
        let shared = Arc::clone(&ends);
        let work = move || {
            let mut sent = 0;
            while !shared.load(Ordering::Relaxed) && sent < 4_000 {
                // Each from an address of its own, as by somebody who forges them.
                let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
                for size in [92, 116, 148, 200] {
                    let bytes: Vec<u8> =
                        (0..size).map(|n: u64| (n * 31 + sent * 7) as u8 | u8::from(n == 0)).collect();
                    sent += u64::from(socket.send_to(&bytes, &address).is_ok());
                }
                std::thread::park_timeout(Duration::from_millis(10));
            }
            sent
        };
        Self(ends, Some(std::thread::spawn(work)))
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        let sent = self.1.take().map(|thread| thread.join());
        println!("forged handshakes: {sent:?}");
    }
}

#[test]
fn nothing_that_fails_moves_the_arm_and_only_a_person_does() {
    let _alone = alone();
    let mut scene = Scene::new();

    // Nobody has resumed.
    let mut one = scene.connected("one", "");
    for_a_while(300);
    assert_eq!(scene.count(applied) + scene.count(enabled), 0);
    scene.resume(&mut one);

    signal(one.pid(), "-STOP");
    scene.stopped_within("the operator is frozen", "watchdog");
    scene.stands("a frozen operator");
    signal(one.pid(), "-CONT");
    scene.stands("an operator that goes on");
    scene.resume(&mut one);

    one.kill();
    scene.stopped_within("the operator is killed", "watchdog");
    scene.stands("a killed operator");
    let mut one = scene.connected("one", "");
    scene.stands("a new operator");
    scene.resume(&mut one);

    // A second one does not get it, and does not stop it either.
    let mut two = scene.operator("two", "--resume always");
    let refused = scene.robot.find(|line| line["event"] == "refused" && line["busy"].as_u64() > Some(0));
    assert!(refused.is_some(), "it is busy");
    two.say("r");
    two.kill();
    assert_eq!(scene.count(enabled), scene.resumed);

    let flood = Flood::against(&scene.address);
    let before = scene.count(applied);
    scene.wait_until("it moves on under forged handshakes", |scene| scene.count(applied) > before + 300);
    drop(flood);

    signal(scene.robot.pid(), "-STOP");
    scene.stands("a frozen robot");
    signal(scene.robot.pid(), "-CONT");
    // The device has stood since its lease was over; when the robot noticed depends on how long it was frozen.
    let stopped = scene.robot.find(|line| line["event"] == "stopped" && line["why"] == "watchdog");
    assert!(stopped.is_some(), "a robot that was frozen: not stopped by its watchdog");
    scene.stands("a robot that goes on");
    scene.resume(&mut one);

    // The operator's button is cut off: latched, whoever comes.
    one.cut_input();
    scene.stopped_within("the operator's input is cut", "emergency");
    scene.stands("a cut input");
    one.kill();
    let mut one = scene.connected("one", "--resume always");
    one.say("r");
    scene.stands("a resume of what is latched");
    scene.reset(&mut one);
    scene.stands("a reset");
    scene.resume(&mut one);

    // The robot's disk fails: the stop holds, and says that it is not kept.
    let kept = scene.world.path("kept");
    // A folder that is only gone is made anew: a file is in its place.
    while fs::write(&kept, "").is_err() {
        let _ = fs::remove_dir_all(&kept);
    }
    one.say("e");
    let told = one.wait_for("emergency_stopped");
    assert_eq!(told["kept"], false, "{told}");
    scene.stands("a stop that could not be written");
    fs::remove_file(&kept).unwrap();
    fs::create_dir_all(&kept).unwrap();
    scene.reset(&mut one);
    // A robot whose file is gone begins anew: what has just been let go of is written first, however slow the disk is.
    scene.wait_until("it keeps what is latched again", |scene| scene.world.path("kept/robot").exists());
    scene.resume(&mut one);

    // Nobody reads what it prints any more.
    scene.robot.cut_output();
    let before = scene.count(applied);
    scene.wait_until("it moves on without an output", |scene| scene.count(applied) > before + 300);

    signal(scene.robot.pid(), "-KILL");
    scene.stands("a killed robot");
    drop(one);
    scene.start_again();
    let mut one = scene.connected("one", "--resume always");
    one.say("r");
    scene.wait_until("it is latched", |_| true);
    for_a_while(500);
    assert_eq!(scene.count(enabled), scene.resumed, "after a restart it was enabled without a person");
    scene.reset(&mut one);
    scene.resume(&mut one);
    println!("enabled {} times, as often as a person resumed", scene.resumed);
}
