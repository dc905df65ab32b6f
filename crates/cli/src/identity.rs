//! `taut identity`, and where the identities of the other commands come from.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use taut_io::session::os_identity;
use taut_transport::identity::Identity;

use crate::streams::say;
use crate::{Ended, print, print_json};

#[derive(Args)]
pub(crate) struct Arguments {
    /// The file that keeps the secret. Default: taut/identity in $XDG_CONFIG_HOME, or in ~/.config
    #[arg(long = "identity", visible_alias = "path", value_name = "FILE")]
    path: Option<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Shown {
    fingerprint: String,
    path: String,
    /// It was made just now.
    new: bool,
}

pub(crate) fn identity(arguments: &Arguments) -> Ended {
    let path = path_or_default(arguments.path.as_deref())?;
    let (identity, new) = read_or_make(&path)?;
    let fingerprint = identity.fingerprint().to_string();
    if arguments.json {
        print_json(&Shown { fingerprint, path: path.display().to_string(), new })?;
    } else {
        if new {
            say(&format!("taut: made {}; whoever reads it can be this host: keep it", path.display()));
        }
        print(&format!("{fingerprint}\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// This host's identity from `path`, or from where it is kept by default; made when there is none.
pub(crate) fn load(path: Option<&Path>) -> Result<Identity, String> {
    let path = path_or_default(path)?;
    let (identity, new) = read_or_make(&path)?;
    if new {
        say(&format!("taut: made {}: the identity {}", path.display(), identity.fingerprint()));
    }
    Ok(identity)
}

fn path_or_default(path: Option<&Path>) -> Result<PathBuf, String> {
    if let Some(path) = path {
        return Ok(path.to_owned());
    }
    // An empty variable, or one that is not absolute, counts as not set (XDG Base Directory Specification).
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let config = absolute("XDG_CONFIG_HOME").or_else(|| absolute("HOME").map(|home| home.join(".config")));
    let config = config.ok_or("neither XDG_CONFIG_HOME nor HOME is set: name the identity's file")?;
    Ok(config.join("taut").join("identity"))
}

fn read_or_make(path: &Path) -> Result<(Identity, bool), String> {
    match read(path) {
        Ok(Some(identity)) => Ok((identity, false)),
        Ok(None) => make(path).map(|identity| (identity, true)),
        Err(message) => Err(format!("{}: {message}", path.display())),
    }
}

/// `None`: there is no such file.
fn read(path: &Path) -> Result<Option<Identity>, String> {
    let metadata = match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
        Ok(metadata) => metadata,
    };
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let identity = text.trim().parse().map_err(|error| format!("is not an identity: {error}"))?;
    // Only now: what is no identity is not to be hidden.
    if metadata.permissions().mode() & 0o077 != 0 {
        return Err(format!("others can read this secret; `chmod 600 {}` hides it", path.display()));
    }
    Ok(Some(identity))
}

/// Never over another one: two that make one at the same time end up with the same.
fn make(path: &Path) -> Result<Identity, String> {
    let place = |error: std::io::Error| format!("{}: {error}", path.display());
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(place)?;
    }
    let identity = os_identity();
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    match file {
        Ok(mut file) => {
            let text = format!("{}\n", identity.to_secret_text());
            file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(place)?;
            Ok(identity)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let identity = read(path).map_err(|message| format!("{}: {message}", path.display()))?;
            identity.ok_or_else(|| format!("{}: it vanished", path.display()))
        }
        Err(error) => Err(place(error)),
    }
}
