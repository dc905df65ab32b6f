//! Which transport, with which settings, over this network: a decision tree whose every branch cites what was measured.
//!
//! The tree asks in this order: security, operating system, networks at once, addresses that change, what must arrive, by
//! when, how evenly, with how much CPU and memory. What is left is ordered by how much it uses up of what is allowed, delay,
//! jitter and loss together; alike, by bytes on the wire; alike, by who else speaks it. The first four are answered from what the
//! protocols and their drivers are, CPU and memory from [`ResourceEvidence`](crate::evidence::ResourceEvidence), the
//! others from [`Evidence`](crate::evidence::Evidence):
//! between measured points the worse neighbour stands in, and [`Between`] says so. For several networks at once there is
//! evidence of its own ([`PathEvidence`](crate::evidence::PathEvidence)): commands that must be in time while links fail,
//! jitter and lose.

mod estimate;
mod need;
mod paths;
mod question;
mod text;
mod tree;

use serde::{Deserialize, Serialize};

pub use need::{Need, Os, Security};
pub use paths::{PathsAdvice, PathsCandidate};
pub use question::Question;
pub use text::{advice_text, recommendation_text};
pub use tree::recommend;

use taut_core::{Duration, Probability};
use taut_lab::laws::{LawAdvice, Touching};
use taut_qos::touch::Felt;

use crate::evidence::{Carrier, Condition};

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recommendation {
    /// What was asked.
    pub need: Need,
    /// What to take; absent when nothing meets the need.
    pub choice: Option<Candidate>,
    /// What to take over several networks at once, where that is asked: there `choice` has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paths: Option<PathsAdvice>,
    /// The other carriers: those that meet the need as well, best first, then those that do not, nearest first.
    pub others: Vec<Candidate>,
    /// The questions in the order in which they were asked.
    pub steps: Vec<Step>,
    /// What of the network is outside of all that was measured, in words: there is no choice then, and no figure.
    pub outside: Vec<String>,
    /// The answer for the nearest network that was measured, where this one is outside: of its own network, and a guess here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nearest: Option<Box<Recommendation>>,
    /// What of the network was not measured as it is, and what stands in for it. None here and outside: every figure is of
    /// exactly this network. Else each is the worst of the neighbours, and the truth may be better.
    pub between: Vec<Between>,
    /// How things feel that an arm touches, over what is to be taken: with the 99th percentile of its delay each way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub touch: Vec<Felt>,
    /// By which control law to touch over what is to be taken, and how stiff a thing stays calm: where `touch` is asked for, or
    /// [`with_laws`](Self::with_laws).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub laws: Option<LawAdvice>,
    /// What to mind that the figures do not show, in words.
    pub cautions: Vec<String>,
    /// What is cited, numbered from 1 by its place.
    pub citations: Vec<Citation>,
}

impl Recommendation {
    /// Is there something to take, and does a control law keep calm what is touched?
    pub fn is_met(&self) -> bool {
        let taken = self.paths.as_ref().map_or(self.choice.is_some(), |paths| paths.choice.is_some());
        taken && self.laws.as_ref().is_none_or(LawAdvice::is_met)
    }

    /// With the control laws over what is to be taken, where force comes back: from twice the idle way to twice the 99th percentile of
    /// the delay, with its jitter and the larger loss of either way. Simulates for seconds.
    pub fn with_laws(mut self) -> Self {
        self.nearest = self.nearest.map(|nearest| Box::new(nearest.with_laws()));
        let ms = |value: f64| Duration::from_secs_f64(value / 1e3);
        let choice = self.choice.as_ref().filter(|_| self.need.haptic && self.laws.is_none());
        let advised = choice.and_then(|choice| {
            let lost = choice.lost_percent.max(choice.feedback_lost_percent) / 100.0;
            let touching = Touching {
                round_trips: [self.need.network.one_way_ms, choice.delay_ms?].map(|way| ms(2.0 * way)),
                period: tree::PERIOD,
                jitter: ms(choice.jitter_ms?),
                loss: Probability::from_fraction(lost).ok()?,
                thing: self.need.touch,
            };
            Some(touching.advise())
        });
        self.laws = self.laws.or(advised);
        self
    }
}

/// A quantity of the network for which measured neighbours stand in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Between {
    /// Which: `"rate"`.
    pub quantity: String,
    /// Its unit: `"Mbit/s"`.
    pub unit: String,
    /// What was asked for.
    pub asked: f64,
    /// The nearest smaller value that was measured, the smallest where several stand in; absent where there is none.
    pub below: Option<f64>,
    /// The nearest larger one, the largest where several stand in.
    pub above: Option<f64>,
    /// The scenario that measured them.
    pub scenario: String,
}

/// One carrier held against the need.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// What carries the session.
    pub carrier: Carrier,
    /// Its name: `"QUIC datagrams"`.
    pub name: String,
    /// It meets all that was asked.
    pub meets: bool,
    /// 99th percentile of the delay one way, in milliseconds; absent when nothing arrived.
    pub delay_ms: Option<f64>,
    /// 99th percentile of the differences of consecutive delays, in milliseconds; absent when nothing arrived.
    pub jitter_ms: Option<f64>,
    /// States that never arrive, per cent.
    pub lost_percent: f64,
    /// Feedback that never arrives, per cent.
    pub feedback_lost_percent: f64,
    /// On the wire both ways, in Mbit/s.
    pub wire_mbit: f64,
    /// Until the session was open, in milliseconds; absent when it was not in any run.
    pub opened_ms: Option<f64>,
    /// What its transport takes of one core at either end, per cent; absent where it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_percent: Option<f64>,
    /// And of memory, in kilobytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_kb: Option<f64>,
    /// Each requirement that it does not meet.
    pub failures: Vec<Failure>,
}

/// A requirement that is not met.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// Which: the name of its [`Step`].
    pub requirement: String,
    /// By how much, in words.
    pub what: String,
    /// How many times what is allowed; absent where that is no number.
    pub times: Option<f64>,
    /// The citation, from 1; absent where nothing was measured.
    pub cites: Option<usize>,
}

/// One question of the tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// `"delay"`.
    pub name: String,
    /// What is asked, with its number.
    pub question: String,
    /// Who passes, with figures and citation.
    pub passed: Vec<Branch>,
    /// Who does not. Who failed before is not asked again.
    pub failed: Vec<Branch>,
}

/// One carrier's answer to a question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Branch {
    /// The carrier's name.
    pub name: String,
    /// Its answer: `"20.1 ms"`.
    pub answer: String,
    /// The citation, from 1; absent where nothing was measured.
    pub cites: Option<usize>,
}

/// A variant that was run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Citation {
    /// The scenario's file; empty where it was not kept.
    pub scenario: String,
    /// The variant.
    pub variant: String,
    /// The seeds.
    pub seeds: Vec<u64>,
    /// The network that it ran over; absent where it ran over several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Condition>,
    /// What was found, in words.
    pub figures: String,
    /// The digest of the results.
    pub digest: String,
    /// The command that makes these runs again; absent where the scenario was not kept.
    pub command: Option<String>,
}
