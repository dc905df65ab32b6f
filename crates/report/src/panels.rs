//! Figures above each other, of one horizontal axis, as one.

use std::fmt::Write as _;

use super::chart::{BEGINS, Chart, LEGEND_ROW, TOP, WIDTH, in_a_file};
use super::format::{coordinate, escape};
use super::legend::Legend;

/// Charts that differ in what is drawn and in nothing else, from above, under one legend.
pub(super) struct Panels {
    /// What they show, to who cannot see it.
    pub(super) label: String,
    pub(super) legend: Legend,
    pub(super) charts: Vec<Chart>,
}

impl Panels {
    /// The SVG as a file of its own. The lowest chart alone has the ticks of the horizontal axis.
    pub(super) fn standalone(mut self) -> String {
        if let Some((_, above)) = self.charts.split_last_mut() {
            above.iter_mut().for_each(Chart::share_x_below);
        }
        let (legend, rows) = self.legend.svg(TOP, WIDTH, TOP + 4.0);
        let mut top = TOP + rows as f64 * LEGEND_ROW;
        let mut inner = String::new();
        for chart in &self.charts {
            let (svg, height) = chart.svg("");
            let [y, width, tall] = [top, WIDTH, height].map(coordinate);
            let _ =
                write!(inner, "<svg y=\"{y}\" width=\"{width}\" height=\"{tall}\">{}</svg>", svg.trim_end());
            top += height;
        }
        let [width, height] = [WIDTH, top].map(coordinate);
        let (label, file) = (escape(&self.label), in_a_file());
        format!(
            "{BEGINS} viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{label}\">{file}{legend}{inner}</svg>\n"
        )
    }
}
