//! What elements that hold packets have in common, inside this crate.

use taut_core::{Backlog, LinkEvent, Packet, Time};

/// An element that holds packets for a time. It keeps its own schedule: `pop` says when each packet left, which may be
/// before `now`.
///
/// Before `push(at, …)` the caller pops everything that left at or before `at`, so that departures come before
/// arrivals and an element never sees its past change.
pub(crate) trait Stage {
    /// A packet enters at `at`, not before the one before it.
    fn push(&mut self, at: Time, packet: Packet, events: &mut Vec<LinkEvent>);
    /// The next packet that left at or before `now`, and when it left.
    fn pop(&mut self, now: Time, events: &mut Vec<LinkEvent>) -> Option<(Time, Packet)>;
    /// When `pop` has something to do; [`Time::MAX`] for never.
    fn due(&self) -> Time;
    /// What for.
    fn why(&self) -> &'static str;
    /// All packets inside.
    fn held(&self) -> Backlog;
    /// Those that wait in a queueing discipline.
    fn queued(&self) -> Backlog {
        Backlog::default()
    }
}
