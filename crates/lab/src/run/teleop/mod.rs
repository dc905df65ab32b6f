//! A whole teleoperation session on the simulator: the stack that is shipped, and what it connects.

mod books;
mod checker;
mod control;
mod hand;
mod notes;
mod operator;
pub(super) mod own;
mod record;
mod robot;
mod wire;

use std::cell::RefCell;
use std::rc::Rc;

use taut_core::{Address, Duration, FlowId, Rng, Seed, Time};
use taut_session::{Operator, Robot};
use taut_sim::{Network, NodeClock, Peer};
use taut_transport::stack::Side;

use self::hand::Hand;
use self::operator::{OperatorNode, Script};
use self::own::{OwnQueues, SharedQueues};
use self::record::{Opening, Record, Shared};
use self::robot::RobotNode;
use self::wire::{Life, Wire};
use super::flows::{Counters, FlowInfo};
use super::inputs::{Inputs, RunError};
use super::transports::PORTS;
use super::{cross, links, settings};
use crate::metrics::{StreamKey, Watch};
use crate::result::{FlowOwner, Series, TeleopResult};
use crate::robot::SimulatedRobot;
use crate::scenario::{ClockSpec, Direction, Scenario, Teleop, TransportSpec};
use links::LinkInfo;

pub use self::hand::Device;
pub use self::notes::{Notes, Way, account};
pub(in crate::run) use notes::conservation;

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
    links: &[LinkInfo],
    flows: &mut Vec<FlowInfo>,
) -> Result<(Vec<StreamKey>, Session), RunError> {
    let life = Life::default();
    let (streams, record) = add_life(network, scenario, teleop, seed, &life, Duration::ZERO, flows)?;
    let ends = [streams[0].from, streams[1].from];
    let queues = OwnQueues::new(ends, links.iter().map(|link| link.rate));
    record.borrow_mut().queues = Rc::new(RefCell::new(queues));
    Ok((streams, Session { record, life }))
}

/// The two ends in one of their lives, whose clocks read `later` more than in their first.
fn add_life(
    network: &mut Network,
    scenario: &Scenario,
    teleop: &Teleop,
    seed: Seed,
    life: &Life,
    later: Duration,
    flows: &mut Vec<FlowInfo>,
) -> Result<(Vec<StreamKey>, Shared), RunError> {
    let operator = network.next_address();
    let robot = Address(operator.0 + 1);
    let watch = Watch { warmup: scenario.warmup, duration: scenario.duration };
    let record: Shared = Rc::new(RefCell::new(Record::new(teleop, watch)));
    let counters: [Counters; 2] = Default::default();
    let codec = settings::codec(teleop);
    let clock = |name: &str, spec: Option<ClockSpec>| {
        let clock = clock(spec, seed.stream(&format!("teleop/{name}/clock")));
        NodeClock { offset: clock.offset + later, ..clock }
    };
    let clocks = [clock("operator", teleop.operator_clock), clock("robot", teleop.robot_clock)];
    let end = |side: Side| {
        let stack = wire::stack(teleop, side, seed, life)?;
        let (headers, protocol) = (stack.headers(), stack.protocol());
        let rng = seed.stream(&format!("teleop/{}/session{}", side.name(), life.name));
        let counters = counters[usize::from(side == Side::Waits)].clone();
        Ok::<_, RunError>((Wire::new(stack, codec, side, counters), headers, protocol, rng))
    };
    let hand = Hand::of(teleop, seed);
    let arm = SimulatedRobot::new(&teleop.environment, hand.body.position);
    let (wire, headers, protocol, rng) = end(Side::Opens)?;
    let session = Operator::new(wire, settings::operator(teleop).headers(headers), rng);
    let script = Script::new(teleop, scenario.duration, clocks[0]);
    let (source_port, destination_port) = PORTS;
    let there = Peer { address: robot, source_port, destination_port, protocol, ..Peer::default() };
    let priorities = hand::priorities(seed);
    let operator_node =
        OperatorNode::new(session, (clocks[0], there), hand, script, priorities, record.clone());
    let (wire, headers, protocol, rng) = end(Side::Waits)?;
    let session = Robot::new(wire, settings::robot(teleop).headers(headers), rng);
    let back = Peer {
        address: operator,
        source_port: destination_port,
        destination_port: source_port,
        flow: FlowId(1),
        protocol,
        ..Peer::default()
    };
    let robot_node = RobotNode::new(session, (clocks[1], clocks[0]), back, arm, teleop, record.clone());
    let vertex = |network: &Network, name: &str| {
        network.find(name).expect("a valid scenario names vertices that exist")
    };
    let at = [vertex(network, &teleop.operator), vertex(network, &teleop.robot)];
    network.node_with_clock("operator", at[0], Box::new(operator_node), clocks[0]);
    network.node_with_clock("robot", at[1], Box::new(robot_node), clocks[1]);
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
        let life = Life { name: "/again", ..self.life.clone() };
        let later = scenario.duration + scenario.drain + Duration::from_secs(1);
        let (_, record) = add_life(&mut network, scenario, teleop, seed, &life, later, &mut flows)?;
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
