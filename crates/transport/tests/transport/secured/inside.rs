//! Transports with a life of their own inside.

use taut_core::{
    Datagram, Duration, Ecn, Event, Message, PathId, Priority, Reliability, Seed, StreamId, Time, Transport,
};
use taut_transport::dccp::{Dccp, DccpConfig};
use taut_transport::entropy::Entropy;
use taut_transport::etp::{Adaptive, ConfigError, Etp, EtpConfig};
use taut_transport::identity::Trust;
use taut_transport::mtip::{Mtip, MtipConfig};
use taut_transport::sctp::{Sctp, SctpConfig};
use taut_transport::security::{Secured, SecurityConfig};

use crate::net::{MS, Net, at_ms};
use crate::secured::{identity, udp};

fn around<T: Transport>(inner: T, make: impl FnMut() -> T + Send + 'static) -> Net<Secured<T>> {
    let config = SecurityConfig::new().rekey_after(Duration::from_millis(700));
    let entropy = |name| Entropy::seeded(Seed::new(1), name);
    let (operator, robot) = (identity("operator"), identity("robot"));
    let trust = Trust::only(operator.fingerprint());
    let a = Secured::initiator(config, &operator, robot.fingerprint(), entropy("a"), inner);
    let b = Secured::responder(config, &robot, trust, entropy("b"), make);
    Net::new([a, b], MS * 10, 1).lossy(2.0)
}

fn sctp() -> Net<Secured<Sctp>> {
    let entropy = |name| Entropy::seeded(Seed::new(1), name);
    let client = Sctp::client(SctpConfig::new(), entropy("client"));
    around(client, move || Sctp::server(SctpConfig::new(), entropy("server")))
}

#[test]
fn an_association_lives_through_new_keys_and_ends_with_a_shutdown() {
    let mut net = sctp();
    net.run_until(at_ms(1_000));
    for number in 0..1_000_u32 {
        let (data, stream) = (number.to_be_bytes().to_vec(), StreamId(number as u16 % 4));
        let message = Message { data, stream, reliability: Reliability::Reliable, ..Message::default() };
        net.ends[0].send(net.now, message).unwrap();
        net.run_for(MS * 3);
    }
    net.run_for(MS * 3_000);
    assert_eq!(net.received(1).count(), 1_000);
    assert!(net.ends[0].stats().rekeys >= 4);
    net.ends[0].close(net.now);
    net.run_for(MS * 1_500);
    assert_eq!([net.count(0, &Event::Closed), net.count(1, &Event::Closed)], [1, 1]);
    assert!(net.sent.iter().all(|(.., data)| (1..=3).contains(&data[0])), "nothing but ours is on the wire");
}

/// The robot's association is another one for the next conversation.
#[test]
fn an_operator_that_comes_again_finds_a_fresh_association() {
    let mut net = sctp();
    net.run_until(at_ms(1_000));
    assert_eq!(net.count(1, &Event::Connected), 1);
    let config = SecurityConfig::new().epoch(1_000_000_000_000);
    let entropy = |name| Entropy::seeded(Seed::new(2), name);
    let client = Sctp::client(SctpConfig::new(), entropy("client"));
    let robot = identity("robot").fingerprint();
    net.ends[0] = Secured::initiator(config, &identity("operator"), robot, entropy("a"), client);
    // At first its earlier life is not over.
    net.run_for(MS * 1_500);
    assert_eq!([net.count(1, &Event::Closed), net.count(1, &Event::Connected)], [1, 2]);
    let message = Message { data: b"again".to_vec(), ..Message::default() };
    net.ends[0].send(net.now, message).unwrap();
    net.run_for(MS * 20);
    assert_eq!(net.received(1).map(|(_, data)| data).collect::<Vec<_>>(), [b"again"]);
}

#[test]
fn the_gap_transport_finds_its_gap_inside() {
    let etp = || Etp::new(EtpConfig::fixed(MS * 4)).expect("in range");
    let mut net = around(etp(), etp);
    net.run_until(at_ms(500));
    for _ in 0..2_000 {
        let message = Message { data: vec![7; 75], created: net.now, ..Message::default() };
        net.ends[0].send(net.now, message).unwrap();
        net.run_for(MS);
    }
    let arrived = net.received(1).count();
    assert!((470..=500).contains(&arrived), "one each 4 ms: {arrived}");
}

/// The transport inside still answers where the operator was, and learns there what arrives.
#[test]
fn a_stop_from_a_new_address_is_heard_at_once_through_the_gap_transport() {
    let end = |etp: fn(EtpConfig) -> Result<Etp, ConfigError>| {
        move || etp(EtpConfig::adaptive(Adaptive::new())).expect("in range")
    };
    let mut net = around(end(Etp::new)(), end(Etp::waiting)).lossy(0.0);
    let say = |net: &mut Net<Secured<Etp>>, end: usize, data: &[u8], priority| {
        let priority = Priority(priority);
        let message = Message { data: data.to_vec(), created: net.now, priority, ..Message::default() };
        net.ends[end].send(net.now, message).expect("there is room");
        net.drain(end);
    };
    let chat = |net: &mut Net<Secured<Etp>>| {
        for _ in 0..100 {
            say(net, 0, b"motion", 2);
            say(net, 1, b"force", 2);
            net.run_for(MS * 9);
        }
    };
    net.run_until(at_ms(100));
    chat(&mut net);
    net.ways[0].path = PathId(3);
    say(&mut net, 0, b"stop", 0);
    net.run_for(MS * 10);
    assert_eq!(net.received(1).last(), Some((net.now, &b"stop"[..])));
    chat(&mut net);
    net.run_for(MS * 10);
    assert_eq!((net.received(1).count(), net.received(0).count()), (201, 200));
    for end in &net.ends {
        assert_eq!((end.inner().gap(), end.stats().unauthenticated), (MS, 0), "reports arrive, too");
    }
    chat(&mut net);
    net.run_for(MS * 10);
    let robot = net.ends[1].inner().stats();
    assert_eq!((net.received(1).count(), robot.packets_missing), (301, 0), "it counts on where it is now");
}

/// Of five messages that `end` takes: those that it drops, and those that come, when `ends` is what happens next.
fn fates<T: Transport>(
    net: &mut Net<Secured<T>>,
    end: usize,
    ends: impl FnOnce(&mut Net<Secured<T>>),
) -> [usize; 2] {
    for tag in 0..5 {
        let (data, reliability) = (vec![tag as u8; 20], Reliability::Reliable);
        let message = Message { data, tag, created: net.now, reliability, ..Message::default() };
        net.ends[end].send(net.now, message).expect("there is room");
    }
    ends(net);
    net.run_for(MS * 5_000);
    let dropped = net.events[end].iter().filter(|(_, event)| matches!(event, Event::Dropped { .. })).count();
    [dropped, net.received(1 - end).count()]
}

/// The messages of either end that wait when a conversation under Noise is over, or never was one.
fn what_waits_is_reported<T: Transport>(
    operator: impl Fn() -> T,
    robot: impl Fn() -> T + Clone + Send + 'static,
) {
    let name = std::any::type_name::<T>();
    let begin = || around(operator(), robot.clone()).lossy(0.0);
    let mut net = begin();
    let fate = fates(&mut net, 0, |net| net.ends[0].close(net.now));
    assert_eq!(fate, [5, 0], "{name}: closed before there were keys");

    let mut net = begin();
    net.run_until(at_ms(1_000));
    net.ways[1].cut = true;
    let fate = fates(&mut net, 1, |net| {
        let before = net.sent.len();
        net.ends[0].close(net.now);
        net.drain(0);
        for (now, _, path, data) in net.sent.drain(before..) {
            net.ends[1].handle_input(now, Datagram { path, ecn: Ecn::NotCapable, data: &data, padding: 0 });
        }
    });
    assert_eq!(fate.iter().sum::<usize>(), 5, "{name}: the peer said goodbye: {fate:?}");

    let mut net = begin();
    net.run_until(at_ms(1_000));
    net.ways.iter_mut().for_each(|way| way.cut = true);
    let fate = fates(&mut net, 0, |net| {
        net.now += MS * 60_000;
        net.ends[0].handle_timeout(net.now);
    });
    assert_eq!(fate.iter().sum::<usize>(), 5, "{name}: its keys ended: {fate:?}");
}

#[test]
fn what_waits_inside_when_a_conversation_ends_is_reported_by_every_transport() {
    let entropy = |name: &str| Entropy::seeded(Seed::new(1), name);
    let rng = |name: &str| Seed::new(1).stream(name);
    what_waits_is_reported(udp, udp);
    let etp = || Etp::new(EtpConfig::fixed(MS * 4)).expect("in range");
    what_waits_is_reported(etp, etp);
    what_waits_is_reported(
        move || Sctp::client(SctpConfig::new(), entropy("client")),
        move || Sctp::server(SctpConfig::new(), entropy("server")),
    );
    what_waits_is_reported(
        move || Dccp::client(DccpConfig::new(), rng("client")),
        move || Dccp::server(DccpConfig::new(), rng("server")),
    );
    let mtip = || {
        let mut mtip = Mtip::client(MtipConfig::new(), 1);
        mtip.add_path(Time::ZERO, PathId(0));
        mtip
    };
    what_waits_is_reported(mtip, || Mtip::server(MtipConfig::new()));
}
