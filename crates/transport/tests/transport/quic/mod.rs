//! QUIC between two endpoints, and more, in virtual time.

mod certificates;
mod flow;
mod forged;
mod handshake;
mod harness;
mod moving;
mod multipath;
mod order;
#[cfg(feature = "qlog")]
mod qlog;
mod resumed;
mod strangers;
mod wireshark;
