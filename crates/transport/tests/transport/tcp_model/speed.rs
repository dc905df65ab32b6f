//! How long a segment takes. Run with `cargo test --release -p taut-transport --test transport tcp_model::speed -- --ignored --nocapture`.

use taut_core::{Datagram, Duration, Ecn, PathId, Time, Transport};
use taut_transport::tcp::{CongestionControl, Tcp, TcpConfig};

fn carry(now: Time, from: &mut Tcp, to: &mut Tcp, buffer: &mut Vec<u8>) -> u64 {
    let mut segments = 0;
    while let Some(transmit) = from.poll_transmit(now, buffer) {
        let (path, ecn) = (PathId(0), Ecn::NotCapable);
        to.handle_input(now, Datagram { path, ecn, data: buffer, padding: transmit.padding });
        while to.poll_event().is_some() {}
        buffer.clear();
        segments += 1;
    }
    segments
}

/// Both ends of a bulk flow with a window of 45 segments, on a network that costs nothing.
#[expect(clippy::disallowed_methods, reason = "it measures this machine, not a network")]
#[test]
#[ignore = "a measurement, not a check"]
fn nanoseconds_per_segment() {
    for congestion in [CongestionControl::NewReno, CongestionControl::Cubic] {
        for sack in [false, true] {
            let receive_window = taut_core::Bytes::new(45 * 538);
            let config = TcpConfig { congestion, sack, receive_window, mss: 538, ..TcpConfig::default() };
            let mut client = Tcp::client(config.clone(), 1).bulk(None);
            let mut server = Tcp::server(config, 2).sink();
            let (mut now, mut buffer, mut segments) = (Time::ZERO, Vec::new(), 0);
            let start = std::time::Instant::now();
            while segments < 5_000_000 {
                now += Duration::from_millis(20);
                client.handle_timeout(now);
                segments += carry(now, &mut client, &mut server, &mut buffer);
                carry(now, &mut server, &mut client, &mut buffer);
            }
            let nanos = start.elapsed().as_nanos() as f64 / segments as f64;
            println!(
                "{congestion:?}, sack {sack}: {nanos:.0} ns a segment, both ends and the acknowledgements"
            );
        }
    }
}
