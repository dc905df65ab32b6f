//! What makes samples and frames: the haptic device, the microphone, the camera.

use std::collections::VecDeque;
use std::sync::Arc;

use taut_core::{Bitrate, Bytes, Deadline, Duration, Medium, NodeEvent, Sample, Seed, Time, earliest};
use taut_media::{FrameSource, Multiplexer, Sampler, VideoTable};

use super::super::inputs::{Inputs, RunError};
use super::super::signals;
use crate::scenario::{Haptic, Stream, Video, VideoSource};

/// All devices of one end. They go on while the last samples that count are under way: frames ride on later samples.
pub(super) struct Devices {
    haptic: Option<HapticDevice>,
    frames: Vec<FrameSource>,
    /// What is made next.
    next: Option<Deadline>,
}

struct HapticDevice {
    sampler: Sampler,
    cycle: Duration,
    burst: u32,
    size: Bytes,
    next: Time,
    sequence: u64,
    /// Values of one sample after the other; empty for a device without a signal.
    signal: Arc<signals::Signal>,
    row: usize,
    payload: Vec<u8>,
}

impl Devices {
    pub(super) fn new(
        stream: &Stream,
        direction: &str,
        duration: Duration,
        seed: Seed,
        inputs: &mut Inputs,
    ) -> Result<Self, RunError> {
        // Devices run on clocks of their own: where in their period they begin is chance.
        let phase = |device: &str, period: Duration| {
            let mut rng = seed.stream(&format!("session/{direction}/{device}"));
            Time::ZERO + Duration::from_nanos(rng.below(period.as_nanos()))
        };
        let haptic = match &stream.haptic {
            None => None,
            Some(spec) => {
                let signal = signals::load(
                    (&spec.source, spec.period),
                    &format!("session.{direction}.haptic"),
                    duration,
                    seed,
                    inputs,
                )?;
                let start = phase("haptic", spec.period + spec.gap);
                Some(HapticDevice::new(spec, start, signal))
            }
        };
        let audio = stream.audio.map(|audio| {
            FrameSource::constant(Medium::Audio, audio.rate, audio.frame, phase("audio", audio.frame))
        });
        let video = stream.video.as_ref().map(|video| camera(video, phase("video", frame_period(video))));
        let frames = audio.into_iter().chain(video).collect();
        let mut devices = Self { haptic, frames, next: None };
        devices.next = devices.first();
        Ok(devices)
    }

    /// Everything that is made by `now`, oldest first within a medium.
    pub(super) fn make(
        &mut self,
        now: Time,
        multiplexer: &mut Multiplexer,
        events: &mut VecDeque<NodeEvent>,
    ) {
        // Frames before samples: a frame and a sample made at one instant travel together.
        for source in &mut self.frames {
            while let Some(frame) = source.poll_sample(now) {
                events.push_back(NodeEvent::Made(frame));
                multiplexer.handle_sample(now, frame, &[], true);
            }
        }
        if let Some(device) = &mut self.haptic {
            while device.next <= now {
                device.make(multiplexer, events);
            }
        }
        self.next = self.first();
    }

    pub(super) fn poll_timeout(&self) -> Option<Deadline> {
        self.next
    }

    fn first(&self) -> Option<Deadline> {
        let haptic = self.haptic.as_ref().map(|device| Deadline::new(device.next, "haptic sample"));
        let frames = self.frames.iter().map(|source| Some(source.poll_timeout()));
        frames.fold(haptic, earliest)
    }
}

impl HapticDevice {
    fn new(spec: &Haptic, start: Time, signal: Arc<signals::Signal>) -> Self {
        Self {
            sampler: super::super::video::sampler(&spec.sampler),
            cycle: spec.period + spec.gap,
            burst: spec.burst,
            size: spec.size,
            next: start,
            sequence: 0,
            signal,
            row: 0,
            payload: Vec::new(),
        }
    }

    /// One period's samples.
    fn make(&mut self, multiplexer: &mut Multiplexer, events: &mut VecDeque<NodeEvent>) {
        let created = self.next;
        let values = self.signal.at(self.row);
        self.payload.clear();
        let room = self.size.get() as usize / 4;
        for value in values.iter().take(room) {
            self.payload.extend_from_slice(&(*value as f32).to_be_bytes());
        }
        // A recording holds finite numbers only; its reader saw to that.
        let decision = if values.is_empty() {
            Ok(true)
        } else {
            self.sampler.offer(created, values).map(|decision| decision.is_send())
        };
        let significant = decision.unwrap_or(true);
        for _ in 0..self.burst {
            let sample = Sample { medium: Medium::Haptic, sequence: self.sequence, created, size: self.size };
            self.sequence += 1;
            events.push_back(NodeEvent::Made(sample));
            multiplexer.handle_sample(created, sample, &self.payload, significant);
        }
        self.next += self.cycle;
        self.row = self.signal.after(self.row);
    }
}

fn frame_period(video: &Video) -> Duration {
    Duration::from_nanos(1_000_000_000 / u64::from(video.fps))
}

fn camera(video: &Video, start: Time) -> FrameSource {
    let period = frame_period(video);
    match video.source {
        VideoSource::Constant => {
            FrameSource::constant(Medium::Video, video.rate.unwrap_or_default(), period, start)
        }
        VideoSource::Vp8 => FrameSource::table(Arc::new(VideoTable::vp8_25fps_400k()), period, start),
    }
}

/// The sizes of the frames of the VP8 encode, in bytes.
pub(in crate::run) fn vp8_frames() -> Vec<u64> {
    VideoTable::vp8_25fps_400k().frames().iter().map(|frame| frame.size.get()).collect()
}

/// The mean rate of audio and video together.
pub(super) fn frame_rate(stream: &Stream) -> Bitrate {
    let audio = stream.audio.map(|audio| audio.rate).unwrap_or_default();
    let video = stream.video.as_ref().map(|video| match video.source {
        VideoSource::Constant => video.rate.unwrap_or_default(),
        VideoSource::Vp8 => VideoTable::vp8_25fps_400k().mean_rate(frame_period(video)),
    });
    audio + video.unwrap_or_default()
}
