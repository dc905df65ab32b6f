//! `taut trace`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;

use crate::Ended;

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
                println!("{}", serde_json::to_string_pretty(&info).map_err(|e| e.to_string())?);
            } else {
                println!("{info}");
            }
        }
        Command::Convert { input, output } => {
            let recording = taut_trace::read(input).map_err(|e| e.to_string())?;
            taut_trace::write(output, &recording).map_err(|e| e.to_string())?;
            println!("{} written", output.display());
        }
    }
    Ok(ExitCode::SUCCESS)
}
