//! Two hosts, and two routers between them whose devices have qdiscs.

use std::net::Ipv4Addr;

use crate::{Namespace, NamespaceError};

/// Two hosts and a router each, in namespaces of their own, joined by pairs of Ethernet devices (veth(4)):
///
/// ```text
/// a ─── near ─── far ─── b          10.99.1.1 … 10.99.2.1
/// ```
///
/// A packet leaves through three devices, each of which may have qdiscs (tc(8)): its host's, that of the router beside
/// it, and that of the other router. Without any, it takes no time that matters. Neighbours are entered by hand, since an
/// ARP request would take its place in a queue, and nothing is segmented by a device, since a queue would take many
/// packets for one.
#[derive(Debug)]
pub struct Dumbbell {
    a: Namespace,
    near: Namespace,
    far: Namespace,
    b: Namespace,
}

/// A device of a [`Dumbbell`], by the way of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Toward {
    /// From `a` to `b`.
    There,
    /// From `b` to `a`.
    Back,
}

impl Dumbbell {
    /// The address of `a`.
    pub const A: Ipv4Addr = Ipv4Addr::new(10, 99, 1, 1);
    /// The address of `b`.
    pub const B: Ipv4Addr = Ipv4Addr::new(10, 99, 2, 1);

    /// A new one, without qdiscs.
    ///
    /// # Errors
    /// As [`Namespace::new`].
    pub fn new() -> Result<Self, NamespaceError> {
        let [a, near, far, b] = [Namespace::new()?, Namespace::new()?, Namespace::new()?, Namespace::new()?];
        pair((&a, "to-near"), (&near, "to-a"), 1)?;
        pair((&near, "to-far"), (&far, "to-near"), 3)?;
        pair((&b, "to-far"), (&far, "to-b"), 2)?;
        a.ip("route add default via 10.99.1.2")?;
        near.ip("route add default via 10.99.3.2")?;
        far.ip("route add default via 10.99.3.1")?;
        b.ip("route add default via 10.99.2.2")?;
        for router in [&near, &far] {
            let forwards = router.run(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1"))?;
            forwards.map_err(NamespaceError::refused("forwarding packets"))?;
        }
        Ok(Self { a, near, far, b })
    }

    /// The first host.
    pub fn a(&self) -> &Namespace {
        &self.a
    }

    /// The second host.
    pub fn b(&self) -> &Namespace {
        &self.b
    }

    /// The two hosts, and the routers, which go on as long as their namespaces are kept.
    pub fn split(self) -> (Namespace, Namespace, [Namespace; 2]) {
        (self.a, self.b, [self.near, self.far])
    }

    /// The three devices that a packet leaves through on this way, in this order, each with its namespace.
    pub fn devices(&self, way: Toward) -> [(&Namespace, &'static str); 3] {
        match way {
            Toward::There => [(&self.a, "to-near"), (&self.near, "to-far"), (&self.far, "to-b")],
            Toward::Back => [(&self.b, "to-far"), (&self.far, "to-near"), (&self.near, "to-a")],
        }
    }
}

/// A pair of devices, `left` with the address 10.99.`network`.1 and `right` with .2.
fn pair(left: (&Namespace, &str), right: (&Namespace, &str), network: u8) -> Result<(), NamespaceError> {
    let address = |host: u8| format!("10.99.{network}.{host}");
    let (one, two) = (format!("{}/24", address(1)), format!("{}/24", address(2)));
    Namespace::join((left.0, left.1, &one), (right.0, right.1, &two))?;
    for (number, (namespace, device)) in [(1, left), (2, right)] {
        let hardware = |host: u8| format!("02:00:00:00:{network:02x}:{host:02x}");
        namespace.ip(&format!("link set dev {device} address {} gso_max_segs 1", hardware(number)))?;
        let other = 3 - number;
        namespace.ip(&format!(
            "neigh replace {} lladdr {} dev {device} nud permanent",
            address(other),
            hardware(other)
        ))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn a_datagram_crosses_both_routers_and_nothing_leads_out() {
        let dumbbell = match Dumbbell::new() {
            Err(error) if error.lacks_means() => {
                return println!("skipped: {error}");
            }
            made => made.unwrap(),
        };
        let a = dumbbell.a().run(|| UdpSocket::bind((Dumbbell::A, 7))).unwrap().unwrap();
        let b = dumbbell.b().run(|| UdpSocket::bind((Dumbbell::B, 7))).unwrap().unwrap();
        b.set_read_timeout(Some(std::time::Duration::from_secs(2))).unwrap();
        a.send_to(b"hello", (Dumbbell::B, 7)).unwrap();
        assert_eq!(b.recv_from(&mut [0; 20]).unwrap(), (5, (Dumbbell::A, 7).into()));
        for (namespace, device) in dumbbell.devices(Toward::Back) {
            assert!(namespace.ip(&format!("link show dev {device}")).is_ok());
        }
    }
}
