//! What happens to a robot or an operator, for Python: a thread takes each event, so that neither asyncio nor who waits for an answer keeps
//! it from the other.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use taut::{Error, OperatorEvent, RobotEvent};

use crate::bell::Bell;
use crate::channel::PyReceiver;

/// Events that wait for Python at most; then the oldest makes way.
const WAITING: usize = 256;
/// A wait looks so often whether it was interrupted.
const SIGNALS: Duration = Duration::from_millis(50);

/// A part of an event.
#[derive(Clone, Debug, PartialEq, IntoPyObject)]
pub(crate) enum Part {
    Flag(bool),
    Count(u64),
    Number(f64),
    Text(String),
    Texts(Vec<String>),
}

/// What was asked, and is answered by an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    Connect,
    Resume,
    Reset,
}

/// An event: its name, and what belongs to it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Told {
    pub(crate) name: &'static str,
    parts: Vec<(&'static str, Part)>,
    answer: Option<(Ask, Result<(), String>)>,
    /// A channel that stays closed, and why.
    closed: Option<(String, String)>,
    why: Option<Error>,
}

fn told(name: &'static str) -> Told {
    Told { name, parts: Vec::new(), answer: None, closed: None, why: None }
}

impl Told {
    fn with(mut self, name: &'static str, part: Part) -> Self {
        self.parts.push((name, part));
        self
    }
    fn text(self, name: &'static str, text: impl ToString) -> Self {
        self.with(name, Part::Text(text.to_string()))
    }
    fn seconds(self, name: &'static str, duration: Duration) -> Self {
        self.with(name, Part::Number(duration.as_secs_f64()))
    }
    fn answers(mut self, ask: Ask, answer: Result<(), String>) -> Self {
        self.answer = Some((ask, answer));
        self
    }
    fn closed(mut self, channel: String, why: String) -> Self {
        self.closed = Some((channel.clone(), why.clone()));
        self.text("channel", channel).text("why", why)
    }
    /// A dictionary.
    fn parts<'py>(self, py: Python<'py>) -> PyResult<Bound<'py, pyo3::types::PyDict>> {
        let dict = pyo3::types::PyDict::new(py);
        for (name, part) in self.parts {
            dict.set_item(name, part)?;
        }
        Ok(dict)
    }
}

impl From<OperatorEvent> for Told {
    fn from(event: OperatorEvent) -> Self {
        use OperatorEvent as Event;
        match event {
            Event::Connected { watchdog, hold_to_run } => told("connected")
                .seconds("watchdog", watchdog)
                .with("hold_to_run", Part::Flag(hold_to_run))
                .answers(Ask::Connect, Ok(())),
            Event::Robot { state, cause } => {
                told("robot").text("state", state.name()).text("cause", cause.name())
            }
            Event::Moving => told("moving").answers(Ask::Resume, Ok(())),
            Event::ResumeRefused { why } => {
                told("resume_refused").text("why", &why).answers(Ask::Resume, Err(why))
            }
            Event::WasReset => told("reset").answers(Ask::Reset, Ok(())),
            Event::ResetRefused { why } => {
                told("reset_refused").text("why", &why).answers(Ask::Reset, Err(why))
            }
            Event::StopAcknowledged { after, kept } => {
                told("stop_acknowledged").seconds("after", after).with("kept", Part::Flag(kept))
            }
            Event::StopUnanswered => told("stop_unanswered"),
            Event::NoAnswer { silence } => told("no_answer").seconds("silence", silence),
            Event::AnswersAgain => told("answers_again"),
            Event::RecordingEnded { why } => told("recording_ended").text("why", why),
            Event::RobotLeft => told("robot_left"),
            Event::Disconnected => told("disconnected"),
            Event::ChannelClosed { channel, why } => told("channel_closed").closed(channel, why),
            Event::Ended { why } => {
                let text = why.as_ref().map_or(String::new(), ToString::to_string);
                Self { why, ..told("ended").text("why", text) }
            }
            _ => told("other"),
        }
    }
}

impl From<RobotEvent> for Told {
    fn from(event: RobotEvent) -> Self {
        use RobotEvent as Event;
        match event {
            Event::Connected => told("connected").answers(Ask::Connect, Ok(())),
            Event::Moving => told("moving"),
            Event::Stopped { cause } => told("stopped").text("cause", cause.name()),
            Event::LetGo { here } => told("let_go").with("here", Part::Flag(here)),
            Event::RecordingEnded { why } => told("recording_ended").text("why", why),
            Event::Disconnected => told("disconnected"),
            Event::DeviceFailed(why) => told("device_failed").text("why", why),
            Event::PathTooSlow { age } => told("path_too_slow").seconds("age", age),
            Event::Refused { count, from, fingerprints } => told("refused")
                .with("count", Part::Count(count))
                .text("from", from.map_or(String::new(), |from| from.to_string()))
                .with("fingerprints", Part::Texts(fingerprints.iter().map(ToString::to_string).collect())),
            Event::Incompatible { why } => told("incompatible").text("why", why),
            Event::ChannelClosed { channel, why } => told("channel_closed").closed(channel, why),
            Event::StopNotKept => told("stop_not_kept"),
            Event::Ended => told("ended"),
            _ => told("other"),
        }
    }
}

#[derive(Default)]
struct Inner {
    waiting: VecDeque<Told>,
    missed: u64,
    answers: Vec<(Ask, Result<(), String>)>,
    ended: bool,
    why: Option<Error>,
}

/// Events that wait for Python, and answers that somebody waits for.
pub(crate) struct Pump {
    /// Whose threads are at work.
    process: u32,
    inner: Mutex<Inner>,
    changed: Condvar,
    bell: Arc<Bell>,
    receivers: Vec<Py<PyReceiver>>,
}

impl Pump {
    pub(crate) fn new(receivers: Vec<Py<PyReceiver>>) -> PyResult<Arc<Self>> {
        let (process, inner, changed) = (std::process::id(), Mutex::default(), Condvar::new());
        Ok(Arc::new(Self { process, inner, changed, bell: Bell::new()?, receivers }))
    }

    /// A process that was forked off has the objects, and none of the threads: what happens to the session is not its to say.
    pub(crate) fn is_elsewhere(&self) -> bool {
        std::process::id() != self.process
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An event came.
    pub(crate) fn push(&self, event: Told) {
        for receiver in self.receivers.iter().map(Py::get) {
            match &event.closed {
                Some((channel, why)) => receiver.refuse(channel, why),
                None if event.name == "connected" => receiver.hope(),
                None => {}
            }
        }
        let mut inner = self.lock();
        inner.ended |= event.name == "ended";
        if event.why.is_some() {
            inner.why.clone_from(&event.why);
        }
        if let Some((ask, answer)) = &event.answer {
            inner.answers.retain(|(other, _)| other != ask);
            inner.answers.push((*ask, answer.clone()));
        }
        if inner.waiting.len() >= WAITING {
            inner.waiting.pop_front();
            inner.missed += 1;
        }
        inner.waiting.push_back(event);
        drop(inner);
        self.changed.notify_all();
        self.bell.ring();
    }

    /// No event comes after this.
    pub(crate) fn end(&self) {
        self.lock().ended = true;
        self.changed.notify_all();
        self.bell.ring();
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.is_elsewhere() || self.lock().ended
    }

    /// Why it ended, unless it was closed.
    pub(crate) fn why(&self) -> Option<Error> {
        if self.is_elsewhere() { None } else { self.lock().why.clone() }
    }

    /// What was answered before does not count.
    pub(crate) fn forget(&self, ask: Ask) {
        self.lock().answers.retain(|(other, _)| *other != ask);
    }

    /// The answer; `None`: it has ended, or the time is over.
    ///
    /// # Errors
    /// What a signal handler raised.
    pub(crate) fn answer(
        &self,
        py: Python<'_>,
        ask: Ask,
        patience: Duration,
    ) -> PyResult<Option<Result<(), String>>> {
        let mut answer = None;
        self.wait(py, Some(patience), |inner| {
            answer = inner.answers.iter().find(|(other, _)| *other == ask).map(|(_, answer)| answer.clone());
            answer.is_some() || inner.ended
        })?;
        Ok(answer)
    }

    /// Waits until it has ended; false when the time is over.
    pub(crate) fn wait_end(&self, py: Python<'_>, patience: Option<Duration>) -> PyResult<bool> {
        self.wait(py, patience, |inner| inner.ended)
    }

    fn wait(
        &self,
        py: Python<'_>,
        patience: Option<Duration>,
        mut is: impl FnMut(&Inner) -> bool + Send,
    ) -> PyResult<bool> {
        #[expect(clippy::disallowed_methods, reason = "a user waits")]
        let begin = Instant::now();
        loop {
            if self.is_elsewhere() {
                return Ok(true);
            }
            let over = patience.is_some_and(|patience| begin.elapsed() >= patience);
            let slice =
                patience.map_or(SIGNALS, |patience| patience.saturating_sub(begin.elapsed()).min(SIGNALS));
            let done = py.detach(|| {
                let waited = self.changed.wait_timeout_while(self.lock(), slice, |inner| !is(inner));
                !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
            });
            if done || over {
                return Ok(done);
            }
            py.check_signals()?;
        }
    }

    /// The next event as its name and a dictionary; `None`: none waits. Makes the bell quiet before it looks.
    fn poll<'py>(&self, py: Python<'py>) -> PyResult<Polled<'py>> {
        if self.is_elsewhere() {
            return Err(crate::error::EndedError::new_err("the session is another process's"));
        }
        self.bell.quiet();
        let mut inner = self.lock();
        let (next, ended) = (inner.waiting.pop_front(), inner.ended);
        let more = !inner.waiting.is_empty();
        drop(inner);
        // The end is there for everybody who looks.
        if more || ended {
            self.bell.ring();
        }
        match next {
            Some(event) => Ok(Some((event.name, event.parts(py)?))),
            None if ended => Err(crate::error::EndedError::new_err("the session has ended")),
            None => Ok(None),
        }
    }
}

/// What happens to one end, which this does not hold: who keeps it keeps no robot moving.
#[pyclass(frozen, name = "Events", module = "taut._taut")]
pub(crate) struct PyEvents(pub(crate) Arc<Pump>);

#[pymethods]
impl PyEvents {
    fn poll<'py>(&self, py: Python<'py>) -> PyResult<Polled<'py>> {
        self.0.poll(py)
    }

    fn fileno(&self) -> i32 {
        self.0.bell.fd()
    }

    #[getter]
    fn missed(&self) -> u64 {
        self.0.lock().missed
    }
}

/// An event's name and its parts.
type Polled<'py> = Option<(&'static str, Bound<'py, pyo3::types::PyDict>)>;

/// Takes events until the last one, on a thread of its own.
pub(crate) fn pump<H, E>(
    name: &str,
    pump: &Arc<Pump>,
    handle: Arc<H>,
    next: impl Fn(&H) -> Option<E> + Send + 'static,
) -> PyResult<()>
where
    H: Send + Sync + 'static,
    Told: From<E>,
{
    let pump = Arc::clone(pump);
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        while let Some(event) = next(&handle) {
            pump.push(event.into());
        }
        pump.end();
    });
    thread.map(|_| ()).map_err(|error| crate::error::SystemError::new_err(error.to_string()))
}
