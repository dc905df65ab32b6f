//! The `taut` command: arguments in, the lab's answers out.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command speaks on its standard streams")]

mod plan;
mod progress;
mod run;
mod table;
mod trace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Will this robot be felt, over this network?
#[derive(Parser)]
#[command(name = "taut", version, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Simulate a scenario, print the verdict, write the report
    Run(run::Arguments),
    /// Answer from the closed-form model, at once
    Plan(plan::Arguments),
    /// Look at a recording, or convert it
    #[command(subcommand)]
    Trace(trace::Command),
    /// Run again what a run.json says, and compare byte for byte
    Replay(run::ReplayArguments),
    /// Print the JSON Schema of scenario files
    Schema,
}

/// What a command ends with: an exit status, or one line that says what is wrong.
type Ended = Result<ExitCode, String>;

/// Bad input.
const BAD_INPUT: u8 = 2;

fn main() -> ExitCode {
    let ended = match Cli::parse().command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Plan(arguments) => plan::plan(&arguments),
        Command::Trace(command) => trace::trace(&command),
        Command::Replay(arguments) => run::replay(&arguments),
        Command::Schema => schema(),
    };
    ended.unwrap_or_else(|message| {
        eprintln!("taut: {message}");
        ExitCode::from(BAD_INPUT)
    })
}

fn schema() -> Ended {
    let schema = schemars::schema_for!(taut_lab::scenario::Scenario);
    println!("{}", serde_json::to_string_pretty(&schema).map_err(|e| e.to_string())?);
    Ok(ExitCode::SUCCESS)
}
