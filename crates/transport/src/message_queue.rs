//! Messages that wait for their turn, bounded: of samples, the newest counts.

use std::collections::VecDeque;

use taut_core::{Bytes, Message, Priority, Reliability, SendError, Time};

/// A bounded queue in front of a transport that would keep everything that it is given.
#[derive(Debug)]
pub(crate) struct MessageQueue {
    messages: VecDeque<Message>,
    bytes: u64,
    limit: Bytes,
    /// How many samples of one stream, series and priority.
    samples: usize,
}

impl MessageQueue {
    /// Holds at most `limit`, and a tenth more of priority 0, counting [`Self::COST`] for each message besides its bytes; and at most
    /// `samples` (1 or more) samples of one stream, series and priority.
    pub(crate) fn new(limit: Bytes, samples: usize) -> Self {
        Self { messages: VecDeque::new(), bytes: 0, limit, samples }
    }

    /// What a message without bytes counts.
    pub(crate) const COST: u64 = 64;

    /// Takes a message in. Where there is no room, the oldest of the least urgent that are unreliable, and no more
    /// urgent than this one, go to `superseded`.
    ///
    /// # Errors
    /// [`SendError::BufferFull`] when that would not make room; nothing has changed then.
    pub(crate) fn push(
        &mut self,
        message: Message,
        mut superseded: impl FnMut(Message),
    ) -> Result<(), SendError> {
        let yields = |other: &Message| {
            other.reliability == Reliability::Unreliable && other.priority >= message.priority
        };
        let needed = self.bytes + cost(&message);
        let mut limit = self.limit.get();
        if needed > limit {
            let yielding: u64 = self.messages.iter().filter(|other| yields(other)).map(cost).sum();
            if needed - yielding > limit {
                limit = room(self.limit, message.priority);
            }
            if needed - yielding > limit {
                return Err(SendError::BufferFull(self.limit));
            }
        }
        while self.bytes + cost(&message) > limit {
            let least = self.messages.iter().filter(|other| yields(other)).map(|other| other.priority).max();
            let victim =
                self.messages.iter().position(|other| yields(other) && Some(other.priority) == least);
            superseded(self.remove(victim.expect("there is room when all that yield are gone")));
        }
        if message.is_sample() {
            let alike = |other: &Message| alike(other, &message);
            let count = self.messages.iter().filter(|other| alike(other)).count();
            if let Some(oldest) = self.messages.iter().position(alike).filter(|_| count >= self.samples) {
                superseded(self.remove(oldest));
            }
        }
        self.bytes += cost(&message);
        self.messages.push_back(message);
        Ok(())
    }

    /// The next one: the oldest of the most urgent, or, when that is reliable, the oldest reliable one of its stream,
    /// for those keep their order.
    pub(crate) fn pop(&mut self) -> Option<Message> {
        self.pop_if(|_| true)
    }

    /// The next of those that may go.
    pub(crate) fn pop_if(&mut self, may_go: impl Fn(&Message) -> bool) -> Option<Message> {
        self.next(may_go).map(|index| self.remove(index))
    }

    /// The one that [`Self::pop`] would give.
    pub(crate) fn peek(&self) -> Option<&Message> {
        self.next(|_| true).map(|index| &self.messages[index])
    }

    /// How urgent the most urgent is of those that may go: what [`Self::pop_if`] gives may be before it in its stream.
    pub(crate) fn urgency(&self, may_go: impl Fn(&Message) -> bool) -> Option<Priority> {
        self.messages.iter().filter(|message| may_go(message)).map(|message| message.priority).min()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Takes all out.
    pub(crate) fn take_all(&mut self) -> VecDeque<Message> {
        self.bytes = 0;
        std::mem::take(&mut self.messages)
    }

    /// Does one as urgent as samples wait that no newer one will replace?
    pub(crate) fn has_irreplaceable(&self) -> bool {
        self.messages.iter().any(Message::is_irreplaceable)
    }

    /// Takes out those that are older than their deadline.
    pub(crate) fn drop_late(&mut self, now: Time, mut late: impl FnMut(Message)) {
        while let Some(index) = self.messages.iter().position(|message| message.is_late(now)) {
            late(self.remove(index));
        }
    }

    fn next(&self, may_go: impl Fn(&Message) -> bool) -> Option<usize> {
        let urgent = self.urgency(&may_go)?;
        let first = self.messages.iter().position(|message| message.priority == urgent && may_go(message))?;
        let chosen = &self.messages[first];
        if chosen.reliability == Reliability::Unreliable {
            return Some(first);
        }
        self.messages
            .iter()
            .position(|other| other.stream == chosen.stream && other.reliability == Reliability::Reliable)
    }

    fn remove(&mut self, index: usize) -> Message {
        let message = self.messages.remove(index).expect("an index of this queue");
        self.bytes -= cost(&message);
        message
    }
}

/// Are both samples of the same, of which the newer counts?
pub(crate) fn alike(one: &Message, other: &Message) -> bool {
    let of = |message: &Message| (message.stream, message.series, message.priority);
    one.is_sample() && other.is_sample() && of(one) == of(other)
}

/// What a message counts.
pub(crate) fn cost(message: &Message) -> u64 {
    message.data.len() as u64 + MessageQueue::COST
}

/// What stops a robot has a tenth more room, of its own.
pub(crate) fn room(limit: Bytes, priority: Priority) -> u64 {
    limit.get() + if priority == Priority(0) { limit.get() / 10 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use taut_core::{Duration, StreamId};

    fn message(tag: u64, priority: u8, reliability: Reliability) -> Message {
        let data = vec![0; 36];
        Message { data, tag, priority: Priority(priority), reliability, ..Message::default() }
    }

    fn sample(tag: u64, priority: u8) -> Message {
        message(tag, priority, Reliability::Unreliable)
    }

    fn command(tag: u64, priority: u8) -> Message {
        message(tag, priority, Reliability::Reliable)
    }

    fn push(waiting: &mut MessageQueue, message: Message) -> Result<Vec<u64>, SendError> {
        let mut gone = Vec::new();
        waiting.push(message, |message| gone.push(message.tag)).map(|()| gone)
    }

    #[test]
    fn a_full_queue_gives_up_the_oldest_of_the_least_urgent_samples() {
        let mut waiting = MessageQueue::new(Bytes::new(400), 9);
        for message in [command(1, 9), sample(2, 1), sample(3, 5), sample(4, 5)] {
            assert_eq!(push(&mut waiting, message), Ok(vec![]));
        }
        assert_eq!(push(&mut waiting, sample(5, 1)), Ok(vec![3]));
        assert_eq!(push(&mut waiting, command(6, 1)), Ok(vec![4]));
        let full = Err(SendError::BufferFull(Bytes::new(400)));
        assert_eq!(push(&mut waiting, sample(7, 2)), full, "nobody yields to the less urgent");
        assert_eq!(push(&mut waiting, command(8, 0)), Ok(vec![2]));
        let order: Vec<u64> = std::iter::from_fn(|| waiting.pop()).map(|message| message.tag).collect();
        assert_eq!(order, [1, 6, 8, 5], "the reliable ones of one stream in their order, from the first");
        assert_eq!(waiting.bytes, 0);
    }

    #[test]
    fn the_most_urgent_goes_first_and_streams_do_not_wait_for_each_other() {
        let mut waiting = MessageQueue::new(Bytes::new(10_000), 9);
        let on = |stream, message| Message { stream: StreamId(stream), ..message };
        for message in [on(2, command(1, 2)), on(1, command(2, 1)), on(0, command(3, 0)), on(2, sample(4, 0))]
        {
            push(&mut waiting, message).unwrap();
        }
        let order: Vec<u64> = std::iter::from_fn(|| waiting.pop()).map(|message| message.tag).collect();
        assert_eq!(order, [3, 4, 2, 1]);
    }

    #[test]
    fn of_the_samples_of_a_stream_series_and_priority_the_newest_few_wait() {
        let mut waiting = MessageQueue::new(Bytes::new(10_000), 2);
        let other = Message { stream: StreamId(1), ..sample(1, 2) };
        let of_series = |series, message| Message { series: Some(series), ..message };
        let others =
            [other, command(2, 2), sample(6, 1), of_series(7, sample(8, 2)), of_series(9, sample(10, 5))];
        for message in others.into_iter().chain([sample(3, 2), sample(4, 2)]) {
            assert_eq!(push(&mut waiting, message), Ok(vec![]));
        }
        assert_eq!(push(&mut waiting, sample(5, 2)), Ok(vec![3]));
        assert_eq!(push(&mut waiting, of_series(9, sample(11, 5))), Ok(vec![]));
        assert_eq!(push(&mut waiting, of_series(9, sample(12, 5))), Ok(vec![10]));
    }

    /// Parts of a picture, which no newer message replaces: what bounds them is the room.
    #[test]
    fn what_is_no_sample_takes_no_samples_place_and_is_bounded_by_the_room() {
        let mut waiting = MessageQueue::new(Bytes::new(1_000), 1);
        push(&mut waiting, sample(0, 2)).unwrap();
        let gone: Vec<u64> = (1..=20).flat_map(|tag| push(&mut waiting, sample(tag, 5)).unwrap()).collect();
        assert_eq!(gone, (1..=11).collect::<Vec<_>>(), "ten messages of 100 find room");
        assert_eq!(waiting.pop().map(|message| message.tag), Some(0));
    }

    #[test]
    fn a_stop_has_a_tenth_more_room_where_all_that_waits_is_reliable() {
        let mut waiting = MessageQueue::new(Bytes::new(1_000), 9);
        (0..10).for_each(|tag| assert_eq!(push(&mut waiting, command(tag, 1)), Ok(vec![])));
        let full = Err(SendError::BufferFull(Bytes::new(1_000)));
        assert_eq!(push(&mut waiting, command(10, 1)), full);
        assert_eq!(push(&mut waiting, command(11, 0)), Ok(vec![]));
        assert_eq!(push(&mut waiting, sample(12, 0)), full, "and no more");
        assert_eq!((push(&mut waiting, sample(13, 1)), waiting.bytes), (full, 1_100), "nobody else has it");
    }

    #[test]
    fn the_late_are_taken_out() {
        let mut waiting = MessageQueue::new(Bytes::new(10_000), 9);
        push(&mut waiting, Message { deadline: Some(Duration::from_millis(5)), ..sample(1, 0) }).unwrap();
        push(&mut waiting, sample(2, 0)).unwrap();
        let mut late = Vec::new();
        waiting.drop_late(Time::ZERO + Duration::from_millis(5), |message| late.push(message.tag));
        assert_eq!(late, [1]);
        assert_eq!(waiting.peek().map(|message| message.tag), Some(2));
    }

    #[test]
    fn of_those_that_may_go_the_most_urgent_goes_and_what_is_before_it_in_its_stream() {
        let mut waiting = MessageQueue::new(Bytes::new(10_000), 9);
        let on = |stream, message| Message { stream: StreamId(stream), ..message };
        for message in
            [on(1, command(1, 0)), on(2, command(2, 5)), on(2, command(3, 1)), on(3, command(4, 2))]
        {
            push(&mut waiting, message).unwrap();
        }
        let may_go = |message: &Message| message.stream != StreamId(1);
        assert_eq!(waiting.urgency(may_go), Some(Priority(1)));
        let order: Vec<u64> =
            std::iter::from_fn(|| waiting.pop_if(may_go)).map(|message| message.tag).collect();
        assert_eq!(order, [2, 3, 4]);
        assert_eq!(waiting.take_all().len(), 1);
        assert!(waiting.is_empty() && waiting.bytes == 0);
    }

    proptest! {
        /// Every message that was taken comes out once, or is given back once.
        #[test]
        fn nothing_is_lost_silently(
            offered in prop::collection::vec((0_u8..4, 0_u16..4, any::<bool>(), 0_u64..20, any::<bool>()), 0..100),
        ) {
            let (mut waiting, mut now) = (MessageQueue::new(Bytes::new(800), 3), Time::ZERO);
            let (mut taken, mut out) = (Vec::new(), Vec::new());
            for (tag, (priority, stream, reliable, age, pop)) in offered.into_iter().enumerate() {
                now += Duration::from_millis(1);
                let reliability = if reliable { Reliability::Reliable } else { Reliability::Unreliable };
                let (deadline, stream) = (Some(Duration::from_millis(age + 1)), StreamId(stream));
                let message = message(tag as u64, priority, reliability);
                if let Ok(gone) = push(&mut waiting, Message { created: now, deadline, stream, ..message }) {
                    taken.push(tag as u64);
                    out.extend(gone);
                }
                waiting.drop_late(now, |message| out.push(message.tag));
                if pop {
                    out.extend(waiting.pop_if(|message| message.stream != StreamId(3)).map(|message| message.tag));
                }
            }
            out.extend(waiting.take_all().into_iter().map(|message| message.tag));
            out.sort_unstable();
            prop_assert_eq!(out, taken);
        }
    }
}
