//! What is sent of force, sound and picture, and in which packet: samplers, multiplexers, and their other halves at the
//! receiver.
//!
//! | towards the network | from the network |
//! | --- | --- |
//! | [`Sampler`]: is this sample worth sending? | [`Hold`]: what the robot or the hand gets in between |
//! | [`FrameSource`]: audio and video frames | [`FrameAccount`]: how many arrived whole, how smoothly |
//! | [`Packer`], [`Multiplexer`]: who travels with whom | [`Demultiplexer`]: samples and whole frames again |
//! | [`gcc`]: how fast to send them | [`gcc::Reporter`]: which of them arrived |
//! | [`Packetizer`]: frames into RTP packets | [`FrameAssembler`]: RTP packets into frames |
//! | | [`JitterBuffer`]: even play-out |
//! | | [`opinion`]: what viewers would think of it |
//!
//! The bytes are those of [`taut_wire::media`] and of [`taut_wire::rtp`]. All are sans-IO state machines with the verbs of [`taut_core`]; none reads
//! a clock, allocates per packet once it is warm, or grows without a bound.

mod demux;
mod frame_account;
mod frames;
pub mod gcc;
mod hold;
mod jitter_buffer;
mod mux;
pub mod opinion;
mod packing;
mod rtp;
mod sampler;
mod vp8_table;

pub use demux::{Demultiplexer, DemuxConfig, DemuxStats, FrameStats};
pub use frame_account::{FrameAccount, FrameSummary};
pub use frames::FrameSource;
pub use hold::Hold;
pub use jitter_buffer::{HoldTarget, InterarrivalJitter, JitterBuffer, JitterStats, Playout};
pub use mux::{Multiplexer, MuxConfig, MuxConfigError, MuxTransmit};
pub use packing::{MAX_SAMPLES, Order, Packer, Scheme, SchemeError, TrendConfig, Waiting};
pub use rtp::{AssemblerStats, FrameAssembler, Packetizer, RtpFrame};
pub use sampler::{DeadbandConfig, Decision, Reason, Sampler, SamplerError};
pub use vp8_table::{TableError, TableFrame, VideoTable};
