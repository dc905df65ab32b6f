//! What devices are asked and told, and when they are stopped.

use taut_agent::{
    Alarm, DeviceFailure, OperatorCommand, OperatorNote, OperatorSettings, ResumePolicy, RobotCommand,
    RobotNote, Trouble,
};
use taut_session::{Answer, OperatorConfig, OperatorEvent, RobotConfig, RobotEvent, RobotState, StopCause};

use crate::world::{MS, World};

#[test]
fn a_hand_feels_what_the_robot_feels_and_lets_go_when_nothing_fresh_is_known() {
    let mut world = World::moving(ResumePolicy::Start);
    assert!(world.hand.with(|hand| hand.felt > 100 && hand.force == Some([0.0, 0.0, 2.0])));
    world.cut = true;
    world.run(400);
    assert!(world.hand.with(|hand| hand.force.is_none() && hand.lost > 0));
    // The link is back: so is the force.
    world.cut = false;
    world.run(400);
    assert!(world.hand.with(|hand| hand.force.is_some()));
}

/// A way to lose a session, by its name.
type Way = (&'static str, fn(&mut World));

#[test]
fn a_hand_lets_go_on_each_way_of_losing_the_session() {
    let ways: [Way; 4] = [
        ("closed here", |world| world.operator.handle_command(world.now, OperatorCommand::Close)),
        ("closed there", |world| world.robot.handle_command(world.now, RobotCommand::Close)),
        ("the transport ended", |world| {
            world.hands_in = false;
            world.operator.transport_mut().end(Trouble::NoAnswer);
        }),
        ("refused for good", |world| world.operator.transport_mut().end(Trouble::NotTrusted)),
    ];
    for (name, lose) in ways {
        let mut world = World::moving(ResumePolicy::Start);
        let before = world.hand.with(|hand| hand.lost);
        lose(&mut world);
        world.settle();
        world.run(20);
        assert!(world.hand.with(|hand| hand.force.is_none() && hand.lost > before), "{name}");
    }
    let world = World::moving(ResumePolicy::Start);
    let hand = world.hand.clone();
    drop(world);
    assert!(hand.with(|hand| hand.force.is_none()), "with the end of its agent");
}

#[test]
fn a_device_is_stopped_when_its_agent_is_dropped() {
    let world = World::moving(ResumePolicy::Start);
    let arm = world.arm.clone();
    drop(world);
    assert!(arm.with(|arm| !arm.enabled && arm.stops.last() == Some(&StopCause::Host)));
}

#[test]
fn a_device_gets_what_is_left_of_the_watchdogs_time_and_stops_with_it() {
    let mut world = World::moving(ResumePolicy::Start);
    // The watchdog counts from when a state was made, 5 ms before it arrives.
    let lease = world.arm.with(|arm| arm.longest_lease);
    assert!(lease > MS * 80 && lease <= MS * 100, "{lease}");
    world.cut = true;
    world.run(120);
    assert!(world.arm.with(|arm| !arm.enabled && arm.stops.last() == Some(&StopCause::Watchdog)));
}

#[test]
fn samples_that_a_late_host_missed_are_skipped_and_counted_and_one_is_made_up_for() {
    let mut world = World::moving(ResumePolicy::Start);
    let asked = world.hand.with(|hand| hand.asked);
    world.now += MS * 20;
    world.operator.handle_timeout(world.now);
    assert_eq!(world.hand.with(|hand| (hand.asked - asked, hand.skipped)), (1, 18));
    assert_eq!(world.operator.progress(world.now).missed, 18);
    world.operator.handle_timeout(world.now);
    assert_eq!(world.hand.with(|hand| hand.asked - asked), 2);
    world.operator.handle_timeout(world.now);
    assert_eq!(world.hand.with(|hand| hand.asked - asked), 2);
}

#[test]
fn samples_of_a_device_that_reads_nothing_new_are_not_sent_and_the_watchdog_stops_the_robot() {
    let mut world = World::moving(ResumePolicy::Start);
    world.hand.with(|hand| hand.stuck = true);
    world.run(10);
    let made = world.operator.progress(world.now).made;
    world.run(200);
    let progress = world.operator.progress(world.now);
    assert!(progress.made == made && progress.stale >= 200, "{progress:?}");
    assert!(world.arm.with(|arm| arm.stops.last() == Some(&StopCause::Watchdog)));
}

#[test]
fn an_arm_whose_host_was_late_is_asked_so_often_at_most() {
    let mut world = World::moving(ResumePolicy::Start);
    let before = world.arm.with(|arm| arm.measured);
    world.now += MS * 60_000;
    world.robot.handle_timeout(world.now);
    assert_eq!(world.arm.with(|arm| arm.measured - before), 50);
    world.robot.handle_timeout(world.now + MS);
    assert_eq!(world.arm.with(|arm| arm.measured - before), 51);
}

#[test]
fn a_device_is_stopped_before_it_is_asked_anything_where_the_session_stopped_while_its_host_was_away() {
    let mut world = World::moving(ResumePolicy::Start);
    let led = world.arm.with(|arm| arm.led);
    world.now += MS * 5_000;
    // Nobody has asked for events yet.
    world.robot.handle_timeout(world.now);
    let stops = world.arm.with(|arm| (arm.led == led).then(|| arm.stops.clone()));
    assert_eq!(stops, Some(vec![StopCause::Watchdog]));
    world.settle();
    assert_eq!(world.arm.with(|arm| arm.stops.len()), 1, "it is told once");
}

#[test]
fn a_device_that_fails_stops_the_robot_and_is_told_of_once() {
    let mut world = World::moving(ResumePolicy::Start);
    for _ in 0..5 {
        world.arm.with(|arm| arm.fails = Some(DeviceFailure::NotTaken));
        world.run(1);
    }
    assert!(world.arm.with(|arm| !arm.enabled && arm.stops.last() == Some(&StopCause::Device)));
    let failures = world.robot_told.iter().filter(|note| matches!(note, RobotNote::DeviceFailed(_)));
    assert_eq!(failures.count(), 1);
}

#[test]
fn a_device_that_refuses_what_it_is_told_stops_the_robot() {
    let mut world = World::moving(ResumePolicy::Start);
    // Its own lease was over, and it says nothing of that.
    world.arm.with(|arm| arm.enabled = false);
    world.run(2);
    let stands = (RobotState::Paused, StopCause::Device);
    assert_eq!((world.robot.session().state(), world.robot.session().cause()), stands);
    assert_eq!(world.arm.with(|arm| arm.stops.clone()), [StopCause::Device]);
    // What it says of that comes first.
    let mut world = World::moving(ResumePolicy::Start);
    world.arm.with(|arm| (arm.enabled, arm.fails) = (false, Some(DeviceFailure::Overdue)));
    world.run(2);
    assert_eq!(world.robot.session().cause(), StopCause::Watchdog);
}

#[test]
fn nobody_is_told_that_a_robot_moves_whose_device_took_longer_than_the_watchdog_to_be_enabled() {
    let mut world = World::new(ResumePolicy::Never);
    world.run(300);
    world.arm.with(|arm| arm.takes = MS * 150);
    world.operator.handle_command(world.now, OperatorCommand::Resume);
    world.run(300);
    let resumed = |note: &OperatorNote| matches!(note, OperatorNote::Event(OperatorEvent::Resumed));
    assert_eq!(world.count(resumed), 0, "{:?}", world.told);
    assert_eq!(world.arm.with(|arm| (arm.applied, arm.stops.clone())), (0, vec![StopCause::Watchdog]));
    world.arm.with(|arm| arm.takes = MS * 50);
    world.operator.handle_command(world.now, OperatorCommand::Resume);
    world.run(300);
    assert!(world.count(resumed) == 1 && world.arm.with(|arm| arm.applied > 100));
}

#[test]
fn a_device_that_is_being_stopped_at_a_resume_stops_the_session_as_the_watchdog_does() {
    let mut world = World::new(ResumePolicy::Start);
    world.arm.with(|arm| arm.refuses = Some(DeviceFailure::Overdue));
    world.run(300);
    assert_eq!(
        (world.robot.session().state(), world.robot.session().cause()),
        (RobotState::Paused, StopCause::Watchdog)
    );
    assert!(world.arm.with(|arm| arm.applied == 0 && arm.stops.last() == Some(&StopCause::Watchdog)));
    let failures = world.robot_told.iter().filter(|note| matches!(note, RobotNote::DeviceFailed(_)));
    assert_eq!(failures.count(), 0, "it is not the device's fault");
}

#[test]
fn a_device_that_cannot_move_does_not_and_says_why() {
    let mut world = World::new(ResumePolicy::Start);
    world.arm.with(|arm| arm.refuses = Some(DeviceFailure::Ended("exit status: 3".to_owned())));
    world.run(300);
    assert_eq!(world.robot.session().cause(), StopCause::Device);
    assert!(world.arm.with(|arm| arm.applied == 0));
    // Nor did it say for an instant that it moves.
    let moves = |note: &RobotNote| matches!(note, RobotNote::Event(RobotEvent::Enabled { .. }));
    assert!(!world.robot_told.iter().any(moves), "{:?}", world.robot_told);
    assert!(
        world.robot_told.iter().any(|note| matches!(note, RobotNote::DeviceFailed(DeviceFailure::Ended(_))))
    );
}

#[test]
fn an_operator_is_told_that_a_robot_moves_when_its_device_does_and_of_no_resume_that_it_did_not_take() {
    let moves = |note: &OperatorNote| {
        let moves = [
            OperatorEvent::Resumed,
            OperatorEvent::Robot { state: RobotState::Enabled, cause: StopCause::Device },
        ];
        matches!(note, OperatorNote::Event(event) if moves.contains(event))
    };
    let refused = |note: &OperatorNote| {
        matches!(
            note,
            OperatorNote::Event(OperatorEvent::ResumeRefused { answer: Some(Answer::Superseded), .. })
        )
    };
    let mut world = World::new(ResumePolicy::Start);
    world.arm.with(|arm| arm.refuses = Some(DeviceFailure::NotTaken));
    world.run(1_000);
    assert_eq!((world.count(moves), world.count(refused)), (0, 1), "{:?}", world.told);
    assert_eq!(world.operator.session().robot(), (RobotState::Paused, StopCause::Device));
    // It may move by now, and nobody expects that before a person resumes it.
    world.arm.with(|arm| arm.refuses = None);
    world.run(1_000);
    assert!(world.arm.with(|arm| !arm.enabled));
    world.operator.handle_command(world.now, OperatorCommand::Resume);
    world.run(100);
    assert!(world.arm.with(|arm| arm.enabled));
    assert_eq!((world.count(moves), world.count(refused)), (2, 1), "{:?}", world.told);
}

#[test]
fn an_arm_that_feeds_nothing_back_stops_all_the_same_when_the_hand_is_turned_away_from_it() {
    let settings = OperatorSettings::new(MS).resumes(ResumePolicy::Start);
    let (operator, robot) = (OperatorConfig::new().turns(true), RobotConfig::new().turns(true));
    let mut world = World::of(settings, operator, robot);
    world.arm.with(|arm| arm.mute = true);
    world.run(300);
    assert_eq!(world.robot.session().state(), RobotState::Enabled);
    world.hand.with(|hand| hand.orientation = Some([0.0, 1.0, 0.0, 0.0]));
    world.run(20);
    let stands = (world.robot.session().state(), world.robot.session().cause());
    assert_eq!(stands, (RobotState::Paused, StopCause::TurnedApart));
}

#[test]
fn an_arm_whose_law_stops_it_for_hand_and_arm_are_apart_stops_as_its_session_does_for_that() {
    let mut world = World::moving(ResumePolicy::Always);
    world.arm.with(|arm| arm.fails = Some(DeviceFailure::TurnedApart));
    world.run(500);
    let stands = (RobotState::Paused, StopCause::TurnedApart);
    assert_eq!((world.robot.session().state(), world.robot.session().cause()), stands);
    assert_eq!(world.operator.session().robot(), stands, "the operator knows, and asks a person");
    let failures = world.robot_told.iter().filter(|note| matches!(note, RobotNote::DeviceFailed(_)));
    assert_eq!(failures.count(), 0, "it is not the device's fault");
}

#[test]
fn a_stop_is_given_out_to_be_written_until_it_is_reset() {
    let mut world = World::moving(ResumePolicy::Start);
    world.operator.handle_alarm(world.now, Alarm::Pressed);
    world.run(100);
    let kept = |world: &World| {
        let lives = world.told.iter().filter_map(|(_, note)| match note {
            OperatorNote::Keep { life, .. } => Some(life.unacknowledged),
            _ => None,
        });
        lives.collect::<Vec<_>>()
    };
    // Pressed; acknowledged by a robot that keeps nothing, so that it is kept here.
    assert_eq!(kept(&world), [true, true]);
    world.operator.handle_command(world.now, OperatorCommand::Reset);
    world.run(100);
    assert_eq!(kept(&world), [true, true, false]);
}
