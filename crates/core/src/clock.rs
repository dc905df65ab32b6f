//! What the peer's clock reads: offset and drift, with their uncertainty.

use std::collections::VecDeque;

use crate::{Duration, Time};

/// A reading of the peer's clock, ns since an epoch of its own. Not comparable with a [`Time`] but by an estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PeerTime(pub u64);

/// How far the peer's clock is ahead, and how sure that is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClockEstimate {
    /// The peer's clock minus this one, ns.
    pub offset_ns: i64,
    /// How much faster the peer's clock runs, in parts per thousand million.
    pub drift_ppb: i64,
    /// The true offset is within `offset_ns` ± this, as long as neither clock is set.
    pub uncertainty: Duration,
}

impl ClockEstimate {
    /// The peer's reading on this end's clock; at the ends of time it saturates.
    pub fn to_local(&self, peer: PeerTime) -> Time {
        Time::from_nanos(
            (i128::from(peer.0) - i128::from(self.offset_ns)).clamp(0, i128::from(u64::MAX)) as u64
        )
    }

    /// How long before `now` the peer's clock read that, also where this clock had not begun yet; zero when it is still to come.
    pub fn age(&self, now: Time, peer: PeerTime) -> Duration {
        let age = i128::from(now.as_nanos()) + i128::from(self.offset_ns) - i128::from(peer.0);
        Duration::from_nanos(age.clamp(0, i128::from(u64::MAX)) as u64)
    }
}

/// Estimates the peer's clock from exchanges of four timestamps.
///
/// Four timestamps (RFC 5905 section 8) give the offset θ = ((T2 − T1) + (T3 − T4)) / 2 and the round trip
/// δ = (T4 − T1) − (T3 − T2). Whatever the network does, the true offset is within θ ± δ/2: the error is all asymmetry.
/// The shortest round trip therefore says most, and of each second only that one is kept (minimum filter, RFC 5905
/// section 10). Through the last sixteen goes a line by least squares, each weighted by 1/δ²: offset and drift.
///
/// The uncertainty is a bound, not a standard deviation. At a kept point the line is off by its residual plus δ/2 at
/// most; its slope, by what both ends of the window leave open. A sample that contradicts the bound means that one of
/// the clocks was set: everything kept is forgotten, and the estimate begins again with that sample.
///
/// ```
/// use taut_core::{ClockEstimator, Duration, PeerTime, Time};
/// let ms = |ms: u64| Time::ZERO + Duration::from_millis(ms);
/// let mut clock = ClockEstimator::new();
/// // The peer is 1 s ahead; 10 ms there, 14 ms back.
/// clock.record(ms(100), PeerTime(1_110_000_000), PeerTime(1_110_000_000), ms(124));
/// let estimate = clock.estimate(ms(124)).expect("one exchange is enough");
/// assert_eq!(estimate.offset_ns, 998_000_000);
/// assert!(estimate.uncertainty >= Duration::from_millis(2));
/// assert!(estimate.uncertainty <= Duration::from_millis(13));
/// ```
#[derive(Clone, Debug, Default)]
pub struct ClockEstimator {
    points: VecDeque<Point>,
    line: Option<Line>,
    steps: u64,
}

/// What an exchange did to the estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exchange {
    /// It was taken into account.
    Taken,
    /// It was overtaken by what is known of later moments, and says nothing new.
    Outdated,
    /// It contradicted the estimate: a clock was set. The estimate begins again with it.
    Stepped,
    /// Its timestamps cannot be true.
    Impossible,
}

/// The best exchange of one second.
#[derive(Clone, Copy, Debug)]
struct Point {
    at: Time,
    offset_ns: i64,
    round_trip_ns: u64,
}

/// Offset and drift through the points, relative to the newest.
#[derive(Clone, Copy, Debug)]
struct Line {
    origin: Point,
    /// At the origin's time, relative to the origin's offset, ns.
    offset_ns: f64,
    /// ns per s.
    slope: f64,
    /// How far the slope may be off, ns per s.
    slope_error: f64,
    /// How far the line may be off at the origin, by the point that says least, seen from later.
    bound: f64,
}

/// Two quartz clocks differ by less than this, ns per s (RFC 5905 section 11.3 takes 500 ppm for the limit).
const SLOPE_LIMIT: f64 = 500_000.0;
/// Points kept.
const WINDOW: usize = 16;
/// Of each of these the exchange with the shortest round trip is kept.
const BUCKET: Duration = Duration::from_secs(1);
/// Readings are whole nanoseconds, rounded at four places.
const ROUNDING_NS: f64 = 4.0;

impl ClockEstimator {
    /// Nothing is known.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes an exchange: asked at `t1`, the question arrived at `t2` and was answered at `t3` (the peer's clock), the
    /// answer arrived at `t4`.
    pub fn record(&mut self, t1: Time, t2: PeerTime, t3: PeerTime, t4: Time) -> Exchange {
        let (Some(round), Some(there)) = (t4.checked_since(t1), t3.0.checked_sub(t2.0)) else {
            return Exchange::Impossible;
        };
        let Some(round_trip_ns) = round.as_nanos().checked_sub(there) else { return Exchange::Impossible };
        let offset_ns = t2.0.wrapping_sub(t1.as_nanos()) as i64;
        let offset_ns = offset_ns.wrapping_sub((round_trip_ns / 2) as i64);
        let point = Point { at: t1 + round / 2, offset_ns, round_trip_ns };
        // An answer that was on its way for long, and is of a moment before that of the newest one.
        if self.points.back().is_some_and(|newest| point.at < newest.at && point.bucket() != newest.bucket())
        {
            return Exchange::Outdated;
        }
        let outcome = if self.contradicts(&point) {
            self.points.clear();
            self.steps += 1;
            Exchange::Stepped
        } else {
            Exchange::Taken
        };
        self.keep(point);
        self.line = Some(fit(&self.points));
        outcome
    }

    /// The estimate at `now`, once there was an exchange.
    pub fn estimate(&self, now: Time) -> Option<ClockEstimate> {
        let line = self.line?;
        let (offset, x) = line.at(now);
        let seen_from = |x: f64| {
            self.points.iter().map(move |point| line.seen_from(point, x)).fold(f64::INFINITY, f64::min)
        };
        // From later on than the newest point all bounds grow alike.
        let bound = if x >= 0.0 { line.bound + line.slope_error * x } else { seen_from(x) };
        Some(ClockEstimate {
            offset_ns: offset,
            drift_ppb: line.slope as i64,
            uncertainty: Duration::from_nanos((bound + ROUNDING_NS) as u64),
        })
    }

    /// How often one of the clocks was found to have been set.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Forgets everything: one of the clocks is known to have been set.
    pub fn reset(&mut self) {
        self.points.clear();
        self.line = None;
        self.steps += 1;
    }

    fn contradicts(&self, point: &Point) -> bool {
        self.estimate(point.at).is_some_and(|estimate| {
            let distance = point.offset_ns.wrapping_sub(estimate.offset_ns).unsigned_abs();
            distance as f64 > point.bound() + estimate.uncertainty.as_nanos() as f64
        })
    }

    fn keep(&mut self, point: Point) {
        match self.points.back_mut() {
            Some(last) if last.bucket() == point.bucket() => {
                if point.round_trip_ns <= last.round_trip_ns {
                    *last = point;
                }
            }
            _ => self.points.push_back(point),
        }
        if self.points.len() > WINDOW {
            self.points.pop_front();
        }
    }
}

impl Point {
    fn bucket(&self) -> u64 {
        (self.at - Time::ZERO) / BUCKET
    }

    /// How far its offset may be off: half the round trip, and what the clocks drift apart during it.
    fn bound(&self) -> f64 {
        self.round_trip_ns as f64 * (0.5 + SLOPE_LIMIT / 1e9)
    }

    fn weight(&self) -> f64 {
        let bound = self.bound() + 1_000.0;
        1.0 / (bound * bound)
    }
}

impl Line {
    /// Seconds from the origin.
    fn x(&self, at: Time) -> f64 {
        (at.as_nanos() as i64).wrapping_sub(self.origin.at.as_nanos() as i64) as f64 / 1e9
    }

    /// Offset in ns, and where that is.
    fn at(&self, at: Time) -> (i64, f64) {
        let x = self.x(at);
        (self.origin.offset_ns.wrapping_add((self.offset_ns + self.slope * x) as i64), x)
    }

    /// How far the line may be off at this point: its residual and the point's own bound.
    fn bound(&self, point: &Point) -> f64 {
        let on_line = self.at(point.at).0;
        point.offset_ns.wrapping_sub(on_line).unsigned_abs() as f64 + point.bound()
    }

    /// The same from `x` seconds after the origin: the slope may be off, too.
    fn seen_from(&self, point: &Point, x: f64) -> f64 {
        self.bound(point) + self.slope_error * (x - self.x(point.at)).abs()
    }
}

/// The line through the points, and how far it may be off. `points` is not empty.
fn fit(points: &VecDeque<Point>) -> Line {
    let line = least_squares(points);
    let bound = points.iter().map(|point| line.seen_from(point, 0.0)).fold(f64::INFINITY, f64::min);
    Line { bound, ..line }
}

/// The line through the points, weighted least squares. A slope wants three points.
fn least_squares(points: &VecDeque<Point>) -> Line {
    let newest = points[points.len() - 1];
    let mut line = Line { origin: newest, offset_ns: 0.0, slope: 0.0, slope_error: SLOPE_LIMIT, bound: 0.0 };
    let y = |point: &Point| point.offset_ns.wrapping_sub(newest.offset_ns) as f64;
    if points.len() < 3 {
        let best = points.iter().min_by_key(|point| point.round_trip_ns).expect("there is one");
        line.offset_ns = y(best);
        return line;
    }
    let total: f64 = points.iter().map(Point::weight).sum();
    let mean = |value: &dyn Fn(&Point) -> f64| {
        points.iter().map(|point| point.weight() * value(point)).sum::<f64>() / total
    };
    let (mean_x, mean_y) = (mean(&|point| line.x(point.at)), mean(&y));
    let covariance = mean(&|point| (line.x(point.at) - mean_x) * (y(point) - mean_y));
    let variance = mean(&|point| (line.x(point.at) - mean_x) * (line.x(point.at) - mean_x));
    line.slope = (covariance / variance).clamp(-SLOPE_LIMIT, SLOPE_LIMIT);
    line.offset_ns = mean_y - line.slope * mean_x;
    let span = -line.x(points[0].at);
    let ends = line.bound(&points[0]) + line.bound(&newest);
    line.slope_error = (ends / span).min(SLOPE_LIMIT + line.slope.abs());
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Rng, Seed};

    const MS: u64 = 1_000_000;

    /// A peer whose clock has an offset and runs `drift_ppb` faster, and a network with its own delay each way.
    struct Peer {
        offset_ns: i64,
        drift_ppb: i64,
        rng: Rng,
    }

    impl Peer {
        fn reads(&self, at_ns: u64) -> u64 {
            let drift = i128::from(at_ns) * i128::from(self.drift_ppb) / 1_000_000_000;
            (i128::from(at_ns) + drift + i128::from(self.offset_ns)) as u64
        }

        /// Exponential jitter on top of fixed delays, one way worse than the other.
        fn exchange(
            &mut self,
            clock: &mut ClockEstimator,
            at_ns: u64,
            base_ns: [u64; 2],
            jitter_ns: [u64; 2],
        ) -> u64 {
            let mut delay = |i: usize| base_ns[i] + (self.rng.exponential() * jitter_ns[i] as f64) as u64;
            let there = at_ns + delay(0);
            let back = there + delay(1);
            let (t2, t3) = (PeerTime(self.reads(there)), PeerTime(self.reads(there)));
            clock.record(Time::from_nanos(at_ns), t2, t3, Time::from_nanos(back));
            back
        }

        fn error(&self, clock: &ClockEstimator, at_ns: u64) -> (u64, ClockEstimate) {
            let estimate = clock.estimate(Time::from_nanos(at_ns)).expect("there was an exchange");
            let truth = self.reads(at_ns).wrapping_sub(at_ns) as i64;
            (truth.wrapping_sub(estimate.offset_ns).unsigned_abs(), estimate)
        }
    }

    #[test]
    fn the_truth_is_within_the_stated_uncertainty_under_offset_drift_and_asymmetric_jitter() {
        let offsets = [0, 3_600_000_000_000, -400_000_000];
        for (case, offset_ns) in offsets.into_iter().enumerate() {
            for drift_ppb in [-80_000, -3, 0, 20_000, 150_000] {
                let rng = Seed::new(case as u64).stream("clock");
                let mut peer = Peer { offset_ns, drift_ppb, rng };
                let mut clock = ClockEstimator::new();
                for round in 0..600 {
                    let at = 10_000_000_000 + round * 100 * MS;
                    let done = peer.exchange(&mut clock, at, [5 * MS, 9 * MS], [MS, 12 * MS]);
                    for later in [done, done + 90 * MS, done + 3_000 * MS] {
                        let (error, estimate) = peer.error(&clock, later);
                        assert!(
                            error <= estimate.uncertainty.as_nanos(),
                            "round {round}: {error} ns off, {estimate:?}, drift {drift_ppb}"
                        );
                    }
                }
                let (_, estimate) = peer.error(&clock, 70_000_000_000);
                assert!(estimate.uncertainty < Duration::from_millis(9), "{estimate:?}");
                assert_eq!(clock.steps(), 0);
            }
        }
    }

    #[test]
    fn answers_that_overtake_each_other_leave_the_bound_true() {
        let peer = Peer { offset_ns: 12_345_678, drift_ppb: 30_000, rng: Seed::new(2).stream("clock") };
        // The way back stands still for 100 s: what was asked before is answered late, what is asked after it at once, and
        // these answers come in between.
        let mut exchanges: Vec<(u64, u64)> = (1..400)
            .map(|round| {
                let asked = round * 500 * MS;
                let back = if round % 3 == 0 {
                    asked + 10 * MS
                } else {
                    (asked + 10 * MS).max(100_000 * MS + round * MS)
                };
                (asked, back)
            })
            .collect();
        exchanges.sort_by_key(|(_, back)| *back);
        let mut clock = ClockEstimator::new();
        let mut outdated = 0;
        for (asked, back) in exchanges {
            let there = PeerTime(peer.reads(asked + 5 * MS));
            let exchange = clock.record(Time::from_nanos(asked), there, there, Time::from_nanos(back));
            outdated += u32::from(exchange == Exchange::Outdated);
            let (error, estimate) = peer.error(&clock, back);
            assert!(error <= estimate.uncertainty.as_nanos(), "at {back}: {error} ns off, {estimate:?}");
        }
        assert!(outdated > 50 && clock.steps() == 0, "{outdated} {}", clock.steps());
    }

    #[test]
    fn with_little_jitter_drift_is_known_to_a_part_in_a_million() {
        let rng = Seed::new(3).stream("clock");
        let mut peer = Peer { offset_ns: 77 * MS as i64, drift_ppb: 40_000, rng };
        let mut clock = ClockEstimator::new();
        for round in 0..300 {
            peer.exchange(&mut clock, (1 + round) * 100 * MS, [2 * MS, 2 * MS], [MS / 100, MS / 100]);
        }
        let (error, estimate) = peer.error(&clock, 30_100 * MS);
        assert!((estimate.drift_ppb - 40_000).abs() < 1_000, "{estimate:?}");
        assert!(
            error < 10_000 && estimate.uncertainty < Duration::from_micros(2_200),
            "{error}, {estimate:?}"
        );
    }

    #[test]
    fn a_clock_that_is_set_is_noticed_and_the_estimate_begins_again() {
        let rng = Seed::new(4).stream("clock");
        let mut peer = Peer { offset_ns: 1_000 * MS as i64, drift_ppb: 10_000, rng };
        let mut clock = ClockEstimator::new();
        for round in 0..100 {
            peer.exchange(&mut clock, (1 + round) * 100 * MS, [3 * MS; 2], [MS; 2]);
        }
        assert_eq!(clock.steps(), 0);
        peer.offset_ns += 250 * MS as i64;
        let done = peer.exchange(&mut clock, 10_200 * MS, [3 * MS; 2], [MS; 2]);
        assert_eq!(clock.steps(), 1);
        let (error, estimate) = peer.error(&clock, done);
        assert!(error <= estimate.uncertainty.as_nanos() && estimate.uncertainty < Duration::from_millis(20));
    }

    #[test]
    fn timestamps_that_cannot_be_true_are_refused() {
        let mut clock = ClockEstimator::new();
        let at = |ms: u64| Time::from_nanos(ms * MS);
        assert_eq!(clock.record(at(2), PeerTime(5), PeerTime(5), at(1)), Exchange::Impossible);
        assert_eq!(clock.record(at(1), PeerTime(5), PeerTime(4), at(2)), Exchange::Impossible);
        assert_eq!(clock.record(at(1), PeerTime(0), PeerTime(2 * MS), at(2)), Exchange::Impossible);
        assert_eq!(clock.estimate(at(3)), None);
        // Whatever a peer claims, nothing overflows.
        assert_eq!(clock.record(at(1), PeerTime(u64::MAX), PeerTime(u64::MAX), at(2)), Exchange::Taken);
        clock.record(at(3), PeerTime(1 << 63), PeerTime(1 << 63), at(4));
        assert!(clock.estimate(Time::MAX).is_some() && clock.estimate(Time::ZERO).is_some());
    }
}
