//! SCTP against another implementation of it: usrsctp, the stack of FreeBSD in user space, over UDP (RFC 6951) on loopback.
//!
//! Needs a C compiler and `usrsctp` (Debian: `libusrsctp-dev`); says that it was skipped where they are missing.

use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration as StdDuration, Instant};

use taut_core::{
    Datagram, Duration, Ecn, Event, Message, PathId, Priority, Reliability, Seed, StreamId, Time, Transport,
};
use taut_transport::entropy::Entropy;
use taut_transport::sctp::{Sctp, SctpConfig};

const MESSAGES: u64 = 5_000;

/// A peer that echoes each message on its stream, ordered or not as it came.
struct Peer {
    child: Child,
    stdout: BufReader<ChildStdout>,
    program: PathBuf,
}

impl Peer {
    /// Compiles and starts it; `Err` says why not.
    fn start(local_udp: u16, remote_udp: u16) -> Result<Self, String> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/usrsctp/echo.c");
        let program = std::env::temp_dir().join(format!("taut-usrsctp-echo-{}", std::process::id()));
        let compiler = Command::new("cc").arg(&source).arg("-o").arg(&program).arg("-lusrsctp").output();
        let compiled = compiler.map_err(|error| format!("no C compiler: {error}"))?;
        if !compiled.status.success() {
            let why = String::from_utf8_lossy(&compiled.stderr);
            return Err(format!("usrsctp is not installed: {}", why.lines().next().unwrap_or_default()));
        }
        let mut child = Command::new(&program)
            .args([local_udp.to_string(), remote_udp.to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("it does not start: {error}"))?;
        let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        stdout.read_line(&mut line).map_err(|error| error.to_string())?;
        assert_eq!(line.trim(), "listening", "the peer says when it is ready");
        Ok(Self { child, stdout, program })
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = (self.child.kill(), self.child.wait(), std::fs::remove_file(&self.program));
    }
}

/// The smallest driver there is: one socket, one clock.
struct Driver {
    sctp: Sctp,
    socket: UdpSocket,
    start: Instant,
    events: Vec<(Time, Event)>,
}

impl Driver {
    fn now(&self) -> Time {
        Time::from_nanos(self.start.elapsed().as_nanos() as u64)
    }

    fn turn(&mut self) {
        self.sctp.handle_timeout(self.now());
        let mut buffer = vec![0; 2_048];
        if let Ok(length) = self.socket.recv(&mut buffer) {
            let data = &buffer[..length];
            let input = Datagram { path: PathId(0), ecn: Ecn::NotCapable, data, padding: 0 };
            self.sctp.handle_input(self.now(), input);
        }
        self.flush();
    }

    fn flush(&mut self) {
        let now = self.now();
        let mut packet = Vec::new();
        while self.sctp.poll_transmit(now, &mut packet).is_some() {
            self.socket.send(&packet).expect("loopback takes it");
            packet.clear();
        }
        while let Some(event) = self.sctp.poll_event() {
            self.events.push((now, event));
        }
    }

    fn saw(&self, wanted: &Event) -> bool {
        self.events.iter().any(|(_, event)| event == wanted)
    }

    fn echoes(&self) -> impl Iterator<Item = (Time, &Vec<u8>, StreamId)> {
        self.events.iter().filter_map(|(at, event)| match event {
            Event::Received { data, stream, .. } => Some((*at, data, *stream)),
            _ => None,
        })
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a real socket needs a real clock")]
fn usrsctp_echoes_every_message_of_every_kind() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    // A port that was free a moment ago.
    let peer_port = {
        let free = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        free.local_addr().expect("bound").port()
    };
    let mut peer = match Peer::start(peer_port, socket.local_addr().expect("bound").port()) {
        Ok(peer) => peer,
        Err(why) => return println!("skipped: {why}"),
    };
    socket.connect(("127.0.0.1", peer_port)).expect("loopback");
    socket.set_read_timeout(Some(StdDuration::from_micros(200))).expect("a timeout");
    let config = SctpConfig::new().ports(5001, 5000);
    let sctp = Sctp::client(config, Entropy::seeded(Seed::new(u64::from(peer_port)), "client"));
    let mut driver = Driver { sctp, socket, start: Instant::now(), events: Vec::new() };
    while !driver.saw(&Event::Connected) {
        assert!(driver.start.elapsed() < StdDuration::from_secs(10), "no association");
        driver.turn();
    }
    let mut next = driver.now();
    for number in 0..MESSAGES {
        let stream = (number % 4) as u16;
        let mut data = number.to_be_bytes().to_vec();
        // Every 50th is longer than a packet.
        data.resize(if number % 50 == 0 { 4_000 } else { 75 }, number as u8);
        let reliability = if stream < 2 { Reliability::Unreliable } else { Reliability::Reliable };
        let (created, priority) = (driver.now(), Priority(stream.min(2) as u8));
        let deadline = Some(Duration::from_secs(2));
        let message = Message {
            data,
            created,
            deadline,
            priority,
            stream: StreamId(stream),
            reliability,
            tag: number,
            wanted: None,
            series: None,
        };
        driver.sctp.send(created, message).expect("there is room");
        driver.flush();
        next += Duration::from_micros(500);
        while driver.now() < next {
            driver.turn();
        }
    }
    let patience = Instant::now();
    while driver.echoes().count() < MESSAGES as usize && patience.elapsed() < StdDuration::from_secs(3) {
        driver.turn();
    }
    let mut numbers = [(); 4].map(|()| Vec::new());
    for (_, data, stream) in driver.echoes() {
        let number = u64::from_be_bytes(data[..8].try_into().expect("a number"));
        assert!(data[8..].iter().all(|byte| *byte == number as u8));
        numbers[usize::from(stream.0)].push(number);
    }
    println!("echoed: {:?}", numbers.each_ref().map(Vec::len));
    assert!(numbers.iter().all(|numbers| numbers.len() == MESSAGES as usize / 4));
    assert!(numbers[2..].iter().all(|numbers| numbers.is_sorted()), "ordered streams are in order");
    driver.sctp.close(driver.now());
    driver.flush();
    while !driver.saw(&Event::Closed) && patience.elapsed() < StdDuration::from_secs(10) {
        driver.turn();
    }
    assert!(driver.saw(&Event::Closed), "the peer agrees to the shutdown");
    let mut line = String::new();
    peer.stdout.read_line(&mut line).expect("the peer counts");
    assert_eq!(line.trim(), format!("echoed {MESSAGES}"));
}
