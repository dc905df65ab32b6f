//! Datagrams that nobody should send, over real sockets, while a session is in progress: it does not notice.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration as StdDuration;

use taut_agent::{Conversation, Trouble};
use taut_core::{DropCause, Duration, Event, Message, Priority, Seed, StreamId, Time};
use taut_io::session::{Carrier, Credentials, Endpoint, TransportKind};
use taut_io::{Clock, Driver, DriverConfig, MachineId, Plain};
use taut_transport::identity::{Identity, Trust};

/// Messages each way.
pub(crate) const MESSAGES: u64 = 600;
/// From this one on nobody meddles, so that all that was added has arrived in the end.
const LAST: u64 = MESSAGES - 50;
/// Every so many datagrams, each of the four things is done once.
const CYCLE: u64 = 20;

pub(crate) fn identity(name: &str) -> Identity {
    Identity::from_seed(Seed::new(5), name)
}

pub(crate) fn credentials(me: &str, others: &[&str]) -> Option<Credentials> {
    let trust: Trust = others.iter().map(|name| identity(name).fingerprint()).collect();
    Some(Credentials { identity: identity(me), trust })
}

/// Somebody on the way between an operator and a robot, who lets everything pass and adds to it.
struct Attacker {
    front: SocketAddr,
    armed: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    ways: Vec<JoinHandle<Added>>,
}

/// What it added to one direction.
#[derive(Clone, Copy, Debug, Default)]
struct Added {
    replayed: u64,
    flipped: u64,
    truncated: u64,
    reordered: u64,
}

/// One direction: what comes to `from` leaves through `through`, or, when it is a forgery, now and then from elsewhere.
struct Way {
    from: UdpSocket,
    through: UdpSocket,
    elsewhere: UdpSocket,
    to: Arc<Mutex<Option<SocketAddr>>>,
    sender: Arc<Mutex<Option<SocketAddr>>>,
    held: Option<Vec<u8>>,
    seen: Vec<Vec<u8>>,
    added: Added,
}

impl Attacker {
    fn new(robot: SocketAddr) -> Self {
        let bind = || {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.set_read_timeout(Some(StdDuration::from_millis(20))).unwrap();
            socket
        };
        let (front, back) = (bind(), bind());
        let address = front.local_addr().unwrap();
        let (operator, robot) = (Arc::new(Mutex::new(None)), Arc::new(Mutex::new(Some(robot))));
        let (armed, stop) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let way = |from: &UdpSocket, through: &UdpSocket, to: &Arc<_>, sender: &Arc<_>| {
            let [from, through] = [from, through].map(|socket| socket.try_clone().unwrap());
            let (to, sender) = (Arc::clone(to), Arc::clone(sender));
            let (held, seen, added) = (None, Vec::new(), Added::default());
            let way = Way { from, through, elsewhere: bind(), to, sender, held, seen, added };
            let (armed, stop) = (Arc::clone(&armed), Arc::clone(&stop));
            std::thread::spawn(move || way.run(&armed, &stop))
        };
        let ways = vec![way(&front, &back, &robot, &operator), way(&back, &front, &operator, &robot)];
        Self { front: address, armed, stop, ways }
    }

    /// To the robot, and to the operator.
    fn stop(self) -> [Added; 2] {
        self.stop.store(true, Ordering::Relaxed);
        let added: Vec<Added> = self.ways.into_iter().map(|way| way.join().unwrap()).collect();
        added.try_into().unwrap()
    }
}

impl Way {
    fn run(mut self, armed: &AtomicBool, stop: &AtomicBool) -> Added {
        let mut buffer = [0; 2_048];
        while !stop.load(Ordering::Relaxed) {
            let Ok((len, from)) = self.from.recv_from(&mut buffer) else { continue };
            self.sender.lock().unwrap().get_or_insert(from);
            let data = buffer[..len].to_vec();
            self.seen.push(data.clone());
            if armed.load(Ordering::Relaxed) {
                self.meddle(data);
            } else {
                self.send(&data, false);
                self.let_go();
            }
        }
        self.added
    }

    fn send(&self, data: &[u8], from_elsewhere: bool) {
        let socket = if from_elsewhere { &self.elsewhere } else { &self.through };
        let to = *self.to.lock().unwrap();
        socket.send_to(data, to.expect("nobody answers before he was spoken to")).unwrap();
    }

    /// Late, what was held back.
    fn let_go(&mut self) {
        if let Some(held) = self.held.take() {
            self.send(&held, false);
        }
    }

    fn meddle(&mut self, data: Vec<u8>) {
        let number = self.seen.len() as u64;
        let (step, elsewhere) = (number % CYCLE, number / CYCLE % 2 == 1);
        if step == 3 {
            self.added.reordered += 1;
            return self.held = Some(data);
        }
        // A forgery comes first, so that nothing about it was seen before.
        match step {
            8 => {
                let (mut forged, bit) = (data.clone(), number as usize * 7_919 % (data.len() * 8));
                forged[bit / 8] ^= 1 << (bit % 8);
                self.send(&forged, elsewhere);
                self.added.flipped += 1;
            }
            12 => {
                self.send(&data[..number as usize * 31 % data.len()], elsewhere);
                self.added.truncated += 1;
            }
            _ => {}
        }
        self.send(&data, false);
        self.let_go();
        if step == 16 {
            self.send(&self.seen[self.seen.len() - 1 - number as usize % 10], elsewhere);
            self.added.replayed += 1;
        }
    }
}

pub(crate) type Machines = Driver<Plain<Carrier>>;

pub(crate) fn add(driver: &mut Machines, endpoint: &Endpoint) -> MachineId {
    let (carrier, port) = endpoint.open().unwrap();
    driver.add(Plain::new(carrier), port).unwrap()
}

pub(crate) fn connect(
    driver: &mut Machines,
    kind: TransportKind,
    to: SocketAddr,
    me: &str,
    robot: &str,
) -> MachineId {
    let endpoint = Endpoint::connect(kind, to, credentials(me, &[robot]), &driver.clock()).unwrap();
    add(driver, &endpoint)
}

/// What a machine had to tell.
#[derive(Default, Debug)]
pub(crate) struct Heard {
    pub(crate) connected: u32,
    pub(crate) closed: u32,
    pub(crate) moved: u32,
    /// How often each message came.
    messages: BTreeMap<u64, u32>,
    dropped: u64,
    refused: BTreeMap<DropCause, u64>,
}

impl Heard {
    fn hear(&mut self, event: Event) {
        match event {
            Event::Connected => self.connected += 1,
            Event::Closed => self.closed += 1,
            Event::PathUp(_) => self.moved += 1,
            Event::Dropped { .. } => self.dropped += 1,
            Event::Refused(cause) => *self.refused.entry(cause).or_default() += 1,
            Event::Received { data, .. } => {
                let number = u64::from_le_bytes(*data.first_chunk().unwrap());
                *self.messages.entry(number).or_default() += 1;
            }
            _ => {}
        }
    }

    pub(crate) fn messages(&self) -> u64 {
        self.messages.len() as u64
    }

    pub(crate) fn refused(&self) -> u64 {
        self.refused.values().sum()
    }
}

/// A session between `operator` and `robot`, and what happens meanwhile.
pub(crate) struct Scene {
    pub(crate) driver: Machines,
    heard: BTreeMap<MachineId, Heard>,
    pub(crate) robot: MachineId,
    pub(crate) operator: MachineId,
}

impl Scene {
    /// Without an operator.
    pub(crate) fn alone(driver: Machines, robot: MachineId) -> Self {
        Self { driver, heard: BTreeMap::new(), robot, operator: robot }
    }

    pub(crate) fn new(driver: Machines, robot: MachineId, operator: MachineId) -> Self {
        let mut scene = Self { driver, heard: BTreeMap::new(), robot, operator };
        scene.run_until(Duration::from_secs(5), |scene| {
            [robot, operator].iter().all(|id| scene.of(*id).connected == 1)
        });
        scene
    }

    pub(crate) fn of(&mut self, id: MachineId) -> &mut Heard {
        self.heard.entry(id).or_default()
    }

    fn turn(&mut self, until: Time) {
        let heard = &mut self.heard;
        self.driver.turn(until, &mut |id, event| heard.entry(id).or_default().hear(event)).unwrap();
    }

    pub(crate) fn run_until(&mut self, patience: Duration, done: impl Fn(&mut Self) -> bool) {
        let end = self.driver.clock().now() + patience;
        while !done(self) && self.driver.clock().now() < end {
            self.turn(end);
        }
    }

    /// Messages both ways, one a millisecond; `meanwhile` is told their numbers.
    pub(crate) fn talk(&mut self, mut meanwhile: impl FnMut(&mut Machines, u64)) {
        let begin = self.driver.clock().now();
        for number in 0..MESSAGES {
            for id in [self.robot, self.operator] {
                let (mut data, now) = (number.to_le_bytes().to_vec(), self.driver.clock().now());
                data.resize(75, 0x5a);
                let (priority, stream) = (Priority(2), StreamId(2));
                let message = Message { data, created: now, priority, stream, ..Message::default() };
                self.driver.command(id, message);
            }
            meanwhile(&mut self.driver, number);
            let due = begin + Duration::from_millis(number + 1);
            self.turn(due);
            while self.driver.clock().now() < due {
                self.turn(due);
            }
        }
        let ids = [self.robot, self.operator];
        self.run_until(Duration::from_millis(500), move |scene| {
            let [a, b] = ids.map(|id| (scene.of(id).messages.len() as u64, scene.of(id).dropped));
            a.0 + b.1 >= MESSAGES && b.0 + a.1 >= MESSAGES
        });
    }

    /// Every message came once, or its sender knows that it did not go; nobody moved, nobody left.
    pub(crate) fn nobody_noticed(&mut self, kind: TransportKind) {
        for (from, to) in [(self.operator, self.robot), (self.robot, self.operator)] {
            let dropped = self.of(from).dropped;
            let heard = self.of(to);
            assert!(heard.messages.values().all(|times| *times == 1), "{kind}: {heard:?}");
            assert_eq!(heard.messages.len() as u64 + dropped, MESSAGES, "{kind}: {:?}", heard.refused);
            assert!(dropped < MESSAGES / 4, "{kind}: {dropped} dropped");
            assert_eq!((heard.connected, heard.closed, heard.moved), (1, 0, 0), "{kind}");
        }
    }
}

#[test]
fn forged_replayed_cut_and_late_datagrams_are_refused_and_the_session_goes_on() {
    use TransportKind::{Dccp, Etp, Quic, Sctp, Udp};
    for kind in [Udp, Etp, Sctp, Dccp, Quic] {
        let mut driver = Driver::new(DriverConfig::new()).unwrap();
        let clock: Clock = driver.clock();
        let any = "127.0.0.1:0".parse().unwrap();
        let robot = credentials("robot", &["first", "second"]);
        let endpoint = Endpoint::listen(kind, any, robot, &clock).unwrap();
        let address = endpoint.local_addr().unwrap();
        let attacker = Attacker::new(address);
        let robot = add(&mut driver, &endpoint);
        let operator = connect(&mut driver, kind, attacker.front, "first", "robot");
        let mut scene = Scene::new(driver, robot, operator);
        attacker.armed.store(true, Ordering::Relaxed);

        let mut others = Vec::new();
        scene.talk(|driver, number| match number {
            100 => others.push(connect(driver, kind, address, "second", "robot")),
            150 => others.push(connect(driver, kind, address, "stranger", "robot")),
            200 => others.push(connect(driver, kind, address, "second", "somebody")),
            LAST => attacker.armed.store(false, Ordering::Relaxed),
            _ => {}
        });
        // Over QUIC a refusal that anybody could have written is believed only after several attempts.
        let trouble = |scene: &Scene| scene.driver.machine(others[0]).unwrap().transport().trouble();
        scene.run_until(Duration::from_secs(5), |scene| trouble(scene) != Trouble::NoAnswer);
        let added = attacker.stop();
        scene.nobody_noticed(kind);
        let [by_robot, by_operator] = [robot, operator].map(|id| scene.of(id).refused());
        println!("{kind}: {added:?}; refused by the robot {:?}", scene.of(robot).refused);
        for (added, refused, who) in [(added[0], by_robot, "robot"), (added[1], by_operator, "operator")] {
            let forged = added.flipped + added.truncated + added.replayed;
            // ETP packs several messages into a datagram: there are fewer.
            assert!(added.replayed >= 5 && added.reordered >= 5 && forged >= 15, "{kind}: {added:?}");
            assert!(refused >= forged, "{kind}: the {who} refused {refused} of {added:?}");
        }
        if kind != Quic {
            let replayed = scene.of(robot).refused.get(&DropCause::Replayed).copied();
            assert_eq!(replayed, Some(added[0].replayed), "{kind}: each once, and nothing else");
        }
        for cause in [DropCause::Replayed, DropCause::Unauthenticated] {
            assert!(scene.of(robot).refused.contains_key(&cause), "{kind}: none {cause:?}");
        }
        for other in &others {
            assert_eq!(scene.of(*other).connected, 0, "{kind}");
        }
        assert_eq!(trouble(&scene), Trouble::Busy, "{kind}");
    }
}

/// Passes one connection on, and remembers what the client said.
pub(crate) fn tap(robot: SocketAddr) -> (SocketAddr, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, said) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Vec::new())));
    let record = Arc::clone(&said);
    std::thread::spawn(move || {
        let (client, server) = (listener.accept().unwrap().0, TcpStream::connect(robot).unwrap());
        [&client, &server].iter().for_each(|stream| stream.set_nodelay(true).unwrap());
        let (mut from_client, mut to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        let there = std::thread::spawn(move || {
            let mut buffer = [0; 4_096];
            while let Ok(len @ 1..) = from_client.read(&mut buffer) {
                record.lock().unwrap().extend_from_slice(&buffer[..len]);
                if to_server.write_all(&buffer[..len]).is_err() {
                    break;
                }
            }
            let _ = to_server.shutdown(Shutdown::Write); // It may be over already.
        });
        let _ = std::io::copy(&mut &server, &mut &client);
        let _ = there.join();
    });
    (address, said)
}

/// A stream cannot be meddled with unnoticed: it would end. What strangers can do is to connect.
#[test]
fn connections_of_strangers_change_nothing_for_the_session_over_tcp() {
    let kind = TransportKind::Tcp;
    let mut driver = Driver::new(DriverConfig::new()).unwrap();
    let robot = credentials("robot", &["first", "second"]);
    let endpoint = Endpoint::listen(kind, "127.0.0.1:0".parse().unwrap(), robot, &driver.clock()).unwrap();
    let address = endpoint.local_addr().unwrap();
    let (front, said) = tap(address);
    let robot = add(&mut driver, &endpoint);
    let operator = connect(&mut driver, kind, front, "first", "robot");
    let mut scene = Scene::new(driver, robot, operator);

    let (mut others, mut streams) = (Vec::new(), Vec::new());
    scene.talk(|driver, number| {
        let mut says = |bytes: &[u8]| {
            let mut stream = TcpStream::connect(address).unwrap();
            // It may be gone before all is said.
            let _ = stream.write_all(bytes);
            streams.push(stream);
        };
        match number {
            50 => says(&[0x5a; 300]),
            80 => says(&said.lock().unwrap().clone()),
            90 => says(&said.lock().unwrap()[..100]),
            100 => others.push(connect(driver, kind, address, "second", "robot")),
            150 => others.push(connect(driver, kind, address, "stranger", "robot")),
            200 => others.push(connect(driver, kind, address, "second", "somebody")),
            _ => {}
        }
    });
    scene.nobody_noticed(kind);
    for other in others {
        assert_eq!(scene.of(other).connected, 0);
    }
    for mut stream in streams {
        stream.set_read_timeout(Some(StdDuration::from_secs(2))).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.is_empty(), "strangers are told nothing: {} B", answer.len());
    }
}
