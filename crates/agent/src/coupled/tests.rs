use taut_control::{Tdpa, Wave};
use taut_core::Bitrate;
use taut_session::LimitPolicy;

use super::*;
use crate::{DeviceMessage, Grip, Rate, RateInput, Relative};

pub(super) const MS: Duration = Duration::from_millis(1);
pub(super) const SERVO: Servo = Servo { stiffness: 3_000.0, damping: 45.0 };

/// An arm that goes where it is told, at once.
#[derive(Default)]
pub(super) struct Obedient {
    pub(super) state: Option<State>,
    told: u32,
    pub(super) stops: u32,
    /// It stays so, whatever it is told.
    pub(super) stuck: Option<State>,
    broken: bool,
    stiffness: Option<f32>,
}

impl RobotDevice for Obedient {
    fn period(&self) -> Duration {
        MS
    }
    fn enable(&mut self) -> Result<(), DeviceFailure> {
        Ok(())
    }
    fn apply(&mut self, point: &SetPoint) -> bool {
        (self.state, self.told) = (Some(point.state), self.told + 1);
        true
    }
    fn drive(&mut self, _: ChannelId, _: &Motion, _: Duration) -> bool {
        false
    }
    fn stop(&mut self, _: StopCause) {
        self.stops += 1;
    }
    fn measure(&mut self) -> Option<Measured> {
        let mut state = self.stuck.or(self.state).unwrap_or(State::at(Time::ZERO));
        if self.broken {
            state.velocity[1] = f32::NAN;
        }
        Some(Measured { state, controller_force: None, feedback: None })
    }
    fn receive(&mut self, _: ChannelId, _: Option<Duration>, _: &[u8]) {}
    fn limit_bitrate(&mut self, _: Bitrate) {}
    fn poll_message(&mut self) -> Option<DeviceMessage> {
        None
    }
    fn feeds_back(&mut self) -> bool {
        true
    }
    fn failure(&mut self) -> Option<DeviceFailure> {
        None
    }
    fn lease(&self) -> bool {
        true
    }
    fn stiffness(&self) -> Option<f32> {
        self.stiffness
    }
    fn limit_force(&mut self, _: f32) -> bool {
        true
    }
    fn is_real(&self) -> bool {
        false
    }
}

pub(super) fn within(law: Law, limits: MotionLimits) -> CoupledArm<Obedient> {
    CoupledArm::new(Obedient::default(), law, SERVO, limits, MS * 100)
}

/// A hand that is where it is put, and what pushes it along x.
#[derive(Default)]
pub(super) struct Held {
    pub(super) state: Option<State>,
    phase: f32,
    pub(super) felt: f32,
    /// Where it was told that the robot is, along x.
    at: f32,
    readings: u64,
    /// It reads nothing new.
    pub(super) is_stuck: bool,
}

impl OperatorDevice for Held {
    fn sample(&mut self, _: Time) -> Option<Sample> {
        self.readings += u64::from(!self.is_stuck);
        self.state.map(|state| Sample { state, reading: self.readings })
    }
    fn skip(&mut self, periods: u64) -> u64 {
        periods
    }
    fn resumed(&mut self, _: Resume) {}
    fn feel(&mut self, _: Time, state: &State) {
        (self.felt, self.at) = (state.force[0], state.position[0]);
    }
    fn lost(&mut self) {
        self.felt = 0.0;
    }
    fn receive(&mut self, _: ChannelId, _: Option<Duration>, _: &[u8]) {}
    fn limit_bitrate(&mut self, _: Bitrate) {}
    fn poll_message(&mut self, _: Time) -> Option<DeviceMessage> {
        None
    }
}

/// One that moves by waves, and how often it is told where to go in so many periods.
fn moving() -> CoupledArm<Obedient> {
    let mut arm = within(Law::Wave(Wave::default()), MotionLimits::new());
    arm.measure();
    arm.enable().unwrap();
    let state = State { velocity: [0.1, 0.0, 0.0], energy: Some(0.01), ..State::at(Time::ZERO) };
    assert!(arm.apply(&SetPoint { state, age: Duration::ZERO, lease: MS * 20, fresh: Duration::MAX }));
    arm
}

pub(super) fn told(arm: &mut CoupledArm<Obedient>, periods: u32) -> u32 {
    let before = arm.device.told;
    (0..periods).for_each(|_| assert!(arm.measure().is_some()));
    arm.device.told - before
}

#[test]
fn an_arm_is_led_between_set_points_for_its_lease_and_no_longer() {
    let mut arm = moving();
    assert_eq!(told(&mut arm, 19), 19);
    assert!(arm.device.state.is_some_and(|state| state.position[0] > 0.0), "it moves");
    assert!(told(&mut arm, 100) <= 1, "nothing leads it when nothing more is heard");
    let state = State { energy: Some(0.02), ..State::at(Time::ZERO) };
    assert!(
        !arm.apply(&SetPoint { state, age: Duration::ZERO, lease: MS * 20, fresh: Duration::MAX }),
        "nobody enabled it again"
    );
}

#[test]
fn a_stop_reaches_the_device_and_nothing_leads_it_until_it_is_enabled() {
    let mut arm = moving();
    assert_eq!(told(&mut arm, 5), 5);
    arm.stop(StopCause::Watchdog);
    assert_eq!((arm.device.stops, told(&mut arm, 50)), (1, 0));
    arm.enable().unwrap();
    assert_eq!(told(&mut arm, 50), 0, "what was heard before the stop is gone");
}

#[test]
fn what_goes_back_under_a_passive_law_says_its_energy() {
    let mut arm = moving();
    let feedback = arm.measure().and_then(|measured| measured.feedback);
    assert!(feedback.is_some_and(|feedback| feedback.state.energy.is_some()));
}

/// Asked for what the law says, by a hand at `place` that moves so fast along x.
pub(super) fn set_point(place: f32, speed: f32, energy: f64) -> SetPoint {
    let state = State {
        position: [place, 0.0, 0.0],
        velocity: [speed, 0.0, 0.0],
        energy: Some(energy),
        ..State::at(Time::ZERO)
    };
    SetPoint { state, age: Duration::ZERO, lease: MS * 20, fresh: Duration::MAX }
}

fn passive() -> [Law; 2] {
    [Law::Wave(Wave { reserve: 1.0, ..Wave::default() }), Law::Tdpa(Tdpa { reserve: 1.0, ..Tdpa::default() })]
}

/// Where the arm is along x.
pub(super) fn place(arm: &CoupledArm<Obedient>) -> f32 {
    arm.device.state.map_or(0.0, |state| state.position[0])
}

fn counted(arm: &mut CoupledArm<Obedient>) -> [u64; 2] {
    let LawFeedback { limited, refused, .. } = arm.measure().unwrap().feedback.unwrap();
    [limited, refused]
}

#[test]
fn the_reference_of_a_passive_law_keeps_the_workspace_and_the_speed_and_unwinds_nothing() {
    for law in passive() {
        let limits = MotionLimits::new().position([-0.05; 3], [0.05; 3]).velocity(0.2);
        let mut arm = within(law, limits);
        arm.measure();
        arm.enable().unwrap();
        let mut energy = 0.0;
        let mut hand = |arm: &mut CoupledArm<Obedient>, from: f32, to: f32| {
            let mut last = place(arm);
            for step in 0u8..200 {
                energy += 0.1;
                let at = from + (to - from) * f32::from(step + 1) / 200.0;
                assert!(arm.apply(&set_point(at, (to - from) / 0.2, energy)));
                arm.measure();
                let now = place(arm);
                assert!(
                    now <= 0.05 && (now - last).abs() <= 0.2 * 0.001 * 1.01,
                    "{law:?}: {last} to {now} m"
                );
                assert!(arm.device.state.unwrap().velocity[0].abs() <= 0.2, "{law:?}");
                last = now;
            }
            last
        };
        // To 200 mm at 1 m/s, there for a second, and back to 40 mm.
        hand(&mut arm, 0.0, 0.2);
        (0..5).for_each(|_| _ = hand(&mut arm, 0.2, 0.2));
        assert!(hand(&mut arm, 0.2, 0.2) > 0.0499, "{law:?}");
        let back = hand(&mut arm, 0.2, 0.04);
        let settled = (0..15).map(|_| hand(&mut arm, 0.04, 0.04)).last().unwrap();
        assert!(back > 0.0 && (settled - 0.04).abs() < 0.005, "{law:?}: {back}, then {settled} m");
        let [limited, refused] = counted(&mut arm);
        assert!(limited > 500 && refused == 0, "{law:?}: {limited}");
    }
}

#[test]
fn the_reference_of_a_passive_law_is_no_further_from_a_stuck_arm_than_its_force_reaches() {
    for law in passive() {
        let stuck = Some(State::at(Time::ZERO));
        let device = Obedient { stuck, stiffness: Some(3_000.0), ..Obedient::default() };
        let mut arm = CoupledArm::new(device, law, SERVO, MotionLimits::new().force(6.0), MS * 100);
        arm.measure();
        arm.enable().unwrap();
        for step in 0u8..250 {
            assert!(arm.apply(&set_point(0.001 * f32::from(step), 1.0, f64::from(step))));
            arm.measure();
            assert!(place(&arm) <= 0.002 + 1e-6, "{law:?}: {} m", place(&arm));
        }
        assert!(place(&arm) > 0.0019, "{law:?}: {} m", place(&arm));
        // Locked, it stays, but goes with an arm that is pushed away, and is held back no more than that.
        let locked = |arm: &mut CoupledArm<Obedient>, at: f32| {
            arm.device.stuck = Some(State { position: [at, 0.0, 0.0], ..State::at(Time::ZERO) });
            let point = set_point(0.25, 0.0, 250.0);
            assert!(arm.apply(&SetPoint { state: State { locked: true, ..point.state }, ..point }));
            arm.measure();
            place(arm)
        };
        (0..5).for_each(|_| assert!((locked(&mut arm, 0.0) - 0.002).abs() < 1e-4, "{law:?}"));
        let (held, before) = (locked(&mut arm, 0.0), counted(&mut arm)[0]);
        (0..300).for_each(|_| assert!((locked(&mut arm, 0.0) - held).abs() < 1e-9, "{law:?}"));
        assert_eq!(counted(&mut arm)[0], before, "{law:?}");
        (0..100).for_each(|_| _ = locked(&mut arm, -0.05));
        assert!((place(&arm) + 0.048).abs() < 1e-4, "{law:?}: {} m", place(&arm));
    }
}

#[test]
fn limits_that_refuse_leave_the_reference_where_it_is() {
    for law in passive() {
        let mut arm =
            within(law, MotionLimits::new().position([-0.05; 3], [0.05; 3]).policy(LimitPolicy::Refuse));
        arm.measure();
        arm.enable().unwrap();
        for step in 0u8..250 {
            let at = 0.001 * f32::from(step);
            assert!(arm.apply(&set_point(at, 1.0, f64::from(step))));
            arm.measure();
            assert!(place(&arm) <= 0.05);
        }
        assert!(place(&arm) > 0.03 && counted(&mut arm)[0] > 0, "{law:?}: {}", place(&arm));
    }
}

/// Whatever the limit of its acceleration would have it do, and each time.
#[test]
fn a_locked_hand_holds_a_moving_reference_at_once_also_when_it_is_locked_again() {
    for law in passive() {
        let mut arm = within(law, MotionLimits::new().velocity(0.5).acceleration(2.0));
        arm.measure();
        arm.enable().unwrap();
        for turn in 0u8..3 {
            let point = set_point(0.4 * f32::from(turn % 2 + 1), 0.0, 1.0);
            let follow = |arm: &mut CoupledArm<Obedient>, locked| {
                assert!(arm.apply(&SetPoint { state: State { locked, ..point.state }, ..point }));
                told(arm, 1);
                place(arm)
            };
            let before = follow(&mut arm, false);
            let held = (0..100).map(|_| follow(&mut arm, false)).last().unwrap();
            assert!((held - before).abs() > 0.003, "{law:?}, {turn}: from {before} to {held} m");
            (0..50).for_each(|_| assert!((follow(&mut arm, true) - held).abs() < 1e-9, "{law:?}, {turn}"));
        }
    }
}

#[test]
fn a_locked_hand_holds_the_reference_of_a_passive_law_where_it_is() {
    for law in passive() {
        let mut arm = within(law, MotionLimits::new().velocity(0.5));
        arm.measure();
        arm.enable().unwrap();
        assert!(arm.apply(&set_point(0.05, 0.0, 1.0)));
        told(&mut arm, 5);
        let follow = |arm: &mut CoupledArm<Obedient>, locked| {
            let point = set_point(0.05, 0.0, 1.0);
            assert!(arm.apply(&SetPoint { state: State { locked, ..point.state }, ..point }));
            told(arm, 1);
            (place(arm), arm.device.state.unwrap().velocity[0])
        };
        let (held, speed) = follow(&mut arm, true);
        assert!(held < 0.04 && speed.abs() < 1e-9, "{law:?}: {held} m, {speed} m/s");
        for _ in 0..300 {
            assert_eq!(follow(&mut arm, true), (held, 0.0), "{law:?}");
        }
        let (mut last, _) = follow(&mut arm, false);
        assert!((last - held).abs() <= 0.000_51, "{law:?}: it begins with a step of {} m", last - held);
        (0..1_000).for_each(|_| last = follow(&mut arm, false).0);
        assert!(last > held + 0.005, "{law:?}: it goes on, {last} m");
    }
}

#[test]
fn what_is_no_number_is_refused_and_counted_and_moves_nothing() {
    for law in passive() {
        let mut arm = within(law, MotionLimits::new());
        arm.measure();
        arm.enable().unwrap();
        assert!(arm.apply(&set_point(0.0, 0.1, 0.01)));
        told(&mut arm, 5);
        for energy in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert!(arm.apply(&set_point(0.0, 0.1, energy)));
        }
        assert!(arm.apply(&set_point(f32::NAN, 0.1, 1.0)) && arm.apply(&set_point(0.0, f32::INFINITY, 1.0)));
        assert_eq!(counted(&mut arm)[1], 5);
        assert!(place(&arm).is_finite() && arm.failure().is_none());
    }
}

#[test]
fn an_arm_that_measures_no_number_is_stopped_and_waits_for_a_resume() {
    for law in passive() {
        let mut arm = within(law, MotionLimits::new());
        arm.measure();
        arm.enable().unwrap();
        assert!(arm.apply(&set_point(0.0, 0.1, 0.01)));
        assert_eq!(told(&mut arm, 3), 3);
        arm.device.broken = true;
        assert!(told(&mut arm, 10) <= 1, "it is led by what was measured before, once");
        assert_eq!(arm.device.stops, 1);
        let why = arm.failure().expect("it says so").to_string();
        assert!(why.contains("no finite number"), "{why}");
        assert!(!arm.apply(&set_point(0.0, 0.1, 0.02)));
    }
}

#[test]
fn a_hand_that_reads_no_number_is_let_go_of() {
    let mut hand = CoupledHand::new(Held::default(), Law::Wave(Wave::default()), SERVO, MS, 20.0);
    hand.device.state = Some(State { velocity: [1.0, 0.0, 0.0], ..State::at(Time::ZERO) });
    hand.sample(Time::ZERO);
    assert!(hand.device.felt < -1.0, "the line is a damper");
    hand.device.state = Some(State { velocity: [f32::NAN, 0.0, 0.0], ..State::at(Time::ZERO) });
    hand.sample(Time::ZERO);
    assert!(hand.device.felt.abs() < 1e-9);
    hand.device.state = Some(State { velocity: [1.0, 0.0, 0.0], ..State::at(Time::ZERO) });
    assert!(hand.sample(Time::ZERO).unwrap().state.is_finite(), "the books are as before");
}

#[test]
fn an_arm_refuses_what_comes_after_its_lease_until_it_is_enabled() {
    let mut arm = moving();
    let state = State { energy: Some(0.01), ..State::at(Time::ZERO) };
    let point = SetPoint { state, age: Duration::ZERO, lease: MS * 20, fresh: Duration::MAX };
    // Its host was late, and it counts the periods all at once.
    told(&mut arm, 25);
    assert!(!arm.apply(&point), "the session stops by that");
    arm.enable().unwrap();
    assert!(arm.apply(&point));
}

/// Keys that are held.
struct Keys;

impl RateInput for Keys {
    fn grip(&mut self) -> Grip {
        Grip::Held(Rate { linear: [0.1, 0.0, 0.0], ..Rate::default() })
    }
}

#[test]
fn what_moves_relative_to_the_robot_begins_where_that_is_by_every_law() {
    for law in Law::all() {
        let mut hand = CoupledHand::new(Relative::new(Keys, Priority::Normal), law, SERVO, MS, 20.0);
        hand.resumed(Resume::Asked);
        for ms in 0..20 {
            let waits = hand.sample(Time::ZERO + MS * ms).unwrap();
            assert_eq!(waits.reading, 0, "{law:?}: nobody knows where the robot is");
        }
        let robot = State { position: [0.3, 0.0, 0.1], energy: Some(0.0), ..State::at(Time::ZERO + MS * 20) };
        hand.feel(Time::ZERO + MS * 20, &robot);
        let began = (20..25).map(|ms| hand.sample(Time::ZERO + MS * ms).unwrap()).last().unwrap();
        let [x, _, z] = began.state.position;
        assert!(began.reading > 0 && (x - 0.3).abs() < 0.001 && (z - 0.1).abs() < 1e-6, "{law:?}: {began:?}");
        hand.lost();
        let moved = hand.sample(Time::ZERO + MS * 30).unwrap().state.position[0];
        assert!((moved - 0.3).abs() < 0.002, "{law:?}: what is gripped goes on");
        // For ten seconds nobody knows where the robot is; then a person lets it move again.
        (31..10_031).for_each(|ms| _ = hand.sample(Time::ZERO + MS * ms));
        let before = hand.sample(Time::ZERO + MS * 10_031).unwrap().reading;
        hand.resumed(Resume::Asked);
        let waits = hand.sample(Time::ZERO + MS * 10_032).unwrap().reading;
        assert_eq!(waits, before, "{law:?}: it waits to be told");
        let robot = State { created: Time::ZERO + MS * 10_033, ..robot };
        hand.feel(Time::ZERO + MS * 10_033, &robot);
        let began =
            (10_033..10_040).map(|ms| hand.sample(Time::ZERO + MS * ms).unwrap()).last().unwrap().state;
        assert!((began.position[0] - 0.3).abs() < 0.002, "{law:?}: {began:?}");
    }
}

#[test]
fn a_hand_that_reads_nothing_new_is_let_go_of_and_no_energy_is_booked_for_it() {
    for law in Law::all() {
        let mut hand = CoupledHand::new(Held::default(), law, SERVO, MS, 20.0);
        hand.resumed(Resume::Asked);
        let state = State { velocity: [0.3, 0.0, 0.0], ..State::at(Time::ZERO) };
        let mut told = State::at(Time::ZERO);
        for ms in 0..1_000 {
            let now = Time::ZERO + MS * ms;
            hand.device.state = Some(State { position: [0.3e-3 * ms as f32, 0.0, 0.0], ..state });
            hand.device.is_stuck = ms >= 100;
            let robot = State { force: [-2.0, 0.0, 0.0], energy: Some(1.0), ..State::at(now) };
            hand.feel(now, &robot);
            let sample = hand.sample(now).unwrap();
            if ms < 100 {
                told = sample.state;
                continue;
            }
            assert_eq!(sample.state.energy, told.energy, "{law:?}, {ms} ms");
            let lasts = ms - 99 < 200;
            assert!(lasts || hand.device.felt == 0.0, "{law:?}, {ms} ms: {}", hand.device.felt);
        }
        // It reads again: what went by is as a silence.
        hand.device.is_stuck = false;
        let now = Time::ZERO + MS * 1_000;
        let again = hand.sample(now).unwrap().state;
        let grown = again.energy.zip(told.energy).map_or(0.0, |(now, before)| now - before);
        assert!(grown < 0.05, "{law:?}: {grown} J");
    }
}

#[test]
fn a_hand_is_told_where_the_robot_is_and_pushed_with_what_the_law_says() {
    for law in passive() {
        let mut hand = CoupledHand::new(Held::default(), law, SERVO, MS, 20.0);
        hand.device.state = Some(State { velocity: [0.1, 0.0, 0.0], ..State::at(Time::ZERO) });
        let heard = State {
            position: [0.4, 0.0, 0.0],
            force: [-1.0, 0.0, 0.0],
            energy: Some(1.0),
            ..State::at(Time::ZERO)
        };
        hand.feel(Time::ZERO, &heard);
        (0..5).for_each(|_| _ = hand.sample(Time::ZERO).unwrap());
        assert!(
            (hand.device.at - 0.4).abs() < 1e-6 && hand.device.felt < -0.1,
            "{law:?}: {}",
            hand.device.felt
        );
    }
}

/// Back and forth through both ends for so many periods, the hand moving by sines; the longest way and the largest change of force in one.
fn move_both(hand: &mut CoupledHand<Held>, arm: &mut CoupledArm<Obedient>, periods: u32) -> [f32; 2] {
    let mut largest = [0.0f32; 2];
    for _ in 0..periods {
        hand.device.phase += 0.001;
        let (sin, cos) = (hand.device.phase * 6.0).sin_cos();
        let moving = State {
            position: [0.02 * sin, 0.0, 0.0],
            velocity: [0.12 * cos, 0.0, 0.0],
            ..State::at(Time::ZERO)
        };
        hand.device.state = Some(moving);
        let before = [place(arm), hand.device.felt];
        let state = hand.sample(Time::ZERO).unwrap().state;
        arm.apply(&SetPoint { state, age: Duration::ZERO, lease: MS * 20, fresh: Duration::MAX });
        let measured = arm.measure().unwrap();
        hand.feel(Time::ZERO, &measured.feedback.unwrap().state);
        let after = [place(arm), hand.device.felt];
        for (largest, (before, after)) in largest.iter_mut().zip(before.iter().zip(after)) {
            *largest = largest.max((before - after).abs());
        }
    }
    largest
}

#[test]
fn an_end_that_was_started_again_and_counts_from_nothing_is_followed_without_a_jump() {
    for law in passive() {
        let new_hand = |phase| CoupledHand::new(Held { phase, ..Held::default() }, law, SERVO, MS, 20.0);
        let mut hand = new_hand(0.0);
        let mut arm = within(law, MotionLimits::new());
        arm.measure();
        arm.enable().unwrap();
        hand.resumed(Resume::Asked);
        let usual = move_both(&mut hand, &mut arm, 2_000);
        for restarted in ["hand", "arm"] {
            arm.stop(StopCause::LinkClosed);
            hand.lost();
            let phase = hand.device.phase;
            let was = arm.device.state;
            if restarted == "hand" {
                hand = new_hand(phase);
            } else {
                arm = within(law, MotionLimits::new());
                arm.device.state = was.map(|state| State { velocity: [0.0; 3], ..state });
                arm.measure();
            }
            arm.enable().unwrap();
            hand.resumed(Resume::Asked);
            let heard = arm.measure().unwrap().feedback.unwrap().state;
            hand.feel(Time::ZERO, &heard);
            hand.device.felt = 0.0;
            let after = move_both(&mut hand, &mut arm, 2_000);
            let apart = (place(&arm) - hand.device.state.unwrap().position[0]).abs();
            assert!(apart < 0.004, "{restarted}, {law:?}: it does not follow, {apart} m");
            // The first step is that of the line's damper on a hand that moves already.
            let most = [usual[0] * 2.0, usual[1] + 4.0];
            assert!(after[0] < most[0] && after[1] < most[1], "{restarted}, {law:?}: {after:?} of {usual:?}");
        }
    }
}

#[test]
fn a_resume_begins_with_no_wave_and_where_the_arm_is() {
    for law in passive() {
        let mut arm = within(law, MotionLimits::new());
        arm.measure();
        arm.enable().unwrap();
        assert!(arm.apply(&set_point(0.02, 0.5, 1.0)));
        told(&mut arm, 10);
        arm.stop(StopCause::Watchdog);
        // Somebody moved it meanwhile.
        arm.device.state = Some(State { position: [-0.3, 0.0, 0.0], ..State::at(Time::ZERO) });
        told(&mut arm, 10);
        arm.enable().unwrap();
        assert_eq!(told(&mut arm, 5), 0, "nothing is stored");
        assert!(arm.apply(&set_point(-0.3, 0.0, 0.0)));
        told(&mut arm, 5);
        assert!((place(&arm) + 0.3).abs() < 1e-6, "{law:?}: {} m", place(&arm));
        let mut hand = CoupledHand::new(Held::default(), law, SERVO, MS, 20.0);
        let pushed = State { force: [3.0, 0.0, 0.0], energy: Some(1.0), ..State::at(Time::ZERO) };
        hand.feel(Time::ZERO, &pushed);
        hand.device.state = Some(State::at(Time::ZERO));
        hand.sample(Time::ZERO);
        assert!(hand.device.felt > 0.1, "{law:?}");
        hand.resumed(Resume::Asked);
        hand.sample(Time::ZERO);
        assert!(hand.device.felt.abs() < 1e-9, "{law:?}");
        // It is felt since then: that the resume is done begins nothing anew.
        hand.feel(Time::ZERO, &pushed);
        hand.sample(Time::ZERO);
        hand.resumed(Resume::Done);
        hand.sample(Time::ZERO);
        assert!(hand.device.felt > 0.1, "{law:?}");
    }
}

#[test]
fn states_of_another_law_stop_an_arm_that_is_led_by_energy_and_push_no_hand() {
    for law in passive() {
        let mut arm = within(law, MotionLimits::new());
        arm.enable().unwrap();
        let point = SetPoint {
            state: State { energy: None, ..State::at(Time::ZERO) },
            age: Duration::ZERO,
            lease: MS * 100,
            fresh: Duration::MAX,
        };
        assert!(!arm.apply(&point), "{law:?}");
        let failure = arm.failure();
        assert!(
            matches!(&failure, Some(DeviceFailure::Stopped(why)) if why.contains("both ends need the same")),
            "{failure:?}"
        );
        assert_eq!((arm.device.stops, arm.failure()), (1, None), "{law:?}");
        assert!(
            !arm.apply(&SetPoint { state: State { energy: Some(0.0), ..point.state }, ..point }),
            "it waits to be enabled"
        );

        let mut hand = CoupledHand::new(Held::default(), law, SERVO, MS, 20.0);
        hand.feel(Time::ZERO, &State { force: [-10.0, 0.0, 0.0], energy: None, ..State::at(Time::ZERO) });
        for _ in 0..50 {
            hand.sample(Time::ZERO);
        }
        assert!(hand.device.felt.abs() < 1e-9, "{law:?}: {} N", hand.device.felt);
    }
}
