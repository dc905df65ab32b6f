//! A scenario's queue as the qdiscs behind a server's.

use taut_core::Duration;
use taut_link::{CakeConfig, CodelConfig, Isolation, Tins};

use super::micros;
use crate::run::inputs::RunError;
use crate::scenario::{PrioSpec, QueueSpec, TbfSpec};

/// Adds what gives `parent` this queue, and those inside it. The number of each that holds others is that of its place in `parts`.
pub(super) fn waiting(
    queue: &QueueSpec,
    parent: &str,
    key: &str,
    parts: &mut Vec<String>,
) -> Result<(), RunError> {
    let QueueSpec { codel, fq_codel, pie, red, prio, tbf, cake, .. } = queue;
    let line = match (codel, prio, tbf, cake) {
        _ if fq_codel.is_some() || pie.is_some() || red.is_some() => {
            return Err(RunError::key(key.to_owned(), REFUSED));
        }
        (Some(spec), ..) => codel_words(spec),
        (_, Some(spec), ..) => return bands(spec, parent, key, parts),
        (_, _, Some(spec), _) => return shaped(spec, parent, key, parts),
        (.., Some(spec)) => cake_words(spec, key)?,
        _ => fifo(queue, key)?,
    };
    parts.push(format!("parent {parent} {line}"));
    Ok(())
}

/// The class below a server in which packets with this code point wait, by the whole of whose drops they are judged; `None` where it is
/// divided further.
pub(super) fn class_of(dscp: u8, queue: &QueueSpec) -> Option<String> {
    let Some(prio) = &queue.prio else { return (!is_divided(queue)).then(|| "1:1".to_owned()) };
    let class = prio.classes.iter().find(|class| class.dscp == dscp);
    let band = class.map_or(prio.bands.len().saturating_sub(1), |class| class.band.into());
    let divided = prio.bands.get(band).is_some_and(is_divided);
    (!divided).then(|| format!("2:{:x}", band + 1))
}

fn is_divided(queue: &QueueSpec) -> bool {
    let behind = queue.tbf.as_ref().and_then(|tbf| tbf.queue.as_deref());
    queue.prio.is_some() || behind.is_some_and(is_divided)
}

const REFUSED: &str = "the kernel is given FIFOs, codel, cake, prio and tbf";

fn fifo(queue: &QueueSpec, key: &str) -> Result<String, RunError> {
    match (queue.bytes, queue.packets) {
        (Some(bytes), None) => Ok(format!("bfifo limit {}", bytes.get().max(1))),
        (None, packets) => Ok(format!("pfifo limit {}", packets.unwrap_or(1000))),
        (Some(_), Some(_)) => {
            let message = "Linux's qdiscs cannot: a FIFO counts bytes or packets";
            Err(RunError::key(format!("{key}.packets"), message))
        }
    }
}

fn codel_words(spec: &CodelConfig) -> String {
    let CodelConfig { target, interval, limit, ecn, ce_threshold } = *spec;
    let mark = if ecn { "ecn" } else { "noecn" };
    let threshold = ce_threshold.map(|at| format!(" ce_threshold {}", micros(at))).unwrap_or_default();
    format!("codel limit {limit} target {} interval {} {mark}{threshold}", micros(target), micros(interval))
}

fn cake_words(spec: &CakeConfig, key: &str) -> Result<String, RunError> {
    let own = CakeConfig::default();
    let CakeConfig { bandwidth, tins, isolation, rtt, memory, ingress, .. } = *spec;
    if (CakeConfig { bandwidth, tins, isolation, rtt, memory, ingress, ..own }) != *spec {
        let message = "the kernel's gets neither overhead, mpu, framing nor ack_filter: leave them out";
        return Err(RunError::key(format!("{key}.cake"), message));
    }
    let shaper = bandwidth.map_or("unlimited".to_owned(), |rate| format!("bandwidth {}bit", rate.as_bps()));
    let tins = match tins {
        Tins::Besteffort => "besteffort",
        Tins::Diffserv3 => "diffserv3",
        Tins::Diffserv4 => "diffserv4",
        Tins::Diffserv8 => "diffserv8",
    };
    let isolation = match isolation {
        Isolation::Flowblind => "flowblind",
        Isolation::Srchost => "srchost",
        Isolation::Dsthost => "dsthost",
        Isolation::Hosts => "hosts",
        Isolation::Flows => "flows",
        Isolation::DualSrchost => "dual-srchost",
        Isolation::DualDsthost => "dual-dsthost",
        Isolation::TripleIsolate => "triple-isolate",
    };
    let memory = memory.map(|bytes| format!(" memlimit {}", bytes.get())).unwrap_or_default();
    let ingress = if ingress { " ingress" } else { "" };
    Ok(format!("cake {shaper} {tins} {isolation} rtt {}us{memory}{ingress}", rtt.as_nanos() / 1_000))
}

/// A code point's packets are told by a filter, all others go into the last band.
fn bands(spec: &PrioSpec, parent: &str, key: &str, parts: &mut Vec<String>) -> Result<(), RunError> {
    let count = spec.bands.len();
    if count < 2 {
        let message = "the kernel's has 2 to 16: name them";
        return Err(RunError::key(format!("{key}.prio.bands"), message));
    }
    let handle = handle(parts);
    let others = vec![(count - 1).to_string(); 16].join(" ");
    parts.push(format!("parent {parent} handle {handle}: prio bands {count} priomap {others}"));
    for class in &spec.classes {
        let (tos, band) = (class.dscp << 2, class.band + 1);
        parts.push(format!(
            "filter parent {handle}: protocol ip prio 1 u32 match ip tos {tos:#04x} 0xfc flowid {handle}:{band:x}"
        ));
    }
    for (number, band) in spec.bands.iter().enumerate() {
        waiting(band, &format!("{handle}:{:x}", number + 1), &format!("{key}.prio.bands.{number}"), parts)?;
    }
    Ok(())
}

/// Without a queue of its own, a FIFO that holds what passes in 50 ms.
fn shaped(spec: &TbfSpec, parent: &str, key: &str, parts: &mut Vec<String>) -> Result<(), RunError> {
    const LATENCY: Duration = Duration::from_millis(50);
    let TbfSpec { rate, burst, peakrate, queue, .. } = spec;
    if peakrate.is_some() {
        return Err(RunError::key(format!("{key}.tbf.peakrate"), "the kernel's gets none: leave it out"));
    }
    let handle = handle(parts);
    parts.push(format!(
        "parent {parent} handle {handle}: tbf rate {}bit burst {} latency {}",
        rate.as_bps(),
        burst.get(),
        micros(LATENCY)
    ));
    match queue {
        Some(queue) => waiting(queue, &format!("{handle}:1"), &format!("{key}.tbf.queue"), parts),
        None => Ok(()),
    }
}

/// HTB's is 1, which is the first of `parts`.
fn handle(parts: &[String]) -> String {
    format!("{:x}", parts.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(queue: &str) -> Result<Vec<String>, String> {
        #[derive(serde::Deserialize)]
        struct Table {
            queue: QueueSpec,
        }
        let Table { queue } = toml::from_str(&format!("queue = {queue}")).unwrap();
        let mut parts = vec!["htb".to_owned(), "class".to_owned()];
        waiting(&queue, "1:1", "queue", &mut parts).map_err(|error| error.to_string())?;
        Ok(parts.split_off(2))
    }

    #[test]
    fn classes_a_shaper_and_what_waits_behind_it_are_qdiscs_inside_one_another() {
        let queue = "{ prio = { bands = [{ packets = 1000 }, { tbf = { rate = \"1Mbit\", burst = \"3kB\", queue = \"codel\" } }], \
                     classes = [{ dscp = 46, band = 0 }] } }";
        let others = vec!["1"; 16].join(" ");
        assert_eq!(
            of(queue).unwrap(),
            [
                &format!("parent 1:1 handle 2: prio bands 2 priomap {others}"),
                "filter parent 2: protocol ip prio 1 u32 match ip tos 0xb8 0xfc flowid 2:1",
                "parent 2:1 pfifo limit 1000",
                "parent 2:2 handle 5: tbf rate 1000000bit burst 3000 latency 50000.000us",
                "parent 5:1 codel limit 1000 target 5000.000us interval 100000.000us noecn",
            ]
        );
        let cake = "parent 1:1 cake unlimited diffserv3 triple-isolate rtt 100000us";
        assert_eq!(of("\"cake\"").unwrap(), [cake]);
    }

    #[test]
    fn a_queue_that_the_kernel_is_not_given_is_refused_by_its_key() {
        for (queue, key) in [
            ("\"pie\"", "queue: the kernel is given"),
            ("{ cake = { overhead = 18 } }", "queue.cake"),
            ("{ prio = { bands = [{ packets = 5 }, \"red\"] } }", "queue.prio.bands.1"),
            ("{ bytes = \"9kB\", packets = 5 }", "queue.packets"),
        ] {
            let error = of(queue).unwrap_err();
            assert!(error.contains(key), "{queue}: {error}");
        }
    }
}
