//! When to poll instead of sleeping.

use taut_core::{Duration, Time};

use super::DriverConfig;

/// Decides whether a thread goes on polling its sockets, by what arrived lately and by what polling cost.
#[derive(Debug)]
pub(super) struct BusyPoll {
    /// For so long after the last datagram, in any case.
    always: Duration,
    /// While datagrams are no further apart than this.
    adaptive: Duration,
    /// When the last datagram came.
    heard: Time,
    /// Between the times at which datagrams came, lately.
    gap: Duration,
    /// What others took of this CPU while it was polled, lately, and when that was counted.
    taken: Duration,
    counted: Time,
    /// Until then it is not polled because of the gap.
    off_until: Time,
    /// How long it will be off the next time.
    off: Duration,
}

/// Polling once takes some µs. When so much time has passed, somebody else had this CPU meanwhile.
const STOLEN: Duration = Duration::from_micros(200);
/// Two of the scheduler's slices: who wants the CPU takes one at each look. A thread that has work of some µs, and a
/// hypervisor, take less, and not at once again: one part in so many is forgotten.
const MUCH: Duration = Duration::from_millis(3);
const FORGOTTEN: u64 = 20;
/// A thread that does not get its CPU polls no more for so long; twice that the next time, up to the longest.
const OFF: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(10)];
/// What a silence counts for at most, so that traffic that begins is noticed within some twenty datagrams.
const SILENCE: Duration = Duration::from_millis(2);

impl BusyPoll {
    pub(super) const fn new(config: &DriverConfig) -> Self {
        Self {
            always: config.busy_poll,
            adaptive: config.adaptive_poll,
            heard: Time::ZERO,
            gap: SILENCE,
            taken: Duration::ZERO,
            counted: Time::ZERO,
            off_until: Time::ZERO,
            off: OFF[0],
        }
    }

    /// Something arrived.
    pub(super) fn heard(&mut self, now: Time) {
        let gap = now.saturating_since(self.heard).min(SILENCE);
        self.gap = (self.gap * 7 + gap) / 8;
        self.heard = now;
    }

    /// Is it worthwhile to look once more, rather than to sleep?
    pub(super) fn polls(&self, now: Time) -> bool {
        let silence = now.saturating_since(self.heard);
        let is_adaptive = self.gap <= self.adaptive && silence < self.adaptive * 2 && now >= self.off_until;
        is_adaptive || silence < self.always || self.always == Duration::MAX
    }

    /// Are others to have this CPU between two looks, and is it noticed?
    pub(super) const fn yields(&self) -> bool {
        !self.adaptive.is_zero()
    }

    /// It was looked in vain, from `before` until `now`; whoever else wanted this CPU has had it.
    pub(super) fn looked(&mut self, before: Time, now: Time) {
        let took = now.saturating_since(before);
        if took < STOLEN {
            if self.off > OFF[0] && now >= self.off_until + self.off {
                self.off = OFF[0];
            }
            return;
        }
        let forgotten = now.saturating_since(self.counted) / FORGOTTEN;
        self.taken = self.taken.saturating_sub(forgotten) + took;
        self.counted = now;
        if self.taken >= MUCH {
            self.taken = Duration::ZERO;
            self.off_until = now + self.off;
            self.off = (self.off * 2).min(OFF[1]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(micros: u64) -> Time {
        Time::ZERO + Duration::from_micros(micros)
    }

    /// Datagrams every `gap` µs until then.
    fn traffic(poll: &mut BusyPoll, gap: u64, until: u64) -> Time {
        let first = (poll.heard - Time::ZERO).as_nanos() / 1_000 + gap;
        for at in (first..=until).step_by(gap as usize) {
            poll.heard(micros(at));
        }
        poll.heard
    }

    fn adaptive() -> BusyPoll {
        BusyPoll::new(&DriverConfig::new().adaptive_poll(Duration::from_micros(200)))
    }

    #[test]
    fn it_polls_while_datagrams_are_close_and_sleeps_when_they_are_not() {
        let mut poll = adaptive();
        assert!(!poll.polls(micros(0)));
        let last = traffic(&mut poll, 100, 10_000);
        assert!(poll.polls(last + Duration::from_micros(399)));
        assert!(!poll.polls(last + Duration::from_micros(400)), "it has ended");
        let last = traffic(&mut poll, 1_000, 40_000);
        assert!(!poll.polls(last), "a thousand a second are not worth a CPU");
        let last = traffic(&mut poll, 100, 43_000);
        assert!(poll.polls(last), "thirty datagrams on");
    }

    #[test]
    fn a_cpu_that_others_want_is_left_to_them_for_longer_and_longer() {
        let mut poll = adaptive();
        let mut now = traffic(&mut poll, 100, 10_000);
        let mut off = Vec::new();
        for _ in 0..10 {
            let before = now;
            now += Duration::from_millis(3);
            poll.looked(before, now);
            let wait = (0..).map(|ms| Duration::from_millis(ms * 10)).find(|wait| {
                poll.heard = now + *wait;
                poll.polls(now + *wait)
            });
            off.push(wait.expect("some time it does").as_nanos() / 1_000_000);
            now += wait.expect("as above");
        }
        assert_eq!(off, [100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000, 10_000]);
        poll.looked(now, now + Duration::from_micros(5));
        assert_eq!(poll.off, OFF[1], "not at once");
        let later = now + OFF[1];
        poll.looked(later, later + Duration::from_micros(5));
        assert_eq!(poll.off, OFF[0]);
    }

    #[test]
    fn a_little_work_of_others_now_and_then_is_no_reason_to_sleep() {
        let mut poll = adaptive();
        let mut now = traffic(&mut poll, 100, 10_000);
        for _ in 0..100 {
            poll.looked(now, now + Duration::from_millis(1));
            now += Duration::from_millis(30);
        }
        assert_eq!(poll.off_until, Time::ZERO);
        (0..3).for_each(|_| poll.looked(now, now + Duration::from_millis(1)));
        assert!(poll.off_until > now, "at every look");
    }

    #[test]
    fn without_a_wish_it_never_polls_and_with_the_longest_always() {
        let mut poll = BusyPoll::new(&DriverConfig::new());
        let last = traffic(&mut poll, 10, 10_000);
        assert!(!poll.polls(last));
        let always = BusyPoll::new(&DriverConfig::new().busy_poll(Duration::MAX));
        assert!(always.polls(micros(1_000_000_000)));
    }
}
