//! Lines of an operator on standard input, and messages of channels as lines.
//!
//! ```text
//! {"state":{"position_m":[0,0,0]}}
//! {"move":{"channel":"arm/servo_jp","joints":{"position_rad":[0,0]}}}
//! {"message":{"channel":"lights","payload":{"on":true}}}
//! ```
//!
//! What comes is told by such lines, too: `{"message":{"channel":"battery","age_ms":3.1,"payload":{"percent":87}}}`.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use serde::Deserialize;
use taut_agent::{DeviceMessage, OperatorDevice, Resume, Sample};
use taut_core::{Duration, Time};
use taut_session::motion;
use taut_session::{ChannelId, Direction, Priority, State};

use super::lines::{LONGEST, MessageLine, MotionOf, Splitter, StateLine};
use super::messages::{Content, DeviceDrops, Drops, LineChannels, Messages, longest_line};
use super::process::as_state;
use crate::Clock;
use crate::privileges::spawn_unprivileged;

/// A line.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum InputLine {
    State(StateLine),
    Move(MotionOf),
    Message(MessageLine),
}

/// A device whose states, motion and messages come by lines of standard input; or another device, and beside it lines.
///
/// Nobody waits for it, nor for whoever reads what it is told: what waits is bounded, and dropped as its channel's delivery says.
pub struct LineInput {
    device: Option<Box<dyn OperatorDevice + Send>>,
    priority: Priority,
    shared: Arc<Shared>,
}

struct Shared {
    inner: Mutex<Inner>,
    changed: Condvar,
}

struct Inner {
    given: Messages,
    told: Messages,
    state: Option<State>,
    readings: u64,
    /// Nobody is told anything any more.
    over: bool,
}

impl LineInput {
    /// Lines know `channels` by their names: all that the operator declared, in that order. `device` makes the states, or else lines
    /// do.
    pub fn new(device: Option<Box<dyn OperatorDevice + Send>>, channels: &LineChannels) -> Self {
        let inner = Inner {
            given: Messages::new(channels.clone()),
            told: Messages::new(channels.clone()),
            state: None,
            readings: 0,
            over: false,
        };
        let shared = Arc::new(Shared { inner: Mutex::new(inner), changed: Condvar::new() });
        Self { device, priority: Priority::Normal, shared }
    }

    /// How urgent the states of lines are. Default: normal.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// Where its lines are taken.
    pub fn lines(&self) -> InputLines {
        InputLines(self.shared.clone())
    }

    /// Gives each message that comes to `sink`, on a thread of its own, until that says false or the device is dropped.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub fn tells(&self, mut sink: impl FnMut(MessageLine) -> bool + Send + 'static) -> io::Result<()> {
        let shared = self.shared.clone();
        let work = move || while shared.next().is_some_and(&mut sink) {};
        spawn_unprivileged("taut input out", || (), work).map(drop)
    }

    /// What was dropped between it and the session, whenever it is asked.
    pub fn message_drops(&self) -> DeviceDrops {
        let shared = self.shared.clone();
        DeviceDrops::new(move || {
            let inner = shared.lock();
            Drops { to_device: inner.told.drops(), from_device: inner.given.drops() }
        })
    }
}

/// Cuts what comes on standard input into lines.
pub fn lines_of(channels: &LineChannels) -> Splitter {
    Splitter::new(longest_line(channels, Direction::ToRobot).max(LONGEST))
}

/// Where an operator's lines are taken. It can be copied.
#[derive(Clone)]
pub struct InputLines(Arc<Shared>);

impl InputLines {
    /// A line came; `None`: one that was too long.
    ///
    /// # Errors
    /// What is wrong with it, and what may be.
    pub fn take(&self, line: Option<&[u8]>) -> Result<(), String> {
        let line = line.ok_or("a line is too long for the largest message of any channel")?;
        let said = serde_json::from_slice(line).map_err(|error| {
            format!("a line is no `state`, `move` or `message` of an operator's device: {error}")
        })?;
        let (mut inner, now) = (self.0.lock(), Clock::since_boot());
        match said {
            InputLine::State(state) => {
                let state = motion::State::from(state);
                if !state.is_finite() {
                    return Err("a number of a state is not finite".to_owned());
                }
                inner.readings += 1;
                inner.state = Some(as_state(&state));
            }
            InputLine::Move(MotionOf { channel, motion }) => {
                let (id, known) = inner.given.find(&channel, Direction::ToRobot)?;
                if known.motion != Some(motion.schema()) {
                    return Err(format!("channel `{channel}` is no motion of {}", motion.schema().name()));
                }
                let motion = motion.motion()?;
                inner.given.push(now, id, None, Content::Motion(motion));
            }
            InputLine::Message(message) => {
                let (id, known) = inner.given.find(&message.channel, Direction::ToRobot)?;
                if known.motion.is_some() {
                    return Err(format!("channel `{}` is motion: write `move`", message.channel));
                }
                let payload = message.bytes()?;
                inner.given.push(now, id, None, Content::Payload(payload));
            }
        }
        Ok(())
    }
}

impl std::fmt::Debug for InputLines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InputLines").finish_non_exhaustive()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Whoever panicked left nothing half done.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for what is to be told next; `None`: nothing more.
    fn next(&self) -> Option<MessageLine> {
        let mut inner = self.lock();
        loop {
            if inner.over {
                return None;
            }
            let now = Clock::since_boot();
            if let Some(next) = inner.told.pop(now)
                && let Content::Payload(payload) = next.content
            {
                let channel = inner.told.channel(next.channel);
                let (name, is_json) = (channel.name.clone(), channel.is_json);
                let age = next.made.map(|made| now.saturating_since(made));
                // Text of it takes long to make.
                drop(inner);
                return Some(MessageLine::whole(&name, is_json, age, &payload));
            }
            inner = self.changed.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl OperatorDevice for LineInput {
    fn sample(&mut self, now: Time) -> Option<Sample> {
        if let Some(device) = &mut self.device {
            return device.sample(now);
        }
        let inner = self.shared.lock();
        let state = State { created: now, priority: self.priority, ..inner.state.unwrap_or(State::at(now)) };
        Some(Sample { state, reading: inner.readings })
    }

    fn skip(&mut self, periods: u64) -> u64 {
        self.device.as_mut().map_or(0, |device| device.skip(periods))
    }

    fn resumed(&mut self, resume: Resume) {
        if let Some(device) = &mut self.device {
            device.resumed(resume);
        }
    }

    fn feel(&mut self, now: Time, state: &State) {
        if let Some(device) = &mut self.device {
            device.feel(now, state);
        }
    }

    fn lost(&mut self) {
        if let Some(device) = &mut self.device {
            device.lost();
        }
    }

    fn receive(&mut self, channel: ChannelId, age: Option<Duration>, payload: &[u8]) {
        let mut inner = self.shared.lock();
        inner.told.push(Clock::since_boot(), channel, age, Content::Payload(payload.to_vec()));
        self.shared.changed.notify_one();
    }

    fn limit_bitrate(&mut self, _: taut_core::Bitrate) {}

    fn poll_message(&mut self, _: Time) -> Option<DeviceMessage> {
        self.shared.lock().given.pop(Clock::since_boot()).map(|waiting| waiting.message())
    }
}

impl Drop for LineInput {
    fn drop(&mut self) {
        self.shared.lock().over = true;
        self.shared.changed.notify_one();
    }
}

impl std::fmt::Debug for LineInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LineInput").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::messages::{LineChannel, tests::channel};
    use std::sync::mpsc::channel as pipe;
    use taut_session::Delivery;
    use taut_session::motion::{Motion, Schema};

    const ARM: ChannelId = ChannelId(0);
    const BATTERY: ChannelId = ChannelId(2);

    fn channels() -> LineChannels {
        let arm = LineChannel { motion: Some(Schema::Joints), ..channel("arm", Delivery::Newest) };
        let lights = LineChannel { is_json: true, ..channel("lights", Delivery::Reliable) };
        let battery = LineChannel {
            is_json: true,
            direction: Direction::ToOperator,
            ..channel("battery", Delivery::Newest)
        };
        Arc::from([arm, lights, battery])
    }

    #[test]
    fn lines_are_states_motion_and_messages_and_what_is_wrong_is_said() {
        let mut input = LineInput::new(None, &channels());
        let lines = input.lines();
        assert_eq!(input.sample(Time::ZERO).unwrap().reading, 0, "it has read nothing");
        for line in [
            r#"{"state":{"position_m":[0.5,0,0],"torque_nm":[0.25,0,0]}}"#,
            r#"{"move":{"channel":"arm","joints":{"position_rad":[1]}}}"#,
            r#"{"move":{"channel":"arm","joints":{"position_rad":[2]}}}"#,
            r#"{"message":{"channel":"lights","payload":{"on": true}}}"#,
        ] {
            assert_eq!(lines.take(Some(line.as_bytes())), Ok(()), "{line}");
        }
        let sample = input.sample(Time::ZERO).unwrap();
        assert_eq!((sample.reading, sample.state.position[0].to_bits()), (1, 0.5f32.to_bits()));
        assert_eq!(sample.state.turning.map(|turning| turning.torque), Some([0.25, 0.0, 0.0]));
        let given: Vec<_> = std::iter::from_fn(|| input.poll_message(Time::ZERO)).collect();
        let [
            DeviceMessage::Motion { channel: ARM, motion: Motion::Joints(joints) },
            DeviceMessage::Payload { payload, .. },
        ] = &given[..]
        else {
            panic!("{given:?}")
        };
        assert_eq!((joints.position(), &payload[..]), (&[2.0][..], &br#"{"on": true}"#[..]));
        for (line, why) in [
            ("e", "no `state`, `move` or `message`"),
            (
                r#"{"move":{"channel":"leg","joints":{"position_rad":[1]}}}"#,
                "no channel `leg` to_robot; there are: arm",
            ),
            (r#"{"move":{"channel":"arm","twist":{}}}"#, "no motion of taut/Twist"),
            (r#"{"message":{"channel":"arm","payload":1}}"#, "write `move`"),
            (r#"{"message":{"channel":"battery","payload":1}}"#, "no channel `battery` to_robot"),
        ] {
            let error = lines.take(Some(line.as_bytes())).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        assert!(lines.take(None).is_err());
    }

    #[test]
    fn who_reads_slowly_is_told_the_newest_of_what_supersedes() {
        let mut input = LineInput::new(None, &channels());
        for percent in 0..100 {
            input.receive(BATTERY, Some(Duration::ZERO), format!("{{\"percent\":{percent}}}").as_bytes());
        }
        let (sender, told) = pipe();
        input.tells(move |told| sender.send(told).is_ok()).unwrap();
        let message = told.recv().unwrap();
        assert_eq!(message.payload.map(|json| json.text().to_owned()), Some(r#"{"percent":99}"#.to_owned()));
        assert_eq!(input.message_drops().read().to_device["battery"]["superseded"], 99);
        drop(input);
        assert!(told.recv().is_err(), "nobody is told any more");
    }
}
