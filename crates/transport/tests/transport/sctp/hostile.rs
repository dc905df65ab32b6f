use taut_core::{Datagram, DropCause, Ecn, Event, Message, PathId, Seed, Transport};
use taut_transport::entropy::Entropy;
use taut_transport::sctp::{Sctp, SctpConfig};

use crate::net::{MS, Net};
use crate::sctp::{command, connected, offer, pair, sample};

#[test]
fn random_datagrams_are_refused_and_counted() {
    let mut net = connected(SctpConfig::new());
    let mut rng = Seed::new(9).stream("noise");
    let sample = net.sent.last().unwrap().3.clone();
    for round in 0..50_000_u64 {
        let mut data: Vec<u8> = (0..rng.below(120)).map(|_| rng.next_u64() as u8).collect();
        for (to, from) in data.iter_mut().zip(&sample).take((round % 4 * 4) as usize) {
            *to = *from;
        }
        net.deliver(1, PathId(3), &data);
    }
    assert_eq!(net.count(1, &Event::Refused(DropCause::Malformed)), 50_000);
    assert_eq!(net.ends[1].stats().refused, 50_000);
    let message = command(&net, 1, 50);
    offer(&mut net, 1, message).unwrap();
    assert_eq!(net.sent.last().unwrap().2, PathId(0), "nobody moved");
}

#[test]
fn every_flipped_bit_is_found_by_the_checksum() {
    let mut net = connected(SctpConfig::new());
    net.ways[0].cut = true;
    let message = command(&net, 1, 75);
    offer(&mut net, 0, message).unwrap();
    let packet = net.sent.last().unwrap().3.clone();
    for bit in 0..packet.len() * 8 {
        let mut flipped = packet.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        net.deliver(1, PathId(0), &flipped);
    }
    assert_eq!(net.received(1).count(), 0);
    assert_eq!(net.ends[1].stats().refused, packet.len() as u64 * 8);
    net.deliver(1, PathId(0), &packet);
    assert_eq!(net.received(1).count(), 1);
}

/// RFC 9260 section 8.5: a stranger on another path does not know the verification tag.
#[test]
fn a_strangers_init_is_answered_where_it_came_from_and_changes_nothing() {
    let mut net = connected(SctpConfig::new());
    let mut stranger = pair(SctpConfig::new(), MS, 77);
    stranger.run_until(taut_core::Time::ZERO);
    let init = stranger.sent[0].3.clone();
    let before = net.sent.len();
    net.deliver(1, PathId(6), &init);
    assert!(net.sent[before..].iter().all(|(_, from, path, _)| (*from, *path) == (1, PathId(6))));
    let message = command(&net, 1, 50);
    offer(&mut net, 1, message).unwrap();
    assert_eq!(net.sent.last().unwrap().2, PathId(0));
    net.run_for(MS * 20);
    assert_eq!(net.received(0).count(), 1);
}

/// The golden INIT: chunk 1, our ports, tag 0, a CRC32c in little-endian (RFC 9260 section 6.8 and appendix A).
#[test]
fn the_first_packet_is_an_init_with_a_right_checksum() {
    let mut client =
        Sctp::client(SctpConfig::new().ports(5001, 5002), Entropy::seeded(Seed::new(1), "client"));
    client.handle_timeout(taut_core::Time::ZERO);
    let mut packet = Vec::new();
    client.poll_transmit(taut_core::Time::ZERO, &mut packet).unwrap();
    assert_eq!(packet[..8], [0x13, 0x89, 0x13, 0x8a, 0, 0, 0, 0]);
    assert_eq!(packet[12], 1);
    let claimed = u32::from_le_bytes(packet[8..12].try_into().unwrap());
    packet[8..12].fill(0);
    assert_eq!(claimed, crc32c(&packet));
    assert_eq!(crc32c(b"123456789"), 0xe306_9283, "the check value of the Castagnoli polynomial");
}

/// RFC 9260 section 3.3.1: type 0; unordered, whole; stream 2; "tau" and the priority; the bytes.
#[test]
fn a_sample_is_the_golden_data_chunk() {
    let mut net = connected(SctpConfig::new().interleaving(false));
    let message = Message { data: b"pose1".to_vec(), ..sample(&net) };
    offer(&mut net, 0, message).unwrap();
    let packet = net.sent.last().unwrap().3.clone();
    assert_eq!(packet[..4], [0x13, 0x88, 0x13, 0x88]);
    assert_eq!(packet[12..16], [0, 0b0111, 0, 21]);
    assert_eq!(packet[20..24], [0, 2, 0, 0]);
    assert_eq!(packet[24..], *b"tau\x02pose1\0\0\0");
}

#[test]
fn zeros_that_were_not_stored_are_part_of_the_packet() {
    let mut net = connected(SctpConfig::new());
    net.ways[0].cut = true;
    let message = command(&net, 1, 300);
    offer(&mut net, 0, message).unwrap();
    let packet = net.sent.last().unwrap().3.clone();
    let stored = packet.len() - 200;
    assert!(packet[stored..].iter().all(|byte| *byte == 0));
    let input = Datagram { path: PathId(0), ecn: Ecn::NotCapable, data: &packet[..stored], padding: 200 };
    net.ends[1].handle_input(net.now, input);
    net.drain(1);
    assert_eq!(net.received(1).count(), 1);
}

fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
}

/// A client that lost its memory says hello to the server: its INIT is answered; what is left is its COOKIE ECHO.
fn begun_anew(net: &mut Net<Sctp>, path: PathId) -> (Vec<u8>, Vec<u8>) {
    let mut another = Sctp::client(SctpConfig::new(), Entropy::seeded(Seed::new(55), "client"));
    let packet_of = |another: &mut Sctp, now| {
        let mut packet = Vec::new();
        another.poll_transmit(now, &mut packet).map(|_| packet).expect("it answers")
    };
    another.handle_timeout(net.now);
    let init = packet_of(&mut another, net.now);
    net.deliver(1, path, &init);
    let answer = net.sent.last().expect("an answer").3.clone();
    let input = Datagram { path: PathId(0), ecn: Ecn::NotCapable, data: &answer, padding: 0 };
    another.handle_input(net.now, input);
    (answer, packet_of(&mut another, net.now))
}

/// The server still holds the acknowledgement of what came before.
#[test]
fn nothing_of_the_association_before_follows_a_restart() {
    let mut net = connected(SctpConfig::new());
    let (answer, cookie) = begun_anew(&mut net, PathId(0));
    // The second is acknowledged at once, but for what waits for a message.
    for _ in 0..2 {
        let message = command(&net, 1, 75);
        offer(&mut net, 0, message).unwrap();
    }
    net.run_for(MS * 10);
    let of_server = net.sent.iter().rfind(|(_, from, _, packet)| *from == 1 && packet != &answer);
    let (tag, before) = (of_server.unwrap().3[4..8].to_vec(), net.sent.len());
    net.deliver(1, PathId(0), &cookie);
    assert!(net.count(1, &Event::Connected) > 1);
    net.run_for(MS * 100);
    let sent = net.sent[before..].iter().filter(|(_, from, ..)| *from == 1);
    let tags: Vec<&[u8]> = sent.map(|(.., packet)| &packet[4..8]).collect();
    assert!(!tags.is_empty() && tags.iter().all(|now| *now != tag), "{tags:?}, {tag:?}");
}

#[test]
fn what_was_under_way_when_the_peer_began_anew_is_told_as_abandoned_and_the_beginning_once() {
    let mut net = connected(SctpConfig::new());
    let (_, cookie) = begun_anew(&mut net, PathId(0));
    net.ways[1].cut = true;
    for tag in 1..=3 {
        let message = Message { tag, ..command(&net, 1, 75) };
        offer(&mut net, 1, message).unwrap();
    }
    net.deliver(1, PathId(0), &cookie);
    let abandoned = |tag| net.count(1, &Event::Dropped { tag, cause: DropCause::Abandoned });
    assert_eq!([1, 2, 3].map(abandoned), [1, 1, 1]);
    assert_eq!(net.count(1, &Event::Connected), 2);
    net.ends[1].close(net.now);
    net.run_for(MS * 5_000);
    assert_eq!(net.ends[1].stats().abandoned, 3, "nothing is told again");
}

/// In the clear: who was heard within a second is not gone (RFC 9260 section 5.2.4 would let anybody begin anew).
#[test]
fn nobody_begins_anew_from_another_address_while_the_peer_talks() {
    let mut net = connected(SctpConfig::new());
    let say = |net: &mut Net<Sctp>| {
        let message = command(net, 1, 75);
        offer(net, 0, message).unwrap();
        net.run_for(MS * 20);
    };
    say(&mut net);
    let (_, cookie) = begun_anew(&mut net, PathId(3));
    net.deliver(1, PathId(3), &cookie);
    let refused = net.count(1, &Event::Refused(DropCause::Unauthenticated));
    assert_eq!((net.count(1, &Event::Connected), refused, net.ends[1].stats().refused), (1, 1, 1));
    say(&mut net);
    assert_eq!(net.received(1).count(), 2);
    assert!(net.ends[1].uses_path(PathId(0)));
    // Once it is silent another takes its place.
    net.ways[0].cut = true;
    net.run_for(MS * 1_100);
    net.deliver(1, PathId(3), &cookie);
    assert_eq!(net.count(1, &Event::Connected), 2);
    assert!(net.ends[1].uses_path(PathId(3)));
}

/// `dcsctp` would send the rest of it as if its beginning had gone.
#[test]
fn an_association_ends_whose_peer_begins_anew_amid_a_long_message() {
    let mut net = connected(SctpConfig::new());
    let (_, cookie) = begun_anew(&mut net, PathId(0));
    net.ways[1].cut = true;
    let long = Message { tag: 1, ..command(&net, 1, 200_000) };
    offer(&mut net, 1, long).unwrap();
    net.deliver(1, PathId(0), &cookie);
    for tag in 2..=101 {
        let message = Message { tag, ..command(&net, 1, 100) };
        let taken = offer(&mut net, 1, message).is_ok();
        assert!(!taken, "the stream would stand still");
    }
    assert_eq!(net.count(1, &Event::Dropped { tag: 1, cause: DropCause::Abandoned }), 1);
    assert_eq!(net.count(1, &Event::Closed), 1);
    let goodbye = net.sent.last().unwrap();
    assert_eq!((goodbye.1, goodbye.3[12]), (1, 6), "an ABORT");
}

/// What a timer makes leave goes to the peer, whoever sent something in that moment.
#[test]
fn nothing_is_repeated_to_whoever_sends_garbage() {
    let mut net = connected(SctpConfig::new());
    net.ways.iter_mut().for_each(|way| way.cut = true);
    for _ in 0..50 {
        let message = command(&net, 1, 500);
        offer(&mut net, 0, message).unwrap();
    }
    let (begun, end) = (net.sent.len(), net.now + MS * 20_000);
    while let Some(deadline) = net.ends[0].poll_timeout().filter(|deadline| deadline.at < end) {
        net.now = deadline.at.max(net.now);
        net.deliver(0, PathId(7), b"garbage");
        net.ends[0].handle_timeout(net.now);
        net.drain(0);
    }
    let sent = &net.sent[begun..];
    assert!(sent.len() > 5 && sent.iter().all(|(_, _, path, _)| *path == PathId(0)), "{}", sent.len());
}

/// RFC 9260 section 8.5.1 lets a COOKIE ECHO come with any tag, and nothing behind it.
#[test]
fn what_a_stranger_says_behind_a_cookie_of_its_own_is_not_obeyed() {
    let mut net = connected(SctpConfig::new());
    let goodbyes: [&[u8]; 3] = [&[7, 0, 0, 8, 0, 0, 0, 0], &[192, 0, 0, 8, 0, 0, 0, 0], &[8, 0, 0, 4]];
    for goodbye in goodbyes {
        let mut packet = vec![0x13, 0x88, 0x13, 0x88, 1, 2, 3, 4, 0, 0, 0, 0, 10, 0, 0, 8, 1, 2, 3, 4];
        packet.extend_from_slice(goodbye);
        let sum = crc32c(&packet);
        packet[8..12].copy_from_slice(&sum.to_le_bytes());
        for end in [0, 1] {
            net.deliver(end, PathId(3), &packet);
        }
    }
    net.run_for(MS * 1_000);
    assert_eq!([net.count(0, &Event::Closed), net.count(1, &Event::Closed)], [0, 0]);
    for end in [0, 1] {
        let message = command(&net, 1, 50);
        offer(&mut net, end, message).unwrap();
    }
    net.run_for(MS * 100);
    assert_eq!([net.received(0).count(), net.received(1).count()], [1, 1]);
}
