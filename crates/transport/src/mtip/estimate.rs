//! What a path did lately: how long its packets took, and how many did not arrive.

use std::collections::VecDeque;

use taut_core::Duration;

/// Delays that are remembered.
const SAMPLES: usize = 256;
/// The tail beyond the longest delay seen is no thinner than one that falls by e in so much.
const LEAST_TAIL_NS: f64 = 50_000.0;

/// The distribution of a delay: the last samples, and an exponential tail beyond the longest of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Delays {
    ring: VecDeque<u64>,
    sorted: Vec<u64>,
}

impl Delays {
    pub(super) fn record(&mut self, delay: Duration) {
        let ns = delay.as_nanos();
        if self.ring.len() == SAMPLES {
            let oldest = self.ring.pop_front().expect("it is full");
            let at = self.sorted.binary_search(&oldest).expect("what is in the ring is in the order");
            self.sorted.remove(at);
        }
        self.ring.push_back(ns);
        let at = self.sorted.partition_point(|other| *other < ns);
        self.sorted.insert(at, ns);
    }

    pub(super) fn count(&self) -> usize {
        self.ring.len()
    }

    /// The delay that this share of the packets did not exceed, by nearest rank.
    pub(super) fn quantile(&self, share: f64) -> Option<Duration> {
        let last = self.sorted.len().checked_sub(1)?;
        Some(Duration::from_nanos(self.sorted[(share * last as f64 + 0.5) as usize]))
    }

    /// The probability that a packet takes at most `budget`, of those that arrive.
    pub(super) fn within(&self, budget: Duration) -> f64 {
        let (n, ns) = (self.sorted.len(), budget.as_nanos());
        let Some(longest) = self.sorted.last().copied() else { return 0.5 };
        if ns < longest {
            let longer = n - self.sorted.partition_point(|delay| *delay <= ns);
            if longer == n {
                return 0.0;
            }
            // One that took longer is no pattern yet.
            let longer = longer as f64;
            return (1.0 - (longer - ONCE) / n as f64).min(n as f64 / (n + 1) as f64);
        }
        // An exponential tail through the median and the longest: of n samples, that is where ln(n) e-folds are spent.
        let median = self.sorted[n / 2];
        let fold = ((longest - median) as f64 / libm::log(n as f64 + 1.0)).max(LEAST_TAIL_NS);
        let beyond = libm::exp(-((ns - longest) as f64) / fold) / (n + 1) as f64;
        1.0 - beyond
    }
}

/// So much of what happened among the last samples is put down to chance: what happened once is no pattern.
const ONCE: f64 = 0.65;

/// How soon packets that arrived are answered, and how many are not.
#[derive(Clone, Debug)]
pub(super) struct Answers {
    /// From when a packet left to its answer.
    pub(super) delays: Delays,
    /// The shortest of them, with what the answers waited for others.
    min_rtt: Duration,
    missing: f64,
    seen: u32,
}

/// What one packet weighs in the share of missing answers.
const ANSWER_WEIGHT: f64 = 1.0 / 32.0;

impl Default for Answers {
    /// Before any is known: 1 % is missing.
    fn default() -> Self {
        Self { delays: Delays::default(), min_rtt: Duration::MAX, missing: 0.01, seen: 0 }
    }
}

impl Answers {
    /// An answer that says that it was held for so long came so long after what it answers left: so much of that is the path's. What was held
    /// counts as far as it leaves no less than the shortest round trip, which leaves nothing out (RFC 9002 sections 5.2 and 5.3): a peer whose
    /// clock is wrong makes no path shorter than it is.
    pub(super) fn sample(&mut self, took: Duration, held: Duration) -> Duration {
        self.min_rtt = self.min_rtt.min(took);
        let sample = if took >= self.min_rtt + held { took - held } else { took };
        self.delays.record(sample);
        self.record(false);
        sample
    }

    /// A packet arrived, as is known by its answer or in another way: was its own answer missing?
    pub(super) fn record(&mut self, missing: bool) {
        self.seen = self.seen.saturating_add(1);
        let weight = ANSWER_WEIGHT.max(1.0 / f64::from(self.seen.saturating_add(1)));
        self.missing += weight * (f64::from(u8::from(missing)) - self.missing);
    }

    /// Of the packets that arrived, the share that is never answered.
    pub(super) fn missing(&self) -> f64 {
        self.missing
    }

    /// Of the packets that arrived, the share that is answered so soon.
    pub(super) fn within(&self, time: Duration) -> f64 {
        (1.0 - self.missing) * self.delays.within(time)
    }
}

/// What one outcome weighs in a share: the last 256 packets or so count.
const WEIGHT: f64 = 1.0 / 256.0;
/// How likely it is, before anything is heard, that a path died.
pub(super) const DEATH: f64 = 1e-4;

/// The share of packets that were lost, and whether losses come in runs: outcomes are forgotten exponentially.
#[derive(Clone, Copy, Debug)]
pub(super) struct Losses {
    share: f64,
    /// Of the packets after a lost one, how many were lost too.
    again: f64,
    /// How many of the newest in a row were lost.
    pub(super) run: u32,
    /// Outcomes so far, up to those that count: the first ones outweigh what was assumed.
    seen: u32,
    /// Those of them that came after a lost one.
    followed: u32,
}

impl Default for Losses {
    /// Of a path of which nothing is known: 1 % is lost, and after a loss half.
    fn default() -> Self {
        Self { share: 0.01, again: 0.5, run: 0, seen: 0, followed: 0 }
    }
}

impl Losses {
    /// `outcome`: how likely it is that a packet was lost, 0 or 1 where it is known.
    pub(super) fn record(&mut self, outcome: f64) {
        let lost = outcome > 0.5;
        if self.run > 0 && (lost || outcome <= 0.0) {
            // What was assumed counts as one of them.
            self.followed = self.followed.saturating_add(1);
            let weight = (4.0 * WEIGHT).max(1.0 / f64::from(self.followed.saturating_add(1)));
            self.again += weight * (outcome - self.again);
        }
        self.seen = self.seen.saturating_add(1);
        self.share += self.weight() * (outcome - self.share);
        self.run = match lost {
            true => self.run.saturating_add(1),
            false if outcome <= 0.0 => 0,
            false => self.run,
        };
    }

    /// What was said to be lost arrived after all.
    pub(super) fn take_back(&mut self, outcome: f64) {
        self.share = (self.share - outcome * self.weight()).max(0.0);
        self.run = 0;
    }

    /// What is lost, as far as is known: what was lost once is no pattern yet.
    fn likely(&self) -> f64 {
        (self.share - ONCE * WEIGHT).max(self.share / 4.0)
    }

    /// What one of the outcomes weighs: at first they are averaged, with what was assumed.
    fn weight(&self) -> f64 {
        WEIGHT.max(1.0 / f64::from(self.seen.saturating_add(1)))
    }

    /// The share that is lost, in the long run.
    pub(super) fn share(&self) -> f64 {
        self.share
    }

    /// The probability that the next packet is lost, if one more than is known was.
    pub(super) fn after_one(mut self) -> f64 {
        self.record(1.0);
        self.next()
    }

    /// The probability that the next packet is lost, of a path that is not dead.
    pub(super) fn next(&self) -> f64 {
        if self.run == 0 { self.likely() } else { self.again.max(self.likely()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn old_delays_are_forgotten() {
        let mut delays = Delays::default();
        assert!(delays.quantile(0.5).is_none());
        (0..SAMPLES).for_each(|_| delays.record(ms(50)));
        (0..SAMPLES).for_each(|_| delays.record(ms(5)));
        assert_eq!(delays.quantile(1.0), Some(ms(5)));
        assert!(delays.within(ms(4)) == 0.0 && delays.within(ms(6)) > 0.999);
    }

    #[test]
    fn what_an_answer_says_that_it_was_held_leaves_no_less_than_the_shortest_round_trip() {
        let mut answers = Answers::default();
        assert_eq!(answers.sample(ms(10), ms(8)), ms(10), "the first is the shortest");
        assert_eq!(answers.sample(ms(14), ms(4)), ms(10));
        assert_eq!(answers.sample(ms(14), ms(5)), ms(14), "9 ms is less than any took");
        assert_eq!(answers.sample(ms(8), Duration::ZERO), ms(8), "the path became shorter");
        assert_eq!(answers.sample(ms(14), ms(5)), ms(9));
    }

    #[test]
    fn a_path_with_jitter_has_a_tail_and_one_without_has_none() {
        let (mut steady, mut wild) = (Delays::default(), Delays::default());
        for i in 0..SAMPLES as u64 {
            steady.record(ms(5));
            wild.record(Duration::from_micros(2_000 + 40 * i));
        }
        assert!(1.0 - steady.within(Duration::from_micros(5_500)) < 1e-6);
        let beyond = 1.0 - wild.within(ms(15));
        assert!(beyond > 1e-6 && beyond < 0.004, "{beyond}");
    }

    #[test]
    fn a_run_of_losses_takes_the_hope_and_one_arrival_gives_it_back() {
        let mut losses = Losses::default();
        (0..200).for_each(|_| losses.record(0.0));
        assert!(losses.next() < 0.001);
        let chances: Vec<f64> = (0..4)
            .map(|_| {
                losses.record(1.0);
                losses.next()
            })
            .collect();
        assert!(chances[0] >= 0.5 && chances.windows(2).all(|pair| pair[0] < pair[1]), "{chances:?}");
        losses.record(0.0);
        assert!(losses.next() < 0.1);
    }

    #[test]
    fn single_losses_teach_that_the_next_packet_arrives() {
        let mut losses = Losses::default();
        for i in 0..2_000 {
            losses.record(if i % 20 == 0 { 1.0 } else { 0.0 });
        }
        losses.record(1.0);
        assert!((losses.share - 0.05).abs() < 0.03 && losses.next() < 0.1, "{losses:?}");
    }

    proptest! {
        #[test]
        fn chances_are_chances(delays in prop::collection::vec(0u64..40_000, 0..600), budget in 0u64..60_000) {
            let mut all = Delays::default();
            delays.iter().for_each(|us| all.record(Duration::from_micros(*us)));
            let (less, more) = (Duration::from_micros(budget), Duration::from_micros(budget + 500));
            let (less, more) = (all.within(less), all.within(more));
            prop_assert!((0.0..=1.0).contains(&less) && less <= more);
            let newest = &delays[delays.len().saturating_sub(SAMPLES)..];
            let longest = newest.iter().max().map(|us| Duration::from_micros(*us));
            prop_assert_eq!(all.quantile(1.0), longest);
        }
    }
}
