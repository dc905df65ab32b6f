//! What is asked of a Python object that drives a robot, in a session and in a simulated one.

use pyo3::prelude::*;

use crate::state::PyState;

/// Where it is; `None` when it has read nothing new.
pub(crate) fn sample(object: &Bound<'_, PyAny>) -> PyResult<Option<PyState>> {
    let state: Option<PyRef<'_, PyState>> = object.call_method0("sample")?.extract().map_err(PyErr::from)?;
    Ok(state.map(|state| *state))
}

pub(crate) fn feel(object: &Bound<'_, PyAny>, robot: PyState) -> PyResult<()> {
    object.call_method1("feel", (robot,)).map(drop)
}

pub(crate) fn lost(object: &Bound<'_, PyAny>) -> PyResult<()> {
    object.call_method0("lost").map(drop)
}

/// Only an object whose motion is relative to where the robot is has the method.
pub(crate) fn resumed(object: &Bound<'_, PyAny>) -> PyResult<()> {
    match object.getattr_opt("resumed")? {
        Some(resumed) => resumed.call0().map(drop),
        None => Ok(()),
    }
}
