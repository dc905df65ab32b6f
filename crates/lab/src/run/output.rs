//! Files of a run: all of them, or none.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::inputs::RunError;

/// A folder that files go to. They are written beside their final names and moved there by [`Output::commit`]; without
/// it, nothing remains, but for files that end in `.partial` where a signal ends the process.
#[derive(Debug)]
pub struct Output {
    folder: PathBuf,
    names: Vec<String>,
    /// Folders that were not there before, the outer ones first.
    made: Vec<PathBuf>,
}

impl Output {
    /// Makes the folder if there is none.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new(folder: &Path) -> Result<Self, RunError> {
        let mut output = Self { folder: folder.to_owned(), names: Vec::new(), made: Vec::new() };
        output.make_folder(folder)?;
        Ok(output)
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Begins a file.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn create(&mut self, name: &str) -> Result<BufWriter<File>, RunError> {
        let path = self.partial(name);
        if self.names.iter().any(|other| other == name) {
            return Err(error(&self.folder.join(name), "would be written twice"));
        }
        if let Some(parent) = path.parent() {
            self.make_folder(parent)?;
        }
        if self.folder.join(name).is_dir() {
            return Err(error(&self.folder.join(name), "cannot be written: this is a folder"));
        }
        let file = File::create(&path).map_err(|e| error(&path, format!("cannot be written: {e}")))?;
        self.names.push(name.to_owned());
        Ok(BufWriter::with_capacity(1 << 16, file))
    }

    /// A whole file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&mut self, name: &str, content: &[u8]) -> Result<(), RunError> {
        let mut file = self.create(name)?;
        let written = file.write_all(content).and_then(|()| file.flush());
        written.map_err(|e| error(&self.folder.join(name), format!("cannot be written: {e}")))
    }

    /// Moves every file to its final name. What was there before is kept aside until all are.
    ///
    /// # Errors
    /// When one cannot be moved: then the folder is as it was before.
    pub fn commit(mut self) -> Result<Vec<PathBuf>, RunError> {
        let mut moved: Vec<Moved> = Vec::new();
        for name in &self.names {
            match Moved::new(&self.partial(name), self.folder.join(name)) {
                Ok(one) => moved.push(one),
                Err(failed) => {
                    moved.into_iter().rev().for_each(Moved::undo);
                    return Err(failed);
                }
            }
        }
        self.names.clear();
        self.made.clear();
        Ok(moved.into_iter().map(Moved::keep).collect())
    }

    fn partial(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.partial"))
    }

    fn make_folder(&mut self, folder: &Path) -> Result<(), RunError> {
        let absent: Vec<PathBuf> = folder
            .ancestors()
            .take_while(|f| !f.as_os_str().is_empty() && !f.exists())
            .map(Path::to_owned)
            .collect();
        self.made.extend(absent.into_iter().rev());
        fs::create_dir_all(folder).map_err(|e| error(folder, format!("cannot be made: {e}")))
    }
}

/// A file in its final place, and what was there before.
struct Moved {
    path: PathBuf,
    before: Option<PathBuf>,
}

impl Moved {
    fn new(partial: &Path, path: PathBuf) -> Result<Self, RunError> {
        let before = set_aside(&path).map_err(|e| error(&path, format!("cannot be replaced: {e}")))?;
        let moved = Self { path, before };
        match fs::rename(partial, &moved.path) {
            Ok(()) => Ok(moved),
            Err(e) => {
                let failed = error(&moved.path, format!("cannot be written: {e}"));
                moved.restore();
                Err(failed)
            }
        }
    }

    fn undo(self) {
        if self.before.is_none() {
            let _ = fs::remove_file(&self.path);
        }
        self.restore();
    }

    fn restore(self) {
        if let Some(before) = self.before {
            let _ = fs::rename(&before, &self.path);
            // A rename between two names of one file does nothing.
            let _ = fs::remove_file(&before);
        }
    }

    fn keep(self) -> PathBuf {
        if let Some(before) = self.before {
            let _ = fs::remove_file(before);
        }
        self.path
    }
}

/// Gives a file a second name, where there is one.
fn set_aside(path: &Path) -> io::Result<Option<PathBuf>> {
    if !fs::symlink_metadata(path).is_ok_and(|found| !found.is_dir()) {
        return Ok(None);
    }
    let mut aside = path.as_os_str().to_owned();
    aside.push(format!(".{}.before", std::process::id()));
    let aside = PathBuf::from(aside);
    // A second link leaves the first where it is; not every file system has them.
    match fs::hard_link(path, &aside) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => return Err(e),
        Err(_) => fs::rename(path, &aside)?,
        Ok(()) => {}
    }
    Ok(Some(aside))
}

fn error(path: &Path, what: impl std::fmt::Display) -> RunError {
    RunError::Output(format!("{}: {what}", path.display()))
}

impl Drop for Output {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = fs::remove_file(self.partial(name));
        }
        for folder in self.made.iter().rev() {
            // Only when nothing is left in it.
            let _ = fs::remove_dir(folder);
        }
    }
}
