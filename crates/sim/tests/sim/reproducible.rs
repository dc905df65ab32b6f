//! One seed gives one run, and a part that is added leaves the others' luck alone.

use std::hash::{DefaultHasher, Hash, Hasher};

use taut_core::{Address, Bitrate, Bytes, Duration, FlowId, Packet, Probability, Seed, Time};
use taut_link::{
    Bottleneck, Chain, Corrupt, Delay, DropTail, Duplicate, Element, Jitter, JitterConfig, Loss,
};
use taut_sim::traffic::{Poisson, Sink, Source, Voice};
use taut_sim::{Capture, EventLog, Network, Observer, Simulation};

/// Two stations on a random link each way. `extra`: two more beside them, on a random link of their own.
fn build<O: Observer>(seed: Seed, extra: bool, observer: impl FnOnce(&Network) -> O) -> Simulation<O> {
    let mut network = Network::new();
    let (a, b) = (network.vertex("a"), network.vertex("b"));
    network.link("a-b", a, b, link(seed, "a-b"));
    network.link("b-a", b, a, link(seed, "b-a"));
    let rate = Bitrate::from_bps(2_000_000);
    let sink = network.node("sink", b, Box::new(Sink::default()));
    let poisson = Poisson::new(rate, Bytes::new(200), seed.stream("poisson"));
    network.node("poisson", a, Box::new(Source::new(sink, FlowId(0), Box::new(poisson))));
    let sink = network.node("back", a, Box::new(Sink::default()));
    network.node(
        "voice",
        b,
        Box::new(Source::new(sink, FlowId(1), Box::new(Voice::g711(seed.stream("voice"))))),
    );
    if extra {
        let (c, d) = (network.vertex("c"), network.vertex("d"));
        network.link("c-d", c, d, link(seed, "c-d"));
        let sink = network.node("other sink", d, Box::new(Sink::default()));
        let poisson = Poisson::new(rate, Bytes::new(200), seed.stream("other poisson"));
        network.node("other", c, Box::new(Source::new(sink, FlowId(2), Box::new(poisson))));
    }
    let observer = observer(&network);
    network.build(observer).unwrap()
}

fn link(seed: Seed, name: &str) -> Box<Chain> {
    let rng = |part: &str| seed.stream(&format!("{name}/{part}"));
    let p = |fraction| Probability::from_fraction(fraction).unwrap();
    let jitter = JitterConfig::new(Duration::from_millis(1)).mean(Duration::from_millis(2)).reorder(true);
    Box::new(Chain::new(vec![
        Element::from(Bottleneck::new(Bitrate::from_bps(3_000_000), DropTail::default().limit_packets(10))),
        Delay::new(Duration::from_millis(5)).into(),
        Jitter::new(jitter, rng("jitter")).unwrap().into(),
        Loss::bernoulli(p(0.05), rng("loss")).into(),
        Duplicate::new(p(0.02), rng("duplicate")).into(),
        Corrupt::new(p(0.02), rng("corrupt")).into(),
    ]))
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

/// Hashes of everything that can be seen of a run: its events, and its packets.
fn hashes(seed: u64, steps: u64) -> (u64, u64) {
    let observer = |network: &Network| {
        let names = network.node_names();
        let links = ["a-b", "b-a"].map(str::to_owned);
        (EventLog::new(Vec::new(), &names, &links), Capture::new(Vec::new(), &names).unwrap())
    };
    let mut simulation = build(Seed::new(seed), false, observer);
    for step in 1..=steps {
        simulation.run_until(Time::ZERO + Duration::from_millis(1000 * step / steps));
    }
    let ((events, capture), _) = simulation.finish();
    (hash(&events.finish().unwrap()), hash(&capture.finish().unwrap()))
}

#[test]
fn one_seed_gives_one_sequence_of_events() {
    assert_eq!(hashes(1, 1), hashes(1, 1));
    assert_ne!(hashes(1, 1), hashes(2, 1));
}

#[test]
fn a_run_in_steps_is_the_run_in_one() {
    assert_eq!(hashes(1, 1), hashes(1, 250));
}

/// Packets on their ways between the first two stations, without the numbers that all packets of a run share.
#[derive(Default)]
struct Seen(Vec<(Time, FlowId, Bytes, Option<Address>, bool)>);

impl Observer for Seen {
    fn sent(&mut self, now: Time, packet: &Packet) {
        self.note(now, packet, None);
    }
    fn delivered(&mut self, now: Time, node: Address, packet: &Packet) {
        self.note(now, packet, Some(node));
    }
}

impl Seen {
    fn note(&mut self, now: Time, packet: &Packet, node: Option<Address>) {
        if packet.meta.flow.0 < 2 {
            self.0.push((now, packet.meta.flow, packet.meta.size, node, packet.meta.corrupted));
        }
    }
}

#[test]
fn a_part_that_is_added_does_not_shift_the_randomness_of_others() {
    let seen = |extra| {
        let mut simulation = build(Seed::new(7), extra, |_| Seen::default());
        simulation.run_until(Time::ZERO + Duration::from_secs(1));
        simulation.finish().0.0
    };
    let (alone, beside) = (seen(false), seen(true));
    assert!(alone.len() > 1000);
    assert!(alone == beside, "the same packets at the same times");
}
