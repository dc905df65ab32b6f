//! Pictures into payloads of a channel.

use taut_core::Bitrate;
use taut_media::picture::{Ask, Codec, HEADER, Picture};

use crate::halving::Halving;
use crate::references::{Plan, References};
use crate::vpx::{Buffers, RawEncoder};
use crate::{Image, VideoError};

/// How an encoder works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncoderConfig {
    width: usize,
    height: usize,
    frame_rate: u32,
    rate: Bitrate,
    threads: u32,
}

/// No picture is worth less, and no rate is lower than this.
const LEAST: u64 = 50_000;

impl EncoderConfig {
    /// For pictures of so many pixels, so many a second (1 to 1000): 1.5 Mbit/s until another rate is set, on one thread.
    pub fn new(width: usize, height: usize, frame_rate: u32) -> Self {
        let rate = Bitrate::from_bps(1_500_000);
        Self { width, height, frame_rate: frame_rate.clamp(1, 1_000), rate, threads: 1 }
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
}

/// Encodes pictures in VP8, in real time: without looking ahead, at a rate that may change with every frame. A key frame has about three times
/// an average frame's bytes at most, and no more than go in 100 ms, where the coarsest quality allows it, and comes when the receiver has nothing that another could refer to.
/// Where even that takes longer than 200 ms at the rate, pictures have half or a quarter of the columns and rows until the rate is another.
#[derive(Debug)]
pub struct Encoder {
    config: EncoderConfig,
    raw: RawEncoder,
    kbps: u32,
    references: References,
    halving: Halving,
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
    /// Where taut was built without libvpx, that one is of another version, or there is no memory for pictures of that size.
    pub fn new(config: EncoderConfig) -> Result<Self, VideoError> {
        let kbps = kbps(config.rate);
        let raw = RawEncoder::new(config.width, config.height, config.frame_rate, kbps, config.threads)?;
        let halving = Halving::new(config.width, config.height, config.frame_rate);
        Ok(Self { config, raw, kbps, references: References::new(), halving })
    }

    /// From the next frame on this rate, at least 50 kbit/s. A change of less than a fiftieth is none.
    ///
    /// # Errors
    /// When libvpx refuses it.
    pub fn set_bitrate(&mut self, rate: Bitrate) -> Result<(), VideoError> {
        let kbps = kbps(rate);
        if kbps.abs_diff(self.kbps) > self.kbps / 50 {
            self.raw.set_bitrate(kbps)?;
            self.kbps = kbps;
        }
        Ok(())
    }

    /// The rate that frames are made for.
    pub fn bitrate(&self) -> Bitrate {
        Bitrate::from_bps(u64::from(self.kbps) * 1_000)
    }

    /// The receiver says what it has and lacks.
    pub fn ask(&mut self, ask: Ask) {
        self.references.ask(ask);
    }

    /// A frame that was made was not sent, or is lost for certain: the next refers to nothing behind it.
    pub fn lost(&mut self) {
        self.references.lost();
    }

    /// Another receiver, or the same with nothing in its memory: the next frame is a key frame.
    pub fn restart(&mut self) {
        self.references.restart();
    }

    /// Encodes a picture.
    ///
    /// # Errors
    /// Of a picture of another size than the encoder's, and where libvpx fails; then the next frame is a key frame.
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
            let (plan, encoded) = self.encode_once(smaller.as_ref().unwrap_or(image))?;
            if !self.halving.shrinks(encoded.frame().len(), self.kbps) {
                self.references.made(&plan);
                return Ok(encoded);
            }
        }
    }

    /// Of another size than the one before it is a key frame.
    fn encode_once(&mut self, image: &Image) -> Result<(Plan, Encoded), VideoError> {
        let size = (image.width(), image.height());
        if self.raw.size() != size {
            let EncoderConfig { frame_rate, threads, .. } = self.config;
            self.references.restart();
            self.raw = RawEncoder::new(size.0, size.1, frame_rate, self.kbps, threads)?;
        }
        let mut plan = self.references.plan();
        let (width, height) = (size.0 as u16, size.1 as u16);
        let mut payload = vec![0; HEADER];
        let made = self.raw.encode(image, plan.refers, plan.replaces, &mut payload);
        let key = made.inspect_err(|_| self.references.restart())?;
        if key {
            plan = Plan { refers: Buffers::NONE, reference: plan.number, recovers: true, ..plan };
        }
        let Plan { number, reference, recovers, .. } = plan;
        let picture = Picture { codec: Codec::Vp8, key, recovers, width, height, number, reference };
        let mut header = Vec::with_capacity(HEADER);
        picture.emit(&mut header);
        payload[..HEADER].copy_from_slice(&header);
        Ok((plan, Encoded { picture, payload }))
    }
}

fn kbps(rate: Bitrate) -> u32 {
    u32::try_from(rate.as_bps().max(LEAST) / 1_000).unwrap_or(u32::MAX / 1_000)
}
