use taut_control::{Place, Tdpa, Wave};
use taut_session::LimitPolicy;

use super::tests::{Held, MS, Obedient, SERVO, told, within};
use super::*;

fn passive() -> [Law; 2] {
    let (wave, tdpa) = (Wave { reserve: 1.0, ..Wave::default() }, Tdpa { reserve: 1.0, ..Tdpa::default() });
    [Law::Wave(wave), Law::Tdpa(tdpa)].map(|law| law.of_turns())
}

/// Of an arm whose points and turns are led by the same law.
fn turning(law: Law, limits: MotionLimits) -> CoupledArm<Obedient> {
    let mut arm = within(law, limits).turning(law, SERVO.of_turns());
    arm.device.state = Some(turned(0.0, 0.0, 0.0));
    told(&mut arm, 1);
    arm.enable().unwrap();
    arm
}

/// A state turned about y by so much, at so much a second.
fn turned(angle: f64, speed: f32, energy: f64) -> State {
    State {
        orientation_wxyz: Orientation::ORIGIN.after(angle, &[0.0, 1.0, 0.0]).0.map(|part| part as f32),
        turning: Some(Turning { velocity: [0.0, speed, 0.0], torque: [0.0; 3] }),
        energy: Some(energy),
        turning_energy: energy,
        ..State::at(Time::ZERO)
    }
}

fn apply(arm: &mut CoupledArm<Obedient>, state: State) -> bool {
    arm.apply(&SetPoint { state, age: Duration::ZERO, lease: MS * 50, fresh: Duration::MAX })
}

/// About y, rad.
fn angle(arm: &CoupledArm<Obedient>) -> f64 {
    Orientation::of(&arm.device.state.unwrap()).unwrap().0.position.way_from(&Orientation::ORIGIN)[1]
}

#[test]
fn the_turned_reference_of_a_passive_law_keeps_the_angular_speed_and_follows_within_it() {
    for law in passive() {
        let mut arm = turning(law, MotionLimits::new().angular_velocity(0.5));
        let (mut last, mut limited) = (0.0, 0);
        for step in 1..=2_000 {
            // 3 rad/s for 0.2 s, and then still.
            let moves = step <= 200;
            let at = f64::from(step.min(200)) * 0.003;
            assert!(apply(&mut arm, turned(at, if moves { 3.0 } else { 0.0 }, 0.01 * f64::from(step))));
            limited = arm.measure().unwrap().feedback.unwrap().limited;
            let [now, told] =
                [angle(&arm), f64::from(arm.device.state.unwrap().turning.unwrap().velocity[1])];
            assert!(
                (now - last).abs() <= 0.000_502 && told.abs() <= 0.501,
                "{law:?}: {now} rad, {told} rad/s"
            );
            last = now;
        }
        assert!(limited > 200 && (last - 0.6).abs() < 0.1, "{law:?}: {limited} periods, {last} rad");
    }
}

#[test]
fn limits_that_refuse_leave_the_turned_reference_where_it_is() {
    for law in passive() {
        let limits = MotionLimits::new().angular_velocity(0.5).policy(LimitPolicy::Refuse);
        let mut arm = turning(law, limits);
        for step in 1..=20 {
            apply(&mut arm, turned(f64::from(step) * 0.003, 3.0, 0.01 * f64::from(step)));
            told(&mut arm, 1);
        }
        assert!(angle(&arm).abs() < 1e-6, "{law:?}: {} rad", angle(&arm));
    }
}

#[test]
fn a_locked_hand_holds_the_turned_reference_of_a_passive_law_where_it_is() {
    for law in passive() {
        let mut arm = turning(law, MotionLimits::new().angular_velocity(0.5));
        assert!(apply(&mut arm, turned(0.2, 0.0, 1.0)));
        told(&mut arm, 5);
        let follow = |arm: &mut CoupledArm<Obedient>| {
            assert!(apply(arm, State { locked: true, ..turned(0.2, 0.0, 1.0) }));
            told(arm, 1);
            angle(arm)
        };
        let held = follow(&mut arm);
        (0..300).for_each(|_| assert!((follow(&mut arm) - held).abs() < 1e-9, "{law:?}"));
        assert!(held < 0.1, "{law:?}: {held} rad");
    }
}

#[test]
fn states_that_do_not_say_how_the_hand_turns_stop_an_arm_whose_turns_are_led_by_energy() {
    for law in passive() {
        let mut arm = turning(law, MotionLimits::new());
        assert!(!apply(&mut arm, State { turning: None, ..turned(0.1, 0.0, 1.0) }), "{law:?}");
        let failure = arm.failure();
        assert!(
            matches!(&failure, Some(DeviceFailure::Stopped(why)) if why.contains("how the hand turns")),
            "{failure:?}"
        );
        assert_eq!((arm.device.stops, told(&mut arm, 50)), (1, 0), "{law:?}");
        assert!(!apply(&mut arm, turned(0.1, 0.0, 1.0)), "it waits to be enabled");
    }
}

#[test]
fn an_arm_that_turns_is_led_for_its_lease_and_stops_at_once() {
    for law in passive() {
        let mut arm = turning(law, MotionLimits::new());
        assert!(apply(&mut arm, turned(0.2, 0.0, 1.0)));
        assert!(told(&mut arm, 49) == 49 && angle(&arm) > 0.01, "{law:?}: {} rad", angle(&arm));
        assert!(told(&mut arm, 100) <= 1, "{law:?}");
        let mut arm = turning(law, MotionLimits::new());
        assert!(apply(&mut arm, turned(0.2, 0.0, 1.0)));
        told(&mut arm, 5);
        arm.stop(StopCause::Emergency);
        let stopped = angle(&arm);
        arm.enable().unwrap();
        assert!(told(&mut arm, 50) == 0 && (angle(&arm) - stopped).abs() < 1e-9, "{law:?}");
    }
}

#[test]
fn an_orientation_that_is_none_is_refused_at_either_end() {
    for law in passive() {
        let mut arm = turning(law, MotionLimits::new());
        arm.device.state = Some(State { orientation_wxyz: [0.0; 4], ..turned(0.0, 0.0, 0.0) });
        arm.measure();
        arm.measure();
        assert!(matches!(arm.failure(), Some(DeviceFailure::Stopped(_))), "{law:?}");
        let mut hand = hand(law);
        hand.device.state = Some(State { orientation_wxyz: [f32::NAN; 4], ..turned(0.0, 0.0, 0.0) });
        hand.device.felt = 1.0;
        hand.sample(Time::ZERO);
        assert!(hand.device.felt.abs() < 1e-9 && hand.lasts().is_none(), "{law:?}: it is let go of");
    }
}

fn hand(law: Law) -> CoupledHand<Held> {
    CoupledHand::new(Held::default(), law, SERVO, MS, 20.0).turning(law, SERVO.of_turns(), 2.0)
}

#[test]
fn a_hand_that_turns_feels_no_more_torque_than_its_device_may_make_and_says_energy_of_its_own() {
    for law in passive() {
        let mut hand = hand(law);
        hand.device.state = Some(turned(0.0, 0.0, 0.0));
        let torque = |torque: f32| {
            let turning = Some(Turning { velocity: [0.0; 3], torque: [0.0, torque, 0.0] });
            State { turning, turning_energy: 1.0, ..turned(0.0, 0.0, 0.0) }
        };
        hand.feel(Time::ZERO, &torque(-50.0));
        for step in 0..200 {
            // Towards the torque: it takes energy from the hand.
            hand.device.state = Some(turned(0.0002 * f64::from(step), 0.2, 0.0));
            let state = hand.sample(Time::ZERO).unwrap().state;
            let size = state.turning.unwrap().torque[1];
            assert!(size.abs() <= 2.0 + 1e-6, "{law:?}: {size} N·m");
            assert!(step < 100 || (size < -0.01 && state.turning_energy > 0.0), "{law:?}: {size} N·m");
            assert!(hand.device.felt.abs() < 1e-9, "the other port has nothing to do with it");
        }
        // A robot that says nothing of turns pushes the hand by what it says of points alone.
        let mut hand = self::hand(law);
        hand.device.state = Some(turned(0.0, 0.0, 0.0));
        hand.feel(Time::ZERO, &State { turning: None, ..torque(-50.0) });
        let state = hand.sample(Time::ZERO).unwrap().state;
        assert!(state.turning.unwrap().torque[1].abs() < 1e-9, "{law:?}");
    }
}

#[test]
fn an_arm_that_does_not_measure_how_it_is_turned_stops_says_so_and_is_not_told_how_the_hand_is() {
    for law in [Law::PositionForce, Law::PositionPosition].into_iter().chain(passive()) {
        let mut arm = turning(law, MotionLimits::new());
        arm.device.state = Some(State { turning: None, ..turned(0.0, 0.0, 0.0) });
        arm.measure();
        let failure = arm.failure();
        assert!(
            matches!(&failure, Some(DeviceFailure::Stopped(why)) if why.contains("how it turns")),
            "{law:?}: {failure:?}"
        );
        assert!(!apply(&mut arm, turned(0.5, 0.0, 1.0)), "{law:?}");
        let turning = |arm: &CoupledArm<Obedient>| arm.device.state.unwrap().turning;
        assert_eq!((told(&mut arm, 20), turning(&arm), arm.device.stops), (0, None, 1), "{law:?}");
    }
}

#[test]
fn a_torque_ends_with_the_feedback_that_tells_of_turns_and_force_goes_on() {
    for law in passive() {
        for orientation_wxyz in [None, Some([0.0; 4])] {
            let mut hand = hand(law);
            hand.device.state = Some(turned(0.0, 0.0, 0.0));
            let feels = |hand: &mut CoupledHand<Held>, from: u64, heard: State| {
                let mut torque = 0.0;
                for step in from..from + 100 {
                    let now = Time::ZERO + MS * step;
                    hand.feel(now, &State { created: now, ..heard });
                    torque = hand.sample(now).unwrap().state.turning.unwrap().torque[1];
                }
                (torque.abs(), hand.device.felt.abs())
            };
            let turning = Some(Turning { velocity: [0.0; 3], torque: [0.0, -1.0, 0.0] });
            let both = State { turning, force: [-1.0, 0.0, 0.0], ..turned(0.0, 0.0, 1.0) };
            let (torque, force) = feels(&mut hand, 0, both);
            assert!(torque > 0.01 && force > 0.01, "{law:?}: {torque} N·m, {force} N");
            let none = match orientation_wxyz {
                None => State { turning: None, ..both },
                Some(orientation_wxyz) => State { orientation_wxyz, ..both },
            };
            let (torque, force) = feels(&mut hand, 100, none);
            assert!(torque < 1e-6 && force > 0.01, "{law:?}: {torque} N·m, {force} N");
        }
    }
}

#[test]
fn a_hand_whose_turns_no_law_couples_says_none_where_the_law_counts_energy() {
    for law in passive() {
        let mut hand = CoupledHand::new(Held::default(), law, SERVO, MS, 20.0);
        hand.device.state = Some(turned(0.1, 0.5, 0.0));
        assert_eq!(hand.sample(Time::ZERO).unwrap().state.turning, None, "{law:?}");
    }
}

#[test]
fn an_arm_stops_before_the_hand_is_half_a_turn_from_it_as_its_session_would() {
    for law in [Law::PositionForce, Law::PositionPosition].into_iter().chain(passive()) {
        let mut arm = turning(law, MotionLimits::new());
        arm.device.stuck = arm.device.state;
        let mut hand = 0.0;
        while arm.device.stops == 0 && hand < 3.0 {
            hand += 0.005;
            apply(&mut arm, turned(hand, 5.0, 1.0));
            arm.measure();
        }
        assert!((hand - std::f64::consts::FRAC_PI_2).abs() < 0.011, "{law:?}: stopped at {hand} rad");
        let why = arm.failure().unwrap();
        assert_eq!((&why, why.cause()), (&DeviceFailure::TurnedApart, StopCause::TurnedApart), "{law:?}");
        assert_eq!(told(&mut arm, 20), 0, "{law:?}: it stays");
        // Past half a turn the shorter way is the other one: nothing leads it there either.
        arm.enable().unwrap();
        apply(&mut arm, turned(std::f64::consts::PI + 0.5, 5.0, 2.0));
        assert_eq!((told(&mut arm, 20), arm.device.stops), (0, 2), "{law:?}");
    }
}

#[test]
fn a_hand_is_not_pulled_the_other_way_round_by_an_arm_that_it_has_left_behind() {
    let law = Law::PositionPosition;
    let mut hand = hand(law);
    let mut felt = |angle| {
        hand.feel(Time::ZERO, &turned(0.0, 0.0, 0.0));
        hand.device.state = Some(turned(angle, 0.0, 0.0));
        hand.sample(Time::ZERO).unwrap().state.turning.unwrap().torque[1]
    };
    assert!(felt(1.5) < -1.9, "back to the arm");
    let away = [1.6, 3.1, 3.2, 4.0].map(&mut felt);
    assert!(
        away.iter().all(|torque| torque.abs() < 1e-9),
        "{away:?}: let go of, whichever way is the shorter"
    );
}
