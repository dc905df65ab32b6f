//! What comes within one moment has the time since before it together.

use taut_core::{Duration, Time};

use super::set_point::elapsed;

/// A network that held messages up gives all at once, in some µs. If each had the time since the one before, the oldest would go as far as it asks and the newest nowhere, at
/// the largest speed: what comes within this time has the time since what was told before any of it.
const MOMENT: Duration = Duration::from_millis(1);

/// What a device was told last, and before the moment in which that was.
#[derive(Clone, Debug)]
pub(super) struct Moments<T> {
    before: Told<T>,
    last: Told<T>,
    began: Time,
    /// The way that it was told to go since then, there and back again counted twice.
    gone: f64,
}

#[derive(Clone, Copy, Debug)]
struct Told<T> {
    what: T,
    at: Time,
}

/// What there is for another message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowance<T> {
    /// What was told before.
    pub(super) before: T,
    /// The time since then, s.
    pub(super) time: f64,
    /// The way that others have gone in that time.
    pub(super) gone: f64,
}

impl<T: Copy> Moments<T> {
    /// So it is by itself.
    pub(super) const fn new(what: T) -> Self {
        let told = Told { what, at: Time::ZERO };
        Self { before: told, last: told, began: Time::ZERO, gone: 0.0 }
    }

    /// It is so now, and nothing before counts.
    pub(super) fn begin(&mut self, now: Time, what: T) {
        // A clock that goes back does not let the same time be spent twice.
        let at = self.last.at.max(now);
        self.last = Told { what, at };
        (self.before, self.began, self.gone) = (self.last, at, 0.0);
    }

    /// At `now`, together with what came in the same moment.
    pub(super) fn allowance(&self, now: Time) -> Allowance<T> {
        if !self.is_same(now) {
            return self.since_last(now);
        }
        let Told { what, at } = self.before;
        Allowance { before: what, time: elapsed(now.max(self.last.at), at), gone: self.gone }
    }

    /// At `now`, by itself.
    pub(super) fn since_last(&self, now: Time) -> Allowance<T> {
        Allowance { before: self.last.what, time: elapsed(now, self.last.at), gone: 0.0 }
    }

    /// What it was told last.
    pub(super) const fn last(&self) -> T {
        self.last.what
    }

    /// It is told this, which is so far away.
    pub(super) fn tell(&mut self, now: Time, what: T, way: f64) {
        if !self.is_same(now) {
            (self.before, self.began, self.gone) = (self.last, now, 0.0);
        }
        self.gone += way;
        self.last = Told { what, at: self.last.at.max(now) };
    }

    fn is_same(&self, now: Time) -> bool {
        self.began <= now && now.saturating_since(self.began) < MOMENT
    }
}
