//! Why a conversation ended.

use quinn_proto::{ConnectionError, TransportErrorCode, VarInt};

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
    /// Nothing was heard for as long as the idle timeout.
    #[error("nothing was heard of the peer")]
    TimedOut,
    /// The peer lost its memory of the conversation: it has been restarted.
    #[error("the peer has been restarted")]
    Restarted,
    /// The peer speaks another protocol, or this one wrongly.
    #[error("protocol error: {0}")]
    Protocol(String),
}

/// Codes of ours in a CONNECTION_CLOSE frame of the application (RFC 9000 section 19.19).
pub(crate) const GOODBYE: VarInt = VarInt::from_u32(0);
pub(crate) const BUSY: VarInt = VarInt::from_u32(1);
pub(crate) const BAD_FRAME: VarInt = VarInt::from_u32(2);
pub(crate) const UNTRUSTED: VarInt = VarInt::from_u32(3);

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
                _ => Self::Protocol(error.to_string()),
            },
            ConnectionError::ConnectionClosed(close) => match close.error_code {
                // During a handshake, the reason of the application is not sent but replaced (RFC 9000 section 10.2.3);
                // there it has no other than that somebody was faster.
                TransportErrorCode::CONNECTION_REFUSED | TransportErrorCode::APPLICATION_ERROR => Self::Busy,
                code if is_about_identity(code) => Self::NotTrusted,
                TransportErrorCode::NO_ERROR => Self::Peer,
                _ => Self::Protocol(error.to_string()),
            },
            ConnectionError::TransportError(problem) if is_about_identity(problem.code) => {
                Self::PeerUntrusted
            }
            _ => Self::Protocol(error.to_string()),
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
