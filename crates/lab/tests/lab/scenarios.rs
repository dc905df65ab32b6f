//! Every scenario that is shipped.

use std::path::{Path, PathBuf};

use taut_lab::scenario::{Scenario, Setting};

use crate::world::done;

fn all() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")];
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "toml") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// As `--set` has it, after every variant's own settings.
fn shortened(scenario: &Scenario) -> Scenario {
    let settings = ["warmup=0s", "duration=1s", "drain=300ms"].map(|text| text.parse::<Setting>().unwrap());
    scenario.with(&settings).unwrap()
}

/// The files that a scenario reads, which need not be here.
fn absent(scenario: &Scenario) -> Option<String> {
    let text = scenario.to_toml();
    let named =
        text.lines().filter_map(|line| line.strip_prefix("file = ").or(line.strip_prefix("mahimahi = ")));
    named.map(|name| name.trim_matches('"').to_owned()).find(|name| !Path::new(name).exists())
}

#[test]
fn every_scenario_parses_expands_and_runs_with_closed_books() {
    run_with_closed_books(12);
}

#[test]
#[ignore = "make test-long"]
fn every_scenario_parses_expands_and_runs_with_closed_books_at_length() {
    run_with_closed_books(40);
}

fn are_coprime(a: usize, b: usize) -> bool {
    if b == 0 { a == 1 } else { are_coprime(b, a % b) }
}

/// Of one scenario, about so many variants at most.
fn run_with_closed_books(most_variants: usize) {
    let scenarios = all();
    assert!(!scenarios.is_empty());
    for path in scenarios {
        let scenario = Scenario::read(&path).unwrap_or_else(|e| panic!("{e}"));
        let variants = scenario.expand().unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        // Of a grid, some from everywhere: a step that divides an axis would always leave out the same of its values.
        let count = variants.len();
        let step = (count.div_ceil(most_variants)..).find(|&step| are_coprime(step, count)).unwrap();
        for (variant, scenario) in variants.into_iter().step_by(step) {
            let what = format!("{} {}", path.display(), variant.name);
            if let Some(file) = absent(&scenario) {
                println!("skipped: {what}: there is no {file}");
                continue;
            }
            let result = done(&what, &shortened(&scenario));
            assert!(result.conservation.sent > 0, "{what}");
        }
    }
}

#[test]
fn what_is_written_is_read_as_the_same_scenario() {
    for path in all() {
        let scenario = Scenario::read(&path).unwrap_or_else(|e| panic!("{e}"));
        let again = Scenario::parse("again.toml", &scenario.to_toml()).unwrap_or_else(|e| panic!("{e}"));
        assert!(again == scenario, "{}", path.display());
    }
}
