//! The stiffest wall that stays calm, over round trip, loss and control law.
//!
//! Hand and arm are coupled over a line of constant delay that loses messages by chance, without a transport: what is mapped is the law.
//! The wall has [`DAMPING`], friction and tremor are off, and calm is what a run's verdict of touch says of one long rest. For each
//! grip walls are tried from soft to stiff, each twice as stiff as the one before, until one rattles; between that and the last one that
//! was calm the border is found by bisection. What is calm again beyond it does not count. Calm is one thing, and another whether the hand feels what is: half
//! of the arm's force and more. A wall that the arm does not press against says neither: it is left out.

mod parts;

use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;
use taut_core::{Duration, Probability, Seed};
use taut_qos::touch::{Mass, Touch};
use taut_report::result::{MapGrip, MapPoint, MapResult};

use self::parts::PARTS;

use crate::run::critical;
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
    /// Is it found for hands, devices and arms that differ in one thing each, to a tenth?
    pub parts: bool,
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
    /// Where there are many.
    const NEAR: Self = Self { ratio: 4.0, precision: 0.1, rests: 2 };
    /// Where the answer is wanted soon.
    const ROUGH: Self = Self { ratio: 4.0, precision: 0.2, rests: 2 };
}

/// One law over one line.
struct Cell {
    different: Option<&'static str>,
    search: Search,
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
        // A grip in which nothing is pressed says nothing of the others.
        let least = |grips: &[MapGrip], of: fn(&MapGrip) -> Option<f64>| {
            let all = grips.iter().filter(|grip| grip.presses()).map(of);
            all.min_by(|a, b| a.unwrap_or_default().total_cmp(&b.unwrap_or_default())).flatten()
        };
        let point = |(cell, grips): (&Cell, &[MapGrip])| MapPoint {
            different: cell.different.map(str::to_owned),
            law: cell.teleop.law.name().to_owned(),
            loss_percent: cell.line.loss.as_fraction() * 100.0,
            rtt_ms: cell.round_trip.as_millis_f64(),
            calm_to_n_m: least(grips, |grip| grip.calm_to_n_m),
            felt_to_n_m: least(grips, |grip| grip.felt_to_n_m),
            felt_percent: grips.iter().filter_map(|grip| grip.felt_percent).reduce(f64::min),
            critical: critical::simpler(&cell.teleop, DAMPING, cell.round_trip),
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
        let (parts, search) =
            if self.parts { (&PARTS[..], Search::NEAR) } else { (&PARTS[..1], Search::EXACT) };
        let mut cells = Vec::new();
        for (different, change) in parts {
            for &law in &self.laws {
                for &loss in &self.losses {
                    for &round_trip in &self.round_trips {
                        let Some(mut teleop) = base.teleop.clone() else { continue };
                        teleop.law = law;
                        change(&mut teleop);
                        let (periods, round_trip) = Self::periods(&teleop, round_trip);
                        let line = Line { periods, spread: 0, loss };
                        let different = *different;
                        cells.push(Cell { different, search, teleop, line, round_trip });
                    }
                }
            }
        }
        Ok(cells)
    }
}

/// What came of a rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Nothing rippled.
    Calm,
    /// Something did.
    Rattles,
    /// The arm pressed against nothing, so that nothing could.
    NotPressed,
}

/// A rest, as it ended.
#[derive(Clone, Copy, Debug)]
struct Rest {
    outcome: Outcome,
    /// It was calm, and the hand was pushed with half of what the arm met and more.
    felt: bool,
    /// Of that.
    share: Option<f64>,
}

impl Rest {
    /// What a value that is no number leaves.
    const FAILED: Self = Self { outcome: Outcome::Rattles, felt: false, share: None };

    /// `None`: it says nothing.
    fn is_calm(&self) -> Option<bool> {
        match self.outcome {
            Outcome::Calm => Some(true),
            Outcome::Rattles => Some(false),
            Outcome::NotPressed => None,
        }
    }

    fn is_felt(&self) -> Option<bool> {
        self.is_calm().map(|_| self.felt)
    }
}

/// Rests on walls of one damping in one grip, each simulated once.
struct Walls<'a> {
    cell: &'a Cell,
    grip: Mass,
    search: Search,
    found: Vec<(f64, Rest)>,
}

impl Walls<'_> {
    fn rest(&mut self, stiffness: f64) -> Rest {
        if let Some((_, rest)) = self.found.iter().find(|(wall, _)| wall.total_cmp(&stiffness).is_eq()) {
            return *rest;
        }
        let rest = self.cell.rest(self.grip, [stiffness, DAMPING], self.search);
        self.found.push((stiffness, rest));
        rest
    }

    /// The stiffest wall, up to `most`, to which all that say something are so, and the softest that is not.
    fn border(&mut self, most: f64, is_so: fn(&Rest) -> Option<bool>) -> [Option<f64>; 2] {
        let [mut so, mut not] = [None, None];
        // What says nothing is passed by, as if it were so.
        let [mut low, mut stiffness] = [0.0, RANGE[0]];
        while not.is_none() && low < most {
            match is_so(&self.rest(stiffness)) {
                Some(true) => (so, low) = (Some(stiffness), stiffness),
                Some(false) => not = Some(stiffness),
                None => low = stiffness,
            }
            stiffness = (stiffness * self.search.ratio).min(most);
        }
        while let Some(high) = not
            && low > 0.0
            && high - low > self.search.precision * high
        {
            let middle = f64::midpoint(low, high);
            match is_so(&self.rest(middle)) {
                Some(true) => (so, low) = (Some(middle), middle),
                Some(false) => not = Some(middle),
                None => low = middle,
            }
        }
        [so, not]
    }

    /// The softest that was tried and is so.
    fn softest(&self, is_so: fn(&Rest) -> Option<bool>) -> Option<f64> {
        self.found
            .iter()
            .filter(|(_, rest)| is_so(rest) == Some(true))
            .map(|(wall, _)| *wall)
            .reduce(f64::min)
    }

    /// The softest and the stiffest that were tried and not pressed against.
    fn not_pressed(&self) -> Option<[f64; 2]> {
        let untouched = self.found.iter().filter(|(_, rest)| rest.outcome == Outcome::NotPressed);
        untouched.map(|(wall, _)| [*wall; 2]).reduce(|a, b| [a[0].min(b[0]), a[1].max(b[1])])
    }
}

impl Cell {
    fn over(teleop: &Teleop, line: Line) -> Self {
        let round_trip = teleop.period * line.periods as u64;
        Self { different: None, search: Search::EXACT, teleop: teleop.clone(), line, round_trip }
    }

    fn find(&self, grip: Mass) -> MapGrip {
        let mut walls = self.walls(grip, self.search);
        let [calm, rattles] = walls.border(RANGE[1], Rest::is_calm);
        let [felt, _] = walls.border(RANGE[1], Rest::is_felt);
        let share = calm.and_then(|calm| walls.rest(calm).share);
        MapGrip {
            mass_kg: grip.mass,
            damping_ns_m: grip.damping,
            stiffness_n_m: grip.stiffness,
            calm_to_n_m: calm,
            rattles_from_n_m: rattles,
            not_pressed_n_m: walls.not_pressed(),
            felt_to_n_m: felt,
            felt_percent: share.map(|share| 100.0 * share),
            theory_n_m: self.margin(grip),
        }
    }

    /// From where on the delayed loop is unstable, N/m.
    fn margin(&self, grip: Mass) -> Option<f64> {
        if self.teleop.law != LawSpec::PositionForce || self.line.loss != Probability::default() {
            return None;
        }
        let delay = self.teleop.period * self.line.periods as u64;
        critical::margin(&self.touching(grip, [RANGE[1], DAMPING]), delay)
    }

    fn walls(&self, grip: Mass, search: Search) -> Walls<'_> {
        Walls { cell: self, grip, search, found: Vec::new() }
    }

    /// In this grip, on a wall without friction.
    fn touching(&self, grip: Mass, [stiffness, damping]: [f64; 2]) -> Teleop {
        let surface = Surface {
            stiffness: Some(stiffness),
            damping: Some(damping),
            friction: Some(0.0),
            hysteresis: Some(self.teleop.environment.hysteresis()),
        };
        Teleop { grip, environment: Environment::Wall(surface), ..self.teleop.clone() }
    }

    fn rest(&self, grip: Mass, wall: [f64; 2], search: Search) -> Rest {
        let mut found = Rest::FAILED;
        for rest in RESTS.into_iter().take(search.rests) {
            let teleop = Teleop { rest, ..self.touching(grip, wall) };
            let result = touched(&teleop, rest + AROUND, self.line, Seed::new(1));
            let result = result.filter(|result| result.failure.is_none());
            let Some(touch) = result.and_then(|result| result.touch) else { return Rest::FAILED };
            let outcome = match touch.steady {
                Some(true) => Outcome::Calm,
                Some(false) => Outcome::Rattles,
                None => Outcome::NotPressed,
            };
            let share = touch.rest_felt_n.zip(touch.rest_force_n).map(|(felt, met)| felt / met);
            found = Rest { outcome, felt: touch.calm == Some(true), share };
            let (ripple, growth) = (touch.ripple_percent.unwrap_or_default(), touch.growth.unwrap_or(1.0));
            let is_settled = match outcome {
                Outcome::Calm => growth <= 1.0 || ripple < NO_RIPPLE,
                Outcome::Rattles => growth >= FADES,
                Outcome::NotPressed => true,
            };
            if is_settled {
                break;
            }
        }
        found
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

/// Is a thing of this stiffness, N/m, and damping, N·s/m, calm and felt in each grip, over such a line?
pub(crate) fn is_calm_in_every_grip(teleop: &Teleop, line: Line, thing: [f64; 2]) -> bool {
    let cell = Cell::over(teleop, line);
    Touch::GRIPS.iter().all(|grip| cell.rest(*grip, thing, Search::EXACT).felt)
}

/// The softest wall that was tried and is calm and felt, and the stiffest up to which all are in every grip over such a line, to a fifth of it; softer ones than the
/// first are not pressed against. `None`: not even the softest that is pressed does. The lightest grip is tried from soft to stiff, the others first with
/// what it keeps calm.
pub(crate) fn calm_and_felt(teleop: &Teleop, line: Line) -> Option<[f64; 2]> {
    let cell = Cell::over(teleop, line);
    Touch::GRIPS.iter().try_fold(None, |range: Option<[f64; 2]>, grip| match range {
        Some([_, most]) if cell.rest(*grip, [most, DAMPING], Search::ROUGH).felt => Some(range),
        range => {
            let [from, most] = range.unwrap_or(RANGE);
            let mut walls = cell.walls(*grip, Search::ROUGH);
            let to = walls.border(most, Rest::is_felt)[0]?;
            Some(Some([walls.softest(Rest::is_felt)?.max(from), to]))
        }
    })?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(law: LawSpec, ms: u64, parts: bool) -> Map {
        let (round_trips, losses) = (vec![Duration::from_millis(ms)], vec![Probability::default()]);
        Map { laws: vec![law], round_trips, losses, parts }
    }

    /// Within so much of where theory has it, as a share. The stiffness that theory says, N/m.
    fn is_calm_to_the_margin(cell: &Cell, grip: Mass, within: f64) -> f64 {
        let theory = cell.margin(grip).unwrap();
        for (stiffness, is_calm) in [(theory * (1.0 - within), true), (theory * (1.0 + within), false)] {
            let rest = cell.rest(grip, [stiffness, DAMPING], Search::EXACT);
            assert_eq!(rest.is_calm(), Some(is_calm), "{:?}: {stiffness} N/m, {grip:?}", cell.different);
        }
        theory
    }

    #[test]
    fn position_force_is_calm_to_where_the_margin_of_its_loop_says() {
        let cells = map(LawSpec::PositionForce, 16, false).cells().unwrap();
        Touch::GRIPS.iter().for_each(|grip| _ = is_calm_to_the_margin(&cells[0], *grip, 0.02));
    }

    #[test]
    fn time_domain_passivity_is_calm_over_40_ms_where_little_of_it_is_felt() {
        let tdpa = LawSpec::Tdpa(crate::scenario::Tdpa::default());
        let point = map(tdpa, 40, false).make(&|_| {}).unwrap().points.remove(0);
        assert_eq!(point.calm_to_n_m, Some(RANGE[1]), "{point:?}");
        assert!(point.felt_to_n_m.is_none_or(|felt| felt < 1_000.0), "{point:?}");
        assert!(point.felt_percent.is_some_and(|percent| (5.0..90.0).contains(&percent)), "{point:?}");
    }

    /// Filters and amplifiers are linear, so that the margin of the loop says what they cost.
    #[test]
    fn what_lags_costs_position_force_what_the_margin_says() {
        const LINEAR: [&str; 4] =
            ["velocity filter 5 ms", "amplifier 2 ms", "arm's amplifier 2 ms", "device damps with 5 N s/m"];
        let is_linear = |cell: &Cell| cell.different.is_none_or(|name| LINEAR.contains(&name));
        let cells: Vec<Cell> =
            map(LawSpec::PositionForce, 10, true).cells().unwrap().into_iter().filter(is_linear).collect();
        assert_eq!(cells.len(), 1 + LINEAR.len());
        let mut plain = None;
        for cell in cells {
            let theory = is_calm_to_the_margin(&cell, Touch::GRIPS[0], 0.03);
            let different = cell.different;
            assert!(plain.is_none_or(|plain: f64| (theory / plain - 1.0).abs() > 0.02), "{different:?}");
            plain.get_or_insert(theory);
        }
    }
}
