//! A small SVG writer: marks over two axes, a legend above them, labels of horizontal rules beside them.
//!
//! Colours and fonts are classes of `chart.css`, so that the same figure follows the page's light or dark scheme.

use std::fmt::Write as _;

use super::axis::Axis;
use super::format::{coordinate, escape, symbol_svg};
use super::legend::{Legend, Swatch};

/// Width of a figure, in user units: half a page on a screen, a column of a paper, all of a phone.
pub(super) const WIDTH: f64 = 540.0;
/// Width of one that is a third of a page.
const NARROW: f64 = 350.0;
pub(super) const TOP: f64 = 10.0;
const BOTTOM: f64 = 46.0;
pub(super) const LEGEND_ROW: f64 = 19.0;
/// Between a plot and the figure below it that has the axis of both.
const APART: f64 = 5.0;
/// Mean width of a character, generous because fonts differ and small screens enlarge them.
const CHARACTER: f64 = 7.8;
/// Distance of two labels' baselines at which they do not touch.
const LABEL_GAP: f64 = 16.0;
/// Points beyond which a line is drawn thin.
const DENSE: usize = 250;
/// How every figure begins.
pub(super) const BEGINS: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\"";
const STYLE: &str = include_str!("chart.css");

/// The colour (and, when colours run out, the dash) of one stream in every figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ink(pub(super) usize);

impl Ink {
    const COLOURS: usize = 6;

    pub(super) fn class(self) -> String {
        let colour = self.0 % Self::COLOURS;
        match self.0 / Self::COLOURS % 3 {
            0 => format!("s{colour}"),
            dash => format!("s{colour} dash{dash}"),
        }
    }
}

/// A symbol at one point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// A filled circle: measured.
    Disc,
    /// A hollow diamond: predicted.
    Diamond,
    /// A cross: reported elsewhere, or felt where more is calm.
    Cross,
}

/// A horizontal or vertical line that data is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// What a model predicts.
    Bound,
    /// What is allowed.
    Limit,
    /// What there is room for.
    Capacity,
}

impl Rule {
    fn class(self) -> &'static str {
        match self {
            Self::Bound => "bound",
            Self::Limit => "limit",
            Self::Capacity => "capacity",
        }
    }
}

enum Mark {
    Span(f64, f64),
    Band(Ink, Vec<(f64, f64, f64)>),
    Line(Ink, String, Vec<(f64, f64)>),
    Horizontal(Rule, f64),
    Vertical(Ink, f64),
    Bar(Ink, &'static str, f64, f64, f64),
    Spread(Ink, f64, f64, [f64; 5]),
    Point(Ink, Shape, f64, f64, String),
}

/// One figure.
pub(super) struct Chart {
    label: String,
    x: Axis,
    y: Axis,
    width: f64,
    height: f64,
    /// Room below the plot.
    bottom: f64,
    marks: Vec<Mark>,
    legend: Legend,
    beside: Vec<(f64, Rule, String)>,
    /// Room to the left and to the right at least.
    least: (f64, f64),
}

impl Chart {
    /// An empty one; `label` says what it shows to who cannot see it.
    pub(super) fn new(label: &str, x: Axis, y: Axis) -> Self {
        Self {
            label: label.to_owned(),
            x,
            y,
            width: WIDTH,
            height: 210.0,
            bottom: BOTTOM,
            marks: Vec::new(),
            legend: Legend::default(),
            beside: Vec::new(),
            least: (0.0, 0.0),
        }
    }

    /// Gives both the same area between the axes from left to right.
    pub(super) fn align(&mut self, other: &mut Self) {
        self.least = (self.left().max(other.left()), self.right().max(other.right()));
        other.least = self.least;
    }

    /// Height of the area between the axes, in user units.
    pub(super) fn set_height(&mut self, height: f64) {
        self.height = height;
    }

    /// Its horizontal axis is that of a figure right below: no ticks and no label.
    pub(super) fn share_x_below(&mut self) {
        self.x.label.clear();
        self.x.ticks.iter_mut().for_each(|(_, text)| text.clear());
        self.bottom = APART;
    }

    /// As one of three in a row of the page.
    pub(super) fn set_narrow(&mut self) {
        self.width = NARROW;
    }

    /// Shades a stretch of the horizontal axis.
    pub(super) fn span(&mut self, from: f64, to: f64) {
        self.marks.push(Mark::Span(from, to));
    }

    /// Fills between the smallest and the largest: (x, low, high).
    pub(super) fn band(&mut self, ink: Ink, points: Vec<(f64, f64, f64)>) {
        if !points.is_empty() {
            self.marks.push(Mark::Band(ink, points));
        }
    }

    /// Joins points; the name appears under the pointer.
    pub(super) fn line(&mut self, ink: Ink, name: &str, points: Vec<(f64, f64)>) {
        self.marks.push(Mark::Line(ink, name.to_owned(), points));
    }

    /// A horizontal rule with its label beside the plot. One that is off the scale is only labelled.
    pub(super) fn rule(&mut self, rule: Rule, y: f64, label: &str) {
        if !y.is_finite() {
            return;
        }
        let above = self.y.position(y) > 1.001;
        let label = if above { format!("{label} ↑") } else { label.to_owned() };
        self.beside.push((self.y.position(y).clamp(0.0, 1.0), rule, label));
        if !above {
            self.marks.push(Mark::Horizontal(rule, y));
        }
    }

    /// A vertical rule in the colour of the stream that it is for.
    pub(super) fn vertical(&mut self, ink: Ink, x: f64) {
        self.marks.push(Mark::Vertical(ink, x));
    }

    /// A horizontal bar at height `y`, of class `"ci"` or `"range"`.
    pub(super) fn bar(&mut self, ink: Ink, class: &'static str, from: f64, to: f64, y: f64) {
        self.marks.push(Mark::Bar(ink, class, from, to, y));
    }

    /// A box at `x`, half as wide as it is: whisker, quartile, median, quartile, whisker, ascending.
    pub(super) fn spread(&mut self, ink: Ink, x: f64, half: f64, values: [f64; 5]) {
        self.marks.push(Mark::Spread(ink, x, half, values));
    }

    /// A symbol; `tip` appears under the pointer.
    pub(super) fn point(&mut self, ink: Ink, shape: Shape, x: f64, y: f64, tip: String) {
        self.marks.push(Mark::Point(ink, shape, x, y, tip));
    }

    /// Explains a line.
    pub(super) fn legend_line(&mut self, ink: Ink, text: &str) {
        self.legend.push(Swatch::Line(ink), text);
    }

    /// Explains a band.
    pub(super) fn legend_band(&mut self, ink: Ink, text: &str) {
        self.legend.push(Swatch::Band(ink), text);
    }

    /// Explains a symbol.
    pub(super) fn legend_point(&mut self, ink: Ink, shape: Shape, text: &str) {
        self.legend.push(Swatch::Point(ink, shape), text);
    }

    /// Explains the shading.
    pub(super) fn legend_span(&mut self, text: &str) {
        self.legend.push(Swatch::Span, text);
    }

    /// The SVG element; its style comes from the page that it stands in.
    pub(super) fn inline(&self) -> String {
        self.svg("").0
    }

    /// The SVG as a file of its own, with its style and a background.
    pub(super) fn standalone(&self) -> String {
        self.svg(&in_a_file()).0
    }

    /// The SVG element, in which `before` comes first, and its height; its width is [`WIDTH`] but where it is narrow.
    pub(super) fn svg(&self, before: &str) -> (String, f64) {
        let left = self.left();
        let (legend, rows) = self.legend.svg(left, self.width, TOP + 4.0);
        let frame = Frame {
            left,
            top: TOP + rows as f64 * LEGEND_ROW,
            width: (self.width - left - self.right()).max(60.0),
            height: self.height,
        };
        let tall = frame.top + frame.height + self.bottom;
        let mut svg = format!(
            "{BEGINS} viewBox=\"0 0 {} {}\" role=\"img\" \
             aria-label=\"{}\">{before}{legend}",
            coordinate(self.width),
            coordinate(tall),
            escape(&self.label),
        );
        self.write_grid(&mut svg, &frame);
        let (x, y) = (self.x.data(), self.y.data());
        let [left, top, width, height] = [frame.left, frame.top, frame.width, frame.height].map(coordinate);
        let _ = write!(
            svg,
            "<svg class=\"plot\" x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height}\" data-x=\"{x}\" \
             data-y=\"{y}\"><rect class=\"area\" width=\"{width}\" height=\"{height}\"/>"
        );
        for mark in &self.marks {
            self.write_mark(&mut svg, &frame, mark);
        }
        svg.push_str("</svg>");
        self.write_beside(&mut svg, &frame);
        svg.push_str("</svg>\n");
        (svg, tall)
    }

    /// Room for the ticks' texts and, if there is one, the axis label.
    fn left(&self) -> f64 {
        let label = if self.y.label.is_empty() { 12.0 } else { 32.0 };
        // Four characters at least, so that most figures of a page line up.
        label
            + self
                .y
                .ticks
                .iter()
                .map(|(_, text)| text_width(text))
                .fold(4.0 * CHARACTER, f64::max)
                .max(self.least.0 - label)
    }

    /// Room for the labels of rules, and for what the last tick's text reaches beyond the plot.
    fn right(&self) -> f64 {
        let last = self.x.ticks.last().map_or(0.0, |(_, text)| text_width(text) / 2.0);
        self.beside
            .iter()
            .map(|(_, _, label)| text_width(label) + 8.0)
            .fold(last.max(18.0).max(self.least.1), f64::max)
    }

    fn write_grid(&self, svg: &mut String, frame: &Frame) {
        let (bottom, right) = (frame.top + frame.height, frame.left + frame.width);
        let mut grid = String::new();
        for (value, text) in &self.x.ticks {
            let x = coordinate(frame.left + frame.x(&self.x, *value));
            let _ = write!(grid, "M{x} {}V{}", coordinate(frame.top), coordinate(bottom));
            let base = coordinate(bottom + 17.0);
            let _ = write!(
                svg,
                "<text class=\"tick\" x=\"{x}\" y=\"{base}\" text-anchor=\"middle\">{text}</text>"
            );
        }
        for (value, text) in &self.y.ticks {
            let y = frame.top + frame.y(&self.y, *value);
            let _ = write!(grid, "M{} {}H{}", coordinate(frame.left), coordinate(y), coordinate(right));
            let (x, base) = (coordinate(frame.left - 7.0), coordinate(y + 4.5));
            let text = symbol_svg(&shortened(text));
            let _ =
                write!(svg, "<text class=\"tick\" x=\"{x}\" y=\"{base}\" text-anchor=\"end\">{text}</text>");
        }
        let _ = write!(svg, "<path class=\"grid\" d=\"{grid}\"/>");
        let [x, y] = [frame.left + frame.width / 2.0, bottom + 38.0].map(coordinate);
        let label = symbol_svg(&self.x.label);
        let _ =
            write!(svg, "<text class=\"label\" x=\"{x}\" y=\"{y}\" text-anchor=\"middle\">{label}</text>");
        let middle = coordinate(-(frame.top + frame.height / 2.0));
        let label = symbol_svg(&self.y.label);
        let _ = write!(
            svg,
            "<text class=\"label\" transform=\"rotate(-90)\" x=\"{middle}\" y=\"15\" text-anchor=\"middle\">{label}</text>"
        );
    }

    fn write_mark(&self, svg: &mut String, frame: &Frame, mark: &Mark) {
        let (x, y) = (|v: f64| coordinate(frame.x(&self.x, v)), |v: f64| coordinate(frame.y(&self.y, v)));
        let _ = match mark {
            Mark::Span(from, to) => {
                write!(
                    svg,
                    "<path class=\"span\" d=\"M{} 0H{}V{}H{}z\"/>",
                    x(*from),
                    x(*to),
                    coordinate(frame.height),
                    x(*from)
                )
            }
            Mark::Band(ink, points) => {
                let upper = points.iter().map(|(at, _, high)| format!("{},{}", x(*at), y(*high)));
                let lower = points.iter().rev().map(|(at, low, _)| format!("{},{}", x(*at), y(*low)));
                let outline = upper.chain(lower).collect::<Vec<_>>().join(" ");
                write!(svg, "<polygon class=\"band {}\" points=\"{outline}\"/>", ink.class())
            }
            Mark::Line(ink, name, points) => {
                let mut path: Vec<String> =
                    points.iter().map(|(at, v)| format!("{},{}", x(*at), y(*v))).collect();
                if path.len() == 1 {
                    // A second point in the same place makes the round cap of a lone one visible.
                    path.push(path[0].clone());
                }
                let fine = if points.len() > DENSE { " fine" } else { "" };
                let (class, name, path) = (format!("{}{fine}", ink.class()), escape(name), path.join(" "));
                write!(svg, "<polyline class=\"line {class}\" data-name=\"{name}\" points=\"{path}\"/>")
            }
            Mark::Horizontal(rule, at) => {
                write!(
                    svg,
                    "<path class=\"rule {}\" d=\"M0 {}H{}\"/>",
                    rule.class(),
                    y(*at),
                    coordinate(frame.width)
                )
            }
            Mark::Vertical(ink, at) => {
                write!(
                    svg,
                    "<path class=\"rule {}\" d=\"M{} 0V{}\"/>",
                    ink.class(),
                    x(*at),
                    coordinate(frame.height)
                )
            }
            Mark::Bar(ink, class, from, to, at) => {
                write!(
                    svg,
                    "<path class=\"{class} {}\" d=\"M{} {}H{}\"/>",
                    ink.class(),
                    x(*from),
                    y(*at),
                    x(*to)
                )
            }
            Mark::Spread(ink, at, half, values) => {
                let [low, lower, middle, upper, high] = values.map(|value| y(self.y.within(value)));
                let (left, centre, right, ink) = (x(at - half), x(*at), x(at + half), ink.class());
                write!(
                    svg,
                    "<path class=\"range {ink}\" d=\"M{centre} {low}V{lower}M{centre} {upper}V{high}\"/>\
                     <path class=\"band {ink}\" d=\"M{left} {lower}H{right}V{upper}H{left}z\"/>\
                     <path class=\"line {ink}\" d=\"M{left} {middle}H{right}\"/>"
                )
            }
            Mark::Point(ink, shape, at, height, tip) => {
                svg.push_str(&symbol(*ink, *shape, frame.x(&self.x, *at), frame.y(&self.y, *height), tip));
                Ok(())
            }
        };
    }

    /// The labels of horizontal rules, moved apart where the rules are close.
    fn write_beside(&self, svg: &mut String, frame: &Frame) {
        let mut labels: Vec<(f64, &Rule, &String)> =
            self.beside.iter().map(|(at, rule, label)| ((1.0 - at) * frame.height, rule, label)).collect();
        labels.sort_by(|a, b| a.0.total_cmp(&b.0));
        for i in 1..labels.len() {
            labels[i].0 = labels[i].0.max(labels[i - 1].0 + LABEL_GAP);
        }
        let mut ceiling = frame.height;
        for label in labels.iter_mut().rev() {
            label.0 = label.0.min(ceiling);
            ceiling = label.0 - LABEL_GAP;
        }
        let x = coordinate(frame.left + frame.width + 6.0);
        for (at, rule, label) in labels {
            let (y, class, label) = (coordinate(frame.top + at + 4.5), rule.class(), symbol_svg(label));
            let _ = write!(svg, "<text class=\"beside {class}\" x=\"{x}\" y=\"{y}\">{label}</text>");
        }
    }
}

/// What comes first in a figure that is a file of its own.
pub(super) fn in_a_file() -> String {
    format!("<style>{STYLE}</style><rect class=\"paper\" width=\"100%\" height=\"100%\"/>")
}

/// The area between the axes.
struct Frame {
    left: f64,
    top: f64,
    width: f64,
    height: f64,
}

impl Frame {
    fn x(&self, axis: &Axis, value: f64) -> f64 {
        axis.position(value) * self.width
    }

    fn y(&self, axis: &Axis, value: f64) -> f64 {
        (1.0 - axis.position(value)) * self.height
    }
}

pub(super) fn symbol(ink: Ink, shape: Shape, x: f64, y: f64, tip: &str) -> String {
    let (class, centre) = (ink.class(), format!("M{} {}", coordinate(x), coordinate(y)));
    let (kind, outline) = match shape {
        Shape::Disc => ("disc", "m-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0z"),
        Shape::Diamond => ("hollow", "m0-6l6 6l-6 6l-6-6z"),
        Shape::Cross => ("hollow", "m-4.5-4.5l9 9m0-9l-9 9"),
    };
    let title = if tip.is_empty() { String::new() } else { format!("<title>{}</title>", escape(tip)) };
    format!("<path class=\"{kind} {class}\" d=\"{centre}{outline}\">{title}</path>")
}

pub(super) fn text_width(text: &str) -> f64 {
    shortened(text).chars().count() as f64 * CHARACTER
}

/// At most what leaves room for the data.
pub(super) fn shortened(text: &str) -> String {
    const LONGEST: usize = 30;
    if text.chars().count() <= LONGEST {
        return text.to_owned();
    }
    text.chars().take(LONGEST - 1).chain(['…']).collect()
}
