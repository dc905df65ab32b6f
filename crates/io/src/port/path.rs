//! Which pair of addresses a path is.

use std::net::{IpAddr, SocketAddr};

use taut_core::{PathId, Time};

/// Addresses by path. Bounded: a stranger can fill it, but displaces nobody that the machine talks to.
#[derive(Debug)]
pub(crate) struct PathTable {
    entries: Vec<Entry>,
    limit: usize,
    /// Where the last datagram came from: the next one most likely does too.
    last: usize,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// Which of the port's sockets.
    pub(crate) socket: usize,
    /// The peer.
    pub(crate) remote: SocketAddr,
    /// The address of ours that the peer sent to, where the socket is bound to all of them. `None` matches any.
    pub(crate) local: Option<IpAddr>,
    /// When a datagram came from there.
    heard: Time,
    /// The machine sent there: it knows this peer, or wants to.
    pub(crate) chosen: bool,
}

impl PathTable {
    /// A table of at most `limit` paths, from 1 to 256.
    pub(crate) fn new(limit: usize) -> Self {
        Self { entries: Vec::new(), limit: limit.clamp(1, 256), last: 0 }
    }

    /// A path that is there from the beginning and stays. `None`: the table is full.
    pub(crate) fn add(&mut self, socket: usize, remote: SocketAddr) -> Option<PathId> {
        let entry = Entry { socket, remote, local: None, heard: Time::ZERO, chosen: true };
        (self.entries.len() < self.limit).then(|| {
            self.entries.push(entry);
            id(self.entries.len() - 1)
        })
    }

    pub(crate) fn get_mut(&mut self, path: PathId) -> Option<&mut Entry> {
        self.entries.get_mut(usize::from(path.0))
    }

    /// The peer of `socket`, when it has exactly one.
    pub(crate) fn only_remote_of(&self, socket: usize) -> Option<SocketAddr> {
        let mut remotes =
            self.entries.iter().filter(|entry| entry.socket == socket).map(|entry| entry.remote);
        let first = remotes.next()?;
        remotes.next().is_none().then_some(first)
    }

    /// The path of a datagram that arrived. One that is new takes a free place, or that of the one heard least recently
    /// among those on which the machine never sent; `None` when there is none.
    pub(crate) fn heard(
        &mut self,
        now: Time,
        socket: usize,
        remote: SocketAddr,
        local: Option<IpAddr>,
    ) -> Option<PathId> {
        let is = |entry: &Entry| {
            entry.socket == socket
                && entry.remote == remote
                && (entry.local.is_none() || entry.local == local)
        };
        if !self.entries.get(self.last).is_some_and(is) {
            self.last = match self.entries.iter().position(is) {
                Some(index) => index,
                None => self.place(Entry { socket, remote, local, heard: now, chosen: false })?,
            };
        }
        self.entries[self.last].heard = now;
        Some(id(self.last))
    }

    fn place(&mut self, entry: Entry) -> Option<usize> {
        if self.entries.len() < self.limit {
            self.entries.push(entry);
            return Some(self.entries.len() - 1);
        }
        let unchosen = self.entries.iter().enumerate().filter(|(_, old)| !old.chosen);
        let (index, _) = unchosen.min_by_key(|(_, old)| old.heard)?;
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

    #[test]
    fn an_address_keeps_its_path() {
        let mut table = PathTable::new(4);
        assert_eq!(table.add(0, address(1)), Some(PathId(0)));
        let local = Some(IpAddr::from([10, 0, 0, 1]));
        assert_eq!(table.heard(at(1), 0, address(1), local), Some(PathId(0)), "any local address will do");
        assert_eq!(table.heard(at(1), 0, address(2), local), Some(PathId(1)));
        assert_eq!(table.heard(at(1), 1, address(2), local), Some(PathId(2)), "another socket, another path");
        let other = Some(IpAddr::from([10, 0, 0, 2]));
        assert_eq!(table.heard(at(1), 0, address(2), other), Some(PathId(3)), "another address of ours, too");
        assert_eq!(table.heard(at(2), 0, address(2), local), Some(PathId(1)));
    }

    #[test]
    fn strangers_displace_each_other_but_nobody_that_was_sent_to() {
        let mut table = PathTable::new(3);
        table.add(0, address(1));
        assert_eq!(table.heard(at(1), 0, address(2), None), Some(PathId(1)));
        assert_eq!(table.heard(at(2), 0, address(3), None), Some(PathId(2)));
        table.get_mut(PathId(1)).unwrap().chosen = true;
        for port in 4..1_000 {
            assert_eq!(table.heard(at(3), 0, address(port), None), Some(PathId(2)));
        }
        table.get_mut(PathId(2)).unwrap().chosen = true;
        assert_eq!(table.heard(at(4), 0, address(4_000), None), None);
        assert_eq!(table.heard(at(4), 0, address(2), None), Some(PathId(1)));
    }
}
