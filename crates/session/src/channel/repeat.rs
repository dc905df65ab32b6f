//! Which frames are under way, and which of them are lost (after RFC 9002 section 6).

use std::collections::VecDeque;

use taut_core::{Duration, Time};

use super::ACK_DELAY;

/// A part of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fragment {
    /// The channel's place.
    pub(super) channel: usize,
    pub(super) sequence: u64,
    pub(super) index: u16,
}

/// Frames whose fate is not known, in the order in which they were sent.
#[derive(Debug, Default)]
pub(super) struct UnderWay {
    /// Their numbers rise; `None`: its fate is known.
    frames: VecDeque<(u64, Time, Option<Fragment>)>,
    /// The highest number that arrived.
    largest: u64,
    /// So often the timeout passed without an acknowledgement.
    doublings: u32,
}

/// Frames that are remembered.
const KEPT: usize = 4096;
/// A frame is lost when one sent so many later has arrived (RFC 9002 section 6.1.1).
const REORDERED: u64 = 3;
const MOST_DOUBLINGS: u32 = 5;
const LONGEST: Duration = Duration::from_secs(2);

impl UnderWay {
    /// It was sent; gives back one that was forgotten for it.
    pub(super) fn sent(&mut self, now: Time, number: u64, fragment: Fragment) -> Option<Fragment> {
        self.frames.push_back((number, now, Some(fragment)));
        if self.frames.len() <= KEPT {
            return None;
        }
        self.frames.pop_front().and_then(|(_, _, fragment)| fragment)
    }

    /// Its fate is known now.
    pub(super) fn take(&mut self, number: u64) -> Option<Fragment> {
        let at = self.frames.binary_search_by_key(&number, |frame| frame.0).ok()?;
        self.frames[at].2.take()
    }

    /// Up to this one the peer has told what arrived.
    pub(super) fn acknowledged(&mut self, largest: u64) {
        self.largest = self.largest.max(largest);
        self.doublings = 0;
        self.trim();
    }

    fn trim(&mut self) {
        while self.frames.front().is_some_and(|frame| frame.2.is_none()) {
            self.frames.pop_front();
        }
    }

    fn patience(&self, timeout: Duration) -> Duration {
        // The peer may take its time to acknowledge (RFC 9002 section 6.2.1).
        let timeout = timeout + ACK_DELAY * 2;
        timeout.saturating_mul(1 << self.doublings).min(LONGEST.max(timeout))
    }

    /// The next frame that is lost.
    pub(super) fn poll_lost(&mut self, now: Time, timeout: Duration) -> Option<Fragment> {
        self.trim();
        let (number, sent, _) = *self.frames.front()?;
        let overtaken = number + REORDERED <= self.largest;
        if !overtaken {
            if now < sent + self.patience(timeout) {
                return None;
            }
            self.doublings = (self.doublings + 1).min(MOST_DOUBLINGS);
        }
        self.frames.pop_front().and_then(|(_, _, fragment)| fragment)
    }

    /// When the first counts as lost.
    pub(super) fn due(&self, timeout: Duration) -> Option<Time> {
        let first = self.frames.iter().find(|frame| frame.2.is_some())?;
        Some(if first.0 + REORDERED <= self.largest { first.1 } else { first.1 + self.patience(timeout) })
    }
}
