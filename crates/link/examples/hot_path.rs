//! Nanoseconds per packet through chains of elements, all calls of a driver in virtual time included.
//!
//! `cargo run --release -p taut-link --example hot_path`
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a measurement of real time, for people to read"
)]

use std::hint::black_box;
use std::time::Instant;

use taut_core::{Bitrate, Bytes, Duration, Link, Packet, PacketMeta, Probability, Seed, Time};
use taut_link::{
    Bottleneck, Chain, Delay, Distribution, DropTail, Jitter, JitterConfig, Loss, MahimahiTrace,
};

const PACKETS: u64 = 5_000_000;

fn main() {
    let ms = Duration::from_millis;
    let gigabit = || Bottleneck::new(Bitrate::from_bps(1_000_000_000), DropTail::default()).into();
    let rng = |name| Seed::new(1).stream(name);
    let jitter = |reorder| {
        let config = JitterConfig::new(ms(1)).mean(ms(8)).distribution(Distribution::Normal).reorder(reorder);
        Jitter::new(config, rng("jitter")).expect("the parameters are in range").into()
    };
    let trace = MahimahiTrace::parse("1\n2\n2\n3\n").expect("the times increase");
    measure("empty", Chain::new(vec![]));
    measure("delay", Chain::from(Delay::new(ms(8))));
    measure("bottleneck", Chain::new(vec![gigabit()]));
    measure("bottleneck, delay", Chain::new(vec![gigabit(), Delay::new(ms(8)).into()]));
    measure("bottleneck, delay of 1 ms", Chain::new(vec![gigabit(), Delay::new(ms(1)).into()]));
    let loss = Loss::bernoulli(Probability::from_fraction(0.01).expect("in range"), rng("loss")).into();
    measure_bursts(
        "bottleneck, delay; bursts of ten",
        10,
        Chain::new(vec![gigabit(), Delay::new(ms(8)).into()]),
    );
    measure("bottleneck, loss, delay", Chain::new(vec![gigabit(), loss, Delay::new(ms(8)).into()]));
    measure("bottleneck, jitter", Chain::new(vec![gigabit(), jitter(false)]));
    measure("bottleneck, jitter that reorders", Chain::new(vec![gigabit(), jitter(true)]));
    let cellular = Bottleneck::new(trace, DropTail::default().limit_packets(1_000)).into();
    measure("trace (full queue), delay", Chain::new(vec![cellular, Delay::new(ms(8)).into()]));
}

fn measure(name: &str, link: Chain) {
    measure_bursts(name, 1, link);
}

/// A packet of 1250 bytes every 10 µs or a little more, so that 1 Gbit/s is just enough; or as many at once and then
/// a pause, so that they wait in the queue.
fn measure_bursts(name: &str, burst: u64, mut link: Chain) {
    let mut gaps = Seed::new(2).stream("gaps");
    let gaps: Vec<Duration> =
        (0..1_024).map(|_| Duration::from_nanos(10_100 + gaps.below(600) * 2)).collect();
    let mut best = f64::MAX;
    let mut arrival = Time::ZERO;
    for _ in 0..5 {
        let begin = Instant::now();
        let mut left = 0u64;
        for id in 0..PACKETS / 5 {
            left += run_until(&mut link, arrival);
            let meta = PacketMeta { id, size: Bytes::new(1_250), ..PacketMeta::default() };
            link.handle_input(arrival, Packet { meta, payload: Vec::new() });
            left += poll(&mut link, arrival);
            if id % burst == 0 {
                arrival += gaps[(id % 1_024) as usize] * burst;
            }
        }
        black_box(left);
        best = best.min(begin.elapsed().as_nanos() as f64 / (PACKETS / 5) as f64);
    }
    println!("{name:36} {best:6.1} ns/packet");
}

fn run_until(link: &mut Chain, end: Time) -> u64 {
    let mut left = 0;
    while let Some(deadline) = link.poll_timeout() {
        if deadline.at > end {
            break;
        }
        link.handle_timeout(deadline.at);
        left += poll(link, deadline.at);
    }
    left
}

fn poll(link: &mut Chain, now: Time) -> u64 {
    let mut left = 0;
    while let Some(packet) = link.poll_transmit(now) {
        left += black_box(packet).meta.size.get();
    }
    while let Some(event) = link.poll_event() {
        black_box(event);
    }
    left
}
