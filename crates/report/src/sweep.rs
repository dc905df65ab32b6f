//! The figures of a campaign along an axis of numbers, such as a bandwidth: each measure as lines over it.
//!
//! What the axes are is told by the names of the variants, which are made of the values of the axes: `0.5 Mbit/s, CoDel, no gate`. The
//! first axis of numbers is the horizontal one, the last of the others has a line for each of its values, and each combination of those that
//! are left has a panel of its own.

mod spreads;

use std::collections::BTreeSet;

pub(super) use spreads::Spreads;

use super::axis::Axis;
use super::campaign::{MeasureHead, are_as_named, find, with_interval};
use super::chart::{Chart, Ink, Shape};
use super::format::{capitalised, slug};
use super::page::{self, Figure};
use super::run_figures::LINES;
use crate::result::{CampaignResult, VariantResult};

/// Variants along an axis of numbers.
pub(super) struct Sweep<'a> {
    /// `"bandwidth (Mbit/s)"`
    label: String,
    points: Vec<Point<'a>>,
    /// Values of the axis that has lines, in the order in which they first appear; one without a name when there is only one axis.
    lines: Vec<&'a str>,
    /// Values of the axes that are left, likewise.
    groups: Vec<String>,
}

struct Point<'a> {
    x: f64,
    group: String,
    line: &'a str,
    variant: &'a VariantResult,
}

/// A value of an axis: `one way 5 ms` is 5, between two texts.
#[derive(Clone, Copy)]
struct Number<'a> {
    before: &'a str,
    value: f64,
    unit: &'a str,
}

/// Fewer values make no line.
const LEAST_VALUES: usize = 3;
/// More panels of one measure are not looked at.
const MOST_PANELS: usize = 6;
/// Characters that stand beside an axis without being cut.
const LONGEST_LABEL: usize = 36;
/// What changes by less is not worth a figure.
const LEAST_CHANGE: f64 = 0.01;
/// From here on values are drawn to a logarithmic scale, as are milliseconds.
const DECADES: f64 = 50.0;
/// How far intervals may widen the scale on either side, of what the means need.
const WIDENED: f64 = 0.25;

impl<'a> Sweep<'a> {
    /// `None` when the variants do not lie along such an axis, are not what their names say, or would make too many lines or panels.
    pub(super) fn of(campaign: &'a CampaignResult) -> Option<Self> {
        let names: Vec<Vec<&str>> =
            campaign.variants.iter().map(|variant| variant.name.split(", ").collect()).collect();
        let parts = names.first()?.len();
        if names.iter().any(|name| name.len() != parts) || !are_as_named(campaign) {
            return None;
        }
        let numbers = |part: usize| numbers(names.iter().map(|name| name[part]));
        let (along, xs) = (0..parts).find_map(|part| Some((part, numbers(part)?)))?;
        let others = || (0..parts).rev().filter(|part| *part != along);
        // What is the same everywhere needs no lines.
        let varies = |part: &usize| names.iter().any(|name| name[*part] != names[0][*part]);
        let words = |part: &usize| numbers(*part).is_none();
        let lined = others().find(|part| words(part) && varies(part));
        let lined = lined.or_else(|| others().find(words)).or_else(|| others().next());
        let (mut points, mut lines, mut groups) = (Vec::new(), Vec::new(), Vec::new());
        for ((name, number), variant) in names.iter().zip(&xs).zip(&campaign.variants) {
            let line = lined.map_or("", |part| name[part]);
            let rest = (0..parts).filter(|part| *part != along && Some(*part) != lined);
            let group = rest.map(|part| name[part]).collect::<Vec<_>>().join(", ");
            if !lines.contains(&line) {
                lines.push(line);
            }
            if !groups.contains(&group) {
                groups.push(group.clone());
            }
            points.push(Point { x: number.value, group, line, variant });
        }
        let axis = campaign.axes.get(along).filter(|_| campaign.axes.len() == parts);
        let name = axis.map_or(xs[0].before, |axis| axis);
        let label = match (name, xs[0].unit) {
            ("", unit) => unit.to_owned(),
            (name, "") => name.to_owned(),
            (name, unit) => format!("{name} ({unit})"),
        };
        (lines.len() <= LINES && groups.len() <= MOST_PANELS).then_some(Self { label, points, lines, groups })
    }

    /// Does this measure change by more than a hundredth?
    pub(super) fn shows(&self, head: &MeasureHead) -> bool {
        let (lo, hi) = self.range(head);
        hi - lo > LEAST_CHANGE * lo.abs().max(hi.abs())
    }

    fn range(&self, head: &MeasureHead) -> (f64, f64) {
        let measures = self.points.iter().filter_map(|point| find(point.variant, head));
        extremes(measures.map(|measure| measure.mean))
    }

    /// The range with the intervals, as far as these do not dwarf it.
    fn range_of_intervals(&self, head: &MeasureHead) -> (f64, f64) {
        let (lo, hi) = self.range(head);
        let measures = || self.points.iter().filter_map(|point| find(point.variant, head));
        let half = |ci95: Option<f64>| ci95.filter(|half| half.is_finite()).unwrap_or(0.0);
        let (low, _) = extremes(measures().map(|measure| measure.mean - half(measure.ci95)));
        let (_, high) = extremes(measures().map(|measure| measure.mean + half(measure.ci95)));
        let room = WIDENED * (hi - lo);
        // Nothing is below 0 where no mean is, and no share above 100 %.
        let low = if lo >= 0.0 { low.max(0.0) } else { low };
        let high = if head.unit == "%" && hi <= 100.0 { high.min(100.0) } else { high };
        (low.max(lo - room), high.min(hi + room))
    }

    /// A figure of this measure for each group, all to one scale.
    pub(super) fn figures(&self, head: &MeasureHead) -> Vec<Figure> {
        let (lo, hi) = self.range(head);
        let label = match head.unit.as_str() {
            "" => head.name.clone(),
            unit => format!("{} ({unit})", head.name),
        };
        // The caption has the name, too.
        let too_long = label.chars().count() > LONGEST_LABEL && !head.unit.is_empty();
        let label = if too_long { head.unit.clone() } else { label };
        let y = || {
            if head.unit == "ms" && lo > 0.0 && hi > DECADES * lo {
                return Axis::log(&label, lo * 0.8, hi * 1.25);
            }
            let (lo, hi) = self.range_of_intervals(head);
            Axis::from_zero(&label, lo, hi).with_margin()
        };
        self.groups.iter().map(|group| self.figure(head, group, y())).collect()
    }

    /// Figures of one measure.
    pub(super) fn panels(&self) -> usize {
        self.groups.len()
    }

    /// The figures of all measures, so that those of one stand in a row.
    pub(super) fn html(&self, figures: &[Figure]) -> String {
        if self.is_narrow() { page::narrow_figures(figures, 1) } else { page::figures(figures, 1) }
    }

    /// Three panels in a row; two and four are two in a row.
    fn is_narrow(&self) -> bool {
        matches!(self.groups.len(), 3 | 5 | 6)
    }

    fn x_axis(&self) -> Axis {
        let (first, last) = extremes(self.points.iter().map(|point| point.x));
        let log = first > 0.0 && last > DECADES * first;
        let axis = if log { Axis::log } else { Axis::exact };
        axis(&self.label, first, last).with_margin()
    }

    fn figure(&self, head: &MeasureHead, group: &str, y: Axis) -> Figure {
        let title = if group.is_empty() { head.name.clone() } else { format!("{}, {group}", head.name) };
        let mut chart = Chart::new(&title, self.x_axis(), y.clone());
        if self.is_narrow() {
            chart.set_narrow();
        }
        let of_line = |line: &str| -> Vec<&Point<'_>> {
            let mut points: Vec<_> =
                self.points.iter().filter(|point| point.line == line && point.group == group).collect();
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
            points
        };
        let inks = || self.lines.iter().enumerate().map(|(index, line)| (Ink(index), *line));
        // Below all lines.
        let mut interval = false;
        for (ink, line) in inks() {
            let band = band(&of_line(line), head, &y);
            interval |= !band.is_empty();
            chart.band(ink, band);
        }
        for (ink, line) in inks() {
            let mut drawn: Vec<(f64, f64)> = Vec::new();
            for point in of_line(line) {
                let Some(measure) = find(point.variant, head).filter(|measure| measure.mean.is_finite())
                else {
                    continue;
                };
                let tip = format!("{}: {} {}", point.variant.name, with_interval(measure), head.unit);
                chart.point(ink, Shape::Disc, point.x, measure.mean, tip.trim_end().to_owned());
                drawn.push((point.x, measure.mean));
            }
            chart.line(ink, line, drawn);
            if !line.is_empty() {
                chart.legend_line(ink, line);
            }
        }
        let caption = if interval { "Band: 95 % confidence interval of the mean." } else { "" };
        Figure { stem: slug(&title), title: capitalised(&title), caption: caption.to_owned(), chart }
    }
}

/// The confidence intervals along a line, cut where the scale ends; none where none has a width.
fn band(points: &[&Point<'_>], head: &MeasureHead, y: &Axis) -> Vec<(f64, f64, f64)> {
    let measures = points.iter().filter_map(|point| Some((point.x, find(point.variant, head)?)));
    let intervals = measures.filter_map(|(x, measure)| {
        let half = measure.ci95.filter(|half| half.is_finite() && measure.mean.is_finite())?;
        Some((x, y.within(measure.mean - half), y.within(measure.mean + half)))
    });
    let band: Vec<_> = intervals.collect();
    if band.iter().any(|(_, low, high)| high > low) { band } else { Vec::new() }
}

/// What each of these is, if all are numbers between the same texts, and there are enough different ones.
fn numbers<'a>(values: impl Iterator<Item = &'a str>) -> Option<Vec<Number<'a>>> {
    let numbers: Vec<Number<'a>> = values.map(number).collect::<Option<_>>()?;
    let first = numbers.first()?;
    let alike = numbers.iter().all(|number| (number.before, number.unit) == (first.before, first.unit));
    let different: BTreeSet<u64> = numbers.iter().map(|number| number.value.to_bits()).collect();
    (alike && different.len() >= LEAST_VALUES).then_some(numbers)
}

/// The first word that is a number, and what stands around it.
fn number(text: &str) -> Option<Number<'_>> {
    let mut at = 0;
    for word in text.split(' ') {
        let end = at + word.len();
        if let Some(value) = word.parse::<f64>().ok().filter(|value| value.is_finite()) {
            return Some(Number { before: text[..at].trim_end(), value, unit: text[end..].trim_start() });
        }
        at = end + 1;
    }
    None
}

fn extremes(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let finite = values.filter(|value| value.is_finite());
    finite.fold((f64::MAX, f64::MIN), |(lo, hi), value| (lo.min(value), hi.max(value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{Measure, Spread};

    fn campaign(names: &[&str]) -> CampaignResult {
        let variant = |(index, name): (usize, &&str)| VariantResult {
            name: (*name).to_owned(),
            overridden: Vec::new(),
            settings: Vec::new(),
            seeds: vec![1],
            met: 1,
            limits: Vec::new(),
            measures: vec![Measure {
                name: "video frame rate".into(),
                unit: "1/s".into(),
                runs: 1,
                mean: index as f64,
                ci95: Some(0.25),
                min: index as f64,
                max: index as f64,
                predicted: None,
                reported: None,
                values: vec![Some(index as f64)],
            }],
            not_measured: Vec::new(),
            trends: Vec::new(),
            spreads: Vec::new(),
        };
        let variants = names.iter().enumerate().map(variant).collect();
        CampaignResult {
            taut: String::new(),
            title: String::new(),
            description: String::new(),
            duration_s: 1.0,
            axes: Vec::new(),
            variants,
        }
    }

    fn head() -> MeasureHead {
        let (name, unit) = ("video frame rate".into(), "1/s".into());
        MeasureHead { name, unit, predicted: false, reported: false }
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
        let figures = sweep.figures(&head());
        let titles: Vec<&str> = figures.iter().map(|figure| figure.title.as_str()).collect();
        assert_eq!(titles, ["Video frame rate, PFIFO", "Video frame rate, CAKE"]);
        let svg = figures[1].chart.inline();
        assert_eq!(svg.matches("class=\"disc").count(), 6, "{svg}");
        assert!(svg.contains("2 Mbit/s, CAKE, ours: 11"), "{svg}");
    }

    #[test]
    fn values_that_are_kept_are_boxes_along_the_axis_and_distributions_at_two_of_its_points() {
        let mut campaign = campaign(&[
            "1 Mbit/s, PFIFO, gate",
            "2 Mbit/s, PFIFO, gate",
            "3 Mbit/s, PFIFO, gate",
            "1 Mbit/s, CAKE, gate",
            "2 Mbit/s, CAKE, gate",
            "3 Mbit/s, CAKE, gate",
        ]);
        for (place, variant) in campaign.variants.iter_mut().enumerate() {
            let cdf = [(place as f64, 0.5), (place as f64 + 10.0, 1.0)];
            variant.spreads.extend(Spread::pooled("video frame rate", "1/s", [(100, &cdf[..])]));
            variant.spreads.extend(Spread::pooled("always the same", "ms", [(9, &[(1.0, 1.0)][..])]));
        }
        // What has one value only has no lines: these are the queues, which are compared.
        let sweep = Sweep::of(&campaign).unwrap();
        assert_eq!((&sweep.lines[..], &sweep.groups[..]), (&["PFIFO", "CAKE"][..], &["gate".to_owned()][..]));
        let Spreads { boxes, shares } = sweep.spreads();
        let [all] = &boxes[..] else { panic!("{}", boxes.len()) };
        assert_eq!(all.title, "Boxes of video frame rate, gate");
        assert_eq!(all.chart.inline().matches("<path class=\"range").count(), 6);
        let titles: Vec<&str> = shares.iter().map(|figure| figure.title.as_str()).collect();
        let expected = [1, 2].map(|x| format!("Distribution of video frame rate, Mbit/s {x}, gate"));
        assert_eq!(titles, expected);
    }

    #[test]
    fn each_line_has_its_confidence_interval_as_a_band() {
        let mut campaign = campaign(&[
            "1 Mbit/s, a",
            "2 Mbit/s, a",
            "3 Mbit/s, a",
            "1 Mbit/s, b",
            "2 Mbit/s, b",
            "3 Mbit/s, b",
        ]);
        let figure = |campaign: &CampaignResult| Sweep::of(campaign).unwrap().figures(&head()).remove(0);
        assert_eq!(figure(&campaign).caption, "Band: 95 % confidence interval of the mean.");
        assert_eq!(figure(&campaign).chart.inline().matches("<polygon class=\"band").count(), 2);
        for variant in &mut campaign.variants {
            variant.measures[0].ci95 = None;
        }
        assert!(figure(&campaign).caption.is_empty());
        assert!(!figure(&campaign).chart.inline().contains("points=\"\""), "no empty shapes");
    }

    #[test]
    fn an_interval_that_dwarfs_the_means_is_cut_where_the_scale_ends() {
        let mut campaign = campaign(&["1 Mbit/s", "2 Mbit/s", "3 Mbit/s"]);
        campaign.variants[1].measures[0].ci95 = Some(1e6);
        let sweep = Sweep::of(&campaign).unwrap();
        assert_eq!(sweep.range_of_intervals(&head()), (0.0, 2.5));
        let svg = sweep.figures(&head())[0].chart.inline();
        assert!(svg.contains("229.4,0 ") && svg.contains("229.4,210 "), "from edge to edge: {svg}");
    }

    #[test]
    fn the_axis_of_numbers_may_stand_anywhere_and_have_words_around_them() {
        let of_delay = |delay: &str| ["free", "wall"].map(|environment| format!("{environment}, {delay}"));
        let names: Vec<String> = ["one way 0.3 ms", "one way 2 ms", "one way 40 ms"]
            .iter()
            .flat_map(|delay| of_delay(delay))
            .collect();
        let mut campaign = campaign(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let sweep = Sweep::of(&campaign).unwrap();
        assert_eq!((sweep.label.as_str(), &sweep.lines[..]), ("one way (ms)", &["free", "wall"][..]));
        // From 0.3 to 40 in decades.
        assert!(sweep.figures(&head())[0].chart.inline().contains(" log\" data-y"));
        campaign.axes = vec!["environment".to_owned(), "delay".to_owned()];
        assert_eq!(Sweep::of(&campaign).unwrap().label, "delay (ms)");
    }

    #[test]
    fn variants_without_an_axis_of_numbers_are_no_sweep() {
        for names in [
            &["UDP, baseline", "TCP, baseline", "QUIC, baseline"][..],
            &["1 Mbit/s", "2 Mbit/s"],
            &["1 Mbit/s", "2 Mbit/s", "3 kB"],
            &["1 Mbit/s, a", "2 Mbit/s", "3 Mbit/s"],
            &["others 1", "others 2", "itself 3"],
            &["nan ms", "inf ms", "3 ms"],
            &[],
        ] {
            assert!(Sweep::of(&campaign(names)).is_none(), "{names:?}");
        }
        assert!(Sweep::of(&campaign(&["1 Mbit/s", "2 Mbit/s", "3 Mbit/s"])).is_some());
    }

    #[test]
    fn variants_that_are_not_what_their_names_say_are_no_sweep() {
        let mut campaign = campaign(&["1 Mbit/s, a", "2 Mbit/s, a", "3 Mbit/s, a"]);
        assert!(Sweep::of(&campaign).is_some());
        campaign.variants[1].overridden = vec!["cross.constant.rate".to_owned()];
        assert!(Sweep::of(&campaign).is_none());
    }
}
