//! Frames of other encoders into pictures: from a file, and over RTP.

use taut_core::{Duration, Time};
use taut_wire::rtp::FrameKind;
use taut_wire::rtp::View;
use taut_wire::rtp::vp8::{self, Descriptor};

use crate::vpx::RawDecoder;
use crate::{Image, Ivf, IvfHeader, VideoError};

/// VP8 frames, one after the other.
#[derive(Debug)]
pub struct FrameDecoder {
    raw: RawDecoder,
    /// There was a key frame, and nothing was missing since.
    goes_on: bool,
}

impl FrameDecoder {
    /// One that waits for a key frame.
    ///
    /// # Errors
    /// Where taut was built without libvpx, or that one is of another version.
    pub fn new() -> Result<Self, VideoError> {
        Ok(Self { raw: RawDecoder::new()?, goes_on: false })
    }

    /// The picture of a frame; `None` of one that is not shown, and while a key frame is waited for.
    ///
    /// # Errors
    /// When libvpx cannot decode it, and of pictures of more than 4096 by 2304 pixels.
    pub fn decode(&mut self, frame: &[u8]) -> Result<Option<Image>, VideoError> {
        // The first bit is 0 in a key frame (RFC 6386 section 9.1).
        let Some(first) = frame.first() else { return Ok(None) };
        self.goes_on |= first & 1 == 0;
        if !self.goes_on {
            return Ok(None);
        }
        self.raw.decode(frame).inspect_err(|_| self.goes_on = false)
    }

    /// A frame is missing.
    pub fn lost(&mut self) {
        self.goes_on = false;
    }
}

/// The pictures of a file, again and again.
#[derive(Debug)]
pub struct Film {
    ivf: Ivf,
    decoder: FrameDecoder,
}

impl Film {
    /// Of the bytes of an IVF file of VP8.
    ///
    /// # Errors
    /// When it is none, it has no picture that can be decoded, or there is no decoder.
    pub fn new(bytes: Vec<u8>) -> Result<Self, VideoError> {
        let mut film = Self { ivf: Ivf::new(bytes)?, decoder: FrameDecoder::new()? };
        film.next_image()?;
        film.rewind();
        Ok(film)
    }

    /// What it says of its frames.
    pub fn header(&self) -> IvfHeader {
        self.ivf.header()
    }

    /// As [`Ivf::frames_a_second`].
    pub fn frames_a_second(&self) -> u32 {
        self.ivf.frames_a_second()
    }

    fn rewind(&mut self) {
        self.ivf.rewind();
        self.decoder.lost();
    }

    /// The next picture, of the size that its key frame says; after the last the first.
    ///
    /// # Errors
    /// Of a file without a picture, and as [`FrameDecoder::decode`].
    pub fn next_image(&mut self) -> Result<Image, VideoError> {
        let mut rewound = false;
        loop {
            let Some(frame) = self.ivf.next_frame() else {
                if std::mem::replace(&mut rewound, true) {
                    return Err(VideoError::File("without a picture that begins with a key frame"));
                }
                self.rewind();
                continue;
            };
            if let Some(image) = self.decoder.decode(frame)? {
                return Ok(image);
            }
        }
    }
}

/// Counts of an [`RtpFrames`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RtpCounts {
    /// Packets that are no RTP with VP8.
    pub malformed: u64,
    /// Packets of another source than the one that is listened to.
    pub foreign: u64,
    /// Packets that came after a later one, or twice.
    pub late: u64,
    /// Frames that came whole.
    pub frames: u64,
    /// Times that something was missing: what refers to it is dropped, up to the next key frame.
    pub lost: u64,
    /// Frames that were longer than 4 MB.
    pub too_long: u64,
}

/// Packets of VP8 over RTP (RFC 7741) into frames. Of one source at a time, by its SSRC: another one is taken once that has been silent for a second.
/// One that begins anew with the same SSRC and numbers from elsewhere is believed with its second packet (RFC 3550 appendix A.1).
#[derive(Debug, Default)]
pub struct RtpFrames {
    source: Option<u32>,
    heard: Time,
    next: Option<u16>,
    /// The number of a packet that does not belong to what came before: perhaps the first of a new beginning.
    stray: Option<u16>,
    timestamp: u32,
    pace: Pace,
    /// Of the frame at work, if it has begun.
    frame: Option<Vec<u8>>,
    counts: RtpCounts,
}

/// What a packet brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RtpTaken {
    /// Nothing that is whole.
    Nothing,
    /// A frame is missing, and perhaps the one before this packet.
    Lost,
    /// The last packet of a frame.
    Frame(Vec<u8>),
}

/// A packet that comes again or out of order is no further behind (RFC 3550 appendix A.1).
const MAX_MISORDER: u16 = 100;
const SILENT: Duration = Duration::from_secs(1);
/// The longest frame that is put together.
const LONGEST: usize = 4 << 20;

impl RtpFrames {
    /// One that has heard nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// What became of packets.
    pub fn counts(&self) -> RtpCounts {
        self.counts
    }

    /// A packet came.
    pub fn take(&mut self, now: Time, packet: &[u8]) -> RtpTaken {
        let Ok(view) = View::new_checked(packet) else {
            self.counts.malformed += 1;
            return RtpTaken::Nothing;
        };
        let repr = view.repr();
        if self.source.is_some_and(|source| source != repr.ssrc) && now.saturating_since(self.heard) < SILENT
        {
            self.counts.foreign += 1;
            return RtpTaken::Nothing;
        }
        let Ok((descriptor, length)) = Descriptor::parse(view.payload()) else {
            self.counts.malformed += 1;
            return RtpTaken::Nothing;
        };
        if self.source.replace(repr.ssrc) != Some(repr.ssrc) {
            (self.next, self.frame) = (None, None);
        }
        self.heard = now;
        let ahead = self.next.map_or(0, |next| repr.sequence.wrapping_sub(next));
        let is_behind = ahead >= 1 << 15;
        if is_behind && !self.begins_anew(repr.sequence, ahead) {
            self.counts.late += 1;
            return RtpTaken::Nothing;
        }
        self.stray = None;
        self.next = Some(repr.sequence.wrapping_add(1));
        // A frame ends with its marker; one without the end of the one before says that this is lost (RFC 7741 section 4.4).
        let cut_short =
            self.frame.is_some() && (descriptor.starts_frame() || repr.timestamp != self.timestamp);
        // Of a new beginning the first packet is missing.
        let mut lost = ahead > 0 || cut_short;
        if lost {
            self.frame = None;
        }
        if descriptor.starts_frame() {
            (self.frame, self.timestamp) = (Some(Vec::new()), repr.timestamp);
            // A key frame needs nothing of what is lost.
            lost &= vp8::kind(view.payload()) != FrameKind::Key;
        }
        let bytes = &view.payload()[length..];
        let is_long = self.frame.as_ref().is_some_and(|frame| frame.len() + bytes.len() > LONGEST);
        if is_long {
            self.frame = None;
            self.counts.too_long += 1;
            lost = true;
        }
        if lost {
            self.counts.lost += 1;
        }
        match &mut self.frame {
            // The beginning is missing, and that was said.
            None => {}
            Some(frame) => frame.extend_from_slice(bytes),
        }
        if lost {
            self.frame = None;
            return RtpTaken::Lost;
        }
        match self.frame.take_if(|_| repr.marker) {
            Some(frame) => {
                self.counts.frames += 1;
                self.pace.shown(self.timestamp);
                RtpTaken::Frame(frame)
            }
            None => RtpTaken::Nothing,
        }
    }

    /// How many frames the sender makes a second, 1 to 240, by its timestamps; `None` until nine came whole.
    pub fn rate(&self) -> Option<u32> {
        self.pace.rate
    }

    /// Is it the second in a row of a sender whose numbers are from elsewhere?
    fn begins_anew(&mut self, sequence: u16, ahead: u16) -> bool {
        ahead <= u16::MAX - MAX_MISORDER
            && self.stray.replace(sequence).is_some_and(|stray| stray.wrapping_add(1) == sequence)
    }
}

/// How fast frames follow each other.
#[derive(Debug, Default)]
struct Pace {
    last: Option<u32>,
    /// From each to the next, in units of the clock.
    steps: Vec<u32>,
    rate: Option<u32>,
}

/// Of VP8's timestamps, in a second (RFC 7741 section 4.1).
const CLOCK: u32 = 90_000;
/// The middle one of so many steps counts: of frames that are lost or late there are fewer.
const STEPS: usize = 8;

impl Pace {
    /// A frame came whole. Where steps are uneven the rate stays: another one is more than a quarter away from it.
    fn shown(&mut self, timestamp: u32) {
        let Some(last) = self.last.replace(timestamp) else { return };
        self.steps.push(timestamp.wrapping_sub(last).max(1));
        if self.steps.len() < STEPS {
            return;
        }
        self.steps.sort_unstable();
        let step = self.steps[STEPS / 2];
        self.steps.clear();
        let rate = (CLOCK.saturating_add(step / 2) / step).clamp(1, 240);
        if self.rate.is_none_or(|known| rate.abs_diff(known) > known / 4) {
            self.rate = Some(rate);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Encoder, EncoderConfig, Scene, is_available, ivf_frame};
    use taut_core::Seed;
    use taut_wire::rtp::Repr;

    /// So many frames of the test picture, the first a key frame; none without libvpx.
    fn frames(count: u32) -> Vec<Vec<u8>> {
        if !is_available() {
            println!("skipped: built without libvpx");
            return Vec::new();
        }
        let mut scene = Scene::new(640, 480).unwrap();
        let mut encoder = Encoder::new(EncoderConfig::new(640, 480, 30)).unwrap();
        (0..count).map(|number| encoder.encode(scene.draw(number)).unwrap().frame().to_vec()).collect()
    }

    /// A frame in packets of 1000 bytes.
    fn packets(frame: &[u8], sequence: &mut u16, timestamp: u32, ssrc: u32) -> Vec<Vec<u8>> {
        let parts = frame.len().div_ceil(1_000);
        let packet = |(at, part): (usize, &[u8])| {
            let mut bytes = Vec::new();
            let repr = Repr {
                marker: at + 1 == parts,
                payload_type: 96,
                sequence: *sequence,
                timestamp,
                ssrc,
                ..Repr::default()
            };
            repr.emit(&mut bytes);
            Descriptor { start: at == 0, ..Descriptor::default() }.emit(&mut bytes);
            bytes.extend_from_slice(part);
            *sequence = sequence.wrapping_add(1);
            bytes
        };
        frame.chunks(1_000).enumerate().map(packet).collect()
    }

    #[test]
    fn a_file_is_shown_again_and_again() {
        let frames = frames(3);
        if frames.is_empty() {
            return;
        }
        let mut file = IvfHeader { width: 640, height: 480, rate: 30, scale: 1 }.emit();
        // It begins behind its key frame, which is at the end of what was cut off.
        file.extend(ivf_frame(0, &frames[1]));
        frames.iter().for_each(|frame| file.extend(ivf_frame(0, frame)));
        let mut film = Film::new(file).unwrap();
        let seen: Vec<_> = (0..7).map(|_| Scene::read(&film.next_image().unwrap())).collect();
        assert_eq!(seen, [0, 1, 2, 0, 1, 2, 0].map(Some));
        let mut headless = IvfHeader { width: 640, height: 480, rate: 30, scale: 1 }.emit();
        headless.extend(ivf_frame(0, &frames[1]));
        assert!(matches!(Film::new(headless), Err(VideoError::File(_))));
        let mut other = IvfHeader { width: 64, height: 48, rate: 30, scale: 1 }.emit();
        other.extend(ivf_frame(0, &frames[0]));
        let image = Film::new(other).unwrap().next_image().unwrap();
        assert_eq!((image.width(), image.height()), (640, 480), "its size may change");
    }

    #[test]
    fn a_giant_picture_is_refused_before_there_is_memory_for_it() {
        let Ok(mut decoder) = FrameDecoder::new() else { return };
        let mut frame = vec![0; 64];
        frame[..10].copy_from_slice(&[0x10, 0x02, 0, 0x9d, 0x01, 0x2a, 0xff, 0x3f, 0xff, 0x3f]);
        assert_eq!(decoder.decode(&frame), Err(VideoError::Size { width: 16_383, height: 16_383 }));
    }

    #[test]
    fn frames_come_whole_over_rtp_and_what_a_loss_leaves_is_said() {
        let (mut rtp, mut sequence, now) = (RtpFrames::new(), 65_534, Time::ZERO);
        let frame = |byte: u8| vec![byte; 2_500];
        for (number, byte) in [1_u8, 2, 3].into_iter().enumerate() {
            let sent = packets(&frame(byte), &mut sequence, number as u32 * 3_000, 7);
            let taken: Vec<_> = sent.iter().map(|packet| rtp.take(now, packet)).collect();
            assert_eq!(taken, [RtpTaken::Nothing, RtpTaken::Nothing, RtpTaken::Frame(frame(byte))]);
            assert_eq!(rtp.take(now, &sent[1]), RtpTaken::Nothing, "once more");
        }
        // The second packet of a frame is lost, so its third is of no use; and then the last of another one.
        let sent = packets(&frame(5), &mut sequence, 9_000, 7);
        assert_eq!([0, 2].map(|at| rtp.take(now, &sent[at])), [RtpTaken::Nothing, RtpTaken::Lost]);
        let sent = packets(&frame(7), &mut sequence, 12_000, 7);
        assert_eq!([0, 1].map(|at| rtp.take(now, &sent[at])), [RtpTaken::Nothing, RtpTaken::Nothing]);
        let sent = packets(&frame(9), &mut sequence, 15_000, 7);
        assert_eq!(rtp.take(now, &sent[0]), RtpTaken::Lost);
        // A key frame, whose first bit is 0, needs nothing of it.
        let sent = packets(&frame(8), &mut sequence, 18_000, 7);
        let taken: Vec<_> = sent.iter().map(|packet| rtp.take(now, packet)).collect();
        assert_eq!(taken[2], RtpTaken::Frame(frame(8)));
        // Another source, which is heard when this one is silent.
        let other = packets(&frame(4), &mut 9, 0, 8);
        assert_eq!(rtp.take(now, &other[0]), RtpTaken::Nothing);
        assert_eq!(rtp.counts().foreign, 1);
        let later = now + Duration::from_secs(2);
        let taken: Vec<_> = other.iter().map(|packet| rtp.take(later, packet)).collect();
        assert_eq!(taken[2], RtpTaken::Frame(frame(4)));
        assert_eq!(rtp.counts().late, 3);
        // Packets that come again, in a row, are no new beginning.
        let again: Vec<_> = other.iter().map(|packet| rtp.take(later, packet)).collect();
        assert_eq!((again, rtp.counts().late), (vec![RtpTaken::Nothing; 3], 6));
        // The same source with numbers from elsewhere is one: believed with its second packet, and what was begun is lost.
        let mut sequence = 12;
        let sent = packets(&frame(6), &mut sequence, 3_000, 8);
        assert_eq!(rtp.take(later, &sent[0]), RtpTaken::Nothing);
        sequence = sequence.wrapping_sub(20_000);
        let sent = packets(&frame(6), &mut sequence, 0, 8);
        let taken: Vec<_> = sent.iter().map(|packet| rtp.take(later, packet)).collect();
        assert_eq!(taken, [RtpTaken::Nothing, RtpTaken::Lost, RtpTaken::Nothing]);
        let sent = packets(&frame(2), &mut sequence, 3_000, 8);
        let taken: Vec<_> = sent.iter().map(|packet| rtp.take(later, packet)).collect();
        assert_eq!((&taken[2], rtp.counts().late), (&RtpTaken::Frame(frame(2)), 7));
    }

    #[test]
    fn a_sender_s_rate_is_told_by_its_timestamps() {
        let mut rtp = RtpFrames::new();
        let (mut sequence, mut timestamp) = (0, u32::MAX - 4_000);
        let mut rate_after = |steps: &[u32]| {
            for step in steps {
                timestamp = timestamp.wrapping_add(*step);
                let sent = packets(&[2; 500], &mut sequence, timestamp, 7);
                assert!(matches!(rtp.take(Time::ZERO, &sent[0]), RtpTaken::Frame(_)));
            }
            rtp.rate()
        };
        assert_eq!(rate_after(&[1_500; 8]), None, "of the first nobody knows when the one before was");
        assert_eq!(rate_after(&[1_500]), Some(60));
        // Uneven, and some are missing.
        assert_eq!(rate_after(&[1_400, 1_700, 3_000, 1_300, 1_600, 1_500, 4_500, 1_600]), Some(60));
        assert_eq!(rate_after(&[3_003; 8]), Some(30));
        assert_eq!(rate_after(&[0; 8]), Some(240));
        assert_eq!(rate_after(&[u32::MAX; 8]), Some(1));
    }

    /// Whatever comes: no panic, no frame beyond its bound, and a decoder that goes on with the next key frame.
    #[test]
    fn hostile_packets_take_no_more_than_a_frame() {
        let mut rng = Seed::new(3).stream("hostile");
        let (mut rtp, mut decoder) = (RtpFrames::new(), FrameDecoder::new().ok());
        for round in 0..20_000_u64 {
            let mut packet: Vec<u8> = (0..rng.below(80)).map(|_| rng.below(256) as u8).collect();
            if let Some(first) = packet.first_mut().filter(|_| round % 2 == 0) {
                *first = 0x80;
            }
            let now = Time::ZERO + Duration::from_millis(700) * round;
            if let (RtpTaken::Frame(frame), Some(decoder)) = (rtp.take(now, &packet), &mut decoder) {
                let _ = decoder.decode(&frame);
            }
        }
        // One that never ends.
        let mut sequence = 0;
        let endless = vec![1; 1_000];
        for at in 0..6_000_u32 {
            let mut bytes = Vec::new();
            Repr { payload_type: 96, sequence, timestamp: 1, ssrc: 1, ..Repr::default() }.emit(&mut bytes);
            Descriptor { start: at == 0, ..Descriptor::default() }.emit(&mut bytes);
            bytes.extend_from_slice(&endless);
            sequence = sequence.wrapping_add(1);
            rtp.take(Time::ZERO + Duration::from_secs(20_000), &bytes);
            assert!(rtp.frame.as_ref().is_none_or(|frame| frame.len() <= LONGEST));
        }
        assert_eq!(rtp.counts().too_long, 1);
        let (frames, mut sequence) = (frames(1), 6_000);
        let Some((frame, decoder)) = frames.first().zip(decoder.as_mut()) else { return };
        let sent = packets(frame, &mut sequence, 2, 1);
        let last =
            sent.iter().map(|packet| rtp.take(Time::ZERO + Duration::from_secs(20_000), packet)).last();
        assert_eq!(last, Some(RtpTaken::Frame(frame.clone())));
        decoder.lost();
        assert!(decoder.decode(frame).unwrap().is_some());
    }
}
