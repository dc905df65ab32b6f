//! `taut manual`: manual pages and completions of shells, from the same declarations as `--help`.

use std::fs::{File, create_dir_all};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Command, CommandFactory as _};
use clap_complete::Shell;

use crate::{Cli, Ended};

#[derive(Args)]
pub(crate) struct Arguments {
    /// The folder, laid out as below /usr: share/man/man1 and those of bash, zsh and fish
    folder: PathBuf,
}

pub(crate) fn manual(arguments: &Arguments) -> Ended {
    let mut command = Cli::command();
    command.build();
    let pages = arguments.folder.join("share/man/man1");
    page(&command, &pages)?;
    for (shell, path) in [
        (Shell::Bash, "share/bash-completion/completions/taut"),
        (Shell::Zsh, "share/zsh/vendor-completions/_taut"),
        (Shell::Fish, "share/fish/vendor_completions.d/taut.fish"),
    ] {
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut command, "taut", &mut text);
        write(&arguments.folder.join(path), &text)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A page for this command and one for each below it: `taut.1`, `taut-robot.1`, `taut-trace-info.1`.
fn page(command: &Command, folder: &Path) -> Result<(), String> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let mut text = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut text).map_err(|error| format!("{name}: {error}"))?;
    write(&folder.join(format!("{name}.1")), &text)?;
    let shown = |below: &&Command| !below.is_hide_set() && below.get_name() != "help";
    command.get_subcommands().filter(shown).try_for_each(|below| page(below, folder))
}

fn write(path: &Path, text: &[u8]) -> Result<(), String> {
    let written = || {
        create_dir_all(path.parent().unwrap_or(path))?;
        let mut file = BufWriter::new(File::create(path)?);
        file.write_all(text)?;
        file.flush()
    };
    written().map_err(|error| format!("{}: {error}", path.display()))
}
