//! An emulated network without any right: a relay of UDP datagrams.
//!
//! Clients send to an address of this host, and what they send comes out of a socket of their own towards the server. In between each datagram is the IP
//! packet that it would be, from the client's address to the server's, so that a link sees sizes, ports, flows, DSCP and ECN as between two namespaces;
//! what leaves has the traffic class that it came with, or the mark that a queue has set.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::net::sockopt::set_socket_recv_buffer_size;
use taut_core::{Duration, Time};
use taut_io::{Clock, kernel_drops};

use super::datagram::{Carried, packed, receive, send, tell_class, unpacked};
use super::port::Port;

/// Clients at a time.
const MOST_CLIENTS: usize = 64;
/// A client that nothing came from for so long makes way for another.
const IDLE: Duration = Duration::from_secs(60);
/// How long a packet is said to be where a datagram is too long for one: none is so short.
const MALFORMED: usize = 1;
/// Bytes that wait in the kernel to be read.
const RECEIVE_BUFFER: usize = 4 << 20;

/// The two ends of a relay, for [`Emulator::spawn`](super::Emulator::spawn).
///
/// # Errors
/// When the address to listen at is taken, or is of another family than the server's.
pub fn relay(listen: SocketAddr, server: SocketAddr) -> io::Result<(Clients, Server)> {
    if listen.is_ipv4() != server.is_ipv4() {
        let text = format!("{listen} and {server} are not both IPv4 or both IPv6");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let socket = bound(listen)?;
    let clients = Clients { listen: socket.local_addr()?, server, socket, scopes: BTreeMap::new() };
    let ready = epoll::create(CreateFlags::CLOEXEC)?;
    Ok((clients, Server { address: server, ready, flows: Flows::default(), errors: 0 }))
}

fn bound(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(address)?;
    socket.set_nonblocking(true)?;
    tell_class(&socket)?;
    // The kernel gives what it has.
    let _ = set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER);
    Ok(socket)
}

/// Where clients send to.
#[derive(Debug)]
pub struct Clients {
    listen: SocketAddr,
    server: SocketAddr,
    socket: UdpSocket,
    /// By which interface link-local clients are reached (RFC 4007): an IP packet does not say it.
    scopes: BTreeMap<Ipv6Addr, u32>,
}

impl Clients {
    /// Where that is.
    pub const fn address(&self) -> SocketAddr {
        self.listen
    }

    fn note_scope(&mut self, client: SocketAddr) {
        let SocketAddr::V6(client) = client else { return };
        if client.scope_id() == 0 {
            return;
        }
        if self.scopes.len() >= MOST_CLIENTS && !self.scopes.contains_key(client.ip()) {
            self.scopes.clear(); // Whoever sends again is known again.
        }
        self.scopes.insert(*client.ip(), client.scope_id());
    }

    fn with_scope(&self, mut client: SocketAddr) -> SocketAddr {
        if let SocketAddr::V6(client) = &mut client {
            client.set_scope_id(self.scopes.get(client.ip()).copied().unwrap_or(0));
        }
        client
    }
}

impl AsFd for Clients {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Port for Clients {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut datagram = [0; 65_535];
        // To a socket that is not connected the network tells nothing of what it sent.
        let Ok((length, from, class)) = receive(&self.socket, &mut datagram) else { return Ok(0) };
        self.note_scope(from);
        let carried = Carried { from, to: self.server, class, payload: &datagram[..length] };
        Ok(packed(carried, buffer).max(MALFORMED))
    }

    fn write(&mut self, packet: &[u8]) -> io::Result<()> {
        let Carried { to, class, payload, .. } = unpacked(packet).ok_or(io::ErrorKind::InvalidData)?;
        send(&self.socket, payload, self.with_scope(to), class)
    }

    fn overruns(&self) -> u64 {
        drops(&self.socket)
    }
}

/// Where the server is: a socket for each client.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    /// Is readable while one of them is.
    ready: OwnedFd,
    flows: Flows,
    errors: u64,
}

#[derive(Debug, Default)]
struct Flows {
    by_number: BTreeMap<u64, Flow>,
    by_client: BTreeMap<SocketAddr, u64>,
    made: u64,
    /// Of those that are gone.
    drops: u64,
}

#[derive(Debug)]
struct Flow {
    client: SocketAddr,
    socket: UdpSocket,
    heard: Time,
}

impl Server {
    /// Clients that have a socket.
    pub fn clients(&self) -> usize {
        self.flows.by_number.len()
    }

    /// The socket of this client, made if there is room for one.
    fn flow(&mut self, client: SocketAddr) -> io::Result<&mut Flow> {
        let now = Clock::since_boot();
        let number = match self.flows.by_client.get(&client) {
            Some(number) => *number,
            None => self.add(client, now)?,
        };
        let flow = self.flows.by_number.get_mut(&number).ok_or(io::ErrorKind::NotFound)?;
        flow.heard = now;
        Ok(flow)
    }

    fn add(&mut self, client: SocketAddr, now: Time) -> io::Result<u64> {
        if self.flows.by_number.len() >= MOST_CLIENTS {
            let oldest = self.flows.by_number.iter().min_by_key(|(_, flow)| flow.heard);
            match oldest
                .filter(|(_, flow)| now.saturating_since(flow.heard) >= IDLE)
                .map(|(number, _)| *number)
            {
                Some(number) => self.remove(number),
                None => return Err(io::ErrorKind::QuotaExceeded.into()),
            }
        }
        let any: IpAddr = match self.address {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = bound(SocketAddr::new(any, 0))?;
        socket.connect(self.address)?;
        self.flows.made += 1;
        let number = self.flows.made;
        epoll::add(&self.ready, &socket, EventData::new_u64(number), EventFlags::IN)?;
        self.flows.by_client.insert(client, number);
        self.flows.by_number.insert(number, Flow { client, socket, heard: now });
        Ok(number)
    }

    /// The kernel forgets a socket that is closed.
    fn remove(&mut self, number: u64) {
        if let Some(flow) = self.flows.by_number.remove(&number) {
            self.flows.drops += drops(&flow.socket);
            self.flows.by_client.remove(&flow.client);
        }
    }
}

impl AsFd for Server {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }
}

impl Port for Server {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut events = Vec::with_capacity(MOST_CLIENTS);
        let at_once = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        epoll::wait(&self.ready, rustix::buffer::spare_capacity(&mut events), Some(&at_once))?;
        for event in events {
            let Some(flow) = self.flows.by_number.get_mut(&event.data.u64()) else { continue };
            let mut datagram = [0; 65_535];
            let came = received(receive(&flow.socket, &mut datagram), &mut self.errors);
            if let Some((length, _, class)) = came {
                let (from, to) = (self.address, flow.client);
                let carried = Carried { from, to, class, payload: &datagram[..length] };
                return Ok(packed(carried, buffer).max(MALFORMED));
            }
        }
        Ok(0)
    }

    fn write(&mut self, packet: &[u8]) -> io::Result<()> {
        let Carried { from, class, payload, .. } = unpacked(packet).ok_or(io::ErrorKind::InvalidData)?;
        let to = self.address;
        send(&self.flow(from)?.socket, payload, to, class)
    }

    fn errors(&self) -> u64 {
        self.errors
    }

    fn overruns(&self) -> u64 {
        self.flows.drops + self.flows.by_number.values().map(|flow| drops(&flow.socket)).sum::<u64>()
    }
}

/// What came; none where nothing did. Any other error tells of a datagram that was sent before, to one peer (ICMP: nobody listens, it is
/// too long for the path), and is counted: that is no end of a relay.
fn received<T>(result: io::Result<T>, errors: &mut u64) -> Option<T> {
    use io::ErrorKind::{Interrupted, WouldBlock};
    result
        .inspect_err(|error| {
            if !matches!(error.kind(), WouldBlock | Interrupted) {
                tracing::debug!(%error, "a socket of the relay");
                *errors += 1;
            }
        })
        .ok()
}

fn drops(socket: &UdpSocket) -> u64 {
    kernel_drops(socket).map_or(0, u64::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Namespace;

    #[test]
    fn each_client_has_a_socket_of_its_own_and_there_are_not_more_than_fit() {
        let robot = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (_, mut server) = relay("127.0.0.1:0".parse().unwrap(), robot.local_addr().unwrap()).unwrap();
        let mut buffer = [0; 1_500];
        let mut from = |server: &mut Server, port: u16| {
            let client = SocketAddr::from(([10, 0, 0, 1], port));
            let payload = &port.to_be_bytes();
            let length = packed(Carried { from: client, to: server.address, class: 0, payload }, &mut buffer);
            server.write(&buffer[..length])
        };
        for port in 1..=MOST_CLIENTS as u16 {
            from(&mut server, port).unwrap();
            from(&mut server, port).unwrap();
        }
        assert_eq!(server.clients(), MOST_CLIENTS);
        assert!(from(&mut server, 999).is_err(), "all are in use");
        let first = *server.flows.by_client.values().next().unwrap();
        server.flows.by_number.get_mut(&first).unwrap().heard = Time::ZERO;
        let idle = server.flows.by_number[&first].client;
        // The machine may not have run for so long.
        if Clock::since_boot() >= Time::ZERO + IDLE {
            from(&mut server, 999).unwrap();
            assert!(server.clients() == MOST_CLIENTS && !server.flows.by_client.contains_key(&idle));
        }
    }

    #[test]
    fn what_the_robot_answers_reaches_the_client_that_it_is_for() {
        let robot = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (mut clients, mut server) =
            relay("127.0.0.1:0".parse().unwrap(), robot.local_addr().unwrap()).unwrap();
        let operators = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        let mut buffer = vec![0; 65_535];
        let mut carry = |from: &mut dyn Port, to: &mut dyn Port| {
            let length = next(from, &mut buffer);
            to.write(&buffer[..length]).unwrap();
        };
        for (operator, says) in operators.iter().zip([b"a", b"b"]) {
            operator.send_to(says, clients.address()).unwrap();
            carry(&mut clients, &mut server);
            let mut said = [0; 8];
            let (length, back) = robot.recv_from(&mut said).unwrap();
            assert_eq!(&said[..length], says);
            robot.send_to(&said[..length], back).unwrap();
            carry(&mut server, &mut clients);
            let (length, relay) = operator.recv_from(&mut said).unwrap();
            assert!(&said[..length] == says && relay == clients.address());
        }
        assert_eq!((clients.overruns(), server.overruns()), (0, 0));
    }

    #[test]
    fn what_another_socket_of_the_same_port_has_no_room_for_is_not_the_relays_loss() {
        let robot = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (clients, _) = relay("127.0.0.1:0".parse().unwrap(), robot.local_addr().unwrap()).unwrap();
        let other = UdpSocket::bind(("127.0.0.2", clients.address().port())).unwrap();
        set_socket_recv_buffer_size(&other, 4_096).unwrap();
        let to = other.local_addr().unwrap();
        (0..100).for_each(|_| _ = robot.send_to(&[0; 1_000], to).unwrap());
        assert!(drops(&other) > 50);
        assert_eq!(clients.overruns(), 0);
    }

    /// The length of the next packet, which the kernel may still be delivering.
    fn next(port: &mut dyn Port, buffer: &mut [u8]) -> usize {
        for _ in 0..2_000 {
            match port.read(buffer).unwrap() {
                0 => std::thread::park_timeout(std::time::Duration::from_millis(1)),
                length => return length,
            }
        }
        panic!("nothing comes")
    }

    /// A client and a robot of a relay at this address, one datagram each way of this class; what arrived of it at both.
    fn there_and_back(address: &str, class: u8) -> [u8; 2] {
        let bind = || {
            let socket = bound(address.parse().unwrap()).unwrap();
            socket.set_nonblocking(false).unwrap();
            socket.set_read_timeout(Some(std::time::Duration::from_secs(1))).unwrap();
            socket
        };
        let (robot, operator) = (bind(), bind());
        let listen = address.parse().unwrap();
        let (mut clients, mut server) = relay(listen, robot.local_addr().unwrap()).unwrap();
        let mut buffer = vec![0; 65_535];
        send(&operator, b"there", clients.address(), class).unwrap();
        let length = next(&mut clients, &mut buffer);
        server.write(&buffer[..length]).unwrap();
        let (_, from, there) = receive(&robot, &mut [0; 8]).unwrap();
        send(&robot, b"back", from, class).unwrap();
        let length = next(&mut server, &mut buffer);
        clients.write(&buffer[..length]).unwrap();
        let (_, _, back) = receive(&operator, &mut [0; 8]).unwrap();
        [there, back]
    }

    #[test]
    fn a_datagram_leaves_with_the_traffic_class_that_it_came_with() {
        assert_eq!(there_and_back("127.0.0.1:0", 46 << 2 | 2), [46 << 2 | 2; 2]);
        if UdpSocket::bind("[::1]:0").is_err() {
            return println!("skipped: no IPv6");
        }
        assert_eq!(there_and_back("[::1]:0", 34 << 2), [34 << 2; 2]);
    }

    fn namespace() -> Option<Namespace> {
        Namespace::new().inspect_err(|error| println!("skipped: {error}")).ok()
    }

    #[test]
    fn a_link_local_client_is_answered_over_its_interface() {
        let Some(namespace) = namespace() else { return };
        if let Err(error) = namespace.ip("address add fe80::7/64 dev lo nodad") {
            return println!("skipped: {error}");
        }
        // The kernel takes packets for an address a little later than it has it.
        let is_there = || {
            let shown = namespace.ip("-6 address show dev lo").unwrap();
            let routed = namespace.ip("-6 route show table local").unwrap();
            !shown.contains("tentative") && routed.contains("fe80::7")
        };
        for _ in 0..200 {
            if is_there() {
                break;
            }
            std::thread::park_timeout(std::time::Duration::from_millis(10));
        }
        let tried = namespace.run(|| {
            let robot = "[::1]:4433".parse().unwrap();
            let (mut clients, _) = relay("[::]:0".parse().unwrap(), robot).unwrap();
            let operator = UdpSocket::bind("[fe80::7%1]:0").unwrap();
            operator.send_to(b"there", format!("[fe80::7%1]:{}", clients.address().port())).unwrap();
            let mut buffer = [0; 1_500];
            let length = next(&mut clients, &mut buffer);
            let from = unpacked(&buffer[..length]).unwrap().from;
            assert_eq!(clients.with_scope(from), operator.local_addr().unwrap());
        });
        tried.unwrap();
    }

    /// What a router says when a datagram to the robot is too long for its next link (RFC 792: destination unreachable, fragmentation
    /// needed), and what a host says without UDP (protocol unreachable).
    #[test]
    fn what_the_network_says_of_one_datagram_does_not_end_a_relay() {
        let Some(namespace) = namespace() else { return };
        let tried = namespace.run(|| {
            let robot = UdpSocket::bind("127.0.0.1:0").unwrap();
            let address = robot.local_addr().unwrap();
            let (_, mut server) = relay("127.0.0.1:0".parse().unwrap(), address).unwrap();
            let from = "127.0.0.1:7".parse().unwrap();
            let mut buffer = [0; 1_500];
            let length = packed(Carried { from, to: address, class: 0, payload: b"pose" }, &mut buffer);
            server.write(&buffer[..length]).unwrap();
            let (_, relayed) = robot.recv_from(&mut [0; 8]).unwrap();
            let raw = socket2::Socket::new(
                socket2::Domain::IPV4,
                socket2::Type::RAW,
                Some(socket2::Protocol::ICMPV4),
            );
            let raw = raw.unwrap();
            for (number, (code, mtu)) in [(4, 1_400_u16), (2, 0)].into_iter().enumerate() {
                let mut message = vec![3, code, 0, 0, 0, 0];
                message.extend(mtu.to_be_bytes());
                let length =
                    packed(Carried { from: relayed, to: address, class: 0, payload: b"pose" }, &mut buffer);
                message.extend(&buffer[..length]);
                let words =
                    message.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
                let sum: u32 = words.sum();
                let sum = !(((sum & 0xffff) + (sum >> 16)) as u16);
                message[2..4].copy_from_slice(&sum.to_be_bytes());
                raw.send_to(&message, &SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
                // It does not come as a packet.
                for _ in 0..2_000 {
                    assert_eq!(server.read(&mut buffer).unwrap(), 0, "{code}");
                    if server.errors() > number as u64 {
                        break;
                    }
                    std::thread::park_timeout(std::time::Duration::from_millis(1));
                }
                assert_eq!(server.errors(), number as u64 + 1);
            }
            robot.send_to(b"back", relayed).unwrap();
            assert_eq!(next(&mut server, &mut buffer), 32);
        });
        tried.unwrap();
    }

    #[test]
    fn a_relay_is_of_one_family() {
        let error = relay("127.0.0.1:0".parse().unwrap(), "[::1]:4433".parse().unwrap()).unwrap_err();
        assert!(error.to_string().contains("both IPv4 or both IPv6"), "{error}");
    }
}
