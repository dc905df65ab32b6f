//! What a person who debugs a session asks for.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::sessions::{Running, beside_others};
use crate::world::{Ended, World, ended};

/// A robot that ends with this test, and an operator's session with it.
struct Site {
    world: World,
    robot: Running,
    operator: String,
}

impl Site {
    fn new(name: &str, transport: &str, more: &str) -> Self {
        let world = World::new(&format!("diagnostics-{name}-{transport}"));
        let identity = |who: &str| world.taut(&format!("identity --path {who}")).out.trim().to_owned();
        let (robot_id, own) = (identity("robot"), identity("own"));
        let mut robot = Running::start(world.command(&format!(
            "robot --listen 127.0.0.1:0 --transport {transport} --identity robot --trust {own} --watchdog 3s --state kept --json {more}"
        )));
        let address = robot.wait_for("listening")["address"].as_str().unwrap().to_owned();
        let operator = format!(
            "operator --connect {address} --robot-id {robot_id} --transport {transport} --identity own --resume start --messages 300"
        );
        Self { world, robot, operator }
    }

    fn operate(&self, more: &str) -> Ended {
        let ended = ended(self.world.command(&format!("{} {more}", self.operator)).output().unwrap());
        assert_eq!(ended.status, 0, "{ended:?}");
        ended
    }
}

fn lines(ended: &Ended) -> Vec<Value> {
    ended.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn both_ends_write_the_trace_of_their_connection_record_by_record() {
    let _beside = beside_others();
    for transport in ["quic", "mpquic"] {
        let site = Site::new("qlog", transport, "--qlog there");
        let told = site.operate("--qlog here/new --json");
        assert_eq!((told.err.as_str(), site.robot.end("-TERM").0), ("", 0));
        for (folder, end) in [("here/new", "client"), ("there", "server")] {
            let mut files =
                std::fs::read_dir(site.world.path(folder)).unwrap().map(|entry| entry.unwrap().path());
            let file = files.next().expect("a trace");
            assert!(file.to_str().unwrap().ends_with(&format!("_{end}.sqlog")), "{file:?}");
            assert_eq!(files.next(), None, "{transport}: one connection, one trace");
            let text = std::fs::read_to_string(file).unwrap();
            let mut records = text.split_terminator('\n').map(|record| -> Value {
                serde_json::from_str(record.strip_prefix('\u{1e}').unwrap()).unwrap()
            });
            let header = records.next().unwrap();
            assert_eq!(
                (&header["qlog_version"], &header["qlog_format"]),
                (&"0.3".into(), &"JSON-SEQ".into())
            );
            assert_eq!(header["trace"]["vantage_point"]["type"], end);
            let names: Vec<Value> = records.map(|mut record| record["name"].take()).collect();
            for name in ["transport:packet_sent", "transport:packet_received", "recovery:metrics_updated"] {
                assert!(
                    names.iter().filter(|known| *known == name).count() > 10,
                    "{transport} {end}: {name}"
                );
            }
        }
    }
}

#[test]
fn what_happens_inside_is_told_only_when_somebody_asks() {
    let _beside = beside_others();
    let mut site = Site::new("log", "quic", "--log taut_session=info,taut_io=info");
    let silent = site.operate("--json");
    assert!(lines(&silent).iter().all(|line| line["event"] != "log"), "{silent:?}");
    let connected = site.robot.wait_for("log");
    assert_eq!(
        (&connected["target"], &connected["message"]),
        (&"taut_session::diagnostics".into(), &"connected".into())
    );
    assert_eq!(connected["spans"][0]["name"], "robot", "{connected}");
    assert_eq!(connected["spans"][0]["fields"]["transport"], "quic", "{connected}");

    let told = lines(&site.operate("--json --log info,taut_transport=debug"));
    let of = |message: &str| {
        let line = told.iter().find(|line| line["event"] == "log" && line["message"] == message);
        line.unwrap_or_else(|| panic!("no `{message}`: {told:?}")).clone()
    };
    assert_eq!(
        (&of("handshake begins")["level"], &of("handshake begins")["fields"]["attempt"]),
        (&"debug".into(), &1.into())
    );
    assert!(of("handshake complete")["fields"]["peer"].as_str().unwrap().starts_with("taut:"));
    assert!(told.iter().all(|line| line["level"] != "trace"));

    // In words, on standard error; by the environment as well.
    let mut command = site.world.command(&site.operator);
    let ended = ended(command.env("TAUT_LOG", "taut_transport=info,taut_io=info").output().unwrap());
    assert!(ended.err.contains("INFO  taut_transport::quic"), "{ended:?}");
    assert!(ended.err.contains("operator transport=quic: handshake complete"), "{ended:?}");
    assert!(!ended.out.contains("handshake complete"), "{ended:?}");
}

#[test]
fn what_cannot_be_had_is_said() {
    let world = World::new("diagnostics-wrong");
    let operator = "operator --connect 127.0.0.1:9 --plaintext --transport udp --state kept";
    for (more, why) in [("--log =x=", "--log =x=: "), ("--qlog here", "--qlog is for quic and mpquic")] {
        let ended = world.taut(&format!("{operator} {more}"));
        assert_eq!(ended.status, 2, "{ended:?}");
        assert!(ended.err.lines().last().unwrap().contains(why), "{ended:?}");
    }
    assert!(!world.path("here").exists());
}

/// What is answered to a GET of this path.
fn get(address: &str, path: &str) -> String {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn the_newest_report_is_told_over_http_to_prometheus_and_as_json() {
    let _beside = beside_others();
    let world = World::new("metrics");
    // Two that nobody uses just now.
    let free = || std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let (at_robot, at_operator) = (free(), free());
    let robot =
        "robot --listen 127.0.0.1:0 --transport udp --plaintext --watchdog 2s --every 50ms --json --metrics";
    let mut robot = Running::start(world.command(&format!("{robot} {at_robot}")));
    let address = robot.wait_for("listening")["address"].as_str().unwrap().to_owned();
    let before = get(&at_robot, "/metrics");
    assert!(before.starts_with("HTTP/1.1 200 OK\r\n") && !before.contains("taut_messages"), "{before}");
    let operator = format!(
        "operator --connect {address} --transport udp --plaintext --resume start --every 50ms --json --metrics {at_operator}"
    );
    let mut operator = Running::start(world.command(&operator));
    operator.wait_for("status");
    robot.find(|line| line["event"] == "status" && line["status"]["messages"].as_u64() > Some(10)).unwrap();
    for (at, role) in [(&at_robot, "robot"), (&at_operator, "operator")] {
        let text = get(at, "/metrics");
        assert!(text.contains(&format!("\ntaut_role{{is=\"{role}\"}} 1\n")), "{text}");
        assert!(text.contains("\ntaut_report_age_s ") && text.contains("\ntaut_rtt_p99_ms "), "{text}");
        let json = get(at, "/status.json");
        let body: Value = serde_json::from_str(json.split("\r\n\r\n").nth(1).unwrap()).unwrap();
        assert_eq!(body["role"], role);
        assert!(get(at, "/").starts_with("HTTP/1.1 404"));
    }
    // Who asks for nothing and stays holds nobody up.
    let _idle = std::net::TcpStream::connect(&at_robot).unwrap();
    robot.wait_for("status");
    let taken =
        world.taut(&format!("robot --listen 127.0.0.1:0 --transport udp --plaintext --metrics {at_robot}"));
    assert!(taken.status == 2 && taken.err.contains("--metrics"), "{taken:?}");
}

#[test]
fn a_flood_of_strangers_is_told_as_it_begins_goes_on_and_ends_with_what_it_lost() {
    let _beside = beside_others();
    let world = World::new("flood-told");
    let at = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let robot = format!(
        "robot --listen 127.0.0.1:0 --transport udp --plaintext --watchdog 2s --every 50ms --json --metrics {at}"
    );
    let mut robot = Running::start(world.command(&robot));
    let address = robot.wait_for("listening")["address"].as_str().unwrap().to_owned();
    let operator = format!("operator --connect {address} --transport udp --plaintext --resume start --json");
    let _operator = Running::start(world.command(&operator));
    robot.wait_for("enabled");
    let floods = Arc::new(AtomicBool::new(true));
    let goes_on = floods.clone();
    let to = address.clone();
    let stranger = std::thread::spawn(move || {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        // 50 000 a second, ten times what a flood is; what a busy machine holds up is made up for.
        let (clock, mut sent) = (taut_io::Clock::start(), 0);
        while goes_on.load(Ordering::Relaxed) {
            let due = (clock.now() - taut_core::Time::ZERO).as_nanos() / 20_000;
            (sent..due).for_each(|_| _ = socket.send_to(&[7; 40], &to));
            sent = due;
            std::thread::park_timeout(std::time::Duration::from_millis(1));
        }
    });
    // On a busy machine there may be several, one after the other.
    let over = std::cell::Cell::new(0);
    let mut told = |state: &str| {
        let is_so = |line: &Value| {
            let is_flood = line["event"] == "flood";
            if is_flood && line["state"] == "ended" {
                over.set(over.get() + line["dropped"].as_u64().unwrap());
            }
            is_flood && line["state"] == state
        };
        robot.find(is_so).unwrap()
    };
    let began = told("began");
    assert_eq!((&began["peers"], &began["at"]), (&Value::from(1), &Value::from(address.as_str())), "{began}");
    let so_far = told("goes_on")["dropped"].as_u64().unwrap();
    floods.store(false, Ordering::Relaxed);
    stranger.join().unwrap();
    let in_all = told("ended")["dropped"].as_u64().unwrap();
    assert!(so_far > 0 && in_all >= so_far, "{so_far} of {in_all}");
    // Another one may have begun before the stranger fell silent.
    let counted = || {
        let text = get(&at, "/metrics");
        let mut lines = text.lines();
        lines.find_map(|it| it.strip_prefix("taut_socket_dropped{cause=\"flood\"} ")?.parse::<u64>().ok())
    };
    assert!((0..200).any(|_| {
        std::thread::park_timeout(std::time::Duration::from_millis(10));
        counted() >= Some(over.get())
    }));
}
