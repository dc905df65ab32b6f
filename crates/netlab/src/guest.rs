//! A Linux kernel of one's own, in virtual time: User Mode Linux as a child process.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, set_parent_process_death_signal};
use taut_core::Duration;

use crate::namespace::{is_stale, owned};

/// A kernel that runs as a process, and whose clock jumps to the next timer whenever nothing can run; computing takes no
/// time at all. What runs in it has the host's file tree, read-only, root's rights, network namespaces of its own, and a
/// clock that knows nothing of the host: neither how fast that is nor what else it does.
///
/// Whoever polls without sleeping stops that clock for ever: no [`early`](taut_io::DriverConfig::early), no
/// [`busy_poll`](taut_io::DriverConfig::busy_poll).
///
/// ```no_run
/// use std::path::Path;
/// use taut_core::Duration;
/// use taut_netlab::Guest;
/// let guest = Guest::find(None)?;
/// guest.run("sleep 3600; uname -r > /run/out/release", Path::new("out"), Duration::from_secs(60))?;
/// # Ok::<(), taut_netlab::GuestError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Guest {
    kernel: PathBuf,
}

/// A guest that is not there, or did not do what it was told.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// There is no such kernel.
    #[error(
        "{0}: there is no kernel there: `make oracle`, in taut's source, builds one as target/oracle/linux (Debian 12 on \
         x86_64); name it by TAUT_KERNEL where it is elsewhere"
    )]
    NoKernel(PathBuf),
    /// The kernel did not come up, or died.
    #[error("the kernel died: {0}")]
    Died(String),
    /// What ran in it failed.
    #[error("in the guest: {0}")]
    Failed(String),
    /// It was not done in time.
    #[error("the guest was not done after {0} of the host's time")]
    Late(Duration),
    /// It was told to end.
    #[error("stopped")]
    Stopped,
    /// The host refused.
    #[error("{what}: {error}")]
    Refused {
        /// What was asked of it.
        what: &'static str,
        /// What it said.
        error: io::Error,
    },
}

impl GuestError {
    fn refused(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Refused { what, error }
    }
}

/// Where `make oracle` puts it, in the working directory or one above.
const PLACE: &str = "target/oracle/linux";

/// The first process. `OUT` and `JOB` come from the kernel's command line.
const INIT: &str = r#"#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin TMPDIR=/run
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs run /run
mkdir -p /run/out /run/netns
mount -t hostfs -o "$OUT" out /run/out
sh -eu "$JOB" > /run/out/log 2>&1
echo $? > /run/out/status
exec busybox poweroff -f
"#;

impl Guest {
    /// The kernel at `named`, at `$TAUT_KERNEL`, or at `target/oracle/linux` in the working directory or one above, in this
    /// order.
    ///
    /// # Errors
    /// [`GuestError::NoKernel`].
    pub fn find(named: Option<&Path>) -> Result<Self, GuestError> {
        let named = named.map(Path::to_owned).or_else(|| std::env::var_os("TAUT_KERNEL").map(PathBuf::from));
        if let Some(kernel) = named {
            return if kernel.is_file() { Ok(Self { kernel }) } else { Err(GuestError::NoKernel(kernel)) };
        }
        let here = std::env::current_dir().map_err(GuestError::refused("the working directory"))?;
        let found = here.ancestors().map(|folder| folder.join(PLACE)).find(|path| path.is_file());
        found.map(|kernel| Self { kernel }).ok_or_else(|| GuestError::NoKernel(here.join(PLACE)))
    }

    /// Boots it, runs `script` by `sh -eu` in it, and waits, `patience` of the host's time at most. The script writes to
    /// `/run/out`, which is the host's folder `out`.
    ///
    /// # Errors
    /// When the kernel dies, the script fails or takes too long.
    pub fn run(&self, script: &str, out: &Path, patience: Duration) -> Result<(), GuestError> {
        self.start(script, out, patience, None)
    }

    /// The same, until `stop` can be read: then the kernel is ended, and nothing of it is left behind.
    ///
    /// # Errors
    /// As of [`run`](Self::run), and [`GuestError::Stopped`].
    pub fn run_until(
        &self,
        script: &str,
        out: &Path,
        patience: Duration,
        stop: BorrowedFd<'_>,
    ) -> Result<(), GuestError> {
        self.start(script, out, patience, Some(stop))
    }

    fn start(
        &self,
        script: &str,
        out: &Path,
        patience: Duration,
        stop: Option<BorrowedFd<'_>>,
    ) -> Result<(), GuestError> {
        let out = out.canonicalize().map_err(GuestError::refused("the folder for what the guest writes"))?;
        // The guest's memory is a file; it is fast only where files are memory.
        let place = Some(Path::new("/dev/shm"))
            .filter(|shm| shm.is_dir())
            .map_or_else(std::env::temp_dir, Path::to_owned);
        let own = Scratch::new(&place, "taut-guest")?;
        let (init, job) = (own.0.join("init"), own.0.join("job"));
        own.write(&init, INIT)?;
        own.write(&job, script)?;
        let _ = fs::remove_file(out.join("status"));
        let console =
            fs::File::create(out.join("console")).map_err(GuestError::refused("the guest's console"))?;
        let errors = console.try_clone().map_err(GuestError::refused("the guest's console"))?;
        let word = |name: &str, path: &Path| {
            let mut word = OsString::from(name);
            word.push(path);
            word
        };
        let mut command = Command::new(&self.kernel);
        command
            .args([
                "mem=384M",
                "rootfstype=hostfs",
                "rootflags=/",
                "ro",
                "con=null",
                "con0=fd:0,fd:1",
                "quiet",
            ])
            .args(["time-travel=inf-cpu", "random.trust_bootloader=on"])
            .arg(word("init=", &init))
            .arg(word("uml_dir=", &own.0.join("")))
            .arg(word("JOB=", &job))
            .arg(word("OUT=", &out))
            .env("TMPDIR", &own.0)
            // What the terminal sends is for its owner.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(console)
            .stderr(errors);
        end_with_this_thread(&mut command);
        let mut child = Running(command.spawn().map_err(GuestError::refused("starting the kernel"))?);
        child.wait(patience, stop)?;
        let Ok(status) = fs::read_to_string(out.join("status")) else {
            return Err(GuestError::Died(last_line(&out.join("console"))));
        };
        if status.trim() == "0" { Ok(()) } else { Err(GuestError::Failed(last_line(&out.join("log")))) }
    }
}

/// What somebody wants to know who reads no more than one line.
fn last_line(path: &Path) -> String {
    let text = fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let last = text.lines().rev().find(|line| !line.trim().is_empty());
    format!("{} ({})", last.unwrap_or("it said nothing").trim(), path.display())
}

/// The child is told to end when this thread does, which waits for it: also by a `SIGKILL`, after which nobody here can tell it.
#[allow(unsafe_code)]
fn end_with_this_thread(command: &mut Command) {
    let told = || set_parent_process_death_signal(Some(Signal::TERM)).map_err(io::Error::from);
    // SAFETY: between fork and exec it makes one system call (prctl(2), PR_SET_PDEATHSIG), and allocates nothing.
    unsafe { command.pre_exec(told) };
}

/// A folder that goes with its value. What a `SIGKILL` left of one, the next of the same prefix removes.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// A new one in `place`, called `PREFIX-PID-START-NUMBER`.
    ///
    /// # Errors
    /// [`GuestError::Refused`] when it cannot be made.
    pub fn new(place: &Path, prefix: &str) -> Result<Self, GuestError> {
        let there = fs::read_dir(place).into_iter().flatten().flatten();
        for stale in there.filter(|entry| is_stale(&entry.file_name(), prefix)) {
            let _ = fs::remove_dir_all(stale.path()); // Another user's stays.
        }
        for number in 0.. {
            let path = place.join(format!("{}-{number}", owned(prefix)));
            match fs::create_dir(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => {
                    return made.map(|()| Self(path)).map_err(GuestError::refused("a folder for the guest"));
                }
            }
        }
        unreachable!("there are more numbers than folders")
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    fn write(&self, path: &Path, text: &str) -> Result<(), GuestError> {
        use std::os::unix::fs::PermissionsExt;
        let written =
            fs::write(path, text).and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(0o755)));
        written.map_err(GuestError::refused("what the guest is told"))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0); // Whoever looks finds by the process's number what is left.
    }
}

/// A child that does not outlive its value.
struct Running(Child);

impl Running {
    fn wait(&mut self, patience: Duration, stop: Option<BorrowedFd<'_>>) -> Result<(), GuestError> {
        let pid = Pid::from_child(&self.0);
        let handle = pidfd_open(pid, PidfdFlags::empty()).map_err(io::Error::from);
        let handle = handle.map_err(GuestError::refused("waiting for the kernel"))?;
        let limit = Timespec { tv_sec: (patience.as_nanos() / 1_000_000_000) as i64, tv_nsec: 0 };
        let fds = [Some(handle.as_fd()), stop].into_iter().flatten();
        let mut fds: Vec<_> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        match retry_on_intr(|| poll(&mut fds, Some(&limit))) {
            Ok(0) => Err(GuestError::Late(patience)),
            Ok(_) if fds[0].revents().is_empty() => Err(GuestError::Stopped),
            Ok(_) => self.0.wait().map(drop).map_err(GuestError::refused("waiting for the kernel")),
            Err(error) => Err(GuestError::refused("waiting for the kernel")(error.into())),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            // It ends its own processes first.
            let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
            let _ = self.0.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_there_is_no_kernel_the_error_says_how_to_get_one() {
        let error = Guest::find(Some(Path::new("/nowhere/linux"))).unwrap_err().to_string();
        assert!(error.starts_with("/nowhere/linux: ") && error.contains("`make oracle`"), "{error}");
    }

    const KILLED: &str = "TAUT_TEST_KILLED";

    /// The process that is killed: it runs what the folder has for a kernel.
    #[test]
    #[ignore = "the other side of `a_kernel_does_not_outlive_a_process_that_is_killed`"]
    fn a_process_that_is_killed() {
        let Some(place) = std::env::var_os(KILLED).map(PathBuf::from) else { return };
        let guest = Guest { kernel: place.join("kernel") };
        let _ = guest.run("", &place, Duration::from_secs(60));
    }

    #[test]
    fn a_kernel_does_not_outlive_a_process_that_is_killed() {
        let own = Scratch::new(&std::env::temp_dir(), "taut-guest-killed").unwrap();
        let (kernel, pid) = (own.0.join("kernel"), own.0.join("pid"));
        let script = format!("#!/bin/sh\necho $$ > {0}.new\nmv {0}.new {0}\nexec sleep 60\n", pid.display());
        own.write(&kernel, &script).unwrap();
        let until = |what: &str, done: &dyn Fn() -> bool| {
            let mut tries = 0;
            while !done() {
                tries += 1;
                assert!(tries < 400, "{what}");
                std::thread::park_timeout(std::time::Duration::from_millis(25));
            }
        };
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "guest::tests::a_process_that_is_killed"])
            .env(KILLED, &own.0)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        until("it did not start", &|| pid.exists());
        process.kill().unwrap();
        process.wait().unwrap();
        let pid = fs::read_to_string(pid).unwrap();
        let state = || fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        // One that has ended may still wait to be asked how.
        until("it lives on", &|| state().is_empty() || state().contains(") Z "));
    }

    #[test]
    fn a_folder_whose_process_is_gone_goes_with_the_next() {
        let own = Scratch::new(&std::env::temp_dir(), "taut-guest-stale").unwrap();
        let gone = own.0.join("folder-4194304000-1-0");
        fs::create_dir(&gone).unwrap();
        let first = Scratch::new(&own.0, "folder").unwrap();
        assert!(!gone.exists());
        let second = Scratch::new(&own.0, "folder").unwrap();
        assert!(first.path().exists() && second.path().exists() && first.path() != second.path());
    }

    #[test]
    fn an_hour_passes_in_a_moment_and_a_failure_is_told() {
        let guest = match Guest::find(None) {
            Err(error) => return println!("skipped: {error}"),
            Ok(guest) => guest,
        };
        let own = Scratch::new(&std::env::temp_dir(), "taut-guest-test").unwrap();
        let out = own.0.clone();
        let patience = Duration::from_secs(120);
        let hour = "before=$(cut -d. -f1 /proc/uptime); sleep 3600; after=$(cut -d. -f1 /proc/uptime); \
                    echo $((after - before)) > /run/out/hour; head -c 8 /dev/random | wc -c >> /run/out/hour";
        match guest.run(hour, &out, patience) {
            Err(GuestError::Died(why)) => return println!("skipped: {why}"),
            done => done.unwrap(),
        }
        let told = fs::read_to_string(out.join("hour")).unwrap();
        let told: Vec<u64> = told.lines().map(|line| line.parse().unwrap()).collect();
        assert!((3600..=3601).contains(&told[0]) && told[1] == 8, "{told:?}");
        let error = guest.run("echo no such thing >&2; exit 3", &out, patience).unwrap_err().to_string();
        assert!(error.contains("no such thing"), "{error}");
    }
}
