//! The keys that datagrams may be sealed with.

use taut_core::DropCause;

use crate::security::header::Index;
use crate::security::noise::{Keys, Opened};

/// The keys in use, and those before them, under which datagrams may still be on their way.
#[derive(Default)]
pub(super) struct KeyRing {
    pub(super) current: Option<Keys>,
    previous: Option<Keys>,
    /// Something authentic came under the current keys: the peer has them.
    pub(super) confirmed: bool,
}

impl KeyRing {
    /// The keys of another handshake of the same conversation.
    pub(super) fn replace(&mut self, keys: Keys) {
        self.previous = self.current.replace(keys);
        self.confirmed = false;
    }

    /// Opens what was sealed for the keys called `index`; `None` when there are none. Tells whether this is the newest
    /// datagram of the conversation so far.
    pub(super) fn open(
        &mut self,
        index: Index,
        nonce: u64,
        sealed: &[u8],
        plain: &mut Vec<u8>,
    ) -> Option<Result<(Opened, bool), DropCause>> {
        if let Some(keys) = self.current.as_mut().filter(|keys| keys.local == index) {
            let opened = keys.open(nonce, sealed, plain);
            self.confirmed |= opened.is_ok();
            return Some(opened);
        }
        let keys = self.previous.as_mut().filter(|keys| keys.local == index)?;
        Some(keys.open(nonce, sealed, plain).map(|(opened, newest)| (opened, newest && !self.confirmed)))
    }

    /// Looks into what was sealed for the keys called `index` without taking it; `None` when there are none.
    pub(super) fn peek(
        &self,
        index: Index,
        nonce: u64,
        sealed: &[u8],
        plain: &mut Vec<u8>,
    ) -> Option<Result<Opened, DropCause>> {
        let mut keys = [&self.current, &self.previous].into_iter().flatten();
        Some(keys.find(|keys| keys.local == index)?.peek(nonce, sealed, plain))
    }
}
