//! How values are spread along an axis: boxes, and cumulative distributions at two of its points.

use super::super::axis::Axis;
use super::super::chart::{Chart, Ink};
use super::super::distributions::{steps, value_axis};
use super::super::format::{capitalised, number, slug};
use super::super::page::Figure;
use super::{DECADES, Point, Sweep, extremes};
use crate::result::Spread;

/// Shares of the values at the ends of whiskers and boxes, and in the middle.
const BOX: [f64; 5] = [0.05, 0.25, 0.5, 0.75, 0.95];
/// Characters below an axis that do not touch.
const NAMES: usize = 56;
/// What is the same to this part everywhere is no picture.
const ALIKE: f64 = 0.02;

/// Boxes of each quantity for each group, and distributions of each quantity for each group at the first point and in the middle.
pub(in super::super) struct Spreads {
    pub(in super::super) boxes: Vec<Figure>,
    pub(in super::super) shares: Vec<Figure>,
}

impl Sweep<'_> {
    pub(in super::super) fn spreads(&self) -> Spreads {
        let (mut boxes, mut shares) = (Vec::new(), Vec::new());
        let mut xs: Vec<f64> = self.points.iter().map(|point| point.x).collect();
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        for name in self.quantities() {
            for group in &self.groups {
                boxes.push(self.boxes(name, group, &xs));
            }
            for x in xs.first().into_iter().chain(xs.get(xs.len() / 2)) {
                shares.extend(self.groups.iter().map(|group| self.shares(name, group, *x)));
            }
        }
        Spreads { boxes, shares }
    }

    /// Those whose boxes are not the same everywhere.
    fn quantities(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for spread in self.points.iter().flat_map(|point| &point.variant.spreads) {
            if !names.contains(&spread.name.as_str()) {
                names.push(&spread.name);
            }
        }
        names.retain(|name| {
            BOX.iter().any(|share| {
                let (lo, hi) = extremes(self.spreads_of(name).map(|(_, spread)| spread.at(*share)));
                hi - lo > ALIKE * hi.abs()
            })
        });
        names
    }

    fn spreads_of<'b>(&'b self, name: &'b str) -> impl Iterator<Item = (&'b Point<'b>, &'b Spread)> {
        self.points.iter().filter_map(move |point| {
            Some((point, point.variant.spreads.iter().find(|spread| spread.name == name)?))
        })
    }

    fn label(&self, name: &str) -> String {
        match self.spreads_of(name).next() {
            Some((_, spread)) => format!("{name} ({})", spread.unit),
            None => name.to_owned(),
        }
    }

    fn boxes(&self, name: &str, group: &str, xs: &[f64]) -> Figure {
        let title = titled(&format!("Boxes of {name}"), group);
        let of_box = |share: f64| extremes(self.spreads_of(name).map(|(_, spread)| spread.at(share)));
        let ((lo, _), (_, hi)) = (of_box(BOX[0]), of_box(BOX[4]));
        let label = self.label(name);
        let log = lo > 0.0 && hi > DECADES * lo && label.ends_with("(ms)");
        let y = if log { Axis::log(&label, lo * 0.8, hi * 1.25) } else { Axis::from_zero(&label, lo, hi) };
        let names: Vec<String> = xs.iter().map(|x| number(*x, 4)).collect();
        // Where not all have room every second one is named.
        let room = if self.is_narrow() { NAMES / 2 } else { NAMES };
        let each = if names.iter().map(|name| name.len() + 1).sum::<usize>() > room { 2 } else { 1 };
        let named = |(i, name): (usize, String)| if i % each == 0 { name } else { String::new() };
        let names: Vec<String> = names.into_iter().enumerate().map(named).collect();
        let mut chart = Chart::new(&title, Axis::places(&self.label, &names), y);
        if self.is_narrow() {
            chart.set_narrow();
        }
        // Those of one point stand side by side, with a gap to the next ones.
        let width = 0.8 / self.lines.len() as f64;
        for (index, line) in self.lines.iter().enumerate() {
            let aside = (index as f64 + 0.5) * width - 0.4;
            for (point, spread) in
                self.spreads_of(name).filter(|(point, _)| point.line == *line && point.group == group)
            {
                let place = xs.partition_point(|x| *x < point.x) as f64;
                chart.spread(Ink(index), place + aside, width * 0.4, BOX.map(|share| spread.at(share)));
            }
            if !line.is_empty() {
                chart.legend_band(Ink(index), line);
            }
        }
        let caption =
            "Box: the middle half, with the median; whiskers: all but a twentieth at either end.".to_owned();
        Figure { stem: slug(&title), title: capitalised(&title), caption, chart }
    }

    fn shares(&self, name: &str, group: &str, x: f64) -> Figure {
        let title = titled(&format!("Distribution of {name}, {} {}", self.label, number(x, 4)), group);
        let here = || {
            self.spreads_of(name).filter(|(point, _)| point.group == group && point.x.total_cmp(&x).is_eq())
        };
        let (lo, hi) =
            extremes(here().flat_map(|(_, spread)| spread.quantiles.iter().map(|(_, value)| *value)));
        let label = self.label(name);
        let mut chart =
            Chart::new(&title, value_axis(&label, lo, hi), Axis::rounded("not above (%)", 0.0, 100.0));
        if self.is_narrow() {
            chart.set_narrow();
        }
        for (index, line) in self.lines.iter().enumerate() {
            for (_, spread) in here().filter(|(point, _)| point.line == *line) {
                let points = spread.quantiles.iter().map(|(share, value)| (*value, share * 100.0));
                chart.line(Ink(index), line, steps(points));
                if !line.is_empty() {
                    chart.legend_line(Ink(index), line);
                }
            }
        }
        Figure { stem: slug(&title), title: capitalised(&title), caption: String::new(), chart }
    }
}

fn titled(what: &str, group: &str) -> String {
    if group.is_empty() { what.to_owned() } else { format!("{what}, {group}") }
}
