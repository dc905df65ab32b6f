//! The frames of a session: what an operator and a robot say to each other, whatever transport is between them.
//!
//! One frame is one message of a transport. It is one of the kinds below, or begins with a [`DataHeader`]: pieces of messages of
//! [channels](Declaration) that both ends declared. Numbers are big-endian; times are nanoseconds of the clock of the frame's
//! sender, since an epoch of its own, unless a field is an echo of the reader's. Every frame has exactly one form:
//! reserved bits are zero, lengths are exact.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+---------------+---------------+
//! |      't'      |      's'      |    version    |     kind      |
//! +---------------+---------------+---------------+---------------+
//! |                 session, chosen by the operator               |
//! +---------------------------------------------------------------+
//! ```
//!
//! The first four bytes mean this in every version to come, so that a peer of another version gets a clear error
//! ([`Error::UnsupportedVersion`]) and not a guess.
//!
//! | kind | frame | length in bytes | from |
//! | --- | --- | --- | --- |
//! | 1, 18 | [`State`]: pose, velocity, force, gripper; and an [`Arrivals`] | 73, 85 | operator |
//! | 2 | [`Ack`] of a state | 30 | robot |
//! | 3 | emergency stop, a [`Command`] | 36 | operator |
//! | 4 | its acknowledgement, a [`CommandAck`] | 44 | robot |
//! | 5 | resume, a [`Command`] | 36 | operator |
//! | 6 | its acknowledgement, a [`CommandAck`] | 44 | robot |
//! | 7 | [`ClockRequest`] | 16 | both |
//! | 8 | [`ClockReply`] | 32 | both |
//! | 9 | [`Hello`]: role, state, configuration, channels, a [`ControlLaw`] | 77 and more | both |
//! | 10 | [`Status`] of the robot | 14 | robot |
//! | 11, 17 | [`Feedback`]: the robot's state, its force; and an [`Ack`] | 77, 99 | robot |
//! | 12 | refusal, a [`RefusalReason`] | 9 | robot |
//! | 13 | goodbye | 8 | both |
//! | 14 | reset of a latched stop, a [`Command`] | 36 | operator |
//! | 15 | its acknowledgement, a [`CommandAck`] | 44 | robot |
//! | 19 | which feedback arrived, an [`Arrivals`] | 20 | operator |
//!
//! ```
//! use taut_wire::session::{Body, Command, Error, Frame};
//! let stop = Command { command: 1, epoch: 0, created_ns: 5_000, sent_ns: 5_000 };
//! let frame = Frame { session: 7, body: Body::EmergencyStop(stop) };
//! let mut bytes = Vec::new();
//! frame.emit(&mut bytes);
//! assert_eq!(Frame::parse(&bytes), Ok(frame));
//!
//! bytes[2] = 9;
//! assert_eq!(Frame::parse(&bytes), Err(Error::UnsupportedVersion { theirs: 9, ours: 7 }));
//! ```

mod channel;
mod control;
mod data;
mod law;
mod report;
mod state;
#[cfg(test)]
mod tests;

pub use channel::{ChannelKind, Declaration, Delivery, Direction, Encoding, MAX_CHANNELS, MAX_NAME};
pub use control::{
    Answer, ClockReply, ClockRequest, Command, CommandAck, Hello, Limits, RefusalReason, Role,
};
pub use data::{DataAck, DataHeader, Part, Piece, Pieces};
pub use law::{ControlLaw, LawKind};
pub use report::{Ack, Arrivals, RobotState, Status, StopCause, Verdict};
pub use state::{Feedback, Priority, State, Turning};

/// The version that this module speaks.
pub const VERSION: u8 = 7;
/// Of the frames of states that say how something turns, and of the hello and the refusal of an end whose states do.
pub const TURNING_VERSION: u8 = 8;
/// Of the hello of an end that says by which control law it is coupled.
pub const LAW_VERSION: u8 = 9;
/// What every frame begins with.
pub const MAGIC: [u8; 2] = *b"ts";
/// Bytes before the body of a frame.
pub const HEADER_LEN: usize = 8;
/// Bytes of the longest frame of a fixed length.
pub const MAX_LEN: usize = LONGEST_FEEDBACK + state::TAIL_MAX;
/// Of feedback that acknowledges, without what a state ends with.
const LONGEST_FEEDBACK: usize = 99;
/// Bytes of the longest hello: it travels in one datagram, whatever seals that.
pub const MAX_HELLO_LEN: usize = 1100;
/// Bytes of a hello without channels.
pub const HELLO_LEN: usize = 77;

/// Where the fields of the header begin.
mod field {
    pub(super) const VERSION: usize = 2;
    pub(super) const KIND: usize = 3;
    pub(super) const SESSION: usize = 4;
}

/// A frame: whose session, and what is said.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// The number that the operator drew for this session; not 0.
    pub session: u32,
    /// What is said.
    pub body: Body,
}

/// What a frame says.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// The operator's device.
    State(State),
    /// The same, and which feedback arrived.
    AcknowledgingState(State, Arrivals),
    /// Feedback arrived.
    Arrivals(Arrivals),
    /// A state arrived.
    Ack(Ack),
    /// Stop, and stay stopped.
    EmergencyStop(Command),
    /// Stopped.
    EmergencyStopAck(CommandAck),
    /// Move again.
    Resume(Command),
    /// Moving again, or why not.
    ResumeAck(CommandAck),
    /// What does your clock read?
    ClockRequest(ClockRequest),
    /// This.
    ClockReply(ClockReply),
    /// Who I am and how I am set.
    Hello(Hello),
    /// How the robot is.
    Status(Status),
    /// What the robot feels.
    Feedback(Feedback),
    /// You are not my operator, and why.
    Refusal(RefusalReason),
    /// I am leaving.
    Goodbye,
    /// Let go of the stop that is latched. Nothing moves by it.
    Reset(Command),
    /// Let go, or why not.
    ResetAck(CommandAck),
}

/// Why bytes are not a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not a frame of a session at all.
    #[error("not a session frame: it does not begin with `ts`")]
    Magic,
    /// The peer speaks another version.
    #[error(
        "the peer speaks version {theirs} of the session protocol, this end speaks {ours}; upgrade the older one"
    )]
    UnsupportedVersion {
        /// The peer's.
        theirs: u8,
        /// This end's.
        ours: u8,
    },
    /// One end's states say how things turn, and the other's do not, or it is of an earlier version.
    #[error(
        "{} tells how things turn, and {} does not: have both ends do so (`turns`), or neither; whoever does speaks version 8 of the session protocol",
        end(*.theirs),
        end(!*.theirs)
    )]
    Turning {
        /// The peer's do.
        theirs: bool,
    },
    /// The ends are not coupled by the same control law.
    #[error(
        "this end is coupled by {}, and the peer by {}: give both the same control law and the same servo",
        law(*.ours),
        law(*.theirs)
    )]
    OtherLaw {
        /// The peer's; `None`: none that it says.
        theirs: Option<ControlLaw>,
        /// This end's.
        ours: Option<ControlLaw>,
    },
    /// The peer knows no hello that says a control law.
    #[error(
        "the peer is of an earlier version, which cannot say by which control law it is coupled; this end is by {ours}: update the peer"
    )]
    LawUnsaid {
        /// This end's.
        ours: ControlLaw,
    },
    /// A kind that this version does not have.
    #[error("unknown kind {0}")]
    Kind(u8),
    /// Not the length of this kind.
    #[error("{found} bytes where exactly {needed} are needed")]
    Length {
        /// What it needs.
        needed: usize,
        /// What there is.
        found: usize,
    },
    /// A field with a value that has no meaning in this version.
    #[error("{value} at byte {at} has no meaning")]
    Value {
        /// Which byte.
        at: usize,
        /// What it holds.
        value: u8,
    },
    /// Session 0 does not exist.
    #[error("session 0 does not exist")]
    Session,
}

const fn end(theirs: bool) -> &'static str {
    if theirs { "the peer" } else { "this end" }
}

fn law(law: Option<ControlLaw>) -> String {
    law.map_or_else(|| "none that it has to say".to_owned(), |law| law.to_string())
}

impl Frame {
    /// Reads a frame. Numbers are not looked at: see [`State::is_finite`].
    ///
    /// # Errors
    /// When the bytes are not a frame of this version. The version is looked at before anything else but the magic.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        if bytes.get(..MAGIC.len()).is_some_and(|magic| magic != MAGIC) {
            return Err(Error::Magic);
        }
        let has_state = bytes.get(field::KIND).is_some_and(|kind| matches!(kind, 1 | 11 | 17 | 18));
        let may_turn = has_state && state::is_turning(bytes)
            || bytes.get(field::KIND).is_some_and(|kind| matches!(*kind, HELLO | REFUSAL));
        let turns = may_turn && bytes[field::VERSION] == TURNING_VERSION;
        let has_law = bytes.get(field::KIND) == Some(&HELLO) && bytes[field::VERSION] == LAW_VERSION;
        let is_known = |version: u8| version == VERSION || turns || has_law;
        if let Some(&theirs) = bytes.get(field::VERSION).filter(|version| !is_known(**version)) {
            return Err(Error::UnsupportedVersion { theirs, ours: VERSION });
        }
        if bytes.len() < HEADER_LEN {
            return Err(Error::Length { needed: HEADER_LEN, found: bytes.len() });
        }
        let kind = bytes[field::KIND];
        let more = if has_state { state::tail_len(bytes) } else { 0 };
        let law = if has_law { ControlLaw::LEN } else { 0 };
        let needed = length_of(kind).ok_or(Error::Kind(kind))? + more + law;
        // A hello goes on with channels, and says itself where it ends.
        let is_longer = kind == HELLO && (needed..=MAX_HELLO_LEN).contains(&bytes.len());
        if bytes.len() != needed && !is_longer {
            return Err(Error::Length { needed, found: bytes.len() });
        }
        let (bytes, tail) = bytes.split_at(bytes.len() - more);
        let session = u32_at(bytes, field::SESSION);
        if session == 0 {
            return Err(Error::Session);
        }
        let body = match kind {
            1 => Body::State(State::parse(bytes, tail)?),
            2 => Body::Ack(Ack::parse_at(bytes, HEADER_LEN)?),
            3 => Body::EmergencyStop(Command::parse(bytes)),
            4 => Body::EmergencyStopAck(CommandAck::parse(bytes)?),
            5 => Body::Resume(Command::parse(bytes)),
            6 => Body::ResumeAck(CommandAck::parse(bytes)?),
            7 => Body::ClockRequest(ClockRequest::parse(bytes)),
            8 => Body::ClockReply(ClockReply::parse(bytes)),
            HELLO => Body::Hello(Hello::parse(bytes, turns, has_law)?),
            10 => Body::Status(Status::parse(bytes)?),
            11 | 17 => Body::Feedback(Feedback::parse(bytes, tail)?),
            REFUSAL => Body::Refusal(RefusalReason::parse(bytes, turns)?),
            13 => Body::Goodbye,
            14 => Body::Reset(Command::parse(bytes)),
            15 => Body::ResetAck(CommandAck::parse(bytes)?),
            18 => Body::AcknowledgingState(State::parse(bytes, tail)?, Arrivals::parse_at(bytes, state::LEN)),
            _ => Body::Arrivals(Arrivals::parse_at(bytes, HEADER_LEN)),
        };
        Ok(Self { session, body })
    }

    /// Appends the frame.
    pub fn emit(&self, buffer: &mut Vec<u8>) {
        self.body.emit(self.session, buffer);
    }

    /// How many bytes [`Frame::emit`] appends.
    pub fn len(&self) -> usize {
        match &self.body {
            Body::Hello(hello) => hello.len(),
            body => {
                let tail = body.state().map_or(0, State::tail_len);
                length_of(body.kind()).expect("a body has a kind") + tail
            }
        }
    }

    /// Never.
    pub const fn is_empty(&self) -> bool {
        false
    }
}

impl Body {
    /// Appends the frame of `session` that says this.
    pub fn emit(&self, session: u32, buffer: &mut Vec<u8>) {
        buffer.extend_from_slice(&MAGIC);
        let state = self.state();
        buffer.extend_from_slice(&[self.version(), self.kind()]);
        buffer.extend_from_slice(&session.to_be_bytes());
        if let Some(state) = state {
            state.emit(buffer);
        }
        match self {
            Body::State(_) | Body::Goodbye => {}
            Body::AcknowledgingState(_, arrivals) | Body::Arrivals(arrivals) => arrivals.emit(buffer),
            Body::Ack(ack) => ack.emit(buffer),
            Body::EmergencyStop(command) | Body::Resume(command) | Body::Reset(command) => {
                command.emit(buffer);
            }
            Body::EmergencyStopAck(ack) | Body::ResumeAck(ack) | Body::ResetAck(ack) => ack.emit(buffer),
            Body::ClockRequest(request) => request.emit(buffer),
            Body::ClockReply(reply) => reply.emit(buffer),
            Body::Hello(hello) => hello.emit(buffer),
            Body::Status(status) => status.emit(buffer),
            Body::Feedback(feedback) => feedback.emit_rest(buffer),
            Body::Refusal(reason) => buffer.push(reason.code()),
        }
        if let Some(state) = state {
            state.emit_tail(buffer);
        }
    }

    fn version(&self) -> u8 {
        match self {
            Self::Hello(Hello { law: Some(_), .. }) => LAW_VERSION,
            body if body.turns() => TURNING_VERSION,
            _ => VERSION,
        }
    }

    /// Is its frame one of an end whose states say how things turn?
    fn turns(&self) -> bool {
        match self {
            Self::Hello(hello) => hello.turns,
            Self::Refusal(reason) => *reason == RefusalReason::Turns,
            body => body.state().is_some_and(|state| state.turning.is_some()),
        }
    }

    /// What its frame begins with; the tail of that is at the end.
    const fn state(&self) -> Option<&State> {
        match self {
            Self::State(state)
            | Self::AcknowledgingState(state, _)
            | Self::Feedback(Feedback { state, .. }) => Some(state),
            _ => None,
        }
    }

    /// Its number on the wire.
    pub const fn kind(&self) -> u8 {
        match self {
            Self::State(_) => 1,
            Self::Ack(_) => 2,
            Self::EmergencyStop(_) => 3,
            Self::EmergencyStopAck(_) => 4,
            Self::Resume(_) => 5,
            Self::ResumeAck(_) => 6,
            Self::ClockRequest(_) => 7,
            Self::ClockReply(_) => 8,
            Self::Hello(_) => HELLO,
            Self::Status(_) => 10,
            Self::Feedback(Feedback { ack: None, .. }) => 11,
            Self::Feedback(_) => 17,
            Self::Refusal(_) => REFUSAL,
            Self::Goodbye => 13,
            Self::Reset(_) => 14,
            Self::ResetAck(_) => 15,
            Self::AcknowledgingState(..) => 18,
            Self::Arrivals(_) => 19,
        }
    }
}

/// The kind of a hello.
const HELLO: u8 = 9;
/// The kind of a refusal.
const REFUSAL: u8 = 12;

/// The length of a frame of this kind; of a hello, the least.
const fn length_of(kind: u8) -> Option<usize> {
    match kind {
        1 => Some(state::LEN),
        2 => Some(30),
        3 | 5 | 14 => Some(36),
        4 | 6 | 15 => Some(44),
        7 => Some(16),
        8 => Some(32),
        HELLO => Some(HELLO_LEN),
        10 => Some(14),
        11 => Some(77),
        REFUSAL => Some(9),
        13 => Some(HEADER_LEN),
        17 => Some(LONGEST_FEEDBACK),
        18 => Some(state::LEN + 12),
        19 => Some(20),
        _ => None,
    }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("the length was checked")
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(array(bytes, at))
}

fn u24_at(bytes: &[u8], at: usize) -> u32 {
    let [a, b, c] = array(bytes, at);
    u32::from_be_bytes([0, a, b, c])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(array(bytes, at))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(array(bytes, at))
}

fn f32_at(bytes: &[u8], at: usize) -> f32 {
    f32::from_be_bytes(array(bytes, at))
}

fn floats_at<const N: usize>(bytes: &[u8], at: usize) -> [f32; N] {
    std::array::from_fn(|i| f32_at(bytes, at + 4 * i))
}

fn emit_floats(numbers: &[f32], buffer: &mut Vec<u8>) {
    numbers.iter().for_each(|number| buffer.extend_from_slice(&number.to_be_bytes()));
}

/// Reads a byte that only some values give a meaning to.
fn code_at<T>(bytes: &[u8], at: usize, from_code: impl Fn(u8) -> Option<T>) -> Result<T, Error> {
    from_code(bytes[at]).ok_or(Error::Value { at, value: bytes[at] })
}

/// Bytes that must be zero.
fn reserved(bytes: &[u8], range: std::ops::Range<usize>) -> Result<(), Error> {
    match range.clone().find(|at| bytes[*at] != 0) {
        Some(at) => Err(Error::Value { at, value: bytes[at] }),
        None => Ok(()),
    }
}

/// A closed set of codes, counted from 0 in the order of its variants.
macro_rules! codes {
    ($($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $code:literal $text:literal,)* })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum $name { $($(#[$doc])* $variant = $code,)* }

        impl $name {
            /// All of them, in the order of their codes.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// From the code on the wire.
            pub const fn from_code(code: u8) -> Option<Self> {
                match code {
                    $($code => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// The code on the wire.
            pub const fn code(self) -> u8 {
                self as u8
            }

            /// Its name in results and traces.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    )*};
}
use codes;
