//! What the first slice of an H.264 frame says of references (ITU-T H.264 section 7.3.3): of the frames of OpenH264, whose order count is of type 2 and whose
//! frame numbers have 15 bits.

use taut_wire::rtp::h264::{NalHeader, annex_b_units, nal_type};

/// Bits of `frame_num`: log2_max_frame_num of what OpenH264 writes.
pub(crate) const FRAME_NUM_BITS: u32 = 15;
/// Bytes of a slice that are looked at.
const HEADER: usize = 64;
/// Entries of a list in a header, at most: three pictures are kept.
const MOST: usize = 8;

/// What a slice header says of references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SliceHeader {
    pub(crate) frame_num: u16,
    /// `idr_pic_id` of an IDR picture.
    pub(crate) idr: Option<u32>,
    pub(crate) refers: Refers,
    pub(crate) marks: Option<Marks>,
}

/// What a frame refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refers {
    /// So many frames back.
    Back(u32),
    /// What is kept in this place.
    Kept(u32),
}

/// A picture that is kept from this frame on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marks {
    /// It is so many frames back: 0, this one.
    pub(crate) back: u32,
    pub(crate) place: u32,
}

/// Of the first slice in an access unit; `None` where it has none, or one that is not as OpenH264 writes them.
pub(crate) fn slice_header(frame: &[u8]) -> Option<SliceHeader> {
    let unit = annex_b_units(frame).find(|unit| matches!(unit[0] & 0x1f, nal_type::SLICE | nal_type::IDR))?;
    let header = NalHeader::parse(unit[0]).ok()?;
    let bytes = unescaped(&unit[1..]);
    let mut bits = Bits { bytes: &bytes, at: 0 };
    let is_idr = header.kind == nal_type::IDR;
    let _first_macroblock = bits.golomb()?;
    let is_p = matches!(bits.golomb()?, 0 | 5);
    let _parameters = bits.golomb()?;
    let frame_num = bits.take(FRAME_NUM_BITS)? as u16;
    let idr = if is_idr { Some(bits.golomb()?) } else { None };
    if is_p && bits.take(1)? == 1 {
        bits.golomb()?;
    }
    let mut refers = Refers::Back(1);
    if is_p && bits.take(1)? == 1 {
        refers = first_of_list(&mut bits)?;
    }
    let mut marks = None;
    if header.ref_idc > 0 && is_idr {
        let _no_output = bits.take(1)?;
        marks = (bits.take(1)? == 1).then_some(Marks { back: 0, place: 0 });
    } else if header.ref_idc > 0 && bits.take(1)? == 1 {
        marks = marking(&mut bits)?;
    }
    Some(SliceHeader { frame_num, idr, refers, marks })
}

/// The picture that the first entry of a changed list names (section 7.3.3.1).
fn first_of_list(bits: &mut Bits<'_>) -> Option<Refers> {
    let mut first = None;
    for _ in 0..MOST {
        let entry = match bits.golomb()? {
            0 => Refers::Back(bits.golomb()? + 1),
            2 => Refers::Kept(bits.golomb()?),
            3 => return first,
            _ => return None,
        };
        first.get_or_insert(entry);
    }
    None
}

/// The operations on what is kept (section 7.3.3.3): `None` inside, where none keeps a picture.
fn marking(bits: &mut Bits<'_>) -> Option<Option<Marks>> {
    let mut marks = None;
    for _ in 0..MOST {
        match bits.golomb()? {
            0 => return Some(marks),
            3 => marks = Some(Marks { back: bits.golomb()? + 1, place: bits.golomb()? }),
            6 => marks = Some(Marks { back: 0, place: bits.golomb()? }),
            1 | 2 | 4 => _ = bits.golomb()?,
            _ => return None,
        }
    }
    None
}

/// Without the bytes that keep start codes out (section 7.4.1): a 3 behind two zeros.
fn unescaped(unit: &[u8]) -> Vec<u8> {
    let mut zeros = 0;
    let mut bytes = Vec::with_capacity(HEADER);
    for &byte in unit.iter().take(HEADER) {
        if zeros >= 2 && byte == 3 {
            zeros = 0;
            continue;
        }
        zeros = if byte == 0 { zeros + 1 } else { 0 };
        bytes.push(byte);
    }
    bytes
}

struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Bits<'_> {
    fn take(&mut self, count: u32) -> Option<u32> {
        let mut value = 0;
        for _ in 0..count {
            let byte = self.bytes.get(self.at / 8)?;
            value = value << 1 | u32::from(byte >> (7 - self.at % 8) & 1);
            self.at += 1;
        }
        Some(value)
    }

    /// Exp-Golomb, below 65536 (section 9.1).
    fn golomb(&mut self) -> Option<u32> {
        let mut zeros = 0;
        while self.take(1)? == 0 {
            zeros += 1;
        }
        if zeros > 16 { None } else { Some((1 << zeros) - 1 + self.take(zeros)?) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bits as text, behind a start code and the header of a unit.
    fn slice(header: u8, bits: &str) -> Vec<u8> {
        let bits: Vec<u8> = bits.bytes().filter(|bit| *bit != b' ').map(|bit| bit - b'0').collect();
        let bytes =
            bits.chunks(8).map(|byte| (0..8).fold(0, |sum, at| sum << 1 | byte.get(at).unwrap_or(&0)));
        // A unit does not end with a zero.
        [0, 0, 1, header].into_iter().chain(bytes).chain([0xff]).collect()
    }

    #[test]
    fn an_idr_slice_says_its_number_and_that_it_is_kept() {
        // First macroblock 0, I, parameters 0, frame 0, idr_pic_id 2, no_output 0, long term 1.
        let frame = [vec![0, 0, 0, 1, 0x67, 0x42], slice(0x65, "1 011 1 000000000000000 011 0 1")].concat();
        let header = slice_header(&frame).unwrap();
        let marks = Some(Marks { back: 0, place: 0 });
        assert_eq!(header, SliceHeader { frame_num: 0, idr: Some(2), refers: Refers::Back(1), marks });
    }

    #[test]
    fn a_p_slice_says_what_it_refers_to_and_what_it_keeps() {
        let begin = "1 1 1 000000000000101 0";
        let of = |rest: &str| slice_header(&slice(0x61, &format!("{begin} {rest}"))).unwrap();
        assert_eq!((of("0 0").frame_num, of("0 0").refers), (5, Refers::Back(1)));
        // Place 1; three frames back.
        assert_eq!(of("1 011 010 00100 0").refers, Refers::Kept(1));
        assert_eq!(of("1 1 011 00100 0").refers, Refers::Back(3));
        // Operations 4, 1 and 6; operation 3.
        let direct = of("0 1 00101 011 010 1 00111 010 1");
        assert_eq!(direct.marks, Some(Marks { back: 0, place: 1 }));
        assert_eq!(of("0 1 00100 1 1 1").marks, Some(Marks { back: 1, place: 0 }));
    }

    #[test]
    fn what_is_cut_off_or_something_else_says_nothing() {
        let whole = slice(0x61, "1 1 1 000000000000101 0 1 011 010 00100 0");
        for length in 0..7 {
            assert_eq!(slice_header(&whole[..length]), None);
        }
        assert_eq!(slice_header(&[0, 0, 1, 0x67, 1, 2, 3]), None);
        assert_eq!(slice_header(&[0, 0, 1, 0x61, 0, 0, 3, 0, 0, 3, 0, 0, 3, 1]), None);
    }
}
