//! The map of what stays calm, as a figure and as text.

use std::fmt::Write as _;

use super::axis::Axis;
use super::chart::{Chart, Ink, Shape};
use super::format::{law, number, optional};
use super::legend::{Legend, Swatch};
use super::panels::Panels;
use taut_qos::rendering::Critical;

use super::result::{MapGrip, MapPoint, MapResult};

/// Between the axes of one law.
const HEIGHT: f64 = 66.0;
/// Of that, above and below, for marks at the edges.
const MARGIN: f64 = 0.09;

/// A panel for each law and loss, one below the other: over the round trip the walls that are calm, darker those that are felt by half as well. A disc is the
/// stiffest that is calm, a cross says that none is; beside position–force stands what theory says.
pub(super) fn figure(map: &MapResult) -> String {
    let mut rtts: Vec<f64> = map.points.iter().map(|point| point.rtt_ms).collect();
    rtts.sort_by(f64::total_cmp);
    rtts.dedup();
    let mut legend = Legend::default();
    legend.push(Swatch::Bands(GREY), "calm and felt by half");
    legend.push(Swatch::Band(GREY), "calm, felt less");
    legend.push(Swatch::Point(GREY, Shape::Disc), "stiffest that is calm");
    if map.points.iter().any(|point| point.calm_to_n_m.is_none() && point.grips.iter().any(MapGrip::presses))
    {
        legend.push(Swatch::Point(GREY, Shape::Cross), "none is");
    }
    if map.points.iter().any(|point| theory(point).is_some()) {
        legend.push(Swatch::Point(GREY, Shape::Diamond), "by theory");
    }
    let lines = map.points.chunk_by(is_one_line).enumerate();
    let charts = lines.map(|(number, line)| panel(map, &rtts, Ink(number), line)).collect();
    let label = "the walls that stay calm, and that are felt, over the round trip, by control law".to_owned();
    Panels { label, legend, charts }.standalone()
}

/// Of no law.
const GREY: Ink = Ink(5);

fn panel(map: &MapResult, rtts: &[f64], ink: Ink, line: &[MapPoint]) -> Chart {
    let [softest, stiffest] = map.range_n_m;
    let [first, last] = [rtts.first(), rtts.last()].map(|rtt| rtt.copied().unwrap_or(1.0));
    let x = Axis::log("round trip, ms", first, last).with_ticks_at(rtts).with_margin();
    let y = Axis::log("wall, N/m", softest, stiffest).with_margin_of(MARGIN);
    let name = name(&line[0]);
    let mut chart = Chart::new(&name, x, y);
    chart.set_height(HEIGHT);
    chart.legend_line(ink, &name);
    let up_to = |of: fn(&MapPoint) -> Option<f64>| {
        line.iter().map(|point| (point.rtt_ms, softest, of(point).unwrap_or(softest))).collect()
    };
    chart.band(ink, up_to(|point| point.calm_to_n_m));
    chart.band(ink, up_to(|point| point.felt_to_n_m));
    chart.line(
        ink,
        &name,
        line.iter().map(|point| (point.rtt_ms, point.calm_to_n_m.unwrap_or(softest))).collect(),
    );
    for point in line.iter().filter(|point| point.grips.iter().any(MapGrip::presses)) {
        let rtt = point.rtt_ms;
        let shape = if point.calm_to_n_m.is_some() { Shape::Disc } else { Shape::Cross };
        let tip = format!("{name}: {} at {rtt} ms", told(point, map));
        chart.point(ink, shape, rtt, point.calm_to_n_m.unwrap_or(softest), tip);
        if let Some(theory) = theory(point) {
            chart.point(ink, Shape::Diamond, rtt, theory, format!("theory: {theory:.0} N/m"));
        }
    }
    chart
}

/// Of the worst grip.
fn theory(point: &MapPoint) -> Option<f64> {
    point.grips.iter().filter_map(|grip| grip.theory_n_m).reduce(f64::min)
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

    #[test]
    fn each_law_has_a_panel_of_its_own_where_nothing_is_cut() {
        let of = |law: &str, rtt_ms, grip| MapPoint { law: law.to_owned(), ..point(None, rtt_ms, grip) };
        let all = grip(Some(20_000.0), None, None);
        let map = MapResult {
            points: vec![
                of("position_force", 4.0, grip(Some(800.0), Some(1_000.0), None)),
                of("position_force", 40.0, grip(None, Some(20.0), None)),
                of("wave", 4.0, all),
                of("wave", 40.0, all),
                of("tdpa", 4.0, all),
                of("tdpa", 40.0, MapGrip { felt_to_n_m: None, ..all }),
            ],
            range_n_m: [20.0, 20_000.0],
            damping_ns_m: 10.0,
        };
        let figure = figure(&map);
        assert_eq!(figure.matches("class=\"plot\"").count(), 3);
        let panels: Vec<&str> = figure.split("class=\"plot\"").skip(1).collect();
        let count = |panel: &str, what: &str| panel.matches(what).count();
        // Measured twice in each; at 40 ms no wall is calm by position–force.
        assert_eq!([0, 1, 2].map(|i| count(panels[i], "class=\"disc ")), [1, 2, 2]);
        assert_eq!(count(panels[0], "m-4.5-4.5l9 9m0-9l-9 9"), 1);
        assert_eq!(count(panels[0], "m0-6l6 6l-6 6l-6-6z"), 2, "the margin");
        // What is felt is darker: as much as is calm by waves, and less by time-domain passivity at 40 ms.
        let bands = |panel: &str| -> Vec<String> {
            let points = panel.split("<polygon").skip(1);
            points
                .map(|band| band.split("points=\"").nth(1).unwrap().split('"').next().unwrap().to_owned())
                .collect()
        };
        assert_eq!(bands(panels[1])[0], bands(panels[1])[1]);
        assert_ne!(bands(panels[2])[0], bands(panels[2])[1]);
        // A disc of 4.5 at the upper edge lies within the plot.
        let top = bands(panels[1])[0].split(&[' ', ','][..]).nth(1).unwrap().parse::<f64>().unwrap();
        assert!(top >= 4.5, "{top}");
        assert!(figure.contains("none is") && figure.contains("by theory"), "{figure}");
    }
}
