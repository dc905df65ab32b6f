//! A channel's messages on their way out: bounded, each with one fate.

use std::cell::Cell;
use std::collections::VecDeque;
use std::ops::Range;

use taut_core::{DropCause, Duration, LeakyBucket, Time};
use taut_media::{Repair, Way};
use taut_wire::session::Delivery;

use super::declare::Agreed;
use super::mend::{Load, Redundancy};
use super::spans::Spans;
use super::{SendRefused, meter};

/// Messages of one channel that are kept here, at most.
const KEPT: usize = 256;
/// So many of the largest are kept.
const KEPT_LARGEST: usize = 4;
/// Of a channel whose messages arrive in any case: a second of 1 kHz, acknowledged within that,
pub(super) const KEPT_RELIABLE: usize = 1024;
/// and so many bytes of them, where four of the largest are fewer.
pub(super) const KEPT_RELIABLE_BYTES: usize = 256_000;
/// So many milliseconds' messages may be made at once.
const AT_ONCE_MS: u64 = 100;
/// A picture that comes later than this holds up those that refer to it for longer than a person overlooks: then it goes with parity, not again.
const HELD_UP: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(super) struct Outgoing {
    agreed: Option<Agreed>,
    /// Of the next message: it counts on whatever happens, so that nobody takes a new one for an old one.
    next_sequence: u64,
    messages: VecDeque<Message>,
    bytes: usize,
    /// Of a message that has gone, for the next one.
    spare: Vec<u8>,
    bucket: Option<LeakyBucket>,
    /// The last message of which the transport dropped a part.
    cut_short: Option<u64>,
    /// What waits, once somebody asked, until it changes: on most turns it does not.
    waiting: Cell<Option<Backlog>>,
}

/// What waits in a channel.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backlog {
    /// Ranges of bytes, and the length of the first.
    pub(super) rests: usize,
    pub(super) first: usize,
    /// When the first message of which something waits is worthless.
    pub(super) expires: Option<Time>,
    /// When the next copy goes.
    pub(super) copy: Option<Time>,
}

#[derive(Debug)]
struct Message {
    sequence: u64,
    created: Time,
    expires: Option<Time>,
    payload: Vec<u8>,
    arrived: Spans,
    /// Something of it was sent, and all bytes before this one.
    begun: bool,
    next: usize,
    /// Those that have to be sent again.
    lost: Spans,
    /// What goes beside it, once that was chosen.
    beside: Option<Redundancy>,
}

/// A message that is gone, and why; or that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gone {
    Dropped(u64, DropCause),
    Arrived(u64),
}

/// Bytes of a message that wait, one after the other; any number of them, from the first on, may go.
#[derive(Clone, Debug)]
pub(super) struct Rest {
    pub(super) sequence: u64,
    pub(super) range: Range<usize>,
    pub(super) total: usize,
    pub(super) created: Time,
    pub(super) expires: Option<Time>,
    pub(super) back: Option<u16>,
}

impl Outgoing {
    pub(super) fn new() -> Self {
        Self {
            agreed: None,
            next_sequence: 1,
            messages: VecDeque::new(),
            bytes: 0,
            spare: Vec::new(),
            bucket: None,
            cut_short: None,
            waiting: Cell::default(),
        }
    }

    /// What waits.
    pub(super) fn waiting(&self) -> Backlog {
        self.waiting.get().unwrap_or_else(|| {
            let mut all = Backlog::default();
            for message in &self.messages {
                all.copy = sooner(all.copy, message.beside.as_ref().and_then(Redundancy::due));
                let before = all.rests;
                for rest in message.rests() {
                    all.first = if all.rests == 0 { rest.len() } else { all.first };
                    all.rests += 1;
                }
                all.expires = sooner(all.expires, message.expires.filter(|_| all.rests > before));
            }
            self.waiting.set(Some(all));
            all
        })
    }

    /// All messages, one of which changes.
    fn change(&mut self) -> &mut VecDeque<Message> {
        self.waiting.set(None);
        &mut self.messages
    }

    /// Nothing waits, and of nothing that went the fate is of interest.
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub(super) fn agreed(&self) -> Option<&Agreed> {
        self.agreed.as_ref()
    }

    /// Opens it, or closes it; what waits is of the session before.
    pub(super) fn open(&mut self, agreed: Option<Agreed>, gone: &mut Vec<Gone>) {
        self.flush(DropCause::Abandoned, gone);
        self.bucket = agreed.and_then(|agreed| meter(agreed.rate_mhz, AT_ONCE_MS));
        self.agreed = agreed;
    }

    pub(super) fn flush(&mut self, cause: DropCause, gone: &mut Vec<Gone>) {
        gone.extend(self.change().drain(..).map(|message| Gone::Dropped(message.sequence, cause)));
        self.bytes = 0;
    }

    /// Takes a message, made at `created`; one that is urgent counts against no rate. Where the newest counts so many may wait `together`.
    pub(super) fn send(
        &mut self,
        now: Time,
        created: Time,
        payload: &[u8],
        (urgent, together): (bool, usize),
        gone: &mut Vec<Gone>,
    ) -> Result<u64, SendRefused> {
        let agreed = self.admit(now, created, payload.len())?;
        let expires = agreed.deadline.map(|deadline| created + deadline);
        if self.is_full(&agreed, payload.len()) {
            self.drop_where(|message| message.is_late(now), DropCause::TooLate, gone);
        }
        if agreed.delivery == Delivery::Reliable && self.is_full(&agreed, payload.len()) {
            return Err(SendRefused::Full);
        }
        if !urgent && self.bucket.as_mut().is_some_and(|bucket| !bucket.take(now)) {
            return Err(SendRefused::RateLimited);
        }
        match agreed.delivery {
            // What has begun goes on: its beginning would be wasted.
            Delivery::Newest => {
                let waiting = self.messages.iter().filter(|message| !message.begun).count();
                let mut over = (waiting + 1).saturating_sub(together);
                let is_over = |message: &Message| {
                    let is_over = !message.begun && over > 0;
                    over -= usize::from(is_over);
                    // Nobody wants a copy of what is old.
                    is_over || !message.has_more()
                };
                self.drop_where(is_over, DropCause::Superseded, gone);
            }
            Delivery::Deadline | Delivery::Once => {
                while self.is_full(&agreed, payload.len()) {
                    self.drop_oldest(gone);
                }
            }
            Delivery::Reliable => {}
        }
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.bytes += payload.len();
        let mut bytes = std::mem::take(&mut self.spare);
        bytes.clear();
        bytes.extend_from_slice(payload);
        self.change().push_back(Message {
            sequence,
            created,
            expires,
            payload: bytes,
            arrived: Spans::default(),
            begun: false,
            next: 0,
            lost: Spans::default(),
            beside: None,
        });
        Ok(sequence)
    }

    fn is_full(&self, agreed: &Agreed, bytes: usize) -> bool {
        let largest = KEPT_LARGEST * agreed.largest.max(bytes);
        let (messages, most) = match agreed.delivery {
            Delivery::Reliable => (KEPT_RELIABLE, largest.max(KEPT_RELIABLE_BYTES)),
            Delivery::Newest | Delivery::Deadline | Delivery::Once => (KEPT, largest),
        };
        self.messages.len() >= messages || self.bytes + bytes > most
    }

    /// Gives a number to a message that is not worth sending.
    pub(super) fn withhold(&mut self, now: Time, created: Time, length: usize) -> Result<u64, SendRefused> {
        self.admit(now, created, length)?;
        self.next_sequence += 1;
        Ok(self.next_sequence - 1)
    }

    /// May a message of this length, made at `created`, be said here at all?
    fn admit(&self, now: Time, created: Time, length: usize) -> Result<Agreed, SendRefused> {
        let agreed = *self.agreed.as_ref().ok_or(SendRefused::NotOpen)?;
        if length > agreed.largest {
            return Err(SendRefused::TooLarge { largest: agreed.largest });
        }
        if agreed.deadline.is_some_and(|deadline| now >= created + deadline) {
            return Err(SendRefused::TooLate);
        }
        Ok(agreed)
    }

    fn drop_where(&mut self, mut is: impl FnMut(&Message) -> bool, cause: DropCause, gone: &mut Vec<Gone>) {
        let repeats = self.agreed.is_some_and(|agreed| agreed.repeats());
        let (bytes, waiting) = (&mut self.bytes, &self.waiting);
        self.messages.retain(|message| {
            let goes = is(message);
            if goes {
                waiting.set(None);
                *bytes -= message.payload.len();
                // What has gone and is not repeated waited for its copy alone.
                if repeats || message.has_more() {
                    gone.push(Gone::Dropped(message.sequence, cause));
                }
            }
            !goes
        });
    }

    /// The oldest that has not begun, or the oldest at all.
    fn drop_oldest(&mut self, gone: &mut Vec<Gone>) {
        let at = self.messages.iter().position(|message| !message.begun).unwrap_or(0);
        if let Some(message) = self.change().remove(at) {
            self.bytes -= message.payload.len();
            gone.push(Gone::Dropped(message.sequence, DropCause::QueueFullPackets));
        }
    }

    /// Those whose time is over. What has all gone may have arrived in time: its acknowledgement tells.
    pub(super) fn forget_late(&mut self, now: Time, gone: &mut Vec<Gone>) {
        if self.waiting().expires.is_some_and(|expires| now >= expires) {
            let is_late = |message: &Message| message.is_late(now) && message.has_more();
            self.drop_where(is_late, DropCause::TooLate, gone);
        }
    }

    /// A message that cannot arrive in time, with its bytes going at `pace` and then taking `way`, is not begun; and of one whose time is
    /// over, the rest does not go.
    pub(super) fn forget_hopeless(
        &mut self,
        now: Time,
        pace: impl Fn(usize) -> Duration,
        way: Duration,
        gone: &mut Vec<Gone>,
    ) {
        self.drop_where(|message| !message.is_in_time(now, &pace, way), DropCause::TooLate, gone);
    }

    /// Chooses what goes beside the message that is next, when it is about to begin: there is parity where its parts are of so many bytes.
    /// Notes its bytes and those that go beside it.
    pub(super) fn plan(
        &mut self,
        now: Time,
        pace: impl Fn(usize) -> Duration,
        way: impl FnOnce() -> Option<Way>,
        part: Option<usize>,
        load: &mut Load,
    ) {
        let Some(agreed) = self.agreed else { return };
        let Some(message) = self.messages.iter_mut().find(|message| message.has_more()) else { return };
        if message.begun || message.beside.is_some() {
            return;
        }
        let sent = now + pace(message.payload.len());
        let left = message.expires.map_or(Duration::MAX, |expires| expires.saturating_since(sent));
        let left = if agreed.refers_back { left.min(HELD_UP) } else { left };
        let parts = part.map_or(1, |part| message.payload.len().div_ceil(part));
        let beside =
            Redundancy::new(agreed.repair.ahead(way().as_ref(), left, parts), &message.payload, part);
        load.record(message.payload.len(), &beside);
        message.beside = Some(beside);
        self.waiting.set(None);
    }

    /// Copies that are due go; how many.
    pub(super) fn copy(&mut self, now: Time) -> u64 {
        let mut copies = 0;
        if self.waiting().copy.is_none_or(|due| now < due) {
            return copies;
        }
        for message in self.change() {
            if message.beside.as_mut().is_some_and(|beside| beside.poll_copy(now)) {
                copies += u64::from(message.again(0..message.payload.len()));
            }
        }
        copies
    }

    /// What waits, in the order in which it goes.
    pub(super) fn rests(&self) -> impl Iterator<Item = Rest> {
        let oldest = self.messages.front().map_or(0, |first| first.sequence);
        let in_order = self.agreed.is_some_and(|agreed| agreed.delivery == Delivery::Reliable);
        self.messages.iter().filter(|message| message.has_more()).flat_map(move |message| {
            let back = in_order.then(|| (message.sequence - oldest).min(u64::from(u16::MAX)) as u16);
            message.rests().map(move |range| Rest {
                sequence: message.sequence,
                range,
                total: message.payload.len(),
                created: message.created,
                expires: message.expires,
                back,
            })
        })
    }

    pub(super) fn has_more(&self) -> bool {
        !self.messages.is_empty() && self.waiting().rests > 0
    }

    /// These bytes of a message.
    pub(super) fn bytes_of(&self, sequence: u64, range: &Range<usize>) -> &[u8] {
        let message = self.find(sequence).map(|at| &self.messages[at]);
        message.and_then(|message| message.get(range)).unwrap_or_default()
    }

    /// They were given to the transport. Were they parity?
    pub(super) fn sent(&mut self, now: Time, sequence: u64, range: &Range<usize>) -> bool {
        let Some(at) = self.find(sequence) else { return false };
        self.waiting.set(None);
        let message = &mut self.messages[at];
        let is_parity = message.is_parity(range);
        message.lost.remove(range);
        message.begun = true;
        message.next = message.next.max(range.end);
        let all_went = !message.has_more();
        let beside = message.beside.as_mut().filter(|_| all_went);
        let copy_waits = beside.is_some_and(|beside| {
            beside.all_went(now);
            beside.waits()
        });
        // Nobody waits for the fate of what is not sent again.
        if all_went && !copy_waits && self.agreed.is_some_and(|agreed| !agreed.repeats()) {
            self.remove(at);
        }
        is_parity
    }

    /// They arrived.
    pub(super) fn arrived(&mut self, sequence: u64, range: &Range<usize>, gone: &mut Vec<Gone>) {
        let Some(at) = self.find(sequence) else { return };
        self.waiting.set(None);
        let message = &mut self.messages[at];
        let is_parity = message.is_parity(range);
        let beside = message.beside.get_or_insert_default();
        if is_parity {
            beside.arrived();
        } else {
            message.lost.remove(range);
            message.arrived.insert(range.clone());
        }
        if message.arrived.cover(message.payload.len()) || beside.restores(&message.arrived) {
            self.remove(at);
            gone.push(Gone::Arrived(sequence));
        }
    }

    /// They are lost: what has not arrived otherwise and is not made up for goes again, if somebody still waits for it. Where nothing mends it,
    /// the rest of the message does not go either.
    pub(super) fn lost(
        &mut self,
        now: Time,
        sequence: u64,
        range: &Range<usize>,
        cause: DropCause,
        gone: &mut Vec<Gone>,
    ) -> bool {
        let Some(at) = self.find(sequence) else { return false };
        self.waiting.set(None);
        let message = &mut self.messages[at];
        let Some(range) = message.beside.get_or_insert_default().lost(range) else { return false };
        let cause = match self.agreed {
            Some(Agreed { repair: Repair::None, .. }) => cause,
            _ if message.is_late(now) => DropCause::TooLate,
            _ => return message.again(range),
        };
        self.remove(at);
        gone.push(Gone::Dropped(sequence, cause));
        false
    }

    /// The transport does not take what is so long.
    pub(super) fn refuse(&mut self, sequence: u64, cause: DropCause, gone: &mut Vec<Gone>) {
        if let Some(at) = self.find(sequence) {
            self.remove(at);
            gone.push(Gone::Dropped(sequence, cause));
        }
    }

    /// The transport dropped a part of one that does not go again: nor does the rest of it. True, once: it is to be told.
    pub(super) fn lost_for_good(&mut self, sequence: u64) -> bool {
        if let Some(at) = self.find(sequence) {
            self.remove(at);
        }
        self.cut_short.replace(sequence) != Some(sequence)
    }

    fn find(&self, sequence: u64) -> Option<usize> {
        self.messages.binary_search_by_key(&sequence, |message| message.sequence).ok()
    }

    fn remove(&mut self, at: usize) {
        if let Some(message) = self.change().remove(at) {
            self.bytes -= message.payload.len();
            self.spare = message.payload;
        }
    }
}

/// The earlier of two times, where there are any.
pub(super) fn sooner(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    a.map_or(b, |a| Some(b.map_or(a, |b| a.min(b))))
}

impl Message {
    /// Its end, parity included.
    fn end(&self) -> usize {
        self.payload.len() + self.beside.as_ref().map_or(0, Redundancy::len)
    }

    fn is_parity(&self, range: &Range<usize>) -> bool {
        range.end > self.payload.len()
    }

    fn get(&self, range: &Range<usize>) -> Option<&[u8]> {
        if self.is_parity(range) { self.beside.as_ref()?.get(range) } else { self.payload.get(range.clone()) }
    }

    fn has_more(&self) -> bool {
        !self.begun || !self.lost.is_empty() || self.next < self.end()
    }

    /// What is lost goes before what was not sent yet, and parity behind it.
    fn rests(&self) -> impl Iterator<Item = Range<usize>> {
        let unsent = self.next..self.payload.len();
        let waits = !self.begun || !unsent.is_empty();
        let parity = self.next.max(self.payload.len())..self.end();
        let parity = Some(parity).filter(|parity| !parity.is_empty());
        self.lost.iter().cloned().chain(waits.then_some(unsent)).chain(parity)
    }

    /// Of these bytes what has not arrived goes again; false: there is nothing of them.
    fn again(&mut self, range: Range<usize>) -> bool {
        if self.payload.is_empty() {
            return std::mem::take(&mut self.begun);
        }
        let before = self.lost.bytes();
        self.lost.insert(range);
        self.arrived.iter().for_each(|arrived| self.lost.remove(arrived));
        self.lost.bytes() > before
    }

    fn is_late(&self, now: Time) -> bool {
        self.expires.is_some_and(|expires| now >= expires)
    }

    fn is_in_time(&self, now: Time, pace: impl Fn(usize) -> Duration, way: Duration) -> bool {
        // Parity alone is not worth giving up what went before it.
        let waits = !self.begun || !self.lost.is_empty() || self.next < self.payload.len();
        let Some(expires) = self.expires.filter(|_| waits) else { return true };
        let unsent = self.payload.len().saturating_sub(self.next);
        now + pace(unsent + self.lost.bytes()) + way < expires
    }
}

#[cfg(test)]
mod tests {
    use super::super::Playout;
    use super::*;

    #[test]
    fn the_bytes_that_wait_are_bounded_and_every_message_that_makes_way_is_told() {
        let agreed = Agreed {
            peer: 0,
            delivery: Delivery::Once,
            deadline: None,
            rate_mhz: 0,
            largest: 64_000,
            repair: Repair::Repeat,
            refers_back: false,
            playout: Playout::AtOnce,
        };
        let (mut out, mut gone) = (Outgoing::new(), Vec::new());
        out.open(Some(agreed), &mut gone);
        for number in 0..500 {
            let payload = vec![0; if number < 250 { 1_000 } else { 64_000 }];
            assert!(out.send(Time::ZERO, Time::ZERO, &payload, (false, 1), &mut gone).is_ok());
            assert!(out.bytes <= 4 * 64_000, "{} B wait", out.bytes);
        }
        assert_eq!((gone.len() + out.messages.len(), out.messages.len()), (500, 4));
    }
}
