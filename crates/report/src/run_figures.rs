//! The figures of one run: quantities over time and distributions.

use super::axis::Axis;
use super::chart::{Chart, Ink, Rule};
use super::distributions;
use super::format::{capitalised, number, scaled_unit, slug};
use super::page::Figure;
use super::timeline::{Bucket, Timeline};
use crate::result::{ModelMeasure, RunResult, Series};

/// Lines that one figure carries before it becomes a tangle.
pub(super) const LINES: usize = 6;
/// Bands that one figure carries.
const BANDS: usize = 3;
/// A rule further from the data than this factor is named beside the plot rather than drawn to scale.
pub(super) const FAR: f64 = 2.5;

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
        FigureGroup { title: "Latency of commands", figures: distributions::commands(run) },
        FigureGroup { title: "Distribution of delay", figures: distributions::delays(run, &mut inks) },
        FigureGroup { title: "Queues, windows and rates over time", figures: Vec::new() },
        FigureGroup { title: "Skew between media", figures: distributions::skews(run) },
    ];
    let kinds: Vec<Vec<Figure>> = kinds(run).iter().map(|kind| over_time(run, kind, &mut inks)).collect();
    // Those without a close-up last, so that each of the others has its own beside it.
    let (pairs, others): (Vec<_>, Vec<_>) = kinds.into_iter().partition(|figures| figures.len() % 2 == 0);
    groups[3].figures.extend(pairs.into_iter().chain(others).flatten());
    groups.retain(|group| !group.figures.is_empty());
    groups
}

/// One colour per name, the same in every figure. Streams, links, flows and nodes are never drawn together, so each of
/// these counts on its own.
pub(super) struct Inks {
    streams: Vec<String>,
    links: Vec<String>,
    flows: Vec<String>,
    nodes: Vec<String>,
}

impl Inks {
    fn new(run: &RunResult) -> Self {
        Self {
            streams: run.media.iter().map(|medium| medium.stream.clone()).collect(),
            // In the order in which they are drawn: most have no queue.
            links: Vec::new(),
            flows: run.flows.iter().map(|flow| flow.name.clone()).collect(),
            nodes: Vec::new(),
        }
    }

    /// The colour of a stream.
    pub(super) fn stream(&mut self, name: &str) -> Ink {
        Self::place(&mut self.streams, name)
    }

    /// The colour of what a series of this kind is about.
    fn series(&mut self, series: &Series) -> Ink {
        let known = match series.plot.strip_suffix(CLOSE_UP).unwrap_or(&series.plot) {
            "delay" | "gap" => &mut self.streams,
            "queue" => &mut self.links,
            "rate" => &mut self.flows,
            _ => &mut self.nodes,
        };
        Self::place(known, &series.name)
    }

    fn place(known: &mut Vec<String>, name: &str) -> Ink {
        Ink(known.iter().position(|other| other == name).unwrap_or_else(|| {
            known.push(name.to_owned());
            known.len() - 1
        }))
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
    let mut references: Vec<Reference> = Vec::new();
    for row in run.models.iter().flat_map(|model| &model.rows).filter(|row| row.stream == stream) {
        let label = match row.measure {
            ModelMeasure::DMinOfCycles | ModelMeasure::DMin => "d_min",
            ModelMeasure::DMaxOfCycles | ModelMeasure::DMax => "d_max",
            ModelMeasure::FrameDelay => "bound",
            ModelMeasure::Jitter => continue,
        };
        let (value, label) = (row.predicted_ms, format!("{label} {}", number(row.predicted_ms, 4)));
        // The model has one value for what is measured in two ways.
        if !references.iter().any(|known| known.label == label) {
            references.push(Reference { rule: Rule::Bound, value, label });
        }
    }
    if let Some(value) = delay_limit(run, stream) {
        let label = format!("limit {}", number(value, 4));
        references.push(Reference { rule: Rule::Limit, value, label });
    }
    references.retain(|reference| reference.value.is_finite());
    references
}

/// What the queues of these links hold at most, each value once.
fn capacities(run: &RunResult, subjects: &[Subject<'_>]) -> Vec<Reference> {
    let of = |subject: &Subject<'_>| run.links.iter().find(|link| link.name == subject.whole.name);
    let mut limits: Vec<u64> =
        subjects.iter().filter_map(of).filter_map(|link| link.queue_limit_bytes).collect();
    limits.sort_unstable();
    limits.dedup();
    let capacity = |limit: u64| {
        let value = limit as f64;
        let (factor, unit) = scaled_unit("bytes", value);
        Reference {
            rule: Rule::Capacity,
            value,
            label: format!("limit {} {unit}", number(value * factor, 4)),
        }
    };
    limits.into_iter().map(capacity).collect()
}

pub(super) fn delay_limit(run: &RunResult, stream: &str) -> Option<f64> {
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
        "ssthresh" => ("Slow-start threshold".to_owned(), "threshold"),
        "rtt" => ("Round-trip time".to_owned(), "round-trip time"),
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
        let (drawn, omitted) = worth_drawing(subjects, kind == "queue");
        for (part, some) in drawn.chunks(LINES).enumerate() {
            let mut stem = slug(kind);
            if !figures.is_empty() || part > 0 {
                stem.push_str(&format!("-{}", figures.len() + 1));
            }
            let title =
                if let [only] = some { format!("{title} of {}", only.whole.name) } else { title.clone() };
            let limits = if kind == "queue" { capacities(run, some) } else { Vec::new() };
            let mut more = timelines(run, some, &title, quantity, &stem, &limits, inks);
            if let (Some(first), false) = (more.first_mut(), omitted.is_empty()) {
                first.caption.push_str(&format!(
                    " Not drawn, for there is hardly anything to see: {}.",
                    omitted.join(", ")
                ));
            }
            figures.append(&mut more);
        }
    }
    figures
}

/// Sets aside, if others are left, series of a single value and (of queues) those that would lie on the axis beside the
/// largest; with the names of those.
fn worth_drawing(subjects: Vec<Subject<'_>>, small_is_nothing: bool) -> (Vec<Subject<'_>>, Vec<&str>) {
    let largest = |subject: &Subject<'_>| subject.whole.max.iter().flatten().fold(0.0, |a: f64, b| a.max(*b));
    let bound = 0.02 * subjects.iter().map(largest).fold(0.0, f64::max);
    let lasting = |subject: &Subject<'_>| subject.whole.mean.iter().flatten().nth(1).is_some();
    let any_lasts = subjects.iter().any(lasting);
    let worth = |s: &Subject<'_>| (lasting(s) || !any_lasts) && (largest(s) > bound || !small_is_nothing);
    let (drawn, omitted): (Vec<_>, Vec<_>) = subjects.into_iter().partition(worth);
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
    let close: Vec<Timeline<'_>> = subjects
        .iter()
        .filter_map(|s| Timeline::close_up(s.whole, s.close, run.warmup_s, worst_s(run)))
        .collect();
    let worst =
        run.worst.as_ref().filter(|worst| close.iter().any(|it| (it.from_s..it.to_s).contains(&worst.at_s)));
    let at_s = worst.map(|worst| format!("{:.2}\u{a0}s", worst.at_s)).unwrap_or_default();
    let around = if at_s.is_empty() { at_s.clone() } else { format!(" around the worst moment, {at_s}") };
    // Said once, where it was.
    let worst = worst.filter(|worst| subjects.iter().any(|subject| subject.whole.name == worst.stream));
    let told = worst.map_or_else(String::new, |worst| {
        let waited = number(worst.waited_ms, 4);
        format!(" The sample that was made at {at_s} ended the longest wait, by what is allowed, of {waited}\u{a0}ms.")
    });
    let views = [
        (whole, title.to_owned(), stem.to_owned(), ""),
        (close, format!("{title}, close up{around}"), format!("{stem}-zoom"), &*told),
    ];
    let mut figures = Vec::new();
    for (timelines, title, stem, more) in views {
        let drawn = timelines.iter().any(|timeline| !timeline.is_empty());
        if let (true, Some(chart)) =
            (drawn, timeline_chart(run, &timelines, &title, quantity, references, inks))
        {
            let caption = timeline_caption(&timelines) + more;
            figures.push(Figure { stem, title, caption, chart });
        }
    }
    // They stand side by side.
    if let [whole, close] = &mut figures[..] {
        whole.chart.align(&mut close.chart);
    }
    figures
}

/// Where the run was worst.
fn worst_s(run: &RunResult) -> Option<f64> {
    run.worst.as_ref().map(|worst| worst.at_s)
}

/// Whether bands say something, and can be told apart.
fn banded(timelines: &[Timeline<'_>]) -> bool {
    timelines.len() <= BANDS && timelines.iter().any(Timeline::varies_inside)
}

fn timeline_caption(timelines: &[Timeline<'_>]) -> String {
    let Some(first) = timelines.first() else { return String::new() };
    let (step, line) = (number(first.step_s(), 3), number(first.step_s() * line_step(timelines) as f64, 3));
    match (banded(timelines), step == line) {
        (true, true) => format!("Mean, and smallest to largest, per {step}\u{a0}s."),
        (true, false) => format!("Smallest to largest per {step}\u{a0}s; line: mean per {line}\u{a0}s."),
        (false, _) => format!("Mean per {line}\u{a0}s."),
    }
}

/// Buckets that each point of the figure's lines is the mean of.
fn line_step(timelines: &[Timeline<'_>]) -> usize {
    timelines.iter().map(Timeline::line_step).max().unwrap_or(1)
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
        if unit == "ms" {
            Axis::from_zero(&label, lo * factor, hi * factor)
        } else {
            Axis::rounded(&label, lo.min(0.0) * factor, hi * factor)
        },
    );
    if run.warmup_s > from && run.warmup_s < to {
        chart.span(from, run.warmup_s);
    }
    let (bands, step) = (banded(timelines), line_step(timelines));
    for timeline in timelines {
        let ink = inks.series(timeline.series);
        let stretches = timeline.stretches();
        if bands {
            stretches.iter().for_each(|stretch| chart.band(ink, band(stretch, factor)));
        }
        for stretch in &stretches {
            let points = stretch.chunks(step).map(Bucket::together);
            let points = points.map(|bucket| (bucket.middle_s(), bucket.mean * factor)).collect();
            chart.line(ink, &timeline.series.name, points);
        }
        chart.legend_line(ink, &timeline.series.name);
    }
    if bands {
        chart.legend_band(inks.series(first.series), "min–max");
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
