//! A robot's process whose input, output or host fails: it stops, or goes on as if nothing were.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::UdpSocket;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use serde_json::Value;

use crate::sessions::{Running, beside_others, signal};
use crate::world::World;

/// A robot that may fail, and an operator that moves it and sees what becomes of it.
struct Scene {
    world: World,
    robot: Guarded,
    robot_id: String,
    address: String,
}

/// A process that is killed with its test.
struct Guarded(Child);

impl Guarded {
    fn pid(&self) -> u32 {
        self.0.id()
    }

    fn runs(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }

    fn stdin(&mut self) -> &mut ChildStdin {
        self.0.stdin.as_mut().unwrap()
    }

    /// Its exit status once it has ended by itself.
    fn ended(&mut self) -> i32 {
        self.0.wait().unwrap().code().unwrap_or(-1)
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process that is nobody's child when its test ends: it wrote its number into `pid` of the folder that it works in.
struct Orphan(PathBuf);

impl Drop for Orphan {
    fn drop(&mut self) {
        let pid = std::fs::read_to_string(self.0.join("pid")).unwrap_or_default();
        let folder = std::fs::read_link(format!("/proc/{}/cwd", pid.trim()));
        if folder.is_ok_and(|folder| self.0.canonicalize().is_ok_and(|ours| ours == folder)) {
            let _ = Command::new("kill").args(["-KILL", pid.trim()]).status();
        }
    }
}

impl Scene {
    /// A robot with these arguments besides, whose streams and environment `arrange` may change: standard input is a pipe,
    /// the others lead nowhere.
    fn robot(name: &str, more: &str, arrange: impl FnOnce(&mut Command)) -> Self {
        Self::shell(name, &format!("{more} "), "", arrange)
    }

    /// The same under a shell, with these redirections.
    fn shell(name: &str, more: &str, redirections: &str, arrange: impl FnOnce(&mut Command)) -> Self {
        let world = World::new(&format!("fault-{name}"));
        let identity = |who: &str| world.taut(&format!("identity --path {who}")).out.trim().to_owned();
        let (robot_id, operator_id) = (identity("robot"), identity("operator"));
        // Free at this moment; what a robot prints need not be there to be read.
        let free = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap().to_string();
        drop(free);
        let taut = env!("CARGO_BIN_EXE_taut");
        // Under nohup(1), or behind the & of a script, all would ignore some signals.
        let line = format!(
            "exec env --default-signal {taut} robot --listen {address} --transport udp --identity robot --trust {operator_id} --watchdog 5s \
             --state state --json {more} {redirections}"
        );
        let mut command = Command::new("sh");
        command.args(["-c", &line]).current_dir(world.path(".")).env("XDG_STATE_HOME", world.path("state"));
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        arrange(&mut command);
        let robot = Guarded(command.spawn().unwrap());
        Self { world, robot, robot_id, address }
    }

    /// An operator that has said `event`.
    fn operator(&self, more: &str, event: &str) -> Running {
        let Self { address, robot_id, .. } = self;
        let resume = if more.contains("--resume") { "" } else { "--resume start" };
        // The robot may not listen yet.
        for _ in 0..12 {
            let mut operator = Running::start(self.world.command(&format!(
                "operator --connect {address} --robot-id {robot_id} --transport udp --identity operator --state pressed --json --commands \
                 --every 50ms {resume} {more}"
            )));
            if operator.find(|line| line["event"] == event).is_some() {
                return operator;
            }
        }
        panic!("no operator came to `{event}`");
    }
}

/// The robot moves, now and a while later.
fn moves_on(operator: &mut Running) {
    let delivered = |operator: &mut Running| {
        let status = operator.find(|line| line["event"] == "status" && line["standing"] == "MOVING");
        status.unwrap_or_else(|| panic!("it moves no more; last it said {}", operator.last))["status"]["delivered"].as_u64().unwrap()
    };
    let before = delivered(operator);
    while delivered(operator) < before + 200 {}
}

/// The operator sees that the robot has stopped, why.
fn sees_stop(operator: &mut Running, cause: &str) {
    let stop = operator.find(|line| line["event"] == "robot" && line["cause"] == cause);
    assert_eq!(stop.unwrap_or_else(|| panic!("it ended without {cause}"))["state"], "FAULT");
}

/// What comes from `source`, piece by piece, read on a thread of its own.
fn read_all(mut source: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, pieces): (Sender<Vec<u8>>, _) = channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 64];
        while let Ok(count @ 1..) = source.read(&mut buffer) {
            if sender.send(buffer[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    pieces
}

const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn no_output_ends_or_holds_up_a_session_however_it_fails() {
    let _beside = beside_others();
    for (name, redirections) in [
        ("out-full-disk", "> /dev/full"),
        ("err-full-disk", "2> /dev/full"),
        ("out-closed", ">&-"),
        ("err-closed", "2>&-"),
        ("all-closed", "<&- >&- 2>&-"),
        // Pipes that nobody reads and that nobody can read any more.
        ("out-gone", "| true"),
        ("out-stuck", "| sleep 1000"),
    ] {
        let piped = redirections.starts_with('|');
        let mut scene = Scene::shell(name, "--every 1ms", if piped { "" } else { redirections }, |command| {
            if piped {
                command.stdout(Stdio::piped()).stderr(Stdio::piped());
            }
        });
        let (out, err) = (scene.robot.0.stdout.take(), scene.robot.0.stderr.take());
        let held = if redirections == "| sleep 1000" { Some((out, err)) } else { None };
        let mut operator = scene.operator("--resume always", "resumed");
        // Junk makes it say whom it refused.
        let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
        (0..100).for_each(|_| drop(stranger.send_to(&[0xff; 200], &scene.address)));
        moves_on(&mut operator);
        assert!(scene.robot.runs(), "{name}");
        signal(scene.robot.pid(), "-TERM");
        assert_eq!(scene.robot.ended(), 0, "{name}");
        drop(held);
    }
}

#[test]
fn what_a_slow_reader_misses_is_said_as_soon_as_it_reads() {
    let _beside = beside_others();
    let mut scene = Scene::robot("slow-reader", "--every 1ms", |command| {
        command.stdout(Stdio::piped());
    });
    let mut operator = scene.operator("--resume always", "resumed");
    // A pipe and the queue hold some thousand lines.
    (0..20).for_each(|_| moves_on(&mut operator));
    let out = std::io::BufReader::new(scene.robot.0.stdout.take().unwrap());
    let lines = std::io::BufRead::lines(out);
    let lines = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let said = lines.into_iter().find(|line| line["event"] == "output_dropped").unwrap();
    assert!(said["lines"].as_u64().unwrap() > 0, "{said}");
}

#[test]
fn whatever_goes_wrong_with_the_button_at_the_robot_stops_it() {
    let _beside = beside_others();
    for (name, bytes) in [
        ("no-text", &b"\xff"[..]),
        ("unknown", b"E\n"),
        ("twice", b"ee\n"),
        ("empty", b"\n"),
        ("long", &[b'h'; 65]),
    ] {
        let mut scene = Scene::robot(name, "--commands", |_| {});
        let mut operator = scene.operator("", "resumed");
        scene.robot.stdin().write_all(bytes).unwrap();
        sees_stop(&mut operator, "button_lost");
        // The button is still there: who stands beside it lets go, and the operator resumes.
        scene.robot.stdin().write_all(b"\nr\n").unwrap();
        let paused = operator.find(|line| line["event"] == "robot" && line["state"] == "PAUSED");
        assert!(paused.is_some(), "{name}");
        operator.say("r");
        operator.wait_for("resumed");
    }
}

#[test]
fn the_words_of_the_button_at_the_robot_stop_it_and_let_go() {
    let _beside = beside_others();
    let mut scene = Scene::robot("words", "--commands", |_| {});
    let mut operator = scene.operator("", "resumed");
    scene.robot.stdin().write_all(b"h\nstop\n").unwrap();
    sees_stop(&mut operator, "local_emergency");
    scene.robot.stdin().write_all(b"release\n").unwrap();
    assert!(operator.find(|line| line["event"] == "robot" && line["state"] == "PAUSED").is_some());
    scene.robot.stdin().write_all(b"quit\n").unwrap();
    assert_eq!(scene.robot.ended(), 0);
}

#[test]
fn a_cut_cable_stops_the_robot_for_good_and_its_process_goes_on() {
    let _beside = beside_others();
    let mut scene = Scene::robot("cut", "--commands", |_| {});
    let mut operator = scene.operator("", "resumed");
    drop(scene.robot.0.stdin.take());
    sees_stop(&mut operator, "button_lost");
    operator.say("c");
    assert_eq!(operator.wait_for("reset_refused")["answer"], "held_locally");
    assert!(scene.robot.runs());
    // There was none from the start.
    let scene = Scene::shell("none", "--commands", "<&-", |_| {});
    let mut operator = scene.operator("--resume never", "connected");
    operator.say("c");
    assert_eq!(operator.wait_for("reset_refused")["answer"], "held_locally");
}

#[test]
fn a_heartbeat_of_the_button_that_stays_out_stops_the_robot() {
    let _beside = beside_others();
    let mut scene = Scene::robot("heartbeat", "--commands --button-heartbeat 3s", |_| {});
    let mut stdin = scene.robot.0.stdin.take().unwrap();
    let (beats, stopped) = channel::<()>();
    let button = std::thread::spawn(move || {
        while stopped.recv_timeout(Duration::from_millis(50)).is_err() {
            stdin.write_all(b"h\n").unwrap();
        }
        stdin
    });
    let mut operator = scene.operator("", "resumed");
    moves_on(&mut operator);
    beats.send(()).unwrap();
    // The pipe stays open: it is nothing but silent.
    let stdin = button.join().unwrap();
    sees_stop(&mut operator, "button_lost");
    drop(stdin);
}

#[test]
fn a_stop_overtakes_releases_that_wait_and_none_of_them_undoes_it() {
    let _beside = beside_others();
    let mut scene = Scene::robot("flood", "--commands", |_| {});
    let mut operator = scene.operator("", "resumed");
    let flood = "r\n".repeat(20_000) + "e\n";
    scene.robot.stdin().write_all(flood.as_bytes()).unwrap();
    sees_stop(&mut operator, "local_emergency");
    operator.say("c");
    assert_eq!(operator.wait_for("reset_refused")["answer"], "held_locally");
}

#[test]
fn the_last_word_is_taken_however_many_wait_before_it() {
    let _beside = beside_others();
    let mut scene = Scene::robot("flood-quit", "--commands", |_| {});
    let mut operator = scene.operator("", "resumed");
    // One reading of it: twice as many as wait for a session at most.
    let flood = "r\n".repeat(2_047) + "q\n";
    scene.robot.stdin().write_all(flood.as_bytes()).unwrap();
    operator.wait_for("robot_left");
    operator.wait_for("closed");
    assert_eq!(scene.robot.ended(), 0);
}

#[test]
fn whatever_goes_wrong_with_the_operators_button_stops_the_robot() {
    let _beside = beside_others();
    let scene = Scene::robot("operator", "", |_| {});
    for bytes in [&b"\xff\n"[..], b"E\n", b"\n", b"stop\n"] {
        let mut operator = moving_after_a_stop(&scene);
        operator.child.stdin.as_mut().unwrap().write_all(bytes).unwrap();
        operator.wait_for("emergency_stopped");
        operator.say("quit");
        assert_eq!(operator.child.wait().unwrap().code(), Some(0));
    }
    // A cut cable: nothing undoes it.
    let mut operator = moving_after_a_stop(&scene);
    drop(operator.child.stdin.take());
    operator.wait_for("emergency_stopped");
    for _ in 0..20 {
        assert_eq!(operator.wait_for("status")["standing"], "STOPPED");
    }
}

/// An operator of a robot that may have been stopped before, by whose person it is reset. It would resume whenever it may.
fn moving_after_a_stop(scene: &Scene) -> Running {
    let mut operator = scene.operator("--resume always", "connected");
    let answers = ["reset", "reset_refused", "not_done"];
    let answered = |line: &Value| answers.iter().any(|answer| line["event"] == *answer);
    loop {
        operator.say("c");
        // Not done: a stop of an earlier session goes first.
        if operator.find(answered).expect("it goes on")["event"] != "not_done" {
            break;
        }
    }
    operator.say("r");
    assert!(operator.find(|line| line["standing"] == "MOVING").is_some());
    operator
}

#[test]
fn every_signal_that_can_be_caught_stops_the_robot_and_ends_it_well() {
    let _beside = beside_others();
    for name in ["HUP", "QUIT", "USR1", "ALRM", "TSTP", "ABRT", "XCPU", "IO", "40"] {
        let mut scene = Scene::robot(&format!("signal-{name}"), "", |_| {});
        let mut operator = scene.operator("", "resumed");
        // These are ignored: a read or a write that fails brings them.
        for name in ["PIPE", "XFSZ", "TTIN", "TTOU"] {
            signal(scene.robot.pid(), &format!("-{name}"));
        }
        moves_on(&mut operator);
        signal(scene.robot.pid(), &format!("-{name}"));
        operator.wait_for("closed");
        assert_eq!(scene.robot.ended(), 0, "{name}");
    }
}

#[test]
fn a_terminal_that_is_closed_ends_the_robot_with_a_goodbye() {
    let _beside = beside_others();
    if Command::new("script").arg("--version").output().is_err() {
        println!("skipped: there is no script(1)");
        return;
    }
    // script(1) gives it a terminal, and takes that with it when it is killed.
    let scene = Scene::shell("terminal", "--commands --every 1ms", "", |command| {
        let line = command.get_args().nth(1).unwrap().to_owned();
        let folder = command.get_current_dir().unwrap().to_owned();
        *command = Command::new("script");
        let line = format!("echo $$ > pid; {}", line.display());
        command.arg("-qefc").arg(line).arg("/dev/null").current_dir(folder);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    });
    let _orphan = Orphan(scene.world.path("."));
    let mut operator = scene.operator("", "resumed");
    drop(scene.robot);
    operator.wait_for("closed");
}

#[test]
fn a_watchdog_device_is_fed_while_the_session_turns_and_told_of_a_clean_end_only() {
    let _beside = beside_others();
    for (name, ends_well, status) in
        [("watchdog", true, 0), ("watchdog-not-kept", true, 1), ("watchdog-killed", false, -1)]
    {
        let world = World::new(&format!("fault-fifo-{name}"));
        let fifo = world.path("fifo");
        if !Command::new("mkfifo").arg(&fifo).status().is_ok_and(|status| status.success()) {
            println!("skipped: there is no mkfifo(1)");
            return;
        }
        // For reading and writing: opening it waits for nobody, and it never ends.
        let device: File = OpenOptions::new().read(true).write(true).open(&fifo).unwrap();
        let fed = read_all(device);
        let more = format!("--watchdog-device {}", fifo.display());
        let mut scene = Scene::robot(name, &more, |_| {});
        let mut pieces = (0..3).map(|_| fed.recv_timeout(PATIENCE).unwrap()).collect::<Vec<_>>();
        assert!(pieces.drain(..).flatten().all(|byte| byte == 0));
        signal(scene.robot.pid(), "-STOP");
        // What was written before is read, and nothing follows.
        while fed.recv_timeout(Duration::from_secs(1)).is_ok() {}
        assert!(fed.recv_timeout(Duration::from_millis(500)).is_err());
        signal(scene.robot.pid(), "-CONT");
        assert_eq!(fed.recv_timeout(PATIENCE).unwrap()[0], 0);
        if status == 1 {
            // That it ended well cannot be written: the device stands all the same.
            let state = scene.world.path("state");
            std::fs::remove_file(&state).unwrap();
            std::fs::create_dir(state).unwrap();
        }
        signal(scene.robot.pid(), if ends_well { "-TERM" } else { "-KILL" });
        assert_eq!(scene.robot.ended(), status, "{name}");
        let mut last = None;
        while let Ok(piece) = fed.recv_timeout(Duration::from_secs(1)) {
            last = piece.last().copied().or(last);
            if last == Some(b'V') {
                break;
            }
        }
        assert_eq!(last == Some(b'V'), ends_well, "{name}");
    }
}

#[test]
fn a_service_manager_is_told_of_start_turns_and_end() {
    let _beside = beside_others();
    let name = format!("taut-fault-{}", std::process::id());
    let path = World::new("fault-notify-socket").path("socket");
    let sockets = [
        (format!("@{name}"), SocketAddr::from_abstract_name(&name).unwrap()),
        (path.display().to_string(), SocketAddr::from_pathname(&path).unwrap()),
    ];
    for (number, (variable, address)) in sockets.into_iter().enumerate() {
        let manager = UnixDatagram::bind_addr(&address).unwrap();
        manager.set_read_timeout(Some(PATIENCE)).unwrap();
        let heard = || {
            let mut buffer = [0; 64];
            let count = manager.recv(&mut buffer).unwrap();
            String::from_utf8(buffer[..count].to_vec()).unwrap()
        };
        let mut scene = Scene::robot(&format!("notify-{number}"), "", |command| {
            command.env("NOTIFY_SOCKET", &variable).env("WATCHDOG_USEC", "200000");
        });
        assert_eq!(heard(), "READY=1");
        (0..5).for_each(|_| assert_eq!(heard(), "WATCHDOG=1"));
        signal(scene.robot.pid(), "-TERM");
        assert_eq!(scene.robot.ended(), 0);
        let mut last = heard();
        while last == "WATCHDOG=1" {
            last = heard();
        }
        assert_eq!(last, "STOPPING=1");
    }
}

/// The signals of a process that are not left to their default, as a mask: bit 0 is signal 1 (proc_pid_status(5)).
fn handled(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let mask = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap()
    };
    mask("SigCgt:") | mask("SigIgn:")
}

#[test]
fn no_session_begins_before_signals_stop_it() {
    let _beside = beside_others();
    // SIGTERM, SIGPIPE, SIGTSTP, and one of real time.
    let needed = [15, 13, 20, 40].iter().fold(0, |mask, signal| mask | 1 << (signal - 1));
    let begins = |pid: u32| {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().map_while(Result::ok);
        let mut names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
        names.any(|name| name.trim() == "taut session")
    };
    for time in 0..10 {
        let scene = Scene::robot(&format!("begins-{time}"), "", |_| {});
        // Each look takes some tens of microseconds.
        assert!((0..1_000_000).any(|_| begins(scene.robot.pid())), "{time}: no session began");
        let handled = handled(scene.robot.pid());
        assert_eq!(handled & needed, needed, "{time}: {handled:x}");
    }
}

#[test]
fn a_robot_that_begins_with_a_stop_says_the_command_that_lets_go_of_it() {
    let _beside = beside_others();
    let world = World::new("fault-latched");
    // Its robot has said a line that begins so.
    let said = |beginning: &str| {
        let mut command = world.command("robot --listen 127.0.0.1:0 --plaintext --transport udp --state");
        let mut robot = Guarded(command.arg("its stops").stdout(Stdio::piped()).spawn().unwrap());
        let lines = BufReader::new(robot.0.stdout.take().unwrap()).lines();
        let line = lines.map_while(Result::ok).find(|line| line.starts_with(beginning));
        (robot, line.unwrap())
    };
    drop(said("listens at"));
    let (mut robot, line) = said("A STOP IS LATCHED");
    signal(robot.pid(), "-TERM");
    assert_eq!(robot.ended(), 0);
    let (_, command) = line.split_once("taut reset --state ").expect(&line);
    // In another folder.
    let command = format!("exec {} reset --state {command}", env!("CARGO_BIN_EXE_taut"));
    let ended = Command::new("sh").args(["-c", &command]).current_dir("/").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&ended.stdout), "let go of: restart\n", "{command}");
}
