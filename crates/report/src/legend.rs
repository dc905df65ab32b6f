//! What explains the marks of a figure.

use std::fmt::Write as _;

use super::chart::{Ink, LEGEND_ROW, Shape, shortened, symbol, text_width};
use super::format::{coordinate, symbol_svg};

/// A mark as the legend shows it.
pub(super) enum Swatch {
    Line(Ink),
    Band(Ink),
    /// Two bands, one over the other.
    Bands(Ink),
    Point(Ink, Shape),
    Span,
}

/// The marks with their texts.
#[derive(Default)]
pub(super) struct Legend {
    entries: Vec<(Swatch, String)>,
}

impl Legend {
    pub(super) fn push(&mut self, swatch: Swatch, text: &str) {
        self.entries.push((swatch, text.to_owned()));
    }

    /// Lays the entries out from `left` on, the first row at this height, in as many rows as they need, and says how many.
    pub(super) fn svg(&self, left: f64, right: f64, top: f64) -> (String, usize) {
        let (mut svg, mut x, mut row) = (String::new(), left, 0);
        for (swatch, text) in &self.entries {
            let width = 28.0 + text_width(text) + 14.0;
            if x + width > right && x > left {
                (x, row) = (left, row + 1);
            }
            let y = top + row as f64 * LEGEND_ROW;
            let (from, to, middle) = (coordinate(x), coordinate(x + 22.0), coordinate(y));
            let band =
                |class: &str| format!("<path class=\"{class}\" d=\"M{from} {middle}m0-5H{to}v10H{from}z\"/>");
            match swatch {
                Swatch::Line(ink) => {
                    let _ = write!(svg, "<path class=\"line {}\" d=\"M{from} {middle}H{to}\"/>", ink.class());
                }
                Swatch::Band(ink) => svg.push_str(&band(&format!("band {}", ink.class()))),
                Swatch::Bands(ink) => svg.push_str(&band(&format!("band {}", ink.class())).repeat(2)),
                Swatch::Span => svg.push_str(&band("span")),
                Swatch::Point(ink, shape) => svg.push_str(&symbol(*ink, *shape, x + 11.0, y, "")),
            }
            let (at, base) = (coordinate(x + 28.0), coordinate(y + 4.5));
            let _ = write!(svg, "<text x=\"{at}\" y=\"{base}\">{}</text>", symbol_svg(&shortened(text)));
            x += width;
        }
        (svg, if self.entries.is_empty() { 0 } else { row + 1 })
    }
}
