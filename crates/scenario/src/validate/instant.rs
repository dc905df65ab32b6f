//! Whether a bulk transfer over TCP would go round in no time: then it sends without bound before the clock moves at all.
//! A session over TCP has only so much to send at an instant, and may.

use std::collections::{BTreeMap, BTreeSet};

use super::{Checked, fault};
use crate::schema::*;

/// Beyond this a packet may take less than half a nanosecond, which is none.
const FASTEST_BPS: u64 = 1_000_000_000_000;

/// Bulk TCP needs a delay or a rate on its way there or on its way back.
pub(super) fn check(scenario: &Scenario) -> Checked {
    let wires = Wires::of(scenario);
    for (name, cross) in &scenario.cross {
        if let Traffic::Tcp(_) = cross.traffic {
            // All hosts of a LAN are connected alike; those of two LANs are paired.
            let host =
                |end: &str| end.strip_suffix("/*").map_or_else(|| end.to_owned(), |lan| format!("{lan}/1"));
            wires.take_time(&format!("cross.{name}"), &host(&cross.from), &host(&cross.to))?;
        }
    }
    Ok(())
}

/// From each vertex, those one link away, and whether that link takes no time.
struct Wires(BTreeMap<String, Vec<(String, bool)>>);

impl Wires {
    fn of(scenario: &Scenario) -> Self {
        let mut wires: BTreeMap<String, Vec<(String, bool)>> = BTreeMap::new();
        let mut wire = |from: &str, to: &str, chain: &[ElementSpec]| {
            wires.entry(from.to_owned()).or_default().push((to.to_owned(), !chain.iter().any(takes_time)));
        };
        for LinkSpec { between, from, to, chain } in scenario.links.values() {
            if let Some([a, b]) = between {
                wire(a, b, chain);
                wire(b, a, chain);
            }
            if let (Some(from), Some(to)) = (from, to) {
                wire(from, to, chain);
            }
        }
        for (name, lan) in &scenario.lans {
            for host in (1..=lan.hosts).map(|host| format!("{name}/{host}")) {
                wire(name, &host, &lan.chain);
                wire(&host, name, &lan.chain);
            }
        }
        Self(wires)
    }

    fn take_time(&self, key: &str, a: &str, b: &str) -> Checked {
        if !self.is_instant(a, b) || !self.is_instant(b, a) {
            return Ok(());
        }
        fault(
            key,
            format!(
                "TCP between `{a}` and `{b}` would send without end at one instant: no link between them has a delay or a \
                 rate; add one to a chain, such as {{ delay = \"1ms\" }} or {{ server = {{ rate = \"100Mbit\" }} }}"
            ),
        )
    }

    /// Whether packets may take no time: they go over fewest links, and so do those that are looked at.
    fn is_instant(&self, from: &str, to: &str) -> bool {
        let mut seen = BTreeSet::from([from]);
        // All at one distance, and whether all links of some way there are instant.
        let mut frontier = BTreeMap::from([(from, true)]);
        while !frontier.is_empty() {
            if let Some(instant) = frontier.get(to) {
                return *instant;
            }
            let mut next: BTreeMap<&str, bool> = BTreeMap::new();
            for (vertex, so_far) in frontier {
                for (onward, instant) in self.0.get(vertex).into_iter().flatten() {
                    if !seen.contains(onward.as_str()) {
                        *next.entry(onward).or_default() |= so_far && *instant;
                    }
                }
            }
            seen.extend(next.keys());
            frontier = next;
        }
        false
    }
}

/// Of what a table or a trace file holds nothing is known here: it is taken for something.
fn takes_time(element: &ElementSpec) -> bool {
    match element {
        ElementSpec::Server(server) => server.rate.is_none_or(|rate| rate.as_bps() <= FASTEST_BPS),
        ElementSpec::Delay(delay) => !delay.is_zero(),
        ElementSpec::Jitter(jitter) => !jitter.mean.is_zero() || !jitter.spread.is_zero(),
        ElementSpec::DelayTable(_) | ElementSpec::JitterTable(_) | ElementSpec::Recorded(_) => true,
        ElementSpec::Loss(_)
        | ElementSpec::LossTable(_)
        | ElementSpec::Duplicate(_)
        | ElementSpec::Corrupt(_)
        | ElementSpec::Cut(_)
        | ElementSpec::Gate(_) => false,
    }
}
