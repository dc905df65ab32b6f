//! How fast a video sender may send: Google Congestion Control (draft-ietf-rmcat-gcc-02), on reports by RFC 8888.
//!
//! Two controllers, of which the slower one decides (section 3):
//!
//! - by **delay** (section 5): packets sent within 5 ms are a group; from group to group, `d(i)` is how much later it arrived than it was
//!   sent. A filter makes a trend of it, a detector with a threshold that adapts takes a trend that stays above it for over-use, and
//!   a rate controller goes down to 0.85 of what arrives, or up by 8 % a second, near the rate of the last over-use by half a packet
//!   in a response time.
//! - by **loss** (section 6): once a second up by 5 % below 2 % of loss, down by half of the loss above 10 %.
//!
//! The filter is not the draft's Kalman filter but the one that WebRTC replaced it with, the slope of a line through the last 20 delays
//! (`trendline_estimator.cc`): the draft's estimate is in milliseconds for each group and misses an over-use of a fifth with groups
//! as short as those of 60 frames/s.
//!
//! ```
//! use taut_core::{Bitrate, Bytes, Duration, Time};
//! use taut_media::gcc::{Gcc, GccConfig, Reporter};
//! let mut sender = Gcc::new(GccConfig::new());
//! let mut receiver = Reporter::new(7, 8);
//! let at = |ms| Time::ZERO + Duration::from_millis(ms);
//! for sequence in 0..10 {
//!     let ms = u64::from(sequence) * 20;
//!     sender.handle_sent(at(ms), sequence, Bytes::new(1_200));
//!     receiver.handle_input(at(ms + 30), sequence, 0);
//! }
//! let report = receiver.poll_report(at(230)).expect("packets arrived");
//! sender.handle_feedback(at(260), &report);
//! // 60 ms, and what the report's clock of 1/1024 s rounds.
//! assert!(sender.round_trip().abs_diff(Duration::from_millis(60)) < Duration::from_millis(1));
//! assert!(sender.target() >= Bitrate::from_bps(300_000));
//! ```

mod arrival;
mod delay;
mod loss;
mod rate;
mod reporter;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use taut_core::{Bitrate, Bytes, Duration, Time};
use taut_wire::rtp::ccfb::{Arrival, Report};

pub use rate::Rate;
pub use reporter::Reporter;

/// Between which rates a sender adapts.
///
/// ```
/// use taut_core::Bitrate;
/// use taut_media::gcc::GccConfig;
/// let config = GccConfig::new().most(Bitrate::from_bps(2_500_000));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GccConfig {
    start: Bitrate,
    least: Bitrate,
    most: Bitrate,
}

impl GccConfig {
    /// WebRTC's: from 300 kbit/s on, at least 30 kbit/s; any rate at most.
    pub const fn new() -> Self {
        let bps = Bitrate::from_bps;
        Self { start: bps(300_000), least: bps(30_000), most: bps(1_000_000_000) }
    }

    /// The rate before anything is known. Default 300 kbit/s; within the two others.
    pub const fn start(mut self, rate: Bitrate) -> Self {
        self.start = rate;
        self
    }

    /// The lowest rate. Default 30 kbit/s; more than 0.
    pub const fn least(mut self, rate: Bitrate) -> Self {
        self.least = rate;
        self
    }

    /// The highest rate. Default 1 Gbit/s; no less than the lowest, which it is taken for otherwise.
    pub const fn most(mut self, rate: Bitrate) -> Self {
        self.most = rate;
        self
    }

    fn clamp(&self, bps: f64) -> f64 {
        let least = self.least.as_bps().max(1) as f64;
        bps.clamp(least, least.max(self.most.as_bps() as f64))
    }
}

impl Default for GccConfig {
    fn default() -> Self {
        Self::new()
    }
}

/// The sender's controller. Sans-IO: whoever drives it tells what was sent and what was reported.
#[derive(Clone, Debug)]
pub struct Gcc {
    /// Packets that were not reported on yet, their sequence numbers in a row.
    sent: VecDeque<Sent>,
    clock: RemoteClock,
    rate: Rate,
    round_trip: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    sequence: u16,
    at: Time,
    size: Bytes,
}

impl Gcc {
    /// Packets that are remembered at most until a report comes.
    const SENT_MAX: usize = 8_192;

    /// One that knows nothing of its network yet.
    pub fn new(config: GccConfig) -> Self {
        Self {
            sent: VecDeque::new(),
            clock: RemoteClock::default(),
            rate: Rate::new(config),
            round_trip: Duration::from_millis(200),
        }
    }

    /// What may be sent, RTP headers included.
    pub fn target(&self) -> Bitrate {
        self.rate.target()
    }

    /// By the newest packet that was reported to have arrived; 200 ms before any was.
    pub const fn round_trip(&self) -> Duration {
        self.round_trip
    }

    /// A packet left, with a sequence number one above that of the packet before, and so long as the network sees it. After a
    /// gap what was sent before it is forgotten.
    pub fn handle_sent(&mut self, now: Time, sequence: u16, size: Bytes) {
        if self.sent.back().is_some_and(|last| last.sequence.wrapping_add(1) != sequence) {
            self.sent.clear();
        }
        if self.sent.len() == Self::SENT_MAX {
            self.sent.pop_front();
        }
        self.sent.push_back(Sent { sequence, at: now, size });
    }

    /// A report arrived. What it says of packets that are forgotten, or were reported on before, is ignored.
    pub fn handle_feedback(&mut self, now: Time, report: &Report) {
        let made = self.clock.ms(report.timestamp);
        let (mut arrived, mut lost) = (0, 0);
        for (index, packet) in report.packets.iter().enumerate() {
            let sequence = report.begin.wrapping_add(index as u16);
            let Some(sent) = self.take(sequence) else { continue };
            let Some(Arrival { offset, .. }) = packet else {
                lost += 1;
                continue;
            };
            arrived += 1;
            // Longer ago than can be told: no measurement.
            let Some(offset) = offset.filter(|offset| *offset < Arrival::OFFSET_MAX) else { continue };
            let waited = f64::from(offset) * 1_000.0 / 1_024.0;
            let round_trip = ms(now.saturating_since(sent.at)) - waited;
            self.round_trip = Duration::from_nanos((round_trip.max(0.0) * 1e6) as u64);
            self.rate.handle_arrival(sent.at, made - waited, sent.size);
        }
        self.rate.handle_counts(arrived, lost);
        self.rate.update(now, self.round_trip);
    }

    /// The packet with this number, if it is still to be reported on; those before it were.
    fn take(&mut self, sequence: u16) -> Option<Sent> {
        let first = self.sent.front()?.sequence;
        let ahead = usize::from(sequence.wrapping_sub(first));
        if ahead >= self.sent.len() {
            return None;
        }
        self.sent.drain(..=ahead).next_back()
    }
}

/// Timestamps of reports that do not wrap.
#[derive(Clone, Copy, Debug, Default)]
struct RemoteClock {
    last: Option<u32>,
    ticks: i64,
}

impl RemoteClock {
    /// Milliseconds since the first report.
    fn ms(&mut self, timestamp: u32) -> f64 {
        let before = self.last.replace(timestamp).unwrap_or(timestamp);
        self.ticks += i64::from(timestamp.wrapping_sub(before) as i32);
        self.ticks as f64 * 1_000.0 / 65_536.0
    }
}

fn ms(duration: Duration) -> f64 {
    duration.as_nanos() as f64 / 1e6
}

fn ms_at(time: Time) -> f64 {
    time.as_nanos() as f64 / 1e6
}
