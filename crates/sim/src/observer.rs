//! Who watches a simulation.

use taut_core::{Address, Backlog, LinkEvent, NodeEvent, Packet, Time};

/// Which link, in the order in which links were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkId(pub u32);

/// Is told everything that happens, in order. Every method does nothing unless it is overridden, and costs nothing then.
///
/// Times are the simulation's, whatever a node's own clock reads.
pub trait Observer {
    /// A node sent a packet; its `id`, `sent` and `source` are set.
    fn sent(&mut self, now: Time, packet: &Packet) {
        let _ = (now, packet);
    }
    /// A packet enters a link.
    fn entered(&mut self, now: Time, link: LinkId, packet: &Packet) {
        let _ = (now, link, packet);
    }
    /// A packet left a link.
    fn left(&mut self, now: Time, link: LinkId, packet: &Packet) {
        let _ = (now, link, packet);
    }
    /// What waits in a link's queues, after every packet that entered and every deadline handled.
    fn queued(&mut self, now: Time, link: LinkId, queued: Backlog) {
        let _ = (now, link, queued);
    }
    /// Something happened to a packet inside a link.
    fn link_event(&mut self, now: Time, link: LinkId, event: &LinkEvent) {
        let _ = (now, link, event);
    }
    /// A packet arrived at a node, which has not yet looked at it.
    fn delivered(&mut self, now: Time, node: Address, packet: &Packet) {
        let _ = (now, node, packet);
    }
    /// A node tells something.
    fn node_event(&mut self, now: Time, node: Address, event: &NodeEvent) {
        let _ = (now, node, event);
    }
}

impl Observer for () {}

/// Two observers side by side, told in this order.
impl<A: Observer, B: Observer> Observer for (A, B) {
    fn sent(&mut self, now: Time, packet: &Packet) {
        self.0.sent(now, packet);
        self.1.sent(now, packet);
    }
    fn entered(&mut self, now: Time, link: LinkId, packet: &Packet) {
        self.0.entered(now, link, packet);
        self.1.entered(now, link, packet);
    }
    fn left(&mut self, now: Time, link: LinkId, packet: &Packet) {
        self.0.left(now, link, packet);
        self.1.left(now, link, packet);
    }
    fn queued(&mut self, now: Time, link: LinkId, queued: Backlog) {
        self.0.queued(now, link, queued);
        self.1.queued(now, link, queued);
    }
    fn link_event(&mut self, now: Time, link: LinkId, event: &LinkEvent) {
        self.0.link_event(now, link, event);
        self.1.link_event(now, link, event);
    }
    fn delivered(&mut self, now: Time, node: Address, packet: &Packet) {
        self.0.delivered(now, node, packet);
        self.1.delivered(now, node, packet);
    }
    fn node_event(&mut self, now: Time, node: Address, event: &NodeEvent) {
        self.0.node_event(now, node, event);
        self.1.node_event(now, node, event);
    }
}

/// An observer that may be absent.
impl<O: Observer> Observer for Option<O> {
    fn sent(&mut self, now: Time, packet: &Packet) {
        if let Some(o) = self {
            o.sent(now, packet);
        }
    }
    fn entered(&mut self, now: Time, link: LinkId, packet: &Packet) {
        if let Some(o) = self {
            o.entered(now, link, packet);
        }
    }
    fn left(&mut self, now: Time, link: LinkId, packet: &Packet) {
        if let Some(o) = self {
            o.left(now, link, packet);
        }
    }
    fn queued(&mut self, now: Time, link: LinkId, queued: Backlog) {
        if let Some(o) = self {
            o.queued(now, link, queued);
        }
    }
    fn link_event(&mut self, now: Time, link: LinkId, event: &LinkEvent) {
        if let Some(o) = self {
            o.link_event(now, link, event);
        }
    }
    fn delivered(&mut self, now: Time, node: Address, packet: &Packet) {
        if let Some(o) = self {
            o.delivered(now, node, packet);
        }
    }
    fn node_event(&mut self, now: Time, node: Address, event: &NodeEvent) {
        if let Some(o) = self {
            o.node_event(now, node, event);
        }
    }
}
