//! The program and the model in Rust say the same of a million packets, whatever the knobs are turned to in between.

use std::net::IpAddr;

use taut_core::{Rng, Seed};
use taut_link::frame_gate::{Account, Filter, Gate, Knobs, Room, Settings, StreamKey, Verdict};
use taut_wire::rtp::Codec;
use taut_xdp::{Maps, Program, VideoFilter};

use crate::classify::classify;
use crate::frames::Frames;
use crate::loaded;

fn filters() -> [(Filter, Option<IpAddr>); 4] {
    let only = |text: &str| Some(text.parse().unwrap());
    [
        (Filter::port(5004), None),
        (Filter::port(5006).payload_type(97).codec(Codec::H264), only("10.0.0.2")),
        (Filter::port(5006).codec(Codec::Vp8), only("fd00::2")),
        (Filter::port(5008).codec(Codec::Opaque), None),
    ]
}

/// The program with these.
fn with_filters() -> Option<Program> {
    let filters = filters().map(|(filter, only)| {
        let filter = VideoFilter::new(filter);
        only.map_or(filter, |only| filter.to(only))
    });
    loaded(&filters)
}

fn settings(rng: &mut Rng) -> Settings {
    let mut room = || Room { before: rng.below(20_000), with: rng.below(60_000) };
    let rooms = [room(), room(), room()];
    let by_deadline = rng.below(2) == 0;
    let rate = [0, rng.below(10_000_000), rng.below(1 << 31)][rng.below(3) as usize];
    let rate_limit = [u64::MAX, 0, rng.below(100_000), rng.below(1_000_000)][rng.below(4) as usize];
    Settings { rate_limit, by_deadline, rate, rooms }
}

/// Turns the knobs of both.
fn turn(rng: &mut Rng, maps: &mut Maps, model: &mut Gate, orders: &mut Settings) {
    match rng.below(8) {
        0 => {
            *orders = settings(rng);
            maps.set(*orders);
            model.set(*orders);
        }
        1 => {
            // Later than the gate's last look: what it could have sent meanwhile is counted.
            let (bytes, at) = (rng.below(60_000), maps.drained_at_ns() + rng.below(1_000));
            maps.set_level(at, bytes);
            model.set_level(at, bytes);
        }
        2 => {
            let known: Vec<StreamKey> = model.streams().keys().copied().collect();
            let key = known.get(rng.below(known.len() as u64) as usize).copied().unwrap_or_default();
            maps.forget(key);
            model.forget(key);
        }
        _ => {
            maps.reset_count();
            model.reset_count();
        }
    }
    maps.check().unwrap();
}

fn compare(maps: &mut Maps, model: &Gate, place: usize) {
    let streams: Vec<_> = model.streams().iter().map(|(key, stream)| (*key, *stream)).collect();
    let kernel = maps.streams();
    assert_eq!(kernel.len(), streams.len(), "after packet {place}");
    for (kernel, model) in kernel.iter().zip(&streams) {
        assert_eq!(kernel, model, "after packet {place}");
    }
    assert_eq!((maps.byte_count(), maps.untracked()), (model.byte_count(), model.untracked()));
}

/// So many packets of so many streams.
fn agree(program: &mut Program, packets: usize, streams: usize, seed: u64) {
    let seed = Seed::new(seed);
    let mut rng = seed.stream("knobs");
    let mut frames = Frames::new(streams, seed.stream("frames"));
    let mut model = Gate::new();
    let mut orders = Settings::default();
    let (mut video, mut dropped) = (0, 0);
    for place in 0..packets {
        if rng.below(25) == 0 {
            turn(&mut rng, program.maps(), &mut model, &mut orders);
        }
        let frame = frames.next_frame();
        let verdict = program.verdict(&frame).unwrap();
        let expected = match classify(&filters(), &frame) {
            None => Verdict::Pass,
            Some(packet) => {
                video += 1;
                // The program reads the clock where a frame begins, and says what it read.
                let now = if orders.by_deadline { program.maps().drained_at_ns() } else { 0 };
                let expected = model.handle_packet(now, &packet);
                let stream = model.streams().get(&packet.key()).copied();
                assert_eq!(
                    program.maps().stream(packet.key()),
                    stream,
                    "{seed:?}, packet {place}: {frame:02x?}"
                );
                if orders.by_deadline {
                    let Account { level, unused, .. } = model.account(now);
                    assert_eq!(program.maps().level_then(), (level, unused), "packet {place}");
                }
                expected
            }
        };
        dropped += u64::from(expected == Verdict::Drop);
        assert_eq!(verdict, expected, "{seed:?}, packet {place}: {frame:02x?}");
        if place % 5_000 == 0 {
            compare(program.maps(), &model, place);
        }
    }
    compare(program.maps(), &model, packets);
    println!("{packets} packets, {video} of video, {dropped} dropped, {} untracked", model.untracked());
    assert!(video * 10 > packets as u64 * 4 && dropped * 10 > video && dropped * 10 < video * 9);
}

#[test]
fn packets_have_the_same_verdict_in_the_kernel_and_in_the_model() {
    have_the_same_verdict([200_000, 30_000]);
}

#[test]
#[ignore = "make test-long"]
fn a_million_packets_have_the_same_verdict_in_the_kernel_and_in_the_model_at_length() {
    have_the_same_verdict([900_000, 100_000]);
}

fn have_the_same_verdict(packets: [usize; 2]) {
    for (packets, (share, seed)) in packets.into_iter().zip([(5, 1), (90, 2)]) {
        let Some(mut program) = with_filters() else { return };
        agree(&mut program, packets, share, seed);
    }
}

#[test]
fn a_filter_takes_what_it_names_and_nothing_else() {
    let Some(program) = with_filters() else { return };
    // The model's classification is compared with the program's by the packets that it counts.
    let mut program = program;
    let mut frames = Frames::new(1, Seed::new(3).stream("frames"));
    for _ in 0..2_000 {
        let frame = frames.next_frame();
        let before: u64 = program.maps().streams().iter().map(|(_, s)| s.passed_packets).sum();
        program.verdict(&frame).unwrap();
        let after: u64 = program.maps().streams().iter().map(|(_, s)| s.passed_packets).sum();
        assert_eq!(after - before, u64::from(classify(&filters(), &frame).is_some()), "{frame:02x?}");
    }
}
