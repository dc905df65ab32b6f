//! What a user asks for: one run or many, and the files that come of it.

use std::path::{Path, PathBuf};

use taut_core::Seed;

use crate::campaign::{CampaignRun, campaign};
use crate::report;
use crate::result::{CampaignResult, RunResult};
use crate::run::{Extras, Inputs, Output, RunError, run_with};
use crate::scenario::{Scenario, Variant, unreadable};

/// Runs one scenario without variants with one seed; with a folder, writes `run.json`, `report.html`, the figures and the
/// extras there, all or none of them.
///
/// # Errors
/// See [`RunError`].
pub fn single(
    scenario: &Scenario,
    seed: Seed,
    extras: Extras,
    folder: Option<&Path>,
    progress: &mut dyn FnMut(f64),
) -> Result<(RunResult, Vec<PathBuf>), RunError> {
    let mut output = folder.map(Output::new).transpose()?;
    let result = run_with(scenario, seed, extras, output.as_mut(), progress)?;
    let Some(mut output) = output else { return Ok((result, Vec::new())) };
    output.write("run.json", &run_json(&result)?)?;
    output.write("report.html", report::run_html(&result).as_bytes())?;
    for (name, svg) in report::run_figures(&result) {
        output.write(&format!("figures/{name}.svg"), svg.as_bytes())?;
    }
    let files = output.commit()?;
    Ok((result, files))
}

/// Runs every variant with every seed; with a folder, writes `campaign.json`, `report.html`, the figures and every run's
/// `run.json` (without its series) there, all or none of them.
///
/// # Errors
/// See [`RunError`].
pub fn many(
    scenario: &Scenario,
    variants: &[(Variant, Scenario)],
    seeds: &[u64],
    folder: Option<&Path>,
    progress: &(dyn Fn(f64) + Sync),
) -> Result<(CampaignResult, Vec<PathBuf>), RunError> {
    let output = folder.map(Output::new).transpose()?;
    let (result, runs) = campaign(scenario, variants, seeds, progress)?;
    let Some(mut output) = output else { return Ok((result, Vec::new())) };
    output.write("campaign.json", &json(&result)?)?;
    output.write("report.html", report::campaign_html(&result).as_bytes())?;
    for (name, svg) in report::campaign_figures(&result) {
        output.write(&format!("figures/{name}.svg"), svg.as_bytes())?;
    }
    for CampaignRun { variant, result: run } in &runs {
        let name = slug(*variant, &result.variants[*variant].name);
        output.write(&format!("runs/{name}/seed-{}.json", run.seed), &run_json(run)?)?;
    }
    let files = output.commit()?;
    Ok((result, files))
}

/// What a replay found.
#[derive(Clone, Debug, PartialEq)]
pub struct Replay {
    /// The run again.
    pub result: RunResult,
    /// Its `run.json` is the recorded one, byte for byte.
    pub identical: bool,
    /// The files that were written.
    pub files: Vec<PathBuf>,
}

/// Runs what a `run.json` says again and compares.
///
/// # Errors
/// When it is not a `run.json`, or a file that the run read is not the same any more.
pub fn replay(path: &Path, folder: Option<&Path>, progress: &mut dyn FnMut(f64)) -> Result<Replay, RunError> {
    let error = |what: String| RunError::Scenario(format!("{}: {what}", path.display()));
    let bytes = std::fs::read(path).map_err(|e| error(unreadable(&e)))?;
    let recorded: RunResult =
        serde_json::from_slice(&bytes).map_err(|e| error(format!("is not the run.json of a run: {e}")))?;
    let scenario = Scenario::parse(&format!("{} (scenario)", path.display()), &recorded.scenario)
        .map_err(RunError::scenario)?;
    let mut inputs = Inputs::default();
    for input in &recorded.inputs {
        inputs.read(&input.path).map_err(|e| e.within(path))?;
        if !inputs.list().contains(input) {
            return Err(error(format!(
                "{} is not the file that the run read: its SHA-256 differs",
                input.path
            )));
        }
    }
    let (mut result, files) =
        single(&scenario, Seed::new(recorded.seed), Extras::default(), folder, progress)
            .map_err(|e| e.within(path))?;
    if recorded.series.is_empty() {
        // A run of a campaign is kept without them.
        result.series.clear();
    }
    let identical = run_json(&result)? == bytes;
    Ok(Replay { result, identical, files })
}

/// The content of a `run.json`.
///
/// # Errors
/// Never in practice: a result is plain data.
pub fn run_json(result: &RunResult) -> Result<Vec<u8>, RunError> {
    json(result)
}

fn json<T: serde::Serialize>(value: &T) -> Result<Vec<u8>, RunError> {
    let mut bytes = serde_json::to_vec_pretty(value).map_err(RunError::output)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// A folder's name for a variant.
fn slug(index: usize, name: &str) -> String {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric() && c != '.').filter(|word| !word.is_empty());
    let joined = words.collect::<Vec<_>>().join("-").to_lowercase();
    if joined.is_empty() { format!("{:02}", index + 1) } else { format!("{:02}-{joined}", index + 1) }
}
