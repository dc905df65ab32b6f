//! The beginning of a VP8 frame (RFC 6386 sections 9 and 19.2), as far as its quantiser.
//!
//! A frame begins with a tag of three bytes, in a key frame followed by a start code and the size of the picture. What
//! comes then is coded by the boolean entropy coder (section 7): the quantiser's index, `y_ac_qi`, stands behind the
//! segmentation and the loop filter, none of which has a fixed length.
//!
//! ```
//! use taut_wire::rtp::vp8::FrameHeader;
//! let header = FrameHeader { key: true, quantizer_index: 59 };
//! let mut frame = Vec::new();
//! header.emit((480, 360), &mut frame);
//! assert_eq!(FrameHeader::parse(&frame), Some(header));
//! assert_eq!(header.quantizer_step(), 68);
//! ```

/// What the beginning of a frame tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Can it be decoded by itself?
    pub key: bool,
    /// `y_ac_qi`, 0 to 127: how coarse the picture is; that of all of it, which segments may differ from.
    pub quantizer_index: u8,
}

/// Behind the tag of a key frame (section 9.1).
const START_CODE: [u8; 3] = [0x9d, 0x01, 0x2a];
/// Probability of a 0, in 256ths, of what is not compressed.
const EVEN: u8 = 128;

impl FrameHeader {
    /// Bytes of the longest beginning that [`FrameHeader::parse`] reads: ten that are not coded, and 200 coded bits.
    pub const MAX_LEN: usize = 36;

    /// Reads the beginning of a frame. `None` when it is cut short or begins otherwise.
    pub fn parse(frame: &[u8]) -> Option<Self> {
        let key = frame.first()? & 1 == 0;
        if key && frame.get(3..6)? != START_CODE {
            return None;
        }
        let mut bits = BoolDecoder::new(frame.get(if key { 10 } else { 3 }..)?)?;
        if key {
            // color_space, clamping_type
            bits.literal(2)?;
        }
        if bits.flag()? {
            skip_segmentation(&mut bits)?;
        }
        // filter_type, loop_filter_level, sharpness_level
        bits.literal(1 + 6 + 3)?;
        // mb_lf_adjustments: four by reference frame, four by mode
        if bits.flag()? && bits.flag()? {
            skip_deltas(&mut bits, [6 + 1; 8])?;
        }
        // log2_nbr_of_dct_partitions
        bits.literal(2)?;
        Some(Self { key, quantizer_index: bits.literal(7)? })
    }

    /// Appends the beginning of a frame of `width` × `height` without segments, loop filter and further partitions. What
    /// follows is no picture.
    ///
    /// # Panics
    /// With an index above 127 or a side above 16383.
    pub fn emit(&self, (width, height): (u16, u16), frame: &mut Vec<u8>) {
        assert!(self.quantizer_index < 128, "a quantiser's index has 7 bits");
        assert!(width < 1 << 14 && height < 1 << 14, "sides have 14 bits");
        // Version 0, shown; the first partition's length is left 0.
        frame.extend([0x10 | u8::from(!self.key), 0, 0]);
        let mut bits = BoolEncoder::new();
        if self.key {
            frame.extend(START_CODE);
            frame.extend(width.to_le_bytes());
            frame.extend(height.to_le_bytes());
            bits.literal(0, 2);
        }
        bits.literal(0, 1 + 10 + 1 + 2);
        bits.literal(self.quantizer_index, 7);
        bits.finish(frame);
    }

    /// The quantiser's step of luma's AC coefficients (section 14.1), 4 to 284.
    ///
    /// A coefficient is twice that of an orthonormal transform: the inverse transform makes an eighth of a lone DC coefficient
    /// of every pixel (section 14.3), where an orthonormal one makes a quarter.
    pub const fn quantizer_step(&self) -> u16 {
        AC_STEPS[self.quantizer_index as usize & 0x7f]
    }
}

/// `update_segmentation()`: quantiser and loop filter of four segments, and the probabilities of their map.
fn skip_segmentation(bits: &mut BoolDecoder<'_>) -> Option<()> {
    let (map, data) = (bits.flag()?, bits.flag()?);
    if data {
        // segment_feature_mode
        bits.flag()?;
        skip_deltas(bits, [7 + 1, 7 + 1, 7 + 1, 7 + 1, 6 + 1, 6 + 1, 6 + 1, 6 + 1])?;
    }
    if map {
        skip_deltas(bits, [8; 3])?;
    }
    Some(())
}

/// Values of so many bits, each only there behind a flag that is set.
fn skip_deltas<const N: usize>(bits: &mut BoolDecoder<'_>, widths: [u32; N]) -> Option<()> {
    for width in widths {
        if bits.flag()? {
            bits.literal(width)?;
        }
    }
    Some(())
}

/// The boolean decoder (section 7.3), for what has even odds.
struct BoolDecoder<'a> {
    rest: &'a [u8],
    /// Two bytes, of which the upper one is compared.
    value: u32,
    range: u32,
    /// Shifted out of the lower byte so far.
    shifted: u32,
}

impl<'a> BoolDecoder<'a> {
    fn new(bytes: &'a [u8]) -> Option<Self> {
        let (first, rest) = bytes.split_first_chunk::<2>()?;
        Some(Self { rest, value: u16::from_be_bytes(*first).into(), range: 255, shifted: 0 })
    }

    fn flag(&mut self) -> Option<bool> {
        let split = 1 + (((self.range - 1) * u32::from(EVEN)) >> 8);
        let one = self.value >= split << 8;
        if one {
            self.range -= split;
            self.value -= split << 8;
        } else {
            self.range = split;
        }
        while self.range < 128 {
            self.value <<= 1;
            self.range <<= 1;
            self.shifted += 1;
            if self.shifted == 8 {
                self.shifted = 0;
                let (next, rest) = self.rest.split_first()?;
                (self.value, self.rest) = (self.value | u32::from(*next), rest);
            }
        }
        Some(one)
    }

    /// The last eight of `bits` bits, the first of them the highest.
    fn literal(&mut self, bits: u32) -> Option<u8> {
        (0..bits).try_fold(0, |value: u8, _| Some(value << 1 | u8::from(self.flag()?)))
    }
}

/// The boolean encoder (section 7.3), for a few bits that have even odds: so few that nothing is ever carried out.
struct BoolEncoder {
    low: u64,
    range: u64,
    /// Bits of `low` beyond the first eight.
    shifted: u32,
}

impl BoolEncoder {
    /// Bits that it is good for.
    const ROOM: u32 = 40;

    const fn new() -> Self {
        Self { low: 0, range: 255, shifted: 0 }
    }

    fn flag(&mut self, one: bool) {
        let split = 1 + (((self.range - 1) * u64::from(EVEN)) >> 8);
        if one {
            self.low += split;
            self.range -= split;
        } else {
            self.range = split;
        }
        while self.range < 128 {
            (self.low, self.range, self.shifted) = (self.low << 1, self.range << 1, self.shifted + 1);
        }
    }

    /// The lowest `bits` of a value, the highest of them first.
    fn literal(&mut self, value: u8, bits: u32) {
        (0..bits).rev().for_each(|at| self.flag(value.checked_shr(at).unwrap_or(0) & 1 == 1));
    }

    fn finish(self, bytes: &mut Vec<u8>) {
        let aligned = self.low << (Self::ROOM - self.shifted);
        bytes.extend_from_slice(&aligned.to_be_bytes()[2..]);
    }
}

/// RFC 6386 section 14.1, `ac_qlookup`.
const AC_STEPS: [u16; 128] = [
    4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,
    32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57,
    58, 60, 62, 64, 66, 68, 70, 72, 74, 76, 78, 80, 82, 84, 86, 88, 90, 92, 94, 96, 98, 100, 102, 104, 106,
    108, 110, 112, 114, 116, 119, 122, 125, 128, 131, 134, 137, 140, 143, 146, 149, 152, 155, 158, 161, 164,
    167, 170, 173, 177, 181, 185, 189, 193, 197, 201, 205, 209, 213, 217, 221, 225, 229, 234, 239, 245, 249,
    254, 259, 264, 269, 274, 279, 284,
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The beginnings of the first frame and the second, as libvpx 1.12 made them with one quantiser for all:
    ///
    /// `ffmpeg -f lavfi -i testsrc2=size=480x360:rate=60:duration=0.2,noise=alls=6:allf=t:all_seed=1 -threads 1 -c:v libvpx
    /// -deadline realtime -cpu-used -8 -qmin N -qmax N -b:v 1400k -g 6 -error-resilient 1 -f ivf qN.ivf`
    ///
    /// Its N of 0 to 63 are the indices 0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 12, … 127 (`q_trans` in `vp8/encoder/onyx_if.c`). Every frame
    /// has segments.
    const ENCODED: [(u8, &str, &str); 5] = [
        (
            2,
            "d0f0009d012ae0016801390300001c240c2c2c44cc244009203b9166cc82fd2ffb07dd1e",
            "517d00e343efe0206faf104f4fb10a2fde243701756ac37905f057fd9f",
        ),
        (
            4,
            "70d5009d012ae0016801390500001c240c2c2c44cc2440100772140df4bf7efe5dff99d8",
            "517800e34bdfe0206faf104f4fb10a2fde3f802ead59d720be337fa1f9",
        ),
        (
            25,
            "7098009d012ae0016801391b00031c240c2c2c44cc2440640db89b4d3ab1bf9ac6b64a3b",
            "716100e3a32fe02c57af104f4fb10a2fdf8ce03aefc7ffce7fadfee394",
        ),
        (
            59,
            "307a009d012ae0016801393d00161c240c2c2c44cc2440ec0ddc1be853f4475ebd14f08f",
            "313600e42a1fdc7fbfaf104f4fb10a2fe1a8a03b11f93ea9f59db6b994",
        ),
        (
            127,
            "f052009d012ae0016801398100291c240c2c2c44cc2441fc0ddf8f8fa739cb64ee03e5bf",
            "111f00e537ffb91327af104f4fb10a2fe5e0203b2394a9e08c931e7953",
        ),
    ];

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }

    #[test]
    fn the_quantiser_of_an_encode_is_the_one_that_the_encoder_was_given() {
        for (index, key, delta) in ENCODED {
            for (hex, key) in [(key, true), (delta, false)] {
                let header = FrameHeader { key, quantizer_index: index };
                assert_eq!(FrameHeader::parse(&bytes(hex)), Some(header));
            }
        }
    }

    #[test]
    fn what_is_cut_short_or_is_no_key_frame_though_it_says_so_tells_nothing() {
        let frame = bytes(ENCODED[0].1);
        let least = (0..frame.len()).find(|len| FrameHeader::parse(&frame[..*len]).is_some()).unwrap();
        assert!((13..=FrameHeader::MAX_LEN).contains(&least), "{least}");
        let mut other = frame;
        other[3] = 0;
        assert_eq!(FrameHeader::parse(&other), None);
    }

    #[test]
    fn steps_are_those_of_the_table_at_its_ends_and_where_it_changes_its_pace() {
        let step = |quantizer_index| FrameHeader { key: false, quantizer_index }.quantizer_step();
        assert_eq!(
            [0, 54, 55, 83, 84, 102, 103, 116, 117, 127].map(step),
            [4, 58, 60, 116, 119, 173, 177, 229, 234, 284]
        );
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(key: bool, index in 0u8..128, rest in prop::collection::vec(any::<u8>(), 0..40)) {
            let header = FrameHeader { key, quantizer_index: index };
            let mut frame = Vec::new();
            header.emit((480, 360), &mut frame);
            prop_assert!(frame.len() <= FrameHeader::MAX_LEN);
            frame.extend(rest);
            prop_assert_eq!(FrameHeader::parse(&frame), Some(header));
        }

        #[test]
        fn any_bytes_are_read_without_panic(frame in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Some(header) = FrameHeader::parse(&frame) {
                prop_assert!(header.quantizer_index < 128);
            }
        }
    }
}
