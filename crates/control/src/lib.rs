//! Control laws that couple an operator's hand and a robot's arm over a delay.
//!
//! Each law has two ends, without input or output of their own. Once a period an end is told what was measured beside it, and
//! says what its device is to do and what is to be sent; whatever came from the other end it is told when it comes.
//!
//! | law | the hand feels | passive over any delay |
//! | --- | --- | --- |
//! | [`Law::PositionForce`] | what the arm met | no: it rattles |
//! | [`Law::PositionPosition`] | a spring and a damper to where the arm was | no |
//! | [`Law::Wave`] | the arm's controller through a transmission line | yes |
//! | [`Law::Tdpa`] | the arm's controller, damped when energy runs out | yes |
//! | [`Law::Oracle`] | a true model of arm and surface, beside the hand | no channel stands between: a bound |
//!
//! Passive is not yet calm: what no law can give more of than the reserves may go to and fro between hand and arm. Both passive laws
//! come to rest over every delay that was tried. Calm is not yet felt: where a delay let the hand go too far, time-domain passivity has
//! nothing left to push it back with, and it is pushed with less than the arm met.
//!
//! Between the two ends of a passive law stands a *channel*: a network of which nothing is known. Its two ports take and give
//! power: force on the hand times velocity of the hand, and force of the arm's controller times velocity of its reference. A
//! [`Message`] tells how much energy its end has put into the channel so far. That only grows, so the largest figure heard is the
//! newest, and each end gives no more than that and its own reserve. Messages that are lost, late, repeated or out of order make
//! an end give less, never more: over both ports and all time, energy out exceeds energy in by no more than the two reserves.
//!
//! A force is held for a period, and nobody knows beforehand how the hand goes in it. By [`Law::Tdpa`] what that makes is owed, paid before the robot is told of anything, and no more
//! than one reserve beyond what is stored, as long as the hand goes no faster than 1 m/s and is asked in every period. Nothing but a hand that turns back in every one comes near that.
//!
//! SI units: m, m/s, N, J, each vector x, y, z.
//!
//! What is turned as well has two ends more, of [`Orientation`]s: the same laws, of which m, m/s and N are rad, rad/s and N·m about x, y, z, and every impedance,
//! stiffness and mass is one about an axis ([`Law::of_turns`], [`Servo::of_turns`]). The two ports have each their own impedances and their own books of energy. Each is
//! passive, and so are both: what is asked for is more than one account of all axes together would need (Hannaford, Ryu, *Time-domain passivity control of haptic
//! interfaces*, IEEE Trans. Robotics and Automation 18(1), 2002, observe one port's sum over axes; Ryu, Artigas, Preusche 2010 have one axis). With one account what the hand
//! pushed could turn the arm, and what is rubbed off at one port would be missed at the other, by the ratio of newtons to newton metres that nobody chose.
//!
//! ```
//! use taut_control::{Law, Motion, OperatorEnd, RobotEnd, Servo, Surroundings, Tdpa};
//! use taut_core::Duration;
//! let (law, period) = (Law::Tdpa(Tdpa::default()), Duration::from_millis(1));
//! let servo = Servo { stiffness: 3_000.0, damping: 45.0 };
//! let mut operator = OperatorEnd::new(law, servo, period);
//! let mut robot = RobotEnd::new(law, servo, period);
//! let hand = Motion { position: [0.001, 0.0, 0.0], velocity: [0.1, 0.0, 0.0] };
//! robot.receive(&operator.step(&hand).expect("numbers").message, Duration::from_millis(20));
//! let moved = robot.step(&Surroundings::default()).expect("numbers");
//! assert!(moved.reference.velocity[0] > 0.0);
//! ```

mod buffer;
mod drift;
mod model;
mod named;
mod operator;
mod place;
mod player;
mod reserve;
mod robot;
mod vector;
mod wave;
mod worth;

pub use named::UnknownLaw;
pub use operator::{OperatorEnd, OperatorOutput, Port};
pub use place::{Orientation, Place};
pub use player::{Player, PlayerCounts};
pub use robot::{RobotEnd, RobotOutput, Surroundings};
use taut_core::Duration;
pub use vector::Vector;
pub use worth::{Quantity, Worth, lasts};

/// By which rule force and motion of the two ends follow from each other.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Law {
    /// The arm follows the hand, and the hand is pushed with the force that the arm met.
    #[default]
    PositionForce,
    /// The arm follows the hand, and the hand follows the arm, each by a spring and a damper as the arm's [`Servo`].
    PositionPosition,
    /// Wave variables: Niemeyer, Slotine, *Stable Adaptive Teleoperation*, IEEE J. Oceanic Engineering 16(1), 1991. A thing of
    /// stiffness k is felt over a round trip T as k / (1 + kT/(2b)).
    Wave(Wave),
    /// Time-domain passivity: Ryu, Artigas, Preusche, *A passive bilateral control scheme for a teleoperator with time-varying
    /// communication delay*, Mechatronics 20(7), 2010. Between the channel and the hand stands a virtual mass of 20 g on a spring of
    /// 4 kN/m and a damper of 20 N·s/m (section 5).
    Tdpa(Tdpa),
    /// The arm follows the hand, and the hand is pushed with what a true model of the arm and of what it touches meets *beside the hand*:
    /// no network can do better, and no robot knows the truth. A bound for others, in simulation.
    Oracle(Oracle),
}

impl Law {
    /// Does its channel never give more energy than it took, and its reserves?
    pub const fn is_passive(&self) -> bool {
        matches!(self, Self::Wave(_) | Self::Tdpa(_))
    }

    /// What it is about an axis at the end of the [lever](Place::LEVER_SQUARED) of turns; the surface of [`Law::Oracle`] pushes back what is turned about x by more than 0.
    pub fn of_turns(self) -> Self {
        let at_lever = |number: f64| number * Orientation::LEVER_SQUARED;
        match self {
            Self::PositionForce | Self::PositionPosition | Self::Tdpa(_) => self,
            Self::Wave(wave) => Self::Wave(Wave { impedance: at_lever(wave.impedance), ..wave }),
            Self::Oracle(Oracle { stiffness, damping, mass }) => Self::Oracle(Oracle {
                stiffness: at_lever(stiffness),
                damping: at_lever(damping),
                mass: at_lever(mass),
            }),
        }
    }

    /// Joules that each end may give beyond what it was told of.
    const fn reserve(&self) -> f64 {
        match self {
            Self::Wave(Wave { reserve, .. }) | Self::Tdpa(Tdpa { reserve, .. }) => *reserve,
            Self::PositionForce | Self::PositionPosition | Self::Oracle(_) => 0.0,
        }
    }
}

/// Of wave variables.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "schema", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
#[cfg_attr(feature = "schema", serde(default, deny_unknown_fields))]
pub struct Wave {
    /// Of the line, N s/m: small makes free motion light, large makes what is touched stiff. 0.1 to 1000. Matched to the servo's damping, the
    /// arm's end reflects nothing of what arrives.
    pub impedance: f64,
    /// Time constant of a low-pass on what arrives. 0 to 1s.
    pub filter: Duration,
    /// Time constant by which the arm makes up for its drift, which lost messages leave. 1ms to 1min.
    pub correction: Duration,
    /// What each end may give beyond what it was told of, J: what a wait for a late message costs. 0 to 10.
    pub reserve: f64,
}

impl Default for Wave {
    fn default() -> Self {
        Self {
            impedance: 30.0,
            filter: Duration::ZERO,
            correction: Duration::from_millis(200),
            reserve: 0.02,
        }
    }
}

/// Of time-domain passivity.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "schema", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
#[cfg_attr(feature = "schema", serde(default, deny_unknown_fields))]
pub struct Tdpa {
    /// What each end may give beyond what it was told of, J. 0 to 10; with 0 nothing ever moves: the hand meets no force, so that no
    /// energy goes in. ½ m v² of the arm sets it in motion.
    pub reserve: f64,
    /// Time constant by which the arm makes up for its drift. 1ms to 1min.
    pub correction: Duration,
}

impl Default for Tdpa {
    fn default() -> Self {
        Self { reserve: 0.02, correction: Duration::from_millis(200) }
    }
}

/// Of [`Law::Oracle`]: a surface that fills x > 0 and pushes back as a spring and a damper that never pulls, without friction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Oracle {
    /// Of the surface, N/m. Default: 3000.
    pub stiffness: f64,
    /// Of the surface, N·s/m. Default: 10.
    pub damping: f64,
    /// Of the arm, kg, above 0. Default: 0.3.
    pub mass: f64,
}

impl Default for Oracle {
    fn default() -> Self {
        Self { stiffness: 3_000.0, damping: 10.0, mass: 0.3 }
    }
}

/// The controller of the arm: a spring and a damper from the arm to its reference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Servo {
    /// N/m, above 0.
    pub stiffness: f64,
    /// N·s/m, above 0.
    pub damping: f64,
}

impl Servo {
    /// What it is about an axis at the end of the [lever](Place::LEVER_SQUARED) of turns: N·m/rad and N·m·s/rad.
    pub fn of_turns(self) -> Self {
        let Self { stiffness, damping } = self;
        Self {
            stiffness: stiffness * Orientation::LEVER_SQUARED,
            damping: damping * Orientation::LEVER_SQUARED,
        }
    }
}

/// Where something is and how fast it moves there.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Motion<P = Vector> {
    /// m; or how it is turned.
    pub position: P,
    /// m/s.
    pub velocity: Vector,
}

/// What one end tells the other.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Message<P = Vector> {
    /// From the operator: of the hand. From the robot: of the arm.
    pub position: P,
    /// From the operator: of the hand. From the robot: of the arm, or of its reference where the law is [passive](Law::is_passive).
    pub velocity: Vector,
    /// From the operator: on the hand. From the robot: what it asks to be on the hand.
    pub force: Vector,
    /// What this end has put into the channel so far, J; it never falls. 0 where the law is not [passive](Law::is_passive).
    pub energy: f64,
}

impl<P: Place> Message<P> {
    /// Is every number finite?
    pub fn is_finite(&self) -> bool {
        let numbers = self.velocity.iter().chain(&self.force).chain([&self.energy]);
        self.position.is_place() && numbers.copied().all(f64::is_finite)
    }
}
