//! Traces of when a cellular link could deliver, in mahimahi's format.

use std::sync::Arc;

use taut_core::{Duration, Time};

/// A packet-delivery trace: one line per opportunity to deliver 1500 bytes, each the whole milliseconds since the
/// beginning, not decreasing. A time that stands twice is two opportunities. The trace begins again when its last
/// opportunity has passed.
///
/// Source: Netravali et al., *Mahimahi: Accurate Record-and-Replay for HTTP*, USENIX ATC 2015, section 3.2, and the man
/// page of `mm-link`. (The program counts 1504 bytes, four of which are the header of its TUN device.)
///
/// ```
/// use taut_link::MahimahiTrace;
/// // Twelve megabit per second: one opportunity every millisecond.
/// let trace = MahimahiTrace::parse("1\n")?;
/// assert_eq!(trace.opportunities(), 1);
/// # Ok::<(), taut_link::MahimahiError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MahimahiTrace {
    /// Shared, because the same long trace often plays on many links.
    millis: Arc<[u32]>,
}

/// Text that is not a trace. Lines count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MahimahiError {
    /// There is no line.
    #[error("the trace is empty; it needs at least one line with a time in milliseconds")]
    Empty,
    /// A line is not a number.
    #[error("line {line}: not a whole number of milliseconds from 0 to {}", u32::MAX)]
    NotANumber {
        /// Which line.
        line: usize,
    },
    /// A time is before the one of the previous line.
    #[error("line {line}: {millis} ms is before the previous line's {previous} ms; times must not decrease")]
    Decreasing {
        /// Which line.
        line: usize,
        /// Its time.
        millis: u32,
        /// The time in the previous line.
        previous: u32,
    },
    /// The last time is 0, so the trace has no length.
    #[error("line {line}: the last time is 0 ms; a trace must last longer")]
    NoLength {
        /// Which line.
        line: usize,
    },
    /// It is longer than what is accepted.
    #[error("the trace has more than {} lines, the most that are accepted", MahimahiTrace::MAX_OPPORTUNITIES)]
    TooLong,
}

impl MahimahiTrace {
    /// Bytes that one opportunity delivers.
    pub const OPPORTUNITY_BYTES: u64 = 1_500;
    /// Lines that a trace may have: over an hour at 45 Mbit/s, 64 MB in memory.
    pub const MAX_OPPORTUNITIES: usize = 16_000_000;

    /// Reads a trace.
    ///
    /// # Errors
    /// See [`MahimahiError`].
    pub fn parse(text: &str) -> Result<Self, MahimahiError> {
        let mut all = Vec::new();
        let mut previous = 0;
        for (line, content) in (1..).zip(text.lines()) {
            // Digits only: `parse` alone would take a plus sign.
            let digits = content.trim_end();
            let millis = Some(digits).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
            let millis =
                millis.and_then(|digits| digits.parse().ok()).ok_or(MahimahiError::NotANumber { line })?;
            if millis < previous {
                return Err(MahimahiError::Decreasing { line, millis, previous });
            }
            if all.len() == Self::MAX_OPPORTUNITIES {
                return Err(MahimahiError::TooLong);
            }
            all.push(millis);
            previous = millis;
        }
        match (all.len(), previous) {
            (0, _) => Err(MahimahiError::Empty),
            (line, 0) => Err(MahimahiError::NoLength { line }),
            _ => Ok(Self { millis: all.into() }),
        }
    }

    /// Opportunities in one lap.
    pub fn opportunities(&self) -> usize {
        self.millis.len()
    }

    /// How long one lap is.
    pub fn period(&self) -> Duration {
        Duration::from_millis(u64::from(self.millis[self.millis.len() - 1]))
    }
}

/// A place in a trace that plays over and over.
#[derive(Clone, Debug)]
pub(crate) struct Opportunities {
    trace: MahimahiTrace,
    lap: Time,
    next: usize,
}

impl Opportunities {
    pub(crate) fn new(trace: MahimahiTrace) -> Self {
        Self { trace, lap: Time::ZERO, next: 0 }
    }

    /// When the next one is.
    #[inline]
    pub(crate) fn next_at(&self) -> Time {
        self.lap + Duration::from_millis(u64::from(self.trace.millis[self.next]))
    }

    /// Uses or wastes the next one.
    #[inline]
    pub(crate) fn advance(&mut self) {
        self.next += 1;
        if self.next == self.trace.millis.len() {
            self.next = 0;
            self.lap += self.trace.period();
        }
    }

    /// Wastes all that are at or before `at`.
    pub(crate) fn skip_until(&mut self, at: Time) {
        if self.next_at() > at {
            return;
        }
        let offset = (at - Time::ZERO) % self.trace.period();
        self.lap = at - offset;
        self.next =
            self.trace.millis.partition_point(|millis| Duration::from_millis(u64::from(*millis)) <= offset);
        // `offset` is shorter than the period, which is the last one's time: there is a next one in this lap.
        debug_assert!(self.next < self.trace.millis.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_traces_are_refused_with_the_line() {
        let error = |text: &str| MahimahiTrace::parse(text).unwrap_err();
        assert_eq!(error(""), MahimahiError::Empty);
        assert_eq!(error("1\n\n2"), MahimahiError::NotANumber { line: 2 });
        for text in ["1\n2.5", "1\n-2", "1\n+2", "1\nx", "1\n 2", "1\n4294967296"] {
            assert_eq!(error(text), MahimahiError::NotANumber { line: 2 }, "{text:?}");
        }
        assert_eq!(error("1\n5\n4"), MahimahiError::Decreasing { line: 3, millis: 4, previous: 5 });
        assert_eq!(error("0\n0\n"), MahimahiError::NoLength { line: 2 });
        assert_eq!(
            error("1\n5\n4").to_string(),
            "line 3: 4 ms is before the previous line's 5 ms; times must not decrease"
        );
        assert!(MahimahiTrace::parse("0\r\n5\r\n").is_ok());
    }

    #[test]
    fn opportunities_follow_the_trace_and_loop_with_its_length() {
        let mut trace = Opportunities::new(MahimahiTrace::parse("0\n0\n2\n5").unwrap());
        let mut times = Vec::new();
        for _ in 0..9 {
            times.push((trace.next_at() - Time::ZERO) / Duration::from_millis(1));
            trace.advance();
        }
        assert_eq!(times, [0, 0, 2, 5, 5, 5, 7, 10, 10]);
    }

    #[test]
    fn skipping_agrees_with_advancing() {
        let trace = MahimahiTrace::parse("0\n0\n2\n5").unwrap();
        for nanos in (0..23_000_000).step_by(250_000) {
            let at = Time::from_nanos(nanos);
            let (mut skipped, mut advanced) =
                (Opportunities::new(trace.clone()), Opportunities::new(trace.clone()));
            skipped.skip_until(at);
            while advanced.next_at() <= at {
                advanced.advance();
            }
            assert_eq!((skipped.next_at(), skipped.next), (advanced.next_at(), advanced.next), "at {at}");
        }
    }
}
