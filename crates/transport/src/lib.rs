//! Sans-IO transports behind one contract ([`taut_core::Transport`]).
//!
//! | transport | what it is | source |
//! | --- | --- | --- |
//! | [`udp`] | a datagram a message, nothing else | RFC 768 |
//! | [`etp`] | UDP or TCP with a gap kept between successive packets | Wirz, Ferre, Marín et al., EuroHaptics 2008 |
//! | [`quic`] | QUIC: streams, datagrams, TLS 1.3 with both sides known, migration, 0-RTT | RFC 9000, 9001, 9002, 9221 |
//! | [`dccp`] | datagrams with congestion control: a window or a rate | RFC 4340, 4341, 4342, 5348, 6773 |
//! | [`tcp`], [`mptcp`] | models of TCP (Reno, NewReno, CUBIC, SACK) and Multipath TCP | RFC 5681, 6582, 9438, 6675, 6298, 8684 |
//! | [`mtip`], [`quic::MpQuic`] | several paths at once: copies by deadline, multipath QUIC | |
//! | [`sctp`] | streams, each message as reliable as it wants, over UDP | RFC 9260, 6951, 3758, 8260 |
//!
//! [`stack`] is all of them in one enum, and builds them from a specification. [`security`] seals them with Noise; [`identity`] says who speaks, [`certificate`] says it to those who know X.509 only, [`stranger`] who was
//! refused, [`service`] what a conversation is for.

pub mod certificate;
pub mod dccp;
pub mod entropy;
pub mod etp;
pub mod identity;
mod message_queue;
pub mod mptcp;
pub mod mtip;
mod origins;
mod peer;
pub mod quic;
mod rto;
pub mod sctp;
pub mod security;
pub mod service;
pub mod stack;
pub mod stranger;
pub mod tcp;
pub mod udp;
pub mod window;
