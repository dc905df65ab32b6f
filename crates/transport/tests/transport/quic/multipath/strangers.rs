//! Datagrams of others: refused, and without harm.

use proptest::prelude::*;
use taut_core::{DropCause, Duration, Event, Message, Origin, PathId, Time, Transport};
use taut_transport::quic::{CloseReason, PathUse, QuicConfig};
use taut_transport::stranger::{ShownKey, Stranger};

use super::harness::{CLIENT, Net, SERVER, at_ms, client, identity, ms, server};

#[test]
fn both_sides_know_each_other_by_their_keys() {
    let mut net = Net::new(QuicConfig::multipath(PathUse::FailOver), 1);
    net.run_until(at_ms(500));
    assert_eq!(net.ends[CLIENT].peer(), Some(identity("robot").fingerprint()));
    assert_eq!(net.ends[SERVER].peer(), Some(identity("operator").fingerprint()));
}

#[test]
fn a_client_that_is_not_trusted_is_refused_and_told_so() {
    let config = QuicConfig::multipath(PathUse::FailOver);
    let mut net = Net::between([client(config.clone(), "stranger", 1), server(config, 1)], 1);
    net.run_until(at_ms(1_000));
    assert_eq!(net.ends[CLIENT].close_reason(), Some(&CloseReason::NotTrusted));
    assert_eq!(net.count(SERVER, |event| *event == Event::Connected), 0);
    let refused = Event::Refused(DropCause::Unauthenticated);
    assert!(net.count(SERVER, |event| *event == refused) >= 1);
    let key = Some(ShownKey::Ed25519(identity("stranger").fingerprint()));
    assert_eq!(net.ends[SERVER].take_stranger().map(|stranger| stranger.key), Some(key));
    assert_eq!(net.ends[SERVER].busy(), 0);
}

#[test]
fn a_second_client_is_refused_while_the_first_one_speaks() {
    let config = QuicConfig::multipath(PathUse::FailOver);
    let mut net = Net::new(config.clone(), 1);
    net.run_until(at_ms(500));
    let mut late = client(config, "operator", 2);
    late.add_path(net.now, PathId(9));
    let mut data = Vec::new();
    while late.poll_transmit(net.now, &mut data).is_some() {
        net.deliver(SERVER, PathId(9), &data);
        data.clear();
    }
    assert_eq!(net.count(SERVER, |event| *event == Event::Refused(DropCause::Unauthenticated)), 1);
    let stranger = Stranger { path: PathId(9), key: None };
    assert_eq!((net.ends[SERVER].take_stranger(), net.ends[SERVER].busy()), (Some(stranger), 1));
    let sent = net.samples(CLIENT, ms(30), at_ms(2_000));
    net.run_until(at_ms(2_100));
    assert_eq!(net.received(SERVER).len() as u64, sent);
}

#[test]
fn what_was_recorded_or_forged_is_refused_on_every_path() {
    let mut net = Net::new(QuicConfig::multipath(PathUse::Duplicate), 1);
    net.run_until(at_ms(500));
    net.samples(CLIENT, ms(30), at_ms(1_000));
    net.run_until(at_ms(1_050));
    let recorded: Vec<_> = net.sent.iter().rev().filter(|sent| sent.1 == CLIENT).take(20).cloned().collect();
    let before = net.received(SERVER).len();
    let refused = |net: &Net| net.ends[SERVER].stats().refused + net.ends[SERVER].stats().replayed;
    let refused_before = refused(&net);
    for (_, _, path, data) in &recorded {
        for path in [*path, PathId(7)] {
            net.deliver(SERVER, path, data);
            let mut forged = data.clone();
            *forged.last_mut().expect("it is not empty") ^= 1;
            net.deliver(SERVER, path, &forged);
        }
    }
    assert_eq!(net.received(SERVER).len(), before);
    assert!(refused(&net) >= refused_before + 60, "{:?}", net.ends[SERVER].stats());
    let sent = net.samples(CLIENT, ms(30), at_ms(3_000));
    net.run_until(at_ms(3_100));
    assert_eq!(net.received(SERVER).len() - before, sent as usize);
}

/// The first datagram of a client that never says more.
fn hello(now: Time, number: u64) -> Vec<u8> {
    let mut stranger = client(QuicConfig::multipath(PathUse::FailOver), "stranger", number);
    stranger.add_path(now, PathId(0));
    let mut hello = Vec::new();
    stranger.poll_transmit(now, &mut hello).expect("it says hello");
    hello
}

/// 300 a second, each from an address of its own, and the operator is 100 ms away.
#[test]
fn five_of_five_operators_get_in_at_300_half_open_handshakes_a_second() {
    for life in 0..5 {
        let mut net = Net::new(QuicConfig::multipath(PathUse::FailOver), life);
        net.ways.iter_mut().for_each(|way| way.delay = ms(100));
        net.ways.iter_mut().for_each(|way| way.cut = Some((at_ms(0), at_ms(500))));
        let mut strangers = life * 1_000;
        let mut flood = |net: &mut Net, until: Time| {
            while net.now < until {
                let path = PathId(32 + (strangers % 200) as u8);
                let origin = Origin::new(([192, 0, 2, 1], strangers as u16).into(), None, 0);
                net.ends[SERVER].remove_path(net.now, path);
                net.ends[SERVER].set_origin(path, origin);
                net.deliver(SERVER, path, &hello(net.now, strangers));
                strangers += 1;
                net.run_until(net.now + Duration::from_micros(3_333));
            }
        };
        flood(&mut net, at_ms(2_500));
        let connected = |end: usize| net.count(end, |event| *event == Event::Connected);
        assert_eq!((connected(CLIENT), connected(SERVER)), (1, 1), "{life}");
        net.send(CLIENT, Message { data: b"here".to_vec(), created: net.now, ..Message::default() });
        flood(&mut net, at_ms(2_700));
        assert_eq!(net.received(SERVER).len(), 1);
    }
}

#[test]
fn a_client_that_was_asked_where_it_is_gets_in_though_its_path_has_another_number_then() {
    let mut net = Net::new(QuicConfig::multipath(PathUse::FailOver), 1);
    net.ways.iter_mut().for_each(|way| way.delay = ms(100));
    let of = |port: u16| Origin::new(([192, 0, 2, 2], port).into(), None, 0);
    net.ends[SERVER].set_origin(PathId(0), of(1));
    for number in 0..3 {
        net.deliver(SERVER, PathId(40 + number as u8), &hello(net.now, number));
    }
    net.run_until(at_ms(150));
    assert_eq!(
        net.sent.last().map(|(_, end, _, data)| (*end, data[0] & 0xf0)),
        Some((SERVER, 0xf0)),
        "a Retry"
    );
    // The driver needs the number for another, and the client's next datagram comes from path 1.
    net.ends[SERVER].remove_path(net.now, PathId(0));
    net.ends[SERVER].set_origin(PathId(0), of(9));
    net.ends[SERVER].set_origin(PathId(1), of(1));
    net.ways[0].arrives_on[CLIENT] = Some(PathId(1));
    net.ways[1].arrives_on[SERVER] = Some(PathId(0));
    net.run_until(at_ms(900));
    assert_eq!(net.count(SERVER, |event| *event == Event::Connected), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn bytes_by_chance_are_refused(
        datagrams in prop::collection::vec((0u8..12, prop::collection::vec(any::<u8>(), 0..1_300)), 1..60),
        connected in any::<bool>(),
    ) {
        let mut net = Net::new(QuicConfig::multipath(PathUse::FailOver), 1);
        if connected {
            net.run_until(at_ms(500));
        }
        for (path, data) in datagrams {
            net.deliver(SERVER, PathId(path), &data);
            net.deliver(CLIENT, PathId(path), &data);
        }
        net.run_until(net.now + ms(1_500));
        prop_assert_eq!(net.received(SERVER).len() + net.received(CLIENT).len(), 0);
        prop_assert_eq!(net.ends[SERVER].paths().count(), 2);
    }
}
