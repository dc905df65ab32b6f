//! Datagrams that nobody should send.

use proptest::prelude::*;
use taut_core::{Datagram, Duration, Ecn, Event, PathId, Probability, Seed, Time, Transport};
use taut_transport::entropy::Entropy;
use taut_transport::identity::Trust;
use taut_transport::quic::{Quic, QuicConfig};

use crate::quic::harness::*;

#[test]
fn noise_is_refused_and_costs_nothing() {
    let mut net = Net::connected(&QuicConfig::new());
    let mut rng = Seed::new(3).stream("noise");
    let genuine: Vec<_> = net.records.iter().map(|record| record.data.clone()).collect();
    for round in 0..5_000_u64 {
        let mut data: Vec<u8> = match round % 3 {
            // A genuine packet with some bits turned.
            0 => genuine[rng.below(genuine.len() as u64) as usize].clone(),
            _ => (0..rng.below(1_500)).map(|_| rng.next_u64() as u8).collect(),
        };
        if round % 3 == 0 {
            let at = rng.below(data.len() as u64) as usize;
            data[at] ^= 1 << rng.below(8);
        }
        net.inject(SERVER, (rng.below(255)) as u8, &data);
        net.inject(CLIENT, (rng.below(255)) as u8, &data);
    }
    let before = net.records.len();
    net.run_for(ms(1_000));
    for node in [CLIENT, SERVER] {
        assert!(net.received(node).is_empty());
        assert!(net.nodes[node].close_reason().is_none());
        assert!(net.nodes[node].stats().refused > 4_000, "{:?}", net.nodes[node].stats());
        assert_eq!(net.nodes[node].path(), PathId(0));
    }
    assert!(net.records.len() < before + 50, "it sets nothing going");
    net.send(CLIENT, sample(net.now, 75));
    net.run_for(ms(50));
    assert_eq!(net.received(SERVER).len(), 1, "the session is unharmed");
}

#[test]
fn a_recorded_session_is_not_accepted_again() {
    let mut net = Net::connected(&QuicConfig::new());
    net.send(CLIENT, command(net.now, 0, 0, 40));
    net.run_for(ms(100));
    let sent: Vec<_> =
        net.records.iter().filter(|record| record.from == CLIENT).map(|r| r.data.clone()).collect();
    let trust = Trust::only(identity("operator").fingerprint());
    let entropy = Entropy::seeded(Seed::new(8), "robot");
    let robot = Quic::server(QuicConfig::new(), &identity("robot"), trust, entropy);
    let mut other = Net::new(vec![robot]);
    for data in sent {
        other.inject(SERVER, 0, &data);
        other.run_for(ms(10));
    }
    other.run_for(ms(10_000));
    assert!(!other.saw(SERVER, &Event::Connected));
    assert!(other.received(SERVER).is_empty());
    assert_eq!(other.nodes[SERVER].poll_timeout(), None, "it forgets");
}

/// A server has room for sixteen answers that wait for its driver.
#[test]
fn what_strangers_were_to_hear_keeps_no_last_word_from_the_peer() {
    let mut net = Net::connected(&QuicConfig::new());
    // Of a version that there is not (RFC 9000 section 6): it is answered.
    let mut strange = vec![0; 1_200];
    strange[..15].copy_from_slice(&[0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 8, 1, 2, 3, 4, 5, 6, 7, 8, 0]);
    let now = net.now;
    for path in 32..64 {
        let input = Datagram { path: PathId(path), ecn: Ecn::NotCapable, data: &strange, padding: 0 };
        net.nodes[SERVER].handle_input(now, input);
    }
    net.nodes[SERVER].send(now, command(now, 0, 0, 40)).expect("there is room");
    net.nodes[SERVER].close(now);
    net.run_for(ms(100));
    assert_eq!(net.received(CLIENT).len(), 1);
    assert!(net.saw(CLIENT, &Event::Closed));
}

/// The first datagram of a client that never says more.
fn hello(now: Time, number: u64) -> Vec<u8> {
    let mut hello = Vec::new();
    let trust = Trust::only(identity("robot").fingerprint());
    let entropy = Entropy::seeded(Seed::new(number), "stranger");
    let mut stranger = Quic::client(QuicConfig::new(), &identity("stranger"), trust, entropy);
    stranger.poll_transmit(now, &mut hello).expect("it says hello");
    hello
}

/// 300 a second, each from an address of its own, and the operator is 100 ms away.
#[test]
fn hellos_of_strangers_that_never_answer_keep_no_operator_out() {
    let mut net = Net::new(vec![server(QuicConfig::new())]);
    net.link.delay = ms(100);
    let mut strangers = 0;
    let mut flood = |net: &mut Net, millis: u64| {
        for _ in 0..millis * 3 / 10 {
            let hello = hello(net.now, strangers);
            strangers += 1;
            net.inject(SERVER, 32 + (strangers % 200) as u8, &hello);
            net.run_for(Duration::from_micros(3_333));
        }
    };
    flood(&mut net, 500);
    net.nodes.push(client(QuicConfig::new(), "operator"));
    net.events.push(Vec::new());
    flood(&mut net, 1_000);
    assert!(net.saw(SERVER, &Event::Connected) && net.saw(CLIENT, &Event::Connected));
    net.send(CLIENT, sample(net.now, 75));
    flood(&mut net, 200);
    assert_eq!(net.received(SERVER).len(), 1);
    assert_eq!(net.nodes[CLIENT].stats().handshake, Some(ms(400)), "a Retry, and the handshake");
}

/// Strangers at addresses of their own can crowd an operator out; it is told nothing, and tries again.
#[test]
fn a_handshake_that_is_crowded_out_ends_in_silence() {
    let mut net =
        Net::new(vec![server(QuicConfig::new().retry(true)), client(QuicConfig::new(), "operator")]);
    net.link.delay = ms(100);
    net.run_until(at_ms(350));
    for number in 0..8 {
        let path = 100 + number as u8;
        let trust = Trust::only(identity("robot").fingerprint());
        let entropy = Entropy::seeded(Seed::new(number), "stranger");
        let mut stranger = Quic::client(QuicConfig::new(), &identity("stranger"), trust, entropy);
        for _ in 0..2 {
            let mut hello = Vec::new();
            stranger.poll_transmit(net.now, &mut hello).expect("it says hello, and again after a Retry");
            net.inject(SERVER, path, &hello);
            let answer = &net.records.last().expect("an answer").data;
            let input = Datagram { path: PathId(0), ecn: Ecn::NotCapable, data: answer, padding: 0 };
            stranger.handle_input(net.now, input);
        }
    }
    net.run_until(at_ms(450));
    assert!(net.saw(CLIENT, &Event::Connected));
    net.send(CLIENT, sample(net.now, 75));
    net.run_until(at_ms(1_000));
    assert!(!net.saw(SERVER, &Event::Connected), "there was no room");
    assert_eq!(net.nodes[CLIENT].close_reason(), None);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever the network does and the applications offer, in whatever order: every reliable message that was taken
    /// arrives once and in order or is reported, no sample arrives twice, and both sides end.
    #[test]
    fn any_sequence_keeps_the_promises(
        steps in prop::collection::vec((0_u8..7, 0_u16..12, 0_usize..4_000, 0_u64..40), 1..80),
        loss in 0_u32..30,
        jitter in 0_u64..30,
    ) {
        let mut net = Net::pair(&QuicConfig::new());
        net.link.loss = share(f64::from(loss) / 100.0);
        net.link.duplicate = share(0.1);
        net.link.jitter = ms(jitter);
        let (mut number, mut reliable) = (0_u64, Vec::new());
        for (what, stream, size, wait) in steps {
            number += 1;
            let mut message = match what {
                0..3 => command(net.now, stream, (stream % 4) as u8, 16 + size),
                3..6 => sample(net.now, 16 + size % 1_100),
                _ => {
                    // A handshake does not change its path (RFC 9000 section 9).
                    if net.saw(SERVER, &Event::Connected) {
                        net.seen_on = (size % 16) as u8;
                    }
                    net.run_for(ms(wait));
                    continue;
                }
            };
            message.data[8..16].copy_from_slice(&number.to_le_bytes());
            if what < 3 {
                reliable.push((stream, number));
            }
            net.send(CLIENT, message);
            net.run_for(ms(wait));
        }
        net.link.loss = Probability::NEVER;
        net.run_for(ms(4_000));
        let received = net.received(SERVER);
        let numbers = |stream: u16, from: &mut dyn FnMut(u64) -> bool| -> Vec<u64> {
            let ours = received.iter().filter(|(_, id, _)| id.0 == stream);
            ours.map(|(_, _, data)| u64::from_le_bytes(data[8..16].try_into().unwrap())).filter(|n| from(*n)).collect()
        };
        let mut all: Vec<u64> = received.iter().map(|(_, _, d)| u64::from_le_bytes(d[8..16].try_into().unwrap())).collect();
        let total = all.len();
        all.sort_unstable();
        all.dedup();
        prop_assert_eq!(all.len(), total, "nothing arrives twice");
        if net.nodes[CLIENT].close_reason().is_none() && net.nodes[SERVER].close_reason().is_none() {
            for stream in 0..12 {
                let sent: Vec<u64> = reliable.iter().filter(|(id, _)| *id == stream).map(|(_, n)| *n).collect();
                let arrived = numbers(stream, &mut |n| sent.contains(&n));
                prop_assert_eq!(arrived, sent);
            }
        }
        let now = net.now;
        net.nodes[CLIENT].close(now);
        net.run_for(ms(20_000));
        prop_assert!(net.nodes.iter().all(|node| node.poll_timeout().is_none()));
    }
}
