//! Where the fields of the fixed part begin, and how numbers are read and written.

pub(super) const SOURCE_PORT: usize = 0;
pub(super) const DESTINATION_PORT: usize = 2;
pub(super) const SEQUENCE: usize = 4;
pub(super) const ACKNOWLEDGEMENT: usize = 8;
pub(super) const DATA_OFFSET: usize = 12;
pub(super) const FLAGS: usize = 13;
pub(super) const WINDOW: usize = 14;
pub(super) const URGENT: usize = 18;

pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

pub(super) fn put_u16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

pub(super) fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}
