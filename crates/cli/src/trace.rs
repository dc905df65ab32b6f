//! `taut trace`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;

use crate::{Ended, print, print_json};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// What is in a recording: CSV, MCAP, pcap, pcapng, mahimahi
    Info {
        /// The recording
        file: PathBuf,
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// Convert a recording to CSV or MCAP, by the ending of OUT
    Convert {
        /// The recording
        input: PathBuf,
        /// Where to, ending in .csv or .mcap
        output: PathBuf,
    },
}

pub(crate) fn trace(command: &Command) -> Ended {
    match command {
        Command::Info { file, json } => {
            let recording = taut_trace::read(file).map_err(|e| e.to_string())?;
            let info = taut_trace::info(&recording);
            if *json {
                print_json(&info)?;
            } else {
                print(&format!("{info}\n"))?;
            }
        }
        Command::Convert { input, output } => {
            taut_trace::convert(input, output).map_err(|e| e.to_string())?;
            print(&format!("{} written\n", output.display()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
