//! The contract of links, and of the queues inside them.

use crate::{Bytes, Deadline, Packet, PacketMeta, Time};

/// Takes packets in and gives them out later, or not at all. A chain of links is a link.
///
/// After every `handle_*` call the driver polls `poll_transmit` and `poll_event` until both are empty. Every packet
/// that went in comes out, is reported as dropped with its cause, or is shown by [`Link::visit_held`].
pub trait Link {
    /// A packet enters.
    fn handle_input(&mut self, now: Time, packet: Packet);
    /// The deadline has come.
    fn handle_timeout(&mut self, now: Time);
    /// The next packet that leaves at or before `now`.
    fn poll_transmit(&mut self, now: Time) -> Option<Packet>;
    /// What happened to packets on the way.
    fn poll_event(&mut self) -> Option<LinkEvent>;
    /// When `handle_timeout` has something to do, and what.
    fn poll_timeout(&self) -> Option<Deadline>;
    /// Shows every packet inside, wherever: waiting, in service or propagating; in no particular order.
    fn visit_held(&self, visit: &mut dyn FnMut(&PacketMeta));
    /// How much is inside.
    fn held(&self) -> Backlog {
        let mut held = Backlog::default();
        self.visit_held(&mut |meta| held.add(meta.size));
        held
    }
    /// Packets that wait in queues. The packet in service is not in the queue.
    fn queued(&self) -> Backlog;
    /// What its queues count besides, by name; nothing where they do not.
    fn counters(&self) -> Vec<(String, u64)> {
        Vec::new()
    }
}

/// A queueing discipline: decides who waits, who goes next and who is dropped. The server that empties it, and its
/// rate, are not its concern.
///
/// Drops are pushed to `events` at the call that decides them.
pub trait Queue {
    /// Takes the packet in, or drops it (or another one for it).
    fn enqueue(&mut self, now: Time, packet: Packet, events: &mut Vec<LinkEvent>);
    /// The packet that goes next, if there is one and it may go now.
    fn dequeue(&mut self, now: Time, events: &mut Vec<LinkEvent>) -> Option<Packet>;
    /// What waits.
    fn backlog(&self) -> Backlog;
    /// Shows every packet that waits, in no particular order.
    fn visit(&self, visit: &mut dyn FnMut(&PacketMeta));
    /// When `dequeue` may succeed although it did not before: only shaping disciplines have one.
    fn poll_timeout(&self) -> Option<Deadline> {
        None
    }
}

/// How much waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Packets.
    pub packets: u64,
    /// Their wire length.
    pub bytes: Bytes,
}

impl Backlog {
    /// One packet more.
    pub fn add(&mut self, size: Bytes) {
        self.packets += 1;
        self.bytes += size;
    }

    /// One packet less. Panics when it was never added.
    pub fn remove(&mut self, size: Bytes) {
        self.packets -= 1;
        self.bytes = self.bytes - size;
    }
}

impl std::ops::Add for Backlog {
    type Output = Self;
    fn add(self, rhs: Self) -> Self {
        Self { packets: self.packets + rhs.packets, bytes: self.bytes + rhs.bytes }
    }
}

/// What happened to a packet inside a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkEvent {
    /// It is gone.
    Dropped {
        /// Which one.
        meta: PacketMeta,
        /// Why.
        cause: DropCause,
    },
    /// A second one exists now; `meta` is the new one's.
    Duplicated {
        /// The new one.
        meta: PacketMeta,
    },
    /// A bit was flipped.
    Corrupted {
        /// Which one.
        meta: PacketMeta,
    },
    /// A queue set Congestion Experienced.
    Marked {
        /// Which one.
        meta: PacketMeta,
    },
}

crate::named! {
    /// Why something is gone. Every drop has one, in links and in endpoints alike.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    #[non_exhaustive]
    pub enum DropCause {
        /// Random loss on the medium.
        Loss = "loss",
        /// The queue's limit in packets.
        QueueFullPackets = "queue_full_packets",
        /// The queue's limit in bytes.
        QueueFullBytes = "queue_full_bytes",
        /// The link was cut.
        Cut = "cut",
        /// The delay element held as many packets as it may.
        DelayFull = "delay_full",
        /// A checksum did not match.
        Corrupted = "corrupted",
        /// A newer sample took its place before it was sent.
        Superseded = "superseded",
        /// Older than its deadline.
        TooLate = "too_late",
        /// Already delivered once.
        Duplicate = "duplicate",
        /// The sender's buffer was full.
        SendBufferFull = "send_buffer_full",
        /// Not a packet of this protocol.
        Malformed = "malformed",
        /// The sender stopped trying: a limit on retransmissions, or the connection ended.
        Abandoned = "abandoned",
        /// Its authentication failed, or it came from nobody that is trusted.
        Unauthenticated = "unauthenticated",
        /// Authentic, but seen before or too old to tell.
        Replayed = "replayed",
        /// It holds a number that is not finite, or an orientation that is none.
        NotFinite = "not_finite",
        /// Beyond what the robot lets itself be told.
        OutOfLimits = "out_of_limits",
        /// More in a second than the receiver takes.
        RateLimited = "rate_limited",
        /// The robot is stopped and takes no motion.
        Stopped = "stopped",
        /// Active queue management: a queue that is not full says that it is too long.
        Aqm = "aqm",
        /// An acknowledgement that a later one in the same queue made superfluous.
        AckFiltered = "ack_filtered",
        /// Larger than what is to carry it will ever take: the bucket of a shaper, or a transport's longest message.
        TooBig = "too_big",
        /// The frame gate dropped its whole video frame before the queue.
        Gated = "gated",
    }
}
