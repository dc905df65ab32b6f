//! A pipeline, and what is appended to it: an element that gives its pictures to taut.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use gstreamer as gst;
use gstreamer::prelude::*;
use gstreamer_app as app;
use taut_core::{Bitrate, Duration};
use taut_media::picture::Codec;
use taut_video::{Image, Rows};

use super::rate::{self, Found};
use super::{Came, Content, Frame};
use crate::video::Format;

/// Frames of an encoder that wait, at most; of pictures only the newest does.
const FRAMES: usize = 8;
/// So long a pipeline may take to begin.
const BEGINS: gst::ClockTime = gst::ClockTime::from_seconds(5);
/// A picture is no older than this, whatever the pipeline says.
const OLDEST: Duration = Duration::from_secs(10);
/// So often a frame that is shown before one that came earlier says that an encoder makes B frames, unless so many came in order between; once, a clock was set.
const BACK: u32 = 3;
const IN_ORDER: u32 = 16;
/// So long the end of a pipeline is waited for.
const ENDS_WITHIN: std::time::Duration = std::time::Duration::from_secs(1);
const SINK: &str = "taut_pictures";

/// What it may end in: else its last element cannot be linked, and GStreamer says so.
const CAPS: &str = "video/x-raw, format=(string){I420, NV12}; \
                    video/x-h264, stream-format=byte-stream, alignment=au, \
                    profile=(string){constrained-baseline, baseline, main, high}; video/x-vp8";
const ENDS: &str =
    ": it has to end in pictures (videoconvert), in H.264 as a byte stream (h264parse) or in VP8";
/// What an element that fails has to say comes so soon.
const SAYS: gst::ClockTime = gst::ClockTime::from_seconds(1);

/// What the pipeline's threads and the camera's share.
#[derive(Default)]
struct Shared {
    slot: Mutex<Slot>,
    came: Condvar,
}

#[derive(Default)]
struct Slot {
    samples: VecDeque<gst::Sample>,
    /// Frames of an encoder were dropped.
    gap: bool,
    counts: Counts,
}

/// What became of pictures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    came: u64,
    /// A newer one came before the camera's thread had time.
    newer: u64,
    /// Frames of an encoder of which too many waited.
    waited: u64,
    /// Frames of an encoder that are shown before one that came earlier, and what came when so many of those had ended the pipeline.
    back: u64,
    /// Of a form or size that is not taken, or that is not what it says.
    malformed: u64,
}

/// Why a picture does not go on.
enum Refused {
    Back,
    Malformed,
}

pub(in crate::video) struct Pipeline {
    pipeline: gst::Pipeline,
    sink: app::AppSink,
    shared: Arc<Shared>,
    encoder: Found,
    rate: Option<Bitrate>,
    /// Nothing comes any more: says when it has stopped.
    stops: Option<Receiver<()>>,
    newest: Option<gst::ClockTime>,
    /// Frames in a row that came in order, and those that did not.
    in_order: u32,
    back: u32,
    /// It was said that its pictures have no time.
    is_timeless: bool,
    is_encoded: bool,
    said: VecDeque<String>,
}

impl Pipeline {
    /// Starts it; the size and rate of its pictures, if that is known by now.
    ///
    /// # Errors
    /// One line: it is no pipeline, an element is missing, it ends in something else than pictures, or does not begin.
    pub(in crate::video) fn open(text: &str) -> Result<(Self, Format), String> {
        gst::init().map_err(|error| format!("GStreamer: {error}"))?;
        let launched = gst::parse::launch(&format!("{text} ! appsink name={SINK} caps=\"{CAPS}\""));
        let pipeline = launched.map_err(|error| {
            let hint = if error.matches(gst::ParseError::Link) { ENDS } else { "" };
            format!("GStreamer: {}{hint}", error.message())
        })?;
        let pipeline = pipeline.downcast::<gst::Pipeline>().map_err(|_| "it is no pipeline".to_owned())?;
        let sink = pipeline.by_name(SINK).and_then(|sink| sink.downcast::<app::AppSink>().ok());
        let sink = sink.ok_or("the pipeline has no end")?;
        // They are taken at once; what waits, waits in the slot.
        sink.set_max_buffers(1);
        sink.set_drop(true);
        let shared = Arc::new(Shared::default());
        let slot = Arc::clone(&shared);
        let taken = move |sink: &app::AppSink| {
            slot.take(sink.pull_sample().map_err(|_| gst::FlowError::Eos)?);
            Ok(gst::FlowSuccess::Ok)
        };
        sink.set_callbacks(app::AppSinkCallbacks::builder().new_sample(taken).build());
        let encoder = rate::find(&pipeline);
        let mut this = Self {
            pipeline,
            sink,
            shared,
            encoder,
            rate: None,
            stops: None,
            newest: None,
            in_order: 0,
            back: 0,
            is_timeless: false,
            is_encoded: false,
            said: VecDeque::new(),
        };
        this.begin()?;
        let format = this.first_format()?.unwrap_or(Format::DEFAULT);
        Ok((this, format))
    }

    fn begin(&mut self) -> Result<(), String> {
        // What has a clock of its own is shown as it comes; a file and the like wait for the pipeline's.
        let wrong = |this: &mut Self| {
            this.ended_by(Some(SAYS)).unwrap_or_else(|| "the pipeline does not begin".to_owned())
        };
        let paused = self.pipeline.set_state(gst::State::Paused).map_err(|_| wrong(self))?;
        let (reached, _, _) = self.pipeline.state(BEGINS);
        let is_live =
            paused == gst::StateChangeSuccess::NoPreroll || reached == Ok(gst::StateChangeSuccess::NoPreroll);
        reached.map_err(|_| wrong(self))?;
        self.sink.set_sync(!is_live);
        self.pipeline.set_state(gst::State::Playing).map_err(|_| wrong(self))?;
        Ok(())
    }

    /// Of the first picture, where it comes soon.
    fn first_format(&mut self) -> Result<Option<Format>, String> {
        let slot = self.shared.lock();
        let soon = std::time::Duration::from(BEGINS);
        let waited = self.shared.came.wait_timeout_while(slot, soon, |slot| slot.samples.is_empty());
        let (slot, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let caps = slot.samples.front().and_then(|sample| sample.caps());
        let format = caps.and_then(format_of);
        self.is_encoded = caps.and_then(|caps| caps.structure(0)).and_then(codec_of).is_some();
        drop(slot);
        match self.ended_by(None) {
            Some(why) if format.is_none() => Err(why),
            why => {
                self.said.extend(why);
                Ok(format)
            }
        }
    }

    /// Waits for a picture, not long.
    pub(in crate::video) fn receive(&mut self, wait: std::time::Duration) -> Option<Came> {
        if let Some(why) = self.ended_by(None) {
            self.said.push_back(format!("{why}; there are no pictures any more"));
        }
        let slot = self.shared.lock();
        let waited =
            self.shared.came.wait_timeout_while(slot, wait, |slot| slot.samples.is_empty() && !slot.gap);
        let (mut slot, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut slot.gap) {
            return Some(Came { content: Content::Gap, age: Duration::ZERO });
        }
        let sample = slot.samples.pop_front()?;
        drop(slot);
        let age = self.age(&sample);
        match self.content(&sample) {
            Ok(content) => Some(Came { content, age }),
            Err(Refused::Malformed) => {
                self.shared.lock().counts.malformed += 1;
                None
            }
            Err(Refused::Back) => {
                self.shared.lock().counts.back += 1;
                // What comes next may refer to it.
                Some(Came { content: Content::Gap, age })
            }
        }
    }

    /// Are its pictures frames of an encoder, as far as is known?
    pub(in crate::video) fn is_encoded(&self) -> bool {
        self.is_encoded
    }

    /// A key frame is needed: its encoder is asked for one, as the events of GStreamer's video library do (`GstForceKeyUnit`).
    pub(in crate::video) fn force_key(&mut self) {
        if self.is_encoded && !self.has_ended() {
            let unit = gst::Structure::builder("GstForceKeyUnit")
                .field("running-time", gst::ClockTime::NONE)
                .field("all-headers", true)
                .field("count", 0_u32)
                .build();
            // One that nobody takes is followed by the encoder's own.
            self.sink.send_event(gst::event::CustomUpstream::new(unit));
        }
    }

    /// Its encoder is to make no more than this.
    pub(in crate::video) fn set_bitrate(&mut self, rate: Bitrate) {
        self.rate = Some(rate);
        self.rate_encoder();
    }

    /// What there is to say, once.
    pub(in crate::video) fn said(&mut self) -> Option<String> {
        self.said.pop_front()
    }

    fn rate_encoder(&mut self) {
        let Some(rate) = self.rate.filter(|_| self.is_encoded) else { return };
        match &mut self.encoder {
            Found::Known(rated) => rated.set(rate),
            Found::Unknown(name) => {
                let told =
                    format!("how {name} is told its rate is not known here: it keeps the one that it has");
                self.said.push_back(told);
                self.encoder = Found::Nothing;
            }
            Found::Nothing => {}
        }
    }

    /// The pipeline gave up, or is over: why, once. What was passed on before stays.
    fn ended_by(&mut self, within: Option<gst::ClockTime>) -> Option<String> {
        let bus = self.pipeline.bus().filter(|_| !self.has_ended())?;
        let ends = [gst::MessageType::Error, gst::MessageType::Eos];
        let message = match within {
            Some(within) => bus.timed_pop_filtered(within, &ends),
            None => bus.pop_filtered(&ends),
        }?;
        self.end();
        Some(match message.view() {
            gst::MessageView::Error(error) => {
                let name = message.src().map(|source| source.name().to_string()).unwrap_or_default();
                let more = error.debug().unwrap_or_default().to_string();
                // Where it was found is in lines of their own.
                let more = more.lines().last().unwrap_or_default().to_owned();
                format!("GStreamer, {name}: {} ({more})", error.error().message())
            }
            _ => "the pipeline is over".to_owned(),
        })
    }

    const fn has_ended(&self) -> bool {
        self.stops.is_some()
    }

    /// Nothing comes of it any more. An element may take its time to stop, or never do it.
    fn end(&mut self) {
        if !self.has_ended() {
            if let Some(bus) = self.pipeline.bus() {
                bus.set_flushing(true);
            }
            let (pipeline, (stopped, stops)) = (self.pipeline.clone(), sync_channel(1));
            let thread = std::thread::Builder::new().name("taut pipeline".to_owned());
            let _ = thread.spawn(move || {
                let _ = pipeline.set_state(gst::State::Null);
                let _ = stopped.send(());
            });
            self.stops = Some(stops);
        }
    }

    /// Since the picture of this was taken: its time is the pipeline's base time and its own (GStreamer, "Clocks and synchronization").
    /// Of one without a time it says once that it counts as new.
    fn age(&mut self, sample: &gst::Sample) -> Duration {
        let since = || {
            let time = sample.buffer()?.pts()?;
            let segment = sample.segment()?.downcast_ref::<gst::ClockTime>()?;
            let taken = segment.to_running_time(time)? + self.pipeline.base_time()?;
            Some(Duration::from_nanos(self.pipeline.clock()?.time().saturating_sub(taken).nseconds()))
        };
        let age = since();
        if age.is_none() && !std::mem::replace(&mut self.is_timeless, true) {
            let told = "the pipeline's pictures have no time: how old they are when they come nobody knows";
            self.said.push_back(told.to_owned());
        }
        age.unwrap_or(Duration::ZERO).min(OLDEST)
    }

    fn content(&mut self, sample: &gst::Sample) -> Result<Content, Refused> {
        let caps = sample.caps().and_then(|caps| caps.structure(0)).ok_or(Refused::Malformed)?;
        let buffer = sample.buffer().ok_or(Refused::Malformed)?;
        let map = buffer.map_readable().map_err(|_| Refused::Malformed)?;
        let Some(codec) = codec_of(caps) else {
            return image(caps, &map).map(Content::Image).ok_or(Refused::Malformed);
        };
        if !std::mem::replace(&mut self.is_encoded, true) {
            self.rate_encoder();
        }
        // A picture that is shown before one that came earlier refers to a later one.
        let time = buffer.pts();
        let is_back = time.is_some() && time < self.newest;
        self.newest = time.or(self.newest);
        if is_back {
            self.back = if self.in_order < IN_ORDER { self.back + 1 } else { 1 };
            self.in_order = 0;
            if self.back >= BACK && !self.has_ended() {
                self.said.push_back("its encoder makes pictures that refer to later ones (B frames), which are not passed on: tell it not to; there are no pictures any more".to_owned());
                self.end();
            }
        }
        if is_back || self.back >= BACK {
            return Err(Refused::Back);
        }
        self.in_order = self.in_order.saturating_add(1);
        let (width, height) = size_of(caps).ok_or(Refused::Malformed)?;
        Ok(Content::Frame(Frame { codec, width, height, bytes: map.to_vec() }))
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        self.end();
        let _ = self.stops.take().map(|stops| stops.recv_timeout(ENDS_WITHIN));
        let Counts { came, newer, waited, back, malformed } = self.shared.lock().counts;
        if newer + waited + back + malformed > 0 {
            crate::say(&format!(
                "GStreamer: {came} pictures came; dropped: {newer} for newer ones, {waited} that waited, {back} out of order, {malformed} that are not what they say"
            ));
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Slot> {
        // Nothing panics while it holds this.
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// On a thread of the pipeline's.
    fn take(&self, sample: gst::Sample) {
        let is_raw =
            sample.caps().and_then(|caps| caps.structure(0)).is_some_and(|caps| codec_of(caps).is_none());
        let mut slot = self.lock();
        slot.counts.came += 1;
        if is_raw {
            slot.counts.newer += slot.samples.len() as u64;
            slot.samples.clear();
        } else if slot.samples.len() == FRAMES {
            // What comes next refers to what is dropped.
            slot.counts.waited += FRAMES as u64;
            slot.samples.clear();
            slot.gap = true;
        }
        slot.samples.push_back(sample);
        drop(slot);
        self.came.notify_one();
    }
}

/// By what encoder frames of these were made; `None`: by none, they are pictures.
fn codec_of(caps: &gst::StructureRef) -> Option<Codec> {
    match caps.name().as_str() {
        "video/x-h264" => Some(Codec::H264),
        "video/x-vp8" => Some(Codec::Vp8),
        _ => None,
    }
}

/// Columns and rows.
fn size_of<T: TryFrom<i32>>(caps: &gst::StructureRef) -> Option<(T, T)> {
    let side = |name| caps.get::<i32>(name).ok().and_then(|side| T::try_from(side).ok());
    side("width").zip(side("height"))
}

/// What pictures of these are.
fn format_of(caps: &gst::CapsRef) -> Option<Format> {
    let structure = caps.structure(0)?;
    let (width, height) = size_of(structure)?;
    let rate = structure.get::<gst::Fraction>("framerate").ok();
    let rate = rate.filter(|rate| rate.numer() > 0).map(|rate| (rate.numer() / rate.denom()).clamp(1, 240));
    let rate = rate.map_or(Format::DEFAULT.rate, |rate| rate as u32);
    Some(Format { width, height, rate })
}

/// Planes as GStreamer lays them out, where nobody said otherwise (`gst_video_info_set_format`): taut asks for no other.
fn image(caps: &gst::StructureRef, bytes: &[u8]) -> Option<Image> {
    let (width, height) = size_of::<usize>(caps)?;
    if !(1..=16_383).contains(&width) || !(1..=16_383).contains(&height) {
        return None;
    }
    let even = |number: usize| number.next_multiple_of(2);
    let stride = width.next_multiple_of(4);
    let (luma, colours) = bytes.split_at_checked(stride * even(height))?;
    let luma = Rows { bytes: luma, stride, step: 1 };
    let [blue, red] = match caps.get::<&str>("format").ok()? {
        "I420" => {
            let stride = (even(width) / 2).next_multiple_of(4);
            let (blue, red) = colours.split_at_checked(stride * even(height) / 2)?;
            [blue, red].map(|bytes| Rows { bytes, stride, step: 1 })
        }
        "NV12" => [colours, colours.get(1..)?].map(|bytes| Rows { bytes, stride, step: 2 }),
        _ => return None,
    };
    Image::from_rows(width, height, [luma, blue, red]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Until so many pictures came, or a few seconds are over.
    fn pictures(pipeline: &mut Pipeline, count: usize) -> Vec<Came> {
        let wait = std::time::Duration::from_millis(10);
        (0..500).filter_map(|_| pipeline.receive(wait)).take(count).collect()
    }

    #[test]
    fn pictures_of_both_forms_and_of_odd_sizes_have_the_pattern_s_colour() {
        for format in ["I420", "NV12"] {
            for (width, height) in [(64, 48), (70, 50), (37, 21)] {
                let text = format!(
                    "videotestsrc pattern=red num-buffers=3 ! video/x-raw,format={format},width={width},height={height}"
                );
                let (mut pipeline, known) = Pipeline::open(&text).unwrap();
                assert_eq!((known.width, known.height, known.rate), (width, height, 30));
                let came = pictures(&mut pipeline, 1);
                let Content::Image(image) = &came[0].content else { panic!("a picture") };
                let is_red = |pixel: &[u8]| pixel[0] > 240 && pixel[1] < 15 && pixel[2] < 15;
                assert!(
                    image.to_rgb().chunks(3).all(is_red),
                    "{format} {width}×{height}: {:?}",
                    &image.to_rgb()[..3]
                );
            }
        }
    }

    #[test]
    fn what_cannot_begin_says_why() {
        for (text, why) in [
            ("videotestsrc ! nonsense", "nonsense"),
            ("videotestsrc ! video/x-raw,format=RGB", "videoconvert"),
            ("filesrc location=/nonexistent/film ! decodebin ! videoconvert", "/nonexistent/film"),
            ("audiotestsrc", "videoconvert"),
        ] {
            let wrong = Pipeline::open(text).err().unwrap_or_else(|| panic!("{text} began"));
            println!("{text}: {wrong}");
            assert!(wrong.contains(why), "{text}: {wrong}");
        }
    }

    #[test]
    fn the_end_of_a_pipeline_is_said_once_and_newer_pictures_replace_older_ones() {
        let (mut pipeline, _) = Pipeline::open("videotestsrc num-buffers=20 is-live=true").unwrap();
        // For a while nobody takes them.
        let (_nobody, says) = std::sync::mpsc::channel::<()>();
        assert!(says.recv_timeout(std::time::Duration::from_millis(300)).is_err());
        assert_eq!(pictures(&mut pipeline, 2).len(), 2);
        let counts = pipeline.shared.lock().counts;
        assert!(counts.newer > 5 && counts.waited == 0, "{counts:?}");
        let _ = pictures(&mut pipeline, 100);
        let said: Vec<_> = std::iter::from_fn(|| pipeline.said()).collect();
        assert_eq!(said, ["the pipeline is over; there are no pictures any more"]);
        assert_eq!(pipeline.shared.lock().counts.came, 20);
    }

    #[test]
    fn frames_of_an_encoder_come_as_they_are_and_a_key_frame_when_it_is_asked_for() {
        let source = "videotestsrc is-live=true ! video/x-raw,width=320,height=240";
        for (name, encoder, codec) in [
            ("x264enc", "x264enc tune=zerolatency key-int-max=10000", Codec::H264),
            ("openh264enc", "openh264enc gop-size=10000 ! h264parse", Codec::H264),
            ("vp8enc", "vp8enc deadline=1 keyframe-max-dist=10000", Codec::Vp8),
        ] {
            if gst::init().is_err() || gst::ElementFactory::find(name).is_none() {
                println!("skipped: there is no {name}");
                continue;
            }
            let (mut pipeline, known) = Pipeline::open(&format!("{source} ! {encoder}")).unwrap();
            pipeline.set_bitrate(Bitrate::from_bps(500_000));
            assert_eq!((known.width, known.height), (320, 240));
            let mut passing = taut_video::Passing::new(0);
            let mut keys = Vec::new();
            for at in 0..60 {
                for Came { content, age } in pictures(&mut pipeline, 1) {
                    let Content::Frame(Frame { codec: of, width, height, bytes }) = content else { continue };
                    assert_eq!((of, (width, height)), (codec, (320, 240)));
                    assert!(age < Duration::from_secs(2), "{age:?}");
                    if passing.pass(of, (width, height), &bytes).is_some_and(|passed| passed.picture.key) {
                        keys.push(at);
                    }
                }
                if at == 30 {
                    pipeline.force_key();
                }
            }
            println!("{name}: key frames at {keys:?}");
            // Some begin anew when they are told their rate.
            let later: Vec<_> = keys.iter().filter(|at| **at > 5).collect();
            assert!(keys[0] == 0 && later.len() == 1 && (31..40).contains(later[0]), "{name}: {keys:?}");
            assert_eq!(pipeline.said(), None);
        }
    }

    #[test]
    fn frames_that_refer_to_later_ones_are_refused() {
        if gst::init().is_err() || gst::ElementFactory::find("x264enc").is_none() {
            println!("skipped: there is no x264enc");
            return;
        }
        let text = "videotestsrc num-buffers=120 pattern=ball ! video/x-raw,width=320,height=240 ! x264enc bframes=3 b-adapt=false speed-preset=ultrafast";
        let (mut pipeline, _) = Pipeline::open(text).unwrap();
        let came = pictures(&mut pipeline, 200).len();
        let said: Vec<_> = std::iter::from_fn(|| pipeline.said()).collect();
        assert!(came < 20 && said[0].contains("B frames"), "{came} {said:?}");
    }
}
