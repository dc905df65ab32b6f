//! `taut identity`, and how the sessions of the other commands are protected.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use taut_io::identity::read_or_make;
use taut_io::session::{Credentials, Security};
use taut_transport::identity::{Identity, Trust};

use crate::state::users_file;
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

/// Sessions without security.
#[derive(Args)]
#[group(id = "in_the_clear")]
pub(crate) struct Plaintext {
    /// Without any security, between programs of this host: for the lab only
    #[arg(long)]
    plaintext: bool,
    /// Without any security, at any address: for the lab only, in a network of its own
    #[arg(long)]
    plaintext_anywhere: bool,
}

impl Plaintext {
    /// Are sessions protected?
    pub(crate) const fn is_off(&self) -> bool {
        !self.plaintext && !self.plaintext_anywhere
    }

    /// How sessions are protected: by the identity in that file, with these peers, unless they are in the clear. What follows from
    /// that is said: "whoever is on the way …".
    pub(crate) fn or_identity(
        &self,
        file: Option<&Path>,
        trust: Trust,
        risk: &str,
    ) -> Result<Security, String> {
        let security = match self {
            Self { plaintext: false, plaintext_anywhere: false } => {
                return Ok(Credentials { identity: load(file)?, trust }.into());
            }
            Self { plaintext_anywhere: true, .. } => Security::PlaintextAnywhere,
            Self { .. } => Security::PlaintextOnLoopback,
        };
        crate::say(&format!("WITHOUT SECURITY: {risk}"));
        Ok(security)
    }

    /// What makes the other end do the same.
    pub(crate) const fn flag(&self) -> &'static str {
        if self.plaintext_anywhere { "--plaintext-anywhere" } else { "--plaintext" }
    }
}

#[derive(Serialize)]
struct Shown {
    fingerprint: String,
    path: String,
    /// It was made just now.
    new: bool,
}

pub(crate) fn identity(arguments: &Arguments) -> Ended {
    let (path, identity, new) = read(arguments.path.as_deref())?;
    let fingerprint = identity.fingerprint().to_string();
    if arguments.json {
        print_json(&Shown { fingerprint, path: path.display().to_string(), new })?;
    } else {
        if new {
            crate::say(&format!("made {}; whoever reads it can be this host: keep it", path.display()));
        }
        print(&format!("{fingerprint}\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// This host's identity from `path`, or from where it is kept by default; made when there is none.
fn load(path: Option<&Path>) -> Result<Identity, String> {
    let (path, identity, new) = read(path)?;
    if new {
        crate::say(&format!("made {}: the identity {}", path.display(), identity.fingerprint()));
    }
    Ok(identity)
}

fn read(path: Option<&Path>) -> Result<(PathBuf, Identity, bool), String> {
    let path = match path {
        Some(path) => path.to_owned(),
        None => users_file("XDG_CONFIG_HOME", ".config", "identity", "name the identity's file")?,
    };
    let (identity, new) = read_or_make(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok((path, identity, new))
}
