//! What moves a robot, between Rust and Python.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use taut::{JointLimits, Joints, Motion, State};

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

impl PyMotion for Joints {
    fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        let class = CLASS.import(py, "taut.device", "Joints")?;
        class.call1((self.position(), self.velocity(), self.effort(), self.locked, self.enabling))
    }
    fn of_python(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let position: Vec<f32> = object.getattr("position")?.extract()?;
        Self::new(&position).map_err(|why| pyo3::exceptions::PyValueError::new_err(why.to_string()))
    }
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
