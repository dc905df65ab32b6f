//! The deadline scheduler: the fewest copies that meet a deadline, and the last moment for another one.
//!
//! A message goes out once, and again only when silence says that it must: at the last moment at which a copy on a path
//! still arrives in time, the answer to a copy that did arrive would have come. It costs nothing while all goes well
//! ("hedged request"; Dean, Barroso, *The Tail at Scale*, CACM 56, 2013), and what it costs otherwise is the share that
//! was lost, not the share that might be. Several copies at once are for when there is no time to wait for an answer.

use taut_core::{Duration, PathId, Time};

use super::choose::{Places, Plan, Reason};
use super::config::Target;
use super::path::{Path, PathState};

/// Copies of a message with a deadline at most, whatever happens.
pub(super) const MOST_COPIES: usize = 8;
/// The last moment for a copy is the one at which this share of the packets that arrive are still in time.
const STILL: f64 = 0.99;
/// Of the answers to what arrives, so many must have come before silence says anything.
const HEARD: f64 = 0.5;
/// After silence a message is to arrive with this probability, however rare silence is.
const LEAST_AFTER_SILENCE: f64 = 0.95;
/// A copy with less than this chance is for nothing.
const LEAST_CHANCE: f64 = 0.05;

/// The copies of a message, until it is acknowledged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copies {
    sent: [(PathId, Time); MOST_COPIES],
    count: usize,
    /// How likely it was that those sent at once would not do.
    at_first: f64,
    /// Each was to be acknowledged on every path.
    pub(super) everywhere: bool,
    /// Another one was sent because the answer to the first ones did not come.
    pub(super) again: bool,
}

impl Copies {
    pub(super) fn new() -> Self {
        let sent = [(PathId(0), Time::ZERO); MOST_COPIES];
        Self { sent, count: 0, at_first: 1.0, everywhere: false, again: false }
    }

    /// Of a reliable message without a deadline only the first ones are kept.
    pub(super) fn add(&mut self, now: Time, path: PathId) {
        if self.count < MOST_COPIES {
            self.sent[self.count] = (path, now);
            self.count += 1;
        }
    }

    pub(super) fn are_many(&self) -> bool {
        self.count == MOST_COPIES
    }

    pub(super) fn took(&self, path: PathId) -> bool {
        self.iter().any(|(id, _)| *id == path)
    }

    fn iter(&self) -> impl Iterator<Item = &(PathId, Time)> {
        self.sent[..self.count].iter()
    }
}

/// The policy, and the path that a single copy took last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scheduler {
    target: Target,
    current: Option<PathId>,
}

impl Scheduler {
    pub(super) fn new(target: Target) -> Self {
        Self { target, current: None }
    }

    /// What may be missing of certainty.
    fn tolerated(&self) -> f64 {
        1.0 - self.target.probability
    }

    /// What may be missing of certainty when nothing was heard of the first copies: of all messages the target is to arrive,
    /// and silence is as rare as they are lost.
    fn tolerated_after_silence(&self, copies: &Copies) -> f64 {
        (self.tolerated() / copies.at_first.max(f64::MIN_POSITIVE)).min(1.0 - LEAST_AFTER_SILENCE)
    }

    /// Before the copies at once are queued: how likely it is that they will not do, and whether their answers are wanted on
    /// every path, because losing one would cost another copy.
    pub(super) fn begin(&self, copies: &mut Copies, budget: Duration, places: Places, paths: &[Path]) {
        let lost = |place: usize| 1.0 - in_time(&paths[place], budget);
        copies.at_first = places.iter().map(lost).product();
        copies.everywhere = places.iter().any(|place| paths[place].losses.share() > self.tolerated());
    }

    /// The fewest copies that reach the target, together with those that may follow.
    pub(super) fn choose(&mut self, budget: Duration, paths: &[Path], alive: &[usize]) -> Plan {
        let failure = |set: &[usize]| failure(set, budget, paths, alive);
        let median = |place: usize| paths[place].one_way.quantile(0.5).unwrap_or(budget);
        let better = |a: usize, b: usize| {
            let (first, second) = (1.0 - failure(&[a]), 1.0 - failure(&[b]));
            first > second + 5e-4 || (first >= second - 1e-4 && median(a) + median(a) / 20 < median(b))
        };
        let stays = alive.iter().copied().find(|place| Some(paths[*place].id) == self.current);
        let mut first = stays.unwrap_or(alive[0]);
        for place in alive.iter().copied() {
            if better(place, first) {
                first = place;
            }
        }
        self.current = Some(paths[first].id);
        let single = failure(&[first]);
        if single <= self.tolerated() || alive.len() == 1 || self.target.copies < 2 {
            let reason = if single <= self.tolerated() { Reason::OneSuffices } else { Reason::BestEffort };
            return (Places::of([first]), Some(1.0 - single), reason);
        }
        let mut order = alive.to_vec();
        order.sort_by(|a, b| in_time(&paths[*b], budget).total_cmp(&in_time(&paths[*a], budget)));
        let (mut set, mut together) = (Vec::new(), 1.0);
        for place in order.into_iter().take(self.target.copies.into()) {
            set.push(place);
            together = failure(&set);
            if together <= self.tolerated() {
                break;
            }
        }
        // More copies must be worth it: they close a fifth of what the single one leaves open, at least.
        if together > 0.8 * single {
            return (Places::of([first]), Some(1.0 - single), Reason::BestEffort);
        }
        let reason = if together <= self.tolerated() { Reason::Together } else { Reason::BestEffort };
        (Places::of(set), Some(1.0 - together), reason)
    }

    /// It is the last moment for another copy on this path: the probability that the message arrives with it, or `None` when
    /// it is sure enough without, or the copy would hardly help.
    pub(super) fn rescue(
        &self,
        now: Time,
        copies: &Copies,
        due: Time,
        place: usize,
        paths: &[Path],
    ) -> Option<f64> {
        let (failure, heard) = silence(now, copies, due, paths);
        let chance = again_in_time(&paths[place], copies, due.saturating_since(now));
        let wanted =
            failure > self.tolerated_after_silence(copies) && heard >= HEARD && chance >= LEAST_CHANCE;
        wanted.then_some(1.0 - failure * (1.0 - chance))
    }

    /// There is no better moment for more copies of a message that nothing was heard of: their paths, and the probability that
    /// it arrives with them. As many as reach the target; paths that did not carry it yet come first.
    pub(super) fn rescue_now(
        &self,
        now: Time,
        copies: &Copies,
        due: Time,
        paths: &[Path],
    ) -> Option<(Places, f64)> {
        let (mut failure, heard) = silence(now, copies, due, paths);
        if heard < HEARD {
            return None;
        }
        let alive = (0..paths.len()).filter(|place| paths[*place].is_linked());
        let mut order: Vec<(bool, f64, usize)> = alive
            .map(|place| {
                let chance = again_in_time(&paths[place], copies, due.saturating_since(now));
                (copies.took(paths[place].id), chance, place)
            })
            .filter(|(_, chance, _)| *chance >= LEAST_CHANCE)
            .collect();
        order.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)));
        let mut places = Places::default();
        for (_, chance, place) in order.into_iter().take(self.target.copies.max(1).into()) {
            if failure <= self.tolerated_after_silence(copies) {
                break;
            }
            places.add(place);
            failure *= 1.0 - chance;
        }
        (places != Places::default()).then_some((places, 1.0 - failure))
    }
}

/// How long before a message is worthless the last copy on this path is to leave.
pub(super) fn lead(path: &Path) -> Option<Duration> {
    path.one_way.quantile(STILL).filter(|_| path.is_linked())
}

fn is_alive(path: &Path) -> bool {
    matches!(path.state, PathState::Up | PathState::Suspect)
}

/// The probability that a packet sent over this path now arrives within `budget`.
pub(super) fn in_time(path: &Path, budget: Duration) -> f64 {
    (1.0 - path.losses.next()) * path.one_way.within(budget)
}

/// The same of one more copy of a message that nothing was heard of: on a path that it took, that is bad news.
fn again_in_time(path: &Path, copies: &Copies, budget: Duration) -> f64 {
    let lost = if copies.took(path.id) { path.losses.after_one() } else { path.losses.next() };
    (1.0 - lost) * path.one_way.within(budget)
}

/// The probability that a message is not in time that takes these paths at once, and, when nothing is heard of it by then,
/// one more on each, and two at the last moment of all.
fn failure(set: &[usize], budget: Duration, paths: &[Path], alive: &[usize]) -> f64 {
    let at_once: f64 = set.iter().map(|place| 1.0 - in_time(&paths[*place], budget)).product();
    let last = alive.iter().copied().min_by_key(|place| lead(&paths[*place]).unwrap_or(Duration::MAX));
    let later = alive.iter().filter_map(|place| {
        let path = &paths[*place];
        let left = lead(path).filter(|left| *left < budget)?;
        let wait = budget.saturating_sub(left);
        let heard = set.iter().map(|first| paths[*first].round_trip.within(wait)).fold(0.0, f64::max);
        let lost = if set.contains(place) { path.losses.after_one() } else { path.losses.next() };
        let fails = |lost: f64| 1.0 - (1.0 - lost) * path.one_way.within(left);
        let twice = if last == Some(*place) { fails(path.losses.after_one()) } else { 1.0 };
        (heard >= HEARD).then(|| fails(lost) * twice)
    });
    at_once * later.product::<f64>()
}

/// Nothing was heard of these copies so far: the probability that none of them is in time (Bayes' theorem), and of the
/// answers to such copies that arrive, how many would have come.
fn silence(now: Time, copies: &Copies, due: Time, paths: &[Path]) -> (f64, f64) {
    let answer_lost = |path: &Path| match copies.everywhere {
        true => paths.iter().filter(|path| is_alive(path)).map(|path| path.losses.share()).product(),
        false => path.losses.share(),
    };
    let (mut failure, mut most_heard) = (1.0, 0.0);
    for (id, sent) in copies.iter() {
        let Some(path) = paths.iter().find(|path| path.id == *id) else { continue };
        let lost = 1.0 - in_time(path, due.saturating_since(*sent));
        let heard = path.round_trip.within(now.saturating_since(*sent));
        let silent = 1.0 - heard * (1.0 - answer_lost(path));
        failure *= lost / (lost + (1.0 - lost) * silent).max(f64::MIN_POSITIVE);
        most_heard = heard.max(most_heard);
    }
    (failure, most_heard)
}
