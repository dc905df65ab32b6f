//! Zero-order hold: what a receiver acts on between samples.

use taut_core::{Duration, Time};

/// Holds the newest sample, and knows when the sender has been silent for too long.
///
/// A deadband sampler breaks its own silence every keep-alive period, so a silence beyond some of these means loss, not
/// a hand at rest.
#[derive(Clone, Debug)]
pub struct Hold<T> {
    held: Option<Held<T>>,
    silence: Duration,
}

#[derive(Clone, Debug)]
struct Held<T> {
    sequence: u64,
    arrived: Time,
    value: T,
}

impl<T> Hold<T> {
    /// Holds nothing yet. `silence`: how long without a sample is too long; a little more than twice the sender's
    /// keep-alive period lets one be lost.
    pub const fn new(silence: Duration) -> Self {
        Self { held: None, silence }
    }

    /// A sample arrived. False when a newer one is held already: newest wins, whatever the order of arrival.
    pub fn update(&mut self, now: Time, sequence: u64, value: T) -> bool {
        let newer = self.held.as_ref().is_none_or(|held| sequence > held.sequence);
        if newer {
            self.held = Some(Held { sequence, arrived: now, value });
        }
        newer
    }

    /// The newest sample.
    pub fn value(&self) -> Option<&T> {
        self.held.as_ref().map(|held| &held.value)
    }

    /// How long it has been held.
    pub fn held_for(&self, now: Time) -> Option<Duration> {
        self.held.as_ref().map(|held| now.saturating_since(held.arrived))
    }

    /// Has nothing come for too long? True as long as nothing ever came.
    pub fn is_silent(&self, now: Time) -> bool {
        self.held_for(now).is_none_or(|held| held > self.silence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_sample_is_held_whatever_the_order() {
        let mut hold = Hold::new(Duration::from_millis(250));
        let at = |millis| Time::ZERO + Duration::from_millis(millis);
        assert!(hold.is_silent(at(0)));
        assert!(hold.update(at(0), 5, 'b'));
        assert!(!hold.update(at(1), 4, 'a'));
        assert_eq!(hold.value(), Some(&'b'));
        assert_eq!(hold.held_for(at(250)), Some(Duration::from_millis(250)));
        assert!(!hold.is_silent(at(250)) && hold.is_silent(at(251)));
    }
}
