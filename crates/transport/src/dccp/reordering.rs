//! How late a packet may be before it is lost.
//!
//! Three packets that overtake another (RFC 4341 section 5, RFC 5348 section 5.1) are three milliseconds at 1 kHz: less than
//! the jitter of many paths. As in RACK (RFC 8985 section 6.2), where packets were seen to overtake each other, those
//! three must also have been sent later, or have come later, by a window of time: a quarter of the shortest round
//! trip, and a quarter more, up to all of it, whenever something arrives that was taken for lost. Where nothing
//! overtakes, nothing changes.

use taut_core::Duration;

/// Quarters of a round trip at most.
const MAX_QUARTERS: u64 = 4;
/// So many losses later the window is a quarter again (RFC 8985 section 6.2 step 4).
const PERSISTENCE: u32 = 16;

/// The window of one direction.
#[derive(Clone, Debug, Default)]
pub(super) struct Reordering {
    /// 0 until something was overtaken.
    quarters: u64,
    losses: u32,
    shortest: Option<Duration>,
}

impl Reordering {
    /// A measured round trip.
    pub(super) fn round_trip(&mut self, rtt: Duration) {
        self.shortest = Some(self.shortest.map_or(rtt, |shortest| shortest.min(rtt)));
    }

    /// How much later the packets after a hole must be.
    pub(super) fn window(&self) -> Duration {
        self.shortest.unwrap_or(Duration::ZERO) * self.quarters / 4
    }

    /// A packet arrived after one that was sent later.
    pub(super) fn overtaken(&mut self) {
        self.quarters = self.quarters.max(1);
    }

    /// A packet arrived that was taken for lost.
    pub(super) fn mistaken(&mut self) {
        self.quarters = (self.quarters + 1).min(MAX_QUARTERS);
        self.losses = 0;
    }

    /// The rate was reduced for a loss.
    pub(super) fn reduced(&mut self) {
        self.losses += 1;
        if self.losses >= PERSISTENCE {
            (self.quarters, self.losses) = (self.quarters.min(1), 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_grows_by_mistakes_and_shrinks_after_sixteen_losses() {
        let ms = Duration::from_millis;
        let mut reordering = Reordering::default();
        [20, 30].into_iter().for_each(|rtt| reordering.round_trip(ms(rtt)));
        assert_eq!(reordering.window(), ms(0));
        reordering.overtaken();
        reordering.overtaken();
        assert_eq!(reordering.window(), ms(5));
        let windows = [(); 4].map(|()| {
            reordering.mistaken();
            reordering.window()
        });
        assert_eq!(windows, [10, 15, 20, 20].map(ms));
        (0..15).for_each(|_| reordering.reduced());
        assert_eq!(reordering.window(), ms(20));
        reordering.reduced();
        assert_eq!(reordering.window(), ms(5));
    }
}
