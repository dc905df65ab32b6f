//! How much energy an end may give.

use crate::Message;

/// What came into the channel at the other end, as far as known, less what was given here; and what was put in here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reserve {
    /// J, at least 0.
    left: f64,
    /// More than so much, J, is let go: what piled up in quiet times would hide an oscillation later.
    most: f64,
    /// The most that the other end said it put in, J.
    told: f64,
    /// Put in here, J.
    put_in: f64,
}

impl Reserve {
    /// So many joules to begin with.
    pub(crate) const fn new(initial: f64) -> Self {
        Self { left: initial, most: 2.0 * initial, told: 0.0, put_in: 0.0 }
    }

    /// The other end says what it put in. Is the message at least as new as all before it?
    pub(crate) fn is_told(&mut self, message: &Message) -> bool {
        let is_new = message.energy >= self.told;
        if is_new {
            self.left = (self.left + message.energy - self.told).min(self.most);
            self.told = message.energy;
        }
        is_new
    }

    /// J.
    pub(crate) const fn left(&self) -> f64 {
        self.left
    }

    /// J, so far.
    pub(crate) const fn put_in(&self) -> f64 {
        self.put_in
    }

    /// So many joules are given, no more than are [left](Self::left) but for rounding; of fewer than 0, none.
    pub(crate) const fn give(&mut self, joules: f64) {
        self.left = (self.left - joules.max(0.0)).max(0.0);
    }

    /// So many joules are put in; of fewer than 0, none.
    pub(crate) const fn put(&mut self, joules: f64) {
        self.put_in += joules.max(0.0);
    }
}
