//! What a network holds as a link.

use taut_core::{Backlog, Deadline, Link, LinkEvent, Packet, PacketMeta, Time};
use taut_link::Chain;

/// Any link. A [`Chain`], which nearly all are, is called directly: the compiler then builds it into the loop of the
/// simulation; any other is behind a pointer.
pub enum AnyLink {
    /// Elements one after the other.
    Chain(Chain),
    /// Something else.
    Other(Box<dyn Link>),
}

impl From<Chain> for AnyLink {
    fn from(chain: Chain) -> Self {
        Self::Chain(chain)
    }
}

impl<L: Link + 'static> From<Box<L>> for AnyLink {
    fn from(link: Box<L>) -> Self {
        Self::Other(link)
    }
}

impl From<Box<dyn Link>> for AnyLink {
    fn from(link: Box<dyn Link>) -> Self {
        Self::Other(link)
    }
}

macro_rules! either {
    ($any:ident, $link:ident => $call:expr) => {
        match $any {
            AnyLink::Chain($link) => $call,
            AnyLink::Other($link) => $call,
        }
    };
}

impl Link for AnyLink {
    #[inline]
    fn handle_input(&mut self, now: Time, packet: Packet) {
        either!(self, link => link.handle_input(now, packet));
    }
    #[inline]
    fn handle_timeout(&mut self, now: Time) {
        either!(self, link => link.handle_timeout(now));
    }
    #[inline]
    fn poll_transmit(&mut self, now: Time) -> Option<Packet> {
        either!(self, link => link.poll_transmit(now))
    }
    #[inline]
    fn poll_event(&mut self) -> Option<LinkEvent> {
        either!(self, link => link.poll_event())
    }
    #[inline]
    fn poll_timeout(&self) -> Option<Deadline> {
        either!(self, link => link.poll_timeout())
    }
    fn visit_held(&self, visit: &mut dyn FnMut(&PacketMeta)) {
        either!(self, link => link.visit_held(visit));
    }
    #[inline]
    fn queued(&self) -> Backlog {
        either!(self, link => link.queued())
    }
    fn counters(&self) -> Vec<(String, u64)> {
        either!(self, link => link.counters())
    }
}
