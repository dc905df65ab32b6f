//! The page of one run, section by section.

use taut_core::DropCause;

use super::format::{
    ABSENT, capitalised, causes, causes_or_none, count, cycle_losses, difference, escape, loss_split, number,
    optional, symbol_html,
};
use super::measures::{delay_variation_ms, of};
use super::page::{self, Column, Table, margin_bar, section, warning};
use super::run_figures;
use super::teleop;
use crate::result::{
    Conservation, CycleResult, FlowResult, Input, LimitResult, LinkResult, MediumResult, ModelCondition,
    ModelResult, ModelRow, RunResult, Verdict,
};

/// The whole document.
pub(super) fn html(run: &RunResult) -> String {
    let mut body = header(run);
    body.push_str(&verdict(run));
    body.push_str(&section("Limits", &limits(&run.verdict)));
    body.push_str(&section("Model and measurement", &models(&run.models)));
    body.push_str(&section("Commands", &super::commands::html(run.commands.as_ref())));
    let mut first = 1;
    for group in run_figures::groups(run) {
        body.push_str(&section(group.title, &page::figures(&group.figures, first)));
        first += group.figures.len();
    }
    body.push_str(&section("Session", &teleop::html(run)));
    body.push_str(&section("Streams", &media(run)));
    body.push_str(&section("Video", &super::video::html(&run.videos)));
    body.push_str(&section("Flows", &flows(run)));
    body.push_str(&section("Links", &links(run)));
    body.push_str(&section("Conservation of packets", &conservation(&run.conservation)));
    body.push_str(&section("Replay", &replay(run)));
    page::document(&run.title, &body)
}

fn header(run: &RunResult) -> String {
    format!(
        "<header>\n<p class=\"facts\">taut {} · seed {} · {} s simulated, the first {} s not counted</p>\n<h1>{}</h1>\n\
         <p class=\"lead\">{}</p>\n</header>\n",
        escape(&run.taut),
        run.seed,
        number(run.duration_s, 6),
        number(run.warmup_s, 6),
        escape(&run.title),
        escape(&run.description)
    )
}

/// The answer first, and whatever speaks against believing it.
fn verdict(run: &RunResult) -> String {
    let failed: Vec<&LimitResult> = run.verdict.limits.iter().filter(|limit| !limit.met).collect();
    let reason = |limit: &&LimitResult| format!("<p>{}</p>\n", broken(run, limit));
    let (class, headline, reasons) = if run.verdict.limits.is_empty() && run.verdict.met {
        ("open", "No limits were set", "<p>The scenario does not say what its streams need.</p>\n".to_owned())
    } else if run.verdict.met {
        ("met", "Meets its limits", tightest(&run.verdict))
    } else if failed.is_empty() {
        ("failed", "Does not meet its limits", "<p>No single limit says why.</p>\n".to_owned())
    } else {
        ("failed", "Does not meet its limits", failed.iter().map(reason).collect())
    };
    let mark = match class {
        "met" => "✓ ",
        "failed" => "✗ ",
        _ => "",
    };
    let mut html = format!(
        "<div class=\"verdict {class}\" role=\"status\"><strong>{mark}{headline}</strong>\n{reasons}</div>\n"
    );
    if !run.conservation.holds {
        html.push_str(&warning(
            "<b>The packets of this run do not add up.</b> Believe none of its numbers; see <a href=\"#conservation\">\
             what is missing</a>.",
        ));
    }
    for model in run.models.iter().filter(|model| !failing(model).is_empty()) {
        html.push_str(&warning(&format!(
            "<b>Outside the model's validity</b> for {}: <a href=\"#model\">its bounds</a> say nothing about this run.",
            escape(&model.stream)
        )));
    }
    html
}

fn tightest(verdict: &Verdict) -> String {
    let share = |limit: &LimitResult| {
        let value = limit.value.filter(|_| limit.limit > 0.0).unwrap_or(0.0);
        if value == 0.0 { 0.0 } else { value / limit.limit }
    };
    let tightest = verdict
        .limits
        .iter()
        .filter(|limit| share(limit).is_finite())
        .max_by(|a, b| share(a).total_cmp(&share(b)));
    let all = verdict.limits.len();
    let scope =
        if all == 1 { "Its one limit is met.".to_owned() } else { format!("All {all} limits are met.") };
    let nearest = tightest.map_or_else(String::new, |limit| {
        let (value, allowed, unit) = (optional(limit.value, 4), number(limit.limit, 4), escape(&limit.unit));
        let name = format!("{} of {}", escape(&limit.quantity), escape(&limit.stream));
        format!(" The tightest: {name}, {value} of {allowed} {unit}.")
    });
    format!("<p>{scope}{nearest}</p>\n")
}

/// Why a limit is not met, as markup.
fn broken(run: &RunResult, limit: &LimitResult) -> String {
    let (quantity, stream) = (escape(&capitalised(&limit.quantity)), escape(&limit.stream));
    let (allowed, unit) = (number(limit.limit, 4), escape(&limit.unit));
    if let Some(reason) = &limit.reason {
        return format!("{quantity} of {stream}: {}; the limit is {allowed} {unit}.", escape(reason));
    }
    let split = run.media.iter().find(|medium| medium.stream == limit.stream && limit.quantity == "loss");
    let split = split.and_then(loss_split).map_or_else(String::new, |split| format!(" Of it: {split}."));
    format!(
        "{quantity} of {stream} is {} {unit}; the limit is {allowed} {unit}.{split}",
        optional(limit.value, 4)
    )
}

fn limits(verdict: &Verdict) -> String {
    Table::of("", LIMITS, &verdict.limits)
}

const LIMITS: &[Column<LimitResult>] = &[
    Column::markup("stream", |limit| escape(&limit.stream)),
    Column::markup("limit", |limit| format!("{} ({})", escape(&limit.quantity), escape(&limit.unit))),
    Column::number(4, "measured", "", |limit| limit.value),
    Column::number(4, "allowed", "", |limit| Some(limit.limit)),
    Column::markup("margin", |limit| {
        let margin = || margin_bar(limit.value.unwrap_or(f64::NAN), limit.limit, limit.met);
        limit.reason.as_deref().map_or_else(margin, escape)
    }),
    Column::markup("met", |limit| yes_no(limit.met)),
];

fn yes_no(met: bool) -> String {
    if met { "<span class=\"yes\">yes</span>".to_owned() } else { "<span class=\"no\">no</span>".to_owned() }
}

fn models(models: &[ModelResult]) -> String {
    let content: String = models.iter().map(model).collect();
    if content.is_empty() { content } else { format!("<div id=\"model\">\n{content}</div>\n") }
}

fn failing(model: &ModelResult) -> Vec<&ModelCondition> {
    model.conditions.iter().filter(|condition| !condition.holds).collect()
}

fn model(model: &ModelResult) -> String {
    let mut html = outside(model);
    html.push_str(&Table::of(&escape(&capitalised(&model.stream)), MODEL, &model.rows));
    if !model.conditions.is_empty() {
        let items: String = model.conditions.iter().map(condition).collect();
        let list = format!("<ul class=\"conditions\">\n{items}</ul>\n");
        let holding = model.conditions.iter().filter(|condition| condition.holds).count();
        let all = model.conditions.len();
        html.push_str(&page::folded(
            &format!("When the model holds: {holding} of {all} conditions are met"),
            &list,
        ));
    }
    let caption = "Cycles of TCP's window, by the segments that each lost (the model assumes one)";
    html.push_str(&Table::of(caption, CYCLES, &model.cycles));
    html
}

const MODEL: &[Column<ModelRow>] = &[
    Column::markup("quantity", |row| symbol_html(&row.quantity)),
    Column::markup("equation", |row| escape(&row.equation)),
    Column::number(4, "predicted", "ms", |row| Some(row.predicted_ms)),
    Column::number(4, "measured", "ms", |row| Some(row.measured_ms)),
    Column::numeral("difference", "ms", |row| difference(row.measured_ms - row.predicted_ms, 3)),
    Column::numeral("difference", "%", |row| {
        difference((row.measured_ms - row.predicted_ms) / row.predicted_ms * 100.0, 2)
    }),
];

/// Why the smallest delays are where they are: the more segments a window loses, the longer TCP recovers, and the further
/// the queue drains meanwhile.
const CYCLES: &[Column<CycleResult>] = &[
    Column::numeral("lost", "segments", cycle_losses),
    Column::count("cycles", "", |row| row.cycles),
    Column::number(4, "recovery, mean", "ms", |row| Some(row.recovery_mean_ms)),
    Column::number(4, "smallest delay, mean", "ms", |row| Some(row.floor_mean_ms)),
    Column::number(4, "smallest delay of all", "ms", |row| Some(row.floor_min_ms)),
    Column::number(4, "largest delay, mean", "ms", |row| Some(row.ceiling_mean_ms)),
];

fn condition(condition: &ModelCondition) -> String {
    let (class, mark) = if condition.holds { ("holds", "✓") } else { ("fails", "✗") };
    let (name, why) = (condition_name(condition), escape(&condition.explanation));
    format!("<li class=\"{class}\"><i>{mark}</i><b>{name}</b> <span class=\"soft\">{why}</span></li>\n")
}

/// As markup; `load_below_rate` in words, anything else as it is.
fn condition_name(condition: &ModelCondition) -> String {
    let identifier = condition.name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    if identifier { escape(&condition.name.replace('_', " ")) } else { symbol_html(&condition.name) }
}

/// A warning when the model does not apply; nothing when it does.
fn outside(model: &ModelResult) -> String {
    let failing = failing(model);
    if failing.is_empty() {
        return String::new();
    }
    let reasons = failing.iter().map(|condition| {
        let name = condition_name(condition);
        if condition.explanation.is_empty() {
            name
        } else {
            format!("{name} ({})", escape(&condition.explanation))
        }
    });
    warning(&format!(
        "<b>Outside the model's validity</b> for {}; what fails: {}. Its predictions are no bounds here.",
        escape(&model.stream),
        reasons.collect::<Vec<_>>().join("; ")
    ))
}

fn media(run: &RunResult) -> String {
    let fates = Table::new("What became of the samples").group("", 4).group("lost", 6);
    let delivered = Table::of("What was delivered", DELIVERED, &run.media);
    let timing = Table::of("Delay", TIMING, &run.media);
    let jitter = Table::of(JITTER_CAPTION, JITTER, &run.media);
    format!("{}{delivered}{timing}{jitter}{}", fates.filled(FATES, &run.media).html(), refusals(run))
}

/// What became of the samples: withheld and superseded ones beside what the network lost, each on its own.
const FATES: &[Column<MediumResult>] = &[
    Column::markup("stream", |medium| escape(&medium.stream)),
    Column::count("made", "", |medium| medium.made),
    Column::count("withheld", "on purpose", |medium| medium.withheld),
    Column::count("delivered", "", |medium| medium.delivered),
    Column::count("in all", "", |medium| medium.lost),
    Column::number(3, "in all", "%", |medium| medium.loss_percent),
    Column::count("in the network", "", |medium| medium.lost_in_network),
    Column::count("superseded", "by newer", |medium| dropped(medium, SUPERSEDED)),
    Column::count("too late", "to send", |medium| dropped(medium, TOO_LATE)),
    Column::markup("else", |medium| {
        let mut others = medium.dropped.clone();
        others.retain(|name, _| ![SUPERSEDED, TOO_LATE].contains(&name.as_str()));
        causes_or_none(&others)
    }),
];

const DELIVERED: &[Column<MediumResult>] = &[
    Column::markup("stream", |medium| escape(&medium.stream)),
    Column::count("late", "", |medium| medium.late),
    Column::count("reordered", "", |medium| medium.reordered),
    Column::count("duplicates", "", |medium| medium.duplicates),
    Column::number(4, "rate", "Hz", |medium| Some(medium.rate_hz)),
    Column::number(4, "goodput", "kbit/s", |medium| Some(medium.goodput_bps / 1e3)),
];

const SUPERSEDED: &str = DropCause::Superseded.name();
const TOO_LATE: &str = DropCause::TooLate.name();

fn dropped(medium: &MediumResult, cause: &str) -> u64 {
    medium.dropped.get(cause).copied().unwrap_or(0)
}

const TIMING: &[Column<MediumResult>] = &[
    Column::markup("stream", |medium| escape(&medium.stream)),
    Column::number(4, "delay, mean", "ms", |medium| of(&medium.delay_ms, |d| d.mean)),
    Column::number(4, "sd", "ms", |medium| of(&medium.delay_ms, |d| d.sd)),
    Column::number(4, "min", "ms", |medium| of(&medium.delay_ms, |d| d.min)),
    Column::number(4, "median", "ms", |medium| of(&medium.delay_ms, |d| d.p50)),
    Column::number(4, "95 %", "ms", |medium| of(&medium.delay_ms, |d| d.p95)),
    Column::number(4, "99 %", "ms", |medium| of(&medium.delay_ms, |d| d.p99)),
    Column::number(4, "99.9 %", "ms", |medium| of(&medium.delay_ms, |d| d.p999)),
    Column::number(4, "max", "ms", |medium| of(&medium.delay_ms, |d| d.max)),
    Column::numeral("1 s means", "min–max, ms", |medium| {
        let means = medium.delay_buckets_ms.as_ref();
        means.map_or_else(|| ABSENT.to_owned(), |b| format!("{} – {}", number(b.min, 4), number(b.max, 4)))
    }),
];

/// The rise is the source's jitter, which the limit is for; differences are those whose running mean is interarrival jitter (RFC 3550,
/// section 6.4.1).
const JITTER_CAPTION: &str = "Jitter: from one delay to the next, and of all delays above the smallest";

const JITTER: &[Column<MediumResult>] = &[
    Column::markup("stream", |medium| escape(&medium.stream)),
    Column::number(4, "largest rise", "ms, as the limit", |medium| medium.jitter_max_ms),
    Column::number(4, "difference, mean", "ms, RFC 3550", |medium| of(&medium.jitter_ms, |d| d.mean)),
    Column::number(4, "difference, 99 %", "ms", |medium| of(&medium.jitter_ms, |d| d.p99)),
    Column::number(4, "delay variation, 99 %", "ms, RFC 5481", |medium| delay_variation_ms(&medium.delay_ms)),
];

/// What arrived and was of no use; nothing when there was nothing.
fn refusals(run: &RunResult) -> String {
    let mut table = Table::new("What arrived and was of no use").text("where").text("refused, by cause");
    for medium in run.media.iter().filter(|medium| !medium.refused.is_empty()) {
        table.row(&[escape(&medium.stream), causes(&medium.refused)]);
    }
    for node in &run.refusals {
        table.row(&[format!("packets at {}", escape(&node.node)), causes(&node.refused)]);
    }
    table.html()
}

fn flows(run: &RunResult) -> String {
    let counted = run.flows.iter().filter(|flow| flow.counters.values().any(|count| *count > 0));
    Table::of("Packets of each flow; rates on the wire, after the warm-up", FLOWS, &run.flows)
        + &Table::of("What their transports counted", FLOW_COUNTERS, counted)
}

const FLOWS: &[Column<FlowResult>] = &[
    Column::markup("flow", |flow| escape(&flow.name)),
    Column::markup("kind", |flow| escape(&flow.kind)),
    Column::count("sent", "", |flow| flow.sent),
    Column::count("delivered", "", |flow| flow.delivered),
    Column::number(3, "loss", "%", |flow| flow.loss_percent),
    Column::markup("dropped, by cause", |flow| causes_or_none(&flow.dropped)),
    Column::number(4, "sent", "kbit/s", |flow| Some(flow.sent_bps / 1e3)),
    Column::number(4, "delivered", "kbit/s", |flow| Some(flow.delivered_bps / 1e3)),
    Column::number(3, "efficiency", "%", |flow| flow.efficiency.map(|share| share * 100.0)),
    Column::number(4, "delay, mean", "ms", |flow| of(&flow.delay_ms, |d| d.mean)),
    Column::number(4, "99 %", "ms", |flow| of(&flow.delay_ms, |d| d.p99)),
    Column::number(4, "max", "ms", |flow| of(&flow.delay_ms, |d| d.max)),
];

const FLOW_COUNTERS: &[Column<FlowResult>] = &[
    Column::markup("flow", |flow| escape(&flow.name)),
    Column::markup("counters", |flow| causes(&flow.counters)),
];

fn links(run: &RunResult) -> String {
    let counted = run.links.iter().filter(|link| !link.counters.is_empty());
    Table::of("Packets through each link, in the whole run", LINKS, &run.links)
        + &Table::of("What their queues counted, as tc -s qdisc shows it", LINK_COUNTERS, counted)
}

const LINKS: &[Column<LinkResult>] = &[
    Column::markup("link", |link| escape(&link.name)),
    Column::count("entered", "", |link| link.entered),
    Column::count("left", "", |link| link.left),
    Column::markup("dropped, by cause", |link| causes_or_none(&link.dropped)),
    Column::count("held", "at the end", |link| link.held),
    Column::count("duplicated", "", |link| link.duplicated),
    Column::count("flipped", "bits", |link| link.corrupted),
    Column::number(4, "queue, mean", "bytes", |link| Some(link.queue_mean_bytes)),
    Column::count("max", "bytes", |link| link.queue_max_bytes),
    Column::number(4, "utilisation", "%", |link| link.utilisation.map(|share| share * 100.0)),
];

const LINK_COUNTERS: &[Column<LinkResult>] = &[
    Column::markup("link", |link| escape(&link.name)),
    Column::markup("counters", |link| causes(&link.counters)),
];

fn conservation(conservation: &Conservation) -> String {
    let dropped: u64 = conservation.dropped.values().fold(0, |sum, n| sum.saturating_add(*n));
    let why = causes(&conservation.dropped);
    let why = if why.is_empty() { String::new() } else { format!(" ({why})") };
    let balance = format!(
        "Packets sent: {}, copies made on the way: {}; {} delivered, {} dropped{why}, {} on the way when the run ended.",
        count(conservation.sent),
        count(conservation.duplicated),
        count(conservation.delivered),
        count(dropped),
        count(conservation.held),
    );
    if conservation.holds {
        return format!(
            "<p id=\"conservation\"><b class=\"yes\">Every packet is accounted for</b>, link by link and end to end, by a \
             count that is independent of the links' own. {balance}</p>\n"
        );
    }
    let items: String =
        conservation.violations.iter().map(|text| format!("<li>{}</li>\n", escape(text))).collect();
    let items = if items.is_empty() { String::new() } else { format!("<ul>\n{items}</ul>\n") };
    format!(
        "<p id=\"conservation\"><b class=\"no\">Not every packet is accounted for.</b> {balance}</p>\n{items}"
    )
}

fn replay(run: &RunResult) -> String {
    let mut html = format!(
        "<p>Everything here follows from the scenario below, the seed {} and taut {}. To run it again, bit by bit the \
         same, and compare (from the folder where it was first run; with the path of its run.json):</p>\n<div class=\"replay\"><pre><code>taut replay run.json</code></pre></div>\n",
        run.seed,
        escape(&run.taut)
    );
    html.push_str(&Table::of("Files that were read", INPUTS, &run.inputs));
    if run.inputs.is_empty() {
        html.push_str("<p>No other files were read.</p>\n");
    }
    if !run.scenario.is_empty() {
        html.push_str(&format!(
            "<details>\n<summary>The whole scenario (TOML)</summary>\n<pre><code>{}</code></pre>\n</details>\n",
            escape(&run.scenario)
        ));
    }
    html
}

const INPUTS: &[Column<Input>] = &[
    Column::markup("path", |input| escape(&input.path)),
    Column::markup("SHA-256", |input| format!("<code>{}</code>", escape(&input.sha256))),
];
