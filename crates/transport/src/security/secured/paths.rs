//! Which paths lead to the peer: one, or several under one set of keys.

use taut_core::{DropCause, Duration, PathId, Time, Transport};

use super::{Role, Secured};
use crate::security::header::{Control, Index};
use crate::security::noise::Opened;

/// Paths of one conversation at most.
const BOUND: usize = 16;
/// Paths that are being asked at a time.
const ASKED: usize = 8;
/// Between two questions on one path.
const AGAIN: Duration = Duration::from_millis(100);

/// Of several paths: at the operator's end those that were added. At the robot's those on which the operator was shown to be: it answered
/// there what was asked there (as RFC 9000 section 8.2 validates paths).
#[derive(Debug, Default)]
pub(super) struct Paths {
    bound: Vec<Bound>,
    asked: Vec<Asked>,
}

#[derive(Clone, Copy, Debug)]
struct Bound {
    path: PathId,
    /// When the last authentic datagram came from there.
    heard: Time,
}

/// What was asked on a path, and when it was last.
#[derive(Clone, Copy, Debug)]
struct Asked {
    path: PathId,
    token: u64,
    at: Time,
}

impl Paths {
    pub(super) fn contains(&self, path: PathId) -> bool {
        self.bound.iter().any(|bound| bound.path == path)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bound.is_empty()
    }

    /// From now on datagrams may go there. When there are too many, the one that was silent for longest goes.
    pub(super) fn bind(&mut self, now: Time, path: PathId) {
        self.asked.retain(|asked| asked.path != path);
        if self.contains(path) {
            return;
        }
        if self.bound.len() == BOUND {
            let (quietest, _) =
                self.bound.iter().enumerate().min_by_key(|(_, bound)| bound.heard).expect("it is full");
            self.bound.remove(quietest);
        }
        self.bound.push(Bound { path, heard: now });
    }

    /// Nothing goes there any more, and what was asked there is not answered from there.
    pub(super) fn unbind(&mut self, path: PathId) {
        self.bound.retain(|bound| bound.path != path);
        self.asked.retain(|asked| asked.path != path);
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// The one after `path`, in the order in which they were bound.
    pub(super) fn after(&self, path: PathId) -> Option<PathId> {
        let place = self.bound.iter().position(|bound| bound.path == path);
        let next = place.map_or(0, |place| (place + 1) % self.bound.len());
        self.bound.get(next).map(|bound| bound.path)
    }

    fn heard(&mut self, now: Time, path: PathId) {
        if let Some(bound) = self.bound.iter_mut().find(|bound| bound.path == path) {
            bound.heard = now;
        }
    }

    /// What to ask on a path that is not bound; `None` when it was asked a moment ago, or too many are being asked.
    fn ask(&mut self, now: Time, path: PathId, token: impl FnOnce() -> u64) -> Option<u64> {
        let known = self.asked.iter().position(|asked| asked.path == path);
        if known.is_none() && self.asked.len() < ASKED {
            self.asked.push(Asked { path, token: token(), at: now });
            return self.asked.last().map(|asked| asked.token);
        }
        let place = known.or_else(|| (0..self.asked.len()).min_by_key(|place| self.asked[*place].at))?;
        let asked = &mut self.asked[place];
        if now < asked.at + AGAIN {
            return None;
        }
        let token = if asked.path == path { asked.token } else { token() };
        *asked = Asked { path, token, at: now };
        Some(token)
    }

    fn is_answer(&self, path: PathId, token: u64) -> bool {
        self.asked.iter().any(|asked| asked.path == path && asked.token == token)
    }
}

impl<T: Transport> Secured<T> {
    /// Does the transport inside choose paths?
    pub(super) fn is_multipath(&self) -> bool {
        self.config.multipath
    }

    /// An authentic datagram of the conversation; of several paths, on one that is bound.
    pub(super) fn heard_on(&mut self, now: Time, path: PathId, newest: bool, opened: Opened) {
        if self.is_multipath() {
            self.paths.heard(now, path);
            if newest {
                self.path = path;
            }
        } else if path != self.path && newest && !matches!(opened, Opened::Control(Control::PathResponse(_)))
        {
            // Only the newest may say where the peer is: an older one may have been on its way for long.
            self.ask_on(now, path);
        }
    }

    /// Asks whether the peer is there. Whoever sent what came from there may have it from another path.
    pub(super) fn ask_on(&mut self, now: Time, path: PathId) {
        let local = &mut self.local;
        if let Some(token) = self.paths.ask(now, path, || local.random()) {
            self.post_control_on(path, Control::PathChallenge(token));
        }
    }

    /// The peer asks. With one path, it is answered only where it was known to be before: an answer that went elsewhere
    /// would show no more than that somebody forwards.
    pub(super) fn asked_on(&mut self, path: PathId, token: u64) {
        if self.is_multipath() || path == self.path {
            self.post_control_on(path, Control::PathResponse(token));
        }
    }

    /// With one path: the peer has answered, and is there if that is what it was asked there.
    pub(super) fn answered_on(&mut self, path: PathId, token: u64) {
        if !self.is_multipath() && self.paths.is_answer(path, token) {
            self.paths.asked.clear();
            self.moved_to(path);
        }
    }

    /// Opens a datagram from a path where the peer was not shown to be. Whoever sent it may have it from another path, and
    /// put any address on it: nothing is taken from it, so that the peer's own copy still counts, and nothing is sent there
    /// but a question. What is taken is the answer, or the first datagram under keys that were sent there.
    pub(super) fn open_unbound(
        &mut self,
        now: Time,
        path: PathId,
        key: Index,
        nonce: u64,
        sealed: &[u8],
        plain: &mut Vec<u8>,
    ) -> Result<Opened, DropCause> {
        let stranger = DropCause::Unauthenticated;
        if matches!(self.role, Role::Initiator(_)) {
            return Err(stranger);
        }
        match self.keys.peek(key, nonce, sealed, plain) {
            Some(Ok(Opened::Control(Control::PathResponse(token)))) if self.paths.is_answer(path, token) => {
                let (opened, newest) = self.keys.open(key, nonce, sealed, plain).expect("there are keys")?;
                self.paths.bind(now, path);
                self.heard_on(now, path, newest, opened);
                Ok(opened)
            }
            Some(Ok(_)) => {
                self.stats.unvalidated += 1;
                self.ask_on(now, path);
                Err(stranger)
            }
            Some(Err(cause)) => Err(cause),
            None => self.take_over(now, path, key, nonce, sealed, plain),
        }
    }
}
