//! When a state machine wants to be called next, and why.

use crate::Time;

/// The next time at which `handle_timeout` has something to do, with its reason for the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// When.
    pub at: Time,
    /// What for, in a word or two: `"rto"`, `"delayed ack"`, `"serialised"`.
    pub why: &'static str,
}

impl Deadline {
    /// A deadline with its reason.
    pub const fn new(at: Time, why: &'static str) -> Self {
        Self { at, why }
    }
}

/// The earlier of two deadlines; the first one when they are equal.
pub fn earliest(a: Option<Deadline>, b: Option<Deadline>) -> Option<Deadline> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if b.at < a.at { b } else { a }),
        (a, b) => a.or(b),
    }
}
