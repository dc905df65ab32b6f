//! CAKE's filter of TCP acknowledgements (*Piece of CAKE*, section 3.4; `tc-cake(8)`, `ack-filter`).
//!
//! A cumulative acknowledgement says all that the ones before it said. On a slow way back, those that still wait when
//! it arrives only fill the queue.

use std::cmp::Ordering;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taut_core::{IPV4_HEADER, Packet, Protocol};

use crate::queue::fifo::StampedFifo;

/// Which acknowledgements are dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AckFilter {
    /// None.
    #[default]
    Off,
    /// One for each that enters, while two superfluous ones wait.
    On,
    /// One for each that enters, also the last superfluous one.
    Aggressive,
}

impl AckFilter {
    /// Takes out the acknowledgement nearest to the head that the packet at the tail makes superfluous.
    pub(super) fn take_from(self, fifo: &mut StampedFifo) -> Option<Packet> {
        if self == Self::Off || fifo.backlog().packets < 2 {
            return None;
        }
        let last = fifo.backlog().packets as usize - 1;
        let newest = fifo.get(last)?;
        let ack = Acknowledgement::parse(newest).filter(|ack| ack.flags & (ACK | SYN) == ACK)?;
        let mut eligible: Option<(usize, u16)> = None;
        let mut found = 0;
        for place in 0..last {
            let packet = fifo.get(place)?;
            let Some(old) = Acknowledgement::parse(packet).filter(|_| same_flow(packet, newest)) else {
                continue;
            };
            // What echoes congestion must not go where the echo changes.
            if eligible.is_some_and(|(_, echo)| old.flags & ECHO != echo) {
                eligible = None;
                found -= 1;
            }
            if !old.is_superseded_by(&ack) {
                continue;
            }
            eligible = eligible.or(Some((place, old.flags & ECHO)));
            if found > 0 {
                return eligible.map(|(place, _)| fifo.remove(place));
            }
            found += 1;
        }
        let (place, echo) = eligible?;
        let last_one_too = self == Self::Aggressive && place + 1 == last && echo == ack.flags & ECHO;
        last_one_too.then(|| fifo.remove(place))
    }
}

const SYN: u16 = 0x002;
const ACK: u16 = 0x010;
/// ECE and CWR (RFC 3168 section 6.1).
const ECHO: u16 = 0x0c0;

fn same_flow(a: &Packet, b: &Packet) -> bool {
    let ends = |packet: &Packet| {
        let meta = &packet.meta;
        (meta.source, meta.destination, meta.source_port, meta.destination_port, meta.flow)
    };
    ends(a) == ends(b)
}

/// What the filter reads of a TCP header (RFC 9293 section 3.1).
struct Acknowledgement<'a> {
    number: u32,
    /// With the four bits before them, reserved or of a later use (AE, RFC 9768).
    flags: u16,
    options: &'a [u8],
    pure: bool,
}

impl<'a> Acknowledgement<'a> {
    fn parse(packet: &'a Packet) -> Option<Self> {
        if packet.meta.protocol != Protocol::Tcp {
            return None;
        }
        let header = packet.body().get(..20)?;
        let length = usize::from(header[12] >> 4) * 4;
        let ip_header = if packet.meta.headers == 0 { IPV4_HEADER } else { packet.meta.headers.into() };
        Some(Self {
            number: word(header, 8),
            flags: u16::from_be_bytes([header[12], header[13]]) & 0xfff,
            options: packet.body().get(20..length)?,
            pure: packet.meta.size.get() == ip_header + length as u64,
        })
    }

    /// Does `newer` say all that this one says?
    fn is_superseded_by(&self, newer: &Self) -> bool {
        let plain = self.pure && self.flags & !ECHO == ACK && !is_after(self.number, newer.number);
        if !plain || !self.may_go(newer.times()) {
            return false;
        }
        match self.blocks_against(newer) {
            Ordering::Less => true,
            // A duplicate that says no more than the one before is a signal in itself (RFC 5681 section 3.2).
            Ordering::Equal => self.number != newer.number,
            Ordering::Greater => false,
        }
    }

    /// Has it no option that says more than an acknowledgement with these times?
    fn may_go(&self, newer: [u32; 2]) -> bool {
        options(self.options).all(|(kind, value)| match kind {
            MD5 => true,
            SACK => value.len() % 8 == 0,
            TIMES if value.len() == 8 => (0..2).all(|i| !is_after(word(value, 4 * i), newer[i])),
            _ => false,
        })
    }

    /// Zeros where there are none, as in Linux.
    fn times(&self) -> [u32; 2] {
        match options(self.options).find(|(kind, _)| *kind == TIMES) {
            Some((_, value)) if value.len() == 8 => [word(value, 0), word(value, 4)],
            _ => [0; 2],
        }
    }

    fn blocks(&self) -> impl Iterator<Item = [u32; 2]> + '_ {
        let sack = options(self.options).find(|(kind, _)| *kind == SACK).map_or(&[][..], |(_, value)| value);
        sack.chunks_exact(8).map(|block| [word(block, 0), word(block, 4)])
    }

    /// Are these selective acknowledgements fewer bytes than those of `newer`, each within one of them? Greater where one
    /// is not, and where one is of what the number acknowledges already (a duplicate's, RFC 2883), which is told once.
    fn blocks_against(&self, newer: &Self) -> Ordering {
        let covered = |[start, end]: [u32; 2]| {
            let within = |[from, to]: [u32; 2]| !is_after(from, start) && !is_after(end, to);
            !is_after(self.number, start) && newer.blocks().any(within)
        };
        if !self.blocks().all(covered) {
            return Ordering::Greater;
        }
        let bytes =
            |ack: &Self| ack.blocks().map(|[start, end]| end.wrapping_sub(start)).fold(0, u32::wrapping_add);
        // What is within the other's blocks is never more, unless one block lies in another.
        bytes(self).cmp(&bytes(newer)).min(Ordering::Equal)
    }
}

const MD5: u8 = 19;
/// RFC 2018 section 3.
const SACK: u8 = 5;
/// RFC 7323 section 3.2.
const TIMES: u8 = 8;

/// Kinds and values, up to the end or to what is broken; without padding.
fn options(mut bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        loop {
            let [kind, rest @ ..] = bytes else { return None };
            match kind {
                0 => return None,
                1 => bytes = rest,
                _ => {
                    let length = usize::from(*rest.first()?);
                    let value = bytes.get(2..length)?;
                    bytes = &bytes[length..];
                    return Some((*kind, value));
                }
            }
        }
    })
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Is sequence number `a` after `b` (RFC 9293 section 3.4)?
const fn is_after(a: u32, b: u32) -> bool {
    (b.wrapping_sub(a) as i32) < 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use taut_core::{Bytes, PacketMeta, Time};

    fn ack(number: u32, flags: u16, data: u64) -> Packet {
        with_options(number, flags, &[], data)
    }

    fn with_options(number: u32, flags: u16, options: &[u8], data: u64) -> Packet {
        let mut payload = vec![0; 20];
        payload.extend(options);
        payload.resize(payload.len().next_multiple_of(4), 0);
        payload[8..12].copy_from_slice(&number.to_be_bytes());
        let words = payload.len() as u16 / 4;
        payload[12..14].copy_from_slice(&(words << 12 | flags).to_be_bytes());
        let size = Bytes::new(IPV4_HEADER + payload.len() as u64 + data);
        let meta = PacketMeta { id: number.into(), size, protocol: Protocol::Tcp, ..PacketMeta::default() };
        Packet { meta, payload }
    }

    fn sack(number: u32, blocks: &[[u32; 2]]) -> Packet {
        let mut option = vec![1, 1, SACK, 2 + 8 * blocks.len() as u8];
        option.extend(blocks.iter().flatten().flat_map(|edge| edge.to_be_bytes()));
        with_options(number, ACK, if blocks.is_empty() { &[] } else { &option }, 0)
    }

    fn timed(number: u32, value: u32, echo: u32) -> Packet {
        let mut option = vec![1, 1, TIMES, 10];
        option.extend([value, echo].into_iter().flat_map(u32::to_be_bytes));
        with_options(number, ACK, &option, 0)
    }

    /// Does the second, behind the first, take its place?
    fn replaces(old: Packet, new: Packet) -> bool {
        filtered(AckFilter::Aggressive, vec![old, new]).len() == 1
    }

    /// Which are dropped when these enter one after the other.
    fn filtered(filter: AckFilter, packets: Vec<Packet>) -> Vec<u64> {
        let mut fifo = StampedFifo::default();
        let enter = |packet| {
            fifo.push(Time::ZERO, packet);
            filter.take_from(&mut fifo).map(|packet| packet.meta.id)
        };
        packets.into_iter().filter_map(enter).collect()
    }

    #[test]
    fn two_superfluous_ones_are_needed_unless_it_is_aggressive() {
        let acks = || (1..=5).map(|number| ack(number * 1_000, ACK, 0)).collect();
        assert_eq!(filtered(AckFilter::Off, acks()), [0; 0]);
        assert_eq!(filtered(AckFilter::On, acks()), [1_000, 2_000, 3_000]);
        assert_eq!(filtered(AckFilter::Aggressive, acks()), [1_000, 2_000, 3_000, 4_000]);
    }

    #[test]
    fn data_duplicates_and_changes_of_the_echo_stay() {
        let keep = |packets| assert_eq!(filtered(AckFilter::Aggressive, packets), [0; 0]);
        keep(vec![ack(1_000, ACK, 100), ack(2_000, ACK, 0)]);
        keep(vec![ack(1_000, ACK, 0), ack(1_000, ACK, 0), ack(1_000, ACK, 0)]);
        keep(vec![ack(1_000, ACK | 0x040, 0), ack(2_000, ACK, 0)]);
        keep(vec![ack(1_000, ACK | 0x001, 0), ack(2_000, ACK, 0)]);
        keep(vec![ack(2_000, ACK, 0), ack(1_000, ACK, 0)]);
    }
    /// Linux's mask is 0x0f3f of data offset and flags: ECE and CWR are judged by their change alone.
    #[test]
    fn reserved_bits_and_other_flags_stay() {
        assert!(replaces(ack(1_000, ACK, 0), ack(2_000, ACK, 0)));
        for other in [0x001, 0x002, 0x004, 0x008, 0x020, 0x100, 0x200, 0x400, 0x800] {
            assert!(!replaces(ack(1_000, ACK | other, 0), ack(2_000, ACK, 0)), "{other:#x}");
        }
    }

    /// RFC 2883: the first block may tell of what came twice, and no later acknowledgement tells it again.
    #[test]
    fn one_that_tells_of_a_duplicate_stays() {
        let duplicate = || sack(5_000, &[[3_000, 4_000]]);
        assert!(!replaces(duplicate(), sack(6_000, &[])));
        assert!(!replaces(duplicate(), sack(6_000, &[[3_000, 4_000]])));
        assert!(!replaces(sack(5_000, &[[6_000, 7_000], [4_999, 5_500]]), sack(5_000, &[[4_000, 9_000]])));
    }

    /// Also where the newer number acknowledges all that the blocks tell.
    #[test]
    fn one_with_blocks_stays_unless_each_is_within_a_newer_one() {
        assert!(!replaces(sack(1_000, &[[2_000, 3_000]]), sack(3_000, &[])));
        assert!(!replaces(sack(1_000, &[[2_000, 3_000]]), sack(3_000, &[[4_000, 5_000]])));
        assert!(!replaces(sack(1_000, &[[2_000, 3_000]]), sack(1_500, &[[2_001, 4_000]])));
        assert!(!replaces(sack(1_000, &[[2_000, 3_000], [5_000, 6_000]]), sack(1_500, &[[2_000, 4_000]])));
        assert!(replaces(sack(1_000, &[[2_000, 3_000]]), sack(1_500, &[[2_000, 3_000]])));
        assert!(replaces(sack(1_000, &[]), sack(1_500, &[[2_000, 3_000]])));
        assert!(replaces(
            sack(u32::MAX - 9, &[[u32::MAX - 4, 3]]),
            sack(u32::MAX - 8, &[[20, 30], [u32::MAX - 4, 5]])
        ));
    }

    #[test]
    fn a_duplicate_goes_only_for_one_with_more_bytes() {
        let old = || sack(1_000, &[[2_000, 3_000]]);
        assert!(!replaces(old(), old()));
        assert!(replaces(old(), sack(1_000, &[[2_000, 3_001]])));
        assert!(replaces(old(), sack(1_000, &[[5_000, 6_000], [2_000, 3_000]])));
        assert!(replaces(sack(1_000, &[]), old()));
        // As many bytes in other blocks say no more.
        let two = sack(1_000, &[[2_000, 2_500], [2_500, 3_000]]);
        assert!(!replaces(two, old()));
    }

    #[test]
    fn newer_times_and_unknown_options_stay() {
        assert!(replaces(timed(1_000, 7, 8), timed(2_000, 7, 9)));
        assert!(!replaces(timed(1_000, 7, 8), timed(2_000, 6, 9)));
        assert!(!replaces(timed(1_000, 7, 8), timed(2_000, 7, 7)));
        assert!(!replaces(timed(1_000, 7, 8), ack(2_000, ACK, 0)));
        assert!(replaces(timed(1_000, u32::MAX, 8), timed(2_000, 1, 8)));
        let of = |option: &[u8]| with_options(1_000, ACK, option, 0);
        assert!(!replaces(of(&[2, 4, 5, 220]), ack(2_000, ACK, 0)), "MSS belongs to a SYN");
        assert!(!replaces(of(&[254, 4, 0, 0]), ack(2_000, ACK, 0)), "an experiment");
        assert!(!replaces(of(&[TIMES, 4, 0, 0]), ack(2_000, ACK, 0)), "times of another length");
        let mut md5 = vec![MD5, 18];
        md5.resize(18, 0xab);
        assert!(replaces(of(&md5), ack(2_000, ACK, 0)));
        // What stands in the newer one does not matter.
        assert!(replaces(ack(1_000, ACK, 0), with_options(2_000, ACK, &[254, 4, 0, 0], 0)));
    }
}
