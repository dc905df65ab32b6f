//! What the driver costs on real sockets: `cargo run --release -p taut-benches --bin latency [-- WHAT …] [-- --quick]`.
//!
//! | what | measures |
//! | --- | --- |
//! | `closed` | a message of 75 bytes to an echo and back, then the next |
//! | `open` | the same at 1 kHz, as a session sends, but that a message waits for the answer to the last one; round trips count from when the message was given to the transport |
//! | `agents` | a whole session at 1 kHz each way, from the operator's device to the robot's and back, beside its transport alone at 1 kHz |
//! | `steps` | what one message costs where, in nanoseconds: calls of the kernel, the driver's turn, each transport by itself |
//! | `sessions` | 1, 10 and 100 pairs at 1 kHz in one process, one driver: CPU time per message, memory per session |
//! | `emulator` | lateness at 1 kHz, and packets per second through the emulator |
//!
//! The names of transports after that (`plain-udp`, `udp`, `quic`, `sctp`, `dccp`, `etp`, `tcp`) leave out the others. `sessions --json`
//! prints what is kept in `crates/advise/evidence/resources.json`.
//!
//! `closed` and `open` run on loopback and, as root, between two network namespaces that a veth pair joins; sleeping (a
//! thread waits in the kernel: bare sockets block in `recvfrom`) and spinning (it never sleeps: bare sockets are read
//! until there is something). The ends are pinned to two CPUs where there are two. Every transport has its turn, and so
//! have bare UDP sockets, which do nothing but echo, in short blocks one after the other, so that all meet the same
//! machine. What is printed are medians over a way's blocks: of all of them, and of its own quietest quarter (those of
//! the lowest p90), because a machine that does other things as well shows in the upper percentiles first.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a measurement, for people to read")]

mod agents;
mod bare;
mod blocks;
mod driven;
mod emulator;
mod round_trips;
mod sessions;
mod site;
mod steps;
mod way;

use std::error::Error;
use std::process::ExitCode;

use crate::way::Way;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Bytes of every message: a haptic sample in a session's frame.
const SIZE: usize = 75;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match measure(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(arguments: &[String]) -> Outcome<()> {
    if let Some(("session", row)) = arguments.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        return sessions::measure_one(row);
    }
    let quick = arguments.iter().any(|argument| argument == "--quick");
    let json = arguments.iter().any(|argument| argument == "--json");
    let words = arguments.iter().map(String::as_str).filter(|word| !["--quick", "--json"].contains(word));
    const ALL: [&str; 6] = ["closed", "open", "agents", "steps", "sessions", "emulator"];
    let (words, names): (Vec<&str>, Vec<&str>) = words.partition(|word| ALL.contains(word));
    let named: Vec<Way> = names.iter().map(|name| name.parse()).collect::<Result<_, _>>()?;
    let is_chosen = |way: &Way| named.is_empty() || named.contains(way);
    let ways: Vec<Way> = Way::ALL.into_iter().skip(1).filter(is_chosen).collect();
    if json {
        return match words[..] {
            ["sessions"] => sessions::evidence(&ways, if quick { 2 } else { 5 }),
            _ => Err("--json is for `sessions`: what `taut recommend` knows of CPU and memory".into()),
        };
    }
    let wanted = |what: &str| words.is_empty() || words.contains(&what);
    if wanted("closed") {
        round_trips::measure(round_trips::Load::Closed, &ways, if quick { 12 } else { 60 })?;
    }
    if wanted("open") {
        round_trips::measure(round_trips::Load::Open, &ways, if quick { 4 } else { 24 })?;
    }
    if wanted("agents") {
        round_trips::measure_agents(&ways, if quick { 6 } else { 24 })?;
    }
    if wanted("steps") {
        steps::measure(&ways, if quick { 20_000 } else { 200_000 })?;
    }
    if wanted("sessions") {
        sessions::measure(&ways, if quick { 2 } else { 5 })?;
    }
    if wanted("emulator") {
        emulator::measure(if quick { 2 } else { 10 })?;
    }
    Ok(())
}
