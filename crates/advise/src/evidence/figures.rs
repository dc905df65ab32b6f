//! What a run is worth to a recommendation.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use taut_lab::scenario::Direction;
use taut_report::result::{MediumResult, RunResult};

/// The worst over the seeds, rounded up to four digits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// States, from operator to robot.
    pub there: Way,
    /// Feedback, from robot to operator.
    pub back: Way,
    /// Sent in both directions while states were made, after the warm-up, headers included, in Mbit/s.
    pub wire_mbit: f64,
    /// Until the session was open, in milliseconds; absent when it was not, in any of the runs.
    pub opened_ms: Option<f64>,
}

/// One direction.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "[Option<f64>; 4]", from = "[Option<f64>; 4]")]
pub struct Way {
    /// Median of the delay, in milliseconds; absent, like the next two, when nothing arrived in one of the runs.
    pub p50_ms: Option<f64>,
    /// 99th percentile of the delay.
    pub p99_ms: Option<f64>,
    /// 99th percentile of the differences of consecutive delays.
    pub jitter_ms: Option<f64>,
    /// Made and never delivered, dropped by the sender or lost, per cent.
    pub lost_percent: f64,
}

impl From<Way> for [Option<f64>; 4] {
    fn from(way: Way) -> Self {
        [way.p50_ms, way.p99_ms, way.jitter_ms, Some(way.lost_percent)]
    }
}

impl From<[Option<f64>; 4]> for Way {
    fn from([p50_ms, p99_ms, jitter_ms, lost]: [Option<f64>; 4]) -> Self {
        Self { p50_ms, p99_ms, jitter_ms, lost_percent: lost.unwrap_or(100.0) }
    }
}

impl Figures {
    /// Of runs that differ in their seeds only.
    pub(super) fn worst(runs: &[&RunResult]) -> Self {
        let wire = |run: &RunResult| {
            let [there, back] = &run.teleop.as_ref()?.wire;
            Some((there.sent_bps? + back.sent_bps?) / 1e6)
        };
        let opened = |run: &RunResult| run.teleop.as_ref()?.opened_ms;
        Self {
            there: Way::worst(runs, Direction::Forward),
            back: Way::worst(runs, Direction::Backward),
            wire_mbit: worst(runs, wire).unwrap_or(0.0),
            opened_ms: worst(runs, opened),
        }
    }
}

impl Way {
    fn worst(runs: &[&RunResult], direction: Direction) -> Self {
        let of = |run: &RunResult, what: fn(&MediumResult) -> Option<f64>| {
            what(run.media.iter().find(|medium| medium.direction == direction)?)
        };
        Self {
            p50_ms: worst(runs, |run| of(run, |m| m.delay_ms.as_ref().map(|d| d.p50))),
            p99_ms: worst(runs, |run| of(run, |m| m.delay_ms.as_ref().map(|d| d.p99))),
            jitter_ms: worst(runs, |run| of(run, |m| m.jitter_ms.as_ref().map(|d| d.p99))),
            lost_percent: worst(runs, |run| of(run, |m| m.loss_percent)).unwrap_or(100.0),
        }
    }
}

/// The largest; none where any run has none: that is worse than any number.
pub(super) fn worst(runs: &[&RunResult], of: impl Fn(&RunResult) -> Option<f64>) -> Option<f64> {
    let values: Option<Vec<f64>> = runs.iter().map(|run| of(run)).collect();
    values?.into_iter().reduce(f64::max).map(rounded_up)
}

/// To four significant digits, never to something better than was measured.
pub(super) fn rounded_up(value: f64) -> f64 {
    let mut unit = 1e-4;
    while value / unit > 1e4 {
        unit *= 10.0;
    }
    // A hair below the next unit is rounding of its own. Which of 0 and −0 is the larger is for the compiler; their sum is 0.
    let units = (value / unit - 1e-6).ceil().max(0.0) + 0.0;
    // Dividing by a whole number gives the shortest digits.
    if unit < 1.0 { units / (1.0 / unit).round() } else { units * unit }
}

/// Everything that was counted, at full precision: a change of any packet shows.
pub(super) fn exact(runs: &[&RunResult]) -> String {
    let mut text = String::new();
    for run in runs {
        let _ = write!(text, "seed {}", run.seed);
        for wire in run.teleop.iter().flat_map(|session| &session.wire) {
            let _ = write!(text, " wire {} {} {}", wire.packets, wire.bytes, wire.payload);
        }
        for m in &run.media {
            let _ = write!(
                text,
                " {} {} {} {} {} {}",
                m.stream, m.made, m.delivered, m.lost, m.duplicates, m.reordered
            );
            for d in m.delay_ms.iter().chain(&m.jitter_ms) {
                for value in [d.mean, d.min, d.p50, d.p99, d.max] {
                    let _ = write!(text, " {:016x}", value.to_bits());
                }
            }
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_to_the_worse_side_and_keeps_what_is_round() {
        let shown = |value: f64| rounded_up(value).to_string();
        assert_eq!([20.0, 0.3, 5.04, 0.0].map(shown), ["20", "0.3", "5.04", "0"]);
        assert_eq!([20.0311, 123.456, 46231.2, 0.00001].map(shown), ["20.04", "123.5", "46240", "0.0001"]);
    }
}
