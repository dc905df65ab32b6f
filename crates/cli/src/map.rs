//! `taut map`: what stays calm, over round trip, loss and control law; what the hand feels of it; how few messages that needs.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde::Serialize;
use taut_core::{Duration, Probability};
use taut_lab::map::Map;
use taut_lab::saving::Savings;
use taut_lab::scenario::LawSpec;
use taut_lab::transparency::Transparency;
use taut_report::{map_figure, map_text, saving_text, transparency_figure, transparency_text};

use crate::progress::Bar;
use crate::{Ended, has_folder, print, print_json};

#[derive(Args)]
pub(crate) struct Arguments {
    /// What is mapped
    #[arg(value_enum, default_value_t)]
    what: What,
    /// Control laws, separated by commas: position_force, position_position, wave, tdpa, and oracle as a bound; all when nothing is said, of which `saving` takes wave and tdpa
    #[arg(long, value_delimiter = ',', value_name = "LAW,…")]
    law: Vec<LawSpec>,
    /// Round trips of the network, separated by commas; whole milliseconds. Twelve from 1 to 300 ms when nothing is said, for `saving` four to 100 ms, for `parts` 10 ms
    #[arg(long, value_delimiter = ',', value_name = "TIME,…")]
    rtt: Vec<Duration>,
    /// Share of messages that is lost, each way, separated by commas; none when nothing is said
    #[arg(long, value_delimiter = ',', value_name = "PERCENT,…")]
    loss: Vec<Probability>,
    /// Write the picture to this file
    #[arg(long, value_name = "FILE.svg")]
    svg: Option<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    /// No progress bar
    #[arg(long)]
    quiet: bool,
}

/// Of what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum What {
    /// The stiffest wall that stays calm
    #[default]
    Calm,
    /// The same of hands, devices and arms that differ in one thing each, to a tenth, beside what theory says of the worst grip
    Parts,
    /// What the hand feels of free motion, foam, a spring and walls, from 0.5 to 10 Hz, beside what it would feel without delay
    Transparency,
    /// The fewest messages with which foam, spring and wall stay calm, and which of them are worth a copy; nothing is lost but by the copies' lines
    Saving,
}

impl What {
    /// Over which round trips, ms.
    const fn round_trips(self) -> &'static [u64] {
        match self {
            Self::Calm | Self::Transparency => &[1, 2, 4, 7, 10, 16, 25, 40, 66, 100, 160, 300],
            Self::Parts => &[10],
            Self::Saving => &[4, 10, 40, 100],
        }
    }
}

/// More takes more memory than a line needs.
const LONGEST: Duration = Duration::from_secs(1);

pub(crate) fn map(arguments: &Arguments) -> Ended {
    if let Some(long) = arguments.rtt.iter().find(|rtt| **rtt > LONGEST) {
        return Err(format!("--rtt {long} is longer than {LONGEST}: nobody feels through that"));
    }
    if arguments.what == What::Parts && arguments.svg.is_some() {
        return Err("parts draws no picture: leave out --svg".to_owned());
    }
    if arguments.what == What::Saving && (arguments.svg.is_some() || !arguments.loss.is_empty()) {
        return Err(
            "saving draws no picture and has losses of its own: leave out --svg and --loss".to_owned()
        );
    }
    let is_of_energy = |law: &LawSpec| matches!(law, LawSpec::Wave(_) | LawSpec::Tdpa(_));
    if arguments.what == What::Saving && !arguments.law.iter().all(is_of_energy) {
        return Err("saving is of laws of energy: --law wave,tdpa".to_owned());
    }
    arguments.svg.as_deref().map_or(Ok(()), has_folder)?;
    let laws = if arguments.law.is_empty() { LawSpec::all().to_vec() } else { arguments.law.clone() };
    let by_itself = arguments.what.round_trips().iter().map(|ms| Duration::from_millis(*ms));
    let round_trips = if arguments.rtt.is_empty() { by_itself.collect() } else { arguments.rtt.clone() };
    let none = vec![Probability::default()];
    let losses = if arguments.loss.is_empty() { none } else { arguments.loss.clone() };
    let draws = arguments.svg.is_some();
    let bar = Bar::new("map", arguments.quiet);
    let progress = |done| bar.set(done);
    match arguments.what {
        What::Calm | What::Parts => {
            let parts = arguments.what == What::Parts;
            let found =
                Map { laws, round_trips, losses, parts }.make(&progress).map_err(|e| e.to_string())?;
            drop(bar);
            shown(arguments, &found, draws.then(|| map_figure(&found)), &map_text(&found))
        }
        What::Transparency => {
            let asked = Transparency { laws, round_trips, losses };
            let found = asked.make(&progress).map_err(|e| e.to_string())?;
            drop(bar);
            let figure = draws.then(|| transparency_figure(&found));
            shown(arguments, &found, figure, &transparency_text(&found))
        }
        What::Saving => {
            let found = Savings { laws, round_trips }.make(&progress).map_err(|e| e.to_string())?;
            drop(bar);
            shown(arguments, &found, None, &saving_text(&found))
        }
    }
}

fn shown(arguments: &Arguments, found: &impl Serialize, figure: Option<String>, text: &str) -> Ended {
    if let (Some(file), Some(figure)) = (&arguments.svg, figure) {
        std::fs::write(file, figure).map_err(|e| format!("{}: {e}", file.display()))?;
    }
    if arguments.json {
        print_json(found)?;
    } else {
        print(text)?;
    }
    Ok(ExitCode::SUCCESS)
}
