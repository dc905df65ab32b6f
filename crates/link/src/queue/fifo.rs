//! What the disciplines with active management are made of: packets in order, each with the time at which it came.

use std::collections::VecDeque;

use taut_core::{Backlog, Ecn, LinkEvent, Packet, PacketMeta, Time};

/// First in, first out, and how much waits.
#[derive(Clone, Debug, Default)]
pub(super) struct StampedFifo {
    packets: VecDeque<(Time, Packet)>,
    backlog: Backlog,
}

impl StampedFifo {
    #[inline]
    pub(super) fn push(&mut self, now: Time, packet: Packet) {
        self.backlog.add(packet.meta.size);
        self.packets.push_back((now, packet));
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<(Time, Packet)> {
        let stamped = self.packets.pop_front()?;
        self.backlog.remove(stamped.1.meta.size);
        Some(stamped)
    }

    pub(super) fn get(&self, place: usize) -> Option<&Packet> {
        self.packets.get(place).map(|(_, packet)| packet)
    }

    /// Panics when there is none at this place.
    pub(super) fn remove(&mut self, place: usize) -> Packet {
        let (_, packet) = self.packets.remove(place).expect("a place in the queue");
        self.backlog.remove(packet.meta.size);
        packet
    }

    #[inline]
    pub(super) fn backlog(&self) -> Backlog {
        self.backlog
    }

    pub(super) fn visit(&self, visit: &mut dyn FnMut(&PacketMeta)) {
        self.packets.iter().for_each(|(_, packet)| visit(&packet.meta));
    }
}

/// Sets Congestion Experienced where the sender understands it (RFC 3168 section 5); else the packet is to be dropped.
pub(super) fn mark(packet: &mut Packet, events: &mut Vec<LinkEvent>) -> bool {
    let before = packet.meta.ecn;
    let marked = set_congestion_experienced(packet);
    if marked && before != Ecn::CongestionExperienced {
        events.push(LinkEvent::Marked { meta: packet.meta });
    }
    marked
}

/// The same, for those who may drop the packet all the same and tell nobody before.
pub(super) fn set_congestion_experienced(packet: &mut Packet) -> bool {
    let capable = packet.meta.ecn != Ecn::NotCapable;
    if capable {
        packet.meta.ecn = Ecn::CongestionExperienced;
    }
    capable
}
