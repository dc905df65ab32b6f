//! Options.

use super::field::{u16_at, u32_at};
use super::{HEADER_LEN, MAX_HEADER_LEN, ParseError};

/// Bytes that options may take.
const MAX_OPTIONS_LEN: usize = MAX_HEADER_LEN - HEADER_LEN;

/// The options understood here; others are skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Maximum segment size in bytes of data, in a SYN (RFC 9293 section 3.7.1).
    pub mss: Option<u16>,
    /// Left shift of the window, 0 to 14, in a SYN (RFC 7323 section 2.2).
    pub window_scale: Option<u8>,
    /// SACK blocks may be sent, in a SYN (RFC 2018 section 2).
    pub sack_permitted: bool,
    /// Timestamps (RFC 7323 section 3.2).
    pub timestamps: Option<Timestamps>,
    /// Data that arrived beyond the acknowledgement (RFC 2018 section 3). At most 3 blocks fit beside timestamps.
    pub sack: SackBlocks,
}

/// The timestamps option (RFC 7323 section 3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timestamps {
    /// TSval: the sender's clock.
    pub value: u32,
    /// TSecr: the clock reading that is echoed.
    pub echo: u32,
}

/// One block: sequence numbers from `left` up to, but not including, `right`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlock {
    /// The first one.
    pub left: u32,
    /// The one after the last.
    pub right: u32,
}

/// Up to four blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlocks {
    blocks: [SackBlock; Self::MAX],
    count: u8,
}

impl SackBlocks {
    /// The most that an option holds.
    pub const MAX: usize = 4;

    /// One block more; ignored when there are [`SackBlocks::MAX`].
    pub fn push(&mut self, block: SackBlock) {
        if let Some(free) = self.blocks.get_mut(usize::from(self.count)) {
            *free = block;
            self.count += 1;
        }
    }

    /// The blocks, in the order in which they were pushed: RFC 2018 section 4 wants the newest first.
    pub fn as_slice(&self) -> &[SackBlock] {
        &self.blocks[..usize::from(self.count)]
    }
}

impl FromIterator<SackBlock> for SackBlocks {
    fn from_iter<I: IntoIterator<Item = SackBlock>>(blocks: I) -> Self {
        let mut all = Self::default();
        blocks.into_iter().take(Self::MAX).for_each(|block| all.push(block));
        all
    }
}

impl Options {
    pub(super) fn parse(mut bytes: &[u8]) -> Result<Self, ParseError> {
        let mut options = Self::default();
        while let Some((&kind, rest)) = bytes.split_first() {
            match kind {
                kind::END => break,
                kind::NOP => {
                    bytes = rest;
                    continue;
                }
                _ => {}
            }
            let bad = ParseError::BadOption { kind };
            let len = usize::from(*rest.first().ok_or(bad)?);
            let body = bytes.get(2..len).ok_or(bad)?;
            options.read(kind, body).ok_or(bad)?;
            bytes = &bytes[len..];
        }
        Ok(options)
    }

    fn read(&mut self, kind: u8, body: &[u8]) -> Option<()> {
        match (kind, body.len()) {
            (kind::MSS, 2) => self.mss = Some(u16_at(body, 0)),
            (kind::WINDOW_SCALE, 1) => self.window_scale = Some(body[0]),
            (kind::SACK_PERMITTED, 0) => self.sack_permitted = true,
            (kind::TIMESTAMPS, 8) => {
                self.timestamps = Some(Timestamps { value: u32_at(body, 0), echo: u32_at(body, 4) });
            }
            (kind::SACK, 8 | 16 | 24 | 32) => {
                let block = |b: &[u8]| SackBlock { left: u32_at(b, 0), right: u32_at(b, 4) };
                self.sack = body.chunks_exact(8).map(block).collect();
            }
            (kind::MSS | kind::WINDOW_SCALE | kind::SACK_PERMITTED | kind::TIMESTAMPS | kind::SACK, _) => {
                return None;
            }
            _ => {}
        }
        Some(())
    }

    /// Blocks that fit beside the other options.
    fn sack_that_fits(&self) -> &[SackBlock] {
        let room = MAX_OPTIONS_LEN.saturating_sub(self.len_without_sack() + 4) / 8;
        let blocks = self.sack.as_slice();
        &blocks[..blocks.len().min(room)]
    }

    fn len_without_sack(&self) -> usize {
        let words = [self.mss.is_some(), self.window_scale.is_some(), self.sack_permitted];
        words.into_iter().filter(|there| *there).count() * 4 + if self.timestamps.is_some() { 12 } else { 0 }
    }

    pub(super) fn len(&self) -> usize {
        let sack = match self.sack_that_fits().len() {
            0 => 0,
            blocks => 4 + 8 * blocks,
        };
        self.len_without_sack() + sack
    }

    /// Every option begins with as many NOPs as it needs to end on a word.
    pub(super) fn emit(&self, buffer: &mut Vec<u8>) {
        if let Some(mss) = self.mss {
            buffer.extend_from_slice(&[kind::MSS, 4]);
            buffer.extend_from_slice(&mss.to_be_bytes());
        }
        if let Some(shift) = self.window_scale {
            buffer.extend_from_slice(&[kind::NOP, kind::WINDOW_SCALE, 3, shift]);
        }
        if self.sack_permitted {
            buffer.extend_from_slice(&[kind::NOP, kind::NOP, kind::SACK_PERMITTED, 2]);
        }
        if let Some(Timestamps { value, echo }) = self.timestamps {
            buffer.extend_from_slice(&[kind::NOP, kind::NOP, kind::TIMESTAMPS, 10]);
            buffer.extend_from_slice(&value.to_be_bytes());
            buffer.extend_from_slice(&echo.to_be_bytes());
        }
        let sack = self.sack_that_fits();
        if !sack.is_empty() {
            buffer.extend_from_slice(&[kind::NOP, kind::NOP, kind::SACK, 2 + 8 * sack.len() as u8]);
            for SackBlock { left, right } in sack {
                buffer.extend_from_slice(&left.to_be_bytes());
                buffer.extend_from_slice(&right.to_be_bytes());
            }
        }
    }
}

/// Option kinds.
mod kind {
    pub(super) const END: u8 = 0;
    pub(super) const NOP: u8 = 1;
    pub(super) const MSS: u8 = 2;
    pub(super) const WINDOW_SCALE: u8 = 3;
    pub(super) const SACK_PERMITTED: u8 = 4;
    pub(super) const SACK: u8 = 5;
    pub(super) const TIMESTAMPS: u8 = 8;
}
