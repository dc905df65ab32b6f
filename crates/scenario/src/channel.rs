//! Channels, as a file declares them: of a session over sockets, and of one that is simulated.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taut_core::{Bitrate, Bytes, Duration};
use taut_session::motion::Schema as MotionSchema;
use taut_session::{
    Channel, ChannelDefaults, ChannelKind, Codec, Delivery, Direction, Encoding, OperatorConfig, Playout,
    Repair, RobotConfig, Schema,
};

use super::schema::defaults::{kbit, u32};
use super::teleop::Teleop;
use super::validate::{Checked, fault, within};

/// A channel of a session of operator and robot. It is open when both ends declare the same name, direction, kind, schema, encoding and
/// definition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChannelSpec {
    /// Its name, such as `arm/servo_jp`: 1 to 64 bytes, once in each direction.
    pub name: String,
    /// What it is for; the other keys' defaults follow from it.
    pub kind: ChannelKind,
    /// Which way; without it, motion and commands go to the robot, feedback, video and telemetry to the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<Direction>,
    /// What its payloads are, by a name: `taut/State`, `taut/Joints`, `taut/Twist` or `taut/Gripper` where they move the robot. Without
    /// it, the channel's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// The bytes of its payloads; without it, `taut` for motion, `raw` for video, audio and bulk, and `json` for the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
    /// The text that defines the schema, of which both ends have the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<String>,
    /// What becomes of messages that are lost or overtaken; without it, that of the kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<Delivery>,
    /// The age at which a message is worthless, to 1h; 0s: messages do not age. Without it, that of the kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Duration>,
    /// Which channel goes first: 0, ahead of the others, to 7. Without it, that of the kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// Messages per second at most. 0.001 to 100000. Without it, no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// The largest payload. 1B to 16MB. Without it, that of the kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub largest: Option<Bytes>,
    /// How losses are mended; the sender's counts. Without it, `auto`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair: Option<Repair>,
    /// When its receiver gives messages on. Without it, as they come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub playout: Option<PlayoutSpec>,
}

/// When messages are given on, other than as they come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum PlayoutSpec {
    /// So long after the shortest way. To 10s.
    Fixed(Duration),
    /// After it by what the jitter asks for, within bounds: four times that of RFC 3550 for a channel.
    Adaptive(PlayoutBounds),
}

impl PlayoutSpec {
    pub(super) const RANGE: &str = "is to 10s, min no more than max";

    /// Is it within that?
    pub(super) fn is_possible(&self) -> bool {
        let [min, max] = match *self {
            Self::Fixed(delay) => [delay; 2],
            Self::Adaptive(PlayoutBounds { min, max }) => [min, max],
        };
        min <= max && max <= Duration::from_secs(10)
    }
}

/// How long messages are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlayoutBounds {
    /// At least.
    pub min: Duration,
    /// At most. From `min` to 10s.
    pub max: Duration,
}

impl ChannelSpec {
    /// Which way its messages go.
    ///
    /// # Errors
    /// When neither it nor its kind says so.
    pub fn way(&self) -> Result<Direction, String> {
        match (self.direction, self.kind) {
            (Some(way), _) => Ok(way),
            (None, ChannelKind::Motion | ChannelKind::Command) => Ok(Direction::ToRobot),
            (None, ChannelKind::Feedback | ChannelKind::Video | ChannelKind::Telemetry) => {
                Ok(Direction::ToOperator)
            }
            (None, ChannelKind::Audio | ChannelKind::Bulk) => {
                Err("say direction = \"to_robot\" or \"to_operator\"".to_owned())
            }
        }
    }

    /// The bytes of its payloads.
    pub fn bytes(&self) -> Encoding {
        self.encoding.unwrap_or(match self.kind {
            ChannelKind::Motion => Encoding::Taut,
            ChannelKind::Video | ChannelKind::Audio | ChannelKind::Bulk => Encoding::Raw,
            ChannelKind::Feedback | ChannelKind::Command | ChannelKind::Telemetry => Encoding::Json,
        })
    }

    /// What its payloads are.
    pub fn schema_name(&self) -> &str {
        self.schema.as_deref().unwrap_or(&self.name)
    }

    /// What becomes of its messages.
    pub fn fate(&self) -> Delivery {
        self.delivery.unwrap_or(self.defaults().delivery)
    }

    /// The age at which a message is worthless, as it is declared.
    pub fn oldest(&self) -> Option<Duration> {
        self.deadline.or(self.defaults().deadline).filter(|age| !age.is_zero())
    }

    /// Which channel goes first.
    pub fn urgency(&self) -> u8 {
        self.priority.unwrap_or(self.defaults().priority)
    }

    /// The largest payload.
    pub fn most(&self) -> Bytes {
        self.largest.unwrap_or(self.defaults().largest)
    }

    fn defaults(&self) -> ChannelDefaults {
        ChannelDefaults::of(self.kind)
    }

    /// What moves by it.
    ///
    /// # Errors
    /// When it is motion of another schema than a robot can be moved by.
    pub fn motion(&self) -> Result<Option<MotionSchema>, String> {
        if self.kind != ChannelKind::Motion {
            return Ok(None);
        }
        let schema = MotionSchema::from_name(self.schema_name());
        let schema = schema.filter(|_| self.bytes() == Encoding::Taut);
        schema.map(Some).ok_or_else(|| {
            let names: Vec<&str> = MotionSchema::ALL.iter().map(|schema| schema.name()).collect();
            format!("a channel of kind motion has schema = one of {}, encoding = \"taut\"", names.join(", "))
        })
    }

    /// As a session declares it.
    ///
    /// # Errors
    /// What is wrong with it, and what is allowed.
    pub fn channel(&self) -> Result<Channel, String> {
        self.motion()?;
        self.check().map_err(|(key, message)| format!("{key}: {message}"))?;
        let schema = Schema::new(self.schema_name(), self.bytes());
        let schema = match &self.definition {
            Some(text) => schema.definition(text),
            None => schema,
        };
        let channel = Channel::new(&self.name, self.way()?, self.kind, schema)
            .delivery(self.fate())
            .priority(self.urgency())
            .largest(self.most());
        let channel = channel.repair(self.mended()).playout(self.played());
        let channel = match self.oldest() {
            Some(age) => channel.deadline(age),
            None => channel.no_deadline(),
        };
        Ok(match self.rate {
            Some(hz) => channel.rate(hz),
            None => channel,
        })
    }

    /// How losses are mended.
    pub fn mended(&self) -> Repair {
        self.repair.unwrap_or_default()
    }

    /// When messages are given on.
    pub fn played(&self) -> Playout {
        match self.playout {
            None => Playout::AtOnce,
            Some(PlayoutSpec::Fixed(delay)) => Playout::Fixed(delay),
            Some(PlayoutSpec::Adaptive(PlayoutBounds { min, max })) => Playout::Adaptive { min, max },
        }
    }

    /// The key that is out of its range, and what that is.
    fn check(&self) -> Result<(), (&'static str, String)> {
        let within = |key, is: bool, range: &str| if is { Ok(()) } else { Err((key, range.to_owned())) };
        let deadline = self.deadline.unwrap_or_default();
        within("deadline", deadline <= Duration::from_secs(3_600), "is 0s (none) to 1h")?;
        within("priority", self.urgency() <= 7, "is 0 (first) to 7")?;
        let rate = self.rate.unwrap_or(1.0);
        within("rate", (0.001..=100_000.0).contains(&rate), "is 0.001 to 100000 messages per second")?;
        within("largest", (1..=16_000_000).contains(&self.most().get()), "is 1B to 16MB")?;
        let known = self.playout.is_none_or(|playout| playout.is_possible());
        within("playout", known, PlayoutSpec::RANGE)
    }
}

/// A channel of a simulated session, and what is sent over it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TeleopChannel {
    /// As both ends declare it. Of any kind but motion: the simulated arm is moved by states.
    pub channel: ChannelSpec,
    /// The messages that its sender makes.
    pub makes: MakesSpec,
}

/// Messages that are made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MakesSpec {
    /// So many per second, as far as the device is asked so often: once a `period`. 0.001 to 100000.
    pub rate: f64,
    /// How long they are.
    pub sizes: SizesSpec,
}

/// How long messages are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum SizesSpec {
    /// All alike. To the channel's largest.
    Constant(Bytes),
    /// Any between, each as likely.
    Uniform(UniformSizes),
    /// Pictures of a video encoder, which follows the rate that the session leaves it.
    Encoder(EncoderSpec),
    /// These, over and over: those of a recording.
    Listed(Vec<Bytes>),
}

/// Sizes of which each is as likely.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UniformSizes {
    /// The least.
    pub least: Bytes,
    /// The largest. From `least` to the channel's.
    pub largest: Bytes,
}

/// A video encoder: it meets its rate over the time from one key picture to the next, and makes at most what the session tells
/// that channels may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EncoderSpec {
    /// Its highest rate, and the one until the session tells another. 10kbit to 1Gbit.
    pub most: Bitrate,
    /// Its lowest. From 10kbit to `most`; default 100kbit.
    #[serde(default = "kbit::<100>")]
    pub least: Bitrate,
    /// One picture of so many is a key picture, the first among them. 1 to 10000; default 60.
    #[serde(default = "u32::<60>")]
    pub key_every: u32,
    /// So many times as long as the others. 1 to 100; default 5.
    #[serde(default = "u32::<5>")]
    pub key_times: u32,
}

pub(super) fn check(teleop: &Teleop) -> Checked {
    let (mut operator, mut robot) = (OperatorConfig::new(), RobotConfig::new());
    if teleop.codec == Codec::Omni71 && !teleop.channels.is_empty() {
        return fault("teleop.channels", "omni71 has no channels; they need codec = \"native\"");
    }
    for (at, TeleopChannel { channel, makes }) in teleop.channels.iter().enumerate() {
        let key = format!("teleop.channels.{at}");
        if channel.kind == ChannelKind::Motion {
            return fault(
                format!("{key}.channel.kind"),
                "the simulated arm is moved by states, not by channels",
            );
        }
        if let Err((name, message)) = channel.check() {
            return fault(format!("{key}.channel.{name}"), message);
        }
        let declared = channel.channel().and_then(|declared| {
            operator = operator.clone().channel(declared.clone()).map_err(|error| error.to_string())?;
            robot = robot.clone().channel(declared).map_err(|error| error.to_string())?;
            Ok(())
        });
        if let Err(message) = declared {
            return fault(format!("{key}.channel"), message);
        }
        within(format!("{key}.makes.rate"), makes.rate, 0.001, 100_000.0)?;
        let (sizes, most) = (format!("{key}.makes.sizes"), channel.most());
        let byte = Bytes::new(1);
        match &makes.sizes {
            SizesSpec::Constant(size) => within(format!("{sizes}.constant"), *size, byte, most)?,
            SizesSpec::Uniform(UniformSizes { least, largest }) => {
                within(format!("{sizes}.uniform.least"), *least, byte, most)?;
                within(format!("{sizes}.uniform.largest"), *largest, *least, most)?;
            }
            SizesSpec::Encoder(encoder) => {
                let (slow, fast) = (Bitrate::from_bps(10_000), Bitrate::from_bps(1_000_000_000));
                within(format!("{sizes}.encoder.most"), encoder.most, slow, fast)?;
                within(format!("{sizes}.encoder.least"), encoder.least, slow, encoder.most)?;
                within(format!("{sizes}.encoder.key_every"), encoder.key_every, 1, 10_000)?;
                within(format!("{sizes}.encoder.key_times"), encoder.key_times, 1, 100)?;
            }
            SizesSpec::Listed(list) => {
                within(format!("{sizes}.listed"), list.len(), 1, 100_000)?;
                for (place, size) in list.iter().enumerate() {
                    within(format!("{sizes}.listed.{place}"), *size, byte, most)?;
                }
            }
        }
    }
    Ok(())
}
