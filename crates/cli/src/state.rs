//! Where a robot and an operator keep what survives them, and `taut reset`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use taut_io::StateFileError;
use taut_io::session::RobotRecord;
use taut_session::Latch;
use taut_transport::identity::Fingerprint;

use crate::{Ended, host, print};

#[derive(Args)]
pub(crate) struct Arguments {
    /// The robot's --listen: its file is where that robot keeps it by default
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = host::address, required_unless_present = "state")]
    listen: Option<SocketAddr>,
    /// The robot's --state
    #[arg(long, value_name = "FILE", conflicts_with = "listen")]
    state: Option<PathBuf>,
}

/// Lets go of the stop that a robot's file keeps. For a person beside the robot; the robot does not run.
pub(crate) fn reset(arguments: &Arguments) -> Ended {
    let path = match (&arguments.state, arguments.listen) {
        (Some(path), _) => path.clone(),
        (None, Some(listen)) => of_robot(listen)?,
        (None, None) => unreachable!("one of both is required"),
    };
    let latch = RobotRecord::reset(&path).map_err(|error| match error {
        StateFileError::Taken(_) => {
            "the robot runs: press c at the operator, or r at the robot for what was pressed there; or end it first".to_owned()
        }
        error => format!("{error}; name the robot's --listen as it was written, or its --state"),
    })?;
    print(&match latch {
        Some(latch) => format!("let go of: {}\n", kept(&latch)),
        None => format!("{} keeps no stop\n", path.display()),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// A latched stop in words.
pub(crate) fn kept(latch: &Latch) -> String {
    let place = if latch.held_locally { ", pressed at the robot" } else { "" };
    format!("{}{place}", latch.cause.name())
}

/// Where the robot that listens there keeps its record.
pub(crate) fn of_robot(listen: SocketAddr) -> Result<PathBuf, String> {
    place(&format!("robot-{listen}"))
}

/// Where this operator of this robot keeps its record.
pub(crate) fn of_operator(
    own: Option<&Fingerprint>,
    robot: Option<&Fingerprint>,
    connect: &str,
) -> Result<PathBuf, String> {
    match (own, robot) {
        (Some(own), Some(robot)) => place(&format!("operator-{own}-{robot}")),
        _ => place(&format!("operator-{}", connect.replace('/', "_"))),
    }
}

/// A file of this name in the folder that systemd gives a service, or else in the user's own for state.
fn place(name: &str) -> Result<PathBuf, String> {
    match absolute("STATE_DIRECTORY") {
        Some(folder) => Ok(folder.join(name)),
        None => users_file("XDG_STATE_HOME", ".local/state", name, "name a file by --state"),
    }
}

/// A file of ours in the folder of the user's that `variable` names, or else in the one `below` home.
pub(crate) fn users_file(variable: &str, below: &str, name: &str, or_else: &str) -> Result<PathBuf, String> {
    let folder = absolute(variable).or_else(|| Some(absolute("HOME")?.join(below)));
    let folder = folder.ok_or_else(|| format!("neither {variable} nor HOME is set: {or_else}"))?;
    Ok(folder.join("taut").join(name))
}

/// An empty variable, or one that is not absolute, counts as not set (XDG Base Directory Specification).
fn absolute(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}
