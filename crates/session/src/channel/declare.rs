//! What a channel is, as an end declares it, and what two ends agree on.

use taut_core::{Bytes, Duration};
use taut_media::{Repair, picture};
use taut_wire::session::{
    ChannelKind, ControlLaw, Declaration, Delivery, Direction, Encoding, HELLO_LEN, MAX_CHANNELS,
    MAX_HELLO_LEN, MAX_NAME,
};

use super::sampler::Sampling;
use super::{FRAGMENT, Playout};
use crate::motion;

/// How the bytes of a payload are to be read: a name, an encoding and, where the name alone does not say it, a definition. To a
/// session they are bytes.
///
/// ```
/// use taut_session::{Encoding, Schema};
/// let schema = Schema::new("sensor_msgs/msg/JointState", Encoding::Cdr);
/// let own = Schema::new("example.Battery", Encoding::Json).definition(r#"{"type":"object"}"#);
/// assert_ne!(schema, own);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    pub(super) name: String,
    pub(super) encoding: Encoding,
    pub(super) definition: String,
}

impl Schema {
    /// By its name, 1 to 64 bytes, as `sensor_msgs/msg/JointState`.
    pub fn new(name: impl Into<String>, encoding: Encoding) -> Self {
        Self { name: name.into(), encoding, definition: String::new() }
    }

    /// The text that defines it. Both ends have to have the same, of which the hash is compared. Default: none.
    pub fn definition(mut self, text: impl Into<String>) -> Self {
        self.definition = text.into();
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How a payload's bytes are made.
    pub const fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// The text that defines it; empty where there is none.
    pub fn text(&self) -> &str {
        &self.definition
    }

    /// FNV-1a over 64 bits of the definition.
    fn hash(&self) -> u64 {
        const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
        const PRIME: u64 = 0x0000_0100_0000_01b3;
        self.definition.bytes().fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
    }
}

/// What a [`Channel`] of a kind is where it does not say otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelDefaults {
    /// What becomes of messages that are lost or overtaken.
    pub delivery: Delivery,
    /// The age at which a message is worthless; `None`: messages do not age.
    pub deadline: Option<Duration>,
    /// 0, ahead of all others, to 7.
    pub priority: u8,
    /// The largest payload.
    pub largest: Bytes,
}

impl ChannelDefaults {
    /// Of this kind: the table of [`Channel`].
    pub fn of(kind: ChannelKind) -> Self {
        let ms = |ms| Some(Duration::from_millis(ms));
        let (delivery, deadline, priority, largest) = match kind {
            ChannelKind::Motion => (Delivery::Newest, ms(200), 0, 4_000),
            ChannelKind::Feedback => (Delivery::Newest, ms(200), 1, 4_000),
            ChannelKind::Command => (Delivery::Reliable, None, 2, 64_000),
            ChannelKind::Audio => (Delivery::Deadline, ms(200), 3, 64_000),
            ChannelKind::Video => (Delivery::Deadline, ms(300), 4, 1_000_000),
            ChannelKind::Telemetry => (Delivery::Newest, None, 5, 64_000),
            ChannelKind::Bulk => (Delivery::Reliable, None, 7, 1_000_000),
        };
        Self { delivery, deadline, priority, largest: Bytes::new(largest) }
    }
}

/// A channel of a session: messages of one schema, one way, with one delivery. Both ends declare it; it is open when they agree on
/// its name, direction, kind and schema.
///
/// | kind | delivery | deadline | priority | largest payload |
/// | --- | --- | --- | --- | --- |
/// | `Motion` | newest | 200 ms | 0 | 4 kB |
/// | `Feedback` | newest | 200 ms | 1 | 4 kB |
/// | `Command` | reliable | none | 2 | 64 kB |
/// | `Audio` | deadline | 200 ms | 3 | 64 kB |
/// | `Video` | deadline | 300 ms | 4 | 1 MB |
/// | `Telemetry` | newest | none | 5 | 64 kB |
/// | `Bulk` | reliable | none | 7 | 1 MB |
///
/// ```
/// use taut_core::{Bytes, Duration};
/// use taut_session::{Channel, ChannelKind, Direction, Encoding, Schema};
/// let battery = Channel::new("battery", Direction::ToOperator, ChannelKind::Telemetry, Schema::new("Battery", Encoding::Json))
///     .rate(2.0)
///     .largest(Bytes::new(200));
/// # let _ = battery;
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Channel {
    pub(super) name: String,
    pub(super) schema: Schema,
    pub(super) direction: Direction,
    pub(super) kind: ChannelKind,
    pub(super) delivery: Delivery,
    pub(super) deadline: Option<Duration>,
    pub(super) priority: u8,
    /// `None`: it was said, and is no number.
    rate_mhz: Option<u32>,
    pub(super) largest: Bytes,
    pub(super) repair: Repair,
    pub(super) playout: Playout,
    pub(super) sampling: Sampling,
}

impl Channel {
    /// A channel of this kind, with that kind's defaults. The name has 1 to 64 bytes and stands once in each direction.
    pub fn new(name: impl Into<String>, direction: Direction, kind: ChannelKind, schema: Schema) -> Self {
        let ChannelDefaults { delivery, deadline, priority, largest } = ChannelDefaults::of(kind);
        let name = name.into();
        Self {
            name,
            schema,
            direction,
            kind,
            delivery,
            deadline,
            priority,
            rate_mhz: Some(0),
            largest,
            repair: Repair::default(),
            playout: Playout::default(),
            sampling: Sampling::every(),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How its payloads are to be read.
    pub const fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Which end sends.
    pub const fn direction(&self) -> Direction {
        self.direction
    }

    /// Is it delivered as the newest alone, by this end's declaration?
    pub const fn is_of_newest(&self) -> bool {
        matches!(self.delivery, Delivery::Newest)
    }

    /// What becomes of messages that are lost or overtaken. The sender's counts.
    pub fn delivery(mut self, delivery: Delivery) -> Self {
        self.delivery = delivery;
        self
    }

    /// The age at which a message is worthless, wherever it is; from 1 µs up. Of the two ends the stricter counts. What is reliable has
    /// none.
    pub fn deadline(mut self, age: Duration) -> Self {
        self.deadline = Some(age.max(Duration::from_micros(1)));
        self
    }

    /// Messages do not age.
    pub fn no_deadline(mut self) -> Self {
        self.deadline = None;
        self
    }

    /// Which channel goes first: 0, ahead of all others, to 7. Motion, feedback and above all a stop go ahead of every channel.
    pub fn priority(mut self, priority: u8) -> Self {
        self.priority = priority.min(7);
        self
    }

    /// Messages per second, at most, 0.001 to 4 000 000; a tenth of a second's may come at once. Those beyond are dropped and
    /// counted. What is no number cannot be [declared](ChannelError::Rate). Of the two ends the smaller counts. Default: no limit.
    pub fn rate(mut self, hz: f64) -> Self {
        self.rate_mhz = (!hz.is_nan()).then_some((hz * 1e3).clamp(1.0, 4e9) as u32);
        self
    }

    /// The largest payload, 1 B to 16 MB. Of the two ends the smaller counts.
    pub fn largest(mut self, bytes: Bytes) -> Self {
        self.largest = Bytes::new(bytes.get().clamp(1, LARGEST));
        self
    }

    /// How losses are mended; the sender's counts. Default [`Repair::Auto`], which adds nothing to what is not delivered by its deadline: of
    /// `newest` what is lost is lost, and `reliable` is repeated, whatever is said here. A copy costs as much again, parity at most half; that
    /// is for messages of several parts, where each part has a frame of its own.
    pub fn repair(mut self, repair: Repair) -> Self {
        self.repair = repair;
        self
    }

    /// When messages are given on at the end that receives them; that end's counts. Default [`Playout::AtOnce`]. Motion is never held, nor what
    /// is [reliable](Delivery::Reliable).
    pub fn playout(mut self, playout: Playout) -> Self {
        self.playout = playout;
        self
    }

    /// Is parity possible?
    pub(super) fn may_have_parity(&self) -> bool {
        let by_itself = self.repair == Repair::Auto && self.delivery == Delivery::Deadline;
        self.largest.get() > FRAGMENT as u64 && (by_itself || self.repair == Repair::Parity)
    }

    /// Which messages are worth sending, of those that this end makes; of what is reliable all are. Default: every one.
    pub fn sampler(mut self, sampling: Sampling) -> Self {
        self.sampling = sampling;
        self
    }

    /// A channel of motion to the robot, of one of [`motion`](crate::motion)'s schemas: kind `Motion`, the newest counts, 200 ms.
    pub fn motion_of(name: impl Into<String>, schema: motion::Schema) -> Self {
        Self::new(name, Direction::ToRobot, ChannelKind::Motion, Schema::new(schema.name(), Encoding::Taut))
    }

    /// What moves, where its payloads are [`Motion`](motion::Motion).
    pub(crate) fn motion(&self) -> Option<motion::Schema> {
        let is_motion = self.kind == ChannelKind::Motion && self.schema.encoding == Encoding::Taut;
        if is_motion { motion::Schema::from_name(&self.schema.name) } else { None }
    }

    /// As this end says it to the other.
    pub fn declaration(&self) -> Declaration {
        Declaration {
            direction: self.direction,
            kind: self.kind,
            delivery: self.delivery,
            encoding: self.schema.encoding,
            priority: self.priority,
            deadline_us: self.deadline.map_or(0, |age| age.as_micros_u32().max(1)),
            rate_mhz: self.rate_mhz.unwrap_or_default(),
            largest: self.largest.get() as u32,
            definition: self.schema.hash(),
            name: self.name.clone(),
            schema: self.schema.name.clone(),
        }
    }
}

const LARGEST: u64 = 16_000_000;

/// Why a channel cannot be declared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChannelError {
    /// It, or its schema, has no name or a long one.
    #[error("channel {0:?}: its name and its schema's have 1 to 64 bytes")]
    Name(String),
    /// There is one of that name in that direction.
    #[error("channel {0:?} is declared twice")]
    Twice(String),
    /// There would be more than an end may have.
    #[error("channel {0:?} is one too many: an end declares up to 32")]
    TooMany(String),
    /// What is no number limits nothing.
    #[error("channel {0:?}: its rate is no number")]
    Rate(String),
    /// They do not fit into a hello.
    #[error("channel {0:?} does not fit into the hello: choose shorter names")]
    HelloFull(String),
    /// What would be repeated while there is time has to say for how long that is.
    #[error("channel {0:?} is delivered by its deadline, and has none")]
    NoDeadline(String),
    /// Nothing moves a robot that no guard has judged.
    #[error(
        "channel {0:?} is motion: its schema has to be one of `motion::Schema`, go to the robot, and be declared there with its limits"
    )]
    NoGuard(String),
}

/// Adds `channel` to those that an end declares.
pub(crate) fn declare(
    channels: &mut Vec<Channel>,
    channel: Channel,
    guarded: bool,
) -> Result<(), ChannelError> {
    let name = || channel.name.clone();
    let fits = |name: &str| (1..=MAX_NAME).contains(&name.len());
    if !fits(&channel.name) || !fits(&channel.schema.name) {
        return Err(ChannelError::Name(name()));
    }
    let is_same = |other: &Channel| other.name == channel.name && other.direction == channel.direction;
    if channels.iter().any(is_same) {
        return Err(ChannelError::Twice(name()));
    }
    if channels.len() >= MAX_CHANNELS {
        return Err(ChannelError::TooMany(name()));
    }
    if channel.rate_mhz.is_none() {
        return Err(ChannelError::Rate(name()));
    }
    if channel.delivery == Delivery::Deadline && channel.deadline.is_none() {
        return Err(ChannelError::NoDeadline(name()));
    }
    if channel.kind == ChannelKind::Motion {
        let judged = guarded && channel.motion().is_some() && channel.direction == Direction::ToRobot;
        if !judged || channel.delivery != Delivery::Newest || channel.deadline.is_none() {
            return Err(ChannelError::NoGuard(name()));
        }
    }
    let bytes: usize = channels.iter().chain([&channel]).map(|each| each.declaration().len()).sum();
    // A hello may say a control law as well.
    if bytes > MAX_HELLO_LEN - HELLO_LEN - ControlLaw::LEN {
        return Err(ChannelError::HelloFull(name()));
    }
    channels.push(channel);
    Ok(())
}

/// Why a declared channel is not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChannelRefusal {
    /// The peer does not declare it.
    #[error("the peer does not declare it")]
    NotDeclared,
    /// The peer declares it as another kind.
    #[error("the peer declares it as {}", .0.name())]
    OtherKind(ChannelKind),
    /// The peer reads its payloads by another schema or encoding.
    #[error("the peer has another schema or encoding for it")]
    OtherSchema,
    /// Motion is superseded, and nothing else: what waited for another message would be old.
    #[error("motion is delivered as the newest alone")]
    OtherDelivery,
    /// The schema's definitions differ.
    #[error("the peer's definition of the schema is another one")]
    OtherDefinition,
}

/// What both ends keep to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Agreed {
    /// The channel's place among the peer's.
    pub(super) peer: u8,
    /// The sender's.
    pub(super) delivery: Delivery,
    pub(super) deadline: Option<Duration>,
    pub(super) rate_mhz: u32,
    pub(super) largest: usize,
    /// The sender's.
    pub(super) repair: Repair,
    /// Messages refer to those before them, as pictures do.
    pub(super) refers_back: bool,
    /// The receiver's.
    pub(super) playout: Playout,
}

impl Agreed {
    /// Is what was lost sent again?
    pub(super) fn repeats(&self) -> bool {
        matches!(self.delivery, Delivery::Deadline | Delivery::Reliable)
    }
}

/// What this end, which sends there or not, and a peer that declares `theirs` agree on.
pub(super) fn agree(own: &Channel, sends: bool, theirs: &[Declaration]) -> Result<Agreed, ChannelRefusal> {
    let repair = match own.delivery {
        Delivery::Deadline => own.repair,
        _ if matches!(own.repair, Repair::Auto | Repair::None) => Repair::Repeat,
        _ => own.repair,
    };
    let playout = own.playout;
    let own = own.declaration();
    let is_same = |other: &Declaration| other.name == own.name && other.direction == own.direction;
    let peer = theirs.iter().position(is_same).ok_or(ChannelRefusal::NotDeclared)?;
    let other = &theirs[peer];
    if other.kind != own.kind {
        return Err(ChannelRefusal::OtherKind(other.kind));
    }
    if (&other.schema, other.encoding) != (&own.schema, own.encoding) {
        return Err(ChannelRefusal::OtherSchema);
    }
    if other.definition != own.definition {
        return Err(ChannelRefusal::OtherDefinition);
    }
    if own.kind == ChannelKind::Motion
        && (own.delivery, other.delivery) != (Delivery::Newest, Delivery::Newest)
    {
        return Err(ChannelRefusal::OtherDelivery);
    }
    let delivery = if sends { own.delivery } else { other.delivery };
    let is_held = own.kind != ChannelKind::Motion && delivery != Delivery::Reliable;
    // 0 is without a limit.
    let stricter = |a: u32, b: u32| if a == 0 || b == 0 { a.max(b) } else { a.min(b) };
    // What has to arrive in any case is never too late.
    let deadline =
        if delivery == Delivery::Reliable { 0 } else { stricter(own.deadline_us, other.deadline_us) };
    Ok(Agreed {
        peer: peer as u8,
        delivery,
        deadline: (deadline != 0).then(|| Duration::from_micros(u64::from(deadline))),
        rate_mhz: stricter(own.rate_mhz, other.rate_mhz),
        largest: own.largest.min(other.largest) as usize,
        repair,
        refers_back: own.schema == picture::SCHEMA,
        playout: if is_held { playout } else { Playout::AtOnce },
    })
}
