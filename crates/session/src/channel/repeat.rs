//! Which frames are under way, and which of them are lost (after RFC 9002 section 6).

use std::collections::VecDeque;
use std::ops::Range;

use taut_core::{Duration, Time};
use taut_media::{LossShare, Way};

use super::Ready;
use super::acks::{LAZY, PROMPT};
use crate::latency::RoundTrip;

/// Bytes of a message, in a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fragment {
    /// The channel's place.
    pub(super) channel: usize,
    pub(super) sequence: u64,
    pub(super) range: Range<usize>,
}

/// A frame that was sent.
#[derive(Debug)]
pub(crate) struct Sent {
    number: u64,
    pub(crate) at: Time,
    /// All bytes that the end had sent with it, and its own.
    pub(crate) place: u64,
    pub(crate) bytes: u64,
    /// It was motion or feedback.
    pub(crate) live: bool,
    /// What it carried.
    pub(super) fragments: Vec<Fragment>,
    /// Of that, something goes again when it is lost.
    pub(super) repeated: bool,
    /// It tells what arrived.
    pub(super) tells: bool,
    /// Its fate is not known.
    waits: bool,
}

impl Sent {
    /// Its bytes, where it could have waited.
    fn can_wait(&self) -> u64 {
        if self.live { 0 } else { self.bytes }
    }
}

/// Frames whose fate is not known, in the order in which they were sent.
#[derive(Debug, Default)]
pub(super) struct UnderWay {
    /// Their numbers rise.
    frames: VecDeque<Sent>,
    /// Bytes of those whose fate is not known, and that could have waited.
    bytes: u64,
    /// The highest number that arrived.
    largest: u64,
    /// So often the timeout passed without an acknowledgement.
    doublings: u32,
    /// Of frames: where a transport repeats or holds back, they take longer than what the session measures by.
    round_trip: RoundTrip,
    /// Which share is lost, and the last that counted as lost: some arrive after all.
    loss: LossShare,
    /// The same, losses one after the other counted once: what fades or is cut for a moment loses many frames and is no sign of a queue more often than
    /// once (as RFC 5348 section 5.2 counts events).
    events: LossShare,
    /// The last that counted as lost.
    last_lost: u64,
    /// Their numbers rise.
    given_up: VecDeque<u64>,
    /// Of frames whose fate is known: empty, but for their room.
    spare: Vec<Vec<Fragment>>,
}

/// Of frames that count as lost, so many are remembered: an acknowledgement tells of no more.
const GIVEN_UP: usize = 64;
/// Frames that are remembered.
const KEPT: usize = 4096;
/// A frame is lost when one sent so many later has arrived (RFC 9002 section 6.1.1).
const REORDERED: u64 = 3;
const MOST_DOUBLINGS: u32 = 5;
const LONGEST: Duration = Duration::from_secs(2);

impl UnderWay {
    /// Bytes that could have waited and whose fate is not known.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// An empty list, for what the next frame carries.
    pub(super) fn spare_fragments(&mut self) -> Vec<Fragment> {
        self.spare.pop().unwrap_or_default()
    }

    /// It was dealt with.
    pub(super) fn give_back(&mut self, mut fragments: Vec<Fragment>) {
        fragments.clear();
        // An acknowledgement tells of no more frames.
        if self.spare.len() < GIVEN_UP {
            self.spare.push(fragments);
        }
    }

    /// A frame was sent at `at`, in its `place`; gives back one that was forgotten for it.
    pub(super) fn sent(
        &mut self,
        at: Time,
        ready: &Ready,
        (place, bytes): (u64, u64),
        (fragments, repeated, tells): (Vec<Fragment>, bool, bool),
    ) -> Option<Sent> {
        self.frames.push_back(Sent {
            number: ready.number,
            at,
            place,
            bytes,
            live: ready.live,
            fragments,
            repeated,
            tells,
            waits: true,
        });
        self.bytes += self.frames.back().map_or(0, Sent::can_wait);
        if self.frames.len() <= KEPT {
            return None;
        }
        let forgotten = self.frames.pop_front().filter(|frame| frame.waits)?;
        self.bytes -= forgotten.can_wait();
        Some(forgotten)
    }

    /// Its fate is known now.
    pub(super) fn take(&mut self, number: u64) -> Option<Sent> {
        // Most of what an acknowledgement tells, the one before it told as well.
        self.frames.front().filter(|first| first.number <= number)?;
        let at = self.frames.binary_search_by_key(&number, |frame| frame.number).ok()?;
        let frame = &mut self.frames[at];
        if !std::mem::take(&mut frame.waits) {
            return None;
        }
        self.bytes -= frame.can_wait();
        let fragments = std::mem::take(&mut frame.fragments);
        Some(Sent { fragments, ..*frame })
    }

    /// It arrived.
    pub(super) fn arrived(&mut self, number: u64) -> Option<Sent> {
        let sent = self.take(number);
        if sent.is_some() {
            self.loss.record(false);
            self.events.record(false);
        } else if self.given_up.back().is_some_and(|newest| number <= *newest)
            && let Ok(at) = self.given_up.binary_search(&number)
        {
            self.given_up.remove(at);
            self.loss.take_back();
            self.events.take_back();
        }
        sent
    }

    /// The share of frames that is lost, of those that follow one another the first alone.
    pub(super) fn loss_events(&self) -> f64 {
        self.events.get()
    }

    /// What the way is like for frames that are acknowledged soon; a lost one is noticed after `timeout` or longer. `None`: nothing came
    /// back yet.
    pub(super) fn way(&self, timeout: Duration) -> Option<Way> {
        let round_trip = self.round_trip.smoothed()?;
        let notice = timeout.max(self.round_trip.timeout()) + PROMPT.delay * 2;
        Some(Way { round_trip, notice, loss: self.loss.get() })
    }

    /// One took so long to be acknowledged.
    pub(super) fn took(&mut self, rtt: Duration) {
        self.round_trip.record(rtt);
    }

    /// Up to this one the peer has told what arrived.
    pub(super) fn acknowledged(&mut self, largest: u64) {
        self.largest = self.largest.max(largest);
        self.doublings = 0;
        self.trim();
    }

    fn trim(&mut self) {
        while self.frames.front().is_some_and(|frame| !frame.waits) {
            self.frames.pop_front();
        }
    }

    fn patience(&self, frame: &Sent, timeout: Duration) -> Duration {
        // The peer may take its time to acknowledge (RFC 9002 section 6.2.1).
        let delay = if frame.repeated { PROMPT.delay } else { LAZY.delay };
        let own = self.round_trip.smoothed().map_or(Duration::ZERO, |_| self.round_trip.timeout());
        let timeout = timeout.max(own) + delay * 2;
        timeout.saturating_mul(1 << self.doublings).min(LONGEST.max(timeout))
    }

    /// The next frame that is lost.
    pub(super) fn poll_lost(&mut self, now: Time, timeout: Duration) -> Option<Sent> {
        self.trim();
        let first = self.frames.front()?;
        let overtaken = first.number + REORDERED <= self.largest;
        if !overtaken {
            if now < first.at + self.patience(first, timeout) {
                return None;
            }
            self.doublings = (self.doublings + 1).min(MOST_DOUBLINGS);
        }
        let first = self.frames.pop_front()?;
        self.bytes -= first.can_wait();
        self.loss.record(true);
        if std::mem::replace(&mut self.last_lost, first.number) + 1 != first.number {
            self.events.record(true);
        }
        self.given_up.push_back(first.number);
        if self.given_up.len() > GIVEN_UP {
            self.given_up.pop_front();
        }
        Some(first)
    }

    /// When the first counts as lost.
    pub(super) fn due(&self, timeout: Duration) -> Option<Time> {
        let first = self.frames.iter().find(|frame| frame.waits)?;
        let overtaken = first.number + REORDERED <= self.largest;
        Some(if overtaken { first.at } else { first.at + self.patience(first, timeout) })
    }
}
