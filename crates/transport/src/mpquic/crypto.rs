//! What noq asks of cryptography beyond TLS: as for quinn, with noq's types.

use noq_proto::crypto::{CryptoError, HandshakeTokenKey};
use noq_proto::{ConnectionId, ConnectionIdGenerator, TimeSource};
use ring::{aead, hkdf};

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

/// Seals the tokens of Retry packets (RFC 9000 section 8.1.2): AES-256-GCM, with a key for each token.
pub(super) struct RetryTokens(hkdf::Prk);

impl RetryTokens {
    pub(super) fn new(secret: [u8; 32]) -> Self {
        Self(hkdf::Salt::new(hkdf::HKDF_SHA256, &[]).extract(&secret))
    }

    /// The only nonce of this key is zero.
    fn key(&self, nonce: u128) -> Result<(aead::LessSafeKey, aead::Nonce), CryptoError> {
        let mut key = [0; 32];
        let (nonce, zero) = (nonce.to_le_bytes(), aead::Nonce::assume_unique_for_key([0; 12]));
        let info = [&nonce[..]];
        let output = self.0.expand(&info, hkdf::HKDF_SHA256).map_err(|_| CryptoError)?;
        output.fill(&mut key).map_err(|_| CryptoError)?;
        let key = aead::UnboundKey::new(&aead::AES_256_GCM, &key).map_err(|_| CryptoError)?;
        Ok((aead::LessSafeKey::new(key), zero))
    }
}

impl HandshakeTokenKey for RetryTokens {
    fn seal(&self, nonce: u128, data: &mut Vec<u8>) -> Result<(), CryptoError> {
        let (key, zero) = self.key(nonce)?;
        key.seal_in_place_append_tag(zero, aead::Aad::empty(), data).map_err(|_| CryptoError)
    }

    fn open<'a>(&self, nonce: u128, data: &'a mut [u8]) -> Result<&'a [u8], CryptoError> {
        let (key, zero) = self.key(nonce)?;
        let opened = key.open_in_place(zero, aead::Aad::empty(), data).map_err(|_| CryptoError)?;
        Ok(opened)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_opened_by_who_sealed_it() {
        let (ours, others) = (RetryTokens::new([1; 32]), RetryTokens::new([2; 32]));
        let mut token = b"an address".to_vec();
        assert!(ours.seal(7, &mut token).is_ok());
        assert!(ours.open(8, &mut token.clone()).is_err() && others.open(7, &mut token.clone()).is_err());
        assert!(matches!(ours.open(7, &mut token), Ok(b"an address")));
    }
}
