//! The frame gate and what streams are really like: packets that overtake, frames in decoding order, senders that begin anew,
//! RTCP at the same port, cameras in step, key frames that do not begin with a slice.

use std::collections::BTreeMap;

use proptest::prelude::*;
use taut_core::{Bitrate, Bytes, Packet, PacketMeta, Time};
use taut_link::frame_gate::{
    Filter, FrameGate, Gate, GateConfig, Knobs, Policy, Room, Settings, StreamKey, Verdict, VideoPacket,
};
use taut_link::{Bottleneck, Chain, DropTail};
use taut_wire::rtp::{Codec, FrameKind};

use crate::driver::{Calls, at, ms, run};

fn packet(timestamp: u32, sequence: u16, marker: bool) -> VideoPacket {
    let kind = Some(FrameKind::Delta);
    VideoPacket { filter: 0, ssrc: 1, sequence, timestamp, marker, kind, size: 1_000 }
}

fn telling(kind: Option<FrameKind>, packet: VideoPacket) -> VideoPacket {
    VideoPacket { kind, ..packet }
}

/// A gate by deadline whose link stands still.
fn gate(rooms: [u64; 3]) -> Gate {
    let mut gate = Gate::new();
    let rooms = rooms.map(|before| Room { before, with: before + 20_000 });
    gate.set(Settings { by_deadline: true, rate: 1, rooms, ..Settings::default() });
    gate
}

#[test]
fn an_overtaken_packet_has_the_verdict_of_its_frame() {
    let mut gate = gate([500; 3]);
    let mut says = |packet| gate.handle_packet(0, &packet);
    assert_eq!(says(packet(1, 1, false)), Verdict::Pass);
    assert_eq!(says(packet(2, 3, false)), Verdict::Drop);
    assert_eq!(says(packet(1, 2, true)), Verdict::Pass);
    assert_eq!(says(packet(3, 5, true)), Verdict::Drop);
    assert_eq!(says(packet(2, 4, true)), Verdict::Drop);
    // Two and more frames late.
    for frame in 4..=8 {
        assert_eq!(says(packet(frame, frame as u16 + 2, false)), Verdict::Drop);
    }
    assert_eq!(says(packet(1, 2, true)), Verdict::Pass);
    assert_eq!(says(packet(2, 4, true)), Verdict::Drop);
}

/// RFC 6184 section 5.5: packets come in decoding order, so that those of B-frames have older timestamps than the one before.
#[test]
fn a_frame_with_an_older_timestamp_is_judged() {
    let mut gate = gate([500; 3]);
    let mut says = |packet| gate.handle_packet(0, &packet);
    assert_eq!(says(packet(4_500, 1, true)), Verdict::Pass);
    assert_eq!(says(packet(1_500, 2, true)), Verdict::Drop);
    assert_eq!(says(packet(3_000, 3, true)), Verdict::Drop);
    gate.set_level(0, 0);
    let mut says = |packet| gate.handle_packet(0, &packet);
    assert_eq!(says(packet(9_000, 4, false)), Verdict::Pass);
    assert_eq!(says(packet(9_000, 5, true)), Verdict::Pass);
    assert_eq!(says(packet(6_000, 6, true)), Verdict::Drop);
}

/// A sender that begins anew with the same SSRC, a looped recording, or a damaged packet.
#[test]
fn a_stream_whose_timestamp_jumps_back_is_judged_on() {
    for jump in [1_500, 90_000, 1_000_000_000, 1 << 31] {
        let mut gate = gate([500; 3]);
        gate.handle_packet(0, &packet(0x5000_0000, 1, true));
        let base = 0x5000_0000u32.wrapping_sub(jump);
        for frame in 0..100u16 {
            let again = packet(base + 1_500 * u32::from(frame % 20) + u32::from(frame), 2 + frame, true);
            assert_eq!(gate.handle_packet(0, &again), Verdict::Drop, "{jump}: {frame}");
        }
    }
}

/// What comes behind the marker is another frame, though the sender's clock stands still.
#[test]
fn a_stream_with_one_timestamp_is_cut_at_its_markers() {
    let mut gate = gate([500; 3]);
    let verdicts: Vec<Verdict> = (0..4).map(|s| gate.handle_packet(0, &packet(7, s, s % 2 == 1))).collect();
    assert_eq!(verdicts, [Verdict::Pass, Verdict::Pass, Verdict::Drop, Verdict::Drop]);
}

/// RFC 5761 section 4: the second byte of RTCP is 192 to 223.
#[test]
fn rtcp_at_the_port_of_video_is_not_looked_at() {
    for filter in [Filter::port(5004), Filter::port(5004).payload_type(72)] {
        for second in 192..=223 {
            let report = [0x81, second, 0, 6, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0];
            assert_eq!(filter.read(&report, 60), None, "{second}");
        }
    }
    let other = |second| Filter::port(5004).read(&[0x80, second, 0, 6, 0, 0, 0, 7, 0, 0, 0, 0], 60);
    assert!(other(191).is_some() && other(224).is_some());
}

/// An SSRC is unique within an RTP session (RFC 3550 section 8), not among ports.
#[test]
fn one_ssrc_at_two_filters_is_two_streams() {
    let mut gate = Gate::new();
    gate.set(Settings { rate_limit: 1_500, ..Settings::default() });
    let mut says = |filter, timestamp, sequence, marker| {
        gate.handle_packet(0, &VideoPacket { filter, ..packet(timestamp, sequence, marker) })
    };
    assert_eq!(says(0, 1, 1, false), Verdict::Pass);
    assert_eq!(says(1, 1, 70, true), Verdict::Pass);
    assert_eq!(says(1, 2, 71, false), Verdict::Drop);
    // The marker of the other one says nothing of this frame.
    assert_eq!(says(0, 1, 2, true), Verdict::Pass);
    let keys: Vec<StreamKey> = gate.streams().keys().copied().collect();
    assert_eq!(keys, [0, 1].map(|filter| StreamKey { filter, ssrc: 1 }));
}

/// A delimiter, supplemental information or parameters come first (ITU-T H.264 section 7.4.1.2.3).
#[test]
fn a_frame_that_begins_without_a_slice_is_judged_by_its_first_slice() {
    for (kind, expected) in [(FrameKind::Key, Verdict::Pass), (FrameKind::Delta, Verdict::Drop)] {
        let mut gate = gate([0, 0, 5_000]);
        gate.set_level(0, 3_000);
        let first = VideoPacket { size: 44, ..telling(None, packet(1, 1, false)) };
        assert_eq!(gate.handle_packet(0, &first), Verdict::Pass, "it may be a key frame");
        for sequence in 2..6 {
            let next = telling(Some(kind), packet(1, sequence, sequence == 5));
            assert_eq!(gate.handle_packet(0, &next), expected);
        }
        // Where a key frame had no room either, not even this passes.
        gate.set_level(0, 6_000);
        for (sequence, kind) in [(6, None), (7, Some(kind))] {
            let next = telling(kind, packet(2, sequence, false));
            assert_eq!(gate.handle_packet(0, &next), Verdict::Drop);
        }
    }
}

#[test]
fn what_comes_late_fills_the_hole_in_a_key_frame() {
    for late in [false, true] {
        let mut gate = gate([1_500, 4_500, 9_000]);
        let key = |sequence, marker| telling(Some(FrameKind::Key), packet(1, sequence, marker));
        gate.handle_packet(0, &key(1, false));
        gate.handle_packet(0, &key(3, true));
        if late {
            gate.handle_packet(0, &key(2, false));
        }
        gate.set_level(0, 2_000);
        let delta = gate.handle_packet(0, &packet(2, 4, true));
        assert_eq!(delta, if late { Verdict::Pass } else { Verdict::Drop });
    }
}

/// Packets of one stream, in decoding order of the pattern I/PBB, some of them late by up to 20 packets.
fn disordered(sizes: &[usize], late: &[(usize, usize)]) -> Vec<VideoPacket> {
    let mut packets = Vec::new();
    for (frame, count) in sizes.iter().enumerate() {
        // 3 1 2, 6 4 5, …
        let shown = frame as u32 + [2, 0, 0][frame % 3] - [0, 1, 1][frame % 3].min(frame as u32);
        for place in 0..*count {
            let sequence = packets.len() as u16;
            packets.push(packet(90_000 + shown * 1_500, sequence, place + 1 == *count));
        }
    }
    // Each is overtaken by as many as it is late, whoever else is late.
    let mut places: Vec<usize> = (0..packets.len()).collect();
    for (from, by) in late {
        let from = from % packets.len();
        places[from] = from + by;
    }
    let mut order: Vec<usize> = (0..packets.len()).collect();
    order.sort_by_key(|packet| (places[*packet], *packet));
    order.into_iter().map(|packet| packets[packet]).collect()
}

proptest! {
    #[test]
    fn frames_are_never_split_by_reordering(
        by_deadline: bool,
        sizes in prop::collection::vec(3..9usize, 2..60),
        late in prop::collection::vec((0..500usize, 1..=20usize), 0..12),
        knobs in prop::collection::vec((0..9_000u64, 0..9_000u64), 1..40),
    ) {
        let mut gate = Gate::new();
        let mut verdicts: BTreeMap<u32, Vec<Verdict>> = BTreeMap::new();
        for (place, packet) in disordered(&sizes, &late).iter().enumerate() {
            if place % 5 == 0 {
                let (before, rate_limit) = knobs[place / 5 % knobs.len()];
                let rooms = [Room { before, with: before + 9_000 }; 3];
                gate.set(Settings { by_deadline, rate_limit, rate: 1_000_000, rooms });
                gate.reset_count();
            }
            let verdict = gate.handle_packet(place as u64 * 1_000_000, packet);
            verdicts.entry(packet.timestamp).or_default().push(verdict);
        }
        for (timestamp, frame) in verdicts {
            prop_assert!(frame.windows(2).all(|pair| pair[0] == pair[1]), "{timestamp}: {frame:?}");
        }
    }

    /// Without overtaking and with all markers, what the source says of packets is what the gate says of frames.
    #[test]
    fn in_order_the_sources_rule_is_the_sources(
        sizes in prop::collection::vec((1..9usize, 40..1_500u32), 1..80),
        limits in prop::collection::vec(0..20_000u64, 1..20),
        clock_stands: bool,
    ) {
        let (mut gate, mut dropping, mut count) = (Gate::new(), false, 0u64);
        let mut sequence = 0;
        for (frame, (packets, size)) in sizes.iter().enumerate() {
            for place in 0..*packets {
                let limit = limits[usize::from(sequence / 7) % limits.len()];
                gate.set(Settings { rate_limit: limit, ..Settings::default() });
                if sequence % 7 == 0 {
                    gate.reset_count();
                    count = 0;
                }
                let (marker, timestamp) = (place + 1 == *packets, if clock_stands { 7 } else { frame as u32 });
                let packet = VideoPacket { size: *size, ..packet(timestamp, sequence, marker) };
                sequence += 1;
                // Spec steps 2 and 3.
                let (exceeds, was) = (count + u64::from(*size) > limit, dropping);
                if was {
                    dropping = exceeds || !marker;
                } else {
                    dropping = exceeds && marker;
                    count += u64::from(*size);
                }
                let expected = if was { Verdict::Drop } else { Verdict::Pass };
                prop_assert_eq!(gate.handle_packet(0, &packet), expected);
            }
        }
    }
}

/// A camera: 60 frames per second of `size` bytes in four packets, `after` its time, a key frame every two seconds.
struct Camera {
    port: u16,
    size: u64,
    after_us: u64,
}

impl Camera {
    fn packets(&self, seconds: u64) -> Vec<(Time, Packet)> {
        let mut packets = Vec::new();
        for frame in 0..60 * seconds {
            for part in 0..4u8 {
                let sequence = packets.len() as u16;
                let mut payload = vec![0x80, u8::from(part == 3) << 7 | 96];
                payload.extend(sequence.to_be_bytes());
                payload.extend((frame as u32 * 1_500).to_be_bytes());
                let delta = u8::from(frame % 120 != 0);
                payload.extend([0, 0, 0, 7, u8::from(part == 0) << 4, delta]);
                let size = Bytes::new(self.size / 4);
                let meta = PacketMeta { size, destination_port: self.port, ..PacketMeta::default() };
                let due = taut_core::Duration::from_nanos(frame * 16_666_667 + self.after_us * 1_000);
                packets.push((at(due), Packet { meta, payload }));
            }
        }
        packets
    }
}

/// Whole frames of each camera after 5 of 30 s through a gate by deadline and one link of `rate` bits per second.
fn shared(cameras: &[Camera], rate: u64) -> Vec<usize> {
    let mut arrivals: Vec<(Time, Packet)> = cameras.iter().flat_map(|camera| camera.packets(30)).collect();
    arrivals.sort_by_key(|(time, _)| *time);
    for (id, (_, packet)) in (0..).zip(&mut arrivals) {
        packet.meta.id = id;
    }
    let filters = cameras.iter().map(|camera| Filter::port(camera.port)).collect();
    let gate = FrameGate::new(filters, GateConfig::new(Policy::Deadline));
    let queue = DropTail::default().limit_bytes(Bytes::new(rate / 40));
    let mut chain = Chain::new(vec![gate.into(), Bottleneck::new(Bitrate::from_bps(rate), queue).into()]);
    let run = run(&mut chain, arrivals, Calls::Exact);
    let mut frames: BTreeMap<(u16, u32), u32> = BTreeMap::new();
    for (time, packet) in &run.out {
        if *time >= at(ms(5_000)) {
            let timestamp = u32::from_be_bytes(packet.payload[4..8].try_into().unwrap());
            *frames.entry((packet.meta.destination_port, timestamp)).or_default() += 1;
        }
    }
    let whole = |port| frames.iter().filter(|((of, _), packets)| *of == port && **packets == 4).count();
    cameras.iter().map(|camera| whole(camera.port)).collect()
}

#[test]
fn cameras_in_step_share_the_link() {
    let camera = |port, after_us| Camera { port, size: 2_000, after_us };
    // Each needs 960 kbit/s.
    for rate in [700_000, 1_000_000, 1_400_000] {
        for after in [0, 300, 8_000] {
            let whole = shared(&[camera(5004, 0), camera(5006, after)], rate);
            println!("{rate} bit/s, {after} µs apart: {whole:?}");
            let total: usize = whole.iter().sum();
            assert!(whole.iter().all(|frames| frames * 3 >= total), "{rate}, {after}: {whole:?}");
            // And the link is as full as it is with one.
            let most = rate as usize / 8 * 25 / 2_000;
            assert!(total * 10 >= most * 8, "{rate}, {after}: {whole:?} of {most}");
        }
    }
    let three = shared(&[camera(5004, 0), camera(5006, 0), camera(5008, 100)], 1_000_000);
    let total: usize = three.iter().sum();
    assert!(three.iter().all(|frames| frames * 9 >= total * 2), "{three:?}");
}

/// By bytes where the small one comes first, by frames where the large one does: a claim is only made by who is refused.
#[test]
fn of_a_large_camera_and_a_small_one_neither_starves() {
    let camera = |port, size| Camera { port, size, after_us: 0 };
    for cameras in [[camera(5004, 6_000), camera(5006, 2_000)], [camera(5004, 2_000), camera(5006, 6_000)]] {
        let frames = shared(&cameras, 1_000_000);
        println!("{frames:?}");
        let bytes = [0, 1].map(|place| frames[place] * cameras[place].size as usize);
        for of in 0..2 {
            assert!(frames[of] * 5 >= frames[0] + frames[1], "{frames:?}");
            assert!(bytes[of] * 5 >= bytes[0] + bytes[1], "{frames:?}");
        }
    }
}

#[test]
fn a_stream_that_ended_costs_the_others_one_frame() {
    let mut gate = gate([500; 3]);
    let mut says = |ssrc, frame: u32, level| {
        gate.set_level(0, level);
        gate.handle_packet(0, &VideoPacket { ssrc, ..packet(frame * 1_500, frame as u16, true) })
    };
    assert_eq!(says(1, 0, 0), Verdict::Pass);
    assert_eq!(says(2, 0, 1_000), Verdict::Drop);
    // It was the other's turn, which does not come.
    assert_eq!(says(1, 1, 0), Verdict::Drop);
    assert!((2..20).all(|frame| says(1, frame, 0) == Verdict::Pass));
}

/// A key frame does not stand back, and a claim that has no room itself holds up nobody.
#[test]
fn only_deltas_stand_back_and_only_for_what_has_room() {
    let mut gate = gate([500, 500, 500]);
    let stream = |ssrc, packet| VideoPacket { ssrc, ..packet };
    gate.handle_packet(0, &stream(1, packet(0, 0, true)));
    assert_eq!(gate.handle_packet(0, &stream(2, packet(0, 0, true))), Verdict::Drop);
    gate.set_level(0, 0);
    let key = telling(Some(FrameKind::Key), packet(1_500, 1, true));
    assert_eq!(gate.handle_packet(0, &stream(1, key)), Verdict::Pass);
    // Disposable frames of the other one need an empty link.
    let rooms = [0, 500, 500].map(|before| Room { before, with: before + 20_000 });
    gate.set(Settings { by_deadline: true, rate: 1, rooms, ..Settings::default() });
    let disposable = telling(Some(FrameKind::Disposable), packet(1_500, 1, true));
    assert_eq!(gate.handle_packet(0, &stream(2, disposable)), Verdict::Drop);
    gate.set_level(0, 300);
    assert_eq!(gate.handle_packet(0, &stream(1, packet(3_000, 2, true))), Verdict::Pass);
}

/// As a stream of H.264 has it that an encoder wrote with delimiters, through the reader of the gate.
#[test]
fn a_filter_tells_no_kind_of_a_delimiter() {
    let filter = Filter::port(5004).codec(Codec::H264);
    let rtp = |payload: &[u8]| [&[0x80, 96, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1][..], payload].concat();
    let kind = |payload: &[u8]| filter.read(&rtp(payload), 60).unwrap().kind;
    assert_eq!(kind(&[0x09, 0x10]), None);
    assert_eq!(kind(&[0x78, 0, 2, 0x09, 0x10, 0, 4, 0x67, 0x42, 0xc0, 0x1f]), Some(FrameKind::Key));
    assert_eq!(kind(&[]), Some(FrameKind::Delta));
}
