//! What waits between a session's thread and those of the user: bounded, the oldest gives way, and nobody waits for its reader.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::RecvError;

#[derive(Debug)]
pub(crate) struct Queue<T> {
    inner: Mutex<Inner<T>>,
    changed: Condvar,
    capacity: usize,
    /// What one of them weighs.
    weigh: fn(&T) -> usize,
}

#[derive(Debug)]
struct Inner<T> {
    items: VecDeque<T>,
    /// Of all of them.
    weight: usize,
    dropped: u64,
    ended: bool,
    wakers: Vec<Waker>,
}

/// Futures that wait at one queue; when there are more, all look again.
const WAKERS: usize = 16;

impl<T> Queue<T> {
    pub(crate) fn new(capacity: usize) -> Self {
        Self::weighed(capacity, |_| 0)
    }

    pub(crate) fn weighed(capacity: usize, weigh: fn(&T) -> usize) -> Self {
        let inner = Inner { items: VecDeque::new(), weight: 0, dropped: 0, ended: false, wakers: Vec::new() };
        Self { inner: Mutex::new(inner), changed: Condvar::new(), capacity, weigh }
    }

    fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A full queue loses its oldest.
    pub(crate) fn push(&self, item: T) {
        self.push_unless(item, |count, _| count >= self.capacity);
    }

    /// Loses its oldest while it is full by this, which is told how many wait and what they weigh.
    pub(crate) fn push_unless(&self, item: T, is_full: impl Fn(usize, usize) -> bool) {
        let mut inner = self.lock();
        while is_full(inner.items.len(), inner.weight) && self.take(&mut inner).is_ok() {
            inner.dropped += 1;
        }
        inner.weight += (self.weigh)(&item);
        inner.items.push_back(item);
        self.tell(inner);
    }

    /// Nothing more is to come; what waits can still be taken.
    pub(crate) fn end(&self) {
        let mut inner = self.lock();
        inner.ended = true;
        self.tell(inner);
    }

    fn tell(&self, mut inner: MutexGuard<'_, Inner<T>>) {
        let wakers = std::mem::take(&mut inner.wakers);
        drop(inner);
        self.changed.notify_all();
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.lock().dropped
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.lock().ended
    }

    pub(crate) fn try_pop(&self) -> Result<T, RecvError> {
        self.take(&mut self.lock())
    }

    fn take(&self, inner: &mut Inner<T>) -> Result<T, RecvError> {
        let end = if inner.ended { RecvError::Ended } else { RecvError::Empty };
        let item = inner.items.pop_front().ok_or(end)?;
        inner.weight -= (self.weigh)(&item);
        Ok(item)
    }

    /// Waits for one; `None`: for ever.
    pub(crate) fn pop(&self, patience: Option<Duration>) -> Result<T, RecvError> {
        let waits = |inner: &mut Inner<T>| inner.items.is_empty() && !inner.ended;
        let inner = self.lock();
        let mut inner = match patience {
            None => self.changed.wait_while(inner, waits).unwrap_or_else(PoisonError::into_inner),
            Some(patience) => {
                let waited = self.changed.wait_timeout_while(inner, patience, waits);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        self.take(&mut inner)
    }

    pub(crate) fn poll(&self, context: &Context<'_>) -> Poll<Result<T, RecvError>> {
        let mut inner = self.lock();
        let taken = self.take(&mut inner);
        if !matches!(taken, Err(RecvError::Empty)) {
            return Poll::Ready(taken);
        }
        let waker = context.waker();
        if !inner.wakers.iter().any(|known| known.will_wake(waker)) {
            let too_many =
                if inner.wakers.len() >= WAKERS { std::mem::take(&mut inner.wakers) } else { Vec::new() };
            inner.wakers.push(waker.clone());
            drop(inner);
            too_many.into_iter().for_each(Waker::wake);
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_loses_its_oldest_and_counts_it() {
        let queue = Queue::new(2);
        (0..5).for_each(|item| queue.push(item));
        assert_eq!((queue.try_pop(), queue.try_pop(), queue.dropped()), (Ok(3), Ok(4), 3));
        assert_eq!(queue.try_pop(), Err(RecvError::Empty));
        assert_eq!(queue.pop(Some(Duration::from_millis(1))), Err(RecvError::Empty));
    }

    #[test]
    fn what_waits_at_the_end_is_still_taken() {
        let queue = Queue::new(2);
        queue.push(1);
        queue.end();
        assert_eq!((queue.pop(None), queue.pop(None)), (Ok(1), Err(RecvError::Ended)));
    }
}
