//! Even play-out of what arrives unevenly.

use std::collections::BTreeMap;

use crate::{Deadline, DropCause, Duration, Time};

/// Interarrival jitter as RFC 3550 section 6.4.1 defines it: J += (|D| − J)/16, where D is the difference of two
/// successive transit times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterarrivalJitter {
    /// Sixteen times J, as in RFC 3550 appendix A.8, so that rounding does not stop it from falling.
    scaled_ns: u64,
    transit_ns: Option<i64>,
}

impl InterarrivalJitter {
    /// Something sent at `sent`, on the sender's clock, arrived.
    pub const fn update(&mut self, now: Time, sent: Time) {
        let transit_ns = transit_ns(now, sent);
        if let Some(before) = self.transit_ns {
            let distance = transit_ns.wrapping_sub(before).unsigned_abs();
            // Beyond four minutes it is a change of clock, not jitter; bounded, so that the sum cannot overflow.
            let distance = if distance > 1 << 38 { 1 << 38 } else { distance };
            self.scaled_ns = self.scaled_ns - self.scaled_ns / 16 + distance;
        }
        self.transit_ns = Some(transit_ns);
    }

    /// The estimate.
    pub const fn get(&self) -> Duration {
        Duration::from_nanos(self.scaled_ns / 16)
    }
}

const fn transit_ns(now: Time, sent: Time) -> i64 {
    now.as_nanos().wrapping_sub(sent.as_nanos()) as i64
}

/// How long the play-out buffer holds an item that had the shortest transit so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldTarget {
    /// Always the same.
    Fixed(Duration),
    /// A multiple of the interarrival jitter, within bounds.
    Adaptive {
        /// Times the jitter; 4 covers nearly all of a bell-shaped one.
        multiple: u64,
        /// Never less.
        min: Duration,
        /// Never more.
        max: Duration,
    },
    /// So that one item in ten comes too late, within bounds. Steady, for items that are made often: it rises by 18 ms in a second in which all
    /// are late, and falls by 2 ms in one in which none is; by 100 ms a second down to the most that one of the last 256 to 512 took. Where what is
    /// late comes in bursts further apart than those, more than one in ten is late.
    Quantile {
        /// Never less.
        min: Duration,
        /// Never more.
        max: Duration,
    },
}

/// Only late ones come for so long where the way has become longer; what a stall held up comes at once.
const LONGER: Duration = Duration::from_millis(250);

/// Holds items so that they leave with the spacing with which they were made.
///
/// An item with media time *m* leaves at *m* + (least transit so far) + target. No synchronised clocks are needed: their
/// offset is part of the transit. The receiver's clock may drift away from the sender's; the least transit is therefore of
/// the last two windows of 1024 items. A way that became longer than the hold makes up for would keep everything out until
/// then; so it counts anew once all that came within a quarter of a second, or the last two items, were too late. A quantile
/// rises by itself instead.
///
/// ```
/// use taut_core::{Duration, HoldTarget, JitterBuffer, Played, Time};
/// let ms = |n| Time::ZERO + Duration::from_millis(n);
/// let mut buffer = JitterBuffer::new(HoldTarget::Fixed(Duration::from_millis(5)), 64);
/// buffer.handle_input(ms(10), 0, ms(0), "first")?;
/// assert_eq!(buffer.poll(ms(14)), None);
/// assert_eq!(buffer.poll(ms(15)), Some(Played::Item { sequence: 0, item: "first" }));
/// # Ok::<(), taut_core::DropCause>(())
/// ```
#[derive(Clone, Debug)]
pub struct JitterBuffer<T> {
    target: HoldTarget,
    limit: usize,
    waiting: BTreeMap<u64, (Time, T)>,
    next: Option<u64>,
    jitter: InterarrivalJitter,
    least: WindowedMin<1024>,
    /// The most that one of the last 256 to 512 items took, negated.
    most: WindowedMin<256>,
    /// Since when everything comes after its time.
    late_since: Option<Time>,
    quantile: TransitQuantile,
    stats: JitterStats,
}

/// What leaves a play-out buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Played<T> {
    /// An item, in its time.
    Item {
        /// Its number.
        sequence: u64,
        /// The item.
        item: T,
    },
    /// So many items did not come in time; the player bridges them. The next item follows at once.
    Concealed {
        /// The first of them.
        sequence: u64,
        /// How many.
        count: u64,
    },
}

/// Counts of a play-out buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JitterStats {
    /// Items played.
    pub played: u64,
    /// Items that arrived after their time, or after a later one had been played.
    pub late: u64,
    /// Items that had arrived before.
    pub duplicate: u64,
    /// Items dropped because the buffer was full: the oldest goes.
    pub overflow: u64,
    /// Items that were missing when a later one was played, the late ones among them.
    pub concealed: u64,
}

impl<T> JitterBuffer<T> {
    /// An empty buffer for at most `limit` items (at least 1).
    pub const fn new(target: HoldTarget, limit: usize) -> Self {
        Self {
            target,
            limit: if limit == 0 { 1 } else { limit },
            waiting: BTreeMap::new(),
            next: None,
            jitter: InterarrivalJitter { scaled_ns: 0, transit_ns: None },
            least: WindowedMin::new(),
            most: WindowedMin::new(),
            late_since: None,
            quantile: TransitQuantile { ns: None, made: Time::ZERO },
            stats: JitterStats { played: 0, late: 0, duplicate: 0, overflow: 0, concealed: 0 },
        }
    }

    /// An item arrived. `media_time`: when it was made, on the sender's clock. Where there is no room, the oldest goes for it, and is
    /// given back.
    ///
    /// # Errors
    /// [`DropCause::TooLate`] when its time has passed, [`DropCause::Duplicate`] when it is here already. Both are counted.
    pub fn handle_input(
        &mut self,
        now: Time,
        sequence: u64,
        media_time: Time,
        item: T,
    ) -> Result<Option<(u64, T)>, DropCause> {
        self.handle_expiring(now, sequence, media_time, Time::MAX, item)
    }

    /// As [`handle_input`](Self::handle_input), of an item that leaves at `latest` where the target would hold it longer.
    ///
    /// # Errors
    /// As there.
    pub fn handle_expiring(
        &mut self,
        now: Time,
        sequence: u64,
        media_time: Time,
        latest: Time,
        item: T,
    ) -> Result<Option<(u64, T)>, DropCause> {
        let transit = transit_ns(now, media_time);
        self.jitter.update(now, media_time);
        self.least.update(transit);
        if let HoldTarget::Quantile { min, max } = self.target {
            let [low, high] =
                [min, max].map(|hold| self.least.get().saturating_add_unsigned(hold.as_nanos()));
            self.most.update(transit.saturating_neg());
            let most = self.most.get().saturating_neg();
            self.quantile.update(transit, media_time, most, (low, high));
        }
        if self.is_longer(now, media_time) {
            self.least = WindowedMin::new();
            self.least.update(transit);
        }
        let playout = self.playout_time(media_time).min(latest);
        if self.next.is_some_and(|next| sequence < next) || playout < now {
            self.stats.late += 1;
            return Err(DropCause::TooLate);
        }
        if self.waiting.contains_key(&sequence) {
            self.stats.duplicate += 1;
            return Err(DropCause::Duplicate);
        }
        self.waiting.insert(sequence, (playout, item));
        if self.waiting.len() <= self.limit {
            return Ok(None);
        }
        Ok(self.drop_oldest())
    }

    /// The oldest goes, unplayed, to make room.
    pub fn drop_oldest(&mut self) -> Option<(u64, T)> {
        let (sequence, (_, item)) = self.waiting.pop_first()?;
        self.stats.overflow += 1;
        Some((sequence, item))
    }

    /// What leaves at or before `now`, in order.
    pub fn poll(&mut self, now: Time) -> Option<Played<T>> {
        let (&sequence, &(playout, _)) = self.waiting.first_key_value()?;
        if playout > now {
            return None;
        }
        let next = self.next.unwrap_or(sequence);
        if sequence > next {
            self.next = Some(sequence);
            self.stats.concealed += sequence - next;
            return Some(Played::Concealed { sequence: next, count: sequence - next });
        }
        let (sequence, (_, item)) = self.waiting.pop_first()?;
        self.next = Some(sequence + 1);
        self.stats.played += 1;
        Some(Played::Item { sequence, item })
    }

    /// When the next item leaves.
    pub fn poll_timeout(&self) -> Option<Deadline> {
        self.waiting.first_key_value().map(|(_, (playout, _))| Deadline::new(*playout, "play-out"))
    }

    /// How long an item with the least transit is held now.
    pub fn target(&self) -> Duration {
        match self.target {
            HoldTarget::Fixed(target) => target,
            HoldTarget::Adaptive { multiple, min, max } => {
                self.jitter.get().saturating_mul(multiple).max(min).min(max)
            }
            HoldTarget::Quantile { .. } => {
                let above = self.quantile.ns.map_or(0, |ns| ns.saturating_sub(self.least.get()));
                Duration::from_nanos(above.max(0).unsigned_abs())
            }
        }
    }

    /// Counts so far.
    pub const fn stats(&self) -> JitterStats {
        self.stats
    }

    /// Has everything been too late for so long that the way has become longer?
    fn is_longer(&mut self, now: Time, media_time: Time) -> bool {
        let is_late =
            !matches!(self.target, HoldTarget::Quantile { .. }) && self.playout_time(media_time) < now;
        if !is_late {
            self.late_since = None;
            return false;
        }
        let since = *self.late_since.get_or_insert(now);
        self.late_since.take_if(|_| now.saturating_since(since) >= LONGER).is_some()
    }

    fn playout_time(&self, media_time: Time) -> Time {
        let arrival_at_best = media_time.as_nanos().saturating_add_signed(self.least.get());
        Time::from_nanos(arrival_at_best) + self.target()
    }
}

/// The least of this window of so many items and the one before, ns.
#[derive(Clone, Copy, Debug)]
struct WindowedMin<const WINDOW: u32> {
    current: i64,
    previous: i64,
    count: u32,
}

impl<const WINDOW: u32> WindowedMin<WINDOW> {
    const fn new() -> Self {
        Self { current: i64::MAX, previous: i64::MAX, count: 0 }
    }

    fn update(&mut self, transit_ns: i64) {
        if self.count == WINDOW {
            (self.previous, self.current, self.count) = (self.current, i64::MAX, 0);
        }
        self.current = self.current.min(transit_ns);
        self.count += 1;
    }

    fn get(&self) -> i64 {
        self.current.min(self.previous)
    }
}

/// The transit that one item in [`ONE_IN`](Self::ONE_IN) exceeds: a step up for each that does, and a step down for each that does not, so many
/// times smaller (Robbins, Monro, *A stochastic approximation method*, Ann. Math. Stat. 22(3), 1951). Steps are by the time between items. What began
/// behind a queue would stand above all that comes for long: down to the most that came lately the steps are larger.
#[derive(Clone, Copy, Debug)]
struct TransitQuantile {
    ns: Option<i64>,
    made: Time,
}

impl TransitQuantile {
    const ONE_IN: i64 = 10;
    /// The time between two items by a step down.
    const SLOWER: i64 = 500;
    /// The time between two items by a step down to the most that one took lately: what is played goes a tenth faster meanwhile.
    const TO_MOST: i64 = 10;
    /// Of silences, no more counts.
    const LONGEST: Duration = Duration::from_millis(100);

    /// `most`: that one took lately, with this one.
    fn update(&mut self, transit_ns: i64, made: Time, most: i64, (low, high): (i64, i64)) {
        let elapsed = made.saturating_since(self.made).min(Self::LONGEST).as_nanos() as i64;
        self.made = self.made.max(made);
        let down = elapsed / Self::SLOWER;
        let before = self.ns.unwrap_or(transit_ns);
        let lacking = transit_ns.saturating_sub(before);
        let above = before.saturating_sub(most);
        // No further up than to what came late.
        let step = if lacking > 0 {
            (down * (Self::ONE_IN - 1)).min(lacking)
        } else {
            -down.max((elapsed / Self::TO_MOST).min(above))
        };
        self.ns = Some(before.saturating_add(step).max(low).min(high));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Duration::from_millis(millis)
    }

    fn drain(buffer: &mut JitterBuffer<()>, until: Time) -> Vec<(Time, u64)> {
        let mut played = Vec::new();
        while let Some(deadline) = buffer.poll_timeout().filter(|deadline| deadline.at <= until) {
            while let Some(playout) = buffer.poll(deadline.at) {
                if let Played::Item { sequence, .. } = playout {
                    played.push((deadline.at, sequence));
                }
            }
        }
        played
    }

    #[test]
    fn items_leave_with_the_spacing_with_which_they_were_made() {
        let mut buffer = JitterBuffer::new(HoldTarget::Fixed(Duration::from_millis(30)), 64);
        let mut played = Vec::new();
        let mut arrivals: Vec<(u64, u64)> = (0..50).map(|i| (i, i * 20 + 100 + i * 7 % 25)).collect();
        arrivals.sort_by_key(|&(_, arrival)| arrival);
        for (sequence, arrival) in arrivals {
            played.extend(drain(&mut buffer, at(arrival)));
            buffer.handle_input(at(arrival), sequence, at(sequence * 20), ()).unwrap();
        }
        played.extend(drain(&mut buffer, Time::MAX));
        assert_eq!(played, (0..50).map(|i| (at(i * 20 + 130), i)).collect::<Vec<_>>());
    }

    #[test]
    fn what_comes_too_late_is_counted_and_concealed() {
        let mut buffer = JitterBuffer::new(HoldTarget::Fixed(Duration::from_millis(5)), 64);
        buffer.handle_input(at(10), 0, at(0), ()).unwrap();
        buffer.handle_input(at(14), 2, at(2), ()).unwrap();
        assert_eq!(buffer.handle_input(at(14), 2, at(2), ()), Err(DropCause::Duplicate));
        assert_eq!(buffer.poll(at(15)), Some(Played::Item { sequence: 0, item: () }));
        assert_eq!(buffer.poll(at(17)), Some(Played::Concealed { sequence: 1, count: 1 }));
        assert_eq!(buffer.poll(at(17)), Some(Played::Item { sequence: 2, item: () }));
        assert_eq!(buffer.handle_input(at(18), 1, at(1), ()), Err(DropCause::TooLate));
        let expected = JitterStats { played: 2, late: 1, duplicate: 1, overflow: 0, concealed: 1 };
        assert_eq!(buffer.stats(), expected);
    }

    /// The way takes so long for each of 200 items, 20 ms apart, and then so long: how many of those are not played.
    fn lost_by(target: HoldTarget, takes: u64, then: impl Fn(u64) -> u64) -> u64 {
        let mut buffer = JitterBuffer::new(target, 64);
        let mut late = 0;
        for i in 0..600 {
            let came = at(i * 20 + if i < 200 { takes } else { then(i - 200) });
            drain(&mut buffer, came);
            late += u64::from(buffer.handle_input(came, i, at(i * 20), ()).is_err());
        }
        late
    }

    #[test]
    fn a_way_that_became_longer_than_the_hold_loses_a_quarter_of_a_second() {
        let (min, max) = (Duration::from_millis(5), Duration::from_millis(40));
        for target in [HoldTarget::Fixed(max), HoldTarget::Adaptive { multiple: 4, min, max }] {
            assert_eq!(lost_by(target, 20, |_| 80), 13, "{target:?}");
            // After a stall all comes at once, and the way is as it was.
            let stalled = |i: u64| 20 + 400_u64.saturating_sub(i * 20);
            assert_eq!(lost_by(target, 20, stalled), 18, "{target:?}: what is late by more than the hold");
        }
    }

    #[test]
    fn an_adaptive_buffer_follows_the_jitter_within_its_bounds() {
        let (min, max) = (Duration::from_millis(2), Duration::from_millis(40));
        let mut buffer = JitterBuffer::new(HoldTarget::Adaptive { multiple: 4, min, max }, 8);
        for i in 0..100 {
            let _ = buffer.handle_input(at(i * 20 + 50), i, at(i * 20), ());
        }
        assert_eq!(buffer.target(), min);
        for i in 100..300 {
            let _ = buffer.handle_input(at(i * 20 + 50 + i % 2 * 6), i, at(i * 20), ());
        }
        assert!(buffer.target() > Duration::from_millis(20) && buffer.target() <= max, "{}", buffer.target());
    }

    #[test]
    fn a_quantile_is_exceeded_by_one_item_in_ten_and_moves_slowly() {
        let (min, max) = (Duration::from_millis(1), Duration::from_millis(60));
        let mut buffer = JitterBuffer::new(HoldTarget::Quantile { min, max }, 1024);
        let mut rng = crate::Seed::new(1).stream("late");
        let mut pass = |from: u64, count: u64, most_us: u64| {
            let (before, late) = (buffer.target(), buffer.stats().late);
            for i in from..from + count {
                let came = at(i + 30) + Duration::from_micros(rng.below(most_us + 1));
                drain(&mut buffer, came);
                let _ = buffer.handle_input(came, i, at(i), ());
            }
            (before, buffer.target(), buffer.stats().late - late)
        };
        assert_eq!(pass(0, 1_000, 0), (Duration::ZERO, min, 0));
        let (before, after, _) = pass(1_000, 500, 20_000);
        assert!(after > before && after - before < Duration::from_millis(9), "{before} {after}");
        pass(1_500, 5_000, 20_000);
        let (_, after, late) = pass(6_500, 10_000, 20_000);
        assert!(after.abs_diff(Duration::from_millis(18)) < Duration::from_millis(1), "{after}");
        assert!((800..1_200).contains(&late), "{late}");
        // While something of before counts.
        let (before, after, _) = pass(16_500, 250, 0);
        assert!(
            (before - after).abs_diff(Duration::from_micros(500)) < Duration::from_micros(50),
            "{before} {after}"
        );
    }

    #[test]
    fn a_quantile_is_soon_no_more_than_anything_took_lately() {
        let (min, max) = (Duration::ZERO, Duration::from_millis(100));
        let mut buffer = JitterBuffer::new(HoldTarget::Quantile { min, max }, 1024);
        // It begins behind a queue of 40 ms, which is gone after 300.
        let mut holds = Vec::new();
        for i in 0..2_000 {
            let queue = if i < 300 { 40 } else { i % 5 };
            let came = at(i + 20 + queue);
            drain(&mut buffer, came);
            let _ = buffer.handle_input(came, i, at(i), ());
            holds.push(buffer.target());
        }
        // What was late counts for 256 items at least and 512 at most; then it falls by a tenth of the time.
        assert!(holds[500] > Duration::from_millis(35), "{}", holds[500]);
        assert!(holds[768] > Duration::from_millis(32), "{}", holds[768]);
        assert!(holds[1_200] <= Duration::from_millis(4), "{}", holds[1_200]);
        assert!(holds.windows(2).all(|pair| pair[0] <= pair[1] + Duration::from_micros(100)), "no step");
    }

    /// The way stands still for a fifth of the time: the share that is late, by how far standstills are apart.
    #[test]
    fn a_quantile_forgets_bursts_that_are_far_apart() {
        let share_late = |apart: u64| {
            let (min, max) = (Duration::ZERO, Duration::from_millis(100));
            let mut buffer = JitterBuffer::new(HoldTarget::Quantile { min, max }, 1024);
            let mut late = 0;
            for i in 0..60_000 {
                let came = i + 20 + (apart / 5).saturating_sub(i % apart);
                drain(&mut buffer, at(came));
                let is_late = buffer.handle_input(at(came), i, at(i), ()).is_err();
                late += u64::from(is_late && i >= 30_000);
            }
            late as f64 / 30_000.0
        };
        let [near, far] = [200, 2_000].map(share_late);
        assert!(near < 0.11, "{near}");
        // All that is held up is late, for nothing is held for long in between.
        assert!((0.11..=0.2).contains(&far), "{far}");
    }

    #[test]
    fn what_expires_leaves_before_that() {
        let mut buffer = JitterBuffer::new(HoldTarget::Fixed(Duration::from_millis(50)), 8);
        buffer.handle_expiring(at(10), 0, at(0), at(19), ()).unwrap();
        assert_eq!(buffer.poll_timeout().map(|due| due.at), Some(at(19)));
        assert_eq!(buffer.handle_expiring(at(30), 1, at(20), at(29), ()), Err(DropCause::TooLate));
    }

    #[test]
    fn a_full_buffer_drops_the_oldest() {
        let mut buffer = JitterBuffer::new(HoldTarget::Fixed(Duration::from_secs(9)), 4);
        let gone = (0..6).filter_map(|i| buffer.handle_input(at(i), i, at(i), ()).unwrap());
        assert_eq!(gone.map(|(sequence, ())| sequence).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(buffer.stats().overflow, 2);
        assert_eq!(buffer.poll(at(20_000)), Some(Played::Item { sequence: 2, item: () }));
    }

    /// RFC 3550 section 6.4.1: a constant difference D gives J → |D|.
    #[test]
    fn interarrival_jitter_converges_to_a_constant_difference() {
        let mut jitter = InterarrivalJitter::default();
        (0..200).for_each(|i| jitter.update(at(i * 10 + i % 2 * 3), at(i * 10)));
        assert!(jitter.get().abs_diff(Duration::from_millis(3)) < Duration::from_micros(10));
    }
}
