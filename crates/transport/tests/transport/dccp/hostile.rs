//! Strangers, and every kind of bad luck at once.

use proptest::prelude::*;
use taut_core::{DropCause, Event, Message, Priority, Transport};
use taut_transport::dccp::{Ccid, DccpConfig, State};
use taut_wire::dccp::{DccpOption, Negotiation, Packet, Repr, ResetCode, Seq, feature};

use super::harness::{CLIENT, Net, SERVER, at_ms, config, message, ms};

/// An open connection, and the last header that its client sent.
fn open(ccid: Ccid) -> (Net, Repr) {
    let mut net = Net::with(ccid);
    net.samples(CLIENT, at_ms(100), ms(1), 20);
    net.run_until(at_ms(200));
    let last = net.records.iter().rfind(|record| record.from == CLIENT).expect("a packet").repr;
    (net, last)
}

fn forged(header: Repr) -> Vec<u8> {
    let mut bytes = Vec::new();
    header.emit(&[], &[0, 0, 0, 0, 9], &mut bytes);
    bytes
}

/// What arrives is recorded by number, and a peer may choose its numbers far apart: by a window of 2⁴⁵ that it announced …
#[test]
fn a_jump_within_a_window_that_the_peer_chose_is_survived() {
    let mut net = Net::new(1, DccpConfig::new(), DccpConfig::new());
    net.links[SERVER].loss = 1.0;
    let window = (1_u64 << 45).to_be_bytes();
    let mut options = Vec::new();
    for (negotiation, feature, value) in [
        (Negotiation::ChangeL, feature::CCID, &[3][..]),
        (Negotiation::ChangeR, feature::CCID, &[3]),
        (Negotiation::ChangeL, feature::SEQUENCE_WINDOW, &window[2..]),
    ] {
        DccpOption::Feature { negotiation, feature, value }.emit(&mut options);
    }
    let from_client = |sequence, packet, options: &[u8], data: &[u8]| {
        let ports = Repr { source_port: 6511, destination_port: 6511, ..Repr::default() };
        let mut bytes = Vec::new();
        Repr { sequence: Seq::new(sequence), packet, ..ports }.emit(options, data, &mut bytes);
        bytes
    };
    let service = u32::from_be_bytes(*b"taut");
    net.deliver(SERVER, 0, &from_client(1, Packet::Request { service }, &options, &[]), false);
    let ack = net.records.last().expect("a response").repr.sequence;
    net.deliver(SERVER, 0, &from_client(2, Packet::Ack { ack }, &[], &[]), false);
    assert_eq!((net.ends[SERVER].state(), net.ends[SERVER].stats().ccid), (State::Open, Some(Ccid::Tfrc)));
    let jump = from_client(2 + (1 << 44), Packet::DataAck { ack }, &[], &[0, 0, 0, 0, 9]);
    net.deliver(SERVER, 0, &jump, false);
    assert_eq!((net.ends[SERVER].state(), net.received(SERVER).len()), (State::Open, 1));
}

/// … or by a Sync after a silence, which no window holds.
#[test]
fn a_jump_of_a_sync_after_a_silence_is_survived() {
    let (mut net, last) = open(Ccid::Tfrc);
    net.run_until(at_ms(5_000));
    let ack = net.records.iter().rfind(|record| record.from == SERVER).expect("a packet").repr.sequence;
    let sequence = last.sequence.plus(1 << 40);
    let mut bytes = Vec::new();
    Repr { sequence, packet: Packet::Sync { ack }, ..last }.emit(&[], &[], &mut bytes);
    net.deliver(SERVER, 0, &bytes, false);
    let answer = Packet::SyncAck { ack: sequence };
    assert!(net.records.iter().any(|record| record.repr.packet == answer), "it was taken for valid");
    assert_eq!(net.ends[SERVER].state(), State::Open);
}

fn request(sequence: u64, options: &[u8]) -> Vec<u8> {
    let packet = Packet::Request { service: u32::from_be_bytes(*b"taut") };
    let (source_port, destination_port, sequence) = (6511, 6511, Seq::new(sequence));
    let mut bytes = Vec::new();
    Repr { source_port, destination_port, sequence, packet, ..Repr::default() }.emit(
        options,
        &[],
        &mut bytes,
    );
    bytes
}

/// What cannot be followed is said to whoever wants it, in the handshake as before it is over.
#[test]
fn a_server_that_waits_survives_whoever_wants_or_says_what_ends_a_connection() {
    let mut options = Vec::new();
    DccpOption::Mandatory.emit(&mut options);
    let (negotiation, value) = (Negotiation::ChangeL, &[1][..]);
    DccpOption::Feature { negotiation, feature: 99, value }.emit(&mut options);
    let mut net = Net::with(Ccid::TcpLike).links(|link| link.loss = 1.0);
    net.deliver(SERVER, 5, &request(7, &options), false);
    let reset = net.records.last().expect("an answer").repr.packet;
    let Packet::Reset { ack, code, data } = reset else { panic!("{reset:?}") };
    assert_eq!((ack, code, data[0]), (Seq::new(7), ResetCode::MandatoryError as u8, 99));
    // One that is answered, and thinks better of it.
    let goodbyes: [fn(Seq) -> Packet; 2] =
        [|ack| Packet::Reset { ack, code: 2, data: [0; 3] }, |ack| Packet::Close { ack }];
    for goodbye in goodbyes {
        net.deliver(SERVER, 5, &request(7, &[]), false);
        let response = net.records.last().expect("a response").repr;
        let packet = goodbye(response.sequence);
        let (source_port, destination_port) = (6511, 6511);
        let goodbye =
            Repr { source_port, destination_port, sequence: Seq::new(8), packet, ..Repr::default() };
        net.deliver(SERVER, 5, &forged(goodbye), false);
        assert_eq!((net.ends[SERVER].state(), net.closed_at(SERVER)), (State::Listen, None));
        assert_eq!(net.is_connected(SERVER), None);
    }
    let answer = net.records.last().expect("an answer to Close").repr.packet;
    let Packet::Reset { ack, code, .. } = answer else { panic!("{answer:?}") };
    assert_eq!((ack, code), (Seq::new(8), ResetCode::Closed as u8));
    net.links.iter_mut().for_each(|link| link.loss = 0.0);
    net.run_until(at_ms(2_000));
    assert!(net.is_connected(CLIENT).is_some() && net.is_connected(SERVER).is_some());
}

/// In the clear; whoever was heard within a second is not gone.
#[test]
fn another_client_follows_one_that_fell_silent_and_none_that_talks() {
    let (mut net, _) = open(Ccid::TcpLike);
    net.links[CLIENT].loss = 1.0;
    net.deliver(SERVER, 5, &request(7, &[]), false);
    assert_eq!(net.ends[SERVER].state(), State::Open);
    net.run_until(at_ms(1_300));
    net.ends[SERVER].send(at_ms(1_300), message(77)).unwrap();
    net.deliver(SERVER, 5, &request(7, &[]), false);
    let response = net.records.last().expect("a response").repr;
    assert!(matches!(response.packet, Packet::Response { ack, .. } if ack == Seq::new(7)), "{response:?}");
    let packet = Packet::DataAck { ack: response.sequence };
    let (source_port, destination_port) = (6511, 6511);
    let sample = Repr { source_port, destination_port, sequence: Seq::new(8), packet, ..Repr::default() };
    let before = net.received(SERVER).len();
    net.deliver(SERVER, 5, &forged(sample), false);
    assert_eq!((net.ends[SERVER].state(), net.received(SERVER).len()), (State::Open, before + 1));
    assert_eq!(net.events[SERVER].iter().filter(|(_, event)| *event == Event::Connected).count(), 2);
}

/// RFC 4340 section 8.1.4: a server gives it with its Response.
#[test]
fn a_cookie_in_an_open_connection_is_not_echoed_and_stops_nothing() {
    for ccid in [Ccid::TcpLike, Ccid::Tfrc] {
        let (mut net, _) = open(ccid);
        net.links[SERVER].loss = 1.0;
        let last = net.records.iter().rfind(|record| record.from == SERVER).expect("a packet").repr;
        let (mut options, mut bytes) = (Vec::new(), Vec::new());
        DccpOption::InitCookie(&[7; 8]).emit(&mut options);
        let ack = net.records.iter().rfind(|record| record.from == CLIENT).expect("a packet").repr.sequence;
        let (sequence, packet) = (last.sequence.next(), Packet::Ack { ack });
        Repr { sequence, packet, ..last }.emit(&options, &[], &mut bytes);
        net.deliver(CLIENT, 0, &bytes, false);
        for tag in 0..30 {
            net.send(CLIENT, Message { priority: Priority(0), ..message(tag) });
        }
        let timers = net.ends[CLIENT].poll_timeout().map(|deadline| deadline.why);
        assert!(matches!(timers, Some("emergency" | "pacing")), "{ccid:?}: {timers:?}");
    }
}

/// RFC 4340 section 7.5.5.
#[test]
fn a_reset_with_guessed_numbers_does_not_end_the_connection() {
    let (mut net, last) = open(Ccid::TcpLike);
    for guess in [1, 1 << 20, 1 << 40] {
        let packet = Packet::Reset { ack: last.sequence.plus(guess), code: 1, data: [0; 3] };
        let sequence = last.sequence.plus(guess << 3);
        net.deliver(SERVER, 0, &forged(Repr { sequence, packet, ..last }), false);
        net.deliver(SERVER, 5, &forged(Repr { sequence, packet, ..last }), false);
    }
    assert_eq!(net.ends[SERVER].state(), State::Open);
    let before = net.received(SERVER).len();
    net.send(CLIENT, message(1));
    net.run_until(at_ms(500));
    assert_eq!(net.received(SERVER).len(), before + 1);
}

#[test]
fn what_does_not_fit_is_not_answered_on_a_strangers_path() {
    let (mut net, last) = open(Ccid::Tfrc);
    let before = (net.records.len(), net.ends[SERVER].stats().invalid);
    for n in 0..100 {
        let sequence = last.sequence.plus(1_000_000 + n);
        net.deliver(SERVER, 9, &forged(Repr { sequence, packet: Packet::Data, ..last }), false);
    }
    assert_eq!(net.records.len(), before.0);
    assert_eq!(net.ends[SERVER].stats().invalid, before.1 + 100);
}

#[test]
fn a_packet_that_comes_twice_is_delivered_once() {
    for ccid in [Ccid::TcpLike, Ccid::Tfrc] {
        let mut net = Net::with(ccid).links(|link| (link.duplicate, link.jitter) = (1.0, ms(2)));
        net.samples(CLIENT, at_ms(200), ms(1), 500);
        net.run_until(at_ms(2_000));
        let mut received: Vec<u64> = net.samples_received(SERVER).iter().map(|(n, _)| *n).collect();
        received.sort_unstable();
        assert!(received.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(received.len() > 100, "{ccid:?}: {}", received.len());
        assert!(net.ends[SERVER].stats().duplicates >= received.len() as u64);
    }
}

#[test]
fn a_server_answers_strangers_eight_times_in_a_second_at_most() {
    let mut net = Net::with(Ccid::TcpLike).links(|link| link.loss = 1.0);
    let stray = Repr {
        source_port: 6511,
        destination_port: 6511,
        packet: Packet::Ack { ack: Seq::new(5) },
        ..Repr::default()
    };
    for n in 0..1_000 {
        net.now = at_ms(n);
        net.deliver(SERVER, 4, &forged(stray), false);
    }
    let answers = net.records.iter().filter(|record| record.from == SERVER).count();
    assert_eq!(answers, 8);
    assert_eq!(net.ends[SERVER].state(), State::Listen);
}

/// Bytes that look like a packet of this connection as often as chance allows.
fn datagram() -> impl Strategy<Value = Vec<u8>> {
    let ports = prop_oneof![Just(vec![0x19, 0x6f, 0x19, 0x6f]), prop::collection::vec(any::<u8>(), 4)];
    let head = (ports, 3u8..12, any::<u8>(), 0u8..24, prop::collection::vec(any::<u8>(), 0..80));
    let shaped = head.prop_map(|(mut bytes, offset, ccval, type_x, rest)| {
        bytes.extend_from_slice(&[offset, ccval & 0xf0, 0, 0, type_x]);
        bytes.extend_from_slice(&rest);
        bytes
    });
    prop_oneof![shaped, prop::collection::vec(any::<u8>(), 0..100)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Numbers are chosen by chance among 2⁴⁸, so none of these fits.
    #[test]
    fn random_datagrams_are_refused_and_leave_nothing_behind(
        datagrams in prop::collection::vec((0u8..3, datagram()), 1..200),
    ) {
        let (mut net, _) = open(Ccid::TcpLike);
        let received = net.received(SERVER).len();
        for (n, (path, bytes)) in datagrams.iter().enumerate() {
            net.now = at_ms(200 + n as u64);
            let before = net.events[SERVER].len();
            net.deliver(SERVER, *path, bytes, false);
            let refused = net.events[SERVER][before..].iter();
            prop_assert_eq!(refused.filter(|(_, event)| matches!(event, Event::Refused(_))).count(), 1);
        }
        prop_assert_eq!(net.ends[SERVER].state(), State::Open);
        prop_assert_eq!(net.received(SERVER).len(), received);
        net.send(CLIENT, message(1));
        net.run_until(at_ms(1_000));
        prop_assert_eq!(net.received(SERVER).len(), received + 1);
    }

    #[test]
    fn an_end_that_listens_or_asks_survives_random_datagrams(
        datagrams in prop::collection::vec(datagram(), 1..200),
    ) {
        let settings = || DccpConfig::new();
        let mut net = Net::new(1, settings(), settings()).links(|link| link.loss = 1.0);
        net.run_until(at_ms(100));
        for bytes in &datagrams {
            net.deliver(SERVER, 1, bytes, false);
            net.deliver(CLIENT, 0, bytes, false);
        }
        prop_assert!(net.is_connected(CLIENT).is_none() && net.is_connected(SERVER).is_none());
        prop_assert!(net.ends[SERVER].stats().packets_sent <= 8, "strangers are answered a little");
    }

    /// Whatever happens on the way: what was offered is sent or reported, what arrives was sent and arrives once, and the
    /// ends close.
    #[test]
    fn the_books_close_after_any_luck(
        seed in any::<u64>(), tfrc in any::<bool>(), loss in 0u32..40, duplicate in 0u32..30, jitter in 0u64..60,
        mark in 0u32..30, offers in prop::collection::vec((0usize..2, 0u64..40, 0u8..4, 1usize..300), 1..150),
    ) {
        let settings = config(if tfrc { Ccid::Tfrc } else { Ccid::TcpLike });
        let mut net = Net::new(seed, settings.clone(), settings).links(|link| {
            link.loss = f64::from(loss) / 100.0;
            (link.duplicate, link.mark) = (f64::from(duplicate) / 100.0, f64::from(mark) / 100.0);
            link.jitter = ms(jitter);
        });
        let mut now = at_ms(0);
        for (tag, (from, wait, priority, size)) in offers.iter().enumerate() {
            now += ms(*wait);
            net.run_until(now);
            let mut data = (tag as u64).to_le_bytes().to_vec();
            data.resize(8 + size, 0);
            let (tag, priority) = (tag as u64, Priority(*priority));
            net.send(*from, Message { data, priority, tag, created: now, ..Message::default() });
        }
        net.run_until(now + ms(20_000));
        net.close(CLIENT);
        net.run_until(now + ms(600_000));
        for end in [CLIENT, SERVER] {
            let stats = net.ends[end].stats();
            let sum = stats.sent + stats.superseded + stats.too_late + stats.abandoned + stats.waiting;
            prop_assert_eq!(stats.offered, sum, "{:?}", stats);
            let dropped = |(_, event): &&(_, Event)| matches!(event, Event::Dropped { cause, .. } if *cause != DropCause::Loss);
            let reported = net.events[end].iter().filter(dropped).count() as u64;
            prop_assert_eq!(reported, stats.superseded + stats.too_late + stats.abandoned);
            let mut tags: Vec<&[u8]> = net.received(end).iter().map(|(_, _, data)| &data[..8]).collect();
            let count = tags.len();
            tags.sort_unstable();
            tags.dedup();
            prop_assert_eq!(tags.len(), count, "each once");
            prop_assert!(count as u64 <= net.ends[1 - end].stats().sent);
            prop_assert!(matches!(net.ends[end].state(), State::Closed | State::Listen), "{:?}", net.ends[end].state());
            prop_assert!(net.ends[end].poll_timeout().is_none());
        }
    }
}
