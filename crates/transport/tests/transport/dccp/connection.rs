//! Handshake, negotiation, numbers, end.

use taut_core::{DropCause, Duration, Ecn, Event, Message, SendError, StreamId, Time, Transport};
use taut_transport::dccp::{Ccid, DccpConfig, State};
use taut_wire::dccp::{DccpOption, Negotiation, Packet, Repr, ResetCode, Seq, View, feature};

use super::harness::{CLIENT, Net, SERVER, at_ms, config, message, ms, name};

const CCIDS: [Ccid; 2] = [Ccid::TcpLike, Ccid::Tfrc];

/// RFC 4340 section 8.1: Request, Response, Ack; links of 10 ms.
#[test]
fn a_handshake_takes_a_round_trip_at_the_client_and_one_and_a_half_at_the_server() {
    for ccid in CCIDS {
        let mut net = Net::with(ccid);
        net.run_until(at_ms(300));
        assert_eq!(net.is_connected(CLIENT), Some(at_ms(20)));
        assert_eq!(net.is_connected(SERVER), Some(at_ms(30)));
        let types = net.types();
        assert_eq!(types[..4], [(0, "Request"), (1, "Response"), (0, "Ack"), (1, "Ack")], "{types:?}");
        assert_eq!((net.ends[0].state(), net.ends[1].state()), (State::Open, State::Open));
        assert_eq!(net.ends[0].stats().ccid, Some(ccid));
        assert_eq!(net.ends[0].rtt(), Some(ms(20)));
    }
}

#[test]
fn messages_offered_before_the_handshake_go_with_it_and_keep_their_stream() {
    let mut net = Net::with(Ccid::TcpLike);
    net.send(CLIENT, Message { data: b"stop".to_vec(), stream: StreamId(0x0102), ..Message::default() });
    net.run_until(at_ms(300));
    assert_eq!(net.received(SERVER), [(at_ms(30), StreamId(0x0102), &b"stop"[..])]);
    let record = net.records.iter().find(|record| name(&record.repr.packet) == "DataAck").expect("data");
    let data = View::new_checked(&record.bytes).unwrap().data();
    assert_eq!(data, b"\x02\x01\x00\x00stop", "the stream in four bytes, little-endian");
}

/// RFC 4340 section 8.1.4. What has no room beside the cookie waits for the answer to it.
#[test]
fn a_servers_cookie_is_in_every_packet_until_the_connection_is_open() {
    for ccid in CCIDS {
        let mut net = Net::with(ccid);
        net.links[SERVER].script = Box::new(|_, repr| name(&repr.packet) == "Response");
        for tag in 0..4 {
            let data = vec![tag as u8; if tag == 3 { 1_400 } else { 8 }];
            net.send(CLIENT, Message { data, tag, ..Message::default() });
        }
        net.run_until(at_ms(15));
        let response = net.records.last().expect("a response").clone();
        let (mut options, mut bytes) = (Vec::new(), Vec::new());
        View::new_checked(&response.bytes).unwrap().options().for_each(|option| option.emit(&mut options));
        DccpOption::InitCookie(&[7; 253]).emit(&mut options);
        response.repr.emit(&options, &[], &mut bytes);
        net.deliver(CLIENT, 0, &bytes, false);
        net.run_until(at_ms(34));
        assert_eq!(net.ends[CLIENT].state(), State::PartOpen);
        let of_client = net.records.iter().filter(|record| record.from == CLIENT).skip(1);
        let cookies: Vec<bool> = of_client
            .map(|record| {
                let view = View::new_checked(&record.bytes).unwrap();
                view.options().any(|option| option == DccpOption::InitCookie(&[7; 253]))
            })
            .collect();
        assert!(!cookies.is_empty() && cookies.iter().all(|cookie| *cookie), "{ccid:?}: {cookies:?}");
        assert!(net.records.iter().all(|record| record.bytes.len() <= 1_472));
        net.run_until(at_ms(1_000));
        assert_eq!((net.ends[CLIENT].state(), net.received(SERVER).len()), (State::Open, 4), "{ccid:?}");
    }
}

/// RFC 4340 section 13.3: it counts from the packet with the timestamp, not from the one that is acknowledged.
#[test]
fn how_long_a_timestamp_was_held_is_no_part_of_the_round_trip() {
    let mut net = Net::with(Ccid::TcpLike);
    net.run_until(at_ms(300));
    net.links[SERVER].loss = 1.0;
    net.send(CLIENT, message(1));
    net.run_until(at_ms(311));
    let sent = net.records.iter().rfind(|record| record.from == CLIENT).expect("a message").repr;
    let last = net.records.iter().rfind(|record| record.from == SERVER).expect("a packet").repr;
    let (mut options, mut bytes) = (Vec::new(), Vec::new());
    DccpOption::TimestampEcho { echo: 5, elapsed: 1_500 }.emit(&mut options);
    let packet = Packet::Ack { ack: sent.sequence };
    Repr { sequence: last.sequence.next(), packet, ..last }.emit(&options, &[], &mut bytes);
    net.run_until(at_ms(320));
    net.deliver(CLIENT, 0, &bytes, false);
    assert_eq!(net.ends[CLIENT].rtt(), Some(ms(20)));
}

/// RFC 4340 sections 8.1.1 and 8.1.5.
#[test]
fn every_lost_packet_of_the_handshake_is_repeated() {
    for lost in ["Request", "Response", "Ack"] {
        let mut net = Net::with(Ccid::Tfrc).links(|link| {
            link.script = Box::new(move |index, repr| index < 2 && name(&repr.packet) == lost);
        });
        net.run_until(at_ms(10_000));
        for end in [CLIENT, SERVER] {
            assert_eq!(net.ends[end].state(), State::Open, "{lost}: {:?}", net.types());
        }
        let (first, again) = match lost {
            "Ack" => (200, 400),
            _ => (1_000, 2_000), // back-off from one second
        };
        let sent: Vec<Time> = net.records.iter().filter(|r| r.from == CLIENT).map(|r| r.at).collect();
        assert_eq!(sent[1] - sent[0], if lost == "Ack" { ms(20) } else { ms(first) });
        assert!(sent.windows(2).any(|pair| pair[1] - pair[0] == ms(again)), "{sent:?}");
    }
}

#[test]
fn a_client_without_answer_gives_up_and_reports_what_it_did_not_send() {
    let settings = config(Ccid::TcpLike).connect_timeout(Duration::from_secs(20));
    let mut net = Net::new(1, settings.clone(), settings).links(|link| link.loss = 1.0);
    net.send(CLIENT, message(7));
    net.run_until(at_ms(60_000));
    assert_eq!(net.closed_at(CLIENT), Some(at_ms(20_000)));
    let sent: Vec<u64> = net.records.iter().map(|record| record.at.as_nanos() / 1_000_000_000).collect();
    assert_eq!(sent, [0, 1, 3, 7, 15]);
    let dropped = Event::Dropped { tag: 7, cause: DropCause::Abandoned };
    assert!(net.events[CLIENT].iter().any(|(_, event)| *event == dropped));
    assert_eq!(net.ends[CLIENT].send(at_ms(60_000), message(8)), Err(SendError::Closed));
    assert_eq!(net.ends[CLIENT].poll_timeout(), None);
}

/// RFC 4340 section 8.1.2.
#[test]
fn another_service_is_refused_with_its_reason() {
    let mut net = Net::new(1, DccpConfig::new().service(1), DccpConfig::new().service(2));
    net.run_until(at_ms(300));
    let reset = &net.records[1].repr;
    let Packet::Reset { ack, code, .. } = reset.packet else { panic!("{reset:?}") };
    assert_eq!((ack, reset.sequence), (net.records[0].repr.sequence, Seq::new(0)), "section 8.3.1");
    assert_eq!(code, ResetCode::BadServiceCode as u8);
    assert_eq!(net.closed_at(CLIENT), Some(at_ms(20)));
    assert_eq!(net.ends[SERVER].state(), State::Listen);
}

#[test]
fn the_initial_number_comes_from_the_seed() {
    let first = |seed| {
        let mut net = Net::new(seed, DccpConfig::new(), DccpConfig::new());
        net.run_until(at_ms(300));
        net.records.into_iter().map(|record| (record.at, record.bytes)).collect::<Vec<_>>()
    };
    assert_eq!(first(1), first(1), "bytes too");
    assert_ne!(first(1)[0].1[10..16], first(2)[0].1[10..16]);
}

#[test]
fn the_ends_agree_on_profiles_windows_and_ack_vectors() {
    let client = DccpConfig::new().ccids(&[Ccid::TcpLike, Ccid::Tfrc]).unwrap();
    let server =
        DccpConfig::new().ccids(&[Ccid::Tfrc, Ccid::TcpLike]).unwrap().sequence_window(5_000).unwrap();
    let mut net = Net::new(1, client, server);
    net.run_until(at_ms(2_000));
    for end in [CLIENT, SERVER] {
        assert_eq!(net.ends[end].stats().ccid, Some(Ccid::Tfrc), "the server's preference");
    }
    let said = |from, wanted: DccpOption<'_>| {
        let mut records = net.records.iter().filter(|record| record.from == from);
        records
            .any(|record| View::new_checked(&record.bytes).unwrap().options().any(|option| option == wanted))
    };
    let option = |negotiation, feature, value| DccpOption::Feature { negotiation, feature, value };
    assert!(said(CLIENT, option(Negotiation::ChangeL, feature::CCID, &[2, 3])));
    assert!(said(SERVER, option(Negotiation::ConfirmR, feature::CCID, &[3, 3, 2])));
    assert!(said(SERVER, option(Negotiation::ChangeL, feature::SEQUENCE_WINDOW, &[0, 0, 0, 0, 0x13, 0x88])));
    assert!(said(CLIENT, option(Negotiation::ConfirmR, feature::SEQUENCE_WINDOW, &[0, 0, 0, 0, 0x13, 0x88])));
    assert!(said(SERVER, option(Negotiation::ChangeR, feature::SEND_NDP_COUNT, &[1])));
    assert!(said(CLIENT, option(Negotiation::ConfirmL, feature::SEND_NDP_COUNT, &[1, 0, 1])));
    let last = net.records.last().expect("a packet").at;
    assert!(last < at_ms(1_000), "negotiation ends: {:?}", net.types());
}

#[test]
fn ends_without_a_common_profile_do_not_connect() {
    for (client, server) in [(Ccid::TcpLike, Ccid::Tfrc), (Ccid::Tfrc, Ccid::TcpLike)] {
        let mut net = Net::new(1, config(client), config(server));
        net.run_until(at_ms(2_000));
        assert!(net.closed_at(CLIENT).is_some(), "{:?}", net.types());
        let code = net.records.iter().find_map(|record| match record.repr.packet {
            Packet::Reset { code, .. } => Some(code),
            _ => None,
        });
        assert_eq!(code, Some(ResetCode::MandatoryError as u8));
        assert!(net.is_connected(SERVER).is_none());
    }
}

#[test]
fn an_end_that_cannot_read_marks_gets_packets_that_are_dropped_instead() {
    let mut net = Net::new(1, DccpConfig::new(), DccpConfig::new().ecn(false));
    net.samples(CLIENT, at_ms(100), ms(1), 50);
    net.samples(SERVER, at_ms(100), ms(1), 50);
    net.run_until(at_ms(400));
    let marks = |from| {
        let sent = net.records.iter().filter(move |record| record.from == from && record.at >= at_ms(100));
        sent.map(|record| record.ecn).collect::<Vec<_>>()
    };
    assert!(marks(CLIENT).iter().all(|ecn| *ecn == Ecn::NotCapable));
    assert!(marks(SERVER).iter().all(|ecn| *ecn == Ecn::Capable0));
}

/// RFC 4340 section 8.3.
#[test]
fn the_end_that_closes_or_its_client_keeps_the_memory_of_the_connection() {
    let plain = DccpConfig::new();
    let keeping = DccpConfig::new().server_keeps_time_wait(true);
    let cases = [
        (CLIENT, &plain, &["Close", "Reset"][..], CLIENT),
        (SERVER, &plain, &["CloseReq", "Close", "Reset"], CLIENT),
        (SERVER, &keeping, &["Close", "Reset"], SERVER),
    ];
    for (closer, server, expected, keeper) in cases {
        let mut net = Net::new(1, plain.clone(), server.clone());
        net.run_until(at_ms(1_000));
        let before = net.records.len();
        net.close(closer);
        net.run_until(at_ms(1_500));
        assert!(net.types()[before..].iter().map(|(_, name)| *name).eq(expected.iter().copied()));
        let reset = net.records.last().expect("a Reset").repr.packet;
        assert!(matches!(reset, Packet::Reset { code: 1, .. }), "{reset:?}");
        assert_eq!(net.ends[keeper].state(), State::TimeWait);
        assert_eq!(net.ends[1 - keeper].state(), State::Closed);
        assert!(net.closed_at(CLIENT).is_some() && net.closed_at(SERVER).is_some());
        net.run_until(at_ms(300_000));
        assert_eq!(net.ends[keeper].state(), State::Closed, "after four minutes");
        assert!((0..2).all(|end| net.ends[end].poll_timeout().is_none()));
    }
}

#[test]
fn a_lost_goodbye_is_repeated() {
    for lost in ["CloseReq", "Close", "Reset"] {
        let mut net = Net::with(Ccid::TcpLike).links(|link| {
            link.script = Box::new(move |index, repr| index < 1 && name(&repr.packet) == lost);
        });
        net.run_until(at_ms(1_000));
        net.close(SERVER);
        net.run_until(at_ms(5_000));
        assert!(net.closed_at(CLIENT).is_some() && net.closed_at(SERVER).is_some(), "{:?}", net.types());
    }
}

/// Section 7.5.4: after a burst of losses wider than the window, a Sync and its answer bring the ends together again.
#[test]
fn ends_that_lost_step_get_in_step_again() {
    for ccid in CCIDS {
        // Four old samples wait at the end, so that there is something to be out of step with.
        let settings = config(ccid).sequence_window(100).unwrap().queue(64, 4).unwrap();
        let mut net = Net::new(1, settings.clone(), settings);
        net.run_until(at_ms(200));
        // The client believes that it may send; nothing of 500 packets arrives.
        net.links[CLIENT].loss = 1.0;
        net.samples(CLIENT, at_ms(200), ms(5), 2_000);
        net.run_until(at_ms(10_000));
        net.links[CLIENT].loss = 0.0;
        net.samples(CLIENT, at_ms(30_000), ms(20), 100);
        net.run_until(at_ms(60_000));
        // The TCP-like profile stops before it leaves the window; TFRC does not quite.
        let answered = net.types().contains(&(CLIENT, "SyncAck"));
        assert_eq!(answered, ccid == Ccid::Tfrc);
        let got = net.samples_received(SERVER).iter().filter(|(_, age)| *age < ms(100)).count();
        assert!(got >= 75, "{ccid:?}: {got}, {:?}", net.ends[SERVER].stats());
    }
}

/// A sender that pushes on while everything is lost is stopped by its profile long before the window is used up; so the
/// jump is made by hand.
#[test]
fn a_jump_beyond_the_window_is_answered_by_a_sync() {
    let mut net = Net::with(Ccid::TcpLike);
    net.run_until(at_ms(200));
    let last = net.records.iter().rfind(|record| record.from == CLIENT).expect("an Ack").repr;
    let jump = Repr { sequence: last.sequence.plus(1_000_000), packet: Packet::Data, ..last };
    let mut bytes = Vec::new();
    jump.emit(&[], &[0; 8], &mut bytes);
    let before = net.records.len();
    net.deliver(SERVER, 0, &bytes, false);
    let sync = &net.records[before].repr;
    assert_eq!(sync.packet, Packet::Sync { ack: jump.sequence });
    net.deliver(SERVER, 0, &bytes, false);
    assert_eq!(net.records.len(), before + 1, "eight in a second at most");
    // The client sent nothing like it: the Sync is ignored, and nothing breaks.
    net.send(CLIENT, message(1));
    net.run_until(at_ms(400));
    assert_eq!(net.received(SERVER).len(), 1);
}

#[test]
fn packets_follow_the_peer_to_another_path() {
    let mut net = Net::with(Ccid::Tfrc);
    net.run_until(at_ms(200));
    net.path = 3;
    net.send(CLIENT, message(1));
    net.run_until(at_ms(300));
    let mut bytes = Vec::new();
    net.ends[SERVER].send(at_ms(300), message(2)).unwrap();
    let transmit = net.ends[SERVER].poll_transmit(at_ms(300), &mut bytes).expect("a message");
    assert_eq!(transmit.path.0, 3);
    let arrived = |event: &Event| matches!(event, Event::Received { path, .. } if path.0 == 3);
    assert!(net.events[SERVER].iter().any(|(_, event)| arrived(event)));
}
