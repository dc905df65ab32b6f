//! How much energy an end may give.

use crate::Message;

/// What came into the channel at the other end, as far as known, less what was given here; and what was put in here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reserve {
    /// J, to begin with.
    initial: f64,
    /// J, below 0 where more is owed than there is, and no more than twice what it began with: what piled up in quiet times would hide an oscillation later.
    left: f64,
    /// The most that the other end said it put in, J; none since the books began.
    told: Option<f64>,
    /// Put in here, J.
    put_in: f64,
}

impl Reserve {
    /// So many joules to begin with.
    pub(crate) const fn new(initial: f64) -> Self {
        Self { initial, left: initial, told: None, put_in: 0.0 }
    }

    /// The books begin anew: what the other end says next is where its account begins. An end that was started again counts from 0.
    pub(crate) const fn begin_again(&mut self) {
        (self.left, self.told) = (self.initial, None);
    }

    /// The other end says what it put in. Is the message at least as new as all before it?
    pub(crate) fn is_told(&mut self, message: &Message) -> bool {
        let told = self.told.unwrap_or(message.energy);
        let is_new = message.energy >= told;
        if is_new {
            self.left = (self.left + message.energy - told).min(2.0 * self.initial);
            self.told = Some(message.energy);
        }
        is_new
    }

    /// J; 0 where more is owed than there is.
    pub(crate) const fn left(&self) -> f64 {
        self.left.max(0.0)
    }

    /// So many joules more were given, or fewer put in, than was booked; of fewer than 0, none. They may be more than are left.
    pub(crate) const fn owe(&mut self, joules: f64) {
        self.left -= joules.max(0.0);
    }

    /// J, so far.
    pub(crate) const fn put_in(&self) -> f64 {
        self.put_in
    }

    /// So many joules are given, no more than are [left](Self::left) but for rounding; of fewer than 0, none.
    pub(crate) const fn give(&mut self, joules: f64) {
        self.left -= joules.max(0.0);
    }

    /// So many joules are put in; of fewer than 0, none.
    pub(crate) const fn put(&mut self, joules: f64) {
        self.put_in += joules.max(0.0);
    }
}
