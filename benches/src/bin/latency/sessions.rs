//! Many sessions in one process.

use std::process::Command;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use taut_core::{
    Datagram, Deadline, Duration, Event, Message, Priority, StreamId, Time, Transmit, Transport, earliest,
};
use taut_io::{Alarm, Driver, DriverConfig, Machine};

use crate::site::Site;
use crate::way::Way;
use crate::{Outcome, SIZE};

const PERIOD: Duration = Duration::from_millis(1);
/// Handshakes are over by then, and are not measured.
const SETTLED: Duration = Duration::from_millis(1_500);

/// A line of `crates/advise/evidence/resources.json`.
#[derive(Serialize)]
struct Resources {
    transport: &'static str,
    name: &'static str,
    cpu_us: f64,
    memory_kb: f64,
}

/// What `taut recommend` knows of CPU and memory: one session for the one, one of a hundred, and one end of it, for the other.
pub(crate) fn evidence(ways: &[Way], seconds: u64) -> Outcome<()> {
    const MANY: u64 = 100;
    let tenths = |value: f64| (value * 10.0).round() / 10.0;
    let mut lines = Vec::new();
    for (way, name) in ways.iter().filter_map(|way| Some((*way, way.carrier()?))) {
        let (one, many) = (in_a_child(way, 1, seconds)?, in_a_child(way, MANY, seconds)?);
        let (cpu_us, ends) = (one.cpu_ns as f64 / 1e3 / one.received.max(1) as f64, 2 * (MANY - 1));
        let memory_kb = many.resident.saturating_sub(one.resident) as f64 / 1e3 / ends as f64;
        let (cpu_us, memory_kb) = (tenths(cpu_us), tenths(memory_kb));
        lines.push(serde_json::to_string(&Resources { transport: way.word(), name, cpu_us, memory_kb })?);
    }
    let processor = std::fs::read_to_string("/proc/cpuinfo")?;
    let model = processor.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let machine = serde_json::to_string(model.map_or("an unnamed processor", |(_, model)| model.trim()))?;
    let command = "cargo run --release -p taut-benches --bin latency -- sessions --json";
    println!(
        "{{\"machine\":{machine},\"command\":\"{command}\",\"transports\":[\n{}\n]}}",
        lines.join(",\n")
    );
    Ok(())
}

/// Prints CPU time per message and memory per session, by transport and number of sessions.
pub(crate) fn measure(ways: &[Way], seconds: u64) -> Outcome<()> {
    println!("\nsessions at 1 kHz, both ends in one thread, loopback; each line a process of its own");
    println!(
        "                         sessions   messages   of sent   CPU µs each   late p99 µs   resident MB   kB a session"
    );
    for way in ways.iter().copied() {
        let mut one: Option<u64> = None;
        for sessions in [1, 10, 100] {
            let row = in_a_child(way, sessions, seconds)?;
            let each = one.map(|one| row.resident.saturating_sub(one) as f64 / 1e3 / (sessions - 1) as f64);
            println!(
                "{way:24} {sessions:8} {:10} {:8.1} % {:13.2} {:13.1} {:13.1}   {}",
                row.received,
                100.0 * row.received as f64 / row.sent.max(1) as f64,
                row.cpu_ns as f64 / 1e3 / row.received.max(1) as f64,
                row.late_ns as f64 / 1e3,
                row.resident as f64 / 1e6,
                each.map_or(String::new(), |each| format!("{each:10.0}")),
            );
            one = one.or(Some(row.resident));
        }
    }
    Ok(())
}

#[derive(Default, Serialize, Deserialize)]
struct Row {
    sent: u64,
    received: u64,
    cpu_ns: u64,
    late_ns: u64,
    resident: u64,
}

fn in_a_child(way: Way, sessions: u64, seconds: u64) -> Outcome<Row> {
    let (sessions, seconds) = (sessions.to_string(), seconds.to_string());
    let mut child = Command::new(std::env::current_exe()?);
    let output = child.args(["session", way.word(), &sessions, &seconds]).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// For the child: its way, how many sessions, and for how long; prints a row.
pub(crate) fn measure_one(arguments: &[String]) -> Outcome<()> {
    let [way, sessions, seconds] = arguments else { return Err("session WAY SESSIONS SECONDS".into()) };
    let row = run(way.parse()?, sessions.parse()?, Duration::from_secs(seconds.parse()?))?;
    println!("{}", serde_json::to_string(&row)?);
    Ok(())
}

fn run(way: Way, sessions: u64, length: Duration) -> Outcome<Row> {
    let mut driver = Driver::new(DriverConfig::new())?;
    let begin = driver.clock().now() + SETTLED;
    for number in 0..sessions {
        let (client, server) = way.ends(&Site::Loopback)?;
        let (transport, port) = server()?;
        driver.add(Session { transport, due: None, late: Vec::new(), received: 0 }, port)?;
        let (transport, port) = client()?;
        // Their periods are not in step.
        let first = begin + Duration::from_micros(1_000 * number / sessions);
        driver.add(Session { transport, due: Some(first), late: Vec::new(), received: 0 }, port)?;
    }
    let mut late = Histogram::<u64>::new_with_bounds(1, 10_000_000_000, 2)?;
    let mut row = Row::default();
    // What happens in the first fifth of a second of samples does not count.
    let begin = begin + Duration::from_millis(200);
    let (mut cpu, end) = (None, begin + length);
    while driver.clock().now() < end {
        let measures = driver.clock().now() >= begin;
        if measures && cpu.is_none() {
            cpu = Some(cpu_ns()?);
        }
        driver.turn(if measures { end } else { begin }, &mut |_, told| match told {
            Told::Received if measures => row.received += 1,
            Told::Late(by) if measures => {
                row.sent += 1;
                late.saturating_record(by.as_nanos());
            }
            _ => {}
        })?;
    }
    row.cpu_ns = cpu_ns()? - cpu.unwrap_or_default();
    row.late_ns = late.value_at_percentile(99.0);
    row.resident = resident()?;
    Ok(row)
}

/// proc(5), /proc/self/schedstat: nanoseconds on a CPU, of the only thread.
fn cpu_ns() -> Outcome<u64> {
    let text = std::fs::read_to_string("/proc/self/schedstat")?;
    Ok(text.split_whitespace().next().unwrap_or_default().parse()?)
}

/// proc(5), /proc/self/statm: resident pages, of 4096 bytes.
fn resident() -> Outcome<u64> {
    let text = std::fs::read_to_string("/proc/self/statm")?;
    Ok(text.split_whitespace().nth(1).unwrap_or_default().parse::<u64>()? * 4_096)
}

enum Told {
    Received,
    Late(Duration),
}

struct Session {
    transport: Box<dyn Transport>,
    /// When it sends next; `None`: never.
    due: Option<Time>,
    late: Vec<Duration>,
    received: u64,
}

impl Machine for Session {
    type Command = ();
    type Event = Told;

    fn handle_input(&mut self, now: Time, input: Datagram<'_>) {
        self.transport.handle_input(now, input);
    }

    fn handle_timeout(&mut self, now: Time) {
        self.transport.handle_timeout(now);
        while let Some(due) = self.due.filter(|due| *due <= now) {
            self.late.push(now - due);
            let (priority, stream) = (Priority(2), StreamId(2));
            let message =
                Message { data: vec![0; SIZE], created: due, priority, stream, ..Message::default() };
            // What does not fit, because this host is late, is missing among what is received.
            let _ = self.transport.send(now, message);
            self.due = Some(due + PERIOD);
        }
    }

    fn handle_command(&mut self, _: Time, (): ()) {}

    fn handle_alarm(&mut self, _: Time, _: Alarm) {}

    fn alarm_voids(_: &()) -> bool {
        false
    }

    fn poll_transmit(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
        self.transport.poll_transmit(now, buffer)
    }

    fn poll_event(&mut self, _: Time) -> Option<Told> {
        while let Some(event) = self.transport.poll_event() {
            self.received += u64::from(matches!(event, Event::Received { .. }));
        }
        if self.received > 0 {
            self.received -= 1;
            return Some(Told::Received);
        }
        self.late.pop().map(Told::Late)
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        earliest(self.transport.poll_timeout(), self.due.map(|due| Deadline::new(due, "period")))
    }
}
