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

/// Every discipline that a [`Bottleneck`](crate::Bottleneck) can have.
///
/// A new one implements [`Queue`], gets a variant here and a line in `disciplines!` below.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Discipline {
    /// First in, first out, and a limit (`pfifo`, `bfifo`).
    DropTail(DropTail),
    /// Controlled delay (`codel`).
    Codel(Box<Codel>),
    /// Flow queues with controlled delay (`fq_codel`).
    FqCodel(Box<FqCodel>),
    /// Proportional integral controller enhanced (`pie`).
    Pie(Box<Pie>),
    /// Random early detection (`red`).
    Red(Box<Red>),
    /// Strict priorities (`prio`).
    Prio(Prio),
    /// Token bucket filter (`tbf`).
    TokenBucket(TokenBucket),
    /// Common applications kept enhanced (`cake`).
    Cake(Box<Cake>),
}

impl Discipline {
    /// The size of the packet that goes next, where that is certain before it is taken.
    fn front(&self) -> Option<Bytes> {
        match self {
            Self::DropTail(queue) => queue.front(),
            _ => None,
        }
    }

    /// Takes the packet in and gives out the one that goes next, for a server that is idle: the same as `enqueue` and
    /// `dequeue`, without moving a packet in and out of memory where it is clear that it goes next.
    #[inline]
    pub(crate) fn pass(&mut self, now: Time, packet: Packet, events: &mut Vec<LinkEvent>) -> Option<Packet> {
        match self {
            Self::DropTail(queue) if queue.passes(&packet) => Some(packet),
            _ => {
                self.enqueue(now, packet, events);
                self.dequeue(now, events)
            }
        }
    }
}

macro_rules! disciplines {
    ($($kind:ident),*) => {
        impl Queue for Discipline {
            #[inline]
            fn enqueue(&mut self, now: Time, packet: Packet, events: &mut Vec<LinkEvent>) {
                match self {
                    $(Self::$kind(queue) => queue.enqueue(now, packet, events),)*
                }
            }

            #[inline]
            fn dequeue(&mut self, now: Time, events: &mut Vec<LinkEvent>) -> Option<Packet> {
                match self {
                    $(Self::$kind(queue) => queue.dequeue(now, events),)*
                }
            }

            #[inline]
            fn backlog(&self) -> Backlog {
                match self {
                    $(Self::$kind(queue) => queue.backlog(),)*
                }
            }

            fn visit(&self, visit: &mut dyn FnMut(&PacketMeta)) {
                match self {
                    $(Self::$kind(queue) => queue.visit(visit),)*
                }
            }

            #[inline]
            fn poll_timeout(&self) -> Option<Deadline> {
                match self {
                    $(Self::$kind(queue) => queue.poll_timeout(),)*
                }
            }
        }

        $(impl From<$kind> for Discipline {
            fn from(queue: $kind) -> Self {
                Self::$kind(queue.into())
            }
        })*
    };
}
disciplines!(DropTail, Codel, FqCodel, Pie, Red, Prio, TokenBucket, Cake);
