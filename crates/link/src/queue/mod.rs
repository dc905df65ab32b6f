//! Queueing disciplines: who waits, who goes next, who is dropped.

mod cake;
mod codel;
mod counters;
mod drop_tail;
mod fifo;
mod flow;
mod fq_codel;
mod pie;
mod prio;
mod red;
mod token_bucket;

pub use cake::{AckFilter, Cake, CakeConfig, CakeStats, Framing, Isolation, TinStats, Tins};
pub use codel::{Codel, CodelConfig, CodelStats};
pub use drop_tail::DropTail;
pub use fq_codel::{FqCodel, FqCodelConfig, FqCodelStats};
pub use pie::{Pie, PieConfig, PieStats};
pub use prio::Prio;
pub use red::{Red, RedConfig, RedStats};
pub use token_bucket::{TokenBucket, TokenBucketConfig, TokenBucketStats};

use taut_core::{Backlog, Bytes, Deadline, LinkEvent, Packet, PacketMeta, Queue, Time};

/// Any discipline that a [`Bottleneck`](crate::Bottleneck) can have, made from one of them, and what every one counts.
///
/// ```
/// use taut_link::{Codel, Discipline};
/// let queue = Discipline::from(Codel::default());
/// assert!(queue.counters().contains(&("drops".to_owned(), 0)));
/// ```
#[derive(Clone, Debug)]
pub struct Discipline {
    kind: Kind,
    sent: Backlog,
    drops: u64,
}

/// A new one implements [`Queue`], gets a variant here and a line in `disciplines!` below.
#[derive(Clone, Debug)]
enum Kind {
    DropTail(DropTail),
    Codel(Box<Codel>),
    FqCodel(Box<FqCodel>),
    Pie(Box<Pie>),
    Red(Box<Red>),
    Prio(Prio),
    TokenBucket(TokenBucket),
    Cake(Box<Cake>),
}

impl Discipline {
    /// The size of the packet that goes next, where that is certain before it is taken.
    fn front(&self) -> Option<Bytes> {
        match &self.kind {
            Kind::DropTail(queue) => queue.front(),
            _ => None,
        }
    }

    /// Takes the packet in and gives out the one that goes next, for a server that is idle: the same as `enqueue` and
    /// `dequeue`, without moving a packet in and out of memory where it is clear that it goes next.
    #[inline]
    pub(crate) fn pass(&mut self, now: Time, packet: Packet, events: &mut Vec<LinkEvent>) -> Option<Packet> {
        match &self.kind {
            Kind::DropTail(queue) if queue.passes(&packet) => {
                self.sent.add(packet.meta.size);
                Some(packet)
            }
            _ => {
                self.enqueue(now, packet, events);
                self.dequeue(now, events)
            }
        }
    }

    #[inline]
    fn count_drops(&mut self, events: &[LinkEvent]) {
        if !events.is_empty() {
            let drops = events.iter().filter(|event| matches!(event, LinkEvent::Dropped { .. }));
            self.drops += drops.count() as u64;
        }
    }
}

macro_rules! disciplines {
    ($($kind:ident),*) => {
        impl Queue for Discipline {
            #[inline]
            fn enqueue(&mut self, now: Time, packet: Packet, events: &mut Vec<LinkEvent>) {
                let before = events.len();
                match &mut self.kind {
                    $(Kind::$kind(queue) => queue.enqueue(now, packet, events),)*
                }
                self.count_drops(&events[before..]);
            }

            #[inline]
            fn dequeue(&mut self, now: Time, events: &mut Vec<LinkEvent>) -> Option<Packet> {
                let before = events.len();
                let packet = match &mut self.kind {
                    $(Kind::$kind(queue) => queue.dequeue(now, events),)*
                };
                self.count_drops(&events[before..]);
                if let Some(packet) = &packet {
                    self.sent.add(packet.meta.size);
                }
                packet
            }

            #[inline]
            fn backlog(&self) -> Backlog {
                match &self.kind {
                    $(Kind::$kind(queue) => queue.backlog(),)*
                }
            }

            fn visit(&self, visit: &mut dyn FnMut(&PacketMeta)) {
                match &self.kind {
                    $(Kind::$kind(queue) => queue.visit(visit),)*
                }
            }

            #[inline]
            fn poll_timeout(&self) -> Option<Deadline> {
                match &self.kind {
                    $(Kind::$kind(queue) => queue.poll_timeout(),)*
                }
            }
        }

        $(impl From<$kind> for Discipline {
            fn from(queue: $kind) -> Self {
                Self { kind: Kind::$kind(queue.into()), sent: Backlog::default(), drops: 0 }
            }
        })*
    };
}
disciplines!(DropTail, Codel, FqCodel, Pie, Red, Prio, TokenBucket, Cake);
