//! What a discipline counts, by the names of `tc -s qdisc`, one below the other.

use taut_core::{Duration, Queue};

use super::{Cake, Codel, Discipline, FqCodel, Kind, Pie, Red};

type Counters = Vec<(String, u64)>;

impl Discipline {
    /// What it counts, by the names that `tc -s -j qdisc` has for it: sums over the run, and how it is now. First what every
    /// discipline counts, `packets` and `bytes` that left, `drops`, and what waits, `qlen` and `backlog`; then what is its own. Times
    /// are in µs (`_us`, except CoDel's `ldelay` and PIE's `delay`, as there), sizes in bytes, rates in bit/s where Linux has bytes per second, probabilities in
    /// millionths (`_ppm`, where Linux has fractions). What a band of `prio` or a tin of `cake` counts is called `band0.…` and
    /// `tin0.…`; what waits behind a `tbf`, `child.…`. What Linux does not show: `dropped` of CoDel and fq_codel, those that the
    /// algorithm dropped, and `drop_overlimit` of a tin, those for which there was no memory.
    pub fn counters(&self) -> Vec<(String, u64)> {
        let waits = self.backlog();
        let mut all = named([
            ("packets", self.sent.packets),
            ("bytes", self.sent.bytes.get()),
            ("drops", self.drops),
            ("qlen", waits.packets),
            ("backlog", waits.bytes.get()),
        ]);
        all.extend(match &self.kind {
            Kind::DropTail(_) => Vec::new(),
            Kind::Codel(queue) => codel(queue),
            Kind::FqCodel(queue) => fq_codel(queue),
            Kind::Pie(queue) => pie(queue),
            Kind::Red(queue) => red(queue),
            Kind::Prio(queue) => {
                let bands = queue.bands().iter().zip(0..);
                bands.flat_map(|(band, i)| within(&format!("band{i}"), band.counters())).collect()
            }
            Kind::TokenBucket(queue) => {
                let mut own = named([("overlimits", queue.stats().overlimits)]);
                own.extend(within("child", queue.child().counters()));
                own
            }
            Kind::Cake(queue) => cake(queue),
        });
        all
    }
}

fn micros(time: Duration) -> u64 {
    time.as_nanos() / 1_000
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
        ("ldelay", micros(stats.ldelay)),
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
        ("delay", micros(stats.delay)),
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
            ("threshold_rate", tin.threshold.as_bps()),
            ("sent_bytes", tin.bytes.get()),
            ("backlog_bytes", tin.backlog.get()),
            ("target_us", micros(tin.target)),
            ("interval_us", micros(tin.interval)),
            ("peak_delay_us", micros(tin.peak_delay)),
            ("avg_delay_us", micros(tin.average_delay)),
            ("base_delay_us", micros(tin.base_delay)),
            ("sent_packets", tin.packets),
            ("way_indirect_hits", tin.indirect_hits),
            ("way_misses", tin.misses),
            ("way_collisions", tin.collisions),
            ("drops", tin.dropped),
            ("ecn_mark", tin.marked),
            ("ack_drops", tin.ack_dropped),
            ("sparse_flows", tin.sparse_flows),
            ("bulk_flows", tin.bulk_flows),
            ("unresponsive_flows", tin.unresponsive_flows),
            ("max_pkt_len", tin.longest_packet.get()),
            ("flow_quantum", tin.flow_quantum.get()),
            ("drop_overlimit", tin.drop_overlimit),
        ]);
        all.extend(within(&format!("tin{i}"), tin));
    }
    all
}
