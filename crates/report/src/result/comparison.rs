//! Sessions over real sockets beside their simulated twins.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Direction, percent};
use super::{Distribution, FlowOwner, FlowPart, FlowResult, Ran, RunResult};

/// Real runs of a scenario, each beside the simulated one with the same variant and seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparisonResult {
    /// The version of taut that made it.
    pub taut: String,
    /// The scenario's title.
    pub title: String,
    /// What the scenario is for.
    pub description: String,
    /// In the order of variants and seeds.
    pub runs: Vec<ComparedRun>,
}

/// One variant with one seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparedRun {
    /// The variant's name; empty where the scenario has none.
    pub variant: String,
    /// The seed.
    pub seed: u64,
    /// The simulated run; absent when it was not asked for.
    pub simulated: Option<SessionSummary>,
    /// The real one.
    pub real: SessionSummary,
}

/// What one run says of its session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionSummary {
    /// Where it ran.
    pub ran: Ran,
    /// From a state's creation to its arrival, all streams together, in milliseconds; absent when none arrived. Of cross traffic alone,
    /// the delay of its first flow.
    pub one_way_ms: Option<Distribution>,
    /// Mean absolute difference of consecutive latencies, in milliseconds.
    pub jitter_ms: Option<f64>,
    /// States that the device made.
    pub made: u64,
    /// Of these, that arrived, per cent.
    pub delivered_percent: Option<f64>,
    /// Of these, that the sender dropped, per cent.
    pub dropped_percent: Option<f64>,
    /// From the first packet to the connected transport, in milliseconds.
    pub handshake_ms: Option<f64>,
    /// Median of the round trips, in milliseconds.
    pub rtt_p50_ms: Option<f64>,
    /// Bytes of states that arrived, of the bytes on the wire there, per cent.
    pub efficiency_percent: Option<f64>,
    /// Of a flow of commands, in time, per cent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_time_percent: Option<f64>,
    /// Of a flow of commands, the longest time without one, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap_ms: Option<f64>,
    /// Of a flow of commands, copies of a message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copies: Option<f64>,
    /// Cross traffic beside it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cross: Vec<CrossSummary>,
    /// What else is known of the flow there, by name: `"emulator_late_p99_us"`.
    pub counters: BTreeMap<String, u64>,
    /// What was not as it must be, in words; empty when all is well.
    pub violations: Vec<String>,
}

/// What one run says of a flow of cross traffic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CrossSummary {
    /// As in the results of a run: `"bulk"`.
    pub name: String,
    /// Wire bits delivered per second after the warm-up.
    pub delivered_bps: f64,
    /// Packets that were dropped, per cent; absent when none was sent.
    pub loss_percent: Option<f64>,
    /// Delay of packets, in milliseconds; absent where nobody saw them, or none arrived.
    pub delay_ms: Option<Distribution>,
}

/// One percentile, simulated and real.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// `"p50"`.
    pub name: &'static str,
    /// In milliseconds.
    pub simulated_ms: f64,
    /// In milliseconds.
    pub real_ms: f64,
}

/// Whether a real median is that of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// Within 10 %, or within 0.2 ms.
    Within,
    /// Beyond both.
    Beyond,
    /// One of the two is missing.
    Unknown,
}

/// Of the simulated value.
const WITHIN_SHARE: f64 = 0.1;
const WITHIN_MS: f64 = 0.2;

impl Comparison {
    /// Real less simulated, in milliseconds.
    pub fn difference_ms(&self) -> f64 {
        self.real_ms - self.simulated_ms
    }

    /// Is the difference at most 10 % of the simulated value, or at most 0.2 ms?
    pub fn is_within(&self) -> bool {
        let difference = self.difference_ms().abs();
        difference <= WITHIN_MS || difference <= WITHIN_SHARE * self.simulated_ms
    }
}

impl ComparedRun {
    /// The two of a variant with a seed.
    pub fn new(variant: &str, simulated: Option<&RunResult>, real: &RunResult) -> Self {
        Self {
            variant: variant.to_owned(),
            seed: real.seed,
            simulated: simulated.map(SessionSummary::of),
            real: SessionSummary::of(real),
        }
    }

    /// p50, p90, p99 and p99.9 side by side; none when one of the runs delivered nothing.
    pub fn percentiles(&self) -> Vec<Comparison> {
        let simulated = self.simulated.as_ref().and_then(|run| run.one_way_ms.as_ref());
        let (Some(simulated), Some(real)) = (simulated, &self.real.one_way_ms) else { return Vec::new() };
        let of = |name, percentile: fn(&Distribution) -> f64| Comparison {
            name,
            simulated_ms: percentile(simulated),
            real_ms: percentile(real),
        };
        vec![of("p50", |d| d.p50), of("p90", |d| d.p90), of("p99", |d| d.p99), of("p99.9", |d| d.p999)]
    }

    /// Whether the median is that of the model.
    pub fn median(&self) -> Difference {
        match self.percentiles().first() {
            None => Difference::Unknown,
            Some(median) if median.is_within() => Difference::Within,
            Some(_) => Difference::Beyond,
        }
    }
}

impl ComparisonResult {
    /// Every median is within 10 % or 0.2 ms of the model's, where there is one.
    pub fn agrees(&self) -> bool {
        let compared = |run: &&ComparedRun| run.simulated.is_some();
        self.runs.iter().filter(compared).all(|run| run.median() == Difference::Within)
    }
}

impl CrossSummary {
    /// Of what goes there; of its acknowledgements and reports nothing.
    fn of(flow: &FlowResult) -> Option<Self> {
        let is_data = matches!(flow.owner, FlowOwner::Cross { part: FlowPart::Data, .. });
        is_data.then(|| Self {
            name: flow.name.clone(),
            delivered_bps: flow.delivered_bps,
            loss_percent: flow.loss_percent,
            delay_ms: flow.delay_ms.clone(),
        })
    }
}

impl SessionSummary {
    fn of(run: &RunResult) -> Self {
        let haptic = run.media.iter().find(|medium| {
            medium.direction == Direction::Forward && medium.medium == taut_core::Medium::Haptic.name()
        });
        let flow = run.flows.first();
        let teleop = run.teleop.as_ref();
        let commands = run.commands.as_ref();
        let made = teleop.map_or(0, |teleop| teleop.made) + commands.map_or(0, |commands| commands.sent);
        let dropped = teleop.map_or(0, |teleop| {
            teleop.streams.iter().flat_map(|stream| stream.dropped.values()).sum::<u64>()
        });
        let cross: Vec<CrossSummary> = run.flows.iter().filter_map(CrossSummary::of).collect();
        Self {
            ran: run.ran,
            one_way_ms: match commands {
                Some(commands) => commands.latency_ms.clone(),
                None if run.media.is_empty() => cross.first().and_then(|flow| flow.delay_ms.clone()),
                None => haptic.and_then(|haptic| haptic.delay_ms.clone()),
            },
            in_time_percent: commands.and_then(|commands| commands.in_time_percent),
            gap_ms: commands.and_then(|commands| commands.gap_ms),
            copies: commands.and_then(|commands| commands.copies),
            jitter_ms: haptic.and_then(|haptic| haptic.jitter_ms.as_ref()).map(|jitter| jitter.mean),
            made,
            delivered_percent: match commands {
                Some(commands) => commands.received_percent,
                None => teleop.and_then(|teleop| teleop.delivered_percent),
            },
            dropped_percent: percent(dropped, made),
            handshake_ms: teleop.and_then(|teleop| teleop.handshake_ms),
            rtt_p50_ms: teleop.and_then(|teleop| teleop.rtt_ms.as_ref()).map(|rtt| rtt.p50),
            efficiency_percent: teleop.and_then(|teleop| teleop.wire[0].efficiency_percent),
            counters: flow.map(|flow| flow.counters.clone()).unwrap_or_default(),
            violations: run.conservation.violations.clone(),
            cross,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_or_a_fifth_of_a_millisecond_is_near_enough() {
        let within = |simulated_ms, real_ms| Comparison { name: "p50", simulated_ms, real_ms }.is_within();
        assert!(within(0.3, 0.49) && !within(0.3, 0.51), "0.2 ms where the delay is short");
        assert!(within(35.0, 38.4) && !within(35.0, 38.6), "10 % where it is long");
        assert!(within(35.0, 31.6) && !within(35.0, 31.4), "either way");
    }
}
