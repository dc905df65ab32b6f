//! How much may wait, under the policy `deadline`.

use std::collections::VecDeque;

use taut_core::{Duration, Time};
use taut_wire::rtp::FrameKind;

use super::shaper::{MTU, Shaper};
use super::{GateConfig, Knobs, QueueReading, Room};

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
    /// Readings since the link was last idle, 256 at most.
    calm: u64,
    /// Bytes that the link could have sent besides, ever.
    unused: u64,
    /// What waited at the last reading.
    backlog: u64,
    /// What of the shaper's rate is reckoned with, of [`WHOLE`].
    pace: u64,
    /// When a queue that was short dropped.
    impatient: Option<Time>,
    /// When so much waited that the link is too small, whatever else is known.
    exhausted: Option<Time>,
    /// Bytes that had come to the gate and left the queue, at every reading of the last `duration`.
    passed: VecDeque<Passed>,
    /// The gate goes by the level.
    in_force: bool,
}

/// Since any beginning.
#[derive(Clone, Copy, Debug)]
struct Passed {
    at: Time,
    offered: u64,
    sent: u64,
}

/// So long a queue that dropped while it was short is taken for one that does so.
const MEMORY: Duration = Duration::from_secs(60);
/// The pace of a shaper that is there for the video alone.
const WHOLE: u64 = 1_024;

impl Patience {
    /// Readings that are remembered at most.
    const PASSED_MAX: usize = 1_024;

    pub(super) fn new(config: &GateConfig) -> Self {
        Self {
            shaper: Shaper::new(config.bandwidth_over),
            level: u64::MAX,
            reach: u64::MAX,
            starting: true,
            calm: 0,
            unused: 0,
            backlog: 0,
            pace: WHOLE,
            impatient: None,
            exhausted: None,
            passed: VecDeque::new(),
            in_force: false,
        }
    }

    /// Is less offered than the link carries, so that no frame need be dropped for another? What is offered and what the link
    /// carries are known to a thirtieth or so, and a sender that adapts offers a few hundredths too much before it feels the queue:
    /// it is to feel it. The link carries at least what did leave: one that is never loaded for long does not show its rate.
    fn is_wide(&self, now: Time) -> bool {
        let (Some(first), Some(last)) = (self.passed.front(), self.passed.back()) else { return true };
        let carried = self.shaper.bytes_in(now.saturating_since(first.at)) * self.pace / WHOLE;
        let carried = carried.max(last.sent - first.sent);
        let offered = last.offered - first.offered;
        let margin = carried / if self.in_force { 32 } else { 16 };
        self.shaper.rate() == 0 || (!self.is_exhausted(now) && offered <= carried + margin)
    }

    /// Waited so much of late that the gate must limit, though nothing may have been dropped?
    pub(super) fn is_exhausted(&self, now: Time) -> bool {
        self.exhausted.is_some_and(|at| now < at + MEMORY)
    }

    /// After a reading before which `drops` packets were dropped.
    pub(super) fn update(
        &mut self,
        now: Time,
        reading: QueueReading,
        drops: u64,
        config: &GateConfig,
        gate: &mut impl Knobs,
    ) {
        let account = gate.account(now.as_nanos());
        let unused = account.unused.saturating_sub(self.unused);
        self.unused = account.unused;
        let whole = self.pace == WHOLE;
        let level = self.shaper.learn(now, reading, drops, account.level, unused > 0, whole);
        gate.set_level(now.as_nanos(), level);
        // What still waits has not left: so much less was unused.
        let missed = unused.saturating_sub(level.saturating_sub(account.level));
        let longest = self.backlog.max(reading.backlog);
        self.backlog = reading.backlog;
        self.remember(Passed { at: now, offered: account.offered, sent: reading.sent }, config);
        if self.shaper.rate() == 0 {
            return;
        }
        if longest > self.shaper.bytes_in(config.wait) {
            self.exhausted = Some(now);
        }
        if drops > 0 && longest < self.shaper.bytes_in(config.wait) {
            self.impatient = Some(now);
        }
        self.steer_pace(drops > 0);
        self.steer_level(now, (unused, missed), drops > 0, config);
        self.steer_reach(longest, drops > 0, config);
    }

    fn remember(&mut self, last: Passed, config: &GateConfig) {
        if self.passed.back().is_some_and(|before| before.offered > last.offered || before.sent > last.sent) {
            // A stream was forgotten, or the queue replaced.
            self.passed.clear();
        }
        let old = |first: &Passed| first.at + config.bandwidth_over < last.at;
        if self.passed.len() >= Self::PASSED_MAX || self.passed.front().is_some_and(old) {
            self.passed.pop_front();
        }
        self.passed.push_back(last);
    }

    /// A queue that drops though frames wait for nothing is emptied slower than it once was: others share the link, or its algorithm has
    /// not forgotten a longer queue. Slower until it no longer drops, and back to the whole rate in the course of 26 s.
    fn steer_pace(&mut self, dropped: bool) {
        if dropped && self.in_force && self.level < MTU / 4 {
            self.pace = (self.pace - self.pace / 32).max(WHOLE / 4);
        } else if !dropped {
            self.pace = WHOLE.min(self.pace + 4);
        }
    }

    /// Up while the link is idle, down while it is not, the faster the longer ago that was, and faster still when the queue drops. A
    /// queue that does so while it is short is kept shorter, at the price of some idleness.
    fn steer_level(&mut self, now: Time, (unused, missed): (u64, u64), dropped: bool, config: &GateConfig) {
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
            self.calm = 256.min(self.calm + 1);
            self.level -= if impatient { self.level / 64 } else { self.level * self.calm / 65_536 };
        } else {
            self.calm = if missed > 0 { 0 } else { self.calm };
            let step = missed.min(self.level / 8 + 64);
            self.level = most.min(self.level + step);
        }
    }

    /// Below what waited when the queue dropped; it is tried again after a while.
    fn steer_reach(&mut self, longest: u64, dropped: bool, config: &GateConfig) {
        let most = self.shaper.bytes_in(config.key_deadline);
        self.reach = most.min(self.reach.saturating_add(most / 1_024));
        if dropped && longest > 0 && !self.starting {
            self.reach = self.reach.min(longest - longest / 8);
        }
    }

    /// What the gate is told. That it lets all pass unless `limiting`, and while less is offered than the link carries.
    pub(super) fn orders(&mut self, now: Time, limiting: bool, config: &GateConfig) -> [Room; 3] {
        self.in_force = limiting && !self.is_wide(now);
        if self.in_force { self.rooms(config) } else { Self::OPEN }
    }

    fn rooms(&self, config: &GateConfig) -> [Room; 3] {
        let burst = self.shaper.burst();
        let with = burst + self.shaper.bytes_in(config.deadline).max(self.level);
        let key = burst + self.reach.max(self.level);
        let mut rooms = [Room { before: self.level, with }; 3];
        rooms[FrameKind::Key as usize] = Room { before: key, with: key };
        rooms[FrameKind::Disposable as usize] = Room { before: self.level / 2, with };
        rooms
    }

    /// The orders of a gate that lets all pass.
    const OPEN: [Room; 3] = [Room { before: u64::MAX, with: u64::MAX }; 3];

    /// The rate that the gate reckons with.
    pub(super) const fn rate(&self) -> u64 {
        self.shaper.rate() * self.pace / WHOLE
    }
}
