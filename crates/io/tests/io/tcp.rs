//! Kernel TCP on loopback, through the driver.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration as StdDuration;

use taut_core::{
    Bytes, DropCause, Duration, Event, Message, Priority, Reliability, Time, Transport, Waiting,
};
use taut_io::tcp::{Bulk, BulkConfig, KernelTcp, KernelTcpConfig};
use taut_io::{Driver, DriverConfig, MachineId, Plain};

use crate::machines::turn_until;

/// The peer reads nothing: the kernel has bytes that it cannot send.
#[test]
fn what_the_kernel_cannot_send_waits_here_and_an_emergency_does_not() {
    let listener = narrow_listener();
    let mut client = KernelTcp::client(listener.local_addr().unwrap(), KernelTcpConfig::new()).unwrap();
    let (_peer, _) = listener.accept().unwrap();
    let turn = |client: &mut KernelTcp| {
        client.handle_timeout(Time::ZERO);
        assert!(client.poll_transmit(Time::ZERO, &mut Vec::new()).is_none());
    };
    for number in 0..10_000 {
        client.send(Time::ZERO, reliable(number, 60)).unwrap();
        turn(&mut client);
    }
    let sent = client.stats().bytes_sent;
    assert!(
        (client.waiting() == Waiting::Irreplaceable) && client.stats().blocked > 0 && sent < 300_000,
        "{sent}"
    );
    let stop = Message { priority: Priority(0), ..reliable(10_000, 60) };
    client.send(Time::ZERO, stop).unwrap();
    turn(&mut client);
    let with_it = client.stats().bytes_sent - sent;
    assert!((64..20_000).contains(&with_it), "{with_it}");
    assert_eq!(client.waiting(), Waiting::Irreplaceable);
}

/// The kernel says so at once: to a broadcast address there is no TCP.
#[test]
fn where_no_network_is_a_client_is_closed_and_may_try_again() {
    let mut client = KernelTcp::client("255.255.255.255:9".parse().unwrap(), KernelTcpConfig::new()).unwrap();
    assert_eq!((client.poll_event(), client.poll_event()), (Some(Event::Closed), None));
    assert_eq!(client.stats().connections, 0);
}

struct Ends {
    driver: Driver<Plain<KernelTcp>>,
    client: MachineId,
    server: MachineId,
}

fn add(driver: &mut Driver<Plain<KernelTcp>>, end: KernelTcp) -> MachineId {
    let descriptor = end.descriptor().unwrap();
    driver.add(Plain::new(end), descriptor).unwrap()
}

fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

/// One whose connections take in little that nobody reads.
fn narrow_listener() -> TcpListener {
    let listener = listener();
    socket2::SockRef::from(&listener).set_recv_buffer_size(8_192).unwrap();
    listener
}

fn server_only(config: KernelTcpConfig) -> (Driver<Plain<KernelTcp>>, MachineId, std::net::SocketAddr) {
    let mut driver = Driver::new(DriverConfig::new()).unwrap();
    let listener = listener();
    let address = listener.local_addr().unwrap();
    let server = add(&mut driver, KernelTcp::server(listener, config).unwrap());
    (driver, server, address)
}

fn ends(config: KernelTcpConfig) -> Ends {
    let (mut driver, server, address) = server_only(config);
    let client = add(&mut driver, KernelTcp::client(address, config).unwrap());
    Ends { driver, client, server }
}

fn reliable(tag: u64, len: usize) -> Message {
    let mut data = vec![0; len];
    data[..8].copy_from_slice(&tag.to_le_bytes());
    Message { data, reliability: Reliability::Reliable, priority: Priority(2), tag, ..Message::default() }
}

/// The numbers of the messages that `id` received, in order.
fn received(events: &[(MachineId, Event)], id: MachineId) -> Vec<u64> {
    let numbers = events.iter().filter(|(of, _)| *of == id).filter_map(|(_, event)| match event {
        Event::Received { data, .. } => Some(u64::from_le_bytes(data[..8].try_into().unwrap())),
        _ => None,
    });
    numbers.collect()
}

#[test]
fn every_message_arrives_once_and_in_order() {
    let Ends { mut driver, client, server } = ends(KernelTcpConfig::new().queue(Bytes::new(10_000_000)));
    const COUNT: u64 = 10_000;
    (0..COUNT).for_each(|tag| driver.command(client, reliable(tag, 75)));
    let events = turn_until(
        &mut driver,
        |events| matches!(events.last(), Some((_, Event::Received { data, .. })) if data[..8] == (COUNT - 1).to_le_bytes()),
    );
    assert_eq!(received(&events, server), (0..COUNT).collect::<Vec<_>>());
    assert!(events.contains(&(client, Event::Connected)) && events.contains(&(server, Event::Connected)));
    assert!(!events.iter().any(|(_, event)| matches!(event, Event::Dropped { .. })));
    let sent = driver.machine(client).unwrap().transport().stats().bytes_sent;
    assert_eq!(sent, COUNT * 79, "each with a length of four bytes");
}

#[test]
fn what_is_too_late_is_dropped_and_everything_else_arrives() {
    // A peer that does not read for a while: the window closes, messages wait here.
    let listener = narrow_listener();
    let config = KernelTcpConfig::new().queue(Bytes::new(2_000_000)).send_buffer(Bytes::new(8_192));
    let mut driver = Driver::new(DriverConfig::new()).unwrap();
    let client = add(&mut driver, KernelTcp::client(listener.local_addr().unwrap(), config).unwrap());
    let (mut peer, _) = listener.accept().unwrap();
    let mut events = turn_until(&mut driver, |events| !events.is_empty());
    let now = driver.clock().now();
    const COUNT: u64 = 1_000;
    for tag in 0..COUNT {
        let deadline = (tag % 2 == 0).then_some(Duration::from_millis(30));
        driver.command(client, Message { created: now, deadline, ..reliable(tag, 1_000) });
    }
    let pause = driver.clock().now() + Duration::from_millis(60);
    while driver.clock().now() < pause {
        driver.turn(pause, &mut |id, event| events.push((id, event))).unwrap();
    }
    let reader = std::thread::spawn(move || {
        peer.set_read_timeout(Some(StdDuration::from_secs(2))).unwrap();
        let (mut tags, mut message) = (BTreeSet::new(), [0; 1_004]);
        while peer.read_exact(&mut message).is_ok() {
            tags.insert(u64::from_le_bytes(message[4..12].try_into().unwrap()));
        }
        tags
    });
    while !reader.is_finished() {
        let soon = driver.clock().now() + Duration::from_millis(10);
        driver.turn(soon, &mut |id, event| events.push((id, event))).unwrap();
    }
    let arrived = reader.join().unwrap();
    let dropped: BTreeSet<u64> = events
        .iter()
        .filter_map(|(_, event)| match event {
            Event::Dropped { tag, cause: DropCause::TooLate } => Some(*tag),
            _ => None,
        })
        .collect();
    assert!(!dropped.is_empty() && dropped.iter().all(|tag| tag % 2 == 0), "{dropped:?}");
    assert!(arrived.is_disjoint(&dropped));
    assert_eq!(arrived.len() + dropped.len(), COUNT as usize);
}

#[test]
fn an_urgent_message_overtakes_a_full_queue() {
    let listener = narrow_listener();
    let config = KernelTcpConfig::new().queue(Bytes::new(1_000_000)).send_buffer(Bytes::new(16_384));
    let mut driver = Driver::new(DriverConfig::new()).unwrap();
    let client = add(&mut driver, KernelTcp::client(listener.local_addr().unwrap(), config).unwrap());
    let (mut peer, _) = listener.accept().unwrap();
    turn_until(&mut driver, |events| !events.is_empty());
    (0..900).for_each(|tag| driver.command(client, reliable(tag, 1_000)));
    driver.turn(driver.clock().now() + Duration::from_millis(10), &mut |_, _| ()).unwrap();
    driver.command(client, Message { priority: Priority(0), ..reliable(9_999, 1_000) });
    let driver = driver.spawn().unwrap();
    let mut message = [0; 1_004];
    let place = (0..).find(|_| {
        peer.read_exact(&mut message).unwrap();
        message[4..12] == 9_999u64.to_le_bytes()
    });
    // What the kernels on both sides had already was ahead of it.
    assert!(place.unwrap() < 150, "{place:?}");
    driver.stop().unwrap();
}

#[test]
fn a_second_peer_is_sent_away_and_the_first_does_not_notice() {
    let Ends { mut driver, client, server } = ends(KernelTcpConfig::new());
    driver.command(client, reliable(1, 8));
    turn_until(&mut driver, |events| received(events, server) == [1]);
    let address = driver.machine(client).unwrap().transport().peer_addr().unwrap();
    let mut second = TcpStream::connect(address).unwrap();
    let _ = second.write_all(&[0, 0, 0, 8, 9, 9, 9, 9, 9, 9, 9, 9]);
    driver.command(client, reliable(2, 8));
    let events = turn_until(&mut driver, |events| events.len() >= 2);
    assert!(events.contains(&(server, Event::Refused(DropCause::Unauthenticated))));
    assert_eq!(received(&events, server), [2]);
    second.set_read_timeout(Some(StdDuration::from_secs(2))).unwrap();
    assert!(matches!(second.read(&mut [0; 8]), Ok(0) | Err(_)), "it was closed");
}

#[test]
fn a_peer_that_says_nothing_is_sent_away_and_the_next_is_heard() {
    let config = KernelTcpConfig::new().first_message(Duration::from_millis(50));
    let (mut driver, server, address) = server_only(config);
    let silent = TcpStream::connect(address).unwrap();
    let events = turn_until(&mut driver, |events| !events.is_empty());
    assert_eq!(events, [(server, Event::Refused(DropCause::Unauthenticated))]);
    drop(silent);
    let client = add(&mut driver, KernelTcp::client(address, config).unwrap());
    driver.command(client, reliable(3, 8));
    let events = turn_until(&mut driver, |events| received(events, server) == [3]);
    assert!(events.contains(&(server, Event::Connected)));
}

#[test]
fn closing_says_goodbye_after_the_last_message_and_the_server_waits_for_the_next_peer() {
    let Ends { mut driver, client, server } = ends(KernelTcpConfig::new());
    let address = driver.machine(client).unwrap().transport().peer_addr().unwrap();
    turn_until(&mut driver, |events| events.contains(&(client, Event::Connected)));
    let now = driver.clock().now();
    let end = driver.machine_mut(client).unwrap().transport_mut();
    end.send(now, reliable(1, 8)).unwrap();
    end.close(now);
    assert!(end.send(now, reliable(2, 8)).is_err());
    let both =
        |events: &[_]| events.contains(&(client, Event::Closed)) && events.contains(&(server, Event::Closed));
    let events = turn_until(&mut driver, both);
    assert_eq!(received(&events, server), [1]);
    assert!(both(&events));
    let again = add(&mut driver, KernelTcp::client(address, KernelTcpConfig::new()).unwrap());
    driver.command(again, reliable(5, 8));
    let events = turn_until(&mut driver, |events| received(events, server) == [5]);
    assert_eq!(received(&events, server), [5]);
}

#[test]
fn what_may_not_have_arrived_is_reported_when_the_connection_breaks() {
    let listener = narrow_listener();
    let mut driver = Driver::new(DriverConfig::new()).unwrap();
    let address = listener.local_addr().unwrap();
    let client = add(&mut driver, KernelTcp::client(address, KernelTcpConfig::new()).unwrap());
    let (peer, _) = listener.accept().unwrap();
    turn_until(&mut driver, |events| !events.is_empty());
    (0..300).for_each(|tag| driver.command(client, reliable(tag, 1_000)));
    driver.turn(driver.clock().now() + Duration::from_millis(10), &mut |_, _| ()).unwrap();
    socket2::SockRef::from(&peer).set_linger(Some(StdDuration::ZERO)).unwrap();
    drop(peer); // A reset.
    let events = turn_until(&mut driver, |events| events.contains(&(client, Event::Closed)));
    let cut: Vec<u64> = events
        .iter()
        .filter_map(|(_, event)| match event {
            Event::Dropped { tag, cause: DropCause::Cut } => Some(*tag),
            _ => None,
        })
        .collect();
    // The peer's kernel had acknowledged some; from there on all are named, each once.
    let first = *cut.first().unwrap();
    assert!(first > 0 && first < 300);
    assert_eq!(cut, (first..300).collect::<Vec<_>>());
    assert_eq!(events.last(), Some(&(client, Event::Closed)));
}

#[test]
fn nobody_there_is_told_as_closed_with_what_had_been_sent() {
    let listener = listener();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let mut driver = Driver::new(DriverConfig::new()).unwrap();
    let client = add(&mut driver, KernelTcp::client(address, KernelTcpConfig::new()).unwrap());
    driver.command(client, reliable(1, 8));
    let events = turn_until(&mut driver, |events| events.contains(&(client, Event::Closed)));
    let cut = Event::Dropped { tag: 1, cause: DropCause::Cut };
    let closed = Event::Dropped { tag: 1, cause: DropCause::Abandoned };
    let told: Vec<_> = events.into_iter().map(|(_, event)| event).collect();
    // Loopback refuses so fast that the message may come after.
    assert!(told.contains(&cut) || told.contains(&closed), "{told:?}");
}

#[test]
fn a_peer_that_announces_too_much_is_cut_off() {
    let (mut driver, server, address) = server_only(KernelTcpConfig::new().max_message(Bytes::new(100)));
    let mut peer = TcpStream::connect(address).unwrap();
    peer.write_all(&[0, 0, 0, 1, 42, 0, 0, 0, 101, 1, 2, 3]).unwrap();
    let events = turn_until(&mut driver, |events| events.contains(&(server, Event::Closed)));
    assert!(events.contains(&(server, Event::Refused(DropCause::Malformed))));
    let one = matches!(&events[1].1, Event::Received { data, .. } if data == &[42]);
    assert!(one && events[0].1 == Event::Connected, "{events:?}");
}

#[test]
fn a_bulk_transfer_begins_when_it_is_told_and_counts_packets_as_long_as_it_is_told() {
    let config = BulkConfig { congestion: "reno", segment: Bytes::new(578), dscp: 10 };
    let mut driver = Driver::new(DriverConfig::new()).unwrap();
    // A port that was free just now.
    let far = listener().local_addr().unwrap();
    let receiver = Bulk::receiver(far, &config).unwrap();
    let start = driver.clock().now() + Duration::from_millis(20);
    let sender = Bulk::sender("127.0.0.1:0".parse().unwrap(), far, start, &config).unwrap();
    let add = |driver: &mut Driver<Bulk>, end: Bulk| {
        let descriptor = end.descriptor().unwrap();
        driver.add(end, descriptor).unwrap()
    };
    let (sender, receiver) = (add(&mut driver, sender), add(&mut driver, receiver));
    driver.turn(Time::ZERO, &mut |_, ()| {}).unwrap();
    assert_eq!(driver.machine(sender).unwrap().stats().packets_sent, 0);
    let end = start + Duration::from_secs(10);
    while driver.machine(receiver).unwrap().stats().bytes_received < 1_000_000 && driver.clock().now() < end {
        driver.turn(end, &mut |_, ()| {}).unwrap();
    }
    let (from, to) = (driver.machine(sender).unwrap().stats(), driver.machine(receiver).unwrap().stats());
    assert!(to.bytes_received >= 1_000_000 && to.bytes_received <= from.bytes_sent + 578, "{from:?} {to:?}");
    let mean = from.bytes_sent / from.packets_sent;
    assert!((500..=578).contains(&mean), "{mean} B: {from:?}");
}

#[test]
fn the_kernel_is_asked_what_has_arrived_once_a_millisecond_at_most() {
    let listener = listener();
    let address = listener.local_addr().unwrap();
    let mut server = KernelTcp::server(listener, KernelTcpConfig::new()).unwrap();
    let mut client = KernelTcp::client(address, KernelTcpConfig::new()).unwrap();
    let at = |ms| Time::ZERO + Duration::from_millis(ms);
    let mut exchange = |client: &mut KernelTcp, now: Time, is_over: &dyn Fn(&KernelTcp, bool) -> bool| {
        let mut heard = false;
        for _ in 0..10_000 {
            for end in [client as &mut KernelTcp, &mut server] {
                end.handle_timeout(now);
                end.poll_transmit(now, &mut Vec::new());
            }
            heard |= std::iter::from_fn(|| server.poll_event())
                .any(|event| matches!(event, Event::Received { .. }));
            if is_over(client, heard) {
                return;
            }
            std::thread::sleep(StdDuration::from_millis(1));
        }
        panic!("it takes too long");
    };
    client.send(at(1), reliable(1, 100)).unwrap();
    exchange(&mut client, at(1), &|_, heard| heard);
    // Its acknowledgement may take 40 ms.
    std::thread::sleep(StdDuration::from_millis(100));
    let before = client.delivered();
    assert!(before.is_some(), "it is open");
    client.send(at(1), reliable(2, 100)).unwrap();
    exchange(&mut client, at(1), &|_, heard| heard);
    std::thread::sleep(StdDuration::from_millis(100));
    assert_eq!(client.delivered(), before, "in the same millisecond");
    exchange(&mut client, at(2), &|client, _| client.delivered() > before);
}
