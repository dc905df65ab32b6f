//! What is measured in a run, in memory that does not grow with it.

mod causes;
mod cycles;
mod distribution;
mod flow;
mod histogram;
mod medium;
mod observer;
mod seconds;
mod series;
mod skew;

pub(crate) use cycles::{CycleSummary, CycleWatch, MOST_LOSSES};
pub(crate) use distribution::Moments;
pub(crate) use observer::{Metrics, StreamKey, Watch};
