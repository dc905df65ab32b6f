//! How much energy an end may give.

use crate::Message;
use crate::place::Place;

/// J: what rounding leaves, and so little to hold for a period that nobody feels it.
const LEAST: f64 = 1e-9;

/// What came into the channel at the other end, as far as known, less what was given here; and what was put in here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reserve {
    /// J, to begin with.
    initial: f64,
    /// J, without what came [ahead](Self::ahead); below 0 where more is owed than there is, and no more than twice what it began with: what piled up in quiet times would hide an oscillation later.
    left: f64,
    /// The most that the other end said it put in, J; none since the books began.
    told: Option<f64>,
    /// The same of the messages whose signals were [played](Self::is_played), J: what came ahead of these is no pile.
    played: f64,
    /// Put in here, J.
    put_in: f64,
    /// Messages and steps of which a number is not finite: they change nothing here.
    refused: u64,
}

impl Reserve {
    /// So many joules to begin with.
    pub(crate) const fn new(initial: f64) -> Self {
        Self { initial, left: initial, told: None, played: 0.0, put_in: 0.0, refused: 0 }
    }

    /// The books begin anew: what the other end says next is where its account begins. An end that was started again counts from 0. What is owed is
    /// taken from the reserve, as far as that goes.
    pub(crate) const fn begin_again(&mut self) {
        (self.left, self.told) = ((self.initial - self.owed()).max(0.0), None);
    }

    /// The other end says what it put in: that counts at once. False: a number is not finite, and it is [refused](Self::refused).
    pub(crate) fn tell<P: Place>(&mut self, message: &Message<P>) -> bool {
        if !message.is_finite() {
            self.refuse();
            return false;
        }
        let told = match self.told {
            Some(told) => told,
            None => {
                self.played = message.energy;
                message.energy
            }
        };
        self.told = Some(told.max(message.energy));
        true
    }

    /// A message or a step is refused, for a number is not finite.
    pub(crate) const fn refuse(&mut self) {
        self.refused += 1;
    }

    /// So many were.
    pub(crate) const fn refused(&self) -> u64 {
        self.refused
    }

    /// The signals of a message are played. Is it at least as new as all before it?
    pub(crate) fn is_played<P: Place>(&mut self, message: &Message<P>) -> bool {
        let is_new = self.tell(message) && message.energy >= self.played;
        if is_new {
            self.left = (self.left + message.energy - self.played).min(2.0 * self.initial);
            self.played = message.energy;
        }
        is_new
    }

    /// J; 0 where more is owed than there is.
    pub(crate) fn left(&self) -> f64 {
        (self.left + self.ahead()).max(0.0)
    }

    /// What is known of before its signals were played, J.
    const fn ahead(&self) -> f64 {
        match self.told {
            Some(told) => told - self.played,
            None => 0.0,
        }
    }

    /// So many joules came from nowhere, and are owed; of fewer than 0, as many were lost, which pays what is owed.
    pub(crate) const fn settle(&mut self, joules: f64) {
        self.owe(joules);
        self.left += (-joules).max(0.0).min(self.owed());
    }

    /// What a force may give while it is held, J, if something is owed: as much as is stored and one reserve more, less what is owed. It is never less than [`LEAST`], and what
    /// is owed beyond is forgiven: whoever makes no force is never given anything to pay with.
    pub(crate) fn may_hold(&mut self, stored: f64) -> Option<f64> {
        let owed = self.owed();
        let most = self.initial + stored - LEAST;
        self.left += (owed - most).max(0.0);
        (owed > 0.0).then(|| LEAST + (most - owed).max(0.0))
    }

    /// J; less than [`LEAST`] is none.
    const fn owed(&self) -> f64 {
        let owed = -(self.left + self.ahead());
        if owed > LEAST { owed } else { 0.0 }
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

    /// So many joules are put in; of fewer than 0, none. What is owed is paid of them first, and the other end told of the rest.
    pub(crate) const fn put(&mut self, joules: f64) {
        let paid = joules.max(0.0).min(self.owed());
        self.left += paid;
        self.put_in += joules.max(0.0) - paid;
    }
}
