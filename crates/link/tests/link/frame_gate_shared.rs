//! The frame gate before CAKE alone, in which force shares the link with video: what is left for video changes all the time.

use taut_core::{Bitrate, Bytes, Duration, FlowId, Packet, PacketMeta, Rng, Seed, Time};
use taut_link::frame_gate::{Filter, FrameGate, GateConfig, Policy};
use taut_link::{Bottleneck, Cake, CakeConfig, Chain};

use crate::driver::{Calls, at, ms, run};
use crate::frame_gate::outcome;

/// Video at 60 frames/s and 1.6 Mbit/s, and force at up to 850 packets of 75 B a second, which comes and goes.
fn load(seed: u64, seconds: u64) -> Vec<(Time, Packet)> {
    let mut rng: Rng = Seed::new(seed).stream("load");
    let mut packets = Vec::new();
    for frame in 0..60 * seconds {
        let key = frame % 250 == 0;
        let mut left = if key { 16_000 } else { 2_000 + rng.below(2_600) };
        let timestamp = (frame as u32) * 1_500;
        let mut first = true;
        while left > 0 {
            let bytes = left.min(1_184);
            left -= bytes;
            let mut payload = vec![0x80, u8::from(left == 0) << 7 | 96];
            payload.extend([0, 0]);
            payload.extend(timestamp.to_be_bytes());
            payload.extend([0, 0, 0, 7, u8::from(first) << 4, u8::from(!key)]);
            first = false;
            let meta =
                PacketMeta { size: Bytes::new(bytes + 44), destination_port: 5004, ..PacketMeta::default() };
            packets.push((at(Duration::from_nanos(frame * 16_666_667)), Packet { meta, payload }));
        }
    }
    let mut now = 0u64;
    while now < seconds * 1000 {
        let busy = 200 + rng.below(1500);
        let pause = rng.below(600);
        let every = 1 + rng.below(2);
        for sample in (0..busy).step_by(every as usize) {
            let meta = PacketMeta {
                size: Bytes::new(75),
                destination_port: 5005,
                flow: FlowId(1),
                ..PacketMeta::default()
            };
            packets.push((at(ms(now + sample)), Packet { meta, payload: Vec::new() }));
        }
        now += busy + pause;
    }
    packets.sort_by_key(|(at, _)| *at);
    let mut sequence = 0u16;
    for (id, (_, packet)) in (0..).zip(&mut packets) {
        packet.meta.id = id;
        if !packet.payload.is_empty() {
            packet.payload[2..4].copy_from_slice(&sequence.to_be_bytes());
            sequence = sequence.wrapping_add(1);
        }
    }
    packets
}

/// Whole frames a second, and by how much more frames are lost than packets.
fn through_cake(policy: Option<Policy>, seed: u64) -> (f64, f64) {
    const SECONDS: u64 = 60;
    const WARMUP: u64 = 5;
    let arrivals = load(seed, SECONDS);
    let cake = Cake::new(CakeConfig::default(), Seed::new(1).stream("cake"));
    let mut elements = vec![Bottleneck::new(Bitrate::from_bps(1_000_000), cake).into()];
    if let Some(policy) = policy {
        let gate = FrameGate::new(vec![Filter::port(5004)], GateConfig::new(policy));
        elements.insert(0, gate.into());
    }
    let run = run(&mut Chain::new(elements), arrivals.clone(), Calls::Exact);
    let outcome = outcome(&arrivals, &run, at(ms(1_000 * WARMUP)));
    let rate = outcome.frames as f64 / (SECONDS - WARMUP) as f64;
    (rate, outcome.frame_loss - outcome.packet_loss)
}

/// CAKE drops from every frame that follows another too closely, and does not forget soon.
#[test]
fn by_deadline_frames_keep_apart_where_the_queue_drops_though_little_waits() {
    for seed in 1..=3 {
        let [none, aimd3, ours] =
            [None, Some(Policy::Aimd3), Some(Policy::Deadline)].map(|policy| through_cake(policy, seed));
        println!("{seed}: {none:?} {aimd3:?} {ours:?}");
        assert!(ours.0 > 1.3 * aimd3.0 && ours.0 > 2.0 * none.0, "{none:?} {aimd3:?} {ours:?}");
        assert!(ours.1 < 0.08, "{ours:?}");
    }
}
