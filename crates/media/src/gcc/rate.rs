//! The sender's rate, whoever tells it what arrived.

use taut_core::{Bitrate, Bytes, Duration, Time};

use super::arrival::{Groups, Usage};
use super::delay::DelayBased;
use super::loss::LossBased;
use super::{GccConfig, ms, ms_at};

/// The two controllers of GCC, of which the slower one decides. What arrived is told packet by packet, and from time to time the rate
/// is [decided](Self::update) on.
#[derive(Clone, Debug)]
pub struct Rate {
    config: GccConfig,
    groups: Groups,
    by_delay: DelayBased,
    by_loss: LossBased,
    usage: Option<Usage>,
    arrived: u64,
    lost: u64,
    target: f64,
}

impl Rate {
    /// One that knows nothing of its network yet.
    pub fn new(config: GccConfig) -> Self {
        let start = config.clamp(config.start.as_bps() as f64);
        Self {
            config,
            groups: Groups::default(),
            by_delay: DelayBased::new(start),
            by_loss: LossBased::default(),
            usage: None,
            arrived: 0,
            lost: 0,
            target: start,
        }
    }

    /// What may be sent.
    pub fn target(&self) -> Bitrate {
        Bitrate::from_bps(self.target as u64)
    }

    /// A packet arrived, `arrived_ms` by a clock of the receiver's; in the order in which they were sent.
    pub fn handle_arrival(&mut self, sent: Time, arrived_ms: f64, size: Bytes) {
        self.by_delay.handle_arrival(arrived_ms, size);
        self.usage = self.groups.handle_arrival(ms_at(sent), arrived_ms).max(self.usage);
    }

    /// So many packets arrived, and so many did not.
    pub fn handle_counts(&mut self, arrived: u64, lost: u64) {
        self.arrived += arrived;
        self.lost += lost;
    }

    /// All that a report said was told; nothing is decided without one.
    pub fn update(&mut self, now: Time, round_trip: Duration) {
        let (arrived, lost) = (std::mem::take(&mut self.arrived), std::mem::take(&mut self.lost));
        let usage = self.usage.take().unwrap_or(Usage::Normal);
        if arrived + lost == 0 {
            return;
        }
        let now = ms_at(now);
        let most = self.config.clamp(self.by_delay.update(now, usage, ms(round_trip)));
        self.by_delay.set(most);
        let by_loss = self.by_loss.update(now, arrived, lost, self.target);
        self.target = self.config.clamp(by_loss.min(most));
    }
}
