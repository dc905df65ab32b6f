//! Which subflow takes the next piece of data.

use taut_core::Duration;

/// How pieces are spread over subflows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
#[cfg_attr(feature = "schema", serde(rename_all = "lowercase"))]
pub enum Scheduler {
    /// The subflow with the shortest round trip that has room in its window: the default of the first Multipath TCP for Linux
    /// (Paasch, Ferlin, Alay, Bonaventure, *Experimental Evaluation of Multipath TCP Schedulers*, CSWS 2014).
    #[default]
    MinRtt,
    /// Every piece on every subflow.
    Redundant,
    /// As `minrtt`, but a slow subflow is not used when its piece would block what the fast one could deliver
    /// meanwhile (Ferlin, Alay, Mehani, Boreli, *BLEST*, IFIP Networking 2016).
    Blest,
    /// As `minrtt`, but waits for the fast subflow when that completes sooner than the slow one would (Lim,
    /// Nahum, Towsley, Gibbens, *ECF*, CoNEXT 2017).
    Ecf,
    /// As Linux 6.1 does it (`net/mptcp`), which is not as its predecessor did: a subflow is kept for 64 kB, then that one is taken
    /// which empties its queue the soonest; what is missing goes again one piece at a time, when a timer of the connection expires,
    /// and all of it once a subflow was silent for five of these; no LIA.
    Linux,
}

/// A subflow as a scheduler sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    /// Bytes that its window still takes.
    pub(super) room: u64,
    pub(super) cwnd: u64,
    pub(super) in_flight: u64,
    pub(super) rtt: Duration,
    /// How far the round trip varies: RTTVAR of RFC 6298.
    pub(super) variation: Duration,
    pub(super) mss: u64,
    /// Its data is acknowledged.
    pub(super) usable: bool,
}

impl Scheduler {
    /// The subflow for the next piece of `size` bytes; `None`: none has room, or waiting is better. `waiting` bytes are to be
    /// sent, that piece's among them, `window` bytes the peer takes before it has the first that is missing.
    pub(super) fn choose(self, views: &[View], size: u64, waiting: u64, window: u64) -> Option<usize> {
        let usable = || (0..views.len()).filter(|i| views[*i].usable);
        let open = usable().filter(|i| views[*i].room >= views[*i].mss.min(size));
        let slow = open.min_by_key(|i| views[*i].rtt)?;
        let fast = usable().min_by_key(|i| views[*i].rtt)?;
        if slow == fast {
            return Some(fast);
        }
        let (f, s) = (views[fast], views[slow]);
        let wait = match self {
            Self::MinRtt | Self::Redundant | Self::Linux => false,
            Self::Blest => blocks(&f, &s, window),
            Self::Ecf => is_sooner(&f, &s, waiting),
        };
        (!wait).then_some(slow)
    }
}

/// Equation 1 of BLEST: what the fast subflow sends during a round trip of the slow one, its window growing by a segment a
/// round trip, does not fit beside what the slow one has.
fn blocks(fast: &View, slow: &View, window: u64) -> bool {
    let rounds = ratio(slow.rtt, fast.rtt);
    let (cwnd, mss) = (fast.cwnd as f64, fast.mss as f64);
    let sent = mss * (cwnd / mss + (rounds - 1.0) / 2.0) * rounds;
    sent > window as f64 - (slow.in_flight + slow.mss) as f64
}

/// Algorithm 1 of ECF, with β = 1/4 left out of the state: what waits is done on the fast subflow, one round trip from
/// now on, before the slow one is.
fn is_sooner(fast: &View, slow: &View, waiting: u64) -> bool {
    let rounds = 1.0 + waiting as f64 / fast.cwnd.max(1) as f64;
    let delta = fast.variation.max(slow.variation).as_secs_f64();
    let (quick, late) = (fast.rtt.as_secs_f64(), slow.rtt.as_secs_f64());
    let slow_rounds = (waiting as f64 / slow.cwnd.max(1) as f64).max(1.0);
    rounds * quick < late + delta && slow_rounds * late >= 2.0 * quick + delta
}

fn ratio(a: Duration, b: Duration) -> f64 {
    a.as_nanos() as f64 / b.as_nanos().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(rtt_ms: u64, room: u64) -> View {
        let (rtt, variation) = (Duration::from_millis(rtt_ms), Duration::from_millis(1));
        View { room, cwnd: 14_600, in_flight: 14_600 - room, rtt, variation, mss: 1_460, usable: true }
    }

    #[test]
    fn the_shortest_round_trip_with_room_is_taken() {
        let choose = |views: &[View]| Scheduler::MinRtt.choose(views, 1_460, 5_000, 1 << 20);
        assert_eq!(choose(&[view(40, 14_600), view(10, 14_600)]), Some(1));
        assert_eq!(choose(&[view(40, 14_600), view(10, 0)]), Some(0));
        assert_eq!(choose(&[view(40, 0), view(10, 0)]), None);
        assert_eq!(choose(&[view(40, 14_600), View { usable: false, ..view(10, 14_600) }]), Some(0));
    }

    #[test]
    fn ecf_waits_for_the_fast_subflow_when_little_is_left_and_blest_when_the_window_is_small() {
        let views = [view(100, 14_600), view(10, 0)];
        assert_eq!(Scheduler::Ecf.choose(&views, 1_460, 3_000, 1 << 20), None);
        assert_eq!(Scheduler::Ecf.choose(&views, 1_460, 2_000_000, 1 << 20), Some(0));
        assert_eq!(Scheduler::Blest.choose(&views, 1_460, 3_000, 100_000), None);
        assert_eq!(Scheduler::Blest.choose(&views, 1_460, 3_000, 1 << 20), Some(0));
        assert_eq!(Scheduler::MinRtt.choose(&views, 1_460, 3_000, 100_000), Some(0));
    }
}
