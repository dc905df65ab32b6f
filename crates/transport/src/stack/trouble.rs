//! Why there is no session.

use crate::quic::CloseReason;
use crate::security::{SealedStats, SecuredStats};

/// Why there is no session (any more), as far as this end can know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// Nothing was heard at all.
    #[error("no answer")]
    NoAnswer,
    /// Nobody takes connections there.
    #[error("nobody listens there")]
    Unreachable,
    /// The peer has a session with somebody else.
    #[error("the robot has another operator")]
    Busy,
    /// The peer does not trust this identity.
    #[error("the robot does not trust this identity")]
    NotTrusted,
    /// The peer is not the one that is trusted here.
    #[error("the peer is not the robot that is trusted here")]
    WrongPeer,
    /// The peer ended a connection before it was one, and may not say why: it does not trust this identity, is not the robot
    /// that is trusted here, or strangers crowd it.
    #[error("the robot sent us away: it does not trust this identity, or strangers crowd it")]
    SentAway,
    /// It was there, and ended.
    #[error("{0}")]
    Ended(String),
}

impl Trouble {
    fn other_service() -> Self {
        Self::Ended(CloseReason::OtherService.to_string())
    }

    /// Is the peer there, and will have nothing to do with this end, or this end with it?
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Busy | Self::NotTrusted | Self::WrongPeer | Self::SentAway)
    }
}

/// Of QUIC, on one path or several.
impl From<&CloseReason> for Trouble {
    fn from(reason: &CloseReason) -> Self {
        match reason {
            CloseReason::TimedOut => Self::NoAnswer,
            CloseReason::Busy => Self::Busy,
            CloseReason::NotTrusted => Self::NotTrusted,
            CloseReason::PeerUntrusted => Self::WrongPeer,
            other => Self::Ended(other.to_string()),
        }
    }
}

/// Of Noise around datagrams, unless the robot said last that it is busy.
impl From<SecuredStats> for Trouble {
    fn from(stats: SecuredStats) -> Self {
        match stats {
            SecuredStats { opened: 0, other_service: 1.., .. } => Self::other_service(),
            SecuredStats { opened: 1.., .. } => {
                Self::Ended("nothing was heard of the robot any more".to_owned())
            }
            _ => Self::NoAnswer,
        }
    }
}

/// Of Noise around the messages of a connection that there was.
impl From<SealedStats> for Trouble {
    fn from(stats: SealedStats) -> Self {
        match stats {
            SealedStats { busy: 1.., .. } => Self::Busy,
            SealedStats { other_service: 1.., .. } => Self::other_service(),
            SealedStats { unauthenticated: 1.., .. } => Self::WrongPeer,
            SealedStats { opened: 1.., .. } => Self::Ended("the connection ended".to_owned()),
            _ => Self::SentAway,
        }
    }
}
