//! What commands on real sockets share: signals, the session's thread and its scheduling, output line by line.

use std::ffi::OsStr;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use clap::Args;
use signal_hook::consts::SIGABRT;
use signal_hook::iterator::Signals;
use taut_core::{Duration, Time};
use taut_io::lines::Line;
use taut_io::{
    CapabilitySet, Clock, DriverConfig, ThreadOptions, drop_privileges, signals_that_end, spawn_unprivileged,
};
use taut_session::StopCause;

use crate::last_stop;
use crate::part::PartOf;
use crate::quantity::duration;
use crate::streams::print;

/// How the thread that must be on time is run.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Scheduling {
    /// Wake up so long before a deadline and spin: punctual to some µs, at the cost of that much CPU each time [default:
    /// 0us; of emulate: 100us]
    #[arg(long, value_name = "DURATION")]
    early: Option<Duration>,
    /// Run on this CPU only, counted from 0
    #[arg(long)]
    cpu: Option<usize>,
    /// Run under SCHED_FIFO at this priority (needs CAP_SYS_NICE)
    #[arg(long, value_name = "PRIORITY", value_parser = clap::value_parser!(u8).range(1..=99))]
    fifo: Option<u8>,
    /// Keep all memory of this process from being paged out (needs CAP_SYS_RESOURCE, or no limit of locked memory)
    #[arg(long)]
    lock_memory: bool,
}

/// Argument `--every`: how often something is told.
pub(crate) fn every(text: &str) -> Result<Duration, String> {
    let period = duration(text)?;
    if period < Duration::from_millis(1) {
        return Err("is told at most once in a millisecond: 1ms or longer".to_owned());
    }
    Ok(period)
}

/// A finite number from 0 up, without a unit: the argument's name says it.
pub(crate) fn amount(text: &str) -> Result<f32, String> {
    match text.parse::<f32>() {
        Ok(amount) if amount >= 0.0 && amount.is_finite() => Ok(amount),
        Ok(_) => Err("is a finite number from 0 up".to_owned()),
        Err(_) => Err("is a number without its unit, such as 5 or 0.25".to_owned()),
    }
}

/// Argument `--listen`.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "is an address of this host and a port, such as 0.0.0.0:4433 (any IPv4 address) or [::]:4433"
            .to_owned()
    })
}

impl Scheduling {
    /// At this real-time priority, if any.
    pub(crate) const fn at(fifo: Option<u8>) -> Self {
        Self { early: None, cpu: None, fifo, lock_memory: false }
    }

    pub(crate) fn driver(self) -> DriverConfig {
        DriverConfig::new().early(self.early.unwrap_or(Duration::ZERO))
    }

    /// Does it have a real-time priority?
    pub(crate) const fn is_fifo(self) -> bool {
        self.fifo.is_some()
    }

    /// What a thread needs to apply it.
    fn capabilities(self) -> CapabilitySet {
        let of = |is: bool, capability| if is { capability } else { CapabilitySet::empty() };
        of(self.is_fifo(), CapabilitySet::SYS_NICE) | of(self.lock_memory, CapabilitySet::SYS_RESOURCE)
    }

    /// For an emulator.
    pub(crate) fn early_or_default(self) -> Duration {
        self.early.unwrap_or(Duration::from_micros(100))
    }

    pub(crate) fn thread(self) -> ThreadOptions {
        let options = self.cpu.map_or(ThreadOptions::new(), |cpu| ThreadOptions::new().cpu(cpu));
        self.fifo.map_or(options, |priority| options.fifo(priority)).lock_memory(self.lock_memory)
    }

    /// Asks for it, for the thread that calls. What the system refuses is said, and goes on without.
    pub(crate) fn apply(self) {
        for warning in self.thread().apply() {
            crate::say(&format!("goes on without {warning}"));
        }
    }
}

/// Calls back at the first signal that would end the process, or stop it where it stands; at the second one it ends, and soon after
/// `SIGABRT` in any case. Before either the device is stopped. Once it is dropped, the first one ends the process too: a process has one at a time.
pub(crate) struct OnSignal(());

/// What is asked to end by `SIGABRT` has so long for its goodbye. systemd sends that to a process whose session no longer turns, and
/// waits for its end before it starts the next.
const ABORTS: std::time::Duration = std::time::Duration::from_millis(700);

/// How what a signal ends is asked to.
type End = Box<dyn FnMut() + Send>;

/// What a signal does in this process.
struct Ends {
    is_watched: bool,
    is_part: bool,
    end: Option<End>,
    is_asked: bool,
}

static ENDS: Mutex<Ends> = Mutex::new(Ends { is_watched: false, is_part: false, end: None, is_asked: false });

impl Ends {
    /// Asks what is to end, if that has not been asked; whether it is waited for.
    fn ask(&mut self) -> bool {
        match &mut self.end {
            Some(end) if !self.is_asked => {
                self.is_asked = true;
                end();
                true
            }
            // Whoever asks twice does not want to wait for a goodbye.
            asked => asked.is_some() && self.is_part,
        }
    }
}

impl OnSignal {
    pub(crate) fn new(first: impl FnMut() + Send + 'static) -> Result<Self, String> {
        let signals = Self::before(&PartOf::default())?;
        signals.end_by(first);
        Ok(signals)
    }

    /// The same before there is what a signal ends: until [`end_by`](Self::end_by) says how, the first signal ends the process. A session
    /// that begins later is never without.
    ///
    /// The process may be a part of another one: then the end of that one is such a signal, and those after the first change nothing. A
    /// terminal sends its signal to a part and to its owner, which asks the part in its turn; and whoever cannot wait ends the owner.
    pub(crate) fn before(part: &PartOf) -> Result<Self, String> {
        let mut ends = lock(&ENDS);
        ends.is_part = part.is_part();
        if !ends.is_watched {
            taut_io::ignore_signals_of_io().map_err(|error| format!("signals: {error}"))?;
            let mut signals =
                Signals::new(signals_that_end()).map_err(|error| format!("signals: {error}"))?;
            let work = move || {
                for signal in signals.forever() {
                    last_stop::stop(StopCause::Host);
                    let waits = lock(&ENDS).ask();
                    if waits && signal != SIGABRT {
                        continue;
                    }
                    if waits {
                        std::thread::park_timeout(ABORTS);
                    }
                    crate::terminal::restore();
                    std::process::exit(128 + signal);
                }
            };
            spawn_unprivileged("taut signals", || (), work).map_err(|error| format!("a thread: {error}"))?;
            ends.is_watched = true;
        }
        drop(ends);
        part.ends_with_owner().map_err(|error| format!("the process that this is a part of: {error}"))?;
        Ok(Self(()))
    }

    /// What the first signal does from now on, in place of ending the process. It waits for no longer than a moment.
    pub(crate) fn end_by(&self, end: impl FnMut() + Send + 'static) {
        let mut ends = lock(&ENDS);
        ends.end = Some(Box::new(end));
        ends.is_asked = false;
    }
}

impl Drop for OnSignal {
    fn drop(&mut self) {
        lock(&ENDS).end = None;
    }
}

/// One word of a shell's.
pub(crate) fn quoted(word: impl AsRef<OsStr>) -> String {
    format!("'{}'", word.as_ref().to_string_lossy().replace('\'', "'\\''"))
}

/// Also of a thread that panicked: what is behind it is whole after every statement.
pub(crate) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for threads that are about to end, all of them together for no longer than this.
pub(crate) fn join_within<R>(within: std::time::Duration, threads: Vec<JoinHandle<R>>) {
    let due = Clock::since_boot() + Duration::from(within);
    while Clock::since_boot() < due && !threads.iter().all(JoinHandle::is_finished) {
        std::thread::park_timeout(std::time::Duration::from_millis(10));
    }
}

/// The session's thread: what it tells, and how it ends. Who listens may be slow; then some of it is left out, and the
/// session does not wait.
pub(crate) struct Session<Remote, Note, R> {
    pub(crate) remote: Remote,
    pub(crate) notes: Receiver<(Time, Note)>,
    thread: JoinHandle<R>,
}

/// Notes that wait at most.
const NOTES: usize = 4_096;

/// The session's thread says that it has begun: with the threads beside it, which need their priority from its own.
pub(crate) struct Begun<Remote> {
    remotes: SyncSender<Result<Remote, String>>,
    kept: CapabilitySet,
}

impl<Remote> Begun<Remote> {
    /// Or what of its threads could not be started: then there is no session.
    pub(crate) fn tell(self, remote: Result<Remote, String>) {
        let _ = drop_privileges(self.kept);
        let _ = self.remotes.send(remote);
    }
}

impl<Remote, Note, R> Session<Remote, Note, R>
where
    Remote: Send + 'static,
    Note: Send + 'static,
    R: Send + 'static,
{
    /// Starts `work`, which says when it has begun, and how to reach it. An early end is its result. From then on no thread has
    /// more capabilities than `kept`.
    pub(crate) fn start(
        scheduling: Scheduling,
        kept: CapabilitySet,
        work: impl FnOnce(Begun<Remote>, SyncSender<(Time, Note)>) -> R + Send + 'static,
    ) -> Result<Result<Self, R>, String> {
        let (remote_sender, remotes) = sync_channel(1);
        let (note_sender, notes) = sync_channel(NOTES);
        // The rest, which the new thread needs for a moment, cannot fail to go after that.
        drop_privileges(kept | scheduling.capabilities()).map_err(privileges)?;
        let run = move || {
            let _stop = last_stop::AtEnd;
            scheduling.apply();
            work(Begun { remotes: remote_sender, kept }, note_sender)
        };
        let thread = std::thread::Builder::new().name("taut session".to_owned()).spawn(run);
        let thread = thread.map_err(|error| format!("a thread: {error}"))?;
        drop_privileges(kept).map_err(privileges)?;
        Ok(match remotes.recv() {
            Ok(remote) => Ok(Self { remote: remote?, notes, thread }),
            Err(_) => Err(join(thread)),
        })
    }

    /// How it ended.
    pub(crate) fn join(self) -> R {
        drop(self.notes);
        join(self.thread)
    }
}

fn join<R>(thread: JoinHandle<R>) -> R {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// `HOST:PORT`, the first address that the name has.
pub(crate) fn resolve(text: &str) -> Result<SocketAddr, String> {
    resolve_all(text).map(|addresses| addresses[0])
}

/// `HOST:PORT`, every address that the name has, one at least; the first is the one to use.
pub(crate) fn resolve_all(text: &str) -> Result<Vec<SocketAddr>, String> {
    let addresses = text
        .to_socket_addrs()
        .map_err(|error| format!("`{text}`: {error}; write HOST:PORT, such as 10.0.0.2:4433"))?;
    let addresses: Vec<_> = addresses.collect();
    if addresses.is_empty() { Err(format!("`{text}` has no address")) } else { Ok(addresses) }
}

/// A peer as it was written, with the address that was used where it was written as a name, and those that were not.
pub(crate) fn named(text: &str, addresses: &[SocketAddr]) -> String {
    let (used, others) = addresses.split_first().expect("there is one");
    if text.parse::<SocketAddr>().is_ok() {
        return text.to_owned();
    }
    let others: Vec<String> = others.iter().filter(|other| *other != used).map(ToString::to_string).collect();
    let more = if others.is_empty() { String::new() } else { format!("; it also has {}", others.join(", ")) };
    format!("{text} ({used}{more})")
}

/// Why a command goes no further: it would have more rights than it needs.
pub(crate) fn privileges(error: std::io::Error) -> String {
    format!("privileges cannot be given up: {error}")
}

/// One line of JSON: what happened, when, and more.
pub(crate) fn json_line(
    event: &'static str,
    at: Time,
    more: impl IntoIterator<Item = (&'static str, serde_json::Value)>,
) -> String {
    shown(at, Line::new(event, more))
}

/// Prints what was measured, as a line of JSON or of text.
pub(crate) fn print_measures(
    event: &'static str,
    at: Time,
    measures: Vec<(&'static str, serde_json::Value)>,
    json: bool,
) {
    if json {
        return print(&json_line(event, at, measures));
    }
    let text: Vec<String> = measures.into_iter().map(|(key, value)| format!("{key} {value}")).collect();
    print(&format!("{:>9.3} s  {event}: {}\n", at.as_secs_f64(), text.join(", ")));
}

/// A line, as a terminal may show it.
pub(crate) fn shown(at: Time, line: Line) -> String {
    format!("{}\n", crate::harmless_json(line.at(at)))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// Says that the process below is meant.
    const HANGS: &str = "TAUT_TEST_HANGS";

    /// Runs as a process of its own, for [`a_session_that_hangs_is_ended_by_an_abort`].
    #[test]
    fn hangs_where_it_is_told_to() {
        let Ok(signal) = std::env::var(HANGS) else { return };
        let _signals = OnSignal::new(|| crate::say("asked")).unwrap();
        let pid = std::process::id().to_string();
        assert!(Command::new("kill").args([signal, pid]).status().unwrap().success());
        std::thread::park_timeout(std::time::Duration::from_secs(3));
        crate::say("hung");
    }

    #[test]
    fn a_session_that_hangs_is_ended_by_an_abort() {
        for (signal, code) in [("-ABRT", Some(128 + SIGABRT)), ("-TERM", Some(0))] {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["--exact", "host::tests::hangs_where_it_is_told_to", "--nocapture"]);
            let ended = command.env(HANGS, signal).stdin(Stdio::null()).output().unwrap();
            let told = String::from_utf8_lossy(&ended.stderr);
            assert_eq!(ended.status.code(), code, "{signal}: {told}");
            let hung = code == Some(0);
            assert_eq!((told.contains("asked"), told.contains("hung")), (true, hung), "{signal}: {told}");
        }
    }

    #[test]
    fn a_peer_that_is_written_as_a_name_is_told_with_its_addresses() {
        let [six, four] = ["[fd00::1]:4433", "10.0.0.2:4433"].map(|text| text.parse().unwrap());
        assert_eq!(named("10.0.0.2:4433", &[four]), "10.0.0.2:4433");
        assert_eq!(named("robot:4433", &[four, four]), "robot:4433 (10.0.0.2:4433)");
        let both = "robot:4433 ([fd00::1]:4433; it also has 10.0.0.2:4433)";
        assert_eq!(named("robot:4433", &[six, four]), both);
    }
}
