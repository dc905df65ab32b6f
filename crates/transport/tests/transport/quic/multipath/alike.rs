//! What one path has, several have too.

use taut_core::{Event, Message, Priority, Probability, Reliability, Transport};
use taut_transport::quic::{Congestion, PathUse, QuicConfig, Resumption};

use super::harness::{CLIENT, Net, SERVER, at_ms, client, ms, server};

/// A sample at once, that may go early.
fn begin(configs: [QuicConfig; 2], seed: u64) -> Net {
    let [of_client, of_server] = configs;
    let mut net = Net::between([client(of_client, "operator", seed), server(of_server, seed)], seed);
    let sample = Message { data: vec![1; 100], priority: Priority(1), ..Message::default() };
    net.send(CLIENT, sample);
    net
}

fn received_at(net: &Net) -> Vec<u64> {
    let received = net.events[SERVER].iter().filter(|(_, event)| matches!(event, Event::Received { .. }));
    received.map(|(at, _)| at.as_nanos() / 1_000_000).collect()
}

#[test]
fn the_second_time_a_sample_arrives_with_the_first_packet_and_the_paths_open_as_the_first_time() {
    let kept = [Resumption::new(), Resumption::new()];
    for (life, arrives) in [(1, 12), (2, 4)] {
        let config = |of: &Resumption| {
            QuicConfig::multipath(PathUse::Duplicate).certificates(true).resumption(of.clone())
        };
        let mut net = begin([config(&kept[0]), config(&kept[1])], life);
        net.run_until(at_ms(1_000));
        assert_eq!(received_at(&net), [arrives], "{life}");
        assert!(net.ends.iter().all(|end| end.paths().count() == 2), "{life}");
        assert_eq!(net.ends[SERVER].stats().received_early, life - 1);
        let now = net.now;
        net.ends[CLIENT].close(now);
    }
}

#[test]
fn a_server_may_ask_everybody_where_they_are() {
    let config = QuicConfig::multipath(PathUse::FailOver);
    let mut net = begin([config.clone(), config.retry(true)], 1);
    net.run_until(at_ms(1_000));
    assert_eq!(received_at(&net), [20], "a round trip later");
}

/// 1 kHz of samples over two paths, of which one dies, with 10 % of loss, and a reliable message every 20 ms.
#[test]
fn paced_samples_wait_for_no_loss_on_either_path() {
    let config = QuicConfig::multipath(PathUse::Duplicate).congestion(Congestion::default());
    let mut net = begin([config.clone(), config], 1);
    net.run_until(at_ms(500));
    net.ways.iter_mut().for_each(|way| {
        way.loss = Probability::from_fraction(0.1).expect("a share");
    });
    net.ways[0].cut = Some((at_ms(1_500), at_ms(3_000)));
    for _ in 0..100 {
        let reliability = Reliability::Reliable;
        net.send(CLIENT, Message { data: vec![0; 200], reliability, created: net.now, ..Message::default() });
        let until = net.now + ms(20);
        net.samples(CLIENT, ms(1), until);
    }
    net.run_until(at_ms(6_000));
    assert_eq!(net.ends[CLIENT].stats().superseded, 0);
    let reliable = net.events[SERVER]
        .iter()
        .filter(|(_, event)| matches!(event, Event::Received { data, .. } if data.len() == 200));
    assert_eq!(reliable.count(), 100);
    // Of 1500 on two paths one in a hundred is lost, of 500 on one, one in ten.
    let samples = net.events[SERVER]
        .iter()
        .filter(|(_, event)| matches!(event, Event::Received { data, .. } if data.len() == 100));
    assert!(samples.count() > 1_850);
}
