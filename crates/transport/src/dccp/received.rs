//! Which of the peer's packets arrived: what an Ack Vector is made of, and what finds duplicates.

use taut_core::Time;
use taut_wire::dccp::{AckState, Seq, emit_cells};

/// The most cells of an Ack Vector in one packet. Older packets are left out; the sender takes them for lost when newer
/// ones arrive.
const MAX_CELLS: usize = 120;

/// What a packet is to the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// It came for the first time.
    New,
    /// It came before, or is too old to tell.
    Seen,
}

/// The last packets, in a ring by their sequence number.
#[derive(Clone, Debug)]
pub(super) struct Received {
    ring: Vec<AckState>,
    newest: Seq,
    newest_at: Time,
    /// The oldest packet that the peer has not been told of for sure.
    floor: Seq,
    /// The oldest packet that the ring tells of.
    oldest: Seq,
}

impl Received {
    /// Remembers at least `packets`, the first being `first`.
    pub(super) fn new(now: Time, packets: u64, first: Seq) -> Self {
        let mut ring = vec![AckState::NotReceived; packets.clamp(64, 65_536).next_power_of_two() as usize];
        let slot = first.get() as usize & (ring.len() - 1);
        ring[slot] = AckState::Received;
        Self { ring, newest: first, newest_at: now, floor: first, oldest: first }
    }

    /// A valid packet.
    pub(super) fn record(&mut self, now: Time, seq: Seq, marked: bool) -> Arrival {
        let ahead = seq.since(self.newest);
        if ahead > 0 {
            // Slots between are of packets that are missing; a jump over the whole ring clears it once.
            let missing = (ahead as u64).min(self.ring.len() as u64);
            for back in 0..missing {
                let slot = self.slot(seq.minus(back));
                self.ring[slot] = AckState::NotReceived;
            }
            (self.newest, self.newest_at) = (seq, now);
            let reach = seq.minus(self.ring.len() as u64 - 1);
            self.oldest = self.oldest.max(reach);
            self.floor = self.floor.max(reach);
        } else if seq.is_before(self.oldest) || self.state(seq) != AckState::NotReceived {
            return Arrival::Seen;
        }
        let slot = self.slot(seq);
        self.ring[slot] = if marked { AckState::Marked } else { AckState::Received };
        Arrival::New
    }

    /// The greatest number received, and when.
    pub(super) fn newest(&self) -> (Seq, Time) {
        (self.newest, self.newest_at)
    }

    /// The peer knows of everything up to `seq`: it acknowledged an acknowledgement of that (section 11.4.2).
    pub(super) fn told(&mut self, seq: Seq) {
        if seq.is_before(self.newest) {
            self.floor = self.floor.max(seq.next());
        } else {
            self.floor = self.newest;
        }
    }

    /// Appends the cells of an Ack Vector for the Acknowledgement Number [`newest`](Self::newest).
    pub(super) fn emit_cells(&self, cells: &mut Vec<u8>) {
        let count = self.newest.since(self.floor) as u64;
        let states = (0..=count).map(|back| self.state(self.newest.minus(back)));
        emit_cells(states, MAX_CELLS, cells);
    }

    /// How many from `first` to `last` are missing or were marked.
    pub(super) fn troubled(&self, first: Seq, last: Seq) -> usize {
        let (first, last) =
            (first.max(self.oldest), if last.is_after(self.newest) { self.newest } else { last });
        let count = (last.since(first) + 1).max(0) as u64;
        (0..count).filter(|ahead| self.state(first.plus(*ahead)) != AckState::Received).count()
    }

    fn state(&self, seq: Seq) -> AckState {
        self.ring[self.slot(seq)]
    }

    fn slot(&self, seq: Seq) -> usize {
        seq.get() as usize & (self.ring.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received() -> Received {
        Received::new(Time::ZERO, 64, Seq::new(Seq::MODULUS - 1))
    }

    fn cells(received: &Received) -> Vec<u8> {
        let mut cells = Vec::new();
        received.emit_cells(&mut cells);
        cells
    }

    #[test]
    fn gaps_marks_and_latecomers_are_told_newest_first() {
        let mut received = received();
        assert_eq!(received.record(Time::ZERO, Seq::new(3), true), Arrival::New);
        assert_eq!(cells(&received), [0x40, 0xc2, 0x00]); // 3 marked; 2, 1, 0 missing; 2⁴⁸ − 1
        assert_eq!(received.record(Time::ZERO, Seq::new(1), false), Arrival::New);
        assert_eq!(cells(&received), [0x40, 0xc0, 0x00, 0xc0, 0x00]);
        assert_eq!(received.newest().0, Seq::new(3));
        assert_eq!(received.troubled(Seq::new(0), Seq::new(9)), 3);
        received.told(Seq::new(1));
        assert_eq!(cells(&received), [0x40, 0xc0]);
    }

    #[test]
    fn duplicates_and_packets_out_of_memory_are_told_from_new_ones() {
        let mut received = received();
        assert_eq!(received.record(Time::ZERO, Seq::new(Seq::MODULUS - 1), false), Arrival::Seen);
        assert_eq!(received.record(Time::ZERO, Seq::new(70), false), Arrival::New);
        assert_eq!(received.record(Time::ZERO, Seq::new(70), false), Arrival::Seen);
        assert_eq!(received.record(Time::ZERO, Seq::new(6), false), Arrival::Seen, "64 before is forgotten");
        assert_eq!(received.record(Time::ZERO, Seq::new(7), false), Arrival::New);
        assert_eq!(received.record(Time::ZERO, Seq::new(50_000), false), Arrival::New);
        assert_eq!(received.record(Time::ZERO, Seq::new(49_999), false), Arrival::New);
        assert_eq!(cells(&received), [0x01, 0xfd]);
    }
}
