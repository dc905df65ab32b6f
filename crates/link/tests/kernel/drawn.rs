//! Loads with other sizes, rates, flows and bursts than those that the queues were built against, drawn from a seed.

use taut_core::{Duration, Ecn, Rng, Seed};

use crate::loads::{Arrival, Burst, Load, OnOff, Stream, bursts, on_off, on_ticks, streams};

/// Those of one seed. Seed 0 draws no parameters: its three loads were named by a reader who found differences with them.
pub(crate) fn drawn(seed: u64) -> Vec<(&'static str, Load)> {
    let make: &[(&'static str, Make)] = match seed {
        0 => &[("cbr", known_cbr), ("flows", known_flows), ("bursts", known_bursts)],
        _ => &[("cbr", cbr), ("bursts", some_bursts), ("flows", flows), ("on-off", some_on_off)],
    };
    make.iter().map(|(name, make)| (*name, on_ticks(make(&mut Seed::new(seed).stream(name))))).collect()
}

type Make = fn(&mut Rng) -> Vec<Arrival>;

fn between(rng: &mut Rng, least: u64, most: u64) -> u64 {
    least + rng.below(most - least + 1)
}

fn understands_marks(rng: &mut Rng, one_in: u64) -> Ecn {
    if rng.below(one_in) == 0 { Ecn::Capable0 } else { Ecn::NotCapable }
}

fn known_cbr(rng: &mut Rng) -> Vec<Arrival> {
    streams(rng, [Stream { flow: 0, size: 903, kbps: 14_300, dscp: 0, ecn: Ecn::NotCapable }])
}

fn known_flows(rng: &mut Rng) -> Vec<Arrival> {
    let sizes = [137, 317, 498, 678, 859, 1_039, 1_220, 1_400];
    let classes = [0, 0, 0, 8, 34, 46, 46, 18];
    let stream = |(flow, (size, dscp))| {
        let ecn = if flow % 2 == 1 { Ecn::Capable0 } else { Ecn::NotCapable };
        Stream { flow, size, kbps: 2_000, dscp, ecn }
    };
    streams(rng, (0..).zip(sizes.into_iter().zip(classes)).map(stream))
}

fn known_bursts(rng: &mut Rng) -> Vec<Arrival> {
    let (period, gap) = (Duration::from_millis(90), Duration::from_micros(20));
    bursts(rng, Burst { packets: 120, size: 1_100, period, gap, flows: 3, ecn_of_ten: 2 })
}

fn cbr(rng: &mut Rng) -> Vec<Arrival> {
    let (size, kbps) = (between(rng, 200, 1_500), between(rng, 10_500, 15_500));
    let ecn = understands_marks(rng, 4);
    streams(rng, [Stream { flow: 0, size, kbps, dscp: 0, ecn }])
}

/// Bursts that offer 8 to 16 Mbit/s.
fn some_bursts(rng: &mut Rng) -> Vec<Arrival> {
    let (packets, size, kbps) =
        (between(rng, 40, 160), between(rng, 300, 1_500), between(rng, 8_000, 16_000));
    let period = Duration::from_nanos(packets * size * 8_000_000 / kbps);
    let gap = Duration::from_micros(between(rng, 12, 60));
    let (flows, ecn_of_ten) = (between(rng, 1, 4) as u16, between(rng, 0, 5));
    bursts(rng, Burst { packets, size, period, gap, flows, ecn_of_ten })
}

/// Three to ten flows that offer 11 to 16 Mbit/s between them.
fn flows(rng: &mut Rng) -> Vec<Arrival> {
    let (count, total) = (between(rng, 3, 10) as u16, between(rng, 11_000, 16_000));
    let weights: Vec<u64> = (0..count).map(|_| between(rng, 1, 6)).collect();
    let sum: u64 = weights.iter().sum();
    let drawn: Vec<Stream> = (0..count)
        .zip(weights)
        .map(|(flow, weight)| {
            let size = between(rng, 100, 1_500);
            let dscp = [0, 0, 0, 8, 18, 34, 46, 48][rng.below(8) as usize];
            Stream { flow, size, kbps: total * weight / sum, dscp, ecn: understands_marks(rng, 3) }
        })
        .collect();
    streams(rng, drawn)
}

fn some_on_off(rng: &mut Rng) -> Vec<Arrival> {
    let (size, kbps) = (between(rng, 300, 1_500), between(rng, 15_000, 35_000));
    let on = Duration::from_millis(between(rng, 100, 300));
    let off = Duration::from_millis(between(rng, 100, 300));
    on_off(rng, OnOff { size, kbps, on, off })
}
