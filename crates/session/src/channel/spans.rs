//! Which bytes of a message: those that arrived, those that are lost.

use std::ops::Range;

/// Ranges of bytes in order, which neither overlap nor touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Spans(Vec<Range<usize>>);

impl Spans {
    pub(super) fn iter(&self) -> impl Iterator<Item = &Range<usize>> {
        self.0.iter()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many ranges it takes to say it.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.iter().map(Range::len).sum()
    }

    /// Are these all bytes of a message of this length?
    pub(super) fn cover(&self, length: usize) -> bool {
        length == 0 || matches!(&self.0[..], [all] if *all == (0..length))
    }

    /// Are all of these among them?
    pub(super) fn contain(&self, range: &Range<usize>) -> bool {
        let at = self.0.partition_point(|span| span.end < range.end);
        range.is_empty() || self.0.get(at).is_some_and(|span| span.start <= range.start)
    }

    /// Would it be said by no more ranges than now, with these?
    pub(super) fn touch(&self, range: &Range<usize>) -> bool {
        !self.touching(range).is_empty()
    }

    fn touching(&self, range: &Range<usize>) -> Range<usize> {
        let from = self.0.partition_point(|span| span.end < range.start);
        from..self.0.partition_point(|span| span.start <= range.end).max(from)
    }

    /// With these, too. How many bytes are new.
    pub(super) fn insert(&mut self, range: Range<usize>) -> usize {
        if range.is_empty() {
            return 0;
        }
        let at = self.touching(&range);
        let old = &self.0[at.clone()];
        let before: usize = old.iter().map(Range::len).sum();
        let start = old.first().map_or(range.start, |first| first.start.min(range.start));
        let end = old.last().map_or(range.end, |last| last.end.max(range.end));
        self.0.splice(at, std::iter::once(start..end));
        end - start - before
    }

    /// Without these.
    pub(super) fn remove(&mut self, range: &Range<usize>) {
        if range.is_empty() || self.0.is_empty() {
            return;
        }
        let from = self.0.partition_point(|span| span.end <= range.start);
        let to = self.0.partition_point(|span| span.start < range.end).max(from);
        let before = self.0[from..to].first().map(|first| first.start..range.start);
        let after = self.0[from..to].last().map(|last| range.end..last.end);
        let rest = before.into_iter().chain(after).filter(|rest| !rest.is_empty());
        self.0.splice(from..to, rest);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ranges_are_the_bytes_that_were_added_and_not_removed(
            steps in prop::collection::vec((any::<bool>(), 0usize..40, 0usize..12), 1..40),
        ) {
            let (mut spans, mut bytes) = (Spans::default(), [false; 64]);
            for (adds, start, length) in steps {
                let range = start..start + length;
                let touches = range.clone().any(|at| bytes[at])
                    || (start > 0 && bytes[start - 1]) || bytes[range.end];
                prop_assert!(range.is_empty() || spans.touch(&range) == touches);
                if adds {
                    let new = bytes[range.clone()].iter().filter(|has| !**has).count();
                    prop_assert_eq!(spans.insert(range.clone()), new);
                } else {
                    spans.remove(&range);
                }
                bytes[range].fill(adds);
                let mut expected = Vec::<Range<usize>>::new();
                for at in (0..64).filter(|at| bytes[*at]) {
                    match expected.last_mut() {
                        Some(last) if last.end == at => last.end = at + 1,
                        _ => expected.push(at..at + 1),
                    }
                }
                prop_assert_eq!(&spans.0, &expected);
                let asked = start..start + length;
                prop_assert_eq!(spans.contain(&asked), bytes[asked].iter().all(|has| *has));
                prop_assert_eq!(spans.bytes(), bytes.iter().filter(|has| **has).count());
                prop_assert_eq!(spans.cover(start), start == 0 || bytes.iter().enumerate().all(|(at, has)| *has == (at < start)));
            }
        }
    }
}
