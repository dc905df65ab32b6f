use taut_core::{DropCause, Duration, Event, Message, PathId, Seed, Transport};
use taut_transport::entropy::Entropy;
use taut_transport::security::{Secured, SecurityConfig};
use taut_transport::udp::Udp;

use crate::net::{MS, Net};
use crate::secured::{chat, heard, identity, open_pair, operator_named, say, udp};

const ELSEWHERE: PathId = PathId(5);

/// Another operator beside the network: its datagrams reach the robot from elsewhere, without delay.
struct Other {
    end: Secured<Udp>,
    /// Answers of the robot that are lost.
    loses: usize,
}

impl Other {
    fn new(name: &str, epoch: u64) -> Self {
        // Its randomness is not that of an earlier life.
        let entropy = Entropy::seeded(Seed::new(2), name);
        let robot = identity("robot").fingerprint();
        let config = SecurityConfig::new().epoch(epoch);
        Self { end: Secured::initiator(config, &identity(name), robot, entropy, udp()), loses: 0 }
    }

    /// Exchanges datagrams until neither has one more.
    fn turn(&mut self, net: &mut Net<Secured<Udp>>) {
        self.end.handle_timeout(net.now);
        loop {
            let mut datagram = Vec::new();
            if self.end.poll_transmit(net.now, &mut datagram).is_none() {
                return;
            }
            let before = net.sent.len();
            net.deliver(1, ELSEWHERE, &datagram);
            for (_, from, path, data) in net.sent.drain(before..).collect::<Vec<_>>() {
                assert_eq!((from, path), (1, ELSEWHERE), "an answer");
                if self.loses > 0 {
                    self.loses -= 1;
                    continue;
                }
                let ecn = taut_core::Ecn::NotCapable;
                self.end.handle_input(
                    net.now,
                    taut_core::Datagram { path: PathId(0), ecn, data: &data, padding: 0 },
                );
            }
        }
    }
}

#[test]
fn a_second_operator_is_told_that_the_robot_is_busy_and_the_first_goes_on() {
    let mut net = open_pair();
    let mut other = Other::new("second", 0);
    for _ in 0..300 {
        other.turn(&mut net);
        chat(&mut net, MS * 10);
    }
    net.run_for(MS * 10);
    assert!(!other.end.is_open());
    let busy = net.ends[1].stats().busy;
    assert!((3..=4).contains(&busy), "asked once a second: {busy}");
    assert_eq!(other.end.stats().busy, busy);
    assert_eq!((heard(&net, 1).len(), net.count(1, &Event::Closed)), (3_000, 0));
}

#[test]
fn a_second_operator_gets_the_robot_when_the_first_leaves() {
    let mut net = open_pair();
    let mut other = Other::new("second", 0);
    other.turn(&mut net);
    assert!(!other.end.is_open());
    net.ends[0].close(net.now);
    net.drain(0);
    net.run_for(MS * 1_000);
    other.turn(&mut net);
    assert!(other.end.is_open());
    assert_eq!(net.ends[1].peer(), Some(identity("second").fingerprint()));
    let seen: Vec<&Event> = net.events[1].iter().map(|(_, event)| event).collect();
    let order: Vec<_> =
        seen.into_iter().filter(|event| matches!(event, Event::Connected | Event::Closed)).collect();
    assert_eq!(order, [&Event::Connected, &Event::Closed, &Event::Connected]);
}

/// It goes on asking by the same datagram: the robot answers each, for the answer to the first may be lost.
#[test]
fn an_operator_whose_answer_is_lost_hears_the_next_one_and_gets_the_robot_once_it_is_free() {
    let turns = |net: &mut Net<Secured<Udp>>, other: &mut Other, count: u32| {
        for _ in 0..count {
            other.turn(net);
            net.run_for(MS * 10);
        }
    };
    let mut net = open_pair();
    let mut other = Other { loses: 1, ..Other::new("second", 0) };
    turns(&mut net, &mut other, 50);
    assert_eq!((other.loses, other.end.stats().busy), (0, 1));

    let mut net = open_pair();
    let mut other = Other { loses: 1, ..Other::new("second", 0) };
    other.turn(&mut net);
    net.ends[0].close(net.now);
    net.drain(0);
    turns(&mut net, &mut other, 150);
    assert!(other.end.is_open());
    assert_eq!(net.ends[1].peer(), Some(identity("second").fingerprint()));
}

/// Whoever recorded one may send it from addresses that are not its own.
#[test]
fn copies_of_an_initiation_to_which_the_robot_was_busy_are_answered_no_more_often_than_others() {
    let mut net = open_pair();
    let (mut other, mut initiation) = (Other::new("second", 0), Vec::new());
    other.end.handle_timeout(net.now);
    other.end.poll_transmit(net.now, &mut initiation).expect("it begins");
    net.deliver(1, ELSEWHERE, &initiation);
    let response = net.sent.last().expect("it is busy").3.len();
    let before = net.sent.len();
    (0..200).for_each(|_| net.deliver(1, ELSEWHERE, &initiation));
    let answers = net.sent[before..].iter().filter(|(.., data)| data.len() == response).count();
    assert!((5..=10).contains(&answers), "{answers}");
    assert_eq!(net.ends[1].stats().limited, 200 - answers as u64);
}

#[test]
fn a_second_operator_gets_the_robot_when_the_first_falls_silent() {
    let mut net = open_pair();
    net.ways[0].cut = true;
    net.run_for(MS * 900);
    let mut other = Other::new("second", 0);
    other.turn(&mut net);
    assert!(!other.end.is_open());
    net.run_for(MS * 1_100);
    other.turn(&mut net);
    assert!(other.end.is_open());
    // The first comes back, is told, and closes.
    net.ways[0].cut = false;
    for _ in 0..300 {
        other.turn(&mut net);
        net.run_for(MS * 10);
    }
    assert_eq!(net.count(0, &Event::Closed), 1);
    assert_eq!(net.ends[1].peer(), Some(identity("second").fingerprint()));
}

#[test]
fn an_operator_that_restarts_gets_its_robot_once_its_earlier_life_is_silent() {
    let mut net = open_pair();
    chat(&mut net, MS * 10);
    let mut twice = Other::new("operator", 1_000_000_000_000);
    twice.turn(&mut net);
    assert!(!twice.end.is_open(), "it still speaks");
    assert_eq!((twice.end.stats().busy, net.count(1, &Event::Closed)), (1, 0));
    net.ways[0].cut = true;
    net.run_for(MS * 510);
    let mut again = Other::new("operator", 2_000_000_000_000);
    again.turn(&mut net);
    assert!(again.end.is_open());
    assert_eq!(net.count(1, &Event::Closed), 1);
    assert_eq!(net.count(1, &Event::Connected), 2);
    again.end.send(net.now, Message { data: b"again".to_vec(), ..Message::default() }).unwrap();
    again.turn(&mut net);
    assert_eq!(heard(&net, 1).last(), Some(&&b"again"[..]));
}

#[test]
fn two_that_begin_at_once_do_not_both_get_in() {
    let config = SecurityConfig::new();
    let mut net = Net::new([operator_named("operator", config), crate::secured::robot(config)], MS * 10, 1);
    let mut other = Other::new("second", 0);
    // The first has its answer on the way when the second comes, and proves itself first.
    net.run_for(MS * 15);
    other.turn(&mut net);
    assert!(other.end.is_open());
    net.run_for(MS * 200);
    say(&mut net, 0, b"first?");
    net.run_for(MS * 10);
    assert_eq!(net.ends[1].peer(), Some(identity("second").fingerprint()));
    assert!(heard(&net, 1).is_empty());
    assert!(net.ends[1].stats().busy >= 1);
}

/// It would have the robot by what an operator of long ago said.
#[test]
fn an_answered_operator_that_says_nothing_for_long_does_not_get_the_robot() {
    let config = SecurityConfig::new();
    let mut net = Net::new([operator_named("operator", config), crate::secured::robot(config)], MS * 10, 1);
    net.run_for(MS * 15);
    net.ways[0].cut = true;
    net.run_for(MS * 10);
    assert!(net.ends[0].is_open());
    say(&mut net, 0, b"held back");
    let held = net.sent.last().expect("it was sent").3.clone();
    net.run_for(Duration::from_secs(7_200));
    net.deliver(1, PathId(0), &held);
    assert_eq!(net.count(1, &Event::Connected), 0);
    assert!(net.count(1, &Event::Refused(DropCause::Unauthenticated)) >= 1);
}
