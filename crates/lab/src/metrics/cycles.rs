//! The cycles of TCP's window, of one flow or of several together, and how far the delay beside it falls in each.

use std::collections::{BTreeMap, BTreeSet};

use taut_core::{Address, Duration, FlowId, Time};

use super::distribution::Moments;
use super::observer::Watch;
use crate::scenario::Direction;
use taut_report::result::{CycleResult, MOST_LOSSES};

/// Which flows, and the delay of which direction's haptic samples.
#[derive(Clone, Debug)]
pub(crate) struct CycleWatch {
    /// The nodes that send, and report `in_recovery`, by the flows whose losses count.
    pub(crate) senders: BTreeMap<FlowId, Address>,
    /// The direction whose delay is watched.
    pub(crate) direction: Direction,
}

/// What the cycles of a run have in common.
#[derive(Clone, Debug, Default)]
pub(crate) struct CycleSummary {
    /// Mean of the smallest delay in each, in milliseconds; `None` without any cycle.
    pub(crate) floor_ms: Option<f64>,
    /// Mean of the largest delay in each, in milliseconds; `None` without any cycle.
    pub(crate) ceiling_ms: Option<f64>,
    /// By their losses.
    pub(crate) by_losses: Vec<CycleResult>,
}

/// A cycle runs from when a flow begins to recover while no other does to when that happens next.
#[derive(Clone, Debug)]
pub(super) struct Cycles {
    watched: CycleWatch,
    watch: Watch,
    /// Lost since the cycle before began to recover: what the next recovery repairs.
    losses: u64,
    recovering: BTreeSet<Address>,
    current: Option<Cycle>,
    floors: Moments,
    ceilings: Moments,
    by_losses: BTreeMap<u64, Group>,
}

#[derive(Clone, Copy, Debug)]
struct Cycle {
    begun: Time,
    losses: u64,
    /// Smallest and largest delay so far.
    delays: Option<(Duration, Duration)>,
    recovered: Option<Duration>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Group {
    floor: Moments,
    ceiling: Moments,
    recovery: Moments,
}

impl Cycles {
    pub(super) fn new(watched: CycleWatch, watch: Watch) -> Self {
        let (floors, ceilings, by_losses) = Default::default();
        Self {
            watched,
            watch,
            losses: 0,
            recovering: BTreeSet::new(),
            current: None,
            floors,
            ceilings,
            by_losses,
        }
    }

    pub(super) fn dropped(&mut self, flow: FlowId) {
        if !self.watched.senders.contains_key(&flow) {
            return;
        }
        match &mut self.current {
            // Sent before the sender knew: this recovery repairs it as well.
            Some(cycle) if !self.recovering.is_empty() => cycle.losses += 1,
            _ => self.losses += 1,
        }
    }

    pub(super) fn delivered(&mut self, direction: Direction, delay: Duration) {
        if direction == self.watched.direction
            && let Some(cycle) = &mut self.current
        {
            let (least, most) = cycle.delays.unwrap_or((delay, delay));
            cycle.delays = Some((least.min(delay), most.max(delay)));
        }
    }

    pub(super) fn gauge(&mut self, now: Time, node: Address, name: &str, value: f64) {
        if name != "in_recovery" || !self.watched.senders.values().any(|sender| *sender == node) {
            return;
        }
        let was_recovering = !self.recovering.is_empty();
        if value > 0.0 {
            self.recovering.insert(node);
        } else if self.recovering.remove(&node)
            && self.recovering.is_empty()
            && let Some(cycle) = &mut self.current
        {
            cycle.recovered = Some(now.saturating_since(cycle.begun));
        }
        if was_recovering || self.recovering.is_empty() {
            return;
        }
        let next =
            Cycle { begun: now, losses: std::mem::take(&mut self.losses), delays: None, recovered: None };
        if let Some(Cycle { begun, losses, delays: Some((floor, ceiling)), recovered: Some(recovered) }) =
            self.current.replace(next)
            && self.watch.counts(begun)
        {
            let (floor, ceiling) = (floor.as_millis_f64(), ceiling.as_millis_f64());
            self.floors.record(floor);
            self.ceilings.record(ceiling);
            let group = self.by_losses.entry(losses.min(MOST_LOSSES)).or_default();
            group.floor.record(floor);
            group.ceiling.record(ceiling);
            group.recovery.record(recovered.as_millis_f64());
        }
    }

    pub(super) fn to_result(&self) -> CycleSummary {
        let row = |(losses, group): (&u64, &Group)| {
            Some(CycleResult {
                losses: *losses,
                cycles: group.floor.count,
                floor_mean_ms: group.floor.mean()?,
                floor_min_ms: group.floor.min,
                ceiling_mean_ms: group.ceiling.mean()?,
                recovery_mean_ms: group.recovery.mean()?,
            })
        };
        CycleSummary {
            floor_ms: self.floors.mean(),
            ceiling_ms: self.ceilings.mean(),
            by_losses: self.by_losses.iter().filter_map(row).collect(),
        }
    }
}
