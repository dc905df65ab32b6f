//! What seems to be wrong with what a gate was told is video, by what it counts.

use taut_core::{Duration, Time};
use taut_link::frame_gate::{Stream, StreamKey};
use taut_wire::rtp::{Codec, FrameKind};

use super::VideoFilter;
use super::classify::MAX_FILTERS;

/// Looks whether each filter takes something, and whether that is video of its codec.
pub(crate) struct Doubts {
    device: String,
    since: Time,
    /// Filters that have taken something. Streams are forgotten, this is not.
    taken: [bool; MAX_FILTERS],
    notes: Vec<String>,
}

/// Before this nothing is said.
const PATIENCE: Duration = Duration::from_secs(5);
/// Of so many frames one is a key frame, with most senders: 10 s at 30 frames/s.
const FRAMES_WITH_A_KEY: u64 = 300;

impl Doubts {
    /// Of a gate at `device` since `now`.
    pub(crate) fn new(device: &str, now: Time) -> Self {
        Self { device: device.to_owned(), since: now, taken: [false; MAX_FILTERS], notes: Vec::new() }
    }

    /// A line for each doubt, as of the last [`Doubts::look`]. The same doubt is the same line.
    pub(crate) fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Looks at all `streams`; `by_deadline`: does the policy ask what a frame is? `untracked`: are there streams that it has
    /// no place for?
    pub(crate) fn look(
        &mut self,
        now: Time,
        filters: &[VideoFilter],
        streams: &[(StreamKey, Stream)],
        by_deadline: bool,
        untracked: bool,
    ) {
        for (key, _) in streams {
            self.taken[usize::from(key.filter)] = true;
        }
        self.notes.clear();
        if now.saturating_since(self.since) < PATIENCE {
            return;
        }
        let none = filters.iter().zip(self.taken).filter(|(_, taken)| !taken && !untracked);
        let (device, none) = (&self.device, none.map(|(filter, _)| filter));
        self.notes.extend(none.map(|filter| {
            format!(
                "no RTP to {filter} has come in at {device} yet; is it another device or port, or not RTP?"
            )
        }));
        let strange = streams.iter().filter(|_| by_deadline).filter_map(|(key, stream)| {
            let filter = &filters[usize::from(key.filter)];
            let question = without_key_frames(filter.codec(), stream)?;
            Some(format!("{filter}, SSRC {:#010x}: {question}", key.ssrc))
        });
        self.notes.extend(strange);
    }
}

/// The question whether this is another codec, where no key frame was seen among many frames.
fn without_key_frames(codec: Codec, stream: &Stream) -> Option<&'static str> {
    if stream.frames() < FRAMES_WITH_A_KEY || stream.has_had(FrameKind::Key) {
        return None;
    }
    match codec {
        Codec::Vp8 => Some("no key frame of VP8 yet; is it VP8? --codec h264, --codec opaque"),
        Codec::H264 => Some("no key frame of H.264 yet; is it H.264? --codec vp8, --codec opaque"),
        Codec::Opaque => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use taut_link::frame_gate::{Filter, Gate, Knobs, Settings, VideoPacket};

    const FILTERS: [VideoFilter; 2] =
        [VideoFilter::new(Filter::port(5004)), VideoFilter::new(Filter::port(5006).codec(Codec::H264))];

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    /// Frames of one packet each, of these kinds, by deadline, to the second filter.
    fn streams(kinds: impl IntoIterator<Item = Option<FrameKind>>) -> Vec<(StreamKey, Stream)> {
        let mut gate = Gate::new();
        gate.set(Settings { by_deadline: true, ..Settings::default() });
        for (sequence, kind) in (0..).zip(kinds) {
            let timestamp = u32::from(sequence) * 3_000;
            let packet =
                VideoPacket { filter: 1, ssrc: 7, sequence, timestamp, marker: true, kind, size: 1_000 };
            gate.handle_packet(0, &packet);
        }
        gate.streams().iter().map(|(key, stream)| (*key, *stream)).collect()
    }

    fn notes(now: Time, streams: &[(StreamKey, Stream)], by_deadline: bool) -> Vec<String> {
        let mut doubts = Doubts::new("in", Time::ZERO);
        doubts.look(now, &FILTERS, streams, by_deadline, false);
        doubts.notes().to_vec()
    }

    #[test]
    fn a_filter_that_has_taken_nothing_is_doubted_after_five_seconds() {
        let none = |filter: &str| {
            format!("no RTP to {filter} has come in at in yet; is it another device or port, or not RTP?")
        };
        assert!(notes(at(4), &[], true).is_empty());
        assert_eq!(notes(at(5), &[], true), [none("udp:5004"), none("udp:5006,codec=h264")]);
        assert_eq!(notes(at(5), &streams([Some(FrameKind::Key)]), false), [none("udp:5004")]);
        // A stream that was forgotten has been there.
        let mut doubts = Doubts::new("in", Time::ZERO);
        doubts.look(at(1), &FILTERS, &streams([None]), true, false);
        doubts.look(at(20), &FILTERS, &[], true, false);
        assert_eq!(doubts.notes(), [none("udp:5004")]);
        // So may have been one that there is no place for.
        doubts.look(at(20), &FILTERS, &[], true, true);
        assert!(doubts.notes().is_empty());
    }

    #[test]
    fn many_frames_without_a_key_frame_may_be_another_codec() {
        let asks = "udp:5006,codec=h264, SSRC 0x00000007: no key frame of H.264 yet; is it H.264? \
                    --codec vp8, --codec opaque";
        let told =
            |streams: &[(StreamKey, Stream)], by_deadline| notes(at(60), streams, by_deadline)[1..].to_vec();
        assert_eq!(told(&streams([None; 300]), true), [asks]);
        assert_eq!(told(&streams([Some(FrameKind::Delta); 300]), true), [asks]);
        assert!(told(&streams([None; 299]), true).is_empty());
        let one_key = [Some(FrameKind::Key)].into_iter().chain([Some(FrameKind::Delta); 2_000]);
        assert!(told(&streams(one_key), true).is_empty());
        // Nobody asks by the other policies.
        assert!(told(&streams([None; 300]), false).is_empty());
    }
}
