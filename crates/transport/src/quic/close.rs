//! Why a conversation ended.

use taut_core::printable;

/// Why nothing flows any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
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
pub(super) const GOODBYE: u32 = 0;
pub(super) const BUSY: u32 = 1;
pub(super) const BAD_FRAME: u32 = 2;
pub(super) const UNTRUSTED: u32 = 3;

/// The peer's, by its code.
fn said_by_application(code: u64, error: &impl std::fmt::Display) -> CloseReason {
    match u32::try_from(code) {
        Ok(GOODBYE) => CloseReason::Peer,
        Ok(BUSY) => CloseReason::Busy,
        Ok(UNTRUSTED) => CloseReason::NotTrusted,
        _ => CloseReason::of_peer(error),
    }
}

/// That of the peer's QUIC (RFC 9000 section 20.1).
fn said_by_transport(code: u64, error: &impl std::fmt::Display) -> CloseReason {
    match code {
        NO_ERROR => CloseReason::Peer,
        // During a handshake, the reason of the application is not sent but replaced (section 10.2.3); there it has no other
        // than that somebody was faster.
        CONNECTION_REFUSED | APPLICATION_ERROR => CloseReason::Busy,
        NO_APPLICATION_PROTOCOL => CloseReason::OtherService,
        code if is_about_identity(code) => CloseReason::NotTrusted,
        _ => CloseReason::of_peer(error),
    }
}

const NO_ERROR: u64 = 0;
const CONNECTION_REFUSED: u64 = 2;
const APPLICATION_ERROR: u64 = 12;
/// The alert of TLS that says so (RFC 9001 sections 4.8 and 8.1).
const NO_APPLICATION_PROTOCOL: u64 = 0x100 + 120;

/// Is it an alert of TLS (RFC 9001 section 4.8) that says so: bad_certificate (42) to access_denied (49), decrypt_error
/// (51), certificate_required (116)?
fn is_about_identity(code: u64) -> bool {
    matches!(code.checked_sub(0x100), Some(42..=49 | 51 | 116))
}

/// The errors of both libraries have the same form.
macro_rules! from_error {
    ($($proto:ident),+) => {$(
        impl From<$proto::ConnectionError> for CloseReason {
            fn from(error: $proto::ConnectionError) -> Self {
                use $proto::ConnectionError as Error;
                match &error {
                    Error::TimedOut => Self::TimedOut,
                    Error::Reset => Self::Restarted,
                    Error::LocallyClosed => Self::Local,
                    Error::ApplicationClosed(close) => said_by_application(close.error_code.into_inner(), &error),
                    Error::ConnectionClosed(close) => said_by_transport(close.error_code.into(), &error),
                    Error::TransportError(problem) if is_about_identity(problem.code.into()) => Self::PeerUntrusted,
                    _ => Self::of_peer(&error),
                }
            }
        }
    )+};
}

from_error!(quinn_proto, noq_proto);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alerts_about_keys_are_told_from_others() {
        assert!(is_about_identity(0x100 + 49));
        assert!(is_about_identity(0x100 + 116));
        assert!(!is_about_identity(0x100 + 40));
        assert!(!is_about_identity(CONNECTION_REFUSED));
    }
}
