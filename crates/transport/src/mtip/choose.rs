//! Which paths a message takes, and why.

use std::collections::VecDeque;

use taut_core::{Duration, PathId, Reason, Time};

use super::MAX_PATHS;
use super::config::{Adaptive, Policy};
use super::deadline::Scheduler;
use super::path::{Path, PathState};
use super::published::rank;

/// A set of paths, a bit for each place in the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Places(u16);

impl Places {
    pub(super) fn add(&mut self, place: usize) {
        self.0 |= 1 << place;
    }

    pub(super) fn contains(self, place: usize) -> bool {
        self.0 & 1 << place != 0
    }

    pub(super) fn iter(self) -> impl Iterator<Item = usize> {
        (0..16).filter(move |place| self.contains(*place))
    }

    pub(super) fn of(places: impl IntoIterator<Item = usize>) -> Self {
        let mut set = Self::default();
        places.into_iter().for_each(|place| set.add(place));
        set
    }
}

/// Which paths, how sure, and why.
pub(super) type Plan = (Places, Option<f64>, Reason);

/// A policy and what it remembers.
#[derive(Clone, Debug)]
pub(super) struct Chooser {
    policy: Policy,
    latency_weight: f64,
    /// The published rule: what is on its way counts as missing, and reliability never forgets.
    as_published: bool,
    /// How many paths the adaptive rule uses.
    count: usize,
    recent: VecDeque<Recent>,
    pub(super) deadline: Option<Scheduler>,
}

/// One of the messages of the adaptive rule's window.
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    number: u64,
    on_time: bool,
    duplicate: bool,
    late: bool,
    missing: bool,
}

/// Messages that the adaptive rule remembers beyond its window, those on their way.
const ON_THEIR_WAY: usize = 256;

/// The published rule: so many of the newest that were not answered yet are not missing.
const STILL_OPEN: usize = 2;

/// A path that is down for so long is left out when all are taken.
const HOPELESS_AFTER: Duration = Duration::from_secs(1);

impl Chooser {
    pub(super) fn new(policy: Policy, latency_weight: f64, as_published: bool) -> Self {
        let deadline = match policy {
            Policy::Deadline(target) => Some(Scheduler::new(target)),
            _ => None,
        };
        // The published rule begins with every path.
        let count = if as_published { MAX_PATHS } else { 1 };
        Self { policy, latency_weight, as_published, count, recent: VecDeque::new(), deadline }
    }

    /// The probability that the policy asks for.
    pub(super) fn target(&self) -> Option<f64> {
        self.deadline.map(|scheduler| scheduler.target.probability)
    }

    /// So much earlier than the last moment copies are asked for.
    pub(super) fn margin(&self) -> Duration {
        self.deadline.map_or(Duration::ZERO, |scheduler| scheduler.margin)
    }

    /// Does it name a path that is not there yet?
    pub(super) fn waits_for_its_path(&self, paths: &[Path]) -> bool {
        let is_there = |id: PathId| paths.iter().any(|path| path.id == id && path.is_linked());
        matches!(self.policy, Policy::Fixed(id) if !is_there(id))
    }

    /// For the message `number`, worthless after another `budget`.
    pub(super) fn choose(&mut self, now: Time, number: u64, budget: Duration, paths: &[Path]) -> Plan {
        let linked = || (0..paths.len()).filter(|place| paths[*place].is_linked());
        let alive = || linked().filter(|place| paths[*place].state != PathState::Down);
        if alive().next().is_none() {
            return (Places::of(linked()), None, Reason::NoneAlive);
        }
        match self.policy {
            Policy::All => {
                let is_hopeless = |place: &usize| paths[*place].is_down_for(now, HOPELESS_AFTER);
                let all = linked().filter(|place| self.as_published || !is_hopeless(place));
                (Places::of(all), None, Reason::Policy)
            }
            Policy::Fixed(id) => {
                (Places::of(linked().filter(|place| paths[*place].id == id)), None, Reason::Policy)
            }
            Policy::Best(count) => (self.best(now, count.into(), paths), None, Reason::Policy),
            Policy::Adaptive(adaptive) => {
                match self.as_published {
                    true => self.adapt_as_published(adaptive, linked().count()),
                    false => self.adapt(adaptive, linked().count()),
                }
                let (keep, missing) = (adaptive.window + ON_THEIR_WAY, self.as_published);
                self.recent.push_back(Recent { number, missing, ..Recent::default() });
                while self.recent.len() > keep {
                    self.recent.pop_front();
                }
                (self.best(now, self.count, paths), None, Reason::Policy)
            }
            Policy::Deadline(_) => {
                let scheduler = self.deadline.as_mut().expect("the policy has one");
                scheduler.choose(now, budget, paths, &alive().collect::<Vec<_>>())
            }
        }
    }

    /// The best so many by the source's rank.
    fn best(&self, now: Time, count: usize, paths: &[Path]) -> Places {
        let rank = |place: &usize| {
            let (path, weight) = (&paths[*place], self.latency_weight);
            match self.as_published {
                true => path.published.rank(weight),
                false => rank(weight, path.one_way.quantile(0.5), 1.0 - path.next_lost(now)),
            }
        };
        let mut order: Vec<usize> = (0..paths.len()).filter(|place| paths[*place].is_linked()).collect();
        order.sort_by(|a, b| rank(b).total_cmp(&rank(a)));
        Places::of(order.into_iter().take(count.max(1)))
    }

    /// The rule of the source: over the last `window` messages, too many late or missing: one path more; too many
    /// duplicates: one fewer.
    fn adapt(&mut self, adaptive: Adaptive, most: usize) {
        let decided = self
            .recent
            .iter()
            .rev()
            .filter(|message| message.on_time || message.duplicate || message.missing);
        let window = adaptive.window.max(1);
        let (mut seen, mut bad, mut duplicates) = (0, 0, 0);
        for message in decided.take(window) {
            seen += 1;
            bad += usize::from(!message.on_time);
            duplicates += usize::from(message.duplicate);
        }
        if seen < window {
            return;
        }
        let more_than = |count: usize, share: f64| count as f64 > share * window as f64;
        if more_than(bad, adaptive.late_threshold) {
            self.count = (self.count + 1).min(most.max(1));
            self.recent.clear();
        } else if more_than(duplicates, adaptive.duplicate_threshold) && self.count > 1 {
            self.count -= 1;
            self.recent.clear();
        }
    }

    /// The same as its authors run it (their evaluation material): once there are entries of `window` messages and one more, the newest
    /// `window` are counted and the counts held against the thresholds' shares of all entries; then it begins anew.
    fn adapt_as_published(&mut self, adaptive: Adaptive, most: usize) {
        self.count = self.count.clamp(1, most.max(1));
        let size = self.recent.len();
        if size <= adaptive.window {
            return;
        }
        let (mut bad, mut duplicates, mut open) = (0, 0, 0);
        for message in self.recent.iter().rev().take(adaptive.window) {
            let is_open = !message.on_time && !message.duplicate && !message.late;
            open += usize::from(is_open);
            bad += usize::from(message.late || is_open && open > STILL_OPEN);
            duplicates += usize::from(message.duplicate);
        }
        let more_than = |count: usize, share: f64| count as f64 > share * size as f64;
        if more_than(bad, adaptive.late_threshold) {
            self.count = (self.count + 1).min(most.max(1));
        } else if more_than(duplicates, adaptive.duplicate_threshold) && self.count > 1 {
            self.count -= 1;
        }
        self.recent.clear();
    }

    /// The peer says what became of a copy.
    pub(super) fn heard(&mut self, number: u64, on_time: bool, duplicate: bool) {
        let is_known = self.recent.iter().any(|message| message.number == number);
        if self.as_published && !is_known && self.recent.len() < ON_THEIR_WAY {
            // What is answered late counts among those that come after it.
            self.recent.push_back(Recent { number, missing: true, ..Recent::default() });
        }
        if let Some(message) = self.recent.iter_mut().rev().find(|message| message.number == number) {
            message.on_time |= on_time;
            message.duplicate |= duplicate;
            message.missing |= !on_time && !duplicate;
            message.late |= !on_time && !duplicate;
        }
    }

    /// A copy is overdue.
    pub(super) fn missed(&mut self, number: u64) {
        if let Some(message) = self.recent.iter_mut().rev().find(|message| message.number == number) {
            message.missing = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: Duration = Duration::from_millis(15);

    /// The source's rule over two paths, its window 5 and thresholds 50 % and 20 %, and how many paths each message took.
    struct Published {
        chooser: Chooser,
        paths: [Path; 2],
        next: u64,
    }

    impl Published {
        fn new() -> Self {
            let adaptive = Adaptive { late_threshold: 0.2, ..Adaptive::default() };
            let linked = |id| {
                let mut path = Path::new(Time::ZERO, PathId(id));
                path.state = PathState::Up;
                path
            };
            Self {
                chooser: Chooser::new(Policy::Adaptive(adaptive), 0.5, true),
                paths: [linked(0), linked(1)],
                next: 0,
            }
        }

        /// Over how many paths the next messages go; what the peer says of each is said before the next.
        fn send<const N: usize>(&mut self, said: [&str; N]) -> [usize; N] {
            said.map(|said| {
                let number = self.next;
                self.next += 1;
                let (places, ..) = self.chooser.choose(Time::ZERO, number, BUDGET, &self.paths);
                said.bytes().for_each(|verdict| self.hear(number, verdict));
                places.iter().count()
            })
        }

        fn hear(&mut self, number: u64, verdict: u8) {
            self.chooser.heard(number, verdict == b'1', verdict == b'2');
        }

        /// Six messages that arrive twice each, after which the next takes one path.
        fn on_one_path() -> Self {
            let mut it = Self::new();
            assert_eq!(it.send(["12"; 6]), [2; 6], "both paths at the start");
            it
        }
    }

    #[test]
    fn the_published_rule_decides_once_there_are_six_and_begins_anew() {
        let mut rule = Published::on_one_path();
        assert_eq!(rule.send(["1", "3", "3", "1", "1", "1"]), [1; 6], "one block of its own");
        assert_eq!(rule.send(["1"; 6]), [2; 6], "two late of five are more than 20 % of six");
        assert_eq!(rule.send(["1"; 6]), [2; 6], "and were forgotten with their block");
    }

    #[test]
    fn the_published_thresholds_are_shares_of_all_six_though_five_are_counted() {
        let mut rule = Published::on_one_path();
        assert_eq!(rule.send(["3", "1", "1", "1", "1", "3"]), [1; 6]);
        assert_eq!(rule.send(["1"; 6]), [1; 6], "one late of the newest five: 20 % of six is more");
        let mut rule = Published::new();
        rule.send(["12", "12", "12", "12", "1", "1"]);
        assert_eq!(rule.send(["1"; 6]), [2; 6], "three duplicates are half of six");
    }

    #[test]
    fn by_the_published_rule_the_newest_two_that_are_unanswered_are_not_missing() {
        let mut rule = Published::on_one_path();
        assert_eq!(rule.send(["1", "1", "", "1", "", ""]), [1; 6]);
        assert_eq!(rule.send(["1", "1", "", "", "", ""]), [1; 6], "one was missing");
        assert_eq!(rule.send(["1"; 6]), [2; 6], "two were");
    }

    #[test]
    fn by_the_published_rule_an_answer_that_comes_late_counts_in_a_later_block() {
        let mut rule = Published::on_one_path();
        assert_eq!(rule.send(["1", "1", "1", "1", "", ""]), [1; 6]);
        assert_eq!(rule.send(["1", "1"]), [1; 2]);
        rule.hear(10, b'3');
        rule.hear(11, b'3');
        assert_eq!(rule.send(["1", "1"]), [1; 2], "with these two the block has six");
        assert_eq!(rule.send(["1"]), [2]);
    }
}
