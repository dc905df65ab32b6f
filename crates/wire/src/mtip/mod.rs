//! Packets of MTIP: one message, several paths (Rico, Luque-Schempp, Merino, *Evaluation of MTIP, MPTCP and MPQUIC for a
//! Time-Sensitive Application*).
//!
//! [`compatible`] has the published format. The improved one, here, keeps its flags and its 16 bytes, big-endian, and
//! mends what they lack: numbers of 32 bits, which are 49 days at 1 kHz; the age of a message instead of a timestamp that
//! only synchronised clocks can read; acknowledgements that repeat what earlier ones said, so that a lost one does no harm,
//! and that carry what an exchange of four timestamps needs (RFC 5905 section 8).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------+-------+---------------+-------------------------------+
//! |version| flag  |verdict, where |   stream (DATA) or 0          |
//! +-------+-------+---------------+-------------------------------+
//! |   number of the message (DATA, ACK), of the probe, or 0       |
//! +---------------------------------------------------------------+
//! |                                                               |
//! +                 sender's clock as it sends, ns                +
//! |                                                               |
//! +---------------------------------------------------------------+
//! second byte: of an ACK the verdict; of DATA in the last bit 1 when it is to be answered on every path, before it how long its answer may
//! wait ([`Hold`]: four bits e and three bits m for (8 + m)·2^e µs, 0 for not at all); otherwise 0
//! DATA: age in µs (4), deadline in µs (4; 0xFFFFFFFF: none), the message
//! ACK: clock of what is acknowledged (8), ns since it arrived (4), messages before it that arrived on the same path (8, a
//! bit each); instead of the stream 1 when what is acknowledged came on another path than this one
//! KPA: nothing
//! LINK, LINKACK: conversation (8); LINKACK: clock of the LINK (8), ns since it arrived (4)
//! FIN, FINACK: conversation (8)
//! ```
//!
//! ```
//! use taut_wire::mtip::{Body, Hold, Repr};
//! let (stream, payload, everywhere, hold) = (2, b"walk", false, Hold::NONE);
//! let data =
//!     Body::Data { stream, number: 7, everywhere, hold, age_us: 120, deadline_us: Some(15_000), payload };
//! let (packet, mut bytes) = (Repr { clock_ns: 9, body: data }, Vec::new());
//! packet.emit(&mut bytes);
//! assert_eq!(Repr::parse(&bytes), Ok(packet));
//! ```

pub mod compatible;
mod hold;

pub use hold::Hold;

/// The version that this module speaks; the published protocol has none.
pub const VERSION: u8 = 3;
/// Bytes of the header.
pub const HEADER_LEN: usize = 16;
/// Bytes before the message in DATA.
pub const DATA_HEADER_LEN: usize = 24;

const NO_DEADLINE: u32 = u32::MAX;

/// A packet, borrowing its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr<'a> {
    /// The sender's clock as it sends.
    pub clock_ns: u64,
    /// The rest.
    pub body: Body<'a>,
}

/// What kind of packet it is, and what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// The client wants this path.
    Link {
        /// Chosen at random; another one begins another conversation.
        conversation: u64,
    },
    /// The server has it.
    LinkAck {
        /// As in the LINK.
        conversation: u64,
        /// The LINK's arrival.
        echo: Echo,
    },
    /// A packet arrived on this path.
    Ack(Ack),
    /// Is this path alive?
    KeepAlive {
        /// Counts probes of this path.
        number: u32,
    },
    /// A copy of a message.
    Data {
        /// Its logical stream.
        stream: u16,
        /// Counts messages, modulo 2³²; all copies have the same.
        number: u32,
        /// It is to be acknowledged on every path, not only on the one it came on: a lost answer costs another copy.
        everywhere: bool,
        /// So long its answer may wait for others.
        hold: Hold,
        /// How long ago it was made, when this copy was sent.
        age_us: u32,
        /// The age at which it is worthless.
        deadline_us: Option<u32>,
        /// The message.
        payload: &'a [u8],
    },
    /// Goodbye.
    Fin {
        /// As in the LINK.
        conversation: u64,
    },
    /// Goodbye too.
    FinAck {
        /// As in the LINK.
        conversation: u64,
    },
}

/// Which packet an answer answers, for an exchange of four timestamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Echo {
    /// That packet's clock.
    pub clock_ns: u64,
    /// How long ago it arrived, when the answer was sent.
    pub hold_ns: u32,
}

/// What arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// What became of it; of a probe, [`Verdict::Control`].
    pub verdict: Verdict,
    /// Of the message or the probe.
    pub number: u32,
    /// Its arrival.
    pub echo: Echo,
    /// It did not come on this path, but on another one.
    pub elsewhere: bool,
    /// Bit *i*: message `number` − 1 − *i* arrived as well, on the path that this one came on.
    pub before: u64,
}

/// What became of a packet: one ASCII byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// `1`: the message arrived in time, for the first time.
    OnTime,
    /// `2`: it was there already.
    Duplicate,
    /// `3`: it is past its deadline.
    Late,
    /// `4`: the packet was no message.
    Control,
}

/// Why bytes are not a packet of this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not as many bytes as the packet has.
    #[error("{found} bytes where {needed} are needed")]
    Length {
        /// What it needs.
        needed: usize,
        /// What there is.
        found: usize,
    },
    /// Another version.
    #[error("version {0}, not {VERSION}")]
    Version(u8),
    /// A flag that has no meaning.
    #[error("unknown flag {0}")]
    Flag(u8),
    /// A bit is set that has no meaning in this version.
    #[error("reserved bits are set")]
    Reserved,
}

impl<'a> Repr<'a> {
    /// Reads a packet.
    ///
    /// # Errors
    /// When the bytes are not one of this version.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let mut reader = Reader { rest: bytes, len: bytes.len(), needed: 0 };
        let [first, second] = reader.take()?;
        let (version, flag) = (first >> 4, first & 0x0f);
        if version != VERSION {
            return Err(Error::Version(version));
        }
        let (stream, number) = (u16::from_be_bytes(reader.take()?), reader.u32()?);
        let clock_ns = reader.u64()?;
        let numbered = matches!(flag, 2..=4);
        let stream_fits = stream == 0 || flag == 4 || flag == 2 && stream == 1;
        let second_fits = second == 0 || flag == 2 || flag == 4;
        if !stream_fits || !second_fits || number != 0 && !numbered {
            return Err(if flag > 6 { Error::Flag(flag) } else { Error::Reserved });
        }
        let body = match flag {
            0 => Body::Link { conversation: reader.u64()? },
            1 => Body::LinkAck { conversation: reader.u64()?, echo: reader.echo()? },
            2 => Body::Ack(Ack {
                verdict: Verdict::from_byte(second).ok_or(Error::Reserved)?,
                number,
                echo: reader.echo()?,
                elsewhere: stream == 1,
                before: reader.u64()?,
            }),
            3 => Body::KeepAlive { number },
            4 => {
                let (age_us, deadline) = (reader.u32()?, reader.u32()?);
                let payload = std::mem::take(&mut reader.rest);
                let deadline_us = Some(deadline).filter(|us| *us != NO_DEADLINE);
                let (everywhere, hold) = (second & 1 == 1, Hold::from_bits(second >> 1));
                Body::Data { stream, number, everywhere, hold, age_us, deadline_us, payload }
            }
            5 => Body::Fin { conversation: reader.u64()? },
            6 => Body::FinAck { conversation: reader.u64()? },
            _ => return Err(Error::Flag(flag)),
        };
        reader.end().map(|()| Self { clock_ns, body })
    }

    /// Appends the packet.
    pub fn emit(&self, buffer: &mut Vec<u8>) {
        let (flag, second, stream, number) = match self.body {
            Body::Link { .. } => (0, 0, 0, 0),
            Body::LinkAck { .. } => (1, 0, 0, 0),
            Body::Ack(ack) => (2, ack.verdict.byte(), ack.elsewhere.into(), ack.number),
            Body::KeepAlive { number } => (3, 0, 0, number),
            Body::Data { stream, number, everywhere, hold, .. } => {
                (4, hold.bits() << 1 | u8::from(everywhere), stream, number)
            }
            Body::Fin { .. } => (5, 0, 0, 0),
            Body::FinAck { .. } => (6, 0, 0, 0),
        };
        buffer.extend_from_slice(&[VERSION << 4 | flag, second]);
        buffer.extend_from_slice(&u16::to_be_bytes(stream));
        buffer.extend_from_slice(&u32::to_be_bytes(number));
        buffer.extend_from_slice(&self.clock_ns.to_be_bytes());
        match self.body {
            Body::Link { conversation } | Body::Fin { conversation } | Body::FinAck { conversation } => {
                buffer.extend_from_slice(&conversation.to_be_bytes());
            }
            Body::LinkAck { conversation, echo } => {
                buffer.extend_from_slice(&conversation.to_be_bytes());
                echo.emit(buffer);
            }
            Body::Ack(ack) => {
                ack.echo.emit(buffer);
                buffer.extend_from_slice(&ack.before.to_be_bytes());
            }
            Body::KeepAlive { .. } => {}
            Body::Data { age_us, deadline_us, payload, .. } => {
                buffer.extend_from_slice(&age_us.to_be_bytes());
                buffer.extend_from_slice(&deadline_us.unwrap_or(NO_DEADLINE).to_be_bytes());
                buffer.extend_from_slice(payload);
            }
        }
    }
}

impl Verdict {
    const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            b'1' => Some(Self::OnTime),
            b'2' => Some(Self::Duplicate),
            b'3' => Some(Self::Late),
            b'4' => Some(Self::Control),
            _ => None,
        }
    }

    const fn byte(self) -> u8 {
        match self {
            Self::OnTime => b'1',
            Self::Duplicate => b'2',
            Self::Late => b'3',
            Self::Control => b'4',
        }
    }
}

impl Echo {
    fn emit(self, buffer: &mut Vec<u8>) {
        buffer.extend_from_slice(&self.clock_ns.to_be_bytes());
        buffer.extend_from_slice(&self.hold_ns.to_be_bytes());
    }
}

/// Takes fields from the front.
struct Reader<'a> {
    rest: &'a [u8],
    len: usize,
    needed: usize,
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        self.needed += N;
        let (field, rest) = self
            .rest
            .split_first_chunk::<N>()
            .ok_or(Error::Length { needed: self.needed, found: self.len })?;
        self.rest = rest;
        Ok(*field)
    }

    fn u32(&mut self) -> Result<u32, Error> {
        self.take().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Result<u64, Error> {
        self.take().map(u64::from_be_bytes)
    }

    fn echo(&mut self) -> Result<Echo, Error> {
        Ok(Echo { clock_ns: self.u64()?, hold_ns: self.u32()? })
    }

    fn end(&self) -> Result<(), Error> {
        let whole = Error::Length { needed: self.needed, found: self.len };
        if self.rest.is_empty() { Ok(()) } else { Err(whole) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use taut_core::Duration;

    const CLOCK: u64 = 0x0102_0304_0506_0708;

    /// Packets, and their bytes after the clock.
    fn golden() -> Vec<(Body<'static>, [u8; 8], Vec<u8>)> {
        let echo = Echo { clock_ns: 0x11, hold_ns: 0x22 };
        let echoed = [0, 0, 0, 0, 0, 0, 0, 0x11, 0, 0, 0, 0x22];
        let conversation = 0xa1a2_a3a4_a5a6_a7a8;
        let named = [0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8];
        let data = |everywhere, hold| Body::Data {
            stream: 3,
            number: 0x99,
            everywhere,
            hold: Hold::at_least(Duration::from_micros(hold)),
            age_us: 500,
            deadline_us: Some(15_000),
            payload: b"walk",
        };
        let sent = || [&[0, 0, 1, 0xf4, 0, 0, 0x3a, 0x98], &b"walk"[..]].concat();
        let ack = |elsewhere| Ack { verdict: Verdict::Late, number: 7, echo, elsewhere, before: 1 << 63 };
        let mut acked = echoed.to_vec();
        acked.extend([0x80, 0, 0, 0, 0, 0, 0, 0]);
        vec![
            (Body::Link { conversation }, [0x30, 0, 0, 0, 0, 0, 0, 0], named.to_vec()),
            (
                Body::LinkAck { conversation, echo },
                [0x31, 0, 0, 0, 0, 0, 0, 0],
                [&named[..], &echoed].concat(),
            ),
            (Body::Ack(ack(false)), [0x32, b'3', 0, 0, 0, 0, 0, 7], acked.clone()),
            (Body::Ack(ack(true)), [0x32, b'3', 0, 1, 0, 0, 0, 7], acked),
            (Body::KeepAlive { number: 5 }, [0x33, 0, 0, 0, 0, 0, 0, 5], vec![]),
            (data(false, 0), [0x34, 0, 0, 3, 0, 0, 0, 0x99], sent()),
            (data(true, 0), [0x34, 1, 0, 3, 0, 0, 0, 0x99], sent()),
            // (8 + 4)·2⁷ µs.
            (data(false, 1_500), [0x34, 0b0111_1000, 0, 3, 0, 0, 0, 0x99], sent()),
            (Body::Fin { conversation }, [0x35, 0, 0, 0, 0, 0, 0, 0], named.to_vec()),
            (Body::FinAck { conversation }, [0x36, 0, 0, 0, 0, 0, 0, 0], named.to_vec()),
        ]
    }

    fn bytes(head: [u8; 8], rest: &[u8]) -> Vec<u8> {
        [&head[..], &CLOCK.to_be_bytes(), rest].concat()
    }

    #[test]
    fn golden_bytes_parse_and_are_emitted() {
        for (body, head, rest) in golden() {
            let (repr, bytes) = (Repr { clock_ns: CLOCK, body }, bytes(head, &rest));
            assert_eq!(Repr::parse(&bytes), Ok(repr));
            let mut emitted = Vec::new();
            repr.emit(&mut emitted);
            assert_eq!(emitted, bytes);
        }
    }

    #[test]
    fn a_packet_that_is_cut_or_too_long_is_refused() {
        for (body, head, rest) in golden() {
            let mut whole = bytes(head, &rest);
            let least = if matches!(body, Body::Data { .. }) { DATA_HEADER_LEN } else { whole.len() };
            for len in 0..least {
                assert!(matches!(Repr::parse(&whole[..len]), Err(Error::Length { .. })), "{body:?}, {len}");
            }
            whole.push(0);
            assert_eq!(Repr::parse(&whole).is_ok(), least == DATA_HEADER_LEN && head[0] == 0x34, "{body:?}");
        }
    }

    #[test]
    fn other_versions_flags_and_reserved_bits_are_refused() {
        let (_, head, rest) = golden().swap_remove(0);
        let with = |at: usize, byte: u8| {
            let mut bytes = bytes(head, &rest);
            bytes[at] = byte;
            bytes
        };
        assert_eq!(Repr::parse(&with(0, 0x20)), Err(Error::Version(2)));
        assert_eq!(Repr::parse(&with(0, 0x37)), Err(Error::Flag(7)));
        for (at, byte) in [(1, 1), (3, 1), (7, 1)] {
            assert_eq!(Repr::parse(&with(at, byte)), Err(Error::Reserved), "{at}");
        }
    }

    proptest! {
        #[test]
        fn what_parses_is_emitted_again(bytes in prop::collection::vec(any::<u8>(), 0..60), flag in 0u8..8) {
            let mut bytes = bytes;
            if let Some(place) = bytes.get_mut(..4) {
                place.copy_from_slice(&[
                    VERSION << 4 | flag,
                    match flag {
                        2 => b'1',
                        4 => place[1],
                        _ => 0,
                    },
                    0,
                    0,
                ]);
            }
            if let Ok(repr) = Repr::parse(&bytes) {
                let mut emitted = Vec::new();
                repr.emit(&mut emitted);
                prop_assert_eq!(emitted, bytes);
            }
        }
    }
}
