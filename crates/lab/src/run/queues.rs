//! From the scenario's words to queueing disciplines.

use taut_core::{Bytes, Duration, Rng};
use taut_link::{Cake, Codel, Discipline, DropTail, FqCodel, Pie, Prio, Red, TokenBucket, TokenBucketConfig};

use crate::scenario::{PrioSpec, QueueSpec, TbfSpec};

/// Without any limit in a scenario.
const DEFAULT_QUEUE_PACKETS: u64 = 1000;

/// The discipline that `spec` describes; what is random in it draws from `rng`, or from streams of its own.
pub(super) fn queue(spec: &QueueSpec, rng: &mut Rng) -> Discipline {
    if let Some(spec) = &spec.codel {
        return Codel::new(*spec).into();
    }
    if let Some(spec) = &spec.fq_codel {
        return FqCodel::new(*spec, rng.next_u64()).into();
    }
    if let Some(spec) = &spec.pie {
        return Pie::new(*spec, branch(rng)).into();
    }
    if let Some(spec) = &spec.red {
        return Red::new(*spec, branch(rng)).into();
    }
    if let Some(spec) = &spec.prio {
        return prio(spec, rng).into();
    }
    if let Some(spec) = &spec.tbf {
        return tbf(spec, rng).into();
    }
    if let Some(spec) = &spec.cake {
        return Cake::new(*spec, branch(rng)).into();
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
