//! The second handshake between the same two.

use taut_core::{Bitrate, DropCause, Duration, Event, Seed, Transport};
use taut_transport::entropy::Entropy;
use taut_transport::identity::Trust;
use taut_transport::quic::{Congestion, Paced, Quic, QuicConfig, QuicStats, Resumption};

use crate::forge::version_negotiation;
use crate::quic::harness::*;

struct Peers {
    operator: QuicConfig,
    robot: QuicConfig,
}

impl Peers {
    fn new() -> Self {
        let config = || QuicConfig::new().resumption(Resumption::new());
        Self { operator: config(), robot: config() }
    }

    fn begin(&self, trust: Trust, seed: u64) -> Net {
        let robot = Quic::server(
            self.robot.clone(),
            &identity("robot"),
            trust,
            Entropy::seeded(Seed::new(seed), "robot"),
        );
        let trust = Trust::only(identity("robot").fingerprint());
        let entropy = Entropy::seeded(Seed::new(seed), "operator");
        let operator = Quic::client(self.operator.clone(), &identity("operator"), trust, entropy);
        Net::new(vec![robot, operator])
    }

    /// One session, in which the client sends from its first moment on, at 1 kHz.
    fn session(&self, trust: Trust, seed: u64) -> Net {
        let mut net = self.begin(trust, seed);
        net.send(CLIENT, command(net.now, 2, 1, 20));
        let mut stop = sample(net.now, 20);
        (stop.stream, stop.priority) = (taut_core::StreamId(0), taut_core::Priority(0));
        net.send(CLIENT, stop);
        for _ in 0..100 {
            if net.nodes[CLIENT].close_reason().is_none() {
                net.send(CLIENT, sample(net.now, 75));
            }
            net.run_for(ms(1));
        }
        net.run_for(ms(200));
        net
    }
}

fn operator() -> Trust {
    Trust::only(identity("operator").fingerprint())
}

fn stats(net: &Net) -> (QuicStats, QuicStats) {
    (net.nodes[CLIENT].stats(), net.nodes[SERVER].stats())
}

#[test]
fn samples_of_a_resumed_session_travel_in_its_first_packet() {
    let peers = Peers::new();
    let full = peers.session(operator(), 1);
    let resumed = peers.session(operator(), 2);
    assert_eq!(stats(&full).0.sent_early, 0);
    assert_eq!(quantile(&latencies(&full, SERVER, 1), 1.0), ms(30), "the first one waits for the handshake");
    assert_eq!(stats(&resumed).0.sent_early, 20, "until the handshake is done");
    assert_eq!(stats(&resumed).1.received_early, stats(&resumed).0.sent_early);
    let samples = latencies(&resumed, SERVER, 1);
    assert_eq!((samples.len(), quantile(&samples, 1.0)), (100, ms(10)), "none waits");
    for net in [&full, &resumed] {
        assert!(latencies(net, SERVER, 0)[0] >= ms(30), "an emergency waits: it shall not be done twice");
        assert!(latencies(net, SERVER, 2)[0] >= ms(30), "and so does a command");
        assert_eq!(net.nodes[SERVER].peer(), Some(identity("operator").fingerprint()));
    }
}

#[test]
fn what_the_server_says_to_early_samples_does_not_wait_for_the_handshake() {
    let peers = Peers::new();
    let heard_at = |seed| {
        let mut net = peers.begin(operator(), seed);
        net.send(CLIENT, sample(net.now, 75));
        net.run_for(ms(11));
        net.send(SERVER, sample(net.now, 75));
        net.run_for(ms(100));
        latencies(&net, CLIENT, 1)[0]
    };
    assert_eq!(heard_at(1), ms(29), "the client is known after 30 ms, the answer comes 10 ms later");
    assert_eq!(heard_at(2), ms(10));
}

#[test]
fn a_ticket_is_good_for_one_session() {
    let peers = Peers::new();
    peers.session(operator(), 1);
    let resumed = peers.session(operator(), 2);
    let early: Vec<_> = resumed
        .records
        .iter()
        .filter(|r| r.from == CLIENT && r.at < at_ms(15))
        .map(|r| r.data.clone())
        .collect();
    // The same packets again, to a server that remembers: somebody recorded them.
    let entropy = Entropy::seeded(Seed::new(3), "robot");
    let again = Quic::server(peers.robot.clone(), &identity("robot"), operator(), entropy);
    let mut net = Net::new(vec![again]);
    for data in &early {
        net.inject(SERVER, 0, data);
    }
    net.run_for(ms(1_000));
    assert!(early.len() > 10);
    assert!(net.received(SERVER).is_empty(), "nothing is taken a second time");
    assert!(!net.saw(SERVER, &Event::Connected));
}

#[test]
fn early_samples_that_are_not_taken_are_reported() {
    let mut peers = Peers::new();
    peers.session(operator(), 1);
    // The robot was restarted and remembers nothing.
    peers.robot = QuicConfig::new().resumption(Resumption::new());
    let net = peers.session(operator(), 2);
    let sent_early = stats(&net).0.sent_early;
    assert_eq!(sent_early, 20);
    let dropped = net.events[CLIENT]
        .iter()
        .filter(|(_, e)| matches!(e, Event::Dropped { cause: DropCause::Abandoned, .. }));
    assert_eq!(dropped.count() as u64, sent_early);
    assert_eq!(latencies(&net, SERVER, 1).len() as u64, 100 - sent_early, "the rest arrives");
}

#[test]
fn an_attempt_that_was_ended_leaves_nothing_to_wake_up_for_but_the_next() {
    let mut peers = Peers::new();
    let slow = Bitrate::from_bps(64_000);
    peers.operator = peers.operator.congestion(Congestion::Paced(Paced::new().floor(slow).ceiling(slow)));
    peers.session(operator(), 1);
    let mut net = peers.begin(operator(), 2);
    net.link.cut = true;
    // More than goes at once: the rest waits for the rate.
    for _ in 0..400 {
        net.send(CLIENT, sample(net.now, 8));
        net.run_for(Duration::from_micros(200));
    }
    let paced = |net: &Net| net.nodes[CLIENT].poll_timeout().filter(|deadline| deadline.why == "paced");
    let wake = paced(&net).expect("what waits for the rate is the next that is due").at;
    // Whoever overhears the first packet can say that there is no such version (RFC 9000 section 6.2).
    let first = net.records.iter().find(|record| record.from == CLIENT).expect("it says hello").data.clone();
    net.inject(CLIENT, 0, &version_negotiation(&first));
    assert_eq!(net.nodes[CLIENT].close_reason(), None, "it is tried again");
    assert_eq!(paced(&net), None, "and until then nothing goes, at {wake} or later");
}

#[test]
fn early_data_can_be_switched_off() {
    let mut peers = Peers::new();
    peers.robot = peers.robot.early_data(false);
    peers.session(operator(), 1);
    let net = peers.session(operator(), 2);
    assert_eq!(stats(&net).0.sent_early, 0);
    assert_eq!(latencies(&net, SERVER, 1).len(), 100);
}

#[test]
fn trust_that_was_withdrawn_is_not_resumed() {
    let peers = Peers::new();
    peers.session(operator(), 1);
    let net = peers.session(Trust::only(identity("other").fingerprint()), 2);
    assert!(net.received(SERVER).is_empty(), "not even early");
    assert!(!net.saw(SERVER, &Event::Connected));
    assert!(net.saw(CLIENT, &Event::Closed));
    assert!(net.nodes[CLIENT].close_reason().is_some());
    assert!(net.nodes[SERVER].poll_timeout().is_none_or(|deadline| deadline.at > net.now));
}
