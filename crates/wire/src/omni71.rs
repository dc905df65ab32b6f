//! `omni71`: the state sample of a 6-DoF haptic device in 71 bytes, and its acknowledgement in 16.
//!
//! The layout is that of Clerix, *Comparative Analysis of QUIC and Other Network Protocols for Real-Time Robotic
//! Control*, UHasselt/KU Leuven, 2025, byte for byte: packed, little-endian, no version and no checksum.
//!
//! | bytes | field | type, unit |
//! | --- | --- | --- |
//! | 0–7 | sequence | `u64`, counts up by one |
//! | 8–15 | timestamp | `u64`, µs of the sender's clock |
//! | 16–27 | position x, y, z | 3 × `f32`, m |
//! | 28–43 | orientation w, x, y, z | 4 × `f32`, unit quaternion |
//! | 44–55 | velocity x, y, z | 3 × `f32`, m/s |
//! | 56–67 | force (motor current) x, y, z | 3 × `f32`, N |
//! | 68 | locked | `u8`, 0 or 1 |
//! | 69 | close gripper | `u8`, 0 or 1 |
//! | 70 | priority | `u8`, 0 normal, 1 high, 2 emergency |
//!
//! What follows the 71 bytes of a sample is padding, which is not looked at: the source put 256 bytes on the wire.
//!
//! An acknowledgement is the sequence and the timestamp of the sample, echoed. The two are told apart by their length.
//!
//! Any bits are a number to the parser, not-a-number and the infinities included: whether a sample may move a robot is
//! another question, answered by [`Repr::is_finite`].
//!
//! ```
//! use taut_wire::omni71::Repr;
//! let sample = Repr { sequence: 7, timestamp_us: 1_000, position: [0.1, 0.0, -0.05], ..Repr::default() };
//! let mut bytes = Vec::new();
//! sample.emit(&mut bytes);
//! assert_eq!(bytes.len(), 71);
//!
//! assert_eq!(Repr::parse(&bytes)?, sample);
//! # Ok::<(), taut_wire::omni71::Error>(())
//! ```

use crate::session::Priority;

/// Bytes of a state sample.
pub const STATE_LEN: usize = 71;
/// Bytes of an acknowledgement.
pub const ACK_LEN: usize = 16;

/// Where the fields begin.
mod field {
    pub(super) const SEQUENCE: usize = 0;
    pub(super) const TIMESTAMP: usize = 8;
    pub(super) const POSITION: usize = 16;
    pub(super) const ORIENTATION: usize = 28;
    pub(super) const VELOCITY: usize = 44;
    pub(super) const FORCE: usize = 56;
    pub(super) const LOCKED: usize = 68;
    pub(super) const CLOSE_GRIPPER: usize = 69;
    pub(super) const PRIORITY: usize = 70;
}

/// Why bytes are neither a sample nor an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not the length of what was asked for: of a sample the least.
    #[error("{found} bytes where {needed} are needed")]
    Length {
        /// What it needs.
        needed: usize,
        /// What there is.
        found: usize,
    },
    /// A flag that is neither 0 nor 1.
    #[error("byte {at} is {value}; a flag is 0 or 1")]
    Flag {
        /// Which byte.
        at: usize,
        /// What it holds.
        value: u8,
    },
    /// A priority that does not exist.
    #[error("priority {0}; there are 0 (normal), 1 (high) and 2 (emergency)")]
    Priority(u8),
}

/// What a sample says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Repr {
    /// Counts up by one for every sample.
    pub sequence: u64,
    /// The sender's clock in µs.
    pub timestamp_us: u64,
    /// x, y, z in m.
    pub position: [f32; 3],
    /// A quaternion: w, x, y, z.
    pub orientation_wxyz: [f32; 4],
    /// x, y, z in m/s.
    pub velocity: [f32; 3],
    /// x, y, z in N.
    pub force: [f32; 3],
    /// The device is locked.
    pub locked: bool,
    /// The gripper shall close.
    pub close_gripper: bool,
    /// How urgent.
    pub priority: Priority,
}

impl Default for Repr {
    /// At rest in the origin, upright, not urgent.
    fn default() -> Self {
        Self {
            sequence: 0,
            timestamp_us: 0,
            position: [0.0; 3],
            orientation_wxyz: [1.0, 0.0, 0.0, 0.0],
            velocity: [0.0; 3],
            force: [0.0; 3],
            locked: false,
            close_gripper: false,
            priority: Priority::Normal,
        }
    }
}

impl Repr {
    /// Reads a sample, and whatever padding.
    ///
    /// # Errors
    /// When there are less than 71 bytes, or a flag or the priority has a value that does not exist.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let length = Error::Length { needed: STATE_LEN, found: bytes.len() };
        let bytes: &[u8; STATE_LEN] = bytes.first_chunk().ok_or(length)?;
        let flag = |at: usize| match bytes[at] {
            value @ 0..=1 => Ok(value == 1),
            value => Err(Error::Flag { at, value }),
        };
        let code = bytes[field::PRIORITY];
        Ok(Self {
            sequence: u64::from_le_bytes(array(bytes, field::SEQUENCE)),
            timestamp_us: u64::from_le_bytes(array(bytes, field::TIMESTAMP)),
            position: floats(bytes, field::POSITION),
            orientation_wxyz: floats(bytes, field::ORIENTATION),
            velocity: floats(bytes, field::VELOCITY),
            force: floats(bytes, field::FORCE),
            locked: flag(field::LOCKED)?,
            close_gripper: flag(field::CLOSE_GRIPPER)?,
            priority: Priority::from_code(code).ok_or(Error::Priority(code))?,
        })
    }

    /// Appends the 71 bytes.
    pub fn emit(&self, buffer: &mut Vec<u8>) {
        buffer.extend_from_slice(&self.sequence.to_le_bytes());
        buffer.extend_from_slice(&self.timestamp_us.to_le_bytes());
        let numbers =
            self.position.iter().chain(&self.orientation_wxyz).chain(&self.velocity).chain(&self.force);
        numbers.for_each(|number| buffer.extend_from_slice(&number.to_le_bytes()));
        buffer.extend_from_slice(&[
            u8::from(self.locked),
            u8::from(self.close_gripper),
            self.priority.code(),
        ]);
    }

    /// How many bytes [`Repr::emit`] appends.
    pub const fn len(&self) -> usize {
        STATE_LEN
    }

    /// Never.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Is every number finite? What is not must never reach a robot.
    pub fn is_finite(&self) -> bool {
        let mut numbers =
            self.position.iter().chain(&self.orientation_wxyz).chain(&self.velocity).chain(&self.force);
        numbers.all(|number| number.is_finite())
    }
}

/// An acknowledgement: what it acknowledges, echoed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ack {
    /// The sample's sequence.
    pub sequence: u64,
    /// The sample's timestamp, µs of the clock of whoever reads this.
    pub timestamp_us: u64,
}

impl Ack {
    /// Reads an acknowledgement.
    ///
    /// # Errors
    /// When there are not exactly 16 bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let length = |_| Error::Length { needed: ACK_LEN, found: bytes.len() };
        let bytes: &[u8; ACK_LEN] = bytes.try_into().map_err(length)?;
        Ok(Self {
            sequence: u64::from_le_bytes(array(bytes, field::SEQUENCE)),
            timestamp_us: u64::from_le_bytes(array(bytes, field::TIMESTAMP)),
        })
    }

    /// Appends the 16 bytes.
    pub fn emit(&self, buffer: &mut Vec<u8>) {
        buffer.extend_from_slice(&self.sequence.to_le_bytes());
        buffer.extend_from_slice(&self.timestamp_us.to_le_bytes());
    }
}

fn floats<const N: usize>(bytes: &[u8], at: usize) -> [f32; N] {
    std::array::from_fn(|i| f32::from_le_bytes(array(bytes, at + 4 * i)))
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("the length was checked")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GOLDEN: [u8; STATE_LEN] = [
        0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01, // sequence
        0x40, 0xe2, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, // timestamp: 123 456 µs
        0x00, 0x00, 0x00, 0x3e, 0x00, 0x00, 0x80, 0xbe, 0x00, 0x00, 0x00, 0x3f, // 0.125, −0.25, 0.5 m
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x80, 0x3f, // w 0, x 1
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x80, // y 0, z −0
        0x00, 0x00, 0x80, 0x3f, 0x00, 0x00, 0x00, 0xc0, 0x00, 0x00, 0x40, 0x40, // 1, −2, 3 m/s
        0x00, 0x00, 0x80, 0x40, 0x00, 0x00, 0xa0, 0xc0, 0x00, 0x00, 0xc0, 0x40, // 4, −5, 6 N
        0x01, 0x00, 0x02, // locked, gripper open, emergency
    ];
    const GOLDEN_ACK: [u8; ACK_LEN] = [8, 7, 6, 5, 4, 3, 2, 1, 0x40, 0xe2, 0x01, 0, 0, 0, 0, 0];

    fn golden() -> Repr {
        Repr {
            sequence: 0x0102_0304_0506_0708,
            timestamp_us: 123_456,
            position: [0.125, -0.25, 0.5],
            orientation_wxyz: [0.0, 1.0, 0.0, -0.0],
            velocity: [1.0, -2.0, 3.0],
            force: [4.0, -5.0, 6.0],
            locked: true,
            close_gripper: false,
            priority: Priority::Emergency,
        }
    }

    fn emitted(repr: &Repr) -> Vec<u8> {
        let mut bytes = Vec::new();
        repr.emit(&mut bytes);
        bytes
    }

    #[test]
    fn golden_bytes_parse() {
        assert_eq!(Repr::parse(&GOLDEN), Ok(golden()));
        let ack = Ack { sequence: golden().sequence, timestamp_us: 123_456 };
        assert_eq!(Ack::parse(&GOLDEN_ACK), Ok(ack));
    }

    #[test]
    fn golden_bytes_are_emitted() {
        assert_eq!(emitted(&golden()), GOLDEN);
        assert_eq!(golden().len(), GOLDEN.len());
        let mut bytes = Vec::new();
        Ack { sequence: golden().sequence, timestamp_us: 123_456 }.emit(&mut bytes);
        assert_eq!(bytes, GOLDEN_ACK);
    }

    #[test]
    fn what_is_not_understood_is_refused_with_its_reason() {
        let changed = |at: usize, to: u8| {
            let mut bytes = GOLDEN;
            bytes[at] = to;
            Repr::parse(&bytes).unwrap_err()
        };
        assert_eq!(changed(68, 2), Error::Flag { at: 68, value: 2 });
        assert_eq!(changed(69, 255), Error::Flag { at: 69, value: 255 });
        assert_eq!(changed(70, 3), Error::Priority(3));
        assert_eq!(Repr::parse(&GOLDEN[..70]), Err(Error::Length { needed: 71, found: 70 }));
        assert_eq!(Ack::parse(&GOLDEN_ACK[..15]), Err(Error::Length { needed: 16, found: 15 }));
        assert_eq!(Ack::parse(&GOLDEN), Err(Error::Length { needed: 16, found: 71 }));
    }

    #[test]
    fn what_follows_a_sample_is_not_looked_at() {
        for length in [72, 256, 1_400] {
            let mut bytes = GOLDEN.to_vec();
            bytes.resize(length, 0xff);
            assert_eq!(Repr::parse(&bytes), Ok(golden()));
        }
    }

    #[test]
    fn one_number_that_is_not_finite_is_parsed_and_found() {
        assert!(golden().is_finite());
        for at in (16..68).step_by(4) {
            for number in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                let mut bytes = GOLDEN;
                bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
                assert!(!Repr::parse(&bytes).unwrap().is_finite(), "{number} at {at}");
            }
        }
    }

    proptest! {
        #[test]
        fn garbage_is_refused_or_read_back_the_same(
            mut bytes in prop::collection::vec(any::<u8>(), 0..80),
            sized in any::<bool>(),
            tail in prop::array::uniform3(0u8..4),
        ) {
            if sized {
                bytes.resize(STATE_LEN, 0x7f);
                bytes[field::LOCKED..].copy_from_slice(&tail);
            }
            if let Ok(repr) = Repr::parse(&bytes) {
                prop_assert_eq!(&emitted(&repr)[..], &bytes[..STATE_LEN]);
            } else {
                prop_assert!(!sized || tail[0] > 1 || tail[1] > 1 || tail[2] > 2);
            }
        }
    }
}
