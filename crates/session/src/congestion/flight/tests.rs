use super::*;
use std::collections::VecDeque;
use taut_core::{Rng, Seed};

const MS: Duration = Duration::from_millis(1);
const BYTES: u64 = 100;

/// A path with a queue: states are made every `period`, each takes `service`, then 20 ms until it is acknowledged.
struct Path {
    flight: Flight,
    now: Time,
    period: Duration,
    service: Duration,
    /// What others put into the queue.
    others: Duration,
    free_at: Time,
    /// When each will be acknowledged, when it was sent, its number, and what others did to it.
    under_way: VecDeque<(Time, Time, u64, Duration)>,
    lose: u64,
    /// How often all wait, and how long, to come at once after it.
    held_up: (Duration, Duration),
    waits: bool,
    /// The transport tells of its packets, whose round trips have nothing in them of what others did.
    tells: bool,
    /// The peer tells when a state came, by a clock that is an hour behind; what others do is on the way back.
    clock: bool,
    /// A state takes up to so much longer, by chance, and overtakes none.
    jitter: Duration,
    /// Packets of 1 ms that others send, at random: per mille of the path.
    load: u64,
    rng: Rng,
    /// A transport repeats what is lost: so many came to it that way and were told of, where it says what came.
    repeats: Option<u64>,
    longest: Duration,
    count: u64,
}

impl Path {
    fn new(service: Duration) -> Self {
        Self {
            flight: Flight::new(true, false),
            now: Time::ZERO + MS,
            period: MS,
            service,
            others: Duration::ZERO,
            free_at: Time::ZERO,
            under_way: VecDeque::new(),
            lose: u64::MAX,
            held_up: (MS, Duration::ZERO),
            waits: false,
            tells: false,
            clock: false,
            jitter: Duration::ZERO,
            load: 0,
            rng: Seed::new(1).stream("others"),
            repeats: None,
            longest: Duration::ZERO,
            count: 0,
        }
    }

    /// The states that go within so long, and the longest that one waits in the queue.
    fn run(&mut self, length: Duration) -> (u64, Duration) {
        (self.count, self.longest) = (0, Duration::ZERO);
        let end = self.now + length;
        while self.now < end {
            self.now += MS / 10;
            if self.rng.below(10_000) < self.load {
                self.free_at = self.free_at.max(self.now) + MS;
            }
            let (every, length) = self.held_up;
            let held_up = self.now.as_nanos() % every.as_nanos() < length.as_nanos();
            while let Some((at, sent, number, others)) =
                self.under_way.front().copied().filter(|due| due.0 <= self.now && !held_up)
            {
                self.under_way.pop_front();
                self.repeats = self.repeats.map(|told| told + 1);
                if !(number / BYTES).is_multiple_of(self.lose) {
                    let packet = self.tells.then(|| at - sent - others);
                    let heard = if length.is_zero() { at } else { self.now };
                    let there = (at - sent - others).as_nanos() as i64 - 3_600_000_000_000;
                    let there = self.clock.then_some(there);
                    let arrived = Arrived { place: number, bytes: BYTES, sent, rtt: heard - sent, there };
                    self.flight.acknowledged(heard, &arrived, || packet);
                }
            }
            if let Some(told) = self.repeats {
                let came = self.under_way.iter().filter(|due| due.0 <= self.now).count() as u64;
                self.flight.delivered(self.now, Some(told + came));
            }
            self.waits |= self.now.as_nanos().is_multiple_of(self.period.as_nanos());
            if self.waits && self.flight.admits(self.now) {
                self.waits = false;
                let number = self.flight.sent(self.now, BYTES, false);
                let begins = self.free_at.max(self.now);
                self.longest = self.longest.max(begins - self.now);
                self.free_at = begins + self.service;
                let last = self.under_way.back().map_or(Time::ZERO, |last| last.0);
                let jitter = Duration::from_nanos(self.rng.below(self.jitter.as_nanos().max(1)));
                let acknowledged = (self.free_at + self.others + MS * 20 + jitter).max(last);
                self.under_way.push_back((acknowledged, self.now, number, self.others));
                self.count += 1;
            }
        }
        (self.count, self.longest)
    }
}

#[test]
fn a_path_that_carries_all_holds_nothing_back_whatever_it_loses() {
    for lose in [20, u64::MAX] {
        let mut path = Path::new(MS / 2);
        path.lose = lose;
        assert_eq!(path.run(MS * 10_000).0, 10_000);
    }
}

#[test]
fn its_own_queue_goes_and_the_path_stays_busy() {
    for tells in [false, true] {
        let mut path = Path::new(Duration::from_micros(1_300));
        path.tells = tells;
        path.run(MS * 4_000);
        let (sent, longest) = path.run(MS * 20_000);
        assert!(sent > 13_800, "{sent} of 15384 that fit");
        assert!(longest <= MS * 3, "{longest}");
    }
}

#[test]
fn a_queue_on_the_way_back_holds_nothing_back_but_while_nothing_is_heard() {
    let mut path = Path::new(MS / 2);
    path.clock = true;
    path.run(MS * 1_000);
    path.others = MS * 80;
    let (sent, _) = path.run(MS * 20_000);
    assert!(sent > 19_900, "{sent}: some while the first came late");
    // One of its own beside that goes all the same.
    path.service = Duration::from_micros(1_300);
    path.run(MS * 4_000);
    let (sent, longest) = path.run(MS * 8_000);
    assert!(sent > 5_000, "{sent} of 6153 that fit");
    assert!(longest <= MS * 4, "{longest}");
}

#[test]
fn what_varies_by_chance_is_no_queue() {
    for clock in [false, true] {
        let mut path = Path::new(Duration::from_micros(1_300));
        (path.clock, path.jitter) = (clock, MS * 10);
        path.run(MS * 4_000);
        let (sent, longest) = path.run(MS * 20_000);
        assert!(sent > 12_000, "{sent} of 15384 that fit");
        assert!(longest <= MS * 60, "{longest} where without a window 4.6 s would wait");
        path.service = MS / 2;
        path.run(MS * 6_000);
        let (sent, _) = path.run(MS * 20_000);
        assert!(sent > 18_000, "{sent} of 20000");
    }
}

#[test]
fn what_comes_at_once_after_a_repetition_is_no_wider_path() {
    for held_up in [60, 120, 180, 240] {
        let mut path = Path::new(Duration::from_micros(1_900));
        (path.tells, path.held_up) = (true, (MS * 1_000, MS * held_up));
        path.run(MS * 6_000);
        let (sent, longest) = path.run(MS * 20_000);
        assert!(sent > 8_200, "{sent} of 10526 that fit");
        assert!(longest < MS * 4, "{longest}");
    }
}

#[test]
fn acknowledgements_that_come_in_bursts_keep_no_window() {
    for (every, length) in [(60, 50), (100, 90), (109, 99), (160, 150), (510, 500)] {
        let mut path = Path::new(Duration::from_micros(1_300));
        path.run(MS * 8_000);
        assert!(path.flight.window.is_some());
        (path.service, path.held_up) = (MS / 2, (MS * every, MS * length));
        path.run(MS * 8_000);
        let (sent, _) = path.run(MS * 20_000);
        assert!(sent > 19_000, "{sent} with bursts every {every} ms, {:?}", path.flight);
    }
}

#[test]
fn what_waits_for_repetitions_while_a_third_is_lost_is_no_queue() {
    let mut path = Path::new(MS / 2);
    (path.tells, path.lose) = (true, 3);
    path.run(MS * 1_000);
    path.others = MS * 40;
    let (sent, _) = path.run(MS * 20_000);
    assert!(sent > 19_900, "{sent}: some while the first came late");
}

#[test]
fn somebody_elses_queue_is_tried_seldom() {
    let mut path = Path::new(MS / 2);
    path.lose = 3;
    path.run(MS * 1_000);
    path.others = MS * 80;
    let (sent, _) = path.run(MS * 60_000);
    assert!((50_000..60_000).contains(&sent), "{sent}");
}

#[test]
fn a_trial_takes_as_long_as_the_queue_needs_to_go() {
    let mut path = Path::new(MS * 5);
    path.others = MS * 580;
    path.run(MS * 90_000);
    let (sent, longest) = path.run(MS * 30_000);
    assert!(longest < MS * 100, "{longest}");
    assert!(sent > 4_500, "{sent} of 6000 that fit");
}

#[test]
fn repetitions_that_take_their_time_are_no_queue() {
    let mut path = Path::new(MS / 2);
    path.tells = true;
    path.run(MS * 1_000);
    // As it looks when each state waits for the repetition of another.
    path.others = MS * 40;
    let (sent, _) = path.run(MS * 20_000);
    assert!(sent > 19_900, "{sent}: some while the first came late");
}

#[test]
fn somebody_elses_queue_takes_nothing_but_trials() {
    let mut path = Path::new(MS / 2);
    path.run(MS * 1_000);
    path.others = MS * 80;
    let (sent, _) = path.run(MS * 60_000);
    assert!(sent > 57_000, "{sent}");
}

#[test]
fn others_that_nearly_fill_the_path_leave_the_session_its_part() {
    // Of eight runs the median, and the worst.
    for (load, median, worst) in [(840, 59_000, 50_000), (890, 50_000, 30_000)] {
        let mut sent: Vec<u64> = (1..=8)
            .map(|seed| {
                let mut path = Path::new(MS / 10);
                (path.load, path.rng) = (load, Seed::new(seed).stream("others"));
                path.run(MS * 60_000).0
            })
            .collect();
        sent.sort_unstable();
        assert!(sent[4] > median && sent[0] > worst, "{sent:?} beside {load}");
    }
}

#[test]
fn a_path_that_becomes_wider_is_used_again() {
    let mut path = Path::new(MS * 5);
    path.run(MS * 8_000);
    path.service = MS / 2;
    path.run(MS * 3_000);
    let (sent, _) = path.run(MS * 1_000);
    assert!((990..=1_010).contains(&sent), "{sent}, {:?}", path.flight);
}

#[test]
fn a_queue_that_became_somebody_elses_is_left_to_them() {
    let mut path = Path::new(Duration::from_micros(1_300));
    path.run(MS * 8_000);
    assert!(path.flight.window.is_some());
    (path.service, path.others) = (MS / 2, MS * 80);
    path.run(MS * 4_000);
    let (sent, _) = path.run(MS * 40_000);
    assert!(sent > 37_000, "{sent}");
}

#[test]
fn a_window_that_never_empties_is_given_up() {
    let mut path = Path::new(Duration::from_micros(1_300));
    path.run(MS * 8_000);
    assert!(path.flight.window.is_some());
    // More than the window is under way even at half the rate, and that is no queue of states.
    (path.service, path.others) = (MS / 2, MS * 1_000);
    path.run(MS * 12_000);
    let (sent, _) = path.run(MS * 20_000);
    assert!(sent > 18_000, "{sent}, {:?}", path.flight);
}

#[test]
fn a_path_that_becomes_slower_is_not_filled() {
    for times in [2, 4, 10, 20] {
        let mut path = Path::new(Duration::from_micros(1_300));
        path.run(MS * 8_000);
        path.service = path.service * times;
        // What has piled up goes at half the rate.
        path.run(MS * 6_000);
        let (sent, longest) = path.run(MS * 8_000);
        assert!(longest < path.service * 2, "{longest} of states of {}", path.service);
        let fit = 6_153 / times;
        assert!(sent > fit * 3 / 4, "{sent} of {fit} that fit");
    }
}

#[test]
fn in_silence_states_go_at_a_quarter_of_the_rate() {
    let mut path = Path::new(MS * 5);
    path.run(MS * 3_000);
    path.under_way.clear();
    path.lose = 1;
    let (sent, _) = path.run(MS * 2_000);
    assert!((90..110).contains(&sent), "{sent} in two seconds where 200 a second arrived");
    assert!(path.flight.window.is_some());
}

/// A device makes a state every millisecond, of which a path carries nineteen in twenty and stands still once: what waits then is soon gone.
#[test]
fn what_is_made_while_the_network_stands_still_is_not_sent_into_it() {
    let mut path = Path::new(Duration::from_micros(950));
    path.run(MS * 3_000);
    path.free_at = path.now + MS * 140;
    let (sent, longest) = path.run(MS * 400);
    assert!(longest <= MS * 140, "{longest}");
    assert!((200..300).contains(&sent), "{sent} of 400");
    let (_, longest) = path.run(MS * 1_000);
    assert!(longest < MS * 20, "{longest} where without it 140 ms would wait for seconds");
}

/// What came waits for one that a transport repeats, for 140 ms of every second: the network carries all the while. Where it does not, that is silence.
#[test]
fn what_a_transport_repairs_is_no_silence_and_what_it_hears_nothing_of_is() {
    let mut path = Path::new(Duration::from_micros(950));
    (path.flight, path.repeats) = (Flight::new(true, true), Some(0));
    path.held_up = (MS * 1_000, MS * 140);
    path.run(MS * 3_000);
    assert_eq!(path.run(MS * 1_000).0, 1_000);
    path.held_up = (MS, Duration::ZERO);
    path.run(MS * 500);
    path.free_at = path.now + MS * 140;
    let (sent, longest) = path.run(MS * 400);
    assert!(longest <= MS * 140, "{longest}");
    assert!((200..300).contains(&sent), "{sent} of 400");
}

/// A wide path, feedback each millisecond, and eight frames of a picture thirty times a second; the peer sleeps for `asleep` now and then.
/// What is left for pictures after a while, bytes per second.
fn left_beside_feedback(asleep: Duration) -> f64 {
    let mut flight = Flight::new(true, false);
    let mut under_way: VecDeque<(Time, Time, u64, u64)> = VecDeque::new();
    let (mut frames, mut waiting) = (0, 0);
    for tick in 10..100_000_u64 {
        let now = Time::ZERO + MS / 10 * tick;
        let sleeps = (now.as_nanos() + 7_000_000) % 50_000_000 < asleep.as_nanos();
        while let Some((at, sent, place, bytes)) =
            under_way.front().copied().filter(|due| due.0 <= now && !sleeps)
        {
            under_way.pop_front();
            frames -= if bytes > LONG { bytes } else { 0 };
            let there = Some((now.max(at) - sent).as_nanos() as i64 - 1_000_000);
            let arrived = Arrived { place, bytes, sent, rtt: now - sent, there };
            flight.acknowledged(now, &arrived, || None);
        }
        let mut go = |flight: &mut Flight, bytes, can_wait| {
            let place = flight.sent(now, bytes, can_wait);
            under_way.push_back((now + MS / 10, now, place, bytes));
        };
        if tick.is_multiple_of(10) && flight.admits(now) {
            flight.made(now, 105);
            go(&mut flight, 105, false);
        }
        waiting += if tick.is_multiple_of(333) { 8 } else { 0 };
        while waiting > 0 && flight.admits_more(now, Untold { bytes: frames, ..Untold::default() }) {
            (waiting, frames) = (waiting - 1, frames + 1_000);
            go(&mut flight, 1_000, true);
        }
    }
    flight.rate_left().unwrap()
}

#[test]
fn a_host_that_sleeps_is_no_narrow_path() {
    let awake = left_beside_feedback(Duration::ZERO);
    for asleep in [MS * 3 / 2, MS * 3, MS * 6, MS * 12] {
        let left = left_beside_feedback(asleep);
        assert!(left > 1_000_000.0, "{left:.0} B/s, asleep for {asleep}; awake {awake:.0}");
    }
}

/// Bytes a second of a long message on a way of 0.2 ms there and back that carries 50 MB/s. Its peer tells what arrived after eight frames, or 2 ms
/// after the first of them.
fn carried_on_a_short_way(told_after: Duration, told_bytes: u64) -> f64 {
    let (way, service) = (MS / 10, MS / 50);
    let mut flight = Flight::new(true, false);
    let (mut going, mut came) = (VecDeque::new(), Vec::new());
    let (mut now, mut free_at, mut since) = (Time::ZERO, Time::ZERO, Time::ZERO);
    let (mut untold, mut sent) = (Untold { bytes: 0, told_after, told_bytes }, 0);
    while now < Time::ZERO + Duration::from_secs(1) {
        now += service;
        while let Some(frame) = going.pop_front_if(|(_, _, arrives): &mut (u64, Time, Time)| *arrives <= now)
        {
            since = if came.is_empty() { now } else { since };
            came.push(frame);
        }
        if came.len() >= 8 || !came.is_empty() && now >= since + MS * 2 {
            for (place, sent, arrives) in came.drain(..) {
                let there = Some((arrives - sent).as_nanos() as i64);
                let arrived = Arrived { place, bytes: 1_000, sent, rtt: arrives - sent + way, there };
                flight.acknowledged(now, &arrived, || None);
                untold.bytes -= 1_000;
            }
        }
        while flight.admits_more(now, untold) {
            free_at = free_at.max(now) + service;
            going.push_back((flight.sent(now, 1_000, true), now, free_at + way));
            (untold.bytes, sent) = (untold.bytes + 1_000, sent + 1_000);
        }
    }
    sent as f64
}

#[test]
fn a_peer_that_waits_until_it_tells_slows_nothing_down_on_a_short_way() {
    let [before, now] =
        [(Duration::ZERO, 0), (MS * 2, 8_000)].map(|(told, bytes)| carried_on_a_short_way(told, bytes));
    assert!(now > 10_000_000.0, "{now:.0} B/s, {before:.0} without knowing it");
}

/// A camera beside feedback, 5 ms each way; after four seconds the path is lost, and the other one takes twice as long. Bytes of the camera that are carried in the
/// quarter of a second after that.
fn carried_over_the_longer_path(is_told: bool) -> u64 {
    let mut flight = Flight::new(true, false);
    let mut under_way = VecDeque::new();
    let (mut untold, mut waiting, mut carried) =
        (Untold { told_after: MS * 2, told_bytes: 8_000, bytes: 0 }, 0_u32, 0);
    for tick in 0..42_500_u64 {
        let now = Time::ZERO + MS / 10 * tick;
        let way = MS * if tick < 40_000 { 5 } else { 10 };
        if tick == 40_000 && is_told {
            flight.lost_path(now);
        }
        while let Some((_, sent, place, bytes)) =
            under_way.pop_front_if(|due: &mut (Time, Time, u64, u64)| due.0 <= now)
        {
            untold.bytes -= if bytes > LONG { bytes } else { 0 };
            let there = Some(((now - sent) / 2).as_nanos() as i64);
            flight.acknowledged(now, &Arrived { place, bytes, sent, rtt: now - sent, there }, || None);
        }
        let mut go = |flight: &mut Flight, bytes, can_wait| {
            let place = flight.sent(now, bytes, can_wait);
            under_way.push_back((now + way * 2, now, place, bytes));
        };
        if tick.is_multiple_of(10) && flight.admits(now) {
            flight.made(now, 105);
            go(&mut flight, 105, false);
        }
        waiting += if tick.is_multiple_of(333) { 8 } else { 0 };
        while waiting > 0 && flight.admits_more(now, untold) {
            (waiting, untold.bytes) = (waiting - 1, untold.bytes + 1_000);
            carried += if tick >= 40_000 { 1_000 } else { 0 };
            go(&mut flight, 1_000, true);
        }
        if waiting == 0 {
            flight.ran_dry(now);
        }
    }
    carried
}

#[test]
fn a_longer_path_that_takes_over_is_no_queue() {
    let [held_back, told] = [false, true].map(carried_over_the_longer_path);
    assert!(told >= 48_000 && held_back < told, "{told} B, {held_back} if nobody tells");
}

/// A camera beside joints at 1 kHz, all of which can wait, on a way of 0.1 ms. In the second second the host is busy: nothing is told within `late`, and of
/// each tenth of a second no joints are made for `asleep`, and those come at once. Joints that go in it.
fn joints_beside_a_busy_host(late: Duration, asleep: Duration) -> usize {
    let mut flight = Flight::new(true, false);
    let mut rng = Seed::new(1).stream("host");
    let mut under_way = VecDeque::new();
    let (mut bytes, mut made, mut joints, mut pictures, mut gone) = (0, 0, 0_u64, 0, 0);
    for tick in 0..40_000_u64 {
        let now = Time::ZERO + MS / 20 * tick;
        while let Some((_, sent, place, frame)) =
            under_way.pop_front_if(|due: &mut (Time, Time, u64, u64)| due.0 <= now)
        {
            bytes -= frame;
            let there = Some((now - sent).as_nanos() as i64 - 1_000_000);
            let arrived = Arrived { place, bytes: frame, sent, rtt: now - sent, there };
            flight.acknowledged(now, &arrived, || None);
        }
        let sleeps = tick >= 20_000 && MS / 20 * (tick % 2_000) < asleep;
        made += u64::from(tick.is_multiple_of(20));
        joints += if sleeps { 0 } else { std::mem::take(&mut made) };
        pictures += if tick.is_multiple_of(2_000) && tick < 20_000 { 300 } else { 0 };
        let least = if tick < 20_000 { Duration::ZERO } else { late };
        let untold = |bytes| Untold { bytes, told_after: MS * 2, told_bytes: 8_000 };
        while joints + pictures > 0 && flight.admits_more(now, untold(bytes)) {
            let frame = if joints > 0 { 400 } else { 1_000 };
            let place = flight.sent(now, frame, true);
            let told = now + MS / 10 + least + Duration::from_nanos(rng.below(least.as_nanos().max(1)));
            let last = under_way.back().map_or(Time::ZERO, |last: &(Time, Time, u64, u64)| last.0);
            under_way.push_back((told.max(last), now, place, frame));
            gone += usize::from(joints > 0 && tick >= 20_000);
            (bytes, pictures) = (bytes + frame, pictures - u64::from(joints == 0));
            joints = joints.saturating_sub(1);
        }
        if joints + pictures == 0 {
            flight.ran_dry(now);
        }
    }
    gone
}

#[test]
fn a_busy_host_is_no_narrow_path_for_the_little_that_goes_meanwhile() {
    for late in [Duration::ZERO, MS * 3 / 2, MS * 4, MS * 10] {
        for asleep in [0, 20, 50, 80] {
            let gone = joints_beside_a_busy_host(late, MS * asleep);
            assert!(
                gone >= 990,
                "{gone} of 1000 where nothing is told within {late}, asleep for {asleep} ms"
            );
        }
    }
}
