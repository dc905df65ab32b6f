//! Least values.

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
