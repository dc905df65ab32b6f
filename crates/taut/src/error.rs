//! What goes wrong, and what to do about it.

/// Why a robot or an operator cannot be started or built, or how it ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting without which nothing starts.
    #[error("{what} is missing: {how}")]
    Missing {
        /// Which.
        what: &'static str,
        /// The method that sets it.
        how: &'static str,
    },
    /// Nothing moves without limits.
    #[error("the limits of {device} do not do: {why}")]
    Limits {
        /// Which device.
        device: String,
        /// Which limit is missing, or cannot be kept.
        why: String,
    },
    /// A setting that cannot be.
    #[error("{setting}: {why}")]
    Invalid {
        /// Which.
        setting: &'static str,
        /// What it has to be.
        why: String,
    },
    /// A file, a socket or a thread was refused.
    #[error("{0}")]
    System(String),
    /// There was no session within five seconds, or it was refused.
    #[error("{0}")]
    NotConnected(String),
    /// The session was lost, and did not come back within five seconds.
    #[error("the session was lost: {0}; connect again when the robot runs")]
    Lost(String),
    /// Code of yours panicked on the session's thread. The device was stopped.
    #[error("a panic on the session's thread: {0}; what it calls must not panic")]
    Panicked(String),
}

impl Error {
    pub(crate) fn invalid(setting: &'static str, why: impl ToString) -> Self {
        Self::Invalid { setting, why: why.to_string() }
    }
}

/// Why a message was not sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// Nobody has taken the sender.
    #[error("the sender of channel `{0}` belongs to nobody yet: give it to a builder by `sends`, then start")]
    NotStarted(String),
    /// There is no session at present.
    #[error("channel `{0}` is not open: there is no session yet, or none any more; wait for `Connected`")]
    NotConnected(String),
    /// The other end does not have this channel.
    #[error("channel `{channel}` stays closed: {why}; declare it alike at both ends")]
    Refused {
        /// Which.
        channel: String,
        /// What differs.
        why: String,
    },
    /// It has no bytes, or a number of it is not finite.
    #[error("the message cannot be written: {0}")]
    Unwritable(String),
    /// It is too long.
    #[error(
        "{bytes} B are more than the {largest} B of channel `{channel}`: set `Channel::largest` at both ends"
    )]
    TooLarge {
        /// Which channel.
        channel: String,
        /// Of the message.
        bytes: usize,
        /// Of the channel.
        largest: usize,
    },
    /// The session does not keep up with what is sent.
    #[error("more than a thousand messages wait to be sent: send less often")]
    Full,
    /// The robot or operator has ended.
    #[error("the session has ended: start another one")]
    Ended,
}

/// Why there is no message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecvError {
    /// None has come yet.
    #[error("nothing has come yet")]
    Empty,
    /// Nothing more is to come.
    #[error("the session has ended")]
    Ended,
    /// What came is none of this type. The next may be.
    #[error("what came is none of this channel's messages: {0}")]
    Malformed(String),
}
