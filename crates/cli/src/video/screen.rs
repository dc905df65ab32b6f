//! The operator's end: a thread that decodes pictures, asks for what is missing, and measures how old they are.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;

use serde_json::{Value, json};
use taut_core::{Duration, Time};
use taut_io::{Clock, Slice, set_slice};
use taut_media::picture::Codec;
use taut_session::{ChannelEvent, ChannelId};
use taut_video::{Decoder, DecoderCounts, Scene};

use crate::ages::Ages;
use crate::channels::PictureChannels;
use crate::host::json_line;
use crate::streams::print;

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
        let (ask, measured) = (over.asks, Measured::default());
        Ok((Self { name: name.to_owned(), ask, decoder, payloads, measured, measures, json }, words))
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
        let thread = std::thread::Builder::new().name(format!("taut video {}", self.name));
        let run = move || {
            let _ = set_slice(Slice::Usual); // A decoder computes for long.
            self.run(clock, &send);
        };
        thread.spawn(run).map_err(|error| format!("a thread: {error}"))
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
                    self.tell("video", now, EVERY + now.saturating_since(due), &second);
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
        let bytes = came.payload.len() as u64;
        second.bytes += bytes;
        self.measured.bytes += bytes;
        // What is no picture is counted by the decoder.
        let taken = self.decoder.take(&came.payload).unwrap_or_default();
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

    fn tell(&self, event: &'static str, now: Time, span: Duration, measured: &Measured) {
        let counts = self.decoder.counts();
        let more = measured.as_json(&self.name, counts, span);
        if self.json {
            return print(&json_line(event, now, more));
        }
        let text: Vec<String> = more.into_iter().map(|(key, value)| format!("{key} {value}")).collect();
        print(&format!("{:>9.3} s  {event}: {}\n", now.as_secs_f64(), text.join(", ")));
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
    /// When the first was decoded, and the last.
    shown: Option<[Time; 2]>,
    /// How old the one that is held was at this time.
    last: Option<(Time, Duration)>,
    counted: DecoderCounts,
}

impl Measured {
    fn show(&mut self, now: Time, age: Option<Duration>, is_read: bool) {
        self.frames += 1;
        self.read += u64::from(is_read);
        self.shown = Some([self.shown.map_or(now, |[first, _]| first), now]);
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

    fn span(&self) -> Duration {
        self.shown.map_or(Duration::ZERO, |[first, last]| last.saturating_since(first))
    }

    fn as_json(&self, name: &str, counts: DecoderCounts, span: Duration) -> Vec<(&'static str, Value)> {
        let before = self.counted;
        let kbps = self.bytes as f64 * 8.0 / span.as_secs_f64().max(1e-3) / 1e3;
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
            ("rate_kbps", json!(kbps.round())),
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
