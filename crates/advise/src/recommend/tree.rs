//! The decision tree.

use std::cmp::Ordering;

use taut_core::Duration;
use taut_qos::touch::Felt;

use super::estimate::{Cited, Estimate, Measured, estimates};
use super::need::{Need, Os, Security};
use super::{Branch, Candidate, Citation, Failure, Recommendation, Step};
use crate::evidence::{Carrier, Evidence, PathEvidence, ResourceEvidence, Resources, Way};

/// What may be lost of feedback, which is never repeated, where every state must arrive: the limit of haptics.
const FEEDBACK_LOST_PERCENT: f64 = 10.0;
/// Who uses up less more than another, of what is allowed of delay, jitter or loss, is alike: a millisecond and a half of delay of 30.
const ALIKE_SHARE: f64 = 0.05;
/// Bytes that differ by less are alike.
const ALIKE_BYTES: f64 = 0.1;

/// An answer to one question.
struct Answer {
    says: String,
    failure: Option<(String, Option<f64>)>,
    at: Option<Cited>,
}

/// Between two states in all that was measured.
pub(super) const PERIOD: Duration = Duration::from_millis(1);

type Question = (&'static str, String, fn(&Need, &Estimate) -> Answer);

/// Holds every carrier that was measured against the need.
///
/// ```
/// use taut_advise::evidence::{Condition, Evidence};
/// use taut_advise::recommend::{Need, recommend};
/// let evidence = Evidence::shipped()?;
/// let network = Condition {
///     loss_percent: 1.0,
///     burst: 1.0,
///     one_way_ms: 20.0,
///     jitter_ms: 0.0,
///     rate_mbit: 10.0,
///     video: false,
/// };
/// let recommendation = recommend(&evidence, &Need::haptic(network));
/// assert!(recommendation.choice.is_some_and(|choice| choice.delay_ms <= Some(30.0)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn recommend(evidence: &Evidence, need: &Need) -> Recommendation {
    let found = estimates(evidence, need);
    if need.paths > 1 && need.os == Os::Linux {
        let evidence = PathEvidence::shipped().expect("it is built in, and a test reads it");
        return Recommendation { paths: Some(super::paths::advise(&evidence, need)), ..nothing(need) };
    }
    if !found.beyond.is_empty() {
        let inside = Need { network: found.nearest, ..need.clone() };
        let nearest = (found.nearest != need.network).then(|| Box::new(recommend(evidence, &inside)));
        return Recommendation { outside: found.beyond, nearest, ..nothing(need) };
    }
    let mut book = Book { evidence, cited: Vec::new() };
    let questions = questions(need);
    let mut judged: Vec<(Estimate, Vec<Failure>)> =
        found.all.into_iter().map(|estimate| (estimate, Vec::new())).collect();
    let mut steps = Vec::new();
    for (name, question, ask) in &questions {
        let mut step = Step {
            name: (*name).to_owned(),
            question: question.clone(),
            passed: Vec::new(),
            failed: Vec::new(),
        };
        for (estimate, failures) in &mut judged {
            let answer = ask(need, estimate);
            let (first, failed) = (failures.is_empty(), answer.failure.is_some());
            // What fails later than at its first branch is told of the runners-up only.
            let cites = (first || failed).then(|| answer.at.map(|at| book.cite(at))).flatten();
            if first {
                let branch = Branch { name: estimate.carrier.name(), answer: answer.says, cites };
                if failed { step.failed.push(branch) } else { step.passed.push(branch) }
            }
            if let Some((what, times)) = answer.failure {
                failures.push(Failure { requirement: (*name).to_owned(), what, times, cites });
            }
        }
        steps.push(step);
    }
    let mut order: Vec<usize> = (0..judged.len()).collect();
    let better = order_of(need, &judged);
    order.sort_by(|a, b| {
        let (a, b) = (&judged[*a], &judged[*b]);
        rank(a).total_cmp(&rank(b)).then_with(|| better(&a.0, &b.0))
    });
    let judged: Vec<(Estimate, Vec<Failure>)> = order.into_iter().map(|i| judged[i].clone()).collect();
    let mut others: Vec<Candidate> = judged.iter().map(candidate).collect();
    let choice = others.first().is_some_and(|first| first.meets).then(|| others.remove(0));
    if let Some(choice) = &choice {
        steps.push(last(choice, &judged, &mut book));
    }
    let mut cautions: Vec<String> = together(&found.scenarios).into_iter().collect();
    cautions.extend(choice.iter().flat_map(|choice| habits(&choice.carrier)).map(str::to_owned));
    if need.cpu_percent.is_some() || need.memory_kb.is_some() {
        let shipped = ResourceEvidence::shipped().expect("it is built in, and a test reads it");
        let ResourceEvidence { machine, command, .. } = shipped;
        cautions.push(format!("CPU and memory are a transport's with its driver, 1000 messages a second each way, on {machine}: `{command}`"));
    }
    let (between, citations) = (found.between, book.citations());
    let touch = choice.as_ref().filter(|_| need.haptic).and_then(|choice| choice.delay_ms);
    let touch = touch.map_or(Vec::new(), |one_way_ms| Felt::all(2.0 * one_way_ms, PERIOD).to_vec());
    let found =
        Recommendation { touch, choice, others, steps, between, cautions, citations, ..nothing(need) };
    if need.touch.is_some() { found.with_laws() } else { found }
}

/// What is asked, and no answer.
fn nothing(need: &Need) -> Recommendation {
    Recommendation {
        need: need.clone(),
        choice: None,
        paths: None,
        others: Vec::new(),
        steps: Vec::new(),
        outside: Vec::new(),
        nearest: None,
        between: Vec::new(),
        touch: Vec::new(),
        laws: None,
        cautions: Vec::new(),
        citations: Vec::new(),
    }
}

/// Those that meet the need first, then by how little they miss it.
fn rank((_, failures): &(Estimate, Vec<Failure>)) -> f64 {
    failures
        .iter()
        .map(|failure| 1.0 + failure.times.map_or(1e3, |times| (times - 1.0).clamp(0.0, 1e3)))
        .sum()
}

/// How much of what is allowed a carrier uses up: delay, jitter and loss, each as a share of what whoever asks says that he can
/// bear of it; of loss the worse way, where the need holds both ways.
fn used(need: &Need, estimate: &Estimate) -> f64 {
    let share = |value: f64, allowed: f64| if allowed > 0.0 { value / allowed } else { 0.0 };
    let back = if need.haptic { estimate.feedback_lost_percent.value } else { 0.0 };
    share(estimate.delay_ms.value, need.budget_ms)
        + share(estimate.jitter_ms.value, need.jitter_ms)
        + share(estimate.lost_percent.value.max(back), need.lost_percent)
}

/// Who uses up less is better; alike, who takes fewer bytes; alike, what others speak too. What is alike is counted from the best.
fn order_of<'a>(
    need: &'a Need,
    all: &'a [(Estimate, Vec<Failure>)],
) -> impl Fn(&Estimate, &Estimate) -> Ordering + use<'a> {
    let meets = all.iter().filter(|(_, failures)| failures.is_empty()).map(|(estimate, _)| estimate);
    let least = meets.clone().map(|e| used(need, e)).reduce(f64::min).unwrap_or(0.0);
    let alike = |e: &Estimate| used(need, e) - least < ALIKE_SHARE;
    let fewest = meets.filter(|e| alike(e)).map(|e| e.wire_mbit.value).reduce(f64::min).unwrap_or(1.0);
    move |a, b| {
        let shares = [a, b].map(|e| ((used(need, e) - least) / ALIKE_SHARE).floor());
        let bytes = [a, b].map(|e| ((e.wire_mbit.value / fewest - 1.0) / ALIKE_BYTES).floor());
        (shares[0].total_cmp(&shares[1]))
            .then_with(|| bytes[0].total_cmp(&bytes[1]))
            .then_with(|| a.carrier.rarity().cmp(&b.carrier.rarity()))
            .then_with(|| a.wire_mbit.value.total_cmp(&b.wire_mbit.value))
    }
}

fn questions(need: &Need) -> Vec<Question> {
    let mut questions: Vec<Question> = Vec::new();
    let security = match need.security {
        Security::Any => "authenticated and encrypted?",
        Security::Tls => "authenticated and encrypted by TLS 1.3?",
        Security::Noise => "authenticated and encrypted by Noise?",
    };
    questions.push(("security", security.into(), secured));
    if need.os != Os::Linux {
        questions.push(("operating system", format!("runs on {:?}?", need.os), system));
    }
    if need.nat {
        questions.push(("nat", "outlives a change of address by a NAT?".into(), address));
    }
    let arrives = if need.lost_percent > 0.0 {
        format!("at most {} lost?", percent(need.lost_percent))
    } else {
        "every state arrives?".into()
    };
    questions.push(("arrival", arrives, arrival));
    questions.push(("delay", format!("99 of 100 within {}?", ms(need.budget_ms)), delay));
    questions.push((
        "jitter",
        format!("99 of 100 steps of the delay within {}?", ms(need.jitter_ms)),
        jitter,
    ));
    let core = need.cpu_percent.map(|cpu| format!("{} of a core", percent(cpu)));
    let wanted: Vec<String> = core.into_iter().chain(need.memory_kb.map(kilobytes)).collect();
    if !wanted.is_empty() {
        questions.push(("resources", format!("at most {} at either end?", wanted.join(" and ")), resources));
    }
    questions
}

fn secured(need: &Need, estimate: &Estimate) -> Answer {
    let tls = estimate.carrier.transport == "quic";
    let by = if tls { "TLS 1.3" } else { "Noise" };
    let meets = match need.security {
        Security::Any => true,
        Security::Tls => tls,
        Security::Noise => !tls,
    };
    Answer {
        says: format!("{by}, open after {}", ms(estimate.opened_ms.value)),
        failure: (!meets).then(|| (format!("is protected by {by}"), None)),
        at: Some(estimate.opened_ms.at),
    }
}

fn system(need: &Need, _: &Estimate) -> Answer {
    let what = format!("the driver needs Linux 5.11 or newer; none for {:?} exists", need.os);
    Answer { says: "Linux only".into(), failure: Some((what, None)), at: None }
}

fn address(_: &Need, estimate: &Estimate) -> Answer {
    let (says, failure) = match estimate.carrier.transport.as_str() {
        "tcp" => ("connects anew", Some(("the connection ends with its address".to_owned(), None))),
        "quic" => ("migrates, RFC 9000 section 9", None),
        _ => ("UDP; the peer is followed once it has answered from there", None),
    };
    Answer { says: says.into(), failure, at: None }
}

fn arrival(need: &Need, estimate: &Estimate) -> Answer {
    let there = (estimate.lost_percent, need.lost_percent, "states");
    let back = (estimate.feedback_lost_percent, feedback_allowed(need), "feedback");
    let worse = need.haptic && back.0.value > back.1 && there.0.value <= there.1;
    let (lost, allowed, of) = if worse { back } else { there };
    let answer = within(lost, allowed, |value| format!("{} of {of} lost", percent(value)));
    // That nothing was lost in these runs is no promise.
    let promised = need.lost_percent > 0.0 || estimate.carrier.reliable;
    if promised || answer.failure.is_some() {
        return answer;
    }
    let says = format!("{} here, but what is lost is given up", answer.says);
    Answer { failure: Some((says.clone(), None)), says, ..answer }
}

fn feedback_allowed(need: &Need) -> f64 {
    if need.lost_percent > 0.0 { need.lost_percent } else { FEEDBACK_LOST_PERCENT }
}

fn delay(need: &Need, estimate: &Estimate) -> Answer {
    within(estimate.delay_ms, need.budget_ms, ms)
}

fn jitter(need: &Need, estimate: &Estimate) -> Answer {
    within(estimate.jitter_ms, need.jitter_ms, ms)
}

fn resources(need: &Need, estimate: &Estimate) -> Answer {
    let Some(takes) = &estimate.resources else {
        let says = "nobody measured it".to_owned();
        return Answer { failure: Some((says.clone(), None)), says, at: None };
    };
    let (cpu, memory) = (takes.cpu_percent(), takes.memory_kb);
    // What is repeated, or the congestion control, was not measured one by one.
    let of =
        if takes.name == estimate.carrier.name() { String::new() } else { format!(", as {}", takes.name) };
    let says = format!("{} of a core, {}{of}", percent(cpu), kilobytes(memory));
    let times = |value: f64, allowed: Option<f64>| allowed.map_or(0.0, |allowed| value / allowed);
    let worse = times(cpu, need.cpu_percent).max(times(memory, need.memory_kb));
    let failure = (worse > 1.0).then(|| (says.clone(), Some(worse)));
    Answer { says, failure, at: None }
}

fn kilobytes(value: f64) -> String {
    format!("{value:.0} kB")
}

fn within(measured: Measured, allowed: f64, show: impl Fn(f64) -> String) -> Answer {
    let failed = measured.value > allowed;
    let says = show(measured.value);
    let times = (allowed > 0.0 && measured.value.is_finite()).then(|| measured.value / allowed);
    let failure = failed.then(|| (says.clone(), times));
    Answer { says, failure, at: Some(measured.at) }
}

fn last(choice: &Candidate, judged: &[(Estimate, Vec<Failure>)], book: &mut Book<'_>) -> Step {
    let mut branches =
        judged.iter().filter(|(_, failures)| failures.is_empty()).map(|(estimate, _)| Branch {
            name: estimate.carrier.name(),
            answer: format!(
                "{}, jitter {}, {} lost, {} on the wire",
                ms(estimate.delay_ms.value),
                ms(estimate.jitter_ms.value),
                percent(estimate.lost_percent.value),
                mbit(estimate.wire_mbit.value)
            ),
            cites: Some(book.cite(estimate.wire_mbit.at)),
        });
    let passed: Vec<Branch> = branches.by_ref().take(1).collect();
    debug_assert!(passed.iter().all(|branch| branch.name == choice.name));
    Step {
        name: "choice".into(),
        question: "uses up least of what is allowed; alike, fewest bytes; alike, who else speaks it?".into(),
        passed,
        failed: branches.collect(),
    }
}

fn candidate((estimate, failures): &(Estimate, Vec<Failure>)) -> Candidate {
    let finite = |value: f64| value.is_finite().then_some(value);
    Candidate {
        carrier: estimate.carrier.clone(),
        name: estimate.carrier.name(),
        meets: failures.is_empty(),
        delay_ms: finite(estimate.delay_ms.value),
        jitter_ms: finite(estimate.jitter_ms.value),
        lost_percent: estimate.lost_percent.value,
        feedback_lost_percent: estimate.feedback_lost_percent.value,
        wire_mbit: estimate.wire_mbit.value,
        opened_ms: finite(estimate.opened_ms.value),
        cpu_percent: estimate.resources.as_ref().map(Resources::cpu_percent),
        memory_kb: estimate.resources.as_ref().map(|takes| takes.memory_kb),
        failures: failures.clone(),
    }
}

fn together(scenarios: &[String]) -> Option<String> {
    let [_, _, ..] = scenarios else { return None };
    let list = scenarios.join(" and ");
    Some(format!("no run has all of this network at once: the worse of {list} stands in for it"))
}

/// What no figure of these runs shows.
fn habits(carrier: &Carrier) -> Option<&'static str> {
    match (carrier.transport.as_str(), carrier.ccid) {
        ("dccp", Some(3)) => {
            Some("taut robot and taut operator agree on CCID 2; CCID 3 is for programs of your own")
        }
        ("udp", _) => Some(
            "UDP has no congestion control: on a line that others use it takes its rate from them; the session steps its \
             rate down below 85 % of delivery",
        ),
        ("etp", _) => Some("ETP drops states on purpose where its gap says so; newest first"),
        ("quic", _) => {
            Some("QUIC keeps at least 1.5 Mbit/s each way whatever is lost (its paced congestion control)")
        }
        _ => None,
    }
}

/// What is cited, each once.
struct Book<'a> {
    evidence: &'a Evidence,
    cited: Vec<Cited>,
}

impl Book<'_> {
    /// Its number, from 1.
    fn cite(&mut self, at: Cited) -> usize {
        let known = self.cited.iter().position(|cited| *cited == at);
        1 + known.unwrap_or_else(|| {
            self.cited.push(at);
            self.cited.len() - 1
        })
    }

    fn citations(&self) -> Vec<Citation> {
        let citation = |at: &Cited| {
            let set = &self.evidence.sets[at.set];
            let point = &set.points[at.point];
            let way = |way: &Way| {
                let number = |value: Option<f64>| value.map_or("–".to_owned(), ms);
                format!("p99 {}, {} lost", number(way.p99_ms), percent(way.lost_percent))
            };
            Citation {
                scenario: set.scenario.clone(),
                variant: point.variant.clone(),
                seeds: set.seeds.clone(),
                network: Some(point.condition),
                figures: format!("there {}; back {}", way(&point.figures.there), way(&point.figures.back)),
                digest: point.digest.clone(),
                command: set.command(point),
            }
        };
        self.cited.iter().map(citation).collect()
    }
}

pub(super) fn ms(value: f64) -> String {
    match value {
        value if value.is_infinite() => "nothing arrives".into(),
        value if value >= 100.0 => format!("{value:.0} ms"),
        value => format!("{value:.1} ms"),
    }
}

pub(super) fn percent(value: f64) -> String {
    if value > 0.0 && value < 0.1 { format!("{value:.2} %") } else { format!("{value:.1} %") }
}

pub(super) fn mbit(value: f64) -> String {
    format!("{value:.2} Mbit/s")
}
