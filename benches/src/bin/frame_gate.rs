//! What the frame gate costs a packet: `cargo run --release -p taut-benches --bin frame_gate` (needs root).
//!
//! The gate's program and one that does nothing take turns in one run (`BPF_PROG_TEST_RUN`, a million packets each time);
//! what counts is the difference between the least of each, for what else the machine does only ever adds. Most packets
//! belong to a frame that is judged already; the dear ones begin one: they read the clock, account and decide. There the empty
//! program, too, rewrites timestamp and sequence number. Ends with an error when a packet costs more than 60 ns beyond the
//! empty program.
#![expect(clippy::print_stdout, reason = "a measurement, for people to read")]

use std::process::ExitCode;
use std::time::Duration;

use taut_link::frame_gate::{Filter, Knobs, Room, Settings};
use taut_wire::rtp::Codec;
use taut_xdp::{GateError, Program, VideoFilter};

const ROUNDS: usize = 20;
const PACKETS: u32 = 1_000_000;
const MOST_NS: u128 = 60;

fn main() -> Result<ExitCode, GateError> {
    let filters = [Filter::port(5004), Filter::port(5006).codec(Codec::H264)].map(VideoFilter::new);
    let mut program = match Program::load(&filters) {
        Err(error @ (GateError::NotBuilt | GateError::NotPermitted | GateError::NoXdp)) => {
            println!("skipped: {error}");
            return Ok(ExitCode::SUCCESS);
        }
        loaded => loaded?,
    };
    let room = Room { before: u64::MAX / 4, with: u64::MAX / 2 };
    let by_limit = Settings::default();
    let by_deadline = Settings { by_deadline: true, rate: 125_000, rooms: [room; 3], ..by_limit };
    let closed = Settings { rooms: [Room { before: 0, with: u64::MAX / 2 }; 3], rate: 1, ..by_deadline };
    let (vp8, h264): (&[u8], &[u8]) = (&[0x90, 0x80, 0x80, 0x01, 0x10], &delimited());
    let first = Program::time_of_first;
    let cases: [(&str, Settings, Vec<u8>, Time); 10] = [
        ("the clock alone", by_limit, frame(6, 5004, vp8), Program::time_of_clock),
        ("not UDP", by_limit, frame(6, 5004, vp8), Program::time),
        ("another port", by_limit, frame(17, 5005, vp8), Program::time),
        ("by limit", by_limit, frame(17, 5004, vp8), Program::time),
        ("by deadline", by_deadline, frame(17, 5004, vp8), Program::time),
        ("by limit, begins a frame", by_limit, frame(17, 5004, vp8), first),
        ("by deadline, begins a frame", by_deadline, frame(17, 5004, vp8), first),
        ("… that is refused", closed, frame(17, 5004, vp8), first),
        ("… of H.264, a slice", by_deadline, frame(17, 5006, &[0x41, 0x9a]), first),
        ("… behind three units", by_deadline, frame(17, 5006, h264), first),
    ];
    let mut worst = 0;
    for (name, settings, frame, time) in cases {
        program.maps().set(settings);
        let mut least = [u128::MAX; 2];
        for _ in 0..ROUNDS {
            for (least, taken) in least.iter_mut().zip(time(&mut program, &frame, PACKETS)?) {
                *least = (*least).min(taken.as_nanos());
            }
        }
        let [gate, empty] = least;
        let beyond = gate.saturating_sub(empty);
        worst = worst.max(beyond);
        println!("{name:<28} {gate:>4} ns, empty program {empty:>4} ns: {beyond:>3} ns more");
    }
    Ok(if worst <= MOST_NS { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What measures.
type Time = fn(&mut Program, &[u8], u32) -> Result<[Duration; 2], GateError>;

/// A STAP-A with three delimiters before the slice: as many units as are looked at.
fn delimited() -> Vec<u8> {
    [&[0x78][..], &[0, 2, 0x09, 0xf0].repeat(3), &[0, 2, 0x41, 0x9a]].concat()
}

/// Ethernet, IPv4, UDP (by its number), RTP with this payload.
fn frame(protocol: u8, port: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; 12];
    frame.extend([0x08, 0x00]);
    frame.extend([0x45, 0, 0x04, 0xb0, 0, 0, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([0x04, 0xd2]);
    frame.extend(port.to_be_bytes());
    frame.extend([0x04, 0x9c, 0, 0]);
    frame.extend([0x80, 0x60, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1]);
    frame.extend(payload);
    frame.resize(1_214, 0);
    frame
}
