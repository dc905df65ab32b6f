//! Connecting, losing the link, and beginning anew, in virtual time.

use taut_agent::{
    EndedBy, OperatorCommand, OperatorNote, OperatorSettings, ResumePolicy, RobotNote, Trouble,
};
use taut_core::{Datagram, Ecn, PathId, Time};
use taut_session::{ControlLaw, LawKind, OperatorConfig, OperatorEvent, RobotConfig};

use crate::world::{MS, World, at};

fn ended(world: &World) -> Option<(Time, EndedBy)> {
    world.told.iter().find_map(|(at, note)| match note {
        OperatorNote::Ended(ending) => Some((*at, ending.why.clone())),
        _ => None,
    })
}

fn asked(world: &World) -> Vec<Time> {
    let asked = world.told.iter().filter(|(_, note)| matches!(note, OperatorNote::Reconnect));
    asked.map(|(at, _)| *at).collect()
}

#[test]
fn who_hears_nothing_gives_up_after_five_seconds() {
    let mut world = World::new(ResumePolicy::Start);
    world.cut = true;
    world.run(6_000);
    assert_eq!(ended(&world), Some((at(6_000), EndedBy::NotConnected(Trouble::NoAnswer))));
}

#[test]
fn a_session_that_was_lost_goes_on_over_a_new_transport_and_the_robot_stays_stopped() {
    let mut world = World::moving(ResumePolicy::Start);
    let lost = world.now;
    world.operator.transport_mut().end(Trouble::Ended("nothing was heard".to_owned()));
    world.settle();
    world.run(1_000);
    assert_eq!(asked(&world), [lost + MS * 200]);
    let connected =
        |note: &OperatorNote| matches!(note, OperatorNote::Event(OperatorEvent::Connected { .. }));
    assert_eq!((world.count(connected), ended(&world)), (2, None));
    assert!(world.arm.with(|arm| !arm.enabled), "nobody resumed");
    world.operator.handle_command(world.now, OperatorCommand::Resume);
    world.run(100);
    assert!(world.arm.with(|arm| arm.enabled) && world.hand.with(|hand| hand.force.is_some()));
}

#[test]
fn a_session_that_does_not_come_back_is_given_up_with_what_was_measured() {
    let mut world = World::moving(ResumePolicy::Always);
    world.cut = true;
    let lost = world.now;
    world.operator.transport_mut().end(Trouble::Unreachable);
    world.settle();
    for _ in 0..6 {
        world.run(1_000);
        if ended(&world).is_none() {
            world.operator.transport_mut().end(Trouble::Unreachable);
            world.settle();
        }
    }
    let (when, why) = ended(&world).expect("it gives up");
    assert_eq!(why, EndedBy::Lost(Trouble::NoAnswer));
    assert_eq!(when, lost + MS * 5_000);
    assert!(asked(&world).len() >= 4, "{:?}", asked(&world));
    let ending = world.told.iter().find_map(|(_, note)| match note {
        OperatorNote::Ended(ending) => Some(ending.progress.made),
        _ => None,
    });
    assert!(ending.is_some_and(|made| made > 100));
}

#[test]
fn a_refusal_is_believed_at_once_and_who_closes_is_not_connected_again() {
    let mut world = World::new(ResumePolicy::Start);
    world.cut = true;
    world.run(100);
    world.operator.transport_mut().end(Trouble::NotTrusted);
    world.settle();
    assert_eq!(ended(&world), Some((at(1_100), EndedBy::NotConnected(Trouble::NotTrusted))));

    let mut world = World::moving(ResumePolicy::Start);
    let closed = world.now;
    world.operator.handle_command(world.now, OperatorCommand::Close);
    world.settle();
    world.run(10_000);
    assert_eq!((ended(&world), asked(&world).len()), (Some((closed, EndedBy::Goodbye)), 0));
}

#[test]
fn a_robot_asks_for_what_waits_for_the_next_operator_and_serves_it() {
    let mut world = World::moving(ResumePolicy::Start);
    world.robot.transport_mut().end(Trouble::NoAnswer);
    world.settle();
    assert!(world.arm.with(|arm| !arm.enabled), "nobody moves it");
    let asked = world.robot_told.iter().filter(|note| matches!(note, RobotNote::Reconnect)).count();
    assert_eq!(asked, 1);
    world.robot.reconnect(world.now, crate::world::Line::new());
    let next = World::new(ResumePolicy::Start);
    world.operator = next.operator;
    world.hand = next.hand;
    world.run(500);
    assert!(world.arm.with(|arm| arm.enabled), "the next one moves it");
}

/// A session of these two, whose robot is then started anew as `other`, while nobody says goodbye over this transport: the operator is told once, and ends, and
/// `says` why.
fn ends_when_its_robot_begins_anew(
    operator: OperatorConfig,
    robot: RobotConfig,
    other: RobotConfig,
    says: &str,
) {
    let mut world = World::of(OperatorSettings::new(MS).resumes(ResumePolicy::Start), operator, robot);
    world.run(300);
    assert!(world.arm.with(|arm| arm.applied > 100), "{:?}", world.told);
    let began = world.now;
    world.robot = World::of(OperatorSettings::new(MS), OperatorConfig::new(), other).robot;
    world.run(10_000);
    let incompatible =
        |note: &OperatorNote| matches!(note, OperatorNote::Event(OperatorEvent::Incompatible(_)));
    assert_eq!(world.count(incompatible), 1, "told once: {:?}", world.told);
    let (when, why) = ended(&world).expect("it ends");
    assert!((MS * 5_000..MS * 7_500).contains(&(when - began)), "{}", when - began);
    assert!(matches!(&why, EndedBy::Lost(Trouble::Ended(why)) if why.contains(says)), "{why:?}");
}

#[test]
fn an_operator_ends_whose_robot_begins_anew_with_the_other_setting_of_turns() {
    for turns in [true, false] {
        let [robot, other] = [turns, !turns].map(|turns| RobotConfig::new().turns(turns));
        let says = "have both ends do so (`turns`), or neither";
        ends_when_its_robot_begins_anew(OperatorConfig::new().turns(turns), robot, other, says);
    }
}

#[test]
fn an_operator_ends_whose_robot_begins_anew_under_another_control_law() {
    let tdpa =
        ControlLaw { kind: LawKind::Tdpa, servo: [3_000_000, 45_000], turning_servo: [0; 2], impedance: 0 };
    let stiffer = ControlLaw { servo: [4_000_000, 45_000], ..tdpa };
    for [ours, theirs] in [[None, Some(tdpa)], [Some(tdpa), None], [Some(tdpa), Some(stiffer)]] {
        // Its hello, in this session, is all that the other one says.
        let [robot, other] = [ours, theirs].map(|law| RobotConfig::new().control_law(law));
        let says = "give both the same control law";
        ends_when_its_robot_begins_anew(OperatorConfig::new().control_law(ours), robot, other, says);
    }
}

#[test]
fn an_operator_ends_whose_robot_begins_anew_as_one_of_another_version() {
    let mut world = World::moving(ResumePolicy::Start);
    for _ in 0..10 {
        // It answers so to whatever comes.
        world.cut = true;
        world.run(1_000);
        let input =
            Datagram { path: PathId(0), ecn: Ecn::NotCapable, data: b"ts\x09\x03\0\0\0\x01", padding: 0 };
        world.operator.handle_input(world.now, input);
        world.settle();
    }
    let (_, why) = ended(&world).expect("it ends");
    assert!(
        matches!(&why, EndedBy::Lost(Trouble::Ended(why)) if why.contains("speaks version 9")),
        "{why:?}"
    );
}
