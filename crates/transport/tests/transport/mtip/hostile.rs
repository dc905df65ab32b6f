//! A peer that lies, strangers, and bytes by chance.

use proptest::prelude::*;
use taut_core::{DropCause, Duration, Event, Message, PathId, Transport};
use taut_transport::mtip::{MAX_PATHS, Mode, MtipConfig, PathState, Policy};
use taut_wire::mtip::{Ack, Body, Echo, Hold, Repr, Verdict};

use crate::mtip::harness::{CLIENT, Net, SERVER, Way, at_ms, ms};

fn net() -> Net {
    let mut net = Net::new(MtipConfig::new().deadline(ms(15)), vec![Way::new(4_500), Way::new(5_000)]);
    net.run_until(at_ms(1_000));
    net
}

fn bytes(clock_ns: u64, body: Body<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    Repr { clock_ns, body }.emit(&mut bytes);
    bytes
}

#[test]
fn acknowledgements_of_what_was_never_sent_and_times_that_cannot_be_are_refused_and_duplicate_nothing() {
    let mut net = net();
    net.commands(at_ms(1_000), ms(30), 100, ms(15));
    for round in 0..100u64 {
        net.run_until(at_ms(1_000 + 30 * round));
        for (number, clock) in [(5_000, 0), (u32::MAX, u64::MAX), (round as u32, u64::MAX), (round as u32, 1)]
        {
            let echo = Echo { clock_ns: clock, hold_ns: u32::MAX };
            for verdict in [Verdict::OnTime, Verdict::Late, Verdict::Duplicate, Verdict::Control] {
                let ack = Ack { verdict, number, echo, elsewhere: round % 2 == 0, before: u64::MAX };
                net.deliver(CLIENT, (round % 2) as u8, &bytes(u64::MAX - round, Body::Ack(ack)));
            }
        }
    }
    net.run_until(at_ms(5_000));
    let stats = net.ends[CLIENT].stats();
    assert!(stats.refused >= 400, "{stats:?}");
    assert!(stats.copies * 100 <= 105 * stats.sent, "{stats:?}");
    assert_eq!(stats.sent, 100);
}

#[test]
fn clocks_that_cannot_be_disturb_neither_clock_nor_choice() {
    for lie in [0, 1, u64::MAX / 2, u64::MAX] {
        let mut net = net();
        net.commands(at_ms(1_000), ms(30), 100, ms(15));
        for round in 0..100u64 {
            net.run_until(at_ms(1_000 + 30 * round));
            let path = (round % 2) as u8;
            let echo = Echo { clock_ns: lie, hold_ns: u32::MAX };
            net.deliver(CLIENT, path, &bytes(lie, Body::LinkAck { conversation: 1, echo }));
            for number in [round as u32, 1_000 + round as u32] {
                let ack = Ack { verdict: Verdict::OnTime, number, echo, before: 0, elsewhere: false };
                net.deliver(CLIENT, path, &bytes(lie, Body::Ack(ack)));
            }
            net.deliver(SERVER, path, &bytes(lie, Body::KeepAlive { number: u32::MAX }));
            // From a peer that numbers as it likes, and is as old as it likes.
            for (number, age_us) in [(1_000 + round as u32, u32::MAX), (u32::MAX - round as u32, 0)] {
                let data = Body::Data {
                    stream: 0,
                    number,
                    age_us,
                    deadline_us: Some(15_000),
                    everywhere: false,
                    hold: Hold::MAX,
                    payload: b"lie lie lie lie ",
                };
                net.deliver(SERVER, path, &bytes(lie, data));
            }
        }
        net.run_until(at_ms(6_000));
        let stats = net.ends[CLIENT].stats();
        assert!(stats.sent == 100 && stats.copies <= 105, "{lie}: {stats:?}");
        assert!(stats.refused >= 100, "{lie}: {stats:?}");
        let states: Vec<_> = net.ends[CLIENT].paths().map(|(_, state, _)| state).collect();
        assert_eq!(states, [PathState::Up; 2], "{lie}");
        let offset = net.ends[CLIENT].clock(net.now).expect("there were exchanges").offset_ns;
        assert!(offset.abs() < 1_000_000, "{lie}: the clock is still known: {offset} ns");
    }
}

/// The echo and the number are right, and the rest is not: what a peer may say of itself it may, but it costs no copies and
/// takes no path.
#[test]
fn acknowledgements_that_echo_correctly_and_lie_about_the_rest_multiply_nothing() {
    for lie in [0, 1, 3_600_000_000_000, u64::MAX / 2, u64::MAX] {
        for verdict in [Verdict::OnTime, Verdict::Late, Verdict::Duplicate] {
            let mut net = net();
            net.commands(at_ms(1_000), ms(30), 100, ms(15));
            let mut known = 0;
            for round in 0..100u64 {
                net.run_until(at_ms(1_001 + 30 * round));
                let heard = net.copies_sent[known..].to_vec();
                for (path, number, clock_ns) in heard {
                    let echo = Echo { clock_ns, hold_ns: (lie % 1_000_000) as u32 };
                    let ack = Ack { verdict, number, echo, elsewhere: false, before: u64::MAX };
                    net.deliver(CLIENT, path, &bytes(lie, Body::Ack(ack)));
                }
                known = net.copies_sent.len();
            }
            net.run_until(at_ms(5_000));
            let stats = net.ends[CLIENT].stats();
            assert!(stats.sent == 100 && stats.copies <= 105, "{lie}, {verdict:?}: {stats:?}");
            assert_eq!(net.received().len(), 100, "{lie}, {verdict:?}");
            assert_eq!(net.ends[CLIENT].paths().filter(|path| path.1 == PathState::Up).count(), 2);
        }
    }
}

#[test]
fn a_peer_that_answers_nothing_any_more_does_not_multiply_what_is_sent() {
    let mut net = net();
    net.commands(at_ms(1_000), ms(1), 5_000, ms(100));
    net.run_until(at_ms(2_000));
    net.ways.iter_mut().for_each(|way| way.loss_back = 1.0);
    net.run_until(at_ms(8_000));
    let stats = net.ends[CLIENT].stats();
    assert_eq!(stats.sent, 5_000);
    assert!(stats.again <= stats.sent + 64, "{stats:?}");
}

#[test]
fn strangers_get_no_path_and_do_not_end_a_conversation() {
    let mut net = net();
    let other = 99;
    for path in 2..60 {
        net.deliver(SERVER, path, &bytes(1, Body::Link { conversation: other }));
        net.deliver(SERVER, path, &bytes(1, Body::Fin { conversation: other }));
        let (stream, everywhere, hold, payload) = (0, true, Hold::NONE, b"go");
        let data = Body::Data { stream, number: 0, everywhere, hold, age_us: 0, deadline_us: None, payload };
        net.deliver(SERVER, path, &bytes(1, data));
    }
    net.deliver(SERVER, 0, &bytes(1, Body::Fin { conversation: other }));
    assert_eq!(net.ends[SERVER].paths().count(), 2);
    assert_eq!(net.count(SERVER, |event| matches!(event, Event::Received { .. } | Event::Closed)), 0);
    let refused = Event::Refused(DropCause::Unauthenticated);
    assert_eq!(net.count(SERVER, |event| *event == refused), 58 * 3 + 1);
}

#[test]
fn paths_are_bounded() {
    let mut net = net();
    for path in 2..40 {
        net.deliver(SERVER, path, &bytes(1, Body::Link { conversation: 1 }));
        net.ends[CLIENT].add_path(net.now, PathId(path));
    }
    assert!([CLIENT, SERVER].iter().all(|end| net.ends[*end].paths().count() == MAX_PATHS));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever happens on the way: each message is delivered once at most, what was offered is accounted for, and both
    /// ends come to rest.
    #[test]
    fn the_books_close_after_any_luck(
        seed in any::<u64>(), policy in 0usize..5, published in any::<bool>(), loss in 0u32..60, duplicate in 0u32..30,
        jitter in 0u64..40, cut in prop::option::of((0u64..4_000, 0u64..4_000)), waits in prop::collection::vec(0u64..60, 1..200),
    ) {
        let policies = [
            Policy::All, Policy::Fixed(PathId(0)), Policy::Best(2), Policy::Adaptive(Default::default()),
            Policy::Deadline(Default::default()),
        ];
        let mode = if published { Mode::Compatible(Vec::new()) } else { Mode::Improved };
        let config = MtipConfig::new().policy(policies[policy]).mode(mode).idle_timeout(ms(5_000));
        let mut ways = vec![Way::new(3_000), Way::new(4_000), Way::new(9_000)];
        for way in &mut ways {
            (way.loss, way.duplicate) = (f64::from(loss) / 100.0, f64::from(duplicate) / 100.0);
            way.jitter = ms(jitter);
        }
        ways[0].cut = cut.map(|(from, len)| (at_ms(from), at_ms(from + len)));
        let mut net = Net::seeded(seed, [config.clone(), config], ways);
        for (tag, wait) in waits.iter().enumerate() {
            net.run_until(net.now + ms(*wait));
            let data = [(tag as u64).to_le_bytes(), net.now.as_nanos().to_le_bytes()].concat();
            let message = Message { data, created: net.now, tag: tag as u64, ..Message::default() };
            if net.ends[CLIENT].send(net.now, message).is_ok() {
                net.pump(CLIENT);
            }
        }
        net.run_until(net.now + ms(1_000));
        net.ends[CLIENT].close(net.now);
        net.pump(CLIENT);
        net.run_until(net.now + Duration::from_secs(20));
        let stats = net.ends[CLIENT].stats();
        prop_assert_eq!(stats.offered, stats.sent + stats.superseded + stats.too_late + stats.abandoned, "{:?}", stats);
        let mut tags: Vec<u64> = net.received().iter().map(|(tag, _)| *tag).collect();
        let count = tags.len();
        tags.sort_unstable();
        tags.dedup();
        prop_assert_eq!(tags.len(), count);
        prop_assert!(count as u64 <= stats.sent && stats.copies <= 8 * stats.sent.max(1));
        prop_assert_eq!(net.ends[CLIENT].poll_timeout(), None);
    }

    #[test]
    fn bytes_by_chance_are_refused(
        datagrams in prop::collection::vec((0u8..3, prop::collection::vec(any::<u8>(), 0..60), any::<bool>()), 1..100),
    ) {
        let mut net = net();
        for (path, mut data, shaped) in datagrams {
            if let (true, Some(first)) = (shaped, data.first_mut()) {
                *first = 0x30 | *first & 0x07;
            }
            net.deliver(SERVER, path, &data);
            net.deliver(CLIENT, path, &data);
        }
        net.run_until(net.now + ms(100));
        let stats = net.ends[CLIENT].stats();
        prop_assert_eq!(stats.copies, 0);
        prop_assert!(net.ends[SERVER].paths().count() <= MAX_PATHS);
    }
}
