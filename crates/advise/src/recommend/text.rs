//! A recommendation for a terminal: what to take, why, what else there is, and how to see for oneself.

use std::fmt::Write as _;

use super::paths::paths_text;
use super::tree::{mbit, ms, percent};
use super::{Between, Branch, Candidate, Citation, Need, Recommendation};
use crate::evidence::Condition;

/// The whole answer. Lines of tables are as long as the names of variants; prose is within 100 columns.
pub fn recommendation_text(recommendation: &Recommendation) -> String {
    answer(recommendation, true)
}

/// What to take and what of touch is calm, without the reasons.
pub fn advice_text(recommendation: &Recommendation) -> String {
    let mut text = what_is_outside(recommendation);
    let told = recommendation.nearest.as_deref();
    if told.is_some() {
        text += "Of the nearest network that was measured, which is not yours:\n";
    }
    advice(told.unwrap_or(recommendation), &mut text);
    text
}

/// `asked`: over the network that was asked for, which can be measured.
fn answer(recommendation: &Recommendation, asked: bool) -> String {
    let mut text = String::new();
    let need = &recommendation.need;
    let networks =
        if need.paths > 1 { format!("{} networks at once, each ", need.paths) } else { String::new() };
    let _ = writeln!(text, "{networks}{}\n", network(&need.network));
    if let Some(paths) = &recommendation.paths {
        return text + &paths_text(paths, need);
    }
    if !recommendation.outside.is_empty() {
        return text + &outside(recommendation);
    }
    between(recommendation, asked, &mut text);
    advice(recommendation, &mut text);
    why(recommendation, &mut text);
    others(recommendation, &mut text);
    if !recommendation.cautions.is_empty() {
        text += "\nMind\n";
        for caution in &recommendation.cautions {
            text += &wrapped(caution, "  - ", "    ");
        }
    }
    evidence(&recommendation.citations, &mut text);
    text
}

fn advice(recommendation: &Recommendation, text: &mut String) {
    let rattles = recommendation.laws.as_ref().is_some_and(|laws| !laws.is_met());
    match &recommendation.choice {
        // What it says of the laws follows. Nobody is told how to start what rattles.
        Some(choice) if rattles => {
            let _ = writeln!(
                text,
                "Take none to touch with. Of transports {}: {}.",
                settings(choice),
                found(choice)
            );
        }
        Some(choice) => {
            let neighbour = if recommendation.between.is_empty() { "" } else { " at the worst neighbours" };
            let _ = writeln!(text, "Take {}: {}{neighbour}.", settings(choice), found(choice));
            *text += &commands(recommendation, choice);
        }
        None => nothing(recommendation, text),
    }
    touch(recommendation, text);
}

fn what_is_outside(recommendation: &Recommendation) -> String {
    let line = |outside: &String| wrapped(&format!("OUTSIDE of what was measured: {outside}."), "", "  ");
    recommendation.outside.iter().map(line).collect()
}

/// No figure of this network, but the nearest that was measured, as such.
fn outside(recommendation: &Recommendation) -> String {
    let mut text = what_is_outside(recommendation);
    text.push_str("So there is no figure of it. Add --measure to simulate exactly this network: seconds.\n");
    text += &too_far(&recommendation.need).unwrap_or_default();
    if let Some(nearest) = &recommendation.nearest {
        text.push_str("\nThe nearest network that was measured, which is not yours:\n\n");
        text += &answer(nearest, false);
    }
    text
}

/// The way alone takes all the time that there is.
pub(super) fn too_far(need: &Need) -> Option<String> {
    let (propagation, allowed) = (need.network.one_way_ms, need.budget_ms);
    (propagation >= allowed).then(|| {
        format!(
            "No transport can: the way alone takes {} of the {} that are allowed.\n",
            ms(propagation),
            ms(allowed)
        )
    })
}

/// Which neighbours stand in for this network, and how to do without them.
fn between(recommendation: &Recommendation, asked: bool, text: &mut String) {
    if !recommendation.between.is_empty() {
        text.push_str(
            "BETWEEN measured points: each figure is that of the worst neighbour, the truth may be better.\n",
        );
        let of = |b: &Between| {
            let values: Vec<String> = b.below.iter().chain(&b.above).map(f64::to_string).collect();
            (format!("{} {} {}", b.quantity, b.asked, b.unit), values.join(" and "))
        };
        for each in &recommendation.between {
            let (asked, measured) = of(each);
            let _ = writeln!(
                text,
                "  {asked}: {measured} {} stand{} in  ({})",
                each.unit,
                plural(each),
                each.scenario
            );
        }
    }
    let network = &recommendation.need.network;
    if recommendation.citations.iter().all(|citation| citation.network == Some(*network)) {
        text.push_str("Measured over exactly this network.\n\n");
        return;
    }
    text.push_str(if asked { "Add --measure to simulate exactly this network: seconds.\n\n" } else { "\n" });
}

/// The verb's ending.
fn plural(between: &Between) -> &'static str {
    if between.below.is_some() && between.above.is_some() { "" } else { "s" }
}

fn network(network: &Condition) -> String {
    let mut parts = vec![format!("{} one way", ms(network.one_way_ms))];
    parts.push(if network.loss_percent > 0.0 {
        format!("{} lost", percent(network.loss_percent))
    } else {
        "no loss".into()
    });
    if network.burst > 1.0 {
        parts.push(format!("in bursts of {}", network.burst));
    }
    if network.jitter_ms > 0.0 {
        parts.push(format!("jitter of {}", ms(network.jitter_ms)));
    }
    parts.push(format!("{} Mbit/s", network.rate_mbit));
    if network.video {
        parts.push("video beside it".into());
    }
    parts.join(", ")
}

fn settings(choice: &Candidate) -> String {
    match (choice.carrier.transport.as_str(), choice.carrier.reliable) {
        ("quic" | "sctp", true) => format!("{}, states repeated until they arrive", choice.name),
        ("quic" | "sctp", false) => format!("{}, states not repeated", choice.name),
        _ => choice.name.clone(),
    }
}

fn found(candidate: &Candidate) -> String {
    let number = |value: Option<f64>| value.map_or("nothing arrives".to_owned(), ms);
    format!(
        "99 of 100 within {}, jitter {}, {} lost, {} on the wire",
        number(candidate.delay_ms),
        number(candidate.jitter_ms),
        percent(candidate.lost_percent),
        mbit(candidate.wire_mbit)
    )
}

/// How to start the two ends.
fn commands(recommendation: &Recommendation, choice: &Candidate) -> String {
    let transport = &choice.carrier.transport;
    let need = &recommendation.need;
    let deadline = if choice.carrier.reliable && need.lost_percent <= 0.0 {
        // What must arrive does not age.
        "1min".to_owned()
    } else {
        taut_core::Duration::from_nanos((need.budget_ms * 1e6).round() as u64).to_string()
    };
    let reliable = if choice.carrier.reliable && transport != "tcp" { " --reliable" } else { "" };
    let taken = recommendation.laws.as_ref().and_then(|laws| laws.taken.as_deref());
    let law = taken.map_or_else(String::new, |law| format!(" --law {law}"));
    format!(
        "\n  taut robot --listen 0.0.0.0:4433 --trust taut:OPERATOR… --transport {transport}{law}\n  taut operator --connect \
         ROBOT:4433 --robot-id taut:ROBOT… --transport {transport}{reliable}{law} --deadline {deadline}\n"
    )
}

fn nothing(recommendation: &Recommendation, text: &mut String) {
    let need = &recommendation.need;
    let propagation = need.network.one_way_ms;
    text.push_str("Nothing that was measured meets this.\n");
    if !recommendation.between.is_empty() && propagation < need.budget_ms {
        text.push_str("A neighbour that is worse than this network may be why: --measure tells.\n");
    }
    text.push_str(&too_far(need).unwrap_or_default());
    if let Some(nearest) = recommendation.others.first() {
        let _ = writeln!(text, "Nearest is {}: {}.", settings(nearest), found(nearest));
        for failure in &nearest.failures {
            let times =
                failure.times.map_or(String::new(), |times| format!(", {times:.1} times what is allowed"));
            let _ =
                writeln!(text, "  {}: {}{times}{}", failure.requirement, failure.what, cites(failure.cites));
        }
    }
}

/// How things feel over what is to be taken.
fn touch(recommendation: &Recommendation, text: &mut String) {
    if !recommendation.touch.is_empty() {
        text.push_str("\nTouch by position_force, in a middle grip, where force comes back\n");
    }
    for felt in &recommendation.touch {
        let _ = writeln!(text, "  {felt}");
    }
    if let Some(laws) = &recommendation.laws {
        let _ = writeln!(text, "\n{laws}");
    }
}

fn why(recommendation: &Recommendation, text: &mut String) {
    text.push_str("\nWhy\n");
    for step in &recommendation.steps {
        if step.passed.is_empty() && step.failed.is_empty() {
            continue;
        }
        let _ = writeln!(text, "  {}", step.question);
        let width = step.passed.iter().chain(&step.failed).map(|b| b.name.chars().count()).max().unwrap_or(0);
        let last = step.name == "choice";
        for (mark, branches) in [("yes", &step.passed), (if last { "" } else { "no" }, &step.failed)] {
            for Branch { name, answer, cites: number } in branches {
                let _ = writeln!(text, "    {mark:<3} {name:<width$}  {answer}{}", cites(*number));
            }
        }
    }
}

fn cites(number: Option<usize>) -> String {
    number.map_or(String::new(), |number| format!("  [{number}]"))
}

fn others(recommendation: &Recommendation, text: &mut String) {
    let Some(choice) = &recommendation.choice else { return };
    text.push_str("\nInstead\n");
    let width = recommendation.others.iter().map(|other| other.name.chars().count()).max().unwrap_or(0);
    for other in &recommendation.others {
        let loses = if other.meets { loses(choice, other) } else { fails(other) };
        let _ = writeln!(text, "  {:<width$}  {loses}", other.name);
    }
}

/// What one loses with another that meets the need as well.
fn loses(choice: &Candidate, other: &Candidate) -> String {
    let mut parts = Vec::new();
    let later = other.delay_ms.unwrap_or(f64::INFINITY) - choice.delay_ms.unwrap_or(f64::INFINITY);
    if later >= 0.1 {
        parts.push(format!("{} later", ms(later)));
    }
    let lost = other.lost_percent - choice.lost_percent;
    if lost >= 0.1 {
        parts.push(format!("{} more lost", percent(lost)));
    }
    let uneven = other.jitter_ms.unwrap_or(f64::INFINITY) - choice.jitter_ms.unwrap_or(f64::INFINITY);
    if uneven >= 0.1 {
        parts.push(format!("{} more jitter", ms(uneven)));
    }
    let bytes = 100.0 * (other.wire_mbit / choice.wire_mbit - 1.0);
    if bytes >= 1.0 {
        parts.push(format!("{bytes:.0} % more bytes"));
    }
    if parts.is_empty() {
        "meets it as well".into()
    } else {
        format!("meets it as well: {}", parts.join(", "))
    }
}

fn fails(other: &Candidate) -> String {
    let each = other.failures.iter().map(|f| format!("{}: {}{}", f.requirement, f.what, cites(f.cites)));
    format!("does not: {}", each.collect::<Vec<_>>().join("; "))
}

pub(super) fn evidence(citations: &[Citation], text: &mut String) {
    if citations.is_empty() {
        return;
    }
    let again = citations.iter().all(|citation| citation.command.is_some());
    text.push_str(if again {
        "\nEvidence, the worst of the seeds; each line makes its runs again\n"
    } else {
        "\nEvidence, the worst of the seeds, simulated just now; --keep network.toml writes the scenario, and a command for each\n"
    });
    for (i, citation) in citations.iter().enumerate() {
        let _ = writeln!(text, "  [{}] {}  ({})", i + 1, citation.figures, citation.digest);
        match &citation.command {
            Some(command) => _ = writeln!(text, "      {command}"),
            None => _ = writeln!(text, "      {}, seeds {}", citation.variant, list(&citation.seeds)),
        }
    }
}

fn list(seeds: &[u64]) -> String {
    seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}

/// Within 100 columns.
pub(super) fn wrapped(prose: &str, first: &str, next: &str) -> String {
    const WIDTH: usize = 100;
    let (mut text, mut line) = (String::new(), first.to_owned());
    for word in prose.split(' ') {
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            text += line.trim_end();
            text.push('\n');
            line = next.to_owned();
        }
        line += word;
        line.push(' ');
    }
    text + line.trim_end() + "\n"
}
