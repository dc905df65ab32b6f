//! What channels tell: of each message its fate, of a channel what it did.

use std::collections::BTreeMap;

use serde::Serialize;
use taut_core::{DropCause, Duration};

use super::{ChannelId, ChannelRefusal};

/// What a channel has to tell.
#[derive(Clone, Debug, PartialEq)]
pub enum ChannelEvent {
    /// Both ends declare it: messages may flow.
    Opened {
        /// Which.
        channel: ChannelId,
    },
    /// It stays closed for this session.
    Refused {
        /// Which.
        channel: ChannelId,
        /// Why.
        why: ChannelRefusal,
    },
    /// A message came.
    Received {
        /// Over which channel.
        channel: ChannelId,
        /// The sender's number for it.
        sequence: u64,
        /// How old it is, by the estimate of the peer's clock; `None` while there is none, where messages do not age.
        age: Option<Duration>,
        /// Its bytes.
        payload: Vec<u8>,
    },
    /// A message of this end is not worth sending: the peer holds the last one that was.
    Withheld {
        /// Of which channel.
        channel: ChannelId,
        /// Which.
        sequence: u64,
    },
    /// A message of this end arrived, of a channel whose messages are repeated.
    Arrived {
        /// Of which channel.
        channel: ChannelId,
        /// Which.
        sequence: u64,
    },
    /// A message is gone: of this end, or one of the peer's that came and is of no use.
    Dropped {
        /// Of which channel.
        channel: ChannelId,
        /// Which.
        sequence: u64,
        /// Why.
        cause: DropCause,
    },
}

/// Why a message was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendRefused {
    /// There is no such channel, it is not this end that sends there, there is no session, or the peer does not take it.
    #[error("the channel is not open")]
    NotOpen,
    /// It is a channel of motion, of another schema than this; or it is none.
    #[error("motion goes over a channel of motion of its schema, and nothing else does")]
    OtherSchema,
    /// It moves a robot that this operator has stopped.
    #[error("the emergency stop is latched; resume first")]
    Stopped,
    /// A number in it is not finite.
    #[error("a number is not finite")]
    NotFinite,
    /// It is longer than both ends take.
    #[error("longer than the {largest} B that both ends take")]
    TooLarge {
        /// Bytes.
        largest: usize,
    },
    /// It is older than its deadline already.
    #[error("older than its deadline")]
    TooLate,
    /// More in a second than agreed.
    #[error("more messages in a second than both ends take")]
    RateLimited,
    /// What is to arrive in any case waits, and there is no room for more of it.
    #[error("too many messages wait")]
    Full,
}

impl SendRefused {
    /// Under which cause it is counted.
    pub const fn cause(self) -> DropCause {
        match self {
            Self::NotOpen => DropCause::Abandoned,
            Self::OtherSchema => DropCause::Malformed,
            Self::Stopped => DropCause::Stopped,
            Self::NotFinite => DropCause::NotFinite,
            Self::TooLarge { .. } => DropCause::TooBig,
            Self::TooLate => DropCause::TooLate,
            Self::RateLimited => DropCause::RateLimited,
            Self::Full => DropCause::SendBufferFull,
        }
    }
}

/// What a channel did.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ChannelSummary {
    /// Its name.
    pub name: String,
    /// Which way: `"to_robot"` or `"to_operator"`.
    pub direction: &'static str,
    /// Both ends declare it.
    pub open: bool,
    /// Messages that this end made.
    pub made: u64,
    /// Of these, messages that were not worth sending.
    pub withheld: u64,
    /// Messages that arrived: at the peer, as far as that is told, or here.
    pub delivered: u64,
    /// Bytes of payloads sent, repetitions included, or received.
    pub bytes: u64,
    /// Parts of messages, or whole ones, that were sent again.
    pub repeated: u64,
    /// Messages dropped or refused at this end, by cause.
    pub dropped: BTreeMap<&'static str, u64>,
}
