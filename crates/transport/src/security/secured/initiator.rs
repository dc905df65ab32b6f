//! What only the operator does: begin handshakes, repeat them, ping, ask for new keys.

use taut_core::{Deadline, DropCause, Duration, PathId, Time, Transport, earliest};
use tracing::debug;

use super::{Phase, Role, Secured};
use crate::security::config::SecurityConfig;
use crate::security::cookie::Given;
use crate::security::header::{Control, Index, NONCE, Offer, SEALED_COOKIE, TAG, Verdict};
use crate::security::noise::{Attempt, OVERHEAD, Opened, Peer};

pub(super) struct Initiator {
    pub(super) peer: Peer,
    conversation: u64,
    /// The conversation was open once.
    begun: bool,
    /// The robot said last that another one has it.
    pub(super) turned_away: bool,
    /// The greatest timestamp that was sent.
    timestamp: u64,
    trial: Option<Trial>,
    /// What the robot gave out to this end, and on which path.
    cookie: Option<(PathId, Given)>,
    /// Not before: the robot was busy.
    not_before: Time,
    /// When something was sealed last, and when a ping was.
    sent: Time,
    pinged: Time,
}

/// A handshake under way. Its bytes are repeated as they are: the robot answers any of the copies, and an answer to
/// the first one is of use however late it comes.
struct Trial {
    attempt: Box<Attempt>,
    bytes: Vec<u8>,
    since: Time,
    again: Time,
    wait: Duration,
    /// It was repeated with a cookie, and not by its time since.
    shown: bool,
}

impl Initiator {
    pub(super) fn new(peer: Peer, conversation: u64) -> Self {
        Self {
            peer,
            conversation,
            begun: false,
            turned_away: false,
            timestamp: 0,
            trial: None,
            cookie: None,
            not_before: Time::ZERO,
            sent: Time::ZERO,
            pinged: Time::ZERO,
        }
    }

    fn next_timestamp(&mut self, now: Time, config: &SecurityConfig) -> u64 {
        self.timestamp = config.epoch.saturating_add(now.as_nanos()).max(self.timestamp + 1);
        self.timestamp
    }
}

impl<T: Transport> Secured<T> {
    pub(super) fn handle_response(
        &mut self,
        now: Time,
        path: PathId,
        receiver: Index,
        noise: &[u8],
    ) -> Result<(), DropCause> {
        let stranger = DropCause::Unauthenticated;
        if self.is_multipath() && !self.paths.contains(path) {
            return Err(stranger);
        }
        let Role::Initiator(initiator) = &mut self.role else { return Err(DropCause::Malformed) };
        let trial =
            initiator.trial.as_mut().filter(|trial| trial.attempt.index == receiver).ok_or(stranger)?;
        let answer = trial.attempt.complete(noise)?;
        let trial = initiator.trial.take().expect("it was there");
        debug!(path = path.0, verdict = ?answer.verdict, "handshake answered");
        let lost = initiator.begun && answer.verdict != Verdict::Continued;
        initiator.turned_away = answer.verdict == Verdict::Busy;
        if initiator.turned_away {
            self.stats.busy += 1;
            initiator.not_before = now + self.config.silence;
        }
        if lost {
            // The robot began anew or took another operator: what the transport inside remembers is of no use.
            self.end(false);
        } else if !initiator.turned_away {
            self.stats.handshakes += 1;
            self.stats.rekeys += u64::from(initiator.begun);
            initiator.begun = true;
            (initiator.sent, initiator.pinged, self.heard) = (now, now, now);
            self.keys.replace(trial.attempt.into_keys(now, answer.index));
            if self.phase == Phase::Waiting {
                self.phase = Phase::Open;
            }
            self.heard_on(now, path, true, Opened::Inner);
            // The robot uses the keys when it has seen them used.
            self.post_control(Control::Ping);
        }
        Ok(())
    }

    pub(super) fn initiator_timeout(&mut self, now: Time) {
        let Role::Initiator(initiator) = &mut self.role else { return };
        if self.phase == Phase::Closed {
            return;
        }
        if let Some(trial) = &mut initiator.trial {
            if now >= trial.since + self.config.give_up {
                if self.keys.current.is_none() || self.heard <= trial.since {
                    debug!(since = %trial.since, "no answer: given up");
                    return self.end(true);
                }
                // The keys work: no others can be had for now, and that is no reason to leave the robot.
                self.begin(now, self.heard);
            } else if now >= trial.again {
                debug!(path = self.path.0, waited = %trial.wait, "handshake is repeated");
                trial.again = now + trial.wait;
                trial.wait = SecurityConfig::next_wait(trial.wait);
                trial.shown = false;
                let bytes = trial.bytes.clone();
                // Of several paths the one that was tried first may be dead.
                self.path = self.paths.after(self.path).unwrap_or(self.path);
                self.ask_for_keys(now, bytes);
            }
        } else if self.begin_at().is_some_and(|(at, _)| now >= at) {
            self.begin(now, now);
        }
        if self.ping_at().is_some_and(|at| now >= at) {
            let Role::Initiator(initiator) = &mut self.role else { return };
            (initiator.pinged, initiator.sent) = (now, now);
            self.post_control(Control::Ping);
        }
    }

    /// There is a path where there was none: what is to be repeated need not wait.
    pub(super) fn initiator_hurries(&mut self, now: Time) {
        if let Role::Initiator(Initiator { trial: Some(trial), .. }) = &mut self.role {
            (trial.again, trial.wait) = (now, self.config.retransmit);
        }
    }

    /// Something was sealed.
    pub(super) fn initiator_sent(&mut self, now: Time) {
        let Role::Initiator(initiator) = &mut self.role else { return };
        initiator.sent = now;
        let used_up =
            self.keys.current.as_ref().is_some_and(|keys| keys.sealed() >= self.config.rekey_messages);
        if used_up && initiator.trial.is_none() {
            self.begin(now, now);
        }
    }

    pub(super) fn initiator_deadline(&self) -> Option<Deadline> {
        let Role::Initiator(initiator) = &self.role else { return None };
        if self.phase == Phase::Closed {
            return None;
        }
        let handshake = match &initiator.trial {
            Some(trial) => {
                let give_up = trial.since + self.config.give_up;
                Some(Deadline::new(trial.again.min(give_up), "handshake"))
            }
            None => self.begin_at().map(|(at, why)| Deadline::new(at, why)),
        };
        earliest(handshake, self.ping_at().map(|at| Deadline::new(at, "ping")))
    }

    /// When the next handshake begins, and why.
    fn begin_at(&self) -> Option<(Time, &'static str)> {
        let Role::Initiator(initiator) = &self.role else { return None };
        let Some(keys) = &self.keys.current else { return Some((initiator.not_before, "handshake")) };
        let (old, silent) = (keys.born + self.config.rekey_after, self.heard + self.config.silence);
        Some(if old < silent { (old, "rekey") } else { (silent, "silence") })
    }

    /// When to ping: nothing was said for a while, or nothing was heard.
    fn ping_at(&self) -> Option<Time> {
        let Role::Initiator(initiator) = &self.role else { return None };
        self.keys.current.as_ref()?;
        let every = if self.keys.confirmed { self.config.keepalive() } else { self.config.retransmit };
        Some((initiator.sent + self.config.keepalive()).min(self.heard.max(initiator.pinged) + every))
    }

    /// Begins a handshake; an answer has been missing since then.
    fn begin(&mut self, now: Time, since: Time) {
        let Role::Initiator(initiator) = &mut self.role else { return };
        debug!(path = self.path.0, rekey = initiator.begun, "handshake begins");
        let timestamp = initiator.next_timestamp(now, &self.config);
        let offer = Offer { timestamp, conversation: initiator.conversation };
        let mut bytes = Vec::new();
        let attempt = Box::new(self.local.initiate(&initiator.peer, offer, &mut bytes));
        let wait = self.config.retransmit;
        let (again, wait) = (now + wait, SecurityConfig::next_wait(wait));
        initiator.trial = Some(Trial { attempt, bytes: bytes.clone(), since, again, wait, shown: false });
        self.ask_for_keys(now, bytes);
    }

    /// Sends an initiation: under the keys in use, so that no flood of others crowds it out; in the open when there are none,
    /// or the robot may have forgotten them.
    fn ask_for_keys(&mut self, now: Time, initiation: Vec<u8>) {
        let known = now < self.heard + self.config.silence;
        let bytes = match &mut self.keys.current {
            Some(keys) if known => {
                let mut sealed = Vec::with_capacity(OVERHEAD + 1 + initiation.len());
                keys.seal_initiation(&initiation, &mut sealed);
                sealed
            }
            _ => self.proven(now, initiation),
        };
        self.post(self.path, bytes);
    }

    /// With the proof that this end is where it says, if it was asked for one.
    fn proven(&self, now: Time, mut initiation: Vec<u8>) -> Vec<u8> {
        if let Role::Initiator(Initiator { cookie: Some((path, given)), .. }) = &self.role
            && *path == self.path
            && given.is_fresh(now)
        {
            given.cookie.prove(&mut initiation);
        }
        initiation
    }

    /// The other end is a proxy and no robot, or the other way round. Whoever overhears this end can say that, so that it changes
    /// nothing; but whoever asks why there is no answer is told.
    pub(super) fn handle_refusal(
        &mut self,
        receiver: Index,
        nonce: &[u8; NONCE],
        tag: &[u8; TAG],
    ) -> Result<(), DropCause> {
        let stranger = DropCause::Unauthenticated;
        let Role::Initiator(initiator) = &mut self.role else { return Err(DropCause::Malformed) };
        let trial =
            initiator.trial.as_ref().filter(|trial| trial.attempt.index == receiver).ok_or(stranger)?;
        initiator.peer.cookies.check_refusal(&trial.attempt.mac, nonce, tag)?;
        debug!("the other end is for something else");
        self.stats.other_service += 1;
        Ok(())
    }

    /// The robot has more to do than it can, and asks whether the initiation came from here: it is repeated at once with what
    /// shows that, but once only between two repetitions by time, so that nobody who forges questions makes this end a flood.
    pub(super) fn handle_cookie(
        &mut self,
        now: Time,
        path: PathId,
        receiver: Index,
        nonce: &[u8; NONCE],
        sealed: &[u8; SEALED_COOKIE],
    ) -> Result<(), DropCause> {
        let stranger = DropCause::Unauthenticated;
        if path != self.path && !(self.is_multipath() && self.paths.contains(path)) {
            return Err(stranger);
        }
        let Role::Initiator(initiator) = &mut self.role else { return Err(DropCause::Malformed) };
        let trial =
            initiator.trial.as_mut().filter(|trial| trial.attempt.index == receiver).ok_or(stranger)?;
        let cookie = initiator.peer.cookies.open(&trial.attempt.mac, nonce, sealed)?;
        debug!(path = path.0, "asked whether this end is where it says");
        self.stats.challenged += 1;
        initiator.cookie = Some((path, Given::new(now, cookie)));
        if !std::mem::replace(&mut trial.shown, true) {
            let mut bytes = trial.bytes.clone();
            cookie.prove(&mut bytes);
            self.post(path, bytes);
        }
        Ok(())
    }
}
