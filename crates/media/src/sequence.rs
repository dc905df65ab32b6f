//! Sequence numbers that wrap on the wire, and which of them have been seen.

use taut_core::nearest;

/// The number nearest to `near` whose low 32 bits are `low`; `None` when that would be negative.
pub(crate) fn expand(near: u64, low: u32) -> Option<u64> {
    nearest(near, low, 32)
}

/// Remembers which of the last [`SequenceWindow::SPAN`] sequence numbers were seen (RFC 4303 section 3.4.3).
#[derive(Clone, Debug)]
pub(crate) struct SequenceWindow {
    bits: Box<[u64; Self::SPAN as usize / 64]>,
    /// The highest seen; `None` before the first.
    highest: Option<u64>,
    lowest: u64,
    seen: u64,
}

/// What a window says of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sighting {
    /// Never seen, and higher than all before.
    Newest(u64),
    /// Never seen, but a higher one was.
    Reordered(u64),
    /// Seen before.
    Duplicate,
    /// So far behind that nobody can tell.
    TooOld,
}

impl Default for SequenceWindow {
    fn default() -> Self {
        Self { bits: Box::new([0; Self::SPAN as usize / 64]), highest: None, lowest: 0, seen: 0 }
    }
}

impl SequenceWindow {
    /// How many numbers it remembers: four seconds at 1 kHz.
    pub(crate) const SPAN: u64 = 4096;

    /// Notes a number by its low 32 bits.
    pub(crate) fn record(&mut self, low: u32) -> Sighting {
        let Some(highest) = self.highest else {
            self.highest = Some(u64::from(low));
            self.lowest = u64::from(low);
            return self.mark(u64::from(low), Sighting::Newest);
        };
        let Some(number) = expand(highest, low) else { return Sighting::TooOld };
        if number > highest {
            if number - highest >= Self::SPAN {
                self.bits.fill(0);
            } else {
                (highest + 1..=number).for_each(|skipped| self.clear(skipped));
            }
            self.highest = Some(number);
            return self.mark(number, Sighting::Newest);
        }
        if highest - number >= Self::SPAN {
            return Sighting::TooOld;
        }
        if self.bits[Self::word(number)] & Self::bit(number) != 0 {
            return Sighting::Duplicate;
        }
        self.lowest = self.lowest.min(number);
        self.mark(number, Sighting::Reordered)
    }

    /// How many numbers between the lowest and the highest seen were never seen.
    pub(crate) fn missing(&self) -> u64 {
        self.highest.map_or(0, |highest| highest - self.lowest + 1 - self.seen)
    }

    fn mark(&mut self, number: u64, sighting: impl Fn(u64) -> Sighting) -> Sighting {
        self.bits[Self::word(number)] |= Self::bit(number);
        self.seen += 1;
        sighting(number)
    }

    fn clear(&mut self, number: u64) {
        self.bits[Self::word(number)] &= !Self::bit(number);
    }

    const fn word(number: u64) -> usize {
        (number % Self::SPAN / 64) as usize
    }

    const fn bit(number: u64) -> u64 {
        1 << (number % 64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_expand_to_the_nearest() {
        assert_eq!(expand(5, 3), Some(3));
        assert_eq!(expand(u64::from(u32::MAX), 2), Some((1 << 32) + 2));
        assert_eq!(expand((1 << 32) + 2, u32::MAX), Some(u64::from(u32::MAX)));
        assert_eq!(expand(0, u32::MAX), None);
    }

    #[test]
    fn every_number_is_new_once() {
        let mut window = SequenceWindow::default();
        assert_eq!(window.record(10), Sighting::Newest(10));
        assert_eq!(window.record(12), Sighting::Newest(12));
        assert_eq!(window.record(11), Sighting::Reordered(11));
        assert_eq!(window.record(9), Sighting::Reordered(9));
        for number in 9..=12 {
            assert_eq!(window.record(number), Sighting::Duplicate);
        }
        assert_eq!(window.missing(), 0);
        assert_eq!(window.record(20), Sighting::Newest(20));
        assert_eq!(window.missing(), 7);
    }

    #[test]
    fn a_jump_forgets_what_it_leaves_behind() {
        let mut window = SequenceWindow::default();
        window.record(0);
        assert_eq!(window.record(4096), Sighting::Newest(4096));
        assert_eq!(window.record(0), Sighting::TooOld);
        assert_eq!(window.record(1), Sighting::Reordered(1));
        assert_eq!(window.record(1_000_000), Sighting::Newest(1_000_000));
        assert_eq!(window.record(999_999), Sighting::Reordered(999_999));
    }
}
