//! Which address is behind which path, as far as the driver tells.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use taut_core::{Origin, PathId};

/// At most as many as there are numbers of paths.
#[derive(Clone, Debug, Default)]
pub(crate) struct Origins {
    told: BTreeMap<PathId, Origin>,
    /// The other way round, by [`Origin::address`].
    paths: BTreeMap<u128, PathId>,
}

impl Origins {
    /// What is behind `path` from now on.
    pub(crate) fn set(&mut self, path: PathId, origin: Origin) {
        self.forget(path);
        if let Some(before) = self.paths.insert(origin.address(), path) {
            self.told.remove(&before);
        }
        self.told.insert(path, origin);
    }

    /// The path is no more.
    pub(crate) fn forget(&mut self, path: PathId) {
        if let Some(origin) = self.told.remove(&path) {
            self.paths.remove(&origin.address());
        }
    }

    /// What is behind `path`.
    pub(crate) fn of(&self, path: PathId) -> Origin {
        self.told.get(&path).copied().unwrap_or_else(|| Origin::untold(path))
    }

    /// What QUIC is told for a path: an address that is nobody's, and the same for the same origin whatever the number of its path,
    /// so that a token for one is worth nothing at another. Each is another network to it, so that it measures the round trip
    /// anew after a move.
    pub(crate) fn address(&self, path: PathId) -> SocketAddr {
        (Ipv6Addr::from(self.of(path).address()), 1).into()
    }

    /// The path that QUIC was told that address for; `None` when the driver needed its number for another.
    pub(crate) fn path_at(&self, address: SocketAddr) -> Option<PathId> {
        match address.ip() {
            IpAddr::V6(ip) => self.path(ip.into()),
            IpAddr::V4(_) => None,
        }
    }

    /// Where an address is now, by [`Origin::address`].
    pub(crate) fn path(&self, address: u128) -> Option<PathId> {
        let untold = || Origin::untold_path(address).filter(|path| !self.told.contains_key(path));
        self.paths.get(&address).copied().or_else(untold)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_found_whatever_number_its_path_has() {
        let of = |port: u16| Origin::new(([192, 0, 2, 1], port).into(), None, 0);
        let mut origins = Origins::default();
        assert_eq!(origins.of(PathId(3)), Origin::untold(PathId(3)));
        assert_eq!(origins.path(Origin::untold(PathId(3)).address()), Some(PathId(3)));
        origins.set(PathId(3), of(1));
        assert_eq!(origins.path(Origin::untold(PathId(3)).address()), None, "it is somebody's now");
        origins.set(PathId(3), of(2));
        assert_eq!((origins.path(of(1).address()), origins.path(of(2).address())), (None, Some(PathId(3))));
        origins.set(PathId(4), of(2));
        assert_eq!(origins.path(of(2).address()), Some(PathId(4)), "it came again");
        assert_eq!(origins.of(PathId(3)), Origin::untold(PathId(3)));
        origins.forget(PathId(4));
        assert_eq!(origins.path(of(2).address()), None);
    }
}
