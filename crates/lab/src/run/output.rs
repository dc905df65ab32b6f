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
    made_folder: bool,
    committed: bool,
}

impl Output {
    /// Makes the folder if there is none.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new(folder: &Path) -> Result<Self, RunError> {
        let made_folder = !folder.exists();
        fs::create_dir_all(folder).map_err(|e| RunError(format!("{}: cannot be made: {e}", folder.display())))?;
        Ok(Self { folder: folder.to_owned(), names: Vec::new(), made_folder, committed: false })
    }

    /// Begins a file.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn create(&mut self, name: &str) -> Result<BufWriter<File>, RunError> {
        let path = self.partial(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(|e| RunError(format!("{}: {e}", parent.display())))?;
        }
        let file = File::create(&path).map_err(|e| RunError(format!("{}: {e}", path.display())))?;
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
        written.map_err(|e| RunError(format!("{}: {e}", self.folder.join(name).display())))
    }

    /// Moves every file to its final name.
    ///
    /// # Errors
    /// When one cannot be moved.
    pub fn commit(mut self) -> Result<Vec<PathBuf>, RunError> {
        let names = std::mem::take(&mut self.names);
        self.committed = true;
        let moved = names.iter().map(|name| {
            let path = self.folder.join(name);
            fs::rename(self.partial(name), &path).map_err(|e| RunError(format!("{}: {e}", path.display())))?;
            Ok(path)
        });
        moved.collect()
    }

    fn partial(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.partial"))
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if self.committed {
            return;
        }
        for name in &self.names {
            let _ = fs::remove_file(self.partial(name));
        }
        if self.made_folder {
            // Only when nothing is left in it.
            let _ = fs::remove_dir(&self.folder);
        }
    }
}
