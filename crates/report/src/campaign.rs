//! The page and the figures of a campaign: variants side by side.

use super::axis::Axis;
use super::chart::{Chart, Ink, Shape};
use super::format::{ABSENT, capitalised, escape, number, optional, slug, symbol_html};
use super::headline;
use super::page::{self, Figure, Table, section};
use super::sweep::{Spreads, Sweep};
use crate::result::{CampaignResult, LimitTally, Measure, VariantResult};

const MEASURED: Ink = Ink(0);
const PREDICTED: Ink = Ink(1);
const REPORTED: Ink = Ink(2);
/// Measures along an axis in one report, each with a figure for each group.
const SWEPT: usize = 20;
/// Figures of one report; beyond that, the table is the place to look.
const FIGURES: usize = 24;
/// Of more variants along an axis, dots beside lines are a wall.
const DOTTED: usize = 40;
/// Height of a variant's row.
const ROW: f64 = 34.0;
/// Share of a row by which prediction and report stand below and above the measurement, so that all three show.
const APART: f64 = 0.22;

/// The whole document.
pub(super) fn html(campaign: &CampaignResult) -> String {
    let measures = measures(campaign);
    let runs: usize = campaign.variants.iter().map(|variant| variant.seeds.len()).sum();
    let variants = campaign.variants.len();
    let mut body = format!(
        "<header>\n<p class=\"facts\">taut {} · {variants} variant{} · {runs} run{} of {} s</p>\n<h1>{}</h1>\n\
         <p class=\"lead\">{}</p>\n</header>\n",
        escape(&campaign.taut),
        if variants == 1 { "" } else { "s" },
        if runs == 1 { "" } else { "s" },
        number(campaign.duration_s, 6),
        escape(&campaign.title),
        escape(&campaign.description)
    );
    body.push_str(&verdict(campaign, runs));
    for line in not_measured(campaign) {
        body.push_str(&page::warning(&escape(&line)));
    }
    body.push_str(&section("At a glance", &headline::tables(campaign)));
    for (heading, content) in comparison(campaign) {
        body.push_str(&section(heading, &content));
    }
    if let Some(sweep) = swept(campaign) {
        let Spreads { boxes, shares } = sweep.spreads();
        let shares = page::folded("Cumulative distributions", &sweep.html(&shares));
        body.push_str(&section("Spread over time and frames", &(sweep.html(&boxes) + &shares)));
    }
    body.push_str(&section("Measures", &measure_table(campaign, &measures)));
    page::document(&campaign.title, &body)
}

/// Figures and the table of variants. Along an axis there are many variants, and what they set is the least interesting part.
fn comparison(campaign: &CampaignResult) -> [(&'static str, String); 2] {
    let (variants, figures) = (variant_table(campaign), of_measures(campaign));
    let Some(sweep) = swept(campaign) else {
        return [("Comparison", page::figures(&figures, 1)), ("Variants", variants)];
    };
    let (lines, dots) = figures.split_at(lines(campaign, &sweep).count() * sweep.panels());
    let each = page::folded("Each measure, variant by variant", &page::figures(dots, lines.len() + 1));
    let variants = page::folded(&format!("All {}", campaign.variants.len()), &variants);
    [("Comparison", sweep.html(lines) + &each), ("Variants", variants)]
}

/// All that are files of their own.
pub(super) fn figures(campaign: &CampaignResult) -> Vec<Figure> {
    let mut figures = of_measures(campaign);
    if let Some(sweep) = swept(campaign) {
        let Spreads { boxes, shares } = sweep.spreads();
        figures.extend(boxes.into_iter().chain(shares));
    }
    figures
}

/// A dot plot of each measure that there is something to compare with, or that differs between variants. Before these, where the variants
/// lie along an axis of numbers, lines over it; then no dots where there are too many variants.
fn of_measures(campaign: &CampaignResult) -> Vec<Figure> {
    let mut measures = measures(campaign);
    measures.sort_by_key(|head| headline::place(&head.name, head.predicted || head.reported));
    let compared: Vec<&MeasureHead> =
        measures.iter().filter(|head| head.predicted || head.reported).collect();
    let others = measures.iter().filter(|head| !head.predicted && !head.reported && differs(campaign, head));
    let sweep = swept(campaign);
    let few = sweep.is_none() || campaign.variants.len() <= DOTTED;
    let dots = compared.into_iter().chain(others).filter(|_| few).take(FIGURES);
    let dots = dots.map(|head| figure(campaign, head));
    let lines = sweep
        .iter()
        .flat_map(|sweep| lines(campaign, sweep).flat_map(|head| sweep.figures(&head)).collect::<Vec<_>>());
    lines.chain(dots).collect()
}

/// What lies along an axis of numbers, where there is no model and no source to compare with.
fn swept(campaign: &CampaignResult) -> Option<Sweep<'_>> {
    let mut all = campaign.variants.iter().flat_map(|variant| &variant.measures);
    let compared = all.any(|measure| measure.predicted.is_some() || measure.reported.is_some());
    Sweep::of(campaign).filter(|_| !compared)
}

/// Measures that are drawn as lines.
fn lines(campaign: &CampaignResult, sweep: &Sweep<'_>) -> impl Iterator<Item = MeasureHead> {
    let heads = measures(campaign).into_iter();
    heads.filter(move |head| differs(campaign, head) && sweep.shows(head)).take(SWEPT)
}

/// One measure, over all variants.
pub(super) struct MeasureHead {
    pub(super) name: String,
    pub(super) unit: String,
    pub(super) predicted: bool,
    pub(super) reported: bool,
}

/// Every measure that any variant has, in the order in which they first appear.
pub(super) fn measures(campaign: &CampaignResult) -> Vec<MeasureHead> {
    let mut heads: Vec<MeasureHead> = Vec::new();
    for measure in campaign.variants.iter().flat_map(|variant| &variant.measures) {
        let (predicted, reported) = (measure.predicted.is_some(), measure.reported.is_some());
        match heads.iter_mut().find(|head| head.name == measure.name) {
            Some(head) => {
                head.predicted |= predicted;
                head.reported |= reported;
            }
            None => {
                let (name, unit) = (measure.name.clone(), measure.unit.clone());
                heads.push(MeasureHead { name, unit, predicted, reported });
            }
        }
    }
    heads
}

pub(super) fn find<'a>(variant: &'a VariantResult, head: &MeasureHead) -> Option<&'a Measure> {
    variant.measures.iter().find(|measure| measure.name == head.name)
}

/// Whether any variant's confidence interval lies wholly above that of another; a wide one hides no others.
fn differs(campaign: &CampaignResult, head: &MeasureHead) -> bool {
    let found = campaign.variants.iter().filter_map(|variant| find(variant, head));
    let (lowest, highest) = found.fold((f64::INFINITY, f64::NEG_INFINITY), |(lowest, highest), measure| {
        let half = measure.ci95.unwrap_or(0.0);
        (lowest.min(measure.mean + half), highest.max(measure.mean - half))
    });
    highest > lowest
}

fn verdict(campaign: &CampaignResult, runs: usize) -> String {
    if runs == 0 {
        return page::warning("Nothing was run.");
    }
    let met: u64 = campaign.variants.iter().map(|variant| variant.met).sum();
    if campaign.variants.iter().all(|variant| variant.limits.is_empty()) {
        return "<div class=\"verdict open\"><strong>No limits were set</strong></div>\n".to_owned();
    }
    let sound = campaign.variants.iter().filter(|variant| passes(variant)).count();
    let (class, mark) = if met == runs as u64 { ("met", "✓") } else { ("failed", "✗") };
    let variants = campaign.variants.len();
    let detail = match variants {
        1 => String::new(),
        _ => format!("<p>{sound} of {variants} variants meet them with every seed.</p>\n"),
    };
    let headline = format!("{met} of {runs} runs meet their limits");
    let failed: String =
        limits_not_met(campaign).iter().map(|limit| format!("<p>{}</p>\n", escape(limit))).collect();
    format!("<div class=\"verdict {class}\"><strong>{mark} {headline}</strong>\n{detail}{failed}</div>\n")
}

/// Whether every seed meets every limit.
pub(super) fn passes(variant: &VariantResult) -> bool {
    variant.met == variant.seeds.len() as u64
}

/// Each limit that any seed does not meet, in how many, and how bad it is in the worst; plain text.
pub(super) fn failures(variant: &VariantResult) -> Vec<String> {
    let failed = |tally: &LimitTally| {
        let (unit, seed) = (&tally.unit, tally.worst_seed);
        let worst = match (tally.not_judged, tally.worst) {
            (0, Some(worst)) => format!("at worst {} {unit} (seed {seed})", number(worst, 4)),
            (0, None) => format!("at worst in seed {seed}"),
            (n, _) => format!("in {n} of them it cannot be judged, for too little arrived (seed {seed})"),
        };
        let (of, limit) = (variant.seeds.len(), number(tally.limit, 4));
        let name = format!("{} {}", tally.stream, tally.quantity);
        format!("{name}: in {} of {of} seeds, {worst}; limit {limit} {unit}", tally.failed)
    };
    variant.limits.iter().filter(|tally| tally.failed > 0).map(failed).collect()
}

/// What is reported of a variant and has no measure, in a line for each variant where there is any; plain text.
pub(super) fn not_measured(campaign: &CampaignResult) -> Vec<String> {
    let variants = campaign.variants.iter().filter(|variant| !variant.not_measured.is_empty());
    let line = |variant: &VariantResult| {
        format!("{}: reported, but not measured: {}", variant_name(variant), variant.not_measured.join(", "))
    };
    variants.map(line).collect()
}

/// Each limit that any run of any variant does not meet, in how many, and how bad it is in the worst; plain text, the one that most runs
/// miss first.
pub(super) fn limits_not_met(campaign: &CampaignResult) -> Vec<String> {
    let all = || {
        campaign.variants.iter().flat_map(|variant| variant.limits.iter().map(move |tally| (variant, tally)))
    };
    let mut limits: Vec<&LimitTally> = Vec::new();
    for (_, tally) in all().filter(|(_, tally)| tally.failed > 0) {
        if !limits.iter().any(|known| is_same(known, tally)) {
            limits.push(tally);
        }
    }
    let failed = |limit: &&LimitTally| -> u64 {
        all().filter(|(_, tally)| is_same(limit, tally)).map(|(_, tally)| tally.failed).sum()
    };
    limits.sort_by_key(|limit| std::cmp::Reverse(failed(limit)));
    let line = |limit: &LimitTally| {
        let of = || all().filter(|(_, tally)| is_same(limit, tally));
        let runs: usize = of().map(|(variant, _)| variant.seeds.len()).sum();
        let not_judged: u64 = of().map(|(_, tally)| tally.not_judged).sum();
        let worst = of().filter_map(|(variant, tally)| Some((variant, tally.worst_seed, tally.worst?)));
        let worst = worst.max_by(|a, b| a.2.total_cmp(&b.2));
        let (unit, allowed) = (&limit.unit, number(limit.limit, 4));
        let worst = worst.map_or_else(String::new, |(variant, seed, worst)| {
            let name = if campaign.variants.len() == 1 {
                String::new()
            } else {
                format!("{}, ", variant_name(variant))
            };
            // The seed of what could not be judged is not that of the largest value.
            let seed = if not_judged == 0 {
                format!("{name}seed {seed}")
            } else {
                name.trim_end_matches(", ").to_owned()
            };
            let of = if seed.is_empty() { String::new() } else { format!(" ({seed})") };
            format!(", at worst {} {unit}{of}", number(worst, 4))
        });
        let not_judged = match not_judged {
            0 => String::new(),
            n => format!(", {n} of them not to be judged, for too little arrived"),
        };
        let (name, failed) = (format!("{} {}", limit.stream, limit.quantity), failed(&limit));
        format!("{name}: not met in {failed} of {runs} runs{not_judged}{worst}; limit {allowed} {unit}")
    };
    limits.into_iter().map(line).collect()
}

/// Of two variants, one limit: of the same value of the same stream, and equal.
fn is_same(one: &LimitTally, other: &LimitTally) -> bool {
    (&one.stream, &one.quantity, &one.unit, one.limit.to_bits())
        == (&other.stream, &other.quantity, &other.unit, other.limit.to_bits())
}

pub(super) fn variant_name(variant: &VariantResult) -> String {
    let name = if variant.name.is_empty() { "as it is" } else { &variant.name };
    but_for(name, &variant.overridden)
}

/// `"R = 3 Mbit/s (but for cross.cbr.rate)"`
pub(super) fn but_for(name: &str, overridden: &[String]) -> String {
    if overridden.is_empty() {
        name.to_owned()
    } else {
        format!("{name} (but for {})", overridden.join(", "))
    }
}

/// Is each variant what its name says? Otherwise the names' parts are no values to draw or to tabulate by.
pub(super) fn are_as_named(campaign: &CampaignResult) -> bool {
    campaign.variants.iter().all(|variant| variant.overridden.is_empty())
}

fn variant_table(campaign: &CampaignResult) -> String {
    let mut table = Table::new("")
        .text("variant")
        .text("verdict")
        .text("not met")
        .text("sets")
        .text("seeds")
        .number("runs", "");
    table = table.number("met", "");
    for variant in &campaign.variants {
        let setting =
            |(key, value): &(String, String)| format!("<code>{} = {}</code>", escape(key), escape(value));
        let settings = variant.settings.iter().map(setting).collect::<Vec<_>>().join("<br/>");
        let (class, verdict) = match (variant.limits.is_empty(), passes(variant)) {
            (true, _) => ("soft", ABSENT),
            (false, true) => ("yes", "PASS"),
            (false, false) => ("no", "FAIL"),
        };
        let failures: Vec<String> = failures(variant).iter().map(|failure| escape(failure)).collect();
        table.row(&[
            symbol_html(&variant_name(variant)),
            format!("<span class=\"{class}\">{verdict}</span>"),
            if failures.is_empty() { ABSENT.to_owned() } else { failures.join("<br/>") },
            folded(variant.settings.len(), &settings),
            seeds(&variant.seeds),
            variant.seeds.len().to_string(),
            variant.met.to_string(),
        ]);
    }
    table.html()
}

/// Behind a click: what a variant sets can be longer than all the rest of the page.
fn folded(keys: usize, settings: &str) -> String {
    match keys {
        0 => ABSENT.to_owned(),
        1 => format!("<details><summary>1 key</summary>{settings}</details>"),
        keys => format!("<details><summary>{keys} keys</summary>{settings}</details>"),
    }
}

/// `"1–20, 42"`: runs of consecutive seeds as ranges.
fn seeds(seeds: &[u64]) -> String {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for seed in seeds {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*seed) => *last = *seed,
            _ => ranges.push((*seed, *seed)),
        }
    }
    let text = |(from, to): &(u64, u64)| if from == to { from.to_string() } else { format!("{from}–{to}") };
    ranges.iter().map(text).collect::<Vec<_>>().join(", ")
}

/// Whichever of variants and measures there are more of are the rows.
fn measure_table(campaign: &CampaignResult, heads: &[MeasureHead]) -> String {
    let title =
        "Mean ± half-width of its 95 % confidence interval over the seeds; smallest – largest of any seed";
    let mut table = Table::new(title);
    if heads.len() <= campaign.variants.len() {
        table = table.group("", 1).text("variant");
        for head in heads {
            let title = format!("{} <small>{}</small>", symbol_html(&head.name), escape(&head.unit));
            table = compared(table, &title, head.predicted, head.reported);
        }
        for variant in &campaign.variants {
            let cells = heads.iter().flat_map(|head| cells(variant, head, head.predicted, head.reported));
            table.row(&std::iter::once(symbol_html(&variant_name(variant))).chain(cells).collect::<Vec<_>>());
        }
    } else {
        let (predicted, reported) =
            (heads.iter().any(|head| head.predicted), heads.iter().any(|head| head.reported));
        table = table.group("", 2).text("measure").text("unit");
        for variant in &campaign.variants {
            table = compared(table, &symbol_html(&variant_name(variant)), predicted, reported);
        }
        for head in heads {
            let cells =
                campaign.variants.iter().flat_map(|variant| cells(variant, head, predicted, reported));
            let names = [symbol_html(&head.name), escape(&head.unit)];
            table.row(&names.into_iter().chain(cells).collect::<Vec<_>>());
        }
    }
    if heads.is_empty() { String::new() } else { table.html() }
}

/// Adds the columns of what is compared, under one heading.
fn compared(table: Table, title: &str, predicted: bool, reported: bool) -> Table {
    let columns = 2 + usize::from(predicted) + usize::from(reported);
    let table = table.group(title, columns).number("mean", "").number("min – max", "");
    let table = if predicted { table.number("model", "") } else { table };
    if reported { table.number("source", "") } else { table }
}

fn cells(variant: &VariantResult, head: &MeasureHead, predicted: bool, reported: bool) -> Vec<String> {
    let measure = find(variant, head);
    let absent = || ABSENT.to_owned();
    let mean = |measure| with_runs(with_interval(measure), measure, variant);
    let measured = [measure.map_or_else(absent, mean), measure.map_or_else(absent, extremes)];
    let model = predicted.then(|| optional(measure.and_then(|measure| measure.predicted), 4));
    let source = reported.then(|| optional(measure.and_then(|measure| measure.reported), 4));
    measured.into_iter().chain(model).chain(source).collect()
}

/// The best and the worst seed.
fn extremes(measure: &Measure) -> String {
    match measure.runs {
        1 => ABSENT.to_owned(),
        _ => format!("{} – {}", number(measure.min, 4), number(measure.max, 4)),
    }
}

/// Beside a mean, over how many of the runs it is, where it is not over all.
pub(super) fn with_runs(mean: String, measure: &Measure, variant: &VariantResult) -> String {
    let all = variant.seeds.len() as u64;
    if measure.runs < all { format!("{mean} ({} of {all})", measure.runs) } else { mean }
}

pub(super) fn with_interval(measure: &Measure) -> String {
    let mean = number(measure.mean, 4);
    match measure.ci95.filter(|half| half.is_finite()) {
        Some(half) => format!("{mean} ± {}", number(half, 2)),
        None => mean,
    }
}

fn figure(campaign: &CampaignResult, head: &MeasureHead) -> Figure {
    let rows: Vec<(String, &Measure)> = campaign
        .variants
        .iter()
        .filter_map(|variant| find(variant, head).map(|measure| (variant, measure)))
        .map(|(variant, measure)| (with_runs(variant_name(variant), measure, variant), measure))
        .collect();
    let finite = |value: &f64| value.is_finite();
    let values = rows.iter().flat_map(|(_, m)| {
        let half = m.ci95.unwrap_or(0.0);
        let optional = [m.predicted, m.reported].into_iter().flatten();
        // An interval that reaches below what can be, reaches no further than that.
        let least = if m.min >= 0.0 { 0.0 } else { f64::MIN };
        let most = if head.unit == "%" && m.max <= 100.0 { 100.0 } else { f64::MAX };
        let ends = [m.mean - half, m.mean + half].map(|end| end.clamp(least, most));
        ends.into_iter().chain([m.min, m.max]).chain(optional)
    });
    let (lo, hi) = values.filter(finite).fold((f64::MAX, f64::MIN), |(lo, hi), v| (lo.min(v), hi.max(v)));
    let names: Vec<String> = rows.iter().map(|(name, _)| name.clone()).collect();
    let label =
        if head.unit.is_empty() { head.name.clone() } else { format!("{} ({})", head.name, head.unit) };
    let (from, to) = range(lo, hi, head.unit == "%");
    let mut chart =
        Chart::new(&head.name, Axis::rounded(&label, from, to).with_margin(), Axis::categories("", &names));
    chart.set_height((rows.len() as f64 * ROW).max(2.0 * ROW));
    for (i, (name, measure)) in rows.iter().enumerate() {
        draw(&mut chart, -(i as f64), name, measure, head);
    }
    let interval = rows.iter().any(|(_, measure)| measure.ci95.is_some());
    chart.legend_point(MEASURED, Shape::Disc, if interval { "measured, 95 % CI" } else { "measured" });
    if head.predicted {
        chart.legend_point(PREDICTED, Shape::Diamond, "model");
    }
    if head.reported {
        chart.legend_point(REPORTED, Shape::Cross, "source");
    }
    let caption = if rows.iter().any(|(_, measure)| measure.min < measure.max) {
        "Thick: confidence interval of the mean; thin: smallest to largest over the seeds.".to_owned()
    } else {
        String::new()
    };
    let stem = slug(&head.name);
    Figure { stem, title: capitalised(&head.name), caption, chart }
}

/// Somewhat more than the values, so that no symbol is cut at the edge, and not less than a hundredth of them, so that nothing looks
/// like a difference that is none; but nothing below 0 where nothing is, and no share above 100 %.
fn range(lo: f64, hi: f64, share: bool) -> (f64, f64) {
    let margin = (0.03 * (hi - lo)).max(0.005 * hi.abs());
    let from = if lo >= 0.0 { (lo - margin).max(0.0) } else { lo - margin };
    let to = if share && hi <= 100.0 { (hi + margin).min(100.0) } else { hi + margin };
    (from, to)
}

fn draw(chart: &mut Chart, y: f64, name: &str, measure: &Measure, head: &MeasureHead) {
    let tip =
        |what: &str, value: &str| format!("{name}, {what}: {value} {}", head.unit).trim_end().to_owned();
    if measure.min < measure.max {
        chart.bar(MEASURED, "range", measure.min, measure.max, y);
    }
    if let Some(half) = measure.ci95.filter(|half| half.is_finite()) {
        chart.bar(MEASURED, "ci", measure.mean - half, measure.mean + half, y);
    }
    if measure.mean.is_finite() {
        chart.point(MEASURED, Shape::Disc, measure.mean, y, tip("measured", &with_interval(measure)));
    }
    if let Some(value) = measure.predicted.filter(|value| value.is_finite()) {
        chart.point(PREDICTED, Shape::Diamond, value, y - APART, tip("model", &number(value, 4)));
    }
    if let Some(value) = measure.reported.filter(|value| value.is_finite()) {
        chart.point(REPORTED, Shape::Cross, value, y + APART, tip("source", &number(value, 4)));
    }
}
