//! Whether a bulk transfer over TCP would go round in no time: then it sends without bound before the clock moves at all.
//! A session over TCP has only so much to send at an instant, and may.

use std::collections::{BTreeMap, BTreeSet};

use super::{Checked, fault};
use crate::schema::*;
use crate::ways::{Ways, host};

/// Beyond this a packet may take less than half a nanosecond, which is none.
const FASTEST_BPS: u64 = 1_000_000_000_000;

/// Bulk TCP needs a delay or a rate on its way there or on its way back.
pub(super) fn check(scenario: &Scenario) -> Checked {
    let ways = Ways::of(scenario);
    for (name, cross) in &scenario.cross {
        if let Traffic::Tcp(_) = cross.traffic {
            take_time(&ways, &format!("cross.{name}"), &host(&cross.from), &host(&cross.to))?;
        }
    }
    Ok(())
}

fn take_time(ways: &Ways<'_>, key: &str, a: &str, b: &str) -> Checked {
    if !is_instant(ways, a, b) || !is_instant(ways, b, a) {
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
fn is_instant(ways: &Ways<'_>, from: &str, to: &str) -> bool {
    let mut seen = BTreeSet::from([from]);
    // All at one distance, and whether all links of some way there are instant.
    let mut frontier = BTreeMap::from([(from, true)]);
    while !frontier.is_empty() {
        if let Some(instant) = frontier.get(to) {
            return *instant;
        }
        let mut next: BTreeMap<&str, bool> = BTreeMap::new();
        for (vertex, so_far) in frontier {
            for way in ways.from(vertex).filter(|way| !seen.contains(way.to.as_str())) {
                *next.entry(&way.to).or_default() |= so_far && !way.chain.iter().any(takes_time);
            }
        }
        seen.extend(next.keys());
        frontier = next;
    }
    false
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
