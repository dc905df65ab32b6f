//! A teleoperation session: an operator with a device, a robot, and between them any transport.
//!
//! [`Operator`] and [`Robot`] are the two ends. Both are sans-IO: generic over [`taut_core::Transport`], they have a
//! transport's five verbs towards their driver and know no clock but the `now` that they are handed.
//!
//! | concern | where | what it does |
//! | --- | --- | --- |
//! | bytes | [`Codec`] | our own frames ([`taut_wire::session`]), or the source's 71 bytes ([`taut_wire::omni71`]) |
//! | sending | `sending` | both ends alike: what waits, what goes when, what is under way, what arrived |
//! | priorities | `sending::queue` | emergency at once, high, normal at its rate; bounded; the newest first |
//! | deadlines | `sending::queue`, [`Robot`] | age since creation: before queueing, before sending, on arrival, before use |
//! | delivery | `sending::tracker`, `rate` | acknowledgements, round trips, losses; the rate steps down and up |
//! | queues of its own | `congestion` | no more under way than the path carries, all frames of a direction together, so that a stop does not wait |
//! | clocks | [`ClockEstimator`] | offset and drift with a bound on their error |
//! | channels | [`Channel`] | any other messages, declared by both ends: superseded, repeated while there is time, or reliable |
//! | safety | `safety`, [`motion`] | watchdog, latched emergency stop, limits; beside the robot |
//! | commands | `command` | stop, reset and resume, repeated until acknowledged |
//! | measures | [`Status`] | the status line, and everything as data |
//!
//! # What is always true
//! - A robot moves only when it was told to resume, by an operator that knew of its last stop, and only by states that
//!   were made after that resume. An emergency stop is reset before that, which moves nothing.
//! - No state is applied twice, out of order, at or beyond its deadline, or with a number that is not finite.
//! - The set point given to the device moves no faster, by the robot's own clock, than its limits allow.
//! - Everything that is made is delivered, dropped with its cause, or lost on the network; every drop is counted.
//! - Memory is bounded, whatever the peer sends.
//!
//! Source: Clerix, *Comparative Analysis of QUIC and Other Network Protocols for Real-Time Robotic Control*, UHasselt/KU
//! Leuven, 2025, for priorities, streams, rates and the sample; states are named after CRTK (Collaborative Robotics
//! Toolkit).

mod channel;
mod codec;
mod command;
mod config;
mod congestion;
mod counters;
pub mod diagnostics;
mod latency;
mod life;
pub mod motion;
mod operator;
mod port;
mod rate;
mod robot;
mod safety;
mod sending;
mod state;
mod status;
mod sync;
mod window;

pub use channel::{
    Channel, ChannelDefaults, ChannelError, ChannelEvent, ChannelId, ChannelRefusal, ChannelSummary, Packing,
    Playout, Quantity, Sampling, Schema, SendRefused,
};
pub use codec::Codec;
pub use config::{FEEDBACK_DEADLINE, OperatorConfig, Processing, RobotConfig};
pub use congestion::Congestion;
pub use counters::StreamSummary;
pub use latency::LatencySummary;
pub use life::{OperatorLife, RobotLife};
pub use motion::{LimitPolicy, MotionLimits};
pub use operator::{INCOMPATIBLE_INTERVAL, Operator, OperatorEvent, ResumeError, StateError};
pub use robot::{Robot, RobotEvent, patience};
pub use safety::Latch;
pub use sending::Order;
pub use state::{Priority, State, Turning};
pub use status::{ClockSummary, Status};
pub use taut_core::{ClockEstimate, ClockEstimator, Exchange, PeerTime};
pub use taut_media::{DeadbandConfig, Repair, Scheme, SchemeError, TrendConfig};
pub use taut_wire::session::{
    Answer, ChannelKind, ControlLaw, Delivery, Direction, Encoding, LawKind, Limits, RefusalReason,
    RobotState, StopCause, Verdict,
};
