//! Handshake, closing, giving up, sequence numbers, acknowledgement policy.

use taut_core::{Bytes, Duration, Event, Message, SendError, Time, Transport};
use taut_transport::tcp::{Tcp, TcpConfig};
use taut_wire::tcp::Flags;

use crate::tcp_model::harness::{End, Net, at_ms, ms};

fn message(data: &[u8]) -> Message {
    Message { data: data.to_vec(), ..Message::default() }
}

fn pair(config: &TcpConfig) -> Net {
    Net::new(Tcp::client(config.clone(), 7), Tcp::server(config.clone(), 9))
}

#[test]
fn handshake_takes_three_segments_and_one_round_trip() {
    // RFC 9293 section 3.5, figure 6.
    let mut net = pair(&TcpConfig::default());
    net.run_until(at_ms(100));
    let flags: Vec<_> = net.records.iter().map(|r| (r.from, r.repr.flags)).collect();
    assert_eq!(
        flags,
        [(End::Client, Flags::SYN), (End::Server, Flags::SYN | Flags::ACK), (End::Client, Flags::ACK)]
    );
    assert_eq!(net.records[2].at, at_ms(16));
    assert_eq!((net.records[2].repr.sequence, net.records[2].repr.acknowledgement), (8, 10));
    assert_eq!(
        (&net.client_events[..], &net.server_events[..]),
        (&[Event::Connected][..], &[Event::Connected][..])
    );
    assert_eq!(net.client.smoothed_rtt(), Some(ms(16)));
    let options = net.records[0].repr.options;
    assert_eq!((options.mss, options.window_scale, options.sack_permitted), (Some(1460), Some(5), true));
}

#[test]
fn an_option_is_in_force_only_when_both_syns_carry_it() {
    // RFC 2018 section 2, RFC 7323 sections 2.2 and 3.2.
    let plain = TcpConfig { sack: false, mss: 500, ..TcpConfig::default() };
    let rich = TcpConfig { timestamps: true, ..TcpConfig::default() };
    let mut net = Net::new(Tcp::client(rich, 1).bulk(Some(10_000)), Tcp::server(plain, 2).sink());
    net.run_until(at_ms(1000));
    assert!(net.records[0].repr.options.timestamps.is_some());
    assert!(net.records[1].repr.options.timestamps.is_none() && !net.records[1].repr.options.sack_permitted);
    assert!(net.data_records().all(|r| r.len == 500 && r.repr.options.timestamps.is_none()));
    assert_eq!(net.server.delivered_bytes(), Bytes::new(10_000));
}

#[test]
fn timestamps_make_room_for_themselves_and_measure_the_round_trip() {
    // RFC 6691 section 2, RFC 7323 section 4.
    let config = TcpConfig { timestamps: true, mss: 538, ..TcpConfig::default() };
    let mut net = Net::bulk(&config);
    net.forward.script = crate::tcp_model::harness::lose(&[30]);
    net.run_until(at_ms(500));
    assert!(net.data_records().all(|r| r.len == 526 && r.repr.options.timestamps.is_some()));
    let rtt = net.client.smoothed_rtt().unwrap();
    assert!(rtt >= ms(15) && rtt <= ms(20), "{rtt}");
}

#[test]
fn lost_syn_is_sent_again_after_a_second_then_two_and_starts_slowly() {
    // RFC 6298 sections 2.1, 5.5 and 5.7; RFC 5681 section 3.1: initial window of one segment then.
    let mut net = Net::bulk(&TcpConfig::default());
    let mut left = 2;
    net.forward.script = Box::new(move |_, record| {
        let lost = record.repr.flags.contains(Flags::SYN) && left > 0;
        left -= u32::from(lost);
        lost
    });
    net.run_until(at_ms(3016));
    let syns: Vec<_> =
        net.records.iter().filter(|r| r.from == End::Client && r.len == 0).map(|r| r.at).collect();
    assert_eq!(syns[..3], [at_ms(0), at_ms(1000), at_ms(3000)]);
    assert_eq!(net.data_records().count(), 1);
    assert_eq!(net.client.retransmission_timeout(), Duration::from_secs(3));
}

#[test]
fn lost_syn_ack_and_lost_last_ack_are_made_good() {
    let mut net = pair(&TcpConfig::default());
    let mut first = true;
    net.backward.script = Box::new(move |_, _| std::mem::take(&mut first));
    let mut acks = 0;
    net.forward.script = Box::new(move |_, record| {
        acks += u32::from(record.repr.flags == Flags::ACK);
        record.repr.flags == Flags::ACK && acks == 1
    });
    net.client.send(Time::ZERO, message(b"after all")).unwrap();
    net.run_until(at_ms(5000));
    assert_eq!(net.received(), [b"after all"]);
}

#[test]
fn sequence_numbers_wrap_around_unnoticed() {
    // RFC 9293 section 3.4: all arithmetic is modulo 2^32. The stream crosses it within the first window.
    for (client, server) in [(u32::MAX - 5000, 17), (u32::MAX, u32::MAX), (0x7fff_ffff, 0x8000_0000)] {
        for sack in [false, true] {
            let config = TcpConfig { sack, ..TcpConfig::default() };
            let client = Tcp::client(config.clone(), client).bulk(Some(3_000_000));
            let mut net = Net::new(client, Tcp::server(config, server).sink());
            net.forward.script = crate::tcp_model::harness::lose(&[3, 40, 41, 300]);
            net.run_until(at_ms(20_000));
            assert_eq!(net.server.delivered_bytes(), Bytes::new(3_000_000));
            assert_eq!(net.client.bytes_in_flight(), Bytes::ZERO);
            assert_eq!(net.client.stats().timeouts, 0);
        }
    }
}

#[test]
fn every_nth_full_segment_is_acknowledged() {
    // RFC 5681 section 4.2 for n = 2; the others are what experiments ask for.
    for n in [1, 2, 4] {
        let config = TcpConfig { ack_every: n, mss: 1000, initial_window: 40, ..TcpConfig::default() };
        let client = Tcp::client(config.clone(), 1).bulk(Some(40_000));
        let mut net = Net::new(client, Tcp::server(config, 2).sink());
        net.run_until(at_ms(100));
        assert_eq!(net.acks_of_server(), 1 + 40 / n as usize, "n = {n}"); // and one SYN
    }
}

#[test]
fn last_odd_segment_is_acknowledged_by_the_timer() {
    // RFC 1122 section 4.2.3.2.
    let config = TcpConfig { mss: 1000, initial_window: 40, ..TcpConfig::default() };
    let client = Tcp::client(config.clone(), 1).bulk(Some(3000));
    let mut net = Net::new(client, Tcp::server(config, 2).sink());
    net.run_until(at_ms(1000));
    let acks: Vec<_> = net.records.iter().filter(|r| r.from == End::Server).map(|r| r.at).collect();
    // Data leaves at 16 ms and arrives at 24 ms.
    assert_eq!(acks, [at_ms(8), at_ms(24), at_ms(224)]);
}

#[test]
fn what_arrives_out_of_order_and_what_fills_a_gap_is_acknowledged_at_once() {
    // RFC 5681 section 4.2; SACK blocks as in RFC 2018 section 4: the newest first.
    let config = TcpConfig { mss: 1000, initial_window: 6, ack_every: 4, ..TcpConfig::default() };
    let client = Tcp::client(config.clone(), 0).bulk(Some(6000));
    let mut net = Net::new(client, Tcp::server(config, 0).sink());
    net.forward.script = crate::tcp_model::harness::lose(&[1, 3]);
    net.run_until(at_ms(39));
    let acks: Vec<_> =
        net.records.iter().filter(|r| r.from == End::Server && r.repr.flags == Flags::ACK).collect();
    let numbers: Vec<_> = acks.iter().map(|r| (r.at, r.repr.acknowledgement)).collect();
    assert_eq!(numbers, [(at_ms(24), 1001); 3]); // for segments 2, 4 and 5
    let blocks =
        |i: usize| acks[i].repr.options.sack.as_slice().iter().map(|b| (b.left, b.right)).collect::<Vec<_>>();
    assert_eq!(blocks(0), [(2001, 3001)]);
    assert_eq!(blocks(1), [(4001, 5001), (2001, 3001)]);
    assert_eq!(blocks(2), [(4001, 6001), (2001, 3001)]);
    net.run_until(at_ms(60));
    assert_eq!(net.server.delivered_bytes(), Bytes::new(6000));
    // Half of five segments is room for one retransmission at a time.
    let last = net.records.iter().rfind(|r| r.from == End::Server).unwrap();
    assert_eq!((last.at, last.repr.acknowledgement), (at_ms(56), 6001));
}

#[test]
fn both_ends_report_closed_when_everything_arrived() {
    // RFC 9293 section 3.6, also when FIN is lost.
    let mut net = pair(&TcpConfig::default());
    net.client.send(Time::ZERO, message(b"last words")).unwrap();
    net.client.close(Time::ZERO);
    let mut first = true;
    net.forward.script =
        Box::new(move |_, r| r.repr.flags.contains(Flags::FIN) && std::mem::take(&mut first));
    assert_eq!(net.client.send(Time::ZERO, message(b"too late")), Err(SendError::Closed));
    net.run_until(at_ms(5000));
    assert_eq!(net.received(), [b"last words"]);
    assert_eq!(net.client_events.last(), Some(&Event::Closed));
    assert_eq!(net.server_events.last(), Some(&Event::Closed));
    assert_eq!(net.client.poll_timeout(), None);
    assert_eq!(net.server.poll_timeout(), None);
}

#[test]
fn silent_peer_is_given_up_and_every_message_accounted_for() {
    // R2 of RFC 9293 section 3.8.3.
    let config = TcpConfig { max_timeouts: 3, ..TcpConfig::default() };
    let mut net = pair(&config);
    net.run_until(at_ms(100));
    net.forward.script = Box::new(|_, _| true);
    net.client.send(net.now, Message { tag: 5, ..message(b"sent") }).unwrap();
    net.run_until(at_ms(200));
    net.client.send(net.now, Message { tag: 6, ..message(&[0; 50_000]) }).unwrap();
    net.client.send(net.now, Message { tag: 7, ..message(b"waiting") }).unwrap();
    net.run_until(at_ms(60_000));
    let cut = |tag| Event::Dropped { tag, cause: taut_core::DropCause::Cut };
    assert_eq!(net.client_events[1..], [cut(5), cut(6), cut(7), Event::Closed]);
    assert_eq!(net.client.send(net.now, message(b"")), Err(SendError::Closed));
}

#[test]
fn peer_with_a_small_window_is_not_overrun() {
    // RFC 9293 section 3.8.6: never beyond the window; a full segment or half of the window at a time.
    let small = TcpConfig { receive_window: Bytes::new(4000), ..TcpConfig::default() };
    let client = Tcp::client(TcpConfig::default(), 1).bulk(Some(100_000));
    let mut net = Net::new(client, Tcp::server(small, 2).sink());
    net.run_until(at_ms(10_000));
    assert_eq!(net.server.delivered_bytes(), Bytes::new(100_000));
    assert!(net.windows.iter().all(|(_, cwnd)| *cwnd == 14_600), "a window that is not used does not grow");
    let mut net = Net::bulk(&TcpConfig { receive_window: Bytes::new(4000), ..TcpConfig::default() });
    net.run_until(at_ms(100));
    assert!(net.client.bytes_in_flight() <= Bytes::new(4000));
}

#[test]
fn a_server_that_is_closed_before_anybody_came_says_so() {
    let mut server = Tcp::server(TcpConfig::default(), 1);
    server.close(Time::ZERO);
    assert_eq!(server.poll_event(), Some(Event::Closed));
    assert!(server.poll_event().is_none() && server.poll_timeout().is_none());
}
