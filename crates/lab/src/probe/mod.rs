//! From what was seen of a path to a scenario of it.
//!
//! A probe sends numbered messages at equal distances and notes how long each was on its way, by clocks that were compared. What it saw of a
//! direction is a [`Seen`]; [`Seen::fit`] says which of the lab's elements would do the same, and [`scenario`] writes both as files: one
//! plays what was seen, one has the fitted elements. Nothing here reads a clock or owns a socket.

mod fit;
mod scenario;

use taut_core::Duration;

pub use fit::{Fit, FitError, FittedJitter, FittedLoss};
pub use scenario::{Files, scenario};

/// What was seen of one direction.
#[derive(Clone, Debug)]
pub struct Seen {
    every: Duration,
    /// By number, how long it took; `None`: it did not arrive.
    delays: Vec<Option<Duration>>,
    /// The highest number that arrived so far.
    newest: Option<usize>,
    overtaken: u64,
}

impl Seen {
    /// Messages at most: a quarter of an hour at 1 kHz.
    pub const MOST: usize = 900_000;

    /// Of so many messages, at most [`Seen::MOST`], `every` apart, of which none has arrived yet.
    pub fn new(every: Duration, messages: usize) -> Self {
        Self { every, delays: vec![None; messages.min(Self::MOST)], newest: None, overtaken: 0 }
    }

    /// The message with this number, from 0, arrived after `delay`. False when it did so before, or was never sent.
    pub fn arrived(&mut self, number: usize, delay: Duration) -> bool {
        let Some(place) = self.delays.get_mut(number).filter(|place| place.is_none()) else { return false };
        *place = Some(delay);
        if self.newest.is_some_and(|newest| number < newest) {
            self.overtaken += 1;
        }
        self.newest = self.newest.max(Some(number));
        true
    }

    /// How many arrived.
    pub fn received(&self) -> usize {
        self.delays.iter().flatten().count()
    }

    /// Those that arrived after one that was sent later.
    pub const fn overtaken(&self) -> u64 {
        self.overtaken
    }

    /// The delay that this share of what arrived keeps within, from 0 to 1; `None` when nothing arrived.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let sorted = self.sorted();
        let last = sorted.len().checked_sub(1)?;
        Some(sorted[(share.clamp(0.0, 1.0) * last as f64).round() as usize])
    }

    fn sorted(&self) -> Vec<Duration> {
        let mut sorted: Vec<Duration> = self.delays.iter().flatten().copied().collect();
        sorted.sort_unstable();
        sorted
    }
}
