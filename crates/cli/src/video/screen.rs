//! The operator's end: a thread that decodes pictures, asks for what is missing, and measures how old they are.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;

use serde_json::{Value, json};
use taut_core::{Duration, Time};
use taut_io::{Clock, spawn_unprivileged, stand_back};
use taut_media::picture::Codec;
use taut_session::{ChannelEvent, ChannelId};
use taut_video::{Decoder, DecoderCounts, Scene, Taken, VideoError};

use crate::ages::Ages;
use crate::channels::PictureChannels;
use crate::host::print_measures;
use crate::streams::Complaints;

/// Payloads that wait for it, at most.
const PAYLOADS: usize = 64;
/// Measures are told so often.
const EVERY: Duration = Duration::from_secs(1);
const MILLISECOND: Duration = Duration::from_millis(1);

/// A payload that came.
struct Came {
    at: Time,
    age: Option<Duration>,
    payload: Vec<u8>,
}

/// A screen before its session begins.
pub(crate) struct Screen {
    name: String,
    ask: ChannelId,
    decoder: Decoder,
    payloads: Receiver<Came>,
    measured: Measured,
    measures: bool,
    json: bool,
    /// Why there was no picture last, which is said once.
    wrong: Option<VideoError>,
    complaints: Complaints,
}

/// What comes goes there.
#[derive(Clone)]
pub(crate) struct ScreenWords {
    channel: ChannelId,
    payloads: SyncSender<Came>,
}

impl Screen {
    /// Of this channel, which is asked over that one; `measures`: it says every second what it saw.
    ///
    /// # Errors
    /// One line, where there is no decoder.
    pub(crate) fn new(
        name: &str,
        over: PictureChannels,
        measures: bool,
        json: bool,
    ) -> Result<(Self, ScreenWords), String> {
        let decoder = Decoder::new().map_err(|error| format!("--video {name}: {error}"))?;
        let (sender, payloads) = sync_channel(PAYLOADS);
        let words = ScreenWords { channel: over.pictures, payloads: sender };
        let screen = Self {
            name: name.to_owned(),
            ask: over.asks,
            decoder,
            payloads,
            measured: Measured::default(),
            measures,
            json,
            wrong: None,
            complaints: Complaints::default(),
        };
        Ok((screen, words))
    }

    /// Starts its thread, which ends with the last of its [`ScreenWords`] and then says what it saw. `send` gives an ask to the session.
    ///
    /// # Errors
    /// When the system has no thread for it.
    pub(crate) fn start(
        self,
        clock: Clock,
        send: impl Fn(ChannelId, Vec<u8>) + Send + 'static,
    ) -> Result<JoinHandle<()>, String> {
        let name = format!("taut video {}", self.name);
        let run = move || self.run(clock, &send);
        spawn_unprivileged(&name, stand_back, run).map_err(|error| format!("a thread: {error}"))
    }

    fn run(mut self, clock: Clock, send: &impl Fn(ChannelId, Vec<u8>)) {
        let mut second = Measured::default();
        let mut due = clock.now() + EVERY;
        loop {
            let left = due.saturating_since(clock.now());
            match self.payloads.recv_timeout(std::time::Duration::from(left)) {
                Ok(came) => self.take(clock, &came, &mut second, send),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let now = clock.now();
            if now >= due {
                second.hold(now);
                self.measured.hold(now);
                if self.measures {
                    self.tell("video", now, Some(EVERY + now.saturating_since(due)), &second);
                }
                second = second.next(self.decoder.counts());
                due = now + EVERY;
            }
        }
        let now = clock.now();
        self.measured.hold(now);
        self.tell("video_summary", now, self.measured.span(), &self.measured);
    }

    fn take(&mut self, clock: Clock, came: &Came, second: &mut Measured, send: &impl Fn(ChannelId, Vec<u8>)) {
        second.come(came);
        self.measured.come(came);
        // What is no picture is counted by the decoder.
        let taken = self.decoder.take(&came.payload).unwrap_or_else(|wrong| {
            if self.wrong.replace(wrong) != Some(wrong) {
                self.complaints.say(&format!("--video {}: no picture: {wrong}", self.name), false);
            }
            Taken::default()
        });
        let now = clock.now();
        // The newest is what is shown, and is the one that came, unless that one lacks something.
        for decoded in &taken.decoded {
            (second.codec, self.measured.codec) = (Some(decoded.picture.codec), Some(decoded.picture.codec));
            let age = came.age.map(|age| age + now.saturating_since(came.at));
            let is_read = Scene::read(&decoded.image).is_some();
            second.show(now, age, is_read);
            self.measured.show(now, age, is_read);
        }
        taken.ask.into_iter().for_each(|ask| send(self.ask, ask.emit().to_vec()));
    }

    fn tell(&self, event: &'static str, now: Time, span: Option<Duration>, measured: &Measured) {
        print_measures(event, now, measured.as_json(&self.name, self.decoder.counts(), span), self.json);
    }
}

impl ScreenWords {
    /// Something happened to a channel, at that time.
    pub(crate) fn channel(&self, at: Time, event: &ChannelEvent) {
        if let ChannelEvent::Received { channel, age, payload, .. } = event
            && *channel == self.channel
        {
            // Where it is too slow, pictures are missing, as they are when they are lost on the way.
            let _ = self.payloads.try_send(Came { at, age: *age, payload: payload.clone() });
        }
    }
}

/// What was seen for some time.
#[derive(Debug, Default)]
struct Measured {
    frames: u64,
    /// Of these, test pictures whose number could be read.
    read: u64,
    bytes: u64,
    /// Of the last.
    codec: Option<Codec>,
    /// When they were made to when they were decoded.
    ages: Ages,
    /// Of the picture that is held, every millisecond.
    held: Ages,
    /// When the first payload came, and the last.
    came: Option<[Time; 2]>,
    /// How old the one that is held was at this time.
    last: Option<(Time, Duration)>,
    counted: DecoderCounts,
}

impl Measured {
    fn come(&mut self, came: &Came) {
        self.bytes += came.payload.len() as u64;
        self.came = Some([self.came.map_or(came.at, |[first, _]| first), came.at]);
    }

    fn show(&mut self, now: Time, age: Option<Duration>, is_read: bool) {
        self.frames += 1;
        self.read += u64::from(is_read);
        self.hold(now);
        if let Some(age) = age {
            self.ages.add(age);
            self.last = Some((now, age));
        }
    }

    /// Nothing newer came until now.
    fn hold(&mut self, now: Time) {
        let Some((at, age)) = &mut self.last else { return };
        while *at + MILLISECOND <= now {
            self.held.add(*age);
            (*at, *age) = (*at + MILLISECOND, *age + MILLISECOND);
        }
    }

    /// The next, which goes on from here.
    fn next(&self, counted: DecoderCounts) -> Self {
        Self { last: self.last, counted, ..Self::default() }
    }

    /// In which payloads came; `None`: there were not two.
    fn span(&self) -> Option<Duration> {
        self.came.map(|[first, last]| last.saturating_since(first)).filter(|span| !span.is_zero())
    }

    /// Of so long.
    fn as_json(
        &self,
        name: &str,
        counts: DecoderCounts,
        span: Option<Duration>,
    ) -> Vec<(&'static str, Value)> {
        let before = self.counted;
        let kbps = span.map(|span| (self.bytes as f64 * 8.0 / span.as_secs_f64() / 1e3).round());
        vec![
            ("channel", json!(name)),
            ("codec", json!(self.codec.map(codec_name))),
            ("frames", json!(self.frames)),
            ("numbers_read", json!(self.read)),
            ("age_ms", self.ages.as_json()),
            ("held_age_ms", self.held.as_json()),
            ("missing", json!(counts.missing.saturating_sub(before.missing))),
            ("useless", json!(counts.useless - before.useless)),
            ("malformed", json!(counts.malformed - before.malformed)),
            ("keys", json!(counts.keys - before.keys)),
            ("recovered", json!(counts.recovered - before.recovered)),
            ("rate_kbps", json!(kbps)),
        ]
    }
}

fn codec_name(codec: Codec) -> &'static str {
    match codec {
        Codec::Vp8 => "vp8",
        Codec::H264 => "h264",
        Codec::Jpeg => "jpeg",
    }
}

#[cfg(test)]
mod tests {
    use taut_media::picture::Picture;

    use super::*;

    #[test]
    fn the_age_of_the_picture_held_grows_until_the_next_comes() {
        let ms = Duration::from_millis;
        let mut measured = Measured::default();
        measured.show(Time::ZERO + ms(100), Some(ms(20)), true);
        measured.show(Time::ZERO + ms(200), Some(ms(30)), false);
        assert_eq!((measured.frames, measured.read, measured.held.count()), (2, 1, 100));
        let ms = |ages: &Ages, share| ages.quantile(share).unwrap().round() as u64;
        let held = [0.5, 1.0].map(|share| ms(&measured.held, share));
        assert_eq!((held, ms(&measured.ages, 0.99)), ([69, 119], 30));
    }

    #[test]
    fn the_rate_is_that_of_what_came_whether_or_not_it_was_decoded() {
        let mut measured = Measured::default();
        let rate = |measured: &Measured| {
            let told = measured.as_json("front", DecoderCounts::default(), measured.span());
            told.into_iter().find(|(key, _)| *key == "rate_kbps").unwrap().1
        };
        let came = |ms| Came { at: Time::ZERO + Duration::from_millis(ms), age: None, payload: vec![0; 500] };
        assert_eq!(rate(&measured), Value::Null);
        measured.come(&came(1_000));
        assert_eq!(rate(&measured), Value::Null);
        (1_001..=3_000).for_each(|ms| measured.come(&came(ms)));
        // One of them was decoded, at the end.
        measured.show(Time::ZERO + Duration::from_millis(3_000), None, false);
        assert_eq!(rate(&measured), json!(4_002.0));
    }

    fn screen() -> Option<Screen> {
        let over = PictureChannels { pictures: ChannelId(0), asks: ChannelId(1) };
        let screen = Screen::new("front", over, false, false).ok();
        if screen.is_none() {
            println!("skipped: built without libvpx and OpenH264");
        }
        Some(screen?.0)
    }

    #[test]
    fn why_there_is_no_picture_is_said_once() {
        let Some(mut screen) = screen() else { return };
        let clock = Clock::start();
        let mut second = Measured::default();
        let mut payload = Vec::new();
        Picture::key(Codec::Jpeg, 64, 48, 0).emit(&mut payload);
        let large = [0; 4];
        for payload in [&payload[..], &payload, &large, &large] {
            let came = Came { at: Time::ZERO, age: None, payload: payload.to_vec() };
            screen.take(clock, &came, &mut second, &|_, _| panic!("nothing is asked for"));
        }
        assert_eq!(screen.decoder.counts().malformed, 4);
        assert!(matches!(screen.wrong, Some(VideoError::Picture(_))), "{:?}", screen.wrong);
    }

    #[test]
    fn a_picture_that_stands_still_grows_old_though_none_comes() {
        let ms = Duration::from_millis;
        let (mut all, mut second) = (Measured::default(), Measured::default());
        all.show(Time::ZERO, Some(ms(20)), true);
        second.show(Time::ZERO, Some(ms(20)), true);
        for seconds in 1..=30 {
            second = second.next(DecoderCounts::default());
            second.hold(Time::ZERO + ms(1_000 * seconds));
        }
        all.hold(Time::ZERO + ms(30_000));
        for (held, [p50, last]) in [(&second.held, [29_520.0, 30_019.0]), (&all.held, [15_020.0, 30_019.0])] {
            let near = |share, expected: f64| (held.quantile(share).unwrap() / expected - 1.0).abs() < 0.001;
            assert!(near(0.5, p50) && near(1.0, last), "{} {:?}", held.count(), held.as_json());
        }
        assert_eq!((second.held.count(), all.held.count()), (1_000, 30_000));
    }
}
