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
        let mut values: Vec<f64> = set.points.iter().map(|point| of(&point.condition)).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        let (least, most) = (values[0], values[values.len() - 1]);
        let wanted = of(network);
        let varied = least < most;
        // What a set beside the grid does not vary at all, the grid does; jitter and bursts, a set beside it.
        let speaks = varied || !(extra(set) || matches!(i, BURST | JITTER));
        let outside = match i {
            // More rate than was measured is no worse.
            RATE => wanted < least && speaks,
            BURST | JITTER => wanted > most && speaks,
            _ => wanted > most,
        };
        let below = values.iter().copied().filter(|value| *value <= wanted).reduce(f64::max);
        let above = values.iter().copied().filter(|value| *value >= wanted).reduce(f64::min);
        if outside {
            found.beyond.push(format!(
                "{name} {wanted} {unit} is outside of {least} to {most} {unit} of {}",
                set.scenario
            ));
            let edge = change(nearest);
            *edge = if i == RATE { edge.max(least) } else { edge.min(most) };
        } else if speaks && below != above {
            let (quantity, unit, scenario) = ((*name).into(), (*unit).into(), set.scenario.clone());
            found.between.push(Between { quantity, unit, asked: wanted, below, above, scenario });
        }
        cell.push(below.into_iter().chain(above).collect());
    }
    let corner = |point: &Point| {
        let mut dimensions = DIMENSIONS.iter().zip(&cell);
        dimensions.all(|((_, _, of, _), near)| near.iter().any(|value| same(*value, of(&point.condition))))
    };
    let at = |(point, _): (usize, &Point)| Cited { set: index, point };
    found.corners = set.points.iter().enumerate().filter(|(_, point)| corner(point)).map(at).collect();
    found
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
