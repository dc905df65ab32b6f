//! Messages of channels as frames: long ones in parts.

use std::collections::BTreeMap;

use taut_core::{Duration, Time};
use taut_session::{ChannelId, Direction};

use super::frame::{ChannelInfo, Frame, PART};
use super::messages::{Content, LineChannels, Messages};

/// Messages that wait to be written, cut into frames. Sans-IO; its time is of one clock.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) messages: Messages,
    /// A message of which so many bytes were written.
    begun: Option<(ChannelId, Vec<u8>, usize)>,
}

impl Outgoing {
    pub(super) fn new(channels: LineChannels) -> Self {
        Self { messages: Messages::new(channels), begun: None }
    }

    /// The next message, or the next part of one.
    pub(super) fn next(&mut self, now: Time) -> Option<Frame> {
        let (channel, age, bytes, from) = match self.begun.take() {
            Some((channel, bytes, written)) => (channel, None, bytes, written),
            None => {
                let next = self.messages.pop(now)?;
                // Nothing else waits to be written here.
                let Content::Payload(bytes) = next.content else { return None };
                (next.channel, next.made.map(|made| now.saturating_since(made)), bytes, 0)
            }
        };
        let to = bytes.len().min(from + PART);
        let (more, payload) = (to < bytes.len(), bytes[from..to].to_vec());
        if more {
            self.begun = Some((channel, bytes, to));
        }
        Some(Frame::Message { channel, age, more, payload })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.begun.is_none() && self.messages.is_empty()
    }
}

/// What comes from a program: messages whole again, and motion. Sans-IO; its time is of one clock.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) messages: Messages,
    /// Beginnings of messages, by channel; `None`: of one that was too long, whose rest is nothing.
    begun: BTreeMap<u8, Option<Vec<u8>>>,
}

impl Incoming {
    pub(super) fn new(channels: LineChannels) -> Self {
        Self { messages: Messages::new(channels), begun: BTreeMap::new() }
    }

    /// A frame of a message, of those that go in that `direction`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn message(
        &mut self,
        now: Time,
        direction: Direction,
        channel: ChannelId,
        payload: &[u8],
        more: bool,
    ) -> Result<(), String> {
        let known = self.messages.known(channel, direction)?;
        if known.motion.is_some() {
            return Err(format!("channel `{}` is motion, and takes no messages", known.name));
        }
        let largest = known.largest;
        let begun = self.begun.remove(&channel.0).unwrap_or_else(|| Some(Vec::new()));
        let is_known = begun.is_none();
        let mut whole = begun.filter(|begun| begun.len() + payload.len() <= largest);
        if whole.is_none() && !is_known {
            let error = format!("a message of channel `{}` is longer than {largest} B", known.name);
            if more {
                self.begun.insert(channel.0, None);
            }
            return Err(error);
        }
        whole.iter_mut().for_each(|whole| whole.extend_from_slice(payload));
        if more {
            self.begun.insert(channel.0, whole);
        } else if let Some(whole) = whole {
            self.messages.push(now, channel, None, Content::Payload(whole));
        }
        Ok(())
    }

    /// A frame of motion.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn motion(
        &mut self,
        now: Time,
        channel: ChannelId,
        motion: taut_session::motion::Motion,
    ) -> Result<(), String> {
        let known = self.messages.known(channel, Direction::ToRobot)?;
        if known.motion != Some(motion.schema()) {
            return Err(format!("channel `{}` is no motion of {}", known.name, motion.schema().name()));
        }
        self.messages.push(now, channel, None, Content::Motion(motion));
        Ok(())
    }
}

/// What a program is told of each channel.
pub(super) fn infos(channels: &LineChannels) -> impl Iterator<Item = Frame> {
    channels.iter().zip(0..=u8::MAX).map(|(known, at)| {
        Frame::Channel(ChannelInfo {
            channel: ChannelId(at),
            motion: known.motion,
            to_operator: known.direction == Direction::ToOperator,
            is_json: known.is_json,
            largest: u32::try_from(known.largest).unwrap_or(u32::MAX),
            joints: known.joints.clone(),
            name: known.name.clone(),
        })
    })
}

/// How many that are.
pub(super) fn count(channels: &LineChannels) -> u8 {
    u8::try_from(channels.len()).unwrap_or(u8::MAX)
}

/// What has no lease is read, and a stop is answered, within this time.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::messages::{LineChannel, tests::channel};
    use std::sync::Arc;
    use taut_session::Delivery;
    use taut_session::motion::{Motion, Schema, Twist};

    const MAP: ChannelId = ChannelId(0);
    const ARM: ChannelId = ChannelId(1);

    fn channels() -> LineChannels {
        let map = LineChannel { largest: 10_000, ..channel("map", Delivery::Reliable) };
        let arm = LineChannel { motion: Some(Schema::Joints), ..channel("arm", Delivery::Newest) };
        Arc::from([map, arm])
    }

    #[test]
    fn a_long_message_goes_in_parts_and_is_whole_at_the_other_end() {
        let (mut out, mut into) = (Outgoing::new(channels()), Incoming::new(channels()));
        let map: Vec<u8> = (0..10_000u32).map(|at| (at * 7) as u8).collect();
        out.messages.push(Time::ZERO, MAP, Some(Duration::ZERO), Content::Payload(map.clone()));
        let mut parts = 0;
        while let Some(frame) = out.next(Time::ZERO) {
            let bytes = frame.to_bytes();
            assert!(bytes.len() <= super::super::frame::LONGEST_TO_DEVICE);
            let Ok(Frame::Message { channel, age, more, payload }) = Frame::parse(&bytes) else {
                panic!("a message")
            };
            assert_eq!(age.is_some(), parts == 0, "its age is told once");
            into.message(Time::ZERO, Direction::ToRobot, channel, &payload, more).unwrap();
            parts += 1;
        }
        assert!(out.is_empty() && parts == 8, "{parts}");
        assert_eq!(into.messages.pop(Time::ZERO).unwrap().content, Content::Payload(map));
    }

    #[test]
    fn nothing_is_made_of_the_rest_of_a_message_that_is_too_long() {
        let mut into = Incoming::new(channels());
        let part = [7; 6_000];
        let taken = [true, true, true, false]
            .map(|more| into.message(Time::ZERO, Direction::ToRobot, MAP, &part, more).is_ok());
        assert_eq!(taken, [true, false, true, true], "it is told once");
        assert!(into.messages.is_empty());
        into.message(Time::ZERO, Direction::ToRobot, MAP, &[1], false).unwrap();
        assert_eq!(into.messages.pop(Time::ZERO).unwrap().content, Content::Payload(vec![1]));
    }

    #[test]
    fn what_a_channel_does_not_take_is_told_and_memory_is_bounded() {
        let mut into = Incoming::new(channels());
        let mut take = |direction, channel, payload: &[u8], more| {
            into.message(Time::ZERO, direction, channel, payload, more).unwrap_err()
        };
        assert!(take(Direction::ToOperator, MAP, b"1", false).contains("no channel 0 to_operator"));
        assert!(take(Direction::ToRobot, ChannelId(9), b"1", false).contains("no channel 9"));
        assert!(take(Direction::ToRobot, ARM, b"1", false).contains("is motion"));
        assert!(take(Direction::ToRobot, MAP, &[0; 10_001], false).contains("longer than 10000 B"));
        into.message(Time::ZERO, Direction::ToRobot, MAP, &[0; 9_000], true).unwrap();
        assert!(into.message(Time::ZERO, Direction::ToRobot, MAP, &[0; 9_000], true).is_err());
        let twist = Motion::Twist(Twist::default());
        assert!(into.motion(Time::ZERO, ARM, twist).unwrap_err().contains("no motion of taut/Twist"));
    }
}
