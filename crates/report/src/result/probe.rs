//! What a probe saw of a network beside what was fitted to it.

use super::{Distribution, Verdict};

/// A network as it was probed, beside the elements that were fitted to it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProbeResult {
    /// The version of taut that made it.
    pub taut: String,
    /// Each direction of each path.
    pub ways: Vec<ProbedWay>,
    /// Of a session over the recording.
    pub recorded: Verdict,
    /// Of a session over the fitted elements, limit by limit the same.
    pub fitted: Verdict,
}

/// One direction of a path.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProbedWay {
    /// Which.
    pub name: String,
    /// Messages that arrived.
    pub received: u64,
    /// Of those, how many the receiving host was not awake for.
    pub held: u64,
    /// Of those that arrived, how many came after one that was sent later.
    pub overtaken: u64,
    /// What it carries, where that was found.
    pub rate_bps: Option<f64>,
    /// What was lost.
    pub recorded_loss_percent: f64,
    /// What the fitted elements lose of as many messages.
    pub fitted_loss_percent: f64,
    /// How long messages took; absent when nothing arrived.
    pub recorded_ms: Option<Distribution>,
    /// How long as many take through the fitted elements.
    pub fitted_ms: Option<Distribution>,
}
