//! Emergency stop and resume.

use taut_core::{Duration, Probability, Seed, Time, Transport};
use taut_link::{Chain, Cut, Delay, Jitter, JitterConfig, Loss};
use taut_session::{
    Answer, OperatorConfig, OperatorEvent, Order, Priority, ResumeError, RobotConfig, RobotEvent, RobotState,
    State, StateError, StopCause,
};

use crate::harness::{Log, MS, OPERATOR, ROBOT, World, at_ms, tcp, udp};
use crate::{delays, ms_between, rated, world};

fn acknowledged(log: &Log) -> Option<(Time, Duration)> {
    log.operator.iter().find_map(|(at, event)| match event {
        OperatorEvent::EmergencyStopped { after, .. } => Some((*at, *after)),
        _ => None,
    })
}

fn refuses_reset(why: Answer) -> impl Fn(&OperatorEvent) -> bool {
    move |event| matches!(event, OperatorEvent::ResetRefused { answer: Some(answer) } if *answer == why)
}

/// 10 ms each way, 20 Mbit/s; more states than the queue holds wait their turn.
fn an_emergency_overtakes_a_full_queue<T: Transport>(transport: impl Fn(usize) -> T) {
    let config = OperatorConfig::new().order(Order::Fifo).deadline(MS * 5_000);
    let robot = RobotConfig::new().max_age(MS * 5_000);
    let mut world = World::new(transport, config, robot, rated(20, MS * 10), Log::default());
    world.start();
    world.run_until(at_ms(1_000));
    for i in 0..2_500 {
        let priority = if i % 5 == 0 { Priority::High } else { Priority::Normal };
        world.send(State { priority, ..State::at(world.local(OPERATOR)) });
    }
    world.run_until(at_ms(1_050));
    assert!(world.operator.waiting() > 2_000, "{}", world.operator.waiting());
    world.emergency_stop();
    assert_eq!(world.operator.waiting(), 0, "what waited is not for this robot any more");
    world.run_until(at_ms(1_200));
    let (acknowledged, after) = acknowledged(&world.observer).expect("it was acknowledged");
    assert!(ms_between(at_ms(1_050), acknowledged) <= 21.0, "{}", ms_between(at_ms(1_050), acknowledged));
    assert_eq!(after, acknowledged - at_ms(1_050));
    let stop = RobotEvent::Stop { why: StopCause::Emergency };
    let stopped = world.observer.robot_at(|event| *event == stop).expect("it stopped");
    assert!(ms_between(at_ms(1_050), stopped) <= 10.5);
    assert!(world.observer.applied().iter().all(|(at, _)| *at <= stopped));
    assert_eq!(world.robot.state(), RobotState::Fault);
}

#[test]
fn an_emergency_overtakes_a_full_queue_over_udp() {
    an_emergency_overtakes_a_full_queue(udp);
}

#[test]
fn an_emergency_overtakes_a_full_queue_over_tcp() {
    an_emergency_overtakes_a_full_queue(tcp);
}

#[test]
fn an_emergency_is_repeated_until_it_is_acknowledged_and_no_more() {
    let half: Probability = "60%".parse().unwrap();
    for seed in 0..20 {
        let lossy = |name: &str| {
            let loss = Loss::bernoulli(half, Seed::new(seed).stream(name));
            Chain::new(vec![loss.into(), Delay::new(MS * 10).into()])
        };
        let mut world = world(udp, delays(MS * 10));
        world.start();
        world.run_until(at_ms(1_000));
        world.links = [lossy("up"), lossy("down")];
        world.sampling = None;
        world.emergency_stop();
        world.run_until(at_ms(5_000));
        assert!(acknowledged(&world.observer).is_some(), "seed {seed}");
        assert_eq!(world.robot.state(), RobotState::Fault);
        let stops = world.observer.robot.iter();
        let stops = stops.filter(|(_, event)| *event == RobotEvent::Stop { why: StopCause::Emergency });
        assert_eq!(stops.count(), 1, "copies stop once");
        assert!(world.operator.poll_timeout().is_none_or(|deadline| deadline.why != "emergency stop"));
    }
}

#[test]
fn without_any_answer_the_operator_is_told_and_copies_become_rare() {
    let mut world = world(udp, delays(MS * 10));
    world.start();
    world.run_until(at_ms(1_000));
    world.links[0] = Chain::from(Loss::bernoulli(Probability::ALWAYS, Seed::new(1).stream("cut")));
    (world.sampling, world.measuring) = (None, None);
    world.emergency_stop();
    let before = world.observer.datagrams[OPERATOR];
    world.run_until(at_ms(11_000));
    assert!(world.observer.operator_at(|event| *event == OperatorEvent::EmergencyStopUnanswered).is_some());
    // A hundred copies; comparisons of clocks that nobody answers become rare as well.
    let copies = world.observer.datagrams[OPERATOR] - before;
    assert!((110..=150).contains(&copies), "{copies}");
}

#[test]
fn a_button_that_is_held_down_is_answered_after_one_round_trip_and_told_of_silence() {
    let robot = RobotConfig::new().watchdog(MS * 400);
    let mut world = World::new(udp, OperatorConfig::new(), robot, delays(MS * 100), Log::default());
    world.start();
    world.run_until(at_ms(1_000));
    world.sampling = None;
    let hold = |world: &mut World<_, _>, from: u64| {
        for press in 0..30 {
            world.run_until(at_ms(from + 33 * press));
            world.emergency_stop();
        }
    };
    hold(&mut world, 1_000);
    let (acknowledged, after) = acknowledged(&world.observer).expect("it was acknowledged while held");
    assert_eq!((acknowledged - at_ms(1_000), after), (MS * 200, MS * 200));
    world.links[0] = Chain::from(Loss::bernoulli(Probability::ALWAYS, Seed::new(1).stream("cut")));
    hold(&mut world, 3_000);
    assert!(world.observer.operator_at(|event| *event == OperatorEvent::EmergencyStopUnanswered).is_some());
}

#[test]
fn the_robot_stays_stopped_until_it_is_explicitly_released() {
    let mut world = world(udp, delays(MS * 5));
    world.start();
    world.run_until(at_ms(1_000));
    world.emergency_stop();
    assert_eq!(world.operator.resume(world.now), Err(ResumeError::StopPending));
    assert_eq!(world.operator.send_state(world.now, State::at(world.now)), Err(StateError::Stopped));
    world.run_until(at_ms(3_000));
    let stopped = world.observer.applied().len();
    assert!(world.operator.status(world.now).emergency);
    assert_eq!(world.operator.robot(), (RobotState::Fault, StopCause::Emergency));
    assert_eq!(world.operator.resume(world.now), Err(ResumeError::Latched), "first the reset");
    assert!(world.reset());
    world.run_until(at_ms(3_050));
    assert!(world.observer.operator_at(|event| *event == OperatorEvent::WasReset).is_some());
    assert_eq!(world.robot.state(), RobotState::Paused, "a reset moves nothing");
    assert_eq!(world.observer.applied().len(), stopped);
    assert!(world.resume());
    world.run_until(at_ms(3_150));
    assert!(world.observer.operator_at(|event| *event == OperatorEvent::Resumed).is_some());
    assert!(world.observer.applied().len() > stopped + 80);
    assert_eq!(world.operator.robot().0, RobotState::Enabled);
}

#[test]
fn an_emergency_before_the_session_is_sent_when_there_is_one() {
    let mut world = world(udp, delays(MS * 5));
    world.emergency_stop();
    assert_eq!(world.operator.resume(world.now), Err(ResumeError::NotConnected));
    world.run_until(at_ms(200));
    assert!(acknowledged(&world.observer).is_some());
    assert_eq!(world.robot.state(), RobotState::Fault);
}

#[test]
fn the_button_at_the_robot_is_released_at_the_robot() {
    let mut world = world(udp, delays(MS * 5));
    world.start();
    world.run_until(at_ms(1_000));
    world.robot.emergency_stop(world.local(ROBOT));
    world.drain();
    world.run_until(at_ms(1_050));
    let seen = OperatorEvent::Robot { state: RobotState::Fault, cause: StopCause::LocalEmergency };
    assert!(world.observer.operator_at(|event| *event == seen).unwrap() <= at_ms(1_006));
    assert_eq!(world.operator.resume(world.local(OPERATOR)), Err(ResumeError::HeldLocally));
    world.reset();
    world.run_until(at_ms(1_100));
    assert!(world.observer.operator_at(refuses_reset(Answer::HeldLocally)).is_some());
    world.robot.release(world.local(ROBOT));
    world.run_until(at_ms(1_200));
    assert_eq!(world.robot.state(), RobotState::Paused, "released is not resumed");
    world.resume();
    world.run_until(at_ms(1_300));
    assert_eq!(world.robot.state(), RobotState::Enabled);
}

#[test]
fn an_emergency_state_passes_the_queue_and_is_never_held_back() {
    let config = OperatorConfig::new().order(Order::Fifo).deadline(MS * 5_000);
    let mut world = World::new(udp, config, RobotConfig::new(), delays(MS * 5), Log::default());
    world.start();
    world.run_until(at_ms(1_000));
    world.sampling = None;
    (0..100).for_each(|_| {
        world.send(State::at(world.now));
    });
    let urgent: Vec<_> = (0..10)
        .map(|_| world.send(State { priority: Priority::Emergency, ..State::at(world.now) }).unwrap())
        .collect();
    world.run_until(at_ms(1_006));
    let applied: Vec<_> = world.observer.applied().iter().map(|(_, sequence)| *sequence).collect();
    assert!(applied.ends_with(&urgent), "{urgent:?} {:?}", &applied[applied.len() - 12..]);
}

#[test]
fn a_resume_that_nobody_answers_is_given_up() {
    let mut world = world(udp, delays(MS * 5));
    world.start();
    world.links[0] = Chain::from(Loss::bernoulli(Probability::ALWAYS, Seed::new(1).stream("cut")));
    world.resume();
    world.run_until(world.now + MS * 1_100);
    let given_up = |event: &OperatorEvent| matches!(event, OperatorEvent::ResumeRefused { answer: None, .. });
    assert!(world.observer.operator_at(given_up).is_some());
}

#[test]
fn a_reset_and_a_resume_are_given_up_with_the_transport_or_the_session_on_which_they_went() {
    for (resets, closes) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut world = world(udp, delays(MS * 5));
        world.run_until(at_ms(1_000));
        world.links[OPERATOR] = Chain::from(Loss::bernoulli(Probability::ALWAYS, Seed::new(1).stream("cut")));
        assert!(if resets { world.reset() } else { world.resume() });
        world.run_until(at_ms(1_020));
        let operator = world.local(OPERATOR);
        if closes {
            world.operator.close(operator);
        } else {
            world.operator.reconnect(operator, udp(OPERATOR));
        }
        world.run_until(at_ms(1_040));
        let is_given_up = |event: &OperatorEvent| match event {
            OperatorEvent::ResetRefused { answer } => resets && answer.is_none(),
            OperatorEvent::ResumeRefused { answer, .. } => !resets && answer.is_none(),
            _ => false,
        };
        let given_up = world.observer.operator.iter().filter(|(_, event)| is_given_up(event)).count();
        assert_eq!(given_up, 1, "reset: {resets}, closed: {closes}");
    }
}

#[test]
fn a_resume_that_another_command_displaces_is_given_up() {
    for resets in [true, false] {
        let mut world = world(udp, delays(MS * 50));
        world.run_until(at_ms(1_000));
        assert!(world.resume());
        world.run_until(at_ms(1_010));
        if resets {
            assert!(world.reset());
        } else {
            world.emergency_stop();
        }
        world.run_until(at_ms(3_000));
        let is_given_up =
            |event: &OperatorEvent| matches!(event, OperatorEvent::ResumeRefused { answer: None, .. });
        let given_up = world.observer.operator.iter().filter(|(_, event)| is_given_up(event)).count();
        assert_eq!(given_up, 1, "reset: {resets}");
    }
}

#[test]
fn what_is_latched_outlives_the_transport() {
    let mut world = world(tcp, delays(MS * 5));
    world.start();
    world.run_until(at_ms(1_000));
    // The link dies with the stop on it.
    world.links[OPERATOR] = Chain::from(Loss::bernoulli(Probability::ALWAYS, Seed::new(1).stream("cut")));
    world.emergency_stop();
    world.run_until(at_ms(1_500));
    assert_eq!((world.robot.state(), acknowledged(&world.observer)), (RobotState::Paused, None));

    world.links = delays(MS * 5);
    let (operator, robot) = (world.local(OPERATOR), world.local(ROBOT));
    world.robot.reconnect(robot, tcp(ROBOT));
    world.operator.reconnect(operator, tcp(OPERATOR));
    world.run_until(at_ms(2_000));
    assert!(acknowledged(&world.observer).is_some(), "pressed before, acknowledged after");
    assert_eq!(world.robot.state(), RobotState::Fault);

    let robot = world.local(ROBOT);
    world.robot.reconnect(robot, tcp(ROBOT));
    world.run_until(at_ms(2_100));
    assert_eq!(world.robot.state(), RobotState::Fault);
}

/// A resume at the first moment may come before the robot has compared clocks, of which the operator is told: it waits for that and no longer, though
/// nobody knows the round trip yet.
#[test]
fn a_resume_at_the_first_moment_waits_for_the_clocks_and_for_nothing_else() {
    let mut asked_again = 0;
    for seed in 0..20 {
        let way = |name: &str| {
            let jitter = JitterConfig::new(MS * 5).mean(MS * 5);
            let jitter = Jitter::new(jitter, Seed::new(seed).stream(name)).unwrap();
            Chain::new(vec![Delay::new(MS * 15).into(), jitter.into()])
        };
        let mut world = world(udp, [way("up"), way("down")]);
        let connected = |event: &OperatorEvent| matches!(event, OperatorEvent::Connected { .. });
        while world.observer.operator_at(connected).is_none() {
            world.run_until(world.now + MS);
        }
        let asked = world.now;
        assert!(world.resume());
        world.run_until(asked + MS * 500);
        let enabled = |event: &RobotEvent| matches!(event, RobotEvent::Enabled { .. });
        let after = world.observer.robot_at(enabled).expect("it was connected") - asked;
        // There, back and there again, 25 ms each at most.
        assert!(after <= MS * 76, "{seed}: {after}");
        asked_again += u32::from(after > MS * 26);
    }
    assert!(asked_again > 0, "the clocks were always compared before");
}

#[test]
fn a_reset_and_a_resume_that_are_pressed_again_before_they_are_answered_are_done_once() {
    let mut world = world(udp, delays(MS * 20));
    world.run_until(at_ms(1_000));
    world.robot.measure(world.local(ROBOT), [0.0; 3]);
    world.emergency_stop();
    world.run_until(at_ms(1_200));
    assert!(world.reset());
    world.run_until(at_ms(1_210));
    assert!(world.reset());
    world.run_until(at_ms(1_400));
    assert!(world.resume());
    world.run_until(at_ms(1_410));
    assert!(world.resume());
    world.run_until(at_ms(1_460));
    let told = |is: fn(&OperatorEvent) -> bool| {
        world.observer.operator.iter().filter(|(_, event)| is(event)).count()
    };
    let done = [
        told(|event| *event == OperatorEvent::WasReset),
        told(|event| *event == OperatorEvent::Resumed),
        told(|event| {
            matches!(event, OperatorEvent::ResetRefused { .. } | OperatorEvent::ResumeRefused { .. })
        }),
    ];
    assert_eq!((done, world.robot.state()), ([1, 1, 0], RobotState::Enabled));
}

#[test]
fn a_resume_that_is_pressed_again_after_a_cut_is_as_old_as_that_press() {
    let way = || Chain::new(vec![Cut::at(at_ms(1_000)).lasting(MS * 940).into(), Delay::new(MS * 20).into()]);
    let mut world = world(udp, [way(), way()]);
    for pressed in [1_000, 1_930] {
        world.run_until(at_ms(pressed));
        assert!(world.resume());
    }
    world.run_until(at_ms(2_500));
    let answers =
        world.observer.operator.iter().filter(|(_, event)| {
            matches!(event, OperatorEvent::Resumed | OperatorEvent::ResumeRefused { .. })
        });
    let answers: Vec<_> = answers.map(|(_, event)| event.clone()).collect();
    assert_eq!(answers, [OperatorEvent::Resumed]);
}
