//! The lab: a scenario goes in, a verdict with its evidence comes out.

pub mod campaign;
pub mod demo;
mod generator;
pub mod hand;
mod hold;
pub mod job;
pub mod laws;
mod lever;
pub mod map;
mod mechanism;
mod metrics;
mod pace;
pub mod probe;
pub mod replayed;
pub mod robot;
pub mod run;
pub mod saving;
mod sines;
pub mod traces;
pub mod transparency;

pub use taut_scenario as scenario;
