//! A whole datagram: checked and looked at without copying.

use super::MediaError;
use super::repr::{FragmentRepr, Header, SampleRepr};
use super::varint::Cursor;

/// A datagram whose every field has been checked, without copying.
///
/// ```
/// use taut_core::{Medium, Time};
/// use taut_wire::media::{FragmentRepr, Header, MediaView, Part, SampleRepr};
/// let sent = Time::from_nanos(5_000);
/// let mut bytes = Vec::new();
/// Header { packet_number: 1, sent, report: None, samples: 1, fragments: 1 }.emit(&mut bytes);
/// SampleRepr { sequence: 9, created: sent, payload: &[0; 12] }.emit(sent, &mut bytes);
/// let part = Part::First { created: Time::ZERO };
/// FragmentRepr { medium: Medium::Audio, frame: 3, part, length: 58, last: false }.emit(sent, &mut bytes);
/// // The 58 bytes of audio are zeros that nobody stored.
/// let view = MediaView::new_checked(&bytes, 58)?;
/// assert_eq!(view.samples().next().map(|sample| sample.sequence), Some(9));
/// assert_eq!(view.fragments().next().map(|(fragment, _)| fragment.length), Some(58));
/// # Ok::<(), taut_wire::media::MediaError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct MediaView<'a> {
    data: &'a [u8],
    header: Header,
    samples_at: usize,
    fragments_at: usize,
    bytes_at: usize,
}

impl<'a> MediaView<'a> {
    /// Checks all fields of `data`, which `padding` zeros follow.
    ///
    /// # Errors
    /// See [`MediaError`]. No input panics.
    pub fn new_checked(data: &'a [u8], padding: u32) -> Result<Self, MediaError> {
        let mut cursor = Cursor { data, at: 0 };
        let header = Header::parse(&mut cursor)?;
        let samples_at = cursor.at;
        for _ in 0..header.samples {
            SampleRepr::parse(header.sent, &mut cursor)?;
        }
        let fragments_at = cursor.at;
        let mut promised: u64 = 0;
        for _ in 0..header.fragments {
            promised += u64::from(FragmentRepr::parse(header.sent, &mut cursor)?.length);
        }
        let present = (data.len() - cursor.at) as u64 + u64::from(padding);
        if promised > present {
            return Err(MediaError::Truncated);
        }
        Ok(Self { data, header, samples_at, fragments_at, bytes_at: cursor.at })
    }

    /// The header.
    pub const fn header(&self) -> Header {
        self.header
    }

    /// The samples, oldest first as far as the sender kept to that.
    pub fn samples(&self) -> impl Iterator<Item = SampleRepr<'a>> + use<'a> {
        let mut cursor = Cursor { data: self.data, at: self.samples_at };
        let sent = self.header.sent;
        (0..self.header.samples).map_while(move |_| SampleRepr::parse(sent, &mut cursor).ok())
    }

    /// The fragments, each with as many of its bytes as were stored; the rest are zeros.
    pub fn fragments(&self) -> impl Iterator<Item = (FragmentRepr, &'a [u8])> + use<'a> {
        let mut cursor = Cursor { data: self.data, at: self.fragments_at };
        let mut bytes = &self.data[self.bytes_at..];
        let sent = self.header.sent;
        (0..self.header.fragments).map_while(move |_| {
            let fragment = FragmentRepr::parse(sent, &mut cursor).ok()?;
            let (stored, rest) = bytes.split_at((fragment.length as usize).min(bytes.len()));
            bytes = rest;
            Some((fragment, stored))
        })
    }
}

/// One thing that a datagram carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// A haptic sample.
    Sample(SampleRepr<'a>),
    /// A part of a frame; its bytes are not looked at.
    Fragment(FragmentRepr),
}

/// Tells what a datagram carries, in one pass: samples, then fragments. For whoever emitted it and wants to know what is in
/// it; whether the fragments' bytes are all there, only [`MediaView`] checks.
///
/// # Errors
/// See [`MediaError`]; what comes before the fault has been told.
pub fn visit<'a>(data: &'a [u8], mut tell: impl FnMut(Content<'a>)) -> Result<(), MediaError> {
    let mut cursor = Cursor { data, at: 0 };
    let header = Header::parse(&mut cursor)?;
    for _ in 0..header.samples {
        tell(Content::Sample(SampleRepr::parse(header.sent, &mut cursor)?));
    }
    for _ in 0..header.fragments {
        tell(Content::Fragment(FragmentRepr::parse(header.sent, &mut cursor)?));
    }
    Ok(())
}
