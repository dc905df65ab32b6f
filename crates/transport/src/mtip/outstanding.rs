//! What was sent and may have to be sent again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use taut_core::{Bytes, Message, Priority, Reliability, Time};

use super::deadline::Copies;
use crate::message_queue::{cost, room};

/// Messages with a deadline that are remembered at most: the oldest goes without another copy.
const SAMPLES: usize = 4_096;
/// What must arrive and is not acknowledged, at most, and a tenth more of priority 0; more is not taken.
pub(super) const RELIABLE: Bytes = Bytes::new(1024 * 1024);

/// A message that was sent, until it is acknowledged or worthless.
#[derive(Debug)]
pub(super) struct Outstanding {
    pub(super) number: u64,
    pub(super) message: Message,
    /// When it is worthless.
    pub(super) due: Time,
    pub(super) copies: Copies,
    /// Last moments that are still to come.
    pub(super) last_moments: usize,
}

impl Outstanding {
    /// It is sent again until it is acknowledged, or past a deadline of its own.
    pub(super) fn must_arrive(&self) -> bool {
        must_arrive(&self.message)
    }
}

/// When what must arrive is sent again.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Repeat {
    /// Its last copy left then.
    pub(super) sent: Time,
    /// It was repeated so often since anything was heard.
    pub(super) times: u32,
    /// It is repeated then.
    pub(super) at: Time,
}

/// All of them, by number.
#[derive(Debug, Default)]
pub(super) struct AllOutstanding {
    samples: VecDeque<Outstanding>,
    reliable: BTreeMap<u64, (Outstanding, Repeat)>,
    repeats: BTreeSet<(Time, u64)>,
    /// When those of the reliable that have a deadline are past it.
    late: BTreeSet<(Time, u64)>,
    bytes: u64,
}

impl AllOutstanding {
    /// Is there so much unacknowledged that nothing like this is taken?
    pub(super) fn is_full_for(&self, message: &Message) -> bool {
        must_arrive(message) && self.bytes + cost(message) > room(RELIABLE, message.priority)
    }

    /// Numbers ascend. What is worthless makes room.
    pub(super) fn push(&mut self, now: Time, entry: Outstanding) {
        while self.samples.len() >= SAMPLES || self.samples.front().is_some_and(|first| first.due <= now) {
            self.samples.pop_front();
        }
        if entry.must_arrive() {
            self.bytes += cost(&entry.message);
            self.repeats.insert((Time::MAX, entry.number));
            self.late.extend(late_at(&entry.message).map(|at| (at, entry.number)));
            self.reliable.insert(entry.number, (entry, Repeat { at: Time::MAX, ..Repeat::default() }));
        } else {
            self.samples.push_back(entry);
        }
    }

    pub(super) fn find(&mut self, number: u64) -> Option<&mut Outstanding> {
        match self.samples.binary_search_by_key(&number, |entry| entry.number) {
            Ok(at) => self.samples.get_mut(at),
            Err(_) => self.reliable.get_mut(&number).map(|(entry, _)| entry),
        }
    }

    /// It arrived, or is given up; the message, if it had to arrive.
    pub(super) fn remove(&mut self, number: u64) -> Option<Message> {
        if let Ok(at) = self.samples.binary_search_by_key(&number, |entry| entry.number) {
            self.samples.remove(at);
        }
        let (entry, repeat) = self.reliable.remove(&number)?;
        self.repeats.remove(&(repeat.at, number));
        if let Some(at) = late_at(&entry.message) {
            self.late.remove(&(at, number));
        }
        self.bytes -= cost(&entry.message);
        Some(entry.message)
    }

    /// Forgets all; those that had to arrive.
    pub(super) fn take_reliable(&mut self) -> impl Iterator<Item = Message> + use<> {
        let all = std::mem::take(self);
        all.reliable.into_values().map(|(entry, _)| entry.message)
    }

    /// What must arrive goes by another number, greater than all, from now on.
    pub(super) fn renumber(&mut self, number: u64, fresh: u64) {
        if let Some((entry, repeat)) = self.reliable.remove(&number) {
            self.repeats.remove(&(repeat.at, number));
            self.repeats.insert((repeat.at, fresh));
            if let Some(at) = late_at(&entry.message) {
                self.late.remove(&(at, number));
                self.late.insert((at, fresh));
            }
            self.reliable.insert(fresh, (Outstanding { number: fresh, last_moments: 0, ..entry }, repeat));
        }
    }

    /// Changes when it is repeated, if it must arrive.
    pub(super) fn repeat(&mut self, number: u64, change: impl Fn(Repeat) -> Repeat) {
        if let Some((_, repeat)) = self.reliable.get_mut(&number) {
            self.repeats.remove(&(repeat.at, number));
            *repeat = change(*repeat);
            self.repeats.insert((repeat.at, number));
        }
    }

    pub(super) fn repeat_all(&mut self, change: impl Fn(Repeat) -> Repeat) {
        self.repeats.clear();
        for (number, (_, repeat)) in &mut self.reliable {
            *repeat = change(*repeat);
            self.repeats.insert((repeat.at, *number));
        }
    }

    pub(super) fn first_repeat(&self) -> Option<Time> {
        self.repeats.first().map(|(at, _)| *at)
    }

    /// One that must arrive and is past its deadline.
    pub(super) fn first_late(&self, now: Time) -> Option<u64> {
        self.late.first().filter(|(at, _)| *at <= now).map(|(_, number)| *number)
    }

    /// Of those that are due the one that waited longest, or, when one is all there may be, the most urgent.
    pub(super) fn due_for_repeat(&self, now: Time, any: bool) -> Option<u64> {
        let mut due = self.repeats.range(..=(now, u64::MAX)).map(|(_, number)| *number);
        let priority =
            |number: &u64| self.reliable.get(number).map_or(Priority(u8::MAX), |(it, _)| it.message.priority);
        if any { due.next() } else { due.min_by_key(priority) }
    }
}

fn must_arrive(message: &Message) -> bool {
    message.reliability == Reliability::Reliable
}

/// When it is past its deadline.
fn late_at(message: &Message) -> Option<Time> {
    message.deadline.map(|deadline| message.created + deadline)
}
