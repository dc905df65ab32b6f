//! Real runs beside simulated ones: the page, the figures, the text.

use super::axis::Axis;
use super::campaign::but_for;
use super::chart::{Chart, Ink};
use super::format::{ABSENT, escape, optional};
use super::measures::of;
use super::page::{self, Column, Figure, Table, section};
use crate::result::{
    ComparedRun, ComparedStream, ComparisonResult, CrossSummary, Difference, Distribution, PERCENTILES, Ran,
    SessionSummary, VideoResult,
};

const SIMULATED: Ink = Ink(0);
const REAL: Ink = Ink(1);

/// The whole document.
pub(super) fn html(comparison: &ComparisonResult) -> String {
    let runs = comparison.runs.len();
    let mut body = format!(
        "<header>\n<p class=\"facts\">taut {} · {runs} real run{}</p>\n<h1>{}</h1>\n<p class=\"lead\">{}</p>\n</header>\n",
        escape(&comparison.taut),
        if runs == 1 { "" } else { "s" },
        escape(&comparison.title),
        escape(&comparison.description)
    );
    body.push_str(&verdict(comparison));
    body.push_str(&section("One-way latency, simulated and real", &latencies(comparison)));
    body.push_str(&section("Cross traffic, simulated and real", &paired_table(&cross_rows(comparison))));
    body.push_str(&section("Video, simulated and real", &paired_table(&video_rows(comparison))));
    body.push_str(&section("Everything else", &others(comparison)));
    body.push_str(&section("Distributions", &page::figures(&figures(comparison), 1)));
    page::document(&comparison.title, &body)
}

fn compared(comparison: &ComparisonResult) -> impl Iterator<Item = &ComparedRun> {
    comparison.runs.iter().filter(|run| run.simulated.is_some())
}

/// How many medians agree, of how many.
fn agreement(comparison: &ComparisonResult) -> (usize, usize) {
    let medians: Vec<_> =
        compared(comparison).flat_map(ComparedRun::streams).map(|one| one.median()).collect();
    (medians.iter().filter(|median| **median == Difference::Within).count(), medians.len())
}

fn verdict(comparison: &ComparisonResult) -> String {
    let (within, all) = agreement(comparison);
    let mut html = match (within, all) {
        (_, 0) => "<div class=\"verdict open\"><strong>Nothing was compared</strong></div>\n".to_owned(),
        _ => {
            let (class, mark) = if within == all { ("met", "✓") } else { ("failed", "✗") };
            format!(
                "<div class=\"verdict {class}\"><strong>{mark} {within} of {all} medians are within 10 % or 0.2 ms \
                 of the simulation's</strong></div>\n"
            )
        }
    };
    for run in &comparison.runs {
        for violation in run.both().flat_map(|one| &one.violations) {
            html.push_str(&page::warning(&format!("{}: {}", escape(&name(run)), escape(violation))));
        }
    }
    html
}

/// `"UDP, baseline, seed 1"`
fn name(run: &ComparedRun) -> String {
    if run.variant.is_empty() {
        format!("seed {}", run.seed)
    } else {
        format!("{}, seed {}", but_for(&run.variant, &run.overridden), run.seed)
    }
}

/// `"UDP, seed 1, backward haptic"`
fn name_of(run: &ComparedRun, stream: &ComparedStream<'_>) -> String {
    if stream.name.is_empty() { name(run) } else { format!("{}, {}", name(run), stream.name) }
}

fn word(stream: &ComparedStream<'_>) -> &'static str {
    match stream.median() {
        Difference::Within => "PASS",
        Difference::Beyond => "DIFFERENT",
        Difference::Unknown => ABSENT,
    }
}

fn latencies(comparison: &ComparisonResult) -> String {
    let mut table = Table::new(
        "Milliseconds; of each pair the simulated run first, then the real one, then by how much \
                                that is more",
    )
    .text("run");
    for (percentile, _) in PERCENTILES {
        table = table.group(percentile, 3).number("sim", "").number("real", "").number("+", "");
    }
    table = table.text("median");
    for run in &comparison.runs {
        for stream in run.streams() {
            let mut cells = vec![escape(&name_of(run, &stream))];
            cells.extend(percentiles(&stream));
            cells.push(word(&stream).to_owned());
            table.row(&cells);
        }
    }
    table.html()
}

/// Simulated, real and difference of each percentile, in milliseconds.
fn percentiles(stream: &ComparedStream<'_>) -> impl Iterator<Item = String> {
    stream.percentiles().into_iter().flat_map(|[simulated, real]| {
        let more = simulated.zip(real).map(|(simulated, real)| format!("{:+.3}", real - simulated));
        [optional(simulated, 4), optional(real, 4), more.unwrap_or_else(|| ABSENT.to_owned())]
    })
}

fn others<'a>(comparison: &'a ComparisonResult) -> String {
    let both = |run: &'a ComparedRun| run.both().map(move |one| (run, one));
    let rows: Vec<_> = comparison.runs.iter().flat_map(both).collect();
    let columns: &[Column<(&ComparedRun, &SessionSummary)>] = &[
        Column::markup("run", |(run, _)| escape(&name(run))),
        Column::markup("ran", |(_, one)| one.ran.name().to_owned()),
        Column::number(3, "jitter", "ms", |(_, one)| one.jitter_ms),
        Column::number(4, "arrived", "%", |(_, one)| one.delivered_percent),
        Column::number(3, "dropped by the sender", "%", |(_, one)| one.dropped_percent),
        Column::number(4, "handshake", "ms", |(_, one)| one.handshake_ms),
        Column::number(4, "round trip p50", "ms", |(_, one)| one.rtt_p50_ms),
        Column::number(4, "payload", "%", |(_, one)| one.efficiency_percent),
        Column::markup("counted by the network and the host", |(_, one)| match one.ran {
            Ran::Simulated => String::new(),
            _ => escape(&counters(one)),
        }),
    ];
    Table::of("Of each pair the simulated run first", columns, &rows)
}

fn counters(one: &SessionSummary) -> String {
    let all = one.counters.iter().map(|(name, count)| format!("{} {count}", super::format::spaced(name)));
    all.collect::<Vec<_>>().join(", ")
}

/// A distribution function of each pair, and its tail.
pub(super) fn figures(comparison: &ComparisonResult) -> Vec<Figure> {
    let figure = |(run, stream): (&ComparedRun, ComparedStream<'_>)| {
        let [simulated, real] = stream.one_way_ms;
        let lines = [("simulated", SIMULATED, simulated), (run.real.ran.name(), REAL, real)];
        let title = name_of(run, &stream);
        let chart = cdf(&lines, &title)?;
        let caption =
            "Of what arrived, the share that did within a time. The axis ends where both have 99.9 %."
                .to_owned();
        Some(Figure { stem: format!("cdf-{}", super::format::slug(&title)), title, caption, chart })
    };
    let streams = |run| ComparedRun::streams(run).into_iter().map(move |stream| (run, stream));
    comparison.runs.iter().flat_map(streams).filter_map(figure).collect()
}

fn cdf(lines: &[(&str, Ink, Option<&Distribution>)], title: &str) -> Option<Chart> {
    let there = || lines.iter().filter_map(|(name, ink, one)| Some((*name, *ink, (*one)?)));
    let lo = there().map(|(.., one)| one.min).reduce(f64::min)?;
    let hi = there().map(|(.., one)| one.p999).reduce(f64::max)?.max(lo + 1e-3);
    let x = if lo > 0.0 && hi / lo > 30.0 {
        Axis::log("one-way latency (ms)", lo, hi)
    } else {
        Axis::rounded("one-way latency (ms)", lo, hi)
    };
    let mut chart = Chart::new(title, x, Axis::exact("share of what arrived (%)", 0.0, 100.0));
    chart.set_height(180.0);
    for (name, ink, one) in there() {
        let inside = one.cdf.iter().filter(|(value, _)| *value <= hi);
        let mut points: Vec<(f64, f64)> = Vec::new();
        for (value, share) in inside {
            let before = points.last().map_or(0.0, |(_, share)| *share);
            points.extend([(*value, before), (*value, share * 100.0)]);
        }
        chart.line(ink, name, points);
        chart.legend_line(ink, name);
    }
    Some(chart)
}

/// What is compared of two summaries, by its name.
type Pairs<T> = [(&'static str, fn(&T) -> Option<f64>)];

/// What became of flows of commands, as rows of text, the head first; none where there are none.
pub(super) fn command_rows(comparison: &ComparisonResult) -> Vec<Vec<String>> {
    let columns: &Pairs<SessionSummary> = &[
        ("in time, %", |one| one.in_time_percent),
        ("gap, ms", |one| one.gap_ms),
        ("p50, ms", |one| of(&one.one_way_ms, |d| d.p50)),
        ("p99, ms", |one| of(&one.one_way_ms, |d| d.p99)),
        ("max, ms", |one| of(&one.one_way_ms, |d| d.max)),
        ("copies", |one| one.copies),
    ];
    let runs = comparison.runs.iter().filter(|run| run.real.in_time_percent.is_some());
    pair_rows("commands", 5, columns, runs.map(|run| (name(run), run.simulated.as_ref(), &run.real)))
}

const OF_CROSS: &Pairs<CrossSummary> = &[
    ("Mbit/s", |flow| Some(flow.delivered_bps / 1e6)),
    ("p50, ms", |flow| of(&flow.delay_ms, |d| d.p50)),
    ("p99, ms", |flow| of(&flow.delay_ms, |d| d.p99)),
    // Where the ends count, it includes what is still under way at the end.
    ("not delivered, %", |flow| flow.loss_percent),
];
const OF_VIDEO: &Pairs<VideoResult> = &[
    ("packets lost, %", |video| video.packet_loss_percent),
    ("frames lost, %", |video| video.frame_loss_percent),
    ("frames/s", |video| video.fps.as_ref().map(|fps| fps.mean)),
    ("latency, ms", |video| of(&video.frame_delay_ms, |d| d.mean)),
    ("offset, ms", |video| of(&video.offset_ms, |d| d.mean)),
];

/// What became of cross traffic, as rows, the head first; none where there is none.
pub(super) fn cross_rows(comparison: &ComparisonResult) -> Vec<Vec<String>> {
    paired(comparison, "cross traffic", OF_CROSS, |one| &one.cross, |flow| &flow.name)
}

/// What arrived of videos over RTP, likewise.
pub(super) fn video_rows(comparison: &ComparisonResult) -> Vec<Vec<String>> {
    paired(comparison, "video", OF_VIDEO, |one| &one.videos, |video| &video.name)
}

/// Of all runs, each thing with its twin of the same name.
fn paired<T>(
    comparison: &ComparisonResult,
    what: &str,
    columns: &Pairs<T>,
    all: fn(&SessionSummary) -> &[T],
    named: fn(&T) -> &str,
) -> Vec<Vec<String>> {
    let real = comparison.runs.iter().flat_map(|run| all(&run.real).iter().map(move |real| (run, real)));
    let pairs = real.map(|(run, real)| {
        let same = |one: &&T| named(one) == named(real);
        let twin = run.simulated.as_ref().and_then(|twin| all(twin).iter().find(same));
        (format!("{}, {}", name(run), named(real)), twin, real)
    });
    pair_rows(what, 4, columns, pairs)
}

/// A head, then a row for each pair: simulated and real, column by column; nothing where there are no pairs.
fn pair_rows<'a, T: 'a>(
    what: &str,
    digits: usize,
    columns: &Pairs<T>,
    pairs: impl Iterator<Item = (String, Option<&'a T>, &'a T)>,
) -> Vec<Vec<String>> {
    let names = columns.iter().flat_map(|(name, _)| [(*name).to_owned(), "real".to_owned()]);
    let mut rows: Vec<Vec<String>> =
        vec![std::iter::once(format!("{what}: simulated, real")).chain(names).collect()];
    for (who, simulated, real) in pairs {
        let both = [simulated, Some(real)];
        let cells =
            columns.iter().flat_map(|(_, value)| both.map(|one| optional(one.and_then(value), digits)));
        rows.push(std::iter::once(who).chain(cells).collect());
    }
    if rows.len() > 1 { rows } else { Vec::new() }
}

/// A table of such rows; nothing where there are none.
fn paired_table(rows: &[Vec<String>]) -> String {
    let [head, rows @ ..] = rows else { return String::new() };
    let caption = "What arrived, and how late; of each pair the simulated run first, then the real one";
    let mut table = Table::new(caption).text("flow");
    for column in head[1..].iter().step_by(2) {
        table = table.group(column, 2).number("sim", "").number("real", "");
    }
    for cells in rows {
        table.row(&cells.iter().map(|cell| escape(cell)).collect::<Vec<_>>());
    }
    table.html()
}

/// The table of latencies as rows of text, the head first, and the verdict.
pub(super) fn text_rows(comparison: &ComparisonResult) -> (Vec<Vec<String>>, String) {
    let mut head = vec!["one way, ms: simulated, real, +".to_owned()];
    for (percentile, _) in PERCENTILES {
        head.extend([percentile.to_owned(), "real".to_owned(), "+".to_owned()]);
    }
    head.extend(["arrived, %".to_owned(), "real".to_owned(), "median".to_owned()]);
    let row = |run: &ComparedRun, stream: ComparedStream<'_>| {
        let mut cells = vec![name_of(run, &stream)];
        cells.extend(percentiles(&stream));
        cells.extend(stream.delivered_percent.map(|arrived| optional(arrived, 4)));
        cells.push(word(&stream).to_owned());
        cells
    };
    let rows = comparison.runs.iter().flat_map(|run| run.streams().into_iter().map(move |one| row(run, one)));
    let rows = std::iter::once(head).chain(rows).collect();
    let verdict = match agreement(comparison) {
        (_, 0) => "nothing was compared".to_owned(),
        (within, all) => format!("{within} of {all} medians are within 10 % or 0.2 ms of the simulation's"),
    };
    (rows, verdict)
}
