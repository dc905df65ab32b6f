//! Messages and motion of channels, through both agents to the device.

use taut_agent::{
    DeviceMessage, OperatorCommand, OperatorNote, OperatorSettings, ResumePolicy, RobotCommand, RobotNote,
};
use taut_session::motion::{JointLimits, Joints, JointsLimits, Motion, Schema as MotionSchema};
use taut_session::{
    Channel, ChannelEvent, ChannelId, ChannelKind, Direction, Encoding, OperatorConfig, OperatorEvent,
    RobotConfig, RobotEvent, Schema, SendRefused,
};

use crate::world::{MS, World};

const BATTERY: ChannelId = ChannelId(0);
const ARM: ChannelId = ChannelId(1);

fn configs() -> (OperatorConfig, RobotConfig) {
    let schema = Schema::new("Battery", Encoding::Json);
    let battery = Channel::new("battery", Direction::ToOperator, ChannelKind::Telemetry, schema);
    let arm = Channel::motion_of("arm/servo_jp", MotionSchema::Joints);
    let limits = JointsLimits::all(2, JointLimits::new().velocity(1.0)).expect("two joints");
    let operator =
        OperatorConfig::new().channel(battery.clone()).and_then(|config| config.channel(arm.clone()));
    let robot = RobotConfig::new().channel(battery).and_then(|config| config.motion(arm, limits));
    (operator.expect("both fit"), robot.expect("both fit"))
}

fn world() -> World {
    let (operator, robot) = configs();
    World::of(OperatorSettings::new(MS).resumes(ResumePolicy::Start), operator, robot)
}

fn joints(at: f32) -> Motion {
    Motion::Joints(Joints::new(&[at, at]).expect("two joints"))
}

#[test]
fn a_message_of_the_robots_host_reaches_the_operators_and_motion_reaches_the_device() {
    let mut world = world();
    world.run(300);
    world.robot.handle_command(
        world.now,
        RobotCommand::Send { channel: BATTERY, created: None, payload: b"87".to_vec() },
    );
    world.robot.handle_command(world.now, RobotCommand::Measured { channel: ARM, motion: joints(0.0) });
    for _ in 0..200 {
        let command = OperatorCommand::Move { channel: ARM, motion: joints(0.5) };
        world.operator.handle_command(world.now, command);
        world.run(1);
    }
    let came = |note: &OperatorNote| {
        let OperatorNote::Event(OperatorEvent::Channel(event)) = note else { return false };
        matches!(event, ChannelEvent::Received { channel: BATTERY, payload, .. } if payload == b"87")
    };
    assert_eq!(world.count(came), 1);
    let driven = world.arm.with(|arm| arm.driven.clone());
    assert!(driven.len() > 180, "{}", driven.len());
    let Some((Motion::Joints(last), _)) = driven.last() else { panic!("joints") };
    // 1 rad/s from where the robot is, and 50 ms of the silence before.
    assert!((0.1..=0.25).contains(&last.position()[0]), "{last:?}");
    assert!(
        driven.iter().all(|(_, lease)| *lease > MS * 80 && *lease <= MS * 100),
        "what is left of the watchdog's time"
    );

    // The device is stopped when this motion stays out, although states go on.
    let before = world.arm.with(|arm| arm.stops.len());
    world.run(150);
    assert_eq!(world.arm.with(|arm| arm.stops.len()), before + 1);
    let told = |note: &&RobotNote| matches!(note, RobotNote::Event(RobotEvent::Move { .. }));
    assert_eq!(
        world.robot_told.iter().filter(told).count(),
        0,
        "what happens a thousand times a second is not told"
    );
}

#[test]
fn a_message_of_the_robots_host_that_is_not_taken_is_told_while_its_channel_is_open() {
    let mut world = world();
    let send = |world: &mut World, bytes| {
        let payload = vec![b' '; bytes];
        let command = RobotCommand::Send { channel: BATTERY, created: None, payload };
        world.robot.handle_command(world.now, command);
        world.run(1);
    };
    send(&mut world, 1 << 20);
    world.run(300);
    send(&mut world, 1 << 20);
    send(&mut world, 2);
    let told = |note: &RobotNote| match note {
        RobotNote::NotSent { channel, why } => Some((*channel, *why)),
        _ => None,
    };
    let told: Vec<_> = world.robot_told.iter().filter_map(told).collect();
    assert!(matches!(told[..], [(BATTERY, SendRefused::TooLarge { .. })]), "{told:?}");
}

#[test]
fn devices_exchange_messages_and_motion_of_channels_in_both_directions() {
    const ASK: ChannelId = ChannelId(2);
    let ask = Channel::new(
        "lights",
        Direction::ToRobot,
        ChannelKind::Command,
        Schema::new("Lights", Encoding::Json),
    );
    let settings = OperatorSettings::new(MS).resumes(ResumePolicy::Start);
    let (operator, robot) = configs();
    let operator = operator.channel(ask.clone()).expect("it fits");
    let robot = robot.channel(ask).expect("it fits");
    let mut world = World::of(settings, operator, robot);
    world.run(300);
    let on = DeviceMessage::Payload { channel: ASK, payload: b"on".to_vec() };
    let measured = DeviceMessage::Motion { channel: ARM, motion: joints(0.2) };
    let level = DeviceMessage::Payload { channel: BATTERY, payload: b"87".to_vec() };
    world.hand.with(|hand| hand.gives.push_back(on));
    world.arm.with(|arm| arm.gives.extend([measured, level]));
    for _ in 0..20 {
        let there = DeviceMessage::Motion { channel: ARM, motion: joints(0.2) };
        world.hand.with(|hand| hand.gives.push_back(there));
        world.run(1);
    }
    world.run(50);
    assert_eq!(world.arm.with(|arm| arm.received.clone()), [(ASK, b"on".to_vec())]);
    assert_eq!(world.hand.with(|hand| hand.received.clone()), [(BATTERY, b"87".to_vec())]);
    // It begins where the device says that it is.
    let Some((Motion::Joints(first), _)) = world.arm.with(|arm| arm.driven.first().cloned()) else {
        panic!("joints")
    };
    assert!((first.position()[0] - 0.2).abs() < 1e-6, "{first:?}");
}
