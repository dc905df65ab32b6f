//! The robot's end: a thread that makes pictures and encodes them. The session tells it what it needs to know, and never waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;

use taut_core::{Bitrate, Bytes, Duration, Time};
use taut_io::session::os_seed;
use taut_io::{Clock, spawn_unprivileged, stand_back};
use taut_media::picture::Ask;
use taut_session::{ChannelEvent, ChannelId, SendRefused};
use taut_video::{Encoder, EncoderConfig, Image, Passing, VideoError};

use super::frames::Frames;
use super::pipeline::{Came, Content, Frame};
use super::{Format, VideoCodec, VideoSpec};
use crate::channels::PictureChannels;
use crate::device::Seen;
use crate::streams::Complaints;

/// Words that wait for it, at most: with more it is told that it missed some.
const WORDS: usize = 64;

/// Until somebody looks, a camera looks so often what it is told.
const IDLE: Duration = Duration::from_secs(1);

/// The encoder of a pipeline is asked for a key frame so often, until it makes one.
const ASKS: Duration = Duration::from_millis(300);

/// What happens to a camera.
enum Next {
    Word(Word),
    /// A picture of another program, or of a pipeline: its age.
    Came(Image, Duration),
    /// A frame of another encoder: its age.
    Encoded(Frame, Duration),
    /// Frames of it are missing.
    Gap,
    /// A period is over.
    Due,
    /// There is no session any more.
    End,
    /// Nothing.
    Nothing,
}

/// What a camera is told.
#[derive(Clone, Copy, Debug)]
enum Word {
    /// There is somebody to look, who has nothing yet.
    Opened,
    /// There is nobody any more.
    Closed,
    Ask(Ask),
    /// A message was dropped.
    Dropped,
    /// One was not even taken.
    Refused(SendRefused),
    Bitrate(Option<Bitrate>),
}

/// A camera before its session begins.
pub(crate) struct Camera {
    name: String,
    channel: ChannelId,
    most: Bitrate,
    /// What the session has left, where that is known.
    left: Option<Bitrate>,
    frames: Frames,
    /// Ours, unless the pictures come from another.
    encoder: Option<Encoder>,
    /// The number of its first frame, or that of the next encoder's.
    next: u32,
    /// What another encoder made, and when that was asked for a key frame.
    passing: Passing,
    asked: Option<Time>,
    /// Somebody looks.
    is_watched: bool,
    codec: VideoCodec,
    format: Format,
    /// For which there is no encoder, and that was said.
    refused: Option<Format>,
    /// Pictures without an encoder since that was said.
    left_out: u64,
    complaints: Complaints,
    words: Receiver<Word>,
    missed: Arc<AtomicBool>,
}

/// What tells it.
#[derive(Clone)]
pub(crate) struct CameraWords {
    over: PictureChannels,
    words: SyncSender<Word>,
    missed: Arc<AtomicBool>,
}

impl Camera {
    /// Over these channels, in this codec, with no more than so much.
    ///
    /// # Errors
    /// One line, where there is no encoder for what it takes.
    pub(crate) fn new(
        spec: &VideoSpec,
        over: PictureChannels,
        codec: VideoCodec,
        most: Bitrate,
        seen: &Seen,
    ) -> Result<(Self, CameraWords), String> {
        let wrong = |error: String| format!("--video {}: {error}", spec.name);
        let (frames, format) = Frames::open(&spec.source, seen).map_err(wrong)?;
        let next = random();
        let encoder = match frames.is_encoded() {
            true => None,
            false => Some(encoder(format, codec, most, next).map_err(|error| wrong(error.to_string()))?),
        };
        let (sender, words) = sync_channel(WORDS);
        let missed = Arc::new(AtomicBool::new(false));
        let told = CameraWords { over, words: sender, missed: Arc::clone(&missed) };
        let mut this = Self {
            name: spec.name.clone(),
            channel: over.pictures,
            most,
            left: None,
            frames,
            encoder,
            passing: Passing::new(next),
            next,
            asked: None,
            is_watched: false,
            codec,
            format,
            refused: None,
            left_out: 0,
            complaints: Complaints::default(),
            words,
            missed,
        };
        this.limit(None);
        Ok((this, told))
    }

    /// Starts its thread, which ends with the last of its [`CameraWords`], and a pipeline with it. `send` gives a message to the session: what was made when; false: it does
    /// not take it.
    ///
    /// # Errors
    /// When the system has no thread for it.
    pub(crate) fn start(
        mut self,
        clock: Clock,
        send: impl Fn(ChannelId, Time, Vec<u8>) -> bool + Send + 'static,
    ) -> Result<JoinHandle<()>, String> {
        let name = format!("taut video {}", self.name);
        // An encoder computes for long, and whoever starts it is the session's thread, with its priority and processor.
        let run = move || while self.picture(clock, &send) {};
        spawn_unprivileged(&name, stand_back, run).map_err(|error| format!("a thread: {error}"))
    }

    /// Waits until somebody looks, then makes pictures until nobody does; false: there is no session any more.
    fn picture(&mut self, clock: Clock, send: &impl Fn(ChannelId, Time, Vec<u8>) -> bool) -> bool {
        loop {
            match self.next_word(clock, clock.now() + IDLE) {
                Next::Word(Word::Opened) => break,
                Next::Word(Word::Bitrate(rate)) => self.limit(rate),
                Next::Encoded(Frame { codec, bytes, .. }, _) => self.passing.look(codec, &bytes),
                // What other programs send is decoded while nobody looks, for what comes later refers to it.
                Next::Word(_) | Next::Came(..) | Next::Gap | Next::Due | Next::Nothing => {}
                Next::End => return false,
            }
        }
        self.is_watched = true;
        self.restart();
        let mut next = clock.now();
        loop {
            let period = self.period();
            let image = match self.next_word(clock, next) {
                Next::Word(Word::Opened) => {
                    self.restart();
                    continue;
                }
                Next::Word(Word::Closed) => {
                    self.is_watched = false;
                    if let Some(said) = self.none_left_out() {
                        self.complaints.say(&said, true);
                    }
                    return true;
                }
                Next::Word(Word::Ask(ask)) => {
                    self.encoder.iter_mut().for_each(|encoder| encoder.ask(ask));
                    self.passing.ask(ask);
                    next = in_phase(next, ask);
                    continue;
                }
                Next::Word(Word::Dropped) => {
                    self.lost();
                    continue;
                }
                Next::Word(Word::Refused(why)) => {
                    self.lost();
                    // What is too old by now is counted as everything that is late.
                    if why != SendRefused::TooLate {
                        let said = format!("--video {}: a picture is not sent: {why}", self.name);
                        self.complaints.say(&said, false);
                    }
                    continue;
                }
                Next::Gap => {
                    self.passing.lost();
                    continue;
                }
                Next::Word(Word::Bitrate(rate)) => {
                    self.limit(rate);
                    continue;
                }
                Next::Nothing => continue,
                Next::End => return false,
                // Of a source with a clock of its own one is left out, too, while the session is busy with the one before.
                Next::Came(..) if clock.now() + period / 2 < next => continue,
                // One that another encoder made cannot be left out: what comes after it refers to it.
                Next::Encoded(frame, age) => {
                    self.pass(clock.now() - age, &frame, send);
                    continue;
                }
                Next::Came(image, age) => Some((image, age)),
                // What a test picture says is the number of its frame: whoever reads it from a display knows which one that is.
                Next::Due => {
                    let number = self.encoder.as_ref().map_or(self.next, Encoder::next_number);
                    self.frames.due(number, clock.now()).map(|image| (image, Duration::ZERO))
                }
            };
            let now = clock.now();
            let takes = image.map_or(Duration::ZERO, |(image, age)| self.show(now - age, &image, send));
            // Pictures are left out where encoding takes longer than a period, and where one is longer than the session carries in that time.
            while next <= now || next + period <= now + takes {
                next += period;
            }
        }
    }

    /// What happens next, until then.
    fn next_word(&mut self, clock: Clock, until: Time) -> Next {
        if self.frames.comes() {
            return match self.words.try_recv() {
                Ok(word) => Next::Word(word),
                Err(TryRecvError::Disconnected) => Next::End,
                // It looks for words between two packets.
                Err(TryRecvError::Empty) => self.next_came(clock),
            };
        }
        let left = until.saturating_since(clock.now());
        match self.words.recv_timeout(std::time::Duration::from(left)) {
            Ok(word) => Next::Word(word),
            Err(RecvTimeoutError::Disconnected) => Next::End,
            Err(RecvTimeoutError::Timeout) => Next::Due,
        }
    }

    /// What comes next of a source with a clock of its own.
    fn next_came(&mut self, clock: Clock) -> Next {
        let came = self.frames.receive(|| clock.now()).flatten();
        if let Some(pipeline) = self.frames.pipeline() {
            while let Some(said) = pipeline.said() {
                crate::say(&format!("--video {}: {said}", self.name));
            }
            // It is asked again, where it did not hear.
            let now = clock.now();
            let is_due = self.asked.is_none_or(|asked| now.saturating_since(asked) >= ASKS);
            if self.is_watched && self.passing.wants_key() && is_due {
                self.asked = Some(now);
                pipeline.force_key();
            }
        }
        match came {
            None => Next::Nothing,
            Some(Came { content: Content::Image(image), age }) => Next::Came(image, age),
            Some(Came { content: Content::Frame(frame), age }) => Next::Encoded(frame, age),
            Some(Came { content: Content::Gap, .. }) => Next::Gap,
        }
    }

    /// Sends what another encoder made, if it is of use.
    fn pass(&mut self, created: Time, frame: &Frame, send: &impl Fn(ChannelId, Time, Vec<u8>) -> bool) {
        self.catch_up();
        if let Some(passed) = self.passing.pass(frame.codec, (frame.width, frame.height), &frame.bytes) {
            // It heard, if it was asked.
            if passed.picture.key {
                self.asked = None;
            }
            if !send(self.channel, created, passed.payload) {
                self.passing.lost();
            }
        }
    }

    /// Whoever looks from now on has nothing.
    fn restart(&mut self) {
        self.encoder.iter_mut().for_each(Encoder::restart);
        self.passing.restart();
    }

    /// It missed words: there may be somebody else to look by now.
    fn catch_up(&mut self) {
        if self.missed.swap(false, Ordering::AcqRel) {
            self.restart();
        }
    }

    fn lost(&mut self) {
        self.encoder.iter_mut().for_each(Encoder::lost);
        self.passing.lost();
    }

    /// Encodes and sends it: how long the session is busy with it.
    fn show(
        &mut self,
        created: Time,
        image: &Image,
        send: &impl Fn(ChannelId, Time, Vec<u8>) -> bool,
    ) -> Duration {
        self.catch_up();
        if let Some(said) = self.prepare(image.width(), image.height()) {
            self.complaints.say(&said, false);
        }
        let Some(encoder) = &mut self.encoder else { return Duration::ZERO };
        // One that cannot be encoded is followed by a key frame.
        let payload = encoder.encode(image).map_or_else(|_| Vec::new(), |made| made.payload);
        let bytes = payload.len();
        if payload.is_empty() || !send(self.channel, created, payload) {
            encoder.lost();
        }
        self.takes(bytes)
    }

    /// There is an encoder for a picture of so many pixels, or that one is left out. What is to be said of it.
    fn prepare(&mut self, width: usize, height: usize) -> Option<String> {
        let format = Format { width, height, rate: self.pictures_a_second() };
        if std::mem::replace(&mut self.format, format) != format
            && let Some(before) = self.encoder.take()
        {
            // Else frames of the one could pass for those of the other.
            self.next = before.next_number();
        }
        if self.encoder.is_none() {
            match encoder(format, self.codec, self.rate(), self.next) {
                Ok(encoder) => self.encoder = Some(encoder),
                Err(error) => {
                    self.left_out += 1;
                    let is_new = self.refused.replace(format) != Some(format);
                    let name = &self.name;
                    return is_new.then(|| {
                        format!(
                            "--video {name}: pictures of {width}×{height} pixels are left out, for there is no encoder: {error}"
                        )
                    });
                }
            }
        }
        self.refused = None;
        self.none_left_out()
    }

    /// From now on: how many were.
    fn none_left_out(&mut self) -> Option<String> {
        let count = std::mem::take(&mut self.left_out);
        (count > 0)
            .then(|| format!("--video {}: {count} pictures were left out without an encoder", self.name))
    }

    /// From one picture to the next.
    fn period(&self) -> Duration {
        Duration::from_nanos(1_000_000_000 / u64::from(self.pictures_a_second()))
    }

    /// As its source tells, or as before.
    fn pictures_a_second(&self) -> u32 {
        self.frames.rate().unwrap_or(self.format.rate)
    }

    /// What an encoder is to make.
    fn rate(&self) -> Bitrate {
        self.left.map_or(self.most, |left| left.min(self.most))
    }

    /// How long the session is busy with so many bytes, as far as is known; a picture a second goes in any case.
    fn takes(&self, bytes: usize) -> Duration {
        let takes = self.left.map(|rate| rate.time_for(Bytes::new(bytes as u64)));
        takes.unwrap_or(Duration::ZERO).min(Duration::from_secs(1))
    }

    fn limit(&mut self, rate: Option<Bitrate>) {
        self.left = rate;
        let rate = self.rate();
        // One that is refused leaves the one before.
        self.encoder.iter_mut().for_each(|encoder| _ = encoder.set_bitrate(rate));
        if let Some(pipeline) = self.frames.pipeline() {
            pipeline.set_bitrate(rate);
        }
    }
}

/// When the next picture is due, where a display asks for pictures that are made at other moments: a twentieth of what it asks for, for it asks
/// after each, and hears of it a round trip later; and by half a millisecond at most.
fn in_phase(next: Time, ask: Ask) -> Time {
    let Ask::Decoded { later, .. } = ask else { return next };
    let shift = Duration::from_micros(u64::from(later.unsigned_abs()) * 5).min(Duration::from_micros(500));
    if later > 0 { next + shift } else { next - shift }
}

fn encoder(format: Format, codec: VideoCodec, rate: Bitrate, first: u32) -> Result<Encoder, VideoError> {
    let config = EncoderConfig::new(format.width, format.height, format.rate).rate(rate).first(first);
    Encoder::new(config.codec(codec.of_channel()))
}

/// Of a process that follows another's: whoever looks on may still have frames of that.
fn random() -> u32 {
    os_seed().stream("pictures").next_u64() as u32
}

impl CameraWords {
    /// Something happened to a channel.
    pub(crate) fn channel(&self, event: &ChannelEvent) {
        match event {
            ChannelEvent::Opened { channel } if *channel == self.over.pictures => self.tell(Word::Opened),
            ChannelEvent::Received { channel, payload, .. } if *channel == self.over.asks => {
                // What is no ask asks for nothing.
                Ask::parse(payload).into_iter().for_each(|ask| self.tell(Word::Ask(ask)));
            }
            ChannelEvent::Dropped { channel, .. } if *channel == self.over.pictures => {
                self.tell(Word::Dropped)
            }
            _ => {}
        }
    }

    /// The session's rate for it is another.
    pub(crate) fn bitrate(&self, rate: Option<Bitrate>) {
        self.tell(Word::Bitrate(rate));
    }

    /// The session did not take a message.
    pub(crate) fn refused(&self, channel: ChannelId, why: SendRefused) {
        if channel == self.over.pictures {
            self.tell(Word::Refused(why));
        }
    }

    /// There is no session any more.
    pub(crate) fn closed(&self) {
        self.tell(Word::Closed);
    }

    fn tell(&self, word: Word) {
        if self.words.try_send(word).is_err() {
            self.missed.store(true, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use taut_wire::rtp::Repr;
    use taut_wire::rtp::vp8::Descriptor;

    use super::*;

    /// Of this source; `None` without libvpx.
    fn camera(source: &str) -> Option<Camera> {
        if !taut_video::is_available() {
            println!("skipped: built without libvpx");
            return None;
        }
        let over = PictureChannels { pictures: ChannelId(0), asks: ChannelId(1) };
        let spec = format!("front={source}").parse().unwrap();
        let most = Bitrate::from_bps(1_000_000);
        Some(Camera::new(&spec, over, VideoCodec::Vp8, most, &Seen::default()).unwrap().0)
    }

    #[test]
    fn what_no_encoder_takes_is_said_once_for_each_format_and_counted() {
        let Some(mut camera) = camera("test") else { return };
        // H.264 has no odd sizes, and in most builds there is none at all.
        camera.codec = VideoCodec::H264;
        let said = camera.prepare(641, 481).unwrap();
        assert!(said.starts_with("--video front: pictures of 641×481 pixels are left out"), "{said}");
        assert_eq!((camera.prepare(641, 481), camera.prepare(641, 481)), (None, None));
        assert!(camera.prepare(641, 483).is_some_and(|said| said.contains("641×483")));
        camera.codec = VideoCodec::Vp8;
        let said = camera.prepare(641, 481).unwrap();
        assert_eq!(said, "--video front: 4 pictures were left out without an encoder");
        assert_eq!(camera.prepare(641, 481), None);
    }

    #[test]
    fn an_encoder_of_another_size_goes_on_counting() {
        let Some(mut camera) = camera("test") else { return };
        let first = camera.encoder.as_ref().unwrap().next_number();
        for (width, frames) in [(640, 3), (320, 2), (240, 1)] {
            for _ in 0..frames {
                camera.show(Time::ZERO, &Image::new(width, 480).unwrap(), &|_, _, _| true);
            }
        }
        assert_eq!(camera.encoder.as_ref().unwrap().next_number(), first.wrapping_add(6));
        assert_ne!(first, 0);
    }

    #[test]
    fn a_camera_over_rtp_is_as_fast_as_its_sender() {
        let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let Some(mut camera) = camera(&format!("rtp:{port}")) else { return };
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let clock = Clock::start();
        for number in 0..10_u16 {
            let mut packet = Vec::new();
            let timestamp = u32::from(number) * 1_500;
            Repr { marker: true, payload_type: 96, sequence: number, timestamp, ssrc: 7, ..Repr::default() }
                .emit(&mut packet);
            Descriptor { start: true, ..Descriptor::default() }.emit(&mut packet);
            packet.push(1);
            sender.send_to(&packet, port).unwrap();
            assert!(matches!(camera.next_came(clock), Next::Nothing), "no picture, without a key frame");
        }
        assert_eq!(camera.period(), Duration::from_nanos(16_666_666));
        assert_eq!(camera.prepare(320, 240), None);
        assert_eq!(camera.format, Format { width: 320, height: 240, rate: 60 });
    }

    #[test]
    fn a_camera_follows_a_display_slowly_and_whatever_it_asks_for() {
        let at = Time::ZERO + Duration::from_secs(1);
        let moved = |later| {
            let next = in_phase(at, Ask::Decoded { last: 7, later });
            next.saturating_since(at).as_nanos() as i64 - at.saturating_since(next).as_nanos() as i64
        };
        assert_eq!([0, 20, -20].map(moved), [0, 100_000, -100_000]);
        assert_eq!([100, i16::MAX, i16::MIN].map(moved), [500_000, 500_000, -500_000]);
        assert_eq!(in_phase(at, Ask::Missing(7)), at);
    }
}
