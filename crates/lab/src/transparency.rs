//! What the hand feels of a thing through a law and a line, by frequency, where it is led by sines. Friction is off; whether a hand of flesh would
//! stay calm stands beside it.

use std::sync::OnceLock;

use taut_core::{Duration, Probability, Seed};
use taut_qos::touch::{Surface as Touched, Thing, Touch};
use taut_report::result::{FeltResult, TransparencyPoint, TransparencyResult};

use crate::map::{self, Map};
use crate::run::ends::{self, Copies, Ends, Losses, Saving};
use crate::run::line::Line;
use crate::scenario::{Environment, LawSpec, Scenario, ScenarioError, Surface, Teleop, Wave};
use crate::sines::{BASE, FREQUENCIES, Felt, Impedance, Moment, Sines, WARM, error_percent, truth};

/// For how long it is measured, in bases.
const MEASURED: u64 = 2;
/// The stiffest of [`things`], N/m.
const STIFF: f64 = 20_000.0;

/// What is measured: every law on every thing over every line. Round trips are rounded to the period of 1 ms.
#[derive(Clone, Debug)]
pub struct Transparency {
    /// The laws.
    pub laws: Vec<LawSpec>,
    /// Of the network.
    pub round_trips: Vec<Duration>,
    /// Of each message, each way.
    pub losses: Vec<Probability>,
}

/// Nothing, foam, the spring, the wall, and a wall of 20 kN/m and 10 N·s/m.
fn things() -> [(&'static str, Environment); 5] {
    let of = |stiffness, damping| {
        let [stiffness, damping] = [stiffness, damping].map(Some);
        Environment::Wall(Surface { stiffness, damping, friction: Some(0.0), ..Surface::DEFAULT })
    };
    let named = |thing: Thing| (thing.name(), of(thing.surface().stiffness, thing.surface().damping));
    let [foam, spring, wall] = Thing::ALL.map(named);
    [("free", Environment::Free), foam, spring, wall, ("stiff wall", of(STIFF, map::DAMPING))]
}

/// Of one law on one thing over one line.
#[derive(Clone, Copy)]
struct Measured {
    felt: FeltResult,
    impedance: Impedance,
}

fn measure(teleop: &Teleop, line: Line) -> Option<Measured> {
    let sines = Sines::new();
    let dt = teleop.period.as_secs_f64();
    let ends = Ends {
        teleop,
        line,
        losses: Losses { share: line.loss.as_fraction(), burst: 0.0 },
        saving: Saving::Every,
        copies: Copies::None,
        seed: Seed::new(1),
    };
    let base = Duration::from_secs_f64(BASE);
    let at = |now: taut_core::Time| now.as_nanos() as f64 / 1e9;
    let mut sums = Felt::default();
    let record = |moment: &ends::Moment| {
        if at(moment.now) <= WARM as f64 * BASE {
            return;
        }
        // The force was held for a period: it belongs to the middle of it.
        let middle = at(moment.now) - dt / 2.0;
        sums.add(&Moment {
            middle,
            felt: moment.felt[0],
            hand: sines.at(middle).position[0],
            apart: moment.arm.position[0] - moment.hand.position[0],
            met: moment.met[0],
            periods: 1.0,
        });
    };
    let begins_at = sines.at(0.0).position;
    ends.run(base * (WARM + MEASURED), begins_at, |now, _| Some(sines.at(at(now))), record)?;
    Some(Measured { felt: sums.result(None), impedance: sums.impedance() })
}

/// What a led hand feels slowly, at the lowest frequency and in phase, of what `teleop` touches, N/m.
pub(crate) fn slowly(teleop: &Teleop, line: Line) -> Option<f64> {
    Some(measure(teleop, line)?.felt.slow_n_m)
}

/// One law on one thing over one line.
struct Cell {
    teleop: Teleop,
    thing: &'static str,
    line: Line,
    round_trip: Duration,
}

impl Transparency {
    /// Measures it on all cores; the same on every machine. `progress` is told the share that is done, from several threads.
    ///
    /// # Errors
    /// Never, but by a mistake in this module.
    pub fn make(&self, progress: &(dyn Fn(f64) + Sync)) -> Result<TransparencyResult, ScenarioError> {
        let cells = self.cells()?;
        // Lines of one law on one thing stand together, and have one twin.
        let lines = (self.losses.len() * self.round_trips.len()).max(1);
        let twins: Vec<_> = cells.chunks(lines).map(|_| OnceLock::new()).collect();
        let each = |number: usize| {
            let cell = &cells[number];
            let twin = twins[number / lines]
                .get_or_init(|| measure(&cell.teleop, Line { periods: 1, ..Line::default() }));
            cell.point(twin.as_ref()?)
        };
        let points = map::on_all_cores(cells.len(), progress, each).into_iter().flatten().collect();
        Ok(TransparencyResult { frequencies_hz: FREQUENCIES.to_vec(), points })
    }

    fn cells(&self) -> Result<Vec<Cell>, ScenarioError> {
        let base = Scenario::parse("map", map::BASE)?.teleop;
        let mut cells = Vec::new();
        for (thing, environment) in things() {
            for &law in &self.laws {
                for &loss in &self.losses {
                    for &round_trip in &self.round_trips {
                        let Some(teleop) = base.clone() else { continue };
                        let teleop = Teleop { law, environment, ..teleop };
                        let (periods, round_trip) = Map::periods(&teleop, round_trip);
                        let line = Line { periods, spread: 0, loss };
                        cells.push(Cell { teleop, thing, line, round_trip });
                    }
                }
            }
        }
        Ok(cells)
    }
}

impl Cell {
    /// Beside its twin without delay and loss.
    fn point(&self, twin: &Measured) -> Option<TransparencyPoint> {
        let lossless = Line { loss: Probability::default(), ..self.line };
        let mut found = measure(&self.teleop, self.line)?;
        let mut twin = *twin;
        let (mut clairvoyant, mut stiffness) = (None, 0.0);
        if let Some([spring, damping, _]) = self.teleop.environment.surface() {
            let touch = Touch::of(Touched { stiffness: spring, damping });
            let truth = truth(&touch);
            stiffness = touch.shown(0.0)[0];
            found.felt.error_percent = Some(error_percent(&found.impedance, &truth));
            twin.felt.error_percent = Some(error_percent(&twin.impedance, &truth));
            if self.line.loss != lossless.loss {
                clairvoyant = Some(error_percent(&measure(&self.teleop, lossless)?.impedance, &truth));
            }
        }
        Some(TransparencyPoint {
            thing: self.thing.to_owned(),
            law: self.teleop.law.name().to_owned(),
            loss_percent: self.line.loss.as_fraction() * 100.0,
            rtt_ms: self.round_trip.as_millis_f64(),
            truth_n_m: stiffness,
            clairvoyant_error_percent: clairvoyant,
            frontier_n_m: self.frontier(),
            calm: self.is_calm(),
            felt: found.felt,
            twin: twin.felt,
        })
    }

    /// 4 m₀ / T²: what a line of waves of impedance b shows at most, 2b/T, where it shows m₀ = bT/2 of inertia in free motion.
    fn frontier(&self) -> Option<f64> {
        let LawSpec::Wave(Wave { impedance, .. }) = self.teleop.law else { return None };
        self.teleop.environment.surface()?;
        let time = self.round_trip.as_secs_f64();
        Some(2.0 * impedance / time)
    }

    /// In every grip.
    fn is_calm(&self) -> Option<bool> {
        let [stiffness, ..] = self.teleop.environment.surface()?;
        let Environment::Wall(surface) = self.teleop.environment else { return None };
        Some(map::is_calm_in_every_grip(
            &self.teleop,
            self.line,
            [stiffness, surface.damping.unwrap_or(map::DAMPING)],
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::f64::consts::TAU;

    use super::*;

    fn found(law: LawSpec, thing: &str, ms: u64) -> (Measured, Touch) {
        let asked = Transparency {
            laws: vec![law],
            round_trips: vec![Duration::from_millis(ms)],
            losses: vec![Probability::default()],
        };
        let cell = asked.cells().unwrap().into_iter().find(|cell| cell.thing == thing).unwrap();
        let [stiffness, damping, _] = cell.teleop.environment.surface().unwrap();
        let measured = measure(&cell.teleop, cell.line).unwrap();
        (measured, Touch::of(Touched { stiffness, damping }))
    }

    fn times(a: [f64; 2], b: [f64; 2]) -> [f64; 2] {
        [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]]
    }

    fn delay(omega: f64, seconds: f64) -> [f64; 2] {
        let (sin, cos) = libm::sincos(omega * seconds);
        [cos, -sin]
    }

    /// Beyond the network's round trip: a period for sampling and holding, one because the robot's end says what was measured in the last,
    /// and one because what the operator's end says acts in the next.
    const ENDS: f64 = 0.003;

    #[test]
    fn position_force_shows_the_thing_a_round_trip_late() {
        for (thing, ms) in [("foam", 4), ("wall", 40), ("stiff wall", 100)] {
            let (measured, touch) = found(LawSpec::PositionForce, thing, ms);
            let late = ENDS + ms as f64 / 1e3;
            let truth = FREQUENCIES.map(|hz| times(touch.shown(TAU * hz), delay(TAU * hz, late)));
            let off = error_percent(&measured.impedance, &truth);
            assert!(off < 1.0, "{thing}, {ms} ms: {off} %");
        }
    }

    #[test]
    fn the_oracle_shows_the_same_over_any_line() {
        let [near, far] = [1, 300].map(|ms| found(LawSpec::Oracle, "wall", ms).0.impedance);
        assert_eq!(near.map(|z| z.map(f64::to_bits)), far.map(|z| z.map(f64::to_bits)));
    }
}
