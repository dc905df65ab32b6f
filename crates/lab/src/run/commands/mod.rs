//! A flow of commands over one path or several: who sends, who receives, and what was in time.

mod bare;
mod books;
mod bound;
mod notes;
mod session;

use taut_core::{Address, Duration, FlowId, Node, Seed};
use taut_sim::Network;
use taut_transport::stack::Side;

use super::flows::{Counters, FlowInfo};
use super::inputs::{Inputs, RunError};
use super::settings;
use super::transports::{Carries, End, Stacks};
use crate::scenario::{Direction, Scenario};
pub use notes::{CommandNotes, CommandRun, account_commands};
use taut_report::result::{CommandsResult, FlowOwner};

use bare::Bare;
use books::Books;
use bound::Clairvoyant;

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
    /// Was there ever what they could be sent over?
    pub(super) fn opened(&self) -> bool {
        self.books.opened()
    }

    /// What was in time; after the network is gone.
    pub(super) fn result(&self, scenario: &Scenario) -> CommandsResult {
        scenario.commands.iter().for_each(|commands| self.books.close(commands, scenario));
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
    let mut end = |side: Side, own: Address, other: Address| {
        let spec = settings::commands(commands, explain && side == Side::Opens);
        let end = End {
            carries: Carries::Commands,
            side,
            secure: false,
            life: String::new(),
            paths: commands.paths,
        };
        let stacks = Stacks { end, spec, seed, counters: Counters::default(), wanted: None };
        let carrier = stacks.carrier(other, FlowId(flows.len() as u32))?;
        let (owner, counters) = (FlowOwner::Commands(direction(side)), carrier.others.counters.clone());
        let name = name(side).to_owned();
        flows.push(FlowInfo { name, owner, kind: "commands", sender: own, counters });
        Ok::<_, RunError>(carrier)
    };
    let ends = [end(Side::Opens, sender, receiver)?, end(Side::Waits, receiver, sender)?];
    let [near, far] = ends.map(|end| -> Box<dyn Node> {
        if commands.bare {
            Box::new(Bare::new(scenario, commands, end, books.clone()))
        } else {
            Box::new(session::node(scenario, commands, end, books.clone()))
        }
    });
    network.node("commander", from, near);
    network.node("commanded", to, far);
    network.flow(sender, receiver);
    network.flow(receiver, sender);
    let clairvoyant = Clairvoyant::new(scenario, commands, seed, inputs)?;
    Ok(Some(CommandFlow { books, clairvoyant, transport: commands.transport.name().to_owned() }))
}

/// What results call the flow of what this end sends.
fn name(side: Side) -> &'static str {
    match side {
        Side::Opens => "commands",
        Side::Waits => "commands answers",
    }
}

fn direction(side: Side) -> Direction {
    match side {
        Side::Opens => Direction::Forward,
        Side::Waits => Direction::Backward,
    }
}
