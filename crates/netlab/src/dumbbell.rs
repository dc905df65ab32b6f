//! Two hosts, and two routers on each path between them, whose devices have qdiscs.

use std::net::Ipv4Addr;

use crate::{Namespace, NamespaceError};

/// Two hosts, and on each path between them two routers, all in namespaces of their own, joined by pairs of Ethernet devices
/// (veth(4)):
///
/// ```text
///    ┌─ near ─── far ─┐
/// a ─┤                ├─ b          path p: 10.97.p.1 … 10.99.p.1
///    └─ near ─── far ─┘
/// ```
///
/// A packet leaves through three devices, each of which may have qdiscs (tc(8)): its host's, that of the router beside
/// it, and that of the other router. Without any, it takes no time that matters. Neighbours are entered by hand, since an
/// ARP request would take its place in a queue, and nothing is segmented by a device, since a queue would take many
/// packets for one.
///
/// A host's packets to any address of the other take the path of the device that their socket is bound to; without one, that of
/// the address.
#[derive(Debug)]
pub struct Dumbbell {
    a: Namespace,
    b: Namespace,
    /// Of each path the router beside `a`, and that beside `b`.
    routers: Vec<[Namespace; 2]>,
}

/// A device of a [`Dumbbell`], by the way of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Toward {
    /// From `a` to `b`.
    There,
    /// From `b` to `a`.
    Back,
}

/// Path p has the networks 10.97.p.0/24 of `a` and its router, 10.98.p.0/24 of the routers, 10.99.p.0/24 of `b` and its router.
const AT_A: u8 = 97;
const BETWEEN: u8 = 98;
const AT_B: u8 = 99;

impl Dumbbell {
    /// A new one, without qdiscs, with so many paths.
    ///
    /// # Errors
    /// As [`Namespace::new`].
    pub fn new(paths: u8) -> Result<Self, NamespaceError> {
        let mut this = Self { a: host()?, b: host()?, routers: Vec::new() };
        this.a.accepts_from_everywhere()?;
        this.b.accepts_from_everywhere()?;
        for path in 0..paths {
            this.add_path(path)?;
        }
        Ok(this)
    }

    fn add_path(&mut self, path: u8) -> Result<(), NamespaceError> {
        let (near, far) = (host()?, host()?);
        let device = &Self::device(path);
        pair((&self.a, device), (&near, "to-a"), (AT_A, path))?;
        pair((&near, "to-far"), (&far, "to-near"), (BETWEEN, path))?;
        pair((&self.b, device), (&far, "to-b"), (AT_B, path))?;
        let metric = u32::from(path) + 1;
        for (host, own, other) in [(&self.a, AT_A, AT_B), (&self.b, AT_B, AT_A)] {
            let gateway = format!("10.{own}.{path}.2");
            host.ip(&format!("route add 10.{other}.{path}.0/24 via {gateway}"))?;
            host.ip(&format!("route add default via {gateway} dev {device} metric {metric}"))?;
        }
        // All addresses of a host are behind the router beside it.
        near.ip(&format!("route add 10.{AT_A}.0.0/16 via 10.{AT_A}.{path}.1"))?;
        near.ip(&format!("route add 10.{AT_B}.0.0/16 via 10.{BETWEEN}.{path}.2"))?;
        far.ip(&format!("route add 10.{AT_A}.0.0/16 via 10.{BETWEEN}.{path}.1"))?;
        far.ip(&format!("route add 10.{AT_B}.0.0/16 via 10.{AT_B}.{path}.1"))?;
        for router in [&near, &far] {
            router.set_ipv4("ip_forward", "1")?;
        }
        self.routers.push([near, far]);
        Ok(())
    }

    /// What the device of a path is called, at both hosts.
    pub fn device(path: u8) -> String {
        format!("path{path}")
    }

    /// The addresses of `a` and `b` on a path.
    pub const fn addresses(path: u8) -> [Ipv4Addr; 2] {
        [Ipv4Addr::new(10, AT_A, path, 1), Ipv4Addr::new(10, AT_B, path, 1)]
    }

    /// The first host.
    pub fn a(&self) -> &Namespace {
        &self.a
    }

    /// The second host.
    pub fn b(&self) -> &Namespace {
        &self.b
    }

    /// The device on which a packet enters the first router on this way over a path, with its namespace.
    ///
    /// # Panics
    /// When there is no such path.
    pub fn entrance(&self, path: u8, way: Toward) -> (&Namespace, &'static str) {
        let [near, far] = &self.routers[usize::from(path)];
        match way {
            Toward::There => (near, "to-a"),
            Toward::Back => (far, "to-b"),
        }
    }

    /// The three devices that a packet leaves through on this way over a path, in this order, each with its namespace.
    ///
    /// # Panics
    /// When there is no such path.
    pub fn devices(&self, path: u8, way: Toward) -> [(&Namespace, String); 3] {
        let [near, far] = &self.routers[usize::from(path)];
        let [host, inner, outer] = match way {
            Toward::There => [(&self.a, ""), (near, "to-far"), (far, "to-b")],
            Toward::Back => [(&self.b, ""), (far, "to-near"), (near, "to-a")],
        };
        [(host.0, Self::device(path)), (inner.0, inner.1.to_owned()), (outer.0, outer.1.to_owned())]
    }
}

/// A namespace whose devices have no IPv6: else the kernel sends packets of its own, router solicitations and multicast reports.
fn host() -> Result<Namespace, NamespaceError> {
    let host = Namespace::new()?;
    // A kernel without IPv6 has no such file, and sends none.
    let _ = host.run(|| std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1"))?;
    Ok(host)
}

/// A pair of devices in the network 10.`kind`.`path`, `left` with the address .1 and `right` with .2.
fn pair(
    left: (&Namespace, &str),
    right: (&Namespace, &str),
    (kind, path): (u8, u8),
) -> Result<(), NamespaceError> {
    let address = |host: u8| format!("10.{kind}.{path}.{host}");
    let (one, two) = (format!("{}/24", address(1)), format!("{}/24", address(2)));
    Namespace::join((left.0, left.1, &one), (right.0, right.1, &two))?;
    for (number, (namespace, device)) in [(1, left), (2, right)] {
        let hardware = |host: u8| format!("02:00:00:{kind:02x}:{path:02x}:{host:02x}");
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

    /// `None`, with the reason printed, where namespaces cannot be made.
    fn dumbbell(paths: u8) -> Option<Dumbbell> {
        match Dumbbell::new(paths) {
            Err(error) if error.lacks_means() => {
                println!("skipped: {error}");
                None
            }
            made => Some(made.unwrap()),
        }
    }

    #[test]
    fn a_datagram_crosses_both_routers_and_nothing_leads_out() {
        let Some(dumbbell) = dumbbell(1) else { return };
        let [here, there] = Dumbbell::addresses(0);
        let a = dumbbell.a().run(|| UdpSocket::bind((here, 7))).unwrap().unwrap();
        let b = dumbbell.b().run(|| UdpSocket::bind((there, 7))).unwrap().unwrap();
        b.set_read_timeout(Some(std::time::Duration::from_secs(2))).unwrap();
        a.send_to(b"hello", (there, 7)).unwrap();
        assert_eq!(b.recv_from(&mut [0; 20]).unwrap(), (5, (here, 7).into()));
        for (namespace, device) in dumbbell.devices(0, Toward::Back) {
            // Without an address of IPv6 a device sends nothing by itself.
            assert_eq!(namespace.ip(&format!("-6 address show dev {device}")).unwrap(), "");
        }
    }

    #[test]
    fn a_socket_of_a_device_takes_its_path_to_any_address_and_answers_come_back_over_it() {
        let Some(dumbbell) = dumbbell(3) else { return };
        let there = Dumbbell::addresses(0)[1];
        let b = dumbbell.b().run(|| UdpSocket::bind((there, 7))).unwrap().unwrap();
        b.set_read_timeout(Some(std::time::Duration::from_secs(2))).unwrap();
        for path in 0..3 {
            let bound = dumbbell.a().run(|| {
                let socket = UdpSocket::bind("0.0.0.0:0")?;
                let device = Dumbbell::device(path);
                socket2::SockRef::from(&socket).bind_device(Some(device.as_bytes()))?;
                std::io::Result::Ok(socket)
            });
            let a = bound.unwrap().unwrap();
            a.set_read_timeout(Some(std::time::Duration::from_secs(2))).unwrap();
            a.send_to(b"hello", (there, 7)).unwrap();
            let (len, from) = b.recv_from(&mut [0; 20]).unwrap();
            assert_eq!((len, from.ip()), (5, Dumbbell::addresses(path)[0].into()), "path {path}");
            b.send_to(b"yes", from).unwrap();
            assert_eq!(a.recv_from(&mut [0; 20]).unwrap(), (3, (there, 7).into()), "path {path}");
        }
    }
}
