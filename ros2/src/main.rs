//! `taut-ros2 bridge.toml`: topics of ROS 2 over a session, beside the robot or the operator. No ROS is needed.

mod backend;
mod bridge;
mod cdr;
mod clock;
mod config;
mod dds;
mod motion;
mod output;
mod report;
mod rmw_zenoh;
mod type_hash;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use taut_io::{Slice, set_slice};

/// Carry topics of ROS 2 over a session, beside the robot or the operator; no ROS is needed
#[derive(Parser)]
#[command(name = "taut-ros2", version, max_term_width = 100)]
struct Arguments {
    /// Which topics pass, and how
    file: PathBuf,
    /// Tell what happens as lines of JSON
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // Without a thread nothing can be said.
    let Ok(report) = report::Report::start(arguments.json) else { return ExitCode::from(2) };
    // Of all threads, those of DDS and zenoh included; a participant alone gets the usual one back.
    let _ = set_slice(Slice::Short);
    let run = config::Config::read(&arguments.file).and_then(|config| bridge::run(&config, &report));
    if let Err(why) = &run {
        report.tell("error", &[("why", why.as_str().into())]);
    }
    report.finish();
    if run.is_ok() { ExitCode::SUCCESS } else { ExitCode::from(2) }
}
