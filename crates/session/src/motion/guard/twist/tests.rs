use proptest::prelude::*;

use super::super::tests::{MS, at, largest, number, policy, vector, wait};
use super::super::vector::magnitude;
use super::*;

/// Resumed at 0 ms.
fn guard(limits: TwistLimits) -> TwistGuard {
    let mut guard = TwistGuard::new(limits);
    guard.enable(at(0));
    guard
}

fn ahead(x: f32) -> Twist {
    Twist { linear: [x, 0.0, 0.0], ..Twist::default() }
}

fn turning(z: f32) -> Twist {
    Twist { angular: [0.0, 0.0, z], ..Twist::default() }
}

fn near(found: [f32; 3], expected: [f32; 3]) -> bool {
    found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6)
}

#[test]
fn motion_begins_at_rest_and_gains_speed_by_the_robots_own_clock() {
    let mut guard = guard(TwistLimits::new().linear(1.0, 2.0).angular(2.0, 10.0));
    for ms in 1..1_000 {
        let told = guard.bound(at(ms), &ahead(5.0)).unwrap();
        assert!(near(told.linear, [(0.002 * ms as f32).min(1.0), 0.0, 0.0]), "{ms} ms: {told:?}");
    }
    let told = guard.bound(at(1_000), &Twist { angular: [3.0, 0.0, 4.0], ..ahead(1.0) }).unwrap();
    assert!(near(told.angular, [0.006, 0.0, 0.008]), "{told:?}");
    // It was stopped and resumed.
    guard.enable(at(2_000));
    let told = guard.bound(at(2_001), &ahead(1.0)).unwrap();
    assert!(near(told.linear, [0.002, 0.0, 0.0]), "{told:?}");
}

#[test]
fn a_silence_saves_no_acceleration_up() {
    let mut guard = guard(TwistLimits::new().linear(1.0, 2.0));
    let told = guard.bound(at(900), &ahead(1.0)).unwrap();
    assert!(near(told.linear, [0.1, 0.0, 0.0]), "{told:?}");
    // Nor do many messages at one instant, or a clock that went back and came again.
    for ms in [900, 900, 500, 900] {
        assert_eq!(guard.bound(at(ms), &ahead(1.0)), Ok(told));
    }
}

#[test]
fn a_locked_device_is_rest_at_once_and_gains_speed_from_there() {
    let mut guard = guard(TwistLimits::new().linear(1.0, 2.0));
    for ms in 1..500 {
        guard.bound(at(ms), &ahead(1.0)).unwrap();
    }
    let locked = Twist { locked: true, enabling: true, ..ahead(1.0) };
    assert_eq!(guard.bound(at(500), &locked), Ok(Twist { linear: [0.0; 3], ..locked }));
    let told = guard.bound(at(510), &ahead(1.0)).unwrap();
    assert!(near(told.linear, [0.02, 0.0, 0.0]), "{told:?}");
}

#[test]
fn axes_that_a_robot_does_not_have_are_zero() {
    let mut guard = guard(TwistLimits::new().axes([true, false, false], [false, false, true]));
    let asked = Twist { linear: [1.0, 2.0, 3.0], angular: [4.0, 5.0, 6.0], ..Twist::default() };
    let told = guard.bound(at(1), &asked).unwrap();
    assert_eq!((told.linear, told.angular), ([1.0, 0.0, 0.0], [0.0, 0.0, 6.0]));
}

#[test]
fn refusing_takes_only_what_is_within() {
    let mut guard = guard(TwistLimits::new().linear(1.0, 2.0).policy(LimitPolicy::Refuse));
    assert_eq!(guard.bound(at(10), &ahead(0.03)), Err(Verdict::OutOfLimits));
    assert_eq!(guard.bound(at(10), &ahead(0.02)), Ok(ahead(0.02)));
    assert_eq!(guard.bound(at(15), &turning(9.0)), Err(Verdict::OutOfLimits), "it brakes too hard");
    let locked = Twist { locked: true, ..ahead(1.0) };
    assert_eq!(guard.bound(at(21), &locked), Ok(Twist { linear: [0.0; 3], ..locked }));
}

fn exact(vector: [f32; 3]) -> Vector<3> {
    vector.map(f64::from)
}

/// What 32 bits do not hold of a velocity of a few m/s.
const ROUNDING: f64 = 2e-6;

proptest! {
    /// Whatever comes, and whenever.
    #[test]
    fn the_limits_hold_in_every_step(
        linear in (largest(3.0), largest(10.0)),
        angular in (largest(3.0), largest(10.0)),
        axes in any::<[bool; 3]>(),
        policy in policy(),
        steps in prop::collection::vec((vector(), vector(), wait(), prop::bool::weighted(0.1)), 1..60),
    ) {
        let limits = TwistLimits::new().linear(linear.0, linear.1).angular(angular.0, angular.1)
            .axes(axes, axes).policy(policy);
        let mut guard = guard(limits);
        let (mut last, mut since, mut now) = (Twist::default(), at(0), at(0));
        for (linear_asked, angular_asked, waited, locked) in steps {
            now += waited;
            let asked = Twist { locked, enabling: linear_asked[0] > 0.0, linear: linear_asked, angular: angular_asked };
            let Ok(told) = guard.bound(now, &asked) else {
                prop_assert_eq!(policy, LimitPolicy::Refuse);
                continue;
            };
            prop_assert!(told.is_finite(), "{told:?}");
            let rest = Twist { linear: [0.0; 3], angular: [0.0; 3], ..asked };
            prop_assert!(!locked || told == rest);
            prop_assert!(locked || policy == LimitPolicy::Clamp || told == asked);
            let dt = now.saturating_since(since).min(MS * 50).as_secs_f64();
            let vectors = [(linear, last.linear, told.linear), (angular, last.angular, told.angular)];
            for ((speed, acceleration), last, told) in vectors {
                prop_assert!((0..3).all(|i| axes[i] || told[i].abs() <= 0.0), "{told:?}");
                prop_assert!(magnitude(&exact(told)) <= f64::from(speed) * (1.0 + 1e-6));
                if acceleration.is_finite() && !locked {
                    // Numbers of any size come where there is no limit of the speed.
                    let rounding = ROUNDING + 1e-6 * magnitude(&exact(last));
                    let change = distance(exact(told), exact(last));
                    prop_assert!(change <= f64::from(acceleration) * dt + rounding, "{change} in {dt} s");
                }
            }
            (last, since) = (told, now);
        }
    }

    /// What is within the limits is reached in the time that the acceleration needs, and is then exactly what was asked for.
    #[test]
    fn a_velocity_within_the_limits_is_reached(
        first in prop::array::uniform3(-1.0f32..1.0),
        asked in prop::array::uniform3(-0.5f32..0.5),
        acceleration in 0.5f32..10.0,
        period in 1u64..50,
    ) {
        let mut guard = guard(TwistLimits::new().linear(1.0, acceleration));
        guard.bound(at(40), &Twist { linear: first, ..Twist::default() }).unwrap();
        let asked = Twist { linear: asked, ..Twist::default() };
        // The longest way is from one end of the ball to the other.
        let steps = (2.0 / acceleration * 1e3) as u64 / period + 2;
        let mut told = Twist::default();
        for n in 1..=steps {
            told = guard.bound(at(40 + n * period), &asked).unwrap();
        }
        prop_assert_eq!(told, asked);
    }

    #[test]
    fn what_is_finite_stays_finite(
        limits in (number(), number(), number(), number()),
        steps in prop::collection::vec((vector(), vector(), wait()), 1..40),
    ) {
        let mut guard = guard(TwistLimits::new().linear(limits.0, limits.1).angular(limits.2, limits.3));
        let mut now = at(0);
        for (linear, angular, waited) in steps {
            now += waited;
            let told = guard.bound(now, &Twist { linear, angular, ..Twist::default() }).unwrap();
            prop_assert!(told.is_finite(), "{told:?}");
        }
    }
}
