//! Packets of somebody who overhears, and servers of one identity.

use taut_core::{Event, PathId, Seed};
use taut_transport::entropy::Entropy;
use taut_transport::identity::Trust;
use taut_transport::quic::{CloseReason, MpQuic, PathUse, QuicConfig};
use taut_transport::service::Service;

use super::harness::{CLIENT, Net, SERVER, at_ms, client, identity, ms};
use crate::forge::{initial_close, of_no_connection, version_negotiation};

fn hello(net: &Net) -> (PathId, Vec<u8>) {
    let sent = net.sent.iter().rfind(|(_, end, _, data)| *end == CLIENT && data[0] & 0xf0 == 0xc0);
    sent.map(|(_, _, path, data)| (*path, data.clone())).expect("it says hello")
}

fn connected(net: &Net, end: usize) -> bool {
    net.count(end, |event| *event == Event::Connected) == 1
}

#[test]
fn a_forged_end_of_an_attempt_ends_that_attempt_and_the_next_one_connects() {
    for forge in [|hello: &[u8]| initial_close(hello, true), |hello: &[u8]| version_negotiation(hello)] {
        let mut net = Net::new(QuicConfig::multipath(PathUse::FailOver), 1);
        net.run_until(at_ms(1));
        let (path, first) = hello(&net);
        net.deliver(CLIENT, path, &forge(&first));
        net.run_until(at_ms(300));
        assert!(connected(&net, CLIENT) && connected(&net, SERVER));
        assert_eq!(net.ends[CLIENT].close_reason(), None);
    }
}

#[test]
fn who_ends_every_attempt_is_believed_and_what_he_says_may_be_printed() {
    let mut net = Net::new(QuicConfig::multipath(PathUse::FailOver), 1);
    net.ways.iter_mut().for_each(|way| way.cut = Some((at_ms(0), at_ms(60_000))));
    for _ in 0..5 {
        net.run_until(net.now + ms(450));
        assert_eq!(net.ends[CLIENT].close_reason(), None);
        let (path, first) = hello(&net);
        net.deliver(CLIENT, path, &initial_close(&first, true));
    }
    let Some(CloseReason::Protocol(said)) = net.ends[CLIENT].close_reason() else { panic!() };
    assert!(said.contains(r"\u{1b}]0;yours\u{7}\u{202e}bye"), "{said}");
}

#[test]
fn nobody_ends_a_session_who_only_overhears() {
    let mut net = Net::new(QuicConfig::multipath(PathUse::FailOver), 1);
    net.run_until(at_ms(1));
    let (path, first) = hello(&net);
    net.run_until(at_ms(500));
    let (mut reset, before) = (of_no_connection([3; 8]), net.received(SERVER).len());
    for round in 0..20_u8 {
        net.deliver(CLIENT, path, &initial_close(&first, true));
        net.deliver(SERVER, path, &initial_close(&first, false));
        net.deliver(CLIENT, path, &version_negotiation(&first));
        reset[40..].fill(round);
        let recorded =
            net.sent.iter().rfind(|(.., data)| data[0] & 0x80 == 0).expect("packets of the session");
        let (to, on, mut data) = (1 - recorded.1, recorded.2, recorded.3.clone());
        // The right connection ID, and a token that is none.
        let end = data.len() - 16;
        data[end..].fill(round);
        net.deliver(to, on, &data);
        net.deliver(CLIENT, path, &reset);
        net.deliver(SERVER, path, &reset);
        let end = net.now + ms(10);
        net.samples(CLIENT, ms(10), end);
    }
    net.run_until(net.now + ms(100));
    assert_eq!(net.received(SERVER).len() - before, 20);
    assert!(net.ends.iter().all(|end| end.close_reason().is_none()));
}

fn robot(config: QuicConfig) -> MpQuic {
    let trust = Trust::only(identity("operator").fingerprint());
    MpQuic::server(config, &identity("robot"), trust, Entropy::seeded(Seed::new(7), "robot"))
}

#[test]
fn no_two_servers_of_one_identity_give_out_the_same_token_of_a_reset() {
    let config = || QuicConfig::multipath(PathUse::FailOver);
    let token = |config: QuicConfig| {
        let mut net = Net::between([client(config.clone(), "operator", 1), robot(config)], 1);
        net.deliver(SERVER, PathId(0), &of_no_connection([5; 8]));
        let reset = &net.sent.first().expect("it says that there is no such connection").3;
        reset[reset.len() - 16..].to_vec()
    };
    let tokens = [token(config()), token(config().service(Service::Proxy)), token(config().instance(1))];
    for (index, one) in tokens.iter().enumerate() {
        assert!(!tokens[..index].contains(one), "{index}");
    }
    assert_eq!(tokens[0], token(config()), "after a restart it is the same");
}

#[test]
fn a_proxy_does_not_get_into_a_robot_and_is_told_why() {
    for (asks, offers) in [(Service::Proxy, Service::Session), (Service::Session, Service::Proxy)] {
        let config = |service| QuicConfig::multipath(PathUse::FailOver).service(service);
        let mut net = Net::between([client(config(asks), "operator", 1), robot(config(offers))], 1);
        net.run_until(at_ms(4_000));
        assert_eq!(net.ends[CLIENT].close_reason(), Some(&CloseReason::OtherService));
        assert!(!connected(&net, CLIENT) && !connected(&net, SERVER));
    }
}
