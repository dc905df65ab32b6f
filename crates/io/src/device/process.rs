//! A robot's device in a process of its own.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};

use taut_agent::{DeviceFailure, DeviceMessage, Measured, RobotDevice, SetPoint};
use taut_core::{Duration, Time, printable};
use taut_session::motion::{self, Motion};
use taut_session::{ChannelId, Direction, State, StopCause};

use super::frame::{DeviceInfo, DeviceLimits, Frame, FrameError};
use super::messages::{DeviceDrops, Drops, LineChannels};
use super::orders::{Orders, Overdue};
use super::parts::Incoming;
use super::program::{Dialogue, Program, Shared};
use super::{Stoppable, Stopper};
use crate::Clock;

/// A device that is a program: it is told and heard by [`frames`](super::frame), and nobody waits for it.
///
/// Whatever it fails in is a [`DeviceFailure`], on which the session stops. When it is dropped the program is stopped, its socket is
/// closed, and it is ended if it does not end by itself. When the session's process is gone, however that ended, the program's socket
/// ends, and it must stop by itself.
pub struct ProcessDevice {
    program: Program<Talk>,
    info: DeviceInfo,
    limits: DeviceLimits,
}

/// A device that did not start.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// There is no such program, it may not be executed, or the system refused something else.
    #[error("the device `{program}` cannot be started: {error}")]
    NotStarted {
        /// Which.
        program: String,
        /// Why not.
        error: io::Error,
    },
    /// It did not say in time what it is.
    #[error(
        "the device said no hello within 10 s: does it write to the descriptor that TAUT_DEVICE_FD names?"
    )]
    NoHello,
    /// No position is within its own limits and within those that it was to have.
    #[error("no position is within the box of --position-limit and within the device's own")]
    Apart,
    /// It ended, or wrote something else.
    #[error("the device did not begin with a hello: {0}")]
    Failed(DeviceFailure),
}

/// Until a device has said what it is.
const HELLO: std::time::Duration = std::time::Duration::from_secs(10);

/// What is said to it, and what it said.
struct Talk {
    orders: Orders,
    /// Whoever waits for its hello.
    hello: Option<SyncSender<(DeviceInfo, DeviceLimits)>>,
    /// Its own limits, which it says before its hello.
    own: DeviceLimits,
    /// What it gave for channels, and where it said that it is.
    given: Incoming,
    newest: Option<Measured>,
    /// Since it was asked last.
    failure: Option<DeviceFailure>,
    /// For ever.
    lasting: Option<DeviceFailure>,
    junk: u64,
}

impl ProcessDevice {
    /// Starts `words`, a program and its arguments, waits until it has said what it is, and tells it its limits: `limits` and
    /// its own, the tighter of both. Its frames know `channels` by
    /// their places: all that the robot declared, in that order.
    ///
    /// # Errors
    /// See [`ProcessError`].
    pub fn start(
        words: &[String],
        limits: DeviceLimits,
        channels: &LineChannels,
    ) -> Result<Self, ProcessError> {
        let (hello, hellos) = sync_channel(1);
        let talk = Talk {
            orders: Orders::new(channels),
            hello: Some(hello),
            own: DeviceLimits::default(),
            given: Incoming::new(channels.clone()),
            newest: None,
            failure: None,
            lasting: None,
            junk: 0,
        };
        let program = Program::start(words, talk).map_err(|error| ProcessError::NotStarted {
            program: words.first().cloned().unwrap_or_default(),
            error,
        })?;
        let (info, own) = match hellos.recv_timeout(HELLO) {
            Ok(said) => said,
            Err(RecvTimeoutError::Timeout) => return Err(ProcessError::NoHello),
            Err(RecvTimeoutError::Disconnected) => {
                let failure = program.look(|talk| talk.lasting.clone().or(talk.failure.take()));
                return Err(ProcessError::Failed(failure.unwrap_or(DeviceFailure::Closed)));
            }
        };
        // A device may take its time until it reads; from now on it does not.
        let limits = limits.and(own).ok_or(ProcessError::Apart)?;
        program.tell(|talk| talk.orders.limit(limits));
        Ok(Self { program, info, limits })
    }

    /// What it is told to keep to.
    pub const fn limits(&self) -> DeviceLimits {
        self.limits
    }

    /// Do channels of motion alone move it?
    pub const fn is_moved_by_channels(&self) -> bool {
        self.info.by_channels
    }

    /// What it calls itself, without what a terminal would obey.
    pub fn name(&self) -> String {
        printable(&self.info.name).at_most(80).to_string()
    }

    /// Set points that were never written: a newer one or a stop came first, or they were too old.
    pub fn dropped(&self) -> u64 {
        self.program.look(|talk| talk.orders.dropped())
    }

    /// What was dropped between it and the session, from now on and whenever it is asked.
    pub fn message_drops(&self) -> DeviceDrops {
        let shared = self.program.shared();
        DeviceDrops::new(move || {
            shared.look(|talk| Drops {
                to_device: talk.orders.message_drops(),
                from_device: talk.given.messages.drops(),
            })
        })
    }
}

impl RobotDevice for ProcessDevice {
    fn period(&self) -> Duration {
        Duration::from_millis(1)
    }

    fn enable(&mut self) -> Result<(), DeviceFailure> {
        self.program.tell(|talk| match &talk.lasting {
            Some(lasting) => Err(lasting.clone()),
            None => {
                talk.orders.enable(Clock::since_boot());
                Ok(())
            }
        })
    }

    fn apply(&mut self, point: &SetPoint) -> bool {
        if !self.info.by_channels {
            self.program.tell(|talk| talk.orders.apply(Clock::since_boot(), point));
        }
        true
    }

    fn drive(&mut self, channel: ChannelId, motion: &Motion, lease: Duration) -> bool {
        self.program.tell(|talk| talk.orders.drive(Clock::since_boot(), channel, motion, lease));
        true
    }

    fn stop(&mut self, cause: StopCause) {
        self.program.tell(|talk| talk.orders.stop(cause));
    }

    fn measure(&mut self) -> Option<Measured> {
        self.program.look(|talk| talk.newest.take())
    }

    fn receive(&mut self, channel: ChannelId, age: Option<Duration>, payload: &[u8]) {
        self.program.tell(|talk| talk.orders.message(Clock::since_boot(), channel, age, payload));
    }

    fn limit_bitrate(&mut self, _: taut_core::Bitrate) {}

    fn poll_message(&mut self) -> Option<DeviceMessage> {
        let next = self.program.look(|talk| talk.given.messages.pop(Clock::since_boot()));
        next.map(|waiting| waiting.message())
    }

    fn feeds_back(&mut self) -> bool {
        true
    }

    fn failure(&mut self) -> Option<DeviceFailure> {
        self.program.look(|talk| talk.lasting.clone().or_else(|| talk.failure.take()))
    }

    fn lease(&self) -> bool {
        self.info.lease
    }

    fn stiffness(&self) -> Option<f32> {
        self.info.stiffness
    }

    fn limit_force(&mut self, newtons: f32) -> bool {
        if self.limits.force != Some(newtons) {
            self.limits.force = Some(newtons);
            let limits = self.limits;
            self.program.tell(|talk| talk.orders.limit(limits));
        }
        self.info.limits_force
    }

    fn is_real(&self) -> bool {
        self.info.real
    }
}

impl Stoppable for ProcessDevice {
    fn stopper(&self) -> Arc<dyn Stopper> {
        self.program.shared()
    }
}

impl Stopper for Shared<Talk> {
    fn stop(&self, cause: StopCause) {
        self.tell(|talk| talk.orders.stop(cause));
    }
}

impl Drop for ProcessDevice {
    fn drop(&mut self) {
        self.stop(StopCause::Host);
    }
}

impl std::fmt::Debug for ProcessDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProcessDevice").field("info", &self.info).finish_non_exhaustive()
    }
}

impl Dialogue for Talk {
    fn next(&mut self, now: Time, is_read: bool) -> Option<Frame> {
        self.orders.next(now, is_read)
    }

    fn put_back(&mut self, frame: Frame) {
        self.orders.put_back(frame);
    }

    fn is_empty(&self) -> bool {
        self.orders.is_empty()
    }

    fn due(&self) -> Option<Time> {
        self.orders.due()
    }

    fn handle_timeout(&mut self, now: Time) -> bool {
        while let Some(overdue) = self.orders.overdue(now) {
            match overdue {
                Overdue::Reading => self.failure = Some(DeviceFailure::NotTaken),
                Overdue::Measurement(silence) => self.failure = Some(DeviceFailure::Silent(silence)),
                Overdue::Stop => {
                    self.lasting.get_or_insert(DeviceFailure::IgnoresStop);
                    return false;
                }
            }
        }
        true
    }

    fn hear(&mut self, now: Time, said: Result<Frame, FrameError>) {
        let heard = said.map_err(|error| error.to_string()).and_then(|frame| self.take(now, frame));
        if let Err(why) = heard {
            self.junk += 1;
            let failure = DeviceFailure::Junk { frames: self.junk, why };
            // What does not begin with a hello is no device, whatever follows.
            if self.hello.take().is_some() {
                self.lasting.get_or_insert(failure);
            } else {
                self.failure = Some(failure);
            }
        }
    }

    fn end(&mut self, why: DeviceFailure) {
        let is_known = !matches!(self.lasting, None | Some(DeviceFailure::Closed));
        if !is_known {
            self.lasting = Some(why);
        }
        // Closed is told when it is known how it ended.
        if !matches!(self.lasting, Some(DeviceFailure::Closed)) {
            self.hello = None;
        }
    }
}

impl Talk {
    fn take(&mut self, now: Time, frame: Frame) -> Result<(), String> {
        match frame {
            Frame::Limits(own) if self.hello.is_some() => {
                own.check()?;
                self.own = own;
            }
            Frame::Device(info) => {
                let hello = self.hello.take().ok_or("it said hello before")?;
                // It may not have read for as long as it took to begin.
                self.failure = None;
                let _ = hello.try_send((info, self.own)); // Whoever waited may have given up.
            }
            Frame::Measured { state, controller_force } => {
                self.orders.measured(now);
                self.newest = Some(Measured { state: as_state(&state), controller_force, feedback: None });
            }
            Frame::Stopped { number: 0, why } => self.failure = Some(DeviceFailure::Stopped(why)),
            Frame::Stopped { number, .. } => self.orders.stopped(number),
            Frame::Motion { channel, motion } => {
                self.given.motion(now, channel, motion)?;
                self.orders.measured(now);
            }
            Frame::Message { channel, more, payload, .. } => {
                self.given.message(now, Direction::ToOperator, channel, &payload, more)?;
            }
            _ => return Err("a robot's device does not write such a frame".to_owned()),
        }
        Ok(())
    }
}

pub(super) fn as_state(state: &motion::State) -> State {
    State {
        locked: state.locked,
        enabling: state.enabling,
        gripper: state.gripper,
        position: state.position,
        orientation_wxyz: state.orientation_wxyz,
        velocity: state.velocity,
        force: state.force,
        turning: state.turning,
        ..State::at(Time::ZERO)
    }
}

#[cfg(test)]
pub(super) mod tests;
