//! Messages of channels between a session and a process that may be slow: bounded, each dropped as its channel's delivery says.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde::Serialize;
use taut_agent::DeviceMessage;
use taut_core::{DropCause, Duration, Time};
use taut_session::motion::{Motion, Schema};
use taut_session::{ChannelId, Delivery, Direction};

/// A channel, as far as those need to know it who carry its messages by lines.
#[derive(Clone, Debug, PartialEq)]
pub struct LineChannel {
    /// By this name.
    pub name: String,
    /// Which way.
    pub direction: Direction,
    /// What moves by it, if anything does.
    pub motion: Option<Schema>,
    /// Its payloads are JSON.
    pub is_json: bool,
    /// What becomes of messages that wait.
    pub delivery: Delivery,
    /// The age at which a message is worthless.
    pub deadline: Option<Duration>,
    /// Which goes first: 0 to 7.
    pub priority: u8,
    /// Bytes of a payload.
    pub largest: usize,
    /// Of each joint that moves by it, where that is known: the least and the largest position, speed and effort.
    pub joints: Vec<[f32; 4]>,
}

/// All that an end declared, in that order.
pub type LineChannels = Arc<[LineChannel]>;

/// The longest line that has a message of theirs this way.
pub(super) fn longest_line(channels: &LineChannels, direction: Direction) -> usize {
    let largest =
        channels.iter().filter(|channel| channel.direction == direction).map(|channel| channel.largest);
    // As base64, and its channel's name.
    largest.max().map_or(0, |largest| largest.div_ceil(3) * 4 + 1_000)
}

/// Messages that were dropped between a device and its session, by channel and cause; channels with any.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Drops {
    /// On the way to the device.
    pub to_device: BTreeMap<String, BTreeMap<&'static str, u64>>,
    /// On the way from it.
    pub from_device: BTreeMap<String, BTreeMap<&'static str, u64>>,
}

/// Tells what was dropped so far, from any thread. It can be copied.
#[derive(Clone)]
pub struct DeviceDrops(Arc<dyn Fn() -> Drops + Send + Sync>);

impl DeviceDrops {
    pub(super) fn new(read: impl Fn() -> Drops + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    /// What was dropped so far.
    pub fn read(&self) -> Drops {
        (self.0)()
    }
}

impl std::fmt::Debug for DeviceDrops {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("DeviceDrops").field(&self.read()).finish()
    }
}

/// What a message holds.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Content {
    Payload(Vec<u8>),
    Motion(Motion),
}

/// A message that waits.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct QueuedMessage {
    pub(super) channel: ChannelId,
    pub(super) content: Content,
    /// When it was made, if that is known.
    pub(super) made: Option<Time>,
    came: Time,
}

impl QueuedMessage {
    pub(super) fn message(self) -> DeviceMessage {
        let channel = self.channel;
        match self.content {
            Content::Payload(payload) => DeviceMessage::Payload { channel, payload },
            Content::Motion(motion) => DeviceMessage::Motion { channel, motion },
        }
    }
}

/// Messages of one way that wait for whoever takes them, by the priority of their channels. Sans-IO; its time is of one clock.
#[derive(Debug)]
pub(super) struct Messages {
    channels: LineChannels,
    queues: Vec<Queue>,
    /// Their places, the most urgent first.
    order: Vec<usize>,
}

#[derive(Clone, Debug, Default)]
struct Queue {
    waiting: VecDeque<QueuedMessage>,
    bytes: usize,
    dropped: BTreeMap<&'static str, u64>,
}

/// Messages of one channel that wait, at most; and so many of the largest.
const KEPT: usize = 64;
const KEPT_LARGEST: usize = 4;

impl Messages {
    pub(super) fn new(channels: LineChannels) -> Self {
        let mut order: Vec<usize> = (0..channels.len()).collect();
        order.sort_by_key(|at| channels[*at].priority);
        Self { queues: vec![Queue::default(); channels.len()], channels, order }
    }

    /// One came that is so old already. A full queue drops the oldest; of what is to arrive in any case, the new one.
    pub(super) fn push(&mut self, now: Time, channel: ChannelId, age: Option<Duration>, content: Content) {
        let at = usize::from(channel.0);
        let Some(LineChannel { delivery, largest, .. }) = self.channels.get(at) else { return };
        let made = age.map(|age| Time::from_nanos(now.as_nanos().saturating_sub(age.as_nanos())));
        let queue = &mut self.queues[at];
        let length = content.len();
        if length > *largest {
            return queue.count(DropCause::TooBig);
        }
        let is_full = |queue: &Queue| {
            queue.waiting.len() >= KEPT || queue.bytes + length > KEPT_LARGEST * largest.max(&1)
        };
        match delivery {
            Delivery::Newest => while queue.drop_oldest(DropCause::Superseded) {},
            Delivery::Deadline | Delivery::Once => {
                while is_full(queue) && queue.drop_oldest(DropCause::QueueFullPackets) {}
            }
            Delivery::Reliable if is_full(queue) => return queue.count(DropCause::QueueFullPackets),
            Delivery::Reliable => {}
        }
        queue.bytes += length;
        queue.waiting.push_back(QueuedMessage { channel, content, made, came: now });
    }

    /// The next one, which is in time.
    pub(super) fn pop(&mut self, now: Time) -> Option<QueuedMessage> {
        for at in &self.order {
            let (queue, channel) = (&mut self.queues[*at], &self.channels[*at]);
            while let Some(first) = queue.waiting.pop_front() {
                queue.bytes -= first.content.len();
                let deadline = channel.deadline.filter(|_| channel.delivery != Delivery::Reliable);
                let is_late = |deadline| now.saturating_since(first.made.unwrap_or(first.came)) >= deadline;
                if !deadline.is_some_and(is_late) {
                    return Some(first);
                }
                queue.count(DropCause::TooLate);
            }
        }
        None
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queues.iter().all(|queue| queue.waiting.is_empty())
    }

    pub(super) fn channel(&self, channel: ChannelId) -> &LineChannel {
        &self.channels[usize::from(channel.0)]
    }

    /// The channel of this name and direction.
    ///
    /// # Errors
    /// What there is instead.
    pub(super) fn find(&self, name: &str, direction: Direction) -> Result<(ChannelId, &LineChannel), String> {
        let is_it = |channel: &&LineChannel| channel.name == name && channel.direction == direction;
        let place = self.channels.iter().position(|channel| is_it(&channel));
        let place = place.ok_or_else(|| {
            let all = self.channels.iter().filter(|channel| channel.direction == direction);
            let names: Vec<&str> = all.map(|channel| &*channel.name).collect();
            format!("there is no channel `{name}` {}; there are: {}", direction.name(), names.join(", "))
        })?;
        Ok((ChannelId(place as u8), &self.channels[place]))
    }

    /// The channel of this number and direction.
    ///
    /// # Errors
    /// That there is none.
    pub(super) fn known(&self, channel: ChannelId, direction: Direction) -> Result<&LineChannel, String> {
        let known = self.channels.get(usize::from(channel.0)).filter(|known| known.direction == direction);
        known.ok_or_else(|| format!("there is no channel {} {}", channel.0, direction.name()))
    }

    /// Dropped here, by channel and cause; channels with any.
    pub(super) fn drops(&self) -> BTreeMap<String, BTreeMap<&'static str, u64>> {
        let each = self.channels.iter().zip(&self.queues).filter(|(_, queue)| !queue.dropped.is_empty());
        each.map(|(channel, queue)| (channel.name.clone(), queue.dropped.clone())).collect()
    }
}

impl Content {
    fn len(&self) -> usize {
        match self {
            Self::Payload(payload) => payload.len(),
            Self::Motion(motion) => motion.len(),
        }
    }
}

impl Queue {
    fn count(&mut self, cause: DropCause) {
        *self.dropped.entry(cause.name()).or_default() += 1;
    }

    /// False: there was none.
    fn drop_oldest(&mut self, cause: DropCause) -> bool {
        let Some(oldest) = self.waiting.pop_front() else { return false };
        self.bytes -= oldest.content.len();
        self.count(cause);
        true
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn channel(name: &str, delivery: Delivery) -> LineChannel {
        LineChannel {
            name: name.to_owned(),
            direction: Direction::ToRobot,
            motion: None,
            is_json: false,
            delivery,
            deadline: (delivery == Delivery::Deadline).then_some(Duration::from_millis(100)),
            priority: 3,
            largest: 1_000,
            joints: Vec::new(),
        }
    }

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    fn messages() -> Messages {
        let list = [
            channel("newest", Delivery::Newest),
            channel("deadline", Delivery::Deadline),
            LineChannel { priority: 1, ..channel("reliable", Delivery::Reliable) },
        ];
        Messages::new(Arc::from(list))
    }

    fn push(messages: &mut Messages, now: Time, channel: u8, first: u8) {
        let payload = Content::Payload(vec![first; 100]);
        messages.push(now, ChannelId(channel), Some(Duration::ZERO), payload);
    }

    fn all(messages: &mut Messages, now: Time) -> Vec<(u8, u8)> {
        let one = |waiting: QueuedMessage| match waiting.content {
            Content::Payload(payload) => (waiting.channel.0, payload[0]),
            Content::Motion(_) => panic!("there is none"),
        };
        std::iter::from_fn(|| messages.pop(now)).map(one).collect()
    }

    #[test]
    fn a_full_queue_drops_as_the_channels_delivery_says_and_counts_the_cause() {
        let mut messages = messages();
        for first in 0..50 {
            (0..3).for_each(|channel| push(&mut messages, at(0), channel, first));
        }
        // 40 messages are four of the largest.
        let told = all(&mut messages, at(1));
        let of =
            |channel| told.iter().filter(|told| told.0 == channel).map(|told| told.1).collect::<Vec<_>>();
        assert_eq!((of(0), of(1)), (vec![49], (10..50).collect()));
        assert_eq!(of(2), (0..40).collect::<Vec<_>>(), "what is to arrive in order keeps its beginning");
        assert_eq!(told[0].0, 2, "the most urgent first");
        let drops = messages.drops();
        assert_eq!(drops["newest"]["superseded"], 49);
        assert_eq!(
            (drops["deadline"]["queue_full_packets"], drops["reliable"]["queue_full_packets"]),
            (10, 10)
        );
    }

    #[test]
    fn what_has_waited_too_long_is_not_given_and_what_is_too_large_is_not_taken() {
        let mut messages = messages();
        push(&mut messages, at(0), 1, 1);
        push(&mut messages, at(50), 1, 2);
        push(&mut messages, at(0), 2, 3);
        assert_eq!(all(&mut messages, at(120)), [(2, 3), (1, 2)]);
        messages.push(at(120), ChannelId(0), None, Content::Payload(vec![0; 1_001]));
        assert!(messages.is_empty());
        let drops = messages.drops();
        assert_eq!((drops["deadline"]["too_late"], drops["newest"]["too_big"]), (1, 1));
    }

    #[test]
    fn a_channel_that_is_not_there_is_told_with_those_that_are() {
        let error = messages().find("lights", Direction::ToRobot).unwrap_err();
        assert_eq!(error, "there is no channel `lights` to_robot; there are: newest, deadline, reliable");
    }
}
