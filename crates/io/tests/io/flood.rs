//! Hundreds of handshakes a second that strangers begin and never end, over real sockets: operators get in.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration as StdDuration;

use taut_agent::Conversation;
use taut_core::{Duration, PathId, Seed, Time, Transport};
use taut_io::session::{Endpoint, TransportKind};
use taut_io::{Driver, DriverConfig};
use taut_transport::entropy::Entropy;
use taut_transport::identity::Trust;
use taut_transport::quic::{MpQuic, PathUse, Quic, QuicConfig};
use taut_transport::security::{Secured, SecurityConfig};
use taut_transport::udp::{Udp, UdpConfig};

use crate::hostile::{Scene, add, connect, credentials, identity};

/// Sockets of strangers, each with an address of its own: more than a robot remembers.
const SOCKETS: usize = 100;

/// What a stranger says first, and never more. It knows the robot's public key.
fn hello(kind: TransportKind, number: u64) -> Vec<u8> {
    let (me, robot, entropy) =
        (identity("stranger"), identity("robot").fingerprint(), Entropy::seeded(Seed::new(number), "flood"));
    let (trust, now) = (Trust::only(robot), Time::from_nanos(1));
    let mut stranger: Box<dyn Transport> = match kind {
        TransportKind::Quic => Box::new(Quic::client(QuicConfig::new(), &me, trust, entropy)),
        TransportKind::Mpquic => {
            Box::new(MpQuic::client(QuicConfig::multipath(PathUse::FailOver), &me, trust, entropy))
        }
        _ => {
            let config = SecurityConfig::new().multipath(kind.is_multipath());
            Box::new(Secured::initiator(config, &me, robot, entropy, Udp::new(UdpConfig::new())))
        }
    };
    stranger.add_path(now, PathId(0));
    stranger.handle_timeout(now);
    let mut hello = Vec::new();
    stranger.poll_transmit(now, &mut hello).expect("it says hello");
    hello
}

struct Flood {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<u64>,
}

impl Flood {
    fn new(kind: TransportKind, to: SocketAddr, pause: StdDuration) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let bind = |number: usize| {
                let host = Ipv4Addr::new(127, 0, 1, (number % 200) as u8 + 1);
                UdpSocket::bind((host, 0)).unwrap()
            };
            let sockets: Vec<UdpSocket> = (0..SOCKETS).map(bind).collect();
            let mut number = 0;
            while !stopped.load(Ordering::Relaxed) {
                // What the robot's buffer does not take is no flood.
                let _ = sockets[number as usize % SOCKETS].send_to(&hello(kind, number), to);
                number += 1;
                std::thread::sleep(pause);
            }
            number
        });
        Self { stop, thread }
    }

    fn stop(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn five_of_five(kind: TransportKind, pause: StdDuration) {
    for life in 0..5 {
        let mut driver = Driver::new(DriverConfig::new()).unwrap();
        let any = "127.0.0.1:0".parse().unwrap();
        let robots = Endpoint::listen(kind, any, credentials("robot", &["first"]), &driver.clock()).unwrap();
        let address = robots.local_addr().unwrap();
        let robot = add(&mut driver, &robots);
        let flood = Flood::new(kind, address, pause);
        let mut scene = Scene::alone(driver, robot);
        scene.run_until(Duration::from_millis(400), |_| false);
        let operator = connect(&mut scene.driver, kind, address, "first", "robot");
        scene.run_until(Duration::from_secs(4), |scene| {
            scene.of(operator).connected == 1 && scene.of(robot).connected == 1
        });
        let stats = scene.driver.port_stats(robot).unwrap();
        let came = flood.stop();
        let connected = (scene.of(operator).connected, scene.of(robot).connected);
        assert_eq!(connected, (1, 1), "{kind}, {life}: {came} strangers came, {stats:?}");
        println!("{kind}, {life}: in, past {came} strangers");
    }
}

#[test]
fn operators_get_in_past_400_forged_initiations_of_noise_a_second() {
    five_of_five(TransportKind::Udp, StdDuration::from_micros(2_000));
    five_of_five(TransportKind::Mtip, StdDuration::from_micros(2_000));
}

#[test]
fn operators_get_in_past_300_half_open_handshakes_of_quic_a_second() {
    five_of_five(TransportKind::Quic, StdDuration::from_micros(2_600));
}

#[test]
fn operators_get_in_past_300_half_open_handshakes_of_multipath_quic_a_second() {
    five_of_five(TransportKind::Mpquic, StdDuration::from_micros(2_600));
}

/// A proxy of the robot's identity, at the robot's place.
#[test]
fn an_operator_at_a_proxy_is_told_what_it_is() {
    use taut_io::Plain;
    use taut_transport::service::Service;
    for kind in [TransportKind::Udp, TransportKind::Tcp, TransportKind::Quic, TransportKind::Mpquic] {
        let mut driver = Driver::new(DriverConfig::new()).unwrap();
        let any = "127.0.0.1:0".parse().unwrap();
        let proxies = Endpoint::listen(kind, any, credentials("robot", &["first"]), &driver.clock()).unwrap();
        let (carrier, port) = proxies.open_for(Service::Proxy).unwrap();
        let proxy = driver.add(Plain::new(carrier), port).unwrap();
        let operator = connect(&mut driver, kind, proxies.local_addr().unwrap(), "first", "robot");
        let mut scene = Scene::alone(driver, proxy);
        let why =
            |scene: &mut Scene| scene.driver.machine(operator).unwrap().transport().trouble().to_string();
        scene.run_until(Duration::from_secs(8), |scene| why(scene).contains("offers another service"));
        let said = why(&mut scene);
        assert!(said.contains("offers another service"), "{kind}: {said}");
        assert_eq!((scene.of(operator).connected, scene.of(proxy).connected), (0, 0), "{kind}");
    }
}
