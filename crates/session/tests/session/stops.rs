//! Stops that cannot fail: age, clocks, what is kept, who may let go.

use taut_core::{Bitrate, Bytes, DropCause, Duration, Seed, Transport};
use taut_link::{Bottleneck, Chain, Cut, Delay, DropTail};
use taut_session::{
    Answer, Codec, Latch, MotionLimits, Operator, OperatorConfig, OperatorEvent, ResumeError, Robot,
    RobotConfig, RobotEvent, RobotState, State, StopCause, patience,
};
use taut_transport::entropy::Entropy;
use taut_transport::sctp::{Sctp, SctpConfig};
use taut_wire::session::{Body, Frame};

use crate::harness::{Log, MS, OPERATOR, ROBOT, World, at_ms, dropped, udp};
use crate::{delays, world};

fn world_with<T: Transport>(
    transport: impl Fn(usize) -> T,
    robot: RobotConfig,
    links: [Chain; 2],
) -> World<T, Log> {
    World::new(transport, OperatorConfig::new().deadline(MS * 10_000), robot, links, Log::default())
}

fn stops<T>(world: &World<T, Log>) -> Vec<(taut_core::Time, StopCause)> {
    let stops = world.observer.robot.iter().filter_map(|(at, event)| match event {
        RobotEvent::Stop { why } => Some((*at, *why)),
        _ => None,
    });
    stops.collect()
}

#[test]
fn the_watchdog_counts_the_time_that_motion_was_on_its_way() {
    // 900 ms one way, and an operator that lets its states age for 10 s; then the link is cut.
    let way =
        || Chain::new(vec![Cut::at(at_ms(6_000)).lasting(MS * 9_000).into(), Delay::new(MS * 900).into()]);
    let robot = RobotConfig::new().watchdog(MS * 2_000).max_age(MS * 2_000);
    let mut world = world_with(udp, robot, [way(), way()]);
    world.start();
    world.run_until(at_ms(9_000));
    let last = world.observer.applied().last().expect("it moved").0;
    let (stopped, why) = stops(&world)[0];
    assert_eq!(why, StopCause::Watchdog);
    // The last was made just before the cut, 900 ms before it came: the stop is two seconds after it was made.
    assert!(last <= at_ms(6_900) && stopped <= at_ms(8_001), "{last} {stopped}");
}

#[test]
fn a_device_is_told_for_how_long_it_may_go_on_by_itself() {
    let mut world = world_with(udp, RobotConfig::new(), delays(MS * 5));
    assert_eq!(world.robot.watchdog_due(), None);
    world.start();
    world.run_until(at_ms(1_000));
    world.sampling = None;
    world.run_until(at_ms(1_010));
    let due = world.robot.watchdog_due();
    world.run_until(at_ms(2_000));
    assert_eq!(due, stops(&world).first().map(|(at, _)| *at));
    assert_eq!(world.robot.watchdog_due(), None, "what waits moves nothing any more");
}

#[test]
fn a_state_that_may_be_too_old_by_what_is_unsure_of_the_clocks_is_not_applied() {
    // 60 ms there and 40 back: nobody can tell the way there from 50 ± 50 ms.
    let links = || [Delay::new(MS * 60).into(), Delay::new(MS * 40).into()];
    let mut world = world_with(udp, RobotConfig::new().watchdog(MS * 300).max_age(MS * 95), links());
    world.run_until(at_ms(1_000));
    world.resume();
    world.run_until(at_ms(1_300));
    assert_eq!(world.robot.state(), RobotState::Paused);
    let mut world = world_with(udp, RobotConfig::new().watchdog(MS * 300).max_age(MS * 120), links());
    world.start();
    world.run_until(at_ms(1_000));
    assert!(world.observer.applied().len() > 500);
}

#[test]
fn a_robot_refuses_to_move_over_a_path_that_is_too_slow_and_both_ends_name_the_values() {
    let mut world = world(udp, delays(MS * 90));
    world.run_until(at_ms(1_000));
    world.resume();
    world.run_until(at_ms(1_400));
    assert_eq!(world.robot.state(), RobotState::Paused);
    let at_robot = world.observer.robot.iter().find_map(|(_, event)| match event {
        RobotEvent::PathTooSlow { age } => Some(*age),
        _ => None,
    });
    let at_operator = world.observer.operator.iter().find_map(|(_, event)| match event {
        OperatorEvent::ResumeRefused { answer: Some(Answer::PathTooSlow), age } => Some(*age),
        _ => None,
    });
    let age = at_robot.expect("its owner is told");
    assert!((MS * 179..MS * 182).contains(&age), "90 ms, and as much is unsure: {age}");
    assert!(at_operator.expect("so is the operator").abs_diff(age) <= Duration::from_micros(1));
    let robot = RobotConfig::new().watchdog(patience(age)).max_age(patience(age));
    let mut world = world_with(udp, robot, delays(MS * 90));
    world.start();
    world.run_until(at_ms(2_000));
    assert!(world.observer.applied().len() > 1_000 && stops(&world).is_empty());
}

#[test]
fn a_clock_that_was_set_forward_at_either_end_stops_the_robot() {
    for frozen in [OPERATOR, ROBOT] {
        let mut world = world(udp, delays(MS * 5));
        world.start();
        world.run_until(at_ms(3_000));
        // To the end whose clock stands still it is as if the other's had been set forward.
        world.clocks[1 - frozen].offset += MS * 1_500;
        world.run_until(at_ms(4_000));
        let (at, why) = stops(&world)[0];
        assert!(matches!(why, StopCause::ClockStepped | StopCause::Watchdog), "{why:?}");
        assert!(at <= at_ms(3_100), "{at}");
        let after =
            world.observer.applied().into_iter().filter(|(applied, _)| *applied > at_ms(3_010)).count();
        assert!(after <= 10, "{after} states of unknown age moved the robot");
        assert_eq!(world.robot.state(), RobotState::Paused, "until a person resumes");
        assert!(world.resume());
        world.run_until(at_ms(4_500));
        assert_eq!(world.robot.state(), RobotState::Enabled);
    }
}

#[test]
fn a_clock_set_forward_at_the_operator_is_a_stop_that_says_so() {
    let mut world = world(udp, delays(MS * 5));
    world.start();
    world.run_until(at_ms(3_000));
    world.jump(OPERATOR, MS * 1_500);
    world.run_until(at_ms(3_100));
    assert_eq!(stops(&world)[0].1, StopCause::ClockStepped);
    assert_eq!(world.operator.robot(), (RobotState::Paused, StopCause::ClockStepped));
}

#[test]
fn a_stop_is_acknowledged_when_it_is_written_and_as_not_kept_when_it_could_not_be() {
    let acknowledged = |world: &World<_, Log>| {
        world.observer.operator.iter().find_map(|(at, event)| match event {
            OperatorEvent::EmergencyStopped { kept, .. } => Some((*at - at_ms(1_000), *kept)),
            _ => None,
        })
    };
    // Not asked for; at once; a slow disk; one that fails; one that hangs.
    let keeps = || RobotConfig::new().keeps_latch(true);
    let cases = [
        (RobotConfig::new(), Some(Duration::ZERO), 10, false),
        (keeps(), Some(Duration::ZERO), 10, true),
        (keeps(), Some(MS * 40), 50, true),
        (keeps(), None, 10, false),
        (keeps(), Some(MS * 60_000), 1_010, false),
    ];
    for (robot, disk, after, kept) in cases {
        let mut world = world_with(udp, robot, delays(MS * 5));
        world.disk = disk;
        world.start();
        world.run_until(at_ms(1_000));
        world.emergency_stop();
        world.run_until(at_ms(3_000));
        assert_eq!(stops(&world), [(at_ms(1_005), StopCause::Emergency)], "the device stops first");
        let (at, was_kept) = acknowledged(&world).expect("it was acknowledged");
        assert_eq!((at, was_kept), (MS * after, kept), "{disk:?}");
        assert_eq!(world.robot.state(), RobotState::Fault);
    }
}

#[test]
fn what_was_kept_holds_in_the_next_life_until_somebody_resets_it() {
    let mut world = world_with(udp, RobotConfig::new().keeps_latch(true), delays(MS * 5));
    world.start();
    world.run_until(at_ms(1_000));
    world.emergency_stop();
    world.run_until(at_ms(1_100));
    let kept = world.observer.robot.iter().rev().find_map(|(_, event)| match event {
        RobotEvent::Keep { latch, .. } => Some(*latch),
        _ => None,
    });
    let kept = kept.expect("it was given out to be written");
    assert_eq!(kept, Some(Latch { cause: StopCause::Emergency, held_locally: false, held_remotely: true }));
    let config = RobotConfig::new().keeps_latch(true).latched(kept);
    world.robot = Robot::new(udp(ROBOT), config, taut_core::Seed::new(99).stream("its second life"));
    let before = world.observer.applied().len();
    world.run_until(at_ms(2_500));
    assert_eq!(world.robot.state(), RobotState::Fault);
    assert_eq!(world.operator.resume(world.local(OPERATOR)), Err(ResumeError::Latched));
    assert!(world.reset());
    world.run_until(at_ms(2_600));
    assert_eq!(world.robot.state(), RobotState::Paused);
    assert_eq!(world.observer.applied().len(), before);
    let cleared = world.observer.robot.iter().rev().find_map(|(_, event)| match event {
        RobotEvent::Keep { latch, .. } => Some(*latch),
        _ => None,
    });
    assert_eq!(cleared, Some(None), "and that is written as well");
    assert!(world.resume());
    world.run_until(at_ms(2_700));
    assert_eq!(world.robot.state(), RobotState::Enabled);
}

#[test]
fn a_robot_that_demands_an_enabling_input_moves_only_while_it_is_held() {
    let mut world = world_with(udp, RobotConfig::new().hold_to_run(true), delays(MS * 5));
    world.start();
    world.run_until(at_ms(1_000));
    let demanded =
        |event: &OperatorEvent| matches!(event, OperatorEvent::Connected { hold_to_run: true, .. });
    assert!(world.observer.operator_at(demanded).is_some(), "the operator knows");
    assert!(world.observer.applied().len() > 500);
    world.enabling = false;
    world.run_until(at_ms(1_100));
    let (at, why) = stops(&world)[0];
    assert!(at <= at_ms(1_006) && why == StopCause::Released, "{at} {why:?}");
    // Held again is not resumed.
    world.enabling = true;
    world.run_until(at_ms(1_300));
    assert_eq!(world.robot.state(), RobotState::Paused);
    assert!(world.resume());
    world.run_until(at_ms(1_400));
    assert_eq!(world.robot.state(), RobotState::Enabled);
    // Nobody holds it, and somebody resumes.
    world.enabling = false;
    world.run_until(at_ms(1_500));
    assert!(world.resume());
    let before = world.observer.applied().len();
    world.run_until(at_ms(1_600));
    assert_eq!((world.robot.state(), world.observer.applied().len()), (RobotState::Paused, before));
}

#[test]
fn letting_go_in_a_state_waits_for_no_turn_of_a_lower_rate() {
    let robot = RobotConfig::new().hold_to_run(true).watchdog(MS * 2_000);
    let mut world = World::new(udp, OperatorConfig::new().rate(10), robot, delays(MS * 5), Log::default());
    world.start();
    for (resumed, after) in [1_000, 1_030, 1_085].into_iter().enumerate() {
        let let_go = at_ms(1_000 * resumed as u64 + after);
        world.run_until(let_go);
        assert_eq!(world.robot.state(), RobotState::Enabled);
        world.enabling = false;
        world.run_until(let_go + MS * 300);
        let (at, why) = stops(&world)[resumed];
        assert!(at <= let_go + MS * 7 && why == StopCause::Released, "{at} {why:?}, let go at {let_go}");
        world.enabling = true;
        assert!(world.resume());
    }
    assert_eq!(world.operator.status(world.now).streams[0].sent, 3, "once each time");
}

#[test]
fn letting_go_waits_for_no_turn_where_the_first_state_that_says_so_is_refused() {
    let robot = RobotConfig::new().hold_to_run(true).watchdog(MS * 2_000);
    let mut world = World::new(udp, OperatorConfig::new().rate(10), robot, delays(MS * 5), Log::default());
    world.start();
    let let_go = at_ms(1_030);
    world.run_until(let_go);
    world.sampling = None;
    let released = State { enabling: false, ..State::at(let_go) };
    assert_eq!(world.send(State { force: [f32::NAN; 3], ..released }), None);
    assert!(world.send(released).is_some());
    world.run_until(let_go + MS * 7);
    assert_eq!(stops(&world).first().map(|(_, why)| *why), Some(StopCause::Released));
}

/// Nor does it overtake what the robot would otherwise be told.
#[test]
fn letting_go_is_in_its_turn_where_the_robot_does_not_demand_the_enabling_input() {
    let mut world = world_with(udp, RobotConfig::new(), delays(MS * 5));
    world.start();
    world.enabling = false;
    world.run_until(world.now + MS * 100);
    assert_eq!(world.operator.status(world.now).streams[0].sent, 0);
    assert_eq!(world.robot.state(), RobotState::Enabled);
}

#[test]
fn a_locked_device_moves_nothing_and_does_not_stop_the_robot() {
    let mut world = world(udp, delays(MS));
    world.start();
    world.run_until(at_ms(1_000));
    world.sampling = None;
    for ms in 0..200u16 {
        let state =
            State { position: [f32::from(ms), 0.0, 0.0], locked: true, ..State::at(world.local(OPERATOR)) };
        world.send(state);
        world.run_until(world.now + MS);
    }
    assert_eq!(world.robot.state(), RobotState::Enabled);
    let moved = world
        .observer
        .robot
        .iter()
        .any(|(_, event)| matches!(event, RobotEvent::Apply { state, .. } if state.position.iter().any(|x| x.abs() > 0.0)));
    assert!(!moved);
}

#[test]
fn more_states_in_a_second_than_the_robot_takes_are_dropped_and_counted() {
    let robot = RobotConfig::new().limits(MotionLimits::new().rate(500.0));
    let mut world = world_with(udp, robot, delays(MS));
    world.start();
    let before = world.observer.applied().len();
    world.run_until(world.now + MS * 2_000);
    let applied = world.observer.applied().len() - before;
    assert!((950..=1_060).contains(&applied), "{applied} in two seconds");
    assert!(dropped(&world.robot.status(world.now), DropCause::RateLimited) > 800);
    assert_eq!(world.robot.state(), RobotState::Enabled);
}

#[test]
fn who_cannot_name_a_stop_resets_none_of_an_earlier_session() {
    let config = || RobotConfig::new().codec(Codec::Omni71);
    let latch = Some(Latch { cause: StopCause::Emergency, held_locally: false, held_remotely: true });
    let operator = OperatorConfig::new().codec(Codec::Omni71);
    let mut world = World::new(udp, operator, config().latched(latch), delays(MS * 5), Log::default());
    world.run_until(at_ms(500));
    for _ in 0..3 {
        world.resume();
        world.run_until(world.now + MS * 1_500);
    }
    assert_eq!(world.robot.state(), RobotState::Fault);
}

/// A second operator of `omni71`, which has no hello, counts from the beginning.
#[test]
fn an_operator_without_a_hello_that_begins_anew_stops_the_robot_like_the_first_at_once_and_later() {
    for silence in [20, 3_000] {
        let codec = Codec::Omni71;
        let (operator, robot) = (OperatorConfig::new().codec(codec), RobotConfig::new().codec(codec));
        let mut world = World::new(udp, operator.clone(), robot, delays(MS * 5), Log::default());
        world.start();
        world.run_until(at_ms(3_000));
        world.operator = Operator::new(udp(OPERATOR), operator, Seed::new(12).stream("operator"));
        world.sampling = None;
        world.run_until(world.now + MS * silence);
        world.emergency_stop();
        world.run_until(world.now + MS * 100);
        assert_eq!(world.robot.state(), RobotState::Fault, "{silence} ms");
        // What came before it lets go of nothing.
        let applied = world.observer.applied().len();
        world.reset();
        world.run_until(world.now + MS * 1_000);
        assert_ne!(world.robot.state(), RobotState::Enabled);
        assert_eq!(world.observer.applied().len(), applied);
    }
}

#[test]
fn a_force_is_let_go_of_where_the_robot_does_not_know_the_session_any_more_and_the_next_ones_feedback_is_acknowledged_by_its_own_numbers()
 {
    let mut world = world(udp, delays(MS * 5));
    world.start();
    world.run_until(at_ms(4_000));
    assert!(world.observer.operator_at(|event| *event == OperatorEvent::FeedbackLost).is_none());
    // It began anew, and has no hand to push yet.
    world.measuring = None;
    world.sampling = None;
    world.robot = Robot::new(udp(ROBOT), RobotConfig::new(), Seed::new(12).stream("robot"));
    let began = world.now;
    let _ = world.send(State::at(world.local(OPERATOR)));
    world.run_until(began + MS * 200);
    let lost = world.observer.operator_at(|event| *event == OperatorEvent::FeedbackLost);
    assert!(lost.is_some_and(|lost| lost < began + MS * 120), "{lost:?}");
    // Its feedback counts from the beginning.
    world.observer.sent[OPERATOR].clear();
    world.start();
    world.run_until(world.now + MS * 200);
    let told: Vec<u16> = world.observer.sent[OPERATOR]
        .iter()
        .filter_map(|bytes| match Frame::parse(bytes).map(|frame| frame.body) {
            Ok(Body::Arrivals(arrivals) | Body::AcknowledgingState(_, arrivals)) => Some(arrivals.sequence),
            _ => None,
        })
        .collect();
    assert!(told.len() > 100 && told.iter().all(|sequence| *sequence < 1_000), "{told:?}");
}

#[test]
fn letting_go_in_a_state_stops_a_robot_that_demands_it_also_while_the_clocks_are_not_compared() {
    let robot = RobotConfig::new().hold_to_run(true).watchdog(MS * 2_000);
    let mut world = world_with(udp, robot, delays(MS * 5));
    // Longer than the microseconds of a state count: 71 minutes.
    world.clocks[OPERATOR].offset = Duration::from_secs(7_200);
    world.start();
    world.run_until(world.now + MS * 1_000);
    world.jump(OPERATOR, MS * 20);
    let patience = world.now + MS * 5_000;
    while world.robot_clock_error().is_some() {
        assert!(world.now < patience, "the step is noticed");
        world.run_until(world.now + MS);
    }
    world.enabling = false;
    let let_go = world.now;
    world.run_until(let_go + MS * 7);
    assert_eq!((world.robot_clock_error(), world.robot.state()), (None, RobotState::Paused));
    assert_eq!(stops(&world).first().map(|(_, why)| *why), Some(StopCause::Released));
}

#[test]
fn a_device_that_fails_stops_the_robot_until_a_person_resumes() {
    let mut world = world(udp, delays(MS * 5));
    world.start();
    world.run_until(at_ms(1_000));
    world.robot.stop(world.local(ROBOT), StopCause::Device);
    world.drain();
    world.run_until(at_ms(1_100));
    assert_eq!(stops(&world), [(at_ms(1_000), StopCause::Device)]);
    assert_eq!(world.operator.robot(), (RobotState::Paused, StopCause::Device));
    // A button whose line is lost is latched, and reset beside the robot.
    world.robot.stop(world.local(ROBOT), StopCause::ButtonLost);
    world.drain();
    world.run_until(at_ms(1_200));
    assert_eq!(world.operator.robot(), (RobotState::Fault, StopCause::ButtonLost));
    world.reset();
    world.run_until(at_ms(1_300));
    assert_eq!(world.robot.state(), RobotState::Fault);
}

#[test]
fn an_enabling_input_that_was_let_go_while_nothing_came_through_stops_the_robot_all_the_same() {
    let way =
        || Chain::new(vec![Cut::at(at_ms(2_000)).lasting(MS * 1_200).into(), Delay::new(MS * 5).into()]);
    let robot = RobotConfig::new().hold_to_run(true).watchdog(MS * 2_000);
    let mut world = world_with(udp, robot, [way(), way()]);
    world.start();
    world.run_until(at_ms(2_100));
    world.enabling = false;
    world.run_until(at_ms(3_100));
    world.enabling = true;
    world.run_until(at_ms(3_500));
    assert_eq!(
        stops(&world).first().map(|(_, why)| *why),
        Some(StopCause::Released),
        "held again is not resumed"
    );
    assert_eq!(world.robot.state(), RobotState::Paused);
    assert!(world.resume());
    world.run_until(at_ms(3_700));
    assert_eq!(world.robot.state(), RobotState::Enabled);
}

#[test]
fn without_a_comparison_of_clocks_one_that_is_set_forward_is_noticed_too() {
    let codec = Codec::Omni71;
    let (operator, robot) = (OperatorConfig::new().codec(codec), RobotConfig::new().codec(codec));
    let mut world = World::new(udp, operator, robot, delays(MS * 5), Log::default());
    world.clocks[ROBOT].offset = MS * 10_000;
    world.start();
    world.run_until(at_ms(1_000));
    world.jump(OPERATOR, MS * 1_500);
    world.run_until(at_ms(1_200));
    assert_eq!(stops(&world).first().map(|(_, why)| *why), Some(StopCause::ClockStepped));
}

#[test]
fn what_could_not_be_written_is_kept_as_soon_as_it_can_be() {
    let mut world = world_with(udp, RobotConfig::new().keeps_latch(true), delays(MS * 5));
    world.disk = None;
    world.start();
    world.run_until(at_ms(1_000));
    world.emergency_stop();
    world.run_until(at_ms(1_100));
    let number = world.observer.robot.iter().find_map(|(_, event)| match event {
        RobotEvent::Keep { number, .. } => Some(*number),
        _ => None,
    });
    // Whoever writes tried again, and the disk had room.
    world.robot.kept(world.local(ROBOT), number.expect("it was given out"), true);
    world.emergency_stop();
    world.run_until(at_ms(1_200));
    let kept: Vec<bool> = world
        .observer
        .operator
        .iter()
        .filter_map(|(_, event)| match event {
            OperatorEvent::EmergencyStopped { kept, .. } => Some(*kept),
            _ => None,
        })
        .collect();
    assert_eq!(kept, [false, true]);
}

/// The robot's machine is paused for so long, as a virtual one is: its clock stands still, and what comes waits in its sockets.
#[test]
fn a_robot_that_was_frozen_applies_nothing_that_is_older_than_its_clocks_are_unsure() {
    let mut world = world(udp, delays(MS * 5));
    world.clocks[ROBOT].offset = MS * 60_000;
    world.start();
    world.run_until(at_ms(3_000));
    world.freeze(ROBOT, MS * 1_500);
    world.run_until(at_ms(5_000));
    let oldest = world.observer.applied().iter().filter(|(at, _)| *at >= at_ms(4_500)).count();
    // 5 ms one way: until one is 5 ms ahead of its clock, those before it look fresh.
    assert!(oldest <= 12, "{oldest} states from before the pause moved the robot");
    let (at, why) = stops(&world)[0];
    assert!(at <= at_ms(4_511), "a round trip later the clocks were compared again: {at}");
    assert_eq!((why, world.robot.state()), (StopCause::ClockStepped, RobotState::Paused));
}

/// Without a window nothing keeps states from filling the path's queue before a stop. What bounds the stop then is the age of motion.
#[test]
fn without_a_window_a_stop_behind_a_queue_of_states_costs_the_largest_age_of_motion_at_most() {
    let mut waited = Vec::new();
    // Of 1000 states a second somewhat more are made than fit: the later a stop is pressed, the more wait before it.
    for (rate, after) in [900_000, 860_000, 820_000, 780_000, 740_000, 700_000]
        .into_iter()
        .flat_map(|rate| (0..600).step_by(50).map(move |after| (rate, after)))
    {
        let queue = DropTail::default().limit_bytes(Bytes::new(10_000_000));
        let narrow = Bottleneck::new(Bitrate::from_bps(rate), queue);
        let links = [Chain::new(vec![narrow.into(), Delay::new(MS).into()]), Delay::new(MS).into()];
        let operator = OperatorConfig::new().window(false).deadline(MS * 10_000);
        let mut world = World::new(udp, operator, RobotConfig::new(), links, Log::default());
        world.start();
        let pressed = world.now + MS * after;
        world.run_until(pressed);
        world.emergency_stop();
        world.run_until(pressed + MS * 3_000);
        let latest = pressed + MS * 100;
        let (stopped, why) = stops(&world)[0];
        assert!(stopped <= latest, "{why:?} at {stopped}, pressed at {pressed}");
        assert!(world.observer.applied().iter().all(|(at, _)| *at <= latest));
        if why == StopCause::Emergency {
            waited.push(stopped - pressed);
        }
    }
    assert!(waited.iter().any(|waited| *waited > MS * 50), "states were before it: {waited:?}");
}

fn sctp(end: usize) -> Sctp {
    let (make, name) = if end == OPERATOR {
        (Sctp::client as fn(_, _) -> _, "client")
    } else {
        (Sctp::server as _, "server")
    };
    make(SctpConfig::new(), Entropy::seeded(Seed::new(1), name))
}

/// A network with 10 ms each way that carries nothing for `outage` ms in the directions of `cut`; the stop is pressed `pressed` ms after
/// that began.
fn stopped_over_sctp(outage: u64, pressed: u64, cut: [bool; 2]) -> (World<Sctp, Log>, Duration) {
    let way = |cut: bool| {
        let from = at_ms(if cut { 2_000 } else { 1_000_000 });
        Chain::new(vec![Cut::at(from).lasting(MS * outage).into(), Delay::new(MS * 10).into()])
    };
    let mut world = world_with(sctp, RobotConfig::new(), [way(cut[0]), way(cut[1])]);
    world.start();
    let pressed = at_ms(2_000 + pressed);
    world.run_until(pressed);
    world.emergency_stop();
    world.run_until(at_ms(2_000 + outage + 4_500));
    let stop = RobotEvent::Stop { why: StopCause::Emergency };
    let arrived = world.observer.robot_at(|event| *event == stop).expect("it arrives");
    (world, arrived - pressed)
}

/// Its copies follow the session's own timer, 100 ms apart at most, and none waits for another.
#[test]
fn sctp_does_not_hold_up_a_stop_until_its_timer_expires() {
    for outage in [1, 2, 5, 20, 50, 200, 500, 900] {
        let (_, there) = stopped_over_sctp(outage, 0, [true, false]);
        let (_, back) = stopped_over_sctp(outage, 0, [false, true]);
        assert!(there <= MS * (outage + 10 + 100), "{outage} ms: {there}");
        assert!(outage > 50 || there <= MS * (outage + 30), "{outage} ms: {there}");
        assert_eq!(back, MS * 10, "{outage} ms");
    }
}

/// Once the timer has expired, one packet may be under way until it expires again, 4 s at most: a copy of the stop that cannot leave opens the window.
#[test]
fn however_long_there_was_no_path_sctp_holds_up_a_stop_for_a_round_trip_and_a_half_at_most() {
    sctp_holds_up_a_stop_for_a_round_trip_and_a_half(&[1_100, 2_500, 20_000]);
}

#[test]
#[ignore = "make test-long"]
fn however_long_there_was_no_path_sctp_holds_up_a_stop_for_a_round_trip_and_a_half_at_length() {
    sctp_holds_up_a_stop_for_a_round_trip_and_a_half(&[1_100, 1_500, 2_500, 5_000, 20_000]);
}

fn sctp_holds_up_a_stop_for_a_round_trip_and_a_half(outages: &[u64]) {
    let (copies, round_trip, held_acknowledgement) = (MS * 100, MS * 20, MS);
    for &outage in outages {
        for pressed in [20, outage / 2, outage - 50, outage + 100] {
            for cut in [[true, false], [false, true], [true, true]] {
                let (_, after) = stopped_over_sctp(outage, pressed, cut);
                let late = after.saturating_sub(MS * outage.saturating_sub(pressed));
                let longest = copies + round_trip * 3 / 2 + held_acknowledgement;
                assert!(late <= longest, "{outage} ms without {cut:?}, pressed after {pressed}: {late}");
            }
        }
    }
}
