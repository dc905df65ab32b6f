//! Both ends are coupled by the same control law, or have no session.

use taut_core::PathId;
use taut_session::{
    ControlLaw, LawKind, OperatorConfig, OperatorEvent, RefusalReason, RobotConfig, RobotEvent, RobotState,
};
use taut_wire::session::{Body, Frame};

use crate::delays;
use crate::harness::{Log, MS, OPERATOR, World, at_ms, udp};

const TDPA: ControlLaw =
    ControlLaw { kind: LawKind::Tdpa, servo: [3_000_000, 45_000], turning_servo: [0; 2], impedance: 0 };

fn world(operator: Option<ControlLaw>, robot: Option<ControlLaw>) -> World<taut_transport::udp::Udp, Log> {
    let robot = RobotConfig::new().control_law(robot);
    World::new(udp, OperatorConfig::new().control_law(operator), robot, delays(MS), Log::default())
}

#[test]
fn ends_of_different_laws_or_of_the_same_with_other_servos_are_both_told_and_have_no_session() {
    let wave = ControlLaw { kind: LawKind::Wave, impedance: 30_000, ..TDPA };
    let stiffer = ControlLaw { servo: [4_000_000, 45_000], ..TDPA };
    let others =
        [(Some(TDPA), Some(wave)), (Some(TDPA), Some(stiffer)), (Some(TDPA), None), (None, Some(TDPA))];
    for (ours, theirs) in others {
        let mut world = world(ours, theirs);
        world.run_until(at_ms(3_000));
        assert_eq!(world.robot.state(), RobotState::Disabled);
        assert!(world.observer.operator_at(|it| matches!(it, OperatorEvent::Connected { .. })).is_none());
        assert!(world.observer.robot_at(|it| matches!(it, RobotEvent::Connected { .. })).is_none());
        let operator: Vec<_> = world
            .observer
            .operator
            .iter()
            .filter_map(|(_, event)| match event {
                OperatorEvent::Incompatible(error) => Some(*error),
                _ => None,
            })
            .collect();
        let robot: Vec<_> = world
            .observer
            .robot
            .iter()
            .filter_map(|(_, event)| match event {
                RobotEvent::Incompatible(error) => Some(*error),
                _ => None,
            })
            .collect();
        let told = |ours, theirs| taut_wire::session::Error::OtherLaw { theirs, ours };
        assert!(
            !operator.is_empty() && operator.iter().all(|error| *error == told(ours, theirs)),
            "{operator:?}"
        );
        assert!((1..=4).contains(&robot.len()), "once a second at most: {robot:?}");
        assert!(robot.iter().all(|error| *error == told(theirs, ours)), "{robot:?}");
    }
}

#[test]
fn ends_of_one_law_have_a_session() {
    let mut world = world(Some(TDPA), Some(TDPA));
    world.start();
    assert_eq!(world.robot.state(), RobotState::Enabled);
}

/// A peer that knows no hello with a law reads its version, and answers with a refusal that names no session.
#[test]
fn a_peer_of_before_is_told_the_version_that_says_a_law_and_its_refusal_is_understood() {
    for (turns, reason) in [(false, RefusalReason::UnsupportedVersion), (true, RefusalReason::Turns)] {
        let operator = OperatorConfig::new().control_law(Some(TDPA)).turns(turns);
        let mut operator = World::new(udp, operator, RobotConfig::new(), delays(MS), Log::default());
        operator.robot.close(operator.now);
        operator.run_until(at_ms(100));
        assert!(operator.observer.sent[OPERATOR].iter().any(|it| it[2] == 9), "its hello");
        let mut bytes = Vec::new();
        Frame { session: 1, body: Body::Refusal(reason) }.emit(&mut bytes);
        operator.input(OPERATOR, PathId(1), &bytes);
        let why = operator.observer.operator_at(|it| matches!(it, OperatorEvent::Incompatible(_)));
        assert!(why.is_some());
    }
}
