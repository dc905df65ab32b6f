//! A state file in a folder of another user's, as root replaces it: that of a service that has a user of its own.
//!
//! That user may put anything there, at any moment, and must get no more by it than what is theirs: every name is looked up in the folder that was opened,
//! no symbolic link in its place is followed, nothing that waits is waited for, and only what was made here is given away.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, FlockOperation, Gid, Mode, OFlags, Uid, fchown, flock, open, openat, renameat, unlinkat,
};
use rustix::io::Errno;

use super::{StateFileError, beside, folder_of, is_for_others, lock_of, text_of};

/// In the other user's folder, and locked against other processes.
pub(super) struct ForeignFile {
    folder: File,
    name: PathBuf,
    lock: File,
    /// There was a lock, so there was a life.
    lived: bool,
}

const OWN: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

impl ForeignFile {
    /// `None`: this process is not root's, or root may write there as any user does.
    pub(super) fn open(path: &Path) -> Result<Option<Self>, StateFileError> {
        let refused = |error: io::Error| StateFileError::Refused { path: path.to_owned(), error };
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        // The folder itself may be a link: systemd makes one for a service.
        let folder = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let folder = File::from(open(folder_of(path), folder, Mode::empty()).map_err(|e| refused(e.into()))?);
        if !is_for_others(&folder.metadata().map_err(refused)?) {
            return Ok(None);
        }
        let name =
            PathBuf::from(path.file_name().ok_or_else(|| refused(io::ErrorKind::InvalidInput.into()))?);
        let lock_name = lock_of(&name);
        let (lock, lived) = match make(&folder, &lock_name) {
            Ok(lock) => (lock, false),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                (read(&folder, &lock_name).map_err(refused)?, true)
            }
            Err(error) => return Err(refused(error)),
        };
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self { folder, name, lock, lived })),
            Err(Errno::WOULDBLOCK) => Err(StateFileError::Taken(path.to_owned())),
            Err(error) => Err(refused(error.into())),
        }
    }

    /// Its text becomes another one, as [`StateFile::open`](super::StateFile::open) and [`write`](super::StateFile::write) would have it.
    pub(super) fn replace(self, next: impl FnOnce(Option<&str>) -> String) -> io::Result<()> {
        let text = text_of(read(&self.folder, &self.name), self.lived)?;
        let new = beside(&self.name, ".new");
        match unlinkat(&self.folder, &new, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        let mut file = make(&self.folder, &new)?;
        file.write_all(next(text.as_deref()).as_bytes())?;
        file.sync_all()?;
        renameat(&self.folder, &new, &self.folder, &self.name)?;
        self.folder.sync_all()?;
        drop(self.lock);
        Ok(())
    }
}

/// A new file, the folder's owner's. What is there already may be a link to a file that is not theirs.
fn make(folder: &File, name: &Path) -> io::Result<File> {
    let flags = OWN | OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY;
    let file = File::from(openat(folder, name, flags, Mode::RUSR | Mode::WUSR)?);
    let owner = folder.metadata()?;
    fchown(&file, Some(Uid::from_raw(owner.uid())), Some(Gid::from_raw(owner.gid())))?;
    Ok(file)
}

/// A file that is there, if it is one.
fn read(folder: &File, name: &Path) -> io::Result<File> {
    let file = File::from(openat(folder, name, OWN | OFlags::RDONLY, Mode::empty())?);
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "there is something else than a file")),
    }
}
