//! One seed, a named stream of randomness for every component.

use std::hash::Hasher;

use rand_core::{Rng as _, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use siphasher::sip::SipHasher24;

use crate::Duration;

/// The one number from which all randomness of a run comes.
///
/// Each component takes the stream of its own name, so that adding one part does not shift another:
///
/// ```
/// use taut_core::Seed;
/// let seed = Seed::new(7);
/// let (mut a, mut b) = (seed.stream("uplink/loss"), seed.stream("uplink/loss"));
/// assert_eq!(a.next_u64(), b.next_u64());
/// assert_ne!(a.next_u64(), seed.stream("uplink/jitter").next_u64());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(u64);

impl Seed {
    /// The seed with this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The stream of the component called `name`: xoshiro256++, its state the SipHash-2-4 of the name under the seed.
    pub fn stream(self, name: &str) -> Rng {
        let mut state = [0; 32];
        for (lane, bytes) in state.chunks_exact_mut(8).enumerate() {
            let mut hasher = SipHasher24::new_with_keys(self.0, lane as u64);
            hasher.write(name.as_bytes());
            bytes.copy_from_slice(&hasher.finish().to_le_bytes());
        }
        Rng(Xoshiro256PlusPlus::from_seed(state))
    }

    /// One of 2⁶⁴ short streams by its number, for what cannot be drawn one after another: xoshiro256++, its state four
    /// numbers of SplitMix64 from the seed plus `number`.
    pub fn numbered(self, number: u64) -> Rng {
        Rng(Xoshiro256PlusPlus::seed_from_u64(self.0.wrapping_add(number)))
    }
}

/// A stream of random numbers that is the same on every machine: integer arithmetic and `libm`, never the system's
/// mathematics library.
#[derive(Clone, Debug)]
pub struct Rng(Xoshiro256PlusPlus);

impl Rng {
    /// All 64 bits random.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in [0, `bound`), by multiplication (bias below `bound`/2⁶⁴). `bound` 0 gives 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Uniform in [0, 1), 53 bits.
    pub fn fraction(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Exponential with mean 1, by inversion.
    pub fn exponential(&mut self) -> f64 {
        -libm::log1p(-self.fraction())
    }

    /// Exponential with the given mean.
    pub fn exponential_duration(&mut self, mean: Duration) -> Duration {
        Duration::from_secs_f64(self.exponential() * mean.as_secs_f64())
    }

    /// Standard normal, Box–Muller, one value for two draws.
    pub fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(2.0 * self.exponential());
        radius * libm::cos(2.0 * std::f64::consts::PI * self.fraction())
    }

    /// Pareto with scale 1 and the given shape (> 0), by inversion: values from 1 up.
    pub fn pareto(&mut self, shape: f64) -> f64 {
        libm::exp(self.exponential() / shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_pinned_for_ever() {
        let mut rng = Seed::new(7).stream("uplink/loss");
        let drawn = [rng.next_u64(), rng.next_u64(), rng.next_u64()];
        assert_eq!(drawn, GOLDEN, "changing this changes every published result");
    }

    const GOLDEN: [u64; 3] = [3009816562948286508, 9863043550138635765, 14675711772056343976];

    #[test]
    fn numbered_streams_do_not_resemble_their_neighbours() {
        let (seed, n) = (Seed::new(11), 100_000);
        let first = |number| seed.numbered(number).fraction() - 0.5;
        let mean = |of: &dyn Fn(u64) -> f64| (0..n).map(of).sum::<f64>() / n as f64;
        assert!(mean(&first).abs() < 0.005);
        for distance in [1, 2, 64] {
            // A twelfth is the variance.
            let correlation = 12.0 * mean(&|number| first(number) * first(number + distance));
            assert!(correlation.abs() < 0.015, "{distance}: {correlation}");
        }
        let (mut a, mut b) = (seed.numbered(5), seed.numbered(5));
        assert_eq!([a.next_u64(), a.next_u64()], [b.next_u64(), b.next_u64()]);
    }

    #[test]
    fn distributions_have_their_moments() {
        let mut rng = Seed::new(1).stream("moments");
        let n = 200_000;
        let mean = |draws: &mut dyn FnMut() -> f64| (0..n).map(|_| draws()).sum::<f64>() / f64::from(n);
        assert!((mean(&mut || rng.fraction()) - 0.5).abs() < 0.005);
        assert!((mean(&mut || rng.exponential()) - 1.0).abs() < 0.01);
        assert!(mean(&mut || rng.normal()).abs() < 0.01);
        assert!((mean(&mut || libm::pow(rng.normal(), 2.0)) - 1.0).abs() < 0.02);
        assert!((mean(&mut || rng.pareto(3.0)) - 1.5).abs() < 0.02);
    }

    #[test]
    fn below_stays_below() {
        let mut rng = Seed::new(2).stream("below");
        assert!((0..1000).all(|_| rng.below(3) < 3));
        assert_eq!(rng.below(0), 0);
    }
}
