//! What sends video over RTP, and what sends haptic samples, as cross traffic.

use std::collections::VecDeque;
use std::sync::Arc;

use taut_core::{
    Bytes, Deadline, Duration, IPV4_HEADER, Node, NodeEvent, Packet, Rng, Time, Transmit, UDP_HEADER,
};
use taut_media::{DeadbandConfig, Packetizer, Sampler, TableFrame, VideoTable};
use taut_sim::Peer;
use taut_sim::traffic::Pattern;
use taut_wire::rtp::{Codec, vp8::FrameHeader};

use super::signals::Signal;
use crate::scenario::{GateCodec, HapticTraffic, RtpTraffic, SamplerSpec};

/// Sends the frames of the VP8 encode over and over, each at its time and back to back.
pub(super) struct RtpSource {
    peer: Peer,
    packetizer: Packetizer,
    frames: Vec<TableFrame>,
    /// `y_ac_qi` that an encoder of this rate would choose.
    quantizer_index: u8,
    /// Which is next.
    next: usize,
    at: Time,
    interval: Duration,
    stop: Time,
    /// Packets that are not sent yet: what is stored of them, and their length with the zeros behind.
    ready: VecDeque<(Vec<u8>, u32)>,
    frame: Vec<u8>,
}

/// What gates and receivers read of a packet: the RTP header, the payload descriptor (RFC 7741), the frame header's beginning.
const STORED: usize = 64;
/// The size of the encode's picture.
const PICTURE: (u16, u16) = (480, 360);

impl RtpSource {
    /// Begins with any frame of the encode.
    pub(super) fn new(spec: &RtpTraffic, peer: Peer, start: Time, stop: Time, rng: &mut Rng) -> Self {
        let interval = Duration::from_nanos(1_000_000_000 / u64::from(spec.fps));
        let table = VideoTable::vp8_25fps_400k();
        let natural = table.mean_rate(interval).as_bps();
        let scale = spec.rate.map_or(1.0, |rate| rate.as_bps() as f64 / natural as f64);
        let scaled = |frame: &TableFrame| TableFrame {
            size: Bytes::new(((frame.size.get() as f64 * scale).round() as u64).max(1)),
            ..*frame
        };
        let frames: Vec<TableFrame> = table.frames().iter().map(scaled).collect();
        let total: u64 = frames.iter().map(|frame| frame.size.get()).sum();
        let room = spec.packet.get() - IPV4_HEADER - UDP_HEADER;
        Self {
            peer,
            next: rng.below(frames.len() as u64) as usize,
            packetizer: Packetizer::new(codec(spec.codec), rng.next_u64() as u32, rng)
                .max_packet(room as usize),
            quantizer_index: VideoTable::quantizer_index(Bytes::new(total / frames.len() as u64)),
            frames,
            at: start,
            interval,
            stop,
            ready: VecDeque::new(),
            frame: Vec::new(),
        }
    }

    fn packetize(&mut self) {
        let TableFrame { size, key } = self.frames[self.next];
        self.frame.clear();
        FrameHeader { key, quantizer_index: self.quantizer_index }.emit(PICTURE, &mut self.frame);
        self.frame.resize(size.get() as usize, 0);
        let ready = &mut self.ready;
        self.packetizer.packetize(self.at, &self.frame, |packet| {
            ready.push_back((packet[..packet.len().min(STORED)].to_vec(), packet.len() as u32));
        });
        self.next = (self.next + 1) % self.frames.len();
        self.at += self.interval;
    }
}

/// As the library names it.
pub(super) const fn codec(codec: GateCodec) -> Codec {
    match codec {
        GateCodec::Vp8 => Codec::Vp8,
        GateCodec::H264 => Codec::H264,
        GateCodec::Opaque => Codec::Opaque,
    }
}

impl Node for RtpSource {
    fn handle_input(&mut self, _now: Time, _packet: Packet) {}

    fn handle_timeout(&mut self, _now: Time) {}

    fn poll_transmit(&mut self, now: Time) -> Option<Packet> {
        if self.ready.is_empty() && self.at <= now && self.at < self.stop {
            self.packetize();
        }
        let (stored, len) = self.ready.pop_front()?;
        let padding = len - stored.len() as u32;
        Some(self.peer.packet(stored, Transmit { padding, ..Transmit::default() }))
    }

    fn poll_event(&mut self) -> Option<NodeEvent> {
        None
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        (self.at < self.stop).then(|| Deadline::new(self.at, "next frame"))
    }
}

/// One packet for every sample that a sampler lets through.
pub(super) struct Haptics {
    sampler: Sampler,
    period: Duration,
    packet: Bytes,
    signal: Arc<Signal>,
    row: usize,
    at: Time,
}

impl Haptics {
    pub(super) fn new(spec: &HapticTraffic, signal: Arc<Signal>) -> Self {
        let (period, packet) = (spec.period, spec.packet);
        Self { sampler: sampler(&spec.sampler), period, packet, signal, row: 0, at: Time::ZERO }
    }
}

impl Pattern for Haptics {
    fn next_packet(&mut self) -> Option<(Time, Bytes)> {
        // Ends: a keep-alive comes at last.
        loop {
            let at = self.at;
            let values = self.signal.at(self.row);
            // A recording holds finite numbers only; its reader saw to that.
            let sends = values.is_empty()
                || self.sampler.offer(at, values).map_or(true, |decision| decision.is_send());
            self.row = self.signal.after(self.row);
            self.at += self.period;
            if sends {
                return Some((at, self.packet));
            }
        }
    }
}

/// As the library has it.
pub(super) fn sampler(spec: &SamplerSpec) -> Sampler {
    match spec {
        SamplerSpec::Every => Sampler::every(),
        SamplerSpec::Deadband(d) => {
            Sampler::deadband(DeadbandConfig::new().k(d.k).floor(d.floor).keep_alive(d.keep_alive))
        }
        SamplerSpec::VelocityDeadband(d) => Sampler::deadband(
            DeadbandConfig::new().k(d.k).floor(d.floor).speed_gain(d.slope).keep_alive(d.keep_alive),
        ),
    }
}
