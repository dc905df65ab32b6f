//! Sound on a session's channels: what is heard at one end is played at the other, and how old it is then.
//!
//! | at the microphone | at the loudspeaker |
//! | --- | --- |
//! | [`Tone`], [`Clicks`]: test sounds | [`Onsets`]: finds the clicks again |
//! | [`Encoder`]: frames into packets | [`Decoder`]: packets into frames; what is missing is made up |
//! | | [`Ear`]: what is played when, as by a sound card, and what came too late for that |
//!
//! Sound is one channel of it, 48 000 samples a second of 16 bits, in frames of 10 ms. A payload of schema [`SCHEMA`] is one packet of
//! Opus (RFC 6716), which says itself how long it is; when its first sample was heard says the channel, with every message. Everything here is a state
//! machine without clocks. Opus is the system's libopus; where taut was built without it, [`is_available`] is false and everything else says so.
//!
//! ```
//! use taut_sound::{Clicks, Decoder, Encoder, FRAME, Onsets, SoundError};
//! # fn main() -> Result<(), SoundError> {
//! # if !taut_sound::is_available() { return Ok(()) }
//! let (mut encoder, mut decoder) = (Encoder::new(64_000)?, Decoder::new()?);
//! let (mut clicks, mut onsets) = (Clicks::default(), Onsets::default());
//! let mut found = Vec::new();
//! for _ in 0..100 {
//!     let heard = decoder.decode(&encoder.encode(&clicks.next_frame())?)?;
//!     found.extend(onsets.find(&heard));
//! }
//! // A second of clicks, two a second. Each comes as much later as the encoder looks ahead.
//! assert_eq!(found.len(), 2);
//! assert!(found[0] < FRAME / 2);
//! # Ok(())
//! # }
//! ```

mod ear;
mod opus;
mod test_sound;

pub use ear::{Ear, EarCounts, Played};
pub use opus::{Decoder, Encoder, is_available};
pub use test_sound::{Clicks, Onsets, Tone};

use taut_core::Duration;

/// The schema of a channel of sound.
pub const SCHEMA: &str = "taut/Opus";
/// Samples a second.
pub const RATE: usize = 48_000;
/// Samples of a frame.
pub const FRAME: usize = RATE / 100;
/// How long a frame lasts.
pub const PERIOD: Duration = Duration::from_millis(10);
/// Of an encoded frame, bytes at most: what is held for longer is no packet of 10 ms.
pub const MOST_BYTES: usize = 1_275;

/// 10 ms of sound.
pub type Samples = [i16; FRAME];

/// Why there is no sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SoundError {
    /// It was built without.
    #[error("this taut was built without libopus: install libopus-dev and build it again")]
    Missing,
    /// Memory is short.
    #[error("libopus does not start")]
    Library,
    /// Beyond what Opus has for one channel.
    #[error("{0} bit/s, and Opus has 6000 to 256000 for one channel")]
    Rate(u32),
    /// libopus's own number.
    #[error("libopus gives up with error {0}")]
    Codec(i32),
    /// Of another length.
    #[error("a packet of {0} samples, and 480 belong there")]
    Length(usize),
}
