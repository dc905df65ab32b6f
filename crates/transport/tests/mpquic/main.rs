//! Multipath QUIC between two endpoints with several paths, in virtual time.

#[path = "../common/forge.rs"]
mod forge;

mod flow;
mod forged;
mod harness;
mod paths;
mod strangers;
