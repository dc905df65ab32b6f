//! Channels of the user's own messages. What a message is, and how it becomes bytes, is Python's to say; a schema's hash is compared.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use taut::{Channel, Encoding, Receiver, RecvError, Schema, Sender};

use crate::bell::Bell;
use crate::error::{EndedError, MessageError, SchemaError, SettingError, of_recv, of_send};

/// Texts of schemas that a process has at most.
const TEXTS: usize = 4_096;

/// The library has schemas of constants; those of Python are kept as long as the process, each text once.
fn kept(text: &str) -> PyResult<&'static str> {
    static KEPT: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = kept.get(text) {
        return Ok(known);
    }
    if kept.len() >= TEXTS {
        return Err(SettingError::new_err(format!("more than {TEXTS} texts of schemas in one process")));
    }
    let text: &'static str = Box::leak(text.to_owned().into_boxed_str());
    kept.insert(text);
    Ok(text)
}

/// How a channel is declared.
#[derive(FromPyObject)]
struct Declared {
    name: String,
    kind: String,
    schema: String,
    encoding: String,
    definition: String,
    deadline: Option<f64>,
    rate: Option<f64>,
    largest: Option<usize>,
}

impl Declared {
    fn channel(&self) -> PyResult<Channel> {
        let mut channel = match self.kind.as_str() {
            "motion" => Channel::motion(&self.name),
            "feedback" => Channel::feedback(&self.name),
            "command" => Channel::command(&self.name),
            "audio" => Channel::audio(&self.name),
            "video" => Channel::video(&self.name),
            "telemetry" => Channel::telemetry(&self.name),
            "bulk" => Channel::bulk(&self.name),
            kind => {
                let text = format!(
                    "a channel is motion, feedback, command, audio, video, telemetry or bulk, not `{kind}`"
                );
                return Err(SettingError::new_err(text));
            }
        };
        if let Some(age) = self.deadline {
            channel = channel.deadline(crate::seconds("deadline", age)?);
        }
        if let Some(hz) = self.rate {
            channel = channel.rate(hz);
        }
        Ok(self.largest.map_or(channel.clone(), |bytes| channel.largest(bytes)))
    }

    fn schema(&self) -> PyResult<Schema> {
        let encoding = Encoding::ALL.iter().find(|encoding| encoding.name() == self.encoding);
        let encoding = encoding
            .ok_or_else(|| SettingError::new_err(format!("no encoding is called `{}`", self.encoding)))?;
        Ok(Schema::new(kept(&self.schema)?, *encoding).definition(kept(&self.definition)?))
    }
}

/// The process whose threads serve a channel, once they do: one that was forked off has the channel, and none of them.
#[derive(Default)]
struct Process(AtomicU32);

impl Process {
    fn is_elsewhere(&self) -> bool {
        ![0, std::process::id()].contains(&self.0.load(Ordering::Relaxed))
    }

    fn check(&self) -> PyResult<()> {
        if self.is_elsewhere() {
            Err(EndedError::new_err("the session is another process's"))
        } else {
            Ok(())
        }
    }
}

/// Sends bytes.
#[pyclass(frozen, name = "Sender", module = "taut._taut")]
pub(crate) struct PySender {
    sender: Sender<Vec<u8>>,
    process: Process,
}

impl PySender {
    /// For a session of this process.
    pub(crate) fn start(&self) -> &Sender<Vec<u8>> {
        self.process.0.store(std::process::id(), Ordering::Relaxed);
        &self.sender
    }
}

#[pymethods]
impl PySender {
    #[new]
    fn new(declared: Declared) -> PyResult<Self> {
        let sender = Sender::of_schema(declared.channel()?, declared.schema()?);
        Ok(Self { sender, process: Process::default() })
    }

    fn send(&self, payload: Vec<u8>) -> PyResult<()> {
        self.process.check()?;
        self.sender.send(&payload).map_err(|error| of_send(&error))
    }

    #[getter]
    fn is_open(&self) -> bool {
        !self.process.is_elsewhere() && self.sender.is_open()
    }
}

/// Receives bytes.
#[pyclass(frozen, name = "Receiver", module = "taut._taut")]
pub(crate) struct PyReceiver {
    name: String,
    receiver: Receiver<Vec<u8>>,
    process: Process,
    /// Why the channel stays closed.
    refused: Mutex<Option<String>>,
    bell: Arc<Bell>,
}

impl PyReceiver {
    /// For a session of this process.
    pub(crate) fn start(&self) -> &Receiver<Vec<u8>> {
        self.process.0.store(std::process::id(), Ordering::Relaxed);
        &self.receiver
    }

    pub(crate) fn refuse(&self, channel: &str, why: &str) {
        if channel == self.name {
            *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(why.to_owned());
            self.bell.ring();
        }
    }

    /// Another peer may have the channel.
    pub(crate) fn hope(&self) {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn check(&self) -> PyResult<()> {
        self.process.check()?;
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone();
        refused.map_or(Ok(()), |why| {
            let name = &self.name;
            Err(SchemaError::new_err(format!(
                "channel `{name}` stays closed: {why}; declare it alike at both ends"
            )))
        })
    }
}

#[pymethods]
impl PyReceiver {
    #[new]
    fn new(declared: Declared) -> PyResult<Self> {
        let receiver = Receiver::of_schema(declared.channel()?, declared.schema()?);
        let process = Process::default();
        Ok(Self { name: declared.name, receiver, process, refused: Mutex::default(), bell: Bell::new()? })
    }

    /// The next message, if there is one; else the bell rings when there is.
    fn poll<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        self.process.check()?;
        self.bell.quiet();
        self.check()?;
        let waker = Waker::from(Arc::clone(&self.bell));
        let polled = pin!(self.receiver.next()).poll(&mut Context::from_waker(&waker));
        // Another task may wait for the bell, which now says nothing of what comes next.
        if polled.is_ready() {
            self.bell.ring();
        }
        match polled {
            Poll::Ready(Ok(payload)) => Ok(Some(PyBytes::new(py, &payload))),
            Poll::Ready(Err(error)) => Err(of_recv(&error)),
            Poll::Pending => Ok(None),
        }
    }

    /// The next message; `None` when the time is over.
    #[pyo3(signature = (timeout = None))]
    fn recv<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        const SLICE: Duration = Duration::from_millis(50);
        let mut left = timeout.map(|timeout| crate::seconds("timeout", timeout)).transpose()?;
        loop {
            self.check()?;
            let slice = left.map_or(SLICE, |left| left.min(SLICE));
            match py.detach(|| self.receiver.recv_timeout(slice)) {
                Ok(payload) => return Ok(Some(PyBytes::new(py, &payload))),
                Err(RecvError::Empty) => {}
                Err(RecvError::Malformed(why)) => return Err(MessageError::new_err(why)),
                Err(error) => return Err(of_recv(&error)),
            }
            py.check_signals()?;
            left = left.map(|left| left.saturating_sub(slice));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(None);
            }
        }
    }

    fn fileno(&self) -> i32 {
        self.bell.fd()
    }

    #[getter]
    fn missed(&self) -> u64 {
        self.receiver.missed()
    }
}
