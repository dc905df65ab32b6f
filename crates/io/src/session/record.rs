//! What each end leaves on the disk for its next life.

use std::path::Path;

use taut_session::{Latch, OperatorLife, RobotLife};

use crate::{StateFile, StateFileError};

/// A robot's: what is latched, and whether it ended in order.
#[derive(Debug)]
pub struct RobotRecord {
    pub(super) file: StateFile,
    latch: Option<Latch>,
}

impl RobotRecord {
    /// Reads what the last life left, and writes it again: before it is [served](super::serve) nothing moves, and whatever ends it changes nothing. One
    /// process at a time has the file.
    ///
    /// # Errors
    /// See [`StateFileError`]. A robot whose stops cannot be kept is better not started.
    pub fn open(path: &Path) -> Result<Self, StateFileError> {
        let (mut file, text) = StateFile::open(path, true)?;
        let latch = RobotLife::next(text.as_deref());
        file.store(&RobotLife { ended: true, latch }.to_string())?;
        Ok(Self { file, latch })
    }

    /// Writes that this life runs: whatever ends it but in order leaves a latched stop.
    pub(super) fn begin(&mut self) -> Result<(), StateFileError> {
        self.file.store(&RobotLife { ended: false, latch: self.latch }.to_string())
    }

    /// With what stop this life begins.
    pub fn latch(&self) -> Option<Latch> {
        self.latch
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// A person beside the robot, which does not run, lets go of the stop that the file keeps. What was latched. Root may do so where the
    /// folder is another user's, as a service's is.
    ///
    /// # Errors
    /// See [`StateFileError`].
    pub fn reset(path: &Path) -> Result<Option<Latch>, StateFileError> {
        let refused = |error| StateFileError::Refused { path: path.to_owned(), error };
        if !StateFile::was_opened(path).map_err(refused)? {
            let error = std::io::Error::new(std::io::ErrorKind::NotFound, "no robot has kept anything there");
            return Err(refused(error));
        }
        let mut latch = None;
        StateFile::replace(path, |text| {
            latch = RobotLife::next(text);
            RobotLife { ended: true, latch: None }.to_string()
        })?;
        Ok(latch)
    }
}

/// An operator's: an emergency stop that was not acknowledged.
#[derive(Debug)]
pub struct OperatorRecord {
    pub(super) file: StateFile,
    unacknowledged: bool,
}

impl OperatorRecord {
    /// Reads what the last life left, and writes it again: an operator whose stops cannot be kept is better not started.
    ///
    /// # Errors
    /// See [`StateFileError`].
    pub fn open(path: &Path) -> Result<Self, StateFileError> {
        let (mut file, text) = StateFile::open(path, false)?;
        let unacknowledged = OperatorLife::next(text.as_deref());
        file.store(&OperatorLife { unacknowledged }.to_string())?;
        Ok(Self { file, unacknowledged })
    }

    /// Was an emergency stop pressed in an earlier life, that no robot acknowledged?
    pub fn is_unacknowledged(&self) -> bool {
        self.unacknowledged
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, chown, symlink};

    use rustix::fs::Mode;
    use taut_session::StopCause;

    #[test]
    fn a_robot_that_was_killed_begins_with_a_stop_until_somebody_lets_go_of_it() {
        let path = std::env::temp_dir().join(format!("taut-record-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let _ = std::fs::remove_file(format!("{}.lock", path.display()));
        assert!(RobotRecord::reset(&path).is_err(), "there was no life yet");
        let served = |record: &mut RobotRecord| record.begin().expect("it can be written");
        for _ in 0..2 {
            let first = RobotRecord::open(&path).expect("nothing moved in the one before");
            assert_eq!(first.latch(), None);
        }
        let mut first = RobotRecord::open(&path).expect("a first life");
        served(&mut first);
        assert!(matches!(RobotRecord::open(&path), Err(StateFileError::Taken(_))), "one at a time");
        drop(first);
        let restart = Some(Latch { cause: StopCause::Restart, held_locally: false, held_remotely: true });
        assert_eq!(RobotRecord::open(&path).expect("after a kill").latch(), restart);
        served(&mut RobotRecord::open(&path).expect("one more"));
        assert_eq!(RobotRecord::open(&path).expect("after another").latch(), restart);
        std::fs::remove_file(&path).expect("it was there");
        assert_eq!(RobotRecord::open(&path).expect("its file was deleted").latch(), restart);
        assert_eq!(RobotRecord::reset(&path).expect("nobody has it"), restart);
        assert_eq!(RobotRecord::open(&path).expect("let go of").latch(), None);
        std::fs::remove_file(&path).expect("it was made here");
        std::fs::remove_file(format!("{}.lock", path.display())).expect("its lock too");
    }

    /// A service with a user of its own: the folder is that one's, and so is all that root leaves there.
    #[test]
    fn root_lets_go_of_the_stop_of_another_users_robot_and_follows_no_link_of_theirs() {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: needs root");
            return;
        }
        let folder = std::env::temp_dir().join(format!("taut-record-of-another-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).expect("a new one");
        let (path, lock, new) = (folder.join("robot"), folder.join("robot.lock"), folder.join("robot.new"));
        fs::write(&path, RobotLife { ended: false, latch: None }.to_string()).expect("as it was killed");
        chown(&folder, Some(61_234), Some(61_235)).expect("root may");
        let restart = Some(Latch { cause: StopCause::Restart, held_locally: false, held_remotely: true });
        // What the user put in the way of the new text points at a file that is not theirs.
        let victim = folder.with_extension("victim");
        fs::write(&victim, "root's").expect("a new one");
        symlink(&victim, &new).expect("nothing is there");
        assert_eq!(RobotRecord::reset(&path).expect("root may"), restart);
        assert_eq!(RobotRecord::reset(&path).expect("once more"), None);
        for made in [&path, &lock] {
            let made = fs::symlink_metadata(made).expect("it is there");
            assert!(
                made.is_file() && (made.uid(), made.gid(), made.mode() & 0o777) == (61_234, 61_235, 0o600)
            );
        }
        assert!(!new.exists() && matches!(RobotRecord::open(&path), Err(StateFileError::Refused { .. })));
        // Neither is a link in the place of the lock or of the text followed, nor a pipe waited for.
        for place in [&lock, &path] {
            fs::remove_file(place).expect("it was there");
            symlink(&victim, place).expect("nothing is there");
            assert!(matches!(RobotRecord::reset(&path), Err(StateFileError::Refused { .. })));
            fs::remove_file(place).expect("it was there");
            let pipe = rustix::fs::FileType::Fifo;
            rustix::fs::mknodat(rustix::fs::CWD, place, pipe, Mode::RUSR, 0).expect("nothing is there");
            assert!(matches!(RobotRecord::reset(&path), Err(StateFileError::Refused { .. })));
            fs::remove_file(place).expect("it was there");
        }
        let left = fs::symlink_metadata(&victim).expect("it is there");
        assert_eq!((left.uid(), fs::read_to_string(&victim).expect("root may").as_str()), (0, "root's"));
        // The service has it.
        let held = fs::File::create(&lock).expect("a new one");
        rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).expect("nobody has it");
        assert!(matches!(RobotRecord::reset(&path), Err(StateFileError::Taken(_))));
        fs::remove_dir_all(&folder).expect("it was made here");
        fs::remove_file(&victim).expect("it was made here");
    }
}
