//! Noise around datagrams and messages: what passes, what does not, and what it costs.

mod disturbances;
mod flood;
mod handshake;
mod hostile;
mod inside;
mod operators;
mod paths;
mod services;
mod speed;
mod stream;

use crate::net::{MS, Net, at_ms};
use taut_core::{Duration, Event, Message, PathId, Seed, Transport};
use taut_transport::entropy::Entropy;
use taut_transport::identity::{Identity, Trust};
use taut_transport::security::{Secured, SecurityConfig};
use taut_transport::udp::{Udp, UdpConfig};

pub(crate) fn identity(name: &str) -> Identity {
    Identity::from_seed(Seed::new(1), name)
}

pub(crate) fn udp() -> Udp {
    Udp::new(UdpConfig::new().queue(256))
}

pub(crate) fn operator_named(name: &str, config: SecurityConfig) -> Secured<Udp> {
    let entropy = Entropy::seeded(Seed::new(1), name);
    Secured::initiator(config, &identity(name), identity("robot").fingerprint(), entropy, udp())
}

pub(crate) fn robot(config: SecurityConfig) -> Secured<Udp> {
    let trust: Trust = ["operator", "second"].map(|name| identity(name).fingerprint()).into_iter().collect();
    Secured::responder(config, &identity("robot"), trust, Entropy::seeded(Seed::new(1), "robot"), udp)
}

/// An operator and a robot 10 ms apart.
pub(crate) fn pair(config: SecurityConfig) -> Net<Secured<Udp>> {
    Net::new([operator_named("operator", config), robot(config)], MS * 10, 1)
}

/// The same, with keys, at 100 ms.
pub(crate) fn open_pair() -> Net<Secured<Udp>> {
    let mut net = pair(SecurityConfig::new());
    net.run_until(at_ms(100));
    assert!(net.ends.iter().all(Secured::is_open));
    net
}

pub(crate) fn say(net: &mut Net<Secured<Udp>>, end: usize, text: &[u8]) {
    let message = Message { data: text.to_vec(), created: net.now, ..Message::default() };
    net.ends[end].send(net.now, message).expect("UDP always finds room");
    net.drain(end);
}

/// A message a millisecond, from each end, for so long.
pub(crate) fn chat(net: &mut Net<Secured<Udp>>, time: Duration) {
    for _ in 0..time / MS {
        say(net, 0, b"motion");
        say(net, 1, b"force");
        net.run_for(MS);
    }
}

pub(crate) fn heard(net: &Net<Secured<Udp>>, end: usize) -> Vec<&[u8]> {
    net.received(end).map(|(_, data)| data).collect()
}

/// The last datagram that `end` sent.
pub(crate) fn last_from(net: &Net<Secured<Udp>>, end: usize) -> Vec<u8> {
    net.sent.iter().rev().find(|(_, from, ..)| *from == end).expect("it sent something").3.clone()
}

#[test]
fn a_session_may_move_to_another_thread() {
    let operator = operator_named("operator", SecurityConfig::new());
    let robot = robot(SecurityConfig::new());
    let thread = std::thread::spawn(move || [operator.is_open(), robot.is_open()]);
    assert_eq!(thread.join().unwrap(), [false, false]);
}

#[test]
fn what_is_said_arrives_and_is_not_on_the_wire() {
    let mut net = open_pair();
    say(&mut net, 0, b"pose of the hand");
    say(&mut net, 1, b"force");
    net.run_for(MS * 10);
    assert_eq!(heard(&net, 1), [b"pose of the hand"]);
    assert_eq!(heard(&net, 0), [b"force"]);
    let (_, from, path, datagram) = net.sent.iter().find(|(.., data)| data.len() == 28 + 16).unwrap();
    assert_eq!((*from, *path), (0, PathId(0)));
    assert_eq!(datagram[0], 3);
    assert!(!net.sent.iter().any(|(.., data)| data.windows(4).any(|four| four == b"pose")));
    assert_eq!(net.ends[1].peer(), Some(identity("operator").fingerprint()));
    assert_eq!(net.ends[0].peer(), Some(identity("robot").fingerprint()));
    assert_eq!(net.count(0, &Event::Connected), 1);
    assert_eq!(net.count(1, &Event::Connected), 1);
}
