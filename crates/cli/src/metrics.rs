//! `--metrics ADDRESS:PORT`: the newest report, over HTTP: `/metrics` for Prometheus, `/status.json` for any other program.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use taut_core::Time;
use taut_io::{CapabilitySet, Clock, FloodChange, FloodNote, connections, drop_privileges};
use taut_session::Status;

use crate::host::lock;

/// Bytes of a request that are read at most; what is asked for stands at its beginning.
const REQUEST: usize = 2_048;
/// Whoever asks has so long for it, and to take the answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// The rest of a request that is too long is taken for so long.
const REST: Duration = Duration::from_millis(100);

/// Answers on a thread of its own: the session waits for nobody.
pub(crate) struct Metrics {
    newest: Arc<Mutex<Report>>,
    clock: Clock,
}

/// The newest, and when it was made.
#[derive(Default)]
struct Report {
    status: Value,
    made: Option<Time>,
    floods: Floods,
}

/// Datagrams that the kernel dropped while strangers flooded sockets: in floods that are over, and in those that go on, by socket.
#[derive(Default)]
struct Floods {
    over: u64,
    going_on: BTreeMap<SocketAddr, u64>,
}

impl Floods {
    fn take(&mut self, note: &FloodNote) {
        let over = match note.change {
            FloodChange::Ended | FloodChange::NotTaken => {
                self.going_on.remove(&note.socket);
                note.dropped
            }
            // Of the one before it was not told that it ended.
            FloodChange::Began => self.going_on.insert(note.socket, note.dropped).unwrap_or(0),
            FloodChange::Peers | FloodChange::GoesOn => {
                self.going_on.insert(note.socket, note.dropped);
                0
            }
        };
        self.over += over;
    }

    fn dropped(&self) -> u64 {
        self.over + self.going_on.values().sum::<u64>()
    }
}

impl Metrics {
    /// # Errors
    /// When the address is taken, or the system has no thread left.
    pub(crate) fn start(listen: SocketAddr, clock: Clock) -> Result<Self, String> {
        let failed = |error: io::Error| format!("--metrics {listen}: {error}");
        let listener = TcpListener::bind(listen).map_err(failed)?;
        let newest = Arc::new(Mutex::new(Report::default()));
        let shared = newest.clone();
        let serve = move || {
            // A thread that may do more than it has to is one that does not serve.
            if drop_privileges(CapabilitySet::empty()).is_err() {
                return;
            }
            for stream in connections(&listener) {
                // Whoever asks and does not read is left alone.
                let _ = answer(stream, &shared, clock);
            }
        };
        std::thread::Builder::new().name("taut metrics".to_owned()).spawn(serve).map_err(failed)?;
        Ok(Self { newest, clock })
    }

    /// With what became of its recording and view, if there is any.
    pub(crate) fn tell(&self, status: &Status, recording: Option<Value>) {
        let mut status = json!(status);
        if let (Value::Object(fields), Some(recording)) = (&mut status, recording) {
            fields.insert("recording".to_owned(), recording);
        }
        let mut newest = lock(&self.newest);
        (newest.status, newest.made) = (status, Some(self.clock.now()));
    }

    /// What the kernel keeps from the session.
    pub(crate) fn flood(&self, note: &FloodNote) {
        lock(&self.newest).floods.take(note);
    }
}

/// With the age of the report, where there was one: while there is no session there is none newer.
fn at(report: &Report, now: Time) -> Value {
    let mut fields = match &report.status {
        Value::Object(fields) => fields.clone(),
        _ => serde_json::Map::new(),
    };
    if let Some(made) = report.made {
        fields.insert("report_age_s".to_owned(), json!(now.saturating_since(made).as_secs_f64()));
    }
    fields.insert("socket_dropped".to_owned(), json!({ "flood": report.floods.dropped() }));
    Value::Object(fields)
}

fn answer(mut stream: TcpStream, newest: &Mutex<Report>, clock: Clock) -> io::Result<()> {
    let due = clock.now() + PATIENCE.into();
    stream.set_write_timeout(Some(PATIENCE))?;
    let (mut request, mut length) = ([0; REQUEST], 0);
    // What follows an empty line is not for a GET.
    let is_whole = |read: &[u8]| read.windows(4).any(|end| end == b"\r\n\r\n");
    while length < REQUEST && !is_whole(&request[..length]) {
        match read_until(&mut stream, &mut request[length..], due, clock)? {
            0 => break,
            more => length += more,
        }
    }
    let has_rest = length == REQUEST && !is_whole(&request);
    let status = at(&lock(newest), clock.now());
    let (code, kind, body) = match path(&request[..length]) {
        Some("/metrics") => ("200 OK", "text/plain; version=0.0.4", text(&status)),
        Some("/status.json") => ("200 OK", "application/json", format!("{status}\n")),
        _ => ("404 Not Found", "text/plain", "GET /metrics or /status.json\n".to_owned()),
    };
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {code}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )?;
    stream.shutdown(Shutdown::Write)?;
    // To close it with the rest of a request unread would take the answer back.
    let due = clock.now() + REST.into();
    while has_rest && read_until(&mut stream, &mut request, due, clock)? > 0 {}
    Ok(())
}

fn read_until(stream: &mut TcpStream, bytes: &mut [u8], due: Time, clock: Clock) -> io::Result<usize> {
    let left = due.saturating_since(clock.now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    stream.set_read_timeout(Some(left.into()))?;
    stream.read(bytes)
}

/// Of a GET request.
fn path(request: &[u8]) -> Option<&str> {
    let line = request.split(|byte| *byte == b'\r').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    if words.next()? != "GET" {
        return None;
    }
    words.next().map(|path| path.split('?').next().unwrap_or(path))
}

/// Prometheus's text format: every number by its place in the report, and names of streams, channels and causes as labels.
fn text(status: &Value) -> String {
    let mut samples = Samples::new();
    collect(&mut samples, "taut", &[], status);
    let mut text = String::new();
    for (name, samples) in samples {
        // To a string it cannot fail.
        let _ = writeln!(text, "# TYPE {name} untyped");
        for (labels, number) in samples {
            let _ = writeln!(text, "{name}{labels} {number}");
        }
    }
    text
}

/// By name, then by labels. Of equal labels, as of the two streams of normal priority, the sum.
type Samples = BTreeMap<String, BTreeMap<String, f64>>;

fn collect(samples: &mut Samples, name: &str, labels: &[(&str, &str)], value: &Value) {
    let sample = |samples: &mut Samples, labels: &[(&str, &str)], number: f64| {
        let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let labels: Vec<String> =
            labels.iter().map(|(key, value)| format!("{key}=\"{}\"", quoted(value))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        *samples.entry(name.to_owned()).or_default().entry(labels).or_default() += number;
    };
    match value {
        Value::Null => {}
        Value::Bool(is_so) => sample(samples, labels, f64::from(u8::from(*is_so))),
        Value::Number(number) => {
            number.as_f64().into_iter().for_each(|number| sample(samples, labels, number))
        }
        Value::String(word) => sample(samples, &[labels, &[("is", word)]].concat(), 1.0),
        Value::Object(fields) if name.ends_with("_dropped") => {
            for (cause, count) in fields {
                collect(samples, name, &[labels, &[("cause", cause)]].concat(), count);
            }
        }
        Value::Object(fields) => {
            for (field, value) in fields {
                collect(samples, &format!("{name}_{field}"), labels, value);
            }
        }
        Value::Array(all) => {
            for one in all {
                let Value::Object(fields) = one else { continue };
                let own = ["name", "direction"]
                    .into_iter()
                    .filter_map(|key| Some((key, fields.get(key)?.as_str()?)));
                let labels: Vec<(&str, &str)> = labels.iter().copied().chain(own).collect();
                for (field, value) in
                    fields.iter().filter(|(field, _)| !["name", "direction"].contains(&field.as_str()))
                {
                    collect(samples, &format!("{name}_{field}"), &labels, value);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_becomes_samples_with_labels() {
        let status = json!({
            "state": "ENABLED", "messages": 7, "rtt": { "p50_ms": 1.5, "max_ms": null }, "emergency": false,
            "dropped": { "too_late": 2 },
            "channels": [{ "name": "a\"b", "direction": "to_robot", "open": true, "dropped": { "stopped": 3 } }],
        });
        let text = text(&status);
        let mut lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        lines.sort_unstable();
        assert_eq!(
            lines,
            [
                "taut_channels_dropped{name=\"a\\\"b\",direction=\"to_robot\",cause=\"stopped\"} 3",
                "taut_channels_open{name=\"a\\\"b\",direction=\"to_robot\"} 1",
                "taut_dropped{cause=\"too_late\"} 2",
                "taut_emergency 0",
                "taut_messages 7",
                "taut_rtt_p50_ms 1.5",
                "taut_state{is=\"ENABLED\"} 1",
            ]
        );
    }

    #[test]
    fn every_sample_is_there_once_and_those_of_a_name_stand_together() {
        let stream = |name: &str, sent: u64| json!({ "name": name, "sent": sent, "lost": 1 });
        let streams = [stream("emergency", 1), stream("high", 2), stream("normal", 30), stream("normal", 12)];
        let text = text(&json!({ "streams": streams, "lost": 4 }));
        let expected = "# TYPE taut_lost untyped\ntaut_lost 4\n\
            # TYPE taut_streams_lost untyped\ntaut_streams_lost{name=\"emergency\"} 1\n\
            taut_streams_lost{name=\"high\"} 1\ntaut_streams_lost{name=\"normal\"} 2\n\
            # TYPE taut_streams_sent untyped\ntaut_streams_sent{name=\"emergency\"} 1\n\
            taut_streams_sent{name=\"high\"} 2\ntaut_streams_sent{name=\"normal\"} 42\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn what_floods_keep_out_is_told_before_there_was_a_session() {
        let dropped = text(&at(&Report::default(), Time::ZERO));
        assert!(dropped.ends_with("\ntaut_socket_dropped{cause=\"flood\"} 0\n"), "{dropped}");
    }

    #[test]
    fn what_floods_keep_out_is_counted_while_they_go_on_and_afterwards() {
        let note = |port, change, dropped| FloodNote {
            socket: SocketAddr::from(([127, 0, 0, 1], port)),
            change,
            peers: 1,
            dropped,
        };
        let mut report = Report { status: json!({}), made: Some(Time::ZERO), ..Report::default() };
        let mut dropped = |note| {
            report.floods.take(&note);
            text(&at(&report, Time::ZERO)).lines().find_map(|line| {
                line.strip_prefix("taut_socket_dropped{cause=\"flood\"} ")?.parse::<u64>().ok()
            })
        };
        assert_eq!(dropped(note(1, FloodChange::Began, 0)), Some(0));
        assert_eq!(dropped(note(1, FloodChange::GoesOn, 70)), Some(70));
        assert_eq!(dropped(note(2, FloodChange::GoesOn, 5)), Some(75));
        assert_eq!(dropped(note(1, FloodChange::Ended, 80)), Some(85));
        assert_eq!(dropped(note(1, FloodChange::Began, 0)), Some(85), "the next one counts on");
        assert_eq!(dropped(note(1, FloodChange::Peers, 3)), Some(88));
        assert_eq!(dropped(note(1, FloodChange::Began, 0)), Some(88), "nobody told that it ended");
        assert_eq!(dropped(note(1, FloodChange::GoesOn, 4)), Some(92));
        assert_eq!(dropped(note(1, FloodChange::NotTaken, 6)), Some(94));
    }

    #[test]
    fn whoever_asks_a_byte_at_a_time_is_left_alone_within_a_second() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut slow = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        let clock = Clock::start();
        let asking = std::thread::spawn(move || {
            // Until the other end is closed, or for longer than a test may take.
            (0..100).any(|_| {
                std::thread::park_timeout(Duration::from_millis(300));
                slow.write_all(b"G").is_err()
            })
        });
        let error = answer(stream, &Mutex::new(Report::default()), clock).unwrap_err();
        assert!(matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock), "{error}");
        assert!(asking.join().unwrap(), "it was closed");
    }

    #[test]
    fn a_long_request_has_its_whole_answer() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut asks = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let header = format!("X-Forwarded-For: {}\r\n", "a".repeat(4_000));
        write!(asks, "GET /status.json HTTP/1.1\r\n{header}\r\n").unwrap();
        let (stream, _) = listener.accept().unwrap();
        let report = Report { status: json!({ "text": "a".repeat(100_000) }), ..Report::default() };
        let answers = std::thread::spawn(move || answer(stream, &Mutex::new(report), Clock::start()));
        std::thread::park_timeout(Duration::from_millis(100));
        let mut text = String::new();
        asks.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.ends_with("}\n"), "{text:.200}");
        let _ = answers.join().unwrap(); // The text says whether it was taken.
    }

    #[test]
    fn a_client_that_keeps_its_connection_open_holds_nobody_up() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut asks = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        write!(asks, "GET /status.json HTTP/1.1\r\n\r\n").unwrap();
        let (clock, newest) = (Clock::start(), Mutex::new(Report::default()));
        answer(listener.accept().unwrap().0, &newest, clock).unwrap();
        let took = clock.now() - Time::ZERO;
        assert!(took < Duration::from_millis(500).into(), "{took}");
    }

    #[test]
    fn only_what_is_asked_for_by_get_has_a_path() {
        assert_eq!(path(b"GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n"), Some("/metrics"));
        for other in [&b"POST /metrics HTTP/1.1\r\n"[..], b"GET", b"", b"\xff\xfe /metrics"] {
            assert_eq!(path(other), None);
        }
    }
}
