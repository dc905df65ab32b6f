//! Options (RFC 4340 section 5.8, RFC 4342 section 8).

use super::{AckVector, LossIntervals};

/// The longest data of an option: its length is one byte and counts two bytes of head.
pub const MAX_OPTION_DATA: usize = 253;

/// Numbers of features (RFC 4340 section 6.4, RFC 4342 section 8.4).
pub mod feature {
    /// Congestion Control ID.
    pub const CCID: u8 = 1;
    /// Allow Short Seqnos.
    pub const ALLOW_SHORT_SEQNOS: u8 = 2;
    /// Sequence Window.
    pub const SEQUENCE_WINDOW: u8 = 3;
    /// ECN Incapable.
    pub const ECN_INCAPABLE: u8 = 4;
    /// Ack Ratio.
    pub const ACK_RATIO: u8 = 5;
    /// Send Ack Vector.
    pub const SEND_ACK_VECTOR: u8 = 6;
    /// Send NDP Count.
    pub const SEND_NDP_COUNT: u8 = 7;
    /// Minimum Checksum Coverage.
    pub const MINIMUM_CHECKSUM_COVERAGE: u8 = 8;
    /// Check Data Checksum.
    pub const CHECK_DATA_CHECKSUM: u8 = 9;
    /// CCID 3's Send Loss Event Rate.
    pub const SEND_LOSS_EVENT_RATE: u8 = 192;
}

/// Numbers of options.
mod kind {
    pub(super) const PADDING: u8 = 0;
    pub(super) const MANDATORY: u8 = 1;
    pub(super) const SLOW_RECEIVER: u8 = 2;
    /// The first that has a length and data.
    pub(super) const FIRST_LONG: u8 = 32;
    pub(super) const CHANGE_L: u8 = 32;
    pub(super) const CONFIRM_L: u8 = 33;
    pub(super) const CHANGE_R: u8 = 34;
    pub(super) const CONFIRM_R: u8 = 35;
    pub(super) const INIT_COOKIE: u8 = 36;
    pub(super) const NDP_COUNT: u8 = 37;
    pub(super) const ACK_VECTOR_0: u8 = 38;
    pub(super) const ACK_VECTOR_1: u8 = 39;
    pub(super) const DATA_DROPPED: u8 = 40;
    pub(super) const TIMESTAMP: u8 = 41;
    pub(super) const TIMESTAMP_ECHO: u8 = 42;
    pub(super) const ELAPSED_TIME: u8 = 43;
    pub(super) const DATA_CHECKSUM: u8 = 44;
    pub(super) const LOSS_EVENT_RATE: u8 = 192;
    pub(super) const LOSS_INTERVALS: u8 = 193;
    pub(super) const RECEIVE_RATE: u8 = 194;
}

/// Which way a feature is negotiated (RFC 4340 section 6): L is said by the endpoint where the feature is located, R by
/// the other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Negotiation {
    /// Change L.
    ChangeL,
    /// Confirm L.
    ConfirmL,
    /// Change R.
    ChangeR,
    /// Confirm R.
    ConfirmR,
}

/// One option, borrowing its data. Times are in units of 10 µs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DccpOption<'a> {
    /// The next option must be understood, or the connection ends (section 5.8.2).
    Mandatory,
    /// The receiver cannot keep up: do not go faster for a round trip (section 11.6).
    SlowReceiver,
    /// Feature negotiation (section 6).
    Feature {
        /// Which option it is.
        negotiation: Negotiation,
        /// Number of the feature.
        feature: u8,
        /// A preference list, or a value; empty in the Confirm of a feature that is not known.
        value: &'a [u8],
    },
    /// State that a server leaves with its client (section 8.1.4).
    InitCookie(&'a [u8]),
    /// How many packets without data went directly before this one, below 2⁴⁸ (section 7.7).
    NdpCount(u64),
    /// Which packets arrived (section 11.4).
    AckVector(AckVector<'a>),
    /// Data that arrived and did not reach the application, as blocks (section 11.7).
    DataDropped(&'a [u8]),
    /// The sender's clock (section 13.1).
    Timestamp(u32),
    /// That clock again (section 13.3).
    TimestampEcho {
        /// What the timestamp said.
        echo: u32,
        /// Time since it arrived; 0 is not transmitted.
        elapsed: u32,
    },
    /// Time since the packet arrived that the Acknowledgement Number names (section 13.2).
    ElapsedTime(u32),
    /// CRC-32c of the data (section 9.3).
    DataChecksum(u32),
    /// CCID 3: the inverse of the loss event rate, in packets; `u32::MAX` before the first loss (RFC 4342 section 8.5).
    LossEventRate(u32),
    /// CCID 3: the last loss intervals (RFC 4342 section 8.6).
    LossIntervals(LossIntervals<'a>),
    /// CCID 3: what arrives, in bytes per second (RFC 4342 section 8.3).
    ReceiveRate(u32),
    /// An option that is not known here.
    Unknown {
        /// Its number.
        kind: u8,
        /// Its data; empty below number 32.
        data: &'a [u8],
    },
    /// A known option whose data cannot be that option's.
    Invalid {
        /// Its number.
        kind: u8,
        /// Its data.
        data: &'a [u8],
    },
}

impl<'a> DccpOption<'a> {
    /// Appends the option.
    ///
    /// # Panics
    /// When its data is longer than [`MAX_OPTION_DATA`], or a single byte option has data.
    pub fn emit(&self, buffer: &mut Vec<u8>) {
        match *self {
            Self::Mandatory => buffer.push(kind::MANDATORY),
            Self::SlowReceiver => buffer.push(kind::SLOW_RECEIVER),
            Self::Feature { negotiation, feature, value } => {
                put_head(buffer, negotiation.kind(), value.len() + 1);
                buffer.push(feature);
                buffer.extend_from_slice(value);
            }
            Self::InitCookie(cookie) => put(buffer, kind::INIT_COOKIE, cookie),
            Self::NdpCount(count) => {
                let bytes = count.to_be_bytes();
                let zeros = bytes.iter().take_while(|byte| **byte == 0).count().min(7);
                put(buffer, kind::NDP_COUNT, &bytes[zeros..]);
            }
            Self::AckVector(vector) => {
                let kind = if vector.nonce { kind::ACK_VECTOR_1 } else { kind::ACK_VECTOR_0 };
                put(buffer, kind, vector.cells);
            }
            Self::DataDropped(blocks) => put(buffer, kind::DATA_DROPPED, blocks),
            Self::Timestamp(clock) => put(buffer, kind::TIMESTAMP, &clock.to_be_bytes()),
            Self::TimestampEcho { echo, elapsed } => {
                let elapsed_bytes = elapsed.to_be_bytes();
                let elapsed_bytes = match elapsed {
                    0 => &elapsed_bytes[4..],
                    1..=0xffff => &elapsed_bytes[2..],
                    _ => &elapsed_bytes[..],
                };
                put_head(buffer, kind::TIMESTAMP_ECHO, 4 + elapsed_bytes.len());
                buffer.extend_from_slice(&echo.to_be_bytes());
                buffer.extend_from_slice(elapsed_bytes);
            }
            Self::ElapsedTime(elapsed) => match u16::try_from(elapsed) {
                Ok(short) => put(buffer, kind::ELAPSED_TIME, &short.to_be_bytes()),
                Err(_) => put(buffer, kind::ELAPSED_TIME, &elapsed.to_be_bytes()),
            },
            Self::DataChecksum(crc) => put(buffer, kind::DATA_CHECKSUM, &crc.to_be_bytes()),
            Self::LossEventRate(inverse) => put(buffer, kind::LOSS_EVENT_RATE, &inverse.to_be_bytes()),
            Self::LossIntervals(intervals) => put(buffer, kind::LOSS_INTERVALS, intervals.bytes()),
            Self::ReceiveRate(rate) => put(buffer, kind::RECEIVE_RATE, &rate.to_be_bytes()),
            Self::Unknown { kind, data } | Self::Invalid { kind, data } => put(buffer, kind, data),
        }
    }

    fn parse(kind: u8, data: &'a [u8]) -> Self {
        let invalid = Self::Invalid { kind, data };
        let number = || data.iter().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
        match (kind, data.len()) {
            (kind::CHANGE_L..=kind::CONFIRM_R, 1..) => Self::Feature {
                negotiation: Negotiation::ALL[usize::from(kind - kind::CHANGE_L)],
                feature: data[0],
                value: &data[1..],
            },
            (kind::INIT_COOKIE, 1..) => Self::InitCookie(data),
            (kind::NDP_COUNT, 1..=6) => Self::NdpCount(number()),
            (kind::ACK_VECTOR_0 | kind::ACK_VECTOR_1, _) => {
                Self::AckVector(AckVector { nonce: kind == kind::ACK_VECTOR_1, cells: data })
            }
            (kind::DATA_DROPPED, _) => Self::DataDropped(data),
            (kind::TIMESTAMP, 4) => Self::Timestamp(number() as u32),
            (kind::TIMESTAMP_ECHO, 4 | 6 | 8) => {
                let (echo, elapsed) = data.split_at(4);
                let value =
                    |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte));
                Self::TimestampEcho { echo: value(echo), elapsed: value(elapsed) }
            }
            (kind::ELAPSED_TIME, 2 | 4) => Self::ElapsedTime(number() as u32),
            (kind::DATA_CHECKSUM, 4) => Self::DataChecksum(number() as u32),
            (kind::LOSS_EVENT_RATE, 4) => Self::LossEventRate(number() as u32),
            (kind::LOSS_INTERVALS, _) => LossIntervals::parse(data).map_or(invalid, Self::LossIntervals),
            (kind::RECEIVE_RATE, 4) => Self::ReceiveRate(number() as u32),
            (kind::CHANGE_L..=kind::DATA_CHECKSUM | kind::LOSS_EVENT_RATE | kind::RECEIVE_RATE, _) => invalid,
            _ => Self::Unknown { kind, data },
        }
    }
}

impl Negotiation {
    const ALL: [Self; 4] = [Self::ChangeL, Self::ConfirmL, Self::ChangeR, Self::ConfirmR];

    fn kind(self) -> u8 {
        match self {
            Self::ChangeL => kind::CHANGE_L,
            Self::ConfirmL => kind::CONFIRM_L,
            Self::ChangeR => kind::CHANGE_R,
            Self::ConfirmR => kind::CONFIRM_R,
        }
    }
}

/// The options of a header, in order, without the padding. An option whose length is nonsense ends them (RFC 4340
/// section 5.8).
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    rest: &'a [u8],
}

impl<'a> Options<'a> {
    /// The options in these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = DccpOption<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (&kind, rest) = self.rest.split_first()?;
            self.rest = rest;
            match kind {
                kind::PADDING => {}
                kind::MANDATORY => return Some(DccpOption::Mandatory),
                kind::SLOW_RECEIVER => return Some(DccpOption::SlowReceiver),
                3..kind::FIRST_LONG => return Some(DccpOption::Unknown { kind, data: &[] }),
                _ => {
                    let length = rest.first().map_or(0, |length| usize::from(*length));
                    // The length counts the kind, which is not in `rest` any more.
                    let Some(data) = (length >= 2).then(|| rest.get(1..length - 1)).flatten() else {
                        self.rest = &[];
                        return None;
                    };
                    self.rest = &rest[length - 1..];
                    return Some(DccpOption::parse(kind, data));
                }
            }
        }
    }
}

fn put(buffer: &mut Vec<u8>, kind: u8, data: &[u8]) {
    if kind < kind::FIRST_LONG {
        assert!(data.is_empty(), "option {kind} is a single byte");
        return buffer.push(kind);
    }
    put_head(buffer, kind, data.len());
    buffer.extend_from_slice(data);
}

fn put_head(buffer: &mut Vec<u8>, kind: u8, data: usize) {
    assert!(data <= MAX_OPTION_DATA, "option {kind} with {data} bytes of data");
    buffer.extend_from_slice(&[kind, data as u8 + 2]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn emitted(option: DccpOption<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        option.emit(&mut bytes);
        bytes
    }

    /// Every option as the RFCs draw it: RFC 4340 sections 5.8, 6, 7.7, 11 and 13, RFC 4342 section 8.
    #[test]
    fn golden_bytes_parse_and_are_emitted() {
        let feature = |negotiation, feature, value| DccpOption::Feature { negotiation, feature, value };
        let intervals =
            LossIntervals::parse(&[2, 0, 0, 10, 0x80, 0, 1, 0, 0, 10]).expect("a skip and one interval");
        let golden: [(DccpOption<'_>, &[u8]); 22] = [
            (DccpOption::Mandatory, &[1]),
            (DccpOption::SlowReceiver, &[2]),
            (feature(Negotiation::ChangeL, feature::CCID, &[2]), &[32, 4, 1, 2]),
            (feature(Negotiation::ChangeR, feature::CCID, &[3, 2]), &[34, 5, 1, 3, 2]),
            (feature(Negotiation::ConfirmL, feature::CCID, &[3, 3, 2]), &[33, 6, 1, 3, 3, 2]),
            (feature(Negotiation::ConfirmR, 126, &[]), &[35, 3, 126]),
            (
                feature(Negotiation::ChangeL, feature::SEQUENCE_WINDOW, &[0, 0, 0, 0, 4, 0]),
                &[32, 9, 3, 0, 0, 0, 0, 4, 0],
            ),
            (DccpOption::InitCookie(&[7, 8]), &[36, 4, 7, 8]),
            (DccpOption::NdpCount(1), &[37, 3, 1]),
            (DccpOption::NdpCount(0x0102_0304_0506), &[37, 8, 1, 2, 3, 4, 5, 6]),
            (DccpOption::AckVector(AckVector { nonce: false, cells: &[0x04, 0xc0] }), &[38, 4, 4, 0xc0]),
            (DccpOption::AckVector(AckVector { nonce: true, cells: &[0x40] }), &[39, 3, 0x40]),
            (DccpOption::DataDropped(&[0xa0]), &[40, 3, 0xa0]),
            (DccpOption::Timestamp(0x0a0b_0c0d), &[41, 6, 10, 11, 12, 13]),
            (DccpOption::TimestampEcho { echo: 1, elapsed: 0 }, &[42, 6, 0, 0, 0, 1]),
            (DccpOption::TimestampEcho { echo: 1, elapsed: 200 }, &[42, 8, 0, 0, 0, 1, 0, 200]),
            (DccpOption::TimestampEcho { echo: 1, elapsed: 0x1_0000 }, &[42, 10, 0, 0, 0, 1, 0, 1, 0, 0]),
            (DccpOption::ElapsedTime(500), &[43, 4, 1, 0xf4]),
            (DccpOption::ElapsedTime(0x1_0000), &[43, 6, 0, 1, 0, 0]),
            (DccpOption::LossEventRate(100), &[192, 6, 0, 0, 0, 100]),
            (DccpOption::LossIntervals(intervals), &[193, 12, 2, 0, 0, 10, 0x80, 0, 1, 0, 0, 10]),
            (DccpOption::ReceiveRate(75_000), &[194, 6, 0, 1, 0x24, 0xf8]),
        ];
        for (option, bytes) in golden {
            assert_eq!(emitted(option), bytes);
            assert_eq!(Options::new(bytes).collect::<Vec<_>>(), [option]);
        }
    }

    #[test]
    fn padding_is_skipped_and_a_nonsensical_length_ends_the_options() {
        let kinds: Vec<_> = Options::new(&[0, 2, 0, 0, 37, 3, 9, 0]).collect();
        assert_eq!(kinds, [DccpOption::SlowReceiver, DccpOption::NdpCount(9)]);
        for nonsense in [&[37, 1, 2, 2][..], &[37, 0, 2], &[37, 200, 2], &[37]] {
            assert_eq!(Options::new(nonsense).count(), 0, "{nonsense:?}");
        }
    }

    #[test]
    fn known_options_of_a_wrong_length_are_told_from_unknown_ones() {
        let only = |bytes| Options::new(bytes).next().expect("one option");
        assert_eq!(only(&[41, 3, 1]), DccpOption::Invalid { kind: 41, data: &[1] });
        assert_eq!(only(&[32, 2]), DccpOption::Invalid { kind: 32, data: &[] });
        assert_eq!(only(&[193, 4, 0, 0]), DccpOption::Invalid { kind: 193, data: &[0, 0] });
        assert_eq!(only(&[99, 3, 1]), DccpOption::Unknown { kind: 99, data: &[1] });
        assert_eq!(only(&[17]), DccpOption::Unknown { kind: 17, data: &[] });
    }

    proptest! {
        #[test]
        fn what_was_read_is_read_the_same_after_it_was_written(
            bytes in prop::collection::vec(prop_oneof![Just(38u8), 30u8..46, 190u8..196, any::<u8>()], 0..80),
        ) {
            let read: Vec<_> = Options::new(&bytes).collect();
            let mut again = Vec::new();
            read.iter().for_each(|option| option.emit(&mut again));
            prop_assert_eq!(Options::new(&again).collect::<Vec<_>>(), read);
        }
    }
}
