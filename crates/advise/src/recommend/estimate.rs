//! Between measured points: the worse neighbour, never a straight line. Beyond them: no figures, but the nearest network.

use std::collections::BTreeSet;

use crate::evidence::{Carrier, Condition, Evidence, EvidenceSet, Point, ResourceEvidence, Resources, Way};

use super::Between;
use super::need::Need;

/// A measured point: which set, which point of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cited {
    pub(super) set: usize,
    pub(super) point: usize,
}

/// A number, and the point at which it was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Measured {
    /// Infinite where nothing arrived.
    pub(super) value: f64,
    pub(super) at: Cited,
}

/// What a carrier does over a network, at worst.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Estimate {
    pub(super) carrier: Carrier,
    /// 99th percentile of the delay one way: the network's own propagation, and the most that was added to it at any of the
    /// neighbours.
    pub(super) delay_ms: Measured,
    pub(super) jitter_ms: Measured,
    pub(super) lost_percent: Measured,
    pub(super) feedback_lost_percent: Measured,
    pub(super) wire_mbit: Measured,
    pub(super) opened_ms: Measured,
    /// Absent where nobody measured it.
    pub(super) resources: Option<Resources>,
}

/// The estimates for every carrier.
pub(super) struct Estimates {
    pub(super) all: Vec<Estimate>,
    /// What of the network is beyond all that was measured.
    pub(super) beyond: Vec<String>,
    /// The network moved to the edge of all that was measured, where it is beyond.
    pub(super) nearest: Condition,
    /// What of it neighbours stand in for.
    pub(super) between: Vec<Between>,
    /// The scenarios that speak of the network.
    pub(super) scenarios: Vec<String>,
}

type Change = fn(&mut Condition);
type Dimension = (&'static str, &'static str, fn(&Condition) -> f64, fn(&mut Condition) -> &mut f64);

/// What a condition consists of: its name, its unit, how to read it, and how to change it.
const DIMENSIONS: [Dimension; 5] = [
    ("loss", "%", |c| c.loss_percent, |c| &mut c.loss_percent),
    ("bursts", "packets", |c| c.burst, |c| &mut c.burst),
    ("one way", "ms", |c| c.one_way_ms, |c| &mut c.one_way_ms),
    ("jitter", "ms", |c| c.jitter_ms, |c| &mut c.jitter_ms),
    ("rate", "Mbit/s", |c| c.rate_mbit, |c| &mut c.rate_mbit),
];
const BURST: usize = 1;
const ONE_WAY: usize = 2;
const JITTER: usize = 3;
const RATE: usize = 4;

pub(super) fn estimates(evidence: &Evidence, need: &Need) -> Estimates {
    let (mut beyond, mut between) = (Vec::new(), Vec::new());
    let (mut chosen, mut scenarios) = (Vec::new(), Vec::new());
    let mut nearest = need.network;
    for (index, set) in evidence.sets.iter().enumerate() {
        if speaks_of(set, &need.network) {
            let near = neighbours(index, set, &need.network, &mut nearest);
            chosen.extend(near.corners);
            beyond.extend(near.beyond);
            between.extend(near.between);
            scenarios.push(set.scenario.clone());
        }
    }
    let measured = |has: fn(&Condition) -> bool| {
        !has(&need.network)
            || evidence.sets.iter().flat_map(|set| &set.points).any(|point| has(&point.condition))
    };
    let without: [(&str, bool, Change); 3] = [
        ("video beside the session", measured(|c| c.video), |c| c.video = false),
        ("jitter", measured(|c| c.jitter_ms > 0.0), |c| c.jitter_ms = 0.0),
        ("loss in bursts", measured(|c| c.burst > 1.0), |c| c.burst = 1.0),
    ];
    for (what, measured, remove) in without {
        if !measured {
            beyond.push(format!("nothing was measured with {what}"));
            remove(&mut nearest);
        }
    }
    let point = |at: &Cited| &evidence.sets[at.set].points[at.point];
    let carriers: BTreeSet<&Carrier> = chosen.iter().map(|at| &point(at).carrier).collect();
    let resources = ResourceEvidence::shipped().expect("it is built in, and a test reads it");
    let of = |carrier: &Carrier| {
        let points: Vec<(Cited, &Point)> =
            chosen.iter().map(|at| (*at, point(at))).filter(|(_, point)| point.carrier == *carrier).collect();
        let resources = resources.of(carrier).cloned();
        Some(Estimate { resources, ..estimate(carrier, &points, need)? })
    };
    let all = carriers.into_iter().filter_map(of).collect();
    beyond.sort();
    beyond.dedup();
    Estimates { all, beyond, nearest, between, scenarios }
}

/// The set without jitter, bursts and video speaks of every network; one with any of these where the network has it too.
fn speaks_of(set: &EvidenceSet, network: &Condition) -> bool {
    let any = |has: fn(&Condition) -> bool| set.points.iter().any(|point| has(&point.condition));
    let alike = |has: fn(&Condition) -> bool| !any(has) || has(network);
    !set.points.is_empty() && alike(|c| c.jitter_ms > 0.0) && alike(|c| c.burst > 1.0) && alike(|c| c.video)
}

/// A set made beside the grid, for what the grid does not vary.
fn extra(set: &EvidenceSet) -> bool {
    let special = |c: &Condition| c.jitter_ms > 0.0 || c.burst > 1.0 || c.video;
    set.points.iter().any(|point| special(&point.condition))
}

/// What of a set's grid is nearest to a network.
#[derive(Default)]
struct Near {
    /// The corners of the cell in which the network lies.
    corners: Vec<Cited>,
    /// What of it lies outside of the grid.
    beyond: Vec<String>,
    /// What of it lies in the grid, and not at one of its values.
    between: Vec<Between>,
}

/// Where the network is outside, `nearest` is moved to the edge.
fn neighbours(index: usize, set: &EvidenceSet, network: &Condition, nearest: &mut Condition) -> Near {
    let mut found = Near::default();
    let mut cell: Vec<Vec<f64>> = Vec::new();
    for (i, (name, unit, of, change)) in DIMENSIONS.iter().enumerate() {
        let (least, most) = range(set.points.iter(), *of);
        let wanted = of(network);
        let outside = match i {
            // More rate than was measured is no worse.
            RATE => wanted < least && speaks(set, i),
            BURST | JITTER => wanted > most && speaks(set, i),
            _ => wanted > most,
        };
        if outside {
            found.beyond.push(format!(
                "{name} {wanted} {unit} is outside of {least} to {most} {unit} of {}",
                set.scenario
            ));
            let edge = change(nearest);
            *edge = if i == RATE { edge.max(least) } else { edge.min(most) };
        }
        cell.push(around(set.points.iter(), *of, wanted));
    }
    if found.beyond.is_empty() && speaks(set, JITTER) {
        // Not every jitter was measured over every way: what stands in has both.
        let far = || set.points.iter().filter(|point| point.condition.one_way_ms >= network.one_way_ms);
        let jitter = |point: &Point| point.condition.jitter_ms;
        match far().map(jitter).filter(|jitter| *jitter >= network.jitter_ms).reduce(f64::min) {
            Some(worse) => cell[JITTER].push(worse),
            None => {
                let most = far().map(jitter).fold(0.0, f64::max);
                let Condition { jitter_ms, one_way_ms, .. } = network;
                found.beyond.push(format!(
                    "jitter {jitter_ms} ms over {one_way_ms} ms one way is more than {most} ms of {}",
                    set.scenario
                ));
                nearest.jitter_ms = nearest.jitter_ms.min(most);
            }
        }
    }
    let corner = |point: &Point| {
        let mut dimensions = DIMENSIONS.iter().zip(&cell).enumerate();
        dimensions.all(|(i, ((_, _, of, _), near))| {
            let is_at = |near: &[f64]| near.iter().any(|value| same(*value, of(&point.condition)));
            if i != ONE_WAY {
                return is_at(near);
            }
            let jitter = |point: &Point| point.condition.jitter_ms;
            let alike = set.points.iter().filter(|other| same(jitter(other), jitter(point)));
            is_at(&around(alike, *of, network.one_way_ms))
        })
    };
    let corners: Vec<(usize, &Point)> =
        set.points.iter().enumerate().filter(|(_, point)| corner(point)).collect();
    if corners.is_empty() && found.beyond.is_empty() {
        found.beyond.push(format!("no network of {} is near in all that it varies", set.scenario));
    }
    for (_, (name, unit, of, _)) in DIMENSIONS.iter().enumerate().filter(|(i, _)| speaks(set, *i)) {
        let (wanted, values) = (of(network), || corners.iter().map(|(_, point)| of(&point.condition)));
        let below = values().filter(|value| *value <= wanted).reduce(f64::min);
        let above = values().filter(|value| *value >= wanted).reduce(f64::max);
        if below != above {
            let (quantity, unit, scenario) = ((*name).into(), (*unit).into(), set.scenario.clone());
            found.between.push(Between { quantity, unit, asked: wanted, below, above, scenario });
        }
    }
    found.corners = corners.into_iter().map(|(point, _)| Cited { set: index, point }).collect();
    found
}

/// Does a set say how this dimension acts? What a set beside the grid does not vary at all, the grid does; jitter and bursts, a set beside it.
fn speaks(set: &EvidenceSet, dimension: usize) -> bool {
    let (least, most) = range(set.points.iter(), DIMENSIONS[dimension].2);
    match dimension {
        BURST => most > 1.0,
        JITTER => most > 0.0,
        _ => least < most || !extra(set),
    }
}

fn range<'a>(points: impl Iterator<Item = &'a Point>, of: fn(&Condition) -> f64) -> (f64, f64) {
    let values = points.map(|point| of(&point.condition));
    values
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| (least.min(value), most.max(value)))
}

/// The nearest value below and the nearest above, one where it is the value itself.
fn around<'a>(points: impl Iterator<Item = &'a Point>, of: fn(&Condition) -> f64, wanted: f64) -> Vec<f64> {
    let (mut below, mut above) = (None, None);
    for value in points.map(|point| of(&point.condition)) {
        if value <= wanted {
            below = Some(below.map_or(value, |below: f64| below.max(value)));
        }
        if value >= wanted {
            above = Some(above.map_or(value, |above: f64| above.min(value)));
        }
    }
    below.into_iter().chain(above).collect()
}

fn same(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}

fn estimate(carrier: &Carrier, points: &[(Cited, &Point)], need: &Need) -> Option<Estimate> {
    let worst = |of: &dyn Fn(&Point) -> f64| {
        let measured = points.iter().map(|(at, point)| Measured { value: of(point), at: *at });
        measured.reduce(|a, b| if b.value > a.value { b } else { a })
    };
    let ways = |of: &dyn Fn(&Way) -> f64, point: &Point| {
        let there = of(&point.figures.there);
        if need.haptic { there.max(of(&point.figures.back)) } else { there }
    };
    let absent = |value: Option<f64>| value.unwrap_or(f64::INFINITY);
    let added = worst(&|point| ways(&|way| absent(way.p99_ms), point) - point.condition.one_way_ms)?;
    Some(Estimate {
        carrier: carrier.clone(),
        delay_ms: Measured { value: need.network.one_way_ms + added.value, ..added },
        jitter_ms: worst(&|point| ways(&|way| absent(way.jitter_ms), point))?,
        lost_percent: worst(&|point| point.figures.there.lost_percent)?,
        feedback_lost_percent: worst(&|point| point.figures.back.lost_percent)?,
        wire_mbit: worst(&|point| point.figures.wire_mbit)?,
        opened_ms: worst(&|point| absent(point.figures.opened_ms))?,
        resources: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_was_measured_with_jitter_something_no_better_stands_in_for_each_carrier() {
        let evidence = Evidence::shipped().unwrap();
        let ways = [1.0, 8.0, 10.0, 14.0, 20.0, 30.0, 35.0, 40.0, 53.0, 59.0, 70.0, 80.0];
        let jitters = [0.5, 1.0, 2.0, 3.0, 5.0, 10.0];
        let mut sets = 0;
        for (index, set) in evidence.sets.iter().enumerate() {
            let carriers: BTreeSet<&Carrier> = set.points.iter().map(|point| &point.carrier).collect();
            for (one_way_ms, jitter_ms) in
                ways.into_iter().flat_map(|way| jitters.map(|jitter| (way, jitter)))
            {
                let (burst, rate_mbit, video) = (1.0, 10.0, false);
                let asked = Condition { loss_percent: 0.5, burst, one_way_ms, jitter_ms, rate_mbit, video };
                if !speaks_of(set, &asked) || !speaks(set, JITTER) {
                    continue;
                }
                sets += 1;
                let near = neighbours(index, set, &asked, &mut asked.clone());
                assert!(near.beyond.is_empty(), "{asked:?}: {:?}", near.beyond);
                let is_worse = |at: &&Cited| {
                    let Condition { loss_percent, one_way_ms, jitter_ms, .. } =
                        set.points[at.point].condition;
                    loss_percent >= asked.loss_percent
                        && one_way_ms >= asked.one_way_ms
                        && jitter_ms >= asked.jitter_ms
                };
                let stand_in: BTreeSet<&Carrier> =
                    near.corners.iter().filter(is_worse).map(|at| &set.points[at.point].carrier).collect();
                assert_eq!(stand_in, carriers, "{asked:?}");
                let told = near.between.iter().find(|between| between.quantity == "jitter");
                assert!(told.is_none_or(|jitter| jitter.above.is_some()), "{told:?}");
            }
        }
        assert_eq!(sets, ways.len() * jitters.len());
    }

    #[test]
    fn more_jitter_than_was_measured_over_so_long_a_way_is_outside() {
        let mut evidence = Evidence::shipped().unwrap();
        let set = evidence.sets.iter_mut().find(|set| speaks(set, JITTER)).unwrap();
        set.points.retain(|point| point.condition.one_way_ms < 60.0);
        let asked = Condition { one_way_ms: 50.0, jitter_ms: 5.0, ..set.points[0].condition };
        let mut nearest = asked;
        let near = neighbours(0, set, &asked, &mut nearest);
        assert!(near.beyond[0].starts_with("jitter 5 ms over 50 ms one way"), "{:?}", near.beyond);
        assert_eq!(nearest, Condition { jitter_ms: 3.0, ..asked });
        assert!(neighbours(0, set, &nearest.clone(), &mut nearest).beyond.is_empty());
    }
}
