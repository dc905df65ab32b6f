//! A flow of commands over one path or several: who sends, who receives, and what was in time.

mod bare;
mod books;
mod bound;
mod notes;
mod session;

use taut_core::{Address, Duration, Node, Seed, Time};
use taut_sim::{Network, Peer};
use taut_transport::stack::{Side, Stack};

use super::flows::{Counters, FlowInfo};
use super::inputs::{Inputs, RunError};
use super::settings;
use super::transports::{Carries, End, PORTS};
use crate::scenario::{Commands, Direction, Scenario};
pub use notes::{CommandNotes, CommandRun, account_commands};
use taut_report::result::{CommandsResult, FlowOwner};

use bare::{Receiver, Sender};
use books::Books;
use bound::Clairvoyant;
use session::Stacks;

/// A flow of commands whose ends are in the network.
pub(super) struct CommandFlow {
    books: Books,
    clairvoyant: Option<Clairvoyant>,
    transport: String,
}

/// What the links of commands do to packets is drawn anew every so often, and the same for all that are sent meanwhile on one
/// link: so every protocol meets the same luck, and what could have been is known. Two slots of a 5G radio with a subcarrier
/// spacing of 30 kHz (3GPP TS 38.211 section 4.3.2).
const SLOT: Duration = Duration::from_millis(1);

/// Of the links of a scenario, where it has commands.
pub(super) fn slot(scenario: &Scenario) -> Option<Duration> {
    scenario.commands.as_ref().map(|_| SLOT)
}

impl CommandFlow {
    /// What was in time; after the network is gone.
    pub(super) fn result(&self) -> CommandsResult {
        self.books.result(&self.transport, self.clairvoyant.as_ref())
    }
}

/// Adds sender and receiver, where the scenario has commands. `explain`: the sender tells of each choice of paths.
pub(super) fn add(
    network: &mut Network,
    scenario: &Scenario,
    seed: Seed,
    explain: bool,
    inputs: &mut Inputs,
    flows: &mut Vec<FlowInfo>,
) -> Result<Option<CommandFlow>, RunError> {
    let Some(commands) = &scenario.commands else { return Ok(None) };
    let vertex = |network: &Network, name: &str| {
        network.find(name).expect("a valid scenario names vertices that exist")
    };
    let (from, to) = (vertex(network, &commands.from), vertex(network, &commands.to));
    let books = Books::new(commands, scenario);
    let sender = network.next_address();
    let receiver = Address(sender.0 + 1);
    let (near_port, far_port) = PORTS;
    let mut end = |side: Side, other: Address, (source_port, destination_port)| {
        let explain = explain && side == Side::Opens;
        let counters = Counters::default();
        let commands = commands.clone();
        let mut stacks =
            Stacks { commands, side, seed, life: String::new(), explain, counters: counters.clone() };
        let stack = stacks.next()?;
        let (owner, flow) = (FlowOwner::Commands(direction(side)), taut_core::FlowId(flows.len() as u32));
        let name = match side {
            Side::Opens => "commands",
            Side::Waits => "commands answers",
        };
        let name = name.to_owned();
        let from = if side == Side::Opens { sender } else { receiver };
        flows.push(FlowInfo { name, owner, kind: "commands", sender: from, counters });
        let (protocol, address) = (stack.stack().protocol(), other);
        let peer = Peer { address, source_port, destination_port, flow, protocol, dscp: 0 };
        Ok::<_, RunError>((stack, peer, stacks))
    };
    let (near, near_peer, near_stacks) = end(Side::Opens, receiver, (near_port, far_port))?;
    let (far, far_peer, far_stacks) = end(Side::Waits, sender, (far_port, near_port))?;
    let [near, far]: [Box<dyn Node>; 2] = if commands.bare {
        let stop = Time::ZERO + scenario.duration;
        [
            Box::new(Sender::new(near, near_peer, commands, stop, books.clone())),
            Box::new(Receiver::new(far, far_peer, books.clone())),
        ]
    } else {
        [(near, near_peer, near_stacks), (far, far_peer, far_stacks)].map(|(stack, peer, stacks)| {
            Box::new(session::node(scenario, stack, peer, stacks, books.clone())) as _
        })
    };
    network.node("commander", from, near);
    network.node("commanded", to, far);
    network.flow(sender, receiver);
    network.flow(receiver, sender);
    let clairvoyant = Clairvoyant::new(scenario, commands, seed, inputs)?;
    Ok(Some(CommandFlow { books, clairvoyant, transport: commands.transport.name().to_owned() }))
}

/// The stack of one end in one of its lives. `explain`: each choice of paths is kept until it is read.
fn stack(commands: &Commands, side: Side, seed: Seed, life: &str, explain: bool) -> Result<Stack, RunError> {
    let (carries, life) = (Carries::Commands, life.to_owned());
    let end = End { carries, side, secure: false, life, paths: commands.paths };
    end.stack(settings::commands(commands, explain), seed)
}

fn direction(side: Side) -> Direction {
    match side {
        Side::Opens => Direction::Forward,
        Side::Waits => Direction::Backward,
    }
}
