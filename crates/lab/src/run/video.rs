//! What sends video over RTP, and what sends haptic samples, as cross traffic.

use std::sync::Arc;

use taut_core::{Bitrate, Bytes, Deadline, Duration, Node, NodeEvent, Packet, Rng, Time};
use taut_media::{DeadbandConfig, Sampler};
use taut_sim::Peer;
use taut_sim::traffic::Pattern;

use super::encode::Encode;
use super::signals::Signal;
use crate::scenario::{HapticTraffic, RtpTraffic, SamplerSpec};

/// Sends the frames of the VP8 encode over and over, each at its time and back to back, whatever becomes of them.
pub(super) struct RtpSource {
    peer: Peer,
    encode: Encode,
    rate: Bitrate,
    stop: Time,
}

impl RtpSource {
    pub(super) fn new(spec: &RtpTraffic, peer: Peer, start: Time, stop: Time, rng: &mut Rng) -> Self {
        let encode = Encode::new(spec, start, rng);
        Self { peer, rate: spec.rate.unwrap_or(encode.natural_rate()), encode, stop }
    }

    fn next_frame(&self) -> Option<Time> {
        Some(self.encode.next_frame()).filter(|at| *at < self.stop)
    }
}

impl Node for RtpSource {
    fn handle_input(&mut self, _now: Time, _packet: Packet) {}

    fn handle_timeout(&mut self, _now: Time) {}

    fn poll_transmit(&mut self, now: Time) -> Option<Packet> {
        if self.encode.ready() == 0 && self.next_frame().is_some_and(|at| at <= now) {
            self.encode.make_frame(self.rate);
        }
        self.encode.take_packet(&self.peer)
    }

    fn poll_event(&mut self) -> Option<NodeEvent> {
        None
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        self.next_frame().map(|at| Deadline::new(at, "next frame"))
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
    /// Sends the signal from this row on, over and over.
    pub(super) fn new(spec: &HapticTraffic, signal: Arc<Signal>, row: usize) -> Self {
        let (period, packet) = (spec.period, spec.packet);
        Self { sampler: sampler(&spec.sampler), period, packet, signal, row, at: Time::ZERO }
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
fn sampler(spec: &SamplerSpec) -> Sampler {
    deadband(spec).map_or_else(Sampler::every, Sampler::deadband)
}

/// The deadband that lets samples through; `None`: every one goes.
pub(super) fn deadband(spec: &SamplerSpec) -> Option<DeadbandConfig> {
    let config = |k, floor, keep_alive| DeadbandConfig::new().k(k).floor(floor).keep_alive(keep_alive);
    match spec {
        SamplerSpec::Every => None,
        SamplerSpec::Deadband(d) => Some(config(d.k, d.floor, d.keep_alive)),
        SamplerSpec::VelocityDeadband(d) => Some(config(d.k, d.floor, d.keep_alive).speed_gain(d.slope)),
    }
}
