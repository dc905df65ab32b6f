//! What waits inside a multiplexer.

use std::collections::VecDeque;

use taut_core::{Duration, Medium, Sample, Time};
use taut_wire::media::{FragmentRepr, Part};

/// Haptic samples with their payloads: a ring of slots that are used again, so that a warm queue does not allocate.
#[derive(Clone, Debug)]
pub(super) struct SampleQueue {
    slots: Vec<Slot>,
    head: usize,
    len: usize,
}

#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) sample: Sample,
    pub(super) payload: Vec<u8>,
}

impl SampleQueue {
    pub(super) fn new(limit: usize) -> Self {
        let sample =
            Sample { medium: Medium::Haptic, sequence: 0, created: Time::ZERO, size: Default::default() };
        Self { slots: vec![Slot { sample, payload: Vec::new() }; limit], head: 0, len: 0 }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Adds a sample; its payload is filled with zeros up to its size. Gives back the oldest when there was no room.
    pub(super) fn push(&mut self, sample: Sample, payload: &[u8]) -> Option<Sample> {
        let superseded = if self.len == self.slots.len() { self.pop() } else { None };
        let at = self.place(self.len);
        let slot = &mut self.slots[at];
        slot.sample = sample;
        slot.payload.clear();
        slot.payload.extend_from_slice(payload);
        slot.payload.resize(sample.size.get() as usize, 0);
        self.len += 1;
        superseded
    }

    /// The `index`-th oldest.
    pub(super) fn get(&self, index: usize) -> Option<&Slot> {
        (index < self.len).then(|| &self.slots[self.place(index)])
    }

    /// Where in the ring the `index`-th oldest is; at most one turn ahead.
    fn place(&self, index: usize) -> usize {
        let place = self.head + index;
        if place < self.slots.len() { place } else { place - self.slots.len() }
    }

    /// When the oldest sample was made.
    pub(super) fn oldest(&self) -> Option<Time> {
        (0..self.len).map(|index| self.slots[self.place(index)].sample.created).min()
    }

    pub(super) fn pop(&mut self) -> Option<Sample> {
        let sample = self.get(0)?.sample;
        self.head = self.place(1);
        self.len -= 1;
        Some(sample)
    }

    /// Removes and returns the oldest when it is older than `limit`.
    pub(super) fn pop_older(&mut self, now: Time, limit: Duration) -> Option<Sample> {
        let oldest = self.get(0)?.sample;
        if now.saturating_since(oldest.created) > limit { self.pop() } else { None }
    }
}

/// Frames of one medium, the front one perhaps sent in part.
#[derive(Clone, Debug)]
pub(super) struct FrameQueue {
    frames: VecDeque<WaitingFrame>,
    /// Bytes that were given, of all frames one after the other; frames without any are zeros.
    bytes: VecDeque<u8>,
    limit: usize,
}

#[derive(Clone, Copy, Debug)]
struct WaitingFrame {
    sample: Sample,
    sent: u32,
    /// How many of its unsent bytes are in `bytes`.
    stored: u32,
}

impl FrameQueue {
    pub(super) fn new(limit: usize) -> Self {
        Self { frames: VecDeque::with_capacity(limit), bytes: VecDeque::new(), limit }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Bytes of the front frame that are still to be sent.
    pub(super) fn front_remaining(&self) -> Option<u64> {
        self.frames.front().map(|frame| frame.sample.size.get() - u64::from(frame.sent))
    }

    /// When the oldest frame was made.
    pub(super) fn oldest(&self) -> Option<Time> {
        self.frames.iter().map(|frame| frame.sample.created).min()
    }

    /// Adds a frame whose size fits 32 bits. Gives back the oldest when there was no room.
    pub(super) fn push(&mut self, sample: Sample, payload: &[u8]) -> Option<Sample> {
        let superseded = if self.frames.len() == self.limit { self.pop_front() } else { None };
        self.frames.push_back(WaitingFrame { sample, sent: 0, stored: payload.len() as u32 });
        self.bytes.extend(payload);
        superseded
    }

    /// Removes and returns the front frame when it is older than `limit`, sent in part or not.
    pub(super) fn pop_older(&mut self, now: Time, limit: Duration) -> Option<Sample> {
        let front = self.frames.front()?;
        if now.saturating_since(front.sample.created) > limit { self.pop_front() } else { None }
    }

    fn pop_front(&mut self) -> Option<Sample> {
        let frame = self.frames.pop_front()?;
        self.bytes.drain(..frame.stored as usize);
        Some(frame.sample)
    }

    pub(super) fn len(&self) -> usize {
        self.frames.len()
    }

    /// What may be sent next of the `index`-th oldest frame: the whole rest of it. Also says when the frame was made.
    pub(super) fn rest(&self, index: usize) -> (FragmentRepr, Time) {
        let WaitingFrame { sample, sent, .. } = &self.frames[index];
        let created = sample.created;
        let part = if *sent == 0 { Part::First { created } } else { Part::Rest { offset: *sent } };
        let length = sample.size.get() as u32 - sent;
        let (medium, frame) = (sample.medium, sample.sequence as u32);
        (FragmentRepr { medium, frame, part, length, last: true }, created)
    }

    /// Takes `length` bytes of the front frame, appends those that are stored to `out` and says how many zeros follow.
    /// `zeros`: how many virtual zeros came before these bytes and must become real if any of these is.
    pub(super) fn take(&mut self, length: u32, zeros: u64, out: &mut Vec<u8>) -> u64 {
        let Some(front) = self.frames.front_mut() else { return zeros };
        let stored = front.stored.min(length) as usize;
        front.stored -= stored as u32;
        front.sent += length;
        let finished = u64::from(front.sent) == front.sample.size.get();
        let mut virtual_zeros = zeros + u64::from(length);
        if stored > 0 {
            out.resize(out.len() + zeros as usize, 0);
            let (a, b) = self.bytes.as_slices();
            out.extend_from_slice(&a[..stored.min(a.len())]);
            out.extend_from_slice(&b[..stored.saturating_sub(a.len())]);
            self.bytes.drain(..stored);
            virtual_zeros = u64::from(length) - stored as u64;
        }
        if finished {
            self.frames.pop_front();
        }
        virtual_zeros
    }
}
