//! What mends a loss: a repetition where there is time for one; else parity or a copy, sent ahead.

use taut_core::Duration;

/// How losses of a channel's messages are mended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
#[cfg_attr(feature = "schema", serde(rename_all = "snake_case"))]
pub enum Repair {
    /// By whatever there is time for. Where a loss would be noticed and repeated before the deadline, that. Where not, and losses are seen: parity
    /// for a message of several parts, a copy of one of a single part.
    #[default]
    Auto,
    /// Not at all: what is lost is lost.
    None,
    /// Every message goes twice.
    Copy,
    /// Every message of several parts goes with parity, one of a single part twice.
    Parity,
    /// By repetition alone.
    Repeat,
}

/// What is known of the way to the peer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Way {
    /// The smoothed round trip.
    pub round_trip: Duration,
    /// How long after it was sent a lost part is known to be lost, at the latest: SRTT + 4·RTTVAR (RFC 6298 section 2), and what the peer
    /// waits before it acknowledges. So the variation of the round trip counts.
    pub notice: Duration,
    /// The share of what was sent lately that was lost, 0 to 1.
    pub loss: f64,
}

/// What is sent of a message beside itself, before anything is known to be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ahead {
    /// Nothing.
    Nothing,
    /// The same once more.
    Copy {
        /// So long after the first.
        after: Duration,
    },
    /// So many parts of parity.
    Parity(usize),
}

/// The share of messages that may be lost after repair: half of the 1 % beyond which sound and picture suffer (limits of telehaptic
/// sessions, `taut_qos::limits`), because losses come in bursts and the law below takes them for independent.
const TOLERATED: f64 = 0.005;
/// A way that loses more than this is overloaded or cut: there more parity makes it worse.
const MOST_LOSS: f64 = 0.25;
/// A copy leaves so much later than the first, so that one full queue or one dead spell of a radio does not take both: retransmissions of a
/// cellular link (HARQ) take 8 ms each.
const APART: Duration = Duration::from_millis(10);

impl Way {
    /// Is there time to learn of a loss and to repeat, when a message is worthless `left` after its last part was sent?
    pub fn allows_repetition(&self, left: Duration) -> bool {
        self.notice + self.round_trip / 2 < left
    }
}

impl Repair {
    /// What goes beside a message of so many `parts`, which is worthless `left` after its last part was sent. The `way` is not known before
    /// something came back over it: until then nothing does, unless it was asked for.
    pub fn ahead(self, way: Option<&Way>, left: Duration, parts: usize) -> Ahead {
        let loss = way.map_or(0.0, |way| way.loss);
        let parity = |least: usize| match parts {
            0 | 1 if least > 0 || loss > TOLERATED => copy(way, left),
            0 | 1 => Ahead::Nothing,
            _ if parts > MOST_PARTS => Ahead::Nothing,
            _ => match fewest(loss, parts).max(least) {
                0 => Ahead::Nothing,
                count => Ahead::Parity(count),
            },
        };
        match self {
            Self::None | Self::Repeat => Ahead::Nothing,
            Self::Copy => copy(way, left),
            Self::Parity => parity(1),
            Self::Auto if way.is_none_or(|way| way.allows_repetition(left)) => Ahead::Nothing,
            Self::Auto => parity(0),
        }
    }
}

/// Messages of more parts get no parity: a megabyte, which is no frame to be in time where nothing can be repeated.
pub const MOST_PARTS: usize = 1024;

/// The most parity that a message of so many parts has: half as much again. So much is enough for one loss in six.
pub const fn most_parity(parts: usize) -> usize {
    parts.div_ceil(2)
}

/// A copy as late as keeps it in time, and no later.
fn copy(way: Option<&Way>, left: Duration) -> Ahead {
    let there = way.map_or(Duration::ZERO, |way| way.round_trip / 2);
    Ahead::Copy { after: APART.min(left.saturating_sub(there) / 2) }
}

/// The fewest parts of parity with which no more than is tolerated is lost; or the most.
fn fewest(loss: f64, parts: usize) -> usize {
    let (mut low, mut high) = (0, most_parity(parts));
    while low < high {
        let middle = (low + high) / 2;
        if failure(loss, parts, middle) <= TOLERATED { high = middle } else { low = middle + 1 }
    }
    low
}

/// The probability that more than `parity` of all parts are lost, each by itself (the binomial law): the message cannot be restored then.
fn failure(loss: f64, parts: usize, parity: usize) -> f64 {
    let (loss, total) = (loss.clamp(0.0, MOST_LOSS), (parts + parity) as f64);
    let mut term = libm::pow(1.0 - loss, total);
    let mut restored = term;
    for lost in 1..=parity {
        term *= (total - lost as f64 + 1.0) / lost as f64 * loss / (1.0 - loss);
        restored += term;
    }
    1.0 - restored
}

/// The share of parts that were lost lately.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LossShare(f64);

impl LossShare {
    /// Each part changes the share by so much: it is that of some 256 parts, half a second of a picture of 4 Mbit/s. Fewer would take a single
    /// loss for a share beyond what is tolerated; more would follow a way that gets worse too late.
    const WEIGHT: f64 = 1.0 / 256.0;

    /// The fate of a part is known.
    pub fn record(&mut self, lost: bool) {
        self.0 += (f64::from(u8::from(lost)) - self.0) * Self::WEIGHT;
    }

    /// One that was taken for lost arrived after all.
    pub fn take_back(&mut self) {
        self.0 = (self.0 - Self::WEIGHT).max(0.0);
    }

    /// The share, 0 to 1.
    pub fn get(self) -> f64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use taut_core::RttEstimator;

    const MS: Duration = Duration::from_millis(1);

    /// Round trips of so much, more or less by `jitter`, and acknowledgements that wait for 2 ms, twice.
    fn way(round_trip_ms: u64, jitter_ms: u64, loss: f64) -> Way {
        let mut rtt = RttEstimator::default();
        (0..200).for_each(|i| rtt.record(MS * (round_trip_ms + jitter_ms * (i % 2) - jitter_ms / 2)));
        let notice = rtt.timeout(MS).unwrap() + MS * 4;
        Way { round_trip: rtt.srtt().unwrap(), notice, loss }
    }

    #[test]
    fn a_loss_is_repeated_where_the_deadline_leaves_time_to_notice_it() {
        let near = way(40, 0, 0.05);
        for parts in [1, 5, 100] {
            assert_eq!(Repair::Auto.ahead(Some(&near), MS * 100, parts), Ahead::Nothing);
        }
        assert!(near.allows_repetition(MS * 66) && !near.allows_repetition(MS * 65));
    }

    #[test]
    fn where_it_does_not_frames_get_parity_and_single_parts_a_copy() {
        let far = way(200, 0, 0.05);
        assert_eq!(Repair::Auto.ahead(Some(&far), MS * 150, 1), Ahead::Copy { after: MS * 10 });
        assert_eq!(Repair::Auto.ahead(Some(&far), MS * 150, 10), Ahead::Parity(3));
        assert_eq!(Repair::Auto.ahead(Some(&far), MS * 150, 40), Ahead::Parity(7));
        assert_eq!(Repair::Auto.ahead(Some(&far), MS * 306, 40), Ahead::Nothing, "then there is time");
    }

    #[test]
    fn a_round_trip_that_varies_takes_the_time_away() {
        assert_eq!(Repair::Auto.ahead(Some(&way(40, 0, 0.05)), MS * 100, 10), Ahead::Nothing);
        assert_eq!(Repair::Auto.ahead(Some(&way(40, 30, 0.05)), MS * 100, 10), Ahead::Parity(3));
    }

    #[test]
    fn nothing_is_added_where_nothing_is_lost_or_nothing_is_known() {
        for parts in [1, 2, 100, 5_000] {
            assert_eq!(Repair::Auto.ahead(Some(&way(200, 0, 0.0)), MS * 150, parts), Ahead::Nothing);
            assert_eq!(Repair::Auto.ahead(None, MS * 150, parts), Ahead::Nothing);
            for none in [Repair::None, Repair::Repeat] {
                assert_eq!(none.ahead(Some(&way(200, 0, 0.2)), MS * 150, parts), Ahead::Nothing);
            }
        }
        // What was asked for is done in any case.
        assert_eq!(Repair::Parity.ahead(None, MS * 150, 4), Ahead::Parity(1));
        assert_eq!(Repair::Parity.ahead(None, MS * 150, 1), Ahead::Copy { after: MS * 10 });
        assert_eq!(Repair::Copy.ahead(None, MS * 150, 4), Ahead::Copy { after: MS * 10 });
    }

    #[test]
    fn what_is_added_is_enough_and_never_more_than_half_as_much_again() {
        for parts in [2, 3, 7, 30, 200, MOST_PARTS] {
            for loss in [0.001, 0.01, 0.05, 0.1, 0.2, 0.9] {
                let count = fewest(loss, parts);
                assert!(count <= parts.div_ceil(2));
                let is_enough = |count| failure(loss, parts, count) <= TOLERATED;
                assert!(is_enough(count) || count == most_parity(parts), "{parts} {loss}");
                assert!(count == 0 || !is_enough(count - 1), "{parts} {loss}: fewer would do");
            }
        }
        let Ahead::Parity(large) = Repair::Auto.ahead(Some(&way(200, 0, 0.05)), MS * 150, 100) else {
            panic!("parity")
        };
        assert!(large <= 12, "a large frame needs a smaller share: {large}");
        let late = Repair::Auto.ahead(Some(&way(200, 0, 0.05)), MS * 104, 1);
        assert_eq!(late, Ahead::Copy { after: MS * 2 }, "a copy that is late is for nothing");
    }

    #[test]
    fn the_share_lost_is_that_of_the_last_few_hundred() {
        let mut share = LossShare::default();
        share.record(true);
        assert!(share.get() < TOLERATED, "one loss alone changes nothing");
        (0..2_000).for_each(|i| share.record(i % 20 == 0));
        assert!((0.035..0.065).contains(&share.get()), "{}", share.get());
        (0..2_000).for_each(|_| share.record(false));
        assert!(share.get() < 1e-4);
        share.record(true);
        share.take_back();
        assert!(share.get() < 1e-4);
    }
}
