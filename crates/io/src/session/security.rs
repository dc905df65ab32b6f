//! Who an end is and whom it speaks with; or that it speaks in the clear, and how far that may reach.

use std::net::{IpAddr, SocketAddr};

use taut_transport::identity::{Fingerprint, Identity, Trust};

use super::endpoint::EndpointError;
use super::paths::PathSpec;

/// Who this end is, and whom it speaks with.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// This end's.
    pub identity: Identity,
    /// A robot: the operators that may have it. An operator: the one robot.
    pub trust: Trust,
}

/// How the sessions of an [`Endpoint`](super::Endpoint) are protected. Of an `Option<Credentials>`, `None` becomes
/// [`Security::PlaintextOnLoopback`].
#[derive(Clone, Debug)]
pub enum Security {
    /// Both ends know each other's key, and nobody else reads or changes anything.
    Authenticated(Box<Credentials>),
    /// None at all, between programs of one host: every other address is refused.
    PlaintextOnLoopback,
    /// None at all, at any address: whoever is on the way can move the robot. For networks that a lab has made for itself.
    PlaintextAnywhere,
}

impl From<Credentials> for Security {
    fn from(credentials: Credentials) -> Self {
        Self::Authenticated(Box::new(credentials))
    }
}

impl From<Option<Credentials>> for Security {
    fn from(credentials: Option<Credentials>) -> Self {
        credentials.map_or(Self::PlaintextOnLoopback, Self::from)
    }
}

impl Security {
    /// What this end is known by; `None` in the clear.
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        self.credentials().map(|known| known.identity.fingerprint())
    }

    pub(super) const fn credentials(&self) -> Option<&Credentials> {
        match self {
            Self::Authenticated(credentials) => Some(credentials),
            Self::PlaintextOnLoopback | Self::PlaintextAnywhere => None,
        }
    }

    const fn stays_on_this_host(&self) -> bool {
        matches!(self, Self::PlaintextOnLoopback)
    }

    /// May an end listen there, or speak with who is there?
    pub(super) fn check(&self, address: SocketAddr) -> Result<(), EndpointError> {
        if self.stays_on_this_host() && !is_loopback(address.ip()) {
            return Err(EndpointError::PlaintextBeyondLoopback(address));
        }
        Ok(())
    }

    /// May an end have paths there? Their sockets are bound to all addresses of an interface.
    pub(super) fn check_paths(&self, paths: &[PathSpec]) -> Result<(), EndpointError> {
        let leads_away = |path: &&PathSpec| match path {
            PathSpec::Interface(name) => name != "lo",
            PathSpec::Address(address) => !is_loopback(*address),
        };
        match paths.iter().find(leads_away) {
            Some(path) if self.stays_on_this_host() => Err(EndpointError::PlaintextPath(path.clone())),
            _ => Ok(()),
        }
    }
}

/// An IPv4 address may be written as one of IPv6 (RFC 4291 section 2.5.5.2).
fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plaintext_stays_on_this_host_unless_it_is_let_out() {
        let here = ["127.0.0.1:1", "127.8.9.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1"];
        let elsewhere = ["0.0.0.0:1", "[::]:1", "10.0.0.2:1", "[fd00::2]:1", "[::ffff:10.0.0.2]:1"];
        let allowed = |security: &Security, text: &str| security.check(text.parse().unwrap()).is_ok();
        let security = Security::from(None);
        assert!(here.iter().all(|text| allowed(&security, text)));
        assert!(elsewhere.iter().all(|text| !allowed(&security, text)));
        assert!(elsewhere.iter().all(|text| allowed(&Security::PlaintextAnywhere, text)));
    }

    #[test]
    fn a_path_of_plaintext_leads_out_of_this_host_as_little() {
        let allowed =
            |security: &Security, text: &str| security.check_paths(&[text.parse().unwrap()]).is_ok();
        let security = Security::from(None);
        assert!(["lo", "127.0.0.2", "::1"].iter().all(|path| allowed(&security, path)));
        assert!(["eth0", "10.0.0.2"].iter().all(|path| !allowed(&security, path)));
        assert!(allowed(&Security::PlaintextAnywhere, "eth0"));
    }
}
