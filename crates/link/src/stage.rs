//! What elements that hold packets have in common, inside this crate.

use taut_core::{LinkEvent, Packet, PacketMeta, Time};

/// An element that holds packets for a time. It keeps its own schedule: what is due happens as of when it is due, which
/// may be before now.
///
/// Before `push(at, …)` the caller does all steps that are due at or before `at`, so that departures come before
/// arrivals and an element never sees its past change.
pub(crate) trait Stage {
    /// A packet enters at `at`, not before the one before it.
    fn push(&mut self, at: Time, packet: Packet, events: &mut Vec<LinkEvent>);
    /// When `step` has something to do; [`Time::MAX`] for never.
    fn due(&self) -> Time;
    /// Does what is due, as of [`Stage::due`], and gives out the packet that left then, if one did.
    fn step(&mut self, events: &mut Vec<LinkEvent>) -> Option<Packet>;
    /// What for.
    fn why(&self) -> &'static str;
    /// Shows every packet inside.
    fn visit_held(&self, visit: &mut dyn FnMut(&PacketMeta));
}
