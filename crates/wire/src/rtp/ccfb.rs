//! Which packets of an RTP stream arrived, and when: the congestion control feedback of RTCP (RFC 8888).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---+-+---------+---------------+-------------------------------+
//! |V=2|P| FMT=11  |    PT = 205   |       length in words - 1     |
//! +---+-+---------+---------------+-------------------------------+
//! |                 SSRC of who sends the report                  |
//! +---------------------------------------------------------------+
//! |                      SSRC of the stream                       |
//! +-------------------------------+-------------------------------+
//! |          begin_seq            |          num_reports          |
//! +-+---+-------------------------+-+---+-------------------------+
//! |R|ECN|  arrival time offset    |R|ECN|  arrival time offset    |  R: it arrived; offset: how long before the
//! +-+---+-------------------------+-+---+-------------------------+  report's timestamp, in 1/1024 s
//! |                       report timestamp                        |  1/65536 s
//! +---------------------------------------------------------------+
//! ```
//!
//! Reports on one stream are written and read; others are refused.
//!
//! ```
//! use taut_wire::rtp::ccfb::{Arrival, Report};
//! let report = Report { sender: 1, ssrc: 2, begin: 65_535, timestamp: 0x1_0000, packets: vec![Some(Arrival::default()), None] };
//! let mut bytes = Vec::new();
//! report.emit(&mut bytes);
//! assert_eq!(Report::parse(&bytes), Ok(report));
//! ```

/// A report on the packets of one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// SSRC of who sends the report.
    pub sender: u32,
    /// SSRC of the stream.
    pub ssrc: u32,
    /// The sequence number of the first packet.
    pub begin: u16,
    /// When the report was made, in 1/65536 s by the clock of its sender.
    pub timestamp: u32,
    /// What became of that packet and of those that follow it, at most [`Report::PACKETS_MAX`]; `None`: not arrived.
    pub packets: Vec<Option<Arrival>>,
}

/// A packet that arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// Its ECN bits, below 4.
    pub ecn: u8,
    /// How long before the report, in 1/1024 s, at most [`Arrival::OFFSET_MAX`], which stands for anything longer; `None` when that is
    /// not known.
    pub offset: Option<u16>,
}

/// Why bytes are no report on one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Another kind of packet, or another version.
    #[error("no RTCP congestion control feedback")]
    Kind,
    /// The length is not the one that it says.
    #[error("a report of {told} bytes in {got}")]
    Length {
        /// By its header and its count of packets.
        told: usize,
        /// In truth.
        got: usize,
    },
}

/// Version 2, no padding, FMT 11.
const FIRST: u8 = 0x80 | 11;
/// RTPFB.
const PACKET_TYPE: u8 = 205;
/// Before the packets.
const HEAD: usize = 16;
/// An offset that is not known (RFC 8888 section 3.1).
const UNAVAILABLE: u16 = 0x1fff;

impl Arrival {
    /// The longest offset, "that or more".
    pub const OFFSET_MAX: u16 = 0x1ffe;
}

impl Report {
    /// The most packets that may be reported on (RFC 8888 section 3.1).
    pub const PACKETS_MAX: usize = 16_384;

    /// Reads a report that fills `bytes`.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        if bytes.len() < HEAD || bytes[0] != FIRST || bytes[1] != PACKET_TYPE {
            return Err(Error::Kind);
        }
        let half = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let word = |at: usize| u32::from(half(at)) << 16 | u32::from(half(at + 2));
        let count = usize::from(half(14));
        for told in [4 * (usize::from(half(2)) + 1), Self::len(count)] {
            if told != bytes.len() {
                return Err(Error::Length { told, got: bytes.len() });
            }
        }
        let packets = (0..count).map(|index| arrival(half(HEAD + 2 * index))).collect();
        let timestamp = word(bytes.len() - 4);
        Ok(Self { sender: word(4), ssrc: word(8), begin: half(12), timestamp, packets })
    }

    /// Appends the report.
    ///
    /// # Panics
    /// With more packets than there may be, or an ECN or offset out of its range.
    pub fn emit(&self, bytes: &mut Vec<u8>) {
        let count = self.packets.len();
        assert!(count <= Self::PACKETS_MAX, "a report on {count} packets");
        bytes.extend([FIRST, PACKET_TYPE]);
        bytes.extend(((Self::len(count) / 4 - 1) as u16).to_be_bytes());
        bytes.extend(self.sender.to_be_bytes());
        bytes.extend(self.ssrc.to_be_bytes());
        bytes.extend(self.begin.to_be_bytes());
        bytes.extend((count as u16).to_be_bytes());
        for packet in &self.packets {
            bytes.extend(block(*packet).to_be_bytes());
        }
        bytes.extend(std::iter::repeat_n(0, 2 * (count % 2)));
        bytes.extend(self.timestamp.to_be_bytes());
    }

    /// Bytes of a report on so many packets.
    const fn len(count: usize) -> usize {
        HEAD + 4 * count.div_ceil(2) + 4
    }
}

fn arrival(block: u16) -> Option<Arrival> {
    let offset = Some(block & 0x1fff).filter(|offset| *offset != UNAVAILABLE);
    (block & 0x8000 != 0).then_some(Arrival { ecn: (block >> 13 & 3) as u8, offset })
}

fn block(packet: Option<Arrival>) -> u16 {
    let Some(Arrival { ecn, offset }) = packet else { return 0 };
    assert!(ecn < 4 && offset.is_none_or(|offset| offset <= Arrival::OFFSET_MAX), "out of range: {packet:?}");
    0x8000 | u16::from(ecn) << 13 | offset.unwrap_or(UNAVAILABLE)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// By the drawing in RFC 8888 section 3.1: three packets, of which the second is missing, and padding to a whole word.
    const GOLDEN: [u8; 28] = [
        0x8b, 0xcd, 0x00, 0x06, // RTPFB, FMT 11, seven words
        0x00, 0x00, 0x00, 0x01, 0xca, 0xfe, 0x00, 0x02, // who, of which stream
        0xff, 0xff, 0x00, 0x03, // from 65535 on, three
        0xe4, 0x00, 0x00, 0x00, // arrived with CE 1024 ticks ago; not arrived
        0xbf, 0xff, 0x00, 0x00, // arrived with ECT(1), nobody knows when; padding
        0x12, 0x34, 0x56, 0x78, // when
    ];

    fn golden() -> Report {
        let first = Arrival { ecn: 3, offset: Some(1_024) };
        let third = Arrival { ecn: 1, offset: None };
        Report {
            sender: 1,
            ssrc: 0xcafe_0002,
            begin: 65_535,
            timestamp: 0x1234_5678,
            packets: vec![Some(first), None, Some(third)],
        }
    }

    #[test]
    fn golden_bytes_are_read_and_written() {
        let mut bytes = Vec::new();
        golden().emit(&mut bytes);
        assert_eq!(bytes, GOLDEN);
        assert_eq!(Report::parse(&GOLDEN), Ok(golden()));
    }

    #[test]
    fn other_packets_and_wrong_lengths_are_refused() {
        for len in 0..GOLDEN.len() {
            assert!(Report::parse(&GOLDEN[..len]).is_err());
        }
        let mut other = GOLDEN;
        other[1] = 200;
        assert_eq!(Report::parse(&other), Err(Error::Kind));
        let mut more = GOLDEN;
        more[15] = 5;
        assert_eq!(Report::parse(&more), Err(Error::Length { told: 32, got: 28 }));
    }

    proptest! {
        #[test]
        fn what_is_read_is_written_to_what_reads_the_same(mut bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            if bytes.len() >= 16 && bytes.len() % 4 == 0 {
                // Mostly a report.
                let words = bytes.len() / 4;
                bytes[..4].copy_from_slice(&[FIRST, PACKET_TYPE, 0, (words - 1) as u8]);
                bytes[14..16].copy_from_slice(&[0, (2 * words.saturating_sub(5)) as u8]);
            }
            if let Ok(report) = Report::parse(&bytes) {
                let mut again = Vec::new();
                report.emit(&mut again);
                prop_assert_eq!(again.len(), bytes.len());
                prop_assert_eq!(Report::parse(&again), Ok(report));
            }
        }
    }
}
