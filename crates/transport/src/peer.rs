//! Where the peer is, for transports that cannot tell by anything else.

use taut_core::{Duration, PathId, Time};

/// Silence after which another address may be the peer's: as long as a session keeps its operator's place.
pub(crate) const SILENCE: Duration = Duration::from_secs(1);

/// Where what is sent goes. The end that opened knows, and stays; one that waits answers whoever it heard first, and another only when that one has been
/// silent: nobody takes a conversation over by a datagram.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Peer {
    path: PathId,
    waits: bool,
    heard: Option<Time>,
}

impl Peer {
    /// Of an end that waits.
    pub(crate) fn waiting() -> Self {
        Self { waits: true, ..Self::default() }
    }

    pub(crate) const fn path(&self) -> PathId {
        self.path
    }

    /// Does anything on this path come from the peer?
    pub(crate) fn is_at(&self, path: PathId) -> bool {
        !self.waits || path == self.path
    }

    /// Something came on this path. True when it is another peer, or the same at another address.
    pub(crate) fn heard(&mut self, now: Time, path: PathId) -> bool {
        let is_other = path != self.path;
        if is_other && self.waits && self.heard.is_none_or(|at| now.saturating_since(at) > SILENCE) {
            (self.path, self.heard) = (path, Some(now));
            return true;
        }
        if !is_other {
            self.heard = Some(now);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn another_takes_the_place_of_one_that_was_silent_and_of_no_other() {
        let mut peer = Peer::waiting();
        let at = |ms: u64| Time::ZERO + MS * ms;
        assert!(peer.heard(at(0), PathId(3)), "whoever comes first");
        assert!(!peer.heard(at(900), PathId(3)));
        assert!(!peer.heard(at(1_900), PathId(4)) && peer.is_at(PathId(3)));
        assert!(peer.heard(at(1_901), PathId(4)) && peer.is_at(PathId(4)) && !peer.is_at(PathId(3)));
    }

    #[test]
    fn the_end_that_opened_stays_whoever_speaks_to_it() {
        let mut peer = Peer::default();
        assert!(!peer.heard(Time::ZERO, PathId(1)) && !peer.heard(Time::MAX, PathId(1)));
        assert_eq!(peer.path(), PathId(0));
    }
}
