//! Messages that wait to be given to QUIC: the most urgent first, and of samples the newest.

use std::collections::{BTreeMap, VecDeque};

use taut_core::{Bytes, DropCause, Event, Message, Priority, Reliability, SendError, StreamId, Time};

/// The queue. Unreliable messages wait by priority; when there are too many, the oldest of the least urgent goes.
/// Reliable ones wait by stream, in order, bounded in bytes; of equally urgent ones, that which was offered first goes first,
/// so that no stream waits for another to run dry.
#[derive(Debug)]
pub(super) struct Outgoing {
    samples: BTreeMap<Priority, VecDeque<Message>>,
    /// Each with its number among all that were offered.
    streams: BTreeMap<StreamId, VecDeque<(u64, Message)>>,
    offered: u64,
    sample_count: usize,
    sample_limit: usize,
    reliable_bytes: u64,
    reliable_limit: Bytes,
    pub(super) superseded: u64,
    pub(super) too_late: u64,
}

/// What a reliable message costs in the queue besides its bytes, so that empty ones cannot pile up.
const OVERHEAD: u64 = 64;

impl Outgoing {
    pub(super) fn new(sample_limit: usize, reliable_limit: Bytes) -> Self {
        Self {
            samples: BTreeMap::new(),
            streams: BTreeMap::new(),
            offered: 0,
            sample_count: 0,
            sample_limit,
            reliable_bytes: 0,
            reliable_limit,
            superseded: 0,
            too_late: 0,
        }
    }

    pub(super) fn push(&mut self, message: Message, events: &mut VecDeque<Event>) -> Result<(), SendError> {
        match message.reliability {
            Reliability::Reliable => {
                let size = message.data.len() as u64 + OVERHEAD;
                if self.reliable_bytes + size > self.reliable_limit.get() {
                    return Err(SendError::BufferFull(self.reliable_limit));
                }
                self.reliable_bytes += size;
                self.offered += 1;
                self.streams.entry(message.stream).or_default().push_back((self.offered, message));
            }
            Reliability::Unreliable => {
                self.sample_count += 1;
                self.samples.entry(message.priority).or_default().push_back(message);
                if self.sample_count > self.sample_limit {
                    self.supersede(events);
                }
            }
        }
        Ok(())
    }

    /// The next message that may go: `sample` and `stream` say whether one of that priority, or of that stream, may.
    /// Drops what is too late on the way.
    pub(super) fn pop(
        &mut self,
        now: Time,
        sample: impl Fn(Priority) -> bool,
        stream: impl Fn(StreamId, Priority) -> bool,
        events: &mut VecDeque<Event>,
    ) -> Option<Message> {
        loop {
            // Of equally urgent ones the reliable goes first: in the packet there is room for a sample beside it.
            let fronts = self.streams.iter().filter_map(|(id, queue)| Some((*id, queue.front()?)));
            let reliable = fronts.map(|(id, (number, message))| (message.priority, *number, id));
            let reliable = reliable.filter(|(priority, _, id)| stream(*id, *priority)).min();
            let urgent = self.urgent_sample(&sample);
            let message = match (reliable, urgent) {
                (Some((priority, _, id)), sample) if sample.is_none_or(|sample| priority <= sample) => {
                    let (_, message) = self.streams.get_mut(&id)?.pop_front()?;
                    self.reliable_bytes -= message.data.len() as u64 + OVERHEAD;
                    message
                }
                (_, Some(priority)) => {
                    self.sample_count -= 1;
                    self.samples.get_mut(&priority)?.pop_front()?
                }
                _ => return None,
            };
            if !message.is_late(now) {
                return Some(message);
            }
            self.too_late += 1;
            events.push_back(Event::Dropped { tag: message.tag, cause: DropCause::TooLate });
        }
    }

    /// How urgent the most urgent unreliable message is that may go.
    pub(super) fn urgent_sample(&self, may_go: impl Fn(Priority) -> bool) -> Option<Priority> {
        let waiting = self.samples.iter().filter(|(_, queue)| !queue.is_empty());
        waiting.map(|(priority, _)| *priority).find(|priority| may_go(*priority))
    }

    /// Is there anything that waits?
    pub(super) fn is_empty(&self) -> bool {
        self.sample_count == 0 && self.reliable_bytes == 0
    }

    /// Does one as urgent as samples wait that no newer one will replace?
    pub(super) fn has_irreplaceable(&self) -> bool {
        self.streams.values().filter_map(VecDeque::front).any(|(_, message)| message.is_irreplaceable())
    }

    /// Everything is dropped.
    pub(super) fn abandon(&mut self, events: &mut VecDeque<Event>) -> u64 {
        let before = events.len();
        let reliable = std::mem::take(&mut self.streams).into_values().flatten().map(|(_, message)| message);
        let all = reliable.chain(std::mem::take(&mut self.samples).into_values().flatten());
        events.extend(all.map(|message| Event::Dropped { tag: message.tag, cause: DropCause::Abandoned }));
        (self.sample_count, self.reliable_bytes) = (0, 0);
        (events.len() - before) as u64
    }

    fn supersede(&mut self, events: &mut VecDeque<Event>) {
        let victim = self.samples.values_mut().rev().find_map(VecDeque::pop_front);
        if let Some(message) = victim {
            self.sample_count -= 1;
            self.superseded += 1;
            events.push_back(Event::Dropped { tag: message.tag, cause: DropCause::Superseded });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use taut_core::Duration;

    fn message(tag: u64, priority: u8, stream: u16, reliable: bool) -> Message {
        let reliability = if reliable { Reliability::Reliable } else { Reliability::Unreliable };
        let (priority, stream) = (Priority(priority), StreamId(stream));
        Message { data: vec![0; 10], priority, stream, reliability, tag, ..Message::default() }
    }

    fn tags(queue: &mut Outgoing) -> Vec<u64> {
        let mut events = VecDeque::new();
        std::iter::from_fn(|| queue.pop(Time::ZERO, |_| true, |_, _| true, &mut events))
            .map(|message| message.tag)
            .collect()
    }

    #[test]
    fn the_most_urgent_goes_first_and_streams_keep_their_order() {
        let (mut queue, mut events) = (Outgoing::new(10, Bytes::new(1_000)), VecDeque::new());
        let offered = [(1, 2, 2, true), (2, 1, 2, true), (3, 1, 1, false), (4, 0, 0, true), (5, 0, 0, false)];
        for (tag, priority, stream, reliable) in offered {
            queue.push(message(tag, priority, stream, reliable), &mut events).unwrap();
        }
        assert_eq!(tags(&mut queue), [4, 5, 3, 1, 2], "2 waits for 1, which is before it in its stream");
        assert!(queue.is_empty());
    }

    #[test]
    fn streams_that_are_equally_urgent_take_turns() {
        let (mut queue, mut events) = (Outgoing::new(10, Bytes::new(1_000)), VecDeque::new());
        for (tag, stream) in [(1, 3), (2, 2), (3, 3), (4, 2)] {
            queue.push(message(tag, 1, stream, true), &mut events).unwrap();
        }
        assert_eq!(tags(&mut queue), [1, 2, 3, 4]);
    }

    #[test]
    fn a_full_queue_drops_the_oldest_of_the_least_urgent() {
        let (mut queue, mut events) = (Outgoing::new(2, Bytes::new(1_000)), VecDeque::new());
        for (tag, priority) in [(1, 0), (2, 5), (3, 5), (4, 5)] {
            queue.push(message(tag, priority, 1, false), &mut events).unwrap();
        }
        assert_eq!(tags(&mut queue), [1, 4]);
        let dropped = |tag| Event::Dropped { tag, cause: DropCause::Superseded };
        assert_eq!(events, [dropped(2), dropped(3)]);
    }

    #[test]
    fn a_newcomer_makes_nothing_go_that_is_more_urgent() {
        let (mut queue, mut events) = (Outgoing::new(2, Bytes::new(1_000)), VecDeque::new());
        for (tag, priority) in [(1, 0), (2, 1), (3, 5)] {
            queue.push(message(tag, priority, 1, false), &mut events).unwrap();
        }
        assert_eq!(tags(&mut queue), [1, 2]);
        assert_eq!(events, [Event::Dropped { tag: 3, cause: DropCause::Superseded }]);
    }

    #[test]
    fn reliable_messages_are_refused_when_there_is_no_room() {
        let (mut queue, mut events) = (Outgoing::new(2, Bytes::new(150)), VecDeque::new());
        queue.push(message(1, 0, 0, true), &mut events).unwrap();
        queue.push(message(2, 0, 0, true), &mut events).unwrap();
        let full = SendError::BufferFull(Bytes::new(150));
        assert_eq!(queue.push(message(3, 0, 0, true), &mut events), Err(full));
        assert_eq!(tags(&mut queue), [1, 2]);
        queue.push(message(3, 0, 0, true), &mut events).unwrap();
    }

    proptest! {
        /// Every message that was taken comes out once, or is reported once.
        #[test]
        fn nothing_is_lost_silently(
            offered in prop::collection::vec((0_u8..4, 0_u16..4, any::<bool>(), 0_u64..20, any::<bool>()), 0..100),
        ) {
            let (mut queue, mut events) = (Outgoing::new(8, Bytes::new(600)), VecDeque::new());
            let (mut taken, mut out, mut now) = (Vec::new(), Vec::new(), Time::ZERO);
            for (tag, (priority, stream, reliable, age, pop)) in offered.into_iter().enumerate() {
                now += Duration::from_millis(1);
                let deadline = Some(Duration::from_millis(age + 1));
                let message =
                    Message { created: now, deadline, ..message(tag as u64, priority, stream, reliable) };
                if queue.push(message, &mut events).is_ok() {
                    taken.push(tag as u64);
                }
                if pop {
                    out.extend(queue.pop(now, |_| true, |_, _| true, &mut events).map(|message| message.tag));
                }
            }
            queue.abandon(&mut events);
            prop_assert!(queue.is_empty());
            out.extend(events.iter().map(|event| match event {
                Event::Dropped { tag, .. } => *tag,
                _ => u64::MAX,
            }));
            out.sort_unstable();
            prop_assert_eq!(out, taken);
        }
    }
}
