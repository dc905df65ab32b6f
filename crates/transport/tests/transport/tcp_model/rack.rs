//! What Linux does otherwise than RFC 5681 and 6675: a window of segments, RACK-TLP (RFC 8985), PRR (RFC 6937).

use taut_core::{Bytes, Duration, Message, Transport};
use taut_transport::tcp::{Counting, Tcp, TcpConfig};

use crate::tcp_model::harness::{Net, at_ms, lose, ms};

/// Twenty segments in flight, round trip 100 ms.
fn config() -> TcpConfig {
    TcpConfig {
        rack: true,
        mss: 1000,
        initial_window: 20,
        initial_ssthresh: Some(20),
        ack_every: 1,
        ..TcpConfig::default()
    }
}

fn bulk(config: &TcpConfig) -> Net {
    let mut net = Net::bulk(config);
    (net.forward.delay, net.backward.delay) = (ms(50), ms(50));
    net.forward.rate = Some(100_000_000);
    net
}

/// A message of 100 bytes every millisecond for so long, over a round trip of 70 ms; the acknowledgement of all of it.
fn messages(config: &TcpConfig, lost: &'static [u64], millis: u64) -> Net {
    let mut net = Net::new(Tcp::client(config.clone(), 1000), Tcp::server(config.clone(), 2000));
    (net.forward.delay, net.backward.delay) = (ms(35), ms(35));
    net.forward.script = lose(lost);
    net.run_until(at_ms(100));
    for _ in 0..millis {
        let taken = net.client.send(net.now, Message { data: vec![7; 96], ..Message::default() });
        assert_eq!(taken, Ok(()));
        net.run_until(net.now + ms(1));
    }
    net
}

#[test]
fn after_a_loss_half_of_the_segments_are_left_where_segments_count() {
    // 70 messages are under way, each a segment of 100 bytes. RFC 5681 equation 4 leaves half of their bytes, but two full
    // segments; Linux leaves half of the segments, each of which may be full.
    let config = TcpConfig { initial_window: 100, ..TcpConfig::default() };
    for (counted, segments) in [(Counting::Bytes, 2..=3), (Counting::Segments, 30..=40)] {
        let net = messages(&TcpConfig { counted, ..config.clone() }, &[80], 300);
        let left = net.client.slow_start_threshold().expect("a loss").get() / 1460;
        assert!(segments.contains(&left), "{counted:?}: {left}");
    }
}

#[test]
fn a_loss_halves_the_window_and_not_what_is_under_way_with_rack() {
    // As Linux (`tcp_reno_ssthresh`): 70 segments are under way, and slow start grows the window to twice that (`tcp_is_cwnd_limited`).
    let config = TcpConfig { initial_window: 100, counted: Counting::Segments, ..TcpConfig::default() };
    for (rack, segments) in [(false, 35), (true, 70)] {
        let net = messages(&TcpConfig { rack, ..config.clone() }, &[80], 300);
        let left = net.client.slow_start_threshold().expect("a loss").get() / 1460;
        assert!(left.abs_diff(segments) <= 1, "RACK {rack}: {left}");
    }
}

#[test]
fn an_acknowledgement_is_due_after_two_segments_however_short_where_segments_count() {
    // RFC 5681 section 4.2 says full-sized ones at least; of these messages seven are one such.
    let acks = |counted| {
        let config = TcpConfig { counted, initial_window: 100, ..TcpConfig::default() };
        let mut net = messages(&config, &[], 1);
        net.client.send(net.now, Message { data: vec![7; 1_400], ..Message::default() }).unwrap();
        net.run_until(net.now + ms(300));
        let before = net.acks_of_server();
        for _ in 0..20 {
            net.client.send(net.now, Message { data: vec![7; 96], ..Message::default() }).unwrap();
            net.run_until(net.now + ms(1));
        }
        net.run_until(net.now + ms(40));
        net.acks_of_server() - before
    };
    assert_eq!((acks(Counting::Bytes), acks(Counting::Segments)), (0, 10));
}

#[test]
fn a_repetition_that_is_lost_goes_again_without_a_timeout() {
    // RFC 8985 section 3.1: RFC 6675 waits for the timer.
    for (rack, timeouts) in [(false, 1), (true, 0)] {
        let mut net = bulk(&TcpConfig { rack, ..config() });
        let (mut lost, fifth) = (0, 1001 + 5 * 1000);
        net.forward.script = Box::new(move |_, record| {
            let hit = record.len > 0 && record.repr.sequence == fifth && lost < 2;
            lost += u32::from(hit);
            hit
        });
        net.run_until(at_ms(3_000));
        let stats = net.client.stats();
        assert_eq!((stats.recoveries, stats.timeouts), (1, timeouts), "RACK {rack}");
        assert!(!net.client.in_recovery());
    }
}

#[test]
fn a_tail_that_nothing_follows_is_probed_after_two_round_trips() {
    // RFC 8985 section 7: without it the timer of a second repairs the last message.
    for (rack, at_most) in [(false, ms(1_500)), (true, ms(2 * 70 + 200 + 2 + 35))] {
        let config =
            TcpConfig { rack, counted: Counting::Segments, initial_window: 400, ..TcpConfig::default() };
        let mut net = messages(&config, &[299], 300);
        let sent = net.now;
        while net.received().len() < 300 {
            net.run_until(net.now + ms(1));
        }
        let took = net.now.saturating_since(sent);
        assert!(took <= at_most && (rack || took > ms(900)), "RACK {rack}: {took}");
    }
}

#[test]
fn the_window_falls_in_proportion() {
    // RFC 6937 section 3: during the recovery one segment goes for every two that arrive, from the first on; RFC 6675 is
    // silent until half of them have.
    let sent_during = |rack| {
        let mut net = bulk(&TcpConfig { rack, ..config() });
        net.forward.script = lose(&[0]);
        let microseconds = Duration::from_micros;
        while !net.client.in_recovery() {
            net.run_until(net.now + microseconds(10));
        }
        let before = net.data_records().count();
        // An acknowledgement every 83 µs: six.
        net.run_until(net.now + microseconds(500));
        net.data_records().count() - before
    };
    assert_eq!(sent_during(false), 0);
    assert!((2..=4).contains(&sent_during(true)), "{}", sent_during(true));
}

#[test]
fn ten_lost_of_twenty_are_repaired_without_a_timeout() {
    let mut net = bulk(&config());
    net.forward.script = lose(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    net.run_until(at_ms(3_000));
    let stats = net.client.stats();
    assert_eq!((stats.retransmitted, stats.timeouts, stats.recoveries), (10, 0, 1));
    assert_eq!(net.client.slow_start_threshold(), Some(Bytes::new(10_000)));
}

/// A bulk flow, of which nothing arrives that is sent in one of these spans of milliseconds, from and to.
fn interrupted(rack: bool, outages: &'static [[u64; 2]]) -> Net {
    let mut net = bulk(&TcpConfig { rack, ..config() });
    net.forward.script = Box::new(move |_, record| {
        outages.iter().any(|[from, to]| (at_ms(*from)..at_ms(*to)).contains(&record.at))
    });
    net
}

#[test]
fn what_goes_again_after_a_timeout_is_not_of_a_recovery() {
    for rack in [false, true] {
        let mut net = interrupted(rack, &[[1_000, 1_500]]);
        net.run_until(at_ms(2_200));
        assert!(!net.client.in_recovery(), "RACK {rack}");
        net.run_until(at_ms(4_000));
        let stats = net.client.stats();
        assert_eq!((stats.timeouts, stats.recoveries), (1, 0), "RACK {rack}");
        assert!(stats.retransmitted >= 10 && stats.fast_retransmits == 0, "RACK {rack}: {stats:?}");
    }
}

#[test]
fn a_timeout_after_the_repair_of_another_began_lowers_the_threshold_again() {
    // RFC 5681 section 3.1 spares it only while the same segment times out.
    for rack in [false, true] {
        let mut net = interrupted(rack, &[[1_000, 1_500], [2_250, 2_900]]);
        net.run_until(at_ms(2_240));
        let threshold = |net: &Net| net.client.slow_start_threshold().expect("a loss").get();
        let (timeouts, before) = (net.client.stats().timeouts, threshold(&net));
        // The timer has backed off, and nothing that went once is acknowledged meanwhile.
        net.run_until(at_ms(6_000));
        assert_eq!((timeouts, net.client.stats().timeouts), (1, 2), "RACK {rack}");
        assert!(threshold(&net) * 2 <= before, "RACK {rack}: {before}, {}", threshold(&net));
    }
}

/// 300 messages, of which the 150th is late by so much; the threshold while it is repaired and at the end, and for how many ms it is
/// there until the last of them has gone.
fn late_by(timestamps: bool, late: u64, lost: &'static [u64]) -> (Net, [Option<Bytes>; 2], u64) {
    let config = TcpConfig {
        rack: true,
        counted: Counting::Segments,
        initial_window: 100,
        timestamps,
        ..TcpConfig::default()
    };
    let mut net = messages(&config, lost, 149);
    let (mut during, mut lowered) = (None, 0);
    for number in 149..300 {
        net.forward.delay = if number == 149 { ms(35 + late) } else { ms(35) };
        net.client.send(net.now, Message { data: vec![7; 96], ..Message::default() }).expect("there is room");
        net.run_until(net.now + ms(1));
        let threshold = net.client.slow_start_threshold();
        during = during.or(threshold);
        lowered += u64::from(threshold.is_some());
    }
    net.run_until(net.now + ms(1_000));
    let after = net.client.slow_start_threshold();
    (net, [during, after], lowered)
}

#[test]
fn what_was_late_and_not_lost_gives_the_window_back() {
    // By 50 ms: the repetition comes second, and is reported as a duplicate (RFC 2883). By 200 ms: the late one does.
    for (timestamps, late) in [(false, 50), (false, 200), (true, 50), (true, 200)] {
        let (net, [during, after], _) = late_by(timestamps, late, &[]);
        let stats = net.client.stats();
        assert!(stats.recoveries >= 1 && during.is_some(), "{late} ms: {stats:?}");
        assert_eq!(after, None, "{late} ms: {stats:?}");
        assert_eq!(net.server.stats().duplicate_segments, stats.retransmitted, "{late} ms");
        assert_eq!(net.received().len(), 300);
    }
}

#[test]
fn a_timestamp_tells_what_was_late_before_its_repetition_is_a_duplicate() {
    // Sent at 0 and 50 ms late, it is taken for lost about 75 ms later; its own acknowledgement comes at 120 ms, that of the
    // repetition at 145 ms (RFC 3522 section 3.2).
    let [without, with] = [false, true].map(|timestamps| late_by(timestamps, 50, &[]).2);
    assert!((20..=30).contains(&(without - with)) && with > 0, "{without} and {with} ms");
}

#[test]
fn a_loss_beside_what_was_late_is_not_taken_back() {
    // What is lost was sent before the late one, or after it; next to it one repetition would hold both.
    let losses: [&'static [u64]; 3] = [&[147], &[151], &[154]];
    for (late, lost) in (0..=110).flat_map(|late| losses.map(|lost| (late, lost))) {
        for timestamps in [false, true] {
            let (net, [during, after], _) = late_by(timestamps, late, lost);
            assert!(
                during.is_some() && after.is_some(),
                "{timestamps} {late} ms, {lost:?}: {during:?} {after:?} {:?}",
                net.client.stats()
            );
        }
    }
}

#[test]
fn a_path_that_changes_the_order_leaves_the_window() {
    let config =
        TcpConfig { rack: true, counted: Counting::Segments, timestamps: true, ..TcpConfig::default() };
    let mut net = messages(&config, &[], 1);
    (net.forward.jitter, net.backward.jitter) = (ms(20), ms(20));
    for _ in 0..3_000 {
        net.client.send(net.now, Message { data: vec![7; 96], ..Message::default() }).unwrap();
        net.run_until(net.now + ms(1));
    }
    let held = net.client.unsent_bytes();
    net.run_until(net.now + ms(1_000));
    assert!(net.client.stats().recoveries >= 1, "{:?}", net.client.stats());
    assert_eq!((net.client.slow_start_threshold(), held), (None, Bytes::ZERO));
    assert_eq!(net.received().len(), 3_001);
}
