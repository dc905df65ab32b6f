//! What a run or a campaign found, as text for a terminal.

use std::path::PathBuf;

use super::campaign::{but_for, failures, not_measured, passes, variant_name};
use super::format::{ABSENT, cycle_losses, spaced};
use super::measures::delay_variation_ms;
use super::{commands, comparison, teleop, video};
use crate::Written;
use crate::result::{
    CampaignResult, ComparisonResult, CycleResult, LimitResult, Measure, MediumResult, ModelResult,
    RunResult, VariantResult,
};

/// One run: its limits, where samples were lost, the model, and last the verdict.
pub fn run_text(run: &RunResult) -> String {
    let limits: Vec<Vec<String>> = run.verdict.limits.iter().map(limit_row).collect();
    let jitter = table("jitter, from one delay to the next", &jitter_rows(run));
    let losses: Vec<Vec<String>> = run.media.iter().filter(|medium| splits(medium)).map(loss_row).collect();
    let losses = table("where samples were lost", &losses);
    let refusals = table("arrived and of no use", &refusal_rows(run));
    let models: String = run.models.iter().map(model).collect();
    let session: String = teleop::text_tables(run).iter().map(|(head, rows)| table(head, rows)).collect();
    let commands = run.commands.as_ref().map(commands::text_table);
    let commands = commands.map_or_else(String::new, |(head, rows)| table(&head, &rows));
    let videos: String =
        video::text_tables(&run.videos).iter().map(|(head, rows)| table(head, rows)).collect();
    let verdict = match (run.verdict.limits.is_empty(), run.verdict.met) {
        (true, _) => "no verdict: there are no limits",
        (false, true) => "PASS: every limit is met",
        (false, false) => "FAIL: a limit is not met",
    };
    let head = format!("{} (seed {}, {} s)", run.title, run.seed, run.duration_s);
    format!(
        "{head}\n\n{}{jitter}{session}{commands}{videos}{losses}{refusals}{models}\n{verdict}\n",
        aligned(&limits)
    )
}

/// A campaign: for each variant the verdict, what it failed, and every measure.
pub fn campaign_text(campaign: &CampaignResult) -> String {
    let variants: String = campaign.variants.iter().map(variant).collect();
    let absent: String = not_measured(campaign).iter().map(|line| format!("\n{line}\n")).collect();
    format!("{} ({} s a run)\n{variants}{absent}", campaign.title, campaign.duration_s)
}

/// Real runs beside simulated ones: percentiles of one-way latency, and what was not as it must be.
pub fn comparison_text(comparison: &ComparisonResult) -> String {
    let (rows, verdict) = comparison::text_rows(comparison);
    let violations = comparison.runs.iter().flat_map(|run| {
        let name = but_for(&run.variant, &run.overridden);
        let violations = run.both().flat_map(|one| &one.violations);
        violations.map(move |what| vec![format!("{name}: {what}")])
    });
    let violations = table("not as it must be", &violations.collect::<Vec<_>>());
    let more = [
        comparison::command_rows(comparison),
        comparison::cross_rows(comparison),
        comparison::video_rows(comparison),
    ];
    let more: String =
        more.iter().filter(|rows| !rows.is_empty()).map(|rows| format!("\n{}", aligned(rows))).collect();
    format!("{}\n\n{}{more}{violations}\n{verdict}\n", comparison.title, aligned(&rows))
}

/// Where the report is, and what became of the files that were there before.
pub fn written_text(written: &Written) -> String {
    let report = written.files.iter().find(|file| file.ends_with("report.html"));
    let mut text = report.map_or_else(String::new, |report| format!("\nreport: {}\n", report.display()));
    let mut told = |what: &str, paths: &[PathBuf]| {
        let names: Vec<String> =
            paths.iter().take(MOST_NAMES).map(|path| path.display().to_string()).collect();
        let more = paths.len() - names.len();
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        if !names.is_empty() {
            text.push_str(&format!("{what}: {}{more}\n", names.join(", ")));
        }
    };
    told("removed, for they were of the run before", &written.removed);
    told("not of this report, and left as they were", &written.unrelated);
    text
}

/// Files that a line names.
const MOST_NAMES: usize = 4;

/// A text table: one line per row, columns as wide as their widest cell, the first to the left, the others to the right.
pub(super) fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|c| c.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            let fill = " ".repeat(widths[column] - cell.chars().count());
            if column == 0 { format!("{cell}{fill}") } else { format!("{fill}{cell}") }
        });
        text.push_str(format!("  {}", cells.collect::<Vec<_>>().join("  ")).trim_end());
        text.push('\n');
    }
    text
}

/// Under a heading; nothing without rows.
fn table(heading: &str, rows: &[Vec<String>]) -> String {
    if rows.is_empty() { String::new() } else { format!("\n{heading}\n{}", aligned(rows)) }
}

fn limit_row(limit: &LimitResult) -> Vec<String> {
    let met = match (&limit.reason, limit.met) {
        (Some(reason), _) => format!("NOT MET: {reason}"),
        (None, true) => "ok".to_owned(),
        (None, false) => "NOT MET".to_owned(),
    };
    vec![
        format!("{} {}", limit.stream, limit.quantity),
        limit.value.map_or_else(|| ABSENT.to_owned(), |value| format!("{value:.3} {}", limit.unit)),
        format!("limit {} {}", limit.limit, limit.unit),
        met,
    ]
}

/// What its delays do from sample to sample, and 99 of 100 of them together.
fn jitter_rows(run: &RunResult) -> Vec<Vec<String>> {
    let row = |medium: &MediumResult| {
        let jitter = medium.jitter_ms.as_ref()?;
        let values =
            [Some(jitter.mean), Some(jitter.p99), medium.jitter_max_ms, delay_variation_ms(&medium.delay_ms)];
        let cells =
            values.map(|value| value.map_or_else(|| ABSENT.to_owned(), |value| format!("{value:.3}")));
        Some(std::iter::once(medium.stream.clone()).chain(cells).collect())
    };
    let rows: Vec<Vec<String>> = run.media.iter().filter_map(row).collect();
    let head = ["ms", "mean", "p99", "largest rise", "delay variation, p99"].map(str::to_owned).to_vec();
    if rows.is_empty() { rows } else { std::iter::once(head).chain(rows).collect() }
}

/// Whether there is more to say of its samples than what the network lost.
fn splits(medium: &MediumResult) -> bool {
    medium.withheld > 0 || !medium.dropped.is_empty()
}

fn loss_row(medium: &MediumResult) -> Vec<String> {
    let mut row = vec![
        medium.stream.clone(),
        format!("lost {} of {}", medium.lost, medium.made),
        format!("in the network {}", medium.lost_in_network),
    ];
    row.extend(medium.dropped.iter().map(|(cause, count)| format!("{} {count}", spaced(cause))));
    if medium.withheld > 0 {
        row.push(format!("withheld on purpose {}", medium.withheld));
    }
    row
}

fn refusal_rows(run: &RunResult) -> Vec<Vec<String>> {
    let media = run.media.iter().map(|medium| (medium.stream.clone(), &medium.refused));
    let nodes = run.refusals.iter().map(|node| (format!("packets at {}", node.node), &node.refused));
    let row = |(place, refused): (String, &std::collections::BTreeMap<String, u64>)| {
        let counts = refused.iter().map(|(cause, count)| format!("{} {count}", spaced(cause)));
        std::iter::once(place).chain(counts).collect()
    };
    media.chain(nodes).filter(|(_, refused)| !refused.is_empty()).map(row).collect()
}

fn model(model: &ModelResult) -> String {
    let rows: Vec<Vec<String>> = model
        .rows
        .iter()
        .map(|row| {
            vec![
                format!("{} {}", row.quantity, row.equation),
                format!("predicted {:.3} ms", row.predicted_ms),
                format!("measured {:.3} ms", row.measured_ms),
                format!("{:+.3} ms", row.measured_ms - row.predicted_ms),
            ]
        })
        .collect();
    let outside = model.conditions.iter().filter(|condition| !condition.holds);
    let outside: String = outside
        .map(|condition| {
            format!("  outside the model's validity: {}: {}\n", condition.name, condition.explanation)
        })
        .collect();
    let cycles: Vec<Vec<String>> = model.cycles.iter().map(cycle_row).collect();
    format!(
        "\nclosed-form model, {}\n{}{outside}{}",
        model.stream,
        aligned(&rows),
        table("cycles of TCP's window, means", &cycles).trim_start_matches('\n')
    )
}

/// How far the delay falls, by how many segments TCP lost: what fast recovery does to the model's bound.
fn cycle_row(cycle: &CycleResult) -> Vec<String> {
    vec![
        format!("{} cycles that lost {}", cycle.cycles, cycle_losses(cycle)),
        format!("recovery {:.1} ms", cycle.recovery_mean_ms),
        format!("smallest delay {:.3} ms", cycle.floor_mean_ms),
        format!("largest delay {:.3} ms", cycle.ceiling_mean_ms),
    ]
}

fn variant(variant: &VariantResult) -> String {
    let (seeds, met) = (variant.seeds.len(), variant.met);
    let verdict = match (variant.limits.is_empty(), passes(variant)) {
        (true, _) => "no verdict: there are no limits".to_owned(),
        (false, true) => format!("PASS: every limit is met in all of {seeds} runs"),
        (false, false) => format!("FAIL: every limit is met in {met} of {seeds} runs"),
    };
    let failures: String = failures(variant).iter().map(|failure| format!("  {failure}\n")).collect();
    let rows: Vec<Vec<String>> = variant.measures.iter().map(|measure| measure_row(measure, seeds)).collect();
    format!("\n{}: {verdict}\n{failures}{}", variant_name(variant), aligned(&rows))
}

fn measure_row(measure: &Measure, seeds: usize) -> Vec<String> {
    let optional =
        |what: &str, value: Option<f64>| value.map_or_else(String::new, |value| format!("{what} {value:.3}"));
    let interval = measure.ci95.map_or_else(String::new, |ci| format!(" ± {ci:.3}"));
    let some = measure.runs < seeds as u64;
    vec![
        measure.name.clone(),
        format!("{:.3}{interval} {}", measure.mean, measure.unit),
        if measure.runs > 1 { format!("{:.3} – {:.3}", measure.min, measure.max) } else { String::new() },
        optional("model", measure.predicted),
        optional("source", measure.reported),
        if some { format!("in {} of {seeds} runs", measure.runs) } else { String::new() },
    ]
}
