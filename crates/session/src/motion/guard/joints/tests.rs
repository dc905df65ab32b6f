use proptest::prelude::*;

use super::super::tests::{MS, Path, at, largest, number, policy, wait};
use super::*;
use crate::motion::{Guard, Motion};

fn joints(position: &[f32]) -> Joints {
    Joints::new(position).unwrap()
}

/// Resumed at 0 ms where it is.
fn guard(limits: JointsLimits, measured: &[f32]) -> JointsGuard {
    let mut guard = JointsGuard::new(&limits, MS * 1_000);
    guard.measure(at(0), &joints(measured));
    guard.enable(at(0));
    guard
}

fn all(joints: usize, limits: JointLimits) -> JointsLimits {
    JointsLimits::all(joints, limits).unwrap()
}

fn near(found: &[f32], expected: &[f32]) -> bool {
    found.len() == expected.len() && found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6)
}

#[test]
fn each_joint_keeps_its_own_limits() {
    let each = [JointLimits::new().velocity(1.0), JointLimits::new().step(0.05), JointLimits::new()];
    let mut guard = guard(JointsLimits::each(each).unwrap(), &[0.0; 3]);
    let told = guard.bound(at(10), &joints(&[1.0, -1.0, 1.0])).unwrap();
    assert!(near(told.position(), &[0.01, -0.05, 1.0]), "{told:?}");
}

#[test]
fn another_number_of_joints_is_refused_and_not_measured() {
    let mut guard = guard(all(3, JointLimits::new().velocity(1.0)), &[0.1; 3]);
    for count in [1, 2, 4, 64] {
        assert_eq!(guard.bound(at(1), &joints(&vec![0.1; count])), Err(Verdict::OutOfLimits));
        guard.measure(at(1), &joints(&vec![0.5; count]));
    }
    guard.enable(at(2));
    assert!(near(guard.bound(at(3), &joints(&[0.1; 3])).unwrap().position(), &[0.1; 3]));
}

#[test]
fn what_a_silence_saves_up_is_not_spent_in_one_step() {
    let mut guard = guard(all(1, JointLimits::new().velocity(1.0)), &[0.0]);
    let told = guard.bound(at(900), &joints(&[1.0])).unwrap();
    assert!(near(told.position(), &[0.05]), "{told:?}");
    // However many come at one instant, or from a clock that went back and came again.
    for ms in [900, 900, 500, 900] {
        let told = guard.bound(at(ms), &joints(&[1.0])).unwrap();
        assert!(near(told.position(), &[0.05]), "{told:?}");
    }
}

#[test]
fn a_joint_that_a_wall_stops_is_pulled_no_harder_than_the_limit() {
    let mut guard = guard(all(1, JointLimits::new().effort(30.0).stiffness(600.0)), &[0.1]);
    for ms in 1..100 {
        guard.measure(at(ms), &joints(&[0.1]));
        let asked = joints(&[0.5]).with_effort(&[100.0]).unwrap();
        let told = guard.bound(at(ms), &asked).unwrap();
        assert!(near(told.position(), &[0.15]) && near(told.effort(), &[30.0]), "{told:?}");
    }
    // Nobody knows where it is any more.
    assert_eq!(guard.bound(at(1_100), &joints(&[0.1])), Err(Verdict::OutOfLimits));
}

#[test]
fn at_the_end_of_its_range_no_velocity_leads_out_of_it() {
    let mut guard = guard(all(2, JointLimits::new().position(1.0, -1.0)), &[0.0; 2]);
    let asked = joints(&[2.0, -1.0]).with_velocity(&[3.0, -3.0]).unwrap();
    let told = guard.bound(at(1), &asked).unwrap();
    assert_eq!((told.position(), told.velocity()), (&[1.0, -1.0][..], &[0.0, 0.0][..]));
}

#[test]
fn what_is_not_told_is_not_made_up() {
    let mut guard = guard(all(1, JointLimits::new().velocity(1.0)), &[0.0]);
    let told = guard.bound(at(10), &joints(&[1.0])).unwrap();
    assert!(told.velocity().is_empty() && told.effort().is_empty());
}

#[test]
fn motion_within_the_limits_is_untouched() {
    let limits = JointLimits::new().velocity(0.5).acceleration(5.0).effort(20.0).stiffness(600.0);
    let mut guard = guard(all(1, limits), &[0.0]);
    for ms in 1..2_000 {
        // 0.05 rad, 1 Hz: 0.31 rad/s and 1.97 rad/s² at most.
        let phase = std::f64::consts::TAU * f64::from(ms) / 1_000.0;
        let position = (0.05 * (1.0 - phase.cos())) as f32;
        let velocity = (0.05 * std::f64::consts::TAU * phase.sin()) as f32;
        guard.measure(at(ms as u64), &joints(&[position]));
        let asked = joints(&[position]).with_velocity(&[velocity]).unwrap();
        let told = guard.bound(at(ms as u64), &asked).unwrap();
        assert!((told.position()[0] - position).abs() < 2e-6, "{ms} ms: {told:?}, asked {asked:?}");
    }
}

#[test]
fn locked_joints_stay_where_they_are() {
    let mut guard = guard(all(2, JointLimits::new()), &[0.1, 0.2]);
    let asked = joints(&[1.0; 2]).with_velocity(&[1.0; 2]).unwrap().with_effort(&[1.0; 2]).unwrap();
    let told = guard.bound(at(1), &Joints { locked: true, ..asked }).unwrap();
    assert_eq!(told.position(), [0.1, 0.2]);
    assert_eq!((told.velocity(), told.effort()), (&[0.0; 2][..], &[0.0; 2][..]));
}

fn joint_limits() -> impl Strategy<Value = JointLimits> {
    let stiffness = prop_oneof![Just(0.0f32), 10.0f32..500.0];
    (largest(3.0), largest(20.0), largest(0.2), 0.1f32..50.0, stiffness).prop_map(
        |(velocity, acceleration, step, effort, stiffness)| {
            let limits = JointLimits::new().position(-1.5, 2.0).velocity(velocity).acceleration(acceleration);
            limits.step(step).effort(effort).stiffness(stiffness)
        },
    )
}

/// One joint, as somebody sees it who knows only what went in and what came out.
struct Witness {
    limits: JointLimits,
    position: f64,
    velocity: f64,
    /// How exactly rounded positions tell the velocity.
    rounding: f64,
    since: Time,
    path: Path,
}

/// Positions here are of a few rad, and 32 bits hold them to this.
const ROUNDING: f64 = 5e-7;

impl Witness {
    fn see(
        &mut self,
        now: Time,
        asked: f32,
        told: f32,
        measured: f32,
        locked: bool,
    ) -> Result<(), TestCaseError> {
        let limits = &self.limits;
        let (told, measured) = (f64::from(told), f64::from(measured));
        let way = told - self.position;
        let waited = now.saturating_since(self.since);
        let most = (f64::from(limits.velocity) * waited.as_secs_f64()).min(f64::from(limits.step));
        // No joint moves if it is locked, and else none too fast.
        let counts_alone = limits.acceleration.is_finite();
        let free = most.is_nan() || most.is_infinite() || !counts_alone;
        prop_assert!(free || way.abs() <= most + ROUNDING, "{way} of {most} for {asked}");
        let longer = self.path.go(now, way.abs(), f64::from(limits.velocity));
        prop_assert!(longer.is_nan() || longer <= 100.0 * ROUNDING, "{longer} for {asked}");
        prop_assert!(way.abs() <= f64::from(limits.step) + ROUNDING, "{way}");
        prop_assert!(!locked || way.abs() <= ROUNDING, "{way} while locked");
        // In the range, or no further out than it was.
        let (least, largest) = (f64::from(limits.least), f64::from(limits.largest));
        prop_assert!(
            told >= least.min(self.position) - ROUNDING && told <= largest.max(self.position) + ROUNDING
        );
        // Within reach of what is measured, or nearer to it than it was.
        let reach = limits.stiffness.map_or(f64::INFINITY, |stiffness| f64::from(limits.effort / stiffness));
        let (pull, last_pull) = ((told - measured).abs(), (self.position - measured).abs());
        prop_assert!(locked || pull <= reach.max(last_pull) * (1.0 + 1e-6) + ROUNDING, "{pull} of {reach}");
        let dt = waited.min(MS * 50).as_secs_f64();
        let is_held = way.abs() >= (f64::from(limits.velocity) * dt).min(f64::from(limits.step)) - ROUNDING;
        let has_its_time = counts_alone || waited >= MS;
        if !locked && dt > 0.0 && !is_held && has_its_time && (least..=largest).contains(&measured) {
            prop_assert!(pull <= reach * (1.0 + 1e-6) + ROUNDING, "{pull} of {reach}");
        }
        let velocity = if locked {
            0.0
        } else if dt > 0.0 {
            way / dt
        } else {
            self.velocity
        };
        if dt > 0.0 && !locked && limits.acceleration.is_finite() {
            // Only range, reach and step may need a larger change than the acceleration.
            let at_end = told <= least + ROUNDING || told >= largest - ROUNDING;
            let at_reach = pull >= reach - ROUNDING;
            let at_step = way.abs() >= f64::from(limits.step) - ROUNDING;
            let change = (velocity - self.velocity).abs();
            let most = f64::from(limits.acceleration) * dt + self.rounding + ROUNDING / dt;
            prop_assert!(at_end || at_reach || at_step || change <= most, "{change} of {most}");
        }
        if dt > 0.0 {
            self.rounding = ROUNDING / dt;
        }
        (self.position, self.velocity, self.since) = (told, velocity, self.since.max(now));
        Ok(())
    }
}

proptest! {
    /// Whatever comes, whenever, and wherever the robot says that it is.
    #[test]
    fn the_limits_hold_for_every_joint_in_every_step(
        limits in prop::collection::vec(joint_limits(), 2..4),
        start in -1.5f32..2.0,
        steps in prop::collection::vec((number(), number(), number(), -2.0f32..2.5, wait(), prop::bool::weighted(0.1)), 1..60),
    ) {
        let count = limits.len();
        let mut guard = guard(JointsLimits::each(limits.iter().copied()).unwrap(), &vec![start; count]);
        let witness = |limits: &JointLimits| {
            Witness { limits: *limits, position: f64::from(start), velocity: 0.0, rounding: 0.0, since: at(0), path: Path::new() }
        };
        let mut witnesses: Vec<_> = limits.iter().map(witness).collect();
        let mut now = at(0);
        for (position, velocity, effort, measured, waited, locked) in steps {
            now += waited;
            guard.measure(now, &joints(&vec![measured; count]));
            // The joints are asked for different things.
            let row = |number: f32| (0..count).map(|i| if i == 0 { number } else { -number / 3.0 }).collect::<Vec<_>>();
            let asked = joints(&row(position)).with_velocity(&row(velocity)).unwrap().with_effort(&row(effort)).unwrap();
            let told = guard.bound(now, &Joints { locked, ..asked.clone() }).expect("it is brought within");
            prop_assert!(told.is_finite(), "{told:?}");
            for (i, witness) in witnesses.iter_mut().enumerate() {
                let limits = witness.limits;
                prop_assert!(told.velocity()[i].abs() <= limits.velocity);
                prop_assert!(told.effort()[i].abs() <= limits.effort);
                witness.see(now, asked.position()[i], told.position()[i], measured, locked)?;
            }
        }
    }

    /// A place that is within the range is reached, however far away, and it stays there.
    #[test]
    fn a_target_that_can_be_reached_is(
        velocity in prop_oneof![0.1f32..3.0, Just(f32::INFINITY)],
        acceleration in prop_oneof![0.5f32..20.0, Just(f32::INFINITY)],
        step in prop_oneof![0.01f32..0.2, Just(f32::INFINITY)],
        reach in prop_oneof![0.05f32..1.0, Just(f32::INFINITY)],
        start in -1.5f32..2.0,
        first in -1.5f32..2.0,
        target in -1.5f32..2.0,
        periods in prop::collection::vec(1u64..20, 1..10),
    ) {
        let limits = JointLimits::new().position(-1.5, 2.0).velocity(velocity).acceleration(acceleration).step(step);
        let mut guard = guard(all(1, limits.effort(reach * 100.0).stiffness(100.0)), &[start]);
        let mut now = at(0);
        let mut told = start;
        for (n, ms) in periods.iter().cycle().take(20_000).enumerate() {
            now += MS * *ms;
            // The target jumps once, while it is on its way.
            let asked = if n < 50 { first } else { target };
            told = guard.bound(now, &joints(&[asked])).unwrap().position()[0];
            guard.measure(now, &joints(&[told]));
        }
        prop_assert!((told - target).abs() < 1e-4, "{told}, not {target}");
    }

    /// Exactly what was asked for, or nothing.
    #[test]
    fn refusing_passes_only_what_was_asked_for(
        limits in joint_limits(),
        start in -1.5f32..2.0,
        steps in prop::collection::vec((prop_oneof![number(), -0.01f32..0.01], number(), prop_oneof![number(), Just(0.0)], wait()), 1..60),
    ) {
        let mut guard = guard(all(1, limits).policy(LimitPolicy::Refuse), &[start]);
        let (mut last, mut path, mut now) = (start, Path::new(), at(0));
        for (way, velocity, effort, waited) in steps {
            now += waited;
            guard.measure(now, &joints(&[start]));
            let position = last + way;
            if !position.is_finite() {
                continue;
            }
            let asked = joints(&[position]).with_velocity(&[velocity]).unwrap().with_effort(&[effort]).unwrap();
            if let Ok(told) = guard.bound(now, &asked) {
                prop_assert_eq!(&told, &asked);
                let way = f64::from(position - last).abs();
                let longer = path.go(now, way, f64::from(limits.velocity));
                prop_assert!(longer.is_nan() || longer <= 100.0 * ROUNDING, "{longer}");
                prop_assert!(way <= f64::from(limits.step) + ROUNDING, "{way}");
                last = position;
            }
        }
    }

    /// Through the front door: finite in, finite out or nothing.
    #[test]
    fn what_is_finite_stays_finite(
        limits in (number(), number(), number(), number(), number(), number(), number()),
        policy in policy(),
        steps in prop::collection::vec((number(), number(), number(), number(), wait(), any::<bool>()), 1..40),
    ) {
        let (least, largest, velocity, acceleration, step, effort, stiffness) = limits;
        let limits = JointLimits::new().position(least, largest).velocity(velocity).acceleration(acceleration);
        let limits = all(1, limits.step(step).effort(effort).stiffness(stiffness)).policy(policy);
        let mut guard = Guard::new(limits, MS * 100);
        let mut now = at(0);
        for (position, velocity, effort, measured, waited, enable) in steps {
            now += waited;
            guard.measure(now, &Motion::Joints(joints(&[measured])));
            if enable {
                guard.enable(now);
            }
            let asked = joints(&[position]).with_velocity(&[velocity]).unwrap().with_effort(&[effort]).unwrap();
            if let Ok(told) = guard.bound(now, &Motion::Joints(asked)) {
                prop_assert!(told.is_finite(), "{told:?}");
            }
        }
    }
}
