//! What the published protocol remembers of a path, and how it ranks one (Rico, Luque-Schempp, Merino, and their evaluation material).

use taut_core::Duration;

/// The published protocol's memory of a path.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Memory {
    latency: Option<Duration>,
    /// Since the beginning.
    sent: u64,
    answered: u64,
    /// So many messages had been sent when one last went here.
    pub(super) used: u64,
}

impl Memory {
    pub(super) fn sent(&mut self) {
        self.sent += 1;
    }

    pub(super) fn answered(&mut self) {
        self.answered += 1;
    }

    /// The peer tells how long a packet took: half of the latency is the newest one.
    pub(super) fn took(&mut self, one_way: Duration) {
        self.latency = Some(self.latency.map_or(one_way, |old| (old + one_way) / 2));
    }

    pub(super) fn rank(&self, latency_weight: f64) -> f64 {
        // The ratio that never forgets.
        let reliability = if self.sent == 0 { 0.0 } else { self.answered as f64 / self.sent as f64 };
        rank(latency_weight, self.latency, reliability)
    }
}

/// 0 to 1: LW·clip((20 ms − latency)/19.9 ms) + (1 − LW)·clip((reliability − 0.5)/0.49).
pub(super) fn rank(latency_weight: f64, latency: Option<Duration>, reliability: f64) -> f64 {
    let latency = latency.map_or(20.0, |latency| latency.as_millis_f64());
    let clip = |value: f64| value.clamp(0.0, 1.0);
    latency_weight * clip((20.0 - latency) / 19.9) + (1.0 - latency_weight) * clip((reliability - 0.5) / 0.49)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn the_rank_is_that_of_the_source() {
        assert!((rank(0.0, Some(ms(5)), 0.99) - 1.0).abs() < 1e-9 && rank(0.0, Some(ms(5)), 0.5) == 0.0);
        assert!((rank(1.0, Some(Duration::from_micros(100)), 0.0) - 1.0).abs() < 1e-9);
        assert!(rank(1.0, None, 0.0) == 0.0, "of a path of which nothing is known the latency is 20 ms");
    }

    #[test]
    fn latency_is_the_mean_of_what_it_was_and_the_newest_and_reliability_never_forgets() {
        let mut memory = Memory::default();
        [4, 8, 2].into_iter().for_each(|took| memory.took(ms(took)));
        assert_eq!(memory.latency, Some(ms(4)));
        (0..100).for_each(|_| memory.sent());
        (0..75).for_each(|_| memory.answered());
        assert!((memory.rank(0.0) - 0.25 / 0.49).abs() < 1e-9);
    }
}
