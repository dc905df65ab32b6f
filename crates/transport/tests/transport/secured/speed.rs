//! What a datagram costs. `cargo test --release -p taut-transport --test transport secured::speed -- --ignored --nocapture`

use std::hint::black_box;
use taut_core::{Datagram, Ecn, Message, PathId, Transport};

use crate::secured::{open_pair, say};

/// Sealing and opening one, with all that is around it: queue, header, window, events.
#[test]
#[ignore = "measures, asserts nothing about time"]
fn a_datagram_costs() {
    for size in [75, 1_200] {
        let mut net = open_pair();
        say(&mut net, 0, b"warm");
        let rounds = 200_000_u32;
        let [operator, robot] = &mut net.ends;
        let mut datagram = Vec::new();
        #[expect(clippy::disallowed_methods, reason = "it measures the machine")]
        let start = std::time::Instant::now();
        for _ in 0..rounds {
            let message = Message { data: vec![7; size], ..Message::default() };
            operator.send(net.now, message).unwrap();
            datagram.clear();
            while operator.poll_transmit(net.now, &mut datagram).is_some() {
                let input = Datagram { path: PathId(0), ecn: Ecn::NotCapable, data: &datagram, padding: 0 };
                robot.handle_input(net.now, input);
                datagram.clear();
            }
            while let Some(event) = robot.poll_event() {
                black_box(event);
            }
        }
        println!(
            "{size} B: {} ns to send, seal, open and receive",
            start.elapsed().as_nanos() / u128::from(rounds)
        );
        assert!(robot.stats().opened >= u64::from(rounds));
    }
}
