use proptest::prelude::*;
use taut_core::{Duration, Rng, Seed, Time};
use taut_wire::rtp::{Codec, FrameKind, View};

use super::*;

fn bytes(len: usize, rng: &mut Rng) -> Vec<u8> {
    (0..len).map(|_| rng.next_u64() as u8).collect()
}

/// A frame as an encoder makes it.
fn frame(codec: Codec, key: bool, len: usize, rng: &mut Rng) -> Vec<u8> {
    let mut frame = bytes(len, rng);
    match codec {
        Codec::Vp8 => frame[0] = frame[0] & 0xfe | u8::from(!key),
        Codec::Opaque => {}
        Codec::H264 => {
            // No start code in the slice, no zero at its end; the first macroblock is number 0.
            frame.iter_mut().for_each(|byte| *byte |= 1);
            frame[0] |= 0x80;
            let mut unit = Vec::new();
            if key {
                unit.extend([0, 0, 0, 1, 0x67, 0x42, 0xc0, 0x1f, 0, 0, 0, 1, 0x68, 0xce]);
            }
            unit.extend([0, 0, 0, 1, if key { 0x65 } else { 0x41 }]);
            unit.append(&mut frame);
            frame = unit;
        }
    }
    frame
}

/// Packets, and which frame each belongs to.
type Packets = Vec<(usize, Vec<u8>)>;

/// Some frames and their packets.
fn stream(codec: Codec, sizes: &[usize], rng: &mut Rng) -> (Vec<Vec<u8>>, Packets) {
    let mut packetizer = Packetizer::new(codec, 7, rng);
    let mut packets = Vec::new();
    let frames: Vec<Vec<u8>> =
        sizes.iter().enumerate().map(|(index, &len)| frame(codec, index % 5 == 0, len, rng)).collect();
    for (index, frame) in frames.iter().enumerate() {
        let created = Time::ZERO + Duration::from_millis(16).saturating_mul(index as u64);
        packetizer.packetize(created, frame, |packet| packets.push((index, packet.to_vec())));
    }
    (frames, packets)
}

proptest! {
    /// Frames come out as they went in; those of which a packet is missing do not, and no others are missing.
    #[test]
    fn exactly_the_frames_without_loss_come_out_whole(
        seed: u64,
        codec in prop::sample::select(Codec::ALL.to_vec()),
        sizes in prop::collection::vec(1_usize..6_000, 1..20),
        loss in 0_u64..40,
        reordered: bool,
    ) {
        let mut rng = Seed::new(seed).stream("rtp");
        let (frames, packets) = stream(codec, &sizes, &mut rng);
        let mut lost = vec![false; frames.len()];
        let mut kept: Vec<_> = packets.into_iter().filter(|(index, _)| {
            let drop = rng.below(100) < loss;
            lost[*index] |= drop;
            !drop
        }).collect();
        if reordered {
            // Near enough to stay within the window.
            for at in 1..kept.len() {
                kept.swap(at, at - rng.below(at.min(8) as u64 + 1) as usize);
            }
        }
        let mut assembler = FrameAssembler::new(codec);
        let mut whole: Vec<RtpFrame> = Vec::new();
        for (_, packet) in &kept {
            assembler.handle_input(&View::new_checked(packet).unwrap());
            whole.extend(std::iter::from_fn(|| assembler.poll_frame()));
        }
        for frame in &whole {
            prop_assert!(frames.contains(&frame.data), "a frame that was never sent");
        }
        for (index, frame) in frames.iter().enumerate() {
            let arrived = whole.iter().any(|one| &one.data == frame);
            // What is no codec's is known to begin only by the frame before it; H.264's key frames by their parameter sets.
            let known = codec != Codec::Opaque || (index > 0 && !lost[index - 1]);
            prop_assert!(!(lost[index] && arrived), "frame {index} lost a packet");
            prop_assert!(lost[index] || arrived || !known, "frame {index} of {codec:?} is missing");
        }
        prop_assert_eq!(assembler.stats().frames, whole.len() as u64);
    }

    #[test]
    fn no_packet_makes_the_assembler_panic(packets in prop::collection::vec(
        (any::<u16>(), any::<bool>(), 0_u32..4, prop::collection::vec(any::<u8>(), 0..12)), 0..60,
    )) {
        for codec in Codec::ALL {
            let mut assembler = FrameAssembler::new(codec);
            for (sequence, marker, timestamp, payload) in &packets {
                let header = taut_wire::rtp::Repr {
                    marker: *marker, sequence: *sequence, timestamp: *timestamp, ..Default::default()
                };
                let mut packet = Vec::new();
                header.emit(&mut packet);
                packet.extend(payload);
                assembler.handle_input(&View::new_checked(&packet).unwrap());
            }
            let stats = assembler.stats();
            let counted = stats.packets + stats.malformed + stats.duplicates + stats.late + stats.discarded;
            let waiting = packets.len() as u64 - counted;
            prop_assert!(waiting <= FrameAssembler::WINDOW);
        }
    }
}

#[test]
fn key_frames_are_told_from_others() {
    for codec in [Codec::Vp8, Codec::H264] {
        let mut rng = Seed::new(3).stream("rtp");
        let (_, packets) = stream(codec, &[5_000, 300, 2_000, 10, 10, 5_000], &mut rng);
        let mut assembler = FrameAssembler::new(codec);
        let kinds: Vec<FrameKind> = packets
            .iter()
            .filter_map(|(_, packet)| {
                assembler.handle_input(&View::new_checked(packet).unwrap());
                assembler.poll_frame()
            })
            .map(|frame| frame.kind)
            .collect();
        let key_at = |index| if index % 5 == 0 { FrameKind::Key } else { FrameKind::Delta };
        assert_eq!(kinds, (0..6).map(key_at).collect::<Vec<_>>(), "{codec:?}");
    }
}

#[test]
fn a_packet_older_than_the_window_is_late_and_memory_stays_bounded() {
    let mut rng = Seed::new(3).stream("rtp");
    let (_, packets) = stream(Codec::Opaque, &vec![1; 70_000], &mut rng);
    let mut assembler = FrameAssembler::new(Codec::Opaque);
    for (_, packet) in &packets {
        assembler.handle_input(&View::new_checked(packet).unwrap());
        assembler.poll_frame();
        assert!(assembler.held() as u64 <= FrameAssembler::WINDOW);
    }
    // All but the first, of which nobody knows whether it began a frame.
    assert_eq!(assembler.stats().frames, 69_999);
    let early = &packets[packets.len() - FrameAssembler::WINDOW as usize - 1].1;
    assembler.handle_input(&View::new_checked(early).unwrap());
    assert_eq!(assembler.stats().late, 1);
    let newest = &packets.last().unwrap().1;
    assembler.handle_input(&View::new_checked(newest).unwrap());
    assert_eq!(assembler.stats().duplicates, 1);
}

/// RFC 3550 appendix A.1: an encoder that starts again, a recording that begins anew, another camera.
#[test]
fn a_sender_that_begins_anew_is_believed_with_its_second_packet() {
    let mut rng = Seed::new(5).stream("rtp");
    let sizes = vec![3_000; 40];
    let (_, packets) = stream(Codec::Vp8, &sizes, &mut rng);
    for (back, ssrc) in [(20_000_u16, 7), (40_000, 7), (0, 8)] {
        let mut assembler = FrameAssembler::new(Codec::Vp8);
        let mut input = |packet: &[u8]| {
            assembler.handle_input(&View::new_checked(packet).unwrap());
            std::iter::from_fn(|| assembler.poll_frame()).count()
        };
        let before: usize = packets.iter().map(|(_, packet)| input(packet)).sum();
        let anew = |packet: &[u8]| {
            let view = View::new_checked(packet).unwrap();
            let repr = view.repr();
            let header = taut_wire::rtp::Repr { ssrc, sequence: repr.sequence.wrapping_sub(back), ..repr };
            let mut bytes = Vec::new();
            header.emit(&mut bytes);
            bytes.extend(view.payload());
            bytes
        };
        // One packet from elsewhere is only a bad packet.
        assert_eq!(input(&anew(&packets[9].1)), 0);
        let after: usize = packets.iter().map(|(_, packet)| input(&anew(packet))).sum();
        assert_eq!((before, after), (40, 40), "{back} {ssrc}");
        assert_eq!((assembler.stats().restarts, assembler.stats().late), (1, 1));
    }
}
