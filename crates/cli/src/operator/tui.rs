//! The session on the whole terminal.

use std::sync::mpsc::TryRecvError;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use taut_io::Clock;
use taut_io::session::OperatorCommand;

use super::view::View;
use super::{Arguments, Outcome, Session};
use crate::host;

/// Shows `session` until it ends. The terminal is as it was before, whatever ends it.
pub(super) fn show(session: Session, arguments: &Arguments, clock: Clock) -> Result<Outcome, String> {
    // Restores it also when something panics.
    let mut terminal =
        ratatui::try_init().map_err(|error| format!("the terminal: {error}; go without --tui"))?;
    host::terminal_is_taken(true);
    let mut view = View::new(format!("{} over {}", arguments.connect, arguments.transport));
    let shown = loop {
        match take(&session, &mut view) {
            Taken::Ended => break Ok(()),
            Taken::All => {}
        }
        if let Err(error) = terminal.draw(|frame| view.draw(frame)) {
            break Err(error);
        }
        match next_key() {
            Err(error) => break Err(error),
            Ok(Some(command)) => view.press(clock.now(), command, session.remote.send(command)),
            Ok(None) => {}
        }
    };
    ratatui::restore();
    host::terminal_is_taken(false);
    if shown.is_err() {
        // Nobody sees or steers the robot any more.
        session.remote.send(OperatorCommand::Close);
    }
    let at = view.at();
    let outcome = session.join().map(|progress| (at, progress));
    shown.map_err(|error| format!("the terminal: {error}")).map(|()| outcome)
}

enum Taken {
    All,
    Ended,
}

fn take(session: &Session, view: &mut View) -> Taken {
    loop {
        match session.notes.try_recv() {
            Ok((at, note)) => view.note(at, note),
            Err(TryRecvError::Empty) => return Taken::All,
            Err(TryRecvError::Disconnected) => return Taken::Ended,
        }
    }
}

/// Waits for a key, for a frame's time at most.
fn next_key() -> std::io::Result<Option<OperatorCommand>> {
    if !event::poll(Duration::from_millis(50))? {
        return Ok(None);
    }
    Ok(match event::read()? {
        Event::Key(key) if key.kind == KeyEventKind::Press => command_of(key),
        _ => None,
    })
}

/// In raw mode Ctrl-C is a key.
fn command_of(key: KeyEvent) -> Option<OperatorCommand> {
    match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Some(OperatorCommand::Close),
        KeyCode::Char('e' | 'E' | ' ') => Some(OperatorCommand::EmergencyStop),
        KeyCode::Char('r' | 'R') => Some(OperatorCommand::Resume),
        KeyCode::Char('q' | 'Q') => Some(OperatorCommand::Close),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_commands() {
        let key = |c| command_of(KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE));
        assert_eq!(key('e'), Some(OperatorCommand::EmergencyStop));
        assert_eq!(key(' '), Some(OperatorCommand::EmergencyStop));
        assert_eq!(key('r'), Some(OperatorCommand::Resume));
        assert_eq!(key('q'), Some(OperatorCommand::Close));
        assert_eq!(key('c'), None);
        let ctrl_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(command_of(ctrl_c), Some(OperatorCommand::Close));
    }
}
