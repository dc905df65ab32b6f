//! What can wait, where no window holds: as much as goes without a queue, and beside others' as much as one of them.

use taut_core::{Duration, Time};

use super::SUSPICIOUS;

/// Bytes of messages that can wait, on their way; and when the next may go.
///
/// It begins as TCP does (RFC 5681 section 3.1) and doubles each round trip until something waits or is lost. From there it grows by an
/// eighth a round while nothing waits, by a frame a round in a queue of others, and shrinks by three tenths for a loss, once a round trip
/// (RFC 9438 section 4.6). Beside states it goes as fast as they leave it: they are made at a rate, and their share is theirs.
#[derive(Debug)]
pub(super) struct Room {
    size: f64,
    rising: bool,
    /// It held something back in this round.
    pub(super) limited: bool,
    /// Or in the one before.
    was_limited: bool,
    /// What was sent until here was sent before it shrank.
    shrunk: u64,
    /// When the next frame may go.
    next: Time,
    claim: Claim,
}

/// Bytes per second of states, of the last two spans.
#[derive(Debug, Default)]
pub(in crate::congestion) struct Claim {
    began: Time,
    bytes: [u64; 2],
}

/// RFC 3390 section 1: up to 4380 bytes.
const INITIAL: f64 = 4_380.0;
/// Frames go over the round trip by this much faster than evenly (RFC 9002 section 7.7).
const PACING: f64 = 1.25;
const LOSS: f64 = 0.7;
const FRAME: f64 = 1_000.0;
/// So much of the path is left to what can wait, whatever states are made.
const LEAST_SHARE: f64 = 1.0 / 16.0;
/// A host that was late may make up for so long.
const CATCH_UP: Duration = Duration::from_millis(1);
const SPAN: Duration = Duration::from_millis(250);

impl Default for Room {
    fn default() -> Self {
        Self {
            size: INITIAL,
            rising: true,
            limited: false,
            was_limited: false,
            shrunk: 0,
            next: Time::ZERO,
            claim: Claim::default(),
        }
    }
}

impl Room {
    pub(super) fn is_rising(&self) -> bool {
        self.rising
    }

    /// When the next frame may go, as far as the time since the last one counts.
    pub(super) fn next(&self) -> Time {
        self.next
    }

    /// When the next frame may go, where nothing else says it; `None`: so much is under way that one has to arrive first.
    pub(super) fn opens(&self, under_way: u64) -> Option<Time> {
        ((under_way as f64) < self.size).then_some(self.next)
    }

    /// What states leave of so many bytes per second.
    pub(super) fn left_of(&self, rate: f64) -> f64 {
        (rate - self.claim.rate()).max(rate * LEAST_SHARE)
    }

    /// Bytes per second, once it was found how many go.
    pub(super) fn rate(&self, base: Duration) -> Option<f64> {
        (!self.rising).then(|| self.size / base.as_secs_f64().max(1e-6))
    }

    /// States of so many bytes were made.
    pub(super) fn claimed(&mut self, now: Time, bytes: u64) {
        self.claim.record(now, bytes);
    }

    /// A frame went, of the bytes per second of a window where there is one.
    pub(super) fn sent(&mut self, now: Time, bytes: u64, window: Option<f64>, base: Option<Duration>) {
        let rate = match window {
            Some(rate) => self.left_of(rate),
            None => base.map_or(f64::INFINITY, |base| PACING * self.size / base.as_secs_f64()),
        };
        self.next = self.next.max(now - CATCH_UP) + Duration::from_secs_f64(bytes as f64 / rate);
    }

    pub(super) fn arrived(&mut self, bytes: u64) {
        if self.rising && (self.limited || self.was_limited) {
            self.size += bytes as f64;
        }
    }

    /// So much waited in the present round, all the time.
    pub(super) fn saw(&mut self, standing: Duration) {
        self.rising &= standing <= SUSPICIOUS;
    }

    /// The frame at `place` is lost, of all that were sent.
    pub(super) fn lost(&mut self, place: u64, sent: u64) {
        if place > self.shrunk {
            self.size = (self.size * LOSS).max(INITIAL);
            self.rising = false;
            self.shrunk = sent;
        }
    }

    /// A round is over. Did it hold something back?
    pub(super) fn judge(&mut self, standing: Duration, grows_slowly: bool) -> bool {
        let limited = std::mem::take(&mut self.limited);
        if limited && !self.rising {
            self.size += match standing <= SUSPICIOUS {
                true => self.size / 8.0,
                false if grows_slowly => FRAME,
                false => 0.0,
            };
        }
        self.was_limited = limited;
        limited
    }

    /// A window of this size is no more.
    pub(super) fn begin_at(&mut self, size: f64) {
        self.size = size.max(INITIAL);
        self.rising = false;
    }
}

impl Claim {
    /// States of so many bytes were made.
    pub(in crate::congestion) fn record(&mut self, now: Time, bytes: u64) {
        if now.saturating_since(self.began) >= SPAN {
            let is_next = now.saturating_since(self.began) < SPAN * 2;
            self.bytes = [0, if is_next { self.bytes[0] } else { 0 }];
            self.began = now;
        }
        self.bytes[0] += bytes;
    }

    pub(in crate::congestion) fn rate(&self) -> f64 {
        self.bytes[1] as f64 / SPAN.as_secs_f64()
    }
}
