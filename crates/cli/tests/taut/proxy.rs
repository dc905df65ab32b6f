//! Two proxies on loopback, as two processes, and applications that know nothing of them.
#![expect(clippy::disallowed_methods, reason = "a command is held up in real time")]

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use crate::sessions::Running;
use crate::world::World;

#[test]
fn what_an_application_says_arrives_and_is_answered() {
    let world = World::new("proxy");
    let [near_id, far_id] = ["near", "far"].map(|who| world.taut(&format!("identity --path {who}")).out);
    let robot = UdpSocket::bind("127.0.0.1:0").unwrap();
    robot.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let application = robot.local_addr().unwrap();
    let mut far = Running::start(world.command(&format!(
        "proxy --listen 127.0.0.1:0 --to udp:{application} --identity far --trust {} --json",
        near_id.trim()
    )));
    let at = far.wait_for("listening")["address"].as_str().unwrap().to_owned();
    let mut near = Running::start(world.command(&format!(
        "proxy --listen udp:0 --to {at} --identity near --trust {} --path lo --path 127.0.0.1 --json",
        far_id.trim()
    )));
    let beside = near.wait_for("listening")["address"].as_str().unwrap().to_owned();
    near.wait_for("connected");
    let operator = UdpSocket::bind("127.0.0.1:0").unwrap();
    operator.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut buffer = [0; 100];
    operator.send_to(b"walk", &beside).unwrap();
    let (len, from) = (0..50).find_map(|_| robot.recv_from(&mut buffer).ok()).expect("what was said arrives");
    assert_eq!(&buffer[..len], b"walk");
    robot.send_to(b"walking", from).unwrap();
    assert_eq!(operator.recv_from(&mut buffer).unwrap().0, 7);
    assert_eq!(&buffer[..7], b"walking");
    let (status, last) = near.end("-INT");
    assert_eq!((status, &last["event"]), (0, &"summary".into()), "{last}");
    assert_eq!((&last["taken"], &last["given"], &last["flows"]), (&1.into(), &1.into(), &1.into()), "{last}");
    far.wait_for("closed");
    let (status, last) = far.end("-TERM");
    assert_eq!((status, &last["taken"], &last["given"]), (0, &1.into(), &1.into()), "{last}");
}

/// Carries datagrams between `client` and whoever spoke to `outer` last, but none for so long; then those that waited.
fn relay(outer: &UdpSocket, inner: &UdpSocket, time: Duration) {
    let (until, mut client, mut buffer) = (Instant::now() + time, None, [0; 2_000]);
    for socket in [outer, inner] {
        socket.set_nonblocking(true).unwrap();
    }
    while Instant::now() < until {
        if let Ok((len, from)) = outer.recv_from(&mut buffer) {
            client = Some(from);
            let _ = inner.send(&buffer[..len]);
        } else if let (Ok(len), Some(client)) = (inner.recv(&mut buffer), client) {
            let _ = outer.send_to(&buffer[..len], client);
        } else {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn a_command_that_was_held_up_on_the_way_is_dropped_as_too_late_and_the_summary_says_so() {
    let world = World::new("proxy-stale");
    let [near_id, far_id] = ["near", "far"].map(|who| world.taut(&format!("identity --path {who}")).out);
    let robot = UdpSocket::bind("127.0.0.1:0").unwrap();
    robot.set_nonblocking(true).unwrap();
    let application = robot.local_addr().unwrap();
    let mut far = Running::start(world.command(&format!(
        "proxy --listen 127.0.0.1:0 --to udp:{application} --identity far --trust {} --transport udp --json",
        near_id.trim()
    )));
    let at = far.wait_for("listening")["address"].as_str().unwrap().to_owned();
    let [outer, inner] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    inner.connect(at).unwrap();
    let between = outer.local_addr().unwrap();
    let mut near = Running::start(world.command(&format!(
        "proxy --listen udp:0 --to {between} --identity near --trust {} --transport udp --json",
        far_id.trim()
    )));
    let beside = near.wait_for("listening")["address"].as_str().unwrap().to_owned();
    let operator = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut buffer = [0; 100];
    let mut hears = |text: &[u8]| {
        let mut heard = false;
        while let Ok(len) = robot.recv(&mut buffer) {
            assert_ne!(&buffer[..len], b"stale");
            heard |= &buffer[..len] == text;
        }
        heard
    };
    let mut arrives = |text: &[u8]| {
        (0..200).any(|_| {
            operator.send_to(text, &beside).unwrap();
            relay(&outer, &inner, Duration::from_millis(50));
            hears(text)
        })
    };
    assert!(arrives(b"first"));
    for _ in 0..20 {
        operator.send_to(b"stale", &beside).unwrap();
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(800));
    assert!(arrives(b"fresh"));
    near.end("-INT");
    let (status, last) = far.end("-TERM");
    assert!(status == 0 && last["dropped"]["too_late"].as_u64() >= Some(20), "{last}");
}
