//! TLS 1.3 with both sides known by their [`Fingerprint`].
//!
//! Identities travel as raw public keys (RFC 7250): no certificate, so nothing in it to be parsed, to expire or to
//! name anybody. A handshake fails on either side when the other's key is not in its [`Trust`].

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, ClientSessionMemoryCache, ResolvesClientCert};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, ServerSessionMemoryCache};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, KeyLog, SignatureScheme};

use super::crypto::{Lent, provider};
use crate::identity::{Fingerprint, Identity, Trust};

/// What the two sides agree that they speak (RFC 7301).
pub(super) const PROTOCOL: &[u8] = b"taut/1";
/// Under which name tickets are kept; it is not sent.
pub(super) const SERVER_NAME: &str = "taut";
/// QUIC knows no other value than this and 0 (RFC 9001 section 4.6.1).
const EARLY_DATA: u32 = u32::MAX;
/// Sessions that a server remembers.
const SESSIONS: usize = 256;
/// SubjectPublicKeyInfo of an Ed25519 key (RFC 8410 section 4) up to the key itself.
const PUBLIC_KEY_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0];

/// Remembers sessions, so that the next handshake between the same two peers is shorter: without signatures, and with
/// the first samples in its first packet.
///
/// Share one (it clones as a handle) among all connections of a peer, one after the other; give every pair of peers
/// its own. It lives in memory: a program that starts anew begins with a full handshake. A server takes each ticket
/// once only (RFC 8446 section 8.1), so that what is recorded and sent to it again is not taken for early data.
#[derive(Clone, Debug)]
pub struct Resumption(Arc<Store>);

struct Store {
    client: Arc<ClientSessionMemoryCache>,
    server: Arc<ServerSessionMemoryCache>,
    /// rustls resumes only what was begun with the very same verifier and resolver.
    credentials: Mutex<Option<Arc<Credentials>>>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Store")
    }
}

impl Default for Resumption {
    fn default() -> Self {
        Self::new()
    }
}

impl Resumption {
    /// Remembers nothing yet.
    pub fn new() -> Self {
        Self(Arc::new(Store {
            client: Arc::new(ClientSessionMemoryCache::new(1)),
            server: ServerSessionMemoryCache::new(SESSIONS),
            credentials: Mutex::new(None),
        }))
    }

    fn credentials(&self, identity: &Identity, trust: &Trust) -> Arc<Credentials> {
        let mut kept = self.0.credentials.lock().unwrap_or_else(PoisonError::into_inner);
        match kept.as_ref().filter(|kept| kept.own == identity.fingerprint() && kept.verifier.trust == *trust)
        {
            Some(kept) => kept.clone(),
            None => kept.insert(Arc::new(Credentials::new(identity, trust))).clone(),
        }
    }
}

/// What proves who we are and checks who they are.
struct Credentials {
    own: Fingerprint,
    key: Arc<CertifiedKey>,
    resolver: Arc<dyn ResolvesClientCert>,
    verifier: Arc<Verifier>,
}

impl Credentials {
    fn new(identity: &Identity, trust: &Trust) -> Self {
        let provider = provider();
        let secret = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(identity.pkcs8()));
        let signer =
            provider.key_provider.load_private_key(secret).expect("an Ed25519 secret, written by ourselves");
        let key = Arc::new(CertifiedKey::new(vec![public_key(identity.fingerprint())], signer));
        let resolver = Arc::new(AlwaysResolvesClientRawPublicKeys::new(key.clone()));
        let verifier = Arc::new(Verifier {
            trust: trust.clone(),
            algorithms: provider.signature_verification_algorithms,
        });
        Self { own: identity.fingerprint(), key, resolver, verifier }
    }
}

/// A client's half of TLS.
pub(super) fn client_config(
    identity: &Identity,
    trust: &Trust,
    resumption: Option<&Resumption>,
    early_data: bool,
    key_log: Option<Arc<dyn KeyLog>>,
) -> QuicClientConfig {
    let credentials = credentials(identity, trust, resumption);
    let mut config = rustls::ClientConfig::builder_with_details(Arc::new(provider()), Arc::new(Lent))
        .with_protocol_versions(&[&TLS13])
        .expect("TLS 1.3 has its cipher suites")
        .dangerous()
        .with_custom_certificate_verifier(credentials.verifier.clone())
        .with_client_cert_resolver(credentials.resolver.clone());
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.enable_sni = false;
    config.enable_early_data = early_data;
    config.resumption = match resumption {
        Some(resumption) => rustls::client::Resumption::store(resumption.0.client.clone()),
        None => rustls::client::Resumption::disabled(),
    };
    if let Some(key_log) = key_log {
        config.key_log = key_log;
    }
    QuicClientConfig::try_from(config).expect("AES-128-GCM, which initial packets need, is there")
}

/// A server's half of TLS.
pub(super) fn server_config(
    identity: &Identity,
    trust: &Trust,
    resumption: Option<&Resumption>,
    early_data: bool,
    key_log: Option<Arc<dyn KeyLog>>,
) -> QuicServerConfig {
    let credentials = credentials(identity, trust, resumption);
    let mut config = rustls::ServerConfig::builder_with_details(Arc::new(provider()), Arc::new(Lent))
        .with_protocol_versions(&[&TLS13])
        .expect("TLS 1.3 has its cipher suites")
        .with_client_cert_verifier(credentials.verifier.clone())
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(credentials.key.clone())));
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    match resumption {
        Some(resumption) => {
            config.session_storage = resumption.0.server.clone();
            config.max_early_data_size = if early_data { EARLY_DATA } else { 0 };
        }
        None => config.send_tls13_tickets = 0,
    }
    if let Some(key_log) = key_log {
        config.key_log = key_log;
    }
    QuicServerConfig::try_from(config).expect("AES-128-GCM, which initial packets need, is there")
}

fn credentials(identity: &Identity, trust: &Trust, resumption: Option<&Resumption>) -> Arc<Credentials> {
    match resumption {
        Some(resumption) => resumption.credentials(identity, trust),
        None => Arc::new(Credentials::new(identity, trust)),
    }
}

/// Who is at the other end, as far as TLS has found out.
pub(super) fn peer(connection: &quinn_proto::Connection) -> Option<Fingerprint> {
    let identity = connection.crypto_session().peer_identity()?;
    let keys = identity.downcast::<Vec<CertificateDer<'static>>>().ok()?;
    fingerprint(keys.first()?)
}

/// The key as SubjectPublicKeyInfo, in the place where TLS usually has a certificate.
fn public_key(fingerprint: Fingerprint) -> CertificateDer<'static> {
    [PUBLIC_KEY_PREFIX.as_slice(), &fingerprint.ed25519()].concat().into()
}

fn fingerprint(public_key: &[u8]) -> Option<Fingerprint> {
    let key = public_key.strip_prefix(&PUBLIC_KEY_PREFIX)?;
    Fingerprint::from_ed25519(key.try_into().ok()?)
}

/// Lets in whom it trusts.
#[derive(Debug)]
struct Verifier {
    trust: Trust,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Verifier {
    fn check(&self, public_key: &[u8]) -> Result<(), Error> {
        let peer = fingerprint(public_key).ok_or(Error::InvalidCertificate(CertificateError::BadEncoding))?;
        if self.trust.contains(&peer) {
            Ok(())
        } else {
            Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
        }
    }

    fn check_signature(
        &self,
        message: &[u8],
        public_key: &[u8],
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(public_key);
        verify_tls13_signature_with_raw_key(message, &key, signature, &self.algorithms)
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        key: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(key).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(tls12())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(message, key, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        key: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(key).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(tls12())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(message, key, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

fn tls12() -> Error {
    Error::General("QUIC has no TLS 1.2".into())
}

/// The secrets of a connection as lines of an NSS key log, which Wireshark reads.
#[derive(Debug, Default)]
pub(super) struct KeyLines(Mutex<Vec<String>>);

impl KeyLines {
    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl KeyLog for KeyLines {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A handshake has five or six; what nobody takes is not kept for ever.
        if lines.len() < 64 {
            lines.push(format!("{label} {} {}", hex(client_random), hex(secret)));
        }
    }
}
