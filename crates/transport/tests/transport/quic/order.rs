//! Priorities, deadlines, limits and closing.

use taut_core::{Bytes, DropCause, Event, Message, Priority, Reliability, SendError, StreamId, Transport};
use taut_transport::quic::{CloseReason, Congestion, Paced, QuicConfig};

use crate::quic::harness::*;

fn dropped(net: &Net, node: usize, cause: DropCause) -> usize {
    net.events[node]
        .iter()
        .filter(|(_, event)| matches!(event, Event::Dropped { cause: c, .. } if *c == cause))
        .count()
}

#[test]
fn an_emergency_overtakes_everything_that_waits() {
    let slow = taut_core::Bitrate::from_bps(500_000);
    let paced = Paced::new().floor(slow).ceiling(slow);
    let mut net = Net::connected(&QuicConfig::new().congestion(Congestion::Paced(paced)));
    net.send(CLIENT, command(net.now, 2, 2, 100_000));
    for _ in 0..30 {
        net.send(CLIENT, sample(net.now, 1_000));
    }
    net.run_for(ms(5));
    let (stop, halt) = (command(net.now, 0, 0, 20), sample(net.now, 20));
    net.send(CLIENT, stop);
    net.send(CLIENT, Message { priority: Priority(0), stream: StreamId(9), ..halt });
    net.run_for(ms(5_000));
    assert_eq!(latencies(&net, SERVER, 0), [ms(10)], "reliable");
    assert_eq!(latencies(&net, SERVER, 9), [ms(10)], "unreliable");
    assert!(latencies(&net, SERVER, 2)[0] > ms(1_000), "the rest is held to the rate");
    assert_eq!(net.received(SERVER).len(), 33);
}

#[test]
fn age_is_checked_when_offered_and_when_it_is_its_turn() {
    let mut net = Net::pair(&QuicConfig::new());
    let deadline = Some(ms(15));
    let young = Message { deadline, ..sample(net.now, 20) };
    net.send(CLIENT, young.clone());
    net.send(CLIENT, Message { reliability: Reliability::Reliable, ..young.clone() });
    net.run_for(ms(15));
    let now = net.now;
    assert_eq!(net.nodes[CLIENT].send(now, young), Err(SendError::TooLate));
    net.run_for(ms(500));
    assert_eq!(dropped(&net, CLIENT, DropCause::TooLate), 2, "the handshake took 20 ms");
    assert!(net.received(SERVER).is_empty());
    assert_eq!(net.nodes[CLIENT].stats().too_late, 2);
}

#[test]
fn what_cannot_be_sent_is_refused_at_once() {
    let config = QuicConfig::new().max_message(Bytes::new(5_000)).send_buffer(Bytes::new(6_000));
    let mut net = Net::pair(&config);
    let now = net.now;
    let limit = net.nodes[CLIENT].max_unreliable();
    assert_eq!(limit, Bytes::new(1_158));
    let size = Bytes::new(1_159);
    let sent = net.nodes[CLIENT].send(now, sample(now, 1_159));
    assert_eq!(sent, Err(SendError::TooLarge { size, limit }));
    let sent = net.nodes[CLIENT].send(now, command(now, 1, 1, 5_001));
    assert_eq!(sent, Err(SendError::TooLarge { size: Bytes::new(5_001), limit: Bytes::new(5_000) }));
    net.send(CLIENT, command(now, 1, 1, 5_000));
    let sent = net.nodes[CLIENT].send(now, command(now, 1, 1, 5_000));
    assert!(matches!(sent, Err(SendError::BufferFull(_))));
    net.send(CLIENT, sample(now, 1_158));
    net.run_for(ms(1_000));
    assert_eq!(net.received(SERVER).len(), 2, "the longest of each arrive");
}

#[test]
fn a_stop_finds_room_where_reliable_states_have_filled_the_buffer() {
    let mut net = Net::pair(&QuicConfig::new().max_message(Bytes::new(1_000)).send_buffer(Bytes::new(4_000)));
    let now = net.now;
    let taken = (0..100).take_while(|_| net.nodes[CLIENT].send(now, command(now, 1, 1, 100)).is_ok()).count();
    assert!((20..30).contains(&taken), "{taken}");
    assert_eq!(net.nodes[CLIENT].send(now, command(now, 0, 0, 100)), Ok(()));
    net.run_for(ms(1_000));
    assert_eq!(latencies(&net, SERVER, 0).len(), 1);
    assert_eq!(latencies(&net, SERVER, 1).len(), taken);
}

#[test]
fn a_sample_takes_the_place_of_one_of_its_own_series() {
    let mut net = Net::pair(&QuicConfig::new().queue(2));
    for (tag, series) in [(1, 7), (2, 9), (3, 9), (4, 9)] {
        net.send(CLIENT, Message { tag, series: Some(series), ..sample(net.now, 20) });
    }
    let gone: Vec<_> = net.events[CLIENT].iter().map(|(_, event)| event).collect();
    assert_eq!(gone, [&Event::Dropped { tag: 2, cause: DropCause::Superseded }]);
    assert_eq!(net.nodes[CLIENT].stats().superseded, 1);
}

#[test]
fn what_is_before_a_stop_in_its_stream_waits_for_no_rate_either() {
    let slow = taut_core::Bitrate::from_bps(500_000);
    let paced = Paced::new().floor(slow).ceiling(slow);
    let mut net = Net::connected(&QuicConfig::new().congestion(Congestion::Paced(paced)));
    for _ in 0..40 {
        net.send(CLIENT, command(net.now, 2, 2, 1_000));
    }
    net.run_for(ms(5));
    net.send(CLIENT, command(net.now, 3, 2, 100));
    net.send(CLIENT, command(net.now, 3, 0, 20));
    net.run_for(ms(1_000));
    assert!(latencies(&net, SERVER, 3).iter().all(|took| *took < ms(25)), "{:?}", latencies(&net, SERVER, 3));
}

#[test]
fn what_was_begun_before_a_stop_in_its_lane_waits_for_no_rate_either() {
    let slow = taut_core::Bitrate::from_bps(500_000);
    let paced = Paced::new().floor(slow).ceiling(slow);
    // The tenth stream shares QUIC's with the second.
    for stop in [2, 10] {
        let mut net = Net::connected(&QuicConfig::new().congestion(Congestion::Paced(paced)));
        net.send(CLIENT, command(net.now, 2, 2, 100_000));
        net.run_for(ms(5));
        net.send(CLIENT, command(net.now, stop, 0, 20));
        net.run_for(ms(2_000));
        let took = *latencies(&net, SERVER, stop).last().expect("it arrived");
        assert!(took < ms(150), "{took}: 100 kB take 1.6 s at the rate");
    }
}

#[test]
fn an_empty_message_is_a_message() {
    let mut net = Net::connected(&QuicConfig::new());
    for reliability in [Reliability::Unreliable, Reliability::Reliable] {
        net.send(CLIENT, Message { reliability, stream: StreamId(300), ..Message::default() });
    }
    net.run_for(ms(100));
    let received: Vec<_> =
        net.received(SERVER).iter().map(|(_, stream, data)| (stream.0, data.len())).collect();
    assert_eq!(received, [(300, 0), (300, 0)]);
}

#[test]
fn a_message_that_waits_for_the_rate_goes_in_one_packet_with_its_header() {
    let mut net = Net::connected(&QuicConfig::new());
    net.records.clear();
    let now = net.now;
    for number in 0..1_000 {
        net.send(CLIENT, command(now, 2 + number % 2, 2, 88));
    }
    net.run_for(ms(2_000));
    assert_eq!(net.received(SERVER).len(), 1_000);
    let packets = net.records.iter().filter(|record| record.from == CLIENT).count();
    assert!(packets < 1_100, "{packets}: one each, and a few of QUIC's own");
}

#[test]
fn equally_urgent_streams_take_turns_when_messages_wait() {
    let mut net = Net::connected(&QuicConfig::new());
    let now = net.now;
    for number in 0..1_000 {
        net.send(CLIENT, command(now, 2 + number % 2, 2, 88));
    }
    net.run_for(ms(2_000));
    let streams: Vec<u16> = net.received(SERVER).iter().map(|(_, stream, _)| stream.0).collect();
    let of_second = streams[..500].iter().filter(|stream| **stream == 3).count();
    assert!((230..=270).contains(&of_second), "{of_second} of the first 500 are of the second stream");
}

#[test]
fn it_tells_the_round_trip_of_packets_whatever_is_repeated() {
    let mut net = Net::connected(&QuicConfig::new());
    net.link.loss = share(0.05);
    for _ in 0..500 {
        net.send(CLIENT, command(net.now, 2, 2, 88));
        net.run_for(ms(2));
    }
    let rtt = net.nodes[CLIENT].round_trip().expect("much was acknowledged");
    assert!((ms(20)..ms(22)).contains(&rtt), "{rtt}");
}

#[test]
fn streams_beyond_the_eighth_share_and_keep_their_numbers() {
    let mut net = Net::connected(&QuicConfig::new());
    for stream in 0..40 {
        net.send(CLIENT, command(net.now, stream, 1, 30));
    }
    net.run_for(ms(200));
    let mut streams: Vec<_> = net.received(SERVER).iter().map(|(_, stream, _)| stream.0).collect();
    streams.sort_unstable();
    assert_eq!(streams, (0..40).collect::<Vec<_>>());
}

#[test]
fn closing_is_told_and_what_waits_is_reported() {
    let mut net = Net::pair(&QuicConfig::new());
    for _ in 0..3 {
        net.send(CLIENT, command(net.now, 1, 1, 30));
    }
    net.run_for(ms(5));
    let now = net.now;
    net.nodes[CLIENT].close(now);
    net.run_for(ms(100));
    assert_eq!(dropped(&net, CLIENT, DropCause::Abandoned), 3);
    assert!(net.saw(CLIENT, &Event::Closed));
    let now = net.now;
    assert_eq!(net.nodes[CLIENT].send(now, sample(now, 10)), Err(SendError::Closed));

    let mut net = Net::connected(&QuicConfig::new());
    let now = net.now;
    net.nodes[SERVER].close(now);
    net.run_for(ms(10));
    assert!(net.saw(CLIENT, &Event::Closed), "half a round trip later");
    assert_eq!(net.nodes[CLIENT].close_reason(), Some(&CloseReason::Peer));
    assert_eq!(net.nodes[SERVER].close_reason(), Some(&CloseReason::Local));
    net.run_for(ms(5_000));
    assert_eq!(net.nodes[SERVER].poll_timeout(), None, "nothing is left to do");
    assert_eq!(net.nodes[CLIENT].poll_timeout(), None);
    assert!(net.nodes[CLIENT].stats().packets_sent > 0, "counts outlive the connection");
}

#[test]
fn silence_ends_the_conversation_and_keep_alive_prevents_it() {
    let mut net = Net::connected(&QuicConfig::new().idle_timeout(ms(1_000)).keep_alive(ms(300)));
    net.run_for(ms(10_000));
    assert!(net.nodes[CLIENT].close_reason().is_none());
    net.link.cut = true;
    net.run_for(ms(1_500));
    for node in [CLIENT, SERVER] {
        assert_eq!(net.nodes[node].close_reason(), Some(&CloseReason::TimedOut));
        assert!(net.saw(node, &Event::Closed));
    }
}

#[test]
fn what_was_accepted_leaves_before_the_end_is_told() {
    let mut net = Net::connected(&QuicConfig::new());
    let now = net.now;
    for message in [command(now, 0, 0, 20), Message { priority: Priority(0), ..sample(now, 30) }] {
        net.nodes[CLIENT].send(now, message).expect("there is room");
    }
    net.nodes[CLIENT].close(now);
    net.run_for(ms(15));
    let mut lengths: Vec<usize> = net.received(SERVER).iter().map(|(.., data)| data.len()).collect();
    lengths.sort_unstable();
    assert_eq!(lengths, [20, 30]);
    assert_eq!(net.nodes[SERVER].close_reason(), Some(&CloseReason::Peer));
    assert_eq!(dropped(&net, CLIENT, DropCause::Abandoned), 0);
}

#[test]
fn a_message_of_which_quic_took_a_part_is_reported_when_it_ends() {
    let mut net = Net::connected(&QuicConfig::new().send_buffer(Bytes::new(300_000)));
    net.link.cut = true;
    for _ in 0..2 {
        net.send(CLIENT, command(net.now, 2, 2, 200_000));
        net.send(CLIENT, command(net.now, 3, 2, 10_000));
        net.run_for(ms(10));
    }
    let now = net.now;
    net.nodes[CLIENT].close(now);
    net.run_for(ms(10));
    assert!(dropped(&net, CLIENT, DropCause::Cut) >= 1, "{:?}", net.events[CLIENT]);
    let stats = net.nodes[CLIENT].stats();
    assert_eq!(stats.offered, stats.sent + stats.abandoned);
}
