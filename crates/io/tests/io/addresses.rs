//! An operator whose address changes often, and somebody on the way who sends copies of its datagrams from addresses of
//! his own: neither may fill the robot's table of addresses.

use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration as StdDuration;

use taut_core::{Duration, Event, Message, Priority, Seed, StreamId};
use taut_io::session::{Carrier, Credentials, Endpoint, StackSpec, TransportConfig, TransportKind};
use taut_io::{Driver, DriverConfig, MachineId, Plain};
use taut_transport::identity::{Identity, Trust};
use taut_transport::mtip::MtipConfig;

/// More than a robot remembers.
const ADDRESSES: usize = 90;
/// Of the operator, one after the other; or of the one on the way.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Whose {
    Operators,
    Strangers,
}

/// The way between the two. It changes what address the operator has, or adds copies from other addresses.
struct Relay {
    front: SocketAddr,
    stop: Arc<AtomicBool>,
    /// How many addresses there were so far.
    used: Arc<AtomicUsize>,
    there: JoinHandle<()>,
}

impl Relay {
    fn new(robot: SocketAddr, whose: Whose) -> Self {
        let bind = || {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.set_nonblocking(true).unwrap();
            socket
        };
        let front = bind();
        let (address, stop) = (front.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
        let (stopped, used) = (Arc::clone(&stop), Arc::new(AtomicUsize::new(0)));
        let uses = Arc::clone(&used);
        let there = std::thread::spawn(move || {
            let (mut backs, mut copies, mut operator, mut count) = (vec![bind()], 0, None, 0);
            let mut buffer = [0; 2_048];
            while !stopped.load(Ordering::Relaxed) {
                while let Ok((len, from)) = front.recv_from(&mut buffer) {
                    (operator, count) = (Some(from), count + 1);
                    // Handshake first, and every eighth datagram after it.
                    let next = count > 100 && count % 8 == 0 && copies < ADDRESSES;
                    match whose {
                        Whose::Operators if next => backs.push(bind()),
                        Whose::Strangers if next => {
                            let stranger = bind();
                            stranger.send_to(&buffer[..len], robot).unwrap();
                            backs.insert(0, stranger);
                        }
                        Whose::Operators | Whose::Strangers => {}
                    }
                    copies += usize::from(next);
                    // In the end the operator's address changes, too.
                    if whose == Whose::Strangers && copies == ADDRESSES {
                        backs.push(bind());
                        copies += 1;
                    }
                    backs.last().unwrap().send_to(&buffer[..len], robot).unwrap();
                    uses.store(copies, Ordering::Relaxed);
                }
                let back = backs.last().unwrap();
                while let Ok(len) = back.recv(&mut buffer) {
                    front.send_to(&buffer[..len], operator.unwrap()).unwrap();
                }
                std::thread::sleep(StdDuration::from_micros(200));
            }
        });
        Self { front: address, stop, used, there }
    }

    fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.there.join().unwrap();
    }
}

/// Two ends with the relay between them.
struct Talk {
    driver: Driver<Plain<Carrier>>,
    /// The robot, and the operator.
    ends: [MachineId; 2],
    /// The numbers that came to each.
    came: [Vec<u64>; 2],
    next: u64,
    /// One of them heard nothing of the other for so long that it ended: as on a machine that stood still.
    closed: bool,
}

impl Talk {
    fn new(kind: TransportKind, whose: Whose) -> (Self, Relay) {
        let mut driver: Driver<Plain<Carrier>> = Driver::new(DriverConfig::new()).unwrap();
        let clock = driver.clock();
        let identity = |name: &str| Identity::from_seed(Seed::new(5), name);
        let credentials = |me: &str, other: &str| {
            Some(Credentials { identity: identity(me), trust: Trust::only(identity(other).fingerprint()) })
        };
        let transport = || match kind {
            TransportKind::Mtip => {
                let deadline = Duration::from_millis(200);
                StackSpec::Mtip(MtipConfig::new().deadline(deadline).idle_timeout(deadline * 25)).into()
            }
            kind => TransportConfig::from(kind),
        };
        let any = "127.0.0.1:0".parse().unwrap();
        let robots = Endpoint::listen(transport(), any, credentials("robot", "operator"), &clock).unwrap();
        let relay = Relay::new(robots.local_addr().unwrap(), whose);
        let operators =
            Endpoint::connect(transport(), relay.front, credentials("operator", "robot"), &clock).unwrap();
        let ends = [&robots, &operators].map(|endpoint| {
            let (carrier, port) = endpoint.open().unwrap();
            driver.add(Plain::new(carrier), port).unwrap()
        });
        (Self { driver, ends, came: [Vec::new(), Vec::new()], next: 0, closed: false }, relay)
    }

    /// Says nothing for so long.
    fn pause(&mut self, time: Duration) {
        let Self { driver, ends, came, closed, .. } = self;
        let until = driver.clock().now() + time;
        while driver.clock().now() < until {
            let tell = &mut |id: MachineId, event: Event| match event {
                Event::Received { data, .. } => {
                    came[usize::from(id == ends[1])].push(u64::from_le_bytes(*data.first_chunk().unwrap()));
                }
                Event::Closed => *closed = true,
                _ => {}
            };
            driver.turn(until, tell).unwrap();
        }
    }

    /// A message each way in each of so many milliseconds.
    fn speak(&mut self, millis: u64) {
        for _ in 0..millis {
            for id in self.ends {
                let data = self.next.to_le_bytes().to_vec();
                let (priority, stream, created) = (Priority(2), StreamId(2), self.driver.clock().now());
                let message = Message { data, created, priority, stream, ..Message::default() };
                self.driver.command(id, message);
            }
            self.next += 1;
            self.pause(Duration::from_millis(1));
        }
    }

    /// How many numbers of at least `first` came to the robot, and to the operator.
    fn came_since(&self, first: u64) -> [usize; 2] {
        self.came.each_ref().map(|numbers| {
            let numbers: BTreeSet<_> = numbers.iter().filter(|number| **number >= first).collect();
            numbers.len()
        })
    }
}

/// Messages both ways over the relay until all addresses were used; after a pause 200 more, and how many of them came to the
/// robot, and to the operator. On a busy machine all of that takes its time, and some of these come too late: then 200 more.
/// `None`: the conversation ended.
fn last_of(kind: TransportKind, whose: Whose) -> Option<[usize; 2]> {
    let (mut talk, relay) = Talk::new(kind, whose);
    talk.pause(Duration::from_millis(200));
    for _ in 0..300 {
        talk.speak(100);
        if talk.closed || relay.used() >= ADDRESSES && talk.next >= 2_000 {
            break;
        }
    }
    let mut last = [0, 0];
    for _ in 0..5 {
        talk.pause(Duration::from_millis(1_500));
        let first = talk.next;
        talk.speak(200);
        talk.pause(Duration::from_millis(300));
        last = talk.came_since(first);
        if talk.closed || last.iter().all(|came| *came > 100) {
            break;
        }
    }
    let used = relay.used();
    relay.stop();
    if talk.closed {
        return None;
    }
    assert!(used >= ADDRESSES, "{kind}, {whose:?}: {used} after {} messages", talk.next);
    let stats = talk.driver.port_stats(talk.ends[0]).unwrap();
    assert!(stats.paths_reused > 20, "{kind}, {whose:?}: {stats:?}");
    Some(last)
}

#[test]
fn no_number_of_addresses_keeps_an_operator_out() {
    use TransportKind::{Dccp, Etp, Mtip, Quic, Sctp, Udp};
    for whose in [Whose::Operators, Whose::Strangers] {
        std::thread::scope(|scope| {
            for kind in [Mtip, Udp, Etp, Sctp, Dccp, Quic] {
                scope.spawn(move || {
                    let talks = std::iter::repeat_with(|| last_of(kind, whose)).take(3);
                    let [there, back] = talks.flatten().next().expect("not all of them end");
                    assert!(
                        there > 100 && back > 100,
                        "{kind}, {whose:?}: {there} there and {back} back of 200"
                    );
                });
            }
        });
    }
}

#[test]
fn a_robot_on_loopback_is_spoken_to_from_there_alone() {
    let driver: Driver<Plain<Carrier>> = Driver::new(DriverConfig::new()).unwrap();
    let identity = |name: &str| Identity::from_seed(Seed::new(5), name);
    for (robot, own) in [
        ("127.0.0.1:9", "127.0.0.1"),
        ("127.0.0.2:9", "127.0.0.2"),
        ("[::ffff:127.0.0.1]:9", "::ffff:127.0.0.1"),
        ("192.0.2.1:9", "0.0.0.0"),
    ] {
        let trust = Trust::only(identity("robot").fingerprint());
        let credentials = Some(Credentials { identity: identity("operator"), trust });
        let udp = TransportConfig::from(TransportKind::Udp);
        match Endpoint::connect(udp, robot.parse().unwrap(), credentials, &driver.clock()) {
            Ok(endpoint) => assert_eq!(endpoint.local_addr().unwrap().ip().to_string(), own, "{robot}"),
            Err(error) => println!("skipped: {robot}: {error}"),
        }
    }
}
