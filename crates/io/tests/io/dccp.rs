//! DCCP packets in IP packets of their own, in a namespace.

use std::net::SocketAddr;

use taut_core::{Ecn, PathId, Transmit};
use taut_io::{DccpPort, Driver, DriverConfig, Port, PortError};

use crate::machines::{Mirror, Told, namespaces, turn_until};

/// A DCCP-Data packet (RFC 4340 section 5.4) with an extended sequence number and no checksum yet.
fn packet(source: u16, destination: u16, data: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; 16];
    packet[..2].copy_from_slice(&source.to_be_bytes());
    packet[2..4].copy_from_slice(&destination.to_be_bytes());
    packet[4] = 4; // Data begins after four words.
    packet[8] = 2 << 1 | 1; // DCCP-Data, X.
    packet[15] = 7; // Sequence number.
    packet.extend_from_slice(data);
    packet
}

fn at(address: &str) -> SocketAddr {
    address.parse().unwrap()
}

#[test]
fn packets_cross_with_their_checksum_and_mark_and_others_are_left_alone() {
    let Some([namespace]) = namespaces() else { return };
    for (one, other) in [("127.0.0.1:5001", "127.0.0.2:5002"), ("[::1]:5001", "[::1]:5002")] {
        let port = |local| namespace.run(|| DccpPort::new(at(local), 16)).unwrap().unwrap();
        let (one_port, other_port) = (port(one).to(at(other)).dscp(10), port(other));
        let mut driver = Driver::new(DriverConfig::new()).unwrap();
        let from = driver.add(Mirror::default(), one_port).unwrap();
        let to = driver.add(Mirror::default(), other_port).unwrap();

        let sent = packet(5_001, 5_002, b"odd number of bytes");
        let transmit = Transmit { ecn: Ecn::Capable0, ..Transmit::default() };
        driver.command(from, (transmit, packet(5_001, 4_999, b"for another port number")));
        driver.command(from, (transmit, sent.clone()));
        let events = turn_until(&mut driver, |events| !events.is_empty());
        let [(id, Told::Datagram { path, ecn, data, .. })] = &events[..] else { panic!("{events:?}") };
        assert_eq!((*id, *path), (to, PathId(0)));
        let mark = if at(one).is_ipv4() { Ecn::Capable0 } else { Ecn::NotCapable };
        assert_eq!(*ecn, mark);
        assert_eq!((&data[..6], &data[8..]), (&sent[..6], &sent[8..]), "all but the checksum");
        assert_ne!(data[6..8], [0, 0]);
        assert!(driver.port_stats(to).unwrap().not_ours >= 1);
        assert_eq!(driver.port_stats(from).unwrap().datagrams_sent, 2);
    }
}

#[test]
fn a_wrong_checksum_is_dropped_and_counted() {
    let Some([namespace]) = namespaces() else { return };
    let mut driver = Driver::new(DriverConfig::new()).unwrap();
    let port = namespace.run(|| DccpPort::new(at("127.0.0.2:5002"), 16)).unwrap().unwrap();
    let id = driver.add(Mirror::default(), port).unwrap();
    let raw = || {
        let protocol = Some(socket2::Protocol::from(33));
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::RAW, protocol)?;
        socket.send_to(&packet(1, 5_002, b"unprotected"), &at("127.0.0.2:0").into())
    };
    namespace.run(raw).unwrap().unwrap();
    let end = driver.clock().now() + taut_core::Duration::from_millis(200);
    while driver.port_stats(id).unwrap().not_ours == 0 && driver.clock().now() < end {
        driver.turn(end, &mut |_, told| panic!("{told:?}")).unwrap();
    }
    assert_eq!(driver.port_stats(id).unwrap().not_ours, 1);
}

#[test]
fn the_address_must_be_named() {
    let error = DccpPort::new(at("0.0.0.0:1"), 1).map(Port::from).unwrap_err();
    assert!(matches!(error, PortError::Refused { .. }) && error.to_string().contains("name one"), "{error}");
}
