//! Where numbers come from that nobody may guess.

use std::fmt;

use rand_core::CryptoRng;
use taut_core::Seed;
use zeroize::Zeroizing;

/// A source of secret randomness: ephemeral keys, session indices, verification tags.
///
/// A transport takes one in its constructor and draws nothing from anywhere else.
pub struct Entropy(Box<Fill>);

type Fill = dyn FnMut(&mut [u8]) + Send;

impl Entropy {
    /// From a cryptographic generator, which the caller takes from the operating system.
    pub fn new(mut rng: impl CryptoRng + Send + 'static) -> Self {
        Self(Box::new(move |bytes| rng.fill_bytes(bytes)))
    }

    /// The stream of the component called `name` under `seed`. **Guessable by anybody**: for the lab and for tests only.
    pub fn seeded(seed: Seed, name: &str) -> Self {
        let mut rng = seed.stream(name);
        Self(Box::new(move |bytes| {
            for chunk in bytes.chunks_mut(8) {
                chunk.copy_from_slice(&rng.next_u64().to_le_bytes()[..chunk.len()]);
            }
        }))
    }

    /// 32 bytes, as for a key.
    pub(crate) fn key(&mut self) -> Zeroizing<[u8; 32]> {
        let mut bytes = Zeroizing::new([0; 32]);
        (self.0)(&mut bytes[..]);
        bytes
    }

    /// 64 bits.
    pub(crate) fn next_u64(&mut self) -> u64 {
        let mut bytes = [0; 8];
        (self.0)(&mut bytes);
        u64::from_le_bytes(bytes)
    }
}

impl fmt::Debug for Entropy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Entropy")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_and_a_name_give_one_stream() {
        let key = |seed, name| Entropy::seeded(Seed::new(seed), name).key();
        assert_eq!(key(1, "a"), key(1, "a"));
        assert_ne!(key(1, "a"), key(1, "b"));
        assert_ne!(key(1, "a"), key(2, "a"));
    }
}
