//! A picture on a channel of kind `video`, and what its receiver asks of the encoder.
//!
//! A payload of schema [`SCHEMA`] is a header of [`HEADER`] bytes, then the encoded frame. Numbers are big-endian.
//!
//! | bytes | what |
//! | --- | --- |
//! | 0 | version, 1 |
//! | 1 | codec: 1 VP8 (RFC 6386), 2 H.264 in Annex B byte stream (ITU-T H.264), 3 JPEG (ITU-T T.81) |
//! | 2 | flags: bit 0 key frame; bit 1 needs nothing but a key frame or a reference that was acknowledged; the others 0 |
//! | 3 | 0 |
//! | 4–5 | width, pixels, 1 or more |
//! | 6–7 | height, pixels, 1 or more |
//! | 8–11 | number of the frame, one more each frame, wraps |
//! | 12–15 | number of the frame that this one needs; of a key frame its own |
//!
//! When the frame was made says the channel, with every message. A receiver decodes a key frame at once, and any other when it has decoded the
//! frame that this one needs; if it has not, it drops it and says so in its next [`Ask`].
//!
//! An [`Ask`] of schema [`ASK_SCHEMA`] goes back on the channel that [`ask_channel`] names, 8 bytes; the newest counts:
//!
//! | bytes | what |
//! | --- | --- |
//! | 0 | version, 1 |
//! | 1 | flags: bit 0 a key frame is needed; bit 1 a frame came that needs one that is missing; the others 0 |
//! | 2–3 | without flags: by how much later frames would better be made, in 0.1 ms, signed: where a display shows so many a second, one that comes just after it began a
//! picture waits for the next. 0: as they are, or nobody knows. With flags 0 |
//! | 4–7 | number of the last frame that was decoded; where bit 0 is set, of the one that came last, or 0 |

use thiserror::Error;

/// The schema of pictures.
pub const SCHEMA: &str = "taut/Picture";
/// The schema of what is asked of an encoder.
pub const ASK_SCHEMA: &str = "taut/PictureAsk";
/// Bytes before an encoded frame.
pub const HEADER: usize = 16;
/// Bytes of an [`Ask`].
pub const ASK: usize = 8;

const VERSION: u8 = 1;

/// The name of the channel on which the receiver of this one asks: `front/ask` for `front`.
pub fn ask_channel(name: &str) -> String {
    format!("{name}/ask")
}

/// How frames are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Codec {
    /// RFC 6386.
    Vp8,
    /// ITU-T H.264, Annex B byte stream: start codes before each unit, parameter sets before each key frame.
    H264,
    /// ITU-T T.81. Every frame is a key frame.
    Jpeg,
}

/// What stands before an encoded frame.
///
/// ```
/// use taut_media::picture::{Codec, Picture};
/// let key = Picture::key(Codec::Vp8, 640, 480, 7);
/// let mut payload = Vec::new();
/// key.emit(&mut payload);
/// payload.extend_from_slice(b"encoded frame");
/// assert_eq!(Picture::parse(&payload), Ok((key, &b"encoded frame"[..])));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Picture {
    /// How the frame is encoded.
    pub codec: Codec,
    /// It is decoded without any other.
    pub key: bool,
    /// It needs nothing but a key frame or a reference that was acknowledged: a frame lost before it does no harm.
    pub recovers: bool,
    /// Pixels, 1 or more.
    pub width: u16,
    /// Pixels, 1 or more.
    pub height: u16,
    /// One more each frame; wraps.
    pub number: u32,
    /// The frame that this one needs; of a key frame its own number.
    pub reference: u32,
}

/// Why bytes are no picture, or no ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PictureError {
    /// Shorter than its header.
    #[error("{0} B are too short")]
    Short(usize),
    /// Of another version.
    #[error("version {0}, and only 1 is known")]
    Version(u8),
    /// Of a codec that is not known.
    #[error("codec {0}, and only 1 (VP8), 2 (H.264) and 3 (JPEG) are known")]
    Codec(u8),
    /// Without pixels.
    #[error("{width}×{height} pixels")]
    Size {
        /// Pixels.
        width: u16,
        /// Pixels.
        height: u16,
    },
    /// Bits that have no meaning are set.
    #[error("bits that have to be 0 are set")]
    Reserved,
    /// A key frame that needs another, or another frame that needs itself.
    #[error("frame {number} needs frame {reference}, which does not fit its flags")]
    Reference {
        /// The frame.
        number: u32,
        /// What it needs.
        reference: u32,
    },
}

impl Picture {
    /// A key frame.
    pub const fn key(codec: Codec, width: u16, height: u16, number: u32) -> Self {
        Self { codec, key: true, recovers: true, width, height, number, reference: number }
    }

    /// The header, and the encoded frame behind it.
    pub fn parse(payload: &[u8]) -> Result<(Self, &[u8]), PictureError> {
        let Some((&header, frame)) = payload.split_first_chunk::<HEADER>() else {
            return Err(PictureError::Short(payload.len()));
        };
        let [version, codec, flags, zero, w0, w1, h0, h1, n0, n1, n2, n3, r0, r1, r2, r3] = header;
        if version != VERSION {
            return Err(PictureError::Version(version));
        }
        let codec = match codec {
            1 => Codec::Vp8,
            2 => Codec::H264,
            3 => Codec::Jpeg,
            other => return Err(PictureError::Codec(other)),
        };
        if flags & !3 != 0 || zero != 0 {
            return Err(PictureError::Reserved);
        }
        let (width, height) = (u16::from_be_bytes([w0, w1]), u16::from_be_bytes([h0, h1]));
        if width == 0 || height == 0 {
            return Err(PictureError::Size { width, height });
        }
        let number = u32::from_be_bytes([n0, n1, n2, n3]);
        let reference = u32::from_be_bytes([r0, r1, r2, r3]);
        let key = flags & 1 != 0;
        if key != (number == reference) {
            return Err(PictureError::Reference { number, reference });
        }
        let recovers = flags & 2 != 0;
        Ok((Self { codec, key, recovers, width, height, number, reference }, frame))
    }

    /// Appends the header to `buffer`.
    pub fn emit(&self, buffer: &mut Vec<u8>) {
        let codec = match self.codec {
            Codec::Vp8 => 1,
            Codec::H264 => 2,
            Codec::Jpeg => 3,
        };
        let flags = u8::from(self.key) | u8::from(self.recovers) << 1;
        buffer.extend_from_slice(&[VERSION, codec, flags, 0]);
        buffer.extend_from_slice(&self.width.to_be_bytes());
        buffer.extend_from_slice(&self.height.to_be_bytes());
        buffer.extend_from_slice(&self.number.to_be_bytes());
        buffer.extend_from_slice(&self.reference.to_be_bytes());
    }
}

/// What a receiver tells the encoder: after every frame that it decoded, and once a frame period while it lacks one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ask {
    /// Nothing is missing.
    Decoded {
        /// This was decoded last.
        last: u32,
        /// By how much later frames would better be made for the display, 0.1 ms.
        later: i16,
    },
    /// This was decoded last, and a frame came since that needs one that is missing: one is wanted that needs only what was acknowledged.
    Missing(u32),
    /// Nothing is decoded, and this came last (0: nothing is said of that): a key frame is needed.
    Key(u32),
}

impl Ask {
    /// The ask in a payload.
    pub fn parse(payload: &[u8]) -> Result<Self, PictureError> {
        let Ok([version, flags, high, low, last @ ..]) = <[u8; ASK]>::try_from(payload) else {
            return Err(PictureError::Short(payload.len()));
        };
        if version != VERSION {
            return Err(PictureError::Version(version));
        }
        let last = u32::from_be_bytes(last);
        match (flags, high, low) {
            (0, ..) => Ok(Self::Decoded { last, later: i16::from_be_bytes([high, low]) }),
            (2, 0, 0) => Ok(Self::Missing(last)),
            (1 | 3, 0, 0) => Ok(Self::Key(last)),
            _ => Err(PictureError::Reserved),
        }
    }

    /// Its payload.
    pub const fn emit(self) -> [u8; ASK] {
        let (flags, later, last) = match self {
            Self::Decoded { last, later } => (0, later, last),
            Self::Missing(last) => (2, 0, last),
            Self::Key(last) => (1, 0, last),
        };
        let ([a, b, c, d], [high, low]) = (last.to_be_bytes(), later.to_be_bytes());
        [VERSION, flags, high, low, a, b, c, d]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GOLDEN: [u8; HEADER] = [1, 2, 2, 0, 2, 128, 1, 224, 0, 0, 1, 0, 0, 0, 0, 255];

    fn golden() -> Picture {
        let (number, reference) = (256, 255);
        Picture { codec: Codec::H264, key: false, recovers: true, width: 640, height: 480, number, reference }
    }

    #[test]
    fn a_header_has_these_bytes() {
        let mut bytes = Vec::new();
        golden().emit(&mut bytes);
        assert_eq!(bytes, GOLDEN);
        assert_eq!(Picture::parse(&GOLDEN), Ok((golden(), &[][..])));
    }

    #[test]
    fn an_ask_has_these_bytes() {
        for (ask, bytes) in [
            (Ask::Decoded { last: 258, later: 0 }, [1, 0, 0, 0, 0, 0, 1, 2]),
            (Ask::Decoded { last: 258, later: -25 }, [1, 0, 255, 231, 0, 0, 1, 2]),
            (Ask::Missing(258), [1, 2, 0, 0, 0, 0, 1, 2]),
            (Ask::Key(0), [1, 1, 0, 0, 0, 0, 0, 0]),
            (Ask::Key(258), [1, 1, 0, 0, 0, 0, 1, 2]),
        ] {
            assert_eq!(ask.emit(), bytes);
            assert_eq!(Ask::parse(&bytes), Ok(ask));
        }
    }

    #[test]
    fn what_is_no_picture_is_refused_with_its_reason() {
        let with = |at: usize, byte: u8| {
            let mut bytes = GOLDEN;
            bytes[at] = byte;
            Picture::parse(&bytes).map(|_| ()).unwrap_err()
        };
        assert_eq!(Picture::parse(&GOLDEN[..15]), Err(PictureError::Short(15)));
        assert_eq!(with(0, 2), PictureError::Version(2));
        assert_eq!(with(1, 4), PictureError::Codec(4));
        assert_eq!(with(2, 4), PictureError::Reserved);
        assert_eq!(with(3, 1), PictureError::Reserved);
        assert_eq!(with(2, 3), PictureError::Reference { number: 256, reference: 255 });
        let mut flat = GOLDEN;
        flat[4..6].fill(0);
        assert_eq!(Picture::parse(&flat), Err(PictureError::Size { width: 0, height: 480 }));
        assert_eq!(Ask::parse(&[1; 7]), Err(PictureError::Short(7)));
        assert_eq!(Ask::parse(&[1, 4, 0, 0, 0, 0, 0, 0]), Err(PictureError::Reserved));
        assert_eq!(Ask::parse(&[1, 2, 0, 1, 0, 0, 0, 0]), Err(PictureError::Reserved));
    }

    proptest! {
        #[test]
        fn what_was_emitted_parses_to_the_same(width in 1u16.., height in 1u16.., number: u32, back: u32, recovers: bool, frame: Vec<u8>) {
            let reference = number.wrapping_sub(back);
            let picture = Picture { codec: Codec::Jpeg, key: back == 0, recovers, width, height, number, reference };
            let mut bytes = Vec::new();
            picture.emit(&mut bytes);
            bytes.extend_from_slice(&frame);
            prop_assert_eq!(Picture::parse(&bytes), Ok((picture, &frame[..])));
        }

        #[test]
        fn any_bytes_are_read_without_panic_and_mean_one_thing(bytes: Vec<u8>) {
            if let Ok((picture, frame)) = Picture::parse(&bytes) {
                let mut again = Vec::new();
                picture.emit(&mut again);
                again.extend_from_slice(frame);
                prop_assert_eq!(&again, &bytes);
            }
            let _ = Ask::parse(&bytes);
        }
    }
}
