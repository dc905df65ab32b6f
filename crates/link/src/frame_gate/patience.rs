//! How much may wait, under the policy `deadline`.

use taut_core::{Duration, Time};
use taut_wire::rtp::FrameKind;

use super::shaper::Shaper;
use super::{ControlConfig, Knobs, QueueReading, Room};

/// Looks for the least that must wait so that the link is never idle while frames are dropped for it.
///
/// Levels are bytes that wait, and the part of the shaper's burst that is used up: 0 is a shaper that has rested.
#[derive(Clone, Debug)]
pub(super) struct Patience {
    shaper: Shaper,
    /// A frame begins at this level or below.
    level: u64,
    /// What may wait at the end of a key frame: less than was ever seen to be dropped from.
    reach: u64,
    /// The level was never too low yet: it is halved until it is.
    starting: bool,
    /// Bytes that the link could have sent besides, ever.
    unused: u64,
    /// What waited at the last reading.
    backlog: u64,
    /// When a queue that was short dropped.
    impatient: Option<Time>,
}

/// So long a queue that dropped while it was short is taken for one that does so.
const MEMORY: Duration = Duration::from_secs(60);

impl Patience {
    pub(super) fn new(config: &ControlConfig) -> Self {
        Self {
            shaper: Shaper::new(config.duration),
            level: u64::MAX,
            reach: u64::MAX,
            starting: true,
            unused: 0,
            backlog: 0,
            impatient: None,
        }
    }

    /// Does so much wait that the gate must limit, though nothing was dropped?
    pub(super) fn is_exhausted(&self, config: &ControlConfig) -> bool {
        self.shaper.rate() > 0 && self.backlog > self.shaper.bytes_in(config.wait)
    }

    /// After a reading before which `drops` packets were dropped.
    pub(super) fn update(
        &mut self,
        now: Time,
        reading: QueueReading,
        drops: u64,
        config: &ControlConfig,
        gate: &mut impl Knobs,
    ) {
        let account = gate.account(now.as_nanos());
        let unused = account.unused.saturating_sub(self.unused);
        self.unused = account.unused;
        let level = self.shaper.learn(now, reading, drops, account.level, unused > 0);
        gate.set_level(now.as_nanos(), level);
        let longest = self.backlog.max(reading.backlog);
        self.backlog = reading.backlog;
        if self.shaper.rate() == 0 {
            return;
        }
        if drops > 0 && longest < self.shaper.bytes_in(config.wait) {
            self.impatient = Some(now);
        }
        self.steer_level(now, unused, drops > 0, config);
        self.steer_reach(longest, drops > 0, config);
    }

    /// Up while the link is idle, down while it is not, down faster when the queue drops. A queue that does so while it is
    /// short is kept shorter, at the price of some idleness.
    fn steer_level(&mut self, now: Time, unused: u64, dropped: bool, config: &ControlConfig) {
        let most = self.shaper.bytes_in(config.wait);
        self.level = self.level.min(most);
        let impatient = self.impatient.is_some_and(|at| now < at + MEMORY);
        if self.starting && unused == 0 {
            self.level /= 2;
            return;
        }
        self.starting = false;
        if dropped {
            self.level -= self.level / 8;
        } else if unused == 0 {
            self.level -= self.level / if impatient { 32 } else { 256 };
        } else {
            let step = unused.min(self.level / 8 + 64);
            self.level = most.min(self.level + step);
        }
    }

    /// Below what waited when the queue dropped; it is tried again after a while.
    fn steer_reach(&mut self, longest: u64, dropped: bool, config: &ControlConfig) {
        let most = self.shaper.bytes_in(config.key_deadline);
        self.reach = most.min(self.reach.saturating_add(most / 1_024));
        if dropped && longest > 0 && !self.starting {
            self.reach = self.reach.min(longest - longest / 8);
        }
    }

    /// What the gate is told.
    pub(super) fn rooms(&self, config: &ControlConfig) -> [Room; 3] {
        let burst = self.shaper.burst();
        let with = burst + self.shaper.bytes_in(config.delta_deadline).max(self.level);
        let key = burst + self.reach.max(self.level);
        let mut rooms = [Room { before: self.level, with }; 3];
        rooms[FrameKind::Key as usize] = Room { before: key, with: key };
        rooms[FrameKind::Disposable as usize] = Room { before: self.level / 2, with };
        rooms
    }

    /// The orders of a gate that lets all pass.
    pub(super) const OPEN: [Room; 3] = [Room { before: u64::MAX, with: u64::MAX }; 3];

    /// The rate that the gate reckons with.
    pub(super) const fn rate(&self) -> u64 {
        self.shaper.rate()
    }
}
