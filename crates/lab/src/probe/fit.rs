//! Which elements would do what was seen.

use taut_core::Duration;
use taut_link::Distribution as Shape;

use super::Seen;
use crate::scenario::Distribution;

/// One direction as elements of the lab.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// The delay with its variation.
    pub jitter: FittedJitter,
    /// What is lost; `None`: nothing was.
    pub loss: Option<FittedLoss>,
}

/// Delay by [`Jitter`](taut_link::Jitter), propagation in its mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FittedJitter {
    /// Its shape.
    pub distribution: Distribution,
    /// Propagation and the mean of what varies.
    pub mean: Duration,
    /// The factor of its shape.
    pub spread: Duration,
    /// May messages overtake each other?
    pub reorder: bool,
    /// How far its quantiles are from those that were seen, root of the mean square.
    pub error: Duration,
}

/// Losses by a model of two states, of which one passes everything and one nothing (Gilbert, *Capacity of a burst-noise channel*, 1960).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FittedLoss {
    /// From passing to losing, per message, 0 to 1.
    pub p: f64,
    /// From losing to passing, per message, 0 to 1: 1 / r messages is the mean length of a burst.
    pub r: f64,
}

/// Too little was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{received} messages arrived, and {} are needed: probe for longer, or see whether the path carries anything",
    Fit::LEAST
)]
pub struct FitError {
    /// Messages that arrived.
    pub received: usize,
}

impl Fit {
    /// Messages that have to arrive.
    pub const LEAST: usize = 1_000;
}

const SHAPES: [(Distribution, Shape); 3] = [
    (Distribution::Uniform, Shape::Uniform),
    (Distribution::Normal, Shape::Normal),
    (Distribution::Pareto, Shape::PARETO),
];
/// Quantiles that are compared: of each hundredth but the ends.
const PERCENT: std::ops::Range<usize> = 1..100;

impl Seen {
    /// The elements that would do the same: of the shapes of jitter the one whose quantiles are nearest.
    ///
    /// # Errors
    /// When fewer than [`Fit::LEAST`] arrived.
    pub fn fit(&self) -> Result<Fit, FitError> {
        let sorted: Vec<f64> = self.sorted().iter().map(|delay| delay.as_nanos() as f64).collect();
        if sorted.len() < Fit::LEAST {
            return Err(FitError { received: sorted.len() });
        }
        let reorder = self.overtaken > 0;
        let drawn = drawn(&sorted, if reorder { None } else { Some(self.every.as_nanos() as f64) });
        let fits = SHAPES.map(|(distribution, shape)| {
            let line = line(&drawn, shape).unwrap_or_else(|| Line::constant(&sorted));
            let nanos = |value: f64| Duration::from_nanos(value.max(0.0).round() as u64);
            FittedJitter {
                distribution,
                mean: nanos(line.mean),
                spread: nanos(line.spread),
                reorder,
                error: nanos(line.error),
            }
        });
        let [first, rest @ ..] = fits;
        let best = rest.into_iter().fold(first, |best, fit| if fit.error < best.error { fit } else { best });
        Ok(Fit { jitter: best, loss: self.loss() })
    }

    /// Maximum likelihood: of all steps from a message that passed, the share to one that was lost, and the reverse. What was lost
    /// behind the last message that arrived may be still on its way, and does not count.
    fn loss(&self) -> Option<FittedLoss> {
        let known = &self.arrivals[..=self.newest?];
        let [mut passed, mut lost, mut falls, mut rises] = [0_u64; 4];
        for step in known.windows(2) {
            match (step[0].is_some(), step[1].is_some()) {
                (true, next) => (passed, falls) = (passed + 1, falls + u64::from(!next)),
                (false, next) => (lost, rises) = (lost + 1, rises + u64::from(next)),
            }
        }
        (falls > 0 && lost > 0)
            .then(|| FittedLoss { p: falls as f64 / passed as f64, r: rises as f64 / lost as f64 })
    }
}

/// A point of a distribution: a delay, ns, and the share that is not longer.
#[derive(Clone, Copy, Debug)]
struct Quantile {
    delay: f64,
    share: f64,
}

/// The distribution that delays were drawn from. Where messages overtake each other, it is that of the delays. Where they do not, one that
/// was sent T = `every` later leaves no sooner than its predecessor: of what is seen no more than G(x) = F(x)·G(x + T) is within x, and F
/// follows from it.
fn drawn(sorted: &[f64], every: Option<f64>) -> Vec<Quantile> {
    let seen = |delay: f64| sorted.partition_point(|other| *other <= delay) as f64 / sorted.len() as f64;
    let quantile = |percent: usize| {
        let delay = sorted[percent * (sorted.len() - 1) / 100];
        let share = every.map_or(seen(delay), |every| seen(delay) / seen(delay + every));
        Quantile { delay, share }
    };
    // At the ends a quantile says little, or is infinite.
    PERCENT.map(quantile).filter(|quantile| (0.005..=0.995).contains(&quantile.share)).collect()
}

/// A straight line through delays by a shape's quantiles.
#[derive(Clone, Copy, Debug)]
struct Line {
    mean: f64,
    spread: f64,
    error: f64,
}

impl Line {
    /// Of delays that hardly differ: their median.
    fn constant(sorted: &[f64]) -> Self {
        Self { mean: sorted[sorted.len() / 2], spread: 0.0, error: 0.0 }
    }
}

/// By least squares. `None` where there are not two delays to tell apart.
fn line(quantiles: &[Quantile], shape: Shape) -> Option<Line> {
    let count = quantiles.len() as f64;
    let points = || quantiles.iter().map(|quantile| (shape.quantile(quantile.share), quantile.delay));
    let x_mean = points().map(|(x, _)| x).sum::<f64>() / count;
    let y_mean = points().map(|(_, y)| y).sum::<f64>() / count;
    let square: f64 = points().map(|(x, _)| (x - x_mean) * (x - x_mean)).sum();
    let product: f64 = points().map(|(x, y)| (x - x_mean) * (y - y_mean)).sum();
    let spread = if square > 0.0 { product / square } else { return None };
    let mean = y_mean - spread * x_mean;
    let off: f64 = points().map(|(x, y)| (y - mean - spread * x) * (y - mean - spread * x)).sum();
    Some(Line { mean, spread, error: (off / count).sqrt() })
}
