//! Several seeds and variants, on all cores, summed up.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use rayon::prelude::*;
use taut_core::Seed;

use crate::metrics::{Moments, percent};
use crate::run::{RunError, run};
use crate::scenario::{Direction, Scenario, Variant};
use taut_report::result::{
    CampaignResult, CommandsResult, EmergencyResult, LimitTally, Measure, MediumResult, ModelMeasure,
    ModelRow, RunResult, Series, StreamResult, TeleopResult, Trend, VariantResult, VideoResult, radio_mj,
};

/// One run of a campaign: which variant, which seed, and what it found. Its series are left out.
#[derive(Clone, Debug)]
pub struct CampaignRun {
    /// Index of the variant.
    pub variant: usize,
    /// The run.
    pub result: RunResult,
    /// How the delays of its streams went over time.
    pub trends: Vec<Trend>,
}

/// Points of a trend at most: enough for a slope and a picture.
const TREND_POINTS: usize = 50;

/// Runs every variant with every seed; the order of the results does not depend on how many cores there are.
///
/// `progress` is told the share that is done, from 0 to 1, from several threads.
///
/// # Errors
/// A seed that is given twice; the first run's that could not be done, in the order of variants and seeds.
pub fn campaign(
    scenario: &Scenario,
    variants: &[(Variant, Scenario)],
    seeds: &[u64],
    progress: &(dyn Fn(f64) + Sync),
) -> Result<(CampaignResult, Vec<CampaignRun>), RunError> {
    check_seeds(seeds).map_err(RunError::Scenario)?;
    let jobs: Vec<(usize, u64)> =
        (0..variants.len()).flat_map(|variant| seeds.iter().map(move |seed| (variant, *seed))).collect();
    let done = Mutex::new(0.0);
    let run_one = |&(variant, seed): &(usize, u64)| {
        let mut before = 0.0;
        let mut tell = |fraction: f64| {
            let mut done = done.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            *done += (fraction - before) / jobs.len() as f64;
            before = fraction;
            progress(*done);
        };
        let mut result = run(&variants[variant].1, Seed::new(seed), &mut tell)?;
        if !result.conservation.holds {
            let violations = result.conservation.violations.join("; ");
            return Err(RunError::Scenario(format!("seed {seed}: packets do not add up: {violations}")));
        }
        let trends = trends(&result);
        result.series.clear();
        Ok(CampaignRun { variant, result, trends })
    };
    let results: Vec<Result<CampaignRun, RunError>> = jobs.par_iter().map(run_one).collect();
    let runs = results.into_iter().collect::<Result<Vec<_>, _>>()?;
    let sum_up = |(i, (variant, _)): (usize, &(Variant, Scenario))| {
        let of = || runs.iter().filter(|run| run.variant == i);
        let results: Vec<&RunResult> = of().map(|run| &run.result).collect();
        let trends = of().flat_map(|run| run.trends.iter().cloned()).collect();
        variant_result(variant, seeds, &results, trends)
    };
    let axes = scenario.axes.iter().filter(|_| scenario.variants.is_empty());
    let campaign = CampaignResult {
        taut: env!("CARGO_PKG_VERSION").to_owned(),
        title: scenario.title.clone(),
        description: scenario.description.clone(),
        duration_s: scenario.duration.as_secs_f64(),
        axes: axes.map(|axis| axis.name.clone()).collect(),
        variants: variants.iter().enumerate().map(sum_up).collect(),
    };
    Ok((campaign, runs))
}

/// Every seed once: a copy of a run is no other run, and would make an interval look narrower than it is.
///
/// # Errors
/// A seed that is given twice.
pub fn check_seeds(seeds: &[u64]) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    match seeds.iter().find(|seed| !seen.insert(**seed)) {
        Some(seed) => {
            Err(format!("seed {seed} is given twice: its runs would be copies; give every seed once"))
        }
        None => Ok(()),
    }
}

/// Delay over time, in fewer and longer buckets than a single run keeps.
fn trends(run: &RunResult) -> Vec<Trend> {
    let trend = |series: &Series| {
        let each = series.mean.len().div_ceil(TREND_POINTS).max(1);
        let mean = |part: &[Option<f64>]| {
            let mut moments = Moments::default();
            part.iter().flatten().for_each(|value| moments.record(*value));
            moments.mean()
        };
        Trend {
            stream: series.name.clone(),
            seed: run.seed,
            start_s: series.start_s,
            bucket_s: series.bucket_s * each as f64,
            mean_ms: series.mean.chunks(each).map(mean).collect(),
        }
    };
    run.series.iter().filter(|series| series.plot == "delay").map(trend).collect()
}

fn variant_result(
    variant: &Variant,
    seeds: &[u64],
    runs: &[&RunResult],
    trends: Vec<Trend>,
) -> VariantResult {
    let settings = variant.set.iter().map(|(key, value)| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        (key.clone(), text)
    });
    VariantResult {
        name: variant.name.clone(),
        settings: settings.collect(),
        seeds: seeds.to_vec(),
        met: runs.iter().filter(|run| run.verdict.met).count() as u64,
        limits: limits(runs),
        measures: measures(runs, variant),
        trends,
    }
}

/// Every limit that any run was held against, in the order in which they first appear.
fn limits(runs: &[&RunResult]) -> Vec<LimitTally> {
    let mut tallies: Vec<LimitTally> = Vec::new();
    for run in runs {
        for limit in &run.verdict.limits {
            let same = |t: &&mut LimitTally| t.stream == limit.stream && t.quantity == limit.quantity;
            match tallies.iter_mut().find(same) {
                Some(tally) => tally.add(run.seed, limit),
                None => tallies.push(LimitTally::of(run.seed, limit)),
            }
        }
    }
    tallies
}

/// Every measure of any run, in the order in which they first appear, over the runs that have it.
fn measures(runs: &[&RunResult], variant: &Variant) -> Vec<Measure> {
    let causes = causes(runs);
    let mut found: Vec<(Value, Vec<Option<f64>>)> = Vec::new();
    for (i, run) in runs.iter().enumerate() {
        for value in values(run, &causes) {
            let known = found.iter().position(|(first, _)| first.name == value.name);
            let number = value.value;
            let at = known.unwrap_or_else(|| {
                found.push((value, vec![None; runs.len()]));
                found.len() - 1
            });
            found[at].1[i] = Some(number);
        }
    }
    let measure = |(value, values): (Value, Vec<Option<f64>>)| {
        let mut moments = Moments::default();
        values.iter().flatten().for_each(|number| moments.record(*number));
        let reported = |name: &str| variant.reported.get(name).copied();
        Some(Measure {
            reported: reported(&value.name).or_else(|| value.source_name.as_deref().and_then(reported)),
            name: value.name,
            unit: value.unit.to_owned(),
            runs: moments.count,
            mean: moments.mean()?,
            ci95: moments.sample_sd().map(|sd| t95(moments.count) * sd / (moments.count as f64).sqrt()),
            min: moments.min,
            max: moments.max,
            predicted: value.predicted,
            values,
        })
    };
    found.into_iter().filter_map(measure).collect()
}

/// By stream, the causes for which samples were dropped before they were sent, in any run: where one dropped none, that is
/// a zero.
type CausesOfStreams<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

fn causes<'a>(runs: &[&'a RunResult]) -> CausesOfStreams<'a> {
    let mut causes = CausesOfStreams::new();
    for medium in runs.iter().flat_map(|run| &run.media).filter(|medium| !medium.dropped.is_empty()) {
        causes.entry(&medium.stream).or_default().extend(medium.dropped.keys().map(String::as_str));
    }
    causes
}

struct Value {
    name: String,
    /// What a source calls it that does not say which of two it means.
    source_name: Option<String>,
    unit: &'static str,
    value: f64,
    predicted: Option<f64>,
}

/// The numbers of a run; those that were not measured are left out.
#[derive(Default)]
struct Values(Vec<Value>);

impl Values {
    fn push(&mut self, name: String, unit: &'static str, value: Option<f64>) {
        self.compared(name, None, unit, value, None);
    }

    fn compared(
        &mut self,
        name: String,
        source_name: Option<String>,
        unit: &'static str,
        value: Option<f64>,
        predicted: Option<f64>,
    ) {
        self.0.extend(value.map(|value| Value { name, source_name, unit, value, predicted }));
    }
}

/// What a campaign keeps of a run.
fn values(run: &RunResult, causes: &CausesOfStreams<'_>) -> Vec<Value> {
    let mut values = Values::default();
    for medium in &run.media {
        delays(run, medium, &mut values);
        let (stream, buckets) = (&medium.stream, medium.delay_buckets_ms.as_ref());
        let second = |what: &str| format!("{stream} per-second mean of delay, {what}");
        values.push(second("sd"), "ms", buckets.map(|b| b.sd));
        values.push(second("min"), "ms", buckets.map(|b| b.min));
        values.push(second("max"), "ms", buckets.map(|b| b.max));
        let jitter = row(run, stream, ModelMeasure::Jitter).map(|row| row.predicted_ms);
        values.compared(format!("{stream} jitter"), None, "ms", medium.jitter_max_ms, jitter);
        losses(medium, causes, &mut values);
    }
    for flow in &run.flows {
        let (name, delay) = (&flow.name, flow.delay_ms.as_ref());
        values.push(format!("{name} rate"), "Mbit/s", Some(flow.delivered_bps / 1e6));
        values.push(format!("{name} packet delay"), "ms", delay.map(|d| d.mean));
        values.push(format!("{name} packet delay sd"), "ms", delay.map(|d| d.sd));
    }
    if let Some(flow) = &run.commands {
        commands(flow, &mut values);
    }
    run.videos.iter().for_each(|video| frames(video, &mut values));
    if let Some(teleop) = &run.teleop {
        session(run, teleop, &mut values);
    }
    for skew in &run.skews {
        values.push(format!("{} skew", skew.pair), "ms", Some(skew.skew_ms.mean));
    }
    values.0
}

/// What became of the flow of commands.
fn commands(flow: &CommandsResult, values: &mut Values) {
    let latency = flow.latency_ms.as_ref();
    let mut push = |name: &str, unit, value| values.push(format!("commands {name}"), unit, value);
    push("in time", "%", flow.in_time_percent);
    push("bound", "%", flow.bound_percent);
    push("below bound", "points", flow.below_bound_points);
    push("received", "%", flow.received_percent);
    push("late", "commands", Some(flow.late as f64));
    push("latency", "ms", latency.map(|d| d.mean));
    push("latency p50", "ms", latency.map(|d| d.p50));
    push("latency p95", "ms", latency.map(|d| d.p95));
    push("latency p99", "ms", latency.map(|d| d.p99));
    push("latency p99.9", "ms", latency.map(|d| d.p999));
    push("latency max", "ms", latency.map(|d| d.max));
    push("gap", "ms", flow.gap_ms);
    push("copies", "", flow.copies);
    for (way, paths) in [("there", &flow.there), ("back", &flow.back)] {
        for (path, carried) in paths.iter().enumerate() {
            push(&format!("path {path} {way} packets"), "packets", Some(carried.packets as f64));
            push(&format!("path {path} {way} bytes"), "kB", Some(carried.bytes as f64 / 1e3));
        }
    }
    for (path, (there, back)) in flow.there.iter().zip(&flow.back).enumerate() {
        push(&format!("path {path} radio"), "mJ", Some(radio_mj(there.bytes, back.bytes)));
    }
}

/// What arrived of a video, and how far from the force that belongs to it.
fn frames(video: &VideoResult, values: &mut Values) {
    let name = &video.name;
    let mut push = |what: &str, unit, value| values.push(format!("{name} {what}"), unit, value);
    push("packet loss", "%", video.packet_loss_percent);
    push("frame loss", "%", video.frame_loss_percent);
    push("frame rate", "1/s", video.fps.as_ref().map(|fps| fps.mean));
    push("frame rate, lowest tenth of seconds", "1/s", video.fps.as_ref().map(|fps| fps.p10));
    push("frame rate of use", "1/s", video.of_use_per_s);
    push("key frame loss", "%", video.key_frame_loss_percent);
    push("MOS", "", video.opinion.as_ref().map(|opinion| opinion.mos));
    push("packet latency", "ms", video.packet_delay_ms.as_ref().map(|delay| delay.mean));
    push("frame latency", "ms", video.frame_delay_ms.as_ref().map(|delay| delay.mean));
    push("frame latency p99", "ms", video.frame_delay_ms.as_ref().map(|delay| delay.p99));
    if let Some(haptic) = &video.haptic {
        let mut push = |what: &str, value| values.push(format!("{haptic}{what}"), "ms", value);
        push(" latency p99", video.haptic_delay_ms.as_ref().map(|delay| delay.p99));
        push(" latency, largest", video.haptic_delay_ms.as_ref().map(|delay| delay.max));
        let offset = format!("–{name} offset");
        push(&offset, video.offset_ms.as_ref().map(|offset| offset.mean));
        push(&format!("{offset} p99"), video.offset_ms.as_ref().map(|offset| offset.p99));
    }
}

/// What the session of operator and robot found.
fn session(run: &RunResult, teleop: &TeleopResult, values: &mut Values) {
    let forward = run.media.iter().find(|medium| medium.direction == Direction::Forward);
    let one_way = forward.and_then(|medium| medium.delay_ms.as_ref());
    let jitter = forward.and_then(|medium| medium.jitter_ms.as_ref());
    let rtt = teleop.rtt_ms.as_ref();
    let dropped: u64 = teleop.streams.iter().flat_map(|stream| stream.dropped.values()).sum();
    let of = |count: fn(&StreamResult) -> u64| Some(teleop.streams.iter().map(count).sum::<u64>() as f64);
    let [there, back] = &teleop.wire;
    let rate = |bytes: u64| Some(bytes as f64 * 8.0 / 1e6 / run.duration_s);
    let added = teleop.emergencies.iter().filter_map(EmergencyResult::added_ms).fold(None, largest);
    let unanswered = teleop.emergencies.iter().filter(|press| press.acknowledged_ms.is_none()).count();
    let acknowledged =
        teleop.emergencies.iter().filter_map(|press| press.acknowledged_ms).fold(None, largest);
    let silence = teleop.watchdogs.iter().map(|stop| stop.silence_ms).fold(None, largest);
    let mut push = |name: &str, unit, value| values.push(format!("session {name}"), unit, value);
    push("handshake", "ms", teleop.handshake_ms);
    push("handshake, resumed", "ms", teleop.resumed_handshake_ms);
    push("opened after", "ms", teleop.opened_ms);
    push("opened after, resumed", "ms", teleop.resumed_opened_ms);
    push("first state arrived after", "ms", teleop.first_state_ms);
    push("first state arrived after, resumed", "ms", teleop.resumed_first_state_ms);
    push("one way p50", "ms", one_way.map(|d| d.p50));
    push("one way p95", "ms", one_way.map(|d| d.p95));
    push("one way p99", "ms", one_way.map(|d| d.p99));
    push("one way p99.9", "ms", one_way.map(|d| d.p999));
    push("jitter", "ms", jitter.map(|jitter| jitter.mean));
    push("round trip p50", "ms", rtt.map(|d| d.p50));
    push("round trip p99", "ms", rtt.map(|d| d.p99));
    push("round trip jitter", "ms", teleop.rtt_jitter_ms);
    push("arrived", "%", teleop.delivered_percent);
    push("dropped at the operator", "%", percent(dropped, teleop.made));
    push("lost", "states", of(|stream| stream.lost));
    push("in flight at the end", "states", of(|stream| stream.in_flight));
    push("applied", "states", of(|stream| stream.applied));
    push("late", "states", of(|stream| stream.late));
    push("duplicates", "states", of(|stream| stream.duplicates));
    push("reordered", "states", of(|stream| stream.reordered));
    push("payload of bytes sent", "%", there.efficiency_percent);
    push("payload there", "Mbit/s", rate(there.payload));
    push("wire there", "Mbit/s", rate(there.bytes));
    push("wire back", "Mbit/s", rate(back.bytes));
    push("operator's radio", "mJ", Some(radio_mj(there.bytes, back.bytes)));
    push("robot's radio", "mJ", Some(radio_mj(back.bytes, there.bytes)));
    push("ended by itself", "", Some(f64::from(u8::from(teleop.closed_s.is_some()))));
    if !teleop.emergencies.is_empty() {
        push("emergency stop, largest time to acknowledgement", "ms", acknowledged);
        push("emergency stop, most added to the round trip", "ms", added);
        push("emergency stops not acknowledged", "", Some(unanswered as f64));
    }
    for channel in &teleop.channels {
        let name = format!("channel {} {}", channel.name, channel.direction.name());
        let age = channel.age_ms.as_ref();
        let mut push = |what: &str, unit, value| push(&format!("{name}: {what}"), unit, value);
        push("delivered", "%", percent(channel.delivered, channel.made));
        push("rate", "Mbit/s", rate(channel.bytes));
        push("age p50", "ms", age.map(|age| age.p50));
        push("age p99", "ms", age.map(|age| age.p99));
    }
    push("watchdog stops", "", Some(teleop.watchdogs.len() as f64));
    push("watchdog, largest silence", "ms", silence);
    if let Some(control) = &teleop.control {
        push("tracking error, rms", "mm", Some(control.tracking_rms_mm));
        push("tracking error, max", "mm", Some(control.tracking_max_mm));
        push("force error, rms", "N", control.force_error_rms_n);
        push("energy injected by the network", "mJ", control.injected_mj);
        push("contacts begun within a second, max", "", Some(control.contacts_per_s_max as f64));
        push("stable", "", Some(f64::from(u8::from(control.stable))));
    }
}

fn largest(before: Option<f64>, value: f64) -> Option<f64> {
    Some(before.map_or(value, |before| before.max(value)))
}

/// Least and largest delay: of TCP's cycles, where there are any, which is what a model or a source speaks of; and of the
/// whole run.
fn delays(run: &RunResult, medium: &MediumResult, values: &mut Values) {
    let (stream, delay) = (&medium.stream, medium.delay_ms.as_ref());
    let mut both = |name: &str, of_cycles, whole, value: Option<f64>| {
        let (cycles, whole) = (row(run, stream, of_cycles), row(run, stream, whole));
        let source_name = || Some(format!("{stream} {name}"));
        if let Some(row) = cycles {
            let title = format!("{stream} {name}, mean over TCP's cycles");
            values.compared(title, source_name(), "ms", Some(row.measured_ms), Some(row.predicted_ms));
        }
        let source_name = if cycles.is_none() { source_name() } else { None };
        let predicted = whole.map(|row| row.predicted_ms);
        values.compared(format!("{stream} {name}, whole run"), source_name, "ms", value, predicted);
    };
    both("d_min", ModelMeasure::DMinOfCycles, ModelMeasure::DMin, delay.map(|d| d.min));
    both("d_max", ModelMeasure::DMaxOfCycles, ModelMeasure::DMax, delay.map(|d| d.max));
    values.push(format!("{stream} mean delay"), "ms", delay.map(|d| d.mean));
    values.push(format!("{stream} p99 delay"), "ms", delay.map(|d| d.p99));
    values.push(format!("{stream} sd of delay"), "ms", delay.map(|d| d.sd));
}

fn losses(medium: &MediumResult, causes: &CausesOfStreams<'_>, values: &mut Values) {
    let stream = &medium.stream;
    values.push(format!("{stream} loss"), "%", medium.loss_percent);
    // Where all of it is the network's there is nothing to split.
    if let Some(causes) = causes.get(stream.as_str()) {
        let due = medium.made.saturating_sub(medium.withheld);
        values.push(format!("{stream} loss in the network"), "%", percent(medium.lost_in_network, due));
        for cause in causes {
            let count = medium.dropped.get(*cause).copied().unwrap_or(0);
            values.push(format!("{stream} loss, {}", cause.replace('_', " ")), "%", percent(count, due));
        }
    }
    values.push(format!("{stream} late"), "%", percent(medium.late, medium.delivered));
}

/// A model's row about a stream.
fn row<'a>(run: &'a RunResult, stream: &str, measure: ModelMeasure) -> Option<&'a ModelRow> {
    let rows = run.models.iter().flat_map(|model| &model.rows);
    rows.into_iter().find(|row| row.stream == stream && row.measure == measure)
}

/// The 97.5 % quantile of Student's t with n − 1 degrees of freedom.
fn t95(n: u64) -> f64 {
    const T: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
        2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048,
        2.045, 2.042,
    ];
    let freedom = n.saturating_sub(1).max(1) as usize;
    T.get(freedom - 1).copied().unwrap_or_else(|| 1.960 + 2.4 / freedom as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t_falls_towards_the_normal_quantile() {
        assert!((t95(2) - 12.706).abs() < 1e-9);
        assert!((t95(20) - 2.093).abs() < 1e-9);
        assert!((t95(61) - 2.000).abs() < 0.001);
        assert!((t95(100_000) - 1.960).abs() < 0.001);
    }
}
