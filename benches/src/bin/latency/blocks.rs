//! Short blocks of measurements, and what they have in common.

use hdrhistogram::Histogram;

/// The blocks of one way, each a histogram of its own.
#[derive(Default)]
pub(crate) struct Blocks(Vec<Block>);

#[derive(Clone, Copy)]
struct Block {
    p50: u64,
    p90: u64,
    p99: u64,
}

/// Medians over blocks of what each block had, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Medians {
    pub(crate) p50: u64,
    pub(crate) p90: u64,
    pub(crate) p99: u64,
}

impl Blocks {
    pub(crate) fn add(&mut self, histogram: &Histogram<u64>) {
        let [p50, p90, p99] = [50.0, 90.0, 99.0].map(|at| histogram.value_at_percentile(at));
        self.0.push(Block { p50, p90, p99 });
    }

    /// Of all blocks.
    pub(crate) fn all(&self) -> Medians {
        medians(&self.0)
    }

    /// Of the quarter of the blocks that the machine disturbed least: those of the lowest p90. At least one.
    pub(crate) fn quietest(&self) -> Medians {
        let mut sorted = self.0.clone();
        sorted.sort_by_key(|block| block.p90);
        medians(&sorted[..sorted.len().div_ceil(4)])
    }
}

fn medians(blocks: &[Block]) -> Medians {
    let median = |of: fn(&Block) -> u64| {
        let mut values: Vec<u64> = blocks.iter().map(of).collect();
        values.sort_unstable();
        values[values.len() / 2]
    };
    Medians { p50: median(|block| block.p50), p90: median(|block| block.p90), p99: median(|block| block.p99) }
}
