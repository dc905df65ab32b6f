//! Stops over a path that carried nothing for longer than the retransmission timer.

use taut_core::{Bytes, Duration, Message, Priority, Reliability, SendError, StreamId};
use taut_transport::sctp::{Sctp, SctpConfig};

use crate::net::{MS, Net, at_ms};
use crate::sctp::{command, connected, offer, pair, sample, stamped};

/// How a session sends copies of a stop once it has sent a few.
const COPIES_APART: Duration = MS.saturating_mul(100);
/// Those of an emergency are so long, and nothing else is.
const STOP: usize = 60;

fn stop(net: &Net<Sctp>) -> Message {
    Message { priority: Priority(0), stream: StreamId(0), ..stamped(net, STOP) }
}

struct Case {
    config: SctpConfig,
    one_way: Duration,
    outage: Duration,
    /// Which directions carry nothing meanwhile.
    cut: [bool; 2],
    /// From its beginning until the stop is pressed.
    pressed: Duration,
    /// A message of that reliability every millisecond, and every ten once nothing is heard.
    states: Reliability,
    /// From one copy of it to the next.
    apart: Duration,
    /// How the first copy goes; a session's later ones are unreliable.
    first: Reliability,
}

/// From the end of the outage, or the press if that was later, until the stop is there; and the network.
fn late(case: &Case) -> (Duration, Net<Sctp>) {
    let mut net = pair(case.config, case.one_way, 1);
    net.run_until(at_ms(3_000));
    let begins = net.now + MS * 1_000;
    let (ends, pressed) = (begins + case.outage, begins + case.pressed);
    let mut due = pressed;
    for number in 0.. {
        let out = (begins..ends).contains(&net.now);
        [0, 1].into_iter().for_each(|way| net.ways[way].cut = out && case.cut[way]);
        if net.now < begins + case.one_way * 2 || number % 10 == 0 {
            for end in 0..2 {
                let message = Message { reliability: case.states, ..sample(&net) };
                // In the end there is room for no more of what must arrive.
                let _ = offer(&mut net, end, message);
            }
        }
        if net.now >= due {
            let reliability = if due == pressed { case.first } else { Reliability::Unreliable };
            let message = Message { reliability, ..stop(&net) };
            offer(&mut net, 0, message).expect("there is room for a stop");
            due = net.now + case.apart;
        }
        net.run_for(MS);
        let arrived = net.received(1).find(|(_, data)| data.len() == STOP).map(|(at, _)| at);
        if let Some(arrived) = arrived {
            return (arrived.saturating_since(ends.max(pressed)), net);
        }
        assert!(net.now < ends + MS * 10_000, "it never comes");
    }
    unreachable!("it comes or not")
}

/// Every fifth of the cases has each value of each of their axes, beside others each time: none has five.
const SLICE: usize = 5;

fn cases(states: Reliability) -> impl Iterator<Item = Case> {
    let outages = [1_200, 2_900, 9_000];
    let cuts = [[true, false], [false, true], [true, true]];
    outages.into_iter().flat_map(move |outage| {
        cuts.into_iter().flat_map(move |cut| {
            [10, 50, 150].into_iter().flat_map(move |one_way| {
                // Long before the path is back, just before, and after.
                [outage * 2 / 3, outage - 50, outage + 150].into_iter().flat_map(move |pressed| {
                    [true, false].into_iter().map(move |interleaving| Case {
                        config: SctpConfig::new().interleaving(interleaving),
                        one_way: MS * one_way,
                        outage: MS * outage,
                        cut,
                        pressed: MS * pressed,
                        states,
                        apart: COPIES_APART,
                        first: Reliability::Unreliable,
                    })
                })
            })
        })
    })
}

#[test]
fn a_stop_is_there_a_round_trip_and_a_half_after_the_path_is_back_however_long_it_was_away() {
    is_there_soon_after_the_path(SLICE);
}

#[test]
#[ignore = "make test-long"]
fn a_stop_is_there_a_round_trip_and_a_half_after_the_path_is_back_at_length() {
    is_there_soon_after_the_path(1);
}

fn is_there_soon_after_the_path(step: usize) {
    let mut latest = Vec::new();
    let alone = cases(Reliability::Unreliable).map(|case| Case { apart: MS * 100_000, ..case });
    for case in cases(Reliability::Unreliable).chain(alone).step_by(step) {
        let (late, net) = late(&case);
        let pressed_later = case.pressed.saturating_sub(case.outage);
        let copy = if pressed_later.is_zero() { COPIES_APART } else { Duration::ZERO };
        let Case { one_way, outage, cut, pressed, .. } = case;
        // The rest is of one acknowledgement that waits for a message.
        assert!(
            late <= copy + one_way * 3 + MS * 2,
            "{late}: {one_way} one way, {outage} without {cut:?}, pressed after {pressed}"
        );
        let stats = net.ends[0].stats();
        println!("{one_way} {outage} {cut:?} {pressed}: {late}, {} repeated", stats.retransmitted_packets);
        latest.push(late);
    }
    println!("latest {:?}", latest.iter().max());
}

/// It left while nobody knew that the path was away, and is lost; no other copy is offered.
#[test]
fn a_reliable_stop_that_was_lost_is_sent_ahead_of_the_retransmission_timer() {
    for outage in [20, 300, 1_200, 9_000] {
        for case in cases(Reliability::Unreliable).take(18).step_by(5) {
            let case = Case {
                outage: MS * outage,
                cut: [true; 2],
                pressed: MS,
                apart: MS * 100_000,
                first: Reliability::Reliable,
                ..case
            };
            let (late, _) = late(&case);
            println!("{} {outage}: {late}", case.one_way);
            // What was heard last left before the outage: two round trips and the wait of an acknowledgement later silence says something.
            let noticed = (case.one_way * 5 + MS * 100).saturating_sub(case.outage);
            let bound = noticed.max(COPIES_APART) + case.one_way * 3 + MS * 2;
            assert!(late <= bound, "{late} > {bound}: {} one way, {outage}", case.one_way);
            if outage >= 1_200 {
                // The timer's repetition came after 838 ms.
                assert!(
                    late <= COPIES_APART + case.one_way * 2,
                    "{late}: {} one way, {outage}",
                    case.one_way
                );
            }
        }
    }
}

/// What must arrive is repeated, as the window grows: by twice as much each round trip.
#[test]
fn a_stop_behind_reliable_states_waits_for_some_round_trips() {
    waits_for_some_round_trips(SLICE);
}

#[test]
#[ignore = "make test-long"]
fn a_stop_behind_reliable_states_waits_for_some_round_trips_at_length() {
    waits_for_some_round_trips(1);
}

fn waits_for_some_round_trips(step: usize) {
    let mut latest = Duration::ZERO;
    for case in cases(Reliability::Reliable).step_by(step) {
        let (late, _) = late(&case);
        let Case { one_way, outage, cut, pressed, .. } = case;
        println!("{one_way} {outage} {cut:?} {pressed}: {late}");
        assert!(late <= COPIES_APART + one_way * 14, "{late}: {one_way} {outage} {cut:?} {pressed}");
        latest = latest.max(late);
    }
    println!("latest {latest}");
}

/// Whatever was under way: what is reliable arrives once, in order.
#[test]
fn a_stop_that_opens_the_window_skips_nothing_that_must_arrive() {
    for (outage, apart) in [(1_500, 100), (2_500, 7), (5_000, 300)] {
        for interleaving in [true, false] {
            let mut net = pair(SctpConfig::new().interleaving(interleaving), MS * 10, 1);
            net.run_until(at_ms(1_000));
            let mut made = 0;
            for number in 0..outage + 2_000 {
                let out = (500..500 + outage).contains(&number);
                net.ways.iter_mut().for_each(|way| way.cut = out);
                let state = sample(&net);
                let _ = offer(&mut net, 0, state);
                if number % apart == 0 {
                    // Some of several packets.
                    let message = command(&net, 1, if number % 3 == 0 { 3_000 } else { 75 });
                    made += u64::from(offer(&mut net, 0, message).is_ok());
                }
                if number > 600 && number % 100 == 0 {
                    let message = stop(&net);
                    let _ = offer(&mut net, 0, message);
                }
                net.run_for(MS);
            }
            net.run_for(MS * 20_000);
            let stamp = |data: &[u8]| u64::from_be_bytes(data[..8].try_into().expect("a stamp"));
            let on_one = net.events[1].iter().filter_map(|(_, event)| match event {
                taut_core::Event::Received { data, stream: StreamId(1), .. } => Some(stamp(data)),
                _ => None,
            });
            let stamps: Vec<u64> = on_one.collect();
            assert_eq!(stamps.len() as u64, made, "{outage} {apart} {interleaving}");
            assert!(stamps.is_sorted_by(|one, next| one < next), "{outage} {apart} {interleaving}");
        }
    }
}

/// A path that carries what it is given has no need of it, and a flood of emergencies over one that is dead sends fifty a second.
#[test]
fn few_packets_leave_ahead_of_the_window_and_none_while_something_is_heard() {
    let mut net = pair(SctpConfig::new(), MS * 10, 1);
    net.run_until(at_ms(1_000));
    for _ in 0..2_000 {
        let (state, message) = (sample(&net), stop(&net));
        offer(&mut net, 0, state).unwrap();
        offer(&mut net, 0, message).unwrap();
        net.run_for(MS);
    }
    assert_eq!(net.ends[0].stats().retransmitted_packets, 0);
    net.ways[0].cut = true;
    for _ in 0..10_000 {
        let message = stop(&net);
        offer(&mut net, 0, message).unwrap();
        net.run_for(MS);
    }
    let repeated = net.ends[0].stats().retransmitted_packets;
    assert!((300..520).contains(&repeated), "{repeated} in ten seconds");
}

/// What stops a robot has room of its own, a tenth of the buffer, and no more.
#[test]
fn a_stop_is_taken_when_the_buffer_is_full_of_what_must_arrive() {
    let mut net = connected(SctpConfig::new());
    net.ways.iter_mut().for_each(|way| way.cut = true);
    let state = Message { priority: Priority(2), ..command(&net, 2, 71) };
    while offer(&mut net, 0, state.clone()).is_ok() {}
    let reliable = |net: &Net<Sctp>| Message { reliability: Reliability::Reliable, ..stop(net) };
    let mut taken = 0;
    let refused = loop {
        let message = reliable(&net);
        match offer(&mut net, 0, message) {
            Ok(()) => taken += 1,
            Err(refused) => break refused,
        }
    };
    assert_eq!(refused, SendError::BufferFull(Bytes::new(262_144)));
    assert!((26_214 / 124..=26_214 / 124 + 20).contains(&taken), "{taken}");
    assert!(offer(&mut net, 0, state).is_err());
    net.ways.iter_mut().for_each(|way| way.cut = false);
    net.run_for(MS * 20_000);
    assert_eq!(net.received(1).filter(|(_, data)| data.len() == STOP).count(), taken);
}

#[test]
fn a_stop_overtakes_the_small_messages_that_were_given_to_sctp_and_did_not_leave() {
    let mut net = connected(SctpConfig::new());
    for _ in 0..2_000 {
        let message = command(&net, 1, 40);
        offer(&mut net, 0, message).unwrap();
    }
    let left: usize =
        net.sent.iter().filter(|(_, from, ..)| *from == 0).map(|(.., packet)| messages(packet)).sum();
    let message = stop(&net);
    offer(&mut net, 0, message).unwrap();
    net.run_for(MS * 2_000);
    let position = net.received(1).position(|(_, data)| data.len() == STOP);
    assert_eq!((position, net.received(1).count()), (Some(left), 2_001));
}

/// I-DATA chunks of a packet.
fn messages(packet: &[u8]) -> usize {
    let (mut at, mut count) = (12, 0);
    while at + 4 <= packet.len() {
        count += usize::from(packet[at] == 64);
        at += usize::from(u16::from_be_bytes([packet[at + 2], packet[at + 3]])).next_multiple_of(4).max(4);
    }
    count
}
