//! Frames that another encoder made, passed on as they are. Of them taut knows which are key frames, and nothing else: what was lost is mended by one.

use taut_media::picture::{Ask, Codec, HEADER, Picture};
use taut_wire::rtp::h264::{annex_b_units, nal_type};

use crate::Encoded;
use crate::references::{Plan, References};
use crate::vpx::Buffers;

/// Parameter sets of H.264 are kept up to so many bytes.
const MOST_PARAMETERS: usize = 4_096;

/// Gives frames their headers, and says when a key frame is needed.
///
/// ```
/// use taut_media::picture::Codec;
/// use taut_video::Passing;
/// let mut passing = Passing::new(0);
/// // The first bit of a key frame of VP8 is 0.
/// assert_eq!(passing.pass(Codec::Vp8, (640, 480), &[1]), None);
/// assert!(passing.wants_key());
/// assert!(passing.pass(Codec::Vp8, (640, 480), &[0]).is_some_and(|passed| passed.picture.key));
/// assert_eq!(passing.pass(Codec::Vp8, (640, 480), &[1]).map(|passed| passed.picture.reference), Some(0));
/// ```
#[derive(Debug)]
pub struct Passing {
    references: References,
    /// What comes before a key frame of H.264, of encoders that say it once.
    parameters: Vec<u8>,
}

impl Default for Passing {
    fn default() -> Self {
        Self::new(0)
    }
}

impl Passing {
    /// One without a receiver, which waits for a key frame: that has the number `first`, as of [`EncoderConfig::first`](crate::EncoderConfig::first).
    pub fn new(first: u32) -> Self {
        Self { references: References::of_keys(first), parameters: Vec::new() }
    }

    /// The receiver says what it has and lacks.
    pub fn ask(&mut self, ask: Ask) {
        self.references.ask(ask);
    }

    /// A frame is missing, or was not sent.
    pub fn lost(&mut self) {
        self.references.lost();
    }

    /// Another receiver, or the same with nothing in its memory.
    pub fn restart(&mut self) {
        self.references.restart();
    }

    /// Until a key frame comes nothing is passed on: the encoder is to be asked for one.
    pub fn wants_key(&self) -> bool {
        self.references.plan().refers == Buffers::NONE
    }

    /// A frame that the encoder made, of so many columns and rows, 1 to 65535 each: VP8, or H.264 with start codes, a whole access unit. `None`: it is left
    /// out, for it is empty or of no use before a key frame.
    pub fn pass(&mut self, codec: Codec, (width, height): (u16, u16), frame: &[u8]) -> Option<Encoded> {
        let key = match codec {
            Codec::Vp8 => frame.first()? & 1 == 0,
            Codec::H264 => self.is_key(frame),
            Codec::Jpeg => !frame.is_empty(),
        };
        if frame.is_empty() || width == 0 || height == 0 || self.wants_key() && !key {
            return None;
        }
        let plan = self.references.plan();
        let plan = match key {
            true => Plan { refers: Buffers::NONE, reference: plan.number, recovers: true, ..plan },
            false => plan,
        };
        let Plan { number, reference, recovers, .. } = plan;
        let picture = Picture { codec, key, recovers, width, height, number, reference };
        let mut payload = Vec::with_capacity(HEADER + self.parameters.len() + frame.len());
        picture.emit(&mut payload);
        if key && codec == Codec::H264 && !has(frame, nal_type::SPS) {
            payload.extend_from_slice(&self.parameters);
        }
        payload.extend_from_slice(frame);
        self.references.made(&plan);
        Some(Encoded { picture, payload })
    }

    /// A frame that goes to nobody: an encoder may say its parameter sets once, in the first.
    pub fn look(&mut self, codec: Codec, frame: &[u8]) {
        if codec == Codec::H264 {
            self.is_key(frame);
        }
    }

    /// Is it an IDR picture? Parameter sets that it has are kept.
    fn is_key(&mut self, frame: &[u8]) -> bool {
        if has(frame, nal_type::SPS) {
            self.parameters.clear();
            let sets =
                annex_b_units(frame).filter(|unit| matches!(unit[0] & 0x1f, nal_type::SPS | nal_type::PPS));
            for set in sets {
                if self.parameters.len() + set.len() + 4 <= MOST_PARAMETERS {
                    self.parameters.extend_from_slice(&[0, 0, 0, 1]);
                    self.parameters.extend_from_slice(set);
                }
            }
        }
        has(frame, nal_type::IDR)
    }
}

fn has(frame: &[u8], kind: u8) -> bool {
    annex_b_units(frame).any(|unit| unit[0] & 0x1f == kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: (u16, u16) = (640, 480);
    const WHOLE: [u8; 15] = [0, 0, 0, 1, 0x67, 0x42, 0, 0, 1, 0x68, 0xce, 0, 0, 1, 0x65];
    const KEY: [u8; 5] = [0, 0, 1, 0x65, 0x88];
    const DELTA: [u8; 5] = [0, 0, 1, 0x41, 0x9a];

    #[test]
    fn parameter_sets_that_came_while_nobody_looked_are_said_with_the_first_key_frame() {
        let mut passing = Passing::new(0);
        passing.look(Codec::H264, &WHOLE);
        passing.look(Codec::H264, &DELTA);
        let passed = passing.pass(Codec::H264, SIZE, &KEY).expect("a key frame");
        assert!(
            has(&passed.payload[HEADER..], nal_type::SPS) && has(&passed.payload[HEADER..], nal_type::PPS)
        );
    }

    #[test]
    fn after_a_loss_nothing_is_passed_before_a_key_frame_and_one_is_asked_for() {
        let mut passing = Passing::new(0);
        let pass = |passing: &mut Passing, frame: &[u8]| {
            passing
                .pass(Codec::H264, SIZE, frame)
                .map(|passed| (passed.picture.number, passed.picture.reference))
        };
        assert_eq!(pass(&mut passing, &DELTA), None);
        assert_eq!([pass(&mut passing, &WHOLE), pass(&mut passing, &DELTA)], [Some((0, 0)), Some((1, 0))]);
        passing.ask(Ask::Decoded { last: 1, later: 0 });
        assert_eq!((pass(&mut passing, &DELTA), passing.wants_key()), (Some((2, 1)), false));
        passing.ask(Ask::Missing(1));
        assert_eq!((pass(&mut passing, &DELTA), passing.wants_key()), (None, true));
        assert_eq!(pass(&mut passing, &KEY), Some((3, 3)));
        // It was under way while the receiver asked.
        passing.ask(Ask::Missing(1));
        assert_eq!((pass(&mut passing, &DELTA), passing.wants_key()), (Some((4, 3)), false));
        passing.lost();
        assert!(passing.wants_key());
    }

    #[test]
    fn parameter_sets_that_an_encoder_says_once_stand_before_each_key_frame() {
        let mut passing = Passing::new(0);
        assert_eq!(passing.pass(Codec::H264, SIZE, &WHOLE).unwrap().frame(), WHOLE);
        let passed = passing.pass(Codec::H264, SIZE, &KEY).unwrap();
        let units: Vec<_> = annex_b_units(passed.frame()).map(|unit| unit[0] & 0x1f).collect();
        assert_eq!(units, [nal_type::SPS, nal_type::PPS, nal_type::IDR]);
        let long = [&[0, 0, 1, 0x67][..], &[1; 5_000], &KEY].concat();
        assert!(passing.pass(Codec::H264, SIZE, &long).is_some());
        assert!(passing.pass(Codec::H264, SIZE, &KEY).unwrap().frame().len() < MOST_PARAMETERS + KEY.len());
        assert!(
            passing.pass(Codec::H264, SIZE, &[]).is_none() && passing.pass(Codec::Vp8, SIZE, &[]).is_none()
        );
    }
}
