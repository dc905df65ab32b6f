//! What became of a flow of commands.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use taut_core::Reason;
use taut_transport::mtip::{ChoiceStats, Chosen};

use super::Distribution;

/// A flow of commands. `sent ≥ received = in_time + late`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CommandsResult {
    /// What carried them: `"mtip"`.
    pub transport: String,
    /// The age at which a command is worse than none, in milliseconds.
    pub deadline_ms: f64,
    /// Commands made after the warm-up, and those that were still to be made where their session was given up or never opened.
    pub sent: u64,
    /// Of these, arrived: given to the application, or refused by the session as late.
    pub received: u64,
    /// Of these, given to the application and not later than the deadline.
    pub in_time: u64,
    /// Of these, the others.
    pub late: u64,
    /// Given to the application once more than once.
    pub delivered_again: u64,
    /// In the whole run, not taken by the session, because there was none for example, or with `bare` by the transport.
    pub refused: u64,
    /// in_time / sent, per cent; absent when none was sent.
    pub in_time_percent: Option<f64>,
    /// The share that somebody who knows the future could have had in time over these links, per cent, whenever and over
    /// whatever paths he sent, with one copy each: what else was sent, and waiting for it, left out. Absent where the paths are
    /// not single links, and in a run over real sockets.
    pub bound_percent: Option<f64>,
    /// bound_percent less in_time_percent, in points. At least 0.
    pub below_bound_points: Option<f64>,
    /// received / sent, per cent; absent when none was sent.
    pub received_percent: Option<f64>,
    /// From making to the first delivery, in milliseconds; absent when none arrived.
    pub latency_ms: Option<Distribution>,
    /// The longest time without a command: from the end of the warm-up until the first that arrived was made, between the first deliveries of two, or from the
    /// last one to when the last command was made, in milliseconds; absent when none arrived.
    pub gap_ms: Option<f64>,
    /// In the whole run, copies sent of a message: the first one, those on other paths and those sent again. Absent where
    /// the transport does not count messages.
    pub copies: Option<f64>,
    /// In the whole run, how messages were spread over paths, and why. Of MTIP, absent for others.
    pub choices: Option<ChoicesResult>,
    /// What left on each path towards the receiver in the whole run, in the order of paths.
    pub there: Vec<PathResult>,
    /// What left on each path towards the sender.
    pub back: Vec<PathResult>,
}

/// How messages were spread over paths, and why.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChoicesResult {
    /// Messages that took one path at once, two, and so on.
    pub at_once: Vec<u64>,
    /// By reason ([`Reason::name`]): `"one_suffices"`, `"silence"` …
    pub reasons: BTreeMap<String, ChosenResult>,
    /// At the end, so much earlier than at the last moment a copy left, because the host woke up late, in milliseconds; 0 in virtual
    /// time.
    pub margin_ms: f64,
}

/// What was chosen for one reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChosenResult {
    /// How often.
    pub choices: u64,
    /// Copies of messages.
    pub copies: u64,
}

impl ChoicesResult {
    /// `2299 messages on 1 path at once, 1 on 2; copies more: 3 silence`.
    pub fn in_words(&self) -> String {
        let place = |(place, count): (usize, &u64)| match place {
            0 => format!("{count} messages on 1 path at once"),
            _ => format!("{count} on {}", place + 1),
        };
        let spread: Vec<_> = self.at_once.iter().enumerate().map(place).collect();
        let again = Reason::ALL.into_iter().filter(|reason| reason.is_again());
        let again = again.filter_map(|reason| Some((reason, self.reasons.get(reason.name())?)));
        let again: Vec<_> = again.map(|(reason, why)| format!("{} {}", why.copies, reason.name())).collect();
        let again = if again.is_empty() { "none".to_owned() } else { again.join(", ") };
        format!("{}; copies more: {again}", spread.join(", "))
    }
}

impl From<ChoiceStats> for ChoicesResult {
    fn from(stats: ChoiceStats) -> Self {
        let most = stats.at_once.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
        let chosen = |chosen: Chosen| ChosenResult { choices: chosen.choices, copies: chosen.copies };
        Self {
            at_once: stats.at_once[..most].to_vec(),
            reasons: stats.iter().map(|(reason, why)| (reason.name().to_owned(), chosen(why))).collect(),
            margin_ms: stats.margin.as_millis_f64(),
        }
    }
}

/// What left on one path in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathResult {
    /// Packets.
    pub packets: u64,
    /// Their bytes, IP headers included.
    pub bytes: u64,
}
