//! Who watches the robot's process from outside: systemd, and a watchdog of the machine. Both are fed only while the session
//! really turns, so that a process that hangs is ended, and a machine that hangs starts anew.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;

use rustix::fs::OFlags;
use taut_core::Duration;

/// How often a watchdog(4) is fed: those that wait least wait a second.
const FEED: Duration = Duration::from_millis(250);
/// systemd is told so many times in its `WATCHDOG_USEC`: this host may be late.
const OFTEN: u64 = 4;

/// All that watch this process.
#[derive(Debug, Default)]
pub(crate) struct Watchdogs {
    systemd: Option<Systemd>,
    device: Option<File>,
    /// How often they are fed; `None`: they only hear of the start and the end.
    period: Option<Duration>,
    /// From now on it is a reason to act that they are not fed.
    is_watching: bool,
}

impl Watchdogs {
    /// Those that `variable` of the environment names (sd_notify(3), sd_watchdog_enabled(3)) for the process `pid`, and
    /// the device (watchdog(4)), which is opened and with it armed.
    pub(crate) fn open(
        variable: impl Fn(&str) -> Option<String>,
        pid: u32,
        device: Option<&Path>,
    ) -> Result<Self, String> {
        let systemd = match variable("NOTIFY_SOCKET").map(|name| Systemd::at(&name)) {
            // Whoever starts taut is wrong about it; that is no reason not to start.
            Some(Err(error)) => {
                crate::say(&format!("goes on without telling NOTIFY_SOCKET: {error}"));
                None
            }
            other => other.and_then(Result::ok),
        };
        let is_meant = variable("WATCHDOG_PID").is_none_or(|meant| meant.parse() == Ok(pid));
        let limit = variable("WATCHDOG_USEC").and_then(|text| text.parse::<u64>().ok());
        let limit = limit.filter(|micros| *micros > 0 && is_meant && systemd.is_some());
        let told = limit.map(|micros| Duration::from_micros((micros / OFTEN).max(1)));
        let device = device.map(open_device).transpose()?;
        let fed = device.as_ref().map(|_| FEED);
        let period = [told, fed].into_iter().flatten().min();
        Ok(Self { systemd, device, period, is_watching: false })
    }

    /// The session runs: says so, and feeds them for as long as `turns` goes on.
    pub(crate) fn start(mut self, turns: impl Fn() -> u64 + Send + 'static) -> Result<Watching, String> {
        self.tell("READY=1");
        let Some(period) = self.period else { return Ok(Watching { end: None, idle: Some(self) }) };
        let period = std::time::Duration::from(period);
        let (end, ends) = sync_channel::<()>(1);
        let work = move || {
            self.is_watching = true;
            let mut pulse = Pulse::default();
            loop {
                if pulse.beats(turns()) {
                    self.feed();
                }
                match ends.recv_timeout(period) {
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => return self,
                }
            }
        };
        let thread = std::thread::Builder::new().name("taut watchdog".to_owned()).spawn(work);
        let thread = thread.map_err(|error| format!("a thread: {error}"))?;
        Ok(Watching { end: Some((end, thread)), idle: None })
    }

    fn tell(&self, what: &str) {
        if let Some(systemd) = &self.systemd {
            systemd.tell(what);
        }
    }

    fn feed(&mut self) {
        self.tell("WATCHDOG=1");
        if let Some(device) = &mut self.device {
            let _ = device.write(b"\0"); // A device that fails is as good as one that was not fed: it acts.
        }
    }
}

/// Watchdogs that are fed. Where it is only dropped, they are not told that all is well.
#[derive(Debug)]
pub(crate) struct Watching {
    end: Option<(SyncSender<()>, JoinHandle<Watchdogs>)>,
    idle: Option<Watchdogs>,
}

impl Watching {
    /// The session has ended well: nobody needs to act.
    pub(crate) fn end(self) {
        let fed = self.end.and_then(|(end, thread)| {
            drop(end);
            thread.join().ok()
        });
        let Some(mut watchdogs) = self.idle.or(fed) else { return };
        watchdogs.tell("STOPPING=1");
        watchdogs.is_watching = false;
    }
}

impl Drop for Watchdogs {
    /// Nothing has begun, or all has ended well.
    fn drop(&mut self) {
        if let Some(device) = self.device.as_mut().filter(|_| !self.is_watching) {
            let _ = device.write(b"V"); // "Magic close": the kernel disarms the watchdog.
        }
    }
}

/// Does the session go on?
#[derive(Debug, Default)]
struct Pulse(Option<u64>);

impl Pulse {
    fn beats(&mut self, turns: u64) -> bool {
        self.0.replace(turns) != Some(turns)
    }
}

/// The service manager, as sd_notify(3) reaches it.
#[derive(Debug)]
struct Systemd {
    socket: UnixDatagram,
    address: SocketAddr,
}

impl Systemd {
    /// A path, or the name of an abstract socket (unix(7)) after `@`.
    fn at(name: &str) -> io::Result<Self> {
        let address = match name.strip_prefix('@') {
            Some(name) => SocketAddr::from_abstract_name(name)?,
            None if name.starts_with('/') => SocketAddr::from_pathname(name)?,
            None => return Err(io::Error::other("neither a path from / nor @ and a name")),
        };
        let socket = UnixDatagram::unbound()?;
        // Whoever does not read does not hold us up.
        socket.set_nonblocking(true)?;
        Ok(Self { socket, address })
    }

    fn tell(&self, what: &str) {
        let _ = self.socket.send_to_addr(what.as_bytes(), &self.address); // It notices when it hears nothing.
    }
}

/// Could it be opened? To open it arms it.
///
/// # Errors
/// One line: why not.
pub(crate) fn check(path: &Path) -> Result<(), String> {
    let may_write = rustix::fs::access(path, rustix::fs::Access::WRITE_OK);
    may_write.map_err(|error| not_opened(path, error.into()))
}

fn not_opened(path: &Path, error: io::Error) -> String {
    format!("--watchdog-device {}: {error}", path.display())
}

fn open_device(path: &Path) -> Result<File, String> {
    let mut options = OpenOptions::new();
    // A pipe that nobody reads is refused, not waited for; a full one does not hold us up.
    let options = options.write(true).custom_flags(OFlags::NONBLOCK.bits() as i32);
    options.open(path).map_err(|error| not_opened(path, error))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// A service manager that listens at an abstract name.
    fn manager(name: &str) -> (UnixDatagram, impl Fn(&str) -> Option<String>) {
        let name = format!("taut-test-{name}-{}", std::process::id());
        let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        socket.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
        let variable = move |asked: &str| match asked {
            "NOTIFY_SOCKET" => Some(format!("@{name}")),
            "WATCHDOG_USEC" => Some("20000".to_owned()),
            "WATCHDOG_PID" => Some("7".to_owned()),
            _ => None,
        };
        (socket, variable)
    }

    fn heard(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 64];
        let count = socket.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..count].to_vec()).unwrap()
    }

    #[test]
    fn a_session_that_turns_feeds_the_service_manager_and_one_that_hangs_does_not() {
        let (socket, variable) = manager("feeds");
        let turns = Arc::new(AtomicU64::new(0));
        let turned = Arc::clone(&turns);
        let watchdogs = Watchdogs::open(variable, 7, None).unwrap();
        assert_eq!(watchdogs.period, Some(Duration::from_millis(5)));
        let watching = watchdogs.start(move || turned.load(Ordering::Relaxed)).unwrap();
        assert_eq!((heard(&socket), heard(&socket)), ("READY=1".to_owned(), "WATCHDOG=1".to_owned()));
        turns.store(1, Ordering::Relaxed);
        assert_eq!(heard(&socket), "WATCHDOG=1");
        // It hangs now: fifty more looks bring nothing.
        std::thread::park_timeout(std::time::Duration::from_millis(250));
        watching.end();
        assert_eq!(heard(&socket), "STOPPING=1");
    }

    #[test]
    fn a_watchdog_of_another_process_is_not_fed() {
        let (socket, variable) = manager("other");
        let watching = Watchdogs::open(variable, 8, None).unwrap().start(|| 0).unwrap();
        watching.end();
        assert_eq!((heard(&socket), heard(&socket)), ("READY=1".to_owned(), "STOPPING=1".to_owned()));
    }

    #[test]
    fn a_socket_that_cannot_be_one_is_gone_on_without() {
        let variable = |asked: &str| (asked == "NOTIFY_SOCKET").then(|| "relative".to_owned());
        assert!(Watchdogs::open(variable, 7, None).unwrap().systemd.is_none());
    }

    #[test]
    fn a_device_acts_where_a_session_is_left_and_not_where_none_began() {
        let path = std::env::temp_dir().join(format!("taut-watchdog-{}", std::process::id()));
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        let reader = OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(&path);
        let mut reader = reader.unwrap();
        let mut told = || {
            let mut all = Vec::new();
            io::Read::read_to_end(&mut reader, &mut all).unwrap();
            all.last().copied()
        };
        drop(Watchdogs::open(|_| None, 7, Some(&path)).unwrap());
        assert_eq!(told(), Some(b'V'), "what failed before the session began is no reason");
        let begin = || Watchdogs::open(|_| None, 7, Some(&path)).unwrap().start(|| 0).unwrap();
        begin().end();
        assert_eq!(told(), Some(b'V'), "it ended well");
        let Watching { end: Some((end, thread)), .. } = begin() else { panic!("it is fed") };
        drop(end);
        drop(thread.join().unwrap());
        assert_eq!(told(), Some(b'\0'));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_device_that_cannot_be_opened_is_said() {
        let error = Watchdogs::open(|_| None, 7, Some(Path::new("/nonexistent"))).unwrap_err();
        assert!(error.starts_with("--watchdog-device /nonexistent: "), "{error}");
    }
}
