//! Both ends of a flow of commands, for whoever drives them over real sockets.

use taut_core::{
    Address, Bytes, Datagram, Deadline, FlowId, Node, Packet, PacketMeta, Protocol, Seed, Time, Transmit,
    Transport,
};
use taut_sim::Peer;
use taut_transport::stack::{Bare, Side};

use super::books::Books;
use super::node::{Receiver, Sender};
use super::{direction, stack};
use crate::metrics::percent;
use crate::result::{FlowOwner, FlowResult, Input, PathResult, RunResult};
use crate::run::flows::{Counted, Counters};
use crate::run::inputs::RunError;
use crate::run::teleop::{Way, conservation};
use crate::run::transports::PORTS;
use crate::scenario::{Commands, Scenario};

/// A transport with a socket of its own in place of the model: at the sender's end, and at the receiver's.
pub type KernelEnds = [Box<dyn Transport>; 2];

/// Both ends of a scenario's commands, with the same makers, transports and books as in a simulated run. Their time zero is
/// when the run begins.
pub struct CommandEnds {
    /// The end that makes commands.
    pub sender: CommandEnd,
    /// The end that takes them.
    pub receiver: CommandEnd,
    /// What both write into.
    pub books: CommandBooks,
}

/// One end: a state machine with the five verbs of [`Transport`].
pub struct CommandEnd(Box<dyn Node>);

/// What was made and what arrived.
pub struct CommandBooks(Books, String);

impl CommandEnds {
    /// Those of `commands`. What is random in them is as in a simulated run with this seed. `kernel` carries the commands
    /// where the scenario's transport is a model of what only a kernel has.
    ///
    /// # Errors
    /// When the transport's settings cannot be.
    pub fn new(
        scenario: &Scenario,
        commands: &Commands,
        seed: Seed,
        kernel: Option<KernelEnds>,
    ) -> Result<Self, RunError> {
        let books = Books::new(commands, scenario);
        let [near, far] = match kernel {
            Some(ends) => ends.map(|end| Bare::External(end).into()),
            None => [stack(commands, Side::Opens, seed, false)?, stack(commands, Side::Waits, seed, false)?],
        };
        let stop = Time::ZERO + scenario.duration;
        let counted = |stack| Counted::new(stack, Counters::default());
        let sender = Sender::new(counted(near), peer(), commands, stop, books.clone());
        let receiver = Receiver::new(counted(far), peer(), books.clone());
        let books = CommandBooks(books, commands.transport.name().to_owned());
        Ok(Self { sender: CommandEnd(Box::new(sender)), receiver: CommandEnd(Box::new(receiver)), books })
    }
}

/// There are no addresses but those of sockets.
fn peer() -> Peer {
    let (source_port, destination_port) = PORTS;
    let (address, flow, protocol) = (Address(0), FlowId(0), Protocol::Udp);
    Peer { address, source_port, destination_port, flow, protocol, dscp: 0 }
}

impl CommandEnd {
    /// A datagram arrived.
    pub fn handle_input(&mut self, now: Time, input: Datagram<'_>) {
        let size = Bytes::new(28 + input.data.len() as u64 + u64::from(input.padding));
        let meta = PacketMeta {
            size,
            protocol: Protocol::Udp,
            ecn: input.ecn,
            path: input.path,
            ..PacketMeta::default()
        };
        self.0.handle_input(now, Packet { meta, payload: input.data.to_vec() });
    }

    /// The deadline has come, or a socket of the transport's own is ready.
    pub fn handle_timeout(&mut self, now: Time) {
        self.0.handle_timeout(now);
    }

    /// The next datagram to send; its bytes are appended to `buffer`.
    pub fn poll_transmit(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
        let packet = self.0.poll_transmit(now)?;
        buffer.extend_from_slice(&packet.payload);
        let padding = Peer::padding(&packet);
        Some(Transmit { path: packet.meta.path, ecn: packet.meta.ecn, padding })
    }

    /// Forgets what happened: the books know what matters. True when there was something.
    pub fn poll_event(&mut self) -> bool {
        self.0.poll_event().is_some()
    }

    /// When it wants to be called, and why.
    pub fn poll_timeout(&self) -> Option<Deadline> {
        self.0.poll_timeout()
    }
}

impl CommandBooks {
    /// The result of a run, both ends of which were dropped, and what each path carried there and back. It is one that
    /// [`Ran::Real`](crate::result::Ran::Real).
    pub fn account(
        &self,
        scenario: &Scenario,
        seed: u64,
        carried: &[[Way; 2]],
        inputs: Vec<Input>,
    ) -> RunResult {
        let mut commands = self.0.result(&self.1, None);
        let path = |way: &Way| PathResult { packets: way.entered, bytes: way.entered_bytes };
        commands.there = carried.iter().map(|ways| path(&ways[0])).collect();
        commands.back = carried.iter().map(|ways| path(&ways[1])).collect();
        let both = Way::of_all(carried);
        RunResult {
            ran: crate::result::Ran::Real,
            verdict: crate::result::Verdict { met: true, limits: Vec::new() },
            flows: flows(scenario, &both),
            conservation: conservation(&both, Vec::new()),
            commands: Some(commands),
            ..RunResult::of(scenario, seed, inputs)
        }
    }
}

fn flows(scenario: &Scenario, ways: &[Way; 2]) -> Vec<FlowResult> {
    let rate = |bytes: u64| bytes as f64 * 8.0 / scenario.duration.as_secs_f64();
    let flow = |(side, name, way): (Side, &str, &Way)| FlowResult {
        name: name.to_owned(),
        owner: FlowOwner::Commands(direction(side)),
        kind: "commands".to_owned(),
        sent: way.entered,
        delivered: way.left,
        dropped: way.dropped.clone(),
        loss_percent: percent(way.dropped.values().sum(), way.entered),
        sent_bps: rate(way.entered_bytes),
        delivered_bps: rate(way.left_bytes),
        efficiency: None,
        delay_ms: None,
        counters: way.counters.clone(),
    };
    let ends = [(Side::Opens, "commands", &ways[0]), (Side::Waits, "commands answers", &ways[1])];
    ends.into_iter().map(flow).collect()
}
