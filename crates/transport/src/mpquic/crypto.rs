//! What noq asks of cryptography beyond TLS: as for quinn, with noq's types.

use noq_proto::crypto::{CryptoError, HandshakeTokenKey};
use noq_proto::{ConnectionId, ConnectionIdGenerator, TimeSource};

use crate::quic::crypto::{CONNECTION_ID, age, draw};

/// Connection IDs and time, as lent to the thread.
#[derive(Debug)]
pub(super) struct Lent;

impl TimeSource for Lent {
    fn now(&self) -> std::time::SystemTime {
        std::time::UNIX_EPOCH + age()
    }
}

impl ConnectionIdGenerator for Lent {
    fn generate_cid(&mut self) -> ConnectionId {
        connection_id::<CONNECTION_ID>()
    }

    fn cid_len(&self) -> usize {
        CONNECTION_ID
    }

    fn cid_lifetime(&self) -> Option<std::time::Duration> {
        None
    }
}

/// An unpredictable connection ID of `LENGTH` bytes, at most 20.
pub(super) fn connection_id<const LENGTH: usize>() -> ConnectionId {
    let mut bytes = [0; LENGTH];
    draw(&mut bytes).expect("whoever makes a connection ID has lent entropy");
    ConnectionId::new(&bytes)
}

/// No tokens are made, so none is accepted: neither Retry nor NEW_TOKEN is used.
pub(super) struct NoTokens;

impl HandshakeTokenKey for NoTokens {
    fn seal(&self, _nonce: u128, _data: &mut Vec<u8>) -> Result<(), CryptoError> {
        Err(CryptoError)
    }

    fn open<'a>(&self, _nonce: u128, _data: &'a mut [u8]) -> Result<&'a [u8], CryptoError> {
        Err(CryptoError)
    }
}
