//! Motion of any schema over channels: only what a guard lets through, fresh, in order, after a resume.
#![allow(clippy::unwrap_used)]

use taut_core::{DropCause, PathId, Probability, Seed, Time};
use taut_link::{Chain, Delay, Loss};
use taut_session::motion::{JointLimits, Joints, JointsLimits, Motion, Schema, Twist, TwistLimits};
use taut_session::{
    Channel, ChannelError, ChannelEvent, ChannelId, DeadbandConfig, LimitPolicy, OperatorConfig,
    OperatorEvent, RobotConfig, RobotEvent, RobotState, Sampling, SendRefused, StopCause,
};
use taut_transport::udp::Udp;
use taut_wire::session::{DataHeader, Part, Piece};

use crate::delays;
use crate::harness::{Log, MS, OPERATOR, ROBOT, World, at_ms, udp};

const ARM: ChannelId = ChannelId(0);
const BASE: ChannelId = ChannelId(1);

fn arm() -> Channel {
    Channel::motion_of("arm/servo_jp", Schema::Joints)
}

fn base() -> Channel {
    Channel::motion_of("base/cmd_vel", Schema::Twist)
}

/// Two joints that turn by 1 rad/s at most, and a base that drives 0.5 m/s.
fn robot() -> RobotConfig {
    let joints = JointsLimits::all(2, JointLimits::new().velocity(1.0)).unwrap();
    let robot = RobotConfig::new().motion(arm(), joints).unwrap();
    robot.motion(base(), TwistLimits::new().linear(0.5, 10.0)).unwrap()
}

fn operator() -> OperatorConfig {
    OperatorConfig::new().channel(arm()).unwrap().channel(base()).unwrap()
}

fn connected(robot: RobotConfig) -> World<Udp, Log> {
    let mut world = World::new(udp, operator(), robot, delays(MS * 5), Log::default());
    world.run_until(at_ms(500));
    world
}

fn resumed(robot: RobotConfig) -> World<Udp, Log> {
    let mut world = connected(robot);
    let now = world.local(ROBOT);
    world.robot.measure_motion(now, ARM, &joints(0.0));
    assert!(world.resume());
    let end = world.now + MS * 20;
    world.run_until(end);
    world
}

fn joints(at: f32) -> Motion {
    Motion::Joints(Joints::new(&[at, -at]).unwrap())
}

fn drive(speed: f32) -> Motion {
    Motion::Twist(Twist { linear: [speed, 0.0, 0.0], ..Twist::default() })
}

fn send(world: &mut World<Udp, Log>, channel: ChannelId, motion: &Motion) -> Result<u64, SendRefused> {
    let now = world.local(OPERATOR);
    let sent = world.operator.send_motion(now, channel, now, motion);
    world.drain();
    sent
}

/// Every millisecond, for so many.
fn keep_sending(world: &mut World<Udp, Log>, ms: u64, of: impl Fn(u64) -> Vec<(ChannelId, Motion)>) {
    for at in 0..ms {
        for (channel, motion) in of(at) {
            let _ = send(world, channel, &motion);
        }
        let now = world.local(ROBOT);
        let told = moves(world)
            .into_iter()
            .rev()
            .find(|(_, channel, _)| *channel == ARM)
            .map(|(_, _, motion)| motion);
        world.robot.measure_motion(now, ARM, &told.unwrap_or_else(|| joints(0.0)));
        let end = world.now + MS;
        world.run_until(end);
    }
}

/// Whoever speaks for the operator sends what this library would not: a piece for the arm.
fn say_for_operator(world: &mut World<Udp, Log>, sequence: u32, part: Option<Part>, payload: &[u8]) {
    let session = world.observer.robot.iter().find_map(|(_, event)| match event {
        RobotEvent::Connected { session } => Some(*session),
        _ => None,
    });
    let sent_us = (world.local(OPERATOR).as_nanos() / 1_000) as u32;
    let number = sequence + part.map_or(0, |part| part.offset);
    let mut bytes = Vec::new();
    DataHeader { session: session.unwrap(), number, sent_us, ack: None }.emit(&mut bytes);
    Piece { channel: ARM.0, sequence, waited_us: 0, back: None, part }.emit(None, &mut bytes);
    bytes.extend(payload);
    world.input(ROBOT, PathId(0), &bytes);
    world.drain();
}

fn moves(world: &World<Udp, Log>) -> Vec<(Time, ChannelId, Motion)> {
    let moves = world.observer.robot.iter().filter_map(|(at, event)| match event {
        RobotEvent::Move { channel, motion, .. } => Some((*at, *channel, motion.clone())),
        _ => None,
    });
    moves.collect()
}

fn drops(world: &World<Udp, Log>, of: ChannelId) -> Vec<DropCause> {
    let drops = world.observer.robot.iter().filter_map(|(_, event)| match event {
        RobotEvent::Channel(ChannelEvent::Dropped { channel, cause, .. }) if *channel == of => Some(*cause),
        _ => None,
    });
    drops.collect()
}

#[test]
fn joints_and_a_base_move_after_a_resume_and_not_before() {
    let mut world = connected(robot());
    keep_sending(&mut world, 50, |_| vec![(ARM, joints(0.3)), (BASE, drive(0.2))]);
    assert_eq!(moves(&world), []);
    assert!(drops(&world, ARM).iter().all(|cause| *cause == DropCause::Stopped));
    assert_eq!(drops(&world, ARM).len(), 46, "those of the last 5 ms are on their way");
    assert!(world.resume());
    keep_sending(&mut world, 300, |_| vec![(ARM, joints(0.1)), (BASE, drive(0.2))]);
    let of = |of: ChannelId| moves(&world).into_iter().filter(move |(_, channel, _)| *channel == of).count();
    assert!(of(ARM) > 280 && of(BASE) > 280, "{} {}", of(ARM), of(BASE));
    assert_eq!(world.robot.state(), RobotState::Enabled);
}

#[test]
fn a_message_moves_nothing_before_the_device_has_taken_the_resume() {
    let mut world = connected(robot());
    world.takes = false;
    assert!(world.resume());
    keep_sending(&mut world, 90, |_| vec![(ARM, joints(0.1)), (BASE, drive(0.2))]);
    assert_eq!((world.robot.state(), moves(&world)), (RobotState::Enabled, Vec::new()));
    assert_eq!(drops(&world, BASE), [DropCause::Stopped; 86], "those of the last 5 ms are on their way");
    keep_sending(&mut world, 30, |_| vec![(ARM, joints(0.1)), (BASE, drive(0.2))]);
    assert_eq!((world.robot.state(), world.robot.cause()), (RobotState::Paused, StopCause::Watchdog));
}

#[test]
fn a_jump_of_a_joint_is_followed_no_faster_than_its_limit_by_the_robots_own_clock() {
    let mut world = resumed(robot());
    keep_sending(&mut world, 400, |at| vec![(ARM, joints(if at < 50 { 0.0 } else { 3.0 }))]);
    let told: Vec<_> = moves(&world).into_iter().collect();
    let place = |motion: &Motion| match motion {
        Motion::Joints(joints) => joints.position()[0],
        _ => unreachable!("it is the arm"),
    };
    for pair in told.windows(2) {
        let elapsed = (pair[1].0 - pair[0].0).as_secs_f64() as f32;
        assert!((place(&pair[1].2) - place(&pair[0].2)).abs() <= elapsed * 1.0 + 1e-6, "{pair:?}");
    }
    let last = place(&told.last().unwrap().2);
    assert!((0.3..0.36).contains(&last), "350 ms at 1 rad/s: {last}");
}

#[test]
fn a_source_of_motion_that_falls_silent_is_not_made_up_for_by_another() {
    let mut world = resumed(robot());
    keep_sending(&mut world, 100, |_| vec![(ARM, joints(0.1)), (BASE, drive(0.2))]);
    assert_eq!(world.robot.state(), RobotState::Enabled);
    let silent = world.now;
    keep_sending(&mut world, 200, |_| vec![(BASE, drive(0.2))]);
    let stopped =
        world.observer.robot_at(|event| matches!(event, RobotEvent::Stop { why: StopCause::Watchdog }));
    let after = stopped.expect("the arm's motion stays out") - silent;
    assert!(after >= MS * 95 && after <= MS * 105, "{after}");
    let last = moves(&world).last().unwrap().0;
    assert!(last <= stopped.unwrap());
}

#[test]
fn a_stop_ends_motion_of_every_channel_and_what_waits_is_dropped() {
    let mut world = resumed(robot());
    keep_sending(&mut world, 50, |_| vec![(ARM, joints(0.1)), (BASE, drive(0.2))]);
    world.emergency_stop();
    assert_eq!(send(&mut world, ARM, &joints(0.2)), Err(SendRefused::Stopped));
    let end = world.now + MS * 50;
    world.run_until(end);
    let stopped =
        world.observer.robot_at(|event| matches!(event, RobotEvent::Stop { why: StopCause::Emergency }));
    assert!(moves(&world).iter().all(|(at, _, _)| *at <= stopped.unwrap()));
    assert_eq!(world.robot.state(), RobotState::Fault);
}

#[test]
fn letting_go_of_the_enabling_input_stops_a_robot_that_demands_it() {
    let held = |motion: Motion, held: bool| motion.with_enabling(held);
    let mut world = resumed(robot().hold_to_run(true));
    keep_sending(&mut world, 50, |_| vec![(ARM, held(joints(0.1), true))]);
    assert_eq!(world.robot.state(), RobotState::Enabled);
    // Once: it counts as let go until the next resume, whatever comes.
    keep_sending(&mut world, 30, |at| vec![(ARM, held(joints(0.1), at != 0))]);
    assert_eq!((world.robot.state(), world.robot.cause()), (RobotState::Paused, StopCause::Released));
}

#[test]
fn letting_go_in_a_message_of_several_parts_stops_such_a_robot_too() {
    let mut world = resumed(robot().hold_to_run(true));
    keep_sending(&mut world, 50, |_| vec![(ARM, joints(0.01).with_enabling(true))]);
    let before = moves(&world).len();
    let mut payload = Vec::new();
    joints(0.02).emit(&mut payload);
    let (middle, total) = (payload.len() / 2, payload.len() as u32);
    for (offset, bytes) in [(0, &payload[..middle]), (middle as u32, &payload[middle..])] {
        say_for_operator(&mut world, 500, Some(Part { offset, total }), bytes);
    }
    assert_eq!((world.robot.state(), world.robot.cause()), (RobotState::Paused, StopCause::Released));
    assert_eq!(moves(&world).len(), before);
}

#[test]
fn where_what_is_past_a_limit_is_refused_motion_within_it_begins() {
    let joints_limits = JointsLimits::all(2, JointLimits::new().velocity(1.0)).unwrap();
    let base_limits = TwistLimits::new().linear(0.5, 10.0);
    let refuse = LimitPolicy::Refuse;
    let robot = RobotConfig::new().motion(arm(), joints_limits.policy(refuse)).unwrap();
    let robot = robot.motion(base(), base_limits.policy(refuse)).unwrap();
    let mut world = resumed(robot);
    // Half of what it may: never exactly where it is.
    let ramp = |at: u64| (at + 1) as f32 * 0.000_5;
    // Beside something else that moves all the time, and ahead of it or behind.
    let arm_moves =
        |world: &World<Udp, Log>| moves(world).iter().filter(|(_, channel, _)| *channel == ARM).count();
    keep_sending(&mut world, 40, |_| vec![(BASE, drive(0.0))]);
    keep_sending(&mut world, 80, |at| vec![(BASE, drive(0.0)), (ARM, joints(ramp(at)))]);
    assert!(arm_moves(&world) > 60, "{:?}", drops(&world, ARM));
    // What is too fast at once still moves nothing.
    let before = arm_moves(&world);
    keep_sending(&mut world, 20, |_| vec![(ARM, joints(3.0)), (BASE, drive(0.0))]);
    assert!(arm_moves(&world) <= before + 6, "but what was under way");
}

#[test]
fn what_is_no_motion_of_the_channels_schema_moves_nothing() {
    let mut world = resumed(robot());
    assert_eq!(send(&mut world, ARM, &drive(0.1)), Err(SendRefused::OtherSchema));
    assert_eq!(send(&mut world, ARM, &joints(f32::NAN)), Err(SendRefused::NotFinite));
    let now = world.local(OPERATOR);
    assert_eq!(
        world.operator.send(now, ARM, now, &[0; 12]),
        Err(SendRefused::OtherSchema),
        "bytes are no motion"
    );
    let three = Motion::Joints(Joints::new(&[0.0; 3]).unwrap());
    send(&mut world, ARM, &three).unwrap();
    let mut nan = Vec::new();
    joints(f32::NAN).emit(&mut nan);
    for (sequence, payload) in [(20, vec![0; 11]), (21, nan), (22, Vec::new())] {
        say_for_operator(&mut world, sequence, None, &payload);
    }
    let end = world.now + MS * 20;
    world.run_until(end);
    assert_eq!(moves(&world), []);
    let causes = drops(&world, ARM);
    let count = |cause| causes.iter().filter(|each| **each == cause).count();
    assert_eq!((count(DropCause::Malformed), count(DropCause::NotFinite)), (2, 1), "{causes:?}");
}

#[test]
fn motion_is_not_declared_where_no_guard_would_judge_it() {
    assert!(matches!(RobotConfig::new().channel(arm()), Err(ChannelError::NoGuard(_))));
    let twist = TwistLimits::new();
    assert!(
        matches!(RobotConfig::new().motion(arm(), twist), Err(ChannelError::NoGuard(_))),
        "limits of another schema"
    );
    // An operator that would move what the robot has not declared finds its channel closed.
    let mut world = World::new(udp, operator(), RobotConfig::new(), delays(MS), Log::default());
    world.run_until(at_ms(300));
    let refused = world
        .observer
        .operator_at(|event| matches!(event, OperatorEvent::Channel(ChannelEvent::Refused { .. })));
    assert!(refused.is_some());
    assert_eq!(send(&mut world, ARM, &joints(0.0)), Err(SendRefused::NotOpen));
}

#[test]
fn what_moves_first_long_after_the_resume_begins_where_the_robot_is_then() {
    let mut world = resumed(robot());
    keep_sending(&mut world, 100, |_| vec![(BASE, drive(0.2))]);
    // Meanwhile somebody moved the arm.
    for _ in 0..50 {
        let now = world.local(ROBOT);
        world.robot.measure_motion(now, ARM, &joints(0.8));
        send(&mut world, BASE, &drive(0.2)).unwrap();
        let end = world.now + MS;
        world.run_until(end);
    }
    send(&mut world, ARM, &joints(0.0)).unwrap();
    let end = world.now + MS * 6;
    world.run_until(end);
    let moves = moves(&world);
    let told = moves.iter().find_map(|(_, channel, motion)| match motion {
        Motion::Joints(joints) if *channel == ARM => Some(joints.position()[0]),
        _ => None,
    });
    assert!(told.is_some_and(|at| (0.75..=0.8).contains(&at)), "{told:?}");
}

#[test]
fn a_release_that_comes_too_late_to_move_anything_stops_the_robot_all_the_same() {
    let robot = robot().hold_to_run(true).watchdog(MS * 1_000);
    let mut world = resumed(robot);
    keep_sending(&mut world, 50, |_| vec![(ARM, joints(0.1).with_enabling(true))]);
    assert_eq!(world.robot.state(), RobotState::Enabled);
    let now = world.local(OPERATOR);
    let made = Time::from_nanos(now.as_nanos() - 195_000_000);
    world.operator.send_motion(now, ARM, made, &joints(0.1)).unwrap();
    world.drain();
    let end = world.now + MS * 8;
    world.run_until(end);
    // Made before the last that moved it, but after the resume: nobody holds it any more.
    let is_after_resume = world.now > at_ms(500 + 200);
    assert!(!is_after_resume || world.robot.cause() == StopCause::Released, "{:?}", world.robot.cause());
}

#[test]
fn motion_that_would_wait_for_other_motion_is_not_taken() {
    let operator = OperatorConfig::new().channel(arm()).unwrap();
    let declared = operator.channel(base().delivery(taut_session::Delivery::Reliable));
    assert!(matches!(declared, Err(ChannelError::NoGuard(_))));
}

/// The receiver holds what came before that one.
#[test]
fn after_a_loss_the_next_message_goes_however_like_the_lost_one_it_is() {
    let sampling = Sampling::deadband(DeadbandConfig::new().keep_alive(MS * 200));
    let base = base().sampler(sampling);
    let operator = OperatorConfig::new().channel(base.clone()).unwrap();
    let robot = RobotConfig::new().watchdog(MS * 500).motion(base, TwistLimits::new()).unwrap();
    let mut world = World::new(udp, operator, robot, delays(MS * 5), Log::default());
    world.run_until(at_ms(500));
    assert!(world.resume());
    let drives = |world: &mut World<Udp, Log>, ms: u64, speed: f32| {
        for _ in 0..ms {
            let _ = send(world, ChannelId(0), &drive(speed));
            let end = world.now + MS;
            world.run_until(end);
        }
    };
    drives(&mut world, 300, 0.3);
    let released = world.now;
    let loss = Loss::bernoulli("100%".parse::<Probability>().unwrap(), Seed::new(1).stream("loss"));
    world.links[OPERATOR] = Chain::new(vec![loss.into()]);
    drives(&mut world, 1, 0.0);
    world.links[OPERATOR] = Delay::new(MS * 5).into();
    drives(&mut world, 400, 0.0);
    let withheld = world.operator.status(world.now).channels[0].withheld;
    let stood = moves(&world).into_iter().find(|(at, _, motion)| *at >= released && *motion == drive(0.0));
    let after = stood.expect("it stands").0 - released;
    assert!(after < MS * 100 && withheld > 600, "{after}, {withheld} withheld");
    assert_eq!(world.robot.state(), RobotState::Enabled);
}
