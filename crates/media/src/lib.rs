//! What is sent of force, sound and picture, and in which packet: samplers, packings, frames, and what a receiver does with them.
//!
//! | towards the network | from the network |
//! | --- | --- |
//! | [`Sampler`]: is this sample worth sending? | |
//! | [`FrameSource`]: audio and video frames | |
//! | [`Packer`]: who travels with whom | |
//! | [`gcc`]: how fast to send them | [`gcc::Reporter`]: which of them arrived |
//! | [`Packetizer`]: frames into RTP packets | [`FrameAssembler`]: RTP packets into frames |
//! | [`Repair`]: repetition, parity or a copy? [`Parity`] | even play-out: [`JitterBuffer`](taut_core::JitterBuffer) |
//! | [`picture`]: an encoded frame on a channel | [`picture::Ask`]: what its receiver lacks |
//! | | [`opinion`]: what viewers would think of it |
//!
//! The bytes are those of [`taut_wire::rtp`]. All are sans-IO state machines with the verbs of [`taut_core`]; none reads
//! a clock, allocates per packet once it is warm, or grows without a bound.

mod frames;
pub mod gcc;
pub mod opinion;
mod packing;
mod parity;
pub mod picture;
mod repair;
mod rtp;
mod sampler;
mod vp8_table;

pub use frames::FrameSource;
pub use packing::{MAX_SAMPLES, Order, Packer, Scheme, SchemeError, TrendConfig, Waiting};
pub use parity::Parity;
pub use repair::{Ahead, LossShare, MOST_PARTS, Repair, Way, most_parity};
pub use rtp::{AssemblerStats, FrameAssembler, Packetizer, RtpFrame};
pub use sampler::{DeadbandConfig, Decision, Reason, Sampler, SamplerError};
pub use vp8_table::{TableError, TableFrame, VideoTable};
