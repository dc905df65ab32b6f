//! The session on the whole terminal.

use std::io::{IsTerminal, Stdin};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use taut_agent::OperatorCommand;
use taut_io::Clock;
use taut_io::session::Remote;

use super::view::{Keys, View};
use super::{Arguments, Machine, Outcome, Session};
use crate::button::{self, Press};
use crate::terminal::Filled;

/// How often it is drawn.
const FRAME: Duration = Duration::from_millis(50);

/// Shows `session` until it ends, and what is pressed. Its keys are read here, unless its input has them. The terminal is as it was
/// before, whatever ends it.
pub(super) fn show(
    session: Session,
    arguments: &Arguments,
    clock: Clock,
    presses: Presses,
) -> Result<Outcome, String> {
    let has_keys = !arguments.input.is_keyboard();
    let mut terminal = match Filled::take(has_keys) {
        Ok(terminal) => terminal,
        Err(error) => {
            // Nobody would see or steer the robot.
            session.remote.send(OperatorCommand::Close);
            let _ = session.join();
            return Err(format!("the terminal: {error}; --every 1s tells of the session line by line"));
        }
    };
    let mut view = View::new(arguments.title(), if has_keys { Keys::Buttons } else { Keys::Driving });
    // A terminal that takes no more of what is drawn holds up no key.
    if has_keys {
        read_keys(session.remote.clone(), presses.tell)?;
    }
    let presses = presses.told;
    let shown = loop {
        match take(&session, &mut view) {
            Taken::Ended => break Ok(()),
            Taken::All => {}
        }
        if let Err(error) = terminal.draw(|frame| view.draw(frame)) {
            break Err(error);
        }
        match presses.recv_timeout(FRAME) {
            Ok(Ok((press, taken))) => view.press(clock.now(), &press, taken),
            Ok(Err(error)) => break Err(error),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break Err(std::io::Error::other("no key can be read")),
        }
    };
    if shown.is_err() {
        // Nobody sees or steers the robot any more.
        session.remote.send(OperatorCommand::Close);
    }
    drop(terminal);
    let at = view.at();
    let outcome = session.join().map(|progress| (at, progress));
    shown.map_err(|error| format!("the terminal: {error}")).map(|()| outcome)
}

/// A key that meant something, and whether the session was reached.
pub(super) type Pressed = std::io::Result<(Press<OperatorCommand>, bool)>;

/// What was pressed, on its way to be shown. Who is too slow misses some: the session was given it before.
pub(super) struct Presses {
    pub(super) tell: SyncSender<Pressed>,
    told: Receiver<Pressed>,
}

impl Presses {
    pub(super) fn new() -> Self {
        let (tell, told) = sync_channel(KEYS);
        Self { tell, told }
    }
}

/// Reads keys on a thread of their own and gives them to the session at once; then tells of them, where somebody listens.
fn read_keys(remote: Remote<Machine>, tell: SyncSender<Pressed>) -> Result<(), String> {
    let work = move || {
        // From where crossterm reads; otherwise it opens /dev/tty.
        let keyboard = Some(std::io::stdin()).filter(Stdin::is_terminal);
        loop {
            let pressed = match next_key(keyboard.as_ref()) {
                Ok(None) => continue,
                Ok(Some(press)) => {
                    let taken = button::tell(&remote, &press);
                    Ok((press, taken))
                }
                // The last that is told, so that it waits.
                Err(error) => return drop(tell.send(Err(error))),
            };
            if matches!(tell.try_send(pressed), Err(TrySendError::Disconnected(_))) {
                return;
            }
        }
    };
    let thread = std::thread::Builder::new().name("taut keys".to_owned()).spawn(work);
    thread.map(drop).map_err(|error| format!("a thread: {error}"))
}

/// Keys that wait to be shown.
const KEYS: usize = 64;

enum Taken {
    All,
    Ended,
}

fn take(session: &Session, view: &mut View) -> Taken {
    loop {
        match session.notes.try_recv() {
            Ok((at, told)) => view.told(at, told),
            Err(TryRecvError::Empty) => return Taken::All,
            Err(TryRecvError::Disconnected) => return Taken::Ended,
        }
    }
}

/// Waits for a key, for a frame's time at most.
///
/// # Errors
/// When the terminal is gone, of which crossterm says nothing: it reads on for ever.
fn next_key(keyboard: Option<&Stdin>) -> std::io::Result<Option<Press<OperatorCommand>>> {
    let mut wait = FRAME;
    if let Some(keyboard) = keyboard {
        let frame = Timespec { tv_sec: 0, tv_nsec: FRAME.subsec_nanos().into() };
        let mut keys = [PollFd::new(keyboard, PollFlags::IN)];
        match poll(&mut keys, Some(&frame)) {
            Ok(_) if keys[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) => {
                return Err(std::io::Error::other("it was closed"));
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        // Several keys may have come at once.
        wait = Duration::ZERO;
    }
    if !event::poll(wait)? {
        return Ok(None);
    }
    Ok(match event::read()? {
        Event::Key(key) if key.kind == KeyEventKind::Press => command_of(key),
        _ => None,
    })
}

/// In raw mode Ctrl-C is a key. A key with Alt is Escape and that key, as terminals send it: whoever presses Escape in haste, and then
/// another, has pressed Escape.
fn command_of(key: KeyEvent) -> Option<Press<OperatorCommand>> {
    match key.code {
        KeyCode::Esc => Some(Press::Stop),
        KeyCode::Char(_) if key.modifiers.contains(KeyModifiers::ALT) => Some(Press::Stop),
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
            Some(Press::Command(OperatorCommand::Close))
        }
        KeyCode::Char('e' | 'E' | ' ') => Some(Press::Stop),
        KeyCode::Char('c' | 'C') => Some(Press::Command(OperatorCommand::Reset)),
        KeyCode::Char('r' | 'R') => Some(Press::Command(OperatorCommand::Resume)),
        KeyCode::Char('q' | 'Q') => Some(Press::Command(OperatorCommand::Close)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_commands() {
        let key = |c| command_of(KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE));
        assert_eq!(key('e'), Some(Press::Stop));
        assert_eq!(key(' '), Some(Press::Stop));
        let escape = KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE);
        let escape_and_resume = KeyEvent::new(KeyCode::Char('r'), KeyModifiers::ALT);
        assert_eq!([escape, escape_and_resume].map(command_of), [Some(Press::Stop), Some(Press::Stop)]);
        assert_eq!(key('r'), Some(Press::Command(OperatorCommand::Resume)));
        assert_eq!(key('q'), Some(Press::Command(OperatorCommand::Close)));
        assert_eq!(key('c'), Some(Press::Command(OperatorCommand::Reset)));
        assert_eq!(key('x'), None);
        let ctrl_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(command_of(ctrl_c), Some(Press::Command(OperatorCommand::Close)));
    }
}
