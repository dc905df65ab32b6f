//! The driver with UDP on loopback.

use std::net::UdpSocket;
use std::time::{Duration as StdDuration, Instant};

use taut_core::{Duration, Ecn, Event, Message, PathId, Transmit};
use taut_io::{
    Alarm, Driver, DriverConfig, FloodChange, MachineId, MailboxError, Plain, UdpPort, UdpPortConfig,
};
use taut_netlab::Namespace;
use taut_transport::udp::{Udp, UdpConfig};

use crate::machines::{Asked, Button, Echo, Mirror, Told, loopback, namespaces, turn_until};

fn driver<M: taut_io::Machine>() -> Driver<M> {
    Driver::new(DriverConfig::new()).unwrap()
}

fn datagrams(events: &[(MachineId, Told)], of: MachineId) -> Vec<(PathId, Ecn, Vec<u8>)> {
    let told = events.iter().filter(|(id, _)| *id == of);
    told.filter_map(|(_, told)| match told {
        Told::Datagram { path, ecn, data, .. } => Some((*path, *ecn, data.clone())),
        Told::Woken(_) => None,
    })
    .collect()
}

#[test]
fn messages_cross_the_loopback_and_come_back() {
    let ((client, _), (server, server_address)) = (loopback(), loopback());
    let mut pong = driver();
    pong.add(Echo(Udp::new(UdpConfig::new())), UdpPort::new(server, UdpPortConfig::new()).unwrap()).unwrap();
    let pong = pong.spawn().unwrap();

    let mut ping = driver();
    let port = UdpPort::new(client, UdpPortConfig::new()).unwrap().to(server_address).connected().unwrap();
    let id = ping.add(Plain::new(Udp::new(UdpConfig::new())), port).unwrap();
    for round in 0..500u64 {
        ping.command(id, Message { data: round.to_le_bytes().to_vec(), ..Message::default() });
        let is_back = |(_, event): &(MachineId, Event)| matches!(event, Event::Received { .. });
        let events = turn_until(&mut ping, |events| events.iter().any(is_back));
        let Some((_, Event::Received { data, path, .. })) = events.last() else {
            panic!("round {round} is lost")
        };
        assert_eq!((data.as_slice(), *path), (&round.to_le_bytes()[..], PathId(0)));
    }
    let stats = ping.port_stats(id).unwrap();
    assert_eq!((stats.datagrams_sent, stats.datagrams_received), (500, 500));
    assert_eq!(stats.bytes_sent, 500 * 8);
    assert_eq!(pong.stop().unwrap().stats().late_max, Duration::ZERO, "it had no deadline");
}

#[test]
fn a_new_address_is_a_new_path_and_is_answered_there() {
    let (server, server_address) = loopback();
    let mut driver = driver();
    let port = UdpPort::new(server, UdpPortConfig::new()).unwrap();
    let id = driver.add(Mirror::answering(), port).unwrap();
    let peers = [loopback().0, loopback().0, loopback().0];
    for (index, peer) in peers.iter().enumerate() {
        peer.send_to(&[index as u8], server_address).unwrap();
    }
    let events = turn_until(&mut driver, |events| events.len() == 3);
    let expected = [0u8, 1, 2].map(|index| (PathId(index), Ecn::NotCapable, vec![index]));
    assert_eq!(datagrams(&events, id), expected);
    for (index, peer) in peers.iter().enumerate() {
        peer.set_read_timeout(Some(StdDuration::from_secs(2))).unwrap();
        let mut buffer = [0; 8];
        assert_eq!(peer.recv(&mut buffer).unwrap(), 1);
        assert_eq!(buffer[0], index as u8);
    }
}

#[test]
fn the_answer_comes_from_the_address_that_was_asked() {
    let server = UdpSocket::bind("0.0.0.0:0").unwrap();
    let port_number = server.local_addr().unwrap().port();
    let mut driver = driver();
    let port = UdpPort::new(server, UdpPortConfig::new()).unwrap();
    driver.add(Mirror::answering(), port).unwrap();
    let (peer, _) = loopback();
    peer.connect(("127.0.0.9", port_number)).unwrap(); // It would not hear anybody else.
    peer.set_read_timeout(Some(StdDuration::from_secs(2))).unwrap();
    peer.send(b"who").unwrap();
    turn_until(&mut driver, |events| !events.is_empty());
    assert_eq!(peer.recv(&mut [0; 8]).unwrap(), 3);
}

#[test]
fn a_burst_leaves_in_one_system_call_and_arrives_whole_with_its_mark() {
    let ((client, _), (server, server_address)) = (loopback(), loopback());
    let mut driver = driver();
    let config = UdpPortConfig::new().receive_buffer(400_000);
    let client_port = UdpPort::new(client, config.dscp(46)).unwrap().to(server_address);
    let from = driver.add(Mirror::default(), client_port).unwrap();
    let to = driver.add(Mirror::default(), UdpPort::new(server, config).unwrap()).unwrap();
    // Two sizes; the shorter one ends a batch.
    let lengths = [[900usize; 40].as_slice(), &[100], &[900; 5]].concat();
    let sent: Vec<Vec<u8>> = lengths.iter().enumerate().map(|(n, len)| vec![n as u8; *len]).collect();
    for data in &sent {
        let transmit = Transmit { ecn: Ecn::Capable0, ..Transmit::default() };
        driver.command(from, (transmit, data.clone()));
    }
    let events = turn_until(&mut driver, |events| events.len() == sent.len());
    let expected: Vec<_> = sent.into_iter().map(|data| (PathId(0), Ecn::Capable0, data)).collect();
    let arrived = datagrams(&events, to);
    assert_eq!(arrived.len(), expected.len());
    for (arrived, expected) in arrived.iter().zip(&expected) {
        assert_eq!((arrived.1, arrived.2.len(), arrived.2[0]), (expected.1, expected.2.len(), expected.2[0]));
        assert!(arrived == expected, "all bytes");
    }
    let stats = driver.port_stats(from).unwrap();
    assert_eq!((stats.datagrams_sent, stats.send_errors), (46, 0));
    assert_eq!(stats.batches_sent, 2);
}

#[test]
fn what_goes_over_several_paths_by_turns_leaves_in_one_system_call_for_each() {
    // Of more paths than are gathered some make way for others; nothing is lost.
    for (paths, calls) in [(3u8, Some(3)), (12, None)] {
        let mut driver = driver();
        let mut port = UdpPort::without_sockets(UdpPortConfig::new());
        let place = port.add_socket(loopback().0).unwrap();
        let peers: Vec<_> = (0..paths).map(|_| loopback()).collect();
        assert!(peers.iter().all(|(_, address)| port.add_path(place, *address).is_some()));
        let id = driver.add(Mirror::default(), port).unwrap();
        for round in 0..16 {
            for path in 0..paths {
                let transmit = Transmit { path: PathId(path), ..Transmit::default() };
                driver.command(id, (transmit, vec![path, round]));
            }
        }
        driver.turn(driver.clock().now(), &mut |_, _| {}).unwrap();
        for (path, (peer, _)) in (0..paths).zip(&peers) {
            peer.set_read_timeout(Some(StdDuration::from_secs(2))).unwrap();
            let mut buffer = [0; 8];
            for round in 0..16 {
                assert_eq!(peer.recv(&mut buffer).unwrap(), 2);
                assert_eq!(buffer[..2], [path, round], "in order");
            }
        }
        let stats = driver.port_stats(id).unwrap();
        assert_eq!((stats.datagrams_sent, stats.send_errors), (16 * u64::from(paths), 0));
        assert!(calls.is_none_or(|calls| stats.batches_sent == calls), "{stats:?}");
    }
}

#[test]
fn padding_is_sent_as_zeros() {
    let ((client, _), (server, server_address)) = (loopback(), loopback());
    let mut driver = driver();
    let port = UdpPort::new(client, UdpPortConfig::new()).unwrap().to(server_address);
    let from = driver.add(Mirror::default(), port).unwrap();
    driver.add(Mirror::default(), UdpPort::new(server, UdpPortConfig::new()).unwrap()).unwrap();
    driver.command(from, (Transmit { padding: 3, ..Transmit::default() }, b"ab".to_vec()));
    let events = turn_until(&mut driver, |events| !events.is_empty());
    assert!(matches!(&events[0].1, Told::Datagram { data, .. } if data == b"ab\0\0\0"));
}

#[test]
fn a_datagram_that_waited_in_the_kernel_is_told_with_the_time_of_its_arrival() {
    for kernel_stamps in [true, false] {
        let ((client, _), (server, server_address)) = (loopback(), loopback());
        let mut driver = driver();
        let config = UdpPortConfig::new().kernel_stamps(kernel_stamps);
        driver.add(Mirror::default(), UdpPort::new(server, config).unwrap()).unwrap();
        // Two clocks are compared.
        let slack = Duration::from_micros(100);
        let mut is_stamped = || {
            let sent = driver.clock().now();
            client.send_to(b"early", server_address).unwrap();
            let arrived_by = driver.clock().now();
            std::thread::sleep(StdDuration::from_millis(20));
            let events = turn_until(&mut driver, |events| !events.is_empty());
            let Told::Datagram { at, .. } = events[0].1 else { panic!("{events:?}") };
            assert!(at + slack >= sent);
            at <= arrived_by + slack
        };
        // The first socket of a system that asks for stamps is given them later, when the system has time for that.
        let tries = if kernel_stamps { 200 } else { 1 };
        let stamped = (0..tries).any(|_| is_stamped());
        assert_eq!(stamped, kernel_stamps);
    }
}

#[test]
fn deadlines_come_in_time_and_none_is_left_out() {
    let mut driver = Driver::new(DriverConfig::new().early(Duration::from_micros(50))).unwrap();
    let mut ids = Vec::new();
    for millis in [1, 3] {
        let port = UdpPort::new(loopback().0, UdpPortConfig::new()).unwrap();
        let machine = Mirror::waking(Duration::from_millis(millis));
        ids.push(driver.add(machine, port).unwrap());
    }
    let began = Instant::now();
    let events = turn_until(&mut driver, |events| events.len() == 400);
    let times = |of| events.iter().filter(move |(id, _)| *id == of).map(|(_, told)| told);
    let (fast, slow) = (times(ids[0]).count(), times(ids[1]).count());
    assert_eq!(fast.div_ceil(3), slow, "{fast} and {slow}");
    assert!(began.elapsed() >= StdDuration::from_millis(fast as u64 - 1), "none comes early");
    let stats = driver.stats();
    assert!(stats.timeouts >= 390 && stats.late_max < Duration::from_secs(1), "{stats:?}");
}

#[test]
fn a_wait_is_not_rounded_to_milliseconds() {
    let mut driver = driver::<Mirror>();
    let mut waits: Vec<Duration> = (0..200)
        .map(|_| {
            let begin = driver.clock().now();
            driver.turn(begin + Duration::from_micros(200), &mut |_, _| ()).unwrap();
            driver.clock().now() - begin
        })
        .collect();
    waits.sort();
    assert!(waits[0] >= Duration::from_micros(200), "none ends early");
    assert!(waits[20] < Duration::from_micros(800), "{:?}", waits[20]);
}

#[test]
fn a_new_machine_is_told_the_time_also_when_a_datagram_comes_first_and_when_the_thread_spins() {
    for busy_poll in [Duration::ZERO, Duration::MAX] {
        let ((client, _), (server, server_address)) = (loopback(), loopback());
        client.send_to(b"first", server_address).unwrap();
        let mut driver = Driver::new(DriverConfig::new().busy_poll(busy_poll)).unwrap();
        let port = UdpPort::new(server, UdpPortConfig::new()).unwrap();
        driver.add(Mirror::waking(Duration::from_secs(3_600)), port).unwrap();
        let events = turn_until(&mut driver, |events| events.len() == 2);
        assert!(events.iter().any(|(_, told)| matches!(told, Told::Woken(_))), "{events:?}");
    }
}

#[test]
fn commands_and_events_cross_threads_and_the_mailbox_is_bounded() {
    let mut driver = driver::<Plain<Udp>>();
    let ((client, _), (server, server_address)) = (loopback(), loopback());
    let port = UdpPort::new(client, UdpPortConfig::new()).unwrap().to(server_address);
    let id = driver.add(Plain::new(Udp::new(UdpConfig::new())), port).unwrap();
    let too_long = Message { data: vec![0; 2_000], tag: 7, ..Message::default() };
    let mailbox = driver.mailbox();
    // Nobody reads yet.
    let sent = (0..).find(|_| mailbox.send(id, Message::default()).is_err()).unwrap();
    assert_eq!(sent, 1_024);
    assert!(matches!(mailbox.send(id, Message::default()), Err(MailboxError::Full(_))));
    let running = driver.spawn().unwrap();
    assert!(running.warnings().is_empty());
    server.set_read_timeout(Some(StdDuration::from_secs(2))).unwrap();
    (0..64).for_each(|_| assert_eq!(server.recv(&mut [0; 8]).unwrap(), 0));
    while mailbox.send(id, too_long.clone()).is_err() {}
    let dropped = Event::Dropped { tag: 7, cause: taut_core::DropCause::TooBig };
    let end = Instant::now() + StdDuration::from_secs(5);
    while running.events().recv_timeout(StdDuration::from_secs(2)).unwrap() != (id, dropped.clone()) {
        assert!(Instant::now() < end);
    }
    let driver = running.stop().unwrap();
    assert_eq!(driver.stats().commands, 1_025);
    drop(driver);
    assert!(matches!(mailbox.send(id, Message::default()), Err(MailboxError::Ended(_))));
}

#[test]
fn a_machine_that_is_removed_hears_nothing_more_and_its_number_is_free() {
    let mut driver = driver();
    let (server, server_address) = loopback();
    let (client, _) = loopback();
    let machine = Mirror::waking(Duration::from_millis(1));
    let id = driver.add(machine, UdpPort::new(server, UdpPortConfig::new()).unwrap()).unwrap();
    turn_until(&mut driver, |events| !events.is_empty());
    let (_, port) = driver.remove(id).unwrap();
    client.send_to(b"hello", server_address).unwrap();
    let mut events = 0;
    let end = driver.clock().now() + Duration::from_millis(20);
    while driver.clock().now() < end {
        driver.turn(end, &mut |_, _| events += 1).unwrap();
    }
    assert_eq!(events, 0);
    driver.command(id, (Transmit::default(), Vec::new()));
    assert_eq!(driver.stats().commands_astray, 1);
    assert_eq!(driver.add(Mirror::default(), port).unwrap(), id);
    assert_eq!(turn_until(&mut driver, |events| !events.is_empty()).len(), 1, "it had waited in the socket");
}

#[test]
fn a_hundred_sessions_share_a_thread() {
    let mut driver = driver();
    let mut pairs = Vec::new();
    for _ in 0..100 {
        let ((client, _), (server, server_address)) = (loopback(), loopback());
        let port = UdpPort::new(client, UdpPortConfig::new()).unwrap().to(server_address);
        let from = driver.add(Mirror::default(), port).unwrap();
        let port = UdpPort::new(server, UdpPortConfig::new()).unwrap();
        pairs.push((from, driver.add(Mirror::answering(), port).unwrap()));
    }
    for (index, (from, _)) in pairs.iter().enumerate() {
        driver.command(*from, (Transmit::default(), vec![index as u8]));
    }
    let events = turn_until(&mut driver, |events| events.len() == 200);
    for (index, (from, to)) in pairs.iter().enumerate() {
        let expected = [(PathId(0), Ecn::NotCapable, vec![index as u8])];
        assert_eq!(datagrams(&events, *from), expected);
        assert_eq!(datagrams(&events, *to), expected);
    }
}

#[test]
fn strangers_who_flood_a_socket_leave_room_for_its_peer() {
    let ((peer, of_peer), (stranger, _), (socket, at)) = (loopback(), loopback(), loopback());
    let mut driver = driver();
    let port = UdpPort::new(socket, UdpPortConfig::new()).unwrap().to(of_peer);
    let id = driver.add(Mirror::waking(Duration::from_millis(5)).with_peer(), port).unwrap();
    let send = |from: &UdpSocket, count| (0..count).for_each(|_| drop(from.send_to(&[7; 40], at)));
    let turn = |driver: &mut Driver<Mirror>| {
        let (until, mut of_peer) = (driver.clock().now() + Duration::from_millis(5), 0);
        while driver.clock().now() < until {
            let count =
                |_, told| of_peer += u32::from(matches!(told, Told::Datagram { path: PathId(0), .. }));
            driver.turn(until, &mut { count }).unwrap();
        }
        of_peer
    };
    // Forty thousand a second, for several periods in which that is noticed.
    for _ in 0..60 {
        send(&stranger, 200);
        turn(&mut driver);
    }
    // More than twenty buffers of strangers', before its thread comes to run.
    send(&stranger, 2_000);
    send(&peer, 100);
    let mut heard = 0;
    for _ in 0..400 {
        heard += turn(&mut driver);
        if heard == 100 {
            break;
        }
    }
    assert_eq!(heard, 100, "{:?}", driver.port_stats(id));
    // Once it is over anybody is heard.
    (0..100).for_each(|_| _ = turn(&mut driver));
    let stats = driver.port_stats(id).unwrap();
    let known = stats.datagrams_received + stats.flooded + stats.buffer_full;
    assert_eq!(known, 60 * 200 + 2_000 + 100, "each is counted: {stats:?}");
    let told = driver.poll_flood(id).map(|note| (note.socket, note.change, note.peers, note.dropped));
    assert_eq!(told, Some((at, FloodChange::Ended, 0, stats.flooded)));
    let received = |driver: &Driver<Mirror>| driver.port_stats(id).unwrap().datagrams_received;
    let before = received(&driver);
    send(&stranger, 100);
    for _ in 0..400 {
        turn(&mut driver);
        if received(&driver) == before + 100 {
            return;
        }
    }
    panic!("{} of 100", received(&driver) - before);
}

/// As a robot that waits for its operator: who was answered first is nobody in particular.
#[test]
fn strangers_who_flood_a_socket_keep_nobody_out_of_one_that_speaks_with_nobody() {
    let ((first, _), (stranger, _), (operator, _), (socket, at)) =
        (loopback(), loopback(), loopback(), loopback());
    let mut driver = driver();
    let machine = Mirror::answering().and_waking(Duration::from_millis(5));
    let id = driver.add(machine, UdpPort::new(socket, UdpPortConfig::new()).unwrap()).unwrap();
    let received = |driver: &Driver<Mirror>| driver.port_stats(id).unwrap().datagrams_received;
    let send = |driver: &mut Driver<Mirror>, from: &UdpSocket, count| {
        (0..count).for_each(|_| drop(from.send_to(&[7; 40], at)));
        let until = driver.clock().now() + Duration::from_millis(5);
        while driver.clock().now() < until {
            driver.turn(until, &mut |_, _| {}).unwrap();
        }
    };
    send(&mut driver, &first, 1);
    (0..60).for_each(|_| send(&mut driver, &stranger, 200));
    let before = received(&driver);
    (0..100).for_each(|_| send(&mut driver, &operator, 1));
    let heard = received(&driver) - before;
    assert!(heard >= 100, "{heard} of 100");
}

#[test]
fn errors_of_one_socket_are_counted_and_end_nothing() {
    let mut driver = driver();
    let (client, _) = loopback();
    let (gone, gone_address) = loopback();
    drop(gone);
    let port = UdpPort::new(client, UdpPortConfig::new()).unwrap().to(gone_address).connected().unwrap();
    let id = driver.add(Mirror::default(), port).unwrap();
    // ICMP port unreachable comes back; then a datagram that no IP packet can hold, and a path that does not exist.
    driver.command(id, (Transmit::default(), b"x".to_vec()));
    driver.turn(driver.clock().now() + Duration::from_millis(20), &mut |_, _| ()).unwrap();
    driver.turn(driver.clock().now() + Duration::from_millis(20), &mut |_, _| ()).unwrap();
    driver.command(id, (Transmit::default(), vec![0; 70_000]));
    driver.command(id, (Transmit { path: PathId(9), ..Transmit::default() }, vec![0]));
    driver.turn(driver.clock().now() + Duration::from_millis(20), &mut |_, _| ()).unwrap();
    let stats = driver.port_stats(id).unwrap();
    assert_eq!((stats.datagrams_sent, stats.no_path), (1, 1), "{stats:?}");
    assert_eq!(stats.send_errors, 1, "{stats:?}");
    assert_eq!(stats.receive_errors, 1, "{stats:?}");
}

/// A port that is full after a few datagrams, for they leave at this rate, and that which they go to, with the namespaces that they are in; `None`, with the
/// reason printed, where there can be none.
fn full_port(rate: &str) -> Option<([Namespace; 2], UdpPort, UdpPort)> {
    let [a, b] = namespaces()?;
    Namespace::join((&a, "v0", "10.96.0.1/24"), (&b, "v0", "10.96.0.2/24")).unwrap();
    // What waits in a queue counts against the sender's buffer.
    let slow = format!("qdisc add dev v0 root tbf rate {rate} burst 3000 limit 1000000");
    let tc = || std::process::Command::new("tc").args(slow.split(' ')).status();
    if !a.run(tc).unwrap().is_ok_and(|status| status.success()) {
        println!("skipped: `tc {slow}` needs iproute2 and the kernel's sch_tbf");
        return None;
    }
    let client = a.run(|| UdpSocket::bind("10.96.0.1:0")).unwrap().unwrap();
    let server = b.run(|| UdpSocket::bind("10.96.0.2:7")).unwrap().unwrap();
    let config = UdpPortConfig::new().send_buffer(4_608);
    let client = UdpPort::new(client, config).unwrap().to("10.96.0.2:7".parse().unwrap());
    let config = UdpPortConfig::new().receive_buffer(1_000_000);
    Some(([a, b], client, UdpPort::new(server, config).unwrap()))
}

#[test]
fn a_machine_that_is_due_does_not_keep_the_thread_awake_while_its_socket_is_full() {
    let Some((_namespaces, client, server)) = full_port("1mbit") else { return };
    let mut driver = driver();
    let from = driver.add(Mirror::hasty(), client).unwrap();
    driver.add(Mirror::default(), server).unwrap();
    (0..100u8).for_each(|n| driver.command(from, (Transmit::default(), vec![n; 500 + usize::from(n % 3)])));
    let began = driver.clock().now();
    turn_until(&mut driver, |events| events.len() == 100);
    let took = driver.clock().now() - began;
    assert!(driver.port_stats(from).unwrap().blocked > 0, "{:?}", driver.port_stats(from));
    let (timeouts, most) = (driver.stats().timeouts, took / Duration::from_millis(1) + 10);
    assert!(timeouts <= most, "it was called {timeouts} times in {took}");
}

#[test]
fn a_machine_whose_socket_is_full_is_told_the_time_however_much_comes_in() {
    let Some((_namespaces, client, server)) = full_port("1mbit") else { return };
    let mut driver = driver();
    let from = driver.add(Mirror::hasty(), client).unwrap();
    let to = driver.add(Mirror::default(), server).unwrap();
    (0..100u8).for_each(|n| driver.command(from, (Transmit::default(), vec![n; 500 + usize::from(n % 3)])));
    let events = turn_until(&mut driver, |events| !events.is_empty());
    let path = datagrams(&events, to)[0].0;
    let (began, before) = (driver.clock().now(), driver.stats().timeouts);
    while driver.clock().now() < began + Duration::from_millis(200) {
        driver.command(to, (Transmit { path, ..Transmit::default() }, vec![0]));
        let soon = driver.clock().now() + Duration::from_micros(300);
        driver.turn(soon, &mut |_, _| {}).expect("the driver goes on");
    }
    assert!(driver.port_stats(from).unwrap().datagrams_received > 100, "{:?}", driver.port_stats(from));
    let timeouts = driver.stats().timeouts - before;
    assert!(timeouts >= 20, "it was told the time {timeouts} times in 200 ms");
}

#[test]
fn a_full_socket_makes_the_machine_wait_and_loses_nothing() {
    let Some((_namespaces, client, server)) = full_port("20mbit") else { return };
    let mut driver = driver();
    let from = driver.add(Mirror::default(), client).unwrap();
    let to = driver.add(Mirror::default(), server).unwrap();
    let padded = Transmit { padding: 100, ..Transmit::default() };
    (0..200u8).for_each(|n| driver.command(from, (padded, vec![n; 500 + usize::from(n % 3)])));
    let events = turn_until(&mut driver, |events| events.len() == 200);
    let arrived: Vec<_> = datagrams(&events, to).iter().map(|(_, _, data)| (data[0], data.len())).collect();
    assert_eq!(arrived, (0..200).map(|n| (n, 600 + usize::from(n % 3))).collect::<Vec<(u8, usize)>>());
    let stats = driver.port_stats(from).unwrap();
    assert!(stats.blocked > 0, "{stats:?}");
    assert_eq!((stats.datagrams_sent, stats.send_errors), (200, 0));
}

#[test]
fn an_alarm_comes_before_a_full_mailbox_whose_commands_do_not_undo_it() {
    let mut driver = driver();
    let id =
        driver.add(Button::default(), UdpPort::new(loopback().0, UdpPortConfig::new()).unwrap()).unwrap();
    let mailbox = driver.mailbox();
    mailbox.send(id, Asked::Close).unwrap();
    let full = std::iter::repeat_with(|| mailbox.send(id, Asked::Release)).find_map(Result::err);
    assert!(matches!(full, Some(MailboxError::Full(_))), "{full:?}");
    assert!(mailbox.alarm(Alarm::Pressed) && mailbox.alarm(Alarm::Pressed));
    let events = turn_until(&mut driver, |events| events.len() >= 2);
    assert_eq!(events, [(id, Asked::Alarm(Alarm::Pressed)), (id, Asked::Close)]);
    let stats = driver.stats();
    assert_eq!((stats.alarms, stats.commands, stats.commands_void), (1, 1, 1_023));
    // What is sent after it is taken again.
    mailbox.send(id, Asked::Release).unwrap();
    let events = turn_until(&mut driver, |events| !events.is_empty());
    assert_eq!(events, [(id, Asked::Release)]);
}

#[test]
fn a_command_that_may_not_be_lost_waits_beside_a_full_mailbox_and_comes_after_it() {
    let mut driver = driver();
    let id =
        driver.add(Button::default(), UdpPort::new(loopback().0, UdpPortConfig::new()).unwrap()).unwrap();
    let mailbox = driver.mailbox();
    while mailbox.send(id, Asked::Release).is_ok() {}
    assert!(
        mailbox.insist(id, Asked::Close)
            && mailbox.insist(id, Asked::Release)
            && mailbox.insist(id, Asked::Close)
    );
    let events = turn_until(&mut driver, |events| events.len() >= 1_026);
    assert_eq!(events.len(), 1_026, "of a kind the newest is given");
    assert_eq!(events[1_023..], [(id, Asked::Release), (id, Asked::Release), (id, Asked::Close)]);
    // It comes after all that left it no room, and before what somebody who finds room again goes on with.
    let kept =
        (0..1_024).all(|_| mailbox.send(id, Asked::Release).is_ok()) && mailbox.insist(id, Asked::Close);
    let (mut asked, mut more) = (Vec::new(), 10);
    while !asked.contains(&Asked::Close) {
        let soon = driver.clock().now() + Duration::from_secs(1);
        driver
            .turn(soon, &mut |_, event| {
                asked.push(event);
                if more > 0 && mailbox.send(id, Asked::Release).is_ok() {
                    more -= 1;
                }
            })
            .unwrap();
    }
    assert!(kept && more == 0 && asked.len() == 1_025 && asked.ends_with(&[Asked::Close]), "{}", asked.len());
    assert_eq!(turn_until(&mut driver, |events| events.len() >= 10).len(), 10);
    // An alarm voids it like any other.
    while mailbox.send(id, Asked::Close).is_ok() {}
    assert!(mailbox.insist(id, Asked::Release) && mailbox.alarm(Alarm::Pressed));
    let events = turn_until(&mut driver, |events| events.len() > 1_024);
    assert!(events.iter().all(|(_, asked)| *asked != Asked::Release));
    drop(driver);
    assert!(!mailbox.insist(id, Asked::Close), "whoever asks is told that nobody hears it");
}

#[test]
fn an_alarm_wakes_a_driver_that_sleeps_and_waits_for_a_machine_where_there_is_none() {
    let mut driver = driver();
    let mailbox = driver.mailbox();
    mailbox.alarm(Alarm::Lost);
    driver.turn(driver.clock().now(), &mut |_, _| panic!("there is no machine")).unwrap();
    let id =
        driver.add(Button::default(), UdpPort::new(loopback().0, UdpPortConfig::new()).unwrap()).unwrap();
    // Counted from here: on a busy machine the turn that takes the first alarm may take the second as well.
    let turns = mailbox.turns();
    let running = driver.spawn().unwrap();
    let wait = StdDuration::from_secs(20);
    assert_eq!(running.events().recv_timeout(wait).unwrap(), (id, Asked::Alarm(Alarm::Lost)));
    assert!(mailbox.alarm(Alarm::Pressed));
    assert_eq!(running.events().recv_timeout(wait).unwrap(), (id, Asked::Alarm(Alarm::Pressed)));
    assert!(mailbox.turns() > turns);
    drop(running.stop().unwrap());
    assert!(!mailbox.alarm(Alarm::Pressed), "whoever presses is told that nobody hears it");
}
