//! What a discipline counts, by the names of `tc -s qdisc`, one below the other.

use super::{Cake, Codel, Discipline, FqCodel, Pie, Red};

type Counters = Vec<(String, u64)>;

impl Discipline {
    /// What it counts, by the names that `tc -s -j qdisc` has for it: sums over the run, and how it is now. Times are in µs
    /// (`_us`), sizes in bytes, probabilities in millionths (`_ppm`). What a band of `prio` or a tin of `cake` counts is called
    /// `band0.…` and `tin0.…`; what waits behind a `tbf`, `child.…`. A drop-tail queue counts nothing: its drops are told by
    /// their cause.
    pub fn counters(&self) -> Vec<(String, u64)> {
        match self {
            Self::DropTail(_) => Vec::new(),
            Self::Codel(queue) => codel(queue),
            Self::FqCodel(queue) => fq_codel(queue),
            Self::Pie(queue) => pie(queue),
            Self::Red(queue) => red(queue),
            Self::Prio(queue) => {
                let bands = queue.bands().iter().zip(0..);
                bands.flat_map(|(band, i)| within(&format!("band{i}"), band.counters())).collect()
            }
            Self::TokenBucket(queue) => {
                let mut all = named([("overlimits", queue.stats().overlimits)]);
                all.extend(within("child", queue.child().counters()));
                all
            }
            Self::Cake(queue) => cake(queue),
        }
    }
}

fn named<const N: usize>(counters: [(&str, u64); N]) -> Counters {
    counters.into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
}

fn within(part: &str, counters: Counters) -> Counters {
    counters.into_iter().map(|(name, count)| (format!("{part}.{name}"), count)).collect()
}

fn millionths(probability: f64) -> u64 {
    (probability * 1e6).round() as u64
}

fn codel(queue: &Codel) -> Counters {
    let stats = queue.stats();
    named([
        ("count", stats.count.into()),
        ("lastcount", stats.lastcount.into()),
        ("ldelay_us", stats.ldelay.as_nanos() / 1_000),
        ("dropping", stats.dropping.into()),
        ("maxpacket", stats.maxpacket.get()),
        ("ecn_mark", stats.ecn_mark),
        ("ce_mark", stats.ce_mark),
        ("dropped", stats.dropped),
        ("drop_overlimit", stats.drop_overlimit),
    ])
}

fn fq_codel(queue: &FqCodel) -> Counters {
    let stats = queue.stats();
    named([
        ("maxpacket", stats.maxpacket.get()),
        ("drop_overlimit", stats.drop_overlimit),
        ("drop_overmemory", stats.drop_overmemory),
        ("ecn_mark", stats.ecn_mark),
        ("ce_mark", stats.ce_mark),
        ("dropped", stats.dropped),
        ("new_flow_count", stats.new_flow_count),
        ("new_flows_len", stats.new_flows_len),
        ("old_flows_len", stats.old_flows_len),
        ("memory_used", stats.memory_used.get()),
    ])
}

fn pie(queue: &Pie) -> Counters {
    let stats = queue.stats();
    named([
        ("prob_ppm", millionths(stats.probability)),
        ("delay_us", stats.delay.as_nanos() / 1_000),
        ("pkts_in", stats.packets_in),
        ("dropped", stats.dropped),
        ("overlimit", stats.overlimit),
        ("maxq", stats.maxq),
        ("ecn_mark", stats.ecn_mark),
    ])
}

fn red(queue: &Red) -> Counters {
    let stats = queue.stats();
    named([
        // Both kinds of drop are one counter there.
        ("early", stats.early + stats.forced),
        ("marked", stats.marked),
        ("pdrop", stats.pdrop),
        ("probability_ppm", millionths(stats.probability)),
        ("average", stats.average.get()),
    ])
}

fn cake(queue: &Cake) -> Counters {
    let stats = queue.stats();
    let mut all =
        named([("memory_used", stats.memory_used.get()), ("memory_limit", stats.memory_limit.get())]);
    for (tin, i) in stats.tins.iter().zip(0..) {
        let tin = named([
            ("peak_delay_us", tin.peak_delay.as_nanos() / 1_000),
            ("avg_delay_us", tin.average_delay.as_nanos() / 1_000),
            ("base_delay_us", tin.base_delay.as_nanos() / 1_000),
            ("sent_packets", tin.packets),
            ("sent_bytes", tin.bytes.get()),
            ("way_indirect_hits", tin.indirect_hits),
            ("way_misses", tin.misses),
            ("way_collisions", tin.collisions),
            ("drops", tin.dropped),
            ("ecn_mark", tin.marked),
            ("ack_drops", tin.ack_dropped),
            ("drop_overlimit", tin.drop_overlimit),
        ]);
        all.extend(within(&format!("tin{i}"), tin));
    }
    all
}
