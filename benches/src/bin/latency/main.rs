//! What the driver costs on real sockets: `cargo run --release -p taut-benches --bin latency [-- --quick]`.
//!
//! * Closed loop: a message of 75 bytes to an echo on loopback and back, then the next. Through `Driver` and `Udp` at both
//!   ends, and with bare sockets at both ends, in turn in one run, so that both meet the same machine. The ends are pinned
//!   to two CPUs where there are two.
//! * Sessions: pairs at 1 kHz in one process, one driver; CPU time per message, and memory.
//! * Emulator, as root: lateness at 1 kHz, and packets per second through it.
//!
//! A machine that does other things shows in p99 of both sides: what counts is the ratio.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a measurement, for people to read")]

mod closed_loop;
mod emulator;
mod sessions;

use std::error::Error;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let quick = arguments.iter().any(|argument| argument == "--quick");
    match measure(quick) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(quick: bool) -> Result<(), Box<dyn Error + Send + Sync>> {
    closed_loop::measure(if quick { 10 } else { 40 })?;
    sessions::measure(if quick { 2 } else { 5 })?;
    emulator::measure(if quick { 2 } else { 10 })
}
