//! Which numbers have been seen.

use crate::nearest;

/// A bitmap of the numbers that were seen, which slides by whole words of 64 (RFC 6479): one word is always being refilled, so
/// nothing is ever shifted. Tells for the last [`SPAN`](Self::SPAN) numbers whether one is new (RFC 4303 section 3.4.3).
///
/// ```
/// use taut_core::{ReplayWindow, Sighting};
/// let mut window = ReplayWindow::<17>::new();
/// assert_eq!(ReplayWindow::<17>::SPAN, 1024);
/// assert_eq!(window.record(5), Sighting::Newest);
/// assert_eq!(window.record(7), Sighting::Newest);
/// assert_eq!((window.record(6), window.record(6)), (Sighting::Reordered, Sighting::Duplicate));
/// assert_eq!((window.record(5_000), window.record(8)), (Sighting::Newest, Sighting::TooOld));
/// ```
#[derive(Clone, Debug)]
pub struct ReplayWindow<const WORDS: usize> {
    bits: [u64; WORDS],
    /// One more than the highest seen; 0 when none was.
    next: u64,
    lowest: u64,
    seen: u64,
}

/// What a window says of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sighting {
    /// Never seen, and higher than all before.
    Newest,
    /// Never seen, but a higher one was.
    Reordered,
    /// Seen before.
    Duplicate,
    /// So far behind that nobody can tell.
    TooOld,
}

impl<const WORDS: usize> Default for ReplayWindow<WORDS> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const WORDS: usize> ReplayWindow<WORDS> {
    /// How far behind the highest a number may be and still be told from a copy.
    pub const SPAN: u64 = (WORDS as u64 - 1) * 64;

    /// Nothing was seen.
    pub const fn new() -> Self {
        Self { bits: [0; WORDS], next: 0, lowest: u64::MAX, seen: 0 }
    }

    /// One more than the highest seen; 0 when none was.
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// The highest seen.
    pub const fn highest(&self) -> Option<u64> {
        self.next.checked_sub(1)
    }

    /// The number of which the wire has the low 32 bits: the nearest to the highest seen, and before that these bits themselves.
    /// `None` where it would be negative.
    pub fn complete(&self, low: u32) -> Option<u64> {
        self.highest().map_or(Some(low.into()), |highest| nearest(highest, low, 32))
    }

    /// How `number` compares with those seen, without remembering it.
    pub fn sighting(&self, number: u64) -> Sighting {
        if number == u64::MAX {
            Sighting::TooOld
        } else if number >= self.next {
            Sighting::Newest
        } else if self.next - 1 - number >= Self::SPAN {
            Sighting::TooOld
        } else if self.bits[Self::word(number)] & bit(number) != 0 {
            Sighting::Duplicate
        } else {
            Sighting::Reordered
        }
    }

    /// Was `number` never seen, and is it recent enough to tell?
    pub fn is_new(&self, number: u64) -> bool {
        matches!(self.sighting(number), Sighting::Newest | Sighting::Reordered)
    }

    /// Remembers `number` where it is new. 2⁶⁴ − 1, after which there is none, never is.
    pub fn record(&mut self, number: u64) -> Sighting {
        let sighting = self.sighting(number);
        match sighting {
            Sighting::Duplicate | Sighting::TooOld => return sighting,
            Sighting::Reordered => {}
            Sighting::Newest => {
                let (from, to) = (self.next.div_ceil(64), number / 64);
                for index in from..=to.min(from.saturating_add(WORDS as u64 - 1)) {
                    self.bits[(index % WORDS as u64) as usize] = 0;
                }
                self.next = number + 1;
            }
        }
        self.bits[Self::word(number)] |= bit(number);
        self.lowest = self.lowest.min(number);
        self.seen += 1;
        sighting
    }

    /// Which of the 64 numbers before `number` were seen: bit *i* for `number` − 1 − *i*. What is too far behind the highest to
    /// be remembered counts as not seen.
    pub fn before(&self, number: u64) -> u64 {
        let (index, shift) = (number / 64, number % 64);
        let earlier = index.checked_sub(1).map_or(0, |index| self.word_at(index));
        let ascending =
            if shift == 0 { earlier } else { earlier >> shift | self.word_at(index) << (64 - shift) };
        ascending.reverse_bits()
    }

    /// How many were seen.
    pub const fn count(&self) -> u64 {
        self.seen
    }

    /// How many numbers between the lowest and the highest seen were never seen.
    pub fn missing(&self) -> u64 {
        self.next.saturating_sub(self.lowest) - self.seen
    }

    /// The marks of numbers 64 `index` to 64 `index` + 63.
    fn word_at(&self, index: u64) -> u64 {
        let newest = self.next.div_ceil(64);
        let remembered = index < newest && newest - index <= WORDS as u64;
        if remembered { self.bits[(index % WORDS as u64) as usize] } else { 0 }
    }

    const fn word(number: u64) -> usize {
        (number / 64 % WORDS as u64) as usize
    }
}

const fn bit(number: u64) -> u64 {
    1 << (number % 64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_jump_forgets_everything_and_what_is_too_old_is_not_new() {
        let mut window = ReplayWindow::<128>::new();
        window.record(ReplayWindow::<128>::SPAN + 9);
        assert!(!window.is_new(9));
        assert!(window.is_new(10));
        window.record(1 << 40);
        assert!(window.is_new((1 << 40) - 1));
    }

    /// Compares a window with a set of all numbers seen.
    fn agrees<const WORDS: usize>(start: u64, steps: &[(u64, u64)]) -> Result<(), TestCaseError> {
        let (mut window, mut seen, mut number) = (ReplayWindow::<WORDS>::new(), BTreeSet::new(), start);
        let span = ReplayWindow::<WORDS>::SPAN;
        for &(kind, size) in steps {
            number = match kind {
                0 => number + 1,
                1 => number.saturating_sub(size % 40),
                2 => number + size % 3,
                3 => number.saturating_add_signed(size as i64 - 1_500),
                _ => number + size / 2_990 * 3 * span,
            };
            let highest = seen.last().copied();
            let expected = match highest {
                Some(highest) if highest >= number && highest - number >= span => Sighting::TooOld,
                _ if seen.contains(&number) => Sighting::Duplicate,
                Some(highest) if highest > number => Sighting::Reordered,
                _ => Sighting::Newest,
            };
            prop_assert_eq!(
                window.is_new(number),
                matches!(expected, Sighting::Newest | Sighting::Reordered)
            );
            prop_assert_eq!(window.record(number), expected);
            if !matches!(expected, Sighting::Duplicate | Sighting::TooOld) {
                seen.insert(number);
            }
            let newest = *seen.last().expect("the first is new");
            for asked in [newest, newest + 1, newest + 40, newest.saturating_sub(70)] {
                let is_seen =
                    |i: u64| asked.checked_sub(1 + i).is_some_and(|earlier| seen.contains(&earlier));
                let mask = (0..64).filter(|i| is_seen(*i)).fold(0_u64, |mask, i| mask | 1 << i);
                prop_assert_eq!(window.before(asked), mask, "before {}", asked);
            }
            prop_assert_eq!(window.missing(), newest + 1 - seen.first().unwrap() - seen.len() as u64);
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_set(
            start in prop_oneof![Just(0_u64), Just(5_000), any::<u32>().prop_map(u64::from)],
            steps in prop::collection::vec((0_u64..5, 0_u64..3_000), 1..300),
        ) {
            agrees::<17>(start, &steps)?;
            agrees::<128>(start, &steps)?;
        }
    }
}
