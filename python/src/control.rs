//! Control laws.

use pyo3::prelude::*;
use taut::Control;

use crate::seconds;

/// What `taut.Control` of Python says.
#[derive(FromPyObject)]
pub(crate) struct PyControl {
    law: String,
    servo: Option<(f64, f64)>,
    turning_servo: Option<(f64, f64)>,
    playout: Option<f64>,
    impedance: Option<f64>,
    filter: Option<f64>,
    correction: Option<f64>,
    reserve: Option<f64>,
}

impl PyControl {
    pub(crate) fn of_end(&self) -> PyResult<Control> {
        let mut control = Control::new(&self.law);
        if let Some((stiffness, damping)) = self.servo {
            control = control.servo(stiffness, damping);
        }
        if let Some((stiffness, damping)) = self.turning_servo {
            control = control.turning_servo(stiffness, damping);
        }
        if let Some(most) = self.playout {
            control = control.playout(seconds("playout", most)?);
        }
        if let Some(impedance) = self.impedance {
            control = control.impedance(impedance);
        }
        if let Some(time) = self.filter {
            control = control.filter(seconds("filter", time)?);
        }
        if let Some(time) = self.correction {
            control = control.correction(seconds("correction", time)?);
        }
        if let Some(joules) = self.reserve {
            control = control.reserve(joules);
        }
        Ok(control)
    }
}
