//! What Linux's Multipath TCP does, 6.1 (`net/mptcp/protocol.c`, `pm.c` and `pm_netlink.c`): which subflow takes data, when what
//! is missing goes again, and when a subflow is stale. Windows are not coupled there.

use std::collections::VecDeque;

use taut_core::{Duration, Time};

/// A subflow that was chosen takes so many bytes before the choice is made anew (`MPTCP_SEND_BURST_SIZE`).
const BURST: i64 = 65_428;
/// A subflow from which nothing came while the timer expired more often than this is stale (`net.mptcp.stale_loss_cnt`).
const STALE_LOSSES: u32 = 4;
/// The timer's interval while no subflow has a timer of its own (`TCP_RTO_MIN`).
const INTERVAL: Duration = Duration::from_millis(200);
/// How often the clock of the kernel compared with ticks: no timer is shorter.
const JIFFY: Duration = Duration::from_millis(10);

/// A subflow as the rules see it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    /// Neither gone nor unconnected.
    pub(super) open: bool,
    /// Bytes that it was given and the peer has not acknowledged.
    pub(super) queued: u64,
    /// Bytes a second that its window stands for.
    pub(super) pace: f64,
    /// When its retransmission timer or its probe expires.
    pub(super) expires: Option<Time>,
    /// When something came from it last.
    pub(super) heard: Time,
}

/// How a subflow fares.
#[derive(Clone, Copy, Debug, Default)]
struct Health {
    /// Expiries of the timer in a row that found it with data under way, and nothing heard.
    losses: u32,
    heard: Time,
    stale: bool,
}

/// What happens when the timer expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    /// Nothing: every subflow has data under way.
    Nothing,
    /// The oldest piece goes over this subflow too, one piece for each expiry.
    Oldest(usize),
    /// A subflow is stale: everything that is not acknowledged goes again, over those that are not.
    Everything,
}

/// The connection's own state above its subflows.
#[derive(Debug, Default)]
pub(super) struct Linux {
    /// The pieces that the peer has not acknowledged in order: number, bytes, and whether it has this one.
    pub(super) kept: VecDeque<(u64, Vec<u8>, bool)>,
    pub(super) timer: Option<Time>,
    interval: Duration,
    last: Option<(usize, i64)>,
    health: Vec<Health>,
}

impl Linux {
    /// The subflow for the next piece (`mptcp_subflow_get_send`): the last one until its burst is over, then the one that
    /// would have sent what it holds the soonest. Its window is not asked, only its buffer, by who offers it a piece.
    pub(super) fn choose(&mut self, now: Time, paths: &[Path]) -> Option<usize> {
        self.health.resize(paths.len(), Health::default());
        self.revive(paths);
        self.interval = self.timeout(now, paths);
        let usable = |place: usize| paths[place].open && !self.health[place].stale;
        let (place, left) = match self.last {
            Some((place, left)) if left > 0 && usable(place) => (place, left),
            _ => {
                let linger = |place: &usize| paths[*place].queued as f64 / paths[*place].pace.max(1.0);
                let open = (0..paths.len()).filter(|place| usable(*place));
                (open.min_by(|a, b| linger(a).total_cmp(&linger(b)))?, BURST)
            }
        };
        self.last = Some((place, left));
        Some(place)
    }

    /// The subflow that was chosen took so many bytes of its burst.
    pub(super) fn took(&mut self, bytes: u64) {
        self.last.iter_mut().for_each(|(_, left)| *left -= bytes as i64);
    }

    /// A piece is under way for the first time; numbers follow each other.
    pub(super) fn sent(&mut self, now: Time, number: u64, piece: Vec<u8>) {
        self.kept.push_back((number, piece, false));
        self.timer.get_or_insert(now + self.interval);
    }

    /// This subflow is another one now.
    pub(super) fn forget(&mut self, place: usize) {
        self.last = self.last.filter(|(last, _)| *last != place);
        if let Some(health) = self.health.get_mut(place) {
            *health = Health::default();
        }
    }

    /// The peer has these pieces. Its acknowledgement is one number, and starts the timer anew where it moves.
    pub(super) fn acknowledged(&mut self, now: Time, numbers: &[u64]) {
        let first = self.kept.front().map_or(0, |kept| kept.0);
        for number in numbers.iter().filter(|number| **number >= first) {
            if let Some(kept) = self.kept.get_mut((number - first) as usize) {
                kept.2 = true;
            }
        }
        let before = self.kept.len();
        while self.kept.pop_front_if(|kept| kept.2).is_some() {}
        if self.kept.is_empty() {
            self.timer = None;
        } else if self.kept.len() < before {
            self.timer = Some(now + self.interval);
        }
    }

    /// The timer expired (`__mptcp_retrans`).
    pub(super) fn expired(&mut self, now: Time, paths: &[Path]) -> Again {
        self.health.resize(paths.len(), Health::default());
        self.timer = Some(now + self.interval);
        let (mut again, mut everything) = (Again::Nothing, false);
        for (place, path) in paths.iter().enumerate().filter(|(_, path)| path.open) {
            if path.queued > 0 {
                everything |= self.look_at(place, paths);
            } else if again == Again::Nothing {
                again = Again::Oldest(place);
            }
        }
        if everything { Again::Everything } else { again }
    }

    /// A subflow with data under way, when the timer expires (`mptcp_pm_subflow_chk_stale`); whether it becomes stale now.
    fn look_at(&mut self, place: usize, paths: &[Path]) -> bool {
        let heard = paths[place].heard;
        let health = &mut self.health[place];
        if health.losses == 0 {
            *health = Health { losses: 1, heard, stale: health.stale };
            return false;
        }
        if health.heard != heard {
            *health = Health::default();
            return false;
        }
        health.losses += 1;
        if health.stale || health.losses <= STALE_LOSSES {
            return false;
        }
        let better = |(other, health): (usize, &Health)| {
            other != place && paths[other].open && !health.stale && health.losses < STALE_LOSSES - 1
        };
        let stale = self.health.iter().enumerate().any(better);
        self.health[place].stale = stale;
        if stale {
            self.last = None;
        }
        stale
    }

    /// A stale subflow that something came from is one as any other (`mptcp_subflow_active`).
    fn revive(&mut self, paths: &[Path]) {
        for (health, path) in self.health.iter_mut().zip(paths) {
            if health.stale && health.heard != path.heard {
                *health = Health::default();
            }
        }
    }

    /// The longest that a subflow in good health still waits (`mptcp_set_timeout`).
    fn timeout(&self, now: Time, paths: &[Path]) -> Duration {
        let healthy = paths.iter().zip(&self.health).filter(|(path, health)| path.open && health.losses == 0);
        let left = healthy.filter_map(|(path, _)| path.expires).map(|at| at.saturating_since(now));
        left.max().filter(|left| !left.is_zero()).map_or(INTERVAL, |left| left.max(JIFFY))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(queued: u64) -> Path {
        Path { open: true, queued, pace: 1e6, expires: None, heard: Time::ZERO }
    }

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn a_subflow_is_kept_for_a_burst_and_then_the_emptier_one_is_taken() {
        let (mut linux, paths) = (Linux::default(), [path(5_000), path(0)]);
        let take = |linux: &mut Linux, paths: &[Path]| {
            let place = linux.choose(at(0), paths);
            linux.took(1_000);
            place
        };
        assert_eq!(take(&mut linux, &paths[..1]), Some(0));
        let chosen: Vec<_> = (0..66).filter_map(|_| take(&mut linux, &paths)).collect();
        assert_eq!(
            chosen.iter().position(|place| *place == 1),
            Some(65),
            "65,428 bytes and what goes beyond"
        );
    }

    #[test]
    fn five_silent_expiries_make_a_subflow_stale_and_a_word_from_it_ends_that() {
        let (mut linux, mut paths) = (Linux::default(), [path(100), path(0)]);
        assert_eq!(linux.choose(at(0), &paths), Some(1));
        linux.last = Some((0, BURST));
        let expiries = [(); 5].map(|()| linux.expired(at(200), &paths));
        assert_eq!(expiries, [[Again::Oldest(1); 4].as_slice(), &[Again::Everything]].concat()[..]);
        assert_eq!(linux.choose(at(900), &paths), Some(1), "nothing goes over a stale one");
        paths[0] = Path { heard: at(901), queued: 0, ..paths[0] };
        paths[1].queued = 100;
        linux.last = None;
        assert_eq!(linux.choose(at(902), &paths), Some(0));
    }

    #[test]
    fn the_timer_lasts_a_tick_however_soon_that_of_the_subflow_expires() {
        for (expires, timer) in [(0, 200), (1, 10), (9, 10), (30, 30)] {
            let (mut linux, path) = (Linux::default(), Path { expires: Some(at(expires)), ..path(100) });
            assert_eq!(linux.choose(at(0), &[path]), Some(0));
            linux.sent(at(0), 0, vec![0]);
            assert_eq!(linux.timer, Some(at(timer)), "{expires}");
            assert_eq!(linux.expired(at(timer), &[path]), Again::Nothing);
            assert_eq!(linux.timer, Some(at(2 * timer)), "{expires}");
        }
    }

    #[test]
    fn nothing_goes_again_while_every_subflow_has_data_under_way() {
        let mut linux = Linux::default();
        assert_eq!(linux.expired(at(200), &[path(1), path(1)]), Again::Nothing);
    }

    #[test]
    fn the_timer_starts_anew_only_when_the_oldest_piece_is_acknowledged() {
        let mut linux = Linux::default();
        assert_eq!(linux.choose(at(0), &[path(0)]), Some(0));
        (0..3).for_each(|number| linux.sent(at(0), number, vec![0]));
        linux.acknowledged(at(50), &[1, 2]);
        assert_eq!(linux.timer, Some(at(200)));
        linux.acknowledged(at(60), &[0]);
        assert_eq!((linux.timer, linux.kept.len()), (None, 0));
    }
}
