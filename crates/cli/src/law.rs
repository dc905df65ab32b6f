//! Argument `--law`, at either end: by which control law force and motion follow from each other.

use std::ops::RangeInclusive;

use clap::Args;
use taut_agent::Coupling;
use taut_agent::control::{Law, Servo};
use taut_core::Duration;
use taut_io::device::Stoppable;
use taut_lab::robot::SimulatedRobot;
use taut_session::{Codec, ControlLaw, MotionLimits};

use crate::input::Device;

/// The law, and what it has to know.
#[derive(Args, Clone, Debug)]
pub(crate) struct LawArguments {
    /// By which control law the arm is led and the hand is pushed, the same at both ends: position_force, position_position, wave or tdpa; the last two stay calm over any delay
    #[arg(long, value_name = "LAW", default_value = "position_force", value_parser = law)]
    law: Law,
    /// The controller of the robot's position, for --law, the same at both ends: 10 to 100000 N/m, and N·s/m that bring it to rest within 1ms to 1s (damping
    /// by stiffness). By default the simulated arm's
    #[arg(long, value_name = "STIFFNESS,DAMPING", value_parser = of_positions)]
    servo: Option<Servo>,
    /// How the hand is turned leads how the arm is turned, by the same --law, and torque comes back; the same at both ends. The robot stops when hand and arm are more than a quarter turn apart
    #[arg(long)]
    turns: bool,
    /// As --servo, of how the robot is turned, with --turns: 0.1 to 1000 N·m/rad, and N·m·s/rad. By default the simulated arm's
    #[arg(long, value_name = "STIFFNESS,DAMPING", value_parser = of_turns, requires = "turns")]
    turning_servo: Option<Servo>,
    /// The longest that this end holds what its --law hears, to play it in even time; 0ms: nothing is held. By default 100ms with wave, and 0ms with every other law
    #[arg(long, value_name = "DURATION", value_parser = held)]
    playout: Option<Duration>,
}

fn law(text: &str) -> Result<Law, String> {
    if text == "oracle" {
        return Err(
            "it renders the truth about what is touched, which is known in simulation alone".to_owned()
        );
    }
    text.parse().map_err(|error: taut_agent::control::UnknownLaw| error.to_string())
}

fn held(text: &str) -> Result<Duration, String> {
    let duration = crate::quantity::duration(text)?;
    if duration <= Duration::from_secs(10) { Ok(duration) } else { Err(format!("{text} is more than 10s")) }
}

/// Argument `--servo`.
fn of_positions(text: &str) -> Result<Servo, String> {
    servo(text, Servo::STIFFNESS, ["N/m", "N·s/m", "gives way by 10 cm to 1 N", "3000,45"])
}

/// Argument `--turning-servo`.
fn of_turns(text: &str) -> Result<Servo, String> {
    let words = ["N·m/rad", "N·m·s/rad", "gives way by 10 rad to 1 N·m", "30,0.45"];
    servo(text, Servo::TURNING_STIFFNESS, words)
}

/// Within its bounds, told in these words.
fn servo(text: &str, stiffnesses: RangeInclusive<f64>, words: [&str; 4]) -> Result<Servo, String> {
    let [of_stiffness, of_damping, soft, example] = words;
    let number = |text: &str| text.trim().parse::<f64>().ok();
    let both = text.split_once(',').and_then(|(first, second)| number(first).zip(number(second)));
    let (stiffness, damping) =
        both.ok_or_else(|| format!("`{text}` is not two numbers, stiffness and damping: write {example}"))?;
    let within = |value: f64, range: RangeInclusive<f64>, what: &str, why: &str| {
        if range.contains(&value) {
            return Ok(());
        }
        let (least, most) = range.into_inner();
        Err(format!("{value} is not {least} to {most} {what}: {why}; write {example}"))
    };
    within(stiffness, stiffnesses, of_stiffness, &format!("what is softer {soft}, and no arm is stiffer"))?;
    within(
        damping,
        Servo::dampings(stiffness),
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

    /// How the devices are coupled, unless they are by themselves.
    fn coupling(&self) -> Option<Coupling> {
        let coupling = Coupling::new(self.law, self.servo.unwrap_or(SimulatedRobot::SERVO));
        let coupling = self.playout.into_iter().fold(coupling, Coupling::playout_within);
        let turning = self.turning_servo.unwrap_or(SimulatedRobot::SERVO.of_turns());
        if self.turns { coupling.turning(turning) } else { coupling }.if_needed()
    }

    /// What the peer has to have as well.
    pub(crate) fn told(&self) -> Option<ControlLaw> {
        self.coupling().and_then(|coupling| coupling.told())
    }

    /// Does what turns go with it?
    pub(crate) const fn turns(&self) -> bool {
        self.turns
    }

    /// # Errors
    /// One line: what does not go with the law.
    pub(crate) fn check(&self, codec: Codec) -> Result<(), String> {
        if self.servo.is_some() && self.coupling().is_none() {
            return Err(format!(
                "--servo does nothing here: --law {} knows no controller of the robot's position without --turns or --playout",
                self.name()
            ));
        }
        if self.turns && codec == Codec::Omni71 {
            return Err("--turns: omni71 has no place for a torque; leave out --codec".to_owned());
        }
        match (self.coupling(), codec) {
            (Some(_), Codec::Omni71) => {
                Err(format!("--law {}: omni71 has no place for what it says; leave out --codec", self.name()))
            }
            _ => Ok(()),
        }
    }

    /// Of a hand that is pushed with so many N at most.
    ///
    /// # Errors
    /// One line: the arm could have no energy from it.
    pub(crate) fn check_hand(&self, force_limit: f32) -> Result<(), String> {
        if self.law.is_passive() && force_limit < 0.001 {
            return Err(format!(
                "--force-limit {force_limit}: by --law {} the arm moves with what the hand puts in against a force: 0.001 N or more",
                self.name()
            ));
        }
        Ok(())
    }

    /// Of a robot that is not simulated here, whose controllers nobody here knows.
    ///
    /// # Errors
    /// One line: nobody said what they do.
    pub(crate) fn check_servos(&self) -> Result<(), String> {
        if self.coupling().is_some() && self.servo.is_none() {
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
        match self.coupling() {
            Some(coupling) => Box::new(coupling.arm(device, limits, watchdog)),
            None => device,
        }
    }

    /// The hand under the law, asked once a `period`, and pushed with so many N, and N·m, at most.
    pub(crate) fn hand(&self, device: Device, period: Duration, most: [f32; 2]) -> Device {
        match self.coupling() {
            Some(coupling) => Box::new(coupling.hand(device, period, most.map(f64::from))),
            None => device,
        }
    }
}
