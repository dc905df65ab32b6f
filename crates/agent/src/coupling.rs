//! How hand and arm are coupled, as both ends are set to it.

use taut_control::{Law, Servo, Wave};
use taut_core::{Duration, HoldTarget};
use taut_session::{ControlLaw, FEEDBACK_DEADLINE, LawKind, MotionLimits};

use crate::{CoupledArm, CoupledHand, OperatorDevice, RobotDevice};
pub use settings::{Control, ControlError};

mod settings;

/// By which law hand and arm are coupled, and what it has to know; of what a user says [`Control`] makes one. Both ends are made of the same: the law, the arm's controller, and whether turns go with
/// it; how long an end holds what it hears is its own affair, and so are filter, correction and reserve.
///
/// ```
/// use taut_agent::Coupling;
/// use taut_agent::control::{Law, Servo, Tdpa};
/// let servo = Servo { stiffness: 1_000.0, damping: 60.0 };
/// let coupling = Coupling::new(Law::Tdpa(Tdpa::default()), servo);
/// let hello = coupling.told().expect("the peer has to have it as well");
/// assert!(hello.to_string().starts_with("`tdpa` with a servo of 1000 N/m and 60 N·s/m"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Coupling {
    law: Law,
    servo: Servo,
    turning: Option<Servo>,
    hold: HoldTarget,
}

impl Coupling {
    /// By this law and over this controller of the arm's position, [within its bounds](Servo::STIFFNESS).
    pub const fn new(law: Law, servo: Servo) -> Self {
        Self { law, servo, turning: None, hold: law.hold() }
    }

    /// What turns is coupled as well, over this controller of how the arm is turned. Default: orientations are handed on.
    pub const fn turning(mut self, servo: Servo) -> Self {
        self.turning = Some(servo);
        self
    }

    /// What this end hears is held so long, to be played in even time. Default: [as the law needs it](Law::hold).
    pub const fn playout(mut self, hold: HoldTarget) -> Self {
        self.hold = hold;
        self
    }

    /// The same so that one in ten comes too late, and for no longer than this.
    pub fn playout_within(self, most: Duration) -> Self {
        let (at_once, min) = (HoldTarget::Fixed(Duration::ZERO), Duration::ZERO);
        self.playout(if most.is_zero() { at_once } else { HoldTarget::Quantile { min, max: most } })
    }

    /// Of position–force that holds nothing and turns nothing there is nothing to do: the devices are coupled by themselves.
    pub fn if_needed(self) -> Option<Self> {
        let is_nothing = self.law == Law::PositionForce
            && self.turning.is_none()
            && self.hold == HoldTarget::Fixed(Duration::ZERO);
        (!is_nothing).then_some(self)
    }

    /// What the hello says of it. `None`: an end that knows no law does for a peer.
    pub fn told(&self) -> Option<ControlLaw> {
        let kind = match self.law {
            Law::PositionForce | Law::Oracle(_) => return None,
            Law::PositionPosition => LawKind::PositionPosition,
            Law::Wave(_) => LawKind::Wave,
            Law::Tdpa(_) => LawKind::Tdpa,
        };
        let of = |servo: Servo| [milli(servo.stiffness), milli(servo.damping)];
        let impedance = if let Law::Wave(Wave { impedance, .. }) = self.law { milli(impedance) } else { 0 };
        let turning_servo = self.turning.map_or([0; 2], of);
        Some(ControlLaw { kind, servo: of(self.servo), turning_servo, impedance })
    }

    /// The device in the hand, asked every `period` and pushed with so many N, and N·m, at most.
    pub fn hand<D: OperatorDevice>(&self, device: D, period: Duration, most: [f64; 2]) -> CoupledHand<D> {
        let [force, torque] = most;
        let hand = CoupledHand::new(device, self.law, self.servo, period, force);
        let hand = hand.playout(self.hold, FEEDBACK_DEADLINE);
        match self.turning {
            Some(servo) => hand.turning(self.law.of_turns(), servo, torque),
            None => hand,
        }
    }

    /// The arm, within the session's limits; what it measured counts for the watchdog's time.
    pub fn arm<D: RobotDevice>(&self, device: D, limits: MotionLimits, watchdog: Duration) -> CoupledArm<D> {
        let arm = CoupledArm::new(device, self.law, self.servo, limits, watchdog).playout(self.hold);
        match self.turning {
            Some(servo) => arm.turning(self.law.of_turns(), servo),
            None => arm,
        }
    }
}

/// Thousandths, as the hello has them.
fn milli(number: f64) -> u32 {
    (number * 1e3).round() as u32
}

#[cfg(test)]
mod tests {
    use taut_control::Tdpa;

    use super::*;

    const SERVO: Servo = Servo { stiffness: 3_000.0, damping: 45.0 };

    #[test]
    fn what_both_ends_have_to_have_alike_is_told_and_what_is_an_ends_own_is_not() {
        let tdpa = |reserve| Coupling::new(Law::Tdpa(Tdpa { reserve, ..Tdpa::default() }), SERVO);
        let own = tdpa(0.1).playout(HoldTarget::Fixed(Duration::from_millis(5)));
        assert_eq!(own.told(), tdpa(0.02).told());
        assert_ne!(tdpa(0.02).turning(SERVO.of_turns()).told(), tdpa(0.02).told());
        let wave = |impedance| Coupling::new(Law::Wave(Wave { impedance, ..Wave::default() }), SERVO);
        assert_ne!(wave(30.0).told(), wave(31.0).told());
        let position_position = Coupling::new(Law::PositionPosition, SERVO);
        assert_ne!(position_position.told(), Coupling::new(Law::PositionForce, SERVO).told());
        let softer = Coupling::new(Law::PositionPosition, Servo { stiffness: 2_999.0, ..SERVO });
        assert_ne!(position_position.told(), softer.told());
    }

    #[test]
    fn position_force_needs_nothing_unless_something_is_held_or_turns() {
        let plain = Coupling::new(Law::PositionForce, SERVO);
        assert_eq!((plain.if_needed(), plain.told()), (None, None));
        let held = plain.playout(HoldTarget::Fixed(Duration::from_millis(5)));
        for needed in [held, plain.turning(SERVO), Coupling::new(Law::PositionPosition, SERVO)] {
            assert_eq!(needed.if_needed(), Some(needed));
        }
    }
}
