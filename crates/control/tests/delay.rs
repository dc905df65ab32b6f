//! Each law against the closed form of its loop over a pure delay.

use std::collections::VecDeque;

use taut_control::{
    Law, Message, Motion, OperatorEnd, OperatorOutput, Oracle, Orientation, Place, RobotEnd, RobotOutput,
    Servo, Surroundings, Tdpa, Vector, Wave,
};
use taut_core::Duration;

const SERVO: Servo = Servo { stiffness: 3_000.0, damping: 45.0 };

/// Messages on their way, each for the same time.
struct Line<P> {
    under_way: VecDeque<Option<Message<P>>>,
}

impl<P: Place> Line<P> {
    fn new(periods: usize) -> Self {
        Self { under_way: std::iter::repeat_n(None, periods).collect() }
    }

    fn pass(&mut self, message: Message<P>) -> Option<Message<P>> {
        self.under_way.push_back(Some(message));
        self.under_way.pop_front().flatten()
    }
}

/// Both ends and the two lines between them.
struct Teleoperator<P> {
    operator: OperatorEnd<P>,
    robot: RobotEnd<P>,
    there: Line<P>,
    back: Line<P>,
    /// Of what the robot hears.
    age: Duration,
}

impl<P: Place> Teleoperator<P> {
    fn new(law: Law, servo: Servo, period: Duration, periods_each_way: usize) -> Self {
        Self {
            operator: OperatorEnd::new(law, servo, period),
            robot: RobotEnd::new(law, servo, period),
            there: Line::new(periods_each_way),
            back: Line::new(periods_each_way),
            age: period * periods_each_way as u64,
        }
    }

    /// One period, with the arm as `measured` says of the reference that it was given before.
    fn step(&mut self, hand: &Motion<P>, measured: &Surroundings<P>) -> (OperatorOutput<P>, RobotOutput<P>) {
        let felt = self.operator.step(hand).expect("numbers");
        if let Some(message) = self.there.pass(felt.message) {
            self.robot.receive(&message, self.age);
        }
        let moved = self.robot.step(measured).expect("numbers");
        if let Some(message) = self.back.pass(moved.message) {
            self.operator.receive(&message);
        }
        (felt, moved)
    }
}

fn along(x: f64) -> [f64; 3] {
    [x, 0.0, 0.0]
}

/// A hand that presses by 10 mm, or 10 mrad, against an arm that cannot move from here feels the servo's spring behind the line.
fn displayed<P: Place>(law: Law, servo: Servo, round_trip_ms: usize, here: P, axis: Vector) -> f64 {
    let mut both = Teleoperator::new(law, servo, Duration::from_millis(1), round_trip_ms / 2);
    let arm = Motion { position: here, velocity: [0.0; 3] };
    let mut force = [0.0; 3];
    for step in 0..20_000u32 {
        let before = f64::from(step.min(2_000)) * 5e-6;
        let after = f64::from((step + 1).min(2_000)) * 5e-6;
        let velocity = axis.map(|part| part * (after - before) / 0.001);
        let hand = Motion { position: here.after(after, &axis), velocity };
        force = both.step(&hand, &Surroundings { arm, force: [0.0; 3] }).0.force;
    }
    -force.iter().zip(&axis).map(|(force, along)| force * along).sum::<f64>() / 0.01
}

#[test]
fn waves_show_a_stiffness_behind_a_line_as_springs_in_series() {
    let reserve = 1.0;
    let b = 30.0;
    for round_trip_ms in [4, 16, 40, 80] {
        let law = Law::Wave(Wave { reserve, impedance: b, ..Wave::default() });
        let servo = Servo { stiffness: 1_500.0, ..SERVO };
        let shown = displayed(law, servo, round_trip_ms, [0.0; 3], along(1.0));
        let in_series = |k: f64, b: f64| k / (1.0 + k * round_trip_ms as f64 / 1_000.0 / (2.0 * b));
        let expected = in_series(1_500.0, b);
        println!("{round_trip_ms} ms: {shown:.1} N/m, k / (1 + kT/(2b)) = {expected:.1} N/m");
        assert!((shown / expected - 1.0).abs() < 0.02, "{round_trip_ms} ms: {shown} N/m, not {expected}");
        // A spring of torsion about an axis across all three, far from upright, behind an impedance of its own.
        let here = Orientation::ORIGIN.after(1.0, &[0.9, -1.4, 0.7]);
        let (servo, b) = (Servo { stiffness: 12.0, damping: 0.5 }, 0.4);
        let law = Law::Wave(Wave { reserve, impedance: b, ..Wave::default() });
        let (shown, expected) =
            (displayed(law, servo, round_trip_ms, here, [0.36, 0.48, -0.8]), in_series(12.0, b));
        println!("{round_trip_ms} ms: {shown:.3} N·m/rad, k / (1 + kT/(2b)) = {expected:.3} N·m/rad");
        assert!((shown / expected - 1.0).abs() < 0.02, "{round_trip_ms} ms: {shown} N·m/rad, not {expected}");
    }
}

#[test]
fn other_laws_show_a_stop_of_torsion_in_series_with_the_servo() {
    let servo = SERVO.of_turns();
    let of = |law, here, axis| displayed(law, servo, 40, here, axis);
    let stop = Oracle { stiffness: 30.0, damping: 0.1, mass: 0.003 };
    let shown = of(Law::Oracle(stop), Orientation::ORIGIN, along(1.0));
    assert!((shown / 15.0 - 1.0).abs() < 1e-6, "{shown} N·m/rad");
    let here = Orientation::ORIGIN.after(1.0, &[0.9, -1.4, 0.7]);
    let shown = of(Law::PositionPosition, here, [0.36, 0.48, -0.8]);
    assert!((shown / 30.0 - 1.0).abs() < 1e-6, "{shown} N·m/rad");
}

#[test]
fn a_matched_line_reflects_nothing_of_the_first_wave() {
    let reflected = |impedance: f64| {
        let wave = Wave { impedance, reserve: 1.0, ..Wave::default() };
        let mut robot: RobotEnd =
            RobotEnd::new(Law::Wave(wave), Servo { stiffness: 1e-9, ..SERVO }, Duration::from_millis(1));
        robot.receive(&Message { velocity: along(0.1), ..Message::default() }, Duration::ZERO);
        let Message { velocity, force, .. } = robot.step(&Surroundings::default()).unwrap().message;
        (impedance * velocity[0] + force[0]) / (2.0 * impedance).sqrt()
    };
    assert!(reflected(SERVO.damping).abs() < 1e-12);
    assert!(reflected(30.0) < -0.01 && reflected(90.0) > 0.01);
}

/// The hand of a mass of 0.4 kg held by 350 N/m and 14 N·s/m, a period at a time by many small steps.
#[derive(Default)]
struct Hand {
    motion: [f64; 2],
}

impl Hand {
    const MASS: f64 = 0.4;
    const DAMPING: f64 = 14.0;
    const STIFFNESS: f64 = 350.0;

    /// x(t) = c + e^(−at) (A cos ωt + B sin ωt) solves m x″ + b x′ + k x = f.
    fn pass(&mut self, force: f64, seconds: f64) -> Motion {
        let [x, v] = self.motion;
        let decay = Self::DAMPING / (2.0 * Self::MASS);
        let omega = (Self::STIFFNESS / Self::MASS - decay * decay).sqrt();
        let rest = force / Self::STIFFNESS;
        let (a, b) = (x - rest, (v + decay * (x - rest)) / omega);
        let (sin, cos) = (omega * seconds).sin_cos();
        let fading = (-decay * seconds).exp();
        let away = fading * (a * cos + b * sin);
        let turning = fading * omega * (b * cos - a * sin);
        self.motion = [rest + away, turning - decay * away];
        Motion { position: along(self.motion[0]), velocity: along(self.motion[1]) }
    }
}

/// How much larger the swing of the hand is in the last tenth of ten seconds than in the second.
fn growth(law: Law, stiffness: f64, round_trip: f64) -> f64 {
    let period = 0.000_02;
    // The hold adds half a period, what is measured is a period old, and so is what the operator's end heard.
    let periods_each_way = ((round_trip / period - 2.5) / 2.0).round() as usize;
    let mut both = Teleoperator::new(law, SERVO, Duration::from_secs_f64(period), periods_each_way);
    let mut hand = Hand { motion: [0.0, 0.01] };
    let (mut force, mut reference) = (0.0, 0.0);
    let mut largest = [0.0f64; 10];
    for step in 0..500_000 {
        let motion = hand.pass(force, period);
        let measured = Surroundings {
            arm: Motion { position: along(reference), velocity: [0.0; 3] },
            force: along(-stiffness * reference),
        };
        let (felt, moved) = both.step(&motion, &measured);
        (force, reference) = (felt.force[0], moved.reference.position[0]);
        let tenth = &mut largest[step / 50_000];
        *tenth = tenth.max(hand.motion[0].abs());
    }
    largest[9] / largest[1]
}

/// Where |K / (k − mω² + jbω)| is 1 and the phase of the delay takes what is left to −π.
fn critical_round_trip(stiffness: f64) -> f64 {
    let (m, b, k) = (Hand::MASS, Hand::DAMPING, Hand::STIFFNESS);
    // m²ω⁴ + (b² − 2mk) ω² + k² − K² = 0.
    let [second, zeroth] = [b * b - 2.0 * m * k, k * k - stiffness * stiffness];
    let square = (-second + (second * second - 4.0 * m * m * zeroth).sqrt()) / (2.0 * m * m);
    let omega = square.sqrt();
    let phase = -(b * omega).atan2(k - m * square);
    (phase + std::f64::consts::PI) / omega
}

#[test]
fn position_force_rattles_from_the_phase_margin_of_its_loop_on() {
    for stiffness in [500.0, 1_000.0, 3_000.0] {
        let critical = critical_round_trip(stiffness);
        let [below, above] =
            [0.98, 1.02].map(|share| growth(Law::PositionForce, stiffness, critical * share));
        println!("{stiffness} N/m: critical {:.2} ms, growth {below:.3} and {above:.3}", critical * 1e3);
        assert!(below < 1.0 && above > 1.0, "{stiffness} N/m: {below}, {above}");
    }
}

#[test]
fn a_passive_law_lets_an_arm_drift_no_further_than_it_makes_up_for() {
    for law in [Law::Wave(Wave::default()), Law::Tdpa(Tdpa::default())] {
        let period = Duration::from_millis(1);
        let mut operator = OperatorEnd::new(law, SERVO, period);
        let mut robot = RobotEnd::new(law, SERVO, period);
        // An arm without a mass that follows at once; every third message is lost; back and forth, then still.
        let mut arm = Motion::default();
        for step in 0..6_000u32 {
            let at = |step: u32| 0.03 * (f64::from(step.min(3_000)) / 300.0).sin();
            let velocity = along((at(step + 1) - at(step)) / 0.001);
            let felt = operator.step(&Motion { position: along(at(step + 1)), velocity }).unwrap();
            if step % 3 != 0 {
                robot.receive(&felt.message, Duration::ZERO);
            }
            let moved = robot.step(&Surroundings { arm, force: [0.0; 3] }).unwrap();
            arm = moved.reference;
            operator.receive(&moved.message);
        }
        let drift = arm.position[0] - 0.03 * 10f64.sin();
        assert!(drift.abs() < 1e-4, "{law:?}: {drift} m");
    }
}

/// Turns in a cone, an axis of the hand that never stays, so that what was turned by so far says no orientation.
fn cone(step: u32) -> Orientation {
    let at = f64::from(step.min(3_000)) / 150.0;
    Orientation::ORIGIN.after(1.0, &[0.8 * at.sin(), 0.8 * at.cos() - 0.8, 0.1 * at])
}

#[test]
fn a_passive_law_lets_an_arm_drift_from_a_hand_that_turns_no_further_than_it_makes_up_for() {
    for law in [Law::Wave(Wave::default()), Law::Tdpa(Tdpa::default())] {
        let period = Duration::from_millis(1);
        let mut operator = OperatorEnd::new(law.of_turns(), SERVO.of_turns(), period);
        let mut robot = RobotEnd::new(law.of_turns(), SERVO.of_turns(), period);
        let mut arm = Motion::<Orientation>::default();
        let mut turned = [0.0; 3];
        for step in 0..6_000u32 {
            let position = cone(step + 1);
            let velocity = position.way_from(&cone(step)).map(|part| part / 0.001);
            (0..3).for_each(|axis| turned[axis] += 0.001 * velocity[axis]);
            let felt = operator.step(&Motion { position, velocity }).unwrap();
            if step % 3 != 0 {
                robot.receive(&felt.message, Duration::ZERO);
            }
            let moved = robot.step(&Surroundings { arm, force: [0.0; 3] }).unwrap();
            arm = moved.reference;
            operator.receive(&moved.message);
        }
        let size = |way: Vector| way.iter().map(|part| part * part).sum::<f64>().sqrt();
        let drift = size(arm.position.way_from(&cone(6_000)));
        assert!(drift < 1e-3, "{law:?}: {drift} rad of a cone of 0.8");
        let summed = size(Orientation::ORIGIN.after(1.0, &turned).way_from(&cone(6_000)));
        assert!(summed > 0.1, "the sum of what it was turned by would have done: {summed} rad");
    }
}

#[test]
fn without_a_reserve_nothing_moves_and_with_one_it_does() {
    let moved = |reserve: f64| {
        let law = Law::Tdpa(Tdpa { reserve, ..Tdpa::default() });
        let mut both = Teleoperator::new(law, SERVO, Duration::from_millis(1), 5);
        let mut arm = Motion::default();
        for step in 0..200 {
            let hand = Motion { position: along(1e-4 * f64::from(step)), velocity: along(0.1) };
            arm = both.step(&hand, &Surroundings::default()).1.reference;
        }
        arm.position[0]
    };
    assert!(moved(0.0).abs() < 1e-12 && moved(0.02) > 1e-4, "{} {}", moved(0.0), moved(0.02));
}
