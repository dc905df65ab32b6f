//! The stiffest wall that stays calm, over round trip, loss and control law.
//!
//! Hand and arm are coupled over a line of constant delay that loses messages by chance, without a transport: what is mapped is the law.
//! The wall has [`DAMPING`], friction and tremor are off, and calm is what a run's verdict of touch says of one long rest. For each
//! grip walls are tried from soft to stiff, each twice as stiff as the one before, until one rattles; between that and the last one that
//! was calm the border is found by bisection. What is calm again beyond it does not count.

use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;
use taut_core::{Duration, Probability, Seed};
use taut_qos::touch::{Mass, Surface as Touched, Touch};
use taut_report::result::{MapGrip, MapPoint, MapResult};

use crate::run::line::{Line, touched};
use crate::scenario::{Environment, LawSpec, Scenario, ScenarioError, Surface, Teleop};

/// Of every wall, N·s/m.
pub const DAMPING: f64 = 10.0;
/// The softest and the stiffest wall, N/m.
pub const RANGE: [f64; 2] = [20.0, 20_000.0];
/// How long the hand rests. Near the border an oscillation fades or grows slowly: as long as it does so and might come to the other side,
/// the next longer rest is looked at.
const RESTS: [Duration; 3] = [Duration::from_secs(20), Duration::from_secs(80), Duration::from_secs(320)];
/// What the run takes before and after that.
const AROUND: Duration = Duration::from_secs(20);
/// Grows by less than this from the first half of the rest to the second: it fades.
const FADES: f64 = 0.9;
/// Less ripple than this, per cent, is not watched for growth.
const NO_RIPPLE: f64 = 0.1;

pub(crate) const BASE: &str = "title = \"map\"\nduration = \"40s\"\n[links.wire]\nbetween = [\"operator\", \"robot\"]\nchain = []\n\
    [teleop]\noperator = \"operator\"\nrobot = \"robot\"\ntremor = false\ndevice_force = 40.0\n";

/// What is mapped. Round trips are rounded to the period of 1 ms.
#[derive(Clone, Debug)]
pub struct Map {
    /// The laws.
    pub laws: Vec<LawSpec>,
    /// Of the network.
    pub round_trips: Vec<Duration>,
    /// Of each message, each way.
    pub losses: Vec<Probability>,
}

/// How a border is looked for.
#[derive(Clone, Copy)]
struct Search {
    /// From one wall that is tried to the next.
    ratio: f64,
    /// To this part of it.
    precision: f64,
    /// How many of [`RESTS`] there are.
    rests: usize,
}

impl Search {
    const EXACT: Self = Self { ratio: 2.0, precision: 0.01, rests: RESTS.len() };
    /// Where the answer is wanted soon.
    const ROUGH: Self = Self { ratio: 4.0, precision: 0.2, rests: 2 };
}

/// One law over one line.
struct Cell {
    teleop: Teleop,
    line: Line,
    round_trip: Duration,
}

impl Map {
    /// Finds it on all cores; the same on every machine. `progress` is told the share that is done, from several threads.
    ///
    /// # Errors
    /// Never, but by a mistake in this module.
    pub fn make(&self, progress: &(dyn Fn(f64) + Sync)) -> Result<MapResult, ScenarioError> {
        let cells = self.cells()?;
        let grips = Touch::GRIPS.len();
        let each = |number: usize| cells[number / grips].find(Touch::GRIPS[number % grips]);
        let found = on_all_cores(cells.len() * grips, progress, each);
        let point = |(cell, grips): (&Cell, &[MapGrip])| MapPoint {
            law: cell.teleop.law.name().to_owned(),
            loss_percent: cell.line.loss.as_fraction() * 100.0,
            rtt_ms: cell.round_trip.as_millis_f64(),
            calm_to_n_m: grips
                .iter()
                .map(|grip| grip.calm_to_n_m)
                .min_by(|a, b| a.unwrap_or_default().total_cmp(&b.unwrap_or_default()))
                .flatten(),
            grips: grips.to_vec(),
        };
        let points = cells.iter().zip(found.chunks(grips)).map(point).collect();
        Ok(MapResult { points, range_n_m: RANGE, damping_ns_m: DAMPING })
    }

    /// Of a line with this round trip, rounded to whole periods: sampling and holding take one more, half of one at each end.
    pub(crate) fn periods(teleop: &Teleop, round_trip: Duration) -> (usize, Duration) {
        let periods = (round_trip.as_secs_f64() / teleop.period.as_secs_f64()).round() as usize;
        (periods + 1, teleop.period * periods as u64)
    }

    fn cells(&self) -> Result<Vec<Cell>, ScenarioError> {
        let base = Scenario::parse("map", BASE)?;
        let mut cells = Vec::new();
        for &law in &self.laws {
            for &loss in &self.losses {
                for &round_trip in &self.round_trips {
                    let Some(teleop) = base.teleop.clone() else { continue };
                    let (periods, round_trip) = Self::periods(&teleop, round_trip);
                    let line = Line { periods, spread: 0, loss };
                    let teleop = Teleop { law, ..teleop };
                    cells.push(Cell { teleop, line, round_trip });
                }
            }
        }
        Ok(cells)
    }
}

impl Cell {
    fn over(teleop: &Teleop, line: Line) -> Self {
        Self { teleop: teleop.clone(), line, round_trip: teleop.period * line.periods as u64 }
    }

    fn find(&self, grip: Mass) -> MapGrip {
        let [calm, rattles] = self.border(grip, RANGE[1], Search::EXACT);
        let is_linear = self.teleop.law == LawSpec::PositionForce && self.line.loss == Probability::default();
        let surface = Touched { stiffness: RANGE[1], damping: DAMPING };
        let touch = Touch { hand: grip, ..Touch::of(surface) };
        let delay = self.teleop.period * self.line.periods as u64;
        MapGrip {
            mass_kg: grip.mass,
            damping_ns_m: grip.damping,
            stiffness_n_m: grip.stiffness,
            calm_to_n_m: calm,
            rattles_from_n_m: rattles,
            theory_n_m: if is_linear { touch.critical_stiffness([delay; 2], RANGE[1]) } else { None },
        }
    }

    /// The stiffest wall, up to `most`, to which all that were tried are calm, and the softest that is not.
    fn border(&self, grip: Mass, most: f64, search: Search) -> [Option<f64>; 2] {
        let [mut calm, mut rattles] = [None, None];
        let is_calm = |stiffness| self.is_calm(grip, [stiffness, DAMPING], search);
        let mut stiffness = RANGE[0];
        while rattles.is_none() && calm.is_none_or(|calm| calm < most) {
            *(if is_calm(stiffness) { &mut calm } else { &mut rattles }) = Some(stiffness);
            stiffness = (stiffness * search.ratio).min(most);
        }
        while let (Some(low), Some(high)) = (calm, rattles)
            && high - low > search.precision * high
        {
            let middle = f64::midpoint(low, high);
            *(if is_calm(middle) { &mut calm } else { &mut rattles }) = Some(middle);
        }
        [calm, rattles]
    }

    fn is_calm(&self, grip: Mass, [stiffness, damping]: [f64; 2], search: Search) -> bool {
        let surface = Surface { stiffness: Some(stiffness), damping: Some(damping), friction: Some(0.0) };
        let mut is_calm = false;
        for rest in RESTS.into_iter().take(search.rests) {
            let teleop = Teleop {
                grip: grip.into(),
                environment: Environment::Wall(surface),
                rest,
                ..self.teleop.clone()
            };
            let result = touched(&teleop, rest + AROUND, self.line, Seed::new(1));
            let Some(touch) = result.and_then(|result| result.touch) else { return false };
            is_calm = touch.calm == Some(true);
            let (ripple, growth) = (touch.ripple_percent.unwrap_or_default(), touch.growth.unwrap_or(1.0));
            let is_settled = if is_calm { growth <= 1.0 || ripple < NO_RIPPLE } else { growth >= FADES };
            if is_settled {
                break;
            }
        }
        is_calm
    }
}

/// `each` of so many numbers, on all cores, and what they give in their order. `progress` is told the share that is done, from several threads.
pub(crate) fn on_all_cores<T: Send>(
    all: usize,
    progress: &(dyn Fn(f64) + Sync),
    each: impl Fn(usize) -> T + Sync,
) -> Vec<T> {
    let done = Mutex::new(0usize);
    let one = |number| {
        let found = each(number);
        let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
        *done += 1;
        progress(*done as f64 / all as f64);
        found
    };
    (0..all).into_par_iter().map(one).collect()
}

/// Is a thing of this stiffness, N/m, and damping, N·s/m, calm in each grip, over such a line?
pub(crate) fn is_calm_in_every_grip(teleop: &Teleop, line: Line, thing: [f64; 2]) -> bool {
    let cell = Cell::over(teleop, line);
    Touch::GRIPS.iter().all(|grip| cell.is_calm(*grip, thing, Search::EXACT))
}

/// The stiffest wall that stays calm in every grip over such a line, to a fifth of it; `None`: not even the softest does. The lightest grip
/// is tried from soft to stiff, the others first with what it keeps calm.
pub(crate) fn calm_to(teleop: &Teleop, line: Line) -> Option<f64> {
    let cell = Cell::over(teleop, line);
    Touch::GRIPS.iter().try_fold(None, |most: Option<f64>, grip| match most {
        Some(most) if cell.is_calm(*grip, [most, DAMPING], Search::ROUGH) => Some(Some(most)),
        most => cell.border(*grip, most.unwrap_or(RANGE[1]), Search::ROUGH)[0].map(Some),
    })?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(law: LawSpec, ms: u64) -> MapPoint {
        let map = Map {
            laws: vec![law],
            round_trips: vec![Duration::from_millis(ms)],
            losses: vec![Probability::default()],
        };
        map.make(&|_| {}).unwrap().points.remove(0)
    }

    #[test]
    fn position_force_is_calm_to_where_the_margin_of_its_loop_says() {
        let point = found(LawSpec::PositionForce, 16);
        for grip in &point.grips {
            let off = grip.off_theory_percent().unwrap();
            assert!(off.abs() < 2.0, "{off} %: {grip:?}");
        }
    }
}
