//! The user's devices as the session's, coupled by a control law or by themselves.

use taut_agent::{Control, Coupling};
use taut_core::Duration;
use taut_session::MotionLimits;

use crate::body::Plant;
use crate::error::Error;
use crate::operator::Hand;

/// What moves.
#[cfg(feature = "sockets")]
pub(crate) type Led = Box<dyn taut_io::device::Stoppable + Send>;
#[cfg(not(feature = "sockets"))]
pub(crate) type Led = Box<dyn taut_agent::RobotDevice + Send>;

/// What is in a hand.
pub(crate) type Felt = Box<dyn taut_agent::OperatorDevice + Send>;

/// The law of an end with a device that it is about.
///
/// # Errors
/// When it cannot be, or there is no such device.
pub(crate) fn coupling(
    control: Option<&Control>,
    turns: bool,
    has_device: bool,
) -> Result<Option<Coupling>, Error> {
    let Some(control) = control else { return Ok(None) };
    if !has_device {
        let why = "a law couples what a hand holds with what its states move: name that by `device(…)`";
        return Err(Error::invalid("control", why));
    }
    control.coupling(turns).map_err(|why| Error::invalid("control", why))
}

pub(crate) fn led(coupling: Option<Coupling>, plant: Plant, limits: MotionLimits, watchdog: Duration) -> Led {
    match coupling {
        Some(coupling) => Box::new(coupling.arm(plant, limits, watchdog)),
        None => Box::new(plant),
    }
}

/// Asked every `period`, and pushed with so many N and N·m at most.
pub(crate) fn felt(coupling: Option<Coupling>, hand: Hand, period: Duration, most: [f32; 2]) -> Felt {
    match coupling {
        Some(coupling) => Box::new(coupling.hand(hand, period, most.map(f64::from))),
        None => Box::new(hand),
    }
}
