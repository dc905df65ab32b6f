//! How often something may happen.

use crate::{Duration, Time};

/// A leaky bucket as a meter (the virtual scheduling algorithm of ITU-T I.371): in the long run one event every `interval`,
/// and `burst` at once after a silence.
///
/// ```
/// use taut_core::{Duration, LeakyBucket, Time};
///
/// let mut bucket = LeakyBucket::new(Duration::from_millis(50), 2);
/// let now = Time::ZERO + Duration::from_secs(1);
/// assert!(bucket.take(now) && bucket.take(now) && !bucket.take(now));
/// assert!(bucket.take(now + Duration::from_millis(50)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeakyBucket {
    interval: Duration,
    burst: u64,
    empty_at: Time,
}

impl LeakyBucket {
    /// An empty one.
    pub const fn new(interval: Duration, burst: u64) -> Self {
        Self { interval, burst, empty_at: Time::ZERO }
    }

    /// May it happen now? Then it counts.
    pub fn take(&mut self, now: Time) -> bool {
        let empty_at = self.empty_at.max(now) + self.interval;
        let may = empty_at <= now + self.interval * self.burst;
        if may {
            self.empty_at = empty_at;
        }
        may
    }

    /// When the whole burst may happen again.
    pub const fn empty_at(&self) -> Time {
        self.empty_at
    }
}
