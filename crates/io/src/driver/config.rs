//! How a driver waits.

use taut_core::Duration;

use crate::ThreadOptions;

/// Settings of a [`Driver`](crate::Driver).
///
/// By default a driver sleeps whenever there is nothing to do. On a machine that is otherwise idle a sleeping thread is
/// late by the time it takes to wake a CPU, 5 to 60 µs; spinning buys that time with CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriverConfig {
    pub(super) early: Duration,
    pub(super) busy_poll: Duration,
    pub(super) adaptive_poll: Duration,
    pub(super) thread: ThreadOptions,
}

impl DriverConfig {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Wakes up so long before a deadline and spins until it has come. Default zero; 50 to 100 µs makes deadlines exact
    /// to a few µs. Costs that much CPU for every deadline: 5 to 10 % of a CPU for a session at 1 kHz.
    pub fn early(mut self, early: Duration) -> Self {
        self.early = early;
        self
    }

    /// Goes on polling the sockets for so long after the last datagram before it sleeps. Default zero;
    /// [`Duration::MAX`]: never sleeps. Costs all of a CPU while there is traffic, or always.
    pub fn busy_poll(mut self, duration: Duration) -> Self {
        self.busy_poll = duration;
        self
    }

    /// Polls the sockets instead of sleeping while datagrams come no further apart than this, on the average of the last ones, and
    /// lets others run between two looks. Default zero, never; 200 µs suits flows of some thousand a second. Costs all of a CPU
    /// while there is such traffic and nobody else wants it: where polling finds that another thread had the CPU for
    /// 200 µs, it sleeps for 100 ms, and for longer each time, up to 10 s. Not under `SCHED_FIFO`, where
    /// nobody else gets the CPU, and the kernel takes it away for 50 ms of every second.
    pub fn adaptive_poll(mut self, gap: Duration) -> Self {
        self.adaptive_poll = gap;
        self
    }

    /// How the thread is scheduled; asked for when [`Driver::spawn`](crate::Driver::spawn) starts it. Who calls
    /// [`Driver::turn`](crate::Driver::turn) from a thread of its own asks by [`ThreadOptions::apply`].
    pub fn thread(mut self, options: ThreadOptions) -> Self {
        self.thread = options;
        self
    }
}
