//! The robot's end: a thread that makes pictures and encodes them. The session tells it what it needs to know, and never waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};

use taut_core::{Bitrate, Duration, Time};
use taut_io::Clock;
use taut_media::picture::Ask;
use taut_session::{ChannelEvent, ChannelId};
use taut_video::{Encoder, EncoderConfig, Scene};

use super::{Format, Source, VideoSpec};

/// Words that wait for it, at most: with more it is told that it missed some.
const WORDS: usize = 64;

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
    Bitrate(Option<Bitrate>),
}

/// A camera before its session begins.
pub(crate) struct Camera {
    name: String,
    channel: ChannelId,
    most: Bitrate,
    scene: Scene,
    encoder: Encoder,
    format: Format,
    words: Receiver<Word>,
    missed: Arc<AtomicBool>,
}

/// What tells it.
#[derive(Clone)]
pub(crate) struct CameraWords {
    channel: ChannelId,
    ask: ChannelId,
    words: SyncSender<Word>,
    missed: Arc<AtomicBool>,
}

impl Camera {
    /// Over this channel, asked over that one; with no more than so much.
    ///
    /// # Errors
    /// One line, where there is no encoder for it.
    pub(crate) fn new(
        spec: &VideoSpec,
        channel: ChannelId,
        ask: ChannelId,
        most: Bitrate,
    ) -> Result<(Self, CameraWords), String> {
        let wrong = |error: taut_video::VideoError| format!("--video {}: {error}", spec.name);
        let Source::Test(format) = spec.source;
        let scene = Scene::new(format.width, format.height).map_err(wrong)?;
        let config = EncoderConfig::new(format.width, format.height, format.rate).rate(most);
        let encoder = Encoder::new(config).map_err(wrong)?;
        let (sender, words) = sync_channel(WORDS);
        let missed = Arc::new(AtomicBool::new(false));
        let told = CameraWords { channel, ask, words: sender, missed: Arc::clone(&missed) };
        let name = spec.name.clone();
        Ok((Self { name, channel, most, scene, encoder, format, words, missed }, told))
    }

    /// Starts its thread, which ends with the last of its [`CameraWords`]. `send` gives a message to the session: what was made when; false: it does
    /// not take it.
    ///
    /// # Errors
    /// When the system has no thread for it.
    pub(crate) fn start(
        mut self,
        clock: Clock,
        send: impl Fn(ChannelId, Time, Vec<u8>) -> bool + Send + 'static,
    ) -> Result<(), String> {
        let thread = std::thread::Builder::new().name(format!("taut video {}", self.name));
        let started = thread.spawn(move || while self.picture(clock, &send) {});
        started.map(drop).map_err(|error| format!("a thread: {error}"))
    }

    /// Waits until somebody looks, then makes pictures until nobody does; false: there is no session any more.
    fn picture(&mut self, clock: Clock, send: &impl Fn(ChannelId, Time, Vec<u8>) -> bool) -> bool {
        loop {
            match self.words.recv() {
                Ok(Word::Opened) => break,
                Ok(Word::Bitrate(rate)) => self.limit(rate),
                Ok(_) => {}
                Err(_) => return false,
            }
        }
        self.encoder.restart();
        let period = Duration::from_nanos(1_000_000_000 / u64::from(self.format.rate));
        let (mut next, mut number) = (clock.now(), 0);
        loop {
            let left = next.saturating_since(clock.now());
            match self.words.recv_timeout(std::time::Duration::from_nanos(left.as_nanos())) {
                Ok(Word::Opened) => self.encoder.restart(),
                Ok(Word::Closed) => return true,
                Ok(Word::Ask(ask)) => self.encoder.ask(ask),
                Ok(Word::Dropped) => self.encoder.lost(),
                Ok(Word::Bitrate(rate)) => self.limit(rate),
                Err(RecvTimeoutError::Disconnected) => return false,
                Err(RecvTimeoutError::Timeout) => {
                    if self.missed.swap(false, Ordering::AcqRel) {
                        self.encoder.restart();
                    }
                    let created = clock.now();
                    let made = self.encoder.encode(self.scene.draw(number));
                    // One that cannot be encoded is followed by a key frame.
                    let sent = made.is_ok_and(|made| send(self.channel, created, made.payload));
                    if !sent {
                        self.encoder.lost();
                    }
                    number += 1;
                    // Where encoding takes longer than a period, pictures are left out instead of made late.
                    while next <= created {
                        next += period;
                    }
                }
            }
        }
    }

    fn limit(&mut self, rate: Option<Bitrate>) {
        let rate = rate.map_or(self.most, |rate| rate.min(self.most));
        // One that is refused leaves the one before.
        let _ = self.encoder.set_bitrate(rate);
    }
}

impl CameraWords {
    /// Something happened to a channel.
    pub(crate) fn channel(&self, event: &ChannelEvent) {
        match event {
            ChannelEvent::Opened { channel } if *channel == self.channel => self.tell(Word::Opened),
            ChannelEvent::Received { channel, payload, .. } if *channel == self.ask => {
                // What is no ask asks for nothing.
                Ask::parse(payload).into_iter().for_each(|ask| self.tell(Word::Ask(ask)));
            }
            ChannelEvent::Dropped { channel, .. } if *channel == self.channel => self.tell(Word::Dropped),
            _ => {}
        }
    }

    /// The session's rate for it is another.
    pub(crate) fn bitrate(&self, rate: Option<Bitrate>) {
        self.tell(Word::Bitrate(rate));
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
