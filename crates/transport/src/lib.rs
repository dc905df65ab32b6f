//! Sans-IO transports behind one contract ([`taut_core::Transport`]).
//!
//! | transport | what it is | source |
//! | --- | --- | --- |
//! | [`udp`] | a datagram a message, nothing else | RFC 768 |
//! | [`etp`] | UDP or TCP with a gap kept between successive packets | Wirz, Ferre, Marín et al., EuroHaptics 2008 |
//! | [`tcp`] | a model of TCP: Reno, NewReno, CUBIC, SACK | RFC 5681, 6582, 9438, 6675, 6298 |

pub mod etp;
pub mod tcp;
pub mod udp;
