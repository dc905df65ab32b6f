//! What waits for the gap, what goes, and what is superseded: one endpoint, time by hand.
//! Source: Lee, Payandeh, Trajković, *Performance Evaluation of Transport Protocols for Internet-Based Teleoperation
//! Systems* (the gap is kept between successive data packets; when it opens, the newest sample goes).

use proptest::prelude::*;
use taut_core::{
    Bytes, Datagram, DropCause, Duration, Ecn, Event, Message, PathId, Priority, Reliability, SendError,
    StreamId, Time, Transport,
};
use taut_transport::etp::{Adaptive, ConfigError, Etp, EtpConfig, Gap, GapChoice, MOTION_GAP};
use taut_transport::tcp::{Tcp, TcpConfig};
use taut_transport::udp::{Udp, UdpConfig};
use taut_wire::etp::{Data, Packet};

use crate::net::{MS, at_ms as at};

fn sample(tag: u64) -> Message {
    Message { data: vec![tag as u8; 10], tag, ..Message::default() }
}

fn reliable(tag: u64) -> Message {
    Message { reliability: Reliability::Reliable, ..sample(tag) }
}

fn fixed(gap: Duration) -> Etp {
    quiet(Etp::new(EtpConfig::fixed(gap)).expect("the gap is in range"))
}

/// Takes the events of the beginning away.
fn quiet<T: Transport>(mut transport: T) -> T {
    while transport.poll_event().is_some() {}
    transport
}

/// The first byte of every message in the next packet; empty when none may go.
fn next_packet(etp: &mut Etp, now: Time) -> Vec<u8> {
    let mut buffer = Vec::new();
    if etp.poll_transmit(now, &mut buffer).is_none() {
        return Vec::new();
    }
    match Packet::parse(&buffer) {
        Ok(Packet::Data(data)) => data.messages().map(|message| message.expect("it was parsed")[0]).collect(),
        other => panic!("{other:?}"),
    }
}

fn dropped(transport: &mut impl Transport) -> Vec<(u64, DropCause)> {
    let events = std::iter::from_fn(|| transport.poll_event());
    events
        .filter_map(|event| match event {
            Event::Dropped { tag, cause } => Some((tag, cause)),
            _ => None,
        })
        .collect()
}

#[test]
fn the_gap_is_kept_to_the_nanosecond_and_the_newest_goes() {
    let gap = Duration::from_nanos(3_700_001);
    let mut etp = fixed(gap);
    let mut sent = Vec::new();
    for tag in 0..100 {
        let now = at(tag);
        while let Some(deadline) = etp.poll_timeout().filter(|deadline| deadline.at < now) {
            etp.handle_timeout(deadline.at);
            next_packet(&mut etp, deadline.at).iter().for_each(|tag| sent.push((deadline.at, *tag)));
        }
        etp.send(now, sample(tag)).unwrap();
        next_packet(&mut etp, now).iter().for_each(|tag| sent.push((now, *tag)));
    }
    for pair in sent.windows(2) {
        assert_eq!(pair[1].0 - pair[0].0, gap);
    }
    for (time, tag) in &sent {
        assert_eq!(u64::from(*tag), time.as_nanos() / 1_000_000, "the newest at {time}");
    }
    let sampling = etp.stats().sampling;
    assert_eq!((sampling.offered, sampling.sent, sampling.superseded), (100, 27, 72));
}

#[test]
fn superseded_samples_are_named_with_their_cause() {
    let mut etp = fixed(MS * 8);
    (1..=4).for_each(|tag| etp.send(at(0), sample(tag)).unwrap());
    assert_eq!(next_packet(&mut etp, at(0)), [1]);
    assert_eq!(dropped(&mut etp), [(2, DropCause::Superseded), (3, DropCause::Superseded)]);
    assert!(next_packet(&mut etp, at(7)).is_empty());
    assert_eq!(next_packet(&mut etp, at(8)), [4]);
    assert_eq!(etp.poll_timeout(), None);
}

/// The source's burst of two every 8 ms passes a gap of 4 ms whole, however often the driver polls.
#[test]
fn a_burst_gives_the_same_packets_whether_polled_after_each_message_or_after_both() {
    for poll_between in [false, true] {
        let mut etp = fixed(MS * 4);
        let mut sent = Vec::new();
        for cycle in 0..5 {
            for half in 0..2 {
                etp.send(at(cycle * 8), sample(cycle * 2 + half)).unwrap();
                if poll_between {
                    sent.extend(next_packet(&mut etp, at(cycle * 8)));
                }
            }
            for offset in [0, 4] {
                sent.extend(next_packet(&mut etp, at(cycle * 8 + offset)));
            }
        }
        assert_eq!(sent, Vec::from_iter(0..10));
        assert_eq!(etp.stats().sampling.superseded, 0);
    }
}

#[test]
fn without_a_gap_nothing_waits_and_nothing_is_superseded() {
    let mut etp = fixed(Duration::ZERO);
    (1..=5).for_each(|tag| etp.send(at(0), sample(tag)).unwrap());
    let sent: Vec<u8> = (0..6).flat_map(|_| next_packet(&mut etp, at(0))).collect();
    assert_eq!(sent, [1, 2, 3, 4, 5]);
}

#[test]
fn a_late_driver_never_shortens_the_gap() {
    let mut etp = fixed(MS * 4);
    etp.send(at(0), sample(1)).unwrap();
    assert_eq!(next_packet(&mut etp, at(3)), [1]);
    etp.send(at(4), sample(2)).unwrap();
    assert!(next_packet(&mut etp, at(6)).is_empty());
    assert_eq!(next_packet(&mut etp, at(7)), [2]);
}

#[test]
fn packing_sends_all_that_waited_in_one_packet_oldest_first() {
    let mut etp = quiet(Etp::new(EtpConfig::fixed(MS * 8).pack(true)).unwrap());
    (0..8).for_each(|tag| {
        etp.send(at(tag), sample(tag)).unwrap();
        assert_eq!(next_packet(&mut etp, at(tag)), if tag == 0 { vec![0] } else { vec![] });
    });
    assert_eq!(next_packet(&mut etp, at(8)), [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(etp.stats().sampling.superseded, 0);
    assert_eq!(etp.stats().packets_sent, 2);
}

#[test]
fn packing_supersedes_the_oldest_that_do_not_fit_one_datagram() {
    // Header 12, three messages of 2 + 10.
    let config = EtpConfig::fixed(MS * 8).pack(true).max_datagram(Bytes::new(12 + 36));
    let mut etp = quiet(Etp::new(config).unwrap());
    (0..6).for_each(|tag| {
        etp.send(at(tag), sample(tag)).unwrap();
        next_packet(&mut etp, at(tag));
    });
    assert_eq!(dropped(&mut etp), [(1, DropCause::Superseded), (2, DropCause::Superseded)]);
    assert_eq!(next_packet(&mut etp, at(8)), [3, 4, 5]);
}

#[test]
fn a_message_that_fills_the_datagram_goes_alone_and_unpacked() {
    let config = EtpConfig::fixed(MS).pack(true).max_datagram(Bytes::new(22));
    let mut etp = quiet(Etp::new(config).unwrap());
    (0..3).for_each(|tag| etp.send(at(0), sample(tag)).unwrap());
    assert_eq!(next_packet(&mut etp, at(0)), [0]);
    assert_eq!(next_packet(&mut etp, at(1)), [2]);
    let (size, limit) = (Bytes::new(11), Bytes::new(10));
    let long = Message { data: vec![0; 11], ..Message::default() };
    assert_eq!(etp.send(at(2), long), Err(SendError::TooLarge { size, limit }));
}

#[test]
fn reliable_messages_are_not_superseded_and_go_before_samples_in_order() {
    let mut etp = fixed(MS);
    etp.send(at(0), sample(0)).unwrap();
    for message in [sample(1), reliable(2), sample(3), reliable(4)] {
        etp.send(at(0), message).unwrap();
    }
    let sent: Vec<u8> = (0..5).flat_map(|ms| next_packet(&mut etp, at(ms))).collect();
    assert_eq!(sent, [0, 2, 4, 3]);
    assert_eq!(dropped(&mut etp), [(1, DropCause::Superseded)]);
}

#[test]
fn a_full_queue_of_reliable_messages_refuses_the_next() {
    let mut etp = quiet(Etp::new(EtpConfig::fixed(MS).queue(2)).unwrap());
    let [sample, reliable] = [sample as fn(u64) -> Message, reliable]
        .map(|of| move |tag| Message { priority: Priority(1), ..of(tag) });
    etp.send(at(0), sample(0)).unwrap();
    assert_eq!(next_packet(&mut etp, at(0)), [0]);
    etp.send(at(0), sample(1)).unwrap();
    etp.send(at(0), reliable(2)).unwrap();
    etp.send(at(0), reliable(3)).unwrap();
    assert_eq!(dropped(&mut etp), [(1, DropCause::Superseded)], "a sample makes room for what is reliable");
    assert_eq!(etp.send(at(0), reliable(4)), Err(SendError::BufferFull(Bytes::new(20))));
    let stop = |tag| Message { priority: Priority(0), ..reliable(tag) };
    assert_eq!(etp.send(at(0), stop(5)), Ok(()), "what stops a robot has room of its own");
    let full = Err(SendError::BufferFull(Bytes::new(30)));
    assert_eq!((etp.send(at(0), reliable(6)), etp.send(at(0), stop(7))), (full, full), "one in ten");
}

#[test]
fn each_priority_has_its_own_newest_and_the_most_urgent_goes_first() {
    let mut etp = fixed(MS);
    let with = |tag, priority| Message { priority: Priority(priority), ..sample(tag) };
    etp.send(at(0), with(0, 2)).unwrap();
    for (tag, priority) in [(1, 2), (2, 1), (3, 2), (4, 1)] {
        etp.send(at(0), with(tag, priority)).unwrap();
    }
    let sent: Vec<u8> = (0..5).flat_map(|ms| next_packet(&mut etp, at(ms))).collect();
    assert_eq!(sent, [0, 4, 3]);
}

#[test]
fn what_comes_after_the_samples_is_never_superseded() {
    let mut etp = fixed(MS);
    for tag in 0..4 {
        etp.send(at(0), Message { priority: Priority(3), ..sample(tag) }).unwrap();
    }
    let sent: Vec<u8> = (0..5).flat_map(|ms| next_packet(&mut etp, at(ms))).collect();
    assert_eq!(sent, [0, 1, 2, 3]);
}

#[test]
fn what_is_urgent_does_not_wait_and_the_gap_begins_behind_it() {
    let config = EtpConfig::fixed(MS * 8).urgent(Some(Priority(0)));
    let mut etp = quiet(Etp::new(config).unwrap());
    let with = |tag, priority| Message { priority: Priority(priority), ..sample(tag) };
    etp.send(at(0), with(1, 1)).unwrap();
    assert_eq!(next_packet(&mut etp, at(0)), [1]);
    etp.send(at(2), with(2, 1)).unwrap();
    etp.send(at(3), with(3, 0)).unwrap();
    assert_eq!(next_packet(&mut etp, at(3)), [3]);
    assert!(next_packet(&mut etp, at(8)).is_empty());
    assert_eq!(next_packet(&mut etp, at(11)), [2]);
}

#[test]
fn a_session_s_samples_are_not_superseded_by_the_messages_beside_them() {
    let mut etp = quiet(Etp::new(EtpConfig::session(MS)).expect("within its ranges"));
    let mut sent = 0;
    for ms in 1..=1_000 {
        etp.send(at(ms), sample(ms)).expect("a sample");
        // Twenty times a second something else, at the same instant.
        if ms % 50 == 0 {
            etp.send(at(ms), Message { priority: Priority(1), ..sample(0) }).expect("a clock request");
        }
        while !next_packet(&mut etp, at(ms)).is_empty() {
            sent += 1;
        }
    }
    assert_eq!((sent, etp.stats().sampling.superseded), (1_020, 0));
}

/// As `--gap 4ms` sets it up.
fn session_with_a_gap() -> Etp {
    let config = EtpConfig::session(MS).pack(true).gap(GapChoice::Fixed(MS * 4));
    quiet(Etp::new(config).expect("within its ranges"))
}

#[test]
fn with_a_chosen_gap_every_packet_has_the_newest_state_and_whatever_else_waits() {
    let mut etp = session_with_a_gap();
    let (mut sent, mut before) = (0, None);
    for ms in 0..1_000 {
        etp.send(at(ms), Message { priority: Priority(2), ..sample(ms) }).expect("a state");
        let request = ms % 50 == 3;
        if request {
            etp.send(at(ms), Message { priority: Priority(1), ..sample(7) }).expect("a clock request");
        }
        while let packet @ [_, ..] = &next_packet(&mut etp, at(ms))[..] {
            assert!(before.is_none_or(|before| at(ms) - before >= MS * 4), "{ms} ms");
            assert!(packet.contains(&(ms as u8)), "the newest state goes: {packet:?} at {ms} ms");
            assert!(packet.len() <= 2, "an older state goes too: {packet:?}");
            (sent, before) = (sent + 1, Some(at(ms)));
        }
    }
    let sampling = etp.stats().sampling;
    let all = dropped(&mut etp);
    assert!(all.iter().all(|(_, cause)| *cause == DropCause::Superseded));
    // 250 packets carry 250 states and 20 requests; three states are made after the last one.
    assert_eq!((sent, sampling.sent, sampling.offered, all.len()), (250, 270, 1_020, 749));
    assert_eq!(sampling.superseded, 749);
}

#[test]
fn a_stop_leaves_at_once_whatever_waits_for_the_chosen_gap() {
    let mut etp = session_with_a_gap();
    etp.send(at(0), Message { priority: Priority(2), ..sample(1) }).unwrap();
    assert_eq!(next_packet(&mut etp, at(0)), [1]);
    // More than a datagram holds waits, and would for three gaps.
    for tag in 10..13 {
        etp.send(at(1), Message { data: vec![tag as u8; 1_000], priority: Priority(1), ..reliable(tag) })
            .unwrap();
    }
    etp.send(at(1), Message { priority: Priority(0), ..reliable(99) }).unwrap();
    assert_eq!(etp.poll_timeout().map(|deadline| deadline.at <= at(1)), Some(true));
    assert_eq!(next_packet(&mut etp, at(1))[0], 99);
    // The rest keeps the gap behind it.
    let others: Vec<_> = (1..20).filter(|ms| !next_packet(&mut etp, at(*ms)).is_empty()).collect();
    assert_eq!(others, [5, 9]);
}

/// Streams of one priority, as an acknowledgement beside the feedback.
#[test]
fn samples_of_another_stream_or_series_wait_beside_the_newest() {
    let mut etp = session_with_a_gap();
    let of = |tag, stream, series| Message {
        priority: Priority(2),
        stream: StreamId(stream),
        series,
        ..sample(tag)
    };
    etp.send(at(0), of(1, 2, None)).unwrap();
    assert_eq!(next_packet(&mut etp, at(0)), [1]);
    for message in [of(2, 2, None), of(3, 3, None), of(4, 2, Some(2)), of(5, 2, None)] {
        etp.send(at(1), message).unwrap();
    }
    assert_eq!(next_packet(&mut etp, at(4)), [3, 4, 5]);
    assert_eq!(dropped(&mut etp), [(2, DropCause::Superseded)]);
}

#[test]
fn the_tolerance_lets_a_burst_through_and_keeps_the_rate() {
    let config = EtpConfig::fixed(MS * 10).tolerance(MS * 15);
    let mut etp = quiet(Etp::new(config).expect("the gap is in range"));
    let mut sent = 0;
    for ms in 0..1_000 {
        etp.send(at(ms), sample(ms)).expect("a sample");
        sent += u64::from(!next_packet(&mut etp, at(ms)).is_empty());
    }
    assert_eq!(sent, 102, "one each 10 ms, and 15 ms ahead");
}

#[test]
fn age_is_checked_when_offered_and_again_when_the_gap_opens() {
    let mut etp = fixed(MS * 8);
    let aged = |tag| Message { created: at(0), deadline: Some(MS * 6), ..sample(tag) };
    etp.send(at(0), aged(1)).unwrap();
    assert_eq!(next_packet(&mut etp, at(0)), [1]);
    etp.send(at(5), aged(2)).unwrap();
    assert_eq!(etp.send(at(6), aged(3)), Err(SendError::TooLate));
    assert!(next_packet(&mut etp, at(8)).is_empty());
    assert_eq!(dropped(&mut etp), [(2, DropCause::TooLate)]);
    etp.send(at(9), sample(4)).unwrap();
    assert_eq!(next_packet(&mut etp, at(9)), [4], "what was dropped does not close the gap");
}

#[test]
fn the_packet_tells_the_gap_and_asks_for_feedback_only_when_the_gap_adapts() {
    let first = |config| {
        let mut etp = Etp::new(config).unwrap();
        etp.send(at(7), sample(9)).unwrap();
        let mut buffer = Vec::new();
        etp.poll_transmit(at(7), &mut buffer).unwrap();
        buffer
    };
    let payload = [9; 10];
    let data = Data { gap_units: 400, clock_us: 7_000, payload: &payload, ..Data::default() };
    assert_eq!(Packet::parse(&first(EtpConfig::fixed(MS * 4))), Ok(Packet::Data(data)));
    let data = Data { gap_units: 100, feedback_wanted: true, ..data };
    assert_eq!(Packet::parse(&first(EtpConfig::adaptive(Adaptive::new()))), Ok(Packet::Data(data)));
}

#[test]
fn rates_are_reported_once_a_second() {
    let mut etp = fixed(MS * 4);
    for ms in 0..=1000 {
        next_packet(&mut etp, at(ms));
        etp.send(at(ms), sample(ms)).unwrap();
        next_packet(&mut etp, at(ms));
    }
    let gauges: Vec<_> = std::iter::from_fn(|| etp.poll_event())
        .filter_map(|event| match event {
            Event::Gauge { name, value } => Some((name, value)),
            _ => None,
        })
        .collect();
    let [("offered_hz", offered), ("sent_hz", sent)] = gauges[..] else { panic!("{gauges:?}") };
    assert!((offered - 1000.0).abs() < 1e-9 && (sent - 250.0).abs() < 2.0, "{offered} {sent}");
}

#[test]
fn settings_outside_their_range_are_refused() {
    let refused = |config| Etp::new(config).unwrap_err();
    let long = Duration::from_secs(1);
    assert_eq!(refused(EtpConfig::fixed(long)), ConfigError::Gap(long));
    let bounds = ConfigError::GapBounds { min: MS * 40, max: MOTION_GAP };
    assert_eq!(refused(EtpConfig::adaptive(Adaptive::new().min_gap(MS * 40))), bounds);
    let step = Adaptive::new().step(Duration::ZERO);
    assert_eq!(refused(EtpConfig::adaptive(step)).to_string(), "the gap's step is 0");
    let small = refused(EtpConfig::fixed(MS).max_datagram(Bytes::new(12)));
    assert_eq!(small.to_string(), "a datagram of 12B is not between 13B and 65.479kB");
    assert_eq!(refused(EtpConfig::fixed(MS).queue(0)), ConfigError::Queue);
    let long = MS * 1_001;
    assert_eq!(refused(EtpConfig::fixed(MS).tolerance(long)), ConfigError::Tolerance(long));
    let interval = ConfigError::FeedbackInterval(Duration::ZERO);
    assert_eq!(refused(EtpConfig::fixed(MS).feedback_interval(Duration::ZERO)), interval);
}

#[test]
fn the_gap_over_another_transport_is_kept_and_supersedes_alike() {
    let mut spaced = quiet(Gap::new(Udp::new(UdpConfig::new()), MS * 4).unwrap());
    let mut sent = Vec::new();
    for ms in 0..20 {
        spaced.handle_timeout(at(ms));
        spaced.send(at(ms), sample(ms)).unwrap();
        let mut buffer = Vec::new();
        while spaced.poll_transmit(at(ms), &mut buffer).is_some() {
            sent.push((ms, buffer[0]));
            buffer.clear();
        }
    }
    // At 4 ms, 8 ms, …: the timeout came first, so what waited went, and the newcomer waits.
    assert_eq!(sent, [(0, 0), (4, 3), (8, 7), (12, 11), (16, 15)]);
    assert_eq!((spaced.sampling().sent, spaced.sampling().superseded), (5, 14));
}

#[test]
fn a_stop_leaves_at_once_through_the_gap_over_another_transport() {
    let mut spaced = Gap::new(Udp::new(UdpConfig::new()), MS * 600).unwrap().urgent(Some(Priority(0)));
    let of = |tag, priority, ms| Message { priority: Priority(priority), created: at(ms), ..sample(tag) };
    let mut leaves = |message: Message, ms| {
        spaced.send(at(ms), message).unwrap();
        let mut buffer = Vec::new();
        spaced.poll_transmit(at(ms), &mut buffer).map(|_| buffer[0])
    };
    assert_eq!([leaves(of(1, 2, 0), 0), leaves(of(2, 2, 1), 1)], [Some(1), None]);
    assert_eq!([leaves(of(3, 0, 2), 2), leaves(of(4, 0, 3), 3)], [Some(3), Some(4)]);
}

/// `base = "tcp"`: what is let through arrives in order, and TCP's own timers go on below.
#[test]
fn the_gap_is_kept_over_tcp() {
    let mut client = Gap::new(Tcp::client(TcpConfig::default(), 1), MS * 4).unwrap();
    let mut server = Tcp::server(TcpConfig::default(), 2);
    let mut received = Vec::new();
    for ms in 0..100 {
        client.handle_timeout(at(ms));
        server.handle_timeout(at(ms));
        client.send(at(ms), sample(ms)).unwrap();
        // A network without delay, until neither has more to say.
        while carry(&mut client, &mut server, at(ms)) + carry(&mut server, &mut client, at(ms)) > 0 {}
        received.extend(std::iter::from_fn(|| server.poll_event()).filter_map(|event| match event {
            Event::Received { data, .. } => Some((ms, u64::from(data[0]))),
            _ => None,
        }));
    }
    let expected = (0..25).map(|cycle| (cycle * 4, (cycle * 4u64).saturating_sub(1)));
    assert!(received.iter().copied().eq(expected), "{received:?}");
}

fn carry(from: &mut impl Transport, to: &mut impl Transport, now: Time) -> usize {
    let (mut buffer, mut count) = (Vec::new(), 0);
    while let Some(transmit) = from.poll_transmit(now, &mut buffer) {
        let padding = transmit.padding;
        to.handle_input(now, Datagram { path: PathId(0), ecn: Ecn::NotCapable, data: &buffer, padding });
        buffer.clear();
        count += 1;
    }
    count
}

/// Each address has numbers of its own.
#[test]
fn a_stray_datagram_does_not_make_the_peers_packets_late() {
    let mut robot = Etp::waiting(EtpConfig::session(MS)).expect("within its ranges");
    let mut arrives = |ms, path, sequence| {
        let mut bytes = Vec::new();
        Data { sequence, payload: b"state", ..Data::default() }.emit(&mut bytes);
        let input = Datagram { path: PathId(path), ecn: Ecn::NotCapable, data: &bytes, padding: 0 };
        robot.handle_input(at(ms), input);
        let told = std::iter::from_fn(|| robot.poll_event());
        told.filter(|event| !matches!(event, Event::Gauge { .. } | Event::Connected)).collect::<Vec<_>>()
    };
    let received =
        |path| [Event::Received { data: b"state".to_vec(), path: PathId(path), stream: StreamId(0) }];
    for number in 0..10 {
        assert_eq!(arrives(number, 1, number as u32), received(1));
    }
    assert_eq!(arrives(10, 2, 1 << 30), received(2));
    assert_eq!(arrives(10, 2, 1 << 30), [Event::Refused(DropCause::Duplicate)]);
    assert_eq!(arrives(11, 1, 10), received(1));
    assert_eq!(arrives(11, 3, 0), received(3));
    assert_eq!(arrives(12, 1, 10), [Event::Refused(DropCause::Duplicate)]);
    assert_eq!(arrives(12, 1, 11), received(1));
}

#[test]
fn what_the_transport_below_refuses_is_reported_as_dropped() {
    let inner = Udp::new(UdpConfig::new().max_datagram(Bytes::new(5)));
    let mut spaced = quiet(Gap::new(inner, MS).unwrap());
    spaced.send(at(0), sample(7)).unwrap();
    assert_eq!(dropped(&mut spaced), [(7, DropCause::TooBig)]);
    let sampling = spaced.sampling();
    assert_eq!((sampling.offered, sampling.sent, sampling.refused_below), (1, 0, 1));
}

proptest! {
    #[test]
    fn garbage_is_refused_or_delivered_and_never_a_panic(
        adaptive in any::<bool>(),
        inputs in prop::collection::vec(
            (prop::collection::vec(any::<u8>(), 0..60), prop::option::of(0u8..2), 0u32..40), 1..40),
    ) {
        let config = if adaptive { EtpConfig::adaptive(Adaptive::new()) } else { EtpConfig::fixed(MS) };
        let mut etp = quiet(Etp::new(config).unwrap());
        for (step, (mut data, kind, padding)) in inputs.into_iter().enumerate() {
            let now = at(step as u64 * 7);
            if let (Some(kind), Some(first)) = (kind, data.first_mut()) {
                *first = 0x10 | kind;
            }
            etp.handle_timeout(now);
            let _ = etp.send(now, sample(step as u64));
            let before = etp.stats();
            etp.handle_input(now, Datagram { path: PathId(0), ecn: Ecn::NotCapable, data: &data, padding });
            let after = etp.stats();
            let used = (after.packets_received - before.packets_received)
                + (after.feedback_received - before.feedback_received);
            prop_assert_eq!(used + after.refused - before.refused, 1, "every datagram is used or refused");
            let mut buffer = Vec::new();
            while etp.poll_transmit(now, &mut buffer).is_some() {
                prop_assert!(Packet::parse(&buffer).is_ok());
                buffer.clear();
            }
            prop_assert!(etp.poll_timeout().is_none_or(|deadline| deadline.at > now));
        }
    }

    #[test]
    fn every_message_is_sent_dropped_or_waiting_and_the_gap_is_kept(
        gap_us in 0u64..10_000, pack in any::<bool>(), queue in 1usize..8,
        steps in prop::collection::vec(
            (0u64..5_000, 0u8..3, any::<bool>(), prop::option::of(0u64..8), 0usize..30, any::<bool>()), 1..200),
    ) {
        let gap = Duration::from_micros(gap_us);
        let config = EtpConfig::fixed(gap).pack(pack).queue(queue).max_datagram(Bytes::new(64));
        let mut etp = quiet(Etp::new(config).unwrap());
        let (mut now, mut last, mut taken, mut gone) = (Time::ZERO, None::<Time>, 0u64, 0u64);
        for (wait_us, priority, must_arrive, deadline_ms, len, poll) in steps {
            now += Duration::from_micros(wait_us);
            let message = Message {
                data: vec![0; len],
                created: now,
                deadline: deadline_ms.map(|ms| MS * ms),
                stream: StreamId(0),
                priority: Priority(priority),
                reliability: if must_arrive { Reliability::Reliable } else { Reliability::Unreliable },
                tag: taken,
                wanted: None,
                series: None,
            };
            taken += u64::from(etp.send(now, message).is_ok());
            let mut buffer = Vec::new();
            while poll && etp.poll_transmit(now, &mut buffer).is_some() {
                prop_assert!(buffer.len() <= 64);
                prop_assert!(last.is_none_or(|last| now.saturating_since(last) >= gap));
                last = Some(now);
                buffer.clear();
            }
            gone += dropped(&mut etp).len() as u64;
            let sampling = etp.stats().sampling;
            prop_assert_eq!(sampling.offered, taken);
            prop_assert_eq!(sampling.superseded + sampling.too_late, gone);
            let waiting = taken - gone - sampling.sent;
            // A tenth more for what stops a robot.
            prop_assert!(waiting <= (queue + queue.div_ceil(10)) as u64);
            prop_assert_eq!(etp.poll_timeout().is_some(), waiting > 0);
        }
    }
}
