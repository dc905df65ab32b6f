//! Sessions over real sockets beside their simulated twins.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    ControlResult, Distribution, FlowOwner, FlowPart, FlowResult, MediumResult, Ran, RunResult, VideoResult,
};
use super::{Direction, percent};

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
    /// From a state's creation to its arrival, all streams together, in milliseconds; absent when none arrived. Of a session of media,
    /// that of the first of `media`; of cross traffic alone, the delay of its first flow.
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
    /// Of a session with hand and arm, how these went and what was felt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<ControlResult>,
    /// Of a session of media, each of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub media: Vec<MediumSummary>,
    /// Cross traffic beside it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cross: Vec<CrossSummary>,
    /// The videos over RTP among that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub videos: Vec<VideoResult>,
    /// What else is known of the flow there, by name: `"emulator_late_p99_us"`; how punctual the less punctual device was asked,
    /// `"device_late_p99_us"`.
    pub counters: BTreeMap<String, u64>,
    /// What was not as it must be, in words; empty when all is well.
    pub violations: Vec<String>,
}

/// What one run says of a medium.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MediumSummary {
    /// As in the results of a run: `"backward haptic"`.
    pub name: String,
    /// Samples or frames that the device made.
    pub made: u64,
    /// Held back by a sampler on purpose.
    pub withheld: u64,
    /// Of those that were not held back and had the time to arrive, what arrived, per cent; absent when there were none.
    pub delivered_percent: Option<f64>,
    /// From creation to delivery, in milliseconds; absent when none was delivered.
    pub one_way_ms: Option<Distribution>,
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

/// What is compared: all that a session carries, a medium of it, or cross traffic by itself.
#[derive(Clone, Copy, Debug)]
pub struct ComparedStream<'a> {
    /// The medium's name; empty where everything is one.
    pub name: &'a str,
    /// In the simulated run, when there is one.
    pub simulated: Option<Figures<'a>>,
    /// In the real one.
    pub real: Figures<'a>,
}

/// What one run says of a stream.
#[derive(Clone, Copy, Debug)]
pub struct Figures<'a> {
    /// Its latency, in milliseconds; absent when nothing arrived.
    pub one_way_ms: Option<&'a Distribution>,
    /// What arrived, per cent.
    pub delivered_percent: Option<f64>,
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

    /// The simulated one, where there is one, then the real one.
    pub fn both(&self) -> impl Iterator<Item = &SessionSummary> {
        self.simulated.iter().chain([&self.real])
    }

    /// The streams that are compared: each medium, or everything together.
    pub fn streams(&self) -> Vec<ComparedStream<'_>> {
        let simulated = self.simulated.as_ref();
        if self.real.media.is_empty() {
            let simulated = simulated.map(Figures::of_all);
            return vec![ComparedStream { name: "", simulated, real: Figures::of_all(&self.real) }];
        }
        let twin = |name: &str| simulated?.media.iter().find(|medium| medium.name == name).map(Figures::of);
        let media = self.real.media.iter();
        media
            .map(|medium| ComparedStream {
                name: &medium.name,
                simulated: twin(&medium.name),
                real: Figures::of(medium),
            })
            .collect()
    }
}

impl<'a> Figures<'a> {
    fn of_all(run: &'a SessionSummary) -> Self {
        Self { one_way_ms: run.one_way_ms.as_ref(), delivered_percent: run.delivered_percent }
    }

    fn of(medium: &'a MediumSummary) -> Self {
        Self { one_way_ms: medium.one_way_ms.as_ref(), delivered_percent: medium.delivered_percent }
    }
}

impl ComparedStream<'_> {
    /// p50, p90, p99 and p99.9 side by side; none when one of the runs delivered nothing.
    pub fn percentiles(&self) -> Vec<Comparison> {
        let simulated = self.simulated.and_then(|run| run.one_way_ms);
        let (Some(simulated), Some(real)) = (simulated, self.real.one_way_ms) else { return Vec::new() };
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
        let within = |run: &ComparedRun| run.streams().iter().all(|one| one.median() == Difference::Within);
        self.runs.iter().filter(compared).all(within)
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

impl MediumSummary {
    fn of(medium: &MediumResult) -> Self {
        Self {
            name: medium.stream.clone(),
            made: medium.made,
            withheld: medium.withheld,
            delivered_percent: medium.loss_percent.map(|lost| 100.0 - lost),
            one_way_ms: medium.delay_ms.clone(),
        }
    }
}

impl SessionSummary {
    fn of(run: &RunResult) -> Self {
        let media: Vec<MediumSummary> = match (&run.teleop, &run.commands) {
            (None, None) => run.media.iter().map(MediumSummary::of).collect(),
            _ => Vec::new(),
        };
        let haptic = run.media.iter().find(|medium| {
            medium.direction == Direction::Forward && medium.medium == taut_core::Medium::Haptic.name()
        });
        let teleop = run.teleop.as_ref();
        let commands = run.commands.as_ref();
        let made = teleop.map_or(0, |teleop| teleop.made) + commands.map_or(0, |commands| commands.sent);
        let made = media.first().map_or(made, |medium| medium.made);
        let dropped = teleop.map_or(0, |teleop| {
            teleop.streams.iter().flat_map(|stream| stream.dropped.values()).sum::<u64>()
        });
        let cross: Vec<CrossSummary> = run.flows.iter().filter_map(CrossSummary::of).collect();
        Self {
            ran: run.ran,
            one_way_ms: match commands {
                Some(commands) => commands.latency_ms.clone(),
                None if run.media.is_empty() => cross.first().and_then(|flow| flow.delay_ms.clone()),
                None if !media.is_empty() => media[0].one_way_ms.clone(),
                None => haptic.and_then(|haptic| haptic.delay_ms.clone()),
            },
            in_time_percent: commands.and_then(|commands| commands.in_time_percent),
            gap_ms: commands.and_then(|commands| commands.gap_ms),
            copies: commands.and_then(|commands| commands.copies),
            jitter_ms: haptic.and_then(|haptic| haptic.jitter_ms.as_ref()).map(|jitter| jitter.mean),
            made,
            delivered_percent: match commands {
                Some(commands) => commands.received_percent,
                None if !media.is_empty() => media[0].delivered_percent,
                None => teleop.and_then(|teleop| teleop.delivered_percent),
            },
            dropped_percent: percent(dropped, made),
            handshake_ms: teleop.and_then(|teleop| teleop.handshake_ms),
            rtt_p50_ms: teleop.and_then(|teleop| teleop.rtt_ms.as_ref()).map(|rtt| rtt.p50),
            efficiency_percent: teleop.and_then(|teleop| teleop.wire[0].efficiency_percent),
            control: teleop.and_then(|teleop| teleop.control.clone()),
            counters: counters(&run.flows),
            violations: run.conservation.violations.clone(),
            media,
            cross,
            videos: run.videos.clone(),
        }
    }
}

/// Those of the flow there; of how punctual the devices were, that of the less punctual one.
fn counters(flows: &[FlowResult]) -> BTreeMap<String, u64> {
    let mut all = flows.first().map(|flow| flow.counters.clone()).unwrap_or_default();
    for (name, count) in flows.iter().take(2).flat_map(|flow| &flow.counters) {
        if name.starts_with("device_") {
            let known = all.entry(name.clone()).or_default();
            *known = (*known).max(*count);
        }
    }
    all
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

    fn distribution(value: f64) -> Distribution {
        Distribution {
            count: 1,
            mean: value,
            sd: 0.0,
            min: value,
            p50: value,
            p90: value,
            p95: value,
            p99: value,
            p999: value,
            max: value,
            cdf: Vec::new(),
        }
    }

    fn summary(media: &[(&str, f64)]) -> SessionSummary {
        let medium = |(name, p50): &(&str, f64)| MediumSummary {
            name: (*name).to_owned(),
            made: 9,
            withheld: 0,
            delivered_percent: Some(100.0),
            one_way_ms: Some(distribution(*p50)),
        };
        SessionSummary {
            ran: Ran::Real,
            one_way_ms: Some(distribution(1.0)),
            jitter_ms: None,
            made: 9,
            delivered_percent: Some(90.0),
            dropped_percent: None,
            handshake_ms: None,
            rtt_p50_ms: None,
            efficiency_percent: None,
            in_time_percent: None,
            gap_ms: None,
            copies: None,
            control: None,
            media: media.iter().map(medium).collect(),
            cross: Vec::new(),
            videos: Vec::new(),
            counters: BTreeMap::new(),
            violations: Vec::new(),
        }
    }

    #[test]
    fn each_medium_is_compared_with_its_own_twin_and_without_media_everything_is_one() {
        let run = |simulated: &[(&str, f64)], real: &[(&str, f64)]| ComparedRun {
            variant: String::new(),
            seed: 1,
            simulated: Some(summary(simulated)),
            real: summary(real),
        };
        let media = run(&[("audio", 9.0), ("video", 50.0)], &[("video", 60.0), ("audio", 9.1)]);
        let found: Vec<_> = media.streams().iter().map(|one| (one.name.to_owned(), one.median())).collect();
        let expected = [("video", Difference::Beyond), ("audio", Difference::Within)];
        assert_eq!(found, expected.map(|(name, median)| (name.to_owned(), median)));
        let one = run(&[], &[]);
        let [all] = &one.streams()[..] else { panic!("everything is one") };
        assert_eq!((all.name, all.real.delivered_percent), ("", Some(90.0)));
    }
}
