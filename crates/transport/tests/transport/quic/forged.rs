//! Packets of somebody who overhears, and servers of one identity.

use taut_core::{Event, Seed};
use taut_transport::entropy::Entropy;
use taut_transport::identity::Trust;
use taut_transport::quic::{CloseReason, Quic, QuicConfig};
use taut_transport::service::Service;

use crate::forge::{initial_close, of_no_connection, version_negotiation};
use crate::quic::harness::*;

fn hello(net: &Net) -> Vec<u8> {
    net.records.iter().rfind(|record| record.from == CLIENT).expect("it says hello").data.clone()
}

#[test]
fn a_forged_end_of_an_attempt_ends_that_attempt_and_the_next_one_connects() {
    for forge in [|hello: &[u8]| initial_close(hello, true), |hello: &[u8]| version_negotiation(hello)] {
        let mut net = Net::pair(&QuicConfig::new());
        net.send(CLIENT, sample(net.now, 75));
        let forged = forge(&hello(&net));
        net.inject(CLIENT, 0, &forged);
        net.run_until(at_ms(300));
        assert!(net.saw(CLIENT, &Event::Connected) && net.saw(SERVER, &Event::Connected));
        assert_eq!(net.nodes[CLIENT].close_reason(), None);
        assert_eq!(net.received(SERVER).len(), 1);
    }
}

#[test]
fn who_ends_every_attempt_is_believed_and_what_he_says_may_be_printed() {
    let mut net = Net::pair(&QuicConfig::new());
    net.link.cut = true;
    for _ in 0..5 {
        net.run_for(ms(400));
        assert_eq!(net.nodes[CLIENT].close_reason(), None);
        let forged = initial_close(&hello(&net), true);
        net.inject(CLIENT, 0, &forged);
    }
    let Some(CloseReason::Protocol(said)) = net.nodes[CLIENT].close_reason() else { panic!() };
    assert!(said.contains(r"\u{1b}]0;yours\u{7}\u{202e}bye"), "{said}");
    assert!(net.saw(CLIENT, &Event::Closed));
}

#[test]
fn nobody_ends_a_session_who_only_overhears() {
    let mut net = Net::connected(&QuicConfig::new());
    let hello = net.records[0].data.clone();
    let mut reset = of_no_connection([3; 8]);
    for round in 0..20_u8 {
        for (to, forged) in [
            (CLIENT, initial_close(&hello, true)),
            (SERVER, initial_close(&hello, false)),
            (CLIENT, version_negotiation(&hello)),
        ] {
            net.inject(to, 0, &forged);
        }
        reset[40..].fill(round);
        let recorded =
            net.records.iter().rfind(|record| record.data[0] & 0x80 == 0).expect("packets of the session");
        let (to, mut data) = (1 - recorded.from, recorded.data.clone());
        // The right connection ID, and a token that is none.
        let end = data.len() - 16;
        data[end..].fill(round);
        net.inject(to, 0, &data);
        net.inject(CLIENT, 0, &reset);
        net.inject(SERVER, 0, &reset);
        net.run_for(ms(10));
        net.send(CLIENT, sample(net.now, 75));
    }
    net.run_for(ms(100));
    assert_eq!(net.received(SERVER).len(), 20);
    assert!(net.nodes.iter().all(|node| node.close_reason().is_none()));
}

/// The half of the handshake at the server is gone, and nothing else: whoever comes next is served.
#[test]
fn a_forged_close_of_a_servers_half_of_a_handshake_costs_it_that_handshake() {
    let mut net = Net::pair(&QuicConfig::new());
    net.run_until(at_ms(10));
    let forged = initial_close(&hello(&net), false);
    net.inject(SERVER, 0, &forged);
    net.run_until(at_ms(8_000));
    assert!(net.nodes[CLIENT].close_reason().is_some() || net.saw(SERVER, &Event::Connected));
    assert!(net.nodes[SERVER].close_reason().is_none());
    if !net.saw(SERVER, &Event::Connected) {
        net.nodes[CLIENT] = client(QuicConfig::new(), "operator");
        net.run_for(ms(200));
        assert!(net.saw(SERVER, &Event::Connected));
    }
}

fn robot(config: QuicConfig) -> Quic {
    let trust = Trust::only(identity("operator").fingerprint());
    Quic::server(config, &identity("robot"), trust, Entropy::seeded(Seed::new(7), "robot"))
}

#[test]
fn no_two_servers_of_one_identity_give_out_the_same_token_of_a_reset() {
    let config = QuicConfig::new;
    let token = |config: QuicConfig| {
        let mut net = Net::new(vec![robot(config)]);
        net.inject(SERVER, 0, &of_no_connection([5; 8]));
        let reset = &net.records.first().expect("it says that there is no such connection").data;
        reset[reset.len() - 16..].to_vec()
    };
    let tokens = [
        token(config()),
        token(config().service(Service::Proxy)),
        token(config().instance(1)),
        token(config().instance(2)),
    ];
    for (index, one) in tokens.iter().enumerate() {
        assert!(!tokens[..index].contains(one), "{index}");
    }
    assert_eq!(tokens[0], token(config()), "after a restart it is the same");
}

#[test]
fn a_proxy_does_not_get_into_a_robot_and_is_told_why() {
    for (asks, offers) in [(Service::Proxy, Service::Session), (Service::Session, Service::Proxy)] {
        let config = |service| QuicConfig::new().service(service);
        let mut net = Net::new(vec![robot(config(offers)), client(config(asks), "operator")]);
        net.run_until(at_ms(2_000));
        assert_eq!(net.nodes[CLIENT].close_reason(), Some(&CloseReason::OtherService));
        assert!(!net.saw(CLIENT, &Event::Connected) && !net.saw(SERVER, &Event::Connected));
        assert!(net.nodes[SERVER].close_reason().is_none());
    }
}
