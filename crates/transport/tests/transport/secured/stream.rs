use taut_core::{
    Bytes, DropCause, Duration, Event, Message, Priority, Reliability, Seed, SendError, Transport,
};
use taut_transport::entropy::Entropy;
use taut_transport::identity::Trust;
use taut_transport::security::{Sealed, SecurityConfig};
use taut_transport::tcp::{Tcp, TcpConfig};
use taut_transport::udp::Udp;

use crate::net::{MS, Net, at_ms};
use crate::secured::{identity, udp};

fn ends<T: Transport>(operator: &str, inner: [T; 2]) -> [Sealed<T>; 2] {
    let [a, b] = inner;
    let (config, entropy) = (SecurityConfig::new(), |name| Entropy::seeded(Seed::new(1), name));
    let robot = identity("robot");
    let trust = Trust::only(identity("operator").fingerprint());
    [
        Sealed::initiator(config, &identity(operator), robot.fingerprint(), entropy("a"), a),
        Sealed::responder(config, &robot, trust, entropy("b"), b),
    ]
}

fn over_tcp(operator: &str) -> Net<Sealed<Tcp>> {
    let tcp = [Tcp::client(TcpConfig::default(), 1), Tcp::server(TcpConfig::default(), 2)];
    Net::new(ends(operator, tcp), MS * 10, 1)
}

fn over_datagrams() -> Net<Sealed<Udp>> {
    Net::new(ends("operator", [udp(), udp()]), MS * 10, 1)
}

fn say<T: Transport>(net: &mut Net<Sealed<T>>, end: usize, data: &[u8]) {
    let message = Message {
        data: data.to_vec(),
        created: net.now,
        reliability: Reliability::Reliable,
        ..Message::default()
    };
    net.ends[end].send(net.now, message).expect("there is room");
    net.drain(end);
}

#[test]
fn what_a_full_buffer_refused_does_not_make_an_urgent_message_a_replay() {
    let mut net = over_tcp("operator");
    net.run_for(Duration::from_secs(1));
    let send = |net: &mut Net<Sealed<Tcp>>, priority, data: &[u8]| {
        let message = Message {
            data: data.to_vec(),
            created: net.now,
            priority: Priority(priority),
            ..Message::default()
        };
        net.ends[0].send(net.now, message)
    };
    let refused = (0..20_000).filter(|_| send(&mut net, 2, &[0; 100]).is_err()).count();
    assert!(refused > 2_000, "{refused}");
    while send(&mut net, 2, &[0; 100]).is_err() {
        net.drain(0);
        net.run_for(MS);
    }
    send(&mut net, 0, b"stop").expect("there is room");
    net.drain(0);
    net.run_for(Duration::from_secs(20));
    assert!(net.received(1).any(|(_, data)| data == b"stop"));
    assert_eq!(net.count(1, &Event::Closed), 0);
}

#[test]
fn everything_arrives_in_order_over_a_stream_that_loses_segments() {
    let mut net = over_tcp("operator").lossy(3.0);
    say(&mut net, 0, b"before the handshake");
    for number in 0..500_u32 {
        say(&mut net, 0, &number.to_be_bytes());
        if net.ends[1].is_open() {
            say(&mut net, 1, &number.to_be_bytes());
        }
        net.run_for(MS * 5);
    }
    net.run_for(Duration::from_secs(20));
    let heard: Vec<&[u8]> = net.received(1).map(|(_, data)| data).collect();
    assert_eq!(heard[0], b"before the handshake");
    assert!(heard[1..].iter().zip(0_u32..).all(|(data, number)| **data == number.to_be_bytes()));
    assert_eq!(heard.len(), 501);
    assert!(net.received(0).count() > 400);
    assert_eq!(net.ends[1].peer(), Some(identity("operator").fingerprint()));
    assert_eq!((net.count(0, &Event::Connected), net.count(1, &Event::Connected)), (1, 1));
    assert!(!net.sent.iter().any(|(.., data)| data.windows(6).any(|six| six == b"before")));
}

#[test]
fn who_is_not_trusted_is_cut_off() {
    let mut net = over_tcp("stranger");
    net.run_until(at_ms(1_000));
    assert_eq!(net.count(1, &Event::Closed), 1);
    assert!(!net.ends[0].is_open());
    assert_eq!(net.ends[1].stats().unauthenticated, 1);
}

#[test]
fn a_connection_without_a_handshake_is_closed() {
    let mut net = over_datagrams();
    net.ways[0].cut = true;
    net.run_until(at_ms(31_000));
    assert_eq!(net.count(0, &Event::Closed), 1);
    let late = Message { data: b"late".to_vec(), ..Message::default() };
    assert_eq!(net.ends[0].send(net.now, late), Err(SendError::Closed));
}

/// A message whose deadline passes before its turn leaves a gap in the counters, no more.
#[test]
fn messages_that_never_entered_the_stream_do_not_break_it() {
    let mut net = over_datagrams();
    net.run_until(at_ms(100));
    for round in 0..200_u8 {
        net.ways[0].cut = round % 3 == 1;
        say(&mut net, 0, &[round]);
        net.run_for(MS);
    }
    net.run_for(MS * 20);
    assert!(net.received(1).all(|(_, data)| data[0] % 3 != 1));
    assert_eq!(net.received(1).count(), 133);
}

#[test]
fn a_message_is_known_however_many_before_it_never_entered_the_stream() {
    let mut net = over_datagrams();
    net.run_until(at_ms(100));
    for count in [40_000, 40_000, 100_000] {
        net.ways[0].cut = true;
        (0..count).for_each(|_| say(&mut net, 0, b"lost"));
        net.ways[0].cut = false;
        say(&mut net, 0, b"known");
        net.run_for(MS * 20);
    }
    assert_eq!(net.received(1).map(|(_, data)| data).collect::<Vec<_>>(), [b"known"; 3]);
}

/// The first message has counter 0, and others are not looked for: noise costs one attempt.
#[test]
fn before_the_first_message_none_from_far_ahead_is_known() {
    let mut net = over_datagrams();
    net.ways[0].filter = |data| data[0] == 4;
    net.run_until(at_ms(100));
    assert_eq!((net.ends[0].is_open(), net.ends[1].is_open()), (true, false));
    (1..1 << 16).for_each(|_| say(&mut net, 0, b"lost"));
    net.ways[0].filter = |_| false;
    say(&mut net, 0, b"far ahead");
    net.run_for(MS * 20);
    assert_eq!(net.sent.last().map(|(.., data)| &data[..3]), Some(&[4, 0, 0][..]));
    assert_eq!((net.received(1).count(), net.ends[1].stats().unauthenticated), (0, 1));
    assert!(!net.ends[1].is_open());
}

#[test]
fn what_did_not_arrive_after_goodbye_is_told() {
    let mut net = over_tcp("operator");
    net.run_for(Duration::from_secs(1));
    net.ways[0].cut = true;
    for tag in 0..5 {
        let message = Message { data: vec![0; 100], tag, ..Message::default() };
        net.ends[0].send(net.now, message).expect("there is room");
    }
    net.ends[0].close(net.now);
    net.run_for(Duration::from_secs(3_600));
    let cause = DropCause::Cut;
    let dropped: Vec<_> =
        net.events[0].iter().filter(|(_, event)| matches!(event, Event::Dropped { .. })).collect();
    assert_eq!(dropped.len(), 5, "{dropped:?}");
    assert!((0..5).all(|tag| net.count(0, &Event::Dropped { tag, cause }) == 1), "{dropped:?}");
    assert_eq!(net.count(0, &Event::Closed), 1);
}

#[test]
fn a_message_that_was_changed_or_repeated_ends_the_connection() {
    let changes: [fn(&mut Vec<u8>); 4] =
        [|data| data[9] ^= 1, |data| data[2] ^= 1, |data| data.truncate(5), |_| ()];
    for change in changes {
        let mut net = over_datagrams();
        net.run_until(at_ms(100));
        say(&mut net, 0, b"sample");
        net.run_for(MS * 10);
        assert_eq!(net.received(1).count(), 1);
        let mut data = net.sent.last().unwrap().3.clone();
        assert_eq!(data.len(), 6 + 19);
        assert_eq!(data[..3], [4, 0, 1], "the proof was the first");
        change(&mut data);
        net.deliver(1, taut_core::PathId(0), &data);
        assert_eq!(net.count(1, &Event::Closed), 1);
        assert_eq!(net.received(1).count(), 1);
    }
}

#[test]
fn the_limit_of_a_message_is_that_of_the_transport_less_the_overhead() {
    let mut net = over_datagrams();
    net.run_until(at_ms(100));
    let long = Message { data: vec![0; 1_454], ..Message::default() };
    let (size, limit) = (Bytes::new(1_454), Bytes::new(1_453));
    assert_eq!(net.ends[0].send(net.now, long), Err(SendError::TooLarge { size, limit }));
    say(&mut net, 0, &[0; 1_453]);
    net.run_for(MS * 10);
    assert_eq!(net.received(1).count(), 1);
}

#[test]
fn a_message_that_noise_cannot_seal_is_refused_before_and_after_the_handshake() {
    let mut net = over_tcp("operator");
    let long = Message { data: vec![0; 65_520], ..Message::default() };
    let refused = Err(SendError::TooLarge { size: Bytes::new(65_520), limit: Bytes::new(65_519) });
    assert_eq!(net.ends[0].send(net.now, long.clone()), refused);
    net.run_for(Duration::from_secs(1));
    assert!(net.ends[0].is_open());
    assert_eq!(net.ends[0].send(net.now, long), refused);
    say(&mut net, 0, &[7; 65_519]);
    net.run_for(Duration::from_secs(5));
    assert_eq!(net.received(1).map(|(_, data)| data.len()).collect::<Vec<_>>(), [65_519]);
}
