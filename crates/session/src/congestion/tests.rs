//! A path for the tests of laws.

use std::collections::VecDeque;

use taut_core::{Duration, Time};

use super::{Arrived, Congestion, Controller};

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

#[test]
fn what_went_to_an_earlier_peer_says_nothing_of_the_path_to_another() {
    for law in [Congestion::OwnQueue, Congestion::Scream { target: MS * 60 }, Congestion::Gcc] {
        let new = || Controller::new(law, true, false);
        let mut controller = new();
        let earlier = (0..100).map(|ms| controller.sent(Time::ZERO + MS * ms, 1_000, true)).last().unwrap();
        controller.restart(new());
        let now = Time::ZERO + MS * 200;
        let place = controller.sent(now, 1_000, true);
        assert_eq!(place, earlier + 1_000, "{law:?}: places go on");
        let before = format!("{controller:?}");
        let of = |place| Arrived { place, bytes: 1_000, sent: Time::ZERO, rtt: MS, there: Some(0) };
        controller.acknowledged(now, &of(earlier), || None);
        controller.seen(earlier - 1_000, 1_000);
        controller.lost(earlier);
        assert_eq!(format!("{controller:?}"), before, "{law:?}");
        controller.acknowledged(now, &of(place), || None);
        assert_ne!(format!("{controller:?}"), before, "{law:?}: its own counts");
    }
}
