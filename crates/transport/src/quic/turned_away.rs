//! Whom a server turned away.

use taut_core::PathId;

use super::tls::Untrusted;
use crate::stranger::{LastStranger, ShownKey, Stranger};

/// Kept for whoever asks who that was. A client turns nobody away.
#[derive(Debug, Default)]
pub(super) struct TurnedAway {
    untrusted: Untrusted,
    last: LastStranger,
    busy: u64,
}

impl TurnedAway {
    /// By a server whose half of TLS tells whom it does not trust.
    pub(super) fn by(untrusted: Untrusted) -> Self {
        Self { untrusted, ..Self::default() }
    }

    /// Somebody on this path, with the key that TLS did not trust, if it came as far as that.
    pub(super) fn on(&mut self, path: PathId) {
        self.last.on(path, self.untrusted.take().map(ShownKey::Ed25519));
    }

    /// The next one is, because there is a conversation already.
    pub(super) fn count_busy(&mut self) {
        self.busy += 1;
    }

    pub(super) fn busy(&self) -> u64 {
        self.busy
    }

    pub(super) fn take_last(&mut self) -> Option<Stranger> {
        self.last.take()
    }
}
