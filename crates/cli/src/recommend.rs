//! `taut recommend` and `taut evidence`.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use taut_advise::evidence::{Condition, Evidence, PathEvidence, sha256_of};
use taut_advise::recommend::{Need, Os, Question, Security, recommend as decide, recommendation_text};
use taut_core::{Bitrate, Bytes, Duration, Probability};
use taut_lab::scenario::Scenario;
use taut_qos::limits::Profile;
use taut_qos::touch::Thing;

use crate::progress::Bar;
use crate::run::Seeds;
use crate::{Ended, print, print_json};

/// Those of the evidence that taut is built with.
const MEASURED_SEEDS: [u64; 3] = [1, 2, 3];

#[derive(Args)]
pub(crate) struct Arguments {
    /// Force comes back: delay, jitter and loss hold both ways
    #[arg(long)]
    haptic: bool,
    /// Round trip of the network when it is idle, such as 40ms; `ping` tells
    #[arg(long, value_name = "DURATION", required_unless_present = "one_way")]
    rtt: Option<Duration>,
    /// One way instead, where the two differ: the longer
    #[arg(long, value_name = "DURATION", conflicts_with = "rtt")]
    one_way: Option<Duration>,
    /// Packets lost, less than 50%
    #[arg(long, value_name = "PERCENT", default_value = "0%", value_parser = parse_loss)]
    loss: Probability,
    /// How many are lost one after the other, in the mean [default: 1]
    #[arg(long, value_name = "PACKETS")]
    burst: Option<f64>,
    /// Standard deviation of the delay
    #[arg(long, value_name = "DURATION", default_value = "0ms")]
    jitter: Duration,
    /// What the narrowest link has to spare for the session [default: 10Mbit; with --paths 15Mbit]
    #[arg(long)]
    rate: Option<Bitrate>,
    /// Video goes beside the session: 2 Mbit/s from the robot
    #[arg(long)]
    video: bool,
    /// Whose limits the three defaults below are: telehaptic, tr22847_dynamic, tr22847_stationary, jnd_damper, jnd_spring or jnd_inertia
    /// [default: telehaptic]
    #[arg(long, value_name = "PROFILE")]
    limits: Option<Profile>,
    /// By when 99 of 100 must be there, one way [default: 30ms]
    #[arg(long, visible_alias = "deadline", value_name = "DURATION")]
    budget: Option<Duration>,
    /// The most by which 99 of 100 consecutive delays may differ [default: 10ms]
    #[arg(long, value_name = "DURATION")]
    jitter_budget: Option<Duration>,
    /// What may be lost of the states [default: 10%]
    #[arg(long, value_name = "PERCENT", conflicts_with = "reliable")]
    tolerate: Option<Probability>,
    /// Every state must arrive
    #[arg(long)]
    reliable: bool,
    /// What the transport may take of one core at either end, at 1000 messages a second each way, such as 5%
    #[arg(long, value_name = "PERCENT")]
    cpu: Option<Probability>,
    /// What it may take of memory at either end, such as 100kB
    #[arg(long, value_name = "BYTES")]
    memory: Option<Bytes>,
    /// How it must be protected; always authenticated and encrypted
    #[arg(long, value_enum, default_value_t)]
    security: Protection,
    /// There is a NAT in between, or an address that changes
    #[arg(long)]
    nat: bool,
    /// Where both ends run
    #[arg(long, value_enum, default_value_t)]
    os: System,
    /// The arm touches this, and a control law has to keep it calm in the operator's hand: foam, spring or wall
    #[arg(long, value_name = "THING")]
    touch: Option<Thing>,
    /// Networks to be used at once: commands in time, from what was measured of two; with few of the other options
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=8))]
    paths: u32,
    /// Simulate every carrier over exactly this network, now, instead of looking it up: seconds
    #[arg(long, conflicts_with = "evidence")]
    measure: bool,
    /// With --measure: write its scenario to this file, which must not be there, so that every figure has its command
    #[arg(long, value_name = "FILE", requires = "measure")]
    keep: Option<PathBuf>,
    /// Evidence of your own, as `taut evidence` makes it, instead of what taut was built with
    #[arg(long, value_name = "FILE")]
    evidence: Option<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    /// End with exit status 1 when nothing meets the need
    #[arg(long)]
    strict: bool,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Protection {
    #[default]
    Any,
    /// TLS 1.3
    Tls,
    /// Noise IK
    Noise,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum System {
    #[default]
    Linux,
    Macos,
    Windows,
}

impl Arguments {
    fn need(&self) -> Result<Need, String> {
        let given = [("--measure", self.measure), ("--evidence", self.evidence.is_some())];
        let question = Question {
            haptic: self.haptic,
            rtt: self.rtt,
            one_way: self.one_way,
            loss: self.loss,
            burst: self.burst,
            jitter: self.jitter,
            rate: self.rate,
            video: self.video,
            limits: self.limits,
            budget: self.budget,
            jitter_budget: self.jitter_budget,
            tolerate: self.tolerate,
            reliable: self.reliable,
            cpu: self.cpu,
            memory: self.memory,
            security: match self.security {
                Protection::Any => Security::Any,
                Protection::Tls => Security::Tls,
                Protection::Noise => Security::Noise,
            },
            nat: self.nat,
            os: match self.os {
                System::Linux => Os::Linux,
                System::Macos => Os::Macos,
                System::Windows => Os::Windows,
            },
            touch: self.touch,
            paths: Some(self.paths),
        };
        let need = question.need(|option| format!("--{}", option.replace('_', "-")))?;
        match given.iter().find(|(_, given)| *given && self.paths > 1) {
            Some((option, _)) => Err(Question::no_effect(option, "--paths")),
            None => Ok(need),
        }
    }
}

/// A share of packets with which a session is still one.
fn parse_loss(text: &str) -> Result<Probability, String> {
    let loss: Probability = text.parse().map_err(|e| format!("{e}"))?;
    if loss.as_fraction() < 0.5 {
        return Ok(loss);
    }
    let share = 100.0 * loss.as_fraction();
    let hint = if text.contains('%') { String::new() } else { format!(": --loss {text}%?") };
    Err(format!("{share} % is more than a session lives with, less than 50%{hint}"))
}

fn evidence_of(file: Option<&PathBuf>) -> Result<Evidence, String> {
    let Some(file) = file else { return Evidence::shipped().map_err(|e| e.to_string()) };
    let name = file.display().to_string();
    let text = std::fs::read_to_string(file).map_err(|e| format!("{name}: {e}"))?;
    Evidence::parse(&name, &text).map_err(|e| e.to_string())
}

/// Every carrier over the network that is asked for, as the evidence that taut was built with has it over others.
fn measured(network: &Condition, keep: Option<&Path>) -> Result<Evidence, String> {
    if let Some(file) = keep {
        let text = network.scenario().map_err(|e| e.to_string())?;
        let mut kept = File::create_new(file).map_err(|e| format!("cannot write {}: {e}", file.display()))?;
        kept.write_all(text.as_bytes()).map_err(|e| format!("cannot write {}: {e}", file.display()))?;
    }
    let bar = Bar::new("simulating this network", false);
    Evidence::of_network(network, keep, &MEASURED_SEEDS, &|fraction| bar.set(fraction))
        .map_err(|e| e.to_string())
}

pub(crate) fn recommend(arguments: &Arguments) -> Ended {
    let need = arguments.need()?;
    let evidence = if arguments.measure {
        measured(&need.network, arguments.keep.as_deref())?
    } else {
        evidence_of(arguments.evidence.as_ref())?
    };
    if evidence.sets.is_empty() {
        return Err("there is no evidence; `taut evidence scenarios/recommend/*.toml` measures".into());
    }
    let recommendation = decide(&evidence, &need).with_laws();
    if arguments.json {
        print_json(&recommendation)?;
    } else {
        print(&recommendation_text(&recommendation))?;
        if !arguments.measure && recommendation.paths.is_none() {
            print(
                "\nIn a clone of taut `taut evidence --check` runs some of it again and compares the digests (in brackets).\n",
            )?;
        }
    }
    let met = recommendation.is_met();
    Ok(if !met && arguments.strict { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

#[derive(Args)]
pub(crate) struct EvidenceArguments {
    /// Scenarios whose every variant is run; or one of `[commands]` over several paths, for `recommend --paths`
    #[arg(value_name = "SCENARIO", required_unless_present = "check")]
    scenarios: Vec<PathBuf>,
    /// The seeds of each variant
    #[arg(long, default_value = "1..3", value_parser = crate::run::parse_seeds)]
    seeds: Seeds,
    /// Instead, run some of the evidence again and compare the digests; from the top of the repository
    #[arg(long, conflicts_with = "scenarios")]
    check: bool,
    /// How many points are checked, evenly over all
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    points: u64,
    /// The evidence that is checked, instead of what taut was built with
    #[arg(long, value_name = "FILE")]
    evidence: Option<PathBuf>,
    /// No progress bar
    #[arg(long, short)]
    quiet: bool,
}

pub(crate) fn evidence(arguments: &EvidenceArguments) -> Ended {
    if arguments.check {
        return check(arguments);
    }
    let bar = Bar::new("measuring", arguments.quiet);
    let (seeds, told) = (&arguments.seeds.0, |fraction| bar.set(fraction));
    let over_paths = |file: &PathBuf| Scenario::read(file).is_ok_and(|scenario| scenario.commands.is_some());
    let text = match &arguments.scenarios[..] {
        [file] if over_paths(file) => PathEvidence::measure(file, seeds, &told).and_then(|it| it.to_json()),
        files => Evidence::measure(files, seeds, &told).and_then(|it| it.to_json()),
    };
    drop(bar);
    print(&text.map_err(|e| e.to_string())?)?;
    Ok(ExitCode::SUCCESS)
}

fn check(arguments: &EvidenceArguments) -> Ended {
    let evidence = evidence_of(arguments.evidence.as_ref())?;
    let total: usize = evidence.sets.iter().map(|set| set.points.len()).sum();
    let every = total.div_ceil(arguments.points as usize).max(1);
    let (mut index, mut checked, mut stale) = (0, 0, 0);
    for set in &evidence.sets {
        let scenario = Scenario::read(set.scenario.as_ref()).map_err(|e| e.to_string())?;
        if sha256_of(set.scenario.as_ref())? != set.sha256 {
            print(&format!("{} is another file than the one that was measured\n", set.scenario))?;
        }
        for point in &set.points {
            index += 1;
            if (index - 1) % every != 0 {
                continue;
            }
            let now = set.again(point, &scenario).map_err(|e| e.to_string())?;
            let same = now == *point;
            checked += 1;
            stale += u32::from(!same);
            let verdict = if same { "identical" } else { "DIFFERENT" };
            print(&format!("{verdict}  {}  {} {}\n", now.digest, set.scenario, point.variant))?;
        }
    }
    print(&format!("{checked} of {total} points run again, {stale} differ\n"))?;
    if stale > 0 {
        print("`make evidence` measures anew\n")?;
    }
    Ok(if stale > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
