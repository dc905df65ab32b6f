//! The map of what stays calm, as a figure and as text.

use std::fmt::Write as _;

use super::axis::Axis;
use super::chart::{Chart, Ink, Shape};
use super::format::{law, number, optional};
use super::result::{MapGrip, MapPoint, MapResult};

/// A line for each law and loss: the stiffest wall that is calm in every grip, over the round trip; beside position–force what theory says.
pub(super) fn figure(map: &MapResult) -> String {
    let [softest, stiffest] = map.range_n_m;
    let rtts = || map.points.iter().map(|point| point.rtt_ms);
    let x = Axis::log("round trip, ms", rtts().fold(f64::INFINITY, f64::min), rtts().fold(1.0, f64::max));
    let y = Axis::log("wall, N/m", softest, stiffest);
    let mut chart =
        Chart::new("the stiffest wall that stays calm, over the round trip, by control law", x, y);
    chart.set_height(300.0);
    let mut has_theory = false;
    for (number, line) in map.points.chunk_by(is_one_line).enumerate() {
        let ink = Ink(number);
        let name = name(&line[0]);
        let place = |point: &MapPoint| Some((point.rtt_ms, point.calm_to_n_m?));
        chart.legend_line(ink, &name);
        chart.line(ink, &name, line.iter().filter_map(place).collect());
        for point in line {
            if let Some((rtt, calm)) = place(point) {
                chart.point(ink, Shape::Disc, rtt, calm, format!("{name}: {calm:.0} N/m at {rtt} ms"));
            }
            let theory = point.grips.iter().filter_map(|grip| grip.theory_n_m).reduce(f64::min);
            if let Some(theory) = theory {
                has_theory = true;
                chart.point(ink, Shape::Diamond, point.rtt_ms, theory, format!("theory: {theory:.0} N/m"));
            }
        }
    }
    if has_theory {
        chart.legend_point(Ink(0), Shape::Diamond, "margin of the delayed loop");
    }
    chart.standalone()
}

fn is_one_line(a: &MapPoint, b: &MapPoint) -> bool {
    a.law == b.law && a.loss_percent.total_cmp(&b.loss_percent).is_eq()
}

fn name(point: &MapPoint) -> String {
    law(&point.law, point.loss_percent)
}

/// A table: a row for each round trip, a column for each law and loss; and one of theory beside what was found.
pub(super) fn text(map: &MapResult) -> String {
    let lines: Vec<&[MapPoint]> = map.points.chunk_by(is_one_line).collect();
    let mut text = "the stiffest wall that stays calm in every grip, N/m\n".to_owned();
    let _ = write!(text, "{:>9}", "rtt, ms");
    for line in &lines {
        let _ = write!(text, "  {:>20}", name(&line[0]));
    }
    text.push('\n');
    for (row, first) in lines.first().copied().unwrap_or_default().iter().enumerate() {
        let _ = write!(text, "{:>9}", number(first.rtt_ms, 4));
        for line in &lines {
            let _ =
                write!(text, "  {:>20}", line.get(row).map_or_else(String::new, |point| calm(point, map)));
        }
        text.push('\n');
    }
    let beside: Vec<_> =
        map.points.iter().flat_map(|point| point.grips.iter().map(move |grip| (point, grip))).collect();
    let beside: Vec<_> = beside.into_iter().filter(|(_, grip)| grip.theory_n_m.is_some()).collect();
    if !beside.is_empty() {
        text.push_str("\nposition–force beside the margin of the delayed loop, N/m\n");
        let _ = writeln!(
            text,
            "{:>9}  {:>9}  {:>9}  {:>9}  {:>7}",
            "rtt, ms", "grip, kg", "found", "theory", "off, %"
        );
        for (point, grip) in beside {
            text.push_str(&theory_row(point, grip));
        }
    }
    text
}

fn calm(point: &MapPoint, map: &MapResult) -> String {
    match point.calm_to_n_m {
        None => format!("under {}", number(map.range_n_m[0], 4)),
        Some(calm) if calm >= map.range_n_m[1] => format!("all to {}", number(calm, 5)),
        Some(calm) => number(calm, 4),
    }
}

fn theory_row(point: &MapPoint, grip: &MapGrip) -> String {
    let found = grip.calm_to_n_m.zip(grip.rattles_from_n_m).map(|(low, high)| f64::midpoint(low, high));
    format!(
        "{:>9}  {:>9}  {:>9}  {:>9}  {:>7}\n",
        number(point.rtt_ms, 4),
        number(grip.mass_kg, 3),
        optional(found, 5),
        optional(grip.theory_n_m, 5),
        optional(grip.off_theory_percent(), 3)
    )
}
