//! One side of `oracle/compare queues`: writes the loads for the guest, or what our queues do with them.
//!
//!     queues_against_linux loads SEED|- FOLDER      one file for each load: ns after the start, bytes, flow, traffic class
//!     queues_against_linux run SEED|- [QUEUE …]     one line for each seed: queue, load, sent, dropped, marked, mean and longest
//!                                                   wait in µs, drops
//!     queues_against_linux counters SEED|- [QUEUE …]    queue, load, counter, value, at the end; with the first seed
//!
//! The loads are those of `expected.csv`; with a SEED those that are drawn from it.
#![expect(clippy::print_stdout, reason = "a table, for a script to read")]

#[path = "../tests/kernel/cases.rs"]
mod cases;
#[path = "../tests/kernel/drawn.rs"]
mod drawn;
#[path = "../tests/kernel/loads.rs"]
mod loads;
#[path = "../tests/kernel/server.rs"]
mod server;

use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::path::Path;

use cases::Case;
use loads::{LOADS, Load, load};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["loads", seed, folder] => write_loads(&loads_of(seed)?, Path::new(folder))?,
        ["run", "-", ref queues @ ..] => run_all(&loads_of("-")?, queues, |case, _| case.seeds()),
        ["run", seed, ref queues @ ..] => run_all(&loads_of(seed)?, queues, Case::seeds_under_drawn),
        ["counters", seed, ref queues @ ..] => count_all(&loads_of(seed)?, queues),
        _ => {
            return Err(
                "usage: queues_against_linux loads SEED|- FOLDER | (run | counters) SEED|- [QUEUE …]".into(),
            );
        }
    }
    Ok(())
}

/// By name.
fn loads_of(seed: &str) -> Result<Vec<(&'static str, Load)>, std::num::ParseIntError> {
    match seed {
        "-" => Ok(LOADS.iter().map(|(name, _)| (*name, load(name))).collect()),
        seed => Ok(drawn::drawn(seed.parse()?)),
    }
}

fn write_loads(loads: &[(&str, Load)], folder: &Path) -> Result<(), Box<dyn std::error::Error>> {
    for (name, load) in loads {
        let mut text = String::new();
        for arrival in load {
            let class = arrival.dscp << 2 | arrival.ecn.code_point();
            writeln!(text, "{} {} {} {class}", arrival.after.as_nanos(), arrival.size, arrival.flow)?;
        }
        std::fs::write(folder.join(name), text)?;
    }
    Ok(())
}

/// Those that are named; with none named, all.
fn chosen(queues: &[&str]) -> impl Iterator<Item = &'static Case> {
    cases::CASES.iter().filter(move |case| queues.is_empty() || queues.contains(&case.name))
}

fn run_all(loads: &[(&str, Load)], queues: &[&str], seeds: fn(&Case, &str) -> RangeInclusive<u64>) {
    for (case, (name, load)) in chosen(queues).flat_map(|case| loads.iter().map(move |load| (case, load))) {
        for seed in seeds(case, name) {
            let outcome = server::run((case.make)(seed), case.rate(), load, seed);
            let drops: Vec<String> = outcome.dropped.iter().map(u64::to_string).collect();
            println!(
                "{},{name},{},{},{},{:.1},{:.1},{}",
                case.name,
                outcome.sent,
                outcome.dropped.len(),
                outcome.marked,
                outcome.mean_us(),
                outcome.longest_us(),
                drops.join(" ")
            );
        }
    }
}

fn count_all(loads: &[(&str, Load)], queues: &[&str]) {
    for (case, (name, load)) in chosen(queues).flat_map(|case| loads.iter().map(move |load| (case, load))) {
        for (counter, value) in server::run((case.make)(1), case.rate(), load, 1).counters {
            println!("{},{name},{counter},{value}", case.name);
        }
    }
}
