//! What was measured of transports over several networks at once: a flow of commands in each condition of a scenario.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::figures::{rounded_up, worst};
use super::{EvidenceError, digest_of, json, run_command, sha256_of};
use taut_lab::campaign::Campaign;
use taut_lab::scenario::{MpquicSpec, MtipPolicy, MtipSpec, PathUse, Scenario, TransportSpec, Variant};
use taut_report::result::RunResult;

/// What taut was built with; `make evidence` writes it anew.
const SHIPPED: [(&str, &str); 2] = [
    ("paths.json", include_str!("../../evidence/paths.json")),
    ("paths-measured.json", include_str!("../../evidence/paths-measured.json")),
];

/// What one campaign of commands found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathEvidence {
    /// The scenario's file, from the top of the repository: `"scenarios/two-5g-links.toml"`.
    pub scenario: String,
    /// The SHA-256 of that file, hexadecimal.
    pub sha256: String,
    /// Networks at once.
    pub paths: u32,
    /// The age at which a command is worse than none, in milliseconds.
    pub deadline_ms: f64,
    /// The seeds of every variant.
    pub seeds: Vec<u64>,
    /// A point for each variant that `taut operator` can be asked for.
    pub points: Vec<PathPoint>,
}

/// What one variant found, at worst over its seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathPoint {
    /// The variant's name: `"deadline, b link failure"`. What follows the last comma is the condition.
    pub variant: String,
    /// What asks for it: `"--transport mtip"`.
    pub flags: String,
    /// Of the commands that were made, given to the application in time, per cent.
    pub in_time_percent: f64,
    /// Copies sent of a command; absent for one path.
    pub copies: Option<f64>,
    /// 99th percentile of the delay, in milliseconds; absent when nothing arrived.
    pub p99_ms: Option<f64>,
    /// The longest time without a command, in milliseconds.
    pub gap_ms: Option<f64>,
    /// Of everything that was counted in the runs, seed by seed: 16 hexadecimal digits of its SHA-256.
    pub digest: String,
}

impl PathPoint {
    /// The protocol's name and the condition's.
    pub fn parts(&self) -> (&str, &str) {
        self.variant.rsplit_once(", ").unwrap_or((&self.variant, ""))
    }
}

/// How `taut operator` and its peers are asked for what carries such commands, and with which settings it does then; `None` where nobody can
/// ask for it.
fn shipped(transport: &TransportSpec) -> Option<(&'static str, TransportSpec)> {
    let ships = TransportSpec::shipped(transport.name())?;
    let asked = match (*transport, ships) {
        (TransportSpec::Udp, ships) => ("--transport udp", ships),
        (TransportSpec::Mtip(spec), TransportSpec::Mtip(ships)) => {
            let flags = match spec.policy {
                MtipPolicy::Deadline => "--transport mtip",
                MtipPolicy::All => "--transport mtip --policy all",
                MtipPolicy::Adaptive => "--transport mtip --policy adaptive",
                MtipPolicy::Fixed(_) | MtipPolicy::Best(_) => return None,
            };
            // Clocks that agree are the scenario's, and nobody's.
            let spec = MtipSpec { clocks: ships.clocks, ..spec };
            (spec == MtipSpec { policy: spec.policy, ..ships })
                .then_some((flags, TransportSpec::Mtip(spec)))?
        }
        (TransportSpec::Mpquic(spec), TransportSpec::Mpquic(ships)) => {
            let flags = match spec.paths {
                PathUse::FailOver => "--transport mpquic",
                PathUse::Duplicate => "--transport mpquic --policy all",
            };
            (spec == MpquicSpec { paths: spec.paths, ..ships }).then_some((flags, *transport))?
        }
        _ => return None,
    };
    Some(asked)
}

impl PathEvidence {
    /// What taut was built with: over links that are drawn from tables, and over links as they were measured.
    ///
    /// # Errors
    /// When a file that it was built with is not such.
    pub fn shipped() -> Result<Vec<Self>, EvidenceError> {
        let parse = |(name, text): (&str, &str)| {
            serde_json::from_str(text).map_err(|e| {
                EvidenceError(format!("crates/advise/evidence/{name} is not evidence of paths: {e}"))
            })
        };
        SHIPPED.into_iter().map(parse).collect()
    }

    /// Runs the variants of a scenario of commands that `taut operator` can be asked for, with every seed: in a session, and with the settings
    /// that it has then.
    ///
    /// # Errors
    /// A scenario that cannot be read or run, or has no commands.
    pub fn measure(
        file: &Path,
        seeds: &[u64],
        progress: &(dyn Fn(f64) + Sync),
    ) -> Result<Self, EvidenceError> {
        let name = file.display().to_string();
        let wrong = |what: String| EvidenceError(format!("{name}: {what}"));
        let sha256 = sha256_of(file).map_err(wrong)?;
        let scenario = Scenario::read(file).map_err(|e| EvidenceError(e.to_string()))?;
        let Some(commands) = scenario.commands.clone() else { return Err(wrong("has no [commands]".into())) };
        let variants = scenario.expand().map_err(|e| wrong(e.to_string()))?;
        let points = measure(&scenario, variants, seeds, progress).map_err(wrong)?;
        Ok(Self {
            scenario: name,
            sha256,
            paths: commands.paths.into(),
            deadline_ms: commands.deadline.as_millis_f64(),
            seeds: seeds.to_vec(),
            points,
        })
    }

    /// Runs one variant again. The point as it is measured now.
    ///
    /// # Errors
    /// When the scenario has no such variant any more, or it cannot be run.
    pub fn again(&self, point: &PathPoint, scenario: &Scenario) -> Result<PathPoint, EvidenceError> {
        let wrong = |what: String| EvidenceError(format!("{}: {what}", self.scenario));
        let mut variants = scenario.expand().map_err(|e| wrong(e.to_string()))?;
        variants.retain(|(variant, _)| variant.name == point.variant);
        let measured = measure(scenario, variants, &self.seeds, &|_| ()).map_err(wrong)?;
        measured.into_iter().next().ok_or_else(|| wrong(format!("has no variant `{}`", point.variant)))
    }

    /// The command that makes the runs behind a point again.
    pub fn command(&self, point: &PathPoint) -> String {
        let run = run_command(&self.scenario, &point.variant, &self.seeds);
        let policy = point.flags.strip_prefix("--transport mtip");
        let policy = policy.map(|flags| flags.strip_prefix(" --policy ").unwrap_or("deadline"));
        let transport = policy.map_or_else(String::new, |policy| {
            format!(" --set 'commands.transport={{mtip={{policy=\"{policy}\"}}}}'")
        });
        format!("{run} --set commands.bare=false{transport}")
    }

    /// As JSON, a line for each point.
    ///
    /// # Errors
    /// Never in practice: it is plain data.
    pub fn to_json(&self) -> Result<String, EvidenceError> {
        let head = json(&Self { points: Vec::new(), ..self.clone() })?;
        let head = head.strip_suffix("[]}").expect("the points come last");
        let points: Result<Vec<String>, _> = self.points.iter().map(json).collect();
        Ok(format!("{head}[\n{}\n]}}\n", points?.join(",\n")))
    }
}

fn measure(
    scenario: &Scenario,
    variants: Vec<(Variant, Scenario)>,
    seeds: &[u64],
    progress: &(dyn Fn(f64) + Sync),
) -> Result<Vec<PathPoint>, String> {
    let as_shipped = |(variant, mut scenario): (Variant, Scenario)| {
        let commands = scenario.commands.as_mut()?;
        let (flags, transport) = shipped(&commands.transport)?;
        (commands.transport, commands.bare) = (transport, false);
        Some((flags, (variant, scenario)))
    };
    let (flags, variants): (Vec<&str>, Vec<_>) = variants.into_iter().filter_map(as_shipped).unzip();
    let campaign = Campaign::new(scenario, &variants, seeds);
    let runs = campaign.and_then(|campaign| campaign.run_all(progress)).map_err(|e| e.to_string())?;
    let point = |(i, (variant, _)): (usize, &(Variant, Scenario))| {
        let of: Vec<&RunResult> = runs.iter().filter(|run| run.variant == i).map(|run| &run.result).collect();
        let in_time = of.iter().map(|run| run.commands.as_ref()?.in_time_percent);
        let least = in_time.map(|share| share.unwrap_or(0.0)).reduce(f64::min).unwrap_or(0.0);
        let counted: Result<Vec<String>, _> =
            of.iter().map(|run| serde_json::to_string(&run.commands).map_err(|e| e.to_string())).collect();
        let several = flags[i] != "--transport udp";
        Ok(PathPoint {
            variant: variant.name.clone(),
            flags: flags[i].to_owned(),
            in_time_percent: (least * 1e3).floor() / 1e3,
            copies: worst(&of, |run| run.commands.as_ref()?.copies).filter(|_| several),
            p99_ms: worst(&of, |run| run.commands.as_ref()?.latency_ms.as_ref().map(|delay| delay.p99)),
            gap_ms: worst(&of, |run| run.commands.as_ref()?.gap_ms).map(rounded_up),
            digest: digest_of(counted?.join("\n")),
        })
    };
    variants.iter().enumerate().map(point).collect()
}
