//! How long an answer may wait, in seven bits.

use taut_core::Duration;

/// How long the answer to a message may wait for others: zero, or 9 µs to 0.49 s in steps of an eighth and finer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hold(u8);

/// Bits of the mantissa, beside its leading one, which is not written.
const MANTISSA: u32 = 3;
const ONE: u64 = 1 << MANTISSA;

impl Hold {
    /// It is answered at once.
    pub const NONE: Self = Self(0);
    /// The longest there is.
    pub const MAX: Self = Self(0x7f);

    /// The shortest that is at least this long; none for less than 8 µs, and the longest for more than that.
    pub fn at_least(duration: Duration) -> Self {
        let us = duration.as_nanos().div_ceil(1_000);
        if duration.as_nanos() < ONE * 1_000 {
            return Self::NONE;
        }
        let exponent = us.ilog2() - MANTISSA;
        // Rounded up, it may be one beyond the greatest mantissa: then carrying into the exponent is what the sum does.
        let mantissa = us.div_ceil(1 << exponent) - ONE;
        let code = (u64::from(exponent) << MANTISSA) + mantissa;
        Self(code.clamp(1, Self::MAX.0.into()) as u8)
    }

    /// So long.
    pub const fn duration(self) -> Duration {
        let (exponent, mantissa) = (self.0 >> MANTISSA, self.0 as u64 % ONE);
        match self.0 {
            0 => Duration::ZERO,
            _ => Duration::from_micros((ONE + mantissa) << exponent),
        }
    }

    pub(super) const fn from_bits(bits: u8) -> Self {
        Self(bits & Self::MAX.0)
    }

    pub(super) const fn bits(self) -> u8 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_is_longer_than_the_one_before_and_stands_for_itself() {
        let mut shorter = Duration::ZERO;
        for code in 1..=0x7f {
            let hold = Hold::from_bits(code);
            assert!(hold.duration() > shorter, "{code}");
            assert_eq!(Hold::at_least(hold.duration()), hold);
            shorter = hold.duration();
        }
        assert_eq!((Hold::from_bits(1).duration(), shorter), (us(9), us(15 << 15)));
    }

    #[test]
    fn a_duration_is_rounded_up_by_an_eighth_at_most() {
        for ns in (0..24).flat_map(|bits| [(9_000 << bits) - 1, 9_001 << bits, 12_345 << bits]) {
            let asked = Duration::from_nanos(ns).min(Hold::MAX.duration());
            let given = Hold::at_least(asked).duration();
            assert!(given >= asked && given <= asked + asked / 8 + us(1), "{asked} {given}");
        }
        assert_eq!(Hold::at_least(Duration::from_nanos(7_999)), Hold::NONE);
        assert_eq!(Hold::at_least(Duration::MAX), Hold::MAX);
    }

    fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }
}
