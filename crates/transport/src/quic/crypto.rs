//! The cryptography that TLS runs on: *ring*'s, but for what draws random numbers or reads a clock.
//!
//! rustls wants its source of randomness and its key exchange as statics, while here every connection has an
//! [`Entropy`] of its own: without that, two connections of one process would shift each other's numbers, and a
//! simulation could not be repeated. So the statics draw from what the connection at work has [lent](lend) to its
//! thread, for as long as the call lasts.

use std::cell::RefCell;

use curve25519_dalek::montgomery::MontgomeryPoint;
use noq_proto::crypto::{CryptoError, HandshakeTokenKey};
use ring::{aead, hkdf};
use rustls::crypto::ring::cipher_suite::{TLS13_AES_128_GCM_SHA256, TLS13_CHACHA20_POLY1305_SHA256};
use rustls::crypto::ring::default_provider;
use rustls::crypto::{
    ActiveKeyExchange, CryptoProvider, GetRandomFailed, SecureRandom, SharedSecret, SupportedKxGroup,
};
use rustls::pki_types::UnixTime;
use rustls::time_provider::TimeProvider;
use rustls::{Error, NamedGroup, PeerMisbehaved};
use taut_core::Time;

use crate::entropy::Entropy;

/// Bytes of our connection IDs.
pub(super) const CONNECTION_ID: usize = 8;

thread_local! {
    static LENT: RefCell<Option<(Entropy, Time)>> = const { RefCell::new(None) };
}

/// Does `work` with `entropy` and `now` lent to this thread.
pub(super) fn lend<R>(entropy: &mut Option<Entropy>, now: Time, work: impl FnOnce() -> R) -> R {
    let own = entropy.take().expect("it is back whenever no call is under way");
    // What is there already belongs to a connection further up this thread, and gets its place back.
    let outer = LENT.replace(Some((own, now)));
    let result = work();
    *entropy = LENT.replace(outer).map(|(own, _)| own);
    result
}

/// Fills `bytes` from what is lent; fails when nothing is.
pub(super) fn draw(bytes: &mut [u8]) -> Result<(), GetRandomFailed> {
    LENT.with_borrow_mut(|lent| {
        let (entropy, _) = lent.as_mut().ok_or(GetRandomFailed)?;
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&entropy.next_u64().to_le_bytes()[..chunk.len()]);
        }
        Ok(())
    })
}

/// The time on the clock of the driver, which TLS and QUIC use for the age of tickets and tokens alone.
pub(super) fn age() -> std::time::Duration {
    let now = LENT.with_borrow(|lent| lent.as_ref().map_or(Time::ZERO, |(_, now)| *now));
    // Any epoch does: each side compares with its own clock only. Well above zero, for rustls subtracts.
    std::time::Duration::from_secs(1_000_000_000) + std::time::Duration::from_nanos(now.as_nanos())
}

/// TLS 1.3 with X25519, Ed25519, and AES-128-GCM or ChaCha20-Poly1305.
pub(super) fn provider() -> CryptoProvider {
    CryptoProvider {
        cipher_suites: vec![TLS13_AES_128_GCM_SHA256, TLS13_CHACHA20_POLY1305_SHA256],
        kx_groups: vec![&X25519],
        secure_random: &Lent,
        ..default_provider()
    }
}

/// Randomness and time, as lent.
#[derive(Debug)]
pub(super) struct Lent;

impl SecureRandom for Lent {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), GetRandomFailed> {
        draw(bytes)
    }
}

impl TimeProvider for Lent {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(age()))
    }
}

/// An unpredictable connection ID of `LENGTH` bytes, at most 20.
pub(super) fn random_id<const LENGTH: usize>() -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    draw(&mut bytes).expect("whoever makes a connection ID has lent entropy");
    bytes
}

/// X25519 (RFC 7748 section 6.1) with secrets from what is lent; *ring*'s would ask the operating system.
#[derive(Debug)]
struct X25519;

struct Exchange {
    secret: [u8; 32],
    public: [u8; 32],
}

impl SupportedKxGroup for X25519 {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let mut secret = [0; 32];
        draw(&mut secret)?;
        let public = MontgomeryPoint::mul_base_clamped(secret).to_bytes();
        Ok(Box::new(Exchange { secret, public }))
    }

    fn ffdhe_group(&self) -> Option<rustls::ffdhe_groups::FfdheGroup<'static>> {
        None
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

impl ActiveKeyExchange for Exchange {
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, Error> {
        let peer: [u8; 32] =
            peer.try_into().map_err(|_| Error::PeerMisbehaved(PeerMisbehaved::InvalidKeyShare))?;
        let shared = MontgomeryPoint(peer).mul_clamped(self.secret).to_bytes();
        // RFC 8446 section 7.4.2: a shared secret of zeros comes from a point of small order, and is refused.
        if shared == [0; 32] {
            return Err(Error::PeerMisbehaved(PeerMisbehaved::InvalidKeyShare));
        }
        Ok(SharedSecret::from(&shared[..]))
    }

    fn pub_key(&self) -> &[u8] {
        &self.public
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

/// Seals the tokens of Retry packets (RFC 9000 section 8.1.2), for noq: AES-256-GCM, with a key for each token.
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
    use taut_core::Seed;

    fn seeded() -> Option<Entropy> {
        Some(Entropy::seeded(Seed::new(1), "crypto"))
    }

    /// RFC 7748 section 6.1.
    #[test]
    fn the_key_exchange_is_that_of_rfc_7748() {
        let hex = |text: &str| -> [u8; 32] {
            std::array::from_fn(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap())
        };
        let secret = hex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a");
        let public = MontgomeryPoint::mul_base_clamped(secret).to_bytes();
        let peer = hex("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f");
        let shared = Box::new(Exchange { secret, public }).complete(&peer).unwrap();
        let expected = hex("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742");
        assert_eq!(shared.secret_bytes(), expected);
    }

    #[test]
    fn both_sides_agree_on_a_secret_and_zeros_are_refused() {
        lend(&mut seeded(), Time::ZERO, || {
            let (a, b) = (X25519.start().unwrap(), X25519.start().unwrap());
            let (public_a, public_b) = (a.pub_key().to_vec(), b.pub_key().to_vec());
            assert_ne!(public_a, public_b);
            let (a, b) = (a.complete(&public_b).unwrap(), b.complete(&public_a).unwrap());
            assert_eq!(a.secret_bytes(), b.secret_bytes());
            assert!(X25519.start().unwrap().complete(&[0; 32]).is_err());
            assert!(X25519.start().unwrap().complete(&[9; 31]).is_err());
        });
    }

    #[test]
    fn nothing_is_drawn_that_nobody_lent() {
        assert!(Lent.fill(&mut [0; 4]).is_err());
        assert!(X25519.start().is_err());
    }

    #[test]
    fn what_is_lent_goes_on_where_it_stopped() {
        let mut entropy = seeded();
        let mut drawn = [[0; 16]; 2];
        for bytes in &mut drawn {
            lend(&mut entropy, Time::ZERO, || Lent.fill(bytes)).unwrap();
        }
        let mut at_once = [0; 32];
        lend(&mut seeded(), Time::ZERO, || Lent.fill(&mut at_once)).unwrap();
        assert_eq!(drawn.concat(), at_once);
    }

    #[test]
    fn a_token_is_opened_by_who_sealed_it() {
        let (ours, others) = (RetryTokens::new([1; 32]), RetryTokens::new([2; 32]));
        let mut token = b"an address".to_vec();
        assert!(ours.seal(7, &mut token).is_ok());
        assert!(ours.open(8, &mut token.clone()).is_err() && others.open(7, &mut token.clone()).is_err());
        assert!(matches!(ours.open(7, &mut token), Ok(b"an address")));
    }
}
