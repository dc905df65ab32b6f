//! The sender's scoreboard of selective acknowledgements (RFC 6675), in runs of bytes.

use super::flight::Flight;

/// Segments, or duplicate acknowledgements, after which a gap is a loss (RFC 6675 section 2).
pub(super) const DUP_THRESH: u32 = 3;
/// More runs than this are not kept: only a hostile peer reports them, and forgetting a report costs a retransmission.
const MAX_RUNS: usize = 4096;

/// Bytes from `start` up to, but not including, `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) start: u64,
    pub(super) end: u64,
}

/// What the peer has of the bytes beyond its cumulative acknowledgement.
#[derive(Clone, Debug, Default)]
pub(super) struct Scoreboard {
    /// Ascending, disjoint, not adjacent.
    runs: Vec<Run>,
    /// HighRxt: everything below was retransmitted in this recovery, or needs no retransmission.
    pub(super) high_rxt: u64,
    /// RescueRxt: the one retransmission of the last segment was made in this recovery.
    pub(super) rescued: bool,
    /// Estimate of what is in the network.
    pub(super) pipe: u64,
}

impl Scoreboard {
    /// Takes a block of an acknowledgement and tells whether it reports anything new. Blocks that reach outside
    /// `una..max` are no news (RFC 2883) or lies.
    pub(super) fn insert(&mut self, block: Run, una: u64, max: u64) -> bool {
        let Run { mut start, mut end } = block;
        if start < una || start >= end || end > max {
            return false;
        }
        let first = self.runs.partition_point(|run| run.end < start);
        let last = self.runs.partition_point(|run| run.start <= end);
        if let Some(within) = self.runs[first..last].first()
            && within.start <= start
            && within.end >= end
        {
            return false;
        }
        if first == last {
            if self.runs.len() >= MAX_RUNS {
                return false;
            }
            self.runs.insert(first, block);
            return true;
        }
        start = start.min(self.runs[first].start);
        end = end.max(self.runs[last - 1].end);
        self.runs[first] = Run { start, end };
        self.runs.drain(first + 1..last);
        true
    }

    /// Everything below `una` is acknowledged.
    pub(super) fn acknowledge(&mut self, una: u64) {
        let gone = self.runs.partition_point(|run| run.end <= una);
        self.runs.drain(..gone);
        if let Some(first) = self.runs.first_mut() {
            first.start = first.start.max(una);
        }
    }

    /// The peer may have thrown away what it reported (RFC 2018 section 8).
    pub(super) fn forget(&mut self) {
        self.runs.clear();
    }

    pub(super) fn runs(&self) -> impl Iterator<Item = Run> {
        self.runs.iter().copied()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// What is reported below `to`.
    pub(super) fn sacked_below(&self, to: u64, flight: &Flight) -> u64 {
        let below = self.runs.iter().take_while(|run| run.start < to);
        below.map(|run| flight.weigh(run.start, run.end.min(to))).sum()
    }

    /// IsLost (RFC 6675 section 4) for all at once: a byte below the result that was not reported is lost, one from it
    /// on is not. It is lost when three runs, or more than two segments' worth, lie above it.
    pub(super) fn lost_below(&self, smss: u64, flight: &Flight) -> u64 {
        let (mut runs, mut above) = (0, 0);
        for run in self.runs.iter().rev() {
            runs += 1;
            above += flight.weigh(run.start, run.end);
            if runs >= DUP_THRESH || above > u64::from(DUP_THRESH - 1) * smss {
                return run.start;
            }
        }
        0
    }

    /// SetPipe (RFC 6675 section 4): bytes that were not reported count unless they are lost, and once more, or
    /// instead, when they were retransmitted.
    pub(super) fn set_pipe(&mut self, una: u64, max: u64, smss: u64, flight: &Flight) {
        let lost = self.lost_below(smss, flight).clamp(una, max);
        self.pipe =
            self.unreported(lost, max, flight) + self.unreported(una, self.high_rxt.clamp(una, max), flight);
    }

    /// The first run of bytes from `from` on that was not reported and lies below one that was.
    pub(super) fn hole(&self, from: u64) -> Option<Run> {
        let mut start = from;
        for run in &self.runs[self.runs.partition_point(|run| run.end <= from)..] {
            if start < run.start {
                return Some(Run { start, end: run.start });
            }
            start = run.end;
        }
        None
    }

    /// The first byte from `from` on that was not reported.
    pub(super) fn next_unreported(&self, from: u64) -> u64 {
        let at = self.runs.partition_point(|run| run.end <= from);
        self.runs.get(at).map_or(from, |run| if run.start <= from { run.end } else { from })
    }

    /// The start of the last run of bytes below `max` that was not reported; `max` when there is none.
    pub(super) fn last_unreported(&self, una: u64, max: u64) -> Run {
        match self.runs.as_slice() {
            [] => Run { start: una, end: max },
            [.., last] if last.end < max => Run { start: last.end, end: max },
            [only] => Run { start: una, end: only.start },
            [.., before, last] => Run { start: before.end, end: last.start },
        }
    }

    fn unreported(&self, from: u64, to: u64, flight: &Flight) -> u64 {
        let reported = self.sacked_below(to, flight).saturating_sub(self.sacked_below(from, flight));
        flight.weigh(from, to).saturating_sub(reported)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::Counting;

    fn bytes() -> Flight {
        Flight::new(Counting::Bytes, 100)
    }

    fn board(runs: &[(u64, u64)]) -> Scoreboard {
        let mut board = Scoreboard::default();
        for &(start, end) in runs {
            board.insert(Run { start, end }, 0, 1000);
        }
        board
    }

    #[test]
    fn runs_merge_and_repetition_is_no_news() {
        let mut board = board(&[(100, 200), (300, 400), (500, 600)]);
        assert!(!board.insert(Run { start: 120, end: 200 }, 0, 1000));
        assert!(board.insert(Run { start: 200, end: 300 }, 0, 1000));
        assert_eq!(board.runs, [Run { start: 100, end: 400 }, Run { start: 500, end: 600 }]);
        assert!(board.insert(Run { start: 50, end: 700 }, 0, 1000));
        assert_eq!(board.runs, [Run { start: 50, end: 700 }]);
        assert!(!board.insert(Run { start: 900, end: 1001 }, 0, 1000));
        assert!(!board.insert(Run { start: 20, end: 10 }, 0, 1000));
        board.acknowledge(60);
        assert_eq!(board.runs, [Run { start: 60, end: 700 }]);
    }

    #[test]
    fn a_gap_is_lost_below_three_runs_or_more_than_two_segments() {
        // RFC 6675 section 4, IsLost, with segments of 100 bytes.
        assert_eq!(board(&[(100, 300)]).lost_below(100, &bytes()), 0);
        assert_eq!(board(&[(100, 301)]).lost_below(100, &bytes()), 100);
        assert_eq!(board(&[(100, 110), (200, 210)]).lost_below(100, &bytes()), 0);
        assert_eq!(board(&[(100, 110), (200, 210), (300, 310)]).lost_below(100, &bytes()), 100);
        assert_eq!(board(&[(100, 110), (200, 210), (300, 310), (400, 410)]).lost_below(100, &bytes()), 200);
    }

    #[test]
    fn pipe_leaves_out_what_is_lost_and_counts_what_was_retransmitted() {
        // RFC 6675 section 4, SetPipe.
        let mut board = board(&[(100, 400)]);
        board.set_pipe(0, 1000, 100, &bytes());
        assert_eq!(board.pipe, 600);
        board.high_rxt = 100;
        board.set_pipe(0, 1000, 100, &bytes());
        assert_eq!(board.pipe, 700);
    }

    #[test]
    fn holes_are_found_in_order() {
        let board = board(&[(100, 200), (300, 400)]);
        assert_eq!(board.hole(0), Some(Run { start: 0, end: 100 }));
        assert_eq!(board.hole(50), Some(Run { start: 50, end: 100 }));
        assert_eq!(board.hole(100), Some(Run { start: 200, end: 300 }));
        assert_eq!(board.hole(300), None);
        assert_eq!((board.next_unreported(150), board.next_unreported(250)), (200, 250));
        assert_eq!(board.last_unreported(0, 1000), Run { start: 400, end: 1000 });
        assert_eq!(board.last_unreported(0, 400), Run { start: 200, end: 300 });
    }
}
