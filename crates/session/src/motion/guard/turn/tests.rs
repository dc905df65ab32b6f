use proptest::prelude::*;

use super::super::tests::{MS, Path, at, largest, policy, vector, wait};
use super::*;
use crate::motion::{Guard, LimitPolicy, Motion, MotionLimits, State, StateGuard, Turning};

const UPRIGHT: [f32; 4] = [1.0, 0.0, 0.0, 0.0];

/// So far about z, rad.
fn about_z(angle: f32) -> [f32; 4] {
    [(angle / 2.0).cos(), 0.0, 0.0, (angle / 2.0).sin()]
}

fn turned(orientation_wxyz: [f32; 4]) -> State {
    State { orientation_wxyz, ..State::default() }
}

/// Resumed at 0 ms, upright in the origin.
fn guard(limits: MotionLimits) -> Guard {
    let mut guard = Guard::new(limits, MS * 1_000);
    guard.measure(at(0), &Motion::State(State { gripper: 300, ..State::default() }));
    guard.enable(at(0));
    guard
}

fn told(guard: &mut Guard, ms: u64, state: State) -> State {
    match guard.bound(at(ms), &Motion::State(state)) {
        Ok(Motion::State(state)) => state,
        other => panic!("{other:?}"),
    }
}

fn near(found: &[f32], expected: &[f32]) -> bool {
    found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6)
}

#[test]
fn an_orientation_turns_no_faster_than_the_limit_by_the_robots_own_clock() {
    let mut guard = guard(MotionLimits::new().angular_velocity(2.0));
    let asked = State {
        turning: Some(Turning { velocity: [0.0, 0.0, 9.0], torque: [1.0; 3] }),
        ..turned(about_z(1.0))
    };
    let state = told(&mut guard, 10, asked);
    assert!(near(&state.orientation_wxyz, &about_z(0.02)), "{state:?}");
    assert!(near(&state.turning.unwrap().velocity, &[0.0, 0.0, 2.0]), "{state:?}");
    for ms in [10, 10, 5, 10] {
        assert!(near(&told(&mut guard, ms, asked).orientation_wxyz, &about_z(0.02)));
    }
    // 50 ms of a silence at most.
    assert!(near(&told(&mut guard, 900, asked).orientation_wxyz, &about_z(0.12)));
    // And it arrives, exactly.
    let last = (91..150).map(|n| told(&mut guard, n * 10, asked)).last().unwrap();
    assert!(near(&last.orientation_wxyz, &about_z(1.0)), "{last:?}");
}

#[test]
fn the_shorter_way_is_taken_whatever_the_sign() {
    let mut guard = guard(MotionLimits::new().angular_velocity(1.0));
    let state = told(&mut guard, 10, turned(about_z(-0.5).map(|part| -part)));
    assert!(near(&state.orientation_wxyz, &about_z(-0.01)), "{state:?}");
}

#[test]
fn where_nobody_knows_how_it_is_turned_it_is_not_turned() {
    let mut guard = Guard::new(MotionLimits::new().angular_velocity(1.0), MS * 100);
    let asked = Motion::State(turned(UPRIGHT));
    assert_eq!(guard.bound(at(1), &asked), Err(Verdict::OutOfLimits));
    // Zeros are no orientation.
    guard.measure(at(1), &Motion::State(turned([0.0; 4])));
    assert_eq!(guard.bound(at(2), &asked), Err(Verdict::OutOfLimits));
    assert_eq!(guard.bound(at(2), &Motion::State(turned([0.0; 4]))), Err(Verdict::NotFinite));
}

#[test]
fn a_locked_device_turns_and_grips_nothing() {
    for limits in [MotionLimits::new(), MotionLimits::new().angular_velocity(1.0)] {
        let mut guard = guard(limits);
        let turning = Some(Turning { velocity: [1.0; 3], torque: [1.0; 3] });
        let locked = State { locked: true, gripper: 9, turning, ..turned(about_z(1.0)) };
        let held = State { gripper: 300, turning: Some(Turning::default()), ..locked };
        assert_eq!(told(&mut guard, 10, locked), State { orientation_wxyz: UPRIGHT, ..held });
        let moved = told(&mut guard, 20, State { gripper: 70, ..turned(about_z(0.001)) });
        let held = State { gripper: 70, orientation_wxyz: moved.orientation_wxyz, ..held };
        assert_eq!(told(&mut guard, 30, locked), held);
    }
}

#[test]
fn the_torque_is_no_larger_than_the_limit() {
    let mut guard = guard(MotionLimits::new().torque(5.0));
    let turning = Some(Turning { velocity: [9.0; 3], torque: [0.0, 6.0, 8.0] });
    let state = told(&mut guard, 1, State { turning, ..turned(about_z(1.0)) });
    assert!(near(&state.turning.unwrap().torque, &[0.0, 3.0, 4.0]), "{state:?}");
    assert!(near(&state.turning.unwrap().velocity, &[9.0; 3]), "it has no limit: {state:?}");
}

#[test]
fn frames_turn_within_the_limit_too_and_without_one_as_they_are_asked_to() {
    let frame = |locked| crate::State {
        locked,
        gripper: 9,
        orientation_wxyz: about_z(1.0),
        ..crate::State::at(Time::ZERO)
    };
    for (speed, turned) in [(2.0, [about_z(0.02), about_z(0.02)]), (f32::INFINITY, [about_z(1.0); 2])] {
        let mut guard = StateGuard::new(MotionLimits::new().angular_velocity(speed), MS * 100);
        guard.measure(at(0), [0.0; 3]);
        guard.measure_orientation(at(0), UPRIGHT);
        guard.enable(at(0));
        for (ms, locked) in [(10, false), (20, true)] {
            let told = guard.bound(at(ms), &frame(locked)).unwrap();
            let expected = turned[usize::from(locked)];
            assert!(near(&told.orientation_wxyz, &expected) && told.gripper == 9, "{speed}: {told:?}");
        }
    }
}

fn orientation() -> impl Strategy<Value = [f32; 4]> {
    prop::array::uniform4(-1.0f32..1.0).prop_filter("an orientation", |q| Orientation::new(*q).is_some())
}

proptest! {
    /// However it is asked to turn, and whenever.
    #[test]
    fn the_angle_of_every_step_is_within_the_limit(
        speed in largest(5.0),
        torque in largest(10.0),
        policy in policy(),
        steps in prop::collection::vec((orientation(), vector(), vector(), wait(), prop::bool::weighted(0.1)), 1..60),
    ) {
        let mut guard = guard(MotionLimits::new().angular_velocity(speed).torque(torque).policy(policy));
        let (mut last, mut path, mut now) = (UPRIGHT, Path::new(), at(0));
        for (orientation_wxyz, velocity, torque_asked, waited, locked) in steps {
            now += waited;
            let turning = Some(Turning { velocity, torque: torque_asked });
            let asked = State { locked, turning, ..turned(orientation_wxyz) };
            let Ok(told) = guard.bound(now, &Motion::State(asked)) else {
                prop_assert_eq!(policy, LimitPolicy::Refuse);
                continue;
            };
            prop_assert!(told.is_finite());
            let Motion::State(told) = told else { panic!("{told:?}") };
            let exact = told.orientation_wxyz.map(f64::from);
            prop_assert!((magnitude(&exact) - 1.0).abs() < 1e-6, "{told:?}");
            let angle = Orientation::new(last).unwrap().angle(Orientation::new(told.orientation_wxyz).unwrap());
            let longer = path.go(now, angle, f64::from(speed));
            prop_assert!(longer.is_nan() || longer <= 6e-5, "{longer}");
            prop_assert!(!locked || angle <= 1e-6);
            let turning = told.turning.unwrap();
            prop_assert!(magnitude(&turning.velocity.map(f64::from)) <= f64::from(speed) * (1.0 + 1e-6));
            prop_assert!(magnitude(&turning.torque.map(f64::from)) <= f64::from(torque) * (1.0 + 1e-6));
            if policy == LimitPolicy::Refuse && !locked {
                let unit = Orientation::new(asked.orientation_wxyz).unwrap().wxyz();
                prop_assert_eq!(told, State { orientation_wxyz: unit, ..asked });
            }
            last = told.orientation_wxyz;
        }
    }

    #[test]
    fn every_orientation_is_reached(asked in orientation(), speed in 0.1f32..5.0, period in 1u64..50) {
        let mut guard = guard(MotionLimits::new().angular_velocity(speed));
        // Half a turn is the longest way.
        let steps = (std::f32::consts::PI / speed * 1e3) as u64 / period + 2;
        let mut last = turned(UPRIGHT);
        for n in 1..=steps {
            last = told(&mut guard, n * period, turned(asked));
        }
        let unit = Orientation::new(asked).unwrap().wxyz();
        prop_assert_eq!(last, turned(unit));
    }
}
