//! What was sent, and what became of it.

use std::collections::VecDeque;

use taut_core::Time;
use taut_wire::dccp::Seq;

/// The most packets that are remembered.
const LIMIT: usize = 16_384;

/// What the sender knows of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Nothing yet.
    Flying,
    /// It arrived.
    Arrived,
    /// It was taken for lost.
    Lost,
}

/// A packet that was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) at: Time,
    /// It carried a message.
    pub(super) data: bool,
    /// CCID 3's window counter in it.
    pub(super) counter: u8,
    /// When CCID 3 had last sent all that it was allowed, this packet included.
    pub(super) unlimited: Option<Time>,
    pub(super) fate: Fate,
    /// It carried an Ack Vector that ended here.
    pub(super) told: Option<Seq>,
}

/// The packets that may still be acknowledged, in order of their numbers without a gap.
#[derive(Clone, Debug)]
pub(super) struct SentLog {
    first: Seq,
    packets: VecDeque<Sent>,
}

impl SentLog {
    pub(super) fn new(first: Seq) -> Self {
        Self { first, packets: VecDeque::new() }
    }

    /// The next packet. Returns the one that was forgotten for it, when that one's fate was open.
    pub(super) fn push(&mut self, packet: Sent) -> Option<Sent> {
        let forgotten = (self.packets.len() >= LIMIT).then(|| self.pop()).flatten();
        self.packets.push_back(packet);
        forgotten.filter(|packet| packet.fate == Fate::Flying)
    }

    pub(super) fn get(&mut self, seq: Seq) -> Option<&mut Sent> {
        let index = usize::try_from(seq.since(self.first)).ok()?;
        self.packets.get_mut(index)
    }

    /// The oldest packet that is remembered, or the next one.
    pub(super) fn first(&self) -> Seq {
        self.first
    }

    /// From the newest back, with their numbers.
    pub(super) fn newest_first(&mut self) -> impl Iterator<Item = (Seq, &mut Sent)> {
        let first = self.first;
        self.packets.iter_mut().enumerate().rev().map(move |(index, sent)| (first.plus(index as u64), sent))
    }

    /// Forgets from the oldest on, while `done` says so.
    pub(super) fn forget(&mut self, mut done: impl FnMut(Seq, &Sent) -> bool) {
        while self.packets.front().is_some_and(|packet| done(self.first, packet)) {
            self.pop();
        }
    }

    fn pop(&mut self) -> Option<Sent> {
        self.first = self.first.next();
        self.packets.pop_front()
    }
}
