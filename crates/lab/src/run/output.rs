//! Files of a run: all of them, or none.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use super::inputs::RunError;

/// A folder that files go to. They are written beside their final names and moved there by [`Output::commit`]; without
/// it, nothing remains.
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

    /// Moves every file to its final name.
    ///
    /// # Errors
    /// When one cannot be moved.
    pub fn commit(mut self) -> Result<Vec<PathBuf>, RunError> {
        let mut moved = Vec::new();
        while let Some(name) = self.names.get(moved.len()) {
            let path = self.folder.join(name);
            fs::rename(self.partial(name), &path)
                .map_err(|e| error(&path, format!("cannot be written: {e}")))?;
            moved.push(path);
        }
        self.names.clear();
        self.made.clear();
        Ok(moved)
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
