//! A thread that writes from a bounded queue, waited for.

use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};

use taut_core::{Duration, Time};

use crate::Clock;

/// Waits until the thread that serves `queue` has come to an item that `done` makes, and answers by what that holds; no longer than `patience`,
/// and not for a thread that has ended.
pub fn flush<T>(queue: &SyncSender<T>, done: impl Fn(SyncSender<()>) -> T, patience: Duration) {
    let clock = Clock::start();
    let left = || std::time::Duration::from(patience.saturating_sub(clock.now() - Time::ZERO));
    let (sender, is_done) = sync_channel(1);
    while let Err(TrySendError::Full(_)) = queue.try_send(done(sender.clone())) {
        if left().is_zero() {
            return;
        }
        std::thread::park_timeout(std::time::Duration::from_millis(5));
    }
    drop(sender);
    let _ = is_done.recv_timeout(left());
}
