//! Files that grow during a run: every packet, every event, every sample.

use std::fs::File;
use std::io::BufWriter;

use taut_core::{Address, Backlog, LinkEvent, NodeEvent, Packet, Time};
use taut_sim::{Capture, EventLog, LinkId, Observer};

use super::inputs::RunError;
use super::output::Output;
use super::samples::Samples;
use super::{EVENTS, Extras, PACKETS, SAMPLES};
use crate::metrics::StreamKey;

/// Those that were asked for.
pub(super) struct Files {
    samples: Option<Samples>,
    packets: Option<Capture<BufWriter<File>>>,
    events: Option<EventLog<BufWriter<File>>>,
}

impl Files {
    /// Begins the files. `None`, most often: none is asked for, and nothing has to be told packet by packet.
    pub(super) fn create(
        extras: Extras,
        output: Option<&mut Output>,
        nodes: &[String],
        links: &[String],
        streams: &[StreamKey],
    ) -> Result<Option<Self>, RunError> {
        let Some(output) = output.filter(|_| extras != Extras::default()) else { return Ok(None) };
        let mut files = Self { samples: None, packets: None, events: None };
        if extras.capture {
            let out = output.create(PACKETS)?;
            files.packets = Some(Capture::new(out, nodes).map_err(RunError::output)?);
        }
        if extras.events {
            files.events = Some(EventLog::new(output.create(EVENTS)?, nodes, links));
        }
        if extras.samples {
            let out = output.create(SAMPLES)?;
            files.samples = Some(Samples::new(out, streams.to_vec()).map_err(RunError::output)?);
        }
        Ok(Some(files))
    }

    /// Ends the files; the first error that writing met.
    pub(super) fn finish(self) -> Result<(), RunError> {
        self.samples.map(Samples::finish).transpose().map_err(RunError::output)?;
        self.packets.map(Capture::finish).transpose().map_err(RunError::output)?;
        self.events.map(EventLog::finish).transpose().map_err(RunError::output)?;
        Ok(())
    }
}

impl Observer for Files {
    fn sent(&mut self, now: Time, packet: &Packet) {
        self.packets.sent(now, packet);
        self.events.sent(now, packet);
    }
    fn entered(&mut self, now: Time, link: LinkId, packet: &Packet) {
        self.events.entered(now, link, packet);
    }
    fn left(&mut self, now: Time, link: LinkId, packet: &Packet) {
        self.events.left(now, link, packet);
    }
    fn queued(&mut self, now: Time, link: LinkId, queued: Backlog) {
        self.events.queued(now, link, queued);
    }
    fn link_event(&mut self, now: Time, link: LinkId, event: &LinkEvent) {
        self.events.link_event(now, link, event);
    }
    fn delivered(&mut self, now: Time, node: Address, packet: &Packet) {
        self.packets.delivered(now, node, packet);
        self.events.delivered(now, node, packet);
    }
    fn node_event(&mut self, now: Time, node: Address, event: &NodeEvent) {
        self.samples.node_event(now, node, event);
        self.events.node_event(now, node, event);
    }
}
