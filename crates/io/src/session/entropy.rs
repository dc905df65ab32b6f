//! Randomness of the operating system, for what is real.

use getrandom::SysRng;
use rand_core::{Rng, UnwrapErr};
use taut_core::Seed;
use taut_transport::entropy::Entropy;
use taut_transport::identity::Identity;
use taut_transport::stack::{Part, Randomness};

/// Secret randomness of the operating system.
///
/// # Panics
/// Drawing from it panics where the system has none (getrandom(2) fails).
pub fn os_entropy() -> Entropy {
    Entropy::new(UnwrapErr(SysRng))
}

/// A new identity.
///
/// # Panics
/// As [`os_entropy`].
pub fn os_identity() -> Identity {
    Identity::generate(&mut UnwrapErr(SysRng))
}

/// A seed that nobody can guess, for numbers that need not be secret: of sessions and epochs.
///
/// # Panics
/// As [`os_entropy`].
pub fn os_seed() -> Seed {
    Seed::new(UnwrapErr(SysRng).next_u64())
}

/// That of the operating system, for a stack.
pub(super) struct OsRandomness;

impl Randomness for OsRandomness {
    fn entropy(&mut self, _: Part) -> Entropy {
        os_entropy()
    }
    fn rng(&mut self, part: Part) -> taut_core::Rng {
        os_seed().stream(part.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_identities_are_the_same() {
        assert_ne!(os_identity().fingerprint(), os_identity().fingerprint());
        assert_ne!(os_seed(), os_seed());
    }
}
