//! A robot that needs its time.

use taut_core::{Deadline, DropCause, Duration, Rng, Time};

use crate::config::Processing;
use crate::sending::{Dropped, Order, QueuedState, StateQueue};

/// One server with a bounded queue in front: the states that arrive while the robot is busy.
#[derive(Debug)]
pub(super) struct Processor {
    processing: Processing,
    queue: StateQueue,
    rng: Rng,
    /// What it is busy with, and until when.
    busy: Option<(Time, QueuedState)>,
}

impl Processor {
    pub(super) fn new(processing: Processing, capacity: usize, order: Order, rng: Rng) -> Self {
        Self { processing, queue: StateQueue::new(capacity, order), rng, busy: None }
    }

    /// Takes a state in; gives it back when it needs no time.
    pub(super) fn take(
        &mut self,
        now: Time,
        item: QueuedState,
        drops: &mut Vec<Dropped>,
    ) -> Option<QueuedState> {
        if self.processing == Processing::Immediate {
            return Some(item);
        }
        self.queue.push(item, drops);
        if self.busy.is_none() {
            self.begin(now, drops);
        }
        None
    }

    /// The next state that is ready.
    pub(super) fn poll(&mut self, now: Time, drops: &mut Vec<Dropped>) -> Option<QueuedState> {
        let (done, item) = self.busy.take_if(|(done, _)| *done <= now)?;
        self.begin(done, drops);
        Some(item)
    }

    /// Forgets everything: the robot stopped.
    pub(super) fn flush(&mut self, drops: &mut Vec<Dropped>) {
        drops.extend(self.busy.take().map(|(_, item)| item.dropped(DropCause::Stopped)));
        self.queue.flush(DropCause::Stopped, drops);
    }

    pub(super) fn poll_timeout(&self) -> Option<Deadline> {
        self.busy.map(|(done, _)| Deadline::new(done, "processed"))
    }

    pub(super) fn waiting(&self) -> usize {
        self.queue.len() + usize::from(self.busy.is_some())
    }

    fn begin(&mut self, now: Time, drops: &mut Vec<Dropped>) {
        let time = match self.processing {
            Processing::Immediate => Duration::ZERO,
            Processing::Fixed(time) => time,
            Processing::Uniform { least, largest } => {
                least + Duration::from_nanos(self.rng.below(largest.saturating_sub(least).as_nanos()))
            }
        };
        self.busy = self.queue.pop(now, false, drops).map(|item| (now + time, item));
    }
}
