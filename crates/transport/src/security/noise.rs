//! Noise IK (*The Noise Protocol Framework*, revision 34) by `snow`: one round trip, both static keys, fresh keys each time.

use blake2::digest::{KeyInit, Mac};
use blake2::{Blake2s256, Blake2sMac, Digest};
use snow::params::NoiseParams;
use snow::resolvers::BoxedCryptoResolver;
use snow::{HandshakeState, StatelessTransportState};
use taut_core::{DropCause, Sighting, Time, nearest};
use zeroize::Zeroizing;

use super::cookie::CookieKey;
use super::header::{
    Answer, CONTROL, Control, DATA_HEADER, INITIATION, INITIATION_PAYLOAD, Index, Initiation, MAC,
    NOISE_INITIATION, NOISE_RESPONSE, Offer, RESPONSE, RESPONSE_PAYLOAD, TAG, emit_data, emit_initiation,
    emit_response,
};
use super::primitives::Primitives;
use crate::entropy::Entropy;
use crate::identity::{Fingerprint, Identity};
use crate::service::Service;
use crate::window::Window;

const PATTERN: &str = "Noise_IK_25519_ChaChaPoly_BLAKE2s";
const MAC_LABEL: &[u8] = b"taut 2 mac ";
/// How many times 65536 messages of a stream in a row may never enter it.
const GAPS: u64 = 64;

/// What the keys seal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sealing {
    Datagrams,
    Stream,
}

/// What the keys are for. It enters the handshake's hash, so that a handshake of one kind cannot serve another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Purpose(pub(crate) Sealing, pub(crate) Service);

impl Purpose {
    const fn prologue(self) -> &'static [u8] {
        match self {
            Self(Sealing::Datagrams, Service::Session) => b"taut 2 session datagrams",
            Self(Sealing::Stream, Service::Session) => b"taut 2 session stream",
            Self(Sealing::Datagrams, Service::Proxy) => b"taut 2 proxy datagrams",
            Self(Sealing::Stream, Service::Proxy) => b"taut 2 proxy stream",
        }
    }
}

/// Our end of every handshake.
pub(crate) struct Local {
    secret: Zeroizing<[u8; 32]>,
    mac: MacKey,
    /// Of those who take this end for what it is not.
    mac_of_other_service: MacKey,
    pub(crate) cookies: CookieKey,
    purpose: Purpose,
    pub(crate) entropy: Entropy,
}

/// The other end: what an initiator must know, and a responder learns.
#[derive(Clone)]
pub(crate) struct Peer {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) x25519: [u8; 32],
    mac: MacKey,
    pub(crate) cookies: CookieKey,
}

/// Proves, for half a microsecond of work, that the sender of a handshake message knows the receiver's public key: what
/// strangers send is refused before any arithmetic on curves (as *mac1* of WireGuard, section 5.4.4).
#[derive(Clone)]
struct MacKey([u8; 32]);

/// A handshake that waits for its response.
pub(crate) struct Attempt {
    state: HandshakeState,
    pub(crate) index: Index,
    /// By which answers that are none name the initiation.
    pub(crate) mac: [u8; MAC],
}

/// An initiation that was understood, from a peer whom the caller has yet to trust.
pub(crate) struct Request {
    state: HandshakeState,
    sender: Index,
    pub(crate) peer: [u8; 32],
    pub(crate) offer: Offer,
}

/// The keys of one handshake, both directions.
pub(crate) struct Keys {
    noise: StatelessTransportState,
    pub(crate) local: Index,
    remote: Index,
    next: u64,
    window: Window,
    pub(crate) born: Time,
}

/// What was inside an authentic datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opened {
    /// A datagram of the transport inside.
    Inner,
    /// A word of the security layer.
    Control(Control),
}

impl Local {
    pub(crate) fn new(identity: &Identity, purpose: Purpose, entropy: Entropy) -> Self {
        let x25519 = identity.fingerprint().x25519();
        let Purpose(_, service) = purpose;
        Self {
            secret: identity.x25519_secret(),
            mac: MacKey::new(&x25519, service),
            mac_of_other_service: MacKey::new(&x25519, service.other()),
            cookies: CookieKey::new(&x25519),
            purpose,
            entropy,
        }
    }

    pub(crate) fn random(&mut self) -> u64 {
        self.entropy.next_u64()
    }

    fn index(&mut self) -> Index {
        loop {
            if let Some(index) = Index::from_random(self.entropy.next_u64()) {
                return index;
            }
        }
    }

    fn builder(&mut self) -> snow::Builder<'_> {
        let params: NoiseParams = PATTERN.parse().expect("a pattern that exists");
        let resolver: BoxedCryptoResolver = Box::new(Primitives { ephemeral: self.entropy.key() });
        snow::Builder::with_resolver(params, resolver)
            .local_private_key(&self.secret[..])
            .and_then(|builder| builder.prologue(self.purpose.prologue()))
            .expect("each is set once")
    }

    /// The first message to `peer`, appended to `out`.
    pub(crate) fn initiate(&mut self, peer: &Peer, offer: Offer, out: &mut Vec<u8>) -> Attempt {
        let (index, start) = (self.index(), out.len());
        let builder = self.builder().remote_public_key(&peer.x25519).expect("set once");
        let mut state = builder.build_initiator().expect("all that IK needs is there");
        emit_initiation(index, out);
        let mut noise = [0; NOISE_INITIATION];
        state.write_message(&offer.emit(), &mut noise).expect("the buffer is as long as the message");
        out.extend(noise);
        let mac = peer.mac.over(&out[start..]);
        out.extend(mac);
        out.extend([0; MAC]);
        debug_assert_eq!(out.len() - start, INITIATION);
        Attempt { state, index, mac }
    }

    /// Is this MAC at the end of a handshake message for us?
    ///
    /// # Errors
    /// [`DropCause::Unauthenticated`]
    pub(crate) fn check_mac(&self, authenticated: &[u8], mac: &[u8; MAC]) -> Result<(), DropCause> {
        self.mac.matches(authenticated, mac).then_some(()).ok_or(DropCause::Unauthenticated)
    }

    /// Does it come from somebody who takes a robot for a proxy, or the other way round? Then what to answer, appended to `out`.
    pub(crate) fn refuse_other_service(&mut self, initiation: &Initiation<'_>, out: &mut Vec<u8>) -> bool {
        let known = self.mac_of_other_service.matches(initiation.authenticated, &initiation.mac);
        if known {
            self.cookies.refuse(initiation.sender, &initiation.mac, &mut self.entropy, out);
        }
        known
    }

    /// Understands an initiation.
    ///
    /// # Errors
    /// [`DropCause::Unauthenticated`]
    pub(crate) fn read(&mut self, sender: Index, noise: &[u8]) -> Result<Request, DropCause> {
        let mut state = self.builder().build_responder().expect("all that IK needs is there");
        let mut payload = [0; INITIATION_PAYLOAD + TAG];
        let len = state.read_message(noise, &mut payload).map_err(|_| DropCause::Unauthenticated)?;
        let payload = payload[..len].try_into().map_err(|_| DropCause::Malformed)?;
        let peer = state.get_remote_static().and_then(|key| key.try_into().ok());
        let peer = peer.ok_or(DropCause::Unauthenticated)?;
        Ok(Request { state, sender, peer, offer: Offer::parse(payload) })
    }

    /// The second message, appended to `out`, and the keys.
    pub(crate) fn respond(
        &mut self,
        now: Time,
        mut request: Request,
        peer: &Peer,
        verdict: super::header::Verdict,
        out: &mut Vec<u8>,
    ) -> Keys {
        let (local, start) = (self.index(), out.len());
        emit_response(request.sender, out);
        let mut noise = [0; NOISE_RESPONSE];
        let answer = Answer { verdict, index: local }.emit();
        request.state.write_message(&answer, &mut noise).expect("the buffer is as long as the message");
        out.extend(noise);
        out.extend(peer.mac.over(&out[start..]));
        debug_assert_eq!(out.len() - start, RESPONSE);
        Keys::new(now, request.state, local, request.sender)
    }
}

impl Attempt {
    /// Takes the second message. What is not authentic leaves the attempt as it was.
    ///
    /// # Errors
    /// [`DropCause::Unauthenticated`], and [`DropCause::Malformed`] for an answer that is authentic and unknown.
    pub(crate) fn complete(&mut self, noise: &[u8]) -> Result<Answer, DropCause> {
        let mut payload = [0; RESPONSE_PAYLOAD + TAG];
        let len = self.state.read_message(noise, &mut payload).map_err(|_| DropCause::Unauthenticated)?;
        Answer::parse(payload[..len].try_into().map_err(|_| DropCause::Malformed)?)
    }

    /// The keys, after [`Self::complete`].
    pub(crate) fn into_keys(self, now: Time, remote: Index) -> Keys {
        Keys::new(now, self.state, self.index, remote)
    }
}

impl Keys {
    fn new(born: Time, state: HandshakeState, local: Index, remote: Index) -> Self {
        let noise = state.into_stateless_transport_mode().expect("the handshake has both messages");
        Self { noise, local, remote, next: 0, window: Window::new(), born }
    }

    /// How many were sealed.
    pub(crate) fn sealed(&self) -> u64 {
        self.next
    }

    /// The header and `plain`, sealed, appended to `out`.
    pub(crate) fn seal(&mut self, plain: &[u8], out: &mut Vec<u8>) {
        self.seal_as(0, plain, out);
    }

    /// The same for a word of our own.
    pub(crate) fn seal_control(&mut self, control: Control, out: &mut Vec<u8>) {
        let (plain, len) = control.emit();
        self.seal_as(CONTROL, &plain[..len], out);
    }

    /// The same for an initiation that asks for the next keys.
    pub(crate) fn seal_initiation(&mut self, initiation: &[u8], out: &mut Vec<u8>) {
        let (kind, len) = Control::Initiation.emit();
        self.seal_as(CONTROL, &[&kind[..len], initiation].concat(), out);
    }

    fn seal_as(&mut self, kind: u64, plain: &[u8], out: &mut Vec<u8>) {
        let nonce = kind | self.next;
        emit_data(self.remote, nonce, out);
        self.seal_bare(kind, plain, out);
    }

    /// The ciphertext alone, appended to `out`; returns the counter that it was sealed with.
    pub(crate) fn seal_bare(&mut self, kind: u64, plain: &[u8], out: &mut Vec<u8>) -> u64 {
        let (counter, start) = (self.next, out.len());
        out.resize(start + plain.len() + TAG, 0);
        let written = self.noise.write_message(kind | counter, plain, &mut out[start..]);
        assert_eq!(written.ok(), Some(plain.len() + TAG), "longer than a datagram, or 2^63 were sealed");
        self.next += 1;
        counter
    }

    /// The last that was sealed never left and is forgotten: its counter is the next one's again, for gaps in the numbers
    /// look as long to the peer as what overtakes.
    pub(crate) fn take_back(&mut self) {
        self.next -= 1;
    }

    /// Opens `sealed` into `out`, which is overwritten. Tells what it is, and whether it is the newest so far.
    ///
    /// # Errors
    /// [`DropCause::Replayed`] and [`DropCause::Unauthenticated`]; nothing has changed then.
    pub(crate) fn open(
        &mut self,
        nonce: u64,
        sealed: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(Opened, bool), DropCause> {
        self.decrypt(nonce, sealed, out)?;
        let newest = self.window.record(nonce & !CONTROL) == Sighting::Newest;
        Ok((opened(nonce, out)?, newest))
    }

    /// The same, without taking it: it can be opened once more.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(crate) fn peek(&self, nonce: u64, sealed: &[u8], out: &mut Vec<u8>) -> Result<Opened, DropCause> {
        self.decrypt(nonce, sealed, out)?;
        opened(nonce, out)
    }

    fn decrypt(&self, nonce: u64, sealed: &[u8], out: &mut Vec<u8>) -> Result<(), DropCause> {
        // Before the arithmetic: a replayed datagram costs a look at a bitmap.
        if !self.window.is_new(nonce & !CONTROL) {
            return Err(DropCause::Replayed);
        }
        out.resize(sealed.len(), 0);
        let len = self.noise.read_message(nonce, sealed, out).map_err(|_| DropCause::Unauthenticated)?;
        out.truncate(len);
        Ok(())
    }

    /// [Opens](Self::open) a message of a stream, of whose counter these are the low 16 bits: the one nearest to what is expected
    /// next, or where `after_gaps` one further on, for those between may never have entered the stream.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(crate) fn open_next(
        &mut self,
        low: u16,
        after_gaps: bool,
        sealed: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(Opened, bool), DropCause> {
        let nearest = nearest(self.window.next(), low.into(), 16).unwrap_or(low.into());
        let opened = self.open(nearest, sealed, out);
        opened.or_else(|cause| {
            let gaps = if after_gaps { GAPS } else { 0 };
            let mut further = (1..=gaps).map(|gaps| nearest + (gaps << 16));
            further.find_map(|counter| self.open(counter, sealed, out).ok()).ok_or(cause)
        })
    }
}

fn opened(nonce: u64, plain: &[u8]) -> Result<Opened, DropCause> {
    Ok(if nonce & CONTROL == 0 { Opened::Inner } else { Opened::Control(Control::parse(plain)?) })
}

impl Peer {
    pub(crate) fn new(fingerprint: Fingerprint, service: Service) -> Self {
        let x25519 = fingerprint.x25519();
        Self { fingerprint, x25519, mac: MacKey::new(&x25519, service), cookies: CookieKey::new(&x25519) }
    }
}

impl MacKey {
    fn new(x25519: &[u8; 32], service: Service) -> Self {
        let hash = Blake2s256::new().chain_update(MAC_LABEL).chain_update(service.name());
        Self(hash.chain_update(x25519).finalize().into())
    }

    fn mac(&self, bytes: &[u8]) -> Blake2sMac<blake2::digest::consts::U16> {
        let mac =
            <Blake2sMac<_> as KeyInit>::new_from_slice(&self.0).expect("BLAKE2s takes keys of 32 bytes");
        Mac::chain_update(mac, bytes)
    }

    fn over(&self, bytes: &[u8]) -> [u8; MAC] {
        self.mac(bytes).finalize().into_bytes().into()
    }

    /// In constant time.
    fn matches(&self, bytes: &[u8], mac: &[u8; MAC]) -> bool {
        self.mac(bytes).verify_slice(mac).is_ok()
    }
}

/// The bytes around the plaintext of a data datagram.
pub(crate) const OVERHEAD: usize = DATA_HEADER + TAG;
