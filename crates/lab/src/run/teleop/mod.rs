//! A whole teleoperation session on the simulator: the stack that is shipped, and what it connects.

mod account;
mod books;
mod calm;
mod channels;
mod checker;
mod control;
pub(crate) mod critical;
mod devices;
pub(crate) mod ends;
mod led;
pub(crate) mod line;
mod notes;
pub(super) mod own;
mod page;
mod ports;
mod record;
mod reserves;
mod wire;

use std::cell::RefCell;
use std::rc::Rc;

use taut_agent::ResumePolicy;
use taut_core::{Address, Duration, FlowId, NodeEvent, Rng, Seed, Time};
use taut_sim::{Network, NodeClock, Observer};
use taut_transport::stack::Side;

use self::books::Book;
use self::devices::Ends;
use self::notes::Scribe;
use self::own::{OwnQueues, SharedQueues};
use self::page::{Clocks, Onlooker, Page};
use self::record::{Opening, Record, Shared, UNMADE};
use self::reserves::Reserves;
use self::wire::Life;
pub(in crate::run) use self::wire::NO_STATE;
use super::agent::{Events, Setup};
use super::flows::{Counters, FlowInfo};
use super::inputs::{Inputs, RunError};
use super::script::Script;
use super::transports::{Carries, End, Stacks};
use super::{cross, links, settings};
use crate::metrics::{Metrics, StreamKey, Watch};
use crate::scenario::{ClockSpec, Direction, Scenario, Teleop, TransportSpec};
use links::LinkInfo;
use taut_report::result::{FlowOwner, Series, TeleopResult};

pub(in crate::run) use self::account::{NODES, conservation, flow, stream_keys};
pub use self::account::{Way, account};
pub(in crate::run) use self::calm::MOST_RIPPLE_PERCENT;
pub(crate) use self::control::Control;
pub use self::devices::{Devices, RunClock};
pub use self::notes::Notes;
pub(in crate::run) use self::reserves::Wanted;

/// What is left of a session when its nodes are gone.
pub(super) struct Session {
    record: Shared,
    life: Life,
}

/// Adds operator and robot; flow 0 is forward, flow 1 backward.
pub(super) fn add(
    network: &mut Network,
    scenario: &Scenario,
    teleop: &Teleop,
    seed: Seed,
    devices: Devices,
    links: &[LinkInfo],
    flows: &mut Vec<FlowInfo>,
) -> Result<(Vec<StreamKey>, Session), RunError> {
    let life = Life::default();
    let (streams, record) = add_life(network, scenario, teleop, seed, &life, devices, flows)?;
    let ends = [streams[0].from, streams[1].from];
    let queues = OwnQueues::new(ends, links.iter().map(|link| link.rate));
    record.borrow_mut().queues = Rc::new(RefCell::new(queues));
    Ok((streams, Session { record, life }))
}

/// The two ends in one of their lives.
fn add_life(
    network: &mut Network,
    scenario: &Scenario,
    teleop: &Teleop,
    seed: Seed,
    life: &Life,
    devices: Devices,
    flows: &mut Vec<FlowInfo>,
) -> Result<(Vec<StreamKey>, Shared), RunError> {
    let operator = network.next_address();
    let robot = Address(operator.0 + 1);
    let watch = Watch::of(scenario);
    let record: Shared = Rc::new(RefCell::new(Record::new(teleop, seed, watch)));
    record.borrow_mut().own_devices(devices.own());
    let counters: [Counters; 2] = Default::default();
    let clock = |name: &str, spec: Option<ClockSpec>| {
        let clock = clock(spec, seed.stream(&format!("teleop/{name}/clock")));
        NodeClock { offset: clock.offset + life.later, ..clock }
    };
    let clocks = [clock("operator", teleop.operator_clock), clock("robot", teleop.robot_clock)];
    let reserves = Reserves::default();
    let mut devices = Ends::new(devices, reserves.clone());
    let mut nodes = Vec::new();
    for (side, own, address) in [(Side::Opens, clocks[0], robot), (Side::Waits, clocks[1], operator)] {
        let (carries, name) = (Carries::Session, &life.name);
        let end = End { carries, side, secure: teleop.secure, life: name.clone(), paths: teleop.paths };
        let counters = counters[side as usize].clone();
        let wanted = teleop.wanted.map(|spec| Wanted { spec, side, reserves: reserves.clone() });
        let stacks = Stacks { end, spec: wire::spec(teleop, side, life), seed, counters, wanted };
        let (book, events) = (Book::new(teleop, side, record.clone()), Events::default());
        let (scribe, clocks) = (Scribe::new(teleop, side), Clocks { own, operator: clocks[0] });
        let run = devices.clock();
        let page = Page { scribe, book, clocks, run, transit: None, events: events.clone() };
        let onlooker = Onlooker(Rc::new(RefCell::new(page)));
        let setup = Setup {
            carrier: stacks.carrier(address, FlowId(side as u32))?,
            rng: seed.stream(&format!("teleop/{}/session{name}", side.name())),
            begins: own.read(Time::ZERO),
            observer: Box::new(onlooker.clone()),
            account: Box::new(onlooker),
            events,
        };
        nodes.push(match side {
            Side::Opens => {
                let hand = devices.hand(teleop, seed, own.read(Time::ZERO + scenario.duration));
                let agent = settings::agent(teleop, scenario.drain);
                // The first resume, too, is the person's in the script.
                let agent =
                    if teleop.resume_after.is_some() { agent } else { agent.resumes(ResumePolicy::Never) };
                setup.operator(settings::operator(teleop), hand, agent, Script::new(teleop, own))
            }
            Side::Waits => setup.robot(devices.robot(teleop), devices.arm(teleop, seed)),
        });
    }
    let vertex = |network: &Network, name: &str| {
        network.find(name).expect("a valid scenario names vertices that exist")
    };
    let at = [vertex(network, &teleop.operator), vertex(network, &teleop.robot)];
    for (((node, name), at), clock) in nodes.into_iter().zip(["operator", "robot"]).zip(at).zip(clocks) {
        network.node_with_clock(name, at, Box::new(node), clock);
    }
    network.flow(operator, robot);
    network.flow(robot, operator);
    let mut streams = Vec::new();
    let ends = [(Direction::Forward, operator, robot), (Direction::Backward, robot, operator)];
    for ((direction, from, to), counters) in ends.into_iter().zip(counters) {
        let (name, owner) = (format!("session {}", direction.name()), FlowOwner::Session(direction));
        flows.push(FlowInfo { name, owner, kind: "session", sender: from, counters });
        streams.push(StreamKey { from, to, direction });
    }
    Ok((streams, record))
}

fn tell_rest(record: &mut Record, teleop: &Teleop, operator: Address, metrics: &mut Metrics) {
    record.unmade(teleop, |at| {
        let sample = books::sample(0, at, 0);
        metrics.node_event(at, operator, &NodeEvent::Made(sample));
        metrics.node_event(at, operator, &NodeEvent::Dropped(sample, UNMADE));
    });
}

/// As it is written; else off by up to a quarter of an hour and up to 20 ppm, as computers' clocks are.
fn clock(spec: Option<ClockSpec>, mut rng: Rng) -> NodeClock {
    match spec {
        Some(spec) => NodeClock { offset: spec.offset, drift_ppb: (spec.drift_ppm * 1000.0) as i32 },
        None => NodeClock {
            offset: Duration::from_nanos(1_000_000_000 + rng.below(900_000_000_000)),
            drift_ppb: rng.below(40_001) as i32 - 20_000,
        },
    }
}

impl Session {
    /// What observes the queues of its own.
    pub(super) fn queues(&self) -> SharedQueues {
        self.record.borrow().queues.clone()
    }

    /// Tells what the hand at `operator` had still to make where the session was given up, or there never was one.
    pub(super) fn tell_rest(&self, teleop: &Teleop, operator: Address, metrics: &mut Metrics) {
        tell_rest(&mut self.record.borrow_mut(), teleop, operator, metrics);
    }

    /// What became of it, its course over time, and what was not as it must be.
    pub(super) fn result(
        self,
        scenario: &Scenario,
        teleop: &Teleop,
        seed: Seed,
        inputs: &Inputs,
    ) -> Result<(TeleopResult, Vec<Series>, Vec<String>), RunError> {
        let again = self.again(scenario, teleop, seed, inputs)?;
        let mut record = self.record.borrow_mut();
        record.checker.close();
        Ok((record.to_result(teleop, again), record.series(), record.checker.violations()))
    }

    /// How long it takes until states flow for two that remember each other, over the same network from its beginning.
    fn again(
        &self,
        scenario: &Scenario,
        teleop: &Teleop,
        seed: Seed,
        inputs: &Inputs,
    ) -> Result<Option<Opening>, RunError> {
        const PATIENCE: u64 = 20_000;
        if !matches!(teleop.transport, TransportSpec::Quic(_)) || self.record.borrow().handshake.is_none() {
            return Ok(None);
        }
        let (mut network, mut flows, mut inputs) = (Network::new(), Vec::new(), inputs.clone());
        links::add(&mut network, scenario, seed, &mut inputs)?;
        let later = scenario.duration + scenario.drain + Duration::from_secs(1);
        let life = Life { name: "/again".to_owned(), later, ..self.life.clone() };
        let devices = Devices::default();
        let (_, record) = add_life(&mut network, scenario, teleop, seed, &life, devices, &mut flows)?;
        cross::add(&mut network, scenario, seed, &mut inputs, &mut flows)?;
        let mut simulation = network.build(()).map_err(RunError::scenario)?;
        for ms in 1..=PATIENCE {
            simulation.run_until(Time::ZERO + Duration::from_millis(ms));
            if record.borrow().first_state.is_some() {
                break;
            }
        }
        let opening = record.borrow().opening();
        Ok(Some(opening))
    }
}
