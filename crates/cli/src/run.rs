//! `taut run` and `taut replay`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use taut_core::Seed;
use taut_lab::job;
use taut_lab::result::{CampaignResult, CycleResult, ModelResult, RunResult, VariantResult};
use taut_lab::run::Extras;
use taut_lab::scenario::{Scenario, ScenarioError, Setting, Variant};

use crate::progress::Bar;
use crate::table::aligned;
use crate::{Ended, print, print_json};

#[derive(Args)]
pub(crate) struct Arguments {
    /// The scenario, a TOML file
    scenario: PathBuf,
    /// Set a key: cross.rate=3.9Mbit. May leave out what goes without saying. Repeatable
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<Setting>,
    /// The seed of a single run
    #[arg(long, default_value_t = 1, conflicts_with = "seeds")]
    seed: u64,
    /// Several seeds: 1..20 (both included), or 1,5,9
    #[arg(long, value_parser = parse_seeds)]
    seeds: Option<Seeds>,
    /// Only the variants whose name contains this
    #[arg(long, value_name = "TEXT")]
    variant: Option<String>,
    /// Write the report and its data to this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
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
    json: bool,
    /// Print the whole scenario, defaults and --set applied, and stop
    #[arg(long)]
    print: bool,
    /// End with exit status 1 when a limit is not met
    #[arg(long)]
    strict: bool,
    /// No progress bar
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Args)]
pub(crate) struct ReplayArguments {
    /// The run.json of an earlier run
    run: PathBuf,
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
struct Seeds(Vec<u64>);

/// Seeds of one campaign at most.
const MOST_SEEDS: u64 = 10_000;

fn parse_seeds(text: &str) -> Result<Seeds, String> {
    let form = "write 1..20 (both included) or 1,5,9";
    let number =
        |text: &str| text.trim().parse::<u64>().map_err(|_| format!("`{text}` is not a seed; {form}"));
    if let Some((first, last)) = text.split_once("..") {
        let (first, last) = (number(first)?, number(last.trim_start_matches('='))?);
        if first > last || last - first >= MOST_SEEDS {
            return Err(format!("{first}..{last} is not a range of at most {MOST_SEEDS} seeds; {form}"));
        }
        return Ok(Seeds((first..=last).collect()));
    }
    text.split(',').map(number).collect::<Result<_, _>>().map(Seeds)
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
    let mut variants = scenario.expand().map_err(|e| format!("{}: {e}", arguments.scenario.display()))?;
    for (_, variant) in &mut variants {
        // A setting of the user's wins over the variant's own.
        *variant = variant.with(&arguments.settings).map_err(|e| e.to_string())?;
    }
    if let Some(text) = &arguments.variant {
        let names: Vec<String> =
            scenario.variants.iter().map(|variant| format!("`{}`", variant.name)).collect();
        variants.retain(|(variant, _)| variant.name.contains(text.as_str()));
        if variants.is_empty() {
            let file = arguments.scenario.display();
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
    let (result, files) = done.map_err(|e| e.within(&arguments.scenario).to_string())?;
    if arguments.json {
        print_json(&result)?;
    } else {
        print(&(run_text(&result) + &files_text(&files)))?;
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
    let (result, files) = done.map_err(|e| e.within(&arguments.scenario).to_string())?;
    if arguments.json {
        print_json(&result)?;
    } else {
        print(&(campaign_text(&result) + &files_text(&files)))?;
    }
    let met = result.variants.iter().all(|variant| variant.met == variant.seeds.len() as u64);
    Ok(if met || !arguments.strict { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

pub(crate) fn replay(arguments: &ReplayArguments) -> Ended {
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
        print(&(run_text(&replay.result) + &files_text(&replay.files) + &outcome))?;
    }
    if !replay.identical {
        eprintln!("taut: the run was made by taut {}, this is another build", replay.result.taut);
    }
    Ok(if replay.identical { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn status(result: &RunResult, strict: bool) -> Ended {
    if !result.conservation.holds {
        eprintln!("taut: packets do not add up: {}", result.conservation.violations.join("; "));
        return Ok(ExitCode::FAILURE);
    }
    Ok(if result.verdict.met || !strict { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn files_text(files: &[PathBuf]) -> String {
    let report = files.iter().find(|file| file.ends_with("report.html"));
    report.map_or_else(String::new, |report| format!("\nreport: {}\n", report.display()))
}

fn run_text(run: &RunResult) -> String {
    let limits: Vec<Vec<String>> = run
        .verdict
        .limits
        .iter()
        .map(|limit| {
            vec![
                format!("{} {}", limit.stream, limit.quantity),
                format!("{:.3} {}", limit.value, limit.unit),
                format!("limit {} {}", limit.limit, limit.unit),
                if limit.met { "ok".to_owned() } else { "NOT MET".to_owned() },
            ]
        })
        .collect();
    let verdict = match (run.verdict.met, run.verdict.limits.is_empty()) {
        (_, true) => "no verdict: there is no session, and limits are for sessions",
        (true, false) => "PASS: every limit is met",
        (false, false) => "FAIL: a limit is not met",
    };
    let models: String = run.models.iter().map(model_text).collect();
    let head = format!("{} (seed {}, {} s)", run.title, run.seed, run.duration_s);
    format!("{head}\n\n{}{models}\n{verdict}\n", aligned(&limits))
}

fn model_text(model: &ModelResult) -> String {
    let rows: Vec<Vec<String>> = model
        .rows
        .iter()
        .map(|row| {
            vec![
                format!("{} {}", row.quantity, row.equation),
                format!("predicted {:.3} ms", row.predicted_ms),
                format!("measured {:.3} ms", row.measured_ms),
                format!("{:+.3} ms", row.measured_ms - row.predicted_ms),
            ]
        })
        .collect();
    let outside = model.conditions.iter().filter(|condition| !condition.holds);
    let outside: String = outside
        .map(|condition| {
            format!("  outside the model's validity: {}: {}\n", condition.name, condition.explanation)
        })
        .collect();
    format!(
        "\nclosed-form model, {}\n{}{outside}{}",
        model.stream,
        aligned(&rows),
        cycles_text(&model.cycles)
    )
}

/// How far the delay falls, by how many segments TCP lost: what fast recovery does to the model's bound.
fn cycles_text(cycles: &[CycleResult]) -> String {
    let row = |cycle: &CycleResult| {
        vec![
            format!("{} cycles that lost {}", cycle.cycles, cycle.losses),
            format!("recovery {:.1} ms", cycle.recovery_mean_ms),
            format!("smallest delay {:.3} ms", cycle.floor_mean_ms),
        ]
    };
    if cycles.is_empty() {
        return String::new();
    }
    format!("cycles of TCP's window, means\n{}", aligned(&cycles.iter().map(row).collect::<Vec<_>>()))
}

fn campaign_text(campaign: &CampaignResult) -> String {
    let variant = |variant: &VariantResult| {
        let rows: Vec<Vec<String>> = variant
            .measures
            .iter()
            .map(|measure| {
                let optional = |what: &str, value: Option<f64>| {
                    value.map_or_else(String::new, |value| format!("{what} {value:.3}"))
                };
                let interval = measure.ci95.map_or_else(String::new, |ci| format!(" ± {ci:.3}"));
                vec![
                    measure.name.clone(),
                    format!("{:.3}{interval} {}", measure.mean, measure.unit),
                    optional("model", measure.predicted),
                    optional("source", measure.reported),
                ]
            })
            .collect();
        let seeds = variant.seeds.len();
        format!("\n{} (limits met in {} of {seeds} runs)\n{}", variant.name, variant.met, aligned(&rows))
    };
    let variants: String = campaign.variants.iter().map(variant).collect();
    format!("{} ({} s a run)\n{variants}", campaign.title, campaign.duration_s)
}
