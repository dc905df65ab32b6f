//! What was chosen for each message, and the estimates behind it.

use taut_core::{Choice, Duration, PathEstimate, Reason, Time};

use super::choose::Places;
use super::deadline::in_time;
use super::path::{Path, PathState};
use super::{MAX_PATHS, Mtip};

/// Choices that wait to be read; the oldest go first.
const CHOICES: usize = 256;

/// How messages were spread over paths, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChoiceStats {
    /// Messages that took one path at once, two, and so on.
    pub at_once: [u64; MAX_PATHS],
    /// By reason, in the order of [`Reason::ALL`].
    pub reasons: [Chosen; Reason::ALL.len()],
    /// So much earlier than the last moment copies leave, because this host wakes up late; as of now.
    pub margin: Duration,
}

/// What was chosen for one reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chosen {
    /// How often.
    pub choices: u64,
    /// Copies that were to leave.
    pub copies: u64,
}

impl ChoiceStats {
    /// What was chosen for `reason`.
    pub fn of(&self, reason: Reason) -> Chosen {
        self.reasons[reason as usize]
    }

    /// The reasons that there were.
    pub fn iter(&self) -> impl Iterator<Item = (Reason, Chosen)> {
        Reason::ALL.into_iter().zip(self.reasons).filter(|(_, chosen)| chosen.choices > 0)
    }

    fn count(&mut self, copies: usize, reason: Reason) {
        if !reason.is_again() {
            self.at_once[copies.clamp(1, MAX_PATHS) - 1] += 1;
        }
        let chosen = &mut self.reasons[reason as usize];
        (chosen.choices, chosen.copies) = (chosen.choices + 1, chosen.copies + copies as u64);
    }
}

/// How messages were spread over paths, and what is known of the paths now.
#[derive(Clone, Debug, PartialEq)]
pub struct ChoiceReport {
    /// Since the conversation began.
    pub stats: ChoiceStats,
    /// The probability that is asked for; `None` where the policy has none.
    pub target: Option<f64>,
    /// The age at which a message without a deadline of its own is worthless: what [`PathEstimate::in_time`] is about.
    pub deadline: Duration,
    /// The paths that are linked.
    pub paths: Vec<PathEstimate>,
}

/// A message that paths were chosen for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subject {
    pub(super) number: u64,
    pub(super) tag: u64,
    pub(super) budget: Duration,
}

impl Mtip {
    /// How messages were spread over paths, and why.
    pub fn choices(&self) -> ChoiceStats {
        ChoiceStats { margin: self.chooser.margin(), ..self.chosen }
    }

    /// The same, and what is known of the paths.
    pub fn choice_report(&self) -> ChoiceReport {
        let deadline = self.config.deadline;
        let target = self.chooser.target();
        ChoiceReport {
            stats: self.choices(),
            target,
            deadline,
            paths: self.all_estimates(self.heard, deadline),
        }
    }

    /// The oldest choice that was not read yet, of the last 256; always `None` unless
    /// [`explain`](super::MtipConfig::explain) asks for them.
    pub fn poll_choice(&mut self) -> Option<Choice> {
        self.choices.pop_front()
    }

    /// `estimates`: of each place in the list of paths, as they were when it was chosen.
    pub(super) fn explain(
        &mut self,
        subject: Subject,
        places: Places,
        probability: Option<f64>,
        reason: Reason,
        estimates: Vec<PathEstimate>,
    ) {
        self.chosen.count(places.iter().count(), reason);
        if !self.config.explain {
            return;
        }
        if self.choices.len() == CHOICES {
            self.choices.pop_front();
        }
        let Subject { number, tag, budget } = subject;
        let paths = places.iter().map(|place| self.paths[place].id).collect();
        let (target, margin) = (self.chooser.target(), self.chooser.margin());
        self.choices.push_back(Choice {
            number,
            tag,
            paths,
            reason,
            budget,
            probability,
            target,
            margin,
            estimates,
        });
    }

    /// What is known of each path, if anybody asks.
    pub(super) fn estimates(&self, now: Time, budget: Duration) -> Vec<PathEstimate> {
        if self.config.explain { self.all_estimates(now, budget) } else { Vec::new() }
    }

    fn all_estimates(&self, now: Time, budget: Duration) -> Vec<PathEstimate> {
        self.paths.iter().filter(|path| path.is_linked()).map(|path| estimate(path, now, budget)).collect()
    }
}

fn estimate(path: &Path, now: Time, budget: Duration) -> PathEstimate {
    PathEstimate {
        path: path.id,
        up: path.state == PathState::Up,
        loss: path.next_lost(now),
        in_time: in_time(path, now, budget),
        one_way_p50: path.one_way.quantile(0.5),
        one_way_p99: path.one_way.quantile(0.99),
        round_trip_p99: path.answers(false).delays.quantile(0.99),
    }
}
