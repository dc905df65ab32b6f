//! A stop that needs no Python: bytes that are written when a robot stops.

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Result, Write};
use std::net::UdpSocket;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::{Mutex, PoisonError, TryLockError};

use rustix::fs::OFlags;

/// Bytes and where they go. Writing does not wait: what is not taken at once is lost, and the next stop writes again.
pub(crate) struct Brake {
    name: String,
    to: To,
    bytes: Vec<u8>,
    /// Why they were not taken when it was pulled last, until somebody tells it.
    failure: Mutex<Option<Error>>,
}

enum To {
    /// `None`: what was open failed, and could not be opened again.
    File(Mutex<Option<File>>),
    Udp(UdpSocket),
}

impl Brake {
    /// `name` is `udp:HOST:PORT`, or a file that can be written: a serial line, a FIFO, `/dev/fd/N`.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub(crate) fn open(name: &str, bytes: Vec<u8>) -> Result<Self> {
        let to = match name.strip_prefix("udp:") {
            Some(address) => {
                let any = if address.starts_with('[') { "[::]:0" } else { "0.0.0.0:0" };
                let socket = UdpSocket::bind(any)?;
                socket.connect(address)?;
                socket.set_nonblocking(true)?;
                To::Udp(socket)
            }
            None => To::File(Mutex::new(Some(open(name)?))),
        };
        Ok(Self { name: name.to_owned(), to, bytes, failure: Mutex::default() })
    }

    pub(crate) fn pull(&self) {
        let taken = match &self.to {
            // The error is mostly that of the datagram before, for which nobody was there: it is told once, in place of sending this one.
            To::Udp(socket) => socket.send(&self.bytes).or_else(|_| socket.send(&self.bytes)),
            To::File(file) => match file.try_lock() {
                Ok(mut file) => self.write(&mut file),
                Err(TryLockError::Poisoned(file)) => self.write(&mut file.into_inner()),
                Err(TryLockError::WouldBlock) => return, // Another thread is at it.
            },
        };
        let failure = match taken {
            Ok(length) if length < self.bytes.len() => Some(ErrorKind::WriteZero.into()),
            taken => taken.err(),
        };
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
    }

    /// A device that was unplugged fails for good, and is another file when it is plugged in again. It is closed first: while it is open, the name that
    /// it had is not given to another.
    fn write(&self, file: &mut Option<File>) -> Result<usize> {
        match file.as_mut().map(|file| file.write(&self.bytes)) {
            // A descriptor by its number may be another file's by then.
            Some(Err(error)) if error.kind() != ErrorKind::WouldBlock && !self.name.contains("/fd/") => {
                *file = None
            }
            Some(taken) => return taken,
            None => {}
        }
        file.insert(open(&self.name)?).write(&self.bytes)
    }

    /// Why the bytes were not taken, once.
    pub(crate) fn failure(&self) -> Option<String> {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        failure.map(|error| format!("the brake {}: {error}", self.name))
    }
}

fn open(path: &str) -> Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    OpenOptions::new().append(true).custom_flags(flags).open(path)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
        brake.pull();
        assert!(brake.failure().unwrap().starts_with(&format!("the brake {}: ", device.display())));
        assert_eq!(brake.failure(), None, "it is told once");
        std::fs::remove_file(&device).unwrap();
        brake.pull();
        assert!(brake.failure().is_some(), "nothing is there");
        std::fs::write(&file, b"").unwrap();
        std::os::unix::fs::symlink(&file, &device).unwrap();
        brake.pull();
        assert_eq!((brake.failure(), std::fs::read(&file).unwrap()), (None, b"stop".to_vec()));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
