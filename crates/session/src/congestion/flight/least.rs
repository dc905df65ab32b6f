//! Least values, and how far values scatter.

use std::ops::Add;

use taut_core::{Duration, Time};

/// The least of the last 15 to 30 s, as far as values come: after a pause the old ones count for one window more.
#[derive(Debug)]
pub(in crate::congestion) struct Least<T> {
    pub(super) windows: [Option<T>; 2],
    pub(super) began: Time,
    least: Option<T>,
}

impl<T> Default for Least<T> {
    fn default() -> Self {
        Self { windows: [None, None], began: Time::ZERO, least: None }
    }
}

impl<T: Copy + Ord + Add<Output = T>> Least<T> {
    const WINDOW: Duration = Duration::from_secs(15);

    /// The least so far.
    pub(in crate::congestion) fn record(&mut self, now: Time, value: T) -> T {
        if now.saturating_since(self.began) >= Self::WINDOW {
            self.windows = [None, self.windows[0]];
            self.began = now;
        }
        let present = self.windows[0].map_or(value, |least| least.min(value));
        self.windows[0] = Some(present);
        let least = self.windows[1].map_or(present, |last| last.min(present));
        self.least = Some(least);
        least
    }

    /// Nothing can be as little as that any more, but more by so much.
    pub(super) fn rise(&mut self, now: Time, by: T) {
        self.least = self.least.map(|least| least + by);
        self.windows = [self.least, None];
        self.began = now;
    }

    pub(super) fn get(&self) -> Option<T> {
        self.least
    }
}

/// Points, and how far they lie from their straight line: a queue that grows or empties is no scatter.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scatter {
    pub(super) count: f64,
    pub(super) mean: (f64, f64),
    /// Sums of the squares and of the products of what the coordinates are off their means.
    pub(super) squares: (f64, f64),
    pub(super) products: f64,
    /// The last y, the sum of what each is more than the one before it, and of its square.
    pub(super) last: f64,
    pub(super) steps: (f64, f64),
}

impl Scatter {
    /// Welford's updates of means and sums.
    pub(super) fn add(&mut self, x: f64, y: f64) {
        let step = if self.count > 0.0 { y - self.last } else { 0.0 };
        self.last = y;
        self.steps = (self.steps.0 + step, self.steps.1 + step * step);
        self.count += 1.0;
        let (dx, dy) = (x - self.mean.0, y - self.mean.1);
        self.mean.0 += dx / self.count;
        self.mean.1 += dy / self.count;
        self.squares.0 += dx * (x - self.mean.0);
        self.squares.1 += dy * (y - self.mean.1);
        self.products += dx * (y - self.mean.1);
    }

    /// What of y their line of least squares leaves; nothing of fewer than three points.
    pub(super) fn about_line(&self) -> Residue {
        if self.count < 3.0 || self.squares.0 <= 0.0 {
            return Residue::default();
        }
        let squares = self.squares.1 - self.products * self.products / self.squares.0;
        Residue { squares: squares.max(0.0), freedom: self.count - 2.0 }
    }

    /// What lies between neighbours: half of its square is of either. A queue that takes many to grow is none of it, whatever its course (the mean square
    /// successive difference of von Neumann, 1941).
    pub(super) fn between_neighbours(&self) -> Residue {
        if self.count < 3.0 {
            return Residue::default();
        }
        let (sum, squares) = self.steps;
        let squares = squares - sum * sum / (self.count - 1.0);
        Residue { squares: squares.max(0.0) / 2.0, freedom: self.count - 2.0 }
    }
}

/// The sum of the squares of what is left of values, by a line through them or from one to the next, and how many of those are free.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Residue {
    pub(super) squares: f64,
    pub(super) freedom: f64,
}

impl Residue {
    /// What is left of others.
    pub(super) fn add(&mut self, other: Self) {
        self.squares += other.squares;
        self.freedom += other.freedom;
    }

    pub(super) fn deviation(&self) -> f64 {
        (self.squares / self.freedom.max(1.0)).sqrt()
    }
}

/// The least of the last 10 to 20 ms: what waits now, whatever jitter does to single frames.
#[derive(Debug, Default)]
pub(super) struct Recent {
    least: [Option<Duration>; 2],
    began: Time,
}

impl Recent {
    const SPAN: Duration = Duration::from_millis(10);

    pub(super) fn record(&mut self, now: Time, value: Duration) -> Duration {
        if now.saturating_since(self.began) >= Self::SPAN {
            self.least = [None, self.least[0]];
            self.began = now;
        }
        let present = self.least[0].map_or(value, |least| least.min(value));
        self.least[0] = Some(present);
        self.least[1].map_or(present, |last| last.min(present))
    }
}
