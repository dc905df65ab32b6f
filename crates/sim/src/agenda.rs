//! Who is due next: a tournament of all components, each at the time of its current deadline.
//!
//! Packets wait inside links, never here, so the agenda is as large as the network and no larger, however many packets
//! are under way. Components due at the same time come in the order of their numbers.

/// Later than every deadline that is kept.
const NEVER: u64 = u64::MAX;

/// Deadlines by component, `0..count`.
pub(crate) struct Agenda {
    /// A complete binary tree, the root at 1 and the children of `i` at `2i` and `2i + 1`: the leaves are the components,
    /// every other place holds the earlier of its children.
    earliest: Vec<Entry>,
    /// Where component 0 is in `earliest`: the number of leaves, a power of two.
    leaves: usize,
}

/// A due time in nanoseconds above the number of the component: ordered by both, compared in one go.
type Entry = u128;

fn entry(due: u64, component: usize) -> Entry {
    u128::from(due) << 64 | component as u128
}

impl Agenda {
    pub(crate) fn new(count: usize) -> Self {
        let leaves = count.next_power_of_two();
        let mut agenda = Self { earliest: vec![entry(NEVER, usize::MAX); 2 * leaves], leaves };
        (0..count).for_each(|component| agenda.set(component, None));
        agenda
    }

    /// Everybody is due at the very beginning.
    pub(crate) fn all_at_zero(count: usize) -> Self {
        let mut agenda = Self::new(count);
        (0..count).for_each(|component| agenda.set(component, Some(0)));
        agenda
    }

    /// The component that is due first, and when.
    pub(crate) fn first(&self) -> Option<(u64, usize)> {
        let first = self.earliest[1];
        let due = (first >> 64) as u64;
        (due != NEVER).then_some((due, first as usize))
    }

    /// Sets or clears a component's deadline.
    pub(crate) fn set(&mut self, component: usize, due: Option<u64>) {
        let mut place = self.leaves + component;
        let mut earliest = entry(due.unwrap_or(NEVER), component);
        // As far up as anything changes.
        while std::mem::replace(&mut self.earliest[place], earliest) != earliest && place > 1 {
            earliest = earliest.min(self.earliest[place ^ 1]);
            place >>= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use taut_core::Seed;

    #[test]
    fn the_earliest_comes_first_and_ties_go_by_number() {
        let mut rng = Seed::new(3).stream("agenda");
        let mut agenda = Agenda::new(37);
        let mut plain = vec![None; 37];
        for _ in 0..20_000 {
            let component = rng.below(37) as usize;
            let due = (rng.below(5) > 0).then(|| rng.below(100));
            agenda.set(component, due);
            plain[component] = due;
            let expected = (0..37).filter_map(|c| plain[c].map(|due| (due, c))).min();
            assert_eq!(agenda.first(), expected);
        }
    }

    #[test]
    fn an_empty_agenda_has_nothing_due() {
        assert_eq!(Agenda::new(0).first(), None);
        assert_eq!(Agenda::new(3).first(), None);
    }
}
