//! Who asks a busy robot for a handshake shows first that it is at its address: the cookies of WireGuard (whitepaper, sections
//! 5.3, 5.4.4 and 5.4.7).

use blake2::digest::{KeyInit, Mac};
use blake2::{Blake2s256, Blake2sMac, Digest};
use chacha20poly1305::XChaCha20Poly1305;
use chacha20poly1305::aead::AeadInPlace;
use taut_core::{DropCause, Duration, LeakyBucket, Origin, Time};

use super::config::SecurityConfig;
use super::header::{COOKIE, Index, MAC, NONCE, SEALED_COOKIE, TAG, emit_cookie_reply, emit_refusal};
use crate::entropy::Entropy;

/// How long a cookie is worth something, on either side.
const LASTS: Duration = Duration::from_secs(120);
/// Initiations that may come at once, of all that have shown no cookie, and of each host that has.
const BURST: u64 = 10;
/// Hosts whose initiations are counted.
const HOSTS: usize = 64;
/// All hosts together have as many times the share of one.
const ALL: u32 = 10;
const LABEL: &[u8] = b"taut 2 cookie";

/// Seals the cookies for whoever knows this public key: nobody else on the way can read or forge one.
#[derive(Clone)]
pub(crate) struct CookieKey([u8; 32]);

impl CookieKey {
    pub(crate) fn new(x25519: &[u8; 32]) -> Self {
        Self(Blake2s256::new().chain_update(LABEL).chain_update(x25519).finalize().into())
    }

    /// The answer to the initiation with this MAC, appended to `out`.
    fn reply(&self, to: Index, mac: &[u8; MAC], cookie: &Cookie, entropy: &mut Entropy, out: &mut Vec<u8>) {
        let (mut nonce, mut sealed) = ([0; NONCE], cookie.0);
        nonce.copy_from_slice(&entropy.key()[..NONCE]);
        let cipher = XChaCha20Poly1305::new(&self.0.into());
        let tag = cipher.encrypt_in_place_detached(&nonce.into(), mac, &mut sealed);
        emit_cookie_reply(to, out);
        out.extend(nonce);
        out.extend(sealed);
        out.extend(tag.expect("16 bytes are not too long"));
    }

    /// To somebody who wants another service than this end has, appended to `out`: shorter than the initiation with this MAC.
    pub(crate) fn refuse(&self, to: Index, mac: &[u8; MAC], entropy: &mut Entropy, out: &mut Vec<u8>) {
        let mut nonce = [0; NONCE];
        nonce.copy_from_slice(&entropy.key()[..NONCE]);
        let cipher = XChaCha20Poly1305::new(&self.0.into());
        let tag = cipher.encrypt_in_place_detached(&nonce.into(), mac, &mut []);
        emit_refusal(to, out);
        out.extend(nonce);
        out.extend(tag.expect("nothing is not too long"));
    }

    /// Is it the answer to the initiation with this MAC?
    ///
    /// # Errors
    /// [`DropCause::Unauthenticated`]
    pub(crate) fn check_refusal(
        &self,
        mac: &[u8; MAC],
        nonce: &[u8; NONCE],
        tag: &[u8; TAG],
    ) -> Result<(), DropCause> {
        XChaCha20Poly1305::new(&self.0.into())
            .decrypt_in_place_detached(nonce.into(), mac, &mut [], tag.into())
            .map_err(|_| DropCause::Unauthenticated)
    }

    /// The cookie in the answer to the initiation with this MAC.
    ///
    /// # Errors
    /// [`DropCause::Unauthenticated`]
    pub(crate) fn open(
        &self,
        mac: &[u8; MAC],
        nonce: &[u8; NONCE],
        sealed: &[u8; SEALED_COOKIE],
    ) -> Result<Cookie, DropCause> {
        let mut cookie = [0; COOKIE];
        cookie.copy_from_slice(&sealed[..COOKIE]);
        let tag: [u8; TAG] = std::array::from_fn(|at| sealed[COOKIE + at]);
        XChaCha20Poly1305::new(&self.0.into())
            .decrypt_in_place_detached(nonce.into(), mac, &mut cookie, &tag.into())
            .map_err(|_| DropCause::Unauthenticated)?;
        Ok(Cookie(cookie))
    }
}

/// What a robot gave out to one address, which shows that its owner can hear what is sent there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cookie([u8; COOKIE]);

impl Cookie {
    /// Proves that the sender of these bytes, all before the proof, has the cookie (*mac2* of WireGuard).
    fn mac(&self, bytes: &[u8]) -> Blake2sMac<blake2::digest::consts::U16> {
        let mac = <Blake2sMac<_> as KeyInit>::new_from_slice(&self.0).expect("a key of 16 bytes will do");
        Mac::chain_update(mac, bytes)
    }

    /// Writes the proof at the end of an initiation.
    pub(crate) fn prove(&self, initiation: &mut [u8]) {
        let (signed, proof) = initiation.split_at_mut(initiation.len() - MAC);
        proof.copy_from_slice(&self.mac(signed).finalize().into_bytes());
    }
}

/// An operator's: the cookie that it was given last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given {
    pub(crate) cookie: Cookie,
    at: Time,
}

impl Given {
    pub(crate) fn new(now: Time, cookie: Cookie) -> Self {
        Self { cookie, at: now }
    }

    pub(crate) fn is_fresh(&self, now: Time) -> bool {
        now < self.at + LASTS
    }
}

/// What is to become of an initiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It is looked into.
    Look,
    /// Its sender is asked whether it is at its address.
    Ask,
    /// Its host has had its share.
    TooMany,
}

/// A robot's: which initiations it looks into.
pub(crate) struct Doorkeeper {
    /// From which cookies come, and since when.
    secret: Option<([u8; 32], Time)>,
    /// Of those that show no cookie.
    unproven: LeakyBucket,
    /// Of those that do, and of each host that does.
    proven: LeakyBucket,
    hosts: Vec<(u64, LeakyBucket)>,
    fresh: LeakyBucket,
}

impl Doorkeeper {
    pub(crate) fn new(config: &SecurityConfig) -> Self {
        let every = Duration::from_secs(1) / u64::from(config.handshakes_per_second);
        let fresh = LeakyBucket::new(every, BURST);
        let proven = LeakyBucket::new(every / u64::from(ALL), BURST * u64::from(ALL));
        Self { secret: None, unproven: fresh, proven, hosts: Vec::new(), fresh }
    }

    /// `signed` is all of the initiation before `proof`.
    pub(crate) fn admit(&mut self, now: Time, origin: Origin, signed: &[u8], proof: &[u8; MAC]) -> Admission {
        let known = self.secret.filter(|(_, since)| now < *since + LASTS);
        let shown =
            |(secret, _): ([u8; 32], Time)| cookie(&secret, origin).mac(signed).verify_slice(proof).is_ok();
        if known.is_some_and(shown) {
            return if self.host(now, origin.host()).take(now) && self.proven.take(now) {
                Admission::Look
            } else {
                Admission::TooMany
            };
        }
        if self.unproven.take(now) { Admission::Look } else { Admission::Ask }
    }

    /// The question, appended to `out`: shorter than any initiation, and a microsecond of work.
    pub(crate) fn ask(
        &mut self,
        now: Time,
        origin: Origin,
        (to, mac): (Index, &[u8; MAC]),
        (key, entropy): (&CookieKey, &mut Entropy),
        out: &mut Vec<u8>,
    ) {
        let secret = match self.secret {
            Some((secret, since)) if now < since + LASTS => secret,
            _ => self.secret.insert((entropy.key(), now)).0,
        };
        key.reply(to, mac, &cookie(&secret, origin), entropy, out);
    }

    /// The share of a host. When there are too many, the one whose share is whole again soonest is forgotten.
    fn host(&mut self, now: Time, host: u64) -> &mut LeakyBucket {
        let place = self.hosts.iter().position(|(known, _)| *known == host).unwrap_or_else(|| {
            self.hosts.retain(|(_, bucket)| bucket.empty_at() > now);
            if self.hosts.len() == HOSTS {
                let soonest = (0..HOSTS).min_by_key(|place| self.hosts[*place].1.empty_at());
                self.hosts.swap_remove(soonest.expect("it is full"));
            }
            self.hosts.push((host, self.fresh));
            self.hosts.len() - 1
        });
        &mut self.hosts[place].1
    }
}

/// That of an address, as long as the secret lasts.
fn cookie(secret: &[u8; 32], origin: Origin) -> Cookie {
    let mac = <Blake2sMac<blake2::digest::consts::U16> as KeyInit>::new_from_slice(secret);
    let mac = mac.expect("BLAKE2s takes keys of 32 bytes").chain_update(origin.address().to_be_bytes());
    Cookie(mac.finalize().into_bytes().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use taut_core::Seed;

    const SIGNED: [u8; 32] = [7; 32];

    fn origin(host: u8, port: u16) -> Origin {
        Origin::new(([192, 0, 2, host], port).into(), None, 0)
    }

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    /// Asks, opens the answer and proves what it says.
    fn proof(keeper: &mut Doorkeeper, now: Time, origin: Origin) -> [u8; MAC] {
        let key = CookieKey::new(&[1; 32]);
        let mut entropy = Entropy::seeded(Seed::new(1), "cookie");
        let index = Index::from_random(5).unwrap();
        let mut reply = Vec::new();
        keeper.ask(now, origin, (index, &[9; MAC]), (&key, &mut entropy), &mut reply);
        let (nonce, sealed) = (reply[4..28].try_into().unwrap(), reply[28..].try_into().unwrap());
        assert!(key.open(&[8; MAC], &nonce, &sealed).is_err(), "of another initiation");
        assert!(CookieKey::new(&[2; 32]).open(&[9; MAC], &nonce, &sealed).is_err(), "of another robot");
        let cookie = key.open(&[9; MAC], &nonce, &sealed).unwrap();
        let mut initiation = [&SIGNED[..], &[0; MAC]].concat();
        cookie.prove(&mut initiation);
        initiation[SIGNED.len()..].try_into().unwrap()
    }

    /// Takes all that those have who show nothing.
    fn exhaust(keeper: &mut Doorkeeper, now: Time, origin: Origin) {
        while keeper.admit(now, origin, &SIGNED, &[0; MAC]) == Admission::Look {}
    }

    #[test]
    fn a_cookie_is_worth_something_at_its_address_for_two_minutes() {
        let mut keeper = Doorkeeper::new(&SecurityConfig::new());
        let (here, there) = (origin(1, 1), origin(1, 2));
        for _ in 0..BURST {
            assert_eq!(keeper.admit(at(0), here, &SIGNED, &[0; MAC]), Admission::Look);
        }
        assert_eq!(keeper.admit(at(0), here, &SIGNED, &[0; MAC]), Admission::Ask);
        let proof = proof(&mut keeper, at(0), here);
        assert_eq!(keeper.admit(at(0), here, &SIGNED, &proof), Admission::Look);
        assert_eq!(keeper.admit(at(0), there, &SIGNED, &proof), Admission::Ask, "another port");
        assert_eq!(keeper.admit(at(0), here, &[8; 32], &proof), Admission::Ask, "another initiation");
        exhaust(&mut keeper, at(119_999), there);
        assert_eq!(keeper.admit(at(119_999), here, &SIGNED, &proof), Admission::Look);
        exhaust(&mut keeper, at(120_000), there);
        assert_eq!(keeper.admit(at(120_000), here, &SIGNED, &proof), Admission::Ask);
    }

    #[test]
    fn a_loud_host_has_its_share_and_leaves_others_theirs() {
        let mut keeper = Doorkeeper::new(&SecurityConfig::new());
        let proof_of = |keeper: &mut Doorkeeper, origin| proof(keeper, at(0), origin);
        let loud = origin(1, 1);
        let proof = proof_of(&mut keeper, loud);
        let looks = |keeper: &mut Doorkeeper, origin, proof: &[u8; MAC]| {
            let admitted = (0..1_000).map(|ms| keeper.admit(at(ms), origin, &SIGNED, proof));
            admitted.filter(|admission| *admission == Admission::Look).count()
        };
        assert_eq!(looks(&mut keeper, loud, &proof), 29, "ten at once, and twenty in a second");
        let quiet = origin(2, 1);
        let proof = proof_of(&mut keeper, quiet);
        assert_eq!(keeper.admit(at(1_000), quiet, &SIGNED, &proof), Admission::Look);
    }

    #[test]
    fn hosts_are_counted_in_a_bounded_table_and_all_of_them_together() {
        let mut keeper = Doorkeeper::new(&SecurityConfig::new());
        let mut looked = 0;
        for round in 0..200_u16 {
            let one = origin((round % 200) as u8, round);
            let proof = proof(&mut keeper, at(0), one);
            looked += u32::from(keeper.admit(at(0), one, &SIGNED, &proof) == Admission::Look);
        }
        assert_eq!(looked, BURST as u32 * ALL);
        assert_eq!(keeper.hosts.len(), HOSTS);
    }
}
