//! Everything that happens, as JSON Lines: one object a line, times in nanoseconds.

use std::io::{self, Write};

use serde::Serialize;
use taut_core::{
    Address, Choice, Duration, LinkEvent, NodeEvent, Packet, PacketMeta, PathEstimate, Sample, Time,
};

use crate::observer::{LinkId, Observer};

/// Writes one line per event. The names of nodes and links stand in the first two lines.
pub struct EventLog<W> {
    out: W,
    error: Option<io::Error>,
}

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Line<'a> {
    Nodes { names: &'a [String] },
    Links { names: &'a [String] },
    Sent { at_ns: u64, id: u64, node: u16, to: u16, flow: u32, bytes: u64 },
    Entered { at_ns: u64, id: u64, copy: u8, link: u32 },
    Left { at_ns: u64, id: u64, copy: u8, link: u32 },
    Received { at_ns: u64, id: u64, copy: u8, node: u16 },
    PacketDropped { at_ns: u64, id: u64, copy: u8, link: u32, cause: &'static str },
    Duplicated { at_ns: u64, id: u64, copy: u8, link: u32 },
    Corrupted { at_ns: u64, id: u64, copy: u8, link: u32 },
    Marked { at_ns: u64, id: u64, copy: u8, link: u32 },
    Made { at_ns: u64, node: u16, medium: &'static str, sequence: u64 },
    Withheld { at_ns: u64, node: u16, medium: &'static str, sequence: u64 },
    Delivered { at_ns: u64, node: u16, medium: &'static str, sequence: u64, created_ns: u64 },
    SampleDropped { at_ns: u64, node: u16, medium: &'static str, sequence: u64, cause: &'static str },
    Refused { at_ns: u64, node: u16, cause: &'static str },
    Gauge { at_ns: u64, node: u16, name: &'a str, value: f64 },
    Chosen(Box<Chosen>),
}

/// Which paths a message took, and what was known of them: [`Choice`].
#[derive(Serialize)]
struct Chosen {
    at_ns: u64,
    node: u16,
    message: u64,
    number: u64,
    paths: Vec<u8>,
    reason: &'static str,
    budget_ns: u64,
    probability: Option<f64>,
    target: Option<f64>,
    margin_ns: u64,
    estimates: Vec<Estimate>,
}

/// [`PathEstimate`].
#[derive(Serialize)]
struct Estimate {
    path: u8,
    up: bool,
    loss: f64,
    in_time: f64,
    one_way_p50_ns: Option<u64>,
    one_way_p99_ns: Option<u64>,
    round_trip_p99_ns: Option<u64>,
}

impl Chosen {
    fn new(at_ns: u64, node: u16, choice: &Choice) -> Self {
        let ns = |duration: Option<Duration>| duration.map(Duration::as_nanos);
        let estimate = |path: &PathEstimate| Estimate {
            path: path.path.0,
            up: path.up,
            loss: path.loss,
            in_time: path.in_time,
            one_way_p50_ns: ns(path.one_way_p50),
            one_way_p99_ns: ns(path.one_way_p99),
            round_trip_p99_ns: ns(path.round_trip_p99),
        };
        Self {
            at_ns,
            node,
            message: choice.tag,
            number: choice.number,
            paths: choice.paths.iter().map(|path| path.0).collect(),
            reason: choice.reason.name(),
            budget_ns: choice.budget.as_nanos(),
            probability: choice.probability,
            target: choice.target,
            margin_ns: choice.margin.as_nanos(),
            estimates: choice.estimates.iter().map(estimate).collect(),
        }
    }
}

impl<W: Write> EventLog<W> {
    /// Begins a log.
    pub fn new(out: W, nodes: &[String], links: &[String]) -> Self {
        let mut log = Self { out, error: None };
        log.line(&Line::Nodes { names: nodes });
        log.line(&Line::Links { names: links });
        log
    }

    /// Ends the log.
    ///
    /// # Errors
    /// The first error that writing met.
    pub fn finish(mut self) -> io::Result<W> {
        match self.error.take() {
            Some(error) => Err(error),
            None => self.out.flush().map(|()| self.out),
        }
    }

    fn line(&mut self, line: &Line<'_>) {
        if self.error.is_none() {
            let written = serde_json::to_writer(&mut self.out, line).map_err(io::Error::from);
            self.error = written.and_then(|()| self.out.write_all(b"\n")).err();
        }
    }
}

impl<W: Write> Observer for EventLog<W> {
    fn sent(&mut self, now: Time, packet: &Packet) {
        let PacketMeta { id, source, destination, flow, size, .. } = packet.meta;
        let (node, to, flow, bytes) = (source.0, destination.0, flow.0, size.get());
        self.line(&Line::Sent { at_ns: now.as_nanos(), id, node, to, flow, bytes });
    }
    fn entered(&mut self, now: Time, link: LinkId, packet: &Packet) {
        let PacketMeta { id, copy, .. } = packet.meta;
        self.line(&Line::Entered { at_ns: now.as_nanos(), id, copy, link: link.0 });
    }
    fn left(&mut self, now: Time, link: LinkId, packet: &Packet) {
        let PacketMeta { id, copy, .. } = packet.meta;
        self.line(&Line::Left { at_ns: now.as_nanos(), id, copy, link: link.0 });
    }
    fn link_event(&mut self, now: Time, link: LinkId, event: &LinkEvent) {
        let (at_ns, link) = (now.as_nanos(), link.0);
        self.line(&match *event {
            LinkEvent::Dropped { meta: PacketMeta { id, copy, .. }, cause } => {
                Line::PacketDropped { at_ns, id, copy, link, cause: cause.name() }
            }
            LinkEvent::Duplicated { meta: PacketMeta { id, copy, .. } } => {
                Line::Duplicated { at_ns, id, copy, link }
            }
            LinkEvent::Corrupted { meta: PacketMeta { id, copy, .. } } => {
                Line::Corrupted { at_ns, id, copy, link }
            }
            LinkEvent::Marked { meta: PacketMeta { id, copy, .. } } => Line::Marked { at_ns, id, copy, link },
        });
    }
    fn delivered(&mut self, now: Time, node: Address, packet: &Packet) {
        let PacketMeta { id, copy, .. } = packet.meta;
        self.line(&Line::Received { at_ns: now.as_nanos(), id, copy, node: node.0 });
    }
    fn node_event(&mut self, now: Time, node: Address, event: &NodeEvent) {
        let (at_ns, node) = (now.as_nanos(), node.0);
        let line = match *event {
            NodeEvent::Made(Sample { medium, sequence, .. }) => {
                Line::Made { at_ns, node, medium: medium.name(), sequence }
            }
            NodeEvent::Withheld(Sample { medium, sequence, .. }) => {
                Line::Withheld { at_ns, node, medium: medium.name(), sequence }
            }
            NodeEvent::Delivered(Sample { medium, sequence, created, .. }) => {
                let created_ns = created.as_nanos();
                Line::Delivered { at_ns, node, medium: medium.name(), sequence, created_ns }
            }
            NodeEvent::Dropped(Sample { medium, sequence, .. }, cause) => {
                Line::SampleDropped { at_ns, node, medium: medium.name(), sequence, cause: cause.name() }
            }
            NodeEvent::Refused(_, cause) => Line::Refused { at_ns, node, cause: cause.name() },
            NodeEvent::Gauge { name, value } => Line::Gauge { at_ns, node, name, value },
            NodeEvent::Chosen(ref choice) => Line::Chosen(Box::new(Chosen::new(at_ns, node, choice))),
        };
        self.line(&line);
    }
}
