//! Devices on which nothing moves, and which say something over channels: samples, frames, commands.

use std::collections::VecDeque;
use std::sync::Arc;

use taut_agent::{
    DeviceFailure, DeviceMessage, Measured, OperatorDevice, Resume, RobotDevice, Sample, SetPoint,
};
use taut_core::{Bitrate, Bytes, Duration, Medium, Seed, Time};
use taut_media::FrameSource;
use taut_session::motion::Motion;
use taut_session::{ChannelId, State, StopCause};

use super::inputs::{Inputs, RunError};
use super::signals::{self, Signal};
use crate::scenario::{Commands, Direction, Scenario, Session, Stream, Video};

/// A hand that does not move, and says what its sources make.
pub struct StillHand {
    says: Sources,
    /// From then on it says nothing, and from then on it is not there any more: what it left on its way has its time.
    until: [Time; 2],
}

/// A robot on which nothing moves, and which says what its sources make.
pub struct StillRobot(Sources);

/// What a device makes for channels, a period of the device after the other: what it has at the end of one, it was asked for there.
struct Sources {
    period: Duration,
    periods: u64,
    samples: Option<Samples>,
    frames: Vec<(ChannelId, FrameSource)>,
    /// Frames go ahead of a sample that is made at the same time, to travel with it.
    frames_first: bool,
    made: VecDeque<DeviceMessage>,
    /// Was it ever asked what it has? Until then nobody waits for anything.
    asked: bool,
}

/// Samples of a signal, so many at a time.
struct Samples {
    channel: ChannelId,
    burst: u32,
    size: usize,
    /// Values of one sample after the other; empty for a device without a signal.
    signal: Arc<Signal>,
    row: usize,
}

/// What says nothing is asked so often.
const SILENT_PERIOD: Duration = Duration::from_millis(100);
/// Where there are no samples, a device is asked so often.
const FRAMES_PERIOD: Duration = Duration::from_millis(1);
/// Frames that wait to be asked for, where whoever asks is late.
const BUFFERED_FRAMES: usize = 8;

/// How often a device with this stream is asked.
pub(super) fn period(stream: Option<&Stream>) -> Duration {
    let Some(stream) = stream else { return SILENT_PERIOD };
    stream.haptic.as_ref().map_or(FRAMES_PERIOD, |haptic| haptic.period + haptic.gap)
}

impl Sources {
    /// What commands something once a period.
    fn of_commands(commands: &Commands) -> Self {
        let samples = Samples {
            channel: ChannelId(0),
            burst: 1,
            size: commands.size.get() as usize,
            signal: Arc::default(),
            row: 0,
        };
        Self { samples: Some(samples), ..Self::silent(commands.period) }
    }

    /// What has nothing to say.
    fn silent(period: Duration) -> Self {
        let made = VecDeque::new();
        Self {
            period,
            periods: 0,
            samples: None,
            frames: Vec::new(),
            frames_first: false,
            made,
            asked: false,
        }
    }

    /// The media that an end sends. Devices run on clocks of their own: where in its period each begins is chance.
    fn of_session(
        session: &Session,
        direction: Direction,
        scenario: &Scenario,
        seed: Seed,
        inputs: &mut Inputs,
    ) -> Result<Self, RunError> {
        let Some(stream) = session.stream(direction) else { return Ok(Self::silent(SILENT_PERIOD)) };
        let channel = |medium| session.channel(direction, medium).map(ChannelId);
        let begin = |device: &str, period: Duration| {
            let mut rng = seed.stream(&format!("session/{}/{device}", direction.name()));
            Time::ZERO + Duration::from_nanos(rng.below(period.as_nanos()))
        };
        let mut sources = Self::silent(period(Some(stream)));
        if let (Some(spec), Some(channel)) = (&stream.haptic, channel(Medium::Haptic)) {
            let (source, key) = ((&spec.source, spec.period), format!("session.{}.haptic", direction.name()));
            let signal = signals::load(source, &key, scenario.duration, seed, inputs)?;
            let (burst, size) = (spec.burst, spec.size.get() as usize);
            sources.samples = Some(Samples { channel, burst, size, signal, row: 0 });
        }
        if let (Some(spec), Some(channel)) = (stream.audio, channel(Medium::Audio)) {
            let begin = begin("audio", spec.frame);
            let source = FrameSource::constant(Medium::Audio, spec.rate, spec.frame, begin);
            sources.frames.push((channel, source));
        }
        if let (Some(spec), Some(channel)) = (&stream.video, channel(Medium::Video)) {
            sources.frames.push((channel, camera(spec, begin("video", spec.frame_period()))));
        }
        sources.frames_first = stream.multiplexer.rides_on_samples();
        Ok(sources)
    }

    /// So many periods are over.
    fn pass(&mut self, periods: u64) {
        self.forget();
        for _ in 0..periods {
            if !self.frames_first {
                self.make_samples();
            }
            let now = Time::ZERO + self.period.saturating_mul(self.periods);
            for (channel, source) in &mut self.frames {
                while let Some(frame) = source.poll_sample(now) {
                    let payload = vec![0; frame.size.get() as usize];
                    self.made.push_back(DeviceMessage::Payload { channel: *channel, payload });
                }
            }
            if self.frames_first {
                self.make_samples();
            }
            self.periods += 1;
        }
    }

    /// Samples that were not asked for are gone, as the reading of a sensor is; of frames the newest wait, as in a camera's buffers.
    fn forget(&mut self) {
        let sample = self.samples.as_ref().map(|samples| samples.channel).filter(|_| self.asked);
        self.made.retain(|message| match message {
            DeviceMessage::Payload { channel, .. } => sample.is_some_and(|sample| *channel != sample),
            DeviceMessage::Motion { .. } => false,
        });
        let most = self.made.len().saturating_sub(BUFFERED_FRAMES);
        self.made.drain(..most);
    }

    fn poll(&mut self) -> Option<DeviceMessage> {
        self.asked = true;
        self.made.pop_front()
    }

    fn make_samples(&mut self) {
        if let Some(samples) = &mut self.samples {
            self.made.extend(samples.make());
        }
    }
}

impl Samples {
    /// One period's.
    fn make(&mut self) -> impl Iterator<Item = DeviceMessage> + use<> {
        let mut payload = Vec::with_capacity(self.size);
        for value in self.signal.at(self.row).iter().take(self.size / 4) {
            payload.extend_from_slice(&(*value as f32).to_be_bytes());
        }
        payload.resize(self.size, 0);
        self.row = self.signal.after(self.row);
        let channel = self.channel;
        std::iter::repeat_n(payload, self.burst as usize)
            .map(move |payload| DeviceMessage::Payload { channel, payload })
    }
}

fn camera(video: &Video, start: Time) -> FrameSource {
    let period = video.frame_period();
    match video.table() {
        Some(table) => FrameSource::table(Arc::new(table), period, start),
        None => FrameSource::constant(Medium::Video, video.mean_rate(), period, start),
    }
}

impl StillHand {
    /// The operator's end of a scenario's `[session]`; the run began at `began`.
    ///
    /// # Errors
    /// When a file that it names cannot be used.
    pub fn of_session(
        scenario: &Scenario,
        session: &Session,
        began: Time,
        seed: Seed,
        inputs: &mut Inputs,
    ) -> Result<Self, RunError> {
        let end = began + scenario.duration + scenario.drain;
        // Frames ride on later samples: those that count may still wait when the last is made.
        let says = Sources::of_session(session, Direction::Forward, scenario, seed, inputs)?;
        Ok(Self { says, until: [end, end] })
    }

    /// What sends a scenario's commands; the run began at `began`.
    pub fn of_commands(scenario: &Scenario, commands: &Commands, began: Time) -> Self {
        let end = began + scenario.duration;
        Self { says: Sources::of_commands(commands), until: [end, end + scenario.drain] }
    }
}

impl OperatorDevice for StillHand {
    fn sample(&mut self, now: Time) -> Option<Sample> {
        self.says.pass(1);
        (now < self.until[1]).then(|| Sample { state: State::at(now), reading: 0 })
    }
    fn skip(&mut self, periods: u64) -> u64 {
        self.says.pass(periods);
        periods
    }
    fn resumed(&mut self, _: Resume) {}
    fn feel(&mut self, _: Time, _: &State) {}
    fn lost(&mut self) {}
    fn receive(&mut self, _: ChannelId, _: Option<Duration>, _: &[u8]) {}
    fn limit_bitrate(&mut self, _: Bitrate) {}
    fn poll_message(&mut self, now: Time) -> Option<DeviceMessage> {
        self.says.poll().filter(|_| now < self.until[0])
    }
}

impl StillRobot {
    /// The robot's end of a scenario's `[session]`.
    ///
    /// # Errors
    /// When a file that it names cannot be used.
    pub fn of_session(
        scenario: &Scenario,
        session: &Session,
        seed: Seed,
        inputs: &mut Inputs,
    ) -> Result<Self, RunError> {
        Ok(Self(Sources::of_session(session, Direction::Backward, scenario, seed, inputs)?))
    }

    /// What takes commands, and says nothing.
    pub fn silent() -> Self {
        Self(Sources::silent(SILENT_PERIOD))
    }
}

impl RobotDevice for StillRobot {
    fn period(&self) -> Duration {
        self.0.period
    }
    fn enable(&mut self) -> Result<(), DeviceFailure> {
        Ok(())
    }
    fn apply(&mut self, _: &SetPoint) -> bool {
        true
    }
    fn drive(&mut self, _: ChannelId, _: &Motion, _: Duration) -> bool {
        false
    }
    fn stop(&mut self, _: StopCause) {}
    fn measure(&mut self) -> Option<Measured> {
        self.0.pass(1);
        None
    }
    fn receive(&mut self, _: ChannelId, _: Option<Duration>, _: &[u8]) {}
    fn limit_bitrate(&mut self, _: Bitrate) {}
    fn poll_message(&mut self) -> Option<DeviceMessage> {
        self.0.poll()
    }
    fn feeds_back(&mut self) -> bool {
        false
    }
    fn failure(&mut self) -> Option<DeviceFailure> {
        None
    }
    fn lease(&self) -> bool {
        true
    }
    fn stiffness(&self) -> Option<f32> {
        None
    }
    fn limit_force(&mut self, _: f32) -> bool {
        true
    }
    fn is_real(&self) -> bool {
        false
    }
}

/// The largest frame of each medium.
pub(super) fn largest_frames(stream: &Stream) -> [Bytes; 2] {
    let audio = stream.audio.map_or(Bytes::ZERO, |audio| audio.rate * audio.frame);
    let video = stream.video.as_ref().map_or(Bytes::ZERO, |video| match video.table() {
        Some(table) => table.frames().iter().map(|frame| frame.size).max().unwrap_or_default(),
        None => video.mean_rate() * video.frame_period(),
    });
    [audio, video]
}
