//! Bytes that nobody should send.

use taut_core::{Datagram, DropCause, Ecn, PathId, Probability, Seed, Transport};
use taut_link::{Chain, Loss};
use taut_session::{OperatorEvent, RefusalReason, RobotEvent, RobotState, State, StateError, Verdict};
use taut_wire::session::{Body, Command, Frame, Hello, Limits, Role, State as Wire, StopCause};

use crate::harness::{Log, MS, OPERATOR, ROBOT, World, at_ms, dropped, udp};
use crate::{delays, world};

fn session<T>(world: &World<T, Log>) -> u32 {
    let session = world.observer.robot.iter().find_map(|(_, event)| match event {
        RobotEvent::Connected { session } => Some(*session),
        _ => None,
    });
    session.expect("there is a session")
}

fn inject<T: Transport>(world: &mut World<T, Log>, session: u32, body: Body) {
    let mut bytes = Vec::new();
    Frame { session, body }.emit(&mut bytes);
    world.input(ROBOT, PathId(7), &bytes);
}

fn hello() -> Body {
    Body::Hello(Hello {
        role: Role::Operator,
        state: RobotState::Disabled,
        cause: StopCause::Start,
        epoch: 0,
        rate_mhz: 1_000_000,
        watchdog_us: 100_000,
        max_age_us: 0,
        hold_to_run: false,
        turns: false,
        law: None,
        limits: Limits::default(),
        deadline_us: 0,
        channels: Vec::new(),
    })
}

#[test]
fn a_number_that_is_not_finite_never_reaches_the_robot() {
    let mut world = world(udp, delays(MS));
    world.start();
    world.run_until(at_ms(1_000));
    let bad = State { velocity: [0.0, f32::NAN, 0.0], ..State::at(world.now) };
    assert_eq!(world.operator.send_state(world.now, bad), Err(StateError::NotFinite));
    assert_eq!(world.robot.send_feedback(world.now, bad), Err(StateError::NotFinite));
    let session = session(&world);
    let (sequence, created_ns) = (1_000_000, world.now.as_nanos());
    for number in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let wire = Wire { sequence, created_ns, position: [0.0, 0.0, number], ..Wire::default() };
        inject(&mut world, session, Body::State(wire));
    }
    assert!(world.observer.applied().iter().all(|(_, applied)| *applied < sequence));
    let refused = RobotEvent::Dropped { sequence, cause: DropCause::NotFinite };
    assert!(world.observer.robot_at(|event| *event == refused).is_some());
    assert_eq!(dropped(&world.robot.status(world.now), DropCause::NotFinite), 3);
    assert_eq!(dropped(&world.operator.status(world.now), DropCause::NotFinite), 1);
    // It had the highest number so far; those after it are taken all the same.
    let before = world.observer.applied().len();
    world.run_until(at_ms(1_100));
    assert!(world.observer.applied().len() > before + 80);
    assert_eq!(Verdict::NotFinite.cause(), Some(DropCause::NotFinite));
}

#[test]
fn a_second_operator_is_refused_and_the_session_does_not_notice() {
    let mut world = world(udp, delays(MS));
    world.start();
    world.run_until(at_ms(1_000));
    let (other, before) = (session(&world) ^ 2, world.observer.applied().len());
    let now = world.now.as_nanos();
    let command = Command { command: 1_000, epoch: 0, created_ns: now, sent_ns: now };
    inject(&mut world, other, hello());
    inject(&mut world, other, Body::EmergencyStop(command));
    inject(&mut world, other, Body::State(Wire { sequence: 1 << 40, created_ns: now, ..Wire::default() }));
    inject(&mut world, other, Body::Goodbye);
    world.run_until(at_ms(1_200));
    assert_eq!(world.robot.state(), RobotState::Enabled);
    assert!(world.observer.applied().len() > before + 190);
    assert_eq!(dropped(&world.robot.status(world.now), DropCause::Unauthenticated), 4);
    let refused = |event: &OperatorEvent| matches!(event, OperatorEvent::RefusedByRobot(_));
    assert_eq!(world.observer.operator_at(refused), None);

    // Once the first one has been silent for a second, another may come; and the robot does not move for it.
    world.sampling = None;
    world.operator = taut_session::Operator::new(
        udp(OPERATOR),
        taut_session::OperatorConfig::new(),
        Seed::new(77).stream("another operator"),
    );
    world.run_until(at_ms(1_300));
    let busy = OperatorEvent::RefusedByRobot(RefusalReason::Busy);
    assert!(world.observer.operator_at(|event| *event == busy).is_some());
    world.run_until(at_ms(4_000));
    assert_eq!(world.robot.state(), RobotState::Paused);
    assert!(world.resume());
    world.run_until(at_ms(4_050));
    assert_eq!(world.robot.state(), RobotState::Enabled);
}

#[test]
fn a_refusal_that_comes_late_does_not_end_a_session_that_goes_on() {
    let mut world = world(udp, delays(MS));
    world.start();
    world.run_until(at_ms(1_000));
    let mut bytes = Vec::new();
    Frame { session: session(&world), body: Body::Refusal(RefusalReason::Busy) }.emit(&mut bytes);
    world.input(OPERATOR, PathId(7), &bytes);
    let now = world.local(OPERATOR);
    assert!(world.operator.send_state(now, State::at(now)).is_ok());
    // Of a robot that says nothing else it counts.
    world.links[ROBOT] = Chain::from(Loss::bernoulli(Probability::ALWAYS, Seed::new(1).stream("cut")));
    world.run_until(at_ms(1_060));
    world.input(OPERATOR, PathId(7), &bytes);
    let now = world.local(OPERATOR);
    assert_eq!(world.operator.send_state(now, State::at(now)), Err(StateError::NotConnected));
}

#[test]
fn a_peer_of_another_version_gets_a_clear_error() {
    let mut world = world(udp, delays(MS));
    world.start();
    let mut bytes = Vec::new();
    Frame { session: 5, body: hello() }.emit(&mut bytes);
    bytes[2] = 10;
    world.input(ROBOT, PathId(1), &bytes);
    let told = world.observer.robot.iter().find_map(|(_, event)| match event {
        RobotEvent::Incompatible(error) => Some(error.to_string()),
        _ => None,
    });
    for _ in 0..100 {
        world.input(ROBOT, PathId(1), &bytes);
    }
    let times = world.observer.robot.iter().filter(|(_, event)| matches!(event, RobotEvent::Incompatible(_)));
    assert_eq!(times.count(), 1, "once a second");
    assert_eq!(dropped(&world.robot.status(world.now), DropCause::Malformed), 101, "each is counted");
    let told = told.expect("the robot's owner is told");
    assert!(told.contains("version 10") && told.contains("this end speaks 7"), "{told}");

    // The other end, too: what comes back names this version in its first bytes.
    let mut robot = taut_session::Robot::new(udp(ROBOT), Default::default(), Seed::new(1).stream("robot"));
    let input = Datagram { path: PathId(1), ecn: Ecn::NotCapable, data: &bytes, padding: 0 };
    robot.handle_input(at_ms(0), input);
    let mut answer = Vec::new();
    robot.poll_transmit(at_ms(0), &mut answer).expect("it answers");
    assert_eq!(answer[..3], [b't', b's', 7]);
    world.input(OPERATOR, PathId(1), &bytes);
    assert!(world.observer.operator_at(|event| matches!(event, OperatorEvent::Incompatible(_))).is_some());
}

#[test]
fn random_datagrams_are_refused_and_counted_and_change_nothing() {
    let mut world = world(udp, delays(MS));
    world.start();
    world.run_until(at_ms(1_000));
    let mut rng = Seed::new(1).stream("noise");
    let session = session(&world);
    let before = world.observer.applied().len();
    for i in 0..20_000u64 {
        let mut bytes: Vec<u8> = (0..rng.below(120)).map(|_| rng.next_u64() as u8).collect();
        if i % 2 == 0 && bytes.len() >= 8 {
            // Almost a frame.
            bytes[..3].copy_from_slice(&[b't', b's', 1]);
            bytes[3] = (rng.next_u64() % 15) as u8;
            bytes[4..8].copy_from_slice(&(session ^ 1 << rng.below(32)).to_be_bytes());
        }
        world.input(ROBOT, PathId(3), &bytes);
        world.input(OPERATOR, PathId(3), &bytes);
    }
    assert_eq!(world.observer.applied().len(), before);
    assert_eq!(world.robot.state(), RobotState::Enabled);
    let status = world.robot.status(world.now);
    assert!(dropped(&status, DropCause::Malformed) + dropped(&status, DropCause::Unauthenticated) > 19_000);
    world.run_until(at_ms(1_100));
    assert!(world.observer.applied().len() > before + 90);
}

#[test]
fn acknowledgements_of_nothing_never_become_a_round_trip() {
    let mut world = world(udp, delays(MS * 5));
    world.start();
    world.run_until(at_ms(1_000));
    let session = session(&world);
    let before = world.operator.status(world.now);
    for sequence in [1, 500, 900, 1 << 50, u64::MAX] {
        let ack = taut_wire::session::Ack {
            sequence,
            echo_ns: 12_345,
            received_ns: 0,
            held_us: 0,
            seen: 0,
            epoch: 0,
            verdict: Verdict::Taken,
            state: RobotState::Enabled,
            cause: StopCause::Start,
        };
        let mut bytes = Vec::new();
        Frame { session, body: Body::Ack(ack) }.emit(&mut bytes);
        world.input(OPERATOR, PathId(0), &bytes);
    }
    let after = world.operator.status(world.now);
    assert_eq!(after.unmatched_echoes, before.unmatched_echoes + 5);
    assert_eq!(after.rtt, before.rtt);
}
