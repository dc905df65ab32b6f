//! CAKE's filter of TCP acknowledgements (*Piece of CAKE*, section 3.4; `tc-cake(8)`, `ack-filter`).
//!
//! A cumulative acknowledgement says all that the ones before it said. On a slow way back, those that still wait when
//! it arrives only fill the queue.

use taut_core::{IPV4_HEADER, Packet, Protocol};

use crate::queue::fifo::StampedFifo;

/// Which acknowledgements are dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
        let mut eligible: Option<(usize, u8)> = None;
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

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
/// ECE and CWR (RFC 3168 section 6.1).
const ECHO: u8 = 0xc0;
/// All but ACK, ECE and CWR.
const OTHERS: u8 = 0x2f;

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
    flags: u8,
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
            number: u32::from_be_bytes(header[8..12].try_into().ok()?),
            flags: header[13],
            options: packet.body().get(20..length)?,
            pure: packet.meta.size.get() == ip_header + length as u64,
        })
    }

    /// Does `newer` say all that this one says?
    fn is_superseded_by(&self, newer: &Self) -> bool {
        let ahead = newer.number.wrapping_sub(self.number) as i32;
        let plain = self.pure && self.flags & ACK != 0 && self.flags & OTHERS == 0 && ahead >= 0;
        if !plain {
            return false;
        }
        let (Some(old), Some(new)) = (Options::parse(self.options), Options::parse(newer.options)) else {
            return false;
        };
        let newer_times = match (old.times, new.times) {
            (Some(old), Some(new)) => (0..2).all(|i| new[i].wrapping_sub(old[i]) as i32 >= 0),
            (None, _) => true,
            (Some(_), None) => false,
        };
        // A block that the old one reports must be below the new number or in one of the new blocks.
        let covers = |block: &[u32; 2]| {
            let within = |of: &[u32; 2]| {
                block[0].wrapping_sub(of[0]) as i32 >= 0 && of[1].wrapping_sub(block[1]) as i32 >= 0
            };
            newer.number.wrapping_sub(block[1]) as i32 >= 0 || new.blocks().iter().any(within)
        };
        // A duplicate that says no more than the one before is a signal in itself (RFC 5681 section 3.2).
        let says_more = ahead > 0 || old.blocks() != new.blocks();
        newer_times && says_more && old.blocks().iter().all(covers)
    }
}

/// Timestamps (RFC 7323 section 3.2) and selective acknowledgements (RFC 2018 section 3).
#[derive(Default)]
struct Options {
    times: Option<[u32; 2]>,
    blocks: [[u32; 2]; 4],
    count: usize,
}

impl Options {
    /// `None` where there is anything else, or something broken.
    fn parse(mut bytes: &[u8]) -> Option<Self> {
        let mut options = Self::default();
        let word = |bytes: &[u8]| bytes.try_into().map(u32::from_be_bytes).ok();
        while let [kind, rest @ ..] = bytes {
            if *kind == 0 {
                break;
            }
            if *kind == 1 {
                bytes = rest;
                continue;
            }
            let length = usize::from(*rest.first()?);
            let value = bytes.get(2..length)?;
            match (kind, length) {
                (8, 10) => options.times = Some([word(&value[..4])?, word(&value[4..])?]),
                (5, 10 | 18 | 26 | 34) => {
                    for block in value.chunks_exact(8) {
                        *options.blocks.get_mut(options.count)? = [word(&block[..4])?, word(&block[4..])?];
                        options.count += 1;
                    }
                }
                _ => return None,
            }
            bytes = &bytes[length..];
        }
        Some(options)
    }

    fn blocks(&self) -> &[[u32; 2]] {
        &self.blocks[..self.count]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use taut_core::{Bytes, PacketMeta, Time};

    fn ack(number: u32, flags: u8, data: u64) -> Packet {
        let mut payload = vec![0; 20];
        payload[8..12].copy_from_slice(&number.to_be_bytes());
        payload[12] = 5 << 4;
        payload[13] = flags;
        let size = Bytes::new(IPV4_HEADER + 20 + data);
        let meta = PacketMeta { id: number.into(), size, protocol: Protocol::Tcp, ..PacketMeta::default() };
        Packet { meta, payload }
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
        assert_eq!(filtered(AckFilter::Off, acks()), []);
        assert_eq!(filtered(AckFilter::On, acks()), [1_000, 2_000, 3_000]);
        assert_eq!(filtered(AckFilter::Aggressive, acks()), [1_000, 2_000, 3_000, 4_000]);
    }

    #[test]
    fn data_duplicates_and_changes_of_the_echo_stay() {
        let keep = |packets| assert_eq!(filtered(AckFilter::Aggressive, packets), []);
        keep(vec![ack(1_000, ACK, 100), ack(2_000, ACK, 0)]);
        keep(vec![ack(1_000, ACK, 0), ack(1_000, ACK, 0), ack(1_000, ACK, 0)]);
        keep(vec![ack(1_000, ACK | 0x40, 0), ack(2_000, ACK, 0)]);
        keep(vec![ack(1_000, ACK | 0x01, 0), ack(2_000, ACK, 0)]);
        keep(vec![ack(2_000, ACK, 0), ack(1_000, ACK, 0)]);
    }
}
