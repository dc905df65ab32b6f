//! Losses: who repairs how many, how fast, and what it costs.

use taut_core::{Bytes, Duration, Time, Transport};
use taut_transport::tcp::{CongestionControl, FullAck, PartialAck, TcpConfig};

use crate::tcp_model::harness::{Net, at_ms, lose, ms};

const MSS: u64 = 1000;
const RTT: Duration = ms_const(100);

const fn ms_const(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Twenty segments in flight, round trip 100 ms, an acknowledgement for every segment.
fn config() -> TcpConfig {
    TcpConfig {
        sack: false,
        limited_transmit: false,
        mss: MSS as u16,
        initial_window: 20,
        initial_ssthresh: Some(20),
        ack_every: 1,
        // Without a scale, so that the window of the SYN is that of the first duplicate too (RFC 5681 section 2 (e)).
        receive_window: Bytes::new(60_000),
        ..TcpConfig::default()
    }
}

fn net(config: &TcpConfig, lost: &'static [u64]) -> Net {
    let mut net = Net::bulk(config);
    (net.forward.delay, net.backward.delay) = (RTT / 2, RTT / 2);
    net.forward.rate = Some(100_000_000);
    net.forward.script = lose(lost);
    net
}

#[test]
fn it_tells_the_round_trip_of_the_newest_packet_that_arrived_not_of_what_was_repeated() {
    for sack in [false, true] {
        let mut net = net(&TcpConfig { sack, ..config() }, &[5]);
        net.run_until(at_ms(90));
        assert_eq!(net.client.round_trip(), None, "nothing was sent before the handshake was complete");
        net.run_until(at_ms(1_000));
        assert_eq!(retransmissions(&net).len(), 1);
        let rtt = net.client.round_trip().expect("much was acknowledged");
        assert!((RTT..RTT + ms(2)).contains(&rtt), "{rtt}, SACK {sack}");
    }
}

/// When the segments that are sent again went, and their place in the stream in segments.
fn retransmissions(net: &Net) -> Vec<(Time, u32)> {
    let mut highest = 0;
    let mut again = Vec::new();
    for record in net.data_records() {
        let place = (record.repr.sequence - 1001) / MSS as u32;
        if record.repr.sequence <= highest {
            again.push((record.at, place));
        }
        highest = highest.max(record.repr.sequence);
    }
    again
}

#[test]
fn one_loss_is_repaired_by_the_third_duplicate_without_a_timeout() {
    // RFC 5681 section 3.2.
    for congestion in [CongestionControl::Reno, CongestionControl::NewReno] {
        let mut net = net(&TcpConfig { congestion, ..config() }, &[5]);
        net.run_until(at_ms(290));
        let again = retransmissions(&net);
        assert_eq!(again.len(), 1);
        assert_eq!(again[0].1, 5);
        // Sent from 100 ms on, 83.2 µs apart; segments 6, 7 and 8 cause the duplicates.
        assert!(again[0].0 > at_ms(200) && again[0].0 < at_ms(202), "{}", again[0].0);
        assert!(net.client.in_recovery());
        // 20 segments and one more each for the first five acknowledgements, minus those acknowledged: 20 in flight.
        assert_eq!(net.client.slow_start_threshold(), Some(Bytes::new(10 * MSS)));
        net.run_until(at_ms(1000));
        let stats = net.client.stats();
        assert_eq!((stats.retransmitted, stats.fast_retransmits, stats.timeouts), (1, 1, 0));
        assert!(!net.client.in_recovery());
    }
}

#[test]
fn window_during_fast_recovery_is_half_and_the_duplicates() {
    // RFC 6582 section 3.2: cwnd = ssthresh + 3 SMSS on the third duplicate, one SMSS more for each further one.
    let mut net = net(&config(), &[0]);
    net.run_until(at_ms(290));
    // Segments 1 to 19 of the first window cause 19 duplicates.
    assert_eq!(net.client.stats().duplicate_acks, 19);
    assert_eq!(net.client.congestion_window(), Bytes::new((10 + 19) * MSS));
    // New data goes from the eleventh duplicate on: FlightSize 20 + 9.
    assert_eq!(net.client.bytes_in_flight(), Bytes::new(29 * MSS));
    assert_eq!(net.data_records().count(), 20 + 1 + 9);
}

#[test]
fn full_acknowledgement_deflates_the_window_by_either_option() {
    // RFC 6582 section 3.2 step 3.
    for (full_ack, ssthresh) in [(FullAck::Flight, 10), (FullAck::Ssthresh, 10)] {
        let mut net = net(&TcpConfig { full_ack, ..config() }, &[0]);
        net.run_until(at_ms(305));
        // Nine new segments are in flight, one more is the tenth: min(10, 9 + 1).
        assert_eq!(net.client.congestion_window(), Bytes::new(ssthresh * MSS));
        assert!(!net.client.in_recovery());
    }
    // With nothing new to send, FlightSize is 0 and option 1 leaves two segments, option 2 the half.
    for (full_ack, segments) in [(FullAck::Flight, 2), (FullAck::Ssthresh, 10)] {
        let config = TcpConfig { full_ack, ..config() };
        let mut net = net(&config, &[0]);
        net.client = taut_transport::tcp::Tcp::client(config, 1000).bulk(Some(20 * MSS));
        net.run_until(at_ms(305));
        assert_eq!(net.client.congestion_window(), Bytes::new(segments * MSS), "{full_ack:?}");
    }
}

#[test]
fn newreno_repairs_two_losses_by_a_partial_acknowledgement() {
    // RFC 6582 section 3.2 step 3: a retransmission per round trip, no timeout.
    let mut net = net(&config(), &[5, 11]);
    net.run_until(at_ms(2000));
    let again = retransmissions(&net);
    assert_eq!(again.iter().map(|(_, place)| *place).collect::<Vec<_>>(), [5, 11]);
    let apart = again[1].0 - again[0].0;
    assert!(apart >= RTT && apart < RTT + ms(3), "{apart}");
    let stats = net.client.stats();
    assert_eq!((stats.recoveries, stats.fast_retransmits, stats.timeouts), (1, 2, 0));
}

#[test]
fn reno_needs_a_timeout_for_three_losses_in_a_window() {
    // RFC 6582 section 1: Reno leaves recovery with the first partial acknowledgement and halves again.
    let lost = &[5, 7, 9];
    let mut reno = net(&TcpConfig { congestion: CongestionControl::Reno, ..config() }, lost);
    reno.run_until(at_ms(4000));
    assert!(reno.client.stats().timeouts >= 1);
    let mut newreno = net(&config(), lost);
    newreno.run_until(at_ms(4000));
    assert_eq!((newreno.client.stats().timeouts, newreno.client.stats().recoveries), (0, 1));
    assert!(newreno.server.delivered_bytes() > reno.server.delivered_bytes());
}

#[test]
fn sack_repairs_many_losses_in_about_a_round_trip() {
    // RFC 6675 section 5: what is lost is known, so it goes as fast as pipe allows.
    let mut net = net(&TcpConfig { sack: true, ..config() }, &[3, 5, 7, 9, 11]);
    net.run_until(at_ms(2000));
    let again = retransmissions(&net);
    assert_eq!(again.iter().map(|(_, place)| *place).collect::<Vec<_>>(), [3, 5, 7, 9, 11]);
    assert!(again[4].0 - again[0].0 < ms(5), "{again:?}");
    let stats = net.client.stats();
    assert_eq!((stats.recoveries, stats.timeouts, stats.retransmitted), (1, 0, 5));
}

#[test]
fn sack_keeps_no_more_in_the_network_than_half_of_what_was() {
    // RFC 6675 section 5 steps 4.2 and C: cwnd = ssthresh = FlightSize/2, pipe never above it.
    let mut net = net(&TcpConfig { sack: true, ..config() }, &[0]);
    net.run_until(at_ms(290));
    assert_eq!(net.client.congestion_window(), Bytes::new(10 * MSS));
    // 19 reported, one retransmitted: pipe 10 leaves room for nine new segments.
    assert_eq!(net.data_records().count(), 20 + 1 + 9);
}

#[test]
fn last_segment_of_a_recovery_is_rescued() {
    // RFC 6675 section 4, NextSeg rule 4: losses 5 and 19, the last; no segment after it reports its loss.
    let config = TcpConfig { sack: true, ..config() };
    let mut net = net(&config, &[5, 19]);
    net.client = taut_transport::tcp::Tcp::client(config, 1000).bulk(Some(20 * MSS));
    net.run_until(at_ms(2000));
    assert_eq!(net.client.stats().timeouts, 0);
    assert_eq!(net.server.delivered_bytes(), Bytes::new(20 * MSS));
}

#[test]
fn impatient_recovery_ends_in_a_timeout_where_the_steady_one_goes_on() {
    // RFC 6582 section 4: the timer starts anew with the first partial acknowledgement only, or with every one. Losses
    // of every second segment take ten round trips of 300 ms to repair, more than the timeout of 1 s.
    let lost = &[0, 2, 4, 6, 8, 10, 12, 14, 16, 18];
    for (partial_ack, timeouts) in [(PartialAck::Impatient, 1), (PartialAck::SlowButSteady, 0)] {
        let mut net = net(&TcpConfig { partial_ack, ..config() }, lost);
        (net.forward.delay, net.backward.delay) = (ms(150), ms(150));
        net.run_until(at_ms(6000));
        assert_eq!(net.client.stats().timeouts, timeouts, "{partial_ack:?}");
    }
}

#[test]
fn retransmissions_that_were_not_needed_start_no_recovery() {
    // RFC 6582 section 3.2 step 2: acknowledgements are held up for longer than the timeout, all of the
    // window goes again, the duplicates that the peer then sends are for data below `recover`.
    let mut net = net(&config(), &[]);
    net.run_until(at_ms(140));
    net.backward.delay = ms(3000);
    net.run_until(at_ms(20_000));
    let stats = net.client.stats();
    assert!(stats.timeouts >= 1 && stats.duplicate_acks > 3, "{stats:?}");
    assert_eq!(stats.fast_retransmits, 0);
}

#[test]
fn loss_right_after_a_recovery_needs_the_heuristic_or_a_timeout() {
    // RFC 6582 section 4: duplicates that acknowledge `recover` and no more. Segment 20 is the first beyond it.
    for (ack_heuristic, timeouts) in [(false, 1), (true, 0)] {
        let mut net = net(&TcpConfig { ack_heuristic, ..config() }, &[0, 17, 21]);
        net.run_until(at_ms(6000));
        assert_eq!(net.client.stats().timeouts, timeouts, "heuristic {ack_heuristic}");
        assert_eq!(net.client.stats().recoveries, 2 - timeouts);
    }
}

#[test]
fn blackout_backs_the_timer_off_and_ends_in_slow_start() {
    // RFC 6298 sections 5.5 and 5.6, RFC 5681 section 3.1.
    for sack in [false, true] {
        let mut net = net(&TcpConfig { sack, ..config() }, &[]);
        net.run_until(at_ms(1000));
        let flight = net.client.bytes_in_flight();
        net.forward.script = Box::new(|_, r| r.at < at_ms(9000));
        net.run_until(at_ms(8999));
        let again: Vec<_> = retransmissions(&net).iter().map(|(at, _)| at.as_nanos() / 1_000_000).collect();
        // The timer started with the last acknowledgement, shortly before 1.1 s: 1, 2, 4 s later.
        assert_eq!(again.len(), 3, "{again:?}");
        assert!((again[1] - again[0], again[2] - again[1]) == (2000, 4000), "{again:?}");
        assert_eq!(net.client.congestion_window(), Bytes::new(MSS));
        let half = Bytes::new(flight.get() / 2);
        assert!(net.client.slow_start_threshold().unwrap() >= half, "flight before: {flight}");
        net.run_until(at_ms(20_000));
        assert_eq!(net.client.stats().timeouts, 4);
        assert!(net.server.delivered_bytes() > Bytes::new(1_000_000));
    }
}

#[test]
fn limited_transmit_saves_a_small_window_from_the_timeout() {
    // RFC 3042: a window of three has two duplicates only; the two segments that they let out cause more.
    let small = TcpConfig { initial_window: 3, initial_ssthresh: Some(3), ..config() };
    for sack in [false, true] {
        for (limited_transmit, timeouts) in [(false, 1), (true, 0)] {
            let mut net = net(&TcpConfig { limited_transmit, sack, ..small.clone() }, &[0]);
            net.run_until(at_ms(3000));
            assert_eq!(
                net.client.stats().timeouts,
                timeouts,
                "sack {sack}, limited transmit {limited_transmit}"
            );
        }
    }
}

#[test]
fn what_limited_transmit_sends_does_not_raise_the_threshold() {
    // RFC 5681 section 3.2 step 2.
    let mut net = net(&TcpConfig { limited_transmit: true, ..config() }, &[0]);
    net.run_until(at_ms(290));
    assert_eq!(net.client.slow_start_threshold(), Some(Bytes::new(10 * MSS)));
}

#[test]
fn min_rto_of_linux_notices_a_dead_path_sooner() {
    let mut net = net(&TcpConfig { min_rto: TcpConfig::LINUX_MIN_RTO, ..config() }, &[]);
    net.run_until(at_ms(1000));
    // RFC 6298 section 2: the variation of an even path dies away, the floor remains.
    let rto = net.client.retransmission_timeout();
    assert!(rto >= ms(200) && rto < ms(300), "{rto}");
}

#[test]
fn timeout_in_recovery_leaves_the_threshold_that_recovery_set() {
    // RFC 5681 equation 4 is an upper limit. Segment 5 and its retransmission are lost; by the time of the timeout far more
    // than a window has arrived out of order, and none of that is under way.
    for sack in [false, true] {
        let mut net = net(&TcpConfig { sack, ..config() }, &[]);
        let (mut lost, fifth) = (0, 1001 + 5 * MSS as u32);
        net.forward.script = Box::new(move |_, record| {
            let hit = record.len > 0 && record.repr.sequence == fifth && lost < 2;
            lost += u32::from(hit);
            hit
        });
        net.run_until(at_ms(1300));
        let stats = net.client.stats();
        assert_eq!((stats.recoveries, stats.timeouts), (1, 1), "SACK {sack}");
        let threshold = net.client.slow_start_threshold().expect("a loss was noticed");
        assert!(threshold <= Bytes::new(11 * MSS), "SACK {sack}: {threshold}");
    }
}
