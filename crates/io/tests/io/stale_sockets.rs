//! No application gets what is stale: two real proxies with a relay between them that stands still.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration as StdDuration, Instant};

use taut_core::{DropCause, Duration};
use taut_io::proxy::ProxyConfig;
use taut_io::session::TransportKind;

use crate::proxy::{credentials_of_both, far, near};
use crate::stale::{application, dropped};

/// Between two real proxies; what comes while it stands still waits in the kernel's buffers.
struct Relay {
    address: SocketAddr,
    stands: Arc<AtomicBool>,
    over: Arc<AtomicBool>,
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// Until it may go on; false when the test is over.
fn goes_on(stands: &AtomicBool, over: &AtomicBool) -> bool {
    while stands.load(Ordering::Relaxed) && !over.load(Ordering::Relaxed) {
        std::thread::sleep(StdDuration::from_millis(1));
    }
    !over.load(Ordering::Relaxed)
}

impl Relay {
    fn new(transport: TransportKind, to: SocketAddr) -> Self {
        let (stands, over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let flags = (Arc::clone(&stands), Arc::clone(&over));
        let address = if transport == TransportKind::Tcp { of_tcp(to, flags) } else { of_udp(to, flags) };
        Self { address, stands, over }
    }
}

type Flags = (Arc<AtomicBool>, Arc<AtomicBool>);

fn of_udp(to: SocketAddr, (stands, over): Flags) -> SocketAddr {
    let [outer, inner] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    let address = outer.local_addr().unwrap();
    inner.connect(to).unwrap();
    for socket in [&outer, &inner] {
        socket.set_nonblocking(true).unwrap();
    }
    std::thread::spawn(move || {
        let (mut client, mut buffer) = (None, [0; 2_000]);
        while goes_on(&stands, &over) {
            let mut idle = true;
            if let Ok((len, from)) = outer.recv_from(&mut buffer) {
                (client, idle) = (Some(from), false);
                let _ = inner.send(&buffer[..len]);
            }
            if let (Ok(len), Some(client)) = (inner.recv(&mut buffer), client) {
                idle = false;
                let _ = outer.send_to(&buffer[..len], client);
            }
            if idle {
                std::thread::sleep(StdDuration::from_micros(500));
            }
        }
    });
    address
}

fn of_tcp(to: SocketAddr, (stands, over): Flags) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    std::thread::spawn(move || {
        while goes_on(&stands, &over) {
            let Ok((outer, _)) = listener.accept() else {
                std::thread::sleep(StdDuration::from_millis(1));
                continue;
            };
            let Ok(inner) = TcpStream::connect(to) else { continue };
            for (from, to) in [(&outer, &inner), (&inner, &outer)] {
                let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                from.set_nonblocking(false).unwrap();
                from.set_read_timeout(Some(StdDuration::from_millis(20))).unwrap();
                let (stands, over) = (Arc::clone(&stands), Arc::clone(&over));
                std::thread::spawn(move || {
                    let mut buffer = [0; 65_536];
                    while goes_on(&stands, &over) {
                        match from.read(&mut buffer) {
                            Ok(0) => return drop(to.shutdown(std::net::Shutdown::Write)),
                            Ok(len) if goes_on(&stands, &over) => {
                                let _ = to.write_all(&buffer[..len]);
                            }
                            _ => {}
                        }
                    }
                });
            }
        }
    });
    address
}

/// Says what time it is every 5 ms, and hears how old it is at the other end.
fn steer(
    operator: &UdpSocket,
    to: SocketAddr,
    robot: &UdpSocket,
    began: Instant,
    time: StdDuration,
    got: &mut Vec<(StdDuration, StdDuration)>,
) {
    let until = began.elapsed() + time;
    let mut said = [0; 8];
    while began.elapsed() < until {
        operator.send_to(&(began.elapsed().as_nanos() as u64).to_be_bytes(), to).unwrap();
        std::thread::sleep(StdDuration::from_millis(5));
        while robot.recv(&mut said).is_ok() {
            got.push((StdDuration::from_nanos(u64::from_be_bytes(said)), began.elapsed()));
        }
    }
}

#[test]
fn over_a_real_network_that_stands_still_for_two_seconds_nothing_stale_comes_out_and_fresh_commands_do() {
    for transport in [TransportKind::Tcp, TransportKind::Udp, TransportKind::Mtip, TransportKind::Quic] {
        let ids = credentials_of_both();
        let deadline = Duration::from_millis(500);
        let config = ProxyConfig::new().deadline(Some(deadline));
        let (robot, operator) = (application(), application());
        let any = "127.0.0.1:0".parse().unwrap();
        let (far, at) = far(transport, any, robot.local_addr().unwrap(), &ids, config);
        let relay = Relay::new(transport, at);
        let (near, to) = near(transport, relay.address, &ids, config);
        let (began, mut got) = (Instant::now(), Vec::new());
        // As long as it takes on a busy machine until there is a session.
        while got.is_empty() {
            assert!(began.elapsed() < StdDuration::from_secs(20), "{transport}: there is no session");
            steer(&operator, to, &robot, began, StdDuration::from_millis(500), &mut got);
        }
        relay.stands.store(true, Ordering::Relaxed);
        // Shorter than the silence after which a session is over, so that what waits is not lost with it.
        steer(&operator, to, &robot, began, StdDuration::from_millis(1_700), &mut got);
        relay.stands.store(false, Ordering::Relaxed);
        let again = began.elapsed();
        let fresh =
            |got: &[(StdDuration, StdDuration)]| got.iter().filter(|(said, _)| *said >= again).count();
        while fresh(&got) < 50 {
            assert!(
                again + StdDuration::from_secs(20) > began.elapsed(),
                "{transport}: nothing comes any more"
            );
            steer(&operator, to, &robot, began, StdDuration::from_millis(200), &mut got);
        }
        let (near, far) = (near.stop(), far.stop());
        // This thread reads a little after the proxy gave it.
        let slack = StdDuration::from_millis(700);
        let stale = got
            .iter()
            .filter(|(said, at)| *at - *said >= StdDuration::from_nanos(deadline.as_nanos()) + slack);
        assert_eq!(stale.count(), 0, "{transport}: {near:?} {far:?}");
        if matches!(transport, TransportKind::Tcp | TransportKind::Udp) {
            assert!(dropped(&far, DropCause::TooLate) >= 50, "{transport}: {far:?}");
        }
    }
}
