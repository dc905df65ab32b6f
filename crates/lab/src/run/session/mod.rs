//! The two ends of a session: devices, multiplexer and transport one way, transport and demultiplexer the other.

mod carried;
mod devices;

use std::collections::VecDeque;

use taut_core::{
    Bytes, Datagram, Deadline, DropCause, Duration, Event, FlowId, Medium, Message, Node, NodeEvent, Packet,
    Reliability, Seed, Time, Transport, earliest,
};
use taut_media::{Demultiplexer, DemuxConfig, Multiplexer, MuxConfig, Scheme, TrendConfig};
use taut_sim::{Network, Peer};
use taut_transport::stack::{Side, Stack};

use super::flows::{Counted, Counters, FlowInfo};
use super::inputs::{Inputs, RunError};
use super::settings;
use super::transports::{Carries, End, PORTS};
use crate::metrics::StreamKey;
use crate::scenario::{Direction, MultiplexerSpec, Scenario, Session, Stream};
use carried::Carried;
use devices::Devices;
pub(super) use devices::vp8_frames;
use taut_report::result::FlowOwner;

/// Adds operator and robot; flow 0 is forward, flow 1 backward.
pub(super) fn add(
    network: &mut Network,
    session: &Session,
    scenario: &Scenario,
    seed: Seed,
    inputs: &mut Inputs,
    flows: &mut Vec<FlowInfo>,
) -> Result<Vec<StreamKey>, RunError> {
    let operator = network.next_address();
    let robot = taut_core::Address(operator.0 + 1);
    let (operator_port, robot_port) = PORTS;
    let counters: [Counters; 2] = Default::default();
    let mut end = |direction: Direction, stream: &Option<Stream>, side, peer: Peer, far: &Option<Stream>| {
        let end = End { carries: Carries::Session, side, secure: false, life: String::new(), paths: 1 };
        let stack = end.stack(settings::stack(&session.transport, settings::Needs::default()), seed)?;
        let peer = Peer { protocol: stack.protocol(), dscp: stream.as_ref().map_or(0, |s| s.dscp), ..peer };
        let outgoing = match stream {
            None => None,
            Some(stream) => Some(Outgoing::new(stream, direction.name(), &stack, scenario, seed, inputs)?),
        };
        let reports = matches!(far, Some(Stream { multiplexer: MultiplexerSpec::NetworkAware(_), .. }))
            && outgoing.is_some();
        let stack = Counted::new(stack, counters[direction as usize].clone());
        Ok::<_, RunError>(SessionNode::new(stack, peer, outgoing, reports))
    };
    let (forward, backward) = (&session.forward, &session.backward);
    let to_robot = Peer {
        address: robot,
        source_port: operator_port,
        destination_port: robot_port,
        flow: FlowId(0),
        ..Peer::default()
    };
    let to_operator = Peer {
        address: operator,
        source_port: robot_port,
        destination_port: operator_port,
        flow: FlowId(1),
        ..Peer::default()
    };
    let operator_node = end(Direction::Forward, forward, Side::Opens, to_robot, backward)?;
    let robot_node = end(Direction::Backward, backward, Side::Waits, to_operator, forward)?;
    let vertex = |network: &Network, name: &str| {
        network.find(name).expect("a valid scenario names vertices that exist")
    };
    let (at_operator, at_robot) = (vertex(network, &session.operator), vertex(network, &session.robot));
    network.node("operator", at_operator, Box::new(operator_node));
    network.node("robot", at_robot, Box::new(robot_node));
    network.flow(operator, robot);
    network.flow(robot, operator);
    let [forward, backward] = counters;
    for (direction, sender, counters) in
        [(Direction::Forward, operator, forward), (Direction::Backward, robot, backward)]
    {
        let (name, owner) = (format!("session {}", direction.name()), FlowOwner::Session(direction));
        flows.push(FlowInfo { name, owner, kind: "session", sender, counters });
    }
    Ok(vec![
        StreamKey { from: operator, to: robot, direction: Direction::Forward },
        StreamKey { from: robot, to: operator, direction: Direction::Backward },
    ])
}

/// One end of a session.
struct SessionNode {
    stack: Counted,
    peer: Peer,
    outgoing: Option<Outgoing>,
    demultiplexer: Demultiplexer,
    /// Feed the delay of what arrives back to the peer.
    reports: bool,
    events: VecDeque<NodeEvent>,
    /// The empty buffer of the packet that arrived last, for the one that leaves next.
    spare: Vec<u8>,
}

/// What this end sends.
struct Outgoing {
    devices: Devices,
    multiplexer: Multiplexer,
    carried: Carried,
    tag: u64,
    /// Empty: the next message is written into it.
    scratch: Vec<u8>,
}

/// The longest IP packet that Ethernet carries (RFC 894).
const ETHERNET: Bytes = Bytes::new(1500);

impl Outgoing {
    fn new(
        stream: &Stream,
        direction: &str,
        stack: &Stack,
        scenario: &Scenario,
        seed: Seed,
        inputs: &mut Inputs,
    ) -> Result<Self, RunError> {
        let devices = Devices::new(stream, direction, scenario.duration, seed, inputs)?;
        let room = ETHERNET.saturating_sub(stack.overhead());
        let mut config = MuxConfig::new(scheme(stream)).mtu(room).sample_limit(128).frame_limit(64);
        for medium in Medium::ALL {
            // What is late is counted late at the receiver; the sender drops only what nobody waits for any more.
            config = config.age_limit(medium, Duration::from_secs(1));
        }
        if let Some(packet) = stream.packet {
            config = config.datagram(packet.saturating_sub(stack.overhead()));
        }
        let multiplexer = Multiplexer::new(config)
            .map_err(|e| RunError::key(format!("session.{direction}.multiplexer"), e))?;
        Ok(Self { devices, multiplexer, carried: Carried::new(), tag: 0, scratch: Vec::new() })
    }

    /// Makes what is due and hands on whatever the multiplexer has ready.
    fn pump(&mut self, now: Time, stack: &mut Counted, events: &mut VecDeque<NodeEvent>) {
        let before = events.len();
        self.devices.make(now, &mut self.multiplexer, events);
        for event in events.range(before..) {
            if let NodeEvent::Made(sample) = event {
                self.carried.made(*sample);
            }
        }
        self.multiplexer.handle_timeout(now);
        while let Some(transmit) = self.multiplexer.poll_transmit(now, &mut self.scratch) {
            self.scratch.resize(self.scratch.len() + transmit.padding as usize, 0);
            self.tag += 1;
            self.carried.offered(self.tag, transmit.created, &self.scratch);
            let message = Message {
                data: std::mem::take(&mut self.scratch),
                created: transmit.created,
                tag: self.tag,
                reliability: reliability(transmit.flow),
                ..Message::default()
            };
            if let Err(error) = stack.send(now, message) {
                self.carried.dropped(self.tag, error.cause(), events);
            }
        }
        while let Some(event) = self.multiplexer.poll_event() {
            events.extend(match event {
                NodeEvent::Dropped(sample, cause) => {
                    self.carried.once(sample).map(|sample| NodeEvent::Dropped(sample, cause))
                }
                other => Some(other),
            });
        }
    }
}

/// A newer sample makes an older one worthless; the next part of a frame does not.
fn reliability(flow: Medium) -> Reliability {
    if flow == Medium::Haptic { Reliability::Unreliable } else { Reliability::Reliable }
}

fn scheme(stream: &Stream) -> Scheme {
    match stream.multiplexer {
        MultiplexerSpec::Separate => Scheme::Separate,
        MultiplexerSpec::FixedFragment(fixed) => Scheme::FixedFragment { fragment: fixed.fragment },
        MultiplexerSpec::VisualHaptic => Scheme::VisualHaptic {
            media_rate: devices::frame_rate(stream),
            with_sample: Duration::from_millis(1),
            chunk: Duration::from_millis(15),
        },
        MultiplexerSpec::NetworkAware(aware) => {
            let period = stream.haptic.as_ref().map_or(Duration::from_millis(1), |haptic| haptic.period);
            let fragment = devices::frame_rate(stream) * period;
            Scheme::NetworkAware { fragment, period, trend: TrendConfig::new().k_max(aware.max_samples) }
        }
    }
}

impl SessionNode {
    fn new(stack: Counted, peer: Peer, outgoing: Option<Outgoing>, reports: bool) -> Self {
        let demultiplexer = Demultiplexer::new(DemuxConfig::default());
        Self { stack, peer, outgoing, demultiplexer, reports, events: VecDeque::new(), spare: Vec::new() }
    }

    /// What the transport has to tell, to whom it concerns.
    fn drain(&mut self, now: Time) {
        while let Some(event) = self.stack.poll_event() {
            match event {
                Event::Received { data, .. } => self.receive(now, data),
                Event::Dropped { tag, cause } => {
                    if let Some(out) = &mut self.outgoing {
                        out.carried.dropped(tag, cause, &mut self.events);
                    }
                }
                Event::Refused(cause) => self.events.push_back(NodeEvent::Refused(None, cause)),
                Event::Gauge { name, value } => self.events.push_back(NodeEvent::Gauge { name, value }),
                Event::Connected | Event::PathUp(_) | Event::PathDown(_) | Event::Closed => {}
            }
        }
    }

    fn receive(&mut self, now: Time, mut data: Vec<u8>) {
        self.demultiplexer.handle_input(now, &data, 0);
        while let Some(event) = self.demultiplexer.poll_event() {
            self.events.push_back(event);
        }
        if let Some(out) = &mut self.outgoing {
            data.clear();
            out.scratch = data;
            if let Some(report) = self.demultiplexer.take_report() {
                let transit = Duration::from_nanos(report.transit_ns.max(0) as u64);
                out.multiplexer.handle_delay(now, transit);
            }
            if self.reports
                && let Some(report) = self.demultiplexer.report()
            {
                out.multiplexer.send_report(report);
            }
        }
    }
}

impl Node for SessionNode {
    fn handle_input(&mut self, now: Time, packet: Packet) {
        if packet.meta.corrupted {
            return self.events.push_back(NodeEvent::Refused(None, DropCause::Corrupted));
        }
        let padding = Peer::padding(&packet);
        let (path, ecn) = (packet.meta.path, packet.meta.ecn);
        self.stack.handle_input(now, Datagram { path, ecn, data: &packet.payload, padding });
        self.spare = packet.payload;
        self.spare.clear();
        self.drain(now);
    }

    fn handle_timeout(&mut self, now: Time) {
        if let Some(out) = &mut self.outgoing {
            out.pump(now, &mut self.stack, &mut self.events);
        }
        if self.stack.poll_timeout().is_some_and(|deadline| deadline.at <= now) {
            self.stack.handle_timeout(now);
        }
        self.drain(now);
    }

    fn poll_transmit(&mut self, now: Time) -> Option<Packet> {
        let transmit = self.stack.poll_transmit(now, &mut self.spare)?;
        Some(self.peer.packet(std::mem::take(&mut self.spare), transmit))
    }

    fn poll_event(&mut self) -> Option<NodeEvent> {
        self.events.pop_front()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let out = self.outgoing.as_ref();
        let devices =
            out.and_then(|out| earliest(out.devices.poll_timeout(), out.multiplexer.poll_timeout()));
        earliest(devices, self.stack.poll_timeout())
    }
}
