//! How fast the simulator is: `cargo run --release -p taut-benches [-- --quick] [-- --json]`.
//!
//! Each number is measured in a process of its own, so that its memory is its own, several times, and the least CPU time
//! counts: what else the machine does only ever adds. Nothing here judges; docs/performance.md says what to make of it.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a measurement, for people to read")]

mod hot_paths;
mod process;
mod report;
mod scaling;
mod shared_link;

use std::process::ExitCode;

use process::Measurement;
use report::{HotPath, Report, Scaled};
use shared_link::SharedLink;

const USAGE: &str = "usage: taut-benches [--quick] [--json]";

/// What is measured in one process.
enum Task {
    SharedLink { seconds: u64 },
    Scaling { flows: u64, seconds_of_one: u64 },
    HotPath { index: usize, rounds: u64 },
}

impl Task {
    fn arguments(&self) -> Vec<String> {
        let (name, a, b) = match self {
            Self::SharedLink { seconds } => ("shared-link", *seconds, 0),
            Self::Scaling { flows, seconds_of_one } => ("scaling", *flows, *seconds_of_one),
            Self::HotPath { index, rounds } => ("hot-path", *index as u64, *rounds),
        };
        vec!["measure".to_owned(), name.to_owned(), a.to_string(), b.to_string()]
    }

    fn parse(arguments: &[String]) -> Option<Self> {
        let [measure, name, a, b] = arguments else { return None };
        let (a, b) = (a.parse().ok()?, b.parse().ok()?);
        match (measure.as_str(), name.as_str()) {
            ("measure", "shared-link") => Some(Self::SharedLink { seconds: a }),
            ("measure", "scaling") => Some(Self::Scaling { flows: a, seconds_of_one: b }),
            ("measure", "hot-path") => Some(Self::HotPath { index: a as usize, rounds: b }),
            _ => None,
        }
    }

    fn run(&self) -> Result<Measurement, String> {
        match *self {
            Self::SharedLink { seconds } => shared_link::measure(seconds),
            Self::Scaling { flows, seconds_of_one } => scaling::measure(flows, seconds_of_one),
            Self::HotPath { index, rounds } => hot_paths::measure(index, rounds),
        }
    }

    /// The least CPU time of `times` runs, each in a process of its own.
    fn best_of(&self, times: usize) -> Result<Measurement, String> {
        let runs = (0..times).map(|_| process::in_a_child(&self.arguments()));
        let runs = runs.collect::<Result<Vec<_>, _>>()?;
        runs.into_iter().min_by_key(|run| run.cpu_ns).ok_or_else(|| "nothing was measured".to_owned())
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match Task::parse(&arguments) {
        Some(task) => task.run().and_then(|measured| measured.print()),
        None if arguments.iter().all(|argument| argument == "--quick" || argument == "--json") => {
            let given = |flag: &str| arguments.iter().any(|argument| argument == flag);
            measure_all(given("--quick")).and_then(|report| report.print(given("--json")))
        }
        None => Err(USAGE.to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn measure_all(quick: bool) -> Result<Report, String> {
    let (times, seconds, rounds) =
        if quick { (2, 60, 300_000) } else { (5, shared_link::SECONDS, 3_000_000) };
    let shared_link = SharedLink::new(seconds, Task::SharedLink { seconds }.best_of(times)?);
    let scaling = scaling::FLOWS.into_iter().map(|flows| {
        let measured = Task::Scaling { flows, seconds_of_one: seconds / 2 }.best_of(times)?;
        Ok(Scaled::new(flows, &measured))
    });
    let scaling = scaling.collect::<Result<_, String>>()?;
    let mut hot_paths: Vec<HotPath> = Vec::new();
    for (index, (name, _)) in hot_paths::PATHS.iter().enumerate() {
        let measured = Task::HotPath { index, rounds }.best_of(times)?;
        hot_paths.push(HotPath::new(name, &measured, hot_paths.first()));
    }
    Ok(Report { quick, shared_link, scaling, hot_paths })
}
