//! VP8 in RTP (RFC 7741): the payload descriptor, and where a frame says that it is a key frame.
//!
//! ```text
//!       0 1 2 3 4 5 6 7
//!      +-+-+-+-+-+-+-+-+
//!      |X|R|N|S|R| PID |  S: a partition begins here; PID: which one
//!      +-+-+-+-+-+-+-+-+
//! X:   |I|L|T|K|  RSV  |
//!      +-+-+-+-+-+-+-+-+
//! I:   |M| PictureID   |  M: 15 bits instead of 7
//!      +-+-+-+-+-+-+-+-+
//!      |   PictureID   |  (M)
//!      +-+-+-+-+-+-+-+-+
//! L:   |   TL0PICIDX   |
//!      +-+-+-+-+-+-+-+-+
//! T/K: |TID|Y| KEYIDX  |
//!      +-+-+-+-+-+-+-+-+
//! ```
//!
//! A frame begins with the packet that has S set and PID 0. The byte after its descriptor is the first of the VP8 payload
//! header (section 4.3), whose lowest bit, P, is 0 in a key frame.
//!
//! ```
//! use taut_wire::rtp::{FrameKind, vp8};
//! let descriptor = vp8::Descriptor { start: true, picture_id: Some(vp8::PictureId::Long(300)), ..Default::default() };
//! let mut bytes = Vec::new();
//! descriptor.emit(&mut bytes);
//! bytes.push(0x10); // P = 0
//! assert_eq!(vp8::Descriptor::parse(&bytes), Ok((descriptor, 4)));
//! assert_eq!(vp8::kind(&bytes), FrameKind::Key);
//! ```

use super::FrameKind;
pub use super::vp8_header::FrameHeader;

/// Bytes of the longest descriptor.
pub const MAX_DESCRIPTOR_LEN: usize = 6;

/// The payload descriptor (RFC 7741 section 4.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Descriptor {
    /// N: nothing refers to this frame.
    pub non_reference: bool,
    /// S: a partition begins with this packet.
    pub start: bool,
    /// PID: which partition, below 8.
    pub partition: u8,
    /// A number of the frame.
    pub picture_id: Option<PictureId>,
    /// TL0PICIDX: a number of the last frame of the lowest temporal layer.
    pub tl0_pic_idx: Option<u8>,
    /// The temporal layer.
    pub layer: Option<Layer>,
    /// KEYIDX: a number of the last key frame, below 32.
    pub key_idx: Option<u8>,
}

/// A number of the frame, on either 7 or 15 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PictureId {
    /// Below 128.
    Short(u8),
    /// Below 32768.
    Long(u16),
}

/// A temporal layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layer {
    /// TID: which one, below 4.
    pub id: u8,
    /// Y: depends on the lowest layer only.
    pub base_only: bool,
}

/// Why bytes are no payload of VP8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Fewer bytes than the descriptor has, or none behind it.
    #[error("a VP8 payload of {0} bytes ends within its descriptor")]
    Truncated(usize),
    /// TL0PICIDX without a temporal layer: then it means nothing (section 4.2).
    #[error("TL0PICIDX without a temporal layer")]
    NoLayer,
}

impl Descriptor {
    /// Reads a descriptor. Gives its length too: at least one byte of VP8 follows. Reserved bits are ignored.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn parse(payload: &[u8]) -> Result<(Self, usize), Error> {
        let mut at = 0;
        let mut next = || {
            at += 1;
            payload.get(at - 1).copied().ok_or(Error::Truncated(payload.len()))
        };
        let first = next()?;
        let extended = if first & 0x80 == 0 { 0 } else { next()? };
        let mut descriptor = Self {
            non_reference: first & 0x20 != 0,
            start: first & 0x10 != 0,
            partition: first & 0x07,
            ..Self::default()
        };
        if extended & 0x80 != 0 {
            let high = next()?;
            descriptor.picture_id = Some(if high & 0x80 == 0 {
                PictureId::Short(high)
            } else {
                PictureId::Long(u16::from_be_bytes([high & 0x7f, next()?]))
            });
        }
        if extended & 0x40 != 0 {
            if extended & 0x20 == 0 {
                return Err(Error::NoLayer);
            }
            descriptor.tl0_pic_idx = Some(next()?);
        }
        if extended & 0x30 != 0 {
            let byte = next()?;
            // What is there without its flag is to be ignored.
            descriptor.layer =
                (extended & 0x20 != 0).then_some(Layer { id: byte >> 6, base_only: byte & 0x20 != 0 });
            descriptor.key_idx = (extended & 0x10 != 0).then_some(byte & 0x1f);
        }
        if at == payload.len() { Err(Error::Truncated(at)) } else { Ok((descriptor, at)) }
    }

    /// Does a frame begin with this packet?
    pub const fn starts_frame(&self) -> bool {
        self.start && self.partition == 0
    }

    /// Appends the descriptor.
    ///
    /// # Panics
    /// With a value out of its range, or TL0PICIDX without a layer.
    pub fn emit(&self, buffer: &mut Vec<u8>) {
        assert!(self.partition < 8, "partitions are 0 to 7");
        assert!(self.tl0_pic_idx.is_none() || self.layer.is_some(), "TL0PICIDX needs a temporal layer");
        let layered = self.layer.is_some() || self.key_idx.is_some();
        let extended = self.picture_id.is_some() || layered;
        buffer.push(
            u8::from(extended) << 7
                | u8::from(self.non_reference) << 5
                | u8::from(self.start) << 4
                | self.partition,
        );
        if extended {
            buffer.push(
                u8::from(self.picture_id.is_some()) << 7
                    | u8::from(self.tl0_pic_idx.is_some()) << 6
                    | u8::from(self.layer.is_some()) << 5
                    | u8::from(self.key_idx.is_some()) << 4,
            );
        }
        match self.picture_id {
            Some(PictureId::Short(id)) => {
                assert!(id < 0x80, "a short PictureID has 7 bits");
                buffer.push(id);
            }
            Some(PictureId::Long(id)) => {
                assert!(id < 0x8000, "a long PictureID has 15 bits");
                buffer.extend_from_slice(&(id | 0x8000).to_be_bytes());
            }
            None => {}
        }
        buffer.extend(self.tl0_pic_idx);
        if layered {
            let Layer { id, base_only } = self.layer.unwrap_or_default();
            let key_idx = self.key_idx.unwrap_or_default();
            assert!(id < 4 && key_idx < 32, "a TID has 2 bits, a KEYIDX 5");
            buffer.push(id << 6 | u8::from(base_only) << 5 | key_idx);
        }
    }
}

/// Of what kind the frame is whose first packet has this payload. What cannot be read, or does not begin a frame, is taken
/// for a delta frame.
pub fn kind(payload: &[u8]) -> FrameKind {
    match Descriptor::parse(payload) {
        Ok((descriptor, at)) if descriptor.starts_frame() && payload[at] & 1 == 0 => FrameKind::Key,
        Ok((descriptor, _)) if descriptor.non_reference => FrameKind::Disposable,
        _ => FrameKind::Delta,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn golden_bytes_of_section_4_2_are_read_and_written() {
        let full = Descriptor {
            non_reference: true,
            start: true,
            partition: 0,
            picture_id: Some(PictureId::Long(0x1234)),
            tl0_pic_idx: Some(0x56),
            layer: Some(Layer { id: 2, base_only: true }),
            key_idx: Some(7),
        };
        let short = Descriptor { picture_id: Some(PictureId::Short(17)), ..Descriptor::default() };
        let cases: [(Descriptor, &[u8]); 5] = [
            // As in the examples of section 4.5, and everything at once.
            (Descriptor { start: true, ..Descriptor::default() }, &[0x10]),
            (Descriptor { start: true, partition: 1, ..short }, &[0x91, 0x80, 0x11]),
            (short, &[0x80, 0x80, 0x11]),
            (Descriptor { picture_id: Some(PictureId::Long(4711)), ..short }, &[0x80, 0x80, 0x92, 0x67]),
            (full, &[0xb0, 0xf0, 0x92, 0x34, 0x56, 0xa7]),
        ];
        for (descriptor, golden) in cases {
            let mut bytes = Vec::new();
            descriptor.emit(&mut bytes);
            assert_eq!(bytes, golden);
            bytes.push(0);
            assert_eq!(Descriptor::parse(&bytes), Ok((descriptor, golden.len())));
            for len in 0..bytes.len() {
                assert_eq!(Descriptor::parse(&bytes[..len]), Err(Error::Truncated(len)));
            }
        }
    }

    #[test]
    fn a_key_frame_is_told_by_the_p_bit_of_its_first_packet_only() {
        assert_eq!(kind(&[0x10, 0b1001_0000]), FrameKind::Key);
        assert_eq!(kind(&[0x10, 0b1001_0001]), FrameKind::Delta);
        assert_eq!(kind(&[0x30, 0b1001_0001]), FrameKind::Disposable);
        assert_eq!(kind(&[0x00, 0b1001_0000]), FrameKind::Delta, "not the first packet");
        assert_eq!(kind(&[0x11, 0b1001_0000]), FrameKind::Delta, "the second partition");
        assert_eq!(kind(&[0x10]), FrameKind::Delta);
        assert_eq!(kind(&[]), FrameKind::Delta);
    }

    #[test]
    fn an_index_of_the_lowest_layer_needs_a_layer() {
        assert_eq!(Descriptor::parse(&[0x80, 0x40, 1, 2]), Err(Error::NoLayer));
    }

    proptest! {
        #[test]
        fn what_is_read_is_written_to_what_reads_the_same(payload in prop::collection::vec(any::<u8>(), 0..10)) {
            if let Ok((descriptor, len)) = Descriptor::parse(&payload) {
                let mut bytes = Vec::new();
                descriptor.emit(&mut bytes);
                // X without any extension is written shorter.
                prop_assert!(bytes.len() <= len && len <= MAX_DESCRIPTOR_LEN);
                bytes.push(payload[len]);
                prop_assert_eq!(Descriptor::parse(&bytes), Ok((descriptor, bytes.len() - 1)));
            }
        }
    }
}
