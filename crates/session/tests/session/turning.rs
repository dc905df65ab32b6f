//! How things turn is told by both ends or by none.

use taut_core::{PathId, Time};
use taut_session::{
    OperatorConfig, OperatorEvent, RefusalReason, RobotConfig, RobotEvent, RobotState, State, StopCause,
    Turning,
};
use taut_wire::session::{Body, Frame};

use crate::delays;
use crate::harness::{Log, MS, OPERATOR, ROBOT, World, at_ms, udp};

fn world(operator: bool, robot: bool) -> World<taut_transport::udp::Udp, Log> {
    let operator = OperatorConfig::new().turns(operator).feedback_torque(0.25);
    World::new(udp, operator, RobotConfig::new().turns(robot), delays(MS), Log::default())
}

fn turned(now: Time) -> State {
    State { turning: Some(Turning { velocity: [0.0, 0.5, 0.0], torque: [0.0, 0.0, 2.0] }), ..State::at(now) }
}

#[test]
fn ends_of_which_one_tells_how_things_turn_are_both_told_so_and_have_no_session() {
    for turns in [[true, false], [false, true]] {
        let mut world = world(turns[0], turns[1]);
        world.run_until(at_ms(500));
        assert_eq!(world.robot.state(), RobotState::Disabled, "{turns:?}");
        assert!(world.observer.operator_at(|it| matches!(it, OperatorEvent::Connected { .. })).is_none());
        let operator = world.observer.operator.iter().find_map(|(_, event)| match event {
            OperatorEvent::Incompatible(error) => Some(error.to_string()),
            _ => None,
        });
        let robot = world.observer.robot.iter().find_map(|(_, event)| match event {
            RobotEvent::Incompatible(error) => Some(error.to_string()),
            _ => None,
        });
        let [this, that] = ["this end tells", "the peer tells"];
        let [operator, robot] = [operator.unwrap(), robot.unwrap()];
        let says = if turns[0] { [this, that] } else { [that, this] };
        assert!(operator.starts_with(says[0]) && robot.starts_with(says[1]), "{operator}; {robot}");
        assert!(operator.contains("have both ends do so (`turns`), or neither"), "{operator}");
    }
}

#[test]
fn what_turns_goes_both_ways_where_both_ends_tell_it_and_the_hand_gets_no_more_torque_than_it_bears() {
    for turns in [true, false] {
        let mut world = world(turns, turns);
        world.start();
        let now = world.now;
        world.robot.send_feedback(now, turned(now)).unwrap();
        world.operator.send_state(now, turned(now)).unwrap();
        world.run_until(now + MS * 20);
        let told = Turning { velocity: [0.0, 0.5, 0.0], torque: [0.0, 0.0, 2.0] };
        let applied = world.observer.robot.iter().find_map(|(_, event)| match event {
            RobotEvent::Apply { state, .. } => state.turning,
            _ => None,
        });
        assert_eq!(applied, turns.then_some(told));
        let felt = world.observer.operator.iter().find_map(|(_, event)| match event {
            OperatorEvent::Feedback { state, .. } => state.turning,
            _ => None,
        });
        let within = Turning { torque: [0.0, 0.0, 0.25], ..told };
        assert_eq!(felt, turns.then_some(within));
    }
}

/// A peer that knows version 7 alone reads the first bytes of a frame, and answers with a refusal in a frame of its own that names no session.
#[test]
fn a_peer_of_before_is_told_the_version_that_tells_how_things_turn_and_its_refusal_is_understood() {
    let version = |world: &World<_, Log>, from: usize| world.observer.sent[from].iter().map(|it| it[2]).min();
    let mut operator = world(true, false);
    operator.robot.close(operator.now);
    operator.run_until(at_ms(100));
    assert_eq!(version(&operator, OPERATOR), Some(8), "its hello");
    let refusal = Frame { session: 1, body: Body::Refusal(RefusalReason::UnsupportedVersion) };
    let mut bytes = Vec::new();
    refusal.emit(&mut bytes);
    operator.input(OPERATOR, PathId(1), &bytes);
    assert!(operator.observer.operator_at(|it| matches!(it, OperatorEvent::Incompatible(_))).is_some());

    let mut robot = world(false, true);
    robot.run_until(at_ms(100));
    assert_eq!(version(&robot, ROBOT), Some(8), "its refusal");
}

#[test]
fn how_a_robot_is_turned_is_known_while_another_number_that_it_measures_is_not_finite() {
    let mut world = world(true, true);
    world.start();
    world.measuring = None;
    for _ in 0..200 {
        world.run_until(world.now + MS);
        let measured = State { force: [f32::NAN, 0.0, 0.0], ..turned(world.now) };
        assert!(world.robot.send_feedback(world.now, measured).is_err());
    }
    assert_eq!(world.robot.state(), RobotState::Enabled);
    world.sampling = None;
    let (sine, cosine) = 1.05f32.sin_cos();
    let hand = State { orientation_wxyz: [cosine, 0.0, sine, 0.0], ..turned(world.now) };
    world.operator.send_state(world.now, hand).unwrap();
    world.run_until(world.now + MS * 5);
    assert_eq!((world.robot.state(), world.robot.cause()), (RobotState::Paused, StopCause::TurnedApart));
}

#[test]
fn a_robot_stops_when_hand_and_arm_are_more_than_a_quarter_turn_apart_and_moves_on_when_they_are_near() {
    for (angle, stops) in [(1.5f32, false), (1.65, true), (3.1, true), (3.2, true), (4.6, true), (4.8, false)]
    {
        let mut world = world(true, true);
        world.start();
        world.sampling = None;
        let (sine, cosine) = (angle / 2.0).sin_cos();
        let at = |now| State { orientation_wxyz: [cosine, 0.0, sine, 0.0], ..turned(now) };
        let locked = State { locked: true, ..at(world.now) };
        world.operator.send_state(world.now, locked).unwrap();
        world.run_until(world.now + MS * 5);
        assert_eq!(world.robot.state(), RobotState::Enabled, "{angle} rad: a hand that is locked may turn");
        world.operator.send_state(world.now, at(world.now)).unwrap();
        world.run_until(world.now + MS * 5);
        let stands = (world.robot.state(), world.robot.cause());
        if stops {
            assert_eq!(stands, (RobotState::Paused, StopCause::TurnedApart), "{angle} rad");
            assert_eq!(world.operator.robot(), stands, "the operator knows");
            world.start();
        }
        assert_eq!(world.robot.state(), RobotState::Enabled, "{angle} rad");
    }
}
