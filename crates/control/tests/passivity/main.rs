//! A checker that knows no law: over both ports of the channel, energy out never exceeds energy in by more than the two reserves,
//! at no step, whatever the network does to messages and however hand and arm move.

use movers::{Mover, Way};
use network::{Line, Network, at};
use taut_control::{
    Law, Motion, OperatorEnd, Orientation, Place, Player, RobotEnd, Servo, Surroundings, Tdpa, Vector, Wave,
};
use taut_core::{Duration, HoldTarget, Rng, Seed, Time};

mod movers;
mod network;

const SERVO: Servo = Servo { stiffness: 3_000.0, damping: 45.0 };
const SECONDS: f64 = 0.001;
const RESERVE: f64 = 0.02;

fn power(force: &Vector, velocity: &Vector) -> f64 {
    force.iter().zip(velocity).map(|(force, velocity)| force * velocity).sum()
}

/// The least energy in the channel beyond its reserves, J, and what went in at all.
struct Books {
    least: f64,
    passed: f64,
}

/// What the two devices can do at most: the hand's force, N; the arm's reference, m from the middle, and m/s.
#[derive(Clone, Copy, Debug)]
struct Limits {
    force: f64,
    box_size: f64,
    speed: f64,
}

impl Limits {
    const NONE: Self = Self { force: f64::INFINITY, box_size: f64::INFINITY, speed: f64::INFINITY };
    const OF_ARM: Self = Self { force: f64::INFINITY, box_size: 0.01, speed: 0.05 };
    const TIGHT: Self = Self { force: 5.0, ..Self::OF_ARM };

    /// Each axis by itself, so that energy could be given by one that another was to take. The velocity that it says is not that with which the reference goes at the border of the
    /// box.
    fn hold<P: Place>(&self, asked: &Motion<P>) -> Motion<P> {
        let lever = P::LEVER_SQUARED.sqrt();
        let (speed, box_size) = (self.speed / lever, self.box_size / lever);
        let velocity = asked.velocity.map(|velocity| velocity.clamp(-speed, speed));
        let apart: Vector = std::array::from_fn(|axis| velocity[axis] - asked.velocity[axis]);
        let place = asked.position.after(SECONDS, &apart);
        let place = place.way_from(&P::ORIGIN).map(|part| part.clamp(-box_size, box_size));
        Motion { position: P::ORIGIN.after(1.0, &place), velocity }
    }
}

/// What is checked.
#[derive(Clone, Copy, Debug)]
struct Case {
    law: Law,
    limits: Limits,
    hold: HoldTarget,
    line: Line,
    hand: Way,
    arm: Way,
}

impl Case {
    /// Whatever moves by chance, over the bad line, as it comes.
    const fn of(law: Law) -> Self {
        let (limits, hold, line) = (Limits::NONE, HOLDS[0], Line::Bad);
        Self { law, limits, hold, line, hand: Way::Wanders, arm: Way::Wanders }
    }

    /// What a hand may be given beyond the two reserves R, J. With S stored, O owed, the period T and the fastest hand v a force F is held while something is owed only if F v T ≤ S + R − O,
    /// so that O − S ≤ R afterwards; while nothing is, spring and damper to a mass at rest make F v T − S ≤ d v² T + ½ k (v T)². Nothing but a hand that turns back in every period
    /// comes near the larger of the two.
    fn beyond(&self) -> f64 {
        const STIFFNESS: f64 = 4_000.0;
        const DAMPING: f64 = 20.0;
        const WAY: f64 = 1e-3;
        let sampled = DAMPING * 1.0 * WAY + STIFFNESS * WAY * WAY / 2.0;
        if self.hand == Way::Trembles { sampled.max(RESERVE) } else { 0.0 }
    }
}

fn run<P: Place>(case: Case, steps: u64, seed: u64) -> Books {
    let Case { law, limits, hold, line, .. } = case;
    let seed = Seed::new(seed);
    let period = Duration::from_millis(1);
    let servo = if P::LEVER_SQUARED < 1.0 { SERVO.of_turns() } else { SERVO };
    let limit = limits.force * P::LEVER_SQUARED.sqrt();
    let mut operator = OperatorEnd::<P>::new(law, servo, period).limit_force(limit);
    let mut robot = RobotEnd::new(law, servo, period);
    let [mut there, mut back] = ["there", "back"].map(|name| Network::new(seed.stream(name), line));
    let [mut hand, mut arm] =
        [("hand", case.hand), ("arm", case.arm)].map(|(name, way)| Mover::new(seed.stream(name), way));
    let mut on_arm = [0.0; 3];
    let mut reference: Option<P> = None;
    let [mut rng, mut ages] = ["clocks", "ages"].map(|name| seed.stream(name));
    let account = Account::new(law);
    let mut books = Books { least: f64::INFINITY, passed: 0.0 };
    let mut inside = 2.0 * RESERVE;
    let mut to_hand = Player::new(hold, period);
    let mut to_arm = Player::new(hold, period);
    // Until when nobody asks the hand, what it was pushed with, and where it was then.
    let (mut absent, mut held) = (0, None);
    let mut robot_time = 0;
    for now in 0..steps {
        for (made, message) in back.arrived(now) {
            if operator.tell(&message) {
                to_hand.receive(at(now), made, Time::MAX, message);
            }
        }
        if rng.below(5_000) == 0 {
            operator.lost();
            held = None;
        }
        // As a session does: nothing from before comes later.
        if rng.below(5_000) == 0 {
            operator.begin_again();
            back.clear();
            to_hand.clear();
            held = None;
            inside += RESERVE;
        }
        let motion = hand.next(&held.map_or([0.0; 3], |held: Gap<P>| held.force));
        let gap: Option<Gap<P>> = held.map(|held: Gap<P>| Gap { periods: held.periods + 1, ..held });
        // The operator's host is late, for up to 20 periods and as long as the force that is held gives no more than was left: nothing can hinder it.
        let is_late = now < absent && gap.is_some_and(|gap| gap.taken(&motion, account) > -gap.left);
        if is_late {
            held = gap;
        } else {
            if let Some(gap) = gap {
                operator.missed(gap.periods - 1, &motion);
                let taken = gap.taken(&motion, account);
                inside += taken;
                books.passed += taken.max(0.0);
            }
            to_hand.play(at(now)).iter().for_each(|message| operator.receive(message));
            let output = operator.step(&motion).expect("numbers");
            there.send(now, output.message);
            let taken = match account {
                Account::HandByVelocity => -power(&output.force, &motion.velocity) * SECONDS,
                Account::HandByWay => 0.0, // Known when the force has been held.
            };
            inside += taken;
            books.passed += taken.max(0.0);
            if rng.below(100) == 0 {
                absent = now + 1 + rng.below(20);
            }
            let Motion { position, .. } = motion;
            held = Some(Gap { periods: 0, force: output.force, hand: position, left: output.reserve });
        }
        books.least = books.least.min(inside);
        for (made, message) in there.arrived(now) {
            if robot.tell(&message) {
                to_arm.receive(at(robot_time), made, Time::MAX, (made, message));
            }
        }
        if rng.below(5_000) == 0 {
            robot.begin_again();
            reference = None;
            there.clear();
            to_arm.clear();
            inside += RESERVE;
        }
        // The robot's clock is a hundredth fast, and now and then slow by as much.
        let ticks = match rng.below(100) {
            0 => 2,
            1 if now / 10_000 % 2 == 0 => 0,
            _ => 1,
        };
        for _ in 0..ticks {
            if let Some((made, message)) = to_arm.play(at(robot_time)) {
                robot.receive(&message, told_age(now, made, &mut ages));
            }
            robot_time += 1;
            let around = Surroundings { arm: arm.next(&on_arm), force: [0.0; 3] };
            let output = robot.step_within(&around, |asked| Some(limits.hold(&asked))).expect("numbers");
            back.send(now, output.message);
            let from = reference.unwrap_or(around.arm.position);
            inside -= power(&output.servo_force, &output.reference.position.way_from(&from));
            on_arm = output.servo_force;
            reference = robot.leads().then_some(output.reference.position);
            books.least = books.least.min(inside);
        }
    }
    books
}

/// How old what was made then is said to be: as old as it is, made this instant, or up to a second. That is what clocks say, which energy is not to depend on.
fn told_age(now: u64, made: Time, ages: &mut Rng) -> Duration {
    match now / 10_000 % 3 {
        0 => at(now).saturating_since(made),
        1 => Duration::ZERO,
        _ => Duration::from_millis(ages.below(1_000)),
    }
}

/// Where it is counted what was put in at the operator's end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Account {
    /// What pushed the hand, times how fast that was measured to go.
    HandByVelocity,
    /// What pushed the hand, times the way that it went meanwhile.
    HandByWay,
}

impl Account {
    const fn new(law: Law) -> Self {
        match law {
            Law::Tdpa(_) => Self::HandByWay,
            _ => Self::HandByVelocity,
        }
    }
}

/// Since the hand was asked, so many periods ago.
#[derive(Clone, Copy)]
struct Gap<P> {
    periods: u64,
    force: Vector,
    hand: P,
    /// To the operator's end, J.
    left: f64,
}

impl<P: Place> Gap<P> {
    /// What the hand put in since then, J; but by its way without the first period, which was counted when the force was told.
    fn taken(&self, now: &Motion<P>, account: Account) -> f64 {
        let moved = now.position.way_from(&self.hand);
        let periods = self.periods - u64::from(account != Account::HandByWay);
        -power(&self.force, &moved) * periods as f64 / self.periods as f64
    }
}

/// As it comes; and held until nearly all came, or for longer than anything takes.
const HOLDS: [HoldTarget; 3] = [
    HoldTarget::Fixed(Duration::ZERO),
    HoldTarget::Quantile { min: Duration::ZERO, max: Duration::from_millis(100) },
    HoldTarget::Fixed(Duration::from_millis(80)),
];

fn passive() -> [Law; 4] {
    let wave = Wave { reserve: RESERVE, ..Wave::default() };
    let tdpa = Tdpa { reserve: RESERVE, ..Tdpa::default() };
    [
        Law::Wave(wave),
        Law::Wave(Wave { filter: Duration::from_millis(5), impedance: 45.0, ..wave }),
        Law::Tdpa(tdpa),
        Law::Tdpa(Tdpa { correction: Duration::from_millis(20), ..tdpa }),
    ]
}

#[expect(clippy::print_stdout, reason = "the figures are what it is run for")]
fn check<P: Place>(laws: std::ops::Range<usize>, steps: u64) {
    for number in laws {
        let law = passive()[number];
        let law = if P::LEVER_SQUARED < 1.0 { law.of_turns() } else { law };
        for (limits, hold) in [Limits::NONE, Limits::OF_ARM, Limits::TIGHT]
            .iter()
            .flat_map(|limits| HOLDS.map(|hold| (*limits, hold)))
        {
            let case = Case { limits, hold, ..Case::of(law) };
            let Books { least, passed } = run::<P>(case, steps, number as u64);
            println!(
                "{law:?}, {limits:?}, {hold:?}: {steps} steps, {passed:.1} J in, least {least:.3e} J beyond the reserves"
            );
            assert!(least >= -1e-9 * passed.max(1.0), "{law:?}, {hold:?}: {least} J of {passed} J");
            assert!(passed > 1e-6 * steps as f64, "{law:?}: the check saw nothing but {passed} J");
        }
    }
}

#[test]
fn a_channel_gives_no_more_than_it_took_and_its_reserves() {
    check::<Vector>(0..4, 40_000);
}

#[test]
fn a_channel_of_turns_gives_no_more_than_it_took_and_its_reserves() {
    check::<Orientation>(0..4, 40_000);
}

#[test]
#[ignore = "minutes"]
fn a_channel_of_waves_gives_no_more_than_it_took_at_length() {
    check::<Vector>(0..2, 1_000_000);
}

#[test]
#[ignore = "minutes"]
fn a_channel_of_turns_gives_no_more_than_it_took_at_length() {
    check::<Orientation>(0..4, 1_000_000);
}

#[test]
#[ignore = "minutes"]
fn a_channel_of_time_domain_passivity_gives_no_more_than_it_took_at_length() {
    check::<Vector>(2..4, 1_000_000);
}

#[test]
#[ignore = "minutes"]
fn a_channel_of_waves_gives_no_more_than_it_took_in_ten_million_steps() {
    check::<Vector>(0..2, 10_000_000);
    check::<Orientation>(0..2, 10_000_000);
}

#[test]
#[ignore = "minutes"]
fn a_channel_of_time_domain_passivity_gives_no_more_than_it_took_in_ten_million_steps() {
    check::<Vector>(2..4, 10_000_000);
    check::<Orientation>(2..4, 10_000_000);
}

#[test]
fn the_check_finds_a_law_that_is_not_passive() {
    let case = Case::of(Law::PositionPosition);
    assert!(run::<Vector>(case, 10_000, 1).least < 0.0 && run::<Orientation>(case, 10_000, 1).least < 0.0);
}

/// Every hand against every arm, with so many limits of the hand's force, over each line and each hold, with and without limits of the arm: of every `every` cases one.
#[expect(clippy::print_stdout, reason = "the figures are what it is run for")]
fn adversaries<P: Place>(law: Law, every: usize, steps: u64, seeds: u64) {
    let mut number = 0;
    for hand in Way::ALL {
        for force in [f64::INFINITY, 20.0, 10.0, 5.0, 1.0] {
            let (mut worst, mut of) = (f64::INFINITY, None);
            for arm in Way::ALL {
                for (limits, hold, line) in surroundings(force) {
                    number += 1;
                    if number % every > 0 {
                        continue;
                    }
                    let case = Case { law, limits, hold, line, hand, arm };
                    for seed in 0..seeds {
                        let least = run::<P>(case, steps, seed).least;
                        // A nanojoule a period is never too much to hold.
                        let rounding = 1e-9 * steps as f64;
                        assert!(least >= -case.beyond() - rounding, "{case:?}, seed {seed}: {least} J");
                        if least < worst {
                            (worst, of) = (least, Some((arm, limits.speed, hold, line, seed)));
                        }
                    }
                }
            }
            println!("{hand:?}, {force} N: least {worst:.4} J beyond the reserves, {of:?}");
        }
    }
}

fn surroundings(force: f64) -> impl Iterator<Item = (Limits, HoldTarget, Line)> {
    [Limits::NONE, Limits::OF_ARM].into_iter().flat_map(move |limits| {
        HOLDS.into_iter().flat_map(move |hold| {
            [Line::Bad, Line::Even(2), Line::Even(100)].map(|line| (Limits { force, ..limits }, hold, line))
        })
    })
}

#[test]
fn no_hand_is_given_more_than_the_reserves_whatever_limits_its_force() {
    for law in &passive()[2..] {
        adversaries::<Vector>(*law, 23, 2_000, 1);
        adversaries::<Orientation>(law.of_turns(), 47, 2_000, 1);
    }
}

#[test]
#[ignore = "minutes"]
fn no_hand_is_given_more_than_the_reserves_at_length() {
    for law in &passive()[2..] {
        adversaries::<Vector>(*law, 1, 4_000, 3);
        adversaries::<Orientation>(law.of_turns(), 1, 4_000, 1);
    }
}

#[test]
#[ignore = "minutes"]
fn none_of_a_hundred_seeds_is_given_more_than_the_reserves() {
    for law in &passive()[2..] {
        for (limits, hold, line) in surroundings(f64::INFINITY).chain(surroundings(5.0)) {
            let case = Case { limits, hold, line, ..Case::of(*law) };
            let least =
                (0..100).map(|seed| run::<Vector>(case, 4_000, seed).least).fold(f64::INFINITY, f64::min);
            println!("{limits:?}, {hold:?}, {line:?}: least {least:.4} J beyond the reserves");
            assert!(least >= 0.0, "{case:?}: {least} J");
        }
    }
}
