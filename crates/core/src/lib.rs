//! Time, quantities, seeds and the contracts that every part of taut shares.
//!
//! Nothing here touches an operating system. A part of taut is a state machine: bytes and a clock reading go in,
//! bytes, events and the next deadline come out. Three contracts say how, all with the same verbs:
//!
//! | verb | [`Transport`] | [`Link`] | [`Node`] |
//! | --- | --- | --- | --- |
//! | `handle_input` | a datagram arrived | a packet enters | a packet arrived |
//! | `handle_timeout` | the deadline has come | the deadline has come | the deadline has come |
//! | `poll_transmit` | a datagram to send | a packet leaves | a packet to send |
//! | `poll_event` | delivered, dropped, connected | dropped, marked, duplicated | made, delivered, dropped |
//! | `poll_timeout` | when, and why | when, and why | when, and why |
//!
//! The order in which a driver calls them is part of the contract: after every `handle_*` (and `send`), poll
//! `poll_transmit` and `poll_event` until both are empty, then read `poll_timeout`. Calling `handle_timeout` early is
//! harmless; calling it late is lateness, never an error.

mod bucket;
mod choice;
mod clock;
mod deadline;
mod jitter_buffer;
mod link;
mod named;
mod nearest;
mod node;
mod origin;
mod packet;
mod paths;
mod printable;
mod replay;
mod rtt;
mod seed;
mod time;
mod transport;
mod turn;
mod units;

pub use bucket::LeakyBucket;
pub use choice::{Choice, PathEstimate, Reason};
pub use clock::{ClockEstimate, ClockEstimator, Exchange, PeerTime};
pub use deadline::{Deadline, earliest};
pub use jitter_buffer::{HoldTarget, InterarrivalJitter, JitterBuffer, JitterStats, Played};
pub use link::{Backlog, DropCause, Link, LinkEvent, Queue};
pub use nearest::nearest;
pub use node::{Medium, Node, NodeEvent, Sample};
pub use origin::Origin;
pub use packet::{Address, Ecn, FlowId, IPV4_HEADER, Packet, PacketMeta, PathId, Protocol, UDP_HEADER};
pub use paths::{PathEntry, PathHeard, PathTable};
pub use printable::{Printable, is_harmless, printable};
pub use replay::{ReplayWindow, Sighting};
pub use rtt::RttEstimator;
pub use seed::{Rng, Seed};
pub use time::{Duration, Time};
pub use transport::{
    Datagram, Event, Message, Priority, Reliability, SendError, StreamId, Transmit, Transport, Waiting,
};
pub use turn::{FARTHEST_TURN, Orientation};
pub use units::{Bitrate, Bytes, ParseQuantityError, Probability};
