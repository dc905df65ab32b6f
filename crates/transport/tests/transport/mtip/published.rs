//! The published protocol as its authors run it (Rico et al., their evaluation material): how paths open, and when they are probed.

use taut_core::{Datagram, Ecn, Event, Message, PathId, Time, Transport};
use taut_transport::mtip::{Adaptive, Mode, Mtip, MtipConfig, Policy};
use taut_wire::mtip::Verdict;
use taut_wire::mtip::compatible::{Body, Repr};

use crate::mtip::harness::{at_ms, ms};

fn config(policy: Policy) -> MtipConfig {
    MtipConfig::new().mode(Mode::Compatible(Vec::new())).policy(policy).latency_weight(0.5).deadline(ms(15))
}

/// All that an end sends now: over which path, what.
fn sent(end: &mut Mtip, now: Time) -> Vec<(u8, Vec<u8>)> {
    let mut all = Vec::new();
    loop {
        let mut bytes = Vec::new();
        let Some(transmit) = end.poll_transmit(now, &mut bytes) else { return all };
        all.push((transmit.path.0, bytes));
    }
}

fn bodies(all: &[(u8, Vec<u8>)]) -> Vec<(u8, Body<'_>)> {
    all.iter().map(|(path, bytes)| (*path, Repr::parse(bytes).expect("a packet").body)).collect()
}

fn arrives(end: &mut Mtip, now: Time, path: u8, body: Body<'_>) {
    let mut bytes = Vec::new();
    Repr { sequence: 0, timestamp_ns: now.as_nanos(), body }.emit(&mut bytes);
    end.handle_input(now, Datagram { path: PathId(path), ecn: Ecn::NotCapable, data: &bytes, padding: 0 });
}

fn is_connected(end: &mut Mtip) -> bool {
    std::iter::from_fn(|| end.poll_event()).any(|event| event == Event::Connected)
}

fn message(now: Time) -> Message {
    Message { data: b"walk".to_vec(), created: now, ..Message::default() }
}

#[test]
fn the_passive_end_opens_on_the_third_message() {
    let now = at_ms(1);
    let mut robot = Mtip::server(config(Policy::All));
    robot.send(now, message(now)).expect("it waits");
    arrives(&mut robot, now, 0, Body::Link(b"[]"));
    assert_eq!(bodies(&sent(&mut robot, now)), [(0, Body::LinkAck(b"[]"))]);
    assert!(!is_connected(&mut robot));
    arrives(&mut robot, now, 0, Body::Ack(Verdict::Control));
    assert!(is_connected(&mut robot));
    assert_eq!(bodies(&sent(&mut robot, now)), [(0, Body::Data(b"walk"))]);
}

#[test]
fn the_active_end_sends_the_third_message_for_each_linkack() {
    let now = at_ms(1);
    let mut operator = Mtip::client(config(Policy::All), 0);
    operator.add_path(now, PathId(0));
    operator.handle_timeout(now);
    assert!(matches!(bodies(&sent(&mut operator, now))[..], [(0, Body::Link(_))]));
    for _ in 0..2 {
        arrives(&mut operator, now, 0, Body::LinkAck(b"[]"));
        assert_eq!(bodies(&sent(&mut operator, now)), [(0, Body::Ack(Verdict::Control))]);
    }
    assert!(is_connected(&mut operator));
}

#[test]
fn a_third_message_that_is_lost_is_asked_for_again_and_what_comes_after_it_will_do() {
    let mut robot = Mtip::server(config(Policy::All));
    arrives(&mut robot, at_ms(0), 0, Body::Link(b"[]"));
    let mut linkacks = sent(&mut robot, at_ms(0)).len();
    for n in 1..10_000 {
        robot.handle_timeout(at_ms(n));
        linkacks += sent(&mut robot, at_ms(n)).len();
    }
    assert_eq!(linkacks, 3, "the first one and two more");
    assert!(!is_connected(&mut robot));
    arrives(&mut robot, at_ms(10_000), 0, Body::Data(b"walk"));
    let events: Vec<_> = std::iter::from_fn(|| robot.poll_event()).collect();
    assert!(events.contains(&Event::Connected), "{events:?}");
    assert!(events.iter().any(|event| matches!(event, Event::Received { .. })), "{events:?}");
}

#[test]
fn paths_that_were_never_opened_make_room_for_others() {
    let mut robot = Mtip::server(config(Policy::All));
    for path in 0..20 {
        arrives(&mut robot, at_ms(0), path, Body::Link(b"[]"));
    }
    arrives(&mut robot, at_ms(1), 19, Body::Ack(Verdict::Control));
    assert!(is_connected(&mut robot) && robot.paths().count() == 8);
}

#[test]
fn an_idle_path_is_probed_after_ninety_messages_on_others_and_then_every_hundred_milliseconds() {
    let mut operator = Mtip::client(config(Policy::Adaptive(Adaptive::default())), 0);
    for path in 0..2 {
        operator.add_path(at_ms(0), PathId(path));
        arrives(&mut operator, at_ms(0), path, Body::LinkAck(b"[]"));
    }
    let (mut on_one, mut probes) = (0, Vec::new());
    for n in 0..400 {
        let now = at_ms(30 * n);
        operator.handle_timeout(now);
        operator.send(now, message(now)).expect("a message that is taken");
        let all = sent(&mut operator, now);
        let is_data =
            |(_, bytes): &&(u8, Vec<u8>)| matches!(Repr::parse(bytes), Ok(Repr { body: Body::Data(_), .. }));
        let copies: Vec<_> = all.iter().filter(is_data).collect();
        assert!(n > 0 || copies.len() == 2, "both paths at the start");
        on_one += u64::from(copies.len() == 1);
        if bodies(&all).iter().any(|(_, body)| *body == Body::KeepAlive) {
            probes.push((on_one, now));
        }
        // Path 0 is quicker, and each copy on path 1 a duplicate.
        for (path, bytes) in copies {
            let sequence = Repr::parse(bytes).expect("a packet").sequence;
            let verdict = if *path == 0 { Verdict::OnTime } else { Verdict::Duplicate };
            let mut ack = Vec::new();
            let timestamp_ns = ms(4 + u64::from(*path)).as_nanos();
            Repr { sequence, timestamp_ns, body: Body::Ack(verdict) }.emit(&mut ack);
            let data = &ack[..];
            let input = Datagram { path: PathId(*path), ecn: Ecn::NotCapable, data, padding: 0 };
            operator.handle_input(now, input);
        }
    }
    assert!(probes.len() > 70, "{probes:?}");
    assert!((90..=94).contains(&probes[0].0), "{probes:?}");
    // The application sends every 30 ms, and this host looks then.
    assert!(probes.windows(2).all(|pair| pair[1].1.saturating_since(pair[0].1) == ms(120)), "{probes:?}");
}

fn taken(end: &mut Mtip) -> usize {
    std::iter::from_fn(|| end.poll_event()).filter(|event| matches!(event, Event::Received { .. })).count()
}

#[test]
fn a_client_that_begins_anew_is_heard_and_hears() {
    let mut robot = Mtip::server(config(Policy::All));
    let operator = |robot: &mut Mtip, now: Time, count: usize| {
        let mut operator = Mtip::client(config(Policy::All), 0);
        operator.add_path(now, PathId(0));
        operator.handle_timeout(now);
        for step in 0..count + 2 {
            let now = now + ms(step as u64);
            if step > 1 {
                operator.send(now, message(now)).expect("a message that is taken");
            }
            for (path, data) in sent(&mut operator, now) {
                let input = Datagram { path: PathId(path), ecn: Ecn::NotCapable, data: &data, padding: 0 };
                robot.handle_input(now, input);
            }
            for (path, data) in sent(robot, now) {
                let input = Datagram { path: PathId(path), ecn: Ecn::NotCapable, data: &data, padding: 0 };
                operator.handle_input(now, input);
            }
        }
    };
    operator(&mut robot, at_ms(0), 1_000);
    assert_eq!(taken(&mut robot), 1_000);
    operator(&mut robot, at_ms(2_000), 500);
    assert_eq!(taken(&mut robot), 500);
}

#[test]
fn who_comes_in_the_second_half_of_the_numbers_is_told_all_the_same() {
    let now = at_ms(1);
    let mut operator = Mtip::client(config(Policy::All), 0);
    operator.add_path(now, PathId(0));
    arrives(&mut operator, now, 0, Body::LinkAck(b"[]"));
    for sequence in [40_000, 65_535, 0, 1] {
        let mut bytes = Vec::new();
        Repr { sequence, timestamp_ns: now.as_nanos(), body: Body::Data(b"felt") }.emit(&mut bytes);
        let input = Datagram { path: PathId(0), ecn: Ecn::NotCapable, data: &bytes, padding: 0 };
        operator.handle_input(now, input);
    }
    assert_eq!(taken(&mut operator), 4);
}
