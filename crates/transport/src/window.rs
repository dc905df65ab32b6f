//! Which counters arrived already: of datagrams, of messages.

const WORDS: usize = 128;
const WORD_BITS: u64 = u64::BITS as u64;

/// How far behind the newest counter one may be and still be told from a replay: 127 words of 64. At 40,000 datagrams a
/// second, those of paths whose delays differ by 200 ms.
pub const REPLAY_WINDOW: u64 = (WORDS as u64 - 1) * WORD_BITS;

/// A bitmap that slides by whole words (RFC 6479): one word is always being refilled, so nothing is ever shifted.
#[derive(Clone, Debug)]
pub struct Window {
    bits: [u64; WORDS],
    /// One more than the greatest counter seen; 0 when none was.
    next: u64,
}

impl Default for Window {
    /// Nothing arrived.
    fn default() -> Self {
        Self::new()
    }
}

impl Window {
    /// Nothing arrived.
    pub const fn new() -> Self {
        Self { bits: [0; WORDS], next: 0 }
    }

    /// One more than the greatest counter seen.
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// Was `counter` never seen, and is it recent enough to tell?
    pub fn is_new(&self, counter: u64) -> bool {
        counter >= self.next
            || (self.next - 1 - counter < REPLAY_WINDOW && self.bits[word(counter)] & bit(counter) == 0)
    }

    /// Remembers `counter`, which [`Self::is_new`] and authentic. Tells whether it is the greatest so far.
    pub fn mark(&mut self, counter: u64) -> bool {
        let newest = counter >= self.next;
        if newest {
            let (from, to) = (self.next.div_ceil(WORD_BITS), counter / WORD_BITS);
            for index in from..=to.min(from.saturating_add(WORDS as u64 - 1)) {
                self.bits[(index % WORDS as u64) as usize] = 0;
            }
            self.next = counter + 1;
        }
        self.bits[word(counter)] |= bit(counter);
        newest
    }

    /// Which of the 64 counters before `counter` were marked: bit *i* for `counter` − 1 − *i*. What is too far behind the
    /// newest to be remembered counts as not marked.
    pub(crate) fn before(&self, counter: u64) -> u64 {
        let (index, shift) = (counter / WORD_BITS, counter % WORD_BITS);
        let earlier = index.checked_sub(1).map_or(0, |index| self.word_at(index));
        let ascending =
            if shift == 0 { earlier } else { earlier >> shift | self.word_at(index) << (WORD_BITS - shift) };
        ascending.reverse_bits()
    }

    /// The marks of counters 64 `index` to 64 `index` + 63.
    fn word_at(&self, index: u64) -> u64 {
        let newest = self.next.div_ceil(WORD_BITS);
        let remembered = index < newest && newest - index <= WORDS as u64;
        if remembered { self.bits[(index % WORDS as u64) as usize] } else { 0 }
    }
}

const fn word(counter: u64) -> usize {
    (counter / WORD_BITS % WORDS as u64) as usize
}

const fn bit(counter: u64) -> u64 {
    1 << (counter % WORD_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn one_counter_passes_once() {
        let mut window = Window::new();
        assert!(window.is_new(0));
        assert!(window.mark(0));
        assert!(!window.is_new(0));
        assert!(window.mark(5));
        assert!(window.is_new(3));
        assert!(!window.mark(3), "not the greatest");
        assert!(!window.is_new(3));
    }

    #[test]
    fn what_is_too_old_to_tell_does_not_pass() {
        let mut window = Window::new();
        window.mark(REPLAY_WINDOW + 9);
        assert!(!window.is_new(9));
        assert!(window.is_new(10));
        window.mark(1 << 40);
        assert!(window.is_new((1 << 40) - 1), "a jump clears everything");
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_set(steps in prop::collection::vec(0_u64..24_000, 1..400)) {
            let (mut window, mut seen, mut greatest) = (Window::new(), BTreeSet::new(), None::<u64>);
            for counter in steps {
                let recent = greatest.is_none_or(|greatest| counter > greatest || greatest - counter < REPLAY_WINDOW);
                prop_assert_eq!(window.is_new(counter), recent && !seen.contains(&counter));
                if window.is_new(counter) {
                    prop_assert_eq!(window.mark(counter), greatest.is_none_or(|greatest| counter > greatest));
                    seen.insert(counter);
                    greatest = greatest.max(Some(counter));
                }
            }
        }

        #[test]
        fn those_before_a_counter_are_those_of_a_set(
            start in prop_oneof![Just(0_u64), any::<u32>().prop_map(u64::from)],
            steps in prop::collection::vec((0_u64..300, prop::bool::weighted(0.02)), 1..300),
        ) {
            let (mut window, mut seen, mut base) = (Window::new(), BTreeSet::new(), start);
            for (ahead, jumps) in steps {
                base += if jumps { 3 * REPLAY_WINDOW } else { ahead / 4 };
                let counter = base + ahead;
                if window.is_new(counter) {
                    window.mark(counter);
                    seen.insert(counter);
                }
                for asked in [counter, counter + 1, counter + 40, counter.saturating_sub(70)] {
                    let bit = |i: u64| asked.checked_sub(1 + i).is_some_and(|earlier| seen.contains(&earlier));
                    let expected = (0..64).filter(|i| bit(*i)).fold(0_u64, |bits, i| bits | 1 << i);
                    prop_assert_eq!(window.before(asked), expected, "before {}", asked);
                }
            }
        }
    }
}
