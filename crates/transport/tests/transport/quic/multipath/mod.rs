//! The same over several paths.

mod alike;
mod flow;
mod forged;
pub(crate) mod harness;
mod paths;
mod strangers;
