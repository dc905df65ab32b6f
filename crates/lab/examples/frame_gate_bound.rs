//! What one could do who knew every frame beforehand: the most frames that a gate of any kind can let through a narrow link, so
//! that they wait no longer than so and so in the mean.
//!
//!     cargo run -p taut-lab --example frame_gate_bound -- 1.25:13.7 1.5:10.3
//!     cargo run -p taut-lab --example frame_gate_bound -- --pcap out/traces/video.pcap 1.5:6
//!
//! Each argument is a bandwidth in Mbit/s and a mean wait in ms. The load is that of `scenarios/haptic-video.toml`, or the frames of
//! a capture; the shaper has its bucket of 3 kB. A choice of frames is a path through the levels of the bucket: dynamic programming
//! over all of them finds the one with the most frames, less a price for what they wait. Whatever the price, no choice within the
//! mean wait has more frames than that sum allows (Lagrangian duality); the least over the prices is printed. Lengths and levels are
//! rounded down to a 256th of what the link sends between two frames, in favour of the bound.
#![expect(clippy::print_stdout, reason = "a table, for people to read")]

use std::error::Error;

use taut_core::{Duration, Seed, Time};
use taut_media::{Packetizer, TableFrame, VideoTable};
use taut_wire::rtp::{Codec, FrameKind, View};

const FPS: f64 = 60.0;
const BURST: f64 = 3_000.0;
/// Of IP and UDP, for each packet.
const HEADERS: usize = 28;
const STEPS: usize = 256;
/// In frame intervals: no frame waits for longer than this.
const LONGEST: usize = 30;

#[derive(Clone, Copy)]
struct Frame {
    bytes: f64,
    key: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let frames = match arguments.first().map(String::as_str) {
        Some("--pcap") => recorded(&arguments.drain(..2).nth(1).unwrap_or_default())?,
        _ => load(),
    };
    let mean = frames.iter().map(|frame| frame.bytes).sum::<f64>() / frames.len() as f64;
    println!(
        "{} frames, {:.0} bytes in the mean, {} key frames",
        frames.len(),
        mean,
        frames.iter().filter(|f| f.key).count()
    );
    println!("Mbit/s, mean wait ms: frames/s at most, any frames; with every key frame");
    for argument in &arguments {
        let (rate, wait) = argument.split_once(':').ok_or("MBIT:MS, such as 1.5:10")?;
        let (rate, wait): (f64, f64) = (rate.parse()?, wait.parse()?);
        let bytes_per_frame = rate * 1e6 / 8.0 / FPS;
        let [any, with_keys] =
            [false, true].map(|keys| most(&frames, bytes_per_frame, wait / 1_000.0 * FPS, keys));
        let shown = |frames_per_second: Option<f64>| {
            frames_per_second.map_or("none".into(), |fps| format!("{fps:.2}"))
        };
        println!("{rate}, {wait}: {}; {}", shown(any), shown(with_keys));
    }
    Ok(())
}

/// The load of the scenario: the table at 1.6 Mbit/s, 241 s of it.
fn load() -> Vec<Frame> {
    let table = VideoTable::vp8_25fps_400k();
    let natural = table.mean_rate(Duration::from_nanos((1e9 / FPS) as u64));
    let scale = 1.6e6 / natural.as_bps() as f64;
    let mut packetizer =
        Packetizer::new(Codec::Vp8, 7, &mut Seed::new(1).stream("rtp")).max_packet(1_228 - HEADERS);
    let frame = |frame: &TableFrame| {
        let mut bytes = 0;
        let length = (frame.size.get() as f64 * scale).round() as usize;
        packetizer.packetize(Time::ZERO, &vec![0; length], |packet| bytes += packet.len() + HEADERS);
        Frame { bytes: bytes as f64, key: frame.key }
    };
    let one: Vec<Frame> = table.frames().iter().map(frame).collect();
    one.iter().copied().cycle().take((241.0 * FPS) as usize).collect()
}

/// The frames of a capture, in its order.
fn recorded(file: &str) -> Result<Vec<Frame>, Box<dyn Error>> {
    let mut frames: Vec<(u32, Frame)> = Vec::new();
    for datagram in taut_trace::datagrams(file, &std::fs::read(file)?)? {
        let Ok(view) = View::new_checked(&datagram.payload[..]) else { continue };
        let timestamp = view.repr().timestamp;
        let bytes = datagram.length.get() as f64 + HEADERS as f64;
        match frames.last_mut() {
            Some((last, frame)) if *last == timestamp => frame.bytes += bytes,
            _ => {
                let key = Codec::Vp8.kind(view.payload()) == FrameKind::Key;
                frames.push((timestamp, Frame { bytes, key }));
            }
        }
    }
    Ok(frames.into_iter().map(|(_, frame)| frame).collect())
}

/// Frames per second at most, with this mean wait in frame intervals: the least of the bounds that prices give. `None`: it cannot be.
fn most(frames: &[Frame], bytes_per_frame: f64, wait: f64, keys: bool) -> Option<f64> {
    let bound = |price: f64| at_price(frames, bytes_per_frame, price, wait, keys);
    // The bound is convex in the price.
    let (mut low, mut high) = (0.0, 4.0);
    for _ in 0..14 {
        let (left, right) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
        if bound(left) < bound(right) { high = right } else { low = left }
    }
    let least = bound(0.0).min(bound((low + high) / 2.0));
    (least > 0.0).then(|| least * FPS / frames.len() as f64)
}

/// The most of frames, less `price` for every interval that they wait beyond `wait`.
fn at_price(frames: &[Frame], bytes_per_frame: f64, price: f64, wait: f64, keys: bool) -> f64 {
    let step = bytes_per_frame / STEPS as f64;
    let burst = BURST / bytes_per_frame;
    let levels = ((LONGEST as f64 + burst) * STEPS as f64) as usize;
    // What can still be had, by the level after the frame.
    let mut after = vec![0.0_f64; levels];
    let mut before = vec![0.0_f64; levels];
    for frame in frames.iter().rev() {
        let length = (frame.bytes / step) as usize;
        for level in 0..levels {
            let refused =
                if keys && frame.key { f64::NEG_INFINITY } else { after[level.saturating_sub(STEPS)] };
            let full = level + length;
            let sent = if full < levels {
                let waits = (full as f64 / STEPS as f64 - burst).max(0.0);
                1.0 - price * (waits - wait) + after[full.saturating_sub(STEPS)]
            } else {
                f64::NEG_INFINITY
            };
            before[level] = refused.max(sent);
        }
        std::mem::swap(&mut before, &mut after);
    }
    after[0]
}
