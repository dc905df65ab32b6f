//! Reports: what a run or a campaign found, as one HTML file that needs nothing else, its figures as SVG files, and text for
//! a terminal.
//!
//! The same result gives the same bytes: no dates, no identifiers drawn at random, and no number is formatted
//! outside one module. Everything that comes from a scenario is escaped. What was not measured, and what is not a
//! number, is a dash in a table and a gap in a figure.
//!
//! Beside each quantity over the whole run stands a stretch of it from close by: the series whose kind ends in `_zoom`
//! where there is one, otherwise some buckets after the warm-up.

mod axis;
mod campaign;
mod chart;
mod commands;
mod comparison;
mod distributions;
mod format;
mod headline;
mod legend;
mod map;
pub mod measures;
mod page;
mod panels;
mod probe;
pub mod result;
mod run;
mod run_figures;
#[cfg(test)]
mod sample;
mod saving;
mod sweep;
mod teleop;
#[cfg(test)]
mod tests;
mod text;
mod timeline;
mod transparency;
mod video;

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::result::{
    CampaignResult, ComparisonResult, MapResult, ProbeResult, RunResult, SavingResult, TransparencyResult,
};

/// The files that came of a run or a campaign.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Those that were written.
    pub files: Vec<PathBuf>,
    /// Those of an earlier run in the same folder that belonged to the report that was replaced: they are gone.
    pub removed: Vec<PathBuf>,
    /// Results of other runs in the same folder, and files of others that have names as taut's: they have nothing to do with
    /// the report there now.
    pub unrelated: Vec<PathBuf>,
}

/// How every figure's file begins.
pub const FIGURE_BEGINS: &str = chart::BEGINS;

pub use headline::campaign_table_text;
pub use text::{campaign_text, comparison_text, run_text, written_text};

/// The map of what stays calm as one SVG file.
pub fn map_figure(map: &MapResult) -> String {
    map::figure(map)
}

/// The same as tables for a terminal.
pub fn map_text(map: &MapResult) -> String {
    map::text(map)
}

/// What the hand feels, by frequency, as one SVG file.
pub fn transparency_figure(result: &TransparencyResult) -> String {
    transparency::figure(result)
}

/// The same as tables of Markdown.
pub fn transparency_text(result: &TransparencyResult) -> String {
    transparency::text(result)
}

/// How few messages a law needs, as tables of Markdown.
pub fn saving_text(result: &SavingResult) -> String {
    saving::text(result)
}

/// The report of one run: a whole HTML document, to be opened from a file, without a network.
pub fn run_html(run: &RunResult) -> String {
    run::html(run)
}

/// The report of a campaign, its variants side by side: a whole HTML document like [`run_html`].
pub fn campaign_html(campaign: &CampaignResult) -> String {
    campaign::html(campaign)
}

/// The figures of [`run_html`], each as (file name without extension, SVG document). Names are unique and consist of
/// lower case letters, digits and hyphens.
pub fn run_figures(run: &RunResult) -> Vec<(String, String)> {
    named(run_figures::groups(run).into_iter().flat_map(|group| group.figures))
}

/// The figures of [`campaign_html`], like [`run_figures`].
pub fn campaign_figures(campaign: &CampaignResult) -> Vec<(String, String)> {
    named(campaign::figures(campaign).into_iter())
}

/// The report of real runs beside simulated ones: a whole HTML document like [`run_html`].
pub fn comparison_html(comparison: &ComparisonResult) -> String {
    comparison::html(comparison)
}

/// The figures of [`comparison_html`], like [`run_figures`].
pub fn comparison_figures(comparison: &ComparisonResult) -> Vec<(String, String)> {
    named(comparison::figures(comparison).into_iter())
}

/// The report of a probe, what was recorded beside what was fitted: a whole HTML document like [`run_html`].
pub fn probe_html(probe: &ProbeResult) -> String {
    probe::html(probe)
}

fn named(figures: impl Iterator<Item = page::Figure>) -> Vec<(String, String)> {
    let mut taken = BTreeSet::new();
    let mut files = Vec::new();
    for figure in figures {
        let mut stem = figure.stem.clone();
        let mut copy = 1;
        while !taken.insert(stem.clone()) {
            copy += 1;
            stem = format!("{}-{copy}", figure.stem);
        }
        files.push((stem, figure.chart.standalone()));
    }
    files
}
