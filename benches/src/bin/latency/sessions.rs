//! Many sessions in one process.

use std::error::Error;
use std::net::UdpSocket;

use taut_core::{Datagram, Deadline, Duration, Event, Message, Time, Transmit, Transport};
use taut_io::{Driver, DriverConfig, Machine, UdpPort, UdpPortConfig};
use taut_transport::udp::{Udp, UdpConfig};

const PERIOD: Duration = Duration::from_millis(1);

/// Prints CPU time per message and memory for 1, 10 and 100 sessions.
pub(crate) fn measure(seconds: u64) -> Result<(), Box<dyn Error + Send + Sync>> {
    println!("\nsessions at 1 kHz, both ends     messages   CPU µs per message   late p99 µs   resident MB");
    for sessions in [1, 10, 100] {
        let row = run(sessions, seconds)?;
        println!(
            "{sessions:24} {:16} {:20.2} {:13.1} {:13.1}",
            row.messages, row.cpu_us, row.late_us, row.resident_mb
        );
    }
    Ok(())
}

struct Row {
    messages: u64,
    cpu_us: f64,
    late_us: f64,
    resident_mb: f64,
}

fn run(sessions: u64, seconds: u64) -> Result<Row, Box<dyn Error + Send + Sync>> {
    let mut driver = Driver::new(DriverConfig::new())?;
    for number in 0..sessions {
        let (client, server) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
        let there = server.local_addr()?;
        // Their periods are not in step.
        let first = Time::ZERO + Duration::from_micros(1_000 * number / sessions) + Duration::from_millis(20);
        let sender = Session {
            transport: Udp::new(UdpConfig::new()),
            due: Some(first),
            late: Vec::new(),
            received: 0,
        };
        driver.add(sender, UdpPort::new(client, UdpPortConfig::new())?.to(there).connected()?)?;
        let receiver =
            Session { transport: Udp::new(UdpConfig::new()), due: None, late: Vec::new(), received: 0 };
        driver.add(receiver, UdpPort::new(server, UdpPortConfig::new())?)?;
    }
    let before = cpu_ns()?;
    let end = driver.clock().now() + Duration::from_secs(seconds);
    let (mut messages, mut late) =
        (0u64, hdrhistogram::Histogram::<u64>::new_with_bounds(1, 10_000_000_000, 2)?);
    while driver.clock().now() < end {
        driver.turn(end, &mut |_, told| match told {
            Told::Received => messages += 1,
            Told::Late(by) => late.saturating_record(by.as_nanos()),
        })?;
    }
    Ok(Row {
        messages,
        cpu_us: (cpu_ns()? - before) as f64 / 1e3 / messages.max(1) as f64,
        late_us: late.value_at_percentile(99.0) as f64 / 1e3,
        resident_mb: resident()? as f64 / 1e6,
    })
}

/// proc(5), /proc/self/schedstat: nanoseconds on a CPU, of the only thread.
fn cpu_ns() -> Result<u64, Box<dyn Error + Send + Sync>> {
    let text = std::fs::read_to_string("/proc/self/schedstat")?;
    Ok(text.split_whitespace().next().unwrap_or_default().parse()?)
}

/// proc(5), /proc/self/statm: resident pages, of 4096 bytes.
fn resident() -> Result<u64, Box<dyn Error + Send + Sync>> {
    let text = std::fs::read_to_string("/proc/self/statm")?;
    Ok(text.split_whitespace().nth(1).unwrap_or_default().parse::<u64>()? * 4_096)
}

enum Told {
    Received,
    Late(Duration),
}

struct Session {
    transport: Udp,
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
        while let Some(due) = self.due.filter(|due| *due <= now) {
            self.late.push(now - due);
            let message = Message { data: vec![0; 75], created: due, ..Message::default() };
            self.transport.send(now, message).expect("there is room");
            self.due = Some(due + PERIOD);
        }
    }

    fn handle_command(&mut self, _: Time, (): ()) {}

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
        self.due.map(|due| Deadline::new(due, "period"))
    }
}
