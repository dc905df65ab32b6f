//! TLS 1.3 with both sides known by their [`Fingerprint`].
//!
//! Identities travel as raw public keys (RFC 7250): no certificate, so nothing in it to be parsed, to expire or to
//! name anybody; or, for peers that cannot do that, in certificates of which the key alone counts. A handshake fails on
//! either side when the other's key is not in its [`Trust`].

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, ClientSessionMemoryCache, ResolvesClientCert};
use rustls::crypto::ring::sign::any_eddsa_type;
use rustls::crypto::{
    WebPkiSupportedAlgorithms, verify_tls13_signature, verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, ResolvesServerCert, ServerSessionMemoryCache};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::TLS13;
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, KeyLog, SignatureScheme};

use super::QuicConfig;
use super::crypto::{Lent, provider};
use super::library::Connection;
use crate::certificate;
use crate::identity::{Fingerprint, Identity, Trust};
use crate::service::Service;

/// What the two sides agree that they speak (RFC 7301).
const fn protocol(service: Service, multipath: bool) -> &'static [u8] {
    match (service, multipath) {
        (Service::Session, false) => b"taut/1",
        (Service::Session, true) => b"taut-mp/1",
        (Service::Proxy, false) => b"taut-proxy/1",
        (Service::Proxy, true) => b"taut-mp-proxy/1",
    }
}

/// Under which name tickets are kept; it is not sent.
pub(super) const SERVER_NAME: &str = certificate::NAME;
/// QUIC knows no other value than this and 0 (RFC 9001 section 4.6.1).
const EARLY_DATA: u32 = u32::MAX;
/// Sessions that a server remembers.
const SESSIONS: usize = 256;

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

    fn credentials(&self, identity: &Identity, trust: &Trust, form: Form) -> Arc<Credentials> {
        let mut kept = self.0.credentials.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |kept: &&Arc<Credentials>| {
            kept.own == identity.fingerprint() && kept.verifier.trust == *trust && kept.verifier.form == form
        };
        match kept.as_ref().filter(fits) {
            Some(kept) => kept.clone(),
            None => kept.insert(Arc::new(Credentials::new(identity, trust, form))).clone(),
        }
    }
}

/// How identities are written in a handshake. Both sides must agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// RFC 7250.
    RawPublicKey,
    /// X.509 (RFC 5280).
    Certificate,
}

/// What proves who we are and checks who they are.
struct Credentials {
    own: Fingerprint,
    server_resolver: Arc<dyn ResolvesServerCert>,
    client_resolver: Arc<dyn ResolvesClientCert>,
    verifier: Arc<Verifier>,
}

impl Credentials {
    fn new(identity: &Identity, trust: &Trust, form: Form) -> Self {
        let provider = provider();
        let secret = identity.pkcs8();
        let secret = PrivatePkcs8KeyDer::from(&secret[..]);
        let signer = any_eddsa_type(&secret).expect("an Ed25519 secret, written by ourselves");
        let shown = match form {
            Form::RawPublicKey => certificate::public_key(identity.fingerprint()),
            Form::Certificate => certificate::self_signed(identity),
        };
        let key = CertifiedKey::new(vec![shown.into()], signer);
        let (server_resolver, client_resolver): (Arc<dyn ResolvesServerCert>, Arc<dyn ResolvesClientCert>) =
            match form {
                Form::RawPublicKey => {
                    let key = Arc::new(key);
                    (
                        Arc::new(AlwaysResolvesServerRawPublicKeys::new(key.clone())),
                        Arc::new(AlwaysResolvesClientRawPublicKeys::new(key)),
                    )
                }
                Form::Certificate => {
                    let key = Arc::new(SingleCertAndKey::from(key));
                    (key.clone(), key)
                }
            };
        let algorithms = provider.signature_verification_algorithms;
        let untrusted = Untrusted::default();
        let verifier = Arc::new(Verifier { trust: trust.clone(), form, algorithms, untrusted });
        Self { own: identity.fingerprint(), server_resolver, client_resolver, verifier }
    }
}

/// A client's half of TLS.
pub(super) fn client(
    identity: &Identity,
    trust: &Trust,
    config: &QuicConfig,
    multipath: bool,
    key_log: Arc<KeyLines>,
) -> rustls::ClientConfig {
    let (credentials, early_data) = (credentials(identity, trust, config), config.early_data);
    let protocol = protocol(config.service, multipath).to_vec();
    let keeps_keys = config.key_log;
    let resumption = config.resumption.as_ref();
    let mut config = rustls::ClientConfig::builder_with_details(Arc::new(provider()), Arc::new(Lent))
        .with_protocol_versions(&[&TLS13])
        .expect("TLS 1.3 has its cipher suites")
        .dangerous()
        .with_custom_certificate_verifier(credentials.verifier.clone())
        .with_client_cert_resolver(credentials.client_resolver.clone());
    config.alpn_protocols = vec![protocol];
    config.enable_sni = false;
    config.enable_early_data = early_data;
    config.resumption = match resumption {
        Some(resumption) => rustls::client::Resumption::store(resumption.0.client.clone()),
        None => rustls::client::Resumption::disabled(),
    };
    if keeps_keys {
        config.key_log = key_log;
    }
    config
}

/// A server's half of TLS; and whom it refuses.
pub(super) fn server(
    identity: &Identity,
    trust: &Trust,
    config: &QuicConfig,
    multipath: bool,
    key_log: Arc<KeyLines>,
) -> (rustls::ServerConfig, Untrusted) {
    let (credentials, early_data) = (credentials(identity, trust, config), config.early_data);
    let protocol = protocol(config.service, multipath).to_vec();
    let keeps_keys = config.key_log;
    let resumption = config.resumption.as_ref();
    let mut config = rustls::ServerConfig::builder_with_details(Arc::new(provider()), Arc::new(Lent))
        .with_protocol_versions(&[&TLS13])
        .expect("TLS 1.3 has its cipher suites")
        .with_client_cert_verifier(credentials.verifier.clone())
        .with_cert_resolver(credentials.server_resolver.clone());
    config.alpn_protocols = vec![protocol];
    match resumption {
        Some(resumption) => {
            config.session_storage = resumption.0.server.clone();
            config.max_early_data_size = if early_data { EARLY_DATA } else { 0 };
        }
        None => config.send_tls13_tickets = 0,
    }
    if keeps_keys {
        config.key_log = key_log;
    }
    (config, credentials.verifier.untrusted.clone())
}

fn credentials(identity: &Identity, trust: &Trust, config: &QuicConfig) -> Arc<Credentials> {
    let form = Form::of(config);
    match &config.resumption {
        Some(resumption) => resumption.credentials(identity, trust, form),
        None => Arc::new(Credentials::new(identity, trust, form)),
    }
}

/// Who is at the other end, as far as TLS has found out.
pub(super) fn peer(connection: &impl Connection, config: &QuicConfig) -> Option<Fingerprint> {
    let keys = connection.identity()?.downcast::<Vec<CertificateDer<'static>>>().ok()?;
    Form::of(config).fingerprint(keys.first()?)
}

impl Form {
    fn of(config: &QuicConfig) -> Self {
        if config.certificates { Self::Certificate } else { Self::RawPublicKey }
    }

    /// Whose key stands in the place where TLS usually has a certificate.
    fn fingerprint(self, shown: &[u8]) -> Option<Fingerprint> {
        match self {
            Self::RawPublicKey => certificate::fingerprint_of_public_key(shown),
            Self::Certificate => certificate::fingerprint(shown),
        }
    }
}

/// Lets in whom it trusts.
#[derive(Debug)]
struct Verifier {
    trust: Trust,
    form: Form,
    algorithms: WebPkiSupportedAlgorithms,
    untrusted: Untrusted,
}

/// Whose key was shown last and is not trusted: rustls forgets it. It clones as a handle.
#[derive(Clone, Debug, Default)]
pub(super) struct Untrusted(Arc<Mutex<Option<Fingerprint>>>);

impl Untrusted {
    pub(super) fn take(&self) -> Option<Fingerprint> {
        self.last().take()
    }

    fn last(&self) -> MutexGuard<'_, Option<Fingerprint>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Verifier {
    fn check(&self, shown: &[u8]) -> Result<(), Error> {
        let peer =
            self.form.fingerprint(shown).ok_or(Error::InvalidCertificate(CertificateError::BadEncoding))?;
        if self.trust.contains(&peer) {
            Ok(())
        } else {
            *self.untrusted.last() = Some(peer);
            Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
        }
    }

    fn check_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match self.form {
            Form::RawPublicKey => {
                let key = SubjectPublicKeyInfoDer::from(shown.as_ref());
                verify_tls13_signature_with_raw_key(message, &key, signature, &self.algorithms)
            }
            Form::Certificate => verify_tls13_signature(message, shown, signature, &self.algorithms),
        }
    }
}

/// What the two traits of verifiers ask alike: signatures of TLS 1.3 by Ed25519 keys.
macro_rules! signatures {
    () => {
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
            self.form == Form::RawPublicKey
        }
    };
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

    signatures!();
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

    signatures!();
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
