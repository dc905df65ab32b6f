//! First in, first out, with a limit: `tc-pfifo(8)` and `tc-bfifo(8)`.

use std::collections::VecDeque;

use taut_core::{Backlog, Bytes, DropCause, LinkEvent, Packet, PacketMeta, Queue, Time};

/// Drops a packet that does not fit any more; one that fits exactly is taken in.
///
/// ```
/// use taut_core::Bytes;
/// use taut_link::DropTail;
/// let queue = DropTail::default().limit_packets(100).limit_bytes(Bytes::new(14_000));
/// # let _ = queue;
/// ```
#[derive(Clone, Debug)]
pub struct DropTail {
    packets: VecDeque<Packet>,
    backlog: Backlog,
    limit_packets: u64,
    limit_bytes: Bytes,
}

impl DropTail {
    /// Packets that may wait, unless [`DropTail::limit_packets`] says otherwise.
    pub const DEFAULT_LIMIT_PACKETS: u64 = 1_000_000;

    /// At most `packets` wait ([`DropCause::QueueFullPackets`]). 0: nothing is ever taken in, not even by an idle
    /// server. Default: [`DropTail::DEFAULT_LIMIT_PACKETS`].
    pub const fn limit_packets(mut self, packets: u64) -> Self {
        self.limit_packets = packets;
        self
    }

    /// At most `bytes` wait, by wire length ([`DropCause::QueueFullBytes`]). Default: no such limit.
    pub const fn limit_bytes(mut self, bytes: Bytes) -> Self {
        self.limit_bytes = bytes;
        self
    }

    pub(super) fn front(&self) -> Option<Bytes> {
        self.packets.front().map(|packet| packet.meta.size)
    }

    /// Would the packet be taken in and go next?
    #[inline]
    pub(super) fn passes(&self, packet: &Packet) -> bool {
        self.packets.is_empty() && self.limit_packets > 0 && packet.meta.size <= self.limit_bytes
    }
}

impl Default for DropTail {
    fn default() -> Self {
        Self {
            packets: VecDeque::new(),
            backlog: Backlog::default(),
            limit_packets: Self::DEFAULT_LIMIT_PACKETS,
            limit_bytes: Bytes::new(u64::MAX),
        }
    }
}

impl Queue for DropTail {
    #[inline]
    fn enqueue(&mut self, _: Time, packet: Packet, events: &mut Vec<LinkEvent>) {
        let size = packet.meta.size;
        let cause = if self.backlog.packets >= self.limit_packets {
            DropCause::QueueFullPackets
        } else if size > self.limit_bytes.saturating_sub(self.backlog.bytes) {
            DropCause::QueueFullBytes
        } else {
            self.backlog.add(size);
            self.packets.push_back(packet);
            return;
        };
        events.push(LinkEvent::Dropped { meta: packet.meta, cause });
    }

    #[inline]
    fn dequeue(&mut self, _: Time, _: &mut Vec<LinkEvent>) -> Option<Packet> {
        let packet = self.packets.pop_front()?;
        self.backlog.remove(packet.meta.size);
        Some(packet)
    }

    #[inline]
    fn backlog(&self) -> Backlog {
        self.backlog
    }

    fn visit(&self, visit: &mut dyn FnMut(&PacketMeta)) {
        self.packets.iter().for_each(|packet| visit(&packet.meta));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    fn packet(id: u64, size: u64) -> Packet {
        Packet {
            meta: PacketMeta { id, size: Bytes::new(size), ..PacketMeta::default() },
            payload: Vec::new(),
        }
    }

    fn drops(queue: &mut DropTail, sizes: &[u64]) -> Vec<(u64, DropCause)> {
        let mut events = Vec::new();
        for (id, size) in (0..).zip(sizes) {
            queue.enqueue(Time::ZERO, packet(id, *size), &mut events);
        }
        let dropped = |event: &LinkEvent| match event {
            LinkEvent::Dropped { meta, cause } => Some((meta.id, *cause)),
            _ => None,
        };
        events.iter().filter_map(dropped).collect()
    }

    #[test]
    fn a_packet_that_exactly_fits_is_taken_and_a_byte_more_is_not() {
        let mut queue = DropTail::default().limit_bytes(Bytes::new(1_000));
        assert_eq!(
            drops(&mut queue, &[600, 401, 400, 1, 0]),
            [(1, DropCause::QueueFullBytes), (3, DropCause::QueueFullBytes)]
        );
        assert_eq!(queue.backlog(), Backlog { packets: 3, bytes: Bytes::new(1_000) });
    }

    #[test]
    fn the_limit_in_packets_is_named_first() {
        let mut queue = DropTail::default().limit_packets(2).limit_bytes(Bytes::new(10));
        assert_eq!(drops(&mut queue, &[5, 5, 5]), [(2, DropCause::QueueFullPackets)]);
        let order: Vec<u64> =
            std::iter::from_fn(|| queue.dequeue(Time::ZERO, &mut Vec::new())).map(|p| p.meta.id).collect();
        assert_eq!(order, [0, 1]);
        assert_eq!(queue.backlog(), Backlog::default());
    }
}
