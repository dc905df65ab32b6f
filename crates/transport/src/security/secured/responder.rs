//! What only the robot does: answer initiations, and decide whose keys are in use.

use std::collections::VecDeque;

use taut_core::{DropCause, Duration, Origin, PathId, Time, Transport};
use tracing::debug;

use super::{Phase, Role, Secured};
use crate::identity::{Fingerprint, Trust};
use crate::security::config::SecurityConfig;
use crate::security::cookie::{Admission, Doorkeeper};
use crate::security::header::{COOKIE_REPLY, Index, Initiation, MAC, Verdict, View};
use crate::security::noise::{Keys, Opened, Peer};
use crate::stranger::ShownKey;

/// Handshakes that were answered and wait for their first datagram.
const PENDING: usize = 4;
/// Addresses at which one handshake is answered, of which is known.
const ANSWERED: usize = 8;
/// Initiations that were looked into and are known again.
const SEEN: usize = 64;

pub(super) struct Responder<T> {
    pub(super) make: Box<dyn FnMut() -> T + Send>,
    trusted: Vec<Trusted>,
    pending: Vec<Pending>,
    /// Whose conversation it is.
    serving: Option<Serving>,
    /// The transport inside served a conversation.
    used: bool,
    /// Which initiations are looked into.
    doorkeeper: Doorkeeper,
    /// The MACs of the last ones, by which a copy is known without any arithmetic, and why it is refused.
    seen: VecDeque<([u8; MAC], DropCause)>,
    /// The last ones to which the robot was busy.
    turned_away: VecDeque<TurnedAway>,
}

struct Trusted {
    peer: Peer,
    /// The timestamp of its newest initiation.
    newest: Option<u64>,
}

/// An initiation from somebody who knows the robot's public key.
pub(super) struct Hello<'a> {
    pub(super) initiation: Initiation<'a>,
    /// It came under the keys in use.
    pub(super) sealed: bool,
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
    signed: Vec<u8>,
    response: Vec<u8>,
    /// Where the answer went: the last so many. Not paths: their numbers may be others' when the next datagram comes.
    answered: VecDeque<Origin>,
}

/// An initiation to which the robot was busy. Its answer may be lost: a copy of it is answered once more, and looked into anew when the robot is free by
/// then, which binds nobody before its sender has shown that it has the keys.
struct TurnedAway {
    serving: Serving,
    signed: Vec<u8>,
    response: Vec<u8>,
}

impl Pending {
    fn answers(&mut self, origin: Origin) {
        if !self.answered.contains(&origin) {
            if self.answered.len() == ANSWERED {
                self.answered.pop_front();
            }
            self.answered.push_back(origin);
        }
    }
}

impl<T> Responder<T> {
    pub(super) fn new(config: &SecurityConfig, trust: Trust, make: Box<dyn FnMut() -> T + Send>) -> Self {
        let trusted = trust
            .iter()
            .map(|peer| Trusted { peer: Peer::new(peer, config.service), newest: None })
            .collect();
        Self {
            make,
            trusted,
            pending: Vec::new(),
            serving: None,
            used: false,
            doorkeeper: Doorkeeper::new(config),
            seen: VecDeque::new(),
            turned_away: VecDeque::new(),
        }
    }

    pub(super) fn operator(&self) -> Option<Fingerprint> {
        self.serving.map(|serving| self.trusted[serving.operator].peer.fingerprint)
    }

    /// The conversation is over, and the transport inside a new one.
    pub(super) fn free(&mut self) {
        (self.serving, self.used) = (None, false);
    }

    /// Is the robot somebody else's, or the same operator's who speaks in another conversation? Nothing was heard for `silent`.
    fn is_busy(&self, asks: Serving, silent: Duration, config: &SecurityConfig) -> bool {
        self.serving.is_some_and(|serving| {
            let until =
                if serving.operator == asks.operator { config.returns_after() } else { config.silence };
            serving != asks && silent < until
        })
    }

    fn saw(&mut self, mac: [u8; MAC], copies: DropCause) {
        if self.seen.len() == SEEN {
            self.seen.pop_front();
        }
        self.seen.push_back((mac, copies));
    }

    fn turn_away(&mut self, other: TurnedAway) {
        if self.turned_away.len() == PENDING {
            self.turned_away.pop_front();
        }
        self.turned_away.push_back(other);
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
    fn silent(&self, now: Time) -> Duration {
        now.saturating_since(self.heard)
    }

    /// One that came under the keys in use.
    pub(super) fn handle_sealed_initiation(
        &mut self,
        now: Time,
        path: PathId,
        initiation: &[u8],
    ) -> Result<(), DropCause> {
        let View::Initiation(initiation) = View::parse(initiation)? else {
            return Err(DropCause::Malformed);
        };
        self.handle_initiation(now, path, Hello { initiation, sealed: true })
    }

    pub(super) fn handle_initiation(
        &mut self,
        now: Time,
        path: PathId,
        hello: Hello<'_>,
    ) -> Result<(), DropCause> {
        let (silent, origin) = (self.silent(now), self.origins.of(path));
        let Role::Responder(responder) = &mut self.role else { return Err(DropCause::Malformed) };
        if matches!(self.phase, Phase::Closing(_)) {
            return Err(DropCause::Unauthenticated);
        }
        let Initiation { sender, noise, mac, signed, .. } = hello.initiation;
        if let Some(pending) = responder.pending.iter_mut().find(|pending| pending.signed == signed) {
            let response = pending.response.clone();
            pending.answers(origin);
            self.post(path, response);
            return Ok(());
        }
        let turned_away = responder.turned_away.iter().find(|other| other.signed == signed);
        let again = turned_away.is_some();
        let busy = turned_away.filter(|other| responder.is_busy(other.serving, silent, &self.config));
        let still_busy = busy.map(|other| other.response.clone());
        if !again && let Some((_, cause)) = responder.seen.iter().find(|(seen, _)| *seen == mac) {
            return Err(*cause);
        }
        // Whoever floods the robot with others does not keep the operator that it serves from new keys.
        if !hello.sealed {
            self.admit(now, path, origin, &hello.initiation)?;
        }
        if let Some(response) = still_busy {
            self.post(path, response);
            return Err(DropCause::Replayed);
        }
        let Role::Responder(responder) = &mut self.role else { unreachable!("the role does not change") };
        let looked = self.local.read(sender, noise).and_then(|request| {
            let operator = responder.trusted.iter().position(|trusted| trusted.peer.x25519 == request.peer);
            let Some(operator) = operator else {
                debug!(path = path.0, "the peer is not trusted");
                self.stranger.on(path, Some(ShownKey::X25519(request.peer)));
                return Err(DropCause::Unauthenticated);
            };
            let newest = responder.trusted[operator].newest;
            let timestamp = request.offer.timestamp;
            let late = newest.is_some_and(|newest| timestamp < newest || timestamp == newest && !again);
            if late { Err(DropCause::Replayed) } else { Ok((request, operator)) }
        });
        responder.saw(mac, looked.as_ref().err().copied().unwrap_or(DropCause::Replayed));
        responder.turned_away.retain(|other| other.signed != signed);
        let (request, operator) = looked?;
        let trusted = &mut responder.trusted[operator];
        trusted.newest = Some(request.offer.timestamp);
        let peer = trusted.peer.clone();
        let serving = Serving { operator, conversation: request.offer.conversation };
        let busy = responder.is_busy(serving, silent, &self.config);
        let known = responder.serving == Some(serving)
            || responder.pending.iter().any(|pending| pending.serving == serving);
        let verdict = match known {
            _ if busy => Verdict::Busy,
            true => Verdict::Continued,
            false => Verdict::Begun,
        };
        let mut response = Vec::new();
        let keys = self.local.respond(now, request, &peer, verdict, &mut response);
        let (signed, copy) = (signed.to_vec(), response.clone());
        if busy {
            responder.turn_away(TurnedAway { serving, signed, response: copy });
        } else {
            let answered = VecDeque::from([origin]);
            responder.keep(Pending { serving, keys, signed, response: copy, answered });
        }
        debug!(path = path.0, ?verdict, peer = %peer.fingerprint, "handshake answered");
        self.post(path, response);
        if busy {
            self.stats.busy += 1;
            return Err(DropCause::Unauthenticated);
        }
        Ok(())
    }

    /// Somebody may have taken this end for what it is not: it is told so.
    pub(super) fn refuse_other_service(&mut self, path: PathId, initiation: &Initiation<'_>) {
        let mut answer = Vec::new();
        if matches!(self.role, Role::Responder(_)) && self.local.refuse_other_service(initiation, &mut answer)
        {
            self.stats.other_service += 1;
            self.post(path, answer);
        }
    }

    /// Is this initiation looked into? If not, its sender may be asked whether it is at its address.
    fn admit(
        &mut self,
        now: Time,
        path: PathId,
        origin: Origin,
        initiation: &Initiation<'_>,
    ) -> Result<(), DropCause> {
        let Role::Responder(responder) = &mut self.role else { return Err(DropCause::Malformed) };
        let keeper = &mut responder.doorkeeper;
        let admission = keeper.admit(now, origin, initiation.signed, &initiation.proof);
        if admission == Admission::Look {
            return Ok(());
        }
        self.stats.limited += 1;
        if admission == Admission::Ask {
            let (to, seal) =
                ((initiation.sender, &initiation.mac), (&self.local.cookies, &mut self.local.entropy));
            let mut question = Vec::with_capacity(COOKIE_REPLY);
            keeper.ask(now, origin, to, seal, &mut question);
            debug!(path = path.0, "asks whether it is where it says");
            self.stats.challenged += 1;
            self.post(path, question);
        }
        Err(DropCause::Unauthenticated)
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
        let (silent, origin) = (self.silent(now), self.origins.of(path));
        let Role::Responder(responder) = &mut self.role else { return Err(DropCause::Unauthenticated) };
        // Who was answered and said nothing for as long as an operator tries is gone.
        responder.pending.retain(|pending| now.saturating_since(pending.keys.born) <= self.config.give_up);
        let pending = responder.pending.iter().position(|pending| pending.keys.local == key);
        let place = pending.ok_or(DropCause::Unauthenticated)?;
        let continues = responder.serving == Some(responder.pending[place].serving);
        // Of several paths: who was answered elsewhere has not been shown to be here.
        let shown =
            responder.pending[place].answered.contains(&origin) || (continues && self.paths.contains(path));
        if self.config.multipath && !shown {
            return Err(DropCause::Unauthenticated);
        }
        let (opened, _) = responder.pending[place].keys.open(nonce, sealed, plain)?;
        let Pending { serving, keys, answered, .. } = responder.pending.remove(place);
        if matches!(self.phase, Phase::Closing(_)) {
            return Err(DropCause::Unauthenticated);
        }
        // Two may have been answered before one of them spoke.
        if responder.is_busy(serving, silent, &self.config) {
            self.stats.busy += 1;
            return Err(DropCause::Unauthenticated);
        }
        if responder.used && !continues {
            self.end(false);
        }
        let Role::Responder(responder) = &mut self.role else { unreachable!("the role does not change") };
        (responder.serving, responder.used) = (Some(serving), true);
        debug!(path = path.0, continues, "keys in use");
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
            self.heard_on(now, path, true, opened);
        } else {
            self.phase = Phase::Open;
            self.settle_down(now, path, &answered);
        }
        Ok(opened)
    }

    /// A new operator is where the handshake was answered, if that was in one place and the first datagram came from there.
    /// Otherwise somebody may have forwarded the one or the other: it is asked.
    fn settle_down(&mut self, now: Time, path: PathId, answered: &VecDeque<Origin>) {
        let known = answered.contains(&self.origins.of(path));
        // The number of one may be another address's by now.
        let mut places: Vec<PathId> =
            answered.iter().filter_map(|origin| self.origins.path(origin.address())).collect();
        self.path = if known || self.is_multipath() { path } else { *places.first().unwrap_or(&path) };
        if !self.is_multipath() && (!known || answered.len() > 1) {
            places.extend(Some(path).filter(|_| !known));
            places.into_iter().for_each(|path| self.ask_on(now, path));
        }
    }
}
