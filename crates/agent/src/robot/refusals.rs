//! What strangers send, summed up.

use std::collections::BTreeMap;

use taut_core::{DropCause, Duration, Time};

/// How often what was refused is told.
const EVERY: Duration = Duration::from_secs(1);

/// Counts what is refused, and tells it once a second: whoever sends it must not choose how much is written down.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    counts: BTreeMap<DropCause, u64>,
    not_before: Time,
}

impl Refusals {
    pub(super) fn count(&mut self, cause: DropCause) {
        *self.counts.entry(cause).or_default() += 1;
    }

    /// The next cause and how often, when it is time. Those of one second come one after the other.
    pub(super) fn poll(&mut self, now: Time) -> Option<(DropCause, u64)> {
        if now < self.not_before {
            return None;
        }
        let told = self.counts.pop_first();
        if self.counts.is_empty() && told.is_some() {
            self.not_before = now + EVERY;
        }
        told
    }

    /// When to ask next.
    pub(super) fn due(&self) -> Option<Time> {
        (!self.counts.is_empty()).then_some(self.not_before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_told_at_once_and_the_others_once_a_second_by_cause() {
        let (mut refusals, mut told) = (Refusals::default(), Vec::new());
        for ms in 0..2_500 {
            let now = Time::ZERO + Duration::from_millis(ms);
            refusals.count(DropCause::Unauthenticated);
            if ms % 2 == 1 {
                refusals.count(DropCause::Replayed);
            }
            told.extend(std::iter::from_fn(|| refusals.poll(now)).map(|(cause, count)| (ms, cause, count)));
        }
        let expected = [
            (0, DropCause::Unauthenticated, 1),
            (1_000, DropCause::Unauthenticated, 1_000),
            (1_000, DropCause::Replayed, 500),
            (2_000, DropCause::Unauthenticated, 1_000),
            (2_000, DropCause::Replayed, 500),
        ];
        told.sort();
        let mut expected = expected.to_vec();
        expected.sort();
        assert_eq!(told, expected);
        assert_eq!(refusals.due(), Some(Time::ZERO + Duration::from_secs(3)));
    }
}
