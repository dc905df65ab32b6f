//! A path for the tests of laws.

use std::collections::VecDeque;

use taut_core::{Duration, Time};

use super::Arrived;

pub(super) const MS: Duration = Duration::from_millis(1);

/// What the path asks of a law: may a frame go, one goes, one has arrived.
pub(super) struct Verbs<L> {
    pub(super) admits: fn(&L, Time) -> bool,
    pub(super) sent: fn(&mut L, Time, u64, bool) -> u64,
    pub(super) acknowledged: fn(&mut L, Time, &Arrived),
}

/// Frames of 1000 B over a path that takes `service` for each and 20 ms besides: how many went in so long, and the longest wait.
pub(super) fn run<L>(
    law: &mut L,
    verbs: &Verbs<L>,
    service: Duration,
    from: Time,
    length: Duration,
) -> (u64, Duration) {
    let (mut under_way, mut free_at) = (VecDeque::new(), from);
    let (mut now, mut count, mut longest) = (from, 0, Duration::ZERO);
    while now < from + length {
        now += MS / 10;
        while let Some((at, sent, place)) = under_way.pop_front_if(|due: &mut (Time, Time, u64)| due.0 <= now)
        {
            let frame = Arrived { place, bytes: 1_000, sent, rtt: at - sent, there: None };
            (verbs.acknowledged)(law, at, &frame);
        }
        if (verbs.admits)(law, now) {
            let place = (verbs.sent)(law, now, 1_000, false);
            let begins = free_at.max(now);
            longest = longest.max(begins - now);
            free_at = begins + service;
            under_way.push_back((free_at + MS * 20, now, place));
            count += 1;
        }
    }
    (count, longest)
}
