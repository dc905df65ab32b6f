//! A session with ETP's gap, as two processes with somebody between them who counts datagrams.
#![expect(clippy::disallowed_methods, reason = "commands run in real time")]

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::sessions::{Running, for_a_while};
use crate::world::World;

/// Passes datagrams on between whoever sends to `outer` and the peer of `inner`, until its test ends; gives the number of those
/// towards `inner`.
fn relay(outer: UdpSocket, inner: UdpSocket) -> Arc<AtomicU64> {
    let counted = Arc::new(AtomicU64::new(0));
    let shared = Arc::clone(&counted);
    for socket in [&outer, &inner] {
        socket.set_nonblocking(true).unwrap();
    }
    std::thread::spawn(move || {
        let (mut client, mut buffer) = (None, [0; 2_000]);
        while Arc::strong_count(&shared) > 1 {
            if let Ok((len, from)) = outer.recv_from(&mut buffer) {
                client = Some(from);
                shared.fetch_add(1, Ordering::Relaxed);
                let _ = inner.send(&buffer[..len]);
            } else if let (Ok(len), Some(client)) = (inner.recv(&mut buffer), client) {
                let _ = outer.send_to(&buffer[..len], client);
            } else {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    });
    counted
}

#[test]
fn datagrams_keep_the_gap_and_a_stop_comes_through() {
    let world = World::new("gap");
    let etp = "--transport etp --gap 50ms --plaintext --json --commands";
    let mut robot = Running::start(
        world.command(&format!("robot --listen 127.0.0.1:0 --watchdog 10s --state robot {etp}")),
    );
    let at = robot.wait_for("listening")["address"].as_str().unwrap().to_owned();
    let [outer, inner] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    inner.connect(at).unwrap();
    let between = outer.local_addr().unwrap();
    let count = relay(outer, inner);
    let begin = Instant::now();
    let mut operator = Running::start(world.command(&format!(
        "operator --connect {between} --resume start --deadline 1s --state operator {etp}"
    )));
    operator.wait_for("resumed");
    for_a_while(1_500);
    // A slow machine sends less, never more; what is urgent, such as the word to resume, goes besides.
    let sent = count.load(Ordering::Relaxed);
    let most = u64::try_from(begin.elapsed().as_millis()).unwrap() / 50 + 100;
    assert!(sent > 0 && sent < most, "{sent} datagrams, at most {most}");
    operator.say("e");
    let stopped = robot.find(|line| line["event"] == "stopped" && line["why"] == "emergency");
    assert!(stopped.is_some(), "the robot was told to stop");
}
