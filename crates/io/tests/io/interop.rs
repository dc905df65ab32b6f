//! QUIC with a peer that shares no code with it: aioquic, written in Python.
//!
//! Needs a Python that has it: that of `TAUT_INTEROP_PYTHON`, of the environment that `make test` makes
//! (`target/interop`), or the first on the path.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;

use taut_core::{Duration, Event, Message, Priority, Reliability, StreamId, Time, Transport};
use taut_io::session::os_entropy;
use taut_io::{Driver, DriverConfig, Plain, UdpPort, UdpPortConfig};
use taut_transport::certificate;
use taut_transport::identity::{Identity, Trust};
use taut_transport::quic::{Quic, QuicConfig, Resumption};

use crate::machines::loopback;

const OURS: [u8; 32] = [11; 32];
const THEIRS: [u8; 32] = [12; 32];

/// The other program; ended when it is dropped.
struct Peer {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Peer {
    /// What it told in a line; what was to be told is a part of it.
    fn tells(&mut self, part: &str) -> String {
        let line = self.lines.next().unwrap_or_else(|| panic!("it ended before it told {part}")).unwrap();
        assert!(line.contains(part), "{part} is not in {line}");
        line
    }
}

impl Peer {
    fn is_told(&mut self, line: &str) {
        let input = self.child.stdin.as_mut().expect("it was started with a pipe");
        writeln!(input, "{line}").unwrap();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `None`, with the reason printed, where no Python has aioquic.
fn start(arguments: &[&str]) -> Option<Peer> {
    let made = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../interop/bin/python");
    let given = std::env::var_os("TAUT_INTEROP_PYTHON").map(PathBuf::from);
    let pythons = given.into_iter().chain([made, PathBuf::from("python3")]);
    let has_it = |python: &PathBuf| {
        let mut import = Command::new(python);
        import.args(["-c", "import aioquic"]).stderr(Stdio::null());
        import.status().is_ok_and(|status| status.success())
    };
    let Some(python) = pythons.into_iter().find(has_it) else {
        println!("skipped: no Python here has aioquic: `pip install aioquic` into one, or `make test`");
        return None;
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/io/interop_peer.py");
    let certificate = hex(&certificate::self_signed(&Identity::from_bytes(OURS)));
    let (role, rest) = arguments.split_first().expect("a role");
    let mut command = Command::new(python);
    command.arg(script).arg(role);
    let (before, after) = if *role == "client" { rest.split_at(1) } else { (&[][..], rest) };
    command.args(before).arg(hex(&THEIRS)).arg(certificate).args(after);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    Some(Peer { child, lines })
}

fn identity() -> Identity {
    Identity::from_bytes(OURS)
}

fn trust() -> Trust {
    Trust::only(Identity::from_bytes(THEIRS).fingerprint())
}

fn driver() -> Driver<Plain<Quic>> {
    Driver::new(DriverConfig::new()).unwrap()
}

fn port(socket: UdpSocket) -> UdpPort {
    UdpPort::new(socket, UdpPortConfig::new()).unwrap()
}

fn message(now: Time, stream: StreamId, data: Vec<u8>) -> Message {
    // What is sent on stream 1 is a command.
    let reliability = if stream == StreamId(1) { Reliability::Reliable } else { Reliability::Unreliable };
    Message { data, created: now, priority: Priority(1), stream, reliability, ..Message::default() }
}

/// Echoes on a thread until the peer leaves, twice if it comes twice, and says `left` when it is ready for it to come
/// again; gives what each session ended with.
fn echo(socket: UdpSocket, sessions: usize, left: &mpsc::Sender<()>) -> Vec<(u64, u64, Vec<Event>)> {
    let config = QuicConfig::new().certificates(true).resumption(Resumption::new());
    let mut seen = Vec::new();
    for session in 0..sessions {
        if session > 0 {
            let _ = left.send(());
        }
        let quic = Quic::server(config.clone(), &identity(), trust(), os_entropy());
        let mut driver = driver();
        let id = driver.add(Plain::new(quic), port(socket.try_clone().unwrap())).unwrap();
        let (end, mut events) = (driver.clock().now() + Duration::from_secs(30), Vec::new());
        while !events.contains(&Event::Closed) && driver.clock().now() < end {
            let begin = events.len();
            driver.turn(end, &mut |_, event| events.push(event)).unwrap();
            let now = driver.clock().now();
            for event in &events[begin..] {
                if let Event::Received { data, stream, .. } = event {
                    driver.command(id, message(now, *stream, data.clone()));
                }
            }
        }
        let stats = driver.machine(id).unwrap().transport().stats();
        events.retain(|event| !matches!(event, Event::Received { .. } | Event::Gauge { .. }));
        seen.push((stats.received, stats.received_early, events));
    }
    seen
}

#[test]
fn a_foreign_client_is_served_with_datagrams_streams_migration_and_early_data() {
    let (socket, address) = loopback();
    let Some(mut peer) = start(&["client", &address.to_string(), "2"]) else { return };
    let (left, has_left) = mpsc::channel();
    let served = std::thread::spawn(move || echo(socket, 2, &left));
    peer.tells(r#""connected": true, "key": true"#);
    peer.tells(r#""moved": true"#);
    has_left.recv().unwrap();
    peer.is_told("come again");
    peer.tells(r#""resumed": true, "early_accepted": true"#);
    peer.tells(r#""moved": true"#);
    peer.tells(r#""done": true"#);
    let served = served.join().unwrap();
    let [(first, first_early, first_events), (second, second_early, _)] = &served[..] else {
        panic!("{served:?}")
    };
    // 100 samples and 20 messages, twice; the second session has one more, in its first flight.
    assert_eq!((*first, *first_early, *second, *second_early), (240, 0, 241, 1), "{served:?}");
    let moves = first_events.iter().filter(|event| matches!(event, Event::PathUp(_))).count();
    assert_eq!(moves, 1, "{first_events:?}");
}

#[test]
fn a_foreign_server_is_spoken_with_in_datagrams_and_streams() {
    let Some(mut peer) = start(&["server"]) else { return };
    let told = peer.tells("port");
    let number = told.chars().filter(char::is_ascii_digit).collect::<String>().parse().unwrap();
    let remote = SocketAddr::from(([127, 0, 0, 1], number));
    let mut driver = driver();
    let config = QuicConfig::new().certificates(true);
    let quic = Quic::client(config, &identity(), trust(), os_entropy());
    let id = driver.add(Plain::new(quic), port(loopback().0).to(remote)).unwrap();
    let (end, mut echoed) = (driver.clock().now() + Duration::from_secs(20), Vec::new());
    let sent: Vec<(StreamId, Vec<u8>)> = (0..120u32)
        .map(|number| match number % 6 {
            0 => (StreamId(1), vec![number as u8; if number == 60 { 20_000 } else { 200 }]),
            _ => (StreamId(2), number.to_le_bytes().to_vec()),
        })
        .collect();
    let mut next = sent.iter();
    while echoed.len() < sent.len() && driver.clock().now() < end {
        let (mut connected, before) = (false, echoed.len());
        driver
            .turn(end, &mut |_, event| match event {
                Event::Connected => connected = true,
                Event::Received { data, stream, .. } => echoed.push((stream, data)),
                Event::Dropped { .. } | Event::Closed => panic!("{event:?}"),
                _ => {}
            })
            .unwrap();
        for (stream, data) in next.by_ref().take(echoed.len() - before + usize::from(connected)) {
            let now = driver.clock().now();
            driver.command(id, message(now, *stream, data.clone()));
        }
    }
    let quic = driver.machine_mut(id).unwrap().transport_mut();
    assert_eq!(quic.peer(), Some(Identity::from_bytes(THEIRS).fingerprint()));
    quic.close(Time::MAX);
    driver.turn(Time::ZERO, &mut |_, _| ()).unwrap();
    assert_eq!(echoed, sent);
    peer.tells(r#""connected": true, "key": true"#);
    peer.tells(r#""done": true, "datagrams": 100, "messages": 20"#);
}

#[test]
fn a_foreign_client_that_is_not_trusted_is_turned_away() {
    let (socket, address) = loopback();
    let Some(mut peer) = start(&["client", &address.to_string(), "1"]) else { return };
    let mut driver = driver();
    let config = QuicConfig::new().certificates(true);
    let trust = Trust::only(Identity::from_bytes([13; 32]).fingerprint());
    let quic = Quic::server(config, &identity(), trust, os_entropy());
    driver.add(Plain::new(quic), port(socket)).unwrap();
    let (end, mut events) = (driver.clock().now() + Duration::from_secs(20), Vec::new());
    let refused = |events: &[Event]| events.iter().any(|event| matches!(event, Event::Refused(_)));
    while !refused(&events) && driver.clock().now() < end {
        driver.turn(end, &mut |_, event| events.push(event)).unwrap();
    }
    assert!(refused(&events) && !events.contains(&Event::Connected), "{events:?}");
    drop(driver);
    let told = peer.lines.find_map(|line| line.ok().filter(|line| line.contains("failed")));
    assert!(told.is_some(), "it was let in");
}
