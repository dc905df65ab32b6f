//! What earlier runs left in an output folder.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use super::inputs::RunError;
use super::{EVENTS, PACKETS, SAMPLES};
use taut_report as report;
use taut_report::result::{Input, Ran};

/// What the files of a folder belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One run.
    Run,
    /// A campaign, or real runs beside simulated ones.
    Campaign,
}

/// What became of the files of earlier runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Earlier {
    /// Files that belonged to what was replaced, and are gone.
    pub(crate) removed: Vec<PathBuf>,
    /// Results of another run or campaign that are still there, and files of names that taut gives in a folder that it did
    /// not write.
    pub(crate) kept: Vec<PathBuf>,
}

/// Whose files a folder holds, before anything is written to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    run: bool,
    campaign: bool,
}

impl Owner {
    /// By the results in it: a name alone says nothing.
    pub(crate) fn of(folder: &Path) -> Self {
        let has = |name: &str| is_result(&folder.join(name));
        Self { run: has("run.json"), campaign: has("campaign.json") || has("comparison.json") }
    }
}

/// JSON that names the build of taut that wrote it.
fn is_result(path: &Path) -> bool {
    #[derive(serde::Deserialize)]
    struct Result {
        #[serde(rename = "taut")]
        _taut: String,
    }
    fs::read(path).is_ok_and(|bytes| serde_json::from_slice::<Result>(&bytes).is_ok())
}

/// After `written` was written to the folder: removes what belonged to the report that it replaced, which would pass for its
/// own, and names the results that have nothing to do with it. Only files are looked at that taut itself writes, and none
/// is removed from a folder that was not taut's before. One that this run read stays.
///
/// # Errors
/// When a file cannot be removed.
pub(crate) fn settle(
    folder: &Path,
    kind: Kind,
    before: Owner,
    written: &[PathBuf],
    read: &[Input],
) -> Result<Earlier, RunError> {
    let is_input =
        |path: &Path| read.iter().any(|input| Path::new(&input.path).file_name() == path.file_name());
    let other = |path: &PathBuf| path.is_file() && !written.contains(path) && !is_input(path);
    let named = |names: &[&str]| names.iter().map(|name| folder.join(name)).filter(other).collect::<Vec<_>>();
    let extras = named(&[PACKETS, EVENTS, SAMPLES]);
    let mut results = named(&["run.json", "campaign.json", "comparison.json"]);
    results.extend(
        children(&folder.join("runs"))
            .iter()
            .flat_map(|run| children(run))
            .filter(other)
            .filter(|path| is_run(path)),
    );
    let figures = children(&folder.join("figures")).into_iter().filter(other).filter(|path| is_figure(path));
    let (mut removed, mut kept) = (Vec::new(), Vec::new());
    // Only a run of its own writes extras; a campaign beside it does not make them its.
    let is_old = kind == Kind::Run && before.run;
    if is_old { &mut removed } else { &mut kept }.extend(extras);
    if before.run || before.campaign { &mut removed } else { &mut kept }.extend(figures);
    kept.extend(results);
    for path in &removed {
        fs::remove_file(path).map_err(|e| {
            RunError::Output(format!("{}: of an earlier run, cannot be removed: {e}", path.display()))
        })?;
    }
    Ok(Earlier { removed, kept })
}

/// What is in a folder, by name; nothing when it is none.
fn children(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// `seed-7.json`, or how it ran after the number: `seed-7-real.json`.
fn is_run(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let seed = name.strip_prefix("seed-").and_then(|rest| rest.strip_suffix(".json"));
    let seed = seed.map(|seed| seed.split_once('-').map_or((seed, None), |(seed, ran)| (seed, Some(ran))));
    seed.is_some_and(|(seed, ran)| {
        seed.parse::<u64>().is_ok() && ran.is_none_or(|ran| Ran::ALL.iter().any(|one| one.name() == ran))
    })
}

/// A figure begins as those of reports do: nobody else's drawing is touched.
fn is_figure(path: &Path) -> bool {
    let mut beginning = Vec::new();
    let file = File::open(path).map(|file| file.take(report::FIGURE_BEGINS.len() as u64));
    path.extension().is_some_and(|extension| extension == "svg")
        && file.and_then(|mut file| file.read_to_end(&mut beginning)).is_ok()
        && beginning == report::FIGURE_BEGINS.as_bytes()
}
