//! A channel's messages as they arrive: put together, judged by age and order, bounded whatever the peer sends.

use std::collections::BTreeMap;
use std::ops::Range;

use taut_core::{DropCause, Duration, LeakyBucket, Time, nearest};
use taut_wire::session::{Delivery, Piece};

use super::declare::Agreed;
use super::mend::Spare;
use super::outgoing::{KEPT_RELIABLE, KEPT_RELIABLE_BYTES};
use super::playout::Player;
use super::spans::Spans;
use super::{COUNTED, FRAGMENT, meter};
use crate::sync::Stamp;
use crate::window::Window;

/// Messages of which only a part has come, at most.
const PARTS: usize = 256;
/// Messages that wait for one before them, at most: all that a sender keeps.
const AHEAD: usize = KEPT_RELIABLE;
/// Of the bytes that both kinds hold, so many of the largest payload.
const HELD_LARGEST: usize = 8;
/// Ranges of bytes that came of one message, at most: so many gaps are between them.
const RANGES: usize = 4_096;
/// So many milliseconds' messages may come at once.
const BUNCHED_MS: u64 = 1_000;

#[derive(Debug)]
pub(super) struct Incoming {
    agreed: Option<Agreed>,
    /// Nothing that comes was sent before this.
    since: Option<Time>,
    bucket: Option<LeakyBucket>,
    window: Window,
    newest: u64,
    parts: BTreeMap<u64, Part>,
    /// Of none of them the time is over before this.
    late: Time,
    /// In order: the next one, and those that came before their turn.
    expected: Option<u64>,
    ahead: BTreeMap<u64, Whole>,
    /// Those that are given on later than they come.
    player: Option<Box<Player>>,
}

#[derive(Debug)]
struct Part {
    payload: Vec<u8>,
    has: Spans,
    spare: Spare,
    expires: Option<Time>,
}

/// A message that is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Whole {
    pub(super) sequence: u64,
    pub(super) stamp: Option<Stamp>,
    pub(super) payload: Vec<u8>,
}

/// What a frame led to.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) whole: Vec<Whole>,
    pub(super) dropped: Vec<(u64, DropCause)>,
    /// Messages that are whole by parity.
    pub(super) repaired: u64,
    /// Of those dropped, the ones that came after their time to be given on.
    pub(super) late: u64,
}

impl Outcome {
    pub(super) fn drop(&mut self, sequence: u64, cause: DropCause) {
        self.dropped.push((sequence, cause));
    }
}

impl Incoming {
    pub(super) fn new() -> Self {
        Self {
            agreed: None,
            since: None,
            bucket: None,
            window: Window::default(),
            newest: 0,
            parts: BTreeMap::new(),
            late: Time::MAX,
            expected: None,
            ahead: BTreeMap::new(),
            player: None,
        }
    }

    pub(super) fn agreed(&self) -> Option<&Agreed> {
        self.agreed.as_ref()
    }

    /// Of the message that a frame is of.
    pub(super) fn number_of(&self, piece: &Piece) -> u64 {
        unwrapped(self.newest, piece.sequence)
    }

    /// Opens it, or closes it; what came is of the session before, and dropped. What comes was sent after `since`, where that is known.
    pub(super) fn open(&mut self, agreed: Option<Agreed>, since: Option<Time>) -> Outcome {
        let mut outcome = Outcome::default();
        let held = self.player.as_mut().into_iter().flat_map(|player| player.take_all());
        for sequence in self.parts.keys().chain(self.ahead.keys()).copied().chain(held) {
            outcome.drop(sequence, DropCause::Abandoned);
        }
        // What an outage held up comes at once. What has to arrive in any case is held to its rate by its sender alone.
        let limited = agreed.filter(|agreed| agreed.delivery != Delivery::Reliable);
        let bucket = limited.and_then(|agreed| meter(agreed.rate_mhz, BUNCHED_MS));
        let player = agreed.and_then(|agreed| {
            Player::new(agreed.playout, agreed.deadline, HELD_LARGEST * agreed.largest.max(FRAGMENT))
        });
        *self = Self { agreed, since, bucket, player: player.map(Box::new), ..Self::new() };
        outcome
    }

    /// A piece of a message of this channel came; when that was made, where the clocks are known.
    pub(super) fn handle(
        &mut self,
        now: Time,
        piece: &Piece,
        payload: &[u8],
        stamp: Option<Stamp>,
        outcome: &mut Outcome,
    ) {
        let Some(agreed) = self.agreed else { return };
        let sequence = unwrapped(self.newest, piece.sequence);
        let age = self.age(now, piece, stamp);
        let judged = self.judge(now, &agreed, sequence, age, total(piece, payload));
        if let Err(cause) = judged {
            // The rest of a message of which a part was dropped is worth nothing.
            if cause != DropCause::Duplicate {
                self.parts.remove(&sequence);
            }
            // Nor is what comes of it later.
            if cause == DropCause::RateLimited {
                self.window.record(sequence);
            }
            // Parity comes last: mostly nothing was missing by then.
            if cause != DropCause::Duplicate || !is_parity(piece) {
                outcome.drop(sequence, cause);
            }
        } else if let Some(payload) = self.assemble(now, &agreed, piece, sequence, stamp, payload, outcome) {
            self.window.record(sequence);
            self.complete(&agreed, Whole { sequence, stamp, payload }, outcome);
        }
        if agreed.delivery == Delivery::Reliable {
            let floor = sequence.saturating_sub(u64::from(piece.back.unwrap_or(0)));
            self.in_order(floor, outcome);
        }
        self.play(now, outcome);
    }

    /// What is complete is given on in its time: what is due.
    pub(super) fn play(&mut self, now: Time, outcome: &mut Outcome) {
        let Some(player) = &mut self.player else { return };
        std::mem::take(&mut outcome.whole).into_iter().for_each(|whole| player.take(now, whole, outcome));
        player.play(now, outcome);
    }

    /// When the next message is given on.
    pub(super) fn due(&self) -> Option<Time> {
        self.player.as_ref().and_then(|player| player.due())
    }

    /// How old a message is; while the peer's clock is not known, how old it can be at most. `None`: it may be of any age.
    fn age(&self, now: Time, piece: &Piece, stamp: Option<Stamp>) -> Option<Duration> {
        let waited = Duration::from_micros(u64::from(piece.waited_us));
        let most = || self.since.map(|since| now.saturating_since(since) + waited);
        stamp.map(|stamp| stamp.age.likely).or_else(most)
    }

    /// May a piece of a message of so many bytes be used?
    fn judge(
        &mut self,
        now: Time,
        agreed: &Agreed,
        sequence: u64,
        age: Option<Duration>,
        total: usize,
    ) -> Result<(), DropCause> {
        let part = self.parts.get(&sequence);
        if total > agreed.largest || part.is_some_and(|part| part.payload.len() != total) {
            return Err(DropCause::Malformed);
        }
        if self.has_come(agreed, sequence) {
            return Err(DropCause::Duplicate);
        }
        if agreed.delivery == Delivery::Newest && sequence < self.newest {
            return Err(DropCause::Superseded);
        }
        if agreed.deadline.is_some_and(|deadline| age.is_none_or(|age| age >= deadline)) {
            return Err(DropCause::TooLate);
        }
        if part.is_none() && self.bucket.as_mut().is_some_and(|bucket| !bucket.take(now)) {
            return Err(DropCause::RateLimited);
        }
        Ok(())
    }

    /// Is the message there, or was it? In order that is known however far the newest is ahead of one that is lost again and again.
    fn has_come(&self, agreed: &Agreed, sequence: u64) -> bool {
        match agreed.delivery {
            Delivery::Reliable => {
                self.expected.is_some_and(|expected| sequence < expected)
                    || self.ahead.contains_key(&sequence)
            }
            Delivery::Newest | Delivery::Deadline | Delivery::Once => !self.window.is_new(sequence),
        }
    }

    /// Puts a part to the others; the message when none is missing.
    #[expect(clippy::too_many_arguments)]
    fn assemble(
        &mut self,
        now: Time,
        agreed: &Agreed,
        piece: &Piece,
        sequence: u64,
        stamp: Option<Stamp>,
        payload: &[u8],
        outcome: &mut Outcome,
    ) -> Option<Vec<u8>> {
        let Some(range) = range(piece, payload) else { return Some(payload.to_vec()) };
        let total = total(piece, payload);
        self.make_room(agreed, total, sequence, outcome);
        // While its age is not known it is kept as long as a new one: each part is judged when it comes.
        let known = stamp.map_or(Duration::ZERO, |stamp| stamp.age.likely);
        let left = agreed.deadline.map(|deadline| now + deadline.saturating_sub(known));
        let begun = || Part {
            payload: vec![0; total],
            has: Spans::default(),
            spare: Spare::default(),
            expires: left,
        };
        let part = self.parts.entry(sequence).or_insert_with(begun);
        part.expires = left;
        self.late = self.late.min(part.expires.unwrap_or(Time::MAX));
        if !part.insert(range, payload) {
            outcome.drop(sequence, DropCause::Duplicate);
            return None;
        }
        if !part.has.cover(total) {
            if !part.spare.restore(&mut part.payload, &part.has) {
                return None;
            }
            outcome.repaired += 1;
        }
        self.parts.remove(&sequence).map(|part| part.payload)
    }

    /// Can a piece be kept, of whichever message it is? Where not, and it is repeated, nobody is told that its frame arrived. The message
    /// that all others wait for always can.
    pub(super) fn has_room(&self, piece: &Piece, payload: &[u8]) -> bool {
        let sequence = unwrapped(self.newest, piece.sequence);
        if let Some((part, range)) = self.parts.get(&sequence).zip(range(piece, payload)) {
            return is_parity(piece) || part.has.count() < RANGES || part.has.touch(&range);
        }
        let Some(agreed) = self.agreed.filter(Agreed::repeats) else { return true };
        let bytes = if piece.part.is_some() { total(piece, payload) } else { 0 };
        self.expected == Some(sequence) || self.has_come(&agreed, sequence) || self.is_roomy(&agreed, bytes)
    }

    fn is_roomy(&self, agreed: &Agreed, bytes: usize) -> bool {
        let in_order = if agreed.delivery == Delivery::Reliable { KEPT_RELIABLE_BYTES } else { 0 };
        let limit = (HELD_LARGEST * agreed.largest.max(FRAGMENT)).max(in_order);
        self.parts.len() < PARTS && self.ahead.len() < AHEAD && self.held() + bytes <= limit.max(bytes)
    }

    /// A new message of which a part has come takes the place of the oldest.
    fn make_room(&mut self, agreed: &Agreed, bytes: usize, sequence: u64, outcome: &mut Outcome) {
        // Of what is repeated the peer was told that it arrived.
        if self.parts.contains_key(&sequence) || agreed.repeats() {
            return;
        }
        while !self.is_roomy(agreed, bytes)
            && let Some((oldest, _)) = self.parts.pop_first()
        {
            outcome.drop(oldest, DropCause::QueueFullPackets);
        }
    }

    fn complete(&mut self, agreed: &Agreed, whole: Whole, outcome: &mut Outcome) {
        let sequence = whole.sequence;
        self.newest = self.newest.max(sequence);
        match agreed.delivery {
            Delivery::Newest => {
                while let Some(older) = self.parts.first_entry().filter(|older| *older.key() < sequence) {
                    outcome.drop(*older.key(), DropCause::Superseded);
                    older.remove();
                }
                outcome.whole.push(whole);
            }
            Delivery::Deadline | Delivery::Once => outcome.whole.push(whole),
            Delivery::Reliable => {
                self.ahead.insert(sequence, whole);
            }
        }
    }

    /// Those whose turn it is. Nothing below `floor` comes any more.
    fn in_order(&mut self, floor: u64, outcome: &mut Outcome) {
        let mut expected = self.expected.map_or(floor, |expected| expected.max(floor));
        while let Some(first) = self.ahead.first_entry().filter(|first| *first.key() <= expected) {
            let whole = first.remove();
            expected = expected.max(whole.sequence + 1);
            outcome.whole.push(whole);
        }
        self.expected = Some(expected);
    }

    /// Of messages whose time is over, the parts that came are dropped.
    pub(super) fn forget_late(&mut self, now: Time, outcome: &mut Outcome) {
        if now < self.late {
            return;
        }
        self.late = Time::MAX;
        self.parts.retain(|sequence, part| {
            let expires = part.expires.unwrap_or(Time::MAX);
            if now >= expires {
                outcome.drop(*sequence, DropCause::TooLate);
                return false;
            }
            self.late = self.late.min(expires);
            true
        });
    }

    /// Bytes of messages that are not complete, or not at their turn.
    fn held(&self) -> usize {
        let ahead: usize = self.ahead.values().map(|whole| whole.payload.len()).sum();
        let parts = self.parts.values().map(|part| part.payload.len() + part.spare.bytes());
        ahead + parts.sum::<usize>() + self.player.as_ref().map_or(0, |player| player.bytes())
    }
}

impl Part {
    /// Puts bytes to the others; false: they are here already, or are no parity of this message.
    fn insert(&mut self, range: Range<usize>, bytes: &[u8]) -> bool {
        let total = self.payload.len();
        if range.start >= total {
            return self.spare.insert(total, range.start - total, bytes);
        }
        self.payload[range.clone()].copy_from_slice(bytes);
        self.has.insert(range) > 0
    }
}

/// Is it parity? That stands behind the message's bytes.
pub(super) fn is_parity(piece: &Piece) -> bool {
    piece.part.is_some_and(|part| part.offset >= part.total)
}

/// Bytes of the message that a piece belongs to.
fn total(piece: &Piece, payload: &[u8]) -> usize {
    piece.part.map_or(payload.len(), |part| part.total as usize)
}

/// Where the bytes of a part are in their message.
fn range(piece: &Piece, payload: &[u8]) -> Option<Range<usize>> {
    piece.part.map(|part| part.offset as usize..part.offset as usize + payload.len())
}

/// The number nearest to `newest` of which a frame has the low bits; before anything is known, these.
pub(super) fn unwrapped(newest: u64, low: u32) -> u64 {
    nearest(newest, low, COUNTED.ilog2()).unwrap_or(low.into())
}

#[cfg(test)]
mod tests {
    use taut_core::Bytes;
    use taut_wire::session::{ChannelKind, Direction, Encoding};

    use super::super::declare::{Channel, Schema, agree};
    use super::*;

    #[test]
    fn what_all_wait_for_is_taken_however_many_came_since_it_was_lost() {
        let schema = Schema::new("a", Encoding::Raw);
        let channel = Channel::new("a", Direction::ToRobot, ChannelKind::Command, schema);
        let channel = channel.largest(Bytes::new(100));
        let theirs = [channel.declaration()];
        let mut incoming = Incoming::new();
        incoming.open(Some(agree(&channel, false, &theirs).unwrap()), None);
        let mut outcome = Outcome::default();
        let last = 1 + KEPT_RELIABLE as u32;
        for sequence in (2..=last).chain([2, 1]) {
            let back = Some((sequence - 1) as u16);
            let piece = Piece { channel: 0, sequence, waited_us: 0, back, part: None };
            assert!(incoming.has_room(&piece, &[7; 100]), "{sequence}");
            incoming.handle(Time::ZERO, &piece, &[7; 100], None, &mut outcome);
        }
        let came: Vec<u64> = outcome.whole.iter().map(|whole| whole.sequence).collect();
        assert_eq!(came, (1..=last.into()).collect::<Vec<u64>>());
        assert_eq!(outcome.dropped, [(2, DropCause::Duplicate)]);
    }

    #[test]
    fn a_number_is_the_one_nearest_to_those_before() {
        for newest in [0, 1, 5, COUNTED - 1, COUNTED, COUNTED + 9, 7 * COUNTED + 3] {
            for ahead in [0u64, 1, 1000, COUNTED / 2 - 1] {
                let number = newest + ahead;
                assert_eq!(unwrapped(newest, (number % COUNTED) as u32), number);
                if let Some(number) = newest.checked_sub(ahead) {
                    assert_eq!(unwrapped(newest, (number % COUNTED) as u32), number);
                }
            }
        }
    }
}
