//! How few messages a law needs: what may be kept at the sender with the rest still calm, and which are worth a copy.
//!
//! Hand and arm are coupled over a line of constant delay; the hand of a person who trembles comes, presses, rests and goes for a
//! minute. What is kept is decided by a deadband alone, or by the deadband and the work of holding ([`Worth`](taut_agent::control::Worth)).
//! What a saving costs is told against the same minute with every message: how far the force on the hand and the place of the arm are apart.
//!
//! Copies: a line that loses messages in bursts, and a second one alike. The messages of a sender whose reserve is spent soon are copied,
//! and, for comparison, as many by chance.

use taut_agent::OperatorDevice;
use taut_agent::control::Motion;
use taut_core::{Duration, Seed};
use taut_qos::touch::{Mass, Thing, Touch};
use taut_report::result::{CopyPoint, SavingPoint, SavingResult};
use taut_session::State;

use crate::hand::SimulatedHand;
use crate::map::{self, Map};
use crate::metrics::Watch;
use crate::run::Control;
use crate::run::ends::{Copies, Ends, Losses, Messages, Saving};
use crate::run::line::Line;
use crate::scenario::{Environment, LawSpec, Scenario, ScenarioError, Surface, Teleop};

/// How long hand and arm are watched.
const TIME: Duration = Duration::from_secs(60);
/// The hand's rests.
const REST: Duration = Duration::from_secs(2);
/// Weber's fractions that are tried, and shares of the reserve.
const FRACTIONS: [f64; 6] = [0.05, 0.1, 0.2, 0.4, 0.8, f64::INFINITY];
const SHARES: [f64; 3] = [0.02, 0.1, 0.5];
/// Copies: of a sender that has spent its reserve within so many milliseconds, over lines that lose so much in bursts of so many.
const SPENT_MS: [u64; 4] = [10, 30, 100, 300];
const LOST: f64 = 0.05;
const BURST: f64 = 20.0;
const SEEDS: u64 = 8;

/// What is measured: each law on foam, spring and wall over each round trip.
#[derive(Clone, Debug)]
pub struct Savings {
    /// The laws. Those that are not [passive](taut_agent::control::Law::is_passive) are left out: they lead by where hand and arm are, of which the
    /// velocity and the force that are watched say nothing.
    pub laws: Vec<LawSpec>,
    /// Of the network.
    pub round_trips: Vec<Duration>,
}

/// One law on one thing over one line.
struct Cell {
    teleop: Teleop,
    thing: Thing,
    periods: usize,
    round_trip: Duration,
}

/// One minute.
struct Minute {
    /// On the hand, N, and where the arm is, m.
    trace: Vec<([f64; 3], [f64; 3])>,
    messages: Messages,
    calm: bool,
    ripple_percent: Option<f64>,
}

impl Minute {
    /// Root mean square of the force on the hand from that of another, N, and of the arm, mm.
    fn apart(&self, other: &Self) -> [f64; 2] {
        let square = |a: [f64; 3], b: [f64; 3]| a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>();
        let (mut felt, mut arm) = (0.0, 0.0);
        for (mine, other) in self.trace.iter().zip(&other.trace) {
            felt += square(mine.0, other.0);
            arm += square(mine.1, other.1);
        }
        let count = self.trace.len().max(1) as f64;
        [(felt / count).sqrt(), 1e3 * (arm / count).sqrt()]
    }

    fn share(&self, of: u64) -> f64 {
        100.0 * of as f64 / self.messages.made.max(1) as f64
    }
}

impl Savings {
    /// Measures it on all cores; the same on every machine. `progress` is told the share that is done, from several threads.
    ///
    /// # Errors
    /// Never, but by a mistake in this module.
    pub fn make(&self, progress: &(dyn Fn(f64) + Sync)) -> Result<SavingResult, ScenarioError> {
        let cells = self.cells()?;
        let each = |number: usize| (cells[number].savings(), cells[number].copies());
        let found = map::on_all_cores(cells.len(), progress, each);
        let (savings, copies): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        Ok(SavingResult { savings: savings.concat(), copies: copies.concat() })
    }

    fn cells(&self) -> Result<Vec<Cell>, ScenarioError> {
        let base = Scenario::parse("map", map::BASE)?.teleop;
        let mut cells = Vec::new();
        let with = |law| Some(Teleop { law, ..base.clone()? });
        let is_passive = |teleop: &Teleop| teleop.coupling().is_some_and(|law| law.is_passive());
        for teleop in self.laws.iter().copied().filter_map(with).filter(is_passive) {
            for thing in Thing::ALL {
                for &round_trip in &self.round_trips {
                    let surface = Surface {
                        stiffness: Some(thing.surface().stiffness),
                        damping: Some(thing.surface().damping),
                        friction: Some(0.0),
                        ..Surface::DEFAULT
                    };
                    let environment = Environment::Wall(surface);
                    let teleop = Teleop { environment, rest: REST, tremor: true, ..teleop.clone() };
                    let (periods, round_trip) = Map::periods(&teleop, round_trip);
                    cells.push(Cell { teleop, thing, periods, round_trip });
                }
            }
        }
        Ok(cells)
    }
}

impl Cell {
    fn minute(
        &self,
        grip: Mass,
        saving: Saving,
        losses: Losses,
        copies: Copies,
        seed: Seed,
    ) -> Option<Minute> {
        let teleop = Teleop { grip, ..self.teleop.clone() };
        let line = Line { periods: self.periods, ..Line::default() };
        let ends = Ends { teleop: &teleop, line, losses, saving, copies, seed };
        // The person is the same whatever is lost.
        let mut hand = SimulatedHand::of_run(&teleop, Seed::new(1));
        let begins_at = hand.position();
        let mut control = Control::new(&teleop, Seed::new(1), Watch::all_of(TIME));
        control.moves(true);
        let mut trace = Vec::new();
        let wide = |vector: [f32; 3]| vector.map(f64::from);
        let moved = |now, felt: &[f64; 3]| {
            hand.feel(now, &State { force: felt.map(|part| part as f32), ..State::at(now) });
            let state = hand.sample(now)?.state;
            Some(Motion { position: wide(state.position), velocity: wide(state.velocity) })
        };
        let messages = ends.run(TIME, begins_at, moved, |moment| {
            let Motion { position, velocity } = moment.hand;
            control.device(moment.now, position, velocity, moment.felt);
            control.arm(moment.now, moment.arm.position, moment.met);
            trace.push((moment.felt, moment.arm.position));
        })?;
        let touch = control.to_result(&teleop)?.touch?;
        Some(Minute { trace, messages, calm: touch.calm == Some(true), ripple_percent: touch.ripple_percent })
    }

    /// Only where every message keeps it calm: what is saved beside a rattle is worth nothing.
    fn savings(&self) -> Vec<SavingPoint> {
        let of = |saving| -> Option<Vec<Minute>> {
            let minute = |grip| self.minute(grip, saving, Losses::default(), Copies::None, Seed::new(1));
            Touch::GRIPS.into_iter().map(minute).collect()
        };
        let Some(every) = of(Saving::Every).filter(|every| every.iter().all(|minute| minute.calm)) else {
            return Vec::new();
        };
        let deadbands = FRACTIONS.map(Saving::Deadband);
        let works = FRACTIONS.iter().flat_map(|k| SHARES.map(|eta| Saving::Work(*k, eta)));
        let fewer = deadbands.into_iter().chain(works);
        let fewer = fewer.filter_map(|saving| Some(self.saving(saving, &of(saving)?, &every)));
        std::iter::once(self.saving(Saving::Every, &every, &every)).chain(fewer).collect()
    }

    fn saving(&self, saving: Saving, found: &[Minute], every: &[Minute]) -> SavingPoint {
        let worst = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, f64::max);
        let apart: Vec<_> = found.iter().zip(every).map(|(minute, every)| minute.apart(every)).collect();
        let (k, eta) = match saving {
            Saving::Every => (None, None),
            Saving::Deadband(k) => (Some(k), None),
            Saving::Work(k, eta) => (Some(k), Some(eta)),
        };
        SavingPoint {
            law: self.teleop.law.name().to_owned(),
            thing: self.thing.name().to_owned(),
            rtt_ms: self.round_trip.as_millis_f64(),
            k,
            eta,
            sent_percent: worst(&mut found.iter().map(|minute| minute.share(minute.messages.sent))),
            calm: found.iter().all(|minute| minute.calm),
            ripple_percent: found.iter().filter_map(|minute| minute.ripple_percent).reduce(f64::max),
            felt_apart_n: worst(&mut apart.iter().map(|apart| apart[0])),
            arm_apart_mm: worst(&mut apart.iter().map(|apart| apart[1])),
        }
    }

    /// At the wall, in the middle grip.
    fn copies(&self) -> Vec<CopyPoint> {
        if self.thing != Thing::Wall {
            return Vec::new();
        }
        let losses = Losses { share: LOST, burst: BURST };
        let of =
            |losses, copies, seed| self.minute(Touch::HAND, Saving::Every, losses, copies, Seed::new(seed));
        let Some(lossless) = of(Losses::default(), Copies::None, 1) else { return Vec::new() };
        let point = |copies, spent_within_ms| {
            let minutes: Option<Vec<_>> = (1..=SEEDS).map(|seed| of(losses, copies, seed)).collect();
            let minutes = minutes?;
            let apart: Vec<_> = minutes.iter().map(|minute| minute.apart(&lossless)).collect();
            let copied = minutes.iter().map(|minute| minute.share(minute.messages.copied)).sum::<f64>();
            Some(CopyPoint {
                law: self.teleop.law.name().to_owned(),
                thing: self.thing.name().to_owned(),
                rtt_ms: self.round_trip.as_millis_f64(),
                spent_within_ms,
                copied_percent: copied / SEEDS as f64,
                felt_apart_n: mean(&apart, 0),
                arm_apart_mm: mean(&apart, 1),
            })
        };
        let mut points: Vec<CopyPoint> = point(Copies::Share(0.0), None).into_iter().collect();
        for ms in SPENT_MS {
            let Some(spent) = point(Copies::Spent(Duration::from_millis(ms)), Some(ms as f64)) else {
                continue;
            };
            let as_many = point(Copies::Share(spent.copied_percent / 100.0), None);
            points.push(spent);
            points.extend(as_many);
        }
        points.extend(point(Copies::Share(1.0), None));
        points
    }
}

/// Of one of the two over the seeds, and its standard error.
fn mean(apart: &[[f64; 2]], which: usize) -> [f64; 2] {
    let count = apart.len() as f64;
    let mean = apart.iter().map(|each| each[which]).sum::<f64>() / count;
    let square = apart.iter().map(|each| (each[which] - mean).powi(2)).sum::<f64>();
    [mean, (square / (count - 1.0).max(1.0) / count).sqrt()]
}
