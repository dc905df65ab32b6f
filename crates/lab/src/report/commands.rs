//! A flow of commands, as rows of a table.

use crate::result::{CommandsResult, Distribution, PathResult};

/// What it found: a heading, and rows.
pub(super) fn text_table(commands: &CommandsResult) -> (String, Vec<Vec<String>>) {
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut row = |name: &str, value: Option<f64>, unit: &str| {
        rows.extend(value.map(|value| vec![name.to_owned(), format!("{value:.3} {unit}")]));
    };
    let latency = |of: fn(&Distribution) -> f64| commands.latency_ms.as_ref().map(of);
    row(&format!("within {} ms", commands.deadline_ms), commands.in_time_percent, "% of those sent");
    row("received", commands.received_percent, "%");
    row("received late", Some(commands.late as f64), "");
    row("latency, mean", latency(|d| d.mean), "ms");
    row("p50", latency(|d| d.p50), "ms");
    row("p95", latency(|d| d.p95), "ms");
    row("p99", latency(|d| d.p99), "ms");
    row("p99.9", latency(|d| d.p999), "ms");
    row("largest", latency(|d| d.max), "ms");
    row("longest gap", commands.gap_ms, "ms");
    row("copies of a message", commands.copies, "");
    for (way, paths) in [("there", &commands.there), ("back", &commands.back)] {
        for (path, PathResult { packets, bytes }) in paths.iter().enumerate() {
            let what = format!("{packets} packets");
            rows.push(vec![format!("path {path} {way}"), what, format!("{bytes} B")]);
        }
    }
    (format!("commands over {}", commands.transport), rows)
}
