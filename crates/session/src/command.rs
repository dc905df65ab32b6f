//! Commands that must arrive: repeated until they are acknowledged, over any transport.

use taut_core::{Deadline, Duration, Time};
use taut_wire::session::Command;

/// A command on its way. An emergency stop goes three times within milliseconds: one lost packet, or one that finds a queue
/// full, shall not cost a timeout. Then copies follow each other by the retransmission timeout, the first few without a
/// backoff, then twice as far apart each time, until they go ten times a second or once per timeout, whichever is less
/// often.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) kind: Kind,
    pub(crate) number: u64,
    pub(crate) created: Time,
    epoch: u32,
    copies: u32,
    next: Time,
    /// When the last copies were sent: an echo that is none of these measures nothing.
    sent: [Time; Pending::REMEMBERED],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    EmergencyStop,
    Reset,
    Resume,
}

impl Pending {
    const REMEMBERED: usize = 16;
    const BEFORE_BACKOFF: u32 = 4;
    /// Between the first copies of an emergency stop.
    const AT_ONCE: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(2)];
    const LONGEST: Duration = Duration::from_millis(100);
    /// Between copies that were asked for, at least.
    const APART: Duration = Duration::from_millis(10);

    pub(crate) fn new(now: Time, kind: Kind, number: u64, epoch: u32) -> Self {
        Self { kind, number, created: now, epoch, copies: 0, next: now, sent: [Time::MAX; Self::REMEMBERED] }
    }

    /// Is it this command, of the same stop? A reset or resume that ought to be answered by now is another: the robot judges it by its age.
    pub(crate) fn is(&self, now: Time, kind: Kind, epoch: u32, timeout: Duration) -> bool {
        let may_be_old = kind == Kind::EmergencyStop;
        (self.kind, self.epoch) == (kind, epoch)
            && (may_be_old || now.saturating_since(self.created) <= timeout)
    }

    /// How many copies were sent.
    pub(crate) fn copies(&self) -> u32 {
        self.copies
    }

    /// The next copy, if it is due.
    pub(crate) fn poll(&mut self, now: Time, timeout: Duration) -> Option<Command> {
        if now < self.next {
            return None;
        }
        self.sent[self.copies as usize % Self::REMEMBERED] = now;
        self.copies = self.copies.saturating_add(1);
        let at_once: &[Duration] = match self.kind {
            Kind::EmergencyStop => &Self::AT_ONCE,
            Kind::Reset | Kind::Resume => &[],
        };
        self.next = now
            + match at_once.get(self.copies as usize - 1) {
                Some(soon) => *soon,
                None => {
                    let regular = self.copies - at_once.len() as u32;
                    let doublings = regular.saturating_sub(Self::BEFORE_BACKOFF).min(16);
                    timeout.saturating_mul(1 << doublings).min(Self::LONGEST.max(timeout))
                }
            };
        Some(Command {
            command: self.number,
            epoch: self.epoch,
            created_ns: self.created.as_nanos(),
            sent_ns: now.as_nanos(),
        })
    }

    /// The next copy goes at once: there is a new connection, or it was asked for once more.
    pub(crate) fn hurry(&mut self, now: Time) {
        self.next = now;
    }

    /// The peer could not judge this one yet: the next copy goes as soon as it may.
    pub(crate) fn hurry_again(&mut self, now: Time) {
        let last = self.sent[(self.copies as usize + Self::REMEMBERED - 1) % Self::REMEMBERED];
        self.next = self.next.min(now.max(last + Self::APART));
    }

    /// The round trip of the copy whose time of sending is echoed; `resolution` is that of the echo, ns.
    pub(crate) fn round_trip(&self, now: Time, echo_ns: u64, resolution: u64) -> Option<Duration> {
        let echoed =
            |sent: &&Time| **sent < Time::MAX && sent.as_nanos() / resolution == echo_ns / resolution;
        self.sent.iter().find(echoed).and_then(|sent| now.checked_since(*sent))
    }

    pub(crate) fn poll_timeout(&self) -> Deadline {
        let why = match self.kind {
            Kind::EmergencyStop => "emergency stop",
            Kind::Reset => "reset",
            Kind::Resume => "resume",
        };
        Deadline::new(self.next, why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn copies_follow_the_timeout_and_then_thin_out() {
        let gaps = |kind| {
            let mut pending = Pending::new(Time::ZERO, kind, 1, 0);
            let mut gaps = Vec::new();
            for _ in 0..12 {
                let now = pending.poll_timeout().at;
                assert!(pending.poll(now, MS * 10).is_some() && pending.poll(now, MS * 10).is_none());
                gaps.push((pending.poll_timeout().at - now).as_nanos() / MS.as_nanos());
            }
            gaps
        };
        assert_eq!(gaps(Kind::Resume), [10, 10, 10, 10, 20, 40, 80, 100, 100, 100, 100, 100]);
        assert_eq!(gaps(Kind::EmergencyStop), [1, 2, 10, 10, 10, 10, 20, 40, 80, 100, 100, 100]);
    }

    #[test]
    fn a_copy_that_is_asked_for_goes_at_once_but_none_within_ten_milliseconds() {
        let mut pending = Pending::new(Time::ZERO, Kind::Resume, 1, 0);
        for begun in [0, 50, 100] {
            let now = Time::ZERO + MS * begun;
            assert!(pending.poll(now, MS * 150).is_some());
            pending.hurry_again(now + MS);
            assert_eq!(pending.poll_timeout().at, now + MS * 10);
            pending.poll(now + MS * 10, MS * 150);
            pending.hurry_again(now + MS * 50);
            assert_eq!(pending.poll_timeout().at, now + MS * 50);
        }
        pending.next = Time::ZERO + MS * 161;
        pending.hurry_again(Time::ZERO + MS * 900);
        assert_eq!(pending.poll_timeout().at, Time::ZERO + MS * 161, "it is due anyhow");
    }

    #[test]
    fn only_the_echo_of_a_copy_measures() {
        let mut pending = Pending::new(Time::ZERO + MS, Kind::Resume, 1, 0);
        pending.poll(Time::ZERO + MS, MS * 10);
        pending.poll(Time::ZERO + MS * 11, MS * 10);
        let now = Time::ZERO + MS * 15;
        assert_eq!(pending.round_trip(now, 11_000_000, 1), Some(MS * 4));
        assert_eq!(pending.round_trip(now, 1_000_000, 1), Some(MS * 14));
        assert_eq!(pending.round_trip(now, 1_000_001, 1), None);
        assert_eq!(pending.round_trip(now, 1_000_999, 1_000), Some(MS * 14));
    }
}
