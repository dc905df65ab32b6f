//! Acknowledgements of states: they wait for feedback to take them along.

use taut_core::{Deadline, Duration, Time};
use taut_wire::session::Ack;

use crate::window::Window;

/// The acknowledgement that waits, and when the last one went.
#[derive(Debug)]
pub(super) struct Acks {
    /// Feedback can take one along.
    along: bool,
    held: Option<HeldAck>,
    last: Time,
    last_feedback: Time,
}

/// An acknowledgement that waits for a newer one to take its place, until when.
#[derive(Clone, Copy, Debug)]
struct HeldAck {
    ack: Ack,
    stream: u8,
    /// The first state that nothing but this one tells of.
    oldest: u64,
    due: Time,
}

/// While there was feedback so lately, an acknowledgement waits so long for the next: it travels in there without a packet of its own.
const FEEDS_BACK: Duration = Duration::from_millis(3);
const TAKEN_ALONG: Duration = Duration::from_millis(2);
/// And where feedback is held back: packets of acknowledgements alone would take what that leaves free on the path.
const FEEDS_BACK_SELDOM: Duration = Duration::from_millis(100);
const TAKEN_ALONG_SELDOM: Duration = Duration::from_millis(5);
/// How far back an acknowledgement may tell: half of what it could, in case that the next is lost.
const COVERED: u64 = 16;
/// How far back it can.
const SEEN: u64 = 32;

impl Acks {
    pub(super) fn new(along: bool) -> Self {
        Self { along, held: None, last: Time::ZERO, last_feedback: Time::ZERO }
    }

    pub(super) fn forget(&mut self) {
        self.held = None;
    }

    pub(super) fn poll_timeout(&self) -> Option<Deadline> {
        self.held.map(|held| Deadline::new(held.due, "acknowledgement"))
    }

    pub(super) fn is_due(&self, now: Time) -> bool {
        self.held.is_some_and(|held| held.due <= now)
    }

    /// Can the one that waits not be told of by this one? One acknowledgement tells of those before it as well, but that they were
    /// taken, and when, only of one. The one that waits may have taken the place of others: a robot that was late gets many states at
    /// one time.
    pub(super) fn is_full(&self, ack: &Ack) -> bool {
        let covers = |held: &HeldAck| {
            let further = ack.sequence.wrapping_sub(held.ack.sequence);
            (1..=COVERED).contains(&further) && ack.sequence.wrapping_sub(held.oldest) <= SEEN
        };
        !self.held.as_ref().is_none_or(covers)
    }

    /// It waits from now on, in the place of one that it tells of; it goes no sooner than `spacing` after the last one, and where feedback is held back
    /// waits for that for longer. True: it is due at once.
    pub(super) fn hold(
        &mut self,
        now: Time,
        ack: Ack,
        stream: u8,
        spacing: Duration,
        is_held_back: bool,
    ) -> bool {
        let (oldest, due) = match &self.held {
            Some(held) => (held.oldest, held.due),
            None => (ack.sequence, self.next(now, spacing, is_held_back)),
        };
        self.held = Some(HeldAck { ack, stream, oldest, due });
        now >= due
    }

    /// When one goes that begins to wait: at once where the last one is long ago, unless feedback is about to take it along.
    fn next(&self, now: Time, spacing: Duration, is_held_back: bool) -> Time {
        let spaced = self.last + spacing;
        let (lately, waits) =
            if is_held_back { (FEEDS_BACK_SELDOM, TAKEN_ALONG_SELDOM) } else { (FEEDS_BACK, TAKEN_ALONG) };
        let feeds_back = self.along && now.saturating_since(self.last_feedback) < lately;
        if feeds_back { spaced.max(now + waits) } else { spaced }
    }

    /// The one that waits, as it is at `now`, and its stream.
    pub(super) fn take(&mut self, now: Time, window: &Window) -> Option<(Ack, u8)> {
        let HeldAck { mut ack, stream, .. } = self.held.take()?;
        let held = now.as_nanos().saturating_sub(ack.received_ns) / 1_000;
        ack.held_us = held.min(u64::from(u16::MAX)) as u16;
        ack.seen = window.before(ack.sequence) as u32;
        self.last = now;
        Some((ack, stream))
    }

    /// The one that waits goes with feedback, where that can take it along.
    pub(super) fn take_along(&mut self, now: Time, window: &Window) -> Option<Ack> {
        self.last_feedback = now;
        if self.along { self.take(now, window).map(|(ack, _)| ack) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use taut_wire::session::{RobotState, StopCause, Verdict};

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// When an acknowledgement that comes `after` the last feedback goes alone.
    fn due(after: Duration, is_held_back: bool) -> Duration {
        let (start, window) = (Time::ZERO + MS * 1_000, Window::default());
        let mut acks = Acks::new(true);
        acks.take_along(start, &window);
        let ack = Ack {
            sequence: 1,
            echo_ns: 0,
            received_ns: 0,
            held_us: 0,
            seen: 0,
            epoch: 0,
            verdict: Verdict::Taken,
            state: RobotState::Enabled,
            cause: StopCause::Start,
        };
        let now = start + after;
        let at_once = acks.hold(now, ack, 2, Duration::ZERO, is_held_back);
        let due = acks.poll_timeout().map_or(Duration::ZERO, |due| due.at.saturating_since(now));
        assert_eq!(at_once, due.is_zero());
        due
    }

    #[test]
    fn acknowledgements_wait_longer_for_feedback_that_is_held_back_and_not_for_feedback_that_does_not_come() {
        assert_eq!([due(MS, false), due(MS * 4, false)], [MS * 2, Duration::ZERO]);
        assert_eq!([due(MS, true), due(MS * 4, true), due(MS * 150, true)], [MS * 5, MS * 5, Duration::ZERO]);
    }
}
