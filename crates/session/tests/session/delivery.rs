//! States there, force back, and what is measured of both.

use taut_core::{DropCause, Duration, Probability, Seed, Transport};
use taut_link::{Chain, Delay, Distribution, Duplicate, Jitter, JitterConfig, Loss, Schedule};
use taut_session::{
    Codec, LimitPolicy, MotionLimits, Operator, OperatorConfig, OperatorEvent, Order, Processing,
    RobotConfig, RobotEvent, State, StateError, Verdict,
};
use taut_wire::session::StopCause;

use crate::harness::{Clock, Log, MS, OPERATOR, ROBOT, World, at_ms, dropped, tcp, udp};
use crate::{delays, rated, world};

fn everything_arrives_and_force_comes_back<T: Transport>(transport: impl Fn(usize) -> T) {
    let mut world = world(transport, rated(100, MS * 5));
    world.start();
    world.run_until(at_ms(3_000));
    let (operator, robot) = (world.operator.status(world.now), world.robot.status(world.now));
    assert_eq!((operator.lost, operator.success), (0, 1.0));
    assert!(operator.messages > 2_500 && operator.rtt.count > 2_500, "{operator:?}");
    // 5 ms each way, 116 and 71 bytes at 100 Mbit/s.
    assert!((10.0..10.2).contains(&operator.rtt.p50_ms), "{:?}", operator.rtt);
    assert!((5.0..5.2).contains(&robot.one_way.p50_ms), "{:?}", robot.one_way);
    assert!((5.0..5.2).contains(&operator.one_way.p50_ms), "{:?}", operator.one_way);
    assert!(operator.jitter_ms < 0.1 && robot.jitter_ms < 0.1);
    assert_eq!((operator.unmatched_echoes, robot.unmatched_echoes, robot.lost), (0, 0, 0));
    let forces = world.observer.operator.iter().filter_map(|(_, event)| match event {
        OperatorEvent::Feedback { state, applied, age, .. } => Some((state.force[2], *applied, *age)),
        _ => None,
    });
    let forces: Vec<_> = forces.collect();
    assert!(forces.len() > 2_500);
    let (force, applied, age) = forces[forces.len() - 1];
    assert!(force > 1.9 && applied > 2_500 && age < MS * 6, "{force} {applied} {age}");
}

#[test]
fn everything_arrives_and_force_comes_back_over_udp() {
    everything_arrives_and_force_comes_back(udp);
}

#[test]
fn everything_arrives_and_force_comes_back_over_tcp() {
    everything_arrives_and_force_comes_back(tcp);
}

#[test]
fn normal_states_travel_on_streams_two_and_three_in_turn() {
    let mut world = world(udp, delays(MS));
    world.start();
    world.run_until(at_ms(2_000));
    let status = world.operator.status(world.now);
    assert!(status.streams[2].sent > 500);
    assert!(status.streams[2].sent.abs_diff(status.streams[3].sent) <= 1);
}

/// As to a robot whose machine is busy: for 60 ms nothing comes, then all at once, more than one acknowledgement tells of.
#[test]
fn states_that_come_all_at_once_are_all_acknowledged() {
    let delay = vec![(Duration::ZERO, MS * 10), (MS * 12_000, MS * 70), (MS * 12_100, MS * 10)];
    let links = [Delay::new(Schedule::table(delay).unwrap()).into(), Delay::new(MS * 10).into()];
    let (operator, robot) = (OperatorConfig::new().deadline(MS * 200), RobotConfig::new().max_age(MS * 200));
    let mut world = World::new(udp, operator, robot.watchdog(MS * 200), links, Log::default());
    world.start();
    world.run_until(at_ms(4_000));
    world.sampling = None;
    world.run_until(at_ms(4_150));
    let (operator, robot) = (world.operator.status(world.now), world.robot.status(world.now));
    assert!(robot.one_way.max_ms > 60.0 && robot.cause == "start", "{robot:?}");
    assert_eq!((operator.delivered, operator.lost), (operator.messages, 0), "{operator:?}");
}

/// Ways of 35 ms that lose 2 %: TCP's window is a dozen segments, and a state that is offered to it goes behind all that were before.
#[test]
fn what_a_reliable_transport_cannot_send_yet_waits_where_the_newest_wins() {
    let run = |window| {
        let way = |name| {
            let loss = Loss::bernoulli("2%".parse::<Probability>().unwrap(), Seed::new(5).stream(name));
            Chain::new(vec![loss.into(), Delay::new(MS * 35).into()])
        };
        let operator = OperatorConfig::new().reliable(true).no_deadline().adaptive(false).window(window);
        let robot = RobotConfig::new().max_age(MS * 60_000).watchdog(MS * 60_000);
        let mut world = World::new(tcp, operator, robot, [way("there"), way("back")], Log::default());
        world.start();
        world.run_until(at_ms(20_000));
        (world.operator.status(world.now), world.robot.status(world.now).one_way)
    };
    let ((held, held_way), (all, all_way)) = (run(true), run(false));
    assert!(held_way.p50_ms < 70.0 && held_way.p50_ms < all_way.p50_ms / 3.0, "{held_way:?} {all_way:?}");
    let superseded = [&held, &all].map(|status| dropped(status, DropCause::Superseded));
    assert!(superseded[0] > 5_000 && superseded[1] == 0, "{superseded:?}");
}

#[test]
fn a_robot_counts_through_the_sessions_of_one_operator_after_another() {
    let mut world = world(udp, delays(MS * 5));
    world.start();
    let lossy = Loss::bernoulli("20%".parse::<Probability>().unwrap(), Seed::new(5).stream("loss"));
    world.links[OPERATOR] = Chain::new(vec![lossy.into(), Delay::new(MS * 5).into()]);
    world.run_until(at_ms(3_000));
    world.operator.close(world.now);
    world.drain();
    world.sampling = None;
    world.run_until(at_ms(4_000));
    let first = world.robot.status(world.now);
    assert!(first.lost > 300, "{first:?}");
    world.links[OPERATOR] = Delay::new(MS * 5).into();
    let rng = Seed::new(9).stream("the second operator");
    world.operator = Operator::new(udp(OPERATOR), OperatorConfig::new(), rng);
    world.run_until(at_ms(10_000));
    world.start();
    world.run_until(world.now + MS * 500);
    let both = world.robot.status(world.now);
    assert!(both.lost == first.lost && both.messages > first.messages, "{both:?}");
    assert!(both.success > first.success && both.success < 1.0, "{both:?}");
    assert!(both.elapsed_s > 10.0 && both.rate_hz < 500.0, "of all that time: {both:?}");
}

#[test]
fn below_85_percent_delivery_the_rate_steps_down_and_comes_back() {
    let percent = |p: u64| format!("{p}%").parse::<Probability>().unwrap();
    let table = vec![(Duration::ZERO, percent(0)), (MS * 13_000, percent(25)), (MS * 18_000, percent(1))];
    let loss = Loss::bernoulli(Schedule::table(table).unwrap(), Seed::new(5).stream("loss"));
    let links = [Chain::new(vec![loss.into(), Delay::new(MS * 5).into()]), Delay::new(MS * 5).into()];
    let mut world = world(udp, links);
    world.start();
    world.run_until(at_ms(3_000));
    assert!((world.operator.status(world.now).allowed_hz - 1000.0).abs() < 1e-9);
    world.run_until(at_ms(8_000));
    let reduced = world.operator.status(world.now).allowed_hz;
    assert!(reduced < 500.0, "{reduced}");
    world.run_until(at_ms(25_000));
    assert!((world.operator.status(world.now).allowed_hz - 1000.0).abs() < 1e-9);
    let rates = world.observer.operator.iter().filter_map(|(_, event)| match event {
        OperatorEvent::Rate { hz } => Some(*hz),
        _ => None,
    });
    assert_eq!(rates.take(2).collect::<Vec<_>>(), [875.0, 750.0]);
    // What the lower rate left out was dropped for something newer, and counted.
    let status = world.operator.status(world.now);
    assert!(dropped(&status, DropCause::Superseded) > 1_000, "{status:?}");
    assert!(world.robot.status(world.now).one_way.p99_ms < 6.5);
}

#[test]
fn the_clocks_are_known_within_the_stated_uncertainty() {
    let jitter = |name: &str, spread: Duration| {
        let config = JitterConfig::new(spread).mean(spread * 3).distribution(Distribution::Pareto);
        Jitter::new(config, Seed::new(3).stream(name)).unwrap()
    };
    let links = [
        Chain::new(vec![jitter("up", MS).into(), Delay::new(MS * 4).into()]),
        Chain::new(vec![jitter("down", MS * 6).into(), Delay::new(MS * 4).into()]),
    ];
    let mut world = world(udp, links);
    world.clocks =
        [Clock { offset: MS * 3_600_000, drift_ppb: 30_000 }, Clock { offset: MS * 250, drift_ppb: -45_000 }];
    world.start();
    let mut checked = 0;
    for step in 5..300 {
        world.run_until(at_ms(step * 100));
        let [operator, robot] = [world.local(OPERATOR), world.local(ROBOT)];
        let truth = robot.as_nanos() as i64 - operator.as_nanos() as i64;
        for (estimate, truth) in [(world.operator.clock(operator), truth), (world.robot.clock(robot), -truth)]
        {
            let estimate = estimate.expect("they were compared");
            let error = estimate.offset_ns.abs_diff(truth);
            assert!(error <= estimate.uncertainty.as_nanos(), "{error} ns off: {estimate:?}");
            assert!(estimate.uncertainty < MS * 30, "{estimate:?}");
            checked += 1;
        }
    }
    assert_eq!(checked, 590);
    assert_eq!(world.robot.status(world.now).clock_steps, 0);
}

#[test]
fn copies_and_overtaken_states_are_applied_once_or_never() {
    let jitter = JitterConfig::new(MS * 4).mean(MS * 8).reorder(true);
    let jitter = Jitter::new(jitter, Seed::new(8).stream("jitter")).unwrap();
    let twice = Duplicate::new("30%".parse().unwrap(), Seed::new(8).stream("duplicate"));
    let links = [Chain::new(vec![twice.into(), jitter.into()]), Delay::new(MS * 3).into()];
    let mut world = world(udp, links);
    world.start();
    world.run_until(at_ms(4_000));
    let applied = world.observer.applied();
    assert!(applied.len() > 500);
    assert!(applied.windows(2).all(|pair| pair[0].1 < pair[1].1));
    let status = world.robot.status(world.now);
    assert!(status.duplicate > 500 && status.reordered > 500, "{status:?}");
    assert_eq!(dropped(&status, DropCause::Duplicate), status.duplicate);
    assert!(dropped(&status, DropCause::Superseded) > 500);
    let told = |verdict| {
        let acknowledged = world.observer.operator.iter().map(|(_, event)| event.clone());
        let of = |event: &OperatorEvent| matches!(event, OperatorEvent::Acknowledged { verdict: v, .. } if *v == verdict);
        acknowledged.filter(of).count() as u64
    };
    assert!(told(Verdict::Superseded) > 500, "and the operator knows which: {}", told(Verdict::Superseded));
    assert!(status.lost <= 12, "no more than are under way: {}", status.lost);
}

#[test]
fn what_is_older_than_its_deadline_is_refused_on_arrival_and_stops_the_robot() {
    let delay = Schedule::table(vec![(Duration::ZERO, MS * 10), (MS * 12_000, MS * 80)]).unwrap();
    let links = [Delay::new(delay).into(), Delay::new(MS * 10).into()];
    let config = OperatorConfig::new().deadline(MS * 50);
    let mut world = World::new(udp, config, RobotConfig::new(), links, Log::default());
    world.clocks = [Clock { offset: MS * 77_777, drift_ppb: 1_000 }, Clock::default()];
    world.start();
    world.run_until(at_ms(4_000));
    let last = world.observer.applied().last().unwrap().0;
    assert!((at_ms(2_000)..at_ms(2_012)).contains(&last), "{last}");
    assert!(dropped(&world.robot.status(world.now), DropCause::TooLate) > 1_500);
    let stopped = world.observer.robot_at(|event| matches!(event, RobotEvent::Stop { .. })).unwrap();
    assert!(stopped <= last + MS * 100);
}

#[test]
fn a_slow_robot_takes_the_newest_and_drops_the_rest() {
    let slow = RobotConfig::new().processing(Processing::Fixed(MS * 5));
    let mut world = World::new(udp, OperatorConfig::new(), slow, delays(MS * 2), Log::default());
    world.start();
    world.run_until(at_ms(3_000));
    let ages = world.observer.robot.iter().filter_map(|(_, event)| match event {
        RobotEvent::Apply { age, .. } => Some(*age),
        _ => None,
    });
    let ages: Vec<_> = ages.collect();
    assert!((500..600).contains(&ages.len()), "{}", ages.len());
    assert!(ages.iter().all(|age| *age <= MS * 9), "newest first, or it would be seconds");
    assert!(dropped(&world.robot.status(world.now), DropCause::Superseded) > 2_000);
    assert!(world.robot.waiting() <= 6);
}

#[test]
fn a_slow_robot_in_order_fills_its_queue_and_drops_the_oldest() {
    let slow = RobotConfig::new().processing(Processing::Uniform { least: MS * 4, largest: MS * 6 });
    let slow = slow.queue(20).order(Order::Fifo);
    let mut world = World::new(udp, OperatorConfig::new(), slow, delays(MS * 2), Log::default());
    world.start();
    world.run_until(at_ms(3_000));
    assert!(dropped(&world.robot.status(world.now), DropCause::QueueFullPackets) > 2_000);
    assert!(world.observer.applied().len() > 400);
    assert_eq!(world.robot.waiting(), 21);
    world.robot.emergency_stop(world.local(ROBOT));
    assert_eq!(world.robot.waiting(), 0, "what waited is not for a stopped robot");
}

#[test]
fn the_source_s_71_bytes_carry_a_session_too_and_so_do_its_256() {
    // The robot's own samples are as long as it says, whatever the operator's are.
    let [short, long] = [71, 256].map(the_source_s_samples_carry_a_session);
    // With the headers of IPv4 and UDP.
    let (found, expected) = (long / short, (256.0 + 28.0) / (71.0 + 28.0));
    assert!((found - expected).abs() < 0.01, "{short} bit/s with 71 bytes, {long} bit/s with 256");
}

/// Of so many bytes; bits per second that the operator sends.
fn the_source_s_samples_carry_a_session(length: usize) -> f64 {
    let operator = OperatorConfig::new().codec(Codec::Omni71).sample_length(length);
    let robot = RobotConfig::new().codec(Codec::Omni71);
    let mut world = World::new(udp, operator, robot, delays(MS * 5), Log::default());
    world.clocks = [Clock { offset: MS * 5_000, drift_ppb: 10_000 }, Clock::default()];
    world.start();
    world.run_until(at_ms(1_000));
    world.emergency_stop();
    world.run_until(at_ms(1_100));
    let stopped = world.observer.operator_at(|event| matches!(event, OperatorEvent::EmergencyStopped { .. }));
    assert!(stopped.expect("it stops") <= at_ms(1_011));
    let before = world.observer.applied().len();
    assert!(before > 500);
    assert!(world.observer.applied()[before - 1].0 <= at_ms(1_005));
    assert!(!world.resume() && world.reset(), "first the reset");
    world.run_until(at_ms(1_150));
    assert_eq!(world.robot.state(), taut_session::RobotState::Paused, "which moves nothing");
    assert!(world.resume());
    world.run_until(at_ms(1_350));
    assert!(world.observer.applied().len() > before + 150);
    let status = world.operator.status(world.now);
    assert_eq!((status.success, status.unmatched_echoes), (1.0, 0));
    assert!((10.0..10.3).contains(&status.rtt.p50_ms), "{:?}", status.rtt);
    assert!(world.observer.operator_at(|event| matches!(event, OperatorEvent::Feedback { .. })).is_some());
    world.operator.status(world.local(OPERATOR)).throughput_bps
}

#[test]
fn limits_hold_whatever_the_operator_sends() {
    let limits = MotionLimits::new().position([-0.1; 3], [0.1; 3]).velocity(0.5).force(3.0).step(0.001);
    let robot = RobotConfig::new().limits(limits);
    let mut world = World::new(udp, OperatorConfig::new(), robot, delays(MS), Log::default());
    world.robot.measure(world.local(1), [0.0; 3]);
    world.start();
    world.sampling = None;
    for i in 0..500u16 {
        let far = f32::from(i % 7) - 3.0;
        let state =
            State { position: [far; 3], velocity: [far; 3], force: [9.0; 3], ..State::at(world.local(0)) };
        world.send(state);
        world.run_until(world.now + MS);
    }
    let states = world.observer.robot.iter().filter_map(|(_, event)| match event {
        RobotEvent::Apply { state, .. } => Some(*state),
        _ => None,
    });
    let states: Vec<_> = states.collect();
    let norm = |v: [f32; 3]| v.iter().map(|x| f64::from(x * x)).sum::<f64>().sqrt();
    for pair in states.windows(2) {
        let step: [f32; 3] = std::array::from_fn(|i| pair[1].position[i] - pair[0].position[i]);
        assert!(
            norm(step) <= 0.001_001 && norm(pair[1].velocity) <= 0.500_001 && norm(pair[1].force) <= 3.000_01
        );
        assert!(pair[1].position.iter().all(|x| x.abs() <= 0.1));
    }
    assert!(states.len() > 450);
}

#[test]
fn what_is_beyond_the_limits_is_refused_and_feeds_no_watchdog() {
    let limits = MotionLimits::new().position([-0.1; 3], [0.1; 3]).policy(LimitPolicy::Refuse);
    let robot = RobotConfig::new().limits(limits);
    let mut world = World::new(udp, OperatorConfig::new(), robot, delays(MS), Log::default());
    world.start();
    world.sampling = None;
    let send = |world: &mut World<_, Log>, x: f32, states: u32| {
        for _ in 0..states {
            let sequence = world.send(State { position: [x, 0.0, 0.0], ..State::at(world.local(0)) });
            assert!(sequence.is_some());
            world.run_until(world.now + MS);
        }
    };
    send(&mut world, 0.05, 10);
    let within = world.observer.applied().last().expect("it moved").0;
    send(&mut world, 0.5, 200);
    assert_eq!(world.observer.applied().last().expect("it moved").0, within);
    let stop = RobotEvent::Stop { why: StopCause::Watchdog };
    assert_eq!(
        world.observer.robot_at(|event| *event == stop),
        Some(within + MS * 99),
        "a millisecond on its way"
    );
    let refused = |event: &OperatorEvent| {
        matches!(event, OperatorEvent::Acknowledged { verdict: Verdict::OutOfLimits, .. })
    };
    assert!(world.observer.operator_at(refused).is_some());
    assert!(dropped(&world.robot.status(world.now), DropCause::OutOfLimits) > 90);
}

#[test]
fn the_same_seed_gives_the_same_bytes_at_the_same_times() {
    let run = || {
        let jitter = Jitter::new(JitterConfig::new(MS * 2).mean(MS * 5), Seed::new(1).stream("j")).unwrap();
        let loss = Loss::bernoulli("5%".parse::<Probability>().unwrap(), Seed::new(1).stream("l"));
        let links = [Chain::new(vec![loss.into(), jitter.into()]), Delay::new(MS * 5).into()];
        let mut world = world(udp, links);
        world.start();
        world.run_until(at_ms(2_000));
        (world.observer.fingerprint, world.operator.status(world.now), world.robot.status(world.now))
    };
    assert_eq!(run(), run());
}

#[test]
fn the_status_is_a_line_and_json() {
    let mut world = world(udp, delays(MS * 5));
    world.start();
    world.run_until(at_ms(2_000));
    let status = world.operator.status(world.now);
    let line = status.to_string();
    assert!(
        line.starts_with("[Status] Msgs: ") && line.ends_with("| RTT: 10.0/10.0/10.0 ms | Jitter: 0.0 ms"),
        "{line}"
    );
    let json = serde_json::to_value(&status).unwrap();
    assert_eq!(json["state"], "ENABLED");
    assert_eq!(json["streams"][2]["name"], "normal");
    assert!(json["rtt"]["p99_ms"].as_f64().unwrap() > 9.9);
    assert!(json["clock"]["uncertainty_ns"].as_u64().unwrap() > 0);
    // 85 bytes in 113, every so often a comparison of clocks.
    assert!((0.68..0.755).contains(&status.efficiency), "{}", status.efficiency);
    assert!((860_000.0..980_000.0).contains(&status.throughput_bps), "{}", status.throughput_bps);
}

#[test]
fn feedback_that_is_not_sent_is_counted_by_its_cause() {
    let mut world = world(udp, delays(MS));
    world.start();
    let now = world.local(ROBOT);
    let broken = State { force: [f32::NAN, 0.0, 0.0], ..State::at(now) };
    assert_eq!(world.robot.send_feedback(now, broken), Err(StateError::NotFinite));
    let counted = world.robot.status(now).feedback_dropped;
    assert_eq!(counted.get(DropCause::NotFinite.name()), Some(&1), "{counted:?}");
    assert!(world.operator.status(now).feedback_dropped.is_empty());
}
