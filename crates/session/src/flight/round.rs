//! What one round of samples tells: how long nothing was without a wait, and where it waited.

use taut_core::{Duration, Time};

use super::SUSPICIOUS;

/// A round lasts at least so long, and has so many states: fewer say nothing. Where lost states are repeated, so many
/// exchanges of clocks as well, and as many round trips, for a repetition takes one.
const LEAST_ROUND: Duration = Duration::from_millis(20);
const LEAST_STATES: u32 = 8;
const LEAST_EXCHANGES: u32 = 3;

/// What came since it began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    pub(super) began: Time,
    /// States that arrived.
    pub(super) arrived: u64,
    /// The window held a state back.
    pub(super) limited: bool,
    states: Samples,
    exchanges: Samples,
}

#[derive(Clone, Copy, Debug)]
struct Samples {
    least: Duration,
    count: u32,
}

impl Samples {
    const NONE: Self = Self { least: Duration::MAX, count: 0 };

    fn add(&mut self, rtt: Duration) {
        *self = Self { least: self.least.min(rtt), count: self.count + 1 };
    }
}

impl Round {
    pub(super) fn begin(now: Time) -> Self {
        Self { began: now, arrived: 0, limited: false, states: Samples::NONE, exchanges: Samples::NONE }
    }
}

/// Round trips of states and of exchanges of clocks, over a round and for long.
#[derive(Debug)]
pub(super) struct Delays {
    reliable: bool,
    pub(super) round: Round,
    states: LeastRtt,
    exchanges: LeastRtt,
    /// How long states wait in the transport: for its congestion control, or for the repetition of others. Exchanges of clocks
    /// go past most of that.
    pub(super) inside: Duration,
}

/// A round that is over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    /// The round trip without a queue.
    pub(super) base: Duration,
    /// What was never below it, in the network: the standing delay.
    pub(super) standing: Duration,
    pub(super) began: Time,
    pub(super) arrived: u64,
    /// States per second that arrived.
    pub(super) rate: f64,
    pub(super) limited: bool,
}

impl Measured {
    pub(super) fn rtt(&self) -> Duration {
        self.base + self.standing
    }
}

impl Delays {
    pub(super) fn new(reliable: bool) -> Self {
        Self {
            reliable,
            round: Round::begin(Time::ZERO),
            states: LeastRtt::default(),
            exchanges: LeastRtt::default(),
            inside: Duration::ZERO,
        }
    }

    pub(super) fn state(&mut self, now: Time, rtt: Duration) {
        self.states.record(now, rtt);
        self.round.states.add(rtt);
    }

    pub(super) fn exchange(&mut self, now: Time, rtt: Duration) {
        self.exchanges.record(now, rtt);
        self.round.exchanges.add(rtt);
    }

    /// The round trip without a queue, as far as it is known.
    pub(super) fn base(&self) -> Option<Duration> {
        self.states.get().or_else(|| self.exchanges.get())
    }

    /// The round, if it is long enough; then the next begins. `whole`: a round trip at least, for under a window states go and
    /// pause by turns.
    pub(super) fn end_round(&mut self, now: Time, whole: bool) -> Option<Measured> {
        let base = self.states.get()?;
        let Round { began, arrived, limited, states, exchanges } = self.round;
        let length = now.saturating_since(began);
        let (asked, trips) = if self.reliable { (LEAST_EXCHANGES, 3) } else { (0, 1) };
        if length < LEAST_ROUND.max(base * trips) || states.count < LEAST_STATES || exchanges.count < asked {
            return None;
        }
        if whole && length < states.least {
            return None;
        }
        let waited = states.least.saturating_sub(base);
        if exchanges.count > 0 {
            // Smaller than states, they are no slower on an empty path.
            let ever = self.exchanges.get().map_or(base, |ever| ever.min(base));
            let inside = waited.saturating_sub(exchanges.least.saturating_sub(ever));
            self.inside = if inside > SUSPICIOUS { inside } else { Duration::ZERO };
        }
        self.round = Round::begin(now);
        let (standing, rate) = (waited.saturating_sub(self.inside), arrived as f64 / length.as_secs_f64());
        Some(Measured { base, standing, began, arrived, rate, limited })
    }
}

/// The least round trip of the last 15 to 30 s.
#[derive(Debug, Default)]
struct LeastRtt {
    windows: [Option<Duration>; 2],
    began: Time,
}

impl LeastRtt {
    const WINDOW: Duration = Duration::from_secs(15);

    fn record(&mut self, now: Time, rtt: Duration) {
        if now.saturating_since(self.began) >= Self::WINDOW {
            self.windows = [None, self.windows[0]];
            self.began = now;
        }
        self.windows[0] = Some(self.windows[0].map_or(rtt, |least| least.min(rtt)));
    }

    fn get(&self) -> Option<Duration> {
        self.windows.into_iter().flatten().min()
    }
}
