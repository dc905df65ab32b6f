//! When the robot moves without being asked, and when it does not.

use taut_agent::{
    Alarm, DeviceFailure, OperatorCommand, OperatorNote, OperatorSettings, RETRY, Relative, Resume,
    ResumePolicy, RobotCommand, Trouble,
};
use taut_session::{OperatorConfig, OperatorEvent, Priority, ResumeError, RobotConfig, StopCause};

use crate::world::{Key, Line, MS, World};

fn resumed(world: &World) -> usize {
    world.count(|note| matches!(note, OperatorNote::Event(OperatorEvent::Resumed)))
}

fn cut_for(world: &mut World, ms: u64) {
    world.cut = true;
    world.run(ms);
    world.cut = false;
    world.run(500);
}

#[test]
fn nobody_resumes_where_only_a_person_does() {
    let mut world = World::new(ResumePolicy::Never);
    world.run(500);
    assert_eq!((resumed(&world), world.hand.with(|hand| hand.asked)), (0, 0));
    world.operator.handle_command(world.now, OperatorCommand::Resume);
    world.run(100);
    assert!(resumed(&world) == 1 && world.arm.with(|arm| arm.enabled));
}

#[test]
fn who_resumes_at_the_start_does_so_once() {
    let mut world = World::moving(ResumePolicy::Start);
    cut_for(&mut world, 200);
    assert!(resumed(&world) == 1 && world.arm.with(|arm| !arm.enabled));
}

#[test]
fn who_resumes_always_does_so_after_the_watchdog_at_once_or_after_a_while() {
    let mut world = World::moving(ResumePolicy::Always);
    cut_for(&mut world, 200);
    assert!(resumed(&world) == 2 && world.arm.with(|arm| arm.enabled));
    let settings = OperatorSettings::new(MS).resumes(ResumePolicy::Always).resumes_after(MS * 1_000);
    let mut world = World::with(settings);
    world.run(300);
    cut_for(&mut world, 200);
    assert_eq!(resumed(&world), 1, "not yet");
    world.run(700);
    assert_eq!(resumed(&world), 2);
}

#[test]
fn who_resumes_always_does_so_after_an_outage_that_began_before_the_answer_to_a_resume_came() {
    let mut world = World::new(ResumePolicy::Always);
    while world.arm.with(|arm| !arm.enabled) {
        world.run(1);
    }
    world.lose(150);
    assert!(world.arm.with(|arm| arm.stops == [StopCause::Watchdog]) && resumed(&world) == 0);
    world.run(500);
    assert_eq!(resumed(&world), 1, "only when it moves: {:?}", world.told);
    assert!(world.arm.with(|arm| arm.enabled));
}

#[test]
fn after_an_emergency_stop_at_either_end_only_a_person_resumes() {
    for here in [true, false] {
        let mut world = World::moving(ResumePolicy::Always);
        if here {
            world.operator.handle_alarm(world.now, Alarm::Pressed);
        } else {
            world.robot.handle_alarm(world.now, Alarm::Pressed);
        }
        world.run(500);
        assert!(resumed(&world) == 1 && world.arm.with(|arm| !arm.enabled), "pressed here: {here}");
        world.operator.handle_command(world.now, OperatorCommand::Resume);
        world.settle();
        let error = if here { ResumeError::Latched } else { ResumeError::HeldLocally };
        let told = world
            .told
            .iter()
            .any(|(_, note)| matches!(note, OperatorNote::NotResumed(told) if *told == error));
        assert!(told, "pressed here: {here}");
        if here {
            world.operator.handle_command(world.now, OperatorCommand::Reset);
        } else {
            world.robot.handle_command(world.now, RobotCommand::Release);
        }
        world.run(500);
        assert_eq!(resumed(&world), 1, "nothing moves by a reset");
        world.operator.handle_command(world.now, OperatorCommand::Resume);
        world.run(100);
        assert!(resumed(&world) == 2 && world.arm.with(|arm| arm.enabled));
    }
}

#[test]
fn what_is_not_possible_yet_is_tried_again_after_one_time_for_all() {
    let mut world = World::new(ResumePolicy::Start);
    world.run(9);
    // A stop of an earlier life is on its way when the session opens.
    world.operator.press_again(world.now);
    world.run(500);
    assert_eq!(resumed(&world), 0, "only a person does");
    assert_eq!(RETRY, MS * 50);
}

#[test]
fn what_is_held_through_a_resume_takes_no_robot_back_whether_it_stands_or_moves() {
    let robot = RobotConfig::new().watchdog(MS * 300).max_age(MS * 300);
    let mut world = World::of(OperatorSettings::new(MS), OperatorConfig::new(), robot);
    world.delay = MS * 100;
    world.hand.with(|hand| hand.key = Some(Relative::new(Key, Priority::Normal)));
    world.run(2_000);
    for (resumes, is_cut) in [(1, false), (2, true), (3, false)] {
        if is_cut {
            cut_for(&mut world, 1_000);
            assert!(world.arm.with(|arm| !arm.enabled));
        }
        let before = world.arm.with(|arm| arm.went.len());
        world.operator.handle_command(world.now, OperatorCommand::Resume);
        world.run(1_000);
        assert_eq!(resumed(&world), resumes);
        let went = world.arm.with(|arm| arm.went[before.saturating_sub(1)..].to_vec());
        let back = went.windows(2).map(|pair| pair[0] - pair[1]).fold(0.0f32, f32::max);
        assert!(back <= 0.0, "resume {resumes}: {:.1} mm back", back * 1e3);
        let way = went[went.len() - 1] - went[0];
        assert!((0.05..=0.11).contains(&way), "resume {resumes}: {way} m");
    }
}

#[test]
fn a_hand_begins_anew_when_a_resume_is_asked_for_and_before_its_first_sample() {
    let robot = RobotConfig::new().watchdog(MS * 300).max_age(MS * 300);
    let mut world = World::of(OperatorSettings::new(MS), OperatorConfig::new(), robot);
    world.delay = MS * 100;
    world.run(1_000);
    world.operator.handle_command(world.now, OperatorCommand::Resume);
    world.run(1_000);
    let told = world.hand.with(|hand| std::mem::take(&mut hand.resumed));
    let begins: Vec<_> = told.iter().filter(|told| told.0 == Resume::Asked).copied().collect();
    assert_eq!(begins, [(Resume::Asked, 0); 2], "{told:?}");
    assert_eq!(
        (told[0], told[told.len() - 1]),
        ((Resume::Asked, 0), (Resume::Done, 0)),
        "and then it is done"
    );
    cut_for(&mut world, 1_000);
    world.operator.handle_command(world.now, OperatorCommand::Resume);
    world.run(1_000);
    let told = world.hand.with(|hand| std::mem::take(&mut hand.resumed));
    let begins = told.iter().filter(|told| told.0 == Resume::Asked).count();
    assert!(resumed(&world) == 2 && begins == 1, "{told:?}");
}

#[test]
fn a_key_that_is_held_moves_a_robot_whose_answer_to_a_resume_was_lost() {
    let robot = RobotConfig::new().watchdog(MS * 300).max_age(MS * 300);
    let mut world = World::of(OperatorSettings::new(MS), OperatorConfig::new(), robot);
    world.hand.with(|hand| hand.key = Some(Relative::new(Key, Priority::Normal)));
    world.run(500);
    world.operator.handle_command(world.now, OperatorCommand::Resume);
    world.run(500);
    cut_for(&mut world, 1_000);
    assert!(resumed(&world) == 1 && world.arm.with(|arm| !arm.enabled));
    world.operator.handle_command(world.now, OperatorCommand::Resume);
    world.run(2);
    world.cut_down = true;
    world.run(1_500);
    world.cut_down = false;
    let went = |world: &World| world.arm.with(|arm| arm.went[arm.went.len() - 1]);
    let before = went(&world);
    world.run(1_000);
    assert_eq!(resumed(&world), 1);
    assert!(world.arm.with(|arm| arm.enabled) && went(&world) > before + 0.05, "{:?}", world.told);
}

#[test]
fn a_robot_that_nobody_moves_any_more_stays_where_it_is() {
    let settings = OperatorSettings::new(MS).resumes(ResumePolicy::Always).limit(100);
    let mut world = World::with(settings);
    world.run(1_000);
    assert_eq!(resumed(&world), 1);
    assert!(
        world.arm.with(|arm| !arm.enabled && arm.stops.contains(&StopCause::OperatorLeft)),
        "{:?}",
        world.arm.with(|arm| arm.stops.clone())
    );
    assert_eq!(world.count(|note| matches!(note, OperatorNote::Done)), 1);
    assert_eq!(world.count(|note| matches!(note, OperatorNote::Ended(_))), 1);
}

#[test]
fn after_a_turn_too_far_only_a_person_resumes_also_over_another_transport() {
    for here in [true, false] {
        let mut world = World::moving(ResumePolicy::Always);
        world.arm.with(|arm| arm.fails = Some(DeviceFailure::TurnedApart));
        world.run(5);
        assert_eq!(world.arm.with(|arm| arm.stops.clone()), [StopCause::TurnedApart]);
        if here {
            world.operator.transport_mut().end(Trouble::NoAnswer);
        } else {
            world.robot.transport_mut().end(Trouble::NoAnswer);
            world.settle();
            world.robot.reconnect(world.now, Line::new());
        }
        world.run(3_000);
        let connected =
            world.count(|note| matches!(note, OperatorNote::Event(OperatorEvent::Connected { .. })));
        assert!(connected > 1, "ended here: {here}: {:?}", world.told);
        assert!(world.arm.with(|arm| !arm.enabled) && resumed(&world) == 1, "ended here: {here}");
        world.operator.handle_command(world.now, OperatorCommand::Resume);
        world.run(100);
        assert!(world.arm.with(|arm| arm.enabled), "ended here: {here}");
    }
}
