//! Cross traffic, over sockets of its own beside the session's.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use socket2::{Domain, Protocol, Socket, Type};
use taut_core::{
    Bytes, Datagram, Deadline, DropCause, Duration, IPV4_HEADER, Node, Packet, PacketMeta, PathId, Seed,
    Time, Transmit, UDP_HEADER,
};
use taut_io::tcp::{Bulk, BulkConfig};
use taut_io::{Alarm, Clock, Driver, DriverConfig, Machine, MachineId, Port, UdpPort, UdpPortConfig};
use taut_lab::run::{CrossBooks, CrossCarrier, CrossFlow, Inputs, Tally, cross_flows};
use taut_lab::scenario::{Direction, Scenario};

use crate::between::Network;
use crate::emulate::Tap;
use crate::{Cancel, Namespace, Options, RealError};

/// What became of cross traffic, written by the emulator's thread or by that of the sockets.
#[derive(Clone)]
pub(crate) struct Books(Arc<Mutex<CrossBooks>>);

impl Books {
    pub(crate) fn new(scenario: &Scenario, flows: &[CrossFlow]) -> Self {
        Self(Arc::new(Mutex::new(CrossBooks::new(scenario, flows))))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, CrossBooks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those who see what the emulator carries there, and back.
    pub(crate) fn taps(&self) -> [Box<dyn Tap>; 2] {
        [false, true].map(|back| Box::new(Watcher { books: self.clone(), back }) as _)
    }
}

/// Sees one direction.
struct Watcher {
    books: Books,
    back: bool,
}

impl Tap for Watcher {
    fn entered(&mut self, packet: &Packet) {
        self.books.lock().entered(self.back, packet);
    }
    fn left(&mut self, now: Time, packet: &Packet) {
        self.books.lock().left(self.back, now, packet);
    }
    fn dropped(&mut self, meta: &PacketMeta, cause: DropCause) {
        self.books.lock().dropped(self.back, meta, cause);
    }
    fn duplicated(&mut self, meta: &PacketMeta) {
        self.books.lock().duplicated(self.back, meta);
    }
}

/// The cross traffic of one run, before it begins.
pub(crate) struct Cross {
    flows: Vec<CrossFlow>,
    books: Books,
    /// How long it goes on.
    length: Duration,
}

/// After the scenario's end it goes on for as long as what was sent before may take to arrive.
const AFTER: Duration = Duration::from_secs(1);

impl Cross {
    /// That of a scenario, where it has any.
    pub(crate) fn of(
        scenario: &Scenario,
        seed: Seed,
        inputs: &mut Inputs,
    ) -> Result<Option<Self>, RealError> {
        if scenario.cross.values().all(|cross| cross.traffic.is_silent()) {
            return Ok(None);
        }
        let flows = cross_flows(scenario, seed, inputs)?;
        let books = Books::new(scenario, &flows);
        let length = scenario.duration + scenario.drain.min(AFTER);
        Ok(Some(Self { flows, books, length }))
    }

    pub(crate) fn books(&self) -> &Books {
        &self.books
    }

    /// Opens its sockets and begins, at `began` of the network's clock.
    pub(crate) fn start(
        self,
        network: &Network,
        options: &Options,
        began: Time,
    ) -> Result<Running, RealError> {
        self.books.lock().begin(began);
        let mut ends = Vec::new();
        // Where nobody sees packets on their way, their ends tell how long they took.
        let told = (!options.is_between().sees_packets()).then(|| self.books.clone());
        for flow in self.flows {
            let (number, key) = (flow.number, flow.key.clone());
            let opened = open(flow, network, began, told.as_ref());
            let (sender, receiver) = opened.map_err(|error| RealError::Cross { key, error })?;
            ends.push(Pair { number, sender, receiver });
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (options, clock, until) = (*options, network.clock, began + self.length);
        let stopped = Arc::clone(&stop);
        let work = move || carry(ends, &self.books, &options, clock, until, &stopped);
        let thread = std::thread::Builder::new().name("taut cross traffic".to_owned()).spawn(work);
        let refused = |error| RealError::Cross { key: "cross".to_owned(), error: Box::new(error) };
        Ok(Running { thread: Some(thread.map_err(refused)?), stop, clock, began, length: self.length })
    }
}

/// Cross traffic at work. It stops when it is dropped.
pub(crate) struct Running {
    thread: Option<JoinHandle<Result<(), RealError>>>,
    stop: Arc<AtomicBool>,
    clock: Clock,
    began: Time,
    length: Duration,
}

/// How often it is looked whether somebody wants to stop it.
const LOOK: Duration = Duration::from_millis(50);
/// How often ends that count tell what they have counted.
const TELL: Duration = Duration::from_millis(5);

impl Running {
    /// Waits for its end, or that of the run; `progress` is told how far it is.
    pub(crate) fn finish(mut self, cancel: &Cancel, progress: &mut dyn FnMut(f64)) -> Result<(), RealError> {
        let thread = self.thread.take().expect("it is there until it is finished");
        while !thread.is_finished() {
            if cancel.is_cancelled() {
                self.stop.store(true, Ordering::Release);
            }
            let passed = self.clock.now().saturating_since(self.began);
            progress((passed.as_secs_f64() / self.length.as_secs_f64()).min(1.0));
            std::thread::park_timeout(std::time::Duration::from(LOOK));
        }
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // What went wrong there cannot be told from here.
        }
    }
}

/// Both ends of one flow.
struct Pair<E> {
    number: usize,
    sender: E,
    receiver: E,
}

type Opened = (End, Port);

type Refused = Box<dyn std::error::Error + Send + Sync>;

/// The sockets of a flow, and who drives them.
fn open(
    flow: CrossFlow,
    network: &Network,
    began: Time,
    told: Option<&Books>,
) -> Result<(Opened, Opened), Refused> {
    let path = &network.paths[0];
    let ends = [(&network.operator, path.operator), (&network.robot, path.robot)];
    let [from, to] = match flow.direction {
        Direction::Forward => ends,
        Direction::Backward => [ends[1], ends[0]],
    };
    let [near, far] = [(from.1, flow.ports[0]).into(), (to.1, flow.ports[1]).into()];
    match flow.carrier {
        CrossCarrier::Datagrams { sender, receiver } => {
            let config = UdpPortConfig::new().dscp(flow.dscp).offload(false);
            let port = |namespace: &Namespace, local: SocketAddr, remote: SocketAddr| {
                let socket = namespace.run(|| udp(local))??;
                let port = UdpPort::new(socket, config)?.to(remote).connected()?;
                Ok::<_, Refused>(Port::from(port))
            };
            let node = |node, [leaving, arriving]: [usize; 2]| {
                let told = told.map(|books| Told { books: books.clone(), arriving, leaving });
                End::Node { node, began, counted: Counted::default(), told }
            };
            let both = [flow.number, flow.number + 1];
            let (sender, receiver) = (node(sender, both), node(receiver, [both[1], both[0]]));
            Ok(((sender, port(from.0, near, far)?), (receiver, port(to.0, far, near)?)))
        }
        CrossCarrier::Tcp { spec, start } => {
            let config = BulkConfig {
                congestion: crate::possible::congestion(spec.congestion),
                segment: spec.segment,
                dscp: flow.dscp,
            };
            let start = began + start.saturating_since(Time::ZERO);
            let receiver = to.0.run(|| Bulk::receiver(far, &config))??;
            let sender = from.0.run(|| Bulk::sender(near, far, start, &config))??;
            let [sent, taken] = [sender.descriptor()?, receiver.descriptor()?];
            Ok(((End::Bulk(sender), sent.into()), (End::Bulk(receiver), taken.into())))
        }
    }
}

/// A socket that shares its port with others, each of which is connected to another peer.
fn udp(local: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(local), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_reuse_address(true)?;
    socket.bind(&local.into())?;
    Ok(socket.into())
}

/// Drives all ends until it is time, or somebody stops it.
fn carry(
    pairs: Vec<Pair<Opened>>,
    books: &Books,
    options: &Options,
    clock: Clock,
    until: Time,
    stop: &AtomicBool,
) -> Result<(), RealError> {
    options.warn(options.thread().apply());
    let mut driver = Driver::new(DriverConfig::new())?.with_clock(clock);
    let mut ends = Vec::new();
    for Pair { number, sender, receiver } in pairs {
        let (sender, receiver) = (driver.add(sender.0, sender.1)?, driver.add(receiver.0, receiver.1)?);
        ends.push(Pair { number, sender, receiver });
    }
    let sees = options.is_between().sees_packets();
    let mut look = Time::ZERO;
    loop {
        let now = clock.now();
        let ended = now >= until || stop.load(Ordering::Acquire);
        if ended || now >= look {
            look = now + if sees { LOOK } else { TELL };
            if !sees || ended {
                tell(&driver, &ends, books, now, sees);
            }
        }
        if ended {
            return Ok(());
        }
        driver.turn(look.min(until), &mut |_, ()| {})?;
    }
}

/// Writes down what the ends have counted.
fn tell(driver: &Driver<End>, ends: &[Pair<MachineId>], books: &Books, now: Time, sees: bool) {
    let mut books = books.lock();
    for Pair { number, sender, receiver } in ends {
        let (Some(from), Some(to)) = (driver.machine(*sender), driver.machine(*receiver)) else { continue };
        if let End::Bulk(bulk) = from {
            books.count(*number, "retransmitted", bulk.stats().retransmissions);
        }
        if !sees {
            let (from, to) = (from.counted(), to.counted());
            books.tallied(now, *number, tally(from, to));
            if to.sent > 0 {
                books.tallied(now, number + 1, tally(to, from));
            }
        }
    }
}

fn tally(from: Counted, to: Counted) -> Tally {
    Tally {
        sent: from.sent,
        sent_bytes: from.sent_bytes,
        delivered: to.received,
        delivered_bytes: to.received_bytes,
    }
}

/// Packets of one end, and bytes of IP packets.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    sent: u64,
    sent_bytes: u64,
    received: u64,
    received_bytes: u64,
}

/// One end of a flow.
enum End {
    /// What the simulator has there, told the time since the run began.
    Node {
        node: Box<dyn Node + Send>,
        began: Time,
        counted: Counted,
        /// Who is told of the packets, where nobody sees them on their way.
        told: Option<Told>,
    },
    /// The kernel's TCP.
    Bulk(Bulk),
}

/// Who is told of an end's packets, and which flows they are.
struct Told {
    books: Books,
    arriving: usize,
    leaving: usize,
}

/// What the kernel puts before a datagram.
const HEADERS: u64 = IPV4_HEADER + UDP_HEADER;

impl End {
    fn counted(&self) -> Counted {
        match self {
            Self::Node { counted, .. } => *counted,
            Self::Bulk(bulk) => {
                let stats = bulk.stats();
                Counted {
                    sent: stats.packets_sent,
                    sent_bytes: stats.bytes_sent,
                    received: stats.packets_received,
                    received_bytes: stats.bytes_received,
                }
            }
        }
    }
}

/// When a packet was sent, at the end of its padding.
mod stamp {
    use taut_core::Time;

    const MARK: [u8; 8] = *b"tautsent";
    const SIZE: usize = 16;

    /// Pads a packet and ends it so, where the padding has room; what padding is left.
    pub(super) fn put(buffer: &mut Vec<u8>, padding: u32, now: Time) -> u32 {
        let Some(zeros) = (padding as usize).checked_sub(SIZE) else { return padding };
        buffer.resize(buffer.len() + zeros, 0);
        buffer.extend(MARK);
        buffer.extend(now.as_nanos().to_be_bytes());
        0
    }

    /// When it was sent, if it says so; the padding is zeros again.
    pub(super) fn take(packet: &mut [u8]) -> Option<Time> {
        let (_, stamp) = packet.split_last_chunk_mut::<SIZE>()?;
        let (mark, nanos) = stamp.split_at(MARK.len());
        let sent = (mark == MARK).then(|| u64::from_be_bytes(nanos.try_into().expect("eight bytes")))?;
        stamp.fill(0);
        Some(Time::from_nanos(sent))
    }
}

fn since(began: Time, now: Time) -> Time {
    Time::ZERO + now.saturating_since(began)
}

impl Machine for End {
    type Command = ();
    type Event = ();

    fn handle_input(&mut self, now: Time, input: Datagram<'_>) {
        let Self::Node { node, began, counted, told } = self else { return };
        let size = Bytes::new(input.data.len() as u64 + HEADERS);
        counted.received += 1;
        counted.received_bytes += size.get();
        let meta = PacketMeta { size, ecn: input.ecn, ..PacketMeta::default() };
        let mut payload = input.data.to_vec();
        let sent = told.as_ref().and_then(|_| stamp::take(&mut payload));
        let packet = Packet { meta, payload };
        if let Some(Told { books, arriving, .. }) = told {
            books.lock().took(*arriving, sent, now, &packet);
        }
        node.handle_input(since(*began, now), packet);
    }

    fn handle_timeout(&mut self, now: Time) {
        match self {
            Self::Node { node, began, .. } => node.handle_timeout(since(*began, now)),
            Self::Bulk(bulk) => bulk.handle_timeout(now),
        }
    }

    fn handle_command(&mut self, _now: Time, (): ()) {}

    fn handle_alarm(&mut self, _now: Time, _alarm: Alarm) {}

    fn alarm_voids((): &()) -> bool {
        false
    }

    fn poll_transmit(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
        let Self::Node { node, began, counted, told } = self else { return None };
        let packet = node.poll_transmit(since(*began, now))?;
        let Packet { meta, payload } = &packet;
        counted.sent += 1;
        counted.sent_bytes += meta.size.get();
        let mut padding = meta.size.get().saturating_sub(HEADERS + payload.len() as u64) as u32;
        buffer.extend(payload);
        if let Some(Told { books, leaving, .. }) = told {
            let left = stamp::put(buffer, padding, now);
            books.lock().sent(*leaving, now, &packet, left != padding);
            padding = left;
        }
        Some(Transmit { path: PathId(0), ecn: meta.ecn, padding })
    }

    fn poll_event(&mut self, _now: Time) -> Option<()> {
        if let Self::Node { node, .. } = self {
            while node.poll_event().is_some() {}
        }
        None
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        match self {
            Self::Node { node, began, .. } => {
                let due = node.poll_timeout()?;
                Some(Deadline { at: *began + due.at.saturating_since(Time::ZERO), ..due })
            }
            Self::Bulk(bulk) => bulk.poll_timeout(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Between;
    use crate::between::Path;

    const SCENARIO: &str = r#"
title = "counted by the ends"
duration = "400ms"
drain = "100ms"
[links.wire]
between = ["a", "b"]
chain = [{ delay = "1ms" }]
[cross.bulk]
from = "a"
to = "b"
start = "0s"
traffic = { tcp = {} }
[cross.steady]
from = "b"
to = "a"
traffic = { cbr = { rate = "1Mbit", packet = "500B" } }
"#;

    #[test]
    fn where_nobody_sees_the_network_the_ends_count_what_they_sent_and_got() {
        let (operator, robot) = match (Namespace::new(), Namespace::new()) {
            (Ok(operator), Ok(robot)) => (operator, robot),
            (Err(error), _) | (_, Err(error)) => return assert!(error.lacks_means(), "{error}"),
        };
        Namespace::join((&operator, "wire", "10.96.0.1/24"), (&robot, "wire", "10.96.0.2/24")).unwrap();
        let [a, b] = [[10, 96, 0, 1], [10, 96, 0, 2]].map(std::net::IpAddr::from);
        let paths = vec![Path { device: "wire".to_owned(), operator: a, robot: b }];
        let network = Network { operator, robot, paths, clock: Clock::start() };
        let scenario = Scenario::parse("t.toml", SCENARIO).unwrap();
        let cross = Cross::of(&scenario, Seed::new(1), &mut Inputs::default()).unwrap().unwrap();
        let books = cross.books().clone();
        let options = Options::new().between(Between::Netem);
        let running = cross.start(&network, &options, network.clock.now()).unwrap();
        running.finish(&Cancel::default(), &mut |_| {}).unwrap();
        let books = books.lock();
        let result =
            taut_lab::run::account_cross(&scenario, Seed::new(1), &books, &[books.ways()], Vec::new());
        let [bulk, acks, steady] = &result.flows[..] else { panic!("{:?}", result.flows) };
        // A busy host may send the last ones late, and not read what has just arrived.
        assert!(steady.sent > 60 && steady.delivered <= steady.sent, "{steady:?}");
        assert!(steady.sent_bps > 0.5e6 && steady.sent_bps < 1.5e6, "{steady:?}");
        // Those that were sent after the scenario's end have no delay that counts.
        assert!(steady.delivered < 60 || steady.delay_ms.is_some(), "{steady:?}");
        assert!(bulk.sent > 50 && bulk.delivered > 50 && acks.sent > 10, "{bulk:?} {acks:?}");
        assert!(bulk.sent_bps > 1e6 && bulk.delivered_bps > 1e6, "{bulk:?}");
        assert_eq!(result.conservation.sent, bulk.sent + acks.sent + steady.sent);
    }
}
