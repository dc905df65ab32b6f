//! How a session goes.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use taut_core::{Bytes, Duration};
use taut_wire::session::{RobotState, StopCause};

use crate::channel::ChannelSummary;
use crate::counters::{Counters, STREAMS, StreamSummary};
use crate::latency::{Latencies, LatencySummary};
use crate::port::Traffic;
use taut_core::ClockEstimate;

/// All measures of one end since the session began, in a robot's summary over all sessions. [`Display`](fmt::Display) gives the status
/// line.
///
/// ```
/// use taut_session::{LatencySummary, Status};
/// let rtt = LatencySummary { count: 9950, min_ms: 2.1, mean_ms: 3.4, max_ms: 7.8, ..LatencySummary::default() };
/// let status = Status {
///     messages: 10_000,
///     rate_hz: 980.0,
///     success: 0.995,
///     throughput_bps: 4_720_000.0,
///     rtt,
///     jitter_ms: 0.5,
///     ..Status::default()
/// };
/// assert_eq!(
///     status.to_string(),
///     "[Status] Msgs: 10000 @ 980/s | Success: 99.5% | Rate: 4.72 Mbps | RTT: 2.1/3.4/7.8 ms | Jitter: 0.5 ms"
/// );
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Status {
    /// `"operator"` or `"robot"`.
    pub role: &'static str,
    /// How the robot is, as far as this end knows: `"DISABLED"`, `"ENABLED"`, `"PAUSED"`, `"FAULT"`.
    pub state: &'static str,
    /// Why it stopped last.
    pub cause: &'static str,
    /// Since the session began, s; of a robot since its first one.
    pub elapsed_s: f64,
    /// States sent (operator) or received (robot).
    pub messages: u64,
    /// Of these, per second in the mean.
    pub rate_hz: f64,
    /// What the rate is held to at present, per second; what the robot may feed back there.
    pub allowed_hz: f64,
    /// The share that was delivered, of those whose fate is known, in [0, 1]; 0 while none is.
    pub success: f64,
    /// On the wire, headers included, bit/s in the mean: sent (operator) or received (robot).
    pub throughput_bps: f64,
    /// Bytes of frames over bytes on the wire, in [0, 1].
    pub efficiency: f64,
    /// Round trips: of acknowledged states (operator), of comparisons of clocks (robot).
    pub rtt: LatencySummary,
    /// From operator to robot, by the estimate of the clocks, which may be off by its uncertainty.
    pub one_way: LatencySummary,
    /// Mean absolute difference of consecutive latencies, ms: of round trips (operator), of one-way latencies (robot).
    pub jitter_ms: f64,
    /// States known to have arrived (operator); applied (robot).
    pub delivered: u64,
    /// States never acknowledged (operator); never arrived (robot), those among them that the operator made and left out for newer ones.
    pub lost: u64,
    /// Acknowledged after they had been given up.
    pub late: u64,
    /// Copies of what had arrived before.
    pub duplicate: u64,
    /// Arrived after a newer one.
    pub reordered: u64,
    /// Dropped or refused at this end, by cause.
    pub dropped: BTreeMap<&'static str, u64>,
    /// What a robot measured and did not send back, by cause.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub feedback_dropped: BTreeMap<&'static str, u64>,
    /// By stream: emergency, high, and twice normal.
    pub streams: [StreamSummary; STREAMS],
    /// Echoes of nothing that was sent; none became a round trip.
    pub unmatched_echoes: u64,
    /// The peer's clock, once it was compared.
    pub clock: Option<ClockSummary>,
    /// How often one of the clocks was found to have been set.
    pub clock_steps: u64,
    /// The operator is stopped by its own emergency stop.
    pub emergency: bool,
    /// Channels that this end declared.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<ChannelSummary>,
}

/// The peer's clock against this end's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ClockSummary {
    /// How far it is ahead, ns.
    pub offset_ns: i64,
    /// How much faster it runs, parts per thousand million.
    pub drift_ppb: i64,
    /// The offset is within ± this, ns.
    pub uncertainty_ns: u64,
}

impl From<ClockEstimate> for ClockSummary {
    fn from(estimate: ClockEstimate) -> Self {
        Self {
            offset_ns: estimate.offset_ns,
            drift_ppb: estimate.drift_ppb,
            uncertainty_ns: estimate.uncertainty.as_nanos(),
        }
    }
}

impl fmt::Display for Status {
    /// `[Status] Msgs: 10000 @ 980/s | Success: 99.5% | Rate: 4.72 Mbps | RTT: 2.1/3.4/7.8 ms | Jitter: 0.5 ms`, the
    /// round trips least, mean and largest.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { messages, rate_hz, jitter_ms, .. } = self;
        let (success, mbps) = (self.success * 100.0, self.throughput_bps / 1e6);
        let LatencySummary { min_ms, mean_ms, max_ms, .. } = self.rtt;
        write!(
            f,
            "[Status] Msgs: {messages} @ {rate_hz:.0}/s | Success: {success:.1}% | Rate: {mbps:.2} Mbps | "
        )?;
        write!(f, "RTT: {min_ms:.1}/{mean_ms:.1}/{max_ms:.1} ms | Jitter: {jitter_ms:.1} ms")
    }
}

/// What both ends know.
pub(crate) struct Account<'a> {
    pub(crate) elapsed: Duration,
    pub(crate) state: RobotState,
    pub(crate) cause: StopCause,
    pub(crate) counters: &'a Counters,
    pub(crate) traffic: &'a Traffic,
    pub(crate) headers: Bytes,
    pub(crate) rtt: &'a Latencies,
    pub(crate) one_way: &'a Latencies,
    pub(crate) clock: Option<ClockEstimate>,
}

impl Account<'_> {
    fn common(&self) -> Status {
        let counters = self.counters;
        Status {
            state: self.state.name(),
            cause: self.cause.name(),
            elapsed_s: self.elapsed.as_secs_f64(),
            rtt: self.rtt.summary(),
            one_way: self.one_way.summary(),
            delivered: counters.sum(|stream| stream.delivered),
            lost: counters.sum(|stream| stream.lost),
            late: counters.sum(|stream| stream.late),
            duplicate: counters.sum(|stream| stream.duplicate),
            reordered: counters.sum(|stream| stream.reordered),
            dropped: counters.by_name(),
            streams: counters.summaries(),
            clock: self.clock.map(ClockSummary::from),
            ..Status::default()
        }
    }

    fn per_second(&self, count: u64) -> f64 {
        if self.elapsed.is_zero() { 0.0 } else { count as f64 / self.elapsed.as_secs_f64() }
    }

    pub(crate) fn operator(&self) -> Status {
        let mut status = self.common();
        let messages = self.counters.sum(|stream| stream.sent);
        let wire = self.traffic.bytes + self.traffic.datagrams * self.headers.get();
        status.role = "operator";
        status.messages = messages;
        status.rate_hz = self.per_second(messages);
        status.success = share(status.delivered, status.lost);
        status.throughput_bps = self.per_second(wire * 8);
        status.efficiency = ratio(self.traffic.payload, wire);
        status.jitter_ms = status.rtt.jitter_ms;
        status
    }

    /// `missing`: states that never arrived.
    pub(crate) fn robot(&self, missing: u64) -> Status {
        let mut status = self.common();
        let messages = self.counters.sum(|stream| stream.received);
        let wire = self.traffic.bytes_in + self.traffic.datagrams_in * self.headers.get();
        status.role = "robot";
        status.messages = messages;
        status.rate_hz = self.per_second(messages);
        status.lost = missing;
        status.success = share(messages - status.duplicate, missing);
        status.throughput_bps = self.per_second(wire * 8);
        status.efficiency = ratio(self.traffic.payload_in, wire);
        status.jitter_ms = status.one_way.jitter_ms;
        status
    }
}

fn share(good: u64, bad: u64) -> f64 {
    ratio(good, good + bad)
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
