//! Packets of the stream, and frames, that are lost beside TCP. Ours: the paper derives no loss.
//!
//! TCP fills the queue until a segment finds no room, and hears of it a round trip later, 2τ + B/μ. So long the queue is as full after
//! each burst of n segments as when the segment was refused: what is left of it is less than a segment, S_tcp, anything below it alike
//! likely, and grows by μ − R until the next burst, n S_tcp/(μ − R) later. A packet of S_h ≤ S_tcp that comes then finds no room with
//!
//! q = S_h²/(2 n S_tcp²), where the stream's phase against the bursts is random.
//!
//! Between losses lie c round trips, (3), in the mean 3/4 as long as the one with the full queue (by (1), c windows of 3/2 W_min in the
//! mean at μ − R take 3/4 c (2τ + B/μ)), that one, and one of recovery. So the stream loses
//!
//! p = q/(3c/4 + 2),
//!
//! and a frame of k packets is lost with any one of them: 1 − (1 − p)^k.
//!
//! Limits: this is a mean over phases. In one run flows of constant rate keep theirs, and lose between nothing and [`PHASES`] times p.
//! Losses of one round trip often meet in one frame, so that frames lose rather less than this. Packets as long as TCP's take part in
//! filling the queue, and lose a third of it or less.

use serde::Serialize;
use taut_core::{Bytes, Duration};

use super::equations::Acks;
use super::{FixedFragment, MediaRates, SharedLink};

/// So many times p a run loses at most whose phases stand. Ours: 2.8 was the most in simulations of R = 1.096 to 5.5 Mbit/s on 6 Mbit/s
/// with 1, 2 and 4 TCP flows.
pub const PHASES: f64 = 3.0;

/// Frames that are lost, where phases are random; as fractions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FrameLoss {
    /// Packets of the stream that carry one audio frame, and how many of these are lost; `None` without audio.
    pub audio: Option<Frames>,
    /// The same of video.
    pub video: Option<Frames>,
}

/// Frames of one medium.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Frames {
    /// k: packets with a part of one frame.
    pub packets: u64,
    /// The fraction of frames that are lost.
    pub lost: f64,
}

/// p: the fraction of the stream's packets of `packet` bytes that are lost beside TCP whose cycle is `c` slots, (3).
pub fn packet_loss(packet: Bytes, acks: Acks, c: f64) -> f64 {
    let (stream, tcp) = (packet.get() as f64, acks.segment.get() as f64);
    // For how many bytes that the link takes, of those between two bursts.
    let waits = if stream <= tcp { stream * stream / (2.0 * tcp) } else { stream - tcp / 2.0 };
    let q = (waits / (f64::from(acks.every) * tcp)).min(1.0);
    q / (0.75 * c + 2.0)
}

/// Of frames, where the stream loses `p` of its packets.
pub(super) fn frame_loss(
    link: &SharedLink,
    multiplexer: FixedFragment,
    media: MediaRates,
    p: f64,
) -> FrameLoss {
    let frames = |packets: u64| Frames { packets, lost: 1.0 - libm::pow(1.0 - p, packets as f64) };
    let fragment = multiplexer.fragment;
    // Audio goes first: video has what it leaves.
    let left = fragment.saturating_sub(media.audio * link.stream.period).get().max(1);
    let video = |period: Duration| {
        let all = (period.as_nanos() / link.stream.period.as_nanos().max(1)).max(1);
        (media.video * period).get().div_ceil(left).clamp(1, all)
    };
    FrameLoss {
        audio: multiplexer.audio_frame.map(|frame| frames(frame.get().div_ceil(fragment.get()).max(1))),
        video: multiplexer.video_period.map(|period| frames(video(period))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TCP: Acks = Acks { segment: Bytes::new(578), every: 2, flows: 1 };

    /// R = 3 Mbit/s on the paper's link: c = 12.25.
    #[test]
    fn small_packets_lose_by_the_square_of_their_length() {
        let p = packet_loss(Bytes::new(137), TCP, 12.25);
        let q = 137.0 * 137.0 / (4.0 * 578.0 * 578.0);
        assert!((p - q / 11.1875).abs() < 1e-12, "{p}");
        let twice = packet_loss(Bytes::new(274), TCP, 12.25);
        assert!((twice / p - 4.0).abs() < 1e-9);
    }

    #[test]
    fn no_more_than_all_that_come_to_a_full_queue_are_lost() {
        assert!((packet_loss(Bytes::new(9_000), TCP, 2.0) - 1.0 / 3.5).abs() < 1e-12);
    }
}
