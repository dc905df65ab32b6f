//! The `taut` command: arguments in, the lab's answers out.
#![allow(clippy::print_stderr, reason = "a command speaks on its standard streams")]

mod button;
mod device;
mod emulate;
mod gate;
mod host;
mod identity;
mod input;
mod kernel;
mod last_stop;
mod operator;

mod paths;
mod plan;
mod progress;
mod proxy;
mod real;
mod recent;
mod recommend;
mod robot;
mod run;
mod state;
mod streams;
mod trace;
mod watchdog;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::error::ErrorKind;
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
    /// Which transport and settings for a network, from what was measured, and why
    Recommend(Box<recommend::Arguments>),
    /// Measure what recommendations rest on, or check it
    Evidence(recommend::EvidenceArguments),
    /// Look at a recording, or convert it
    #[command(subcommand)]
    Trace(trace::Command),
    /// Run again what a run.json says, and compare byte for byte
    Replay(run::ReplayArguments),
    /// Make or show this host's identity, by which others trust it
    Identity(identity::Arguments),
    /// Beside the robot: let operators have it, one at a time
    Robot(Box<robot::Arguments>),
    /// A simulated arm in a process of its own, as `taut robot --robot exec:` starts devices
    Device(device::Arguments),
    /// Beside a robot that does not run: let go of the stop that it keeps for its next start
    Reset(state::Arguments),
    /// The end with the device: steer a robot, feel it, measure the link
    Operator(Box<operator::Arguments>),
    /// Carry the datagrams of applications that know nothing of it, over any transport and several paths; one at each end
    Proxy(Box<proxy::Arguments>),
    /// Put a scenario's link between two network namespaces, in real time (needs root)
    Emulate(Box<emulate::Arguments>),
    /// Drop whole video frames before a queue that is too small for them, in the kernel (needs root)
    #[command(subcommand)]
    Gate(gate::Command),
    /// Print the JSON Schema of scenario files
    Schema,
}

/// What a command ends with: an exit status, or one line that says what is wrong.
type Ended = Result<ExitCode, String>;

/// Bad input.
const BAD_INPUT: u8 = 2;

fn main() -> ExitCode {
    let ended = match Cli::try_parse() {
        Ok(cli) => obey(cli.command),
        Err(help) if help.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => help.exit(),
        Err(error) if error.use_stderr() => Err(one_line(&error)),
        Err(help) => help.exit(),
    };
    let status = ended.unwrap_or_else(|message| {
        streams::say(&format!("taut: {message}"));
        ExitCode::from(BAD_INPUT)
    });
    streams::finish(streams::PATIENCE);
    status
}

/// What is wrong with the arguments, without the paragraphs about usage that follow.
fn one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let said = text.split("\n\n").take_while(|part| {
        !["Usage:", "For more", "tip:"].iter().any(|beginning| part.trim_start().starts_with(beginning))
    });
    let said = said.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ");
    format!("{} (see --help)", said.strip_prefix("error: ").unwrap_or(&said))
}

/// Writes to standard output. Who reads it may stop before the end: that is no error.
fn print(text: &str) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(format!("standard output: {error}")),
        _ => Ok(()),
    }
}

fn print_json<T: serde::Serialize>(value: &T) -> Result<(), String> {
    let json = serde_json::to_string_pretty(value).map_err(|e| e.to_string())?;
    print(&format!("{json}\n"))
}

fn obey(command: Command) -> Ended {
    match command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Plan(arguments) => plan::plan(&arguments),
        Command::Recommend(arguments) => recommend::recommend(&arguments),
        Command::Evidence(arguments) => recommend::evidence(&arguments),
        Command::Trace(command) => trace::trace(&command),
        Command::Replay(arguments) => run::replay(&arguments),
        Command::Identity(arguments) => identity::identity(&arguments),
        Command::Robot(arguments) => robot::robot(&arguments),
        Command::Device(arguments) => device::device(&arguments),
        Command::Reset(arguments) => state::reset(&arguments),
        Command::Operator(arguments) => operator::operator(&arguments),
        Command::Proxy(arguments) => proxy::run(&arguments),
        Command::Emulate(arguments) => emulate::emulate(&arguments),
        Command::Gate(command) => gate::gate(command),
        Command::Schema => schema(),
    }
}

fn schema() -> Ended {
    print_json(&taut_lab::scenario::json_schema())?;
    Ok(ExitCode::SUCCESS)
}
