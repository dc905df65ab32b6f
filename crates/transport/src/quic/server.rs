//! Whom a server speaks with.

use taut_core::{PathId, Time};
use tracing::debug;

use super::library::Library;
use super::{Connection, Conversation, Role, State, tls};

/// Handshakes under way at a time.
pub(super) const MAX_HANDSHAKES: usize = 8;
/// Of those, with clients that may have forged their address. When there are more, a client has to prove its own.
const MAX_UNPROVEN: usize = 3;

impl<L: Library> Conversation<L> {
    /// Somebody says hello.
    pub(super) fn on_incoming(&mut self, now: Time, path: PathId, incoming: L::Incoming) {
        let mut answer = Vec::new();
        if self.state != State::Waiting {
            debug!(path = path.0, "refused: there is a conversation");
            self.library.refuse(incoming, &mut answer);
            self.answer(path, answer);
            return self.refuse_busy(path);
        }
        let validated = L::is_validated(&incoming);
        if !validated && (self.config.retry || self.connections.len() >= MAX_UNPROVEN) {
            debug!(path = path.0, "asked by a Retry whether it is there");
            self.library.retry(incoming, &mut answer);
            return self.answer(path, answer);
        }
        if self.connections.len() >= MAX_HANDSHAKES {
            // Who gets here is at its address. One that may not be goes first.
            let unproven = self.connections.iter().position(|connection| !connection.validated);
            let oldest = self.connections.remove(unproven.unwrap_or(0));
            self.library.forget(oldest.handle);
            self.silent_until = now + self.config.idle_timeout;
            let from = self.remote(&oldest);
            debug!(path = from.0, "handshake makes room for another");
            self.refuse_stranger(from);
        }
        match self.library.accept(now, incoming, &mut answer) {
            Some((handle, quic)) => {
                debug!(path = path.0, validated, "handshake begins");
                self.connections.push(Connection::new(handle, quic, now, validated));
            }
            None => {
                self.answer(path, answer);
                self.refuse_stranger(path);
            }
        }
    }

    /// May samples be taken that this connection brings before its handshake is complete? TLS tells who it is from
    /// the session that it resumes.
    pub(super) fn takes_early(&self, index: usize) -> bool {
        let quic = &self.connections[index].quic;
        matches!(self.role, Role::Server)
            && self.state == State::Waiting
            && tls::peer(quic, &self.config).is_some_and(|peer| self.trust.contains(&peer))
    }

    /// May samples go to this connection before its handshake is complete? To the only one there is, when it brought
    /// early messages.
    pub(super) fn answers_early(&self, index: usize) -> bool {
        self.connections.len() == 1 && self.carrier.counts.received_early > 0 && self.takes_early(index)
    }
}
