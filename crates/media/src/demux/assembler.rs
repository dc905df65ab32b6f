//! Puts the frames of one medium together.

use taut_core::{Bytes, DropCause, Time, nearest};
use taut_wire::media::{FragmentRepr, Part};

/// What became of the frames of one medium.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameStats {
    /// Arrived whole.
    pub complete: u64,
    /// Arrived in part and were given up.
    pub incomplete: u64,
    /// Of which nothing came before a frame that was a whole window later.
    pub missing: u64,
    /// Have arrived in part and may yet be completed.
    pub pending: u64,
}

/// What a fragment did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The frame is not whole yet.
    Kept,
    /// It is.
    Complete { sequence: u64, created: Time, size: Bytes },
    /// The fragment is of no use.
    Refused(DropCause),
}

/// A sliding window of frames.
#[derive(Clone, Debug)]
pub(super) struct Assembler {
    slots: Vec<Slot>,
    newest: Option<u64>,
    first: u64,
    frame_max: u64,
    stats: FrameStats,
}

#[derive(Clone, Debug, Default)]
struct Slot {
    sequence: Option<u64>,
    created: Option<Time>,
    end: Option<u32>,
    /// Bytes that have come, as ranges in order, neither touching nor overlapping.
    ranges: Vec<(u32, u32)>,
    complete: bool,
    data: Vec<u8>,
}

impl Assembler {
    pub(super) fn new(window: usize, frame_max: Bytes) -> Self {
        let slots = vec![Slot::default(); window];
        Self { slots, newest: None, first: 0, frame_max: frame_max.get(), stats: FrameStats::default() }
    }

    pub(super) const fn stats(&self) -> FrameStats {
        self.stats
    }

    pub(super) fn data(&self, sequence: u64) -> Option<&[u8]> {
        let slot = &self.slots[self.index(sequence)];
        (slot.sequence == Some(sequence) && slot.complete).then_some(&slot.data)
    }

    /// Takes a fragment and as many of its bytes as were stored.
    pub(super) fn insert(&mut self, fragment: &FragmentRepr, stored: &[u8]) -> Outcome {
        let begin = fragment.part.offset();
        let Some(end) = begin.checked_add(fragment.length).filter(|end| u64::from(*end) <= self.frame_max)
        else {
            return Outcome::Refused(DropCause::Malformed);
        };
        let Some(sequence) = self.enter(fragment.frame) else { return Outcome::Refused(DropCause::TooLate) };
        let index = self.index(sequence);
        let slot = &mut self.slots[index];
        if slot.sequence.is_none() {
            slot.reset(sequence);
            self.stats.pending += 1;
        }
        if slot.complete {
            return Outcome::Refused(DropCause::Duplicate);
        }
        if let Err(cause) = slot.add(fragment, begin, end) {
            return Outcome::Refused(cause);
        }
        slot.store(begin as usize, stored);
        let (Some(created), Some(size)) = (slot.created, slot.whole_size()) else { return Outcome::Kept };
        slot.complete = true;
        self.stats.pending -= 1;
        self.stats.complete += 1;
        Outcome::Complete { sequence, created, size: Bytes::new(u64::from(size)) }
    }

    /// Makes room for a frame by giving up those a whole window older. `None`: it is itself that old.
    fn enter(&mut self, low: u32) -> Option<u64> {
        let Some(newest) = self.newest else {
            (self.newest, self.first) = (Some(u64::from(low)), u64::from(low));
            return Some(u64::from(low));
        };
        let window = self.slots.len() as u64;
        let sequence = nearest(newest, low, 32)?;
        if sequence > newest {
            let ahead = sequence - newest;
            (newest + 1..=newest + ahead.min(window)).for_each(|entering| self.leave(entering));
            // Frames that a jump leaves behind without ever having been inside.
            self.stats.missing += ahead.saturating_sub(window);
            self.newest = Some(sequence);
        } else if newest - sequence >= window {
            return None;
        }
        self.first = self.first.min(sequence);
        Some(sequence)
    }

    /// The frame one window before `entering` leaves.
    fn leave(&mut self, entering: u64) {
        let leaving = entering.checked_sub(self.slots.len() as u64);
        let index = self.index(entering);
        let slot = &mut self.slots[index];
        match slot.sequence.take() {
            Some(_) if slot.complete => {}
            Some(_) => {
                self.stats.pending -= 1;
                self.stats.incomplete += 1;
            }
            None => self.stats.missing += u64::from(leaving.is_some_and(|leaving| leaving >= self.first)),
        }
    }

    fn index(&self, sequence: u64) -> usize {
        (sequence % self.slots.len() as u64) as usize
    }
}

impl Slot {
    /// More holes than this in one frame are an attack, not a network.
    const RANGES_MAX: usize = 64;

    fn reset(&mut self, sequence: u64) {
        self.sequence = Some(sequence);
        self.created = None;
        self.end = None;
        self.complete = false;
        self.ranges.clear();
        self.data.clear();
    }

    /// Notes where the fragment lies, or why it cannot lie there.
    fn add(&mut self, fragment: &FragmentRepr, begin: u32, end: u32) -> Result<(), DropCause> {
        let reached = self.ranges.last().map_or(0, |range| range.1).max(end);
        let known_end = if fragment.last { Some(end) } else { self.end };
        if self.end.is_some_and(|known| fragment.last && known != end)
            || known_end.is_some_and(|known| reached > known)
        {
            return Err(DropCause::Malformed);
        }
        if self.ranges.iter().any(|&(from, to)| from <= begin && end <= to && begin < end) {
            return Err(DropCause::Duplicate);
        }
        self.merge(begin, end)?;
        self.end = known_end;
        if let Part::First { created } = fragment.part {
            self.created = Some(created);
        }
        Ok(())
    }

    fn merge(&mut self, begin: u32, end: u32) -> Result<(), DropCause> {
        // In order, the usual case: the last range grows.
        if let Some(last) = self.ranges.last_mut()
            && last.1 == begin
        {
            last.1 = end;
            return Ok(());
        }
        let from = self.ranges.partition_point(|range| range.1 < begin);
        let to = self.ranges.partition_point(|range| range.0 <= end);
        if from == to {
            if self.ranges.len() == Self::RANGES_MAX {
                return Err(DropCause::Malformed);
            }
            self.ranges.insert(from, (begin, end));
        } else {
            self.ranges[from] = (begin.min(self.ranges[from].0), end.max(self.ranges[to - 1].1));
            self.ranges.drain(from + 1..to);
        }
        Ok(())
    }

    fn store(&mut self, begin: usize, stored: &[u8]) {
        if !stored.is_empty() {
            let end = begin + stored.len();
            if self.data.len() < end {
                self.data.resize(end, 0);
            }
            self.data[begin..end].copy_from_slice(stored);
        }
    }

    /// The frame's length, when all of it is there.
    fn whole_size(&self) -> Option<u32> {
        self.end.filter(|&end| self.ranges.first() == Some(&(0, end)))
    }
}
