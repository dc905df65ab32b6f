//! What a user asks for: one run or many, and the files that come of it.

use std::path::{Path, PathBuf};

use taut_core::Seed;

use crate::campaign::{self, Campaign, CampaignRun};
use crate::run::{Extras, Inputs, Kind, Output, Owner, RunError, run, run_reading, settle};
use crate::scenario::{Scenario, Variant, unreadable};
use taut_report::result::{CampaignResult, ComparedRun, ComparisonResult, Input, Ran, RunResult};
use taut_report::{self as report, Written};

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
) -> Result<(RunResult, Written), RunError> {
    single_reading(Inputs::default(), scenario, seed, extras, folder, progress)
}

fn single_reading(
    inputs: Inputs,
    scenario: &Scenario,
    seed: Seed,
    extras: Extras,
    folder: Option<&Path>,
    progress: &mut dyn FnMut(f64),
) -> Result<(RunResult, Written), RunError> {
    let mut output = folder.map(Output::new).transpose()?;
    let result = run_reading(inputs, scenario, seed, extras, output.as_mut(), progress)?;
    let Some(mut output) = output else { return Ok((result, Written::default())) };
    output.write("run.json", &run_json(&result)?)?;
    output.write("report.html", report::run_html(&result).as_bytes())?;
    for (name, svg) in report::run_figures(&result) {
        output.write(&format!("figures/{name}.svg"), svg.as_bytes())?;
    }
    let written = commit(output, Kind::Run, &result.inputs)?;
    Ok((result, written))
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
) -> Result<(CampaignResult, Written), RunError> {
    let campaign = Campaign::new(scenario, variants, seeds)?;
    let output = folder.map(Output::new).transpose()?;
    let runs = campaign.run_all(progress)?;
    let result = campaign.sum_up(&runs)?;
    let written = output.map(|output| write_campaign(output, &result, &runs)).transpose()?;
    Ok((result, written.unwrap_or_default()))
}

/// Writes into a folder what [`many`] does, of runs that were made elsewhere.
///
/// # Errors
/// When a file cannot be written.
pub fn write_runs(folder: &Path, result: &CampaignResult, runs: &[CampaignRun]) -> Result<Written, RunError> {
    write_campaign(Output::new(folder)?, result, runs)
}

fn write_campaign(
    mut output: Output,
    result: &CampaignResult,
    runs: &[CampaignRun],
) -> Result<Written, RunError> {
    output.write("campaign.json", &campaign_json(result)?)?;
    output.write("report.html", report::campaign_html(result).as_bytes())?;
    for (name, svg) in report::campaign_figures(result) {
        output.write(&format!("figures/{name}.svg"), svg.as_bytes())?;
    }
    for CampaignRun { variant, result: run, .. } in runs {
        let name = slug(*variant, &result.variants[*variant].name);
        output.write(&format!("runs/{name}/seed-{}.json", run.seed), &run_json(run)?)?;
    }
    let inputs: Vec<Input> = runs.iter().flat_map(|run| run.result.inputs.iter().cloned()).collect();
    commit(output, Kind::Campaign, &inputs)
}

/// Moves a report that was written elsewhere to this folder, all of its files or none, as [`compare`] writes them.
///
/// # Errors
/// When a file cannot be read or written.
pub fn lay(from: &Path, folder: &Path) -> Result<Written, RunError> {
    let mut output = Output::new(folder)?;
    let mut folders = vec![PathBuf::new()];
    while let Some(inner) = folders.pop() {
        let failed = |e: std::io::Error| RunError::Output(format!("{}: {e}", from.join(&inner).display()));
        for entry in std::fs::read_dir(from.join(&inner)).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = inner.join(entry.file_name());
            if entry.file_type().map_err(failed)?.is_dir() {
                folders.push(name);
            } else {
                output.write(&name.to_string_lossy(), &std::fs::read(entry.path()).map_err(failed)?)?;
            }
        }
    }
    commit(output, Kind::Campaign, &[])
}

/// Runs one variant over real sockets, telling its progress: what is real is for the caller to know. The inner error: it is refused,
/// with all of its seeds, and the others go on.
pub type RealRun<'a, E> =
    dyn FnMut(&Variant, &Scenario, Seed, &mut dyn FnMut(f64)) -> Result<Result<RunResult, E>, E> + 'a;

/// Runs every variant with every seed by `real`, one after the other, each after its simulated twin when there shall be
/// `twins`; with a folder, writes `comparison.json`, `report.html`, the figures and every run there, as
/// `runs/VARIANT/seed-N-simulated.json` and `seed-N-real.json`, all or none of them.
///
/// # Errors
/// See [`RunError`]; the first of `real`'s. Where it refuses every variant, why the first was refused.
pub fn compare<E: From<RunError>>(
    scenario: &Scenario,
    variants: &[(Variant, Scenario)],
    seeds: &[u64],
    twins: bool,
    folder: Option<&Path>,
    real: &mut RealRun<'_, E>,
    progress: &dyn Fn(f64),
) -> Result<(ComparisonResult, Written), E> {
    campaign::check_seeds(seeds).map_err(RunError::Scenario)?;
    let mut output = folder.map(Output::new).transpose()?;
    let (mut runs, mut inputs) = (Vec::new(), Vec::new());
    let (mut refused, count) = (None, (variants.len() * seeds.len()) as f64);
    for (i, (variant, scenario)) in variants.iter().enumerate() {
        let each = seeds.iter().enumerate().map(|(place, &number)| {
            let (seed, before) = (Seed::new(number), (i * seeds.len() + place) as f64);
            let twin = twins.then(|| run(scenario, seed, &mut |_| {})).transpose()?;
            let tell = &mut |fraction| progress((before + fraction) / count);
            Ok(real(variant, scenario, seed, tell)?.map(|result| (number, twin, result)))
        });
        let ran = match each.collect::<Result<Result<Vec<_>, E>, E>>()? {
            Ok(ran) => ran,
            Err(error) => {
                refused.get_or_insert(error);
                continue;
            }
        };
        for (number, twin, result) in ran {
            if let Some(output) = &mut output {
                let folder = format!("runs/{}", slug(i, &variant.name));
                for run in twin.iter().chain([&result]) {
                    let name = format!("{folder}/seed-{number}-{}.json", run.ran.name());
                    output.write(&name, &run_json(run)?)?;
                }
            }
            inputs.extend(result.inputs.iter().cloned());
            let one = ComparedRun::new(&variant.name, twin.as_ref(), &result);
            runs.push(ComparedRun { overridden: variant.overridden.clone(), ..one });
        }
    }
    if let (true, Some(error)) = (runs.is_empty(), refused) {
        return Err(error);
    }
    let result = ComparisonResult {
        taut: env!("CARGO_PKG_VERSION").to_owned(),
        title: scenario.title.clone(),
        description: scenario.description.clone(),
        runs,
    };
    let Some(mut output) = output else { return Ok((result, Written::default())) };
    output.write("comparison.json", &result.to_json().map_err(RunError::output)?)?;
    output.write("report.html", report::comparison_html(&result).as_bytes())?;
    for (name, svg) in report::comparison_figures(&result) {
        output.write(&format!("figures/{name}.svg"), svg.as_bytes())?;
    }
    let written = commit(output, Kind::Campaign, &inputs)?;
    Ok((result, written))
}

/// Puts the files in their places, and sees to those that were there before.
fn commit(output: Output, kind: Kind, read: &[Input]) -> Result<Written, RunError> {
    let folder = output.folder().to_owned();
    let before = Owner::of(&folder);
    let files = output.commit()?;
    let earlier = settle(&folder, kind, before, &files, read)?;
    Ok(Written { files, removed: earlier.removed, unrelated: earlier.kept })
}

/// What a replay found.
#[derive(Clone, Debug, PartialEq)]
pub struct Replay {
    /// The run again.
    pub result: RunResult,
    /// Its `run.json` is the recorded one, byte for byte.
    pub identical: bool,
    /// The version of taut that made the recorded one.
    pub taut: String,
    /// The files that were written.
    pub written: Written,
}

/// Runs what a `run.json` says again and compares.
///
/// The files that the run read are named relative to where it was started. They are looked for in `from`; without it,
/// where we are and then in every folder above the `run.json`. Their SHA-256 says whether they are the right ones.
///
/// # Errors
/// When it is not a `run.json`, or a file that the run read cannot be found or is not the same any more.
pub fn replay(
    path: &Path,
    from: Option<&Path>,
    folder: Option<&Path>,
    progress: &mut dyn FnMut(f64),
) -> Result<Replay, RunError> {
    let error = |what: String| RunError::Scenario(format!("{}: {what}", path.display()));
    let bytes = std::fs::read(path).map_err(|e| match path.join("run.json") {
        inside if inside.exists() => error(format!("this is a folder; `taut replay {}`", inside.display())),
        _ => error(unreadable(&e)),
    })?;
    let recorded: RunResult = RunResult::from_json(&bytes).map_err(|e| error(not_a_run(path, &bytes, &e)))?;
    if recorded.teleop.as_ref().is_some_and(|teleop| !teleop.own_devices.is_empty()) {
        return Err(error("was run with devices of a program's own: run that program again".to_owned()));
    }
    if recorded.ran != Ran::Simulated {
        return Err(error("was run over real sockets, which no run does alike again".to_owned()));
    }
    let scenario = Scenario::parse(&format!("{} (scenario)", path.display()), &recorded.scenario)
        .map_err(RunError::scenario)?;
    let inputs = found(path, from, &recorded.inputs).map_err(error)?;
    let seed = Seed::new(recorded.seed);
    let (mut result, written) = single_reading(inputs, &scenario, seed, Extras::default(), folder, progress)
        .map_err(|e| e.within(path))?;
    if recorded.series.is_empty() {
        // A run of a campaign is kept without them.
        result.series.clear();
    }
    let identical = run_json(&result)? == bytes;
    Ok(Replay { result, identical, taut: recorded.taut, written })
}

/// What the file is instead of a `run.json`, and which command it is for.
fn not_a_run(path: &Path, bytes: &[u8], error: &serde_json::Error) -> String {
    if CampaignResult::from_json(bytes).is_ok() {
        let runs = path.parent().unwrap_or(Path::new("")).join("runs");
        let one = first_file(&runs).unwrap_or_else(|| runs.join("…"));
        return format!(
            "is the result of a campaign; replay one of its runs: `taut replay {}`",
            one.display()
        );
    }
    let table = std::str::from_utf8(bytes).ok().and_then(|text| text.parse::<toml::Table>().ok());
    if table.is_some_and(|table| table.contains_key("links")) {
        return format!("is a scenario, not the run.json of a run; `taut run {}` runs it", path.display());
    }
    format!("is not the run.json of a run: {error}")
}

/// The first file in a folder of folders, by name.
fn first_file(folder: &Path) -> Option<PathBuf> {
    let first = |folder: &Path| std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path()).min();
    first(&first(folder)?)
}

/// The files that a run read, each the one that it read, from the first folder that has all of them.
fn found(path: &Path, from: Option<&Path>, wanted: &[Input]) -> Result<Inputs, String> {
    let here = Path::new("").to_owned();
    let folders: Vec<PathBuf> = match from {
        Some(from) => vec![from.to_owned()],
        None => {
            let path = std::path::absolute(path).map_err(|e| e.to_string())?;
            std::iter::once(here).chain(path.ancestors().skip(1).map(Path::to_owned)).collect()
        }
    };
    let mut fault: Option<String> = None;
    for folder in folders {
        let mut inputs = Inputs::relative_to(folder);
        match wanted.iter().try_for_each(|input| check(&mut inputs, input)) {
            Ok(()) => return Ok(inputs),
            // A file that was changed says more than one that is not there.
            Err(Missing::Changed(what)) => _ = fault.get_or_insert(what),
            Err(Missing::Absent) => {}
        }
    }
    Err(fault.unwrap_or_else(|| {
        let names: Vec<&str> = wanted.iter().map(|input| input.path.as_str()).collect();
        format!(
            "cannot find {}, which the run read; name the folder where the run was started: --from DIR",
            names.join(", ")
        )
    }))
}

/// Why a folder is not the one.
enum Missing {
    Absent,
    Changed(String),
}

fn check(inputs: &mut Inputs, wanted: &Input) -> Result<(), Missing> {
    inputs.read(&wanted.path).map_err(|_| Missing::Absent)?;
    if inputs.list().contains(wanted) {
        return Ok(());
    }
    Err(Missing::Changed(format!("{} is not the file that the run read: its SHA-256 differs", wanted.path)))
}

/// The content of a `run.json`.
///
/// # Errors
/// Never in practice: a result is plain data.
pub fn run_json(result: &RunResult) -> Result<Vec<u8>, RunError> {
    result.to_json().map_err(RunError::output)
}

/// What `campaign.json` holds of a campaign.
///
/// # Errors
/// Never in practice: a result is plain data.
pub fn campaign_json(result: &CampaignResult) -> Result<Vec<u8>, RunError> {
    result.to_json().map_err(RunError::output)
}

/// A folder's name for a variant.
fn slug(index: usize, name: &str) -> String {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric() && c != '.').filter(|word| !word.is_empty());
    let joined = words.collect::<Vec<_>>().join("-").to_lowercase();
    if joined.is_empty() { format!("{:02}", index + 1) } else { format!("{:02}-{joined}", index + 1) }
}
