//! An operator's device that speaks lines: a command, or standard input; and what is told of the session to whoever reads that.
//!
//! From it:
//!
//! ```text
//! {"state":{"position_m":[0,0,0]}}
//! {"move":{"channel":"arm/servo_jp","joints":{"position_rad":[0,0]}}}
//! {"message":{"channel":"lights","payload":{"on":true}}}
//! ```
//!
//! To it:
//!
//! ```text
//! {"message":{"channel":"battery","age_ms":3.1,"payload":{"percent":87}}}
//! {"feel":{"position_m":[0,0,0],"orientation_wxyz":[1,0,0,0],"velocity_mps":[0,0,0],"force_n":[0,0,2],"gripper":0}}
//! {"lost":{}}
//! ```

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use taut_agent::{DeviceMessage, OperatorDevice, Sample};
use taut_core::{Duration, Time};
use taut_session::motion;
use taut_session::{ChannelId, Direction, State};

use super::lines::{LONGEST, MessageLine, MotionOf, Splitter, StateLine, line};
use super::messages::{Content, DeviceDrops, Drops, LineChannels, Messages, longest_line};
use crate::Clock;
use crate::privileges::spawn_unprivileged;

/// What an operator's device is told.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum InputTold {
    /// A message of a channel came.
    Message(MessageLine),
    /// What the robot felt and where it was: push the hand with that force.
    Feel(StateLine),
    /// Nothing fresh is known of the robot.
    Lost {},
}

/// A line of an operator's device, but for messages.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum InputLine {
    State(StateLine),
    Move(MotionOf),
    Message(MessageLine),
}

/// A device whose states, motion and messages come by lines; or another device, and beside it lines.
///
/// Nobody waits for it, nor for whoever reads what it is told: what waits is bounded, and dropped as its channel's delivery says.
pub struct LineInput {
    device: Option<Box<dyn OperatorDevice + Send>>,
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
    feel: Option<Feeling>,
    is_lost: bool,
    /// It says nothing more.
    ended: bool,
    /// Nobody is told anything any more.
    over: bool,
}

/// Not told yet.
enum Feeling {
    Felt(State),
    Lost,
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
            feel: None,
            is_lost: true,
            ended: false,
            over: false,
        };
        Self { device, shared: Arc::new(Shared { inner: Mutex::new(inner), changed: Condvar::new() }) }
    }

    /// A device that is a command, started by `sh -c`: its standard output has the lines, and its standard input is told. Lines that
    /// are none are given to `complain`. Its end is that of the device.
    ///
    /// # Errors
    /// When the system has no process or thread left.
    pub fn start(
        command: &str,
        channels: &LineChannels,
        complain: impl FnMut(&str) + Send + 'static,
    ) -> io::Result<Self> {
        let mut shell = Command::new("sh");
        // Ctrl-C is for the session, whose end is the end of its input.
        shell.arg("-c").arg(command).stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut child = shell.spawn()?;
        let mut input = child.stdin.take().expect("it was asked for");
        let output = child.stdout.take().expect("it was asked for");
        let device = Self::new(None, channels);
        let (lines, splitter) = (device.lines(), lines_of(channels));
        spawn_unprivileged("taut input in", || (), move || lines.listen(output, splitter, child, complain))?;
        device.tells(move |told| write(&mut input, &told).is_ok())?;
        Ok(device)
    }

    /// Where its lines are taken.
    pub fn lines(&self) -> InputLines {
        InputLines(self.shared.clone())
    }

    /// Tells all that comes to `sink`, on a thread of its own, until that says false or the device is dropped.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub fn tells(&self, mut sink: impl FnMut(InputTold) -> bool + Send + 'static) -> io::Result<()> {
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

/// Cuts what an operator's device writes into lines.
pub fn lines_of(channels: &LineChannels) -> Splitter {
    Splitter::new(longest_line(channels, Direction::ToRobot).max(LONGEST))
}

fn write(input: &mut ChildStdin, told: &InputTold) -> io::Result<()> {
    input.write_all(&line(told))
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
                inner.state = Some(State {
                    locked: state.locked,
                    enabling: state.enabling,
                    gripper: state.gripper,
                    position: state.position,
                    orientation_wxyz: state.orientation_wxyz,
                    velocity: state.velocity,
                    force: state.force,
                    ..State::at(Time::ZERO)
                });
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

    /// Nothing more comes: the device has ended.
    pub fn end(&self) {
        self.0.lock().ended = true;
    }

    fn listen(
        &self,
        output: ChildStdout,
        mut splitter: Splitter,
        mut child: Child,
        mut complain: impl FnMut(&str),
    ) {
        splitter.take_all(output, |line| {
            if let Err(why) = self.take(line) {
                complain(&why);
            }
        });
        self.end();
        let how = child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        complain(&format!("its process ended: {how}"));
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
    fn next(&self) -> Option<InputTold> {
        let mut inner = self.lock();
        loop {
            if inner.over {
                return None;
            }
            if let Some(feeling) = inner.feel.take() {
                return Some(match feeling {
                    Feeling::Felt(state) => InputTold::Feel((&motion::State::from(&state)).into()),
                    Feeling::Lost => InputTold::Lost {},
                });
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
                return Some(InputTold::Message(MessageLine::whole(&name, is_json, age, &payload)));
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
        let state = inner.state.map_or(State::at(now), |state| State { created: now, ..state });
        (!inner.ended).then_some(Sample { state, reading: inner.readings })
    }

    fn skip(&mut self, periods: u64) -> u64 {
        self.device.as_mut().map_or(0, |device| device.skip(periods))
    }

    fn feel(&mut self, now: Time, state: &State) {
        if let Some(device) = &mut self.device {
            device.feel(now, state);
        }
        let mut inner = self.shared.lock();
        (inner.feel, inner.is_lost) = (Some(Feeling::Felt(*state)), false);
        self.shared.changed.notify_one();
    }

    fn lost(&mut self) {
        if let Some(device) = &mut self.device {
            device.lost();
        }
        let mut inner = self.shared.lock();
        if !std::mem::replace(&mut inner.is_lost, true) {
            inner.feel = Some(Feeling::Lost);
            self.shared.changed.notify_one();
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
            r#"{"state":{"position_m":[0.5,0,0]}}"#,
            r#"{"move":{"channel":"arm","joints":{"position_rad":[1]}}}"#,
            r#"{"move":{"channel":"arm","joints":{"position_rad":[2]}}}"#,
            r#"{"message":{"channel":"lights","payload":{"on": true}}}"#,
        ] {
            assert_eq!(lines.take(Some(line.as_bytes())), Ok(()), "{line}");
        }
        let sample = input.sample(Time::ZERO).unwrap();
        assert_eq!((sample.reading, sample.state.position[0].to_bits()), (1, 0.5f32.to_bits()));
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
        lines.end();
        assert_eq!(input.sample(Time::ZERO), None);
    }

    #[test]
    fn who_reads_slowly_is_told_the_newest_of_what_supersedes() {
        let mut input = LineInput::new(None, &channels());
        for percent in 0..100 {
            input.receive(BATTERY, Some(Duration::ZERO), format!("{{\"percent\":{percent}}}").as_bytes());
        }
        input.feel(Time::ZERO, &State::at(Time::ZERO));
        input.lost();
        input.lost();
        let (sender, told) = pipe();
        input.tells(move |told| sender.send(told).is_ok()).unwrap();
        assert_eq!(told.recv().unwrap(), InputTold::Lost {});
        let InputTold::Message(message) = told.recv().unwrap() else { panic!("a message") };
        assert_eq!(message.payload.map(|json| json.text().to_owned()), Some(r#"{"percent":99}"#.to_owned()));
        assert_eq!(input.message_drops().read().to_device["battery"]["superseded"], 99);
        drop(input);
        assert!(told.recv().is_err(), "nobody is told any more");
    }

    #[test]
    fn a_command_gives_lines_reads_what_comes_and_ends_the_device_with_itself() {
        let (sender, complaints) = pipe();
        let complain = move |why: &str| drop(sender.send(why.to_owned()));
        let script = r#"read told; echo "$told" | sed 's/.*percent":\([0-9]*\).*/{"state":{"position_m":[\1,0,0]}}/'; echo junk"#;
        let mut input = LineInput::start(script, &channels(), complain).unwrap();
        input.receive(BATTERY, None, br#"{"percent":87}"#);
        assert!(complaints.recv().unwrap().contains("a line is no `state`"));
        assert!(complaints.recv().unwrap().contains("exit status: 0"));
        let inner = input.shared.lock().state.unwrap();
        assert_eq!(inner.position[0].to_bits(), 87.0f32.to_bits());
        assert_eq!(input.sample(Time::ZERO), None);
    }
}
