//! Who was refused, as far as a handshake tells: for whoever decides whom to trust.

use curve25519_dalek::montgomery::MontgomeryPoint;
use taut_core::PathId;

use crate::identity::Fingerprint;

/// Somebody who was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stranger {
    /// Where it spoke from. Over a byte stream, whoever accepted the connection knows.
    pub path: PathId,
    /// Which key it showed, when it came as far as that.
    pub key: Option<ShownKey>,
}

/// A public key that somebody showed and nobody here trusts. It may be shown by another than whose it is: a handshake that is
/// refused ends before that is proven. To trust it is no risk all the same, for only its owner gets any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShownKey {
    /// In TLS.
    Ed25519(Fingerprint),
    /// In Noise.
    X25519([u8; 32]),
}

impl ShownKey {
    /// The fingerprints that whoever showed it can have: one, or two for an X25519 key, which tells all of an Ed25519 key but
    /// the sign of its x (RFC 7748 section 4.1); none when nobody can have it.
    ///
    /// ```
    /// use taut_transport::identity::Identity;
    /// use taut_transport::stranger::ShownKey;
    ///
    /// let somebody = Identity::from_bytes([7; 32]).fingerprint();
    /// assert_eq!(ShownKey::Ed25519(somebody).fingerprints(), [somebody]);
    /// let two = ShownKey::X25519(somebody.x25519()).fingerprints();
    /// assert!(two.len() == 2 && two.contains(&somebody));
    /// ```
    pub fn fingerprints(&self) -> Vec<Fingerprint> {
        match self {
            Self::Ed25519(fingerprint) => vec![*fingerprint],
            Self::X25519(key) => {
                let of =
                    |sign| MontgomeryPoint(*key).to_edwards(sign).map(|point| point.compress().to_bytes());
                [0, 1].into_iter().filter_map(of).filter_map(Fingerprint::from_ed25519).collect()
            }
        }
    }
}

/// Is who was refused now, and showed `key` or none, remembered in place of who was before? Who showed a key is not forgotten
/// for others that show none.
pub fn is_remembered(key: Option<ShownKey>, before: Option<ShownKey>) -> bool {
    key.is_some() || before.is_none()
}

/// The last who was refused.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LastStranger(Option<Stranger>);

impl LastStranger {
    pub(crate) fn on(&mut self, path: PathId, key: Option<ShownKey>) {
        if is_remembered(key, self.0.and_then(|last| last.key)) {
            self.0 = Some(Stranger { path, key });
        }
    }

    pub(crate) fn take(&mut self) -> Option<Stranger> {
        self.0.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Identity;

    #[test]
    fn who_showed_a_key_is_remembered_before_who_did_not() {
        let key = Some(ShownKey::Ed25519(Identity::from_bytes([7; 32]).fingerprint()));
        let mut last = LastStranger::default();
        assert_eq!(last.take(), None);
        last.on(PathId(1), None);
        last.on(PathId(2), key);
        last.on(PathId(3), None);
        assert_eq!(last.take(), Some(Stranger { path: PathId(2), key }));
        assert_eq!(last.take(), None);
        last.on(PathId(4), None);
        last.on(PathId(5), None);
        assert_eq!(last.take(), Some(Stranger { path: PathId(5), key: None }));
    }

    #[test]
    fn either_fingerprint_of_a_noise_key_lets_its_owner_in() {
        for secret in 0..20 {
            let somebody = Identity::from_bytes([secret; 32]).fingerprint();
            let two = ShownKey::X25519(somebody.x25519()).fingerprints();
            assert!(two.len() == 2 && two.contains(&somebody), "{two:?}");
            assert!(two.iter().all(|fingerprint| fingerprint.x25519() == somebody.x25519()));
        }
        // u = −1 is on no Edwards curve.
        let mut key = [0xff; 32];
        (key[0], key[31]) = (0xec, 0x7f);
        assert!(ShownKey::X25519(key).fingerprints().is_empty());
    }
}
