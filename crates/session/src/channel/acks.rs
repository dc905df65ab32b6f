//! Which of the peer's frames arrived, and when it is told: with a frame that goes anyway, or alone.

use taut_core::{Duration, Time};
use taut_wire::session::DataAck;

use super::COUNTED;
use super::incoming::unwrapped;
use crate::window::Window;

/// How long a frame waits at most until it is told that it arrived, and how many of them do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    pub(super) delay: Duration,
    pub(super) frames: u32,
}

/// Of frames that are repeated.
pub(super) const PROMPT: Patience = Patience { delay: Duration::from_millis(2), frames: 8 };
/// Where nothing is repeated, and only what the path carries is to be known: congestion control looks at rounds of 20 ms and more. One
/// acknowledgement tells of 65 frames, so that the next makes up for a lost one.
pub(super) const LAZY: Patience = Patience { delay: Duration::from_millis(20), frames: 32 };

/// Which of the peer's frames arrived, to be told.
///
/// An acknowledgement costs 13 B in a frame that goes anyway, and a packet of its own alone. So from half of its time on it travels with
/// what goes, and alone where nothing went until the end of it.
#[derive(Debug, Default)]
pub(super) struct Received {
    window: Window,
    largest: u64,
    /// When that came.
    came: Time,
    /// Frames that were not told of.
    untold: u32,
    /// From when on they travel with others, and when they go alone.
    rides: Option<Time>,
    due: Option<Time>,
}

impl Received {
    /// Did it not come before?
    pub(super) fn is_new(&self, number: u32) -> bool {
        self.window.is_new(unwrapped(self.largest, number))
    }

    /// A frame came that is to be told of, so soon; at once, if the peer seems not to know of it.
    pub(super) fn record(&mut self, now: Time, number: u32, patience: Patience, at_once: bool) {
        let number = unwrapped(self.largest, number);
        if number > self.largest {
            (self.largest, self.came) = (number, now);
        }
        self.window.record(number);
        self.untold += 1;
        let Patience { delay, frames } = patience;
        let wait = |frames: u32, delay| if self.untold >= frames || at_once { now } else { now + delay };
        let (rides, due) = (wait(frames / 2, delay / 2), wait(frames, delay));
        self.rides = Some(self.rides.map_or(rides, |known| known.min(rides)));
        self.due = Some(self.due.map_or(due, |known| known.min(due)));
    }

    /// What told of them was lost on its way out.
    pub(super) fn tell_again(&mut self, now: Time) {
        self.rides = Some(now);
        self.due.get_or_insert(now + PROMPT.delay);
    }

    /// When it goes alone.
    pub(super) fn due(&self) -> Option<Time> {
        self.due
    }

    /// What a frame that goes now takes along, if that is time: the highest and when it came, and a bit for each before it.
    pub(super) fn rides(&self, now: Time) -> Option<DataAck> {
        self.rides.filter(|rides| now >= *rides).map(|_| DataAck {
            largest: (self.largest % COUNTED) as u32,
            seen: self.window.before(self.largest),
            held_us: now.saturating_since(self.came).as_micros_u32().min(u16::MAX.into()) as u16,
        })
    }

    /// That has gone.
    pub(super) fn told(&mut self) {
        (self.untold, self.rides, self.due) = (0, None, None);
    }
}
