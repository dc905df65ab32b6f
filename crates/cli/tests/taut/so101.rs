//! `so101:PORT` with a bus that is simulated at the other end of a pseudo-terminal: six servos that answer by Feetech's protocol.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::Value;

use crate::sessions::{Running, beside_one, for_a_while, signal};
use crate::world::World;

const CHANNELS: &str = r#"
[[channel]]
name = "arm/servo_jp"
kind = "motion"
schema = "taut/Joints"

[[channel]]
name = "arm/measured_js"
kind = "telemetry"

[limits."arm/servo_jp"]
joints = 6
position = [[-1.9, 1.9], [-1.7, 1.7], [-1.7, 1.7], [-1.6, 1.6], [-2.7, 2.7], [-0.2, 1.7]]
velocity = 2.0
effort = 0.955
"#;

#[derive(Clone, Copy, Debug)]
struct Servo {
    position: f32,
    goal: f32,
    torque_limit: u16,
    holds: bool,
}

/// What the servos are told, and what is wrong with them.
#[derive(Default)]
struct Shared {
    servos: Mutex<Vec<Servo>>,
    /// This one says nothing; [`ALL`]: none does.
    silent: AtomicU8,
    /// This one does not answer the second question.
    misses: AtomicU8,
    asked: AtomicU32,
    /// The third one's.
    errors: AtomicU8,
    unplugged: AtomicBool,
}

const ALL: u8 = u8::MAX;

struct Bus {
    shared: Arc<Shared>,
    path: String,
    thread: Option<JoinHandle<()>>,
    /// While it is held no other bus has this name: whoever waits for one that was pulled out would take the answers of that.
    _name: OwnedFd,
}

impl Bus {
    fn new(position: f32) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let path = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let name = open(&path, flags, Mode::empty()).unwrap();
        let servo = Servo { position, goal: position, torque_limit: 1_000, holds: false };
        let shared = Arc::new(Shared { servos: Mutex::new(vec![servo; 6]), ..Shared::default() });
        let theirs = shared.clone();
        let thread = std::thread::spawn(move || theirs.serve(master));
        Self { shared, path, thread: Some(thread), _name: name }
    }

    fn servo(&self, number: usize) -> Servo {
        self.shared.servos.lock().unwrap()[number - 1]
    }

    fn until(&self, what: impl Fn(&[Servo]) -> bool) {
        for _ in 0..3_000 {
            if what(&self.shared.servos.lock().unwrap()) {
                return;
            }
            for_a_while(10);
        }
        panic!("{:?}", self.shared.servos.lock().unwrap());
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        self.shared.unplugged.store(true, Ordering::Relaxed);
        let _ = self.thread.take().unwrap().join();
    }
}

impl Shared {
    fn serve(&self, master: OwnedFd) {
        // Servos do not wait for this machine: an arm stops when one is silent for five times 4 ms. Root may say so; to others a busy machine may
        // still look like a broken bus.
        let _ = rustix::process::setpriority_process(None, -20);
        rustix::io::ioctl_fionbio(&master, true).unwrap();
        let mut line = File::from(master);
        let mut bytes = Vec::new();
        while !self.unplugged.load(Ordering::Relaxed) {
            let mut buffer = [0; 512];
            match line.read(&mut buffer) {
                Ok(count) => bytes.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => for_a_while(1),
                Err(error) => panic!("{error}"),
            }
            while bytes.len() > 4 && bytes.len() >= 4 + usize::from(bytes[3]) {
                let length = 4 + usize::from(bytes[3]);
                let packet = &bytes[..length];
                assert_eq!(packet[..3], [0xff, 0xff, 0xfe], "{packet:02x?}");
                let sum = packet[2..].iter().fold(0, |sum: u8, byte| sum.wrapping_add(*byte));
                if sum != 0xff {
                    // Servos pass over a packet that was broken off, where the line took no more of it in time.
                    let next = packet[3..].windows(3).position(|head| head == [0xff, 0xff, 0xfe]);
                    let next = next.unwrap_or_else(|| panic!("the checksum of {packet:02x?}"));
                    drop(bytes.drain(..3 + next));
                    continue;
                }
                let packet: Vec<u8> = bytes.drain(..length).collect();
                let answers = self.obey(packet[4], &packet[5..packet.len() - 1]);
                self.answer(&mut line, &answers);
            }
        }
    }

    /// A servo answers whether anybody reads or not.
    fn answer(&self, line: &mut File, mut bytes: &[u8]) {
        while !bytes.is_empty() && !self.unplugged.load(Ordering::Relaxed) {
            match line.write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => for_a_while(1),
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn obey(&self, instruction: u8, parameters: &[u8]) -> Vec<u8> {
        let mut servos = self.servos.lock().unwrap();
        let (register, count) = (parameters[0], usize::from(parameters[1]));
        if instruction == 0x83 {
            for value in parameters[2..].chunks(count + 1) {
                let servo = &mut servos[usize::from(value[0]) - 1];
                let number = || u16::from_le_bytes([value[1], value[2]]);
                match register {
                    40 => servo.holds = value[1] == 1,
                    42 => servo.goal = f32::from(number()),
                    48 => servo.torque_limit = number(),
                    _ => panic!("register {register}"),
                }
            }
            return Vec::new();
        }
        assert_eq!(instruction, 0x82);
        let asked = if register == 56 { self.asked.fetch_add(1, Ordering::Relaxed) } else { 0 };
        let mut answers = Vec::new();
        for &number in &parameters[2..] {
            let servo = &mut servos[usize::from(number) - 1];
            if servo.holds {
                // 4 ms of 3000 steps a second.
                servo.position += (servo.goal - servo.position).clamp(-12.0, 12.0);
            }
            if [number, ALL].contains(&self.silent.load(Ordering::Relaxed))
                || asked == 1 && self.misses.load(Ordering::Relaxed) == number
            {
                continue;
            }
            let errors = if number == 3 { self.errors.load(Ordering::Relaxed) } else { 0 };
            let data = match (register, count) {
                (56, 6) => [(servo.position as u16).to_le_bytes(), [0; 2], [0; 2]].concat(),
                (40, 10) => {
                    let [on, goal, limit] =
                        [servo.holds.into(), servo.goal as u16, servo.torque_limit].map(u16::to_le_bytes);
                    [on, goal, [0; 2], [0; 2], limit].concat()
                }
                _ => panic!("{count} bytes from register {register}"),
            };
            let mut body = vec![number, count as u8 + 2, errors];
            body.extend(data);
            body.push(!body.iter().fold(0, |sum: u8, byte| sum.wrapping_add(*byte)));
            answers.extend([0xff, 0xff]);
            answers.extend(body);
        }
        answers
    }
}

/// A robot, and how its operators are started: where the machine is so busy that five answers in a row are late the arm stops, and goes on.
struct Site {
    world: World,
    robot: Running,
    connect: String,
    /// What the robot says when it is ready.
    listening: Value,
}

impl Site {
    fn new(name: &str, bus: &Bus) -> Self {
        let world = World::new(&format!("so101-{name}"));
        world.write("channels.toml", CHANNELS);
        Self::of(world, bus, "")
    }

    /// By what is in that folder, and with more arguments of the robot.
    fn of(world: World, bus: &Bus, more: &str) -> Self {
        let identity = |who: &str| world.taut(&format!("identity --path {who}")).out.trim().to_owned();
        let (robot_id, one) = (identity("robot"), identity("one"));
        let mut robot = Running::start(world.command(&format!(
            "robot --listen 127.0.0.1:0 --transport udp --identity robot --trust {one} --watchdog 1s --every 100ms --channels \
             channels.toml --json {more} --robot so101:{}",
            bus.path
        )));
        let listening = robot.wait_for("listening");
        let connect = format!(
            "operator --connect {} --robot-id {robot_id} --transport udp --identity one --channels channels.toml --resume always \
             --json",
            listening["address"].as_str().unwrap()
        );
        Self { world, robot, connect, listening }
    }

    /// Lets the whole arm go to 0.5 rad again and again, until it is dropped.
    fn moved(&self) -> (Running, Mover) {
        let mut operator = Running::start(self.world.command(&format!("{} --input lines", self.connect)));
        let mut stdin = operator.child.stdin.take().unwrap();
        let ends = Arc::new(AtomicBool::new(false));
        let theirs = ends.clone();
        let line =
            r#"{"move":{"channel":"arm/servo_jp","joints":{"position_rad":[0.5,0.5,0.5,0.5,0.5,0.5]}}}"#;
        let thread = std::thread::spawn(move || {
            while !theirs.load(Ordering::Relaxed) && writeln!(stdin, "{line}").is_ok() {
                for_a_while(10);
            }
        });
        (operator, Mover { ends, thread: Some(thread) })
    }
}

struct Mover {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Mover {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let _ = self.thread.take().unwrap().join();
    }
}

/// 0.5 rad.
const THERE: f32 = 2_048.0 + 0.5 * 4_096.0 / std::f32::consts::TAU;

fn are_there(servos: &[Servo]) -> bool {
    servos.iter().all(|servo| (servo.position - THERE).abs() < 2.0)
}

#[test]
fn an_arm_is_moved_to_its_goal_tells_where_it_is_and_holds_when_its_operator_is_gone() {
    let _beside = beside_one();
    let bus = Bus::new(2_048.0);
    let mut site = Site::new("moves", &bus);
    bus.until(|servos| servos[0].holds && servos[5].torque_limit == 500);
    let (mut operator, mover) = site.moved();
    bus.until(are_there);
    let told = |line: &Value| {
        let near = |joint: &Value| joint.as_f64().is_some_and(|angle| (angle - 0.5).abs() < 0.01);
        let joints = line["payload"]["position_rad"].as_array();
        line["event"] == "message" && joints.is_some_and(|all| all.iter().all(near))
    };
    assert!(operator.find(told).is_some());
    drop(mover);
    operator.child.kill().unwrap();
    site.robot.wait_for("stopped");
    bus.until(|servos| servos[2].holds && (servos[2].goal - servos[2].position).abs() < 2.0);
    assert_eq!(site.robot.end("-TERM").0, 0);
    assert!(bus.servo(3).holds, "it does not fall");
}

#[test]
fn whatever_is_wrong_with_its_bus_stops_the_robot_and_is_named() {
    let _beside = beside_one();
    for (fault, says) in
        [("silent", "servo 3 does not answer"), ("errors", "servo 3: overload"), ("unplugged", "bus")]
    {
        let bus = Bus::new(2_048.0);
        let mut site = Site::new(fault, &bus);
        let (_operator, _mover) = site.moved();
        bus.until(are_there);
        match fault {
            "silent" => bus.shared.silent.store(3, Ordering::Relaxed),
            "errors" => bus.shared.errors.store(1 << 5, Ordering::Relaxed),
            _ => bus.shared.unplugged.store(true, Ordering::Relaxed),
        }
        let mut seen = Vec::new();
        let (mut stopped, mut named) = (false, false);
        while !stopped {
            let line = site.robot.find(|_| true).unwrap_or_else(|| panic!("{fault}: {seen:.2000?}"));
            named |= line["event"] == "device_failed" && line.to_string().contains(says);
            stopped = named && line["event"] == "stopped" && line["why"] == "device";
            seen.extend((line["event"] != "status").then(|| line.to_string()));
        }
    }
}

const JOINTS: [&str; 6] =
    ["shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper"];

#[test]
fn each_joint_has_the_limits_that_a_urdf_has_by_its_name_whatever_the_files_order() {
    let _beside = beside_one();
    let joint = |(at, name): (usize, &&str)| {
        let (number, effort) = (at + 1, 0.2 * (at + 1) as f64);
        let limit =
            format!(r#"<limit lower="-{number}" upper="{number}" velocity="2" effort="{effort:.1}"/>"#);
        format!(r#"<joint name="{name}" type="revolute">{limit}</joint>"#)
    };
    let reversed: String = JOINTS.iter().enumerate().map(joint).rev().collect();
    let (channels, _) = CHANNELS.split_once("[limits").unwrap();
    let table = format!("{channels}[limits.\"arm/servo_jp\"]\nurdf = \"arm.urdf\"\n");
    for (name, channels, more) in [("urdf", channels, "--limits arm.urdf"), ("urdf-in-table", &table, "")] {
        let bus = Bus::new(2_048.0);
        let world = World::new(&format!("so101-{name}"));
        world.write("channels.toml", channels);
        world.write("arm.urdf", format!("<robot name=\"arm\">{reversed}</robot>"));
        let site = Site::of(world, &bus, more);
        // By their torque limits, which rise from the base.
        bus.until(|servos| servos.windows(2).all(|pair| pair[0].torque_limit < pair[1].torque_limit));
        let joints = &site.listening["device"]["joints"][0];
        assert_eq!(joints["channel"], "arm/servo_jp");
        assert_eq!(joints["names"], serde_json::json!(JOINTS));
    }
}

#[test]
fn a_servo_that_misses_a_question_at_the_start_stays_where_it_is() {
    let _beside = beside_one();
    let bus = Bus::new(2_600.0);
    bus.shared.misses.store(4, Ordering::Relaxed);
    let _site = Site::new("misses", &bus);
    bus.until(|servos| servos.iter().all(|servo| servo.holds && servo.torque_limit == 500));
    let goals: Vec<f32> = bus.shared.servos.lock().unwrap().iter().map(|servo| servo.goal).collect();
    assert!(goals.iter().all(|goal| (goal - 2_600.0).abs() < 2.0), "{goals:?}");
}

#[test]
fn servos_that_were_without_power_have_their_limits_again_before_they_move() {
    let _beside = beside_one();
    let bus = Bus::new(2_048.0);
    let mut site = Site::new("power", &bus);
    let (_operator, _mover) = site.moved();
    bus.until(are_there);
    bus.shared.silent.store(ALL, Ordering::Relaxed);
    site.robot.find(|line| line["event"] == "stopped" && line["why"] == "device").unwrap();
    // As one is that has just been given its power.
    for servo in bus.shared.servos.lock().unwrap().iter_mut() {
        *servo = Servo { position: 2_048.0, goal: 2_048.0, torque_limit: 1_000, holds: false };
    }
    bus.shared.silent.store(0, Ordering::Relaxed);
    bus.until(|servos| {
        are_there(servos) && servos.iter().all(|servo| servo.holds && servo.torque_limit == 500)
    });
}

/// Programs that this one has started and that have this file open.
fn users(parent: u32, path: &str) -> usize {
    let of = |process: std::fs::DirEntry| {
        let at = process.path();
        let stat = std::fs::read_to_string(at.join("stat")).ok()?;
        let theirs = stat.rsplit_once(") ")?.1.split(' ').nth(1)? == parent.to_string();
        let mut open = std::fs::read_dir(at.join("fd")).ok()?.flatten();
        let has = |file: std::fs::DirEntry| {
            std::fs::read_link(file.path())
                .is_ok_and(|link| link.to_string_lossy().trim_end_matches(" (deleted)") == path)
        };
        (theirs && open.any(has)).then_some(())
    };
    std::fs::read_dir("/proc").unwrap().flatten().filter_map(of).count()
}

#[test]
fn a_bus_that_was_pulled_out_is_let_go_of_so_that_it_can_come_back_by_its_name() {
    let _beside = beside_one();
    let bus = Bus::new(2_048.0);
    let site = Site::new("let-go", &bus);
    bus.until(|servos| servos[0].holds);
    let robot = site.robot.pid();
    assert_eq!(users(robot, &bus.path), 1);
    bus.shared.unplugged.store(true, Ordering::Relaxed);
    for _ in 0..3_000 {
        if users(robot, &bus.path) == 0 {
            return;
        }
        for_a_while(10);
    }
    panic!("it has {} open still", bus.path);
}

#[test]
fn a_leader_that_is_pulled_out_says_so() {
    let _beside = beside_one();
    let (follower, leader) = (Bus::new(2_048.0), Bus::new(2_300.0));
    let mut site = Site::new("leader-gone", &follower);
    let input = format!("{} --input so101:{}", site.connect, leader.path);
    let mut operator = Running::start(site.world.command(&input));
    follower.until(|servos| servos.iter().all(|servo| (servo.position - 2_300.0).abs() < 2.0));
    leader.shared.unplugged.store(true, Ordering::Relaxed);
    // Before that a busy machine may have held up the follower's own bus.
    let stopped = site.robot.find(|line| line["event"] == "stopped" && line["why"] != "device");
    assert_eq!(stopped.unwrap()["why"], "watchdog");
    signal(operator.pid(), "-TERM");
    let mut err = String::new();
    operator.child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert!(err.contains("the leader arm: bus: ") && !err.contains("frame"), "{err}");
}

#[test]
fn a_leader_moves_a_follower() {
    let _beside = beside_one();
    let (follower, leader) = (Bus::new(2_048.0), Bus::new(2_300.0));
    let site = Site::new("leader", &follower);
    let input = format!("{} --input so101:{}", site.connect, leader.path);
    let operator = Running::start(site.world.command(&input));
    follower.until(|servos| servos.iter().all(|servo| (servo.position - 2_300.0).abs() < 2.0));
    assert!(!leader.servo(1).holds, "a hand moves it");
    leader.shared.servos.lock().unwrap()[1].position = 2_100.0;
    follower.until(|servos| (servos[1].position - 2_100.0).abs() < 2.0);
    assert_eq!(operator.end("-TERM").0, 0);
}

#[test]
fn a_leader_is_no_enabling_input_and_beside_it_a_key_may_be() {
    let _beside = beside_one();
    let (follower, leader) = (Bus::new(2_048.0), Bus::new(2_300.0));
    let world = World::new("so101-hold-to-run");
    world.write("channels.toml", CHANNELS);
    let mut site = Site::of(world, &follower, "--hold-to-run");
    let input = format!("{} --input so101:{}", site.connect, leader.path);
    let operator = Running::start(site.world.command(&input));
    let released = site.robot.find(|line| line["event"] == "stopped" && line["why"] == "released");
    assert!(released.is_some());
    assert!((follower.servo(1).position - 2_048.0).abs() < 2.0, "{:?}", follower.servo(1));
    operator.end("-TERM");
    let key = format!("{input} --commands --hold-to-run 1s");
    let mut operator = Running::start(site.world.command(&key));
    let mut stdin = operator.child.stdin.take().unwrap();
    let holds = std::thread::spawn(move || {
        while writeln!(stdin, "d").is_ok() {
            for_a_while(50)
        }
    });
    follower.until(|servos| servos.iter().all(|servo| (servo.position - 2_300.0).abs() < 2.0));
    drop(operator);
    holds.join().unwrap();
}

#[test]
fn a_start_without_its_arm_latches_no_stop_and_lets_go_of_none() {
    let _beside = beside_one();
    let bus = Bus::new(2_048.0);
    let mut world = World::new("so101-latch");
    world.write("channels.toml", CHANNELS);
    for latched in [Value::Null, "restart".into()] {
        let absent = "robot --listen 127.0.0.1:0 --transport udp --plaintext --channels channels.toml --robot so101:nowhere";
        let absent = world.taut(absent);
        assert!(absent.status == 2 && absent.err.contains("nowhere: No such file"), "{absent:?}");
        let site = Site::of(world, &bus, "");
        assert_eq!(site.listening["latched"], latched);
        site.robot.kill();
        world = site.world;
    }
}

#[test]
fn what_is_no_arm_is_refused_with_what_to_do() {
    let world = World::new("so101-refused");
    world.write("channels.toml", CHANNELS);
    let start = |port: &str, more: &str| {
        let robot = "robot --listen 127.0.0.1:0 --transport udp --plaintext";
        world.taut(&format!("{robot} --robot so101:{port} {more}")).err
    };
    let err = start("nowhere", "--channels channels.toml");
    assert!(err.contains("nowhere: No such file"), "{err}");
    let bus = Bus::new(2_048.0);
    bus.shared.silent.store(4, Ordering::Relaxed);
    let err = start(&bus.path, "--channels channels.toml");
    let missing = err.split("no answer of servo ").nth(1).and_then(|rest| rest.split(" at ").next());
    assert!(missing.is_some_and(|servos| servos.contains('4')) && err.contains("power"), "{err}");
    bus.shared.silent.store(0, Ordering::Relaxed);
    let robot = Site::new("taken", &bus);
    let err = start(&bus.path, "--channels channels.toml");
    assert!(err.contains("another program has it open"), "{err}");
    drop(robot);
    let limits = "--position-limit=-1,-1,-1,1,1,1 --velocity-limit 5 --force-limit 20";
    let err = start(&bus.path, limits);
    assert!(err.contains("taut/Joints with 6 joints"), "{err}");
}
