//! The session of operator and robot: on the page of a run, and as text.

use super::format::{ABSENT, capitalised, causes, count, escape, number, optional, spaced};
use super::page::{Table, warning};
use crate::result::{
    ChannelResult, ControlResult, Distribution, EmergencyResult, RunResult, StreamResult, TeleopResult,
    awake_mj, radio_mj,
};

/// The section; nothing when the run has no such session.
pub(super) fn html(run: &RunResult) -> String {
    let Some(teleop) = &run.teleop else { return String::new() };
    let mut html = String::new();
    if let Some(at) = teleop.closed_s {
        html.push_str(&warning(&format!("<b>The session ended by itself</b> after {} s.", number(at, 4))));
    }
    html.push_str(&overview(run, teleop));
    html.push_str(&streams(&teleop.streams));
    html.push_str(&latencies(&teleop.streams));
    html.push_str(&channels(&teleop.channels, run.duration_s));
    html.push_str(&emergencies(&teleop.emergencies));
    let mut table = Table::new("Stops by the watchdog").number("at", "s").number("silence", "ms");
    for stop in teleop.watchdogs.iter().take(MOST_ROWS) {
        table.row(&[number(stop.stopped_s, 6), number(stop.silence_ms, 5)]);
    }
    html.push_str(&table.html());
    html.push_str(&teleop.control.as_ref().map_or_else(String::new, control));
    html
}

/// Rows of stops that a page shows.
const MOST_ROWS: usize = 50;

fn overview(run: &RunResult, teleop: &TeleopResult) -> String {
    let mut table = Table::new("The session").text("measure").number("value", "").text("unit");
    let rtt = |of: fn(&Distribution) -> f64| teleop.rtt_ms.as_ref().map(of);
    let rows = [
        ("handshake of the transport", teleop.handshake_ms, "ms"),
        ("handshake, resumed", teleop.resumed_handshake_ms, "ms"),
        ("operator and robot know each other after", teleop.opened_ms, "ms"),
        ("the same, resumed", teleop.resumed_opened_ms, "ms"),
        ("first state at the robot after", teleop.first_state_ms, "ms"),
        ("the same, resumed", teleop.resumed_first_state_ms, "ms"),
        ("robot moves after", teleop.moved_ms, "ms"),
        ("states made", Some(teleop.made as f64), ""),
        ("arrived", teleop.delivered_percent, "%"),
        ("round trip, min", rtt(|d| d.min), "ms"),
        ("round trip, mean", rtt(|d| d.mean), "ms"),
        ("round trip, median", rtt(|d| d.p50), "ms"),
        ("round trip, 95 %", rtt(|d| d.p95), "ms"),
        ("round trip, 99 %", rtt(|d| d.p99), "ms"),
        ("round trip, 99.9 %", rtt(|d| d.p999), "ms"),
        ("round trip, max", rtt(|d| d.max), "ms"),
        ("jitter of the round trip", teleop.rtt_jitter_ms, "ms"),
        ("clock of the operator as the robot knows it, off by", teleop.clock_error_ms, "ms"),
        ("and said to be off by at most", teleop.clock_uncertainty_ms, "ms"),
    ];
    for (name, value, unit) in rows.into_iter().filter(|(_, value, _)| value.is_some()) {
        table.row(&[name.to_owned(), optional(value, 5), unit.to_owned()]);
    }
    for (name, wire) in ["there", "back"].into_iter().zip(&teleop.wire) {
        let megabits = |bytes: u64| number(bytes as f64 * 8.0 / 1e6 / run.duration_s, 4);
        let unit = "Mbit/s".to_owned();
        table.row(&[
            format!("states, feedback and messages that arrived, {name}"),
            megabits(wire.payload),
            unit.clone(),
        ]);
        table.row(&[format!("on the wire, {name}"), megabits(wire.bytes), unit]);
        let efficiency = optional(wire.efficiency_percent, 4);
        table.row(&[format!("payload of bytes on the wire, {name}"), efficiency, "%".to_owned()]);
    }
    for (name, value) in radios(teleop) {
        table.row(&[name.to_owned(), number(value, 4), "mJ".to_owned()]);
    }
    table.row(&["either radio, for being awake".into(), number(awake_mj(run.duration_s), 4), "mJ".into()]);
    format!("<p>Over {}.</p>\n{}", escape(&teleop.transport.to_uppercase()), table.html())
}

/// What either end's radio spends on the session's bytes, were its network LTE ([`radio_mj`]).
fn radios(teleop: &TeleopResult) -> [(&'static str, f64); 2] {
    let [there, back] = teleop.wire.each_ref().map(|wire| wire.bytes);
    [
        ("the operator's radio, were it LTE, for the bytes", radio_mj(there, back)),
        ("the robot's radio, were it LTE, for the bytes", radio_mj(back, there)),
    ]
}

fn streams(streams: &[StreamResult]) -> String {
    let mut table = Table::new("What became of the operator's states, by stream").text("stream");
    table = table.number("made", "").number("arrived", "").number("applied", "").number("lost", "");
    table = table.number("in flight", "").text("dropped at the operator").text("refused at the robot");
    table = table.number("late", "").number("duplicates", "").number("reordered", "");
    for stream in streams {
        let or_none = |text: String| if text.is_empty() { ABSENT.to_owned() } else { text };
        table.row(&[
            escape(&stream.name),
            count(stream.made),
            count(stream.arrived),
            count(stream.applied),
            count(stream.lost),
            count(stream.in_flight),
            or_none(causes(&stream.dropped)),
            or_none(causes(&stream.refused)),
            count(stream.late),
            count(stream.duplicates),
            count(stream.reordered),
        ]);
    }
    table.html()
}

fn latencies(streams: &[StreamResult]) -> String {
    let mut table = Table::new("One-way latency of the operator's states, by stream").text("stream");
    table = table.number("min", "ms").number("mean", "ms").number("median", "ms").number("95 %", "ms");
    table = table.number("99 %", "ms").number("99.9 %", "ms").number("max", "ms").number("jitter", "ms");
    for stream in streams {
        let Some(d) = &stream.one_way_ms else { continue };
        let mut row = vec![escape(&stream.name)];
        row.extend([d.min, d.mean, d.p50, d.p95, d.p99, d.p999, d.max].map(|value| number(value, 5)));
        row.push(optional(stream.jitter_ms, 4));
        table.row(&row);
    }
    table.html()
}

fn channels(channels: &[ChannelResult], seconds: f64) -> String {
    let mut table = Table::new("What became of the messages of channels").text("channel").text("direction");
    table =
        table.text("delivery").number("made", "").number("delivered", "").text("dropped").number("lost", "");
    table = table.number("rate delivered", "Mbit/s").number("age, median", "ms").number("age, 99 %", "ms");
    for channel in channels {
        let age = |of: fn(&Distribution) -> f64| optional(channel.age_ms.as_ref().map(of), 4);
        table.row(&[
            escape(&channel.name),
            channel.direction.name().to_owned(),
            escape(&channel.delivery),
            count(channel.made),
            count(channel.delivered),
            Some(causes(&channel.dropped))
                .filter(|text| !text.is_empty())
                .unwrap_or_else(|| ABSENT.to_owned()),
            count(channel.lost),
            number(channel.bytes as f64 * 8.0 / 1e6 / seconds, 4),
            age(|age| age.p50),
            age(|age| age.p99),
        ]);
    }
    table.html()
}

fn emergencies(presses: &[EmergencyResult]) -> String {
    let mut table =
        Table::new("Emergency stops").number("pressed at", "s").number("robot stands after", "ms");
    table = table.number("acknowledged after", "ms").number("of it the path", "ms").number("added", "ms");
    table = table.number("states that waited", "");
    for press in presses.iter().take(MOST_ROWS) {
        table.row(&[
            number(press.pressed_s, 6),
            optional(press.stopped_ms, 5),
            optional(press.acknowledged_ms, 5),
            optional(press.path_ms(), 5),
            optional(press.added_ms(), 4),
            count(press.waiting),
        ]);
    }
    table.html()
}

fn control(control: &ControlResult) -> String {
    let title = format!("Hand and arm: {}", escape(&control.environment));
    let mut table = Table::new(&title).text("measure").number("value", "").text("unit");
    for (name, value, unit) in control_rows(control) {
        table.row(&[capitalised(name), optional(value, 5), unit.to_owned()]);
    }
    let verdict = if control.stable {
        "<p>The loop was stable: the device never ran away, the arm never rattled.</p>\n"
    } else {
        "<p><b>The loop was not stable</b>: the device ran away, or the arm rattled.</p>\n"
    };
    format!("{}{verdict}", table.html())
}

/// What is told of the loop: name, value, unit.
pub(super) fn control_rows(control: &ControlResult) -> Vec<(&'static str, Option<f64>, &'static str)> {
    vec![
        ("robot moved", Some(control.moved_s), "s"),
        ("tracking error, rms", Some(control.tracking_rms_mm), "mm"),
        ("tracking error, max", Some(control.tracking_max_mm), "mm"),
        ("force error, rms", control.force_error_rms_n, "N"),
        ("force error, max", control.force_error_max_n, "N"),
        ("force on the arm, max", Some(control.force_max_n), "N"),
        ("energy injected by the network", control.injected_mj, "mJ"),
        ("contacts", Some(control.contacts as f64), ""),
        ("time in contact", Some(control.contact_s), "s"),
        ("contacts begun within a second, max", Some(control.contacts_per_s_max as f64), ""),
        ("speed of the device, max", Some(control.speed_max_m_s), "m/s"),
    ]
}

/// Rows of text for a terminal: under which heading, and the cells of each.
pub(super) fn text_tables(teleop: &TeleopResult) -> Vec<(String, Vec<Vec<String>>)> {
    let with_unit = |(name, value, unit): &(&str, Option<f64>, &str)| {
        value.map(|value| vec![(*name).to_owned(), format!("{value:.3} {unit}").trim_end().to_owned()])
    };
    let rtt = |of: fn(&Distribution) -> f64| teleop.rtt_ms.as_ref().map(of);
    let session = [
        ("handshake", teleop.handshake_ms, "ms"),
        ("handshake, resumed", teleop.resumed_handshake_ms, "ms"),
        ("session opened", teleop.opened_ms, "ms"),
        ("session opened, resumed", teleop.resumed_opened_ms, "ms"),
        ("first state at the robot", teleop.first_state_ms, "ms"),
        ("first state at the robot, resumed", teleop.resumed_first_state_ms, "ms"),
        ("arrived", teleop.delivered_percent, "%"),
        ("round trip, median", rtt(|d| d.p50), "ms"),
        ("round trip, 99 %", rtt(|d| d.p99), "ms"),
        ("jitter of the round trip", teleop.rtt_jitter_ms, "ms"),
        ("payload of bytes on the wire, there", teleop.wire[0].efficiency_percent, "%"),
        ("session ended by itself", teleop.closed_s, "s"),
    ];
    let radios = radios(teleop).map(|(name, value)| (name, Some(value), "mJ"));
    let rows = session.iter().chain(&radios).filter_map(with_unit).collect();
    let mut tables = vec![
        (format!("session over {}", teleop.transport), rows),
        ("states by stream".to_owned(), teleop.streams.iter().map(stream_row).collect()),
        ("messages by channel".to_owned(), teleop.channels.iter().map(channel_row).collect()),
        (
            "emergency stops".to_owned(),
            teleop.emergencies.iter().take(MOST_ROWS).map(emergency_row).collect(),
        ),
    ];
    if let Some(control) = &teleop.control {
        let verdict = if control.stable { "stable" } else { "NOT STABLE" };
        let heading = format!("hand and arm, {}: {verdict}", control.environment);
        tables.push((heading, control_rows(control).iter().filter_map(with_unit).collect()));
    }
    let watchdog = |stop: &crate::result::WatchdogResult| {
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
