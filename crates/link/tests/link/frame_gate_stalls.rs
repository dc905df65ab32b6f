//! The frame gate before a link that stands almost still for a while: what was learned then must not last.

use taut_core::{Bitrate, Bytes};
use taut_link::frame_gate::{Filter, FrameGate, GateConfig, Policy};
use taut_link::{Bottleneck, Chain, DropTail, Schedule};

use crate::driver::{Calls, at, ms, run};
use crate::frame_gate::{outcome, session};

/// Whole frames of the last 20 s of 50, when the link has `meanwhile` bit/s for two seconds in between.
fn frames_after(meanwhile: u64) -> u64 {
    let rate = Bitrate::from_bps;
    let rows = vec![(ms(0), rate(1_200_000)), (ms(15_000), rate(meanwhile)), (ms(17_000), rate(1_200_000))];
    let queue = DropTail::default().limit_bytes(Bytes::new(50_000));
    let link = Bottleneck::new(Schedule::table(rows).unwrap(), queue);
    let gate = FrameGate::new(vec![Filter::port(5004)], GateConfig::new(Policy::Deadline));
    // Force has a link of its own: all that is left for video is the schedule's.
    let mut arrivals = session(50);
    arrivals.retain(|(_, packet)| !packet.payload.is_empty());
    let run = run(&mut Chain::new(vec![gate.into(), link.into()]), arrivals.clone(), Calls::Exact);
    outcome(&arrivals, &run, at(ms(30_000))).frames
}

#[test]
fn a_link_that_stood_still_is_known_again_soon() {
    let steady = frames_after(1_200_000);
    for meanwhile in [1_000, 50_000, 300_000] {
        let frames = frames_after(meanwhile);
        println!("{meanwhile} bit/s for two seconds: {frames} frames, without {steady}");
        assert!(frames * 20 > steady * 19, "{meanwhile}: {frames} of {steady}");
    }
}
