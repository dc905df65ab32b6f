//! What arrives, on how many copies, and what happens when a path dies.

use taut_core::{Choice, Duration, Event, Message, PathId, Priority, Reason, Reliability, Time, Transport};
use taut_transport::mtip::{Adaptive, Clocks, Mode, MtipConfig, PathState, Policy, Target};
use taut_wire::mtip::compatible::Sublink;

use crate::mtip::harness::{CLIENT, Net, SERVER, Way, at_ms, ms};

/// As the source's application: a command each 30 ms, worthless after 15.
const PERIOD: Duration = Duration::from_millis(30);
const DEADLINE: Duration = Duration::from_millis(15);

fn mtip_a() -> MtipConfig {
    MtipConfig::new().policy(Policy::All).deadline(DEADLINE)
}

fn mtip_b() -> MtipConfig {
    let adaptive = Adaptive { duplicate_threshold: 0.5, late_threshold: 0.2, window: 5 };
    MtipConfig::new().policy(Policy::Adaptive(adaptive)).latency_weight(0.5).deadline(DEADLINE)
}

fn deadline() -> MtipConfig {
    MtipConfig::new().deadline(DEADLINE)
}

fn published(config: MtipConfig) -> MtipConfig {
    config.mode(Mode::Compatible(vec![Sublink { ip: [10, 0, 0, 2].into(), port: 7000, control_port: 7001 }]))
}

/// Two paths, 4.5 and 5 ms.
fn two() -> Vec<Way> {
    vec![Way::new(4_500), Way::new(5_000)]
}

/// Runs 1000 commands through.
fn run(config: MtipConfig, ways: Vec<Way>) -> Net {
    let mut net = Net::new(config, ways);
    net.run_until(at_ms(500));
    net.commands(at_ms(500), PERIOD, 1_000, DEADLINE);
    net.run_until(at_ms(500) + PERIOD * 1_000 + ms(200));
    net
}

#[test]
fn on_a_quiet_network_every_message_arrives_and_only_mtip_a_sends_copies() {
    for (config, copies) in [(mtip_a(), 2.0), (mtip_b(), 1.0), (deadline(), 1.0)] {
        for config in [config.clone(), published(config)] {
            let net = run(config, two());
            let received = net.received();
            assert_eq!(received.len(), 1_000);
            assert!(received.iter().all(|(_, took)| *took <= ms(6)));
            // Of a path of which little is known one message in a hundred may be lost.
            assert!((net.copies() - copies).abs() < 0.06, "{}", net.copies());
        }
    }
}

#[test]
fn a_path_that_dies_costs_mtip_a_nothing_and_the_deadline_policy_nothing_either() {
    for (config, most) in [(mtip_a(), 0), (mtip_b(), 3), (deadline(), 0)] {
        let mut ways = two();
        ways[0].cut = Some((at_ms(15_000), Time::MAX));
        let net = run(config, ways);
        assert!(1_000 - net.received().len() <= most, "{}", net.received().len());
        assert!(net.received().iter().all(|(_, took)| *took <= DEADLINE));
        assert_eq!(net.count(CLIENT, |event| *event == Event::PathDown(PathId(0))), 1);
    }
}

/// 600 commands by the deadline policy, the first path dead from 15 s on, and all that was chosen until `end`.
fn chosen_until(end: Time) -> (Net, Vec<Choice>) {
    let mut ways = two();
    ways[0].cut = Some((at_ms(15_000), Time::MAX));
    let mut net = Net::new(deadline().explain(true), ways);
    net.run_until(at_ms(500));
    net.commands(at_ms(500), PERIOD, 600, DEADLINE);
    let mut choices = Vec::new();
    while net.now < end {
        net.run_until(net.now + ms(30));
        choices.extend(std::iter::from_fn(|| net.ends[CLIENT].poll_choice()));
    }
    (net, choices)
}

#[test]
fn after_silence_a_copy_leaves_at_the_last_moment_and_the_next_message_takes_the_other_path() {
    let (net, choices) = chosen_until(at_ms(18_000));
    let first =
        choices.iter().position(|choice| choice.reason == Reason::Silence).expect("one was not heard of");
    let other = PathId(1);
    assert!(choices[first].paths.contains(&other));
    let after: Vec<_> = choices[first + 1..].iter().map(|choice| (&choice.paths, choice.reason)).collect();
    // While nobody knows whether the first path is dead, both may be taken.
    assert!(after[..3].iter().all(|(paths, _)| paths.contains(&other)), "{after:?}");
    assert!(after[3..].iter().all(|(paths, _)| **paths == [other]), "{after:?}");
    assert!(net.copies() < 1.1, "{}", net.copies());
}

#[test]
fn a_choice_tells_what_was_known_of_each_path_and_choices_are_counted_whether_they_are_read_or_not() {
    let (net, choices) = chosen_until(at_ms(19_000));
    assert_eq!(choices.iter().filter(|choice| !choice.reason.is_again()).count(), 600);
    let quiet = &choices[300];
    assert_eq!((quiet.tag, quiet.budget, quiet.reason), (300, DEADLINE, Reason::OneSuffices));
    assert_eq!((&quiet.paths, quiet.target), (&vec![PathId(0)], Some(Target::default().probability)));
    assert!(quiet.probability > quiet.target && quiet.margin == Duration::ZERO, "{quiet:?}");
    for (path, (estimate, delay)) in quiet.estimates.iter().zip([4_500, 5_000]).enumerate() {
        let delay = Some(Duration::from_micros(delay));
        assert_eq!((usize::from(estimate.path.0), estimate.one_way_p50, estimate.up), (path, delay, true));
        assert!(
            estimate.loss < 0.02 && (estimate.in_time - (1.0 - estimate.loss)).abs() < 1e-3,
            "{estimate:?}"
        );
    }
    let last = choices.last().expect("there were some");
    assert!(!last.estimates[0].up && last.estimates[0].in_time < 0.05 && last.estimates[1].up, "{last:?}");
    let again: Vec<_> = choices.iter().filter(|choice| choice.reason == Reason::Silence).collect();
    // The last moment is 5 ms before the deadline.
    assert!(!again.is_empty() && again.iter().all(|choice| choice.budget <= ms(5)), "{again:?}");

    let (stats, chosen) = (net.ends[CLIENT].stats(), net.ends[CLIENT].choices());
    assert_eq!(chosen.at_once.iter().sum::<u64>(), stats.sent);
    assert_eq!(chosen.iter().map(|(_, why)| why.copies).sum::<u64>(), stats.copies);
    let more: u64 = chosen.iter().filter(|(reason, _)| reason.is_again()).map(|(_, why)| why.copies).sum();
    assert_eq!((more, chosen.of(Reason::Silence).choices), (stats.again, again.len() as u64));
}

#[test]
fn nothing_is_kept_of_choices_that_nobody_asks_for() {
    let mut net = run(deadline(), two());
    assert_eq!(net.ends[CLIENT].poll_choice(), None);
    assert_eq!(net.ends[CLIENT].choices().of(Reason::OneSuffices).choices, 1_000);
    let mut net = run(deadline().explain(true), two());
    let kept = std::iter::from_fn(|| net.ends[CLIENT].poll_choice());
    assert_eq!(kept.map(|choice| choice.tag).collect::<Vec<_>>(), (744..1_000).collect::<Vec<_>>());
}

#[test]
fn a_copy_does_not_wait_for_the_last_moment_of_a_long_deadline_once_the_answer_is_overdue() {
    for deadline_ms in [50, 200, 1_000] {
        let mut ways = two();
        ways[0].cut = Some((at_ms(3_000), Time::MAX));
        ways[1].loss = 0.01;
        let mut net = Net::new(deadline(), ways);
        net.run_until(at_ms(500));
        net.commands(at_ms(500), ms(10), 1_000, ms(deadline_ms));
        net.run_until(at_ms(12_000));
        let received = net.received();
        assert!(received.len() >= 999, "{}", received.len());
        let slow = received.iter().filter(|(_, took)| *took > ms(17)).count();
        assert!(
            slow <= 1 && net.copies() < 1.05,
            "{slow} later than round trip, margin and way; {}",
            net.copies()
        );
    }
}

#[test]
fn a_copy_for_which_there_is_no_credit_is_no_choice() {
    let mut ways: Vec<Way> = two().into_iter().chain(two()).collect();
    ways.iter_mut().for_each(|way| (way.loss, way.loss_back) = (0.2, 0.9));
    let policy = Policy::Deadline(Target { probability: 0.9999, copies: 8 });
    let mut net = Net::new(deadline().policy(policy).explain(true), ways);
    net.run_until(at_ms(1_000));
    net.commands(at_ms(1_000), ms(1), 500, DEADLINE);
    let mut again = 0;
    while net.now < at_ms(1_600) {
        net.run_until(net.now + ms(10));
        while let Some(choice) = net.ends[CLIENT].poll_choice() {
            assert!(!choice.paths.is_empty(), "{choice:?}");
            again += if choice.reason.is_again() { choice.paths.len() as u64 } else { 0 };
        }
    }
    let stats = net.ends[CLIENT].stats();
    assert_eq!(again, stats.again);
    assert!(again >= stats.sent / 2, "each message brings one that may be used: {stats:?}");
}

#[test]
fn a_host_that_wakes_up_late_sends_the_copy_at_the_last_moment_so_much_earlier() {
    for wakes_late in [Duration::ZERO, Duration::from_micros(800)] {
        let mut ways = two();
        ways[0].cut = Some((at_ms(15_000), Time::MAX));
        let mut net = Net::new(deadline().clocks(Clocks::Synchronised), ways);
        net.wakes_late = wakes_late;
        net.run_until(at_ms(500));
        net.commands(at_ms(500), PERIOD, 1_000, DEADLINE);
        net.run_until(at_ms(500) + PERIOD * 1_000 + ms(200));
        assert_eq!(net.received().len(), 1_000, "{wakes_late}");
        let margin = net.ends[CLIENT].choices().margin;
        assert!(margin <= wakes_late && margin + wakes_late / 10 >= wakes_late, "{margin}");
        assert!(net.copies() < 1.01, "{}", net.copies());
    }
}

/// Rico, Luque-Schempp, Merino: half of the rank is latency, and reliability is a ratio since the beginning, of which 0.99 counts as
/// all. A path that dies after some hundred messages stays ahead until some more were lost; two of five
/// missing take the other path besides; then all are in time and none is a duplicate, and nothing says that one path is enough.
#[test]
fn the_published_rule_keeps_a_dead_path_for_it_is_quick_and_no_duplicate_tells_it_to_take_one_fewer() {
    let after_death = |config: MtipConfig| {
        let mut ways = two();
        ways[0].cut = Some((at_ms(15_000), Time::MAX));
        let mut net = Net::new(config.explain(true), ways);
        net.run_until(at_ms(500));
        net.commands(at_ms(500), PERIOD, 1_000, DEADLINE);
        let mut paths = Vec::new();
        while net.now < at_ms(32_000) {
            net.run_until(net.now + PERIOD);
            let choices = std::iter::from_fn(|| net.ends[CLIENT].poll_choice());
            paths.extend(choices.map(|choice| choice.paths.iter().map(|path| path.0).collect::<Vec<_>>()));
        }
        assert!(net.ends[SERVER].stats().duplicates <= 60, "those of the first second, on two paths");
        let died = ((15_000 - 500) / 30) as usize;
        (paths.split_off(died + 12), net.ways[0].carried[CLIENT])
    };
    let (paths, to_the_dead) = after_death(published(mtip_b()));
    assert_eq!(paths.iter().position(|paths| *paths == [0, 1]), Some(0), "{paths:?}");
    assert!(paths.iter().all(|paths| *paths == [0, 1]), "to the end: {paths:?}");
    // The improved rule's reliability forgets, and its dead path ranks last before another one is taken.
    let (paths, to_the_dead_by_ours) = after_death(mtip_b());
    assert!(paths.iter().all(|paths| *paths == [1]), "{paths:?}");
    assert!(to_the_dead > to_the_dead_by_ours + 150, "{to_the_dead} and {to_the_dead_by_ours}");
}

#[test]
fn a_path_that_returns_is_found_again() {
    for config in [mtip_b(), deadline()] {
        let mut ways = two();
        ways[0].cut = Some((at_ms(8_000), at_ms(16_000)));
        let net = run(config, ways);
        let (_, state, stats) = net.ends[CLIENT].paths().next().expect("two paths");
        assert_eq!((state, stats.downs), (PathState::Up, 1));
        assert_eq!(net.count(CLIENT, |event| *event == Event::PathUp(PathId(0))), 2);
        assert!(stats.acknowledged > 300, "{stats:?}");
    }
}

#[test]
fn losses_on_both_paths_are_mended_by_second_copies() {
    let mut ways = two();
    (ways[0].loss, ways[1].loss) = (0.05, 0.05);
    let net = run(deadline(), ways);
    assert!(net.received().len() >= 985, "{}", net.received().len());
    assert!(net.copies() < 1.25, "{}", net.copies());
}

#[test]
fn at_1_khz_only_what_is_overdue_counts_as_missing() {
    let kilohertz = |config| {
        let mut net = Net::new(config, two());
        net.run_until(at_ms(500));
        net.commands(at_ms(500), ms(1), 5_000, DEADLINE);
        net.run_until(at_ms(6_000));
        assert_eq!(net.received().len(), 5_000);
        net.copies()
    };
    assert!(kilohertz(mtip_b()) < 1.05);
    assert!(kilohertz(deadline()) < 1.05);
    assert!(kilohertz(published(mtip_b())) > 1.8, "the published rule always duplicates");
}

#[test]
fn numbers_go_on_past_sixteen_bits() {
    for config in [mtip_a(), published(mtip_a())] {
        let mut net = Net::new(config, two());
        net.run_until(at_ms(500));
        net.commands(at_ms(500), Duration::from_micros(200), 70_000, DEADLINE);
        net.run_until(at_ms(15_000));
        assert_eq!(net.received().len(), 70_000);
        assert_eq!(net.ends[SERVER].stats().duplicates, 70_000);
    }
}

#[test]
fn numbers_are_kept_while_everything_is_late() {
    for config in [mtip_a(), published(mtip_a())] {
        let mut ways = two();
        // More than half of all numbers of 16 bits.
        ways.iter_mut().for_each(|way| way.slow = Some((at_ms(1_000), at_ms(41_000), ms(40))));
        let mut net = Net::new(config, ways);
        net.run_until(at_ms(1_000));
        net.commands(at_ms(1_000), ms(1), 45_000, DEADLINE);
        net.run_until(at_ms(47_000));
        let in_time = net.received().iter().filter(|(number, _)| *number >= 40_000).count();
        assert_eq!(in_time, 5_000);
    }
}

#[test]
fn a_lost_acknowledgement_is_not_charged_to_the_way_there() {
    let mut ways = two();
    ways[0].loss_back = 0.3;
    let net = run(mtip_a(), ways);
    let (_, _, stats) = net.ends[CLIENT].paths().next().expect("two paths");
    assert_eq!(net.received().len(), 1_000);
    // Those of the last 64 messages may not have been repeated yet, and probes are not.
    assert!(stats.lost < 40, "{stats:?}");
}

#[test]
fn an_emergency_takes_every_path() {
    let mut net = Net::new(MtipConfig::new().policy(Policy::Best(1)).emergency(Priority(0)), two());
    net.run_until(at_ms(1_000));
    let data = vec![0; 16];
    let normal = Message { data, created: net.now, priority: Priority(1), ..Message::default() };
    net.send(Message { priority: Priority(0), ..normal.clone() });
    net.send(normal);
    net.run_until(at_ms(1_100));
    assert_eq!((net.received().len(), net.ends[CLIENT].stats().copies), (2, 3));
}

#[test]
fn what_is_reliable_is_sent_again_until_it_is_acknowledged() {
    let mut ways = two();
    (ways[0].loss, ways[1].loss) = (0.6, 0.6);
    let mut net = Net::new(deadline(), ways);
    net.run_until(at_ms(3_000));
    for tag in 0..50u64 {
        let data = [tag.to_le_bytes(), net.now.as_nanos().to_le_bytes()].concat();
        let reliability = Reliability::Reliable;
        net.send(Message { data, created: net.now, reliability, tag, ..Message::default() });
        net.run_until(net.now + ms(20));
    }
    net.run_until(at_ms(20_000));
    assert_eq!(net.received().len(), 50);
}

#[test]
fn paths_come_and_go_while_messages_flow() {
    let mut net = Net::new(deadline(), vec![Way::new(4_500), Way::new(5_000), Way::new(3_000)]);
    net.ends[CLIENT].remove_path(Time::ZERO, PathId(2));
    net.run_until(at_ms(500));
    net.commands(at_ms(500), PERIOD, 600, DEADLINE);
    net.run_until(at_ms(6_000));
    assert!(net.ends[CLIENT].add_path(at_ms(6_000), PathId(2)));
    net.pump(CLIENT);
    net.run_until(at_ms(12_002));
    assert!(net.ways[2].carried[CLIENT] > 150, "the quicker one is used: {:?}", net.ways[2].carried);
    net.ends[CLIENT].remove_path(at_ms(12_002), PathId(2));
    net.pump(CLIENT);
    net.run_until(at_ms(19_000));
    assert_eq!(net.received().len(), 600);
}

#[test]
fn a_policy_that_names_a_path_keeps_to_it() {
    let net = run(MtipConfig::new().policy(Policy::Fixed(PathId(1))).deadline(DEADLINE), two());
    assert_eq!(net.received().len(), 1_000);
    assert!(net.ways[1].carried[CLIENT] >= 1_000 && net.ways[0].carried[CLIENT] < 700);
    let net = run(MtipConfig::new().policy(Policy::Best(2)).deadline(DEADLINE), two());
    assert!((net.copies() - 2.0).abs() < 1e-9);
}

#[test]
fn when_no_path_alone_is_sure_enough_two_are_taken_at_once() {
    // No time to wait for an answer: 11 to 14 ms there, a quarter of it lost.
    let mut ways = vec![Way::new(11_000), Way::new(11_000)];
    ways.iter_mut().for_each(|way| (way.loss, way.jitter) = (0.25, ms(3)));
    let config = MtipConfig::new().policy(Policy::Deadline(Target { probability: 0.99, copies: 2 }));
    let net = run(config.deadline(DEADLINE), ways);
    assert!(net.copies() > 1.5, "{}", net.copies());
    assert!(net.received().len() > 900, "{}", net.received().len());
}

#[test]
fn goodbye_ends_both_and_silence_does_too() {
    let mut net = run(deadline(), two());
    net.ends[CLIENT].close(net.now);
    net.pump(CLIENT);
    net.run_until(net.now + ms(1_000));
    for end in [CLIENT, SERVER] {
        assert_eq!(net.count(end, |event| *event == Event::Closed), 1, "{end}");
        assert_eq!(net.ends[end].poll_timeout(), None);
    }
    let mut ways = two();
    ways.iter_mut().for_each(|way| way.cut = Some((at_ms(5_000), Time::MAX)));
    let net = run(deadline().idle_timeout(ms(2_000)), ways);
    assert_eq!(net.count(SERVER, |event| *event == Event::Closed), 1);
}

#[test]
fn what_is_wanted_before_an_answer_could_come_is_copied_at_once_and_is_not_late() {
    let run = |wanted: Option<u64>, loss: f64| {
        let mut ways = two();
        ways.iter_mut().for_each(|way| way.loss = loss);
        let mut net = Net::new(deadline(), ways);
        net.run_until(at_ms(500));
        net.commands(at_ms(500), ms(10), 1_000, ms(200));
        net.messages.iter_mut().for_each(|message| message.wanted = wanted.map(ms));
        net.run_until(at_ms(12_000));
        net
    };
    // Nothing is heard of it for 9 ms and more.
    let (soon, by_deadline) = (run(Some(7), 0.02), run(None, 0.02));
    assert!(soon.copies() > 1.7 && by_deadline.copies() < 1.5, "{} {}", soon.copies(), by_deadline.copies());
    // Sooner than either path is: it comes all the same.
    assert_eq!(run(Some(3), 0.0).received().len(), 1_000);
}

#[test]
fn what_was_accepted_leaves_before_the_goodbye() {
    let all = [mtip_a(), mtip_b(), deadline(), published(mtip_a()), deadline().emergency(Priority(0))];
    for config in all {
        let mut net = Net::new(config, two());
        net.run_until(at_ms(500));
        for tag in 0..2_u64 {
            let data = [tag.to_le_bytes(), net.now.as_nanos().to_le_bytes()].concat();
            let reliability = if tag == 0 { Reliability::Reliable } else { Reliability::Unreliable };
            let message =
                Message { data, created: net.now, reliability, priority: Priority(0), ..Message::default() };
            net.ends[CLIENT].send(net.now, message).expect("it is open");
        }
        net.ends[CLIENT].close(net.now);
        net.pump(CLIENT);
        net.run_until(at_ms(506));
        assert_eq!(net.received().len(), 2);
        net.run_until(at_ms(2_000));
        for end in [CLIENT, SERVER] {
            assert_eq!(net.count(end, |event| *event == Event::Closed), 1);
        }
        assert_eq!(net.count(CLIENT, |event| matches!(event, Event::Dropped { .. })), 0);
    }
}
