//! What only the robot does: answer initiations, and decide whose keys are in use.

use std::collections::VecDeque;

use taut_core::{Datagram, DropCause, Duration, PathId, Time, Transport};

use super::{Phase, Role, Secured};
use crate::identity::{Fingerprint, Trust};
use crate::security::config::SecurityConfig;
use crate::security::header::{Index, MAC, Verdict};
use crate::security::noise::{Keys, Opened, Peer};

/// Handshakes that were answered and wait for their first datagram.
const PENDING: usize = 4;
/// Paths on which one handshake is answered, of which is known.
const ANSWERED: usize = 8;
/// Initiations that may come at once.
const BURST: u64 = 10;

pub(super) struct Responder<T> {
    pub(super) make: Box<dyn FnMut() -> T + Send>,
    trusted: Vec<Trusted>,
    pending: Vec<Pending>,
    /// Whose conversation it is.
    serving: Option<Serving>,
    /// The transport inside served a conversation.
    used: bool,
    /// When the initiations that were looked into are paid off.
    paid: Time,
}

struct Trusted {
    peer: Peer,
    /// Its newest initiation: the timestamp, and the MAC, by which a copy is known without any arithmetic.
    newest: Option<(u64, [u8; MAC])>,
}

/// The place of an operator in `trusted`, and what it called the conversation.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Serving {
    operator: usize,
    conversation: u64,
}

struct Pending {
    serving: Serving,
    keys: Keys,
    /// The very bytes that were answered, and the answer: copies of the one get copies of the other.
    initiation: Vec<u8>,
    response: Vec<u8>,
    /// Where the answer went: the last so many.
    answered: VecDeque<PathId>,
}

impl Pending {
    fn answers(&mut self, path: PathId) {
        if !self.answered.contains(&path) {
            if self.answered.len() == ANSWERED {
                self.answered.pop_front();
            }
            self.answered.push_back(path);
        }
    }
}

impl<T> Responder<T> {
    pub(super) fn new(trust: Trust, make: Box<dyn FnMut() -> T + Send>) -> Self {
        let trusted = trust.iter().map(|peer| Trusted { peer: Peer::new(peer), newest: None }).collect();
        Self { make, trusted, pending: Vec::new(), serving: None, used: false, paid: Time::ZERO }
    }

    pub(super) fn operator(&self) -> Option<Fingerprint> {
        self.serving.map(|serving| self.trusted[serving.operator].peer.fingerprint)
    }

    /// The conversation is over, and the transport inside a new one.
    pub(super) fn free(&mut self) {
        (self.serving, self.used) = (None, false);
    }

    /// The number of a path is another address's now.
    pub(super) fn forget_path(&mut self, path: PathId) {
        for pending in &mut self.pending {
            pending.answered.retain(|answered| *answered != path);
        }
    }

    /// Is there somebody else who speaks?
    fn is_busy(&self, operator: usize, silent: bool) -> bool {
        self.serving.is_some_and(|serving| serving.operator != operator && !silent)
    }

    /// May another initiation be looked into? A leaky bucket.
    fn may_look(&mut self, now: Time, config: &SecurityConfig) -> bool {
        let cost = Duration::from_secs(1) / u64::from(config.handshakes_per_second);
        let paid = self.paid.max(now) + cost;
        let may = paid <= now + cost * BURST;
        if may {
            self.paid = paid;
        }
        may
    }

    fn keep(&mut self, pending: Pending) {
        self.pending.retain(|other| other.serving.operator != pending.serving.operator);
        if self.pending.len() == PENDING {
            self.pending.remove(0);
        }
        self.pending.push(pending);
    }
}

impl<T: Transport> Secured<T> {
    fn is_silent(&self, now: Time) -> bool {
        now.saturating_since(self.heard) >= self.config.silence
    }

    pub(super) fn handle_initiation(
        &mut self,
        now: Time,
        input: &Datagram<'_>,
        sender: Index,
        noise: &[u8],
        mac: [u8; MAC],
    ) -> Result<(), DropCause> {
        let silent = self.is_silent(now);
        let Role::Responder(responder) = &mut self.role else { return Err(DropCause::Malformed) };
        if matches!(self.phase, Phase::Closing(_)) {
            return Err(DropCause::Unauthenticated);
        }
        if let Some(pending) = responder.pending.iter_mut().find(|pending| pending.initiation == input.data) {
            let response = pending.response.clone();
            pending.answers(input.path);
            self.post(input.path, response);
            return Ok(());
        }
        if responder.trusted.iter().any(|trusted| trusted.newest.is_some_and(|(_, newest)| newest == mac)) {
            return Err(DropCause::Replayed);
        }
        if !responder.may_look(now, &self.config) {
            self.stats.limited += 1;
            return Err(DropCause::Unauthenticated);
        }
        let request = self.local.read(sender, noise)?;
        let operator = responder.trusted.iter().position(|trusted| trusted.peer.x25519 == request.peer);
        let operator = operator.ok_or(DropCause::Unauthenticated)?;
        let trusted = &mut responder.trusted[operator];
        if trusted.newest.is_some_and(|(newest, _)| request.offer.timestamp <= newest) {
            return Err(DropCause::Replayed);
        }
        trusted.newest = Some((request.offer.timestamp, mac));
        let peer = trusted.peer.clone();
        let serving = Serving { operator, conversation: request.offer.conversation };
        let busy = responder.is_busy(operator, silent);
        let known = responder.serving == Some(serving)
            || responder.pending.iter().any(|pending| pending.serving == serving);
        let verdict = match known {
            _ if busy => Verdict::Busy,
            true => Verdict::Continued,
            false => Verdict::Begun,
        };
        let mut response = Vec::new();
        let keys = self.local.respond(now, request, &peer, verdict, &mut response);
        if !busy {
            let (initiation, response) = (input.data.to_vec(), response.clone());
            let answered = VecDeque::from([input.path]);
            responder.keep(Pending { serving, keys, initiation, response, answered });
        }
        self.post(input.path, response);
        if busy {
            self.stats.busy += 1;
            return Err(DropCause::Unauthenticated);
        }
        Ok(())
    }

    /// The first authentic datagram under keys that were answered puts them in use.
    pub(super) fn take_over(
        &mut self,
        now: Time,
        path: PathId,
        key: Index,
        nonce: u64,
        sealed: &[u8],
        plain: &mut Vec<u8>,
    ) -> Result<Opened, DropCause> {
        let silent = self.is_silent(now);
        let Role::Responder(responder) = &mut self.role else { return Err(DropCause::Unauthenticated) };
        let pending = responder.pending.iter().position(|pending| pending.keys.local == key);
        let place = pending.ok_or(DropCause::Unauthenticated)?;
        let continues = responder.serving == Some(responder.pending[place].serving);
        // Of several paths: who was answered elsewhere has not been shown to be here.
        let shown =
            responder.pending[place].answered.contains(&path) || (continues && self.paths.contains(path));
        if self.config.multipath && !shown {
            return Err(DropCause::Unauthenticated);
        }
        let (opened, _) = responder.pending[place].keys.open(nonce, sealed, plain)?;
        let Pending { serving, keys, .. } = responder.pending.remove(place);
        if matches!(self.phase, Phase::Closing(_)) {
            return Err(DropCause::Unauthenticated);
        }
        // Two may have been answered before one of them spoke.
        if responder.is_busy(serving.operator, silent) {
            self.stats.busy += 1;
            return Err(DropCause::Unauthenticated);
        }
        if responder.used && !continues {
            self.end(false);
        }
        let Role::Responder(responder) = &mut self.role else { unreachable!("the role does not change") };
        (responder.serving, responder.used) = (Some(serving), true);
        self.stats.handshakes += 1;
        self.stats.rekeys += u64::from(continues);
        self.keys.replace(keys);
        self.keys.confirmed = true;
        if self.is_multipath() {
            if !continues {
                self.paths.clear();
            }
            self.paths.bind(now, path);
        }
        if continues {
            self.heard_on(now, path, true);
        } else {
            (self.phase, self.path) = (Phase::Open, path);
        }
        Ok(opened)
    }
}
