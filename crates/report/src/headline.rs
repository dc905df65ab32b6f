//! The measures that answer first, of every variant at a glance: one axis down, the rest across, or a row for each variant.

use super::campaign::{
    MeasureHead, are_as_named, find, limits_not_met, measures, not_measured, passes, variant_name, with_runs,
};
use super::format::{ABSENT, capitalised, escape, number, symbol_html};
use super::page::Table;
use super::text::aligned;
use crate::result::{CampaignResult, Measure, VariantResult};

/// What is asked of a session and of commands, in this order.
const FIRST: [&str; 4] =
    ["session one way p50", "session one way p99", "session arrived", "commands in time"];
/// What is asked of every stream, and of video beside it.
const OF_STREAMS: [&str; 4] = [" p99 delay", " latency p99", " frame rate", " loss"];
/// Of these, what says less than another: a frame is lost with any of its packets.
const LESS: [&str; 2] = [" packet loss", " key frame loss"];
/// Measures shown at most; the table of all has the others.
const MOST: usize = 8;

/// Where a measure comes among the figures: sessions and commands, what there is something to compare with, streams, the rest.
pub(super) fn place(name: &str, compared: bool) -> usize {
    let first = FIRST.iter().position(|first| *first == name);
    let stream = of_stream(name);
    let others = match (compared, stream) {
        (true, _) => 0,
        (false, true) => 1,
        (false, false) => 2,
    };
    first.unwrap_or(FIRST.len() + others)
}

fn of_stream(name: &str) -> bool {
    let ends = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
    ends(&OF_STREAMS) && !ends(&LESS)
}

/// The main measures that there are.
fn heads(campaign: &CampaignResult) -> Vec<MeasureHead> {
    let mut heads = measures(campaign);
    heads.retain(|head| FIRST.contains(&head.name.as_str()) || of_stream(&head.name));
    // A session's states are that stream.
    if heads.iter().any(|head| head.name.starts_with("session ")) {
        heads.retain(|head| !head.name.starts_with("forward haptic "));
    }
    heads.sort_by_key(|head| place(&head.name, false));
    heads.truncate(MOST);
    heads
}

/// Variants that are every combination of two parts of their names.
struct Matrix<'a> {
    down: Vec<&'a str>,
    across: Vec<&'a str>,
    /// Row by row.
    variants: Vec<&'a VariantResult>,
}

impl<'a> Matrix<'a> {
    /// By the first part of the names and the rest, or by all but the last part and that; the names of values may have commas
    /// of their own.
    fn of(campaign: &'a CampaignResult) -> Option<Self> {
        if !are_as_named(campaign) {
            return None;
        }
        let split = |part: fn(&'a str) -> Option<(&'a str, &'a str)>| Self::split(campaign, part);
        split(|name| name.split_once(", ")).or_else(|| split(|name| name.rsplit_once(", ")))
    }

    fn split(campaign: &'a CampaignResult, parts: fn(&'a str) -> Option<(&'a str, &'a str)>) -> Option<Self> {
        let (mut down, mut across) = (Vec::new(), Vec::new());
        for variant in &campaign.variants {
            let (first, rest) = parts(&variant.name)?;
            for (known, part) in [(&mut down, first), (&mut across, rest)] {
                if !known.contains(&part) {
                    known.push(part);
                }
            }
        }
        if down.len() < 2 || across.len() < 2 || down.len() * across.len() != campaign.variants.len() {
            return None;
        }
        // A page is longer than wide.
        let turned = across.len() > down.len();
        let at = |down: &str, across: &str| {
            let mut variants = campaign.variants.iter();
            let cell = if turned { (across, down) } else { (down, across) };
            variants.find(|variant| parts(&variant.name) == Some(cell))
        };
        if turned {
            std::mem::swap(&mut down, &mut across);
        }
        let cells = down.iter().flat_map(|row| across.iter().map(|column| at(row, column)));
        let variants = cells.collect::<Option<Vec<_>>>()?;
        Some(Self { down, across, variants })
    }

    /// `cell` of every variant, as a table.
    fn table(&self, caption: &str, cell: impl Fn(&VariantResult) -> String) -> String {
        let mut table = Table::new(caption).text("");
        for column in &self.across {
            table = table.number(&symbol_html(column), "");
        }
        for (row, variants) in self.down.iter().zip(self.variants.chunks(self.across.len())) {
            let cells = variants.iter().map(|variant| cell(variant));
            table.row(&std::iter::once(symbol_html(row)).chain(cells).collect::<Vec<_>>());
        }
        table.html()
    }
}

/// The verdicts, where there are limits, and the main measures.
pub(super) fn tables(campaign: &CampaignResult) -> String {
    let (heads, judged) = (heads(campaign), judged(campaign));
    if campaign.variants.len() < 2 || heads.is_empty() && !judged {
        return String::new();
    }
    let Some(matrix) = Matrix::of(campaign) else { return list(campaign, &heads, judged) };
    let mut html = String::new();
    if judged {
        html += &matrix.table("Every limit met, by seeds", verdict_html);
    }
    for head in heads {
        let unit = if head.unit.is_empty() { String::new() } else { format!(" ({})", escape(&head.unit)) };
        let caption = format!("{}{unit}, mean over the seeds", symbol_html(&capitalised(&head.name)));
        html += &matrix.table(&caption, |variant| value(variant, &head));
    }
    html
}

fn judged(campaign: &CampaignResult) -> bool {
    campaign.variants.iter().any(|variant| !variant.limits.is_empty())
}

fn list(campaign: &CampaignResult, heads: &[MeasureHead], judged: bool) -> String {
    let mut table = Table::new("").text("variant");
    if judged {
        table = table.text("limits met");
    }
    for head in heads {
        table = table.number(&symbol_html(&head.name), &head.unit);
    }
    for variant in &campaign.variants {
        let verdict = judged.then(|| verdict_html(variant));
        let values = heads.iter().map(|head| value(variant, head));
        let name = std::iter::once(symbol_html(&variant_name(variant)));
        table.row(&name.chain(verdict).chain(values).collect::<Vec<_>>());
    }
    table.html()
}

fn verdict_html(variant: &VariantResult) -> String {
    let class = match (variant.limits.is_empty(), passes(variant)) {
        (true, _) => return ABSENT.to_owned(),
        (false, true) => "yes",
        (false, false) => "no",
    };
    format!("<span class=\"{class}\">{} of {}</span>", variant.met, variant.seeds.len())
}

fn value(variant: &VariantResult, head: &MeasureHead) -> String {
    let mean = |measure: &Measure| with_runs(number(measure.mean, 3), measure, variant);
    find(variant, head).map_or_else(|| ABSENT.to_owned(), mean)
}

/// A campaign in a line for each variant: its verdict and the main measures.
pub fn campaign_table_text(campaign: &CampaignResult) -> String {
    let heads = heads(campaign);
    let shown = |head: &MeasureHead| {
        let short = head.name.strip_prefix("session ").unwrap_or(&head.name);
        format!("{short} {}", head.unit).trim_end().to_owned()
    };
    let mut head = vec![String::new(), "verdict".to_owned()];
    head.extend(heads.iter().map(shown));
    let row = |variant: &VariantResult| {
        let verdict = match (variant.limits.is_empty(), passes(variant)) {
            (true, _) => ABSENT.to_owned(),
            (false, true) => "PASS".to_owned(),
            (false, false) => {
                format!("FAIL {} of {}", variant.seeds.len() as u64 - variant.met, variant.seeds.len())
            }
        };
        let values = heads.iter().map(|head| value(variant, head));
        [variant_name(variant), verdict].into_iter().chain(values).collect()
    };
    let rows: Vec<Vec<String>> = campaign.variants.iter().map(row).collect();
    let failed: String = limits_not_met(campaign).iter().map(|limit| format!("  {limit}\n")).collect();
    let failed = if failed.is_empty() { failed } else { format!("\nlimits that are not met\n{failed}") };
    let note = "means over the seeds; --verbose has every measure and every limit that is not met, --out DIR a report";
    let table = stacked(&head, &rows);
    let absent: String = not_measured(campaign).iter().map(|line| format!("{line}\n")).collect();
    format!("{} ({} s a run)\n\n{table}{failed}\n{absent}{note}\n", campaign.title, campaign.duration_s)
}

/// Columns of a text table at most, unless a single one needs more.
const WIDEST: usize = 100;
/// Characters of a line of a head, unless a word is longer.
const HEAD: usize = 10;

/// A table. Where it is too wide its head is broken between words, so that its columns are narrow; where they do not fit side by side all
/// the same, the rest stands below, with the first column again.
fn stacked(head: &[String], rows: &[Vec<String>]) -> String {
    let plain = aligned(&std::iter::once(head.to_vec()).chain(rows.iter().cloned()).collect::<Vec<_>>());
    if plain.lines().all(|line| line.chars().count() <= WIDEST) {
        return plain;
    }
    let heads: Vec<Vec<String>> = head.iter().map(|head| broken(head)).collect();
    let width = |column: usize| {
        let cells = rows.iter().map(|row| &row[column]).chain(&heads[column]);
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let (mut blocks, mut used): (Vec<Vec<usize>>, usize) = (vec![vec![0]], 0);
    for column in 1..head.len() {
        let needs = width(column) + 2;
        match blocks.last_mut() {
            Some(block) if block.len() == 1 || used + needs <= WIDEST => {
                if block.len() == 1 {
                    used = width(0) + 2;
                }
                used += needs;
                block.push(column);
            }
            _ => {
                used = width(0) + 2 + needs;
                blocks.push(vec![0, column]);
            }
        }
    }
    let block = |columns: &Vec<usize>| {
        let lines = columns.iter().map(|column| heads[*column].len()).max().unwrap_or(0);
        // The last lines of all heads stand above the values.
        let line = |line: usize| {
            let cell = |column: &usize| {
                let head = &heads[*column];
                (line + head.len()).checked_sub(lines).map_or_else(String::new, |at| head[at].clone())
            };
            columns.iter().map(cell).collect()
        };
        let row = |row: &Vec<String>| columns.iter().map(|column| row[*column].clone()).collect();
        aligned(&(0..lines).map(line).chain(rows.iter().map(row)).collect::<Vec<_>>())
    };
    blocks.iter().map(block).collect::<Vec<_>>().join("\n")
}

/// Lines of words, none longer than it must be.
fn broken(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= HEAD => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use crate::result::LimitTally;

    /// The variants of a sample, so named, the n-th with n as the mean of what is its first measure.
    fn named(names: &[&str], measure: &str) -> CampaignResult {
        let mut campaign = sample::campaign();
        let first = campaign.variants[0].clone();
        let variant = |(n, name): (usize, &&str)| {
            let mut variant = VariantResult { name: (*name).to_owned(), ..first.clone() };
            variant.measures.truncate(1);
            (variant.measures[0].name, variant.measures[0].mean) = (measure.to_owned(), n as f64);
            variant
        };
        campaign.variants = names.iter().enumerate().map(variant).collect();
        campaign
    }

    #[test]
    fn variants_of_two_axes_are_a_matrix_with_the_longer_axis_down() {
        let campaign =
            named(&["UDP, a", "UDP, b", "UDP, c", "TCP, a", "TCP, b", "TCP, c"], "session one way p99");
        let matrix = Matrix::of(&campaign).unwrap();
        assert_eq!((&matrix.down[..], &matrix.across[..]), (&["a", "b", "c"][..], &["UDP", "TCP"][..]));
        let html = tables(&campaign);
        assert_eq!(html.matches("<table>").count(), 2, "verdicts and one measure: {html}");
        assert!(
            html.contains("<th scope=\"row\">b</th><td class=\"n\">1</td><td class=\"n\">4</td>"),
            "{html}"
        );
        assert!(html.contains("20 of 20"), "{html}");
    }

    #[test]
    fn variants_that_are_not_what_their_names_say_have_a_row_each_that_says_so() {
        let mut campaign = named(&["UDP, a", "UDP, b", "TCP, a", "TCP, b"], "commands in time");
        campaign.variants[2].overridden = vec!["commands.transport".to_owned()];
        assert!(Matrix::of(&campaign).is_none());
        assert!(tables(&campaign).contains("TCP, a (but for commands.transport)"));
    }

    #[test]
    fn a_value_with_a_comma_of_its_own_does_not_break_the_matrix() {
        let names = ["UDP, one path, a", "UDP, one path, b", "MTIP, a", "MTIP, b"];
        let matrix = named(&names, "commands in time");
        let matrix = Matrix::of(&matrix).unwrap();
        assert_eq!((&matrix.down[..], &matrix.across[..]), (&["UDP, one path", "MTIP"][..], &["a", "b"][..]));
    }

    #[test]
    fn variants_that_are_no_matrix_have_a_row_each() {
        let campaign = named(&["UDP, a", "TCP", "QUIC"], "backward haptic loss");
        assert!(Matrix::of(&campaign).is_none());
        let html = tables(&campaign);
        assert_eq!(
            (html.matches("<table>").count(), html.matches("<th scope=\"row\">").count()),
            (1, 3),
            "{html}"
        );
        let text = campaign_table_text(&campaign);
        let line = text.lines().find(|line| line.starts_with("  QUIC")).unwrap();
        assert_eq!(line.split_whitespace().collect::<Vec<_>>(), ["QUIC", "PASS", "2"]);
    }

    #[test]
    fn a_table_of_text_is_no_wider_than_a_terminal() {
        let mut head = vec![String::new(), "verdict".to_owned()];
        head.extend((0..8).map(|n| format!("backward haptic p99 delay of path {n} ms")));
        let row = |name: &str| {
            let values = (0..8).map(|n| format!("{n}234.5"));
            [name.to_owned(), "FAIL 3 of 20".to_owned()].into_iter().chain(values).collect::<Vec<_>>()
        };
        let text = stacked(&head, &[row("a"), row("a variant of a name that takes half of all the columns")]);
        assert!(text.lines().all(|line| line.chars().count() <= WIDEST + 2), "{text}");
        for value in (0..8).map(|n| format!("{n}234.5")) {
            assert_eq!(text.matches(&value).count(), 2, "{text}");
        }
        assert_eq!(text.lines().filter(|line| line.starts_with("  a variant")).count(), 3, "{text}");
        let plain = stacked(&head[..3], &[row("a")[..3].to_vec()]);
        assert_eq!(plain.lines().count(), 2, "what fits has its head in a line: {plain}");
        assert_eq!(broken("backward haptic p99 delay ms"), ["backward", "haptic p99", "delay ms"]);
    }

    #[test]
    fn a_campaign_says_which_limits_are_not_met_in_how_many_runs_and_how_badly() {
        let mut campaign = named(&["UDP", "TCP"], "backward haptic loss");
        let tally = |failed, worst, worst_seed| LimitTally {
            stream: "backward haptic".to_owned(),
            quantity: "delay".to_owned(),
            unit: "ms".to_owned(),
            limit: 30.0,
            failed,
            not_judged: 0,
            worst: Some(worst),
            worst_seed,
        };
        campaign.variants[0].limits = vec![tally(0, 20.0, 7)];
        campaign.variants[1].limits =
            vec![tally(3, 41.25, 9), LimitTally { quantity: "loss".to_owned(), ..tally(0, 1.0, 1) }];
        campaign.variants[1].met = 17;
        let line =
            "backward haptic delay: not met in 3 of 40 runs, at worst 41.25 ms (TCP, seed 9); limit 30 ms";
        assert_eq!(limits_not_met(&campaign), [line]);
        assert!(campaign_table_text(&campaign).contains(&format!("limits that are not met\n  {line}\n")));
        campaign.variants.remove(0);
        let line = "backward haptic delay: not met in 3 of 20 runs, at worst 41.25 ms (seed 9); limit 30 ms";
        assert_eq!(limits_not_met(&campaign), [line]);
    }

    #[test]
    fn what_is_asked_first_is_drawn_first() {
        let mut names =
            ["session late", "session arrived", "session one way p99", "forward haptic loss", "x"];
        names.sort_by_key(|name| place(name, *name == "x"));
        assert_eq!(
            names,
            ["session one way p99", "session arrived", "x", "forward haptic loss", "session late"]
        );
    }
}
