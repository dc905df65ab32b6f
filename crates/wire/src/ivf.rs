//! IVF, the file that libvpx's and FFmpeg's tools keep encoded frames in: a header of 32 bytes, then 12 bytes before each frame, little-endian.
//!
//! Source: the description of the format in libvpx's `ivfdec.c` and `ivfenc.h`.
//!
//! ```
//! use taut_wire::ivf::{Header, frame_at, parse};
//! let header = Header { width: 640, height: 480, rate: 30, scale: 1 };
//! let mut file = header.emit();
//! file.extend(taut_wire::ivf::frame(7, b"frame"));
//! let (found, fourcc, at) = parse(&file)?;
//! assert_eq!((found, fourcc), (header, *b"VP80"));
//! let (time, bytes) = frame_at(&file, at).expect("there is one");
//! assert_eq!((time, &file[bytes]), (7, &b"frame"[..]));
//! # Ok::<(), taut_wire::ivf::Error>(())
//! ```

use std::ops::Range;

const HEADER_LEN: usize = 32;
const FRAME_HEADER_LEN: usize = 12;

/// What a file says of its frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Pixels.
    pub width: u16,
    /// Pixels.
    pub height: u16,
    /// Units of time in a second.
    pub rate: u32,
    /// Seconds in so many units.
    pub scale: u32,
}

/// Why bytes are no such file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Its first bytes are others.
    #[error("this does not begin like an IVF file")]
    Magic,
    /// It is shorter than its header.
    #[error("too short")]
    Truncated,
    /// Time has no unit.
    #[error("a clock that does not tick")]
    Clock,
}

/// The header, the codec (`VP80` for VP8), and where the first frame is.
///
/// # Errors
/// When it is no such file, or time has no unit.
pub fn parse(bytes: &[u8]) -> Result<(Header, [u8; 4], usize), Error> {
    if !bytes.starts_with(b"DKIF") {
        return Err(Error::Magic);
    }
    let header = bytes.first_chunk::<HEADER_LEN>().ok_or(Error::Truncated)?;
    let u16_at = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
    let u32_at = |at: usize| u32::from(u16_at(at)) | u32::from(u16_at(at + 2)) << 16;
    let start = usize::from(u16_at(6));
    let fourcc = [header[8], header[9], header[10], header[11]];
    let header = Header { width: u16_at(12), height: u16_at(14), rate: u32_at(16), scale: u32_at(20) };
    match header {
        _ if start < HEADER_LEN => Err(Error::Truncated),
        Header { rate: 0, .. } | Header { scale: 0, .. } => Err(Error::Clock),
        header => Ok((header, fourcc, start)),
    }
}

/// The time of the frame that begins there, in the file's units, and where its bytes are; `None` where they are not all there.
pub fn frame_at(bytes: &[u8], at: usize) -> Option<(u64, Range<usize>)> {
    let (length, rest) = bytes.get(at..)?.split_first_chunk()?;
    let (time, rest) = rest.split_first_chunk()?;
    let length = u32::from_le_bytes(*length) as usize;
    let begin = at + FRAME_HEADER_LEN;
    (length <= rest.len()).then(|| (u64::from_le_bytes(*time), begin..begin + length))
}

impl Header {
    /// The beginning of a file of VP8 frames.
    pub fn emit(&self) -> Vec<u8> {
        let mut bytes = b"DKIF\0\0\x20\0VP80".to_vec();
        bytes.extend_from_slice(&self.width.to_le_bytes());
        bytes.extend_from_slice(&self.height.to_le_bytes());
        bytes.extend_from_slice(&self.rate.to_le_bytes());
        bytes.extend_from_slice(&self.scale.to_le_bytes());
        // The number of frames, which nobody knows while they are written, and 4 bytes without a use.
        bytes.extend_from_slice(&[0; 8]);
        bytes
    }
}

/// A frame in a file, at this time in its units.
pub fn frame(time: u64, frame: &[u8]) -> Vec<u8> {
    let mut bytes = (frame.len() as u32).to_le_bytes().to_vec();
    bytes.extend_from_slice(&time.to_le_bytes());
    bytes.extend_from_slice(frame);
    bytes
}
