//! The frame gate, by itself and before a queue.

use std::collections::BTreeMap;

use proptest::prelude::*;
use taut_core::{Bitrate, Bytes, DropCause, Duration, Packet, PacketMeta, Time};
use taut_link::frame_gate::{
    Controller, Filter, FrameGate, Gate, GateConfig, Knobs, Policy, QueueReading, Room, Settings, StreamKey,
    Verdict, VideoPacket,
};
use taut_link::{Bottleneck, Chain, DropTail};
use taut_wire::rtp::{Codec, FrameKind};

use crate::driver::{Calls, Run, at, ms, rng, run};

/// What may happen between two packets.
#[derive(Clone, Debug)]
enum Turn {
    Frame { stream: u32, sizes: Vec<u32>, kind: FrameKind },
    Reset,
    Set(Settings),
    Backlog(u64),
}

fn turn(by_deadline: bool) -> impl Strategy<Value = Turn> {
    let kind = prop::sample::select(vec![FrameKind::Disposable, FrameKind::Delta, FrameKind::Key]);
    let frame = (0..3u32, prop::collection::vec(40..1_500u32, 1..12), kind)
        .prop_map(|(stream, sizes, kind)| Turn::Frame { stream, sizes, kind });
    let room = || (0..9_000u64, 0..30_000u64).prop_map(|(before, with)| Room { before, with });
    let set = (0..20_000u64, 0..1_000_000u64, [room(), room(), room()]).prop_map(
        move |(rate_limit, rate, rooms)| Turn::Set(Settings { rate_limit, by_deadline, rate, rooms }),
    );
    prop_oneof![12 => frame, 2 => Just(Turn::Reset), 2 => set, 1 => (0..50_000u64).prop_map(Turn::Backlog)]
}

/// Gives every frame's verdicts. Packets of the streams come in turn, so that frames are interleaved; what turns the
/// knobs comes in between.
fn verdicts(turns: Vec<Turn>, gate: &mut Gate) -> Vec<Vec<Verdict>> {
    let mut waiting: BTreeMap<u32, Vec<(usize, VideoPacket)>> = BTreeMap::new();
    let mut frames = Vec::new();
    let mut knobs = Vec::new();
    for (index, turn) in (1u32..).zip(turns) {
        let Turn::Frame { stream, sizes, kind } = turn else {
            knobs.push(turn);
            continue;
        };
        let packets = waiting.entry(stream).or_default();
        for (place, size) in (1..).zip(&sizes) {
            packets.push((
                frames.len(),
                VideoPacket {
                    filter: 0,
                    ssrc: stream,
                    sequence: packets.len() as u16,
                    timestamp: index * 1_500,
                    marker: place == sizes.len(),
                    kind: Some(if place == 1 { kind } else { FrameKind::Delta }),
                    size: *size,
                },
            ));
        }
        frames.push(Vec::new());
    }
    let longest = waiting.values().map(Vec::len).max().unwrap_or(0);
    for place in 0..longest {
        for packets in waiting.values() {
            if let Some((frame, packet)) = packets.get(place) {
                frames[*frame].push(gate.handle_packet(place as u64 * 3_000_000, packet));
            }
        }
        match if place % 5 == 4 { knobs.pop() } else { None } {
            Some(Turn::Reset) => gate.reset_count(),
            Some(Turn::Set(settings)) => gate.set(settings),
            Some(Turn::Backlog(bytes)) => gate.set_level(place as u64 * 3_000_000, bytes),
            Some(Turn::Frame { .. }) | None => {}
        }
    }
    frames
}

proptest! {
    #[test]
    fn all_packets_of_a_frame_have_one_verdict(
        (by_deadline, turns) in any::<bool>().prop_flat_map(|by_deadline| {
            (Just(by_deadline), prop::collection::vec(turn(by_deadline), 0..120))
        }),
    ) {
        let mut gate = Gate::new();
        gate.set(Settings { by_deadline, ..Settings::default() });
        for frame in verdicts(turns, &mut gate) {
            prop_assert!(frame.windows(2).all(|pair| pair[0] == pair[1]), "{frame:?}");
        }
    }

    /// Steps 2 and 3 of the source: no more than the limit passes in an interval, but for the frame that was begun.
    #[test]
    fn no_more_passes_than_the_limit_and_the_frame_that_was_begun(
        sizes in prop::collection::vec(prop::collection::vec(40..1_500u32, 1..12), 1..60),
        limit in 0..60_000u64,
    ) {
        let mut gate = Gate::new();
        gate.set(Settings { rate_limit: limit, ..Settings::default() });
        let frames: Vec<Turn> = sizes
            .iter()
            .map(|sizes| Turn::Frame { stream: 1, sizes: sizes.clone(), kind: FrameKind::Delta })
            .collect();
        let passed = verdicts(frames, &mut gate);
        let total: u32 = sizes.iter().zip(&passed).filter(|(_, v)| v[0] == Verdict::Pass).map(|(s, _)| s.iter().sum::<u32>()).sum();
        let largest = sizes.iter().map(|sizes| sizes.iter().sum::<u32>()).max().unwrap_or(0);
        prop_assert!(u64::from(total) <= limit + u64::from(largest), "{total} of {limit}");
        prop_assert_eq!(gate.byte_count(), u64::from(total));
    }
}

/// The tables of the source: k after an interval with `drops` new drops, from 1.
#[test]
fn k_moves_by_the_tables_of_the_source() {
    let after = |policy, drops: &[u64]| {
        let mut controller = Controller::new(GateConfig::new(policy), Time::ZERO);
        let (mut gate, mut total) = (Gate::new(), 0);
        controller.handle_timeout(Time::ZERO, QueueReading::default, &mut gate);
        for (index, new) in (1..).zip(drops) {
            total += new;
            let reading = QueueReading { drops: total, sent: index * 12_500, backlog: 9_000 };
            controller.handle_timeout(at(ms(100 * index)), || reading, &mut gate);
        }
        (controller.k_ppm(), controller.settings().rate_limit)
    };
    // B_max is 12 500 bytes in 100 ms, and the reset interval is as long.
    assert_eq!(after(Policy::Step, &[10]), (990_000, 12_375));
    let dyna = [Policy::Dyna1, Policy::Dyna2, Policy::Dyna3, Policy::Dyna4, Policy::Dyna5];
    assert_eq!(dyna.map(|policy| after(policy, &[10]).0), [990_000, 980_000, 970_000, 960_000, 950_000]);
    let aimd = [Policy::Aimd1, Policy::Aimd2, Policy::Aimd3, Policy::Aimd4, Policy::Aimd5];
    assert_eq!(aimd.map(|policy| after(policy, &[10]).0), [900_000, 800_000, 700_000, 600_000, 500_000]);
    assert_eq!(after(Policy::Aimd3, &[1, 0, 0, 7]).0, 504_000);
    assert_eq!(after(Policy::Aimd3, &[1; 60]).0, 0);
    assert_eq!(
        after(Policy::Aimd1, &[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        (1_050_000, 13_125)
    );
    assert_eq!(after(Policy::Aimd3, &[0; 40]), (1_000_000, u64::MAX), "no drops, no limit");
}

#[test]
fn the_largest_bandwidth_is_forgotten_after_the_duration() {
    let config = GateConfig { bandwidth_over: Duration::from_secs(1), ..GateConfig::new(Policy::Step) };
    let mut controller = Controller::new(config, Time::ZERO);
    let mut gate = Gate::new();
    let mut sent = 0;
    for tick in 0..=20 {
        sent += if tick <= 5 { 50_000 } else { 10_000 };
        let reading = QueueReading { drops: 1, sent, backlog: 0 };
        controller.handle_timeout(at(ms(100 * tick)), || reading, &mut gate);
        let expected = if tick < 15 { 50_000 } else { 10_000 } * 80;
        if tick > 0 {
            assert_eq!(controller.bandwidth(), Bitrate::from_bps(expected), "{tick}");
        }
    }
}

/// The source's Algorithm 2.
#[test]
fn a_bandwidth_that_is_found_once_stays_and_what_is_dropped_up_to_the_threshold_does_not_count() {
    let config = GateConfig {
        bandwidth_over: Duration::from_secs(1),
        bandwidth_once: true,
        loss_threshold: 3,
        ..GateConfig::new(Policy::Aimd5)
    };
    let mut controller = Controller::new(config, Time::ZERO);
    let (mut gate, mut sent, mut drops) = (Gate::new(), 0, 0);
    let mut tick = |number: u64, bytes: u64, dropped: u64| {
        (sent, drops) = (sent + bytes, drops + dropped);
        let reading = QueueReading { drops, sent, backlog: 0 };
        controller.handle_timeout(at(ms(100 * number)), || reading, &mut gate);
        (controller.settings().rate_limit, controller.k_ppm())
    };
    // In the first second no more is dropped than may be: it says nothing about the channel.
    for number in 0..=10 {
        assert_eq!(tick(number, 90_000, 3), (u64::MAX, 1_000_000), "{number}");
    }
    for number in 11..20 {
        assert_eq!(tick(number, 50_000, 4), (u64::MAX, 1_000_000), "{number}");
    }
    assert_eq!(tick(20, 40_000, 0), (50_000, 1_000_000));
    // From then on it stays, though more or less leaves.
    assert_eq!(tick(21, 80_000, 4), (25_000, 500_000));
    assert_eq!(tick(22, 10_000, 3), (25_500, 510_000));
}

/// Video at 60 frames per second and about 1.5 Mbit/s, every 120th a key frame, and force at 500 packets per second.
pub(crate) fn session(seconds: u64) -> Vec<(Time, Packet)> {
    let mut rng = rng("frames");
    let mut packets = Vec::new();
    for frame in 0..60 * seconds {
        let key = frame % 120 == 0;
        let mut left = if key { 16_000 } else { 1_500 + rng.below(3_000) };
        let timestamp = (frame as u32) * 1_500;
        let mut first = true;
        while left > 0 {
            let bytes = left.min(1_100);
            left -= bytes;
            let mut payload = vec![0x80, u8::from(left == 0) << 7 | 96];
            payload.extend((packets.len() as u16).to_be_bytes());
            payload.extend(timestamp.to_be_bytes());
            payload.extend([0, 0, 0, 7, u8::from(first) << 4, u8::from(!key)]);
            first = false;
            let meta =
                PacketMeta { size: Bytes::new(bytes + 42), destination_port: 5004, ..PacketMeta::default() };
            packets.push((at(Duration::from_nanos(frame * 16_666_667)), Packet { meta, payload }));
        }
    }
    for sample in 0..500 * seconds {
        let meta =
            PacketMeta { size: Bytes::new(100), destination_port: 5005, dscp: 46, ..PacketMeta::default() };
        packets.push((at(ms(2 * sample)), Packet { meta, payload: Vec::new() }));
    }
    packets.sort_by_key(|(at, _)| *at);
    // Sequence numbers count the packets of the stream.
    let mut sequence = 0u16;
    for (id, (_, packet)) in (0..).zip(&mut packets) {
        packet.meta.id = id;
        if !packet.payload.is_empty() {
            packet.payload[2..4].copy_from_slice(&sequence.to_be_bytes());
            sequence += 1;
        }
    }
    packets
}

#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) packet_loss: f64,
    pub(crate) frame_loss: f64,
    pub(crate) frames: u64,
    /// Of these, since the last whole key frame no key frame was lost.
    decodable: u64,
    keys_lost: u64,
    /// Of frames that are whole.
    latency_max: Duration,
    latency_mean: Duration,
    haptic_lost: usize,
    queue_drops: usize,
}

pub(crate) fn outcome(arrivals: &[(Time, Packet)], run: &Run, from: Time) -> Outcome {
    let timestamp = |packet: &Packet| u32::from_be_bytes(packet.payload[4..8].try_into().unwrap());
    let video = |packet: &Packet| !packet.payload.is_empty();
    let mut frames: BTreeMap<u32, (u64, u64, bool, Time, Time)> = BTreeMap::new();
    for (time, packet) in arrivals.iter().filter(|(time, packet)| video(packet) && *time >= from) {
        let frame = frames.entry(timestamp(packet)).or_insert((0, 0, false, *time, Time::ZERO));
        frame.0 += 1;
        frame.2 |= packet.payload[12..14] == [0x10, 0];
    }
    for (time, packet) in run.out.iter().filter(|(_, packet)| video(packet)) {
        if let Some(frame) = frames.get_mut(&timestamp(packet)) {
            frame.1 += 1;
            frame.4 = *time;
        }
    }
    let sent: u64 = frames.values().map(|frame| frame.0).sum();
    let got: u64 = frames.values().map(|frame| frame.1).sum();
    let whole: Vec<_> = frames.values().filter(|frame| frame.0 == frame.1).collect();
    let latencies = whole.iter().map(|frame| frame.4.saturating_since(frame.3));
    let total = latencies.clone().fold(Duration::ZERO, |sum, latency| sum + latency);
    let haptic = |packets: &[(Time, Packet)]| packets.iter().filter(|(_, packet)| !video(packet)).count();
    let mut key_whole = false;
    let decodable = frames.values().filter(|frame| {
        let is_whole = frame.0 == frame.1;
        key_whole = if frame.2 { is_whole } else { key_whole };
        is_whole && key_whole
    });
    let decodable = decodable.count() as u64;
    Outcome {
        packet_loss: 1.0 - got as f64 / sent as f64,
        frame_loss: 1.0 - whole.len() as f64 / frames.len() as f64,
        frames: whole.len() as u64,
        decodable,
        keys_lost: frames.values().filter(|frame| frame.2 && frame.0 != frame.1).count() as u64,
        latency_max: latencies.max().unwrap_or_default(),
        latency_mean: Duration::from_nanos(total.as_nanos() / whole.len().max(1) as u64),
        haptic_lost: haptic(arrivals) - haptic(&run.out),
        queue_drops: run.drops().iter().filter(|(_, cause)| *cause != DropCause::Gated).count(),
    }
}

fn through(policy: Option<Policy>, rate: u64, arrivals: &[(Time, Packet)]) -> Outcome {
    // Room for a third of a second, and 400 kbit/s for force.
    let queue = DropTail::default().limit_bytes(Bytes::new(rate / 24));
    let mut elements = vec![Bottleneck::new(Bitrate::from_bps(rate), queue).into()];
    if let Some(policy) = policy {
        elements.insert(0, FrameGate::new(vec![Filter::port(5004)], GateConfig::new(policy)).into());
    }
    let run = run(&mut Chain::new(elements), arrivals.to_vec(), Calls::Exact);
    outcome(arrivals, &run, at(Duration::from_secs(5)))
}

#[test]
fn the_gate_makes_frame_loss_equal_to_packet_loss() {
    let arrivals = session(30);
    for rate in [1_200_000, 1_600_000] {
        let without = through(None, rate, &arrivals);
        println!("{rate} without: {without:?}");
        assert!(without.frame_loss > without.packet_loss * 1.5, "{without:?}");
        for policy in Policy::ALL {
            let with = through(Some(policy), rate, &arrivals);
            println!("{rate} {policy}: {with:?}");
            let apart = (with.frame_loss - with.packet_loss).abs();
            // The laxest policies let many drops happen before they act.
            let strict = policy.name().starts_with("aimd") || policy == Policy::Deadline;
            let most = if strict { 0.02 } else { (without.frame_loss - without.packet_loss) / 2.0 };
            assert!(apart < most, "{rate} {policy}: {with:?}");
            assert!(with.frames > without.frames && with.latency_mean < without.latency_mean);
        }
        let own = through(Some(Policy::Deadline), rate, &arrivals);
        let best = through(Some(Policy::Aimd3), rate, &arrivals);
        // As many frames but for the room that key frames take, all of them of use, and no queue before them.
        assert!(own.frames * 10 > best.frames * 9 && own.decodable > 3 * best.decodable, "{own:?} {best:?}");
        assert!(own.latency_mean < ms(50) && own.latency_mean < best.latency_mean, "{own:?} {best:?}");
        assert_eq!((own.keys_lost, own.queue_drops, own.haptic_lost), (0, 0, 0), "{own:?}");
    }
}

#[test]
fn a_gate_behind_a_gate_leaves_it_its_reading_of_the_queue() {
    let arrivals = session(10);
    let after = |ports: &[u16]| {
        let gate = |port| FrameGate::new(vec![Filter::port(port)], GateConfig::new(Policy::Aimd3)).into();
        let queue = DropTail::default().limit_bytes(Bytes::new(50_000));
        let server = Bottleneck::new(Bitrate::from_bps(1_200_000), queue).into();
        let mut link = Chain::new(ports.iter().copied().map(gate).chain([server]).collect());
        outcome(&arrivals, &run(&mut link, arrivals.clone(), Calls::Exact), Time::ZERO).frames
    };
    assert_eq!(after(&[5004, 5006]), after(&[5004]));
}

#[test]
fn by_deadline_no_frame_is_late() {
    let arrivals = session(20);
    for rate in [1_200_000, 1_600_000, 2_500_000] {
        let own = through(Some(Policy::Deadline), rate, &arrivals);
        assert!(own.latency_max <= ms(400), "{rate}: {own:?}");
    }
}

#[test]
fn a_delta_whose_key_is_lost_goes_first() {
    let packet = |timestamp, sequence, marker, kind| VideoPacket {
        filter: 0,
        ssrc: 1,
        sequence,
        timestamp,
        marker,
        kind: Some(kind),
        size: 1_000,
    };
    for hole in [false, true] {
        let mut gate = Gate::new();
        let room = |bytes| Room { before: bytes, with: bytes };
        let rooms = [room(1_500), room(3_000), room(9_000)];
        gate.set(Settings { by_deadline: true, rate: 1, rooms, ..Settings::default() });
        assert_eq!(gate.handle_packet(0, &packet(1, 1, false, FrameKind::Key)), Verdict::Pass);
        let next = if hole { 3 } else { 2 };
        assert_eq!(gate.handle_packet(0, &packet(1, next, true, FrameKind::Delta)), Verdict::Pass);
        gate.set_level(0, 1_000);
        let delta = gate.handle_packet(0, &packet(2, next + 1, true, FrameKind::Delta));
        assert_eq!(delta, if hole { Verdict::Drop } else { Verdict::Pass });
    }
}

#[test]
fn more_streams_than_there_is_room_for_pass_and_are_counted() {
    let mut gate = Gate::new();
    gate.set(Settings { rate_limit: 0, ..Settings::default() });
    let packet =
        |ssrc, timestamp| VideoPacket { ssrc, timestamp, marker: true, size: 100, ..VideoPacket::default() };
    for ssrc in 0..Gate::MAX_STREAMS as u32 {
        gate.handle_packet(0, &packet(ssrc, 0));
        assert_eq!(gate.handle_packet(0, &packet(ssrc, 1)), Verdict::Drop);
    }
    assert_eq!(gate.handle_packet(0, &packet(1_000, 0)), Verdict::Pass);
    assert_eq!(gate.untracked(), 1);
    gate.forget(StreamKey { filter: 0, ssrc: 7 });
    gate.handle_packet(0, &packet(1_000, 0));
    assert_eq!(gate.handle_packet(0, &packet(1_000, 1)), Verdict::Drop);
}

#[test]
fn only_video_is_looked_at() {
    let filter = Filter::port(5004).payload_type(97).codec(Codec::Vp8);
    let rtp = [0x80, 0xe1, 0, 7, 0, 0, 0, 9, 0, 0, 0, 5, 0x10, 0];
    let video = filter.read(&rtp, 42).unwrap();
    let expected = VideoPacket {
        filter: 0,
        ssrc: 5,
        sequence: 7,
        timestamp: 9,
        marker: true,
        kind: Some(FrameKind::Key),
        size: 42,
    };
    assert_eq!(video, expected);
    assert_eq!(filter.payload_type(96).read(&rtp, 42), None);
    assert_eq!(filter.read(&rtp[..11], 42), None);
    assert_eq!(filter.read(&[0; 20], 42), None, "version 0");
    let meta = PacketMeta { destination_port: 5005, ..PacketMeta::default() };
    assert_eq!(filter.video(&Packet { meta, payload: rtp.to_vec() }), None);
}
