//! Campaigns, of which each run may be made by another process.

use std::path::{Path, PathBuf};

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use taut_lab::campaign::{Campaign, CampaignRun};
use taut_lab::job;
use taut_lab::run::{Output, RunError};
use taut_lab::scenario::{Scenario, Variant};

use crate::error::{Error, SettingError};
use crate::lab::parsed;

/// What to run.
#[derive(FromPyObject)]
pub(crate) struct Asked {
    /// Where the text is from.
    origin: String,
    /// The scenario, as [`scenario_text`] gives it.
    text: String,
    settings: Vec<String>,
    variants: Option<Vec<String>>,
    seeds: Vec<u64>,
}

/// A scenario's text with all that it leaves out, and with files named from where this program runs.
#[pyfunction]
pub(crate) fn scenario_text(path: PathBuf) -> PyResult<String> {
    let scenario = Scenario::read(&path).map_err(|why| SettingError::new_err(why.to_string()))?;
    Ok(scenario.to_toml())
}

/// Every variant with every seed.
#[pyclass(frozen, module = "taut._taut", name = "CampaignRuns")]
pub(crate) struct PyCampaign {
    origin: String,
    scenario: Scenario,
    variants: Vec<(Variant, Scenario)>,
    seeds: Vec<u64>,
}

impl PyCampaign {
    fn campaign(&self) -> PyResult<Campaign<'_>> {
        Campaign::new(&self.scenario, &self.variants, &self.seeds)
            .map_err(|why| SettingError::new_err(why.to_string()))
    }

    fn failed(&self, why: RunError) -> PyErr {
        Error::new_err(why.within(Path::new(&self.origin)).to_string())
    }
}

#[pymethods]
impl PyCampaign {
    #[new]
    fn new(asked: Asked) -> PyResult<Self> {
        let wrong = |why: &dyn std::fmt::Display| SettingError::new_err(format!("{}: {why}", asked.origin));
        let settings = parsed(&asked.settings).map_err(|why| wrong(&why))?;
        let scenario = Scenario::parse(&asked.origin, &asked.text).map_err(|why| wrong(&why))?;
        if let Some(names) = &asked.variants {
            let known: Vec<String> =
                scenario.all_variants().into_iter().map(|variant| variant.name).collect();
            if let Some(unknown) = names.iter().find(|name| !known.contains(name)) {
                return Err(wrong(&format!(
                    "no variant is named {unknown:?}; there are: {}",
                    known.join("; ")
                )));
            }
        }
        let chosen = |_: usize, variant: &Variant| {
            asked.variants.as_ref().is_none_or(|names| names.contains(&variant.name))
        };
        let variants = scenario.expand_with(&settings, chosen).map_err(|why| wrong(&why))?;
        if variants.is_empty() || asked.seeds.is_empty() {
            return Err(wrong(&"a campaign has at least one variant and one seed"));
        }
        let scenario = scenario.with(&settings).map_err(|why| wrong(&why))?;
        let made = Self { origin: asked.origin, scenario, variants, seeds: asked.seeds };
        made.campaign()?;
        Ok(made)
    }

    fn __len__(&self) -> usize {
        self.variants.len() * self.seeds.len()
    }

    /// Can [`finish`](Self::finish) write into this folder? Nothing of it remains.
    fn check_folder(&self, folder: PathBuf) -> PyResult<()> {
        Output::new(&folder)
            .and_then(|mut output| output.write("campaign.json", b""))
            .map_err(|why| self.failed(why))
    }

    /// Makes the run of this number; what [`finish`](Self::finish) takes of it. Other threads of Python run meanwhile.
    fn run<'py>(&self, py: Python<'py>, number: usize) -> PyResult<Bound<'py, PyBytes>> {
        let made = py.detach(|| -> PyResult<Vec<u8>> {
            let run = self.campaign()?.run(number, &mut |_| ()).map_err(|why| self.failed(why))?;
            serde_json::to_vec(&run).map_err(|why| Error::new_err(why.to_string()))
        })?;
        Ok(PyBytes::new(py, &made))
    }

    /// Sums up all runs, in their order, and writes what `taut run --out` does into a folder: `campaign.json`.
    fn finish(&self, py: Python<'_>, runs: Vec<Vec<u8>>, out: Option<PathBuf>) -> PyResult<Vec<u8>> {
        py.detach(|| {
            let runs: Result<Vec<CampaignRun>, _> =
                runs.iter().map(|bytes| serde_json::from_slice(bytes)).collect();
            let runs = runs.map_err(|why| Error::new_err(why.to_string()))?;
            let result = self.campaign()?.sum_up(&runs).map_err(|why| self.failed(why))?;
            if let Some(folder) = out {
                job::write_runs(&folder, &result, &runs).map_err(|why| self.failed(why))?;
            }
            job::campaign_json(&result).map_err(|why| self.failed(why))
        })
    }
}
