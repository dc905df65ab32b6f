use proptest::prelude::*;

use super::*;
use crate::motion::{
    Gripper, GripperLimits, JointLimits, Joints, JointsLimits, LimitPolicy, MotionLimits, State, Turning,
    Twist, TwistLimits,
};

pub(super) const MS: Duration = Duration::from_millis(1);

pub(super) fn at(ms: u64) -> Time {
    Time::from_nanos(1_000_000_000) + MS * ms
}

/// Numbers of every size, that are finite.
pub(super) fn number() -> impl Strategy<Value = f32> {
    prop_oneof![
        any::<f32>().prop_filter("finite", |x| x.is_finite()),
        -1.0f32..1.0,
        Just(f32::MAX),
        Just(f32::MIN)
    ]
}

pub(super) fn vector() -> impl Strategy<Value = [f32; 3]> {
    prop::array::uniform3(number())
}

/// A largest speed, acceleration or step: sometimes none, sometimes no motion at all.
pub(super) fn largest(usual: f32) -> impl Strategy<Value = f32> {
    prop_oneof![4 => 0.01 * usual..usual, 1 => Just(f32::INFINITY), 1 => Just(0.0)]
}

/// The way that somebody is told to go, there and back counted twice, as it is seen from outside.
pub(super) struct Path(Vec<(Time, f64)>);

impl Path {
    pub(super) fn new() -> Self {
        Self(vec![(at(0), 0.0)])
    }

    /// So much further. By how much it is further than the speed leads between any two messages: what came a millisecond after the first of them or later has the time since that
    /// alone, and else the time since the last that came a millisecond before it counts, too.
    pub(super) fn go(&mut self, now: Time, way: f64, speed: f64) -> f64 {
        let (last, gone) = self.0[self.0.len() - 1];
        let (now, gone) = (now.max(last), gone + way);
        self.0.push((now, gone));
        let longer = |two: &[(Time, f64)]| {
            let ((time, before), (next, _)) = (two[0], two[1]);
            let earlier =
                || self.0.iter().rev().find(|(at, _)| *at + MS <= time).map_or(at(0), |(at, _)| *at);
            let since = if time + MS <= next { time } else { earlier() };
            gone - before - speed * now.saturating_since(since).as_secs_f64()
        };
        self.0.windows(2).map(longer).fold(f64::NEG_INFINITY, f64::max)
    }
}

/// Jitter, silences, and a clock that stands still.
pub(super) fn wait() -> impl Strategy<Value = Duration> {
    prop_oneof![4 => 100u64..20_000, 2 => 1u64..1_000, 1 => 20_000u64..2_000_000, 1 => Just(0)]
        .prop_map(Duration::from_micros)
}

pub(super) fn policy() -> impl Strategy<Value = LimitPolicy> {
    prop_oneof![Just(LimitPolicy::Clamp), Just(LimitPolicy::Refuse)]
}

/// Limits of every schema, and a message within them that is where its robot is.
fn all(policy: LimitPolicy) -> Vec<(Limits, Motion)> {
    let joint = JointLimits::new().velocity(1.0).acceleration(2.0);
    let position = Joints::new(&[0.1, 0.2]).unwrap();
    let joints = position.with_velocity(&[0.0; 2]).unwrap().with_effort(&[0.0; 2]).unwrap();
    let state = State { turning: Some(Turning::default()), ..State::default() };
    vec![
        (MotionLimits::new().velocity(1.0).angular_velocity(1.0).policy(policy).into(), Motion::State(state)),
        (JointsLimits::all(2, joint).unwrap().policy(policy).into(), Motion::Joints(joints)),
        (TwistLimits::new().linear(1.0, 1.0).policy(policy).into(), Motion::Twist(Twist::default())),
        (GripperLimits::new().speed(1.0).policy(policy).into(), Motion::Gripper(Gripper::default())),
    ]
}

#[test]
fn a_guard_takes_its_own_schema_and_no_other() {
    for (limits, own) in all(LimitPolicy::Clamp) {
        assert_eq!(limits.schema(), own.schema());
        let mut guard = Guard::new(limits, MS * 100);
        assert_eq!(guard.schema(), own.schema());
        for (_, motion) in all(LimitPolicy::Clamp) {
            // Nor does it learn anything from one.
            if motion.schema() != own.schema() {
                guard.measure(at(0), &motion);
                guard.enable(at(0));
                assert_eq!(guard.bound(at(1), &motion), Err(Verdict::OutOfLimits));
                let knows = guard.bound(at(1), &own).is_ok();
                assert_eq!(knows, own.schema() == Schema::Twist, "{own:?}");
            }
        }
        guard.measure(at(1), &own);
        guard.enable(at(1));
        assert_eq!(guard.bound(at(2), &own), Ok(own));
    }
}

#[test]
fn where_nobody_knows_where_the_robot_is_no_way_from_there_is_taken() {
    for (limits, motion) in all(LimitPolicy::Clamp) {
        let mut guard = Guard::new(limits, MS * 100);
        guard.measure(at(0), &motion);
        // What was measured long ago says nothing.
        guard.enable(at(101));
        let taken = guard.bound(at(102), &motion);
        assert_eq!(taken.is_ok(), motion.schema() == Schema::Twist, "{motion:?}: {taken:?}");
    }
}

#[test]
fn a_look_changes_nothing() {
    for (limits, motion) in all(LimitPolicy::Clamp) {
        let mut guard = Guard::new(limits, MS * 100);
        guard.measure(at(0), &motion);
        guard.enable(at(0));
        let before = format!("{guard:?}");
        assert_eq!(guard.check(at(10), &motion), Ok(()));
        assert_eq!(format!("{guard:?}"), before);
    }
}

#[test]
fn a_number_that_is_none_is_refused_and_changes_nothing() {
    for policy in [LimitPolicy::Clamp, LimitPolicy::Refuse] {
        for (limits, motion) in all(policy) {
            let mut guard = Guard::new(limits, MS * 100);
            guard.measure(at(0), &motion);
            guard.enable(at(0));
            let before = format!("{guard:?}");
            let mut bytes = Vec::new();
            motion.emit(&mut bytes);
            for place in (4..bytes.len()).step_by(4) {
                for (number, locked) in [(f32::NAN, 0), (f32::INFINITY, 0), (f32::NEG_INFINITY, 1)] {
                    let mut bytes = bytes.clone();
                    bytes[0] |= locked;
                    bytes[place..place + 4].copy_from_slice(&number.to_be_bytes());
                    let bad = Motion::parse(motion.schema(), &bytes).unwrap();
                    assert_eq!(guard.check(at(1), &bad), Err(Verdict::NotFinite));
                    assert_eq!(guard.bound(at(1), &bad), Err(Verdict::NotFinite), "{bad:?}");
                }
            }
            assert_eq!(format!("{guard:?}"), before);
        }
    }
}

#[test]
fn more_messages_than_the_rate_are_not_admitted() {
    let joints = JointsLimits::all(1, JointLimits::new()).unwrap();
    for limits in [
        Limits::from(MotionLimits::new().rate(1_000.0)),
        joints.rate(1_000.0).into(),
        TwistLimits::new().rate(1_000.0).into(),
        GripperLimits::new().rate(1_000.0).into(),
    ] {
        let mut guard = Guard::new(limits, MS * 100);
        let admitted =
            (0..10_000u64).filter(|n| guard.admits(at(0) + Duration::from_micros(n * 100))).count();
        assert!((1_090..=1_110).contains(&admitted), "{admitted} of 10000 in a second");
    }
}

#[test]
fn what_is_no_limit_lets_nothing_through() {
    let joint = JointLimits::new().velocity(f32::NAN).effort(f32::NAN);
    let mut guard = Guard::new(JointsLimits::all(1, joint).unwrap(), MS * 100);
    let joints = |position: f32| Joints::new(&[position]).unwrap().with_effort(&[1.0]).unwrap();
    guard.measure(at(0), &Motion::Joints(joints(0.0)));
    guard.enable(at(0));
    let told = guard.bound(at(10), &Motion::Joints(joints(1.0)));
    assert_eq!(told, Ok(Motion::Joints(Joints::new(&[0.0]).unwrap().with_effort(&[0.0]).unwrap())));
}
