use taut_control::{Tdpa, Wave};

use super::tests::{Held, MS, Obedient, SERVO, place, set_point, told, within};
use super::*;

/// An arm by waves that holds what it hears for 50 ms, and has begun to.
fn holding() -> CoupledArm<Obedient> {
    let mut arm = within(Law::Wave(Wave { reserve: 1.0, ..Wave::default() }), MotionLimits::new())
        .playout(HoldTarget::Fixed(MS * 50));
    arm.measure();
    arm.enable().unwrap();
    arm
}

/// A hand's state of `ms`, as it is told at that time.
fn made(ms: u64, speed: f32) -> SetPoint {
    let point = set_point(0.0, speed, 0.01 * ms as f64);
    SetPoint {
        state: State { created: Time::ZERO + MS * ms, ..point.state },
        age: Duration::ZERO,
        lease: MS * 200,
        ..point
    }
}

fn counts(arm: &mut CoupledArm<Obedient>) -> taut_control::PlayerCounts {
    arm.measure().and_then(|measured| measured.feedback).unwrap().played
}

#[test]
fn signals_are_played_late_and_a_stop_is_not() {
    let mut arm = holding();
    assert!(arm.apply(&made(1, 0.1)));
    assert_eq!(told(&mut arm, 50), 0, "its time has not come");
    assert!(told(&mut arm, 10) == 10 && place(&arm) > 0.0);
    // A second one is under way when the robot stops: nothing moves by it, then or after the next resume.
    assert!(arm.apply(&made(60, 0.1)));
    arm.stop(StopCause::Emergency);
    assert_eq!((arm.device.stops, told(&mut arm, 100)), (1, 0));
    arm.enable().unwrap();
    assert_eq!(told(&mut arm, 100), 0);
    assert_eq!(counts(&mut arm).cleared, 1);
}

#[test]
fn a_lease_counts_from_what_came_and_not_from_what_is_played() {
    let mut arm = holding();
    for ms in 1..=40 {
        assert!(arm.apply(&SetPoint { lease: MS * 60, ..made(ms, 0.1) }));
        arm.measure();
    }
    // The link is cut: it goes on for what is left of the last lease, by what is held until then.
    let led = told(&mut arm, 200);
    assert!((45..=60).contains(&led), "{led}");
    assert!(!arm.apply(&made(300, 0.1)), "it waits to be enabled");
}

#[test]
fn what_is_held_is_never_older_than_a_state_may_be() {
    let mut arm = holding();
    // It would be worthless before its time: it is played while it is not.
    assert!(arm.apply(&SetPoint { fresh: MS * 20, ..made(1, 0.1) }));
    assert_eq!((told(&mut arm, 18), told(&mut arm, 5)), (0, 4));
    assert_eq!(counts(&mut arm).played, 1);
    // A device that is not asked in time: what it heard is worthless by then.
    let mut hand = CoupledHand::new(Held::default(), Law::Wave(Wave::default()), SERVO, MS, 20.0)
        .playout(HoldTarget::Fixed(MS * 50), MS * 200);
    hand.device.state = Some(State::at(Time::ZERO));
    let pushed = State { force: [3.0, 0.0, 0.0], energy: Some(0.0), ..State::at(Time::ZERO) };
    hand.feel(Time::ZERO + MS * 10, &pushed);
    hand.sample(Time::ZERO + MS * 200);
    assert!(hand.device.felt.abs() < 1e-9 && hand.counts().expired == 1, "{:?}", hand.counts());
    hand.feel(Time::ZERO + MS * 210, &State { created: Time::ZERO + MS * 200, ..pushed });
    hand.sample(Time::ZERO + MS * 260);
    assert!(hand.device.felt.abs() > 0.1);
}

#[test]
fn a_locked_device_and_an_urgent_state_wait_for_nothing() {
    for urgent in [
        State { locked: true, ..made(2, 0.0).state },
        State { priority: Priority::Emergency, ..made(2, 0.0).state },
    ] {
        let mut arm = holding();
        assert!(arm.apply(&made(1, 0.1)));
        assert!(arm.apply(&SetPoint { state: urgent, ..made(2, 0.0) }));
        assert_eq!(told(&mut arm, 1), 1);
        assert_eq!(arm.device.state.map(|state| state.locked), Some(urgent.locked));
        assert_eq!(told(&mut arm, 100), 100);
        assert_eq!(counts(&mut arm).superseded, 1, "what was held is old news");
    }
}

/// How far the arm of a hand that presses steadily is led in a second, where the host asks the hand in one of four periods only, and says so or not.
fn led_by_a_late_host(law: Law, told: bool) -> f32 {
    let mut hand = CoupledHand::new(Held::default(), law, SERVO, MS, 20.0);
    let mut arm = within(law, MotionLimits::new());
    arm.measure();
    arm.enable().unwrap();
    for period in 0u16..1_000 {
        let x = 0.0005 * f32::from(period);
        if period % 4 == 0 {
            if told && period > 0 {
                hand.skip(3);
            }
            let (position, velocity) = ([x, 0.0, 0.0], [0.5, 0.0, 0.0]);
            hand.device.state = Some(State { position, velocity, ..State::at(Time::ZERO) });
            let state = hand.sample(Time::ZERO).unwrap().state;
            arm.apply(&SetPoint { state, age: Duration::ZERO, lease: MS * 20, fresh: Duration::MAX });
        }
        let measured = arm.measure().unwrap();
        hand.feel(Time::ZERO, &measured.feedback.unwrap().state);
    }
    place(&arm)
}

#[test]
fn waves_of_a_late_host_bring_the_energy_that_they_are_held_for() {
    let law = Law::Wave(Wave::default());
    let [held, not] = [true, false].map(|told| led_by_a_late_host(law, told));
    assert!(held > 0.47 && not < held - 0.05, "{held} and {not} m of 0.5 m");
}

#[test]
fn an_arm_by_time_domain_passivity_follows_the_hand_of_a_late_host() {
    let law = Law::Tdpa(Tdpa::default());
    let led = led_by_a_late_host(law, true);
    assert!(led > 0.47, "{led} m of 0.5 m");
}
