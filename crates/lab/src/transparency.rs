//! What the hand feels of a thing through a law and a line, by frequency.
//!
//! The hand is led: it presses by 8 mm and moves there by a sum of sines between 0.5 and 10 Hz, each with a whole number of periods
//! in 10 s, with Schroeder's phases (*Synthesis of low-peak-factor signals*, IEEE Trans. Information Theory 16(1), 1970). The force on
//! it at each frequency by its motion there, −F/X, is what it feels (transmitted impedance: Lawrence, *Stability and transparency in
//! bilateral teleoperation*, IEEE Trans. Robotics and Automation 9(5), 1993, times jω); k + jωb − ω²m is fitted to it by least squares. No
//! loop is closed through a led hand, so that it says what a law shows even where a hand of flesh would rattle: whether that is so stands
//! beside it. Friction is off.

use std::f64::consts::{PI, TAU};
use std::sync::OnceLock;

use taut_agent::control::Motion;
use taut_core::{Duration, Probability, Seed};
use taut_qos::touch::{Surface as Touched, Thing, Touch};
use taut_report::result::{FeltResult, TransparencyPoint, TransparencyResult};

use crate::map::{self, Map};
use crate::run::ends::{Copies, Ends, Losses, Moment, Saving};
use crate::run::line::Line;
use crate::scenario::{Environment, LawSpec, Scenario, ScenarioError, Surface, Teleop, WaveSpec};

/// Hz.
const FREQUENCIES: [f64; 10] = [0.5, 0.7, 1.1, 1.7, 2.3, 3.1, 4.3, 5.9, 7.9, 9.7];
/// s, in which all of them have whole periods.
const BASE: f64 = 10.0;
/// How far the hand is in the thing, m, in the middle of its motion; and its amplitude below 2 Hz, which falls with the frequency above.
const PRESSED: f64 = 0.008;
const AMPLITUDE: f64 = 0.000_6;
/// Before anything is measured, and while it is, in bases.
const WARM: u64 = 1;
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
        Environment::Wall(Surface { stiffness, damping, friction: Some(0.0) })
    };
    let named = |thing: Thing| (thing.name(), of(thing.surface().stiffness, thing.surface().damping));
    let [foam, spring, wall] = Thing::ALL.map(named);
    [("free", Environment::Free), foam, spring, wall, ("stiff wall", of(STIFF, map::DAMPING))]
}

/// What a hand is led by.
struct Sines {
    amplitudes: [f64; FREQUENCIES.len()],
    phases: [f64; FREQUENCIES.len()],
}

impl Sines {
    fn new() -> Self {
        Self {
            amplitudes: FREQUENCIES.map(|hz| AMPLITUDE * (2.0 / hz).min(1.0)),
            phases: std::array::from_fn(|k| -PI * (k * (k + 1)) as f64 / FREQUENCIES.len() as f64),
        }
    }

    /// It goes in during the first second.
    fn at(&self, seconds: f64) -> Motion {
        let share = seconds.clamp(0.0, 1.0);
        let (mut x, mut v) = (PRESSED, 0.0);
        for ((amplitude, phase), hz) in self.amplitudes.iter().zip(self.phases).zip(FREQUENCIES) {
            let (sin, cos) = libm::sincos(TAU * hz * seconds + phase);
            x += amplitude * sin;
            v += amplitude * TAU * hz * cos;
        }
        let rises = if share < 1.0 { x } else { 0.0 };
        Motion { position: [share * x, 0.0, 0.0], velocity: [share * v + rises, 0.0, 0.0] }
    }
}

/// −F/X at each frequency, N/m.
type Impedance = [[f64; 2]; FREQUENCIES.len()];

/// Of one law on one thing over one line.
#[derive(Clone, Copy)]
struct Measured {
    felt: FeltResult,
    impedance: Impedance,
}

/// One signal, correlated with each frequency.
#[derive(Default)]
struct Spectrum {
    sums: Impedance,
    sum: f64,
    squares: f64,
    count: f64,
}

impl Spectrum {
    fn add(&mut self, turns: &Impedance, value: f64) {
        for (sum, [sin, cos]) in self.sums.iter_mut().zip(turns) {
            *sum = [sum[0] + value * cos, sum[1] - value * sin];
        }
        (self.sum, self.squares, self.count) =
            (self.sum + value, self.squares + value * value, self.count + 1.0);
    }

    fn mean(&self) -> f64 {
        self.sum / self.count.max(1.0)
    }

    fn square_around_mean(&self) -> f64 {
        (self.squares / self.count.max(1.0) - self.mean() * self.mean()).max(0.0)
    }

    /// Of what is not the mean, the share that is at none of the frequencies.
    fn other_share(&self) -> f64 {
        let at: f64 = self.sums.iter().map(|[re, im]| 2.0 * (re * re + im * im)).sum();
        let all = self.square_around_mean();
        if all < 1e-12 { 0.0 } else { (1.0 - at / (self.count * self.count) / all).max(0.0) }
    }
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
    let (mut force, mut hand) = (Spectrum::default(), Spectrum::default());
    let (mut apart, mut missed) = (Spectrum::default(), 0.0);
    let record = |moment: &Moment| {
        if at(moment.now) <= WARM as f64 * BASE {
            return;
        }
        // The force was held for a period: it belongs to the middle of it.
        let middle = at(moment.now) - dt / 2.0;
        let turns = FREQUENCIES.map(|hz| {
            let (sin, cos) = libm::sincos(TAU * hz * middle);
            [sin, cos]
        });
        force.add(&turns, moment.felt[0]);
        hand.add(&turns, sines.at(middle).position[0]);
        apart.add(&turns, moment.arm.position[0] - moment.hand.position[0]);
        let error = moment.felt[0] - moment.met[0];
        missed += error * error;
    };
    let begins_at = sines.at(0.0).position;
    ends.run(base * (WARM + MEASURED), begins_at, |now, _| Some(sines.at(at(now))), record)?;
    let impedance: Impedance = std::array::from_fn(|k| {
        let ([a, b], [c, d]) = (force.sums[k], hand.sums[k]);
        let size = c * c + d * d;
        [-(a * c + b * d) / size, -(b * c - a * d) / size]
    });
    let [stiffness, damping, inertia, unfitted] = fitted(&impedance);
    let felt = FeltResult {
        slow_n_m: impedance[0][0],
        stiffness_n_m: stiffness,
        damping_ns_m: damping,
        inertia_kg: inertia,
        unfitted_percent: 100.0 * unfitted,
        other_percent: 100.0 * force.other_share().sqrt(),
        error_percent: None,
        tracking_rms_mm: 1e3 * apart.square_around_mean().sqrt(),
        drift_mm: 1e3 * apart.mean(),
        force_error_rms_n: (missed / force.count.max(1.0)).sqrt(),
    };
    Some(Measured { felt, impedance })
}

/// What a led hand feels slowly, at the lowest frequency and in phase, of what `teleop` touches, N/m.
pub(crate) fn slowly(teleop: &Teleop, line: Line) -> Option<f64> {
    Some(measure(teleop, line)?.felt.slow_n_m)
}

/// k, b and m of k + jωb − ω²m by least squares, and the root mean square of what is left by that of the impedance.
fn fitted(impedance: &Impedance) -> [f64; 4] {
    let omegas = FREQUENCIES.map(|hz| TAU * hz);
    let over = |of: &dyn Fn(f64, [f64; 2]) -> f64| -> f64 {
        omegas.iter().zip(impedance).map(|(omega, z)| of(*omega, *z)).sum()
    };
    let [n, two, four] = [0, 2, 4].map(|power| over(&|omega, _| omega.powi(power)));
    let (re, bent) = (over(&|_, [re, _]| re), over(&|omega, [re, _]| omega * omega * re));
    let determinant = n * four - two * two;
    let stiffness = (re * four - bent * two) / determinant;
    let inertia = (re * two - bent * n) / determinant;
    let damping = over(&|omega, [_, im]| omega * im) / two;
    let left = over(&|omega, [re, im]| {
        let (a, b) = (re - stiffness + inertia * omega * omega, im - damping * omega);
        a * a + b * b
    });
    let all = over(&|_, [re, im]| re * re + im * im);
    [stiffness, damping, inertia, (left / all.max(f64::MIN_POSITIVE)).sqrt()]
}

/// Root mean square over the frequencies of how far it is from the truth, by the truth, per cent.
fn error_percent(measured: &Measured, truth: &Impedance) -> f64 {
    let squares = measured.impedance.iter().zip(truth).map(|(z, t)| {
        let (a, b) = (z[0] - t[0], z[1] - t[1]);
        (a * a + b * b) / (t[0] * t[0] + t[1] * t[1])
    });
    100.0 * (squares.sum::<f64>() / FREQUENCIES.len() as f64).sqrt()
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
            let truth = FREQUENCIES.map(|hz| touch.shown(TAU * hz));
            stiffness = touch.shown(0.0)[0];
            found.felt.error_percent = Some(error_percent(&found, &truth));
            twin.felt.error_percent = Some(error_percent(&twin, &truth));
            if self.line.loss != lossless.loss {
                clairvoyant = Some(error_percent(&measure(&self.teleop, lossless)?, &truth));
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
        let LawSpec::Wave(WaveSpec { impedance, .. }) = self.teleop.law else { return None };
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
            let off = error_percent(&measured, &truth);
            assert!(off < 1.0, "{thing}, {ms} ms: {off} %");
        }
    }

    #[test]
    fn the_oracle_shows_the_same_over_any_line() {
        let [near, far] = [1, 300].map(|ms| found(LawSpec::Oracle, "wall", ms).0.impedance);
        assert_eq!(near.map(|z| z.map(f64::to_bits)), far.map(|z| z.map(f64::to_bits)));
    }

    #[test]
    fn what_is_fitted_is_what_it_was_made_of() {
        let made = FREQUENCIES.map(|hz| {
            let omega = TAU * hz;
            [1_200.0 - 0.3 * omega * omega, 7.0 * omega]
        });
        let [stiffness, damping, inertia, left] = fitted(&made);
        assert!((stiffness - 1_200.0).abs() < 1e-6 && (damping - 7.0).abs() < 1e-9, "{stiffness} {damping}");
        assert!((inertia - 0.3).abs() < 1e-9 && left < 1e-9, "{inertia} {left}");
    }
}
