//! The session of operator and robot: on the page of a run, and as text.

use super::format::{ABSENT, capitalised, causes_or_none, escape, number, spaced};
use super::measures::{self, Measured, mbit_s, of};
use super::page::{self, Column, Table, warning};
use crate::result::{
    ChannelResult, ControlResult, Distribution, EmergencyResult, RunResult, StreamResult, WatchdogResult,
};

/// The section; nothing when the run has no such session.
pub(super) fn html(run: &RunResult) -> String {
    let Some(teleop) = &run.teleop else { return String::new() };
    let mut html = String::new();
    if let Some(at) = teleop.closed_s {
        html.push_str(&warning(&format!("<b>The session ended by itself</b> after {} s.", number(at, 4))));
    }
    html.push_str(&format!("<p>Over {}.</p>\n", escape(&teleop.transport.to_uppercase())));
    html.push_str(&page::measures("The session", measures::of_session(run, teleop)));
    html.push_str(&Table::of("What became of the operator's states, by stream", STREAMS, &teleop.streams));
    let arrived = teleop.streams.iter().filter(|stream| stream.one_way_ms.is_some());
    html.push_str(&Table::of("One-way latency of the operator's states, by stream", LATENCIES, arrived));
    html.push_str(&channels(run, &teleop.channels));
    html.push_str(&Table::of("Emergency stops", EMERGENCIES, teleop.emergencies.iter().take(MOST_ROWS)));
    html.push_str(&Table::of("Stops by the watchdog", WATCHDOGS, teleop.watchdogs.iter().take(MOST_ROWS)));
    html.push_str(&teleop.control.as_ref().map_or_else(String::new, control));
    html
}

/// Rows of stops that a page shows.
const MOST_ROWS: usize = 50;

const WATCHDOGS: &[Column<WatchdogResult>] = &[
    Column::number(6, "at", "s", |stop| Some(stop.stopped_s)),
    Column::number(5, "silence", "ms", |stop| Some(stop.silence_ms)),
];

const STREAMS: &[Column<StreamResult>] = &[
    Column::markup("stream", |stream| escape(&stream.name)),
    Column::count("made", "", |stream| stream.made),
    Column::count("arrived", "", |stream| stream.arrived),
    Column::count("applied", "", |stream| stream.applied),
    Column::count("lost", "", |stream| stream.lost),
    Column::count("in flight", "", |stream| stream.in_flight),
    Column::markup("dropped at the operator", |stream| causes_or_none(&stream.dropped)),
    Column::markup("refused at the robot", |stream| causes_or_none(&stream.refused)),
    Column::count("late", "", |stream| stream.late),
    Column::count("duplicates", "", |stream| stream.duplicates),
    Column::count("reordered", "", |stream| stream.reordered),
];

const LATENCIES: &[Column<StreamResult>] = &[
    Column::markup("stream", |stream| escape(&stream.name)),
    Column::number(5, "min", "ms", |stream| of(&stream.one_way_ms, |d| d.min)),
    Column::number(5, "mean", "ms", |stream| of(&stream.one_way_ms, |d| d.mean)),
    Column::number(5, "median", "ms", |stream| of(&stream.one_way_ms, |d| d.p50)),
    Column::number(5, "95 %", "ms", |stream| of(&stream.one_way_ms, |d| d.p95)),
    Column::number(5, "99 %", "ms", |stream| of(&stream.one_way_ms, |d| d.p99)),
    Column::number(5, "99.9 %", "ms", |stream| of(&stream.one_way_ms, |d| d.p999)),
    Column::number(5, "max", "ms", |stream| of(&stream.one_way_ms, |d| d.max)),
    Column::number(4, "jitter", "ms", |stream| stream.jitter_ms),
];

fn channels(run: &RunResult, channels: &[ChannelResult]) -> String {
    let channels: Vec<_> = channels.iter().map(|channel| (channel, run)).collect();
    let columns: &[Column<(&ChannelResult, &RunResult)>] = &[
        Column::markup("channel", |(channel, _)| escape(&channel.name)),
        Column::markup("direction", |(channel, _)| channel.direction.name().to_owned()),
        Column::markup("delivery", |(channel, _)| escape(&channel.delivery)),
        Column::count("made", "", |(channel, _)| channel.made),
        Column::count("delivered", "", |(channel, _)| channel.delivered),
        Column::markup("dropped", |(channel, _)| causes_or_none(&channel.dropped)),
        Column::count("lost", "", |(channel, _)| channel.lost),
        Column::number(4, "rate delivered", "Mbit/s", |(channel, run)| {
            mbit_s(channel.delivered_bps, channel.bytes, run)
        }),
        Column::number(4, "age, median", "ms", |(channel, _)| of(&channel.age_ms, |age| age.p50)),
        Column::number(4, "age, 99 %", "ms", |(channel, _)| of(&channel.age_ms, |age| age.p99)),
    ];
    Table::of("What became of the messages of channels", columns, &channels)
}

const EMERGENCIES: &[Column<EmergencyResult>] = &[
    Column::number(6, "pressed at", "s", |press| Some(press.pressed_s)),
    Column::number(5, "robot stands after", "ms", |press| press.stopped_ms),
    Column::number(5, "acknowledged after", "ms", |press| press.acknowledged_ms),
    Column::number(5, "of it the path", "ms", EmergencyResult::path_ms),
    Column::number(4, "added", "ms", EmergencyResult::added_ms),
    Column::count("states that waited", "", |press| press.waiting),
];

fn control(control: &ControlResult) -> String {
    let title = format!("Hand and arm: {}", escape(&control.environment));
    let verdict = escape(&felt(control));
    let met =
        control.failure.is_none() && control.touch.as_ref().is_none_or(|touch| touch.calm != Some(false));
    let (open, close) = if met { ("", "") } else { ("<b>", "</b>") };
    let verdict = format!("<p>{open}{}: {verdict}{close}.</p>\n", capitalised(&control.environment));
    page::measures(&title, measures::of_control(control))
        + &verdict
        + &critical(control).map_or_else(String::new, |(title, rows)| page::measures(&title, rows))
}

/// How stiff it might be by theory, under its heading.
fn critical(control: &ControlResult) -> Option<(String, Vec<Measured>)> {
    let critical = control.touch.as_ref()?.critical.as_ref()?;
    let title =
        format!("position–force and simpler worlds at the round trip of {} ms", number(critical.rtt_ms, 4));
    Some((title, measures::of_critical(critical)))
}

/// How what is touched feels, and from which round trip on it must rattle.
fn felt(control: &ControlResult) -> String {
    let calm = match (&control.failure, &control.touch) {
        (Some(failure), _) => return format!("FAILED, {failure}"),
        (None, None) => return "nothing is felt".to_owned(),
        (None, Some(touch)) => match touch.calm {
            Some(true) => "calm",
            Some(false) => "RATTLES",
            None if touch.rest_s > 0.0 => "not judged, for the force did not come back to the hand",
            None => "not judged, for the hand never rested on it for long enough",
        },
    };
    let touch = control.touch.as_ref();
    match touch.and_then(|touch| touch.critical_rtt_ms) {
        Some(ms) => format!("{calm}; coupled directly it must rattle from a round trip of {ms:.2} ms on"),
        None if touch.is_some_and(|touch| touch.margin_unknown) => {
            format!(
                "{calm}; from which round trip on it must rattle is not known, no linear model has its hysteresis"
            )
        }
        None => format!("{calm}; no round trip makes it rattle"),
    }
}

/// Rows of text for a terminal: under which heading, and the cells of each.
pub(super) fn text_tables(run: &RunResult) -> Vec<(String, Vec<Vec<String>>)> {
    let Some(teleop) = &run.teleop else { return Vec::new() };
    let mut tables = vec![
        (format!("session over {}", teleop.transport), measures::in_text(measures::of_session(run, teleop))),
        ("states by stream".to_owned(), teleop.streams.iter().map(stream_row).collect()),
        ("messages by channel".to_owned(), teleop.channels.iter().map(channel_row).collect()),
        (
            "emergency stops".to_owned(),
            teleop.emergencies.iter().take(MOST_ROWS).map(emergency_row).collect(),
        ),
    ];
    if let Some(control) = &teleop.control {
        let heading = format!("hand and arm, {}: {}", control.environment, felt(control));
        tables.push((heading, measures::in_text(measures::of_control(control))));
        tables.extend(critical(control).map(|(title, rows)| (title, measures::in_text(rows))));
    }
    let watchdog = |stop: &WatchdogResult| {
        vec![format!("at {:.3} s", stop.stopped_s), format!("after a silence of {:.3} ms", stop.silence_ms)]
    };
    tables.push((
        "stopped by the watchdog".to_owned(),
        teleop.watchdogs.iter().take(MOST_ROWS).map(watchdog).collect(),
    ));
    tables
}

/// Counts by cause for a terminal.
fn plain(counts: &std::collections::BTreeMap<String, u64>) -> String {
    let each = counts.iter().filter(|(_, n)| **n > 0).map(|(why, n)| format!("{} {n}", spaced(why)));
    each.collect::<Vec<_>>().join(", ")
}

fn channel_row(channel: &ChannelResult) -> Vec<String> {
    let age = |age: &Distribution| format!("age {:.3} / {:.3} ms (50 / 99 %)", age.p50, age.p99);
    let dropped = Some(plain(&channel.dropped)).filter(|text| !text.is_empty());
    let mut row = vec![
        format!("{}, {}", channel.name, channel.direction.name()),
        format!("made {}", channel.made),
        format!("delivered {}", channel.delivered),
        format!("{} B", channel.bytes),
        format!("lost {}", channel.lost),
        channel.age_ms.as_ref().map_or_else(String::new, age),
    ];
    row.extend(dropped.map(|causes| format!("dropped: {causes}")));
    row
}

fn stream_row(stream: &StreamResult) -> Vec<String> {
    let one_way = stream.one_way_ms.as_ref();
    let latency =
        one_way.map_or_else(String::new, |d| format!("one way {:.3} / {:.3} ms (50 / 99 %)", d.p50, d.p99));
    let mut row = vec![
        stream.name.clone(),
        format!("made {}", stream.made),
        format!("applied {}", stream.applied),
        format!("lost {}", stream.lost),
        format!("in flight {}", stream.in_flight),
        latency,
    ];
    let split = |what: &str, counts: &std::collections::BTreeMap<String, u64>| {
        (!counts.is_empty()).then(|| format!("{what}: {}", plain(counts)))
    };
    row.extend(split("dropped", &stream.dropped));
    row.extend(split("refused", &stream.refused));
    row
}

fn emergency_row(press: &EmergencyResult) -> Vec<String> {
    let ms = |what: &str, value: Option<f64>| {
        value.map_or_else(|| format!("{what} {ABSENT}"), |value| format!("{what} {value:.3} ms"))
    };
    vec![
        format!("at {:.3} s", press.pressed_s),
        ms("stands after", press.stopped_ms),
        ms("acknowledged after", press.acknowledged_ms),
        ms("of it the path", press.path_ms()),
        format!("{} states waited", press.waiting),
    ]
}
