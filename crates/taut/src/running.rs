//! A session on a thread of its own.

use std::net::{SocketAddr, ToSocketAddrs};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use taut_io::session::{Credentials, Endpoint, PathSpec, Remote, TransportConfig};
use taut_io::{Machine, ThreadOptions};

use crate::body::panic_text;
use crate::common::{Common, Known};
use crate::error::Error;

/// Who drops a handle waits so long for the goodbye, and no longer: the thread may be held up.
const GOODBYE: Duration = Duration::from_secs(2);

/// The thread of a session, and the way to it.
pub(crate) struct Running<M: Machine> {
    pub(crate) remote: Remote<M>,
    ended: Mutex<Receiver<()>>,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

/// Is called when something goes out of scope, however that comes about.
struct AtEnd<F: FnMut()>(F);

impl<F: FnMut()> Drop for AtEnd<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

impl<M: Machine + 'static> Running<M>
where
    M::Command: Send,
{
    /// Runs `work`, which says when it has begun; an early end is an error. `at_end` is called whatever ends it.
    pub(crate) fn start(
        name: &str,
        work: impl FnOnce(Box<dyn FnOnce(Remote<M>)>) -> Result<(), Error> + Send + 'static,
        at_end: impl FnMut() + Send + 'static,
    ) -> Result<Self, Error> {
        let (remotes, begun) = sync_channel(1);
        let (end, ended) = sync_channel(0);
        let run = move || {
            let _end = end;
            let _at_end = AtEnd(at_end);
            let _ = ThreadOptions::new().apply(); // Without it the session is less punctual.
            let started = move |remote| drop(remotes.send(remote));
            catch_unwind(AssertUnwindSafe(|| work(Box::new(started))))
                .unwrap_or_else(|panic| Err(Error::Panicked(panic_text(&*panic))))
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run);
        let thread = thread.map_err(|error| Error::System(format!("a thread: {error}")))?;
        match begun.recv() {
            Ok(remote) => Ok(Self { remote, ended: Mutex::new(ended), thread: Some(thread) }),
            Err(_) => Err(outcome(thread).err().unwrap_or(Error::System("it ended at once".to_owned()))),
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// How it ended. Waits for that.
    pub(crate) fn join(&mut self) -> Result<(), Error> {
        self.thread.take().map_or(Ok(()), outcome)
    }

    /// Waits for the goodbye. A thread that is held up is left to itself.
    pub(crate) fn leave(&mut self) {
        let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
        if ended.recv_timeout(GOODBYE) == Err(RecvTimeoutError::Disconnected) {
            let _ = self.join(); // Nobody asks any more.
        }
    }
}

/// What both ends' handles do alike.
macro_rules! of_handles {
    ($handle:ident, $event:ty) => {
        impl $handle {
            /// How it goes.
            pub fn status(&self) -> $crate::status::Status {
                self.told.board.get()
            }

            /// What happens to it.
            pub fn events(&self) -> &$crate::handle::Events<$event> {
                &self.told.events
            }

            /// Has it ended?
            pub fn has_ended(&self) -> bool {
                self.running.has_ended()
            }

            /// Waits until it has ended, after [`close`](Self::close) or by an error. What was counted.
            ///
            /// # Errors
            /// When there was no session, it was lost or could not go on, or code of yours panicked.
            pub fn join(mut self) -> Result<$crate::status::Status, $crate::error::Error> {
                self.running.join()?;
                Ok(self.told.board.get())
            }
        }

        impl Drop for $handle {
            fn drop(&mut self) {
                if !self.running.has_ended() {
                    self.close();
                    self.running.leave();
                }
            }
        }
    };
}
pub(crate) use of_handles;

pub(crate) fn system(error: impl std::fmt::Display) -> Error {
    Error::System(error.to_string())
}

fn outcome(thread: JoinHandle<Result<(), Error>>) -> Result<(), Error> {
    thread.join().unwrap_or_else(|panic| Err(Error::Panicked(panic_text(&*panic))))
}

impl Known {
    pub(crate) fn transport(&self) -> TransportConfig {
        self.kind.into()
    }

    pub(crate) fn credentials(self) -> Option<Credentials> {
        Some(Credentials { identity: self.identity.0, trust: self.trust })
    }
}

impl Common {
    /// Over the paths that were named, if any.
    pub(crate) fn over(&self, endpoint: Endpoint) -> Result<Endpoint, Error> {
        let paths: Result<Vec<PathSpec>, String> = self.paths.iter().map(|path| path.parse()).collect();
        let paths = paths.map_err(|why| Error::invalid("path", why))?;
        endpoint.over(&paths).map_err(|error| Error::System(error.to_string()))
    }

    /// The file for stops, absolute: its folder is made where there is none.
    pub(crate) fn state_file(&self) -> Result<Option<std::path::PathBuf>, Error> {
        let absolute = self.state.as_ref().map(std::path::absolute).transpose();
        absolute.map_err(|error| Error::System(format!("the file for stops: {error}")))
    }
}

/// `HOST:PORT`, the first address that the name has.
pub(crate) fn resolve(setting: &'static str, text: &str) -> Result<SocketAddr, Error> {
    let wrong = |why: String| {
        Error::invalid(setting, format!("`{text}` {why}; write HOST:PORT, such as 10.0.0.2:4433"))
    };
    let mut addresses = text.to_socket_addrs().map_err(|error| wrong(format!("is no address: {error}")))?;
    addresses.next().ok_or_else(|| wrong("has no address".to_owned()))
}
