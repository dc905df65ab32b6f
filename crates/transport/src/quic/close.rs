//! Why a conversation ended.

use quinn_proto::{ConnectionError, TransportErrorCode, VarInt};
use taut_core::printable;

/// Why nothing flows any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    /// [`Transport::close`](taut_core::Transport::close) was called here.
    #[error("closed")]
    Local,
    /// The peer said goodbye.
    #[error("closed by the peer")]
    Peer,
    /// The peer is not one that is trusted here.
    #[error("the peer is not trusted")]
    PeerUntrusted,
    /// The peer does not trust us.
    #[error("the peer does not trust us")]
    NotTrusted,
    /// The peer speaks with somebody already.
    #[error("the peer has a session with somebody else")]
    Busy,
    /// The peer is a robot where a proxy was looked for, or the other way round.
    #[error("the peer offers another service: it is a proxy and no robot, or the other way round")]
    OtherService,
    /// Nothing was heard for as long as the idle timeout.
    #[error("nothing was heard of the peer")]
    TimedOut,
    /// The peer lost its memory of the conversation: it has been restarted.
    #[error("the peer has been restarted")]
    Restarted,
    /// The peer speaks another protocol, or this one wrongly. What it says of that is [printable](taut_core::printable()).
    #[error("protocol error: {0}")]
    Protocol(String),
}

impl CloseReason {
    /// What holds words of the peer, or of somebody who forges a packet.
    pub(crate) fn of_peer(error: &impl std::fmt::Display) -> Self {
        Self::Protocol(printable(&error.to_string()).to_string())
    }
}

/// Codes of ours in a CONNECTION_CLOSE frame of the application (RFC 9000 section 19.19).
pub(crate) const GOODBYE: VarInt = VarInt::from_u32(0);
pub(crate) const BUSY: VarInt = VarInt::from_u32(1);
pub(crate) const BAD_FRAME: VarInt = VarInt::from_u32(2);
pub(crate) const UNTRUSTED: VarInt = VarInt::from_u32(3);

/// The alert of TLS that says so (RFC 9001 sections 4.8 and 8.1).
pub(crate) const NO_APPLICATION_PROTOCOL: u64 = 0x100 + 120;

impl From<ConnectionError> for CloseReason {
    fn from(error: ConnectionError) -> Self {
        match &error {
            ConnectionError::TimedOut => Self::TimedOut,
            ConnectionError::Reset => Self::Restarted,
            ConnectionError::LocallyClosed => Self::Local,
            ConnectionError::ApplicationClosed(close) => match close.error_code {
                GOODBYE => Self::Peer,
                BUSY => Self::Busy,
                UNTRUSTED => Self::NotTrusted,
                _ => Self::of_peer(&error),
            },
            ConnectionError::ConnectionClosed(close) => match close.error_code {
                // During a handshake, the reason of the application is not sent but replaced (RFC 9000 section 10.2.3);
                // there it has no other than that somebody was faster.
                TransportErrorCode::CONNECTION_REFUSED | TransportErrorCode::APPLICATION_ERROR => Self::Busy,
                code if is_about_identity(code) => Self::NotTrusted,
                code if u64::from(code) == NO_APPLICATION_PROTOCOL => Self::OtherService,
                TransportErrorCode::NO_ERROR => Self::Peer,
                _ => Self::of_peer(&error),
            },
            ConnectionError::TransportError(problem) if is_about_identity(problem.code) => {
                Self::PeerUntrusted
            }
            _ => Self::of_peer(&error),
        }
    }
}

/// Is it an alert of TLS (RFC 9001 section 4.8) that says so: bad_certificate (42) to access_denied (49), decrypt_error
/// (51), certificate_required (116)?
fn is_about_identity(code: TransportErrorCode) -> bool {
    is_alert_about_identity(u64::from(code))
}

pub(crate) fn is_alert_about_identity(code: u64) -> bool {
    matches!(code.checked_sub(0x100), Some(42..=49 | 51 | 116))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alerts_about_keys_are_told_from_others() {
        assert!(is_about_identity(TransportErrorCode::crypto(49)));
        assert!(is_about_identity(TransportErrorCode::crypto(116)));
        assert!(!is_about_identity(TransportErrorCode::crypto(40)));
        assert!(!is_about_identity(TransportErrorCode::CONNECTION_REFUSED));
    }
}
