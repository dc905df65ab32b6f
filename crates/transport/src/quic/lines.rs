//! Reliable messages that wait for QUIC, each behind those before it in its stream.

use std::collections::{BTreeMap, VecDeque};

use taut_core::{Bytes, Message, Priority, SendError, StreamId};

use crate::message_queue::{cost, room};

/// Bounded as [`MessageQueue`](crate::message_queue::MessageQueue) is; what it costs to find the next one grows with the streams that wait, not with the messages.
#[derive(Debug)]
pub(super) struct Lines {
    lines: BTreeMap<StreamId, Line>,
    /// The number of the next message.
    next: u64,
    bytes: u64,
    limit: Bytes,
}

#[derive(Debug, Default)]
struct Line {
    /// With their numbers.
    messages: VecDeque<(u64, Message)>,
    /// How urgent the most urgent is and its number, the oldest where several are; then the same of those behind it, and so on.
    urgent: VecDeque<(Priority, u64)>,
}

impl Lines {
    pub(super) fn new(limit: Bytes) -> Self {
        Self { lines: BTreeMap::new(), next: 0, bytes: 0, limit }
    }

    /// # Errors
    /// [`SendError::BufferFull`]
    pub(super) fn push(&mut self, message: Message) -> Result<(), SendError> {
        let needed = self.bytes + cost(&message);
        if needed > room(self.limit, message.priority) {
            return Err(SendError::BufferFull(self.limit));
        }
        self.bytes = needed;
        self.lines.entry(message.stream).or_default().push(self.next, message);
        self.next += 1;
        Ok(())
    }

    /// How urgently each stream goes in which something waits: what is before a message goes as urgently as it does.
    pub(super) fn urgencies(&self) -> impl Iterator<Item = (StreamId, Priority)> {
        self.lines.iter().filter_map(|(stream, line)| Some((*stream, line.urgent.front()?.0)))
    }

    /// The stream whose turn it is of those that may go, and how urgently it goes: of equally urgent ones the one whose message came first.
    pub(super) fn first(&self, may_go: impl Fn(StreamId, Priority) -> bool) -> Option<(Priority, StreamId)> {
        let lines = self.lines.iter().filter_map(|(stream, line)| Some((*line.urgent.front()?, *stream)));
        let next = lines.filter(|((priority, _), stream)| may_go(*stream, *priority)).min();
        next.map(|((priority, _), stream)| (priority, stream))
    }

    /// The oldest of a stream.
    pub(super) fn pop(&mut self, stream: StreamId) -> Option<Message> {
        let line = self.lines.get_mut(&stream)?;
        let (number, message) = line.messages.pop_front()?;
        line.urgent.pop_front_if(|(_, urgent)| *urgent == number);
        if line.messages.is_empty() {
            self.lines.remove(&stream);
        }
        self.bytes -= cost(&message);
        Some(message)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Takes all out.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Message> + use<> {
        self.bytes = 0;
        let lines = std::mem::take(&mut self.lines).into_values();
        lines.flat_map(|line| line.messages).map(|(_, message)| message)
    }
}

impl Line {
    fn push(&mut self, number: u64, message: Message) {
        while self.urgent.pop_back_if(|(priority, _)| *priority > message.priority).is_some() {}
        self.urgent.push_back((message.priority, number));
        self.messages.push_back((number, message));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use taut_core::Reliability;

    use super::*;
    use crate::message_queue::MessageQueue;

    fn message(tag: u64, stream: u16, priority: u8) -> Message {
        let (stream, priority, reliability) = (StreamId(stream), Priority(priority), Reliability::Reliable);
        Message { data: vec![0; 36], tag, stream, priority, reliability, ..Message::default() }
    }

    #[test]
    fn a_stop_has_a_tenth_more_room() {
        let mut lines = Lines::new(Bytes::new(1_000));
        (0..10).for_each(|tag| assert_eq!(lines.push(message(tag, 1, 1)), Ok(())));
        let full = Err(SendError::BufferFull(Bytes::new(1_000)));
        assert_eq!(lines.push(message(10, 1, 1)), full);
        assert_eq!(lines.push(message(11, 0, 0)), Ok(()));
        assert_eq!(lines.push(message(12, 0, 0)), full, "and no more");
        assert_eq!((lines.take_all().count(), lines.bytes, lines.is_empty()), (11, 0, true));
    }

    proptest! {
        /// The order is that of a queue in which all are looked at.
        #[test]
        fn they_go_as_from_one_queue(
            offered in prop::collection::vec((0_u16..5, 0_u8..4, any::<bool>()), 0..200),
        ) {
            let mut lines = Lines::new(Bytes::new(3_000));
            let mut queue = MessageQueue::new(Bytes::new(3_000), 1);
            let pop = |lines: &mut Lines, queue: &mut MessageQueue| {
                let first = lines.first(|stream, _| stream != StreamId(4));
                let other = |message: &Message| message.stream != StreamId(4);
                assert_eq!(first.map(|(priority, _)| priority), queue.urgency(other));
                let next = first.and_then(|(_, stream)| lines.pop(stream));
                assert_eq!(next, queue.pop_if(other));
                next.is_some()
            };
            for (tag, (stream, priority, pops)) in offered.into_iter().enumerate() {
                let message = message(tag as u64, stream, priority);
                prop_assert_eq!(lines.push(message.clone()), queue.push(message, |_| ()));
                if pops {
                    pop(&mut lines, &mut queue);
                }
            }
            while pop(&mut lines, &mut queue) {}
            let left: Vec<_> = lines.take_all().collect();
            prop_assert_eq!(left, Vec::from(queue.take_all()));
        }
    }
}
