//! The `taut` command: arguments in, the lab's answers out.
#![allow(clippy::print_stderr, reason = "a command speaks on its standard streams")]

#[cfg(feature = "sockets")]
mod ages;
#[cfg(feature = "sockets")]
mod button;
#[cfg(feature = "sockets")]
mod channels;
#[cfg(feature = "console")]
mod console;
#[cfg(feature = "sockets")]
mod demo;
#[cfg(feature = "sockets")]
mod device;
#[cfg(feature = "sockets")]
mod diagnostics;
#[cfg(feature = "sockets")]
mod emulate;
#[cfg(feature = "sockets")]
mod gamepad;
#[cfg(feature = "sockets")]
mod gate;
#[cfg(feature = "sockets")]
mod host;
#[cfg(feature = "sockets")]
mod identity;
#[cfg(feature = "sockets")]
mod input;
#[cfg(feature = "sockets")]
mod kernel;
#[cfg(feature = "sockets")]
mod keyboard;
#[cfg(feature = "sockets")]
mod last_stop;
#[cfg(feature = "sockets")]
mod law;
#[cfg(feature = "sockets")]
mod lines;
#[cfg(feature = "manual")]
mod manual;
mod map;
#[cfg(feature = "sockets")]
mod metrics;
#[cfg(feature = "sockets")]
mod operator;
#[cfg(feature = "sockets")]
mod part;
#[cfg(feature = "sockets")]
mod paths;
mod plan;
#[cfg(feature = "sockets")]
mod probe;
mod progress;
#[cfg(feature = "sockets")]
mod proxy;
mod quantity;
#[cfg(feature = "sockets")]
mod real;
#[cfg(feature = "sockets")]
mod recent;
mod recommend;
#[cfg(feature = "sockets")]
mod record;
#[cfg(feature = "sockets")]
mod robot;
#[cfg(feature = "sockets")]
mod ros2;
mod run;
#[cfg(feature = "sockets")]
mod so101;
#[cfg(feature = "sockets")]
mod sound;
#[cfg(feature = "sockets")]
mod state;
#[cfg(feature = "sockets")]
mod streams;
#[cfg(feature = "sockets")]
mod terminal;
mod trace;
#[cfg(feature = "sockets")]
mod video;
#[cfg(feature = "sockets")]
mod watchdog;

use std::borrow::Cow;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Parser, Subcommand};
use taut_core::{is_harmless, printable};

/// Will this robot be felt, over this network?
#[derive(Parser)]
#[command(name = "taut", version, max_term_width = 100)]
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
    /// The stiffest wall that stays calm in the hand, over round trip, loss and control law
    Map(map::Arguments),
    /// Which transport and settings for a network, from what was measured, and why
    Recommend(Box<recommend::Arguments>),
    /// Measure what recommendations rest on, or check it
    Evidence(recommend::EvidenceArguments),
    /// Look at a recording, or convert it
    #[command(subcommand)]
    Trace(trace::Command),
    /// Run again what a run.json says, and compare byte for byte
    Replay(run::ReplayArguments),
    #[cfg(feature = "sockets")]
    /// Make or show this host's identity, by which others trust it
    Identity(identity::Arguments),
    #[cfg(feature = "sockets")]
    /// Beside the robot: let operators have it, one at a time
    Robot(Box<robot::Arguments>),
    #[cfg(feature = "sockets")]
    /// A simulated arm in a process of its own, as `taut robot --robot exec:` starts devices
    Device(device::Arguments),
    #[cfg(feature = "sockets")]
    /// Beside a robot that does not run: let go of the stop that it keeps for its next start
    Reset(state::Arguments),
    #[cfg(feature = "sockets")]
    /// The end with the device: steer a robot, feel it, measure the link
    Operator(Box<operator::Arguments>),
    #[cfg(feature = "console")]
    /// The end with the device in a browser: see the robot, steer it by keys, gamepad or touch, stop it
    Console(Box<console::Arguments>),
    #[cfg(feature = "sockets")]
    /// Carry the datagrams of applications that know nothing of it, over any transport and several paths; one at each end
    Proxy(Box<proxy::Arguments>),
    #[cfg(feature = "sockets")]
    /// Topics of ROS 2 over a session, by DDS and without ROS (needs taut-ros2, which `make ros2` builds)
    Ros2(ros2::Arguments),
    #[cfg(feature = "sockets")]
    /// A simulated arm behind an emulated network, and your keyboard: all on this machine, without root
    Demo(demo::Arguments),
    #[cfg(feature = "sockets")]
    /// Measure a network both ways, and write it as scenarios
    Probe(Box<probe::Arguments>),
    #[cfg(feature = "sockets")]
    /// Put a scenario's link between two network namespaces (needs root), or before a robot as a relay, in real time
    Emulate(Box<emulate::Arguments>),
    #[cfg(feature = "sockets")]
    /// Drop whole video frames before a queue that is too small for them, in the kernel (needs root)
    #[command(subcommand)]
    Gate(gate::Command),
    /// Print the JSON Schema of scenario files
    Schema,
    #[cfg(feature = "manual")]
    /// Write manual pages and what shells complete into a folder, as packages install them
    #[command(hide = true)]
    Manual(manual::Arguments),
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
        say(&message);
        ExitCode::from(BAD_INPUT)
    });
    #[cfg(feature = "sockets")]
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
    let hint = hint(error).map_or_else(|| "see --help".to_owned(), |hint| format!("{hint}; see --help"));
    format!("{} ({hint})", said.strip_prefix("error: ").unwrap_or(&said))
}

/// What may have been meant by a name that there is not.
fn hint(error: &clap::Error) -> Option<String> {
    let told = |kind| match error.get(kind)? {
        ContextValue::String(name) => Some(name.clone()),
        ContextValue::Strings(names) => names.first().cloned(),
        _ => None,
    };
    let name = told(ContextKind::InvalidSubcommand).or_else(|| told(ContextKind::InvalidArg))?;
    if !cfg!(feature = "sockets") && OF_SOCKETS.contains(&name.as_str()) {
        let all = "this taut is the lab alone, as `make demo` builds it; `make build` builds all of it";
        return Some(all.to_owned());
    }
    let alike = told(ContextKind::SuggestedSubcommand).or_else(|| told(ContextKind::SuggestedArg))?;
    Some(format!("is it `{alike}`?"))
}

/// What there is only with sockets.
const OF_SOCKETS: [&str; 14] = [
    "demo", "probe", "identity", "robot", "device", "reset", "operator", "console", "proxy", "ros2",
    "emulate", "gate", "--real", "--kernel",
];

/// An error or a warning is one line, of which files and peers wrote some.
const LONGEST_LINE: usize = 8_000;

/// Writes a line to standard error: an error, or what a person should know. It cannot steer the terminal.
fn say(message: &str) {
    let line = format!("taut: {}", printable(message).at_most(LONGEST_LINE));
    #[cfg(feature = "sockets")]
    streams::say(&line);
    // The terminal may be what failed.
    #[cfg(not(feature = "sockets"))]
    let _ = writeln!(io::stderr(), "{line}");
}

/// Writes lines to standard output. Who reads it may stop before the end: that is no error. Names and reasons in it may be
/// somebody else's: what would steer a terminal is written out.
fn print(text: &str) -> Result<(), String> {
    let text = lines_without_harm(text);
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(format!("standard output: {error}")),
        _ => Ok(()),
    }
}

/// Lines of which files and peers wrote some: what would steer a terminal is written out.
fn lines_without_harm(text: &str) -> Cow<'_, str> {
    let harmless = |character| character == '\n' || is_harmless(character);
    if text.chars().all(harmless) { text.into() } else { escaped(text, harmless).into() }
}

fn escaped(text: &str, harmless: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if harmless(character) {
            shown.push(character);
        } else {
            shown.extend(character.escape_default());
        }
    }
    shown
}

/// Before what takes long: can this file be written at its end?
fn has_folder(file: &Path) -> Result<(), String> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    if folder.is_some_and(|folder| !folder.is_dir()) {
        return Err(format!("{}: name a file in a folder that is there", file.display()));
    }
    Ok(())
}

fn print_json<T: serde::Serialize>(value: &T) -> Result<(), String> {
    let json = serde_json::to_string_pretty(value).map_err(|e| e.to_string())?;
    print(&(harmless_json(json) + "\n"))
}

/// The same JSON, without characters that steer a terminal: inside its strings, the only place for them, they can be escaped
/// (RFC 8259 section 7).
fn harmless_json(json: String) -> String {
    let harmless = |character| character == '\n' || is_harmless(character);
    if json.chars().all(harmless) {
        return json;
    }
    let mut shown = String::with_capacity(json.len());
    for character in json.chars() {
        if harmless(character) {
            shown.push(character);
        } else {
            let units = character
                .encode_utf16(&mut [0; 2])
                .iter()
                .map(|unit| format!("\\u{unit:04x}"))
                .collect::<String>();
            shown.push_str(&units);
        }
    }
    shown
}

fn obey(command: Command) -> Ended {
    match command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Plan(arguments) => plan::plan(&arguments),
        Command::Map(arguments) => map::map(&arguments),
        Command::Recommend(arguments) => recommend::recommend(&arguments),
        Command::Evidence(arguments) => recommend::evidence(&arguments),
        Command::Trace(command) => trace::trace(&command),
        Command::Replay(arguments) => run::replay(&arguments),
        #[cfg(feature = "sockets")]
        Command::Identity(arguments) => identity::identity(&arguments),
        #[cfg(feature = "sockets")]
        Command::Robot(arguments) => robot::robot(&arguments),
        #[cfg(feature = "sockets")]
        Command::Demo(arguments) => demo::demo(&arguments),
        #[cfg(feature = "sockets")]
        Command::Device(arguments) => device::device(&arguments),
        #[cfg(feature = "sockets")]
        Command::Reset(arguments) => state::reset(&arguments),
        #[cfg(feature = "sockets")]
        Command::Operator(arguments) => operator::operator(&arguments),
        #[cfg(feature = "console")]
        Command::Console(arguments) => console::console(&arguments),
        #[cfg(feature = "sockets")]
        Command::Proxy(arguments) => proxy::run(&arguments),
        #[cfg(feature = "sockets")]
        Command::Ros2(arguments) => ros2::ros2(&arguments),
        #[cfg(feature = "sockets")]
        Command::Probe(arguments) => probe::probe(&arguments),
        #[cfg(feature = "sockets")]
        Command::Emulate(arguments) => emulate::emulate(&arguments),
        #[cfg(feature = "sockets")]
        Command::Gate(command) => gate::gate(command),
        #[cfg(feature = "manual")]
        Command::Manual(arguments) => manual::manual(&arguments),
        Command::Schema => schema(),
    }
}

fn schema() -> Ended {
    print_json(&taut_lab::scenario::json_schema())?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_says_the_same_without_steering_a_terminal() {
        let text = "a\u{1b}[2J\u{9b}31m\u{202e}\u{7f}\u{e0041}ü\n";
        let json = harmless_json(serde_json::json!({ "name": text }).to_string());
        assert!(json.chars().all(is_harmless), "{json:?}");
        let again: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(again["name"], text);
    }
}
