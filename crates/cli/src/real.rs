//! `taut run --real`: scenarios over real sockets, beside their simulated twins.

use std::process::ExitCode;

use clap::Args;
use taut_core::Seed;
use taut_lab::job;
use taut_lab::run::{RunError, qdiscs};
use taut_lab::scenario::{Scenario, Variant};
use taut_netlab::emulate::EmulatorError;
use taut_netlab::{Between, Cancel, NamespaceError, Options, RealError, possible};
use taut_report::{comparison_text, written_text};

use crate::host::{OnSignal, Scheduling};
use crate::progress::Bar;
use crate::run::Arguments;
use crate::{Ended, print, print_json};

/// How a scenario is run for real.
#[derive(Args, Clone, Debug)]
pub(crate) struct RealArguments {
    /// Over real sockets, between two network namespaces that are made and removed, one run after the other, each beside
    /// its simulated twin (needs root)
    #[arg(long, group = "beside_twins")]
    pub(crate) real: bool,
    /// The same in a Linux kernel of its own in virtual time, with that kernel's TCP and its netem in place of the emulator:
    /// exact to the microsecond whatever this host does (needs what `make oracle` builds, or TAUT_KERNEL)
    #[arg(long, group = "beside_twins", conflicts_with_all = ["events", "samples", "capture"])]
    pub(crate) kernel: bool,
    /// Without the simulated twins
    #[arg(long, requires = "beside_twins", conflicts_with = "strict")]
    alone: bool,
    /// What carries packets between the two namespaces
    #[arg(long, default_value = "emulator", requires = "real")]
    between: Between,
    /// Never spin to be on time: where time stands still while somebody works
    #[arg(long, requires = "real")]
    no_spin: bool,
    /// Run the threads of both ends and of the emulator under SCHED_FIFO at this priority (needs CAP_SYS_NICE)
    #[arg(long, value_name = "PRIORITY", requires = "real", value_parser = clap::value_parser!(u8).range(1..=99))]
    fifo: Option<u8>,
}

impl RealArguments {
    fn options(&self) -> Options {
        let options = Options::new().between(self.between).spin(!self.no_spin);
        let scheduling = Scheduling::at(self.fifo).thread();
        options.scheduling(scheduling).warnings(|warning| crate::say(&format!("goes on without {warning}")))
    }
}

pub(crate) fn run(
    arguments: &Arguments,
    scenario: &Scenario,
    variants: &[(Variant, Scenario)],
    seeds: &[u64],
) -> Ended {
    let file = &arguments.scenario;
    let variants = &those_possible(arguments, variants)?[..];
    let options = arguments.real.options();
    let cancel = Cancel::default();
    let signalled = cancel.clone();
    let _signals = OnSignal::new(move || signalled.cancel())?;
    let (twins, folder) = (!arguments.real.alone, arguments.out.as_deref());
    let bar =
        Bar::new(&format!("{} real runs and their twins", variants.len() * seeds.len()), arguments.quiet);
    let mut refused = false;
    let mut real = |variant: &Variant, scenario: &Scenario, seed: Seed, progress: &mut dyn FnMut(f64)| {
        let ran = judged(taut_netlab::run(scenario, seed, &options, &cancel, progress), &cancel)?;
        Ok(ran.inspect_err(|error| {
            refused = true;
            if variants.len() > 1 {
                crate::say(&format!("leaves out `{}`: {error}", variant.name));
            }
        }))
    };
    let tell = |fraction| bar.set(fraction);
    let done = job::compare(scenario, variants, seeds, twins, folder, &mut real, &tell);
    drop(bar);
    let (result, written) = match done {
        Ok(done) => done,
        Err(RealError::Interrupted) => {
            crate::say("interrupted; the namespaces are gone, nothing was written");
            return Ok(ExitCode::from(INTERRUPTED));
        }
        Err(RealError::Scenario(error)) => return Err(error.within(file).to_string()),
        Err(
            RealError::Namespace(NamespaceError::NotPermitted)
            | RealError::Emulator(EmulatorError::NotPermitted),
        ) => return Err(by_root()),
        Err(error) => return Err(error.to_string()),
    };
    if arguments.json {
        print_json(&result)?;
    } else {
        print(&(comparison_text(&result) + &written_text(&written)))?;
    }
    let mut violations = result.runs.iter().flat_map(|run| run.both()).flat_map(|one| &one.violations);
    if let Some(first) = violations.next() {
        crate::say(&format!("packets do not add up: {first}"));
        return Ok(ExitCode::FAILURE);
    }
    Ok(if !refused && (result.agrees() || !arguments.strict) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The inner error: the kernel refuses this variant, and may take others. Ctrl-C ends `ip` and `tc` too, which is no refusal.
fn judged<T>(ran: Result<T, RealError>, cancel: &Cancel) -> Result<Result<T, RealError>, RealError> {
    match ran {
        Err(_) if cancel.is_cancelled() => Err(RealError::Interrupted),
        Err(error @ RealError::Qdisc(_)) => Ok(Err(error)),
        ran => ran.map(Ok),
    }
}

/// Can this scenario (without variants) run over real sockets with this in between?
pub(crate) fn can_run(scenario: &Scenario, between: Between) -> Result<(), RunError> {
    possible(scenario)?;
    if between == Between::Netem {
        qdiscs(scenario)?;
    }
    Ok(())
}

/// Those that real sockets can run; of every other one a line says why not. An error where there are no others.
fn those_possible(
    arguments: &Arguments,
    variants: &[(Variant, Scenario)],
) -> Result<Vec<(Variant, Scenario)>, String> {
    let (mut those, mut others) = (Vec::new(), Vec::new());
    for (variant, scenario) in variants {
        match can_run(scenario, arguments.real.between) {
            Ok(()) => those.push((variant.clone(), scenario.clone())),
            Err(error) => others.push((variant, error)),
        }
    }
    if let ([], [(variant, error), ..]) = (those.as_slice(), others.as_slice()) {
        let of = match variant.name.as_str() {
            "" => String::new(),
            name => format!(" (variant `{name}`)"),
        };
        return Err(format!("{}{of}", error.clone().within(&arguments.scenario)));
    }
    for (variant, error) in others {
        crate::say(&format!("leaves out `{}`: {error}", variant.name));
    }
    Ok(those)
}

fn by_root() -> String {
    let command = std::env::args().collect::<Vec<_>>().join(" ");
    format!("--real makes network namespaces, which needs root: sudo {command}")
}

/// 128 + SIGINT, as shells tell it.
const INTERRUPTED: u8 = 130;

#[cfg(test)]
mod tests {
    use super::*;

    fn failed() -> NamespaceError {
        NamespaceError::Command { program: "tc", arguments: String::new(), message: String::new() }
    }

    #[test]
    fn only_a_queueing_discipline_that_the_kernel_does_not_take_leaves_a_variant_out() {
        let cancel = Cancel::default();
        let found = |error: RealError| judged::<()>(Err(error), &cancel);
        assert!(matches!(found(RealError::Qdisc(failed())), Ok(Err(_))));
        assert!(
            matches!(found(failed().into()), Err(RealError::Namespace(_))),
            "a program that ended otherwise"
        );
    }

    #[test]
    fn a_program_that_an_interruption_ends_has_not_refused() {
        let cancel = Cancel::default();
        cancel.cancel();
        for error in [RealError::Qdisc(failed()), failed().into()] {
            assert!(matches!(judged::<()>(Err(error), &cancel), Err(RealError::Interrupted)));
        }
    }
}
