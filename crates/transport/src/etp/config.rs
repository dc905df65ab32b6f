//! What can be chosen, and within which bounds.

use std::str::FromStr;

use taut_core::{Bytes, Duration, Priority, Probability};
use taut_wire::etp::{DATA_HEADER_LEN, GAP_UNIT_NS};

use crate::udp::{ETHERNET_PAYLOAD, MAX_DATAGRAM};

/// The widest gap with which motion stays continuous: 30 Hz, rounded down to a millisecond.
pub const MOTION_GAP: Duration = Duration::from_millis(33);
/// The gap of force feedback at its full rate: 1000 Hz.
pub const FORCE_GAP: Duration = Duration::from_millis(1);
/// The widest gap that there is: what the header can say.
pub const MAX_GAP: Duration = Duration::from_nanos(GAP_UNIT_NS * u16::MAX as u64);

/// How an [`Etp`](super::Etp) keeps its gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The gap does not change. 0 to [`MAX_GAP`].
    Fixed {
        /// The gap.
        gap: Duration,
    },
    /// The gap follows the path.
    Adaptive(Adaptive),
}

/// The gap of a session, as a person names it: `4ms`, or `adaptive`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GapChoice {
    /// It does not change. 0 to 50 ms: the state with which a hand lets go of the robot waits for it.
    Fixed(Duration),
    /// It follows the path.
    Adaptive,
}

/// Of a live session: what a hand does is not known for longer.
const LONGEST_LIVE: Duration = Duration::from_millis(50);

impl FromStr for GapChoice {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "adaptive" {
            return Ok(Self::Adaptive);
        }
        let gap = text.parse().ok().filter(|gap| *gap <= LONGEST_LIVE).map(Self::Fixed);
        gap.ok_or_else(|| {
            format!("`{text}` is not a gap; write adaptive, or a time up to {LONGEST_LIVE}, such as 4ms")
        })
    }
}

/// Settings of an [`Etp`](super::Etp).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EtpConfig {
    pub(super) mode: Mode,
    pub(super) pack: bool,
    pub(super) newest: bool,
    pub(super) max_datagram: Bytes,
    pub(super) queue: usize,
    pub(super) feedback_interval: Duration,
    pub(super) urgent: Option<Priority>,
    pub(super) tolerance: Duration,
}

/// The longest tolerance.
const MAX_TOLERANCE: Duration = Duration::from_secs(1);

/// Settings of the gap that follows the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adaptive {
    pub(super) min_gap: Duration,
    pub(super) max_gap: Duration,
    pub(super) step: Duration,
    pub(super) widen_percent: u32,
    pub(super) rtt_rise: Duration,
    pub(super) rtt_window: Duration,
    pub(super) loss: Probability,
    pub(super) silence: Duration,
}

/// A setting outside its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The gap cannot be kept.
    #[error("a gap of {0} is longer than {MAX_GAP}")]
    Gap(Duration),
    /// The bounds of the gap are the wrong way round.
    #[error("the least gap {min} is above the greatest {max}")]
    GapBounds {
        /// The least gap.
        min: Duration,
        /// The greatest.
        max: Duration,
    },
    /// The datagram is too long for UDP, or has no room for a message.
    #[error("a datagram of {0} is not between {least} and {MAX_DATAGRAM}", least = Bytes::new(DATA_HEADER_LEN as u64 + 1))]
    MaxDatagram(Bytes),
    /// Nothing can wait.
    #[error("the queue holds no message")]
    Queue,
    /// The receiver would flood the sender, or starve it.
    #[error("a feedback interval of {0} is not between 1ms and 1s")]
    FeedbackInterval(Duration),
    /// A burst of any length would go at once.
    #[error("a tolerance of {0} is longer than {MAX_TOLERANCE}")]
    Tolerance(Duration),
    /// The gap could not move.
    #[error("the gap's {0} is 0")]
    Stuck(&'static str),
}

impl EtpConfig {
    /// A gap that does not change.
    pub fn fixed(gap: Duration) -> Self {
        Self::new(Mode::Fixed { gap })
    }

    /// A gap that follows the path.
    pub fn adaptive(adaptive: Adaptive) -> Self {
        Self::new(Mode::Adaptive(adaptive))
    }

    /// The defaults with this mode.
    pub fn new(mode: Mode) -> Self {
        Self {
            mode,
            pack: false,
            newest: false,
            max_datagram: ETHERNET_PAYLOAD,
            queue: 64,
            feedback_interval: Duration::from_millis(20),
            urgent: None,
            tolerance: Duration::ZERO,
        }
    }

    /// For a session of operator and robot whose device makes a sample every `period`: priority 0 waits for no gap, and
    /// beside the samples there is room for what else a session says, a message in ten.
    pub fn session(period: Duration) -> Self {
        let adaptive = Adaptive::default().min_gap(period * 9 / 10);
        Self::adaptive(adaptive).urgent(Some(Priority(0))).tolerance(period * 2)
    }

    /// With this gap. One that does not change is kept to the letter, without tolerance, but for what is urgent, and each
    /// packet carries the newest sample of a series only, beside whatever else waits: where every state is the whole
    /// position, an older one would cost bytes and tell nothing. `Adaptive` changes nothing where the gap follows the path
    /// already.
    pub fn gap(self, choice: GapChoice) -> Self {
        match (choice, self.mode) {
            (GapChoice::Fixed(gap), _) => {
                let mode = Mode::Fixed { gap };
                Self { mode, tolerance: Duration::ZERO, pack: true, newest: true, ..self }
            }
            (GapChoice::Adaptive, Mode::Adaptive(_)) => self,
            (GapChoice::Adaptive, Mode::Fixed { .. }) => {
                Self { mode: Mode::Adaptive(Adaptive::default()), ..self }
            }
        }
    }

    /// Send all samples that waited in one packet, oldest first, as far as they fit; otherwise only the newest goes.
    /// Default off. Costs 2 bytes a sample, and the receiver gets samples that are up to one gap old.
    pub fn pack(mut self, pack: bool) -> Self {
        self.pack = pack;
        self
    }

    /// The longest UDP payload sent and accepted. Default 1472 B; 13 B to 65479 B. 12 bytes of it are the header.
    pub fn max_datagram(mut self, bytes: Bytes) -> Self {
        self.max_datagram = bytes;
        self
    }

    /// How many messages wait at most, of all priorities; of priority 0 a tenth more. Default 64; at least 1.
    pub fn queue(mut self, messages: usize) -> Self {
        self.queue = messages;
        self
    }

    /// How often this end reports to a sender that asks for it, at most. Default 20 ms; 1 ms to 1 s. A report is a
    /// datagram with 24 bytes of payload; a longer interval makes the sender slower to see congestion.
    pub fn feedback_interval(mut self, interval: Duration) -> Self {
        self.feedback_interval = interval;
        self
    }

    /// A message goes although the gap has still so long to run; the next gap then begins when this one would have ended,
    /// so that the rate stays what the gap makes it (the virtual scheduling of ITU-T I.371 annex A). Default 0: two packets
    /// are never closer than the gap. At most 1 s.
    pub fn tolerance(mut self, tolerance: Duration) -> Self {
        self.tolerance = tolerance;
        self
    }

    /// Messages at least this urgent do not wait for the gap: they go at once, and the gap begins anew behind them.
    /// Default none. For what is rare, such as a stop; the gap does not bound their rate.
    pub fn urgent(mut self, priority: Option<Priority>) -> Self {
        self.urgent = priority;
        self
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        match self.mode {
            Mode::Fixed { gap } if gap > MAX_GAP => return Err(ConfigError::Gap(gap)),
            Mode::Fixed { .. } => {}
            Mode::Adaptive(adaptive) => adaptive.check()?,
        }
        let least = Bytes::new(DATA_HEADER_LEN as u64 + 1);
        if !(least..=MAX_DATAGRAM).contains(&self.max_datagram) {
            return Err(ConfigError::MaxDatagram(self.max_datagram));
        }
        if self.queue == 0 {
            return Err(ConfigError::Queue);
        }
        if !(Duration::from_millis(1)..=Duration::from_secs(1)).contains(&self.feedback_interval) {
            return Err(ConfigError::FeedbackInterval(self.feedback_interval));
        }
        if self.tolerance > MAX_TOLERANCE {
            return Err(ConfigError::Tolerance(self.tolerance));
        }
        Ok(())
    }
}

impl Default for Adaptive {
    fn default() -> Self {
        Self {
            min_gap: FORCE_GAP,
            max_gap: MOTION_GAP,
            step: Duration::from_micros(250),
            widen_percent: 25,
            rtt_rise: Duration::from_millis(10),
            rtt_window: Duration::from_secs(10),
            loss: Probability::from_fraction(0.05).expect("5 % is a probability"),
            silence: Duration::from_millis(200),
        }
    }
}

impl Adaptive {
    /// The defaults: 1000 Hz where the path allows it, never below 30 Hz.
    pub fn new() -> Self {
        Self::default()
    }

    /// The gap on a free path, and the one at the beginning. Default [`FORCE_GAP`]; 0 to [`MAX_GAP`].
    pub fn min_gap(mut self, gap: Duration) -> Self {
        self.min_gap = gap;
        self
    }

    /// The gap that is never exceeded, whatever the path does. Default [`MOTION_GAP`]; the least gap to [`MAX_GAP`]. A
    /// wider one yields more to others and makes the person at the other end feel steps.
    pub fn max_gap(mut self, gap: Duration) -> Self {
        self.max_gap = gap;
        self
    }

    /// By how much the gap narrows with each decision on a free path, and widens at least on another. Default 0.25 ms; > 0.
    pub fn step(mut self, step: Duration) -> Self {
        self.step = step;
        self
    }

    /// By how many per cent the gap widens with each decision on a congested path. Default 25; > 0.
    pub fn widen_percent(mut self, percent: u32) -> Self {
        self.widen_percent = percent;
        self
    }

    /// How far the least RTT of late may be above the least of long before the gap widens; above half of that it stops
    /// narrowing. Default 10 ms. Far below the path's own jitter, the gap widens without need; above what its queues can hold, delay is never noticed and only loss counts.
    pub fn rtt_rise(mut self, rise: Duration) -> Self {
        self.rtt_rise = rise;
        self
    }

    /// How far back the minimum of the RTT reaches. Default 10 s; > 0. After a change to a longer route, the gap is wider
    /// than it has to be for so long.
    pub fn rtt_window(mut self, window: Duration) -> Self {
        self.rtt_window = window;
        self
    }

    /// The smoothed loss above which the gap widens. Default 5 %: above what wide-area paths lose without congestion,
    /// half of what haptic data tolerates. With 0 every reported loss counts.
    pub fn loss(mut self, loss: Probability) -> Self {
        self.loss = loss;
        self
    }

    /// How long a report may be missing after data before that counts as loss; at least four smoothed RTTs in any case.
    /// Default 200 ms; > 0.
    pub fn silence(mut self, silence: Duration) -> Self {
        self.silence = silence;
        self
    }

    fn check(&self) -> Result<(), ConfigError> {
        if self.min_gap > self.max_gap {
            return Err(ConfigError::GapBounds { min: self.min_gap, max: self.max_gap });
        }
        if self.max_gap > MAX_GAP {
            return Err(ConfigError::Gap(self.max_gap));
        }
        let movable = [
            (self.step.is_zero(), "step"),
            (self.widen_percent == 0, "widen_percent"),
            (self.rtt_window.is_zero(), "rtt_window"),
            (self.silence.is_zero(), "silence"),
        ];
        movable.iter().find(|(zero, _)| *zero).map_or(Ok(()), |(_, what)| Err(ConfigError::Stuck(what)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_a_time_that_the_header_can_say_or_adaptive() {
        assert_eq!("4ms".parse(), Ok(GapChoice::Fixed(Duration::from_millis(4))));
        assert_eq!("0ms".parse(), Ok(GapChoice::Fixed(Duration::ZERO)));
        assert_eq!("adaptive".parse(), Ok(GapChoice::Adaptive));
        for text in ["51ms", "4", "-1ms", "Adaptive", ""] {
            assert!(text.parse::<GapChoice>().unwrap_err().contains("adaptive, or a time"), "{text}");
        }
    }

    #[test]
    fn a_chosen_gap_is_kept_to_the_letter_and_a_stop_does_not_wait_for_it() {
        let session = EtpConfig::session(Duration::from_millis(1));
        let fixed = session.gap(GapChoice::Fixed(Duration::from_millis(4)));
        assert_eq!((fixed.tolerance, fixed.urgent), (Duration::ZERO, Some(Priority(0))));
        assert_eq!(fixed.check(), Ok(()));
        assert_eq!(session.gap(GapChoice::Adaptive), session);
    }
}
