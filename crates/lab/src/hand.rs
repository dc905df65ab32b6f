//! The simulated hand on a device: the same one in simulated sessions and at the end of real ones.
//!
//! Position goes one way and force the other: the robot's servo follows the device, and the device pushes the hand with the
//! force that the robot met (position–force control). It is transparent, and it is what a delay makes unstable first.

use taut_agent::control::Motion;
use taut_agent::{DeviceMessage, OperatorDevice, Resume, Sample};
use taut_core::{Bitrate, Duration, Probability, Rng, Seed, Time};
use taut_qos::touch::{Mass, Touch};
use taut_session::{ChannelId, Direction, Priority, State};

use crate::demo::Vector;
use crate::demo::operator::{Intention, Operator as Person};
use crate::demo::plant::Body;
use crate::generator::Generators;
use crate::hold::{self, Transition};
use crate::lever;
use crate::mechanism::{self, Amplifier, Encoder};
use crate::scenario::{DeviceSpec, Teleop};
use crate::sines::Sines;

/// An operator's hand and the device in it, which is stepped when it is asked.
///
/// ```
/// use taut_agent::OperatorDevice;
/// use taut_core::{Bitrate, Duration, Seed, Time};
/// use taut_lab::hand::SimulatedHand;
/// use taut_session::State;
/// let mut hand = SimulatedHand::new(Seed::new(1), Duration::from_millis(1));
/// hand.feel(Time::ZERO, &State { force: [0.0, 0.0, 2.0], ..State::at(Time::ZERO) });
/// let pushed = hand.sample(Time::ZERO).map(|sample| sample.state.force);
/// assert_eq!(pushed, Some([0.0, 0.0, 2.0]));
/// ```
pub struct SimulatedHand {
    intention: Intention,
    body: Body,
    /// What the device pushes the hand with, N; at most `limit`.
    force: Vector,
    limit: f64,
    /// With the device.
    grip: Mass,
    /// What becomes of it in a step: how many make a period, and how long each is, s.
    held: Held,
    amplifier: Amplifier,
    encoder: Encoder,
    /// What it read last.
    read: Body,
    /// Coulomb, N.
    friction: f64,
    /// Where it is led, and for how many periods it was.
    led: Option<Sines>,
    /// What is along x is told as a turn about it.
    turns: bool,
    passed: u64,
    /// Between two samples.
    period: Duration,
    priority: Priority,
    high: Probability,
    priorities: Rng,
    readings: u64,
    left: Option<u64>,
    generators: Generators,
}

impl SimulatedHand {
    /// What this seed's person does, asked every `period`.
    pub fn new(seed: Seed, period: Duration) -> Self {
        Self::of(Intention::new(person(seed)), seed, period, f64::INFINITY)
    }

    /// The one of a run with this seed: the same states in the same order, as long as no force comes back.
    pub fn of_run(teleop: &Teleop, seed: Seed) -> Self {
        let hand = Self::of(intention(teleop, seed), seed, teleop.period, teleop.device_force);
        let generators = Generators::new(teleop, seed, Direction::ToRobot);
        let DeviceSpec { friction, encoder, velocity_filter, lag, .. } = teleop.device;
        let grip = teleop.hand();
        let led = teleop.led.then(Sines::new);
        let body = led.map_or(hand.body, |sines| body_of(&sines, 0.0));
        let encoder = Encoder::new(encoder, velocity_filter, &body);
        let hand = Self { body, read: body, led, held: Held::new(grip, teleop.period), ..hand };
        Self {
            high: teleop.high,
            grip,
            turns: teleop.turns,
            amplifier: Amplifier::new(lag),
            encoder,
            friction,
            generators,
            ..hand
        }
    }

    fn of(intention: Intention, seed: Seed, period: Duration, limit: f64) -> Self {
        let body = Body { position: intention.begins_at(), velocity: [0.0; 3] };
        Self {
            body,
            amplifier: Amplifier::new(Duration::ZERO),
            encoder: Encoder::new(0.0, Duration::ZERO, &body),
            read: body,
            friction: 0.0,
            led: None,
            turns: false,
            passed: 0,
            intention,
            force: [0.0; 3],
            limit,
            grip: Touch::HAND,
            held: Held::new(Touch::HAND, period),
            period,
            priority: Priority::Normal,
            high: Probability::default(),
            priorities: seed.stream("teleop/priorities"),
            readings: 0,
            left: None,
            generators: Generators::default(),
        }
    }

    /// How urgent its states are, but for those that a run makes urgent at random. Default: normal.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// What it does along x it does as a turn about it, at the end of a lever of 10 cm. Default: no.
    pub fn turning(mut self) -> Self {
        self.turns = true;
        self
    }

    /// It ends after so many states. Default: never.
    pub fn ends_after(mut self, states: Option<u64>) -> Self {
        self.left = states;
        self
    }

    /// Where it is, m.
    pub fn position(&self) -> [f64; 3] {
        self.body.position
    }

    /// What the hand is pushed with: an amplifier is on its way there.
    fn pushes(&self) -> Vector {
        if self.amplifier.is_immediate() { self.force } else { self.amplifier.force() }
    }

    /// One period passes; how urgent the state after it is.
    fn pass(&mut self) -> Priority {
        self.passed += 1;
        match self.led {
            Some(sines) => self.body = body_of(&sines, self.passed as f64 * self.period.as_secs_f64()),
            None => self.move_freely(),
        }
        self.read = self.encoder.read(&self.body, self.period.as_secs_f64());
        if self.high.sample(&mut self.priorities) { Priority::High } else { self.priority }
    }

    fn move_freely(&mut self) {
        let Mass { mass, damping, stiffness } = self.grip;
        let Held { steps, seconds, transition: held } = self.held;
        for _ in 0..steps {
            let intent = self.intention.pass(seconds);
            let pushed = self.amplifier.pass(&self.force, seconds);
            let mut force: Vector = std::array::from_fn(|axis| {
                let pull = stiffness * intent.position[axis] + damping * intent.velocity[axis];
                pull + intent.tremor[axis] + pushed[axis]
            });
            let after = |body: &Body, axis: usize, force: f64| {
                held.after(body.position[axis], body.velocity[axis], force / mass)
            };
            if self.friction > 0.0 {
                let free = std::array::from_fn(|axis| after(&self.body, axis, force[axis])[1]);
                let rubs = mechanism::friction(self.friction, mass, [&held; 3], &free);
                force = std::array::from_fn(|axis| force[axis] + rubs[axis]);
            }
            for (axis, force) in force.into_iter().enumerate() {
                let [position, velocity] = after(&self.body, axis, force);
                (self.body.position[axis], self.body.velocity[axis]) = (position, velocity);
            }
        }
    }
}

/// The motion of a grip over a period.
#[derive(Clone, Copy)]
struct Held {
    steps: u64,
    /// Of each, s.
    seconds: f64,
    transition: Transition,
}

impl Held {
    fn new(Mass { mass, damping, stiffness }: Mass, period: Duration) -> Self {
        let (steps, seconds) = hold::steps(period);
        Self { steps, seconds, transition: Transition::new(stiffness / mass, damping / mass, seconds) }
    }
}

fn body_of(sines: &Sines, seconds: f64) -> Body {
    let Motion { position, velocity } = sines.at(seconds);
    Body { position, velocity }
}

/// What the person of a run with this seed means to do.
pub(crate) fn intention(teleop: &Teleop, seed: Seed) -> Intention {
    Intention::new(person(seed).habits(teleop.tremor, teleop.rest.as_secs_f64()))
}

fn person(seed: Seed) -> Person {
    Person::new(seed.stream("teleop/hand"))
}

impl OperatorDevice for SimulatedHand {
    fn sample(&mut self, now: Time) -> Option<Sample> {
        if self.left == Some(0) {
            return None;
        }
        self.left = self.left.map(|left| left - 1);
        self.readings += 1;
        let priority = self.pass();
        let single = |vector: [f64; 3]| vector.map(|part| part as f32);
        let state = State {
            priority,
            position: single(self.read.position),
            velocity: single(self.read.velocity),
            force: single(self.pushes()),
            ..State::at(now)
        };
        let Body { position, velocity } = &self.read;
        let state = if self.turns { lever::turned(state, position, velocity) } else { state };
        Some(Sample { state, reading: self.readings })
    }

    fn skip(&mut self, periods: u64) -> u64 {
        for _ in 0..periods {
            self.pass();
        }
        periods
    }

    /// The force that came back: no more than the device can make.
    fn resumed(&mut self, _: Resume) {}
    fn feel(&mut self, _: Time, state: &State) {
        let [.., force] = lever::at_lever(state);
        let size = norm(&force);
        let scale = if size > self.limit { self.limit / size } else { 1.0 };
        self.force = force.map(|part| part * scale);
    }

    fn lost(&mut self) {
        self.force = [0.0; 3];
    }

    fn receive(&mut self, _: ChannelId, _: Option<Duration>, _: &[u8]) {}

    fn limit_bitrate(&mut self, rate: Bitrate) {
        self.generators.limit(rate);
    }

    fn poll_message(&mut self, now: Time) -> Option<DeviceMessage> {
        if self.left == Some(0) { None } else { self.generators.poll(now) }
    }
}

impl std::fmt::Debug for SimulatedHand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SimulatedHand").field("position", &self.body.position).finish_non_exhaustive()
    }
}

pub(crate) fn norm(vector: &Vector) -> f64 {
    dot(vector, vector).sqrt()
}

pub(crate) fn dot(a: &Vector, b: &Vector) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn feel(hand: &mut SimulatedHand, force: [f32; 3]) {
        hand.feel(Time::ZERO, &State { force, ..State::at(Time::ZERO) });
    }

    #[test]
    fn a_device_pushes_no_harder_than_it_can_and_lets_go() {
        let mut hand = SimulatedHand { limit: 5.0, ..SimulatedHand::new(Seed::new(1), MS) };
        feel(&mut hand, [3.0, 0.0, -4.0]);
        assert!((norm(&hand.force) - 5.0).abs() < 1e-9);
        feel(&mut hand, [30.0, 0.0, -40.0]);
        assert!((norm(&hand.force) - 5.0).abs() < 1e-9 && hand.force[2] < 0.0);
        hand.lost();
        assert!(norm(&hand.force) < 1e-12);
    }

    #[test]
    fn a_hand_moves_alike_however_often_it_is_asked_and_gives_way_to_force() {
        let states = |millis: u64, force| {
            let mut hand = SimulatedHand::new(Seed::new(1), MS * millis);
            feel(&mut hand, [force, 0.0, 0.0]);
            let asked = (0..100).filter_map(|_| hand.sample(Time::ZERO));
            asked.map(|sample| sample.state.position).collect::<Vec<_>>()
        };
        let (one, two) = (states(1, 0.0), states(2, 0.0));
        assert_eq!(one[99].map(f32::to_bits), two[49].map(f32::to_bits));
        assert!(states(1, -3.0)[99][0] < one[99][0] - 1e-3);
    }

    #[test]
    fn a_hand_ends_after_its_states() {
        let mut hand = SimulatedHand::new(Seed::new(1), MS).ends_after(Some(2));
        assert!(hand.sample(Time::ZERO).is_some());
        assert!(hand.sample(Time::ZERO + MS).is_some() && hand.sample(Time::ZERO).is_none());
    }
}
