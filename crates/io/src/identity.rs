//! The file that keeps an identity's secret.
//!
//! It is its owner's alone: what others own, can read, or could put another one in the place of, is refused. It comes into being
//! whole or not at all.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::libc;
use rustix::fs::{AtFlags, CWD, linkat};
use rustix::process::geteuid;
use taut_transport::identity::{Identity, KeyTextError};
use zeroize::Zeroizing;

use crate::privileges::hide_memory;
use crate::session::os_identity;
use crate::state_file::{folder_of, make_folder_of};

/// A file that is not taken for an identity, or cannot be made one.
#[derive(Debug, thiserror::Error)]
pub enum IdentityFileError {
    /// The system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is a folder, a pipe, a device.
    #[error("is not a file")]
    NotAFile,
    /// It says something else.
    #[error("is not an identity: {0}")]
    NotAnIdentity(KeyTextError),
    /// Others than its owner may read it.
    #[error("others can read this secret; `chmod 600 {}` hides it", .0.display())]
    Readable(PathBuf),
    /// It is somebody else's.
    #[error("belongs to user {owner}, who knows this secret and can change it; this is user {user}")]
    Owner {
        /// Whose it is.
        owner: u32,
        /// Who asks.
        user: u32,
    },
    /// Who may write in its folder may put another one in its place.
    #[error("others can write in {}, and so put another secret here; `chmod go-w` on that folder keeps them out", .0.display())]
    Folder(PathBuf),
    /// The same, by its owner.
    #[error("{} belongs to user {owner}, who can put another secret here", folder.display())]
    FolderOwner {
        /// The folder.
        folder: PathBuf,
        /// Whose it is.
        owner: u32,
    },
}

/// More than this no identity has, with whatever is around it.
const LONGEST: u64 = 256;

/// The identity in this file, and whether it was made just now because there was no such file. From here on no memory of this
/// process goes into a core dump, for it holds a secret ([`hide_memory`]).
///
/// # Errors
/// See [`IdentityFileError`].
pub fn read_or_make(path: &Path) -> Result<(Identity, bool), IdentityFileError> {
    match read(path)? {
        Some(identity) => Ok((identity, false)),
        None => make(path),
    }
}

/// `None`: there is no such file.
fn read(path: &Path) -> Result<Option<Identity>, IdentityFileError> {
    // Whoever waits at a pipe waits for ever.
    let file = match OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(IdentityFileError::NotAFile);
    }
    hide_memory()?;
    // As large as it becomes: to move would leave a copy behind.
    let mut text = Zeroizing::new(String::with_capacity(2 * LONGEST as usize));
    file.take(LONGEST).read_to_string(&mut text)?;
    let identity = text.parse().map_err(IdentityFileError::NotAnIdentity)?;
    // Only now: what is no identity is not to be hidden.
    check(path, &metadata)?;
    Ok(Some(identity))
}

/// Is it its owner's alone?
fn check(path: &Path, metadata: &Metadata) -> Result<(), IdentityFileError> {
    let user = geteuid().as_raw();
    if metadata.uid() != user {
        return Err(IdentityFileError::Owner { owner: metadata.uid(), user });
    }
    if metadata.mode() & 0o077 != 0 {
        return Err(IdentityFileError::Readable(path.to_owned()));
    }
    check_folder(folder_of(path))?;
    // Where a link leads to.
    check_folder(folder_of(&path.canonicalize()?))
}

fn check_folder(folder: &Path) -> Result<(), IdentityFileError> {
    let metadata = fs::metadata(folder)?;
    if metadata.mode() & 0o022 != 0 {
        return Err(IdentityFileError::Folder(folder.to_owned()));
    }
    if ![geteuid().as_raw(), 0].contains(&metadata.uid()) {
        return Err(IdentityFileError::FolderOwner { folder: folder.to_owned(), owner: metadata.uid() });
    }
    Ok(())
}

/// Never over another one: two that make one at the same time end up with the same.
fn make(path: &Path) -> Result<(Identity, bool), IdentityFileError> {
    let folder = make_folder_of(path)?;
    check_folder(folder)?;
    let identity = os_identity();
    let stored = store(folder, path, &identity);
    // Not earlier: the link that names the file leads over /proc, of which it leaves a user nothing.
    hide_memory()?;
    match stored {
        Ok(()) => Ok((identity, true)),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let identity = read(path)?.ok_or(io::Error::from(ErrorKind::NotFound))?;
            Ok((identity, false))
        }
        Err(error) => Err(error.into()),
    }
}

/// Writes it without a name, which it gets when all of it is on the disk: whatever interrupts that leaves nothing.
fn store(folder: &Path, path: &Path, identity: &Identity) -> io::Result<()> {
    match store_unnamed(folder, path, identity) {
        // Not every file system has such files, and without /proc, or where it is hidden, they get no name.
        Err(error) if error.kind() != ErrorKind::AlreadyExists => store_by_name(folder, path, identity)?,
        other => other?,
    }
    File::open(folder)?.sync_all()
}

fn store_unnamed(folder: &Path, path: &Path, identity: &Identity) -> io::Result<()> {
    let file = OpenOptions::new().write(true).custom_flags(libc::O_TMPFILE).mode(0o600).open(folder)?;
    write(&file, identity)?;
    // As open(2) has it for O_TMPFILE.
    let unnamed = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(linkat(CWD, unnamed, CWD, path, AtFlags::SYMLINK_FOLLOW)?)
}

/// The same by another name, which `SIGKILL` may leave behind; never part of an identity.
fn store_by_name(folder: &Path, path: &Path, identity: &Identity) -> io::Result<()> {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}", std::process::id()));
    let draft = folder.join(name);
    let _ = fs::remove_file(&draft); // Of an earlier process of this number.
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    let linked = write(&file, identity).and_then(|()| fs::hard_link(&draft, path));
    fs::remove_file(&draft)?;
    linked
}

fn write(mut file: &File, identity: &Identity) -> io::Result<()> {
    file.write_all(identity.to_secret_text().as_bytes())?;
    file.write_all(b"\n")?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::DirBuilder;
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown, symlink};

    /// A folder of one's own, removed at the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("taut-identity-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&folder);
            DirBuilder::new().mode(0o700).create(&folder).unwrap();
            Self(folder)
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }

        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(&self.0).unwrap();
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn refusal(path: &Path) -> IdentityFileError {
        read_or_make(path).map(|(identity, _)| identity).unwrap_err()
    }

    #[test]
    fn an_identity_is_made_once_and_read_ever_after() {
        let folder = Folder::new("once");
        let path = folder.path("me");
        let (made, new) = read_or_make(&path).unwrap();
        assert!(new);
        let (read, new) = read_or_make(&path).unwrap();
        assert_eq!((read.to_bytes(), new), (made.to_bytes(), false));
        assert_eq!(folder.names(), ["me"]);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn many_that_make_one_at_the_same_time_get_the_same() {
        let folder = Folder::new("race");
        let path = folder.path("me");
        let made: Vec<_> = std::thread::scope(|scope| {
            let all: Vec<_> = (0..8).map(|_| scope.spawn(|| read_or_make(&path).unwrap())).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert!(made.iter().all(|(identity, _)| identity.to_bytes() == made[0].0.to_bytes()));
        assert_eq!(made.iter().filter(|(_, new)| *new).count(), 1);
        assert_eq!(folder.names(), ["me"]);
    }

    #[test]
    fn a_file_system_without_unnamed_files_gets_a_whole_one_as_well_and_nothing_else() {
        let folder = Folder::new("named");
        let (path, identity) = (folder.path("me"), os_identity());
        store_by_name(&folder.0, &path, &identity).unwrap();
        let again = store_by_name(&folder.0, &path, &os_identity()).unwrap_err();
        assert_eq!(again.kind(), ErrorKind::AlreadyExists);
        assert_eq!(folder.names(), ["me"]);
        assert_eq!(read(&path).unwrap().unwrap().to_bytes(), identity.to_bytes());
    }

    #[test]
    fn a_secret_in_a_folder_where_others_can_write_is_refused_and_none_is_made_there() {
        let folder = Folder::new("open");
        let path = folder.path("me");
        read_or_make(&path).unwrap();
        for mode in [0o770, 0o707, 0o1777] {
            fs::set_permissions(&folder.0, PermissionsExt::from_mode(mode)).unwrap();
            assert!(matches!(refusal(&path), IdentityFileError::Folder(_)), "{mode:o}");
            assert!(matches!(refusal(&folder.path("new")), IdentityFileError::Folder(_)), "{mode:o}");
        }
        assert_eq!(folder.names(), ["me"]);
        // A link from a folder of one's own leads there all the same.
        let own = Folder::new("link");
        symlink(&path, own.path("me")).unwrap();
        assert!(matches!(refusal(&own.path("me")), IdentityFileError::Folder(_)));
    }

    #[test]
    fn a_secret_of_somebody_else_is_refused() {
        let folder = Folder::new("owner");
        let path = folder.path("me");
        read_or_make(&path).unwrap();
        if let Err(error) = chown(&path, Some(65_534), None) {
            println!("skipped: {error}");
            return;
        }
        assert!(matches!(refusal(&path), IdentityFileError::Owner { owner: 65_534, .. }));
        chown(&path, Some(geteuid().as_raw()), None).unwrap();
        chown(&folder.0, Some(65_534), None).unwrap();
        assert!(matches!(refusal(&path), IdentityFileError::FolderOwner { owner: 65_534, .. }));
    }

    #[test]
    fn what_is_no_file_is_not_waited_for() {
        let folder = Folder::new("pipe");
        let path = folder.path("pipe");
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(CWD, &path, fifo, rustix::fs::Mode::RWXU, 0).unwrap();
        assert!(matches!(refusal(&path), IdentityFileError::NotAFile));
        assert!(matches!(refusal(&folder.0), IdentityFileError::NotAFile));
    }
}
