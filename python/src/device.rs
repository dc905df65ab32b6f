//! A Python object as a robot's device: two threads call it, and the session's never waits for them.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use taut::{Failure, RobotDevice, StopCause};

use crate::brake::Brake;
use crate::desk::{Desk, Work};
use crate::error::SystemError;
use crate::motion::PyMotion;

/// A desk and what rings at it.
pub(crate) struct Front<M> {
    desk: Mutex<Desk<M>>,
    /// There is something to apply or to measure.
    work: Condvar,
    /// There is a stop to tell, or one was told.
    stops: Condvar,
    begin: Instant,
    brake: Option<Brake>,
}

/// What a robot that runs asks of it, whatever moves the device.
pub(crate) trait Counter: Send + Sync {
    /// How long this share of the targets waited for Python.
    fn waited(&self, share: f64) -> Option<Duration>;
    /// Waits until every stop was told, but no longer than this, and until the brake was told the last.
    fn wait_stopped(&self, patience: Duration);
}

impl<M: PyMotion> Counter for Front<M> {
    fn waited(&self, share: f64) -> Option<Duration> {
        self.lock().waited(share)
    }

    fn wait_stopped(&self, patience: Duration) {
        let waits = |desk: &mut Desk<M>| !desk.is_stopped();
        let _ = self.stops.wait_timeout_while(self.lock(), patience, waits); // It is left to its thread then.
        self.brake.iter().for_each(Brake::wait);
    }
}

impl<M: PyMotion> Front<M> {
    fn lock(&self) -> MutexGuard<'_, Desk<M>> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Duration {
        self.begin.elapsed()
    }

    fn wait<'a>(condvar: &Condvar, desk: MutexGuard<'a, Desk<M>>) -> MutexGuard<'a, Desk<M>> {
        condvar.wait(desk).unwrap_or_else(PoisonError::into_inner)
    }

    /// Without Python: the brake first, then the word to the thread that calls `stop`.
    fn stop(&self, cause: StopCause) {
        if let Some(brake) = &self.brake {
            brake.pull();
        }
        self.lock().stop(cause);
        self.stops.notify_all();
    }

    /// What a method raised, in one line for the operator; the whole of it goes to standard error.
    fn fail(&self, py: Python<'_>, method: &str, error: &PyErr) {
        let why = format!("`{method}` raised {error}");
        let stopped = if method == "measure" {
            self.lock().unmeasured(why)
        } else {
            self.lock().failed(why);
            true
        };
        if stopped {
            if let Some(brake) = &self.brake {
                brake.pull();
            }
            self.stops.notify_all();
            error.display(py); // `print` would end the process by a SystemExit.
        }
    }
}

/// The session's side of a Python object.
pub(crate) struct PythonDevice<M: PyMotion> {
    front: Arc<Front<M>>,
    keeps_lease: bool,
}

impl<M: PyMotion> PythonDevice<M> {
    /// Checks that the object has its methods, and starts the threads that call it.
    /// `period` is that of the session's rate.
    pub(crate) fn start(
        object: &Bound<'_, PyAny>,
        brake: Option<Brake>,
        period: Duration,
    ) -> PyResult<(Self, Arc<Front<M>>)> {
        check_methods(object, "a device", &["apply(state, lease)", "measure()", "stop(cause)"])?;
        let keeps_lease = match object.getattr_opt("keeps_lease")? {
            Some(says) => says.is_truthy()?,
            None => false,
        };
        #[expect(clippy::disallowed_methods, reason = "the clock enters here")]
        let begin = Instant::now();
        let front = Arc::new(Front {
            desk: Mutex::new(Desk::new(period)),
            work: Condvar::new(),
            stops: Condvar::new(),
            begin,
            brake,
        });
        let device = Self { front: Arc::clone(&front), keeps_lease }; // Dropped, it ends the threads.
        let (moves, stops) = (object.clone().unbind(), object.clone().unbind());
        spawn("taut device", Arc::clone(&front), move |front| run(front, &moves))?;
        spawn("taut stop", Arc::clone(&front), move |front| tell_stops(front, &stops))?;
        Ok((device, front))
    }
}

/// # Errors
/// Names what it lacks.
pub(crate) fn check_methods(object: &Bound<'_, PyAny>, whose: &str, methods: &[&str]) -> PyResult<()> {
    for method in methods.iter().filter_map(|method| method.split('(').next()) {
        if !object.getattr(method).is_ok_and(|found| found.is_callable()) {
            let (class, all) = (object.get_type(), methods.join(", "));
            let text = format!("{whose} has {all}: {class} lacks `{method}`");
            return Err(pyo3::exceptions::PyTypeError::new_err(text));
        }
    }
    Ok(())
}

fn spawn<M: PyMotion>(
    name: &str,
    front: Arc<Front<M>>,
    work: impl FnOnce(&Front<M>) + Send + 'static,
) -> PyResult<()> {
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.spawn(move || work(&front)).map(|_| ()).map_err(|error| SystemError::new_err(error.to_string()))
}

impl<M: PyMotion> RobotDevice<M> for PythonDevice<M> {
    fn enable(&self) -> Result<(), Failure> {
        // A stop that comes meanwhile is not let go.
        let pulls = self.front.brake.as_ref().map(|brake| (brake, brake.pulls()));
        self.front.lock().enable(self.front.now())?;
        pulls.into_iter().for_each(|(brake, pulls)| brake.let_go(pulls));
        Ok(())
    }

    fn apply(&self, target: &M, lease: Duration) -> Result<(), Failure> {
        self.front.lock().apply(self.front.now(), target.clone(), lease)?;
        self.front.work.notify_one();
        Ok(())
    }

    fn measure(&self) -> Option<M> {
        let measured = self.front.lock().measure(self.front.now());
        self.front.work.notify_one();
        measured
    }

    fn stop(&self, cause: StopCause) {
        self.front.stop(cause);
    }

    fn keeps_lease(&self) -> bool {
        self.keeps_lease
    }
}

impl<M: PyMotion> Drop for PythonDevice<M> {
    fn drop(&mut self) {
        self.front.lock().end();
        self.front.work.notify_all();
        self.front.stops.notify_all();
    }
}

/// Applies and measures until the session has ended.
fn run<M: PyMotion>(front: &Front<M>, object: &Py<PyAny>) {
    loop {
        let mut desk = front.lock();
        while !desk.has_work() {
            desk = Front::wait(&front.work, desk);
        }
        drop(desk);
        // What to do is asked with the interpreter in hand: what was new before may be old by then.
        let goes_on = Python::try_attach(|py| {
            let work = front.lock().take(front.now());
            work.is_some_and(|work| {
                serve(py, front, object, &work);
                true
            })
        });
        if goes_on != Some(true) {
            return; // The session has ended, or the interpreter.
        }
    }
}

fn serve<M: PyMotion>(py: Python<'_>, front: &Front<M>, object: &Py<PyAny>, work: &Work<M>) {
    if let Some((motion, lease)) = &work.apply {
        let target = motion.to_python(py);
        let applied =
            target.and_then(|target| object.call_method1(py, "apply", (target, lease.as_secs_f64())));
        front.lock().applied(work);
        front.stops.notify_all();
        if let Err(error) = applied {
            return front.fail(py, "apply", &error);
        }
    }
    if work.measure {
        match measured(py, object) {
            Ok(motion) => front.lock().measured(front.now(), motion),
            Err(error) => front.fail(py, "measure", &error),
        }
    }
}

fn measured<M: PyMotion>(py: Python<'_>, object: &Py<PyAny>) -> PyResult<Option<M>> {
    let motion = object.bind(py).call_method0("measure")?;
    if motion.is_none() { Ok(None) } else { M::of_python(&motion).map(Some) }
}

/// Calls `stop` for every stop, also while another method waits.
fn tell_stops<M: PyMotion>(front: &Front<M>, object: &Py<PyAny>) {
    loop {
        let mut desk = front.lock();
        let cause = loop {
            if let Some(cause) = desk.take_stop() {
                break cause;
            }
            if desk.has_ended() {
                drop(desk);
                // The brake's thread does not keep a program.
                return front.brake.iter().for_each(Brake::wait);
            }
            desk = Front::wait(&front.stops, desk);
        };
        drop(desk);
        let called = Python::try_attach(|py| {
            let called = object.call_method1(py, "stop", (cause.name(),));
            if let Some(why) = front.brake.as_ref().and_then(Brake::failure) {
                SystemError::new_err(why).display(py);
            }
            called.err().map(|error| {
                let why = format!("`stop` raised {error}");
                error.display(py);
                why
            })
        });
        // Without an interpreter it was not told.
        front.lock().told_stop(called.unwrap_or_else(|| Some("the interpreter has ended".to_owned())));
        front.stops.notify_all();
    }
}
