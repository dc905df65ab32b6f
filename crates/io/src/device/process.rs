//! A device in a process of its own.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio, retry_on_intr};
use rustix::pipe::fcntl_setpipe_size;
use taut_agent::{DeviceFailure, DeviceMessage, Measured, RobotDevice, SetPoint};
use taut_core::{Duration, printable};
use taut_session::motion::Motion;
use taut_session::{ChannelId, Direction, StopCause};

use crate::privileges::spawn_unprivileged;

use super::lines::{DeviceLimits, Hello, LONGEST, MessageLine, MotionOf, Order, Said, Splitter, line, said};
use super::messages::{Content, DeviceDrops, Drops, LineChannels, Messages, longest_line};
use super::orders::Orders;
use super::{Stoppable, Stopper};
use crate::Clock;
use crate::clock::timespec;
use crate::wakeup::Wakeup;

/// A device that is a command: it reads what it is told as [`lines`](super::lines) on its standard input and writes what it
/// measures on its standard output.
///
/// Nobody waits for it. Its pipe holds one line (a page is the least that Linux has, and it is written to only when it is
/// empty), so that a stop has at most one set point ahead of it. It is a process group of its own: Ctrl-C is for the session,
/// which stops it. It is never killed: when the session's process is gone, however that ended, its input ends, and it must
/// stop by itself.
pub struct ProcessDevice {
    shared: Arc<Shared>,
    hello: Hello,
    limits: DeviceLimits,
    writer: Option<JoinHandle<()>>,
    /// It has ended.
    ended: Receiver<()>,
}

/// A device that did not start.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// The system refused.
    #[error("the device: {0}")]
    Refused(#[from] io::Error),
    /// It did not say in time what it is.
    #[error(
        "the device said no hello within 10 s; its first line is {{\"hello\":{{\"name\":…,\"lease\":…,\"limits_force\":…,\"real\":…}}}}"
    )]
    NoHello,
    /// It ended, or wrote something else.
    #[error("the device did not begin with a hello: {0}")]
    Failed(DeviceFailure),
}

/// Until a device has said what it is.
const HELLO: std::time::Duration = std::time::Duration::from_secs(10);
/// For a device to end after its input has.
const GOODBYE: std::time::Duration = std::time::Duration::from_secs(2);
/// The least that a pipe can hold: one page, whatever its size is.
const ONE_PAGE: usize = 4_096;

struct Shared {
    inner: Mutex<Inner>,
    /// Wakes the thread that waits for the device to read.
    wake: Wakeup,
}

struct Inner {
    /// The way in; `None` once it is closed.
    input: Option<OwnedFd>,
    orders: Orders,
    /// What it gave for channels, and where it said that it is.
    given: Messages,
    newest: Option<Measured>,
    /// Since it was asked last.
    failure: Option<DeviceFailure>,
    /// For ever.
    lasting: Option<DeviceFailure>,
    junk: u64,
    ends: bool,
    #[cfg(test)]
    pid: u32,
}

impl ProcessDevice {
    /// Starts `command` by `sh -c`, waits until it has said what it is, and tells it its limits. Its lines know `channels` by their
    /// names: all that the robot declared, in that order.
    ///
    /// # Errors
    /// See [`ProcessError`].
    pub fn start(command: &str, limits: DeviceLimits, channels: &LineChannels) -> Result<Self, ProcessError> {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(command).stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut child = shell.spawn()?;
        let input = OwnedFd::from(child.stdin.take().expect("it was asked for"));
        let output = child.stdout.take().expect("it was asked for");
        ioctl_fionbio(&input, true).map_err(io::Error::from)?;
        fcntl_setpipe_size(&input, ONE_PAGE).map_err(io::Error::from)?;
        let waits = input.try_clone()?;
        let inner = Inner {
            input: Some(input),
            orders: Orders::new(channels.clone()),
            given: Messages::new(channels.clone()),
            newest: None,
            failure: None,
            lasting: None,
            junk: 0,
            ends: false,
            #[cfg(test)]
            pid: child.id(),
        };
        let shared = Arc::new(Shared { inner: Mutex::new(inner), wake: Wakeup::new()? });
        let (hello_sender, hellos) = sync_channel(1);
        let (ended_sender, ended) = sync_channel(1);
        let (theirs, longest) = (Arc::clone(&shared), longest_line(channels, Direction::ToOperator));
        let splitter = Splitter::new(longest.max(LONGEST));
        let listen = move || theirs.listen(output, splitter, child, &hello_sender, &ended_sender);
        spawn_unprivileged("taut device in", || (), listen)?;
        let theirs = Arc::clone(&shared);
        let writer = spawn_unprivileged("taut device out", || (), move || theirs.write(waits))?;
        // From here on whatever goes wrong ends the device by its input's end.
        let absent =
            Hello { name: String::new(), stiffness: None, lease: false, limits_force: false, real: true };
        let mut device = Self { shared, hello: absent, limits, writer: Some(writer), ended };
        device.hello = match hellos.recv_timeout(HELLO) {
            Ok(hello) => hello,
            Err(RecvTimeoutError::Timeout) => return Err(ProcessError::NoHello),
            Err(RecvTimeoutError::Disconnected) => {
                let failure = device.failure().unwrap_or(DeviceFailure::Closed);
                return Err(ProcessError::Failed(failure));
            }
        };
        // A device may take its time until it reads; from now on it does not.
        device.shared.tell(|orders| orders.limit(limits));
        Ok(device)
    }

    /// What it calls itself, without what a terminal would obey.
    pub fn name(&self) -> String {
        printable(&self.hello.name).at_most(80).to_string()
    }

    /// Set points that were never written: a newer one or a stop came first, or they were too old.
    pub fn dropped(&self) -> u64 {
        self.shared.lock().orders.dropped()
    }

    /// What was dropped between it and the session, from now on and whenever it is asked.
    pub fn message_drops(&self) -> DeviceDrops {
        let shared = Arc::clone(&self.shared);
        DeviceDrops::new(move || {
            let inner = shared.lock();
            Drops { to_device: inner.orders.message_drops(), from_device: inner.given.drops() }
        })
    }

    /// Lines of it that were no report.
    pub fn junk(&self) -> u64 {
        self.shared.lock().junk
    }
}

impl RobotDevice for ProcessDevice {
    fn period(&self) -> Duration {
        Duration::from_millis(1)
    }

    fn enable(&mut self) -> Result<(), DeviceFailure> {
        if let Some(lasting) = self.shared.lock().lasting.clone() {
            return Err(lasting);
        }
        self.shared.tell(Orders::enable);
        Ok(())
    }

    fn apply(&mut self, point: &SetPoint) -> bool {
        self.shared.tell(|orders| orders.apply(Clock::since_boot(), point));
        true
    }

    fn drive(&mut self, channel: ChannelId, motion: &Motion, lease: Duration) -> bool {
        self.shared.tell(|orders| orders.drive(Clock::since_boot(), channel, motion, lease));
        true
    }

    fn stop(&mut self, cause: StopCause) {
        Stopper::stop(&*self.shared, cause);
    }

    fn measure(&mut self) -> Option<Measured> {
        self.shared.lock().newest.take()
    }

    fn receive(&mut self, channel: ChannelId, age: Option<Duration>, payload: &[u8]) {
        self.shared.tell(|orders| orders.message(Clock::since_boot(), channel, age, payload));
    }

    fn limit_bitrate(&mut self, _: taut_core::Bitrate) {}

    fn poll_message(&mut self) -> Option<DeviceMessage> {
        let next = self.shared.lock().given.pop(Clock::since_boot());
        next.map(|waiting| waiting.message())
    }

    fn feeds_back(&mut self) -> bool {
        true
    }

    fn failure(&mut self) -> Option<DeviceFailure> {
        let mut inner = self.shared.lock();
        let lasting = inner.lasting.clone();
        lasting.or_else(|| inner.failure.take())
    }

    fn lease(&self) -> bool {
        self.hello.lease
    }

    fn stiffness(&self) -> Option<f32> {
        self.hello.stiffness
    }

    fn limit_force(&mut self, newtons: f32) -> bool {
        if self.limits.force != Some(newtons) {
            self.limits.force = Some(newtons);
            let limits = self.limits;
            self.shared.tell(|orders| orders.limit(limits));
        }
        self.hello.limits_force
    }

    fn is_real(&self) -> bool {
        self.hello.real
    }
}

impl Stoppable for ProcessDevice {
    fn stopper(&self) -> Arc<dyn Stopper> {
        Arc::clone(&self.shared) as Arc<dyn Stopper>
    }
}

impl Stopper for Shared {
    fn stop(&self, cause: StopCause) {
        self.tell(|orders| orders.stop(cause));
    }
}

impl Drop for ProcessDevice {
    fn drop(&mut self) {
        Stopper::stop(&*self.shared, StopCause::Host);
        {
            let mut inner = self.shared.lock();
            (inner.ends, inner.input) = (true, None);
        }
        self.shared.wake.wake();
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
        // Its input has ended. One that does not end goes on by itself: an arm is not to lose its controller.
        let _ = self.ended.recv_timeout(GOODBYE);
    }
}

impl std::fmt::Debug for ProcessDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProcessDevice").field("hello", &self.hello).finish_non_exhaustive()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Whoever panicked left nothing half done that a stop depends on.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, order: impl FnOnce(&mut Orders)) {
        let mut inner = self.lock();
        order(&mut inner.orders);
        inner.pump();
        drop(inner);
        self.wake.wake();
    }

    /// Waits for the device to read, and writes what came meanwhile.
    fn write(&self, input: OwnedFd) {
        loop {
            let (wants, due) = {
                let mut inner = self.lock();
                inner.pump();
                if inner.ends || inner.input.is_none() {
                    return;
                }
                let due = inner.orders.due();
                let wants = due.is_some() || !inner.orders.is_empty();
                (if wants { PollFlags::OUT } else { PollFlags::empty() }, due)
            };
            let timeout = due.map(|due| timespec(due.saturating_since(Clock::since_boot())));
            let mut fds = [
                // A device that closes its input is an error, for which nobody has to ask.
                PollFd::from_borrowed_fd(input.as_fd(), wants),
                PollFd::from_borrowed_fd(self.wake.0.as_fd(), PollFlags::IN),
            ];
            if retry_on_intr(|| poll(&mut fds, timeout.as_ref())).is_err() {
                return self.lock().close();
            }
            self.wake.acknowledge();
        }
    }

    /// Reads what the device says until it ends.
    fn listen(
        &self,
        output: ChildStdout,
        mut splitter: Splitter,
        mut child: Child,
        hello: &SyncSender<Hello>,
        ended: &SyncSender<()>,
    ) {
        let mut greeted = false;
        splitter.take_all(output, |line| {
            match line.map_or_else(|| Err("a line of it is too long".to_owned()), said) {
                Ok(Said::Hello(first)) if !greeted => {
                    greeted = true;
                    let _ = hello.try_send(first); // Nobody waits for a second one.
                }
                said => self.lock().hear(said),
            }
        });
        self.lock().close();
        let how = child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        self.lock().lasting = Some(DeviceFailure::Ended(how));
        let _ = ended.try_send(()); // Whoever waits for it may have given up.
    }
}

impl Inner {
    fn close(&mut self) {
        self.input = None;
        self.lasting.get_or_insert(DeviceFailure::Closed);
    }

    fn hear(&mut self, said: Result<Said, String>) {
        let heard = said.and_then(|said| match said {
            Said::Measured(measured) => {
                self.newest = Some(measured);
                Ok(())
            }
            Said::Stopped(why) => {
                self.failure = Some(DeviceFailure::Stopped(why));
                Ok(())
            }
            Said::Motion(measured) => self.hear_motion(measured),
            Said::Message(message) => self.hear_message(message),
            Said::Hello(_) => Err("it said hello before".to_owned()),
        });
        if let Err(why) = heard {
            self.junk += 1;
            self.failure = Some(DeviceFailure::Junk { lines: self.junk, why });
        }
    }

    fn hear_motion(&mut self, MotionOf { channel, motion }: MotionOf) -> Result<(), String> {
        let (id, known) = self.given.find(&channel, Direction::ToRobot)?;
        if known.motion != Some(motion.schema()) {
            return Err(format!("channel `{channel}` is no motion of {}", motion.schema().name()));
        }
        self.given.push(Clock::since_boot(), id, None, Content::Motion(motion.motion()?));
        Ok(())
    }

    fn hear_message(&mut self, message: MessageLine) -> Result<(), String> {
        let (id, _) = self.given.find(&message.channel, Direction::ToOperator)?;
        self.given.push(Clock::since_boot(), id, None, Content::Payload(message.bytes()?));
        Ok(())
    }

    /// Writes what can be written now.
    fn pump(&mut self) {
        let now = Clock::since_boot();
        let Some(input) = &self.input else { return };
        let Some(mut is_read) = has_been_read(input.as_fd()) else { return self.close() };
        while let Some(order) = self.orders.next(now, is_read) {
            match retry_on_intr(|| rustix::io::write(input, &line(&order))) {
                Ok(_) => is_read = false, // Lines shorter than a page are written whole or not at all.
                Err(Errno::AGAIN) => {
                    // Only a stop is written where there may be no room: it waits for some.
                    if let Order::Stop(_) = order {
                        self.orders.put_back();
                    }
                    return;
                }
                Err(_) => return self.close(),
            }
        }
        if !is_read && self.orders.is_overdue(now) {
            self.failure = Some(DeviceFailure::NotTaken);
        }
    }
}

/// Has the reader of a pipe of one page taken all that is in it? `None`: there is no reader any more.
fn has_been_read(input: BorrowedFd<'_>) -> Option<bool> {
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut fds = [PollFd::from_borrowed_fd(input, PollFlags::OUT)];
    retry_on_intr(|| poll(&mut fds, Some(&at_once))).ok()?;
    let seen = fds[0].revents();
    if seen.intersects(PollFlags::ERR | PollFlags::NVAL) { None } else { Some(seen.contains(PollFlags::OUT)) }
}

#[cfg(test)]
mod tests;
