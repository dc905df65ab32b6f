//! Counts by cause.

use std::collections::BTreeMap;

use taut_core::DropCause;

/// How many went for each cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Causes([u64; DropCause::ALL.len()]);

impl Causes {
    /// One more.
    pub(super) fn count(&mut self, cause: DropCause) {
        self.0[cause as usize] += 1;
    }

    /// One less: it did not go after all.
    pub(super) fn undo(&mut self, cause: DropCause) {
        self.0[cause as usize] -= 1;
    }

    /// All of them.
    pub(super) fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// By name; those that are not zero.
    pub(super) fn to_result(self) -> BTreeMap<String, u64> {
        let counted = DropCause::ALL.iter().zip(self.0).filter(|(_, count)| *count > 0);
        counted.map(|(cause, count)| (cause.name().to_owned(), count)).collect()
    }
}
