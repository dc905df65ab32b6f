//! What waits for a client of the live view, bounded in bytes and in number. Sans-IO.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use taut_media::picture::{self, Picture};
use taut_session::Channel;

use crate::recording::NotShown;

/// Payload that waits at most; or one message that is longer.
const BYTES: usize = 4 << 20;
/// Messages that wait at most: a second's at 1 kHz of states, feedback and round trips.
const MESSAGES: usize = 3_072;
/// From this length on a newer message of a channel of the newest alone makes the older ones of it worthless to somebody who is behind; shorter
/// ones are points of a plot.
const LONG: usize = 64 << 10;
/// Pictures back to which one may refer: those of some ten seconds.
const REFERENCES: usize = 512;

/// What may be left out of a channel for a client that is behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The oldest.
    Each,
    /// Long ones that are older than another.
    Newest,
    /// Pictures that are older than a key picture, and those that refer to one that was left out.
    Pictures,
}

impl Kind {
    pub(super) fn of(channel: &Channel) -> Self {
        match channel {
            channel if channel.schema().name() == picture::SCHEMA => Self::Pictures,
            channel if channel.is_of_newest() => Self::Newest,
            _ => Self::Each,
        }
    }
}

/// A message of a channel. Its payload is shared by all clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    subscription: u32,
    log_time: u64,
    payload: Arc<Vec<u8>>,
    /// Of one that refers to another, or is referred to.
    picture: Option<Picture>,
}

impl Message {
    pub(super) fn len(&self) -> usize {
        self.payload.len()
    }

    /// As it goes out (<https://github.com/foxglove/ws-protocol>, Message Data).
    pub(super) fn data(&self) -> Vec<u8> {
        let head = [&[1], &self.subscription.to_le_bytes()[..], &self.log_time.to_le_bytes()].concat();
        [&head[..], &self.payload].concat()
    }
}

/// A channel that a client looks at.
#[derive(Debug)]
struct Subscription {
    /// By which the client knows it.
    id: u32,
    /// Numbers of pictures that were sent or wait.
    known: VecDeque<u32>,
    /// A picture was left out.
    has_gap: bool,
}

impl Subscription {
    fn can_show(&self, picture: &Picture) -> bool {
        picture.key || !self.has_gap || self.known.contains(&picture.reference)
    }

    fn show(&mut self, picture: &Picture) {
        if picture.key {
            self.known.clear();
        }
        if self.known.len() == REFERENCES {
            self.known.pop_front();
        }
        self.known.push_back(picture.number);
    }

    fn leave_out(&mut self, picture: &Picture) {
        self.has_gap = true;
        self.known.retain(|number| *number != picture.number);
    }
}

/// What waits for one client.
#[derive(Debug)]
pub(super) struct Waiting {
    /// By channel.
    subscriptions: BTreeMap<u32, Subscription>,
    messages: VecDeque<Message>,
    bytes: usize,
    not_shown: NotShown,
    /// The client takes nothing at the moment.
    is_blocked: bool,
    /// Its thread sleeps, until so many bytes wait.
    sleeps_to: Option<usize>,
    is_closed: bool,
}

impl Waiting {
    pub(super) fn new() -> Self {
        Self {
            subscriptions: BTreeMap::new(),
            messages: VecDeque::new(),
            bytes: 0,
            not_shown: NotShown::default(),
            is_blocked: false,
            sleeps_to: None,
            is_closed: false,
        }
    }

    /// A channel's second subscription is none, nor is one by the number of another.
    pub(super) fn subscribe(&mut self, channel: u32, id: u32) {
        if self.subscriptions.values().all(|known| known.id != id) {
            let begun = || Subscription { id, known: VecDeque::new(), has_gap: false };
            self.subscriptions.entry(channel).or_insert_with(begun);
        }
    }

    /// Those that are none are ignored.
    pub(super) fn unsubscribe(&mut self, ids: &BTreeSet<u32>) {
        let before = self.subscriptions.len();
        self.subscriptions.retain(|_, known| !ids.contains(&known.id));
        if self.subscriptions.len() < before {
            self.keep(|message| !ids.contains(&message.subscription));
        }
    }

    pub(super) fn wants(&self, channel: u32) -> bool {
        self.subscriptions.contains_key(&channel)
    }

    /// A message of a channel, if the client wants it; gives what was left out for it, and whether the client's thread has to wake.
    pub(super) fn message(
        &mut self,
        (channel, kind): (u32, Kind),
        log_time: u64,
        payload: &Arc<Vec<u8>>,
    ) -> (NotShown, bool) {
        let mut not_shown = NotShown::default();
        let Some(known) = self.subscriptions.get_mut(&channel).filter(|_| !self.is_closed) else {
            return (not_shown, false);
        };
        let id = known.id;
        let picture = (kind == Kind::Pictures).then(|| Picture::parse(payload).ok()).flatten().map(|it| it.0);
        if let Some(picture) = &picture {
            if !known.can_show(picture) {
                not_shown.without_reference += 1;
                self.not_shown.add(not_shown);
                return (not_shown, false);
            }
            known.show(picture);
        }
        // One that takes what comes misses nothing, however much comes at once.
        if self.is_blocked {
            not_shown.superseded += match kind {
                Kind::Each => 0,
                Kind::Newest if payload.len() < LONG => 0,
                Kind::Newest => self.keep(|older| older.subscription != id || older.len() < LONG),
                Kind::Pictures if !picture.is_some_and(|picture| picture.key) => 0,
                Kind::Pictures => self.keep(|older| older.subscription != id),
            };
        }
        while self.messages.len() >= MESSAGES || self.bytes + payload.len() > BYTES {
            let Some(oldest) = self.messages.pop_front() else { break };
            self.bytes -= oldest.len();
            not_shown.behind += 1;
            not_shown.without_reference += self.left_out(&oldest);
        }
        // For want of place, perhaps, nothing is left to which it refers.
        let known = self.subscriptions.get_mut(&channel).zip(picture);
        if let Some((known, picture)) = known.filter(|(known, picture)| !known.can_show(picture)) {
            known.leave_out(&picture);
            not_shown.without_reference += 1;
        } else {
            self.bytes += payload.len();
            self.messages.push_back(Message {
                subscription: id,
                log_time,
                payload: payload.clone(),
                picture,
            });
        }
        self.not_shown.add(not_shown);
        (not_shown, self.wakes())
    }

    /// Keeps these; gives how many went.
    fn keep(&mut self, keeps: impl Fn(&Message) -> bool) -> u64 {
        let before = self.messages.len();
        self.messages.retain(keeps);
        self.bytes = self.messages.iter().map(Message::len).sum();
        (before - self.messages.len()) as u64
    }

    /// Leaves out what cannot be shown without a picture that was left out; gives how many those are.
    fn left_out(&mut self, message: &Message) -> u64 {
        let is_of = |known: &&mut Subscription| known.id == message.subscription;
        let known = self.subscriptions.values_mut().find(is_of);
        let Some((picture, known)) = message.picture.as_ref().zip(known) else { return 0 };
        known.leave_out(picture);
        let before = self.messages.len();
        self.messages.retain(|other| {
            let Some(picture) = other.picture.as_ref().filter(|_| other.subscription == known.id) else {
                return true;
            };
            // In their order, so that what refers to one of these goes too.
            let can_show = picture.key || known.known.contains(&picture.reference);
            if !can_show {
                known.leave_out(picture);
            }
            can_show
        });
        self.bytes = self.messages.iter().map(Message::len).sum();
        (before - self.messages.len()) as u64
    }

    /// The client takes nothing at the moment, or does again.
    pub(super) fn blocked(&mut self, is_blocked: bool) {
        self.is_blocked = is_blocked;
    }

    /// May the thread sleep, until as much waits or it is closed? It is told to wake once.
    pub(super) fn sleep(&mut self, bytes: usize) -> bool {
        let sleeps = !self.has(bytes);
        self.sleeps_to = sleeps.then_some(bytes);
        sleeps
    }

    fn has(&self, bytes: usize) -> bool {
        self.is_closed || !self.messages.is_empty() && self.bytes >= bytes
    }

    fn wakes(&mut self) -> bool {
        let bytes = self.sleeps_to.filter(|bytes| self.has(*bytes));
        self.sleeps_to = self.sleeps_to.filter(|_| bytes.is_none());
        bytes.is_some()
    }

    /// What waits goes out yet, and nothing after it. Does the thread have to wake?
    pub(super) fn close(&mut self) -> bool {
        self.is_closed = true;
        self.wakes()
    }

    /// The connection is gone.
    pub(super) fn clear(&mut self) {
        *self = Self { is_closed: true, ..Self::new() };
    }

    /// All that was not shown so far.
    pub(super) fn not_shown(&self) -> NotShown {
        self.not_shown
    }

    /// Nothing comes any more.
    pub(super) fn is_over(&self) -> bool {
        self.is_closed && self.messages.is_empty()
    }

    /// The oldest, as many as make so many bytes, or one more.
    pub(super) fn take(&mut self, bytes: usize) -> Vec<Message> {
        let (mut taken, mut length) = (Vec::new(), 0);
        while length < bytes
            && let Some(message) = self.messages.pop_front()
        {
            length += message.len();
            taken.push(message);
        }
        self.bytes -= length;
        taken
    }
}

#[cfg(test)]
mod tests;
