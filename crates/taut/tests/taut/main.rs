//! The public crate as its users have it: nothing else of the project is named here.

mod build;
mod messages;
mod processes;
mod refusals;
mod stops;
mod world;
