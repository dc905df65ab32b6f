//! An emulated network without any right: a relay of UDP datagrams.
//!
//! Clients send to an address of this host, and what they send comes out of a socket of their own towards the server. In between each datagram is the IP
//! packet that it would be, from the client's address to the server's, so that a link sees sizes, ports and flows as between two namespaces. ECN does
//! not pass: packets are not ECN-capable, and queues drop where they would mark.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TransportSlice};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::net::sockopt::set_socket_recv_buffer_size;
use taut_core::{Duration, Time};
use taut_io::Clock;

use super::port::Port;

/// Clients at a time.
const MOST_CLIENTS: usize = 64;
/// A client that nothing came from for so long makes way for another.
const IDLE: Duration = Duration::from_secs(60);
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
    let clients = Clients { listen: socket.local_addr()?, server, socket };
    let ready = epoll::create(CreateFlags::CLOEXEC)?;
    Ok((clients, Server { address: server, ready, flows: Flows::default() }))
}

fn bound(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(address)?;
    socket.set_nonblocking(true)?;
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
}

impl Clients {
    /// Where that is.
    pub const fn address(&self) -> SocketAddr {
        self.listen
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
        match received(self.socket.recv_from(&mut datagram))? {
            Some((length, client)) => packed(client, self.server, &datagram[..length], buffer),
            None => Ok(0),
        }
    }

    fn write(&mut self, packet: &[u8]) -> io::Result<()> {
        let (_, client, payload) = unpacked(packet).ok_or(io::ErrorKind::InvalidData)?;
        self.socket.send_to(payload, client).map(drop)
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
            if let Some(length) = received(flow.socket.recv(&mut datagram))? {
                return packed(self.address, flow.client, &datagram[..length], buffer);
            }
        }
        Ok(0)
    }

    fn write(&mut self, packet: &[u8]) -> io::Result<()> {
        let (client, _, payload) = unpacked(packet).ok_or(io::ErrorKind::InvalidData)?;
        self.flow(client)?.socket.send(payload).map(drop)
    }

    fn overruns(&self) -> u64 {
        self.flows.drops + self.flows.by_number.values().map(|flow| drops(&flow.socket)).sum::<u64>()
    }
}

/// Nothing came, or what comes says only that nobody listens at the other end: that is no end of a relay.
fn received<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    use io::ErrorKind::{ConnectionRefused, HostUnreachable, Interrupted, NetworkUnreachable, WouldBlock};
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error)
            if matches!(
                error.kind(),
                WouldBlock | Interrupted | ConnectionRefused | HostUnreachable | NetworkUnreachable
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The IP packet that carries `payload`; its length. One that would be too long for IP is dropped by the sender's kernel, too.
fn packed(from: SocketAddr, to: SocketAddr, payload: &[u8], mut buffer: &mut [u8]) -> io::Result<usize> {
    const HOPS: u8 = 64;
    let room = buffer.len();
    let ip = match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => PacketBuilder::ipv4(from.octets(), to.octets(), HOPS),
        (IpAddr::V6(from), IpAddr::V6(to)) => PacketBuilder::ipv6(from.octets(), to.octets(), HOPS),
        _ => return Ok(0),
    };
    let udp = ip.udp(from.port(), to.port());
    match udp.write(&mut buffer, payload) {
        Ok(()) => Ok(room - buffer.len()),
        Err(_) => Ok(0),
    }
}

/// From where, to where, and what; `None` where a bit was flipped, as a receiver's kernel finds out by the checksum.
fn unpacked(packet: &[u8]) -> Option<(SocketAddr, SocketAddr, &[u8])> {
    let sliced = SlicedPacket::from_ip(packet).ok()?;
    let Some(TransportSlice::Udp(udp)) = sliced.transport else { return None };
    let (header, payload) = (udp.to_header(), udp.payload());
    let (from, to, checksum): (IpAddr, IpAddr, _) = match sliced.net? {
        NetSlice::Ipv4(ip) => {
            let ip = ip.header();
            if ip.header_checksum() != ip.to_header().calc_header_checksum() {
                return None;
            }
            let checksum = header.calc_checksum_ipv4(&ip.to_header(), payload);
            (ip.source_addr().into(), ip.destination_addr().into(), checksum)
        }
        NetSlice::Ipv6(ip) => {
            let ip = ip.header();
            let checksum = header.calc_checksum_ipv6(&ip.to_header(), payload);
            (ip.source_addr().into(), ip.destination_addr().into(), checksum)
        }
        NetSlice::Arp(_) => return None,
    };
    let whole = checksum.is_ok_and(|checksum| checksum == header.checksum);
    whole.then(|| {
        (SocketAddr::new(from, header.source_port), SocketAddr::new(to, header.destination_port), payload)
    })
}

/// What the kernel dropped for this socket had no room: the last column of its line in /proc/net/udp (proc(5)).
fn drops(socket: &UdpSocket) -> u64 {
    let Ok(address) = socket.local_addr() else { return 0 };
    let table = if address.is_ipv4() { "/proc/thread-self/net/udp" } else { "/proc/thread-self/net/udp6" };
    let port = format!(":{:04X}", address.port());
    let lines = std::fs::read_to_string(table).unwrap_or_default();
    let ours = lines
        .lines()
        .filter(|line| line.split_whitespace().nth(1).is_some_and(|local| local.ends_with(&port)));
    ours.filter_map(|line| line.split_whitespace().last()?.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_becomes_the_packet_that_it_would_be_and_a_flipped_bit_is_found() {
        for (from, to, headers) in [("10.0.0.1:7", "10.0.0.2:4433", 28), ("[::1]:7", "[::2]:4433", 48)] {
            let (from, to): (SocketAddr, SocketAddr) = (from.parse().unwrap(), to.parse().unwrap());
            let mut buffer = [0; 1_500];
            let length = packed(from, to, b"pose", &mut buffer).unwrap();
            assert_eq!(length, headers + 4);
            let packet = &mut buffer[..length];
            assert_eq!(unpacked(packet), Some((from, to, &b"pose"[..])));
            packet[length - 1] ^= 1;
            assert_eq!(unpacked(packet), None);
        }
        let (from, to) = ("10.0.0.1:7".parse().unwrap(), "10.0.0.2:7".parse().unwrap());
        assert_eq!(packed(from, to, &[0; 65_535], &mut [0; 70_000]).unwrap(), 0, "no IP packet is so long");
        assert_eq!(packed(from, to, b"pose", &mut [0; 20]).unwrap(), 0);
    }

    #[test]
    fn each_client_has_a_socket_of_its_own_and_there_are_not_more_than_fit() {
        let robot = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (_, mut server) = relay("127.0.0.1:0".parse().unwrap(), robot.local_addr().unwrap()).unwrap();
        let mut buffer = [0; 1_500];
        let mut from = |server: &mut Server, port: u16| {
            let client = SocketAddr::from(([10, 0, 0, 1], port));
            let length = packed(client, server.address, &port.to_be_bytes(), &mut buffer).unwrap();
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
        let mut carry = |from: &mut dyn Port, to: &mut dyn Port| loop {
            let length = from.read(&mut buffer).unwrap();
            if length > 0 {
                return to.write(&buffer[..length]).unwrap();
            }
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
    fn a_relay_is_of_one_family() {
        let error = relay("127.0.0.1:0".parse().unwrap(), "[::1]:4433".parse().unwrap()).unwrap_err();
        assert!(error.to_string().contains("both IPv4 or both IPv6"), "{error}");
    }
}
