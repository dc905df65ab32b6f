//! Who may speak with whom.

use taut_core::{DropCause, Event, Seed, Transport};
use taut_transport::entropy::Entropy;
use taut_transport::identity::Trust;
use taut_transport::quic::{CloseReason, Quic, QuicConfig};
use taut_transport::stranger::ShownKey;

use crate::quic::harness::*;

const UNAUTHENTICATED: Event = Event::Refused(DropCause::Unauthenticated);

#[test]
fn both_sides_know_each_other_after_one_round_trip() {
    let mut net = Net::pair(&QuicConfig::new());
    net.run_until(at_ms(100));
    let connected =
        |node: usize| net.events[node].iter().find(|(_, event)| *event == Event::Connected).unwrap().0;
    assert_eq!(connected(CLIENT), at_ms(20));
    assert_eq!(connected(SERVER), at_ms(30));
    assert_eq!(net.nodes[CLIENT].peer(), Some(identity("robot").fingerprint()));
    assert_eq!(net.nodes[SERVER].peer(), Some(identity("operator").fingerprint()));
    assert_eq!(net.nodes[CLIENT].stats().handshake, Some(ms(20)));
}

#[test]
fn a_conversation_can_move_to_a_thread_of_its_own() {
    let mut quic = client(QuicConfig::new(), "operator");
    let hello = std::thread::spawn(move || {
        let mut hello = Vec::new();
        quic.poll_transmit(at_ms(0), &mut hello).map(|_| hello)
    });
    assert_eq!(hello.join().unwrap().map(|hello| hello.len()), Some(1_200));
}

#[test]
fn a_stranger_is_refused_and_the_server_goes_on_waiting() {
    let config = QuicConfig::new();
    let mut net = Net::new(vec![server(config.clone()), client(config.clone(), "stranger")]);
    net.send(CLIENT, sample(net.now, 75));
    net.run_until(at_ms(200));
    assert!(net.saw(SERVER, &UNAUTHENTICATED));
    assert!(!net.saw(SERVER, &Event::Connected) && !net.saw(SERVER, &Event::Closed));
    assert!(net.received(SERVER).is_empty());
    assert_eq!(net.nodes[SERVER].stats().refused, 1);
    assert!(net.saw(CLIENT, &Event::Closed));
    assert_eq!(net.nodes[CLIENT].close_reason(), Some(&CloseReason::NotTrusted));
    let key = Some(ShownKey::Ed25519(identity("stranger").fingerprint()));
    assert_eq!(net.nodes[SERVER].take_stranger().map(|stranger| stranger.key), Some(key));

    net.nodes[CLIENT] = client(config, "operator");
    net.run_until(at_ms(400));
    assert!(net.saw(SERVER, &Event::Connected));
}

#[test]
fn an_impostor_of_the_server_is_refused_by_the_client() {
    let impostor = Quic::server(
        QuicConfig::new(),
        &identity("impostor"),
        Trust::only(identity("operator").fingerprint()),
        Entropy::seeded(Seed::new(7), "impostor"),
    );
    let mut net = Net::new(vec![impostor, client(QuicConfig::new(), "operator")]);
    net.send(CLIENT, command(net.now, 0, 0, 75));
    // It tries five times: the impostor may be another than who answers next.
    net.run_until(at_ms(2_000));
    assert!(net.saw(CLIENT, &UNAUTHENTICATED) && net.saw(CLIENT, &Event::Closed));
    assert_eq!(net.nodes[CLIENT].close_reason(), Some(&CloseReason::PeerUntrusted));
    assert!(net.received(SERVER).is_empty());
    assert!(!net.saw(SERVER, &Event::Connected) && !net.saw(SERVER, &Event::Closed));
}

#[test]
fn a_second_operator_is_refused_and_the_session_goes_on() {
    let config = QuicConfig::new();
    let trust: Trust = ["operator", "other"].map(|name| identity(name).fingerprint()).into_iter().collect();
    let robot =
        Quic::server(config.clone(), &identity("robot"), trust, Entropy::seeded(Seed::new(7), "robot"));
    let mut net = Net::new(vec![robot, client(config.clone(), "operator")]);
    net.run_until(at_ms(100));
    net.nodes.push(client(config, "other"));
    net.events.push(Vec::new());
    for _ in 0..300 {
        net.run_for(ms(1));
        net.send(CLIENT, sample(net.now, 75));
    }
    // That the robot is busy anybody can say: it is asked five times.
    net.run_for(ms(1_000));
    assert_eq!(net.nodes[2].close_reason(), Some(&CloseReason::Busy));
    assert!(!net.saw(2, &Event::Connected));
    assert_eq!(net.events[SERVER].iter().filter(|(_, event)| *event == UNAUTHENTICATED).count(), 5);
    assert_eq!(latencies(&net, SERVER, 1).len(), 300);
    assert_eq!(quantile(&latencies(&net, SERVER, 1), 1.0), ms(10));
}

#[test]
fn of_two_that_come_at_once_one_is_served() {
    let config = QuicConfig::new();
    let trust: Trust = ["operator", "other"].map(|name| identity(name).fingerprint()).into_iter().collect();
    let robot =
        Quic::server(config.clone(), &identity("robot"), trust, Entropy::seeded(Seed::new(7), "robot"));
    let mut net = Net::new(vec![robot, client(config.clone(), "operator"), client(config, "other")]);
    net.run_until(at_ms(300));
    assert_eq!(net.nodes[SERVER].peer(), Some(identity("operator").fingerprint()));
    assert!(net.nodes[CLIENT].close_reason().is_none());
    assert_eq!(net.nodes[2].close_reason(), Some(&CloseReason::Busy));
}

#[test]
fn handshakes_that_never_end_do_not_keep_the_operator_out() {
    let mut net = Net::new(vec![server(QuicConfig::new())]);
    // Thirty strangers say hello and no more.
    for number in 0..30 {
        let mut hello = Vec::new();
        let mut stranger = client(QuicConfig::new(), &format!("stranger {number}"));
        stranger.poll_transmit(net.now, &mut hello).unwrap();
        net.inject(SERVER, 100, &hello);
    }
    let answered = net.records.iter().filter(|record| record.data[0] & 0xf0 == 0xf0).count();
    assert_eq!(
        answered, 27,
        "three may try at a time; the others are asked by a Retry whether they are there"
    );
    net.nodes.push(client(QuicConfig::new(), "operator"));
    net.events.push(Vec::new());
    net.run_until(at_ms(100));
    assert!(net.saw(SERVER, &Event::Connected));
}

#[test]
fn a_retry_costs_a_round_trip_and_keeps_no_state() {
    let config = QuicConfig::new().retry(true);
    let mut net = Net::pair(&config);
    net.run_until(at_ms(200));
    assert_eq!(net.nodes[CLIENT].stats().handshake, Some(ms(40)));
    assert!(net.saw(SERVER, &Event::Connected));

    let mut net = Net::new(vec![server(config)]);
    for number in 0..30 {
        let mut hello = Vec::new();
        let mut stranger = client(QuicConfig::new(), &format!("stranger {number}"));
        stranger.poll_transmit(net.now, &mut hello).unwrap();
        net.inject(SERVER, 100, &hello);
    }
    assert_eq!(net.nodes[SERVER].poll_timeout(), None, "no handshake was begun");
}

#[test]
fn the_handshake_survives_loss() {
    for seed in 0..20 {
        let mut net = Net::pair(&QuicConfig::new());
        net.link.loss = share(0.3);
        // Another stretch of the same luck for each.
        (0..seed * 3).for_each(|_| net.inject(SERVER, 200, b"x"));
        net.send(CLIENT, command(net.now, 0, 0, 30));
        net.run_until(at_ms(4_500));
        assert_eq!(net.received(SERVER).len(), 1, "seed {seed}: {:?}", net.nodes[CLIENT].close_reason());
    }
}

#[test]
fn a_restarted_robot_says_so_at_once() {
    let mut net = Net::connected(&QuicConfig::new());
    let trust = Trust::only(identity("operator").fingerprint());
    let entropy = Entropy::seeded(Seed::new(8), "after the restart");
    net.nodes[SERVER] = Quic::server(QuicConfig::new(), &identity("robot"), trust, entropy);
    net.send(CLIENT, sample(net.now, 75));
    net.run_for(ms(20));
    assert_eq!(net.nodes[CLIENT].close_reason(), Some(&CloseReason::Restarted));
}

#[test]
fn two_runs_are_the_same_to_the_byte() {
    let run = |seed: u64| {
        let mut net = Net::pair(&QuicConfig::new());
        net.link.loss = share(0.05);
        net.link.jitter = ms(3);
        if seed != 0 {
            let trust = Trust::only(identity("robot").fingerprint());
            let entropy = Entropy::seeded(Seed::new(seed), "operator");
            net.nodes[CLIENT] = Quic::client(QuicConfig::new(), &identity("operator"), trust, entropy);
        }
        for _ in 0..1_000 {
            net.run_for(ms(1));
            net.send(CLIENT, sample(net.now, 75));
            net.send(SERVER, command(net.now, 1, 1, 40));
        }
        (net.digest(), net.records.len())
    };
    assert_eq!(run(0), run(0));
    assert_ne!(run(0).0, run(1).0);
}
