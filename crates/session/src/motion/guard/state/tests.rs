use super::super::tests::{MS, Path, at};
use super::super::vector::magnitude;
use super::StateGuard as Guard;
use super::*;
use proptest::prelude::*;

fn near(found: &[f32], expected: &[f32]) -> bool {
    found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6)
}

fn state() -> State {
    State {
        position: [0.5, -0.05, 0.1],
        velocity: [3.0, 0.0, 4.0],
        force: [0.0, 6.0, 8.0],
        orientation_wxyz: [0.0, 2.0, 0.0, 0.0],
        ..State::at(Time::ZERO)
    }
}

fn to(position: [f32; 3]) -> State {
    State { position, ..State::at(Time::ZERO) }
}

fn limits() -> MotionLimits {
    MotionLimits::new().position([-0.2; 3], [0.2; 3]).force(5.0)
}

/// Resumed at 0 ms where it is.
fn guard(limits: MotionLimits, measured: [f32; 3]) -> Guard {
    let mut guard = Guard::new(limits, MS * 1_000);
    guard.measure(at(0), measured);
    guard.enable(at(0));
    guard
}

#[test]
fn clamping_keeps_directions() {
    let clamped = Guard::new(limits(), MS * 100).bound(at(1), &state()).unwrap();
    assert!(near(&clamped.position, &[0.2, -0.05, 0.1]), "{clamped:?}");
    assert!(near(&clamped.velocity, &[0.0, 0.0, 4.0]), "none leads out of the box: {clamped:?}");
    assert!(near(&clamped.force, &[0.0, 3.0, 4.0]), "{clamped:?}");
    assert!(near(&clamped.orientation_wxyz, &[0.0, 1.0, 0.0, 0.0]), "{clamped:?}");
}

#[test]
fn on_a_face_of_the_box_no_velocity_leads_out_of_it() {
    for limits in [limits(), limits().velocity(1.0)] {
        let mut guard = guard(limits, [0.2, 0.0, 0.0]);
        let asked = State { velocity: [0.5, 0.1, 0.0], ..to([0.2, 0.0, 0.0]) };
        let told = guard.bound(at(10), &asked).unwrap();
        assert_eq!((told.position, told.velocity), (asked.position, [0.0, 0.1, 0.0]));
        let refusing = self::guard(limits.policy(LimitPolicy::Refuse), [0.2, 0.0, 0.0]);
        assert_eq!(refusing.check(at(10), &asked), Err(Verdict::OutOfLimits));
    }
}

#[test]
fn a_jump_moves_the_set_point_no_faster_than_the_limit_by_the_robots_own_clock() {
    let mut guard = guard(MotionLimits::new().velocity(0.05), [0.0; 3]);
    let told = guard.bound(at(10), &to([0.5, 0.0, 0.0])).unwrap();
    assert!(near(&told.position, &[0.0005, 0.0, 0.0]), "{told:?}");
    assert!(near(&told.velocity, &[0.05, 0.0, 0.0]), "{told:?}");
    // However many states come at one instant.
    for _ in 0..100 {
        let told = guard.bound(at(10), &to([0.5, 0.0, 0.0])).unwrap();
        assert!(near(&told.position, &[0.0005, 0.0, 0.0]), "{told:?}");
    }
    // What a silence saves up is not spent in one step: 50 ms of it at most.
    let told = guard.bound(at(110), &to([0.5, 0.0, 0.0])).unwrap();
    assert!(near(&told.position, &[0.003, 0.0, 0.0]), "{told:?}");
}

#[test]
fn motion_within_the_limits_is_untouched() {
    let limits = MotionLimits::new().velocity(0.5).acceleration(5.0).force(20.0).stiffness(3_000.0);
    let mut guard = guard(limits, [0.0; 3]);
    for ms in 1..2_000 {
        // 0.05 m, 1 Hz: 0.31 m/s and 1.97 m/s² at most.
        let phase = std::f64::consts::TAU * f64::from(ms) / 1_000.0;
        let x = 0.05 * (1.0 - phase.cos());
        let velocity = 0.05 * std::f64::consts::TAU * phase.sin();
        let asked = State { velocity: [velocity as f32, 0.0, 0.0], ..to([x as f32, 0.0, 0.0]) };
        guard.measure(at(ms as u64), [x as f32, 0.0, 0.0]);
        let told = guard.bound(at(ms as u64), &asked).unwrap();
        assert!((told.position[0] - asked.position[0]).abs() < 2e-6, "{ms} ms: {told:?}, asked {asked:?}");
    }
}

/// A network held up what was made in ten milliseconds, and gives it all within some µs, as radios do.
#[test]
fn what_comes_in_a_burst_is_within_the_limits_if_its_newest_is() {
    let moved = |ms: f32| State { velocity: [0.085, 0.0, 0.0], ..to([ms * 0.085e-3, 0.0, 0.0]) };
    let mut guard = guard(MotionLimits::new().velocity(0.5), [0.0; 3]);
    for ms in 1..10u64 {
        let asked = moved(ms as f32);
        assert_eq!(guard.bound(at(ms), &asked), Ok(asked));
    }
    for us in 0..10u32 {
        let asked = moved(10.0 + us as f32);
        assert_eq!(guard.bound(at(19) + Duration::from_micros(us.into()), &asked), Ok(asked), "{us} µs");
    }
    // However many come, they go as far as one may, and what is too far is told no faster than it goes.
    for us in 10..900u32 {
        let told = guard.bound(at(19) + Duration::from_micros(us.into()), &to([1.0, 0.0, 0.0])).unwrap();
        assert!(told.position[0] <= 9.0 * 0.085e-3 + 0.5 * 10.9e-3 + 1e-6, "{us} µs: {told:?}");
    }
    let still = guard.bound(at(19), &to([1.0, 0.0, 0.0])).unwrap();
    assert_eq!(guard.bound(at(10), &to([1.0, 0.0, 0.0])), Ok(still), "a clock that goes back");
}

#[test]
fn a_jump_is_approached_within_the_acceleration_and_without_overshoot() {
    let mut guard = guard(MotionLimits::new().velocity(0.5).acceleration(2.0), [0.0; 3]);
    let (mut last, mut speed, mut fastest) = (0.0, 0.0f64, 0.0f64);
    for ms in 1..1_000 {
        let told = guard.bound(at(ms), &to([0.2, 0.0, 0.0])).unwrap();
        let now = f64::from(told.position[0]);
        let new_speed = (now - last) / 1e-3;
        assert!((new_speed - speed).abs() <= 2.0 * 1e-3 * 1.05 + 1e-4, "{ms} ms: {speed} → {new_speed}");
        assert!(now <= 0.2 + 1e-6, "{ms} ms: {now}");
        (last, speed) = (now, new_speed);
        fastest = fastest.max(new_speed);
    }
    assert!((last - 0.2).abs() < 1e-3, "it arrives: {last}");
    assert!((0.45..=0.5 + 1e-3).contains(&fastest), "{fastest}");
}

#[test]
fn the_set_point_stays_as_near_to_the_robot_as_the_force_allows() {
    let limits = MotionLimits::new().force(30.0).stiffness(3_000.0);
    let mut guard = guard(limits, [0.1, 0.0, 0.0]);
    let told = guard.bound(at(1), &to([0.5, 0.0, 0.0])).unwrap();
    assert!(near(&told.position, &[0.11, 0.0, 0.0]), "{told:?}");
    // The wall holds the arm: pushing on changes nothing.
    for ms in 2..100 {
        guard.measure(at(ms), [0.1, 0.0, 0.0]);
        let told = guard.bound(at(ms), &to([0.5, 0.0, 0.0])).unwrap();
        assert!(near(&told.position, &[0.11, 0.0, 0.0]), "{told:?}");
    }
}

#[test]
fn an_arm_that_was_pushed_out_of_the_box_comes_back_no_faster_than_the_speed() {
    let limits = limits().velocity(0.05).acceleration(1.0).step(0.001);
    let mut guard = guard(limits, [0.5, 0.0, 0.0]);
    let mut last = 0.5;
    for ms in 1..200 {
        let told = guard.bound(at(ms), &to([0.0; 3])).unwrap().position[0];
        assert!(told <= last && last - told <= 0.05e-3 + 1e-7, "{ms} ms: {last} → {told}");
        last = told;
    }
    assert!(last < 0.495, "{last}");
}

#[test]
fn an_arm_that_a_wall_stops_is_pulled_no_harder_than_the_limit_whatever_velocity_is_claimed() {
    let limits = MotionLimits::new().velocity(0.5).acceleration(5.0).force(20.0).stiffness(3_000.0);
    let mut guard = guard(limits, [0.0; 3]);
    for ms in 1..1_000u16 {
        // It follows 10 ms behind, until the wall.
        let arm = (0.0005 * f32::from(ms.saturating_sub(10))).min(0.05);
        guard.measure(at(u64::from(ms)), [arm, 0.0, 0.0]);
        let asked = State { velocity: [0.5, 0.0, 0.0], ..to([0.0005 * f32::from(ms), 0.0, 0.0]) };
        let told = guard.bound(at(u64::from(ms)), &asked).unwrap();
        let pull = 3_000.0 * (told.position[0] - arm);
        assert!(pull <= 20.01, "{ms} ms: {pull} N at {told:?}");
    }
}

#[test]
fn what_was_measured_long_ago_says_nothing() {
    let limits = MotionLimits::new().force(30.0).stiffness(3_000.0);
    let mut guard = Guard::new(limits, MS * 100);
    guard.measure(at(0), [0.1, 0.0, 0.0]);
    guard.enable(at(50));
    assert!(guard.bound(at(100), &to([0.1, 0.0, 0.0])).is_ok());
    assert_eq!(guard.bound(at(101), &to([0.1, 0.0, 0.0])), Err(Verdict::OutOfLimits));
}

#[test]
fn where_nobody_knows_where_the_robot_is_no_way_from_there_is_taken() {
    let all = [
        MotionLimits::new().step(0.01),
        MotionLimits::new().velocity(1.0),
        MotionLimits::new().acceleration(1.0),
        MotionLimits::new().force(1.0).stiffness(1.0),
    ];
    for limits in all {
        assert_eq!(Guard::new(limits, MS * 1_000).bound(at(1), &to([0.0; 3])), Err(Verdict::OutOfLimits));
    }
    let mut guard = guard(limits().step(0.01), [0.1, -0.05, 0.1]);
    let told = guard.bound(at(1), &state()).unwrap();
    assert!(near(&told.position, &[0.11, -0.05, 0.1]), "{told:?}");
}

#[test]
fn refusing_takes_only_what_is_within() {
    let mut refusing = guard(limits().velocity(1.0).policy(LimitPolicy::Refuse), [0.1; 3]);
    assert_eq!(refusing.bound(at(100), &state()), Err(Verdict::OutOfLimits));
    let within = State { position: [0.12; 3], velocity: [0.5; 3], force: [1.0; 3], ..state() };
    assert_eq!(refusing.check(at(1), &within), Err(Verdict::OutOfLimits), "too far for a millisecond");
    assert!(refusing.bound(at(100), &within).is_ok());
}

#[test]
fn a_locked_device_moves_nothing() {
    let mut guard = guard(MotionLimits::new(), [0.1, 0.0, 0.0]);
    let locked = State { locked: true, ..state() };
    for ms in 1..10 {
        let told = guard.bound(at(ms), &locked).unwrap();
        assert!(near(&told.position, &[0.1, 0.0, 0.0]), "{told:?}");
        assert_eq!((told.velocity, told.force), ([0.0; 3], [0.0; 3]));
    }
    assert_eq!(Guard::new(MotionLimits::new(), MS * 100).bound(at(1), &locked), Err(Verdict::OutOfLimits));
}

#[test]
fn more_states_than_the_rate_are_not_admitted() {
    let mut guard = Guard::new(MotionLimits::new().rate(1_000.0), MS * 100);
    let admitted = (0..10_000u64).filter(|n| guard.admits(at(0) + Duration::from_micros(n * 100))).count();
    assert!((1_090..=1_110).contains(&admitted), "{admitted} of 10000 in a second");
}

#[test]
fn an_orientation_that_is_none_is_refused_whatever_the_policy() {
    let nowhere = State { orientation_wxyz: [0.0; 4], ..State::at(Time::ZERO) };
    assert_eq!(Guard::new(MotionLimits::new(), MS * 100).bound(at(1), &nowhere), Err(Verdict::NotFinite));
}

fn number() -> impl Strategy<Value = f32> {
    prop_oneof![
        any::<f32>().prop_filter("finite", |x| x.is_finite()),
        -1.0f32..1.0,
        Just(f32::MAX),
        Just(f32::MIN)
    ]
}

fn vector() -> impl Strategy<Value = [f32; 3]> {
    prop::array::uniform3(number())
}

proptest! {
    /// Whatever finite states come, whenever, and wherever the robot says that it is: what it is told is finite, within the
    /// box, and no further from the last than the speed times the time between, or a step.
    #[test]
    fn what_comes_out_is_finite_and_within(
        asked in prop::collection::vec((vector(), vector(), vector(), vector(), 0u64..200_000, any::<bool>()), 1..40),
        start in prop::array::uniform3(-1.0f32..1.0),
        speed in prop_oneof![0.0f32..2.0, Just(f32::INFINITY)],
        acceleration in prop_oneof![0.01f32..20.0, Just(f32::INFINITY)],
        step in prop_oneof![0.0f32..0.1, Just(f32::INFINITY)],
        force in 0.0f32..50.0,
        stiffness in prop_oneof![Just(0.0f32), 100.0f32..5_000.0],
    ) {
        let limits = MotionLimits::new().position([-0.5; 3], [0.5; 3]).velocity(speed).acceleration(acceleration)
            .step(step).force(force).stiffness(stiffness);
        let mut guard = guard(limits, start);
        let (mut last, mut path, mut now) = (start, Path::new(), at(0));
        for (position, velocity, force_asked, measured, wait_us, locked) in asked {
            now += Duration::from_micros(wait_us);
            guard.measure(now, measured.map(|x| x.clamp(-2.0, 2.0)));
            let asked = State { position, velocity, force: force_asked, locked, ..State::at(now) };
            let told = guard.bound(now, &asked).expect("it is brought within");
            prop_assert!(told.is_finite(), "{told:?}");
            let exact = |vector: [f32; 3]| magnitude(&vector.map(f64::from));
            prop_assert!(exact(told.velocity) <= f64::from(speed) * (1.0 + 1e-6));
            prop_assert!(exact(told.force) <= f64::from(force) * (1.0 + 1e-6));
            // In the box, or no further out than it was.
            prop_assert!((0..3).all(|i| told.position[i].abs() <= last[i].abs().max(0.5)), "{told:?} after {last:?}");
            let way = distance(told.position.map(f64::from), last.map(f64::from));
            let longer = path.go(now, way, f64::from(speed));
            prop_assert!(longer.is_nan() || longer <= 6e-5, "{longer}");
            prop_assert!(way <= f64::from(step) + 1e-6 && (!locked || way <= 0.0), "{way}");
            last = told.position;
        }
    }
}

#[test]
fn a_locked_device_moves_neither_the_orientation_nor_the_gripper() {
    let mut guard = StateGuard::new(MotionLimits::new(), Duration::from_millis(100));
    let now = Time::ZERO + Duration::from_secs(1);
    guard.measure(now, [0.0; 3]);
    guard.enable(now);
    let held = State { gripper: 500, orientation_wxyz: [0.0, 1.0, 0.0, 0.0], ..State::at(now) };
    guard.bound(now, &held).unwrap();
    let asked = State { locked: true, gripper: 60_000, orientation_wxyz: [0.0, 0.0, 1.0, 0.0], ..held };
    let told = guard.bound(now, &asked).unwrap();
    assert_eq!((told.gripper, told.orientation_wxyz), (500, held.orientation_wxyz));
}

#[test]
fn a_state_that_turns_is_told_no_more_angular_velocity_and_torque_than_the_limits_let() {
    let mut guard = Guard::new(MotionLimits::new().angular_velocity(0.5).torque(0.2), MS * 1_000);
    guard.measure_orientation(at(0), [1.0, 0.0, 0.0, 0.0]);
    guard.enable(at(0));
    let turning = crate::Turning { velocity: [3.0, 0.0, 4.0], torque: [0.0, -0.6, 0.8] };
    let asked = State { turning: Some(turning), turning_energy: 2.0, ..State::at(Time::ZERO) };
    let told = guard.bound(at(10), &asked).unwrap();
    let crate::Turning { velocity, torque } = told.turning.unwrap();
    assert!(near(&velocity, &[0.3, 0.0, 0.4]) && near(&torque, &[0.0, -0.12, 0.16]), "{told:?}");
    assert!((told.turning_energy - 2.0).abs() < 1e-12, "what the law books is not motion");
    let locked = guard.bound(at(20), &State { locked: true, ..asked }).unwrap();
    assert_eq!(locked.turning, Some(crate::Turning::default()));
}
