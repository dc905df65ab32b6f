//! A short text that survives the process: written whole or not at all, and off the threads that must not wait.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::fs::{FlockOperation, flock};

use crate::privileges::spawn_unprivileged;

mod foreign;

use foreign::ForeignFile;

/// A file with a text of its own that is replaced as a whole: written beside it, synced, renamed over it, and the folder synced.
/// Whoever reads it finds the text from before or the one from after, whenever the power fails.
#[derive(Debug)]
pub struct StateFile {
    path: PathBuf,
    /// What is on the disk, once this wrote it.
    stored: Option<String>,
    /// Held for as long as this lives, and made anew when somebody deleted it.
    lock: Option<File>,
    /// Another process had it meanwhile, and what that one left is its own.
    lost: bool,
}

/// Why there is no such file.
#[derive(Debug, thiserror::Error)]
pub enum StateFileError {
    /// Another process has it.
    #[error("{0} is used by another process; name another one")]
    Taken(PathBuf),
    /// The system refused.
    #[error("{path}: {error}")]
    Refused {
        /// What it was about.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

/// A text is short: what is longer is none of ours.
const LONGEST: u64 = 4_096;

impl StateFile {
    /// Makes the folder when there is none; it has to be one in which this user may write without privileges, for these are given up.
    /// Locks the file against other processes (`PATH.lock`) if it is to be `exclusive`.
    /// Gives what is in it; `None`: there was no such file yet. Bytes that are no UTF-8 are replaced. Where an earlier life left its
    /// lock, there was one, and somebody deleted it: then the text is empty, which is nobody's.
    ///
    /// # Errors
    /// See [`StateFileError`].
    pub fn open(path: &Path, exclusive: bool) -> Result<(Self, Option<String>), StateFileError> {
        let refused = |error| StateFileError::Refused { path: path.to_owned(), error };
        own_folder_of(path).map_err(refused)?;
        let lived = exclusive && lock_of(path).try_exists().map_err(refused)?;
        let lock = if exclusive { Some(lock(path)?) } else { None };
        let text = text_of(File::open(path), lived).map_err(refused)?;
        Ok((Self { path: path.to_owned(), stored: None, lock, lost: false }, text))
    }

    /// Replaces the text of a file that no other process has, once. Root may do so in another user's folder, too: then what it makes there is the user's.
    pub(crate) fn replace(
        path: &Path,
        next: impl FnOnce(Option<&str>) -> String,
    ) -> Result<(), StateFileError> {
        if let Some(foreign) = ForeignFile::open(path)? {
            let refused = |error| StateFileError::Refused { path: path.to_owned(), error };
            return foreign.replace(next).map_err(refused);
        }
        let (mut file, text) = Self::open(path, true)?;
        file.store(&next(text.as_deref()))
    }

    /// Has anybody opened this file for themselves before?
    pub(crate) fn was_opened(path: &Path) -> io::Result<bool> {
        Ok(path.try_exists()? || lock_of(path).try_exists()?)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Like [`StateFile::write`], with an error that says which file.
    pub(crate) fn store(&mut self, text: &str) -> Result<(), StateFileError> {
        self.write(text).map_err(|error| StateFileError::Refused { path: self.path.clone(), error })
    }

    /// Replaces the text, on the disk when this returns. Makes the folder and the lock anew when somebody deleted them.
    ///
    /// # Errors
    /// What the system says; that another process took the file since its lock was deleted. Then the text from before may still be there.
    pub fn write(&mut self, text: &str) -> io::Result<()> {
        self.hold()?;
        let new = beside(&self.path, ".new");
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, &self.path)?;
        self.stored = Some(text.to_owned());
        File::open(folder_of(&self.path))?.sync_all()
    }

    /// Writes again what somebody deleted. A life whose file is gone would be forgotten if it were killed now.
    fn restore(&mut self) -> io::Result<()> {
        self.hold()?;
        match &self.stored {
            Some(text) if !self.path.try_exists()? => self.write(&text.clone()),
            _ => Ok(()),
        }
    }

    /// There is a folder, and nobody else has the file. A lock that was deleted keeps nobody out: it is taken anew, unless somebody has, or had and
    /// left something else there. That is another life's, and may be a stop.
    fn hold(&mut self) -> io::Result<()> {
        let taken =
            |path: &Path| io::Error::new(io::ErrorKind::ResourceBusy, StateFileError::Taken(path.to_owned()));
        if self.lost {
            return Err(taken(&self.path));
        }
        own_folder_of(&self.path)?;
        let Some(held) = &self.lock else { return Ok(()) };
        let held = held.metadata()?;
        let is_ours = match fs::metadata(lock_of(&self.path)) {
            Ok(there) => (there.dev(), there.ino()) == (held.dev(), held.ino()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(error),
        };
        if !is_ours {
            let again = lock(&self.path).map_err(|error| match error {
                StateFileError::Refused { error, .. } => error,
                StateFileError::Taken(path) => taken(&path),
            })?;
            self.lost = match fs::read(&self.path) {
                Ok(there) => self.stored.as_ref().is_none_or(|stored| there != stored.as_bytes()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => false,
                Err(error) => return Err(error),
            };
            if self.lost {
                return Err(taken(&self.path));
            }
            self.lock = Some(again);
        }
        Ok(())
    }
}

pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// There is one now, its owner's alone if it was made just now.
pub(crate) fn make_folder_of(path: &Path) -> io::Result<&Path> {
    let folder = folder_of(path);
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    Ok(folder)
}

/// There is one in which this user may write once privileges are given up.
fn own_folder_of(path: &Path) -> io::Result<()> {
    if is_for_others(&fs::metadata(make_folder_of(path)?)?) {
        let text = "its folder belongs to another user; name a file in one of your own";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    Ok(())
}

/// May this user not write in this folder, but for root's privilege?
fn is_for_others(folder: &Metadata) -> bool {
    folder.uid() != rustix::process::geteuid().as_raw() && folder.mode() & 0o002 == 0
}

/// What is in a file; `None`: there is none, and none `lived`.
fn text_of(file: io::Result<File>, lived: bool) -> io::Result<Option<String>> {
    let file = match file {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(lived.then(String::new)),
        file => file?,
    };
    let mut bytes = Vec::new();
    file.take(LONGEST + 1).read_to_end(&mut bytes)?;
    let is_ours = bytes.len() as u64 <= LONGEST;
    Ok(Some(if is_ours { String::from_utf8_lossy(&bytes).into_owned() } else { String::new() }))
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    name.into()
}

fn lock_of(path: &Path) -> PathBuf {
    beside(path, ".lock")
}

fn lock(path: &Path) -> Result<File, StateFileError> {
    let at = lock_of(path);
    let refused = |error: io::Error| StateFileError::Refused { path: at.clone(), error };
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&at);
    let file = file.map_err(refused)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(StateFileError::Taken(path.to_owned())),
        Err(error) => Err(refused(error.into())),
    }
}

/// Writes texts to a [`StateFile`] on a thread of its own: whoever gives them never waits. The newest wins. What could not be written
/// is tried again every second, and what somebody deleted is written again as soon. When this is dropped, the last one is still written, for a second at most.
#[derive(Debug)]
pub struct StateWriter {
    slot: Arc<Slot>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Slot {
    next: Mutex<Next>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Next {
    text: Option<(u64, String)>,
    ended: bool,
    finished: bool,
    /// The last that was tried is on the disk.
    written: bool,
}

enum Due {
    Write(u64, String),
    /// Is the file still there?
    Look,
    /// It has ended.
    Nothing,
}

/// Between two attempts.
const AGAIN: std::time::Duration = std::time::Duration::from_secs(1);

impl Slot {
    /// The next text; a newer one, or after a while the one that `failed`.
    fn next_after(&self, failed: Option<(u64, String)>) -> Due {
        let waits = |next: &mut Next| next.text.is_none() && !next.ended;
        let waited = self.changed.wait_timeout_while(self.lock(), AGAIN, waits);
        let mut next = waited.unwrap_or_else(PoisonError::into_inner).0;
        match next.text.take().or_else(|| failed.filter(|_| !next.ended)) {
            Some((number, text)) => Due::Write(number, text),
            None if next.ended => {
                next.finished = true;
                self.changed.notify_all();
                Due::Nothing
            }
            None => Due::Look,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Next> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StateWriter {
    /// Tells `done` of each text that was tried, by its number, and whether it is on the disk; later, when somebody deleted it, that it
    /// could not be written again, and when it could after all. What was in the file at the start has the number 0. Where `done` is false,
    /// nobody heard it: it is told again.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub fn start(
        mut file: StateFile,
        mut done: impl FnMut(u64, io::Result<()>) -> bool + Send + 'static,
    ) -> io::Result<Self> {
        let slot = Arc::new(Slot::default());
        let shared = Arc::clone(&slot);
        let work = move || {
            let (mut failed, mut newest, mut is_known) = (None, 0, true);
            loop {
                let outcome = match shared.next_after(failed.take()) {
                    Due::Write(number, text) => {
                        let outcome = file.write(&text);
                        (failed, newest) = (outcome.is_err().then_some((number, text)), number);
                        outcome
                    }
                    Due::Look => match file.restore() {
                        Ok(()) if is_known => continue,
                        outcome => outcome,
                    },
                    Due::Nothing => break,
                };
                let written = outcome.is_ok();
                shared.lock().written = written;
                is_known = done(newest, outcome) && written;
            }
        };
        let thread = spawn_unprivileged("taut state", || (), work)?;
        Ok(Self { slot, thread: Some(thread) })
    }

    /// Has this written as soon as the disk can, instead of what still waits.
    pub fn write(&self, number: u64, text: String) {
        self.slot.lock().text = Some((number, text));
        self.slot.changed.notify_all();
    }

    /// Writes what is left, for a second at most. Is the last text on the disk?
    pub fn finish(mut self) -> bool {
        self.end()
    }

    fn end(&mut self) -> bool {
        let mut next = self.slot.lock();
        next.ended = true;
        self.slot.changed.notify_all();
        // A disk that hangs holds nobody up.
        let waited = self.slot.changed.wait_timeout_while(next, AGAIN, |next| !next.finished);
        let next = waited.unwrap_or_else(PoisonError::into_inner).0;
        let written = next.finished && next.written;
        if next.finished
            && let Some(thread) = self.thread.take()
        {
            drop(next);
            let _ = thread.join(); // It has nothing to say.
        }
        written
    }
}

impl Drop for StateWriter {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a thread writes in real time")]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("taut-state-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    #[test]
    fn what_was_written_is_read_in_the_next_life_and_one_life_at_a_time_has_it() {
        let folder = folder("lives");
        let path = folder.join("below").join("robot");
        let (mut file, text) = StateFile::open(&path, true).expect("a new one");
        assert_eq!(text, None);
        file.write("one\n").expect("it is written");
        file.write("two\n").expect("it is replaced");
        assert!(matches!(StateFile::open(&path, true), Err(StateFileError::Taken(_))));
        drop(file);
        let (file, text) = StateFile::open(&path, true).expect("the other life is over");
        assert_eq!(text.as_deref(), Some("two\n"));
        drop(file);
        fs::remove_file(&path).expect("it was there");
        let (_file, text) = StateFile::open(&path, true).expect("nobody has it");
        assert_eq!(text.as_deref(), Some(""), "there was one, and it is gone");
        fs::remove_dir_all(folder).expect("it was made here");
    }

    #[test]
    fn who_lost_the_file_to_another_process_leaves_it_alone() {
        let folder = folder("lost");
        let path = folder.join("robot");
        let (mut first, _) = StateFile::open(&path, true).expect("a new one");
        first.write("first").expect("it is written");
        fs::remove_dir_all(&folder).expect("it was made here");
        let (mut second, text) = StateFile::open(&path, true).expect("nothing tells of the first");
        assert_eq!(text, None);
        second.write("second").expect("it is written");
        let refused = first.write("first again").expect_err("it is another's");
        assert_eq!(refused.kind(), io::ErrorKind::ResourceBusy, "{refused}");
        assert!(first.restore().is_err());
        assert_eq!(fs::read_to_string(&path).expect("it is there"), "second");
        drop(second);
        assert!(first.write("first again").is_err(), "what the other life left is its own");
        assert!(first.restore().is_err());
        assert_eq!(fs::read_to_string(&path).expect("it is there"), "second");
        let (_third, text) = StateFile::open(&path, true).expect("the next life has it");
        assert_eq!(text.as_deref(), Some("second"));
        fs::remove_dir_all(folder).expect("it was made here");
    }

    #[test]
    fn a_writer_writes_the_newest_and_says_when_it_cannot() {
        let folder = folder("writer");
        let path = folder.join("robot");
        let (file, _) = StateFile::open(&path, true).expect("a new one");
        let (tell, told) = sync_channel(8);
        let mut heard = 0;
        let writer = StateWriter::start(file, move |number, written| {
            tell.send((number, written.is_ok())).expect("somebody listens");
            heard += 1;
            heard > 1
        });
        let writer = writer.expect("a thread");
        writer.write(1, "one".to_owned());
        assert_eq!(told.recv(), Ok((1, true)));
        assert_eq!(told.recv(), Ok((1, true)), "what nobody heard is told again");
        assert_eq!(fs::read_to_string(&path).expect("it is there"), "one");
        let in_the_way = beside(&path, ".new");
        fs::create_dir(&in_the_way).expect("nothing is there");
        writer.write(2, "two".to_owned());
        assert_eq!(told.recv(), Ok((2, false)), "the place of the new text is taken");
        fs::remove_dir(&in_the_way).expect("it was made here");
        while told.recv() != Ok((2, true)) {} // It is tried again.
        fs::remove_dir_all(&folder).expect("it was made here");
        while !path.exists() {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert_eq!(fs::read_to_string(&path).expect("it is there again"), "two");
        assert!(matches!(StateFile::open(&path, true), Err(StateFileError::Taken(_))), "its lock too");
        fs::remove_dir_all(&folder).expect("it was made here");
        fs::write(&folder, "").expect("a file in its place");
        assert_eq!(told.recv(), Ok((2, false)), "what is gone and cannot be made again is told");
        fs::remove_file(&folder).expect("it was made here");
        while told.recv() != Ok((2, true)) {}
        writer.write(3, "three".to_owned());
        assert!(writer.finish());
        assert_eq!(fs::read_to_string(&path).expect("the last one is written"), "three");
        fs::remove_dir_all(folder).expect("it was made here");
    }
}
