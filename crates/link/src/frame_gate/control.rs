//! The control loop: from what the queue reports to what the gate may let pass.

use std::collections::VecDeque;

use taut_core::{Bitrate, Duration, Time};

use super::patience::Patience;
use super::{Knobs, Policy, Settings};

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

/// How the gate is steered.
///
/// ```
/// use taut_core::Duration;
/// use taut_link::frame_gate::{ControlConfig, Policy};
/// let config = ControlConfig::new(Policy::Aimd(3)).update_interval(Duration::from_millis(50));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlConfig {
    policy: Policy,
    pub(super) duration: Duration,
    bandwidth_once: bool,
    loss_threshold: u64,
    update_interval: Duration,
    reset_interval: Duration,
    pub(super) wait: Duration,
    pub(super) delta_deadline: Duration,
    pub(super) key_deadline: Duration,
}

impl ControlConfig {
    /// Defaults with this policy.
    pub const fn new(policy: Policy) -> Self {
        Self {
            policy,
            duration: Duration::from_secs(10),
            bandwidth_once: false,
            loss_threshold: 0,
            update_interval: Duration::from_millis(100),
            reset_interval: Duration::from_millis(100),
            wait: Duration::from_millis(200),
            delta_deadline: Duration::from_millis(150),
            key_deadline: Duration::from_millis(400),
        }
    }

    /// How far back the largest bandwidth is looked for. Default 10 s; at least the update interval, which it is taken for
    /// otherwise; at most 10 000 of them.
    pub const fn duration(mut self, duration: Duration) -> Self {
        self.duration = duration;
        self
    }

    /// The source's policies: find the largest bandwidth once, as its Algorithm 2 does, instead of over and over. The first `duration`
    /// in which more was dropped than the threshold says what it is, for good; until it is over nothing is limited. Default no.
    pub const fn bandwidth_once(mut self, once: bool) -> Self {
        self.bandwidth_once = once;
        self
    }

    /// The source's policies: as many packets may be dropped in an update interval as if there were none. Default 0.
    pub const fn loss_threshold(mut self, packets: u64) -> Self {
        self.loss_threshold = packets;
        self
    }

    /// How often the queue is read and the limit changed. Default 100 ms; 1 ms is the least.
    pub const fn update_interval(mut self, interval: Duration) -> Self {
        self.update_interval = at_least_1_ms(interval);
        self
    }

    /// How often the count of bytes begins at 0 again. Default 100 ms; 1 ms is the least.
    pub const fn reset_interval(mut self, interval: Duration) -> Self {
        self.reset_interval = at_least_1_ms(interval);
        self
    }

    /// Policy `deadline`: how long a frame may wait before its first packet is sent, at most; how long within this, the gate
    /// finds out. Default 200 ms.
    pub const fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Policy `deadline`: when the last packet of a frame that is no key frame must have been sent. Default 150 ms.
    pub const fn delta_deadline(mut self, deadline: Duration) -> Self {
        self.delta_deadline = deadline;
        self
    }

    /// Policy `deadline`: when the last packet of a key frame must have been sent. Default 400 ms, the limit of video in
    /// teleoperation.
    pub const fn key_deadline(mut self, deadline: Duration) -> Self {
        self.key_deadline = deadline;
        self
    }

    /// The policy.
    pub const fn policy(&self) -> Policy {
        self.policy
    }
}

const fn at_least_1_ms(interval: Duration) -> Duration {
    if interval.as_nanos() < 1_000_000 { Duration::from_millis(1) } else { interval }
}

/// Reads the queue, steers the gate. Sans-IO: whoever drives it calls [`Controller::handle_timeout`] at
/// [`Controller::poll_timeout`].
#[derive(Clone, Debug)]
pub struct Controller {
    config: ControlConfig,
    next_update: Time,
    next_reset: Time,
    last: Option<(Time, QueueReading)>,
    /// Bandwidth of each interval within `duration`, bytes per second.
    measured: VecDeque<u64>,
    /// Drops rose in this `duration`; only where the bandwidth is found once.
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

    /// One that reads the queue for the first time at `start`.
    pub fn new(config: ControlConfig, start: Time) -> Self {
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

    /// Remembers the bandwidth of one interval for `duration`; or of the `duration` that said what it is, for good.
    fn measure(&mut self, bandwidth: u64, dropped: bool) {
        let intervals = self.config.duration / self.config.update_interval;
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
