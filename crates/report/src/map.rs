//! The map of what stays calm, as a figure and as text.

use std::fmt::Write as _;

use super::axis::Axis;
use super::chart::{Chart, Ink, Shape};
use super::format::{law, number, optional};
use taut_qos::rendering::Critical;

use super::result::{MapGrip, MapPoint, MapResult};

/// A line for each law and loss: the stiffest wall that is calm in every grip, over the round trip; beside position–force what theory says. Where less is felt
/// than is calm, a mark at the stiffest that is felt, or at the lower edge.
pub(super) fn figure(map: &MapResult) -> String {
    let [softest, stiffest] = map.range_n_m;
    let rtts = || map.points.iter().map(|point| point.rtt_ms);
    let x = Axis::log("round trip, ms", rtts().fold(f64::INFINITY, f64::min), rtts().fold(1.0, f64::max));
    let y = Axis::log("wall, N/m", softest, stiffest);
    let mut chart =
        Chart::new("the stiffest wall that stays calm, over the round trip, by control law", x, y);
    chart.set_height(300.0);
    let (mut has_theory, mut has_unfelt) = (false, false);
    for (number, line) in map.points.chunk_by(is_one_line).enumerate() {
        let ink = Ink(number);
        let name = name(&line[0]);
        let place = |point: &MapPoint| Some((point.rtt_ms, point.calm_to_n_m?));
        chart.legend_line(ink, &name);
        chart.line(ink, &name, line.iter().filter_map(place).collect());
        for point in line {
            if let Some((rtt, calm)) = place(point) {
                let tip = format!("{name}: {} at {rtt} ms", told(point, map));
                if point.felt_to_n_m < point.calm_to_n_m {
                    has_unfelt = true;
                    let felt = point.felt_to_n_m.unwrap_or(softest);
                    chart.point(ink, Shape::Cross, rtt, felt, tip.clone());
                }
                chart.point(ink, Shape::Disc, rtt, calm, tip);
            }
            let theory = point.grips.iter().filter_map(|grip| grip.theory_n_m).reduce(f64::min);
            if let Some(theory) = theory {
                has_theory = true;
                chart.point(ink, Shape::Diamond, point.rtt_ms, theory, format!("theory: {theory:.0} N/m"));
            }
        }
    }
    chart.legend_point(Ink(0), Shape::Disc, "calm");
    if has_unfelt {
        chart.legend_point(Ink(0), Shape::Cross, "felt by half, where that is less");
    }
    if has_theory {
        chart.legend_point(Ink(0), Shape::Diamond, "margin of the delayed loop");
    }
    chart.standalone()
}

fn is_one_line(a: &MapPoint, b: &MapPoint) -> bool {
    a.different == b.different && a.law == b.law && a.loss_percent.total_cmp(&b.loss_percent).is_eq()
}

fn name(point: &MapPoint) -> String {
    law(&point.law, point.loss_percent)
}

/// A table: a row for each round trip, a column for each law and loss; and one of theory beside what was found.
pub(super) fn text(map: &MapResult) -> String {
    let mut text = String::new();
    if map.points.iter().any(|point| point.different.is_some()) {
        parts(&mut text, map);
        return text;
    }
    let lines: Vec<&[MapPoint]> = map.points.chunk_by(is_one_line).collect();
    text.push_str("the stiffest wall that stays calm in every grip, N/m; in brackets, where less is felt by half, to where all are, and how much is felt of the stiffest\n");
    let _ = write!(text, "{:>9}", "rtt, ms");
    for line in &lines {
        let _ = write!(text, "  {:>24}", name(&line[0]));
    }
    text.push('\n');
    for (row, first) in lines.first().copied().unwrap_or_default().iter().enumerate() {
        let _ = write!(text, "{:>9}", number(first.rtt_ms, 4));
        for line in &lines {
            let _ =
                write!(text, "  {:>24}", line.get(row).map_or_else(String::new, |point| told(point, map)));
        }
        text.push('\n');
    }
    let beside: Vec<_> =
        map.points.iter().flat_map(|point| point.grips.iter().map(move |grip| (point, grip))).collect();
    let beside: Vec<_> = beside.into_iter().filter(|(_, grip)| grip.theory_n_m.is_some()).collect();
    if !beside.is_empty() {
        text.push_str(
            "\nposition–force beside the margin of the delayed loop, N/m, and numbers of simpler worlds\n",
        );
        let _ = writeln!(
            text,
            "{:>9}  {:>9}  {:>9}  {:>9}  {:>7}  {:>10}  {:>17}",
            "rtt, ms", "grip, kg", "found", "theory", "off, %", "Gil, Hulin", "Llewellyn, N s/m"
        );
        for (point, grip) in beside {
            text.push_str(&theory_row(point, grip));
        }
    }
    text
}

/// In Markdown: a row for each difference, a column for each law, loss and round trip, and what theory says at each round trip.
fn parts(text: &mut String, map: &MapResult) {
    let rows: Vec<&[MapPoint]> = map.points.chunk_by(|a, b| a.different == b.different).collect();
    let columns = rows.first().copied().unwrap_or_default();
    let mut rtts: Vec<f64> = Vec::new();
    for point in columns {
        if rtts.iter().all(|rtt| rtt.total_cmp(&point.rtt_ms).is_ne()) {
            rtts.push(point.rtt_ms);
        }
    }
    let ms = |rtt: &f64| format!("{} ms", number(*rtt, 4));
    let mut heads: Vec<String> =
        columns.iter().map(|point| format!("{}, {}", name(point), ms(&point.rtt_ms))).collect();
    for theory in ["margin", "Gil, Hulin"] {
        heads.extend(rtts.iter().map(|rtt| format!("{theory}, {}", ms(rtt))));
    }
    heads.extend(["Colgate", "2f/Δ"].map(str::to_owned));
    let _ = writeln!(text, "| | {} |\n|{}", heads.join(" | "), " --- |".repeat(heads.len() + 1));
    for row in rows {
        let different = row[0].different.as_deref().unwrap_or("as it is");
        let mut cells: Vec<String> = row.iter().map(|point| told(point, map)).collect();
        let at = |rtt: f64| row.iter().filter(move |point| point.rtt_ms.total_cmp(&rtt).is_eq());
        cells.extend(rtts.iter().map(|rtt| {
            let grips = at(*rtt).flat_map(|point| &point.grips);
            optional(grips.filter_map(|grip| grip.theory_n_m).reduce(f64::min), 4)
        }));
        cells.extend(
            rtts.iter().map(|rtt| optional(at(*rtt).find_map(|point| point.critical.gil_hulin_n_m), 4)),
        );
        let Critical { passive_n_m, quantised_n_m, .. } = row[0].critical;
        cells.push(if passive_n_m == Some(0.0) { "none".to_owned() } else { optional(passive_n_m, 4) });
        cells.push(optional(quantised_n_m, 4));
        let _ = writeln!(text, "| {different} | {} |", cells.join(" | "));
    }
}

/// `"all (4120; 31 %)"`: how much is calm, and where less is felt, to where all are, and how much of the stiffest; then what was not pressed.
fn told(point: &MapPoint, map: &MapResult) -> String {
    let mut told = stiffest(point.calm_to_n_m, map);
    let untouched = point.grips.iter().filter_map(|grip| grip.not_pressed_n_m);
    let untouched = untouched.reduce(|a, b| [a[0].min(b[0]), a[1].max(b[1])]);
    if !point.grips.iter().any(MapGrip::presses) {
        return "not pressed".to_owned();
    }
    if point.felt_to_n_m < point.calm_to_n_m {
        let share = optional(point.felt_percent, 2);
        let _ = write!(told, " ({}; {share} %)", stiffest(point.felt_to_n_m, map));
    }
    if let Some([softest, stiffest]) = untouched {
        let _ = write!(told, ", {} to {} not pressed", number(softest, 4), number(stiffest, 4));
    }
    told
}

fn stiffest(wall: Option<f64>, map: &MapResult) -> String {
    match wall {
        None => format!("under {}", number(map.range_n_m[0], 4)),
        Some(wall) if wall >= map.range_n_m[1] => "all".to_owned(),
        Some(wall) => number(wall, 4),
    }
}

fn theory_row(point: &MapPoint, grip: &MapGrip) -> String {
    let found = grip.calm_to_n_m.zip(grip.rattles_from_n_m).map(|(low, high)| f64::midpoint(low, high));
    format!(
        "{:>9}  {:>9}  {:>9}  {:>9}  {:>7}  {:>10}  {:>17}\n",
        number(point.rtt_ms, 4),
        number(grip.mass_kg, 3),
        optional(found, 5),
        optional(grip.theory_n_m, 5),
        optional(grip.off_theory_percent(), 3),
        optional(point.critical.gil_hulin_n_m, 4),
        optional(point.critical.llewellyn_ns_m, 3)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grip(calm: Option<f64>, rattles: Option<f64>, not_pressed: Option<[f64; 2]>) -> MapGrip {
        MapGrip {
            mass_kg: 0.15,
            damping_ns_m: 2.0,
            stiffness_n_m: 70.0,
            calm_to_n_m: calm,
            rattles_from_n_m: rattles,
            not_pressed_n_m: not_pressed,
            felt_to_n_m: calm,
            felt_percent: calm.map(|_| 100.0),
            theory_n_m: rattles.map(|most| 1.05 * most),
        }
    }

    fn point(different: Option<&str>, rtt_ms: f64, grip: MapGrip) -> MapPoint {
        MapPoint {
            different: different.map(str::to_owned),
            law: "position_force".to_owned(),
            loss_percent: 0.0,
            rtt_ms,
            calm_to_n_m: grip.calm_to_n_m,
            felt_to_n_m: grip.felt_to_n_m,
            felt_percent: grip.felt_percent,
            critical: Critical {
                passive_n_m: different.map_or(Some(0.0), |_| None),
                gil_hulin_n_m: different.map_or(Some(10_000.0 / rtt_ms), |_| None),
                quantised_n_m: None,
                llewellyn_ns_m: None,
            },
            grips: vec![grip],
        }
    }

    #[test]
    fn parts_have_a_row_each_and_theory_at_each_round_trip() {
        let all = |not_pressed| grip(Some(20_000.0), None, not_pressed);
        let map = MapResult {
            points: vec![
                point(None, 4.0, grip(Some(800.0), Some(1_000.0), None)),
                point(None, 10.0, grip(None, Some(20.0), None)),
                point(Some("amplifier 2 ms"), 4.0, all(Some([20.0, 80.0]))),
                point(Some("amplifier 2 ms"), 10.0, grip(None, None, Some([20.0, 20_000.0]))),
            ],
            range_n_m: [20.0, 20_000.0],
            damping_ns_m: 10.0,
        };
        let expected = "\
| | position–force, 4 ms | position–force, 10 ms | margin, 4 ms | margin, 10 ms | Gil, Hulin, 4 ms | Gil, Hulin, 10 ms | Colgate | 2f/Δ |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
| as it is | 800 | under 20 | 1050 | 21 | 2500 | 1000 | none | – |
| amplifier 2 ms | all, 20 to 80 not pressed | not pressed | – | – | – | – | – | – |
";
        assert_eq!(text(&map), expected);
    }
}
