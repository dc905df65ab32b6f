//! Paths that change, go, or are not there.

use taut_core::{Duration, Event, Message, PathId, Priority, Reliability, Transport};
use taut_transport::mtip::{MtipConfig, PathState, Policy};

use crate::mtip::harness::{CLIENT, Net, SERVER, Way, at_ms, ms};

fn policies() -> [Policy; 3] {
    [Policy::All, Policy::Adaptive(Default::default()), Policy::Deadline(Default::default())]
}

fn config(policy: Policy) -> MtipConfig {
    MtipConfig::new().policy(policy).deadline(ms(200)).idle_timeout(ms(60_000))
}

#[test]
fn an_idle_path_is_up_though_clocks_go_on_between_being_called_and_sending() {
    let mut net = Net::new(MtipConfig::new(), vec![Way::new(4_000), Way::new(5_000)]);
    net.sends_late = Duration::from_micros(20);
    net.run_until(at_ms(500));
    net.commands(at_ms(500), ms(10), 1_000, ms(15));
    net.run_until(at_ms(10_000));
    for end in [CLIENT, SERVER] {
        let paths: Vec<_> = net.ends[end].paths().collect();
        let fates: Vec<_> = paths.iter().map(|(_, state, stats)| (*state, stats.lost, stats.downs)).collect();
        assert_eq!(fates, [(PathState::Up, 0, 0); 2], "end {end}");
        assert!(paths.iter().all(|(.., stats)| stats.acknowledged >= 90), "{paths:?}");
    }
}

#[test]
fn a_path_whose_address_changed_is_linked_again_while_messages_flow() {
    for policy in policies() {
        for (period, paths) in [(10, 1), (10, 2), (50, 1), (50, 2), (150, 1)] {
            let mut ways = vec![Way::new(5_000), Way::new(5_500)];
            ways.truncate(paths);
            ways[0].rebound = Some((at_ms(2_000), 5));
            let mut net = Net::new(config(policy), ways);
            net.run_until(at_ms(1_000));
            net.commands(at_ms(1_000), ms(period), 10_000 / period, ms(200));
            net.run_until(at_ms(11_500));
            let linked = net.events[SERVER].iter().find(|(_, event)| *event == Event::PathUp(PathId(5)));
            let linked = linked.unwrap_or_else(|| panic!("{policy:?}, {period} ms, {paths} paths")).0;
            // Ten packets or more are lost before it counts as down; every fifth probe links.
            assert!(linked < at_ms(4_500), "{policy:?}, {period} ms, {paths} paths: {linked}");
            let after = net.received().len() as u64;
            assert!(
                after > 10_000 / period - 2_500 / period,
                "{policy:?}, {period} ms, {paths} paths: {after}"
            );
        }
    }
}

#[test]
fn the_server_lets_go_of_a_path_that_was_removed() {
    for policy in policies() {
        let mut net = Net::new(config(policy), vec![Way::new(5_000), Way::new(5_500), Way::new(6_000)]);
        net.run_until(at_ms(1_000));
        net.ends[CLIENT].remove_path(at_ms(1_000), PathId(2));
        net.pump(CLIENT);
        for round in 0..1_000 {
            net.run_until(at_ms(1_000 + 20 * round));
            let message = Message { data: vec![1; 100], created: net.now, ..Message::default() };
            net.ends[SERVER].send(net.now, message).expect("a message that is taken");
            net.pump(SERVER);
        }
        net.run_until(at_ms(22_000));
        assert_eq!(net.ends[SERVER].paths().map(|(id, ..)| id).collect::<Vec<_>>(), [PathId(0), PathId(1)]);
        let received = net.count(CLIENT, |event| matches!(event, Event::Received { .. }));
        assert_eq!(received, 1_000);
        // Until it is down for a second, and probes for ten more.
        assert!(net.ways[2].carried[SERVER] < 250, "{policy:?}: {}", net.ways[2].carried[SERVER]);
    }
}

#[test]
fn a_path_that_was_away_for_long_is_linked_again() {
    for policy in policies() {
        let mut ways = vec![Way::new(5_000), Way::new(5_500)];
        ways[1].cut = Some((at_ms(2_000), at_ms(20_000)));
        let mut net = Net::new(config(policy), ways);
        net.run_until(at_ms(1_000));
        net.commands(at_ms(1_000), ms(20), 1_200, ms(200));
        net.run_until(at_ms(19_000));
        assert_eq!(net.ends[SERVER].paths().count(), 1);
        net.run_until(at_ms(26_000));
        for end in [CLIENT, SERVER] {
            let states: Vec<_> = net.ends[end].paths().map(|(_, state, _)| state).collect();
            assert_eq!(states, [PathState::Up; 2], "{policy:?}");
        }
        assert_eq!(net.received().len(), 1_200);
    }
}

#[test]
fn messages_wait_for_a_path_that_is_named_and_not_there() {
    let fixed = MtipConfig::new().policy(Policy::Fixed(PathId(3)));
    let mut net = Net::new(fixed.clone(), vec![Way::new(5_000), Way::new(5_500)]);
    net.run_until(at_ms(1_000));
    net.commands(at_ms(1_000), ms(30), 100, Duration::from_millis(15));
    net.run_until(at_ms(5_000));
    net.pump(CLIENT);
    let stats = net.ends[CLIENT].stats();
    assert_eq!((stats.offered, stats.sent, stats.too_late), (100, 0, 100), "{stats:?}");
    assert_eq!(net.count(CLIENT, |event| matches!(event, Event::Dropped { .. })), 100);
    // Without a deadline it waits for as long as that takes, whether it must arrive or not.
    let mut net = Net::new(fixed.clone(), vec![Way::new(5_000), Way::new(5_500)]);
    net.run_until(at_ms(1_000));
    for reliability in [Reliability::Unreliable, Reliability::Reliable] {
        net.send(Message { data: vec![0; 16], created: net.now, reliability, ..Message::default() });
    }
    net.run_until(at_ms(1_500));
    assert!(net.ends[CLIENT].add_path(net.now, PathId(3)));
    (2..4).for_each(|_| net.ways.push(Way::new(5_000)));
    net.run_until(at_ms(2_000));
    let stats = net.ends[CLIENT].stats();
    assert_eq!((stats.sent, stats.too_late, net.received().len()), (2, 0, 2), "{stats:?}");
    // An emergency takes every path.
    let mut net = Net::new(fixed.emergency(Priority(0)), vec![Way::new(5_000), Way::new(5_500)]);
    net.run_until(at_ms(1_000));
    let data = vec![0; 16];
    net.send(Message { data, created: net.now, priority: Priority(0), ..Message::default() });
    net.run_until(at_ms(1_100));
    assert_eq!((net.received().len(), net.ends[CLIENT].stats().copies), (1, 2));
}
