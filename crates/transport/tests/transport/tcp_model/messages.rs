//! Messages over the stream.

use proptest::prelude::*;
use taut_core::{Bytes, DropCause, Event, Message, SendError, Time, Transport};
use taut_transport::tcp::{AckCounting, CongestionControl, Counting, Tcp, TcpConfig};

use crate::tcp_model::harness::{End, Net, at_ms, ms};

fn pair(config: &TcpConfig) -> Net {
    Net::new(Tcp::client(config.clone(), u32::MAX - 3000), Tcp::server(config.clone(), 5))
}

fn message(data: Vec<u8>) -> Message {
    Message { data, ..Message::default() }
}

#[test]
fn message_goes_at_once_and_with_nagle_waits_for_the_acknowledgement() {
    // RFC 9293 section 3.7.4.
    for (nagle, segments) in [(false, 3), (true, 2)] {
        let mut net = pair(&TcpConfig { nagle, ..TcpConfig::default() });
        net.run_until(at_ms(100));
        for i in 0..3 {
            net.client.send(net.now, message(vec![i; 86])).unwrap();
            net.run_until(net.now + ms(1));
        }
        net.run_until(at_ms(1000));
        assert_eq!(net.data_records().count(), segments, "nagle {nagle}");
        assert_eq!(net.received(), [[0; 86], [1; 86], [2; 86]]);
    }
}

#[test]
fn message_past_its_deadline_is_dropped_unless_it_was_sent() {
    // Age counts from `created`, not from `send`.
    let mut net = pair(&TcpConfig { mss: 1000, initial_window: 2, ..TcpConfig::default() });
    net.run_until(at_ms(100));
    let late = |tag, age| Message {
        created: at_ms(95),
        deadline: Some(ms(age)),
        tag,
        data: vec![tag as u8; 996],
        ..Message::default()
    };
    assert_eq!(net.client.send(net.now, late(0, 5)), Err(SendError::TooLate));
    for tag in 1..=4 {
        net.client.send(net.now, late(tag, 20)).unwrap();
    }
    net.client.send(net.now, late(5, 1000)).unwrap();
    net.forward.script = crate::tcp_model::harness::lose(&[1]);
    net.run_until(at_ms(3000));
    // Two were sent, and one of them again; the window opened after 16 ms, too late for the others.
    let dropped = |tag| Event::Dropped { tag, cause: DropCause::TooLate };
    assert_eq!(net.client_events[1..], [dropped(3), dropped(4)]);
    assert_eq!(net.received(), [[1; 996], [2; 996], [5; 996]]);
}

#[test]
fn limits_are_named_in_the_refusal() {
    let config =
        TcpConfig { send_buffer: Bytes::new(1000), max_message: Bytes::new(900), ..TcpConfig::default() };
    let mut tcp = Tcp::client(config, 1);
    let (size, limit) = (Bytes::new(901), Bytes::new(900));
    assert_eq!(tcp.send(Time::ZERO, message(vec![0; 901])), Err(SendError::TooLarge { size, limit }));
    tcp.send(Time::ZERO, message(vec![0; 900])).unwrap();
    assert_eq!(tcp.send(Time::ZERO, message(vec![0; 93])), Err(SendError::BufferFull(Bytes::new(1000))));
    tcp.send(Time::ZERO, message(vec![0; 92])).unwrap();
    let mut bulk = Tcp::client(TcpConfig::default(), 1).bulk(None);
    assert_eq!(bulk.send(Time::ZERO, message(vec![])), Err(SendError::BufferFull(Bytes::ZERO)));
}

#[test]
fn acknowledgements_travel_with_data_the_other_way() {
    let mut net = pair(&TcpConfig::default());
    net.run_until(at_ms(100));
    for i in 0..200u64 {
        net.run_until(at_ms(100 + i));
        net.client.send(net.now, message(vec![1; 86])).unwrap();
        net.server.send(net.now, message(vec![2; 137])).unwrap();
    }
    net.run_until(at_ms(1000));
    assert_eq!(net.received().len(), 200);
    let bare = net.records.iter().filter(|r| r.len == 0 && r.at < at_ms(300) && r.at > at_ms(110)).count();
    assert!(bare <= 1, "{bare}");
}

#[test]
fn message_that_is_longer_than_the_peer_takes_ends_the_connection() {
    let small = TcpConfig { max_message: Bytes::new(10), ..TcpConfig::default() };
    let mut net = Net::new(Tcp::client(TcpConfig::default(), 1), Tcp::server(small, 2));
    net.client.send(net.now, message(vec![0; 11])).unwrap();
    net.run_until(at_ms(1000));
    assert_eq!(net.server_events.last(), Some(&Event::Closed));
    assert_eq!(net.client_events.last(), Some(&Event::Closed));
    assert!(net.client_events.contains(&Event::Dropped { tag: 0, cause: DropCause::Cut }));
}

#[derive(Clone, Debug)]
enum Step {
    Send { from_client: bool, len: usize },
    Wait { millis: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let send = (any::<bool>(), prop_oneof![0..200usize, 0..20_000usize])
        .prop_map(|(from_client, len)| Step::Send { from_client, len });
    let wait = (0..40u64).prop_map(|millis| Step::Wait { millis });
    prop::collection::vec(prop_oneof![3 => send, 2 => wait], 1..60)
}

fn configs() -> impl Strategy<Value = TcpConfig> {
    let control = prop_oneof![
        Just(CongestionControl::Reno),
        Just(CongestionControl::NewReno),
        Just(CongestionControl::Cubic)
    ];
    let counting = prop_oneof![Just(AckCounting::Bytes), Just(AckCounting::Acks)];
    (control, counting, any::<[bool; 6]>(), 64..1460u16, 1..5u32, 3_000..60_000u64).prop_map(
        |(
            congestion,
            counting,
            [sack, limited_transmit, timestamps, nagle, rack, segments],
            mss,
            ack_every,
            window,
        )| {
            TcpConfig {
                congestion,
                counting,
                sack,
                rack,
                counted: if segments { Counting::Segments } else { Counting::Bytes },
                limited_transmit,
                timestamps,
                nagle,
                mss,
                ack_every,
                receive_window: Bytes::new(window),
                max_timeouts: 100,
                ..TcpConfig::default()
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn messages_arrive_intact_and_in_order_whatever_the_network_does(
        steps in steps(),
        config in configs(),
        seed in any::<u64>(),
        jitter in 0..30u64,
    ) {
        let mut net = pair(&config);
        for (link, name) in [(&mut net.forward, "forward"), (&mut net.backward, "backward")] {
            let mut rng = taut_core::Seed::new(seed).stream(name);
            link.jitter = ms(jitter);
            link.script = Box::new(move |_, _| rng.below(20) == 0); // 5 % of everything
        }
        let mut sent = (Vec::new(), Vec::new());
        for (number, step) in steps.iter().enumerate() {
            match *step {
                Step::Wait { millis } => net.run_until(net.now + ms(millis)),
                Step::Send { from_client, len } => {
                    let data: Vec<u8> = (0..len).map(|i| (i * 7 + number) as u8).collect();
                    let (end, log) = if from_client {
                        (&mut net.client, &mut sent.0)
                    } else {
                        (&mut net.server, &mut sent.1)
                    };
                    end.send(net.now, message(data.clone())).unwrap();
                    log.push(data);
                }
            }
        }
        net.run_until(net.now + ms(2_000_000));
        let received = |events: &[Event]| -> Vec<Vec<u8>> {
            let data = |event: &Event| match event {
                Event::Received { data, .. } => Some(data.clone()),
                _ => None,
            };
            events.iter().filter_map(data).collect()
        };
        prop_assert_eq!(received(&net.server_events), sent.0);
        prop_assert_eq!(received(&net.client_events), sent.1);
        prop_assert_eq!(net.client.bytes_in_flight(), Bytes::ZERO);
        prop_assert!(net.client.poll_timeout().is_none() && net.server.poll_timeout().is_none());
        let mss = u64::from(config.mss);
        prop_assert!(net.records.iter().all(|r| r.len <= mss), "a segment is no longer than MSS");
        prop_assert!(net.records.iter().any(|r| r.from == End::Server));
    }
}
