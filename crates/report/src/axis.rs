//! One axis of a figure: its range, its ticks, and where a value lies on it.

use super::format::number;

/// Keeps differences and quotients of what a caller passes finite.
const LARGEST: f64 = 1e100;

/// A linear or logarithmic axis, or one of categories.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    /// What it shows, with the unit: `"delay (ms)"`.
    pub(super) label: String,
    /// Value and text of each tick, ascending.
    pub(super) ticks: Vec<(f64, String)>,
    lo: f64,
    hi: f64,
    log: bool,
}

impl Axis {
    /// From `lo` to `hi`, both moved outwards to whole ticks.
    pub(super) fn rounded(label: &str, lo: f64, hi: f64) -> Self {
        let (lo, hi) = widened(lo, hi);
        let step = nice_step((hi - lo) / 5.0);
        // A hair of tolerance, so that 30.000000000000004 is not rounded up to 35.
        let (lo, hi) = ((lo / step + 1e-9).floor() * step, (hi / step - 1e-9).ceil() * step);
        Self { label: label.to_owned(), ticks: linear_ticks(lo, hi, step), lo, hi, log: false }
    }

    /// From 0, unless all values lie so close together that their differences would vanish; then as [`rounded`](Self::rounded).
    pub(super) fn from_zero(label: &str, lo: f64, hi: f64) -> Self {
        let close = lo > 0.8 * hi;
        Self::rounded(label, if close { lo } else { lo.min(0.0) }, hi)
    }

    /// With a little room beyond both ends, so that no symbol is cut there.
    pub(super) fn with_margin(self) -> Self {
        self.with_margin_of(0.025)
    }

    /// The same of an axis that is short for its symbols: so much of its length.
    pub(super) fn with_margin_of(mut self, share: f64) -> Self {
        if self.log {
            let factor = libm::pow(self.hi / self.lo, share);
            (self.lo, self.hi) = (self.lo / factor, self.hi * factor);
        } else {
            let margin = share * (self.hi - self.lo);
            (self.lo, self.hi) = (self.lo - margin, self.hi + margin);
        }
        self
    }

    /// The value, or the end of the axis that it lies beyond.
    pub(super) fn within(&self, value: f64) -> f64 {
        value.clamp(self.lo, self.hi)
    }

    /// Exactly from `lo` to `hi`.
    pub(super) fn exact(label: &str, lo: f64, hi: f64) -> Self {
        let (lo, hi) = widened(lo, hi);
        let step = nice_step((hi - lo) / 6.0);
        Self { label: label.to_owned(), ticks: linear_ticks(lo, hi, step), lo, hi, log: false }
    }

    /// Logarithmic. `lo` and `hi` are positive; what is not is brought to the nearest decade that makes sense.
    pub(super) fn log(label: &str, lo: f64, hi: f64) -> Self {
        let hi = if hi > 0.0 { hi.min(LARGEST) } else { 1.0 };
        let lo = if lo > 0.0 { lo.clamp(hi / 1e12, hi / 2.0) } else { hi / 10.0 };
        let mut decade = 1.0;
        while decade > lo {
            decade /= 10.0;
        }
        while decade * 10.0 <= lo {
            decade *= 10.0;
        }
        let few = hi / lo < 100.0;
        let mut ticks = Vec::new();
        while decade <= hi * (1.0 + 1e-9) {
            for factor in if few { &[1.0, 2.0, 5.0][..] } else { &[1.0][..] } {
                let value = decade * factor;
                if value >= lo * (1.0 - 1e-9) && value <= hi * (1.0 + 1e-9) {
                    ticks.push((value, number(value, 6)));
                }
            }
            decade *= 10.0;
        }
        Self { label: label.to_owned(), ticks, lo, hi, log: true }
    }

    /// One place per name; place `i` has the value `-i`, so that on a vertical axis the first is on top.
    pub(super) fn categories(label: &str, names: &[String]) -> Self {
        let places = names.len().max(1) as f64;
        let ticks = names.iter().enumerate().map(|(i, name)| (-(i as f64), name.clone())).collect();
        Self { label: label.to_owned(), ticks, lo: 0.5 - places, hi: 0.5, log: false }
    }

    /// One place per name, from left to right; place `i` has the value `i`.
    pub(super) fn places(label: &str, names: &[String]) -> Self {
        let ticks = names.iter().enumerate().map(|(i, name)| (i as f64, name.clone())).collect();
        Self { label: label.to_owned(), ticks, lo: -0.5, hi: names.len().max(1) as f64 - 0.5, log: false }
    }

    /// With ticks at these values, ascending, where they are few enough.
    pub(super) fn with_ticks_at(mut self, values: &[f64]) -> Self {
        const MOST: usize = 12;
        if values.len() <= MOST {
            self.ticks = values.iter().map(|value| (*value, number(*value, 4))).collect();
        }
        self
    }

    /// Where `value` lies between the ends of the axis, 0 to 1; outside when it is outside.
    pub(super) fn position(&self, value: f64) -> f64 {
        if self.log {
            let logarithm = |x: f64| libm::log10(x.max(1e-300));
            (logarithm(value) - logarithm(self.lo)) / (logarithm(self.hi) - logarithm(self.lo))
        } else {
            (value - self.lo) / (self.hi - self.lo)
        }
    }

    /// The ends and the kind, for a script that inverts [`position`](Self::position): `"0 30 linear"`.
    pub(super) fn data(&self) -> String {
        format!("{} {} {}", number(self.lo, 7), number(self.hi, 7), if self.log { "log" } else { "linear" })
    }
}

/// A range that is finite and not empty.
fn widened(lo: f64, hi: f64) -> (f64, f64) {
    if !lo.is_finite() || !hi.is_finite() || lo > hi {
        return (0.0, 1.0);
    }
    let (lo, hi) = (lo.clamp(-LARGEST, LARGEST), hi.clamp(-LARGEST, LARGEST));
    // Below this share of the values a double no longer resolves the ticks.
    if hi - lo > 1e-9 * lo.abs().max(hi.abs()) {
        return (lo, hi);
    }
    let margin = if hi.abs() < 1e-12 { 1.0 } else { 0.1 * hi.abs() };
    (if lo.abs() < 1e-12 { 0.0 } else { lo - margin }, hi + margin)
}

/// The smallest of 1, 2, 5 × 10ⁿ that is not below `raw`.
fn nice_step(raw: f64) -> f64 {
    let mut decade = 1.0;
    while decade > raw {
        decade /= 10.0;
    }
    while decade * 10.0 <= raw {
        decade *= 10.0;
    }
    [1.0, 2.0, 5.0]
        .map(|factor| factor * decade)
        .into_iter()
        .find(|step| *step >= raw)
        .unwrap_or(10.0 * decade)
}

fn linear_ticks(lo: f64, hi: f64, step: f64) -> Vec<(f64, String)> {
    let first = (lo / step - 1e-6).ceil();
    let places = ((hi / step + 1e-6).floor() - first).clamp(0.0, 20.0) as usize;
    let value = |i: usize| (first + i as f64) * step;
    (0..=places).map(|i| (value(i), number(value(i), 6))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, text)| text.as_str()).collect()
    }

    #[test]
    fn ticks_are_round_and_cover_the_range() {
        assert_eq!(texts(&Axis::rounded("", 9.2, 26.6)), ["5", "10", "15", "20", "25", "30"]);
        assert_eq!(texts(&Axis::from_zero("", 9.2, 30.0)), ["0", "10", "20", "30"]);
        assert_eq!(texts(&Axis::exact("", 10.0, 20.0)), ["10", "12", "14", "16", "18", "20"]);
        assert_eq!(texts(&Axis::rounded("", 0.0, 0.3)), ["0", "0.1", "0.2", "0.3"]);
    }

    #[test]
    fn close_values_do_not_start_at_zero() {
        assert_eq!(texts(&Axis::from_zero("", 601.0, 604.0)), ["601", "602", "603", "604"]);
    }

    #[test]
    fn logarithmic_ticks_are_decades_or_finer() {
        assert_eq!(texts(&Axis::log("", 0.01, 100.0)), ["0.01", "0.1", "1", "10", "100"]);
        assert_eq!(texts(&Axis::log("", 9.0, 60.0)), ["10", "20", "50"]);
        assert!((Axis::log("", 0.01, 100.0).position(1.0) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn a_margin_moves_the_ends_and_not_the_ticks() {
        for axis in [Axis::exact("", 0.0, 100.0), Axis::log("", 1.0, 100.0)] {
            let wide = axis.clone().with_margin();
            assert_eq!(texts(&wide), texts(&axis));
            assert!((0.01..0.03).contains(&wide.position(axis.lo)), "{wide:?}");
            assert!((0.97..0.99).contains(&wide.position(axis.hi)), "{wide:?}");
            assert!((wide.position(wide.within(1e9)) - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn degenerate_ranges_still_have_places() {
        let ends = [
            (0.0, 0.0),
            (5.0, 5.0),
            (-5.0, -5.0),
            (f64::NAN, 1.0),
            (2.0, 1.0),
            (-f64::MAX, f64::MAX),
            (1e300, 1e300),
        ];
        for (lo, hi) in ends {
            for axis in [
                Axis::rounded("", lo, hi),
                Axis::from_zero("", lo, hi),
                Axis::exact("", lo, hi),
                Axis::log("", lo, hi),
            ] {
                assert!(axis.position(3.0).is_finite(), "{lo} {hi}");
                assert!(axis.ticks.len() <= 40);
            }
        }
    }
}
