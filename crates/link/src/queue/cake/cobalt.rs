//! COBALT: CoDel and BLUE side by side, one for each flow. CoDel (RFC 8289) for flows that react, BLUE (Feng et al.,
//! *The BLUE active queue management algorithms*, 2002) for those that do not. Described in Høiland-Jørgensen et al.,
//! *Piece of CAKE*, LANMAN 2018, section 3.3.
//!
//! It is not RFC 8289's state machine: one timer, `drop_next`, is the wait before the first drop, the distance between
//! drops, and the time after which a quiet flow is forgotten. When the queue empties, `count` falls again.

use taut_core::{Packet, Rng, Time};

use crate::queue::fifo::set_congestion_experienced;

/// Nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parameters {
    pub(super) interval: u64,
    pub(super) target: u64,
    /// To send the largest packet at the tin's rate.
    pub(super) mtu_time: u64,
}

/// How BLUE's probability, in fractions of 2³², goes up when the memory is full, and down when the queue is empty.
const BLUE_UP: u32 = 1 << 24;
const BLUE_DOWN: u32 = 1 << 20;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cobalt {
    pub(super) count: u32,
    /// 1/√count as a fraction of 2³². A flow begins with 0, not 1: its first drop comes with the second packet that
    /// waited too long, not an interval later.
    rec_inv_sqrt: u32,
    drop_next: u64,
    blue_timer: u64,
    pub(super) blue: u32,
    dropping: bool,
}

/// What is to be done with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) drop: bool,
    /// It bears a mark now, which counts when it is not dropped.
    pub(super) marked: bool,
}

impl Cobalt {
    /// The memory is full and the flow is the longest. Says whether BLUE began.
    pub(super) fn queue_full(&mut self, now: Time, parameters: &Parameters) -> bool {
        let now = now.as_nanos();
        let mut began = false;
        if now.saturating_sub(self.blue_timer) > parameters.target {
            began = self.blue == 0;
            self.blue = self.blue.saturating_add(BLUE_UP);
            self.blue_timer = now;
        }
        self.dropping = true;
        self.drop_next = now;
        self.count = self.count.max(1);
        began
    }

    /// It was the flow's turn, and it had nothing. Says whether BLUE ended.
    pub(super) fn queue_empty(&mut self, now: Time, parameters: &Parameters) -> bool {
        let now = now.as_nanos();
        let mut ended = false;
        if self.blue > 0 && now.saturating_sub(self.blue_timer) > parameters.target {
            self.blue = self.blue.saturating_sub(BLUE_DOWN);
            self.blue_timer = now;
            ended = self.blue == 0;
        }
        self.dropping = false;
        if self.count > 0 && now >= self.drop_next {
            self.count -= 1;
            self.schedule_from(self.drop_next, parameters);
        }
        ended
    }

    /// Is there anything left to forget?
    pub(super) fn remembers(&self, now: Time) -> bool {
        self.blue > 0 || self.count > 0 || now.as_nanos() < self.drop_next
    }

    /// The packet that entered at `enqueued` is at the head. `bulk_flows` are those that it shares an ingress with.
    pub(super) fn judge(
        &mut self,
        now: Time,
        enqueued: Time,
        packet: &mut Packet,
        parameters: &Parameters,
        bulk_flows: u64,
        rng: &mut Rng,
    ) -> Verdict {
        let sojourn = (now - enqueued).as_nanos();
        let now = now.as_nanos();
        let over_target = sojourn > parameters.target
            && sojourn > parameters.mtu_time * bulk_flows * 2
            && sojourn > parameters.mtu_time * 4;
        let due = self.count > 0 && now >= self.drop_next;
        let mut past_due = now > self.drop_next;
        if over_target {
            if !self.dropping {
                self.dropping = true;
                self.drop_next = self.after(now, parameters);
            }
            self.count = self.count.max(1);
        } else {
            self.dropping = false;
        }
        let (mut drop, mut marked) = (false, false);
        if due && self.dropping {
            marked = set_congestion_experienced(packet);
            drop = !marked;
            self.count = self.count.saturating_add(1);
            self.schedule_from(self.drop_next, parameters);
            past_due = now > self.drop_next;
        } else if due {
            while self.count > 0 && now >= self.drop_next {
                self.count -= 1;
                self.schedule_from(self.drop_next, parameters);
            }
            past_due = now > self.drop_next;
        }
        // Who does not react to drops is not asked whether it understands marks.
        drop |= self.blue > 0 && (rng.next_u64() as u32) < self.blue;
        if self.count == 0 {
            self.drop_next = now + parameters.interval;
        } else if past_due && !drop {
            self.drop_next = now;
        }
        Verdict { drop, marked }
    }

    fn schedule_from(&mut self, from: u64, parameters: &Parameters) {
        self.rec_inv_sqrt = match EXACT.get(self.count as usize) {
            Some(exact) => *exact,
            None => newton_step(self.rec_inv_sqrt, self.count),
        };
        self.drop_next = self.after(from, parameters);
    }

    /// An interval divided by √count later. Linux keeps 32 bits of the interval here; at a few kbit/s it has more.
    fn after(&self, from: u64, parameters: &Parameters) -> u64 {
        let wait = (u128::from(parameters.interval) * u128::from(self.rec_inv_sqrt)) >> 32;
        from + wait as u64
    }
}

/// One step towards 1/√count in fixed point, x ← x(3 − count·x²)/2.
const fn newton_step(x: u32, count: u32) -> u32 {
    let x = x as u64;
    let factor = (3_u64 << 32).wrapping_sub((count as u64).wrapping_mul((x * x) >> 32));
    // Two bits less, so that the product fits.
    ((factor >> 2).wrapping_mul(x) >> (32 - 2 + 1)) as u32
}

/// For small counts one step is far off: from 1 to 2 it gives what 4 should have. Four steps each.
const EXACT: [u32; 16] = {
    let mut table = [u32::MAX; 16];
    let mut count = 1;
    while count < table.len() {
        let mut x = table[count - 1];
        let mut step = 0;
        while step < 4 {
            x = newton_step(x, count as u32);
            step += 1;
        }
        table[count] = x;
        count += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_counts_have_their_square_roots_within_a_thousandth() {
        for (count, fixed) in EXACT.iter().enumerate().skip(2) {
            let exact = 4_294_967_296.0 / (count as f64).sqrt();
            let error = (f64::from(*fixed) - exact).abs() / exact;
            assert!(error < 1e-3, "{count}: {fixed} is not {exact}");
        }
    }

    /// A sixteenth of 10 kbit/s makes an interval of a minute.
    #[test]
    fn an_interval_of_minutes_is_divided_as_one_of_milliseconds_is() {
        let cobalt = Cobalt { rec_inv_sqrt: EXACT[4], ..Cobalt::default() };
        let wait = |interval| {
            cobalt.after(0, &Parameters { interval, target: 0, mtu_time: 0 }) as f64 / interval as f64
        };
        assert!((wait(60_000_000_000) - 0.5).abs() < 1e-3);
        assert!((wait(60_000_000) - 0.5).abs() < 1e-3);
    }
}
