//! Which pair of addresses a path is.

use std::net::{IpAddr, SocketAddr};

use crate::{Origin, PathId, Time};

/// Addresses by path, for whoever has sockets. Bounded: a stranger can fill it, but displaces nobody that the machine knows to be its peer, and keeps
/// no place for which there is a newcomer.
#[derive(Debug)]
pub struct PathTable {
    entries: Vec<PathEntry>,
    limit: usize,
    /// Where the last datagram came from: the next one most likely does too.
    last: usize,
}

/// One of them.
#[derive(Clone, Copy, Debug)]
pub struct PathEntry {
    /// Which of the port's sockets.
    pub socket: usize,
    /// The peer.
    pub remote: SocketAddr,
    /// The address of ours that the peer sent to, where the socket is bound to all of them. `None` matches any.
    pub local: Option<IpAddr>,
    /// When a datagram came from there.
    heard: Time,
    /// It was there from the beginning.
    stays: bool,
    /// The machine sent there: it knows this peer, or answered somebody who may be nobody.
    pub answered: bool,
}

/// The path of a datagram that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathHeard {
    /// Its number.
    pub path: PathId,
    /// The address, when it is new here.
    pub origin: Option<Origin>,
    /// The number was another address's until now.
    pub is_reused: bool,
}

impl PathTable {
    /// A table of at most `limit` paths, from 1 to 256.
    pub fn new(limit: usize) -> Self {
        Self { entries: Vec::new(), limit: limit.clamp(1, 256), last: 0 }
    }

    /// A path that is there from the beginning and stays. `None`: the table is full.
    pub fn add(&mut self, socket: usize, remote: SocketAddr) -> Option<PathId> {
        let entry = PathEntry { socket, remote, local: None, heard: Time::ZERO, stays: true, answered: true };
        (self.entries.len() < self.limit).then(|| {
            self.entries.push(entry);
            id(self.entries.len() - 1)
        })
    }

    /// Where it leads, as people write it: an IPv4 address that came through an IPv6 socket is one.
    pub fn remote(&self, path: PathId) -> Option<SocketAddr> {
        let remote = self.entries.get(usize::from(path.0))?.remote;
        Some(SocketAddr::new(remote.ip().to_canonical(), remote.port()))
    }

    /// To change it.
    pub fn get_mut(&mut self, path: PathId) -> Option<&mut PathEntry> {
        self.entries.get_mut(usize::from(path.0))
    }

    /// The peer of `socket`, when it has exactly one.
    pub fn only_remote_of(&self, socket: usize) -> Option<SocketAddr> {
        let mut remotes =
            self.entries.iter().filter(|entry| entry.socket == socket).map(|entry| entry.remote);
        let first = remotes.next()?;
        remotes.next().is_none().then_some(first)
    }

    /// Is the peer there one that the machine knows: did it send there, and does it use the path?
    pub fn knows(&self, path: PathId, uses: &dyn Fn(PathId) -> bool) -> bool {
        self.entries.get(usize::from(path.0)).is_some_and(|entry| entry.answered) && uses(path)
    }

    /// The peers of `socket` that it knows.
    pub fn known(&self, socket: usize, uses: &dyn Fn(PathId) -> bool) -> Vec<SocketAddr> {
        let entries = self.entries.iter().enumerate().filter(|(_, entry)| entry.socket == socket);
        entries.filter(|(index, _)| self.knows(id(*index), uses)).map(|(_, entry)| entry.remote).collect()
    }

    /// The path of a datagram that arrived. One that is new takes a free place, or that of the one heard least recently among
    /// those that the machine does not use: first of those to which it never sent. `None` when there is none.
    pub fn heard(
        &mut self,
        now: Time,
        socket: usize,
        remote: SocketAddr,
        local: Option<IpAddr>,
        uses: &dyn Fn(PathId) -> bool,
    ) -> Option<PathHeard> {
        let is = |entry: &PathEntry| {
            entry.socket == socket
                && entry.remote == remote
                && (entry.local.is_none() || entry.local == local)
        };
        let (mut is_reused, mut origin) = (false, None);
        if !self.entries.get(self.last).is_some_and(is) {
            self.last = match self.entries.iter().position(is) {
                Some(index) => index,
                None => {
                    let new = PathEntry { socket, remote, local, heard: now, stays: false, answered: false };
                    is_reused = self.entries.len() == self.limit;
                    origin = Some(Origin::new(remote, local, socket));
                    self.place(new, uses)?
                }
            };
        }
        self.entries[self.last].heard = now;
        Some(PathHeard { path: id(self.last), origin, is_reused })
    }

    fn place(&mut self, entry: PathEntry, uses: &dyn Fn(PathId) -> bool) -> Option<usize> {
        if self.entries.len() < self.limit {
            self.entries.push(entry);
            return Some(self.entries.len() - 1);
        }
        let free = |(index, old): &(usize, &PathEntry)| !(old.stays || old.answered && uses(id(*index)));
        let places = self.entries.iter().enumerate().filter(free);
        let (index, _) = places.min_by_key(|(_, old)| (old.answered, old.heard))?;
        self.entries[index] = entry;
        Some(index)
    }
}

fn id(index: usize) -> PathId {
    PathId(u8::try_from(index).expect("a table has 256 paths at most"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    fn at(second: u64) -> Time {
        Time::from_nanos(second * 1_000_000_000)
    }

    fn heard(table: &mut PathTable, second: u64, port: u16, used: &[u8]) -> Option<(u8, bool)> {
        let heard = table.heard(at(second), 0, address(port), None, &|path| used.contains(&path.0));
        heard.map(|heard| (heard.path.0, heard.is_reused))
    }

    #[test]
    fn an_address_keeps_its_path() {
        let mut table = PathTable::new(4);
        assert_eq!(table.add(0, address(1)), Some(PathId(0)));
        let (one, other) = (Some(IpAddr::from([10, 0, 0, 1])), Some(IpAddr::from([10, 0, 0, 2])));
        let mut path = |socket, port, local| {
            table.heard(at(1), socket, address(port), local, &|_| true).map(|heard| heard.path.0)
        };
        assert_eq!(path(0, 1, one), Some(0), "any local address will do");
        assert_eq!(path(0, 2, one), Some(1));
        assert_eq!(path(1, 2, one), Some(2), "another socket, another path");
        assert_eq!(path(0, 2, other), Some(3), "another address of ours, too");
        assert_eq!(path(0, 2, one), Some(1));
    }

    #[test]
    fn strangers_displace_each_other_but_nobody_that_is_in_use() {
        let mut table = PathTable::new(3);
        table.add(0, address(1));
        assert_eq!(heard(&mut table, 1, 2, &[]), Some((1, false)));
        assert_eq!(heard(&mut table, 2, 3, &[]), Some((2, false)));
        table.get_mut(PathId(1)).unwrap().answered = true;
        for port in 4..1_000 {
            assert_eq!(heard(&mut table, 3, port, &[0, 1]), Some((2, true)));
        }
        table.get_mut(PathId(2)).unwrap().answered = true;
        assert_eq!(heard(&mut table, 4, 4_000, &[0, 1, 2]), None);
        assert_eq!(heard(&mut table, 4, 2, &[0, 1, 2]), Some((1, false)));
    }

    #[test]
    fn who_was_only_answered_gives_way_to_a_newcomer_the_quietest_first() {
        let mut table = PathTable::new(4);
        table.add(0, address(1));
        for (second, port) in [(1, 2), (2, 3), (3, 4), (4, 2)] {
            heard(&mut table, second, port, &[]);
        }
        (1..4).for_each(|path| table.get_mut(PathId(path)).unwrap().answered = true);
        assert_eq!(heard(&mut table, 5, 5, &[2]), Some((3, true)), "2 is in use, 1 was heard later");
        assert_eq!(heard(&mut table, 6, 6, &[2]), Some((3, true)), "nobody answered there yet");
        table.get_mut(PathId(3)).unwrap().answered = true;
        assert_eq!(heard(&mut table, 7, 7, &[2]), Some((1, true)));
        assert_eq!(heard(&mut table, 8, 1, &[2]), Some((0, false)), "what was added stays");
    }
}
