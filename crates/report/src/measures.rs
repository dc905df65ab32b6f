//! The measures of a run: one registry, a line for each. A campaign's measures, the tables of a run's page and its text are made
//! from it.

use std::collections::{BTreeMap, BTreeSet};

use crate::result::{
    ChannelResult, CommandsResult, ControlResult, Direction, Distribution, EmergencyResult, FeltResult,
    FlowResult, MediumResult, ModelMeasure, ModelRow, RunResult, StreamResult, TeleopResult, TouchCritical,
    VideoResult, WireResult, awake_mj, percent, radio_mj,
};
use taut_qos::rendering::Critical;

/// One measure of a run, and who tells it.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// What it is, in words. A campaign's begins with the stream, the flow or the session that it is of.
    pub name: String,
    /// What a source calls it that does not say which of two it means.
    pub source_name: Option<String>,
    /// `"ms"`; empty of plain counts.
    pub unit: &'static str,
    /// Absent when it was not measured.
    pub value: Option<f64>,
    /// What a model says of it.
    pub predicted: Option<f64>,
    views: u8,
}

/// Summed up over the seeds of a campaign.
const CAMPAIGN: u8 = 1;
/// In a table of the run's page.
const PAGE: u8 = 2;
/// In the run's text.
const TEXT: u8 = 4;
const RUN: u8 = PAGE | TEXT;
const ALL: u8 = CAMPAIGN | RUN;

fn measured(views: u8, name: impl Into<String>, unit: &'static str, value: Option<f64>) -> Measured {
    Measured { name: name.into(), source_name: None, unit, value, predicted: None, views }
}

fn campaign(name: impl Into<String>, unit: &'static str, value: Option<f64>) -> Measured {
    measured(CAMPAIGN, name, unit, value)
}

/// Those that were measured and that a page has.
pub(super) fn on_page(values: Vec<Measured>) -> impl Iterator<Item = Measured> {
    values.into_iter().filter(|one| one.views & PAGE > 0 && one.value.is_some())
}

/// Name and value of those that were measured and that a text has.
pub(super) fn in_text(values: Vec<Measured>) -> Vec<Vec<String>> {
    let told = values.into_iter().filter(|one| one.views & TEXT > 0);
    let row = |Measured { name, unit, value, .. }| {
        value.map(|value: f64| vec![name, format!("{value:.3} {unit}").trim_end().to_owned()])
    };
    told.filter_map(row).collect()
}

/// By stream, the causes for which samples were dropped before they were sent, in any run: where one dropped none, that is
/// a zero.
pub type CausesOfStreams<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// What a campaign keeps of a run, all of it measured.
pub fn of_campaign(run: &RunResult, causes: &CausesOfStreams<'_>) -> Vec<Measured> {
    let mut all: Vec<Measured> = Vec::new();
    let mut add = |prefix: &str, values: Vec<Measured>| {
        let kept = values.into_iter().filter(|one| one.views & CAMPAIGN > 0 && one.value.is_some());
        all.extend(kept.map(|one| Measured { name: format!("{prefix}{}", one.name), ..one }));
    };
    for medium in &run.media {
        add("", delays_of_model(run, medium));
        add(&format!("{} ", medium.stream), of_medium(run, medium, causes));
    }
    run.flows.iter().for_each(|flow| add(&format!("{} ", flow.name), of_flow(flow)));
    run.commands.iter().for_each(|commands| add("commands ", of_commands(commands)));
    for video in &run.videos {
        add(&format!("{} ", video.name), of_video(video));
        add("", of_pair(video));
    }
    if let Some(teleop) = &run.teleop {
        add("session ", of_session(run, teleop));
        add("session ", of_emergencies(&teleop.emergencies));
        for channel in &teleop.channels {
            let prefix = format!("session channel {} {}: ", channel.name, channel.direction.name());
            add(&prefix, of_channel(channel, run));
        }
        add("session ", of_watchdog(teleop));
        teleop.control.iter().for_each(|control| add("session ", of_control(control)));
    }
    run.skews.iter().for_each(|skew| {
        add("", vec![campaign(format!("{} skew", skew.pair), "ms", Some(skew.skew_ms.mean))]);
    });
    all
}

/// What `of` says of it; nothing where there is none.
pub(super) fn of(distribution: &Option<Distribution>, of: fn(&Distribution) -> f64) -> Option<f64> {
    distribution.as_ref().map(of)
}

/// A rate of a session as it was measured; of older results, of all that it carried in the whole run.
pub(super) fn mbit_s(measured_bps: Option<f64>, bytes: u64, run: &RunResult) -> Option<f64> {
    Some(measured_bps.unwrap_or(bytes as f64 * 8.0 / run.duration_s) / 1e6)
}

/// What a buffer must hold for, so that 99 of 100 come in time: the 99th percentile of packet delay variation (RFC 5481, section 4.2),
/// that is of delays less the smallest.
pub(super) fn delay_variation_ms(delay: &Option<Distribution>) -> Option<f64> {
    of(delay, |delay| delay.p99 - delay.min)
}

fn largest(values: impl Iterator<Item = f64>) -> Option<f64> {
    values.reduce(f64::max)
}

/// Least and largest delay: of TCP's cycles, where there are any, which is what a model or a source speaks of; and of the
/// whole run.
fn delays_of_model(run: &RunResult, medium: &MediumResult) -> Vec<Measured> {
    let stream = &medium.stream;
    let both = |name: &str, of_cycles, whole, value: Option<f64>| {
        let (cycles, whole) = (row(run, stream, of_cycles), row(run, stream, whole));
        let source_name = || Some(format!("{stream} {name}"));
        let of_cycles = cycles.map(|row| Measured {
            source_name: source_name(),
            predicted: Some(row.predicted_ms),
            ..campaign(format!("{stream} {name}, mean over TCP's cycles"), "ms", Some(row.measured_ms))
        });
        let of_run = Measured {
            source_name: if cycles.is_none() { source_name() } else { None },
            predicted: whole.map(|row| row.predicted_ms),
            ..campaign(format!("{stream} {name}, whole run"), "ms", value)
        };
        of_cycles.into_iter().chain([of_run])
    };
    let least =
        both("d_min", ModelMeasure::DMinOfCycles, ModelMeasure::DMin, of(&medium.delay_ms, |d| d.min));
    let most = both("d_max", ModelMeasure::DMaxOfCycles, ModelMeasure::DMax, of(&medium.delay_ms, |d| d.max));
    least.chain(most).collect()
}

/// A model's row about a stream.
fn row<'a>(run: &'a RunResult, stream: &str, measure: ModelMeasure) -> Option<&'a ModelRow> {
    let rows = run.models.iter().flat_map(|model| &model.rows);
    rows.into_iter().find(|row| row.stream == stream && row.measure == measure)
}

fn of_medium(run: &RunResult, medium: &MediumResult, causes: &CausesOfStreams<'_>) -> Vec<Measured> {
    let (delay, seconds) = (&medium.delay_ms, medium.delay_buckets_ms.as_ref());
    let jitter = row(run, &medium.stream, ModelMeasure::Jitter).map(|row| row.predicted_ms);
    let due = medium.made.saturating_sub(medium.withheld);
    let mut values = vec![
        campaign("mean delay", "ms", of(delay, |d| d.mean)),
        campaign("p99 delay", "ms", of(delay, |d| d.p99)),
        campaign("sd of delay", "ms", of(delay, |d| d.sd)),
        campaign("per-second mean of delay, sd", "ms", seconds.map(|b| b.sd)),
        campaign("per-second mean of delay, min", "ms", seconds.map(|b| b.min)),
        campaign("per-second mean of delay, max", "ms", seconds.map(|b| b.max)),
        Measured { predicted: jitter, ..campaign("jitter", "ms", medium.jitter_max_ms) },
        campaign("mean jitter", "ms", of(&medium.jitter_ms, |d| d.mean)),
        campaign("delay variation", "ms", delay_variation_ms(delay)),
        campaign("loss", "%", medium.loss_percent),
    ];
    // Where all of it is the network's there is nothing to split.
    if let Some(causes) = causes.get(medium.stream.as_str()) {
        values.push(campaign("loss in the network", "%", percent(medium.lost_in_network, due)));
        values.extend(causes.iter().map(|cause| {
            let count = medium.dropped.get(*cause).copied().unwrap_or(0);
            campaign(format!("loss, {}", cause.replace('_', " ")), "%", percent(count, due))
        }));
    }
    values.push(campaign("late", "%", percent(medium.late, medium.delivered)));
    values
}

fn of_flow(flow: &FlowResult) -> Vec<Measured> {
    vec![
        campaign("rate", "Mbit/s", Some(flow.delivered_bps / 1e6)),
        campaign("packet delay", "ms", of(&flow.delay_ms, |d| d.mean)),
        campaign("packet delay sd", "ms", of(&flow.delay_ms, |d| d.sd)),
    ]
}

/// What became of the flow of commands.
pub(super) fn of_commands(flow: &CommandsResult) -> Vec<Measured> {
    let latency = &flow.latency_ms;
    let mut values = vec![
        measured(RUN, "sent", "", Some(flow.sent as f64)),
        measured(RUN, "deadline", "ms", Some(flow.deadline_ms)),
        measured(ALL, "in time", "%", flow.in_time_percent),
        measured(ALL, "bound", "%", flow.bound_percent),
        measured(ALL, "below bound", "points", flow.below_bound_points),
        measured(ALL, "received", "%", flow.received_percent),
        measured(ALL, "late", "commands", Some(flow.late as f64)),
        measured(ALL, "latency", "ms", of(latency, |d| d.mean)),
        measured(ALL, "latency p50", "ms", of(latency, |d| d.p50)),
        measured(ALL, "latency p95", "ms", of(latency, |d| d.p95)),
        measured(ALL, "latency p99", "ms", of(latency, |d| d.p99)),
        measured(ALL, "latency p99.9", "ms", of(latency, |d| d.p999)),
        measured(ALL, "latency max", "ms", of(latency, |d| d.max)),
        measured(ALL, "latency variation", "ms", delay_variation_ms(latency)),
        measured(ALL, "gap", "ms", flow.gap_ms),
        measured(ALL, "copies", "", flow.copies),
    ];
    let told = CAMPAIGN | TEXT;
    for (way, paths) in [("there", &flow.there), ("back", &flow.back)] {
        for (path, carried) in paths.iter().enumerate() {
            let packets = Some(carried.packets as f64);
            values.push(measured(told, format!("path {path} {way} packets"), "packets", packets));
            let bytes = Some(carried.bytes as f64 / 1e3);
            values.push(measured(told, format!("path {path} {way} bytes"), "kB", bytes));
        }
    }
    for (path, (there, back)) in flow.there.iter().zip(&flow.back).enumerate() {
        values.push(measured(
            told,
            format!("path {path} radio"),
            "mJ",
            Some(radio_mj(there.bytes, back.bytes)),
        ));
    }
    values
}

/// What arrived of a video.
pub(super) fn of_video(video: &VideoResult) -> Vec<Measured> {
    let (fps, opinion) = (video.fps.as_ref(), video.opinion.as_ref());
    vec![
        measured(ALL, "packet loss", "%", video.packet_loss_percent),
        measured(ALL, "frame loss", "%", video.frame_loss_percent),
        measured(ALL, "frame rate", "1/s", fps.map(|fps| fps.mean)),
        measured(ALL, "frame rate, lowest tenth of seconds", "1/s", fps.map(|fps| fps.p10)),
        measured(PAGE, "frame rate, median of seconds", "1/s", fps.map(|fps| fps.p50)),
        measured(ALL, "frame rate of use", "1/s", video.of_use_per_s),
        measured(ALL, "key frame loss", "%", video.key_frame_loss_percent),
        measured(ALL, "MOS", "", opinion.map(|opinion| opinion.mos)),
        measured(PAGE, "MOS, lowest tenth of seconds", "", opinion.map(|opinion| opinion.mos_p10)),
        measured(ALL, "packet latency", "ms", of(&video.packet_delay_ms, |d| d.mean)),
        measured(ALL, "frame latency", "ms", of(&video.frame_delay_ms, |d| d.mean)),
        measured(ALL, "frame latency p99", "ms", of(&video.frame_delay_ms, |d| d.p99)),
        measured(ALL, "frame latency variation", "ms", delay_variation_ms(&video.frame_delay_ms)),
    ]
}

/// The force that a video belongs to, and how far frames arrive from it.
pub(super) fn of_pair(video: &VideoResult) -> Vec<Measured> {
    let Some(haptic) = &video.haptic else { return Vec::new() };
    let offset = format!("{haptic}–{} offset", video.name);
    vec![
        measured(ALL, format!("{haptic} latency p99"), "ms", of(&video.haptic_delay_ms, |d| d.p99)),
        measured(ALL, format!("{haptic} latency, largest"), "ms", of(&video.haptic_delay_ms, |d| d.max)),
        measured(ALL, format!("{haptic} jitter, largest"), "ms", video.haptic_jitter_max_ms),
        measured(ALL, offset.clone(), "ms", of(&video.offset_ms, |d| d.mean)),
        measured(ALL, format!("{offset} p99"), "ms", of(&video.offset_ms, |d| d.p99)),
        measured(ALL, format!("{haptic} packet loss"), "%", video.haptic_loss_percent),
    ]
}

/// What the session of operator and robot found.
pub(super) fn of_session(run: &RunResult, teleop: &TeleopResult) -> Vec<Measured> {
    let forward = run.media.iter().find(|medium| medium.direction == Direction::Forward);
    let (one_way, jitter) = forward.map_or((&None, &None), |medium| (&medium.delay_ms, &medium.jitter_ms));
    let rtt = &teleop.rtt_ms;
    let dropped: u64 = teleop.streams.iter().flat_map(|stream| stream.dropped.values()).sum();
    let sum = |count: fn(&StreamResult) -> u64| Some(teleop.streams.iter().map(count).sum::<u64>() as f64);
    let [there, back] = &teleop.wire;
    let wire = |way: &WireResult| mbit_s(way.sent_bps, way.bytes, run);
    let payload = |way: &WireResult| mbit_s(way.payload_bps, way.payload, run);
    vec![
        measured(ALL, "handshake", "ms", teleop.handshake_ms),
        measured(ALL, "handshake, resumed", "ms", teleop.resumed_handshake_ms),
        measured(ALL, "opened after", "ms", teleop.opened_ms),
        measured(ALL, "opened after, resumed", "ms", teleop.resumed_opened_ms),
        measured(ALL, "first state arrived after", "ms", teleop.first_state_ms),
        measured(ALL, "first state arrived after, resumed", "ms", teleop.resumed_first_state_ms),
        measured(PAGE, "robot moves after", "ms", teleop.moved_ms),
        measured(CAMPAIGN, "one way p50", "ms", of(one_way, |d| d.p50)),
        measured(CAMPAIGN, "one way p95", "ms", of(one_way, |d| d.p95)),
        measured(CAMPAIGN, "one way p99", "ms", of(one_way, |d| d.p99)),
        measured(CAMPAIGN, "one way p99.9", "ms", of(one_way, |d| d.p999)),
        measured(CAMPAIGN, "jitter", "ms", of(jitter, |d| d.mean)),
        measured(CAMPAIGN, "delay variation", "ms", delay_variation_ms(one_way)),
        measured(PAGE, "round trip, min", "ms", of(rtt, |d| d.min)),
        measured(PAGE, "round trip, mean", "ms", of(rtt, |d| d.mean)),
        measured(ALL, "round trip p50", "ms", of(rtt, |d| d.p50)),
        measured(PAGE, "round trip p95", "ms", of(rtt, |d| d.p95)),
        measured(ALL, "round trip p99", "ms", of(rtt, |d| d.p99)),
        measured(PAGE, "round trip p99.9", "ms", of(rtt, |d| d.p999)),
        measured(PAGE, "round trip, max", "ms", of(rtt, |d| d.max)),
        measured(ALL, "round trip jitter", "ms", teleop.rtt_jitter_ms),
        measured(PAGE, "states made", "", Some(teleop.made as f64)),
        measured(ALL, "arrived", "%", teleop.delivered_percent),
        measured(CAMPAIGN, "dropped at the operator", "%", percent(dropped, teleop.made)),
        measured(CAMPAIGN, "lost", "states", sum(|stream| stream.lost)),
        measured(CAMPAIGN, "in flight at the end", "states", sum(|stream| stream.in_flight)),
        measured(CAMPAIGN, "applied", "states", sum(|stream| stream.applied)),
        measured(CAMPAIGN, "late", "states", sum(|stream| stream.late)),
        measured(CAMPAIGN, "duplicates", "states", sum(|stream| stream.duplicates)),
        measured(CAMPAIGN, "reordered", "states", sum(|stream| stream.reordered)),
        measured(ALL, "payload of bytes sent", "%", there.efficiency_percent),
        measured(PAGE, "payload of bytes sent back", "%", back.efficiency_percent),
        measured(CAMPAIGN | PAGE, "payload there", "Mbit/s", payload(there)),
        measured(PAGE, "payload back", "Mbit/s", payload(back)),
        measured(CAMPAIGN | PAGE, "wire there", "Mbit/s", wire(there)),
        measured(CAMPAIGN | PAGE, "wire back", "Mbit/s", wire(back)),
        // Were their network LTE.
        measured(ALL, "operator's radio", "mJ", Some(radio_mj(there.bytes, back.bytes))),
        measured(ALL, "robot's radio", "mJ", Some(radio_mj(back.bytes, there.bytes))),
        measured(PAGE, "either radio, for being awake", "mJ", Some(awake_mj(run.duration_s))),
        measured(PAGE, "operator's clock as the robot knows it, off by", "ms", teleop.clock_error_ms),
        measured(PAGE, "and said to be off by at most", "ms", teleop.clock_uncertainty_ms),
        measured(TEXT, "ended by itself after", "s", teleop.closed_s),
        measured(CAMPAIGN, "ended by itself", "", Some(f64::from(u8::from(teleop.closed_s.is_some())))),
    ]
}

fn of_emergencies(presses: &[EmergencyResult]) -> Vec<Measured> {
    let acknowledged = || presses.iter().filter_map(|press| press.acknowledged_ms);
    let added = largest(presses.iter().filter_map(EmergencyResult::added_ms));
    let unanswered = (!presses.is_empty()).then(|| (presses.len() - acknowledged().count()) as f64);
    vec![
        campaign("emergency stop, largest time to acknowledgement", "ms", largest(acknowledged())),
        campaign("emergency stop, most added to the round trip", "ms", added),
        campaign("emergency stops not acknowledged", "", unanswered),
    ]
}

fn of_channel(channel: &ChannelResult, run: &RunResult) -> Vec<Measured> {
    let opened = run.teleop.as_ref().is_some_and(|teleop| teleop.opened_ms.is_some());
    // Where there never was a session, nobody made anything for it.
    let delivered = percent(channel.delivered, channel.made).or((!opened).then_some(0.0));
    vec![
        campaign("delivered", "%", delivered),
        campaign("rate", "Mbit/s", mbit_s(channel.delivered_bps, channel.bytes, run)),
        campaign("age p50", "ms", of(&channel.age_ms, |age| age.p50)),
        campaign("age p99", "ms", of(&channel.age_ms, |age| age.p99)),
    ]
}

fn of_watchdog(teleop: &TeleopResult) -> Vec<Measured> {
    let silence = largest(teleop.watchdogs.iter().map(|stop| stop.silence_ms));
    vec![
        campaign("watchdog stops", "", Some(teleop.watchdogs.len() as f64)),
        campaign("watchdog, largest silence", "ms", silence),
    ]
}

/// How stiff what is touched might be, by theory.
pub(super) fn of_critical(critical: &TouchCritical) -> Vec<Measured> {
    let Critical { passive_n_m, gil_hulin_n_m, quantised_n_m, llewellyn_ns_m } = critical.simpler;
    vec![
        measured(RUN, "rattles from, by the margin of the delayed loop", "N/m", critical.margin_n_m),
        measured(RUN, "wall of a device that nobody holds, to (Gil, Hulin)", "N/m", gil_hulin_n_m),
        measured(RUN, "wall passive beside the hand, to (Colgate)", "N/m", passive_n_m),
        measured(
            RUN,
            "wall that friction holds against the encoder, to (Abbott, Okamura)",
            "N/m",
            quantised_n_m,
        ),
        measured(RUN, "damping of the device for any hand and wall (Llewellyn)", "N s/m", llewellyn_ns_m),
    ]
}

/// Hand and arm.
pub(super) fn of_control(control: &ControlResult) -> Vec<Measured> {
    let count = |count: u64| Some(count as f64);
    let touch = control.touch.as_ref();
    let calm = touch.and_then(|touch| touch.calm);
    let felt = |of: fn(&FeltResult) -> f64| control.felt.as_ref().map(of);
    let beyond = |of: fn(&FeltResult) -> f64| {
        control.felt.as_ref().zip(control.felt_twin.as_ref()).map(|(felt, twin)| of(felt) - of(twin))
    };
    let fitted = control.felt.zip(control.felt_twin).and_then(|(felt, twin)| felt.fit_beyond(&twin));
    let error = |felt: &Option<FeltResult>| felt.as_ref().and_then(|felt| felt.error_percent);
    vec![
        measured(RUN, "robot moved", "s", Some(control.moved_s)),
        measured(ALL, "tracking error, rms", "mm", Some(control.tracking_rms_mm)),
        measured(ALL, "tracking error, max", "mm", Some(control.tracking_max_mm)),
        measured(ALL, "force error, rms", "N", control.force_error_rms_n),
        measured(RUN, "force error, max", "N", control.force_error_max_n),
        measured(RUN, "force on the arm, max", "N", Some(control.force_max_n)),
        measured(ALL, "force ripple at rest", "% of the mean", touch.and_then(|touch| touch.ripple_percent)),
        measured(RUN, "mean force at rest", "N", touch.and_then(|touch| touch.rest_force_n)),
        measured(
            RUN,
            "ripple at the end of the rests",
            "times that at their begin",
            touch.and_then(|touch| touch.growth),
        ),
        measured(ALL, "energy given back in one contact, max", "mJ", touch.map(|touch| touch.drawdown_mj)),
        measured(RUN, "contacts", "", count(control.contacts)),
        measured(RUN, "time in contact", "s", Some(control.contact_s)),
        measured(RUN, "speed of the device, max", "m/s", Some(control.speed_max_m_s)),
        measured(CAMPAIGN, "calm", "", calm.map(|calm| f64::from(u8::from(calm)))),
        measured(ALL, "felt at 0.5 Hz", "N/m", felt(|felt| felt.slow_n_m)),
        measured(ALL, "felt at 0.5 Hz, beyond no network", "N/m", beyond(|felt| felt.slow_n_m)),
        measured(ALL, "felt spring, beyond no network", "N/m", fitted.map(|fit| fit[0])),
        measured(ALL, "felt damper, beyond no network", "N s/m", fitted.map(|fit| fit[1])),
        measured(ALL, "felt mass, beyond no network", "kg", fitted.map(|fit| fit[2])),
        measured(
            ALL,
            "felt, explained by no spring, damper and mass",
            "%",
            felt(|felt| felt.unfitted_percent),
        ),
        measured(ALL, "felt, where the hand did not move", "%", felt(|felt| felt.other_percent)),
        measured(ALL, "felt, error by the truth", "%", error(&control.felt)),
        measured(ALL, "felt, error without a network", "%", error(&control.felt_twin)),
        measured(ALL, "tracking of a led hand, beyond no network", "mm", beyond(|felt| felt.tracking_rms_mm)),
        measured(ALL, "drift of a led hand, beyond no network", "mm", beyond(|felt| felt.drift_mm)),
    ]
}
