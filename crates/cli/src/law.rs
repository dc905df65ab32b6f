//! Argument `--law`, at either end: by which control law force and motion follow from each other.

use clap::Args;
use taut_agent::control::{Law, Orientation, Place, Servo};
use taut_agent::{CoupledArm, CoupledHand};
use taut_core::{Duration, HoldTarget};
use taut_io::device::Stoppable;
use taut_lab::robot::SimulatedRobot;
use taut_lab::scenario::{Environment, LawSpec};
use taut_session::{Codec, FEEDBACK_DEADLINE, MotionLimits};

use crate::input::Device;

/// The law, and what it has to know.
#[derive(Args, Clone, Debug)]
pub(crate) struct LawArguments {
    /// By which control law the arm is led and the hand is pushed, the same at both ends: position_force, position_position, wave or tdpa; the last two stay calm over any delay
    #[arg(long, value_name = "LAW", default_value = "position_force")]
    law: LawSpec,
    /// The controller of the robot's position, for --law, the same at both ends: 10 to 100000 N/m, and N·s/m that bring it to rest within 1ms to 1s (damping
    /// by stiffness). By default the simulated arm's
    #[arg(long, value_name = "STIFFNESS,DAMPING", value_parser = of_positions)]
    servo: Option<Servo>,
    /// The most with which --law pushes the hand, N
    #[arg(long, value_name = "NEWTONS", default_value_t = 5.0)]
    hand_force: f64,
    /// How the hand is turned leads how the arm is turned, by the same --law, and torque comes back; the same at both ends. The robot stops when hand and arm are more than a quarter turn apart
    #[arg(long)]
    turns: bool,
    /// As --servo, of how the robot is turned, with --turns: 0.1 to 1000 N·m/rad, and N·m·s/rad. By default the simulated arm's
    #[arg(long, value_name = "STIFFNESS,DAMPING", value_parser = of_turns, requires = "turns")]
    turning_servo: Option<Servo>,
    /// The most with which the hand is twisted, N·m, with --turns
    #[arg(long, value_name = "N·M", default_value_t = 0.5, requires = "turns")]
    hand_torque: f32,
    /// The longest that this end holds what its --law hears, to play it in even time; 0ms: nothing is held. By default 100ms with wave, and 0ms with every other law
    #[arg(long, value_name = "DURATION", value_parser = held)]
    playout: Option<Duration>,
}

fn held(text: &str) -> Result<Duration, String> {
    let duration: Duration =
        text.parse().map_err(|error: taut_core::ParseQuantityError| error.to_string())?;
    if duration <= Duration::from_secs(10) { Ok(duration) } else { Err(format!("{text} is more than 10s")) }
}

/// N/m. What is softer gives way by 10 cm to 1 N, and no arm is stiffer.
const STIFFNESS: [f64; 2] = [10.0, 100_000.0];
/// Damping by stiffness, s: the time constant with which what has no mass comes to rest. A law, asked once a millisecond, sees nothing shorter, and what takes longer
/// holds no place.
const REST_S: [f64; 2] = [0.001, 1.0];

/// Argument `--servo`.
fn of_positions(text: &str) -> Result<Servo, String> {
    servo(text, 1.0, ["N/m", "N·s/m", "gives way by 10 cm to 1 N", "3000,45"])
}

/// Argument `--turning-servo`.
fn of_turns(text: &str) -> Result<Servo, String> {
    let words = ["N·m/rad", "N·m·s/rad", "gives way by 10 rad to 1 N·m", "30,0.45"];
    servo(text, Orientation::LEVER_SQUARED, words)
}

/// Within the bounds of positions times `scale`, told in these words.
fn servo(text: &str, scale: f64, words: [&str; 4]) -> Result<Servo, String> {
    let [of_stiffness, of_damping, soft, example] = words;
    let number = |text: &str| text.trim().parse::<f64>().ok();
    let both = text.split_once(',').and_then(|(first, second)| number(first).zip(number(second)));
    let (stiffness, damping) =
        both.ok_or_else(|| format!("`{text}` is not two numbers, stiffness and damping: write {example}"))?;
    let within = |value: f64, [least, most]: [f64; 2], what: &str, why: &str| {
        if (least..=most).contains(&value) {
            return Ok(());
        }
        Err(format!("{value} is not {least} to {most} {what}: {why}; write {example}"))
    };
    within(
        stiffness,
        STIFFNESS.map(|bound| bound * scale),
        of_stiffness,
        &format!("what is softer {soft}, and no arm is stiffer"),
    )?;
    within(
        damping,
        REST_S.map(|bound| bound * stiffness),
        of_damping,
        "with this stiffness it is to come to rest within 1ms to 1s (damping by stiffness)",
    )?;
    Ok(Servo { stiffness, damping })
}

impl LawArguments {
    /// For messages and records.
    pub(crate) const fn name(&self) -> &'static str {
        self.law.name()
    }

    /// Of a robot nobody knows what it touches.
    fn law(&self) -> Option<Law> {
        // The devices themselves hold nothing, and stop for no turn.
        let held = self.playout.is_some_and(|most| !most.is_zero()) || self.turns;
        self.law.law(&Environment::Free).or(held.then_some(Law::PositionForce))
    }

    fn hold(&self) -> HoldTarget {
        let most = |max| HoldTarget::Quantile { min: Duration::ZERO, max };
        self.playout.map_or_else(|| self.law.hold(), most)
    }

    fn servo(&self) -> Servo {
        self.servo.unwrap_or(SimulatedRobot::SERVO)
    }

    /// Of what turns.
    fn turning_servo(&self) -> Servo {
        self.turning_servo.unwrap_or(SimulatedRobot::SERVO.of_turns())
    }

    /// Does what turns go with it?
    pub(crate) const fn turns(&self) -> bool {
        self.turns
    }

    /// The most torque on the hand, N·m.
    pub(crate) const fn hand_torque(&self) -> f32 {
        self.hand_torque
    }

    /// # Errors
    /// One line: what does not go with the law.
    pub(crate) fn check(&self, codec: Codec) -> Result<(), String> {
        if !(0.001..=1_000.0).contains(&self.hand_force) {
            return Err(format!("--hand-force {} is not 0.001 to 1000 N", self.hand_force));
        }
        if !(0.0001..=100.0).contains(&self.hand_torque) {
            return Err(format!("--hand-torque {} is not 0.0001 to 100 N·m", self.hand_torque));
        }
        if self.turns && codec == Codec::Omni71 {
            return Err("--turns: omni71 has no place for a torque; leave out --codec".to_owned());
        }
        if self.law == LawSpec::Oracle {
            return Err(
                "--law oracle renders the truth about what is touched, which is known in simulation alone"
                    .to_owned(),
            );
        }
        match (self.law(), codec) {
            (Some(_), Codec::Omni71) => {
                Err(format!("--law {}: omni71 has no place for what it says; leave out --codec", self.name()))
            }
            _ => Ok(()),
        }
    }

    /// Of a robot that is not simulated here, whose controllers nobody here knows.
    ///
    /// # Errors
    /// One line: nobody said what they do.
    pub(crate) fn check_servos(&self) -> Result<(), String> {
        if self.law().is_some() && self.servo.is_none() {
            return Err(format!(
                "--law {} leads a robot by the controller of its position: say what that does, --servo STIFFNESS,DAMPING in N/m and N·s/m, \
                 at both ends",
                self.name()
            ));
        }
        if self.turns && self.turning_servo.is_none() {
            return Err(
                "--turns leads how a robot is turned by a controller of its own: say what that does, --turning-servo STIFFNESS,DAMPING in N·m/rad and \
                 N·m·s/rad, at both ends"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// The arm under the law, within the session's limits.
    pub(crate) fn arm(
        &self,
        device: Box<dyn Stoppable + Send>,
        limits: MotionLimits,
        watchdog: Duration,
    ) -> Box<dyn Stoppable + Send> {
        let Some(law) = self.law() else { return device };
        let arm = CoupledArm::new(device, law, self.servo(), limits, watchdog).playout(self.hold());
        if self.turns { Box::new(arm.turning(law.of_turns(), self.turning_servo())) } else { Box::new(arm) }
    }

    /// The hand under the law, asked once a `period`.
    pub(crate) fn hand(&self, device: Device, period: Duration) -> Device {
        match self.law() {
            Some(law) => {
                let hand = CoupledHand::new(device, law, self.servo(), period, self.hand_force);
                let hand = hand.playout(self.hold(), FEEDBACK_DEADLINE);
                if self.turns {
                    let limit = f64::from(self.hand_torque);
                    Box::new(hand.turning(law.of_turns(), self.turning_servo(), limit))
                } else {
                    Box::new(hand)
                }
            }
            None => device,
        }
    }
}
