//! Multipath QUIC between two endpoints with several paths, in virtual time.

mod flow;
mod harness;
mod paths;
mod strangers;
