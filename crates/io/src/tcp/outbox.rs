//! Messages that wait for the kernel, the most urgent first.

use std::collections::{BTreeMap, VecDeque};

use taut_core::{Bytes, DropCause, Event, Message, Priority, Reliability, SendError, Time};
use taut_transport::tcp::OVERTAKES;

/// Bytes before each message: its length, most significant byte first.
const PREFIX: u64 = 4;

/// A bounded queue by priority, and the piece of the stream that the kernel was offered.
#[derive(Debug)]
pub(super) struct Outbox {
    /// By urgency, and by age among equals.
    waiting: BTreeMap<(Priority, u64), Message>,
    /// Length of `waiting`, prefixes included.
    bytes: u64,
    limit: Bytes,
    max_message: Bytes,
    /// Messages offered, refused ones too.
    next: u64,
    /// The part of the stream that must go before anything else can, and how much of it has gone.
    stream: Vec<u8>,
    gone: usize,
    /// How urgent the most urgent message in it is.
    urgency: Priority,
    /// Bytes of the stream in all, the waiting rest of `stream` included.
    written: u64,
    /// Where in the stream messages end, with their tags, as far as nobody knows that they arrived.
    ends: VecDeque<(u64, u64)>,
}

impl Outbox {
    /// Bytes that the stream is committed to at a time, at least one message: about one segment. A more urgent message
    /// waits for these, not for the queue.
    const COMMIT: usize = 1_400;

    pub(super) fn new(limit: Bytes, max_message: Bytes) -> Self {
        Self {
            waiting: BTreeMap::new(),
            bytes: 0,
            limit,
            max_message,
            next: 0,
            stream: Vec::new(),
            gone: 0,
            urgency: Priority(u8::MAX),
            written: 0,
            ends: VecDeque::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.gone == self.stream.len()
    }

    /// How urgent the most urgent message is that waits, or of which something may be left.
    pub(super) fn urgency(&self) -> Option<Priority> {
        let begun = (self.gone < self.stream.len()).then_some(self.urgency);
        let waits = self.waiting.first_key_value().map(|((urgency, _), _)| *urgency);
        begun.into_iter().chain(waits).min()
    }

    pub(super) fn push(
        &mut self,
        now: Time,
        message: Message,
        events: &mut VecDeque<Event>,
    ) -> Result<(), SendError> {
        self.next += 1;
        let size = Bytes::new(message.data.len() as u64);
        if size > self.max_message {
            return Err(SendError::TooLarge { size, limit: self.max_message });
        }
        if message.is_late(now) {
            return Err(SendError::TooLate);
        }
        // What stops a robot has room of its own.
        let reserve = if message.priority == Priority(0) { self.limit.get() / 10 } else { 0 };
        let limit = self.limit.get() + reserve;
        if self.bytes + framed(&message) > limit {
            self.make_room(now, framed(&message), limit, message.priority, events);
        }
        if self.bytes + framed(&message) > limit {
            return Err(SendError::BufferFull(self.limit));
        }
        self.bytes += framed(&message);
        self.waiting.insert((message.priority, self.next), message);
        Ok(())
    }

    /// Drops what is too late, then what is unreliable and not more urgent than the newcomer: the least urgent first,
    /// of these the oldest.
    fn make_room(
        &mut self,
        now: Time,
        needed: u64,
        limit: u64,
        priority: Priority,
        events: &mut VecDeque<Event>,
    ) {
        let late: Vec<_> = self.waiting.iter().filter(|(_, m)| m.is_late(now)).map(|(key, _)| *key).collect();
        late.into_iter().for_each(|key| self.drop(key, DropCause::TooLate, events));
        while self.bytes + needed > limit {
            let unreliable = self.waiting.range((priority, 0)..);
            let victims = unreliable.filter(|(_, m)| m.reliability == Reliability::Unreliable);
            let Some(key) =
                victims.map(|(key, _)| *key).max_by_key(|(urgency, age)| (*urgency, u64::MAX - age))
            else {
                return;
            };
            self.drop(key, DropCause::Superseded, events);
        }
    }

    fn drop(&mut self, key: (Priority, u64), cause: DropCause, events: &mut VecDeque<Event>) {
        if let Some(message) = self.waiting.remove(&key) {
            self.bytes -= framed(&message);
            events.push_back(Event::Dropped { tag: message.tag, cause });
        }
    }

    /// What the kernel should take next; empty when there is nothing. Drops what is too late by now.
    pub(super) fn next(&mut self, now: Time, events: &mut VecDeque<Event>) -> &[u8] {
        if self.gone == self.stream.len() {
            self.stream.clear();
            (self.gone, self.urgency) = (0, Priority(u8::MAX));
            while self.stream.len() < Self::COMMIT {
                let Some(message) = self.pop() else { break };
                self.bytes -= framed(&message);
                if message.is_late(now) {
                    events.push_back(Event::Dropped { tag: message.tag, cause: DropCause::TooLate });
                    continue;
                }
                self.urgency = self.urgency.min(message.priority);
                self.stream.extend_from_slice(&(message.data.len() as u32).to_be_bytes());
                self.stream.extend_from_slice(&message.data);
                self.written += framed(&message);
                self.ends.push_back((self.written, message.tag));
            }
        }
        &self.stream[self.gone..]
    }

    /// The oldest of the most urgent, unless it would overtake one that was offered too long before: see [`OVERTAKES`].
    fn pop(&mut self) -> Option<Message> {
        let (&(urgency, number), _) = self.waiting.first_key_value()?;
        let (mut oldest, mut after) = ((urgency, number), urgency);
        while let Some((&(less_urgent, number), _)) =
            after.0.checked_add(1).and_then(|next| self.waiting.range((Priority(next), 0)..).next())
        {
            after = less_urgent;
            if number < oldest.1 {
                oldest = (less_urgent, number);
            }
        }
        let far = OVERTAKES[usize::from(urgency == Priority(0))];
        let chosen = if number - oldest.1 > far { oldest } else { (urgency, number) };
        self.waiting.remove(&chosen)
    }

    /// The kernel took so many bytes.
    pub(super) fn took(&mut self, bytes: usize) {
        self.gone += bytes;
    }

    /// Messages whose arrival is not known.
    pub(super) fn unknown(&self) -> usize {
        self.ends.len()
    }

    /// All but the last `unacknowledged` bytes that the kernel took have arrived.
    pub(super) fn acknowledged_but(&mut self, unacknowledged: u64) {
        let offered = self.written - (self.stream.len() - self.gone) as u64;
        let arrived = offered.saturating_sub(unacknowledged);
        while self.ends.front().is_some_and(|(end, _)| *end <= arrived) {
            self.ends.pop_front();
        }
    }

    /// The connection is gone: reports every message that may not have arrived, and begins a new stream.
    pub(super) fn abandon(&mut self, events: &mut VecDeque<Event>) {
        let waiting = std::mem::take(&mut self.waiting);
        let tags = self.ends.drain(..).map(|(_, tag)| tag).chain(waiting.values().map(|m| m.tag));
        events.extend(tags.map(|tag| Event::Dropped { tag, cause: DropCause::Cut }));
        self.stream.clear();
        (self.bytes, self.gone, self.written) = (0, 0, 0);
    }
}

fn framed(message: &Message) -> u64 {
    PREFIX + message.data.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use taut_core::Duration;

    fn message(tag: u64, priority: u8, len: usize) -> Message {
        Message { data: vec![tag as u8; len], priority: Priority(priority), tag, ..Message::default() }
    }

    fn outbox(limit: u64) -> (Outbox, VecDeque<Event>) {
        (Outbox::new(Bytes::new(limit), Bytes::new(10_000)), VecDeque::new())
    }

    #[test]
    fn stream_is_a_length_and_the_bytes_and_the_urgent_go_first() {
        let (mut outbox, mut events) = outbox(1_000);
        for (tag, priority) in [(1, 2), (2, 0), (3, 2)] {
            outbox.push(Time::ZERO, message(tag, priority, 2), &mut events).unwrap();
        }
        let stream = outbox.next(Time::ZERO, &mut events);
        assert_eq!(stream, [0, 0, 0, 2, 2, 2, 0, 0, 0, 2, 1, 1, 0, 0, 0, 2, 3, 3]);
    }

    #[test]
    fn an_urgent_message_overtakes_all_but_what_the_kernel_was_offered() {
        let (mut outbox, mut events) = outbox(100_000);
        (0..5).for_each(|tag| outbox.push(Time::ZERO, message(tag, 2, 1_500), &mut events).unwrap());
        assert_eq!(outbox.next(Time::ZERO, &mut events).len(), 1_504);
        outbox.took(10);
        outbox.push(Time::ZERO, message(9, 0, 5), &mut events).unwrap();
        assert_eq!(outbox.next(Time::ZERO, &mut events).len(), 1_494);
        outbox.took(1_494);
        assert_eq!(outbox.next(Time::ZERO, &mut events)[..9], [0, 0, 0, 5, 9, 9, 9, 9, 9]);
    }

    #[test]
    fn states_wait_for_those_that_the_kernel_has_not_taken_and_for_nothing_less_urgent() {
        let (mut outbox, mut events) = outbox(100_000);
        let is_blocked = |outbox: &Outbox| outbox.urgency().is_some_and(Priority::is_sample_or_above);
        outbox.push(Time::ZERO, message(1, 2, 10), &mut events).unwrap();
        assert!(is_blocked(&outbox));
        assert_eq!(outbox.next(Time::ZERO, &mut events).len(), 14);
        outbox.took(4);
        assert!(is_blocked(&outbox), "a part of it");
        outbox.took(10);
        (2..5).for_each(|tag| outbox.push(Time::ZERO, message(tag, 3, 1_000), &mut events).unwrap());
        assert!(!is_blocked(&outbox));
        outbox.next(Time::ZERO, &mut events);
        assert!(!is_blocked(&outbox), "a part of a picture");
    }

    #[test]
    fn no_message_waits_until_its_number_is_forgotten() {
        // Urgent ones that keep coming, beside samples of which many find no room.
        let (mut outbox, mut events) = outbox(100_000);
        let (mut newest, mut behind) = (0, 0);
        for number in 0..20_000_u64 {
            let priority = Priority(if number % 3 == 0 { (number % 2) as u8 } else { 2 });
            let data = number.to_be_bytes().to_vec();
            let reliability = Reliability::Reliable;
            let message = Message { data, priority, reliability, tag: number, ..Message::default() };
            let _ = outbox.push(Time::ZERO, message, &mut events);
            if let Some(message) = (number % 2 == 0).then(|| outbox.pop()).flatten() {
                outbox.bytes -= framed(&message);
                newest = message.tag.max(newest);
                behind = behind.max(newest - message.tag);
            }
        }
        assert!((1000..taut_transport::security::REPLAY_WINDOW).contains(&behind), "{behind}");
    }

    #[test]
    fn a_full_queue_drops_the_late_then_the_oldest_of_the_least_urgent_unreliable() {
        let (mut outbox, mut events) = outbox(3 * 104);
        let late = Message { deadline: Some(Duration::from_millis(1)), ..message(1, 1, 100) };
        outbox.push(Time::ZERO, late, &mut events).unwrap();
        outbox.push(Time::ZERO, message(2, 2, 100), &mut events).unwrap();
        let kept = Message { reliability: Reliability::Reliable, ..message(3, 3, 100) };
        outbox.push(Time::ZERO, kept, &mut events).unwrap();
        let now = Time::ZERO + Duration::from_millis(2);
        outbox.push(now, message(4, 1, 100), &mut events).unwrap();
        outbox.push(now, message(5, 2, 100), &mut events).unwrap();
        let dropped = |tag, cause| Event::Dropped { tag, cause };
        assert_eq!(events, [dropped(1, DropCause::TooLate), dropped(2, DropCause::Superseded)]);
        let refused = outbox.push(now, message(6, 3, 100), &mut events);
        assert_eq!(refused, Err(SendError::BufferFull(Bytes::new(312))));
    }

    #[test]
    fn an_emergency_finds_room_in_a_queue_full_of_reliable_messages() {
        let (mut outbox, mut events) = outbox(1_040);
        let reliable = |tag| Message { reliability: Reliability::Reliable, ..message(tag, 2, 100) };
        (0..10).for_each(|tag| outbox.push(Time::ZERO, reliable(tag), &mut events).unwrap());
        assert!(outbox.push(Time::ZERO, reliable(10), &mut events).is_err());
        outbox.push(Time::ZERO, Message { priority: Priority(0), ..reliable(11) }, &mut events).unwrap();
        assert_eq!(outbox.next(Time::ZERO, &mut events)[4], 11);
    }

    #[test]
    fn what_was_not_acknowledged_is_reported_when_the_connection_ends() {
        let (mut outbox, mut events) = outbox(10_000);
        (0..4).for_each(|tag| outbox.push(Time::ZERO, message(tag, 1, 996), &mut events).unwrap());
        assert_eq!(outbox.next(Time::ZERO, &mut events).len(), 2_000);
        outbox.took(1_500);
        outbox.acknowledged_but(500); // The first 1000 bytes arrived.
        assert_eq!(outbox.unknown(), 1);
        outbox.abandon(&mut events);
        let cut = |tag| Event::Dropped { tag, cause: DropCause::Cut };
        assert_eq!(events, [cut(1), cut(2), cut(3)]);
        assert!(outbox.is_empty());
    }
}
