//! How stiff what is touched might be, by theory.

use taut_core::{Duration, Medium};
use taut_qos::rendering::Critical;
use taut_qos::touch::Touch;
use taut_report::result::{MediumResult, TouchCritical};

use crate::map::RANGE;
use crate::scenario::{Direction, Teleop};

/// From which stiffness on, up to the stiffest of [`RANGE`], the loop of hand, arm and surface rattles by position–force across this round trip, with the
/// surface's damping.
pub(crate) fn margin(teleop: &Teleop, round_trip: Duration) -> Option<f64> {
    // Of a surface with hysteresis the margin is that of twice its spring.
    let doubled = if teleop.environment.hysteresis() > 0.0 { 2.0 } else { 1.0 };
    let most = teleop.touch()?.critical_stiffness([round_trip; 2], doubled * RANGE[1]);
    most.map(|most| most / doubled)
}

/// The numbers of simpler worlds.
pub(crate) fn simpler(teleop: &Teleop, touch: &Touch, round_trip: Duration) -> Critical {
    let device = &teleop.device;
    Critical::new(touch, teleop.period, round_trip, [device.friction, device.encoder])
}

/// At the round trip that states and forces of a run had; `None` where there is nothing to touch, or one of the two never arrived.
pub(in crate::run) fn of_run(teleop: &Teleop, media: &[MediumResult]) -> Option<TouchCritical> {
    let median = |direction: Direction| {
        let mut haptic = media.iter().filter(|medium| medium.medium == Medium::Haptic.name());
        Some(haptic.find(|medium| medium.direction == direction)?.delay_ms.as_ref()?.p50)
    };
    let rtt_ms = median(Direction::Forward)? + median(Direction::Backward)?;
    let round_trip = Duration::from_secs_f64(rtt_ms / 1e3);
    Some(TouchCritical {
        rtt_ms,
        // Each end samples and holds, which takes half a period on average.
        margin_n_m: margin(teleop, round_trip + teleop.period),
        simpler: simpler(teleop, &teleop.touch()?, round_trip),
    })
}
