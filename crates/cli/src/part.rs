//! Processes of one command, such as the robot and the operator of `taut demo`: parts, which end with their owner, whatever ends it.

use std::fs::File;
use std::io::{self, stdin};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use clap::Args;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FlockOperation, Mode, OFlags, flock, fstat, open};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, PidfdFlags, Signal, geteuid, getpid, getppid, kill_process, pidfd_open};
use taut_core::{Duration, Time};
use taut_io::session::Endpoint;
use taut_io::{Clock, spawn_unprivileged};
use taut_session::StopCause;

use crate::paths::Paths;
use crate::{last_stop, terminal};

/// A process of this command. It is asked to end when this is dropped; and when this process is killed it ends by itself.
pub(crate) struct Part(pub(crate) Child);

impl Part {
    /// `taut` with these arguments, the first of which names a command that has [`PartOf`] among its own. With the terminal: it reads
    /// the keys, so that it gets the signals of the terminal as well, at the same time as this process. Another part gets none.
    pub(crate) fn start(
        arguments: &[&str],
        stdout: Stdio,
        stdin: Stdio,
        has_terminal: bool,
    ) -> Result<Self, String> {
        let taut = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new(taut);
        command.args(arguments).args(["--part-of", &std::process::id().to_string()]);
        command.stdout(stdout).stdin(stdin);
        if !has_terminal {
            command.process_group(0);
        }
        command.spawn().map(Self).map_err(|error| format!("taut {}: {error}", arguments[0]))
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }

    pub(crate) fn end(&mut self) {
        // The number of one that was waited for may be another's.
        if matches!(self.0.try_wait(), Ok(None)) {
            let _ = kill_process(self.pid(), Signal::TERM);
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.end();
        let _ = self.0.wait();
    }
}

/// A folder that a command and its parts have for themselves. The last of them that ends removes it, so that it does not outlive a command that is killed.
#[derive(Debug)]
pub(crate) struct SharedFolder {
    path: PathBuf,
    /// Locked while it is used.
    used: Option<File>,
}

impl SharedFolder {
    /// A new one.
    pub(crate) fn new(path: PathBuf) -> Result<Self, String> {
        std::fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Self::of(path)
    }

    /// That of a process's demonstration.
    pub(crate) fn path(owner: u32) -> PathBuf {
        std::env::temp_dir().join(format!("taut-demo-{owner}"))
    }

    /// One that is there. It is removed in the end, so that it has to be this user's own, and none that a link leads to.
    fn of(path: PathBuf) -> Result<Self, String> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let used = open(&path, flags, Mode::empty()).map_err(io::Error::from).and_then(|folder| {
            if fstat(&folder)?.st_uid != geteuid().as_raw() {
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, "another user's"));
            }
            flock(&folder, FlockOperation::NonBlockingLockShared)?;
            Ok(File::from(folder))
        });
        let used = used.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self { path, used: Some(used) })
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// As [`PartOf`] takes it.
    pub(crate) fn argument(&self) -> String {
        self.path.display().to_string()
    }
}

impl Drop for SharedFolder {
    fn drop(&mut self) {
        // Of several that end at once each gives up its own lock first, so that one of them finds no other.
        drop(self.used.take());
        let Ok(folder) = File::open(&self.path) else { return };
        if flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Says of a command that it is a part, and of which process.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct PartOf {
    /// The process that started this one as a part of itself
    #[arg(long, hide = true, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    part_of: Option<i32>,
    /// The folder that the parts of that process share
    #[arg(long, hide = true, value_name = "FOLDER", requires = "part_of")]
    part_folder: Option<PathBuf>,
    /// That process names transports on standard input, a line each: the session goes over the newest
    #[arg(long, hide = true, requires = "part_of")]
    part_switches: bool,
}

/// A part whose owner is gone ends in order within so long, which is more than a session's goodbye takes, or at once then.
const PATIENCE: Duration = Duration::from_secs(3);

impl PartOf {
    /// Whoever asks a part to end asks its owner as well, so that it may be asked twice by one wish.
    pub(crate) const fn is_part(&self) -> bool {
        self.part_of.is_some()
    }

    /// Held until everything is written, at the end of the process.
    pub(crate) fn folder(&self) -> Result<Option<SharedFolder>, String> {
        let Some(path) = self.part_folder.clone() else { return Ok(None) };
        // The last part removes it: no other folder is meant, whoever names it.
        let owner = self.part_of.and_then(|owner| u32::try_from(owner).ok());
        if owner.is_none_or(|owner| path != SharedFolder::path(owner)) {
            return Err(format!("--part-folder {}: not the folder of a demonstration", path.display()));
        }
        SharedFolder::of(path).map(Some)
    }

    /// Goes over each transport that the owner names, from this endpoint, with what has to be in time by such a deadline; `leave` ends the conversation that is.
    ///
    /// # Errors
    /// When the system has no thread for it.
    pub(crate) fn switches(
        &self,
        endpoint: Arc<Endpoint>,
        paths: &Paths,
        deadline: Duration,
        leave: impl Fn() -> bool + Send + 'static,
    ) -> Result<(), String> {
        if !self.part_switches {
            return Ok(());
        }
        let paths = paths.clone();
        let switch = move |name: &str| {
            let transport = paths.of_session(name.parse()?, deadline)?;
            endpoint.switch(transport).map_err(|error| error.to_string())?;
            leave();
            Ok(())
        };
        let work = move || {
            for name in stdin().lines().map_while(Result::ok) {
                switch(&name).unwrap_or_else(|why: String| crate::say(&why));
            }
        };
        let thread = spawn_unprivileged("taut transports", || (), work);
        thread.map(drop).map_err(|error| format!("a thread: {error}"))
    }

    /// From now on `SIGTERM` comes when the owner has ended, whatever ended it, and an end that nothing holds up a while later.
    ///
    /// # Errors
    /// When the owner cannot be watched.
    pub(crate) fn ends_with_owner(&self) -> io::Result<()> {
        let Some(owner) = self.part_of.and_then(Pid::from_raw) else { return Ok(()) };
        let watched = pidfd_open(owner, PidfdFlags::empty());
        // Its number may be another's by now; as long as it is the parent it is not.
        let watched = if getppid() == Some(owner) { Some(watched?) } else { None };
        let work = move || {
            if let Some(watched) = watched {
                // It is readable when the process has ended (pidfd_open(2)), and was not waited for too.
                let _ = retry_on_intr(|| poll(&mut [PollFd::new(&watched, PollFlags::IN)], None));
            }
            let _ = kill_process(getpid(), Signal::TERM);
            wait(PATIENCE);
            last_stop::stop(StopCause::Host);
            terminal::restore();
            std::process::exit(1);
        };
        spawn_unprivileged("taut owner", || (), work).map(drop)
    }
}

/// Parking may end early.
fn wait(patience: Duration) {
    let clock = Clock::start();
    while let left @ 1.. = patience.saturating_sub(clock.now() - Time::ZERO).as_nanos() {
        std::thread::park_timeout(std::time::Duration::from_nanos(left));
    }
}
