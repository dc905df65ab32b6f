use taut_core::{Deadline, Duration, Event, PathId, Probability, Time, Transport};
use taut_transport::security::{INITIATION_BYTES, RESPONSE_BYTES, SecurityConfig};

use crate::net::{MS, at_ms};
use crate::secured::{chat, heard, last_from, open_pair, operator_named, pair, say};

#[test]
fn it_takes_one_round_trip_and_what_was_said_before_follows() {
    let mut net = pair(SecurityConfig::new());
    say(&mut net, 0, b"early");
    net.run_until(at_ms(29));
    assert_eq!(net.connected_at(0), Some(at_ms(20)));
    assert!(heard(&net, 1).is_empty());
    net.run_until(at_ms(30));
    assert_eq!(net.connected_at(1), Some(at_ms(30)));
    assert_eq!(heard(&net, 1), [b"early"]);
    let sizes: Vec<usize> = net.sent.iter().map(|(.., data)| data.len()).collect();
    assert_eq!(sizes[..4], [INITIATION_BYTES, RESPONSE_BYTES, 29, 28 + 5]);
}

#[test]
fn before_it_nothing_of_the_transport_inside_is_sent() {
    let mut net = pair(SecurityConfig::new());
    net.ways[0].cut = true;
    say(&mut net, 0, b"secret");
    say(&mut net, 1, b"secret");
    net.run_until(at_ms(5_000));
    assert!(net.sent.iter().all(|(_, from, _, data)| *from == 0 && data.len() == INITIATION_BYTES));
    // 0, 100, 300, 700, 1500, 3100 ms.
    assert_eq!(net.sent.len(), 6);
    assert!(net.sent.iter().all(|(.., data)| *data == net.sent[0].3), "copies, not new handshakes");
    assert!(!net.events.iter().flatten().any(|(_, event)| *event == Event::Connected));
}

#[test]
fn a_lost_initiation_response_or_proof_is_made_good() {
    for lost in 0..4 {
        let mut net = pair(SecurityConfig::new());
        // One by one: initiation, response, proof, pong.
        let from = lost % 2;
        net.run_until(at_ms(10 * lost as u64) - MS);
        net.ways[from].cut = true;
        net.run_until(at_ms(10 * lost as u64));
        net.ways[from].cut = false;
        net.run_until(at_ms(250));
        chat(&mut net, MS * 50);
        net.run_for(MS * 10);
        assert_eq!((heard(&net, 0).len(), heard(&net, 1).len()), (50, 50), "{lost}");
        assert_eq!(net.ends[0].stats().handshakes, 1);
        assert!(!net.events.iter().flatten().any(|(_, event)| matches!(event, Event::Refused(_))));
    }
}

#[test]
fn it_comes_about_at_half_of_all_datagrams_lost_and_over_a_second_of_round_trip() {
    for (loss, delay) in [(0.5, 20), (0.0, 500), (0.3, 300)] {
        let mut net = pair(SecurityConfig::new());
        net.ways.iter_mut().for_each(|way| {
            way.loss = Probability::from_fraction(loss).unwrap();
            way.delay = MS * delay;
        });
        net.run_until(at_ms(20_000));
        assert!(net.ends.iter().all(|end| end.is_open()), "{loss} {delay}");
    }
}

#[test]
fn an_operator_without_an_answer_gives_up() {
    let mut net = pair(SecurityConfig::new().give_up(Duration::from_secs(3)));
    net.ways[1].cut = true;
    net.run_until(at_ms(2_999));
    assert_eq!(net.count(0, &Event::Closed), 0);
    net.run_until(at_ms(3_000));
    assert_eq!(net.count(0, &Event::Closed), 1);
    assert_eq!(net.ends[0].poll_timeout(), None);
}

#[test]
fn keys_are_replaced_by_age_and_by_count_and_nobody_inside_notices() {
    let configs = [
        SecurityConfig::new().rekey_after(Duration::from_millis(500)),
        SecurityConfig::new().rekey_messages(500),
    ];
    for config in configs {
        let mut net = pair(config);
        net.ways.iter_mut().for_each(|way| way.jitter = MS * 5);
        net.run_until(at_ms(100));
        chat(&mut net, Duration::from_secs(5));
        net.run_for(MS * 100);
        let stats = net.ends.each_ref().map(|end| end.stats());
        assert!((8..=10).contains(&stats[0].rekeys), "{stats:?}");
        assert_eq!(stats[0].rekeys, stats[1].rekeys);
        assert_eq!((heard(&net, 0).len(), heard(&net, 1).len()), (5_000, 5_000));
        assert!(
            !net.events.iter().flatten().any(|(_, event)| matches!(event, Event::Refused(_) | Event::Closed))
        );
        assert_eq!(net.count(1, &Event::Connected), 1);
    }
}

#[test]
fn a_cut_of_any_length_is_survived_by_both() {
    let mut net = open_pair();
    for cut in [500, 3_000, 20_000] {
        net.ways.iter_mut().for_each(|way| way.cut = true);
        chat(&mut net, MS * cut);
        net.ways.iter_mut().for_each(|way| way.cut = false);
        let before = heard(&net, 1).len();
        chat(&mut net, MS * 100);
        assert!(heard(&net, 1).len() - before >= 89, "it flows at once");
    }
    net.run_for(MS * 3_000);
    assert_eq!(net.count(1, &Event::Connected), 1);
    assert!(!net.events.iter().flatten().any(|(_, event)| *event == Event::Closed));
}

#[test]
fn who_says_nothing_is_heard_all_the_same() {
    let mut net = open_pair();
    let before = net.sent.len();
    net.run_until(at_ms(10_100));
    // A ping and a pong every quarter of a second.
    assert!((78..=82).contains(&(net.sent.len() - before)), "{}", net.sent.len() - before);
    assert_eq!(net.ends[0].stats().handshakes, 1, "pongs are signs of life");
}

#[test]
fn goodbye_ends_it_at_both_ends() {
    let mut net = open_pair();
    net.ends[0].close(net.now);
    net.drain(0);
    assert_eq!(net.count(0, &Event::Closed), 1);
    net.run_for(MS * 10);
    assert_eq!(net.count(1, &Event::Closed), 1);
    assert!(!net.ends[1].is_open());
    let message = taut_core::Message::default();
    assert_eq!(net.ends[0].send(net.now, message), Err(taut_core::SendError::Closed));
}

#[test]
fn a_robot_that_forgot_everything_is_noticed() {
    let mut net = open_pair();
    chat(&mut net, MS * 50);
    net.ends[1] = crate::secured::robot(SecurityConfig::new());
    net.run_for(MS * 1_200);
    assert_eq!(net.count(0, &Event::Closed), 1, "the operator must begin anew");
}

#[test]
fn the_peer_is_followed_to_where_it_is_after_a_round_trip() {
    let mut net = open_pair();
    net.ways[0].path = PathId(3);
    say(&mut net, 0, b"from elsewhere");
    net.run_for(MS * 10);
    assert_eq!(heard(&net, 1), [b"from elsewhere"], "it is taken at once");
    say(&mut net, 1, b"are you still there?");
    assert_eq!(net.sent.last().unwrap().2, PathId(0));
    net.run_for(MS * 20);
    say(&mut net, 1, b"there you are");
    assert_eq!(net.sent.last().unwrap().2, PathId(3));
    let moves = [Event::PathUp(PathId(3)), Event::PathDown(PathId(0))];
    assert!(moves.iter().all(|event| net.count(1, event) == 1));
    assert_eq!(net.ends[1].stats().moved, 1);
    let questions = net.sent.iter().filter(|(.., data)| data.len() == 37).count();
    assert_eq!(questions, 2, "one, and its answer");
}

#[test]
fn a_peer_that_moves_is_followed_though_questions_and_answers_are_lost() {
    let mut net = open_pair().lossy(40.0);
    for path in 1..6 {
        net.ways[0].path = PathId(path);
        chat(&mut net, MS * 2_000);
        assert_eq!(net.sent.iter().rev().find(|(_, from, ..)| *from == 1).unwrap().2, PathId(path));
    }
    assert_eq!(net.ends[1].stats().moved, 5);
}

#[test]
fn an_older_datagram_is_taken_but_does_not_say_where_the_peer_is() {
    let mut net = open_pair();
    net.ways[0].cut = true;
    say(&mut net, 0, b"old");
    let old = last_from(&net, 0);
    net.ways[0].cut = false;
    say(&mut net, 0, b"new");
    net.run_for(MS * 10);
    net.deliver(1, PathId(9), &old);
    assert_eq!(heard(&net, 1), [&b"new"[..], b"old"]);
    assert_eq!(net.ends[1].stats().moved, 0);
}

#[test]
fn the_operator_says_when_it_wants_to_begin() {
    let operator = operator_named("operator", SecurityConfig::new());
    assert_eq!(operator.poll_timeout(), Some(Deadline::new(Time::ZERO, "handshake")));
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let run = || {
        let mut net = pair(SecurityConfig::new().rekey_after(MS * 300)).lossy(5.0);
        chat(&mut net, Duration::from_secs(1));
        (net.sent, net.events)
    };
    assert_eq!(run(), run());
}
