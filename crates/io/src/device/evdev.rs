//! Input devices of Linux (<https://docs.kernel.org/input/input.html>): their events, and the ranges of their axes.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::path::Path;

use nix::libc;

/// What happened on an input device: `struct input_event` without its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputEvent {
    /// `EV_KEY`, `EV_ABS` and so on.
    pub kind: u16,
    /// Which key or axis.
    pub code: u16,
    /// 1 pressed and 0 released, or where an axis is.
    pub value: i32,
}

/// Two machine words of time, and 8 bytes.
const EVENT: usize = 2 * size_of::<usize>() + 8;

/// Cuts bytes into events. Sans-IO.
#[derive(Clone, Debug, Default)]
pub struct EventSplitter(Vec<u8>);

impl EventSplitter {
    /// Takes bytes, and gives every event that they complete.
    pub fn take(&mut self, bytes: &[u8], mut each: impl FnMut(InputEvent)) {
        self.0.extend_from_slice(bytes);
        let (events, rest) = self.0.as_chunks::<EVENT>();
        for event in events {
            // The numbers are the machine's own.
            let [.., a, b, c, d, e, f, g, h] = *event;
            each(InputEvent {
                kind: u16::from_ne_bytes([a, b]),
                code: u16::from_ne_bytes([c, d]),
                value: i32::from_ne_bytes([e, f, g, h]),
            });
        }
        self.0 = rest.to_vec();
    }
}

/// An input device, such as `/dev/input/event7`.
#[derive(Debug)]
pub struct InputDevice {
    file: File,
    splitter: EventSplitter,
}

/// An axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AxisInfo {
    /// Where it is; before it moved for the first time, of some devices zero wherever it is.
    pub value: i32,
    /// Its least value.
    pub minimum: i32,
    /// Its largest.
    pub maximum: i32,
}

/// `struct input_absinfo`.
#[derive(Default)]
#[repr(C)]
struct AbsInfo {
    value: i32,
    minimum: i32,
    maximum: i32,
    fuzz: i32,
    flat: i32,
    resolution: i32,
}

impl InputDevice {
    /// Opens it.
    ///
    /// # Errors
    /// When there is none, or it may not be read.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { file: File::open(path)?, splitter: EventSplitter::default() })
    }

    /// Where an axis is, and its range; `None` where the system does not tell.
    pub fn axis(&self, axis: u16) -> Option<AxisInfo> {
        let number = u8::try_from(axis).ok().filter(|axis| *axis < 0x40)?;
        // EVIOCGABS of linux/input.h.
        let request = rustix::ioctl::opcode::read::<AbsInfo>(b'E', 0x40 + number);
        let mut info = AbsInfo::default();
        // SAFETY: the descriptor is open, and the request writes one `input_absinfo`, which `info` is.
        #[allow(unsafe_code)]
        let status = unsafe { libc::ioctl(self.file.as_raw_fd(), request as _, &raw mut info) };
        let AbsInfo { value, minimum, maximum, .. } = info;
        (status == 0 && minimum < maximum).then_some(AxisInfo { value, minimum, maximum })
    }

    /// Waits for events, and gives them.
    ///
    /// # Errors
    /// When the device is gone.
    pub fn read(&mut self, each: impl FnMut(InputEvent)) -> io::Result<()> {
        let mut bytes = [0; 64 * EVENT];
        match self.file.read(&mut bytes) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                self.splitter.take(&bytes[..count], each);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_events_are_the_same_however_their_bytes_are_cut() {
        // A press of BTN_SOUTH, the left stick to the left, and the end of the report.
        let events = [(1, 0x130, 1), (3, 0, -32_768), (0, 0, 0)];
        let mut bytes = Vec::new();
        for (kind, code, value) in events {
            bytes.extend([7; 2 * size_of::<usize>()]);
            bytes.extend([u16::to_ne_bytes(kind), u16::to_ne_bytes(code)].concat());
            bytes.extend(i32::to_ne_bytes(value));
        }
        for piece in [1, 5, EVENT, 100] {
            let (mut splitter, mut seen) = (EventSplitter::default(), Vec::new());
            bytes.chunks(piece).for_each(|bytes| splitter.take(bytes, |event| seen.push(event)));
            assert_eq!(seen, events.map(|(kind, code, value)| InputEvent { kind, code, value }), "{piece}");
        }
    }
}
