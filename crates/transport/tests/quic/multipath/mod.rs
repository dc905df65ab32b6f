//! The same over several paths.

mod alike;
mod flow;
mod forged;
mod harness;
mod paths;
mod strangers;
