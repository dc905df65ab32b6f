//! Everything that happens, as JSON Lines: one object a line, times in nanoseconds.

use std::io::{self, Write};

use serde::Serialize;
use taut_core::{Address, LinkEvent, NodeEvent, Packet, PacketMeta, Sample, Time};

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
        };
        self.line(&line);
    }
}
