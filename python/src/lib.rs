//! The part of the Python package `taut` that is not Python: the crate of the same name, with objects instead of types. It adds no rule
//! but one: no thread of a session ever waits for Python.

mod bell;
mod brake;
mod campaign;
mod channel;
mod control;
mod desk;
mod device;
mod error;
mod events;
mod hand;
mod lab;
mod motion;
mod operator;
mod robot;
mod simulated;
mod state;

use std::path::{Path, PathBuf};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use taut::{Fingerprint, Identity, Status};

use crate::error::{SettingError, of_error};

fn identity(path: impl AsRef<Path>) -> PyResult<Identity> {
    Identity::open(path).map_err(of_error)
}

fn fingerprint(text: &str) -> PyResult<Fingerprint> {
    text.parse().map_err(|why| SettingError::new_err(format!("trust: `{text}` is no fingerprint: {why}")))
}

fn seconds(setting: &str, seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|why| SettingError::new_err(format!("{setting}: {seconds} s: {why}")))
}

fn status<'py>(py: Python<'py>, status: &Status) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("connected", status.connected)?;
    dict.set_item("state", status.state.name())?;
    dict.set_item("cause", status.cause.name())?;
    dict.set_item("messages", status.messages)?;
    dict.set_item("delivered", status.delivered)?;
    dict.set_item("lost", status.lost)?;
    dict.set_item("round_trip", status.round_trip.map(|round_trip| round_trip.as_secs_f64()))?;
    dict.set_item("dropped", status.dropped.clone())?;
    let channels = PyDict::new(py);
    for channel in &status.channels {
        let counts = PyDict::new(py);
        counts.set_item("open", channel.open)?;
        counts.set_item("made", channel.made)?;
        counts.set_item("withheld", channel.withheld)?;
        counts.set_item("delivered", channel.delivered)?;
        counts.set_item("dropped", channel.dropped.clone())?;
        channels.set_item(&channel.name, counts)?;
    }
    dict.set_item("channels", channels)?;
    Ok(dict)
}

/// The fingerprint of the identity in this file, which is made when there is none.
#[pyfunction]
#[pyo3(name = "fingerprint")]
fn fingerprint_of(path: PathBuf) -> PyResult<String> {
    Ok(identity(path)?.fingerprint().to_string())
}

/// What `taut` imports.
#[pymodule]
fn _taut(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<state::PyState>()?;
    module.add_class::<state::PyLimits>()?;
    module.add_class::<motion::PyJointLimits>()?;
    module.add_function(wrap_pyfunction!(motion::joints_payload, module)?)?;
    module.add_class::<robot::PyRobot>()?;
    module.add_class::<operator::PyOperator>()?;
    module.add_class::<channel::PySender>()?;
    module.add_class::<channel::PyReceiver>()?;
    module.add_function(wrap_pyfunction!(fingerprint_of, module)?)?;
    module.add_function(wrap_pyfunction!(robot::wait_stopped, module)?)?;
    module.add_class::<campaign::PyCampaign>()?;
    module.add_function(wrap_pyfunction!(campaign::scenario_text, module)?)?;
    module.add_function(wrap_pyfunction!(lab::run, module)?)?;
    module.add_function(wrap_pyfunction!(lab::plan, module)?)?;
    module.add_function(wrap_pyfunction!(lab::recommend, module)?)?;
    module.add_function(wrap_pyfunction!(simulated::monotonic, module)?)?;
    error::add(module)
}
