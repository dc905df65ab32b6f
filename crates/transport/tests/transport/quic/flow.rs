//! A 1 kHz flow of small samples under each controller, and what congestion does to it.

use taut_core::{Bitrate, Event, Probability, StreamId};
use taut_transport::quic::{Congestion, Paced, QuicConfig};

use crate::quic::harness::*;

const SECONDS: u64 = 10;

/// 75 bytes at 1 kHz each way, and a reliable message of 200 bytes every 20 ms, for ten seconds.
fn flow(congestion: Congestion, loss: f64) -> Net {
    let mut net = Net::connected(&QuicConfig::new().congestion(congestion));
    net.link.loss = share(loss);
    for tick in 0..SECONDS * 1_000 {
        net.run_for(ms(1));
        for node in [CLIENT, SERVER] {
            net.send(node, sample(net.now, 75));
        }
        if tick % 20 == 0 {
            net.send(CLIENT, command(net.now, 2, 2, 200));
        }
    }
    net.link.loss = Probability::NEVER;
    net.run_for(ms(2_000));
    net
}

#[test]
fn samples_flow_at_1_khz_whatever_the_controller() {
    let controllers = [
        ("paced", Congestion::default()),
        ("newreno", Congestion::NewReno),
        ("cubic", Congestion::Cubic),
        ("bbr", Congestion::Bbr),
    ];
    println!("controller  loss  delivered     p50     p99   p99.9  reliable p50    p99");
    for (name, congestion) in controllers {
        for loss in [0.0, 0.01, 0.05, 0.10] {
            let net = flow(congestion, loss);
            let samples = latencies(&net, SERVER, 1);
            let delivered = samples.len() as f64 / (SECONDS * 1_000) as f64;
            let commands = latencies(&net, SERVER, 2);
            let of = |share| quantile(&samples, share);
            println!(
                "{name:10} {:4.0} % {:8.2} % {:7.2} {:7.2} {:7.2}  {:12.2} {:6.2}",
                loss * 100.0,
                delivered * 100.0,
                of(0.5).as_millis_f64(),
                of(0.99).as_millis_f64(),
                of(0.999).as_millis_f64(),
                quantile(&commands, 0.5).as_millis_f64(),
                quantile(&commands, 0.99).as_millis_f64(),
            );
            assert_eq!(commands.len() as u64, SECONDS * 50, "reliable messages all arrive");
            assert!(delivered > 0.1 && delivered < 1.001 - loss / 2.0, "{name}: {delivered}");
            if name == "paced" {
                assert!((delivered - (1.0 - loss)).abs() < 0.012, "only the link loses any");
                assert_eq!(of(0.999), ms(10), "and none waits");
            }
        }
    }
}

#[test]
fn reliable_messages_arrive_in_order_over_a_bad_link() {
    let mut net = Net::connected(&QuicConfig::new());
    net.link.loss = share(0.1);
    net.link.duplicate = share(0.1);
    net.link.jitter = ms(15);
    for number in 0..600_u64 {
        net.run_for(ms(2));
        let mut message = command(net.now, (number % 3) as u16, 1, 20 + (number as usize * 37) % 1_000);
        message.data[8..16].copy_from_slice(&number.to_le_bytes());
        net.send(CLIENT, message);
    }
    net.run_for(ms(10_000));
    for stream in 0..3 {
        let received = net.received(SERVER);
        let ours = received.iter().filter(|(_, id, _)| *id == StreamId(stream));
        let numbers: Vec<u64> =
            ours.map(|(_, _, data)| u64::from_le_bytes(data[8..16].try_into().unwrap())).collect();
        assert_eq!(numbers, (0..200).map(|index| index * 3 + u64::from(stream)).collect::<Vec<_>>());
    }
    assert_eq!(net.nodes[SERVER].stats().received, 600);
    assert!(net.nodes[SERVER].stats().replayed > 50, "the copies that the link made were refused");
}

#[test]
fn a_lost_message_holds_up_its_own_stream_only() {
    let mut net = Net::connected(&QuicConfig::new());
    net.link.cut = true;
    net.send(CLIENT, command(net.now, 2, 1, 50));
    net.link.cut = false;
    let lost_at = net.now;
    net.run_for(ms(1));
    net.send(CLIENT, command(net.now, 2, 1, 50));
    net.send(CLIENT, command(net.now, 3, 1, 50));
    net.send(CLIENT, sample(net.now, 50));
    net.run_for(ms(500));
    let arrivals: Vec<_> =
        net.received(SERVER).into_iter().map(|(at, stream, _)| (at - lost_at, stream.0)).collect();
    let of = |stream| arrivals.iter().filter(move |(_, id)| *id == stream).map(|(after, _)| *after);
    assert_eq!(of(3).collect::<Vec<_>>(), [ms(11)]);
    assert_eq!(of(1).collect::<Vec<_>>(), [ms(11)]);
    assert_eq!(of(2).count(), 2);
    assert!(of(2).all(|after| after > ms(25)), "both wait for what was lost: {arrivals:?}");
}

#[test]
fn pacing_slows_before_a_narrow_link_and_keeps_its_floor() {
    let paced = Paced::new().floor(Bitrate::from_bps(1_500_000)).ceiling(Bitrate::from_bps(10_000_000));
    let mut net = Net::connected(&QuicConfig::new().congestion(Congestion::Paced(paced)));
    // 3 Mbit/s with 40 kB of queue, marked from 6 kB on. Force at 1 kHz and 8 Mbit/s of video fragments.
    net.link.rate = Some((3_000_000, 40_000));
    net.link.mark_above = Some(6_000);
    for _ in 0..5_000 {
        net.run_for(ms(1));
        net.send(CLIENT, sample(net.now, 75));
        let mut video = sample(net.now, 1_000);
        (video.stream, video.priority) = (StreamId(3), taut_core::Priority(3));
        net.send(CLIENT, video);
    }
    net.run_for(ms(500));
    let samples = latencies(&net, SERVER, 1);
    let of = |share| quantile(&samples, share).as_millis_f64();
    println!("force p50 {:.1} ms, p99 {:.1} ms", of(0.5), of(0.99));
    let rates: Vec<f64> = net.events[CLIENT]
        .iter()
        .filter_map(|(_, event)| match event {
            Event::Gauge { name: "pacing_bps", value } => Some(*value),
            _ => None,
        })
        .collect();
    let lowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
    assert!((1.5e6..3.5e6).contains(&lowest), "{lowest}");
    assert!(samples.len() > 4_900, "force went first: {}", samples.len());
    assert!(quantile(&samples, 0.99) < ms(80));
    assert!(net.nodes[CLIENT].stats().superseded > 1_000, "video was dropped here, where it is known");
}

#[test]
fn what_congestion_holds_back_waits_here_and_the_newest_wins() {
    let mut net = Net::connected(&QuicConfig::new().congestion(Congestion::NewReno).queue(20));
    net.link.cut = true;
    for _ in 0..400 {
        net.run_for(ms(1));
        net.send(CLIENT, sample(net.now, 75));
    }
    let cut_until = net.now;
    net.link.cut = false;
    net.run_for(ms(2_000));
    let stats = net.nodes[CLIENT].stats();
    assert!(stats.superseded > 100, "{stats:?}");
    let received = net.received(SERVER);
    let stale = received.iter().filter(|(_, _, data)| made(data) + ms(21) < cut_until).count();
    assert!(stale <= 1, "{stale} old samples came after the cut");
    assert!(received.len() >= 20, "{}", received.len());
}
