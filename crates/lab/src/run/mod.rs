//! One run: a scenario and a seed in, a result out.

mod agent;
mod beside;
mod commands;
mod cross;
mod earlier;
mod emulation;
mod encode;
mod files;
mod flows;
mod inputs;
mod judge;
mod links;
mod output;
mod qdiscs;
mod queues;
mod recordings;
mod rtp_adapting;
mod rtp_replay;
#[cfg(feature = "parquet")]
mod samples;
#[cfg(not(feature = "parquet"))]
#[path = "samples_absent.rs"]
mod samples;
mod script;
mod session;
pub mod settings;
mod signals;
mod still;
mod teleop;
mod transports;
mod turns;
mod video;

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use taut_core::{Duration, Seed, Time};
use taut_sim::{Account, Ledger, Network, Simulation};

pub use beside::{CrossBooks, CrossCarrier, CrossFlow, Tally, account_cross, cross_flows};
pub use commands::{CommandNotes, CommandRun, account_commands};
pub(crate) use earlier::{Kind, Owner, settle};
pub use emulation::{LinkPair, PathEnds, link_name, link_pair, path_links};
pub(crate) use flows::FlowInfo;
pub use inputs::{Inputs, RunError};
pub use output::Output;
pub use qdiscs::{Hop, QdiscGate, Qdiscs, qdiscs};
pub use session::{MediaNotes, account_media};
pub use still::{StillHand, StillRobot};
pub(crate) use teleop::{Control, critical, ends, line};
pub use teleop::{Devices, Notes, RunClock, Way, account};

use crate::metrics::{Metrics, StreamKey, Watch};
use crate::scenario::Scenario;
use files::Files;
use links::LinkInfo;
use taut_report::result::{
    Conservation, FlowOwner, FlowResult, Input, LinkResult, MediumResult, RunResult, Verdict,
};
use teleop::own::Watcher;

/// Every packet of a run.
const PACKETS: &str = "packets.pcapng";
/// Every event of a run.
const EVENTS: &str = "events.jsonl";
/// Every delivered sample of a run.
const SAMPLES: &str = "samples.parquet";

/// A result in which nothing was measured.
fn blank(scenario: &Scenario, seed: u64, inputs: Vec<Input>) -> RunResult {
    RunResult {
        taut: env!("CARGO_PKG_VERSION").to_owned(),
        title: scenario.title.clone(),
        description: scenario.description.clone(),
        seed,
        duration_s: scenario.duration.as_secs_f64(),
        warmup_s: scenario.warmup.as_secs_f64(),
        scenario: scenario.to_toml(),
        inputs,
        ..RunResult::default()
    }
}

/// What to write besides the result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extras {
    /// Every packet, as `packets.pcapng`.
    pub capture: bool,
    /// Every event, as `events.jsonl`.
    pub events: bool,
    /// Every delivered sample, as `samples.parquet`.
    pub samples: bool,
}

/// Is told how far a run is: a fraction from 0 to 1.
pub type Progress<'a> = dyn FnMut(f64) + 'a;

/// Runs a scenario (without variants) with a seed.
///
/// # Errors
/// When a file that the scenario names cannot be used, or its ends are not connected.
pub fn run(scenario: &Scenario, seed: Seed, progress: &mut Progress<'_>) -> Result<RunResult, RunError> {
    run_with(scenario, seed, Extras::default(), None, progress)
}

/// The same, with files of every packet, event or sample written to `output`.
///
/// # Errors
/// Also when these files cannot be written.
pub fn run_with(
    scenario: &Scenario,
    seed: Seed,
    extras: Extras,
    output: Option<&mut Output>,
    progress: &mut Progress<'_>,
) -> Result<RunResult, RunError> {
    run_reading(Inputs::default(), scenario, seed, extras, output, progress)
}

/// Runs a scenario with devices of the caller's own at the ends of its `[teleop]`. `None`: `progress`, which is told how far it is, broke
/// it off.
///
/// # Errors
/// Also when the scenario has no `[teleop]`.
pub fn run_devices(
    scenario: &Scenario,
    seed: Seed,
    devices: Devices,
    progress: &mut dyn FnMut(f64) -> ControlFlow<()>,
) -> Result<Option<RunResult>, RunError> {
    staged(Inputs::default(), scenario, seed, devices, Extras::default(), None, progress)
}

/// The same as [`run_with`], with files that may have been read already.
pub(crate) fn run_reading(
    inputs: Inputs,
    scenario: &Scenario,
    seed: Seed,
    extras: Extras,
    output: Option<&mut Output>,
    progress: &mut Progress<'_>,
) -> Result<RunResult, RunError> {
    let mut goes_on = |fraction| {
        progress(fraction);
        ControlFlow::Continue(())
    };
    let result = staged(inputs, scenario, seed, Devices::default(), extras, output, &mut goes_on)?;
    Ok(result.expect("nothing breaks it off"))
}

fn staged(
    inputs: Inputs,
    scenario: &Scenario,
    seed: Seed,
    devices: Devices,
    extras: Extras,
    output: Option<&mut Output>,
    progress: &mut dyn FnMut(f64) -> ControlFlow<()>,
) -> Result<Option<RunResult>, RunError> {
    let mut stage = Stage::build(scenario, seed, devices, inputs, extras)?;
    let watch = Watch::of(scenario);
    let network = std::mem::take(&mut stage.network);
    let nodes = network.node_names();
    let cycles = judge::cycle_watch(scenario, &stage.flows);
    let metrics = Metrics::new(watch, &stage.streams, stage.flows.len(), stage.links.len(), cycles)
        .with_videos(cross::videos(scenario, &stage.flows));
    let links: Vec<String> = stage.links.iter().map(|link| link.name.clone()).collect();
    let files = Files::create(extras, output, &nodes, &links, &stage.streams)?;
    let queues = Watcher(stage.teleop.as_ref().map(teleop::Session::queues));
    let simulation = network.build(((Ledger::default(), queues), (metrics, files)));
    let mut simulation = simulation.map_err(RunError::scenario)?;
    if advance(&mut simulation, scenario.duration + scenario.drain, progress).is_break() {
        return Ok(None);
    }
    stage.queues = simulation.link_counters().map(|counters| counters.into_iter().collect()).collect();
    let (((ledger, _), (mut metrics, files)), held) = simulation.finish();
    stage.media.iter().for_each(|media| media.tell_rest(&mut metrics));
    if let (Some(spec), Some(session), [forward, ..]) = (&scenario.teleop, &stage.teleop, &stage.streams[..])
    {
        session.tell_rest(spec, forward.from, &mut metrics);
    }
    files.map_or(Ok(()), Files::finish)?;
    let account = ledger.close(&held);
    stage.result(scenario, seed, &nodes, &metrics, &account).map(Some)
}

/// In steps, so that progress can be told.
fn advance<O: taut_sim::Observer>(
    simulation: &mut Simulation<O>,
    length: Duration,
    progress: &mut dyn FnMut(f64) -> ControlFlow<()>,
) -> ControlFlow<()> {
    const STEPS: u64 = 100;
    for step in 1..=STEPS {
        let nanos = u128::from(length.as_nanos()) * u128::from(step) / u128::from(STEPS);
        simulation.run_until(Time::from_nanos(nanos as u64));
        progress(step as f64 / STEPS as f64)?;
    }
    ControlFlow::Continue(())
}

/// Everything that a run needs, and what its numbers mean.
struct Stage {
    network: Network,
    links: Vec<LinkInfo>,
    /// What each link's queues counted, once it has run.
    queues: Vec<BTreeMap<String, u64>>,
    flows: Vec<FlowInfo>,
    streams: Vec<StreamKey>,
    inputs: Inputs,
    media: Option<session::MediaSession>,
    teleop: Option<teleop::Session>,
    commands: Option<commands::CommandFlow>,
}

/// Links alone are a network for `taut emulate`, and nothing to run.
fn sends(scenario: &Scenario) -> Result<(), RunError> {
    let own = scenario.session.is_some() || scenario.teleop.is_some() || scenario.commands.is_some();
    if own || !scenario.cross.is_empty() {
        return Ok(());
    }
    Err(RunError::scenario("has neither `session`, `teleop`, `commands` nor `cross`: nothing would be sent"))
}

impl Stage {
    fn build(
        scenario: &Scenario,
        seed: Seed,
        devices: Devices,
        mut inputs: Inputs,
        extras: Extras,
    ) -> Result<Self, RunError> {
        if scenario.teleop.is_none() && !devices.own().is_empty() {
            return Err(RunError::Scenario("devices of one's own need a session: add [teleop]".to_owned()));
        }
        if devices.operator.is_some() && scenario.teleop.as_ref().is_some_and(|teleop| teleop.led) {
            return Err(RunError::key(
                "teleop.led",
                "leads the simulated hand; leave it out where the device is one's own",
            ));
        }
        sends(scenario)?;
        let mut network = Network::new();
        let links = links::add(&mut network, scenario, seed, &mut inputs)?;
        let mut flows = Vec::new();
        let media = match &scenario.session {
            Some(session) => {
                Some(session::add(&mut network, session, scenario, seed, &mut inputs, &mut flows)?)
            }
            None => None,
        };
        let streams = media.as_ref().map_or(Vec::new(), |media| media.streams().to_vec());
        let (streams, teleop) = match &scenario.teleop {
            Some(teleop) => {
                let (streams, session) =
                    teleop::add(&mut network, scenario, teleop, seed, devices, &links, &mut flows)?;
                (streams, Some(session))
            }
            None => (streams, None),
        };
        let explain = extras.events;
        let commands = commands::add(&mut network, scenario, seed, explain, &mut inputs, &mut flows)?;
        cross::add(&mut network, scenario, seed, &mut inputs, &mut flows)?;
        Ok(Self { network, links, queues: Vec::new(), flows, streams, inputs, media, teleop, commands })
    }

    fn result(
        mut self,
        scenario: &Scenario,
        seed: Seed,
        nodes: &[String],
        metrics: &Metrics,
        account: &Account,
    ) -> Result<RunResult, RunError> {
        let media = metrics.media();
        let mut limits = judge::limits(scenario.limits, &media);
        let media_session = self.media.as_ref();
        let nothing = media_session.and_then(|session| judge::no_session(session.opened(), &limits));
        limits.extend(nothing);
        let videos = metrics.videos();
        limits.extend(judge::videos(&videos));
        let names: Vec<String> = self.flows.iter().map(|flow| flow.name.clone()).collect();
        let link_names: Vec<String> = self.links.iter().map(|link| link.name.clone()).collect();
        let mut series = metrics.series(nodes, &names, &link_names);
        let mut conservation = conservation(account);
        let mut teleop = None;
        if let (Some(spec), Some(session)) = (&scenario.teleop, self.teleop.take()) {
            let (result, course, violations) = session.result(scenario, spec, seed, &self.inputs)?;
            series.extend(course);
            conservation.holds &= violations.is_empty();
            conservation.violations.extend(violations);
            limits.extend(judge::touch(&result));
            if let Some(within) = spec.stop_within {
                limits = vec![judge::stops(&result, within)];
            }
            let nothing = judge::no_session(result.opened_ms.is_some(), &limits);
            limits.extend(nothing);
            teleop = Some(result.beside(teleop::critical::of_run(spec, &media)));
        }
        let opened = self.commands.as_ref().is_none_or(commands::CommandFlow::opened);
        limits.extend(judge::no_session(opened, &limits));
        let efficiency = |owner: &FlowOwner| match (owner, &teleop) {
            (FlowOwner::Session(way), Some(teleop)) => teleop.wire[*way as usize].efficiency(),
            _ => None,
        };
        let flow = |(i, info): (usize, &FlowInfo)| {
            let flow = metrics.flow(i, info, application_bps(&info.owner, &media));
            FlowResult { efficiency: efficiency(&info.owner).or(flow.efficiency), ..flow }
        };
        let flows = self.flows.iter().enumerate().map(flow).collect();
        Ok(RunResult {
            verdict: Verdict::of(limits),
            teleop,
            commands: self.commands.as_ref().map(|commands| commands.result(scenario)),
            skews: metrics.skews(),
            worst: metrics.worst(),
            videos,
            refusals: metrics.refusals(nodes),
            flows,
            links: self.link_results(scenario, metrics, account),
            models: judge::model(scenario, &media, metrics.cycles()).into_iter().collect(),
            conservation,
            series,
            media,
            ..blank(scenario, seed.get(), self.inputs.list())
        })
    }

    fn link_results(&self, scenario: &Scenario, metrics: &Metrics, account: &Account) -> Vec<LinkResult> {
        let seconds = (scenario.duration + scenario.drain).as_secs_f64();
        let result = |(i, info): (usize, &LinkInfo)| {
            let link = account.links.get(i).cloned().unwrap_or_default();
            let (queue_max_bytes, queue_mean_bytes) = metrics.queue(i);
            let capacity = info.rate.map(|rate| rate.as_bps() as f64 * seconds).filter(|bits| *bits > 0.0);
            LinkResult {
                name: info.name.clone(),
                entered: link.entered,
                left: link.left,
                dropped: link.dropped,
                duplicated: link.duplicated,
                corrupted: link.corrupted,
                held: link.held,
                queue_max_bytes,
                queue_mean_bytes,
                queue_limit_bytes: info.queue_limit.map(taut_core::Bytes::get),
                utilisation: capacity.map(|bits| link.bytes_left as f64 * 8.0 / bits),
                counters: self.queues.get(i).cloned().unwrap_or_default(),
            }
        };
        self.links.iter().enumerate().map(result).collect()
    }
}

fn conservation(account: &Account) -> Conservation {
    Conservation {
        holds: account.violations.is_empty(),
        sent: account.sent,
        duplicated: account.duplicated,
        delivered: account.delivered,
        dropped: account.dropped.clone(),
        held: account.held,
        violations: account.violations.clone(),
    }
}

/// Bits of samples per second that arrive by a flow of the session.
fn application_bps(owner: &FlowOwner, media: &[MediumResult]) -> Option<f64> {
    let FlowOwner::Session(direction) = owner else { return None };
    Some(media.iter().filter(|medium| medium.direction == *direction).map(|medium| medium.goodput_bps).sum())
}
