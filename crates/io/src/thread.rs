//! What a thread asks of the scheduler, so that it runs when it is due.

use std::fmt;
use std::io;
use std::num::NonZeroU64;

use nix::libc;
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{CpuSet, sched_setaffinity, set_current_timer_slack};

/// How a thread that must be on time is scheduled. Everything is off by default, but for what costs no one else a share of
/// the processor: timer slack and slice.
///
/// Each is a request: what the system refuses comes back as a [`Warning`] from [`ThreadOptions::apply`], and the thread
/// runs all the same, less punctually.
///
/// | option | default | what it costs | needs |
/// | --- | --- | --- | --- |
/// | timer slack of 1 ns | always | timers are not bundled: more wake-ups | |
/// | a [slice](set_slice) of 0.1 ms | always | whoever computes beside it is interrupted more often | Linux 6.12 |
/// | [`cpu`](Self::cpu) | none | the thread waits for that CPU although another may be idle | |
/// | [`fifo`](Self::fifo) | none | a thread that spins starves all others on its CPU | `CAP_SYS_NICE` or `RLIMIT_RTPRIO` |
/// | [`lock_memory`](Self::lock_memory) | off | all memory of the process stays resident | `CAP_SYS_RESOURCE` or no `RLIMIT_MEMLOCK` |
///
/// ```
/// let options = taut_io::ThreadOptions::new().cpu(0);
/// std::thread::spawn(move || options.apply().iter().for_each(|warning| println!("{warning}"))).join().unwrap();
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadOptions {
    cpu: Option<usize>,
    fifo: Option<u8>,
    lock_memory: bool,
}

/// A request that was refused; the thread runs without it.
#[derive(Debug)]
pub struct Warning {
    /// What was asked for, and how to be allowed to.
    pub what: String,
    /// What the system said.
    pub error: io::Error,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.error)
    }
}

impl ThreadOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs on this CPU only, counted from 0. Default: on any.
    pub fn cpu(mut self, cpu: usize) -> Self {
        self.cpu = Some(cpu);
        self
    }

    /// Runs under `SCHED_FIFO` (sched(7)) at this priority, 1 to 99: before every thread without one. Default: none. Not
    /// for a thread that never sleeps: the kernel stops it for 50 ms of every second (`sched_rt_runtime_us`).
    pub fn fifo(mut self, priority: u8) -> Self {
        self.fifo = Some(priority);
        self
    }

    /// Keeps all memory of the process, present and future, from being paged out (mlockall(2)). Default: off.
    pub fn lock_memory(mut self, on: bool) -> Self {
        self.lock_memory = on;
        self
    }

    /// Asks the system for all of it, for the calling thread.
    pub fn apply(&self) -> Vec<Warning> {
        let mut warnings = Vec::new();
        let mut warn = |what: String, error: io::Error| warnings.push(Warning { what, error });
        if let Err(error) = set_current_timer_slack(NonZeroU64::new(1)) {
            warn("timer slack of 1 ns".to_owned(), error.into());
        }
        if let Err(error) = set_slice(Slice::Short) {
            warn("a slice of 0.1 ms".to_owned(), error);
        }
        if let Some(cpu) = self.cpu
            && let Err(error) = pin(cpu)
        {
            warn(format!("running on CPU {cpu}"), error);
        }
        if let Some(priority) = self.fifo {
            let mut ask = |priority: u8, what: &str| {
                let how = if priority > 99 {
                    "there is none above 99: 98 leaves one for that"
                } else {
                    "grant it by `ulimit -r 99` or CAP_SYS_NICE"
                };
                let refused = set_fifo(priority)
                    .map_err(|error| (format!("SCHED_FIFO priority {priority}{what} ({how})"), error));
                refused.map_err(|(what, error)| warn(what, error)).is_ok()
            };
            let above = " for what outranks this thread, such as a stop";
            // What stops a robot whose session hangs is to `outrank` this thread.
            if ask(priority, "") && ask(priority.saturating_add(1), above) {
                let _ = set_fifo(priority); // To have less needs no privilege.
            }
        }
        if self.lock_memory
            && let Err(error) = lock_memory()
        {
            let what = "locking memory (grant it by `ulimit -l unlimited` or CAP_SYS_RESOURCE)";
            warn(what.to_owned(), error);
        }
        warnings
    }
}

/// Under a limit what is allocated later would be refused, and the process end by it: there must be none.
fn lock_memory() -> io::Result<()> {
    setrlimit(Resource::Memlock, Rlimit { current: None, maximum: None })?;
    Ok(mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE)?)
}

fn pin(cpu: usize) -> io::Result<()> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(sched_setaffinity(None, &set)?)
}

/// For how long a thread wants the processor at a time. Linux serves first whose slice would end first (EEVDF: Stoica, Abdel-Wahab,
/// 1995), and from 6.12 on lets a thread that wakes interrupt another with a longer one. Nobody's share grows or shrinks by it: a
/// lock that is held beside it is given back as soon as ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slice {
    /// 0.1 ms, the least that there is: of threads that wake often and have little to do, as a session's.
    Short,
    /// The system's own, about 3 ms: of threads that compute for longer, such as those that encode pictures.
    Usual,
}

/// Sets the calling thread's slice, which threads that it starts inherit. Older kernels take it and do nothing; of one that runs
/// under `SCHED_FIFO` nothing changes.
///
/// # Errors
///
/// What the system says where it refuses, as some containers do.
pub fn set_slice(slice: Slice) -> io::Result<()> {
    let mut attributes = attributes()?;
    if attributes.policy != libc::SCHED_OTHER as u32 {
        return Ok(());
    }
    attributes.runtime = match slice {
        Slice::Short => 100_000,
        Slice::Usual => 0,
    };
    // SAFETY: the kernel reads `attributes`, as long as it says itself (sched_setattr(2)), and it outlives the call. No crate of this
    // workspace wraps it.
    #[allow(unsafe_code)]
    let status = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// How the calling thread is scheduled.
fn attributes() -> io::Result<Attributes> {
    let mut attributes = Attributes::default();
    let size = size_of::<Attributes>();
    // SAFETY: the kernel writes at most `size` bytes to `attributes`, which outlives the call. No crate of this workspace wraps it.
    #[allow(unsafe_code)]
    let status = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
    if status == 0 { Ok(attributes) } else { Err(io::Error::last_os_error()) }
}

/// The kernel's `struct sched_attr`, in its first form.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

fn set_fifo(priority: u8) -> io::Result<()> {
    set_policy(libc::SCHED_FIFO, priority)
}

fn set_policy(policy: libc::c_int, priority: u8) -> io::Result<()> {
    let priority = libc::c_int::from(priority);
    // SAFETY: of `struct sched_param` the kernel reads this one number (sched_setscheduler(2)), which lives until the call returns, and
    // nothing else. No crate of this workspace wraps it, and musl's own function refuses.
    #[allow(unsafe_code)]
    let status = unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const priority) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// For a thread that must run when the one that started it does not let go of its CPU: on every CPU, one priority above,
/// and never late by more than the timer. What the system refuses it goes on without.
pub fn outrank() {
    let _ = set_current_timer_slack(NonZeroU64::new(1));
    let _ = set_slice(Slice::Short);
    run_anywhere();
    if let Some(priority) = fifo() {
        let _ = set_fifo(priority.saturating_add(1).min(99));
    }
}

fn run_anywhere() {
    let mut every = CpuSet::new();
    (0..CpuSet::MAX_CPU).for_each(|cpu| every.set(cpu));
    let _ = sched_setaffinity(None, &every);
}

/// For a thread that one which [outranks](outrank) another has started, and that is to go behind that one: two priorities below, or as any
/// other thread of the system where there is none. To have less needs no privilege.
pub fn fall_back() {
    match fifo() {
        Some(priority @ 3..) => _ = set_fifo(priority - 2),
        Some(_) => stand_back(),
        None => {}
    }
}

/// For a thread that serves whoever asks, started by one that must be on time: as any other thread of the system, on every CPU. To have less needs no privilege.
pub fn stand_back() {
    if fifo().is_some() {
        let _ = set_policy(libc::SCHED_OTHER, 0);
    }
    let _ = set_slice(Slice::Usual);
    run_anywhere();
}

/// The calling thread's priority, where it runs under `SCHED_FIFO`.
fn fifo() -> Option<u8> {
    let mut priority: libc::c_int = 0;
    // SAFETY: the calls ask about the calling thread, and write `priority`, which outlives them and is all of the kernel's `struct
    // sched_param`, and nothing else. No crate of this workspace wraps them.
    #[allow(unsafe_code)]
    let known = unsafe {
        libc::syscall(libc::SYS_sched_getscheduler, 0) == libc::c_long::from(libc::SCHED_FIFO)
            && libc::syscall(libc::SYS_sched_getparam, 0, &raw mut priority) == 0
    };
    known.then(|| u8::try_from(priority).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warnings_of(options: ThreadOptions) -> Vec<String> {
        let apply = move || options.apply().iter().map(ToString::to_string).collect();
        std::thread::spawn(apply).join().expect("nothing panics")
    }

    #[test]
    fn what_the_system_grants_gives_no_warning() {
        assert_eq!(warnings_of(ThreadOptions::new().cpu(0)), Vec::<String>::new());
    }

    #[test]
    fn a_slice_is_inherited_and_given_back_and_leaves_the_nice_value() {
        let asked = std::thread::spawn(|| {
            rustix::process::nice(3).unwrap();
            let nice = attributes().unwrap().nice;
            set_slice(Slice::Short).unwrap();
            let inherited = std::thread::spawn(|| attributes().unwrap()).join().unwrap();
            set_slice(Slice::Usual).unwrap();
            (nice, inherited, attributes().unwrap())
        });
        let (nice, inherited, given_back) = asked.join().unwrap();
        assert_eq!((inherited.nice, given_back.nice), (nice, nice));
        assert_ne!(given_back.runtime, 100_000);
        // From Linux 6.12 on a thread has a slice of its own.
        if given_back.runtime > 0 {
            assert_eq!(inherited.runtime, 100_000);
        }
    }

    #[test]
    fn who_outranks_its_starter_starts_others_that_do_not() {
        let ranks = std::thread::spawn(|| {
            set_fifo(5).ok()?;
            let above = || {
                outrank();
                let beside = std::thread::spawn(|| {
                    let inherited = fifo();
                    fall_back();
                    let below = fifo();
                    stand_back();
                    (inherited, below, fifo())
                });
                (fifo(), beside.join().expect("nothing panics"))
            };
            Some(std::thread::spawn(above).join().expect("nothing panics"))
        });
        match ranks.join().expect("nothing panics") {
            None => println!("skipped: SCHED_FIFO needs CAP_SYS_NICE"),
            ranks => assert_eq!(ranks, Some((Some(6), (Some(6), Some(4), None)))),
        }
    }

    #[test]
    fn a_priority_that_nothing_can_outrank_is_said() {
        use rustix::process::{Resource, Rlimit, setrlimit};
        let limit = Rlimit { current: Some(5), maximum: Some(5) };
        // It is the limit of all threads: of those of other tests, which have this capability as well, it bounds nothing.
        let may_anything = rustix::thread::capabilities(None)
            .is_ok_and(|has| has.effective.contains(crate::CapabilitySet::SYS_NICE));
        if !may_anything || fifo_is_refused() || setrlimit(Resource::Rtprio, limit).is_err() {
            return println!("skipped: SCHED_FIFO needs CAP_SYS_NICE, and its limit CAP_SYS_RESOURCE");
        }
        let unprivileged = |priority| {
            std::thread::spawn(move || {
                crate::drop_privileges(crate::CapabilitySet::empty()).unwrap();
                let warnings = ThreadOptions::new().fifo(priority).apply();
                (warnings.iter().map(ToString::to_string).collect::<Vec<_>>(), fifo())
            })
        };
        assert_eq!(unprivileged(4).join().unwrap(), (Vec::new(), Some(4)));
        let (warnings, has) = unprivileged(5).join().unwrap();
        assert_eq!((warnings.len(), has), (1, Some(5)), "{warnings:?}");
        assert!(
            warnings[0].starts_with("SCHED_FIFO priority 6 for what outranks this thread"),
            "{warnings:?}"
        );
    }

    /// Asked on a thread of its own, which ends with it.
    fn fifo_is_refused() -> bool {
        std::thread::spawn(|| set_fifo(1).is_err()).join().expect("nothing panics")
    }

    #[test]
    fn what_the_system_refuses_is_named_and_the_thread_goes_on() {
        let warnings = warnings_of(ThreadOptions::new().cpu(1_000_000).fifo(200));
        assert!(warnings[0].starts_with("running on CPU 1000000: "), "{warnings:?}");
        assert!(warnings[1].starts_with("SCHED_FIFO priority 200"), "{warnings:?}");
    }
}
