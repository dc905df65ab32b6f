//! Sequence numbers: 48 bits, on a circle.

/// A sequence number (RFC 4340 section 3.1): 48 bits, compared on a circle. A number is later than another when it is
/// less than half the circle ahead of it.
///
/// ```
/// use taut_wire::dccp::Seq;
/// let last = Seq::new(Seq::MODULUS - 1);
/// assert_eq!(last.next(), Seq::new(0));
/// assert!(last.is_before(last.next()));
/// assert_eq!(last.next().since(last), 1);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seq(u64);

impl Seq {
    /// How many there are, 2⁴⁸.
    pub const MODULUS: u64 = 1 << 48;

    /// The number, modulo 2⁴⁸.
    pub const fn new(number: u64) -> Self {
        Self(number & (Self::MODULUS - 1))
    }

    /// The number, below 2⁴⁸.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The next one.
    pub const fn next(self) -> Self {
        self.plus(1)
    }

    /// So many later.
    pub const fn plus(self, count: u64) -> Self {
        Self::new(self.0.wrapping_add(count))
    }

    /// So many earlier.
    pub const fn minus(self, count: u64) -> Self {
        Self::new(self.0.wrapping_sub(count))
    }

    /// How far this is after `other`; negative when it is before it.
    pub const fn since(self, other: Self) -> i64 {
        let ahead = self.minus(other.0).0;
        if ahead < Self::MODULUS / 2 { ahead as i64 } else { ahead as i64 - Self::MODULUS as i64 }
    }

    /// Earlier than `other`?
    pub const fn is_before(self, other: Self) -> bool {
        self.since(other) < 0
    }

    /// Later than `other`?
    pub const fn is_after(self, other: Self) -> bool {
        self.since(other) > 0
    }

    /// From `low` to `high`, both included?
    pub const fn is_within(self, low: Self, high: Self) -> bool {
        !self.is_before(low) && !self.is_after(high)
    }

    /// The later of the two.
    pub const fn max(self, other: Self) -> Self {
        if self.is_before(other) { other } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_circle_closes() {
        let last = Seq::new(Seq::MODULUS - 1);
        assert_eq!(last.plus(3), Seq::new(2));
        assert_eq!(Seq::new(2).minus(3), last);
        assert_eq!(Seq::new(2).since(last), 3);
        assert_eq!(last.since(Seq::new(2)), -3);
        assert!(Seq::new(0).is_within(last, Seq::new(1)));
        assert!(!Seq::new(2).is_within(last, Seq::new(1)));
        assert_eq!(last.max(Seq::new(5)), Seq::new(5));
    }

    proptest! {
        #[test]
        fn going_there_and_back_is_nothing(start in 0..Seq::MODULUS, count in 0..Seq::MODULUS / 2) {
            let start = Seq::new(start);
            prop_assert_eq!(start.plus(count).minus(count), start);
            prop_assert_eq!(start.plus(count).since(start), count as i64);
            prop_assert_eq!(start.since(start.plus(count)), -(count as i64));
        }
    }
}
