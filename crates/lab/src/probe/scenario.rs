//! What was seen, as scenarios.

use std::fmt::Write;

use taut_core::{Bitrate, Bytes, Duration};

use super::{Fit, Seen, Trains};

/// The files of a probe, by their content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The recording that `recorded` plays: a row for each message, of both directions of all paths.
    pub recording: String,
    /// The scenario that plays it.
    pub recorded: String,
    /// The scenario of the fitted elements.
    pub fitted: String,
}

/// What is known of a path.
#[derive(Clone, Copy, Debug)]
pub struct Probed<'a> {
    /// From the operator.
    pub there: Way<'a>,
    /// From the robot.
    pub back: Way<'a>,
}

/// What is known of one direction.
#[derive(Clone, Copy, Debug)]
pub struct Way<'a> {
    /// What was seen.
    pub seen: &'a Seen,
    /// How long the messages on the wire were that this is of.
    pub message: Bytes,
    /// What would do the same.
    pub fit: &'a Fit,
    /// How much it carries, where that was measured.
    pub trains: Option<&'a Trains>,
}

impl<'a> Probed<'a> {
    /// Each direction, and what its link is called in the scenarios; `number`: of several paths.
    pub(super) fn ways(self, number: Option<usize>) -> [(String, Way<'a>); 2] {
        let path = number.map_or_else(String::new, |number| format!("path{}-", number + 1));
        [(format!("{path}there"), self.there), (format!("{path}back"), self.back)]
    }
}

/// Each direction of all paths, and what its link is called.
pub(super) fn ways<'a>(paths: &[Probed<'a>]) -> Vec<(String, Way<'a>)> {
    let number = |number| (paths.len() > 1).then_some(number);
    paths.iter().enumerate().flat_map(|(at, path)| path.ways(number(at))).collect()
}

/// The scenarios of what was seen: over one path a session of the demonstration's samples at 1 kHz each way, whose packets are as long as the probe's
/// messages; over several paths, each a link there and one back, a session as it runs on sockets, by MTIP. `recording` is the name that the recording's
/// file will have, beside the scenarios.
pub fn scenario(recording: &str, paths: &[Probed<'_>]) -> Files {
    let ways = ways(paths);
    let played = |name: &str, way: &Way<'_>| {
        let every = way.seen.every.as_nanos();
        format!(
            "[{{ recorded = {{ file = {recording:?}, path = \"{name}\", way = \"there\", every = \"{every}ns\" }} }}]"
        )
    };
    // All that was recorded is played.
    let every = ways.iter().map(|(_, way)| way.seen.every).max().unwrap_or(Duration::ZERO);
    let seconds = (every * rows(&ways) as u64).as_secs_f64().ceil().max(60.0) as u64;
    let of = |title: &str, chain: &dyn Fn(&str, &Way<'_>) -> String| {
        let mut text = format!("title = \"{title}\"\nduration = \"{seconds}s\"\n");
        for (at, (name, way)) in ways.iter().enumerate() {
            let [from, to] = if at % 2 == 0 { ["operator", "robot"] } else { ["robot", "operator"] };
            text += &format!(
                "\n[links.{name}]\nfrom = \"{from}\"\nto = \"{to}\"\nchain = {}\n",
                chain(name, way)
            );
        }
        text + &match paths {
            [path] => session(path.there.message, path.back.message),
            _ => several(paths.len()),
        }
    };
    Files {
        recording: csv(&ways),
        recorded: of("A network, as it was probed", &played),
        fitted: of("A network, fitted to a probe", &|_, way| elements(way)),
    }
}

/// A row of one direction alone would say that the other one lost a message; behind the last that arrived, so would a row of none.
fn rows(ways: &[(String, Way<'_>)]) -> usize {
    ways.iter().map(|(_, way)| way.seen.newest.map_or(0, |newest| newest + 1)).min().unwrap_or(0)
}

/// Times in ms; an empty cell never arrived.
fn csv(ways: &[(String, Way<'_>)]) -> String {
    let columns = |(name, _): &(String, Way<'_>)| format!("{name}_one_way_ms,{name}_acknowledged_after");
    let mut text = ways.iter().map(columns).collect::<Vec<_>>().join(",") + "\n";
    let mut delays: Vec<_> = ways.iter().map(|(_, way)| way.seen.delays()).collect();
    for _ in 0..rows(ways) {
        for (at, delays) in delays.iter_mut().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            // Writing into a string does not fail.
            let _ = match delays.next().flatten() {
                Some(delay) => write!(text, "{comma}{:.3},", delay.as_millis_f64()),
                None => write!(text, "{comma},"),
            };
        }
        text.push('\n');
    }
    text
}

fn elements(way: &Way<'_>) -> String {
    let jitter = &way.fit.jitter;
    let shape = jitter.distribution.name();
    let rate = way.trains.and_then(|trains| Some((trains.rate()?, trains)));
    let rate = rate.filter(|(rate, _)| *rate > Bitrate::from_bps(0));
    // What a message takes to leave is in its delay.
    let leaving = rate.map_or(Duration::ZERO, |(rate, _)| way.message / rate);
    let (mean, spread) = (jitter.mean.saturating_sub(leaving).as_nanos(), jitter.spread.as_nanos());
    let reorder = jitter.reorder;
    let mut chain = Vec::new();
    if let Some((rate, trains)) = rate {
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

fn session(there: Bytes, back: Bytes) -> String {
    let [there, back] = [there.get(), back.get()];
    format!(
        r#"
[session]
operator = "operator"
robot = "robot"
transport = "udp"

[session.forward]
packet = "{there}B"
haptic = {{ period = "1ms", size = "24B", source = {{ simulated = {{ device = "leader" }} }} }}

[session.backward]
packet = "{back}B"
haptic = {{ period = "1ms", size = "12B", source = {{ simulated = {{ device = "follower" }} }} }}
"#
    )
}

/// What stands still is late, and does not end the session: the network is judged.
fn several(paths: usize) -> String {
    format!(
        r#"
[teleop]
operator = "operator"
robot = "robot"
paths = {paths}
transport = "mtip"
environment = "free"
# What stands still is late here and stops nothing, so that the network is judged: a robot's own are 100 ms and 200 ms.
watchdog = "60s"
max_age = "60min"
"#
    )
}
