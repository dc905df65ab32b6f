//! What goes through the queues, here and in Linux: packets drawn from a seed, the same for both.

use taut_core::{Bytes, Duration, Ecn, FlowId, Packet, PacketMeta, Rng, Seed, Time};

/// When a load begins. The clock counts from the guest's boot, and CoDel rounds it to 1024 ns: both sides must begin at
/// the same instant of it.
pub(crate) const START: Time = Time::from_nanos(4 << 30);
/// Ten seconds of 12 Mbit/s and more, on a link of 10 Mbit/s.
const LENGTH: Duration = Duration::from_secs(10);

/// The guest's clock has steps of so long.
pub(crate) const CLOCK: Duration = Duration::from_nanos(256);

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

/// In the order of time.
pub(crate) type Load = Vec<Arrival>;
type Make = fn(&mut Rng) -> Load;

/// By name.
pub(crate) const LOADS: [(&str, Make); 4] =
    [("cbr", cbr), ("bursts", known_bursts), ("flows", flows), ("on-off", known_on_off)];

pub(crate) fn load(name: &str) -> Load {
    let (_, make) = LOADS.iter().find(|(known, _)| *known == name).expect("a load of this name");
    on_ticks(make(&mut Seed::new(5).stream(name)))
}

/// At times that the guest's clock can show.
pub(crate) fn on_ticks(mut load: Load) -> Load {
    for arrival in &mut load {
        arrival.after = CLOCK * (arrival.after / CLOCK);
    }
    load
}

/// One flow of 12 Mbit/s, packets of 1228 bytes.
fn cbr(rng: &mut Rng) -> Load {
    streams(rng, [Stream { flow: 0, size: 1_228, kbps: 12_000, dscp: 0, ecn: Ecn::NotCapable }])
}

/// A hundred packets of 1500 bytes every 100 ms, 20 µs from one to the next, the last two of ten bursts with marks.
fn known_bursts(rng: &mut Rng) -> Load {
    let (period, gap) = (Duration::from_millis(100), Duration::from_micros(20));
    bursts(rng, Burst { packets: 100, size: 1_500, period, gap, flows: 2, ecn_of_ten: 2 })
}

/// Eight flows of unequal rates and sizes: bulk with and without marks, video, and samples of 100 bytes at 1 kHz.
fn flows(rng: &mut Rng) -> Load {
    let bulk = [(1_500, 5_000), (1_000, 2_500), (1_500, 2_000), (576, 1_000)];
    let bulk = bulk.into_iter().zip(0..).map(|((size, kbps), flow)| {
        let ecn = if flow % 2 == 1 { Ecn::Capable0 } else { Ecn::NotCapable };
        Stream { flow, size, kbps, dscp: if flow == 3 { 8 } else { 0 }, ecn }
    });
    let video = Stream { flow: 4, size: 1_200, kbps: 1_500, dscp: 34, ecn: Ecn::NotCapable };
    let samples = (5..8).map(|flow| Stream { flow, size: 100, kbps: 800, dscp: 46, ecn: Ecn::NotCapable });
    streams(rng, bulk.chain([video]).chain(samples))
}

/// 25 Mbit/s of 1228-byte packets, on and off for 200 ms each in the mean.
fn known_on_off(rng: &mut Rng) -> Load {
    let mean = Duration::from_millis(200);
    on_off(rng, OnOff { size: 1_228, kbps: 25_000, on: mean, off: mean })
}

pub(crate) struct Burst {
    pub(crate) packets: u64,
    pub(crate) size: u64,
    /// From one burst to the next; four tenths of it are drawn.
    pub(crate) period: Duration,
    /// From one packet to the next.
    pub(crate) gap: Duration,
    /// Whose turn it is by bursts.
    pub(crate) flows: u16,
    /// So many of ten bursts, the last ones, understand marks.
    pub(crate) ecn_of_ten: u64,
}

pub(crate) fn bursts(rng: &mut Rng, bursts: Burst) -> Load {
    let Burst { packets, size, period, gap, flows, ecn_of_ten } = bursts;
    let millis = period.as_nanos() / 1_000_000;
    let burst = |burst: u64, rng: &mut Rng| {
        let begin = period * burst + Duration::from_millis(rng.below((millis * 2 / 5).max(1)));
        let ecn = if burst % 10 + ecn_of_ten >= 10 { Ecn::Capable0 } else { Ecn::NotCapable };
        let flow = (burst % u64::from(flows)) as u16;
        let one = |i: u64, rng: &mut Rng| Arrival {
            after: begin + gap * i + jitter(rng),
            size,
            flow,
            dscp: 0,
            ecn,
        };
        (0..packets).map(|i| one(i, rng)).collect::<Vec<_>>()
    };
    (0..LENGTH / period).flat_map(|i| burst(i, rng)).collect()
}

/// One flow that sends at a rate, and is silent, each for a time that is drawn from an exponential distribution.
pub(crate) struct OnOff {
    pub(crate) size: u64,
    pub(crate) kbps: u64,
    pub(crate) on: Duration,
    pub(crate) off: Duration,
}

pub(crate) fn on_off(rng: &mut Rng, source: OnOff) -> Load {
    let OnOff { size, kbps, on, off } = source;
    let (mut all, mut at) = (Vec::new(), Duration::ZERO);
    while at < LENGTH {
        let end = at + rng.exponential_duration(on);
        while at < end {
            let after = at + jitter(rng);
            all.push(Arrival { after, size, flow: 0, dscp: 0, ecn: Ecn::NotCapable });
            at += Duration::from_nanos(size * 8_000_000 / kbps);
        }
        at += rng.exponential_duration(off);
    }
    all
}

/// One packet after the other, at a rate.
pub(crate) struct Stream {
    pub(crate) flow: u16,
    pub(crate) size: u64,
    pub(crate) kbps: u64,
    pub(crate) dscp: u8,
    pub(crate) ecn: Ecn,
}

pub(crate) fn streams(rng: &mut Rng, streams: impl IntoIterator<Item = Stream>) -> Load {
    let mut all: Load =
        streams.into_iter().flat_map(|stream| steady(rng, stream).collect::<Load>()).collect();
    all.sort_by_key(|arrival| arrival.after);
    all
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
