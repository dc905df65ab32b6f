//! The figures of a campaign along an axis of numbers, such as a bandwidth: each measure as lines over it.
//!
//! What the axes are is told by the names of the variants, which are made of the values of the axes: `0.5 Mbit/s, CoDel, no gate`. The first is
//! the horizontal axis, the last has a line for each of its values, and each combination of those between has figures of its own.

use super::axis::Axis;
use super::campaign::{MeasureHead, find, with_interval};
use super::chart::{Chart, Ink, Shape};
use super::format::{capitalised, slug};
use super::page::Figure;
use super::run_figures::LINES;
use crate::result::{CampaignResult, VariantResult};

/// Variants along an axis of numbers.
pub(super) struct Sweep<'a> {
    /// `"Mbit/s"`
    unit: &'a str,
    points: Vec<Point<'a>>,
    /// Values of the last axis, in the order in which they first appear; one without a name when there is only one axis.
    lines: Vec<&'a str>,
    /// Values of the axes between, likewise.
    groups: Vec<String>,
}

struct Point<'a> {
    x: f64,
    group: String,
    line: &'a str,
    variant: &'a VariantResult,
}

/// Fewer values make no line.
const LEAST_VALUES: usize = 3;
/// What changes by less is not worth a figure.
const LEAST_CHANGE: f64 = 0.01;
/// From here on milliseconds are drawn to a logarithmic scale.
const DECADES: f64 = 50.0;

impl<'a> Sweep<'a> {
    /// `None` when the variants do not lie along such an axis, or would make too many lines in one figure.
    pub(super) fn of(campaign: &'a CampaignResult) -> Option<Self> {
        let mut sweep = Self { unit: "", points: Vec::new(), lines: Vec::new(), groups: Vec::new() };
        let mut values: Vec<f64> = Vec::new();
        let parts = campaign.variants.first()?.name.split(", ").count();
        for variant in &campaign.variants {
            let mut rest: Vec<&str> = variant.name.split(", ").collect();
            if rest.len() != parts {
                return None;
            }
            let (number, unit) = rest.remove(0).split_once(' ')?;
            let x = number.parse::<f64>().ok().filter(|x| x.is_finite())?;
            if !sweep.points.is_empty() && unit != sweep.unit {
                return None;
            }
            let line = rest.pop().unwrap_or_default();
            let group = rest.join(", ");
            if !sweep.lines.contains(&line) {
                sweep.lines.push(line);
            }
            if !sweep.groups.contains(&group) {
                sweep.groups.push(group.clone());
            }
            if !values.contains(&x) {
                values.push(x);
            }
            sweep.unit = unit;
            sweep.points.push(Point { x, group, line, variant });
        }
        (values.len() >= LEAST_VALUES && sweep.lines.len() <= LINES).then_some(sweep)
    }

    /// Does this measure change by more than a hundredth?
    pub(super) fn shows(&self, head: &MeasureHead) -> bool {
        let (lo, hi) = self.range(head);
        hi - lo > LEAST_CHANGE * lo.abs().max(hi.abs())
    }

    fn range(&self, head: &MeasureHead) -> (f64, f64) {
        let measures = self.points.iter().filter_map(|point| find(point.variant, head));
        let means = measures.map(|measure| measure.mean).filter(|mean| mean.is_finite());
        means.fold((f64::MAX, f64::MIN), |(lo, hi), mean| (lo.min(mean), hi.max(mean)))
    }

    /// A figure of this measure for each group, all to one scale.
    pub(super) fn figures(&self, head: &MeasureHead) -> Vec<Figure> {
        let (lo, hi) = self.range(head);
        let label =
            if head.unit.is_empty() { head.name.clone() } else { format!("{} ({})", head.name, head.unit) };
        let y = || {
            if head.unit == "ms" && lo > 0.0 && hi > DECADES * lo {
                Axis::log(&label, lo * 0.8, hi * 1.25)
            } else {
                Axis::from_zero(&label, lo, hi)
            }
        };
        self.groups.iter().map(|group| self.figure(head, group, y())).collect()
    }

    fn figure(&self, head: &MeasureHead, group: &str, y: Axis) -> Figure {
        let xs = self.points.iter().map(|point| point.x);
        let (first, last) = xs.fold((f64::MAX, f64::MIN), |(lo, hi), x| (lo.min(x), hi.max(x)));
        let title = if group.is_empty() { head.name.clone() } else { format!("{}, {group}", head.name) };
        // So that no symbol is cut at the edge.
        let margin = 0.02 * (last - first);
        let mut chart = Chart::new(&title, Axis::exact(self.unit, first - margin, last + margin), y);
        for (ink, line) in self.lines.iter().enumerate().map(|(index, line)| (Ink(index), *line)) {
            let of_line = self.points.iter().filter(|point| point.line == line && point.group == group);
            let mut drawn: Vec<(f64, f64)> = Vec::new();
            for point in of_line {
                let Some(measure) = find(point.variant, head).filter(|measure| measure.mean.is_finite())
                else {
                    continue;
                };
                let tip = format!("{}: {} {}", point.variant.name, with_interval(measure), head.unit);
                chart.point(ink, Shape::Disc, point.x, measure.mean, tip.trim_end().to_owned());
                drawn.push((point.x, measure.mean));
            }
            drawn.sort_by(|(a, _), (b, _)| a.total_cmp(b));
            chart.line(ink, line, drawn);
            if !line.is_empty() {
                chart.legend_line(ink, line);
            }
        }
        Figure { stem: slug(&title), title: capitalised(&title), caption: String::new(), chart }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Measure;

    fn campaign(names: &[&str]) -> CampaignResult {
        let variant = |(index, name): (usize, &&str)| VariantResult {
            name: (*name).to_owned(),
            settings: Vec::new(),
            seeds: vec![1],
            met: 1,
            limits: Vec::new(),
            measures: vec![Measure {
                name: "video frame rate".into(),
                unit: "1/s".into(),
                runs: 1,
                mean: index as f64,
                ci95: None,
                min: index as f64,
                max: index as f64,
                predicted: None,
                reported: None,
                values: vec![Some(index as f64)],
            }],
            trends: Vec::new(),
        };
        let variants = names.iter().enumerate().map(variant).collect();
        CampaignResult {
            taut: String::new(),
            title: String::new(),
            description: String::new(),
            duration_s: 1.0,
            variants,
        }
    }

    #[test]
    fn each_combination_of_the_axes_between_has_a_figure_and_each_value_of_the_last_a_line() {
        let names: Vec<String> = ["0.5 Mbit/s", "1 Mbit/s", "2 Mbit/s"]
            .iter()
            .flat_map(|x| {
                ["PFIFO", "CAKE"]
                    .iter()
                    .flat_map(move |queue| ["none", "ours"].map(|gate| format!("{x}, {queue}, {gate}")))
            })
            .collect();
        let campaign = campaign(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let sweep = Sweep::of(&campaign).unwrap();
        let head = MeasureHead {
            name: "video frame rate".into(),
            unit: "1/s".into(),
            predicted: false,
            reported: false,
        };
        let figures = sweep.figures(&head);
        let titles: Vec<&str> = figures.iter().map(|figure| figure.title.as_str()).collect();
        assert_eq!(titles, ["Video frame rate, PFIFO", "Video frame rate, CAKE"]);
        let svg = figures[1].chart.inline();
        assert_eq!(svg.matches("class=\"disc").count(), 6, "{svg}");
        assert!(svg.contains("2 Mbit/s, CAKE, ours: 11"), "{svg}");
    }

    #[test]
    fn variants_without_an_axis_of_numbers_are_no_sweep() {
        for names in [
            &["UDP, baseline", "TCP, baseline", "QUIC, baseline"][..],
            &["1 Mbit/s", "2 Mbit/s"],
            &["1 Mbit/s", "2 Mbit/s", "3 kB"],
            &["1 Mbit/s, a", "2 Mbit/s", "3 Mbit/s"],
            &[],
        ] {
            assert!(Sweep::of(&campaign(names)).is_none(), "{names:?}");
        }
        assert!(Sweep::of(&campaign(&["1 Mbit/s", "2 Mbit/s", "3 Mbit/s"])).is_some());
    }
}
