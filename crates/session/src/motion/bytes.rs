//! What the payloads of motion have in common: how they begin, and how numbers are written.

use std::ops::Range;

use super::Error;

/// Where every payload has its flags.
pub(super) const FLAGS: usize = 0;
const LOCKED: u8 = 1;
const ENABLING: u8 = 1 << 1;

/// The flags of a payload; from bit 2 on they are the schema's own.
#[derive(Clone, Copy)]
pub(super) struct Flags(u8);

impl Flags {
    pub(super) fn new(locked: bool, enabling: bool) -> Self {
        Self(0).with(LOCKED, locked).with(ENABLING, enabling)
    }

    pub(super) const fn with(self, flag: u8, set: bool) -> Self {
        if set { Self(self.0 | flag) } else { self }
    }

    /// Of a payload whose schema has the flags `own`.
    pub(super) fn parse(bytes: &[u8], own: u8) -> Result<Self, Error> {
        let flags = *bytes.get(FLAGS).ok_or(Error::Empty)?;
        if flags & !(LOCKED | ENABLING | own) != 0 {
            return Err(Error::Value { at: FLAGS, value: flags });
        }
        Ok(Self(flags))
    }

    pub(super) const fn byte(self) -> u8 {
        self.0
    }

    pub(super) const fn has(self, flag: u8) -> bool {
        self.0 & flag != 0
    }

    pub(super) const fn locked(self) -> bool {
        self.has(LOCKED)
    }

    pub(super) const fn enabling(self) -> bool {
        self.has(ENABLING)
    }
}

pub(super) const fn exactly(bytes: &[u8], needed: usize) -> Result<(), Error> {
    if bytes.len() == needed { Ok(()) } else { Err(Error::Length { needed, found: bytes.len() }) }
}

/// Bytes that must be zero; their length was checked.
pub(super) fn reserved(bytes: &[u8], range: Range<usize>) -> Result<(), Error> {
    match range.clone().find(|at| bytes[*at] != 0) {
        Some(at) => Err(Error::Value { at, value: bytes[at] }),
        None => Ok(()),
    }
}

/// The number at `at`; the length was checked.
pub(super) fn float_at(bytes: &[u8], at: usize) -> f32 {
    f32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

pub(super) fn floats_at<const N: usize>(bytes: &[u8], at: usize) -> [f32; N] {
    std::array::from_fn(|i| float_at(bytes, at + 4 * i))
}

pub(super) fn emit_floats(numbers: &[f32], buffer: &mut Vec<u8>) {
    numbers.iter().for_each(|number| buffer.extend_from_slice(&number.to_be_bytes()));
}
