//! Video frames in RTP packets and out of them again.

mod assembler;
mod packetizer;

pub use assembler::{AssemblerStats, FrameAssembler, RtpFrame};
pub use packetizer::Packetizer;

#[cfg(test)]
mod tests;
