//! Hosts that ask too late: is an arm in free motion still led where the hand goes?

use taut_control::{Law, Motion, OperatorEnd, RobotEnd, Servo, Surroundings, Tdpa, Wave};
use taut_core::{Duration, Rng, Seed};

const SERVO: Servo = Servo { stiffness: 3_000.0, damping: 45.0 };
/// Steps of the arm, of a twentieth of a period each: semi-implicit Euler.
const SUBSTEPS: u32 = 20;
const SECONDS: f64 = 0.001;
const MASS: f64 = 0.3;
/// Of each end by default, J.
const RESERVE: f64 = 0.02;

/// When a host asks.
#[derive(Clone, Copy, Debug)]
enum Host {
    OnTime,
    /// In one of so many periods.
    OneIn(u64),
    /// In each period by chance: one in so many, after which it is absent for up to so many.
    Absent(u64, u64),
}

/// The periods since it asked last, when it does.
struct Asking {
    host: Host,
    rng: Rng,
    since: u64,
    until: u64,
}

impl Asking {
    fn new(host: Host, name: &str) -> Self {
        Self { host, rng: Seed::new(1).stream(name), since: 0, until: 0 }
    }

    fn poll(&mut self, now: u64) -> Option<u64> {
        let asks = match self.host {
            Host::OnTime => true,
            Host::OneIn(periods) => now.is_multiple_of(periods),
            Host::Absent(seldom, longest) => {
                if now >= self.until && self.rng.below(seldom) == 0 {
                    self.until = now + 1 + self.rng.below(longest);
                }
                now >= self.until
            }
        };
        if asks {
            Some(std::mem::take(&mut self.since))
        } else {
            self.since += 1;
            None
        }
    }
}

/// Of a second in which the hand goes 500 mm, and one in which it rests.
#[derive(Debug)]
struct Led {
    /// Where the arm is at the end of the first second and of the second, mm.
    moving: f64,
    resting: f64,
    /// The most that hand and arm were given by the forces on them beyond what they had put in, mJ.
    given: f64,
    /// The most that the hand was pushed with while it went, N.
    pushed: f64,
}

fn led(law: Law, operators: Host, robots: Host) -> Led {
    let period = Duration::from_millis(1);
    let mut operator = OperatorEnd::new(law, SERVO, period).limit_force(20.0);
    let mut robot = RobotEnd::new(law, SERVO, period);
    let [mut asks_hand, mut asks_arm] = [Asking::new(operators, "hand"), Asking::new(robots, "arm")];
    let (mut position, mut velocity) = (0.0, 0.0);
    let mut reference = Motion::default();
    let (mut felt, mut inside, mut given, mut moving) = (0.0_f64, 0.0f64, 0.0f64, 0.0);
    let mut pushed = 0.0_f64;
    // Each message takes 5 periods.
    let [mut there, mut back] = [(); 2].map(|()| std::collections::VecDeque::new());
    for now in 0..2_000u64 {
        let goes = now < 1_000;
        let hand = Motion {
            position: [0.0005 * now.min(1_000) as f64, 0.0, 0.0],
            velocity: [if goes { 0.5 } else { 0.0 }, 0.0, 0.0],
        };
        if let Some(missed) = asks_hand.poll(now) {
            while let Some((_, message)) = back.pop_front_if(|(at, _)| *at <= now) {
                operator.receive(&message);
            }
            operator.missed(missed, &hand);
            let output = operator.step(&hand).expect("numbers");
            felt = output.force[0];
            there.push_back((now + 5, output.message));
        }
        if let Some(missed) = asks_arm.poll(now) {
            while let Some((at, message)) = there.pop_front_if(|(at, _)| *at <= now) {
                robot.receive(&message, period * (now + 5 - at));
            }
            let arm = Motion { position: [position, 0.0, 0.0], velocity: [velocity, 0.0, 0.0] };
            // As an agent does: a step for every period, and what was measured is the same.
            for number in 0..=missed {
                let output = robot.step(&Surroundings { arm, force: [0.0; 3] }).expect("numbers");
                reference = output.reference;
                if number == missed {
                    back.push_back((now + 5, output.message));
                }
            }
        }
        for _ in 0..SUBSTEPS {
            let seconds = SECONDS / f64::from(SUBSTEPS);
            let servo = SERVO.stiffness * (reference.position[0] - position)
                + SERVO.damping * (reference.velocity[0] - velocity);
            velocity += seconds * servo / MASS;
            position += seconds * velocity;
            inside -= servo * velocity * seconds;
        }
        inside -= felt * hand.velocity[0] * SECONDS;
        if goes {
            pushed = pushed.max(felt.abs());
        }
        given = given.max(-inside);
        if now == 999 {
            moving = 1e3 * position;
        }
    }
    Led { moving, resting: 1e3 * position, given: 1e3 * given, pushed }
}

const HOSTS: [Host; 6] = [
    Host::OnTime,
    Host::OneIn(2),
    Host::OneIn(4),
    Host::Absent(3, 3),
    Host::Absent(20, 10),
    Host::Absent(100, 50),
];

/// Every pair of an operator's host and a robot's.
fn pairs() -> impl Iterator<Item = [Host; 2]> {
    HOSTS.iter().flat_map(|hand| HOSTS.iter().map(|arm| [*hand, *arm]))
}

#[test]
fn time_domain_passivity_leads_an_arm_as_far_as_the_hand_goes_though_hosts_ask_late() {
    for [hand, arm] in pairs() {
        let led = led(Law::Tdpa(Tdpa::default()), hand, arm);
        println!("hand {hand:?}, arm {arm:?}: {led:.1?}");
        let Led { moving, resting, pushed, .. } = led;
        assert!(moving > 450.0 && (resting - 500.0).abs() < 5.0, "{hand:?}, {arm:?}: {led:?}");
        // A virtual mass that stood while nobody asked is caught up with in a jerk, of 20 N.
        assert!(pushed < 16.5, "{hand:?}, {arm:?}: {led:?}");
    }
}

#[test]
fn hand_and_arm_are_given_no_more_than_the_reserves_though_hosts_ask_late() {
    for law in [Law::Wave(Wave::default()), Law::Tdpa(Tdpa::default())] {
        for [hand, arm] in pairs() {
            let led = led(law, hand, arm);
            assert!(led.given <= 2e3 * RESERVE, "{law:?}, {hand:?}, {arm:?}: {led:?}");
        }
    }
}

/// Nobody is asked for 30 ms while a force is held along which the hand goes a metre a second: it was given far more than there was, and goes in again then at 0.1 m/s.
#[test]
fn a_hand_that_was_given_too_much_is_pushed_again_as_soon_as_it_has_put_something_in() {
    let period = Duration::from_millis(1);
    let law = Law::Tdpa(Tdpa::default());
    let mut operator = OperatorEnd::new(law, SERVO, period);
    let mut robot = RobotEnd::new(law, SERVO, period);
    let at = |x: f64, v: f64| Motion { position: [x, 0.0, 0.0], velocity: [v, 0.0, 0.0] };
    let mut step = |hand: &Motion| {
        let output = operator.step(hand).expect("numbers");
        robot.receive(&output.message, Duration::ZERO);
        let around = Surroundings { arm: at(0.0, 0.0), force: [0.0; 3] };
        let message = robot.step(&around).expect("numbers").message;
        operator.receive(&message);
        -output.force[0]
    };
    let mut x = 0.0;
    let before = (0..300)
        .map(|_| {
            x += 1e-4;
            step(&at(x, 0.1))
        })
        .last()
        .unwrap_or_default();
    x -= 0.03;
    let given = before * 0.03;
    step(&at(x, -1.0));
    let forces: Vec<f64> = (0..600)
        .map(|_| {
            x += 1e-4;
            step(&at(x, 0.1))
        })
        .collect();
    let again = forces.iter().position(|force| *force > before / 2.0);
    println!("{before:.1} N, given {given:.3} J, half as much again after {again:?} ms");
    assert!(given > 10.0 * RESERVE && again.is_some_and(|periods| periods < 400), "{before} N, {again:?}");
}
