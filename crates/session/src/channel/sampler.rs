//! Which messages are worth sending: what their numbers mean, and by how much these have to change.

use taut_core::{DropCause, Time};
use taut_media::{DeadbandConfig, Sampler};
use taut_wire::session::{Direction, Encoding};

use super::Channel;
use crate::motion::{Gripper, Joints, Motion, Schema, State, Twist};

/// What numbers of a message measure: each has a deadband of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Quantity {
    /// m, rad, or how far a gripper is closed, 0 to 1. Where its origin is nobody feels: the floor of its deadband counts alone.
    Position,
    /// m/s, rad/s.
    Velocity,
    /// N.
    Force,
    /// N·m.
    Torque,
    /// Whatever `f32` numbers are in a payload whose schema says nothing more.
    Other,
}

/// Which messages of a channel are worth sending. What is not is withheld: the receiver holds the last one, and it is no loss.
///
/// A message goes when one of its quantities leaves its deadband, when anything in it changes that is no quantity, such as an enabling input, and
/// when nothing went for the keep-alive period: where it moves a robot, that has to be shorter than the robot's watchdog.
///
/// | schema | quantities to the robot | to the operator |
/// | --- | --- | --- |
/// | `taut/State` | position, orientation, gripper; velocity | force; torque |
/// | `taut/Joints` | positions; velocities | efforts, as torque; without any, as to the robot |
/// | `taut/Twist` | linear and angular velocity | the same |
/// | `taut/Gripper` | position; effort, as force | the same |
/// | any other, encoding `taut` or `raw` | `f32` numbers, big-endian, as one vector; a payload that is none goes | the same |
/// | any other | none: all messages go | none |
///
/// ```
/// use taut_session::{Channel, DeadbandConfig, Quantity, Sampling};
/// # use taut_session::{ChannelKind, Direction, Encoding, Schema};
/// let torque = DeadbandConfig::new().floor(0.01);
/// let sampling = Sampling::deadband(DeadbandConfig::new()).of(Quantity::Torque, torque);
/// # let channel = Channel::new("hand", Direction::ToOperator, ChannelKind::Feedback, Schema::new("taut/State", Encoding::Taut));
/// let channel = channel.sampler(sampling);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sampling {
    deadbands: Option<[DeadbandConfig; 5]>,
}

impl Sampling {
    /// Every message is.
    pub const fn every() -> Self {
        Self { deadbands: None }
    }

    /// What leaves this deadband, of each quantity alike. Its fraction grows with the speed, where it is adaptive: with that of the hand,
    /// where the message tells it, or else with the signal's own.
    pub const fn deadband(deadband: DeadbandConfig) -> Self {
        Self { deadbands: Some([deadband; 5]) }
    }

    /// Another deadband for one of the quantities; every other has the one of [`deadband`](Self::deadband), or its defaults.
    pub const fn of(mut self, quantity: Quantity, deadband: DeadbandConfig) -> Self {
        let mut deadbands = match self.deadbands {
            Some(deadbands) => deadbands,
            None => [DeadbandConfig::new(); 5],
        };
        deadbands[quantity as usize] = deadband;
        self.deadbands = Some(deadbands);
        self
    }
}

/// Judges the messages of one channel.
#[derive(Debug)]
pub(super) struct Gate {
    deadbands: [DeadbandConfig; 5],
    layout: Layout,
    /// What went last, as far as it is no quantity; `None`: nothing did.
    exact: Option<Vec<u8>>,
    samplers: Vec<Sampler>,
}

#[derive(Clone, Copy, Debug)]
enum Layout {
    Motion(Schema, Direction),
    Floats,
}

/// What is in a message.
#[derive(Debug, Default)]
pub(super) struct Reading {
    exact: Vec<u8>,
    quantities: Vec<(Quantity, Vec<f64>)>,
    speed: Option<f64>,
}

impl Gate {
    /// `None`: everything goes.
    pub(super) fn new(channel: &Channel) -> Option<Self> {
        let layout = match (channel.schema.encoding, Schema::from_name(&channel.schema.name)) {
            (Encoding::Taut, Some(schema)) => Layout::Motion(schema, channel.direction),
            (Encoding::Taut | Encoding::Raw, _) => Layout::Floats,
            _ => return None,
        };
        let deadbands = channel.sampling.deadbands?;
        Some(Self { deadbands, layout, exact: None, samplers: Vec::new() })
    }

    /// Nothing has gone to this peer.
    pub(super) fn restart(&mut self) {
        self.exact = None;
    }

    /// A message did not arrive: the receiver may hold another than the one that went last. One that takes its place has a fate of its own.
    pub(super) fn lost(&mut self, cause: DropCause) {
        if cause != DropCause::Superseded {
            self.restart();
        }
    }

    /// What the message says; `None` where nobody can tell.
    pub(super) fn read(&self, payload: &[u8]) -> Option<Reading> {
        match self.layout {
            Layout::Motion(schema, direction) => {
                Motion::parse(schema, payload).ok().map(|motion| Reading::of(&motion, direction))
            }
            Layout::Floats => Reading::of_floats(payload),
        }
    }

    /// Is it worth sending?
    pub(super) fn lets_through(&self, now: Time, reading: &Reading) -> bool {
        let is_like_the_last = self.exact.as_ref() == Some(&reading.exact);
        let leaves = |(sampler, (_, values)): (&Sampler, &(Quantity, Vec<f64>))| {
            // What cannot be judged goes.
            sampler.judge(now, values, reading.speed).map_or(true, |decision| decision.is_send())
        };
        !is_like_the_last || self.samplers.iter().zip(&reading.quantities).any(leaves)
    }

    /// It was made, and goes or not.
    pub(super) fn made(&mut self, now: Time, reading: Reading, goes: bool) {
        if goes && self.exact.as_ref() != Some(&reading.exact) {
            let sampler = |(quantity, _): &(Quantity, Vec<f64>)| {
                let deadband = self.deadbands[*quantity as usize];
                let is_position = *quantity == Quantity::Position;
                Sampler::deadband(if is_position { deadband.k(0.0).k_max(0.0) } else { deadband })
            };
            self.samplers = reading.quantities.iter().map(sampler).collect();
        }
        for (sampler, (_, values)) in self.samplers.iter_mut().zip(&reading.quantities) {
            sampler.made(now, values, goes);
        }
        if goes {
            // From a number that is not finite nothing is any distance away: whatever comes next goes.
            let judges = reading.quantities.iter().all(|(_, values)| values.iter().all(|it| it.is_finite()));
            self.exact = judges.then_some(reading.exact);
        }
    }
}

impl Reading {
    fn of(motion: &Motion, direction: Direction) -> Self {
        let flags = vec![u8::from(motion.locked()), u8::from(motion.enabling())];
        let mut reading = Self { exact: flags, ..Self::default() };
        let to_robot = direction == Direction::ToRobot;
        match motion {
            Motion::State(state) => reading.state(state, to_robot),
            Motion::Joints(joints) => reading.joints(joints, to_robot),
            Motion::Twist(Twist { linear, angular, .. }) => {
                reading.add(Quantity::Velocity, linear);
                reading.add(Quantity::Velocity, angular);
            }
            Motion::Gripper(Gripper { position, max_effort, .. }) => {
                reading.add(Quantity::Position, &[*position]);
                reading.add(Quantity::Force, &[*max_effort]);
            }
        }
        reading
    }

    fn of_floats(payload: &[u8]) -> Option<Self> {
        let (numbers, rest) = payload.as_chunks::<4>();
        if numbers.is_empty() || !rest.is_empty() {
            return None;
        }
        let numbers: Vec<f32> = numbers.iter().map(|bytes| f32::from_be_bytes(*bytes)).collect();
        let mut reading = Self { exact: (payload.len() as u32).to_be_bytes().to_vec(), ..Self::default() };
        reading.add(Quantity::Other, &numbers);
        Some(reading)
    }

    fn add(&mut self, quantity: Quantity, numbers: &[f32]) {
        self.quantities.push((quantity, numbers.iter().map(|number| f64::from(*number)).collect()));
    }

    fn state(&mut self, state: &State, to_robot: bool) {
        self.exact.push(u8::from(state.turning.is_some()));
        let speed = state.velocity.iter().map(|axis| f64::from(*axis).powi(2)).sum::<f64>();
        self.speed = Some(speed.sqrt());
        if !to_robot {
            self.add(Quantity::Force, &state.force);
            return state.turning.iter().for_each(|turning| self.add(Quantity::Torque, &turning.torque));
        }
        self.add(Quantity::Position, &state.position);
        // A quaternion and its opposite are the same orientation; two of them are half as far apart as the angle between them is large.
        let sign = if state.orientation_wxyz[0] < 0.0 { -2.0 } else { 2.0 };
        self.add(Quantity::Position, &state.orientation_wxyz.map(|number| sign * number));
        self.add(Quantity::Position, &[f32::from(state.gripper) / f32::from(u16::MAX)]);
        self.add(Quantity::Velocity, &state.velocity);
        state.turning.iter().for_each(|turning| self.add(Quantity::Velocity, &turning.velocity));
    }

    fn joints(&mut self, joints: &Joints, to_robot: bool) {
        let lengths = [joints.position().len(), joints.velocity().len(), joints.effort().len()];
        self.exact.extend(lengths.map(|length| length as u8));
        if !to_robot && !joints.effort().is_empty() {
            return self.add(Quantity::Torque, joints.effort());
        }
        self.add(Quantity::Position, joints.position());
        if !joints.velocity().is_empty() {
            self.add(Quantity::Velocity, joints.velocity());
        }
    }
}

#[cfg(test)]
mod tests {
    use taut_core::Duration;

    use super::*;
    use crate::channel::{ChannelKind, Schema as Declared};
    use crate::motion::Turning;

    fn at(millis: u64) -> Time {
        Time::ZERO + Duration::from_millis(millis)
    }

    fn gate(schema: &str, direction: Direction, sampling: Sampling) -> Gate {
        let schema = Declared::new(schema, Encoding::Taut);
        Gate::new(&Channel::new("hand", direction, ChannelKind::Feedback, schema).sampler(sampling)).unwrap()
    }

    /// Is it sent?
    fn offer(gate: &mut Gate, now: Time, payload: &[u8]) -> bool {
        let reading = gate.read(payload).unwrap();
        let goes = gate.lets_through(now, &reading);
        gate.made(now, reading, goes);
        goes
    }

    fn bytes(motion: &Motion) -> Vec<u8> {
        let mut bytes = Vec::new();
        motion.emit(&mut bytes);
        bytes
    }

    fn state(position: f32, force: f32, torque: f32) -> State {
        State {
            locked: false,
            enabling: true,
            gripper: 0,
            position: [position, 0.0, 0.0],
            orientation_wxyz: [1.0, 0.0, 0.0, 0.0],
            velocity: [0.0; 3],
            force: [force, 0.0, 0.0],
            turning: Some(Turning { velocity: [0.0; 3], torque: [0.0, torque, 0.0] }),
        }
    }

    const QUIET: DeadbandConfig = DeadbandConfig::new().keep_alive(Duration::MAX);

    #[test]
    fn a_position_is_measured_by_its_change_wherever_its_origin_is() {
        for origin in [0.0, 1.0, 500.0] {
            let mut gate = gate("taut/State", Direction::ToRobot, Sampling::deadband(QUIET.floor(0.25)));
            let mut sent = |position: f32, now| {
                offer(&mut gate, at(now), &bytes(&Motion::State(state(origin + position, 0.0, 0.0))))
            };
            assert_eq!(
                [sent(0.0, 0), sent(0.125, 1), sent(0.25, 2), sent(0.375, 3), sent(0.0, 4)],
                [true, false, true, false, true]
            );
        }
    }

    #[test]
    fn force_and_torque_have_deadbands_of_their_own_and_what_moves_is_not_looked_at() {
        let sampling = Sampling::deadband(QUIET).of(Quantity::Torque, QUIET.floor(0.5));
        let mut gate = gate("taut/State", Direction::ToOperator, sampling);
        let mut sent = |position, force, torque| {
            offer(&mut gate, at(1), &bytes(&Motion::State(state(position, force, torque))))
        };
        assert!(sent(0.0, 1.0, 1.0));
        assert!(!sent(9.0, 1.05, 1.05), "5 % of each");
        assert!(sent(9.0, 1.2, 1.05), "20 % of the force");
        assert!(!sent(9.0, 1.2, 1.4), "less than the floor of torques");
        assert!(sent(9.0, 1.2, 1.6));
        assert!(!sent(9.0, 1.25, 1.6), "what went with another quantity counts as sent");
    }

    #[test]
    fn what_is_no_quantity_goes_when_it_changes() {
        let mut gate = gate("taut/State", Direction::ToRobot, Sampling::deadband(QUIET));
        let mut sent = |state| offer(&mut gate, at(1), &bytes(&Motion::State(state)));
        let held = state(0.0, 0.0, 0.0);
        assert!(sent(held) && !sent(held));
        let let_go = State { enabling: false, ..held };
        assert!(sent(let_go) && !sent(let_go) && sent(held));
        let opposite = State { orientation_wxyz: [-1.0, 0.0, 0.0, 0.0], ..held };
        assert!(!sent(opposite), "the same orientation");
        assert!(sent(State { gripper: 1_000, ..held }));
    }

    #[test]
    fn joints_and_plain_numbers_are_vectors_and_silence_ends() {
        let joints = |first: f32, effort: f32| {
            bytes(&Motion::Joints(Joints::new(&[first, 1.0]).unwrap().with_effort(&[effort, 0.0]).unwrap()))
        };
        let mut back = gate("taut/Joints", Direction::ToOperator, Sampling::deadband(QUIET));
        assert!(offer(&mut back, at(0), &joints(0.0, 1.0)) && !offer(&mut back, at(1), &joints(1.0, 1.05)));
        assert!(offer(&mut back, at(2), &joints(1.0, 1.5)));
        let alive = QUIET.keep_alive(Duration::from_millis(10));
        let mut there = gate("taut/Joints", Direction::ToRobot, Sampling::deadband(alive));
        let sent: Vec<u64> =
            (0..25).filter(|now| offer(&mut there, at(*now), &joints(1.0, *now as f32))).collect();
        assert_eq!(sent, [0, 10, 20]);

        let floats =
            |numbers: &[f32]| numbers.iter().flat_map(|number| number.to_be_bytes()).collect::<Vec<_>>();
        let mut plain = gate("floats", Direction::ToOperator, Sampling::deadband(QUIET));
        assert!(
            offer(&mut plain, at(0), &floats(&[10.0, 0.1]))
                && !offer(&mut plain, at(1), &floats(&[10.0, 0.5]))
        );
        assert!(
            offer(&mut plain, at(2), &floats(&[10.0, 1.5])) && offer(&mut plain, at(3), &floats(&[10.0]))
        );
        assert!(offer(&mut plain, at(4), &floats(&[f32::NAN])), "nobody can judge it");
        assert!(offer(&mut plain, at(5), &floats(&[1.0])) && !offer(&mut plain, at(6), &floats(&[1.01])));
        assert!(
            offer(&mut plain, at(7), &floats(&[f32::INFINITY])) && offer(&mut plain, at(8), &floats(&[1.0]))
        );
        assert!(plain.read(&[1, 2, 3]).is_none() && plain.read(&[]).is_none());
        let json = Declared::new("x", Encoding::Json);
        let json = Channel::new("x", Direction::ToRobot, ChannelKind::Telemetry, json);
        assert!(Gate::new(&json.sampler(Sampling::deadband(QUIET))).is_none(), "text is no numbers");
    }

    #[test]
    fn a_faster_hand_is_sent_less() {
        let adaptive = Sampling::deadband(QUIET.speed_gain(1.0));
        let force = |speed: f32, force| {
            Motion::State(State { velocity: [speed, 0.0, 0.0], ..state(0.0, force, 0.0) })
        };
        for (speed, goes) in [(0.0, true), (0.5, false)] {
            let mut gate = gate("taut/State", Direction::ToOperator, adaptive);
            assert!(offer(&mut gate, at(0), &bytes(&force(speed, 1.0))));
            assert_eq!(offer(&mut gate, at(1), &bytes(&force(speed, 1.3))), goes);
        }
    }
}
