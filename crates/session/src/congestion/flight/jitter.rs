//! How far delays scatter by chance, and what that does to the least of them.

use taut_core::{Duration, Time};

use super::TARGET;
use super::round::Round;

/// What chance adds to the least of a round: of round trips, and of the way to the peer.
pub(super) type Allowance = [Duration; 2];

/// What chance does to delays on this path, from rounds in which nothing went that can wait: what long frames do to those behind
/// them is none of it. Rounds are pooled until their standard deviation has [degrees of freedom](LEAST_FREEDOM) enough.
#[derive(Debug, Default)]
pub(super) struct Jitter {
    /// As the last round was judged.
    last: Option<Allowance>,
    /// Of the last pools, and how many there were.
    pools: [Allowance; POOLS],
    full: usize,
    /// When the newest was full; older than [`KEPT`] none counts, for the path may be another one by then.
    since: Time,
    filling: [Residue; 2],
}

const POOLS: usize = 4;
/// As long as the least of all is kept.
const KEPT: Duration = Duration::from_secs(30);
/// Where round trips vary, the least of a round is above the least of all by chance: by so many of their standard deviations.
const DEVIATIONS: f64 = 2.5;
/// By so much more is the least of a moment.
const MOMENT: f64 = 2.0;
/// Of eight frames alone, which leave six, the least of four estimates would be seven tenths of what it should be; of so many it is 0.81.
const LEAST_FREEDOM: f64 = 16.0;

impl Jitter {
    /// What chance does to this round, which goes on.
    pub(super) fn so_far(&self, round: &Round) -> Allowance {
        self.last.unwrap_or_else(|| allowance(round.scatter()))
    }

    /// The same of a round that is over, and what it tells of those to come.
    pub(super) fn judge(&mut self, now: Time, round: &Round) -> Allowance {
        if now.saturating_since(self.since) >= KEPT {
            *self = Self { since: now, ..Self::default() };
        }
        if !round.mixed {
            self.learn(now, round);
        }
        let least = |way: usize| self.known().iter().map(|pool| pool[way]).min();
        let usual = least(0).zip(least(1)).map(<[Duration; 2]>::from);
        *self.last.insert(usual.unwrap_or_else(|| allowance(round.scatter())))
    }

    fn learn(&mut self, now: Time, round: &Round) {
        for (all, round) in self.filling.iter_mut().zip(round.scatter()) {
            all.add(round);
        }
        // Of a peer that does not tell when frames arrived only round trips are known.
        let tells = |way: &Residue| way.freedom == 0.0 || way.freedom >= LEAST_FREEDOM;
        if self.filling[0].freedom >= LEAST_FREEDOM && self.filling.iter().all(tells) {
            self.pools[self.full % POOLS] = allowance(std::mem::take(&mut self.filling));
            self.full += 1;
            self.since = now;
        }
    }

    fn known(&self) -> &[Allowance] {
        &self.pools[..self.full.min(POOLS)]
    }

    /// What chance adds to the least of some milliseconds, if it adds so much to that of a round. As long as no round is known in which nothing went that
    /// can wait, a part of it may be a queue.
    pub(super) fn for_a_moment(&self, allowance: Duration) -> Duration {
        if self.full == 0 { allowance } else { Duration::from_secs_f64(MOMENT * allowance.as_secs_f64()) }
    }
}

/// None where it is less than what may wait.
fn allowance(scatter: [Residue; 2]) -> Allowance {
    scatter.map(|scatter| {
        let allowance = Duration::from_secs_f64(DEVIATIONS * scatter.deviation());
        if allowance < TARGET { Duration::ZERO } else { allowance }
    })
}

/// Points, and how far they lie from their straight line: a queue that grows or empties is no scatter.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scatter {
    pub(super) count: f64,
    pub(super) mean: (f64, f64),
    /// Sums of the squares and of the products of what the coordinates are off their means.
    pub(super) squares: (f64, f64),
    pub(super) products: f64,
    /// The last y, the sum of what each is more than the one before it, and of its square.
    pub(super) last: f64,
    pub(super) steps: (f64, f64),
}

impl Scatter {
    /// Welford's updates of means and sums.
    pub(super) fn add(&mut self, x: f64, y: f64) {
        let step = if self.count > 0.0 { y - self.last } else { 0.0 };
        self.last = y;
        self.steps = (self.steps.0 + step, self.steps.1 + step * step);
        self.count += 1.0;
        let (dx, dy) = (x - self.mean.0, y - self.mean.1);
        self.mean.0 += dx / self.count;
        self.mean.1 += dy / self.count;
        self.squares.0 += dx * (x - self.mean.0);
        self.squares.1 += dy * (y - self.mean.1);
        self.products += dx * (y - self.mean.1);
    }

    /// What of y their line of least squares leaves; nothing of fewer than three points.
    pub(super) fn about_line(&self) -> Residue {
        if self.count < 3.0 || self.squares.0 <= 0.0 {
            return Residue::default();
        }
        let squares = self.squares.1 - self.products * self.products / self.squares.0;
        Residue { squares: squares.max(0.0), freedom: self.count - 2.0 }
    }

    /// What lies between neighbours: half of its square is of either. A queue that takes many to grow is none of it, whatever its course (the mean square
    /// successive difference of von Neumann, 1941).
    pub(super) fn between_neighbours(&self) -> Residue {
        if self.count < 3.0 {
            return Residue::default();
        }
        let (sum, squares) = self.steps;
        let squares = squares - sum * sum / (self.count - 1.0);
        Residue { squares: squares.max(0.0) / 2.0, freedom: self.count - 2.0 }
    }
}

/// The sum of the squares of what is left of values, by a line through them or from one to the next, and how many of those are free.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Residue {
    pub(super) squares: f64,
    pub(super) freedom: f64,
}

impl Residue {
    /// What is left of others.
    pub(super) fn add(&mut self, other: Self) {
        self.squares += other.squares;
        self.freedom += other.freedom;
    }

    pub(super) fn deviation(&self) -> f64 {
        (self.squares / self.freedom.max(1.0)).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Of values that are these ms late, one a millisecond.
    fn scatter(late: impl IntoIterator<Item = f64>) -> Scatter {
        let mut scatter = Scatter::default();
        for (at, late) in (0_u32..).zip(late) {
            scatter.add(f64::from(at) / 1e3, late / 1e3);
        }
        scatter
    }

    /// Of 20 frames, every second one is so many ms late.
    fn round(late: f64, mixed: bool) -> Round {
        let scatter = scatter((0..20).map(|frame| if frame % 2 == 0 { late } else { 0.0 }));
        Round { scatter: [scatter; 2], mixed, ..Round::begin(Time::ZERO, 0) }
    }

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn a_queue_that_grows_is_no_scatter_and_one_that_does_both_is_none_between_neighbours() {
        let ms = |residue: Residue| residue.deviation() * 1e3;
        let grows = scatter((0..40).map(|frame| f64::from(frame) * 0.5));
        assert!(ms(grows.about_line()) < 1e-6 && ms(grows.between_neighbours()) < 1e-6);
        let burst =
            scatter((0..40).map(|frame| 0.5 * f64::from(if frame < 20 { frame } else { 40 - frame })));
        assert!(ms(burst.about_line()) > 2.0, "{}", ms(burst.about_line()));
        assert!(ms(burst.between_neighbours()) < 0.51, "{}", ms(burst.between_neighbours()));
        // Values of 0 and 2 in turn have a standard deviation of 1; a step is 2, where of unrelated values it is √2.
        let jitter = scatter((0..40).map(|frame| f64::from(frame % 2) * 2.0));
        assert!((ms(jitter.about_line()) - 1.0).abs() < 0.05, "{}", ms(jitter.about_line()));
        assert!((ms(jitter.between_neighbours()) - 2_f64.sqrt()).abs() < 0.05);
    }

    #[test]
    fn jitter_counts_for_half_a_minute_and_then_what_a_round_tells_itself() {
        let mut jitter = Jitter::default();
        let (restless, calm) = (allowance(round(8.0, false).scatter()), [Duration::ZERO; 2]);
        assert!(restless[0] > MS * 9 && restless[0] < MS * 12, "{restless:?}");
        assert_eq!(jitter.judge(at(1), &round(8.0, false)), restless);
        // A camera began, and the path became calm.
        assert_eq!(jitter.judge(at(30), &round(0.0, true)), restless);
        assert_eq!(jitter.judge(at(31), &round(0.0, true)), calm);
        assert_eq!(jitter.for_a_moment(MS), MS, "nothing is known any more");
        // And the other way round.
        assert_eq!(jitter.judge(at(40), &round(0.0, false)), calm);
        assert_eq!(jitter.judge(at(69), &round(8.0, true)), calm);
        assert!(jitter.judge(at(70), &round(8.0, true))[0] > MS * 9);
    }

    #[test]
    fn of_the_last_pools_the_least_counts_and_both_ways_have_enough() {
        let mut jitter = Jitter::default();
        let judge = |jitter: &mut Jitter, late| jitter.judge(at(1), &round(late, false))[0];
        let [least, most] = [2.0, 8.0].map(|late| allowance(round(late, false).scatter())[0]);
        assert_eq!(judge(&mut jitter, 8.0), most);
        assert_eq!(judge(&mut jitter, 2.0), least);
        assert_eq!([judge(&mut jitter, 8.0), judge(&mut jitter, 8.0), judge(&mut jitter, 8.0)], [least; 3]);
        assert_eq!(judge(&mut jitter, 8.0), most, "four pools later");
        // A peer that tells of a few frames when they arrived.
        let mut round = round(8.0, false);
        round.scatter[1] = scatter([0.0, 8.0, 0.0, 8.0]);
        let mut jitter = Jitter::default();
        jitter.judge(at(1), &round);
        assert_eq!(jitter.full, 0);
    }
}
