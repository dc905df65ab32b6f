//! When acknowledgements stay away.

use taut_core::{Duration, Time};

/// What goes while the network stands still waits in it, and everything after that behind it: on a path that carries little more than
/// what is made, for seconds. So when nothing is heard for longer than ever lately, states go seldom until something is.
#[derive(Debug, Default)]
pub(super) struct Quiet {
    heard: Option<Time>,
    /// The longest time between two acknowledgements, in the present span and in the one before.
    longest: [Duration; 2],
    began: Time,
}

/// As often as this a state goes all the same: a robot that nobody tells anything stops, and one that is told so hardly lags.
pub(super) const SELDOM: Duration = Duration::from_millis(10);
/// Times the longest gap of this span and the one before, and at least so long: an acknowledgement waits 2 to 5 ms to travel along, and host and
/// radio may each be late by some.
const LONGER: (u64, u64) = (5, 4);
const LEAST: Duration = Duration::from_millis(15);
const SPAN: Duration = Duration::from_secs(2);

impl Quiet {
    /// A frame goes while so many bytes are under way; one that is alone there has no acknowledgement to expect before a round trip.
    pub(super) fn sent(&mut self, now: Time, alone: bool, rtt: Option<Duration>) {
        if alone {
            self.heard = rtt.map(|rtt| now + rtt);
        }
    }

    pub(super) fn heard(&mut self, now: Time) {
        let gap = self.heard.map_or(Duration::ZERO, |heard| now.saturating_since(heard));
        if now.saturating_since(self.began) >= SPAN {
            self.longest = [Duration::ZERO, self.longest[0]];
            self.began = now;
        }
        self.longest[0] = self.longest[0].max(gap);
        self.heard = Some(now);
    }

    /// From when on it is too quiet.
    pub(super) fn since(&self) -> Time {
        let longest = self.longest[0].max(self.longest[1]).saturating_mul(LONGER.0) / LONGER.1;
        self.heard.map_or(Time::MAX, |heard| heard + longest.max(LEAST))
    }
}
