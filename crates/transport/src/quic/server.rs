//! Whom a server speaks with.

use std::sync::Arc;

use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::{EndpointEvent, Incoming, ServerConfig};
use ring::hkdf;
use taut_core::{PathId, Time};

use super::crypto::Lent;
use super::{Connection, Quic, QuicConfig, Role, State, clock, derive, purpose, tls};
use crate::identity::Identity;

/// Handshakes under way at a time.
pub(crate) const MAX_HANDSHAKES: usize = 8;
/// Of those, with clients that may have forged their address. When there are more, a client has to prove its own.
pub(crate) const MAX_UNPROVEN: usize = 3;

/// Quinn's half of a server's configuration.
pub(super) fn config(config: &QuicConfig, identity: &Identity, tls: QuicServerConfig) -> Arc<ServerConfig> {
    let purpose = purpose("retry token", "server", config.service, config.instance);
    let token_key = hkdf::Salt::new(hkdf::HKDF_SHA256, &[]).extract(&derive(identity, &purpose));
    let mut server = ServerConfig::new(Arc::new(tls), Arc::new(token_key));
    server
        .transport_config(config.transport())
        .time_source(Arc::new(Lent))
        .max_incoming(MAX_HANDSHAKES)
        .migration(true);
    Arc::new(server)
}

impl Quic {
    /// Somebody says hello.
    pub(super) fn on_incoming(&mut self, now: Time, path: PathId, incoming: Incoming) {
        let mut answer = Vec::new();
        if self.state != State::Waiting {
            let _ = self.endpoint.refuse(incoming, &mut answer);
            self.answer(path, answer);
            return self.refuse_busy(path);
        }
        let validated = incoming.remote_address_validated();
        if !validated && (self.config.retry || self.connections.len() >= MAX_UNPROVEN) {
            // It cannot fail: an address is validated by a Retry only.
            let _ = self.endpoint.retry(incoming, &mut answer);
            return self.answer(path, answer);
        }
        if self.connections.len() >= MAX_HANDSHAKES {
            // Who gets here is at its address. One that may not be goes first.
            let unproven = self.connections.iter().position(|connection| !connection.validated);
            let oldest = self.connections.remove(unproven.unwrap_or(0));
            self.endpoint.handle_event(oldest.handle, EndpointEvent::drained());
            self.silent_until = now + self.config.idle_timeout;
            let path = self.path_of(oldest.quic.remote_address());
            self.refuse_stranger(path);
        }
        match self.endpoint.accept(incoming, clock::instant(now), &mut answer, None) {
            Ok((handle, quic)) => self.connections.push(Connection { handle, quic, began: now, validated }),
            Err(_) => {
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
