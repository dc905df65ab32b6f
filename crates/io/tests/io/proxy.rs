//! Applications that know nothing, over one session.

use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration as StdDuration;

use taut_core::{DropCause, Duration};
use taut_io::proxy::{ProxyCommand, ProxyConfig, ProxyLocal, ProxyMachine, ProxyNote, ProxyStats, proxy};
use taut_io::session::{Credentials, Endpoint, Remote, TransportConfig, TransportKind, os_identity};
use taut_io::{Clock, Driver, DriverConfig};
use taut_transport::identity::{Identity, Trust};

/// A proxy on a thread of its own; it ends with its test.
pub(crate) struct Running {
    remote: Remote<ProxyMachine>,
    thread: Option<JoinHandle<ProxyStats>>,
}

impl Running {
    fn start(endpoint: Endpoint, local: ProxyLocal, config: ProxyConfig) -> Self {
        let (sender, remotes) = channel();
        let thread = std::thread::spawn(move || {
            let driver = Driver::new(DriverConfig::new()).unwrap();
            let started = |remote| sender.send(remote).unwrap();
            proxy(driver, &endpoint, local, config, None, started, &mut |_, _: ProxyNote| {}).unwrap()
        });
        Self { remote: remotes.recv().unwrap(), thread: Some(thread) }
    }

    pub(crate) fn stop(mut self) -> ProxyStats {
        self.remote.send(ProxyCommand::Close);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.remote.send(ProxyCommand::Close);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Two proxies on loopback, and an application at the far end.
struct Pair {
    /// Where applications send to.
    near_address: SocketAddr,
    near: Running,
    far: Running,
    far_address: SocketAddr,
    identities: [Identity; 2],
}

fn credentials(own: &Identity, other: &Identity) -> Option<Credentials> {
    Some(Credentials { identity: own.clone(), trust: Trust::only(other.fingerprint()) })
}

/// Of a near end and a far one.
pub(crate) fn credentials_of_both() -> [Identity; 2] {
    [os_identity(), os_identity()]
}

pub(crate) fn near(
    transport: TransportKind,
    to: SocketAddr,
    ids: &[Identity; 2],
    config: ProxyConfig,
) -> (Running, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let transport = TransportConfig::from(transport);
    let endpoint = Endpoint::connect(transport, to, credentials(&ids[0], &ids[1]), &Clock::start()).unwrap();
    (Running::start(endpoint, ProxyLocal::Near(socket), config), address)
}

pub(crate) fn far(
    transport: TransportKind,
    at: SocketAddr,
    application: SocketAddr,
    ids: &[Identity; 2],
    config: ProxyConfig,
) -> (Running, SocketAddr) {
    let transport = TransportConfig::from(transport);
    let endpoint = Endpoint::listen(transport, at, credentials(&ids[1], &ids[0]), &Clock::start()).unwrap();
    let address = endpoint.local_addr().unwrap();
    (Running::start(endpoint, ProxyLocal::Far(application), config), address)
}

impl Pair {
    fn new(transport: TransportKind, application: SocketAddr, config: ProxyConfig) -> Self {
        let identities = credentials_of_both();
        let any = "127.0.0.1:0".parse().unwrap();
        let (far, far_address) = far(transport, any, application, &identities, config);
        let (near, near_address) = near(transport, far_address, &identities, config);
        Self { near_address, near, far, far_address, identities }
    }
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(StdDuration::from_millis(100))).unwrap();
    socket
}

/// Says something until the answer comes, 10 s at most.
fn ask(client: &UdpSocket, to: SocketAddr, text: &[u8]) -> Vec<u8> {
    let mut buffer = [0; 2_000];
    for _ in 0..100 {
        client.send_to(text, to).unwrap();
        while let Ok(len) = client.recv(&mut buffer) {
            if buffer[..len].ends_with(text) {
                return buffer[..len].to_vec();
            }
        }
    }
    panic!("no answer to {text:?}");
}

/// Answers with the port that it was asked from, and what was asked.
fn echo(socket: UdpSocket) -> SocketAddr {
    let address = socket.local_addr().unwrap();
    socket.set_read_timeout(Some(StdDuration::from_secs(20))).unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 2_000];
        while let Ok((len, from)) = socket.recv_from(&mut buffer) {
            let answer = [&from.port().to_be_bytes()[..], &buffer[..len]].concat();
            if socket.send_to(&answer, from).is_err() {
                return;
            }
        }
    });
    address
}

#[test]
fn several_applications_share_a_session_and_each_gets_its_own_answers() {
    for transport in TransportKind::SHIPPED {
        let pair = Pair::new(transport, echo(socket()), ProxyConfig::new());
        let clients: Vec<UdpSocket> = (0..5).map(|_| socket()).collect();
        let mut ports = BTreeSet::new();
        for round in 0..3 {
            for (n, client) in clients.iter().enumerate() {
                let text = format!("client {n} says {round}");
                let answer = ask(client, pair.near_address, text.as_bytes());
                assert_eq!(&answer[2..], text.as_bytes(), "{transport}");
                ports.insert([answer[0], answer[1]]);
            }
        }
        assert_eq!(ports.len(), 5, "{transport}: the application there tells them apart by their ports");
        let (near, far) = (pair.near.stop(), pair.far.stop());
        assert_eq!((near.flows, far.flows), (5, 5), "{transport}");
        assert!(near.given >= 15 && near.taken >= near.sent, "{transport}: {near:?}");
    }
}

#[test]
fn flows_are_bounded_and_end_when_nothing_is_said() {
    let config = ProxyConfig::new().flows(2).idle(Duration::from_secs(1));
    let pair = Pair::new(TransportKind::Udp, echo(socket()), config);
    let [a, b, c] = [socket(), socket(), socket()];
    ask(&a, pair.near_address, b"a");
    ask(&b, pair.near_address, b"b");
    c.send_to(b"c", pair.near_address).unwrap();
    assert!(c.recv(&mut [0; 10]).is_err(), "there is no room for a third");
    std::thread::sleep(StdDuration::from_millis(2_500));
    ask(&c, pair.near_address, b"c");
    let (near, far) = (pair.near.stop(), pair.far.stop());
    assert_eq!((near.flows, near.flows_idle, near.flows_full), (3, 2, 1));
    assert_eq!(near.dropped.get(&DropCause::SendBufferFull), Some(&1));
    assert_eq!(far.flows, 3);
}

#[test]
fn what_nobody_takes_and_what_is_too_long_is_counted() {
    let nobody = socket().local_addr().unwrap();
    let pair = Pair::new(TransportKind::Mtip, nobody, ProxyConfig::new());
    let client = socket();
    for _ in 0..20 {
        client.send_to(b"is anybody there?", pair.near_address).unwrap();
        client.send_to(&[7; 1_450], pair.near_address).unwrap();
        std::thread::sleep(StdDuration::from_millis(50));
    }
    let (near, far) = (pair.near.stop(), pair.far.stop());
    assert_eq!(near.dropped.get(&DropCause::TooBig), Some(&20), "{near:?}");
    assert!(far.refused_here > 0 && far.given > 0, "the kernel told of it: {far:?}");
}

#[test]
fn a_far_end_that_is_started_again_is_found_again() {
    let application = echo(socket());
    let config = ProxyConfig::new();
    let Pair { near_address, near, far: first, far_address, identities } =
        Pair::new(TransportKind::Mtip, application, config);
    let client = socket();
    ask(&client, near_address, b"before");
    first.stop();
    let (second, _) = far(TransportKind::Mtip, far_address, application, &identities, config);
    ask(&client, near_address, b"after");
    assert_eq!((near.stop().flows, second.stop().flows), (1, 1));
}

#[test]
fn a_near_end_that_was_there_before_the_far_one_waits_for_it() {
    let identities = credentials_of_both();
    let place = socket();
    let at = place.local_addr().unwrap();
    drop(place);
    let (_near, near_address) = near(TransportKind::Mtip, at, &identities, ProxyConfig::new());
    let client = socket();
    client.send_to(b"too early", near_address).unwrap();
    std::thread::sleep(StdDuration::from_millis(500));
    let _far = far(TransportKind::Mtip, at, echo(socket()), &identities, ProxyConfig::new());
    ask(&client, near_address, b"now");
}

#[test]
fn a_flow_in_which_nothing_is_said_gives_way_to_another_and_one_that_speaks_does_not() {
    let config = ProxyConfig::new().flows(2);
    let pair = Pair::new(TransportKind::Udp, echo(socket()), config);
    let [speaks, silent, new] = [socket(), socket(), socket()];
    ask(&silent, pair.near_address, b"once");
    std::thread::sleep(StdDuration::from_millis(1_500));
    ask(&speaks, pair.near_address, b"now");
    ask(&new, pair.near_address, b"there is room");
    ask(&speaks, pair.near_address, b"still");
    let (near, far) = (pair.near.stop(), pair.far.stop());
    assert_eq!((near.flows, near.flows_idle, near.flows_full), (3, 1, 0), "{near:?}");
    assert_eq!((far.flows, far.flows_idle, far.flows_full), (3, 1, 0), "{far:?}");
}

#[test]
fn what_the_transport_refuses_is_counted() {
    let pair = Pair::new(TransportKind::Mtip, echo(socket()), ProxyConfig::new());
    ask(&socket(), pair.near_address, b"there");
    for _ in 0..3 {
        socket().send_to(b"not of this protocol", pair.far_address).unwrap();
    }
    std::thread::sleep(StdDuration::from_millis(300));
    pair.near.stop();
    let far = pair.far.stop();
    assert_eq!(far.refused.get(&DropCause::Malformed), Some(&3), "{:?}", far.refused);
}

#[test]
fn a_proxy_that_refuses_is_asked_ever_less_often() {
    let [trusted, stranger, robot] = [os_identity(), os_identity(), os_identity()];
    let any = "127.0.0.1:0".parse().unwrap();
    let (_far, to) =
        far(TransportKind::Quic, any, echo(socket()), &[trusted, robot.clone()], ProxyConfig::new());
    let endpoint =
        Endpoint::connect(TransportKind::Quic, to, credentials(&stranger, &robot), &Clock::start()).unwrap();
    let (sender, remotes) = channel();
    let thread = std::thread::spawn(move || {
        let driver = Driver::new(DriverConfig::new()).unwrap();
        let (local, config, mut closed) = (ProxyLocal::Near(socket()), ProxyConfig::new(), 0);
        let started = |remote| sender.send(remote).unwrap();
        let mut tell = |_, note| closed += u32::from(matches!(note, ProxyNote::Closed(_)));
        proxy(driver, &endpoint, local, config, None, started, &mut tell).unwrap();
        closed
    });
    let remote = remotes.recv().unwrap();
    std::thread::sleep(StdDuration::from_secs(4));
    remote.send(ProxyCommand::Close);
    // At once, and after 0.4, 0.8, 1.6 and 3.2 s; every 0.2 s it would be twenty times.
    let closed = thread.join().unwrap();
    assert!((2..=6).contains(&closed), "{closed} times");
}

#[test]
fn a_path_that_carries_nothing_is_up_on_real_sockets_and_the_report_says_why_datagrams_took_the_other() {
    let ids = [os_identity(), os_identity()];
    let any = "127.0.0.1:0".parse().unwrap();
    let config = ProxyConfig::new().deadline(Some(Duration::from_millis(200)));
    let (far, far_address) = far(TransportKind::Mtip, any, echo(socket()), &ids, config);
    let endpoint =
        Endpoint::connect(TransportKind::Mtip, far_address, credentials(&ids[0], &ids[1]), &Clock::start());
    let endpoint = endpoint.unwrap().over(&["lo".parse().unwrap(), "127.0.0.1".parse().unwrap()]).unwrap();
    let applications = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = applications.local_addr().unwrap();
    let near = Running::start(endpoint, ProxyLocal::Near(applications), config);
    let client = socket();
    // A probe each 100 ms on the path that is not in use: a dozen.
    for number in 0..60u8 {
        ask(&client, address, &[number]);
        std::thread::sleep(StdDuration::from_millis(20));
    }
    let stats = near.stop();
    let report = stats.choices.expect("MTIP has one");
    // The questions about clocks are messages too.
    assert!(report.stats.at_once.iter().sum::<u64>() > stats.sent, "{report:?}");
    assert!(report.stats.at_once[0] >= 55, "{report:?}");
    assert_eq!((report.paths.len(), report.deadline), (2, Duration::from_millis(200)));
    for path in &report.paths {
        assert!(path.up && path.loss < 0.1 && path.in_time > 0.9, "{report:?}");
        assert!(path.one_way_p50.unwrap() < Duration::from_millis(50), "{report:?}");
    }
    drop(far);
}

#[test]
fn a_datagram_that_is_too_long_to_be_sealed_is_counted_and_the_next_one_goes() {
    let pair = Pair::new(TransportKind::Tcp, echo(socket()), ProxyConfig::new());
    let client = socket();
    assert!(ask(&client, pair.near_address, b"before").ends_with(b"before"));
    client.send_to(&[0; 65_500], pair.near_address).unwrap();
    assert!(ask(&client, pair.near_address, b"after").ends_with(b"after"));
    let stats = pair.near.stop();
    assert_eq!(stats.dropped.values().sum::<u64>(), 1, "{:?}", stats.dropped);
}
