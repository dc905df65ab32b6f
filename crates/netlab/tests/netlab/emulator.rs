//! Links between two namespaces, in real time.

use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration as StdDuration, Instant};

use taut_core::{
    Bitrate, Bytes, Datagram, Deadline, DropCause, Duration, Ecn, Link, LinkEvent, Packet, PacketMeta,
    Probability, Seed, Time, Transmit,
};
use taut_io::{Alarm, Driver, DriverConfig, Machine, UdpPort, UdpPortConfig};
use taut_link::{Bottleneck, Chain, Corrupt, Delay, DropTail, Duplicate, Loss};
use taut_netlab::Namespace;
use taut_netlab::emulate::{DirectionStats, Emulator, EmulatorStats, Port, RunningEmulator, Tun};

/// Two namespaces with a link between them; 10.95.0.1 and 10.95.0.2.
struct Network {
    a: Namespace,
    b: Namespace,
    emulator: RunningEmulator,
}

impl Network {
    fn new(up: impl Link + Send + 'static, down: impl Link + Send + 'static) -> Option<Self> {
        let [a, b] = namespaces()?;
        let tun = |namespace, last: u8| Tun::new(namespace, "t0", [10, 95, 0, last].into(), 24).unwrap();
        let (tun_a, tun_b) = (tun(&a, 1), tun(&b, 2));
        let emulator = Emulator::new(up, down).spawn(tun_a, tun_b).unwrap();
        Some(Self { a, b, emulator })
    }

    fn sockets(&self) -> (UdpSocket, UdpSocket) {
        let bind = |namespace: &Namespace, address: &'static str| {
            let socket = namespace.run(|| UdpSocket::bind(address)).unwrap().unwrap();
            socket.set_read_timeout(Some(StdDuration::from_secs(1))).unwrap();
            let _ = socket2::SockRef::from(&socket).set_recv_buffer_size(4_000_000);
            socket
        };
        let (client, server) = (bind(&self.a, "10.95.0.1:7"), bind(&self.b, "10.95.0.2:7"));
        client.connect("10.95.0.2:7").unwrap();
        server.connect("10.95.0.1:7").unwrap();
        (client, server)
    }

    fn stop(self) -> EmulatorStats {
        let stats = self.emulator.stop().unwrap();
        [&stats.up, &stats.down].into_iter().for_each(books_close);
        stats
    }
}

/// So many namespaces; `None`, with the reason printed, where there can be none.
fn namespaces<const N: usize>() -> Option<[Namespace; N]> {
    let made: Result<Vec<_>, _> = (0..N).map(|_| Namespace::new()).collect();
    match made {
        Ok(namespaces) => namespaces.try_into().ok(),
        Err(error) if error.lacks_means() => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Nothing vanishes without a cause. All links here are empty when they are stopped.
fn books_close(stats: &DirectionStats) {
    let dropped: u64 = stats.dropped.values().sum();
    assert_eq!(stats.entered + stats.duplicated, stats.left + stats.refused + dropped, "{stats:?}");
    assert_eq!((stats.overrun, stats.malformed), (0, 0));
    assert_eq!(stats.lateness.len(), stats.left + stats.refused);
}

fn delay(millis: u64) -> Chain {
    Chain::from(Delay::new(Duration::from_millis(millis)))
}

fn none() -> Chain {
    Chain::new(vec![])
}

fn send(socket: &UdpSocket, len: usize) {
    assert_eq!(socket.send(&vec![0x55; len]).unwrap(), len);
}

/// Counts what arrives until nothing has for a while.
fn drain(socket: &UdpSocket) -> u64 {
    socket.set_read_timeout(Some(StdDuration::from_millis(200))).unwrap();
    let mut count = 0;
    while socket.recv(&mut [0; 2_000]).is_ok() {
        count += 1;
    }
    count
}

/// How long so many went there and back, the shortest first.
fn round_trips(client: &UdpSocket, count: usize) -> Vec<StdDuration> {
    let trip = |_| {
        let sent = Instant::now();
        client.send(&[0; 75]).unwrap();
        client.recv(&mut [0; 100]).unwrap();
        sent.elapsed()
    };
    let mut trips: Vec<StdDuration> = (0..count).map(trip).collect();
    trips.sort();
    trips
}

/// An end that sends nothing, and at which so many were lost.
struct Losing {
    socket: UdpSocket,
    overruns: u64,
    errors: u64,
}

impl Losing {
    fn new(overruns: u64, errors: u64) -> Self {
        Self { socket: UdpSocket::bind("127.0.0.1:0").unwrap(), overruns, errors }
    }
}

impl AsFd for Losing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Port for Losing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Ok(0)
    }
    fn write(&mut self, _: &[u8]) -> io::Result<()> {
        Ok(())
    }
    fn overruns(&self) -> u64 {
        self.overruns
    }
    fn errors(&self) -> u64 {
        self.errors
    }
}

#[test]
fn what_is_lost_beside_the_links_is_told_while_the_emulator_runs() {
    let emulator = Emulator::new(none(), none()).spawn(Losing::new(1, 2), Losing::new(3, 4)).unwrap();
    let began = Instant::now();
    let running = loop {
        assert!(began.elapsed() < StdDuration::from_secs(10), "nothing is told");
        if let Some(stats) = emulator.stats() {
            break stats;
        }
        std::thread::park_timeout(StdDuration::from_millis(10));
    };
    for stats in [running, emulator.stop().unwrap()] {
        assert_eq!((stats.up.overrun, stats.up.errors, stats.down.overrun, stats.down.errors), (1, 4, 3, 2));
    }
}

#[test]
fn a_delay_of_10_ms_each_way_is_a_round_trip_of_20_ms() {
    let Some(network) = Network::new(delay(10), delay(10)) else { return };
    let (client, server) = network.sockets();
    let echo = std::thread::spawn(move || {
        let mut buffer = [0; 2_000];
        while let Ok(len) = server.recv(&mut buffer) {
            server.send(&buffer[..len]).unwrap();
        }
    });
    // A busy machine adds to many of them, for four threads have to get their turn: the shortest tenth of some hundred has none
    // of that.
    let (mut shortest, mut count) = (StdDuration::MAX, 0_u64);
    while count < 1_000 && shortest >= StdDuration::from_millis(21) {
        let trips = round_trips(&client, 100);
        assert!(trips[0] >= StdDuration::from_millis(20), "none is early: {:?}", trips[0]);
        shortest = shortest.min(trips[10]);
        count += 100;
    }
    assert!(shortest < StdDuration::from_millis(21), "the tenth part {shortest:?}");
    echo.join().unwrap();
    let stats = network.stop();
    assert_eq!((stats.up.left, stats.down.left), (count, count));
    assert_eq!(stats.up.left_bytes, count * 103, "20 + 8 + 75 bytes each");
}

#[test]
fn a_share_of_packets_is_lost_and_the_same_ones_for_the_same_seed() {
    let lossy = || {
        let probability = Probability::from_fraction(0.1).unwrap();
        Chain::from(Loss::bernoulli(probability, Seed::new(7).stream("loss")))
    };
    let Some(network) = Network::new(lossy(), none()) else { return };
    let (client, server) = network.sockets();
    for _ in 0..20 {
        (0..100).for_each(|_| send(&client, 75));
        std::thread::sleep(StdDuration::from_millis(1));
    }
    let arrived = drain(&server);
    let stats = network.stop();
    // What a link alone does with 2000 packets.
    let mut link = lossy();
    (0..2_000).for_each(|_| link.handle_input(Time::ZERO, Packet::default()));
    let lost = std::iter::from_fn(|| link.poll_event()).filter(|e| matches!(e, LinkEvent::Dropped { .. }));
    let lost = lost.count() as u64;
    assert!((150..250).contains(&lost), "{lost} of 2000");
    assert_eq!(stats.up.dropped.get(&DropCause::Loss), Some(&lost));
    assert_eq!((arrived, stats.up.left), (2_000 - lost, 2_000 - lost));
}

#[test]
fn a_rate_is_kept_and_its_queue_is_bounded() {
    // 1028 bytes at 10 Mbit/s: 0.8224 ms each. The queue holds 150, and one more is in service.
    let queue = DropTail::default().limit_packets(150);
    let slow = Chain::new(vec![Bottleneck::new(Bitrate::from_bps(10_000_000), queue).into()]);
    let Some(network) = Network::new(slow, none()) else { return };
    let (client, server) = network.sockets();
    let began = Instant::now();
    (0..200).for_each(|_| send(&client, 1_000));
    let (mut arrived, mut last) = (0u32, began);
    server.set_read_timeout(Some(StdDuration::from_millis(300))).unwrap();
    while server.recv(&mut [0; 2_000]).is_ok() {
        (arrived, last) = (arrived + 1, Instant::now());
    }
    let stats = network.stop();
    let full = stats.up.dropped[&DropCause::QueueFullPackets];
    assert!(arrived >= 151, "{arrived}");
    assert_eq!(full + u64::from(arrived), 200);
    let (took, due) = (last - began, StdDuration::from_nanos(822_400) * arrived);
    assert!(took >= due && took < due + StdDuration::from_millis(30), "{took:?} for {due:?}");
}

#[test]
fn tcp_crosses_a_link_that_loses_and_duplicates() {
    use std::io::{Read, Write};
    let stream = |name: String| Seed::new(3).stream(&name);
    let bad = |direction: &str| {
        let probability = Probability::from_fraction(0.02).unwrap();
        Chain::new(vec![
            Delay::new(Duration::from_millis(2)).into(),
            Loss::bernoulli(probability, stream(format!("{direction}/loss"))).into(),
            Duplicate::new(probability, stream(format!("{direction}/duplicate"))).into(),
        ])
    };
    let Some(network) = Network::new(bad("up"), bad("down")) else { return };
    let listener = network.b.run(|| std::net::TcpListener::bind("10.95.0.2:80")).unwrap().unwrap();
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        listener.accept().unwrap().0.read_to_end(&mut bytes).unwrap();
        bytes
    });
    let connect = || std::net::TcpStream::connect("10.95.0.2:80");
    let mut client = network.a.run(connect).unwrap().unwrap();
    let sent: Vec<u8> = (0..500_000u32).map(|n| n as u8).collect();
    client.write_all(&sent).unwrap();
    drop(client);
    assert!(reader.join().unwrap() == sent);
    std::thread::sleep(StdDuration::from_millis(50));
    let stats = network.stop();
    assert!(stats.up.dropped[&DropCause::Loss] > 0 && stats.up.duplicated > 0, "{stats:?}");
}

/// Sets Congestion Experienced on everything.
struct Marker(Option<Packet>);

impl Link for Marker {
    fn handle_input(&mut self, _: Time, mut packet: Packet) {
        packet.meta.ecn = Ecn::CongestionExperienced;
        self.0 = Some(packet);
    }
    fn handle_timeout(&mut self, _: Time) {}
    fn poll_transmit(&mut self, _: Time) -> Option<Packet> {
        self.0.take()
    }
    fn poll_event(&mut self) -> Option<LinkEvent> {
        None
    }
    fn poll_timeout(&self) -> Option<taut_core::Deadline> {
        None
    }
    fn held(&self) -> taut_core::Backlog {
        taut_core::Backlog::default()
    }
    fn visit_held(&self, visit: &mut dyn FnMut(&PacketMeta)) {
        self.0.iter().for_each(|packet| visit(&packet.meta));
    }
    fn queued(&self) -> taut_core::Backlog {
        taut_core::Backlog::default()
    }
}

/// Says one thing, and tells how what it hears is marked.
#[derive(Default)]
struct Ends {
    says: Option<Ecn>,
    heard: Option<Ecn>,
}

impl Machine for Ends {
    type Command = ();
    type Event = Ecn;
    fn handle_input(&mut self, _: Time, input: Datagram<'_>) {
        self.heard = Some(input.ecn);
    }
    fn handle_timeout(&mut self, _: Time) {}
    fn handle_command(&mut self, _: Time, (): ()) {}
    fn handle_alarm(&mut self, _: Time, _: Alarm) {}
    fn alarm_voids((): &()) -> bool {
        false
    }
    fn poll_transmit(&mut self, _: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
        let ecn = self.says.take()?;
        buffer.push(1);
        Some(Transmit { ecn, ..Transmit::default() })
    }
    fn poll_event(&mut self, _: Time) -> Option<Ecn> {
        self.heard.take()
    }
    fn poll_timeout(&self) -> Option<Deadline> {
        None
    }
}

#[test]
fn a_mark_arrives_at_the_receiving_socket() {
    let Some(network) = Network::new(Marker(None), none()) else { return };
    let (client, server) = network.sockets();
    let mut driver = Driver::new(DriverConfig::new()).unwrap();
    let from = UdpPort::new(client, UdpPortConfig::new()).unwrap().to("10.95.0.2:7".parse().unwrap());
    driver.add(Ends { says: Some(Ecn::Capable0), heard: None }, from).unwrap();
    driver.add(Ends::default(), UdpPort::new(server, UdpPortConfig::new()).unwrap()).unwrap();
    let (mut heard, end) = (None, driver.clock().now() + Duration::from_secs(10));
    while heard.is_none() && driver.clock().now() < end {
        driver.turn(end, &mut |_, ecn| heard = Some(ecn)).unwrap();
    }
    assert_eq!(heard, Some(Ecn::CongestionExperienced));
    network.stop();
}

#[test]
fn flipped_bits_are_found_by_the_receiving_kernel() {
    let corrupt = Corrupt::new(Probability::ALWAYS, Seed::new(1).stream("corrupt"));
    let Some(network) = Network::new(Chain::from(corrupt), none()) else { return };
    let (client, server) = network.sockets();
    (0..200).for_each(|_| send(&client, 75));
    // A flip that no checksum covers leaves the packet as good as it was: type of service is covered, so is the rest.
    assert_eq!(drain(&server), 0);
    let stats = network.stop();
    assert_eq!(stats.up.corrupted, 200);
}

#[test]
fn what_is_inside_is_bounded_in_bytes() {
    let Some([a, b]) = namespaces() else { return };
    let tun = |namespace, last: u8| Tun::new(namespace, "t0", [10, 95, 0, last].into(), 24).unwrap();
    let (tun_a, tun_b) = (tun(&a, 1), tun(&b, 2));
    let emulator = Emulator::new(delay(100), none()).limit(Bytes::new(10_280)).spawn(tun_a, tun_b).unwrap();
    let client = a.run(|| UdpSocket::bind("10.95.0.1:7")).unwrap().unwrap();
    client.connect("10.95.0.2:7").unwrap();
    (0..15).for_each(|_| send(&client, 1_000));
    std::thread::sleep(StdDuration::from_millis(200));
    let live = emulator.stats().expect("it has run for long enough");
    assert_eq!(live.up.entered, 10);
    let stats = emulator.stop().unwrap();
    assert_eq!((stats.up.left, stats.up.dropped[&DropCause::QueueFullBytes]), (10, 5));
    assert_eq!((stats.up.kept_out, stats.up.held), (5, 0));
}
