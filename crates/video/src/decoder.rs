//! Payloads of a channel into pictures.

use std::collections::VecDeque;

use taut_media::picture::{Ask, Codec, Picture};

use crate::{Image, VideoError, h264, has_h264, is_available, vpx};

/// Frames that wait for one before them.
const HELD: usize = 4;
/// Decoded frames whose numbers are remembered: a frame that recovers refers to none that is older.
const REMEMBERED: usize = 256;

/// Frames in a row that are of no use, more than come within a round trip: then nothing but a key frame helps, for the encoder takes other frames than these to be here.
const PATIENCE: u32 = 30;

/// No start of an encoder misses so many in a row: half an hour and more of them.
const ANOTHER_START: u32 = 1 << 16;

/// A picture that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// What its header says.
    pub picture: Picture,
    /// Its pixels.
    pub image: Image,
}

/// What became of a payload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// The pictures that were decoded, in order: none, the one that came, or with it those that waited for it.
    pub decoded: Vec<Decoded>,
    /// What to tell the encoder now.
    pub ask: Option<Ask>,
}

/// Counts of a [`Decoder`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecoderCounts {
    /// Pictures that were decoded.
    pub decoded: u64,
    /// Of these, key frames.
    pub keys: u64,
    /// Of these, frames that needed nothing but what was acknowledged.
    pub recovered: u64,
    /// Numbers between the first and the last that came of each start of the encoder that were not decoded.
    pub missing: u64,
    /// Frames that came, and were of no use: what they need was lost, or a newer one was decoded before.
    pub useless: u64,
    /// Payloads that are no picture, or none that can be decoded.
    pub malformed: u64,
}

/// Decodes VP8 frames of a channel of schema `taut/Picture`, and H.264 where taut was built with OpenH264, each as soon as what it needs was decoded.
#[derive(Debug)]
pub struct Decoder {
    raw: Raw,
    /// Numbers that were decoded since the last key frame, the newest last.
    done: VecDeque<u32>,
    held: VecDeque<Held>,
    /// The number that was decoded last.
    newest: Option<u32>,
    /// Frames that came since then.
    in_vain: u32,
    counts: DecoderCounts,
}

/// A library for each codec, from the first key frame in it on.
#[derive(Debug, Default)]
struct Raw {
    vp8: Option<vpx::RawDecoder>,
    h264: Option<h264::RawDecoder>,
}

impl Raw {
    /// `None`: nobody is to see it.
    fn decode(&mut self, codec: Codec, frame: &[u8]) -> Result<Option<Image>, VideoError> {
        match codec {
            Codec::Vp8 => match &mut self.vp8 {
                Some(raw) => raw.decode(frame),
                none => none.insert(vpx::RawDecoder::new()?).decode(frame),
            },
            Codec::H264 => match &mut self.h264 {
                Some(raw) => raw.decode(frame),
                none => none.insert(h264::RawDecoder::new()?).decode(frame),
            }
            .map(Some),
            Codec::Jpeg => Err(VideoError::NotDecoded(codec)),
        }
    }

    /// What it holds is worth nothing: the next frame of this codec is a key frame.
    fn forget(&mut self, codec: Codec) {
        match codec {
            Codec::H264 => self.h264 = None,
            Codec::Vp8 | Codec::Jpeg => {}
        }
    }
}

#[derive(Debug)]
struct Held {
    picture: Picture,
    frame: Vec<u8>,
}

impl Decoder {
    /// One that has nothing yet.
    ///
    /// # Errors
    /// Where taut was built with neither libvpx nor OpenH264, or libvpx is of another version.
    pub fn new() -> Result<Self, VideoError> {
        let mut raw = Raw::default();
        if is_available() || !has_h264() {
            raw.vp8 = Some(vpx::RawDecoder::new()?);
        }
        Ok(Self {
            raw,
            done: VecDeque::new(),
            held: VecDeque::new(),
            newest: None,
            in_vain: 0,
            counts: DecoderCounts::default(),
        })
    }

    /// A payload came.
    ///
    /// # Errors
    /// When it is no picture, of a codec that is not decoded here, or of more than 4096 by 2304 pixels; it is counted, and nothing is asked for.
    pub fn take(&mut self, payload: &[u8]) -> Result<Taken, VideoError> {
        let parsed = Picture::parse(payload).map_err(VideoError::Picture).and_then(|(picture, frame)| {
            let (width, height) = (picture.width.into(), picture.height.into());
            match picture.codec {
                // No key frame would help.
                _ if width * height > vpx::MOST_PIXELS => Err(VideoError::Size { width, height }),
                Codec::Vp8 if !is_available() => Err(VideoError::Missing),
                Codec::H264 if !has_h264() => Err(VideoError::NoH264),
                Codec::Jpeg => Err(VideoError::NotDecoded(Codec::Jpeg)),
                Codec::Vp8 | Codec::H264 => Ok((picture, frame)),
            }
        });
        let (picture, frame) = parsed.inspect_err(|_| self.counts.malformed += 1)?;
        self.in_vain += 1;
        if let Some(last) = self.last()
            && !is_newer(picture.number, last)
        {
            if !is_far(picture.number, last) && self.in_vain <= PATIENCE {
                self.counts.useless += 1;
                return Ok(Taken::default());
            }
            // It is of another start, whose key frame may be lost.
            self.done.clear();
        }
        let mut taken = Taken::default();
        if !self.can(&picture) {
            if self.held.len() == HELD {
                self.held.pop_front();
                self.counts.useless += 1;
            }
            self.held.push_back(Held { picture, frame: frame.to_vec() });
            let last = self.last().filter(|_| self.in_vain <= PATIENCE);
            taken.ask = Some(last.map_or(Ask::Key(picture.number), Ask::Missing));
            return Ok(taken);
        }
        self.decode(picture, frame, &mut taken);
        while let Some(at) = self.held.iter().position(|held| self.can(&held.picture)) {
            let held = self.held.remove(at).expect("it was found there");
            self.decode(held.picture, &held.frame, &mut taken);
        }
        let last = self.last();
        let before = self.held.len();
        self.held.retain(|Held { picture: Picture { number, .. }, .. }| {
            last.is_none_or(|last| is_newer(*number, last) && !is_far(*number, last))
        });
        self.counts.useless += (before - self.held.len()) as u64;
        taken.ask = Some(match last {
            None => Ask::Key(picture.number),
            Some(last) if self.held.is_empty() => Ask::Decoded { last, later: 0 },
            Some(last) => Ask::Missing(last),
        });
        Ok(taken)
    }

    /// What became of all of them.
    pub fn counts(&self) -> DecoderCounts {
        self.counts
    }

    /// What was decoded last.
    fn last(&self) -> Option<u32> {
        self.done.back().copied()
    }

    /// Is what it needs there?
    fn can(&self, picture: &Picture) -> bool {
        picture.key
            || match picture.recovers {
                true => self.done.contains(&picture.reference),
                false => self.last() == Some(picture.reference),
            }
    }

    fn decode(&mut self, picture: Picture, frame: &[u8], taken: &mut Taken) {
        let Ok(image) = self.raw.decode(picture.codec, frame) else {
            self.raw.forget(picture.codec);
            self.done.clear();
            self.counts.malformed += 1;
            return;
        };
        if picture.key {
            self.done.clear();
        }
        if self.done.len() == REMEMBERED {
            self.done.pop_front();
        }
        self.done.push_back(picture.number);
        self.in_vain = 0;
        self.counts.decoded += 1;
        self.counts.keys += u64::from(picture.key);
        self.counts.recovered += u64::from(picture.recovers && !picture.key);
        if let Some(before) = self.newest.replace(picture.number)
            && is_newer(picture.number, before)
            && picture.number.wrapping_sub(before) < ANOTHER_START
        {
            self.counts.missing += u64::from(picture.number.wrapping_sub(before)) - 1;
        }
        taken.decoded.extend(image.map(|image| Decoded { picture, image }));
    }
}

/// Is it ahead of the other, where numbers wrap?
fn is_newer(number: u32, other: u32) -> bool {
    number != other && number.wrapping_sub(other) < 1 << 31
}

/// Is it so far from the other that it is of another start of the encoder, which counts from 0 again?
fn is_far(number: u32, other: u32) -> bool {
    let apart = number.wrapping_sub(other);
    apart.min(apart.wrapping_neg()) as usize > REMEMBERED
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Encoder, EncoderConfig, Scene};

    /// One that has decoded frame 1000; `None` where there is no library.
    fn decoder() -> Option<Decoder> {
        let mut decoder = Decoder::new().ok()?;
        decoder.done.push_back(1_000);
        decoder.newest = Some(1_000);
        Some(decoder)
    }

    fn codec() -> Codec {
        if is_available() { Codec::Vp8 } else { Codec::H264 }
    }

    /// What is asked for when a frame comes that needs the one before it.
    fn asked(decoder: &mut Decoder, number: u32) -> Option<Ask> {
        let reference = number.wrapping_sub(1);
        let (width, height) = (640, 480);
        let mut payload = Vec::new();
        Picture { codec: codec(), key: false, recovers: false, width, height, number, reference }
            .emit(&mut payload);
        decoder.take(&payload).unwrap().ask
    }

    #[test]
    fn an_encoder_that_counts_from_0_again_is_asked_for_a_key_frame_where_its_first_one_was_lost() {
        let Some(mut decoder) = decoder() else { return };
        assert_eq!(asked(&mut decoder, 1_000 - REMEMBERED as u32), None, "it is late");
        for number in [1, 2] {
            assert_eq!(asked(&mut decoder, number), Some(Ask::Key(number)));
        }
    }

    #[test]
    fn an_encoder_that_goes_on_from_another_is_asked_for_a_key_frame_where_its_first_one_was_lost() {
        let config = EncoderConfig::new(640, 480, 30).codec(codec());
        let (Ok(mut decoder), Ok(mut before)) = (Decoder::new(), Encoder::new(config)) else { return };
        let mut scene = Scene::new(640, 480).unwrap();
        for number in 0..10 {
            let made = before.encode(scene.draw(number)).unwrap();
            assert_eq!(decoder.take(&made.payload).unwrap().decoded.len(), 1);
        }
        let mut encoder = Encoder::new(config.first(before.next_number())).unwrap();
        for number in 10..60 {
            let made = encoder.encode(scene.draw(number)).unwrap();
            if made.picture.key {
                assert_eq!(made.picture.number, 10, "it is lost");
                continue;
            }
            let taken = decoder.take(&made.payload).unwrap();
            let asked = if number <= 10 + PATIENCE { Ask::Missing(9) } else { Ask::Key(number) };
            assert_eq!((taken.decoded.len(), taken.ask), (0, Some(asked)), "frame {number}");
        }
    }

    #[test]
    fn pictures_that_are_too_large_are_refused_and_no_key_frame_is_asked_for() {
        let Ok(mut decoder) = Decoder::new() else { return };
        let mut payload = Vec::new();
        Picture::key(codec(), 4_096, 2_305, 7).emit(&mut payload);
        let refused = decoder.take(&payload);
        assert_eq!(refused, Err(VideoError::Size { width: 4_096, height: 2_305 }));
        assert_eq!(decoder.counts().malformed, 1);
    }

    #[test]
    fn an_encoder_that_begins_elsewhere_misses_nothing() {
        let Some(mut decoder) = decoder() else { return };
        let config = EncoderConfig::new(640, 480, 30).codec(codec()).first(1 << 30);
        let key = Encoder::new(config).unwrap().encode(Scene::new(640, 480).unwrap().draw(0)).unwrap();
        assert_eq!(decoder.take(&key.payload).unwrap().decoded.len(), 1);
        assert_eq!(decoder.counts().missing, 0);
    }

    #[test]
    fn what_waits_for_frames_of_a_start_that_is_over_waits_no_more() {
        let Some(mut decoder) = decoder() else { return };
        assert_eq!(asked(&mut decoder, 1_002), Some(Ask::Missing(1_000)));
        let mut encoder = Encoder::new(EncoderConfig::new(640, 480, 30).codec(codec())).unwrap();
        let key = encoder.encode(Scene::new(640, 480).unwrap().draw(0)).unwrap();
        assert_eq!(decoder.take(&key.payload).unwrap().ask, Some(Ask::Decoded { last: 0, later: 0 }));
        assert_eq!(decoder.counts().missing, 0);
    }
}
