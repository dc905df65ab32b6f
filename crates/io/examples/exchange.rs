//! One end of a conversation over DCCP (IP protocol 33) or SCTP (over UDP) in the clear, with whoever speaks the same: what
//! Linux's own DCCP and SCTP are held against (`oracle/compare dccp sctp`).
//!
//! ```text
//! exchange client dccp2 10.1.0.1:6511 10.2.0.1:6511 send=500 period_ns=10000000 end_ns=9000000000 record=/tmp/out
//! ```
//!
//! A message is its number and the time when it was made, both little-endian u64, after four bytes that are the stream's
//! over DCCP, and zeros. `streams=2` sends them over so many streams in turn. SCTP's `min_window` is
//! that of RFC 9260, 4800 bytes, unless it is said, and so is how many `copies` a repetition has. `period_ns=0` sends as fast as the transport lets it go. Times are those of `CLOCK_MONOTONIC`. What
//! arrives is recorded as number, made and arrived, i64 each.
#![allow(clippy::print_stdout, reason = "its answer")]

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write;
use std::net::{SocketAddr, UdpSocket};

use rustix::time::{ClockId, clock_gettime};
use taut_core::{
    Bytes, Datagram, Deadline, Duration, Event, Message, Reliability, StreamId, Time, Transmit, Transport,
    earliest,
};
use taut_io::session::{os_entropy, os_seed};
use taut_io::{Alarm, Clock, DccpPort, Driver, DriverConfig, Machine, Port, UdpPort, UdpPortConfig};
use taut_transport::dccp::{Ccid, Dccp, DccpConfig};
use taut_transport::sctp::{Sctp, SctpConfig};

type Failure = Box<dyn Error>;

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [role, protocol, local, remote, rest @ ..] = words.as_slice() else {
        return Err("exchange ROLE PROTOCOL LOCAL REMOTE [NAME=VALUE …]".into());
    };
    let options: BTreeMap<_, _> = rest.iter().filter_map(|word| word.split_once('=')).collect();
    let (local, remote) = (local.parse()?, remote.parse()?);
    let (line, port) = match (protocol.as_str(), role == "client") {
        ("dccp2", client) => dccp(Ccid::TcpLike, client, local, remote)?,
        ("dccp3", client) => dccp(Ccid::Tfrc, client, local, remote)?,
        ("sctp", client) => sctp(client, &options, local, remote)?,
        _ => return Err(format!("{protocol} is not dccp2, dccp3 or sctp").into()),
    };
    run(line, port, &Plan::new(&options)?)
}

fn dccp(ccid: Ccid, client: bool, local: SocketAddr, remote: SocketAddr) -> Result<(Line, Port), Failure> {
    let config = DccpConfig::new().ports(local.port(), remote.port()).ccids(&[ccid])?.queue(5, 5)?;
    let rng = os_seed().stream("exchange");
    let line = if client { Dccp::client(config, rng) } else { Dccp::server(config, rng) };
    let port = DccpPort::new(local, 1)?;
    Ok((Line::Dccp(Box::new(line)), if client { port.to(remote) } else { port }.into()))
}

fn sctp(
    client: bool,
    options: &BTreeMap<&str, &str>,
    local: SocketAddr,
    remote: SocketAddr,
) -> Result<(Line, Port), Failure> {
    // As polite as RFC 9260 wants it: the kernel's is.
    let min_window = options.get("min_window").unwrap_or(&"4800").parse()?;
    let copies = options.get("copies").unwrap_or(&"2").parse()?;
    let config = SctpConfig::new().ports(local.port(), remote.port());
    let config = config.min_window(Bytes::new(min_window)).copies(copies);
    let line = if client { Sctp::client(config, os_entropy()) } else { Sctp::server(config, os_entropy()) };
    let port = UdpPort::new(UdpSocket::bind(local)?, UdpPortConfig::new())?;
    Ok((Line::Sctp(Box::new(line)), if client { port.to(remote) } else { port }.into()))
}

/// What is said, and until when.
struct Plan {
    send: u64,
    size: usize,
    period: Duration,
    streams: u64,
    reliability: Reliability,
    /// When the first message is made, `CLOCK_MONOTONIC`.
    begin: u64,
    /// When this end says goodbye.
    close: u64,
    /// When it gives up.
    end: u64,
    record: Option<String>,
}

impl Plan {
    fn new(options: &BTreeMap<&str, &str>) -> Result<Self, Failure> {
        let number = |name, default| options.get(name).map_or(Ok(default), |text| text.parse());
        Ok(Self {
            send: number("send", 0)?,
            size: number("size", 75)? as usize,
            period: Duration::from_nanos(number("period_ns", 0)?),
            streams: number("streams", 1)?.max(1),
            reliability: match number("reliable", 0)? {
                0 => Reliability::Unreliable,
                _ => Reliability::Reliable,
            },
            begin: number("begin_ns", 0)?,
            close: number("close_ns", u64::MAX)?,
            end: number("end_ns", u64::MAX)?,
            record: options.get("record").map(|&path| path.to_owned()),
        })
    }
}

/// The transport.
enum Line {
    Dccp(Box<Dccp>),
    Sctp(Box<Sctp>),
}

impl Line {
    fn get(&self) -> &dyn Transport {
        match self {
            Self::Dccp(dccp) => dccp.as_ref(),
            Self::Sctp(sctp) => sctp.as_ref(),
        }
    }

    fn get_mut(&mut self) -> &mut dyn Transport {
        match self {
            Self::Dccp(dccp) => dccp.as_mut(),
            Self::Sctp(sctp) => sctp.as_mut(),
        }
    }

    /// Bytes in front of a message of ours that the transport puts there itself.
    fn prefix(&self) -> usize {
        if matches!(self, Self::Dccp(_)) { 4 } else { 0 }
    }

    /// A queue of five, as Linux has for DCCP; a send buffer refuses by itself.
    fn has_room(&self) -> bool {
        match self {
            Self::Dccp(dccp) => dccp.stats().waiting < 5,
            Self::Sctp(_) => true,
        }
    }

    fn facts(&self) -> String {
        match self {
            Self::Dccp(dccp) => {
                let stats = dccp.stats();
                let sends = stats.ccid.map_or(0, |ccid| ccid as u8);
                let receives = if stats.loss_event_rate.is_some() { 3 } else { 2 };
                let state = format!("{:?}", dccp.state()).to_lowercase();
                format!(
                    "tx_ccid={sends} rx_ccid={receives} sent={} invalid={} malformed={} timeouts={} events={} state={state}",
                    stats.sent, stats.invalid, stats.malformed, stats.timeouts, stats.congestion_events
                )
            }
            Self::Sctp(sctp) => {
                let stats = sctp.stats();
                format!(
                    "sent={} refused={} again={}",
                    stats.handed, stats.refused, stats.retransmitted_packets
                )
            }
        }
    }
}

/// Speaks and listens.
struct Exchange {
    line: Line,
    next: Time,
    left: u64,
    number: u64,
    size: usize,
    period: Duration,
    streams: u64,
    reliability: Reliability,
    /// `CLOCK_MONOTONIC` at [`Time::ZERO`].
    epoch: u64,
    connected: bool,
    closing: bool,
}

impl Exchange {
    fn speak(&mut self, now: Time) {
        let paced = self.period > Duration::ZERO;
        while self.connected && !self.closing && self.left > 0 && now >= self.next {
            // Of paced messages the newest count.
            if !paced && !self.line.has_room() {
                break;
            }
            let made = if paced { self.next } else { now };
            let mut data = vec![0; 16usize.max(self.size - self.line.prefix())];
            data[..8].copy_from_slice(&self.number.to_le_bytes());
            data[8..16].copy_from_slice(&(self.epoch + made.as_nanos()).to_le_bytes());
            let stream = StreamId((self.number % self.streams) as u16);
            let message =
                Message { data, created: made, stream, reliability: self.reliability, ..Message::default() };
            if self.line.get_mut().send(now, message).is_err() && !paced {
                break;
            }
            (self.number, self.left) = (self.number + 1, self.left - 1);
            self.next = made + self.period;
        }
    }
}

impl Machine for Exchange {
    /// Says goodbye.
    type Command = ();
    type Event = Event;

    fn handle_input(&mut self, now: Time, input: Datagram<'_>) {
        self.line.get_mut().handle_input(now, input);
    }

    fn handle_timeout(&mut self, now: Time) {
        self.line.get_mut().handle_timeout(now);
        self.speak(now);
    }

    fn handle_command(&mut self, now: Time, (): ()) {
        self.closing = true;
        self.line.get_mut().close(now);
    }

    fn handle_alarm(&mut self, _: Time, _: Alarm) {}

    fn alarm_voids(_: &()) -> bool {
        false
    }

    fn poll_transmit(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
        self.speak(now);
        self.line.get_mut().poll_transmit(now, buffer)
    }

    fn poll_event(&mut self, now: Time) -> Option<Event> {
        let event = self.line.get_mut().poll_event();
        if event == Some(Event::Connected) {
            (self.connected, self.next) = (true, self.next.max(now));
        }
        event
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let begins = self.period > Duration::ZERO || self.number == 0;
        let speaks = self.connected && !self.closing && self.left > 0 && begins;
        earliest(self.line.get().poll_timeout(), speaks.then(|| Deadline::new(self.next, "next message")))
    }
}

fn monotonic() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// For so long a goodbye may take, and TIMEWAIT is waited for.
const GOODBYE: Duration = Duration::from_secs(2);

fn run(line: Line, port: Port, plan: &Plan) -> Result<(), Failure> {
    let (clock, epoch) = (Clock::start(), monotonic());
    let at = |nanos: u64| Time::from_nanos(nanos.saturating_sub(epoch));
    let exchange = Exchange {
        line,
        next: at(plan.begin),
        left: plan.send,
        number: 0,
        size: plan.size,
        period: plan.period,
        streams: plan.streams,
        reliability: plan.reliability,
        epoch,
        connected: false,
        closing: false,
    };
    let mut driver = Driver::new(DriverConfig::new())?.with_clock(clock);
    let id = driver.add(exchange, port)?;
    let (mut connected, mut closed, mut asked) = (None, None, false);
    let (mut received, mut record) = (0_u64, Vec::new());
    let (close, mut end) = (at(plan.close), at(plan.end));
    while clock.now() < end {
        let until = if asked { end } else { close.min(end) };
        driver.turn(until, &mut |_, event| match event {
            Event::Connected => connected = Some(clock.now()),
            Event::Received { data, .. } => {
                received += 1;
                record.extend_from_slice(&data[..16]);
                record.extend_from_slice(&(epoch + clock.now().as_nanos()).to_le_bytes());
            }
            Event::Closed => closed = Some(clock.now()),
            _ => {}
        })?;
        if !asked && clock.now() >= close {
            asked = true;
            driver.command(id, ());
        }
        if let Some(at) = closed {
            end = end.min(at + GOODBYE);
        }
    }
    let machine = driver.machine(id).expect("it is never removed");
    let ms = |at: Option<Time>| at.map_or(-1.0, |at| (at - Time::ZERO).as_millis_f64());
    println!(
        "connected_ms={:.3} closed_ms={:.3} made={} received={received} {}",
        ms(connected),
        ms(closed),
        machine.number,
        machine.line.facts()
    );
    match &plan.record {
        Some(path) => Ok(std::fs::File::create(path)?.write_all(&record)?),
        None => Ok(()),
    }
}
