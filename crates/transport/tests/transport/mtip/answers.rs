//! When what arrives is answered: at once, or with others.

use taut_core::{Datagram, Duration, Ecn, Message, PathId, Reliability, Transport};
use taut_transport::mtip::{MtipConfig, Policy};
use taut_wire::mtip::{Ack, Body, Hold, Repr};

use crate::mtip::harness::{CLIENT, Net, SERVER, Way, at_ms, ms};

/// One that the wire has as it is.
const HOLD: Duration = Duration::from_micros(4_096);

/// What the server answers now.
fn acks(net: &mut Net) -> Vec<Ack> {
    let (mut said, mut bytes) = (Vec::new(), Vec::new());
    while net.ends[SERVER].poll_transmit(net.now, &mut bytes).is_some() {
        if let Ok(Repr { body: Body::Ack(ack), .. }) = Repr::parse(&bytes) {
            said.push(ack);
        }
        bytes.clear();
    }
    said
}

/// The numbers that the server answers now, and the bits of those before.
fn answers(net: &mut Net) -> Vec<(u32, u64)> {
    acks(net).into_iter().map(|ack| (ack.number, ack.before)).collect()
}

/// The server gets these messages now, by path and number; the answer to each may wait for so long.
fn arrive(net: &mut Net, hold: Duration, messages: &[(u8, u32)]) {
    for (path, number) in messages.iter().copied() {
        let (everywhere, hold, payload) = (false, Hold::at_least(hold), b"go");
        let body = Body::Data { stream: 0, number, age_us: 0, deadline_us: None, everywhere, hold, payload };
        let mut bytes = Vec::new();
        Repr { clock_ns: net.now.as_nanos(), body }.emit(&mut bytes);
        let input = Datagram { path: PathId(path), ecn: Ecn::NotCapable, data: &bytes, padding: 0 };
        net.ends[SERVER].handle_input(net.now, input);
    }
}

/// Two paths, and a server that has answered 0 on the first of them and holds its answer to 1.
fn holding() -> Net {
    let mut net = Net::new(MtipConfig::new(), vec![Way::new(1_000), Way::new(1_000)]);
    net.run_until(at_ms(100));
    arrive(&mut net, HOLD, &[(0, 0), (0, 1)]);
    assert_eq!(answers(&mut net), [(0, 0)]);
    net
}

fn numbers(said: &[(u32, u64)]) -> Vec<u32> {
    said.iter().map(|(number, _)| *number).collect()
}

#[test]
fn what_follows_the_newest_waits_for_others_as_long_as_its_sender_lets_it() {
    let mut net = holding();
    arrive(&mut net, HOLD, &[(0, 2), (0, 3)]);
    assert_eq!(answers(&mut net), []);
    net.ends[SERVER].handle_timeout(net.now + HOLD - Duration::from_nanos(1));
    assert_eq!(answers(&mut net), []);
    net.ends[SERVER].handle_timeout(net.now + HOLD);
    assert_eq!(answers(&mut net), [(3, 0b111)]);
}

#[test]
fn a_gap_is_answered_at_once_and_so_is_what_fills_it() {
    let mut net = holding();
    arrive(&mut net, HOLD, &[(0, 3)]);
    assert_eq!(answers(&mut net), [(3, 0b110)], "2 is missing, and 1 waits no longer");
    arrive(&mut net, HOLD, &[(0, 4), (0, 2)]);
    assert_eq!(numbers(&answers(&mut net)), [2], "4 follows 3 and waits");
    net.ends[SERVER].handle_timeout(net.now + HOLD);
    assert_eq!(answers(&mut net), [(4, 0b1111)]);
}

#[test]
fn each_copy_of_a_message_on_one_path_is_answered() {
    let mut net = holding();
    arrive(&mut net, HOLD, &[(0, 2), (0, 2)]);
    assert_eq!(answers(&mut net), [(2, 0b11), (2, 0b11)], "the first copy's waited, and speaks for 1, too");
    // At the end that sends them neither copy is lost.
    let config = MtipConfig::new().policy(Policy::Fixed(PathId(0))).deadline(ms(200));
    let mut net = Net::new(config, vec![Way::new(24_000)]);
    net.run_until(at_ms(500));
    net.ways[0].slow = Some((at_ms(1_000), at_ms(1_040), ms(60)));
    net.commands(at_ms(500), ms(1), 2_000, ms(200));
    net.run_until(at_ms(4_000));
    let (_, _, stats) = net.ends[CLIENT].paths().next().expect("one path");
    assert_eq!((net.received().len(), stats.lost), (2_000, 0), "{:?} {stats:?}", net.ends[CLIENT].stats());
}

#[test]
fn a_number_that_another_path_took_is_a_gap_on_this_one() {
    let mut net = holding();
    arrive(&mut net, HOLD, &[(1, 2), (0, 3)]);
    assert_eq!(numbers(&answers(&mut net)), [2, 3]);
}

#[test]
fn numbers_that_alternate_between_two_paths_are_no_gaps_and_a_loss_among_them_is_one() {
    let mut net = holding();
    // The first two numbers that are left out may be lost.
    arrive(&mut net, HOLD, &[(1, 2), (0, 3), (1, 4), (0, 5), (1, 6)]);
    assert_eq!(numbers(&answers(&mut net)), [2, 3, 4, 5]);
    arrive(&mut net, HOLD, &[(0, 7), (1, 8), (0, 9), (1, 10), (0, 11)]);
    assert_eq!(answers(&mut net), [], "each path has every second one");
    arrive(&mut net, HOLD, &[(1, 14)]);
    assert_eq!(numbers(&answers(&mut net)), [14], "12 may be missing there");
    net.ends[SERVER].handle_timeout(net.now + HOLD);
    assert_eq!(numbers(&answers(&mut net)), [11]);
}

/// The sender tells two copies on one path apart by when they left.
#[test]
fn each_of_two_copies_on_one_path_is_answered_though_the_first_may_wait() {
    // The second comes right after the first, after others that wait, or before others that do.
    for (first, others) in [(&[2][..], &[][..]), (&[3, 2], &[]), (&[2, 3], &[]), (&[2], &[3])] {
        let mut net = holding();
        let copies = |net: &mut Net, numbers: &[u32]| {
            numbers.iter().for_each(|number| arrive(net, HOLD, &[(0, *number)]));
        };
        copies(&mut net, first);
        let left_first = net.now.as_nanos();
        let mut said = acks(&mut net);
        net.run_until(net.now + Duration::from_micros(200));
        let left_second = net.now.as_nanos();
        copies(&mut net, &[2]);
        copies(&mut net, others);
        said.extend(acks(&mut net));
        net.ends[SERVER].handle_timeout(net.now + HOLD);
        said.extend(acks(&mut net));
        let echoes = |clock: u64| said.iter().filter(|ack| ack.echo.clock_ns == clock).count();
        // The answer to 3 speaks for the first copy of 2 where it left before there was another.
        assert!(echoes(left_first) >= 1 && echoes(left_second) >= 1, "{first:?}, {others:?}: {said:?}");
    }
}

#[test]
fn a_message_whose_sender_grants_no_time_is_answered_at_once() {
    let mut net = holding();
    arrive(&mut net, Duration::ZERO, &[(0, 2)]);
    assert_eq!(answers(&mut net), [(2, 0b11)]);
    assert_ne!(net.ends[SERVER].poll_timeout().map(|due| due.why), Some("answer"), "1 was answered, too");
}

#[test]
fn what_arrives_while_it_closes_is_answered_at_once() {
    let mut net = holding();
    net.ends[SERVER].close(net.now);
    assert_eq!(numbers(&answers(&mut net)), [1], "what waited goes before the goodbye");
    arrive(&mut net, HOLD, &[(0, 2), (0, 3)]);
    assert_eq!(numbers(&answers(&mut net)), [2, 3]);
}

#[test]
fn an_acknowledgement_claims_nothing_that_did_not_arrive_on_its_path() {
    let mut net = Net::new(MtipConfig::new(), vec![Way::new(1_000), Way::new(1_000)]);
    net.run_until(at_ms(100));
    arrive(&mut net, Duration::ZERO, &[(0, 0), (1, 5), (0, 7), (1, 6)]);
    // On path 0 messages 0 and 7 arrived, on path 1 messages 5 and 6.
    assert_eq!(answers(&mut net), [(0, 0), (5, 0), (7, 1 << 6), (6, 1)]);
}

/// One message each `period` for 5 s over one path of 48 ms there and back; what the server sent, probes and their answers included.
fn answered(period: Duration, change: impl Fn(&mut Way)) -> (Net, u64) {
    let mut net = Net::new(MtipConfig::new().deadline(ms(60)), vec![Way::new(24_000)]);
    net.run_until(at_ms(500));
    change(&mut net.ways[0]);
    let (_, _, before) = net.ends[SERVER].paths().next().expect("one path");
    net.commands(at_ms(500), period, ms(5_000) / period, ms(60));
    net.run_until(at_ms(6_000));
    let (_, _, after) = net.ends[SERVER].paths().next().expect("one path");
    (net, after.packets - before.packets)
}

#[test]
fn what_comes_often_is_answered_eight_times_in_a_round_trip_and_what_comes_seldom_at_once() {
    for (period, most) in [(ms(1), 5_000 / 6), (ms(30), 5_000 / 30)] {
        let (net, answers) = answered(period, |_| {});
        assert_eq!(net.received().len() as u64, ms(5_000) / period);
        assert!(net.copies() < 1.06, "{} {:?}", net.copies(), net.ends[CLIENT].choices());
        assert!((most * 9 / 10..most + 150).contains(&answers), "{answers}");
        let (_, _, stats) = net.ends[CLIENT].paths().next().expect("one path");
        assert_eq!(stats.lost, 0);
    }
}

#[test]
fn after_a_cut_what_comes_fast_is_answered_no_more_often_than_before() {
    let config = MtipConfig::new().policy(Policy::Fixed(PathId(0))).deadline(ms(60));
    let mut net = Net::new(config, vec![Way::new(24_000)]);
    net.run_until(at_ms(500));
    net.commands(at_ms(500), ms(1), 2_000, ms(60));
    let between = |net: &mut Net, from: u64, until: u64| {
        net.run_until(at_ms(from));
        let before = net.ways[0].carried[SERVER];
        net.run_until(at_ms(until));
        net.ways[0].carried[SERVER] - before
    };
    let usual = between(&mut net, 1_400, 1_448);
    net.ways[0].cut = Some((at_ms(1_500), at_ms(1_700)));
    let after = between(&mut net, 1_724, 1_771);
    assert!(usual <= 10 && after <= 12, "{usual}, {after}");
}

/// Probes have told of a round trip of 40 ms, and the answers to these ten messages come up to 5 ms later.
#[test]
fn nothing_is_sent_again_while_its_answer_may_still_wait_for_others() {
    for (reliability, deadline) in [
        (Reliability::Reliable, None),
        // The last moment for another copy is 43 ms after the first one left.
        (Reliability::Unreliable, Some(ms(63))),
        (Reliability::Unreliable, Some(ms(400))),
    ] {
        let config = MtipConfig::new().deadline(ms(63));
        let mut net = Net::new(config, vec![Way::new(20_000), Way::new(20_000)]);
        net.run_until(at_ms(10_000));
        for n in 0..10_u64 {
            net.run_until(at_ms(10_000 + n));
            let data = vec![0; 16];
            net.send(Message { data, created: net.now, reliability, deadline, tag: n, ..Message::default() });
        }
        net.run_until(at_ms(11_000));
        let (stats, answers) = (net.ends[CLIENT].stats(), net.ways[0].carried[SERVER]);
        assert_eq!((net.received().len(), stats.again), (10, 0), "{deadline:?}: {stats:?}, {answers}");
    }
}
