//! Connections of strangers, over the kernel's TCP: none keeps an operator out, none disturbs one.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration as StdDuration;

use socket2::{Domain, Socket, Type};
use taut_agent::{Conversation, Trouble};
use taut_core::{Duration, Message, Transport};
use taut_io::session::{Endpoint, TransportKind};
use taut_io::{Driver, DriverConfig, MachineId};

use crate::hostile::{Machines, Scene, add, connect, credentials, tap};

const KIND: TransportKind = TransportKind::Tcp;

/// A robot that trusts `first` and `second`, and where it listens.
fn robot() -> (Machines, MachineId, SocketAddr) {
    let mut driver = Driver::new(DriverConfig::new()).unwrap();
    let known = credentials("robot", &["first", "second"]);
    let endpoint = Endpoint::listen(KIND, "127.0.0.1:0".parse().unwrap(), known, &driver.clock()).unwrap();
    let address = endpoint.local_addr().unwrap();
    let robot = add(&mut driver, &endpoint);
    (driver, robot, address)
}

/// From another address than the operators'.
fn connect_from_elsewhere(to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::new(127, 0, 0, 2), 0)).into())?;
    socket.connect_timeout(&to.into(), StdDuration::from_millis(200))?;
    Ok(socket.into())
}

/// Threads that connect again and again, each keeping its last connections open.
struct Crowd {
    stop: Arc<AtomicBool>,
    came: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Crowd {
    fn new(to: SocketAddr, threads: usize, keeps: usize, pause: StdDuration, says: &[u8]) -> Self {
        let (stop, came) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let threads = (0..threads).map(|_| {
            let (stop, came, says) = (Arc::clone(&stop), Arc::clone(&came), says.to_vec());
            std::thread::spawn(move || {
                let mut open = std::collections::VecDeque::new();
                while !stop.load(Ordering::Relaxed) {
                    if let Ok(mut stream) = connect_from_elsewhere(to) {
                        came.fetch_add(1, Ordering::Relaxed);
                        let _ = stream.write_all(&says); // It may have been sent away.
                        open.push_back(stream);
                    }
                    open.drain(..open.len().saturating_sub(keeps));
                    std::thread::sleep(pause);
                }
            })
        });
        let threads = threads.collect();
        Self { stop, came, threads }
    }

    fn stop(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
        self.came.load(Ordering::Relaxed)
    }
}

#[test]
fn silent_strangers_keep_no_operator_out() {
    let (driver, robot, address) = robot();
    let crowd = Crowd::new(address, 4, 50, StdDuration::from_micros(500), &[]);
    let mut scene = Scene::alone(driver, robot);
    scene.run_until(Duration::from_millis(100), |_| false);
    for turn in 0..20 {
        let operator = connect(&mut scene.driver, KIND, address, "first", "robot");
        // Each takes the number of the one before.
        let connected = turn + 1;
        scene.run_until(Duration::from_secs(2), |scene| {
            scene.of(operator).connected == connected && scene.of(robot).connected == connected
        });
        assert_eq!(scene.of(operator).connected, connected);
        let now = scene.driver.clock().now();
        scene.driver.machine_mut(operator).unwrap().transport_mut().close(now);
        scene.run_until(Duration::from_secs(2), |scene| scene.of(robot).closed == turn + 1);
        scene.driver.remove(operator);
    }
    let came = crowd.stop();
    assert!(came > 100, "{came} strangers came");
}

#[test]
fn strangers_in_a_loop_do_not_disturb_a_session() {
    let (mut driver, robot, address) = robot();
    let (front, said) = tap(address);
    let operator = connect(&mut driver, KIND, front, "first", "robot");
    let mut scene = Scene::new(driver, robot, operator);
    // They repeat what the operator said, as far as it can be of use.
    let recorded = said.lock().unwrap()[..4 + 148].to_vec();
    let crowd = Crowd::new(address, 4, 1, StdDuration::from_micros(100), &recorded);
    let begin = scene.driver.clock().now();
    scene.talk(|_, _| ());
    let (elapsed, came) = (scene.driver.clock().now() - begin, crowd.stop());
    scene.nobody_noticed(KIND);
    let refused = scene.of(robot).refused();
    let most = 50.0 * elapsed.as_secs_f64() + 2.0 * 8.0;
    assert!(refused > 0 && refused as f64 <= most, "{refused} of {came} were looked at in {elapsed}");
}

#[test]
fn a_robot_knows_the_round_trip_to_its_operator() {
    let (mut driver, robot, address) = robot();
    let operator = connect(&mut driver, KIND, address, "first", "robot");
    let mut scene = Scene::alone(driver, robot);
    let round_trip = |scene: &Scene| scene.driver.machine(robot).unwrap().transport().round_trip();
    assert_eq!(round_trip(&scene), None, "nobody is there");
    scene.run_until(Duration::from_secs(2), |scene| scene.of(operator).connected == 1);
    scene.run_until(Duration::from_secs(2), |scene| round_trip(scene).is_some());
    assert!(round_trip(&scene).is_some_and(|rtt| rtt < Duration::from_millis(100)), "over loopback");
}

#[test]
fn a_recorded_initiation_is_not_answered_and_holds_nothing() {
    let (mut driver, robot, address) = robot();
    let (front, said) = tap(address);
    let operator = connect(&mut driver, KIND, front, "first", "robot");
    let mut scene = Scene::new(driver, robot, operator);
    let now = scene.driver.clock().now();
    scene.driver.machine_mut(operator).unwrap().transport_mut().close(now);
    scene.run_until(Duration::from_secs(2), |scene| scene.of(robot).closed == 1);
    assert_eq!(scene.of(robot).closed, 1);

    let mut stranger = TcpStream::connect(address).unwrap();
    stranger.write_all(&said.lock().unwrap()).unwrap();
    scene.run_until(Duration::from_millis(100), |_| false);
    let second = connect(&mut scene.driver, KIND, address, "second", "robot");
    scene.run_until(Duration::from_secs(1), |scene| scene.of(second).connected == 1);
    assert_eq!(scene.of(second).connected, 1);
    stranger.set_read_timeout(Some(StdDuration::from_secs(1))).unwrap();
    let mut answer = Vec::new();
    let _ = stranger.read_to_end(&mut answer);
    assert!(answer.is_empty());
}

#[test]
fn a_second_operator_is_told_that_the_robot_is_busy() {
    let (mut driver, robot, address) = robot();
    let first = connect(&mut driver, KIND, address, "first", "robot");
    let mut scene = Scene::new(driver, robot, first);
    let second = connect(&mut scene.driver, KIND, address, "second", "robot");
    scene.run_until(Duration::from_secs(2), |scene| scene.of(second).closed == 1);
    let trouble = scene.driver.machine(second).unwrap().transport().trouble();
    assert_eq!((trouble, scene.of(second).connected), (Trouble::Busy, 0));
    let stranger = connect(&mut scene.driver, KIND, address, "stranger", "robot");
    scene.run_until(Duration::from_secs(2), |scene| scene.of(stranger).closed == 1);
    let trouble = scene.driver.machine(stranger).unwrap().transport().trouble();
    assert_eq!(trouble, Trouble::SentAway);
    assert_eq!((scene.of(first).closed, scene.of(robot).closed), (0, 0));
}

#[test]
fn an_operator_that_is_started_twice_does_not_oust_itself_and_gets_its_robot_when_it_is_silent() {
    let (mut driver, robot, address) = robot();
    let first = connect(&mut driver, KIND, address, "first", "robot");
    let mut scene = Scene::new(driver, robot, first);
    scene.talk(|_, _| ());
    let twice = connect(&mut scene.driver, KIND, address, "first", "robot");
    scene.run_until(Duration::from_secs(2), |scene| scene.of(twice).closed == 1);
    assert_eq!((scene.of(twice).connected, scene.of(first).closed, scene.of(robot).closed), (0, 0, 0));
    scene.run_until(Duration::from_millis(600), |_| false);
    let again = connect(&mut scene.driver, KIND, address, "first", "robot");
    // It goes right behind the handshake.
    scene.driver.command(again, Message { data: vec![0; 75], ..Message::default() });
    scene.run_until(Duration::from_secs(2), |scene| scene.of(robot).connected == 2);
    assert_eq!((scene.of(robot).closed, scene.of(again).connected), (1, 1));
    scene.run_until(Duration::from_secs(2), |scene| scene.of(first).closed == 1);
    assert_eq!(scene.of(first).closed, 1, "the earlier life is over");
}

#[test]
fn a_second_operator_gets_the_robot_when_the_first_is_silent_though_its_connection_stays() {
    let (mut driver, robot, address) = robot();
    let first = connect(&mut driver, KIND, address, "first", "robot");
    let mut scene = Scene::new(driver, robot, first);
    scene.run_until(Duration::from_millis(1_100), |_| false);
    let second = connect(&mut scene.driver, KIND, address, "second", "robot");
    scene.run_until(Duration::from_secs(2), |scene| scene.of(robot).connected == 2);
    assert_eq!((scene.of(robot).closed, scene.of(second).connected), (1, 1));
}
