//! A channel's messages on their way out: bounded, each with one fate.

use std::collections::VecDeque;

use taut_core::{DropCause, Duration, LeakyBucket, Time};
use taut_wire::session::Delivery;

use super::declare::Agreed;
use super::{FRAGMENT, SendRefused, meter};

/// Messages of one channel that are kept here, at most.
const KEPT: usize = 256;
/// So many of the largest are kept.
const KEPT_LARGEST: usize = 4;
/// So many milliseconds' messages may be made at once.
const AT_ONCE_MS: u64 = 100;

#[derive(Debug)]
pub(super) struct Outgoing {
    agreed: Option<Agreed>,
    /// Of the next message: it counts on whatever happens, so that nobody takes a new one for an old one.
    next_sequence: u64,
    messages: VecDeque<Message>,
    bytes: usize,
    bucket: Option<LeakyBucket>,
}

#[derive(Debug)]
struct Message {
    sequence: u64,
    created: Time,
    expires: Option<Time>,
    payload: Vec<u8>,
    /// Of each fragment: it has arrived.
    arrived: Vec<bool>,
    /// So many have not.
    missing: usize,
    /// Fragments before this one were sent at least once.
    next: usize,
    /// Those that have to be sent again.
    lost: VecDeque<u16>,
}

/// A message that is gone, and why; or that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gone {
    Dropped(u64, DropCause),
    Arrived(u64),
}

/// What goes next of a channel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) sequence: u64,
    pub(super) index: u16,
    pub(super) count: u16,
    pub(super) created: Time,
    pub(super) expires: Option<Time>,
    pub(super) back: Option<u16>,
}

impl Outgoing {
    pub(super) fn new() -> Self {
        Self { agreed: None, next_sequence: 1, messages: VecDeque::new(), bytes: 0, bucket: None }
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
        gone.extend(self.messages.drain(..).map(|message| Gone::Dropped(message.sequence, cause)));
        self.bytes = 0;
    }

    /// Takes a message, made at `created`; one that is urgent counts against no rate.
    pub(super) fn send(
        &mut self,
        now: Time,
        created: Time,
        payload: &[u8],
        urgent: bool,
        gone: &mut Vec<Gone>,
    ) -> Result<u64, SendRefused> {
        let agreed = *self.agreed.as_ref().ok_or(SendRefused::NotOpen)?;
        if payload.len() > agreed.largest {
            return Err(SendRefused::TooLarge { largest: agreed.largest });
        }
        let expires = agreed.deadline.map(|deadline| created + deadline);
        if expires.is_some_and(|expires| now >= expires) {
            return Err(SendRefused::TooLate);
        }
        let is_full = self.messages.len() >= KEPT
            || self.bytes + payload.len() > KEPT_LARGEST * agreed.largest.max(payload.len());
        if is_full && agreed.delivery == Delivery::Reliable {
            return Err(SendRefused::Full);
        }
        if !urgent && self.bucket.as_mut().is_some_and(|bucket| !bucket.take(now)) {
            return Err(SendRefused::RateLimited);
        }
        match agreed.delivery {
            // What has begun goes on: its beginning would be wasted.
            Delivery::Newest => self.drop_where(|message| message.next == 0, DropCause::Superseded, gone),
            Delivery::Deadline if is_full => self.drop_oldest(gone),
            Delivery::Deadline | Delivery::Reliable => {}
        }
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.bytes += payload.len();
        let count = payload.len().div_ceil(FRAGMENT).max(1);
        self.messages.push_back(Message {
            sequence,
            created,
            expires,
            payload: payload.to_vec(),
            arrived: vec![false; count],
            missing: count,
            next: 0,
            lost: VecDeque::new(),
        });
        Ok(sequence)
    }

    fn drop_where(&mut self, is: impl Fn(&Message) -> bool, cause: DropCause, gone: &mut Vec<Gone>) {
        let bytes = &mut self.bytes;
        self.messages.retain(|message| {
            let goes = is(message);
            if goes {
                *bytes -= message.payload.len();
                gone.push(Gone::Dropped(message.sequence, cause));
            }
            !goes
        });
    }

    /// The oldest that has not begun, or the oldest at all.
    fn drop_oldest(&mut self, gone: &mut Vec<Gone>) {
        let at = self.messages.iter().position(|message| message.next == 0).unwrap_or(0);
        if let Some(message) = self.messages.remove(at) {
            self.bytes -= message.payload.len();
            gone.push(Gone::Dropped(message.sequence, DropCause::QueueFullPackets));
        }
    }

    /// Those whose time is over, wherever they are.
    pub(super) fn forget_late(&mut self, now: Time, gone: &mut Vec<Gone>) {
        if self.expires().is_some_and(|expires| now >= expires) {
            let is_late = |message: &Message| message.expires.is_some_and(|expires| now >= expires);
            self.drop_where(is_late, DropCause::TooLate, gone);
        }
    }

    /// What goes next. A message that cannot arrive in time, with its bytes going at `pace` and then taking `way`, is not begun; and
    /// of one whose time is over, the rest does not go.
    pub(super) fn next(
        &mut self,
        now: Time,
        pace: impl Fn(usize) -> Duration,
        way: Duration,
        gone: &mut Vec<Gone>,
    ) -> Option<Piece> {
        self.drop_where(|message| !message.is_in_time(now, &pace, way), DropCause::TooLate, gone);
        let message = self.messages.iter().find(|message| message.has_more())?;
        let oldest = self.messages.front().map_or(message.sequence, |first| first.sequence);
        let repeats = self.agreed.is_some_and(|agreed| agreed.delivery != Delivery::Newest);
        let back = repeats.then(|| (message.sequence - oldest).min(u64::from(u16::MAX)) as u16);
        Some(Piece {
            sequence: message.sequence,
            index: message.lost.front().copied().unwrap_or(message.next as u16),
            count: message.arrived.len() as u16,
            created: message.created,
            expires: message.expires,
            back,
        })
    }

    pub(super) fn has_more(&self) -> bool {
        self.messages.iter().any(Message::has_more)
    }

    /// When the first of those that are under way is worthless.
    pub(super) fn expires(&self) -> Option<Time> {
        self.messages.iter().filter_map(|message| message.expires).min()
    }

    /// The bytes of a piece.
    pub(super) fn bytes_of(&self, piece: &Piece) -> &[u8] {
        let from = usize::from(piece.index) * FRAGMENT;
        self.find(piece.sequence).map_or(&[], |at| {
            let payload = &self.messages[at].payload;
            &payload[from..payload.len().min(from + FRAGMENT)]
        })
    }

    /// It was given to the transport.
    pub(super) fn sent(&mut self, piece: &Piece) {
        let Some(at) = self.find(piece.sequence) else { return };
        let message = &mut self.messages[at];
        if message.lost.front() == Some(&piece.index) {
            message.lost.pop_front();
        } else {
            message.next = usize::from(piece.index) + 1;
        }
        // Nobody waits for the fate of what is not sent again.
        if !message.has_more() && self.agreed.is_some_and(|agreed| agreed.delivery == Delivery::Newest) {
            self.remove(at);
        }
    }

    /// A fragment arrived.
    pub(super) fn arrived(&mut self, sequence: u64, index: u16, gone: &mut Vec<Gone>) {
        let Some(at) = self.find(sequence) else { return };
        let message = &mut self.messages[at];
        if std::mem::replace(&mut message.arrived[usize::from(index)], true) {
            return;
        }
        message.lost.retain(|lost| *lost != index);
        message.missing -= 1;
        if message.missing == 0 {
            self.remove(at);
            gone.push(Gone::Arrived(sequence));
        }
    }

    /// A fragment is lost: it goes again, if somebody still waits for it.
    pub(super) fn lost(&mut self, sequence: u64, index: u16) -> bool {
        let Some(at) = self.find(sequence) else { return false };
        let message = &mut self.messages[at];
        let again = !message.arrived[usize::from(index)] && !message.lost.contains(&index);
        if again {
            message.lost.push_back(index);
        }
        again
    }

    /// The transport does not take what is so long.
    pub(super) fn refuse(&mut self, sequence: u64, cause: DropCause, gone: &mut Vec<Gone>) {
        if let Some(at) = self.find(sequence) {
            self.remove(at);
            gone.push(Gone::Dropped(sequence, cause));
        }
    }

    fn find(&self, sequence: u64) -> Option<usize> {
        self.messages.binary_search_by_key(&sequence, |message| message.sequence).ok()
    }

    fn remove(&mut self, at: usize) {
        if let Some(message) = self.messages.remove(at) {
            self.bytes -= message.payload.len();
        }
    }
}

impl Message {
    fn has_more(&self) -> bool {
        !self.lost.is_empty() || self.next < self.arrived.len()
    }

    fn is_in_time(&self, now: Time, pace: impl Fn(usize) -> Duration, way: Duration) -> bool {
        let Some(expires) = self.expires.filter(|_| self.has_more()) else { return true };
        let unsent = self.payload.len().saturating_sub(self.next * FRAGMENT);
        now + pace(unsent + self.lost.len() * FRAGMENT) + way < expires
    }
}
