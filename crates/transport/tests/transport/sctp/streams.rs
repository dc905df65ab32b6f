use taut_core::{
    Bytes, DropCause, Duration, Event, Message, PathId, Priority, SendError, StreamId, Transport,
};
use taut_transport::sctp::SctpConfig;

use crate::net::{MS, at_ms, percentile};
use crate::sctp::{ages, command, connected, offer, pair, sample, stamped};

#[test]
fn it_connects_in_two_round_trips() {
    let mut net = pair(SctpConfig::new(), MS * 10, 1);
    net.run_until(at_ms(1_000));
    assert_eq!(net.connected_at(1), Some(at_ms(30)));
    assert_eq!(net.connected_at(0), Some(at_ms(40)));
}

#[test]
fn a_lost_init_or_cookie_is_sent_again() {
    for lost in 0..4_u64 {
        let mut net = pair(SctpConfig::new(), MS * 10, 1);
        let way = &mut net.ways[lost as usize % 2];
        way.cut = lost == 0;
        net.run_until(at_ms(10 * lost) - MS);
        net.ways[lost as usize % 2].cut = true;
        net.run_until(at_ms(10 * lost));
        net.ways[lost as usize % 2].cut = false;
        net.run_until(at_ms(400));
        assert!(net.connected_at(0).is_some() && net.connected_at(1).is_some(), "{lost}");
    }
}

#[test]
fn reliable_messages_all_arrive_in_order_at_ten_percent_loss() {
    let mut net = pair(SctpConfig::new(), MS * 10, 3).lossy(10.0);
    net.run_for(MS * 3_000);
    for _ in 0..2_000 {
        let message = command(&net, 1, 100);
        offer(&mut net, 0, message).unwrap();
        net.run_for(MS * 5);
    }
    net.run_for(Duration::from_secs(60));
    let stamps: Vec<&[u8]> = net.received(1).map(|(_, data)| &data[..8]).collect();
    assert_eq!(stamps.len(), 2_000);
    assert!(stamps.is_sorted());
    assert!(net.ends[0].stats().retransmitted_packets > 100);
}

#[test]
fn it_tells_the_round_trip_of_what_was_sent_once() {
    let mut net = connected(SctpConfig::new()).lossy(5.0);
    assert_eq!(net.ends[0].round_trip(), None, "nothing was sent");
    for _ in 0..500 {
        let message = command(&net, 1, 88);
        offer(&mut net, 0, message).unwrap();
        net.run_for(MS * 2);
    }
    let rtt = net.ends[0].round_trip().expect("much was acknowledged");
    assert!((MS * 20..MS * 26).contains(&rtt), "{rtt}");
}

/// A lost one comes one and a half round trips later; the others do not wait for it. Each is sent once, 107 B, and twice
/// more when it was lost.
#[test]
fn samples_at_a_kilohertz_wait_for_nobody() {
    for (loss, delay, longest_p99) in [(1, 10, 35), (5, 10, 36), (10, 10, 38), (5, 100, 310)] {
        let mut net = pair(SctpConfig::new(), MS * delay, 2).lossy(f64::from(loss));
        net.run_for(MS * 5_000);
        let begun = net.sent.len();
        for _ in 0..20_000 {
            let message = Message { deadline: Some(MS * 50), ..sample(&net) };
            offer(&mut net, 0, message).unwrap();
            net.run_for(MS);
        }
        net.run_for(MS * 2_000);
        let ages = ages(&net, 1);
        let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|share| percentile(&ages, share));
        let (stats, sent) = (net.ends[0].stats(), &net.sent[begun..]);
        let bytes: usize = sent.iter().filter(|(_, from, ..)| *from == 0).map(|(.., data)| data.len()).sum();
        println!(
            "{loss} %, {delay} ms: {} of 20000 arrived; p50 {p50}, p99 {p99}, p99.9 {p999}; {} B each; {} let go, {} late",
            ages.len(),
            bytes / 20_000,
            stats.let_go,
            stats.too_late,
        );
        assert!(p50 == MS * delay && p99 <= MS * longest_p99, "{p50} {p99}");
        assert!(ages.len() >= 19_990, "{}", ages.len());
        let most = 107.0 * (1.0 + 2.0 * f64::from(loss) / 100.0);
        assert!(bytes as f64 / 20_000.0 < most * 1.03, "{} B", bytes / 20_000);
        let told =
            net.events[0].iter().filter(|(_, event)| matches!(event, Event::Dropped { .. })).count() as u64;
        assert_eq!(told, stats.abandoned + stats.superseded + stats.too_late);
        assert!(ages.len() as u64 + told + stats.let_go >= 20_000, "nothing vanishes");
    }
}

/// 35 ms one way: seventy acknowledgements arrive before one that can tell of the repetition.
#[test]
fn one_lost_packet_is_repeated_as_often_as_it_is_configured() {
    for copies in [1, 2, 3] {
        let mut net = pair(SctpConfig::new().copies(copies), MS * 35, 1);
        net.run_for(MS * 1_000);
        for number in 0..500 {
            let message = command(&net, 2, 75);
            net.ways[0].cut = number == 250;
            offer(&mut net, 0, message).unwrap();
            net.ways[0].cut = false;
            net.run_for(MS);
        }
        net.run_for(MS * 500);
        let stats = net.ends[0].stats();
        assert_eq!(stats.retransmitted_packets, u64::from(copies));
        assert!(stats.held_back > 15, "{stats:?}");
        assert_eq!(net.received(1).count(), 500);
        // Three packets after it must arrive, and what tells of them come back.
        assert_eq!(ages(&net, 1).last(), Some(&(MS * (35 + 3 + 70))));
    }
}

/// The last message before a silence has nothing behind it that would tell of its loss: it leaves once more after two round trips
/// and 60 ms.
#[test]
fn a_lost_message_with_nothing_behind_it_is_probed_for() {
    let mut net = connected(SctpConfig::new());
    for _ in 0..10 {
        let message = command(&net, 0, 75);
        offer(&mut net, 0, message).unwrap();
        net.run_for(MS * 100);
    }
    net.ways[0].cut = true;
    let message = command(&net, 0, 75);
    offer(&mut net, 0, message).unwrap();
    net.ways[0].cut = false;
    net.run_for(MS * 1_000);
    assert_eq!(net.received(1).count(), 11);
    let longest = *ages(&net, 1).last().expect("it arrives");
    // The round trip counts with the 50 ms for which a lone message waits to be acknowledged.
    assert!(longest <= MS * (2 * (20 + 50) + 60 + 10), "{longest}");
}

/// What leaves again is what was lost, and goes to where the peer is by then.
#[test]
fn what_is_probed_with_goes_to_where_the_peer_is_without_what_it_acknowledged() {
    let mut net = connected(SctpConfig::new());
    for end in [1, 1, 0] {
        let message = command(&net, 1, 75);
        offer(&mut net, end, message).unwrap();
        net.run_for(MS * 100);
    }
    let message = command(&net, 1, 75);
    offer(&mut net, 0, message).unwrap();
    net.run_for(MS * 10);
    net.ways[1].cut = true;
    let message = command(&net, 1, 75);
    offer(&mut net, 1, message).unwrap();
    net.ways[1].cut = false;
    let first = net.sent.last().unwrap().3.clone();
    net.ways[0].path = PathId(4);
    let message = sample(&net);
    offer(&mut net, 0, message).unwrap();
    net.run_for(MS * 400);
    assert_eq!((net.received(0).count(), net.ends[1].stats().retransmitted_packets), (3, 1));
    let data = |packet: &[u8]| packet[12] == 64;
    let again = net.sent.iter().rfind(|(_, from, _, packet)| *from == 1 && data(packet)).expect("a probe");
    assert_eq!((again.2, again.3.len()), (PathId(4), 12 + 20 + 76));
    assert_eq!(first.len(), again.3.len() + 16, "the first had acknowledged a message");
}

/// A heartbeat, or the answer to one, that leaves while an acknowledgement waits for a message.
#[test]
fn a_heartbeat_takes_no_acknowledgement_away() {
    for offset in 0..120 {
        let mut net = connected(SctpConfig::new().heartbeat(MS * 100));
        net.run_for(MS * offset);
        let begun = net.sent.len();
        // The second is acknowledged as it arrives.
        for _ in 0..2 {
            let message = command(&net, 1, 75);
            offer(&mut net, 0, message).unwrap();
            net.run_for(MS);
        }
        net.run_for(MS * 2_000);
        let sent = &net.sent[begun..];
        let first = |kind| sent.iter().find(|(.., packet)| packet[12] == kind).expect("one leaves").0;
        assert_eq!(
            net.ends[0].stats().retransmitted_packets,
            0,
            "{offset} ms: {:?} {:?}",
            first(3),
            first(4)
        );
    }
}

/// A path that carries no acknowledgements for 400 ms, as LTE's uplink now and then, lost nothing: what goes the other way is not held up.
#[test]
fn acknowledgements_that_stay_away_cost_no_window() {
    let mut net = connected(SctpConfig::new());
    for number in 0..1_000 {
        net.ways[1].cut = (300..700).contains(&number);
        let message = Message { priority: Priority(2), ..stamped(&net, 75) };
        offer(&mut net, 0, message).unwrap();
        net.run_for(MS);
    }
    net.run_for(MS * 100);
    let longest = ages(&net, 1).into_iter().max();
    assert_eq!((net.received(1).count(), longest), (1_000, Some(MS * 10)));
    assert_eq!(net.ends[0].stats().retransmitted_packets, 0);
}

#[test]
fn what_is_late_is_dropped_counted_and_never_sent() {
    let mut net = connected(SctpConfig::new().samples(32));
    net.ways[1].cut = true;
    // Without acknowledgements the window fills, and the rest waits until it is too late.
    for tag in 0..400 {
        let message = Message { deadline: Some(MS * 20), tag, ..stamped(&net, 1_000) };
        offer(&mut net, 0, message).unwrap();
        net.run_for(MS);
    }
    net.run_for(MS * 100);
    let stats = net.ends[0].stats();
    assert!(stats.too_late > 100, "{stats:?}");
    let too_late = net.events[0]
        .iter()
        .filter(|(_, event)| matches!(event, Event::Dropped { cause: DropCause::TooLate, .. }));
    assert_eq!(too_late.count() as u64, stats.too_late);
    // 20 ms to be sent, 10 on the way; but for the one that SCTP had been given.
    let late = ages(&net, 1).iter().filter(|age| **age > MS * 31).count();
    assert!(late <= 1, "{late}");
    let old = Message { created: net.now - MS * 20, deadline: Some(MS * 20), ..sample(&net) };
    assert_eq!(offer(&mut net, 0, old), Err(SendError::TooLate));
}

#[test]
fn what_was_sent_in_time_is_repeated_although_it_is_late() {
    let mut net = connected(SctpConfig::new());
    net.ways[0].cut = true;
    for message in [command(&net, 1, 3_000), sample(&net)] {
        let message = Message { deadline: Some(MS * 20), ..message };
        offer(&mut net, 0, message).unwrap();
    }
    net.run_for(MS * 10);
    net.ways[0].cut = false;
    net.run_for(MS * 5_000);
    assert_eq!(net.received(1).count(), 2);
    assert_eq!(net.ends[0].stats().too_late, 0);
}

#[test]
fn a_loss_in_one_stream_does_not_stop_another() {
    let mut net = connected(SctpConfig::new());
    net.ways[0].cut = true;
    let message = command(&net, 2, 50);
    offer(&mut net, 0, message).unwrap();
    net.ways[0].cut = false;
    for stream in [2, 3] {
        let message = command(&net, stream, 50);
        offer(&mut net, 0, message).unwrap();
    }
    net.run_for(MS * 11);
    let streams: Vec<u16> = net.events[1]
        .iter()
        .filter_map(|(_, event)| match event {
            Event::Received { stream, .. } => Some(stream.0),
            _ => None,
        })
        .collect();
    assert_eq!(streams, [3]);
    net.run_for(MS * 2_000);
    assert_eq!(net.received(1).count(), 3);
}

#[test]
fn an_emergency_overtakes_a_long_message() {
    for (interleaving, limit) in [(true, 60), (false, 1_000)] {
        let mut net = connected(SctpConfig::new().interleaving(interleaving));
        for _ in 0..2 {
            let message = Message { priority: Priority(2), ..command(&net, 3, 100_000) };
            offer(&mut net, 0, message).unwrap();
        }
        net.run_for(MS);
        let stop = Message { priority: Priority(0), stream: StreamId(0), ..command(&net, 0, 20) };
        let made = net.now;
        offer(&mut net, 0, stop).unwrap();
        net.run_for(MS * 3_000);
        assert_eq!(net.received(1).count(), 3);
        let arrived = net.received(1).find(|(_, data)| data.len() == 20).unwrap().0;
        println!("interleaving {interleaving}: the emergency took {}", arrived - made);
        assert!(arrived - made <= MS * limit, "{}", arrived - made);
    }
}

#[test]
fn a_buffer_that_is_full_keeps_the_newest_samples_and_every_command() {
    let mut net = connected(SctpConfig::new().samples(32).send_buffer(Bytes::new(50_000)));
    net.ways.iter_mut().for_each(|way| way.cut = true);
    for tag in 0..500 {
        let message = Message { tag, priority: Priority(2), ..stamped(&net, 1_000) };
        offer(&mut net, 0, message).unwrap();
    }
    let superseded: Vec<u64> = net.events[0]
        .iter()
        .filter_map(|(_, event)| match event {
            Event::Dropped { tag, cause: DropCause::Superseded } => Some(*tag),
            _ => None,
        })
        .collect();
    assert!(superseded.len() > 400 && superseded.is_sorted(), "{}", superseded.len());
    assert!(superseded.last().unwrap() == &467, "the newest wait");
    let mut commands = 0;
    let command = command(&net, 1, 1_000);
    while offer(&mut net, 0, command.clone()).is_ok() {
        commands += 1;
    }
    assert_eq!(commands, 50_000 / 1_064);
    let sample = Message { priority: Priority(2), ..stamped(&net, 1_000) };
    assert_eq!(offer(&mut net, 0, sample), Err(SendError::BufferFull(Bytes::new(50_000))));
}

#[test]
fn a_small_buffer_refuses_what_it_cannot_take_and_all_that_it_took_arrives() {
    for (priority, size) in [(0, 75), (0, 600), (0, 3_000), (2, 75), (2, 3_000)] {
        let mut net = connected(SctpConfig::new().send_buffer(Bytes::new(8_000)));
        let (mut taken, mut refused) = (0, 0);
        for _ in 0..300 {
            for _ in 0..100 {
                let message = Message { priority: Priority(priority), ..command(&net, 1, size) };
                match offer(&mut net, 0, message) {
                    Ok(()) => taken += 1,
                    Err(SendError::BufferFull(limit)) => {
                        assert_eq!(limit, Bytes::new(8_000));
                        refused += 1;
                    }
                    Err(other) => panic!("{other}"),
                }
            }
            net.run_for(MS);
        }
        net.run_for(MS * 5_000);
        let case = format!("priority {priority}, {size} bytes: {taken} taken, {refused} refused");
        assert_eq!(net.received(1).count(), taken, "{case}");
        assert_eq!(net.ends[0].stats().offered, taken as u64, "{case}");
        assert!(taken > 100 && refused > 0, "{case}");
    }
}

#[test]
fn messages_of_every_size_survive_and_the_longest_is_the_limit() {
    let mut net = connected(SctpConfig::new());
    for size in [8, 75, 1_100, 1_168, 1_169, 5_000, 200_000] {
        let message = command(&net, 1, size);
        offer(&mut net, 0, message).unwrap();
    }
    let empty = Message { data: Vec::new(), ..command(&net, 1, 8) };
    offer(&mut net, 0, empty).unwrap();
    net.run_for(MS * 5_000);
    let sizes: Vec<usize> = net.received(1).map(|(_, data)| data.len()).collect();
    assert_eq!(sizes, [8, 75, 1_100, 1_168, 1_169, 5_000, 200_000, 0]);
    let (size, limit) = (Bytes::new(262_081), Bytes::new(262_080));
    let long = command(&net, 1, 262_081);
    assert_eq!(offer(&mut net, 0, long), Err(SendError::TooLarge { size, limit }));
}

#[test]
fn both_close_when_one_says_goodbye_and_what_is_reliable_still_arrives() {
    let mut net = connected(SctpConfig::new());
    for _ in 0..20 {
        let message = command(&net, 1, 500);
        offer(&mut net, 0, message).unwrap();
    }
    net.ends[0].close(net.now);
    net.drain(0);
    let late = sample(&net);
    assert_eq!(offer(&mut net, 0, late), Err(SendError::Closed));
    net.run_for(MS * 1_000);
    assert_eq!(net.received(1).count(), 20);
    assert_eq!([net.count(0, &Event::Closed), net.count(1, &Event::Closed)], [1, 1]);
    assert_eq!(net.ends[0].poll_timeout(), None);
}

/// After a timeout nothing is in flight for a moment, and all of it is still to be said again.
#[test]
fn a_goodbye_waits_until_what_is_reliable_has_arrived() {
    for closes in [0, 1_200, 1_500] {
        let mut net = connected(SctpConfig::new());
        net.ways.iter_mut().for_each(|way| way.cut = true);
        for _ in 0..100 {
            let message = command(&net, 1, 900);
            offer(&mut net, 0, message).unwrap();
        }
        net.run_for(MS * closes);
        net.ends[0].close(net.now);
        net.drain(0);
        net.run_for(MS * (1_500 - closes));
        net.ways.iter_mut().for_each(|way| way.cut = false);
        net.run_for(MS * 10_000);
        assert_eq!(net.received(1).count(), 100, "closed after {closes} ms");
        assert_eq!([net.count(0, &Event::Closed), net.count(1, &Event::Closed)], [1, 1]);
    }
}

/// RFC 9260 sections 8.4 and 9.2: who is gone answers the last question once more.
#[test]
fn the_last_packet_of_a_goodbye_may_be_lost() {
    let mut net = connected(SctpConfig::new());
    net.ways[0].filter = |packet| packet.get(12) == Some(&14);
    net.ends[0].close(net.now);
    net.drain(0);
    net.run_for(MS * 100);
    assert_eq!([net.count(0, &Event::Closed), net.count(1, &Event::Closed)], [1, 0]);
    let message = Message { tag: 9, ..command(&net, 1, 75) };
    offer(&mut net, 1, message).unwrap();
    assert_eq!(net.count(1, &Event::Dropped { tag: 9, cause: DropCause::Abandoned }), 1);
    net.ways[0].filter = |_| false;
    net.run_for(MS * 3_000);
    assert_eq!(net.count(1, &Event::Closed), 1);
    assert_eq!(net.ends[0].poll_timeout(), None);
}

#[test]
fn a_peer_that_is_gone_ends_it_and_what_it_kept_is_accounted_for() {
    let mut net = connected(SctpConfig::new());
    net.ways.iter_mut().for_each(|way| way.cut = true);
    for tag in 1..=10 {
        let message = Message { tag, ..command(&net, 1, 500) };
        offer(&mut net, 0, message).unwrap();
    }
    net.run_for(Duration::from_secs(600));
    assert_eq!(net.count(0, &Event::Closed), 1);
    let abandoned = |tag| net.count(0, &Event::Dropped { tag, cause: DropCause::Abandoned });
    assert!((1..=10).all(|tag| abandoned(tag) == 1));
}

#[test]
fn answers_follow_the_peer() {
    let mut net = connected(SctpConfig::new());
    net.ways[0].path = PathId(4);
    let message = command(&net, 1, 50);
    offer(&mut net, 0, message).unwrap();
    net.run_for(MS * 10);
    assert_eq!(net.count(1, &Event::PathUp(PathId(4))), 1);
    let message = command(&net, 1, 50);
    offer(&mut net, 1, message).unwrap();
    assert_eq!(net.sent.last().unwrap().2, PathId(4));
}

#[test]
fn round_trip_and_window_are_told() {
    let mut net = connected(SctpConfig::new());
    for _ in 0..100 {
        let message = command(&net, 1, 1_000);
        offer(&mut net, 0, message).unwrap();
        net.run_for(MS);
    }
    net.run_for(MS * 500);
    let last = |wanted| {
        net.events[0].iter().rev().find_map(|(_, event)| match event {
            Event::Gauge { name, value } if *name == wanted => Some(*value),
            _ => None,
        })
    };
    assert!((20.0..=60.0).contains(&last("srtt_ms").unwrap()));
    assert!(last("cwnd_bytes").unwrap() >= 12_000.0);
}

#[test]
fn the_same_seed_gives_the_same_bytes_whoever_else_draws_on_this_thread() {
    let run = |noise: bool| {
        let mut net = pair(SctpConfig::new(), MS * 10, 5).lossy(3.0);
        net.ways.iter_mut().for_each(|way| way.jitter = MS * 3);
        let mut beside = pair(SctpConfig::new(), MS * 10, 6);
        for tick in 0..1_000 {
            if noise {
                fastrand::u64(..);
                beside.run_for(MS);
            }
            let message = if tick % 3 == 0 { command(&net, tick as u16 % 4, 300) } else { sample(&net) };
            let _ = offer(&mut net, tick % 2, message);
            net.run_for(MS);
        }
        net.run_for(MS * 3_000);
        (net.sent, net.events)
    };
    assert!(run(false) == run(true));
}
