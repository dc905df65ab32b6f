//! Both ends leave a session for one over another transport.

use taut_agent::{Alarm, EndedBy, OperatorCommand, OperatorNote, ResumePolicy, RobotCommand, RobotNote};
use taut_session::{OperatorEvent, ResumeError, StopCause};

use crate::world::{Line, World};

/// As a host does that goes over another transport.
fn leave(world: &mut World) {
    world.robot.handle_command(world.now, RobotCommand::Reconnect);
    world.settle();
    assert!(matches!(world.robot_told.last(), Some(RobotNote::Reconnect)), "{:?}", world.robot_told);
    world.robot.reconnect(world.now, Line::new());
    world.operator.handle_command(world.now, OperatorCommand::Reconnect);
    world.settle();
}

fn count(world: &World, event: &OperatorEvent) -> usize {
    world.count(|note| matches!(note, OperatorNote::Event(told) if told == event))
}

fn connected(world: &World) -> usize {
    world.count(|note| matches!(note, OperatorNote::Event(OperatorEvent::Connected { .. })))
}

/// UDP without security does not close when its operator leaves.
#[test]
fn a_robot_counts_no_time_after_its_operator_has_said_goodbye() {
    let mut world = World::moving(ResumePolicy::Start);
    world.operator.handle_command(world.now, OperatorCommand::Close);
    world.run(50);
    let status = |world: &World| world.robot.status(world.now).elapsed_s;
    let left = status(&world);
    world.run(1_000);
    assert!((status(&world) - left).abs() < 1e-9 && left > 0.2, "{left} {}", status(&world));
}

#[test]
fn a_robot_whose_ends_leave_stands_at_once_and_moves_only_when_it_is_resumed_over_the_other_transport() {
    let mut world = World::moving(ResumePolicy::Start);
    leave(&mut world);
    let applied = world.arm.with(|arm| {
        assert!(!arm.enabled && arm.stops.last() == Some(&StopCause::LinkClosed), "{:?}", arm.stops);
        arm.applied
    });
    assert_eq!((world.hand.with(|hand| hand.force), connected(&world)), (None, 1));
    world.run(1_000);
    assert_eq!(connected(&world), 2, "{:?}", world.told);
    assert!(world.arm.with(|arm| !arm.enabled && arm.applied == applied), "nobody resumed");
    world.operator.handle_command(world.now, OperatorCommand::Resume);
    world.run(100);
    assert!(world.arm.with(|arm| arm.enabled && arm.applied > applied));
}

#[test]
fn a_stop_holds_over_the_other_transport_whether_it_was_acknowledged_on_its_way_or_pressed_in_between() {
    // ms before and after the ends leave.
    for (before, after) in [(100, 1_000), (2, 1_000), (0, 1_000), (0, 900)] {
        let case = format!("pressed {before} ms before, {after} ms left");
        let mut world = World::moving(ResumePolicy::Always);
        if after == 1_000 {
            world.operator.handle_alarm(world.now, Alarm::Pressed);
            world.settle();
        }
        world.run(before);
        leave(&mut world);
        world.run(1_000 - after);
        if after < 1_000 {
            world.operator.handle_alarm(world.now, Alarm::Pressed);
        }
        world.run(after);
        assert_eq!(connected(&world), 2, "{case}");
        let stopped =
            world.count(|note| matches!(note, OperatorNote::Event(OperatorEvent::EmergencyStopped { .. })));
        assert_eq!(stopped, 1, "acknowledged: {case}");
        let resumed = count(&world, &OperatorEvent::Resumed);
        world.operator.handle_command(world.now, OperatorCommand::Resume);
        world.run(100);
        let latched = |note: &OperatorNote| matches!(note, OperatorNote::NotResumed(ResumeError::Latched));
        assert!(world.count(latched) > 0, "{case}: {:?}", world.told);
        assert!(world.arm.with(|arm| !arm.enabled), "{case}");
        world.operator.handle_command(world.now, OperatorCommand::Reset);
        world.run(100);
        assert_eq!(count(&world, &OperatorEvent::Resumed), resumed, "nothing moves by a reset: {case}");
        world.operator.handle_command(world.now, OperatorCommand::Resume);
        world.run(100);
        assert!(world.arm.with(|arm| arm.enabled), "{case}");
    }
}

#[test]
fn whoever_leaves_again_and_again_and_before_there_is_a_session_has_patience_each_time() {
    let mut world = World::new(ResumePolicy::Never);
    world.cut = true;
    for _ in 0..20 {
        world.operator.handle_command(world.now, OperatorCommand::Reconnect);
        world.settle();
        world.run(2_000);
    }
    let ended = |note: &OperatorNote| matches!(note, OperatorNote::Ended(_));
    assert_eq!(world.count(ended), 0, "{:?}", world.told);
    world.cut = false;
    world.run(2_500);
    assert_eq!(connected(&world), 1);
    // Who has said goodbye does not come back.
    world.operator.handle_command(world.now, OperatorCommand::Close);
    world.operator.handle_command(world.now, OperatorCommand::Reconnect);
    world.run(6_000);
    let goodbye =
        |note: &OperatorNote| matches!(note, OperatorNote::Ended(end) if end.why == EndedBy::Goodbye);
    assert_eq!((world.count(goodbye), connected(&world)), (1, 1));
}
