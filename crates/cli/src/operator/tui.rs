//! The session on the whole terminal.

use std::io::{IsTerminal, Stdin};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, TrySendError, sync_channel};
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use taut_agent::OperatorCommand;
use taut_io::Clock;
use taut_io::session::Remote;

use super::view::View;
use super::{Arguments, Machine, Outcome, Session};
use crate::button::{self, Press};
use crate::host;

/// How often it is drawn.
const FRAME: Duration = Duration::from_millis(50);

/// Shows `session` until it ends. The terminal is as it was before, whatever ends it.
pub(super) fn show(session: Session, arguments: &Arguments, clock: Clock) -> Result<Outcome, String> {
    // Restores it also when something panics.
    let mut terminal =
        ratatui::try_init().map_err(|error| format!("the terminal: {error}; go without --tui"))?;
    host::terminal_is_taken(true);
    let mut view = View::new(arguments.title());
    // A terminal that takes no more of what is drawn holds up no key.
    let presses = read_keys(session.remote.clone())?;
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
    // A terminal that is gone needs no restoring.
    let _ = ratatui::try_restore();
    host::terminal_is_taken(false);
    if shown.is_err() {
        // Nobody sees or steers the robot any more.
        session.remote.send(OperatorCommand::Close);
        // At its end it would complain to a terminal that is gone.
        std::mem::forget(terminal);
    }
    let at = view.at();
    let outcome = session.join().map(|progress| (at, progress));
    shown.map_err(|error| format!("the terminal: {error}")).map(|()| outcome)
}

/// A key that meant something, and whether the session was reached.
type Pressed = std::io::Result<(Press<OperatorCommand>, bool)>;

/// Reads keys on a thread of their own and gives them to the session at once; then tells of them, where somebody listens.
fn read_keys(remote: Remote<Machine>) -> Result<Receiver<Pressed>, String> {
    let (tell, presses) = sync_channel(KEYS);
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
                Err(error) => Err(error),
            };
            let is_over = pressed.is_err();
            if matches!(tell.try_send(pressed), Err(TrySendError::Disconnected(_))) || is_over {
                return;
            }
        }
    };
    let thread = std::thread::Builder::new().name("taut keys".to_owned()).spawn(work);
    thread.map(|_| presses).map_err(|error| format!("a thread: {error}"))
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

/// In raw mode Ctrl-C is a key.
fn command_of(key: KeyEvent) -> Option<Press<OperatorCommand>> {
    match key.code {
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
        assert_eq!(key('r'), Some(Press::Command(OperatorCommand::Resume)));
        assert_eq!(key('q'), Some(Press::Command(OperatorCommand::Close)));
        assert_eq!(key('c'), Some(Press::Command(OperatorCommand::Reset)));
        assert_eq!(key('x'), None);
        let ctrl_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(command_of(ctrl_c), Some(Press::Command(OperatorCommand::Close)));
    }
}
