//! Runs of the lab.

use std::path::PathBuf;

use pyo3::prelude::*;
use taut_core::Seed;
use taut_lab::job;
use taut_lab::scenario::{Scenario, Setting};

use crate::error::{Error, SettingError};

/// Simulates a scenario; what `run.json` of the command `taut run` holds.
#[pyfunction]
pub(crate) fn run(
    py: Python<'_>,
    scenario: PathBuf,
    seed: u64,
    settings: Vec<String>,
    variant: Option<String>,
) -> PyResult<Vec<u8>> {
    let wrong = |why: &dyn std::fmt::Display| SettingError::new_err(format!("{}: {why}", scenario.display()));
    let settings: Result<Vec<Setting>, String> = settings.iter().map(|text| text.parse()).collect();
    let settings = settings.map_err(|why| wrong(&why))?;
    let read = Scenario::read(&scenario).map_err(|why| SettingError::new_err(why.to_string()))?;
    let mut variants = read.expand().map_err(|why| wrong(&why))?;
    if let Some(name) = &variant {
        variants.retain(|(variant, _)| variant.name == *name);
    }
    let [(_, one)] = variants.as_slice() else {
        let all: Vec<String> = read.all_variants().into_iter().map(|variant| variant.name).collect();
        return Err(wrong(&format!("name one of its variants by `variant`: {}", all.join("; "))));
    };
    let one = one.with(&settings).map_err(|why| wrong(&why))?;
    let done = py.detach(|| {
        let (result, _) = job::single(&one, Seed::new(seed), Default::default(), None, &mut |_| {})?;
        job::run_json(&result)
    });
    done.map_err(|error| Error::new_err(error.within(&scenario).to_string()))
}
