//! Sessions over real sockets beside their simulated twins.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    ChannelResult, ControlResult, Distribution, FlowOwner, FlowPart, FlowResult, MediumResult, Ran,
    RunResult, VideoResult,
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
    /// Keys that `--set` set otherwise than the variant does: it is not what its name says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overridden: Vec<String>,
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
    /// Of a session with hand and arm, each channel beside states and feedback.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<ChannelResult>,
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

/// What is compared: all states of a session, a channel beside them, a medium, or cross traffic by itself. Of each pair the simulated one
/// first, where there is one.
#[derive(Clone, Debug)]
pub struct ComparedStream<'a> {
    /// The channel's or the medium's name; empty of all states.
    pub name: String,
    /// Its latency, in milliseconds; absent when nothing arrived.
    pub one_way_ms: [Option<&'a Distribution>; 2],
    /// What arrived, per cent.
    pub delivered_percent: [Option<f64>; 2],
}

/// A percentile and its name.
pub type Percentile = (&'static str, fn(&Distribution) -> f64);

/// Those that are compared.
pub const PERCENTILES: [Percentile; 4] =
    [("p50", |d| d.p50), ("p90", |d| d.p90), ("p99", |d| d.p99), ("p99.9", |d| d.p999)];

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

/// Is the difference at most 10 % of the simulated value, or at most 0.2 ms?
fn is_within(simulated_ms: f64, real_ms: f64) -> bool {
    let difference = (real_ms - simulated_ms).abs();
    difference <= WITHIN_MS || difference <= WITHIN_SHARE * simulated_ms
}

impl ComparedRun {
    /// The two of a variant with a seed.
    pub fn new(variant: &str, simulated: Option<&RunResult>, real: &RunResult) -> Self {
        Self {
            variant: variant.to_owned(),
            overridden: Vec::new(),
            seed: real.seed,
            simulated: simulated.map(SessionSummary::of),
            real: SessionSummary::of(real),
        }
    }

    /// The simulated one, where there is one, then the real one.
    pub fn both(&self) -> impl Iterator<Item = &SessionSummary> {
        self.simulated.iter().chain([&self.real])
    }

    /// The streams that are compared: each medium, or all states and each channel beside them.
    pub fn streams(&self) -> Vec<ComparedStream<'_>> {
        let both = [self.simulated.as_ref(), Some(&self.real)];
        if !self.real.media.is_empty() {
            let of = |real: &MediumSummary| {
                let both = both.map(|one| one?.media.iter().find(|medium| medium.name == real.name));
                ComparedStream {
                    name: real.name.clone(),
                    one_way_ms: both.map(|medium| medium?.one_way_ms.as_ref()),
                    delivered_percent: both.map(|medium| medium?.delivered_percent),
                }
            };
            return self.real.media.iter().map(of).collect();
        }
        let states = ComparedStream {
            name: String::new(),
            one_way_ms: both.map(|one| one?.one_way_ms.as_ref()),
            delivered_percent: both.map(|one| one?.delivered_percent),
        };
        let channels = self.real.channels.iter().map(|real| {
            let is_twin = |one: &&ChannelResult| (&one.name, one.direction) == (&real.name, real.direction);
            let both = both.map(|one| one?.channels.iter().find(is_twin));
            ComparedStream {
                name: format!("channel {} {}", real.name, real.direction.name()),
                one_way_ms: both.map(|channel| channel?.age_ms.as_ref()),
                delivered_percent: both.map(|channel| percent(channel?.delivered, channel?.made)),
            }
        });
        std::iter::once(states).chain(channels).collect()
    }
}

impl ComparedStream<'_> {
    /// In the order of [`PERCENTILES`], in milliseconds.
    pub fn percentiles(&self) -> [[Option<f64>; 2]; 4] {
        PERCENTILES.map(|(_, of)| self.one_way_ms.map(|one| one.map(of)))
    }

    /// Whether the median is that of the model.
    pub fn median(&self) -> Difference {
        match self.percentiles()[0] {
            [Some(simulated), Some(real)] if is_within(simulated, real) => Difference::Within,
            [Some(_), Some(_)] => Difference::Beyond,
            _ => Difference::Unknown,
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
            channels: teleop.map_or_else(Vec::new, |teleop| teleop.channels.clone()),
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
        assert!(is_within(0.3, 0.49) && !is_within(0.3, 0.51), "0.2 ms where the delay is short");
        assert!(is_within(35.0, 38.4) && !is_within(35.0, 38.6), "10 % where it is long");
        assert!(is_within(35.0, 31.6) && !is_within(35.0, 31.4), "either way");
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
            channels: Vec::new(),
            media: media.iter().map(medium).collect(),
            cross: Vec::new(),
            videos: Vec::new(),
            counters: BTreeMap::new(),
            violations: Vec::new(),
        }
    }

    fn compared(simulated: SessionSummary, real: SessionSummary) -> ComparedRun {
        ComparedRun {
            variant: String::new(),
            overridden: Vec::new(),
            seed: 1,
            simulated: Some(simulated),
            real,
        }
    }

    #[test]
    fn each_medium_is_compared_with_its_own_twin_and_without_media_all_states_are_one() {
        let media = compared(
            summary(&[("audio", 9.0), ("video", 50.0)]),
            summary(&[("video", 60.0), ("audio", 9.1)]),
        );
        let found: Vec<_> = media.streams().iter().map(|one| (one.name.clone(), one.median())).collect();
        let expected = [("video", Difference::Beyond), ("audio", Difference::Within)];
        assert_eq!(found, expected.map(|(name, median)| (name.to_owned(), median)));
        let one = compared(summary(&[]), summary(&[]));
        let [all] = &one.streams()[..] else { panic!("all states are one") };
        assert_eq!((all.name.as_str(), all.delivered_percent), ("", [Some(90.0); 2]));
    }

    #[test]
    fn a_channel_is_compared_beside_the_states_with_that_of_its_name_and_direction() {
        let session = |channels: &[(&str, Direction, f64)]| {
            let channel = |(name, direction, age): &(&str, Direction, f64)| ChannelResult {
                name: (*name).to_owned(),
                direction: *direction,
                delivery: "newest".to_owned(),
                made: 4,
                delivered: 3,
                dropped: BTreeMap::new(),
                lost: 1,
                bytes: 300,
                delivered_bps: None,
                age_ms: Some(distribution(*age)),
            };
            SessionSummary { channels: channels.iter().map(channel).collect(), ..summary(&[]) }
        };
        let (there, back) = (Direction::Forward, Direction::Backward);
        let simulated = session(&[("map", there, 50.0), ("map", back, 9.0)]);
        let run =
            compared(simulated, session(&[("map", back, 9.1), ("map", there, 60.0), ("new", there, 1.0)]));
        let streams = run.streams();
        let found: Vec<_> = streams.iter().map(|one| (one.name.as_str(), one.median())).collect();
        assert_eq!(
            found,
            [
                ("", Difference::Within),
                ("channel map backward", Difference::Within),
                ("channel map forward", Difference::Beyond),
                ("channel new forward", Difference::Unknown),
            ]
        );
        assert_eq!(streams[1].delivered_percent, [Some(75.0); 2]);
        assert_eq!(streams[3].percentiles()[0], [None, Some(1.0)]);
    }
}
