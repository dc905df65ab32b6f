//! Robot and operator over loopback, as two processes.

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Condvar, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use serde_json::Value;

use crate::world::{Ended, World, ended};

const TRANSPORTS: [&str; 8] = ["quic", "udp", "tcp", "sctp", "dccp", "etp", "mtip", "mpquic"];

static TIMED: RwLock<()> = RwLock::new(());

/// What is timed does not run beside any other session.
pub(crate) fn alone() -> RwLockWriteGuard<'static, ()> {
    TIMED.write().unwrap_or_else(PoisonError::into_inner)
}

/// What has moments to keep, but none to the millisecond, runs beside one other such at most, and beside nothing that is timed.
pub(crate) struct BesideOne {
    _beside: RwLockReadGuard<'static, ()>,
}

static WITH_MOMENTS: (Mutex<u32>, Condvar) = (Mutex::new(0), Condvar::new());

pub(crate) fn beside_one() -> BesideOne {
    let (running, fewer) = &WITH_MOMENTS;
    let running = running.lock().unwrap_or_else(PoisonError::into_inner);
    let mut running =
        fewer.wait_while(running, |running| *running > 1).unwrap_or_else(PoisonError::into_inner);
    *running += 1;
    drop(running);
    BesideOne { _beside: beside_others() }
}

impl Drop for BesideOne {
    fn drop(&mut self) {
        let (running, fewer) = &WITH_MOMENTS;
        *running.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        fewer.notify_one();
    }
}

/// Where a session is late it is still as it should be.
pub(crate) fn beside_others() -> RwLockReadGuard<'static, ()> {
    TIMED.read().unwrap_or_else(PoisonError::into_inner)
}

/// A process of a session. It is killed with its test.
pub(crate) struct Running {
    pub(crate) child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    /// The line that was looked at last.
    pub(crate) last: Value,
    _alive: Sender<()>,
}

pub(crate) fn signal(pid: u32, signal: &str) {
    assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
}

impl Running {
    pub(crate) fn start(command: Command) -> Self {
        Self::saying(command, Stdio::piped())
    }

    /// Its standard error goes there.
    pub(crate) fn saying(mut command: Command, stderr: Stdio) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr);
        let mut child = command.spawn().unwrap();
        let pid = child.id();
        let (alive, dead) = channel::<()>();
        std::thread::spawn(move || {
            // Whatever goes wrong, a test ends.
            if dead.recv_timeout(Duration::from_secs(60)) == Err(RecvTimeoutError::Timeout) {
                signal(pid, "-KILL");
            }
        });
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines, last: Value::Null, _alive: alive }
    }

    /// The next line of JSON that reports `event`.
    pub(crate) fn wait_for(&mut self, event: &str) -> Value {
        self.find(|line| line["event"] == event).unwrap_or_else(|| panic!("it ended without `{event}`"))
    }

    /// The next line of JSON that is so, if there is one before it ends.
    pub(crate) fn find(&mut self, is_so: impl Fn(&Value) -> bool) -> Option<Value> {
        for line in self.lines.by_ref() {
            self.last = serde_json::from_str(&line.unwrap()).unwrap();
            if is_so(&self.last) {
                return Some(self.last.clone());
            }
        }
        None
    }

    pub(crate) fn say(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Asks it to end, and gives what it said last.
    pub(crate) fn end(mut self, signal: &str) -> (i32, Value) {
        self::signal(self.child.id(), signal);
        let last = self.lines.by_ref().map(Result::unwrap).last().unwrap_or_default();
        let status = self.child.wait().unwrap();
        (status.code().unwrap_or(-1), serde_json::from_str(&last).unwrap_or_default())
    }

    /// As when the cable of its button is cut.
    pub(crate) fn cut_input(&mut self) {
        self.child.stdin = None;
    }

    /// As when its terminal is gone.
    pub(crate) fn cut_output(&mut self) {
        let nothing = Command::new("true").stdout(Stdio::piped()).spawn().unwrap().stdout.take().unwrap();
        self.lines = BufReader::new(nothing).lines();
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// As by a power cut.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A folder with identities, and a robot that trusts two operators.
struct Site {
    world: World,
    transport: &'static str,
    robot: Running,
    robot_id: String,
    address: String,
}

impl Site {
    /// Its watchdog waits for longer than a busy machine leaves a process without its turn.
    fn new(name: &str, transport: &'static str) -> Self {
        Self::with_watchdog(name, transport, "3s")
    }

    fn with_watchdog(name: &str, transport: &'static str, watchdog: &str) -> Self {
        let world = World::new(&format!("session-{name}-{transport}"));
        let identity = |who: &str| world.taut(&format!("identity --path {who}")).out.trim().to_owned();
        let (robot_id, one, two) = (identity("robot"), identity("one"), identity("two"));
        let mut robot = Running::start(world.command(&format!(
            "robot --listen 127.0.0.1:0 --transport {transport} --identity robot --trust {one} --trust {two} --watchdog {watchdog} \
             --state kept --commands --json"
        )));
        let address = robot.wait_for("listening")["address"].as_str().unwrap().to_owned();
        Self { world, transport, robot, robot_id, address }
    }

    fn operator(&self, who: &str, robot_id: &str, more: &str) -> Command {
        let Self { transport, address, .. } = self;
        let resume = if more.contains("--resume") { "" } else { "--resume start" };
        self.world.command(&format!(
            "operator --connect {address} --robot-id {robot_id} --transport {transport} --identity {who} --json {resume} {more}"
        ))
    }

    fn start(&self, who: &str, more: &str) -> Running {
        Running::start(self.operator(who, &self.robot_id, more))
    }

    fn run(&self, who: &str, more: &str) -> Ended {
        ended(self.operator(who, &self.robot_id, more).output().unwrap())
    }
}

/// Runs them all at the same time.
fn at_once<const N: usize>(commands: [Command; N]) -> [Ended; N] {
    let run = commands.map(|mut command| std::thread::spawn(move || ended(command.output().unwrap())));
    run.map(|ended| ended.join().unwrap())
}

fn last(ended: &Ended) -> Value {
    assert_eq!(ended.status, 0, "{ended:?}");
    serde_json::from_str(ended.out.lines().last().unwrap()).unwrap()
}

#[test]
fn every_transport_delivers_everything_on_loopback() {
    let _alone = alone();
    for transport in TRANSPORTS {
        let site = Site::new("all", transport);
        let reliable = if matches!(transport, "quic" | "tcp" | "sctp") { "--reliable" } else { "" };
        let summary = last(&site.run("one", &format!("--messages 1000 {reliable}")));
        let status = &summary["status"];
        println!(
            "{transport}: RTT p50 {} ms, p99 {} ms, {} samples missed",
            status["rtt"]["p50_ms"], status["rtt"]["p99_ms"], summary["missed"]
        );
        let sent = status["messages"].as_u64().unwrap();
        if reliable.is_empty() {
            // What waits makes way for what is newer, when this host was late.
            let superseded = status["dropped"]["superseded"].as_u64().unwrap_or(0);
            assert_eq!(sent + superseded, 1_000, "{transport}: {summary}");
        } else {
            assert_eq!(sent, 1_000, "{transport}: {summary}");
        }
        assert_eq!(status["delivered"], sent, "{transport}: {summary}");
        let rtt = status["rtt"]["p50_ms"].as_f64().unwrap();
        assert!(rtt > 0.0 && rtt < 20.0, "{transport}: {summary}");
        let (code, summary) = site.robot.end("-TERM");
        assert_eq!((code, summary["event"].as_str()), (0, Some("summary")), "{transport}");
        assert!(
            summary["status"]["delivered"].as_u64().unwrap() > 0,
            "{transport}: the robot moved: {summary}"
        );
    }
}

/// Needs root, and a kernel that does not answer for DCCP itself.
#[test]
fn dccp_in_ip_packets_of_its_own_carries_one_session_after_another() {
    let _beside = beside_others();
    let world = World::new("session-raw");
    let mut robot = Running::start(
        world.command("robot --listen 127.0.0.1:6511 --transport dccp --raw --plaintext --json"),
    );
    robot.wait_for("listening");
    let operator = "operator --connect 127.0.0.1:6511 --transport dccp --raw --plaintext --messages 500 --resume start --json";
    for turn in 0..2 {
        let ended = world.taut(operator);
        if ended.err.contains("CAP_NET_RAW") || std::path::Path::new("/proc/sys/net/dccp").exists() {
            println!("skipped: {}", ended.err.trim());
            return;
        }
        let summary = last(&ended);
        assert!(summary["status"]["delivered"].as_u64().unwrap() > 400, "turn {turn}: {summary}");
    }
    assert_eq!(robot.end("-TERM").0, 0);
}

/// In the clear nobody can tell a new operator from the old one at another address, which says no goodbye when it is killed.
#[test]
fn in_the_clear_an_operator_follows_one_that_was_killed() {
    let _beside = beside_others();
    let world = World::new("session-clear");
    for transport in ["udp", "etp", "sctp", "dccp", "tcp"] {
        let mut robot = Running::start(
            world.command(&format!("robot --listen 127.0.0.1:0 --transport {transport} --plaintext --json")),
        );
        let address = robot.wait_for("listening")["address"].as_str().unwrap().to_owned();
        let operator =
            format!("operator --connect {address} --transport {transport} --plaintext --resume start --json");
        let mut killed = Running::start(world.command(&operator));
        killed.wait_for("resumed");
        killed.kill();
        let summary = last(&world.taut(&format!("{operator} --messages 200")));
        assert!(summary["status"]["delivered"].as_u64() > Some(100), "{transport}: {summary}");
        assert_eq!(robot.end("-TERM").0, 0, "{transport}");
    }
}

#[test]
fn strangers_and_a_second_operator_are_refused_and_the_session_goes_on() {
    let _beside = beside_others();
    for transport in ["quic", "tcp", "udp", "mpquic"] {
        let site = Site::new("strangers", transport);
        let mut first = site.start("one", "");
        first.wait_for("resumed");

        let of_another_robot = || site.operator("two", &fingerprint(&site.world), "");
        let by = |who| site.operator(who, &site.robot_id, "--messages 10");
        let refused = at_once([by("two"), by("stranger"), of_another_robot()]);
        assert!(refused.iter().all(|ended| ended.status == 1), "{transport}: {refused:?}");
        assert!(refused[0].err.contains("has another operator"), "{transport}: {}", refused[0].err);

        // The first did not notice: it still moves the robot.
        first.wait_for("status");
        let (code, summary) = first.end("-INT");
        assert_eq!(
            (code, summary["status"]["state"].as_str()),
            (0, Some("ENABLED")),
            "{transport}: {summary}"
        );
        // On a busy machine some are given up before they are acknowledged.
        let [messages, lost] = ["messages", "lost"].map(|of| summary["status"][of].as_u64().unwrap());
        assert!(lost * 50 <= messages, "{transport}: {summary}");

        // Nobody has it now: what stood in the way was who they are.
        let [stranger, wrong] = at_once([by("stranger"), of_another_robot()]);
        assert!(stranger.err.contains("--trust taut:"), "{transport}: {}", stranger.err);
        assert!(stranger.err.contains("`taut robot "), "{transport}: {}", stranger.err);
        assert!(wrong.err.contains("--robot-id"), "{transport}: {}", wrong.err);
        last(&site.run("two", "--messages 10"));
    }
}

#[test]
fn a_robot_says_who_was_refused_and_from_where() {
    let _beside = beside_others();
    for transport in TRANSPORTS {
        let mut site = Site::new("who", transport);
        let id = site.world.taut("identity --path stranger").out.trim().to_owned();
        let _stranger = site.start("stranger", "");
        let is_of_it = |line: &Value| line["event"] == "refused" && line["cause"] == "unauthenticated";
        let refused = site.robot.find(is_of_it).unwrap_or_else(|| panic!("{transport}: nobody was told"));
        assert_eq!(refused["busy"], 0, "{transport}: {refused}");
        let address = refused["address"].as_str().unwrap();
        assert!(address.starts_with("127.0.0.1:"), "{transport}: {refused}");
        let identities = refused["identities"].as_array().unwrap();
        assert!(identities.contains(&Value::from(id)), "{transport}: {refused}");
        // Noise keeps one bit of it to itself, TLS does not.
        let several = if transport.ends_with("quic") { 1 } else { 2 };
        assert_eq!(identities.len(), several, "{transport}: {refused}");
    }
}

#[test]
fn over_every_transport_a_robot_that_is_taken_tells_that_another_operator_asks() {
    let _beside = beside_others();
    for transport in TRANSPORTS {
        let mut site = Site::new("taken", transport);
        let mut first = site.start("one", "");
        first.wait_for("resumed");
        let _second = site.start("two", "");
        // On a busy machine copies of what came late are refused as well.
        let is_busy = |line: &Value| line["event"] == "refused" && line["busy"].as_u64() > Some(0);
        let refused = site.robot.find(is_busy).unwrap_or_else(|| panic!("{transport}: nobody was told"));
        let address = refused["address"].as_str().unwrap();
        assert!(address.starts_with("127.0.0.1:"), "{transport}: {refused}");
        assert_eq!(refused["identities"].as_array().unwrap().len(), 0, "{transport}: {refused}");
    }
}

/// Of somebody else than the robot.
fn fingerprint(world: &World) -> String {
    world.taut("identity --path somebody").out.trim().to_owned()
}

#[test]
fn an_emergency_stop_is_acknowledged_and_holds_until_resume() {
    let _beside = beside_others();
    for transport in TRANSPORTS {
        let mut site = Site::new("emergency", transport);
        let mut operator = site.start("one", "--commands");
        operator.wait_for("resumed");
        operator.say("e");
        let told = operator.wait_for("emergency_stopped");
        println!("{transport}: acknowledged after {} ms", told["after_ms"]);
        assert_eq!(told["kept"], true, "{transport}: {told}");
        assert_eq!(site.robot.wait_for("stopped")["why"], "emergency", "{transport}");
        operator.say("r");
        let told = operator.wait_for("not_done")["error"].as_str().unwrap().to_owned();
        assert!(told.contains("reset it first"), "{transport}: {told}");
        operator.say("c");
        operator.wait_for("reset");
        operator.say("r");
        operator.wait_for("resumed");
        site.robot.wait_for("enabled");
        operator.say("q");
        let summary = operator.wait_for("summary");
        assert_eq!(summary["status"]["state"], "ENABLED", "{transport}");
        assert_eq!(operator.child.wait().unwrap().code(), Some(0), "{transport}");
    }
}

/// Nothing is to happen for so many milliseconds.
pub(crate) fn for_a_while(ms: u64) {
    let (_nobody, answers) = channel::<()>();
    assert_eq!(answers.recv_timeout(Duration::from_millis(ms)), Err(RecvTimeoutError::Timeout));
}

#[test]
fn a_robot_that_did_not_start_latches_no_stop() {
    let world = World::new("not-started");
    for wrong in ["--record /nowhere/x.mcap", "--microphone room=nowhere", "--watchdog-device /nowhere"] {
        let robot = format!("robot --listen 127.0.0.1:0 --transport udp --plaintext --state kept {wrong}");
        let refused = world.taut(&robot);
        assert!(refused.status == 2, "{refused:?}");
        let robot =
            world.command("robot --listen 127.0.0.1:0 --transport udp --plaintext --state kept --json");
        let mut robot = Running::start(robot);
        assert_eq!(robot.wait_for("listening")["latched"], Value::Null, "{wrong}");
        assert_eq!(robot.end("-TERM").0, 0);
    }
}

#[test]
fn nobody_but_a_person_resumes_after_an_emergency_stop() {
    let _beside = beside_others();
    let mut site = Site::new("latched", "udp");
    let mut operator = site.start("one", "--commands --resume always");
    operator.wait_for("resumed");
    operator.say("e");
    operator.wait_for("emergency_stopped");
    operator.say("q");
    operator.wait_for("summary");
    drop(operator);
    // Another process, and another operator: the robot holds the stop, and both ask before they move it.
    for (who, policy) in [("one", "start"), ("two", "always")] {
        let mut operator = site.start(who, &format!("--commands --resume {policy}"));
        let connected = operator.wait_for("connected")["t_s"].as_f64().unwrap();
        for_a_while(400);
        if policy == "start" {
            assert_eq!(operator.end("-TERM").1["status"]["state"], "FAULT");
            continue;
        }
        operator.say("c");
        operator.wait_for("reset");
        operator.say("r");
        let resumed = operator.wait_for("resumed")["t_s"].as_f64().unwrap();
        assert!(resumed > connected + 0.3, "{policy}: {connected} s, {resumed} s");
        operator.say("e");
        operator.wait_for("emergency_stopped");
        // The robot comes back, and both know of it.
        let again = site.world.command(&format!(
            "robot --listen {} --identity robot --trust {} --transport udp --watchdog 3s --state kept --json",
            site.address,
            site.world.taut("identity --path two").out.trim(),
        ));
        let gone = std::mem::replace(&mut site.robot, Running::start(site.world.command("schema")));
        gone.kill();
        site.robot = Running::start(again);
        let connected = operator.wait_for("connected")["t_s"].as_f64().unwrap();
        for_a_while(400);
        operator.say("c");
        operator.wait_for("reset");
        operator.say("r");
        let resumed = operator.wait_for("resumed")["t_s"].as_f64().unwrap();
        assert!(resumed > connected + 0.3, "a new robot: {connected} s, {resumed} s");
    }
}

#[test]
fn the_button_beside_the_robot_is_released_there() {
    let _beside = beside_others();
    let mut site = Site::new("button", "quic");
    let mut operator = site.start("one", "--commands");
    operator.wait_for("resumed");
    site.robot.say("e");
    assert_eq!(site.robot.wait_for("stopped")["why"], "local_emergency");
    operator.find(|line| line["state"] == "FAULT").expect("it is told");
    operator.say("c");
    assert_eq!(operator.wait_for("reset_refused")["answer"], "held_locally");
    site.robot.say("r");
    for_a_while(200);
    operator.say("r");
    operator.wait_for("resumed");
    site.robot.wait_for("enabled");
}

#[test]
fn a_robot_whose_operator_vanishes_stops_by_its_watchdog() {
    let _beside = beside_others();
    for transport in TRANSPORTS {
        let mut site = Site::with_watchdog("vanishes", transport, "300ms");
        let mut operator = site.start("one", "");
        site.robot.wait_for("enabled");
        operator.wait_for("status");
        operator.kill();
        let stopped = site.robot.wait_for("stopped");
        let silence = stopped["silence_ms"].as_f64().unwrap();
        println!("{transport}: {} after {silence} ms", stopped["why"]);
        // The kernel closes a TCP connection for the dead; nobody speaks for the others. What a busy host adds is its own.
        let least = if transport == "tcp" { 0.0 } else { 250.0 };
        assert!(silence >= least && silence < 1_000.0, "{transport}: {stopped}");
        // The next one gets it.
        last(&site.run("two", "--messages 10"));
    }
}

#[test]
fn over_several_paths_a_session_runs_and_the_watchdog_stops_a_robot_on_a_path_of_its_own() {
    let _alone = alone();
    for (transport, policy) in
        [("mtip", "all"), ("mtip", "deadline"), ("mpquic", "fail-over"), ("mpquic", "all")]
    {
        let world = World::new(&format!("session-paths-{transport}-{policy}"));
        let identity = |who: &str| world.taut(&format!("identity --path {who}")).out.trim().to_owned();
        let (robot_id, operator_id) = (identity("robot"), identity("one"));
        let mut robot = Running::start(world.command(&format!(
            "robot --listen 127.0.0.1:0 --path lo --transport {transport} --policy {policy} --identity robot --trust {operator_id} --json"
        )));
        let address =
            robot.wait_for("listening")["address"].as_str().unwrap().replace("0.0.0.0", "127.0.0.1");
        let operator = |more: &str| {
            world.command(&format!(
                "operator --connect {address} --robot-id {robot_id} --transport {transport} --policy {policy} --identity one \
                 --path lo --path 127.0.0.1 --path none0 --resume start --json {more}"
            ))
        };
        let summary = last(&ended(operator("--messages 500").output().unwrap()));
        let status = &summary["status"];
        assert_eq!(status["delivered"], status["messages"], "{transport} {policy}: {summary}");
        robot.wait_for("stopped");
        let mut vanishes = Running::start(operator(""));
        assert_eq!(vanishes.wait_for("path_missing")["at"], "none0", "{transport} {policy}");
        robot.wait_for("enabled");
        vanishes.wait_for("status");
        vanishes.kill();
        let stopped = robot.wait_for("stopped");
        let silence = stopped["silence_ms"].as_f64().unwrap();
        // Of 100 ms, counted from when the state was made; to the millisecond in virtual time.
        assert!((50.0..500.0).contains(&silence), "{transport} {policy}: {stopped}");
    }
}

#[test]
fn a_robot_that_stops_answering_is_said_so_within_its_watchdog_and_again_when_it_answers() {
    let _beside = beside_others();
    let site = Site::with_watchdog("silent", "udp", "300ms");
    let mut operator = site.start("one", "--every 50ms");
    operator.wait_for("resumed");
    let status = operator.wait_for("status");
    assert_ne!(status["standing"], "NO LINK", "{status}");
    // A robot that is frozen says nothing, and no link is closed for it.
    signal(site.robot.child.id(), "-STOP");
    let silence = operator.wait_for("no_answer")["silence_ms"].as_f64().unwrap();
    assert!((300.0..2_000.0).contains(&silence), "{silence} ms");
    let status = operator.wait_for("status");
    assert_eq!(status["standing"], "NO ANSWER", "{status}");
    assert!(status["robot_force_n"].is_null(), "{status}");
    assert!(status["silence_ms"].as_f64().unwrap() >= silence, "{status}");
    signal(site.robot.child.id(), "-CONT");
    let again = operator.wait_for("answers_again")["silence_ms"].as_f64().unwrap();
    assert!(again > silence, "{again} ms after {silence} ms");
}

#[test]
fn a_session_that_is_lost_is_summed_up_all_the_same() {
    let _beside = beside_others();
    let site = Site::new("lost", "tcp");
    let mut operator = site.start("one", "");
    operator.wait_for("status");
    let Site { robot, .. } = site;
    robot.kill();
    let last: Value = serde_json::from_str(&operator.lines.by_ref().last().unwrap().unwrap()).unwrap();
    assert_eq!(last["event"], "summary", "{last}");
    assert!(last["status"]["messages"].as_u64().unwrap() > 0, "{last}");
    assert_eq!(operator.child.wait().unwrap().code(), Some(1));
}

#[test]
fn a_second_signal_writes_nothing_for_a_terminal_where_there_is_no_view() {
    let _beside = beside_others();
    let mut site = Site::new("twice", "udp");
    let pid = site.robot.child.id();
    // Two of a kind are one while nobody has looked.
    for name in ["-STOP", "-TERM", "-INT", "-HUP", "-CONT"] {
        signal(pid, name);
    }
    let rest: String = site.robot.lines.by_ref().map(Result::unwrap).collect();
    assert!(!rest.contains('\u{1b}'), "{rest:?}");
}

#[test]
fn a_command_alone_prints_its_help_and_a_number_that_is_none_what_is_expected() {
    let world = World::new("session-help");
    for command in ["", "gate", "trace"] {
        let ended = world.taut(command);
        assert_eq!(ended.status, 2, "{ended:?}");
        assert!(ended.err.contains("Usage: taut") && ended.err.lines().count() > 5, "{ended:?}");
    }
    for (arguments, told) in [
        ("operator --connect x:1 --plaintext --force-limit 5N", "a number without its unit, such as 5"),
        ("robot --listen 127.0.0.1:0 --plaintext --velocity-limit=-1", "is a finite number from 0 up"),
        ("robot --listen 4450 --plaintext", "such as 0.0.0.0:4433"),
    ] {
        let ended = world.taut(arguments);
        assert_eq!((ended.status, ended.err.lines().count()), (2, 1), "taut {arguments}: {ended:?}");
        assert!(ended.err.contains(told), "taut {arguments}: {}", ended.err);
    }
}

#[test]
fn what_is_wrong_is_one_line_that_says_what_to_do() {
    let world = World::new("session-wrong");
    let id = world.taut("identity --path id").out.trim().to_owned();
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = nobody.local_addr().unwrap();
    let in_use = world.taut(&format!("robot --listen {taken} --transport tcp --identity id --trust {id}"));
    assert_eq!((in_use.status, in_use.err.lines().count()), (2, 1));
    assert!(in_use.err.contains("is in use: listen on another port"), "{}", in_use.err);
    drop(nobody);
    let absent =
        world.taut(&format!("operator --connect {taken} --transport tcp --identity id --robot-id {id}"));
    assert_eq!((absent.status, absent.err.lines().count()), (1, 1));
    assert!(
        absent.err.contains("nobody listens there, or there is no network; start `taut robot"),
        "{}",
        absent.err
    );
    let plain = world.taut(&format!("operator --connect {taken} --transport quic --plaintext"));
    assert!(plain.err.contains("QUIC is always encrypted"), "{}", plain.err);
    for (arguments, told) in [
        ("operator --connect x", "--robot-id"),
        ("robot --listen 127.0.0.1:0", "--trust"),
        ("robot --listen 127.0.0.1:0 --plaintext --robot arm", "there are sim, sim:free"),
        ("operator --connect x:1 --plaintext --transport ipx", "there are quic, udp, tcp"),
        ("operator --connect x:1 --plaintext --input joystick", "trace:FILE"),
        ("operator --connect no-port --plaintext --transport udp", "HOST:PORT"),
        ("operator --connect 127.0.0.1:1 --plaintext --transport udp --raw", "dccp has"),
        ("robot --listen 0.0.0.0:0 --plaintext-anywhere --transport dccp --raw", "`ip address` lists them"),
        (
            "operator --connect 127.0.0.1:1 --plaintext --transport udp --path lo --path eth0",
            "mtip and mpquic use several",
        ),
        ("operator --connect 127.0.0.1:1 --plaintext --transport tcp --path lo", "cannot be bound to paths"),
        ("operator --connect 127.0.0.1:1 --plaintext --transport mtip --path lo --path lo", "is named twice"),
        (
            "operator --connect 127.0.0.1:1 --plaintext --transport mtip --path a/b",
            "neither the name of an interface",
        ),
        (
            "operator --connect 127.0.0.1:1 --plaintext --transport mtip --policy some",
            "there are deadline, all",
        ),
        (
            "operator --connect 127.0.0.1:1 --plaintext --transport udp --policy all",
            "--policy is for mtip and mpquic",
        ),
        (
            "operator --connect 127.0.0.1:1 --plaintext --transport mpquic --policy deadline",
            "fail-over and all",
        ),
        ("operator --connect 127.0.0.1:1 --plaintext --transport mtip --policy fail-over", "is for mpquic"),
        ("operator --connect 127.0.0.1:1 --plaintext --gap 4ms", "--gap is for --transport etp"),
        ("robot --listen 127.0.0.1:0 --plaintext --transport tcp --gap 4ms", "--gap is for --transport etp"),
        ("proxy --listen udp:0 --to 127.0.0.1:1 --plaintext --gap adaptive", "--gap is for --transport etp"),
        (
            "operator --connect 127.0.0.1:1 --plaintext --copies 3",
            "--copies does nothing here: it is for --transport mtip with --policy deadline",
        ),
        (
            "operator --connect 127.0.0.1:1 --plaintext --transport mtip --window 9",
            "--transport mtip with --policy adaptive",
        ),
        (
            "operator --connect 127.0.0.1:1 --plaintext --transport udp --strictly-in-time",
            "it is for --transport mtip, not for udp",
        ),
        ("robot --listen 127.0.0.1:0 --plaintext --strictly-in-time", "not for quic"),
        (
            "operator --connect 127.0.0.1:1 --plaintext --transport mtip --policy fixed:1",
            "needs 2 --path, which are counted from 0",
        ),
        ("robot --listen 127.0.0.1:0 --plaintext --transport mtip --policy fixed:8", "is not a policy"),
        ("proxy --listen udp:0 --to 127.0.0.1:1 --plaintext --idle 100ms", "is 1s to 86400s"),
        ("proxy --listen udp:0 --to 127.0.0.1:1 --plaintext --every 0s", "1ms or longer"),
        ("gate attach lo --video udp:5004 --watch qdisc:lo --update-interval 0s", "is 1ms to 3600s"),
        ("run scenario.toml --alone", "--real|--kernel"),
        (
            "operator --connect 127.0.0.1:1 --plaintext --input demo --repeat",
            "--repeat is for --input trace:FILE",
        ),
        ("operator --connect 127.0.0.1:1 --plaintext --columns x,y", "--columns is for --input trace:FILE"),
        (
            "console --connect 127.0.0.1:1 --plaintext --input demo:7",
            "the page of `taut console` is its input",
        ),
        ("console --connect 127.0.0.1:1 --plaintext --repeat", "leave out --input, --repeat, --columns"),
        ("console --connect 127.0.0.1:1 --plaintext --columns x", "leave out --input, --repeat, --columns"),
        (
            "console --connect 127.0.0.1:1 --plaintext --transport udp --codec omni71",
            "--codec: by omni71 a robot does not say its --max-age",
        ),
        (
            "operator --connect 127.0.0.1:1 --plaintext --tui --every 1s",
            "the argument '--tui' cannot be used with '--every",
        ),
        ("operator --connect 127.0.0.1:1 --plaintext --transport mpquic", "is always encrypted"),
        ("proxy --listen udp:0 --to udp:127.0.0.1:1 --plaintext", "at the near end"),
        ("proxy --listen 127.0.0.1:0 --to 127.0.0.1:1 --plaintext", "at the far end"),
        ("proxy --listen udp:0 --to 127.0.0.1:1", "--trust"),
        ("proxy --listen udp:0 --to 127.0.0.1:1 --plaintext --deadline 0ms", "worthless at once"),
        ("operator --connect 127.0.0.1:1 --plaintext --deadline 0ms", "worthless at once"),
    ] {
        let ended = world.taut(arguments);
        assert_eq!(ended.status, 2, "taut {arguments}: {ended:?}");
        assert!(ended.err.lines().last().unwrap().contains(told), "taut {arguments}: {}", ended.err);
    }
}

#[test]
fn an_identity_is_made_once_for_its_owner_alone() {
    let world = World::new("identity");
    let made = world.taut("identity --path keys/me");
    assert_eq!(made.status, 0, "{made:?}");
    assert!(made.out.starts_with("taut:") && made.out.lines().count() == 1);
    assert_eq!(world.good("identity --path keys/me"), made.out);
    let mode = std::fs::metadata(world.path("keys/me")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let json: Value = serde_json::from_str(&world.good("identity --path keys/me --json")).unwrap();
    assert_eq!((json["fingerprint"].as_str(), json["new"].as_bool()), (Some(made.out.trim()), Some(false)));

    let config = world.path("config");
    let found = ended(world.command("identity").env("XDG_CONFIG_HOME", &config).output().unwrap());
    assert!(found.err.contains("config/taut/identity"), "{found:?}");

    std::fs::set_permissions(world.path("keys/me"), PermissionsExt::from_mode(0o644)).unwrap();
    let ended = world.taut("identity --path keys/me");
    assert_eq!(ended.status, 2);
    assert!(ended.err.contains("chmod 600"), "{}", ended.err);
    world.write("text", "hello");
    std::fs::set_permissions(world.path("text"), PermissionsExt::from_mode(0o600)).unwrap();
    assert!(world.taut("identity --path text").err.contains("is not an identity"));
    // What is none is not to be hidden, whoever can read it.
    std::fs::set_permissions(world.path("text"), PermissionsExt::from_mode(0o644)).unwrap();
    let text = world.taut("identity --identity text").err;
    assert!(text.contains("is not an identity") && !text.contains("chmod"), "{text}");
}

#[test]
fn a_recording_is_played_once_and_ends_the_session() {
    let _beside = beside_others();
    let site = Site::new("trace", "udp");
    let rows: String = (0..300).map(|ms| format!("{ms},{}\n", f64::from(ms) * 1e-4)).collect();
    site.world.write("hand.csv", format!("time_ms,leader_position_x_m\n{rows}"));
    let summary = last(&site.run("one", "--input trace:hand.csv"));
    let (made, missed) = (summary["made"].as_u64().unwrap(), summary["missed"].as_u64().unwrap());
    assert_eq!(made + missed, 300, "{summary}");
    let x = summary["robot_position_m"][0].as_f64().unwrap();
    assert!(x > 0.005, "the robot followed the hand to the spring and into it: {summary}");
    // Its process stands still until long after the recording's end: what it missed was of the recording.
    let mut operator = site.start("one", "--input trace:hand.csv");
    operator.wait_for("resumed");
    signal(operator.pid(), "-STOP");
    for_a_while(600);
    signal(operator.pid(), "-CONT");
    let summary = operator.wait_for("summary");
    let (made, missed) = (summary["made"].as_u64().unwrap(), summary["missed"].as_u64().unwrap());
    assert_eq!(made + missed, 300, "{summary}");
}

#[test]
fn the_terminal_is_as_it_was_when_a_signal_ends_the_view() {
    let _beside = beside_others();
    let site = Site::new("terminal", "udp");
    let Site { world, address, robot_id, .. } = &site;
    let pid = world.path("pid").display().to_string();
    let taut = env!("CARGO_BIN_EXE_taut");
    let view = format!(
        "{taut} operator --connect {address} --transport udp --robot-id {robot_id} --identity one --tui"
    );
    // A terminal of its own (script(1)), and the number of the process that draws on it.
    let shell = format!("stty rows 24 cols 80; echo $$ > {pid}; exec {view}");
    let mut script = Command::new("script");
    script.args(["-qefc", &shell, "/dev/null"]).current_dir(world.path("."));
    script.stdin(Stdio::piped()).stdout(Stdio::piped());
    let Ok(mut child) = script.spawn() else {
        println!("skipped: there is no script(1)");
        return;
    };
    let (mut out, mut seen) = (child.stdout.take().unwrap(), Vec::new());
    let mut buffer = [0; 4096];
    while !String::from_utf8_lossy(&seen).contains("PAUSED") {
        let len = out.read(&mut buffer).unwrap();
        assert!(len > 0, "{}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&buffer[..len]);
    }
    let drawing: u32 = String::from_utf8(world.read("pid")).unwrap().trim().parse().unwrap();
    signal(drawing, "-TERM");
    out.read_to_end(&mut seen).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let seen = String::from_utf8_lossy(&seen);
    let (entered, left) = (seen.find("\u{1b}[?1049h"), seen.rfind("\u{1b}[?1049l"));
    assert!(entered.is_some() && left > entered, "the screen from before is back: {seen:?}");
    assert!(seen.rfind("[Status]") > left, "the summary is on it: {seen:?}");
}
