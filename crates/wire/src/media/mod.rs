//! One telehaptic datagram: haptic samples, and fragments of audio and video frames.
//!
//! The format is ours. It serves two wishes that pull apart: at 1 kHz every byte of overhead costs 8 kbit/s, and a
//! measurement must recover the creation time of every sample and frame to the nanosecond. So the header carries one
//! absolute time, and everything else in the datagram an *age* against it.
//!
//! ```text
//! header     0      version (1 bit, 1) | report follows (1) | samples (3) | fragments (3)
//!            1..5   packet number, u32
//!            5..13  sent, u64, nanoseconds on the sender's clock
//! report     0..4   packet number of the packet it is about, u32
//!            4..    transit of that packet, nanoseconds, zigzag varint
//! sample     0..4   sequence, u32
//!            4..    age when sent, nanoseconds, varint; payload length, varint; payload
//! fragment   0      medium (2 bits) | first (1) | last (1) | reserved (4), 0
//!            1..    frame sequence, varint
//!                   first: age of the frame when sent, nanoseconds, varint; otherwise: offset in the frame, varint
//!                   length, varint
//! the bytes of the fragments, in their order; then padding
//! ```
//!
//! Integers are big-endian; a varint is LEB128 (DWARF 5 section 7.6), shortest form only. The frame's length is the end
//! of its last fragment. Every frame that arrives whole thus has its sequence, creation time and length, and no byte
//! of that is sent twice.
//!
//! Fragment bytes may be *virtual*: where the stored bytes end before the datagram does, the rest are zeros. A receiver
//! that gets the datagram from a real socket has padding 0 and sees the zeros themselves.

mod repr;
mod varint;
mod view;

pub use repr::{FragmentRepr, Header, Part, Report, SampleRepr};
pub use varint::varint_len;
pub use view::{Content, MediaView, visit};

/// Most haptic samples in one datagram.
pub const MAX_SAMPLES: usize = 7;
/// Most fragments in one datagram.
pub const MAX_FRAGMENTS: usize = 7;
/// Longest payload of a haptic sample, in bytes.
pub const MAX_PAYLOAD: usize = 1024;

/// Why bytes are not a telehaptic datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MediaError {
    /// It ends too early, counting padding.
    #[error("the datagram ends inside a field")]
    Truncated,
    /// The version bit is not 1.
    #[error("not version 1")]
    Version,
    /// A fragment of something that has no frames, or reserved bits that are not 0.
    #[error("fragment header {0:#04x} is not known")]
    Fragment(u8),
    /// A varint that is longer than it need be, or than its field.
    #[error("a varint is overlong or out of range")]
    Varint,
    /// Something older than the sender's clock.
    #[error("an age reaches before the epoch")]
    Age,
    /// A payload longer than [`MAX_PAYLOAD`], a frame beyond 4 GiB, or an empty fragment of a frame that is not empty.
    #[error("a length is out of range")]
    Length,
}

#[cfg(test)]
mod tests {
    use taut_core::{Medium, Time};

    use super::*;

    const GOLDEN: [u8; 45] = [
        0xd2, 0x00, 0x01, 0x02, 0x03, 0, 0, 0, 0, 0x3b, 0x9a, 0xca,
        0x00, // header: 2 samples, 2 fragments, report
        0x00, 0x00, 0x00, 0x07, 0x81, 0x01, // report: packet 7, transit −65 ns
        0x00, 0x00, 0x00, 0x10, 0xc0, 0x84, 0x3d, 0x02, 0xaa, 0xbb, // sample 16, age 1 ms
        0x00, 0x00, 0x00, 0x11, 0x00, 0x00, // sample 17, age 0, no payload
        0x50, 0x05, 0x74, 0x2c, // audio frame 5, last, offset 116, 44 bytes
        0xa0, 0x00, 0xac, 0x02, 0x0e, // video frame 0, first, age 300 ns, 14 bytes
        0x99, // one stored byte of the audio
    ];

    fn golden_parts() -> (Header, [SampleRepr<'static>; 2], [FragmentRepr; 2]) {
        let sent = Time::from_nanos(1_000_000_000);
        let report = Some(Report { packet_number: 7, transit_ns: -65 });
        let header = Header { packet_number: 0x0001_0203, sent, report, samples: 2, fragments: 2 };
        let older =
            SampleRepr { sequence: 16, created: Time::from_nanos(999_000_000), payload: &[0xaa, 0xbb] };
        let newer = SampleRepr { sequence: 17, created: sent, payload: &[] };
        let part = Part::Rest { offset: 116 };
        let audio = FragmentRepr { medium: Medium::Audio, frame: 5, part, length: 44, last: true };
        let part = Part::First { created: Time::from_nanos(999_999_700) };
        let video = FragmentRepr { medium: Medium::Video, frame: 0, part, length: 14, last: false };
        (header, [older, newer], [audio, video])
    }

    fn emit((header, samples, fragments): (Header, [SampleRepr<'_>; 2], [FragmentRepr; 2])) -> Vec<u8> {
        let mut out = Vec::new();
        header.emit(&mut out);
        samples.iter().for_each(|sample| sample.emit(header.sent, &mut out));
        fragments.iter().for_each(|fragment| fragment.emit(header.sent, &mut out));
        out
    }

    #[test]
    fn golden_bytes_are_emitted_and_their_lengths_foretold() {
        let (header, samples, fragments) = golden_parts();
        let out = emit((header, samples, fragments));
        assert_eq!(out, GOLDEN[..44]);
        let foretold = header.buffer_len()
            + samples.iter().map(|sample| sample.buffer_len(header.sent)).sum::<usize>()
            + fragments.iter().map(|fragment| fragment.header_len(header.sent)).sum::<usize>();
        assert_eq!(out.len(), foretold);
    }

    #[test]
    fn golden_bytes_are_parsed() {
        let (header, samples, fragments) = golden_parts();
        let view = MediaView::new_checked(&GOLDEN, 57).unwrap();
        assert_eq!(view.header(), header);
        assert!(view.samples().eq(samples));
        let parsed: Vec<_> = view.fragments().collect();
        assert_eq!(parsed, [(fragments[0], &[0x99][..]), (fragments[1], &[][..])]);
    }

    #[test]
    fn one_pass_tells_what_the_view_shows() {
        let (_, samples, fragments) = golden_parts();
        let expected = samples.map(Content::Sample).into_iter().chain(fragments.map(Content::Fragment));
        let mut told = Vec::new();
        visit(&GOLDEN, |content| told.push(content)).unwrap();
        assert!(told.into_iter().eq(expected));
        assert_eq!(visit(&GOLDEN[..30], |_| ()), Err(MediaError::Truncated));
    }

    #[test]
    fn a_missing_byte_anywhere_is_an_error() {
        assert_eq!(MediaView::new_checked(&GOLDEN, 56).unwrap_err(), MediaError::Truncated);
        for length in 0..44 {
            assert_eq!(
                MediaView::new_checked(&GOLDEN[..length], 0).unwrap_err(),
                MediaError::Truncated,
                "{length}"
            );
        }
    }

    #[test]
    fn each_wrong_field_has_its_error() {
        let spoilt = |at: usize, byte: u8| {
            let mut bytes = GOLDEN;
            bytes[at] = byte;
            MediaView::new_checked(&bytes, 57).unwrap_err()
        };
        assert_eq!(spoilt(0, 0x12), MediaError::Version);
        assert_eq!(spoilt(35, 0x10), MediaError::Fragment(0x10));
        assert_eq!(spoilt(35, 0x51), MediaError::Fragment(0x51));
        assert_eq!(spoilt(25, 0x00), MediaError::Varint);
        assert_eq!(spoilt(37, 0x00), MediaError::Length);
        assert_eq!(spoilt(38, 0x00), MediaError::Length);
        let mut early = GOLDEN;
        early[9..13].fill(0);
        assert_eq!(MediaView::new_checked(&early, 57).unwrap_err(), MediaError::Age);
    }

    /// Every mutation of a valid datagram either parses or is refused; xorshift, so that the test needs no dependency.
    #[test]
    fn no_bytes_panic() {
        let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut next = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for round in 0..200_000 {
            let mut bytes = GOLDEN.to_vec();
            bytes.truncate((next() % 60) as usize);
            for _ in 0..next() % 6 {
                let at = (next() % 45) as usize;
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = next() as u8;
                }
            }
            let padding = if round % 2 == 0 { 0 } else { next() as u32 };
            let mut told = Vec::new();
            let visited = visit(&bytes, |content| told.push(content));
            if let Ok(view) = MediaView::new_checked(&bytes, padding) {
                let fragments = view.fragments().map(|(fragment, _)| Content::Fragment(fragment));
                let seen = view.samples().map(Content::Sample).chain(fragments);
                assert!(visited.is_ok() && seen.eq(told));
                assert_eq!(view.samples().count(), usize::from(view.header().samples));
                assert_eq!(view.fragments().count(), usize::from(view.header().fragments));
            }
        }
    }
}
