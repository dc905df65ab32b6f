//! Identities in X.509 certificates, for peers that know nothing else.

use taut_core::Event;
use taut_transport::quic::{CloseReason, QuicConfig, Resumption};

use crate::quic::harness::*;

fn certificates() -> QuicConfig {
    QuicConfig::new().certificates(true)
}

#[test]
fn a_key_is_the_same_in_a_certificate() {
    let mut net = Net::pair(&certificates());
    net.run_until(at_ms(100));
    assert_eq!(net.nodes[CLIENT].peer(), Some(identity("robot").fingerprint()));
    assert_eq!(net.nodes[SERVER].peer(), Some(identity("operator").fingerprint()));
    assert_eq!(net.nodes[CLIENT].stats().handshake, Some(ms(20)));
}

#[test]
fn a_stranger_with_a_certificate_is_refused() {
    let mut net = Net::new(vec![server(certificates()), client(certificates(), "stranger")]);
    net.run_until(at_ms(200));
    assert!(!net.saw(SERVER, &Event::Connected));
    assert_eq!(net.nodes[CLIENT].close_reason(), Some(&CloseReason::NotTrusted));
}

#[test]
fn an_end_that_wants_a_certificate_and_one_that_wants_a_key_do_not_meet() {
    for (one, other) in [(certificates(), QuicConfig::new()), (QuicConfig::new(), certificates())] {
        let mut net = Net::new(vec![server(one), client(other, "operator")]);
        net.run_until(at_ms(2_000));
        assert!(net.nodes.iter().all(|node| node.peer().is_none()));
        assert!(net.saw(CLIENT, &Event::Closed));
    }
}

#[test]
fn a_session_begun_with_certificates_is_resumed() {
    let [for_client, for_server] = [Resumption::new(), Resumption::new()];
    let config = |resumption: &Resumption| certificates().resumption(resumption.clone());
    let both = || vec![server(config(&for_server)), client(config(&for_client), "operator")];
    let mut net = Net::new(both());
    net.run_until(at_ms(500));
    let mut net = Net::new(both());
    net.send(CLIENT, sample(net.now, 75));
    net.run_until(at_ms(500));
    assert_eq!(net.nodes[SERVER].stats().received_early, 1);
    assert_eq!(net.nodes[SERVER].peer(), Some(identity("operator").fingerprint()));
}
