//! Ack Vectors (RFC 4340 section 11.4) and Loss Intervals (RFC 4342 section 8.6): which packets arrived.

use super::Seq;

/// What an Ack Vector says of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckState {
    /// Received.
    Received,
    /// Received with Congestion Experienced.
    Marked,
    /// Not yet received.
    NotReceived,
}

/// An Ack Vector: run-length cells, the newest packet first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckVector<'a> {
    /// ECN Nonce Echo. Always 0 from senders that send ECT(0) only; the nonce became historic with RFC 8311.
    pub nonce: bool,
    /// A state in 2 bits and the count less one in 6 bits, each.
    pub cells: &'a [u8],
}

/// Packets in one state: `count` of them, the newest being `newest`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckRun {
    /// The newest of them.
    pub newest: Seq,
    /// How many, 1 to 64.
    pub count: u64,
    /// What became of them; `None` for the reserved state 2.
    pub state: Option<AckState>,
}

/// The most packets that one cell can hold.
pub const MAX_RUN: u64 = 64;

impl<'a> AckVector<'a> {
    /// The runs, beginning with the packet `newest`: the Acknowledgement Number for the first vector of a packet, one
    /// below the last run for the next one.
    pub fn runs(self, newest: Seq) -> impl Iterator<Item = AckRun> + 'a {
        self.cells.iter().scan(newest, |next, cell| {
            let run = AckRun {
                newest: *next,
                count: u64::from(cell & 0x3f) + 1,
                state: match cell >> 6 {
                    0 => Some(AckState::Received),
                    1 => Some(AckState::Marked),
                    2 => None,
                    _ => Some(AckState::NotReceived),
                },
            };
            *next = next.minus(run.count);
            Some(run)
        })
    }
}

/// Appends the cells of an Ack Vector for `states`, the newest packet first, `limit` cells at most. What does not fit is
/// left out: it is the oldest.
///
/// ```
/// use taut_wire::dccp::{AckState::*, emit_cells};
/// let mut cells = Vec::new();
/// emit_cells([Received, Received, NotReceived, Marked], 8, &mut cells);
/// assert_eq!(cells, [0x01, 0xc0, 0x40]);
/// ```
pub fn emit_cells(states: impl IntoIterator<Item = AckState>, limit: usize, cells: &mut Vec<u8>) {
    let begin = cells.len();
    for state in states {
        let head = match state {
            AckState::Received => 0,
            AckState::Marked => 0x40,
            AckState::NotReceived => 0xc0,
        };
        let full = cells.len() - begin == limit;
        match cells[begin..].last_mut() {
            Some(cell) if *cell & 0xc0 == head && *cell & 0x3f < 0x3f => *cell += 1,
            _ if full => return,
            _ => cells.push(head),
        }
    }
}

/// A loss interval: at most a round trip of lost or marked packets, then packets of which none was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LossInterval {
    /// Packets in the part without loss, below 2²⁴.
    pub lossless: u32,
    /// ECN Nonce Echo.
    pub nonce: bool,
    /// Packets in the part with loss, below 2²³.
    pub lossy: u32,
    /// Data packets in all, below 2²⁴: what the loss event rate is calculated from.
    pub data: u32,
}

/// The Loss Intervals option, the newest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LossIntervals<'a> {
    bytes: &'a [u8],
}

/// Bytes of one interval.
const INTERVAL_LEN: usize = 9;

impl<'a> LossIntervals<'a> {
    /// The most intervals that one option holds.
    pub const MAX: usize = 28;

    /// The data of the option; `None` unless it is a skip length and whole intervals, one at least.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let intervals = bytes.len().checked_sub(1)?;
        (intervals > 0 && intervals.is_multiple_of(INTERVAL_LEN)).then_some(Self { bytes })
    }

    /// Packets up to and including the Acknowledgement Number that belong to no interval yet.
    pub fn skip(self) -> u8 {
        self.bytes[0]
    }

    /// The intervals, the newest first.
    pub fn iter(self) -> impl Iterator<Item = LossInterval> + 'a {
        self.bytes[1..].chunks_exact(INTERVAL_LEN).map(|bytes| {
            let field = |at: usize| u32::from_be_bytes([0, bytes[at], bytes[at + 1], bytes[at + 2]]);
            LossInterval {
                lossless: field(0),
                nonce: bytes[3] & 0x80 != 0,
                lossy: field(3) & 0x7f_ffff,
                data: field(6),
            }
        })
    }

    pub(super) fn bytes(self) -> &'a [u8] {
        self.bytes
    }
}

impl LossInterval {
    /// What the lossless length is cut to: where it is as long, nothing tells how long it was.
    pub const LONGEST: u32 = 0xff_ffff;

    /// Appends the interval; what is too long for its field is cut to the longest.
    pub fn emit(&self, buffer: &mut Vec<u8>) {
        let nonce = if self.nonce { 0x80_0000 } else { 0 };
        for field in
            [self.lossless.min(Self::LONGEST), self.lossy.min(0x7f_ffff) | nonce, self.data.min(0xff_ffff)]
        {
            buffer.extend_from_slice(&field.to_be_bytes()[1..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 4340 section 11.4: with Acknowledgement Number 10, the cells 0/0, 3/0, 0/4... mean 10 received, 9 not, 8 to 4
    /// received.
    #[test]
    fn runs_count_down_from_the_acknowledgement_number() {
        let vector = AckVector { nonce: false, cells: &[0x00, 0xc0, 0x04, 0x81] };
        let runs: Vec<_> = vector.runs(Seq::new(10)).collect();
        let run = |newest, count, state| AckRun { newest: Seq::new(newest), count, state };
        let expected = [
            run(10, 1, Some(AckState::Received)),
            run(9, 1, Some(AckState::NotReceived)),
            run(8, 5, Some(AckState::Received)),
            run(3, 2, None),
        ];
        assert_eq!(runs, expected);
    }

    #[test]
    fn a_run_is_split_after_64_and_the_oldest_are_left_out() {
        let mut cells = Vec::new();
        emit_cells(std::iter::repeat_n(AckState::Received, 100), 8, &mut cells);
        assert_eq!(cells, [0x3f, 0x23]);
        cells.clear();
        emit_cells([AckState::Received, AckState::Marked, AckState::Received], 2, &mut cells);
        assert_eq!(cells, [0x00, 0x40]);
    }

    /// The example of RFC 4342 section 8.6.2, but for its option number and length.
    #[test]
    fn example_of_rfc_4342_section_8_6_2() {
        let bytes = [
            2, 0, 0, 10, 128, 0, 1, 0, 0, 10, 0, 0, 8, 0, 0, 5, 0, 0, 10, 0, 0, 8, 0, 0, 1, 0, 0, 8, 0, 0,
            10, 128, 0, 0, 0, 0, 15,
        ];
        let option = LossIntervals::parse(&bytes).expect("four intervals");
        let interval = |lossless, nonce, lossy, data| LossInterval { lossless, nonce, lossy, data };
        let expected = [
            interval(10, true, 1, 10),
            interval(8, false, 5, 10),
            interval(8, false, 1, 8),
            interval(10, true, 0, 15),
        ];
        assert_eq!(option.skip(), 2);
        assert!(option.iter().eq(expected));
        let mut emitted = vec![2];
        expected.iter().for_each(|interval| interval.emit(&mut emitted));
        assert_eq!(emitted, bytes);
    }

    fn state() -> impl Strategy<Value = AckState> {
        prop_oneof![Just(AckState::Received), Just(AckState::Marked), Just(AckState::NotReceived)]
    }

    proptest! {
        #[test]
        fn states_come_out_as_they_went_in(
            runs in prop::collection::vec((state(), 1usize..150), 0..20), newest in 0..Seq::MODULUS,
        ) {
            let states: Vec<_> = runs.iter().flat_map(|(state, n)| std::iter::repeat_n(*state, *n)).collect();
            let mut cells = Vec::new();
            emit_cells(states.iter().copied(), 253, &mut cells);
            let vector = AckVector { nonce: false, cells: &cells };
            let read: Vec<_> = vector
                .runs(Seq::new(newest))
                .flat_map(|run| (0..run.count).map(move |back| (run.newest.minus(back), run.state)))
                .collect();
            let expected: Vec<_> = states
                .iter()
                .enumerate()
                .map(|(back, state)| (Seq::new(newest).minus(back as u64), Some(*state)))
                .collect();
            prop_assert_eq!(read, expected);
        }
    }
}
