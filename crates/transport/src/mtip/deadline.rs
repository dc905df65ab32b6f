//! The deadline scheduler: the fewest copies that meet a deadline, and the last moment for another one.
//!
//! A message goes out once, and again only when silence says that it must: at the last moment at which a copy on a path
//! still arrives in time, the answer to a copy that did arrive would have come; or earlier, when that answer is overdue. It
//! costs nothing while all goes well ("hedged request"; Dean, Barroso, *The Tail at Scale*, CACM 56, 2013), and what it costs
//! otherwise is the share that was lost, not the share that might be. Several copies at once are for when there is no time to
//! wait for an answer.

use taut_core::{Duration, PathId, Reason, Time};
use taut_wire::mtip::Hold;

use super::choose::{Places, Plan};
use super::config::Target;
use super::path::Path;

/// What is to come of a message.
#[derive(Clone, Copy, Debug)]
struct Outlook {
    /// The probability that it is not in time.
    failure: f64,
    /// How many copies it takes in the mean.
    copies: f64,
}

/// Copies of a message with a deadline at most, whatever happens.
pub(super) const MOST_COPIES: usize = 8;
/// The last moment for a copy is the one at which this share of the packets that arrive are still in time.
pub(super) const STILL: f64 = 0.99;
/// After silence a message is to arrive with this probability, however rare silence is.
const LEAST_AFTER_SILENCE: f64 = 0.95;
/// What happens less often than this may cost more copies than the target names.
const RARE: f64 = 0.2;
/// So many copies more are as many, when they leave sooner.
const SAME: f64 = 0.1;
/// Of a path of which nothing is known so much may be late, and it is the less the more is known.
const UNKNOWN: f64 = 0.03;
/// A path that seems dead is tried so often at most.
const TRIED_EVERY: Duration = Duration::from_millis(100);
/// So many copies more or fewer are no difference.
const FEW: f64 = 0.02;
/// A copy with less than this chance is for nothing.
const LEAST_CHANCE: f64 = 0.05;

/// A copy of a message.
#[derive(Clone, Copy, Debug, Default)]
struct Sent {
    path: PathId,
    at: Time,
    /// So long its answer may wait for others.
    hold: Duration,
}

/// The copies of a message, until it is acknowledged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copies {
    sent: [Sent; MOST_COPIES],
    count: usize,
    /// Each was to be acknowledged on every path.
    pub(super) everywhere: bool,
    /// Another one was sent because the answer to the first ones did not come.
    pub(super) again: bool,
}

impl Copies {
    pub(super) fn new() -> Self {
        Self { sent: Default::default(), count: 0, everywhere: false, again: false }
    }

    /// Of a reliable message without a deadline only the first ones are kept.
    pub(super) fn add(&mut self, now: Time, path: PathId) {
        if self.count < MOST_COPIES {
            self.sent[self.count] = Sent { path, at: now, hold: Duration::ZERO };
            self.count += 1;
        }
    }

    /// The answer to the newest copy on this path may wait for so long.
    pub(super) fn may_wait(&mut self, path: PathId, hold: Duration) {
        let on_path = self.sent[..self.count].iter_mut().rev().find(|sent| sent.path == path);
        on_path.into_iter().for_each(|sent| sent.hold = hold);
    }

    pub(super) fn are_many(&self) -> bool {
        self.count == MOST_COPIES
    }

    /// How long ago the newest copy left on this path.
    fn since(&self, now: Time, path: PathId) -> Option<Duration> {
        let on_path = self.iter().rev().find(|sent| sent.path == path);
        on_path.map(|sent| now.saturating_since(sent.at))
    }

    pub(super) fn took(&self, path: PathId) -> bool {
        self.iter().any(|sent| sent.path == path)
    }

    fn iter(&self) -> impl DoubleEndedIterator<Item = &Sent> {
        self.sent[..self.count].iter()
    }
}

/// The policy, and the path that a single copy took last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scheduler {
    pub(super) target: Target,
    current: Option<PathId>,
    /// A path that seems dead was tried then.
    tried: Time,
    /// A copy at a last moment may leave so much later: it is asked for so much earlier.
    pub(super) margin: Duration,
}

impl Scheduler {
    pub(super) fn new(target: Target) -> Self {
        Self { target, current: None, tried: Time::ZERO, margin: Duration::ZERO }
    }

    /// What may be missing of certainty.
    fn tolerated(&self) -> f64 {
        1.0 - self.target.probability
    }

    /// Is another copy wanted of a message that nothing was heard of, which happens with the probability `silent`, and
    /// that fails then with `failure`? Of all messages the target is to arrive; and of those that nothing was heard of, most.
    /// More copies than the target names are for what is rare.
    fn wants_more(&self, failure: f64, silent: f64, copies: usize) -> bool {
        let is_wanted = failure * silent > self.tolerated() || failure > 1.0 - LEAST_AFTER_SILENCE;
        is_wanted && (copies < usize::from(self.target.copies) || silent < RARE)
    }

    /// Before the copies at once are queued: whether their answers are wanted on every path. Losing one would cost another copy, and only
    /// another path tells a path that loses answers from one that loses messages.
    pub(super) fn begin(&self, now: Time, copies: &mut Copies, places: Places, paths: &[Path]) {
        copies.everywhere = self.asks_everywhere(now, places.iter(), paths);
    }

    fn asks_everywhere(&self, now: Time, mut places: impl Iterator<Item = usize>, paths: &[Path]) -> bool {
        paths.len() > 1 && places.any(|place| paths[place].is_doubtful(now, self.tolerated()))
    }

    /// How long before a message is worthless the last copy on this path is to be asked for.
    pub(super) fn lead(&self, path: &Path) -> Option<Duration> {
        path.one_way.quantile(STILL).filter(|_| path.is_linked()).map(|delay| delay + self.margin)
    }

    /// The same of each path where there is time for a copy; the first moment first.
    fn last_moments(&self, budget: Duration, paths: &[Path], alive: &[usize]) -> Vec<(Duration, usize)> {
        let lead = |place: &usize| Some((self.lead(&paths[*place]).filter(|lead| *lead < budget)?, *place));
        let mut moments: Vec<_> = alive.iter().filter_map(lead).collect();
        moments.sort_by(|a, b| b.cmp(a));
        moments
    }

    /// The fewest copies that reach the target, together with those that may follow.
    pub(super) fn choose(&mut self, now: Time, budget: Duration, paths: &[Path], alive: &[usize]) -> Plan {
        let moments = self.last_moments(budget, paths, alive);
        let outlook = |set: &[usize]| self.outlook(now, set, budget, paths, &moments);
        let median = |place: usize| paths[place].one_way.quantile(0.5).unwrap_or(budget);
        let better = |a: usize, b: usize| {
            let (one, other) = (outlook(&[a]), outlook(&[b]));
            let is_enough = [one, other].map(|it| it.failure <= self.tolerated());
            if is_enough == [true; 2] && (one.copies - other.copies).abs() > FEW {
                return one.copies < other.copies;
            }
            let (first, second) = (1.0 - one.failure, 1.0 - other.failure);
            first > second + 5e-4 || (first >= second - 1e-4 && median(a) + median(a) / 20 < median(b))
        };
        let stays = alive.iter().copied().find(|place| Some(paths[*place].id) == self.current);
        let mut first = stays.unwrap_or(alive[0]);
        for place in alive.iter().copied() {
            if better(place, first) {
                first = place;
            }
        }
        let mut order = alive.to_vec();
        order.sort_by(|a, b| in_time(&paths[*b], now, budget).total_cmp(&in_time(&paths[*a], now, budget)));
        let single = outlook(&[first]);
        let (mut best, mut chosen) = (single, vec![first]);
        for count in 2..=order.len().min(self.target.copies.into()) {
            let (set, more) = (&order[..count], outlook(&order[..count]));
            let is_enough = |it: &Outlook| it.failure <= self.tolerated();
            let costs_nothing = more.copies < best.copies + SAME;
            let is_better = match (is_enough(&best), is_enough(&more)) {
                (true, enough) => enough && costs_nothing,
                // More copies must be worth it: they close a fifth of what is left open, at least.
                (false, _) => more.failure < if costs_nothing { 1.0 } else { 0.8 } * best.failure,
            };
            if is_better {
                (best, chosen) = (more, set.to_vec());
            }
        }
        self.current = Some(paths[first].id);
        if best.failure > self.tolerated() {
            chosen.extend(self.worth_a_try(now, paths));
        }
        let reason = match chosen.len() {
            _ if best.failure > self.tolerated() => Reason::BestEffort,
            1 => Reason::OneSuffices,
            _ => Reason::Together,
        };
        (Places::of(chosen), Some(1.0 - best.failure), reason)
    }

    /// Where the others are not sure enough, a path that seems dead is tried, the longer it does the more seldom: perhaps it only
    /// loses answers, which the others can bring.
    fn worth_a_try(&mut self, now: Time, paths: &[Path]) -> Option<usize> {
        let waited = now.saturating_since(self.tried);
        let is_due = |path: &Path| path.down_for(now).is_some_and(|down| waited >= TRIED_EVERY.max(down / 4));
        let place = (0..paths.len()).find(|place| paths[*place].is_linked() && is_due(&paths[*place]))?;
        self.tried = now;
        Some(place)
    }

    /// What comes of a message that takes these paths at once, and others at their last moments when nothing is heard of it.
    fn outlook(
        &self,
        now: Time,
        set: &[usize],
        budget: Duration,
        paths: &[Path],
        moments: &[(Duration, usize)],
    ) -> Outlook {
        let lost = |place: &usize| 1.0 - in_time(&paths[*place], now, budget);
        let everywhere = self.asks_everywhere(now, set.iter().copied(), paths);
        let mut outlook = Outlook { failure: set.iter().map(lost).product(), copies: set.len() as f64 };
        let mut sent = set.len();
        for (at, (left, place)) in moments.iter().copied().enumerate() {
            let wait = budget.saturating_sub(left);
            let silent = |first: &usize| {
                let hold = if everywhere { Hold::NONE } else { paths[*first].hold(now) };
                let heard = paths[*first].answers(everywhere).within(wait.saturating_sub(hold.duration()));
                lost(first) + (1.0 - lost(first)) * (1.0 - heard)
            };
            let silent: f64 = set.iter().map(silent).product();
            let chance = |place: usize| {
                let took = set.contains(&place).then_some(wait);
                again_in_time(&paths[place], now, took, left.saturating_sub(self.margin))
            };
            // At the last one of them paths that did not carry it yet come first.
            let tries = match at + 1 == moments.len() {
                true => best_first(paths, |place| (set.contains(&place), chance(place))),
                false => vec![place],
            };
            for place in tries.into_iter().take(self.target.copies.max(1).into()) {
                if !self.wants_more(outlook.failure / silent.max(f64::MIN_POSITIVE), silent, sent) {
                    break;
                }
                outlook.failure *= 1.0 - chance(place);
                outlook.copies += silent;
                sent += 1;
            }
        }
        outlook
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
        let (failure, silent) = silence(now, copies, due, paths);
        let chance =
            again_in_time(&paths[place], now, copies.since(now, paths[place].id), due.saturating_since(now));
        let wanted = self.wants_more(failure, silent, copies.count) && chance >= LEAST_CHANCE;
        wanted.then_some(1.0 - failure * (1.0 - chance))
    }

    /// Waiting tells nothing more of a message that nothing was heard of: the paths of more copies, and the probability that
    /// it arrives with them. As many as reach the target; paths that did not carry it yet come first.
    pub(super) fn rescue_now(
        &self,
        now: Time,
        copies: &Copies,
        due: Time,
        paths: &[Path],
    ) -> Option<(Places, f64)> {
        let ((mut failure, silent), mut sent) = (silence(now, copies, due, paths), copies.count);
        let took = |place: usize| copies.since(now, paths[place].id);
        let chance = |place: usize| again_in_time(&paths[place], now, took(place), due.saturating_since(now));
        let order = best_first(paths, |place| (took(place).is_some(), chance(place)));
        let mut places = Places::default();
        for place in order.into_iter().take(self.target.copies.max(1).into()) {
            if !self.wants_more(failure, silent, sent) {
                break;
            }
            places.add(place);
            sent += 1;
            failure *= 1.0 - chance(place);
        }
        (places != Places::default()).then_some((places, 1.0 - failure))
    }
}

/// The probability that a packet sent over this path now arrives within `budget`.
pub(super) fn in_time(path: &Path, now: Time, budget: Duration) -> f64 {
    (1.0 - path.next_lost(now))
        * (path.one_way.within(budget) - UNKNOWN / (path.one_way.count() + 1) as f64).max(0.0)
}

/// The same of one more copy of a message that nothing was heard of: on a path that took it so long ago, that is bad news.
fn again_in_time(path: &Path, now: Time, took: Option<Duration>, budget: Duration) -> f64 {
    let lost = took.map_or_else(|| path.next_lost(now), |gap| path.next_lost_after(now, gap));
    (1.0 - lost) * path.one_way.within(budget)
}

/// The paths where one more copy may help, by whether they took the message, and by its chance there.
fn best_first(paths: &[Path], of: impl Fn(usize) -> (bool, f64)) -> Vec<usize> {
    let linked = (0..paths.len()).filter(|place| paths[*place].is_linked());
    let mut order: Vec<_> =
        linked.map(|place| (of(place), place)).filter(|((_, chance), _)| *chance >= LEAST_CHANCE).collect();
    order.sort_by(|(a, _), (b, _)| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)));
    order.into_iter().map(|(_, place)| place).collect()
}

/// Nothing was heard of these copies so far: the probability that none of them is in time (Bayes' theorem), and how likely
/// silence was.
fn silence(now: Time, copies: &Copies, due: Time, paths: &[Path]) -> (f64, f64) {
    let (mut failure, mut silence) = (1.0, 1.0);
    for sent in copies.iter() {
        let Some(path) = paths.iter().find(|path| path.id == sent.path) else { continue };
        let lost = 1.0 - in_time(path, sent.at, due.saturating_since(sent.at));
        let waited = now.saturating_since(sent.at + sent.hold);
        let silent = 1.0 - path.answers(copies.everywhere).within(waited);
        let silent = lost + (1.0 - lost) * silent;
        failure *= lost / silent.max(f64::MIN_POSITIVE);
        silence *= silent;
    }
    (failure, silence)
}
