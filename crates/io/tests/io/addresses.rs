//! An operator whose address changes often, and somebody on the way who sends copies of its datagrams from addresses of
//! his own: neither may fill the robot's table of addresses.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
    /// How many addresses there were in the end.
    there: JoinHandle<usize>,
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
        let stopped = Arc::clone(&stop);
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
                }
                let back = backs.last().unwrap();
                while let Ok(len) = back.recv(&mut buffer) {
                    front.send_to(&buffer[..len], operator.unwrap()).unwrap();
                }
                std::thread::sleep(StdDuration::from_micros(200));
            }
            copies
        });
        Self { front: address, stop, there }
    }

    fn stop(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.there.join().unwrap()
    }
}

/// Messages both ways over the relay, one each millisecond, until all addresses were used; after a pause 200 more, and how
/// many of them came to the robot, and to the operator.
fn last_of(kind: TransportKind, whose: Whose) -> [usize; 2] {
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
    let [robot, operator] = [&robots, &operators].map(|endpoint| {
        let (carrier, port) = endpoint.open().unwrap();
        driver.add(Plain::new(carrier), port).unwrap()
    });
    let (messages, last, begin) = (2_000, 3_500_u64, clock.now() + Duration::from_millis(200));
    let mut came = [Vec::new(), Vec::new()];
    let mut tell = |id: MachineId, event: Event| {
        if let Event::Received { data, .. } = event {
            came[usize::from(id == operator)].push(u64::from_le_bytes(*data.first_chunk().unwrap()));
        }
    };
    for number in 0..last + 500 {
        let due = begin + Duration::from_millis(number);
        while clock.now() < due {
            driver.turn(due, &mut tell).unwrap();
        }
        let speaks = number < messages || (last..last + 200).contains(&number);
        for id in [robot, operator].into_iter().filter(|_| speaks) {
            let data = number.to_le_bytes().to_vec();
            let (priority, stream, created) = (Priority(2), StreamId(2), clock.now());
            driver.command(id, Message { data, created, priority, stream, ..Message::default() });
        }
    }
    let stats = driver.port_stats(robot).unwrap();
    assert!(relay.stop() >= ADDRESSES, "{kind}, {whose:?}: {came:?}");
    assert!(stats.paths_reused > 20, "{kind}, {whose:?}: {stats:?}");
    came.map(|mut numbers| {
        numbers.retain(|number| *number >= last);
        numbers.sort_unstable();
        numbers.dedup();
        numbers.len()
    })
}

#[test]
fn no_number_of_addresses_keeps_an_operator_out() {
    use TransportKind::{Dccp, Etp, Mtip, Quic, Sctp, Udp};
    for whose in [Whose::Operators, Whose::Strangers] {
        std::thread::scope(|scope| {
            for kind in [Mtip, Udp, Etp, Sctp, Dccp, Quic] {
                scope.spawn(move || {
                    let [there, back] = last_of(kind, whose);
                    assert!(
                        there > 100 && back > 100,
                        "{kind}, {whose:?}: {there} there and {back} back of 200"
                    );
                });
            }
        });
    }
}
