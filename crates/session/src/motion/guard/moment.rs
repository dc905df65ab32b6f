//! What comes within one moment counts together.

use taut_core::{Duration, Time};

use super::set_point::elapsed;

/// A network that held messages up gives all at once, in some µs. If each counted from the one before, the oldest would go as far as it asks and the newest nowhere, at
/// the largest speed: what comes within this time counts from what was told before any of it.
pub(super) const MOMENT: Duration = Duration::from_millis(1);

/// What a device was told last, and before the moment in which that was.
#[derive(Clone, Debug)]
pub(super) struct Moments<T> {
    before: Told<T>,
    last: Told<T>,
    began: Time,
}

#[derive(Clone, Copy, Debug)]
struct Told<T> {
    what: T,
    at: Time,
}

impl<T: Copy> Moments<T> {
    /// So it is by itself.
    pub(super) const fn new(what: T) -> Self {
        let told = Told { what, at: Time::ZERO };
        Self { before: told, last: told, began: Time::ZERO }
    }

    /// It is so now, and nothing before counts.
    pub(super) fn begin(&mut self, now: Time, what: T) {
        // A clock that goes back does not let the same time be spent twice.
        let at = self.last.at.max(now);
        self.last = Told { what, at };
        (self.before, self.began) = (self.last, at);
    }

    /// What limits count from at `now`, and for how long, s.
    pub(super) fn from(&self, now: Time) -> (T, f64) {
        let Told { what, at } = if self.is_same(now) { self.before } else { self.last };
        (what, elapsed(now.max(self.last.at), at))
    }

    /// What it was told last.
    pub(super) const fn last(&self) -> T {
        self.last.what
    }

    /// It is told this, which the limits let it come to [from there](Self::from).
    pub(super) fn tell(&mut self, now: Time, what: T) {
        if !self.is_same(now) {
            (self.before, self.began) = (self.last, now);
        }
        self.last = Told { what, at: self.last.at.max(now) };
    }

    fn is_same(&self, now: Time) -> bool {
        now.saturating_since(self.began) < MOMENT
    }
}
