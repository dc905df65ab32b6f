//! What happens so often, on average, in steps of another period.

use taut_core::Duration;

#[derive(Clone, Debug)]
pub(crate) struct Pace {
    /// `None`: never.
    every: Option<Duration>,
    /// Of that, so much has passed.
    passed: Duration,
}

impl Pace {
    /// It is due at once.
    pub(crate) fn new(every: Option<Duration>) -> Self {
        Self { every, passed: every.unwrap_or_default() }
    }

    /// So many times a second; 0: never.
    pub(crate) fn per_second(rate: u32) -> Self {
        Self::new((rate > 0).then(|| Duration::from_nanos(1_000_000_000 / u64::from(rate))))
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.passed += time;
    }

    /// Is it due? Then it is done. What is over counts for the next, but it does not pile up.
    pub(crate) fn take(&mut self) -> bool {
        let Some(every) = self.every.filter(|every| self.passed >= *every) else { return false };
        self.passed = (self.passed - every).min(every);
        true
    }
}
