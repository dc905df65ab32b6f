//! The public crate as its users have it: nothing else of the project is named here.
#![expect(clippy::disallowed_methods, reason = "tests wait for real time")]
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests too")]

mod build;
mod laws;
mod messages;
mod processes;
mod refusals;
mod stops;
mod turning;
mod world;
