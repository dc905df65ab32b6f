//! Live pictures on a session's channels: encoder and decoder, and what they tell each other.
//!
//! | at the camera | at the screen |
//! | --- | --- |
//! | [`Scene`], a test picture; [`Drawing`], of a robot that no camera sees, as an [arm](ARM_URDF); [`Image`] | [`Image`] |
//! | [`Encoder`]: pictures into payloads | [`Decoder`]: payloads into pictures |
//! | [`Encoder::ask`] | [`Taken::ask`] |
//! | [`Passing`]: frames of another encoder as they are | |
//! | [`Ivf`]: frames in a file; [`Film`], its pictures; [`RtpFrames`]: frames of another encoder | |
//!
//! VP8 (RFC 6386) by the system's libvpx; where taut was built without it, [`is_available`] is false and everything else says so. With the feature `openh264` H.264 beside it
//! ([`EncoderConfig::codec`], [`has_h264`]). Both ends
//! are state machines without clocks: the header that stands before each frame is [`taut_media::picture`]'s. After a loss no key frame is made, which
//! takes three frames' time, but a frame that refers to what the receiver said that it has.
//!
//! ```
//! use taut_video::{Decoder, Encoder, EncoderConfig, Scene, VideoError};
//! # fn main() -> Result<(), VideoError> {
//! # if !taut_video::is_available() { return Ok(()) }
//! let mut scene = Scene::new(640, 480)?;
//! let mut encoder = Encoder::new(EncoderConfig::new(640, 480, 30))?;
//! let mut decoder = Decoder::new()?;
//! for number in 0..3 {
//!     let made = encoder.encode(scene.draw(number))?;
//!     let taken = decoder.take(&made.payload)?;
//!     assert_eq!(Scene::read(&taken.decoded[0].image), Some(number));
//!     taken.ask.into_iter().for_each(|ask| encoder.ask(ask));
//! }
//! # Ok(())
//! # }
//! ```

mod arm;
mod decoder;
mod drawing;
mod encoder;
mod film;
mod h264;
mod halving;
mod image;
mod ivf;
#[cfg_attr(not(feature = "openh264"), allow(dead_code))]
mod longterm;
mod passing;
#[cfg_attr(not(feature = "openh264"), allow(dead_code))]
mod quantiser;
mod references;
mod scene;
#[cfg_attr(not(feature = "openh264"), allow(dead_code))]
mod slice;
mod vpx;

pub use arm::{ARM_URDF, arm_joints};
pub use decoder::{Decoded, Decoder, DecoderCounts, Taken};
pub use drawing::{Drawing, Shown};
pub use encoder::{Encoded, Encoder, EncoderConfig};
pub use film::{Film, FrameDecoder, RtpCounts, RtpFrames, RtpTaken};
pub use h264::is_available as has_h264;
pub use image::{Image, Rows};
pub use ivf::{Ivf, IvfHeader, ivf_frame};
pub use passing::Passing;
pub use scene::{LEAST_SCENE, Scene};
use taut_media::picture::{Codec, PictureError};
pub use vpx::is_available;

/// Why there is no picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VideoError {
    /// It was built without.
    #[error("this taut was built without libvpx: install libvpx-dev and build it again")]
    Missing,
    /// It is not the one whose headers it was built with, or memory is short.
    #[error("libvpx does not start: is it another version than taut was built with? Build taut again")]
    Library,
    /// It was built without.
    #[error("this taut was built without OpenH264: build it again with --features openh264")]
    NoH264,
    /// OpenH264's own number, -1: it made no picture.
    #[error("OpenH264 gives up with error {0}")]
    OpenH264(i64),
    /// libvpx's own number.
    #[error("libvpx gives up with error {0}")]
    Codec(i32),
    /// Of pixels.
    #[error("{width}×{height} pixels are not taken here")]
    Size {
        /// In a row.
        width: usize,
        /// Rows.
        height: usize,
    },
    /// Too few or too many.
    #[error("{given} B, and such a picture has {needed}")]
    Bytes {
        /// There are so many.
        given: usize,
        /// So many belong there.
        needed: usize,
    },
    /// A payload is no picture.
    #[error("no picture: {0}")]
    Picture(PictureError),
    /// It comes in a codec that is shown elsewhere.
    #[error("{0:?} is not decoded here")]
    NotDecoded(Codec),
    /// It is made elsewhere.
    #[error("{0:?} is not encoded here")]
    NotEncoded(Codec),
    /// It is not as its kind of file is.
    #[error("the file is {0}")]
    File(&'static str),
}
