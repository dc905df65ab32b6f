//! The address behind a path, without the address.

use std::hash::Hasher;
use std::net::{IpAddr, SocketAddr};

use siphasher::sip128::{Hasher128, SipHasher24};

use crate::PathId;

/// What a driver tells a transport about the address behind a path: whether it is the same as before, and whether it is of the
/// same host as another. A transport needs no more to bind to an address what it gave out there, and to count what one host asks.
///
/// ```
/// use taut_core::Origin;
///
/// let [a, b] = ["192.0.2.1:5000", "192.0.2.1:5001"].map(|peer| Origin::new(peer.parse().unwrap(), None, 0));
/// assert!(a != b && a.host() == b.host());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    host: u64,
    address: u128,
}

/// Marks the origins of paths whose address nobody told.
const UNTOLD: u128 = 1 << 127;

impl Origin {
    /// Of datagrams from `remote` to the address `local` of ours, if that is known, at this driver's socket number `socket`.
    pub fn new(remote: SocketAddr, local: Option<IpAddr>, socket: usize) -> Self {
        let octets = |ip: IpAddr| match ip {
            IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
            IpAddr::V6(ip) => ip.octets(),
        };
        // No secret: whoever seeks an address of the same value has 2¹²⁷ of them, and can have some 2⁸⁰ addresses.
        let mut hasher = SipHasher24::new();
        hasher.write(&octets(remote.ip()));
        hasher.write(&remote.port().to_be_bytes());
        hasher.write(&local.map_or([0; 16], octets));
        hasher.write(&(socket as u64).to_be_bytes());
        Self { host: host(remote.ip()), address: hasher.finish128().as_u128() & !UNTOLD }
    }

    /// Of a path whose address nobody told: each is a host of its own.
    pub const fn untold(path: PathId) -> Self {
        Self { host: u64::MAX - path.0 as u64, address: UNTOLD | path.0 as u128 }
    }

    /// The path of which [`Self::untold`] has this [`Self::address`].
    pub const fn untold_path(address: u128) -> Option<PathId> {
        if address & UNTOLD == 0 { None } else { Some(PathId(address as u8)) }
    }

    /// Which host: an IPv4 address, or the first 64 bits of an IPv6 address, for one host has all of that network.
    pub const fn host(&self) -> u64 {
        self.host
    }

    /// Which address: another for each, and the same whenever it comes again.
    pub const fn address(&self) -> u128 {
        self.address
    }
}

fn host(ip: IpAddr) -> u64 {
    match ip.to_canonical() {
        IpAddr::V4(ip) => 0xffff << 32 | u64::from(u32::from(ip)),
        IpAddr::V6(ip) => (u128::from(ip) >> 64) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(remote: &str) -> Origin {
        Origin::new(remote.parse().unwrap(), None, 0)
    }

    #[test]
    fn an_address_has_one_origin_and_no_other_has_it() {
        let local = Some(IpAddr::from([10, 0, 0, 1]));
        let all = [
            of("192.0.2.1:1"),
            of("192.0.2.1:2"),
            of("192.0.2.2:1"),
            Origin::new("192.0.2.1:1".parse().unwrap(), local, 0),
            Origin::new("192.0.2.1:1".parse().unwrap(), None, 1),
            of("[2001:db8::1]:1"),
            Origin::untold(PathId(0)),
            Origin::untold(PathId(1)),
        ];
        for (index, one) in all.iter().enumerate() {
            assert!(all[..index].iter().all(|other| other != one && other.address() != one.address()));
        }
        assert_eq!(of("192.0.2.1:1"), of("192.0.2.1:1"));
        assert_eq!(of("192.0.2.1:1"), of("[::ffff:192.0.2.1]:1"), "as an IPv6 socket tells it");
    }

    #[test]
    fn a_host_is_an_ipv4_address_or_an_ipv6_network() {
        assert_eq!(of("192.0.2.1:1").host(), of("192.0.2.1:2").host());
        assert_eq!(of("192.0.2.1:1").host(), of("[::ffff:192.0.2.1]:1").host());
        assert_ne!(of("192.0.2.1:1").host(), of("192.0.2.2:1").host());
        assert_eq!(of("[2001:db8::1]:1").host(), of("[2001:db8::ffff:1]:1").host());
        assert_ne!(of("[2001:db8::1]:1").host(), of("[2001:db8:0:1::1]:1").host());
    }

    #[test]
    fn an_untold_origin_tells_its_path() {
        assert_eq!(Origin::untold_path(Origin::untold(PathId(7)).address()), Some(PathId(7)));
        assert_eq!(Origin::untold_path(of("192.0.2.1:1").address()), None);
    }
}
