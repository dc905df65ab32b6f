//! Every stack that can be specified is built, and carries messages both ways.

use taut_core::{Datagram, Duration, Ecn, Event, Message, PathId, Protocol, Rng, Seed, Time, Transport};
use taut_transport::dccp::DccpConfig;
use taut_transport::entropy::Entropy;
use taut_transport::etp::EtpConfig;
use taut_transport::identity::{Identity, Trust};
use taut_transport::mptcp::MptcpConfig;
use taut_transport::mtip::MtipConfig;
use taut_transport::quic::{PathUse, QuicConfig};
use taut_transport::sctp::SctpConfig;
use taut_transport::security::SecurityConfig;
use taut_transport::service::Service;
use taut_transport::stack::{
    Bare, Part, Protection, Randomness, Side, Stack, StackError, StackSpec, TransportKind, Trouble,
};
use taut_transport::tcp::TcpConfig;
use taut_transport::udp::UdpConfig;

use crate::net::MS;

struct Seeded(Side);

impl Seeded {
    fn name(&self, part: Part) -> String {
        format!("{}/{}", self.0.name(), part.name())
    }
}

impl Randomness for Seeded {
    fn entropy(&mut self, part: Part) -> Entropy {
        Entropy::seeded(Seed::new(1), &self.name(part))
    }
    fn rng(&mut self, part: Part) -> Rng {
        Seed::new(1).stream(&self.name(part))
    }
}

fn specs() -> Vec<StackSpec> {
    vec![
        StackSpec::Udp(UdpConfig::new()),
        StackSpec::Etp(EtpConfig::fixed(MS)),
        StackSpec::Tcp(TcpConfig::default()),
        StackSpec::SpacedTcp { tcp: TcpConfig::default(), gap: MS, urgent: None },
        StackSpec::Quic(QuicConfig::new()),
        StackSpec::Mpquic(QuicConfig::multipath(PathUse::FailOver)),
        StackSpec::Sctp(SctpConfig::new()),
        StackSpec::Dccp(DccpConfig::new()),
        StackSpec::Mtip(MtipConfig::new()),
        StackSpec::Mptcp(MptcpConfig::default()),
        StackSpec::EveryPath(UdpConfig::new()),
    ]
}

fn protection(side: Side) -> Protection {
    let identity = |side: Side| Identity::from_seed(Seed::new(1), side.name());
    Protection::new(identity(side), Trust::only(identity(side.peer()).fingerprint()))
}

/// What is on its way to one end, and when it is there.
type Wire = Vec<(Time, PathId, Vec<u8>)>;

/// Of two ends, the messages that each received within a second over two paths of 5 ms.
fn carried(spec: &StackSpec, protected: bool) -> ([Stack; 2], [Vec<Vec<u8>>; 2]) {
    let mut ends = [Side::Opens, Side::Waits].map(|side| {
        let protection = protected.then(|| protection(side));
        Stack::new(spec.clone(), side, protection, Seeded(side)).expect("it can be")
    });
    let added = (0..2).map(|path| ends[0].add_path(Time::ZERO, PathId(path))).filter(|added| *added).count();
    assert_eq!(added, if spec.kind().is_multipath() { 2 } else { 0 }, "{:?}", ends[0]);
    let (mut wires, mut got): ([Wire; 2], [Vec<Vec<u8>>; 2]) = Default::default();
    for ms in 0..1_000 {
        let now = Time::ZERO + MS * ms;
        for at in 0..2 {
            let (due, later) = std::mem::take(&mut wires[at]).into_iter().partition(|(due, ..)| *due <= now);
            wires[at] = later;
            let due: Wire = due;
            for (_, path, data) in &due {
                ends[at].handle_input(now, Datagram { path: *path, ecn: Ecn::NotCapable, data, padding: 0 });
            }
            if ends[at].poll_timeout().is_some_and(|deadline| deadline.at <= now) {
                ends[at].handle_timeout(now);
            }
            if ms % 100 == 50 {
                let message = Message { data: vec![at as u8, ms as u8], created: now, ..Message::default() };
                ends[at].send(now, message).expect("there is room");
            }
            let mut data = Vec::new();
            while let Some(sent) = ends[at].poll_transmit(now, &mut data) {
                data.resize(data.len() + sent.padding as usize, 0);
                wires[1 - at].push((now + MS * 5, sent.path, std::mem::take(&mut data)));
            }
            got[at].extend(std::iter::from_fn(|| ends[at].poll_event()).filter_map(|event| match event {
                Event::Received { data, .. } => Some(data),
                _ => None,
            }));
        }
    }
    (ends, got)
}

#[test]
fn every_transport_carries_messages_both_ways_in_the_clear_and_under_protection() {
    for spec in specs() {
        for protected in [false, true] {
            if spec.kind().is_always_encrypted() && !protected {
                continue;
            }
            let (ends, got) = carried(&spec, protected);
            for (at, got) in got.iter().enumerate() {
                let other = 1 - at as u8;
                assert!(got.len() >= 8, "{:?}: {at} got {got:?}", ends[at]);
                assert!(got.iter().all(|data| data[0] == other), "{:?}: {got:?}", ends[at]);
            }
            assert!(!ends[0].counts().is_empty());
            assert_eq!(ends[0].protocol(), spec.kind().protocol());
            assert!(
                ends[0].overhead() > ends[0].headers()
                    || matches!(ends[0].bare(), Bare::Udp(_) | Bare::EveryPath(_))
            );
        }
    }
}

#[test]
fn noise_is_around_datagrams_or_around_the_messages_of_a_stream() {
    for spec in specs() {
        let stack = Stack::new(spec.clone(), Side::Waits, Some(protection(Side::Waits)), Seeded(Side::Waits))
            .unwrap();
        let kind = spec.kind();
        let fits = match &stack {
            Stack::Plain(_) => kind.is_always_encrypted(),
            Stack::Sealed(_) => kind.protocol() == Protocol::Tcp,
            Stack::Secured(_) => kind.protocol() == Protocol::Udp && !kind.is_always_encrypted(),
        };
        assert!(fits, "{stack:?}");
        assert_eq!(stack.serves_again(), matches!(stack, Stack::Secured(_)));
        assert_eq!((stack.busy(), stack.is_open()), (0, false));
    }
}

#[test]
fn what_cannot_be_is_said_and_not_built() {
    let build = |spec, protection| Stack::new(spec, Side::Opens, protection, Seeded(Side::Opens)).map(|_| ());
    let quic = StackSpec::Quic(QuicConfig::new());
    assert_eq!(build(quic, None), Err(StackError::AlwaysEncrypted(TransportKind::Quic)));
    let me = Identity::from_bytes([1; 32]);
    let nobody = Protection::new(me.clone(), Trust::default());
    assert_eq!(build(StackSpec::Udp(UdpConfig::new()), Some(nobody)), Err(StackError::OnePeer));
    let gap = Duration::from_secs(3_600);
    let spaced = StackSpec::SpacedTcp { tcp: TcpConfig::default(), gap, urgent: None };
    assert!(matches!(build(spaced, None), Err(StackError::Etp(_))));
}

/// Until neither has more to say, without delay.
fn exchange(now: Time, operator: &mut Stack, robot: &mut Stack) {
    for _ in 0..4 {
        for (from, to) in [(0, 1), (1, 0)] {
            let ends = [&mut *operator, &mut *robot];
            let mut data = Vec::new();
            while let Some(sent) = ends[from].poll_transmit(now, &mut data) {
                let input = Datagram { path: sent.path, ecn: Ecn::NotCapable, data: &data, padding: 0 };
                ends[to].handle_input(now, input);
                data.clear();
            }
        }
    }
}

#[test]
fn that_another_operator_has_the_robot_is_told_for_as_long_as_the_robot_says_so() {
    let udp = || StackSpec::Udp(UdpConfig::new());
    let identity = |name| Identity::from_seed(Seed::new(1), name);
    let names = ["first", "second"];
    let trust: Trust = names.map(|name| identity(name).fingerprint()).into_iter().collect();
    let protection = Protection::new(identity("robot"), trust);
    let mut robot = Stack::new(udp(), Side::Waits, Some(protection), Seeded(Side::Waits)).unwrap();
    let [mut first, mut second] = names.map(|name| {
        let protection = Protection::new(identity(name), Trust::only(identity("robot").fingerprint()));
        Stack::new(udp(), Side::Opens, Some(protection), Seeded(Side::Opens)).unwrap()
    });
    let turn = |ms: u64, operator: &mut Stack, robot: &mut Stack| {
        let now = Time::ZERO + MS * ms;
        operator.handle_timeout(now);
        exchange(now, operator, robot);
    };
    turn(0, &mut first, &mut robot);
    turn(10, &mut second, &mut robot);
    assert_eq!(second.trouble(), Trouble::Busy);
    first.close(Time::ZERO + MS * 20);
    turn(20, &mut first, &mut robot);
    turn(2_000, &mut second, &mut robot);
    assert!(second.is_open());
    robot.send(Time::ZERO + MS * 2_000, Message { data: vec![1], ..Message::default() }).unwrap();
    turn(2_000, &mut second, &mut robot);
    robot.close(Time::ZERO + MS * 2_010);
    turn(2_010, &mut second, &mut robot);
    assert!(matches!(second.trouble(), Trouble::Ended(_)), "{}", second.trouble());
}

#[test]
fn an_operator_learns_what_stands_in_the_way() {
    let spec = StackSpec::Udp(UdpConfig::new());
    let proxy = protection(Side::Waits).config(SecurityConfig::new().service(Service::Proxy));
    let mut robot = Stack::new(spec.clone(), Side::Waits, Some(proxy), Seeded(Side::Waits)).unwrap();
    let mut operator =
        Stack::new(spec, Side::Opens, Some(protection(Side::Opens)), Seeded(Side::Opens)).unwrap();
    assert_eq!(operator.trouble(), Trouble::NoAnswer);
    operator.handle_timeout(Time::ZERO);
    exchange(Time::ZERO, &mut operator, &mut robot);
    assert!(matches!(operator.trouble(), Trouble::Ended(why) if why.contains("proxy")));
}
