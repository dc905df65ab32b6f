//! Queues: one kind each, every setting in its range.

use taut_core::{Bitrate, Bytes, Duration, Probability};
use taut_link::{CakeConfig, CodelConfig, FqCodelConfig, PieConfig, RedConfig};

use super::{Checked, fault, within};
use crate::schema::*;

/// Disciplines inside disciplines.
const DEEPEST: usize = 4;
const LARGEST: Bytes = Bytes::new(u64::MAX / 2);

/// Whether a queue says one thing, within its ranges.
pub(super) fn check(key: &str, queue: &QueueSpec) -> Checked {
    check_at(key, queue, 0)
}

fn check_at(key: &str, queue: &QueueSpec, depth: usize) -> Checked {
    if depth > DEEPEST {
        return fault(key, format!("is inside more than {DEEPEST} others"));
    }
    let kinds = queue.kinds();
    if kinds.len() > 1 {
        return fault(key, format!("has several kinds, {}; a queue is of one", kinds.join(", ")));
    }
    if let (Some(kind), true) = (kinds.first(), queue.packets.is_some() || queue.bytes.is_some()) {
        return fault(
            key,
            format!("`packets` and `bytes` are limits of a drop-tail queue; `{kind}` has its own"),
        );
    }
    if queue.packets == Some(0) {
        return fault(format!("{key}.packets"), "must be at least 1");
    }
    if queue.bytes == Some(Bytes::ZERO) {
        return fault(format!("{key}.bytes"), "must be at least 1B");
    }
    queue.codel.as_ref().map_or(Ok(()), |spec| check_codel(&format!("{key}.codel"), spec))?;
    queue.fq_codel.as_ref().map_or(Ok(()), |spec| check_fq_codel(&format!("{key}.fq_codel"), spec))?;
    queue.pie.as_ref().map_or(Ok(()), |spec| check_pie(&format!("{key}.pie"), spec))?;
    queue.red.as_ref().map_or(Ok(()), |spec| check_red(&format!("{key}.red"), spec))?;
    queue.prio.as_ref().map_or(Ok(()), |spec| check_prio(&format!("{key}.prio"), spec, depth))?;
    queue.tbf.as_ref().map_or(Ok(()), |spec| check_tbf(&format!("{key}.tbf"), spec, depth))?;
    queue.cake.as_ref().map_or(Ok(()), |spec| check_cake(&format!("{key}.cake"), spec))
}

fn time(key: String, value: Duration) -> Checked {
    within(key, value, Duration::from_micros(1), Duration::from_secs(4))
}

fn size(key: String, value: Bytes) -> Checked {
    within(key, value, Bytes::new(1), LARGEST)
}

fn check_codel(key: &str, spec: &CodelConfig) -> Checked {
    time(format!("{key}.target"), spec.target)?;
    time(format!("{key}.interval"), spec.interval)?;
    within(format!("{key}.limit"), spec.limit, 1, u64::MAX)?;
    spec.ce_threshold.map_or(Ok(()), |threshold| time(format!("{key}.ce_threshold"), threshold))
}

fn check_fq_codel(key: &str, spec: &FqCodelConfig) -> Checked {
    time(format!("{key}.target"), spec.target)?;
    time(format!("{key}.interval"), spec.interval)?;
    within(format!("{key}.limit"), spec.limit, 1, u64::MAX)?;
    within(format!("{key}.flows"), spec.flows, 1, u16::MAX)?;
    within(format!("{key}.quantum"), spec.quantum, Bytes::new(1), Bytes::new(u32::MAX.into()))?;
    size(format!("{key}.memory"), spec.memory)?;
    within(format!("{key}.drop_batch"), spec.drop_batch, 1, u64::MAX)?;
    spec.ce_threshold.map_or(Ok(()), |threshold| time(format!("{key}.ce_threshold"), threshold))
}

fn check_pie(key: &str, spec: &PieConfig) -> Checked {
    time(format!("{key}.target"), spec.target)?;
    within(format!("{key}.tupdate"), spec.tupdate, Duration::from_millis(1), Duration::from_secs(4))?;
    within(format!("{key}.limit"), spec.limit, 1, u64::MAX)?;
    within(format!("{key}.alpha"), spec.alpha, 0, 32)?;
    within(format!("{key}.beta"), spec.beta, 0, 32)
}

fn check_red(key: &str, spec: &RedConfig) -> Checked {
    const MOST: Bytes = Bytes::new(100_000_000);
    within(format!("{key}.limit"), spec.limit, Bytes::new(1), MOST)?;
    let max = spec.max.unwrap_or(Bytes::new(spec.limit.get() / 4));
    let min = spec.min.unwrap_or(Bytes::new(max.get() / 3));
    within(format!("{key}.min"), min, Bytes::new(1), MOST)?;
    within(format!("{key}.max"), max, min, MOST)?;
    within(format!("{key}.avpkt"), spec.avpkt, Bytes::new(1), MOST)?;
    if spec.probability == Probability::NEVER {
        return fault(format!("{key}.probability"), "must be more than 0");
    }
    if spec.bandwidth == Bitrate::ZERO {
        return fault(format!("{key}.bandwidth"), "must be more than 0");
    }
    let room = min.get() / spec.avpkt.get();
    spec.burst.map_or(Ok(()), |burst| within(format!("{key}.burst"), burst, room + 1, 1_000_000))
}

fn check_prio(key: &str, spec: &PrioSpec, depth: usize) -> Checked {
    if spec.bands.len() > 16 {
        return fault(format!("{key}.bands"), format!("{} bands are more than 16", spec.bands.len()));
    }
    for (i, band) in spec.bands.iter().enumerate() {
        check_at(&format!("{key}.bands.{i}"), band, depth + 1)?;
    }
    let last = if spec.bands.is_empty() { 2 } else { spec.bands.len() as u8 - 1 };
    for (i, class) in spec.classes.iter().enumerate() {
        within(format!("{key}.classes.{i}.dscp"), class.dscp, 0, 63)?;
        within(format!("{key}.classes.{i}.band"), class.band, 0, last)?;
        if spec.classes[..i].iter().any(|before| before.dscp == class.dscp) {
            return fault(format!("{key}.classes.{i}.dscp"), format!("{} has a band before", class.dscp));
        }
    }
    Ok(())
}

fn check_tbf(key: &str, spec: &TbfSpec, depth: usize) -> Checked {
    let (slowest, fastest) = (Bitrate::from_bps(8), Bitrate::from_bps(1_000_000_000_000));
    within(format!("{key}.rate"), spec.rate, slowest, fastest)?;
    within(format!("{key}.burst"), spec.burst, Bytes::new(1), deepest(spec.rate))?;
    within(format!("{key}.minburst"), spec.minburst, Bytes::new(1), Bytes::new(1 << 40))?;
    if let Some(peak) = spec.peakrate {
        within(format!("{key}.peakrate"), peak, spec.rate, fastest)?;
        within(format!("{key}.minburst"), spec.minburst, Bytes::new(1), deepest(peak))?;
    }
    spec.queue.as_ref().map_or(Ok(()), |queue| check_at(&format!("{key}.queue"), queue, depth + 1))
}

/// A bucket that is empty is full again after an hour.
fn deepest(rate: Bitrate) -> Bytes {
    (rate * Duration::from_secs(3_600)).max(Bytes::new(1))
}

fn check_cake(key: &str, spec: &CakeConfig) -> Checked {
    let (slowest, fastest) = (Bitrate::from_bps(512), Bitrate::from_bps(1_000_000_000_000));
    if let Some(bandwidth) = spec.bandwidth {
        within(format!("{key}.bandwidth"), bandwidth, slowest, fastest)?;
    }
    within(format!("{key}.rtt"), spec.rtt, Duration::from_micros(20), Duration::from_secs(4))?;
    within(format!("{key}.overhead"), spec.overhead, -64, 256)?;
    within(format!("{key}.mpu"), spec.mpu, Bytes::ZERO, Bytes::new(256))?;
    spec.memory.map_or(Ok(()), |memory| size(format!("{key}.memory"), memory))
}
