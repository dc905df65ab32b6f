//! What waits for permission to be sent.

use std::collections::{BTreeMap, VecDeque};

use taut_core::{DropCause, Message, Priority, Reliability, Time, Waiting};

use crate::message_queue::alike;

/// A bounded queue: the most urgent goes first, in the order of arrival within a priority. A message too many costs the
/// oldest of the least urgent its place, those that ought to be reliable last.
#[derive(Clone, Debug)]
pub(super) struct SendQueue {
    waiting: BTreeMap<Priority, VecDeque<Message>>,
    len: usize,
    limit: usize,
    samples: usize,
}

/// A message that will not be sent: its tag, and why.
pub(super) type Dropped = (u64, DropCause);

impl SendQueue {
    pub(super) fn new(limit: usize, samples: usize) -> Self {
        Self { waiting: BTreeMap::new(), len: 0, limit, samples }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Does what stops a robot wait?
    pub(super) fn has_emergency(&self) -> bool {
        self.waiting.get(&Priority(0)).is_some_and(|queue| !queue.is_empty())
    }

    /// Takes a message in; what loses its place for it, possibly itself, is returned.
    pub(super) fn push(&mut self, message: Message) -> Option<Dropped> {
        let priority = message.priority;
        let queue = self.waiting.entry(priority).or_default();
        let alike = |other: &&Message| is_sample(&message) && alike(other, &message);
        let samples = queue.iter().filter(alike).count();
        let oldest = queue.iter().position(|other| alike(&other)).filter(|_| samples >= self.samples);
        queue.push_back(message);
        self.len += 1;
        let (victims, index) = if let Some(oldest) = oldest {
            (priority, oldest)
        } else if self.len > self.limit {
            let (least, queue) = self.waiting.iter().rev().find(|(_, queue)| !queue.is_empty())?;
            let unreliable = |message: &Message| message.reliability == Reliability::Unreliable;
            (*least, queue.iter().position(unreliable).unwrap_or(0))
        } else {
            return None;
        };
        let message = self.waiting.get_mut(&victims)?.remove(index)?;
        self.len -= 1;
        Some((message.tag, DropCause::Superseded))
    }

    pub(super) fn waiting(&self) -> Waiting {
        let urgent = self.waiting.iter().filter(|(priority, _)| priority.is_sample_or_above());
        if urgent.flat_map(|(_, queue)| queue).any(is_sample) { Waiting::Samples } else { Waiting::Nothing }
    }

    /// The next message that is worth sending; the tags of those that are too old are handed to `late`.
    pub(super) fn peek(&mut self, now: Time, mut late: impl FnMut(u64)) -> Option<&Message> {
        for queue in self.waiting.values_mut() {
            while let Some(message) = queue.pop_front_if(|message| message.is_late(now)) {
                self.len -= 1;
                late(message.tag);
            }
        }
        self.waiting.values().find_map(VecDeque::front)
    }

    /// The one that [`Self::peek`] told of.
    pub(super) fn pop(&mut self) -> Option<Message> {
        let message = self.waiting.values_mut().find_map(VecDeque::pop_front)?;
        self.len -= 1;
        Some(message)
    }

    /// Empties the queue.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Message> + '_ {
        self.len = 0;
        self.waiting.values_mut().flat_map(std::mem::take)
    }
}

/// Of these the newest count. Emergencies are never worth less than the next one.
fn is_sample(message: &Message) -> bool {
    message.is_sample() && message.priority > Priority(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use taut_core::{Duration, StreamId};

    fn message(tag: u64, priority: u8) -> Message {
        Message { tag, priority: Priority(priority), ..Message::default() }
    }

    fn tags(queue: &mut SendQueue) -> Vec<u64> {
        std::iter::from_fn(|| queue.pop()).map(|message| message.tag).collect()
    }

    #[test]
    fn urgent_messages_go_first_and_equals_in_order() {
        let mut queue = SendQueue::new(8, 8);
        for (tag, priority) in [(1, 2), (2, 1), (3, 0), (4, 1), (5, 2)] {
            assert_eq!(queue.push(message(tag, priority)), None);
        }
        assert_eq!(tags(&mut queue), [3, 2, 4, 1, 5]);
        assert!(queue.is_empty());
    }

    #[test]
    fn a_full_queue_costs_the_oldest_of_the_least_urgent_its_place() {
        let mut queue = SendQueue::new(3, 8);
        for (tag, priority) in [(1, 0), (2, 5), (3, 5)] {
            assert_eq!(queue.push(message(tag, priority)), None);
        }
        assert_eq!(queue.push(message(4, 0)), Some((2, DropCause::Superseded)));
        assert_eq!(queue.push(message(5, 7)), Some((5, DropCause::Superseded)), "itself the least urgent");
        assert_eq!(tags(&mut queue), [1, 4, 3]);
    }

    #[test]
    fn of_samples_the_newest_count_and_reliable_ones_stay() {
        let mut queue = SendQueue::new(64, 2);
        queue.push(Message { reliability: Reliability::Reliable, ..message(1, 1) });
        assert_eq!((queue.push(message(2, 1)), queue.push(message(3, 1))), (None, None));
        assert_eq!(
            (queue.push(message(4, 1)), queue.waiting()),
            (Some((2, DropCause::Superseded)), Waiting::Samples)
        );
        assert_eq!((tags(&mut queue), queue.waiting()), (vec![1, 3, 4], Waiting::Nothing));
    }

    #[test]
    fn samples_of_another_stream_and_emergencies_do_not_supersede_each_other() {
        let mut queue = SendQueue::new(64, 1);
        let on = |stream, message| Message { stream: StreamId(stream), ..message };
        for message in [message(1, 0), message(2, 0), on(2, message(3, 2)), on(3, message(4, 2))] {
            assert_eq!(queue.push(message), None);
        }
        assert_eq!(queue.push(on(2, message(5, 2))), Some((3, DropCause::Superseded)));
        assert_eq!(tags(&mut queue), [1, 2, 4, 5]);
    }

    #[test]
    fn what_is_too_old_is_not_sent() {
        let mut queue = SendQueue::new(8, 8);
        queue.push(Message { deadline: Some(Duration::from_millis(1)), ..message(1, 0) });
        queue.push(message(2, 0));
        let mut late = Vec::new();
        let next = queue.peek(Time::ZERO + Duration::from_millis(1), |tag| late.push(tag));
        assert_eq!((next.map(|message| message.tag), late), (Some(2), vec![1]));
        assert_eq!((tags(&mut queue), queue.is_empty()), (vec![2], true));
    }
}
