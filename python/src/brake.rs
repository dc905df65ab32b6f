//! A stop that needs no Python: bytes that are written when a robot stops.

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Result, Write};
use std::net::UdpSocket;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::Thread;
use std::time::Duration;

use rustix::fs::OFlags;

/// A datagram is sent so often, for one may be lost.
const TIMES: u32 = 10;
/// So long after each other; what a file does not take is tried again as often.
const PERIOD: Duration = Duration::from_millis(20);

/// Bytes and where they go. Writing does not wait: what is not taken at once, a thread of its own tries again.
pub(crate) struct Brake {
    shared: Arc<Shared>,
    repeats: Thread,
}

struct Shared {
    name: String,
    bytes: Vec<u8>,
    line: Mutex<Line>,
    /// Nothing more is to be written.
    done: Condvar,
    pulls: AtomicU64,
    /// So many of them were let go.
    let_go: AtomicU64,
    ended: AtomicBool,
    /// Why they were not taken when it was pulled last, until somebody tells it.
    failure: Mutex<Option<Error>>,
}

struct Line {
    to: To,
    /// Pulls that were heard.
    pulls: u64,
    /// To be written so often.
    times: u32,
    /// Bytes of the one that was begun which are not written yet.
    rest: usize,
}

enum To {
    /// `None`: what was open failed, and could not be opened again.
    File(Option<File>),
    Udp(UdpSocket),
}

impl Brake {
    /// `name` is `udp:HOST:PORT`, or a file that can be written: a serial line, a FIFO, `/dev/fd/N`.
    ///
    /// # Errors
    /// When it cannot be opened, or the system has no thread left.
    pub(crate) fn open(name: &str, bytes: Vec<u8>) -> Result<Self> {
        let to = match name.strip_prefix("udp:") {
            Some(address) => {
                let any = if address.starts_with('[') { "[::]:0" } else { "0.0.0.0:0" };
                let socket = UdpSocket::bind(any)?;
                socket.connect(address)?;
                socket.set_nonblocking(true)?;
                To::Udp(socket)
            }
            None => To::File(Some(open(name)?)),
        };
        let shared = Arc::new(Shared {
            name: name.to_owned(),
            bytes,
            line: Mutex::new(Line { to, pulls: 0, times: 0, rest: 0 }),
            done: Condvar::new(),
            pulls: AtomicU64::new(0),
            let_go: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            failure: Mutex::default(),
        });
        let own = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("taut brake".to_owned()).spawn(move || own.repeat())?;
        Ok(Self { shared, repeats: thread.thread().clone() })
    }

    pub(crate) fn pull(&self) {
        self.shared.pulls.fetch_add(1, Ordering::SeqCst);
        match self.shared.line.try_lock() {
            Ok(line) => _ = self.shared.write(line),
            Err(TryLockError::Poisoned(line)) => _ = self.shared.write(line.into_inner()),
            Err(TryLockError::WouldBlock) => {} // Another thread is at it.
        }
        self.repeats.unpark();
    }

    /// How often it was pulled.
    pub(crate) fn pulls(&self) -> u64 {
        self.shared.pulls.load(Ordering::SeqCst)
    }

    /// What was stopped by so many pulls may move again: nothing is repeated any more, but what was begun is finished. Says nothing of a pull since.
    pub(crate) fn let_go(&self, pulls: u64) {
        self.shared.let_go.store(pulls, Ordering::SeqCst);
    }

    /// Waits until nothing more is to be written, but no longer than all of it takes where it is taken.
    pub(crate) fn wait(&self) {
        let waits = |line: &mut Line| line.waits() || line.pulls != self.pulls();
        let _ = self.shared.done.wait_timeout_while(self.shared.line(), TIMES * PERIOD, waits);
    }

    /// Why the bytes were not taken when it was pulled, once.
    pub(crate) fn failure(&self) -> Option<String> {
        let failure = self.shared.failure().take();
        failure.map(|error| format!("the brake {}: {error}", self.shared.name))
    }
}

impl Drop for Brake {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        self.repeats.unpark();
    }
}

impl Shared {
    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failure(&self) -> MutexGuard<'_, Option<Error>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until nothing more is to be said after the end, or nobody takes that.
    fn repeat(&self) {
        let mut last = TIMES;
        while last > 0 {
            let waits = self.write(self.line());
            if self.ended.load(Ordering::SeqCst) {
                last = if waits { last - 1 } else { 0 };
            }
            match waits {
                _ if last == 0 => {}
                true => std::thread::park_timeout(PERIOD),
                false => std::thread::park(),
            }
        }
    }

    /// Writes what is to be written, as far as it is taken. Is there more?
    fn write(&self, mut line: MutexGuard<'_, Line>) -> bool {
        let pulls = self.pulls.load(Ordering::SeqCst);
        let is_let_go = self.let_go.load(Ordering::SeqCst) == pulls;
        let is_pulled = std::mem::replace(&mut line.pulls, pulls) != pulls;
        if is_let_go || is_pulled {
            let times = if matches!(line.to, To::Udp(_)) { TIMES } else { 1 };
            line.times = if is_let_go { 0 } else { times };
            // One of which nothing was taken waits no more.
            line.rest %= self.bytes.len().max(1);
        }
        let taken = line.write(&self.name, &self.bytes);
        if is_pulled || taken.is_ok() {
            *self.failure() = taken.err();
        }
        if !line.waits() {
            self.done.notify_all();
        }
        line.waits()
    }
}

impl Line {
    fn waits(&self) -> bool {
        self.times > 0 || self.rest > 0
    }

    fn write(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        while self.rest > 0 || self.times > 0 {
            if self.rest == 0 {
                (self.rest, self.times) = (bytes.len(), self.times - 1);
            }
            match &mut self.to {
                To::Udp(socket) => {
                    // The error is mostly that of the datagram before, for which nobody was there: it is told once, in place of sending this one.
                    socket.send(bytes).or_else(|_| socket.send(bytes))?;
                    self.rest = 0;
                    return Ok(()); // The others follow.
                }
                To::File(file) => write(file, name, bytes, &mut self.rest)?,
            }
        }
        Ok(())
    }
}

/// A device that was unplugged fails for good, and is another file when it is plugged in again: there it begins anew. It is closed first: while it is open, the name that
/// it had is not given to another.
fn write(file: &mut Option<File>, name: &str, bytes: &[u8], rest: &mut usize) -> Result<()> {
    let taken = match file.as_mut().map(|file| file.write(&bytes[bytes.len() - *rest..])) {
        // A descriptor by its number may be another file's by then.
        Some(Err(error)) if error.kind() != ErrorKind::WouldBlock && !name.contains("/fd/") => {
            *file = None;
            None
        }
        taken => taken,
    };
    let taken = match taken {
        Some(taken) => taken,
        None => {
            *rest = bytes.len();
            file.insert(open(name)?).write(bytes)
        }
    };
    match taken? {
        0 => Err(ErrorKind::WriteZero.into()),
        taken => {
            *rest -= taken;
            Ok(())
        }
    }
}

fn open(path: &str) -> Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    OpenOptions::new().append(true).custom_flags(flags).open(path)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn a_datagram_is_sent_after_one_that_nobody_was_there_for() {
        let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let brake = Brake::open(&format!("udp:{free}"), b"stop".to_vec()).unwrap();
        brake.pull();
        std::thread::park_timeout(Duration::from_millis(50));
        let listener = UdpSocket::bind(free).unwrap();
        listener.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        brake.pull();
        let mut bytes = [0; 64];
        assert_eq!(listener.recv(&mut bytes).unwrap(), 4);
        assert_eq!((&bytes[..4], brake.failure()), (&b"stop"[..], None));
    }

    #[test]
    fn a_device_that_is_plugged_in_again_is_opened_again_and_one_that_is_missing_is_told() {
        let folder = std::env::temp_dir().join(format!("taut-brake-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let (device, file) = (folder.join("device"), folder.join("file"));
        std::os::unix::fs::symlink("/dev/full", &device).unwrap();
        let brake = Brake::open(device.to_str().unwrap(), b"stop".to_vec()).unwrap();
        let until = |is: &dyn Fn() -> bool| {
            let mut waits = std::iter::repeat_n(PERIOD / 4, 2_000);
            while !is() {
                std::thread::park_timeout(waits.next().expect("it comes to be so"));
            }
        };
        let full = format!("the brake {}: ", device.display());
        brake.pull();
        until(&|| brake.failure().is_some_and(|why| why.starts_with(&full)));
        std::thread::park_timeout(2 * PERIOD);
        assert_eq!(brake.failure(), None, "it is told once");
        std::fs::remove_file(&device).unwrap();
        brake.pull();
        until(&|| brake.failure().is_some());
        std::fs::write(&file, b"").unwrap();
        std::os::unix::fs::symlink(&file, &device).unwrap();
        // It is tried again without another pull.
        until(&|| std::fs::read(&file).unwrap() == b"stop");
        brake.pull();
        until(&|| std::fs::read(&file).unwrap() == b"stopstop");
        assert_eq!(brake.failure(), None);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    /// A FIFO whose reader has left room for so many bytes, a brake on it, and what comes within 100 ms of its being read after this was done to it.
    fn full(room: usize, stops: impl FnOnce(&Brake)) -> Vec<u8> {
        let path = std::env::temp_dir().join(format!("taut-brake-{:?}-{room}", std::thread::current().id()));
        let (fifo, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
        rustix::fs::mknodat(rustix::fs::CWD, &path, fifo, mode, 0).unwrap();
        let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
        let mut end =
            OpenOptions::new().read(true).write(true).custom_flags(nonblocking).open(&path).unwrap();
        let mut before = 0;
        for chunk in [4_096, 1] {
            while let Ok(taken) = end.write(&vec![0; chunk]) {
                before += taken;
            }
        }
        // A FIFO takes what is no longer than a page whole or not at all.
        let mut bytes = vec![1; 3 * 4_096];
        bytes.push(2);
        let brake = Brake::open(path.to_str().unwrap(), bytes).unwrap();
        let mut read = vec![0; room];
        end.read_exact(&mut read).unwrap();
        stops(&brake);
        let mut all = Vec::new();
        for _ in 0..500 {
            let mut some = [0; 65_536];
            if let Ok(count) = end.read(&mut some) {
                all.extend_from_slice(&some[..count]);
            }
            if all.last() == Some(&2) {
                break;
            }
            std::thread::park_timeout(Duration::from_millis(10));
        }
        std::fs::remove_file(&path).unwrap();
        all.split_off(before - room)
    }

    #[test]
    fn what_a_full_line_did_not_take_is_written_when_it_does_and_a_short_write_is_finished() {
        for room in [0, 8_192] {
            let taken = full(room, Brake::pull);
            assert_eq!((taken.len(), taken.last()), (3 * 4_096 + 1, Some(&2)), "room for {room}");
        }
    }

    #[test]
    fn a_pull_that_comes_while_another_is_let_go_is_written_when_a_full_line_takes_it() {
        let taken = full(0, |brake| {
            brake.pull();
            let pulls = brake.pulls();
            brake.pull();
            brake.let_go(pulls);
        });
        assert_eq!((taken.len(), taken.last()), (3 * 4_096 + 1, Some(&2)));
    }

    #[test]
    fn a_datagram_is_repeated_for_one_may_be_lost_and_no_more_when_it_is_let_go() {
        let listener = UdpSocket::bind("127.0.0.1:0").unwrap();
        listener.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let brake =
            Brake::open(&format!("udp:{}", listener.local_addr().unwrap()), b"stop".to_vec()).unwrap();
        brake.pull();
        let mut bytes = [0; 64];
        for _ in 0..3 {
            assert_eq!(listener.recv(&mut bytes).unwrap(), 4);
        }
        brake.let_go(brake.pulls());
        // Another may be under way.
        drop(brake.shared.line());
        listener.set_nonblocking(true).unwrap();
        let mut left =
            || std::iter::repeat_with(|| listener.recv(&mut bytes)).take_while(Result::is_ok).count();
        assert!(left() <= TIMES as usize - 3);
        std::thread::park_timeout(5 * PERIOD);
        assert_eq!(left(), 0);
    }

    #[test]
    fn the_last_pull_is_repeated_before_its_end_and_a_line_that_takes_nothing_is_not_waited_for() {
        let listener = UdpSocket::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let brake =
            Brake::open(&format!("udp:{}", listener.local_addr().unwrap()), b"stop".to_vec()).unwrap();
        brake.wait();
        brake.pull();
        brake.wait();
        let sent = std::iter::repeat_with(|| listener.recv(&mut [0; 64])).take_while(Result::is_ok).count();
        assert!(sent > TIMES as usize / 3, "{sent} were sent");
        let full = Brake::open("/dev/full", b"stop".to_vec()).unwrap();
        full.pull();
        full.wait();
    }
}
