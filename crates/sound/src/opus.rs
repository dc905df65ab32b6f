//! Opus (RFC 6716) by libopus.
#![allow(unsafe_code)]

use crate::{Samples, SoundError};

/// Is there a libopus?
pub const fn is_available() -> bool {
    cfg!(opus)
}

/// Makes packets of frames, with the least delay that Opus has (`OPUS_APPLICATION_RESTRICTED_LOWDELAY`: it looks 2.5 ms ahead). Opus' own
/// redundancy (in-band FEC) is of a mode that this excludes: a lost packet is made up for by the channel, which sends a copy.
#[derive(Debug)]
pub struct Encoder(library::RawEncoder);

impl Encoder {
    /// With so many bits a second, 6000 to 256 000.
    ///
    /// # Errors
    /// When there is no libopus, or no such rate.
    pub fn new(bits: u32) -> Result<Self, SoundError> {
        if !(6_000..=256_000).contains(&bits) {
            return Err(SoundError::Rate(bits));
        }
        library::RawEncoder::new(bits).map(Self)
    }

    /// A packet.
    ///
    /// # Errors
    /// When libopus gives up.
    pub fn encode(&mut self, frame: &Samples) -> Result<Vec<u8>, SoundError> {
        self.0.encode(frame)
    }
}

/// Makes frames of packets.
#[derive(Debug)]
pub struct Decoder(library::RawDecoder);

impl Decoder {
    /// One that has heard nothing.
    ///
    /// # Errors
    /// When there is no libopus.
    pub fn new() -> Result<Self, SoundError> {
        library::RawDecoder::new().map(Self)
    }

    /// What is in a packet.
    ///
    /// # Errors
    /// When it is no packet of one frame; then it is as if it were lost.
    pub fn decode(&mut self, packet: &[u8]) -> Result<Samples, SoundError> {
        // No bytes are how libopus is told of a loss.
        if packet.is_empty() { Err(SoundError::Length(0)) } else { self.0.decode(packet) }
    }

    /// A frame in place of one that is missing, which goes on as the sound before it did and fades.
    pub fn conceal(&mut self) -> Samples {
        self.0.decode(&[]).unwrap_or([0; crate::FRAME])
    }
}

#[cfg(opus)]
mod library {
    use std::ffi::c_int;
    use std::ptr::{NonNull, null, null_mut};

    use crate::{FRAME, MOST_BYTES, RATE, Samples, SoundError};

    #[repr(C)]
    struct OpusEncoder([u8; 0]);
    #[repr(C)]
    struct OpusDecoder([u8; 0]);

    /// `OPUS_APPLICATION_RESTRICTED_LOWDELAY` of `opus_defines.h`.
    const LOW_DELAY: c_int = 2_051;
    /// `OPUS_SET_BITRATE_REQUEST`.
    const SET_BITRATE: c_int = 4_002;

    unsafe extern "C" {
        fn opus_encoder_create(
            rate: i32,
            channels: c_int,
            application: c_int,
            error: *mut c_int,
        ) -> *mut OpusEncoder;
        fn opus_encoder_ctl(encoder: *mut OpusEncoder, request: c_int, ...) -> c_int;
        fn opus_encode(
            encoder: *mut OpusEncoder,
            samples: *const i16,
            count: c_int,
            bytes: *mut u8,
            most: i32,
        ) -> i32;
        fn opus_encoder_destroy(encoder: *mut OpusEncoder);
        fn opus_decoder_create(rate: i32, channels: c_int, error: *mut c_int) -> *mut OpusDecoder;
        fn opus_decode(
            decoder: *mut OpusDecoder,
            bytes: *const u8,
            length: i32,
            samples: *mut i16,
            most: c_int,
            repair: c_int,
        ) -> c_int;
        fn opus_decoder_destroy(decoder: *mut OpusDecoder);
    }

    #[derive(Debug)]
    pub(super) struct RawEncoder(NonNull<OpusEncoder>);

    // SAFETY: libopus keeps nothing of an encoder by thread; whoever has it is the only one that calls.
    unsafe impl Send for RawEncoder {}

    impl RawEncoder {
        pub(super) fn new(bits: u32) -> Result<Self, SoundError> {
            // SAFETY: numbers alone, and no place for the error, which libopus allows; what comes back is null or an encoder, which only `drop` frees.
            let encoder = unsafe { opus_encoder_create(RATE as i32, 1, LOW_DELAY, null_mut()) };
            let encoder = Self(NonNull::new(encoder).ok_or(SoundError::Library)?);
            // SAFETY: the encoder lives, and this request takes one `opus_int32`.
            match unsafe { opus_encoder_ctl(encoder.0.as_ptr(), SET_BITRATE, bits as i32) } {
                0 => Ok(encoder),
                code => Err(SoundError::Codec(code)),
            }
        }

        pub(super) fn encode(&mut self, frame: &Samples) -> Result<Vec<u8>, SoundError> {
            let mut packet = vec![0; MOST_BYTES];
            let most = packet.len() as i32;
            // SAFETY: the encoder lives; it reads FRAME samples of its one channel and writes `most` bytes at most.
            let length = unsafe {
                opus_encode(self.0.as_ptr(), frame.as_ptr(), FRAME as c_int, packet.as_mut_ptr(), most)
            };
            packet.truncate(usize::try_from(length).map_err(|_| SoundError::Codec(length))?);
            Ok(packet)
        }
    }

    impl Drop for RawEncoder {
        fn drop(&mut self) {
            // SAFETY: it was made by `opus_encoder_create` and is not used any more.
            unsafe { opus_encoder_destroy(self.0.as_ptr()) }
        }
    }

    #[derive(Debug)]
    pub(super) struct RawDecoder(NonNull<OpusDecoder>);

    // SAFETY: libopus keeps nothing of a decoder by thread; whoever has it is the only one that calls.
    unsafe impl Send for RawDecoder {}

    impl RawDecoder {
        pub(super) fn new() -> Result<Self, SoundError> {
            // SAFETY: as that of an encoder.
            let decoder = unsafe { opus_decoder_create(RATE as i32, 1, null_mut()) };
            NonNull::new(decoder).map(Self).ok_or(SoundError::Library)
        }

        /// No bytes: what was lost is made up.
        pub(super) fn decode(&mut self, packet: &[u8]) -> Result<Samples, SoundError> {
            let mut samples = [0; FRAME];
            let bytes = if packet.is_empty() { null() } else { packet.as_ptr() };
            let length = i32::try_from(packet.len()).map_err(|_| SoundError::Length(packet.len()))?;
            // SAFETY: the decoder lives; it reads `length` bytes, of a null pointer none, and writes FRAME samples of its one channel at most.
            let count = unsafe {
                opus_decode(self.0.as_ptr(), bytes, length, samples.as_mut_ptr(), FRAME as c_int, 0)
            };
            match usize::try_from(count) {
                Ok(FRAME) => Ok(samples),
                Ok(count) => Err(SoundError::Length(count)),
                Err(_) => Err(SoundError::Codec(count)),
            }
        }
    }

    impl Drop for RawDecoder {
        fn drop(&mut self) {
            // SAFETY: it was made by `opus_decoder_create` and is not used any more.
            unsafe { opus_decoder_destroy(self.0.as_ptr()) }
        }
    }
}

/// In its place where there is none.
#[cfg(not(opus))]
mod library {
    use crate::{Samples, SoundError};

    #[derive(Debug)]
    pub(super) enum RawEncoder {}
    #[derive(Debug)]
    pub(super) enum RawDecoder {}

    impl RawEncoder {
        pub(super) fn new(_: u32) -> Result<Self, SoundError> {
            Err(SoundError::Missing)
        }

        pub(super) fn encode(&mut self, _: &Samples) -> Result<Vec<u8>, SoundError> {
            match *self {}
        }
    }

    impl RawDecoder {
        pub(super) fn new() -> Result<Self, SoundError> {
            Err(SoundError::Missing)
        }

        pub(super) fn decode(&mut self, _: &[u8]) -> Result<Samples, SoundError> {
            match *self {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tone;

    /// Root of the mean square.
    fn loudness(samples: &Samples) -> f64 {
        (samples.iter().map(|&sample| f64::from(sample).powi(2)).sum::<f64>() / samples.len() as f64).sqrt()
    }

    #[test]
    fn a_tone_comes_back_as_loud_and_one_lost_frame_is_made_up() {
        if !is_available() {
            return println!("skipped: there is no libopus");
        }
        let (mut encoder, mut decoder) = (Encoder::new(64_000).unwrap(), Decoder::new().unwrap());
        let mut tone = Tone::new(440.0);
        let mut heard = Vec::new();
        for number in 0..50 {
            let packet = encoder.encode(&tone.next_frame()).unwrap();
            assert!(packet.len() <= 160, "{} B", packet.len());
            heard.push(if number == 30 { decoder.conceal() } else { decoder.decode(&packet).unwrap() });
        }
        let sent = loudness(&Tone::new(440.0).next_frame());
        assert!((loudness(&heard[29]) / sent - 1.0).abs() < 0.1, "{} of {sent}", loudness(&heard[29]));
        assert!(loudness(&heard[30]) > sent / 3.0, "what is lost is not silent");
        assert!((loudness(&heard[49]) / sent - 1.0).abs() < 0.1);
    }

    #[test]
    fn what_is_no_packet_of_a_frame_is_refused() {
        assert_eq!(Encoder::new(5_000).unwrap_err(), SoundError::Rate(5_000));
        if !is_available() {
            assert_eq!(Decoder::new().unwrap_err(), SoundError::Missing);
            return println!("skipped: there is no libopus");
        }
        let mut decoder = Decoder::new().unwrap();
        // Configuration 3, 60 ms of SILK; and a code 3 packet without its count.
        for wrong in [&[][..], &[0x18, 1, 2, 3], &[0x03]] {
            assert!(decoder.decode(wrong).is_err(), "{wrong:?}");
        }
        for length in 0..200_usize {
            let bytes: Vec<u8> = (0..length).map(|at| (at * 37 + length) as u8).collect();
            let _ = decoder.decode(&bytes);
        }
    }
}
