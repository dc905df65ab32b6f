//! Which sequence numbers have arrived.

use taut_core::nearest;

/// Remembers the last 1024 sequence numbers (the sliding window of RFC 4303 section 3.4.3).
#[derive(Clone, Debug, Default)]
pub(crate) struct Window {
    bits: [u64; Window::SPAN as usize / 64],
    /// The lowest and the highest seen.
    ends: Option<(u64, u64)>,
    seen: u64,
}

/// What the window says of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sighting {
    /// Higher than all before.
    Newest,
    /// Not seen, but a higher one was.
    Reordered,
    /// Seen before, or so far behind that nobody can tell.
    Duplicate,
}

impl Window {
    pub(crate) const SPAN: u64 = 1024;

    pub(crate) fn record(&mut self, number: u64) -> Sighting {
        let Some((lowest, highest)) = &mut self.ends else {
            self.ends = Some((number, number));
            return self.mark(number, Sighting::Newest);
        };
        if number > *highest {
            let skipped = number - *highest;
            let from = *highest + 1;
            *highest = number;
            if skipped >= Self::SPAN {
                self.bits.fill(0);
            } else {
                (from..number).for_each(|n| self.bits[word(n)] &= !bit(n));
            }
            return self.mark(number, Sighting::Newest);
        }
        if *highest - number >= Self::SPAN || self.bits[word(number)] & bit(number) != 0 {
            return Sighting::Duplicate;
        }
        *lowest = (*lowest).min(number);
        self.mark(number, Sighting::Reordered)
    }

    /// Was it seen, or is it so far behind that nobody can tell?
    pub(crate) fn contains(&self, number: u64) -> bool {
        self.ends.is_some_and(|(_, highest)| {
            number <= highest
                && (highest - number >= Self::SPAN || self.bits[word(number)] & bit(number) != 0)
        })
    }

    /// Bit *i*: `number` − 1 − *i* was seen.
    pub(crate) fn before(&self, number: u64) -> u32 {
        let Some((lowest, highest)) = self.ends else { return 0 };
        let was_seen = |n: u64| {
            n >= lowest && n <= highest && highest - n < Self::SPAN && self.bits[word(n)] & bit(n) != 0
        };
        (0..32).filter(|i| number.checked_sub(1 + i).is_some_and(was_seen)).fold(0, |mask, i| mask | 1 << i)
    }

    /// The highest that was seen; 0 before that.
    pub(crate) fn highest(&self) -> u64 {
        self.ends.map_or(0, |(_, highest)| highest)
    }

    /// How many numbers between the lowest and the highest seen were never seen.
    pub(crate) fn missing(&self) -> u64 {
        self.ends.map_or(0, |(lowest, highest)| (highest - lowest).saturating_add(1) - self.seen)
    }

    fn mark(&mut self, number: u64, sighting: Sighting) -> Sighting {
        self.bits[word(number)] |= bit(number);
        self.seen += 1;
        sighting
    }
}

/// The number of which a frame has the low 32 bits; before anything is known, these.
pub(crate) fn completed(known: u64, low: u32) -> u64 {
    nearest(known, low, 32).unwrap_or(low.into())
}

const fn word(number: u64) -> usize {
    (number % Window::SPAN / 64) as usize
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
    fn the_mask_shows_what_arrived_before() {
        let mut window = Window::default();
        [10, 12, 13].iter().for_each(|n| {
            window.record(*n);
        });
        assert_eq!(window.before(13), 0b101);
        assert_eq!(window.before(14), 0b1011);
        assert_eq!(window.before(12), 0b10);
        assert_eq!((window.before(0), window.missing()), (0, 1));
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_set(steps in prop::collection::vec((0u64..4, 0u64..3000), 1..300)) {
            let (mut window, mut set, mut number) = (Window::default(), BTreeSet::new(), 5_000u64);
            for (kind, size) in steps {
                number = match kind {
                    0 => number + 1,
                    1 => number.saturating_sub(size % 40),
                    2 => number + size % 3,
                    _ => number.saturating_add_signed(size as i64 - 1_500),
                };
                let highest = set.last().copied();
                let expected = match highest {
                    Some(h) if h >= number && h - number >= Window::SPAN => Sighting::Duplicate,
                    _ if set.contains(&number) => Sighting::Duplicate,
                    Some(h) if h > number => Sighting::Reordered,
                    _ => Sighting::Newest,
                };
                prop_assert_eq!(window.record(number), expected);
                if expected != Sighting::Duplicate {
                    set.insert(number);
                }
                let newest = *set.last().unwrap();
                let mask = (0..32).filter(|i| set.contains(&(newest - 1 - i))).fold(0, |m, i| m | 1 << i);
                prop_assert_eq!(window.before(newest), mask);
                prop_assert_eq!(window.missing(), newest - set.first().unwrap() + 1 - set.len() as u64);
            }
        }
    }
}
