//! What waits for a client of the live view, bounded in bytes and in number; and how it goes out (RFC 6455 section 5.2;
//! <https://github.com/foxglove/ws-protocol>, Message Data). Sans-IO.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::recording::NotShown;

/// Payload that waits at most; or one message that is longer.
const BYTES: usize = 4 << 20;
/// Messages that wait at most: a second's at 1 kHz of states, feedback and round trips.
const MESSAGES: usize = 3_072;
/// A message so long is a picture: of those the newest of each channel waits.
const PICTURE: usize = 64 << 10;

/// What a client is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Out {
    Text(Arc<str>),
    Pong(Vec<u8>),
    Close,
    Message(Message),
}

/// A message of a channel. Its payload is shared by all clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    subscription: u32,
    log_time: u64,
    payload: Arc<Vec<u8>>,
}

impl Out {
    /// What goes before its payload.
    pub(super) fn head(&self) -> Vec<u8> {
        let (opcode, data): (u8, Vec<u8>) = match self {
            Self::Text(_) => (1, Vec::new()),
            Self::Message(message) => {
                let data = [&[1], &message.subscription.to_le_bytes()[..], &message.log_time.to_le_bytes()];
                (2, data.concat())
            }
            Self::Close => (8, Vec::new()),
            Self::Pong(_) => (10, Vec::new()),
        };
        let length = data.len() + self.payload().len();
        let mut head = vec![0x80 | opcode];
        match (u8::try_from(length), u16::try_from(length)) {
            (Ok(short @ ..126), _) => head.push(short),
            (_, Ok(longer)) => head.extend([&[126], &longer.to_be_bytes()[..]].concat()),
            _ => head.extend([&[127], &(length as u64).to_be_bytes()[..]].concat()),
        }
        head.extend(data);
        head
    }

    pub(super) fn payload(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Pong(bytes) => bytes,
            Self::Close => &[],
            Self::Message(message) => &message.payload,
        }
    }
}

/// What waits for one client.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// By channel, the number by which the client knows it.
    subscriptions: BTreeMap<u32, u32>,
    texts: VecDeque<Arc<str>>,
    /// Only the newest counts (RFC 6455 section 5.5.3).
    pong: Option<Vec<u8>>,
    status: Option<Arc<str>>,
    messages: VecDeque<Message>,
    bytes: usize,
    not_shown: NotShown,
    is_closed: bool,
}

impl Waiting {
    /// These go first.
    pub(super) fn new(texts: impl IntoIterator<Item = Arc<str>>) -> Self {
        Self { texts: texts.into_iter().collect(), ..Self::default() }
    }

    /// A channel's second subscription is none.
    pub(super) fn subscribe(&mut self, channel: u32, subscription: u32) {
        self.subscriptions.entry(channel).or_insert(subscription);
    }

    pub(super) fn unsubscribe(&mut self, subscription: u32) {
        self.subscriptions.retain(|_, known| *known != subscription);
        self.messages.retain(|message| message.subscription != subscription);
        self.bytes = self.messages.iter().map(|message| message.payload.len()).sum();
    }

    pub(super) fn wants(&self, channel: u32) -> bool {
        self.subscriptions.contains_key(&channel)
    }

    /// A message of a channel, if the client wants it; gives what made way for it.
    pub(super) fn message(&mut self, channel: u32, log_time: u64, payload: &Arc<Vec<u8>>) -> NotShown {
        let mut not_shown = NotShown::default();
        let Some(&subscription) = self.subscriptions.get(&channel).filter(|_| !self.is_closed) else {
            return not_shown;
        };
        if payload.len() >= PICTURE {
            let is_older =
                |other: &Message| other.subscription == subscription && other.payload.len() >= PICTURE;
            if let Some(place) = self.messages.iter().position(is_older) {
                self.bytes -= self.messages.remove(place).map_or(0, |older| older.payload.len());
                not_shown.superseded += 1;
            }
        }
        while self.messages.len() >= MESSAGES || self.bytes + payload.len() > BYTES {
            let Some(oldest) = self.messages.pop_front() else { break };
            self.bytes -= oldest.payload.len();
            not_shown.behind += 1;
        }
        self.bytes += payload.len();
        self.messages.push_back(Message { subscription, log_time, payload: payload.clone() });
        self.not_shown.add(not_shown);
        not_shown
    }

    /// A text about the connection; of two the newer.
    pub(super) fn status(&mut self, text: Arc<str>) {
        self.status = Some(text);
    }

    pub(super) fn pong(&mut self, bytes: Vec<u8>) {
        self.pong = Some(bytes);
    }

    /// What waits goes out yet, and nothing after it.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
    }

    /// The connection is gone.
    pub(super) fn clear(&mut self) {
        *self = Self { is_closed: true, ..Self::default() };
    }

    /// All that was not shown so far.
    pub(super) fn not_shown(&self) -> NotShown {
        self.not_shown
    }

    /// The next, if there is any; at the end [`Out::Close`], again and again.
    pub(super) fn take(&mut self) -> Option<Out> {
        if let Some(text) = self.texts.pop_front().or_else(|| self.status.take()) {
            return Some(Out::Text(text));
        }
        if let Some(bytes) = self.pong.take() {
            return Some(Out::Pong(bytes));
        }
        let Some(message) = self.messages.pop_front() else { return self.is_closed.then_some(Out::Close) };
        self.bytes -= message.payload.len();
        Some(Out::Message(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subscribed() -> Waiting {
        let mut waiting = Waiting::default();
        waiting.subscribe(1, 11);
        waiting.subscribe(2, 12);
        waiting
    }

    fn taken(waiting: &mut Waiting) -> Vec<(u32, u64)> {
        let all = std::iter::from_fn(|| waiting.take());
        all.filter_map(|out| match out {
            Out::Message(message) => Some((message.subscription, message.log_time)),
            _ => None,
        })
        .collect()
    }

    #[test]
    fn of_pictures_the_newest_waits_and_what_lies_between_them_stays() {
        let mut waiting = subscribed();
        let (picture, state) = (Arc::new(vec![0; 1 << 20]), Arc::new(vec![0; 400]));
        for at in 0..100 {
            assert_eq!(
                waiting.message(1, at, &picture),
                NotShown { superseded: u64::from(at > 0), behind: 0 }
            );
            assert_eq!(waiting.message(2, at, &state), NotShown::default());
        }
        assert_eq!(waiting.message(3, 0, &picture), NotShown::default(), "nobody subscribed to it");
        assert_eq!(waiting.bytes, (1 << 20) + 100 * 400);
        let mut expected: Vec<_> = (0..100).map(|at| (12, at)).collect();
        expected.insert(99, (11, 99));
        assert_eq!(taken(&mut waiting), expected);
        assert_eq!((waiting.bytes, waiting.not_shown()), (0, NotShown { superseded: 99, behind: 0 }));
    }

    #[test]
    fn the_oldest_make_way_by_number_and_by_bytes() {
        let mut waiting = subscribed();
        let state = Arc::new(vec![0; 40]);
        let most = MESSAGES as u64;
        (0..most + 7).for_each(|at| _ = waiting.message(1, at, &state));
        assert_eq!(waiting.not_shown(), NotShown { superseded: 0, behind: 7 });
        assert_eq!(taken(&mut waiting), (7..most + 7).map(|at| (11, at)).collect::<Vec<_>>());
        // Just no pictures.
        let long = Arc::new(vec![0; PICTURE - 1]);
        let fit = (BYTES / (PICTURE - 1)) as u64;
        (0..fit + 3).for_each(|at| _ = waiting.message(1, at, &long));
        assert!(waiting.bytes <= BYTES);
        assert_eq!(waiting.not_shown().behind, 7 + 3);
        // What is longer than all that may wait, waits alone.
        let huge = Arc::new(vec![0; 2 * BYTES]);
        assert_eq!(waiting.message(2, 0, &huge), NotShown { superseded: 0, behind: fit });
        assert_eq!(taken(&mut waiting), [(12, 0)]);
    }

    #[test]
    fn who_unsubscribes_is_sent_nothing_more_of_it_and_at_the_end_what_waits_goes_out() {
        let mut waiting = subscribed();
        let state = Arc::new(vec![0; 40]);
        (0..3).for_each(|at| _ = (waiting.message(1, at, &state), waiting.message(2, at, &state)));
        waiting.unsubscribe(11);
        assert!(!waiting.wants(1) && waiting.wants(2) && waiting.bytes == 3 * 40);
        waiting.close();
        assert_eq!(waiting.message(2, 3, &state), NotShown::default());
        let out: Vec<_> = std::iter::from_fn(|| waiting.take()).take(5).collect();
        assert_eq!(out.iter().filter(|out| matches!(out, Out::Message(_))).count(), 3);
        assert_eq!(out[3..], [Out::Close, Out::Close]);
    }

    #[test]
    fn heads_are_those_of_the_standard() {
        let message = |length| {
            Out::Message(Message {
                subscription: 0x0403_0201,
                log_time: 5,
                payload: Arc::new(vec![0; length]),
            })
        };
        let data = [1, 1, 2, 3, 4, 5, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(message(112).head(), [&[0x82, 125], &data[..]].concat());
        assert_eq!(message(113).head(), [&[0x82, 126, 0, 126], &data[..]].concat());
        assert_eq!(message(65_522).head(), [&[0x82, 126, 255, 255], &data[..]].concat());
        assert_eq!(message(65_523).head(), [&[0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0], &data[..]].concat());
        assert_eq!(Out::Text("{}".into()).head(), [0x81, 2]);
        assert_eq!((Out::Pong(vec![7; 3]).head(), Out::Close.head()), (vec![0x8a, 3], vec![0x88, 0]));
    }
}
