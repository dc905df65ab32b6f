//! The operator's end.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use taut::{Operator, OperatorDevice, State};

use crate::channel::{PyReceiver, PySender};
use crate::control::PyControl;
use crate::desk::lifetime;
use crate::error::{EndedError, NotConnectedError, RefusedError, of_error};
use crate::events::{Ask, Pump, PyEvents, pump};
use crate::hand;
use crate::state::PyState;
use crate::{fingerprint, identity, seconds, status};

/// Longer than it takes until the session says why there is none.
const CONNECTS: Duration = Duration::from_secs(10);
/// Who closes a session waits so long for the goodbye.
const GOODBYE: Duration = Duration::from_secs(3);

/// The session gives up a resume that nobody answers after a second, and says so. Until then the robot may obey it.
const GIVEN_UP: Duration = Duration::from_secs(2);

/// So long before the session takes what a device says it is asked for it: Python wakes up and answers in less.
const LEAD: Duration = Duration::from_micros(250);
/// Ctrl-C is not kept waiting for longer.
const INTERRUPTIBLE: Duration = Duration::from_millis(50);

#[expect(clippy::disallowed_methods, reason = "the clock enters here")]
fn now() -> Instant {
    Instant::now()
}

/// What Python and the session's thread hand each other. Only the newest counts.
#[derive(Default)]
struct Slots {
    sends: Option<(State, Instant)>,
    /// When the session took what was sent, or would have.
    asked: Option<Instant>,
    felt: Option<State>,
    /// The robot was resumed, and the device that drives it does not know yet.
    resumed: bool,
}

/// The slots, and what wakes who waits to feel something else.
#[derive(Default)]
struct Between {
    slots: Mutex<Slots>,
    other: Condvar,
}

impl Between {
    fn lock(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn feel(&self, felt: Option<State>) {
        self.lock().felt = felt;
        self.other.notify_all();
    }

    /// When the hand is sampled next, so that what it says is new when the session takes it.
    fn due(&self, period: Duration) -> Instant {
        let now = now();
        let asked = self.lock().asked.filter(|asked| now.duration_since(*asked) < 2 * period);
        let Some(asked) = asked else { return now + period };
        let due = asked + period - LEAD.min(period / 4);
        if due > now { due } else { due + period }
    }

    /// Waits until something else is felt than this, so long at most.
    fn wait(&self, felt: Option<State>, patience: Duration) {
        let wait = self.other.wait_timeout_while(self.lock(), patience, |slots| slots.felt == felt);
        drop(wait.unwrap_or_else(PoisonError::into_inner));
    }
}

/// The hand: what Python sent last, once; what was sent so long ago, before the robot moves or without a session, says no more where it is.
struct Hand {
    between: Arc<Between>,
    lifetime: Duration,
}

impl OperatorDevice for Hand {
    fn sample(&mut self) -> Option<State> {
        let mut slots = self.between.lock();
        slots.asked = Some(now());
        let (state, at) = slots.sends.take()?;
        (at.elapsed() <= self.lifetime).then_some(state)
    }
    fn feel(&mut self, robot: &State) {
        self.between.feel(Some(*robot));
    }
    fn lost(&mut self) {
        self.between.feel(None);
    }
    fn resumed(&mut self) {
        self.between.lock().resumed = true;
    }
}

/// An operator that runs.
#[pyclass(frozen, weakref, name = "Operator", module = "taut._taut")]
pub(crate) struct PyOperator {
    operator: Arc<Operator>,
    pump: Arc<Pump>,
    between: Arc<Between>,
}

#[derive(FromPyObject)]
struct Settings {
    address: String,
    identity: String,
    trust: String,
    rate: u32,
    deadline: f64,
    force_limit: f32,
    torque_limit: f32,
    turns: bool,
    control: Option<PyControl>,
    transport: String,
    keeps_stops_in: Option<String>,
    record: Option<String>,
    paths: Vec<String>,
    senders: Vec<Py<PySender>>,
    receivers: Vec<Py<PyReceiver>>,
}

#[pymethods]
impl PyOperator {
    #[new]
    fn new(py: Python<'_>, settings: Settings) -> PyResult<Self> {
        let between = Arc::<Between>::default();
        let mut builder =
            Operator::builder().connect(settings.address).identity(identity(&settings.identity)?);
        let lifetime = lifetime(Duration::from_secs(1) / settings.rate.max(1));
        let hand = Hand { between: Arc::clone(&between), lifetime };
        builder = builder.trust(fingerprint(&settings.trust)?).device(hand);
        builder = builder.rate(settings.rate).deadline(seconds("deadline", settings.deadline)?);
        builder = builder.force_limit(settings.force_limit).torque_limit(settings.torque_limit);
        builder = builder.transport(settings.transport);
        if settings.turns {
            builder = builder.turns();
        }
        if let Some(control) = settings.control {
            builder = builder.control(control.of_end()?);
        }
        if let Some(path) = settings.keeps_stops_in {
            builder = builder.keeps_stops_in(path);
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
        let operator = Arc::new(py.detach(|| builder.start()).map_err(of_error)?);
        let events = Pump::new(settings.receivers)?;
        pump("taut events", &events, Arc::clone(&operator), |operator| operator.events().recv().ok())?;
        let this = Self { operator, pump: events, between };
        match this.pump.answer(py, Ask::Connect, CONNECTS)? {
            Some(_) => Ok(this),
            None => Err(this
                .pump
                .why()
                .map_or_else(|| NotConnectedError::new_err("there is no session"), of_error)),
        }
    }

    #[getter]
    fn fingerprint(&self) -> String {
        self.operator.fingerprint().to_string()
    }

    #[getter]
    fn has_ended(&self) -> bool {
        self.pump.has_ended()
    }

    fn status<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        status(py, &self.operator.status())
    }

    /// What the hand holds from now on. Nothing waits: it goes at the next tick of the session, or makes way for a newer one.
    fn send(&self, state: &PyState) -> PyResult<()> {
        if self.pump.has_ended() {
            return Err(self.ended());
        }
        self.between.lock().sends = Some((state.0, now()));
        Ok(())
    }

    /// Asks an object once that drives the robot.
    fn ask_device(&self, object: &Bound<'_, PyAny>) -> PyResult<()> {
        if std::mem::take(&mut self.between.lock().resumed) {
            hand::resumed(object)?;
        }
        if let Some(state) = hand::sample(object)? {
            self.send(&state)?;
        }
        Ok(())
    }

    /// Lets it feel what comes, when it comes, until it is to be asked again, of a rate with this period in seconds. `felt` is what it felt before; gives
    /// what it has felt now.
    #[pyo3(signature = (object, felt, period))]
    fn feel_device(
        &self,
        object: &Bound<'_, PyAny>,
        mut felt: Option<PyState>,
        period: f64,
    ) -> PyResult<Option<PyState>> {
        let due = self.between.due(seconds("period", period)?);
        loop {
            let latest = self.latest();
            match latest {
                Some(state) if latest != felt => hand::feel(object, state)?,
                None if felt.is_some() => hand::lost(object)?,
                _ => {}
            }
            felt = latest;
            let left = due.saturating_duration_since(now());
            if left.is_zero() {
                return Ok(felt);
            }
            let known = felt.map(|state| state.0);
            object.py().detach(|| self.between.wait(known, left.min(INTERRUPTIBLE)));
            object.py().check_signals()?;
        }
    }

    /// Where the robot is and what it feels; `None`: nothing fresh is known of it.
    fn latest(&self) -> Option<PyState> {
        if self.pump.is_elsewhere() { None } else { self.between.lock().felt.map(PyState) }
    }

    fn resume(&self, py: Python<'_>, timeout: f64) -> PyResult<()> {
        self.ask(py, Ask::Resume, seconds("timeout", timeout)?.max(GIVEN_UP), Operator::resume)
    }

    fn reset(&self, py: Python<'_>, timeout: f64) -> PyResult<()> {
        self.ask(py, Ask::Reset, seconds("timeout", timeout)?, Operator::reset)
    }

    /// Ahead of everything, and never waits.
    fn stop(&self) -> PyResult<()> {
        if self.pump.has_ended() {
            return Err(self.ended()); // Nobody would hear it.
        }
        self.operator.stop();
        Ok(())
    }

    fn leave(&self, py: Python<'_>) {
        if !self.pump.has_ended() {
            py.detach(|| self.operator.close());
        }
    }

    fn wait_left(&self, py: Python<'_>) -> PyResult<()> {
        self.pump.wait_end(py, Some(GOODBYE)).map(|_| ())
    }

    fn events(&self) -> PyEvents {
        PyEvents(Arc::clone(&self.pump))
    }
}

impl PyOperator {
    fn ask(&self, py: Python<'_>, ask: Ask, patience: Duration, how: fn(&Operator)) -> PyResult<()> {
        if self.pump.has_ended() {
            return Err(self.ended());
        }
        self.pump.forget(ask);
        py.detach(|| how(&self.operator));
        match self.pump.answer(py, ask, patience)? {
            Some(Ok(())) => Ok(()),
            Some(Err(why)) => Err(RefusedError::new_err(why)),
            None if self.pump.has_ended() => Err(self.ended()),
            None => {
                let waited = patience.as_secs_f64();
                Err(RefusedError::new_err(format!("the robot did not answer within {waited} s")))
            }
        }
    }

    fn ended(&self) -> PyErr {
        let closed = || EndedError::new_err("the session has ended: connect again");
        self.pump.why().map_or_else(closed, of_error)
    }
}

/// Nobody has it any more: it says goodbye. The thread of its events holds it until then.
impl Drop for PyOperator {
    fn drop(&mut self) {
        if !self.pump.has_ended() {
            self.operator.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a session with this period takes of a hand that spoke so long ago.
    fn taken(period: Duration, ago: Duration) -> Option<State> {
        let between = Arc::<Between>::default();
        between.lock().sends = Some((State::at([0.1, 0.0, 0.2]), now() - ago));
        Hand { between, lifetime: lifetime(period) }.sample()
    }

    #[test]
    fn of_a_slow_session_a_hand_that_spoke_a_period_ago_is_heard_and_of_a_fast_one_none_from_then() {
        let ago = Duration::from_millis(100);
        assert!(taken(Duration::from_millis(500), ago).is_some());
        assert!(taken(Duration::from_millis(1), ago).is_none());
    }
}
