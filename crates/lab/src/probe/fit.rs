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
    /// How far its quantiles are from those that were seen, root of the mean square; the median of all seconds.
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
    "{received} messages arrived{}, and {} are needed: probe for longer, or see whether the path carries anything",
    uncounted(*.held),
    Fit::LEAST
)]
pub struct FitError {
    /// Messages that arrived.
    pub received: usize,
    /// Of these, those for which the receiving host was not awake.
    pub held: usize,
}

fn uncounted(held: usize) -> String {
    if held == 0 {
        String::new()
    } else {
        format!(", of which {held} do not count since the receiving host was busy")
    }
}

impl Fit {
    /// Messages that have to arrive, and not be held.
    pub const LEAST: usize = 1_000;
}

const SHAPES: [(Distribution, Shape); 3] = [
    (Distribution::Uniform, Shape::Uniform),
    (Distribution::Normal, Shape::Normal),
    (Distribution::Pareto, Shape::Pareto),
];
/// Quantiles that are compared: of each hundredth but the ends.
const PERCENT: std::ops::Range<usize> = 1..100;

impl Seen {
    /// The elements that would do the same: of the shapes of jitter the one whose quantiles are nearest, over the median of all seconds. A rate that
    /// changes moves the delays of some seconds, and a standstill or a queue those of a few; over all of them at once they would widen the law.
    ///
    /// # Errors
    /// When fewer than [`Fit::LEAST`] arrived that were not held.
    pub fn fit(&self) -> Result<Fit, FitError> {
        let clean = self.arrivals.iter().flatten().filter(|arrival| !arrival.held);
        let clean: Vec<f64> = clean.map(|arrival| arrival.delay().as_nanos() as f64).collect();
        let reorder = self.overtaken > 0;
        let waits = (!reorder).then_some(self.every.as_nanos() as f64);
        let seconds: Vec<Second> =
            clean.chunks_exact(Fit::LEAST).map(|delays| Second::new(delays, waits)).collect();
        let fits = SHAPES.map(|(distribution, shape)| {
            let lines: Vec<Line> = seconds.iter().map(|second| second.line(shape)).collect();
            let median = |of: fn(&Line) -> f64| {
                let mut values: Vec<f64> = lines.iter().map(of).collect();
                values.sort_unstable_by(f64::total_cmp);
                values.get(values.len() / 2).map(|value| Duration::from_nanos(value.max(0.0).round() as u64))
            };
            let (mean, spread, error) =
                (median(|line| line.mean)?, median(|line| line.spread)?, median(|line| line.error)?);
            Some(FittedJitter { distribution, mean, spread, reorder, error })
        });
        let best = fits.into_iter().flatten().min_by_key(|fit| fit.error);
        let jitter = best.ok_or(FitError { received: self.received(), held: self.held() })?;
        Ok(Fit { jitter, loss: self.loss() })
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

/// The delays of a second, from the shortest to the longest, and the distribution that they were drawn from.
struct Second {
    sorted: Vec<f64>,
    drawn: Vec<Quantile>,
}

impl Second {
    /// Where messages overtake each other, the distribution is that of the delays. Where they do not, one that was sent T = `waits` later leaves no
    /// sooner than its predecessor: of what is seen no more than G(x) = F(x)·G(x + T) is within x, and F follows from it.
    fn new(delays: &[f64], waits: Option<f64>) -> Self {
        let mut sorted = delays.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let seen = |delay: f64| sorted.partition_point(|other| *other <= delay) as f64 / sorted.len() as f64;
        let quantile = |percent: usize| {
            let delay = sorted[percent * (sorted.len() - 1) / 100];
            let share = waits.map_or(seen(delay), |waits| seen(delay) / seen(delay + waits));
            Quantile { delay, share }
        };
        // At the ends a quantile says little, or is infinite.
        let drawn =
            PERCENT.map(quantile).filter(|quantile| (0.005..=0.995).contains(&quantile.share)).collect();
        Self { sorted, drawn }
    }

    fn line(&self, shape: Shape) -> Line {
        line(&self.drawn, shape).unwrap_or_else(|| Line::constant(&self.sorted))
    }
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
