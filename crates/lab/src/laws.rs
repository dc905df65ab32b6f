//! With which control law a network is touched through, and how stiff a thing stays calm.
//!
//! Position–force has a theory, the margin of its loop ([`Touch::critical_stiffness`]), and shows all of a thing. Waves have one where
//! nothing is lost and every message takes as long: they are passive, so that all is calm, and show k/(1 + kT/(2b)) of it
//! ([`shown_by_waves`]). What has none, time-domain passivity, and waves over a line that loses, jitters or swings, is pressed as the
//! [`map`] presses, to a fifth, and [led](crate::transparency) at 0.5 Hz. Walls and grips are the map's.

use std::fmt;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use taut_core::{Duration, Probability};
use taut_qos::touch::{Surface as Touched, Thing, Touch, shown_by_waves};

use crate::map::{self, BASE, DAMPING, RANGE};
use crate::run::line::Line;
use crate::scenario::{Environment, LawSpec, Scenario, Surface, Tdpa, Teleop, Wave};
use crate::transparency;

/// What is simulated costs the more the shorter the period is.
const PERIODS: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(50)];
/// A line whose delay differs by no more is even: that is how figures are rounded.
const EVEN: Duration = Duration::from_micros(1);
/// Laws that show less than this part more than another are alike.
const ALIKE: f64 = 0.1;

/// A network, and what is touched through it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Touching {
    /// The network's shortest and longest round trip.
    pub round_trips: [Duration; 2],
    /// From one state, and one force, to the next; taken as 1 to 50 ms.
    pub period: Duration,
    /// By so much consecutive messages are late by chance, each way.
    pub jitter: Duration,
    /// Of the messages, each way.
    pub loss: Probability,
    /// What has to be calm; without, whatever is.
    pub thing: Option<Thing>,
}

/// What each law does over it, and which to take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LawAdvice {
    /// The network's shortest and longest round trip, in milliseconds.
    pub rtt_ms: [f64; 2],
    /// Each way, in milliseconds.
    pub jitter_ms: f64,
    /// Each way, per cent.
    pub loss_percent: f64,
    /// The softest and the stiffest wall that there is, N/m.
    pub range_n_m: [f64; 2],
    /// What has to be calm; absent: whatever is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thing: Option<Thing>,
    /// What it shows behind the arm without delay, N/m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thing_n_m: Option<f64>,
    /// Position–force, waves, time-domain passivity.
    pub laws: Vec<LawTold>,
    /// Which to take; absent where none keeps it calm.
    pub taken: Option<String>,
    /// Why, in a line.
    pub why: String,
}

/// One law.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LawTold {
    /// `"wave"`.
    pub law: String,
    /// The stiffest wall up to which all that the arm presses against are calm in every grip, and push the hand with half of what the arm meets and more, N/m; absent where
    /// not even the softest does.
    pub calm_and_felt_to_n_m: Option<f64>,
    /// The softest wall of which that was seen, N/m: a softer one that was tried is not pressed against, for the hand meets too much on its way. Absent where the softest of all
    /// is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calm_and_felt_from_n_m: Option<f64>,
    /// Is the thing calm in every grip, and felt by half, and all that is softer? Absent where none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calm: Option<bool>,
    /// What the hand feels of the thing, or of the stiffest wall that is calm, N/m; absent where that is not calm.
    pub felt_n_m: Option<f64>,
    /// Where that is from.
    pub by: By,
}

/// Where a figure is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// A closed form.
    Theory,
    /// Hand and arm, simulated over a line as the network is.
    Simulation,
}

impl Touching {
    /// Presses and leads where there is no theory: 40 s and more in virtual time for each wall and grip. The same on every machine.
    pub fn advise(&self) -> LawAdvice {
        let base = Scenario::parse("map", BASE).ok().and_then(|base| base.teleop);
        let base = base.expect("the map's base is a session, and its test reads it");
        let teleop = Teleop { period: self.period.clamp(PERIODS[0], PERIODS[1]), ..base };
        let wave = Wave::default();
        let mut laws = vec![self.position_force(teleop.period)];
        let simulated = [LawSpec::Wave(wave), LawSpec::Tdpa(Tdpa::default())];
        let told: Vec<LawTold> = simulated
            .into_par_iter()
            .map(|law| match law {
                LawSpec::Wave(wave) if self.line(teleop.period).is_even() => {
                    self.even_wave(wave, teleop.period)
                }
                law => self.simulated(&Teleop { law, ..teleop.clone() }),
            })
            .collect();
        laws.extend(told);
        let (taken, why) = self.choice(&laws);
        LawAdvice {
            rtt_ms: self.round_trips.map(Duration::as_millis_f64),
            jitter_ms: self.jitter.as_millis_f64(),
            loss_percent: self.loss.as_fraction() * 100.0,
            range_n_m: RANGE,
            thing: self.thing,
            thing_n_m: self.thing.map(|thing| shown(thing.surface())),
            laws,
            taken,
            why,
        }
    }

    /// Sampling and holding take a period more, half of one at each end. What jitters by part of a period is a whole one late now and then. A
    /// round trip that swings, as that of a queue, counts as jitter.
    fn line(&self, period: Duration) -> Line {
        let periods = |time: Duration| time.as_secs_f64() / period.as_secs_f64();
        let swing = self.round_trips[1].saturating_sub(self.round_trips[0]) / 2;
        let spread = self.jitter.max(swing).saturating_sub(EVEN);
        let longest = periods(self.round_trips[1]).round() as usize;
        let spread = (periods(spread).ceil() as usize).min(longest / 2);
        Line { periods: longest + 1 - 2 * spread, spread, loss: self.loss }
    }

    fn position_force(&self, period: Duration) -> LawTold {
        let round_trips = self.round_trips.map(|round_trip| round_trip + period);
        let grips = |surface| Touch::GRIPS.map(|hand| Touch { hand, ..Touch::of(surface) });
        let least = grips(Touched { stiffness: RANGE[0], damping: DAMPING }).iter().try_fold(
            RANGE[1],
            |most, touch| {
                let critical = touch.critical_stiffness(round_trips, most).unwrap_or(most);
                (critical > RANGE[0]).then_some(critical)
            },
        );
        let calm = self.thing.map(|thing| {
            let least = |touch: &Touch| touch.critical_stiffness(round_trips, touch.surface.stiffness);
            grips(thing.surface()).iter().all(|touch| least(touch).is_none())
        });
        LawTold {
            law: LawSpec::PositionForce.name().to_owned(),
            calm_and_felt_to_n_m: least,
            calm_and_felt_from_n_m: None,
            calm,
            felt_n_m: self.looked_at(least, calm).map(shown),
            by: By::Theory,
        }
    }

    fn even_wave(&self, wave: Wave, period: Duration) -> LawTold {
        let (all, round_trip) = (Some(RANGE[1]), self.round_trips[1] + period);
        let calm = self.thing.map(|_| true);
        let felt = |surface| shown_by_waves(shown(surface), round_trip, wave.impedance);
        LawTold {
            law: LawSpec::Wave(wave).name().to_owned(),
            calm_and_felt_to_n_m: all,
            calm_and_felt_from_n_m: None,
            calm,
            felt_n_m: self.looked_at(all, calm).map(felt),
            by: By::Theory,
        }
    }

    fn simulated(&self, teleop: &Teleop) -> LawTold {
        let line = self.line(teleop.period);
        let range = map::calm_and_felt(teleop, line);
        let calm_and_felt_to_n_m = range.map(|[_, to]| to);
        let calm = self.thing.map(|thing| {
            let Touched { stiffness, damping } = thing.surface();
            calm_and_felt_to_n_m >= Some(stiffness)
                && map::is_calm_in_every_grip(teleop, line, [stiffness, damping])
        });
        let felt = |Touched { stiffness, damping }| {
            let wall = Surface {
                stiffness: Some(stiffness),
                damping: Some(damping),
                friction: Some(0.0),
                ..Surface::DEFAULT
            };
            let teleop = Teleop { environment: Environment::Wall(wall), ..teleop.clone() };
            transparency::slowly(&teleop, line)
        };
        LawTold {
            law: teleop.law.name().to_owned(),
            calm_and_felt_to_n_m,
            calm_and_felt_from_n_m: range.map(|[from, _]| from).filter(|from| *from > RANGE[0]),
            calm,
            felt_n_m: self.looked_at(calm_and_felt_to_n_m, calm).and_then(felt),
            by: By::Simulation,
        }
    }

    /// What is felt, where it is calm: the thing, or else the stiffest wall.
    fn looked_at(&self, calm_to: Option<f64>, calm: Option<bool>) -> Option<Touched> {
        match self.thing {
            Some(thing) => (calm == Some(true)).then(|| thing.surface()),
            None => calm_to.map(|stiffness| Touched { stiffness, damping: DAMPING }),
        }
    }

    /// Position–force where it keeps the thing calm; else which shows most, and of those alike the first.
    fn choice(&self, laws: &[LawTold]) -> (Option<String>, String) {
        let whole = LawSpec::PositionForce.name();
        let what = self.thing.map_or("wall", Thing::name);
        let felt = |told: &LawTold| told.felt_n_m.unwrap_or(f64::NEG_INFINITY);
        let most = laws.iter().map(felt).fold(f64::NEG_INFINITY, f64::max);
        let first = laws.iter().find(|told| told.felt_n_m.is_some() && felt(told) >= (1.0 - ALIKE) * most);
        let Some(first) = first else {
            return (None, format!("no law keeps a {what} calm in every grip"));
        };
        if laws.iter().any(|told| told.law == whole && told.calm == Some(true)) {
            let why = format!("it keeps the {what} calm in every grip and shows all of it");
            return (Some(whole.to_owned()), why);
        }
        let most = felt(first);
        let why = match self.thing {
            Some(thing) => format!(
                "{whole} does not keep the {what} calm in every grip; of those that do it shows most, to a tenth: {most:.0} of {:.0} N/m",
                shown(thing.surface())
            ),
            None => {
                format!("of what each law keeps calm in every grip, it shows most, to a tenth: {most:.0} N/m")
            }
        };
        (Some(first.law.clone()), why)
    }
}

/// Behind the arm's controller and without delay, N/m.
fn shown(surface: Touched) -> f64 {
    Touch::of(surface).shown(0.0)[0]
}

impl LawAdvice {
    /// Does a law keep calm what has to be?
    pub const fn is_met(&self) -> bool {
        self.thing.is_none() || self.taken.is_some()
    }
}

impl fmt::Display for LawAdvice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            rtt_ms: [shortest, longest], jitter_ms, loss_percent, range_n_m: [softest, stiffest], ..
        } = self;
        writeln!(
            f,
            "control laws, round trip {shortest:.1} to {longest:.1} ms, jitter {jitter_ms:.1} ms, {loss_percent:.1} % lost; calm in every grip:"
        )?;
        for told in &self.laws {
            let all = if told.by == By::Theory { "all" } else { "all that were tried" };
            let from =
                told.calm_and_felt_from_n_m.map_or_else(String::new, |from| format!(" from {from:.0}"));
            let calm_to = match told.calm_and_felt_to_n_m {
                None => format!("no wall from {softest:.0} N/m on"),
                Some(calm) if calm >= *stiffest => format!("walls{from} to {stiffest:.0} N/m, {all}"),
                Some(calm) => format!("walls{from} to {calm:.0} N/m"),
            };
            let thing = match (self.thing, self.thing_n_m, told.felt_n_m) {
                (Some(thing), Some(truth), Some(felt)) => {
                    format!("{} felt as {felt:.0} of {truth:.0} N/m", thing.name())
                }
                (Some(thing), ..) => format!("{} not calm", thing.name()),
                (None, _, felt) => {
                    felt.map_or_else(String::new, |felt| format!("the stiffest felt as {felt:.0} N/m"))
                }
            };
            let by = match told.by {
                By::Theory => "by theory",
                By::Simulation => "simulated, of one seed",
            };
            writeln!(f, "  {:<15} {calm_to:<48}  {thing:<32} {by}", told.law)?;
        }
        match &self.taken {
            Some(law) => write!(f, "  Take {law}: {}", self.why),
            None => write!(f, "  Take none: {}", self.why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touching(ms: u64, thing: Thing) -> Touching {
        Touching {
            round_trips: [Duration::from_millis(ms); 2],
            period: PERIODS[0],
            jitter: Duration::ZERO,
            loss: Probability::default(),
            thing: Some(thing),
        }
    }

    #[test]
    fn position_force_is_taken_where_it_is_calm_and_waves_beyond() {
        let period = Duration::from_millis(1);
        let told = |ms, thing| {
            let asked = touching(ms, thing);
            let laws = [asked.position_force(period), asked.even_wave(Wave::default(), period)];
            (asked.choice(&laws).0.unwrap(), laws)
        };
        let (near, laws) = told(4, Thing::Foam);
        assert_eq!(
            (near.as_str(), laws[0].felt_n_m),
            ("position_force", Some(shown(Touched::FOAM))),
            "{laws:?}"
        );
        let (far, laws) = told(39, Thing::Wall);
        assert_eq!((far.as_str(), laws[0].calm, laws[0].felt_n_m), ("wave", Some(false), None));
        // k/(1 + kT/(2b)) of 1500 N/m over 40 ms.
        assert!((laws[1].felt_n_m.unwrap() - 750.0).abs() < 1e-9, "{laws:?}");
    }

    #[test]
    fn laws_that_show_nearly_as_much_are_alike_and_the_first_is_taken() {
        let asked = touching(35, Thing::Wall);
        let told = |law: &str, felt_n_m: Option<f64>| LawTold {
            law: law.to_owned(),
            calm_and_felt_to_n_m: felt_n_m,
            calm_and_felt_from_n_m: None,
            calm: Some(felt_n_m.is_some()),
            felt_n_m,
            by: By::Simulation,
        };
        let taken = |wave, tdpa| {
            asked.choice(&[told("position_force", None), told("wave", wave), told("tdpa", tdpa)]).0
        };
        assert_eq!(taken(Some(810.0), Some(830.0)).as_deref(), Some("wave"));
        assert_eq!(taken(Some(700.0), Some(830.0)).as_deref(), Some("tdpa"));
        assert_eq!(taken(None, None), None);
    }

    /// As the map's lightest grip at 16 ms and a period more.
    #[test]
    fn the_stiffest_wall_of_position_force_is_that_of_its_worst_grip() {
        let calm =
            touching(16, Thing::Foam).position_force(Duration::from_millis(1)).calm_and_felt_to_n_m.unwrap();
        let of = |hand| {
            let touch = Touch { hand, ..Touch::of(Touched { stiffness: 0.0, damping: DAMPING }) };
            touch.critical_stiffness([Duration::from_millis(17); 2], RANGE[1])
        };
        let least =
            Touch::GRIPS.map(|hand| of(hand).unwrap_or(RANGE[1])).into_iter().fold(RANGE[1], f64::min);
        assert!((calm / least - 1.0).abs() < 1e-5 && calm > RANGE[0], "{calm} {least}");
    }

    #[test]
    fn jitter_is_taken_out_of_the_longest_round_trip_and_leaves_no_even_line() {
        let asked = Touching { jitter: Duration::from_millis(3), ..touching(20, Thing::Wall) };
        let line = asked.line(Duration::from_millis(1));
        assert_eq!((line.periods, line.spread, line.is_even()), (15, 3, false));
        assert!(touching(20, Thing::Wall).line(Duration::from_millis(1)).is_even());
        let part = Touching { jitter: Duration::from_micros(100), ..touching(20, Thing::Wall) };
        let line = part.line(Duration::from_millis(1));
        assert_eq!((line.periods, line.spread), (19, 1), "part of a period is a period");
    }

    #[test]
    fn waves_have_no_theory_where_the_round_trip_swings() {
        let round_trips = [20, 27].map(Duration::from_millis);
        let line = Touching { round_trips, ..touching(0, Thing::Wall) }.line(Duration::from_millis(1));
        assert_eq!((line.periods, line.spread), (20, 4), "half of 7 ms each way, to a whole period");
        for longest in 0..9 {
            let late = Touching { jitter: Duration::from_millis(9), ..touching(longest, Thing::Wall) };
            let line = late.line(Duration::from_millis(1));
            assert!(
                line.periods > 0 && line.periods + 2 * line.spread == longest as usize + 1,
                "{longest}: {line:?}"
            );
        }
    }
}
