//! An emulated network: any [`Link`] between two namespaces, or for the datagrams of a [`relay`], in real time.
//!
//! What the simulator runs in virtual time is what runs here, element by element: an [`Emulator`] reads the IP packets
//! that one namespace sends out of a TUN device, gives them to the link with the time at which they were read, and
//! writes them into the other namespace's device when they are due. It sleeps until shortly before, then spins. Any other
//! [`Port`] will do as well.
//!
//! * A packet's size is that of the IP packet. A link may look at ports, DSCP and ECN, as in the simulator.
//! * [Congestion Experienced](taut_core::Ecn::CongestionExperienced) is written into the header. A flipped bit can be
//!   anywhere in the packet, headers included; checksums are not repaired, so that the receiving kernel finds it.
//! * A packet that waited in the kernel before it was read is late by that, and nobody can tell. What is told is
//!   [`DirectionStats::lateness`], from when it was due to when it was written.
//!
//! Two namespaces 10 ms apart; it needs root:
//!
//! ```
//! use std::net::UdpSocket;
//! use taut_core::Duration;
//! use taut_netlab::Namespace;
//! use taut_netlab::emulate::{Emulator, Tun};
//! use taut_link::{Chain, Delay};
//!
//! # let (operator, robot) = match (Namespace::new(), Namespace::new()) {
//! #     (Ok(operator), Ok(robot)) => (operator, robot),
//! #     _ => return Ok(()), // Not root.
//! # };
//! let a = Tun::new(&operator, "to-robot", "10.9.0.1".parse()?, 24)?;
//! let b = Tun::new(&robot, "to-operator", "10.9.0.2".parse()?, 24)?;
//! let link = || Chain::from(Delay::new(Duration::from_millis(10)));
//! let emulator = Emulator::new(link(), link()).spawn(a, b)?;
//!
//! let operator = operator.run(|| UdpSocket::bind("10.9.0.1:0"))??;
//! let robot = robot.run(|| UdpSocket::bind("10.9.0.2:4433"))??;
//! operator.send_to(b"pose", "10.9.0.2:4433")?;
//! assert_eq!(robot.recv(&mut [0; 10])?, 4);
//!
//! let stats = emulator.stop()?;
//! assert_eq!((stats.up.entered, stats.up.left), (1, 1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod datagram;
mod direction;
mod packet;
mod port;
mod relay;
mod stats;
mod switched;
mod tap;
mod tun;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::time::{ClockId, clock_gettime};
use taut_core::{Bytes, Duration, Link};
use taut_io::{CapabilitySet, Clock, ThreadOptions, Warning, drop_privileges};

pub use self::port::Port;
pub use self::relay::{Clients, Server, relay};
pub use self::stats::{DirectionStats, EmulatorStats};
pub use self::switched::{Switch, Switched};
pub use self::tap::Tap;
pub use self::tun::Tun;

use self::direction::Direction;
use crate::NamespaceError;

/// A link in each direction between two [ports](Port). See the [module](self).
///
/// One thread runs both directions, so that an emulator occupies one CPU at most.
pub struct Emulator<U, D> {
    up: Direction<U>,
    down: Direction<D>,
    early: Duration,
    options: ThreadOptions,
    clock: Option<Clock>,
}

/// An emulator at work. It stops when it is dropped.
#[derive(Debug)]
pub struct RunningEmulator {
    shared: Arc<Shared>,
    warnings: Receiver<Vec<Warning>>,
    thread: Option<JoinHandle<Result<EmulatorStats, EmulatorError>>>,
}

/// An emulator that cannot be made, or cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum EmulatorError {
    /// Only root may.
    #[error("TUN devices need CAP_NET_ADMIN: run the same command by `sudo`")]
    NotPermitted,
    /// The kernel has none.
    #[error(
        "there is no /dev/net/tun: `modprobe tun` loads it, `mkdir -p /dev/net && mknod /dev/net/tun c 10 200` makes it"
    )]
    NoTun,
    /// A namespace refused.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// The system refused.
    #[error("{what}: {error}")]
    Refused {
        /// What was asked of it.
        what: &'static str,
        /// What it said.
        error: io::Error,
    },
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    /// Of the last [`PUBLISH`].
    stats: Mutex<Option<EmulatorStats>>,
}

/// How often the figures for others are brought up to date; also how fast the thread notices that it is to stop.
const PUBLISH: Duration = Duration::from_millis(50);
/// How often the system is asked what was lost beside the links, which takes it some 10 µs.
const ASK: Duration = Duration::from_secs(1);

impl<U: Link, D: Link> Emulator<U, D> {
    /// What is inside each direction at most, unless [`Emulator::limit`] says otherwise.
    pub const DEFAULT_LIMIT: Bytes = Bytes::new(256_000_000);

    /// `up` carries what the first port sends, `down` what the second does.
    pub fn new(up: U, down: D) -> Self {
        let limit = Self::DEFAULT_LIMIT.get();
        Self {
            up: Direction::new(up, limit),
            down: Direction::new(down, limit),
            early: Duration::from_micros(100),
            options: ThreadOptions::new(),
            clock: None,
        }
    }

    /// Wakes up so long before a packet is due, and spins. Default 100 µs, what a sleeping CPU may need to wake up. Costs
    /// that much CPU for every packet on an otherwise idle link; [`Duration::MAX`]: never sleeps, one CPU always busy, and
    /// no packet waits to be read.
    pub fn early(mut self, early: Duration) -> Self {
        self.early = early;
        self
    }

    /// Bytes of packets inside each direction at most; the memory they occupy is little more. What comes beyond is dropped
    /// as [`taut_core::DropCause::QueueFullBytes`]. Default [`Emulator::DEFAULT_LIMIT`].
    pub fn limit(mut self, bytes: Bytes) -> Self {
        self.up.set_limit(bytes.get());
        self.down.set_limit(bytes.get());
        self
    }

    /// How the thread is scheduled. Default: as any other. A thread under `SCHED_FIFO` that never sleeps is stopped by the
    /// kernel for 50 ms of every second (sched(7), `sched_rt_runtime_us`): make [`Emulator::early`] 20 µs with it.
    pub fn thread(mut self, options: ThreadOptions) -> Self {
        self.options = options;
        self
    }

    /// The links' time is what this clock shows. Default: one that begins with the emulator.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Tells `up` and `down` of every packet of their directions. Default: nobody is told.
    pub fn taps(mut self, up: Box<dyn Tap>, down: Box<dyn Tap>) -> Self {
        self.up.set_tap(up);
        self.down.set_tap(down);
        self
    }

    /// Begins, on a thread of its own, and takes the devices. What is scheduled and open needs no privileges any more: the
    /// thread gives up all that it has.
    ///
    /// # Errors
    /// When the devices cannot be waited for.
    pub fn spawn<A: Port, B: Port>(self, a: A, b: B) -> Result<RunningEmulator, EmulatorError>
    where
        U: Send + 'static,
        D: Send + 'static,
    {
        let refused = |what| move |error| EmulatorError::Refused { what, error };
        let shared = Arc::new(Shared::default());
        let (warning_sender, warnings) = sync_channel(1);
        let worker = Worker { emulator: self, a, b, shared: Arc::clone(&shared) };
        let thread = std::thread::Builder::new()
            .name("taut emulator".to_owned())
            .spawn(move || worker.run(&warning_sender))
            .map_err(refused("starting the emulator's thread"))?;
        Ok(RunningEmulator { shared, warnings, thread: Some(thread) })
    }
}

impl RunningEmulator {
    /// What it has done so far, not older than 50 ms, and what was lost beside its links not older than a second; `None` in the first 50 ms.
    pub fn stats(&self) -> Option<EmulatorStats> {
        self.shared.stats.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What the system refused of the [`ThreadOptions`]. Waits until the thread has asked; empty from the second call.
    pub fn warnings(&self) -> Vec<Warning> {
        self.warnings.recv().unwrap_or_default()
    }

    /// It carries nothing any more, and [`stop`](Self::stop) says why: somebody removed a device.
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Stops it, and removes the devices. What is inside the links is lost.
    ///
    /// # Errors
    /// When it could not go on before.
    ///
    /// # Panics
    /// When a link panicked.
    pub fn stop(mut self) -> Result<EmulatorStats, EmulatorError> {
        self.shared.stop.store(true, Ordering::Release);
        let thread = self.thread.take().expect("it is there until it is stopped");
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Drop for RunningEmulator {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // What went wrong there cannot be told from here.
        }
    }
}

struct Worker<U, D, A, B> {
    emulator: Emulator<U, D>,
    a: A,
    b: B,
    shared: Arc<Shared>,
}

impl<U: Link, D: Link, A: Port, B: Port> Worker<U, D, A, B> {
    fn run(mut self, warnings: &SyncSender<Vec<Warning>>) -> Result<EmulatorStats, EmulatorError> {
        let _ = warnings.send(self.emulator.options.apply()); // Nobody has to listen.
        drop_privileges(CapabilitySet::empty())
            .map_err(|error| EmulatorError::Refused { what: "giving up privileges", error })?;
        let clock = self.emulator.clock.unwrap_or_else(Clock::start);
        let started = clock.now();
        let (mut sleeps, mut publish, mut ask) = (0, started + PUBLISH, started);
        loop {
            let emulator = &mut self.emulator;
            let up = emulator.up.turn(&clock, &mut self.a, &mut self.b);
            let down = emulator.down.turn(&clock, &mut self.b, &mut self.a);
            let moved = |direction: io::Result<bool>| {
                direction.map_err(|error| EmulatorError::Refused { what: "reading the network", error })
            };
            let busy = moved(up)? | moved(down)?;
            let now = clock.now();
            if now >= publish {
                let stops = self.shared.stop.load(Ordering::Acquire);
                if stops || now >= ask {
                    self.ask_what_was_lost();
                    ask = now + ASK;
                }
                if stops {
                    self.emulator.up.count_held();
                    self.emulator.down.count_held();
                    return Ok(self.snapshot(now - started, sleeps));
                }
                self.publish(now - started, sleeps);
                publish = now + PUBLISH;
            }
            let wake =
                self.emulator.up.due().min(self.emulator.down.due()).min(publish + self.emulator.early)
                    - self.emulator.early;
            if !busy && wake > now {
                sleeps += 1;
                self.wait(wake - now).map_err(|error| EmulatorError::Refused { what: "poll", error })?;
            }
        }
    }

    /// Until a device has a packet, for so long at most.
    fn wait(&self, duration: Duration) -> io::Result<()> {
        let mut devices =
            [self.a.as_fd(), self.b.as_fd()].map(|port| PollFd::from_borrowed_fd(port, PollFlags::IN));
        let nanos = duration.as_nanos() as i64;
        let limit = Timespec { tv_sec: nanos / 1_000_000_000, tv_nsec: nanos % 1_000_000_000 };
        retry_on_intr(|| poll(&mut devices, Some(&limit)))?;
        Ok(())
    }

    fn snapshot(&self, elapsed: Duration, sleeps: u64) -> EmulatorStats {
        let (up, down) = (self.emulator.up.stats(), self.emulator.down.stats());
        EmulatorStats { up, down, elapsed, sleeps, cpu: thread_cpu() }
    }

    fn publish(&self, elapsed: Duration, sleeps: u64) {
        // Whoever reads copies only; if one does just now, the next time will do.
        if let Ok(mut stats) = self.shared.stats.try_lock() {
            *stats = Some(self.snapshot(elapsed, sleeps));
        }
    }

    /// Beside the links.
    fn ask_what_was_lost(&mut self) {
        self.emulator.up.stats.overrun = self.a.overruns();
        self.emulator.down.stats.overrun = self.b.overruns();
        self.emulator.up.stats.errors = self.b.errors();
        self.emulator.down.stats.errors = self.a.errors();
    }
}

/// CPU time that the calling thread has used.
fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}
