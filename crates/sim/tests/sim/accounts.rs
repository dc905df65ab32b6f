//! No packet vanishes and none appears from nowhere, over random networks and random traffic.

use proptest::prelude::*;
use taut_core::{Bitrate, Bytes, Duration, FlowId, Packet, Probability, Seed, Time};
use taut_link::{
    Bottleneck, Chain, Corrupt, Cut, Delay, Distribution, DropTail, Duplicate, Element, GilbertElliott,
    Jitter, JitterConfig, Loss,
};
use taut_sim::traffic::{Cbr, Pattern, Poisson, Sink, Source, Video, Voice};
use taut_sim::{Account, Ledger, LinkId, Network, Observer};

fn probability() -> impl Strategy<Value = Probability> {
    (0.0..0.5).prop_map(|fraction| Probability::from_fraction(fraction).unwrap())
}

fn micros(most: u64) -> impl Strategy<Value = Duration> {
    (0..=most).prop_map(Duration::from_micros)
}

fn element() -> impl Strategy<Value = Element> {
    let rng = || any::<u64>().prop_map(|seed| Seed::new(seed).stream("element"));
    prop_oneof![
        (micros(20_000), 1..50usize).prop_map(|(delay, limit)| Delay::new(delay).limit(limit).into()),
        (10_000..20_000_000u64, 0..20u64, 0..20_000u64).prop_map(|(rate, packets, bytes)| {
            let queue = DropTail::default().limit_packets(packets).limit_bytes(Bytes::new(bytes));
            Bottleneck::new(Bitrate::from_bps(rate), queue).into()
        }),
        (micros(5_000), micros(5_000), any::<bool>(), rng()).prop_map(|(mean, spread, reorder, rng)| {
            let config =
                JitterConfig::new(spread).mean(mean).distribution(Distribution::Normal).reorder(reorder);
            Jitter::new(config, rng).unwrap().into()
        }),
        (probability(), rng()).prop_map(|(p, rng)| Loss::bernoulli(p, rng).into()),
        ([(); 4].map(|()| probability()), rng()).prop_map(|([p, r, loss_in_bad, loss_in_good], rng)| {
            Loss::gilbert_elliott(GilbertElliott { p, r, loss_in_bad, loss_in_good }, rng).into()
        }),
        (probability(), rng()).prop_map(|(p, rng)| Duplicate::new(p, rng).into()),
        (probability(), rng()).prop_map(|(p, rng)| Corrupt::new(p, rng).into()),
        (micros(200_000), micros(100_000))
            .prop_map(|(at, length)| Cut::at(Time::ZERO + at).lasting(length).into()),
    ]
}

/// Who sends what to whom: vertices, the kind of pattern, its rate in bit/s, its packets in bytes.
type Flow = (usize, usize, u8, u64, u64);

fn flow() -> impl Strategy<Value = Flow> {
    (0..VERTICES, 0..VERTICES, 0..4u8, 1_000..3_000_000u64, 28..1500u64)
}

fn pattern(&(_, _, kind, rate, packet): &Flow, seed: Seed, name: &str) -> Box<dyn Pattern + Send> {
    let (rate, packet) = (Bitrate::from_bps(rate), Bytes::new(packet));
    match kind {
        0 => Box::new(Cbr::new(rate, packet)),
        1 => Box::new(Poisson::new(rate, packet, seed.stream(name))),
        2 => Box::new(Voice::g711(seed.stream(name))),
        _ => {
            Box::new(Video::new(vec![Bytes::new(9_000), packet], Duration::from_millis(33), Bytes::new(1200)))
        }
    }
}

const VERTICES: usize = 4;

/// A ring in both directions, so that everyone reaches everyone; each link is its own chain. Then a few more links.
fn run<O: Observer>(
    rings: Vec<Vec<Element>>,
    more: Vec<(usize, usize, Vec<Element>)>,
    flows: &[Flow],
    observer: O,
) -> (O, Account) {
    let mut network = Network::new();
    let vertices: Vec<_> = (0..VERTICES).map(|i| network.vertex(i.to_string())).collect();
    for (i, chain) in rings.into_iter().enumerate() {
        let (a, b) = (i % VERTICES, (i + 1) % VERTICES);
        let (from, to) = if i < VERTICES { (a, b) } else { (b, a) };
        network.link(format!("ring {i}"), vertices[from], vertices[to], Box::new(Chain::new(chain)));
    }
    for (from, to, chain) in more {
        network.link("more", vertices[from], vertices[to], Box::new(Chain::new(chain)));
    }
    for (i, flow) in flows.iter().enumerate() {
        let (from, to, ..) = *flow;
        let sink = network.node(format!("sink {i}"), vertices[to], Box::new(Sink::default()));
        let pattern = pattern(flow, Seed::new(5), &format!("flow {i}"));
        let source = Source::new(sink, FlowId(i as u32), pattern);
        let source = network.node(format!("source {i}"), vertices[from], Box::new(source));
        network.flow(source, sink);
    }
    let mut simulation = network.build((Ledger::default(), observer)).unwrap();
    simulation.run_until(Time::ZERO + Duration::from_millis(400));
    let ((ledger, observer), held) = simulation.finish();
    (observer, ledger.close(&held))
}

/// What arrived, by another way of counting than the ledger's.
#[derive(Default)]
struct Count {
    sent: u64,
    delivered: u64,
    left: Vec<u64>,
}

impl Observer for Count {
    fn sent(&mut self, _now: Time, _packet: &Packet) {
        self.sent += 1;
    }
    fn left(&mut self, _now: Time, link: LinkId, _packet: &Packet) {
        let index = link.0 as usize;
        self.left.resize(self.left.len().max(index + 1), 0);
        self.left[index] += 1;
    }
    fn delivered(&mut self, _now: Time, _node: taut_core::Address, _packet: &Packet) {
        self.delivered += 1;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn books_close_over_random_networks_and_traffic(
        rings in prop::collection::vec(prop::collection::vec(element(), 0..5), 2 * VERTICES),
        more in prop::collection::vec((0..VERTICES, 0..VERTICES, prop::collection::vec(element(), 0..3)), 0..3),
        flows in prop::collection::vec(flow(), 1..6),
    ) {
        let (count, account) = run(rings, more, &flows, Count::default());
        prop_assert_eq!(&account.violations, &Vec::<String>::new());
        prop_assert_eq!((account.sent, account.delivered), (count.sent, count.delivered));
        for (link, account) in account.links.iter().enumerate() {
            prop_assert_eq!(account.left, count.left.get(link).copied().unwrap_or(0));
        }
        let dropped: u64 = account.dropped.values().sum();
        prop_assert_eq!(account.sent + account.duplicated, account.delivered + dropped + account.held);
    }
}

#[test]
fn every_drop_has_its_cause() {
    let always = Probability::ALWAYS;
    let rng = || Seed::new(1).stream("x");
    let causes = [
        (Element::from(Loss::bernoulli(always, rng())), "loss"),
        (Cut::at(Time::ZERO).into(), "cut"),
        (Delay::new(Duration::from_secs(1)).limit(3).into(), "delay_full"),
        (
            Bottleneck::new(Bitrate::from_bps(800), DropTail::default().limit_packets(2)).into(),
            "queue_full_packets",
        ),
        (
            Bottleneck::new(Bitrate::from_bps(800), DropTail::default().limit_bytes(Bytes::new(250))).into(),
            "queue_full_bytes",
        ),
    ];
    for (element, cause) in causes {
        let mut rings = vec![Vec::new(); 2 * VERTICES];
        rings[0].push(element);
        // 41 packets of 100 bytes in 400 ms, from vertex 0 to vertex 1.
        let (_, account) = run(rings, Vec::new(), &[(0, 1, 0, 80_000, 100)], ());
        assert_eq!(account.violations, Vec::<String>::new(), "{cause}");
        assert_eq!(account.dropped.keys().collect::<Vec<_>>(), [cause]);
        assert_eq!(account.dropped[cause] + account.held + account.delivered, 41, "{cause}");
    }
}
