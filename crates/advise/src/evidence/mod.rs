//! What was measured, kept so that a recommendation can cite it: a line for each variant of a campaign, with the conditions
//! of its network, its worst figures over the seeds, and a digest by which anyone can tell whether a run made today still
//! says the same.

mod condition;
mod figures;
mod network;
mod paths;
mod resources;

use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub use condition::{Carrier, Condition};
pub use figures::{Figures, Way};
pub use paths::{PathEvidence, PathPoint};
pub use resources::{ResourceEvidence, Resources};

use taut_lab::campaign::Campaign;
use taut_lab::scenario::{Scenario, Variant};
use taut_report::result::RunResult;

/// The evidence that taut was built with: `make evidence` writes it anew.
const SHIPPED: &str = include_str!("../../evidence/transports.json");

/// Everything that was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// The version of taut that measured.
    pub taut: String,
    /// One set for each campaign.
    pub sets: Vec<EvidenceSet>,
}

/// What one campaign found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EvidenceSet {
    /// The scenario's file, from the top of the repository: `"scenarios/recommend/grid.toml"`. Empty: it was not kept.
    pub scenario: String,
    /// The SHA-256 of that file, hexadecimal.
    pub sha256: String,
    /// The scenario's title.
    pub title: String,
    /// The seeds of every variant.
    pub seeds: Vec<u64>,
    /// A point for each variant.
    pub points: Vec<Point>,
}

/// What one variant of a scenario found over its seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The variant's name.
    pub variant: String,
    /// What carried the session.
    pub carrier: Carrier,
    /// Over which network.
    pub condition: Condition,
    /// What was measured, at worst.
    pub figures: Figures,
    /// Of everything that was counted in the runs, seed by seed, at full precision: 16 hexadecimal digits of its SHA-256.
    pub digest: String,
}

/// Why evidence cannot be read or made.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct EvidenceError(String);

impl Evidence {
    /// What taut was built with.
    ///
    /// # Errors
    /// When the file that it was built with is not evidence.
    pub fn shipped() -> Result<Self, EvidenceError> {
        Self::parse("crates/advise/evidence/transports.json", SHIPPED)
    }

    /// From the text of a file.
    ///
    /// # Errors
    /// When it is not evidence.
    pub fn parse(name: &str, text: &str) -> Result<Self, EvidenceError> {
        serde_json::from_str(text)
            .map_err(|e| EvidenceError(format!("{name} is not evidence: {e}; `taut evidence` makes it")))
    }

    /// Runs every variant of each scenario with every seed, and keeps what they found.
    ///
    /// # Errors
    /// A scenario that cannot be read or run, or whose network is more than a [`Condition`] says.
    pub fn measure(
        files: &[impl AsRef<Path>],
        seeds: &[u64],
        progress: &(dyn Fn(f64) + Sync),
    ) -> Result<Self, EvidenceError> {
        let mut sets = Vec::new();
        for (i, file) in files.iter().enumerate() {
            let count = files.len() as f64;
            let told = |fraction: f64| progress((i as f64 + fraction) / count);
            sets.push(EvidenceSet::measure(file.as_ref(), seeds, &told)?);
        }
        Ok(Self { taut: env!("CARGO_PKG_VERSION").to_owned(), sets })
    }

    /// As JSON, a line for each point, so that a difference shows in review.
    ///
    /// # Errors
    /// Never in practice: it is plain data.
    pub fn to_json(&self) -> Result<String, EvidenceError> {
        let mut text = format!("{{\"taut\":{},\"sets\":[\n", json(&self.taut)?);
        for (i, set) in self.sets.iter().enumerate() {
            let comma = if i == 0 { "" } else { ",\n" };
            let (scenario, sha256) = (json(&set.scenario)?, json(&set.sha256)?);
            let (title, seeds) = (json(&set.title)?, json(&set.seeds)?);
            text += &format!(
                "{comma}{{\"scenario\":{scenario},\"sha256\":{sha256},\"title\":{title},\"seeds\":{seeds},\"points\":[\n"
            );
            let points: Result<Vec<String>, _> = set.points.iter().map(json).collect();
            text += &points?.join(",\n");
            text += "\n]}";
        }
        Ok(text + "\n]}\n")
    }
}

fn json<T: Serialize>(value: &T) -> Result<String, EvidenceError> {
    serde_json::to_string(value).map_err(|e| EvidenceError(e.to_string()))
}

impl EvidenceSet {
    fn measure(file: &Path, seeds: &[u64], progress: &(dyn Fn(f64) + Sync)) -> Result<Self, EvidenceError> {
        let name = file.display().to_string();
        let wrong = |what: String| EvidenceError(format!("{name}: {what}"));
        let sha256 = sha256_of(file).map_err(wrong)?;
        let scenario = Scenario::read(file).map_err(|e| EvidenceError(e.to_string()))?;
        let points = points(&scenario, seeds, progress).map_err(wrong)?;
        Ok(Self { scenario: name, sha256, title: scenario.title, seeds: seeds.to_vec(), points })
    }

    /// Runs one variant again. The point as it is measured now.
    ///
    /// # Errors
    /// When the scenario has no such variant any more, or it cannot be run.
    pub fn again(&self, point: &Point, scenario: &Scenario) -> Result<Point, EvidenceError> {
        let wrong = |what: String| EvidenceError(format!("{}: {what}", self.scenario));
        let variants = scenario.expand().map_err(|e| wrong(e.to_string()))?;
        let variant: Vec<_> =
            variants.into_iter().filter(|(variant, _)| variant.name == point.variant).collect();
        let measured = measure(scenario, &variant, &self.seeds, &|_| ()).map_err(wrong)?;
        measured.into_iter().next().ok_or_else(|| wrong(format!("has no variant `{}`", point.variant)))
    }

    /// The command that makes the runs behind a point again; none where the scenario was not kept.
    pub fn command(&self, point: &Point) -> Option<String> {
        if self.scenario.is_empty() {
            return None;
        }
        Some(run_command(&self.scenario, &point.variant, &self.seeds))
    }
}

/// Makes the runs of a variant again.
fn run_command(scenario: &str, variant: &str, seeds: &[u64]) -> String {
    let consecutive = seeds.windows(2).all(|pair| pair[1] == pair[0] + 1);
    let seeds = match seeds {
        [first, .., last] if consecutive => format!("{first}..{last}"),
        seeds => seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(","),
    };
    format!("taut run {scenario} --variant '{variant}' --seeds {seeds}")
}

/// Of everything that was counted: 16 hexadecimal digits of its SHA-256.
fn digest_of(counted: impl AsRef<[u8]>) -> String {
    hex(&Sha256::digest(counted))[..16].to_owned()
}

/// The SHA-256 of a file, hexadecimal.
///
/// # Errors
/// When it cannot be read.
pub fn sha256_of(file: &Path) -> Result<String, String> {
    let bytes = std::fs::read(file).map_err(|e| e.to_string())?;
    Ok(hex(&Sha256::digest(bytes)))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn points(scenario: &Scenario, seeds: &[u64], progress: &(dyn Fn(f64) + Sync)) -> Result<Vec<Point>, String> {
    let variants = scenario.expand().map_err(|e| e.to_string())?;
    measure(scenario, &variants, seeds, progress)
}

fn measure(
    scenario: &Scenario,
    variants: &[(Variant, Scenario)],
    seeds: &[u64],
    progress: &(dyn Fn(f64) + Sync),
) -> Result<Vec<Point>, String> {
    // Before hours of work: is every variant one that can be evidence?
    let known: Result<Vec<(Carrier, Condition)>, String> = variants
        .iter()
        .map(|(variant, scenario)| {
            let wrong = |what: String| format!("variant `{}`: {what}", variant.name);
            Ok((Carrier::of(scenario).map_err(wrong)?, Condition::of(scenario).map_err(wrong)?))
        })
        .collect();
    let known = known?;
    let campaign = Campaign::new(scenario, variants, seeds);
    let runs = campaign.and_then(|campaign| campaign.run_all(progress)).map_err(|e| e.to_string())?;
    let point = |(i, (carrier, condition)): (usize, (Carrier, Condition))| {
        let of: Vec<&RunResult> = runs.iter().filter(|run| run.variant == i).map(|run| &run.result).collect();
        let digest = digest_of(figures::exact(&of));
        let figures = Figures::worst(&of);
        Point { variant: variants[i].0.name.clone(), carrier, condition, figures, digest }
    };
    Ok(known.into_iter().enumerate().map(point).collect())
}
