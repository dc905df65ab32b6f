//! Operators that come again, or from elsewhere.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration as StdDuration;

use taut_core::{Duration, Message, Priority, StreamId, Transport};
use taut_io::session::{Carrier, Endpoint, TransportKind};
use taut_io::{Driver, DriverConfig, MachineId};
use taut_transport::quic::QuicStats;
use taut_transport::stack::Bare;

use crate::hostile::{MESSAGES, Machines, Scene, add, connect, credentials};

fn quic_stats(driver: &Machines, id: MachineId) -> QuicStats {
    match driver.machine(id).unwrap().transport() {
        Carrier::Stack(stack) => match stack.bare() {
            Bare::Quic(quic) => quic.stats(),
            _ => panic!("{stack:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_operator_that_comes_again_over_quic_speaks_in_its_first_packet() {
    let kind = TransportKind::Quic;
    let mut driver = Driver::new(DriverConfig::new()).unwrap();
    let (any, clock) = ("127.0.0.1:0".parse().unwrap(), driver.clock());
    let here = Endpoint::listen(kind, any, credentials("robot", &["first"]), &clock).unwrap();
    let there = here.local_addr().unwrap();
    let there = Endpoint::connect(kind, there, credentials("first", &["robot"]), &clock).unwrap();
    let mut early = Vec::new();
    for _ in 0..2 {
        let (robot, operator) = (add(&mut driver, &here), add(&mut driver, &there));
        let (priority, stream) = (Priority(1), StreamId(1));
        let (data, created) = (vec![1; 75], driver.clock().now());
        driver.command(operator, Message { data, created, priority, stream, ..Message::default() });
        let mut scene = Scene::new(driver, robot, operator);
        // Tickets come after the handshake.
        scene.run_until(Duration::from_millis(100), |_| false);
        let stats = [operator, robot].map(|id| quic_stats(&scene.driver, id));
        early.push((stats[0].sent_early, stats[1].received_early));
        let now = scene.driver.clock().now();
        scene.driver.machine_mut(operator).unwrap().transport_mut().close(now);
        scene.run_until(Duration::from_secs(1), |scene| scene.of(robot).closed == 1);
        for id in [robot, operator] {
            scene.driver.remove(id);
        }
        driver = scene.driver;
    }
    assert_eq!(early, [(0, 0), (1, 1)]);
}

/// Passes on what an operator and a robot say, from another port when `moved`: as a NAT that forgot, or another network.
fn relay(robot: SocketAddr, moved: Arc<AtomicBool>, stop: Arc<AtomicBool>) -> SocketAddr {
    let bind = || {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        socket
    };
    let (front, backs) = (bind(), [bind(), bind()]);
    let address = front.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut operator, mut buffer) = (None, [0; 2_048]);
        while !stop.load(Ordering::Relaxed) {
            while let Ok((len, from)) = front.recv_from(&mut buffer) {
                operator = Some(from);
                let back = &backs[usize::from(moved.load(Ordering::Relaxed))];
                back.send_to(&buffer[..len], robot).unwrap();
            }
            // What is sent to where the operator was is lost.
            let here = usize::from(moved.load(Ordering::Relaxed));
            while let (Ok((len, _)), Some(operator)) = (backs[here].recv_from(&mut buffer), operator) {
                front.send_to(&buffer[..len], operator).unwrap();
            }
            std::thread::sleep(StdDuration::from_micros(200));
        }
    });
    address
}

#[test]
fn an_operator_whose_address_changes_is_followed_and_little_is_lost() {
    for kind in [TransportKind::Udp, TransportKind::Quic] {
        let mut driver = Driver::new(DriverConfig::new()).unwrap();
        let known = credentials("robot", &["first"]);
        let endpoint =
            Endpoint::listen(kind, "127.0.0.1:0".parse().unwrap(), known, &driver.clock()).unwrap();
        let (moved, stop) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let front = relay(endpoint.local_addr().unwrap(), Arc::clone(&moved), Arc::clone(&stop));
        let robot = add(&mut driver, &endpoint);
        let operator = connect(&mut driver, kind, front, "first", "robot");
        let mut scene = Scene::new(driver, robot, operator);
        scene.talk(|_, number| moved.store(number >= MESSAGES / 2, Ordering::Relaxed));
        stop.store(true, Ordering::Relaxed);
        assert_eq!(
            (scene.of(robot).moved, scene.of(robot).closed, scene.of(operator).closed),
            (1, 0, 0),
            "{kind}"
        );
        for id in [robot, operator] {
            let heard = scene.of(id).messages();
            assert!(heard >= MESSAGES - 50, "{kind}: {heard} of {MESSAGES}");
        }
    }
}
