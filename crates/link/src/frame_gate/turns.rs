//! Whose turn it is where streams share a link that is too small for all of them.

use taut_wire::rtp::FrameKind;

use super::gate::Settings;
use super::stream::StreamKey;

/// Without this the first one would always win: of two cameras that are in step, the frames of the second always find the
/// link taken.
///
/// Start-time fair queueing (Goyal, Vin, Cheng 1996, section 2), of which the gate has no queue to serve from: a frame starts
/// at the stream's tag, or at the virtual time if that is later; the virtual time is the start of the frame that passed last, and
/// a stream's tag moves on by the bytes that pass. A frame that is refused because of what waits leaves a claim, the earliest
/// of which stands. A frame that starts later, at a moment at which that one would pass, stands back: once for each
/// claim, so that a stream that ended costs the others one frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Turns {
    /// Bytes.
    virtual_time: u64,
    claim: Option<Claim>,
    /// Claims that were made, ever: the number of this one.
    claims: u64,
}

/// A frame that was refused, or would pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) key: StreamKey,
    pub(super) start: u64,
    /// Whose room it needs.
    pub(super) class: FrameKind,
    pub(super) size: u64,
}

impl Turns {
    /// Where the next frame of a stream starts.
    pub(super) fn start(&self, tag: u64) -> u64 {
        self.virtual_time.max(tag)
    }

    /// Is there no room for the frame, or another's before it? It stands back only with its stream's memory of `yielded`.
    pub(super) fn refuses(
        &mut self,
        frame: &Claim,
        level: u64,
        settings: &Settings,
        yielded: Option<&mut u64>,
    ) -> bool {
        let room = settings.rooms[frame.class as usize];
        if !room.holds(level, frame.size) {
            if frame.size <= room.with {
                self.file(frame);
            }
            return true;
        }
        if yielded.is_some_and(|yielded| self.is_anothers(frame, level, settings, yielded)) {
            return true;
        }
        self.virtual_time = frame.start;
        if self.claim.is_some_and(|claim| claim.key == frame.key) {
            self.claim = None;
        }
        false
    }

    fn file(&mut self, frame: &Claim) {
        if self.claim.is_none_or(|claim| claim.key == frame.key || frame.start < claim.start) {
            self.claim = Some(*frame);
            self.claims += 1;
        }
    }

    fn is_anothers(&mut self, frame: &Claim, level: u64, settings: &Settings, yielded: &mut u64) -> bool {
        let Some(claim) = self.claim.filter(|claim| claim.key != frame.key && claim.start < frame.start)
        else {
            return false;
        };
        if !settings.rooms[claim.class as usize].holds(level, claim.size) {
            return false;
        }
        if *yielded == self.claims {
            // It had its time.
            self.claim = None;
            return false;
        }
        *yielded = self.claims;
        true
    }
}
