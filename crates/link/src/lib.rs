//! Links as chains of elements: what a network does to packets, as sans-IO state machines.
//!
//! A [`Chain`] is a [`Link`](taut_core::Link) made of [`Element`]s. A packet enters the first one, and what leaves one
//! enters the next at that same time.
//!
//! | element | what it does to a packet | parameters (unit) | source |
//! | --- | --- | --- | --- |
//! | [`Delay`] | gives it out later, in order | delay (ns), limit (packets) | `tc-netem(8)` `delay` |
//! | [`Bottleneck`] | makes it wait in a [`Discipline`], then serialises it at a [`Rate`] | rate (bit/s), or a [`MahimahiTrace`] (ms) | ns-3 `PointToPointNetDevice`; Netravali et al., *Mahimahi*, USENIX ATC 2015 |
//! | [`Loss`] | drops it | probability, or [`GilbertElliott`] | `tc-netem(8)` `loss`; Gilbert 1960, Elliott 1963 |
//! | [`Jitter`] | gives it out later by a random length | mean and spread (ns), [`Distribution`], correlation | `tc-netem(8)` `delay … distribution` |
//! | [`Recorded`] | gives it out later or drops it, as a recorded path did | [`PathRecording`] (ms), [`RecordedConfig`] | |
//! | [`Duplicate`] | makes a second one | probability | `tc-netem(8)` `duplicate` |
//! | [`Corrupt`] | flips one bit | probability | `tc-netem(8)` `corrupt` |
//! | [`FrameGate`] | drops it, and all of its video frame | policy, filter | Yuan 2024 |
//! | [`Cut`] | drops it while the link is cut | from and until (time) | |
//!
//! A [`Discipline`] is one of [`DropTail`], [`Codel`], [`FqCodel`], [`Pie`], [`Red`], [`Prio`], [`TokenBucket`] and [`Cake`],
//! each as Linux has it.
//!
//! Delay, mean, spread, loss and rate each take a [`Schedule`]: a constant, or a table of values over time.
//!
//! # Time
//! Every element stamps departures by its own schedule, whenever it is called: a bottleneck that is woken late begins
//! the next packet when the last one was over, and hands the finished one on as of when it was finished. A driver that
//! is late therefore changes neither the order nor the drops nor the long-term rate. At one and the same time,
//! departures come before arrivals: a place that is freed at *t* is free for the packet that arrives at *t*.
//!
//! # Randomness
//! Each random element owns the [`Rng`](taut_core::Rng) it was made with. How many numbers it draws for a packet does
//! not depend on its parameters, so that the same packets meet the same luck when a parameter changes. With the [`Luck`] of
//! slots independent loss, jitter and corruption do not depend on the packets before either, only on when one was sent.
//!
//! # Example
//! ```
//! use taut_core::{Bitrate, Bytes, Duration, Link, Packet, PacketMeta, Time};
//! use taut_link::{Bottleneck, Chain, Delay, DropTail};
//!
//! let queue = DropTail::default().limit_bytes(Bytes::new(14_000));
//! let mut link = Chain::new(vec![
//!     Bottleneck::new(Bitrate::from_bps(6_000_000), queue).into(),
//!     Delay::new(Duration::from_millis(8)).into(),
//! ]);
//!
//! let meta = PacketMeta { size: Bytes::new(750), ..PacketMeta::default() };
//! link.handle_input(Time::ZERO, Packet { meta, payload: Vec::new() });
//! let mut now = Time::ZERO;
//! let packet = loop {
//!     if let Some(packet) = link.poll_transmit(now) {
//!         break packet;
//!     }
//!     now = link.poll_timeout().expect("the packet is inside").at;
//!     link.handle_timeout(now);
//! };
//! // One millisecond to serialise 6000 bits at 6 Mbit/s, eight to propagate.
//! assert_eq!(now, Time::ZERO + Duration::from_millis(9));
//! assert_eq!(packet.meta, meta);
//! ```

mod bottleneck;
mod chain;
mod corrupt;
mod cut;
mod delay;
mod distribution;
mod duplicate;
pub mod frame_gate;
mod jitter;
mod loss;
mod luck;
mod mahimahi;
mod queue;
mod rate;
mod recorded;
mod schedule;
mod stage;

pub use bottleneck::Bottleneck;
pub use chain::{Chain, Element};
pub use corrupt::Corrupt;
pub use cut::Cut;
pub use delay::Delay;
pub use distribution::Distribution;
pub use duplicate::Duplicate;
pub use frame_gate::FrameGate;
pub use jitter::{Jitter, JitterConfig, JitterError};
pub use loss::{GilbertElliott, Loss};
pub use luck::Luck;
pub use mahimahi::{MahimahiError, MahimahiTrace};
pub use queue::{
    AckFilter, Cake, CakeConfig, CakeStats, Codel, CodelConfig, CodelStats, Discipline, DropTail, FqCodel,
    FqCodelConfig, FqCodelStats, Framing, Isolation, Pie, PieConfig, PieStats, Prio, Red, RedConfig,
    RedStats, TinStats, Tins, TokenBucket, TokenBucketConfig, TokenBucketStats,
};
pub use rate::Rate;
pub use recorded::{Later, PathRecording, Recorded, RecordedConfig, RecordedError};
pub use schedule::{Schedule, ScheduleError};
