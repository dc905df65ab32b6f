use taut_core::{Datagram, DropCause, Ecn, Event, PathId, Seed, Transport};
use taut_transport::entropy::Entropy;
use taut_transport::identity::Trust;
use taut_transport::security::{REPLAY_WINDOW, RESPONSE_BYTES, Secured, SecurityConfig};

use crate::net::{MS, Net, at_ms};
use crate::secured::flood::forged;
use crate::secured::{chat, heard, identity, last_from, open_pair, operator_named, pair, say, udp};

const ELSEWHERE: PathId = PathId(7);

fn refused(cause: DropCause) -> Event {
    Event::Refused(cause)
}

#[test]
fn an_identity_that_is_not_trusted_gets_no_answer() {
    let config = SecurityConfig::new();
    let mut net = Net::new([operator_named("stranger", config), crate::secured::robot(config)], MS, 1);
    net.run_until(at_ms(10));
    assert!(net.sent.iter().all(|(_, from, ..)| *from == 0));
    assert_eq!(net.count(1, &refused(DropCause::Unauthenticated)), 1);
    assert!(!net.ends[1].is_open());
    let stranger = net.ends[1].take_stranger().expect("it is told who that was");
    let shown = stranger.key.expect("Noise shows a key").fingerprints();
    assert!(shown.contains(&identity("stranger").fingerprint()), "{shown:?}");
    assert_eq!((stranger.path, net.ends[1].take_stranger()), (PathId(0), None));
}

#[test]
fn a_robot_with_another_key_is_not_believed() {
    let config = SecurityConfig::new();
    let trust = Trust::only(identity("operator").fingerprint());
    let impostor =
        Secured::responder(config, &identity("impostor"), trust, Entropy::seeded(Seed::new(1), "i"), udp);
    let mut net = Net::new([operator_named("operator", config), impostor], MS, 1);
    net.run_until(at_ms(10));
    assert!(net.sent.iter().all(|(_, from, ..)| *from == 0));
    assert_eq!(net.count(1, &refused(DropCause::Unauthenticated)), 1);
    assert!(!net.ends[0].is_open());
}

#[test]
fn a_datagram_is_taken_once_in_whatever_order() {
    let mut net = open_pair();
    net.ways[0].cut = true;
    let first = net.sent.len();
    for number in 0..100_u8 {
        say(&mut net, 0, &[number]);
    }
    let datagrams: Vec<Vec<u8>> = net.sent[first..].iter().map(|(.., data)| data.clone()).collect();
    for datagram in datagrams.iter().rev().chain(&datagrams) {
        net.deliver(1, PathId(0), datagram);
    }
    assert_eq!(heard(&net, 1).len(), 100);
    assert_eq!(heard(&net, 1)[0], [99]);
    assert_eq!(net.count(1, &refused(DropCause::Replayed)), 100);
    assert_eq!(net.ends[1].stats().replayed, 100);
}

#[test]
fn what_is_too_old_to_tell_from_a_replay_is_refused() {
    let mut net = open_pair();
    net.ways[0].cut = true;
    let first = net.sent.len();
    (0..=REPLAY_WINDOW).for_each(|_| say(&mut net, 0, b"sample"));
    let datagrams: Vec<Vec<u8>> = net.sent[first..].iter().map(|(.., data)| data.clone()).collect();
    net.deliver(1, PathId(0), datagrams.last().unwrap());
    net.deliver(1, PathId(0), &datagrams[0]);
    net.deliver(1, PathId(0), &datagrams[1]);
    assert_eq!(heard(&net, 1).len(), 2);
    assert_eq!(net.count(1, &refused(DropCause::Replayed)), 1);
}

#[test]
fn every_flipped_bit_and_every_missing_byte_is_noticed() {
    let mut net = open_pair();
    net.ways[0].cut = true;
    say(&mut net, 0, &[0x5a; 75]);
    let datagram = last_from(&net, 0);
    assert_eq!(datagram.len(), 75 + 28);
    for bit in 0..datagram.len() * 8 {
        let mut flipped = datagram.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        net.deliver(1, ELSEWHERE, &flipped);
    }
    for len in 0..datagram.len() {
        net.deliver(1, ELSEWHERE, &datagram[..len]);
    }
    net.deliver(1, ELSEWHERE, &[&datagram[..], &[0]].concat());
    let input = Datagram { path: ELSEWHERE, ecn: Ecn::NotCapable, data: &datagram, padding: 1 };
    net.ends[1].handle_input(net.now, input);
    let stats = net.ends[1].stats();
    assert_eq!(stats.unauthenticated + stats.malformed + stats.replayed, 103 * 8 + 103 + 2);
    assert!(heard(&net, 1).is_empty());
    // And none of them marked the counter as seen, moved the peer, or got an answer.
    net.deliver(1, PathId(0), &datagram);
    assert_eq!(heard(&net, 1).len(), 1);
    assert_eq!(net.ends[1].stats().moved, 0);
}

#[test]
fn every_flipped_bit_of_a_handshake_is_noticed() {
    let mut net = pair(SecurityConfig::new().handshakes_per_second(1000));
    net.ways.iter_mut().for_each(|way| way.cut = true);
    net.run_until(at_ms(0));
    let initiation = last_from(&net, 0);
    // All but the proof of where it comes from: without one, or with a wrong one, it is an initiation all the same.
    for bit in 0..(initiation.len() - 16) * 8 {
        let mut flipped = initiation.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        net.deliver(1, PathId(0), &flipped);
    }
    assert!(net.sent.iter().all(|(_, from, ..)| *from == 0), "no answer to any of them");
    net.deliver(1, PathId(0), &initiation);
    let response = last_from(&net, 1);
    for bit in 0..response.len() * 8 {
        let mut flipped = response.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        net.deliver(0, PathId(0), &flipped);
    }
    assert!(!net.ends[0].is_open());
    net.deliver(0, PathId(0), &response);
    assert!(net.ends[0].is_open());
}

#[test]
fn a_replayed_initiation_does_not_disturb_a_session() {
    let mut net = open_pair();
    let initiation = net.sent[0].3.clone();
    for round in 0..50 {
        net.deliver(1, ELSEWHERE, &initiation);
        chat(&mut net, MS * 10);
        assert_eq!(net.count(1, &refused(DropCause::Replayed)), round + 1);
    }
    assert_eq!(net.ends[1].stats().handshakes, 1);
    assert!(net.sent.iter().all(|(_, _, path, _)| *path == PathId(0)), "nobody elsewhere was answered");
    net.run_for(MS * 10);
    assert_eq!(heard(&net, 1).len(), 500);
}

/// Two hundred times a second, recordings of the operator's initiations and others that the robot cannot know.
#[test]
fn recorded_initiations_do_not_keep_an_operator_from_new_keys() {
    let config = SecurityConfig::new().rekey_after(MS * 500).give_up(MS * 1_000);
    let mut net = pair(config);
    net.run_until(at_ms(100));
    let first = net.sent[0].3.clone();
    chat(&mut net, MS * 1_200);
    let stranger = |number: u64| {
        let (robot, entropy) =
            (identity("robot").fingerprint(), Entropy::seeded(Seed::new(number), "stranger"));
        let mut stranger = Secured::initiator(config, &identity("stranger"), robot, entropy, udp());
        let mut initiation = Vec::new();
        stranger.handle_timeout(at_ms(0));
        stranger.poll_transmit(at_ms(0), &mut initiation).expect("it begins");
        initiation
    };
    let before = net.ends[1].stats().rekeys;
    for round in 0..1_000 {
        net.deliver(1, ELSEWHERE, &first);
        // Others that the robot cannot know.
        net.deliver(1, ELSEWHERE, &stranger(round));
        chat(&mut net, MS * 5);
    }
    net.run_for(MS * 20);
    assert_eq!(net.count(0, &Event::Closed), 0);
    assert_eq!((heard(&net, 0).len(), heard(&net, 1).len()), (6_200, 6_200));
    assert!(net.ends[1].stats().rekeys - before >= 9, "{:?}", net.ends[1].stats());
}

#[test]
fn recorded_initiations_are_looked_into_once_and_cost_no_newcomer_its_turn() {
    let mut net = pair(SecurityConfig::new());
    net.ways[0].cut = true;
    net.run_until(at_ms(10));
    let recorded: Vec<Vec<u8>> = (1..9)
        .map(|life| {
            let (robot, entropy) = (identity("robot").fingerprint(), Entropy::seeded(Seed::new(life), "o"));
            let mut earlier =
                Secured::initiator(SecurityConfig::new(), &identity("operator"), robot, entropy, udp());
            earlier.handle_timeout(at_ms(life));
            let mut initiation = Vec::new();
            earlier.poll_transmit(at_ms(life), &mut initiation).expect("it begins");
            initiation
        })
        .collect();
    for round in 0..1_000 {
        net.deliver(1, ELSEWHERE, &recorded[round % recorded.len()]);
        net.run_for(MS);
    }
    assert_eq!(net.ends[1].stats().limited, 0);
    let mut net = Net::new(
        [operator_named("second", SecurityConfig::new()), net.ends.into_iter().nth(1).unwrap()],
        MS * 10,
        1,
    );
    net.run_until(at_ms(30));
    assert!(net.ends[0].is_open());
}

#[test]
fn an_operator_without_new_keys_goes_on_with_the_old_ones_while_it_hears_the_robot() {
    let config = SecurityConfig::new().rekey_after(MS * 500).give_up(MS * 1_000);
    let mut net = pair(config);
    net.run_until(at_ms(100));
    net.ways[1].filter = |data| data.len() == RESPONSE_BYTES;
    chat(&mut net, MS * 14_000);
    net.run_for(MS * 20);
    assert_eq!((heard(&net, 0).len(), heard(&net, 1).len()), (14_000, 14_000));
    assert_eq!((net.count(0, &Event::Closed), net.ends[0].stats().rekeys), (0, 0));
    // Thirty times as old as they should have become: no keys are used for ever.
    net.run_until(at_ms(15_100));
    assert_eq!((net.count(0, &Event::Closed), net.count(1, &Event::Closed)), (1, 1));
}

#[test]
fn an_operator_that_hears_nothing_more_after_asking_for_new_keys_gives_up() {
    let config = SecurityConfig::new().rekey_after(MS * 500).give_up(MS * 3_000);
    let mut net = pair(config);
    net.run_until(at_ms(510));
    net.ways[1].filter = |data| data.len() == RESPONSE_BYTES;
    net.run_until(at_ms(2_000));
    net.ways[1].cut = true;
    let last = at_ms(2_000);
    net.run_until(last + MS * 2_500);
    assert_eq!(net.count(0, &Event::Closed), 0);
    net.run_until(last + MS * 3_000);
    assert_eq!(net.count(0, &Event::Closed), 1);
}

/// Someone on the way who sends the operator's datagrams on from another address, before they come themselves.
#[test]
fn datagrams_that_are_forwarded_faster_attract_no_answers() {
    let mut net = open_pair();
    let before = net.sent.len();
    for round in 0..1_000_u32 {
        say(&mut net, 0, &round.to_be_bytes());
        let first = last_from(&net, 0);
        net.deliver(1, ELSEWHERE, &first);
        say(&mut net, 1, b"force");
        net.run_for(MS);
    }
    net.run_for(MS * 20);
    let attracted: Vec<_> = net.sent[before..].iter().filter(|(.., path, _)| *path == ELSEWHERE).collect();
    assert!((1..=11).contains(&attracted.len()), "ten questions a second: {}", attracted.len());
    assert!(attracted.iter().all(|(_, from, _, data)| (*from, data.len()) == (1, 37)));
    assert_eq!((heard(&net, 1).len(), heard(&net, 0).len()), (1_000, 1_000));
    // The question sent on to the operator, in the robot's name and from elsewhere.
    let question = attracted.last().unwrap().3.clone();
    for path in [ELSEWHERE, PathId(0)] {
        net.deliver(0, path, &question);
        net.run_for(MS * 20);
    }
    say(&mut net, 1, b"force");
    assert_eq!((net.sent.last().unwrap().2, net.ends[1].stats().moved), (PathId(0), 0));
}

#[test]
fn a_handshake_that_is_forwarded_faster_ends_where_the_operator_is() {
    let mut net = pair(SecurityConfig::new());
    net.run_until(at_ms(0));
    // Its initiation, and the first datagram under the keys.
    let initiation = last_from(&net, 0);
    net.deliver(1, ELSEWHERE, &initiation);
    net.run_until(at_ms(20));
    let proof = last_from(&net, 0);
    net.deliver(1, ELSEWHERE, &proof);
    assert!(net.ends[1].is_open());
    net.run_until(at_ms(50));
    let before = net.sent.len();
    chat(&mut net, MS * 100);
    let from_robot = net.sent[before..].iter().filter(|(_, from, ..)| *from == 1);
    assert!(from_robot.clone().count() >= 100 && from_robot.clone().all(|(.., path, _)| *path == PathId(0)));
}

/// The robot answers, because it cannot know; but nobody has the keys, and nothing changes.
#[test]
fn an_initiation_replayed_after_a_restart_is_answered_and_leads_nowhere() {
    let initiation = open_pair().sent[0].3.clone();
    let mut net = pair(SecurityConfig::new());
    net.ways[0].cut = true;
    net.deliver(1, ELSEWHERE, &initiation);
    let answers: Vec<PathId> = net.sent.iter().map(|(_, _, path, _)| *path).collect();
    assert_eq!(answers, [ELSEWHERE]);
    net.run_until(at_ms(5_000));
    assert!(!net.ends[1].is_open());
    assert!(net.events[1].is_empty());
}

#[test]
fn the_operators_next_life_has_greater_times() {
    let initiation = open_pair().sent[0].3.clone();
    let mut net = pair(SecurityConfig::new().epoch(1_000));
    net.deliver(1, ELSEWHERE, &initiation);
    net.run_until(at_ms(100));
    assert!(net.ends.iter().all(Secured::is_open));
    assert!(
        net.sent.iter().filter(|(_, from, ..)| *from == 1).skip(1).all(|(_, _, path, _)| *path == PathId(0))
    );
}

#[test]
fn a_hundred_thousand_random_datagrams_change_nothing() {
    let mut net = open_pair();
    let mut rng = Seed::new(3).stream("noise");
    let sample = {
        say(&mut net, 0, &[1; 75]);
        last_from(&net, 0)
    };
    net.run_for(MS * 10);
    let sent = net.sent.len();
    for round in 0..100_000_u64 {
        let mut data: Vec<u8> = (0..rng.below(160)).map(|_| rng.next_u64() as u8).collect();
        // Three in four begin like one of ours.
        for (to, from) in data.iter_mut().zip(&sample).take((round % 4 * 4) as usize) {
            *to = *from;
        }
        if round % 8 == 7 {
            data.resize(if round % 16 == 7 { 148 } else { 72 }, 0);
            data[0] = if round % 16 == 7 { 1 } else { 2 };
        }
        net.ends[1].handle_input(
            net.now,
            Datagram { path: ELSEWHERE, ecn: Ecn::NotCapable, data: &data, padding: 0 },
        );
        while let Some(event) = net.ends[1].poll_event() {
            assert!(matches!(event, Event::Refused(_)), "{event:?}");
        }
    }
    let stats = net.ends[1].stats();
    assert_eq!(stats.unauthenticated + stats.malformed + stats.replayed, 100_000);
    assert_eq!(net.sent.len(), sent);
    chat(&mut net, MS * 100);
    net.run_for(MS * 10);
    assert_eq!(heard(&net, 1).len(), 101);
}

/// A stranger that knows the robot's public key makes it compute, but not often.
#[test]
fn a_flood_of_initiations_is_limited_and_a_session_does_not_notice() {
    let mut net = open_pair();
    for flood in 0..200_u64 {
        let initiation = forged(flood, net.now);
        net.deliver(1, ELSEWHERE, &initiation);
        chat(&mut net, MS);
    }
    net.run_for(MS * 10);
    // Ten at once, then three more in 0.199 s.
    assert_eq!(net.ends[1].stats().limited, 200 - 13);
    assert_eq!(heard(&net, 1).len(), 200);
}
