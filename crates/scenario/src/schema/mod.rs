//! What a scenario file may say. Every key is here, with its unit, its default and its range.
//!
//! Quantities are text with a unit: `"6Mbit"` (per second), `"14kB"`, `"8ms"`, `"1%"`. A choice among kinds is written
//! `kind = { … }`, or just `"kind"` where nothing is set.

mod commands;
pub(crate) mod defaults;
mod links;
mod queues;
mod run;
mod session;
mod traffic;
mod transport;

pub use commands::*;
pub use links::*;
pub use queues::*;
pub use run::*;
pub use session::*;
pub use traffic::*;
pub use transport::*;
