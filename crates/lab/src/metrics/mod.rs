//! What is measured in a run, in memory that does not grow with it.

mod causes;
mod close_up;
mod cycles;
mod distribution;
mod flow;
mod medium;
mod observer;
mod seconds;
mod series;
mod skew;
mod video;

pub(crate) use cycles::{CycleSummary, CycleWatch};
pub(crate) use distribution::{Moments, Summary};
pub(crate) use observer::{Metrics, StreamKey, Watch};
pub(crate) use series::Buckets;
pub(crate) use taut_report::result::percent;
pub(crate) use video::VideoWatch;
