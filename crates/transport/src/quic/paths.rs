//! Several paths: opened by the client, pinged by both, opened again when they were abandoned.

use noq_proto::{ClosePathError, Connection, FourTuple, PathEvent, PathId as QuicPath, PathStatus, VarInt};
use taut_core::{Duration, Event, PathId, Time};
use tracing::debug;

use super::config::{PathUse, QuicConfig};
use super::copies::Copies;
use super::library::{Connection as _, Library};
use super::{Conversation, MAX_PATHS, Role, State, clock};
use crate::origins::Origins;

/// What the peer is told when a path is no more: nothing in particular (APPLICATION_ABANDON_PATH's code is ours).
const GONE: VarInt = VarInt::from_u32(0);

/// A path of the driver, and the connection's while it has one.
#[derive(Clone, Copy, Debug)]
struct Place {
    id: PathId,
    quic: Option<QuicPath>,
    up: bool,
    /// When it is opened, while it has none.
    open_at: Time,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Paths {
    places: Vec<Place>,
    /// The server has confirmed the handshake: before, no path may be opened (RFC 9001 section 4.1.2).
    pub(super) confirmed: bool,
    next_ping: Option<Time>,
    /// The connection's last path, of a place that is no more: it ends when there is another one.
    stale: Option<QuicPath>,
}

impl Paths {
    pub(super) fn add(&mut self, now: Time, id: PathId) -> bool {
        let room = self.places.len() < MAX_PATHS && self.places.iter().all(|place| place.id != id);
        if room {
            self.places.push(Place { id, quic: None, up: false, open_at: now });
        }
        room
    }

    pub(super) fn is_there(&self, id: PathId) -> bool {
        self.places.iter().any(|place| place.id == id)
    }

    pub(super) fn count(&self) -> u32 {
        self.places.len() as u32
    }

    /// The first one is the last one from now on.
    pub(super) fn rotate(&mut self) {
        self.places.rotate_left(1);
    }

    fn remove(&mut self, id: PathId) -> Option<Place> {
        let at = self.places.iter().position(|place| place.id == id)?;
        Some(self.places.remove(at))
    }

    /// The one that the handshake takes.
    pub(super) fn first(&self) -> Option<PathId> {
        self.places.first().map(|place| place.id)
    }

    /// The connection's path there, when it carries messages.
    pub(super) fn quic_of(&self, id: PathId) -> Option<QuicPath> {
        self.places.iter().find(|place| place.id == id && place.up)?.quic
    }

    /// The paths that carry messages.
    pub(super) fn open(&self) -> Vec<QuicPath> {
        self.places.iter().filter(|place| place.up).filter_map(|place| place.quic).collect()
    }

    /// The connection's paths but for that one, of which each is open or being opened.
    fn others(&self, than: QuicPath) -> impl Iterator<Item = QuicPath> {
        self.places.iter().filter_map(|place| place.quic).filter(move |path| *path != than)
    }

    pub(super) fn up(&self) -> impl Iterator<Item = PathId> {
        self.places.iter().filter(|place| place.up).map(|place| place.id)
    }

    pub(super) fn next_time(&self, client: bool) -> Option<Time> {
        let opens = self.places.iter().filter(|place| client && self.confirmed && place.quic.is_none());
        opens.map(|place| place.open_at).filter(|at| *at < Time::MAX).chain(self.next_ping).min()
    }

    /// The conversation is open: over which path, the connection says.
    pub(super) fn begin(&mut self, now: Time, id: PathId, keep_alive: Duration) {
        self.add(now, id);
        if let Some(place) = self.places.iter_mut().find(|place| place.id == id) {
            (place.quic, place.up) = (Some(QuicPath::ZERO), true);
        }
        self.next_ping = Some(now + keep_alive);
    }

    /// The peer has one path only: none is opened.
    fn stay_alone(&mut self) {
        self.places.iter_mut().for_each(|place| place.open_at = Time::MAX);
    }

    fn established(&mut self, now: Time, id: PathId, quic: QuicPath) -> bool {
        self.add(now, id);
        let place = self.places.iter_mut().find(|place| place.id == id);
        let Some(place) = place else { return false };
        (place.quic, place.up) = (Some(quic), true);
        true
    }

    /// Whose path that was; whether it was up.
    fn abandoned(&mut self, open_at: Time, quic: QuicPath, client: bool) -> Option<(PathId, bool)> {
        let at = self.places.iter().position(|place| place.quic == Some(quic))?;
        let before = self.places[at];
        match client {
            true => self.places[at] = Place { quic: None, up: false, open_at, ..before },
            // It comes back when the client opens it.
            false => drop(self.places.remove(at)),
        }
        Some((before.id, before.up))
    }
}

impl<L: Library> Conversation<L> {
    /// Opens and pings what is due.
    pub(super) fn keep_paths(&mut self, now: Time) {
        let State::Open(handle) = self.state else { return };
        let Some(index) = self.index(handle) else { return };
        let Some(quic) = self.connections[index].quic.multipath() else { return };
        if !quic.is_multipath_negotiated() {
            self.paths.next_ping = None;
            self.paths.stay_alone();
            return;
        }
        let (client, confirmed) = (matches!(self.role, Role::Client(_)), self.paths.confirmed);
        for place in self.paths.places.iter_mut().filter(|place| place.quic.is_none() && place.open_at <= now)
        {
            if client && confirmed {
                open(now, quic, place, &self.origins, &self.config);
            }
        }
        if self.paths.next_ping.is_some_and(|at| at <= now) {
            self.paths.next_ping = Some(now + self.config.path_keep_alive());
            for path in quic.paths() {
                let _ = quic.ping_path(path);
            }
        }
    }

    /// A client's path is no more.
    pub(super) fn drop_path(&mut self, now: Time, id: PathId) {
        let had_hello = self.paths.first() == Some(id);
        let Some(place) = self.paths.remove(id) else { return };
        if place.up {
            self.events.push_back(Event::PathDown(id));
        }
        match (self.state.clone(), &mut self.role) {
            (State::Open(handle), _) => {
                let index = self.index(handle);
                let quic = index.and_then(|index| self.connections[index].quic.multipath());
                if let (Some(path), Some(quic)) = (place.quic, quic)
                    && let Err(ClosePathError::LastOpenPath) =
                        quic.close_path(clock::instant(now), path, GONE)
                {
                    self.paths.stale = Some(path);
                }
            }
            // The next one takes the handshake, at once.
            (State::Waiting, Role::Client(hello)) if had_hello => {
                (hello.next, hello.made) = (Some(now), 0);
            }
            _ => {}
        }
        self.settle(now);
    }

    pub(super) fn on_path_event(&mut self, now: Time, index: usize, event: PathEvent) {
        let Some(quic) = self.connections[index].quic.multipath() else { return };
        let client = matches!(self.role, Role::Client(_));
        match event {
            PathEvent::Established { id, .. } => {
                let Ok(four) = quic.network_path(id) else { return };
                let Some(path) = self.origins.path_at(four.remote()) else { return };
                if client && !self.paths.is_there(path) {
                    // It was taken away meanwhile.
                    let _ = quic.close_path(clock::instant(now), id, GONE);
                    return;
                }
                if let Some(stale) = self.paths.stale.take() {
                    let _ = quic.close_path(clock::instant(now), stale, GONE);
                }
                // One that fell silent as the last could not be left, and noq asks that once: it is asked anew.
                for other in self.paths.others(id) {
                    let timeout = Some(self.config.path_idle_timeout.into());
                    let _ = quic.set_path_max_idle_timeout(clock::instant(now), other, timeout);
                }
                if self.paths.established(now, path, id) {
                    self.events.push_back(Event::PathUp(path));
                }
            }
            PathEvent::Abandoned { id, .. } => {
                let gone = self.paths.abandoned(now + self.config.reopen, id, client);
                if let Some((path, true)) = gone {
                    self.events.push_back(Event::PathDown(path));
                }
                // Of paths that all stand by noq uses whichever has room, and acknowledgements leave on one that has died. The
                // server does as the client says.
                if let (true, Some(next)) = (client, self.paths.open().first().copied()) {
                    set_status(quic, self.carrier.copies.as_mut(), next, PathStatus::Available);
                }
            }
            // What is sent takes the way that the peer's last words took, acknowledgements above all: on a path that died they
            // would be lost, and the peer's window on the other one would fill. Who sends copies has a way for each; and where one path
            // carries everything a client chooses which: if each end followed the other, two words that cross would do so for ever.
            PathEvent::RemoteStatus { id, status, .. }
                if !client || self.config.path_use == PathUse::Duplicate =>
            {
                set_status(quic, self.carrier.copies.as_mut(), id, status);
            }
            _ => {}
        }
    }
}

fn set_status(quic: &mut Connection, copies: Option<&mut Copies>, path: QuicPath, status: PathStatus) {
    if copies.is_none_or(|copies| copies.leaves(path, status)) {
        let _ = quic.set_path_status(path, status);
    }
}

fn open(now: Time, quic: &mut Connection, place: &mut Place, origins: &Origins, config: &QuicConfig) {
    let status = match config.path_use {
        PathUse::FailOver => PathStatus::Backup,
        PathUse::Duplicate => PathStatus::Available,
    };
    let four = FourTuple::from_remote(origins.address(place.id));
    match quic.open_path(four, status, clock::instant(now)) {
        Ok(path) => {
            debug!(path = place.id.0, ?status, "path opens");
            place.quic = Some(path);
        }
        // The peer has not given out its numbers yet.
        Err(error) => {
            debug!(path = place.id.0, %error, "path opens later");
            place.open_at = now + config.reopen;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_with_one_path_leaves_nothing_to_wake_up_for() {
        let mut paths = Paths { confirmed: true, ..Paths::default() };
        paths.begin(Time::ZERO, PathId(0), Duration::from_millis(100));
        assert!(paths.add(Time::ZERO, PathId(1)));
        assert_eq!(paths.next_time(true), Some(Time::ZERO));
        (paths.next_ping, _) = (None, paths.stay_alone());
        assert_eq!(paths.next_time(true), None);
    }
}
