//! Floods of initiations by strangers that know the robot's public key: operators get in all the same.

use taut_core::{Datagram, Ecn, Event, Origin, PathId, Seed, Time, Transport};
use taut_transport::entropy::Entropy;
use taut_transport::security::{COOKIE_REPLY_BYTES, INITIATION_BYTES, Secured, SecurityConfig};
use taut_transport::udp::Udp;

use crate::net::{MS, Net, at_ms};
use crate::secured::{heard, identity, last_from, operator_named, pair, robot, say, udp};

/// Where an operator is, as the robot's driver tells.
const OPERATOR: PathId = PathId(250);

fn stranger(number: u64) -> Secured<Udp> {
    let entropy = Entropy::seeded(Seed::new(number), "flood");
    let (me, robot) = (identity("stranger"), identity("robot").fingerprint());
    Secured::initiator(SecurityConfig::new(), &me, robot, entropy, udp())
}

/// An initiation that the robot has to look into to know that it is nobody's.
pub(crate) fn forged(number: u64, now: Time) -> Vec<u8> {
    let (mut stranger, mut initiation) = (stranger(number), Vec::new());
    stranger.handle_timeout(now);
    stranger.poll_transmit(now, &mut initiation).expect("it begins");
    initiation
}

fn origin(host: u8, port: u16) -> Origin {
    Origin::new(([192, 0, 2, host], port).into(), None, 0)
}

/// Four hundred a second.
struct Flood {
    number: u64,
    next: Time,
}

impl Flood {
    /// `one` sends the next of the flood; between them the network runs, until then.
    fn run_until(
        &mut self,
        net: &mut Net<Secured<Udp>>,
        end: Time,
        mut one: impl FnMut(&mut Net<Secured<Udp>>, u64),
    ) {
        while self.next < end {
            net.run_until(self.next);
            one(net, self.number);
            self.number += 1;
            self.next += MS * 5 / 2;
        }
        net.run_until(end);
    }
}

/// From an address of its own, which nobody has to have: what is sent there is lost.
fn from_nowhere(net: &mut Net<Secured<Udp>>, number: u64) {
    let path = PathId((number % 60) as u8 + 1);
    net.ends[1].remove_path(net.now, path);
    net.ends[1].set_origin(path, origin((number % 250) as u8, number as u16));
    let (initiation, before) = (forged(number, net.now), net.sent.len());
    net.ways[1].dead = vec![path];
    net.deliver(1, path, &initiation);
    net.ways[1].dead.clear();
    let answers = &net.sent[before..];
    assert!(answers.iter().all(|(.., data)| data.len() < initiation.len()), "nothing is amplified");
}

#[test]
fn five_of_five_operators_get_in_at_400_forged_initiations_a_second() {
    let config = SecurityConfig::new();
    let mut robots = Some(robot(config));
    let mut flood = Flood { number: 0, next: at_ms(0) };
    for life in 0..5_u64 {
        let (entropy, peer) = (Entropy::seeded(Seed::new(life), "operator"), identity("robot").fingerprint());
        let operator = Secured::initiator(config, &identity("operator"), peer, entropy, udp());
        let mut net = Net::new([operator, robots.take().expect("the one before gave it back")], MS * 10, 1);
        (net.now, net.ways[0].path) = (flood.next, OPERATOR);
        net.ends[1].set_origin(OPERATOR, origin(251, 1 + life as u16));
        net.ways[0].cut = true;
        let begin = net.now;
        flood.run_until(&mut net, begin + MS * 900, from_nowhere);
        net.ways[0].cut = false;
        // Its second attempt or so: the first ones were not heard.
        flood.run_until(&mut net, begin + MS * 2_000, from_nowhere);
        assert!(net.ends[0].is_open() && net.ends[1].is_open(), "{life}: {:?}", net.ends[1].stats());
        assert_eq!(net.ends[0].stats().challenged, 1, "it is asked once");
        say(&mut net, 0, b"here");
        flood.run_until(&mut net, begin + MS * 2_100, from_nowhere);
        assert_eq!(heard(&net, 1), [b"here"]);
        net.ends[0].close(net.now);
        net.drain(0);
        flood.run_until(&mut net, begin + MS * 2_200, from_nowhere);
        let [_, robot] = net.ends;
        robots = Some(robot);
    }
    let stats = robots.expect("the last one gave it back").stats();
    assert_eq!(stats.handshakes, 5);
    // Twenty a second are looked into all the same.
    assert!(stats.challenged > 3_500 && stats.limited == stats.challenged, "{stats:?}");
}

#[test]
fn a_host_that_shows_where_it_is_makes_the_robot_compute_for_its_share_and_no_more() {
    let mut net = Net::new(
        [operator_named("operator", SecurityConfig::new()), robot(SecurityConfig::new())],
        MS * 10,
        1,
    );
    (net.ways[0].path, net.ways[0].cut) = (OPERATOR, true);
    net.ends[1].set_origin(OPERATOR, origin(2, 1));
    let path = PathId(1);
    net.ends[1].set_origin(path, origin(1, 1));
    let mut flood = Flood { number: 0, next: at_ms(0) };
    let answers = |net: &mut Net<Secured<Udp>>, number: u64| {
        let (mut stranger, mut buffer) = (stranger(number), Vec::new());
        stranger.handle_timeout(net.now);
        stranger.poll_transmit(net.now, &mut buffer).expect("it begins");
        for _ in 0..2 {
            let before = net.sent.len();
            net.deliver(1, path, &buffer);
            let Some((.., question)) = net.sent.get(before).cloned() else { return };
            assert_eq!(question.len(), COOKIE_REPLY_BYTES);
            let input = Datagram { path: PathId(0), ecn: Ecn::NotCapable, data: &question, padding: 0 };
            stranger.handle_input(net.now, input);
            buffer.clear();
            stranger.poll_transmit(net.now, &mut buffer).expect("it shows that it is there, at once");
            assert_eq!(buffer.len(), INITIATION_BYTES);
        }
    };
    flood.run_until(&mut net, at_ms(2_000), answers);
    net.ways[0].cut = false;
    flood.run_until(&mut net, at_ms(4_000), answers);
    assert!(net.ends[0].is_open() && net.ends[1].is_open(), "{:?}", net.ends[1].stats());
    let stats = net.ends[1].stats();
    let looked = stats.unauthenticated - stats.limited;
    assert!((150..=200).contains(&looked), "forty a second, of which half has shown nothing: {stats:?}");
}

#[test]
fn a_cookie_counts_though_the_number_of_the_path_is_anothers_by_then() {
    let mut net = pair(SecurityConfig::new());
    (0..40).for_each(|number| net.deliver(1, PathId(9), &forged(number, at_ms(0))));
    net.ways[0].path = OPERATOR;
    net.ends[1].set_origin(OPERATOR, origin(7, 7));
    net.run_until(at_ms(15));
    assert_eq!(last_from(&net, 1).len(), COOKIE_REPLY_BYTES);
    // While the question is on its way, others come from many addresses.
    net.ends[1].remove_path(net.now, OPERATOR);
    net.ends[1].set_origin(OPERATOR, origin(8, 8));
    net.ways[0].path = PathId(3);
    net.ends[1].set_origin(PathId(3), origin(7, 7));
    net.run_until(at_ms(60));
    assert!(net.ends.iter().all(Secured::is_open));
    assert_eq!(net.ends[1].stats().challenged, 1 + 30, "all but ten, and the operator once");
}

#[test]
fn a_cookie_of_another_address_is_worth_nothing() {
    let mut net = pair(SecurityConfig::new());
    (0..40).for_each(|number| net.deliver(1, PathId(9), &forged(number, at_ms(0))));
    net.ways[0].path = OPERATOR;
    net.run_until(at_ms(21));
    let proven = last_from(&net, 0);
    assert!(proven[INITIATION_BYTES - 16..] != [0; 16]);
    net.ends[1].set_origin(PathId(9), origin(9, 9));
    let (before, limited) = (net.sent.len(), net.ends[1].stats().limited);
    net.deliver(1, PathId(9), &proven);
    assert_eq!(
        net.sent[before..].iter().map(|(.., data)| data.len()).collect::<Vec<_>>(),
        [COOKIE_REPLY_BYTES]
    );
    assert_eq!(net.ends[1].stats().limited, limited + 1);
}

#[test]
fn an_operator_repeats_at_once_for_one_question_and_not_for_every_copy_of_it() {
    let mut net = pair(SecurityConfig::new());
    (0..40).for_each(|number| net.deliver(1, PathId(9), &forged(number, at_ms(0))));
    net.run_until(at_ms(11));
    let question = last_from(&net, 1);
    net.ways.iter_mut().for_each(|way| way.cut = true);
    let before = net.sent.len();
    for bit in 0..question.len() * 8 {
        let mut flipped = question.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        net.deliver(0, PathId(0), &flipped);
    }
    assert_eq!(net.sent.len(), before, "a question that is not the robot's is none");
    (0..20).for_each(|_| net.deliver(0, PathId(0), &question));
    assert_eq!(net.sent.len(), before + 1);
    net.run_until(at_ms(150));
    assert_eq!(net.sent.len(), before + 2, "and by its time");
    assert_eq!(net.sent[before].3, net.sent[before + 1].3, "with what shows that it is there");
}

/// The driver needed the number of the operator's path for others, after the robot had answered there.
#[test]
fn who_was_answered_where_others_are_now_is_let_in_from_where_it_is() {
    for same in [true, false] {
        let mut net = pair(SecurityConfig::new());
        (net.ways[0].path, net.ways[1].as_sent) = (PathId(5), true);
        net.ends[1].set_origin(PathId(5), origin(7, 7));
        net.run_until(at_ms(15));
        net.ends[1].remove_path(net.now, PathId(5));
        net.ends[1].set_origin(PathId(5), origin(8, 8));
        net.ways[0].path = PathId(6);
        net.ends[1].set_origin(PathId(6), if same { origin(7, 7) } else { origin(7, 8) });
        net.run_until(at_ms(45));
        assert!(net.ends.iter().all(Secured::is_open));
        say(&mut net, 1, b"there");
        assert_eq!(net.sent.last().map(|(_, from, path, _)| (*from, *path)), Some((1, PathId(6))));
        assert_eq!(net.count(1, &Event::Connected), 1);
    }
}
