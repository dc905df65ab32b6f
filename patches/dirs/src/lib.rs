//! The home folder: see `[patch.crates-io]` in ros2/Cargo.toml.

use std::path::PathBuf;

/// Of whoever runs the program.
#[must_use]
pub fn home_dir() -> Option<PathBuf> {
    std::env::home_dir()
}
