//! How the window grows, and the sawtooth that comes of it.

use taut_core::{Bytes, Event, Time};
use taut_transport::tcp::{AckCounting, CongestionControl, Tcp, TcpConfig};

use crate::tcp_model::harness::{Net, at_ms, lose, ms};

const MSS: u64 = 538;

/// No SACK, MSS 538: a TCP segment of 578 bytes on the wire.
fn config() -> TcpConfig {
    TcpConfig { sack: false, mss: MSS as u16, ..TcpConfig::default() }
}

/// The window in bytes at this time.
fn bytes_at(net: &Net, time: Time) -> u64 {
    let known = net.windows.iter().take_while(|(at, _)| *at <= time);
    known.last().map_or(0, |(_, cwnd)| *cwnd)
}

/// The window in segments at this time.
fn window_at(net: &Net, time: Time) -> f64 {
    bytes_at(net, time) as f64 / MSS as f64
}

#[test]
fn slow_start_doubles_the_window_in_a_round_trip() {
    // RFC 5681 section 3.1, RFC 6928: 10, 20, 40, … segments with every acknowledgement pattern that L = 2 covers.
    for ack_every in [1, 2] {
        let mut net = Net::bulk(&TcpConfig { ack_every, ..config() });
        net.run_until(at_ms(16 + 16 * 5 + 8));
        for round in 0..5 {
            let time = at_ms(16 + 16 * round + 8);
            assert_eq!(bytes_at(&net, time), (10 << round) * MSS, "n = {ack_every}, round {round}");
        }
    }
}

#[test]
fn slow_start_by_acks_of_every_second_segment_grows_by_half() {
    // RFC 5681 section 3.1, equation 2.
    let mut net = Net::bulk(&TcpConfig { counting: AckCounting::Acks, ..config() });
    net.run_until(at_ms(16 + 16 + 8));
    assert_eq!(bytes_at(&net, net.now), 15 * MSS);
}

/// Segments by which the window grows in a round trip of congestion avoidance, over a path that keeps the ACK clock
/// even and never fills.
fn growth_per_round_trip(config: TcpConfig) -> f64 {
    let config = TcpConfig { initial_ssthresh: Some(10), ..config };
    let mut net = Net::bulk(&config);
    (net.forward.delay, net.backward.delay) = (ms(100), ms(100));
    net.forward.rate = Some(100_000_000);
    let (from, to) = (at_ms(2000), at_ms(12_000));
    net.run_until(to);
    assert_eq!(net.client.stats().retransmitted, 0);
    (window_at(&net, to) - window_at(&net, from)) / 50.0
}

#[test]
fn congestion_avoidance_by_bytes_adds_a_segment_per_round_trip_whatever_the_receiver_does() {
    // RFC 5681 section 3.1, RFC 3465 section 2.1.
    for ack_every in [1, 2, 4] {
        let growth = growth_per_round_trip(TcpConfig { ack_every, ..config() });
        assert!((growth - 1.0).abs() < 0.08, "n = {ack_every}: {growth}");
    }
}

#[test]
fn congestion_avoidance_by_acks_adds_one_nth() {
    // RFC 5681 section 3.1, equation 3 and the text below it.
    for ack_every in [1, 2] {
        let growth = growth_per_round_trip(TcpConfig { ack_every, counting: AckCounting::Acks, ..config() });
        assert!((growth - 1.0 / f64::from(ack_every)).abs() < 0.08, "n = {ack_every}: {growth}");
    }
}

/// The bottleneck of Gokhale et al.: 6 Mbit/s, 8 ms one way, 14 kB of drop-tail queue.
fn bottleneck(config: &TcpConfig) -> Net {
    let mut net = Net::bulk(config);
    net.forward.rate = Some(6_000_000);
    net.forward.limit = Some(14_000);
    net
}

#[test]
fn sawtooth_of_the_shared_bottleneck_swings_about_the_pipe_with_one_loss_a_cycle() {
    // RFC 5681 section 3.1: the window grows until (B + 2μτ)/S = (14000 + 12000)/578 = 45 segments are on the way, a
    // segment is lost, half remains. B > 2μτ: the link never idles.
    let mut net = bottleneck(&config());
    net.run_until(at_ms(20_000));
    let before = (net.client.stats(), net.server.delivered_bytes(), net.forward.overflowed);
    net.windows.clear();
    net.run_until(at_ms(120_000));
    let after = (net.client.stats(), net.server.delivered_bytes(), net.forward.overflowed);

    let (losses, recoveries) = (after.2 - before.2, after.0.recoveries - before.0.recoveries);
    assert_eq!(losses, recoveries, "one loss a cycle");
    assert_eq!(after.0.timeouts, 0);
    assert_eq!(after.0.retransmitted - before.0.retransmitted, losses);
    // 23 round trips of up to 16 ms + 14000 B/6 Mbit/s = 34.7 ms and at least 16 ms: 0.6 s a cycle.
    assert!((150..=180).contains(&recoveries), "{before:?} {after:?}");
    let pipe = 26_000.0 / 578.0;
    let segments = |bytes: u64| bytes as f64 / MSS as f64;
    let falls = net.windows.windows(2).filter(|pair| pair[1].1 < pair[0].1);
    // Each cycle falls twice: to ssthresh + 3 when the loss is noticed, and to no more than ssthresh after it.
    let (noticed, left): (Vec<_>, Vec<_>) = falls.partition(|pair| pair[1].1 > 24 * MSS);
    assert_eq!((noticed.len() as u64, left.len() as u64), (recoveries, recoveries));
    let peaks: Vec<f64> = noticed.iter().map(|pair| segments(pair[0].1)).collect();
    assert!(peaks.iter().all(|peak| (0.0..=3.0).contains(&(peak - pipe))), "{peaks:?}");
    let troughs: Vec<f64> = left.iter().map(|pair| segments(pair[1].1)).collect();
    assert!(troughs.iter().all(|trough| (trough - pipe / 2.0).abs() < 1.5), "{troughs:?}");
    let goodput = (after.1.get() - before.1.get()) as f64 * 8.0 / 100.0;
    let link = 6e6 * MSS as f64 / 578.0;
    assert!(goodput > 0.995 * link && goodput <= link, "{goodput} of {link}");
}

#[test]
fn reno_follows_the_same_sawtooth() {
    // One loss a cycle is what Reno can repair; the overshoot of the first slow start is not.
    let mut net = bottleneck(&TcpConfig { congestion: CongestionControl::Reno, ..config() });
    net.run_until(at_ms(20_000));
    let before = net.client.stats();
    net.run_until(at_ms(120_000));
    let after = net.client.stats();
    let recoveries = after.recoveries - before.recoveries;
    assert!(after.timeouts == before.timeouts && (140..=180).contains(&recoveries), "{before:?} {after:?}");
}

#[test]
fn cubic_follows_its_function_between_losses() {
    // RFC 9438: equation 1 with C = 0.4, equation 2, β = 0.7 (section 4.6). One loss at about 400 segments on a path of
    // 100 ms; the formula is computed here from the window at the loss.
    let mut net = Net::bulk(&TcpConfig {
        congestion: CongestionControl::Cubic,
        sack: true,
        initial_ssthresh: Some(100),
        receive_window: Bytes::new(4 << 20),
        mss: MSS as u16,
        ..TcpConfig::default()
    });
    (net.forward.delay, net.backward.delay) = (ms(50), ms(50));
    net.forward.rate = Some(1_000_000_000);
    net.forward.script = lose(&[20_000]);
    net.run_until(at_ms(40_000));

    assert_eq!((net.client.stats().recoveries, net.client.stats().timeouts), (1, 0));
    let drop = net.windows.windows(2).position(|pair| pair[1].1 < pair[0].1).unwrap();
    let w_max = net.windows[drop].1 as f64 / MSS as f64;
    let after = net.windows[drop + 1].1 as f64 / MSS as f64;
    assert!((after / w_max - 0.7).abs() < 0.01, "{after} of {w_max}");

    // The stage begins with the first acknowledgement after recovery, a round trip after the loss was noticed.
    let start = net.windows[drop + 2].0;
    let k = ((w_max - after) / 0.4).cbrt();
    for step in 1..=20 {
        let t = f64::from(step) * k / 10.0; // up to twice K: the plateau and beyond
        let expected = 0.4 * (t - k).powi(3) + w_max;
        let time = start + taut_core::Duration::from_secs_f64(t);
        let actual = window_at(&net, time);
        assert!((actual - expected).abs() < 0.015 * expected, "t = {t:.2} s: {actual:.1}, not {expected:.1}");
    }
}

#[test]
fn cubic_is_not_slower_than_reno_on_a_short_path() {
    // RFC 9438 section 4.3, the Reno-friendly region. With β = 0.7 and α = 0.53 a cycle is (1 − 0.7) W/α = 25 round trips
    // until W_est is back, then a segment each.
    let mut net = bottleneck(&TcpConfig { congestion: CongestionControl::Cubic, ..config() });
    net.run_until(at_ms(60_000));
    let cubic = net.server.delivered_bytes().get();
    let mut net = bottleneck(&config());
    net.run_until(at_ms(60_000));
    assert!(cubic as f64 >= 0.995 * net.server.delivered_bytes().get() as f64);
}

#[test]
fn silence_ends_the_window() {
    // RFC 5681 section 4.1.
    use taut_core::{Message, Transport};
    let config = TcpConfig { mss: MSS as u16, ..TcpConfig::default() };
    let mut net = Net::new(Tcp::client(config.clone(), 1), Tcp::server(config, 2));
    let burst = || Message { data: vec![1; 60_000], ..Message::default() };
    net.client.send(net.now, burst()).unwrap();
    net.run_until(at_ms(1000));
    assert!(net.client.congestion_window() > Bytes::new(20 * MSS));
    net.run_until(at_ms(3000));
    let sent = net.data_records().count();
    net.client.send(net.now, burst()).unwrap();
    net.run_until(at_ms(3001));
    assert_eq!(net.data_records().count() - sent, 10);
}

#[test]
fn cubic_goes_on_after_silence_where_it_was() {
    // RFC 9438 section 5.8: idle time is no part of t, with and without the slow start of RFC 5681 section 4.1.
    use taut_core::{Message, Transport};
    let grown = |silence: u64, restart_after_idle| {
        let config = TcpConfig {
            congestion: CongestionControl::Cubic,
            sack: true,
            initial_ssthresh: Some(40),
            restart_after_idle,
            mss: MSS as u16,
            ..TcpConfig::default()
        };
        let mut net = Net::new(Tcp::client(config.clone(), 1), Tcp::server(config, 2));
        (net.forward.delay, net.backward.delay) = (ms(50), ms(50));
        net.forward.script = lose(&[300]);
        for message in 1..=2 {
            let data = vec![1; 600_000];
            net.client.send(net.now, Message { data, ..Message::default() }).unwrap();
            while net.received().len() < message || net.client.bytes_in_flight() > Bytes::ZERO {
                net.run_until(net.now + ms(1));
            }
            net.run_until(net.now + ms(silence));
        }
        assert_eq!((net.client.stats().recoveries, net.client.stats().timeouts), (1, 0));
        net.client.congestion_window().get() / MSS
    };
    let at_once = grown(0, false);
    assert!(grown(30_000, false) <= at_once && grown(30_000, true) <= at_once, "{at_once}");
}

#[test]
fn gauges_tell_what_changed_and_only_when_asked() {
    let mut net = Net::bulk(&TcpConfig { trace: true, ..config() });
    net.forward.script = lose(&[40]);
    net.run_until(at_ms(200));
    let values = |wanted: &str| -> Vec<f64> {
        let gauge = |event: &Event| match event {
            Event::Gauge { name, value } if *name == wanted => Some(*value),
            _ => None,
        };
        net.client_events.iter().filter_map(gauge).collect()
    };
    assert_eq!(values("cwnd_segments")[..3], [10.0, 12.0, 14.0]);
    assert_eq!(values("in_recovery"), [1.0, 0.0]);
    assert_eq!(values("rtt_ms")[..1], [16.0]);
    assert_eq!(values("ssthresh_segments").len(), 2);

    let mut net = Net::bulk(&config());
    net.run_until(at_ms(200));
    assert_eq!(net.client_events, [Event::Connected]);
}
