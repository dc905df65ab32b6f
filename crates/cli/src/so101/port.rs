//! The serial line to a bus of servos.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::{Errno, retry_on_intr};
use rustix::termios::{ControlModes, OptionalActions, tcgetattr, tcsetattr};
use taut_core::{Duration, Time};
use taut_io::Clock;

use super::packet::{Answer, Reader};

/// Bits a second that the servos come with.
const RATE: u32 = 1_000_000;

pub(super) struct Port {
    line: File,
    reader: Reader,
}

impl Port {
    /// # Errors
    /// When it cannot be opened, is no serial line, or another program has it that locks it too (by flock(2), as pyserial's `exclusive` does).
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let flags = (OFlags::NOCTTY | OFlags::NONBLOCK).bits() as i32;
        let line = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)?;
        flock(&line, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
            Errno::WOULDBLOCK => io::Error::new(io::ErrorKind::ResourceBusy, "another program has it open"),
            error => error.into(),
        })?;
        let mut settings = tcgetattr(&line)?;
        settings.make_raw();
        settings.control_modes |= ControlModes::CREAD | ControlModes::CLOCAL;
        settings.set_speed(RATE)?;
        tcsetattr(&line, OptionalActions::Flush, &settings)?;
        Ok(Self { line, reader: Reader::default() })
    }

    /// Writes a request that nobody answers. A line that takes nothing for 10 ms is broken.
    pub(super) fn tell(&mut self, mut request: &[u8]) -> io::Result<()> {
        while !request.is_empty() {
            match self.line.write(request) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => request = &request[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if !self.wait(PollFlags::OUT, Duration::from_millis(10))? {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes a request, and gives what so many servos answer within `patience`, or fewer.
    pub(super) fn ask(
        &mut self,
        request: &[u8],
        count: usize,
        patience: Duration,
    ) -> io::Result<Vec<Answer>> {
        self.take()?;
        self.reader.clear();
        self.tell(request)?;
        let until = Clock::since_boot() + patience;
        let mut answers = Vec::new();
        loop {
            // Before it is looked at what has come: where this thread was held up, all of that is there by now.
            let left = until.saturating_since(Clock::since_boot());
            self.take()?;
            answers.extend(std::iter::from_fn(|| self.reader.pop()));
            if answers.len() >= count || left.is_zero() {
                return Ok(answers);
            }
            self.wait(PollFlags::IN, left)?;
        }
    }

    /// What came. A line that was pulled out has an end.
    fn take(&mut self) -> io::Result<()> {
        let mut buffer = [0; 256];
        loop {
            match self.line.read(&mut buffer) {
                Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it was pulled out")),
                Ok(count) => self.reader.push(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn wait(&self, what: PollFlags, patience: Duration) -> io::Result<bool> {
        Ok(!readable(&self.line, what, patience)?.is_empty())
    }
}

/// Waits until this can be read or written, or so long.
pub(super) fn readable(
    what: impl std::os::fd::AsFd,
    flags: PollFlags,
    patience: Duration,
) -> io::Result<PollFlags> {
    let timeout = Timespec { tv_sec: 0, tv_nsec: patience.as_nanos().min(999_999_999) as _ };
    let mut fds = [PollFd::new(&what, flags)];
    retry_on_intr(|| poll(&mut fds, Some(&timeout)))?;
    Ok(fds[0].revents())
}

/// Now, and that much later.
pub(super) fn after(patience: Duration) -> Time {
    Clock::since_boot() + patience
}
