//! The robot alone: watchdog, cuts, goodbyes.

use taut_core::{DropCause, Duration, PathId, Probability, Seed, Transport};
use taut_link::{Chain, Cut, Delay, Loss};
use taut_session::{
    Answer, MotionLimits, OperatorConfig, OperatorEvent, RobotConfig, RobotEvent, RobotState, State,
    StopCause, Verdict,
};
use taut_wire::session::{Body, Frame};

use crate::harness::{Log, MS, OPERATOR, ROBOT, World, at_ms, dropped, tcp, udp};
use crate::{delays, world};

/// Cut both ways from 2 s to 4 s.
fn cut() -> [Chain; 2] {
    let way = || {
        let cut = Cut::at(at_ms(2_000)).lasting(MS * 2_000);
        Chain::new(vec![cut.into(), Delay::new(MS * 8).into()])
    };
    [way(), way()]
}

fn a_cut_link_stops_the_robot<T: Transport>(transport: impl Fn(usize) -> T, back_after: Duration) {
    let mut world = world(transport, cut());
    world.start();
    world.run_until(at_ms(3_900));
    let last = world.observer.applied().last().expect("it moved").0;
    let stop = RobotEvent::Stop { why: StopCause::Watchdog };
    let stopped = world.observer.robot_at(|event| *event == stop).expect("it stopped");
    assert!((at_ms(2_000)..at_ms(2_010)).contains(&last), "{last}");
    assert!(stopped <= last + MS * 100, "{stopped}, {last}");
    assert_eq!(world.robot.state(), RobotState::Paused);
    let lost =
        world.observer.operator_at(|event| *event == OperatorEvent::FeedbackLost).expect("it was lost");
    assert!(lost <= at_ms(2_109), "the hand lets go: {lost}");

    world.run_until(at_ms(4_000) + back_after);
    assert_eq!(
        world.observer.applied().last().expect("it moved").0,
        last,
        "fresh states arrive, and nothing moves"
    );
    assert!(dropped(&world.robot.status(world.now), DropCause::Stopped) > 100);
    assert_eq!(world.operator.robot(), (RobotState::Paused, StopCause::Watchdog));

    assert!(world.resume());
    let resumed = world.now;
    world.run_until(resumed + MS * 200);
    assert_eq!(world.robot.state(), RobotState::Enabled);
    let applied = world.observer.applied();
    assert!(applied.iter().filter(|(at, _)| *at > resumed).count() > 120);
}

#[test]
fn a_cut_link_stops_the_robot_until_it_is_resumed_over_udp() {
    a_cut_link_stops_the_robot(udp, MS * 500);
}

#[test]
fn a_cut_link_stops_the_robot_until_it_is_resumed_over_tcp() {
    // TCP's backed-off timer ends, and what it kept is repeated first.
    a_cut_link_stops_the_robot(tcp, MS * 6_000);
}

#[test]
fn a_watchdog_that_is_called_late_lets_no_state_past() {
    let mut world = world(udp, delays(MS));
    world.start();
    world.run_until(at_ms(1_000));
    // The driver slept for 300 ms; then a fresh state is the first thing that it sees.
    let late = at_ms(1_300);
    world.now = late;
    world.send(State::at(world.local(OPERATOR)));
    world.run_until(late + MS * 5);
    let after = world.observer.applied().into_iter().filter(|(at, _)| *at >= late);
    assert_eq!(after.count(), 0);
    assert_eq!((world.robot.state(), world.robot.cause()), (RobotState::Paused, StopCause::Watchdog));
}

#[test]
fn goodbye_stops_at_once() {
    let mut world = world(udp, delays(MS * 5));
    world.start();
    world.run_until(at_ms(1_000));
    world.operator.close(world.local(OPERATOR));
    world.drain();
    world.run_until(at_ms(1_006));
    assert_eq!((world.robot.state(), world.robot.cause()), (RobotState::Disabled, StopCause::OperatorLeft));
    let stop = RobotEvent::Stop { why: StopCause::OperatorLeft };
    assert!(world.observer.robot_at(|event| *event == stop).expect("it stopped") <= at_ms(1_005));
    assert!(world.operator.send_state(world.now, State::at(world.now)).is_err());
}

#[test]
fn goodbye_of_the_robot_is_told_before_the_end() {
    let mut world = world(udp, delays(MS * 5));
    world.start();
    world.run_until(at_ms(1_000));
    world.robot.close(world.local(ROBOT));
    world.drain();
    world.run_until(at_ms(1_006));
    let told = |event| world.observer.operator_at(|told| *told == event);
    let (left, closed) = (told(OperatorEvent::RobotLeft), told(OperatorEvent::Closed));
    assert!(left.is_some() && left <= closed && closed <= Some(at_ms(1_006)), "{left:?}, {closed:?}");
}

#[test]
fn a_robot_that_begins_anew_is_greeted_anew_and_does_not_move() {
    let mut world = world(udp, delays(MS * 5));
    world.start();
    world.run_until(at_ms(1_000));
    let rng = taut_core::Seed::new(99).stream("robot, its second life");
    world.robot = taut_session::Robot::new(udp(ROBOT), RobotConfig::new(), rng);
    world.run_until(at_ms(2_000));
    assert_eq!(world.robot.state(), RobotState::Paused);
    assert_eq!(world.operator.robot().0, RobotState::Paused, "the operator knows");
    let before = world.observer.applied().len();
    assert!(world.resume());
    world.run_until(at_ms(2_100));
    assert_eq!(world.robot.state(), RobotState::Enabled);
    assert!(world.observer.applied().len() > before + 80);
}

#[test]
fn a_device_of_which_nobody_says_that_it_took_a_resume_is_not_moved_and_the_robot_stops() {
    let mut world = world(udp, delays(MS * 5));
    world.takes = false;
    world.sampling = Some(MS);
    world.run_until(at_ms(200));
    assert!(world.resume());
    world.run_until(at_ms(1_000));
    let enabled = world.observer.robot_at(|event| matches!(event, RobotEvent::Enabled { .. })).unwrap();
    let stop = RobotEvent::Stop { why: StopCause::Watchdog };
    assert_eq!(world.observer.robot_at(|event| *event == stop), Some(enabled + MS * 100));
    assert_eq!(world.observer.applied(), []);
    let status = world.robot.status(world.now);
    assert!(dropped(&status, DropCause::Stopped) > 500 && status.delivered == 0, "{status:?}");
    assert_eq!(world.operator.robot(), (RobotState::Paused, StopCause::Watchdog));
    let refused = |it: &OperatorEvent| {
        matches!(it, OperatorEvent::ResumeRefused { answer: Some(Answer::Superseded), .. })
    };
    assert!(world.observer.operator_at(refused).is_some_and(|at| at >= enabled + MS * 100));
    assert!(world.observer.operator_at(|it| *it == OperatorEvent::Resumed).is_none());
}

#[test]
fn an_answer_to_a_resume_that_a_report_of_the_next_stop_overtook_is_no_resume() {
    let nothing = || Chain::from(Loss::bernoulli(Probability::ALWAYS, Seed::new(1).stream("cut")));
    let mut world = world(udp, delays(MS * 5));
    world.run_until(at_ms(200));
    world.links[ROBOT] = nothing();
    assert!(world.resume());
    world.run_until(world.now + MS * 6);
    assert_eq!(world.robot.state(), RobotState::Enabled);
    // The operator is silent, and hears again when the robot has stopped.
    world.links[OPERATOR] = nothing();
    world.run_until(world.now + MS * 150);
    world.links[ROBOT] = Delay::new(MS * 5).into();
    world.run_until(world.now + MS * 150);
    assert_eq!(world.operator.robot(), (RobotState::Paused, StopCause::Watchdog));
    let is_answer =
        |bytes: &&Vec<u8>| matches!(Frame::parse(bytes), Ok(Frame { body: Body::ResumeAck(_), .. }));
    let answer = world.observer.sent[ROBOT].iter().find(is_answer).unwrap().clone();
    world.input(OPERATOR, PathId(0), &answer);
    let told = |is: fn(&OperatorEvent) -> bool| world.observer.operator_at(is).is_some();
    assert!(!told(|it| *it == OperatorEvent::Resumed));
    assert!(told(|it| matches!(it, OperatorEvent::ResumeRefused { answer: Some(Answer::Superseded), .. })));
}

#[test]
fn a_device_that_takes_a_resume_late_begins_where_it_is_then() {
    let limits = MotionLimits::new().velocity(1.0);
    let robot = RobotConfig::new().watchdog(MS * 200).limits(limits);
    let mut world = World::new(udp, OperatorConfig::new(), robot, delays(MS), Log::default());
    world.takes = false;
    world.run_until(at_ms(200));
    assert!(world.resume());
    let epoch = |event: &RobotEvent| match event {
        RobotEvent::Enabled { epoch } => Some(*epoch),
        _ => None,
    };
    // Its brakes take 150 ms to open, and it sinks by 10 mm meanwhile.
    for ms in 0..300 {
        world.run_until(at_ms(200 + ms));
        world.robot.measure(world.local(ROBOT), [0.0, 0.0, if ms < 100 { 0.0 } else { -0.01 }]);
        let target = State { position: [1.0, 0.0, -0.01], ..State::at(world.local(OPERATOR)) };
        world.send(target).unwrap();
        if ms == 150 {
            let epoch = world.observer.robot.iter().find_map(|(_, event)| epoch(event)).unwrap();
            world.robot.enabled(world.local(ROBOT), epoch);
            world.drain();
        }
    }
    let moved = world.observer.robot.iter().filter_map(|(at, event)| match event {
        RobotEvent::Apply { state, .. } => Some((*at, state.position)),
        _ => None,
    });
    let moved: Vec<_> = moved.collect();
    let (first, [x, _, z]) = moved[0];
    assert!(first >= at_ms(350) && x <= 0.005 && z < -0.009, "{first} {x} {z}");
    assert!(moved.windows(2).all(|pair| pair[1].1[0] - pair[0].1[0] <= 0.005));
    assert_eq!(world.robot.state(), RobotState::Enabled);
    // None of what came before was told to be taken.
    let taken =
        |event: &OperatorEvent| matches!(event, OperatorEvent::Acknowledged { verdict: Verdict::Taken, .. });
    assert!(world.observer.operator_at(taken).is_some_and(|at| at >= at_ms(350)));
}

#[test]
fn a_shorter_watchdog_is_obeyed() {
    let robot = RobotConfig::new().watchdog(MS * 20);
    let mut world = World::new(udp, OperatorConfig::new(), robot, delays(MS), Log::default());
    world.start();
    world.run_until(at_ms(1_000));
    world.sampling = None;
    world.run_until(at_ms(1_100));
    let stop = RobotEvent::Stop { why: StopCause::Watchdog };
    let last = world.observer.applied().last().expect("it moved").0;
    assert_eq!(
        world.observer.robot_at(|event| *event == stop),
        Some(last + MS * 19),
        "a millisecond on its way"
    );
}

#[test]
fn a_device_that_stops_by_itself_stops_the_robot_until_it_is_resumed() {
    let mut world = world(udp, delays(MS * 5));
    world.start();
    world.run_until(at_ms(1_000));
    let last = world.observer.applied().last().expect("it moved").0;
    let due = world.robot.watchdog_due().expect("it moves");
    assert!(due >= world.local(ROBOT) && due <= world.local(ROBOT) + MS * 100, "{last}, {due}");
    assert!(world.robot.stop(world.local(ROBOT), StopCause::Device));
    assert!(!world.robot.stop(world.local(ROBOT), StopCause::Device), "it stands already");
    assert_eq!(world.robot.watchdog_due(), None);
    world.drain();
    world.run_until(at_ms(1_500));
    assert_eq!((world.robot.state(), world.robot.cause()), (RobotState::Paused, StopCause::Device));
    assert_eq!(world.operator.robot(), (RobotState::Paused, StopCause::Device), "the operator knows");
    assert!(world.observer.applied().iter().all(|(at, _)| *at <= at_ms(1_000)));
    assert!(world.resume());
    world.run_until(at_ms(1_700));
    assert!(world.observer.applied().last().expect("it moved").0 > at_ms(1_600));
}
