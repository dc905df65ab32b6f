//! Datagrams of others: refused, and without harm.

use proptest::prelude::*;
use taut_core::{DropCause, Event, PathId, Transport};
use taut_transport::mpquic::{MpQuicConfig, PathUse};
use taut_transport::quic::CloseReason;
use taut_transport::stranger::{ShownKey, Stranger};

use crate::harness::{CLIENT, Net, SERVER, at_ms, client, identity, ms, server};

#[test]
fn both_sides_know_each_other_by_their_keys() {
    let mut net = Net::new(MpQuicConfig::new(), 1);
    net.run_until(at_ms(500));
    assert_eq!(net.ends[CLIENT].peer(), Some(identity("robot").fingerprint()));
    assert_eq!(net.ends[SERVER].peer(), Some(identity("operator").fingerprint()));
}

#[test]
fn a_client_that_is_not_trusted_is_refused_and_told_so() {
    let config = MpQuicConfig::new();
    let mut net = Net::between([client(config, "stranger", 1), server(config, 1)], 1);
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
    let config = MpQuicConfig::new();
    let mut net = Net::new(config, 1);
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
    let mut net = Net::new(MpQuicConfig::new().path_use(PathUse::Duplicate), 1);
    net.run_until(at_ms(500));
    net.samples(CLIENT, ms(30), at_ms(1_000));
    net.run_until(at_ms(1_050));
    let recorded: Vec<_> = net.sent.iter().rev().filter(|sent| sent.1 == CLIENT).take(20).cloned().collect();
    let before = net.received(SERVER).len();
    let refused = net.ends[SERVER].stats().refused;
    for (_, _, path, data) in &recorded {
        for path in [*path, PathId(7)] {
            net.deliver(SERVER, path, data);
            let mut forged = data.clone();
            *forged.last_mut().expect("it is not empty") ^= 1;
            net.deliver(SERVER, path, &forged);
        }
    }
    assert_eq!(net.received(SERVER).len(), before);
    assert!(net.ends[SERVER].stats().refused >= refused + 60, "{:?}", net.ends[SERVER].stats());
    let sent = net.samples(CLIENT, ms(30), at_ms(3_000));
    net.run_until(at_ms(3_100));
    assert_eq!(net.received(SERVER).len() - before, sent as usize);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn bytes_by_chance_are_refused(
        datagrams in prop::collection::vec((0u8..12, prop::collection::vec(any::<u8>(), 0..1_300)), 1..60),
        connected in any::<bool>(),
    ) {
        let mut net = Net::new(MpQuicConfig::new(), 1);
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
