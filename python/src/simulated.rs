//! Python objects at the ends of a simulated session. They are called on the thread of the run, one at a time and in an order that depends on
//! the scenario and the seed alone.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use pyo3::prelude::*;
use taut_agent::{
    DeviceFailure, DeviceMessage, Measured, OperatorDevice, Resume, RobotDevice, Sample, SetPoint,
};
use taut_core::{Bitrate, Duration, Time};
use taut_lab::run::RunClock;
use taut_session::motion::Motion;
use taut_session::{ChannelId, State, StopCause};

use crate::hand;
use crate::motion::PyMotion;
use crate::state::PyState;

thread_local! {
    /// The time in the run, while one of its devices is called on this thread.
    static NOW: Cell<Option<Time>> = const { Cell::new(None) };
}

/// Seconds by which devices live: in the simulator since the run began, else those of CLOCK_MONOTONIC.
#[pyfunction]
pub(crate) fn monotonic() -> f64 {
    let system = || {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
    };
    NOW.get().map_or_else(system, |now| now.as_nanos() as f64 / 1e9)
}

/// What the objects of a run share.
#[derive(Clone, Default)]
pub(crate) struct World {
    pub(crate) clock: RunClock,
    raised: Rc<RefCell<Option<PyErr>>>,
}

impl World {
    /// What was raised: the run is over.
    pub(crate) fn raised(&self) -> Option<PyErr> {
        self.raised.take()
    }

    /// Is there no more to do, for something was raised?
    pub(crate) fn is_over(&self) -> bool {
        self.raised.borrow().is_some()
    }

    /// Calls Python. Nothing is called any more once something was raised.
    pub(crate) fn call<T>(&self, call: impl FnOnce(Python<'_>) -> PyResult<T>) -> Option<T> {
        if self.is_over() {
            return None;
        }
        Python::attach(|py| {
            let before = NOW.replace(Some(self.clock.now()));
            let called = call(py);
            NOW.set(before);
            called.map_err(|error| *self.raised.borrow_mut() = Some(error)).ok()
        })
    }
}

/// An object with `apply`, `measure` and `stop`.
pub(crate) struct SimulatedRobot {
    object: Py<PyAny>,
    world: World,
    period: Duration,
    /// What was measured a period ago: on sockets a session does not wait for Python, and has what was measured when it asked before.
    before: Option<Option<PyState>>,
}

impl SimulatedRobot {
    pub(crate) fn new(object: Py<PyAny>, world: World) -> Self {
        Self { object, world, period: Duration::from_millis(1), before: None }
    }
}

impl RobotDevice for SimulatedRobot {
    /// The scenario's counts.
    fn period(&self) -> Duration {
        self.period
    }
    fn enable(&mut self) -> Result<(), DeviceFailure> {
        Ok(())
    }
    fn apply(&mut self, point: &SetPoint) -> bool {
        let arguments = (PyState::of_session(&point.state), point.lease.as_secs_f64());
        self.world.call(|py| self.object.call_method1(py, "apply", arguments)).is_some()
    }
    fn drive(&mut self, _: ChannelId, _: &Motion, _: Duration) -> bool {
        false
    }
    fn stop(&mut self, cause: StopCause) {
        self.world.call(|py| self.object.call_method1(py, "stop", (cause.name(),)));
    }
    fn measure(&mut self) -> Option<Measured> {
        let measured = |py: Python<'_>| {
            let state = self.object.bind(py).call_method0("measure")?;
            if state.is_none() { Ok(None) } else { taut::State::of_python(&state).map(Some) }
        };
        let measured = self.world.call(measured).flatten().map(PyState);
        let state = self.before.replace(measured).unwrap_or(measured)?.to_session(Time::ZERO);
        Some(Measured { state, controller_force: None, feedback: None })
    }
    fn receive(&mut self, _: ChannelId, _: Option<Duration>, _: &[u8]) {}
    fn limit_bitrate(&mut self, _: Bitrate) {}
    fn poll_message(&mut self) -> Option<DeviceMessage> {
        None
    }
    fn feeds_back(&mut self) -> bool {
        true
    }
    fn failure(&mut self) -> Option<DeviceFailure> {
        None
    }
    fn lease(&self) -> bool {
        false
    }
    fn stiffness(&self) -> Option<f32> {
        None
    }
    fn limit_force(&mut self, _: f32) -> bool {
        false
    }
    fn is_real(&self) -> bool {
        false
    }
}

/// An object with `sample`, `feel` and `lost`, and perhaps `resumed`.
pub(crate) struct SimulatedOperator {
    object: Py<PyAny>,
    world: World,
    last: PyState,
    readings: u64,
}

impl SimulatedOperator {
    pub(crate) fn new(object: Py<PyAny>, world: World) -> Self {
        Self { object, world, last: PyState(taut::State::default()), readings: 0 }
    }
}

impl OperatorDevice for SimulatedOperator {
    fn sample(&mut self, now: Time) -> Option<Sample> {
        // What it did not read anew has an old number, and is not sent.
        if let Some(state) = self.world.call(|py| hand::sample(self.object.bind(py))).flatten() {
            (self.last, self.readings) = (state, self.readings + 1);
        }
        Some(Sample { state: self.last.to_session(now), reading: self.readings })
    }
    fn skip(&mut self, periods: u64) -> u64 {
        periods
    }
    fn resumed(&mut self, resume: Resume) {
        if resume == Resume::Asked {
            self.world.call(|py| hand::resumed(self.object.bind(py)));
        }
    }
    fn feel(&mut self, _: Time, state: &State) {
        self.world.call(|py| hand::feel(self.object.bind(py), PyState::of_session(state)));
    }
    fn lost(&mut self) {
        self.world.call(|py| hand::lost(self.object.bind(py)));
    }
    fn receive(&mut self, _: ChannelId, _: Option<Duration>, _: &[u8]) {}
    fn limit_bitrate(&mut self, _: Bitrate) {}
    fn poll_message(&mut self, _: Time) -> Option<DeviceMessage> {
        None
    }
}
