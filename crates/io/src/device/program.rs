//! A program that is a device: started with a socket, told and heard by frames, and ended.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::sockopt::set_socket_send_buffer_size;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, recv, send, shutdown, socketpair,
};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use taut_agent::DeviceFailure;
use taut_core::{Duration, Time};

use super::frame::{Frame, FrameError, LONGEST_FROM_DEVICE};
use crate::Clock;
use crate::clock::timespec;
use crate::privileges::spawn_unprivileged;
use crate::wakeup::Wakeup;

/// Names the descriptor that is the device's end of the socket.
pub const DESCRIPTOR: &str = "TAUT_DEVICE_FD";

/// What is said to a program and heard of it. Sans-IO; its time is that of [`Clock::since_boot`].
pub(super) trait Dialogue: Send + 'static {
    /// What is written now, if anything; `is_read`: the program has read what was written before, but for one frame.
    fn next(&mut self, now: Time, is_read: bool) -> Option<Frame>;
    /// What [`next`](Self::next) gave last found no room.
    fn put_back(&mut self, frame: Frame);
    /// Is nothing to be written?
    fn is_empty(&self) -> bool;
    /// When [`handle_timeout`](Self::handle_timeout) has something to do.
    fn due(&self) -> Option<Time>;
    /// Time has passed, and what the program said was heard. False: it is to be ended.
    fn handle_timeout(&mut self, now: Time) -> bool;
    /// The program wrote something.
    fn hear(&mut self, now: Time, said: Result<Frame, FrameError>);
    /// Nothing more comes of it, and nothing reaches it.
    fn end(&mut self, why: DeviceFailure);
}

/// A program and what is said to it. Nobody waits for it but a thread of its own.
///
/// Its socket's buffer is the least that Linux has, and is written to only when nearly all is read: two frames wait there at most,
/// and a stop behind them. It is a process group of its own: Ctrl-C is for the session, which stops it. When this is dropped its socket
/// is closed; a second later what is left of the group is asked to end by `SIGTERM`, and another second later ended by `SIGKILL`.
pub(super) struct Program<D: Dialogue> {
    shared: Arc<Shared<D>>,
    thread: Option<JoinHandle<()>>,
}

/// For a program and its group to end once its socket is closed, and once they were asked to.
const GOODBYE: Duration = Duration::from_secs(1);
/// How often it is looked whether a program that has ended left somebody behind.
const LOOK: Duration = Duration::from_millis(10);
/// Frames that are heard before anything else is looked at.
const MOST_FRAMES: usize = 64;

pub(super) struct Shared<D> {
    inner: Mutex<Inner<D>>,
    /// Wakes the thread that waits for the program.
    wake: Wakeup,
}

struct Inner<D> {
    dialogue: D,
    /// `None` once it is closed.
    socket: Option<Arc<OwnedFd>>,
}

impl<D: Dialogue> Program<D> {
    /// Starts `words`, a program and its arguments, without a shell.
    ///
    /// # Errors
    /// When there is no such program, it may not be executed, or the system has no process, thread or descriptor left.
    pub(super) fn start(words: &[String], dialogue: D) -> io::Result<Self> {
        let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        set_socket_send_buffer_size(&ours, 1)?;
        let mut command = Command::new(program);
        // Standard input is the one descriptor that a process gets without others having it for a moment. What the program prints
        // is for people.
        command.args(arguments).env(DESCRIPTOR, "0").stdin(Stdio::from(theirs)).process_group(0);
        command.stdout(io::stderr().as_fd().try_clone_to_owned().map_or_else(|_| Stdio::null(), Stdio::from));
        let inner = Inner { dialogue, socket: Some(Arc::new(ours)) };
        let shared = Arc::new(Shared { inner: Mutex::new(inner), wake: Wakeup::new()? });
        let mut child = command.spawn()?;
        drop(command);
        let exit = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).inspect_err(|_| {
            let _ = child.kill().and_then(|()| child.wait()); // Nobody would notice its end.
        })?;
        let theirs = shared.clone();
        let thread = spawn_unprivileged("taut device", || (), move || theirs.attend(child, &exit))?;
        shared.tell(|_| ());
        Ok(Self { shared, thread: Some(thread) })
    }

    pub(super) fn shared(&self) -> Arc<Shared<D>> {
        self.shared.clone()
    }

    /// Changes what is said, and says what can be said now.
    pub(super) fn tell<R>(&self, order: impl FnOnce(&mut D) -> R) -> R {
        self.shared.tell(order)
    }

    /// Looks at what was heard.
    pub(super) fn look<R>(&self, look: impl FnOnce(&mut D) -> R) -> R {
        self.shared.look(look)
    }
}

impl<D: Dialogue> Drop for Program<D> {
    fn drop(&mut self) {
        self.shared.lock().close();
        self.shared.wake.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl<D: Dialogue> Shared<D> {
    fn lock(&self) -> MutexGuard<'_, Inner<D>> {
        // Whoever panicked left nothing half done that a stop depends on.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// See [`Program::tell`].
    pub(super) fn tell<R>(&self, order: impl FnOnce(&mut D) -> R) -> R {
        let mut inner = self.lock();
        let told = order(&mut inner.dialogue);
        inner.pump();
        drop(inner);
        self.wake.wake();
        told
    }

    /// See [`Program::look`].
    pub(super) fn look<R>(&self, look: impl FnOnce(&mut D) -> R) -> R {
        look(&mut self.lock().dialogue)
    }

    /// Attends to the program until it has ended.
    fn attend(&self, mut child: Child, exit: &OwnedFd) {
        let mut buffer = vec![0; LONGEST_FROM_DEVICE];
        while self.turn(exit, &mut buffer) {}
        let pid = Pid::from_child(&child);
        self.lock().close();
        // The group keeps its number as long as the child was not waited for.
        if !ends_in_time(exit, pid) {
            let _ = kill_process_group(pid, Signal::TERM);
            if !ends_in_time(exit, pid) {
                let _ = kill_process_group(pid, Signal::KILL);
            }
        }
        let how = child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        self.lock().dialogue.end(DeviceFailure::Ended(how));
    }

    /// Waits for something to do, and does it. False: the socket is closed.
    fn turn(&self, exit: &OwnedFd, buffer: &mut [u8]) -> bool {
        let (socket, wants, due) = {
            let mut inner = self.lock();
            inner.pump();
            let Some(socket) = inner.socket.clone() else { return false };
            let due = inner.dialogue.due();
            let wants = if inner.dialogue.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
            (socket, PollFlags::IN | wants, due)
        };
        let timeout = due.map(|due| timespec(due.saturating_since(Clock::since_boot())));
        let mut fds = [
            PollFd::from_borrowed_fd(socket.as_fd(), wants),
            PollFd::from_borrowed_fd(self.wake.0.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(exit.as_fd(), PollFlags::IN),
        ];
        if retry_on_intr(|| poll(&mut fds, timeout.as_ref())).is_err() {
            return false;
        }
        let has_ended = !fds[2].revents().is_empty();
        self.wake.acknowledge();
        // What it said before it ended counts; and what it said in time, before it is judged by a host that is late itself.
        let is_open = self.hear(&socket, buffer) && !has_ended;
        is_open && self.lock().dialogue.handle_timeout(Clock::since_boot())
    }

    /// Takes what the program wrote. False: it has closed its end.
    fn hear(&self, socket: &OwnedFd, buffer: &mut [u8]) -> bool {
        for _ in 0..MOST_FRAMES {
            let read = retry_on_intr(|| recv(socket, &mut *buffer, RecvFlags::DONTWAIT | RecvFlags::TRUNC));
            let said = match read {
                Ok((_, 0)) => return false,
                Ok((_, length)) => match buffer.get(..length) {
                    Some(frame) => Frame::parse(frame),
                    None => Err(FrameError::Length { needed: buffer.len(), found: length }),
                },
                Err(Errno::AGAIN) => return true,
                Err(_) => return false,
            };
            self.lock().dialogue.hear(Clock::since_boot(), said);
        }
        true
    }
}

impl<D: Dialogue> Inner<D> {
    /// Closes the socket, which is the last stop. The program may be gone already.
    fn close(&mut self) {
        if let Some(socket) = self.socket.take() {
            let _ = shutdown(&*socket, Shutdown::Both);
            self.dialogue.end(DeviceFailure::Closed);
        }
    }

    /// Writes what can be written now.
    fn pump(&mut self) {
        let now = Clock::since_boot();
        let Some(socket) = self.socket.clone() else { return };
        let mut is_read = has_been_read(&socket);
        while let Some(frame) = self.dialogue.next(now, is_read) {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match retry_on_intr(|| send(&*socket, &frame.to_bytes(), flags)) {
                Ok(_) => is_read = has_been_read(&socket),
                Err(Errno::AGAIN) => {
                    self.dialogue.put_back(frame);
                    break;
                }
                Err(_) => return self.close(),
            }
        }
    }
}

/// Has the program read what was written, but for one frame? Linux says that there is room when no more than a quarter of the buffer
/// is taken (unix(7) and `unix_writable` of its af_unix.c), and one frame takes about that much.
fn has_been_read(socket: &OwnedFd) -> bool {
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut fds = [PollFd::new(socket, PollFlags::OUT)];
    let _ = retry_on_intr(|| poll(&mut fds, Some(&at_once)));
    fds[0].revents().contains(PollFlags::OUT)
}

/// Waits for the program, and for whoever else is in its group: a device behind a script that ends at once still brakes.
fn ends_in_time(exit: &OwnedFd, group: Pid) -> bool {
    let due = Clock::since_boot() + GOODBYE;
    let left = || timespec(due.saturating_since(Clock::since_boot()));
    let mut fds = [PollFd::new(exit, PollFlags::IN)];
    if !retry_on_intr(|| poll(&mut fds, Some(&left()))).is_ok_and(|ready| ready > 0) {
        return false;
    }
    while has_members(group) {
        if Clock::since_boot() >= due {
            return false;
        }
        let _ = poll(&mut [], Some(&timespec(LOOK)));
    }
    true
}

/// Is anybody in the group who has not ended? Where nobody can tell, somebody is.
fn has_members(group: Pid) -> bool {
    let Ok(processes) = std::fs::read_dir("/proc") else { return true };
    let group = group.as_raw_nonzero().to_string();
    processes.flatten().any(|process| {
        let stat = std::fs::read_to_string(process.path().join("stat")).unwrap_or_default();
        // State, parent and group come after the name, which may hold anything (proc_pid_stat(5)).
        let mut fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let (state, of) = (fields.next(), fields.nth(1));
        of == Some(&group) && !matches!(state, Some("Z" | "X"))
    })
}
