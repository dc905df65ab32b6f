//! What the hand feels, as a figure and as tables.

use std::fmt::Write as _;

use super::axis::Axis;
use super::chart::{Chart, Ink, Shape};
use super::format::{ABSENT, law, number, optional};
use super::result::{TransparencyPoint, TransparencyResult};

/// Per cent: what is beyond is drawn at the edge.
const ERRORS: [f64; 2] = [1.0, 1_000.0];

/// A line for each law and loss on the last thing: how far what is felt is from the truth, over the round trip; hollow where a hand rattles.
pub(super) fn figure(result: &TransparencyResult) -> String {
    let rtts = || result.points.iter().map(|point| point.rtt_ms);
    // A little wider than what is drawn, for the marks.
    let [shortest, longest] = [rtts().fold(f64::INFINITY, f64::min) / 1.1, rtts().fold(1.0, f64::max) * 1.1];
    let x = Axis::log("round trip, ms", shortest, longest);
    let y = Axis::log("error of what is felt, %", ERRORS[0] / 1.2, ERRORS[1]);
    let shown = result.points.iter().rev().find(|point| point.felt.error_percent.is_some());
    let thing = shown.map_or("", |point| point.thing.as_str());
    let mut chart = Chart::new(
        &format!("{thing}: how far what the hand feels from 0.5 to 10 Hz is from the truth, by control law"),
        x,
        y,
    );
    chart.set_height(300.0);
    let lines = result.points.chunk_by(is_one_line).filter(|line| line[0].thing == thing);
    for (number, line) in lines.enumerate() {
        let (ink, name) = (Ink(number), name(&line[0]));
        let place = |point: &TransparencyPoint| {
            Some((point.rtt_ms, point.felt.error_percent?.clamp(ERRORS[0], ERRORS[1])))
        };
        chart.legend_line(ink, &name);
        chart.line(ink, &name, line.iter().filter_map(place).collect());
        for point in line {
            let Some((rtt, error)) = place(point) else { continue };
            let (shape, calm) =
                if point.calm == Some(true) { (Shape::Disc, "calm") } else { (Shape::Diamond, "not calm") };
            chart.point(ink, shape, rtt, error, format!("{name}: {error:.0} % at {rtt} ms, {calm}"));
        }
    }
    chart.legend_point(Ink(0), Shape::Disc, "calm in every grip");
    chart.legend_point(Ink(0), Shape::Diamond, "not calm");
    chart.standalone()
}

fn is_one_line(a: &TransparencyPoint, b: &TransparencyPoint) -> bool {
    a.thing == b.thing && a.law == b.law && a.loss_percent.total_cmp(&b.loss_percent).is_eq()
}

fn name(point: &TransparencyPoint) -> String {
    law(&point.law, point.loss_percent)
}

/// A table for each thing, in Markdown.
pub(super) fn text(result: &TransparencyResult) -> String {
    let mut text = String::new();
    for points in result.points.chunk_by(|a, b| a.thing == b.thing) {
        let loses = points.iter().any(|point| point.clairvoyant_error_percent.is_some());
        let _ =
            writeln!(text, "**{}**, {} N/m behind the arm\n", points[0].thing, round(points[0].truth_n_m));
        text.push_str(
            "| law | rtt, ms | calm | slow, N/m | fit: N/m | N·s/m | kg | unfitted, % | beyond the twin: N/m | N·s/m | kg | tracking, mm | \
             drift, mm | force, N | not sines, % | error, % | twin's |",
        );
        text.push_str(if loses { " lossless |\n" } else { "\n" });
        text.push_str(&"| --- ".repeat(if loses { 18 } else { 17 }));
        text.push_str("|\n");
        points.iter().for_each(|point| text.push_str(&row(point, loses)));
        text.push('\n');
    }
    if result.points.iter().any(|point| point.frontier_n_m.is_some()) {
        text.push_str(&frontier(result));
    }
    text
}

fn row(point: &TransparencyPoint, loses: bool) -> String {
    let TransparencyPoint { felt, twin, .. } = point;
    let mut cells = vec![
        name(point),
        number(point.rtt_ms, 4),
        point.calm.map_or("–", |calm| if calm { "yes" } else { "no" }).to_owned(),
        round(felt.slow_n_m),
    ];
    cells.extend(fit(felt.fit()));
    cells.push(number(felt.unfitted_percent, 2));
    cells.extend(fit(felt.fit_beyond(twin)));
    cells.extend([
        fixed(felt.tracking_rms_mm - twin.tracking_rms_mm, 2),
        fixed(felt.drift_mm - twin.drift_mm, 2),
        fixed(felt.force_error_rms_n - twin.force_error_rms_n, 2),
        number(felt.other_percent, 2),
        optional(felt.error_percent, 3),
        optional(twin.error_percent, 3),
    ]);
    if loses {
        cells.push(optional(point.clairvoyant_error_percent, 3));
    }
    format!("| {} |\n", cells.join(" | "))
}

/// Spring, damper and mass.
fn fit(fit: Option<[f64; 3]>) -> [String; 3] {
    let absent = || ABSENT.to_owned();
    std::array::from_fn(|i| fit.map_or_else(absent, |fit| fixed(fit[i], i)))
}

/// What waves show of the stiffest thing beside what they could.
fn frontier(result: &TransparencyResult) -> String {
    let mut text = "**waves**: the most that they can show, 4 m₀/T²\n\n| thing | rtt, ms | felt, N/m | frontier, N/m |\n\
        | --- | --- | --- | --- |\n"
        .to_owned();
    for point in &result.points {
        if let Some(frontier) = point.frontier_n_m
            && point.loss_percent <= 0.0
        {
            let cells =
                [point.thing.clone(), number(point.rtt_ms, 4), round(point.felt.slow_n_m), round(frontier)];
            let _ = writeln!(text, "| {} |", cells.join(" | "));
        }
    }
    text
}

fn round(value: f64) -> String {
    fixed(value, 0)
}

/// A minus as it is printed, and none before a zero.
fn fixed(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    if !text.chars().any(|c| ('1'..='9').contains(&c)) {
        return text.trim_start_matches('-').to_owned();
    }
    text.replace('-', "−")
}
