//! What is measured in a run, in memory that does not grow with it.

mod causes;
mod cycles;
mod distribution;
mod flow;
mod medium;
mod observer;
mod seconds;
mod series;
mod skew;
mod video;

pub(crate) use cycles::{CycleSummary, CycleWatch, MOST_LOSSES};
pub(crate) use distribution::{Moments, Summary};
pub(crate) use observer::{Metrics, StreamKey, Watch};
pub(crate) use series::Buckets;
pub(crate) use video::VideoWatch;

/// `part` of `whole`, per cent; `None` of nothing.
pub(crate) fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| 100.0 * part as f64 / whole as f64)
}
