//! What moves a robot, between Rust and Python.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyType};
use taut::{JointLimits, Joints, Message, Motion, State};

use crate::state::PyState;

/// A motion that Python has a class for.
pub(crate) trait PyMotion: Motion + Send + Sync + 'static {
    fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>>;
    /// # Errors
    /// When the object is another.
    fn of_python(object: &Bound<'_, PyAny>) -> PyResult<Self>;
}

impl PyMotion for State {
    fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(Bound::new(py, PyState(*self))?.into_any())
    }
    fn of_python(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(object.cast::<PyState>()?.get().0)
    }
}

fn joints_class(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    CLASS.import(py, "taut._motion", "Joints")
}

impl PyMotion for Joints {
    fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        joints_class(py)?.call1((self.position(), self.velocity(), self.effort(), self.locked, self.enabling))
    }
    fn of_python(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        if !object.is_instance(joints_class(object.py())?)? {
            return Err(PyTypeError::new_err(format!("joints are taut.Joints, not {}", object.get_type())));
        }
        let part = |name: &str| object.getattr(name)?.extract::<Vec<f32>>();
        let (velocity, effort) = (part("velocity")?, part("effort")?);
        let joints = Self::new(&part("position")?).and_then(|joints| {
            let joints = if velocity.is_empty() { joints } else { joints.with_velocity(&velocity)? };
            if effort.is_empty() { Ok(joints) } else { joints.with_effort(&effort) }
        });
        let mut joints = joints.map_err(|why| PyValueError::new_err(why.to_string()))?;
        joints.locked = object.getattr("locked")?.is_truthy()?;
        joints.enabling = object.getattr("enabling")?.is_truthy()?;
        Ok(joints)
    }
}

/// Joints as the message that a channel of motion carries.
#[pyfunction]
pub(crate) fn joints_payload<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    let mut payload = Vec::new();
    let written = Joints::of_python(object)?.encode(&mut payload);
    written.map_err(|why| PyValueError::new_err(why.to_string()))?;
    Ok(PyBytes::new(object.py(), &payload))
}

/// Of one joint.
#[pyclass(frozen, name = "JointLimits", module = "taut")]
pub(crate) struct PyJointLimits(pub(crate) JointLimits);

#[pymethods]
impl PyJointLimits {
    #[new]
    #[pyo3(signature = (*, position, velocity, effort = 0.0, acceleration = None, stiffness = None))]
    fn new(
        position: [f32; 2],
        velocity: f32,
        effort: f32,
        acceleration: Option<f32>,
        stiffness: Option<f32>,
    ) -> Self {
        let [least, largest] = position;
        let limits = JointLimits::new().position(least, largest).velocity(velocity).effort(effort);
        let limits = acceleration.map_or(limits, |acceleration| limits.acceleration(acceleration));
        Self(stiffness.map_or(limits, |stiffness| limits.stiffness(stiffness)))
    }
}
