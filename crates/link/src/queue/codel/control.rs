//! CoDel's control loop (RFC 8289 section 5), for one queue: what `codel` has one of and `fq_codel` one per flow.

use taut_core::{DropCause, LinkEvent, Packet, Time};

use super::CodelConfig;
use crate::queue::fifo::{StampedFifo, mark};

/// The clock of Linux's CoDel: units of 1024 ns, so that a shift converts.
pub(in crate::queue) const fn ticks(nanos: u64) -> u64 {
    nanos >> 10
}

/// Configuration, in ticks and bytes.
#[derive(Clone, Copy, Debug)]
pub(in crate::queue) struct Parameters {
    pub(in crate::queue) target: u64,
    pub(in crate::queue) interval: u64,
    /// Nothing is dropped while no more than this waits.
    pub(in crate::queue) mtu: u64,
    pub(in crate::queue) ecn: bool,
    pub(in crate::queue) ce_threshold: Option<u64>,
}

impl Parameters {
    pub(in crate::queue) fn of(config: &CodelConfig) -> Self {
        Self {
            target: ticks(config.target.as_nanos()),
            interval: ticks(config.interval.as_nanos()),
            mtu: super::DEFAULT_MTU.get(),
            ecn: config.ecn,
            ce_threshold: config.ce_threshold.map(|threshold| ticks(threshold.as_nanos())),
        }
    }
}

/// What all queues under one configuration have seen.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::queue) struct Totals {
    pub(in crate::queue) maxpacket: u64,
    pub(in crate::queue) ecn_mark: u64,
    pub(in crate::queue) ce_mark: u64,
    pub(in crate::queue) dropped: u64,
}

/// The state of one queue.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::queue) struct Control {
    /// Drops since the dropping state was entered, and what it began with.
    pub(in crate::queue) count: u32,
    pub(in crate::queue) lastcount: u32,
    pub(in crate::queue) dropping: bool,
    /// 1/√count as a fraction of 2¹⁶. Sixteen bits are what decides at which packet a drop falls.
    rec_inv_sqrt: u16,
    /// When the sojourn time will have been above the target for an interval.
    first_above: Option<u64>,
    pub(in crate::queue) drop_next: u64,
    /// Sojourn time of the packet that was looked at last.
    pub(in crate::queue) ldelay: u64,
}

/// A dequeue in progress.
pub(in crate::queue) struct Dequeue<'a> {
    pub(in crate::queue) now: Time,
    pub(in crate::queue) parameters: &'a Parameters,
    pub(in crate::queue) fifo: &'a mut StampedFifo,
    /// Bytes that wait beside `fifo`: in Linux, a flow of `fq_codel` is spared only while all flows together hold no
    /// more than a packet.
    pub(in crate::queue) elsewhere: u64,
    pub(in crate::queue) totals: &'a mut Totals,
    pub(in crate::queue) events: &'a mut Vec<LinkEvent>,
}

impl Control {
    /// The packet that goes next, after those that are dropped before it (RFC 8289 section 5.6).
    pub(in crate::queue) fn dequeue(&mut self, mut from: Dequeue<'_>) -> Option<Packet> {
        // A flow that runs empty stays above its target, as in Linux: only a drop that empties it says that it is not.
        let Some(first) = from.fifo.pop() else {
            self.dropping = false;
            return None;
        };
        let mut packet = self.judge(first, &mut from);
        let now = ticks(from.now.as_nanos());
        if self.dropping && !packet.1 {
            self.dropping = false;
        } else if self.dropping {
            while self.dropping && now >= self.drop_next {
                self.count = self.count.wrapping_add(1);
                self.newton_step();
                if from.marks(&mut packet.0) {
                    self.drop_next = self.control_law(self.drop_next, from.parameters.interval);
                    break;
                }
                from.drop(packet.0);
                let Some(next) = self.look(&mut from) else {
                    self.dropping = false;
                    return None;
                };
                packet = next;
                if packet.1 {
                    self.drop_next = self.control_law(self.drop_next, from.parameters.interval);
                } else {
                    self.dropping = false;
                }
            }
        } else if packet.1 {
            let marked = from.marks(&mut packet.0);
            self.enter_dropping(now, from.parameters.interval);
            if !marked {
                from.drop(packet.0);
                packet = self.look(&mut from)?;
            }
        }
        if from.parameters.ce_threshold.is_some_and(|threshold| self.ldelay > threshold)
            && mark(&mut packet.0, from.events)
        {
            from.totals.ce_mark += 1;
        }
        Some(packet.0)
    }

    /// The packet after one that was dropped.
    fn look(&mut self, from: &mut Dequeue<'_>) -> Option<(Packet, bool)> {
        let next = from.fifo.pop();
        if next.is_none() {
            self.first_above = None;
        }
        Some(self.judge(next?, from))
    }

    /// May this packet be dropped? The sojourn time has been above the target for an interval (section 5.5, `dodequeue`).
    fn judge(&mut self, (enqueued, packet): (Time, Packet), from: &mut Dequeue<'_>) -> (Packet, bool) {
        let now = ticks(from.now.as_nanos());
        self.ldelay = now - ticks(enqueued.as_nanos());
        from.totals.maxpacket = from.totals.maxpacket.max(packet.meta.size.get());
        let below = self.ldelay < from.parameters.target
            || from.elsewhere + from.fifo.backlog().bytes.get() <= from.parameters.mtu;
        if below {
            self.first_above = None;
            return (packet, false);
        }
        let first_above = *self.first_above.get_or_insert(now + from.parameters.interval);
        (packet, now > first_above)
    }

    /// Begins with the rate of drops that held the queue the last time, if that was not long ago (section 5.6).
    fn enter_dropping(&mut self, now: u64, interval: u64) {
        self.dropping = true;
        let delta = self.count.wrapping_sub(self.lastcount);
        if delta > 1 && now < self.drop_next + 16 * interval {
            self.count = delta;
            self.newton_step();
        } else {
            self.count = 1;
            self.rec_inv_sqrt = u16::MAX;
        }
        self.lastcount = self.count;
        self.drop_next = self.control_law(now, interval);
    }

    /// The next drop is interval/√count later (section 5.4).
    fn control_law(&self, from: u64, interval: u64) -> u64 {
        from + ((interval * (u64::from(self.rec_inv_sqrt) << 16)) >> 32)
    }

    /// One step towards 1/√count, x ← x(3 − count·x²)/2, in fixed point: Linux takes one for each drop, and where the
    /// next drop falls depends on how far that came.
    fn newton_step(&mut self) {
        let x = u64::from(self.rec_inv_sqrt) << 16;
        let square = (x * x) >> 32;
        let factor = (3_u64 << 32).wrapping_sub(u64::from(self.count).wrapping_mul(square));
        // Two bits less, so that the product fits.
        self.rec_inv_sqrt = ((factor >> 2).wrapping_mul(x) >> (32 - 2 + 1) >> 16) as u16;
    }
}

impl Dequeue<'_> {
    fn marks(&mut self, packet: &mut Packet) -> bool {
        let marked = self.parameters.ecn && mark(packet, self.events);
        self.totals.ecn_mark += u64::from(marked);
        marked
    }

    fn drop(&mut self, packet: Packet) {
        self.totals.dropped += 1;
        self.events.push(LinkEvent::Dropped { meta: packet.meta, cause: DropCause::Aqm });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Section 5.4 asks for interval/√count; sixteen bits and one step for each drop are within 0.2 % of that.
    #[test]
    fn the_spacing_of_drops_follows_the_square_root() {
        let mut control = Control { count: 1, rec_inv_sqrt: u16::MAX, ..Control::default() };
        for count in 2..2_000_u32 {
            control.count = count;
            control.newton_step();
            if count > 8 {
                let exact = 65_536.0 / f64::from(count).sqrt();
                let error = (f64::from(control.rec_inv_sqrt) - exact).abs() / exact;
                assert!(error < 0.01, "count {count}: {} is not {exact}", control.rec_inv_sqrt);
            }
        }
    }
}
