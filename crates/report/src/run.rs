//! The page of one run, section by section.

use taut_core::DropCause;

use super::format::{
    ABSENT, capitalised, causes, count, cycle_losses, difference, escape, loss_split, number, optional,
    symbol_html,
};
use super::page::{self, Table, margin_bar, section, warning};
use super::run_figures;
use super::teleop;
use crate::result::{
    Conservation, CycleResult, Distribution, LimitResult, MediumResult, ModelCondition, ModelResult,
    RunResult, Verdict,
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
    let mut table = Table::new("").text("stream").text("limit").number("measured", "").number("allowed", "");
    table = table.text("margin").text("met");
    for limit in &verdict.limits {
        let margin = margin_bar(limit.value.unwrap_or(f64::NAN), limit.limit, limit.met);
        table.row(&[
            escape(&limit.stream),
            format!("{} ({})", escape(&limit.quantity), escape(&limit.unit)),
            optional(limit.value, 4),
            number(limit.limit, 4),
            limit.reason.as_deref().map_or(margin, escape),
            yes_no(limit.met),
        ]);
    }
    table.html()
}

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
    let mut table = Table::new(&escape(&capitalised(&model.stream))).text("quantity").text("equation");
    table = table.number("predicted", "ms").number("measured", "ms");
    table = table.number("difference", "ms").number("difference", "%");
    for row in &model.rows {
        let apart = row.measured_ms - row.predicted_ms;
        let percent = apart / row.predicted_ms * 100.0;
        table.row(&[
            symbol_html(&row.quantity),
            escape(&row.equation),
            number(row.predicted_ms, 4),
            number(row.measured_ms, 4),
            difference(apart, 3),
            difference(percent, 2),
        ]);
    }
    html.push_str(&table.html());
    if !model.conditions.is_empty() {
        let items: String = model.conditions.iter().map(condition).collect();
        html.push_str(&format!("<p>The model holds when:</p>\n<ul class=\"conditions\">\n{items}</ul>\n"));
    }
    if !model.cycles.is_empty() {
        html.push_str(&cycles(&model.cycles));
    }
    html
}

/// Why the smallest delays are where they are: the more segments a window loses, the longer TCP recovers, and the further
/// the queue drains meanwhile.
fn cycles(cycles: &[CycleResult]) -> String {
    let mut table =
        Table::new("Cycles of TCP's window, by the segments that each lost (the model assumes one)");
    table = table.number("lost", "segments").number("cycles", "").number("recovery, mean", "ms");
    table = table.number("smallest delay, mean", "ms").number("smallest delay of all", "ms");
    table = table.number("largest delay, mean", "ms");
    for row in cycles {
        table.row(&[
            cycle_losses(row),
            count(row.cycles),
            number(row.recovery_mean_ms, 4),
            number(row.floor_mean_ms, 4),
            number(row.floor_min_ms, 4),
            number(row.ceiling_mean_ms, 4),
        ]);
    }
    table.html()
}

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
    let mut timing =
        Table::new("Delay and jitter").text("stream").number("delay, mean", "ms").number("sd", "ms");
    timing = timing.number("min", "ms").number("median", "ms").number("95 %", "ms").number("99 %", "ms");
    timing = timing.number("99.9 %", "ms").number("max", "ms").number("1 s means", "min–max, ms");
    timing = timing.number("jitter, mean", "ms").number("99 %", "ms").number("largest rise", "ms");
    run.media.iter().for_each(|medium| timing.row(&medium_timing(medium)));
    format!("{}{}{}", fates(&run.media), timing.html(), refusals(run))
}

/// What became of the samples: withheld and superseded ones beside what the network lost, each on its own.
fn fates(media: &[MediumResult]) -> String {
    let mut table = Table::new("What became of the samples");
    table = table.group("", 4).group("lost", 6).group("", 5);
    table = table.text("stream").number("made", "").number("withheld", "on purpose").number("delivered", "");
    table = table.number("in all", "").number("in all", "%").number("in the network", "");
    table = table.number("superseded", "by newer").number("too late", "to send").text("else");
    table = table.number("late", "").number("reordered", "").number("duplicates", "");
    table = table.number("rate", "Hz").number("goodput", "kbit/s");
    for medium in media {
        let cause = |name: &str| medium.dropped.get(name).copied().unwrap_or(0);
        let mut others = medium.dropped.clone();
        others.retain(|name, _| ![SUPERSEDED, TOO_LATE].contains(&name.as_str()));
        table.row(&[
            escape(&medium.stream),
            count(medium.made),
            count(medium.withheld),
            count(medium.delivered),
            count(medium.lost),
            optional(medium.loss_percent, 3),
            count(medium.lost_in_network),
            count(cause(SUPERSEDED)),
            count(cause(TOO_LATE)),
            or_none(causes(&others)),
            count(medium.late),
            count(medium.reordered),
            count(medium.duplicates),
            number(medium.rate_hz, 4),
            number(medium.goodput_bps / 1e3, 4),
        ]);
    }
    table.html()
}

const SUPERSEDED: &str = DropCause::Superseded.name();
const TOO_LATE: &str = DropCause::TooLate.name();

fn medium_timing(medium: &MediumResult) -> [String; 13] {
    let delay = |of: fn(&Distribution) -> f64| optional(medium.delay_ms.as_ref().map(of), 4);
    let jitter = |of: fn(&Distribution) -> f64| optional(medium.jitter_ms.as_ref().map(of), 4);
    let means = medium.delay_buckets_ms.as_ref();
    [
        escape(&medium.stream),
        delay(|d| d.mean),
        delay(|d| d.sd),
        delay(|d| d.min),
        delay(|d| d.p50),
        delay(|d| d.p95),
        delay(|d| d.p99),
        delay(|d| d.p999),
        delay(|d| d.max),
        means.map_or_else(|| ABSENT.to_owned(), |b| format!("{} – {}", number(b.min, 4), number(b.max, 4))),
        jitter(|d| d.mean),
        jitter(|d| d.p99),
        optional(medium.jitter_max_ms, 4),
    ]
}

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

fn or_none(text: String) -> String {
    if text.is_empty() { ABSENT.to_owned() } else { text }
}

fn flows(run: &RunResult) -> String {
    let mut table =
        Table::new("Packets of each flow; rates on the wire, after the warm-up").text("flow").text("kind");
    table = table.number("sent", "").number("delivered", "").number("loss", "%").text("dropped, by cause");
    table = table.number("sent", "kbit/s").number("delivered", "kbit/s").number("efficiency", "%");
    table = table.number("delay, mean", "ms").number("99 %", "ms").number("max", "ms");
    let mut counters = Table::new("What their transports counted").text("flow").text("counters");
    for flow in &run.flows {
        let delay = flow.delay_ms.as_ref();
        table.row(&[
            escape(&flow.name),
            escape(&flow.kind),
            count(flow.sent),
            count(flow.delivered),
            optional(flow.loss_percent, 3),
            or_none(causes(&flow.dropped)),
            number(flow.sent_bps / 1e3, 4),
            number(flow.delivered_bps / 1e3, 4),
            optional(flow.efficiency.map(|share| share * 100.0), 3),
            optional(delay.map(|d| d.mean), 4),
            optional(delay.map(|d| d.p99), 4),
            optional(delay.map(|d| d.max), 4),
        ]);
        let counted = causes(&flow.counters);
        if !counted.is_empty() {
            counters.row(&[escape(&flow.name), counted]);
        }
    }
    format!("{}{}", table.html(), counters.html())
}

fn links(run: &RunResult) -> String {
    let mut table =
        Table::new("Packets through each link, in the whole run").text("link").number("entered", "");
    table = table
        .number("left", "")
        .text("dropped, by cause")
        .number("held", "at the end")
        .number("duplicated", "");
    table = table
        .number("flipped", "bits")
        .number("queue, mean", "bytes")
        .number("max", "bytes")
        .number("utilisation", "%");
    for link in &run.links {
        table.row(&[
            escape(&link.name),
            count(link.entered),
            count(link.left),
            or_none(causes(&link.dropped)),
            count(link.held),
            count(link.duplicated),
            count(link.corrupted),
            number(link.queue_mean_bytes, 4),
            count(link.queue_max_bytes),
            optional(link.utilisation.map(|share| share * 100.0), 4),
        ]);
    }
    let mut counters =
        Table::new("What their queues counted, as tc -s qdisc shows it").text("link").text("counters");
    for link in run.links.iter().filter(|link| !link.counters.is_empty()) {
        counters.row(&[escape(&link.name), causes(&link.counters)]);
    }
    let counted = run.links.iter().any(|link| !link.counters.is_empty());
    table.html() + &if counted { counters.html() } else { String::new() }
}

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
    let mut table = Table::new("Files that were read").text("path").text("SHA-256");
    for input in &run.inputs {
        table.row(&[escape(&input.path), format!("<code>{}</code>", escape(&input.sha256))]);
    }
    html.push_str(&table.html());
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
