//! The page of a probe: each direction of each path, as it was recorded and as it was fitted.

use super::chart::Ink;
use super::distributions::{Sample, cdf_chart, tail_chart};
use super::format::{count, escape, number, optional};
use super::measures::of;
use super::page::{self, Column, Figure, Table, section};
use crate::result::{Distribution, LimitResult, ProbeResult, ProbedWay};

const RECORDED: Ink = Ink(0);
const FITTED: Ink = Ink(1);

/// The whole document.
pub(super) fn html(probe: &ProbeResult) -> String {
    let title = "A network, as it was probed and as it was fitted";
    let mut body = format!(
        "<header>\n<p class=\"facts\">taut {} · recorded beside fitted</p>\n<h1>{title}</h1>\n\
         <p class=\"lead\">How long messages took one way, and how long they take through the elements that were fitted to them.</p>\n</header>\n",
        escape(&probe.taut)
    );
    body.push_str(&verdict(probe));
    body.push_str(&section("A session over it", &sessions(probe)));
    body.push_str(&section("One-way delay", &ways(probe)));
    let mut first = 1;
    for way in &probe.ways {
        let figures = figures(way);
        body.push_str(&section(&super::format::capitalised(&way.name), &page::figures(&figures, first)));
        first += figures.len();
    }
    page::document(title, &body)
}

/// What was recorded decides.
fn verdict(probe: &ProbeResult) -> String {
    let met = |met: bool| if met { "meets its limits" } else { "does not meet its limits" };
    let (class, mark) = if probe.recorded.met { ("met", "✓") } else { ("failed", "✗") };
    let fitted = if probe.recorded.met == probe.fitted.met { "So it is" } else { "Not so" };
    format!(
        "<div class=\"verdict {class}\" role=\"status\"><strong>{mark} A session over the recording {}</strong>\n\
         <p>{fitted} over the fitted elements, which have no standstills and no changes over time: there it {}.</p></div>\n",
        met(probe.recorded.met),
        met(probe.fitted.met)
    )
}

fn sessions(probe: &ProbeResult) -> String {
    let columns: &[Column<(&LimitResult, &LimitResult)>] = &[
        Column::markup("stream", |(limit, _)| escape(&limit.stream)),
        Column::markup("limit", |(limit, _)| {
            format!("{} ({})", escape(&limit.quantity), escape(&limit.unit))
        }),
        Column::number(4, "recorded", "", |(recorded, _)| recorded.value),
        Column::number(4, "fitted", "", |(_, fitted)| fitted.value),
        Column::number(4, "allowed", "", |(limit, _)| Some(limit.limit)),
    ];
    let pairs: Vec<_> = probe.recorded.limits.iter().zip(&probe.fitted.limits).collect();
    Table::of("", columns, &pairs)
}

/// A row for what was recorded of each direction, and one for what was fitted.
fn ways(probe: &ProbeResult) -> String {
    let mut table = Table::new("").text("direction").number("arrived", "");
    for percentile in ["least", "p50", "p99", "p99.9", "most"] {
        table = table.number(percentile, "ms");
    }
    table = table.number("lost", "%").number("overtaken", "").number("held", "").number("carries", "Mbit/s");
    for way in &probe.ways {
        let delays = |one: &Option<Distribution>| {
            let percentiles: [fn(&Distribution) -> f64; 5] =
                [|d| d.min, |d| d.p50, |d| d.p99, |d| d.p999, |d| d.max];
            percentiles.map(|percentile| optional(of(one, percentile), 4))
        };
        let rate = optional(way.rate_bps.map(|rate| rate / 1e6), 4);
        let mut recorded = vec![escape(&format!("{}: recorded", way.name)), count(way.received)];
        recorded.extend(delays(&way.recorded_ms));
        recorded.extend([number(way.recorded_loss_percent, 3), count(way.overtaken), count(way.held), rate]);
        table.row(&recorded);
        let arrived = way.fitted_ms.as_ref().map_or(0, |delays| delays.count);
        let mut fitted = vec![escape(&format!("{}: fitted", way.name)), count(arrived)];
        fitted.extend(delays(&way.fitted_ms));
        fitted.extend([number(way.fitted_loss_percent, 3), String::new(), String::new(), String::new()]);
        table.row(&fitted);
    }
    table.html()
}

/// The distributions, and their tails.
fn figures(way: &ProbedWay) -> Vec<Figure> {
    let both = [("recorded", RECORDED, &way.recorded_ms), ("fitted", FITTED, &way.fitted_ms)];
    let both: Vec<(&'static str, Ink, &Distribution)> = both
        .into_iter()
        .filter_map(|(name, ink, delays)| Some((name, ink, delays.as_ref()?)))
        .filter(|(.., delays)| !delays.cdf.is_empty())
        .collect();
    let Some(end) = both.iter().map(|(.., delays)| delays.p95).reduce(f64::max) else { return Vec::new() };
    // What is beyond would leave little room for what most messages take.
    let most: Vec<Distribution> = both.iter().map(|(.., delays)| within(delays, end)).collect();
    let title = format!("Delay {}", way.name);
    let caption =
        "Share of messages whose delay is not above a value. The axis ends where both have 95 %.".to_owned();
    let samples: Vec<Sample<'_>> =
        both.iter().zip(&most).map(|((name, ink, _), most)| sample(name, *ink, most)).collect();
    let chart = cdf_chart(&samples, &title, "delay (ms)");
    let all = Figure { stem: "delay-cdf".to_owned(), title, caption, chart };
    let title = format!("Tail of the delay {}", way.name);
    let caption = "Share of messages whose delay is above a value, on a logarithmic scale.".to_owned();
    let samples: Vec<Sample<'_>> =
        both.iter().map(|(name, ink, delays)| sample(name, *ink, delays)).collect();
    let chart = tail_chart(&samples, &title);
    vec![all, Figure { stem: "delay-tail".to_owned(), title, caption, chart }]
}

fn sample<'a>(name: &'a str, ink: Ink, distribution: &'a Distribution) -> Sample<'a> {
    Sample { name, ink, limit: None, distribution }
}

/// Of its points those up to `end`.
fn within(delays: &Distribution, end: f64) -> Distribution {
    let cdf = delays.cdf.iter().copied().filter(|(value, _)| *value <= end).collect();
    Distribution { cdf, ..delays.clone() }
}
