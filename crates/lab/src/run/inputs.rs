//! Files that a scenario names: read once, remembered by their hash.

use std::collections::BTreeMap;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::result::Input;

/// Why a run cannot start: one line that names the file or the key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RunError(pub String);

impl RunError {
    pub(crate) fn new(message: impl std::fmt::Display) -> Self {
        Self(message.to_string())
    }
}

/// The largest file that is read.
const SIZE_LIMIT: u64 = 1 << 30;

/// Reads files, each once.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    files: BTreeMap<String, (Arc<Vec<u8>>, String)>,
}

impl Inputs {
    /// The bytes of a file.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(&mut self, name: &str) -> Result<Arc<Vec<u8>>, RunError> {
        if let Some((bytes, _)) = self.files.get(name) {
            return Ok(bytes.clone());
        }
        let error = |what: String| RunError(format!("{name}: {what}"));
        let size = std::fs::metadata(name).map_err(|e| error(format!("cannot be read: {e}")))?.len();
        if size > SIZE_LIMIT {
            return Err(error(format!("is larger than {SIZE_LIMIT} bytes")));
        }
        let bytes = Arc::new(std::fs::read(name).map_err(|e| error(format!("cannot be read: {e}")))?);
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
