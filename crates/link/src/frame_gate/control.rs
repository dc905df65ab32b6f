//! The control loop: from what the queue reports to what the gate may let pass.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::de::value::{Error, MapDeserializer};
use serde::{Deserialize, Serialize};
use taut_core::{Bitrate, Duration, Time};
use taut_wire::rtp::Codec;

use super::patience::Patience;
use super::{Filter, Knobs, Policy, Settings};

/// What a queue reports, counted from any beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueReading {
    /// Packets that it dropped, ever.
    pub drops: u64,
    /// Bytes that left it, ever.
    pub sent: u64,
    /// Bytes that wait now.
    pub backlog: u64,
}

/// The frame gate: video is what goes to `port` over UDP as RTP. It reads what the queue of the next server in its chain
/// does with video.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GateConfig {
    /// How strictly it is steered.
    pub policy: Policy,
    /// The UDP port to which video goes.
    #[serde(default = "video_port")]
    pub port: u16,
    /// Only this RTP payload type, 0 to 127 but for 64 to 95, which are RTCP's.
    pub payload_type: Option<u8>,
    /// How key frames are told.
    #[serde(default)]
    pub codec: Codec,
    /// How far back the largest bandwidth is looked for.
    // At least the update interval, which it is taken for otherwise; at most 10 000 of them.
    #[serde(default = "ms::<10_000>")]
    pub bandwidth_over: Duration,
    /// The source's policies: find it once, in the first `bandwidth_over` in which the queue drops, and keep it.
    // As its Algorithm 2 does: more drops than the threshold, and until it is over nothing is limited.
    #[serde(default)]
    pub bandwidth_once: bool,
    /// The source's policies: as many packets may be dropped between two readings as if there were none.
    #[serde(default)]
    pub loss_threshold: u64,
    /// How often the queue is read and the limit changed.
    #[serde(default = "ms::<100>")]
    pub update_interval: Duration,
    /// The source's policies: how often the count of bytes begins anew.
    #[serde(default = "ms::<100>")]
    pub reset_interval: Duration,
    /// Policy `deadline`: how long a frame may wait before its first packet is sent, at most.
    #[serde(default = "ms::<200>")]
    pub wait: Duration,
    /// Policy `deadline`: when all of a frame must have been sent.
    #[serde(default = "ms::<150>")]
    pub deadline: Duration,
    /// Policy `deadline`: when all of a key frame must have been sent.
    // The limit of video in teleoperation.
    #[serde(default = "ms::<400>")]
    pub key_deadline: Duration,
}

const fn video_port() -> u16 {
    5004
}

const fn ms<const N: u64>() -> Duration {
    Duration::from_millis(N)
}

impl GateConfig {
    /// Defaults with this policy.
    pub fn new(policy: Policy) -> Self {
        let given = MapDeserializer::<_, Error>::new([("policy", policy.name())].into_iter());
        Self::deserialize(given).expect("all else has a default")
    }

    /// What is video.
    pub fn filter(&self) -> Filter {
        let filter = Filter::port(self.port).codec(self.codec);
        self.payload_type.map_or(filter, |only| filter.payload_type(only))
    }
}

/// Reads the queue, steers the gate. Sans-IO: whoever drives it calls [`Controller::handle_timeout`] at
/// [`Controller::poll_timeout`].
#[derive(Clone, Debug)]
pub struct Controller {
    config: GateConfig,
    next_update: Time,
    next_reset: Time,
    last: Option<(Time, QueueReading)>,
    /// Bandwidth of each interval within `bandwidth_over`, bytes per second.
    measured: VecDeque<u64>,
    /// Drops rose in this `bandwidth_over`; only where the bandwidth is found once.
    dropped: bool,
    /// Drops rose once: what is measured is the channel's.
    limiting: bool,
    /// Millionths.
    k: u64,
    /// For [`Policy::Deadline`].
    patience: Patience,
    settings: Settings,
}

impl Controller {
    /// Intervals that are remembered at most.
    const MEASURED_MAX: u64 = 10_000;

    /// One that reads the queue for the first time at `start`, and every millisecond at most.
    pub fn new(config: GateConfig, start: Time) -> Self {
        let least = |interval: Duration| interval.max(Duration::from_millis(1));
        let (update_interval, reset_interval) = (least(config.update_interval), least(config.reset_interval));
        let config = GateConfig { update_interval, reset_interval, ..config };
        Self {
            config,
            next_update: start,
            next_reset: start,
            last: None,
            measured: VecDeque::new(),
            dropped: false,
            limiting: false,
            k: Policy::ONE,
            patience: Patience::new(&config),
            settings: Settings {
                by_deadline: matches!(config.policy, Policy::Deadline),
                ..Settings::default()
            },
        }
    }

    /// When there is something to do.
    pub fn poll_timeout(&self) -> Time {
        self.next_update.min(self.next_reset)
    }

    /// Does what is due at `now`: `read` asks the queue, `gate` obeys.
    pub fn handle_timeout(&mut self, now: Time, read: impl FnOnce() -> QueueReading, gate: &mut impl Knobs) {
        if self.next_reset <= now {
            gate.reset_count();
            self.next_reset = following(self.next_reset, self.config.reset_interval, now);
        }
        if self.next_update <= now {
            self.update(now, read(), gate);
            self.next_update = following(self.next_update, self.config.update_interval, now);
        }
    }

    /// k, in millionths.
    pub const fn k_ppm(&self) -> u64 {
        self.k
    }

    /// Has the queue dropped anything yet, so that the gate limits?
    pub const fn limiting(&self) -> bool {
        self.limiting
    }

    /// What the gate was told last.
    pub const fn settings(&self) -> Settings {
        self.settings
    }

    /// What the channel carries, as far as that is known.
    pub fn bandwidth(&self) -> Bitrate {
        let deadline = matches!(self.config.policy, Policy::Deadline);
        let rate =
            if deadline { self.patience.rate() } else { self.measured.iter().copied().max().unwrap_or(0) };
        Bitrate::from_bps(rate.saturating_mul(8))
    }

    fn update(&mut self, now: Time, reading: QueueReading, gate: &mut impl Knobs) {
        let Some((then, before)) = self.last.replace((now, reading)) else {
            gate.set(self.settings);
            return;
        };
        let elapsed = now.saturating_since(then).as_nanos().max(1);
        // Counters of a queue that was replaced begin anew.
        let drops = reading.drops.saturating_sub(before.drops);
        let sent = reading.sent.saturating_sub(before.sent);
        let bandwidth = (u128::from(sent) * 1_000_000_000 / u128::from(elapsed)) as u64;
        if matches!(self.config.policy, Policy::Deadline) {
            self.limiting |= drops > 0;
            self.patience.update(now, reading, drops, &self.config, gate);
            self.limiting |= self.patience.is_exhausted(now);
            self.settings.rate = self.patience.rate();
            self.settings.rooms = self.patience.orders(now, self.limiting, &self.config);
        } else {
            let drops = if drops > self.config.loss_threshold { drops } else { 0 };
            let found = self.limiting;
            self.measure(bandwidth, drops > 0);
            // An interval in which the bandwidth was still looked for says nothing about the limit.
            if found || (self.limiting && !self.config.bandwidth_once) {
                self.k = self.config.policy.next(self.k, drops);
            }
            if self.limiting {
                self.settings.rate_limit = self.limit();
            }
        }
        gate.set(self.settings);
    }

    /// Remembers the bandwidth of one interval for `bandwidth_over`; or of the first such time that said what it is, for good.
    fn measure(&mut self, bandwidth: u64, dropped: bool) {
        let intervals = self.config.bandwidth_over / self.config.update_interval;
        let most = intervals.clamp(1, Self::MEASURED_MAX);
        if !self.config.bandwidth_once {
            self.limiting |= dropped;
            while self.measured.len() as u64 >= most {
                self.measured.pop_front();
            }
            self.measured.push_back(bandwidth);
        } else if !self.limiting {
            if self.measured.len() as u64 == most {
                self.measured.clear();
                self.dropped = false;
            }
            self.measured.push_back(bandwidth);
            self.dropped |= dropped;
            self.limiting = self.dropped && self.measured.len() as u64 == most;
        }
    }

    /// R_limit = k · B_max, in bytes per reset interval.
    fn limit(&self) -> u64 {
        let largest = u128::from(self.measured.iter().copied().max().unwrap_or(0));
        let interval = u128::from(self.config.reset_interval.as_nanos());
        let scale = u128::from(Policy::ONE) * 1_000_000_000;
        u64::try_from(largest * u128::from(self.k) * interval / scale).unwrap_or(u64::MAX)
    }
}

/// The first point of the grid after `now`.
fn following(due: Time, interval: Duration, now: Time) -> Time {
    let missed = now.saturating_since(due) / interval;
    due + interval.saturating_mul(missed + 1)
}
