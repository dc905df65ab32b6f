//! Which messages of a channel are worth sending.

use std::time::Duration;

use taut_session::DeadbandConfig;
pub use taut_session::Quantity;

use crate::time::ours;

/// A change that nobody feels: what differs less from what was sent last is not sent.
///
/// ```
/// use std::time::Duration;
/// use taut::Deadband;
/// let force = Deadband::new().fraction(0.05).floor(0.02).silence(Duration::from_millis(50)); // 5 %, or 0.02 N
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Deadband(DeadbandConfig);

impl Default for Deadband {
    fn default() -> Self {
        Self::new()
    }
}

impl Deadband {
    /// A tenth of the magnitude, 0.001 at least, 100 ms of silence at most.
    pub const fn new() -> Self {
        Self(DeadbandConfig::new())
    }

    /// The share of the magnitude that counts as a change, from 0. Default 0.1; 0.05 to 0.15 is what hands do not feel.
    pub const fn fraction(self, fraction: f64) -> Self {
        Self(self.0.k(fraction.max(0.0)))
    }

    /// The smallest change that counts, in the quantity's unit, from 0. Default 0.001.
    pub const fn floor(self, floor: f64) -> Self {
        Self(self.0.floor(floor.max(0.0)))
    }

    /// By how much the fraction grows with each m/s of the hand, from 0, and what it never grows beyond. Default 0 and 1. Where a message does not
    /// tell the hand's speed, its own rate of change counts.
    pub const fn speed_gain(self, gain: f64, most: f64) -> Self {
        Self(self.0.speed_gain(gain.max(0.0)).k_max(most.max(0.0)))
    }

    /// After so long without one a message is sent whatever it says. Default 100 ms. Where a channel moves a robot, it has to be shorter than the
    /// robot's watchdog.
    pub fn silence(self, longest: Duration) -> Self {
        Self(self.0.keep_alive(ours(longest)))
    }
}

/// Which messages of a channel are worth sending. What is not is withheld and counted: the receiver holds the last one.
///
/// A message goes when one of its quantities leaves its deadband, when anything in it changes that is no quantity, such as an enabling input,
/// and at the end of the longest silence. Of [`Joints`](crate::Joints), [`Twist`](crate::Twist), [`Gripper`](crate::Gripper) and
/// [`State`](crate::State) it is known what they measure. Of other types with the encodings [`Raw`](crate::Encoding::Raw) and
/// [`Taut`](crate::Encoding::Taut) the bytes are read as big-endian `f32`; whatever is none, and every other encoding, goes.
///
/// ```
/// use taut::{Channel, Deadband, Quantity, Sampling};
/// let sampling = Sampling::deadband(Deadband::new()).of(Quantity::Torque, Deadband::new().floor(0.01));
/// let wrist = Channel::feedback("wrist").sampling(sampling);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sampling(taut_session::Sampling);

impl Sampling {
    /// Every message. The default.
    pub const fn every() -> Self {
        Self(taut_session::Sampling::every())
    }

    /// What leaves this deadband, of each quantity alike.
    pub const fn deadband(deadband: Deadband) -> Self {
        Self(taut_session::Sampling::deadband(deadband.0))
    }

    /// Another deadband for one of the quantities; the others have the one of [`deadband`](Self::deadband), or its defaults.
    pub const fn of(self, quantity: Quantity, deadband: Deadband) -> Self {
        Self(self.0.of(quantity, deadband.0))
    }

    pub(crate) const fn ours(self) -> taut_session::Sampling {
        self.0
    }
}
