//! Nothing: see `[patch.crates-io]` in the workspace's Cargo.toml.
