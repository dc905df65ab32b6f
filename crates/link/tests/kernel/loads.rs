//! What goes through the queues, here and in Linux: packets drawn from a seed, the same for both.

use taut_core::{Bytes, Duration, Ecn, FlowId, Packet, PacketMeta, Rng, Seed, Time};

/// When a load begins. The clock counts from the guest's boot, and CoDel rounds it to 1024 ns: both sides must begin at
/// the same instant of it.
pub(crate) const START: Time = Time::from_nanos(4 << 30);
/// Ten seconds of 12 Mbit/s and more, on a link of 10 Mbit/s.
const LENGTH: Duration = Duration::from_secs(10);

/// The guest's clock has steps of so long.
const CLOCK: Duration = Duration::from_nanos(256);

/// One packet, after [`START`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) after: Duration,
    /// Of the IP packet.
    pub(crate) size: u64,
    pub(crate) flow: u16,
    pub(crate) dscp: u8,
    pub(crate) ecn: Ecn,
}

impl Arrival {
    pub(crate) fn packet(&self, id: u64) -> Packet {
        let meta = PacketMeta {
            id,
            sent: START + self.after,
            size: Bytes::new(self.size),
            flow: FlowId(self.flow.into()),
            source_port: 20_000 + self.flow,
            destination_port: 5_002,
            ecn: self.ecn,
            dscp: self.dscp,
            ..PacketMeta::default()
        };
        Packet { meta, payload: Vec::new() }
    }
}

type Make = fn(&mut Rng) -> Vec<Arrival>;

/// By name.
pub(crate) const LOADS: [(&str, Make); 4] =
    [("cbr", cbr), ("bursts", bursts), ("flows", flows), ("on-off", on_off)];

pub(crate) fn load(name: &str) -> Vec<Arrival> {
    let (_, make) = LOADS.iter().find(|(known, _)| *known == name).expect("a load of this name");
    let mut load = make(&mut Seed::new(5).stream(name));
    for arrival in &mut load {
        arrival.after = CLOCK * (arrival.after / CLOCK);
    }
    load
}

/// One flow of 12 Mbit/s, packets of 1228 bytes.
fn cbr(rng: &mut Rng) -> Vec<Arrival> {
    steady(rng, Stream { flow: 0, size: 1_228, kbps: 12_000, dscp: 0, ecn: Ecn::NotCapable }).collect()
}

/// A hundred packets of 1500 bytes every 100 ms, 20 µs from one to the next, the last two of ten bursts with marks.
fn bursts(rng: &mut Rng) -> Vec<Arrival> {
    let burst = |burst: u64, rng: &mut Rng| {
        let begin = Duration::from_millis(100 * burst + rng.below(40));
        let ecn = if burst % 10 >= 8 { Ecn::Capable0 } else { Ecn::NotCapable };
        let one = |i: u64, rng: &mut Rng| Arrival {
            after: begin + Duration::from_micros(20 * i) + jitter(rng),
            size: 1_500,
            flow: (burst % 2) as u16,
            dscp: 0,
            ecn,
        };
        (0..100).map(|i| one(i, rng)).collect::<Vec<_>>()
    };
    (0..100).flat_map(|i| burst(i, rng)).collect()
}

/// Eight flows of unequal rates and sizes: bulk with and without marks, video, and samples of 100 bytes at 1 kHz.
fn flows(rng: &mut Rng) -> Vec<Arrival> {
    let bulk = [(1_500, 5_000), (1_000, 2_500), (1_500, 2_000), (576, 1_000)];
    let bulk = bulk.into_iter().zip(0..).map(|((size, kbps), flow)| {
        let ecn = if flow % 2 == 1 { Ecn::Capable0 } else { Ecn::NotCapable };
        Stream { flow, size, kbps, dscp: if flow == 3 { 8 } else { 0 }, ecn }
    });
    let video = Stream { flow: 4, size: 1_200, kbps: 1_500, dscp: 34, ecn: Ecn::NotCapable };
    let samples = (5..8).map(|flow| Stream { flow, size: 100, kbps: 800, dscp: 46, ecn: Ecn::NotCapable });
    let streams = bulk.chain([video]).chain(samples);
    let mut all: Vec<Arrival> = streams.flat_map(|stream| steady(rng, stream).collect::<Vec<_>>()).collect();
    all.sort_by_key(|arrival| arrival.after);
    all
}

/// 25 Mbit/s of 1228-byte packets, on and off for 200 ms each in the mean.
fn on_off(rng: &mut Rng) -> Vec<Arrival> {
    let (mut all, mut at) = (Vec::new(), Duration::ZERO);
    while at < LENGTH {
        let end = at + rng.exponential_duration(Duration::from_millis(200));
        while at < end {
            all.push(Arrival {
                after: at + jitter(rng),
                size: 1_228,
                flow: 0,
                dscp: 0,
                ecn: Ecn::NotCapable,
            });
            at += Duration::from_nanos(1_228 * 8_000 / 25);
        }
        at += rng.exponential_duration(Duration::from_millis(200));
    }
    all
}

struct Stream {
    flow: u16,
    size: u64,
    kbps: u64,
    dscp: u8,
    ecn: Ecn,
}

fn steady(rng: &mut Rng, stream: Stream) -> impl Iterator<Item = Arrival> {
    let Stream { flow, size, kbps, dscp, ecn } = stream;
    let period = Duration::from_nanos(size * 8_000_000 / kbps);
    let begin = Duration::from_nanos(rng.below(period.as_nanos()));
    let count = LENGTH / period;
    (0..count).map(move |i| Arrival { after: begin + period * i + jitter(rng), size, flow, dscp, ecn })
}

/// Departures fall on multiples of 800 ns after a packet that found the link idle. Arrivals must not, because which of
/// two things at one instant comes first is nobody's promise.
fn jitter(rng: &mut Rng) -> Duration {
    Duration::from_nanos(rng.below(10_000))
}
