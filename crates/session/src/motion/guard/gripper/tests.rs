use proptest::prelude::*;

use super::super::tests::{MS, Path, at, largest, number, policy, wait};
use super::*;

fn gripper(position: f32, max_effort: f32) -> Gripper {
    Gripper { position, max_effort, ..Gripper::default() }
}

/// Resumed at 0 ms where it is.
fn guard(limits: GripperLimits, measured: f32) -> GripperGuard {
    let mut guard = GripperGuard::new(limits, MS * 100);
    guard.measure(at(0), &gripper(measured, 0.0));
    guard.enable(at(0));
    guard
}

#[test]
fn it_closes_no_faster_than_the_speed_and_holds_no_harder_than_the_effort() {
    let mut guard = guard(GripperLimits::new().speed(2.0).effort(30.0), 0.5);
    let told = guard.bound(at(10), &gripper(1.0, 100.0)).unwrap();
    assert!((told.position - 0.52).abs() < 1e-6, "{told:?}");
    assert_eq!(told.max_effort.to_bits(), 30.0f32.to_bits());
    // 50 ms of a silence at most.
    let told = guard.bound(at(900), &gripper(1.0, -1.0)).unwrap();
    assert!((told.position - 0.62).abs() < 1e-6 && told.max_effort.abs() <= 0.0, "{told:?}");
}

#[test]
fn positions_are_from_open_to_closed_whatever_is_configured() {
    for limits in [GripperLimits::new(), GripperLimits::new().range(9.0, f32::NAN)] {
        let mut guard = guard(limits, 0.5);
        assert!(guard.bound(at(1), &gripper(7.0, 1.0)).unwrap().position <= 1.0);
        assert!(guard.bound(at(1), &gripper(-7.0, 1.0)).unwrap().position >= 0.0);
    }
    let mut narrow = guard(GripperLimits::new().range(0.8, 0.2), 0.5);
    assert_eq!(narrow.bound(at(1), &gripper(1.0, 1.0)), Ok(gripper(0.8, 1.0)));
    assert_eq!(narrow.bound(at(1), &gripper(0.0, 1.0)), Ok(gripper(0.2, 1.0)));
}

#[test]
fn a_locked_device_does_not_let_go() {
    let mut guard = guard(GripperLimits::new(), 0.5);
    guard.bound(at(1), &gripper(0.9, 20.0)).unwrap();
    let locked = Gripper { locked: true, ..gripper(0.0, 0.0) };
    let held = Gripper { locked: true, ..gripper(0.9, 20.0) };
    assert_eq!(guard.bound(at(2), &locked), Ok(held));
    assert_eq!(guard.bound(at(3), &locked), Ok(held));
}

#[test]
fn refusing_takes_only_what_is_within() {
    let mut guard = guard(GripperLimits::new().speed(2.0).effort(30.0).policy(LimitPolicy::Refuse), 0.5);
    for asked in [gripper(0.6, 1.0), gripper(0.5, 31.0), gripper(0.5, -1.0), gripper(1.1, 1.0)] {
        assert_eq!(guard.bound(at(10), &asked), Err(Verdict::OutOfLimits), "{asked:?}");
    }
    assert_eq!(guard.bound(at(10), &gripper(0.515, 30.0)), Ok(gripper(0.515, 30.0)));
}

proptest! {
    /// Whatever comes, whenever, and wherever the gripper says that it is.
    #[test]
    fn the_limits_hold_in_every_step(
        speed in largest(5.0),
        effort in largest(50.0),
        range in (0.0f32..0.4, 0.6f32..1.0),
        policy in policy(),
        start in 0.0f32..1.0,
        steps in prop::collection::vec(
            (prop_oneof![number(), 0.0f32..1.0], prop_oneof![number(), 0.0f32..1.0], number(), wait(), prop::bool::weighted(0.1)), 1..60),
    ) {
        let limits = GripperLimits::new().range(range.0, range.1).speed(speed).effort(effort).policy(policy);
        let mut guard = guard(limits, start);
        let (mut last, mut path, mut now) = (start, Path::new(), at(0));
        for (position, max_effort, measured, waited, locked) in steps {
            now += waited;
            guard.measure(now, &gripper(measured, 0.0));
            let asked = Gripper { locked, ..gripper(position, max_effort) };
            let Ok(told) = guard.bound(now, &asked) else {
                prop_assert_eq!(policy, LimitPolicy::Refuse);
                continue;
            };
            prop_assert!(policy == LimitPolicy::Clamp || locked || told == asked);
            prop_assert!(told.is_finite());
            prop_assert!((0.0..=effort).contains(&told.max_effort), "{told:?}");
            prop_assert!(told.position >= range.0.min(last) && told.position <= range.1.max(last), "{told:?}");
            let way = f64::from(told.position) - f64::from(last);
            let longer = path.go(now, way.abs(), f64::from(speed));
            prop_assert!(longer.is_nan() || longer <= 1e-5, "{longer}");
            prop_assert!(!locked || way.abs() <= 2e-7);
            last = told.position;
        }
    }

    #[test]
    fn a_position_in_the_range_is_reached(start in 0.0f32..1.0, asked in 0.0f32..1.0, speed in 0.1f32..5.0, period in 1u64..50) {
        let mut guard = guard(GripperLimits::new().speed(speed), start);
        let steps = (1e3 / speed) as u64 / period + 2;
        let mut told = gripper(start, 0.0);
        for n in 1..=steps {
            told = guard.bound(at(n * period), &gripper(asked, 1.0)).unwrap();
        }
        prop_assert_eq!(told, gripper(asked, 1.0));
    }
}
