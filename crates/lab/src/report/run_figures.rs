//! The figures of one run: quantities over time and distributions.

use super::axis::Axis;
use super::chart::{Chart, Ink, Rule};
use super::format::{capitalised, number, scaled_unit, slug};
use super::page::Figure;
use super::timeline::{Bucket, Timeline};
use crate::result::{Distribution, RunResult, Series};

/// Lines that one figure carries before it becomes a tangle.
const LINES: usize = 6;
/// Bands that one figure carries.
const BANDS: usize = 3;
/// A rule further from the data than this factor is named beside the plot rather than drawn to scale.
const FAR: f64 = 2.5;

/// Figures about one thing, under one heading.
pub(super) struct FigureGroup {
    /// The heading.
    pub(super) title: &'static str,
    /// Never empty.
    pub(super) figures: Vec<Figure>,
}

/// Every figure of a run, in the order of the report.
pub(super) fn groups(run: &RunResult) -> Vec<FigureGroup> {
    let mut inks = Inks::new(run);
    let mut groups = vec![
        FigureGroup { title: "Delay over time", figures: delays(run, &mut inks) },
        FigureGroup { title: "Distribution of delay", figures: delay_distributions(run, &mut inks) },
        FigureGroup { title: "Queues, windows and rates over time", figures: Vec::new() },
        FigureGroup { title: "Skew between media", figures: skews(run) },
    ];
    for kind in kinds(run) {
        groups[2].figures.extend(over_time(run, &kind, &mut inks));
    }
    groups.retain(|group| !group.figures.is_empty());
    groups
}

/// One colour per name, the same in every figure: streams in the order of the run, then others as they come. Links are
/// never drawn with streams and count on their own.
struct Inks {
    streams: Vec<String>,
    links: Vec<String>,
    is_link: Vec<String>,
}

impl Inks {
    fn new(run: &RunResult) -> Self {
        let streams = run.media.iter().map(|medium| medium.stream.clone()).collect();
        Self { streams, links: Vec::new(), is_link: run.links.iter().map(|link| link.name.clone()).collect() }
    }

    fn of(&mut self, name: &str) -> Ink {
        let known =
            if self.is_link.iter().any(|link| link == name) { &mut self.links } else { &mut self.streams };
        let place = known.iter().position(|other| other == name).unwrap_or_else(|| {
            known.push(name.to_owned());
            known.len() - 1
        });
        Ink(place)
    }
}

/// What the kind of a series ends in when it shows a part of the run in finer buckets.
const CLOSE_UP: &str = "_zoom";

/// The kinds of plot besides delay: the usual ones first, then whatever else there is.
fn kinds(run: &RunResult) -> Vec<String> {
    let mut kinds: Vec<String> = ["queue", "cwnd", "rate"].map(str::to_owned).to_vec();
    for series in &run.series {
        let kind = series.plot.strip_suffix(CLOSE_UP).unwrap_or(&series.plot);
        if kind != "delay" && !kinds.iter().any(|known| known == kind) {
            kinds.push(kind.to_owned());
        }
    }
    kinds
}

/// The series of one kind and one name.
struct Subject<'a> {
    whole: &'a Series,
    close: Option<&'a Series>,
}

fn subjects<'a>(run: &'a RunResult, kind: &str) -> Vec<Subject<'a>> {
    let of =
        |plot: String| run.series.iter().filter(move |series| series.plot == plot && series.bucket_s > 0.0);
    let mut subjects: Vec<Subject<'a>> =
        of(kind.to_owned()).map(|whole| Subject { whole, close: None }).collect();
    for close in of(format!("{kind}{CLOSE_UP}")) {
        match subjects.iter_mut().find(|subject| subject.whole.name == close.name) {
            Some(subject) => subject.close = Some(close),
            None => subjects.push(Subject { whole: close, close: None }),
        }
    }
    subjects
}

/// A value that data is compared with.
struct Reference {
    rule: Rule,
    value: f64,
    label: String,
}

/// The model's delays and the limit of one stream.
fn references(run: &RunResult, stream: &str) -> Vec<Reference> {
    let rows = run.models.iter().filter(|model| model.stream == stream).flat_map(|model| &model.rows);
    let bounds = rows.filter(|row| row.quantity.starts_with("d_")).map(|row| Reference {
        rule: Rule::Bound,
        value: row.predicted_ms,
        label: format!("{} {}", row.quantity, number(row.predicted_ms, 4)),
    });
    let limit = delay_limit(run, stream).map(|value| Reference {
        rule: Rule::Limit,
        value,
        label: format!("limit {}", number(value, 4)),
    });
    bounds.chain(limit).filter(|reference| reference.value.is_finite()).collect()
}

fn delay_limit(run: &RunResult, stream: &str) -> Option<f64> {
    let limits = &run.verdict.limits;
    limits.iter().find(|limit| limit.stream == stream && limit.quantity == "delay").map(|limit| limit.limit)
}

fn delays(run: &RunResult, inks: &mut Inks) -> Vec<Figure> {
    let mut figures = Vec::new();
    for subject in subjects(run, "delay") {
        let references = references(run, &subject.whole.name);
        let of = format!("Delay of {}", subject.whole.name);
        let stem = format!("delay-{}", slug(&subject.whole.name));
        figures.extend(timelines(run, &[subject], &of, "delay", &stem, &references, inks));
    }
    figures
}

/// Figures of one kind other than delay: each unit on its own, a few lines each.
fn over_time(run: &RunResult, kind: &str, inks: &mut Inks) -> Vec<Figure> {
    let (title, quantity) = match kind {
        "queue" => ("Queue occupancy".to_owned(), "queue"),
        "cwnd" => ("Congestion window".to_owned(), "window"),
        other => (capitalised(other), other),
    };
    let mut by_unit: Vec<(String, Vec<Subject<'_>>)> = Vec::new();
    for subject in subjects(run, kind) {
        match by_unit.iter_mut().find(|(unit, _)| *unit == subject.whole.unit) {
            Some((_, known)) => known.push(subject),
            None => by_unit.push((subject.whole.unit.clone(), vec![subject])),
        }
    }
    let mut figures = Vec::new();
    for (_, subjects) in by_unit {
        let (drawn, omitted) = if kind == "queue" { significant(subjects) } else { (subjects, Vec::new()) };
        for (part, some) in drawn.chunks(LINES).enumerate() {
            let mut stem = slug(kind);
            if !figures.is_empty() || part > 0 {
                stem.push_str(&format!("-{}", figures.len() + 1));
            }
            let title =
                if let [only] = some { format!("{title} of {}", only.whole.name) } else { title.clone() };
            let mut more = timelines(run, some, &title, quantity, &stem, &[], inks);
            if let (Some(first), false) = (more.first_mut(), omitted.is_empty()) {
                first
                    .caption
                    .push_str(&format!(" Not drawn, nearly empty throughout: {}.", omitted.join(", ")));
            }
            figures.append(&mut more);
        }
    }
    figures
}

/// Sets aside series that would lie on the axis beside the largest.
fn significant(subjects: Vec<Subject<'_>>) -> (Vec<Subject<'_>>, Vec<&str>) {
    let largest = |subject: &Subject<'_>| subject.whole.max.iter().flatten().fold(0.0, |a: f64, b| a.max(*b));
    let bound = 0.02 * subjects.iter().map(largest).fold(0.0, f64::max);
    let (drawn, omitted): (Vec<_>, Vec<_>) = subjects.into_iter().partition(|s| largest(s) > bound);
    (drawn, omitted.iter().map(|subject| subject.whole.name.as_str()).collect())
}

/// The whole run and, when that is long, a stretch of it from close by.
fn timelines(
    run: &RunResult,
    subjects: &[Subject<'_>],
    title: &str,
    quantity: &str,
    stem: &str,
    references: &[Reference],
    inks: &mut Inks,
) -> Vec<Figure> {
    let whole: Vec<Timeline<'_>> = subjects.iter().map(|subject| Timeline::whole(subject.whole)).collect();
    let close: Vec<Timeline<'_>> =
        subjects.iter().filter_map(|s| Timeline::close_up(s.whole, s.close, run.warmup_s)).collect();
    let views = [
        (whole, title.to_owned(), stem.to_owned()),
        (close, format!("{title}, close up"), format!("{stem}-zoom")),
    ];
    let mut figures = Vec::new();
    for (timelines, title, stem) in views {
        let drawn = timelines.iter().any(|timeline| !timeline.is_empty());
        if let (true, Some(chart)) =
            (drawn, timeline_chart(run, &timelines, &title, quantity, references, inks))
        {
            let caption = timeline_caption(&timelines);
            figures.push(Figure { stem, title, caption, chart });
        }
    }
    figures
}

/// Whether bands say something, and can be told apart.
fn banded(timelines: &[Timeline<'_>]) -> bool {
    timelines.len() <= BANDS && timelines.iter().any(Timeline::varies_inside)
}

fn timeline_caption(timelines: &[Timeline<'_>]) -> String {
    let Some(first) = timelines.first() else { return String::new() };
    let what = if banded(timelines) { "Mean, and smallest to largest," } else { "Mean" };
    format!("{what} per {}\u{a0}s.", number(first.step_s(), 3))
}

fn timeline_chart(
    run: &RunResult,
    timelines: &[Timeline<'_>],
    title: &str,
    quantity: &str,
    references: &[Reference],
    inks: &mut Inks,
) -> Option<Chart> {
    let first = timelines.first()?;
    let (from, to) =
        timelines.iter().fold((f64::MAX, f64::MIN), |(from, to), t| (from.min(t.from_s), to.max(t.to_s)));
    let (lo, hi) = Timeline::range(timelines, run.warmup_s)?;
    let (factor, unit) = scaled_unit(&first.series.unit, hi);
    let near = |reference: &&Reference| reference.value <= FAR * hi;
    let (lo, hi) =
        references.iter().filter(near).fold((lo, hi), |(lo, hi), r| (lo.min(r.value), hi.max(r.value)));
    let label = if unit.is_empty() { quantity.to_owned() } else { format!("{quantity} ({unit})") };
    let mut chart = Chart::new(
        title,
        Axis::exact("time (s)", from, to),
        Axis::from_zero(&label, lo * factor, hi * factor),
    );
    if run.warmup_s > from && run.warmup_s < to {
        chart.span(from, run.warmup_s);
    }
    let bands = banded(timelines);
    for timeline in timelines {
        let ink = inks.of(&timeline.series.name);
        let stretches = timeline.stretches();
        if bands {
            stretches.iter().for_each(|stretch| chart.band(ink, band(stretch, factor)));
        }
        for stretch in &stretches {
            let points = stretch.iter().map(|bucket| (bucket.middle_s(), bucket.mean * factor)).collect();
            chart.line(ink, &timeline.series.name, points);
        }
        chart.legend_line(ink, &timeline.series.name);
    }
    if bands {
        chart.legend_band(inks.of(&first.series.name), "min–max");
    }
    if run.warmup_s > from && run.warmup_s < to {
        chart.legend_span("warm-up");
    }
    for reference in references {
        chart.rule(reference.rule, reference.value * factor, &reference.label);
    }
    Some(chart)
}

fn band(stretch: &[Bucket], factor: f64) -> Vec<(f64, f64, f64)> {
    if let [only] = stretch {
        // A lone bucket has no neighbour to reach to: it gets its own width.
        return [only.from_s, only.to_s].map(|t| (t, only.min * factor, only.max * factor)).to_vec();
    }
    stretch.iter().map(|bucket| (bucket.middle_s(), bucket.min * factor, bucket.max * factor)).collect()
}

/// A distribution to be drawn: its name, its colour, the limit that it is held against.
struct Sample<'a> {
    name: &'a str,
    ink: Ink,
    limit: Option<f64>,
    distribution: &'a Distribution,
}

impl Sample<'_> {
    fn points(&self) -> impl DoubleEndedIterator<Item = (f64, f64)> + '_ {
        self.distribution.cdf.iter().copied().filter(|(value, share)| value.is_finite() && share.is_finite())
    }
}

fn delay_distributions(run: &RunResult, inks: &mut Inks) -> Vec<Figure> {
    let mut samples = Vec::new();
    for medium in &run.media {
        let (name, ink) = (medium.stream.as_str(), inks.of(&medium.stream));
        let limit = delay_limit(run, name).filter(|limit| limit.is_finite());
        samples.push(Sample { name, ink, limit, distribution: &medium.delay_ms });
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

fn skews(run: &RunResult) -> Vec<Figure> {
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

fn value_range(samples: &[Sample<'_>]) -> (f64, f64) {
    let values = samples.iter().flat_map(|sample| sample.points()).map(|(value, _)| value);
    values.fold((f64::MAX, f64::MIN), |(lo, hi), value| (lo.min(value), hi.max(value)))
}

/// Logarithmic where the values span more than a linear axis can show.
fn value_axis(label: &str, lo: f64, hi: f64) -> Axis {
    if lo > 0.0 && hi / lo > 30.0 { Axis::log(label, lo, hi) } else { Axis::rounded(label, lo, hi) }
}

fn cdf_chart(samples: &[Sample<'_>], title: &str, label: &str) -> Chart {
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

fn tail_chart(samples: &[Sample<'_>], title: &str) -> Chart {
    let (lo, hi) = value_range(samples);
    let near = |sample: &Sample<'_>| {
        let largest = sample.points().next_back().map_or(0.0, |(value, _)| value);
        sample.limit.filter(|limit| *limit <= FAR * largest && *limit > 0.0)
    };
    let hi = samples.iter().filter_map(near).fold(hi, f64::max);
    let lo = samples.iter().filter_map(near).fold(lo, f64::min);
    let rest = |share: f64| (1.0 - share) * 100.0;
    let positive = |(_, share): (f64, f64)| Some(rest(share)).filter(|rest| *rest > 1e-9);
    let least = samples.iter().flat_map(|s| s.points()).filter_map(positive).fold(10.0, f64::min);
    // The lowest decade that is reached, whole.
    let mut floor = 10.0;
    while floor > least * 1.000_001 {
        floor /= 10.0;
    }
    let mut chart =
        Chart::new(title, value_axis("delay (ms)", lo, hi), Axis::log("deliveries later (%)", floor, 100.0));
    for sample in samples {
        let start = sample.points().next().map(|(value, _)| (value, 100.0));
        let shares = start.into_iter().chain(sample.points().map(|(value, share)| (value, rest(share))));
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
fn steps(points: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let mut corners: Vec<(f64, f64)> = Vec::new();
    for (x, y) in points {
        if let Some((_, last)) = corners.last().copied() {
            corners.push((x, last));
        }
        corners.push((x, y));
    }
    corners
}
