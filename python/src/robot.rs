//! The robot's end.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use taut::{Robot, RobotBuilder};

use crate::brake::Brake;
use crate::channel::{PyReceiver, PySender};
use crate::control::PyControl;
use crate::device::{Counter, PythonDevice};
use crate::error::{EndedError, SettingError, SystemError, of_error};
use crate::events::{Pump, PyEvents, pump};
use crate::motion::PyJointLimits;
use crate::state::PyLimits;
use crate::{fingerprint, identity, seconds, status};

/// Who closes a robot waits so long for it to end, and for its device's `stop`.
const GOODBYE: Duration = Duration::from_secs(3);

/// Devices of robots that nobody has any more, and which may not have been told to stop yet; each with its process, for in one that was forked off
/// nobody would tell them.
static LEFT: Mutex<Vec<(u32, Weak<dyn Counter>)>> = Mutex::new(Vec::new());

/// Before the interpreter goes: waits until such devices were told.
#[pyfunction]
pub(crate) fn wait_stopped(py: Python<'_>) {
    let mut left = std::mem::take(&mut *LEFT.lock().unwrap_or_else(PoisonError::into_inner));
    left.retain(|(process, _)| *process == std::process::id());
    let fronts = || left.iter().filter_map(|(_, front)| front.upgrade());
    py.detach(|| fronts().for_each(|front| front.wait_stopped(GOODBYE)));
}

/// A robot that runs.
#[pyclass(frozen, weakref, name = "Robot", module = "taut._taut")]
pub(crate) struct PyRobot {
    robot: Arc<Robot>,
    pump: Arc<Pump>,
    front: Arc<dyn Counter>,
}

/// What a device is held to, which says what moves it as well.
#[derive(FromPyObject)]
enum Limits<'py> {
    State(PyRef<'py, PyLimits>),
    /// Joints in their order: names, and their limits.
    Joints(Vec<(String, PyRef<'py, PyJointLimits>)>),
}

impl Limits<'_> {
    fn declare(
        &self,
        builder: RobotBuilder,
        channel: String,
        object: &Bound<'_, PyAny>,
        brake: Option<Brake>,
        period: Duration,
    ) -> PyResult<(RobotBuilder, Arc<dyn Counter>)> {
        match self {
            Self::State(limits) => {
                let (device, front) = PythonDevice::start(object, brake, period)?;
                Ok((builder.device(limits.of_robot(), device), front))
            }
            Self::Joints(joints) => {
                let (device, front) = PythonDevice::start(object, brake, period)?;
                let names: Vec<&str> = joints.iter().map(|(name, _)| name.as_str()).collect();
                let definition = serde_json::to_string(&names).expect("texts are written");
                let limits = joints.iter().map(|(_, limits)| limits.0).collect();
                Ok((builder.motion_defined::<taut::Joints>(channel, definition, limits, device), front))
            }
        }
    }
}

#[derive(FromPyObject)]
struct Settings<'py> {
    listen: String,
    identity: String,
    trust: Vec<String>,
    limits: Limits<'py>,
    motion: String,
    device: Bound<'py, PyAny>,
    watchdog: f64,
    rate: u32,
    transport: String,
    keeps_stops_in: Option<String>,
    record: Option<String>,
    hold_to_run: bool,
    turns: bool,
    control: Option<PyControl>,
    paths: Vec<String>,
    brake: Option<(String, Vec<u8>)>,
    senders: Vec<Py<PySender>>,
    receivers: Vec<Py<PyReceiver>>,
}

#[pymethods]
impl PyRobot {
    #[new]
    fn new(py: Python<'_>, settings: Settings<'_>) -> PyResult<Self> {
        let mut builder = Robot::builder().listen(settings.listen).identity(identity(&settings.identity)?);
        for operator in &settings.trust {
            builder = builder.trust(fingerprint(operator)?);
        }
        builder = builder.watchdog(seconds("watchdog", settings.watchdog)?).rate(settings.rate);
        builder = builder.transport(settings.transport);
        builder = match settings.keeps_stops_in {
            Some(path) => builder.keeps_stops_in(path),
            None => builder.forgets_stops(),
        };
        if settings.hold_to_run {
            builder = builder.hold_to_run();
        }
        if settings.turns {
            builder = builder.turns();
        }
        if let Some(control) = settings.control {
            builder = builder.control(control.of_end()?);
        }
        if let Some(path) = settings.record {
            builder = builder.record_to(path);
        }
        for path in settings.paths {
            builder = builder.path(path);
        }
        for sender in &settings.senders {
            builder = builder.sends(sender.get().start());
        }
        for receiver in &settings.receivers {
            builder = builder.receives(receiver.get().start());
        }
        if settings.brake.as_ref().is_some_and(|(_, bytes)| bytes.is_empty()) {
            return Err(SettingError::new_err("brake: no bytes stop nothing"));
        }
        let brake = settings.brake.map(|(to, bytes)| {
            Brake::open(&to, bytes).map_err(|error| SystemError::new_err(format!("the brake {to}: {error}")))
        });
        let period = Duration::from_secs(1) / settings.rate.max(1);
        let (builder, front) = settings.limits.declare(
            builder,
            settings.motion,
            &settings.device,
            brake.transpose()?,
            period,
        )?;
        let robot = Arc::new(py.detach(|| builder.start()).map_err(of_error)?);
        let events = Pump::new(settings.receivers)?;
        pump("taut events", &events, Arc::clone(&robot), |robot| robot.events().recv().ok())?;
        Ok(Self { robot, pump: events, front })
    }

    #[getter]
    fn address(&self) -> String {
        self.robot.address().to_string()
    }

    #[getter]
    fn fingerprint(&self) -> String {
        self.robot.fingerprint().to_string()
    }

    #[getter]
    fn has_ended(&self) -> bool {
        self.pump.has_ended()
    }

    fn status<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = status(py, &self.robot.status())?;
        for (name, share) in [("apply_wait_p50", 0.5), ("apply_wait_p99", 0.99)] {
            dict.set_item(name, self.front.waited(share).map(|waited| waited.as_secs_f64()))?;
        }
        Ok(dict)
    }

    fn stop(&self) -> PyResult<()> {
        self.is_here()?;
        self.robot.stop();
        Ok(())
    }

    fn release(&self, py: Python<'_>) -> PyResult<()> {
        self.is_here()?;
        py.detach(|| self.robot.release());
        Ok(())
    }

    fn leave(&self, py: Python<'_>) {
        if !self.pump.has_ended() {
            py.detach(|| self.robot.close());
        }
    }

    fn wait_left(&self, py: Python<'_>) -> PyResult<()> {
        self.pump.wait_end(py, Some(GOODBYE))?;
        if !self.pump.is_elsewhere() {
            py.detach(|| self.front.wait_stopped(GOODBYE));
        }
        Ok(())
    }

    #[pyo3(signature = (timeout = None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        self.pump.wait_end(py, timeout.map(|timeout| seconds("timeout", timeout)).transpose()?)
    }

    fn events(&self) -> PyEvents {
        PyEvents(Arc::clone(&self.pump))
    }
}

impl PyRobot {
    fn is_here(&self) -> PyResult<()> {
        if self.pump.is_elsewhere() {
            return Err(EndedError::new_err("the robot is another process's"));
        }
        Ok(())
    }
}

/// Nobody has the robot any more: it stops. The thread of its events holds it until then.
impl Drop for PyRobot {
    fn drop(&mut self) {
        if !self.pump.has_ended() {
            self.robot.close();
            let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
            left.retain(|(_, front)| front.strong_count() > 0);
            left.push((std::process::id(), Arc::downgrade(&self.front)));
        }
    }
}
