//! Files that a scenario names: read once, remembered by their hash.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::recordings::what_is_absent;
use crate::scenario::{Scenario, unreadable};
use taut_report::result::Input;

/// Why a run cannot be done: one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// Something that the scenario asks for cannot be had; names the key, and the file with the place in it.
    #[error("{0}")]
    Scenario(String),
    /// What a key of the scenario names cannot be had; says why, with the file and the place in it.
    #[error("{key}: {message}")]
    Key {
        /// The key, dotted.
        key: String,
        /// What is wrong.
        message: String,
    },
    /// Files cannot be written; names the file.
    #[error("{0}")]
    Output(String),
    /// A run of a campaign has packets that are not accounted for; names its seed. None of its numbers is to be believed.
    #[error("{0}")]
    Conservation(String),
}

impl RunError {
    pub(crate) fn scenario(message: impl std::fmt::Display) -> Self {
        Self::Scenario(message.to_string())
    }

    pub(crate) fn key(key: impl Into<String>, message: impl std::fmt::Display) -> Self {
        Self::Key { key: key.into(), message: message.to_string() }
    }

    pub(crate) fn output(message: impl std::fmt::Display) -> Self {
        Self::Output(message.to_string())
    }

    /// The same, naming the file in which the scenario stands, and the line of the key in it.
    pub fn within(self, file: &Path) -> Self {
        let name = file.display();
        match self {
            Self::Scenario(message) => Self::Scenario(format!("{name}: {message}")),
            Self::Key { key, message } => Self::Scenario(match Scenario::line_in(file, &key) {
                Some(line) => format!("{name}:{line}: {key}: {message}"),
                None => format!("{name}: {key}: {message}"),
            }),
            other @ (Self::Output(_) | Self::Conservation(_)) => other,
        }
    }
}

/// The largest file that is read.
const SIZE_LIMIT: u64 = 1 << 30;

/// Reads files, each once.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// What names are relative to; empty: to where we are.
    folder: PathBuf,
    files: BTreeMap<String, (Arc<Vec<u8>>, String)>,
}

impl Inputs {
    /// Reads files whose names are relative to a folder.
    pub fn relative_to(folder: PathBuf) -> Self {
        Self { folder, files: BTreeMap::new() }
    }

    /// The bytes of a file.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(&mut self, name: &str) -> Result<Arc<Vec<u8>>, RunError> {
        if let Some((bytes, _)) = self.files.get(name) {
            return Ok(bytes.clone());
        }
        let error = |what: String| RunError::Scenario(format!("{name}: {what}"));
        let mut bytes = Vec::new();
        let file = File::open(self.folder.join(name)).map_err(|e| {
            let absent = (e.kind() == ErrorKind::NotFound).then(|| what_is_absent(name)).flatten();
            error(absent.unwrap_or_else(|| unreadable(&e)))
        })?;
        file.take(SIZE_LIMIT + 1).read_to_end(&mut bytes).map_err(|e| error(unreadable(&e)))?;
        if bytes.len() as u64 > SIZE_LIMIT {
            return Err(error(format!("is larger than {SIZE_LIMIT} bytes")));
        }
        let bytes = Arc::new(bytes);
        let hash = hex(&Sha256::digest(bytes.as_slice()));
        self.files.insert(name.to_owned(), (bytes.clone(), hash));
        Ok(bytes)
    }

    /// Everything that was read.
    pub fn list(&self) -> Vec<Input> {
        let input = |(name, (_, hash)): (&String, &(Arc<Vec<u8>>, String))| Input {
            path: name.clone(),
            sha256: hash.clone(),
        };
        self.files.iter().map(input).collect()
    }
}

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
