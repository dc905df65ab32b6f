//! The lab: a scenario goes in, a verdict with its evidence comes out.

mod metrics;
pub mod result;
pub mod scenario;
