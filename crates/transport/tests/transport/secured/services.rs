//! A robot and a proxy of one identity that trust the same peers.

use taut_core::{Event, Seed};
use taut_transport::entropy::Entropy;
use taut_transport::identity::Trust;
use taut_transport::security::{Sealed, Secured, SecurityConfig};
use taut_transport::service::Service;
use taut_transport::tcp::{Tcp, TcpConfig};

use crate::net::{MS, Net, at_ms};
use crate::secured::{identity, operator_named, robot};

const BOTH: [(Service, Service); 2] =
    [(Service::Proxy, Service::Session), (Service::Session, Service::Proxy)];

#[test]
fn a_proxy_does_not_get_into_a_robot_and_is_told_why() {
    for (asks, offers) in BOTH {
        let config = |service| SecurityConfig::new().service(service);
        let ends = [operator_named("operator", config(asks)), robot(config(offers))];
        let mut net = Net::new(ends, MS * 10, 1);
        net.run_until(at_ms(15));
        let [asked, answered] = [&net.sent[0].3, &net.sent[1].3];
        assert!(answered.len() < asked.len(), "nothing is amplified");
        net.run_until(at_ms(1_000));
        assert!(!net.ends.iter().any(Secured::is_open));
        for end in &net.ends {
            assert_eq!(end.stats().other_service, 4, "0, 100, 300, 700 ms");
        }
        assert_eq!(net.count(0, &Event::Closed), 0, "anybody who overhears could have said so");
    }
}

#[test]
fn what_is_not_the_answer_to_the_initiation_says_nothing_of_services() {
    let config = SecurityConfig::new().service(Service::Proxy);
    let mut net = Net::new([operator_named("operator", config), robot(SecurityConfig::new())], MS * 10, 1);
    net.run_until(at_ms(15));
    let refusal = net.sent[1].3.clone();
    net.ways.iter_mut().for_each(|way| way.cut = true);
    for bit in 0..refusal.len() * 8 {
        let mut flipped = refusal.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        net.deliver(0, taut_core::PathId(0), &flipped);
    }
    assert_eq!(net.ends[0].stats().other_service, 0);
}

#[test]
fn over_a_stream_a_proxy_does_not_get_into_a_robot_either() {
    for (asks, offers) in BOTH {
        let config = |service| SecurityConfig::new().service(service);
        let entropy = |name| Entropy::seeded(Seed::new(1), name);
        let (me, peer) = (identity("operator"), identity("robot").fingerprint());
        let client = Tcp::client(TcpConfig::default(), 1);
        let client = Sealed::initiator(config(asks), &me, peer, entropy("a"), client);
        let server = Tcp::server(TcpConfig::default(), 2);
        let trust = Trust::only(me.fingerprint());
        let server = Sealed::responder(config(offers), &identity("robot"), trust, entropy("b"), server);
        let mut net = Net::new([client, server], MS * 10, 1);
        net.run_until(at_ms(1_000));
        assert!(net.ends.iter().all(|end| !end.is_open() && end.stats().other_service == 1));
        assert_eq!(net.count(0, &Event::Closed), 1);
        assert!(net.ends[0].peer().is_none());
    }
}
