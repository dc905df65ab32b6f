//! Messages in the byte stream: each is preceded by its length, four bytes, most significant first. Nothing else knows
//! that.

use std::collections::VecDeque;

use taut_core::{Bytes, DropCause, Event, Message, PathId, SendError, StreamId, Time};

use super::queue::StreamQueue;

/// Bytes of the length.
const PREFIX: usize = 4;

/// What an endpoint sends.
#[derive(Debug)]
pub(super) enum Source {
    /// Messages.
    Messages(Outbox),
    /// So many zeros, which nobody stores; `None`: without end.
    Bulk(Option<u64>),
}

/// Messages on their way into the stream and in it, until they are acknowledged.
#[derive(Debug)]
pub(super) struct Outbox {
    waiting: StreamQueue,
    /// The stream from the first byte that is not acknowledged.
    stream: VecDeque<u8>,
    /// Where in the stream messages end, counted from the stream's first byte, with their tags.
    ends: VecDeque<(u64, u64)>,
    /// Bytes of the stream that were acknowledged.
    acknowledged: u64,
}

impl Source {
    /// Bytes beyond the first `sent` of what is unacknowledged that could go now, at most `limit`. Drops the messages
    /// that are too late.
    pub(super) fn available(
        &mut self,
        now: Time,
        sent: u64,
        limit: u64,
        events: &mut VecDeque<Event>,
    ) -> u64 {
        match self {
            Self::Messages(outbox) => outbox.available(now, sent, limit, events),
            Self::Bulk(None) => limit,
            Self::Bulk(Some(left)) => (*left - sent).min(limit),
        }
    }

    /// Appends `len` bytes from `offset` beyond what is acknowledged; gives the zeros that follow instead of bytes.
    pub(super) fn write(&mut self, offset: u64, len: u64, buffer: &mut Vec<u8>) -> u32 {
        match self {
            Self::Messages(outbox) => {
                outbox.write(offset as usize, len as usize, buffer);
                0
            }
            Self::Bulk(_) => len as u32,
        }
    }

    /// The first `bytes` bytes are acknowledged.
    pub(super) fn acknowledge(&mut self, bytes: u64) {
        match self {
            Self::Messages(outbox) => outbox.acknowledge(bytes),
            Self::Bulk(Some(left)) => *left -= bytes,
            Self::Bulk(None) => {}
        }
    }

    /// Bytes of messages that were acknowledged, in all.
    pub(super) fn acknowledged(&self) -> u64 {
        match self {
            Self::Messages(outbox) => outbox.acknowledged,
            Self::Bulk(_) => 0,
        }
    }

    /// Bytes of messages that wait or are not acknowledged.
    pub(super) fn held(&self) -> u64 {
        match self {
            Self::Messages(outbox) => outbox.waiting.bytes() + outbox.stream.len() as u64,
            Self::Bulk(_) => 0,
        }
    }

    /// Does a message as urgent as samples wait, and is not in the stream yet?
    pub(super) fn has_urgent(&self) -> bool {
        match self {
            Self::Messages(outbox) => outbox.waiting.has_urgent(),
            Self::Bulk(_) => false,
        }
    }

    /// The connection is gone: reports every message that was not acknowledged.
    pub(super) fn abandon(&mut self, events: &mut VecDeque<Event>) {
        if let Self::Messages(outbox) = self {
            let waiting = std::iter::from_fn(|| outbox.waiting.pop());
            let tags = outbox.ends.drain(..).map(|(_, tag)| tag).chain(waiting.map(|message| message.tag));
            events.extend(tags.map(|tag| Event::Dropped { tag, cause: DropCause::Cut }));
            outbox.stream.clear();
        }
    }
}

impl Outbox {
    pub(super) fn new(limit: Bytes, max_message: Bytes) -> Self {
        Self {
            waiting: StreamQueue::new(limit, max_message),
            stream: VecDeque::new(),
            ends: VecDeque::new(),
            acknowledged: 0,
        }
    }

    pub(super) fn push(
        &mut self,
        now: Time,
        message: Message,
        events: &mut VecDeque<Event>,
    ) -> Result<(), SendError> {
        self.waiting.push(now, message, self.stream.len() as u64, events)
    }

    fn available(&mut self, now: Time, sent: u64, limit: u64, events: &mut VecDeque<Event>) -> u64 {
        let mut bytes = self.stream.len() as u64 - sent;
        let mut next = 0;
        while bytes < limit
            && let Some(message) = self.waiting.at(now, next, events)
        {
            bytes += framed(message);
            next += 1;
        }
        bytes.min(limit)
    }

    /// A message enters the stream when the first of its bytes is sent, and cannot be dropped from then on.
    fn write(&mut self, offset: usize, len: usize, buffer: &mut Vec<u8>) {
        while self.stream.len() < offset + len {
            let message = self.waiting.pop().expect("only what is available is written");
            self.stream.extend((message.data.len() as u32).to_be_bytes());
            self.stream.extend(&message.data);
            self.ends.push_back((self.acknowledged + self.stream.len() as u64, message.tag));
        }
        let (front, back) = self.stream.as_slices();
        let middle = front.len().min(offset + len);
        if offset < middle {
            buffer.extend_from_slice(&front[offset..middle]);
        }
        if offset + len > middle {
            let start = offset.max(middle);
            buffer.extend_from_slice(&back[start - front.len()..offset + len - front.len()]);
        }
    }

    fn acknowledge(&mut self, bytes: u64) {
        self.stream.drain(..bytes as usize);
        self.acknowledged += bytes;
        while self.ends.front().is_some_and(|(end, _)| *end <= self.acknowledged) {
            self.ends.pop_front();
        }
    }
}

/// What a message takes of the stream.
pub(super) fn framed(message: &Message) -> u64 {
    (PREFIX + message.data.len()) as u64
}

/// Cuts a byte stream into messages again: each is preceded by its length, four bytes, most significant first.
///
/// ```
/// use std::collections::VecDeque;
/// use taut_core::{Bytes, Event};
/// use taut_transport::tcp::Deframer;
///
/// let (mut deframer, mut events) = (Deframer::new(Bytes::new(1_000)), VecDeque::new());
/// deframer.push(&[0, 0, 0, 2, b'h'], &mut events)?;
/// assert!(events.is_empty());
/// deframer.push(b"i", &mut events)?;
/// assert!(matches!(events.pop_front(), Some(Event::Received { data, .. }) if data == b"hi"));
/// # Ok::<(), taut_transport::tcp::TooLong>(())
/// ```
#[derive(Debug)]
pub struct Deframer {
    prefix: [u8; PREFIX],
    prefix_len: usize,
    /// The message that is under way, and how long it will be.
    message: Vec<u8>,
    message_len: usize,
    max_message: Bytes,
}

/// The peer announced a message longer than the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the peer announced a message longer than the limit")]
pub struct TooLong;

impl Deframer {
    /// For messages of at most `max_message`.
    pub fn new(max_message: Bytes) -> Self {
        Self { prefix: [0; PREFIX], prefix_len: 0, message: Vec::new(), message_len: 0, max_message }
    }

    /// Takes the next bytes of the stream; every message that is whole now becomes an [`Event::Received`].
    ///
    /// # Errors
    /// When the peer announces a message beyond the limit. There is no way to go on with this stream.
    pub fn push(&mut self, mut bytes: &[u8], events: &mut VecDeque<Event>) -> Result<(), TooLong> {
        while !bytes.is_empty() {
            if self.prefix_len < PREFIX {
                let take = bytes.len().min(PREFIX - self.prefix_len);
                self.prefix[self.prefix_len..self.prefix_len + take].copy_from_slice(&bytes[..take]);
                self.prefix_len += take;
                bytes = &bytes[take..];
                if self.prefix_len < PREFIX {
                    return Ok(());
                }
                let len = u32::from_be_bytes(self.prefix);
                if u64::from(len) > self.max_message.get() {
                    return Err(TooLong);
                }
                self.message_len = len as usize;
                // What a peer announces is not what it sends: no more memory than a little ahead of time.
                self.message.reserve(self.message_len.min(65_536));
            }
            let take = bytes.len().min(self.message_len - self.message.len());
            self.message.extend_from_slice(&bytes[..take]);
            bytes = &bytes[take..];
            if self.message.len() == self.message_len {
                self.prefix_len = 0;
                events.push_back(Event::Received {
                    data: std::mem::take(&mut self.message),
                    path: PathId(0),
                    stream: StreamId(0),
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::OVERTAKES;
    use taut_core::{DropCause, Duration, Priority};

    fn message(data: &[u8], tag: u64) -> Message {
        Message { data: data.to_vec(), tag, ..Message::default() }
    }

    #[test]
    fn stream_is_a_length_and_the_bytes() {
        let mut events = VecDeque::new();
        let mut source = Source::Messages(Outbox::new(Bytes::new(100), Bytes::new(10)));
        let Source::Messages(outbox) = &mut source else { unreachable!() };
        outbox.push(Time::ZERO, message(b"ab", 1), &mut events).unwrap();
        outbox.push(Time::ZERO, message(b"", 2), &mut events).unwrap();
        let mut bytes = Vec::new();
        assert_eq!(source.available(Time::ZERO, 0, 100, &mut events), 10);
        source.write(0, 10, &mut bytes);
        assert_eq!(bytes, [0, 0, 0, 2, b'a', b'b', 0, 0, 0, 0]);
        let mut deframer = Deframer::new(Bytes::new(10));
        bytes.chunks(3).for_each(|piece| deframer.push(piece, &mut events).unwrap());
        let received =
            |data: &[u8]| Event::Received { data: data.to_vec(), path: PathId(0), stream: StreamId(0) };
        assert_eq!(events, [received(b"ab"), received(b"")]);
    }

    #[test]
    fn what_is_more_urgent_overtakes_what_is_not_in_the_stream() {
        let mut events = VecDeque::new();
        let mut outbox = Outbox::new(Bytes::new(1 << 20), Bytes::new(10));
        let urgent = |priority, tag| Message { priority: Priority(priority), ..message(&[tag as u8], tag) };
        (1..=3).for_each(|tag| outbox.push(Time::ZERO, urgent(2, tag), &mut events).unwrap());
        // The first has begun, and nothing gets into the midst of it.
        outbox.write(0, 2, &mut Vec::new());
        (4..=5).for_each(|tag| outbox.push(Time::ZERO, urgent(0, tag), &mut events).unwrap());
        outbox.push(Time::ZERO, urgent(1, 6), &mut events).unwrap();
        let mut bytes = Vec::new();
        outbox.write(0, 30, &mut bytes);
        assert_eq!(bytes.iter().skip(4).step_by(5).copied().collect::<Vec<_>>(), [1, 4, 5, 6, 2, 3]);
        (0..20_000).for_each(|tag| outbox.push(Time::ZERO, urgent(2, tag), &mut events).unwrap());
        outbox.push(Time::ZERO, urgent(0, 99_999), &mut events).unwrap();
        let place = 20_000 - OVERTAKES[1] as usize;
        assert_eq!(
            outbox.waiting.at(Time::ZERO, place, &mut events).map(|message| message.tag),
            Some(99_999)
        );
    }

    #[test]
    fn no_message_waits_until_its_number_is_forgotten() {
        // Urgent ones that keep coming, beside samples of which many find no room.
        let mut events = VecDeque::new();
        let mut outbox = Outbox::new(Bytes::new(20_000), Bytes::new(10));
        let mut bytes = Vec::new();
        for number in 0..20_000_u64 {
            let priority = Priority(if number % 3 == 0 { (number % 2) as u8 } else { 2 });
            let message = Message { priority, ..message(&number.to_be_bytes(), number) };
            let _ = outbox.push(Time::ZERO, message, &mut events);
            if number % 2 == 0 {
                let len = outbox.available(Time::ZERO, 0, 12, &mut events);
                outbox.write(0, len as usize, &mut bytes);
                outbox.acknowledge(len);
            }
        }
        let numbers = bytes.chunks(12).map(|framed| u64::from_be_bytes(framed[4..].try_into().unwrap()));
        let behind = numbers.scan(0, |newest, number| {
            *newest = number.max(*newest);
            Some(*newest - number)
        });
        let behind = behind.max().unwrap();
        assert!((1000..crate::security::REPLAY_WINDOW).contains(&behind), "{behind}");
    }

    #[test]
    fn full_buffer_makes_room_by_dropping_what_is_late() {
        let mut events = VecDeque::new();
        let mut outbox = Outbox::new(Bytes::new(20), Bytes::new(16));
        let late = Message { deadline: Some(Duration::from_millis(1)), ..message(&[0; 10], 1) };
        outbox.push(Time::ZERO, late.clone(), &mut events).unwrap();
        assert_eq!(
            outbox.push(Time::ZERO, message(&[0; 10], 2), &mut events),
            Err(SendError::BufferFull(Bytes::new(20)))
        );
        let now = Time::ZERO + Duration::from_millis(1);
        assert_eq!(outbox.push(now, late, &mut events), Err(SendError::TooLate));
        outbox.push(now, message(&[0; 10], 2), &mut events).unwrap();
        assert_eq!(events, [Event::Dropped { tag: 1, cause: DropCause::TooLate }]);
    }

    #[test]
    fn announced_length_beyond_the_limit_is_refused() {
        let mut deframer = Deframer::new(Bytes::new(10));
        assert_eq!(deframer.push(&[0, 0, 0, 11], &mut VecDeque::new()), Err(TooLong));
    }
}
