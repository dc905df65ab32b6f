//! Messages that are not in the stream yet: what is more urgent overtakes.

use std::collections::VecDeque;

use taut_core::{Bytes, DropCause, Event, Message, Priority, SendError, Time};

use super::framing::framed;
use crate::window::REPLAY_WINDOW;

/// How many offers later a message may be made that still overtakes another, and how many when it is an emergency. Whoever
/// numbers what it offers and wants each number once, as [`Sealed`](crate::security::Sealed) does, remembers
/// [`REPLAY_WINDOW`](crate::security::REPLAY_WINDOW) numbers, and ends the connection for one from before.
pub const OVERTAKES: [u64; 2] = [REPLAY_WINDOW - 1024, REPLAY_WINDOW - 128];

/// Messages that wait for a stream and can still be dropped, in the order in which they go.
#[derive(Debug)]
pub(crate) struct StreamQueue {
    waiting: VecDeque<Offered>,
    /// Messages offered, refused ones too.
    offered: u64,
    /// Length of `waiting`, prefixes included.
    bytes: u64,
    /// Messages dropped because they were past their deadline.
    too_late: u64,
    limit: Bytes,
    max_message: Bytes,
}

#[derive(Debug)]
struct Offered {
    message: Message,
    /// Its place among all that were offered.
    number: u64,
}

impl StreamQueue {
    pub(crate) fn new(limit: Bytes, max_message: Bytes) -> Self {
        Self { waiting: VecDeque::new(), offered: 0, bytes: 0, too_late: 0, limit, max_message }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn too_late(&self) -> u64 {
        self.too_late
    }

    /// Does a message as urgent as samples wait?
    pub(crate) fn has_urgent(&self) -> bool {
        self.waiting.iter().any(|offered| offered.message.priority.is_sample_or_above())
    }

    /// Takes a message in. `held`: bytes of the stream that count, too. Where there is no room, what is too late is dropped.
    pub(crate) fn push(
        &mut self,
        now: Time,
        message: Message,
        held: u64,
        events: &mut VecDeque<Event>,
    ) -> Result<(), SendError> {
        self.offered += 1;
        let size = Bytes::new(message.data.len() as u64);
        if size > self.max_message {
            return Err(SendError::TooLarge { size, limit: self.max_message });
        }
        if message.is_late(now) {
            return Err(SendError::TooLate);
        }
        let has_room = |this: &Self| held + this.bytes + framed(&message) <= this.limit.get();
        if !has_room(self) {
            let mut place = 0;
            while self.at(now, place, events).is_some() {
                place += 1;
            }
        }
        if !has_room(self) {
            return Err(SendError::BufferFull(self.limit));
        }
        self.bytes += framed(&message);
        let place = self.place_of(&message);
        self.waiting.insert(place, Offered { message, number: self.offered });
        Ok(())
    }

    /// Before everything less urgent, as far as [`OVERTAKES`] allows.
    fn place_of(&self, message: &Message) -> usize {
        let far = OVERTAKES[usize::from(message.priority == Priority(0))];
        let yields = |other: &&Offered| {
            other.message.priority > message.priority && self.offered - other.number <= far
        };
        self.waiting.len() - self.waiting.iter().rev().take_while(yields).count()
    }

    /// The message at this place, 0 for the next one, once those that are too late are dropped from there.
    pub(crate) fn at(&mut self, now: Time, place: usize, events: &mut VecDeque<Event>) -> Option<&Message> {
        while let message = &self.waiting.get(place)?.message
            && message.is_late(now)
        {
            self.bytes -= framed(message);
            self.too_late += 1;
            events.push_back(Event::Dropped { tag: message.tag, cause: DropCause::TooLate });
            self.waiting.remove(place);
        }
        Some(&self.waiting[place].message)
    }

    /// The next message goes.
    pub(crate) fn pop(&mut self) -> Option<Message> {
        let Offered { message, .. } = self.waiting.pop_front()?;
        self.bytes -= framed(&message);
        Some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_overtakes_all_that_a_robot_says_in_five_seconds() {
        let mut events = VecDeque::new();
        let mut queue = StreamQueue::new(Bytes::new(1_000_000), Bytes::new(100));
        let message = |tag, priority| Message { priority: Priority(priority), tag, ..Message::default() };
        (1..=5_000).for_each(|tag| queue.push(Time::ZERO, message(tag, 2), 0, &mut events).unwrap());
        queue.push(Time::ZERO, message(0, 0), 0, &mut events).unwrap();
        assert_eq!(queue.pop().map(|message| message.tag), Some(0));
    }
}
