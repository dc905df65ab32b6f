//! As much of an SCTP packet (RFC 9260 section 3) as is needed to leave chunks out.

/// Ports, verification tag and checksum.
const COMMON_HEADER: usize = 12;
const DATA: u8 = 0;
const SACK: u8 = 3;
/// Of one without blocks (RFC 9260 section 3.3.4).
const PLAIN_SACK: usize = 16;
/// It has a Cumulative TSN Ack as well (RFC 9260 section 3.3.8).
const SHUTDOWN: u8 = 7;
/// RFC 9260 sections 3.3.9 and 3.3.11.
const SHUTDOWN_ACK: u8 = 8;
const COOKIE_ECHO: u8 = 10;
/// RFC 8260 section 2.1.
const I_DATA: u8 = 64;
/// Its flags, and those of DATA (RFC 9260 section 3.3.1): acknowledge at once; unordered; all of a message.
const IMMEDIATE: u8 = 8;
const UNORDERED: u8 = 4;
const WHOLE: u8 = 3;
/// RFC 3758 section 3.2 and RFC 8260 section 2.3.1.
const FORWARD_TSN: u8 = 192;
const I_FORWARD_TSN: u8 = 194;

/// A chunk, with its header and without its padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunk<'a>(pub(super) &'a [u8]);

impl Chunk<'_> {
    /// The transmission sequence number of DATA and I-DATA.
    pub(super) fn tsn(self) -> Option<u32> {
        matches!(self.0[0], DATA | I_DATA).then(|| self.word(4)).flatten()
    }

    /// Of a SACK: the Cumulative TSN Ack, and the newest number that it reports.
    pub(super) fn sack(self) -> Option<(u32, u32)> {
        let cumulative = (self.0[0] == SACK).then(|| self.word(4)).flatten()?;
        let blocks = usize::from(u16::from_be_bytes(self.0.get(12..14)?.try_into().ok()?));
        let ends = self.0.get(16..16 + 4 * blocks)?.chunks_exact(4);
        let last = ends.map(|block| u16::from_be_bytes([block[2], block[3]])).max().unwrap_or(0);
        Some((cumulative, cumulative.wrapping_add(last.into())))
    }

    /// Is it the whole of a message? Then its payload protocol identifier.
    pub(super) fn whole(self) -> Option<u32> {
        let at = if self.0[0] == I_DATA { 16 } else { 12 };
        let whole = self.tsn().is_some() && self.0[1] & WHOLE == WHOLE;
        whole.then(|| self.word(at)).flatten()
    }

    /// May it overtake what went before it?
    pub(super) fn is_unordered(self) -> bool {
        self.0[1] & UNORDERED != 0
    }

    /// Is it a message whose sender waits for the acknowledgement (I bit, RFC 7053)?
    pub(super) fn asks_for_acknowledgement(self) -> bool {
        self.tsn().is_some() && self.0[1] & IMMEDIATE != 0
    }

    /// The same message, whose sender waits for the acknowledgement.
    pub(super) fn asking(self) -> Vec<u8> {
        let mut chunk = self.0.to_vec();
        chunk[1] |= IMMEDIATE;
        chunk
    }

    /// What tells a peer of such messages to wait for none up to `tsn`.
    pub(super) fn forward(self, tsn: u32) -> Vec<u8> {
        let kind = if self.0[0] == I_DATA { I_FORWARD_TSN } else { FORWARD_TSN };
        let mut chunk = vec![kind, 0, 0, 8];
        chunk.extend_from_slice(&tsn.to_be_bytes());
        chunk
    }

    /// Does it acknowledge all up to a number, and report neither holes nor duplicates?
    pub(super) fn is_plain_sack(self) -> bool {
        self.0[0] == SACK && self.0.len() == PLAIN_SACK
    }

    /// Does it tell up to which number all arrived?
    pub(super) fn acknowledges(self) -> bool {
        matches!(self.0[0], SACK | SHUTDOWN)
    }

    fn word(self, at: usize) -> Option<u32> {
        Some(u32::from_be_bytes(self.0.get(at..at + 4)?.try_into().ok()?))
    }
}

/// The chunks of a packet, up to the first that does not fit in it.
pub(super) fn chunks(packet: &[u8]) -> impl Iterator<Item = Chunk<'_>> {
    let mut rest = packet.get(COMMON_HEADER..).unwrap_or_default();
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_be_bytes([*rest.get(2)?, *rest.get(3)?]));
        let chunk = rest.get(..length).filter(|chunk| chunk.len() >= 4)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(Chunk(chunk))
    })
}

/// The packet with those of its chunks; `None` when there are none.
pub(super) fn keep(packet: &[u8], kept: &[bool]) -> Option<Vec<u8>> {
    let header = packet.get(..COMMON_HEADER)?;
    let shorter =
        build(header, chunks(packet).zip(kept).filter(|(_, kept)| **kept).map(|(chunk, _)| chunk.0));
    (shorter.len() > COMMON_HEADER).then_some(shorter)
}

/// Is it a SHUTDOWN ACK alone?
pub(super) fn is_shutdown_ack(packet: &[u8]) -> bool {
    packet.len() == COMMON_HEADER + 4 && packet[COMMON_HEADER] == SHUTDOWN_ACK
}

/// Does it begin an association, perhaps anew?
pub(super) fn echoes_cookie(packet: &[u8]) -> bool {
    chunks(packet).any(|chunk| chunk.0[0] == COOKIE_ECHO)
}

/// A COOKIE ECHO as a packet of its own, and what follows it as another; `None` when nothing does, or the checksum is wrong.
pub(super) fn split_cookie(packet: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    if packet.get(COMMON_HEADER) != Some(&COOKIE_ECHO) {
        return None;
    }
    let mut sealed = packet.to_vec();
    seal(&mut sealed);
    let count = chunks(packet).count();
    let part = |kept: fn(usize) -> bool| keep(packet, &(0..count).map(kept).collect::<Vec<_>>());
    (sealed == packet).then(|| part(|index| index == 0).zip(part(|index| index > 0))).flatten()
}

/// The common header of a packet.
pub(super) fn header(packet: &[u8]) -> &[u8] {
    packet.get(..COMMON_HEADER).unwrap_or_default()
}

/// A packet of that header, with those chunks.
pub(super) fn build<'a>(header: &[u8], chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut packet = header.to_vec();
    for chunk in chunks {
        packet.extend_from_slice(chunk);
        packet.resize(packet.len().next_multiple_of(4), 0);
    }
    seal(&mut packet);
    packet
}

/// From one number to another, by serial arithmetic (RFC 9260 section 1.6).
pub(super) fn distance(from: u32, to: u32) -> i64 {
    i64::from(to.wrapping_sub(from) as i32)
}

/// One packet with the chunks of both, those of `first` first.
pub(super) fn join(first: &[u8], second: &[u8]) -> Vec<u8> {
    let mut both = first.to_vec();
    both.extend_from_slice(second.get(COMMON_HEADER..).unwrap_or_default());
    seal(&mut both);
    both
}

/// Writes the checksum (RFC 9260 section 6.8 and appendix A).
fn seal(packet: &mut [u8]) {
    packet[8..COMMON_HEADER].fill(0);
    let sum = crc32c(packet);
    packet[8..COMMON_HEADER].copy_from_slice(&sum.to_le_bytes());
}

fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| crc >> 8 ^ CRC32C[(crc as u8 ^ byte) as usize])
}

/// Remainders of each byte by the Castagnoli polynomial, bits reversed.
static CRC32C: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn packet(chunks: &[Vec<u8>]) -> Vec<u8> {
        build(&[0x13, 0x88, 0x13, 0x88, 1, 2, 3, 4, 0, 0, 0, 0], chunks.iter().map(Vec::as_slice))
    }

    /// I-DATA of five bytes, with those numbers.
    pub(crate) fn data(tsns: &[u32]) -> Vec<u8> {
        let chunk = |tsn: &u32| {
            let mut chunk = vec![I_DATA, 3, 0, 25];
            chunk.extend_from_slice(&tsn.to_be_bytes());
            chunk.extend_from_slice(&[0; 12]);
            chunk.extend_from_slice(b"pose1");
            chunk
        };
        packet(&tsns.iter().map(chunk).collect::<Vec<_>>())
    }

    pub(crate) fn sack(cumulative: u32, blocks: &[(u16, u16)]) -> Vec<u8> {
        let mut chunk = vec![SACK, 0, 0, 16 + 4 * blocks.len() as u8];
        chunk.extend_from_slice(&cumulative.to_be_bytes());
        chunk.extend_from_slice(&[0, 1, 0, 0, 0, blocks.len() as u8, 0, 0]);
        for (first, last) in blocks {
            chunk.extend_from_slice(&first.to_be_bytes());
            chunk.extend_from_slice(&last.to_be_bytes());
        }
        packet(&[chunk])
    }

    /// A chunk of that kind, of four bytes besides its header.
    pub(crate) fn without_numbers(kind: u8) -> Vec<u8> {
        packet(&[vec![kind, 0, 0, 8, 0, 0, 0, 1]])
    }

    #[test]
    fn numbers_are_read_and_the_rest_is_sealed_again() {
        let three = data(&[7, u32::MAX, 9]);
        assert_eq!(chunks(&three).filter_map(Chunk::tsn).collect::<Vec<_>>(), [7, u32::MAX, 9]);
        assert_eq!(keep(&three, &[true, false, true]), Some(data(&[7, 9])));
        assert_eq!(keep(&three, &[false; 3]), None);
        assert_eq!(chunks(&sack(5, &[(2, 3), (5, 9)])).find_map(Chunk::sack), Some((5, 14)));
        assert_eq!(chunks(&sack(5, &[])).find_map(Chunk::sack), Some((5, 5)));
        assert!(chunks(&sack(5, &[])).all(Chunk::is_plain_sack));
        assert!(!chunks(&join(&sack(5, &[(2, 3)]), &three)).any(Chunk::is_plain_sack));
        assert_eq!(chunks(&join(&sack(5, &[]), &three)).filter_map(Chunk::tsn).count(), 3);
        assert_eq!(join(&data(&[7]), &data(&[8])), data(&[7, 8]));
    }

    #[test]
    fn nothing_is_read_beyond_the_end() {
        let mut packet = sack(5, &[(2, 3)]);
        packet[25] = 200;
        assert_eq!(chunks(&packet).find_map(Chunk::sack), None);
        for length in 0..packet.len() {
            assert_eq!(chunks(&packet[..length]).count(), 0);
        }
    }

    #[test]
    fn the_checksum_has_the_check_value_of_castagnoli() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }
}
