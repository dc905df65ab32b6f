//! `taut run` and `taut replay`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use taut_core::Seed;
use taut_lab::campaign::check_seeds;
use taut_lab::job;
use taut_lab::replayed::{Figures, Replayed, Spread, replayed};
use taut_lab::run::{Extras, RunError};
use taut_lab::scenario::{Choices, Scenario, ScenarioError, Setting, Variant};
use taut_report::result::RunResult;
use taut_report::{campaign_table_text, campaign_text, run_text, written_text};

use crate::progress::Bar;
use crate::{Ended, print, print_json};
#[cfg(feature = "sockets")]
use crate::{kernel, real};

#[derive(Args)]
pub(crate) struct Arguments {
    /// The scenario, a TOML file
    pub(crate) scenario: PathBuf,
    /// Set a key: cross.rate=3.9Mbit. May leave out what goes without saying. Repeatable
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<Setting>,
    /// The seed of a single run
    #[arg(long, default_value_t = 1, conflicts_with = "seeds")]
    seed: u64,
    /// Several seeds, each once: 1..20 (both included), or 1,5,9
    #[arg(long, value_parser = parse_seeds)]
    seeds: Option<Seeds>,
    /// Only the variants whose name contains this
    #[arg(long, value_name = "TEXT")]
    variant: Option<String>,
    /// Only the variants with these values of their axes: transport=UDP,condition=baseline. Several of one axis add up
    #[arg(long, value_name = "AXIS=VALUE,…")]
    only: Vec<Choices>,
    /// Write the report and its data to this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Also write every packet as packets.pcapng (needs --out)
    #[arg(long)]
    capture: bool,
    /// Also write every event as events.jsonl (needs --out)
    #[arg(long)]
    events: bool,
    /// Also write every delivered sample as samples.parquet (needs --out)
    #[arg(long)]
    samples: bool,
    /// Print the result as JSON instead of text
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the whole scenario, defaults and --set applied, and stop
    #[arg(long)]
    print: bool,
    /// End with exit status 1 when a limit is not met; of real runs, when a median is not that of the simulation
    #[arg(long)]
    pub(crate) strict: bool,
    /// Of several runs, print every measure of every variant; else a line for each
    #[arg(long, short)]
    verbose: bool,
    /// No progress bar
    #[arg(long, short)]
    pub(crate) quiet: bool,
    #[cfg(feature = "sockets")]
    #[command(flatten)]
    pub(crate) real: real::RealArguments,
}

#[derive(Args)]
pub(crate) struct ReplayArguments {
    /// The run.json of an earlier run; or with --network an MCAP file of `taut robot --record` or `taut operator --record`
    run: PathBuf,
    /// A scenario: how would the recorded session have felt over its links? The operator moves as it did, between the ends of its
    /// [session] or [teleop], by the recorded transport and channels
    #[arg(long, value_name = "SCENARIO.toml", conflicts_with_all = ["from", "out"])]
    network: Option<PathBuf>,
    /// With --network, where chance begins
    #[arg(long, value_name = "N", default_value_t = 1, requires = "network")]
    seed: u64,
    /// The folder where that run was started: the files that it read are named relative to it. Else they are looked for
    /// in this folder, and in those above the run.json
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
    /// Write the report and its data to this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the result as JSON instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Clone)]
pub(crate) struct Seeds(pub(crate) Vec<u64>);

/// Seeds of one campaign at most.
const MOST_SEEDS: u64 = 10_000;

pub(crate) fn parse_seeds(text: &str) -> Result<Seeds, String> {
    let form = "write 1..20 (both included) or 1,5,9";
    let number =
        |text: &str| text.trim().parse::<u64>().map_err(|_| format!("`{text}` is not a seed; {form}"));
    let mut seeds = Vec::new();
    for part in text.split(',') {
        let (first, last) = match part.split_once("..") {
            Some((first, last)) => (number(first)?, number(last.trim_start_matches('='))?),
            None => (number(part)?, number(part)?),
        };
        if first > last || last - first >= MOST_SEEDS {
            return Err(format!("{first}..{last} is not a range of at most {MOST_SEEDS} seeds; {form}"));
        }
        seeds.extend(first..=last);
        if seeds.len() as u64 > MOST_SEEDS {
            return Err(format!("{text} has more than {MOST_SEEDS} seeds; {form}"));
        }
    }
    check_seeds(&seeds)?;
    Ok(Seeds(seeds))
}

/// What is asked for besides the result goes to a folder.
fn extras(arguments: &Arguments) -> Result<Extras, String> {
    let Arguments { capture, events, samples, .. } = *arguments;
    let asked = [
        (capture, "--capture", "packets.pcapng"),
        (events, "--events", "events.jsonl"),
        (samples, "--samples", "samples.parquet"),
    ];
    match asked.iter().find(|(asked, ..)| *asked && arguments.out.is_none()) {
        Some((_, option, file)) => {
            let scenario = arguments.scenario.display();
            Err(format!(
                "{option} writes {file} to a folder; name it: taut run {scenario} {option} --out out"
            ))
        }
        None => Ok(Extras { capture, events, samples }),
    }
}

pub(crate) fn run(arguments: &Arguments) -> Ended {
    let extras = extras(arguments)?;
    let scenario = Scenario::read(&arguments.scenario).map_err(|e| e.to_string())?;
    let place = |e: ScenarioError| format!("{}: {e}", arguments.scenario.display());
    let scenario = scenario.with(&arguments.settings).map_err(place)?;
    if arguments.print {
        print(&scenario.to_toml())?;
        return Ok(ExitCode::SUCCESS);
    }
    let variants = chosen(&scenario, arguments)?;
    let seeds = arguments.seeds.as_ref().map_or_else(|| vec![arguments.seed], |seeds| seeds.0.clone());
    #[cfg(feature = "sockets")]
    if arguments.real.kernel {
        return kernel::run(arguments, &variants);
    }
    #[cfg(feature = "sockets")]
    if arguments.real.real {
        if extras != Extras::default() {
            return Err(
                "--capture, --events and --samples are for simulated runs; without --real they work".into()
            );
        }
        return real::run(arguments, &scenario, &variants, &seeds);
    }
    if let ([(_, only)], [seed]) = (variants.as_slice(), seeds.as_slice()) {
        return run_one(arguments, only, *seed, extras);
    }
    if extras != Extras::default() {
        return Err(
            "--capture, --events and --samples are for a single run: give one --seed and one --variant"
                .into(),
        );
    }
    run_many(arguments, &scenario, &variants, &seeds)
}

fn chosen(scenario: &Scenario, arguments: &Arguments) -> Result<Vec<(Variant, Scenario)>, String> {
    let file = arguments.scenario.display();
    let choices: Vec<_> = arguments.only.iter().flat_map(|choices| choices.0.clone()).collect();
    let only = scenario.choose(&choices).map_err(|e| format!("{file}: --only: {e}"))?;
    let chosen = |number: usize, variant: &Variant| {
        let is_named = arguments.variant.as_ref().is_none_or(|text| variant.name.contains(text.as_str()));
        is_named && only.get(number).is_none_or(|only| *only)
    };
    let variants = scenario.expand_with(&arguments.settings, chosen).map_err(|e| format!("{file}: {e}"))?;
    if let Some(text) = &arguments.variant {
        let names: Vec<String> =
            scenario.all_variants().iter().map(|variant| format!("`{}`", variant.name)).collect();
        if variants.is_empty() {
            return Err(match names.as_slice() {
                [] => format!("{file}: --variant {text}: this scenario has no variants"),
                names => {
                    format!("{file}: --variant {text}: none is named so; there are {}", names.join(", "))
                }
            });
        }
    }
    Ok(variants)
}

fn run_one(arguments: &Arguments, scenario: &Scenario, seed: u64, extras: Extras) -> Ended {
    let bar = Bar::new("simulating", arguments.quiet);
    let done = job::single(scenario, Seed::new(seed), extras, arguments.out.as_deref(), &mut |fraction| {
        bar.set(fraction)
    });
    drop(bar);
    let (result, written) = done.map_err(|e| e.within(&arguments.scenario).to_string())?;
    if arguments.json {
        print_json(&result)?;
    } else {
        print(&(run_text(&result) + &written_text(&written)))?;
    }
    status(&result, arguments.strict)
}

fn run_many(
    arguments: &Arguments,
    scenario: &Scenario,
    variants: &[(Variant, Scenario)],
    seeds: &[u64],
) -> Ended {
    let bar = Bar::new(&format!("simulating {} runs", variants.len() * seeds.len()), arguments.quiet);
    let done = job::many(scenario, variants, seeds, arguments.out.as_deref(), &|fraction| bar.set(fraction));
    drop(bar);
    if let Err(error @ RunError::Conservation(_)) = &done {
        crate::say(&error.to_string());
        return Ok(ExitCode::FAILURE);
    }
    let (result, written) = done.map_err(|e| e.within(&arguments.scenario).to_string())?;
    if arguments.json {
        print_json(&result)?;
    } else {
        let text = if arguments.verbose { campaign_text(&result) } else { campaign_table_text(&result) };
        print(&(text + &written_text(&written)))?;
    }
    let met = result.variants.iter().all(|variant| variant.met == variant.seeds.len() as u64);
    Ok(if met || !arguments.strict { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

pub(crate) fn replay(arguments: &ReplayArguments) -> Ended {
    if let Some(network) = &arguments.network {
        return elsewhere(arguments, network);
    }
    if arguments.run.extension().is_some_and(|ending| ending == "mcap") {
        return Err(format!(
            "{}: is a recording; over which network? Name a scenario by --network",
            arguments.run.display()
        ));
    }
    let bar = Bar::new("simulating", false);
    let done =
        job::replay(&arguments.run, arguments.from.as_deref(), arguments.out.as_deref(), &mut |fraction| {
            bar.set(fraction)
        });
    drop(bar);
    let replay = done.map_err(|e| e.to_string())?;
    if arguments.json {
        print_json(&replay.result)?;
    } else {
        let outcome = if replay.identical { "identical, byte for byte" } else { "DIFFERENT" };
        let outcome = format!("\nreplay of {}: {outcome}\n", arguments.run.display());
        print(&(run_text(&replay.result) + &written_text(&replay.written) + &outcome))?;
    }
    if !replay.identical {
        crate::say(&format!("the run was made by taut {}, this is taut {}", replay.taut, replay.result.taut));
    }
    Ok(if replay.identical { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A recorded session over another network.
fn elsewhere(arguments: &ReplayArguments, network: &Path) -> Ended {
    let recording = taut_trace::read_session(&arguments.run).map_err(|e| e.to_string())?;
    let scenario = Scenario::read(network).map_err(|e| e.to_string())?;
    let bar = Bar::new("simulating", false);
    let seed = taut_core::Seed::new(arguments.seed);
    let done = replayed(&recording, &scenario, seed, &mut |fraction| bar.set(fraction));
    drop(bar);
    let replayed =
        done.map_err(|e| format!("{} over {}: {e}", arguments.run.display(), network.display()))?;
    if arguments.json {
        print_json(&replayed)?;
    } else {
        print(&side_by_side(&replayed, &network.file_name().unwrap_or_default().to_string_lossy()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn side_by_side(replayed: &Replayed, network: &str) -> String {
    let row = |name: &str, recorded: String, simulated: String| {
        format!("{name:<28}{recorded:>14}{simulated:>14}\n")
    };
    let mut text = row("", "recorded".to_owned(), taut_core::printable(network).at_most(13).to_string());
    let (was, would) = (&replayed.recorded, &replayed.simulated);
    let spreads = [
        ("age at the robot, ms", was.age_ms, would.age_ms),
        ("round trip, ms", was.round_trip_ms, would.round_trip_ms),
    ];
    for (name, was, would) in spreads {
        for part in ["p50", "p95", "p99", "max"] {
            let of = |spread: Option<Spread>| {
                spread.map_or_else(
                    || "-".to_owned(),
                    |spread| {
                        let Spread { p50, p95, p99, max } = spread;
                        let value = match part {
                            "p50" => p50,
                            "p95" => p95,
                            "p99" => p99,
                            _ => max,
                        };
                        format!("{value:.2}")
                    },
                )
            };
            text += &row(&format!("{name}, {part}"), of(was), of(would));
        }
    }
    let counts = |of: &Figures| [of.states, of.delivered, of.lost, of.watchdog_stops];
    let names = ["states", "arrived", "lost", "stops by the watchdog"];
    for (name, (was, would)) in names.into_iter().zip(counts(was).into_iter().zip(counts(would))) {
        text += &row(name, was.to_string(), would.to_string());
    }
    let causes: BTreeSet<&String> = was.dropped.keys().chain(would.dropped.keys()).collect();
    for cause in causes {
        let of = |figures: &Figures| figures.dropped.get(cause).copied().unwrap_or(0).to_string();
        text += &row(&format!("dropped: {cause}"), of(was), of(would));
    }
    for left_out in &replayed.left_out {
        text += &format!("left out: {left_out}\n");
    }
    text
}

fn status(result: &RunResult, strict: bool) -> Ended {
    if !result.conservation.holds {
        crate::say(&format!("packets do not add up: {}", result.conservation.violations.join("; ")));
        return Ok(ExitCode::FAILURE);
    }
    Ok(if result.verdict.met || !strict { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use super::parse_seeds;

    #[test]
    fn seeds_are_numbers_and_ranges_each_once() {
        let seeds = |text| parse_seeds(text).map(|seeds| seeds.0);
        assert_eq!(seeds("1..3"), Ok(vec![1, 2, 3]));
        assert_eq!(seeds("5, 1..=2, 9"), Ok(vec![5, 1, 2, 9]));
        for (text, seed) in [("1,1", 1), ("1..3,2..5", 2), ("4,1..9", 4)] {
            let error = seeds(text).unwrap_err();
            assert!(error.starts_with(&format!("seed {seed} is given twice")), "{text}: {error}");
        }
        assert!(seeds("1..9000,10001..19000").unwrap_err().contains("more than 10000 seeds"));
    }
}
