//! `taut map`: what stays calm, over round trip, loss and control law.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use taut_core::{Duration, Probability};
use taut_lab::map::Map;
use taut_lab::scenario::LawSpec;
use taut_report::{map_figure, map_text};

use crate::progress::Bar;
use crate::{Ended, print, print_json};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Control laws, separated by commas: position_force, position_position, wave, tdpa; all when nothing is said
    #[arg(long, value_delimiter = ',', value_name = "LAW,…")]
    law: Vec<LawSpec>,
    /// Round trips of the network, separated by commas; whole milliseconds
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "TIME,…",
        default_value = "1ms,2ms,4ms,7ms,10ms,16ms,25ms,40ms,66ms,100ms,160ms,300ms"
    )]
    rtt: Vec<Duration>,
    /// Share of messages that is lost, each way, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "PERCENT,…", default_value = "0%")]
    loss: Vec<Probability>,
    /// Write the picture to this file
    #[arg(long, value_name = "FILE.svg")]
    svg: Option<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    /// No progress bar
    #[arg(long)]
    quiet: bool,
}

/// More takes more memory than a line needs.
const LONGEST: Duration = Duration::from_secs(1);

pub(crate) fn map(arguments: &Arguments) -> Ended {
    if let Some(long) = arguments.rtt.iter().find(|rtt| **rtt > LONGEST) {
        return Err(format!("--rtt {long} is longer than {LONGEST}: nobody feels through that"));
    }
    let laws = if arguments.law.is_empty() { LawSpec::all().to_vec() } else { arguments.law.clone() };
    let map = Map { laws, round_trips: arguments.rtt.clone(), losses: arguments.loss.clone() };
    let bar = Bar::new("map", arguments.quiet);
    let found = map.make(&|done| bar.set(done)).map_err(|e| e.to_string())?;
    drop(bar);
    if let Some(file) = &arguments.svg {
        std::fs::write(file, map_figure(&found))
            .map_err(|e| format!("{}: {e}; name a file in a folder that is there", file.display()))?;
    }
    if arguments.json {
        print_json(&found)?;
    } else {
        print(&map_text(&found))?;
    }
    Ok(ExitCode::SUCCESS)
}
