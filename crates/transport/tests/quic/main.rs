//! QUIC between two endpoints, and more, in virtual time.

mod certificates;
mod flow;
mod handshake;
mod harness;
mod moving;
mod order;
mod resumed;
mod strangers;
mod wireshark;
