//! The other half of the multiplexer: samples, and whole frames again.

mod assembler;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use taut_core::{Bytes, DropCause, Duration, Medium, NodeEvent, ReplayWindow, Sample, Sighting, Time};
use taut_wire::media::{FragmentRepr, MediaView, Report, SampleRepr};

use self::assembler::{Assembler, Outcome};
use crate::jitter_buffer::InterarrivalJitter;

pub use self::assembler::FrameStats;

/// Takes datagrams in any order, gives every sample once and every frame when its last byte has come.
///
/// Memory is bounded: the last 4096 packets and samples are remembered, and the last [`DemuxConfig::frame_window`] frames of
/// each medium are put together. What comes later than that is refused, since nobody can tell whether it is a duplicate.
#[derive(Clone, Debug)]
pub struct Demultiplexer {
    packets: Seen,
    samples: Seen,
    payloads: Vec<(u64, Vec<u8>)>,
    assemblers: [Assembler; 3],
    events: VecDeque<NodeEvent>,
    jitter: InterarrivalJitter,
    newest: Option<Report>,
    received_report: Option<Report>,
    stats: DemuxStats,
}

/// How much a demultiplexer remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DemuxConfig {
    frame_window: usize,
    frame_max: Bytes,
}

/// What has arrived so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DemuxStats {
    /// Datagrams, each once.
    pub packets: u64,
    /// Datagrams that had arrived before.
    pub packets_duplicate: u64,
    /// Datagrams that arrived after one with a higher number.
    pub packets_reordered: u64,
    /// Datagrams that came so late that nobody can tell whether they had arrived before.
    pub packets_too_late: u64,
    /// Datagrams or fragments that made no sense.
    pub malformed: u64,
    /// Haptic samples delivered.
    pub samples: u64,
    /// Haptic samples delivered after a later one.
    pub samples_reordered: u64,
}

/// Numbers are remembered for four seconds at 1 kHz.
type Seen = ReplayWindow<65>;

/// The number with these low 32 bits, and what it is to those seen.
fn record(seen: &mut Seen, low: u32) -> (u64, Sighting) {
    seen.complete(low).map_or((0, Sighting::TooOld), |number| (number, seen.record(number)))
}

impl Default for DemuxConfig {
    fn default() -> Self {
        Self::new()
    }
}

impl DemuxConfig {
    /// 64 frames per medium of at most 1 MB.
    pub const fn new() -> Self {
        Self { frame_window: 64, frame_max: Bytes::new(1_000_000) }
    }

    /// How many frames of each medium are put together at a time; an incomplete one is given up when one begins that is so
    /// many later. Default 64, at least 1.
    pub const fn frame_window(mut self, frames: usize) -> Self {
        self.frame_window = if frames == 0 { 1 } else { frames };
        self
    }

    /// The longest frame. Default 1 MB. Memory is taken only for frame bytes that were stored.
    pub const fn frame_max(mut self, size: Bytes) -> Self {
        self.frame_max = size;
        self
    }
}

impl Demultiplexer {
    /// How many of the last payloads are kept for [`Demultiplexer::payload`].
    const PAYLOADS: u64 = 16;

    /// Nothing has arrived.
    pub fn new(config: DemuxConfig) -> Self {
        let assembler = Assembler::new(config.frame_window, config.frame_max);
        Self {
            packets: Seen::new(),
            samples: Seen::new(),
            payloads: vec![(u64::MAX, Vec::new()); Self::PAYLOADS as usize],
            assemblers: [assembler.clone(), assembler.clone(), assembler],
            events: VecDeque::new(),
            jitter: InterarrivalJitter::default(),
            newest: None,
            received_report: None,
            stats: DemuxStats::default(),
        }
    }

    /// A datagram arrived: what was stored of it, and how many zeros follow.
    pub fn handle_input(&mut self, now: Time, data: &[u8], padding: u32) {
        let Ok(view) = MediaView::new_checked(data, padding) else {
            self.stats.malformed += 1;
            return self.refuse(None, DropCause::Malformed);
        };
        let header = view.header();
        match record(&mut self.packets, header.packet_number).1 {
            Sighting::Newest => {
                let transit_ns = now.as_nanos().wrapping_sub(header.sent.as_nanos()) as i64;
                self.newest = Some(Report { packet_number: header.packet_number, transit_ns });
                self.received_report = header.report.or(self.received_report);
                self.jitter.update(now, header.sent);
            }
            Sighting::Reordered => self.stats.packets_reordered += 1,
            Sighting::Duplicate => {
                self.stats.packets_duplicate += 1;
                return self.refuse_all(&view, DropCause::Duplicate);
            }
            Sighting::TooOld => {
                self.stats.packets_too_late += 1;
                return self.refuse_all(&view, DropCause::TooLate);
            }
        }
        self.stats.packets += 1;
        view.samples().for_each(|sample| self.take_sample(&sample));
        view.fragments().for_each(|(fragment, stored)| self.take_fragment(&fragment, stored));
    }

    /// What was delivered or refused.
    pub fn poll_event(&mut self) -> Option<NodeEvent> {
        self.events.pop_front()
    }

    /// The payload of one of the last 16 haptic samples delivered.
    pub fn payload(&self, sequence: u64) -> Option<&[u8]> {
        let (number, payload) = &self.payloads[(sequence % Self::PAYLOADS) as usize];
        (*number == sequence).then_some(payload)
    }

    /// The stored bytes of a complete frame, while it is among the last [`DemuxConfig::frame_window`]; zeros follow them up
    /// to its size.
    pub fn frame(&self, medium: Medium, sequence: u64) -> Option<&[u8]> {
        self.assemblers.get((medium as usize).checked_sub(1)?)?.data(sequence)
    }

    /// What to send back to the peer ([`crate::Multiplexer::send_report`]): how long its newest datagram took.
    pub const fn report(&self) -> Option<Report> {
        self.newest
    }

    /// What the peer last said of our datagrams, once.
    pub const fn take_report(&mut self) -> Option<Report> {
        self.received_report.take()
    }

    /// Interarrival jitter of the datagrams that came in order (RFC 3550 section 6.4.1).
    pub const fn jitter(&self) -> Duration {
        self.jitter.get()
    }

    /// Counts so far.
    pub const fn stats(&self) -> DemuxStats {
        self.stats
    }

    /// Datagrams between the first and the last that have not arrived, so far.
    pub fn packets_missing(&self) -> u64 {
        self.packets.missing()
    }

    /// Counts of the frames of a medium; none for [`Medium::Haptic`].
    pub fn frame_stats(&self, medium: Medium) -> FrameStats {
        let assembler = (medium as usize).checked_sub(1).and_then(|index| self.assemblers.get(index));
        assembler.map_or_else(FrameStats::default, Assembler::stats)
    }

    fn take_sample(&mut self, sample: &SampleRepr<'_>) {
        let (sequence, sighting) = record(&mut self.samples, sample.sequence);
        match sighting {
            Sighting::Newest => {}
            Sighting::Reordered => self.stats.samples_reordered += 1,
            Sighting::Duplicate => return self.refuse(Some(Medium::Haptic), DropCause::Duplicate),
            Sighting::TooOld => return self.refuse(Some(Medium::Haptic), DropCause::TooLate),
        }
        self.stats.samples += 1;
        let (number, payload) = &mut self.payloads[(sequence % Self::PAYLOADS) as usize];
        *number = sequence;
        payload.clear();
        payload.extend_from_slice(sample.payload);
        let size = Bytes::new(sample.payload.len() as u64);
        let delivered = Sample { medium: Medium::Haptic, sequence, created: sample.created, size };
        self.events.push_back(NodeEvent::Delivered(delivered));
    }

    fn take_fragment(&mut self, fragment: &FragmentRepr, stored: &[u8]) {
        match self.assemblers[fragment.medium as usize - 1].insert(fragment, stored) {
            Outcome::Kept => {}
            Outcome::Complete { sequence, created, size } => {
                let frame = Sample { medium: fragment.medium, sequence, created, size };
                self.events.push_back(NodeEvent::Delivered(frame));
            }
            Outcome::Refused(cause) => {
                self.stats.malformed += u64::from(cause == DropCause::Malformed);
                self.refuse(Some(fragment.medium), cause);
            }
        }
    }

    /// The whole datagram: every sample and fragment in it.
    fn refuse_all(&mut self, view: &MediaView<'_>, cause: DropCause) {
        view.samples().for_each(|_| self.refuse(Some(Medium::Haptic), cause));
        view.fragments().for_each(|(fragment, _)| self.refuse(Some(fragment.medium), cause));
    }

    fn refuse(&mut self, medium: Option<Medium>, cause: DropCause) {
        self.events.push_back(NodeEvent::Refused(medium, cause));
    }
}
