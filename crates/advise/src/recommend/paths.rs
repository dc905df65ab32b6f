//! Which transport and which policy over several networks at once.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::text::{evidence, too_far, wrapped};
use super::tree::ms;
use super::{Citation, Need, Security};
use crate::evidence::{PathEvidence, PathPoint};

/// Of the commands, in each condition that was measured: the bound of the source (Rico, Luque-Schempp, Merino).
const IN_TIME_PERCENT: f64 = 99.0;

/// What `scenarios/two-5g-links.toml` has of each network, one way: the least and the most, over its four conditions. More than
/// the most (of rate, less than the least) is outside of it. The measured links are no better: one way in ten of the worst is late.
mod covered {
    /// Mean of a second, in milliseconds: 4 ms of the first link when stable, 7.3 ms in its worst second.
    pub(super) const ONE_WAY_MS: (f64, f64) = (4.0, 7.3);
    /// Standard deviation of a second, in milliseconds: 0.3 ms of both when stable, 1.9 ms of the first in its worst second.
    pub(super) const JITTER_MS: (f64, f64) = (0.3, 1.9);
    /// Mean of the run, per cent: in the last condition, whose seconds have 0.1 to 10 %.
    pub(super) const LOSS_PERCENT: (f64, f64) = (0.0, 4.2);
    /// Beside the video, and without it: 60 Mbit/s, of which it takes 45.
    pub(super) const SPARE_MBIT: (f64, f64) = (15.0, 60.0);
}

/// The answer for several networks at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathsAdvice {
    /// What to take; absent when nothing meets the need, and where it is outside of what was measured.
    pub choice: Option<PathsCandidate>,
    /// Where it is outside: what is taken over the networks that were measured. No figure of it is of what is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nearest: Option<PathsCandidate>,
    /// The others: those that meet the need as well, fewest copies first, then those that do not.
    pub others: Vec<PathsCandidate>,
    /// What of the need is outside of all that was measured, in words.
    pub outside: Vec<String>,
    /// What is cited, numbered from 1 by its place.
    pub citations: Vec<Citation>,
}

/// A transport with a policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathsCandidate {
    /// `"deadline"`.
    pub name: String,
    /// What asks for it: `"--transport mtip"`.
    pub flags: String,
    /// Of the commands, in time in its worst condition, per cent.
    pub in_time_percent: f64,
    /// That condition: `"b link failure"`.
    pub condition: String,
    /// Copies of a command where most were sent; absent for one path.
    pub copies: Option<f64>,
    /// Why not; absent when it meets the need.
    pub failure: Option<String>,
    /// The citation of its worst condition, from 1.
    pub cites: usize,
}

/// A point, and what it was measured with.
type Cited<'a> = (&'a PathEvidence, &'a PathPoint);

/// Holds what was measured against the need: 99 of 100 in time in every condition of every scenario, then the fewest copies.
pub(super) fn advise(all: &[PathEvidence], need: &Need) -> PathsAdvice {
    let points = all.iter().flat_map(|evidence| evidence.points.iter().map(move |point| (evidence, point)));
    let points: Vec<Cited<'_>> = points.collect();
    // Scenarios name the same thing differently; what asks for it is the same.
    let mut asked: Vec<&str> = Vec::new();
    for (_, point) in &points {
        if !asked.contains(&point.flags.as_str()) {
            asked.push(&point.flags);
        }
    }
    let mut candidates: Vec<(PathsCandidate, Cited<'_>)> =
        asked.into_iter().filter_map(|flags| candidate(&points, need, flags)).collect();
    let copies = |candidate: &PathsCandidate| candidate.copies.unwrap_or(1.0);
    candidates.sort_by(|(a, _), (b, _)| {
        let failed = a.failure.is_some().cmp(&b.failure.is_some());
        let in_time = b.in_time_percent.total_cmp(&a.in_time_percent);
        failed.then_with(|| match a.failure {
            None => copies(a).total_cmp(&copies(b)).then(in_time),
            Some(_) => in_time,
        })
    });
    let citations = candidates.iter().map(|(_, (evidence, point))| citation(evidence, point)).collect();
    let mut others: Vec<PathsCandidate> = candidates.into_iter().map(|(candidate, _)| candidate).collect();
    others.iter_mut().enumerate().for_each(|(n, candidate)| candidate.cites = n + 1);
    let choice = others.first().is_some_and(|first| first.failure.is_none()).then(|| others.remove(0));
    let outside = all.first().map_or_else(Vec::new, |evidence| outside(evidence, need));
    let (choice, nearest) = if outside.is_empty() { (choice, None) } else { (None, choice) };
    PathsAdvice { choice, nearest, others, outside, citations }
}

fn candidate<'a>(points: &[Cited<'a>], need: &Need, flags: &str) -> Option<(PathsCandidate, Cited<'a>)> {
    let points = || points.iter().filter(|(_, point)| point.flags == flags);
    let name = points().next()?.1.parts().0;
    let in_time = |(_, point): &Cited<'_>| point.in_time_percent;
    let cited = *points().min_by(|a, b| in_time(a).total_cmp(&in_time(b)))?;
    let worst = cited.1;
    let tls = worst.flags.contains("quic");
    let failure = match need.security {
        Security::Tls if !tls => Some("is protected by Noise".to_owned()),
        Security::Noise if tls => Some("is protected by TLS 1.3".to_owned()),
        _ if worst.in_time_percent < IN_TIME_PERCENT => {
            // Down, not to the nearest: 98.995 % is not 99.
            let in_time = (worst.in_time_percent * 100.0).floor() / 100.0;
            Some(format!("{in_time:.2} % in time in {}", worst.parts().1))
        }
        _ => None,
    };
    let candidate = PathsCandidate {
        name: name.to_owned(),
        flags: worst.flags.clone(),
        in_time_percent: worst.in_time_percent,
        condition: worst.parts().1.to_owned(),
        copies: points().filter_map(|(_, point)| point.copies).reduce(f64::max),
        failure,
        cites: 0,
    };
    Some((candidate, cited))
}

fn outside(evidence: &PathEvidence, need: &Need) -> Vec<String> {
    let mut outside = Vec::new();
    if need.paths != evidence.paths {
        outside.push(format!("{} networks; measured were {}", need.paths, evidence.paths));
    }
    if need.budget_ms < evidence.deadline_ms {
        let (asked, measured) = (ms(need.budget_ms), ms(evidence.deadline_ms));
        outside.push(format!("within {asked}; measured was within {measured}"));
    }
    if need.haptic {
        outside.push("force that comes back; measured were commands, one way".into());
    }
    if need.touch.is_some() || need.cpu_percent.is_some() || need.memory_kb.is_some() {
        outside.push("touch, CPU and memory; measured were commands in time".into());
    }
    let network = &need.network;
    let mut compare = |asked: f64, (least, most): (f64, f64), out: bool, unit: &str| {
        if out {
            outside.push(format!("{asked} {unit}; measured were {least} to {most}"));
        }
    };
    let way = covered::ONE_WAY_MS;
    compare(network.one_way_ms, way, network.one_way_ms > way.1, "ms one way");
    let loss = covered::LOSS_PERCENT;
    compare(network.loss_percent, loss, network.loss_percent > loss.1, "% lost");
    let jitter = covered::JITTER_MS;
    compare(network.jitter_ms, jitter, network.jitter_ms > jitter.1, "ms of jitter");
    let rate = covered::SPARE_MBIT;
    compare(network.rate_mbit, rate, network.rate_mbit < rate.0, "Mbit/s to spare");
    outside
}

fn citation(evidence: &PathEvidence, point: &PathPoint) -> Citation {
    let copies = point.copies.map_or(String::new(), |copies| format!(", {copies:.2} copies"));
    let gap = point.gap_ms.map_or(String::new(), |gap| format!(", longest gap {}", ms(gap)));
    Citation {
        scenario: evidence.scenario.clone(),
        variant: point.variant.clone(),
        seeds: evidence.seeds.clone(),
        network: None,
        figures: format!("{:.3} % in time{copies}{gap}", point.in_time_percent),
        digest: point.digest.clone(),
        command: Some(evidence.command(point)),
    }
}

/// For a terminal.
pub(super) fn paths_text(advice: &PathsAdvice, need: &Need) -> String {
    let mut text = String::new();
    for outside in &advice.outside {
        text += &wrapped(&format!("OUTSIDE of what was measured: {outside}."), "", "  ");
    }
    if let Some(impossible) = too_far(need) {
        return text + &impossible;
    }
    match (&advice.choice, &advice.nearest) {
        (Some(choice), _) => {
            let _ = writeln!(text, "Take {}: {}  [{}]", titled(choice), shown(choice), choice.cites);
            text += &commands(choice, need);
        }
        (None, Some(nearest)) => {
            text.push_str("So there is no figure of it, and nothing here simulates it.\n");
            let told = format!("{}: {}  [{}]", titled(nearest), shown(nearest), nearest.cites);
            let _ = writeln!(
                text,
                "\nOver the networks that were measured, which are not yours, best was\n  {told}"
            );
            text.push_str("To try it:\n");
            text += &commands(nearest, need);
        }
        (None, None) => text.push_str("Nothing that was measured over several networks meets this.\n"),
    }
    let _ = writeln!(
        text,
        "\nWhy\n  {IN_TIME_PERCENT} of 100 in time in every condition that was measured? Of those, the fewest copies."
    );
    let width = advice.others.iter().map(|other| titled(other).chars().count()).max().unwrap_or(0);
    for other in &advice.others {
        let what = other.failure.as_ref().map_or_else(|| shown(other), |why| format!("does not: {why}"));
        let _ = writeln!(text, "    {:<width$}  {what}  [{}]", titled(other), other.cites);
    }
    text.push_str(
        "    quic, sctp, tcp, dccp and etp use one network at a time. SCTP's fail-over between addresses (RFC 9260, section 5.4)\n    \
         is in no library that taut can use.\n",
    );
    evidence(&advice.citations, &mut text);
    text
}

/// The scenario names MTIP's deadline policy by the policy alone.
fn titled(one: &PathsCandidate) -> String {
    if one.name == "deadline" { "MTIP with the policy `deadline`".into() } else { one.name.clone() }
}

fn shown(one: &PathsCandidate) -> String {
    let copies = one.copies.map_or(String::new(), |copies| format!(" with at most {copies:.2} copies"));
    format!("{:.2} % in time in {}, its worst condition,{copies}", one.in_time_percent, one.condition)
}

/// How to start the two ends, over as many networks as are asked for.
fn commands(one: &PathsCandidate, need: &Need) -> String {
    let deadline = taut_core::Duration::from_nanos((need.budget_ms * 1e6).round() as u64);
    let paths: String = (0..need.paths).map(|n| format!(" --path wwan{n}")).collect();
    format!(
        "\n  taut robot --listen 0.0.0.0:4433 --trust taut:OPERATOR… {0}\n  taut operator --connect ROBOT:4433 --robot-id \
         taut:ROBOT… {0}{paths} --deadline {deadline}\n",
        one.flags
    )
}
