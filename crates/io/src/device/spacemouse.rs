//! SpaceMouse: a cap with six axes, by what its reports say (HID over `/dev/hidraw*`, <https://docs.kernel.org/hid/hidraw.html>), as events like those of other
//! input devices.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::evdev::{AxisInfo, InputEvent};

/// An axis of a cap that nobody touches; what it says at its ends, about.
pub const AXIS: AxisInfo = AxisInfo { value: 0, minimum: -350, maximum: 350 };
/// Vendors: 3Dconnexion, and Logitech, whose other products are mice and keyboards.
const VENDOR: u32 = 0x256f;
const LOGITECH: u32 = 0x046d;
const OF_LOGITECH: [u32; 12] =
    [0xc603, 0xc605, 0xc606, 0xc621, 0xc623, 0xc625, 0xc626, 0xc627, 0xc628, 0xc629, 0xc62a, 0xc62b];
const EV_SYN: u16 = 0;
const EV_KEY: u16 = 1;
const EV_ABS: u16 = 3;
/// `BTN_0`, and as many from there as a report has.
const FIRST_BUTTON: u16 = 0x100;
const BUTTONS: u16 = 32;

/// Reads reports: number 1 has the cap's way along X (right), Y (to the user) and Z (down), 2 its turn about them, each 16 bits, the lowest byte first; newer devices have both
/// in 1. Number 3 has a bit for each button. Sans-IO.
#[derive(Clone, Debug, Default)]
pub struct ReportReader {
    buttons: u32,
}

impl ReportReader {
    /// Takes one report, and gives what it says: each axis that is in it, each button that changed, and the end of the report. What is no report of these is ignored.
    pub fn take(&mut self, report: &[u8], mut each: impl FnMut(InputEvent)) {
        match report {
            [1, axes @ ..] if axes.len() == 12 || axes.len() == 6 => give_axes(0, axes, &mut each),
            [2, axes @ ..] if axes.len() == 6 => give_axes(3, axes, &mut each),
            [3, bits @ ..] if !bits.is_empty() => {
                let mut word = [0; 4];
                word.iter_mut().zip(bits).for_each(|(byte, bits)| *byte = *bits);
                let now = u32::from_le_bytes(word);
                for number in (0..BUTTONS).filter(|number| (now ^ self.buttons) >> number & 1 == 1) {
                    let value = i32::from(now >> number & 1 == 1);
                    each(InputEvent { kind: EV_KEY, code: FIRST_BUTTON + number, value });
                }
                self.buttons = now;
            }
            _ => return,
        }
        each(InputEvent { kind: EV_SYN, code: 0, value: 0 });
    }
}

fn give_axes(first: u16, axes: &[u8], each: &mut impl FnMut(InputEvent)) {
    for (code, value) in (first..).zip(axes.as_chunks().0) {
        each(InputEvent { kind: EV_ABS, code, value: i16::from_le_bytes(*value).into() });
    }
}

/// A SpaceMouse of this machine, such as `/dev/hidraw3`.
#[derive(Debug)]
pub struct SpaceMouse {
    file: File,
    reader: ReportReader,
}

impl SpaceMouse {
    /// Opens it.
    ///
    /// # Errors
    /// When there is none, or it may not be read.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { file: File::open(path)?, reader: ReportReader::default() })
    }

    /// The first that there is, by what the system tells of its HID devices in `/sys/class/hidraw`.
    pub fn first(devices: &Path) -> Option<PathBuf> {
        let mut names: Vec<String> = fs::read_dir(devices)
            .ok()?
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort_by_key(|name| (name.len(), name.clone()));
        let first = names.into_iter().find(|name| {
            is_spacemouse(&fs::read_to_string(devices.join(name).join("device/uevent")).unwrap_or_default())
        });
        first.map(|name| Path::new("/dev").join(name))
    }

    /// Waits for a report, and gives what it says.
    ///
    /// # Errors
    /// When the device is gone.
    pub fn read(&mut self, each: impl FnMut(InputEvent)) -> io::Result<()> {
        // One read is one report.
        let mut report = [0; 64];
        match self.file.read(&mut report) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                self.reader.take(&report[..count], each);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// `HID_ID=0003:0000256F:0000C635`: bus, vendor, product.
fn is_spacemouse(uevent: &str) -> bool {
    let id = uevent.lines().find_map(|line| line.strip_prefix("HID_ID=")).unwrap_or_default();
    let mut numbers = id.split(':').map(|number| u32::from_str_radix(number, 16).ok());
    let (_bus, vendor, product) = (numbers.next(), numbers.next().flatten(), numbers.next().flatten());
    let (Some(vendor), Some(product)) = (vendor, product) else { return false };
    vendor == VENDOR || vendor == LOGITECH && OF_LOGITECH.contains(&product)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(reader: &mut ReportReader, report: &[u8]) -> Vec<(u16, u16, i32)> {
        let mut seen = Vec::new();
        reader.take(report, |event| seen.push((event.kind, event.code, event.value)));
        seen
    }

    #[test]
    fn reports_of_older_and_newer_devices_are_the_same_axes() {
        let mut reader = ReportReader::default();
        // 350 to the right, 2 away from the user; then a turn of -350 about what points down.
        assert_eq!(
            read(&mut reader, &[1, 0x5e, 0x01, 0xfe, 0xff, 0, 0]),
            [(3, 0, 350), (3, 1, -2), (3, 2, 0), (0, 0, 0)]
        );
        assert_eq!(
            read(&mut reader, &[2, 0, 0, 0, 0, 0xa2, 0xfe]),
            [(3, 3, 0), (3, 4, 0), (3, 5, -350), (0, 0, 0)]
        );
        let both = read(&mut reader, &[1, 0x5e, 0x01, 0xfe, 0xff, 0, 0, 0, 0, 0, 0, 0xa2, 0xfe]);
        assert_eq!((both.len(), both[0], both[5]), (7, (3, 0, 350), (3, 5, -350)));
    }

    #[test]
    fn buttons_are_told_when_they_change_and_what_is_no_report_is_ignored() {
        let mut reader = ReportReader::default();
        assert_eq!(read(&mut reader, &[3, 0b11, 0]), [(1, 0x100, 1), (1, 0x101, 1), (0, 0, 0)]);
        assert_eq!(read(&mut reader, &[3, 0b10, 0]), [(1, 0x100, 0), (0, 0, 0)]);
        assert_eq!(read(&mut reader, &[3, 0b10, 0, 0, 1]), [(1, 0x118, 1), (0, 0, 0)]);
        for nothing in [&[][..], &[3], &[1, 2, 3], &[2; 13], &[23, 100, 0], &[1; 64]] {
            assert_eq!(read(&mut reader, nothing), [], "{nothing:?}");
        }
    }

    #[test]
    fn spacemice_are_told_from_other_devices() {
        assert!(is_spacemouse(
            "DRIVER=hid-generic\nHID_ID=0003:0000256F:0000C635\nHID_NAME=3Dconnexion SpaceMouse Compact\n"
        ));
        assert!(is_spacemouse("HID_ID=0003:0000046D:0000C626"));
        for other in ["HID_ID=0003:0000046D:0000C52B", "HID_ID=", "", "HID_ID=0003:zz"] {
            assert!(!is_spacemouse(other), "{other}");
        }
    }
}
