//! What waits: bounded, checked for age, the newest first.

use std::collections::VecDeque;

use taut_core::{Deadline, DropCause, Duration, Time, earliest};

use crate::state::{Priority, State};

/// Which of the waiting states goes next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
#[cfg_attr(feature = "schema", serde(rename_all = "snake_case"))]
pub enum Order {
    /// The newest; those older are dropped as superseded. What waits is never older than one interval, whatever happened.
    #[default]
    Newest,
    /// The oldest, until the queue is full. Nothing is skipped; a burst delays all that follows it by as much, for as
    /// long as states are made as fast as they are sent.
    Fifo,
}

/// A state that waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueuedState {
    pub(crate) sequence: u64,
    pub(crate) state: State,
    /// From here on it is worthless.
    pub(crate) expires: Option<Time>,
}

impl QueuedState {
    pub(crate) fn is_late(&self, now: Time) -> bool {
        self.expires.is_some_and(|expires| now >= expires)
    }

    pub(crate) fn dropped(&self, cause: DropCause) -> Dropped {
        Dropped { sequence: self.sequence, priority: self.state.priority, cause }
    }
}

/// A state that is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dropped {
    pub(crate) sequence: u64,
    pub(crate) priority: Priority,
    pub(crate) cause: DropCause,
}

/// A bounded queue of states. A full one drops the oldest.
#[derive(Debug)]
pub(crate) struct StateQueue {
    waiting: VecDeque<QueuedState>,
    capacity: usize,
    order: Order,
}

impl StateQueue {
    pub(crate) fn new(capacity: usize, order: Order) -> Self {
        Self { waiting: VecDeque::new(), capacity, order }
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    #[inline]
    pub(crate) fn push(&mut self, item: QueuedState, drops: &mut Vec<Dropped>) {
        if self.waiting.len() >= self.capacity
            && let Some(oldest) = self.waiting.pop_front()
        {
            drops.push(oldest.dropped(DropCause::QueueFullPackets));
        }
        self.waiting.push_back(item);
    }

    /// The next one that is not too late; `newest` overrides the order.
    pub(crate) fn pop(&mut self, now: Time, newest: bool, drops: &mut Vec<Dropped>) -> Option<QueuedState> {
        if newest || self.order == Order::Newest {
            let item = self.waiting.pop_back();
            for older in self.waiting.drain(..) {
                let cause = if older.is_late(now) { DropCause::TooLate } else { DropCause::Superseded };
                drops.push(older.dropped(cause));
            }
            let late = item.filter(|item| item.is_late(now));
            drops.extend(late.map(|item| item.dropped(DropCause::TooLate)));
            return item.filter(|item| !item.is_late(now));
        }
        while let Some(item) = self.waiting.pop_front() {
            if !item.is_late(now) {
                return Some(item);
            }
            drops.push(item.dropped(DropCause::TooLate));
        }
        None
    }

    pub(crate) fn flush(&mut self, cause: DropCause, drops: &mut Vec<Dropped>) {
        drops.extend(self.waiting.drain(..).map(|item| item.dropped(cause)));
    }
}

/// States on their way out: emergencies pass by, high goes first and at most once per half interval, normal goes once
/// per interval.
#[derive(Debug)]
pub(crate) struct Outbox {
    high: StateQueue,
    normal: StateQueue,
    interval: Duration,
    /// The rate is below the configured one: of those that wait, only the newest goes.
    thinned: bool,
    next_high: Time,
    next_normal: Time,
    /// Streams 2 and 3, in turn.
    odd: bool,
}

impl Outbox {
    pub(crate) fn new(capacity: usize, order: Order, interval: Duration) -> Self {
        Self {
            high: StateQueue::new(capacity, order),
            normal: StateQueue::new(capacity, order),
            interval,
            thinned: false,
            next_high: Time::ZERO,
            next_normal: Time::ZERO,
            odd: false,
        }
    }

    pub(crate) fn set_interval(&mut self, interval: Duration, thinned: bool) {
        (self.interval, self.thinned) = (interval, thinned);
    }

    pub(crate) fn len(&self) -> usize {
        self.high.len() + self.normal.len()
    }

    pub(crate) fn push(&mut self, item: QueuedState, drops: &mut Vec<Dropped>) {
        let queue = if item.state.priority == Priority::Normal { &mut self.normal } else { &mut self.high };
        queue.push(item, drops);
    }

    /// What goes now, and on which stream.
    pub(crate) fn pop(&mut self, now: Time, drops: &mut Vec<Dropped>) -> Option<(QueuedState, u8)> {
        loop {
            let is_high = self.high.len() > 0 && now >= self.next_high;
            if !is_high && (self.normal.len() == 0 || now < self.next_normal) {
                return None;
            }
            let queue = if is_high { &mut self.high } else { &mut self.normal };
            // Where all were too late, it is empty now.
            let Some(item) = queue.pop(now, self.thinned, drops) else { continue };
            if is_high {
                self.next_high = now + self.interval / 2;
                return Some((item, 1));
            }
            // Two intervals may be made up for. A host that was late by less than that sends two states at once, and the
            // next one is due before a whole interval has passed: with less credit it would wait, and so would every one
            // after it, for as long as the device keeps its rate.
            self.next_normal = self.next_normal.max(now - self.interval * 2) + self.interval;
            self.odd = !self.odd;
            return Some((item, if self.odd { 2 } else { 3 }));
        }
    }

    pub(crate) fn flush(&mut self, cause: DropCause, drops: &mut Vec<Dropped>) {
        self.high.flush(cause, drops);
        self.normal.flush(cause, drops);
    }

    pub(crate) fn poll_timeout(&self) -> Option<Deadline> {
        let high = (self.high.len() > 0).then(|| Deadline::new(self.next_high, "high"));
        earliest(high, (self.normal.len() > 0).then(|| Deadline::new(self.next_normal, "normal")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn item(sequence: u64, priority: Priority) -> QueuedState {
        let state = State { priority, ..State::at(Time::ZERO) };
        QueuedState { sequence, state, expires: None }
    }

    fn sent(outbox: &mut Outbox, now: Time, drops: &mut Vec<Dropped>) -> Vec<(u64, u8)> {
        std::iter::from_fn(|| outbox.pop(now, drops)).map(|(item, stream)| (item.sequence, stream)).collect()
    }

    #[test]
    fn a_full_queue_drops_the_oldest() {
        let (mut queue, mut drops) = (StateQueue::new(2, Order::Fifo), Vec::new());
        (1..=4).for_each(|sequence| queue.push(item(sequence, Priority::Normal), &mut drops));
        let gone: Vec<_> = drops.iter().map(|drop| (drop.sequence, drop.cause)).collect();
        assert_eq!(gone, [(1, DropCause::QueueFullPackets), (2, DropCause::QueueFullPackets)]);
        assert_eq!(queue.pop(Time::ZERO, false, &mut drops).unwrap().sequence, 3);
    }

    #[test]
    fn the_newest_goes_and_the_older_are_superseded_or_late() {
        let (mut queue, mut drops) = (StateQueue::new(8, Order::Newest), Vec::new());
        let late = QueuedState { expires: Some(Time::ZERO + MS), ..item(1, Priority::Normal) };
        queue.push(late, &mut drops);
        queue.push(item(2, Priority::Normal), &mut drops);
        queue.push(item(3, Priority::Normal), &mut drops);
        assert_eq!(queue.pop(Time::ZERO + MS, false, &mut drops).unwrap().sequence, 3);
        let gone: Vec<_> = drops.iter().map(|drop| (drop.sequence, drop.cause)).collect();
        assert_eq!(gone, [(1, DropCause::TooLate), (2, DropCause::Superseded)]);
        queue.push(late, &mut drops);
        assert!(queue.pop(Time::ZERO + MS, false, &mut drops).is_none());
        assert_eq!(drops.len(), 3);
    }

    #[test]
    fn high_overtakes_normal_at_most_once_per_half_interval() {
        let (mut outbox, mut drops) = (Outbox::new(100, Order::Fifo, MS), Vec::new());
        let start = Time::ZERO + MS * 10;
        (1..=4).for_each(|sequence| outbox.push(item(sequence, Priority::Normal), &mut drops));
        (5..=7).for_each(|sequence| outbox.push(item(sequence, Priority::High), &mut drops));
        // Two intervals may be made up for: three normal ones at first.
        assert_eq!(sent(&mut outbox, start, &mut drops), [(5, 1), (1, 2), (2, 3), (3, 2)]);
        assert_eq!(outbox.poll_timeout(), Some(Deadline::new(start + MS / 2, "high")));
        assert_eq!(sent(&mut outbox, start + MS / 4, &mut drops), []);
        assert_eq!(sent(&mut outbox, start + MS / 2, &mut drops), [(6, 1)]);
        assert_eq!(sent(&mut outbox, start + MS, &mut drops), [(7, 1), (4, 3)]);
        assert_eq!(outbox.poll_timeout(), None);
        assert_eq!(drops, []);
    }

    #[test]
    fn a_host_that_was_late_once_makes_no_later_state_wait() {
        let (mut outbox, mut drops) = (Outbox::new(100, Order::Newest, MS), Vec::new());
        for ms in 0..100u64 {
            // The host was 1.9 ms late for the tenth: the eleventh is made at the same time.
            let due = Time::ZERO + MS * (ms + 10);
            let late = Time::ZERO + MS / 10 * 219;
            let now = if matches!(ms, 10 | 11) { late } else { due };
            outbox.push(item(ms, Priority::Normal), &mut drops);
            assert_eq!(sent(&mut outbox, now, &mut drops).len(), 1, "state {ms} waits");
        }
        assert_eq!(drops, []);
    }

    #[test]
    fn normal_keeps_its_rate_when_samples_come_unevenly() {
        let (mut outbox, mut drops) = (Outbox::new(100, Order::Newest, MS), Vec::new());
        let mut count = 0;
        for ms in 0..1_000u64 {
            // Every other sample comes 0.9 ms late.
            let now = Time::ZERO + MS * (ms + 10) + MS / 10 * (9 * (ms % 2));
            outbox.push(item(ms, Priority::Normal), &mut drops);
            count += sent(&mut outbox, now, &mut drops).len();
        }
        assert_eq!((count, drops.len()), (1_000, 0));
    }
}
