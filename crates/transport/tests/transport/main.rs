//! Each transport between two endpoints, and over several paths, in virtual time.

#![expect(clippy::print_stdout, reason = "it says what it skips and what it measured")]

mod dccp;
mod etp_gap;
mod etp_two_endpoints;
mod forge;
mod mptcp;
mod mtip;
mod net;
mod quic;
mod sctp;
mod secured;
mod stack;
mod tcp_model;
mod wrappers;
