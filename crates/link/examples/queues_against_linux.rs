//! One side of `oracle/compare queues`: writes the loads for the guest, or what our queues do with them.
//!
//!     queues_against_linux loads FOLDER      one file for each load: ns after the start, bytes, flow, traffic class
//!     queues_against_linux run               one line for each seed: queue, load, sent, dropped, marked, mean and longest wait in µs, drops
//!     queues_against_linux counters          queue, load, counter, value, at the end; with the first seed
#![expect(clippy::print_stdout, reason = "a table, for a script to read")]

#[path = "../tests/kernel/cases.rs"]
mod cases;
#[path = "../tests/kernel/loads.rs"]
mod loads;
#[path = "../tests/kernel/server.rs"]
mod server;

use std::fmt::Write as _;
use std::path::Path;

use loads::{LOADS, load};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["loads", folder] => write_loads(Path::new(folder))?,
        ["run"] => run_all(),
        ["counters"] => count_all(),
        _ => return Err("usage: queues_against_linux loads FOLDER | run | counters".into()),
    }
    Ok(())
}

fn write_loads(folder: &Path) -> Result<(), Box<dyn std::error::Error>> {
    for (name, _) in LOADS {
        let mut text = String::new();
        for arrival in load(name) {
            let class = arrival.dscp << 2 | arrival.ecn.code_point();
            writeln!(text, "{} {} {} {class}", arrival.after.as_nanos(), arrival.size, arrival.flow)?;
        }
        std::fs::write(folder.join(name), text)?;
    }
    Ok(())
}

fn run_all() {
    for (case, (name, _)) in cases::CASES.iter().flat_map(|case| LOADS.map(|load| (case, load))) {
        let load = load(name);
        for seed in case.seeds() {
            let outcome = server::run((case.make)(seed), case.rate(), &load);
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

fn count_all() {
    for (case, (name, _)) in cases::CASES.iter().flat_map(|case| LOADS.map(|load| (case, load))) {
        for (counter, value) in server::run((case.make)(1), case.rate(), &load(name)).counters {
            println!("{},{name},{counter},{value}", case.name);
        }
    }
}
