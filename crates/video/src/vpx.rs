//! VP8 (RFC 6386) by libvpx, which is called through the functions of `vpx.c`.
#![allow(unsafe_code)]

use crate::{Image, VideoError};

/// The pictures that a frame may refer to and replaces, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Buffers(pub(crate) u32);

impl Buffers {
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const LAST: Self = Self(1);
    pub(crate) const GOLDEN: Self = Self(2);
    pub(crate) const ALTERNATIVE: Self = Self(4);

    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// What a frame turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Made {
    /// It refers to nothing: it was asked to, or libvpx thought better of it.
    pub(crate) key: bool,
    /// Nothing would make it shorter but a smaller picture.
    pub(crate) coarsest: bool,
}

/// Of a picture that is decoded: some bytes of a key frame make libvpx take 3 bytes for each, several times over.
pub(crate) const MOST_PIXELS: usize = 4_096 * 2_304;

/// The size that a key frame says that it has (RFC 6386 section 9.1); `None` of any other.
fn key_size(frame: &[u8]) -> Option<(usize, usize)> {
    let header = frame.first_chunk::<10>().filter(|header| header[0] & 1 == 0)?;
    let of = |at: usize| usize::from(u16::from_le_bytes([header[at], header[at + 1]]) & 0x3fff);
    Some((of(6), of(8)))
}

/// Is there a libvpx?
pub const fn is_available() -> bool {
    cfg!(vpx)
}

#[cfg(vpx)]
mod library {
    use std::ffi::{c_int, c_uint};
    use std::ptr::NonNull;

    use super::{Buffers, Image, Made, VideoError};

    #[repr(C)]
    struct Context([u8; 0]);

    #[repr(C)]
    struct Planes {
        data: [*const u8; 3],
        stride: [c_int; 3],
        width: c_uint,
        height: c_uint,
    }

    unsafe extern "C" {
        fn taut_vp8_encoder(
            w: c_uint,
            h: c_uint,
            rate: c_uint,
            kbps: c_uint,
            threads: c_uint,
        ) -> *mut Context;
        fn taut_vp8_set_bitrate(encoder: *mut Context, kbps: c_uint) -> c_int;
        fn taut_vp8_encode(
            encoder: *mut Context,
            planes: *const Planes,
            refers: c_uint,
            replaces: c_uint,
            bytes: *mut *const u8,
            length: *mut usize,
            key: *mut c_int,
            coarsest: *mut c_int,
        ) -> c_int;
        fn taut_vp8_encoder_free(encoder: *mut Context);
        fn taut_vp8_decoder(threads: c_uint) -> *mut Context;
        fn taut_vp8_decode(
            decoder: *mut Context,
            bytes: *const u8,
            length: c_uint,
            planes: *mut Planes,
        ) -> c_int;
        fn taut_vp8_decoder_free(decoder: *mut Context);
    }

    /// What libvpx holds for an encoder.
    #[derive(Debug)]
    pub(crate) struct RawEncoder {
        context: NonNull<Context>,
        width: usize,
        height: usize,
    }

    // SAFETY: libvpx keeps nothing of an encoder by thread; whoever has it is the only one that calls.
    unsafe impl Send for RawEncoder {}

    impl RawEncoder {
        pub(crate) fn new(
            width: usize,
            height: usize,
            frame_rate: u32,
            kbps: u32,
            threads: u32,
        ) -> Result<Self, VideoError> {
            Image::new(width, height)?;
            // SAFETY: numbers alone; what comes back is null or an encoder, which only `drop` frees.
            let context = unsafe { taut_vp8_encoder(width as u32, height as u32, frame_rate, kbps, threads) };
            let context = NonNull::new(context).ok_or(VideoError::Library)?;
            Ok(Self { context, width, height })
        }

        /// Columns and rows of the pictures that it takes.
        pub(crate) fn size(&self) -> (usize, usize) {
            (self.width, self.height)
        }

        pub(crate) fn set_bitrate(&mut self, kbps: u32) -> Result<(), VideoError> {
            // SAFETY: the encoder lives as long as `self`.
            match unsafe { taut_vp8_set_bitrate(self.context.as_ptr(), kbps) } {
                0 => Ok(()),
                code => Err(VideoError::Codec(code)),
            }
        }

        /// Appends the frame to `buffer`.
        pub(crate) fn encode(
            &mut self,
            image: &Image,
            refers: Buffers,
            replaces: Buffers,
            buffer: &mut Vec<u8>,
        ) -> Result<Made, VideoError> {
            if (image.width(), image.height()) != (self.width, self.height) {
                return Err(VideoError::Size { width: image.width(), height: image.height() });
            }
            let planes = Planes {
                data: image.planes().map(<[u8]>::as_ptr),
                stride: image.strides().map(|stride| stride as c_int),
                width: image.width() as c_uint,
                height: image.height() as c_uint,
            };
            let (mut bytes, mut length, mut key, mut coarsest) = (std::ptr::null(), 0, 0, 0);
            // SAFETY: the planes have as many rows of their strides as the size says, and outlive the call, which only reads them.
            let failed = unsafe {
                taut_vp8_encode(
                    self.context.as_ptr(),
                    &raw const planes,
                    refers.0,
                    replaces.0,
                    &raw mut bytes,
                    &raw mut length,
                    &raw mut key,
                    &raw mut coarsest,
                )
            };
            if failed != 0 || bytes.is_null() {
                return Err(VideoError::Codec(failed));
            }
            // SAFETY: they are the encoder's own until it is called again, and copied before.
            buffer.extend_from_slice(unsafe { std::slice::from_raw_parts(bytes, length) });
            Ok(Made { key: key != 0, coarsest: coarsest != 0 })
        }
    }

    impl Drop for RawEncoder {
        fn drop(&mut self) {
            // SAFETY: nobody else has it, and nobody has it after this.
            unsafe { taut_vp8_encoder_free(self.context.as_ptr()) }
        }
    }

    /// What libvpx holds for a decoder.
    #[derive(Debug)]
    pub(crate) struct RawDecoder(NonNull<Context>);

    // SAFETY: as for the encoder.
    unsafe impl Send for RawDecoder {}

    impl RawDecoder {
        pub(crate) fn new() -> Result<Self, VideoError> {
            // SAFETY: a number alone; what comes back is null or a decoder, which only `drop` frees.
            let context = unsafe { taut_vp8_decoder(1) };
            NonNull::new(context).map(Self).ok_or(VideoError::Library)
        }

        /// `None`: others refer to it, and nobody is to see it, as the fifth bit says (RFC 6386 section 9.1).
        pub(crate) fn decode(&mut self, frame: &[u8]) -> Result<Option<Image>, VideoError> {
            if let Some((width, height)) = super::key_size(frame)
                && width * height > super::MOST_PIXELS
            {
                return Err(VideoError::Size { width, height });
            }
            let length = u32::try_from(frame.len()).map_err(|_| VideoError::Codec(-1))?;
            let mut planes = Planes { data: [std::ptr::null(); 3], stride: [0; 3], width: 0, height: 0 };
            // SAFETY: the bytes outlive the call, which reads no more than `length` of them.
            let failed = unsafe { taut_vp8_decode(self.0.as_ptr(), frame.as_ptr(), length, &raw mut planes) };
            if failed == -1 && frame.first().is_some_and(|first| first & 0x10 == 0) {
                return Ok(None);
            }
            if failed != 0 {
                return Err(VideoError::Codec(failed));
            }
            let mut image = Image::new(planes.width as usize, planes.height as usize)?;
            let (width, strides) = (image.width(), image.strides());
            for (at, plane) in image.planes_mut().into_iter().enumerate() {
                let columns = if at == 0 { width } else { strides[1] };
                for (row, line) in plane.chunks_exact_mut(columns).enumerate() {
                    // SAFETY: libvpx's planes have as many rows as its size says, each of at least so many columns, `stride` apart;
                    // they are the decoder's own until it is called again.
                    let theirs = unsafe {
                        let begin = planes.data[at].offset(row as isize * planes.stride[at] as isize);
                        std::slice::from_raw_parts(begin, columns)
                    };
                    line.copy_from_slice(theirs);
                }
            }
            Ok(Some(image))
        }
    }

    impl Drop for RawDecoder {
        fn drop(&mut self) {
            // SAFETY: nobody else has it, and nobody has it after this.
            unsafe { taut_vp8_decoder_free(self.0.as_ptr()) }
        }
    }
}

#[cfg(not(vpx))]
mod library {
    use super::{Buffers, Image, Made, VideoError};

    /// There is none.
    #[derive(Debug)]
    pub(crate) enum RawEncoder {}

    impl RawEncoder {
        pub(crate) fn new(_: usize, _: usize, _: u32, _: u32, _: u32) -> Result<Self, VideoError> {
            Err(VideoError::Missing)
        }

        pub(crate) fn size(&self) -> (usize, usize) {
            match *self {}
        }

        pub(crate) fn set_bitrate(&mut self, _: u32) -> Result<(), VideoError> {
            match *self {}
        }

        pub(crate) fn encode(
            &mut self,
            _: &Image,
            _: Buffers,
            _: Buffers,
            _: &mut Vec<u8>,
        ) -> Result<Made, VideoError> {
            match *self {}
        }
    }

    /// There is none.
    #[derive(Debug)]
    pub(crate) enum RawDecoder {}

    impl RawDecoder {
        pub(crate) fn new() -> Result<Self, VideoError> {
            Err(VideoError::Missing)
        }

        pub(crate) fn decode(&mut self, _: &[u8]) -> Result<Option<Image>, VideoError> {
            match *self {}
        }
    }
}

pub(crate) use library::{RawDecoder, RawEncoder};
