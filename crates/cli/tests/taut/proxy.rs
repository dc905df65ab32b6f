//! Two proxies on loopback, as two processes, and applications that know nothing of them.

use std::net::UdpSocket;
use std::time::Duration;

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
