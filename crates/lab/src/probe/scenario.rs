//! What was seen, as scenarios.

use std::fmt::Write;

use taut_core::{Bitrate, Bytes, Duration};

use super::{Fit, Seen, Trains};
use crate::scenario::Distribution;

/// The files of a probe, by their content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The recording that `recorded` plays: a row for each message, of both directions.
    pub recording: String,
    /// The scenario that plays it.
    pub recorded: String,
    /// The scenario of the fitted elements.
    pub fitted: String,
}

/// What is known of one direction.
#[derive(Clone, Copy, Debug)]
pub struct Way<'a> {
    /// What was seen.
    pub seen: &'a Seen,
    /// What would do the same.
    pub fit: &'a Fit,
    /// How much it carries, where that was measured, and how long the messages on the wire were that `seen` is of.
    pub carries: Option<(&'a Trains, Bytes)>,
}

/// The scenarios of what was seen from the operator (`there`) and from the robot (`back`): a session of the demonstration's samples at 1 kHz
/// each way over a link each way. `recording` is the name that the recording's file will have, beside the scenarios.
pub fn scenario(recording: &str, there: Way<'_>, back: Way<'_>) -> Files {
    let played = |seen: &Seen, path: &str| {
        let every = seen.every.as_nanos();
        format!(
            "[{{ recorded = {{ file = {recording:?}, path = \"{path}\", way = \"there\", every = \"{every}ns\" }} }}]"
        )
    };
    Files {
        recording: csv(there.seen, back.seen),
        recorded: session(
            "A network, as it was probed",
            &played(there.seen, "there"),
            &played(back.seen, "back"),
        ),
        fitted: session("A network, fitted to a probe", &elements(there), &elements(back)),
    }
}

/// Times in ms; an empty cell never arrived.
fn csv(there: &Seen, back: &Seen) -> String {
    let mut text =
        "there_one_way_ms,there_acknowledged_after,back_one_way_ms,back_acknowledged_after\n".to_owned();
    // A row of one direction alone would say that the other one lost a message; behind the last that arrived, so would a row of none.
    let rows = there.newest.min(back.newest).map_or(0, |newest| newest + 1);
    for (there, back) in there.delays().zip(back.delays()).take(rows) {
        let cell = |delay: Option<Duration>| {
            delay.map(|delay| format!("{:.3}", delay.as_millis_f64())).unwrap_or_default()
        };
        // Writing into a string does not fail.
        let _ = writeln!(text, "{},,{},", cell(there), cell(back));
    }
    text
}

fn elements(way: Way<'_>) -> String {
    let jitter = &way.fit.jitter;
    let shape = match jitter.distribution {
        Distribution::Uniform => "uniform",
        Distribution::Normal => "normal",
        Distribution::Pareto => "pareto",
    };
    let rate = way.carries.and_then(|(trains, size)| Some((trains.rate()?, trains, size)));
    let rate = rate.filter(|(rate, ..)| *rate > Bitrate::from_bps(0));
    // What a message takes to leave is in its delay.
    let leaving = rate.map_or(Duration::ZERO, |(rate, _, size)| size / rate);
    let (mean, spread) = (jitter.mean.saturating_sub(leaving).as_nanos(), jitter.spread.as_nanos());
    let reorder = jitter.reorder;
    let mut chain = Vec::new();
    if let Some((rate, trains, _)) = rate {
        let (rate, queue) = (rate.as_bps(), trains.taken().get());
        chain.push(format!("{{ server = {{ rate = \"{rate}bit\", queue = {{ bytes = \"{queue}B\" }} }} }}"));
    }
    if let Some(loss) = way.fit.loss {
        let (p, r) = (loss.p * 100.0, loss.r * 100.0);
        chain.push(format!("{{ loss = {{ gilbert_elliott = {{ p = \"{p:.5}%\", r = \"{r:.5}%\" }} }} }}"));
    }
    chain.push(format!(
        "{{ jitter = {{ distribution = \"{shape}\", mean = \"{mean}ns\", spread = \"{spread}ns\", reorder = {reorder} }} }}"
    ));
    format!("[{}]", chain.join(", "))
}

fn session(title: &str, there: &str, back: &str) -> String {
    format!(
        r#"title = "{title}"
duration = "60s"

[links.there]
from = "operator"
to = "robot"
chain = {there}

[links.back]
from = "robot"
to = "operator"
chain = {back}

[session]
operator = "operator"
robot = "robot"
transport = "udp"

[session.forward]
haptic = {{ period = "1ms", size = "24B", source = {{ simulated = {{ device = "leader" }} }} }}

[session.backward]
haptic = {{ period = "1ms", size = "12B", source = {{ simulated = {{ device = "follower" }} }} }}
"#
    )
}
