//! A hand that presses an arm against a wall, over a delay: does the force come to rest?

use std::collections::VecDeque;

use taut_control::{
    Law, Message, Motion, OperatorEnd, Orientation, Place, RobotEnd, Servo, Surroundings, Tdpa, Vector, Wave,
};
use taut_core::{Duration, Rng, Seed};

const SERVO: Servo = Servo { stiffness: 3_000.0, damping: 45.0 };
/// Steps of the plant, of a fiftieth of a period each: semi-implicit Euler.
const SUBSTEPS: u32 = 50;
const PERIOD: f64 = 0.001;
/// Of each end by default, J.
const RESERVE: f64 = 0.02;

/// A hand with its device, and what it is held by: kg, N·s/m, N/m.
struct Grip {
    mass: f64,
    damping: f64,
    stiffness: f64,
}

const GRIPS: [Grip; 3] = [
    Grip { mass: 0.15, damping: 2.0, stiffness: 70.0 },
    Grip { mass: 0.4, damping: 14.0, stiffness: 350.0 },
    Grip { mass: 0.8, damping: 20.0, stiffness: 1_000.0 },
];

/// Pushed for a step: a mass, or a ball that turns.
fn pass<P: Place>(body: &mut Motion<P>, force: &Vector, mass: f64) {
    let seconds = PERIOD / f64::from(SUBSTEPS);
    body.velocity = std::array::from_fn(|axis| body.velocity[axis] + seconds * force[axis] / mass);
    body.position = body.position.after(seconds, &body.velocity);
}

/// A spring and a damper to there.
fn pull<P: Place>(servo: &Servo, there: &Motion<P>, body: &Motion<P>) -> Vector {
    let way = there.position.way_from(&body.position);
    std::array::from_fn(|axis| {
        servo.stiffness * way[axis] + servo.damping * (there.velocity[axis] - body.velocity[axis])
    })
}

fn dot(a: &Vector, b: &Vector) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Delivers in order, each message after the delay and a random part of the jitter.
struct Line<P> {
    rng: Rng,
    delay: u64,
    jitter: u64,
    /// When each arrives and was made.
    under_way: VecDeque<(u64, u64, Message<P>)>,
}

impl<P: Place> Line<P> {
    fn send(&mut self, now: u64, message: Message<P>) {
        let at = now + self.delay + self.rng.below(self.jitter + 1);
        let at = self.under_way.back().map_or(at, |(last, ..)| at.max(*last));
        self.under_way.push_back((at, now, message));
    }

    /// And how many periods it took.
    fn arrived(&mut self, now: u64) -> Option<(u64, Message<P>)> {
        let due = self.under_way.iter().take_while(|(at, ..)| *at <= now).count();
        self.under_way.drain(..due).next_back().map(|(_, made, message)| (now - made, message))
    }
}

/// Of the force on the arm in the last two of ten seconds: root mean square around its mean, and that mean, N; of turns, at the end of the lever.
struct Pressed {
    ripple: f64,
    mean: f64,
    /// What the hand was pushed with then, N.
    felt: f64,
    /// The least that hand and arm together had put in by the work of the forces on them, which are held for a period while they move, J.
    least: f64,
    /// How far the arm was from the hand all along, root mean square, mm.
    apart: f64,
}

/// What the hand goes against.
#[derive(Clone, Copy)]
struct Trial {
    /// N/m, from where it begins; and how far in it goes, m.
    wall: f64,
    depth: f64,
    /// ms.
    round_trip: u64,
    jitter: u64,
    /// Of the force on the hand, N.
    limit: f64,
}

/// The hand goes 20 mm into a wall of this stiffness.
fn press<P: Place>(law: Law, grip: &Grip, wall: f64, round_trip: u64, jitter: u64) -> Pressed {
    go::<P>(law, grip, Trial { wall, depth: 0.02, round_trip, jitter, limit: 20.0 })
}

/// The hand goes in in half a second, and stays. What turns does so at the end of the lever, and about other axes on its way, which do not commute.
fn go<P: Place>(law: Law, grip: &Grip, trial: Trial) -> Pressed {
    let Trial { wall, depth: in_all, round_trip, jitter, limit } = trial;
    let (period, lever) = (Duration::from_millis(1), P::LEVER_SQUARED.sqrt());
    let turns = P::LEVER_SQUARED < 1.0;
    let (law, servo) = if turns { (law.of_turns(), SERVO.of_turns()) } else { (law, SERVO) };
    let mut operator = OperatorEnd::<P>::new(law, servo, period).limit_force(limit * lever);
    let mut robot = RobotEnd::new(law, servo, period);
    let line = |name: &str, delay| Line {
        rng: Seed::new(1).stream(name),
        delay,
        jitter,
        under_way: VecDeque::new(),
    };
    let (mut there, mut back) = (line("there", round_trip / 2), line("back", round_trip - round_trip / 2));
    let [mut hand, mut arm] = [Motion { position: P::ORIGIN, velocity: [0.0; 3] }; 2];
    let at_lever = |number: f64| number * P::LEVER_SQUARED;
    let held_by = Servo { stiffness: at_lever(grip.stiffness), damping: at_lever(grip.damping) };
    let wall = [at_lever(wall), at_lever(10.0)];
    let mut met = [0.0; 3];
    let (mut sum, mut squares, mut count, mut pushed) = (0.0, 0.0, 0.0, 0.0);
    let (mut inside, mut least, mut apart) = (0.0, 0.0f64, 0.0);
    for now in 0..10_000u64 {
        let share = (now as f64 / 500.0).min(1.0);
        let aside = if turns { 0.3 * (std::f64::consts::PI * share).sin() } else { 0.0 };
        let way = [in_all * share, in_all * aside, in_all * aside * share].map(|part| part / lever);
        let intent = Motion { position: P::ORIGIN.after(1.0, &way), velocity: [0.0; 3] };
        back.arrived(now).iter().for_each(|(_, message)| operator.receive(message));
        let output = operator.step(&hand).expect("numbers");
        let felt = output.force;
        there.send(now, output.message);
        there.arrived(now).iter().for_each(|(age, message)| robot.receive(message, period * *age));
        let moved = robot.step(&Surroundings { arm, force: met }).expect("numbers");
        back.send(now, moved.message);
        for _ in 0..SUBSTEPS {
            let held = pull(&held_by, &intent, &hand);
            let force = std::array::from_fn(|axis| held[axis] + felt[axis]);
            pass(&mut hand, &force, at_lever(grip.mass));
            inside -= dot(&felt, &hand.velocity) * PERIOD / f64::from(SUBSTEPS);
            let depth = arm.position.way_from(&P::ORIGIN)[0];
            let push = wall[0] * depth + wall[1] * arm.velocity[0];
            met[0] = if depth > 0.0 { -push.max(0.0) } else { 0.0 };
            let servo = pull(&servo, &moved.reference, &arm);
            inside -= dot(&servo, &moved.reference.velocity) * PERIOD / f64::from(SUBSTEPS);
            let force = std::array::from_fn(|axis| servo[axis] + met[axis]);
            pass(&mut arm, &force, at_lever(0.3));
        }
        least = least.min(inside);
        let way = arm.position.way_from(&hand.position);
        apart += dot(&way, &way) * P::LEVER_SQUARED / 10_000.0;
        if now >= 8_000 {
            let met = met[0] / lever;
            (sum, squares, count) = (sum - met, squares + met * met, count + 1.0);
            pushed -= felt[0] / lever;
        }
    }
    let mean: f64 = sum / count;
    let ripple = (squares / count - mean * mean).max(0.0).sqrt();
    Pressed { ripple, mean, felt: pushed / count, least, apart: 1e3 * apart.sqrt() }
}

impl Pressed {
    /// Less than 7 % of ripple around a force that is there.
    fn is_calm(&self) -> bool {
        self.mean > 0.05 && self.ripple < 0.07 * self.mean
    }
}

const LINES: [[u64; 2]; 7] = [[1, 0], [10, 0], [40, 0], [40, 20], [100, 0], [300, 0], [300, 50]];
const WALLS: [f64; 3] = [400.0, 3_000.0, 20_000.0];

/// Of every delay and jitter in so many grips, of the walls every so many-th: the cases that are not calm, or in which hand and arm were given
/// more than the reserves.
fn rattling<P: Place>(law: Law, grips: std::ops::Range<usize>, every: usize) -> Vec<String> {
    let mut rattling = Vec::new();
    for (line, [round_trip, jitter]) in LINES.into_iter().enumerate() {
        for grip in grips.clone() {
            let held = &GRIPS[grip];
            for wall in WALLS.into_iter().skip((line + grip) % every).step_by(every) {
                let pressed = press::<P>(law, held, wall, round_trip, jitter);
                let Pressed { ripple, mean, least, .. } = pressed;
                let place = format!("{round_trip} ms, jitter {jitter} ms, grip {grip}, {wall} N/m");
                if !pressed.is_calm() || least < -2.0 * RESERVE {
                    rattling.push(format!("{place}: {ripple:.3} of {mean:.3} N, {least:.3} J"));
                }
            }
        }
    }
    rattling
}

fn keep_calm<P: Place>(grips: std::ops::Range<usize>, every: usize) {
    for law in [Law::Wave(Wave::default()), Law::Tdpa(Tdpa::default())] {
        let rattling = rattling::<P>(law, grips.clone(), every);
        assert!(rattling.is_empty(), "{law:?}: {rattling:#?}");
    }
}

#[test]
fn passive_laws_keep_a_wall_calm_over_any_delay_and_jitter_in_any_grip() {
    keep_calm::<Vector>(0..3, 3);
}

#[test]
#[ignore = "make test-long"]
fn passive_laws_keep_every_wall_calm_over_any_delay_and_jitter_in_any_grip_at_length() {
    keep_calm::<Vector>(0..3, 1);
}

#[test]
fn passive_laws_keep_a_stop_of_torsion_calm_over_any_delay_and_jitter() {
    keep_calm::<Orientation>(1..2, 3);
}

#[test]
#[ignore = "half a minute"]
fn passive_laws_keep_a_stop_of_torsion_calm_in_any_grip_at_length() {
    keep_calm::<Orientation>(0..3, 1);
}

#[test]
fn time_domain_passivity_bounds_what_position_force_lets_grow() {
    let of = |law| press::<Vector>(law, &GRIPS[1], 3_000.0, 40, 0);
    let (bounded, grown) = (of(Law::Tdpa(Tdpa::default())), of(Law::PositionForce));
    assert!(bounded.is_calm() && grown.ripple > 2.0, "{} and {} N", bounded.ripple, grown.ripple);
}

#[test]
fn position_force_rattles_at_a_wall_from_10_ms_on() {
    fn of<P: Place>(round_trip: u64) -> bool {
        press::<P>(Law::PositionForce, &GRIPS[1], 3_000.0, round_trip, 0).is_calm()
    }
    assert!(of::<Vector>(6) && !of::<Vector>(14));
    assert!(of::<Orientation>(6) && !of::<Orientation>(14));
}

/// What a larger reserve is worth: `cargo test --release -p taut-control --test touch reserve -- --ignored --nocapture`.
#[test]
#[ignore = "a table"]
fn the_force_that_comes_back_by_reserve() {
    for millijoules in [20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0] {
        let reserve = millijoules / 1e3;
        let law = Law::Tdpa(Tdpa { reserve, ..Tdpa::default() });
        let (mut calm, mut felt, mut all, mut least, mut shares) = (0, 0, 0, 0.0f64, 0.0);
        for [round_trip, jitter] in LINES {
            for held in &GRIPS {
                for wall in WALLS {
                    let pressed = press::<Vector>(law, held, wall, round_trip, jitter);
                    all += 1;
                    calm += u32::from(pressed.is_calm());
                    let share = pressed.felt / pressed.mean;
                    felt += u32::from(share >= 0.5 && pressed.is_calm());
                    shares += share.clamp(0.0, 1.0);
                    least = least.min(pressed.least);
                }
            }
        }
        let share = 100.0 * shares / f64::from(all);
        println!("| {millijoules} mJ | {calm} of {all} | {felt} | {share:.0} % | {:.0} mJ |", -1e3 * least);
        assert!(least >= -2.0 * reserve, "{least} J");
    }
}

/// A hand in the firm grip that goes 50 mm in, over even delays, with a device of so much force.
fn limited<P: Place>(law: Law, wall: f64, round_trip: u64, limit: f64) -> Pressed {
    go::<P>(law, &GRIPS[2], Trial { wall, depth: 0.05, round_trip, jitter: 0, limit })
}

#[test]
fn hand_and_arm_are_given_no_more_than_the_reserves_by_a_device_of_little_force() {
    for law in [Law::Wave(Wave::default()), Law::Tdpa(Tdpa::default())] {
        for limit in [10.0, 5.0, 2.0] {
            for round_trip in [10, 100] {
                let Pressed { mean, felt, least, .. } = limited::<Vector>(law, 3_000.0, round_trip, limit);
                let turned = limited::<Orientation>(law, 3_000.0, round_trip, limit);
                println!(
                    "{law:?}, {round_trip} ms, {limit} N: pressed {mean:.2} N, felt {felt:.2} N, {least:.4} and {:.4} J",
                    turned.least
                );
                assert!(
                    least >= -2.0 * RESERVE && turned.least >= -2.0 * RESERVE,
                    "{law:?}, {limit} N: {least} J"
                );
                assert!(mean > 0.8 * limit && felt > 0.5 * limit, "{law:?}, {limit} N: {mean} and {felt} N");
            }
        }
    }
}

/// What a limit of the force on the hand costs: `cargo test --release -p taut-control --test touch limit_costs -- --ignored --nocapture`.
#[test]
#[ignore = "a table"]
fn what_a_limit_costs() {
    for law in [Law::Wave(Wave::default()), Law::Tdpa(Tdpa::default())] {
        for (thing, wall) in [("free", 0.0), ("foam", 150.0), ("wall", 3_000.0)] {
            for round_trip in [10, 40, 100] {
                for limit in [f64::INFINITY, 20.0, 10.0, 5.0, 2.0] {
                    let Pressed { ripple, mean, felt, least, apart } =
                        limited::<Vector>(law, wall, round_trip, limit);
                    let given = -1e3 * least;
                    println!(
                        "| {thing} | {round_trip} ms | {limit} N | {mean:.2} | {felt:.2} | {ripple:.3} | {apart:.2} | {given:.1} |"
                    );
                    assert!(
                        given <= 2e3 * RESERVE,
                        "{law:?}, {thing}, {round_trip} ms, {limit} N: {given} mJ"
                    );
                }
            }
        }
    }
}
