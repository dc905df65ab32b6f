//! From the scenario's words to queueing disciplines.

use taut_core::{Bytes, Duration, Rng};
use taut_link::{
    AckFilter, Cake, CakeConfig, Codel, CodelConfig, Discipline, DropTail, FqCodel, FqCodelConfig, Framing,
    Isolation, Pie, PieConfig, Prio, Red, RedConfig, Tins, TokenBucket, TokenBucketConfig,
};

use crate::scenario::{
    AckFilterSpec, CakeSpec, CodelSpec, FqCodelSpec, FramingSpec, IsolationSpec, PieSpec, PrioSpec,
    QueueSpec, RedSpec, TbfSpec, TinsSpec,
};

/// Without any limit in a scenario.
const DEFAULT_QUEUE_PACKETS: u64 = 1000;

/// The discipline that `spec` describes; what is random in it draws from `rng`, or from streams of its own.
pub(super) fn queue(spec: &QueueSpec, rng: &mut Rng) -> Discipline {
    if let Some(spec) = &spec.codel {
        return codel(spec).into();
    }
    if let Some(spec) = &spec.fq_codel {
        return fq_codel(spec, rng.next_u64()).into();
    }
    if let Some(spec) = &spec.pie {
        return pie(spec, branch(rng)).into();
    }
    if let Some(spec) = &spec.red {
        return red(spec, branch(rng)).into();
    }
    if let Some(spec) = &spec.prio {
        return prio(spec, rng).into();
    }
    if let Some(spec) = &spec.tbf {
        return tbf(spec, rng).into();
    }
    if let Some(spec) = &spec.cake {
        return cake(spec, branch(rng)).into();
    }
    drop_tail(spec).into()
}

/// Each discipline inside another draws for itself.
fn branch(rng: &mut Rng) -> Rng {
    taut_core::Seed::new(rng.next_u64()).stream("queue")
}

fn drop_tail(spec: &QueueSpec) -> DropTail {
    let queue = DropTail::default();
    let queue = match (spec.packets, spec.bytes) {
        (None, None) => queue.limit_packets(DEFAULT_QUEUE_PACKETS),
        (Some(packets), _) => queue.limit_packets(packets),
        (None, Some(_)) => queue,
    };
    match spec.bytes {
        Some(bytes) => queue.limit_bytes(bytes.max(Bytes::new(1))),
        None => queue,
    }
}

fn codel(spec: &CodelSpec) -> Codel {
    let config =
        CodelConfig::new().target(spec.target).interval(spec.interval).limit(spec.limit).ecn(spec.ecn);
    Codel::new(spec.ce_threshold.map_or(config, |threshold| config.ce_threshold(threshold)))
}

fn fq_codel(spec: &FqCodelSpec, perturbation: u64) -> FqCodel {
    let config = FqCodelConfig::new()
        .target(spec.target)
        .interval(spec.interval)
        .limit(spec.limit)
        .flows(spec.flows)
        .quantum(spec.quantum)
        .memory_limit(spec.memory)
        .drop_batch(spec.drop_batch)
        .ecn(spec.ecn);
    let config = spec.ce_threshold.map_or(config, |threshold| config.ce_threshold(threshold));
    FqCodel::new(config, perturbation)
}

fn pie(spec: &PieSpec, rng: Rng) -> Pie {
    let config = PieConfig::new()
        .target(spec.target)
        .update(spec.tupdate)
        .limit(spec.limit)
        .alpha(spec.alpha)
        .beta(spec.beta)
        .ecn(spec.ecn)
        .bytemode(spec.bytemode);
    Pie::new(config, rng)
}

fn red(spec: &RedSpec, rng: Rng) -> Red {
    let mut config = RedConfig::new()
        .limit(spec.limit)
        .average_packet(spec.avpkt)
        .probability(spec.probability)
        .bandwidth(spec.bandwidth)
        .ecn(spec.ecn)
        .hard_drop(spec.harddrop)
        .adaptive(spec.adaptive);
    if let Some(min) = spec.min {
        config = config.min(min);
    }
    if let Some(max) = spec.max {
        config = config.max(max);
    }
    if let Some(burst) = spec.burst {
        config = config.burst(burst);
    }
    Red::new(config, rng)
}

fn prio(spec: &PrioSpec, rng: &mut Rng) -> Prio {
    let mut prio = match (&spec.bands[..], &spec.classes[..]) {
        ([], []) => return Prio::linux(),
        ([], _) => {
            let band = || DropTail::default().limit_packets(DEFAULT_QUEUE_PACKETS).into();
            Prio::new(vec![band(), band(), band()], 2)
        }
        (bands, _) => Prio::new(bands.iter().map(|band| queue(band, rng)).collect(), bands.len() as u8 - 1),
    };
    for class in &spec.classes {
        prio = prio.class(class.dscp, class.band);
    }
    prio
}

fn tbf(spec: &TbfSpec, rng: &mut Rng) -> TokenBucket {
    let config = TokenBucketConfig::new(spec.rate, spec.burst);
    let config = spec.peakrate.map_or(config, |peak| config.peak(peak, spec.minburst));
    match &spec.queue {
        Some(child) => TokenBucket::new(config, queue(child, rng)),
        None => TokenBucket::with_latency(config, Duration::from_millis(50)),
    }
}

fn cake(spec: &CakeSpec, rng: Rng) -> Cake {
    let mut config = CakeConfig::new()
        .tins(match spec.tins {
            TinsSpec::Besteffort => Tins::Besteffort,
            TinsSpec::Diffserv3 => Tins::Diffserv3,
            TinsSpec::Diffserv4 => Tins::Diffserv4,
            TinsSpec::Diffserv8 => Tins::Diffserv8,
        })
        .isolation(match spec.isolation {
            IsolationSpec::Flowblind => Isolation::FlowBlind,
            IsolationSpec::Srchost => Isolation::SourceHost,
            IsolationSpec::Dsthost => Isolation::DestinationHost,
            IsolationSpec::Hosts => Isolation::Hosts,
            IsolationSpec::Flows => Isolation::Flows,
            IsolationSpec::DualSrchost => Isolation::DualSourceHost,
            IsolationSpec::DualDsthost => Isolation::DualDestinationHost,
            IsolationSpec::TripleIsolate => Isolation::Triple,
        })
        .rtt(spec.rtt)
        .overhead(spec.overhead)
        .mpu(spec.mpu)
        .framing(match spec.framing {
            FramingSpec::Noatm => Framing::Plain,
            FramingSpec::Atm => Framing::Atm,
            FramingSpec::Ptm => Framing::Ptm,
        })
        .ack_filter(match spec.ack_filter {
            AckFilterSpec::Off => AckFilter::Off,
            AckFilterSpec::On => AckFilter::On,
            AckFilterSpec::Aggressive => AckFilter::Aggressive,
        })
        .ingress(spec.ingress);
    if let Some(bandwidth) = spec.bandwidth {
        config = config.bandwidth(bandwidth);
    }
    if let Some(memory) = spec.memory {
        config = config.memory_limit(memory);
    }
    Cake::new(config, rng)
}
