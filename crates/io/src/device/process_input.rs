//! An operator's device in a process of its own.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use taut_agent::{Alarm, DeviceFailure, DeviceMessage, OperatorDevice, Resume, Sample};
use taut_core::{Duration, Time};
use taut_session::motion;
use taut_session::{ChannelId, Direction, Priority, State};

use super::frame::{Button, Frame, FrameError, Role};
use super::messages::{Content, DeviceDrops, Drops, LineChannels};
use super::parts::{Incoming, Outgoing, count, infos};
use super::process::as_state;
use super::program::{Dialogue, Program};
use crate::Clock;

/// A device in an operator's hand that is a program: it is told and heard by [`frames`](super::frame), and nobody waits for it. Its end is
/// that of the session; one that hangs makes no samples, so that the robot stops by its watchdog; what is no frame is a stop.
pub struct ProcessInput(Program<Talk>);

/// Where an input's buttons go, once there is a session. It can be copied.
#[derive(Clone, Default)]
pub struct Buttons(Arc<Wires>);

#[derive(Default)]
struct Wires {
    press: OnceLock<Press>,
    /// The input is over, whether or not there was a session by then.
    quit: AtomicBool,
}

type Press = Box<dyn Fn(Pressed) + Send + Sync>;

/// What an input asks for beside its samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pressed {
    /// The emergency stop: pressed, or the input is not to be relied on.
    Alarm(Alarm),
    /// Let go of the emergency stop.
    Reset,
    /// Let the robot move.
    Resume,
    /// End the session.
    Quit,
}

impl Buttons {
    /// From now on `press` is called, on any thread; of what was pressed before only [`Pressed::Quit`] is made up for. It does not wait.
    pub fn connect(&self, press: impl Fn(Pressed) + Send + Sync + 'static) {
        let _ = self.0.press.set(Box::new(press)); // There is one session.
        if self.0.quit.load(Ordering::SeqCst) {
            self.press(Pressed::Quit);
        }
    }

    /// Something was pressed.
    pub fn press(&self, pressed: Pressed) {
        if pressed == Pressed::Quit {
            self.0.quit.store(true, Ordering::SeqCst);
        }
        if let Some(press) = self.0.press.get() {
            press(pressed);
        }
    }
}

impl std::fmt::Debug for Buttons {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Buttons").finish_non_exhaustive()
    }
}

/// As [`ExitStatus`](std::process::ExitStatus) is shown.
const SUCCESS: &str = "exit status: 0";

/// Not told yet.
enum Feeling {
    Felt(State),
    Lost,
}

/// What is said to it, and what it said.
struct Talk {
    intro: VecDeque<Frame>,
    feel: Option<Feeling>,
    is_lost: bool,
    resumed: bool,
    tick: Option<Time>,
    outgoing: Outgoing,
    given: Incoming,
    sample: State,
    priority: Priority,
    readings: u64,
    /// It is sampled, and that it has ended is found by that.
    is_sampled: bool,
    /// It was a reason to stop, which is said until it is acknowledged: the session goes on for that.
    has_alarmed: bool,
    /// The session is over, and so is the program.
    leaves: bool,
    /// The program is over, and so is the session.
    ended: bool,
    /// How its process ended.
    how: Option<String>,
    buttons: Buttons,
    complain: Box<dyn FnMut(&str) + Send>,
}

impl ProcessInput {
    /// Starts `words`, a program and its arguments. Its frames know `channels` by their places: all that the operator declared, in that order.
    /// What is wrong with it is given to `complain`, what it presses to `buttons`.
    ///
    /// # Errors
    /// When there is no such program, it may not be executed, or the system has no process, thread or descriptor left.
    pub fn start(
        words: &[String],
        channels: &LineChannels,
        buttons: Buttons,
        complain: impl FnMut(&str) + Send + 'static,
    ) -> io::Result<Self> {
        let hello = Frame::Hello { role: Role::Input, channels: count(channels) };
        let talk = Talk {
            intro: std::iter::once(hello).chain(infos(channels)).collect(),
            feel: None,
            is_lost: true,
            resumed: false,
            tick: None,
            outgoing: Outgoing::new(channels.clone()),
            given: Incoming::new(channels.clone()),
            sample: State::at(Time::ZERO),
            priority: Priority::Normal,
            readings: 0,
            is_sampled: false,
            has_alarmed: false,
            leaves: false,
            ended: false,
            how: None,
            buttons,
            complain: Box::new(complain),
        };
        Program::start(words, talk).map(Self)
    }

    /// How urgent its states are. Default: normal.
    pub fn priority(self, priority: Priority) -> Self {
        self.0.look(|talk| talk.priority = priority);
        self
    }

    /// What was dropped between it and the session, whenever it is asked.
    pub fn message_drops(&self) -> DeviceDrops {
        let shared = self.0.shared();
        DeviceDrops::new(move || {
            shared.look(|talk| Drops {
                to_device: talk.outgoing.messages.drops(),
                from_device: talk.given.messages.drops(),
            })
        })
    }

    /// Asked when the session is over and this is gone: did it end because the program did, and not well?
    pub fn failed(&self) -> impl Fn() -> bool + 'static {
        let shared = self.0.shared();
        move || shared.look(|talk| talk.ended && talk.how.as_ref().is_some_and(|how| how != SUCCESS))
    }
}

impl OperatorDevice for ProcessInput {
    fn sample(&mut self, now: Time) -> Option<Sample> {
        self.0.tell(|talk| {
            (talk.tick, talk.is_sampled) = (Some(Clock::since_boot()), true);
            let state = State { created: now, priority: talk.priority, ..talk.sample };
            (!talk.ended).then_some(Sample { state, reading: talk.readings })
        })
    }

    fn skip(&mut self, _: u64) -> u64 {
        0
    }

    fn resumed(&mut self, resume: Resume) {
        self.0.tell(|talk| talk.resumed |= resume == Resume::Asked);
    }

    fn feel(&mut self, _: Time, state: &State) {
        self.0.tell(|talk| (talk.feel, talk.is_lost) = (Some(Feeling::Felt(*state)), false));
    }

    fn lost(&mut self) {
        self.0.tell(|talk| {
            if !std::mem::replace(&mut talk.is_lost, true) {
                talk.feel = Some(Feeling::Lost);
            }
        });
    }

    fn receive(&mut self, channel: ChannelId, age: Option<Duration>, payload: &[u8]) {
        let payload = Content::Payload(payload.to_vec());
        self.0.tell(|talk| talk.outgoing.messages.push(Clock::since_boot(), channel, age, payload));
    }

    fn limit_bitrate(&mut self, _: taut_core::Bitrate) {}

    fn poll_message(&mut self, _: Time) -> Option<DeviceMessage> {
        let next = self.0.look(|talk| talk.given.messages.pop(Clock::since_boot()));
        next.map(|waiting| waiting.message())
    }
}

impl Drop for ProcessInput {
    fn drop(&mut self) {
        self.0.look(|talk| talk.leaves = true);
    }
}

impl std::fmt::Debug for ProcessInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProcessInput").finish_non_exhaustive()
    }
}

impl Dialogue for Talk {
    fn next(&mut self, now: Time, is_read: bool) -> Option<Frame> {
        if !is_read {
            return None;
        }
        if let Some(first) = self.intro.pop_front() {
            return Some(first);
        }
        if let Some(feeling) = self.feel.take() {
            return Some(match feeling {
                Feeling::Felt(state) => Frame::Feel(motion::State::from(&state)),
                Feeling::Lost => Frame::Lost,
            });
        }
        if std::mem::take(&mut self.resumed) {
            return Some(Frame::Resumed);
        }
        self.tick.take().map(|now| Frame::Tick { now }).or_else(|| self.outgoing.next(now))
    }

    fn put_back(&mut self, frame: Frame) {
        // Of what it feels, and of ticks, newer ones come.
        if !matches!(frame, Frame::Feel(_) | Frame::Tick { .. }) {
            self.intro.push_front(frame);
        }
    }

    fn is_empty(&self) -> bool {
        let is_told = self.intro.is_empty() && self.feel.is_none() && !self.resumed;
        is_told && self.tick.is_none() && self.outgoing.is_empty()
    }

    fn due(&self) -> Option<Time> {
        None
    }

    fn handle_timeout(&mut self, _: Time) -> bool {
        true
    }

    fn hear(&mut self, now: Time, said: Result<Frame, FrameError>) {
        let heard = said.map_err(|error| error.to_string()).and_then(|frame| self.take(now, frame));
        if let Err(why) = heard {
            self.alarm(Alarm::Lost);
            (self.complain)(&format!("STOP, it wrote what is no frame: {why}"));
        }
    }

    fn end(&mut self, why: DeviceFailure) {
        let is_known = self.leaves || std::mem::replace(&mut self.ended, true);
        if !is_known && !self.is_sampled && !self.has_alarmed {
            self.buttons.press(Pressed::Quit);
        }
        if let DeviceFailure::Ended(how) = &why {
            if self.ended || how != SUCCESS {
                (self.complain)(&why.to_string());
            }
            self.how = Some(how.clone());
        }
    }
}

impl Talk {
    fn alarm(&mut self, alarm: Alarm) {
        self.has_alarmed = true;
        self.buttons.press(Pressed::Alarm(alarm));
    }

    fn take(&mut self, now: Time, frame: Frame) -> Result<(), String> {
        match frame {
            Frame::Sample(state) => (self.sample, self.readings) = (as_state(&state), self.readings + 1),
            Frame::Motion { channel, motion } => self.given.motion(now, channel, motion)?,
            Frame::Message { channel, more, payload, .. } => {
                self.given.message(now, Direction::ToRobot, channel, &payload, more)?;
            }
            Frame::Button(Button::Stop) => self.alarm(Alarm::Pressed),
            Frame::Button(Button::Reset) => self.buttons.press(Pressed::Reset),
            Frame::Button(Button::Resume) => self.buttons.press(Pressed::Resume),
            // It has nothing to say of itself but its name, which nobody asks for.
            Frame::Device(_) => {}
            _ => return Err("an input does not write such a frame".to_owned()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel as pipe;

    use super::*;
    use crate::device::process::tests::{Log, TURNING, channels, wait_for, words};

    #[test]
    fn an_input_is_sampled_feels_presses_and_ends_the_device_with_itself_and_junk_is_a_stop() {
        let log = Log::new("input");
        let (sender, complaints) = pipe();
        let (presses, pressed) = pipe();
        let buttons = Buttons::default();
        buttons.connect(move |pressed| presses.send(pressed).unwrap_or_default());
        let complain = move |why: &str| drop(sender.send(why.to_owned()));
        let mut input =
            ProcessInput::start(&words("input", Some(&log)), &channels(), buttons, complain).unwrap();
        let failed = input.failed();
        let sample = wait_for(|| input.sample(Time::ZERO).filter(|sample| sample.reading > 0));
        assert_eq!(sample.state.position[0].to_bits(), 0.25f32.to_bits());
        assert_eq!(sample.state.turning, Some(TURNING));
        input.feel(Time::ZERO, &State::at(Time::ZERO));
        assert_eq!(pressed.recv(), Ok(Pressed::Resume));
        assert_eq!(pressed.recv(), Ok(Pressed::Alarm(Alarm::Lost)));
        assert!(complaints.recv().unwrap().contains("no frame"));
        input.lost();
        assert!(complaints.recv().unwrap().contains("exit status: 0"));
        assert_eq!(wait_for(|| Some(input.sample(Time::ZERO)).filter(Option::is_none)), None);
        let lines = log.lines();
        assert!(lines[0].starts_with("Hello { role: Input, channels: 3 }"), "{lines:?}");
        assert!(lines.iter().any(|line| line.starts_with("Tick")), "{lines:?}");
        drop(input);
        assert!(!failed(), "it ended well");
    }

    /// Before anybody resumed: the stop is to be said until it is acknowledged.
    #[test]
    fn the_end_of_an_input_that_was_a_reason_to_stop_leaves_the_session_to_say_so() {
        let ((sender, complaints), (presses, pressed)) = (pipe(), pipe());
        let buttons = Buttons::default();
        buttons.connect(move |pressed| presses.send(pressed).unwrap_or_default());
        let complain = move |why: &str| drop(sender.send(why.to_owned()));
        let mut input = ProcessInput::start(&words("input", None), &channels(), buttons, complain).unwrap();
        input.feel(Time::ZERO, &State::at(Time::ZERO));
        assert_eq!(pressed.recv(), Ok(Pressed::Resume));
        assert_eq!(pressed.recv(), Ok(Pressed::Alarm(Alarm::Lost)));
        input.lost();
        assert!(complaints.iter().any(|why| why.contains("exit status: 0")));
        assert!(pressed.try_recv().is_err());
    }

    #[test]
    fn an_input_that_ends_with_another_status_has_failed_where_the_session_ended_by_that() {
        let input = || ProcessInput::start(&words("mute", None), &channels(), Buttons::default(), |_| ());
        let mut ends = input().unwrap();
        let failed = ends.failed();
        wait_for(|| ends.sample(Time::ZERO).is_none().then_some(()));
        drop(ends);
        assert!(failed());
        // The session ends by something else, and the program with it.
        let stays =
            ProcessInput::start(&words("input", None), &channels(), Buttons::default(), |_| ()).unwrap();
        let failed = stays.failed();
        drop(stays);
        assert!(!failed());
        // Whoever asks later is told that the input is over.
        let (buttons, (presses, pressed)) = (Buttons::default(), pipe());
        let over = ProcessInput::start(&words("mute", None), &channels(), buttons.clone(), |_| ()).unwrap();
        let failed = over.failed();
        wait_for(|| failed().then_some(()));
        buttons.connect(move |pressed| presses.send(pressed).unwrap_or_default());
        assert_eq!(pressed.recv(), Ok(Pressed::Quit));
    }
}
