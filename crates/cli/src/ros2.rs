//! `taut ros2`: the bridge to ROS 2, which is a program of its own, for DDS is heavy.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use clap::Args;

use crate::Ended;

#[derive(Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Arguments {
    /// Those of taut-ros2: the bridge's file, --json; --help has them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

const NAME: &str = "taut-ros2";

/// Becomes that program: the one beside this one, or else the first on the path.
pub(crate) fn ros2(arguments: &Arguments) -> Ended {
    let beside = std::env::current_exe().ok().map(|taut| taut.with_file_name(NAME));
    let program = beside.filter(|program| program.exists()).unwrap_or_else(|| PathBuf::from(NAME));
    let error = Command::new(&program).args(&arguments.arguments).exec();
    Err(match error.kind() {
        std::io::ErrorKind::NotFound => format!(
            "there is no {NAME} beside this taut or on the path: `make ros2`, in taut's source, builds target/ros2/release/{NAME}"
        ),
        _ => format!("{}: {error}", program.display()),
    })
}
