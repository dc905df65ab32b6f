//! The figures of distributions: how many deliveries took how long.

use super::axis::Axis;
use super::chart::{Chart, Ink};
use super::page::Figure;
use super::run_figures::{FAR, Inks, LINES, delay_limit};
use crate::result::{Distribution, RunResult};

pub(super) fn delays(run: &RunResult, inks: &mut Inks) -> Vec<Figure> {
    let mut samples = Vec::new();
    for medium in &run.media {
        let (name, ink) = (medium.stream.as_str(), inks.stream(&medium.stream));
        let Some(distribution) = &medium.delay_ms else { continue };
        let limit = delay_limit(run, name).filter(|limit| limit.is_finite());
        samples.push(Sample { name, ink, limit, distribution });
    }
    samples.retain(|sample| sample.points().next().is_some());
    let mut figures = Vec::new();
    for (i, some) in samples.chunks(LINES).enumerate() {
        let suffix = if i == 0 { String::new() } else { format!("-{}", i + 1) };
        let title = "Distribution of delay".to_owned();
        let caption = "Share of deliveries whose delay is not above a value.".to_owned();
        let chart = cdf_chart(some, &title, "delay (ms)");
        figures.push(Figure { stem: format!("delay-cdf{suffix}"), title, caption, chart });
        let title = "Tail of the delay".to_owned();
        let caption = "Share of deliveries whose delay is above a value, on a logarithmic scale. \
                       Dashed: each stream's limit, where it is near."
            .to_owned();
        let chart = tail_chart(some, &title);
        figures.push(Figure { stem: format!("delay-tail{suffix}"), title, caption, chart });
    }
    figures
}

/// From making a command to its first delivery, beside the deadline.
pub(super) fn commands(run: &RunResult) -> Vec<Figure> {
    let Some(commands) = &run.commands else { return Vec::new() };
    let Some(distribution) = &commands.latency_ms else { return Vec::new() };
    let (name, limit) = (commands.transport.as_str(), Some(commands.deadline_ms));
    let samples = [Sample { name, ink: Ink(0), limit, distribution }];
    if samples[0].points().next().is_none() {
        return Vec::new();
    }
    let title = "Distribution of latency".to_owned();
    let caption = "Share of the commands that arrived whose latency is not above a value.".to_owned();
    let chart = cdf_chart(&samples, &title, "latency (ms)");
    let all = Figure { stem: "commands-cdf".to_owned(), title, caption, chart };
    let title = "Tail of the latency".to_owned();
    let caption =
        "Share of the commands that arrived whose latency is above a value, on a logarithmic scale. \
                   Dashed: the deadline, where it is near."
            .to_owned();
    let chart = tail_chart(&samples, &title);
    vec![all, Figure { stem: "commands-tail".to_owned(), title, caption, chart }]
}

pub(super) fn skews(run: &RunResult) -> Vec<Figure> {
    let sample = |(i, skew): (usize, &'_ crate::result::SkewResult)| (i, skew.skew_ms.cdf.is_empty());
    let shown: Vec<usize> =
        run.skews.iter().enumerate().map(sample).filter(|(_, none)| !none).map(|(i, _)| i).collect();
    let mut figures = Vec::new();
    for (part, some) in shown.chunks(LINES).enumerate() {
        let samples: Vec<Sample<'_>> = some
            .iter()
            .enumerate()
            .map(|(ink, i)| (Ink(ink), &run.skews[*i]))
            .map(|(ink, skew)| Sample { name: &skew.pair, ink, limit: None, distribution: &skew.skew_ms })
            .collect();
        let title = "Skew between media".to_owned();
        let caption =
            "Delay of the second medium less that of the first, at each delivery of the second.".to_owned();
        let stem = if part == 0 { "skew-cdf".to_owned() } else { format!("skew-cdf-{}", part + 1) };
        let chart = cdf_chart(&samples, &title, "skew (ms)");
        figures.push(Figure { stem, title, caption, chart });
    }
    figures
}

/// A distribution to be drawn: its name, its colour, the limit that it is held against.
pub(super) struct Sample<'a> {
    pub(super) name: &'a str,
    pub(super) ink: Ink,
    pub(super) limit: Option<f64>,
    pub(super) distribution: &'a Distribution,
}

impl Sample<'_> {
    /// (value, per cent of values above it). Above any but the largest there is at least one, whatever a summary says.
    fn tail(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        let one = 100.0 / self.distribution.count.max(1) as f64;
        self.points().map(move |(value, share)| {
            (value, if share < 1.0 { ((1.0 - share) * 100.0).max(one) } else { 0.0 })
        })
    }

    fn points(&self) -> impl DoubleEndedIterator<Item = (f64, f64)> + '_ {
        self.distribution.cdf.iter().copied().filter(|(value, share)| value.is_finite() && share.is_finite())
    }
}

fn value_range(samples: &[Sample<'_>]) -> (f64, f64) {
    let values = samples.iter().flat_map(|sample| sample.points()).map(|(value, _)| value);
    values.fold((f64::MAX, f64::MIN), |(lo, hi), value| (lo.min(value), hi.max(value)))
}

/// Logarithmic where the values span more than a linear axis can show.
pub(super) fn value_axis(label: &str, lo: f64, hi: f64) -> Axis {
    if lo > 0.0 && hi / lo > 30.0 { Axis::log(label, lo, hi) } else { Axis::rounded(label, lo, hi) }
}

pub(super) fn cdf_chart(samples: &[Sample<'_>], title: &str, label: &str) -> Chart {
    let (lo, hi) = value_range(samples);
    let mut chart = Chart::new(title, value_axis(label, lo, hi), Axis::rounded("deliveries (%)", 0.0, 100.0));
    for sample in samples {
        let first = sample.points().next().map(|(value, _)| (value, 0.0));
        let shares = first.into_iter().chain(sample.points().map(|(value, share)| (value, share * 100.0)));
        chart.line(sample.ink, sample.name, steps(shares));
        chart.legend_line(sample.ink, sample.name);
    }
    chart
}

pub(super) fn tail_chart(samples: &[Sample<'_>], title: &str) -> Chart {
    let (lo, hi) = value_range(samples);
    let near = |sample: &Sample<'_>| {
        let largest = sample.points().next_back().map_or(0.0, |(value, _)| value);
        sample.limit.filter(|limit| *limit <= FAR * largest && *limit > 0.0)
    };
    let hi = samples.iter().filter_map(near).fold(hi, f64::max);
    let lo = samples.iter().filter_map(near).fold(lo, f64::min);
    let least = samples
        .iter()
        .flat_map(Sample::tail)
        .map(|(_, rest)| rest)
        .filter(|rest| *rest > 0.0)
        .fold(10.0, f64::min);
    // The lowest decade that is reached, whole.
    let mut floor = 10.0;
    while floor > least * 1.000_001 {
        floor /= 10.0;
    }
    let mut chart =
        Chart::new(title, value_axis("delay (ms)", lo, hi), Axis::log("deliveries later (%)", floor, 100.0));
    for sample in samples {
        let start = sample.points().next().map(|(value, _)| (value, 100.0));
        let shares = start.into_iter().chain(sample.tail());
        // The largest value has nothing above it, and a logarithmic scale no place for that: the line falls to the edge.
        let shown = shares.map(|(value, rest)| (value, rest.max(floor / 10.0)));
        if let Some(limit) = near(sample) {
            chart.vertical(sample.ink, limit);
        }
        chart.line(sample.ink, sample.name, steps(shown));
        chart.legend_line(sample.ink, sample.name);
    }
    chart
}

/// The corners of a function that keeps its value until the next point.
pub(super) fn steps(points: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let mut corners: Vec<(f64, f64)> = Vec::new();
    for (x, y) in points {
        if let Some((_, last)) = corners.last().copied() {
            corners.push((x, last));
        }
        corners.push((x, y));
    }
    corners
}
