//! A datagram and the IP packet that carries it: read from a socket with its traffic class, and sent with it.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::AsRawFd;

use etherparse::{
    IpDscp, IpEcn, IpHeaders, Ipv4Header, Ipv6Header, NetSlice, PacketBuilder, SlicedPacket, TransportSlice,
};
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, sendmsg, setsockopt, sockopt,
};

/// Who sent what to whom, and with which traffic class: DSCP and ECN (RFC 2474, RFC 3168).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Carried<'a> {
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    pub(super) class: u8,
    pub(super) payload: &'a [u8],
}

/// From now on the kernel tells of each datagram with which class it came.
pub(super) fn tell_class(socket: &UdpSocket) -> io::Result<()> {
    // A socket of IPv6 may have clients of IPv4.
    setsockopt(socket, sockopt::IpRecvTos, &true)?;
    if socket.local_addr()?.is_ipv6() {
        setsockopt(socket, sockopt::Ipv6RecvTClass, &true)?;
    }
    Ok(())
}

/// The length of the datagram that came, from whom, and its class.
pub(super) fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr, u8)> {
    let mut control = nix::cmsg_space!(i32, i32);
    let mut parts = [IoSliceMut::new(buffer)];
    let message =
        recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut parts, Some(&mut control), MsgFlags::empty())?;
    let class = message.cmsgs()?.find_map(|message| match message {
        ControlMessageOwned::Ipv4Tos(class) => Some(class),
        ControlMessageOwned::Ipv6TClass(class) => Some(class as u8),
        _ => None,
    });
    let from = message.address.and_then(|address| {
        let v4 = address.as_sockaddr_in().map(|address| SocketAddrV4::from(*address).into());
        v4.or_else(|| address.as_sockaddr_in6().map(|address| SocketAddrV6::from(*address).into()))
    });
    Ok((message.bytes, from.ok_or(io::ErrorKind::InvalidData)?, class.unwrap_or(0)))
}

/// Sends a datagram with a class.
pub(super) fn send(socket: &UdpSocket, payload: &[u8], to: SocketAddr, class: u8) -> io::Result<()> {
    let wide = i32::from(class);
    let is_ipv4 = match to.ip() {
        IpAddr::V4(_) => true,
        IpAddr::V6(address) => address.to_ipv4_mapped().is_some(),
    };
    let control = [if is_ipv4 { ControlMessage::Ipv4Tos(&class) } else { ControlMessage::Ipv6TClass(&wide) }];
    let parts = [IoSlice::new(payload)];
    sendmsg(socket.as_raw_fd(), &parts, &control, MsgFlags::empty(), Some(&SockaddrStorage::from(to)))?;
    Ok(())
}

/// The IP packet that carries `payload`; its length. One that would be too long for IP is dropped by the sender's kernel, too.
pub(super) fn packed(datagram: Carried<'_>, mut buffer: &mut [u8]) -> usize {
    const HOPS: u8 = 64;
    let Carried { from, to, class, payload } = datagram;
    let room = buffer.len();
    let ip = match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let header = Ipv4Header {
                dscp: IpDscp::try_new(class >> 2).unwrap_or_default(),
                ecn: IpEcn::try_new(class & 0b11).unwrap_or_default(),
                source: from.octets(),
                destination: to.octets(),
                time_to_live: HOPS,
                ..Ipv4Header::default()
            };
            IpHeaders::Ipv4(header, Default::default())
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let header = Ipv6Header {
                traffic_class: class,
                source: from.octets(),
                destination: to.octets(),
                hop_limit: HOPS,
                ..Ipv6Header::default()
            };
            IpHeaders::Ipv6(header, Default::default())
        }
        _ => return 0,
    };
    let udp = PacketBuilder::ip(ip).udp(from.port(), to.port());
    udp.write(&mut buffer, payload).map_or(0, |()| room - buffer.len())
}

/// What a packet carries; `None` where a bit was flipped, as a receiver's kernel finds out by the checksum.
pub(super) fn unpacked(packet: &[u8]) -> Option<Carried<'_>> {
    let sliced = SlicedPacket::from_ip(packet).ok()?;
    let Some(TransportSlice::Udp(udp)) = sliced.transport else { return None };
    let (header, payload) = (udp.to_header(), udp.payload());
    let (from, to, class, checksum): (IpAddr, IpAddr, _, _) = match sliced.net? {
        NetSlice::Ipv4(ip) => {
            let ip = ip.header();
            if ip.header_checksum() != ip.to_header().calc_header_checksum() {
                return None;
            }
            let checksum = header.calc_checksum_ipv4(&ip.to_header(), payload);
            let class = ip.dcp().value() << 2 | ip.ecn().value();
            (ip.source_addr().into(), ip.destination_addr().into(), class, checksum)
        }
        NetSlice::Ipv6(ip) => {
            let ip = ip.header();
            let checksum = header.calc_checksum_ipv6(&ip.to_header(), payload);
            (ip.source_addr().into(), ip.destination_addr().into(), ip.traffic_class(), checksum)
        }
        NetSlice::Arp(_) => return None,
    };
    let whole = checksum.is_ok_and(|checksum| checksum == header.checksum);
    let from = SocketAddr::new(from, header.source_port);
    whole.then(|| Carried { from, to: SocketAddr::new(to, header.destination_port), class, payload })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_becomes_the_packet_that_it_would_be_and_a_flipped_bit_is_found() {
        for (from, to, headers) in [("10.0.0.1:7", "10.0.0.2:4433", 28), ("[::1]:7", "[::2]:4433", 48)] {
            let (from, to): (SocketAddr, SocketAddr) = (from.parse().unwrap(), to.parse().unwrap());
            let mut buffer = [0; 1_500];
            let pose = Carried { from, to, class: 46 << 2 | 1, payload: b"pose" };
            let length = packed(pose, &mut buffer);
            assert_eq!(length, headers + 4);
            let packet = &mut buffer[..length];
            assert_eq!(unpacked(packet), Some(pose));
            packet[length - 1] ^= 1;
            assert_eq!(unpacked(packet), None);
        }
        let (from, to) = ("10.0.0.1:7".parse().unwrap(), "10.0.0.2:7".parse().unwrap());
        let carried = |payload| Carried { from, to, class: 0, payload };
        assert_eq!(packed(carried(&[0; 65_535]), &mut [0; 70_000]), 0, "no IP packet is so long");
        assert_eq!(packed(carried(b"pose"), &mut [0; 20]), 0);
    }
}
