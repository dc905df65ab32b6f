//! Reading fields, and integers of variable length.

use taut_core::Time;

use super::MediaError;

/// Where a reader is in a datagram.
pub(super) struct Cursor<'a> {
    pub(super) data: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Cursor<'a> {
    #[inline]
    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8], MediaError> {
        let taken = self.data.get(self.at..self.at + length).ok_or(MediaError::Truncated)?;
        self.at += length;
        Ok(taken)
    }

    #[inline]
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], MediaError> {
        let taken = self.data[self.at..].first_chunk().ok_or(MediaError::Truncated)?;
        self.at += N;
        Ok(*taken)
    }

    #[inline]
    pub(super) fn byte(&mut self) -> Result<u8, MediaError> {
        self.array::<1>().map(|[byte]| byte)
    }

    #[inline]
    pub(super) fn u32(&mut self) -> Result<u32, MediaError> {
        self.array().map(u32::from_be_bytes)
    }

    #[inline]
    pub(super) fn u64(&mut self) -> Result<u64, MediaError> {
        self.array().map(u64::from_be_bytes)
    }

    #[inline(always)]
    pub(super) fn varint(&mut self) -> Result<u64, MediaError> {
        // Most have one byte.
        match self.byte()? {
            byte if byte < 0x80 => Ok(u64::from(byte)),
            first => self.long_varint(first),
        }
    }

    fn long_varint(&mut self, first: u8) -> Result<u64, MediaError> {
        let mut value = u64::from(first & 0x7f);
        for shift in (7..64).step_by(7) {
            let byte = self.byte()?;
            let low = u64::from(byte & 0x7f);
            // The tenth byte has room for one bit; a last byte of 0 adds nothing.
            if (shift == 63 && low > 1) || byte == 0 {
                return Err(MediaError::Varint);
            }
            value |= low << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(MediaError::Varint)
    }

    #[inline]
    pub(super) fn varint_u32(&mut self) -> Result<u32, MediaError> {
        u32::try_from(self.varint()?).map_err(|_| MediaError::Varint)
    }

    #[inline]
    pub(super) fn age(&mut self, sent: Time) -> Result<Time, MediaError> {
        sent.as_nanos().checked_sub(self.varint()?).map(Time::from_nanos).ok_or(MediaError::Age)
    }
}

/// Bytes of a varint with this value: 1 to 10.
pub const fn varint_len(value: u64) -> usize {
    let bits = 64 - (value | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

pub(super) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(super) const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

pub(super) const fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip_at_their_edges() {
        for value in (0..64).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit]).chain([u64::MAX]) {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            assert_eq!(out.len(), varint_len(value));
            assert_eq!(Cursor { data: &out, at: 0 }.varint(), Ok(value));
        }
        assert_eq!(Cursor { data: &[0xff; 11], at: 0 }.varint(), Err(MediaError::Varint));
        for value in [0, 1, -1, i64::MAX, i64::MIN] {
            assert_eq!(unzigzag(zigzag(value)), value);
        }
    }
}
