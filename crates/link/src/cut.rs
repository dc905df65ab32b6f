//! A link that stops working.

use taut_core::{DropCause, Duration, LinkEvent, PacketMeta, Time};

/// Drops every packet that enters while the link is cut ([`DropCause::Cut`]); passes all others at once.
///
/// It is a gate at its own place in the chain: packets that are already past it, in a delay behind it, still arrive.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    from: Time,
    until: Time,
}

impl Cut {
    /// Cut from `from` on, for ever.
    pub const fn at(from: Time) -> Self {
        Self { from, until: Time::MAX }
    }

    /// Passes again `duration` after it was cut. Default: never.
    pub fn lasting(mut self, duration: Duration) -> Self {
        self.until = self.from + duration;
        self
    }

    /// Drops the packet?
    #[inline]
    pub(crate) fn takes(&self, at: Time, meta: &PacketMeta, events: &mut Vec<LinkEvent>) -> bool {
        let cut = self.from <= at && at < self.until;
        if cut {
            events.push(LinkEvent::Dropped { meta: *meta, cause: DropCause::Cut });
        }
        cut
    }
}
