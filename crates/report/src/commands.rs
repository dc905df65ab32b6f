//! A flow of commands over one path or several: as rows of a table, and as a section of the page.

use super::format::{count, escape, number};
use super::measures;
use super::page::{self, Table};
use crate::result::{ChoicesResult, CommandsResult, PathResult, radio_mj};

/// The section of the page; nothing where the scenario has no commands.
pub(super) fn html(commands: Option<&CommandsResult>) -> String {
    let Some(commands) = commands else { return String::new() };
    let title = format!("Commands over {}", escape(&commands.transport));
    page::measures(&title, measures::of_commands(commands)) + &choices(commands) + &paths(commands)
}

/// What each path carried in the whole run, and what that costs a radio at the sender.
fn paths(commands: &CommandsResult) -> String {
    let title = "What each path carried; the sender's radio spends 0.438 J on a megabit sent and 0.052 J on one received, as LTE \
                 does (Huang et al., MobiSys 2012), beside what being awake costs";
    let mut table = Table::new(title).group("", 1).group("there", 2).group("back", 2).group("sender", 1);
    table = table.text("path").number("packets", "").number("sum", "kB").number("packets", "");
    table = table.number("sum", "kB").number("radio", "mJ");
    let total = |paths: &[PathResult]| {
        paths.iter().fold(PathResult::default(), |sum, path| PathResult {
            packets: sum.packets + path.packets,
            bytes: sum.bytes + path.bytes,
        })
    };
    let mut row = |name: &str, there: PathResult, back: PathResult| {
        table.row(&[
            name.to_owned(),
            count(there.packets),
            number(there.bytes as f64 / 1e3, 4),
            count(back.packets),
            number(back.bytes as f64 / 1e3, 4),
            number(radio_mj(there.bytes, back.bytes), 4),
        ]);
    };
    for (path, (there, back)) in commands.there.iter().zip(&commands.back).enumerate() {
        row(&path.to_string(), *there, *back);
    }
    row("all", total(&commands.there), total(&commands.back));
    table.html()
}

/// How messages were spread over paths, and why.
fn choices(commands: &CommandsResult) -> String {
    let Some(choices) = &commands.choices else { return String::new() };
    let title = format!("Why messages took the paths they took: {}", choices.in_words());
    let mut table = Table::new(&escape(&title)).text("reason").number("choices", "").number("copies", "");
    for (reason, chosen) in &choices.reasons {
        table.row(&[reason.replace('_', " "), count(chosen.choices), count(chosen.copies)]);
    }
    table.html()
}

fn choices_rows(choices: &ChoicesResult) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for (place, messages) in choices.at_once.iter().enumerate() {
        let (paths, plural) = (place + 1, if place == 0 { "" } else { "s" });
        rows.push(vec![format!("on {paths} path{plural} at once"), format!("{messages} messages")]);
    }
    for (reason, chosen) in &choices.reasons {
        let what = format!("{} choices", chosen.choices);
        let reason = format!("chosen: {}", reason.replace('_', " "));
        rows.push(vec![reason, what, format!("{} copies", chosen.copies)]);
    }
    rows
}

/// What it found: a heading, and rows.
pub(super) fn text_table(commands: &CommandsResult) -> (String, Vec<Vec<String>>) {
    let mut rows = measures::in_text(measures::of_commands(commands));
    rows.extend(commands.choices.iter().flat_map(choices_rows));
    (format!("commands over {}", commands.transport), rows)
}
