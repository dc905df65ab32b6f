//! Datagrams of strangers at every transport, before a connection and while one is open: no panic, nothing accepted, nothing
//! kept, no more bytes answered than came, and the peers meet afterwards as if nothing had been.
//!
//! Twenty thousand for each transport and state; a million, some minutes in all, with
//! `TAUT_STRANGERS=1000000 cargo test -p taut-transport --test strangers -- --nocapture`.

#[path = "../transport/net.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod net;

use net::{MS, Net};
use taut_core::{Duration, Event, Message, PathId, Reliability, Rng, Seed, StreamId, Transport};
use taut_transport::dccp::{Ccid, Dccp, DccpConfig};
use taut_transport::entropy::Entropy;
use taut_transport::etp::{Etp, EtpConfig};
use taut_transport::identity::{Fingerprint, Identity, Trust};
use taut_transport::quic::{MpQuic, PathUse, Quic, QuicConfig};
use taut_transport::sctp::{Sctp, SctpConfig};
use taut_transport::security::{Sealed, Secured, SecurityConfig};
use taut_transport::tcp::{Tcp, TcpConfig};
use taut_transport::udp::{Udp, UdpConfig};

/// Datagrams between two looks at what they did.
const BATCH: u64 = 1_000;
/// What the whole process may grow by from a tenth of the datagrams on, in bytes: slack of its allocator.
const GROWTH: u64 = 8 << 20;

/// What a stranger knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stranger {
    /// So many bytes of a datagram of the peers: where nothing but numbers protects it.
    Guesses(u64),
    /// Every datagram of the peers, to change a bit of it, to cut it, or to write its end anew.
    Overhears,
}

fn identity(name: &str) -> Identity {
    Identity::from_seed(Seed::new(1), name)
}

fn fingerprint(name: &str) -> Fingerprint {
    identity(name).fingerprint()
}

fn entropy(name: &str) -> Entropy {
    Entropy::seeded(Seed::new(1), name)
}

fn secured<T: Transport + 'static>(client: T, server: fn() -> T) -> [Secured<T>; 2] {
    let config = SecurityConfig::new();
    let trust = Trust::only(fingerprint("operator"));
    [
        Secured::initiator(config, &identity("operator"), fingerprint("robot"), entropy("a"), client),
        Secured::responder(config, &identity("robot"), trust, entropy("b"), server),
    ]
}

fn sealed(client: Tcp, server: Tcp) -> [Sealed<Tcp>; 2] {
    let config = SecurityConfig::new();
    let trust = Trust::only(fingerprint("operator"));
    [
        Sealed::initiator(config, &identity("operator"), fingerprint("robot"), entropy("a"), client),
        Sealed::responder(config, &identity("robot"), trust, entropy("b"), server),
    ]
}

fn udp() -> Udp {
    Udp::new(UdpConfig::new())
}

fn etp() -> Etp {
    Etp::new(EtpConfig::fixed(Duration::from_millis(1))).expect("the defaults are valid")
}

fn sctp_client() -> Sctp {
    Sctp::client(SctpConfig::new(), entropy("client"))
}

fn sctp_server() -> Sctp {
    Sctp::server(SctpConfig::new(), entropy("server"))
}

fn dccp_config(ccid: Ccid) -> DccpConfig {
    DccpConfig::new().ccids(&[ccid]).expect("one profile")
}

fn dccp_client(ccid: Ccid) -> Dccp {
    Dccp::client(dccp_config(ccid), Seed::new(1).stream("client"))
}

fn dccp_server(ccid: Ccid) -> Dccp {
    Dccp::server(dccp_config(ccid), Seed::new(1).stream("server"))
}

fn quic() -> [Quic; 2] {
    let config = QuicConfig::new();
    [
        Quic::client(config.clone(), &identity("operator"), Trust::only(fingerprint("robot")), entropy("c")),
        Quic::server(config, &identity("robot"), Trust::only(fingerprint("operator")), entropy("s")),
    ]
}

fn mpquic() -> [MpQuic; 2] {
    let config = QuicConfig::multipath(PathUse::FailOver);
    let trust = Trust::only(fingerprint("robot"));
    let mut client = MpQuic::client(config.clone(), &identity("operator"), trust, entropy("c"));
    assert!(client.add_path(taut_core::Time::ZERO, PathId(0)));
    let trust = Trust::only(fingerprint("operator"));
    [client, MpQuic::server(config, &identity("robot"), trust, entropy("s"))]
}

#[test]
fn strangers_are_refused_by_every_transport_and_leave_nothing_behind() {
    use Stranger::{Guesses, Overhears};
    storm("UDP", Overhears, || secured(udp(), udp));
    storm("ETP", Overhears, || secured(etp(), etp));
    storm("TCP", Guesses(0), || {
        sealed(Tcp::client(TcpConfig::default(), 1), Tcp::server(TcpConfig::default(), 2))
    });
    storm("QUIC", Overhears, quic);
    storm("MPQUIC", Overhears, mpquic);
    storm("SCTP", Overhears, || secured(sctp_client(), sctp_server));
    storm("SCTP, plain", Overhears, || [sctp_client(), sctp_server()]);
    storm("DCCP 2", Overhears, || secured(dccp_client(Ccid::TcpLike), || dccp_server(Ccid::TcpLike)));
    storm("DCCP 3", Overhears, || secured(dccp_client(Ccid::Tfrc), || dccp_server(Ccid::Tfrc)));
    // RFC 4340 section 7: 48 bits of numbers protect a connection against who does not see them.
    storm("DCCP 2, plain", Guesses(4), || [dccp_client(Ccid::TcpLike), dccp_server(Ccid::TcpLike)]);
    storm("DCCP 3, plain", Guesses(4), || [dccp_client(Ccid::Tfrc), dccp_server(Ccid::Tfrc)]);
}

#[expect(clippy::disallowed_methods, clippy::print_stdout, reason = "the time that it takes is told")]
fn storm<T: Transport>(name: &str, stranger: Stranger, pair: impl Fn() -> [T; 2]) {
    let count: u64 = std::env::var("TAUT_STRANGERS").ok().and_then(|n| n.parse().ok()).unwrap_or(20_000);
    // A server of TCP is whose SYN comes first, and the model has no queue of them.
    let first_wins = name == "TCP";
    for open in [false, true] {
        let begun = std::time::Instant::now();
        let mut net = Net::new(pair(), MS * 10, 1);
        // Before a connection, what the client says is lost.
        net.ways.iter_mut().for_each(|way| way.cut = !open);
        net.run_until(net::at_ms(20));
        if open {
            talk(&mut net, name);
        }
        let overheard: Vec<Vec<u8>> = net.sent.iter().rev().take(64).map(|(.., data)| data.clone()).collect();
        let mut rng = Seed::new(11).stream(name);
        let (mut came, mut answered, mut refused, mut memory) = (0, 0, 0, 0);
        for batch in 0..count / BATCH {
            net.sent.clear();
            net.events.iter_mut().for_each(Vec::clear);
            for number in 0..BATCH {
                let data = datagram(&mut rng, stranger, &overheard);
                came += data.len();
                net.deliver(number as usize % 2, PathId(rng.below(9) as u8), &data);
            }
            net.run_for(MS);
            answered += net.sent.iter().map(|(.., data)| data.len()).sum::<usize>();
            for (_, event) in net.events.iter().flatten() {
                refused += usize::from(matches!(event, Event::Refused(_)));
                let harm = matches!(event, Event::Received { .. } | Event::Connected | Event::Closed);
                assert!(!harm, "{name}, open: {open}: {event:?}");
            }
            if batch == count / BATCH / 10 {
                memory = resident();
            }
        }
        let grown = resident().saturating_sub(memory);
        println!(
            "{name:14} {} {count} in {:5.1} s: {refused} refused, {:.2} % answered, {} kB grown",
            if open { "open" } else { "idle" },
            begun.elapsed().as_secs_f64(),
            100.0 * answered as f64 / came as f64,
            grown >> 10,
        );
        assert!(grown <= GROWTH, "{name}, open: {open}: {grown} B more");
        assert!(answered <= came, "{name}, open: {open}: {answered} B for {came} B");
        net.ways.iter_mut().for_each(|way| way.cut = false);
        if open || !first_wins {
            talk(&mut net, name);
        }
    }
}

/// Both ends say something until each has heard the other.
fn talk<T: Transport>(net: &mut Net<T>, name: &str) {
    net.events.iter_mut().for_each(Vec::clear);
    for round in 0..1_000_u64 {
        for end in 0..2 {
            let message = Message {
                data: [b"hear me".as_slice(), &round.to_le_bytes()].concat(),
                created: net.now,
                stream: StreamId(2),
                reliability: Reliability::Reliable,
                ..Message::default()
            };
            // A server has nobody to talk to before a client came.
            let _ = net.ends[end].send(net.now, message);
            net.drain(end);
        }
        net.run_for(MS * 20);
        if round > 20 && (0..2).all(|end| net.received(end).next().is_some()) {
            net.run_for(Duration::from_secs(1));
            return;
        }
    }
    panic!("{name}: they do not meet");
}

fn datagram(rng: &mut Rng, stranger: Stranger, overheard: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = |limit: u64| (0..rng.below(limit)).map(|_| rng.next_u64() as u8).collect::<Vec<u8>>();
    let mut data = bytes(120);
    if rng.below(8) == 0 {
        data.resize(1_200 + rng.below(200) as usize, rng.next_u64() as u8);
    }
    let Some(real) = overheard.get(rng.below(overheard.len().max(1) as u64) as usize) else { return data };
    let copy = |data: &mut Vec<u8>, length: u64| {
        data.iter_mut().zip(real).take(length as usize).for_each(|(to, from)| *to = *from);
    };
    match (stranger, rng.below(4)) {
        (Stranger::Guesses(known), _) => copy(&mut data, known),
        (Stranger::Overhears, 0) => {}
        (Stranger::Overhears, 1) => copy(&mut data, rng.below(64)),
        (Stranger::Overhears, 2) => real[..rng.below(real.len() as u64) as usize].clone_into(&mut data),
        (Stranger::Overhears, _) => {
            real.clone_into(&mut data);
            let bit = rng.below(real.len() as u64 * 8);
            data[bit as usize / 8] ^= 1 << (bit % 8);
        }
    }
    data
}

/// Memory of this process, where the system tells; 0 elsewhere.
fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    pages.and_then(|line| line.split(' ').nth(1)?.parse::<u64>().ok()).unwrap_or(0) * 4_096
}
