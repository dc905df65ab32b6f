//! Which transport and which policy over several networks at once.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::text::evidence;
use super::tree::{ms, percent};
use super::{Citation, Need, Security};
use crate::evidence::{PathEvidence, PathPoint};

/// Of the commands, in each condition that was measured: the bound of the source (Rico, Luque-Schempp, Merino).
const IN_TIME_PERCENT: f64 = 99.0;

/// The answer for several networks at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathsAdvice {
    /// What to take; absent when nothing meets the need.
    pub choice: Option<PathsCandidate>,
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

/// Holds what was measured against the need: 99 of 100 in time in every condition, then the fewest copies.
pub(super) fn advise(evidence: &PathEvidence, need: &Need) -> PathsAdvice {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in evidence.points.iter().map(PathPoint::parts) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let mut candidates: Vec<(PathsCandidate, &PathPoint)> =
        names.into_iter().filter_map(|name| candidate(evidence, need, name)).collect();
    let copies = |candidate: &PathsCandidate| candidate.copies.unwrap_or(1.0);
    candidates.sort_by(|(a, _), (b, _)| {
        let failed = a.failure.is_some().cmp(&b.failure.is_some());
        let in_time = b.in_time_percent.total_cmp(&a.in_time_percent);
        failed.then_with(|| match a.failure {
            None => copies(a).total_cmp(&copies(b)).then(in_time),
            Some(_) => in_time,
        })
    });
    let citations = candidates.iter().map(|(_, point)| citation(evidence, point)).collect();
    let mut others: Vec<PathsCandidate> = candidates.into_iter().map(|(candidate, _)| candidate).collect();
    others.iter_mut().enumerate().for_each(|(n, candidate)| candidate.cites = n + 1);
    let choice = others.first().is_some_and(|first| first.failure.is_none()).then(|| others.remove(0));
    PathsAdvice { choice, others, outside: outside(evidence, need), citations }
}

fn candidate<'a>(
    evidence: &'a PathEvidence,
    need: &Need,
    name: &str,
) -> Option<(PathsCandidate, &'a PathPoint)> {
    let points = || evidence.points.iter().filter(|point| point.parts().0 == name);
    let worst = points().min_by(|a, b| a.in_time_percent.total_cmp(&b.in_time_percent))?;
    let tls = worst.flags.contains("quic");
    let failure = match need.security {
        Security::Tls if !tls => Some("is protected by Noise".to_owned()),
        Security::Noise if tls => Some("is protected by TLS 1.3".to_owned()),
        _ if worst.in_time_percent < IN_TIME_PERCENT => {
            Some(format!("{} in time in {}", percent(worst.in_time_percent), worst.parts().1))
        }
        _ => None,
    };
    let candidate = PathsCandidate {
        name: name.to_owned(),
        flags: worst.flags.clone(),
        in_time_percent: worst.in_time_percent,
        condition: worst.parts().1.to_owned(),
        copies: points().filter_map(|point| point.copies).reduce(f64::max),
        failure,
        cites: 0,
    };
    Some((candidate, worst))
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
    // Each of the measured ones takes some 4 to 10 ms one way.
    if need.network.one_way_ms > 10.0 {
        outside.push(format!("{} one way; measured were 4 to 10 ms", ms(need.network.one_way_ms)));
    }
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
        let _ = writeln!(text, "OUTSIDE of what was measured: {outside}.");
    }
    let shown = |one: &PathsCandidate| {
        let copies = one.copies.map_or(String::new(), |copies| format!(" with at most {copies:.2} copies"));
        format!("{:.2} % in time in {}, its worst condition,{copies}", one.in_time_percent, one.condition)
    };
    match &advice.choice {
        Some(choice) => {
            let _ = writeln!(text, "Take {}: {}  [{}]", choice.name, shown(choice), choice.cites);
            let deadline = taut_core::Duration::from_nanos((need.budget_ms * 1e6).round() as u64);
            let _ = writeln!(
                text,
                "\n  taut robot --listen 0.0.0.0:4433 --trust taut:OPERATOR… {0}\n  taut operator --connect ROBOT:4433 --robot-id \
                 taut:ROBOT… {0} --path wwan0 --path wwan1 --deadline {deadline}",
                choice.flags
            );
        }
        None => text.push_str("Nothing that was measured over several networks meets this.\n"),
    }
    let _ = writeln!(
        text,
        "\nWhy\n  {IN_TIME_PERCENT} of 100 in time in every condition that was measured? Of those, the fewest copies."
    );
    let width = advice.others.iter().map(|other| other.name.chars().count()).max().unwrap_or(0);
    for other in &advice.others {
        let what = other.failure.as_ref().map_or_else(|| shown(other), |why| format!("does not: {why}"));
        let _ = writeln!(text, "    {:<width$}  {what}  [{}]", other.name, other.cites);
    }
    text.push_str(
        "    quic, sctp, tcp, dccp and etp use one network at a time. SCTP's fail-over between addresses (RFC 9260, section 5.4)\n    \
         is in no library that taut can use.\n",
    );
    evidence(&advice.citations, &mut text);
    text
}
