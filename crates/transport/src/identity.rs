//! Who speaks: one secret, one public key, and the peers that are trusted by it.
//!
//! An [`Identity`] is an Ed25519 secret (RFC 8032). Its public key serves both kinds of session: TLS 1.3 in QUIC
//! verifies signatures by it, and Noise uses its image on the birationally equivalent curve (RFC 7748 section 4.1,
//! u = (1 + y) / (1 − y)) for X25519. One key for both is sound: the schemes are proven secure together (Thormarker,
//! *On using the same key pair for Ed25519 and an X25519 based KEM*, 2021), and every libsodium does it.
//!
//! A [`Fingerprint`] *is* that public key, not a hash of it. A hash would be just as long, and could not be turned into
//! the X25519 key that Noise IK needs before its first message. So whoever knows a peer's fingerprint knows all there
//! is to know, as with WireGuard's keys. What is written is the key with a checksum, because people copy it by hand:
//!
//! ```
//! use taut_core::Seed;
//! use taut_transport::identity::{Fingerprint, Identity, Trust};
//!
//! let robot = Identity::from_bytes([7; 32]);
//! let written = robot.fingerprint().to_string();
//! assert_eq!(written, "taut:5jfgyy7-ctrjavp-xvkb5rg-lwf7gku-o5vox27-hxescd3-vgsfcg2-iwp5ajm");
//!
//! let trust = Trust::only(written.parse::<Fingerprint>()?);
//! assert!(trust.contains(&robot.fingerprint()));
//! assert!(!trust.contains(&Identity::from_seed(Seed::new(1), "somebody else").fingerprint()));
//! # Ok::<(), taut_transport::identity::KeyTextError>(())
//! ```

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use curve25519_dalek::montgomery::MontgomeryPoint;
use ed25519_dalek::{Signer, SigningKey, VerifyingKey};
use rand_core::CryptoRng;
use sha2::{Digest, Sha256};
use taut_core::Seed;
use zeroize::{Zeroize, Zeroizing};

/// A secret of 32 bytes, and the keys that come from it. Erased from memory when dropped; never printed by `Debug`.
#[derive(Clone)]
pub struct Identity {
    ed25519: SigningKey,
}

impl Identity {
    /// The identity with this secret (the *seed* of RFC 8032 section 5.1.5).
    pub fn from_bytes(mut secret: [u8; 32]) -> Self {
        let identity = Self { ed25519: SigningKey::from_bytes(&secret) };
        secret.zeroize();
        identity
    }

    /// A new identity from `rng`, which the caller takes from the operating system.
    pub fn generate(rng: &mut impl CryptoRng) -> Self {
        let mut secret = Zeroizing::new([0; 32]);
        rng.fill_bytes(&mut secret[..]);
        Self::from_bytes(*secret)
    }

    /// The identity called `name` in a simulation. **Guessable by anybody**: for the lab and for tests only.
    pub fn from_seed(seed: Seed, name: &str) -> Self {
        let mut rng = seed.stream(&format!("identity/{name}"));
        let mut secret = [0; 32];
        secret.chunks_exact_mut(8).for_each(|chunk| chunk.copy_from_slice(&rng.next_u64().to_le_bytes()));
        Self::from_bytes(secret)
    }

    /// What peers trust it by.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint(self.ed25519.verifying_key().to_bytes())
    }

    /// The secret. Keep it. It is erased when this copy is dropped.
    pub fn to_bytes(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(self.ed25519.to_bytes())
    }

    /// The secret as text, for a file that only its owner can read: `taut-secret:` and the same form as
    /// [`Fingerprint`]'s. [`str::parse`] reads it. It is erased when this copy is dropped.
    pub fn to_secret_text(&self) -> Zeroizing<String> {
        Zeroizing::new(encode(SECRET_PREFIX, &self.to_bytes()))
    }

    /// The X25519 secret, clamped: the scalar of RFC 8032 section 5.1.5. Its public key is
    /// [`Fingerprint::x25519`] of [`Self::fingerprint`].
    pub fn x25519_secret(&self) -> Zeroizing<[u8; 32]> {
        let mut scalar = Zeroizing::new(self.ed25519.to_scalar_bytes());
        scalar[0] &= 248;
        scalar[31] &= 127;
        scalar[31] |= 64;
        scalar
    }

    /// The Ed25519 signature of `message` (RFC 8032 section 5.1.6).
    pub(crate) fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.ed25519.sign(message).to_bytes()
    }

    /// The Ed25519 secret as PKCS #8 (RFC 8410 section 7).
    pub(crate) fn pkcs8(&self) -> Zeroizing<[u8; 48]> {
        // Sequence of version 0, the algorithm id-Ed25519 (1.3.101.112), and the secret in two octet strings.
        let mut der = Zeroizing::new([0; 48]);
        der[..16].copy_from_slice(&[0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20]);
        der[16..].copy_from_slice(&self.to_bytes()[..]);
        der
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({})", self.fingerprint())
    }
}

impl FromStr for Identity {
    type Err = KeyTextError;
    /// Reads [`Identity::to_secret_text`].
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        decode(SECRET_PREFIX, text).map(|secret| Self::from_bytes(*secret))
    }
}

/// Names an identity: its Ed25519 public key.
///
/// As text: `taut:` and 56 characters of base32 (RFC 4648 section 6, small letters) in groups of seven: 32 bytes of key
/// and the first three of its SHA-256, so that one wrong character in sixteen million goes unnoticed. Case, spaces
/// around and the hyphens do not matter when it is read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// The fingerprint of the Ed25519 public key `bytes`; `None` when no secret has that key, or when it is one of
    /// the few of small order, by which anybody could sign.
    pub fn from_ed25519(bytes: [u8; 32]) -> Option<Self> {
        let key = VerifyingKey::from_bytes(&bytes).ok()?;
        // Only the canonical bytes name a key, so that one key has one fingerprint.
        let canonical = key.to_edwards().compress().to_bytes() == bytes;
        (canonical && !key.is_weak()).then_some(Self(bytes))
    }

    /// The Ed25519 public key.
    pub fn ed25519(&self) -> [u8; 32] {
        self.0
    }

    /// The X25519 public key.
    pub fn x25519(&self) -> [u8; 32] {
        let key = VerifyingKey::from_bytes(&self.0).expect("checked when it was made");
        let point: MontgomeryPoint = key.to_montgomery();
        point.to_bytes()
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&encode(PREFIX, &self.0))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Fingerprint {
    type Err = KeyTextError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::from_ed25519(*decode(PREFIX, text)?).ok_or(KeyTextError::NotAKey)
    }
}

/// The peers that may speak with us. Nobody, to begin with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trust(BTreeSet<Fingerprint>);

impl Trust {
    /// Nobody.
    pub fn nobody() -> Self {
        Self::default()
    }

    /// This peer and nobody else.
    pub fn only(peer: Fingerprint) -> Self {
        Self::nobody().and(peer)
    }

    /// This peer too.
    pub fn and(mut self, peer: Fingerprint) -> Self {
        self.0.insert(peer);
        self
    }

    /// Is that peer trusted?
    pub fn contains(&self, peer: &Fingerprint) -> bool {
        self.0.contains(peer)
    }

    /// Every trusted peer, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = Fingerprint> {
        self.0.iter().copied()
    }

    /// How many are trusted.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Is nobody trusted?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<Fingerprint> for Trust {
    fn from_iter<I: IntoIterator<Item = Fingerprint>>(peers: I) -> Self {
        Self(peers.into_iter().collect())
    }
}

/// Text that is not the key it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyTextError {
    /// It begins otherwise.
    #[error("a key of this kind begins with `{expected}`")]
    Prefix {
        /// What it should begin with.
        expected: &'static str,
    },
    /// A public key was expected, and this is a secret.
    #[error("this is the secret of an identity: keep it to yourself, and give its fingerprint instead")]
    Secret,
    /// Too long or too short.
    #[error("a key has {CHARACTERS} letters and digits after its prefix, this one {found}")]
    Length {
        /// How many there are.
        found: usize,
    },
    /// A character that base32 does not have.
    #[error("`{0}` cannot be in a key: only the letters a to z and the digits 2 to 7 can")]
    Character(char),
    /// The checksum does not fit the key: a character is wrong, or two changed places.
    #[error("the key was copied wrongly: its checksum does not match")]
    Checksum,
    /// The checksum is right, but no secret has this key.
    #[error("no identity has this key")]
    NotAKey,
}

const PREFIX: &str = "taut:";
const SECRET_PREFIX: &str = "taut-secret:";
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
const CHECKSUM: usize = 3;
/// Of 35 bytes, five bits each.
const CHARACTERS: usize = 56;
const GROUP: usize = 7;

fn checksum(key: &[u8]) -> [u8; CHECKSUM] {
    let hash = Sha256::digest(key);
    [hash[0], hash[1], hash[2]]
}

/// What may be a secret is never moved to a larger place, which would leave a copy behind.
fn encode(prefix: &str, key: &[u8; 32]) -> String {
    let mut bytes = Zeroizing::new([0; 32 + CHECKSUM]);
    bytes[..32].copy_from_slice(key);
    bytes[32..].copy_from_slice(&checksum(key));
    let mut text = String::with_capacity(prefix.len() + CHARACTERS + CHARACTERS / GROUP);
    text.push_str(prefix);
    for index in 0..CHARACTERS {
        if index > 0 && index.is_multiple_of(GROUP) {
            text.push('-');
        }
        let bit = |at: usize| (bytes[at / 8] >> (7 - at % 8)) & 1;
        let five = (0..5).fold(0, |value, offset| value << 1 | bit(index * 5 + offset));
        text.push(char::from(ALPHABET[usize::from(five)]));
    }
    text
}

fn decode(prefix: &'static str, text: &str) -> Result<Zeroizing<[u8; 32]>, KeyTextError> {
    let text = Zeroizing::new(text.trim().to_ascii_lowercase());
    if prefix == PREFIX && text.starts_with(SECRET_PREFIX) {
        return Err(KeyTextError::Secret);
    }
    let body = text.strip_prefix(prefix).ok_or(KeyTextError::Prefix { expected: prefix })?;
    let characters = || body.chars().filter(|character| *character != '-');
    let mut bytes = Zeroizing::new([0_u8; 32 + CHECKSUM]);
    for (index, character) in characters().enumerate() {
        let value = ALPHABET.iter().position(|letter| char::from(*letter) == character);
        let value = value.ok_or(KeyTextError::Character(character))?;
        for offset in (0..5).filter(|_| index < CHARACTERS) {
            let at = index * 5 + offset;
            bytes[at / 8] |= (((value >> (4 - offset)) & 1) as u8) << (7 - at % 8);
        }
    }
    let found = characters().count();
    if found != CHARACTERS {
        return Err(KeyTextError::Length { found });
    }
    let (key, sum) = bytes.split_first_chunk::<32>().expect("35 bytes");
    if sum != checksum(key) {
        return Err(KeyTextError::Checksum);
    }
    Ok(Zeroizing::new(*key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use curve25519_dalek::constants::{EIGHT_TORSION, X25519_BASEPOINT};
    use proptest::prelude::*;

    /// RFC 8032 section 7.1, test 1.
    #[test]
    fn the_public_key_is_that_of_rfc_8032() {
        let hex = |text: &str| -> [u8; 32] {
            std::array::from_fn(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap())
        };
        let secret = hex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60");
        let public = hex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
        assert_eq!(Identity::from_bytes(secret).fingerprint().ed25519(), public);
    }

    #[test]
    fn both_curves_agree_on_the_public_key() {
        for number in 0..20 {
            let identity = Identity::from_seed(Seed::new(number), "a");
            let public = X25519_BASEPOINT.mul_clamped(*identity.x25519_secret());
            assert_eq!(public.to_bytes(), identity.fingerprint().x25519());
        }
    }

    #[test]
    fn trust_is_in_those_who_were_named() {
        let [a, b] = ["a", "b"].map(|name| Identity::from_seed(Seed::new(1), name).fingerprint());
        let trust: Trust = [a, b].into_iter().collect();
        assert_eq!(trust, Trust::only(b).and(a));
        assert!(Trust::nobody().is_empty() && !Trust::nobody().contains(&a));
    }

    #[test]
    fn keys_by_which_anybody_could_sign_are_no_fingerprints() {
        for point in EIGHT_TORSION {
            assert_eq!(Fingerprint::from_ed25519(point.compress().to_bytes()), None);
        }
        // y = p + 3 says 3 in a second way (RFC 8032 section 5.1.3 step 1 forbids it).
        let mut twice = [0xff; 32];
        (twice[0], twice[31]) = (0xf0, 0x7f);
        assert_eq!(Fingerprint::from_ed25519(twice), None);
    }

    #[test]
    fn errors_say_what_is_wrong() {
        let right = Identity::from_bytes([7; 32]).fingerprint().to_string();
        let parse = |text: &str| text.parse::<Fingerprint>();
        assert_eq!(parse(&right[5..]), Err(KeyTextError::Prefix { expected: "taut:" }));
        assert_eq!(parse(&right[..right.len() - 1]), Err(KeyTextError::Length { found: 55 }));
        assert_eq!(parse(&format!("{right}a")), Err(KeyTextError::Length { found: 57 }));
        assert_eq!(parse(&right.replace('5', "0")), Err(KeyTextError::Character('0')));
        assert_eq!(parse(&right.replace("5j", "j5")), Err(KeyTextError::Checksum));
        assert_eq!(parse(&Identity::from_bytes([7; 32]).to_secret_text()), Err(KeyTextError::Secret));
        assert_eq!(parse(&encode(PREFIX, &[0; 32])), Err(KeyTextError::NotAKey));
        assert!(parse(&format!(" {}\n", right.to_uppercase().replace('-', ""))).is_ok());
    }

    #[test]
    fn debug_does_not_tell_the_secret() {
        let identity = Identity::from_bytes([7; 32]);
        assert_eq!(format!("{identity:?}"), format!("Identity({})", identity.fingerprint()));
    }

    proptest! {
        #[test]
        fn text_forms_round_trip(secret: [u8; 32]) {
            let identity = Identity::from_bytes(secret);
            let again: Identity = identity.to_secret_text().parse().unwrap();
            prop_assert_eq!(*again.to_bytes(), secret);
            let fingerprint = identity.fingerprint();
            prop_assert_eq!(fingerprint.to_string().parse(), Ok(fingerprint));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "(taut:|taut-secret:)?[ -~é]{0,70}") {
            let _ = (text.parse::<Fingerprint>().is_ok(), text.parse::<Identity>().is_ok());
        }
    }
}
