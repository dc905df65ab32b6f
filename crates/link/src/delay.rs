//! Constant propagation delay.

use std::collections::VecDeque;

use taut_core::{DropCause, Duration, LinkEvent, Packet, PacketMeta, Time};

use crate::Schedule;
use crate::stage::Stage;

/// Gives every packet out later by the same length, in order.
///
/// The delay that a packet meets is the one in force when it enters. When a table lowers the delay, packets do not
/// overtake: one leaves together with its predecessor at the earliest.
#[derive(Clone, Debug)]
pub struct Delay {
    delay: Schedule<Duration>,
    line: DelayLine,
}

impl Delay {
    /// Packets held at most, unless [`Delay::limit`] says otherwise.
    pub const DEFAULT_LIMIT: usize = 1_000_000;

    /// A delay of `delay`, 0 or more; constant or a [`Schedule`].
    pub fn new(delay: impl Into<Schedule<Duration>>) -> Self {
        Self { delay: delay.into(), line: DelayLine::new(Self::DEFAULT_LIMIT) }
    }

    /// Holds at most `packets`; one that enters while as many are inside is dropped
    /// ([`DropCause::DelayFull`]). Default: [`Delay::DEFAULT_LIMIT`].
    pub fn limit(mut self, packets: usize) -> Self {
        self.line.limit = packets;
        self
    }
}

impl Stage for Delay {
    #[inline]
    fn push(&mut self, at: Time, packet: Packet, events: &mut Vec<LinkEvent>) {
        self.line.push(at + self.delay.at(at), packet, events);
    }

    #[inline]
    fn due(&self) -> Time {
        self.line.due
    }

    #[inline]
    fn step(&mut self, _: &mut Vec<LinkEvent>) -> Option<Packet> {
        self.line.pop()
    }

    fn why(&self) -> &'static str {
        "propagated"
    }

    fn visit_held(&self, visit: &mut dyn FnMut(&PacketMeta)) {
        self.line.visit(visit);
    }
}

/// Packets with the times at which they leave, first in first out, and a bound.
#[derive(Clone, Debug)]
pub(crate) struct DelayLine {
    /// Each with when it leaves.
    packets: VecDeque<(Time, Packet)>,
    /// When the first one leaves.
    due: Time,
    /// When the last one leaves, or left.
    last: Time,
    pub(crate) limit: usize,
}

impl DelayLine {
    pub(crate) fn new(limit: usize) -> Self {
        Self { packets: VecDeque::new(), due: Time::MAX, last: Time::ZERO, limit }
    }

    /// Leaves at `departure`, or with its predecessor when that is later.
    #[inline]
    pub(crate) fn push(&mut self, departure: Time, packet: Packet, events: &mut Vec<LinkEvent>) {
        if self.packets.len() >= self.limit {
            events.push(LinkEvent::Dropped { meta: packet.meta, cause: DropCause::DelayFull });
            return;
        }
        self.last = departure.max(self.last);
        if self.packets.is_empty() {
            self.due = self.last;
        }
        self.packets.push_back((self.last, packet));
    }

    /// The packet that leaves at `due`.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Packet> {
        let (_, packet) = self.packets.pop_front()?;
        self.due = self.packets.front().map_or(Time::MAX, |(departure, _)| *departure);
        Some(packet)
    }

    pub(crate) fn due(&self) -> Time {
        self.due
    }

    pub(crate) fn visit(&self, visit: &mut dyn FnMut(&PacketMeta)) {
        self.packets.iter().for_each(|(_, packet)| visit(&packet.meta));
    }
}
