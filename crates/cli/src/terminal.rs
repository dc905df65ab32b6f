//! The terminal that a view fills: how it is taken, and that it is as it was before, whatever ends the process.

use std::io::{self, IsTerminal, Stdout};
use std::sync::{Mutex, TryLockError};
use std::time::Duration;

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::terminal::{disable_raw_mode, enable_raw_mode};
use ratatui::{Frame, Terminal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::tcgetwinsize;

use crate::host::lock;

/// What a view needs.
const COLUMNS: u16 = 80;
const LINES: u16 = 24;

/// The screen beside the one with what was written so far (xterm's private modes 1049 and 25), and back, with the cursor.
const ENTER: &[u8] = b"\x1b[?1049h";
const LEAVE: &[u8] = b"\x1b[0m\x1b[?1049l\x1b[?25h";

/// Whoever restores waits so long for what is being drawn: a terminal that takes nothing holds nobody up.
const PATIENCE: Duration = Duration::from_millis(50);

/// Does a view fill it? While it is locked something is drawn.
static TAKEN: Mutex<bool> = Mutex::new(false);

/// Is there a terminal at both ends, and has it room for a view?
pub(crate) fn has_room() -> bool {
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    let fits = size().is_some_and(|(columns, lines)| columns >= COLUMNS && lines >= LINES);
    io::stdin().is_terminal() && fits && !is_dumb
}

/// Columns of a line of standard output; as many as a view needs where it is no terminal.
pub(crate) fn columns() -> usize {
    size().map_or(COLUMNS, |(columns, _)| columns).into()
}

/// Columns and lines of standard output, where it is a terminal that knows.
fn size() -> Option<(u16, u16)> {
    let size = tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col, size.ws_row))
}

/// A terminal that a view fills, until this is dropped.
pub(crate) struct Filled(Terminal<CrosstermBackend<Stdout>>);

impl Filled {
    /// Takes it; its keys too, unless an input has them, which takes them in its own way.
    pub(crate) fn take(keys: bool) -> io::Result<Self> {
        *lock(&TAKEN) = true;
        let taken = if keys { enable_raw_mode() } else { Ok(()) };
        let taken = taken.and_then(|()| write(ENTER));
        match taken.and_then(|()| Terminal::new(CrosstermBackend::new(io::stdout()))) {
            Ok(terminal) => Ok(Self(terminal)),
            Err(error) => {
                restore();
                Err(error)
            }
        }
    }

    /// Draws, unless somebody has restored it meanwhile, who ends this process.
    pub(crate) fn draw(&mut self, view: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        let taken = lock(&TAKEN);
        if *taken { self.0.draw(view).map(drop) } else { Ok(()) }
    }
}

impl Drop for Filled {
    fn drop(&mut self) {
        restore();
    }
}

/// The terminal as it was before a view filled it and an input took its keys: nothing where neither did. It may be called again, on any
/// thread, by whoever ends this process; it does not wait for a terminal that takes nothing.
pub(crate) fn restore() {
    // It may be this thread that draws, and panicked.
    let taken = (0..PATIENCE.as_millis()).find_map(|_| match TAKEN.try_lock() {
        Ok(taken) => Some(taken),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => {
            std::thread::park_timeout(Duration::from_millis(1));
            None
        }
    });
    if taken.is_none_or(|mut taken| std::mem::take(&mut *taken)) {
        let _ = disable_raw_mode();
        let _ = write(LEAVE); // A terminal that is gone needs no restoring.
    }
    crate::keyboard::restore();
}

/// At once or not at all, and not through the lock of standard output, which whoever draws may hold.
fn write(bytes: &[u8]) -> io::Result<()> {
    let out = io::stdout();
    let patience = Timespec { tv_sec: 0, tv_nsec: PATIENCE.subsec_nanos().into() };
    let mut ready = [PollFd::new(&out, PollFlags::OUT)];
    if poll(&mut ready, Some(&patience))? == 0 {
        return Err(io::Error::from(io::ErrorKind::TimedOut));
    }
    rustix::io::write(&out, bytes)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    use super::*;

    /// What the process below is told to do.
    const TASK: &str = "TAUT_TEST_TERMINAL";

    /// Runs as a process of its own on a terminal of its own, for [`the_terminal_is_as_it_was_whatever_ends_the_view`].
    #[test]
    fn fills_its_terminal_and_ends_as_it_is_told() {
        let Ok(task) = std::env::var(TASK) else { return };
        crate::last_stop::end_on_panic();
        let _signals = crate::host::OnSignal::new(|| eprintln!("asked to end")).unwrap();
        let mut filled = Filled::take(true).unwrap();
        filled.draw(|frame| frame.render_widget("view", frame.area())).unwrap();
        match &*task {
            "returns" => return drop(filled),
            "panics elsewhere" => drop(std::thread::spawn(|| panic!("elsewhere"))),
            "panics while it draws" => drop(filled.draw(|_| panic!("while it draws"))),
            _ => {}
        }
        std::thread::park_timeout(Duration::from_secs(60));
    }

    /// Runs a task on a terminal of its own, sends it signals once it has drawn, and says whether the terminal is as it was.
    const TERMINAL: &str = r#"
import os, pty, select, signal, subprocess, sys, termios
task, *command = sys.argv[1:]
ours, theirs = pty.openpty()
termios.tcsetwinsize(theirs, (24, 80))
before = termios.tcgetattr(theirs)
# Under nohup(1) it would ignore SIGHUP.
it = subprocess.Popen(["env", "--default-signal", *command], stdin=theirs, stdout=theirs, stderr=subprocess.PIPE)
seen = b""
def read_until(what):
    global seen
    while what not in seen:
        assert select.select([ours], [], [], 30)[0], (what, seen)
        seen += os.read(ours, 4096)
read_until(b"view")
if task.startswith("SIG"):
    assert termios.tcgetattr(theirs) != before
    it.send_signal(getattr(signal, task))
    # Two that come before the first is seen would be one.
    while b"asked" not in it.stderr.readline():
        pass
    it.send_signal(getattr(signal, task))
read_until(b"\x1b[?25h")
it.wait(30)
assert seen.rfind(b"\x1b[?1049l") > seen.find(b"\x1b[?1049h") >= 0, seen
assert seen.rfind(b"\x1b[?25h") > seen.rfind(b"\x1b[?25l") >= 0, ("the cursor", seen)
assert termios.tcgetattr(theirs) == before, "its modes"
print("as it was", it.returncode)
"#;

    #[test]
    fn the_terminal_is_as_it_was_whatever_ends_the_view() {
        if Command::new("python3").arg("--version").output().is_err() {
            println!("skipped: there is no python3");
            return;
        }
        let name = "terminal::tests::fills_its_terminal_and_ends_as_it_is_told";
        let tasks = [
            ("returns", 0),
            ("panics elsewhere", 101),
            ("panics while it draws", 101),
            ("SIGTERM", 143),
            ("SIGHUP", 129),
        ];
        for (task, status) in tasks {
            let mut python = Command::new("python3");
            python.args(["-", task]).arg(std::env::current_exe().unwrap()).args([
                "--exact",
                name,
                "--nocapture",
            ]);
            python.env(TASK, task).env("TERM", "xterm").stdin(Stdio::piped());
            python.stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut python = python.spawn().unwrap();
            python.stdin.take().unwrap().write_all(TERMINAL.as_bytes()).unwrap();
            let (mut said, mut error) = (String::new(), String::new());
            python.stdout.take().unwrap().read_to_string(&mut said).unwrap();
            python.stderr.take().unwrap().read_to_string(&mut error).unwrap();
            python.wait().unwrap();
            assert_eq!(said.trim(), format!("as it was {status}"), "{task}: {error}");
        }
    }
}
