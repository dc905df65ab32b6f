//! Paths that are dead from the start, that are taken away, and that come back.

use taut_core::{Event, PathId, Time, Transport};
use taut_transport::quic::{PathUse, QuicConfig};

use super::harness::{CLIENT, Net, SERVER, at_ms, ms};

fn open(config: QuicConfig) -> Net {
    let mut net = Net::new(config, 1);
    net.run_until(at_ms(1_000));
    net
}

fn uses() -> [QuicConfig; 2] {
    [PathUse::FailOver, PathUse::Duplicate].map(QuicConfig::multipath)
}

#[test]
fn a_first_path_that_is_dead_costs_a_second_and_not_the_conversation() {
    for config in uses() {
        let mut net = Net::new(config, 1);
        net.ways[0].cut = Some((Time::ZERO, at_ms(6_000)));
        net.run_until(at_ms(10_000));
        for end in [CLIENT, SERVER] {
            let connected: Vec<_> =
                net.events[end].iter().filter(|(_, event)| *event == Event::Connected).collect();
            assert!(matches!(connected[..], [(at, _)] if *at < at_ms(1_100)), "{connected:?}");
            assert_eq!(net.ends[end].paths().count(), 2, "the first one joins when it is alive");
        }
        let sent = net.samples(CLIENT, ms(30), at_ms(11_000));
        net.run_until(at_ms(12_000));
        assert_eq!(net.received(SERVER).len() as u64, sent);
    }
}

#[test]
fn a_first_path_that_is_dead_does_not_end_an_attempt_that_is_given_up_before_the_next_ones_turn() {
    let mut net = Net::new(QuicConfig::multipath(PathUse::FailOver).idle_timeout(ms(500)), 1);
    net.ways[0].cut = Some((Time::ZERO, Time::MAX));
    net.run_until(at_ms(1_200));
    for end in [CLIENT, SERVER] {
        assert_eq!(net.count(end, |event| *event == Event::Connected), 1, "{end}");
        assert_eq!(net.count(end, |event| *event == Event::Closed), 0, "{end}");
    }
}

#[test]
fn nobody_who_answers_ends_in_closed() {
    let mut net = Net::new(QuicConfig::multipath(PathUse::FailOver), 1);
    net.ways.iter_mut().for_each(|way| way.cut = Some((Time::ZERO, Time::MAX)));
    net.run_until(at_ms(30_000));
    assert_eq!(net.count(CLIENT, |event| *event == Event::Closed), 1);
    let attempts: Vec<u8> = net.sent.iter().map(|(_, _, path, _)| path.0).collect();
    assert!(attempts.contains(&0) && attempts.contains(&1));
    assert!(net.ends[CLIENT].poll_timeout().is_none());
}

#[test]
fn a_path_that_is_taken_away_is_left_at_once_and_used_again_when_it_is_back() {
    for config in uses() {
        let mut net = open(config);
        let mut sent = net.samples(CLIENT, ms(30), at_ms(2_000));
        let now = net.now;
        net.ends[CLIENT].remove_path(now, PathId(0));
        net.drain(CLIENT);
        let carried = net.ways[0].carried[CLIENT];
        sent += net.samples(CLIENT, ms(30), at_ms(4_000));
        assert_eq!(net.ways[0].carried[CLIENT], carried, "nothing is sent there any more");
        for end in [CLIENT, SERVER] {
            assert_eq!(net.ends[end].paths().collect::<Vec<_>>(), [PathId(1)]);
            assert_eq!(net.count(end, |event| *event == Event::PathDown(PathId(0))), 1);
        }
        let now = net.now;
        assert!(net.ends[CLIENT].add_path(now, PathId(0)));
        sent += net.samples(CLIENT, ms(30), at_ms(5_000));
        assert_eq!(net.ends[SERVER].paths().count(), 2);
        // And then the other one goes.
        let now = net.now;
        net.ends[CLIENT].remove_path(now, PathId(1));
        sent += net.samples(CLIENT, ms(30), at_ms(7_000));
        net.run_until(at_ms(8_000));
        assert_eq!(net.received(SERVER).len() as u64, sent);
        assert_eq!(net.ends[CLIENT].close_reason(), None);
    }
}

#[test]
fn a_conversation_outlives_its_last_path_and_goes_on_over_the_next() {
    for config in uses() {
        let mut net = open(config);
        for id in [0, 1] {
            let now = net.now;
            net.ends[CLIENT].remove_path(now, PathId(id));
            net.drain(CLIENT);
        }
        let carried: Vec<u64> = net.ways.iter().map(|way| way.carried[CLIENT]).collect();
        net.samples(CLIENT, ms(30), at_ms(3_000));
        let after: Vec<u64> = net.ways.iter().map(|way| way.carried[CLIENT]).collect();
        assert_eq!(carried, after, "there is no path");
        let now = net.now;
        assert!(net.ends[CLIENT].add_path(now, PathId(1)));
        net.run_until(at_ms(3_500));
        let before = net.received(SERVER).len() as u64;
        let sent = net.samples(CLIENT, ms(30), at_ms(6_000));
        net.run_until(at_ms(7_000));
        assert_eq!(net.received(SERVER).len() as u64 - before, sent);
        for end in [CLIENT, SERVER] {
            assert_eq!(net.ends[end].close_reason(), None);
            assert_eq!(net.ends[end].paths().collect::<Vec<_>>(), [PathId(1)], "{end}");
        }
    }
}

#[test]
fn both_paths_may_be_silent_for_a_while() {
    for config in uses() {
        let mut net = open(config);
        net.ways.iter_mut().for_each(|way| way.cut = Some((at_ms(2_000), at_ms(4_000))));
        net.samples(CLIENT, ms(30), at_ms(8_000));
        let before = net.received(SERVER).len() as u64;
        let sent = net.samples(CLIENT, ms(30), at_ms(10_000));
        net.run_until(at_ms(11_000));
        assert_eq!(net.received(SERVER).len() as u64 - before, sent);
        for end in [CLIENT, SERVER] {
            assert_eq!(net.ends[end].paths().count(), 2, "{end}");
        }
    }
}

#[test]
fn the_last_path_is_left_when_it_died_before_another_was_added() {
    for config in uses() {
        let mut net = open(config);
        let now = net.now;
        net.ends[CLIENT].remove_path(now, PathId(1));
        net.drain(CLIENT);
        net.ways[0].cut = Some((at_ms(2_000), Time::MAX));
        net.run_until(at_ms(3_000));
        let now = net.now;
        assert!(net.ends[CLIENT].add_path(now, PathId(1)));
        net.run_until(at_ms(4_500));
        for end in [CLIENT, SERVER] {
            let before = net.received(1 - end).len() as u64;
            let sent = net.samples(end, ms(30), net.now + ms(1_500));
            net.run_until(net.now + ms(500));
            assert_eq!(net.received(1 - end).len() as u64 - before, sent, "from {end}");
            assert_eq!(net.ends[end].paths().collect::<Vec<_>>(), [PathId(1)], "{end}");
        }
    }
}

#[test]
fn a_path_that_died_while_the_other_was_away_is_left_when_that_is_back() {
    for config in uses() {
        for phase in 0..8 {
            let mut net = open(config.clone());
            net.run_until(at_ms(1_000 + phase * 37));
            net.ways[1].cut = Some((net.now + ms(1_000), net.now + ms(3_200)));
            net.ways[0].cut = Some((net.now + ms(2_000), Time::MAX));
            net.run_until(net.now + ms(6_000));
            for end in [CLIENT, SERVER] {
                assert_eq!(net.ends[end].close_reason(), None, "{phase}");
                let before = net.received(1 - end).len() as u64;
                let sent = net.samples(end, ms(30), net.now + ms(1_500));
                net.run_until(net.now + ms(500));
                assert_eq!(net.received(1 - end).len() as u64 - before, sent, "{phase}: from {end}");
            }
        }
    }
}
