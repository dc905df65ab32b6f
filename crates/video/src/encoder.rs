//! Pictures into payloads of a channel.

use taut_core::Bitrate;
use taut_media::picture::{Ask, Codec, HEADER, Picture};

use crate::halving::Halving;
use crate::longterm::LongTerm;
use crate::references::{Plan, References};
use crate::slice::SliceHeader;
use crate::vpx::Buffers;
use crate::{Image, VideoError, h264, vpx};

/// How an encoder works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncoderConfig {
    width: usize,
    height: usize,
    frame_rate: u32,
    rate: Bitrate,
    threads: u32,
    codec: Codec,
    first: u32,
}

/// No picture is worth less, and no rate is lower than this.
const LEAST: u64 = 50_000;

impl EncoderConfig {
    /// For pictures of so many pixels, so many a second (1 to 1000): 1.5 Mbit/s until another rate is set, on one thread.
    pub fn new(width: usize, height: usize, frame_rate: u32) -> Self {
        let rate = Bitrate::from_bps(1_500_000);
        Self {
            width,
            height,
            frame_rate: frame_rate.clamp(1, 1_000),
            rate,
            threads: 1,
            codec: Codec::Vp8,
            first: 0,
        }
    }

    /// The rate to begin with, at least 50 kbit/s. Default 1.5 Mbit/s.
    pub fn rate(mut self, rate: Bitrate) -> Self {
        self.rate = rate;
        self
    }

    /// Threads of its own, 1 to 16. Default 1: more of them take less time for large pictures and more for small ones.
    pub fn threads(mut self, threads: u32) -> Self {
        self.threads = threads.clamp(1, 16);
        self
    }

    /// VP8 or H.264. Default VP8. Pictures in H.264 have an even number of columns and of rows, 16 each at least, and no more than 3840 by 2160.
    pub fn codec(mut self, codec: Codec) -> Self {
        self.codec = codec;
        self
    }

    /// The number of the first frame. Default 0. Of an encoder in another's place the [next](Encoder::next_number) of that one, and else one at random: a receiver that
    /// lost the first frame is not to take those behind it for those of before.
    pub fn first(mut self, number: u32) -> Self {
        self.first = number;
        self
    }
}

/// Encodes pictures in VP8 or H.264 (constrained baseline, Annex B), in real time: without looking ahead, at a rate that may change with every frame. A key frame has about three times
/// an average frame's bytes at most, and no more than go in 100 ms, where the coarsest quality allows it, and comes when the receiver has nothing that another could refer to.
/// Where even that takes longer than 200 ms at the rate, pictures have half or a quarter of the columns and rows until the rate is another; where it was one frame
/// of a finer quality, as of a scene that changed, for a second.
#[derive(Debug)]
pub struct Encoder {
    config: EncoderConfig,
    raw: Raw,
    kbps: u32,
    halving: Halving,
}

/// A library, and what is known of the receiver.
#[derive(Debug)]
enum Raw {
    Vp8(vpx::RawEncoder, References),
    H264(h264::RawEncoder, LongTerm),
}

/// A frame before it is sure that it is sent.
struct Attempt {
    plan: Plan,
    encoded: Encoded,
    /// What H.264 says in it.
    header: Option<SliceHeader>,
    /// No coarser one can be made.
    coarsest: bool,
    /// Bytes that were made before it and are more than the rate has.
    behind: usize,
}

/// A frame that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// What it is.
    pub picture: Picture,
    /// The payload of a message of a channel of schema `taut/Picture`: header and frame.
    pub payload: Vec<u8>,
}

impl Encoded {
    /// The frame alone.
    pub fn frame(&self) -> &[u8] {
        &self.payload[HEADER..]
    }
}

impl Encoder {
    /// An encoder without a receiver.
    ///
    /// # Errors
    /// Where taut was built without a library for the codec, that is of another version, there is no memory for pictures of that size, or the codec has none of it.
    pub fn new(config: EncoderConfig) -> Result<Self, VideoError> {
        let kbps = kbps(config.rate);
        let raw = Raw::new(&config, (config.width, config.height), kbps)?;
        let halving = Halving::new(config.width, config.height, config.frame_rate);
        let halving =
            if config.codec == Codec::H264 { halving.even(config.width, config.height) } else { halving };
        Ok(Self { config, raw, kbps, halving })
    }

    /// From the next frame on this rate, at least 50 kbit/s. A change of less than a fiftieth is none.
    ///
    /// # Errors
    /// When the library refuses it.
    pub fn set_bitrate(&mut self, rate: Bitrate) -> Result<(), VideoError> {
        let kbps = kbps(rate);
        if kbps.abs_diff(self.kbps) > self.kbps / 50 {
            match &mut self.raw {
                Raw::Vp8(raw, _) => raw.set_bitrate(kbps)?,
                Raw::H264(raw, _) => raw.set_bitrate(kbps),
            }
            self.kbps = kbps;
        }
        Ok(())
    }

    /// The rate that frames are made for.
    pub fn bitrate(&self) -> Bitrate {
        Bitrate::from_bps(u64::from(self.kbps) * 1_000)
    }

    /// The number of the next frame.
    pub fn next_number(&self) -> u32 {
        match &self.raw {
            Raw::Vp8(_, references) => references.next(),
            Raw::H264(_, references) => references.next(),
        }
    }

    /// The receiver says what it has and lacks.
    pub fn ask(&mut self, ask: Ask) {
        match &mut self.raw {
            Raw::Vp8(_, references) => references.ask(ask),
            Raw::H264(_, references) => references.ask(ask),
        }
    }

    /// A frame that was made was not sent, or is lost for certain: the next refers to nothing behind it.
    pub fn lost(&mut self) {
        match &mut self.raw {
            Raw::Vp8(_, references) => references.lost(),
            Raw::H264(_, references) => references.lost(),
        }
    }

    /// Another receiver, or the same with nothing in its memory: the next frame is a key frame.
    pub fn restart(&mut self) {
        match &mut self.raw {
            Raw::Vp8(_, references) => references.restart(),
            Raw::H264(_, references) => references.restart(),
        }
    }

    /// Encodes a picture.
    ///
    /// # Errors
    /// Of a picture of another size than the encoder's, and where the library fails; then the next frame is a key frame.
    pub fn encode(&mut self, image: &Image) -> Result<Encoded, VideoError> {
        let (width, height) = (image.width(), image.height());
        if (width, height) != (self.config.width, self.config.height) {
            return Err(VideoError::Size { width, height });
        }
        self.halving.grows(self.kbps);
        loop {
            let smaller = (0..self.halving.times()).try_fold(None, |before: Option<Image>, _| {
                before.as_ref().unwrap_or(image).halved().map(Some)
            })?;
            let image = smaller.as_ref().unwrap_or(image);
            // Of another size than the one before it is a key frame.
            self.raw.resize(&self.config, (image.width(), image.height()), self.kbps)?;
            let made = self.raw.encode(image).inspect_err(|_| self.restart())?;
            let waits = made.behind.max(made.encoded.frame().len());
            if !self.halving.shrinks(waits, self.kbps, made.coarsest) {
                self.raw.made(&made);
                return Ok(made.encoded);
            }
        }
    }
}

impl Raw {
    fn new(config: &EncoderConfig, (width, height): (usize, usize), kbps: u32) -> Result<Self, VideoError> {
        let EncoderConfig { frame_rate, threads, first, .. } = *config;
        match config.codec {
            Codec::Vp8 => vpx::RawEncoder::new(width, height, frame_rate, kbps, threads)
                .map(|raw| Self::Vp8(raw, References::new(first))),
            Codec::H264 => h264::RawEncoder::new(width, height, frame_rate, kbps, threads)
                .map(|raw| Self::H264(raw, LongTerm::new(first))),
            Codec::Jpeg => Err(VideoError::NotEncoded(Codec::Jpeg)),
        }
    }

    /// Takes pictures of this size from now on, if it does not yet; what is known of the receiver stays.
    fn resize(&mut self, config: &EncoderConfig, size: (usize, usize), kbps: u32) -> Result<(), VideoError> {
        let EncoderConfig { frame_rate, threads, .. } = *config;
        match self {
            Self::Vp8(raw, references) if raw.size() != size => {
                references.restart();
                *raw = vpx::RawEncoder::new(size.0, size.1, frame_rate, kbps, threads)?;
            }
            Self::H264(raw, references) if raw.size() != size => {
                references.restart();
                *raw = h264::RawEncoder::new(size.0, size.1, frame_rate, kbps, threads)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn encode(&mut self, image: &Image) -> Result<Attempt, VideoError> {
        let mut payload = vec![0; HEADER];
        let (plan, header, coarsest, behind, codec) = match self {
            Self::Vp8(raw, references) => {
                let mut plan = references.plan();
                let vpx::Made { key, coarsest } =
                    raw.encode(image, plan.refers, plan.replaces, &mut payload)?;
                if key {
                    plan = Plan { refers: Buffers::NONE, reference: plan.number, recovers: true, ..plan };
                }
                (plan, None, coarsest, 0, Codec::Vp8)
            }
            Self::H264(raw, references) => {
                let (wish, tell) = (references.wish(), references.tell());
                let h264::Made { header, behind } = raw.encode(image, wish, tell, &mut payload)?;
                let plan = references.plan(wish, &header);
                (plan, Some(header), behind.is_some(), behind.unwrap_or(0), Codec::H264)
            }
        };
        let (width, height) = (image.width() as u16, image.height() as u16);
        let Plan { number, reference, recovers, .. } = plan;
        let key = plan.refers == Buffers::NONE;
        let picture = Picture { codec, key, recovers, width, height, number, reference };
        let mut bytes = Vec::with_capacity(HEADER);
        picture.emit(&mut bytes);
        payload[..HEADER].copy_from_slice(&bytes);
        Ok(Attempt { plan, encoded: Encoded { picture, payload }, header, coarsest, behind })
    }

    fn made(&mut self, Attempt { plan, header, .. }: &Attempt) {
        match (self, header) {
            (Self::Vp8(_, references), _) => references.made(plan),
            (Self::H264(_, references), Some(header)) => references.made(plan, header),
            (Self::H264(..), None) => unreachable!("a frame of H.264 has a header"),
        }
    }
}

fn kbps(rate: Bitrate) -> u32 {
    u32::try_from(rate.as_bps().max(LEAST) / 1_000).unwrap_or(u32::MAX / 1_000)
}
