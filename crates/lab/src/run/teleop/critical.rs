//! How stiff what is touched might be, by theory.

use taut_core::{Duration, Medium};
use taut_qos::rendering::{Critical, Device};
use taut_qos::touch::{Surface, Touch};
use taut_report::result::{MediumResult, TouchCritical};

use crate::map::RANGE;
use crate::scenario::{DeviceSpec, Direction, Teleop};

/// From which stiffness on, up to the stiffest of [`RANGE`], the loop of hand, arm and surface rattles by position–force across this round trip, with the
/// surface's damping.
pub(crate) fn margin(teleop: &Teleop, round_trip: Duration) -> Option<f64> {
    let stiffening = teleop.environment.stiffening()?;
    let most = teleop.touch()?.critical_stiffness([round_trip; 2], stiffening * RANGE[1]);
    most.map(|most| most / stiffening)
}

/// The numbers of simpler worlds, of a surface of this damping, N·s/m, whose stiffness does not count.
pub(crate) fn simpler(teleop: &Teleop, damping: f64, round_trip: Duration) -> Critical {
    let DeviceSpec { damping: own, friction, encoder, .. } = teleop.device;
    let device = Device { damping: own, friction, encoder };
    let touch = Touch { lags: teleop.lags(), ..Touch::of(Surface { stiffness: RANGE[1], damping }) };
    Critical::new(&device, &touch, teleop.period, round_trip)
}

/// At the round trip that states and forces of a run had; `None` where there is nothing to touch, or one of the two never arrived.
pub(in crate::run) fn of_run(teleop: &Teleop, media: &[MediumResult]) -> Option<TouchCritical> {
    let [_, damping, _] = teleop.environment.surface()?;
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
        simpler: simpler(teleop, damping, round_trip),
    })
}
