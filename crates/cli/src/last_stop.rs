//! The device is stopped before this process ends, whatever ends it: a signal, an error, a panic.
//!
//! `SIGKILL`, `SIGSTOP` and a fault of the processor (`SIGSEGV`, `SIGILL`, `SIGFPE`) let nobody do anything: against these a
//! device stops by itself when it is told nothing any more.

use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::OnceLock;

use taut_core::Duration;
use taut_session::StopCause;

use crate::streams;

type Stop = Box<dyn Fn(StopCause) + Send + Sync>;

/// One process has one device.
static DEVICE: OnceLock<Stop> = OnceLock::new();

/// The exit status after a panic, as Rust has it.
const PANICKED: i32 = 101;
/// A process that panicked waits so long for what it has to say.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Names how to stop the device: from any thread, also while the session's waits for the device. It returns at once, does
/// not panic, and may be called again.
pub(crate) fn arm(stop: impl Fn(StopCause) + Send + Sync + 'static) -> Result<(), String> {
    DEVICE.set(Box::new(stop)).map_err(|_| "a process has one device".to_owned())
}

/// From now on a panic ends the process, whichever thread it is: one that was to read the button is missed as much as the
/// session's.
pub(crate) fn end_on_panic() {
    std::panic::set_hook(Box::new(end_after));
}

/// Stops the device when it goes out of scope: a thread that holds it ends for whatever reason.
pub(crate) struct AtEnd;

impl Drop for AtEnd {
    fn drop(&mut self) {
        stop(StopCause::Host);
    }
}

/// Stops the device; nothing where there is none.
pub(crate) fn stop(cause: StopCause) {
    if let Some(stop) = DEVICE.get() {
        let _ = catch_unwind(AssertUnwindSafe(|| stop(cause))); // There is nothing else to try.
    }
}

fn end_after(panic: &PanicHookInfo<'_>) {
    stop(StopCause::Host);
    crate::terminal::restore();
    crate::say(&format!("{panic}"));
    streams::finish(LAST_WORDS);
    // Meanwhile the session may have gone on.
    stop(StopCause::Host);
    std::process::exit(PANICKED);
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// What the process below is told to do.
    const TASK: &str = "TAUT_TEST_LAST_STOP";

    /// Runs as a process of its own, for [`a_panic_on_any_thread_stops_the_device_before_the_process_ends`].
    #[test]
    fn panics_where_it_is_told_to() {
        let Ok(task) = std::env::var(TASK) else { return };
        arm(|cause| drop(std::fs::write("/dev/stderr", format!("stopped: {}\n", cause.name())))).unwrap();
        end_on_panic();
        match &*task {
            "helper" => drop(std::thread::spawn(|| panic!("in a helper"))),
            "session" => {
                let scheduling = crate::host::Scheduling::at(None);
                let work = |begun: crate::host::Begun<()>, _: std::sync::mpsc::SyncSender<_>| {
                    begun.tell(Ok(()));
                    panic!("in the session");
                };
                let _ = crate::host::Session::<(), (), ()>::start(
                    scheduling,
                    taut_io::CapabilitySet::all(),
                    work,
                )
                .unwrap();
            }
            _ => unreachable!("{task}"),
        }
        std::thread::park_timeout(std::time::Duration::from_secs(60));
    }

    #[test]
    fn a_panic_on_any_thread_stops_the_device_before_the_process_ends() {
        for task in ["helper", "session"] {
            let mut command = Command::new(std::env::current_exe().unwrap());
            let name = "last_stop::tests::panics_where_it_is_told_to";
            let ended = command.args(["--exact", name, "--nocapture"]).env(TASK, task).output().unwrap();
            let told = String::from_utf8_lossy(&ended.stderr);
            assert_eq!(ended.status.code(), Some(PANICKED), "{told}");
            let (stopped, said) = (told.find("stopped: host"), told.find(&format!("in a {task}")));
            let said = said.or_else(|| told.find("in the session"));
            assert!(stopped.is_some() && stopped < said, "{told}");
        }
    }
}
