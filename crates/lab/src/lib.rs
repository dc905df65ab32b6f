//! The lab: a scenario goes in, a verdict with its evidence comes out.

pub mod campaign;
pub mod demo;
pub mod evidence;
mod generator;
pub mod hand;
pub mod job;
mod metrics;
pub mod recommend;
pub mod report;
pub mod result;
pub mod robot;
pub mod run;
pub mod scenario;
pub mod traces;
