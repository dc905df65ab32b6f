//! Several paths under one set of keys.

use taut_core::{DropCause, Duration, Event, Message, PathId, Seed, Time, Transport};
use taut_transport::entropy::Entropy;
use taut_transport::identity::Trust;
use taut_transport::mtip::{Mtip, MtipConfig, PathState, Policy};
use taut_transport::security::{Secured, SecurityConfig};

use crate::net::{MS, Net, at_ms};
use crate::secured::identity;

const SPOOFED: PathId = PathId(200);

fn mtip() -> MtipConfig {
    MtipConfig::new().policy(Policy::All).deadline(MS * 50)
}

fn security() -> SecurityConfig {
    SecurityConfig::new().multipath(true)
}

/// An operator with so many paths, and a robot, 5 ms apart.
fn pair(config: SecurityConfig, paths: u8) -> Net<Secured<Mtip>> {
    let entropy = |name| Entropy::seeded(Seed::new(1), name);
    let (me, robot) = (identity("operator"), identity("robot"));
    let client = Mtip::client(mtip(), 7);
    let mut operator = Secured::initiator(config, &me, robot.fingerprint(), entropy("o"), client);
    (0..paths).for_each(|path| assert!(operator.add_path(Time::ZERO, PathId(path))));
    let trust = Trust::only(me.fingerprint());
    let robot = Secured::responder(config, &robot, trust, entropy("r"), || Mtip::server(mtip()));
    let mut net = Net::new([operator, robot], MS * 5, 1);
    net.ways.iter_mut().for_each(|way| way.as_sent = true);
    net
}

/// The same, all paths linked, at 400 ms.
fn linked(paths: u8) -> Net<Secured<Mtip>> {
    let mut net = pair(security(), paths);
    net.run_until(at_ms(400));
    for end in 0..2 {
        assert_eq!(up(&net, end), (0..paths).map(PathId).collect::<Vec<_>>(), "{end}");
    }
    net
}

fn up(net: &Net<Secured<Mtip>>, end: usize) -> Vec<PathId> {
    let up = net.ends[end].inner().paths().filter(|(_, state, _)| *state == PathState::Up);
    let mut up: Vec<PathId> = up.map(|(path, ..)| path).collect();
    up.sort();
    up
}

/// `count` messages of each end, one a millisecond.
fn chat(net: &mut Net<Secured<Mtip>>, count: u32) {
    for number in 0..count {
        for end in 0..2 {
            let message =
                Message { data: number.to_be_bytes().to_vec(), created: net.now, ..Message::default() };
            net.ends[end].send(net.now, message).expect("room");
            net.drain(end);
        }
        net.run_for(MS);
    }
    net.run_for(MS * 60);
}

#[test]
fn every_path_is_used_after_one_handshake_and_each_message_arrives_once() {
    let mut net = linked(3);
    assert_eq!(net.ends[0].stats().handshakes, 1);
    let before = net.sent.len();
    chat(&mut net, 200);
    for end in 0..2 {
        assert_eq!(net.received(end).count(), 200, "{end}");
        for path in 0..3 {
            let carried =
                net.sent[before..].iter().filter(|(_, from, on, _)| (*from, *on) == (end, PathId(path)));
            assert!(carried.count() >= 200, "end {end}, path {path}");
        }
        // What the seal takes for new and MTIP for a copy is refused as that, and nothing else is.
        let other = net.events[end]
            .iter()
            .filter(|(_, event)| matches!(event, Event::Refused(cause) if *cause != DropCause::Duplicate));
        assert!(other.count() <= 4, "only LINKs that came before their path was known to be the operator's");
    }
}

#[test]
fn when_the_first_path_is_dead_the_handshake_takes_the_second() {
    let mut net = pair(security(), 2);
    net.ways[0].dead = vec![PathId(0)];
    net.run_until(at_ms(1_000));
    assert!(net.ends.iter().all(Secured::is_open));
    assert_eq!((up(&net, 0), up(&net, 1)), (vec![PathId(1)], vec![PathId(1)]));
    net.ways[0].dead.clear();
    net.run_until(at_ms(2_000));
    assert_eq!(up(&net, 1), [PathId(0), PathId(1)], "the first one is found when it comes to life");
}

#[test]
fn a_path_that_dies_and_new_keys_meanwhile_lose_nothing_on_the_other() {
    let mut net = pair(security().rekey_after(MS * 500), 2);
    net.run_until(at_ms(400));
    net.ways.iter_mut().for_each(|way| way.dead = vec![PathId(0)]);
    chat(&mut net, 3_000);
    assert!(net.ends[1].stats().rekeys >= 4);
    assert_eq!((net.received(0).count(), net.received(1).count()), (3_000, 3_000));
    net.ways.iter_mut().for_each(|way| way.dead.clear());
    net.run_for(MS * 300);
    assert_eq!((up(&net, 0).len(), up(&net, 1).len()), (2, 2));
}

#[test]
fn paths_come_and_go() {
    let mut net = linked(2);
    let now = net.now;
    assert!(net.ends[0].add_path(now, PathId(5)));
    assert!(!net.ends[0].add_path(now, PathId(5)), "it is there");
    net.ends[0].remove_path(now, PathId(0));
    net.run_for(MS * 300);
    assert_eq!(up(&net, 0), [PathId(1), PathId(5)]);
    let before = net.sent.len();
    chat(&mut net, 100);
    assert_eq!((net.received(0).count(), net.received(1).count()), (100, 100));
    let away =
        |path| net.sent[before..].iter().filter(|(_, from, on, _)| (*from, *on) == (0, PathId(path))).count();
    assert!(away(0) == 0 && away(5) >= 100);
    assert!(!net.ends[1].add_path(now, PathId(8)), "a robot takes paths, and does not open them");
}

#[test]
fn a_datagram_that_is_forwarded_from_another_address_steals_nothing() {
    let mut net = linked(2);
    // Someone on the way holds the operator's datagrams back, and sends them from elsewhere, first.
    let (before, unvalidated) = (net.sent.len(), net.ends[1].stats().unvalidated);
    net.ways[0].cut = true;
    let message = Message { data: b"move".to_vec(), created: net.now, ..Message::default() };
    net.ends[0].send(net.now, message).unwrap();
    net.drain(0);
    let stolen: Vec<_> = net.sent[before..].iter().map(|(.., path, data)| (*path, data.clone())).collect();
    assert_eq!(stolen.len(), 2);
    for (_, datagram) in &stolen {
        net.deliver(1, SPOOFED, datagram);
    }
    assert_eq!(net.received(1).count(), 0);
    assert_eq!(net.ends[1].stats().unvalidated - unvalidated, 2);
    let to_thief: Vec<_> =
        net.sent[before..].iter().filter(|(.., path, _)| *path == SPOOFED).cloned().collect();
    assert_eq!(to_thief.len(), 1, "one question, however much comes");
    assert!(to_thief[0].3.len() == 28 + 9 && to_thief[0].3.len() <= stolen[0].1.len(), "no amplification");
    // The question forwarded to the operator, who knows no such path: no answer.
    net.deliver(0, SPOOFED, &to_thief[0].3);
    net.run_for(MS * 5);
    assert_eq!(net.received(1).count(), 0);
    // The operator's own copies still count.
    for (path, datagram) in &stolen {
        net.deliver(1, *path, datagram);
    }
    assert_eq!(net.received(1).count(), 1);
    net.ways[0].cut = false;
    net.run_for(MS * 300);
    assert_eq!(up(&net, 1), [PathId(0), PathId(1)]);
    let known: Vec<PathId> = net.ends[1].inner().paths().map(|(path, ..)| path).collect();
    assert_eq!(known.len(), 2);
}

/// The operator's first datagram on path 2, which the robot has received, and its answer to what it was asked there.
fn asked(net: &mut Net<Secured<Mtip>>) -> [Vec<u8>; 2] {
    let now = net.now;
    net.ways[0].dead = vec![PathId(2)];
    net.ends[0].add_path(now, PathId(2));
    net.drain(0);
    net.ends[0].handle_timeout(now);
    net.drain(0);
    let last = |net: &Net<Secured<Mtip>>, end| {
        let (.., path, data) = net.sent.iter().rev().find(|(_, from, ..)| *from == end).expect("it spoke");
        (*path, data.clone())
    };
    let link = last(net, 0);
    net.deliver(1, PathId(2), &link.1);
    let question = last(net, 1);
    net.deliver(0, PathId(2), &question.1);
    let answer = last(net, 0);
    assert_eq!([link.0, question.0, answer.0], [PathId(2); 3]);
    assert_eq!(answer.1.len(), 28 + 9);
    [link.1, answer.1]
}

/// How much but questions the robot sent on a path.
fn carried(net: &Net<Secured<Mtip>>, path: PathId) -> usize {
    net.sent.iter().filter(|(_, from, on, data)| (*from, *on) == (1, path) && data.len() > 28 + 9).count()
}

#[test]
fn an_answer_counts_only_on_the_path_that_was_asked_and_once() {
    let mut net = linked(2);
    let now = net.now;
    let [link, answer] = asked(&mut net);
    net.deliver(1, SPOOFED, &answer);
    let data = Message { data: vec![1], created: now, ..Message::default() };
    net.ends[1].send(now, data).unwrap();
    net.drain(1);
    assert_eq!(carried(&net, SPOOFED), 0, "nothing but questions goes there");
    net.deliver(1, PathId(2), &answer);
    net.deliver(1, PathId(2), &answer);
    assert_eq!(net.count(1, &Event::Refused(DropCause::Replayed)), 1);
    net.deliver(1, PathId(2), &link);
    assert!(net.ends[1].inner().paths().any(|(path, ..)| path == PathId(2)));
}

#[test]
fn what_was_asked_is_not_answered_from_another_address_under_the_same_number() {
    let mut net = linked(2);
    assert!(net.ends[1].uses_path(PathId(1)) && !net.ends[1].uses_path(PathId(2)));
    let [link, answer] = asked(&mut net);
    let now = net.now;
    assert!(!net.ends[1].uses_path(PathId(2)), "to be asked there is not to be there");
    // The driver gives the number to somebody else, who has the operator's answer.
    net.ends[1].remove_path(now, PathId(2));
    net.deliver(1, PathId(2), &answer);
    net.deliver(1, PathId(2), &link);
    assert!(!net.ends[1].uses_path(PathId(2)));
    assert_eq!(carried(&net, PathId(2)), 0);
    net.ends[1].remove_path(now, PathId(1));
    assert!(!net.ends[1].uses_path(PathId(1)));
}

#[test]
fn a_thousand_addresses_cost_little_and_displace_nobody() {
    let mut net = linked(2);
    let before = net.sent.len();
    net.ways[0].cut = true;
    chat(&mut net, 20);
    let held: Vec<Vec<u8>> =
        net.sent[before..].iter().filter(|(_, from, ..)| *from == 0).map(|(.., data)| data.clone()).collect();
    net.ways[0].cut = false;
    let before = net.sent.len();
    let now = net.now;
    for round in 0..1_000_usize {
        net.deliver(1, PathId(20 + (round % 200) as u8), &held[round % held.len()]);
    }
    assert_eq!(net.now, now);
    assert!(net.sent.len() - before <= 8, "{} questions", net.sent.len() - before);
    chat(&mut net, 100);
    assert!(net.received(1).count() >= 100);
    assert_eq!(up(&net, 1), [PathId(0), PathId(1)]);
}

#[test]
fn a_path_whose_address_changed_is_linked_again() {
    // As when a NAT forgets: the robot sees the operator's path 1 as another one from now on.
    let mut net = linked(1);
    net.ways[0].as_sent = false;
    net.ways[0].path = PathId(9);
    net.ways[1].as_sent = false;
    net.run_for(Duration::from_secs(3));
    assert!(up(&net, 1).contains(&PathId(9)), "{:?}", net.ends[1].inner().paths().collect::<Vec<_>>());
    let before = net.received(1).count();
    chat(&mut net, 100);
    assert_eq!(net.received(1).count() - before, 100);
}
