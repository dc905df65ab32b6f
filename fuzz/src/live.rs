//! Targets that speak to a live endpoint.
//!
//! The input is a list of datagrams, each behind two bytes: how much of a true datagram it begins with, and its length
//! after that. Bit 7 of the first byte says which end it goes to.

use std::net::UdpSocket;

use taut_core::{Datagram, Duration, Ecn, Event, Message, PathId, Reliability, Seed, Time, Transport};
use taut_io::Machine;
use taut_io::proxy::{ProxyConfig, ProxyLocal, ProxyMachine};
use taut_io::session::Carrier;
use taut_transport::entropy::Entropy;
use taut_transport::identity::{Identity, Trust};
use taut_transport::quic::{MpQuic, PathUse, QuicConfig};
use taut_transport::sctp::{Sctp, SctpConfig};
use taut_transport::security::{Secured, SecurityConfig};
use taut_transport::stack::Bare;
use taut_transport::udp::{Udp, UdpConfig};

/// A session with keys. Whatever strangers send is refused, and the session goes on.
pub fn secured(data: &[u8]) {
    let (config, seed) = (SecurityConfig::new(), Seed::new(1));
    let [operator, robot] = ["operator", "robot"].map(|name| Identity::from_seed(seed, name));
    let entropy = |name| Entropy::seeded(seed, name);
    let udp = || Udp::new(UdpConfig::new());
    let a = Secured::initiator(config, &operator, robot.fingerprint(), entropy("a"), udp());
    let b = Secured::responder(config, &robot, Trust::only(operator.fingerprint()), entropy("b"), udp);
    let mut pair = Pair::connected([a, b]);
    pair.disturb(data, |_| ());
    assert!(
        pair.events.iter().flatten().all(|event| matches!(event, Event::Refused(_))),
        "{:?}",
        pair.events
    );
    pair.says_and_hears();
}

/// An association. Here the stranger knows the tag (the prefix of a true packet) and the checksum, so that only panics,
/// and answers without end, are wrong.
pub fn sctp(data: &[u8]) {
    let entropy = |name| Entropy::seeded(Seed::new(1), name);
    let config = SctpConfig::new();
    let mut pair = Pair::connected([Sctp::client(config, entropy("a")), Sctp::server(config, entropy("b"))]);
    pair.disturb(data, with_checksum);
    for _ in 0..200 {
        pair.now += Duration::from_millis(100);
        pair.ends.iter_mut().for_each(|end| end.handle_timeout(pair.now));
        pair.exchange();
    }
}

/// Multipath QUIC over two paths, with copies on both. Whatever strangers send on a third one is refused, and nothing that they said
/// is delivered; the session goes on.
pub fn mpquic(data: &[u8]) {
    let (config, seed) = (QuicConfig::multipath(PathUse::Duplicate), Seed::new(1));
    let [operator, robot] = ["operator", "robot"].map(|name| Identity::from_seed(seed, name));
    let (entropy, trust) =
        (|name| Entropy::seeded(seed, name), |of: &Identity| Trust::only(of.fingerprint()));
    let mut a = MpQuic::client(config.clone(), &operator, trust(&robot), entropy("a"));
    let b = MpQuic::server(config, &robot, trust(&operator), entropy("b"));
    (0..2).for_each(|path| assert!(a.add_path(Time::ZERO, PathId(path))));
    let mut pair = Pair::connected([a, b]);
    pair.disturb(data, |_| ());
    let told = pair.events.iter().flatten();
    assert!(told.clone().all(|event| !matches!(event, Event::Received { .. } | Event::Closed)), "{told:?}");
    pair.says_and_hears();
}

/// The far end of a proxy, of whose tunnel the stranger has the keys: each datagram, behind a byte with its length, is of some flow
/// or of none. What arrives is given on or counted, flows are bounded.
pub fn proxy(mut data: &[u8]) {
    let application = UdpSocket::bind("127.0.0.1:0").expect("a socket on loopback");
    let local = ProxyLocal::Far(application.local_addr().expect("it is bound"));
    let carrier = Carrier::Stack(Bare::Udp(Udp::new(UdpConfig::new())).into());
    let mut proxy = ProxyMachine::new(carrier, local, ProxyConfig::new().flows(4)).expect("descriptors");
    let mut now = Time::ZERO;
    while let [length, rest @ ..] = data {
        let (datagram, rest) = rest.split_at(rest.len().min(usize::from(*length)));
        if let Ok(frame) = taut_wire::proxy::Frame::parse(datagram) {
            let mut again = Vec::new();
            frame.emit(&mut again);
            assert_eq!(again, datagram);
        }
        proxy.handle_input(
            now,
            Datagram { path: PathId(0), ecn: Ecn::NotCapable, data: datagram, padding: 0 },
        );
        while proxy.poll_event(now).is_some() {}
        now += Duration::from_millis(10);
        proxy.handle_timeout(now);
        data = rest;
    }
    // What was of unknown age is worthless by now.
    now += Duration::from_secs(1);
    while proxy.poll_event(now).is_some() {}
    let stats = proxy.stats();
    assert_eq!(stats.arrived, stats.given + stats.dropped.values().sum::<u64>(), "{stats:?}");
    assert!(stats.flows - stats.flows_idle <= 4 && stats.taken == 0, "{stats:?}");
}

/// CRC32c is no obstacle to whoever knows what it is.
fn with_checksum(packet: &mut [u8]) {
    let Some(field) = packet.get_mut(8..12) else { return };
    field.fill(0);
    let step = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
    let crc = !packet.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)));
    packet[8..12].copy_from_slice(&crc.to_le_bytes());
}

/// Where they speak from.
const STRANGERS: PathId = PathId(3);

struct Pair<T> {
    ends: [T; 2],
    now: Time,
    /// The last datagram that each end sent.
    last: [Vec<u8>; 2],
    events: [Vec<Event>; 2],
}

impl<T: Transport> Pair<T> {
    fn connected(ends: [T; 2]) -> Self {
        let mut pair = Self { ends, now: Time::ZERO, last: Default::default(), events: Default::default() };
        pair.ends[0].handle_timeout(pair.now);
        pair.exchange();
        assert!(pair.events.iter().all(|events| events.contains(&Event::Connected)));
        pair.says_and_hears();
        pair
    }

    /// No time passes, nothing is lost.
    fn exchange(&mut self) {
        // An endpoint that answers for ever is stopped here, and would hang a driver.
        for round in 0.. {
            assert!(round < 10_000, "they do not come to rest");
            let mut idle = true;
            for from in 0..2 {
                let mut datagram = Vec::new();
                while let Some(transmit) = self.ends[from].poll_transmit(self.now, &mut datagram) {
                    idle = false;
                    // What is said to strangers does not come by a path of theirs.
                    let path = if transmit.path == STRANGERS { PathId(0) } else { transmit.path };
                    self.deliver(1 - from, path, &datagram);
                    self.last[from] = std::mem::take(&mut datagram);
                }
                while let Some(event) = self.ends[from].poll_event() {
                    self.events[from].push(event);
                }
            }
            if idle {
                return;
            }
        }
    }

    fn deliver(&mut self, to: usize, path: PathId, data: &[u8]) {
        self.ends[to].handle_input(self.now, Datagram { path, ecn: Ecn::NotCapable, data, padding: 0 });
    }

    fn disturb(&mut self, mut data: &[u8], finish: fn(&mut [u8])) {
        while let [kept, length, rest @ ..] = data {
            let (bytes, rest) = rest.split_at(rest.len().min(usize::from(*length)));
            let to = usize::from(kept >> 7);
            let real = &self.last[1 - to];
            // One byte less than all of it, so that it is never a true copy.
            let kept = usize::from(kept & 0x7f).min(real.len() - 1);
            let mut datagram = [&real[..kept], bytes].concat();
            finish(&mut datagram);
            if datagram != *real {
                self.deliver(to, STRANGERS, &datagram);
            }
            self.exchange();
            data = rest;
        }
    }

    fn says_and_hears(&mut self) {
        let message = Message {
            data: b"still here".to_vec(),
            created: self.now,
            reliability: Reliability::Reliable,
            ..Message::default()
        };
        self.ends[0].send(self.now, message).expect("open");
        self.exchange();
        let heard = |event: &Event| matches!(event, Event::Received { data, .. } if data == b"still here");
        assert!(self.events[1].iter().any(heard));
        self.events = Default::default();
    }
}
