//! What a round trip tells.

use taut_core::{Duration, Time};

use super::jitter::{Allowance, Residue, Scatter};
use super::{BEHIND, GROWN, LEAST_FRAMES, ROUNDS, STEADILY, SUSPICIOUS};

/// Rounds in a row with a standing delay, the bytes that were to go in them, those that arrived, and the time that took.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Standing {
    pub(super) rounds: u32,
    /// In which less arrived than was to go.
    pub(super) behind: u32,
    /// The least, and so many rounds ago; the longest.
    pub(super) least: Option<Duration>,
    pub(super) since: u32,
    pub(super) most: Duration,
    pub(super) wanted: u64,
    pub(super) arrived: u64,
    pub(super) length: Duration,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    pub(super) began: Time,
    /// It ends when this place, or a later one, is acknowledged.
    pub(super) ends: u64,
    /// What the least round trips of frames and of packets, and the least time to the peer, were above the least of all.
    pub(super) above: Duration,
    pub(super) packets: Duration,
    pub(super) there: Duration,
    /// The frames' round trips over time, s, and their times to the peer from that of the first on.
    pub(super) scatter: [Scatter; 2],
    pub(super) origin: Option<i64>,
    pub(super) wanted: u64,
    pub(super) arrived: u64,
    /// Frames that arrived, and the bytes of the longest, if any was long.
    pub(super) frames: u64,
    pub(super) longest: u64,
    /// The window held something back.
    pub(super) limited: bool,
    /// Frames went that can wait.
    pub(super) mixed: bool,
    /// How many times the window was under way when it began.
    pub(super) filled: f64,
}

/// A round that is over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    /// What the path takes when nothing waits, and how many times that with what waits on the way back.
    pub(super) base: Duration,
    pub(super) stretch: f64,
    /// What the least was above the least of all, what of that is chance, and the rest: what waited.
    pub(super) above: Duration,
    pub(super) by_chance: Duration,
    pub(super) standing: Duration,
    /// Bytes that were to go and those that arrived, how long it took, and the bytes of a frame.
    pub(super) frame: f64,
    pub(super) wanted: u64,
    pub(super) arrived: u64,
    pub(super) longest: u64,
    pub(super) length: Duration,
    pub(super) limited: bool,
    pub(super) filled: f64,
}

impl Standing {
    /// Is there a standing delay again, for some rounds by now?
    pub(super) fn goes_on(&mut self, measured: &Measured) -> bool {
        *self = match measured.standing > SUSPICIOUS {
            true => Self {
                rounds: self.rounds + 1,
                behind: self.behind + u32::from(measured.arrived < measured.wanted),
                least: Some(self.least.map_or(measured.standing, |least| least.min(measured.standing))),
                since: match self.least {
                    Some(least) if measured.standing > least => self.since + 1,
                    _ => 0,
                },
                most: self.most.max(measured.standing),
                wanted: self.wanted + measured.wanted,
                arrived: self.arrived + measured.arrived,
                length: self.length + measured.length,
            },
            false => Self::default(),
        };
        self.rounds >= ROUNDS
    }

    /// Does less arrive than is to go, by more than the chance of others' packets explains? What they do adds up as a random
    /// walk, with the square root of time.
    pub(super) fn is_behind(&self) -> bool {
        let missing = 1.0 - self.arrived as f64 / self.wanted.max(1) as f64;
        missing * f64::from(self.rounds).sqrt() >= BEHIND
    }

    /// Has it grown in so many more rounds than not that chance explains it no more?
    pub(super) fn grows_steadily(&self) -> bool {
        let rounds = f64::from(self.rounds);
        2.0 * f64::from(self.behind) - rounds >= STEADILY * rounds.sqrt()
    }

    /// Has it grown by so much that what others send by chance does not explain it? That is a random walk as well.
    pub(super) fn has_grown(&self, measured: &Measured) -> bool {
        let walk = Duration::from_secs_f64(GROWN.as_secs_f64() * f64::from(self.since + 1).sqrt());
        self.least.is_some_and(|least| measured.standing >= least + walk)
    }

    /// Did more arrive per second than was to go then?
    pub(super) fn is_outdone(&self, measured: &Measured) -> bool {
        measured.rate() > 1.25 * self.wanted.max(self.arrived) as f64 / self.length.as_secs_f64()
    }

    /// Bytes per second.
    pub(super) fn rate(&self) -> f64 {
        self.arrived as f64 / self.length.as_secs_f64()
    }
}

impl Measured {
    /// It began with more under way than the window.
    pub(super) fn full(&self) -> bool {
        self.filled > 1.0
    }

    /// More arrived than was to go: what a repetition had held up. A path that carries more than that is not too slow.
    pub(super) fn catches_up(&self) -> bool {
        self.arrived as f64 > self.wanted as f64 * 1.25 + (LEAST_FRAMES / 2) as f64 * self.frame
    }

    /// Bytes per second, where one long frame more may have been on its way as it ended: of 2 Mbit/s that is a quarter of a short round.
    pub(super) fn rate_at_most(&self) -> f64 {
        (self.arrived + self.longest) as f64 / self.length.as_secs_f64()
    }

    /// Bytes per second.
    pub(super) fn rate(&self) -> f64 {
        self.arrived as f64 / self.length.as_secs_f64()
    }
}

impl Round {
    pub(super) fn begin(now: Time, ends: u64) -> Self {
        let none = Duration::MAX;
        Self {
            began: now,
            ends,
            above: none,
            packets: none,
            there: none,
            scatter: [Scatter::default(); 2],
            origin: None,
            wanted: 0,
            arrived: 0,
            frames: 0,
            longest: 0,
            limited: false,
            mixed: false,
            filled: 0.0,
        }
    }

    /// How far the frames' round trips and their times to the peer scatter. Where nothing went that can wait, about straight lines: a queue that grows or
    /// empties is no scatter. Where it did, between neighbours: bursts make a queue that does both.
    pub(super) fn scatter(&self) -> [Residue; 2] {
        self.scatter
            .map(|scatter| if self.mixed { scatter.between_neighbours() } else { scatter.about_line() })
    }

    pub(super) fn measured(
        &self,
        length: Duration,
        base: Duration,
        frame: f64,
        by_chance: Allowance,
    ) -> Measured {
        let by_round_trip = self.above.min(self.packets);
        let above = by_round_trip.min(self.there);
        let (standing, by_chance) = match self.there.saturating_sub(by_chance[1]) {
            by_way if by_way < by_round_trip.saturating_sub(by_chance[0]) => (by_way, by_chance[1]),
            _ => (by_round_trip.saturating_sub(by_chance[0]), by_chance[0]),
        };
        // What waits on the way back keeps frames under way that wait nowhere.
        let back = self.above.saturating_sub(self.there).saturating_sub(by_chance);
        let stretch = (base + back).as_secs_f64() / base.as_secs_f64().max(1e-9);
        let Self { wanted, arrived, longest, limited, filled, .. } = *self;
        Measured {
            base,
            stretch,
            above,
            by_chance,
            standing,
            frame,
            wanted,
            arrived,
            longest,
            length,
            limited,
            filled,
        }
    }
}
