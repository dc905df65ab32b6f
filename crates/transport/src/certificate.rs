//! An identity as an X.509 certificate (RFC 5280), for peers whose TLS knows nothing else.
//!
//! The certificate is signed by the identity itself and says one thing, its key: whoever is trusted by their
//! [`Fingerprint`] is trusted with any certificate of that key. The rest is there because
//! the format wants it: the name `taut`, a time that does not end (RFC 5280 section 4.1.2.5), a serial number that comes
//! from the key. So it is the same bytes every time it is made, and a peer may keep it as its own root of trust.
//!
//! ```
//! use taut_transport::certificate;
//! use taut_transport::identity::Identity;
//!
//! let robot = Identity::from_bytes([7; 32]);
//! let der = certificate::self_signed(&robot);
//! assert_eq!(certificate::fingerprint(&der), Some(robot.fingerprint()));
//! ```

use rustls::pki_types::CertificateDer;
use rustls::server::ParsedCertificate;

use crate::identity::{Fingerprint, Identity};

/// The name in every certificate, as common name and as DNS name. It identifies nobody.
pub const NAME: &str = "taut";

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const UTF8_STRING: u8 = 0x0c;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
/// Choice 2 of GeneralName, dNSName (RFC 5280 section 4.2.1.6).
const DNS_NAME: u8 = 0x82;
const VERSION_FIELD: u8 = 0xa0;
const EXTENSIONS_FIELD: u8 = 0xa3;
/// id-Ed25519, 1.3.101.112, without parameters (RFC 8410 section 3).
const ED25519: [u8; 7] = [SEQUENCE, 5, 6, 3, 0x2b, 0x65, 0x70];
/// id-at-commonName, 2.5.4.3.
const COMMON_NAME: [u8; 5] = [6, 3, 0x55, 4, 3];
/// id-ce-subjectAltName, 2.5.29.17.
const SUBJECT_ALT_NAME: [u8; 5] = [6, 3, 0x55, 0x1d, 0x11];
/// SubjectPublicKeyInfo of an Ed25519 key (RFC 8410 section 4) up to the key itself.
const PUBLIC_KEY_PREFIX: [u8; 12] =
    [SEQUENCE, 0x2a, SEQUENCE, 5, 6, 3, 0x2b, 0x65, 0x70, BIT_STRING, 0x21, 0];

/// The certificate of `identity`, DER, 243 bytes.
pub fn self_signed(identity: &Identity) -> Vec<u8> {
    let fingerprint = identity.fingerprint();
    let name = tlv(
        SEQUENCE,
        &[&tlv(SET, &[&tlv(SEQUENCE, &[&COMMON_NAME, &tlv(UTF8_STRING, &[NAME.as_bytes()])])])],
    );
    let validity =
        tlv(SEQUENCE, &[&tlv(UTC_TIME, &[b"700101000000Z"]), &tlv(GENERALIZED_TIME, &[b"99991231235959Z"])]);
    let names = tlv(OCTET_STRING, &[&tlv(SEQUENCE, &[&tlv(DNS_NAME, &[NAME.as_bytes()])])]);
    let extensions = tlv(SEQUENCE, &[&tlv(SEQUENCE, &[&SUBJECT_ALT_NAME, &names])]);
    let signed = tlv(
        SEQUENCE,
        &[
            &tlv(VERSION_FIELD, &[&[INTEGER, 1, 2]]),
            // Positive, and other keys have others.
            &tlv(INTEGER, &[&[1], &fingerprint.ed25519()[..15]]),
            &ED25519,
            &name,
            &validity,
            &name,
            &public_key(fingerprint),
            &tlv(EXTENSIONS_FIELD, &[&extensions]),
        ],
    );
    let signature = identity.sign(&signed);
    tlv(SEQUENCE, &[&signed, &ED25519, &tlv(BIT_STRING, &[&[0], &signature])])
}

/// Whose key is in a certificate; `None` when it is not a certificate of an Ed25519 key. What else it says, and who
/// signed it, does not matter: who has the key proves it in the handshake.
pub fn fingerprint(der: &[u8]) -> Option<Fingerprint> {
    let certificate = CertificateDer::from(der);
    let parsed = ParsedCertificate::try_from(&certificate).ok()?;
    fingerprint_of_public_key(&parsed.subject_public_key_info())
}

/// SubjectPublicKeyInfo of an identity (RFC 8410 section 4), which stands alone in RFC 7250.
pub(crate) fn public_key(fingerprint: Fingerprint) -> Vec<u8> {
    [PUBLIC_KEY_PREFIX.as_slice(), &fingerprint.ed25519()].concat()
}

pub(crate) fn fingerprint_of_public_key(public_key: &[u8]) -> Option<Fingerprint> {
    let key = public_key.strip_prefix(&PUBLIC_KEY_PREFIX)?;
    Fingerprint::from_ed25519(key.try_into().ok()?)
}

/// Tag, length and value in DER (ITU-T X.690 section 8.1), the value in parts; at most 255 bytes.
fn tlv(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut out = vec![tag];
    match length {
        0..0x80 => out.push(length as u8),
        0x80..0x100 => out.extend([0x81, length as u8]),
        _ => unreachable!("all that is written here is shorter"),
    }
    parts.iter().for_each(|part| out.extend_from_slice(part));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_certificate_has_the_golden_bytes() {
        let der = self_signed(&Identity::from_bytes([7; 32]));
        let key = Identity::from_bytes([7; 32]).fingerprint().ed25519();
        let name = b"\x30\x0f\x31\x0d\x30\x0b\x06\x03\x55\x04\x03\x0c\x04taut";
        let mut expected = b"\x30\x81\xa3\xa0\x03\x02\x01\x02\x02\x10\x01".to_vec();
        expected.extend(&key[..15]);
        expected.extend(ED25519);
        expected.extend(name);
        expected.extend(b"\x30\x20\x17\x0d700101000000Z\x18\x0f99991231235959Z");
        expected.extend(name);
        expected.extend(b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00");
        expected.extend(key);
        expected.extend(b"\xa3\x13\x30\x11\x30\x0f\x06\x03\x55\x1d\x11\x04\x08\x30\x06\x82\x04taut");
        assert_eq!((&der[..3], der.len()), (&[0x30, 0x81, 0xf0][..], 243));
        assert_eq!(der[3..3 + expected.len()], expected);
    }

    #[test]
    fn a_certificate_names_its_key_and_what_is_none_names_nobody() {
        let identity = Identity::from_bytes([9; 32]);
        let der = self_signed(&identity);
        assert_eq!(fingerprint(&der), Some(identity.fingerprint()));
        for len in 0..der.len() {
            assert_eq!(fingerprint(&der[..len]), None);
        }
        assert_eq!(fingerprint(&public_key(identity.fingerprint())), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(at in 0_usize..243, value: u8, noise in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert_eq!(fingerprint(&noise), None);
            let mut der = self_signed(&Identity::from_bytes([9; 32]));
            der[at] = value;
            let _ = fingerprint(&der);
        }
    }
}
