//! A network that does to messages whatever one can.

use taut_control::{Message, Place};
use taut_core::{Duration, Rng, Time};

/// What was said, and when.
pub(crate) type Made<P> = (Time, Message<P>);

pub(crate) fn at(period: u64) -> Time {
    Time::ZERO + Duration::from_millis(1) * period
}

/// How it is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Line {
    /// It loses a fifth, repeats a tenth, delays each by itself by up to 60 periods and is cut for up to half a second.
    Bad,
    /// So many periods, and nothing is lost.
    Even(u64),
}

pub(crate) struct Network<P> {
    rng: Rng,
    line: Line,
    under_way: Vec<(u64, Made<P>)>,
    cut_until: u64,
}

impl<P: Place> Network<P> {
    pub(crate) fn new(rng: Rng, line: Line) -> Self {
        Self { rng, line, under_way: Vec::new(), cut_until: 0 }
    }

    pub(crate) fn send(&mut self, now: u64, message: Message<P>) {
        if let Line::Even(delay) = self.line {
            self.under_way.push((now + delay, (at(now), message)));
            return;
        }
        if self.rng.below(2_000) == 0 {
            self.cut_until = now + self.rng.below(500);
        }
        let copies = match self.rng.below(10) {
            _ if now < self.cut_until => 0,
            0 | 1 => 0,
            2 => 2,
            _ => 1,
        };
        for _ in 0..copies {
            self.under_way.push((now + self.rng.below(60), (at(now), message)));
        }
    }

    pub(crate) fn arrived(&mut self, now: u64) -> Vec<Made<P>> {
        let (due, left) = self.under_way.iter().partition(|(at, _)| *at <= now);
        self.under_way = left;
        due.into_iter().map(|(_, message)| message).collect()
    }

    pub(crate) fn clear(&mut self) {
        self.under_way.clear();
    }
}
