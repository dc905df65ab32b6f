//! Reaching a driver from other threads.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;

use crate::alarm::Bell;
use crate::driver::{Driver, DriverError, MachineId};
use crate::wakeup::Wakeup;
use crate::{Alarm, Machine, ThreadOptions, Warning};

/// A way to a driver's machines from other threads: a bounded channel, and an eventfd that wakes the driver. Sending
/// never blocks; it costs one system call.
pub struct Mailbox<M: Machine> {
    notes: SyncSender<Note<M::Command>>,
    wake: Arc<Wake<M::Command>>,
}

/// Why a command was not taken.
#[derive(Debug, thiserror::Error)]
pub enum MailboxError<C> {
    /// The driver does not keep up: so many wait already.
    #[error("the driver does not keep up: {} commands wait", Inbox::<()>::CAPACITY)]
    Full(C),
    /// The driver has ended.
    #[error("the driver has ended")]
    Ended(C),
}

/// A driver on a thread of its own. When it is dropped, the driver stops and the thread is waited for.
pub struct Running<M: Machine> {
    mailbox: Mailbox<M>,
    events: Receiver<(MachineId, M::Event)>,
    events_dropped: Arc<AtomicU64>,
    warnings: Receiver<Vec<Warning>>,
    thread: Option<JoinHandle<Result<Driver<M>, DriverError>>>,
}

#[derive(Debug)]
pub(crate) enum Note<C> {
    /// For which machine, what, and how many alarms there had been when it was sent.
    Command(MachineId, C, u64),
    Stop,
}

/// The driver's end.
#[derive(Debug)]
pub(crate) struct Inbox<C> {
    notes: Receiver<Note<C>>,
    sender: SyncSender<Note<C>>,
    wake: Arc<Wake<C>>,
}

#[derive(Debug)]
struct Wake<C> {
    wakeup: Wakeup,
    stop: AtomicBool,
    /// Commands that may not be lost and found the channel full, as in [`Note::Command`]: of each kind the newest.
    beside: Mutex<Vec<(MachineId, C, u64)>>,
    /// The driver has taken some of these, and has not come to them yet.
    beside_taken: AtomicBool,
    bell: Bell,
    /// Turns of the driver: it is alive while they go on.
    turns: AtomicU64,
    ended: AtomicBool,
}

impl<M: Machine> Mailbox<M> {
    /// Gives a machine a command.
    ///
    /// # Errors
    /// When the mailbox is full or the driver has ended; the command comes back.
    pub fn send(&self, id: MachineId, command: M::Command) -> Result<(), MailboxError<M::Command>> {
        let sent = self.notes.try_send(Note::Command(id, command, self.wake.bell.rings()));
        self.wake.wakeup.wake();
        sent.map_err(|error| match error {
            TrySendError::Full(Note::Command(_, command, _)) => MailboxError::Full(command),
            TrySendError::Disconnected(Note::Command(_, command, _)) => MailboxError::Ended(command),
            TrySendError::Full(Note::Stop) | TrySendError::Disconnected(Note::Stop) => {
                unreachable!("a command was sent")
            }
        })
    }

    /// Gives a machine a command that may not be lost: where the mailbox is full, it waits beside it and is taken after what waits there. Of
    /// several of a kind that wait so, only the newest is given. False when the driver has ended.
    pub fn insist(&self, id: MachineId, command: M::Command) -> bool {
        let mut beside = self.wake.beside();
        // What waits there was given earlier.
        let is_first = beside.is_empty() && !self.wake.beside_taken.load(Ordering::Acquire);
        let command = if is_first { self.send(id, command) } else { Err(MailboxError::Full(command)) };
        if let Err(MailboxError::Full(command)) = command {
            let kind = std::mem::discriminant(&command);
            beside.retain(|(of, known, _)| *of != id || std::mem::discriminant(known) != kind);
            beside.push((id, command, self.wake.bell.rings()));
            drop(beside);
            self.wake.wakeup.wake();
        }
        !self.wake.ended.load(Ordering::Acquire)
    }

    /// Has every machine stop at once, by [`Machine::handle_alarm`]: ahead of every command, also when the mailbox is full,
    /// and commands that were sent before and would let go of it are void. False when the driver has ended, or is about to: then the machines stop without
    /// it.
    pub fn alarm(&self, alarm: Alarm) -> bool {
        let is_heard = self.wake.bell.ring(alarm);
        self.wake.wakeup.wake();
        is_heard && !self.wake.ended.load(Ordering::Acquire)
    }

    /// How many turns the driver has begun: a driver whose number stands still although it has a deadline hangs.
    pub fn turns(&self) -> u64 {
        self.wake.turns.load(Ordering::Relaxed)
    }

    /// Asks the driver to stop after its turn, also when the mailbox is full.
    pub fn stop(&self) {
        self.wake.stop.store(true, Ordering::Release);
        self.wake.wakeup.wake();
    }
}

impl<M: Machine> Clone for Mailbox<M> {
    fn clone(&self) -> Self {
        Self { notes: self.notes.clone(), wake: Arc::clone(&self.wake) }
    }
}

impl<M: Machine> fmt::Debug for Mailbox<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mailbox").finish_non_exhaustive()
    }
}

impl<M: Machine> fmt::Debug for Running<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("events_dropped", &self.events_dropped).finish_non_exhaustive()
    }
}

impl<M: Machine> Running<M> {
    /// How many events wait at most for whoever reads them; more are dropped and counted.
    pub const EVENTS: usize = 4_096;

    /// A way to the machines.
    pub fn mailbox(&self) -> &Mailbox<M> {
        &self.mailbox
    }

    /// What the machines tell.
    pub fn events(&self) -> &Receiver<(MachineId, M::Event)> {
        &self.events
    }

    /// Events that nobody read in time.
    pub fn events_dropped(&self) -> u64 {
        self.events_dropped.load(Ordering::Relaxed)
    }

    /// What the system refused of the [`ThreadOptions`]. Waits until the thread has asked; empty from the second call.
    pub fn warnings(&self) -> Vec<Warning> {
        self.warnings.recv().unwrap_or_default()
    }

    /// Stops the driver, and gives it back.
    ///
    /// # Errors
    /// When the driver could not go on before.
    ///
    /// # Panics
    /// When a machine panicked.
    pub fn stop(mut self) -> Result<Driver<M>, DriverError> {
        self.mailbox.stop();
        let thread = self.thread.take().expect("it is there until it is stopped");
        match thread.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

impl<M: Machine> Drop for Running<M> {
    fn drop(&mut self) {
        self.mailbox.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // What went wrong there cannot be told from here.
        }
    }
}

pub(crate) fn spawn<M>(mut driver: Driver<M>, options: ThreadOptions) -> io::Result<Running<M>>
where
    M: Machine + Send + 'static,
    M::Command: Send,
    M::Event: Send,
{
    let mailbox = driver.mailbox();
    let (event_sender, events) = sync_channel(Running::<M>::EVENTS);
    let (warning_sender, warnings) = sync_channel(1);
    let events_dropped = Arc::new(AtomicU64::new(0));
    let dropped = Arc::clone(&events_dropped);
    let thread = std::thread::Builder::new().name("taut driver".to_owned()).spawn(move || {
        let _ = warning_sender.send(options.apply()); // Nobody has to listen.
        let outcome = driver.run(&mut |id, event| {
            if event_sender.try_send((id, event)).is_err() {
                dropped.fetch_add(1, Ordering::Relaxed);
            }
        });
        outcome.map(|()| driver)
    })?;
    Ok(Running { mailbox, events, events_dropped, warnings, thread: Some(thread) })
}

impl<C> Inbox<C> {
    /// Commands that wait at most.
    pub(crate) const CAPACITY: usize = 1_024;

    pub(crate) fn new() -> io::Result<Self> {
        let (sender, notes) = sync_channel(Self::CAPACITY);
        let wake = Wake {
            wakeup: Wakeup::new()?,
            stop: AtomicBool::new(false),
            beside: Mutex::default(),
            beside_taken: AtomicBool::new(false),
            bell: Bell::default(),
            turns: AtomicU64::new(0),
            ended: AtomicBool::new(false),
        };
        Ok(Self { notes, sender, wake: Arc::new(wake) })
    }

    pub(crate) fn mailbox<M: Machine<Command = C>>(&self) -> Mailbox<M> {
        Mailbox { notes: self.sender.clone(), wake: Arc::clone(&self.wake) }
    }

    /// Before the notes are read: what comes after them wakes again.
    pub(crate) fn acknowledge(&self) {
        self.wake.wakeup.acknowledge();
    }

    /// A turn begins.
    pub(crate) fn count_turn(&self) {
        self.wake.turns.fetch_add(1, Ordering::Relaxed);
    }

    /// See [`Bell::take`]. Asked again after [`Inbox::acknowledge`], which takes the wake-up of an alarm too.
    pub(crate) fn take_alarm(&self) -> Option<(Alarm, u64)> {
        self.wake.bell.take()
    }

    /// See [`Bell::close`].
    pub(crate) fn close_bell(&self) -> Option<Alarm> {
        self.wake.bell.close()
    }

    /// Some are left for the next turn.
    pub(crate) fn wake(&self) {
        self.wake.wakeup.wake();
    }

    pub(crate) fn next(&mut self) -> Option<Note<C>> {
        if self.wake.stop.swap(false, Ordering::Acquire) {
            return Some(Note::Stop);
        }
        self.notes.try_recv().ok()
    }

    /// What found no room. Before them comes all that left them none, which is in the channel now. It does not wait: whoever puts one there, and may
    /// be held up, wakes afterwards. What is put there until [`Inbox::beside_done`] comes after them.
    pub(crate) fn take_beside(&self) -> Vec<Note<C>> {
        let mut beside = match self.wake.beside.try_lock() {
            Ok(beside) => beside,
            Err(TryLockError::Poisoned(beside)) => beside.into_inner(),
            Err(TryLockError::WouldBlock) => return Vec::new(),
        };
        self.wake.beside_taken.store(!beside.is_empty(), Ordering::Release);
        let notes = beside.drain(..);
        notes.map(|(id, command, rings)| Note::Command(id, command, rings)).collect()
    }

    /// What [`Inbox::take_beside`] gave was done.
    pub(crate) fn beside_done(&self) {
        self.wake.beside_taken.store(false, Ordering::Release);
    }
}

impl<C> Wake<C> {
    fn beside(&self) -> MutexGuard<'_, Vec<(MachineId, C, u64)>> {
        self.beside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C> Drop for Inbox<C> {
    fn drop(&mut self) {
        self.wake.ended.store(true, Ordering::Release);
    }
}

impl<C> AsFd for Inbox<C> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.wakeup.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use taut_agent::{OperatorCommand, Playback};
    use taut_session::State;

    use super::*;
    use crate::session::OperatorMachine;

    type Button = OperatorMachine<Playback<std::iter::Empty<State>>>;

    #[test]
    fn what_may_not_be_lost_comes_in_the_order_in_which_it_was_given() {
        let mut inbox = Inbox::new().unwrap();
        let mailbox: Mailbox<Button> = inbox.mailbox();
        while mailbox.send(MachineId(0), OperatorCommand::Hold).is_ok() {}
        assert!(mailbox.insist(MachineId(0), OperatorCommand::LetGo));
        while inbox.next().is_some() {}
        let taken = inbox.take_beside();
        // The driver comes to it only now.
        assert!(mailbox.insist(MachineId(0), OperatorCommand::Close) && inbox.next().is_none());
        inbox.beside_done();
        let taken: Vec<_> = taken.into_iter().chain(inbox.take_beside()).collect();
        let commands: Vec<_> =
            taken.iter().map(|note| matches!(note, Note::Command(_, OperatorCommand::Close, _))).collect();
        assert_eq!(commands, [false, true]);
        inbox.beside_done();
        assert!(mailbox.insist(MachineId(0), OperatorCommand::Close) && inbox.next().is_some());
    }

    #[test]
    fn who_insists_and_is_held_up_keeps_no_driver_waiting() {
        let inbox = Inbox::<()>::new().unwrap();
        let wake = Arc::clone(&inbox.wake);
        let held = wake.beside();
        let (said, hears) = sync_channel(1);
        let driver = std::thread::spawn(move || said.send(inbox.take_beside().len()));
        assert_eq!(hears.recv_timeout(Duration::from_secs(20)), Ok(0));
        drop(held);
        driver.join().unwrap().unwrap();
    }
}
