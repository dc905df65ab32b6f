//! Channels: what an end declares in its hello.

use super::{Error, codes, u32_at, u64_at};

codes! {
    /// Which way the messages of a channel go.
    #[cfg_attr(feature = "schema", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
    #[cfg_attr(feature = "schema", serde(rename_all = "snake_case"), schemars(rename = "ChannelDirection"))]
    Direction {
        /// From the operator to the robot.
        ToRobot = 0 "to_robot",
        /// From the robot to the operator.
        ToOperator = 1 "to_operator",
    }

    /// What a channel is for, with what it has where nothing else is said: delivery, deadline, priority and largest payload.
    #[cfg_attr(feature = "schema", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema), serde(rename_all = "snake_case"))]
    ChannelKind {
        /// What moves the robot, taken only by one that has limits for its schema: newest, 200 ms, priority 0, 4 kB.
        Motion = 0 "motion",
        /// What the robot measures and feels: newest, 200 ms, priority 1, 4 kB.
        Feedback = 1 "feedback",
        /// Frames of pictures: deadline, 300 ms, priority 4, 1 MB.
        Video = 2 "video",
        /// Frames of sound: deadline, 200 ms, priority 3, 64 kB.
        Audio = 3 "audio",
        /// What asks for something that is done once, in order: reliable, priority 2, 64 kB.
        Command = 4 "command",
        /// What tells how something is, to be looked at: newest, without a deadline, priority 5, 64 kB.
        Telemetry = 5 "telemetry",
        /// As much as there is, when nothing else wants to go: reliable, priority 7, 1 MB.
        Bulk = 6 "bulk",
    }

    /// What happens to a message that is lost, and to one that a newer one overtakes.
    #[cfg_attr(feature = "schema", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema), serde(rename_all = "snake_case"))]
    Delivery {
        /// Only the newest counts: one that waits gives way to it, and what is lost is lost.
        Newest = 0 "newest",
        /// It is sent again while there is time.
        Deadline = 1 "deadline",
        /// It is sent again until it arrives, and messages arrive in order.
        Reliable = 2 "reliable",
        /// Sent once: what is lost is lost, and what was overtaken counts all the same.
        Once = 3 "once",
    }

    /// How the bytes of a payload are to be read, as MCAP and Foxglove name it.
    #[non_exhaustive]
    #[cfg_attr(feature = "schema", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema), serde(rename_all = "snake_case"))]
    Encoding {
        /// This project's own compact formats.
        Taut = 0 "taut",
        /// OMG CDR, as ROS 2 has it.
        Cdr = 1 "cdr",
        /// Protocol Buffers.
        Protobuf = 2 "protobuf",
        /// JSON.
        Json = 3 "json",
        /// Whatever the schema's name says.
        Raw = 4 "raw",
    }
}

/// One channel as an end declares it. It is open when the other end declares the same one: its name, direction, kind, schema's name,
/// encoding and definition are the same.
///
/// | bytes | field | unit, range |
/// | --- | --- | --- |
/// | 0 | direction | [`Direction`] |
/// | 1 | kind | [`ChannelKind`] |
/// | 2 | delivery | [`Delivery`], the sender's |
/// | 3 | encoding | [`Encoding`] |
/// | 4 | priority | 0, the most urgent, to 7 |
/// | 5–8 | deadline | µs of age at which a message is worthless; 0: never |
/// | 9–12 | rate | messages in 1000 s, at most; 0: no limit |
/// | 13–16 | largest | bytes of a payload, at most |
/// | 17–24 | definition | hash of the schema's definition |
/// | 25 | length of the name, 1 to 64 | bytes |
/// | 26 | length of the schema's name, 1 to 64 | bytes |
/// | 27– | name, then the schema's name | UTF-8 |
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declaration {
    /// Which way.
    pub direction: Direction,
    /// What for.
    pub kind: ChannelKind,
    /// What becomes of lost messages; the sender decides.
    pub delivery: Delivery,
    /// How payloads are to be read.
    pub encoding: Encoding,
    /// 0, the most urgent, to 7.
    pub priority: u8,
    /// The age at which a message is worthless, µs; 0 for never.
    pub deadline_us: u32,
    /// Messages in 1000 s, at most; 0 for no limit.
    pub rate_mhz: u32,
    /// Bytes of a payload, at most.
    pub largest: u32,
    /// Of the schema's definition.
    pub definition: u64,
    /// Of the channel, as `arm/servo_cp`.
    pub name: String,
    /// Of the schema, as `taut/State` or `sensor_msgs/msg/JointState`.
    pub schema: String,
}

/// Bytes of the longest name.
pub const MAX_NAME: usize = 64;
/// Channels that an end declares, at most.
pub const MAX_CHANNELS: usize = 32;
/// Of a declaration, without its names.
const FIXED: usize = 27;
/// The least urgent.
const LAST_PRIORITY: u8 = 7;

impl Declaration {
    /// Its bytes in a hello.
    pub fn len(&self) -> usize {
        FIXED + self.name.len() + self.schema.len()
    }

    /// Never.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Reads one at `at`, and where it ends.
    pub(super) fn parse(bytes: &[u8], at: usize) -> Result<(Self, usize), Error> {
        let needed = |needed| Error::Length { needed, found: bytes.len() };
        let fixed = bytes.get(at..at + FIXED).ok_or(needed(at + FIXED))?;
        let value = |offset: usize| Error::Value { at: at + offset, value: fixed[offset] };
        let [names, schemas] = [25, 26].map(|offset| usize::from(fixed[offset]));
        if !(1..=MAX_NAME).contains(&names) {
            return Err(value(25));
        }
        if !(1..=MAX_NAME).contains(&schemas) {
            return Err(value(26));
        }
        if fixed[4] > LAST_PRIORITY {
            return Err(value(4));
        }
        let end = at + FIXED + names + schemas;
        let text = bytes.get(at + FIXED..end).ok_or(needed(end))?;
        let read = |part: &[u8], at: usize| match std::str::from_utf8(part) {
            Ok(text) => Ok(text.to_owned()),
            Err(error) => {
                let offset = error.valid_up_to();
                Err(Error::Value { at: at + offset, value: part[offset] })
            }
        };
        let declaration = Self {
            direction: Direction::from_code(fixed[0]).ok_or(value(0))?,
            kind: ChannelKind::from_code(fixed[1]).ok_or(value(1))?,
            delivery: Delivery::from_code(fixed[2]).ok_or(value(2))?,
            encoding: Encoding::from_code(fixed[3]).ok_or(value(3))?,
            priority: fixed[4],
            deadline_us: u32_at(fixed, 5),
            rate_mhz: u32_at(fixed, 9),
            largest: u32_at(fixed, 13),
            definition: u64_at(fixed, 17),
            name: read(&text[..names], at + FIXED)?,
            schema: read(&text[names..], at + FIXED + names)?,
        };
        Ok((declaration, end))
    }

    /// # Panics
    /// When a name is empty or longer than [`MAX_NAME`], or the priority is beyond 7.
    pub(super) fn emit(&self, buffer: &mut Vec<u8>) {
        assert!(self.priority <= LAST_PRIORITY, "there are eight priorities");
        let length = |name: &str| {
            assert!((1..=MAX_NAME).contains(&name.len()), "a name has 1 to {MAX_NAME} bytes");
            name.len() as u8
        };
        let codes = [self.direction.code(), self.kind.code(), self.delivery.code(), self.encoding.code()];
        buffer.extend_from_slice(&codes);
        buffer.push(self.priority);
        for number in [self.deadline_us, self.rate_mhz, self.largest] {
            buffer.extend_from_slice(&number.to_be_bytes());
        }
        buffer.extend_from_slice(&self.definition.to_be_bytes());
        buffer.extend_from_slice(&[length(&self.name), length(&self.schema)]);
        buffer.extend_from_slice(self.name.as_bytes());
        buffer.extend_from_slice(self.schema.as_bytes());
    }
}
